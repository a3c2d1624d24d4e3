//! Element-wise kernels on rows of tiles, in both precisions.

mod sealed {
    /// The element-wise kernels for a number type.
    pub trait Elementwise: Sized {
        /// xⱼ ← exp(xⱼ − row − columnⱼ).
        fn exp_shifted(values: &mut [Self], row: Self, columns: &[Self]);
        /// outⱼ ← exp(xⱼ − row − columnⱼ), where out consists of chunks of `width` numbers at distance
        /// `apart`.
        fn exp_shifted_strips(
            out: &mut [Self],
            apart: usize,
            width: usize,
            values: &[Self],
            row: Self,
            columns: &[Self],
        );
        /// bestⱼ ← max(bestⱼ, xⱼ − row).
        fn raise_to(best: &mut [Self], values: &[Self], row: Self);
        /// outⱼ ← mⱼ·dⱼ, and 0 where m is 0, for any value of d.
        fn weigh(out: &mut [Self], matrix: &[Self], direction: &[Self]);
        /// xⱼ ← xⱼ + yⱼ.
        fn add_to(out: &mut [Self], values: &[Self]);
        /// xⱼ ← xⱼ − shift.
        fn lower(values: &mut [Self], shift: Self);
        /// xⱼ ← exp(aⱼ + bⱼ − shift).
        fn exp_sum(out: &mut [Self], a: &[Self], b: &[Self], shift: Self);
        /// The largest aⱼ + bⱼ; −∞ if there are none.
        fn max_sum(a: &[Self], b: &[Self]) -> Self;
        /// xⱼ ← xⱼ·weightⱼ; returns the smallest xⱼ before and the largest after, ∞ and 0 if there are none.
        fn weigh_by(values: &mut [Self], weights: &[Self]) -> (Self, Self);
        /// xⱼ ← factor·xⱼ.
        fn multiply(values: &mut [Self], factor: Self);
        /// xⱼ ← factor·aⱼ·bⱼ.
        fn multiply_pairs(out: &mut [Self], a: &[Self], b: &[Self], factor: Self);
        /// Σⱼ aⱼ·bⱼ, accumulated in `f64`.
        fn dot(a: &[Self], b: &[Self]) -> f64;
        /// The smallest value; ∞ if there are none.
        fn least(values: &[Self]) -> Self;
        /// The largest |x| of the finite values, and whether one is NaN or +∞.
        fn extent(values: &[Self]) -> (Self, bool);
        /// outₖ ← values[indexₖ].
        ///
        /// # Panics
        /// If an index is not below the length of `values`.
        fn gather(out: &mut [Self], values: &[Self], indices: &[u32]);
    }
}
pub(crate) use sealed::Elementwise;

/// Number of independent partial results of a reduction.
const LANES: usize = 32;

#[inline(always)]
fn largest_index_kernel<const FMA: bool>(indices: &[u32]) -> u32 {
    indices.iter().fold(0, |a, &b| if b > a { b } else { a })
}

