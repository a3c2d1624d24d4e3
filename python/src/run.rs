//! Runs queries from Python in their own threads, while the calling thread handles signals and progress.
//!
//! The caller releases the GIL and wakes at short intervals to run signal handlers (Ctrl-C raises
//! `KeyboardInterrupt` there) and to report progress. An exception from either cancels the work, and the
//! caller waits for it to end. Bounds that the work reports are kept with their times: the trace.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use zhat::internal::units;
use zhat::{Cache, Observer};

use crate::error::{self, Failure};

/// The caller wakes after the first interval, then at intervals that grow to the second.
const FIRST_LOOK: Duration = Duration::from_millis(5);
const LATER_LOOKS: Duration = Duration::from_millis(50);

/// Seed, threads, budgets and progress callback of a query.
#[pyclass(frozen, module = "zhat._zhat")]
pub struct Run {
    run: zhat::Run,
    progress: Option<Py<PyAny>>,
    /// True if Ctrl-C returns the result so far instead of raising `KeyboardInterrupt`.
    partial: bool,
}

#[pymethods]
impl Run {
    #[new]
    fn new(
        seed: u64,
        threads: u16,
        memory: Option<&str>,
        time: Option<&str>,
        progress: Option<Py<PyAny>>,
        partial: bool,
    ) -> PyResult<Self> {
        // Only the thread pool of the kept run is shared; its cache would outlive the query.
        let mut run = with_kept_pool(threads.into()).with_seed(seed).with_cache(Cache::default());
        if let Some(text) = memory {
            run = run.with_memory(units::parse_bytes(text).ok_or_else(|| {
                let message =
                    format!("expected a number of bytes or a size such as \"4GiB\", found `{text}`");
                error::argument("memory", message)
            })?);
        }
        if let Some(text) = time {
            run = run.with_time(units::parse_duration(text).ok_or_else(|| {
                let message =
                    format!("expected a number of seconds or a duration such as \"5min\", found `{text}`");
                error::argument("time", message)
            })?);
        }
        Ok(Run { run, progress, partial })
    }
}

impl Run {
    /// Runs `work` in the run's threads and waits for it.
    pub fn supervise<T: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&zhat::Run) -> zhat::Result<T> + Send + 'static,
    ) -> PyResult<T> {
        self.supervise_with(py, Arc::default(), work)
    }

    /// The same for work that takes a millisecond or two at most if it is `brief`, which runs in the calling thread: to
    /// wake other threads takes longer than a small query.
    pub fn supervise_brief<T: Send + 'static>(
        &self,
        py: Python<'_>,
        brief: bool,
        cancel: Arc<AtomicBool>,
        work: impl FnOnce(&zhat::Run) -> zhat::Result<T> + Send + 'static,
    ) -> PyResult<T> {
        if !brief || self.progress.is_some() {
            return self.supervise_with(py, cancel, work);
        }
        let run = self.run.clone().with_threads(1).with_cancel(cancel);
        let result = py.detach(|| catch_unwind(AssertUnwindSafe(|| work(&run))));
        py.check_signals()?;
        Ok(result.map_err(|payload| error::internal(&*payload))?.map_err(Failure)?)
    }

    /// The same with a cache that outlives the run, such as a model's.
    pub fn supervise_sharing<T: Send + 'static>(
        &self,
        py: Python<'_>,
        cache: &Cache,
        work: impl FnOnce(&zhat::Run) -> zhat::Result<T> + Send + 'static,
    ) -> PyResult<T> {
        let cache = cache.clone();
        self.supervise(py, move |run| work(&run.clone().with_cache(cache)))
    }

    /// The same with a cancel flag given by the caller. The flag is set only if the work is to stop, because
    /// a tape returned by the work uses it again.
    pub fn supervise_with<T: Send + 'static>(
        &self,
        py: Python<'_>,
        cancel: Arc<AtomicBool>,
        work: impl FnOnce(&zhat::Run) -> zhat::Result<T> + Send + 'static,
    ) -> PyResult<T> {
        self.supervise_traced(py, cancel, work).map(|(result, _)| result)
    }

    /// The same, and the bounds that the work has reported.
    pub fn supervise_traced<T: Send + 'static>(
        &self,
        py: Python<'_>,
        cancel: Arc<AtomicBool>,
        work: impl FnOnce(&zhat::Run) -> zhat::Result<T> + Send + 'static,
    ) -> PyResult<(T, Vec<Step>)> {
        let reports = Arc::new(Reports::new(self.progress.is_some()));
        let run = self.run.clone().with_cancel(cancel.clone()).with_observer(reports.clone());
        let (sender, finished) = mpsc::channel();
        let own = run.clone();
        run.spawn(move || {
            // The send fails only if the caller no longer waits, and then the result is not needed.
            let _ = sender.send(catch_unwind(AssertUnwindSafe(|| work(&own))));
        });
        let listen = |py: Python<'_>| -> PyResult<()> {
            py.check_signals()?;
            match (&self.progress, reports.take()) {
                (Some(progress), Some(news)) => progress.call1(py, news).map(drop),
                _ => Ok(()),
            }
        };
        let (heard, result) = py.detach(move || {
            let mut wait = FIRST_LOOK;
            loop {
                match finished.recv_timeout(wait) {
                    Err(RecvTimeoutError::Timeout) => {}
                    done => return (Python::attach(listen), done.ok()),
                }
                if let Err(interrupted) = Python::attach(listen) {
                    cancel.store(true, Ordering::Relaxed);
                    return (Err(interrupted), finished.recv().ok());
                }
                wait = LATER_LOOKS.min(2 * wait);
            }
        });
        if let Some(progress) = &self.progress
            && progress.bind(py).hasattr("clear")?
        {
            progress.call_method0(py, "clear")?;
        }
        let finished = matches!(result, Some(Ok(Ok(_))));
        match heard {
            // The work has stopped early and returned its result so far.
            Err(raised) if self.partial && finished && raised.is_instance_of::<PyKeyboardInterrupt>(py) => {}
            other => other?,
        }
        let lost = || error::internal(&"the work ended without a word");
        let result =
            result.ok_or_else(lost)?.map_err(|payload| error::internal(&*payload))?.map_err(Failure)?;
        Ok((result, reports.steps()))
    }
}

