//! Element-wise kernels on tiles of tables, contiguous and through a list of offsets.

use super::simd::dispatched;

/// The positions of the entries of some axes in a table: Σ digit · stride for every joint state of the axes,
/// in row-major order.
#[derive(Clone, Debug)]
pub(crate) struct Offsets {
    offsets: Vec<u32>,
    /// The largest offset plus one.
    bound: usize,
}

impl Offsets {
    pub fn new(lengths: &[usize], strides: &[usize]) -> Self {
        let mut offsets = Vec::with_capacity(lengths.iter().product());
        offsets.push(0u32);
        let mut bound = 1;
        // From the fastest axis to the slowest: the offsets so far are repeated for each further digit.
        for (&length, &stride) in lengths.iter().zip(strides).rev() {
            let known = offsets.len();
            for digit in 1..length {
                let step = (digit * stride) as u32;
                offsets.extend_from_within(..known);
                offsets[digit * known..].iter_mut().for_each(|offset| *offset += step);
            }
            bound += (length - 1) * stride;
        }
        Offsets { offsets, bound }
    }

    /// out\[i\] = values\[offset(start + i)\].
    pub fn copy(&self, out: &mut [f64], values: &[f64], start: usize) {
        copy_gathered(out, &values[..self.bound], self.window(start, out.len()));
    }

    /// out\[i\] ·= values\[offset(start + i)\].
    pub fn multiply(&self, out: &mut [f64], values: &[f64], start: usize) {
        multiply_gathered(out, &values[..self.bound], self.window(start, out.len()));
    }

    /// out\[i\] += values\[offset(start + i)\].
    pub fn add(&self, out: &mut [f64], values: &[f64], start: usize) {
        add_gathered(out, &values[..self.bound], self.window(start, out.len()));
    }

    /// out\[offset(i)\] += values\[i\].
    pub fn scatter_add(&self, out: &mut [f64], values: &[f64]) {
        let out = &mut out[..self.bound];
        for (&value, &offset) in values.iter().zip(&self.offsets) {
            out[offset as usize] += value;
        }
    }

    fn window(&self, start: usize, len: usize) -> &[u32] {
        &self.offsets[start..start + len]
    }
}

/// Reads `values[offset]` without a bounds check.
///
/// # Safety
/// `offset` must be below `values.len()`.
#[inline(always)]
unsafe fn at(values: &[f64], offset: u32) -> f64 {
    // SAFETY: guaranteed by the caller.
    unsafe { *values.get_unchecked(offset as usize) }
}

macro_rules! gathered {
    ($kernel:ident, $out:ident, $value:ident, $update:expr) => {
        #[inline(always)]
        fn $kernel<const FMA: bool>(outs: &mut [f64], values: &[f64], offsets: &[u32]) {
            for ($out, &offset) in outs.iter_mut().zip(offsets) {
                // SAFETY: `values` is truncated to `bound`, which is above every offset of the list.
                let $value = unsafe { at(values, offset) };
                $update;
            }
        }
    };
}
gathered!(copy_kernel, out, value, *out = value);
gathered!(multiply_kernel, out, value, *out *= value);
gathered!(add_kernel, out, value, *out += value);

#[inline(always)]
fn multiply_assign_kernel<const FMA: bool>(out: &mut [f64], values: &[f64]) {
    out.iter_mut().zip(values).for_each(|(x, value)| *x *= value);
}

#[inline(always)]
fn add_assign_kernel<const FMA: bool>(out: &mut [f64], values: &[f64]) {
    out.iter_mut().zip(values).for_each(|(x, value)| *x += value);
}

#[inline(always)]
fn max_assign_kernel<const FMA: bool>(out: &mut [f64], values: &[f64]) {
    out.iter_mut().zip(values).for_each(|(x, &value)| *x = if value > *x { value } else { *x });
}

dispatched! { fn copy_gathered(out: &mut [f64], values: &[f64], offsets: &[u32]) => copy_kernel }
dispatched! { fn multiply_gathered(out: &mut [f64], values: &[f64], offsets: &[u32]) => multiply_kernel }
dispatched! { fn add_gathered(out: &mut [f64], values: &[f64], offsets: &[u32]) => add_kernel }
dispatched! {
    /// xᵢ ← xᵢ·yᵢ.
    pub(crate) fn multiply_assign(out: &mut [f64], values: &[f64]) => multiply_assign_kernel
}
dispatched! {
    /// xᵢ ← xᵢ + yᵢ.
    pub(crate) fn add_assign(out: &mut [f64], values: &[f64]) => add_assign_kernel
}
dispatched! {
    /// xᵢ ← max(xᵢ, yᵢ).
    pub(crate) fn max_assign(out: &mut [f64], values: &[f64]) => max_assign_kernel
}
