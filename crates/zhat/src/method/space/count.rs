//! The number of structures of a space without a formula for it.
//!
//! |Y| = |Y₀| Π pₗ along the chain of enclosing spaces Y₀ ⊃ Y₁ ⊃ … ⊃ Y. The size of the outermost space is
//! known, and pₗ is the probability that a uniform structure of one space is in the next, which is the
//! partition function of a score of zeros and minus infinities. Each p is estimated by the rule of M. Huber
//! (*A Bernoulli mean estimate with known relative error distribution*, 2017): sample until k structures are
//! inside, and add an exponential random number to R for each sample. Then p·R has a Gamma distribution with
//! shape k for any p, so R gives an exact interval, and (k − 1)/R is unbiased.
//!
//! Time: k/p samples from the enclosing space, with k about (z/ε)². Each block of a fixed number of hits has
//! its own random stream.

use super::estimate::schedule::{chernoff_interval, poisson_interval};
use super::{ROUND, Space};
use crate::answer::{Answer, Diagnostics, Estimate, Guarantee};
use crate::error::{Error, Result};
use crate::numeric;
use crate::options::{INSIDE_UNIT, in_range};
use crate::random::{Stream, Streams};
use crate::run::{Clock, Run};

/// Hits that share a stream.
pub(super) const BLOCK: u64 = 64;
/// Up to this number of blocks, the smallest sufficient number of hits is searched for. Beyond it, a bound on
/// the tails of the Poisson distribution gives a sufficient number.
const SEARCHED: u64 = 1 << 10;
/// Maximum number of blocks.
const MOST_BLOCKS: u64 = 1 << 32;

/// ln |Y| with an interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct Count {
    pub value: f64,
    pub low: f64,
    pub high: f64,
    /// Number of samples used.
    pub draws: u64,
    /// A lower bound on ln of the fraction of these structures that belongs to the model.
    pub part: f64,
}

impl Count {
    /// A known number.
    pub fn known(log: f64) -> Self {
        Count { value: log, low: log, high: log, draws: 0, part: 0.0 }
    }
}

/// The spaces of unknown size from this one outward, and ln of the size of the space that encloses them.
fn chain(space: &dyn Space) -> Result<(Vec<&dyn Space>, f64)> {
    let mut spaces = Vec::new();
    let mut at = space;
    loop {
        if let Some(log) = at.log_count() {
            if log == f64::NEG_INFINITY {
                return Err(Error::ZeroPartition);
            }
            return Ok((spaces, log));
        }
        spaces.push(at);
        at = at.enclosing().ok_or_else(|| {
            Error::NoAnswer(format!(
                "the number of structures of {} is unknown, so Z cannot be computed; implement `Space::enclosing` with a space of known size",
                at.name()
            ))
        })?;
    }
}

/// ln of the number of structures of the innermost enclosing space of known size.
pub(super) fn around(space: &dyn Space) -> Result<f64> {
    chain(space).map(|found| found.1)
}

/// The shares of ε and of the confidence that remain for Z/|Y| after |Y| has used the same share: (1 + ε′)² ≤
/// 1 + ε, (1 − ε′)² ≥ 1 − ε, and δ/2 for each.
pub(super) fn share(space: &dyn Space, error: f64, confidence: f64) -> (f64, f64) {
    match space.log_count() {
        Some(_) => (error, confidence),
        None => ((0.5 * error.ln_1p()).exp_m1(), 1.0 - 0.5 * (1.0 - confidence)),
    }
}

/// The interval of p·R for k hits.
fn ends(hits: u64, delta: f64) -> (f64, f64) {
    // P(Gamma(k) ≤ x) = P(Poisson(x) ≥ k).
    (poisson_interval(hits, delta).0, poisson_interval(hits - 1, delta).1)
}

/// The minimum number of blocks of hits whose interval is no wider than ln((1 + ε)/(1 − ε)).
pub(super) fn blocks(error: f64, delta: f64) -> u64 {
    let ratio = (1.0 + error) / (1.0 - error);
    let narrow = |blocks: u64| {
        let hits = blocks * BLOCK;
        let (low, high) = match blocks <= SEARCHED {
            true => ends(hits, delta),
            false => (chernoff_interval(hits, delta).0, chernoff_interval(hits - 1, delta).1),
        };
        high <= ratio * low
    };
    let mut high = 1;
    while high < MOST_BLOCKS && !narrow(high) {
        high *= 2;
    }
    let mut low = (high / 2).max(if high > SEARCHED { SEARCHED } else { 0 });
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if narrow(middle) { high = middle } else { low = middle }
    }
    high
}

