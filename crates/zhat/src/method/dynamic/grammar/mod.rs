//! Exact inference on trees over words: grammars and span models.
//!
//! Z = Σ_y exp score(y) over the binary trees y of a sentence, by the inside pass; expected numbers of nodes,
//! rules and words are the gradient of log Z, by the outside pass. Entropy, divergences and expectations of
//! additive scores are derivatives of log Z in a direction, and their gradients those of the expected numbers,
//! by the same passes on numbers with derivatives. The best tree is found by the same pass with maxima and,
//! with low-rank rules, by search; samples are drawn from the root to the words, and are exact.
//!
//! Time per sentence of T words with N heads and P tags: T³ + T²·N without rules, T³·N² + T²·N³ + T·N²·P for
//! dense rules, T³ times the number of pairs for listed rules, T³·R + T²·N·R for rank R, and T³·R + T²·R² if
//! in addition scores of spans do not depend on the symbol. Memory T²·N, without rules T². A sentence without
//! a tree has log Z = −∞ and a gradient of zero; if none of a batch has a tree, the result is the error
//! `zero-partition`.
//!
//! References: J. Baker, *Trainable grammars for speech recognition*, 1979; K. Lari, S. Young, *The estimation
//! of stochastic context-free grammars using the inside-outside algorithm*, Computer Speech and Language 4
//! (1990). See `rank` for rules of low rank.
//!
//! ```
//! use zhat::dynamic::InsideOutside;
//! use zhat::model::{Hypertree, Rules, Symbols};
//! use zhat::{LogPartition, Run};
//! let model = Hypertree::new(Symbols::same(1), vec![0.0; 5].into(), vec![5], Rules::Any)?;
//! let log_z = InsideOutside::default().log_partition(&model, &Run::default())?;
//! assert!((log_z.value[0] - 14f64.ln()).abs() < 1e-12);    // 14 binary trees over five words
//! # Ok::<(), zhat::Error>(())
//! ```

mod cells;
mod chart;
mod choices;
mod counts;
mod dense;
mod derive;
mod divergence;
mod expected;
mod forecast;
mod free;
mod kept;
mod kernels;
mod listed;
mod memory;
mod multiplier;
mod no_parse;
mod number;
mod pass;
mod proposals;
mod published;
pub(crate) mod randomized;
mod rank;
mod ranked;
mod relaxed;
mod search;
mod shared;
mod solve;
mod source;
mod sparse_relaxed;
mod states;
mod tape;

pub use self::published::PublishedInside;
pub use self::randomized::{RandomizedInside, SpanProposal};
pub use self::relaxed::RelaxedParseTape;
pub use self::solve::Passes;
pub use self::sparse_relaxed::{SparseParse, SparseParseTape, SparseParses};

use serde::{Deserialize, Serialize};

use self::pass::Purpose;
use self::solve::{Solutions, solve};
use crate::answer::{Answer, Diagnostics};
use crate::error::{Error, Result};
use crate::model::Hypertree;
use crate::numeric::Real;
use crate::options::{Range, options};
use crate::query::tree::{HypertreeGradient, SpanMarginals};
use crate::query::{Entropy, FactorMarginals, Forecasts, LogPartition, Marginals, Query};
use crate::run::{Clock, Run};

pub(crate) const NAME: &str = "inside-outside";

/// The tree that `map` returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TreeChoice {
    /// The tree of largest weight. With low-rank rules it is searched for; if the search does not end within its
    /// steps or the time budget, the tree of the best derivation is returned with a bound.
    #[default]
    Best,
    /// With low-rank rules, the tree of the best derivation, in which every rule uses one of its R terms.
    Derivation,
    /// The tree with the largest expected number of nodes that a tree of the model has, too. The symbol of each
    /// node is chosen on its own, so the tree may have probability zero.
    Expected,
}

/// Exact inference on trees over words.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct InsideOutside {
    /// The tree that `map` returns.
    pub tree: TreeChoice,
    /// The steps of the search for the best tree of a sentence with low-rank rules.
    pub steps: usize,
}

impl Default for InsideOutside {
    fn default() -> Self {
        InsideOutside { tree: TreeChoice::Best, steps: 100_000 }
    }
}

options!(InsideOutside { tree: TreeChoice, steps: usize => STEPS });

/// The permitted numbers of steps of a search.
const STEPS: Range = Range::whole(1, 1_000_000_000);

/// Returns an error if no sentence has a tree.
fn some_tree(log_partition: &[f64]) -> Result<()> {
    let any = log_partition.iter().any(|log_z| *log_z > f64::NEG_INFINITY);
    if any { Ok(()) } else { Err(Error::ZeroPartition) }
}

