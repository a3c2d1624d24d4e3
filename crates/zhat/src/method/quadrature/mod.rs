//! Stochastic Clenshaw–Curtis quadrature: exp becomes a polynomial, and the sum over all states of a
//! polynomial of the score is a sum over tuples of factors that can be sampled, or carried out.

mod base;
mod choice;
mod draws;
mod mixed;
mod polynomial;
mod published;
mod remez;
mod residual;
mod stratified;
mod theorems;
mod tuples;
mod unranking;
mod weights;

pub use mixed::{GaussLegendre, MixedQuadrature, integral};
pub use polynomial::{Polynomial, least_degree};
pub use published::{Approximation, PublishedQuadrature};
pub use residual::{Form, StochasticQuadrature};
pub use theorems::{Needed, Norms, corrected, error_of, log_error, samples_as_printed};
pub use tuples::{Cliques, Sampler, Tuples};
