//! Settings of a query run: seed, threads, budgets, progress, cancellation and cache.

pub(crate) mod share;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::cache::Cache;
use crate::error::{Error, Result};
use crate::numeric::parallel;
use crate::platform;
use crate::units;

/// How long a step in progress may continue after the time budget is spent.
const GRACE: Duration = Duration::from_millis(500);

/// Receives progress reports.
///
/// Its functions are called from worker threads, between a few and a few thousand times per second, so they
/// must be fast.
pub trait Observer: Send + Sync {
    /// `done` of `total` units of the named phase are finished.
    fn progress(&self, phase: &'static str, done: u64, total: u64);

    /// The named method has shown that the value lies between `low` and `high`.
    fn interval(&self, _low: f64, _high: f64, _by: &'static str) {}

    /// The best certified bounds on the answer so far; an end may be infinite.
    fn bounds(&self, _low: f64, _high: f64) {}

    /// An optimiser has reached `objective`, and `stationarity` is the largest component of its (proximal)
    /// gradient.
    fn descent(&self, _objective: f64, _stationarity: f64) {}
}

/// Bytes that fit any machine's available memory.
const LITTLE: f64 = 16.0 * 1024.0 * 1024.0;

/// Seed, threads, memory and time budget, observer, cancel flag and cache of a query.
///
/// The default is seed 0, all processors, 80% of the available memory (read when it is first needed), no time limit
/// and an empty cache.
/// Clones share the cache, so queries with the same run, or with clones of it, prepare a model only once.
///
/// ```
/// use std::time::Duration;
/// use zhat::Run;
/// let run = Run::default().with_seed(7).with_threads(2).with_time(Duration::from_secs(60));
/// assert_eq!(run.seed(), 7);
/// ```
#[derive(Clone)]
pub struct Run {
    seed: u64,
    threads: usize,
    /// Unset until it is needed, because reading what is available takes longer than a small query. Shared by clones,
    /// so that all parts of a query have the same budget.
    memory: Arc<OnceLock<u64>>,
    time: Option<Duration>,
    deadline: Option<Deadline>,
    observer: Option<Arc<dyn Observer>>,
    cancel: Arc<AtomicBool>,
    pool: OnceLock<Arc<rayon::ThreadPool>>,
    cache: Cache,
    share: Option<Arc<share::Share>>,
}

/// The end of the time budget of work that has begun. Nested work that starts its own clock obeys it too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Deadline {
    at: Instant,
    /// The whole budget, for messages.
    budget: Duration,
}

impl Deadline {
    fn has_passed(self) -> bool {
        Instant::now() >= self.at
    }
}

impl Default for Run {
    fn default() -> Self {
        Run {
            seed: 0,
            threads: platform::available_processors(),
            memory: Arc::default(),
            time: None,
            deadline: None,
            observer: None,
            cancel: Arc::default(),
            pool: OnceLock::new(),
            cache: Cache::default(),
            share: None,
        }
    }
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run")
            .field("seed", &self.seed)
            .field("threads", &self.threads)
            .field("memory", &self.memory())
            .field("time", &self.time)
            .finish_non_exhaustive()
    }
}

impl Run {
    /// Sets the seed of all random numbers.
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the number of threads, between 1 and 1024. Answers do not depend on it.
    pub fn with_threads(mut self, threads: usize) -> Self {
        self.threads = threads.clamp(1, 1024);
        self.pool = OnceLock::new();
        self
    }

    /// Limits the memory for tables and samples, in bytes.
    pub fn with_memory(mut self, bytes: u64) -> Self {
        self.memory = Arc::new(OnceLock::from(bytes));
        self
    }

    /// The same run with the default limit, 80% of the memory that is available when it is first needed.
    pub fn with_available_memory(mut self) -> Self {
        self.memory = Arc::default();
        self
    }

    /// Limits the time: anytime methods then return the answer so far, other methods an error.
    pub fn with_time(mut self, time: Duration) -> Self {
        self.time = Some(time);
        self
    }

