//! Gradients of semi-Markov chains with respect to start, emission and segment scores.

use std::ops::Range;

use crate::numeric::parallel::prelude::*;

use super::forecast::Cost;
use super::recorded::{Answered, Recorded};
use crate::error::Result;
use crate::method::dynamic::lattice::{Directed, Direction, Lattice, Messages};
use crate::model::{Segments, SemiMarkov};
use crate::numeric::Real;
use crate::query::sequence::SemiMarkovGradient;
use crate::run::Clock;

impl<F: Real> Recorded for SemiMarkov<F> {
    fn cost(&self, checkpoint: bool, threads: usize) -> Cost {
        Cost::of_segments(self, checkpoint, threads)
    }

    /// P(position t lies in a segment of state i).
    fn add_node_marginals(
        &self,
        lattice: &Lattice<'_, F>,
        messages: &Messages<F>,
        clock: &Clock<'_>,
        values: &mut [F],
    ) -> Result<()> {
        let (ones, mut start) = (vec![1.0; self.chain().batch()], vec![F::ZERO; self.chain().states()]);
        add_marginals(self, lattice, messages, &ones, clock, [&mut start, values, &mut []])
    }

    fn add_marginals(
        &self,
        lattice: &Lattice<'_, F>,
        messages: &Messages<F>,
        cotangent: &[f64],
        clock: &Clock<'_>,
        gradient: &mut SemiMarkovGradient<F>,
    ) -> Result<()> {
        add_marginals(self, lattice, messages, cotangent, clock, parts(gradient))
    }

    fn add_covariances(
        &self,
        direction: &Direction<'_, F>,
        directed: &Directed<F>,
        values: &[f64],
        cotangent: &[f64],
        clock: &Clock<'_>,
        gradient: &mut SemiMarkovGradient<F>,
    ) -> Result<()> {
        each_start(self, &directed.p.window, cotangent, clock, parts(gradient), |b, s, visit| {
            direction.segment_covariances(directed, values[b], b, s, visit);
        })
    }

    fn add_differences(
        &self,
        [p, q]: [Answered<'_, F>; 2],
        cotangent: &[f64],
        clock: &Clock<'_>,
        gradient: &mut SemiMarkovGradient<F>,
    ) -> Result<()> {
        let less: Vec<f64> = cotangent.iter().map(|c| -c).collect();
        add_marginals(self, p.0, p.1, cotangent, clock, parts(gradient))?;
        add_marginals(self, q.0, q.1, &less, clock, parts(gradient))
    }
}

/// Gradients with respect to start, emissions and segment scores.
fn parts<F: Real>(gradient: &mut SemiMarkovGradient<F>) -> [&mut [F]; 3] {
    [&mut gradient.chain.start, &mut gradient.chain.emissions, &mut gradient.segments]
}

/// Adds Σ_b cotangent_b · P(segment) to the gradients with respect to start, emissions and segments.
fn add_marginals<F: Real>(
    model: &SemiMarkov<F>,
    lattice: &Lattice<'_, F>,
    messages: &Messages<F>,
    cotangent: &[f64],
    clock: &Clock<'_>,
    gradient: [&mut [F]; 3],
) -> Result<()> {
    let some = |b: usize| if messages.log_partition[b] > f64::NEG_INFINITY { cotangent[b] } else { 0.0 };
    let cotangent: Vec<f64> = (0..cotangent.len()).map(some).collect();
    each_start(model, &messages.window, &cotangent, clock, gradient, |b, s, visit| {
        lattice.segment_marginals(messages, b, s, |t, marginals, _| visit(t, marginals));
    })
}

/// Distributes the weights that `weigh` assigns to the segments from each start of a window over the
/// parameters of those segments. Sequences are added up in order, so the result has the same bits for any
/// number of threads.
fn each_start<F: Real>(
    model: &SemiMarkov<F>,
    window: &Range<usize>,
    cotangent: &[f64],
    clock: &Clock<'_>,
    [to_start, to_emissions, to_segments]: [&mut [F]; 3],
    weigh: impl Fn(usize, usize, &mut dyn FnMut(usize, &[f64])) + Sync,
) -> Result<()> {
    let chain = model.chain();
    let (n, longest) = (chain.states(), model.longest());
    // Gradients with respect to start, emissions and segments of one sequence.
    let sequence = |b: usize| {
        let length = chain.lengths()[b];
        let starts = window.start..window.end.min(length);
        let mut start = vec![0.0; n];
        let mut emissions = vec![0.0; ((window.end + longest - 1).min(length) - window.start) * n];
        let places = matches!(model.segments(), Segments::Places(_));
        let mut segments = vec![0.0; if places { starts.len() * longest * n } else { longest * n }];
        for s in starts {
            clock.check()?;
            let mut ends: Vec<Vec<f64>> = Vec::new();
            weigh(b, s, &mut |_, weights| ends.push(weights.to_vec()));
            let from = if places { (s - window.start) * longest * n } else { 0 };
            for (row, weights) in segments[from..].chunks_exact_mut(n).zip(&ends) {
                row.iter_mut().zip(weights).for_each(|(x, w)| *x += w);
            }
            // Position s + d lies in every segment longer than d.
            let mut covering = vec![0.0; n];
            for (d, weights) in ends.iter().enumerate().rev() {
                covering.iter_mut().zip(weights).for_each(|(x, w)| *x += w);
                let row = &mut emissions[(s + d - window.start) * n..][..n];
                row.iter_mut().zip(&covering).for_each(|(x, w)| *x += w);
            }
            if s == 0 {
                start = covering;
            }
        }
        Ok((start, emissions, segments))
    };
    let has_some = |b: &usize| cotangent[*b] != 0.0 && window.start < chain.lengths()[*b];
    let wanted: Vec<usize> = (0..chain.batch()).filter(has_some).collect();
    let parts: Vec<_> = wanted.par_iter().map(|&b| sequence(b)).collect::<Result<_>>()?;
    let add = |to: &mut [F], from: &[f64], factor: f64| {
        to.iter_mut().zip(from).for_each(|(x, y)| *x += F::from_f64(factor * y));
    };
    for (b, (start, emissions, segments)) in wanted.into_iter().zip(parts) {
        let (c, at) = (cotangent[b], (b * chain.steps() + window.start) * n);
        add(to_start, &start, c);
        add(&mut to_emissions[at..], &emissions, c);
        // Node marginals do not need the gradient of the segment scores.
        if !to_segments.is_empty() {
            let at = if matches!(model.segments(), Segments::Places(_)) { at * longest } else { 0 };
            add(&mut to_segments[at..], &segments, c);
        }
    }
    Ok(())
}
