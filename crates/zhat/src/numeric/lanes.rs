//! Vectors of 64 bytes: one AVX-512 register, two AVX2 registers, or an array.
//!
//! Kernels that depend on register allocation are written with these types; with autovectorisation the
//! compiler would spill registers. A vector has the same lanes at every level and is summed by halves, so
//! AVX2 and AVX-512 give the same bits.

// The compiler unrolls counted loops over arrays of registers.
#![allow(clippy::needless_range_loop)]

/// 64 bytes of `F`.
///
/// # Safety
/// Every function requires the instructions of its type; pointers must be valid for a whole vector.
pub(super) trait Lanes<F>: Copy {
    /// The number of lanes.
    const COUNT: usize = 64 / size_of::<F>();

    unsafe fn splat(x: F) -> Self;
    unsafe fn load(from: *const F) -> Self;
    unsafe fn store(self, to: *mut F);
    unsafe fn add(self, other: Self) -> Self;
    /// self·factor + term.
    unsafe fn multiply_add(self, factor: Self, term: Self) -> Self;
    /// Prefetches the cache line at an address that will be read soon; any address is allowed.
    #[inline(always)]
    unsafe fn prefetch(_at: *const F) {}
    /// The sum of the lanes, computed by adding halves until one number is left.
    unsafe fn sum(self) -> F;
    /// Adds the sum of each vector [i][r] to the number at r·stride + i.
    unsafe fn add_sums<const I: usize, const R: usize>(vectors: &[[Self; R]; I], to: *mut F, stride: usize);
}

/// Adds the sums one vector at a time.
///
/// # Safety
/// As for [`Lanes`]; `to` must be valid for all the numbers.
#[inline(always)]
unsafe fn add_each<F: std::ops::AddAssign, V: Lanes<F>, const I: usize, const R: usize>(
    vectors: &[[V; R]; I],
    to: *mut F,
    stride: usize,
) {
    for r in 0..R {
        for i in 0..I {
            // SAFETY: guaranteed by the caller.
            unsafe { *to.add(r * stride + i) += vectors[i][r].sum() };
        }
    }
}

macro_rules! portable {
    ($float:ty, $count:literal) => {
        impl Lanes<$float> for [$float; $count] {
            #[inline(always)]
            unsafe fn splat(x: $float) -> Self {
                [x; $count]
            }
            #[inline(always)]
            unsafe fn load(from: *const $float) -> Self {
                // SAFETY: guaranteed by the caller.
                unsafe { from.cast::<Self>().read_unaligned() }
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut $float) {
                // SAFETY: guaranteed by the caller.
                unsafe { to.cast::<Self>().write_unaligned(self) }
            }
            #[inline(always)]
            unsafe fn add(mut self, other: Self) -> Self {
                self.iter_mut().zip(&other).for_each(|(x, y)| *x += y);
                self
            }
            #[inline(always)]
            unsafe fn multiply_add(mut self, factor: Self, term: Self) -> Self {
                for k in 0..$count {
                    self[k] = self[k] * factor[k] + term[k];
                }
                self
            }
            #[inline(always)]
            unsafe fn sum(mut self) -> $float {
                let mut width = $count;
                while width > 1 {
                    width /= 2;
                    for k in 0..width {
                        self[k] += self[k + width];
                    }
                }
                self[0]
            }
            #[inline(always)]
            unsafe fn add_sums<const I: usize, const R: usize>(
                vectors: &[[Self; R]; I],
                to: *mut $float,
                stride: usize,
            ) {
                // SAFETY: guaranteed by the caller.
                unsafe { add_each(vectors, to, stride) }
            }
        }
    };
}
portable!(f32, 16);
portable!(f64, 8);

#[cfg(target_arch = "x86_64")]
pub(super) mod x86 {
    use super::{Lanes, add_each};
    use std::arch::x86_64::*;

