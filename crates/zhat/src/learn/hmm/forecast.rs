//! Memory and time of training, before it runs.
//!
//! With N states (padded to w, a multiple of 8), D columns, S numbers of emission statistics, and P parts of the data,
//! a step holds these numbers of 8 bytes:
//!
//! | what | numbers |
//! |---|---|
//! | both forms of the transition matrix | 2·N·⌈N⌉₁₆ |
//! | counts, one set per part and three more | (P + 3)·(w² + w + S) |
//! | messages and densities of a group of R rows, per thread | R·(2w + D + 2) + 2·w² + 264·w |
//! | three models: the current one, the best one, and a copy | 3·(N² + N + parameters of the emissions) |
//! | L-BFGS with h pairs | (4h + 16) × the number of parameters |
//!
//! The first model of normal distributions, Poisson counts or mixtures comes from k-means, with 16 bytes per row.
//! The forecast of memory is an upper bound on what training allocates besides the data, without what `watch` keeps.
//! That of time is rough: 6·N² operations per row, plus densities.

use super::data::Sequences;
use super::durations::DurationForm;
use super::emission::{Covariance, padded};
use super::group::Group;
use super::initial::Family;
use super::learning::{Learning, Optimizer};
use super::model::Hmm;
use super::sweep::Plan;
use crate::error::{Error, Result};
use crate::numeric::packed_bytes;
use crate::run::Run;

/// Rows per block of densities and statistics.
const BLOCK: usize = 256;
/// Pairs that L-BFGS keeps.
pub(super) const HISTORY: usize = 8;
/// Rows that k-means uses at most.
pub(super) const CLUSTERED: usize = 20_000;
/// Bytes per sequence for orders and log-likelihoods.
const BYTES_PER_SEQUENCE: f64 = 160.0;
/// Bytes of small allocations, once and per thread, and of the blocks that matrix products rearrange, whose size
/// depends on the processor.
const OVERHEAD: f64 = 131_072.0;
/// Measured seconds per row: for each pair of states; for each state; and for each state and column.
const PER_PAIR: f64 = 8.7e-11;
const PER_STATE: f64 = 1e-8;
const PER_VALUE: f64 = 5e-10;
/// Seconds per term of a sum in the log domain.
const PER_TERM: f64 = 1.2e-8;

/// Estimated cost of training.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct TrainingForecast {
    /// Upper bound on the memory that training allocates besides the data, in bytes.
    pub bytes: f64,
    /// Approximate seconds per EM step, or pass of stochastic EM, with the threads of the run. A step of L-BFGS takes one
    /// or a few times as long.
    pub step_seconds: f64,
}

/// Numbers in the parts of a model and of a pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub states: usize,
    pub columns: usize,
    /// M, or 0 for a Markov chain.
    pub longest: usize,
    /// Parameters of the emissions.
    pub emissions: usize,
    /// Statistics of the emissions.
    pub statistics: usize,
    /// Tables of prepared densities.
    tables: usize,
    /// Scratch memory of densities and statistics.
    scratch: usize,
    /// Seconds of densities and statistics per row.
    seconds: f64,
}

impl Sizes {
    pub fn of(hmm: &Hmm) -> Sizes {
        let longest = hmm.durations().map_or(0, |own| own.longest());
        Sizes::new(hmm.family(), hmm.states(), hmm.columns(), longest)
    }

    pub fn new(family: Family, states: usize, columns: usize, longest: usize) -> Sizes {
        let one = Sizes {
            states,
            columns,
            longest,
            emissions: 0,
            statistics: 0,
            tables: 0,
            scratch: 0,
            seconds: 0.0,
        };
        let seconds = (states * columns) as f64 * PER_VALUE;
        match family {
            Family::Categorical { symbols } => Sizes {
                emissions: states * symbols,
                statistics: symbols * padded(states),
                tables: states * symbols,
                seconds,
                ..one
            },
            Family::Poisson => Sizes {
                emissions: states * columns,
                statistics: 2 * columns * padded(states),
                tables: states * columns,
                seconds: 8.0 * seconds,
                ..one
            },
            Family::Gaussian { covariance } => normals(one, states, covariance),
            Family::Mixture { components, covariance } => {
                let all = states * components;
                let own = normals(one, all, covariance);
                Sizes {
                    emissions: own.emissions + all,
                    statistics: own.statistics + padded(all),
                    tables: own.tables + padded(all),
                    scratch: own.scratch + 2 * BLOCK * padded(all),
                    seconds: own.seconds + 2.0 * all as f64 * PER_TERM,
                    ..own
                }
            }
        }
    }

    /// Numbers of the expected counts.
    pub fn counts(&self) -> usize {
        let width = padded(self.states);
        width * (width + 1) + self.statistics + self.states * self.longest
    }

    /// Numbers of a model.
    fn model(&self) -> usize {
        self.states * (self.states + 3 + self.longest) + self.emissions
    }
}