    /// The same run without a time budget of its own. A deadline is kept.
    pub(crate) fn without_time(mut self) -> Self {
        self.time = None;
        self
    }

    /// Reports progress to `observer`.
    pub fn with_observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// The same run without an observer, for work that is part of another task.
    pub(crate) fn unobserved(&self) -> Self {
        Run { observer: None, ..self.clone() }
    }

    /// The same run with the time budget starting now, for all work done with it. An earlier deadline is
    /// kept.
    pub(crate) fn begun(&self) -> Self {
        self.until(self.time.and_then(|time| Instant::now().checked_add(time)))
    }

    /// The same run with a deadline. An earlier one is kept.
    pub(crate) fn until(&self, at: Option<Instant>) -> Self {
        let budget = self.deadline.map(|deadline| deadline.budget).or(self.time).unwrap_or_default();
        let deadline = at.map(|at| Deadline { at, budget });
        Run { deadline: [self.deadline, deadline].into_iter().flatten().min(), ..self.clone() }
    }

    /// The same run with some more time, for the first result of a method that has no intermediate results.
    ///
    /// With the work of finishing, it stays within the 10% + 1 s by which a budget may be exceeded.
    pub(crate) fn with_grace(&self) -> Self {
        let grace = |time: Duration| time.mul_f64(0.05) + Duration::from_millis(300);
        let deadline =
            self.deadline.map(|Deadline { at, budget }| Deadline { at: at + grace(budget), budget });
        Run { time: self.time.map(|time| time.saturating_add(grace(time))), deadline, ..self.clone() }
    }

    /// The same run with a new time budget in seconds.
    pub(crate) fn within(&self, seconds: Option<f64>) -> Self {
        let time =
            seconds.map(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX));
        Run { time, deadline: None, ..self.unobserved() }
    }

    /// Shares a cancellation flag: once it is true, the work stops as soon as possible.
    pub fn with_cancel(mut self, cancel: Arc<AtomicBool>) -> Self {
        self.cancel = cancel;
        self
    }

    /// Shares this cache. It affects the time of queries, not their results.
    pub fn with_cache(mut self, cache: Cache) -> Self {
        self.cache = cache;
        self
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The number of threads.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// The memory budget in bytes.
    pub fn memory(&self) -> u64 {
        *self.memory.get_or_init(|| platform::available_memory() / 5 * 4)
    }

    /// Whether `bytes` fit the memory budget. Without a limit of the caller's, little memory always does.
    pub fn fits(&self, bytes: f64) -> bool {
        (bytes <= LITTLE && self.memory.get().is_none()) || bytes <= self.memory() as f64
    }

    /// The time budget, if there is one.
    pub fn time(&self) -> Option<Duration> {
        self.time
    }

    /// The intermediate results that queries with this run share.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Runs `work` in this run's own thread pool, which is created on first use and lives as long as the run. A run
    /// with one thread has no pool: its work runs in the calling thread.
    ///
    /// The pool is not rayon's global one, so it obeys `threads` and survives a fork of the process.
    pub fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        let (mut work, mut result) = (Some(work), None);
        self.install_once(&mut || result = work.take().map(|work| work()));
        match result {
            Some(result) => result,
            None => unreachable!("the work is run once"),
        }
    }

    /// Not generic, so that the pool's code is compiled once.
    fn install_once(&self, work: &mut (dyn FnMut() + Send)) {
        if self.threads == 1 {
            return parallel::with_loops(true, work);
        }
        match self.pool() {
            Some(pool) => pool.install(|| parallel::with_loops(false, work)),
            None => work(),
        }
    }

    /// Starts `work` in the run's threads and does not wait for it. It must not panic.
    pub fn spawn(&self, work: impl FnOnce() + Send + 'static) {
        match self.pool() {
            Some(pool) => pool.spawn(work),
            None => work(),
        }
    }

    /// The run's thread pool; `None` if no thread can be created, and the work then runs in the calling
    /// thread.
    fn pool(&self) -> Option<&rayon::ThreadPool> {
        if self.pool.get().is_none() {
            let build = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            let pool = build(self.threads).or_else(|_| build(1)).ok()?;
            return Some(self.pool.get_or_init(|| Arc::new(pool)));
        }
        self.pool.get().map(|pool| &**pool)
    }

    /// Checks that `bytes` fits the memory budget; every method calls it before it allocates.
    ///
    /// # Errors
    /// `Error::OverBudget` if `bytes` exceeds the budget.
    pub fn require_memory(&self, method: &str, bytes: f64) -> Result<()> {
        if self.fits(bytes) { Ok(()) } else { Err(self.over_memory(method, bytes)) }
    }

    /// The error of a method that needs more memory than the budget.
    pub(crate) fn over_memory(&self, method: &str, bytes: f64) -> Error {
        Error::OverBudget {
            needs: format!("{method} needs {} of memory", units::bytes(bytes)),
            budget: units::bytes(self.memory() as f64),
            fitting: Vec::new(),
        }
    }

    /// Reports the interval in which the value is known to lie.
    pub(crate) fn interval(&self, low: f64, high: f64, by: &'static str) {
        if let Some(observer) = &self.observer {
            observer.interval(low, high, by);
        }
    }

    /// True once the run is cancelled or, if its time budget has begun, past its deadline.
    pub(crate) fn must_stop(&self) -> bool {
        self.cancel.load(Ordering::Relaxed) || self.deadline.is_some_and(Deadline::has_passed)
    }

    /// Starts the clock for one query of `method`.
    pub fn start(&self, method: &'static str) -> Clock<'_> {
        Clock { run: self, method, started: Instant::now(), quiet: false }
    }
}