    /// Two AVX2 registers.
    #[derive(Clone, Copy)]
    pub struct Pair<T>(T, T);

    macro_rules! pair {
        ($float:ty, $register:ty, $half:literal, $set:ident, $load:ident, $store:ident, $add:ident, $fma:ident, $sum:ident) => {
            // SAFETY (whole implementation): the caller guarantees the instructions and the pointers.
            impl Lanes<$float> for Pair<$register> {
                #[inline(always)]
                unsafe fn splat(x: $float) -> Self {
                    unsafe { Pair($set(x), $set(x)) }
                }
                #[inline(always)]
                unsafe fn load(from: *const $float) -> Self {
                    unsafe { Pair($load(from), $load(from.add($half))) }
                }
                #[inline(always)]
                unsafe fn store(self, to: *mut $float) {
                    unsafe {
                        $store(to, self.0);
                        $store(to.add($half), self.1);
                    }
                }
                #[inline(always)]
                unsafe fn add(self, other: Self) -> Self {
                    unsafe { Pair($add(self.0, other.0), $add(self.1, other.1)) }
                }
                #[inline(always)]
                unsafe fn multiply_add(self, factor: Self, term: Self) -> Self {
                    unsafe { Pair($fma(self.0, factor.0, term.0), $fma(self.1, factor.1, term.1)) }
                }
                #[inline(always)]
                unsafe fn prefetch(at: *const $float) {
                    unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast()) }
                }
                #[inline(always)]
                unsafe fn sum(self) -> $float {
                    unsafe { $sum($add(self.0, self.1)) }
                }
                #[inline(always)]
                unsafe fn add_sums<const I: usize, const R: usize>(
                    vectors: &[[Self; R]; I],
                    to: *mut $float,
                    stride: usize,
                ) {
                    unsafe { add_each(vectors, to, stride) }
                }
            }
        };
    }

    macro_rules! whole {
        ($float:ty, $register:ty, $set:ident, $load:ident, $store:ident, $add:ident, $fma:ident, $low:ident, $high:ident,
         $add_half:ident, $sum:ident, $add_sums:ident) => {
            // SAFETY (whole implementation): the caller guarantees the instructions and the pointers.
            impl Lanes<$float> for $register {
                #[inline(always)]
                unsafe fn splat(x: $float) -> Self {
                    unsafe { $set(x) }
                }
                #[inline(always)]
                unsafe fn load(from: *const $float) -> Self {
                    unsafe { $load(from) }
                }
                #[inline(always)]
                unsafe fn store(self, to: *mut $float) {
                    unsafe { $store(to, self) }
                }
                #[inline(always)]
                unsafe fn add(self, other: Self) -> Self {
                    unsafe { $add(self, other) }
                }
                #[inline(always)]
                unsafe fn multiply_add(self, factor: Self, term: Self) -> Self {
                    unsafe { $fma(self, factor, term) }
                }
                #[inline(always)]
                unsafe fn prefetch(at: *const $float) {
                    unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast()) }
                }
                #[inline(always)]
                unsafe fn sum(self) -> $float {
                    unsafe { $sum($add_half($low(self), $high::<1>(self))) }
                }
                #[inline(always)]
                unsafe fn add_sums<const I: usize, const R: usize>(
                    vectors: &[[Self; R]; I],
                    to: *mut $float,
                    stride: usize,
                ) {
                    unsafe { $add_sums(vectors, to, stride) }
                }
            }
        };
    }

    /// The sum of eight numbers by halves.
    #[inline(always)]
    unsafe fn sum_f32(x: __m256) -> f32 {
        // SAFETY: the caller guarantees AVX2.
        unsafe {
            let x = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
            let x = _mm_add_ps(x, _mm_movehl_ps(x, x));
            _mm_cvtss_f32(_mm_add_ss(x, _mm_shuffle_ps::<1>(x, x)))
        }
    }

    /// The sum of four numbers by halves.
    #[inline(always)]
    unsafe fn sum_f64(x: __m256d) -> f64 {
        // SAFETY: the caller guarantees AVX2.
        unsafe {
            let x = _mm_add_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd::<1>(x));
            _mm_cvtsd_f64(_mm_add_sd(x, _mm_unpackhi_pd(x, x)))
        }
    }

    /// Sixteen sums at once, each by the same halves as a single sum: 45 instructions instead of about 130.
    #[inline(always)]
    unsafe fn add_sums_f32<const I: usize, const R: usize>(
        vectors: &[[__m512; R]; I],
        to: *mut f32,
        stride: usize,
    ) {
        if I != 4 || R != 4 {
            // SAFETY: guaranteed by the caller.
            return unsafe { add_each(vectors, to, stride) };
        }
        // SAFETY: the caller guarantees AVX-512 and valid pointers.
        unsafe {
            let mut quarters = [_mm512_setzero_ps(); 4];
            for i in 0..4 {
                // Add the halves of two vectors, then the quarters of four: each quarter of the result
                // belongs to one message.
                let halves = |a: __m512, b: __m512| {
                    let low = _mm512_shuffle_f32x4::<0b01_00_01_00>(a, b);
                    _mm512_add_ps(low, _mm512_shuffle_f32x4::<0b11_10_11_10>(a, b))
                };
                let (a, b) = (halves(vectors[i][0], vectors[i][1]), halves(vectors[i][2], vectors[i][3]));
                let low = _mm512_shuffle_f32x4::<0b10_00_10_00>(a, b);
                quarters[i] = _mm512_add_ps(low, _mm512_shuffle_f32x4::<0b11_01_11_01>(a, b));
            }
            let pairs = |a: __m512, b: __m512| {
                let (a, b) = (_mm512_castps_pd(a), _mm512_castps_pd(b));
                let low = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
                _mm512_add_ps(low, _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)))
            };
            let (a, b) = (pairs(quarters[0], quarters[1]), pairs(quarters[2], quarters[3]));
            let low = _mm512_shuffle_ps::<0b10_00_10_00>(a, b);
            let sums = _mm512_add_ps(low, _mm512_shuffle_ps::<0b11_01_11_01>(a, b));
            let rows = [
                _mm512_castps512_ps128(sums),
                _mm512_extractf32x4_ps::<1>(sums),
                _mm512_extractf32x4_ps::<2>(sums),
                _mm512_extractf32x4_ps::<3>(sums),
            ];
            for r in 0..4 {
                let to = to.add(r * stride);
                _mm_storeu_ps(to, _mm_add_ps(_mm_loadu_ps(to), rows[r]));
            }
        }
    }

    pair!(
        f32,
        __m256,
        8,
        _mm256_set1_ps,
        _mm256_loadu_ps,
        _mm256_storeu_ps,
        _mm256_add_ps,
        _mm256_fmadd_ps,
        sum_f32
    );
    pair!(
        f64,
        __m256d,
        4,
        _mm256_set1_pd,
        _mm256_loadu_pd,
        _mm256_storeu_pd,
        _mm256_add_pd,
        _mm256_fmadd_pd,
        sum_f64
    );
    whole!(
        f32,
        __m512,
        _mm512_set1_ps,
        _mm512_loadu_ps,
        _mm512_storeu_ps,
        _mm512_add_ps,
        _mm512_fmadd_ps,
        _mm512_castps512_ps256,
        _mm512_extractf32x8_ps,
        _mm256_add_ps,
        sum_f32,
        add_sums_f32
    );
    whole!(
        f64,
        __m512d,
        _mm512_set1_pd,
        _mm512_loadu_pd,
        _mm512_storeu_pd,
        _mm512_add_pd,
        _mm512_fmadd_pd,
        _mm512_castpd512_pd256,
        _mm512_extractf64x4_pd,
        _mm256_add_pd,
        sum_f64,
        add_each
    );
}
