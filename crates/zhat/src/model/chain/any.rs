//! A batch of chains as a dynamic model: summary, tensors, evidence and answers.

use super::{Chain, Pattern, Transitions};
use crate::error::Result;
use crate::model::FactorGraph;
use crate::model::any::{self, AnyModel, Batch, Kind, Model, StateForm, Summary};
use crate::model::evidence::{Evidence, parse_position};
use crate::numeric::Real;
use crate::query::sequence::{ChainGradient, NodeMarginals, Path, PathSamples, TransitionGradient};
use crate::query::{
    Answers, AnyValue, BestState, Draws, HasFactorMarginals, HasMarginals, HasStates, IntoValue, Law,
    StateList,
};
use crate::tensor::{Precision, Tensor, TensorMap};
use crate::units;

impl Chain {
    /// The name of the kind, for either precision.
    pub const KIND: Kind = Kind::new("chain");
}

/// One number for each sequence.
impl<F: Real> Answers for Chain<F> {
    type Number = Vec<f64>;
}

impl<F: Real> HasMarginals for Chain<F> {
    type Marginals = NodeMarginals<F>;
}

/// The gradient of Σ_b log Z_b.
impl<F: Real> HasFactorMarginals for Chain<F> {
    type FactorMarginals = ChainGradient<F>;
}

impl<F: Real> HasStates for Chain<F> {
    type Best = Vec<Path>;
    type Ranked = Vec<Vec<Path>>;
    type Samples = PathSamples;
}

impl<F: Precision> AnyModel for Chain<F> {
    fn kind(&self) -> Kind {
        Chain::KIND
    }

    fn summary(&self) -> Summary {
        sequence_summary(self, self, Chain::KIND)
    }

    fn tensors(&self) -> Vec<Tensor<'_>> {
        let (batch, steps, states) = (self.batch(), self.steps(), self.states());
        // Tensors with 8-byte elements come first, so that every tensor in a file is aligned.
        let mut tensors = vec![Tensor::integers("lengths", &[batch], self.lengths().iter().copied())];
        tensors.extend(self.transitions().pattern_tensors());
        tensors.push(Tensor::new("start", &[states], self.start()));
        tensors.push(Tensor::new("emissions", &[batch, steps, states], self.emissions()));
        tensors.extend(self.transitions().tensors("transitions", states, (steps, batch)));
        tensors.extend(self.end().map(|end| Tensor::new("end", &[states], end)));
        tensors
    }

    fn equals(&self, other: &dyn AnyModel) -> bool {
        any::equal(self, other)
    }

    fn condition(&self, evidence: &[Evidence]) -> Result<Model> {
        Ok(self.condition_on(evidence)?.into())
    }

    fn parse_evidence(&self, text: &str) -> Result<Evidence> {
        parse_position(text, self.batch(), |_| None)
    }

    fn to_factor_graph(&self) -> Result<FactorGraph> {
        Chain::to_factor_graph(self)
    }

    fn batch(&self) -> Option<Batch<'_>> {
        Some(Batch { item: "sequence", lengths: self.lengths() })
    }

    fn state_size(&self) -> usize {
        self.lengths().iter().sum()
    }

    fn state_form(&self) -> StateForm {
        StateForm { name: "states", columns: &["state"] }
    }

    fn place_name(&self, i: usize) -> String {
        format!("t{i}")
    }
}

