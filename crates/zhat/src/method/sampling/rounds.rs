//! Independent replicates that draw in rounds until they have enough samples or the work must stop.
//!
//! Each replicate has its own random stream, so neither the length of a round nor the number of threads
//! changes the result. The clock is checked between groups of replicates. A round that is interrupted leaves
//! replicates with different numbers of samples; the larger set of equal ones is kept. Which one that is
//! depends on the clock alone.

use crate::numeric::parallel::prelude::*;

use crate::error::{Error, Result};
use crate::run::share::{Reader, Units};
use crate::run::{Clock, Run};

/// Number of replicates between checks of the clock; at least the usual number of replicates.
const GROUP: usize = 64;
/// Number of samples between checks of the clock within a replicate of a divided run.
const CHECK_EVERY: u64 = 256;

/// A replicate whose sums can be taken to another process as 64-bit words.
pub(crate) trait Replicate {
    /// Appends its sums.
    fn write(&self, words: &mut Vec<u64>);

    /// Replaces its sums; `None` if there are too few words.
    fn read(&mut self, words: &mut Reader<'_>) -> Option<()>;
}

/// Replicates that have all drawn the same number of samples.
pub(crate) struct Rounds<R> {
    /// The requested number of replicates.
    wanted: usize,
    /// The existing replicates; none before the first round.
    pub replicates: Vec<R>,
    /// Number of samples per replicate.
    pub samples_each: u64,
}

impl<R: Send> Rounds<R> {
    /// The replicates are created in the first round.
    pub fn new(wanted: usize) -> Self {
        Rounds { wanted, replicates: Vec::new(), samples_each: 0 }
    }

    /// Draws this many samples with each replicate; returns false if it was interrupted. The first round
    /// completes at least one group.
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
                let drawn = (from..self.wanted.min(from + GROUP)).into_par_iter().map(|r| {
                    let mut replicate = make(r);
                    all(&mut replicate);
                    replicate
                });
                self.replicates.extend(drawn.collect::<Vec<_>>());
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

    /// The complete replicates of a run that has a share of the work of `units.method`: a unit is a replicate.
    pub fn shared(
        units: &Units,
        samples_each: u64,
        (run, clock): (&Run, &Clock<'_>),
        make: impl Fn(usize) -> R + Sync,
        draw: impl Fn(&mut R) + Sync,
    ) -> Result<Self>
    where
        R: Replicate,
    {
        let work = |unit: u64| {
            let mut replicate = make(unit as usize);
            for sample in 0..samples_each {
                if sample % CHECK_EVERY == 0 {
                    clock.check()?;
                }
                draw(&mut replicate);
            }
            let mut words = Vec::new();
            replicate.write(&mut words);
            Ok(words)
        };
        let (mut replicates, mut damaged) = (Vec::new(), false);
        run.first_units(units, 0..units.count, work, |unit, words: Vec<u64>| {
            let (mut replicate, mut words) = (make(unit as usize), Reader::new(&words));
            damaged |= replicate.read(&mut words).is_none() || !words.is_empty();
            replicates.push(replicate);
        })?;
        if damaged {
            return Err(Error::argument("parts", "the results of a part are damaged"));
        }
        Ok(Rounds { wanted: units.count as usize, replicates, samples_each })
    }

    /// Total number of samples.
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

    /// The number of remaining replicates and the samples of each, if the work is stopped after this many
    /// draws in total.
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
