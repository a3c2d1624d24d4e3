//! The joint table θ_f(x)/ρ_f + Σ_j a_j(x_j) of a factor, and its log-sums or maxima over all axes but one.
//!
//! The sums are of exp(· − maximum), computed once for all axes. If a sum is so small that terms may have
//! underflowed, it is recomputed relative to the maximum of its own entries. Couplings of 10⁴ therefore cost
//! time but no accuracy.

use super::layout::{Layout, View};
use crate::numeric;

/// Sums smaller than this may lack significant terms that underflowed.
const FAINT: f64 = 1e-200;

/// Sum-product or max-product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algebra {
    /// log Σ exp.
    Sum,
    /// max.
    Max,
}

/// log(exp a + exp b).
#[inline(always)]
pub(super) fn log_add(a: f64, b: f64) -> f64 {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    if low == f64::NEG_INFINITY { high } else { high + (1.0 + (low - high).exp()).ln() }
}

impl Algebra {
    #[inline(always)]
    fn add(self, a: f64, b: f64) -> f64 {
        match self {
            Algebra::Sum => log_add(a, b),
            Algebra::Max => a.max(b),
        }
    }

    /// log Σ exp, or max, of a list.
    #[inline]
    pub fn total(self, values: &[f64]) -> f64 {
        match (self, values) {
            (_, &[a, b]) => self.add(a, b),
            (Algebra::Sum, _) => numeric::log_sum_exp(values),
            (Algebra::Max, _) => numeric::max(values),
        }
    }
}

/// Scratch space for one factor, reused for the next.
pub(crate) struct Workspace {
    /// a_j of all variables, concatenated; set before [`Workspace::join`].
    pub incoming: Vec<f64>,
    /// Outgoing messages, or scratch for callers.
    pub outgoing: Vec<f64>,
    joint: Vec<f64>,
    weights: Vec<f64>,
    maximum: f64,
}

impl Workspace {
    pub fn new(layout: &Layout<'_>) -> Self {
        let (table, sent) = layout.largest;
        Workspace {
            incoming: Vec::with_capacity(sent),
            outgoing: Vec::with_capacity(sent),
            joint: Vec::with_capacity(table),
            weights: Vec::with_capacity(table),
            maximum: 0.0,
        }
    }

    /// Memory in bytes, from the number of entries of the largest table and of its messages.
    pub fn bytes(table: usize, sent: usize) -> f64 {
        16.0 * (table + sent) as f64 + 200.0
    }

    /// Sets the joint table θ·scale + Σ_j a_j.
    pub fn join(&mut self, layout: &Layout<'_>, view: View<'_>, scale: f64, algebra: Algebra) {
        self.joint.clear();
        self.joint.extend(view.table.iter().map(|x| x * scale));
        let (mut stride, mut end) = (1, self.incoming.len());
        for &v in view.variables.iter().rev() {
            let len = layout.cardinality(v);
            add_along(&mut self.joint, &self.incoming[end - len..end], stride);
            (stride, end) = (stride * len, end - len);
        }
        if algebra == Algebra::Sum && self.joint.len() != 4 {
            self.weigh();
        }
    }

    fn weigh(&mut self) {
        self.maximum = numeric::max(&self.joint);
        let shift = if self.maximum.is_finite() { self.maximum } else { 0.0 };
        self.weights.clear();
        self.weights.extend(self.joint.iter().map(|x| x - shift));
        numeric::exp_in_place(&mut self.weights);
    }

    /// The joint table.
    pub fn joint(&self) -> &[f64] {
        &self.joint
    }

    /// The joint table as probabilities, and its log-normaliser.
    pub fn normalised(&mut self) -> (&[f64], f64) {
        self.weigh();
        let total = numeric::sum(&self.weights);
        self.weights.iter_mut().for_each(|p| *p /= total);
        (&self.weights, self.maximum + total.ln())
    }

    /// The log-sums, or maxima, of the joint table for each state of the axis with this stride.
    pub fn along(&self, stride: usize, algebra: Algebra, out: &mut [f64]) {
        let len = out.len();
        if let (&[a, b, c, d], 2) = (&*self.joint, len) {
            let (first, second) = if stride == 2 { ((a, b), (c, d)) } else { ((a, c), (b, d)) };
            out[0] = algebra.add(first.0, first.1);
            out[1] = algebra.add(second.0, second.1);
            return;
        }
        match algebra {
            Algebra::Max => {
                out.fill(f64::NEG_INFINITY);
                each_slab(&self.joint, len, stride, |s, slab| out[s] = out[s].max(numeric::max(slab)));
            }
            Algebra::Sum if self.joint.len() == 4 => {
                // Tables of four entries along an axis of length one or four.
                (0..len).for_each(|s| out[s] = self.faint(s, len, stride));
            }
            Algebra::Sum => {
                out.fill(0.0);
                sums_along(&self.weights, len, stride, out);
                for (s, x) in out.iter_mut().enumerate() {
                    *x = if *x > FAINT { self.maximum + x.ln() } else { self.faint(s, len, stride) };
                }
            }
        }
    }