/// The sizes of a batch of sequences with the scores of `chain` and possibly others.
pub(in crate::model) fn sequence_summary<F: Precision>(
    chain: &Chain<F>,
    model: &dyn AnyModel,
    kind: Kind,
) -> Summary {
    let (batch, steps, states) = (chain.batch(), chain.steps(), chain.states());
    let positions: usize = chain.lengths().iter().sum();
    let shortest = chain.lengths().iter().copied().min().unwrap_or(0);
    let tensors = model.tensors();
    let lists = ["lengths", "indptr", "indices"];
    let scores = tensors.iter().filter(|tensor| !lists.contains(&tensor.name()));
    let values: usize = scores.clone().map(|tensor| tensor.data().len()).sum();
    let zeros: usize = scores.map(Tensor::zeros).sum();
    let pattern = match chain.transitions() {
        Transitions::Sparse { pattern, .. } => Some(pattern),
        _ => None,
    };
    let bytes = values * size_of::<F>() + pattern.map_or(0, Pattern::bytes);
    let (form, rank) = (chain.transitions().form(), chain.transitions().rank(states));
    let summary = Summary::default()
        .figure("form", form)
        .figure("precision", F::NAME)
        .figure("states", states)
        .figure("steps", steps)
        .figure("batch", batch)
        .figure("positions", positions)
        .figure("shortest", shortest)
        .figure("values", values)
        .figure("zeros", zeros)
        .figure("bytes", bytes)
        .line("kind", format!("{kind}, {}", F::NAME));
    let sequences = match batch {
        1 => format!("1 of {positions} positions"),
        _ if shortest == steps => format!("{batch} of {steps} positions each"),
        _ => format!("{batch} of {shortest} to {steps} positions, {positions} in all"),
    };
    let mut summary = summary.line("sequences", sequences).line("states", states.to_string());
    summary = match rank {
        Some(rank) => {
            let what = match chain.transitions() {
                Transitions::LowRank { .. } => "rank",
                _ => "embeddings of dimension",
            };
            summary.figure("rank", rank).line("transitions", format!("{form}, {what} {rank}"))
        }
        None => match pattern {
            None => summary.line("transitions", form),
            Some(pattern) => pattern_summary(summary.figure("entries", pattern.len()), form, pattern, chain),
        },
    };
    summary.line("numbers", format!("{values}, {zeros} of them zero, {}", units::bytes(bytes as f64)))
}

/// The number of states that a warning of a summary lists.
const LISTED: usize = 10;

/// The size of a pattern, and the states that no sequence, or only the first or last position of one, can have.
fn pattern_summary<F: Precision>(
    summary: Summary,
    form: &str,
    pattern: &Pattern,
    chain: &Chain<F>,
) -> Summary {
    let (entries, states) = (pattern.len(), pattern.states());
    let each = (10.0 * entries as f64 / states as f64).round() / 10.0;
    let summary = summary.line("transitions", format!("{form}, {entries} entries, {each} per state"));
    // An entry is open if its score is above −∞ at some step.
    let mut open = vec![false; entries];
    if let Transitions::Sparse { values, .. } = chain.transitions() {
        for table in values.chunks_exact(entries.max(1)) {
            open.iter_mut().zip(table).for_each(|(open, value)| *open |= possible(*value));
        }
    }
    let starts = (0..states).filter(|&state| possible(chain.start()[state]));
    let ends = (0..states).filter(|&state| chain.end().is_none_or(|end| possible(end[state])));
    let from_start = pattern.reached(starts, false, |entry| open[entry]);
    let to_end = pattern.reached(ends, true, |entry| open[entry]);
    let none = |reached: &[bool]| (0..states).filter(|&state| !reached[state]).collect::<Vec<_>>();
    let [unreached, unleft] = pattern.isolated();
    let rest = |isolated: Vec<usize>, reached: &[bool]| {
        isolated.into_iter().filter(|&state| reached[state]).collect::<Vec<_>>()
    };
    let warnings: Vec<String> = [
        ("no path from the start leads to", none(&from_start)),
        ("no path to the end leaves", none(&to_end)),
        ("no transition leads to", rest(unreached, &from_start)),
        ("no transition leaves", rest(unleft, &to_end)),
    ]
    .into_iter()
    .filter(|(_, found)| !found.is_empty())
    .map(|(what, found)| {
        let shown: Vec<String> = found.iter().take(LISTED).map(usize::to_string).collect();
        let more = if found.len() > LISTED { ", …" } else { "" };
        format!("{what} {} of the {states} states: {}{more}", found.len(), shown.join(", "))
    })
    .collect();
    match warnings.is_empty() {
        true => summary,
        false => summary.line("warning", warnings.join("; ")),
    }
}

/// Whether a score is above −∞.
fn possible<F: Real>(score: F) -> bool {
    score.to_f64() > f64::NEG_INFINITY
}

/// Reads a chain in the precision of its emissions.
pub(in crate::model) fn read(tensors: &mut TensorMap) -> Result<Model> {
    Ok(if tensors.is_double("emissions")? {
        chain::<f64>(tensors)?.into()
    } else {
        chain::<f32>(tensors)?.into()
    })
}

