//! Tables that are reused by later calls instead of being freed.
//!
//! A grammar with dense rules needs a few MiB of tables for every sentence. Page faults on newly allocated
//! memory would take a quarter of the time. Freed tables of any kind of number are therefore kept, up to
//! `POOL_BYTES` bytes in total. `Aligned` does the same for single and double precision, with whole cache
//! lines.

use std::any::Any;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};

use super::aligned::POOL_BYTES;

/// Smaller tables are left to the allocator.
const SMALL: usize = 32 << 10;

/// A table that is kept for later, of any kind of number.
struct Kept {
    bytes: usize,
    table: Box<dyn Any + Send>,
}

static FREE: Mutex<Vec<Kept>> = Mutex::new(Vec::new());

/// A vector whose memory is kept when it is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Table<T: Send + 'static> {
    values: Vec<T>,
}

impl<T: Send + 'static> Default for Table<T> {
    fn default() -> Self {
        Table { values: Vec::new() }
    }
}

impl<T: Copy + Send + 'static> Table<T> {
    /// An empty table with room for `len` numbers.
    pub fn with_capacity(len: usize) -> Self {
        let mut values = take(len).unwrap_or_else(|| Vec::with_capacity(len));
        values.clear();
        Table { values }
    }

    /// `len` numbers with the same value.
    pub fn filled(value: T, len: usize) -> Self {
        let values = take(len).map(|mut values: Vec<T>| {
            values.clear();
            values.resize(len, value);
            values
        });
        Table { values: values.unwrap_or_else(|| super::buffer::filled(value, len)) }
    }

    /// `len` numbers of unspecified values; those of new memory are `value`.
    pub fn unspecified(value: T, len: usize) -> Self {
        let values = take(len).map(|mut values: Vec<T>| {
            values.resize(len, value);
            values
        });
        Table { values: values.unwrap_or_else(|| super::buffer::filled(value, len)) }
    }

    /// Its numbers, which are not kept for later.
    pub fn into_vec(mut self) -> Vec<T> {
        std::mem::take(&mut self.values)
    }

    /// Keeps memory for later tables.
    pub fn recycle(values: Vec<T>) {
        give(values);
    }
}

/// The smallest kept table that is large enough and not far too large, with its old numbers.
fn take<T: Send + 'static>(len: usize) -> Option<Vec<T>> {
    let bytes = len * size_of::<T>();
    if bytes < SMALL {
        return None;
    }
    let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
    let fits = |kept: &Kept| (bytes..=2 * bytes).contains(&kept.bytes) && kept.table.is::<Vec<T>>();
    let best = (0..free.len()).filter(|&i| fits(&free[i])).min_by_key(|&i| free[i].bytes)?;
    let kept = free.swap_remove(best);
    drop(free);
    kept.table.downcast::<Vec<T>>().ok().map(|values| *values)
}

/// Keeps a table for later. The oldest tables are freed if the total is too large.
fn give<T: Send + 'static>(values: Vec<T>) {
    let bytes = values.capacity() * size_of::<T>();
    if !(SMALL..=POOL_BYTES).contains(&bytes) {
        return;
    }
    let kept = Kept { bytes, table: Box::new(values) };
    let mut gone = Vec::new();
    let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
    free.push(kept);
    while free.iter().map(|kept| kept.bytes).sum::<usize>() > POOL_BYTES {
        gone.push(free.remove(0));
    }
    drop(free);
}

impl<T: Send + 'static> Drop for Table<T> {
    fn drop(&mut self) {
        give(std::mem::take(&mut self.values));
    }
}

impl<T: Send + 'static> Deref for Table<T> {
    type Target = Vec<T>;

    fn deref(&self) -> &Vec<T> {
        &self.values
    }
}

impl<T: Send + 'static> DerefMut for Table<T> {
    fn deref_mut(&mut self) -> &mut Vec<T> {
        &mut self.values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pool is shared by all tests, so the type is one that no other test uses.
    type Triple = [i16; 3];

    #[test]
    fn tables_are_reused_by_requests_of_similar_size_and_the_same_type_and_bounded() {
        let first: Table<Triple> = Table::filled([7; 3], 30_000);
        let (address, room) = (first.as_ptr(), first.capacity());
        drop(first);
        let small: Table<Triple> = Table::filled([2; 3], 6_000);
        assert_ne!(small.as_ptr(), address, "far too large");
        let second: Table<Triple> = Table::filled([0; 3], 25_000);
        assert_eq!((second.as_ptr(), second.capacity()), (address, room));
        assert!(second.len() == 25_000 && second.iter().all(|x| *x == [0; 3]));
        let third: Table<Triple> = Table::with_capacity(25_000);
        assert!(third.is_empty() && third.capacity() >= 25_000 && third.as_ptr() != address);
        drop(second);
        let fourth: Table<Triple> = Table::unspecified([3; 3], 28_000);
        assert!(fourth.len() == 28_000 && fourth[27_999] == [3; 3] && fourth.as_ptr() == address);
        for _ in 0..40 {
            drop(Table::filled([1i16; 5], 1 << 19));
        }
        let kept: usize = FREE.lock().unwrap().iter().map(|kept| kept.bytes).sum();
        assert!(kept <= POOL_BYTES);
    }
}
