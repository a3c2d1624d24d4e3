//! Checkpoint files during training, for the program and the Python module.

use std::path::Path;
use std::time::Instant;

use crate::error::{Error, Result};
use crate::run::Run;
use crate::units;

/// A checkpoint file that is rewritten during training at intervals of some seconds, and at the end.
///
/// Cost: one copy of the training state per step and its file per interval; nothing without a file.
pub struct Kept<'a, C> {
    path: Option<&'a Path>,
    seconds: f64,
    write: fn(&C, &Path) -> Result<()>,
    last: Instant,
    newest: Option<C>,
}

impl<'a, C: Clone> Kept<'a, C> {
    /// No file is written if `path` is `None`.
    pub fn new(path: Option<&'a Path>, seconds: f64, write: fn(&C, &Path) -> Result<()>) -> Self {
        Kept { path, seconds, write, last: Instant::now(), newest: None }
    }

    /// The state in the file, if the file exists.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn found(&self, read: fn(&Path) -> Result<C>) -> Result<Option<C>> {
        self.path.filter(|path| path.exists()).map(read).transpose()
    }

    /// Takes note of the state after a step.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn step(&mut self, now: &C) -> Result<()> {
        let Some(path) = self.path else { return Ok(()) };
        if self.last.elapsed().as_secs_f64() >= self.seconds {
            (self.write)(now, path)?;
            self.last = Instant::now();
        }
        self.newest = Some(now.clone());
        Ok(())
    }

    /// Writes the state after the last step.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn finish(self) -> Result<()> {
        match (self.path, &self.newest) {
            (Some(path), Some(now)) => (self.write)(now, path),
            _ => Ok(()),
        }
    }
}

/// Refuses a training run whose time budget ended before its first step.
///
/// # Errors
/// If there was no step of the `iterations` that were requested.
pub fn require_step(steps: usize, iterations: usize, run: &Run) -> Result<()> {
    if steps > 0 || iterations == 0 {
        return Ok(());
    }
    Err(Error::OverBudget {
        needs: "training did not finish its first step in time".into(),
        budget: units::precise_seconds(run.time().unwrap_or_default().as_secs_f64()),
        fitting: Vec::new(),
    })
}
