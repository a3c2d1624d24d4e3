//! Division of the work of a method over processes and machines.
//!
//! A method that draws, counts or splits cases does so in *units*: replicates, blocks of samples, subtrees of
//! states. A unit depends on its index only; its random numbers come from its own stream. A run with a
//! [`Share`] counts the units, or does those of a range and records their results, or takes all results from
//! records. The code before and after the units is the same in all cases, so the answer from records has the
//! bits of one run.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Run;
use crate::error::{Error, Result};
use crate::numeric::CompensatedSum;
use crate::numeric::parallel::prelude::*;

/// Number of units whose results are held at a time, unless they are large.
const GROUP: u64 = 1 << 10;

/// A result as 64-bit words, which keep every bit.
pub(crate) trait Words: Sized {
    /// Appends the words of the result.
    fn write(&self, words: &mut Vec<u64>);

    /// Takes the words of a result; `None` if there are too few.
    fn read(words: &mut Reader<'_>) -> Option<Self>;
}

/// Words that are still to be read.
pub(crate) struct Reader<'a>(std::slice::Iter<'a, u64>);

impl<'a> Reader<'a> {
    pub fn new(words: &'a [u64]) -> Self {
        Reader(words.iter())
    }

    pub fn is_empty(&self) -> bool {
        self.0.as_slice().is_empty()
    }
}

impl Words for u64 {
    fn write(&self, words: &mut Vec<u64>) {
        words.push(*self);
    }

    fn read(words: &mut Reader<'_>) -> Option<Self> {
        words.0.next().copied()
    }
}

impl Words for f64 {
    fn write(&self, words: &mut Vec<u64>) {
        words.push(self.to_bits());
    }

    fn read(words: &mut Reader<'_>) -> Option<Self> {
        words.0.next().map(|bits| f64::from_bits(*bits))
    }
}

impl Words for CompensatedSum {
    fn write(&self, words: &mut Vec<u64>) {
        self.terms().write(words);
    }

    fn read(words: &mut Reader<'_>) -> Option<Self> {
        Some(Self::of_terms(Words::read(words)?))
    }
}

impl<A: Words, B: Words> Words for (A, B) {
    fn write(&self, words: &mut Vec<u64>) {
        self.0.write(words);
        self.1.write(words);
    }

    fn read(words: &mut Reader<'_>) -> Option<Self> {
        Some((A::read(words)?, B::read(words)?))
    }
}

impl<T: Words> Words for Vec<T> {
    fn write(&self, words: &mut Vec<u64>) {
        words.push(self.len() as u64);
        self.iter().for_each(|one| one.write(words));
    }

    fn read(words: &mut Reader<'_>) -> Option<Self> {
        let length = usize::try_from(u64::read(words)?).ok()?;
        // A damaged length cannot take more memory than the words that are left.
        (length <= words.0.len()).then(|| (0..length).map(|_| T::read(words)).collect())?
    }
}

/// What a run with a share does with the units of its method.
#[derive(Debug)]
enum Task {
    Count,
    Part(Range<u64>),
    Merge { words: Vec<u64>, units: u64, look: Option<u32> },
}

/// The progress of a share.
#[derive(Debug, Default)]
struct Progress {
    /// The number of units of the whole work, once the method has come to them.
    count: Option<u64>,
    /// The number of units that will probably be needed.
    expected: Option<u64>,
    /// What the results depend on besides the task, such as a width that a method has chosen.
    mark: Vec<u64>,
    /// Recorded results.
    words: Vec<u64>,
    /// The numbers of words and units that were read.
    read: (usize, u64),
}

/// A share of the work of one method. Methods that it uses for its own preparation are not divided.
#[derive(Debug)]
pub(crate) struct Share {
    method: &'static str,
    task: Task,
    progress: Mutex<Progress>,
}

impl Share {
    /// Ends the method when it has come to its units, which are then counted.
    pub fn count(method: &'static str) -> Self {
        Self::new(method, Task::Count)
    }

    /// Does a range of the units and ends the method.
    pub fn part(method: &'static str, range: Range<u64>) -> Self {
        Self::new(method, Task::Part(range))
    }

