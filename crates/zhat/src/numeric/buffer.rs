//! Large buffers: on large pages, and used again instead of handed back. Filling fresh memory costs more in page faults
//! than the arithmetic that fills it.

/// Buffers to be used again.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    free: Vec<Vec<f64>>,
}

impl Pool {
    /// A buffer of `len` numbers of no particular value.
    pub fn take(&mut self, len: usize) -> Vec<f64> {
        let fitting = (0..self.free.len()).filter(|&i| self.free[i].capacity() >= len);
        match fitting.min_by_key(|&i| self.free[i].capacity()).filter(|&i| self.free[i].capacity() / 4 <= len)
        {
            Some(i) => {
                let mut buffer = self.free.swap_remove(i);
                if buffer.len() < len {
                    buffer.resize(len, 0.0);
                }
                buffer.truncate(len);
                buffer
            }
            None => {
                // What does not fit now is handed back, so that the pool never adds to the peak.
                self.free.clear();
                zeros(len)
            }
        }
    }

    /// A buffer of `len` zeros.
    pub fn take_zeros(&mut self, len: usize) -> Vec<f64> {
        let mut buffer = self.take(len);
        buffer.fill(0.0);
        buffer
    }

    /// Keeps a buffer for later; small ones are not worth it.
    pub fn give(&mut self, buffer: Vec<f64>) {
        if buffer.capacity() * size_of::<f64>() >= LARGE / 16 {
            self.free.push(buffer);
        }
    }
}

/// Smaller buffers are left as they are.
const LARGE: usize = 4 << 20;

/// A buffer of zeros. On Linux a large one asks for huge pages before it is touched: filling a buffer of many small pages
/// costs more in page faults than in arithmetic.
fn zeros(len: usize) -> Vec<f64> {
    let mut buffer = vec![0.0; len];
    if size_of_val(buffer.as_slice()) >= LARGE {
        advise_huge_pages(&mut buffer);
    }
    buffer
}

#[cfg(target_os = "linux")]
fn advise_huge_pages(buffer: &mut [f64]) {
    const PAGE: usize = 4096;
    let start = buffer.as_mut_ptr().addr().next_multiple_of(PAGE);
    let end = (buffer.as_ptr().addr() + size_of_val(buffer)) / PAGE * PAGE;
    if start < end {
        // SAFETY: whole pages inside one live allocation; the advice changes no content, and a refusal changes nothing.
        unsafe {
            libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_HUGEPAGE);
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn advise_huge_pages(_: &mut [f64]) {}

#[cfg(test)]
mod tests {
    use super::Pool;

    #[test]
    fn buffers_are_used_again_where_they_fit() {
        let mut pool = Pool::default();
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
            let mut buffer = super::zeros(len);
            assert_eq!(buffer.len(), len);
            assert!(buffer.iter().all(|&x| x == 0.0));
            buffer.fill(1.0);
        }
    }
}
