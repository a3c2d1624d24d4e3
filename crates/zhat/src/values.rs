//! Shared slices of numbers: owned, or borrowed from memory that is kept alive.

use std::ops::{Deref, Range};
use std::sync::Arc;

/// A slice of numbers that is cheap to clone.
///
/// Large parameters that come from elsewhere (a NumPy array, a mapped file) are used in place.
#[derive(Clone)]
pub struct Values<F>(Arc<dyn AsRef<[F]> + Send + Sync>);

impl<F> Values<F> {
    /// Shares the slice of `owner`, which must return the same numbers every time.
    pub fn shared(owner: impl AsRef<[F]> + Send + Sync + 'static) -> Self {
        Values(Arc::new(owner))
    }
}

impl<F: Send + Sync + 'static> Values<F> {
    /// A part of the slice, in the same memory.
    ///
    /// # Panics
    /// When it is used, if the range is out of bounds.
    pub fn part(&self, range: Range<usize>) -> Self {
        Values::shared(Part(Values(Arc::clone(&self.0)), range))
    }
}

struct Part<F>(Values<F>, Range<usize>);

impl<F> AsRef<[F]> for Part<F> {
    fn as_ref(&self) -> &[F] {
        &self.0[self.1.clone()]
    }
}

impl<F: Send + Sync + 'static> From<Vec<F>> for Values<F> {
    fn from(values: Vec<F>) -> Self {
        Values::shared(values)
    }
}

impl<F> Deref for Values<F> {
    type Target = [F];

    fn deref(&self) -> &[F] {
        (*self.0).as_ref()
    }
}

impl<F: PartialEq> PartialEq for Values<F> {
    fn eq(&self, other: &Self) -> bool {
        self[..] == other[..]
    }
}

impl<F> std::fmt::Debug for Values<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "[{} numbers]", self.len())
    }
}
