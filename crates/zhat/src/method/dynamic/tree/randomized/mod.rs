//! Randomized inference on projective trees: Eisner's algorithm on a few randomly chosen heads of each word.
//!
//! For every word, a set of about K of its possible heads (the root is one of them) is chosen with weights w
//! that make sums over it unbiased (`randomized::select`), independently of the other words. Its neighbours are
//! kept as well, with weight 1 (`certain`), because choices of distant heads rarely form a projective tree. A
//! tree has one head per word, so
//!
//!   Ẑ = Σ_y exp score(y)·Π_d w(d, h(d)),   E\[Ẑ\] = Z.
//!
//! Ẑ is the partition function of a model with T·K arcs. The exact passes on it (`pass`) give the gradient, the
//! entropy log Ẑ − Ê\[score\] and samples, for fixed choices. `proposal` estimates which heads matter.
//!
//! Time O(T²·K) per replicate and memory O(T²), where the exact algorithm takes O(T³) time. Guarantee of log Z:
//! unbiased with replicates and Markov's lower bound; ratios (gradient, entropy) are right in the limit.
//!
//! Reference: Y. Fu, J. P. Cunningham, M. Lapata, *Scaling structured inference with randomization*, ICML 2022,
//! Algorithm 2, for trees with symbols; here the state of a word is its head.
//!
//! ```
//! use zhat::dynamic::{RandomizedInside, States};
//! use zhat::model::generate::{dependency, SentenceShape};
//! use zhat::{LogPartition, Run};
//! let model = dependency::<f64>(&SentenceShape { words: 60, strength: 3.0, ..Default::default() }, 1)?;
//! let log_z = RandomizedInside::default().states(States::Count(10)).log_partition(&model, &Run::default())?;
//! println!("{:?}: {}", log_z.value, log_z.guarantee);
//! # Ok::<(), zhat::Error>(())
//! ```

mod answers;
mod arcs;
mod certain;
mod forecast;
mod pass;
mod proposal;
mod relaxed;

pub(super) use answers::label_shares;
pub use relaxed::SparseTreeTape;

use crate::numeric::parallel::prelude::*;

use self::arcs::{ArcLogs, HeadScores, KeptArcs};
use self::certain::Certain;
use self::pass::{ArcSums, Links};
use crate::error::{Error, Result};
use crate::method::dynamic::RandomizedInside;
use crate::method::dynamic::grammar::randomized::NAME;
use crate::method::dynamic::randomized::LogEstimates;
use crate::model::DependencyTree;
use crate::numeric::Real;
use crate::random::Streams;
use crate::run::{Clock, Run};

/// The kept arcs of a replicate and the sums over their trees.
struct Replicate {
    arcs: KeptArcs,
    sums: ArcSums,
}

/// The replicates of every sentence.
struct Estimates {
    /// By sentence.
    replicates: Vec<Vec<Replicate>>,
    logs: LogEstimates,
    /// K.
    count: usize,
    largest_log_weight: f64,
}

/// Parts of the results to be kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// log Ẑ.
    Partition,
    /// The kept arcs.
    Arcs,
    /// Their probabilities.
    Marginals,
}

/// An error unless the trees are projective.
fn check_projective<F: Real>(model: &DependencyTree<F>) -> Result<()> {
    if model.shape().projective {
        return Ok(());
    }
    let message = format!(
        "`{NAME}` is for projective trees, and this model admits all trees; `spanning-trees` is exact for them"
    );
    Err(Error::NoAnswer(message))
}

impl RandomizedInside {
    /// K for a batch of sentences.
    fn heads_kept<F: Real>(&self, model: &DependencyTree<F>) -> usize {
        self.states.of(model.lengths().iter().copied().max().unwrap_or(1))
    }

    fn arc_estimates<F: Real>(
        &self,
        model: &DependencyTree<F>,
        wanted: Wanted,
        run: &Run,
        clock: &Clock<'_>,
    ) -> Result<Estimates> {
        let (count, number, batch) = (self.heads_kept(model), self.replicate_count(), model.batch());
        let streams = Streams::new(run.seed(), "randomized inside heads");
        let single_root = model.shape().single_root;
        let estimate = |scores: &HeadScores,
                        chances: (&Certain, &HeadScores),
                        b: usize,
                        r: usize|
         -> Result<Replicate> {
            clock.step("replicates", b * number + r, batch * number)?;
            let arcs = proposal::choose(self, chances, count, &streams, b * number + r, clock)?;
            let links = Links::new(&arcs, single_root);
            let sums =
                pass::sums(&links, &weighted(scores, &arcs), None, wanted == Wanted::Marginals, clock)?;
            Ok(Replicate { arcs, sums })
        };
        let sentence = |b: usize, together: bool| -> Result<Vec<Replicate>> {
            let scores = HeadScores::new(model, b);
            let certain = Certain::new(&scores, single_root);
            let given = (&scores, &certain);
            let proposals = proposal::proposals(self, given, (single_root, b), count, run.seed(), clock)?;
            let chances = (&certain, &*proposals);
            match together {
                true => (0..number).into_par_iter().map(|r| estimate(&scores, chances, b, r)).collect(),
                false => (0..number).map(|r| estimate(&scores, chances, b, r)).collect(),
            }
        };
        // Either sentences or replicates are worked on at the same time: not both, so that memory is bounded.
        let mut replicates: Vec<Vec<Replicate>> = match batch >= run.threads() {
            true => (0..batch).into_par_iter().map(|b| sentence(b, false)).collect::<Result<_>>()?,
            false => (0..batch).map(|b| sentence(b, true)).collect::<Result<_>>()?,
        };
        let all = replicates.iter().flatten();
        let largest_log_weight = all.map(|own| own.arcs.largest_log_weight()).fold(0.0, f64::max);
        let of = |own: &Vec<Replicate>| own.iter().map(|one| one.sums.log_partition).collect();
        let logs = LogEstimates::new(replicates.iter().map(of).collect());
        if wanted == Wanted::Partition {
            replicates.clear();
        }
        Ok(Estimates { replicates, logs, count, largest_log_weight })
    }
}

/// The log weights of kept arcs: scores and the logarithms of their weights, normalised.
fn weighted(scores: &HeadScores, arcs: &KeptArcs) -> ArcLogs {
    arcs.normalised(|e, head, d| scores.row(d)[head] + arcs.log_weights[e])
}
