//! L-BFGS on the exact gradient.
//!
//! By Fisher's identity the gradient of the log-likelihood is that of the expected complete log-likelihood, so the
//! expected counts of an EM step are all it needs. Coordinates are unconstrained: logits of the probabilities that are
//! not zero, logarithms of rates, and the coordinates of `emission/gaussian/descent.rs`; fixed parts have none. Tied
//! states start with the same parameters and have the same derivatives, those of the averaged statistics, so they
//! remain the same. The objective, which includes the priors, is divided by the number of rows.

use super::emission::{Context, padded};
use super::forecast::HISTORY;
use super::group::Counts;
use super::learning::Learning;
use super::model::Hmm;
use super::simplex::{logits, place_rows, row_gradient};
use super::sweep::{Plan, expect};
use super::train::{HmmCheckpoint, Work};
use crate::error::Result;
use crate::optimize::Lbfgs;

impl Learning {
    /// The coordinates of a model.
    pub(super) fn coordinates(&self, hmm: &Hmm, context: &Context) -> Vec<f64> {
        let mut out = Vec::new();
        if !self.fixed_start {
            logits(&hmm.start, &mut out);
        }
        if !self.fixed_transitions {
            logits(&hmm.transitions, &mut out);
        }
        if let Some(durations) = hmm.durations.as_ref().filter(|_| !self.fixed_durations) {
            durations.coordinates(&mut out);
        }
        if !self.fixed_emissions {
            hmm.emissions.part().coordinates(context, &mut out);
        }
        out
    }

    /// Replaces the parameters by those of coordinates.
    pub(super) fn place(&self, hmm: &mut Hmm, mut from: &[f64], context: &Context) {
        let states = hmm.states();
        if !self.fixed_start {
            place_rows(&mut hmm.start, states, &mut from);
        }
        if !self.fixed_transitions {
            place_rows(&mut hmm.transitions, states, &mut from);
        }
        if let Some(durations) = hmm.durations.as_mut().filter(|_| !self.fixed_durations) {
            durations.place(&mut from);
        }
        if !self.fixed_emissions {
            hmm.emissions.part_mut().place(&mut from, context);
        }
    }

    /// The derivatives of log-likelihood plus log prior by the coordinates `at` of the model.
    pub(super) fn gradient(&self, hmm: &Hmm, at: &[f64], counts: &Counts, context: &Context) -> Vec<f64> {
        let (states, width) = (hmm.states(), padded(hmm.states()));
        let mut out = Vec::with_capacity(at.len());
        if !self.fixed_start {
            row_gradient(&hmm.start, counts.start.iter().copied(), self.start_prior, &mut out);
        }
        if !self.fixed_transitions {
            for (row, counts) in
                hmm.transitions.chunks_exact(states).zip(counts.transitions.chunks_exact(width))
            {
                row_gradient(row, counts.iter().copied(), self.transition_prior, &mut out);
            }
        }
        if let Some(durations) = hmm.durations.as_ref().filter(|_| !self.fixed_durations) {
            durations.gradient(&counts.durations, self.duration_prior, &mut out);
        }
        if !self.fixed_emissions {
            let first = out.len();
            let statistics = hmm.tied(&counts.emissions);
            hmm.emissions.part().gradient(&at[first..], &statistics, context, &mut out);
        }
        out
    }
}

impl Work<'_> {
    /// One step of L-BFGS; `Some` with whether it converged if the start is finished. Nothing changes if it fails.
    pub(super) fn descend(&self, now: &mut HmmCheckpoint) -> Result<Option<bool>> {
        let rows = self.data.rows() as f64;
        let plan = Plan::new(self.data, &self.all());
        let mut search = match &now.search {
            Some(search) => search.clone(),
            None => Lbfgs::new(self.how.coordinates(&now.model, &self.context), HISTORY),
        };
        let (mut model, mut evaluations) = (now.model.clone(), usize::from(now.search.is_some()));
        let mut objective = |at: &[f64], gradient: &mut [f64]| -> Result<f64> {
            evaluations += 1;
            self.how.place(&mut model, at, &self.context);
            if model.emissions.part().check().is_err() {
                return Ok(f64::INFINITY);
            }
            let density = model.emissions.part().density(&self.context);
            let found = expect(&model, self.data, &plan, &*density, self.clock, self.run);
            drop(density);
            let (counts, likelihood) = match found {
                // Parameters far away can make a sequence impossible up to rounding; those of the start may not.
                Err(error) if !error.is_stop() && evaluations > 1 => return Ok(f64::INFINITY),
                found => found?,
            };
            let own = self.how.gradient(&model, at, &counts, &self.context);
            gradient.iter_mut().zip(&own).for_each(|(out, x)| *out = -x / rows);
            Ok(-(likelihood + self.how.log_prior(&model, &self.context)) / rows)
        };
        if now.progress.step >= self.how.iterations && now.search.is_some() {
            return Ok(Some(false));
        }
        if now.progress.step >= self.how.iterations || search.point().is_empty() {
            let mut unused = vec![0.0; search.point().len()];
            let value = objective(search.point(), &mut unused)?;
            now.progress.objective = -value * rows;
            return Ok(Some(search.point().is_empty()));
        }
        let step = search.step(&mut objective)?;
        let value = -step.objective * rows;
        let gain = value - now.progress.objective;
        self.how.place(&mut now.model, search.point(), &self.context);
        let first = now.search.replace(search).is_none();
        now.progress.objective = value;
        now.progress.step += 1;
        self.keep(now, false);
        self.clock.descent(-value / rows, gain);
        // A short step can gain little far from the optimum; then the gradient is still large.
        let flat = step.stationarity < self.how.tolerance.sqrt();
        Ok((!first && (gain <= 0.0 || (gain < self.tolerated() && flat))).then_some(true))
    }
}
