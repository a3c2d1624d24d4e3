//! Messages and expectations of segments in less memory: log Z alone, and checkpoints.
//!
//! What follows from a boundary on depends on the messages into the last L positions before it. With windows of W positions, T/W
//! checkpoints of L rows are kept; W = √(T·L) makes them as large as a window. Memory O(B·√(T·L)·N) at the price of one more sweep.

use std::ops::Range;

use super::direction::View;
use super::layout::{Layout, Rows};
use super::messages::{Messages, each, total};
use super::segment_direction::{SegmentDirected, SegmentDirection};
use super::segments::SegmentLattice;
use super::steps::Product;
use crate::error::Result;
use crate::numeric::Real;
use crate::run::Clock;

/// Rows that make a product through ln M worth making it.
const WINDOW_ROWS: usize = 128;

/// Messages forward: out of the positions of a window, and into those that segments of the window start at.
pub(crate) struct Ahead<F> {
    pub(super) forward: Rows<F>,
    pub(super) entered: Rows<F>,
}

impl<F: Real> Ahead<F> {
    fn view(&self) -> View<'_, F> {
        View { forward: &self.forward, entered: Some(&self.entered) }
    }
}

/// What a window needs of those behind it.
struct Behind<F> {
    backward: Rows<F>,
    entering: Rows<F>,
}