    /// Takes the results of the first `units` units from their words. `look` is given if the decision to stop
    /// before the last unit may depend on the results: the number of this look at them, from 1.
    pub fn merge(method: &'static str, words: Vec<u64>, units: u64, look: Option<u32>) -> Self {
        Self::new(method, Task::Merge { words, units, look })
    }

    fn new(method: &'static str, task: Task) -> Self {
        Share { method, task, progress: Mutex::default() }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of units; `None` if the method did not come to them.
    pub fn counted(&self) -> Option<u64> {
        self.progress().count
    }

    /// The number of units that the method expects to need; `None` if it needs all.
    pub fn expected(&self) -> Option<u64> {
        self.progress().expected
    }

    /// The mark and the results that were recorded.
    pub fn recorded(&self) -> (Vec<u64>, Vec<u64>) {
        let mut progress = self.progress();
        (std::mem::take(&mut progress.mark), std::mem::take(&mut progress.words))
    }

    /// The method shared.
    pub(super) fn method(&self) -> &'static str {
        self.method
    }

    /// The next result from the records.
    fn next<T: Words>(&self, words: &[u64]) -> Result<T> {
        let mut progress = self.progress();
        let mut rest = Reader(words[progress.read.0..].iter());
        let found = T::read(&mut rest);
        progress.read = (words.len() - rest.0.len(), progress.read.1 + 1);
        found.ok_or_else(|| Error::argument("parts", "the results of a part are damaged"))
    }

    /// The results of all units that are there.
    fn ranged<T: Words>(
        &self,
        units: &Units,
        work: impl FnOnce(Range<u64>) -> Result<Vec<T>>,
    ) -> Result<Vec<T>> {
        self.note(units);
        match &self.task {
            Task::Count => Err(Error::Interrupted),
            Task::Part(own) => {
                let mut words = Vec::new();
                work(own.start..own.end.min(units.count))?.iter().for_each(|one| one.write(&mut words));
                self.progress().words = words;
                Err(Error::Interrupted)
            }
            Task::Merge { words, units: known, .. } => {
                (0..units.count.min(*known)).map(|_| self.next(words)).collect()
            }
        }
    }

    /// Records the number of units and the mark.
    fn note(&self, units: &Units) {
        let mut progress = self.progress();
        progress.count = Some(units.count);
        progress.expected = units.expected;
        progress.mark.clone_from(&units.mark);
    }

    /// Passes on the results of units `range` of `count`. Returns the end of those that are there.
    fn units<T: Words + Send>(
        &self,
        run: &Run,
        range: Range<u64>,
        units: &Units,
        work: &(impl Fn(u64) -> Result<T> + Sync),
        take: &mut impl FnMut(u64, T),
    ) -> Result<u64> {
        let (count, held) = (units.count, units.held);
        self.note(units);
        match &self.task {
            Task::Count => Err(Error::Interrupted),
            Task::Part(own) => {
                let mut words = Vec::new();
                let own = own.start..own.end.min(count);
                run.in_groups(own, held, work, |_, result: T| result.write(&mut words))?;
                self.progress().words = words;
                Err(Error::Interrupted)
            }
            Task::Merge { words, units, .. } => {
                for unit in range.start..range.end.min(*units) {
                    take(unit, self.next(words)?);
                }
                Ok(range.end.min(*units))
            }
        }
    }
}

/// The units of a method: how many there are, and what their results depend on besides the model, the options
/// and the seed. Results with another mark are not merged.
pub(crate) struct Units {
    pub method: &'static str,
    pub count: u64,
    pub mark: Vec<u64>,
    /// Number of units whose results are held at a time.
    pub held: u64,
    /// The number of units that will probably be needed, for a method that decides itself when to stop.
    pub expected: Option<u64>,
}

impl Units {
    pub fn new(method: &'static str, count: u64, mark: &[u64]) -> Self {
        Units { method, count, mark: mark.to_vec(), held: GROUP, expected: None }
    }
}

impl Run {
    /// The same run with a share of the work of one method.
    pub(crate) fn sharing(&self, share: std::sync::Arc<Share>) -> Self {
        Run { share: Some(share), ..self.clone() }
    }

