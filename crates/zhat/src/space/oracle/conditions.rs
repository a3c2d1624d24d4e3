//! Conditions on an order of items as what each item needs before it and where it may stand.

use crate::space::{Condition, Event};

/// Which item may come next.
pub(super) struct Order {
    /// For each item the set of those that must come before it.
    before: Vec<u64>,
    /// For each item the set of positions that it may have.
    positions: Vec<u64>,
}

impl Order {
    /// None where there is no condition.
    pub fn new(conditions: &[Condition], n: usize) -> Option<Self> {
        if conditions.is_empty() || n > super::layers::MOST {
            return None;
        }
        let mut order = Order { before: vec![0; n], positions: vec![u64::MAX; n] };
        for condition in conditions {
            match *condition {
                Condition::Is(Event::Before(i, j)) | Condition::Not(Event::Before(j, i)) => {
                    order.before[j] |= 1 << i;
                }
                Condition::Is(Event::At { item, position }) => order.positions[item] &= 1 << position,
                Condition::Not(Event::At { item, position }) => order.positions[item] &= !(1 << position),
                _ => {}
            }
        }
        Some(order)
    }

    /// Whether the item may follow these.
    pub fn allows(&self, before: u64, item: usize) -> bool {
        self.before[item] & !before == 0 && self.positions[item] >> before.count_ones() & 1 == 1
    }
}
