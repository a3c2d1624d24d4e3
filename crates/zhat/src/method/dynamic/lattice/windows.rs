//! Messages in less memory: log Z alone with two layers at a time, and checkpoints.

use std::ops::Range;

use super::layout::Rows;
use super::messages::{Lattice, Messages, total};
use crate::error::Result;
use crate::numeric::Real;
use crate::run::Clock;

impl<F: Real> Lattice<'_, F> {
    /// log Z alone: two layers at a time.
    pub fn log_partitions(&self, clock: &Clock<'_>) -> Result<Vec<f64>> {
        let mut log_partition = vec![f64::NEG_INFINITY; self.layout.batch()];
        let mut rows = Rows::new(&self.layout, 0..self.layout.steps().min(1), F::ZERO);
        self.start(&mut rows);
        for t in 0..self.layout.steps() {
            if t > 0 {
                let mut next = Rows::new(&self.layout, t - 1..t + 1, F::ZERO);
                next.copy_layer(&rows, t - 1, self.layout.active(t - 1));
                self.forward(&mut next, t - 1..t + 1, clock)?;
                rows = next;
            }
            for place in self.layout.active(t + 1)..self.layout.active(t) {
                log_partition[self.layout.sequence(place)] = total(rows.row(place, t), rows.scale(place, t));
            }
        }
        Ok(log_partition)
    }

    /// Calls `visit` with the messages of one window of about √T layers after the other, the last window first.
    pub fn sweep_windows(
        &self,
        clock: &Clock<'_>,
        mut visit: impl FnMut(&Messages<F>) -> Result<()>,
    ) -> Result<Vec<f64>> {
        let steps = self.layout.steps();
        let length = (steps as f64).sqrt().ceil().max(1.0) as usize;
        let starts: Vec<usize> = (0..steps).step_by(length).collect();
        // Forward once, keeping the first layer of every window.
        let mut kept: Vec<Rows<F>> = Vec::with_capacity(starts.len());
        let mut log_partition = vec![f64::NEG_INFINITY; self.layout.batch()];
        for &start in &starts {
            let window = start..(start + length + 1).min(steps);
            let rows = self.forward_window(&kept, window.clone(), clock)?;
            for t in start..(start + length).min(steps) {
                for place in self.layout.active(t + 1)..self.layout.active(t) {
                    log_partition[self.layout.sequence(place)] =
                        total(rows.row(place, t), rows.scale(place, t));
                }
            }
            if start == 0 {
                let mut first = Rows::new(&self.layout, 0..1, F::ZERO);
                first.copy_layer(&rows, 0, self.layout.active(0));
                kept.push(first);
            }
            if window.end > start + length {
                let mut next = Rows::new(&self.layout, start + length..start + length + 1, F::ZERO);
                next.copy_layer(&rows, start + length, self.layout.active(start + length));
                kept.push(next);
            }
        }
        let mut after: Option<Rows<F>> = None;
        for &start in starts.iter().rev() {
            let layers = start..(start + length + 1).min(steps);
            let forward = self.forward_window(&kept, layers.clone(), clock)?;
            kept.pop();
            let mut backward = Rows::new(&self.layout, layers.clone(), F::ZERO);
            if let Some(after) = &after {
                backward.copy_layer(after, layers.end - 1, self.layout.active(layers.end - 1));
            }
            self.backward(&mut backward, layers.clone(), clock)?;
            let mut carried = Rows::new(&self.layout, start..start + 1, F::ZERO);
            carried.copy_layer(&backward, start, self.layout.active(start));
            after = Some(carried);
            let window = start..(start + length).min(steps);
            visit(&self.finish(window, forward, backward, log_partition.clone()))?;
        }
        Ok(log_partition)
    }

    /// Messages forward over the layers of a window, from the last layer kept.
    pub(super) fn forward_window(
        &self,
        kept: &[Rows<F>],
        window: Range<usize>,
        clock: &Clock<'_>,
    ) -> Result<Rows<F>> {
        let mut rows = Rows::new(&self.layout, window.clone(), F::ZERO);
        match kept.last() {
            Some(first) => rows.copy_layer(first, window.start, self.layout.active(window.start)),
            None => self.start(&mut rows),
        }
        self.forward(&mut rows, window, clock)?;
        Ok(rows)
    }
}
