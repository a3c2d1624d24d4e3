//! A pairwise graph as a dynamic model: summary, tensors, evidence and answers.

use super::PairwiseGraph;
use crate::error::{Error, Result};
use crate::model::any::{self, AnyModel, Kind, Model, Summary};
use crate::model::evidence::{Evidence, Place, parse_finding};
use crate::model::{FactorGraph, Transitions};
use crate::numeric::Real;
use crate::query::sequence::TransitionGradient;
use crate::query::{Answers, AnyValue, HasFactorMarginals, HasMarginals, IntoValue};
use crate::tensor::{Precision, Tensor, TensorMap};
use crate::units;

impl PairwiseGraph {
    /// The name of the kind, for either precision.
    pub const KIND: Kind = Kind::new("pairwise-graph");
}

/// P(xᵥ = i) for every variable and state: V×N.
#[derive(Clone, Debug, PartialEq)]
pub struct VariableMarginals<F> {
    /// V and N.
    pub shape: [usize; 2],
    /// The probabilities.
    pub values: Vec<F>,
}

impl<F> VariableMarginals<F> {
    /// The probabilities of the states of variable v.
    pub fn variable(&self, v: usize) -> &[F] {
        &self.values[v * self.shape[1]..(v + 1) * self.shape[1]]
    }
}

/// The gradient with respect to the scores of a pairwise graph. For log Z it consists of the marginals of
/// variables and of edges, the latter summed over the edges that share a table.
#[derive(Clone, Debug, PartialEq)]
pub struct PairwiseGradient<F> {
    /// With respect to the node scores: V×N.
    pub nodes: Vec<F>,
    /// With respect to the interactions, in their form.
    pub interactions: TransitionGradient<F>,
}

impl<F: Real> Answers for PairwiseGraph<F> {
    type Number = f64;
}

impl<F: Real> HasMarginals for PairwiseGraph<F> {
    type Marginals = VariableMarginals<F>;
}

impl<F: Real> HasFactorMarginals for PairwiseGraph<F> {
    type FactorMarginals = PairwiseGradient<F>;
}

impl<F: Precision> IntoValue<PairwiseGraph<F>> for VariableMarginals<F> {
    fn into_value(self, _: &PairwiseGraph<F>) -> AnyValue {
        AnyValue::tensors(vec![Tensor::new("marginals", &self.shape, self.values)])
    }
}

impl<F: Precision> IntoValue<PairwiseGraph<F>> for PairwiseGradient<F> {
    fn into_value(self, model: &PairwiseGraph<F>) -> AnyValue {
        let shape = [model.variables(), model.states()];
        let mut tensors = vec![Tensor::new("nodes", &shape, self.nodes)];
        tensors.extend(self.interactions.into_tensors("interactions", model.states(), (1, 1)));
        AnyValue::tensors(tensors)
    }
}

impl<F: Precision> AnyModel for PairwiseGraph<F> {
    fn kind(&self) -> Kind {
        PairwiseGraph::KIND
    }

    fn summary(&self) -> Summary {
        let form = match self.interactions() {
            Transitions::PerStep(_) => "per-edge",
            other => other.form(),
        };
        let tensors = self.tensors();
        let scores = tensors.iter().filter(|tensor| tensor.name() != "edges");
        let values: usize = scores.clone().map(|tensor| tensor.data().len()).sum();
        let zeros: usize = scores.map(Tensor::zeros).sum();
        let (variables, edges, bytes) = (self.variables(), self.edges().len(), self.bytes());
        let summary = Summary::default()
            .figure("form", form)
            .figure("precision", F::NAME)
            .figure("states", self.states())
            .figure("variables", variables)
            .figure("edges", edges)
            .figure("values", values)
            .figure("zeros", zeros)
            .figure("bytes", bytes)
            .line("kind", format!("{}, {}", PairwiseGraph::KIND, F::NAME))
            .line("variables", format!("{variables}, {edges} edges"))
            .line("states", self.states().to_string());
        let summary = match self.interactions().rank(self.states()) {
            Some(rank) => summary
                .figure("rank", rank)
                .line("interactions", format!("{form}, embeddings of dimension {rank}")),
            None => summary.line("interactions", form),
        };
        summary.line("numbers", format!("{values}, {zeros} of them zero, {}", units::bytes(bytes as f64)))
    }

    fn tensors(&self) -> Vec<Tensor<'_>> {
        // Tensors with 8-byte elements come first, so that every tensor in a file is aligned.
        let ends = self.edges().iter().flat_map(|&(i, j)| [i, j]);
        let mut tensors = vec![
            Tensor::integers("edges", &[self.edges().len(), 2], ends),
            Tensor::new("nodes", &[self.variables(), self.states()], self.nodes()),
        ];
        tensors.extend(self.interactions().tensors("interactions", self.states(), (1, 1)));
        tensors
    }

    fn equals(&self, other: &dyn AnyModel) -> bool {
        any::equal(self, other)
    }

    fn condition(&self, evidence: &[Evidence]) -> Result<Model> {
        Ok(self.condition_on(evidence)?.into())
    }

    fn parse_evidence(&self, text: &str) -> Result<Evidence> {
        let unexpected = || {
            let message = format!("expected VARIABLE=STATE in numbers that count from 0, found `{text}`");
            Error::argument("evidence", message)
        };
        let number = |text: &str| text.trim().parse().map_err(|_| unexpected());
        let (variable, finding) = text.split_once('=').ok_or_else(unexpected)?;
        let variable = variable.trim();
        let variable = number(variable.strip_prefix('x').unwrap_or(variable))?;
        Ok(Evidence::new(Place::Variable(variable), parse_finding(finding, number)?))
    }

    fn to_factor_graph(&self) -> Result<FactorGraph> {
        PairwiseGraph::to_factor_graph(self)
    }
}

/// Reads a graph in the precision of its nodes.
pub(in crate::model) fn read(tensors: &mut TensorMap) -> Result<Model> {
    Ok(if tensors.is_double("nodes")? {
        graph::<f64>(tensors)?.into()
    } else {
        graph::<f32>(tensors)?.into()
    })
}

fn graph<F: Precision>(tensors: &mut TensorMap) -> Result<PairwiseGraph<F>> {
    let found = tensors.shape("nodes")?;
    let &[variables, states] = found.as_slice() else {
        return Err(tensors.error(format!("the tensor `nodes` has shape {found:?}, expected [V, N]")));
    };
    if variables == 0 || states == 0 {
        let message = format!("the tensor `nodes` has shape {found:?}; V and N are at least 1");
        return Err(tensors.error(message));
    }
    let found = tensors.shape("edges")?;
    let &[count, 2] = found.as_slice() else {
        return Err(tensors.error(format!("the tensor `edges` has shape {found:?}, expected [E, 2]")));
    };
    let ends = tensors.integers("edges")?;
    let edges = ends.as_chunks::<2>().0.iter().map(|&[i, j]| (i, j)).collect();
    // Early files called the tensor `transitions`.
    let name = if tensors.has("transitions") { "transitions" } else { "interactions" };
    let interactions = Transitions::read(tensors, name, states, (1, 1), (count, "[E, N, N]"))?;
    let nodes: Vec<F> = tensors.take("nodes")?;
    PairwiseGraph::new(states, nodes.into(), edges, interactions)
        .map_err(|error| tensors.error(error.to_string()))
}
