//! Stochastic Clenshaw–Curtis quadrature: exp becomes a polynomial, and the sum over all states of a polynomial of the
//! score is a sum over tuples of factors that can be sampled, or carried out.

mod polynomial;
mod remez;

pub use polynomial::{Polynomial, least_degree};