    /// The share of the work of this method that the run is for; `None` for all of it.
    pub(crate) fn share(&self, method: &str) -> Option<&Share> {
        self.share.as_deref().filter(|share| share.method() == method)
    }

    /// Whether the units of this method are only counted.
    pub(crate) fn counts_units(&self, method: &str) -> bool {
        self.share(method).is_some_and(|share| matches!(share.task, Task::Count))
    }

    /// The time in seconds beyond which a method refuses to begin: the time budget, or else `default`. There is
    /// none if the work is divided, because the number of machines is not known.
    pub(crate) fn horizon(&self, method: &str, default: f64) -> f64 {
        match self.is_shared(method) {
            true => f64::INFINITY,
            false => self.time().map_or(default, |time| time.as_secs_f64()),
        }
    }

    /// Whether the units of this method are counted, recorded or taken from records.
    pub(crate) fn is_shared(&self, method: &str) -> bool {
        self.share(method).is_some()
    }

    /// The error probability for results that may be looked at several times: δ, or for look j its share
    /// 6δ/(π²j²). All of these together are δ.
    pub(crate) fn risk(&self, method: &str, delta: f64) -> f64 {
        match self.share(method).map(|share| &share.task) {
            Some(Task::Merge { look: Some(look), .. }) => {
                6.0 * delta / (std::f64::consts::PI * f64::from(*look)).powi(2)
            }
            _ => delta,
        }
    }

    /// The confidence with which results are computed so that all looks at them together have this one.
    pub(crate) fn confidence(&self, method: &str, confidence: f64) -> f64 {
        let delta = 1.0 - confidence;
        let risk = self.risk(method, delta);
        if risk == delta { confidence } else { 1.0 - risk }
    }

    /// Does all units in the threads of the run, and passes their results on in order.
    ///
    /// # Errors
    /// Those of the units. In a run with a share of the work, also if results of some units are missing; if
    /// the share ends here, `Error::Interrupted`.
    pub(crate) fn units<T: Words + Send>(
        &self,
        units: &Units,
        work: impl Fn(u64) -> Result<T> + Sync,
        take: impl FnMut(u64, T),
    ) -> Result<()> {
        let done = self.first_units(units, 0..units.count, work, take)?;
        if done < units.count {
            let message = format!("{} needs the results of all {} units", units.method, units.count);
            return Err(Error::argument("parts", message));
        }
        Ok(())
    }

    /// Does units of a range and passes their results on in order. Returns the end of the range, or the
    /// number of units whose results there are.
    ///
    /// # Errors
    /// As [`Run::units`], but results may be missing.
    pub(crate) fn first_units<T: Words + Send>(
        &self,
        units: &Units,
        range: Range<u64>,
        work: impl Fn(u64) -> Result<T> + Sync,
        mut take: impl FnMut(u64, T),
    ) -> Result<u64> {
        match self.share(units.method) {
            Some(share) => share.units(self, range, units, &work, &mut take),
            None => self.in_groups(range.clone(), units.held, work, take).map(|()| range.end),
        }
    }

    /// The results of all units, for work that is cheaper for several units together: it is given a range of
    /// them.
    ///
    /// # Errors
    /// As [`Run::first_units`].
    pub(crate) fn ranged<T: Words>(
        &self,
        units: &Units,
        work: impl FnOnce(Range<u64>) -> Result<Vec<T>>,
    ) -> Result<Vec<T>> {
        match self.share(units.method) {
            Some(share) => share.ranged(units, work),
            None => work(0..units.count),
        }
    }

    /// Runs blocks of work in the threads of the run and passes their results on in order, regardless of the
    /// number of blocks and threads.
    pub(crate) fn in_order<T: Send>(
        &self,
        blocks: Range<u64>,
        work: impl Fn(u64) -> Result<T> + Sync,
        take: impl FnMut(u64, T),
    ) -> Result<()> {
        self.in_groups(blocks, GROUP, work, take)
    }