    /// log Σ exp of the entries of one state, relative to their own maximum.
    fn faint(&self, state: usize, len: usize, stride: usize) -> f64 {
        let mut maximum = f64::NEG_INFINITY;
        each_slab(&self.joint, len, stride, |s, slab| {
            if s == state {
                maximum = maximum.max(numeric::max(slab));
            }
        });
        if maximum == f64::NEG_INFINITY {
            return maximum;
        }
        let mut sum = 0.0;
        each_slab(&self.joint, len, stride, |s, slab| {
            if s == state {
                sum += slab.iter().map(|x| (x - maximum).exp()).sum::<f64>();
            }
        });
        maximum + sum.ln()
    }
}

/// table += a along the axis with this stride.
fn add_along(table: &mut [f64], a: &[f64], stride: usize) {
    if stride == 1 {
        for row in table.chunks_exact_mut(a.len()) {
            row.iter_mut().zip(a).for_each(|(x, a)| *x += a);
        }
        return;
    }
    for block in table.chunks_exact_mut(a.len() * stride) {
        for (slab, a) in block.chunks_exact_mut(stride).zip(a) {
            slab.iter_mut().for_each(|x| *x += a);
        }
    }
}

/// out\[s\] += the sum of the entries with state s on the axis with this stride.
pub(super) fn sums_along(table: &[f64], len: usize, stride: usize, out: &mut [f64]) {
    if stride == 1 {
        for row in table.chunks_exact(len) {
            out.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
        }
        return;
    }
    each_slab(table, len, stride, |s, slab| out[s] += slab.iter().sum::<f64>());
}

/// Calls `each` with the runs of entries that have one state on the axis with this stride.
fn each_slab(table: &[f64], len: usize, stride: usize, mut each: impl FnMut(usize, &[f64])) {
    for block in table.chunks_exact(len * stride) {
        for (s, slab) in block.chunks_exact(stride).enumerate() {
            each(s, slab);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::FactorGraph;
    use crate::random::Streams;

    #[test]
    fn sums_and_maxima_along_an_axis_are_those_of_plain_loops() {
        let mut random = Streams::new(1, "kernel tests").block(0);
        for (cardinalities, scale) in [
            (vec![2, 2], 1.0),
            (vec![2, 2], 1e4),
            (vec![3, 1, 4], 1.0),
            (vec![2, 3, 2, 4], 900.0),
            (vec![4, 1], 1.0),
        ] {
            let size: usize = cardinalities.iter().product();
            let scope: Vec<usize> = (0..cardinalities.len()).collect();
            let mut table: Vec<f64> = (0..size).map(|_| scale * random.normal()).collect();
            if cardinalities[1] > 1 {
                table[0] = f64::NEG_INFINITY;
            }
            let mut graph = FactorGraph::new(cardinalities.clone()).unwrap();
            graph.add_factor(&scope, &table).unwrap();
            let layout = Layout::new(&graph).unwrap();
            let mut work = Workspace::new(&layout);
            let incoming: Vec<f64> =
                (0..cardinalities.iter().sum()).map(|_| scale * random.normal()).collect();
            work.incoming.extend(&incoming);
            for algebra in [Algebra::Sum, Algebra::Max] {
                work.join(&layout, layout.factor(0), 2.0, algebra);
                let mut stride = size;
                for axis in 0..cardinalities.len() {
                    stride /= cardinalities[axis];
                    let mut out = vec![0.0; cardinalities[axis]];
                    work.along(stride, algebra, &mut out);
                    for (s, &got) in out.iter().enumerate() {
                        let mut entries = Vec::new();
                        for (i, &value) in table.iter().enumerate() {
                            let (mut rest, mut joint, mut end) = (i, 2.0 * value, incoming.len());
                            let mut state = 0;
                            for a in (0..cardinalities.len()).rev() {
                                let digit = rest % cardinalities[a];
                                rest /= cardinalities[a];
                                joint += incoming[end - cardinalities[a] + digit];
                                end -= cardinalities[a];
                                state = if a == axis { digit } else { state };
                            }
                            if state == s {
                                entries.push(joint);
                            }
                        }
                        let maximum = entries.iter().fold(f64::NEG_INFINITY, |m, x| m.max(*x));
                        let sum = entries.iter().map(|x| (x - maximum).exp()).sum::<f64>();
                        let want = match algebra {
                            Algebra::Sum => maximum + sum.ln(),
                            Algebra::Max => maximum,
                        };
                        assert!(
                            got == want || (got - want).abs() <= 1e-13 * (1.0 + want.abs() + 10.0 * scale),
                            "{got} {want}"
                        );
                    }
                }
            }
        }
    }
}
