//! Matrix products: the only wrapper of the `gemm` crates. Those for single and double precision are used
//! directly, because `gemm` itself also compiles the products of complex numbers.

use gemm_common::Parallelism;
use gemm_common::cache::CACHE_INFO;

/// A read-only matrix: element (i, j) is at `data[i·row_stride + j·column_stride]`.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a, T> {
    data: &'a [T],
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl<'a, T> Matrix<'a, T> {
    /// A view of `rows × columns` numbers stored row by row.
    ///
    /// # Panics
    /// If `data` does not hold exactly `rows · columns` numbers.
    pub fn row_major(data: &'a [T], rows: usize, columns: usize) -> Self {
        assert_eq!(data.len(), rows * columns, "a {rows} × {columns} matrix");
        Matrix { data, rows, columns, row_stride: columns, column_stride: 1 }
    }

    /// The number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// The number of columns.
    pub(crate) fn columns_count(&self) -> usize {
        self.columns
    }

    /// A view of some of the columns; nothing is copied.
    ///
    /// # Panics
    /// If the range exceeds the number of columns.
    pub fn columns(self, range: std::ops::Range<usize>) -> Self {
        assert!(
            range.start <= range.end && range.end <= self.columns,
            "columns {range:?} of {}",
            self.columns
        );
        let first = (range.start * self.column_stride).min(self.data.len());
        Matrix { data: &self.data[first..], columns: range.end - range.start, ..self }
    }

    /// The transposed matrix; nothing is copied.
    pub fn transposed(self) -> Self {
        Matrix {
            data: self.data,
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
        }
    }
}

impl<T: Copy> Matrix<'_, T> {
    /// The element in a row and column.
    ///
    /// # Panics
    /// If there is none.
    #[inline(always)]
    pub(crate) fn at(&self, row: usize, column: usize) -> T {
        self.data[row * self.row_stride + column * self.column_stride]
    }
}

/// dst ← alpha·dst + beta·lhs·rhs: rows, columns and inner size; dst, its column and row stride, whether it
/// is read; lhs and rhs with their strides; alpha, beta; three flags for complex numbers; parallelism.
type Kernel<T> = unsafe fn(
    usize,
    usize,
    usize,
    *mut T,
    isize,
    isize,
    bool,
    *const T,
    isize,
    isize,
    *const T,
    isize,
    isize,
    T,
    T,
    bool,
    bool,
    bool,
    Parallelism,
);

mod sealed {
    /// The number types of `multiply`: `f32` and `f64`, no others.
    pub trait Scalar: Copy + Send + Sync + 'static {
        /// 0.
        const ZERO: Self;
        /// 1.
        const ONE: Self;
        /// The matrix product for this processor.
        fn kernel() -> super::Kernel<Self>;
    }
    impl Scalar for f32 {
        const ZERO: f32 = 0.0;
        const ONE: f32 = 1.0;
        fn kernel() -> super::Kernel<f32> {
            gemm_f32::gemm::f32::get_gemm_fn()
        }
    }
    impl Scalar for f64 {
        const ZERO: f64 = 0.0;
        const ONE: f64 = 1.0;
        fn kernel() -> super::Kernel<f64> {
            gemm_f64::gemm::f64::get_gemm_fn()
        }
    }
}
pub(super) use sealed::Scalar;

/// C ← A·B, or C ← C + A·B with `accumulate`, for `f32` or `f64`; C is row-major.
///
/// Costs 2·m·n·k operations. Uses the current rayon pool. The result has the same bits for any number of
/// threads, because only rows and columns are divided among threads, never the inner sum.
///
/// ```
/// use zhat::internal::numeric::{Matrix, multiply};
/// let a = [1.0, 2.0, 3.0, 4.0];
/// let mut c = [0.0; 4];
/// multiply(Matrix::row_major(&a, 2, 2), Matrix::row_major(&a, 2, 2).transposed(), &mut c, false);
/// assert_eq!(c, [5.0, 11.0, 11.0, 25.0]);
/// ```
///
/// # Panics
/// If the shapes do not match.
pub fn multiply<T: Scalar>(a: Matrix<T>, b: Matrix<T>, c: &mut [T], accumulate: bool) {
    let threads = super::parallel::threads();
    let parallelism = if threads > 1 && a.rows * b.columns * a.columns > 1 << 16 {
        Parallelism::Rayon(threads)
    } else {
        Parallelism::None
    };
    let stride = b.columns;
    product(a, b, (c, stride), accumulate, parallelism);
}

