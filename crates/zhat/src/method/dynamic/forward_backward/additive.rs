//! Expectations of additive scores.
//!
//! E_p[f] = E_p[log q] + log Z_q for the distribution q whose score is f: the expectation of a log-probability by
//! the same pass as for a cross-entropy, and a forward pass for log Z_q. Exact up to rounding, which grows with the
//! largest score of a path; time and memory of a cross-entropy.

use super::ForwardBackward;
use super::recorded::{
    Factors, Recorded, answer, check_shapes, expectation, finite_models, log_partitions, some_weight,
};
use crate::answer::Answer;
use crate::error::Result;
use crate::query::{Expectation, Query};
use crate::run::{Clock, Run};

impl<M: Recorded> Expectation<M> for ForwardBackward {
    fn expectation(&self, model: &M, scores: &M, run: &Run) -> Result<Answer<Vec<f64>>> {
        check_shapes(model, scores)?;
        let mut value = answer(self, model, Query::Entropy, run, |clock| {
            let (values, log_partition) = expectation(model, Some(scores), Factors::of_score(), clock)?;
            some_weight(&log_partition)?;
            with_partition(finite_models(values, &log_partition), scores, clock)
        })?;
        // As for a cross-entropy, and log Z of the scores.
        let (own, other) = (model.rounding(true), scores.rounding(true));
        value.diagnostics.rounding =
            2.0 * own * (1.0 + 2.0 * scores.largest_score()) + 2.0 * other * (2.0 + scores.largest_entropy());
        Ok(value)
    }
}

/// E_p[score of q] = E_p[log q] + log Z_q, which is −∞ if either is.
pub(super) fn with_partition<M: Recorded>(values: Vec<f64>, q: &M, clock: &Clock<'_>) -> Result<Vec<f64>> {
    let log_partition = log_partitions(q, clock)?;
    let sum = |(value, log_z): (f64, f64)| if value.is_finite() { value + log_z } else { value };
    Ok(values.into_iter().zip(log_partition).map(sum).collect())
}
