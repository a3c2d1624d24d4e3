//! Durations of states, for semi-Markov models.
//!
//! A state lasts d = 1 … M steps with probability D(n, d), and then moves to another one. The last state of a sequence
//! lasts at least as long as the sequence shows: its probability is the survival S(n, d) = Σ_{d′ ≥ d} D(n, d′), so that
//! probabilities of all sequences of a length add up to 1, and geometric durations give the ordinary model.
//!
//! | form | D(n, d) | M-step |
//! |---|---|---|
//! | free | a table | expected counts plus α − 1, normalised |
//! | negative binomial | ∝ Γ(d − 1 + r)/(Γ(r)·(d − 1)!)·q^(d − 1), over 1 … M | L-BFGS on ln r and logit q |

use serde::{Deserialize, Serialize};

use super::simplex::{self, check_rows, log_dirichlet, maximize_row};
use crate::error::{Error, Result};
use crate::optimize::Lbfgs;

/// The form of the durations of states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DurationForm {
    /// Those of a Markov chain: the ordinary model.
    #[default]
    Geometric,
    /// A table of probabilities per state.
    Free,
    /// A negative binomial distribution per state.
    NegativeBinomial,
}

impl DurationForm {
    /// The name.
    pub fn name(self) -> &'static str {
        match self {
            DurationForm::Geometric => "geometric",
            DurationForm::Free => "free",
            DurationForm::NegativeBinomial => "negative-binomial",
        }
    }
}

/// Steps of the maximisation for a negative binomial distribution.
const STEPS: usize = 30;
/// Pairs that it keeps.
const HISTORY: usize = 5;
/// Largest |ln r| and |logit q| of a negative binomial distribution.
const WIDEST: f64 = 30.0;

/// The distribution of the duration of every state.
#[derive(Clone, Debug, PartialEq)]
pub struct Durations {
    longest: usize,
    /// N × M.
    probabilities: Vec<f64>,
    /// N × 2: r and q of negative binomial distributions; empty for tables.
    shapes: Vec<f64>,
}

impl Durations {
    /// Tables: `probabilities` has one row per state, for the durations 1 … M.
    ///
    /// # Errors
    /// If a row is not a distribution.
    pub fn free(states: usize, probabilities: Vec<f64>) -> Result<Self> {
        let longest = probabilities.len() / states.max(1);
        let mut made = Durations { longest, probabilities, shapes: Vec::new() };
        made.check(states)?;
        simplex::normalize_rows(&mut made.probabilities, longest);
        Ok(made)
    }

    /// Negative binomial distributions over 1 … `longest`: `shapes` has r > 0 and 0 < q < 1 of every state.
    ///
    /// # Errors
    /// If a number is out of range or `longest` is 0.
    pub fn negative_binomial(shapes: Vec<f64>, longest: usize) -> Result<Self> {
        let states = shapes.len() / 2;
        let mut made = Durations { longest, probabilities: vec![1.0; states * longest], shapes };
        if longest == 0 {
            return Err(Error::argument("durations", "the longest duration is 0, expected at least 1"));
        }
        made.check_shapes(states)?;
        made.fill();
        Ok(made)
    }

    /// The same bits as in a file.
    pub(super) fn stored(
        states: usize,
        longest: usize,
        probabilities: Vec<f64>,
        shapes: Vec<f64>,
    ) -> Result<Self> {
        let made = Durations { longest, probabilities, shapes };
        made.check(states)?;
        if !made.shapes.is_empty() {
            made.check_shapes(states)?;
        }
        Ok(made)
    }

    pub(super) fn check(&self, states: usize) -> Result<()> {
        if self.longest == 0 || self.probabilities.len() != states * self.longest {
            let message = format!("{} numbers are not N × M for {states} states", self.probabilities.len());
            return Err(Error::argument("durations", message));
        }
        check_rows("durations", &self.probabilities, self.longest)
    }

