//! A batch of dependency trees as a dynamic model: summary, tensors, evidence and answers.

use super::{DependencyTree, TreeShape};
use crate::error::Result;
use crate::model::any::{self, AnyModel, Batch, Kind, Model, StateForm, Summary};
use crate::model::evidence::{Evidence, parse_position};
use crate::model::tree::{NamedTree, TreeKind};
use crate::numeric::Real;
use crate::query::sequence::PathSamples;
use crate::query::tree::{DependencyGradient, HeadMarginals, Tree};
use crate::query::{
    Answers, AnyValue, BestState, Draws, HasFactorMarginals, HasMarginals, HasStates, IntoValue, Law,
    StateList,
};
use crate::tensor::{Precision, Tensor, TensorMap};
use crate::units;

impl DependencyTree {
    /// The name of the kind, for either precision.
    pub const KIND: Kind = Kind::new("dependency-tree");
}

/// One number for each sentence.
impl<F: Real> Answers for DependencyTree<F> {
    type Number = Vec<f64>;
}

impl<F: Real> HasMarginals for DependencyTree<F> {
    type Marginals = HeadMarginals<F>;
}

/// The gradient of Σ_b log Z_b.
impl<F: Real> HasFactorMarginals for DependencyTree<F> {
    type FactorMarginals = DependencyGradient<F>;
}

impl<F: Real> HasStates for DependencyTree<F> {
    type Best = Vec<Tree>;
    type Ranked = Vec<Vec<Tree>>;
    type Samples = PathSamples<Tree>;
}

impl<F: Real> DependencyTree<F> {
    /// The shapes of the arcs and of the arcs from the root.
    fn shapes(&self) -> [Vec<usize>; 2] {
        let (batch, words) = (self.batch(), self.words());
        let labelled = |shape: &[usize]| shape.iter().copied().chain(self.labels()).collect();
        [labelled(&[batch, words, words]), labelled(&[batch, words])]
    }
}

impl<F: Precision> AnyModel for DependencyTree<F> {
    fn kind(&self) -> Kind {
        DependencyTree::KIND
    }

    fn summary(&self) -> Summary {
        let (batch, words) = (self.batch(), self.words());
        let all: usize = self.lengths().iter().sum();
        let shortest = self.lengths().iter().copied().min().unwrap_or(0);
        let TreeShape { projective, single_root } = self.shape();
        let sentences = match batch {
            1 => format!("1 of {all} words"),
            _ if shortest == words => format!("{batch} of {words} words each"),
            _ => format!("{batch} of {shortest} to {words} words, {all} in all"),
        };
        let trees = format!(
            "{}, {}",
            if projective { "projective" } else { "any" },
            if single_root { "a single root" } else { "any number of roots" }
        );
        let (values, bytes) = (self.arcs().len() + self.roots().len(), self.bytes());
        let mut summary = Summary::default()
            .figure("precision", F::NAME)
            .figure("batch", batch)
            .figure("words", words)
            .figure("shortest", shortest)
            .figure("positions", all)
            .figure("projective", projective)
            .figure("single_root", single_root)
            .figure("values", values)
            .figure("bytes", bytes)
            .line("kind", format!("{}, {}", DependencyTree::KIND, F::NAME))
            .line("sentences", sentences)
            .line("trees", trees);
        if let Some(labels) = self.labels() {
            summary = summary.figure("labels", labels).line("labels", labels.to_string());
        }
        summary.line("numbers", format!("{values}, {}", units::bytes(bytes as f64)))
    }

    fn tensors(&self) -> Vec<Tensor<'_>> {
        let [arcs, roots] = self.shapes();
        vec![
            Tensor::integers("lengths", &[self.batch()], self.lengths().iter().copied()),
            Tensor::new("arcs", &arcs, self.arcs()),
            Tensor::new("roots", &roots, self.roots()),
        ]
    }

    fn texts(&self) -> Vec<(&'static str, String)> {
        let TreeShape { projective, single_root } = self.shape();
        vec![("projective", projective.to_string()), ("single_root", single_root.to_string())]
    }

    fn equals(&self, other: &dyn AnyModel) -> bool {
        any::equal(self, other)
    }

    fn condition(&self, evidence: &[Evidence]) -> Result<Model> {
        Ok(self.condition_on(evidence)?.into())
    }

    fn parse_evidence(&self, text: &str) -> Result<Evidence> {
        parse_position(text, DependencyTree::batch(self), |_| None)
    }

    fn batch(&self) -> Option<Batch<'_>> {
        Some(Batch { item: "sentence", lengths: self.lengths() })
    }

    fn state_size(&self) -> usize {
        self.lengths().iter().sum()
    }

    fn state_form(&self) -> StateForm {
        let columns: &'static [&'static str] =
            if self.labels().is_some() { &["head", "label"] } else { &["head"] };
        StateForm { name: "heads", columns }
    }

    fn place_name(&self, i: usize) -> String {
        format!("w{i}")
    }

    fn tree_kind(&self) -> Option<TreeKind> {
        Some(TreeKind::Dependency)
    }

    fn named_tree(&self, _: usize, state: &[usize]) -> Option<NamedTree> {
        let columns = self.state_form().columns.len();
        let column = |column: usize| state.iter().skip(column).step_by(columns).copied();
        let labels = match columns {
            1 => Vec::new(),
            _ => column(1).map(|label| label.to_string()).collect(),
        };
        let heads: Vec<usize> = column(0).collect();
        let words = (0..heads.len()).map(|i| self.place_name(i)).collect();
        (!heads.is_empty()).then_some(NamedTree::Dependency { words, heads, labels })
    }

    fn headings(&self, tensor: &str) -> (Vec<&'static str>, &'static str) {
        match tensor {
            "marginals" => {
                (vec!["sentence", "word"], "probability of each head (0: the root, i: word i − 1)")
            }
            "arcs" if self.labels().is_some() => {
                (vec!["sentence", "head", "dependent"], "probability of each label")
            }
            "arcs" => (vec!["sentence", "head"], "probability of each dependent"),
            _ if self.labels().is_some() => (vec!["sentence", "dependent"], "probability of each label"),
            _ => (vec!["sentence"], "probability of each dependent"),
        }
    }
}