/// R of one block, and the number of samples used.
fn block(
    space: &dyn Space,
    random: &mut Stream,
    structure: &mut [u32],
    clock: &Clock<'_>,
) -> Result<(f64, u64)> {
    let Some(outer) = space.enclosing() else {
        return Err(Error::NoAnswer(format!("{} have no enclosing space", space.name())));
    };
    let (mut sum, mut hits, mut draws) = (0.0, 0, 0u64);
    while hits < BLOCK {
        if draws % ROUND == 0 {
            clock.check()?;
        }
        draws += 1;
        outer.uniform(random, structure, clock)?;
        sum -= (1.0 - random.uniform()).ln();
        hits += u64::from(space.contains(structure)?);
        if hits == 0 && draws == super::MOST_TRIES {
            return Err(super::too_rare(space.name(), outer.name()));
        }
    }
    Ok((sum, draws))
}

/// ln |Y| within a factor 1 ± ε with this confidence.
pub(super) fn estimate(
    space: &dyn Space,
    error: f64,
    confidence: f64,
    run: &Run,
    clock: &Clock<'_>,
) -> Result<Count> {
    let (spaces, base) = chain(space)?;
    let mut count = Count::known(base);
    let levels = spaces.len() as f64;
    let error = (error.ln_1p() / levels).exp_m1();
    let delta = (1.0 - confidence) / levels;
    for (level, space) in spaces.iter().enumerate() {
        let blocks = blocks(error, delta);
        let streams = Streams::new(run.seed(), &format!("count {level}"));
        let done = std::sync::atomic::AtomicU64::new(0);
        let work = |index: u64| {
            let mut structure = vec![0; space.width()];
            let part = block(*space, &mut streams.block(index), &mut structure, clock)?;
            let finished = done.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
            clock.progress("count", finished, blocks);
            Ok(part)
        };
        let (mut sum, mut draws) = (0.0, 0u64);
        run.in_order(0..blocks, work, |_, part: (f64, u64)| {
            sum += part.0;
            draws += part.1;
        })?;
        let (low, high) = ends(blocks * BLOCK, delta);
        // The sum of a block has a relative rounding error of at most 2⁻⁵² per sample, and no share
        // exceeds 1.
        let slack = f64::EPSILON * (draws / blocks + blocks) as f64;
        let (low, high) = ((low / sum).ln() - slack, (high / sum).ln() + slack);
        // The point for which both ends are within a factor 1 ± ε: their harmonic mean.
        let middle = high + std::f64::consts::LN_2 - (high - low).exp().ln_1p();
        count.low += low.min(0.0);
        count.high += high.min(0.0);
        count.value += middle.min(0.0);
        count.draws += draws;
    }
    Ok(count)
}

/// ln of an unbiased estimate of |Y|.
pub(super) fn unbiased(space: &dyn Space, random: &mut Stream, clock: &Clock<'_>) -> Result<f64> {
    let (spaces, mut log) = chain(space)?;
    let mut structure = vec![0; space.width()];
    for space in spaces {
        let (sum, _) = block(space, random, &mut structure, clock)?;
        log += ((BLOCK - 1) as f64 / sum).ln();
    }
    Ok(log)
}

/// ln of the number of structures: exact if there is a formula, otherwise estimated by sampling within a
/// factor 1 ± `error` with this confidence.
///
/// # Errors
/// If `error` or `confidence` is not between 0 and 1, there is no structure, the structures are too rare for
/// rejection, a space of unknown size has no enclosing space, or the run is cancelled or out of time.
///
/// ```
/// use zhat::space::{Cycles, log_count, Restricted};
/// use zhat::Run;
/// // 60 of the 197 cycles on six vertices visit all of them, and in 24 of those 0 and 1 are adjacent.
/// let whole = Restricted::new(Cycles::new(6)?, ["size 6 6".parse()?])?;
/// assert!((log_count(&whole, 0.1, 0.999, &Run::default())?.value - 60f64.ln()).abs() < 1e-12);
/// let linked = Restricted::new(whole, ["linked 0 1".parse()?])?;
/// let found = log_count(&linked, 0.1, 0.999, &Run::default())?;
/// assert!((found.value - 24f64.ln()).abs() < 0.1);
/// # Ok::<(), zhat::Error>(())
/// ```
pub fn log_count(space: &dyn Space, error: f64, confidence: f64, run: &Run) -> Result<Estimate> {
    let clock = run.start("count");
    in_range("error", &error, INSIDE_UNIT)?;
    in_range("confidence", &confidence, INSIDE_UNIT)?;
    let count = estimate(space, error, confidence, run, &clock)?;
    let mut diagnostics = Diagnostics::new("count").note("draws", count.draws);
    diagnostics.rounding = numeric::rounding_allowance(64.0, count.value.abs() + 1.0);
    diagnostics.seconds = clock.seconds();
    let guarantee = match space.log_count() {
        Some(_) => Guarantee::Exact,
        None => Guarantee::bounds(count.low, count.high, confidence, diagnostics.rounding),
    };
    Ok(Answer { value: count.value, guarantee, diagnostics })
}
