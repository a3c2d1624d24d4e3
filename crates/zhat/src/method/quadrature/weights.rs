//! The mean of weights exp r(x), with an interval that is valid for any tails of the weights.
//!
//! Known in advance: r ≤ r⁺ (the sum of the maxima of the tables); possibly r ≥ r⁻; possibly E\[h\] for the
//! part h of r that forbids nothing; possibly certified bounds on E\[exp pr\] for some p. A pilot run, whose
//! samples are discarded, chooses a shift s, a factor β and cuts B. Then
//!
//! t = min(exp(r − s), B) − β·(h − E\[h\])
//!
//! lies in a known range, so empirical Bernstein bounds ([`crate::method::bounds::minibucket`]) hold for its
//! expectation. Cutting does not increase the expectation, so each lower bound also holds for the uncut
//! weight. For the upper bound, E\[(w − B)₊\] ≤ E\[wᵖ\]·(p−1)^{p−1}/(pᵖ·B^{p−1}) is added if B is below the
//! largest weight. Two more bounds are available: Markov's inequality from below, which needs no range, and
//! r⁺ from above.

use crate::answer::Guarantee;
use crate::method::bounds::minibucket::Moments;
use crate::method::sampling::unbiased;
use crate::run::share::{Reader, Words};

/// Maximum of ln B, so that squares do not overflow.
const LARGEST: f64 = 300.0;

/// Bounds that hold before sampling.
#[derive(Clone, Debug, Default)]
pub(super) struct WeightBounds {
    /// A lower bound on all finite r.
    pub low: f64,
    /// An upper bound on r.
    pub high: f64,
    /// The range of h.
    pub soft: (f64, f64),
    /// Whether r may be −∞ and thus differ from h.
    pub hard: bool,
    /// E\[h\], if known.
    pub mean: Option<f64>,
    /// p and an upper bound on ln E\[exp pr\].
    pub moments: Vec<(f64, f64)>,
}

/// One sample: r, and the part h of it that forbids nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Draw {
    pub r: f64,
    pub h: f64,
}

/// A cut B, the range of t, a point near its mean, and a bound on the tail beyond the cut.
#[derive(Clone, Copy, Debug, Default)]
struct Cut {
    largest: f64,
    range: (f64, f64),
    center: f64,
    tail: f64,
}

/// How samples are summed.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// s.
    pub shift: f64,
    beta: f64,
    mean: f64,
    low: Cut,
    high: Cut,
    /// The range of r is so small that weights can be summed without cutting.
    pub steady: bool,
    center: f64,
    /// The interval relative to the mean that the pilot run predicts.
    pub expected: (f64, f64),
    /// The upper end without any allowance for tails, as with a perfect certificate.
    pub ideal: f64,
    /// The relative variance of one term in the pilot run.
    pub variance: f64,
    slack: f64,
}

impl Plan {
    /// All numbers that sums of samples depend on, to the bit.
    pub fn mark(&self) -> Vec<u64> {
        let cut = |cut: &Cut| [cut.largest, cut.range.0, cut.range.1, cut.center, cut.tail];
        let own =
            [self.shift, self.beta, self.mean, self.center, self.slack, f64::from(u8::from(self.steady))];
        [&own[..], &cut(&self.low), &cut(&self.high)].concat().iter().map(|x| x.to_bits()).collect()
    }
}

/// Sums over samples, of values minus a constant.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    low: (f64, f64),
    high: (f64, f64),
    value: (f64, f64),
}

impl Words for Sums {
    fn write(&self, words: &mut Vec<u64>) {
        (self.low, (self.high, self.value)).write(words);
    }

    fn read(words: &mut Reader<'_>) -> Option<Self> {
        let (low, (high, value)) = Words::read(words)?;
        Some(Sums { low, high, value })
    }
}

impl std::ops::AddAssign for Sums {
    fn add_assign(&mut self, other: Sums) {
        let add = |own: &mut (f64, f64), more: (f64, f64)| {
            own.0 += more.0;
            own.1 += more.1;
        };
        add(&mut self.low, other.low);
        add(&mut self.high, other.high);
        add(&mut self.value, other.value);
    }
}

/// ln of a mean; −∞ if it is not positive.
fn log(x: f64) -> f64 {
    if x > 0.0 { x.ln() } else { f64::NEG_INFINITY }
}