/// A default run whose thread pool is kept for the next query, because creating a pool can take longer than a
/// small query.
///
/// Threads do not survive a fork, so a child process creates its own pool and leaks the inherited one.
fn with_kept_pool(threads: usize) -> zhat::Run {
    static KEPT: Mutex<Option<(u32, zhat::Run)>> = Mutex::new(None);
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((process, run)) = kept.take() {
        if process != std::process::id() {
            std::mem::forget(run);
        } else if run.threads() == threads {
            *kept = Some((process, run.clone()));
            return run.with_available_memory();
        }
    }
    let fresh = zhat::Run::default().with_threads(threads);
    // Creates the pool.
    fresh.spawn(|| ());
    *kept = Some((std::process::id(), fresh.clone()));
    fresh
}

/// Seconds since the start, and the best lower and upper bound at that time, which may be infinite.
pub type Step = (f64, f64, f64);

/// Steps of the trace are at least this fraction of the elapsed time apart, which limits its length.
const SPACING: f64 = 1e-3;

/// What the work has reported: the latest progress that has not been passed on, and all improved bounds.
struct Reports {
    started: Instant,
    /// Whether progress is passed on.
    heard: bool,
    latest: Mutex<Option<(&'static str, u64, u64)>>,
    steps: Mutex<Vec<Step>>,
}

impl Reports {
    fn new(heard: bool) -> Self {
        Reports { started: Instant::now(), heard, latest: Mutex::default(), steps: Mutex::default() }
    }

    fn take(&self) -> Option<(&'static str, u64, u64)> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn steps(&self) -> Vec<Step> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Observer for Reports {
    fn progress(&self, phase: &'static str, done: u64, total: u64) {
        if self.heard {
            *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some((phase, done, total));
        }
    }

    fn interval(&self, low: f64, high: f64, _: &'static str) {
        self.bounds(low, high);
    }

    fn bounds(&self, low: f64, high: f64) {
        let seconds = self.started.elapsed().as_secs_f64();
        improve(&mut self.steps.lock().unwrap_or_else(PoisonError::into_inner), seconds, low, high);
    }
}

/// Adds a step if these bounds are better than the last ones.
fn improve(steps: &mut Vec<Step>, seconds: f64, low: f64, high: f64) {
    let (_, best_low, best_high) = steps.last().copied().unwrap_or((0.0, f64::NEG_INFINITY, f64::INFINITY));
    if !(low > best_low || high < best_high) {
        return;
    }
    if let [.., (before, ..), _] = steps.as_slice()
        && seconds - before < SPACING * seconds
    {
        steps.pop();
    }
    steps.push((seconds, best_low.max(low), best_high.min(high)));
}