/// The chain of a file.
pub(in crate::model) fn chain<F: Precision>(tensors: &mut TensorMap) -> Result<Chain<F>> {
    let found = tensors.shape("emissions")?;
    let &[batch, steps, states] = found.as_slice() else {
        let message = format!("the tensor `emissions` has shape {found:?}, expected [B, T, N]");
        return Err(tensors.error(message));
    };
    if batch == 0 || steps == 0 || states == 0 {
        let message = format!("the tensor `emissions` has shape {found:?}; B, T and N are at least 1");
        return Err(tensors.error(message));
    }
    let start: Vec<F> = tensors.take_shaped("start", &[states], "[N]")?;
    let lengths = tensors.integers("lengths")?;
    tensors.expect_shape("lengths", &[batch], "[B]")?;
    let transitions =
        Transitions::read(tensors, "transitions", states, (steps, batch), (steps - 1, "[T − 1, N, N]"))?;
    let emissions: Vec<F> = tensors.take("emissions")?;
    let end = tensors.has("end").then(|| tensors.take_shaped::<F>("end", &[states], "[N]")).transpose()?;
    let chain = Chain::new(start.into(), emissions.into(), lengths, transitions);
    let chain = chain.and_then(|chain| match end {
        None => Ok(chain),
        Some(end) => chain.with_end(end.into()),
    });
    chain.map_err(|error| tensors.error(error.to_string()))
}

impl<F: Real> Transitions<F> {
    /// The dimension D of factored transitions, or the rank R of low-rank ones.
    pub fn rank(&self, states: usize) -> Option<usize> {
        match self {
            Transitions::Factored { left, .. } | Transitions::LowRank { left, .. } => {
                Some(left.len() / states)
            }
            _ => None,
        }
    }
}

impl<F: Real> Transitions<F> {
    /// The shape of the values of sparse transitions: E, or T − 1 and E; empty for other forms.
    pub(crate) fn sparse_shape(&self) -> Vec<usize> {
        match self {
            Transitions::Sparse { pattern, values, per_step: true } => {
                vec![values.len() / pattern.len().max(1), pattern.len()]
            }
            Transitions::Sparse { pattern, .. } => vec![pattern.len()],
            _ => Vec::new(),
        }
    }
}

