//! Randomized dynamic programming: the exact algorithm on a small random subset of the states at each
//! position.
//!
//! For each sequence and position t, a set Ωₜ of about K of the N states is chosen at random, with weights wₜ
//! that make sums over it unbiased. Then
//!
//!   Ẑ = Σ_{x, xₜ∈Ωₜ} exp score(x) · Πₜ wₜ(xₜ),   E\[Ẑ\] = Z,
//!
//! is the partition function of a lattice with K states per position. The exact algorithms on this lattice
//! give the gradient of the estimate, its entropy log Ẑ − Ê\[score\] and samples. Gradients treat the chosen
//! states as constants. `proposal` and `proposals` estimate which states matter, `select` chooses among them,
//! `spread` computes messages from a few states to all states, and `restriction` is the lattice.
//!
//! Time O(T·K²) per replicate, plus O(T·K·N) for proposals from messages (`forward`, `two-pass`). These are
//! worth their cost: the error is smaller by orders of magnitude. Memory O(T·K), and O(T·N) for `two-pass`.
//!
//! Ẑ is the mean of R replicates and is unbiased for Z. It comes with the standard error of the replicates
//! and with a lower bound from Markov's inequality, which always holds. For a requested error, pilot runs
//! determine the number of states. Their samples are discarded, because choosing the number by the error of
//! the samples that are used would bias the estimate. Gradients, marginals and entropy are ratios of
//! estimates: consistent, not unbiased. The selection `top` drops all but the likeliest states and has no
//! guarantee.
//!
//! If every replicate misses all paths of positive weight, then Ẑ = 0: log Ẑ is −∞, with a warning in the
//! diagnostics. This is not an error, because the mean over seeds would be biased without these values. Such
//! a sequence has no samples, zero marginals and entropy −∞. If this happens to all sequences of a batch,
//! marginals and entropy return the error `no-answer`. If all states were kept, Z = 0 is proved and the error
//! is `zero-partition`.
//!
//! References: Y. Fu, J. P. Cunningham, M. Lapata, *Scaling structured inference with randomization*, ICML
//! (2022); P. Fearnhead, P. Clifford, *On-line inference for hidden Markov models via particle filters*, J.
//! R. Stat. Soc. B 65 (2003).
//!
//! ```
//! use zhat::model::generate::{rdp_chain, Sharpness};
//! use zhat::dynamic::{RandomizedForward, States};
//! use zhat::{Chain, LogPartition, Run};
//! let chain: Chain = rdp_chain(1000, 10, 20, Sharpness::Dense, 1)?;
//! let method = RandomizedForward::default().states(States::Count(50));
//! let log_z = method.log_partition(&chain, &Run::default())?;
//! println!("{:?}: {}", log_z.value, log_z.guarantee);
//! # Ok::<(), zhat::Error>(())
//! ```

mod answers;
mod estimates;
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

pub(crate) use estimates::{LogEstimates, missed_warning};
pub use method::{RandomizedForward, StateChoice};
pub use proposal::{StateProposal, Support};
pub(crate) use proposal::{global_scores, mixture, weighted};
pub use relaxed::{SparseCotangent, SparsePath, SparseSamples, SparseTape};
pub use select::{Chosen, Selection};
pub(crate) use select::{Order, largest};
pub use states::States;
