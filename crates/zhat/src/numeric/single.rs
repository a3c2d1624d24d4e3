//! Vector `exp`, `ln` and the reductions built from them, for `f32`.

/// xᵢ ← exp xᵢ.
pub(crate) fn exp_in_place(values: &mut [f32]) {
    values.iter_mut().for_each(|x| *x = x.exp());
}

/// xᵢ ← ln xᵢ.
pub(crate) fn ln_in_place(values: &mut [f32]) {
    values.iter_mut().for_each(|x| *x = x.ln());
}

/// The largest value, −∞ for none.
pub(crate) fn max(values: &[f32]) -> f32 {
    values.iter().copied().fold(f32::NEG_INFINITY, f32::max)
}

/// Σᵢ exp(xᵢ − shift).
pub(crate) fn sum_exp(values: &[f32], shift: f32) -> f64 {
    values.iter().map(|x| f64::from((x - shift).exp())).sum()
}
