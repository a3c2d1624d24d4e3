//! Sweeps with less memory: log Z alone, and checkpoints.
//!
//! The messages after a boundary depend only on the rows for entering the last L positions before it (L = 1
//! in a chain). With windows of W positions, T/W checkpoints of L rows are stored; W = √(T·L) makes the
//! checkpoints as large as a window. Memory O(B·√(T·L)·N), at the cost of one more sweep. Messages and
//! expectations (`direction`) use the same windows.

use std::ops::Range;

use super::layout::{PositionRows, Rows};
use super::messages::{Lattice, Messages, total};
use super::segments::SegmentLayers;
use crate::error::Result;
use crate::numeric::Real;
use crate::run::Clock;

/// Windows of `length` layers each.
pub(super) fn windows(steps: usize, length: usize) -> Vec<Range<usize>> {
    (0..steps).step_by(length.max(1)).map(|start| start..(start + length).min(steps)).collect()
}

/// Result of a forward pass over windows: the checkpoint at the start of each window, and the last window.
pub(super) struct Passed<A, K> {
    checkpoints: Vec<Option<K>>,
    last: Option<A>,
}

/// Passes forward over windows, each starting from the checkpoint of the previous one. `finish` is called
/// with each window. If `keep` is set, all checkpoints are kept for the backward pass, otherwise only the
/// current one.
pub(super) fn pass_forward<A, K>(
    windows: &[Range<usize>],
    keep: bool,
    forward: impl Fn(Option<&K>, Range<usize>) -> Result<A>,
    checkpoint: impl Fn(&A, usize) -> Option<K>,
    mut finish: impl FnMut(Range<usize>, &A),
) -> Result<Passed<A, K>> {
    let mut passed = Passed { checkpoints: vec![None], last: None };
    for window in windows {
        passed.last = None;
        let done = forward(passed.checkpoints.last().and_then(Option::as_ref), window.clone())?;
        finish(window.clone(), &done);
        if !keep {
            passed.checkpoints.clear();
        }
        passed.checkpoints.push(checkpoint(&done, window.end));
        passed.last = Some(done);
    }
    passed.checkpoints.pop();
    Ok(passed)
}

/// Passes backward over the same windows, last first. Each window is recomputed forward, except the last,
/// which is still available.
pub(super) fn pass_backward<A, K>(
    windows: &[Range<usize>],
    mut passed: Passed<A, K>,
    forward: impl Fn(Option<&K>, Range<usize>) -> Result<A>,
    mut visit: impl FnMut(Range<usize>, A) -> Result<()>,
) -> Result<()> {
    for window in windows.iter().rev() {
        let start = passed.checkpoints.pop().flatten();
        let done = match passed.last.take() {
            Some(done) => done,
            None => forward(start.as_ref(), window.clone())?,
        };
        visit(window.clone(), done)?;
    }
    Ok(())
}

