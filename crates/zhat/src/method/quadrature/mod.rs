//! Stochastic Clenshaw–Curtis quadrature: exp is replaced by a polynomial. The sum over all states of a
//! polynomial of the score is a sum over tuples of factors, which can be sampled or computed exactly.

mod base;
mod choice;
mod draws;
pub(crate) mod mixed;
pub(crate) mod polynomial;
mod published;
mod remez;
mod residual;
mod stratified;
pub(crate) mod theorems;
pub(crate) mod tuples;
mod unranking;
mod weights;

pub use mixed::{GaussLegendre, MixedQuadrature};
pub use published::{Approximation, PublishedQuadrature};
pub use residual::{QuadratureForm, StochasticQuadrature};
pub use tuples::TupleSampler;