/// Reads a batch of dependency trees in the precision of its arcs.
pub(in crate::model) fn read(tensors: &mut TensorMap) -> Result<Model> {
    Ok(if tensors.is_double("arcs")? { trees::<f64>(tensors)?.into() } else { trees::<f32>(tensors)?.into() })
}

fn trees<F: Precision>(tensors: &mut TensorMap) -> Result<DependencyTree<F>> {
    let found = tensors.shape("arcs")?;
    let (batch, words, labels) = match *found.as_slice() {
        [batch, heads, words] if heads == words => (batch, words, None),
        [batch, heads, words, labels] if heads == words => (batch, words, Some(labels)),
        _ => {
            let message =
                format!("the tensor `arcs` has shape {found:?}, expected [B, T, T] or [B, T, T, L]");
            return Err(tensors.error(message));
        }
    };
    let expected: Vec<usize> = [batch, words].into_iter().chain(labels).collect();
    let roots = tensors.take_shaped::<F>("roots", &expected, "[B, T] or [B, T, L]")?;
    tensors.expect_shape("lengths", &[batch], "[B]")?;
    let lengths = tensors.integers("lengths")?;
    let flag =
        |name: &str| match tensors.text(name) {
            Some("true") => Ok(true),
            Some("false") => Ok(false),
            found => Err(tensors
                .error(format!("`{name}` is `{}`, expected true or false", found.unwrap_or("missing")))),
        };
    let shape = TreeShape { projective: flag("projective")?, single_root: flag("single_root")? };
    let arcs = tensors.take::<F>("arcs")?;
    DependencyTree::new(arcs.into(), roots.into(), lengths, labels, shape)
        .map_err(|error| tensors.error(error.to_string()))
}

impl<M: ?Sized, F: Precision> IntoValue<M> for HeadMarginals<F> {
    fn into_value(self, _: &M) -> AnyValue {
        AnyValue::tensors(vec![Tensor::new("marginals", &self.shape, self.values)])
    }
}

impl<F: Precision> IntoValue<DependencyTree<F>> for DependencyGradient<F> {
    fn into_value(self, model: &DependencyTree<F>) -> AnyValue {
        let [arcs, roots] = model.shapes();
        AnyValue::tensors(vec![
            Tensor::new("arcs", &arcs, self.arcs),
            Tensor::new("roots", &roots, self.roots),
        ])
    }
}

/// The head of each word, or head and label.
fn flat(tree: Tree) -> Vec<usize> {
    match tree.labels.is_empty() {
        true => tree.heads,
        false => tree.heads.into_iter().zip(tree.labels).flat_map(|(head, label)| [head, label]).collect(),
    }
}

impl From<Tree> for BestState {
    fn from(tree: Tree) -> Self {
        BestState { score: tree.score, state: flat(tree) }
    }
}

impl<M: ?Sized> IntoValue<M> for PathSamples<Tree> {
    fn into_value(self, _: &M) -> AnyValue {
        let mut weights = self.log_weights.map(Vec::into_iter);
        let each = self.samples.into_iter().map(|drawn| {
            let total = drawn.iter().map(|tree| tree.heads.len() + tree.labels.len()).sum();
            let mut states = StateList::with_capacity(drawn.len(), total);
            drawn.into_iter().for_each(|tree| states.push(flat(tree)));
            let law = match weights.as_mut().and_then(Iterator::next) {
                Some(log_weights) => Law::Weighted { log_weights },
                None => Law::Exact,
            };
            Draws { states, law }
        });
        AnyValue::Samples(each.collect())
    }
}

impl<M: ?Sized> IntoValue<M> for Vec<Tree> {
    fn into_value(self, _: &M) -> AnyValue {
        AnyValue::States(self.into_iter().map(BestState::from).collect())
    }
}

impl<M: ?Sized> IntoValue<M> for Vec<Vec<Tree>> {
    fn into_value(self, _: &M) -> AnyValue {
        AnyValue::Ranked(
            self.into_iter().map(|found| found.into_iter().map(BestState::from).collect()).collect(),
        )
    }
}