macro_rules! elementwise {
    ($module:ident, $float:ident, $exp:path) => {
        mod $module {
            use super::super::simd::dispatched;
            use super::{Elementwise, LANES, largest_index_kernel};

            #[inline(always)]
            fn exp_shifted_kernel<const FMA: bool>(values: &mut [$float], row: $float, columns: &[$float]) {
                for (x, &column) in values.iter_mut().zip(columns) {
                    *x = $exp((*x - row) - column);
                }
            }

            #[inline(always)]
            fn exp_shifted_strips_kernel<const FMA: bool>(
                out: &mut [$float],
                apart: usize,
                width: usize,
                values: &[$float],
                row: $float,
                columns: &[$float],
            ) {
                let strips = values.chunks(width).zip(columns.chunks(width));
                for (out, (values, columns)) in out.chunks_mut(apart).zip(strips) {
                    for ((out, &x), &column) in out.iter_mut().zip(values).zip(columns) {
                        *out = $exp((x - row) - column);
                    }
                }
            }

            #[inline(always)]
            fn raise_kernel<const FMA: bool>(best: &mut [$float], values: &[$float], row: $float) {
                for (best, &x) in best.iter_mut().zip(values) {
                    let x = x - row;
                    *best = if x > *best { x } else { *best };
                }
            }

            #[inline(always)]
            fn weigh_kernel<const FMA: bool>(out: &mut [$float], matrix: &[$float], direction: &[$float]) {
                for ((out, &m), &d) in out.iter_mut().zip(matrix).zip(direction) {
                    *out = if m == 0.0 { 0.0 } else { m * d };
                }
            }

            #[inline(always)]
            fn add_kernel<const FMA: bool>(out: &mut [$float], values: &[$float]) {
                out.iter_mut().zip(values).for_each(|(x, y)| *x += y);
            }

            #[inline(always)]
            fn lower_kernel<const FMA: bool>(values: &mut [$float], shift: $float) {
                values.iter_mut().for_each(|x| *x -= shift);
            }

            #[inline(always)]
            fn exp_sum_kernel<const FMA: bool>(out: &mut [$float], a: &[$float], b: &[$float], shift: $float) {
                for ((x, &a), &b) in out.iter_mut().zip(a).zip(b) {
                    *x = $exp(a + b - shift);
                }
            }

            #[inline(always)]
            fn max_sum_kernel<const FMA: bool>(a: &[$float], b: &[$float]) -> $float {
                let mut best = [$float::NEG_INFINITY; LANES];
                let len = a.len().min(b.len());
                let ((a, a_rest), (b, b_rest)) = (a[..len].as_chunks::<LANES>(), b[..len].as_chunks::<LANES>());
                for (a, b) in a.iter().zip(b) {
                    for k in 0..LANES {
                        let x = a[k] + b[k];
                        best[k] = if x > best[k] { x } else { best[k] };
                    }
                }
                for (k, (a, b)) in a_rest.iter().zip(b_rest).enumerate() {
                    let x = a + b;
                    best[k] = if x > best[k] { x } else { best[k] };
                }
                best.into_iter().fold($float::NEG_INFINITY, |a, b| if b > a { b } else { a })
            }

            #[inline(always)]
            fn weigh_by_kernel<const FMA: bool>(values: &mut [$float], weights: &[$float]) -> ($float, $float) {
                let (mut least, mut largest) = ([$float::INFINITY; LANES], [0.0 as $float; LANES]);
                let len = values.len().min(weights.len());
                let (values, values_rest) = values[..len].as_chunks_mut::<LANES>();
                let (weights, weights_rest) = weights[..len].as_chunks::<LANES>();
                for (x, weight) in values.iter_mut().zip(weights) {
                    for k in 0..LANES {
                        least[k] = if x[k] < least[k] { x[k] } else { least[k] };
                        x[k] *= weight[k];
                        largest[k] = if x[k] > largest[k] { x[k] } else { largest[k] };
                    }
                }
                for (k, (x, weight)) in values_rest.iter_mut().zip(weights_rest).enumerate() {
                    least[k] = if *x < least[k] { *x } else { least[k] };
                    *x *= weight;
                    largest[k] = if *x > largest[k] { *x } else { largest[k] };
                }
                let least = least.into_iter().fold($float::INFINITY, |a, b| if b < a { b } else { a });
                (least, largest.into_iter().fold(0.0, |a, b| if b > a { b } else { a }))
            }

            #[inline(always)]
            fn multiply_kernel<const FMA: bool>(values: &mut [$float], factor: $float) {
                values.iter_mut().for_each(|x| *x *= factor);
            }

            #[inline(always)]
            fn multiply_pairs_kernel<const FMA: bool>(out: &mut [$float], a: &[$float], b: &[$float], factor: $float) {
                for ((x, &a), &b) in out.iter_mut().zip(a).zip(b) {
                    *x = a * b * factor;
                }
            }

            #[inline(always)]
            fn dot_kernel<const FMA: bool>(a: &[$float], b: &[$float]) -> f64 {
                let mut sums = [0.0f64; LANES];
                let len = a.len().min(b.len());
                let ((a, a_rest), (b, b_rest)) = (a[..len].as_chunks::<LANES>(), b[..len].as_chunks::<LANES>());
                for (a, b) in a.iter().zip(b) {
                    for k in 0..LANES {
                        sums[k] += f64::from(a[k]) * f64::from(b[k]);
                    }
                }
                for ((sum, &a), &b) in sums.iter_mut().zip(a_rest).zip(b_rest) {
                    *sum += f64::from(a) * f64::from(b);
                }
                sums.into_iter().sum()
            }

            #[inline(always)]
            fn least_kernel<const FMA: bool>(values: &[$float]) -> $float {
                let mut least = [$float::INFINITY; LANES];
                let (chunks, rest) = values.as_chunks::<LANES>();
                for chunk in chunks.iter().map(|chunk| chunk.as_slice()).chain([rest]) {
                    for (least, &x) in least.iter_mut().zip(chunk) {
                        *least = if x < *least { x } else { *least };
                    }
                }
                least.into_iter().fold($float::INFINITY, |a, b| if b < a { b } else { a })
            }

            #[inline(always)]
            fn extent_kernel<const FMA: bool>(values: &[$float]) -> ($float, bool) {
                let mut largest = [0.0 as $float; LANES];
                // Stays 0 unless there is a NaN or ∞: NaN·0 and ∞·0 are not 0, and −∞ is replaced first.
                let mut bad = [0.0 as $float; LANES];
                let (chunks, rest) = values.as_chunks::<LANES>();
                for chunk in chunks.iter().map(|chunk| chunk.as_slice()).chain([rest]) {
                    for ((largest, bad), &x) in largest.iter_mut().zip(&mut bad).zip(chunk) {
                        let x = if x == $float::NEG_INFINITY { 0.0 } else { x };
                        let size = x.abs();
                        *largest = if size > *largest && size < $float::INFINITY { size } else { *largest };
                        *bad += x * 0.0;
                    }
                }
                let largest = largest.into_iter().fold(0.0, |a, b| if b > a { b } else { a });
                (largest, bad.into_iter().any(|x| x != 0.0))
            }

            #[inline(always)]
            fn gather_kernel<const FMA: bool>(out: &mut [$float], values: &[$float], indices: &[u32]) {
                for (out, &index) in out.iter_mut().zip(indices) {
                    // SAFETY: `gather` has compared the largest index with the length.
                    *out = unsafe { *values.get_unchecked(index as usize) };
                }
            }

            dispatched! { fn exp_shifted(values: &mut [$float], row: $float, columns: &[$float]) => exp_shifted_kernel }
            dispatched! { fn exp_shifted_strips(out: &mut [$float], apart: usize, width: usize, values: &[$float], row: $float, columns: &[$float]) => exp_shifted_strips_kernel }
            dispatched! { fn raise_to(best: &mut [$float], values: &[$float], row: $float) => raise_kernel }
            dispatched! { fn weigh(out: &mut [$float], matrix: &[$float], direction: &[$float]) => weigh_kernel }
            dispatched! { fn add_to(out: &mut [$float], values: &[$float]) => add_kernel }
            dispatched! { fn lower(values: &mut [$float], shift: $float) => lower_kernel }
            dispatched! { fn exp_sum(out: &mut [$float], a: &[$float], b: &[$float], shift: $float) => exp_sum_kernel }
            dispatched! { fn max_sum(a: &[$float], b: &[$float]) -> $float => max_sum_kernel }
            dispatched! { fn weigh_by(values: &mut [$float], weights: &[$float]) -> ($float, $float) => weigh_by_kernel }
            dispatched! { fn multiply(values: &mut [$float], factor: $float) => multiply_kernel }
            dispatched! { fn multiply_pairs(out: &mut [$float], a: &[$float], b: &[$float], factor: $float) => multiply_pairs_kernel }
            dispatched! { fn dot(a: &[$float], b: &[$float]) -> f64 => dot_kernel }
            dispatched! { fn least(values: &[$float]) -> $float => least_kernel }
            dispatched! { fn extent(values: &[$float]) -> ($float, bool) => extent_kernel }
            dispatched! { fn gather_unchecked(out: &mut [$float], values: &[$float], indices: &[u32]) => gather_kernel }
            dispatched! { fn largest_index(indices: &[u32]) -> u32 => largest_index_kernel }

            impl Elementwise for $float {
                fn exp_shifted(values: &mut [$float], row: $float, columns: &[$float]) {
                    exp_shifted(values, row, columns);
                }
                fn exp_shifted_strips(
                    out: &mut [$float],
                    apart: usize,
                    width: usize,
                    values: &[$float],
                    row: $float,
                    columns: &[$float],
                ) {
                    exp_shifted_strips(out, apart, width, values, row, columns);
                }
                fn raise_to(best: &mut [$float], values: &[$float], row: $float) {
                    raise_to(best, values, row);
                }
                fn weigh(out: &mut [$float], matrix: &[$float], direction: &[$float]) {
                    weigh(out, matrix, direction);
                }
                fn add_to(out: &mut [$float], values: &[$float]) {
                    add_to(out, values);
                }
                fn lower(values: &mut [$float], shift: $float) {
                    lower(values, shift);
                }
                fn exp_sum(out: &mut [$float], a: &[$float], b: &[$float], shift: $float) {
                    exp_sum(out, a, b, shift);
                }
                fn max_sum(a: &[$float], b: &[$float]) -> $float {
                    max_sum(a, b)
                }
                fn weigh_by(values: &mut [$float], weights: &[$float]) -> ($float, $float) {
                    weigh_by(values, weights)
                }
                fn multiply(values: &mut [$float], factor: $float) {
                    multiply(values, factor);
                }
                fn multiply_pairs(out: &mut [$float], a: &[$float], b: &[$float], factor: $float) {
                    multiply_pairs(out, a, b, factor);
                }
                fn dot(a: &[$float], b: &[$float]) -> f64 {
                    dot(a, b)
                }
                fn least(values: &[$float]) -> $float {
                    least(values)
                }
                fn extent(values: &[$float]) -> ($float, bool) {
                    extent(values)
                }
                fn gather(out: &mut [$float], values: &[$float], indices: &[u32]) {
                    assert!(indices.is_empty() || (largest_index(indices) as usize) < values.len(), "index");
                    gather_unchecked(out, values, indices);
                }
            }
        }
    };
}
elementwise!(single, f32, super::super::elementary::single::exp_one::<FMA>);
elementwise!(double, f64, super::super::elementary::double::exp_one::<FMA>);

