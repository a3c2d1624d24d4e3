//! The tables of a Bayesian network of known structure, from complete or incomplete rows.
//!
//! With counts n(s, u) of state s of a variable and states u of its parents, and a pseudo-count α for every
//! entry, the tables are p(s | u) = (n(s, u) + α) / Σ_s (n(s, u) + α). Without α they have maximum
//! likelihood; with α they are the mode of the posterior under independent Dirichlet(1 + α) priors. An
//! equivalent sample size S is the pseudo-count α = S / (number of entries of the table) (BDeu). States of
//! the parents without counts get the uniform distribution.
//!
//! If rows are incomplete and values are missing at random, expectation-maximisation replaces n by its
//! expectation given the observed cells, under the tables of the iteration before. The expectations are exact.
//! The log-likelihood of the observed cells plus the log prior Σ α ln p never falls. EM converges to a
//! stationary point that may depend on the initial tables: the counts of rows in which the variable and all
//! its parents are observed, with half a count added to every entry. A table that no row observes as a
//! whole starts from the one given with the structure; if that is uniform, from random numbers near it.
//!
//! Reference: S. L. Lauritzen, *The EM algorithm for graphical association models with missing data*,
//! Computational Statistics & Data Analysis 19 (1995).

use serde::{Deserialize, Serialize};

use super::gaps::Gaps;
use super::parents::check_network;
use super::score::columns_of;
use super::start::EXTRA;
use super::table::Table;
use crate::answer::{Answer, Diagnostics, Estimate};
use crate::error::{Error, Result};
use crate::method::exact::rounding;
use crate::model::FactorGraph;
use crate::options::{ABOVE_ZERO, FROM_ZERO, ITERATIONS, Options, options};
use crate::random::Streams;
use crate::run::Run;

const PHASE: &str = "fitting";
const NAME: &str = "elimination";
/// Relative size of the random part of initial tables.
const NOISE: f64 = 0.1;

/// Prior and stopping criteria of [`fit_network`].
///
/// ```
/// use zhat::learn::NetworkFit;
/// let how = NetworkFit::default().pseudo_count(Some(1.0));
/// assert_eq!((how.pseudo_count, how.iterations), (Some(1.0), 1000));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct NetworkFit {
    /// α, added to the count of every entry.
    pub pseudo_count: Option<f64>,
    /// S, divided equally among the entries of each table.
    pub equivalent_sample_size: Option<f64>,
    /// Maximum number of iterations of EM.
    pub iterations: usize,
    /// EM stops once no probability changes by more than this.
    pub tolerance: f64,
}

options!(NetworkFit {
    pseudo_count: Option<f64> => ABOVE_ZERO,
    equivalent_sample_size: Option<f64> => ABOVE_ZERO,
    iterations: usize => ITERATIONS,
    tolerance: f64 => FROM_ZERO
});

impl Default for NetworkFit {
    fn default() -> Self {
        NetworkFit { pseudo_count: None, equivalent_sample_size: None, iterations: 1000, tolerance: 1e-6 }
    }
}

impl NetworkFit {
    /// The pseudo-count of every entry of a table with this many entries.
    fn extra(&self, entries: usize) -> f64 {
        let spread = self.equivalent_sample_size.map(|size| size / entries as f64);
        self.pseudo_count.or(spread).unwrap_or(0.0)
    }
}

/// Progress of EM.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NetworkProgress {
    /// Number of iterations done.
    pub iteration: usize,
    /// Minus the log-likelihood of the observed cells and the log prior, per row.
    pub objective: f64,
    /// The largest change of a probability in the last iteration.
    pub change: f64,
}

/// A fitted Bayesian network.
#[derive(Clone, Debug)]
pub struct NetworkFitted {
    /// The network, with the names and the order of the structure.
    pub graph: FactorGraph,
    /// The mean log-likelihood per row, of the observed cells.
    pub log_likelihood: Estimate,
    /// The progress at the end.
    pub progress: NetworkProgress,
    /// Whether the probabilities changed by no more than the tolerance; always true for complete rows.
    pub converged: bool,
}

