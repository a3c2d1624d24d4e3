//! Input and output buffers of matrix products, one step at a time.

use super::layout::Layout;
use crate::numeric::Real;

/// Input and output buffers of the products of one step.
pub(super) struct Buffers<F> {
    values: [Vec<F>; 4],
    scales: [Vec<f64>; 2],
}

pub(super) struct Both<'a, F> {
    pub forward_input: &'a mut [F],
    pub forward_output: &'a mut [F],
    pub backward_input: &'a mut [F],
    pub backward_output: &'a mut [F],
    pub forward_scales: &'a mut [f64],
    pub backward_scales: &'a mut [f64],
}

impl<F: Real> Buffers<F> {
    pub fn new(layout: &Layout) -> Self {
        let batch = layout.active(1);
        Buffers {
            values: [Vec::new(), Vec::new(), Vec::new(), Vec::new()],
            scales: [vec![0.0; batch], vec![0.0; batch]],
        }
    }

    /// Buffers of one direction: input, output and scales.
    pub fn one(&mut self, input: usize, output: usize, count: usize) -> (&mut [F], &mut [F], &mut [f64]) {
        let [first, second, ..] = &mut self.values;
        (sized(first, input), sized(second, output), &mut self.scales[0][..count])
    }

    /// Buffers of both directions, all of the same size.
    pub fn both(&mut self, len: usize, count: usize) -> Both<'_, F> {
        let [a, b, c, d] = &mut self.values;
        let [e, f] = &mut self.scales;
        Both {
            forward_input: sized(a, len),
            forward_output: sized(b, len),
            backward_input: sized(c, len),
            backward_output: sized(d, len),
            forward_scales: &mut e[..count],
            backward_scales: &mut f[..count],
        }
    }
}

fn sized<F: Real>(buffer: &mut Vec<F>, len: usize) -> &mut [F] {
    if buffer.len() < len {
        buffer.resize(len, F::ZERO);
    }
    &mut buffer[..len]
}