impl<F: Real> Lattice<'_, F> {
    /// The length of a window that needs as much memory as the checkpoints.
    pub(super) fn window_length(&self) -> usize {
        let steps = self.layout.steps();
        ((steps * self.longest().min(steps)) as f64).sqrt().ceil().max(1.0) as usize
    }

    /// log Z without stored messages.
    pub fn log_partitions(&self, clock: &Clock<'_>) -> Result<Vec<f64>> {
        let mut log_partition = vec![f64::NEG_INFINITY; self.layout.batch()];
        // A chain needs only the previous layer.
        let length = if self.segments.is_some() { self.window_length() } else { 1 };
        let forward = |kept: Option<&Rows<F>>, window| self.forward_window(kept, window, clock);
        let ends = |window, rows: &PositionRows<F>| self.ends(window, rows, &mut log_partition);
        let windows = windows(self.layout.steps(), length);
        pass_forward(&windows, false, forward, |rows, start| self.checkpoint(rows, start), ends)?;
        Ok(log_partition)
    }

    /// Calls `visit` with the messages of one window at a time, last window first.
    pub fn sweep_windows(
        &self,
        clock: &Clock<'_>,
        mut visit: impl FnMut(&Messages<F>) -> Result<()>,
    ) -> Result<Vec<f64>> {
        let windows = windows(self.layout.steps(), self.window_length());
        let mut log_partition = vec![f64::NEG_INFINITY; self.layout.batch()];
        let forward = |kept: Option<&Rows<F>>, window| self.forward_window(kept, window, clock);
        let ends = |window, rows: &PositionRows<F>| self.ends(window, rows, &mut log_partition);
        let passed = pass_forward(&windows, true, forward, |rows, start| self.checkpoint(rows, start), ends)?;
        let mut behind = None;
        pass_backward(&windows, passed, forward, |window, rows| {
            let start = window.start;
            let messages = self.backward_window(window, rows, behind.as_ref(), &log_partition, clock)?;
            behind = Some(self.carried(&messages.backward, start));
            visit(&messages)
        })?;
        Ok(log_partition)
    }

    /// log Z of the sequences that end in a window.
    fn ends(&self, window: Range<usize>, forward: &PositionRows<F>, log_partition: &mut [f64]) {
        for (t, place) in self.ends_in(window) {
            let log_z = total(forward.row(place, t), forward.scale(place, t));
            log_partition[self.layout.sequence(place)] = log_z;
        }
    }

    /// The last positions of sequences that lie in a window, with the places that end there.
    pub(super) fn ends_in(&self, window: Range<usize>) -> impl Iterator<Item = (usize, usize)> {
        let layout = &self.layout;
        window.flat_map(|t| (layout.active(t + 1)..layout.active(t)).map(move |place| (t, place)))
    }

    /// Forward messages over a window; `kept` is its checkpoint.
    pub(super) fn forward_window(
        &self,
        kept: Option<&Rows<F>>,
        window: Range<usize>,
        clock: &Clock<'_>,
    ) -> Result<PositionRows<F>> {
        let mut rows = self.forward_rows(kept, &window);
        if kept.is_none() {
            self.start(&mut rows);
        } else {
            self.leave_segments(window.start, &mut rows);
        }
        self.forward(&mut rows, window, clock)?;
        Ok(rows)
    }

    /// Backward messages over a window, from the rows `behind` it, combined with the forward messages.
    pub(super) fn backward_window(
        &self,
        window: Range<usize>,
        forward: PositionRows<F>,
        behind: Option<&PositionRows<F>>,
        log_partition: &[f64],
        clock: &Clock<'_>,
    ) -> Result<Messages<F>> {
        let mut backward = self.backward_rows(behind, &window);
        self.backward(&mut backward, window.clone(), clock)?;
        Ok(self.finish(window, forward, backward, log_partition.to_vec()))
    }

    /// The earliest start of a segment that ends at t.
    fn first_start(&self, t: usize) -> usize {
        (t + 1).saturating_sub(self.longest())
    }

    /// One past the last position that segments starting before `end` can reach. For a chain, one past the
    /// layer after the window.
    fn reach(&self, end: usize) -> usize {
        let behind = if self.segments.is_some() { self.longest() - 1 } else { 1 };
        (end + behind).min(self.layout.steps())
    }

    /// Rows for the forward pass: for leaving each position of a window, and for entering each start of a
    /// segment that reaches into it and the position after it. The rows up to the first position of the
    /// window come from a checkpoint.
    pub(super) fn forward_rows(&self, kept: Option<&Rows<F>>, window: &Range<usize>) -> PositionRows<F> {
        let first = self.first_start(window.start);
        let end = (window.end + 1).min(self.layout.steps());
        let mut entered = Rows::new(self.entered(), first..end, F::ZERO);
        if let Some(kept) = kept {
            (first..=window.start).for_each(|t| entered.copy_layer(kept, t, self.layout.active(t)));
        }
        match self.segments {
            None => PositionRows { left: entered, entered: None },
            Some(_) => {
                let left = Rows::new(&self.layout, window.clone(), F::ZERO);
                PositionRows { left, entered: Some(entered) }
            }
        }
    }

    /// The rows that a window starting at `start` needs: those before it, and its first.
    pub(super) fn checkpoint(&self, rows: &PositionRows<F>, start: usize) -> Option<Rows<F>> {
        let some = start < self.layout.steps();
        some.then(|| rows.entered().copied(self.entered(), self.first_start(start)..start + 1))
    }

    /// Rows for the backward pass: for entering each position of a window and the one after it, and for
    /// leaving each end of a segment that starts in it. The rows after the window are given.
    pub(super) fn backward_rows(
        &self,
        behind: Option<&PositionRows<F>>,
        window: &Range<usize>,
    ) -> PositionRows<F> {
        let (steps, active) = (self.layout.steps(), |t| self.layout.active(t));
        let reach = self.reach(window.end);
        let mut left = Rows::new(&self.layout, window.start..reach, F::ZERO);
        let next = (window.end + 1).min(steps);
        let entered =
            |segments: &SegmentLayers<'_, F>| Rows::new(&segments.entered, window.start..next, F::ZERO);
        let mut entered = self.segments.as_ref().map(entered);
        if let Some(behind) = behind {
            (window.end..reach).for_each(|t| left.copy_layer(&behind.left, t, active(t)));
            if let (Some(rows), Some(behind)) = (&mut entered, &behind.entered) {
                (window.end..next).for_each(|t| rows.copy_layer(behind, t, active(t)));
            }
        }
        PositionRows { left, entered }
    }

    /// The rows of the window starting at `start` that the window before it needs.
    pub(super) fn carried(&self, rows: &PositionRows<F>, start: usize) -> PositionRows<F> {
        let left = rows.left.copied(&self.layout, start..self.reach(start));
        let entered = rows.entered.as_ref().map(|rows| rows.copied(self.entered(), start..start + 1));
        PositionRows { left, entered }
    }
}
