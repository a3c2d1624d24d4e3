//! Distances between two orders of the same items, for models that fall off with the distance to a reference.

use serde::{Deserialize, Serialize};

/// How far two orders are apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Distance {
    /// The pairs of items that stand in different order.
    Kendall,
    /// The fewest swaps of two items that lead from one to the other: n less the number of cycles.
    Cayley,
    /// The positions with different items.
    Hamming,
    /// Σ |difference of positions| over the items (Spearman's footrule).
    Footrule,
    /// Σ (difference of positions)² over the items (Spearman's ρ).
    Spearman,
}

impl Distance {
    /// All of them.
    pub const ALL: [Distance; 5] =
        [Distance::Kendall, Distance::Cayley, Distance::Hamming, Distance::Footrule, Distance::Spearman];

    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Distance::Kendall => "kendall",
            Distance::Cayley => "cayley",
            Distance::Hamming => "hamming",
            Distance::Footrule => "footrule",
            Distance::Spearman => "spearman",
        }
    }

    /// The largest that two orders of n items can have.
    pub fn largest(self, n: usize) -> f64 {
        let n = n as f64;
        match self {
            Distance::Kendall => 0.5 * n * (n - 1.0).max(0.0),
            Distance::Cayley => (n - 1.0).max(0.0),
            // One position alone cannot differ.
            Distance::Hamming => {
                if n < 2.0 {
                    0.0
                } else {
                    n
                }
            }
            Distance::Footrule => (0.5 * n * n).floor(),
            Distance::Spearman => n * (n * n - 1.0) / 3.0,
        }
    }

    /// What an item at `position` adds whose place in the reference is `place`, where the distance is a sum
    /// of such.
    pub(crate) fn term(self, position: usize, place: u32) -> Option<f64> {
        let apart = (position as f64 - f64::from(place)).abs();
        match self {
            Distance::Kendall | Distance::Cayley => None,
            Distance::Hamming => Some(f64::from(u8::from(apart > 0.0))),
            Distance::Footrule => Some(apart),
            Distance::Spearman => Some(apart * apart),
        }
    }

    /// The distance of an order to the reference in which item i has the place `places[i]`. Time O(n log n)
    /// for Kendall's, O(n) for the others.
    pub fn to(self, order: &[u32], places: &[u32]) -> f64 {
        match self {
            Distance::Kendall => {
                let mut ranks: Vec<u32> = order.iter().map(|item| places[*item as usize]).collect();
                let mut spare = vec![0; ranks.len()];
                inversions(&mut ranks, &mut spare) as f64
            }
            Distance::Cayley => {
                let mut seen = vec![false; order.len()];
                let mut cycles = 0;
                for start in 0..order.len() {
                    if !seen[start] {
                        cycles += 1;
                        let mut at = start;
                        while !seen[at] {
                            seen[at] = true;
                            at = places[order[at] as usize] as usize;
                        }
                    }
                }
                (order.len() - cycles) as f64
            }
            _ => {
                let own = |(position, item): (usize, &u32)| self.term(position, places[*item as usize]);
                order.iter().enumerate().filter_map(own).sum()
            }
        }
    }
}

/// The pairs in the wrong order, counted while they are sorted by merging.
fn inversions(ranks: &mut [u32], spare: &mut [u32]) -> u64 {
    let n = ranks.len();
    let mut count = 0;
    let mut width = 1;
    while width < n {
        for start in (0..n).step_by(2 * width) {
            let (middle, end) = ((start + width).min(n), (start + 2 * width).min(n));
            let (mut i, mut j) = (start, middle);
            for slot in &mut spare[start..end] {
                if i < middle && (j == end || ranks[i] <= ranks[j]) {
                    *slot = ranks[i];
                    i += 1;
                } else {
                    *slot = ranks[j];
                    count += (middle - i) as u64;
                    j += 1;
                }
            }
        }
        ranks.copy_from_slice(spare);
        width *= 2;
    }
    count
}
