//! Randomized dynamic programming: the exact algorithm on a few states of each position, chosen at random.
//!
//! For every sequence and position t a set Ωₜ of about K of the N states is chosen, with weights wₜ such that
//! sums over it are unbiased. Then
//!
//!   Ẑ = Σ_{x, xₜ∈Ωₜ} exp score(x) · Πₜ wₜ(xₜ),   E\[Ẑ\] = Z,
//!
//! is the partition function of a lattice of K states a position, and all that is known about exact lattices
//! follows for the estimate: its gradient, entropy log Ẑ − Ê\[score\], samples. The choice itself is outside
//! of every gradient. `proposal` and `proposals` say which states are likely to matter, `select` chooses from
//! that, `spread` takes messages from a few states to all, `restriction` is the lattice.
//!
//! Time O(T·K²) a replicate, and O(T·K·N) for proposals from messages (`forward`, `two-pass`), which are
//! worth it: their error is smaller by orders of magnitude. Memory O(T·K), and O(T·N) for `two-pass`.
//!
//! log Ẑ from R replicates: unbiased for Z, with the standard error of the replicates and the lower bound of
//! Markov's inequality that always holds. How many states a wanted error takes is found by pilot runs whose
//! draws are thrown away: to look at the error of the draws that are used would bias them. Gradients,
//! marginals and entropy are ratios of estimates: consistent, not unbiased. With the selection `top` nothing
//! is promised: it leaves all but the likeliest states out.
//!
//! If every replicate misses all paths of positive weight, Ẑ = 0: log Ẑ is −∞, with a warning in the
//! diagnostics. That is no error, because the mean over seeds would be biased without these values. There are
//! no samples then. Marginals are zero and entropy is −∞ for such a sequence of a batch; if there is no other
//! sequence, they have no estimate, which is the error `no-answer`. With all states kept Z = 0 is proved: the
//! error `zero-partition`.
//!
//! References: Y. Fu, J. P. Cunningham, M. Lapata, *Scaling structured inference with randomization*, ICML
//! (2022); P. Fearnhead, P. Clifford, *On-line inference for hidden Markov models via particle filters*, J.
//! R. Stat. Soc. B 65 (2003).
//!
//! ```
//! use zhat::model::generate::{Sharpness, rdp_chain};
//! use zhat::randomized::{RandomizedForward, States};
//! use zhat::{Chain, LogPartition, Run};
//! let chain: Chain = rdp_chain(1000, 10, 20, Sharpness::Dense, 1)?;
//! let method = RandomizedForward { states: States::Count(50), ..Default::default() };
//! let log_z = method.log_partition(&chain, &Run::default())?;
//! println!("{:?}: {}", log_z.value, log_z.guarantee);
//! # Ok::<(), zhat::Error>(())
//! ```

mod answers;
mod forecast;
mod method;
mod proposal;
mod proposals;
mod relaxed;
mod restriction;
mod select;
pub(crate) mod spread;
mod states;
mod tape;

pub use method::{Choice, RandomizedForward};
pub use proposal::{Proposal, Support};
pub(crate) use proposal::{global_scores, mixture, weighted};
pub use relaxed::{RelaxedTape, SparseCotangent, SparsePath, SparseSamples};
pub(crate) use select::Order;
pub use select::{Chosen, Selection};
pub use states::States;
pub use tape::{EntropyTape, LogPartitionTape};
