//! Chains and semi-Markov chains whose scores are tensors.

use burn_autodiff::Autodiff;
use burn_autodiff::checkpoint::strategy::{CheckpointStrategy, NoCheckpointing};
use burn_tensor::backend::Backend;
use burn_tensor::ops::FloatTensor;
use burn_tensor::{DType, Device, Element, Tensor, TensorData};
use zhat::model::{Segments, Transitions};
use zhat::tensor::Precision;
use zhat::{Chain, Error, Model, Result, SemiMarkov};

/// A tensor of scores.
pub(crate) struct Part<B: Backend, C: CheckpointStrategy> {
    /// The name of the parameter, which is also that of its gradient.
    pub name: &'static str,
    pub shape: Vec<usize>,
    pub data: TensorData,
    pub tracked: FloatTensor<Autodiff<B, C>>,
}

/// The scores of a batch of chains, or of semi-Markov chains.
///
/// | scores | shape |
/// |---|---|
/// | emissions | (B, T, N) |
/// | start, end | (N) |
/// | transitions, the same at every step | (N, N) |
/// | transitions per step | (T − 1, N, N) |
/// | transitions per sequence and step | (B, T − 1, N, N) |
/// | factored transitions leftᵢ · rightⱼ | (N, D) and (N, D) |
/// | low-rank transitions ln Σ_r exp(leftᵢᵣ + rightⱼᵣ) | (N, R) and (N, R) |
/// | segments by state and length | (L, N) |
pub struct ChainScores<B: Backend, C: CheckpointStrategy = NoCheckpointing> {
    pub(crate) parts: Vec<Part<B, C>>,
    pub(crate) device: Device<B>,
    lengths: Option<Vec<usize>>,
}

impl<B: Backend, C: CheckpointStrategy> ChainScores<B, C> {
    fn of_emissions(emissions: Tensor<Autodiff<B, C>, 3>) -> Self {
        let device = emissions.device();
        ChainScores { parts: Vec::new(), device, lengths: None }.with("emissions", emissions)
    }

    fn with<const D: usize>(mut self, name: &'static str, tensor: Tensor<Autodiff<B, C>, D>) -> Self {
        self.parts.retain(|part| part.name != name);
        let shape = tensor.dims().to_vec();
        let data = tensor.clone().inner().into_data();
        let tracked = tensor.into_primitive().tensor();
        self.parts.push(Part { name, shape, data, tracked });
        self
    }

    /// Emissions, and transitions that are the same at every step.
    pub fn new(emissions: Tensor<Autodiff<B, C>, 3>, transitions: Tensor<Autodiff<B, C>, 2>) -> Self {
        Self::of_emissions(emissions).with("transitions", transitions)
    }

    /// Emissions, and transitions for every step.
    pub fn per_step(emissions: Tensor<Autodiff<B, C>, 3>, transitions: Tensor<Autodiff<B, C>, 3>) -> Self {
        Self::of_emissions(emissions).with("transitions", transitions)
    }

    /// Emissions, and transitions for every sequence and step.
    pub fn per_sequence(
        emissions: Tensor<Autodiff<B, C>, 3>,
        transitions: Tensor<Autodiff<B, C>, 4>,
    ) -> Self {
        Self::of_emissions(emissions).with("transitions", transitions)
    }

    /// Emissions, and transitions that are inner products of embeddings of the states.
    pub fn factored(
        emissions: Tensor<Autodiff<B, C>, 3>,
        left: Tensor<Autodiff<B, C>, 2>,
        right: Tensor<Autodiff<B, C>, 2>,
    ) -> Self {
        Self::of_emissions(emissions).with("left", left).with("right", right)
    }

    /// Emissions, and transitions whose exponentials have low rank.
    pub fn low_rank(
        emissions: Tensor<Autodiff<B, C>, 3>,
        left: Tensor<Autodiff<B, C>, 2>,
        right: Tensor<Autodiff<B, C>, 2>,
    ) -> Self {
        Self::of_emissions(emissions).with("log_left", left).with("log_right", right)
    }

    /// Adds scores of the first state.
    pub fn with_start(self, start: Tensor<Autodiff<B, C>, 1>) -> Self {
        self.with("start", start)
    }

    /// Adds scores of the last state.
    pub fn with_end(self, end: Tensor<Autodiff<B, C>, 1>) -> Self {
        self.with("end", end)
    }

    /// Makes the chains semi-Markov: a segment of length l in state j has the score (l − 1, j).
    pub fn with_segments(self, segments: Tensor<Autodiff<B, C>, 2>) -> Self {
        self.with("segments", segments)
    }

    /// Sets the lengths of the sequences; by default all have T positions.
    pub fn with_lengths(mut self, lengths: Vec<usize>) -> Self {
        self.lengths = Some(lengths);
        self
    }

    /// The length of a sequence of a batch whose longest has `steps` positions.
    pub(crate) fn length(&self, sequence: usize, steps: usize) -> usize {
        self.lengths.as_ref().map_or(steps, |lengths| lengths[sequence])
    }

