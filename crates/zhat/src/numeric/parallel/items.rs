//! What parallel loops go over: ranges, slices, vectors and what is made of them.

use std::cell::UnsafeCell;
use std::ops::Range;

use super::{Items, Parallel, Slots};

/// The numbers of a range.
macro_rules! range {
    ($number:ty) => {
        // SAFETY: numbers are copied.
        unsafe impl Items for Range<$number> {
            type Item = $number;
            type State = ();

            fn count(&self) -> usize {
                self.end.saturating_sub(self.start) as usize
            }

            fn state(&self) {}

            unsafe fn take(&self, (): &mut (), index: usize) -> $number {
                self.start + index as $number
            }
        }

        impl IntoParallel for Range<$number> {
            type Items = Self;

            fn into_par_iter(self) -> Parallel<Self> {
                Parallel::of(self)
            }
        }
    };
}

range!(usize);
range!(u64);
range!(u32);

// SAFETY: shared references may be given to several threads.
unsafe impl<'a, T: Sync> Items for &'a [T] {
    type Item = &'a T;
    type State = ();

    fn count(&self) -> usize {
        <[T]>::len(self)
    }

    fn state(&self) {}

    unsafe fn take(&self, (): &mut (), index: usize) -> &'a T {
        &self[index]
    }
}

/// Consecutive pieces of a slice; the last one may be shorter.
pub(crate) struct Chunks<'a, T> {
    slice: &'a [T],
    size: usize,
    count: usize,
}

// SAFETY: shared references may be given to several threads.
unsafe impl<'a, T: Sync> Items for Chunks<'a, T> {
    type Item = &'a [T];
    type State = ();

    fn count(&self) -> usize {
        self.count
    }

    fn state(&self) {}

    unsafe fn take(&self, (): &mut (), index: usize) -> &'a [T] {
        let start = index * self.size;
        &self.slice[start..self.slice.len().min(start + self.size)]
    }
}

/// Consecutive pieces of a mutable slice; the last one may be shorter.
pub(crate) struct ChunksMut<'a, T> {
    start: *mut T,
    len: usize,
    size: usize,
    count: usize,
    slice: std::marker::PhantomData<&'a mut [T]>,
}

// SAFETY: the pieces are disjoint, and each is taken by one thread.
unsafe impl<T: Send> Sync for ChunksMut<'_, T> {}

// SAFETY: the pieces are disjoint and lie within the slice, which is borrowed for 'a.
unsafe impl<'a, T: Send> Items for ChunksMut<'a, T> {
    type Item = &'a mut [T];
    type State = ();

    fn count(&self) -> usize {
        self.count
    }

    fn state(&self) {}

    unsafe fn take(&self, (): &mut (), index: usize) -> &'a mut [T] {
        let start = index * self.size;
        assert!(start < self.len);
        // SAFETY: the piece lies within the slice and is taken once.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(start), self.size.min(self.len - start)) }
    }
}

/// The elements of a mutable slice.
pub(crate) struct ElementsMut<'a, T>(ChunksMut<'a, T>);

// SAFETY: as for `ChunksMut`; each piece has one element.
unsafe impl<'a, T: Send> Items for ElementsMut<'a, T> {
    type Item = &'a mut T;
    type State = ();

    fn count(&self) -> usize {
        self.0.count()
    }

    fn state(&self) {}

    unsafe fn take(&self, state: &mut (), index: usize) -> &'a mut T {
        // SAFETY: the caller's contract.
        let piece = unsafe { self.0.take(state, index) };
        &mut piece[0]
    }
}

/// Items with their indices.
pub(crate) struct Enumerate<I>(pub(super) I);

// SAFETY: that of the items.
unsafe impl<I: Items> Items for Enumerate<I> {
    type Item = (usize, I::Item);
    type State = I::State;

    fn count(&self) -> usize {
        self.0.count()
    }

    fn state(&self) -> I::State {
        self.0.state()
    }

    unsafe fn take(&self, state: &mut I::State, index: usize) -> Self::Item {
        // SAFETY: the caller's contract.
        (index, unsafe { self.0.take(state, index) })
    }
}

/// Pairs of items.
pub(crate) struct Zip<I, J>(pub(super) I, pub(super) J);

// SAFETY: that of the items.
unsafe impl<I: Items, J: Items> Items for Zip<I, J> {
    type Item = (I::Item, J::Item);
    type State = (I::State, J::State);

    fn count(&self) -> usize {
        self.0.count().min(self.1.count())
    }

    fn state(&self) -> Self::State {
        (self.0.state(), self.1.state())
    }

    unsafe fn take(&self, (first, second): &mut Self::State, index: usize) -> Self::Item {
        // SAFETY: the caller's contract; both have the index.
        unsafe { (self.0.take(first, index), self.1.take(second, index)) }
    }
}