/// The clock of one query: elapsed time, stop conditions and progress reports.
pub struct Clock<'a> {
    run: &'a Run,
    method: &'static str,
    started: Instant,
    quiet: bool,
}

impl Clock<'_> {
    /// The method for which it was started.
    pub(crate) fn method(&self) -> &'static str {
        self.method
    }

    /// Seconds since the start.
    pub fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// True once the run is cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.run.cancel.load(Ordering::Relaxed)
    }

    /// Whether there is a time budget.
    pub(crate) fn is_limited(&self) -> bool {
        self.run.time.is_some() || self.run.deadline.is_some()
    }

    /// True once the time budget is spent.
    pub fn is_out_of_time(&self) -> bool {
        self.run.time.is_some_and(|limit| self.started.elapsed() >= limit)
            || self.run.deadline.is_some_and(Deadline::has_passed)
    }

    /// The seconds of the time budget, if there is one.
    pub(crate) fn budget(&self) -> Option<f64> {
        self.run.time.map(|time| time.as_secs_f64())
    }

    /// True once the work must stop because it is cancelled or out of time; [`Clock::check`] is then an
    /// error.
    pub fn must_stop(&self) -> bool {
        self.is_cancelled() || self.is_out_of_time()
    }

    /// True once the time budget is exceeded by half a second, for short steps that should be finished.
    pub(crate) fn is_overdue(&self) -> bool {
        self.run.time.is_some_and(|limit| self.started.elapsed() >= limit.saturating_add(GRACE))
            || self.run.deadline.is_some_and(|deadline| Instant::now() >= deadline.at + GRACE)
    }

    /// Checks whether the work may continue; for methods that have no intermediate results.
    ///
    /// # Errors
    /// `Error::Interrupted` if the run is cancelled, `Error::OverBudget` if it is out of time.
    pub fn check(&self) -> Result<()> {
        if self.is_cancelled() {
            return Err(Error::Interrupted);
        }
        if !self.is_out_of_time() {
            return Ok(());
        }
        Err(Error::OverBudget {
            needs: format!("{} did not finish in time", self.method),
            budget: units::precise_seconds(
                self.run
                    .deadline
                    .map(|deadline| deadline.budget)
                    .or(self.run.time)
                    .unwrap_or_default()
                    .as_secs_f64(),
            ),
            fitting: Vec::new(),
        })
    }

    /// Reports that `done` of `total` units of the phase are finished, then calls [`Clock::check`].
    pub(crate) fn step(&self, phase: &'static str, done: usize, total: usize) -> Result<()> {
        self.progress(phase, done as u64, total as u64);
        self.check()
    }

    /// [`Clock::check`] with half a second of grace, for a first step without which there is no answer.
    pub(crate) fn check_late(&self) -> Result<()> {
        if self.is_cancelled() || self.is_overdue() { self.check() } else { Ok(()) }
    }

    /// The same clock without progress reports, for parts of the work.
    pub(crate) fn quiet(&self) -> Self {
        Clock { quiet: true, ..*self }
    }

    /// Checks that `bytes` for a part of the work fit the memory budget.
    pub(crate) fn require_memory(&self, part: &str, bytes: f64) -> Result<()> {
        self.run.require_memory(part, bytes)
    }

    /// The error of a part of the work that needs more memory than the budget.
    pub(crate) fn over_memory(&self, part: &str, bytes: f64) -> Error {
        self.run.over_memory(part, bytes)
    }

    /// Reports progress to the observer.
    pub fn progress(&self, phase: &'static str, done: u64, total: u64) {
        if let Some(observer) = self.run.observer.as_ref().filter(|_| !self.quiet) {
            observer.progress(phase, done, total);
        }
    }

    /// Reports the certified bounds so far to the observer.
    pub fn bounds(&self, low: f64, high: f64) {
        if let Some(observer) = &self.run.observer {
            observer.bounds(low, high);
        }
    }

    /// Reports the state of an optimisation to the observer.
    pub fn descent(&self, objective: f64, stationarity: f64) {
        if let Some(observer) = &self.run.observer {
            observer.descent(objective, stationarity);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancelled_run_and_one_out_of_time_say_so() {
        let run = Run::default();
        assert!(run.start("m").check().is_ok());
        run.cancel.store(true, Ordering::Relaxed);
        assert!(matches!(run.start("m").check(), Err(Error::Interrupted)));
        let run = Run::default().with_time(Duration::ZERO);
        assert!(matches!(run.start("m").check(), Err(Error::OverBudget { .. })));
    }

    #[test]
    fn memory_over_the_budget_names_both_figures() {
        let error = Run::default().with_memory(1 << 20).require_memory("elimination", 3e9).unwrap_err();
        assert_eq!(
            error.to_string(),
            "over budget: elimination needs 2.8 GiB of memory; the budget is 1.0 MiB"
        );
    }

    #[test]
    fn the_pool_has_the_threads_asked_for() {
        let three = Run::default().with_threads(3);
        assert_eq!(three.install(rayon::current_num_threads), 3);
        assert_eq!(three.install(parallel::threads), 3);
        // One thread is the caller's, also inside another run; the setting ends with the work.
        let one = Run::default().with_threads(1);
        let caller = std::thread::current().id();
        assert_eq!(one.install(|| (parallel::threads(), std::thread::current().id())), (1, caller));
        assert_eq!(three.install(|| (one.install(parallel::threads), parallel::threads())), (1, 3));
        assert_eq!(one.install(|| three.install(parallel::threads)), 3);
        let outside = parallel::threads();
        let panicked =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| one.install(|| panic!("stop"))));
        assert!(panicked.is_err());
        assert_eq!(parallel::threads(), outside);
    }

    #[test]
    fn little_memory_fits_unless_the_caller_sets_a_limit() {
        assert!(Run::default().fits(LITTLE));
        assert!(!Run::default().fits(f64::INFINITY));
        let limited = Run::default().with_memory(1000);
        assert!(limited.fits(1000.0) && !limited.fits(1001.0));
        assert!(limited.with_available_memory().fits(1001.0));
    }
}