    /// Whether the scores are `f64`.
    ///
    /// # Errors
    /// If the scores are neither `f32` nor `f64`, or not all the same.
    pub(crate) fn is_double(&self) -> Result<bool> {
        let first = self.parts[0].data.dtype;
        if let Some(other) = self.parts.iter().find(|part| part.data.dtype != first) {
            let message = format!("are {:?}, expected {first:?} as the emissions", other.data.dtype);
            return Err(Error::argument(other.name, message));
        }
        match first {
            DType::F64 => Ok(true),
            DType::F32 | DType::Flex32 => Ok(false),
            other => Err(Error::argument("emissions", format!("are {other:?}, expected F32 or F64"))),
        }
    }

    fn numbers<F: Precision + Element>(&self, name: &str) -> Option<(Vec<F>, &[usize])> {
        let part = self.parts.iter().find(|part| part.name == name)?;
        Some((part.data.iter::<F>().collect(), &part.shape))
    }

    /// The model of the library.
    ///
    /// # Errors
    /// If the shapes do not fit each other or a number is not a score.
    pub(crate) fn chain<F: Precision + Element>(&self) -> Result<Chain<F>> {
        let missing = |name: &str| Error::argument(name, "is missing");
        let (emissions, shape) = self.numbers::<F>("emissions").ok_or_else(|| missing("emissions"))?;
        let [batch, steps, states] = [shape[0], shape[1], shape[2]];
        let expect = |name: &str, found: &[usize], wanted: &[usize]| {
            let message = || format!("has shape {found:?}, expected {wanted:?}");
            if found == wanted { Ok(()) } else { Err(Error::argument(name, message())) }
        };
        let lengths = self.lengths.clone().unwrap_or_else(|| vec![steps; batch]);
        if lengths.len() != batch {
            let message = format!("found {} of them for {batch} sequences", lengths.len());
            return Err(Error::argument("lengths", message));
        }
        let of_states = |name: &str| -> Result<Option<Vec<F>>> {
            let Some((values, found)) = self.numbers::<F>(name) else {
                return Ok(None);
            };
            expect(name, found, &[states])?;
            Ok(Some(values))
        };
        let pair = |left: &str, right: &str| -> Result<Option<(Vec<F>, Vec<F>)>> {
            let (Some((a, of_a)), Some((b, of_b))) = (self.numbers::<F>(left), self.numbers::<F>(right))
            else {
                return Ok(None);
            };
            let rank = of_a[1];
            expect(left, of_a, &[states, rank])?;
            expect(right, of_b, &[states, rank])?;
            Ok(Some((a, b)))
        };
        let transitions = if let Some((values, found)) = self.numbers::<F>("transitions") {
            let after = steps.saturating_sub(1);
            match found.len() {
                2 => {
                    expect("transitions", found, &[states, states])?;
                    Transitions::Shared(values.into())
                }
                3 => {
                    expect("transitions", found, &[after, states, states])?;
                    Transitions::PerStep(values.into())
                }
                _ => {
                    expect("transitions", found, &[batch, after, states, states])?;
                    Transitions::PerSequence(values.into())
                }
            }
        } else if let Some((left, right)) = pair("left", "right")? {
            Transitions::Factored { left: left.into(), right: Some(right.into()) }
        } else {
            let (left, right) = pair("log_left", "log_right")?.ok_or_else(|| missing("transitions"))?;
            Transitions::LowRank { left: left.into(), right: right.into() }
        };
        let start = of_states("start")?.unwrap_or_else(|| vec![F::ZERO; states]);
        let chain = Chain::new(start.into(), emissions.into(), lengths, transitions)?;
        match of_states("end")? {
            Some(end) => chain.with_end(end.into()),
            None => Ok(chain),
        }
    }

    /// Whether the chains have segments.
    pub(crate) fn has_segments(&self) -> bool {
        self.parts.iter().any(|part| part.name == "segments")
    }

    pub(crate) fn refuse_segments(&self) -> Result<()> {
        match self.has_segments() {
            true => Err(Error::argument("segments", "are not supported by this operation")),
            false => Ok(()),
        }
    }

    pub(crate) fn semi_markov<F: Precision + Element>(&self) -> Result<SemiMarkov<F>> {
        let chain = self.chain::<F>()?;
        let (values, shape) =
            self.numbers::<F>("segments").ok_or_else(|| Error::argument("segments", "are missing"))?;
        if shape[1] != chain.states() {
            let message = format!("have shape {shape:?}, expected [L, {}]", chain.states());
            return Err(Error::argument("segments", message));
        }
        SemiMarkov::new(chain, Segments::Lengths(values.into()), shape[0])
    }

    pub(crate) fn model(&self) -> Result<Model> {
        Ok(match (self.is_double()?, self.has_segments()) {
            (true, false) => self.chain::<f64>()?.into(),
            (false, false) => self.chain::<f32>()?.into(),
            (true, true) => self.semi_markov::<f64>()?.into(),
            (false, true) => self.semi_markov::<f32>()?.into(),
        })
    }
}
