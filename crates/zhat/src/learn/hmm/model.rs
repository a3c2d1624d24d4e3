//! The model: start and transition probabilities, and emissions.

use serde::{Deserialize, Serialize};

use super::emission::{Context, Emissions};
use super::{Family, Sequences, sweep};
use crate::error::{Error, Result};
use crate::model::{Chain, Transitions};
use crate::random::Streams;
use crate::run::Run;

/// How far the sum of a distribution may be from 1.
const SUM: f64 = 1e-4;

/// Checks that every row of `width` numbers is a distribution.
pub(super) fn check_rows(name: &str, values: &[f64], width: usize) -> Result<()> {
    for (i, row) in values.chunks_exact(width.max(1)).enumerate() {
        if let Some(at) = row.iter().position(|p| !(p.is_finite() && *p >= 0.0)) {
            let message = format!("row {i}, entry {at} is {}, expected a probability", row[at]);
            return Err(Error::argument(name, message));
        }
        let sum: f64 = row.iter().sum();
        if sum == 0.0 {
            let message = format!("row {i} sums to 0, expected 1: every row needs a positive entry");
            return Err(Error::argument(name, message));
        }
        if (sum - 1.0).abs() > SUM {
            return Err(Error::argument(name, format!("row {i} sums to {sum}, expected 1")));
        }
    }
    Ok(())
}

/// Divides every row by its sum.
pub(super) fn normalize_rows(values: &mut [f64], width: usize) {
    for row in values.chunks_exact_mut(width.max(1)) {
        let sum: f64 = row.iter().sum();
        if sum > 0.0 {
            row.iter_mut().for_each(|p| *p /= sum);
        }
    }
}

/// The distribution proportional to counts + α − 1 where the row is not zero; the row itself if there is nothing
/// to normalise.
pub(super) fn maximize_row(row: &mut [f64], counts: impl Iterator<Item = f64>, concentration: f64) {
    let more = concentration - 1.0;
    let new: Vec<f64> =
        row.iter().zip(counts).map(|(&p, count)| if p > 0.0 { count + more } else { 0.0 }).collect();
    let total: f64 = new.iter().sum();
    if total > 0.0 && total.is_finite() {
        row.iter_mut().zip(new).for_each(|(p, new)| *p = new / total);
    }
}

/// (α − 1) Σ ln p over the entries that are not zero.
pub(super) fn log_dirichlet(values: &[f64], concentration: f64) -> f64 {
    if concentration == 1.0 {
        return 0.0;
    }
    (concentration - 1.0) * values.iter().filter(|p| **p > 0.0).map(|p| p.ln()).sum::<f64>()
}

/// The number of free parameters of rows of probabilities: the entries that are not zero, less one per row.
pub(super) fn free(values: &[f64], width: usize) -> usize {
    values
        .chunks_exact(width.max(1))
        .map(|row| row.iter().filter(|p| **p > 0.0).count().saturating_sub(1))
        .sum()
}

/// The columns of the data that a model was trained on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Layout {
    /// The names of the observed columns.
    pub columns: Vec<String>,
    /// The column that tells sequences apart.
    pub sequence: Option<String>,
    /// The names of the symbols of a categorical model; empty if they are numbers.
    pub symbols: Vec<String>,
    /// The names of the states, if they were given in training.
    pub states: Vec<String>,
    /// Whether values may be missing.
    pub missing: bool,
    /// Whether tables have no header.
    pub no_header: bool,
}

/// A hidden Markov model.
///
/// p(s, x) = π(s₁) Πₜ A(sₜ, sₜ₊₁) Πₜ p(xₜ | sₜ). Zeros of π, A and categorical emissions stay zero in training.
///
/// ```
/// use zhat::Run;
/// use zhat::learn::hmm::{Categorical, Emissions, Hmm, Sequences};
///
/// let coins = Categorical::new(2, vec![0.5, 0.5, 0.9, 0.1])?;
/// let model = Hmm::new(vec![0.5, 0.5], vec![0.9, 0.1, 0.2, 0.8], Emissions::Categorical(coins))?;
/// let data = Sequences::new(1, vec![0.0, 0.0, 1.0], &[3])?;
/// let found = model.log_likelihoods(&data, &Run::default())?;
/// assert!((found[0] - 0.13482f64.ln()).abs() < 1e-12);
/// # Ok::<(), zhat::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Hmm {
    pub(super) start: Vec<f64>,
    pub(super) transitions: Vec<f64>,
    pub(super) emissions: Emissions,
    pub(super) layout: Layout,
}

