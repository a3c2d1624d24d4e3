//! Heads that are kept with certainty, so that there is a tree.
//!
//! Independent choices of heads need not contain a projective tree: with T words and K of T heads each, most long
//! arcs cross. So the neighbours of every word are kept as heads with weight 1, and the root as head of the roots
//! of the best tree whose arcs join neighbours. In such a tree, the words before a root have the next word as
//! their head, and the words after it the previous one. If this tree exists, log Ẑ is finite.
//!
//! The best tree is found from left to right in O(T) time: every word is before the next root, a root, or after
//! one.

use super::arcs::HeadScores;
use crate::method::dynamic::randomized::Chosen;

/// The largest number of heads of a word that are kept with certainty: two neighbours and the root.
pub const CERTAIN: f64 = 3.0;

/// Heads of every word that are kept with certainty.
#[derive(Clone, Debug)]
pub struct Certain {
    /// By word, ascending.
    heads: Vec<Vec<u32>>,
}

/// The place of a word in a tree of neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Its head is the next word.
    Before,
    Root,
    /// Its head is the previous word.
    After,
}

const PLACES: [Place; 3] = [Place::Before, Place::Root, Place::After];

impl Place {
    /// Whether the next word can have the place `next`.
    fn allows(self, next: Place, single_root: bool) -> bool {
        match (self, next) {
            (Place::Before, Place::After) => false,
            (Place::Before, _) | (_, Place::After) => true,
            _ => !single_root,
        }
    }

    /// The head of word d: 0 for the root, i + 1 for word i.
    fn head(self, d: usize) -> usize {
        match self {
            Place::Before => d + 2,
            Place::Root => 0,
            Place::After => d,
        }
    }
}

impl Certain {
    pub fn new(scores: &HeadScores, single_root: bool) -> Self {
        let mut heads: Vec<Vec<u32>> = (0..scores.words)
            .map(|d| {
                let possible = |head: &usize| {
                    (1..=scores.words).contains(head) && scores.row(d)[*head] > f64::NEG_INFINITY
                };
                [d, d + 2].into_iter().filter(possible).map(|head| head as u32).collect()
            })
            .collect();
        for d in roots(scores, single_root) {
            heads[d].insert(0, 0);
        }
        Certain { heads }
    }

    /// Chooses other heads of word d with `choose`, which has a proposal without the certain ones, and adds
    /// these.
    pub fn complete(&self, d: usize, proposal: &[f64], choose: impl FnOnce(&[f64]) -> Chosen) -> Chosen {
        let mut others = proposal.to_vec();
        self.heads[d].iter().for_each(|&head| others[head as usize] = f64::NEG_INFINITY);
        let mut chosen = choose(&others);
        self.heads[d].iter().for_each(|&head| chosen.insert(head, 0.0));
        chosen
    }
}

/// The roots of the best tree of neighbours; none if there is no such tree.
fn roots(scores: &HeadScores, single_root: bool) -> Vec<usize> {
    let n = scores.words;
    let score =
        |place: Place, d: usize| scores.row(d).get(place.head(d)).copied().unwrap_or(f64::NEG_INFINITY);
    // The best score of the words so far, and the place of the word before the last, by the place of the last.
    let mut best = [f64::NEG_INFINITY; 3];
    let mut origins: Vec<[usize; 3]> = Vec::with_capacity(n);
    for d in 0..n {
        let (mut next, mut origin) = ([f64::NEG_INFINITY; 3], [0; 3]);
        for (to, &place) in PLACES.iter().enumerate() {
            let own = score(place, d);
            if d == 0 {
                next[to] = if place == Place::After { f64::NEG_INFINITY } else { own };
                continue;
            }
            for (from, before) in PLACES.iter().enumerate() {
                if before.allows(place, single_root) && best[from] + own > next[to] {
                    (next[to], origin[to]) = (best[from] + own, from);
                }
            }
        }
        best = next;
        origins.push(origin);
    }
    // The last word has no next word.
    let mut at = if best[1] >= best[2] { 1 } else { 2 };
    if best[at] == f64::NEG_INFINITY {
        return Vec::new();
    }
    let mut roots = Vec::new();
    for d in (0..n).rev() {
        if PLACES[at] == Place::Root {
            roots.push(d);
        }
        at = origins[d][at];
    }
    roots
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Streams;

    /// Scores of all assignments of places to words.
    fn listed(scores: &HeadScores, single_root: bool) -> f64 {
        let n = scores.words;
        let mut best = f64::NEG_INFINITY;
        for code in 0..3usize.pow(n as u32) {
            let heads: Vec<usize> = (0..n).map(|d| PLACES[code / 3usize.pow(d as u32) % 3].head(d)).collect();
            let word = |mut d: usize| {
                // Following heads must end at the root.
                for _ in 0..n {
                    match heads[d] {
                        0 => return true,
                        head if head > n => return false,
                        head => d = head - 1,
                    }
                }
                false
            };
            let count = heads.iter().filter(|&&head| head == 0).count();
            // The first word has no previous word, but `head` 0 is the root there.
            let first = code % 3 != 2;
            if first && (0..n).all(word) && (count == 1 || !single_root) {
                best = best.max(heads.iter().enumerate().map(|(d, &head)| scores.row(d)[head]).sum());
            }
        }
        best
    }

    #[test]
    fn the_kept_roots_belong_to_the_best_tree_of_neighbours() {
        for seed in 0..300 {
            let mut random = Streams::new(seed, "certain heads").block(0);
            let words = 1 + (seed % 6) as usize;
            let zeros = [0.0, 0.2, 0.6][(seed % 3) as usize];
            let mut draw = || if random.uniform() < zeros { f64::NEG_INFINITY } else { random.normal() };
            let mut rows: Vec<f64> = (0..words * (words + 1)).map(|_| draw()).collect();
            (0..words).for_each(|d| rows[d * (words + 1) + d + 1] = f64::NEG_INFINITY);
            let scores = HeadScores { words, rows };
            for single_root in [false, true] {
                let expected = listed(&scores, single_root);
                let found = roots(&scores, single_root);
                assert_eq!(found.is_empty(), expected == f64::NEG_INFINITY, "{seed}");
                // With these roots and no others, the best score is the same.
                let mut only = scores.clone();
                for d in (0..words).filter(|d| !found.contains(d)) {
                    only.rows[d * (words + 1)] = f64::NEG_INFINITY;
                }
                assert_eq!(listed(&only, single_root), expected, "{seed}");
            }
        }
    }
}
