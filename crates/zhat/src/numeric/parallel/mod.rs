//! Parallel loops over indexed items, with the method names of rayon's parallel iterators.
//!
//! `rayon` compiles its scheduler anew for every loop, which made a third of the code of this library. Here
//! every loop goes through one compiled function, [`over`], that splits a range of indices among the threads of
//! the current pool; only the body of the loop is generic. Results are always in the order of the items.
//!
//! ```text
//! use crate::numeric::parallel::prelude::*;
//! let squares: Vec<usize> = (0..10).into_par_iter().map(|i| i * i).collect();
//! ```

mod items;
#[cfg(test)]
mod tests;

use std::cell::{Cell, UnsafeCell};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use items::{Enumerate, IntoParallel, Map, MapInit, Zip};

/// The traits that add the methods to slices, vectors and ranges.
pub(crate) mod prelude {
    pub(crate) use super::items::{IntoParallel, ParallelSlice, ParallelSliceMut};
}

thread_local! {
    /// Whether loops of this thread use this thread only.
    static ALONE: Cell<bool> = const { Cell::new(false) };
}

/// The number of threads that loops of this thread may use.
pub(crate) fn threads() -> usize {
    if ALONE.get() { 1 } else { rayon::current_num_threads() }
}

/// Runs `work`, whose loops use the calling thread only if `alone`, and otherwise all threads of its pool.
pub(crate) fn with_loops<R>(alone: bool, work: impl FnOnce() -> R) -> R {
    /// The former setting, also after a panic.
    struct Restored(bool);
    impl Drop for Restored {
        fn drop(&mut self) {
            ALONE.set(self.0);
        }
    }
    let _restored = Restored(ALONE.replace(alone));
    work()
}

/// Calls `work` with disjoint ranges that together are `0..len`, in the threads of the current pool.
///
/// A range has at least `least` indices, unless `len` is smaller, and at most `most`, where it can be divided.
/// As in rayon, there are a few ranges per thread at first, and a range that another thread takes over is divided
/// again. Cost beside `work`: well below a microsecond per range.
fn over(len: usize, least: usize, most: usize, work: &(dyn Fn(Range<usize>) + Sync)) {
    if len == 0 {
        return;
    }
    let threads = threads();
    if threads == 1 {
        let most = most.max(1);
        return (0..len).step_by(most).for_each(|start| work(start..len.min(start.saturating_add(most))));
    }
    Split { least: least.max(1), most, threads, work }.divide(0..len, threads, false);
}

/// A loop that is being divided.
struct Split<'a> {
    least: usize,
    most: usize,
    threads: usize,
    work: &'a (dyn Fn(Range<usize>) + Sync),
}

impl Split<'_> {
    fn divide(&self, range: Range<usize>, shares: usize, moved: bool) {
        let half = range.len() / 2;
        if half < self.least || (shares == 0 && !moved && range.len() <= self.most) {
            return (self.work)(range);
        }
        let shares = if moved { self.threads.max(shares / 2) } else { shares / 2 };
        let middle = range.start + half;
        rayon::join_context(
            |context| self.divide(range.start..middle, shares, context.migrated()),
            |context| self.divide(middle..range.end, shares, context.migrated()),
        );
    }
}

/// Items that threads take by their index.
///
/// # Safety
/// `take` must be sound if every index below `count` is taken at most once, by any thread.
pub(crate) unsafe trait Items: Sync + Sized {
    /// What is taken.
    type Item;
    /// What a thread keeps while it works on a range of items.
    type State;

    fn count(&self) -> usize;

    fn state(&self) -> Self::State;

    /// # Safety
    /// The index is below `count` and is taken once.
    unsafe fn take(&self, state: &mut Self::State, index: usize) -> Self::Item;
}

/// A parallel loop over items.
pub(crate) struct Parallel<I> {
    items: I,
    least: usize,
    most: usize,
}

impl<I: Items> Parallel<I> {
    fn of(items: I) -> Self {
        Parallel { items, least: 1, most: usize::MAX }
    }

    /// The least number of items that a thread takes at once.
    pub(crate) fn with_min_len(self, least: usize) -> Self {
        Parallel { least, ..self }
    }

    /// The largest number of items that a thread takes at once.
    pub(crate) fn with_max_len(self, most: usize) -> Self {
        Parallel { most, ..self }
    }

    pub(crate) fn enumerate(self) -> Parallel<Enumerate<I>> {
        Parallel { items: Enumerate(self.items), least: self.least, most: self.most }
    }

    /// Pairs of items with the same index, as many as the shorter one has.
    pub(crate) fn zip<J: IntoParallel>(self, other: J) -> Parallel<Zip<I, J::Items>> {
        let other = other.into_par_iter();
        Parallel {
            items: Zip(self.items, other.items),
            least: self.least.max(other.least),
            most: self.most.min(other.most),
        }
    }

    pub(crate) fn map<T, F: Fn(I::Item) -> T + Sync>(self, map: F) -> Parallel<Map<I, F>> {
        Parallel { items: Map(self.items, map), least: self.least, most: self.most }
    }

    /// Like `map`, with a state that is made once per range of items.
    pub(crate) fn map_init<S, T, N, F>(self, init: N, map: F) -> Parallel<MapInit<I, N, F>>
    where
        N: Fn() -> S + Sync,
        F: Fn(&mut S, I::Item) -> T + Sync,
    {
        Parallel { items: MapInit(self.items, init, map), least: self.least, most: self.most }
    }

