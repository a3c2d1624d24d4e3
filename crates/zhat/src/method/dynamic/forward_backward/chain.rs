//! Gradients of chains with respect to start and emission scores.

use std::ops::Range;

use crate::numeric::parallel::prelude::*;

use super::forecast::Cost;
use super::recorded::{Answered, Recorded};
use crate::error::Result;
use crate::method::dynamic::lattice::{Directed, Direction, Lattice, Messages, is_narrow};
use crate::model::Chain;
use crate::numeric::Real;
use crate::query::sequence::ChainGradient;
use crate::run::Clock;

/// Arrays with fewer numbers than this are processed by one thread.
const PARALLEL: usize = 1 << 15;

impl<F: Real> Recorded for Chain<F> {
    fn cost(&self, checkpoint: bool, threads: usize) -> Cost {
        Cost::of(self, checkpoint, threads)
    }

    fn add_node_marginals(
        &self,
        lattice: &Lattice<'_, F>,
        messages: &Messages<F>,
        clock: &Clock<'_>,
        values: &mut [F],
    ) -> Result<()> {
        each_node(lattice, &messages.window, values, clock, |b, t, row| {
            lattice.node_marginals(messages, b, t, row);
        })
    }

    fn add_marginals(
        &self,
        lattice: &Lattice<'_, F>,
        messages: &Messages<F>,
        cotangent: &[f64],
        clock: &Clock<'_>,
        gradient: &mut ChainGradient<F>,
    ) -> Result<()> {
        each_node(lattice, &messages.window, &mut gradient.emissions, clock, |b, t, row| {
            lattice.node_marginals(messages, b, t, row);
            scale(row, cotangent[b]);
        })
    }

    /// From messages in the linear domain. Their weights are stored in the buffer of the emissions' gradient,
    /// which later overwrites them.
    fn linear_gradient(
        &self,
        lattice: &Lattice<'_, F>,
        cotangent: &[f64],
        clock: &Clock<'_>,
        gradient: &mut ChainGradient<F>,
    ) -> Result<Option<Vec<f64>>> {
        let ChainGradient { emissions, transitions, .. } = gradient;
        if lattice.narrow() {
            return lattice.narrow_gradient(cotangent, emissions, Some(transitions), clock);
        }
        let Some(messages) = lattice.sweep_linear(emissions, clock)? else { return Ok(None) };
        lattice.add_linear_edge_marginals(&messages, emissions, cotangent, clock, transitions)?;
        each_node(lattice, &(0..lattice.layout.steps()), emissions, clock, |b, t, row| {
            lattice.linear_node_marginals(&messages, b, t, cotangent[b], row);
        })?;
        Ok(Some(messages.log_partition))
    }

    fn linear_marginals(
        &self,
        lattice: &Lattice<'_, F>,
        clock: &Clock<'_>,
        values: &mut [F],
    ) -> Result<Option<Vec<f64>>> {
        if !lattice.narrow() {
            return Ok(None);
        }
        lattice.narrow_gradient(&vec![1.0; self.batch()], values, None, clock)
    }

    fn narrow(&self) -> bool {
        is_narrow(self.transitions(), self.states())
    }

    fn add_covariances(
        &self,
        direction: &Direction<'_, F>,
        directed: &Directed<F>,
        values: &[f64],
        cotangent: &[f64],
        clock: &Clock<'_>,
        gradient: &mut ChainGradient<F>,
    ) -> Result<()> {
        each_node(direction.p, &directed.p.window, &mut gradient.emissions, clock, |b, t, row| {
            if cotangent[b] != 0.0 {
                direction.node_covariance(directed, values, b, t, row);
                scale(row, cotangent[b]);
            }
        })
    }

    fn add_differences(
        &self,
        [p, q]: [Answered<'_, F>; 2],
        cotangent: &[f64],
        clock: &Clock<'_>,
        gradient: &mut ChainGradient<F>,
    ) -> Result<()> {
        each_node(q.0, &q.1.window, &mut gradient.emissions, clock, |b, t, row| {
            if cotangent[b] == 0.0 {
                return;
            }
            p.0.node_marginals(p.1, b, t, row);
            let mut of_q = vec![F::ZERO; row.len()];
            q.0.node_marginals(q.1, b, t, &mut of_q);
            row.iter_mut().zip(&of_q).for_each(|(x, &y)| *x = *x - y);
            scale(row, cotangent[b]);
        })
    }

    /// The gradient with respect to the start scores is the gradient of the first emissions, summed over
    /// sequences.
    fn finish_gradient(&self, gradient: &mut ChainGradient<F>) {
        for rows in gradient.emissions.chunks_exact(self.steps() * self.states()) {
            gradient.start.iter_mut().zip(rows).for_each(|(x, &y)| *x += y);
        }
    }
}

/// Calls `work` on each row of the B×T×N array `values` whose position lies in the window.
fn each_node<F: Real>(
    lattice: &Lattice<'_, F>,
    window: &Range<usize>,
    values: &mut [F],
    clock: &Clock<'_>,
    work: impl Fn(usize, usize, &mut [F]) + Sync,
) -> Result<()> {
    let (batch, size) = (lattice.layout.batch(), lattice.layout.largest());
    let sequence = |b: usize, rows: &mut [F]| {
        let length = lattice.layout.length(lattice.layout.place(b));
        for t in window.start..window.end.min(length) {
            clock.check()?;
            work(b, t, &mut rows[t * size..(t + 1) * size]);
        }
        Ok(())
    };
    let stride = values.len() / batch;
    if batch == 1 && values.len() >= PARALLEL {
        let length = lattice.layout.length(0);
        let rows = values.par_chunks_exact_mut(size).enumerate().with_min_len((PARALLEL / 4 / size).max(1));
        return rows.try_for_each(|(t, row)| {
            if window.contains(&t) && t < length {
                clock.check()?;
                work(0, t, row);
            }
            Ok(())
        });
    }
    if values.len() >= PARALLEL {
        values.par_chunks_exact_mut(stride).enumerate().try_for_each(|(b, rows)| sequence(b, rows))
    } else {
        values.chunks_exact_mut(stride).enumerate().try_for_each(|(b, rows)| sequence(b, rows))
    }
}

fn scale<F: Real>(row: &mut [F], factor: f64) {
    if factor != 1.0 {
        let factor = F::from_f64(factor);
        row.iter_mut().for_each(|x| *x *= factor);
    }
}