/// Estimates the tables of a Bayesian network. `structure` is a network over the columns of the table, such
/// as one read from a file or [`super::Parents::network`]; its tables matter only as described in the
/// module. `watch` is called after every iteration and stops the fit by returning false.
///
/// # Errors
/// If an option is out of range or both priors are given, the structure is not a Bayesian network over the
/// columns of the table, an initial table makes a row impossible, `watch` fails, a sum over the missing
/// values of a row exceeds the memory budget, or the run is cancelled or out of time before the first
/// iteration.
///
/// ```
/// use zhat::io::table::Missing;
/// use zhat::learn::{Column, NetworkFit, Parents, Table, fit_network};
/// use zhat::Run;
/// let column = |name: &str| Column { name: name.into(), states: vec!["no".into(), "yes".into()] };
/// let columns = vec![column("rain"), column("wet")];
/// let codes = [vec![Some(0), Some(0), Some(1), None], vec![Some(0), Some(1), Some(1), Some(1)]];
/// let run = Run::default();
/// let table = Table::of_codes(columns, &codes, Missing::Drop, &run)?;
/// let structure = Parents::parse(&["wet=rain"], table.columns())?.network(table.columns())?;
/// let fitted = fit_network(&structure, &table, &NetworkFit::default(), &run, &mut |_| Ok(true))?;
/// assert!((fitted.graph.factor(0).log_values[0] - (2.0f64 / 3.0).ln()).abs() < 1e-15);
/// # Ok::<(), zhat::Error>(())
/// ```
pub fn fit_network(
    structure: &FactorGraph,
    table: &Table,
    how: &NetworkFit,
    run: &Run,
    watch: &mut dyn FnMut(&NetworkProgress) -> Result<bool>,
) -> Result<NetworkFitted> {
    how.check()?;
    if how.pseudo_count.is_some() && how.equivalent_sample_size.is_some() {
        return Err(Error::argument(
            "equivalent_sample_size",
            "is another form of pseudo_count; give one of them",
        ));
    }
    check_network(structure, "structure")?;
    if columns_of(structure) != table.columns() {
        let message =
            "its variables and states are not the columns and states of the table, in the same order";
        return Err(Error::argument("structure", message));
    }
    let clock = run.start(PHASE);
    let families = Families::new(structure, how);
    let gaps = Gaps::new(structure, table, run)?;
    let rows = gaps.rows() as f64;
    let (mut progress, mut converged) =
        (NetworkProgress { iteration: 0, objective: f64::INFINITY, change: f64::INFINITY }, true);
    let (values, score) = if table.is_complete() {
        let values = families.maximised(gaps.observed());
        let score = gaps.expected(&values, run)?.0;
        progress = NetworkProgress {
            objective: -(score + families.log_prior(&values)) / rows,
            change: 0.0,
            ..progress
        };
        (values, score)
    } else {
        converged = false;
        let mut values = families.start(&gaps, run.seed());
        let (mut score, mut counts) = gaps.expected(&values, run)?;
        if score == f64::NEG_INFINITY {
            let message = "its tables, which are the initial values of families that no row observes as a whole, give a row of the data probability 0; replace their zeros by small numbers";
            return Err(Error::argument("structure", message));
        }
        progress.objective = -(score + families.log_prior(&values)) / rows;
        while progress.iteration < how.iterations && !clock.must_stop() {
            clock.progress(PHASE, progress.iteration as u64, how.iterations as u64);
            clock.descent(progress.objective, progress.change);
            let next = families.maximised(&counts);
            let found = match gaps.expected(&next, run) {
                // The time ran out during the iteration: keep the one before.
                Err(Error::OverBudget { .. } | Error::Interrupted) if progress.iteration > 0 => break,
                found => found?,
            };
            let objective = -(found.0 + families.log_prior(&next)) / rows;
            let pairs = values.iter().zip(&next);
            let change = pairs.map(|(old, new)| (old.exp() - new.exp()).abs()).fold(0.0, f64::max);
            if objective > progress.objective {
                // By more than rounding this is impossible; the tables before are kept.
                converged = change <= how.tolerance.max(1e-9);
                break;
            }
            (values, score, counts) = (next, found.0, found.1);
            progress = NetworkProgress { iteration: progress.iteration + 1, objective, change };
            converged = change <= how.tolerance;
            if !watch(&progress)? || converged {
                break;
            }
        }
        (values, score)
    };
    let graph = structure.reweighted(&values)?;
    let mut diagnostics = Diagnostics::new(NAME).note("distinct_rows", table.distinct());
    diagnostics.rounding = rounding(&graph);
    diagnostics.seconds = clock.seconds();
    Ok(NetworkFitted { graph, log_likelihood: Answer::exact(score / rows, diagnostics), progress, converged })
}

