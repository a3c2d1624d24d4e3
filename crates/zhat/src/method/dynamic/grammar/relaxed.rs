//! Relaxed trees by stochastic softmax, and their gradient.
//!
//! With independent Gumbel noise g for every word and tag and every span and head,
//!
//!   x̃ = ∇ log Z((θ + g)/τ)
//!
//! are the expected numbers of nodes under the noisy scores at temperature τ. They are differentiable in θ, and
//! as τ → 0 they become the nodes of the best tree of θ + g. That tree is an approximate sample: scores of trees
//! share their noise. The gradient of c·x̃ is the Hessian of log Z times c, divided by τ: the derivative of
//! expected numbers in the direction c, by the passes on numbers with derivatives. With rules of low rank, τ
//! divides the scores of derivations, in which every rule uses one of its R terms.
//!
//! Time per sample and per gradient that of expected numbers and of the gradient of the entropy, without the table
//! of low-rank rules; memory T²·N beside theirs. Randomized: only the chosen symbols have noise and values, with
//! log w added to their scores.
//!
//! References: M. Paulus et al., *Gradient estimation with stochastic softmax tricks*, NeurIPS 2020; Fu,
//! Cunningham & Lapata 2022, Table 1.

use std::sync::Arc;

use crate::numeric::parallel::prelude::*;

use super::choices::{Choices, Kept};
use super::counts::{add_scaled, zero_gradient};
use super::derive::Largest;
use super::pass::Purpose;
use super::shared::Shared;
use super::solve::{Passes, filled, solve, solve_chosen};
use super::source::{Scores, SpanScores};
use super::{InsideOutside, NAME, some_tree};
use crate::error::{Error, Result};
use crate::method::dynamic::forward_backward::check_numbers;
use crate::method::dynamic::randomized::Chosen;
use crate::model::{Hypertree, Rules, Spans, Symbols, Values};
use crate::numeric::{Matrix, Real, multiply};
use crate::query::tree::{HypertreeGradient, ParseTree, RelaxedParses, SpanGradient};
use crate::query::{Forecasts, Query};
use crate::random::{Stream, Streams};
use crate::run::{Clock, Run};

/// One number per word and tag, B×T×P, and per span and head, B×T×T×N.
pub(super) struct NodeNumbers<F> {
    pub words: Vec<F>,
    pub spans: Vec<F>,
}

impl<F: Real> NodeNumbers<F> {
    pub fn zeros(model: &Hypertree<F>) -> Self {
        let (cells, Symbols { heads, tags, .. }) = (model.batch() * model.positions(), model.symbols());
        NodeNumbers {
            words: vec![F::ZERO; cells * tags],
            spans: vec![F::ZERO; cells * model.positions() * heads],
        }
    }

    /// Divides all numbers by the largest absolute value, which is returned.
    fn normalise(&mut self) -> f64 {
        let all = || self.words.iter().chain(&self.spans);
        let largest = all().fold(0.0, |top: f64, x| top.max(x.to_f64().abs()));
        if largest > 0.0 {
            let unit = |x: &mut F| *x = F::from_f64(x.to_f64() / largest);
            self.words.iter_mut().chain(&mut self.spans).for_each(unit);
        }
        largest
    }

    /// The numbers of words i … j of sentence b.
    pub fn row(&mut self, model: &Hypertree<F>, b: usize, i: usize, j: usize) -> &mut [F] {
        let (at, Symbols { heads, tags, .. }) = (b * model.positions() + i, model.symbols());
        match i == j {
            true => &mut self.words[at * tags..(at + 1) * tags],
            false => {
                let at = at * model.positions() + j;
                &mut self.spans[at * heads..(at + 1) * heads]
            }
        }
    }
}

/// The pairs i ≤ j of a sentence.
pub(super) fn places(length: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..length).flat_map(move |i| (i..length).map(move |j| (i, j)))
}

