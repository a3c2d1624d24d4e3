//! Progress on the terminal.

use std::io::IsTerminal;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use zhat::internal::decimal;
use zhat::{Observer, Run};

use crate::signals;

/// No progress bar is shown before this time.
const SHOWN_AFTER: Duration = Duration::from_millis(400);

/// Adds progress output and cancellation by signals to a run: progress bars if stderr is a terminal, and
/// intervals as they tighten.
pub fn attend(run: Run) -> Run {
    let shown = std::io::stderr().is_terminal();
    run.with_cancel(signals::flag()).with_observer(Arc::new(Bar::new(shown)))
}

const WITHOUT_ESTIMATE: &str = "{msg} {wide_bar} {percent:>3}%, {elapsed} so far";
const WITH_ESTIMATE: &str = "{msg} {wide_bar} {percent:>3}%, {elapsed} so far, about {eta} left";

fn set_style(bar: &ProgressBar, template: &str) {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
}

/// One progress bar per phase, with the elapsed time and an estimate of the time left.
struct Bar {
    started: Instant,
    /// Whether progress bars are shown.
    shown: bool,
    /// The width of the last printed interval and the method that gave it.
    told: Mutex<(f64, &'static str)>,
    phase: Mutex<Option<(&'static str, ProgressBar)>>,
}

impl Bar {
    fn new(shown: bool) -> Self {
        let told = Mutex::new((f64::INFINITY, ""));
        Bar { started: Instant::now(), shown, told, phase: Mutex::new(None) }
    }
}

impl Observer for Bar {
    fn progress(&self, phase: &'static str, done: u64, total: u64) {
        if !self.shown || self.started.elapsed() < SHOWN_AFTER {
            return;
        }
        let mut current = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        if current.as_ref().is_none_or(|(name, _)| *name != phase) {
            if let Some((_, bar)) = current.take() {
                bar.finish_and_clear();
            }
            let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr_with_hz(10));
            bar.set_message(phase);
            set_style(&bar, WITHOUT_ESTIMATE);
            *current = Some((phase, bar));
        }
        if let Some((_, bar)) = current.as_ref() {
            bar.set_length(total);
            // An estimate from less than a hundredth of the work would be a guess.
            if bar.position().saturating_mul(100) < total && done.saturating_mul(100) >= total {
                set_style(bar, WITH_ESTIMATE);
            }
            bar.set_position(done);
        }
    }

    /// Prints a line if the interval is at least 5% narrower than the last one printed, or if the method has
    /// changed.
    fn interval(&self, low: f64, high: f64, by: &'static str) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let gap = high - low;
        let narrower = gap < 0.95 * told.0;
        if told.1 == by && !narrower {
            return;
        }
        *told = (gap, by);
        let seconds = self.started.elapsed().as_secs_f64();
        let (range, gap) = (decimal::range(low, "log Z", high), decimal::above(gap, 6));
        let line = format!("{seconds:8.2} s  {range}  gap {gap}  {by}");
        match self.phase.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            Some((_, bar)) => bar.println(line),
            None => eprintln!("{line}"),
        }
    }

    fn bounds(&self, low: f64, high: f64) {
        if low.is_finite() || high.is_finite() {
            self.say(&decimal::range(low, "log Z", high));
        }
    }

    fn descent(&self, objective: f64, stationarity: f64) {
        self.say(&format!("objective {objective:.6}, gradient {stationarity:.1e}"));
    }
}

impl Bar {
    /// Shows text after the name of the phase.
    fn say(&self, words: &str) {
        let current = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((phase, bar)) = current.as_ref() {
            bar.set_message(format!("{phase}: {words}"));
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some((_, bar)) = self.phase.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            bar.finish_and_clear();
        }
    }
}
