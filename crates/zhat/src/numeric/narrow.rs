//! Element-wise kernels for messages over few states, many rows per call.
//!
//! A row has one number per state, padded to whole vectors. A call processes the rows of one layer for a batch
//! of sequences: with few states, a call per row costs more than its arithmetic. Rows are scaled by powers of
//! two, which rounds nothing and needs no logarithm.
//!
//! Accuracy is tracked per row by the smallest positive entry. If no product of two positive numbers has
//! underflowed so far, every zero is a zero of the model, and every other entry is accurate to rounding. If one
//! has, its loss is at most TINY, and the next products are accurate if they are above a floor; otherwise the
//! kernel reports a loss and the caller computes in the log domain.

// The compiler vectorises counted loops over arrays of lanes.
#![allow(clippy::needless_range_loop)]

mod sealed {
    use super::{Arrival, Departure, Weighing};

    /// The kernels for a number type.
    pub trait Narrow: Sized {
        /// E ← exp(score + shift − max), with the maxima added to `totals`. Zero exactly where the sum is −∞.
        /// Returns false if a whole row is −∞.
        fn narrow_weights(task: Weighing<'_, Self>) -> bool;
        /// Rows of products ← (product ∘ E)·2ᵏ with largest entry in [1, 2). Returns false if accuracy may be
        /// lost.
        fn narrow_arrive(task: Arrival<'_, Self>) -> bool;
        /// Marginals of a layer, and the weights that leave it backward. Returns false if accuracy may be lost.
        fn narrow_depart(task: Departure<'_, '_, Self>) -> bool;
    }
}
pub(crate) use sealed::Narrow;

/// Most states of the kernels.
pub(crate) const MOST_STATES: usize = 64;

/// log₂ of how far below 1 the largest entry of an inexact row may be before it is scaled.
pub(crate) const HEADROOM_BITS: i32 = 30;

/// The weights E of the nodes of one layer.
#[derive(Debug)]
pub struct Weighing<'a, F> {
    /// The number of states.
    pub states: usize,
    /// The scores of each row; numbers after the first `states` are ignored.
    pub scores: &'a [&'a [F]],
    /// The shifts of each row, padded with −∞.
    pub shifts: &'a [&'a [F]],
    /// E, padded rows.
    pub weights: &'a mut [F],
    /// The sum of the maxima of each row.
    pub totals: &'a mut [f64],
}

/// What is known about the scaled rows of a layer.
#[derive(Debug)]
pub struct Accuracy<'a, F> {
    /// Below this threshold, a product of an inexact row may have lost more than rounding.
    pub floor: F,
    /// The smallest positive entry of the matrix; 0 if an entry has underflowed.
    pub entry: F,
    /// The smallest positive number of each row; 0 if the row is inexact.
    pub least: &'a mut [F],
}

/// Messages that arrive at one layer.
#[derive(Debug)]
pub struct Arrival<'a, F> {
    /// Padded length of a row.
    pub width: usize,
    /// Products, which become messages.
    pub rows: &'a mut [F],
    /// E of the layer.
    pub weights: &'a [F],
    /// Accuracy of the rows before the product, then of the new rows.
    pub accuracy: Accuracy<'a, F>,
    /// The sum of the exponents k of each row.
    pub exponents: &'a mut [i64],
}

/// One step of the backward sweep, with the marginals of its layer.
#[derive(Debug)]
pub struct Departure<'a, 'b, F> {
    /// The number of states.
    pub states: usize,
    /// Padded length of a row.
    pub width: usize,
    /// The forward messages a of the layer.
    pub forward: &'a [F],
    /// The backward messages b of the layer: products of the weights after it, or ones at the end of a sequence.
    pub backward: &'a [F],
    /// E of the layer, which becomes the scaled w = E ∘ b.
    pub weights: &'a mut [F],
    /// The scaled w of the next layer, which is multiplied by the factor of its row; for as many rows as
    /// continue.
    pub after: &'a mut [F],
    /// Accuracy of the rows of `after`, then of the new `weights`.
    pub accuracy: Accuracy<'a, F>,
    /// One factor per row.
    pub cotangent: &'a [f64],
    /// Where the marginals times the cotangent go, one slice per row; written at `at`.
    pub marginals: &'a mut [&'b mut [F]],
    /// Offset into each slice of `marginals`.
    pub at: usize,
}