/// Relaxed samples of a model at a temperature.
pub(super) struct Relaxation<F: Real> {
    pub model: Hypertree<F>,
    /// The rules, scores of roots and of unary rules, divided by the temperature.
    rules: Rules<F>,
    roots: Values<F>,
    unary: Values<F>,
    temperature: f64,
    streams: Streams,
}

impl<F: Real> Relaxation<F> {
    pub fn new(model: &Hypertree<F>, temperature: f64, streams: Streams) -> Result<Self> {
        if !(temperature > 0.0 && temperature.is_finite()) {
            return Err(Error::argument("temperature", format!("{temperature} is not a positive number")));
        }
        let cool = |values: &[F]| -> Values<F> {
            values.iter().map(|x| F::from_f64(x.to_f64() / temperature)).collect::<Vec<F>>().into()
        };
        let rules = match model.rules() {
            Rules::Any => Rules::Any,
            Rules::Dense(values) => Rules::Dense(cool(values)),
            Rules::Sparse { rules, scores } => Rules::Sparse { rules: rules.clone(), scores: cool(scores) },
            Rules::LowRank { rank, heads, left, right } => {
                Rules::LowRank { rank: *rank, heads: cool(heads), left: cool(left), right: cool(right) }
            }
        };
        let unary = cool(model.unary().map_or(&[][..], |unary| unary.scores()));
        Ok(Relaxation {
            model: model.clone(),
            rules,
            roots: cool(model.roots()),
            unary,
            temperature,
            streams,
        })
    }

    /// Puts (score + log weight + noise)/τ of all symbols, or of the chosen ones, into a row.
    fn put(&self, scores: &[f64], chosen: Option<&Chosen>, random: &mut Stream, row: &mut [F]) {
        let mut one = |k: usize, log_weight: f64| {
            row[k] = F::from_f64((scores[k] + log_weight + random.gumbel()) / self.temperature);
        };
        match chosen {
            None => (0..scores.len()).for_each(|k| one(k, 0.0)),
            Some(Chosen { states, log_weights }) => {
                states.iter().zip(log_weights).for_each(|(&k, &log)| one(k as usize, log));
            }
        }
    }

    /// The noisy scores of sample s of one sentence.
    fn noisy(&self, b: usize, s: usize, choices: Option<&Choices>) -> NodeNumbers<F> {
        let (model, t) = (&self.model, self.model.positions());
        let Symbols { heads, tags, .. } = model.symbols();
        let mut random = self.streams.block(((b as u64) << 32) | s as u64);
        let mut own = NodeNumbers {
            words: vec![F::NEG_INFINITY; t * tags],
            spans: vec![F::NEG_INFINITY; t * t * heads],
        };
        let length = model.lengths()[b];
        for i in 0..length {
            let chosen = |j: usize| choices.map(|choices| &choices.chosen[(b * t + i) * t + j]);
            let mut word = vec![0.0; tags];
            Scores::word(model, b, i, &mut word);
            self.put(&word, chosen(i), &mut random, &mut own.words[i * tags..(i + 1) * tags]);
            let list: Vec<(usize, usize, usize)> = (i + 1..length).map(|j| (b, i, j)).collect();
            let scores = Scores::spans(model, &list);
            for (at, &(_, _, j)) in list.iter().enumerate() {
                let row = &mut own.spans[(i * t + j) * heads..(i * t + j + 1) * heads];
                match &scores {
                    SpanScores::None => self.put(&vec![0.0; heads], chosen(j), &mut random, row),
                    SpanScores::Each(each) => self.put(&vec![each[at]; heads], chosen(j), &mut random, row),
                    SpanScores::Rows(rows) => {
                        self.put(&rows[at * heads..(at + 1) * heads], chosen(j), &mut random, row);
                    }
                }
            }
        }
        own
    }

