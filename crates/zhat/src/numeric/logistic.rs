//! Sums of two exponentials and their shares, element by element.

use super::elementary::double::{exp_one, larger, ln_one};
use super::simd::dispatched;

#[inline(always)]
fn log_add_kernel<const FMA: bool>(low: &[f64], high: &[f64], sum: &mut [f64], share: &mut [f64]) {
    let n = low.len();
    let (high, sum, share) = (&high[..n], &mut sum[..n], &mut share[..n]);
    for i in 0..n {
        let (a, b) = (low[i], high[i]);
        // Two terms of weight zero have equal shares instead of NaN.
        let difference = if a == b { 0.0 } else { b - a };
        let small = exp_one::<FMA>(-difference.abs());
        let total = 1.0 + small;
        sum[i] = larger(a, b) + ln_one::<FMA>(total);
        share[i] = if difference >= 0.0 { 1.0 } else { small } / total;
    }
}

dispatched! {
    /// sumᵢ = ln(exp lowᵢ + exp highᵢ) and shareᵢ = exp(highᵢ − sumᵢ). If both terms are −∞, the sum is −∞
    /// and the share ½.
    ///
    /// # Panics
    /// If the slices differ in length.
    pub(crate) fn log_add(low: &[f64], high: &[f64], sum: &mut [f64], share: &mut [f64]) => log_add_kernel
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_definition() {
        let minus = f64::NEG_INFINITY;
        let pairs = [
            (0.0, 0.0),
            (1.0, -2.5),
            (-3.0, 4.0),
            (1e4, -1e4),
            (-1e4, 1e4),
            (minus, 2.0),
            (2.0, minus),
            (minus, minus),
            (-0.0, 1e-17),
        ];
        let (low, high): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
        let (mut sum, mut share) = (vec![0.0; low.len()], vec![0.0; low.len()]);
        log_add(&low, &high, &mut sum, &mut share);
        for (i, &(a, b)) in pairs.iter().enumerate() {
            let most = a.max(b);
            let want = if most == minus { minus } else { most + ((a - most).exp() + (b - most).exp()).ln() };
            assert!(
                sum[i] == want || (sum[i] - want).abs() <= 1e-15 * (1.0 + want.abs()),
                "{a} {b}: {}",
                sum[i]
            );
            let part = if most == minus { 0.5 } else { (b - want).exp() };
            assert!((share[i] - part).abs() <= 1e-15, "{a} {b}: {}", share[i]);
        }
    }
}
