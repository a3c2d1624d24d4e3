//! Interval arithmetic with outward rounding, for bounds on a score and its slopes over a box.
//!
//! Naive ranges of θ₁x + θ₂x² are far too wide if the two terms cancel. The mean value theorem gives s(x) ∈
//! s(m) + Σᵥ ∂ᵥs(box)·(xᵥ − mᵥ), whose excess shrinks with the square of the box. The intersection of both
//! ranges is used.

use crate::model::Statistic;

/// An unbounded slope is replaced by this value, so that 0 times it is 0.
const MOST: f64 = 1e300;

/// low ≤ high.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Range {
    pub low: f64,
    pub high: f64,
}

impl Range {
    pub fn point(x: f64) -> Self {
        Range { low: x, high: x }
    }

    /// The hull of two numbers that are accurate to a few units in the last place.
    fn around(a: f64, b: f64) -> Self {
        let (low, high) = (a.min(b), a.max(b));
        Range { low: low - 1e-14 * low.abs() - 1e-300, high: high + 1e-14 * high.abs() + 1e-300 }
    }

    pub fn plus(self, other: Range) -> Range {
        Range { low: (self.low + other.low).next_down(), high: (self.high + other.high).next_up() }
    }

    pub fn times(self, other: Range) -> Range {
        let products =
            [self.low * other.low, self.low * other.high, self.high * other.low, self.high * other.high];
        let low = products.iter().fold(f64::INFINITY, |a, &b| a.min(b));
        let high = products.iter().fold(f64::NEG_INFINITY, |a, &b| a.max(b));
        Range { low: low.next_down(), high: high.next_up() }
    }

    pub fn intersect(self, other: Range) -> Range {
        Range { low: self.low.max(other.low), high: self.high.min(other.high) }
    }

    pub fn magnitude(self) -> f64 {
        self.low.abs().max(self.high.abs())
    }

    fn holds_zero(self) -> bool {
        self.low <= 0.0 && self.high >= 0.0
    }
}

/// xⁿ for an integer n, exact on its monotone parts.
fn whole_power(x: Range, n: i32) -> Range {
    let ends = Range::around(x.low.powi(n), x.high.powi(n));
    if n % 2 == 0 && x.holds_zero() { Range { low: 0.0, high: ends.high } } else { ends }
}

/// |x − centre|.
fn distance(x: Range, centre: f64) -> Range {
    let (low, high) = ((x.low - centre).next_down(), (x.high - centre).next_up());
    let farthest = high.max(-low);
    if x.low >= centre {
        Range { low: low.max(0.0), high }
    } else if x.high <= centre {
        Range { low: (-high).max(0.0), high: -low }
    } else {
        Range { low: 0.0, high: farthest }
    }
}

/// uᶜ for u ≥ 0.
fn real_power(u: Range, c: f64) -> Range {
    if c == 0.0 {
        Range::point(1.0)
    } else {
        Range::around(u.low.powf(c).min(MOST), u.high.powf(c).min(MOST))
    }
}

/// The range of a statistic of a continuous variable, or of a count.
pub(super) fn range(statistic: Statistic, x: Range) -> Range {
    match statistic {
        Statistic::Power(c) if c.fract() == 0.0 => whole_power(x, c as i32),
        Statistic::Power(c) => Range::around(x.low.powf(c), x.high.powf(c)),
        Statistic::Log(c) => whole_power(Range::around(x.low.ln(), x.high.ln()), c as i32),
        Statistic::LogComplement => Range::around((-x.high).ln_1p(), (-x.low).ln_1p()),
        Statistic::State(_) => Range { low: 0.0, high: 1.0 },
        Statistic::Distance { centre, power } => real_power(distance(x, centre), power),
        Statistic::LogFactorial => Range::around(statistic.value(x.low), statistic.value(x.high)),
    }
}

/// The range of its derivative.
pub(super) fn slope(statistic: Statistic, x: Range) -> Range {
    match statistic {
        Statistic::Power(c) => {
            let power = if c == 1.0 { Range::point(1.0) } else { range(Statistic::Power(c - 1.0), x) };
            Range::point(c).times(power)
        }
        Statistic::Log(c) => {
            let inverse = Range::around(1.0 / x.low, 1.0 / x.high);
            let log = if c == 1 { Range::point(1.0) } else { range(Statistic::Log(c - 1), x) };
            Range::point(f64::from(c)).times(log).times(inverse)
        }
        Statistic::LogComplement => Range::around(-1.0 / (1.0 - x.low), -1.0 / (1.0 - x.high)),
        Statistic::State(_) => Range::point(0.0),
        Statistic::Distance { centre, power } => {
            let size = Range::point(power).times(real_power(distance(x, centre), power - 1.0));
            if x.low >= centre {
                size
            } else if x.high <= centre {
                Range { low: -size.high, high: -size.low }
            } else {
                Range { low: -size.high, high: size.high }
            }
        }
        // ψ(x + 1) is between −γ and ln(x + 1).
        Statistic::LogFactorial => Range { low: -1.0, high: x.high.ln_1p() + 1.0 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hold_what_they_should() {
        let boxes =
            [Range { low: 0.2, high: 0.7 }, Range { low: 0.9, high: 0.95 }, Range { low: 0.1, high: 0.1001 }];
        let statistics = [
            Statistic::Power(1.0),
            Statistic::Power(2.0),
            Statistic::Power(3.0),
            Statistic::Power(-2.0),
            Statistic::Power(0.37),
            Statistic::Log(1),
            Statistic::Log(2),
            Statistic::Log(3),
            Statistic::LogComplement,
            Statistic::Distance { centre: 0.4, power: 1.0 },
            Statistic::Distance { centre: 0.92, power: 2.5 },
            Statistic::Distance { centre: 0.05, power: 0.5 },
            Statistic::Distance { centre: 2.0, power: 3.0 },
        ];
        for x in boxes {
            for statistic in statistics {
                let (values, slopes) = (range(statistic, x), slope(statistic, x));
                for i in 0..=100 {
                    let at = x.low + (x.high - x.low) * f64::from(i) / 100.0;
                    let value = statistic.value(at);
                    assert!(values.low <= value && value <= values.high, "{statistic:?} at {at}");
                    let h = 1e-6 * at;
                    if matches!(statistic, Statistic::Distance { centre, .. } if (at - centre).abs() < 2.0 * h)
                    {
                        continue;
                    }
                    let seen = (statistic.value(at + h) - statistic.value(at - h)) / (2.0 * h);
                    let slack = 1e-6 * (1.0 + seen.abs());
                    assert!(
                        slopes.low - slack <= seen && seen <= slopes.high + slack,
                        "{statistic:?} at {at}"
                    );
                }
            }
        }
        let through = range(Statistic::Power(2.0), Range { low: -1.0, high: 2.0 });
        assert!(through.low == 0.0 && through.high >= 4.0);
    }
}