    /// The model of sample s: noisy scores divided by the temperature.
    fn noisy_model(&self, s: usize, choices: Option<&Choices>) -> Result<Hypertree<F>> {
        let model = &self.model;
        let rows: Vec<NodeNumbers<F>> =
            (0..model.batch()).into_par_iter().map(|b| self.noisy(b, s, choices)).collect();
        let words: Vec<F> = rows.iter().flat_map(|own| own.words.iter().copied()).collect();
        let spans: Vec<F> = rows.iter().flat_map(|own| own.spans.iter().copied()).collect();
        drop(rows);
        let built =
            Hypertree::new(model.symbols(), words.into(), model.lengths().to_vec(), self.rules.clone())
                .and_then(|built| built.with_roots(self.roots.clone()))
                .and_then(|built| built.with_spans(Spans::PerSymbol(spans.into())));
        let overflow = |_| {
            let message = format!("{} is so low that scores divided by it overflow", self.temperature);
            Error::argument("temperature", message)
        };
        let built = built.map_err(overflow)?;
        match model.unary() {
            None => Ok(built),
            Some(unary) => built.with_unary(unary.rules().to_vec(), self.unary.clone()),
        }
    }
}

impl<F: Passes> Relaxation<F> {
    /// Sample s of every sentence: the expected numbers of nodes and the best trees; `None` without a tree.
    pub fn sample(
        &self,
        s: usize,
        choices: Option<&Choices>,
        clock: &Clock<'_>,
    ) -> Result<(NodeNumbers<F>, Vec<Option<ParseTree>>)> {
        let (noisy, ones) = (self.noisy_model(s, choices)?, vec![1.0; self.model.batch()]);
        let weightless = choices.map(without_weights);
        let few = weightless.as_ref().map(|choices| Kept { choices, full: false });
        let shared = Shared::default();
        let solutions = solve_chosen(&noisy, &[], Purpose::Sums, Some(&ones), (few, &shared), clock)?;
        let gradient = solutions.gradient(&noisy, &noisy, &ones, clock)?;
        let best = solve_chosen(&noisy, &[], Purpose::Best, None, (few, &shared), clock)?;
        let tree = |b: usize| {
            let nodes = best.tree(&noisy, b, &mut Largest).filter(|nodes| !nodes.is_empty())?;
            Some(ParseTree { score: self.model.score(b, &nodes), nodes })
        };
        let trees = (0..self.model.batch()).map(tree).collect();
        let SpanGradient::Scores(spans) = gradient.spans else { return Err(no_spans()) };
        Ok((NodeNumbers { words: gradient.words, spans }, trees))
    }

    /// The gradient of cotangent·sample in the form of the noisy model; `None` if it is zero.
    fn vjp(
        &self,
        s: usize,
        choices: Option<&Choices>,
        mut cotangent: NodeNumbers<F>,
        clock: &Clock<'_>,
    ) -> Result<Option<HypertreeGradient<F>>> {
        // A model's scores are limited, so the direction is one of size 1 and its multiple.
        let largest = cotangent.normalise();
        if largest == 0.0 {
            return Ok(None);
        }
        let (model, factors) = (&self.model, vec![1.0 / self.temperature; self.model.batch()]);
        let lengths = model.lengths().to_vec();
        let unit = Hypertree::new(model.symbols(), cotangent.words.into(), lengths, Rules::Any)?
            .with_spans(Spans::PerSymbol(cotangent.spans.into()))?;
        let direction = [(largest, &unit)];
        let noisy = self.noisy_model(s, choices)?;
        let weightless = choices.map(without_weights);
        let few = weightless.as_ref().map(|choices| Kept { choices, full: false });
        let solutions =
            solve_chosen(&noisy, &direction, Purpose::Sums, None, (few, &Shared::default()), clock)?;
        solutions.vjp(&noisy, &direction, &factors, clock).map(Some)
    }

