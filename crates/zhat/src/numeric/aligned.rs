//! Scratch memory that is aligned to cache lines and reused by later queries.
//!
//! Getting new pages from the system takes longer than the arithmetic of most queries, and training repeats
//! the same query many times. Freed blocks are therefore kept, up to `POOL_BYTES` bytes in total, and reused
//! by later requests of a similar size.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};

use super::buffer::advise_huge_pages;
use super::product::Scalar;

/// A cache line. With this alignment no vector of a whole line crosses two lines.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line {
    _bytes: [u8; LINE],
}

const ZEROS: Line = Line { _bytes: [0; LINE] };

const LINE: usize = 64;
/// Maximum total size of the blocks kept, in bytes.
pub(crate) const POOL_BYTES: usize = 64 << 20;
/// Blocks smaller than `SMALL` are left to the allocator; blocks of at least `LARGE` bytes request huge
/// pages.
const SMALL: usize = 32 << 10;
const LARGE: usize = 4 << 20;

static FREE: Mutex<Vec<Vec<Line>>> = Mutex::new(Vec::new());

/// A buffer of numbers aligned to cache lines.
#[derive(Debug)]
pub(crate) struct Aligned<T> {
    lines: Vec<Line>,
    len: usize,
    numbers: PhantomData<T>,
}

impl<T> Default for Aligned<T> {
    fn default() -> Self {
        Aligned { lines: Vec::new(), len: 0, numbers: PhantomData }
    }
}

impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "…")
    }
}

impl<T: Scalar> Aligned<T> {
    /// `len` zeros.
    pub fn zeros(len: usize) -> Self {
        let count = (len * size_of::<T>()).div_ceil(LINE);
        let lines = take(count).map(|mut lines| {
            lines[..count].fill(ZEROS);
            lines
        });
        Aligned { lines: lines.unwrap_or_else(|| fresh(count)), len, numbers: PhantomData }
    }

    /// `len` numbers with unspecified values.
    pub fn unset(len: usize) -> Self {
        let count = (len * size_of::<T>()).div_ceil(LINE);
        Aligned { lines: take(count).unwrap_or_else(|| fresh(count)), len, numbers: PhantomData }
    }

    /// The first `len` numbers, with unspecified values; the buffer grows if necessary.
    pub fn room(&mut self, len: usize) -> &mut [T] {
        if self.len < len {
            *self = Aligned::unset(len);
        }
        &mut self[..len]
    }
}

/// Newly allocated lines of zeros.
fn fresh(count: usize) -> Vec<Line> {
    let mut lines = Vec::new();
    lines.reserve_exact(count);
    if count * LINE >= LARGE {
        advise_huge_pages(lines.spare_capacity_mut());
    }
    lines.resize(count, ZEROS);
    lines
}

/// A kept block of at least `count` lines with unspecified values: the smallest one that is large enough and
/// not far too large.
fn take(count: usize) -> Option<Vec<Line>> {
    if count * LINE < SMALL {
        return None;
    }
    let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
    let fitting = (0..free.len()).filter(|&i| (count..=2 * count).contains(&free[i].len()));
    let best = fitting.min_by_key(|&i| free[i].len())?;
    Some(free.swap_remove(best))
}

/// Keeps a block for later. The oldest blocks are freed if the total is too large.
fn give(lines: Vec<Line>) {
    let bytes = |lines: &Vec<Line>| lines.len() * LINE;
    if !(SMALL..=POOL_BYTES).contains(&bytes(&lines)) {
        return;
    }
    let mut gone = Vec::new();
    let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
    free.push(lines);
    while free.iter().map(bytes).sum::<usize>() > POOL_BYTES {
        gone.push(free.remove(0));
    }
    drop(free);
}

impl<T> Drop for Aligned<T> {
    fn drop(&mut self) {
        give(std::mem::take(&mut self.lines));
    }
}

impl<T: Scalar> Clone for Aligned<T> {
    fn clone(&self) -> Self {
        let mut copy = Aligned::zeros(self.len);
        copy.copy_from_slice(self);
        copy
    }
}

impl<T> Deref for Aligned<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the lines hold at least `len` numbers of `T`, for which any bit pattern is valid (`zeros`
        // requires `Scalar`), with an alignment of 64; an empty vector has a dangling pointer of that
        // alignment.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.len) }
    }
}

impl<T> DerefMut for Aligned<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and the lines are borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_zero_and_aligned_also_when_used_again() {
        for len in [0, 1, 15, 1000, 100_000, 2_000_001] {
            for _ in 0..3 {
                let mut buffer = Aligned::<f32>::zeros(len);
                assert_eq!((buffer.len(), buffer.as_ptr().addr() % LINE), (len, 0));
                assert!(buffer.iter().all(|&x| x == 0.0));
                buffer.fill(1.0);
                let mut doubles = Aligned::<f64>::zeros(len / 2);
                assert!(doubles.iter().all(|&x| x == 0.0));
                doubles.fill(f64::NAN);
            }
        }
    }

    #[test]
    fn no_more_is_kept_than_said() {
        let buffers: Vec<Aligned<f32>> = (0..40).map(|_| Aligned::zeros(1 << 20)).collect();
        drop(buffers);
        let kept: usize = FREE.lock().unwrap().iter().map(|lines| lines.len() * LINE).sum();
        assert!(kept <= POOL_BYTES);
    }
}