impl<F: Real> SegmentLattice<'_, F> {
    /// The length of a window that takes as much memory as the checkpoints do.
    fn window_length(&self) -> usize {
        let steps = self.base.layout.steps();
        let longest = self.segments.longest().min(steps);
        ((steps * longest) as f64).sqrt().ceil().max(1.0) as usize
    }

    /// The starts of segments that end at t or later, up to t.
    fn starts_before(&self, t: usize) -> usize {
        (t + 1).saturating_sub(self.segments.longest())
    }

    /// One behind the last end of segments that start before `end`.
    fn ends_behind(&self, end: usize) -> usize {
        (end + self.segments.longest() - 1).min(self.base.layout.steps())
    }

    /// log Z alone.
    pub fn log_partitions(&self, clock: &Clock<'_>) -> Result<Vec<f64>> {
        let mut log_partition = vec![f64::NEG_INFINITY; self.base.layout.batch()];
        let mut kept = None;
        for window in windows(self.base.layout.steps(), self.window_length()) {
            let ahead = self.forward_window(kept.as_ref(), window.clone(), clock)?;
            self.ends(window.clone(), &ahead, &mut log_partition);
            kept = self.checkpoint(&ahead.entered, window.end);
        }
        Ok(log_partition)
    }

    /// The messages forward alone, of all positions, and log Z.
    pub fn sweep_forward(&self, clock: &Clock<'_>) -> Result<(Ahead<F>, Vec<f64>)> {
        let all = 0..self.base.layout.steps();
        let mut log_partition = vec![f64::NEG_INFINITY; self.base.layout.batch()];
        let ahead = self.forward_window(None, all.clone(), clock)?;
        self.ends(all, &ahead, &mut log_partition);
        Ok((ahead, log_partition))
    }

    /// Calls `visit` with the messages of one window after the other, the last window first.
    pub fn sweep_windows(
        &self,
        clock: &Clock<'_>,
        mut visit: impl FnMut(&Messages<F>) -> Result<()>,
    ) -> Result<Vec<f64>> {
        let windows: Vec<_> = windows(self.base.layout.steps(), self.window_length()).collect();
        let mut log_partition = vec![f64::NEG_INFINITY; self.base.layout.batch()];
        let (mut kept, mut last) = (vec![None], None);
        for window in &windows {
            let ahead = self.forward_window(kept.last().and_then(Option::as_ref), window.clone(), clock)?;
            self.ends(window.clone(), &ahead, &mut log_partition);
            kept.push(self.checkpoint(&ahead.entered, window.end));
            last = Some(ahead);
        }
        kept.pop();
        let mut behind = None;
        for window in windows.into_iter().rev() {
            let start = kept.pop().flatten();
            // The last window stands there already.
            let ahead = match last.take() {
                Some(ahead) => ahead,
                None => self.forward_window(start.as_ref(), window.clone(), clock)?,
            };
            let messages = self.backward_window(window, ahead, behind.as_ref(), &log_partition, clock)?;
            behind = Some(self.behind(&messages));
            visit(&messages)?;
        }
        Ok(log_partition)
    }

    /// log Z of the sequences that end in a window.
    fn ends(&self, window: Range<usize>, ahead: &Ahead<F>, log_partition: &mut [f64]) {
        let layout = &self.base.layout;
        for t in window {
            for place in layout.active(t + 1)..layout.active(t) {
                let scale = ahead.forward.scale(place, t);
                log_partition[layout.sequence(place)] = total(ahead.forward.row(place, t), scale);
            }
        }
    }

    /// The rows that a window from `start` on needs, of those before it and its first.
    fn checkpoint(&self, rows: &Rows<F>, start: usize) -> Option<Rows<F>> {
        let some = start < self.base.layout.steps();
        some.then(|| copied(&self.entered, rows, self.starts_before(start)..start + 1))
    }

    /// Messages forward over a window; `kept` is its checkpoint.
    fn forward_window(
        &self,
        kept: Option<&Rows<F>>,
        window: Range<usize>,
        clock: &Clock<'_>,
    ) -> Result<Ahead<F>> {
        let layout = &self.base.layout;
        let mut entered = self.rows_from(kept, &window);
        let mut forward = Rows::new(layout, window.clone(), F::ZERO);
        for t in window {
            clock.step("forward messages", t, layout.steps())?;
            self.leave_forward(t, &mut forward, &entered);
            let count = layout.active(t + 1);
            if count > 0 {
                let (size, next) = self.base.steps.shape(t);
                let (mut input, mut output) = (vec![F::ZERO; count * size], vec![F::ZERO; count * next]);
                self.base.leave(t, &forward, &mut input);
                let product = Product { t, count, input: &input, output: &mut output };
                self.base.steps.multiply(Some(product), None);
                self.enter_forward(t, &forward, &mut entered, &mut output, clock);
            }
        }
        clock.check()?;
        Ok(Ahead { forward, entered })
    }

    /// Rows for what is entered by segments that meet a window, and right behind it, from its checkpoint.
    fn rows_from(&self, kept: Option<&Rows<F>>, window: &Range<usize>) -> Rows<F> {
        let first = self.starts_before(window.start);
        let end = (window.end + 1).min(self.base.layout.steps());
        let mut rows = Rows::new(&self.entered, first..end, F::ZERO);
        if let Some(kept) = kept {
            (first..=window.start).for_each(|t| rows.copy_layer(kept, t, self.entered.active(t)));
        }
        rows
    }

    /// Messages backward over a window.
    fn backward_window(
        &self,
        window: Range<usize>,
        ahead: Ahead<F>,
        behind: Option<&Behind<F>>,
        log_partition: &[f64],
        clock: &Clock<'_>,
    ) -> Result<Messages<F>> {
        let layout = &self.base.layout;
        let none = Behind { backward: Rows::none(), entering: Rows::none() };
        let behind = behind.unwrap_or(&none);
        let mut backward = self.left_rows(&behind.backward, &window);
        let mut entering = self.entered_rows(&behind.entering, &window);
        for t in window.clone().rev() {
            clock.step("backward messages", layout.steps() - 1 - t, layout.steps())?;
            let count = layout.active(t + 1);
            if count > 0 {
                let (size, next) = self.base.steps.shape(t);
                let (mut input, mut output) = (vec![F::ZERO; count * next], vec![F::ZERO; count * size]);
                each(&mut input, next, |place, row| {
                    row.copy_from_slice(entering.row(place, t + 1));
                    F::exp_in_place(row);
                });
                let product = Product { t, count, input: &input, output: &mut output };
                self.base.steps.multiply(None, Some(product));
                self.leave_backward(&|_| t, &mut backward, &entering, &mut output, clock);
            }
            self.follow_all(t, &backward, &mut entering);
        }
        clock.check()?;
        Ok(self.finish(window, [ahead.forward, backward, ahead.entered, entering], log_partition.to_vec()))
    }

    /// Rows for what is left by segments that start in a window; those behind it are given.
    fn left_rows(&self, behind: &Rows<F>, window: &Range<usize>) -> Rows<F> {
        let end = self.ends_behind(window.end);
        let mut rows = Rows::new(&self.base.layout, window.start..end, F::ZERO);
        (window.end..end).for_each(|t| rows.copy_layer(behind, t, self.base.layout.active(t)));
        rows
    }

    /// Rows for what is entered in a window and right behind it, which is given.
    fn entered_rows(&self, behind: &Rows<F>, window: &Range<usize>) -> Rows<F> {
        let end = (window.end + 1).min(self.base.layout.steps());
        let mut rows = Rows::new(&self.entered, window.start..end, F::ZERO);
        (window.end..end).for_each(|t| rows.copy_layer(behind, t, self.entered.active(t)));
        rows
    }

    /// What the window before needs of this one.
    fn behind(&self, messages: &Messages<F>) -> Behind<F> {
        let start = messages.window.start;
        let backward = copied(&self.base.layout, &messages.backward, start..self.ends_behind(start));
        let entering = match &messages.entering {
            Some(rows) => copied(&self.entered, rows, start..start + 1),
            None => Rows::none(),
        };
        Behind { backward, entering }
    }
}

