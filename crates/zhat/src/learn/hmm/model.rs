//! The model: start and transition probabilities, emissions, and optionally ties and durations.

use serde::{Deserialize, Serialize};

use super::durations::Durations;
use super::emission::{Context, Emissions};
use super::simplex::{check_rows, free, normalize_rows};
use super::{Family, Sequences, sweep};
use crate::error::{Error, Result};
use crate::model::{Chain, Segments, SemiMarkov, Transitions};
use crate::random::Streams;
use crate::run::Run;

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
    /// The group of every state; states of a group share their emissions. Empty if none are tied.
    pub(super) ties: Vec<usize>,
    /// None for those of a Markov chain.
    pub(super) durations: Option<Durations>,
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
        let layout = Layout { columns, ..Default::default() };
        let mut made = Hmm { start, transitions, emissions, ties: Vec::new(), durations: None, layout };
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

    /// The same with states that share their emissions: those with the same number in `ties`, which get the
    /// parameters of the first of them. An empty list unties them.
    ///
    /// ```
    /// use zhat::learn::hmm::{Emissions, Hmm, Poisson};
    /// let counts = Emissions::Poisson(Poisson::new(3, vec![1.0, 5.0, 6.0])?);
    /// let hmm = Hmm::new(vec![1.0, 0.0, 0.0], vec![1.0 / 3.0; 9], counts)?.with_ties(&[0, 1, 1])?;
    /// let Emissions::Poisson(counts) = hmm.emissions() else { panic!("poisson") };
    /// assert_eq!((counts.rates(), hmm.parameters()), (&[1.0, 5.0, 5.0][..], 2 + 6));
    /// # Ok::<(), zhat::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the list has neither no entry nor one per state.
    pub fn with_ties(mut self, ties: &[usize]) -> Result<Self> {
        if !ties.is_empty() && ties.len() != self.states() {
            let message =
                format!("{} entries for {} states, expected one group per state", ties.len(), self.states());
            return Err(Error::argument("ties", message));
        }
        self.ties = ties.to_vec();
        for state in 0..ties.len() {
            let first = self.first_of(state);
            if first != state {
                self.emissions.part_mut().copy_state(first, state);
            }
        }
        Ok(self)
    }

    /// The first state of a state's group.
    fn first_of(&self, state: usize) -> usize {
        let group = self.ties.get(state);
        group.and_then(|group| self.ties.iter().position(|other| other == group)).unwrap_or(state)
    }

    /// The statistics of the emissions; states of a group get the average of theirs. Since the objective has the prior of
    /// every state, the maximum for the average is that of the group.
    pub(super) fn tied(&self, statistics: &[f64]) -> Vec<f64> {
        let mut averaged = statistics.to_vec();
        let part = self.emissions.part();
        for first in (0..self.ties.len()).filter(|&state| self.first_of(state) == state) {
            let group: Vec<Vec<usize>> = (first..self.ties.len())
                .filter(|&state| self.ties[state] == self.ties[first])
                .map(|state| part.places(state))
                .collect();
            for at in 0..group[0].len() {
                let sum: f64 = group.iter().map(|places| statistics[places[at]]).sum();
                group.iter().for_each(|places| averaged[places[at]] = sum / group.len() as f64);
            }
        }
        averaged
    }

    /// The same with durations of its states: a semi-Markov model, whose transitions are those between segments.
    ///
    /// # Errors
    /// If the durations are of another number of states.
    pub fn with_durations(mut self, durations: Durations) -> Result<Self> {
        durations.check(self.states())?;
        self.durations = Some(durations);
        Ok(self)
    }

    /// Checks all parts, of which none is changed: for files.
    pub(super) fn checked(self) -> Result<Self> {
        let (start, transitions) = (self.start.clone(), self.transitions.clone());
        Hmm::new(start, transitions, self.emissions.clone())?;
        if !self.ties.is_empty() && self.ties.len() != self.states() {
            return Err(Error::argument("ties", "expected one group per state"));
        }
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

    /// The groups of states that share their emissions; empty if none do.
    pub fn ties(&self) -> &[usize] {
        &self.ties
    }

    /// The durations of the states; `None` for those of a Markov chain.
    pub fn durations(&self) -> Option<&Durations> {
        self.durations.as_ref()
    }

    /// The number of free parameters; zeros are not free, and tied states count once.
    pub fn parameters(&self) -> usize {
        free(&self.start, self.states())
            + free(&self.transitions, self.states())
            + self.emissions.part().parameters(&|state| self.first_of(state) == state)
            + self.durations.as_ref().map_or(0, Durations::parameters)
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
    /// If the data do not fit the model or the memory budget, or the model has durations ([`Hmm::segments`]).
    pub fn chain(&self, data: &Sequences, run: &Run) -> Result<Chain<f64>> {
        if self.durations.is_some() {
            return Err(Error::argument(
                "chain",
                "the model has durations: its states are a semi-Markov chain",
            ));
        }
        self.scores(data, run)
    }

    /// The model of the segments given the observations, for a model with durations: a semi-Markov chain whose log Z is
    /// the log-likelihood.
    ///
    /// # Errors
    /// If the data do not fit the model or the memory budget, or the model has no durations ([`Hmm::chain`]).
    pub fn segments(&self, data: &Sequences, run: &Run) -> Result<SemiMarkov<f64>> {
        let Some(durations) = &self.durations else {
            return Err(Error::argument("segments", "the model has no durations: its states are a chain"));
        };
        let (states, longest, lengths) = (self.states(), durations.longest(), data.lengths());
        let steps = lengths.iter().copied().max().unwrap_or(0);
        let count = lengths.len() as f64 * steps as f64 * longest as f64 * states as f64;
        run.require_memory("segments", 8.0 * count)?;
        let logs = |values: &[f64]| values.iter().map(|p| p.ln()).collect::<Vec<f64>>();
        let (lasting, surviving) = (logs(durations.probabilities()), logs(&durations.survivals()));
        let mut segments = vec![0.0; count as usize];
        let mut rows = segments.chunks_exact_mut(states);
        for &length in &lengths {
            for t in 0..steps {
                for d in 1..=longest {
                    // The last segment lasts at least as long as the sequence shows.
                    let scores = if t + d < length { &lasting } else { &surviving };
                    for (n, out) in rows.next().into_iter().flatten().enumerate() {
                        *out = scores[n * longest + d - 1];
                    }
                }
            }
        }
        SemiMarkov::new(self.scores(data, run)?, Segments::Places(segments.into()), longest)
    }

    /// Start and transition probabilities and densities as a chain.
    fn scores(&self, data: &Sequences, run: &Run) -> Result<Chain<f64>> {
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
            // The steps that the state still lasts, with durations.
            let (mut state, mut left) = (0, 0);
            for t in 0..length {
                if t % 1024 == 0 {
                    clock.check()?;
                }
                let weights =
                    if t == 0 { &self.start } else { &self.transitions[state * states..][..states] };
                if left == 0 {
                    state = random.categorical(weights);
                    left = self.durations.as_ref().map_or(1, |own| {
                        1 + random.categorical(&own.probabilities()[state * own.longest()..][..own.longest()])
                    });
                }
                left -= 1;
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
