//! Bounds on log Z of cyclic sequence models ([`SequenceMrf`](crate::model::SequenceMrf)) whose cost does not
//! depend on the length of the cycle.
//!
//! All positions are equivalent, so one star, or one matrix per distance, represents all of them.

mod annealed;
mod conditional;
mod passes;
mod product;
mod spectral;
mod star;
mod transfer;

pub use annealed::Annealed;
pub(crate) use conditional::{BATCH, Conditional};
pub(crate) use passes::Passes;
pub use spectral::Spectral;
pub(crate) use spectral::{Point, Vectors, checked_shares, evaluate};
pub(crate) use star::star;
pub use star::{Descent, Star};
pub use transfer::TransferMatrix;

use crate::answer::{Answer, Diagnostics, Estimate, Guarantee};
use crate::numeric::rounding_allowance;
use crate::run::Clock;

/// The result for a certified upper bound that already includes its rounding.
fn upper(best: Bounded, mut diagnostics: Diagnostics, clock: &Clock<'_>) -> Estimate {
    diagnostics.rounding = best.rounding;
    diagnostics.seconds = clock.seconds();
    let guarantee = Guarantee::bounds(f64::NEG_INFINITY, best.high, 1.0, 0.0);
    Answer { value: best.high, guarantee, diagnostics }
}

/// An upper bound that includes its rounding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bounded {
    pub high: f64,
    pub rounding: f64,
}

impl Bounded {
    /// N/(K+1)·log Z⋆ from log Z⋆ and its rounding.
    pub fn star((value, rounding): (f64, f64), length: usize, context: usize) -> Self {
        let factor = length as f64 / (context + 1) as f64;
        // The factor and the product are rounded too.
        let rounding = factor * rounding + rounding_allowance(4.0, (factor * value).abs());
        Bounded { high: factor * value + rounding, rounding }
    }
}