#[cfg(test)]
mod tests {
    use super::Elementwise;
    use crate::numeric::Real;

    fn work<F: Real>() {
        let x = |values: &[f64]| values.iter().map(|&x| F::from_f64(x)).collect::<Vec<F>>();
        let infinite = f64::NEG_INFINITY;
        let mut values = x(&[3.0, infinite, 5.0]);
        F::exp_shifted(&mut values, F::from_f64(1.0), &x(&[2.0, 0.0, 4.0]));
        assert_eq!(values, x(&[1.0, 0.0, 1.0]));
        let mut strips = x(&[9.0; 7]);
        F::exp_shifted_strips(&mut strips, 4, 2, &x(&[3.0, 4.0, 5.0]), F::ONE, &x(&[2.0, 3.0, 4.0]));
        assert_eq!(strips, x(&[1.0, 1.0, 9.0, 9.0, 1.0, 9.0, 9.0]));
        let mut best = x(&[0.0, infinite, infinite]);
        F::raise_to(&mut best, &x(&[1.0, 2.0, infinite]), F::from_f64(2.0));
        assert_eq!(best, x(&[0.0, 0.0, infinite]));
        let mut out = x(&[9.0; 3]);
        F::weigh(&mut out, &x(&[0.0, 2.0, 3.0]), &x(&[infinite, 2.0, -1.0]));
        assert_eq!(out, x(&[0.0, 4.0, -3.0]));
        F::gather(&mut out, &x(&[7.0, 8.0]), &[1, 0, 1]);
        assert_eq!(out, x(&[8.0, 7.0, 8.0]));
        F::lower(&mut out, F::from_f64(7.0));
        assert_eq!(out, x(&[1.0, 0.0, 1.0]));
        F::exp_sum(&mut out, &x(&[1.0, infinite, 3.0]), &x(&[2.0, 5.0, 0.0]), F::from_f64(3.0));
        assert_eq!(out, x(&[1.0, 0.0, 1.0]));
        let mut out = x(&[2.0, 4.0, 8.0]);
        let (least, largest) = F::weigh_by(&mut out, &x(&[1.0, 0.0, 1.0]));
        assert_eq!(F::max_sum(&x(&[1.0, infinite]), &x(&[2.0, 9.0])).to_f64(), 3.0);
        assert_eq!((out.clone(), least.to_f64(), largest.to_f64()), (x(&[2.0, 0.0, 8.0]), 2.0, 8.0));
        F::multiply(&mut out, F::from_f64(0.5));
        assert_eq!((F::dot(&out, &out), out.clone()), (17.0, x(&[1.0, 0.0, 4.0])));
        F::multiply_pairs(&mut out, &x(&[1.0, 2.0, 3.0]), &x(&[4.0, 5.0, 6.0]), F::from_f64(2.0));
        assert_eq!(out, x(&[8.0, 20.0, 36.0]));
        for len in [0, 1, 31, 32, 33, 100] {
            let mut values: Vec<F> = (0..len).map(|i| F::from_f64(i as f64 + 1.0)).collect();
            let want = if len == 0 { f64::INFINITY } else { 1.0 };
            assert_eq!(F::least(&values).to_f64(), want);
            values.reverse();
            assert_eq!(F::least(&values).to_f64(), want);
            let mut values = vec![F::NEG_INFINITY; len];
            assert_eq!(F::extent(&values), (F::ZERO, false));
            if len == 0 {
                continue;
            }
            values[len / 2] = F::from_f64(-4.0);
            assert_eq!(F::extent(&values), (F::from_f64(4.0), false));
            for bad in [f64::NAN, f64::INFINITY] {
                values[len - 1] = F::from_f64(bad);
                assert!(F::extent(&values).1);
            }
        }
        assert_eq!(F::extent(&[-F::MAX, F::MAX]), (F::MAX, false));
    }

    #[test]
    fn kernels_do_what_they_say() {
        work::<f32>();
        work::<f64>();
    }

    #[test]
    #[should_panic(expected = "index")]
    fn an_index_out_of_range_is_noticed() {
        f32::gather(&mut [0.0], &[1.0], &[1]);
    }
}