    /// The gradient with respect to the model: the sum over samples, whose cotangents `of` returns.
    pub fn gradient(
        &self,
        count: usize,
        choices: impl Fn(usize) -> Option<Choices>,
        of: impl Fn(usize) -> NodeNumbers<F>,
        clock: &Clock<'_>,
    ) -> Result<HypertreeGradient<F>> {
        let mut total: Option<HypertreeGradient<F>> = None;
        for s in 0..count {
            clock.step("samples", s, count)?;
            let one = self.vjp(s, choices(s).as_ref(), of(s), clock)?;
            total = match (total, one) {
                (Some(mut sum), Some(one)) => {
                    add_scaled(&mut sum, 1.0, &one);
                    Some(sum)
                }
                (sum, one) => sum.or(one),
            };
        }
        let Some(mut total) = total else { return Ok(filled(&self.model, zero_gradient(&self.model))) };
        if let SpanGradient::Scores(scores) = &total.spans {
            total.spans = through_spans(&self.model, scores);
        }
        Ok(total)
    }
}

fn no_spans() -> Error {
    Error::NoAnswer("the gradient has no numbers of spans".into())
}

/// The same symbols with weight 1; the noisy scores include the weights.
fn without_weights(choices: &Choices) -> Arc<Choices> {
    let of = |chosen: &Chosen| Chosen {
        states: chosen.states.clone(),
        log_weights: vec![0.0; chosen.log_weights.len()],
    };
    Arc::new(Choices { positions: choices.positions, chosen: choices.chosen.iter().map(of).collect() })
}

/// The gradient in the form of the model's scores of spans, from that with respect to every span and symbol.
fn through_spans<F: Real>(model: &Hypertree<F>, scores: &[F]) -> SpanGradient<F> {
    let (t, heads) = (model.positions(), model.symbols().heads);
    match model.spans() {
        Spans::None => SpanGradient::None,
        Spans::PerSymbol(_) => SpanGradient::Scores(scores.to_vec()),
        Spans::PerSpan(_) => {
            let sum = |row: &[F]| F::from_f64(row.iter().map(|x| x.to_f64()).sum());
            SpanGradient::Scores(scores.chunks_exact(heads).map(sum).collect())
        }
        Spans::Factored { spans, symbols } => {
            let (cells, size) = (model.batch() * t * t, symbols.len() / heads);
            // Embeddings where there is no span may be anything.
            let mut used = vec![F::ZERO; spans.len()];
            for (b, &length) in model.lengths().iter().enumerate() {
                for (i, j) in places(length).filter(|(i, j)| i < j) {
                    let own = ((b * t + i) * t + j) * size..((b * t + i) * t + j + 1) * size;
                    used[own.clone()].copy_from_slice(&spans[own]);
                }
            }
            let counts = Matrix::row_major(scores, cells, heads);
            let (mut to_spans, mut to_symbols) = (vec![F::ZERO; spans.len()], vec![F::ZERO; symbols.len()]);
            multiply(counts, Matrix::row_major(symbols, heads, size), &mut to_spans, false);
            multiply(counts.transposed(), Matrix::row_major(&used, cells, size), &mut to_symbols, false);
            SpanGradient::Factored { spans: to_spans, symbols: to_symbols }
        }
    }
}

/// The memory of noisy models, directions and gradients.
pub(super) fn extra_bytes<F: Real>(model: &Hypertree<F>) -> f64 {
    let (t, Symbols { heads, tags, .. }) = (model.positions() as f64, model.symbols());
    let nodes = model.batch() as f64 * t * (tags as f64 + t * heads as f64);
    6.0 * nodes * size_of::<F>() as f64 + 2.0 * model.bytes() as f64
}

/// Tape for the gradient of relaxed trees. The noise is drawn again.
pub struct RelaxedParseTape<F: Real> {
    relaxation: Relaxation<F>,
    count: usize,
    run: Run,
}