impl<F: Precision> Transitions<F> {
    /// The tables as the tensor `name`, the embeddings as `left` and `right`, or the log factors as `log_left`
    /// and `log_right`.
    pub(in crate::model) fn tensors(
        &self,
        name: &'static str,
        states: usize,
        (steps, batch): (usize, usize),
    ) -> Vec<Tensor<'_>> {
        match self {
            Transitions::PerSequence(values) => {
                vec![Tensor::new(name, &[batch, steps - 1, states, states], &values[..])]
            }
            Transitions::Sparse { values, .. } => {
                vec![Tensor::new(name, &self.sparse_shape(), &values[..])]
            }
            Transitions::Shared(values) => vec![Tensor::new(name, &[states, states], &values[..])],
            Transitions::PerStep(values) => {
                let tables = values.len() / (states * states);
                vec![Tensor::new(name, &[tables, states, states], &values[..])]
            }
            Transitions::Factored { left, right } => {
                let shape = [states, left.len() / states];
                let mut tensors = vec![Tensor::new("left", &shape, &left[..])];
                tensors.extend(right.iter().map(|right| Tensor::new("right", &shape, &right[..])));
                tensors
            }
            Transitions::LowRank { left, right } => {
                let shape = [states, left.len() / states];
                [("log_left", left), ("log_right", right)]
                    .map(|(name, values)| Tensor::new(name, &shape, &values[..]))
                    .into()
            }
        }
    }

    /// The pattern of sparse transitions: `indptr` and `indices`.
    pub(in crate::model) fn pattern_tensors(&self) -> Vec<Tensor<'_>> {
        let Transitions::Sparse { pattern, .. } = self else { return Vec::new() };
        let targets = pattern.targets().iter().map(|&j| j as usize);
        vec![
            Tensor::integers("indptr", &[pattern.starts().len()], pattern.starts().iter().copied()),
            Tensor::integers("indices", &[pattern.len()], targets),
        ]
    }

    /// The transitions of a file; `tables` is the number of tables (one per step or edge) with a description
    /// of their shape.
    pub(in crate::model) fn read(
        tensors: &mut TensorMap,
        name: &str,
        states: usize,
        (steps, batch): (usize, usize),
        (tables, meaning): (usize, &str),
    ) -> Result<Self> {
        if tensors.has("indptr") {
            return read_sparse(tensors, name, states, steps);
        }
        let forms: [&[&str]; 3] = [&[name], &["left", "right"], &["log_left", "log_right"]];
        let found = forms.map(|names| names.iter().find(|name| tensors.has(name)));
        if let [first, second, ..] = found.into_iter().flatten().collect::<Vec<_>>()[..] {
            let message = format!("there are both `{first}` and `{second}`; a model has one form of them");
            return Err(tensors.error(message));
        }
        if tensors.has(name) {
            let found = tensors.shape(name)?;
            return match found.len() {
                2 => Ok(Transitions::Shared(
                    tensors.take_shaped::<F>(name, &[states, states], "[N, N]")?.into(),
                )),
                3 => Ok(Transitions::PerStep(
                    tensors.take_shaped::<F>(name, &[tables, states, states], meaning)?.into(),
                )),
                4 => Ok(Transitions::PerSequence(
                    tensors
                        .take_shaped::<F>(name, &[batch, steps - 1, states, states], "[B, T − 1, N, N]")?
                        .into(),
                )),
                _ => Err(tensors.error(format!(
                    "the tensor `{name}` has shape {found:?}, expected [N, N] = {:?} or {meaning} = {:?}",
                    [states, states],
                    [tables, states, states]
                ))),
            };
        }
        let rank = |tensors: &TensorMap, name: &str, meaning: &str| match tensors.shape(name)?.as_slice() {
            &[rows, rank] if rows == states => Ok(rank),
            found => Err(tensors.error(format!(
                "the tensor `{name}` has shape {found:?}, expected {meaning} with N = {states}"
            ))),
        };
        if tensors.has("log_left") {
            let shape = [states, rank(tensors, "log_left", "[N, R]")?];
            let left = tensors.take_shaped::<F>("log_left", &shape, "[N, R]")?.into();
            let right = tensors.take_shaped::<F>("log_right", &shape, "[N, R]")?.into();
            return Ok(Transitions::LowRank { left, right });
        }
        if !tensors.has("left") {
            let message =
                format!("there are no {name}: the tensor `{name}`, `left` or `log_left` is missing");
            return Err(tensors.error(message));
        }
        let rank = rank(tensors, "left", "[N, D]")?;
        let left: Vec<F> = tensors.take("left")?;
        let right = match tensors.has("right") {
            false => None,
            true => Some(tensors.take_shaped::<F>("right", &[states, rank], "[N, D]")?.into()),
        };
        Ok(Transitions::Factored { left: left.into(), right })
    }
}

/// Sparse transitions of a file.
fn read_sparse<F: Precision>(
    tensors: &mut TensorMap,
    name: &str,
    states: usize,
    steps: usize,
) -> Result<Transitions<F>> {
    let starts = tensors.integers("indptr")?;
    let targets = tensors.integers("indices")?;
    let targets = targets.into_iter().map(|j| u32::try_from(j).unwrap_or(u32::MAX)).collect();
    let pattern = Pattern::new(states, starts, targets).map_err(|error| tensors.error(error.to_string()))?;
    let (found, entries) = (tensors.shape(name)?, pattern.len());
    let per_step = found.len() == 2;
    let values = match per_step {
        true => tensors.take_shaped::<F>(name, &[steps - 1, entries], "[T − 1, E]")?,
        false => tensors.take_shaped::<F>(name, &[entries], "[E]")?,
    };
    Ok(Transitions::Sparse { pattern, values: values.into(), per_step })
}

