//! Sets of k out of n elements as bit masks in colexicographic order, one layer of sets of equal size at a
//! time.
//!
//! A layer is an array with one entry for each of its C(n, k) sets, so threads can share the work on it, and
//! only the layers that are needed take memory. The index of {c₁ < … < c_k} is Σ_j C(c_j, j).

use crate::numeric::parallel::prelude::*;

use crate::error::Result;
use crate::run::Clock;

/// Sets per task.
const PIECE: usize = 1 << 12;
/// Sets between two checks of the clock.
const ROUND: usize = 64;
/// Maximum number of elements.
pub(super) const MOST: usize = 32;

/// Sets of elements.
pub(super) struct Layers {
    n: usize,
    /// C(i, j) at i·(MOST + 1) + j.
    binomials: Vec<u64>,
}

impl Layers {
    pub fn new(n: usize) -> Self {
        debug_assert!(n <= MOST);
        let mut binomials = vec![0; (MOST + 1) * (MOST + 1)];
        for i in 0..=MOST {
            binomials[i * (MOST + 1)] = 1;
            for j in 1..=i {
                let above = (i - 1) * (MOST + 1);
                binomials[i * (MOST + 1) + j] =
                    binomials[above + j - 1] + if j < i { binomials[above + j] } else { 0 };
            }
        }
        Layers { n, binomials }
    }

    fn binomial(&self, i: usize, j: usize) -> u64 {
        self.binomials[i * (MOST + 1) + j]
    }

    /// The number of sets of k elements.
    pub fn count(&self, k: usize) -> usize {
        self.binomial(self.n, k) as usize
    }

    /// The set at index `place` of layer k.
    fn set(&self, mut place: u64, k: usize) -> u64 {
        let mut set = 0;
        let mut element = self.n;
        for j in (1..=k).rev() {
            element -= 1;
            while self.binomial(element, j) > place {
                element -= 1;
            }
            place -= self.binomial(element, j);
            set |= 1 << element;
        }
        set
    }

    /// The index of a set in its layer.
    pub fn place(&self, set: u64) -> usize {
        elements(set).enumerate().map(|(j, c)| self.binomial(c, j + 1) as usize).sum()
    }

    /// For a set of k elements, the indices in layer k − 1 of the set without each element, in ascending
    /// order of the removed element.
    pub fn places_without(&self, set: u64, places: &mut [usize]) -> usize {
        let (mut below, mut above, mut k) = (0, 0, 0);
        for (j, c) in elements(set).enumerate() {
            above += self.binomial(c, j);
            k += 1;
        }
        for (j, c) in elements(set).enumerate() {
            above -= self.binomial(c, j);
            places[j] = (below + above) as usize;
            below += self.binomial(c, j + 1);
        }
        k
    }

    /// Fills `layer` with `each` numbers per set of layer k, in tasks on all threads.
    pub fn fill(
        &self,
        k: usize,
        each: usize,
        layer: &mut [f64],
        clock: &Clock<'_>,
        work: impl Fn(u64, &mut [f64], &mut Scratch) + Sync,
    ) -> Result<()> {
        layer.par_chunks_mut(PIECE * each).enumerate().try_for_each(|(piece, chunk)| {
            let mut scratch = Scratch { terms: Vec::new(), places: [0; MOST] };
            let mut set = self.set((piece * PIECE) as u64, k);
            for (number, slot) in chunk.chunks_mut(each).enumerate() {
                if number.is_multiple_of(ROUND) {
                    clock.check()?;
                }
                work(set, slot, &mut scratch);
                set = next(set);
            }
            Ok(())
        })
    }

    /// The sets of layer k in order.
    pub fn sets(&self, k: usize) -> impl Iterator<Item = u64> {
        let first = if k == 0 { 0 } else { u64::MAX >> (64 - k) };
        std::iter::successors(Some(first), |set| Some(next(*set))).take(self.count(k))
    }
}

/// Scratch memory of one thread.
pub(super) struct Scratch {
    pub terms: Vec<f64>,
    pub places: [usize; MOST],
}

/// The elements of a set in ascending order.
pub(super) fn elements(set: u64) -> impl Iterator<Item = usize> {
    let mut rest = set;
    std::iter::from_fn(move || {
        (rest != 0).then(|| {
            let element = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            element
        })
    })
}

/// The next larger number with the same number of ones (Gosper).
fn next(set: u64) -> u64 {
    if set == 0 {
        return 0;
    }
    let low = set & set.wrapping_neg();
    let ripple = set + low;
    (((ripple ^ set) >> 2) / low) | ripple
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Run;

    #[test]
    fn places_count_the_sets_of_a_layer() {
        let layers = Layers::new(9);
        for k in 0..=9 {
            let mut seen = vec![0.0; layers.count(k)];
            let run = Run::default();
            layers.fill(k, 1, &mut seen, &run.start("test"), |set, slot, _| slot[0] = set as f64).unwrap();
            let sets: Vec<u64> = layers.sets(k).collect();
            for (place, &set) in sets.iter().enumerate() {
                assert_eq!(set.count_ones() as usize, k);
                assert_eq!(layers.place(set), place);
                assert_eq!(layers.set(place as u64, k), set);
                assert_eq!(seen[place], set as f64);
                let mut places = [0; MOST];
                layers.places_without(set, &mut places);
                for (t, element) in elements(set).enumerate() {
                    assert_eq!(places[t], layers.place(set & !(1 << element)));
                }
            }
        }
    }
}
