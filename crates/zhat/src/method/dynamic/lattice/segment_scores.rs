//! The gradient with respect to the scores of segments, spread over what they are made of: start, emissions and segment scores.

use crate::model::{Segments, SemiMarkov};
use crate::numeric::Real;
use crate::query::sequence::{SemiMarkovGradient, TransitionGradient};

/// The gradient with respect to start, emissions and segment scores of a semi-Markov chain.
pub(crate) struct ScoreGradient<'a, F: Real> {
    model: &'a SemiMarkov<F>,
    start: &'a mut [F],
    emissions: &'a mut [F],
    segments: &'a mut [F],
}

impl<'a, F: Real> ScoreGradient<'a, F> {
    /// The parts of a gradient: this, and that with respect to the transitions.
    pub fn split(
        model: &'a SemiMarkov<F>,
        gradient: &'a mut SemiMarkovGradient<F>,
    ) -> (Self, &'a mut TransitionGradient<F>) {
        let SemiMarkovGradient { chain, segments } = gradient;
        let scores =
            ScoreGradient { model, start: &mut chain.start, emissions: &mut chain.emissions, segments };
        (scores, &mut chain.transitions)
    }

    /// Where the scores of the segments of sequence b from s to t stand, in rows.
    fn row(&self, b: usize, s: usize, t: usize) -> usize {
        match self.model.segments() {
            Segments::Lengths(_) => t - s,
            Segments::Places(_) => (b * self.model.chain().steps() + s) * self.model.longest() + t - s,
        }
    }

    /// Adds that of one segment from s to t.
    pub fn add(&mut self, b: usize, (s, t, state): (usize, usize, usize), weight: f64) {
        let (n, steps, weight) =
            (self.model.chain().states(), self.model.chain().steps(), F::from_f64(weight));
        if s == 0 {
            self.start[state] += weight;
        }
        (s..=t).for_each(|u| self.emissions[(b * steps + u) * n + state] += weight);
        self.segments[self.row(b, s, t) * n + state] += weight;
    }

    /// Adds that of all segments that end at t, in all states: `weights` has a row for each start t, t − 1, …
    pub fn add_ends(&mut self, b: usize, t: usize, weights: &[Vec<f64>]) {
        let (n, steps) = (self.model.chain().states(), self.model.chain().steps());
        // Position s lies in every segment that starts there or before.
        let mut covering = vec![0.0; n];
        for (d, weights) in weights.iter().enumerate().rev() {
            let s = t - d;
            covering.iter_mut().zip(weights).for_each(|(x, y)| *x += y);
            add(&mut self.emissions[(b * steps + s) * n..][..n], &covering);
            let row = self.row(b, s, t);
            add(&mut self.segments[row * n..][..n], weights);
            if s == 0 {
                add(self.start, weights);
            }
        }
    }
}

fn add<F: Real>(to: &mut [F], from: &[f64]) {
    to.iter_mut().zip(from).for_each(|(x, &y)| *x += F::from_f64(y));
}