/// A bound on the rounding error of log Z. A tree has T − 1 divided nodes, each a sum of positive terms with one
/// rounding per term in the worst case and a few for its factors; weights have the error of `exp` and of the
/// scores that they are computed from.
fn rounding<F: Real>(model: &Hypertree<F>) -> f64 {
    let words = model.lengths().iter().copied().max().unwrap_or(0) as f64;
    let symbols = model.symbols();
    let (all, heads) = (symbols.all as f64, symbols.heads as f64);
    let terms = match model.rules().rank() {
        Some(rank) => words + rank as f64 + 2.0 * all,
        None => words + heads * heads + 2.0 * all,
    };
    let unary = model.unary().map_or(0.0, |unary| unary.involved() as f64);
    F::EPSILON.to_f64() * ((2.0 * words - 1.0) * (terms + unary + 24.0) + model.magnitude())
        + f64::EPSILON * 4.0 * model.magnitude()
}

/// Requests memory, runs `work` in the threads of the run and wraps the result. `work` returns the value and one
/// number per sentence, which is −∞ if the sentence has no tree: the diagnostics then describe why.
fn answer<F: Passes, T: Send>(
    method: &InsideOutside,
    model: &Hypertree<F>,
    query: Query,
    run: &Run,
    work: impl FnOnce(&Clock<'_>) -> Result<(T, Vec<f64>)> + Send,
) -> Result<Answer<T>> {
    answer_within(model, method.forecast(model, query, run).bytes, run, work)
}

/// The same for a query whose memory is known.
fn answer_within<F: Passes, T: Send>(
    model: &Hypertree<F>,
    bytes: f64,
    run: &Run,
    work: impl FnOnce(&Clock<'_>) -> Result<(T, Vec<f64>)> + Send,
) -> Result<Answer<T>> {
    let clock = run.start(NAME);
    run.require_memory(NAME, bytes)?;
    let (value, log_partition) =
        run.install(|| work(&clock)).map_err(|error| no_parse::described(error, model, run, &clock))?;
    let mut diagnostics = Diagnostics::new(NAME).note("precision", F::NAME).note("forecast_bytes", bytes);
    if let Some(warning) = no_parse::warning(model, &log_partition, run, &clock) {
        diagnostics = diagnostics.note("warning", warning);
    }
    diagnostics.rounding = rounding(model);
    diagnostics.seconds = clock.seconds();
    Ok(Answer::exact(value, diagnostics))
}

/// log Z of every sentence; an error if all are −∞.
fn some_partition<F: Real>(solutions: &Solutions<F>, model: &Hypertree<F>) -> Result<Vec<f64>> {
    let values = solutions.log_partition(model.batch());
    some_tree(&values)?;
    Ok(values)
}

impl<F: Passes> LogPartition<Hypertree<F>> for InsideOutside {
    fn log_partition(&self, model: &Hypertree<F>, run: &Run) -> Result<Answer<Vec<f64>>> {
        answer(self, model, Query::LogPartition, run, |clock| {
            let solutions = solve(model, &[], Purpose::Sums, None, clock)?;
            let values = some_partition(&solutions, model)?;
            Ok((values.clone(), values))
        })
    }
}

impl<F: Passes> Marginals<Hypertree<F>> for InsideOutside {
    fn marginals(&self, model: &Hypertree<F>, run: &Run) -> Result<Answer<SpanMarginals<F>>> {
        answer(self, model, Query::Marginals, run, |clock| {
            let solutions = solve(model, &[], Purpose::Symbols, None, clock)?;
            let log_z = some_partition(&solutions, model)?;
            let (words, all) = (model.positions(), model.symbols().all);
            let shape = [model.batch(), words, words, all];
            Ok((SpanMarginals { shape, values: solutions.nodes(model, clock)? }, log_z))
        })
    }
}

impl<F: Passes> FactorMarginals<Hypertree<F>> for InsideOutside {
    fn factor_marginals(&self, model: &Hypertree<F>, run: &Run) -> Result<Answer<HypertreeGradient<F>>> {
        answer(self, model, Query::FactorMarginals, run, |clock| {
            let ones = vec![1.0; model.batch()];
            let solutions = solve(model, &[], Purpose::Sums, Some(&ones), clock)?;
            let log_z = some_partition(&solutions, model)?;
            Ok((solutions.gradient(model, model, &ones, clock)?, log_z))
        })
    }
}

impl<F: Passes> Entropy<Hypertree<F>> for InsideOutside {
    fn entropy(&self, model: &Hypertree<F>, run: &Run) -> Result<Answer<Vec<f64>>> {
        let mut found = answer(self, model, Query::Entropy, run, |clock| {
            let model = divergence::additive(model, clock)?;
            let solutions = solve(&model, &[(1.0, &model)], Purpose::Sums, None, clock)?;
            let values = divergence::entropies(&solutions, &model)?;
            Ok((values.clone(), values))
        })?;
        found.diagnostics.rounding *= 4.0 * (1.0 + model.magnitude());
        Ok(found)
    }
}