impl WeightBounds {
    /// An upper bound on E\[(w − B)₊\] in units of exp s, for B = exp(cut) in the same units.
    fn tail(&self, cut: f64, shift: f64) -> f64 {
        if cut >= self.high - shift {
            return 0.0;
        }
        let bound = |&(p, log_moment): &(f64, f64)| {
            let constant = (p - 1.0) * (p - 1.0).ln() - p * p.ln();
            (constant + log_moment - p * shift - (p - 1.0) * cut).exp()
        };
        self.moments.iter().map(bound).fold(f64::INFINITY, f64::min)
    }

    /// The range of t.
    fn range(&self, shift: f64, beta: f64, mean: f64, cut: f64) -> (f64, f64) {
        let weight = |r: f64| (r - shift).min(cut).exp();
        if self.hard || beta == 0.0 {
            let least = if self.hard { 0.0 } else { weight(self.low) };
            let (down, up) = (beta * (self.soft.1 - mean), beta * (self.soft.0 - mean));
            return (least - down, weight(self.high) - up);
        }
        // A function of r alone: decreasing, then increasing from r = s + ln β, then decreasing again beyond
        // the cut.
        let value = |r: f64| weight(r) - beta * (r - mean);
        let inner = [shift + beta.ln(), shift + cut].map(|r| r.clamp(self.low, self.high));
        let values = [self.low, inner[0], inner[1], self.high].map(value);
        (
            values.iter().copied().fold(f64::INFINITY, f64::min),
            values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        )
    }
}

/// Mean and variance.
fn moments(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let count = values.clone().count().max(1) as f64;
    let mean = values.clone().sum::<f64>() / count;
    let variance = values.map(|x| (x - mean) * (x - mean)).sum::<f64>() / (count - 1.0).max(1.0);
    (mean, variance)
}

impl Plan {
    /// Chooses the best parameters for `samples` samples based on a pilot run. δ is the error probability of
    /// the interval.
    pub fn new(pilot: &[Draw], known: &WeightBounds, samples: f64, delta: f64) -> Self {
        let logs: Vec<f64> = pilot.iter().map(|draw| draw.r).collect();
        let pilot_mean = crate::numeric::log_sum_exp(&logs) - (logs.len().max(1) as f64).ln();
        let shift = if pilot_mean.is_finite() { pilot_mean } else { known.high };
        let steady = known.high - shift <= LARGEST;
        let (mut beta, mean) = (0.0, known.mean.unwrap_or(0.0));
        if let (Some(mean), true) = (known.mean, steady) {
            let weight = |draw: &Draw| (draw.r - shift).exp();
            let (center, _) = moments(pilot.iter().map(weight));
            let covariance: f64 = pilot.iter().map(|d| (weight(d) - center) * (d.h - mean)).sum();
            let variance: f64 = pilot.iter().map(|d| (d.h - mean).powi(2)).sum();
            if variance > 0.0 && covariance > 0.0 {
                beta = covariance / variance;
            }
        }
        let most = (known.high - shift).min(LARGEST);
        let steps = [
            0.1, 0.2, 0.4, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 11.0, 16.0, 22.0, 32.0, 45.0, 64.0, 90.0,
            128.0, 180.0, 256.0,
        ];
        let cuts = steps.into_iter().filter(|&cut| cut < most).chain([most]);
        let (mut low, mut high) = (Cut::default(), Cut::default());
        let (mut best_low, mut best_high, mut ideal) = (f64::NEG_INFINITY, f64::INFINITY, f64::INFINITY);
        let third = delta / 3.0;
        for cut in cuts {
            let range = known.range(shift, beta, mean, cut);
            let largest = cut.exp();
            let term = |d: &Draw| (d.r - shift).min(cut).exp() - beta * (d.h - mean);
            let (center, variance) = moments(pilot.iter().map(term));
            let width = (range.1 - range.0).max(f64::MIN_POSITIVE);
            let seen = Moments {
                count: samples,
                mean: ((center - range.0) / width).clamp(0.0, 1.0),
                variance: variance / (width * width),
            };
            let tail = known.tail(cut, shift);
            let own = Cut { largest, range, center, tail };
            let (below, above) = (range.0 + width * seen.low(third), range.0 + width * seen.high(third));
            if below > best_low {
                (best_low, low) = (below, own);
            }
            ideal = ideal.min(above);
            if above + tail < best_high {
                (best_high, high) = (above + tail, own);
            }
        }
        if best_high == f64::INFINITY {
            let range = known.range(shift, beta, mean, most);
            high = Cut { largest: most.exp(), range, center: 1.0, tail: f64::INFINITY };
        }
        if best_low == f64::NEG_INFINITY {
            low = Cut { tail: 0.0, ..high };
        }
        let (center, variance) =
            moments(pilot.iter().map(|d| (d.r - shift).min(LARGEST).exp() - beta * (d.h - mean)));
        // Rounding in t and in E[h], which is a sum over all tables.
        let spread = known.soft.0.abs().max(known.soft.1.abs());
        let slack = 1e-13 + beta * (1e-11 * spread + 1e-13 * mean.abs());
        // In units of the mean, which the first-order correction has moved away from 1.
        let unit = if center > 0.0 { center } else { 1.0 };
        let expected = (best_low / unit, best_high.min((known.high - shift).exp()) / unit);
        let (ideal, variance) = (ideal / unit, variance / (unit * unit));
        Plan { shift, beta, mean, low, high, steady, center, expected, ideal, variance, slack }
    }

