//! Quadrature for models with continuous variables.

mod cells;
mod density;
mod gauss;
mod method;
mod moments;
mod points;
mod range;
mod tensor;

pub use method::MixedQuadrature;
pub use moments::integral;
pub use tensor::GaussLegendre;
