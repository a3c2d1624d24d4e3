//! Conditions in the form that the sums over sets use. For orders of items: the required predecessors and the
//! allowed positions of each item. For cycles: the allowed steps and ends of a path. For partitions: the sets
//! that may be a block.

use crate::method::space::{Condition, Event, Structures, condition};

/// Which item may come next.
pub(super) struct Order {
    /// For each item, the set of items that must precede it.
    before: Vec<u64>,
    /// For each item, the set of its allowed positions.
    positions: Vec<u64>,
}

impl Order {
    /// `None` if there is no condition.
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

    /// Whether the item may follow the set `before`.
    pub fn allows(&self, before: u64, item: usize) -> bool {
        self.before[item] & !before == 0 && self.positions[item] >> before.count_ones() & 1 == 1
    }
}

/// The steps that a path towards a cycle may take, and where it may be closed.
///
/// Required edges need no memory of the path. A vertex u whose partner b comes later must be left for b. A
/// vertex that is reached after b, but not from b, can be adjacent to b only if b is the start and the path
/// is closed there.
pub(super) struct Ring {
    sizes: (usize, usize),
    /// Vertices that must be on the cycle, and vertices that must not.
    needed: u64,
    barred: u64,
    /// For each vertex, the vertices that must be adjacent to it, and those that must not.
    partners: Vec<u64>,
    severed: Vec<u64>,
}

impl Ring {
    /// `None` if there is no condition.
    pub fn new(space: &Structures, conditions: &[Condition]) -> Option<Self> {
        let n = space.as_space().width();
        if conditions.is_empty() || n > super::layers::MOST {
            return None;
        }
        let mut ring = Ring {
            sizes: condition::sizes(space, conditions),
            needed: 0,
            barred: 0,
            partners: vec![0; n],
            severed: vec![0; n],
        };
        for condition in conditions {
            match *condition {
                Condition::Is(Event::Chosen(v)) => ring.needed |= 1 << v,
                Condition::Not(Event::Chosen(v)) => ring.barred |= 1 << v,
                Condition::Is(Event::Linked(u, v)) => {
                    ring.needed |= 1 << u | 1 << v;
                    ring.partners[u] |= 1 << v;
                    ring.partners[v] |= 1 << u;
                }
                Condition::Not(Event::Linked(u, v)) => {
                    ring.severed[u] |= 1 << v;
                    ring.severed[v] |= 1 << u;
                }
                _ => {}
            }
        }
        Some(ring)
    }

    /// Whether a path through `set` that ends at u may continue to v.
    pub fn steps(&self, set: u64, u: usize, v: usize) -> bool {
        let start = 1u64 << set.trailing_zeros();
        let reached = self.partners[v] & set & !start & !(1 << u);
        let awaited = self.partners[u] & !(1 << v);
        let leaves = 1 << u == start || awaited & !set == 0 && (awaited & start == 0 || set.count_ones() < 3);
        let apart = (self.severed[u] >> v | self.barred >> v) & 1 == 0;
        apart && reached == 0 && leaves && (set.count_ones() as usize) < self.sizes.1
    }

    /// Whether a path through `set` that ends at u may be closed.
    pub fn closes(&self, set: u64, u: usize) -> bool {
        let start = set.trailing_zeros();
        (self.sizes.0..=self.sizes.1).contains(&(set.count_ones() as usize))
            && self.needed & !set == 0
            && self.barred & set == 0
            && self.severed[u] >> start & 1 == 0
    }
}

/// Pairs of elements that must share a block, and pairs that must not.
pub(super) struct Rules {
    /// The minimum and maximum number of blocks, if they exclude any partition.
    pub sizes: Option<(usize, usize)>,
    together: Vec<u64>,
    apart: Vec<u64>,
}

impl Rules {
    pub fn new(space: &Structures, conditions: &[Condition]) -> Self {
        let n = space.as_space().width();
        let sizes = condition::limits_size(space, conditions).then(|| condition::sizes(space, conditions));
        let mut rules = Rules { sizes, together: Vec::new(), apart: Vec::new() };
        for condition in conditions.iter().filter(|_| n <= super::layers::MOST) {
            match *condition {
                Condition::Is(Event::Linked(i, j)) => rules.together.push(1 << i | 1 << j),
                Condition::Not(Event::Linked(i, j)) => rules.apart.push(1 << i | 1 << j),
                _ => {}
            }
        }
        rules
    }

    /// Whether a set may be a block.
    pub fn allow(&self, set: u64) -> bool {
        self.together.iter().all(|pair| set & pair == 0 || set & pair == *pair)
            && self.apart.iter().all(|pair| set & pair != *pair)
    }
}