    /// Adds one sample.
    #[inline]
    pub fn add(&self, draw: Draw, weight: f64, sums: &mut Sums) {
        let correction = self.beta * (draw.h - self.mean);
        let term = |sum: &mut (f64, f64), x: f64| {
            sum.0 += x;
            sum.1 += x * x;
        };
        term(&mut sums.low, weight.min(self.low.largest) - correction - self.low.center);
        term(&mut sums.high, weight.min(self.high.largest) - correction - self.high.center);
        if self.steady {
            term(&mut sums.value, weight - correction - self.center);
        }
    }

    /// exp(r − s), limited to the maximum cut.
    #[inline]
    pub fn weight(&self, r: f64) -> f64 {
        (r - self.shift).min(LARGEST).exp()
    }

    /// Whether the first-order term is subtracted.
    pub fn corrects(&self) -> bool {
        self.beta > 0.0
    }

    /// ln of the mean of exp r and its relative standard error, both estimated from the sample. `None` if
    /// weights cannot be summed without cutting.
    pub fn value(&self, sums: &Sums, count: f64) -> Option<(f64, f64)> {
        let mean = self.center + sums.value.0 / count;
        let error = (variance(sums.value, count) / count).sqrt() / mean;
        (self.steady && mean > 0.0).then(|| (self.shift + mean.ln(), error))
    }

    /// Bounds on ln E\[exp r\] that hold with probability 1 − δ. `replicates` are the logarithms of mean
    /// weights, each over the same number of samples.
    pub fn interval(
        &self,
        sums: &Sums,
        count: f64,
        replicates: &[f64],
        known: &WeightBounds,
        delta: f64,
    ) -> (f64, f64) {
        let third = delta / 3.0;
        let (_, markov) = unbiased(replicates, 1.0 - third, 0.0);
        let markov = if let Guarantee::Unbiased { low, .. } = markov { low } else { f64::NEG_INFINITY };
        let bound = |cut: &Cut, own: (f64, f64), bound: fn(&Moments, f64) -> f64| {
            let width = (cut.range.1 - cut.range.0) * (1.0 + 1e-12) + f64::MIN_POSITIVE;
            let start = cut.range.0 - 0.5e-12 * (cut.range.1 - cut.range.0);
            let mean = ((cut.center + own.0 / count - start) / width).clamp(0.0, 1.0);
            let variance = (variance(own, count) + 1e-14 * own.1 / count) / (width * width);
            start + width * bound(&Moments { count, mean, variance }, third)
        };
        let slack = |cut: &Cut| self.slack * (1.0 + cut.largest);
        let low = bound(&self.low, sums.low, Moments::low) - slack(&self.low);
        let high = bound(&self.high, sums.high, Moments::high) + self.high.tail + slack(&self.high);
        let mut low = markov.max(self.shift + log(low));
        if !known.hard {
            // Jensen's inequality, and the smallest weight.
            low = low.max(known.low).max(known.mean.map_or(f64::NEG_INFINITY, |mean| mean - self.slack));
        }
        let high = known.high.min(self.shift + log(high));
        (low.min(high), high)
    }
}

/// The sample variance from sums of values minus a constant.
fn variance(sums: (f64, f64), count: f64) -> f64 {
    (sums.1 - sums.0 * sums.0 / count).max(0.0) / (count - 1.0).max(1.0)
}
