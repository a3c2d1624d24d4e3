//! Forward and backward passes of one sequence in the log domain: for sequences whose probabilities leave the range
//! of the scaled passes. T·N² exponentials.

use super::data::Sequences;
use super::emission::padded;
use super::group::{Counts, Prepared};
use super::model::Hmm;
use crate::error::{Error, Result};
use crate::numeric::log_sum_exp;
use crate::run::Clock;

/// The messages of a sequence.
pub(super) struct Messages {
    /// T × N.
    alphas: Vec<f64>,
    densities: Vec<f64>,
    transitions: Vec<f64>,
    states: usize,
    /// −∞ if the sequence is impossible.
    pub log_likelihood: f64,
}

impl Messages {
    /// # Errors
    /// If the run is over.
    pub fn new(
        hmm: &Hmm,
        data: &Sequences,
        member: usize,
        prepared: &Prepared<'_>,
        clock: &Clock<'_>,
    ) -> Result<Self> {
        let (states, length) = (hmm.states(), data.length(member));
        let densities = {
            let mut padded = vec![0.0; length * prepared.width];
            prepared.density.log_density(data.sequence(member), prepared.width, &mut padded);
            let mut densities = Vec::with_capacity(length * states);
            padded.chunks_exact(prepared.width).for_each(|row| densities.extend_from_slice(&row[..states]));
            densities
        };
        let transitions: Vec<f64> = hmm.transitions.iter().map(|p| p.ln()).collect();
        let mut alphas = vec![0.0; length * states];
        let mut terms = vec![0.0; states];
        let stride = stride(states);
        for t in 0..length {
            if t % stride == 0 {
                clock.check()?;
            }
            for j in 0..states {
                let own = densities[t * states + j];
                alphas[t * states + j] = own
                    + if t == 0 {
                        hmm.start[j].ln()
                    } else {
                        for i in 0..states {
                            terms[i] = alphas[(t - 1) * states + i] + transitions[i * states + j];
                        }
                        log_sum_exp(&terms)
                    };
            }
        }
        let log_likelihood = log_sum_exp(&alphas[(length - 1) * states..]);
        Ok(Messages { alphas, densities, transitions, states, log_likelihood })
    }

    /// The first step up to which the observations have probability zero.
    pub fn first_impossible(&self) -> usize {
        let dead = |row: &[f64]| row.iter().all(|x| *x == f64::NEG_INFINITY);
        self.alphas.chunks_exact(self.states).position(dead).unwrap_or(0)
    }

    /// The posteriors, rows of the padded width; adds the expected counts, transitions without the factor A.
    ///
    /// # Errors
    /// If the run is over.
    pub fn finish(
        &self,
        hmm: &Hmm,
        rows: &[f64],
        prepared: &Prepared<'_>,
        counts: Option<&mut Counts>,
        clock: &Clock<'_>,
    ) -> Result<Vec<f64>> {
        let (states, width) = (self.states, padded(self.states));
        let length = self.alphas.len() / states;
        let mut posteriors = vec![0.0; length * width];
        let mut beta = vec![0.0; states];
        let (mut terms, mut before) = (vec![0.0; states], vec![0.0; states]);
        let mut joints = vec![0.0; states * states];
        let (mut kept, stride) = (counts, stride(states));
        for t in (0..length).rev() {
            if t % stride == 0 {
                clock.check()?;
            }
            let row = &mut posteriors[t * width..][..states];
            for (i, p) in row.iter_mut().enumerate() {
                *p = (self.alphas[t * states + i] + beta[i] - self.log_likelihood).exp();
            }
            normalize(row);
            if t == 0 {
                break;
            }
            joints.fill(0.0);
            for i in 0..states {
                for j in 0..states {
                    terms[j] = self.transitions[i * states + j] + self.densities[t * states + j] + beta[j];
                }
                before[i] = log_sum_exp(&terms);
                let alpha = self.alphas[(t - 1) * states + i];
                for j in (0..states).filter(|j| hmm.transitions[i * states + j] > 0.0) {
                    joints[i * states + j] = (alpha + terms[j] - self.log_likelihood).exp();
                }
            }
            if let Some(counts) = &mut kept {
                normalize(&mut joints);
                for (at, joint) in joints.iter().enumerate().filter(|(_, joint)| **joint > 0.0) {
                    counts.transitions[at / states * width + at % states] += joint / hmm.transitions[at];
                }
            }
            beta.copy_from_slice(&before);
        }
        if let Some(counts) = kept {
            counts.start.iter_mut().zip(&posteriors[..width]).for_each(|(sum, x)| *sum += x);
            prepared.density.accumulate(rows, width, &posteriors, &mut counts.emissions);
        }
        Ok(posteriors)
    }
}

/// Steps between two checks of the clock.
fn stride(states: usize) -> usize {
    ((1 << 16) / (states * states).max(1)).max(1)
}

/// Divides by the sum, which differs from 1 by the rounding of large logarithms.
fn normalize(values: &mut [f64]) {
    let sum: f64 = values.iter().sum();
    values.iter_mut().for_each(|value| *value /= sum);
}

/// The error of a sequence with probability zero.
pub(super) fn impossible(data: &Sequences, member: usize, step: usize) -> Error {
    let row = data.range(member).start + step;
    data.fail(
        row,
        0,
        &format!("sequence {member} has probability 0 under the model from here on (step {step})"),
    )
}