    fn check_shapes(&self, states: usize) -> Result<()> {
        let right = |pair: &[f64]| pair[0] > 0.0 && pair[0].is_finite() && pair[1] > 0.0 && pair[1] < 1.0;
        if self.shapes.len() != 2 * states {
            let message = format!("{} shapes for {states} states, expected two each", self.shapes.len());
            return Err(Error::argument("durations", message));
        }
        match self.shapes.chunks_exact(2).position(|pair| !right(pair)) {
            None => Ok(()),
            Some(n) => {
                let (r, q) = (self.shapes[2 * n], self.shapes[2 * n + 1]);
                let message = format!("state {n} has r = {r} and q = {q}, expected r > 0 and 0 < q < 1");
                Err(Error::argument("durations", message))
            }
        }
    }

    /// Initial durations: uniform tables, or geometric ones with mean 1 + M/4.
    pub(super) fn initial(form: DurationForm, states: usize, longest: usize) -> Result<Option<Self>> {
        match form {
            DurationForm::Geometric => Ok(None),
            DurationForm::Free => {
                Durations::free(states, vec![1.0 / longest as f64; states * longest]).map(Some)
            }
            DurationForm::NegativeBinomial => {
                let mean = longest as f64 / 4.0;
                let one = [1.0, mean / (1.0 + mean)];
                let shapes = one.iter().copied().cycle().take(2 * states).collect();
                Durations::negative_binomial(shapes, longest).map(Some)
            }
        }
    }

    /// The form.
    pub fn form(&self) -> DurationForm {
        if self.shapes.is_empty() { DurationForm::Free } else { DurationForm::NegativeBinomial }
    }

    /// M, the longest duration.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// The probabilities of the durations 1 … M, one row per state.
    pub fn probabilities(&self) -> &[f64] {
        &self.probabilities
    }

    /// r and q of every state of negative binomial durations; empty for tables.
    pub fn shapes(&self) -> &[f64] {
        &self.shapes
    }

    /// The probabilities of at least 1 … M steps, one row per state.
    pub(super) fn survivals(&self) -> Vec<f64> {
        let mut all = self.probabilities.clone();
        for row in all.chunks_exact_mut(self.longest) {
            for d in (1..row.len()).rev() {
                row[d - 1] += row[d];
            }
        }
        all
    }

    /// The number of free parameters.
    pub(super) fn parameters(&self) -> usize {
        match self.form() {
            DurationForm::NegativeBinomial => self.shapes.len(),
            _ => simplex::free(&self.probabilities, self.longest),
        }
    }

    /// The log density of the Dirichlet prior of tables.
    pub(super) fn log_prior(&self, concentration: f64) -> f64 {
        match self.form() {
            DurationForm::NegativeBinomial => 0.0,
            _ => log_dirichlet(&self.probabilities, concentration),
        }
    }

    /// The M-step for expected counts, N × M.
    pub(super) fn maximize(&mut self, counts: &[f64], concentration: f64) {
        let longest = self.longest;
        if self.form() == DurationForm::Free {
            for (row, counts) in
                self.probabilities.chunks_exact_mut(longest).zip(counts.chunks_exact(longest))
            {
                maximize_row(row, counts.iter().copied(), concentration);
            }
            return;
        }
        for (shape, counts) in self.shapes.chunks_exact_mut(2).zip(counts.chunks_exact(longest)) {
            let total: f64 = counts.iter().sum();
            if !(total > 0.0 && total.is_finite()) {
                continue;
            }
            let mut search = Lbfgs::new(coordinates_of(shape).to_vec(), HISTORY);
            let mut objective = |at: &[f64], gradient: &mut [f64]| -> Result<f64> {
                if !at.iter().all(|x| x.abs() <= WIDEST) {
                    return Ok(f64::INFINITY);
                }
                let (logs, derivatives) = negative_binomial(shape_of(at), longest);
                gradient.copy_from_slice(&score(&logs, &derivatives, counts).map(|x| -x / total));
                let likelihood: f64 =
                    counts.iter().zip(&logs).filter(|(count, _)| **count > 0.0).map(|(c, log)| c * log).sum();
                Ok(-likelihood / total)
            };
            for _ in 0..STEPS {
                // The objective does not fail.
                let Ok(step) = search.step(&mut objective) else { break };
                if step.stationarity < 1e-9 {
                    break;
                }
            }
            shape.copy_from_slice(&shape_of(search.point()));
        }
        self.fill();
    }