    fn in_groups<T: Send>(
        &self,
        blocks: Range<u64>,
        size: u64,
        work: impl Fn(u64) -> Result<T> + Sync,
        mut take: impl FnMut(u64, T),
    ) -> Result<()> {
        let mut next = blocks.start;
        while next < blocks.end {
            let group = next..blocks.end.min(next.saturating_add(size));
            let parts: Vec<T> =
                self.install(|| group.clone().into_par_iter().map(&work).collect::<Result<_>>())?;
            group.clone().zip(parts).for_each(|(block, part)| take(block, part));
            next = group.end;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const METHOD: &str = "test";

    fn sums(run: &Run) -> Result<Vec<f64>> {
        let mut found = Vec::new();
        run.units(&Units::new(METHOD, 5, &[7]), |unit| Ok(unit as f64 / 3.0), |_, x| found.push(x))?;
        Ok(found)
    }

    fn recorded(range: Range<u64>) -> (Vec<u64>, Vec<u64>) {
        let share = Arc::new(Share::part(METHOD, range));
        assert!(matches!(sums(&Run::default().sharing(share.clone())), Err(Error::Interrupted)));
        assert_eq!(share.counted(), Some(5));
        share.recorded()
    }

    #[test]
    fn results_from_records_are_those_of_one_run() {
        let whole = sums(&Run::default()).unwrap();
        let (mark, mut words) = recorded(0..2);
        assert_eq!(mark, [7]);
        words.extend(recorded(2..5).1);
        let share = |units, words: &Vec<u64>| Arc::new(Share::merge(METHOD, words.clone(), units, None));
        assert_eq!(sums(&Run::default().sharing(share(5, &words))).unwrap(), whole);
        assert!(sums(&Run::default().sharing(share(4, &words))).unwrap_err().to_string().contains("all 5"));
        words.pop();
        let damaged = sums(&Run::default().sharing(share(5, &words))).unwrap_err();
        assert!(damaged.to_string().contains("damaged"), "{damaged}");
    }

    #[test]
    fn only_the_method_of_the_share_is_divided() {
        let run = Run::default().sharing(Arc::new(Share::count("other")));
        assert_eq!(sums(&run).unwrap().len(), 5);
        assert!(!run.is_shared(METHOD) && run.is_shared("other"));
    }

    #[test]
    fn divided_work_has_no_horizon() {
        let run = Run::default().with_time(std::time::Duration::from_secs(5));
        assert_eq!((Run::default().horizon(METHOD, 60.0), run.horizon(METHOD, 60.0)), (60.0, 5.0));
        let shared = |name| Run::default().sharing(Arc::new(Share::count(name)));
        assert_eq!(shared(METHOD).horizon(METHOD, 60.0), f64::INFINITY);
        assert_eq!(shared("other").horizon(METHOD, 60.0), 60.0);
        assert!(shared(METHOD).counts_units(METHOD) && !run.counts_units(METHOD));
    }

    #[test]
    fn risks_of_all_looks_add_up() {
        let risk = |look| {
            Run::default()
                .sharing(Arc::new(Share::merge(METHOD, Vec::new(), 0, Some(look))))
                .risk(METHOD, 0.1)
        };
        let all: f64 = (1..100_000).map(risk).sum();
        assert!(all < 0.1 && all > 0.0999);
        assert_eq!(Run::default().risk(METHOD, 0.1), 0.1);
    }

    #[test]
    fn words_keep_every_bit() {
        let mut sum = CompensatedSum::default();
        [1.0, 1e100, 1e-300].into_iter().for_each(|x| sum.add(x));
        let value = (vec![f64::NEG_INFINITY, -0.0, 5e-324], (sum, u64::MAX));
        let mut words = Vec::new();
        value.write(&mut words);
        let (numbers, (other, whole)): (Vec<f64>, (CompensatedSum, u64)) =
            Words::read(&mut Reader(words.iter())).unwrap();
        let bits = |numbers: &[f64]| numbers.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&numbers), bits(&value.0));
        assert_eq!((other.terms(), whole), (sum.terms(), u64::MAX));
        // A damaged length is not trusted.
        words[0] = u64::MAX;
        assert!(<Vec<f64>>::read(&mut Reader(words.iter())).is_none());
    }
}