/// [`multiply`] into rows that begin at multiples of `stride`, in all threads if `parallel`.
///
/// # Panics
/// If the shapes do not match.
pub(crate) fn multiply_rows<T: Scalar>(
    a: Matrix<T>,
    b: Matrix<T>,
    (c, stride): (&mut [T], usize),
    accumulate: bool,
    parallel: bool,
) {
    let threads = if parallel { super::parallel::threads() } else { 1 };
    let large = a.rows * b.columns * a.columns > 1 << 16;
    let parallelism = if threads > 1 && large { Parallelism::Rayon(threads) } else { Parallelism::None };
    product(a, b, (c, stride), accumulate, parallelism);
}

/// [`multiply`] on the calling thread, for tiles that are already distributed over threads.
///
/// # Panics
/// If the shapes do not match.
pub(crate) fn multiply_here<T: Scalar>(a: Matrix<T>, b: Matrix<T>, c: &mut [T], accumulate: bool) {
    let stride = b.columns;
    product(a, b, (c, stride), accumulate, Parallelism::None);
}

/// Bytes that a thread allocates and keeps at its first product: room for packed operands, as large as the
/// second-level cache.
pub(crate) fn packed_bytes() -> usize {
    CACHE_INFO[1].cache_bytes
}

fn product<T: Scalar>(
    a: Matrix<T>,
    b: Matrix<T>,
    (c, stride): (&mut [T], usize),
    accumulate: bool,
    parallelism: Parallelism,
) {
    assert_eq!(a.columns, b.rows, "inner dimensions of the product");
    assert!(stride >= b.columns, "rows of the result");
    if stride == b.columns {
        assert_eq!(c.len(), a.rows * b.columns, "size of the result");
    }
    if a.rows == 0 || b.columns == 0 {
        return;
    }
    assert!(c.len() >= (a.rows - 1) * stride + b.columns, "size of the result");
    // The kernels prefer columns of the result to be contiguous, so Cᵀ = Bᵀ·Aᵀ is computed unless C is one
    // column.
    let columns = b.columns;
    let (left, right, column_stride, row_stride) =
        if columns > 1 { (b.transposed(), a.transposed(), stride, 1) } else { (a, b, 1, stride) };
    // SAFETY: the constructors and the assertions above keep every index i·row_stride + j·column_stride
    // inside its slice; `c` is not aliased.
    unsafe {
        T::kernel()(
            left.rows,
            right.columns,
            left.columns,
            c.as_mut_ptr(),
            column_stride as isize,
            row_stride as isize,
            accumulate,
            left.data.as_ptr(),
            left.column_stride as isize,
            left.row_stride as isize,
            right.data.as_ptr(),
            right.column_stride as isize,
            right.row_stride as isize,
            if accumulate { T::ONE } else { T::ZERO },
            T::ONE,
            false,
            false,
            false,
            parallelism,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Streams;

    #[test]
    fn agrees_with_the_definition_and_does_not_depend_on_threads() {
        let mut random = Streams::new(1, "product tests").block(0);
        for (m, n, k) in [(1, 1, 1), (3, 5, 2), (17, 33, 9), (130, 70, 64), (4, 6, 0), (0, 3, 2)] {
            let a: Vec<f64> = (0..m * k).map(|_| random.uniform() - 0.5).collect();
            let b: Vec<f64> = (0..k * n).map(|_| random.uniform() - 0.5).collect();
            let start: Vec<f64> = (0..m * n).map(|_| random.uniform()).collect();
            for accumulate in [false, true] {
                let product = |threads| {
                    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                    let mut c = start.clone();
                    let (a, b) = (Matrix::row_major(&a, m, k), Matrix::row_major(&b, k, n));
                    pool.install(|| multiply(a, b, &mut c, accumulate));
                    c
                };
                let c = product(1);
                assert_eq!(c, product(2));
                for i in 0..m {
                    for j in 0..n {
                        let dot: f64 = (0..k).map(|l| a[i * k + l] * b[l * n + j]).sum();
                        let want = dot + if accumulate { start[i * n + j] } else { 0.0 };
                        assert!((c[i * n + j] - want).abs() < 1e-13, "({i}, {j})");
                    }
                }
            }
        }
    }

    #[test]
    fn transposed_operands_and_single_precision() {
        let a: Vec<f32> = (0..12).map(|i| i as f32).collect();
        let mut c = vec![0.0f32; 16];
        multiply(Matrix::row_major(&a, 3, 4).transposed(), Matrix::row_major(&a, 3, 4), &mut c, false);
        let want: f32 = (0..3).map(|i| a[i * 4 + 1] * a[i * 4 + 2]).sum();
        assert_eq!(c[6], want);
        let some = Matrix::row_major(&a, 3, 4).columns(1..3);
        multiply(some.transposed(), some, &mut c[..4], false);
        assert_eq!(c[1], want);
        multiply(some, Matrix::row_major(&a[..2], 2, 1), &mut c[..3], false);
        assert_eq!(c[..3], [2.0, 6.0, 10.0]);
    }
}