/// What a window needs of those before it: messages into both lattices, and expectations.
struct Checkpoint<F> {
    p: Rows<F>,
    q: Option<Rows<F>>,
    before_entering: Rows<F>,
}

/// Messages forward and expectations of a window.
struct Expected<F> {
    p: Ahead<F>,
    q: Option<Ahead<F>>,
    before_entering: Rows<F>,
    before: Rows<F>,
}

impl<F: Real> SegmentDirection<'_, F> {
    /// E[D] and log Z_p of each sequence.
    pub fn expectation(&self, clock: &Clock<'_>) -> Result<(Vec<f64>, Vec<f64>)> {
        let layout = &self.p.base.layout;
        // Windows as short as they can be while products through ln M have rows enough.
        let length = self.p.window_length().max(WINDOW_ROWS.div_ceil(layout.batch().max(1)));
        let logs = self.direction.logs();
        let mut values = vec![0.0; layout.batch()];
        let (mut log_partition, mut kept) = (values.clone(), None);
        for window in windows(layout.steps(), length) {
            let expected = self.forward_window(kept.as_ref(), window.clone(), &logs, clock)?;
            self.ends(window.clone(), &expected, &mut values, &mut log_partition);
            kept = self.checkpoint(&expected, window.end);
        }
        self.mark_forbidden(&mut values, clock)?;
        Ok((values, log_partition))
    }

    /// Calls `visit` with E[D] and all that the gradient needs of one window after the other, the last first. E[D] has no meaning where it
    /// is infinite.
    pub fn sweep_windows(
        &self,
        clock: &Clock<'_>,
        mut visit: impl FnMut(&[f64], SegmentDirected<F>) -> Result<()>,
    ) -> Result<()> {
        let layout = &self.p.base.layout;
        let windows: Vec<_> = windows(layout.steps(), self.p.window_length()).collect();
        let logs = self.direction.logs();
        let mut values = vec![0.0; layout.batch()];
        let mut log_partition = values.clone();
        let (mut kept, mut last) = (vec![None], None);
        for window in &windows {
            let start = kept.last().and_then(Option::as_ref);
            let expected = self.forward_window(start, window.clone(), &logs, clock)?;
            self.ends(window.clone(), &expected, &mut values, &mut log_partition);
            kept.push(self.checkpoint(&expected, window.end));
            last = Some(expected);
        }
        kept.pop();
        let log_partition_q = match self.q {
            Some(q) => q.log_partitions(clock)?,
            None => Vec::new(),
        };
        let (mut of_p, mut of_q, mut expectations) = (None, None, None);
        for window in windows.into_iter().rev() {
            let start = kept.pop().flatten();
            let expected = match last.take() {
                Some(expected) => expected,
                None => self.forward_window(start.as_ref(), window.clone(), &logs, clock)?,
            };
            let Expected { p, q, before_entering, before } = expected;
            let p = self.p.backward_window(window.clone(), p, of_p.as_ref(), &log_partition, clock)?;
            let q = match (self.q, q) {
                (Some(lattice), Some(q)) => Some(lattice.backward_window(
                    window.clone(),
                    q,
                    of_q.as_ref(),
                    &log_partition_q,
                    clock,
                )?),
                _ => None,
            };
            let none = Behind { backward: Rows::none(), entering: Rows::none() };
            let behind = expectations.as_ref().unwrap_or(&none);
            let mut after_leaving = self.p.left_rows(&behind.backward, &window);
            let mut after = self.p.entered_rows(&behind.entering, &window);
            self.go_backward(window.clone(), &p, q.as_ref(), &logs, &mut after_leaving, &mut after, clock)?;
            let ends = window.start..self.p.ends_behind(window.start);
            expectations = Some(Behind {
                backward: copied(layout, &after_leaving, ends),
                entering: copied(&self.p.entered, &after, window.start..window.start + 1),
            });
            of_p = Some(self.p.behind(&p));
            of_q = self.q.zip(q.as_ref()).map(|(lattice, q)| lattice.behind(q));
            visit(&values, SegmentDirected::new(p, q, [before_entering, before, after_leaving, after]))?;
        }
        Ok(())
    }

    fn forward_window(
        &self,
        kept: Option<&Checkpoint<F>>,
        window: Range<usize>,
        logs: &super::direction::Logs<'_, F>,
        clock: &Clock<'_>,
    ) -> Result<Expected<F>> {
        let p = self.p.forward_window(kept.map(|rows| &rows.p), window.clone(), clock)?;
        let from = kept.and_then(|rows| rows.q.as_ref());
        let q = self.q.map(|q| q.forward_window(from, window.clone(), clock)).transpose()?;
        let mut before_entering = self.p.rows_from(kept.map(|rows| &rows.before_entering), &window);
        let mut before = Rows::new(&self.p.base.layout, window.clone(), F::ZERO);
        let of_q = q.as_ref().map(Ahead::view);
        self.go_forward(window, p.view(), of_q, logs, &mut before_entering, &mut before, clock)?;
        Ok(Expected { p, q, before_entering, before })
    }

    fn checkpoint(&self, expected: &Expected<F>, start: usize) -> Option<Checkpoint<F>> {
        let p = self.p.checkpoint(&expected.p.entered, start)?;
        let before_entering = self.p.checkpoint(&expected.before_entering, start)?;
        let q =
            self.q.zip(expected.q.as_ref()).and_then(|(lattice, q)| lattice.checkpoint(&q.entered, start));
        Some(Checkpoint { p, q, before_entering })
    }

    /// E[D] and log Z_p of the sequences that end in a window.
    fn ends(
        &self,
        window: Range<usize>,
        expected: &Expected<F>,
        values: &mut [f64],
        log_partition: &mut [f64],
    ) {
        let (layout, q) = (&self.p.base.layout, expected.q.as_ref().map(Ahead::view));
        for t in window {
            for place in layout.active(t + 1)..layout.active(t) {
                let b = layout.sequence(place);
                (values[b], log_partition[b]) =
                    self.direction.at_end(place, t, expected.p.view(), q, &expected.before);
            }
        }
    }
}

fn windows(steps: usize, length: usize) -> impl Iterator<Item = Range<usize>> {
    (0..steps).step_by(length).map(move |start| start..(start + length).min(steps))
}

fn copied<F: Real>(layout: &Layout, rows: &Rows<F>, layers: Range<usize>) -> Rows<F> {
    let mut copy = Rows::new(layout, layers.clone(), F::ZERO);
    layers.for_each(|t| copy.copy_layer(rows, t, layout.active(t)));
    copy
}
