//! Gauss–Legendre quadrature: n points on [−1, 1] that integrate polynomials of degree 2n − 1 exactly.

/// The points in ascending order and their weights, which sum to 2. The points are the zeros of the Legendre
/// polynomial, found by Newton's method.
pub(super) fn gauss_legendre(n: usize) -> Vec<(f64, f64)> {
    let mut rule = vec![(0.0, 0.0); n];
    for i in 0..n.div_ceil(2) {
        let mut x = (std::f64::consts::PI * (i as f64 + 0.75) / (n as f64 + 0.5)).cos();
        let mut slope = 1.0;
        for _ in 0..100 {
            let (mut last, mut before) = (1.0, 0.0);
            for k in 0..n {
                let k = k as f64;
                let next = ((2.0 * k + 1.0) * x * last - k * before) / (k + 1.0);
                before = std::mem::replace(&mut last, next);
            }
            slope = n as f64 * (x * last - before) / (x * x - 1.0);
            let step = last / slope;
            x -= step;
            if step.abs() <= 1e-16 {
                break;
            }
        }
        let weight = 2.0 / ((1.0 - x * x) * slope * slope);
        rule[n - 1 - i] = (x, weight);
        rule[i] = (-x, weight);
    }
    rule
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polynomials_are_integrated_exactly() {
        for n in [1usize, 2, 3, 5, 16, 20] {
            let rule = gauss_legendre(n);
            assert!(rule.windows(2).all(|pair| pair[0].0 < pair[1].0));
            for power in 0..2 * n {
                let sum: f64 = rule.iter().map(|(x, w)| w * x.powi(power as i32)).sum();
                let exact = if power % 2 == 0 { 2.0 / (power as f64 + 1.0) } else { 0.0 };
                assert!((sum - exact).abs() < 1e-13, "{n} {power}: {sum} {exact}");
            }
        }
    }
}
