//! Forward–backward on chains and semi-Markov chains.
//!
//! Z = Σₓ exp score(x) over the N^T sequences of states is a product of matrices: messages are passed from
//! position to position forward and backward, and everything else follows from them: node and edge marginals
//! (the gradient of log Z), entropy and divergences with their gradients, the best path (max for sum), the k
//! best (lazily, Jiménez & Marzal 1999), exact samples. Messages are exponentiated only to be multiplied with
//! the transition matrix, for a whole batch at once; an entry that may have lost mass to underflow is summed
//! again in the log domain, so nothing finite is ever lost.
//!
//! Time O(B·T·N²), factored transitions O(B·T·N²·D) without a table; memory O(B·T·N) beside the model and its
//! matrix, or O(B·√(T·L)·N) for gradients with `checkpoint` (L = 1 for chains), at the price of one more
//! sweep. Exact; the rounding allowance is that of the model's precision. A sequence of a batch without any
//! path has log Z = −∞, entropy −∞ (and −∞ as its divergence from any other), no path, no sample and a zero
//! gradient; if no sequence has one, as with a single sequence, that is the error `zero-partition`. Only
//! `log_partition_with_tape` and `log_partition_and_gradient` give log Z = −∞ and a zero gradient even then.
//!
//! Differentiable operations are pairs: `…_with_tape` gives the value and a tape, `tape.vjp(cotangent)` the
//! gradient of Σ cotangent·value.
//!
//! References: L. Rabiner, *A tutorial on hidden Markov models*, Proc. IEEE 77 (1989); D. Hernando, V.
//! Crespi, G. Cybenko, *Efficient computation of the hidden Markov model entropy*, IEEE Trans. Inf. Theory 51
//! (2005); V. Jiménez, A. Marzal, *Computing the K shortest paths*, WAE (1999).
//!
//! ```
//! use zhat::{LogPartition, Run, exact::ForwardBackward, model::{Chain, Transitions}};
//! let emissions = vec![0.1, 0.2, 0.3, 0.4, 0.5, 0.6];
//! let transitions = Transitions::Shared(vec![0.0, 1.0, 1.0, 0.0].into());
//! let chain = Chain::crf(2, emissions.into(), vec![3], transitions)?;
//! let log_z = ForwardBackward::default().log_partition(&chain, &Run::default())?;
//! let (value, tape) = ForwardBackward::default().log_partition_with_tape(&chain, &Run::default())?;
//! assert!((value[0] - log_z.value[0]).abs() < 1e-12);
//! let gradient = tape.vjp(&[1.0])?;
//! assert!((gradient.emissions.iter().sum::<f64>() - 3.0).abs() < 1e-12);
//! # Ok::<(), zhat::Error>(())
//! ```

mod chain;
mod forecast;
mod memory;
mod paths;
mod recorded;
mod relaxed;
mod semi_markov;
mod tape;

use crate::options::options;
use serde::{Deserialize, Serialize};

pub use recorded::Recorded;
pub use relaxed::RelaxedTape;
pub use tape::{DivergenceTape, EntropyTape, LogPartitionTape};

pub(crate) const NAME: &str = "forward-backward";

/// Exact inference on chains and semi-Markov chains by messages forward and backward.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ForwardBackward {
    /// Keeps messages of √T positions at a time (of √(T·L) for segments of length L) and computes the others
    /// again: less memory for gradients.
    pub checkpoint: bool,
}

options!(ForwardBackward {});
