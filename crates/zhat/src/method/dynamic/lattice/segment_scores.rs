//! Distributes the gradient with respect to segments over start, emission and segment scores.

use crate::model::{Chain, Segments, SemiMarkov};
use crate::numeric::Real;
use crate::query::sequence::{ChainGradient, TransitionGradient};

/// The gradient with respect to start, emissions and, for a semi-Markov chain, segment scores. In a chain,
/// each segment has one position.
pub struct ScoreGradient<'a, F: Real> {
    chain: &'a Chain<F>,
    start: &'a mut [F],
    emissions: &'a mut [F],
    segments: Option<(&'a SemiMarkov<F>, &'a mut [F])>,
}

impl<'a, F: Real> ScoreGradient<'a, F> {
    /// Splits a gradient into this part and the part with respect to the transitions.
    pub fn split(
        chain: &'a Chain<F>,
        gradient: &'a mut ChainGradient<F>,
        segments: Option<(&'a SemiMarkov<F>, &'a mut Vec<F>)>,
    ) -> (Self, &'a mut TransitionGradient<F>) {
        let ChainGradient { start, emissions, transitions, .. } = gradient;
        let segments = segments.map(|(model, values)| (model, values.as_mut_slice()));
        (ScoreGradient { chain, start, emissions, segments }, transitions)
    }

    /// The row index of the scores of segments of sequence b from s to t.
    fn row(model: &SemiMarkov<F>, b: usize, s: usize, t: usize) -> usize {
        match model.segments() {
            Segments::Lengths(_) => t - s,
            Segments::Places(_) => (b * model.chain().steps() + s) * model.longest() + t - s,
        }
    }

    /// Adds the gradient of one segment from s to t.
    pub fn add(&mut self, b: usize, (s, t, state): (usize, usize, usize), weight: F) {
        let (n, steps) = (self.chain.states(), self.chain.steps());
        if s == 0 {
            self.start[state] += weight;
        }
        (s..=t).for_each(|u| self.emissions[(b * steps + u) * n + state] += weight);
        if let Some((model, segments)) = &mut self.segments {
            segments[Self::row(model, b, s, t) * n + state] += weight;
        }
    }

    /// For a chain: adds the gradient with respect to the node scores of all states at t.
    pub fn add_nodes(&mut self, b: usize, t: usize, weights: &[F]) {
        let from = (b * self.chain.steps() + t) * self.chain.states();
        F::add_to(&mut self.emissions[from..][..weights.len()], weights);
        if t == 0 {
            F::add_to(self.start, weights);
        }
    }

    /// Adds the gradient of all segments that end at t, for all states. `weights` has one row for each start
    /// t, t − 1, …
    pub fn add_ends(&mut self, b: usize, t: usize, weights: &[Vec<f64>]) {
        let (n, steps) = (self.chain.states(), self.chain.steps());
        // Position s lies in every segment that starts at s or earlier.
        let mut covering = vec![0.0; n];
        for (d, weights) in weights.iter().enumerate().rev() {
            let s = t - d;
            covering.iter_mut().zip(weights).for_each(|(x, y)| *x += y);
            add(&mut self.emissions[(b * steps + s) * n..][..n], &covering);
            if let Some((model, segments)) = &mut self.segments {
                add(&mut segments[Self::row(model, b, s, t) * n..][..n], weights);
            }
            if s == 0 {
                add(self.start, weights);
            }
        }
    }
}

fn add<F: Real>(to: &mut [F], from: &[f64]) {
    to.iter_mut().zip(from).for_each(|(x, &y)| *x += F::from_f64(y));
}