/// `count` normal distributions.
fn normals(one: Sizes, count: usize, covariance: Covariance) -> Sizes {
    let (columns, width) = (one.columns, padded(count));
    let covariances: usize = covariance.shape(count, columns).iter().product();
    let (features, tables, values) = match covariance.has_matrices() {
        true => (1 + columns + columns * columns, covariances + count + columns, 4 * columns * columns),
        false => (3 * columns, (3 * columns + 1) * width + columns, columns),
    };
    Sizes {
        emissions: count * columns + covariances,
        statistics: width * features,
        tables,
        // A row with missing values takes a place in the order by pattern and up to three matrices.
        scratch: BLOCK * (features + 2 * columns + 2) + 3 * columns * (columns + 2),
        seconds: (count * values) as f64 * PER_VALUE,
        ..one
    }
}

impl Plan {
    /// Bytes of a pass, with counts or without.
    pub fn bytes(&self, sizes: &Sizes, counts: bool, threads: usize) -> f64 {
        let Sizes { states, columns, longest, scratch, .. } = *sizes;
        let width = padded(states);
        let (group, prepared) = if longest > 0 {
            // σ, ε and the densities; in the backward pass three more and the posteriors.
            let pass = self.longest * (6 * states + width) + states * (states + longest + 3) + 2 * longest;
            (8.0 * pass as f64, states * (states + 3 * longest + 1))
        } else {
            let backward = 2 * width * width + (BLOCK + self.members) * width;
            let scaled =
                Group::bytes(self.largest, states, columns) + 8.0 * (backward + 2 * self.longest) as f64;
            // A sequence in the log domain: messages, densities and posteriors.
            let exact = self.longest * (2 * states + width) + 2 * states * states + 4 * states;
            (scaled.max(8.0 * exact as f64), 2 * states * states.next_multiple_of(16) + width)
        };
        let busy = threads.min(self.parts.len()) as f64;
        let kept = if counts { (self.parts.len() + 3) * sizes.counts() } else { 0 };
        busy * (group + 8.0 * scratch as f64 + packed_bytes() as f64 + OVERHEAD)
            + 8.0 * (prepared + sizes.tables + kept) as f64
            + BYTES_PER_SEQUENCE * self.count() as f64
            + OVERHEAD
    }

    /// Seconds of a pass with counts.
    fn seconds(&self, sizes: &Sizes, rows: usize, threads: usize) -> f64 {
        let states = sizes.states as f64;
        let passes = match sizes.longest {
            0 => states * states * PER_PAIR + states * PER_STATE,
            longest => 2.0 * states * (states + longest as f64) * PER_TERM,
        };
        let shares = threads.min(self.parts.len()).max(1) as f64;
        rows as f64 * (passes + sizes.seconds) / shares + (self.parts.len() * sizes.counts()) as f64 * 1e-9
    }
}

/// The memory and time of [`train`](super::train()) with the same arguments.
///
/// ```
/// use zhat::Run;
/// use zhat::learn::hmm::{Family, Learning, Sequences, forecast_training};
///
/// let data = Sequences::new(1, vec![0.0; 1000], &[1000])?;
/// let family = Family::Categorical { symbols: 2 };
/// let [small, large] = [4, 64].map(|states| forecast_training(&data, states, family, &Learning::default(), None, &Run::default()));
/// assert!(small?.bytes < large?.bytes);
/// # Ok::<(), zhat::Error>(())
/// ```
///
/// # Errors
/// If an option is out of range or there are no states.
pub fn forecast_training(
    data: &Sequences,
    states: usize,
    family: Family,
    how: &Learning,
    given: Option<&Hmm>,
    run: &Run,
) -> Result<TrainingForecast> {
    how.check_all()?;
    if states == 0 {
        return Err(Error::argument("states", "0 is out of range; expected at least 1"));
    }
    let longest = if how.durations == DurationForm::Geometric { 0 } else { how.max_duration };
    let sizes = given.map_or_else(|| Sizes::new(family, states, data.columns(), longest), Sizes::of);
    let plan = Plan::new(data, &(0..data.count()).collect::<Vec<_>>());
    let stochastic = how.batch > 0 && how.batch < data.count();
    let more = match how.optimizer {
        Optimizer::Lbfgs => (4 * HISTORY.min(how.iterations) + 16) * sizes.model(),
        Optimizer::Em if stochastic => 2 * sizes.counts() + sizes.model(),
        Optimizer::Em => 0,
    };
    let models = 8.0 * (3 * sizes.model() + more) as f64;
    let first = match (given, family) {
        // The text from which the fingerprint of a checkpoint is computed.
        (Some(_), _) => 80.0 * sizes.model() as f64,
        (None, Family::Categorical { .. }) => 0.0,
        (None, _) => 16.0 * data.rows() as f64 + 8.0 * data.rows().min(CLUSTERED) as f64,
    };
    let pass = plan.bytes(&sizes, true, run.threads());
    let passes = if stochastic { 2.0 } else { 1.0 };
    Ok(TrainingForecast {
        bytes: models + first.max(pass),
        step_seconds: passes * plan.seconds(&sizes, data.rows(), run.threads()),
    })
}