impl Hmm {
    /// A model from probabilities: `start` (N), `transitions` (N × N, row i from state i) and emissions.
    ///
    /// # Errors
    /// If there is no state, a row is not a distribution, or the shapes do not fit each other.
    pub fn new(start: Vec<f64>, transitions: Vec<f64>, emissions: Emissions) -> Result<Self> {
        let states = start.len();
        if states == 0 {
            return Err(Error::argument("start", "a model has at least one state"));
        }
        if transitions.len() != states * states {
            let message = format!("has {} numbers, expected {states} × {states}", transitions.len());
            return Err(Error::argument("transitions", message));
        }
        check_rows("start", &start, states)?;
        check_rows("transitions", &transitions, states)?;
        emissions.part().check()?;
        if emissions.part().states() != states {
            let message = format!("are of {} states, expected {states}", emissions.part().states());
            return Err(Error::argument("emissions", message));
        }
        let columns = (0..emissions.part().columns()).map(|i| format!("x{i}")).collect();
        let mut made =
            Hmm { start, transitions, emissions, layout: Layout { columns, ..Default::default() } };
        normalize_rows(&mut made.start, states);
        normalize_rows(&mut made.transitions, states);
        Ok(made)
    }

    /// The same with the names of its columns and symbols.
    ///
    /// # Errors
    /// If their numbers do not fit the model.
    pub fn with_layout(mut self, layout: Layout) -> Result<Self> {
        let symbols = match &self.emissions {
            Emissions::Categorical(own) => own.symbols,
            _ => 0,
        };
        let fits = layout.columns.len() == self.columns()
            && (layout.symbols.is_empty() || layout.symbols.len() == symbols);
        if !fits {
            let message = format!(
                "has {} columns and {} symbols, the model {} and {symbols}",
                layout.columns.len(),
                layout.symbols.len(),
                self.columns()
            );
            return Err(Error::argument("layout", message));
        }
        self.layout = layout;
        Ok(self)
    }

    /// Checks all parts, of which none is changed: for files.
    pub(super) fn checked(self) -> Result<Self> {
        let (start, transitions) = (self.start.clone(), self.transitions.clone());
        Hmm::new(start, transitions, self.emissions.clone())?;
        let layout = self.layout.clone();
        self.with_layout(layout)
    }

    /// The family of the emissions.
    pub fn family(&self) -> Family {
        match &self.emissions {
            Emissions::Categorical(own) => Family::Categorical { symbols: own.symbols },
            Emissions::Gaussian(own) => Family::Gaussian { covariance: own.form },
            Emissions::Poisson(_) => Family::Poisson,
            Emissions::Mixture(own) => {
                Family::Mixture { components: own.components, covariance: own.normals.form }
            }
        }
    }

    /// The states that no sequence can reach.
    pub fn unreachable(&self) -> Vec<usize> {
        let states = self.states();
        let mut reached: Vec<bool> = self.start.iter().map(|p| *p > 0.0).collect();
        let mut open: Vec<usize> = (0..states).filter(|&i| reached[i]).collect();
        while let Some(i) = open.pop() {
            for j in (0..states).filter(|j| self.transitions[i * states + j] > 0.0) {
                if !std::mem::replace(&mut reached[j], true) {
                    open.push(j);
                }
            }
        }
        (0..states).filter(|&i| !reached[i]).collect()
    }

    /// N, the number of states.
    pub fn states(&self) -> usize {
        self.start.len()
    }

    /// The number of numbers per observation.
    pub fn columns(&self) -> usize {
        self.emissions.part().columns()
    }

    /// The start probabilities.
    pub fn start(&self) -> &[f64] {
        &self.start
    }

    /// The transition probabilities, row i from state i.
    pub fn transitions(&self) -> &[f64] {
        &self.transitions
    }

    /// The emissions.
    pub fn emissions(&self) -> &Emissions {
        &self.emissions
    }

    /// The names of columns and symbols.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The number of free parameters; zeros are not free.
    pub fn parameters(&self) -> usize {
        free(&self.start, self.states())
            + free(&self.transitions, self.states())
            + self.emissions.part().parameters()
    }

    /// Fails if the observations do not fit the model.
    ///
    /// # Errors
    /// Names the first value that does not.
    pub fn check_data(&self, data: &Sequences) -> Result<()> {
        if data.columns() != self.columns() {
            let message = format!("have {} columns, expected {}", data.columns(), self.columns());
            return Err(Error::argument("observations", message));
        }
        self.emissions.part().check_data(data)
    }

