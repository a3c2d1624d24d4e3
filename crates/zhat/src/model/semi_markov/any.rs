//! A batch of semi-Markov chains as a dynamic model: summary, tensors, evidence and answers.

use super::{Segments, SemiMarkov};
use crate::error::Result;
use crate::model::any::{self, AnyModel, Batch, Kind, Model, StateForm, Summary};
use crate::model::chain::any::{chain, draws, sequence_summary};
use crate::model::evidence::{Evidence, parse_position};
use crate::numeric::Real;
use crate::query::sequence::{NodeMarginals, PathSamples, Segmentation, SemiMarkovGradient};
use crate::query::{Answers, AnyValue, BestState, HasFactorMarginals, HasMarginals, HasStates, IntoValue};
use crate::tensor::{Precision, Tensor, TensorMap};

impl SemiMarkov {
    /// The name of the kind, for either precision.
    pub const KIND: Kind = Kind::new("semi-markov");
}

/// One number for each sequence.
impl<F: Real> Answers for SemiMarkov<F> {
    type Number = Vec<f64>;
}

impl<F: Real> HasMarginals for SemiMarkov<F> {
    type Marginals = NodeMarginals<F>;
}

/// The gradient of Σ_b log Z_b.
impl<F: Real> HasFactorMarginals for SemiMarkov<F> {
    type FactorMarginals = SemiMarkovGradient<F>;
}

impl<F: Real> HasStates for SemiMarkov<F> {
    type Best = Vec<Segmentation>;
    type Ranked = Vec<Vec<Segmentation>>;
    type Samples = PathSamples<Vec<(usize, usize)>>;
}

impl<F: Real> SemiMarkov<F> {
    /// The shape of the segment scores.
    fn segment_shape(&self) -> Vec<usize> {
        let chain = self.chain();
        match self.segments() {
            Segments::Lengths(_) => vec![self.longest(), chain.states()],
            Segments::Places(_) => vec![chain.batch(), chain.steps(), self.longest(), chain.states()],
        }
    }
}

impl<F: Precision> AnyModel for SemiMarkov<F> {
    fn kind(&self) -> Kind {
        SemiMarkov::KIND
    }

    fn summary(&self) -> Summary {
        sequence_summary(self.chain(), self, SemiMarkov::KIND)
            .figure("longest_segment", self.longest())
            .line("segments", format!("of up to {} positions", self.longest()))
    }

    fn tensors(&self) -> Vec<Tensor<'_>> {
        let (Segments::Lengths(scores) | Segments::Places(scores)) = self.segments();
        let mut tensors = self.chain().tensors();
        tensors.push(Tensor::new("segments", &self.segment_shape(), &scores[..]));
        tensors
    }

    fn equals(&self, other: &dyn AnyModel) -> bool {
        any::equal(self, other)
    }

    fn condition(&self, evidence: &[Evidence]) -> Result<Model> {
        Ok(self.condition_on(evidence)?.into())
    }

    fn parse_evidence(&self, text: &str) -> Result<Evidence> {
        parse_position(text, self.chain().batch(), |_| None)
    }

    fn batch(&self) -> Option<Batch<'_>> {
        AnyModel::batch(self.chain())
    }

    fn state_size(&self) -> usize {
        self.chain().lengths().iter().sum()
    }

    fn state_form(&self) -> StateForm {
        StateForm { name: "segments", columns: &["state", "length"] }
    }
}

/// Reads a semi-Markov chain in the precision of its emissions.
pub(in crate::model) fn read(tensors: &mut TensorMap) -> Result<Model> {
    Ok(if tensors.is_double("emissions")? {
        semi_markov::<f64>(tensors)?.into()
    } else {
        semi_markov::<f32>(tensors)?.into()
    })
}

fn semi_markov<F: Precision>(tensors: &mut TensorMap) -> Result<SemiMarkov<F>> {
    let chain = chain::<F>(tensors)?;
    let (batch, steps, states) = (chain.batch(), chain.steps(), chain.states());
    let found = tensors.shape("segments")?;
    let longest = match *found.as_slice() {
        [longest, n] if n == states => longest,
        [b, t, longest, n] if (b, t, n) == (batch, steps, states) => longest,
        _ => {
            return Err(tensors.error(format!(
                "the tensor `segments` has shape {found:?}, expected [L, N] = [L, {states}] or [B, T, L, N] = [{batch}, {steps}, L, {states}]"
            )));
        }
    };
    let values = tensors.take::<F>("segments")?.into();
    let segments = if found.len() == 2 { Segments::Lengths(values) } else { Segments::Places(values) };
    SemiMarkov::new(chain, segments, longest).map_err(|error| tensors.error(error.to_string()))
}

impl<F: Precision> IntoValue<SemiMarkov<F>> for SemiMarkovGradient<F> {
    fn into_value(self, model: &SemiMarkov<F>) -> AnyValue {
        let mut tensors = self.chain.into_tensors(model.chain().batch());
        tensors.push(Tensor::new("segments", &model.segment_shape(), self.segments));
        AnyValue::tensors(tensors)
    }
}

/// The (state, length) pairs of the segments, flattened.
fn flat(segments: Vec<(usize, usize)>) -> Vec<usize> {
    segments.into_iter().flat_map(|(state, length)| [state, length]).collect()
}

impl From<Segmentation> for BestState {
    fn from(found: Segmentation) -> Self {
        BestState { state: flat(found.segments), score: found.score }
    }
}

impl<M: ?Sized> IntoValue<M> for Vec<Segmentation> {
    fn into_value(self, _: &M) -> AnyValue {
        AnyValue::States(self.into_iter().map(BestState::from).collect())
    }
}

impl<M: ?Sized> IntoValue<M> for Vec<Vec<Segmentation>> {
    fn into_value(self, _: &M) -> AnyValue {
        AnyValue::Ranked(
            self.into_iter().map(|found| found.into_iter().map(BestState::from).collect()).collect(),
        )
    }
}

impl<M: ?Sized> IntoValue<M> for PathSamples<Vec<(usize, usize)>> {
    fn into_value(self, _: &M) -> AnyValue {
        draws(self, 2, |path| path.into_iter().flat_map(|(state, length)| [state, length]))
    }
}
