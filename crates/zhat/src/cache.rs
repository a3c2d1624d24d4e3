//! Intermediate results that queries share, and the identity of the data they were computed from.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use crate::error::Result;

/// Entries whose data no longer exist are removed after one lookup miss per this many entries.
const PURGE_SHARE: usize = 16;

/// Identifies the data a result was computed from: clones share the token, and every change of the data
/// replaces it.
///
/// The token is allocated on first use, so a model that is built factor by factor allocates none while it is
/// built.
#[derive(Debug, Default)]
pub(crate) struct Identity(OnceLock<Arc<()>>);

impl Identity {
    /// Marks the data as changed: results computed so far no longer belong to it.
    pub fn renew(&mut self) {
        self.0.take();
    }

    fn token(&self) -> &Arc<()> {
        self.0.get_or_init(Arc::default)
    }
}

impl Clone for Identity {
    fn clone(&self) -> Self {
        Identity(self.token().clone().into())
    }
}

/// Intermediate results that the queries of a [`Run`](crate::Run) share; clones refer to the same cache.
///
/// Exact methods and bounds prepare a factor graph before they answer a query. The cache holds the results of
/// that preparation: the graph without the variables that evidence and zeros determine, an elimination order,
/// and the estimated time of a search, with its answer if the trial finished. Nothing else is cached. Entries
/// belong to one state of one graph: clones of the graph share them, and a graph that has changed has none.
/// Work that was stopped leaves no entry.
///
/// A query takes less time if a result is cached; the memory budget of a run does not include the cache.
/// Every run has its own cache, which its clones share and which is freed with the last of them. Entries of
/// graphs that no longer exist are removed when later work is cached, and by [`Cache::len`]; [`Cache::clear`]
/// removes all entries.
///
/// ```
/// use zhat::{Cache, LogPartition, Run};
/// use zhat::exact::Elimination;
/// use zhat::model::generate;
///
/// let tree = generate::tree(50, 3, 1.0, 0)?;
/// let cache = Cache::default();
/// let run = Run::default().with_cache(cache.clone());
/// let first = Elimination::default().log_partition(&tree, &run)?;
/// let prepared = cache.len();
/// let second = Elimination::default().log_partition(&tree, &run.with_seed(7))?;
/// assert_eq!((first.value, prepared), (second.value, cache.len()));
/// drop(tree);
/// assert!(cache.is_empty());
/// # Ok::<(), zhat::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Cache {
    entries: Arc<Mutex<Entries>>,
}

/// Results, keyed by the address of the token and the type of the result. An entry holds a weak reference to
/// the token, so no other token can get the same address while the entry exists.
#[derive(Default)]
struct Entries {
    results: HashMap<(usize, TypeId), Entry>,
    /// Lookup misses since entries were last removed.
    misses: usize,
}

struct Entry {
    token: Weak<()>,
    result: Arc<dyn Any + Send + Sync>,
}

impl Entries {
    fn get<T: Any + Send + Sync>(&self, key: (usize, TypeId)) -> Option<Arc<T>> {
        self.results.get(&key).and_then(|entry| entry.result.clone().downcast().ok())
    }

    /// Removes and returns the entries whose data no longer exist.
    fn take_dead(&mut self) -> Vec<Entry> {
        self.misses = 0;
        self.results.extract_if(|_, entry| entry.token.strong_count() == 0).map(|(_, entry)| entry).collect()
    }
}

impl Cache {
    /// The number of results for models that still exist.
    pub fn len(&self) -> usize {
        self.purge();
        self.lock().results.len()
    }

    /// True if there is no result for any model that still exists.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all results and frees their memory, unless a query in progress uses them.
    pub fn clear(&self) {
        let all = std::mem::take(&mut *self.lock());
        drop(all);
    }

    /// Returns the cached result of this type for these data, or else calls `compute` and caches its result
    /// unless it is an error. If two threads compute it at the same time, the first result is kept and both
    /// return it.
    pub(crate) fn get_or_compute<T: Any + Send + Sync>(
        &self,
        data: &Identity,
        compute: impl FnOnce() -> Result<T>,
    ) -> Result<Arc<T>> {
        let token = data.token();
        let key = (Arc::as_ptr(token).addr(), TypeId::of::<T>());
        let mut entries = self.lock();
        if let Some(known) = entries.get(key) {
            return Ok(known);
        }
        entries.misses += 1;
        let is_due = entries.misses > entries.results.len() / PURGE_SHARE;
        drop(entries);
        if is_due {
            self.purge();
        }
        let result = Arc::new(compute()?);
        let mut entries = self.lock();
        if let Some(known) = entries.get(key) {
            return Ok(known);
        }
        entries.results.insert(key, Entry { token: Arc::downgrade(token), result: result.clone() });
        Ok(result)
    }

    /// Removes the entries whose data no longer exist, repeatedly, because a removed entry may have held the
    /// data of another one. Memory is freed after the lock is released.
    fn purge(&self) {
        loop {
            let dead = self.lock().take_dead();
            if dead.is_empty() {
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("results", &self.lock().results.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    fn answer(cache: &Cache, data: &Identity, value: u32) -> u32 {
        *cache.get_or_compute(data, || Ok(value)).unwrap()
    }

    #[test]
    fn results_belong_to_data_and_type() {
        let (cache, data, other) = (Cache::default(), Identity::default(), Identity::default());
        assert_eq!((answer(&cache, &data, 1), answer(&cache, &data, 2)), (1, 1));
        assert_eq!(answer(&cache, &other, 3), 3);
        assert_eq!(*cache.get_or_compute(&data, || Ok("text")).unwrap(), "text");
        assert_eq!(answer(&cache.clone(), &data.clone(), 4), 1);
        assert_eq!(cache.len(), 3);
        cache.clear();
        assert_eq!((cache.len(), answer(&cache, &data, 5)), (0, 5));
    }

    #[test]
    fn clones_share_until_one_changes() {
        let cache = Cache::default();
        let mut data = Identity::default();
        let clone = data.clone();
        assert_eq!((answer(&cache, &data, 1), answer(&cache, &clone, 2)), (1, 1));
        data.renew();
        assert_eq!((answer(&cache, &data, 3), answer(&cache, &clone, 4)), (3, 1));
    }

    #[test]
    fn errors_leave_nothing() {
        let (cache, data) = (Cache::default(), Identity::default());
        assert!(cache.get_or_compute::<u32>(&data, || Err(Error::Interrupted)).is_err());
        assert!(cache.is_empty());
        assert_eq!(answer(&cache, &data, 1), 1);
    }

    #[test]
    fn results_for_data_that_are_gone_are_removed() {
        let cache = Cache::default();
        let result = Arc::new(());
        let kept = Identity::default();
        answer(&cache, &kept, 0);
        for _ in 0..1000 {
            cache.get_or_compute(&Identity::default(), || Ok(result.clone())).unwrap();
            assert!(Arc::strong_count(&result) <= 2, "results pile up");
        }
        assert_eq!((cache.len(), Arc::strong_count(&result)), (1, 1));
    }

    #[test]
    fn results_for_data_that_another_result_held_are_removed_with_it() {
        let cache = Cache::default();
        let data = Identity::default();
        let inner = cache.get_or_compute(&data, || Ok(Identity::default())).unwrap();
        answer(&cache, &inner, 1);
        drop(inner);
        assert_eq!(cache.len(), 2);
        drop(data);
        assert!(cache.is_empty());
    }
}
