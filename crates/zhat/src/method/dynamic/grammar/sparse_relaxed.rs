//! Relaxed trees of randomly chosen symbols, and their gradient; see `relaxed`.
//!
//! Sample s uses the symbols that replicate s mod R chose, and its weight is Ẑ of that replicate. Only chosen
//! symbols have values: memory T²·K per sample.

use super::choices::Choices;
use super::randomized::{NAME, RandomizedInside, Replicates};
use super::relaxed::{NodeNumbers, Relaxation, extra_bytes, places};
use super::solve::Passes;
use crate::error::{Error, Result};
use crate::method::dynamic::forward_backward::check_numbers;
use crate::method::dynamic::randomized::Chosen;
use crate::model::Hypertree;
use crate::numeric::Real;
use crate::options::Options;
use crate::query::tree::{Constituent, HypertreeGradient, ParseTree};
use crate::query::{Forecasts, Query};
use crate::random::Streams;
use crate::run::Run;

/// A relaxed tree: values of some nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct SparseParse<F> {
    /// The best tree of the noisy scores; its score is that without noise.
    pub hard: ParseTree,
    /// The words and symbol of each value.
    pub nodes: Vec<Constituent>,
    /// The expected number of each node.
    pub values: Vec<F>,
}

/// Relaxed trees of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct SparseParses<F> {
    /// The samples of each sentence; none if its estimate is 0.
    pub samples: Vec<Vec<SparseParse<F>>>,
    /// The log weight of each sample of each sentence.
    pub log_weights: Vec<Vec<f64>>,
}

/// Tape for the gradient of relaxed trees of chosen symbols, which it treats as constants.
pub struct SparseParseTape<F: Real> {
    relaxation: Relaxation<F>,
    found: Replicates<F>,
    count: usize,
    run: Run,
}

/// The symbols of sample s: those of its replicate. A sentence whose estimate is 0 there has those of another
/// replicate; its weight is 0. A sentence without any has none.
fn choices_of<F: Real>(model: &Hypertree<F>, found: &Replicates<F>, s: usize) -> Choices {
    let (t, replicates) = (model.positions(), found.logs.len());
    let mut chosen = Vec::with_capacity(model.batch() * t * t);
    for b in 0..model.batch() {
        let own = s % replicates;
        let possible = |&r: &usize| found.logs[r][b] > f64::NEG_INFINITY;
        match std::iter::once(own).chain(0..replicates).find(possible) {
            Some(r) => chosen.extend_from_slice(&found.choices[r].chosen[b * t * t..(b + 1) * t * t]),
            None => chosen.resize(chosen.len() + t * t, Chosen::default()),
        }
    }
    Choices { positions: t, chosen }
}

/// The nodes that have values, in the order of the values.
fn nodes<F: Real>(model: &Hypertree<F>, choices: &Choices, b: usize) -> Vec<Constituent> {
    let (t, first_tag) = (model.positions(), model.symbols().first_tag());
    let of = |(i, j): (usize, usize)| {
        let first = if i == j { first_tag } else { 0 };
        let chosen = &choices.chosen[(b * t + i) * t + j];
        chosen.states.iter().map(move |&k| Constituent { first: i, last: j, symbol: first + k as usize })
    };
    places(model.lengths()[b]).flat_map(of).collect()
}

/// The place of a node's symbol in the row of its words.
fn place<F: Real>(model: &Hypertree<F>, node: &Constituent) -> usize {
    if node.first == node.last { node.symbol - model.symbols().first_tag() } else { node.symbol }
}

