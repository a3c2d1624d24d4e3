//! Remez exchange algorithm: the polynomial of degree k on [−1, 1] that minimises the maximum error.
//!
//! The error of this polynomial attains its maximum at k + 2 points with alternating signs (Chebyshev). Given
//! k + 2 points, a linear system yields the polynomial and the level E for which the error is ±E there. The
//! next points are the extrema of the error between its zeros. Convergence is quadratic. For exp, whose
//! derivatives are all positive, there are always exactly k zeros inside, and the ends of the interval are
//! among the points. O(k³) per exchange.

use crate::numeric::Double;

/// Relative tolerance on the level of the error at which the iteration stops.
const LEVEL: f64 = 1e-7;
/// Maximum number of exchanges. Quadratic convergence takes about five.
const EXCHANGES: usize = 40;

/// Chebyshev coefficients of the minimax polynomial of exp (given as a function on [−1, 1]), starting from
/// `guess`. `None` if the error is indistinguishable from rounding.
pub(super) fn exchange(guess: &[Double], exp: impl Fn(Double) -> Double) -> Option<Vec<Double>> {
    let degree = guess.len() - 1;
    let count = degree + 2;
    let scale = exp(Double::ONE).high;
    let angle = |j: usize| std::f64::consts::PI * (count - 1 - j) as f64 / (count - 1) as f64;
    let mut points: Vec<f64> = (0..count).map(|j| angle(j).cos()).collect();
    (points[0], points[count - 1]) = (-1.0, 1.0);
    for _ in 0..EXCHANGES {
        let (series, height) = levelled(&points, &exp)?;
        if height.high.abs() <= 1e-26 * scale {
            return None;
        }
        let error = |t: f64| (exp(t.into()) - evaluate(&series, t.into())).value();
        let zeros: Vec<f64> = points.windows(2).map(|pair| zero(error, pair[0], pair[1])).collect();
        let mut next = vec![-1.0];
        next.extend(zeros.windows(2).map(|pair| peak(error, pair[0], pair[1])));
        next.push(1.0);
        let largest = next.iter().map(|&t| error(t).abs()).fold(0.0, f64::max);
        if largest <= (1.0 + LEVEL) * height.high.abs() {
            return Some(series);
        }
        points = next;
    }
    None
}

/// Σ a_m T_m(t), by Clenshaw's recursion.
fn evaluate(series: &[Double], t: Double) -> Double {
    let (mut last, mut before) = (Double::ZERO, Double::ZERO);
    for &a in series[1..].iter().rev() {
        let next = a + t.scaled(2.0) * last - before;
        before = std::mem::replace(&mut last, next);
    }
    series[0] + t * last - before
}

/// The coefficients and the level E with Σ a_m T_m(tⱼ) + (−1)ʲ E = exp(tⱼ), by elimination with pivoting.
fn levelled(points: &[f64], exp: impl Fn(Double) -> Double) -> Option<(Vec<Double>, Double)> {
    let n = points.len();
    let mut rows: Vec<Vec<Double>> = Vec::with_capacity(n);
    for (j, &t) in points.iter().enumerate() {
        let t = Double::from(t);
        let mut row = vec![Double::ONE, t];
        for m in 2..n - 1 {
            row.push(t.scaled(2.0) * row[m - 1] - row[m - 2]);
        }
        row.truncate(n - 1);
        row.push(if j % 2 == 0 { Double::ONE } else { -Double::ONE });
        row.push(exp(t));
        rows.push(row);
    }
    for i in 0..n {
        let pivot = (i..n).max_by(|&a, &b| rows[a][i].high.abs().total_cmp(&rows[b][i].high.abs()))?;
        rows.swap(i, pivot);
        if !rows[i][i].high.is_normal() {
            return None;
        }
        let (above, below) = rows.split_at_mut(i + 1);
        let lead = &above[i];
        for row in below {
            let factor = row[i].divided(lead[i]);
            for (x, &y) in row[i..].iter_mut().zip(&lead[i..]) {
                *x = *x - factor * y;
            }
        }
    }
    let mut solution = vec![Double::ZERO; n];
    for i in (0..n).rev() {
        let rest = (i + 1..n).fold(rows[i][n], |rest, j| rest - rows[i][j] * solution[j]);
        solution[i] = rest.divided(rows[i][i]);
    }
    let height = solution.pop()?;
    Some((solution, height))
}

/// A zero of the function, by bisection.
fn zero(f: impl Fn(f64) -> f64, mut low: f64, mut high: f64) -> f64 {
    let positive = f(low) > 0.0;
    for _ in 0..50 {
        let middle = 0.5 * (low + high);
        if (f(middle) > 0.0) == positive { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// The maximum of |f| between two zeros, by golden-section search.
fn peak(f: impl Fn(f64) -> f64, mut low: f64, mut high: f64) -> f64 {
    let golden = 0.5 * (5f64.sqrt() - 1.0);
    let (mut left, mut right) = (high - golden * (high - low), low + golden * (high - low));
    let (mut at_left, mut at_right) = (f(left).abs(), f(right).abs());
    for _ in 0..40 {
        if at_left > at_right {
            (high, right, at_right) = (right, left, at_left);
            left = high - golden * (high - low);
            at_left = f(left).abs();
        } else {
            (low, left, at_left) = (left, right, at_right);
            right = low + golden * (high - low);
            at_right = f(right).abs();
        }
    }
    0.5 * (low + high)
}
