//! Large buffers: on large pages, and used again instead of handed back. Filling fresh memory costs more in
//! page faults than the arithmetic that fills it.

use super::product::Scalar;

/// What a pool asks of a buffer: for how many numbers it has room. A bare number stands for a buffer in
/// forecasts.
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

/// Buffers to be used again.
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
    /// The smallest buffer with room for `len` numbers, if there is one that is not far too large. If there
    /// is none, what there is does not fit now and is handed back.
    pub fn find(&mut self, len: usize) -> Option<B> {
        let fitting = (0..self.free.len()).filter(|&i| self.free[i].room() >= len);
        let best = fitting.min_by_key(|&i| self.free[i].room()).filter(|&i| self.free[i].room() / 4 <= len);
        if best.is_none() {
            self.free.clear();
        }
        best.map(|i| self.free.swap_remove(i))
    }

    /// Keeps a buffer for later; small ones are not worth it.
    pub fn give(&mut self, buffer: B) {
        if buffer.room() * size_of::<f64>() >= LARGE / 16 {
            self.free.push(buffer);
        }
    }

    /// The room of all buffers that are kept.
    pub fn room(&self) -> usize {
        self.free.iter().map(Room::room).sum()
    }
}

impl Pool {
    /// A buffer of `len` numbers of no particular value.
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

/// Smaller buffers are left as they are.
const LARGE: usize = 4 << 20;

/// A buffer of zeros. On Linux a large one asks for huge pages before it is touched: filling a buffer of many
/// small pages costs more in page faults than in arithmetic.
fn zeros<T: Scalar>(len: usize) -> Vec<T> {
    let mut buffer = vec![T::ZERO; len];
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
        // SAFETY: whole pages inside one live allocation; the advice changes no content, and a refusal
        // changes nothing.
        unsafe {
            libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_HUGEPAGE);
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn advise_huge_pages<T>(_: &mut [T]) {}

/// Lets every large block of memory have pages of its own, so that freed tables go back to the system at once
/// and the process takes no more than what is forecast. For programs to call at their start: it is about the
/// whole process.
///
/// The C library of Linux would otherwise keep blocks of up to 32 MiB that were freed once for later, between
/// others.
pub fn map_large_blocks() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: sets a number in the allocator; it may be called at any time.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 20);
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
