//! Count variables: ln x!, and truncation of the sum over an unbounded count.
//!
//! Let v be an unbounded count. If score(x + 1) − score(x) ≤ D(x) for all values of the other variables, and
//! D decreases in x, then for every h
//!
//!   Σ_{x ≥ h} exp score(x) ≤ exp score(h)/(1 − e^{D(h)}),
//!
//! so the sum may be truncated at h if the last term is counted between 1 and 1/(1 − e^{D(h)}) times. Here
//! D(x) = A·ln(x + 1) + B, where A ≤ 0 is an upper bound on the coefficient of ln x! and B one on the
//! coefficient of x, both by interval arithmetic. h is chosen where terms have decreased to e⁻⁴⁵ of an
//! earlier one.

use super::{Domain, Statistic, Term};

/// The log ratio at which a term is negligible, and the maximum number of values until then.
const NEGLIGIBLE: f64 = -45.0;
const MOST_VALUES: u64 = 1 << 20;

/// ln n!, accurate to a few units in the last place.
pub(super) fn log_factorial(n: f64) -> f64 {
    if n < 2.0 {
        return 0.0;
    }
    if n == f64::INFINITY {
        return n;
    }
    if n < 64.0 {
        // 20! is the largest factorial that fits in 64 bits; the rounding errors of so few products are
        // negligible.
        return (2..=n as u32).map(f64::from).product::<f64>().ln();
    }
    // Stirling's series; the first omitted term is below 10⁻¹⁶.
    let inverse = 1.0 / (n * n);
    let series = (1.0 / 12.0 - inverse * (1.0 / 360.0 - inverse * (1.0 / 1260.0 - inverse / 1680.0))) / n;
    (n + 0.5) * n.ln() - n + 0.5 * std::f64::consts::TAU.ln() + series
}

/// Truncation point of the sum over a count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cut {
    pub last: u64,
    /// Upper bound on the correction to the logarithm of the last term, for the omitted terms.
    pub beyond: f64,
}

/// The product of two numbers, with 0 · ∞ = 0.
fn times(a: f64, b: f64) -> f64 {
    if a == 0.0 || b == 0.0 { 0.0 } else { a * b }
}

/// An enclosure of the values of a statistic.
fn range(domain: Domain, statistic: Statistic) -> (f64, f64) {
    let (a, b) = match domain {
        Domain::States(_) => return (0.0, 1.0),
        Domain::Interval(a, b) => (a, b),
        Domain::Counts(a, b) => (a as f64, b.map_or(f64::INFINITY, |b| b as f64)),
    };
    if matches!(statistic, Statistic::State(_)) {
        return (0.0, 1.0);
    }
    let (low, high) = (statistic.value(a), statistic.value(b));
    // Where a statistic is not monotone, its extremum is 0.
    let turns = match statistic {
        Statistic::Power(_) => a < 0.0 && b > 0.0,
        Statistic::Log(_) => a < 1.0 && b > 1.0,
        Statistic::Distance { centre, .. } => a < centre && b > centre,
        _ => false,
    };
    let zero = if turns { 0.0 } else { low };
    (low.min(high).min(zero), low.max(high).max(zero))
}

/// An upper bound on θ times the statistics of the other variables.
fn coefficient(domains: &[Domain], term: &Term, v: usize) -> f64 {
    let others = term.factors.iter().filter(|factor| factor.0 != v);
    let (_, high) = others.fold((term.weight, term.weight), |(low, high), &(u, statistic)| {
        let (a, b) = range(domains[u], statistic);
        let products = [times(low, a), times(low, b), times(high, a), times(high, b)];
        let least = products.iter().fold(f64::INFINITY, |m, x| m.min(*x));
        (least, products.iter().fold(f64::NEG_INFINITY, |m, x| m.max(*x)))
    });
    high + 1e-12 * high.abs()
}

/// The truncation point of the sum over an unbounded count.
pub(super) fn cut(domains: &[Domain], terms: &[Term], v: usize, least: u64) -> Result<Cut, String> {
    let (mut factorial, mut slope, mut from) = (0.0, 0.0, least);
    for term in terms {
        let own: Vec<Statistic> = term.factors.iter().filter(|f| f.0 == v).map(|f| f.1).collect();
        let largest = coefficient(domains, term, v);
        match own.as_slice() {
            [] => {}
            [Statistic::LogFactorial] => factorial += largest,
            [Statistic::Power(1.0)] => slope += largest,
            [Statistic::Distance { centre, power: 1.0 }] => {
                slope += largest;
                from = from.max(centre.max(0.0).ceil() as u64);
            }
            [Statistic::State(state)] => from = from.max(*state as u64 + 1),
            _ => {
                return Err(format!(
                    "variable {v} has no largest value; it may have x, |x − m|, ln x! and states in terms, one in each"
                ));
            }
        }
    }
    let diverges = || {
        format!(
            "variable {v} has no largest value, and its terms do not bound the sum: ln x! needs a negative weight, or x one"
        )
    };
    if !(factorial <= 0.0 && slope < f64::INFINITY && (factorial < 0.0 || slope < 0.0)) {
        return Err(diverges());
    }
    let step = |x: u64| {
        let (a, b) = (factorial * ((x + 1) as f64).ln(), slope);
        a + b + 1e-12 * (a.abs() + b.abs())
    };
    let mut log_ratio = 0.0;
    for x in from..from.saturating_add(MOST_VALUES) {
        let next = step(x);
        if log_ratio <= NEGLIGIBLE && next <= -1e-3 {
            return Ok(Cut { last: x, beyond: -(-next.exp() * (1.0 + 1e-12)).ln_1p() * (1.0 + 1e-12) });
        }
        log_ratio = (log_ratio + next).min(0.0);
    }
    Err(format!("variable {v} has no largest value, and more than {MOST_VALUES} values matter; give it one"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_of_factorials() {
        let mut sum = crate::numeric::CompensatedSum::default();
        for n in 1..5000u32 {
            sum.add(f64::from(n).ln());
            let (found, exact) = (log_factorial(f64::from(n)), sum.value());
            assert!(
                (found - exact).abs() <= 4e-16 * (n as f64 * f64::from(n).ln()).max(1.0),
                "{n}: {found} {exact}"
            );
        }
    }

    #[test]
    fn what_is_beyond_a_cut_is_bounded() {
        for rate in [0.01, 1.0, 30.0, 3000.0f64] {
            let x = |weight, statistic| Term { weight, factors: vec![(0, statistic)] };
            let terms = [x(rate.ln(), Statistic::Power(1.0)), x(-1.0, Statistic::LogFactorial)];
            let cut = cut(&[Domain::Counts(0, None)], &terms, 0, 0).unwrap();
            // Σ_{x ≥ h} λˣ/x!, relative to the term at h.
            let (mut ratio, mut sum) = (1.0, 0.0);
            for x in cut.last..cut.last + 10_000 {
                sum += ratio;
                ratio *= rate / (x + 1) as f64;
            }
            assert!(sum.ln() <= cut.beyond && cut.beyond < sum.ln() + 0.1, "{rate}: {cut:?} {}", sum.ln());
        }
    }
}