macro_rules! narrow {
    ($module:ident, $float:ident, $bits:ident, $lanes:literal, $mantissa:literal, $exp:path) => {
        mod $module {
            use super::super::simd::dispatched;
            use super::{Arrival, Departure, HEADROOM_BITS, MOST_STATES, Narrow, Weighing};

            const L: usize = $lanes;
            type Lanes = [$float; L];
            const MASK: $bits = ((1 << ($bits::BITS - 1 - $mantissa)) - 1) as $bits;
            const BIAS: $bits = MASK / 2;

            #[inline(always)]
            fn smaller(a: $float, b: $float) -> $float {
                if a < b { a } else { b }
            }
            #[inline(always)]
            fn larger(a: $float, b: $float) -> $float {
                if a > b { a } else { b }
            }
            #[inline(always)]
            fn fold(mut lanes: Lanes, combine: impl Fn($float, $float) -> $float) -> $float {
                let mut width = L;
                while width > 1 {
                    width /= 2;
                    for k in 0..width {
                        lanes[k] = combine(lanes[k], lanes[k + width]);
                    }
                }
                lanes[0]
            }

            /// Numbers from `at` on; zeros after the end.
            #[inline(always)]
            fn load(values: &[$float], at: usize) -> Lanes {
                let rest = values.get(at..).unwrap_or_default();
                match rest.first_chunk::<L>() {
                    Some(lanes) => *lanes,
                    None => {
                        let mut lanes = [0.0; L];
                        lanes.iter_mut().zip(rest).for_each(|(x, &y)| *x = y);
                        lanes
                    }
                }
            }

            #[inline(always)]
            fn weights_kernel<const FMA: bool>(task: Weighing<'_, $float>) -> bool {
                let Weighing { states, scores, shifts, weights, totals } = task;
                let width = states.next_multiple_of(L);
                let mut good = true;
                let rows = weights.chunks_exact_mut(width).zip(scores).zip(shifts).zip(totals);
                for (((weights, scores), shifts), total) in rows {
                    let (weights, shifts) = (weights.as_chunks_mut::<L>().0, shifts.as_chunks::<L>().0);
                    let mut most = [$float::NEG_INFINITY; L];
                    for (c, (out, shifts)) in weights.iter_mut().zip(shifts).enumerate() {
                        let scores = load(scores, c * L);
                        // Padding is −∞, or NaN after scores that are not used; both become 0 below.
                        let mut sums = [0.0; L];
                        for k in 0..L {
                            sums[k] = scores[k] + shifts[k];
                            most[k] = larger(sums[k], most[k]);
                        }
                        *out = sums;
                    }
                    let most = fold(most, larger);
                    good &= most > $float::NEG_INFINITY;
                    *total += f64::from(most);
                    for out in weights {
                        let mut lanes = *out;
                        for k in 0..L {
                            let x = lanes[k] - most;
                            let value = $exp(x);
                            // What underflows is not a zero of the model.
                            let value =
                                if value < $float::MIN_POSITIVE { $float::MIN_POSITIVE } else { value };
                            lanes[k] = if x > $float::NEG_INFINITY { value } else { 0.0 };
                        }
                        *out = lanes;
                    }
                }
                good
            }

            /// row ← factor·row.
            #[inline(always)]
            fn multiply(row: &mut [Lanes], factor: $float) {
                for row in row {
                    let mut lanes = *row;
                    for k in 0..L {
                        lanes[k] *= factor;
                    }
                    *row = lanes;
                }
            }

            /// The smallest product with a positive weight.
            #[inline(always)]
            fn lowest(
                row: &[Lanes],
                product: impl Fn(usize, &Lanes) -> Lanes,
                weight: impl Fn(usize, &Lanes) -> Lanes,
            ) -> $float {
                let mut low = [$float::MAX; L];
                for (c, row) in row.iter().enumerate() {
                    let (p, e) = (product(c, row), weight(c, row));
                    for k in 0..L {
                        low[k] = smaller(if e[k] > 0.0 { p[k] } else { $float::MAX }, low[k]);
                    }
                }
                fold(low, smaller)
            }

            /// row ← (product ∘ weight)·2ᵏ. Returns its smallest positive number, 0 if it is inexact, and k;
            /// `None` if accuracy may be lost.
            #[inline(always)]
            fn weigh(
                row: &mut [Lanes],
                product: impl Fn(usize, &Lanes) -> Lanes,
                weight: impl Fn(usize, &Lanes) -> Lanes,
                floor: $float,
                exact: bool,
            ) -> Option<($float, i64)> {
                if !exact && lowest(row, &product, &weight) < floor {
                    return None;
                }
                let (mut least, mut most) = ([$float::MAX; L], [0.0; L]);
                for (c, row) in row.iter_mut().enumerate() {
                    let (p, e) = (product(c, row), weight(c, row));
                    let (mut x, mut positive) = ([0.0; L], [0.0; L]);
                    for k in 0..L {
                        x[k] = p[k] * e[k];
                        // Positive factors may have a product of 0, and then the row is inexact.
                        positive[k] = if smaller(p[k], e[k]) > 0.0 { x[k] } else { $float::MAX };
                    }
                    for k in 0..L {
                        least[k] = smaller(positive[k], least[k]);
                        most[k] = larger(x[k], most[k]);
                    }
                    *row = x;
                }
                let (least, most) = (fold(least, smaller), fold(most, larger));
                let exact_after = least >= $float::MIN_POSITIVE;
                let headroom = 1.0 / (1u64 << HEADROOM_BITS) as $float;
                let good = (exact_after | (most >= headroom)) & (most > 0.0);
                if !good {
                    return None;
                }
                let exponent = (most.to_bits() >> $mantissa) & MASK;
                let scale = $float::from_bits((2 * BIAS - exponent) << $mantissa);
                multiply(row, scale);
                Some((if exact_after { least * scale } else { 0.0 }, exponent as i64 - BIAS as i64))
            }

            /// Whether no product of a row and the matrix underflows.
            #[inline(always)]
            fn stays_exact(least: $float, entry: $float) -> bool {
                least * entry >= $float::MIN_POSITIVE
            }

            #[inline(always)]
            fn arrive_kernel<const FMA: bool>(task: Arrival<'_, $float>) -> bool {
                let Arrival { width, rows, weights, accuracy, exponents } = task;
                let mut good = true;
                let rows = rows.chunks_exact_mut(width).zip(weights.chunks_exact(width));
                for ((row, weights), (least, sum)) in rows.zip(accuracy.least.iter_mut().zip(exponents)) {
                    let (row, weights) = (row.as_chunks_mut::<L>().0, weights.as_chunks::<L>().0);
                    let exact = stays_exact(*least, accuracy.entry);
                    match weigh(row, |_, row| *row, |c, _| weights[c], accuracy.floor, exact) {
                        Some((smallest, exponent)) => {
                            *least = smallest;
                            *sum += exponent;
                        }
                        None => good = false,
                    }
                }
                good
            }

            /// to[..count] ← from[..count], in pieces of fixed length.
            #[inline(always)]
            fn copy<const SIZE: usize>(to: &mut [$float], from: &[$float], count: usize) {
                let mut at = 0;
                while at + SIZE <= count {
                    to[at..at + SIZE].copy_from_slice(&from[at..at + SIZE]);
                    at += SIZE;
                }
                if at < count {
                    // The last piece overlaps the one before.
                    to[count - SIZE..count].copy_from_slice(&from[count - SIZE..count]);
                }
            }

            #[inline(always)]
            fn depart_kernel<const FMA: bool>(task: Departure<'_, '_, $float>) -> bool {
                let Departure { states, width, at, mut after, accuracy, .. } = task;
                let mut buffer = [[0.0; L]; MOST_STATES / L];
                let mut good = true;
                let rows = task.forward.chunks_exact(width).zip(task.backward.chunks_exact(width));
                let rows = rows.zip(task.weights.chunks_exact_mut(width));
                let others = task.marginals.iter_mut().zip(task.cotangent).zip(accuracy.least.iter_mut());
                for (((forward, backward), weights), ((out, &cotangent), least)) in rows.zip(others) {
                    let (forward, backward) = (forward.as_chunks::<L>().0, backward.as_chunks::<L>().0);
                    let mut sums = [0.0; L];
                    for (buffer, (a, b)) in buffer.iter_mut().zip(forward.iter().zip(backward)) {
                        let mut products = [0.0; L];
                        for k in 0..L {
                            products[k] = a[k] * b[k];
                            sums[k] += products[k];
                        }
                        *buffer = products;
                    }
                    let norm = fold(sums, |a, b| a + b);
                    good &= norm >= accuracy.floor;
                    let factor = (cotangent / f64::from(norm)) as $float;
                    multiply(&mut buffer[..forward.len()], factor);
                    let (from, to) = (buffer.as_flattened(), &mut out[at..at + states]);
                    match states {
                        0..2 => copy::<1>(to, from, states),
                        2..4 => copy::<2>(to, from, states),
                        4..8 => copy::<4>(to, from, states),
                        _ => copy::<8>(to, from, states),
                    }
                    let mut exact = true;
                    if let Some((row, rest)) = std::mem::take(&mut after).split_at_mut_checked(width) {
                        multiply(row.as_chunks_mut::<L>().0, factor);
                        after = rest;
                        exact = stays_exact(*least, accuracy.entry);
                    }
                    let row = weights.as_chunks_mut::<L>().0;
                    match weigh(row, |c, _| backward[c], |_, row| *row, accuracy.floor, exact) {
                        Some((smallest, _)) => *least = smallest,
                        None => good = false,
                    }
                }
                good
            }

            dispatched! { fn weights(task: Weighing<'_, $float>) -> bool => weights_kernel }
            dispatched! { fn arrive(task: Arrival<'_, $float>) -> bool => arrive_kernel }
            dispatched! { fn depart(task: Departure<'_, '_, $float>) -> bool => depart_kernel }

            impl Narrow for $float {
                fn narrow_weights(task: Weighing<'_, $float>) -> bool {
                    weights(task)
                }
                fn narrow_arrive(task: Arrival<'_, $float>) -> bool {
                    arrive(task)
                }
                fn narrow_depart(task: Departure<'_, '_, $float>) -> bool {
                    depart(task)
                }
            }
        }
    };
}

narrow!(single, f32, u32, 16, 23, super::super::elementary::single::exp_one::<FMA>);
narrow!(double, f64, u64, 8, 52, super::super::elementary::double::exp_one::<FMA>);
