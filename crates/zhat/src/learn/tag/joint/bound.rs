//! The choice between the bounds, and their certificates for fixed scores.

use serde::{Deserialize, Serialize};

use super::field::{Field, Slopes};
use super::{cover, exact, star};
use crate::error::{Error, Result};
use crate::optimize::Lbfgs;
use crate::run::Run;

const NAME: &str = "joint tagger";
const HISTORY: usize = 10;

/// Returns an error if the time is over.
pub(super) type Stop<'a> = &'a (dyn Fn() -> Result<()> + Sync);

/// An upper bound on A of a joint model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// log Z by sums over all triples of tags; for K ≤ 2 and L ≤ 3.
    Exact,
    /// The cover by tag chains and word stars, with weights of its own.
    Cover,
    /// The star bound of the reference.
    Star,
}

impl Bound {
    /// All bounds, the tightest first.
    pub const ALL: [Bound; 3] = [Bound::Exact, Bound::Cover, Bound::Star];

    /// The name.
    pub fn name(self) -> &'static str {
        match self {
            Bound::Exact => "exact",
            Bound::Cover => "cover",
            Bound::Star => "star",
        }
    }

    /// The tightest bound for a context of K tags and a window of L words.
    pub fn tightest(context: usize, window: usize) -> Self {
        if context <= 2 && window <= 3 { Bound::Exact } else { Bound::Cover }
    }

    /// The number of dual variables.
    pub(super) fn duals(self, field: &Field) -> usize {
        match self {
            Bound::Exact => 0,
            Bound::Cover => cover::duals(field),
            Bound::Star => star::duals(field),
        }
    }

    /// Which dual variables are one vector over the words after the other.
    pub(super) fn word_duals(self, field: &Field) -> std::ops::Range<usize> {
        match self {
            Bound::Exact => 0..0,
            Bound::Cover => cover::word_duals(field),
            Bound::Star => star::word_duals(field),
        }
    }

    /// Dual variables to start from, for words with these log-probabilities.
    pub(super) fn start(self, field: &Field, log_words: &[f64]) -> Vec<f64> {
        match self {
            Bound::Exact => Vec::new(),
            Bound::Cover => cover::start(field, log_words),
            Bound::Star => star::start(field, log_words),
        }
    }

    /// Evaluates the bound and its derivative.
    pub(super) fn evaluate(
        self,
        field: &Field,
        length: usize,
        duals: &[f64],
        slopes: Option<&mut Slopes>,
        stop: Stop<'_>,
    ) -> Result<Evaluation> {
        match self {
            Bound::Exact => exact::evaluate(field, length, slopes, stop),
            Bound::Cover => cover::evaluate(field, length, duals, slopes, stop),
            Bound::Star => star::evaluate(field, length, duals, slopes, stop),
        }
    }
}

/// The value of a bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Evaluation {
    /// The bound per position, without rounding and without terms that do not grow with the length.
    pub value: f64,
    /// The certified bound on A, including rounding; −∞ if Z = 0.
    pub high: f64,
    pub rounding: f64,
}

impl Evaluation {
    pub fn zero() -> Self {
        Evaluation { value: f64::NEG_INFINITY, high: f64::NEG_INFINITY, rounding: 0.0 }
    }
}

/// A certified upper bound on A.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Certified {
    /// The bound, including its rounding error.
    pub high: f64,
    /// The part of it that allows for rounding.
    pub rounding: f64,
    /// Steps of optimisation over the dual variables.
    pub steps: usize,
    /// Whether time ran out.
    pub stopped_early: bool,
    /// The dual variables.
    pub(super) duals: Vec<f64>,
}

/// Optimises the dual variables of a bound for fixed scores and a cycle of `length` positions, for at most
/// `iterations` steps. The result is certified whenever it stops.
///
/// # Errors
/// If the cycle is too short, the bound does not apply, Z = 0, the memory budget is too small, or time ran out before
/// the first evaluation.
///
/// ```
/// use zhat::Run;
/// use zhat::learn::tag::joint::{Bound, Field, certify};
/// // Two tags and three words; one table of pairs and one of words.
/// let field = Field::new(2, 3, vec![vec![0.5, -1.0, 0.0, 0.3]], vec![vec![0.1, 0.2, -0.5, 0.0, 1.0, 0.7]])?;
/// let exact = certify(&field, 8, Bound::Exact, 0, &Run::default())?;
/// let star = certify(&field, 8, Bound::Star, 100, &Run::default())?;
/// assert!(exact.high <= star.high);
/// # Ok::<(), zhat::Error>(())
/// ```
pub fn certify(
    field: &Field,
    length: usize,
    bound: Bound,
    iterations: usize,
    run: &Run,
) -> Result<Certified> {
    let start = bound.start(field, &vec![0.0; field.words()]);
    certify_from(field, length, bound, start, iterations, run)
}

/// [`certify`] from given dual variables.
pub(super) fn certify_from(
    field: &Field,
    length: usize,
    bound: Bound,
    start: Vec<f64>,
    iterations: usize,
    run: &Run,
) -> Result<Certified> {
    field.check_length(length)?;
    if bound == Bound::Exact && !exact::applies(field) {
        let message = "`exact` needs K ≤ 2 and L ≤ 3; `cover` and `star` have no such limit";
        return Err(Error::argument("bound", message));
    }
    let clock = run.start(NAME);
    let vectors = 8.0 * (bound.duals(field) * (2 * HISTORY + 8)) as f64;
    let tables = 16.0 * (field.words() * field.tags() * field.window()) as f64;
    let own = if bound == Bound::Exact { exact::bytes(field) } else { 0.0 };
    run.require_memory(NAME, vectors + tables + own)?;
    let stop = || if clock.must_stop() { Err(Error::Interrupted) } else { Ok(()) };
    run.install(|| {
        let mut best: Option<Certified> = None;
        let mut slopes = Slopes::new(field, start.len());
        let mut objective = |duals: &[f64], gradient: &mut [f64]| {
            let found = bound.evaluate(field, length, duals, Some(&mut slopes), &stop)?;
            if found.high == f64::NEG_INFINITY {
                return Err(Error::ZeroPartition);
            }
            if best.as_ref().is_none_or(|best| found.high < best.high) && found.high.is_finite() {
                let duals = duals.to_vec();
                let (high, rounding) = (found.high, found.rounding);
                best = Some(Certified { high, rounding, steps: 0, stopped_early: false, duals });
                clock.bounds(f64::NEG_INFINITY, high);
            }
            gradient.copy_from_slice(&slopes.duals);
            Ok(found.value)
        };
        let mut interrupted = false;
        let mut steps = 0;
        if start.is_empty() || iterations == 0 {
            match objective(&start, &mut vec![0.0; start.len()]) {
                Err(Error::Interrupted) => interrupted = true,
                found => {
                    found?;
                }
            }
        } else {
            let mut lbfgs = Lbfgs::new(start, HISTORY);
            let mut last = f64::INFINITY;
            for i in 0..iterations {
                clock.progress(NAME, i as u64, iterations as u64);
                match lbfgs.step(&mut objective) {
                    Ok(step) => {
                        steps += 1;
                        if step.stationarity <= 1e-10 || step.objective >= last {
                            break;
                        }
                        last = step.objective;
                    }
                    Err(Error::Interrupted) => {
                        interrupted = true;
                        break;
                    }
                    Err(other) => return Err(other),
                }
            }
        }
        match best {
            Some(best) => Ok(Certified { steps, stopped_early: interrupted, ..best }),
            None => {
                clock.check()?;
                Err(Error::NoAnswer("the scores are too large for this bound".into()))
            }
        }
    })
}