    /// Calls `each` for every item until it returns false.
    fn until(&self, each: impl Fn(usize, I::Item) -> bool + Sync) {
        let stop = AtomicBool::new(false);
        over(self.items.count(), self.least, self.most, &|range| {
            let mut state = self.items.state();
            for index in range {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                // SAFETY: `over` gives every index below `count` to one range.
                let item = unsafe { self.items.take(&mut state, index) };
                if !each(index, item) {
                    stop.store(true, Ordering::Relaxed);
                }
            }
        });
    }

    pub(crate) fn for_each(self, each: impl Fn(I::Item) + Sync) {
        over(self.items.count(), self.least, self.most, &|range| {
            let mut state = self.items.state();
            for index in range {
                // SAFETY: `over` gives every index below `count` to one range.
                each(unsafe { self.items.take(&mut state, index) });
            }
        });
    }

    pub(crate) fn for_each_init<S>(self, init: impl Fn() -> S + Sync, each: impl Fn(&mut S, I::Item) + Sync) {
        self.map_init(init, each).for_each(|()| ());
    }

    /// Stops at an error, and returns the first one found in the order of the items.
    pub(crate) fn try_for_each<E: Send>(
        self,
        each: impl Fn(I::Item) -> Result<(), E> + Sync,
    ) -> Result<(), E> {
        let failed = std::sync::Mutex::new(None::<(usize, E)>);
        self.until(|index, item| {
            let Err(error) = each(item) else { return true };
            let mut failed = failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if failed.as_ref().is_none_or(|&(first, _)| index < first) {
                *failed = Some((index, error));
            }
            false
        });
        let failed = failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        failed.map_or(Ok(()), |(_, error)| Err(error))
    }

    pub(crate) fn try_for_each_init<S, E: Send>(
        self,
        init: impl Fn() -> S + Sync,
        each: impl Fn(&mut S, I::Item) -> Result<(), E> + Sync,
    ) -> Result<(), E> {
        self.map_init(init, each).try_for_each(|result| result)
    }

    /// All items in order: `Vec<T>`, or `Result<Vec<T>, E>` and `Option<Vec<T>>`, which stop at an error.
    pub(crate) fn collect<C: Collect<I::Item>>(self) -> C
    where
        I::Item: Send,
    {
        let slots = Slots::new(self.items.count());
        self.until(|index, item| {
            let good = C::is_good(&item);
            // SAFETY: every index is used once.
            unsafe { slots.put(index, item) };
            good
        });
        C::gather(slots.into_items())
    }

    /// The items combined by an associative operation, in order.
    pub(crate) fn reduce(
        self,
        none: impl Fn() -> I::Item,
        join: impl Fn(I::Item, I::Item) -> I::Item,
    ) -> I::Item
    where
        I::Item: Send,
    {
        self.collect::<Vec<_>>().into_iter().fold(none(), join)
    }
}

/// What items can be collected into.
pub(crate) trait Collect<T>: Sized {
    fn is_good(item: &T) -> bool;
    /// Items after one that is not good may be missing.
    fn gather(items: impl Iterator<Item = T>) -> Self;
}

impl<T: Send> Collect<T> for Vec<T> {
    fn is_good(_: &T) -> bool {
        true
    }

    fn gather(items: impl Iterator<Item = T>) -> Self {
        items.collect()
    }
}

impl<T: Send, E: Send> Collect<Result<T, E>> for Result<Vec<T>, E> {
    fn is_good(item: &Result<T, E>) -> bool {
        item.is_ok()
    }

    fn gather(items: impl Iterator<Item = Result<T, E>>) -> Self {
        items.collect()
    }
}

impl<T: Send> Collect<Option<T>> for Option<Vec<T>> {
    fn is_good(item: &Option<T>) -> bool {
        item.is_some()
    }

    fn gather(items: impl Iterator<Item = Option<T>>) -> Self {
        items.collect()
    }
}

/// Places that threads fill or empty, each once.
pub(crate) struct Slots<T>(Vec<UnsafeCell<Option<T>>>);

// SAFETY: a slot is used by one thread at a time (the contract of `put` and `take`).
unsafe impl<T: Send> Sync for Slots<T> {}

impl<T> Slots<T> {
    fn new(len: usize) -> Self {
        Slots((0..len).map(|_| UnsafeCell::new(None)).collect())
    }

    /// # Safety
    /// No other thread uses the slot.
    unsafe fn put(&self, index: usize, item: T) {
        // SAFETY: by the contract, nobody else has a reference to the slot.
        unsafe { *self.0[index].get() = Some(item) }
    }

    fn into_items(self) -> impl Iterator<Item = T> {
        self.0.into_iter().filter_map(UnsafeCell::into_inner)
    }
}

// SAFETY: every slot is taken once.
unsafe impl<T: Send> Items for Slots<T> {
    type Item = T;
    type State = ();

    fn count(&self) -> usize {
        self.0.len()
    }

    fn state(&self) {}

    unsafe fn take(&self, (): &mut (), index: usize) -> T {
        // SAFETY: by the contract, nobody else has a reference to the slot.
        match unsafe { (*self.0[index].get()).take() } {
            Some(item) => item,
            None => unreachable!("item {index} is taken twice"),
        }
    }
}