    /// The probabilities of negative binomial distributions.
    fn fill(&mut self) {
        for (row, shape) in self.probabilities.chunks_exact_mut(self.longest).zip(self.shapes.chunks_exact(2))
        {
            let (logs, _) = negative_binomial([shape[0], shape[1]], self.longest);
            row.iter_mut().zip(logs).for_each(|(p, log)| *p = log.exp());
        }
    }

    /// Appends the unconstrained coordinates: logits of tables, ln r and logit q.
    pub(super) fn coordinates(&self, out: &mut Vec<f64>) {
        match self.form() {
            DurationForm::NegativeBinomial => {
                out.extend(self.shapes.chunks_exact(2).flat_map(coordinates_of))
            }
            _ => simplex::logits(&self.probabilities, out),
        }
    }

    /// Takes the coordinates from the front of `from`.
    pub(super) fn place(&mut self, from: &mut &[f64]) {
        if self.form() == DurationForm::Free {
            return simplex::place_rows(&mut self.probabilities, self.longest, from);
        }
        let (own, rest) = from.split_at(self.shapes.len());
        *from = rest;
        for (shape, at) in self.shapes.chunks_exact_mut(2).zip(own.chunks_exact(2)) {
            shape.copy_from_slice(&shape_of(&[at[0].clamp(-WIDEST, WIDEST), at[1].clamp(-WIDEST, WIDEST)]));
        }
        self.fill();
    }

    /// Appends the derivatives by the coordinates.
    pub(super) fn gradient(&self, counts: &[f64], concentration: f64, out: &mut Vec<f64>) {
        for (n, counts) in counts.chunks_exact(self.longest).enumerate() {
            match self.form() {
                DurationForm::NegativeBinomial => {
                    let shape = [self.shapes[2 * n], self.shapes[2 * n + 1]];
                    let (logs, derivatives) = negative_binomial(shape, self.longest);
                    out.extend(score(&logs, &derivatives, counts));
                }
                _ => {
                    let row = &self.probabilities[n * self.longest..][..self.longest];
                    simplex::row_gradient(row, counts.iter().copied(), concentration, out);
                }
            }
        }
    }
}

/// ln r and logit q.
fn coordinates_of(shape: &[f64]) -> [f64; 2] {
    [shape[0].ln(), (shape[1] / (1.0 - shape[1])).ln()]
}

fn shape_of(at: &[f64]) -> [f64; 2] {
    // Kept below 1, which rounding could reach.
    [at[0].exp(), (1.0 / (1.0 + (-at[1]).exp())).min(1.0 - f64::EPSILON)]
}

/// ln D(d) of the durations 1 … M, and the derivatives of its numerator by ln r and logit q.
fn negative_binomial([r, q]: [f64; 2], longest: usize) -> (Vec<f64>, Vec<[f64; 2]>) {
    let (mut log, mut slope) = (0.0, 0.0);
    let (mut logs, mut derivatives) = (Vec::with_capacity(longest), Vec::with_capacity(longest));
    for k in 0..longest {
        // Γ(k + r)/Γ(r) is the product of r + i for i < k, and its derivative the sum of their inverses.
        logs.push(log);
        derivatives.push([r * slope, (1.0 - q) * k as f64]);
        log += ((r + k as f64) / (k as f64 + 1.0)).ln() + q.ln();
        slope += 1.0 / (r + k as f64);
    }
    let total = crate::numeric::log_sum_exp(&logs);
    logs.iter_mut().for_each(|log| *log -= total);
    (logs, derivatives)
}

/// Σ_d c_d·(h_d − E h), the derivative of Σ_d c_d ln D(d).
fn score(logs: &[f64], derivatives: &[[f64; 2]], counts: &[f64]) -> [f64; 2] {
    let total: f64 = counts.iter().sum();
    let mut made = [0.0; 2];
    for ((log, h), count) in logs.iter().zip(derivatives).zip(counts) {
        let weight = count - total * log.exp();
        made[0] += weight * h[0];
        made[1] += weight * h[1];
    }
    made
}