impl<F: Precision> TransitionGradient<F> {
    /// As [`Transitions::tensors`].
    pub(in crate::model) fn into_tensors(
        self,
        name: &'static str,
        states: usize,
        (steps, batch): (usize, usize),
    ) -> Vec<Tensor<'static>> {
        match self {
            TransitionGradient::PerSequence(values) => {
                vec![Tensor::new(name, &[batch, steps.saturating_sub(1), states, states], values)]
            }
            TransitionGradient::Sparse { values, shape } => vec![Tensor::new(name, &shape, values)],
            TransitionGradient::Shared(values) => vec![Tensor::new(name, &[states, states], values)],
            TransitionGradient::PerStep(values) => {
                let tables = values.len() / (states * states).max(1);
                vec![Tensor::new(name, &[tables, states, states], values)]
            }
            TransitionGradient::Factored { left, right } => {
                let shape = [states, left.len() / states.max(1)];
                let mut tensors = vec![Tensor::new("left", &shape, left)];
                tensors.extend(right.map(|right| Tensor::new("right", &shape, right)));
                tensors
            }
            TransitionGradient::LowRank { left, right } => {
                let shape = [states, left.len() / states.max(1)];
                [("log_left", left), ("log_right", right)]
                    .map(|(name, values)| Tensor::new(name, &shape, values))
                    .into()
            }
        }
    }
}

impl<F: Precision> ChainGradient<F> {
    /// The gradient as tensors with the names and shapes of the parameters.
    pub(in crate::model) fn into_tensors(self, batch: usize) -> Vec<Tensor<'static>> {
        let states = self.start.len();
        let steps = self.emissions.len() / (batch * states).max(1);
        let mut tensors = vec![
            Tensor::new("start", &[states], self.start),
            Tensor::new("emissions", &[batch, steps, states], self.emissions),
        ];
        tensors.extend(self.transitions.into_tensors("transitions", states, (steps, batch)));
        tensors.extend(self.end.map(|end| Tensor::new("end", &[states], end)));
        tensors
    }
}

impl<F: Precision> IntoValue<Chain<F>> for ChainGradient<F> {
    fn into_value(self, model: &Chain<F>) -> AnyValue {
        AnyValue::tensors(self.into_tensors(model.batch()))
    }
}

impl<M: ?Sized, F: Precision> IntoValue<M> for NodeMarginals<F> {
    fn into_value(self, _: &M) -> AnyValue {
        AnyValue::tensors(vec![Tensor::new("marginals", &self.shape, self.values)])
    }
}

impl From<Path> for BestState {
    fn from(path: Path) -> Self {
        BestState { state: path.states, score: path.score }
    }
}

impl<M: ?Sized> IntoValue<M> for Vec<Path> {
    fn into_value(self, _: &M) -> AnyValue {
        AnyValue::States(self.into_iter().map(BestState::from).collect())
    }
}

impl<M: ?Sized> IntoValue<M> for Vec<Vec<Path>> {
    fn into_value(self, _: &M) -> AnyValue {
        AnyValue::Ranked(
            self.into_iter().map(|paths| paths.into_iter().map(BestState::from).collect()).collect(),
        )
    }
}

/// The samples of each sequence as lists of numbers, with `columns` numbers per entry. Each sample is freed
/// once it is converted, so only the samples of one sequence are held twice.
pub(in crate::model) fn draws<T, I: IntoIterator<Item = usize>>(
    samples: PathSamples<Vec<T>>,
    columns: usize,
    numbers: impl Fn(Vec<T>) -> I,
) -> AnyValue {
    let weights = samples.log_weights.map(|weights| weights.into_iter().map(Some).collect::<Vec<_>>());
    let weights = weights.unwrap_or_else(|| vec![None; samples.samples.len()]);
    let each = samples.samples.into_iter().zip(weights).map(|(drawn, log_weights)| {
        let total = drawn.iter().map(|path| columns * path.len()).sum();
        let mut states = StateList::with_capacity(drawn.len(), total);
        drawn.into_iter().for_each(|path| states.push(numbers(path)));
        let law = log_weights.map_or(Law::Exact, |log_weights| Law::Weighted { log_weights });
        Draws { states, law }
    });
    AnyValue::Samples(each.collect())
}

impl<M: ?Sized> IntoValue<M> for PathSamples {
    fn into_value(self, _: &M) -> AnyValue {
        draws(self, 1, |path| path)
    }
}