/// Items after a function.
pub(crate) struct Map<I, F>(pub(super) I, pub(super) F);

// SAFETY: that of the items.
unsafe impl<I: Items, T, F: Fn(I::Item) -> T + Sync> Items for Map<I, F> {
    type Item = T;
    type State = I::State;

    fn count(&self) -> usize {
        self.0.count()
    }

    fn state(&self) -> I::State {
        self.0.state()
    }

    unsafe fn take(&self, state: &mut I::State, index: usize) -> T {
        // SAFETY: the caller's contract.
        (self.1)(unsafe { self.0.take(state, index) })
    }
}

/// Items after a function with a state.
pub(crate) struct MapInit<I, N, F>(pub(super) I, pub(super) N, pub(super) F);

// SAFETY: that of the items.
unsafe impl<I, S, T, N, F> Items for MapInit<I, N, F>
where
    I: Items,
    N: Fn() -> S + Sync,
    F: Fn(&mut S, I::Item) -> T + Sync,
{
    type Item = T;
    type State = (I::State, S);

    fn count(&self) -> usize {
        self.0.count()
    }

    fn state(&self) -> Self::State {
        (self.0.state(), (self.1)())
    }

    unsafe fn take(&self, (inner, state): &mut Self::State, index: usize) -> T {
        // SAFETY: the caller's contract.
        (self.2)(state, unsafe { self.0.take(inner, index) })
    }
}

/// What a parallel loop can go over.
pub(crate) trait IntoParallel {
    /// The items.
    type Items: Items;

    fn into_par_iter(self) -> Parallel<Self::Items>;
}

impl<I: Items> IntoParallel for Parallel<I> {
    type Items = I;

    fn into_par_iter(self) -> Self {
        self
    }
}

impl<T: Send> IntoParallel for Vec<T> {
    type Items = Slots<T>;

    fn into_par_iter(self) -> Parallel<Slots<T>> {
        Parallel::of(Slots(self.into_iter().map(|item| UnsafeCell::new(Some(item))).collect()))
    }
}

impl<T: Sync> IntoParallel for &[T] {
    type Items = Self;

    fn into_par_iter(self) -> Parallel<Self> {
        Parallel::of(self)
    }
}

impl<'a, T: Sync> IntoParallel for &'a Vec<T> {
    type Items = &'a [T];

    fn into_par_iter(self) -> Parallel<&'a [T]> {
        Parallel::of(self)
    }
}

impl<'a, T: Send> IntoParallel for &'a mut [T] {
    type Items = ElementsMut<'a, T>;

    fn into_par_iter(self) -> Parallel<ElementsMut<'a, T>> {
        Parallel::of(ElementsMut(pieces(self, 1)))
    }
}

impl<'a, T: Send> IntoParallel for &'a mut Vec<T> {
    type Items = ElementsMut<'a, T>;

    fn into_par_iter(self) -> Parallel<ElementsMut<'a, T>> {
        self.as_mut_slice().into_par_iter()
    }
}

/// Parallel loops over a shared slice.
pub(crate) trait ParallelSlice<T: Sync> {
    fn shared(&self) -> &[T];

    fn par_iter(&self) -> Parallel<&[T]> {
        Parallel::of(self.shared())
    }

    fn par_chunks(&self, size: usize) -> Parallel<Chunks<'_, T>> {
        let slice = self.shared();
        Parallel::of(Chunks { slice, size, count: slice.len().div_ceil(size) })
    }

    fn par_chunks_exact(&self, size: usize) -> Parallel<Chunks<'_, T>> {
        let slice = self.shared();
        Parallel::of(Chunks { slice, size, count: slice.len() / size })
    }
}

impl<T: Sync> ParallelSlice<T> for [T] {
    fn shared(&self) -> &[T] {
        self
    }
}

/// Parallel loops over a mutable slice.
pub(crate) trait ParallelSliceMut<T: Send> {
    fn unique(&mut self) -> &mut [T];

    fn par_iter_mut(&mut self) -> Parallel<ElementsMut<'_, T>> {
        self.unique().into_par_iter()
    }

    fn par_chunks_mut(&mut self, size: usize) -> Parallel<ChunksMut<'_, T>> {
        Parallel::of(pieces(self.unique(), size))
    }

    fn par_chunks_exact_mut(&mut self, size: usize) -> Parallel<ChunksMut<'_, T>> {
        let mut all = pieces(self.unique(), size);
        all.count = all.len / size;
        Parallel::of(all)
    }
}

impl<T: Send> ParallelSliceMut<T> for [T] {
    fn unique(&mut self) -> &mut [T] {
        self
    }
}

fn pieces<T>(slice: &mut [T], size: usize) -> ChunksMut<'_, T> {
    let (len, count) = (slice.len(), slice.len().div_ceil(size));
    ChunksMut { start: slice.as_mut_ptr(), len, size, count, slice: std::marker::PhantomData }
}