/// The tables of the network: where they lie among all values, and their pseudo-counts.
struct Families<'g> {
    structure: &'g FactorGraph,
    extra: Vec<f64>,
}

impl<'g> Families<'g> {
    fn new(structure: &'g FactorGraph, how: &NetworkFit) -> Self {
        let extra = structure.factors().map(|factor| how.extra(factor.log_values.len())).collect();
        Families { structure, extra }
    }

    /// Calls `each` with every table's number, place among all values, and number of states of its variable.
    fn walk(&self, mut each: impl FnMut(usize, std::ops::Range<usize>, usize)) {
        let mut start = 0;
        for (f, factor) in self.structure.factors().enumerate() {
            let states = factor.scope.last().map_or(1, |&child| self.structure.cardinalities()[child]);
            each(f, start..start + factor.log_values.len(), states);
            start += factor.log_values.len();
        }
    }

    /// The tables that maximise the expected log-likelihood plus the log prior.
    fn maximised(&self, counts: &[f64]) -> Vec<f64> {
        let mut values = vec![0.0; counts.len()];
        self.walk(|f, range, states| {
            normalised(&counts[range.clone()], self.extra[f], states, &mut values[range]);
        });
        values
    }

    /// Σ α ln p.
    fn log_prior(&self, values: &[f64]) -> f64 {
        let mut total = 0.0;
        self.walk(|f, range, _| {
            if self.extra[f] > 0.0 {
                total += self.extra[f] * values[range].iter().sum::<f64>();
            }
        });
        total
    }

    /// The initial tables.
    fn start(&self, gaps: &Gaps, seed: u64) -> Vec<f64> {
        let observed = gaps.observed();
        let streams = Streams::new(seed, "initial tables");
        let mut values = vec![0.0; observed.len()];
        self.walk(|f, range, states| {
            let own = &mut values[range.clone()];
            if observed[range.clone()].iter().sum::<f64>() > 0.0 {
                normalised(&observed[range], EXTRA, states, own);
                return;
            }
            let mut given: Vec<f64> =
                self.structure.factor(f).log_values.iter().map(|value| value.exp()).collect();
            let first = given.first().copied().unwrap_or(0.0);
            if given.iter().all(|&p| (p - first).abs() < 1e-12) {
                let mut random = streams.block(f as u64);
                given.iter_mut().for_each(|p| *p *= 1.0 + NOISE * random.uniform());
            }
            normalised(&given, 0.0, states, own);
        });
        values
    }
}

/// The logarithms of the rows of a table of counts, with `extra` added to every entry and normalised; a row without
/// counts becomes uniform.
fn normalised(counts: &[f64], extra: f64, states: usize, out: &mut [f64]) {
    for (counts, out) in counts.chunks(states).zip(out.chunks_mut(states)) {
        let total = counts.iter().sum::<f64>() + extra * states as f64;
        for (count, value) in counts.iter().zip(out) {
            *value = if total > 0.0 { ((count + extra) / total).ln() } else { -(states as f64).ln() };
        }
    }
}