    /// The log-likelihood of every sequence; −∞ for an impossible one.
    ///
    /// # Errors
    /// If the data do not fit the model, or the run is over budget or cancelled.
    pub fn log_likelihoods(&self, data: &Sequences, run: &Run) -> Result<Vec<f64>> {
        sweep::log_likelihoods(self, data, run)
    }

    /// The probability of every state at every row given its sequence, rows × N, and the log-likelihoods.
    ///
    /// # Errors
    /// As [`Hmm::log_likelihoods`]; also if a sequence is impossible.
    pub fn posteriors(&self, data: &Sequences, run: &Run) -> Result<(Vec<f64>, Vec<f64>)> {
        sweep::posteriors(self, data, run)
    }

    /// The most probable states of every row, and the log-probability of each sequence together with its states.
    /// The smaller state wins a tie.
    ///
    /// # Errors
    /// As [`Hmm::posteriors`].
    pub fn decode(&self, data: &Sequences, run: &Run) -> Result<(Vec<usize>, Vec<f64>)> {
        super::viterbi::decode(self, data, run)
    }

    /// The model of the states given the observations: a chain whose log Z is the log-likelihood.
    ///
    /// # Errors
    /// If the data do not fit the model or the memory budget.
    pub fn chain(&self, data: &Sequences, run: &Run) -> Result<Chain<f64>> {
        self.check_data(data)?;
        let (states, lengths) = (self.states(), data.lengths());
        let longest = lengths.iter().copied().max().unwrap_or(0);
        run.require_memory("chain", 8.0 * lengths.len() as f64 * longest as f64 * states as f64)?;
        let context = Context::default();
        let density = self.emissions.part().density(&context);
        let mut scores = vec![0.0; lengths.len() * longest * states];
        // Densities may write beyond the states, up to the padded width.
        let width = super::emission::padded(states);
        let mut padded = vec![0.0; longest * width];
        for (b, out) in scores.chunks_exact_mut((longest * states).max(1)).enumerate() {
            let padded = &mut padded[..lengths[b] * width];
            density.log_density(data.sequence(b), width, padded);
            for (out, row) in out.chunks_exact_mut(states).zip(padded.chunks_exact(width)) {
                out.copy_from_slice(&row[..states]);
            }
        }
        let logs = |values: &[f64]| values.iter().map(|p| p.ln()).collect::<Vec<f64>>();
        let transitions = Transitions::Shared(logs(&self.transitions).into());
        Chain::new(logs(&self.start).into(), scores.into(), lengths, transitions)
    }

    /// Draws sequences of these lengths: the observations and the states.
    ///
    /// # Errors
    /// If a length is 0, or the run is over budget or cancelled.
    pub fn sample(&self, lengths: &[usize], run: &Run) -> Result<(Sequences, Vec<usize>)> {
        let (states, columns) = (self.states(), self.columns());
        let rows: f64 = lengths.iter().map(|&length| length as f64).sum();
        run.require_memory("sample", rows * 8.0 * (columns + 1) as f64)?;
        let clock = run.start("sample");
        let streams = Streams::new(run.seed(), "hidden Markov sequences");
        let (mut values, mut path) = (Vec::new(), Vec::new());
        let mut row = vec![0.0; columns];
        for (i, &length) in lengths.iter().enumerate() {
            let mut random = streams.block(i as u64);
            let mut state = 0;
            for t in 0..length {
                if t % 1024 == 0 {
                    clock.check()?;
                }
                let weights =
                    if t == 0 { &self.start } else { &self.transitions[state * states..][..states] };
                state = random.categorical(weights);
                self.emissions.part().draw(state, &mut random, &mut row);
                values.extend_from_slice(&row);
                path.push(state);
            }
        }
        let data = Sequences::new(columns, values, lengths)?;
        Ok((data.with_origin("", Vec::new(), self.layout.columns.clone()), path))
    }

    /// Akaike's information criterion: 2·parameters − 2·log-likelihood.
    ///
    /// # Errors
    /// As [`Hmm::log_likelihoods`].
    pub fn aic(&self, data: &Sequences, run: &Run) -> Result<f64> {
        let likelihood: f64 = self.log_likelihoods(data, run)?.iter().sum();
        Ok(2.0 * self.parameters() as f64 - 2.0 * likelihood)
    }

    /// The Bayesian information criterion: parameters·ln(rows) − 2·log-likelihood.
    ///
    /// # Errors
    /// As [`Hmm::log_likelihoods`].
    pub fn bic(&self, data: &Sequences, run: &Run) -> Result<f64> {
        let likelihood: f64 = self.log_likelihoods(data, run)?.iter().sum();
        Ok(self.parameters() as f64 * (data.rows() as f64).ln() - 2.0 * likelihood)
    }
}