impl RandomizedInside {
    /// `count` relaxed trees of each sentence at a positive temperature, over chosen symbols only, and a tape for
    /// the gradient.
    ///
    /// # Errors
    /// As [`InsideOutside::relaxed_samples_with_tape`](super::InsideOutside::relaxed_samples_with_tape), and if
    /// an option is out of range.
    pub fn relaxed_samples_with_tape<F: Passes>(
        &self,
        model: &Hypertree<F>,
        count: usize,
        temperature: f64,
        run: &Run,
    ) -> Result<(SparseParses<F>, SparseParseTape<F>)> {
        self.check()?;
        let streams = Streams::new(run.seed(), "randomized relaxed trees");
        let relaxation = Relaxation::new(model, temperature, streams)?;
        let clock = run.start(NAME);
        let symbols = model.symbols();
        let most = symbols.heads.max(symbols.tags);
        let cells: f64 = model.lengths().iter().map(|&n| (n * (n + 1)) as f64 / 2.0).sum();
        // A node and its value for each chosen symbol, and the choices of the replicates.
        let each = (count * (24 + size_of::<F>()) + 12 * self.replicates) as f64;
        let numbers = cells * self.states.of(most) as f64 * each;
        let bytes = self.forecast(model, Query::LogPartition, run).bytes + 2.0 * extra_bytes(model);
        run.require_memory(NAME, numbers + bytes)?;
        let mut samples: Vec<Vec<SparseParse<F>>> = vec![Vec::new(); model.batch()];
        let found = run.install(|| {
            let found = self.estimates(model, false, None, run, &clock)?;
            let missed = (0..model.batch()).all(|b| found.log_partition(b) == f64::NEG_INFINITY);
            if missed && self.states.of(most) >= most {
                return Err(Error::ZeroPartition);
            }
            for s in 0..count {
                clock.step("samples", s, count)?;
                let choices = choices_of(model, &found, s);
                let (mut own, trees) = relaxation.sample(s, Some(&choices), &clock)?;
                for (b, hard) in trees.into_iter().enumerate() {
                    let Some(hard) = hard else { continue };
                    let nodes = nodes(model, &choices, b);
                    let value =
                        |node: &Constituent| own.row(model, b, node.first, node.last)[place(model, node)];
                    let values = nodes.iter().map(value).collect();
                    samples[b].push(SparseParse { hard, nodes, values });
                }
            }
            Ok(found)
        })?;
        let weights = |(b, samples): (usize, &Vec<SparseParse<F>>)| {
            (0..samples.len()).map(|s| found.logs[s % found.logs.len()][b]).collect()
        };
        let log_weights = samples.iter().enumerate().map(weights).collect();
        let tape = SparseParseTape { relaxation, found, count, run: run.clone() };
        Ok((SparseParses { samples, log_weights }, tape))
    }
}

impl<F: Passes> SparseParseTape<F> {
    /// The gradient of Σ cotangent·values, for one number per value of every sample of every sentence.
    ///
    /// # Errors
    /// If a cotangent has the wrong length or a number that is not finite, or the run is cancelled or out of
    /// time.
    pub fn vjp(&self, cotangent: &[Vec<Vec<F>>]) -> Result<HypertreeGradient<F>> {
        let (model, clock) = (&self.relaxation.model, self.run.start(NAME));
        self.check(cotangent)?;
        let of = |s: usize| {
            let choices = choices_of(model, &self.found, s);
            let mut own = NodeNumbers::zeros(model);
            for (b, cotangent) in cotangent.iter().enumerate().filter(|(_, own)| !own.is_empty()) {
                for (node, &x) in nodes(model, &choices, b).iter().zip(&cotangent[s]) {
                    own.row(model, b, node.first, node.last)[place(model, node)] = x;
                }
            }
            own
        };
        let choices = |s: usize| Some(choices_of(model, &self.found, s));
        self.run.install(|| self.relaxation.gradient(self.count, choices, of, &clock))
    }

    fn check(&self, cotangent: &[Vec<Vec<F>>]) -> Result<()> {
        let model = &self.relaxation.model;
        let fits = |b: usize, own: &Vec<Vec<F>>| {
            let samples = if self.found.log_partition(b) > f64::NEG_INFINITY { self.count } else { 0 };
            let one = |(s, values): (usize, &Vec<F>)| {
                let size = nodes(model, &choices_of(model, &self.found, s), b).len();
                check_numbers(values, size).is_ok()
            };
            own.len() == samples && own.iter().enumerate().all(one)
        };
        let all =
            cotangent.len() == model.batch() && cotangent.iter().enumerate().all(|(b, own)| fits(b, own));
        let message = "expected a finite number for every value of every sample of every sentence";
        if all { Ok(()) } else { Err(Error::argument("cotangent", message)) }
    }
}
