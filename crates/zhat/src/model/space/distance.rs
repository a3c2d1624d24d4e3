//! Distances between two orders of the same items, for models whose weights decrease with the distance to a
//! reference.

use serde::{Deserialize, Serialize};

/// A distance between two orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Distance {
    /// Number of pairs of items in different order.
    Kendall,
    /// Minimum number of swaps of two items that transform one order into the other: n minus the number of
    /// cycles.
    Cayley,
    /// Number of positions with different items.
    Hamming,
    /// Σ |difference of positions| over the items (Spearman's footrule).
    Footrule,
    /// Σ (difference of positions)² over the items (Spearman's ρ).
    Spearman,
}

impl Distance {
    /// All distances.
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

    /// The maximum distance between two orders of n items.
    pub fn largest(self, n: usize) -> f64 {
        let n = n as f64;
        match self {
            Distance::Kendall => 0.5 * n * (n - 1.0).max(0.0),
            Distance::Cayley => (n - 1.0).max(0.0),
            // Two orders cannot differ in exactly one position.
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

    /// The contribution of an item at `position` whose position in the reference is `place`, for distances
    /// that are sums over items.
    pub(crate) fn term(self, position: usize, place: u32) -> Option<f64> {
        let apart = (position as f64 - f64::from(place)).abs();
        match self {
            Distance::Kendall | Distance::Cayley => None,
            Distance::Hamming => Some(f64::from(u8::from(apart > 0.0))),
            Distance::Footrule => Some(apart),
            Distance::Spearman => Some(apart * apart),
        }
    }

    /// The distance of an order to the reference in which item i is at position `places[i]`. Time O(n log n)
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

/// The number of pairs in the wrong order, by merge sort.
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
