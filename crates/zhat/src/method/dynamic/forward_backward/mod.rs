//! Forward–backward on chains and semi-Markov chains.
//!
//! Z = Σₓ exp score(x) over the N^T sequences of states is a product of matrices. The algorithm passes
//! messages forward and backward from position to position and derives from them node and edge marginals (the
//! gradient of log Z), entropy, divergences and expectations of additive scores with their gradients, the best
//! path (max instead of sum), the k best paths (lazily, Jiménez & Marzal 1999) and exact samples. Messages are exponentiated only for the
//! product with the transition matrix, which is computed for the whole batch at once. An entry that may have
//! lost mass to underflow is recomputed in the log domain, so no finite value is lost.
//!
//! Time O(B·T·N²), or O(B·T·N²·D) for factored transitions, which need no table. Memory O(B·T·N) in addition
//! to the model and its matrix, or O(B·√(T·L)·N) for gradients with `checkpoint` (L = 1 for chains), at the
//! cost of one more sweep. The result is exact up to the rounding of the model's precision. If a sequence of
//! a batch has no path, its log Z, its entropy and its divergence from any other distribution are −∞, it has
//! no best path and no samples, and its gradient is zero. If no sequence has a path, the result is the error
//! `zero-partition`, except that log Z as a differentiable operation is −∞ with a zero gradient.
//!
//! All operations of [`crate::query::Differentiable`] are supported.
//!
//! References: L. Rabiner, *A tutorial on hidden Markov models*, Proc. IEEE 77 (1989); D. Hernando, V.
//! Crespi, G. Cybenko, *Efficient computation of the hidden Markov model entropy*, IEEE Trans. Inf. Theory 51
//! (2005); V. Jiménez, A. Marzal, *Computing the K shortest paths*, WAE (1999).
//!
//! ```
//! use zhat::query::{Differentiable, Operation};
//! use zhat::{LogPartition, Run};
//! use zhat::dynamic::ForwardBackward;
//! use zhat::model::{Chain, Transitions};
//! let emissions = vec![0.1, 0.2, 0.3, 0.4, 0.5, 0.6];
//! let transitions = Transitions::Shared(vec![0.0, 1.0, 1.0, 0.0].into());
//! let chain = Chain::crf(2, emissions.into(), vec![3], transitions)?;
//! let log_z = ForwardBackward::default().log_partition(&chain, &Run::default())?;
//! let method = ForwardBackward::default();
//! let (value, tape) = method.differentiate(Operation::LogPartition, &[&chain], &Run::default())?;
//! assert!((value[0] - log_z.value[0]).abs() < 1e-12);
//! let gradient = tape.gradient(&[1.0])?;
//! assert!((gradient.emissions.iter().sum::<f64>() - 3.0).abs() < 1e-12);
//! # Ok::<(), zhat::Error>(())
//! ```

mod additive;
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

pub(in crate::method::dynamic) use recorded::check_numbers;
pub use relaxed::RelaxedTape;

pub(crate) const NAME: &str = "forward-backward";

/// Exact inference on chains and semi-Markov chains by forward and backward messages.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ForwardBackward {
    /// Keep only the messages of √T positions at a time (√(T·L) for segments of length up to L) and recompute
    /// the others: less memory for gradients.
    pub checkpoint: bool,
}

options!(ForwardBackward { checkpoint: bool });
