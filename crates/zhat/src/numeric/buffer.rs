//! Large buffers, on huge pages and reused instead of freed. Page faults on newly allocated memory cost more
//! than the arithmetic that fills it.

use super::product::Scalar;

/// The capacity of a buffer, in numbers. Forecasts use a plain number in place of a buffer.
pub(crate) trait Room {
    fn room(&self) -> usize;
}

impl Room for Vec<f64> {
    fn room(&self) -> usize {
        self.capacity()
    }
}

impl Room for usize {
    fn room(&self) -> usize {
        *self
    }
}

/// Buffers to be reused.
#[derive(Debug)]
pub(crate) struct Pool<B = Vec<f64>> {
    free: Vec<B>,
}

impl<B> Default for Pool<B> {
    fn default() -> Self {
        Pool { free: Vec::new() }
    }
}

impl<B: Room> Pool<B> {
    /// Takes the smallest buffer with room for `len` numbers that is not far too large. If there is none, the
    /// kept buffers are freed.
    pub fn find(&mut self, len: usize) -> Option<B> {
        let fitting = (0..self.free.len()).filter(|&i| self.free[i].room() >= len);
        let best = fitting.min_by_key(|&i| self.free[i].room()).filter(|&i| self.free[i].room() / 4 <= len);
        if best.is_none() {
            self.free.clear();
        }
        best.map(|i| self.free.swap_remove(i))
    }

    /// Keeps a buffer for later; small ones are freed.
    pub fn give(&mut self, buffer: B) {
        if buffer.room() * size_of::<f64>() >= LARGE / 16 {
            self.free.push(buffer);
        }
    }

    /// The total capacity of all kept buffers.
    pub fn room(&self) -> usize {
        self.free.iter().map(Room::room).sum()
    }
}

impl Pool {
    /// A buffer of `len` numbers with unspecified values.
    pub fn take(&mut self, len: usize) -> Vec<f64> {
        match self.find(len) {
            Some(mut buffer) => {
                if buffer.len() < len {
                    buffer.resize(len, 0.0);
                }
                buffer.truncate(len);
                buffer
            }
            None => zeros(len),
        }
    }

    /// A buffer of `len` zeros.
    pub fn take_zeros(&mut self, len: usize) -> Vec<f64> {
        let mut buffer = self.take(len);
        buffer.fill(0.0);
        buffer
    }
}

/// Smaller buffers do not request huge pages.
const LARGE: usize = 4 << 20;

/// A buffer of zeros. On Linux, a large one requests huge pages before it is touched, because page faults on
/// many small pages cost more than the arithmetic.
fn zeros<T: Scalar>(len: usize) -> Vec<T> {
    filled(T::ZERO, len)
}

/// The same for numbers of any kind; zeros of `f32` and `f64` are not written before they are used.
pub(crate) fn filled<T: Copy>(value: T, len: usize) -> Vec<T> {
    let mut buffer = vec![value; len];
    if size_of_val(buffer.as_slice()) >= LARGE {
        advise_huge_pages(&mut buffer);
    }
    buffer
}

#[cfg(target_os = "linux")]
pub(super) fn advise_huge_pages<T>(buffer: &mut [T]) {
    const PAGE: usize = 4096;
    let start = buffer.as_mut_ptr().addr().next_multiple_of(PAGE);
    let end = (buffer.as_ptr().addr() + size_of_val(buffer)) / PAGE * PAGE;
    if start < end {
        // SAFETY: whole pages inside one live allocation; the advice does not change their content, and a
        // refusal has no effect.
        unsafe {
            libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_HUGEPAGE);
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn advise_huge_pages<T>(_: &mut [T]) {}

/// Makes the allocator map every large block of memory separately. Freed tables are then returned to the
/// system immediately, and the process uses no more memory than forecast. Programs should call it at startup,
/// because it affects the whole process.
///
/// Otherwise the C library of Linux keeps freed blocks of up to 32 MiB for reuse. Up to 16 MiB of smaller
/// blocks are kept, because many small tables are allocated again and again.
pub fn map_large_blocks() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: sets parameters of the allocator, which is allowed at any time.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 20);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 16 << 20);
    }
}

#[cfg(test)]
mod tests {
    use super::Pool;

    #[test]
    fn buffers_are_used_again_where_they_fit() {
        let mut pool: Pool = Pool::default();
        let large = pool.take(1 << 20);
        let address = large.as_ptr();
        pool.give(large);
        let again = pool.take((1 << 20) - 5);
        assert_eq!((again.as_ptr(), again.len()), (address, (1 << 20) - 5));
        pool.give(again);
        assert!(pool.take_zeros(1 << 20).iter().all(|&x| x == 0.0));
        pool.give(vec![1.0; 1 << 20]);
        assert_eq!(pool.take(1 << 21).len(), 1 << 21);
        assert!(pool.free.is_empty());
    }

    #[test]
    fn buffers_of_all_sizes_are_zero() {
        for len in [0, 1, 1000, 600_000, 1_000_001] {
            let mut buffer = super::zeros::<f64>(len);
            assert_eq!(buffer.len(), len);
            assert!(buffer.iter().all(|&x| x == 0.0));
            buffer.fill(1.0);
        }
    }
}