impl InsideOutside {
    /// `count` relaxed trees of each sentence at a positive temperature, with the best trees of their noisy
    /// scores, and a tape for the gradient.
    ///
    /// ```
    /// use zhat::dynamic::InsideOutside;
    /// use zhat::model::generate::{HypertreeShape, hypertree};
    /// use zhat::Run;
    /// let model = hypertree::<f64>(&HypertreeShape { words: 4, ..Default::default() }, 1)?;
    /// let (trees, tape) = InsideOutside::default().relaxed_samples_with_tape(&model, 2, 0.5, &Run::default())?;
    /// // Seven nodes for four words, in each of two samples.
    /// assert!((trees.values.iter().sum::<f64>() - 14.0).abs() < 1e-9);
    /// let gradient = tape.vjp(&trees.values)?;
    /// assert_eq!(gradient.words.len(), model.words().len());
    /// # Ok::<(), zhat::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the temperature is not positive and finite, so low that scores overflow, or one at which unary rules
    /// diverge; if the run is cancelled or over its memory or time budget; `Error::ZeroPartition` if no sentence
    /// has a tree.
    pub fn relaxed_samples_with_tape<F: Passes>(
        &self,
        model: &Hypertree<F>,
        count: usize,
        temperature: f64,
        run: &Run,
    ) -> Result<(RelaxedParses<F>, RelaxedParseTape<F>)> {
        let relaxation = Relaxation::new(model, temperature, Streams::new(run.seed(), "relaxed trees"))?;
        let clock = run.start(NAME);
        let (t, symbols) = (model.positions(), model.symbols());
        let shape = [model.batch(), count, t, t, symbols.all];
        let numbers: f64 = shape.iter().map(|&size| size as f64).product();
        let bytes = self.forecast(model, Query::FactorMarginals, run).bytes + extra_bytes(model);
        run.require_memory(NAME, numbers * size_of::<F>() as f64 + bytes)?;
        let mut values = vec![F::default(); shape.iter().product()];
        let mut hard = vec![Vec::new(); model.batch()];
        run.install(|| {
            let possible = solve(model, &[], Purpose::Sums, None, &clock)?;
            some_tree(&possible.log_partition(model.batch()))?;
            for s in 0..count {
                clock.step("samples", s, count)?;
                let (mut own, trees) = relaxation.sample(s, None, &clock)?;
                for (b, tree) in trees.into_iter().enumerate() {
                    for (i, j) in places(model.lengths()[b]) {
                        let first = if i == j { symbols.first_tag() } else { 0 };
                        let row = own.row(model, b, i, j);
                        let at = (((b * count + s) * t + i) * t + j) * symbols.all + first;
                        values[at..at + row.len()].copy_from_slice(row);
                    }
                    hard[b].extend(tree);
                }
            }
            Ok::<_, Error>(())
        })?;
        Ok((RelaxedParses { shape, hard, values }, RelaxedParseTape { relaxation, count, run: run.clone() }))
    }
}

impl<F: Passes> RelaxedParseTape<F> {
    /// The gradient of Σ cotangent·values, for a cotangent of the shape of the values. Cotangents where there is
    /// no node have no effect.
    ///
    /// # Errors
    /// If the cotangent has the wrong length or a number that is not finite, or the run is cancelled or out of
    /// time.
    pub fn vjp(&self, cotangent: &[F]) -> Result<HypertreeGradient<F>> {
        let (model, count) = (&self.relaxation.model, self.count);
        let (t, symbols) = (model.positions(), model.symbols());
        check_numbers(cotangent, model.batch() * count * t * t * symbols.all)?;
        let clock = self.run.start(NAME);
        let of = |s: usize| {
            let mut own = NodeNumbers::zeros(model);
            for (b, &length) in model.lengths().iter().enumerate() {
                for (i, j) in places(length) {
                    let first = if i == j { symbols.first_tag() } else { 0 };
                    let row = own.row(model, b, i, j);
                    let at = (((b * count + s) * t + i) * t + j) * symbols.all + first;
                    row.copy_from_slice(&cotangent[at..at + row.len()]);
                }
            }
            own
        };
        self.run.install(|| self.relaxation.gradient(count, |_| None, of, &clock))
    }
}
