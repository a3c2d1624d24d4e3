//! Vectorised `exp` and `ln`, the maximum and Σ exp, for `f32` and `f64`: one implementation with two sets of
//! constants.
//!
//! `exp`: x = n·ln 2 + r with |r| ≤ ½ ln 2, then 1 + r + r²·p(r) with a polynomial p; n is added to the
//! exponent bits. `ln`: x = 2ᵏ·z with z in [√½, √2), s = (z−1)/(z+1), ln z = 2·artanh s by its series. Both
//! have an error of less than 2 units in the last place. The result for an element has the same bits at every
//! position in the slice, so results do not depend on how the work is divided. Sums are accumulated in `f64`.

/// The kernels for one precision. `items` are its constants (`EXP_LOW`, `EXP_HIGH`, `ROUND`, `LN2_HIGH`,
/// `LN2_LOW`, the coefficients `EXP_SERIES` and `LN_SERIES`, `LANES`) and three functions that work on bits
/// or lanes: `times_power_of_two`, `mantissa_and_exponent` and `fold_lanes`.
macro_rules! kernels {
    ($(#[$doc:meta])* mod $module:ident for $float:ident { $($items:item)* }) => {
        $(#[$doc])*
        pub(super) mod $module {
            use std::$float::consts::LOG2_E;

            use crate::numeric::simd::dispatched;

            $($items)*

            /// a·b + c, fused if the hardware supports it; in software a fused operation costs a hundred
            /// times more.
            #[inline(always)]
            pub(in crate::numeric) fn multiply_add<const FMA: bool>(a: $float, b: $float, c: $float) -> $float {
                if FMA { a.mul_add(b, c) } else { a * b + c }
            }

            #[inline(always)]
            pub(in crate::numeric) fn exp_one<const FMA: bool>(x: $float) -> $float {
                let shifted = multiply_add::<FMA>(x, LOG2_E, ROUND);
                let n = shifted - ROUND;
                let r = multiply_add::<FMA>(n, -LN2_LOW, multiply_add::<FMA>(n, -LN2_HIGH, x));
                let mut p = EXP_SERIES[0];
                for &c in &EXP_SERIES[1..] {
                    p = multiply_add::<FMA>(p, r, c);
                }
                p = multiply_add::<FMA>(p, r * r, r) + 1.0;
                let value = times_power_of_two(p, shifted);
                let value = if x < EXP_LOW { 0.0 } else { value };
                if x > EXP_HIGH { $float::INFINITY } else { value }
            }

            #[inline(always)]
            pub(in crate::numeric) fn ln_one<const FMA: bool>(x: $float) -> $float {
                let (z, k) = mantissa_and_exponent(x);
                let f = z - 1.0;
                let s = f / (2.0 + f);
                let s2 = s * s;
                let mut p = LN_SERIES[0];
                for &c in &LN_SERIES[1..] {
                    p = multiply_add::<FMA>(p, s2, c);
                }
                // ln z = f − s·(f − s²·p): the large part f is exact and the correction is small.
                let correction = s * (f - s2 * p);
                let value = multiply_add::<FMA>(k, LN2_HIGH, f - (correction - k * LN2_LOW));
                let value = if x < $float::INFINITY { value } else { x };
                let value = if x == 0.0 { $float::NEG_INFINITY } else { value };
                if x < 0.0 { $float::NAN } else { value }
            }

            #[inline(always)]
            fn exp_kernel<const FMA: bool>(values: &mut [$float]) {
                for x in values {
                    *x = exp_one::<FMA>(*x);
                }
            }

            #[inline(always)]
            fn ln_kernel<const FMA: bool>(values: &mut [$float]) {
                for x in values {
                    *x = ln_one::<FMA>(*x);
                }
            }

            #[inline(always)]
            pub(in crate::numeric) fn larger(a: $float, b: $float) -> $float {
                if a > b { a } else { b }
            }

            #[inline(always)]
            fn max_kernel<const FMA: bool>(values: &[$float]) -> $float {
                let mut lanes = [$float::NEG_INFINITY; LANES];
                let (chunks, rest) = values.as_chunks::<LANES>();
                for chunk in chunks {
                    for (lane, &x) in lanes.iter_mut().zip(chunk) {
                        *lane = larger(x, *lane);
                    }
                }
                for (lane, &x) in lanes.iter_mut().zip(rest) {
                    *lane = larger(x, *lane);
                }
                fold_lanes(lanes, larger)
            }

            #[inline(always)]
            fn sum_exp_kernel<const FMA: bool>(values: &[$float], shift: $float) -> f64 {
                let mut lanes = [0.0f64; LANES];
                let (chunks, rest) = values.as_chunks::<LANES>();
                for chunk in chunks {
                    for (lane, &x) in lanes.iter_mut().zip(chunk) {
                        *lane += f64::from(exp_one::<FMA>(x - shift));
                    }
                }
                for (lane, &x) in lanes.iter_mut().zip(rest) {
                    *lane += f64::from(exp_one::<FMA>(x - shift));
                }
                fold_lanes(lanes, |a, b| a + b)
            }

            dispatched! {
                /// xᵢ ← exp xᵢ. Results near the subnormal numbers become 0.
                pub fn exp_in_place(values: &mut [$float]) => exp_kernel
            }
            dispatched! {
                /// xᵢ ← ln xᵢ: −∞ at 0, NaN below.
                pub fn ln_in_place(values: &mut [$float]) => ln_kernel
            }
            dispatched! {
                /// The largest value; −∞ if there are none.
                pub fn max(values: &[$float]) -> $float => max_kernel
            }
            dispatched! {
                /// Σᵢ exp(xᵢ − shift), accumulated in `f64`.
                pub(crate) fn sum_exp(values: &[$float], shift: $float) -> f64 => sum_exp_kernel
            }
        }
    };
}

kernels! {
    /// The kernels for `f32`.
    mod single for f32 {
        /// Below this `exp` returns 0: the result would be less than 1.2·10⁻³⁸, near the subnormal numbers.
        const EXP_LOW: f32 = -87.33;
        const EXP_HIGH: f32 = 88.722_83;
        /// Adding this rounds to an integer, which is then in the low bits.
        const ROUND: f32 = 12_582_912.0; // 1.5 · 2^23
        const LN2_HIGH: f32 = 355.0 / 512.0; // nine bits: its products with an exponent are exact
        const LN2_LOW: f32 = -2.121_944_4e-4;
        /// (exp r − 1 − r)/r², from the highest power of r down: interpolation at Chebyshev nodes.
        const EXP_SERIES: [f32; 5] = [1.392_625e-3, 8.363_233e-3, 4.166_655_2e-2, 1.666_657_6e-1, 0.5];
        /// 2/(2k+1) for k = 4 down to 1.
        const LN_SERIES: [f32; 4] = [2.0 / 9.0, 2.0 / 7.0, 2.0 / 5.0, 2.0 / 3.0];
        /// Number of independent partial results: two AVX-512 registers, and the same at every level.
        const LANES: usize = 32;

        /// p·2ⁿ for n = `shifted` − `ROUND`.
        #[inline(always)]
        fn times_power_of_two(p: f32, shifted: f32) -> f32 {
            // At n = 128, r is negative and p is below 1, so the exponent does not overflow; the other bits
            // of ROUND are shifted out.
            f32::from_bits(p.to_bits().wrapping_add(shifted.to_bits() << 23))
        }

        /// z in [√½, √2) and k with x = 2ᵏ·z.
        #[inline(always)]
        fn mantissa_and_exponent(x: f32) -> (f32, f32) {
            const SQRT_HALF_BITS: u32 = 0x3f35_04f3;
            let subnormal = x < f32::MIN_POSITIVE;
            let normal = if subnormal { x * 33_554_432.0 } else { x }; // 2^25
            let bits = normal.to_bits();
            let above = bits.wrapping_sub(SQRT_HALF_BITS);
            // The exponent relative to [√½, √2), as an arithmetic shift.
            let k = ((above as i32) >> 23) as f32;
            let z = f32::from_bits(bits.wrapping_sub(above & (0x1ff << 23)));
            (z, if subnormal { k - 25.0 } else { k })
        }

        #[inline(always)]
        fn fold_lanes<T: Copy>(lanes: [T; LANES], combine: impl Fn(T, T) -> T) -> T {
            lanes[1..].iter().fold(lanes[0], |folded, &lane| combine(folded, lane))
        }
    }
}

kernels! {
    /// The kernels for `f64`.
    mod double for f64 {
        /// Below this `exp` returns 0: the result would be less than 4.5·10⁻³⁰⁸, near the subnormal numbers.
        const EXP_LOW: f64 = -707.7;
        const EXP_HIGH: f64 = 709.782_712_893_384;
        /// Adding this rounds to an integer, which is then in the low bits.
        pub(in crate::numeric) const ROUND: f64 = 6_755_399_441_055_744.0; // 1.5 · 2^52
        const LN2_HIGH: f64 = 6.931_471_803_691_238e-1; // ln 2 with the low 33 bits zero
        const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;
        /// 1/k! for k = 13 down to 2: the Taylor series of (exp r − 1 − r)/r².
        const EXP_SERIES: [f64; 12] = [
            1.0 / 6_227_020_800.0,
            1.0 / 479_001_600.0,
            1.0 / 39_916_800.0,
            1.0 / 3_628_800.0,
            1.0 / 362_880.0,
            1.0 / 40_320.0,
            1.0 / 5_040.0,
            1.0 / 720.0,
            1.0 / 120.0,
            1.0 / 24.0,
            1.0 / 6.0,
            1.0 / 2.0,
        ];
        /// 2/(2k+1) for k = 11 down to 1.
        const LN_SERIES: [f64; 11] = [
            2.0 / 23.0,
            2.0 / 21.0,
            2.0 / 19.0,
            2.0 / 17.0,
            2.0 / 15.0,
            2.0 / 13.0,
            2.0 / 11.0,
            2.0 / 9.0,
            2.0 / 7.0,
            2.0 / 5.0,
            2.0 / 3.0,
        ];
        /// Number of independent partial results: two AVX-512 registers, and the same at every level.
        pub(in crate::numeric) const LANES: usize = 16;

        /// p·2ⁿ for n = `shifted` − `ROUND`.
        #[inline(always)]
        fn times_power_of_two(p: f64, shifted: f64) -> f64 {
            // Multiply by 2^(n−1) and then by 2, so that n = 1024 does not overflow too early.
            let exponent = shifted.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(1022) << 52;
            p * f64::from_bits(exponent) * 2.0
        }

        /// z in [√½, √2) and k with x = 2ᵏ·z.
        #[inline(always)]
        fn mantissa_and_exponent(x: f64) -> (f64, f64) {
            const SQRT_HALF_BITS: u64 = 0x3fe6_a09e_667f_3bcd;
            let subnormal = x < f64::MIN_POSITIVE;
            let normal = if subnormal { x * 18_014_398_509_481_984.0 } else { x }; // 2^54
            let bits = normal.to_bits();
            let above = bits.wrapping_sub(SQRT_HALF_BITS);
            // The exponent relative to [√½, √2), as an arithmetic shift; converted through the low bits of
            // ROUND, because AVX2 has no conversion from 64-bit integers.
            let exponent = (above as i64) >> 52;
            let k = f64::from_bits((exponent as u64).wrapping_add(ROUND.to_bits())) - ROUND;
            let z = f64::from_bits(bits.wrapping_sub(above & (0xfff << 52)));
            (z, if subnormal { k - 54.0 } else { k })
        }

        #[inline(always)]
        pub(in crate::numeric) fn fold_lanes<T: Copy>(mut lanes: [T; LANES], combine: impl Fn(T, T) -> T) -> T {
            let mut width = LANES;
            while width > 1 {
                width /= 2;
                for i in 0..width {
                    lanes[i] = combine(lanes[i], lanes[i + width]);
                }
            }
            lanes[0]
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use crate::numeric::Real;
    use crate::random::Streams;

    /// Distance in units in the last place of the precision.
    pub(in crate::numeric) fn ulps<F: Real>(got: F, want: f64) -> f64 {
        let got = got.to_f64();
        if got == want || (got.is_nan() && want.is_nan()) {
            return 0.0;
        }
        (got - want).abs() / (want.abs().max(F::TINY.to_f64()) * F::EPSILON.to_f64())
    }

    fn floats<F: Real>(values: &[f64]) -> Vec<F> {
        values.iter().map(|&x| F::from_f64(x)).collect()
    }

    /// Arguments of `exp` over its whole range and near 0.
    fn grid<F: Real>() -> Vec<F> {
        let mut random = Streams::new(7, "elementary tests").block(0);
        let (low, high, edges) = match F::NAME {
            "f32" => (-87.3, 88.7, [88.7, 88.722_8, -87.329, 1e-30, -1e-9]),
            _ => (-707.0, 709.0, [709.7, 709.78, -707.6, 1e-300, -1e-17]),
        };
        let mut x: Vec<f64> = (0..40_003).map(|_| low + (high - low) * random.uniform()).collect();
        x.extend((0..4_000).map(|_| 2.0 * random.uniform() - 1.0));
        x.extend(edges.into_iter().chain([0.0, -0.0]));
        floats(&x)
    }

    #[test]
    fn exp_agrees_with_the_standard_library() {
        fn check<F: Real>() {
            let x = grid::<F>();
            let mut y = x.clone();
            F::exp_in_place(&mut y);
            for (&x, &y) in x.iter().zip(&y) {
                let want = x.to_f64().exp();
                assert!(ulps(y, want) <= 2.0, "exp({x}) = {y}, want {want}");
            }
        }
        check::<f32>();
        check::<f64>();
    }

    #[test]
    fn exp_of_special_values() {
        fn check<F: Real>() {
            let infinity = f64::INFINITY;
            let (high, low) = if F::NAME == "f32" { (88.8, -87.4) } else { (710.0, -708.0) };
            let mut y = floats::<F>(&[-infinity, infinity, f64::NAN, high, low]);
            y.extend([-F::MAX, F::MAX]);
            F::exp_in_place(&mut y);
            assert!(y[2].is_nan());
            y.remove(2);
            assert_eq!(y, floats::<F>(&[0.0, infinity, infinity, 0.0, 0.0, infinity]));
        }
        check::<f32>();
        check::<f64>();
    }

    #[test]
    fn ln_agrees_with_the_standard_library() {
        fn check<F: Real>() {
            let mut x: Vec<F> = grid::<F>().into_iter().map(|x| F::from_f64(x.to_f64().exp())).collect();
            x.retain(|x| *x <= F::MAX);
            x.extend([F::TINY, F::MAX]);
            x.extend(match F::NAME {
                "f32" => floats::<F>(&[1e-45, 1e-40, 1.0, 0.999_999, 1.000_001]),
                _ => floats::<F>(&[5e-324, 1e-310, 1.0, 0.999_999_999, 1.000_000_001]),
            });
            let mut y = x.clone();
            F::ln_in_place(&mut y);
            for (&x, &y) in x.iter().zip(&y) {
                let want = x.to_f64().ln();
                assert!(ulps(y, want) <= 2.0, "ln({x}) = {y}, want {want}");
            }
        }
        check::<f32>();
        check::<f64>();
    }

    #[test]
    fn ln_of_special_values() {
        fn check<F: Real>() {
            let infinity = f64::INFINITY;
            let mut y = floats::<F>(&[0.0, -0.0, infinity, f64::NAN, -1.0]);
            F::ln_in_place(&mut y);
            assert_eq!(y[..3], floats::<F>(&[-infinity, -infinity, infinity]));
            assert!(y[3].is_nan() && y[4].is_nan());
        }
        check::<f32>();
        check::<f64>();
    }

    #[test]
    fn bits_do_not_depend_on_the_position() {
        fn check<F: Real>() {
            let x = grid::<F>();
            let kernels: [fn(&mut [F]); 2] = [F::exp_in_place, |x| {
                x.iter_mut().for_each(|x| *x = F::from_f64(x.to_f64().abs()));
                F::ln_in_place(x);
            }];
            for kernel in kernels {
                let mut whole = x.clone();
                kernel(&mut whole);
                for width in [1, 3, 7, 33] {
                    let mut parts = x.clone();
                    parts.chunks_mut(width).for_each(kernel);
                    assert_eq!(parts, whole);
                }
            }
        }
        check::<f32>();
        check::<f64>();
    }

    #[test]
    fn reductions_agree_with_double_precision() {
        fn check<F: Real>() {
            let mut random = Streams::new(3, "elementary tests").block(1);
            for len in [0, 1, 5, 16, 17, 32, 33, 100, 100_000] {
                let x: Vec<F> = (0..len).map(|_| F::from_f64(10.0 * random.uniform())).collect();
                let larger = |a: F, &b: &F| if b > a { b } else { a };
                assert_eq!(F::max(&x), x.iter().fold(F::NEG_INFINITY, larger));
                let want: f64 = x.iter().map(|&x| (x.to_f64() - 10.0).exp()).sum();
                // The error of each term is 2 units in the last place plus the rounding of x − 10; in double
                // precision the sum is rounded too.
                let allowed = (16.0 * F::EPSILON.to_f64() + 1e-12) * want;
                assert!((F::sum_exp(&x, F::from_f64(10.0)) - want).abs() <= allowed, "{len}");
            }
            assert_eq!(F::sum_exp(&floats::<F>(&[f64::NEG_INFINITY, 0.0]), F::ZERO), 1.0);
        }
        check::<f32>();
        check::<f64>();
    }
}
