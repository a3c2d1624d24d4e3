//! Tables of rules that several charts share.
//!
//! Charts of several replicates, or of several groups of sentences, have the same rules. Their weights are
//! computed once and kept for as long as one of the charts needs them.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

/// A table with the number of its set of rules.
type Entry = (usize, Arc<dyn Any + Send + Sync>);

/// Tables of the rules of one model, in one direction, by their type and set of rules.
#[derive(Default)]
pub struct Shared(Mutex<Vec<Entry>>);

impl Shared {
    fn find<T: Send + Sync + 'static>(&self, set: usize) -> Option<Arc<T>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().filter(|entry| entry.0 == set).find_map(|entry| entry.1.clone().downcast::<T>().ok())
    }

    /// The table of a set of rules. Two threads may make the same table; one of the two is kept.
    pub fn get<T: Send + Sync + 'static>(&self, set: usize, make: impl FnOnce() -> T) -> Arc<T> {
        if let Some(table) = self.find(set) {
            return table;
        }
        // Not under the lock: the work may be parallel, and its threads may come here, too.
        let made = Arc::new(make());
        if let Some(table) = self.find(set) {
            return table;
        }
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((set, made.clone()));
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_made_once_for_each_type_and_set() {
        let shared = Shared::default();
        let first = shared.get(0, || vec![1.0f64]);
        assert!(Arc::ptr_eq(&first, &shared.get(0, || vec![2.0f64])));
        assert_eq!(*shared.get(1, || vec![3.0f64]), [3.0]);
        assert_eq!(*shared.get(0, || vec![4.0f32]), [4.0]);
    }
}
