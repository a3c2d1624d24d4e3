//! Independent replicates that draw in rounds until their samples are enough or the work must stop.
//!
//! Each replicate has a random stream of its own, so neither the length of a round nor the number of threads
//! changes a bit. Between two groups of replicates there is a look at the clock. A round that has to stop
//! half way leaves replicates with different numbers of samples; of these the larger set is kept. Which one
//! that is depends on the clock alone.

use rayon::prelude::*;

use crate::run::Clock;

/// Replicates between two looks at the clock: no fewer than there usually are.
const GROUP: usize = 64;

/// Replicates that have all drawn the same number of samples.
pub(crate) struct Rounds<R> {
    /// How many there are to be.
    wanted: usize,
    /// Those that there are: none before the first round.
    pub replicates: Vec<R>,
    /// The samples of each.
    pub samples_each: u64,
}

impl<R: Send> Rounds<R> {
    /// Replicates that are made in the first round.
    pub fn new(wanted: usize) -> Self {
        Rounds { wanted, replicates: Vec::new(), samples_each: 0 }
    }

    /// Lets each replicate draw so many samples; false if it had to stop before the end. The first round
    /// draws at least one group.
    pub fn advance(
        &mut self,
        samples: u64,
        clock: &Clock<'_>,
        make: impl Fn(usize) -> R + Sync,
        draw: impl Fn(&mut R) + Sync,
    ) -> bool {
        let all = |replicate: &mut R| (0..samples).for_each(|_| draw(replicate));
        if self.samples_each == 0 {
            self.samples_each = samples;
            while self.replicates.len() < self.wanted {
                let from = self.replicates.len();
                if from > 0 && clock.must_stop() {
                    return false;
                }
                self.replicates.par_extend((from..self.wanted.min(from + GROUP)).into_par_iter().map(|r| {
                    let mut replicate = make(r);
                    all(&mut replicate);
                    replicate
                }));
            }
            return true;
        }
        let mut done = 0;
        for group in self.replicates.chunks_mut(GROUP) {
            if clock.must_stop() {
                break;
            }
            group.par_iter_mut().for_each(all);
            done += group.len();
        }
        let finished = done == self.replicates.len();
        if 2 * done >= self.replicates.len() {
            self.replicates.truncate(done);
            self.samples_each += samples;
        } else {
            self.replicates.drain(..done);
        }
        finished
    }

    /// Samples of all.
    pub fn samples(&self) -> u64 {
        self.samples_each.saturating_mul(self.replicates.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;
    use crate::run::Run;

    /// The replicates that are left, and the samples of each, if the work has to stop after so many draws in
    /// all.
    fn stopped_after(draws: usize) -> (usize, u64) {
        let flag = Arc::new(AtomicBool::new(false));
        let run = Run::default().with_cancel(flag.clone());
        let (clock, drawn) = (run.start("test"), AtomicUsize::new(0));
        let mut rounds = Rounds::new(5 * GROUP);
        let draw = |count: &mut u64| {
            *count += 1;
            if drawn.fetch_add(1, Ordering::Relaxed) + 1 == draws {
                flag.store(true, Ordering::Relaxed);
            }
        };
        while rounds.samples_each < 3 && rounds.advance(1, &clock, |_| 0, draw) {}
        assert!(rounds.replicates.iter().all(|&count| count == rounds.samples_each));
        (rounds.replicates.len(), rounds.samples_each)
    }

    #[test]
    fn replicates_that_are_left_have_drawn_equally_often() {
        assert_eq!(stopped_after(usize::MAX), (5 * GROUP, 3));
        assert_eq!(stopped_after(1), (GROUP, 1));
        assert_eq!(stopped_after(2 * GROUP), (2 * GROUP, 1));
        assert_eq!(stopped_after(6 * GROUP), (4 * GROUP, 1));
        assert_eq!(stopped_after(8 * GROUP), (3 * GROUP, 2));
        assert_eq!(stopped_after(12 * GROUP), (3 * GROUP, 2));
    }
}
