//! Permutations: the orders of n items, as the item at each position. |Y| = n!; a uniform sample is a
//! shuffle.

use super::{Space, Step, check_size, check_width, log_factorial, refuse};
use crate::error::Result;
use crate::random::Stream;
use crate::run::Clock;

/// The orders of n items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permutations {
    items: usize,
}

impl Permutations {
    /// The orders of this many items.
    ///
    /// # Errors
    /// If there are more than `u32::MAX` items.
    pub fn new(items: usize) -> Result<Self> {
        check_size("items", items, 0)?;
        Ok(Permutations { items })
    }

    /// The number of items.
    pub fn items(&self) -> usize {
        self.items
    }
}

impl Space for Permutations {
    fn name(&self) -> &'static str {
        "permutations"
    }

    fn width(&self) -> usize {
        self.items
    }

    fn log_count(&self) -> Option<f64> {
        Some(log_factorial(self.items))
    }

    fn uniform(&self, random: &mut Stream, structure: &mut [u32], _: &Clock<'_>) -> Result<()> {
        structure.iter_mut().enumerate().for_each(|(i, item)| *item = i as u32);
        random.shuffle(structure);
        Ok(())
    }

    fn check(&self, structure: &[u32]) -> Result<()> {
        check_width(self, structure)?;
        let mut seen = vec![false; self.items];
        for (position, &item) in structure.iter().enumerate() {
            match seen.get_mut(item as usize) {
                None => return Err(refuse(format!("there is no item {item}, only {}", self.items))),
                Some(true) => return Err(refuse(format!("item {item} stands at position {position} again"))),
                Some(seen) => *seen = true,
            }
        }
        Ok(())
    }

    /// In lexicographic order.
    fn enumerate(&self, _: &Clock<'_>, visit: &mut dyn FnMut(&[u32]) -> bool) -> Result<bool> {
        let mut order: Vec<u32> = (0..self.items as u32).collect();
        loop {
            if !visit(&order) {
                return Ok(false);
            }
            let Some(pivot) = order.windows(2).rposition(|pair| pair[0] < pair[1]) else { return Ok(true) };
            let larger = order.iter().rposition(|item| *item > order[pivot]).unwrap_or(pivot + 1);
            order.swap(pivot, larger);
            order[pivot + 1..].reverse();
        }
    }

    /// Swaps two items: with probability 1/2 two neighbours, otherwise any two.
    fn propose(
        &self,
        random: &mut Stream,
        structure: &mut [u32],
        step: &mut Step,
        _: &Clock<'_>,
    ) -> Result<f64> {
        if self.items < 2 {
            return Ok(0.0);
        }
        let (a, b) = if random.bits() & 1 == 0 {
            let a = random.below(self.items - 1);
            (a, a + 1)
        } else {
            let (a, b) = (random.below(self.items), random.below(self.items - 1));
            if b < a { (b, a) } else { (a, b + 1) }
        };
        let (first, second) = (structure[a], structure[b]);
        step.set(structure, a, second);
        step.set(structure, b, first);
        Ok(0.0)
    }
}
