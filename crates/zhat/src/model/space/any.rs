//! A model on a combinatorial space as a dynamic model: summary, evidence, names and answers.

use super::{Condition, Expectations, SpaceMarginals, SpaceModel, Structures, file};
use crate::decimal;
use crate::error::Result;
use crate::model::any::{self, AnyModel, Kind, Model, Summary};
use crate::model::evidence::{Evidence, other_evidence};
use crate::query::{
    Answers, AnyValue, BestState, HasFactorMarginals, HasMarginals, HasStates, IntoValue, Samples, Tensors,
};
use crate::tensor::Tensor;

impl SpaceModel {
    /// The name of the kind.
    pub const KIND: Kind = Kind::new("space");
}

impl Answers for SpaceModel {
    type Number = f64;
}

impl HasMarginals for SpaceModel {
    type Marginals = SpaceMarginals;
}

/// The gradient of log Z with respect to θ.
impl HasFactorMarginals for SpaceModel {
    type FactorMarginals = Expectations;
}

/// The states of the model are structures.
impl HasStates for SpaceModel {
    type Best = BestState;
    type Ranked = Vec<BestState>;
    type Samples = Samples;
}

impl IntoValue<SpaceModel> for SpaceMarginals {
    fn into_value(self, _: &SpaceModel) -> AnyValue {
        let list = vec![Tensor::new("marginals", &self.shape, self.values)];
        AnyValue::Tensors(Tensors { list, radius: Some(self.radius) })
    }
}

impl IntoValue<SpaceModel> for Expectations {
    fn into_value(self, _: &SpaceModel) -> AnyValue {
        let list = vec![Tensor::new("parameters", &[self.values.len()], self.values)];
        AnyValue::Tensors(Tensors { list, radius: Some(self.radius) })
    }
}

impl AnyModel for SpaceModel {
    fn kind(&self) -> Kind {
        SpaceModel::KIND
    }

    fn summary(&self) -> Summary {
        let (space, scores) = (self.space(), self.scores().name());
        let (low, high) = self.range();
        let conditions: Vec<String> = match self.structures() {
            Structures::Restricted(space) => space.conditions().iter().map(ToString::to_string).collect(),
            _ => Vec::new(),
        };
        let count = space.log_count().map_or_else(
            || "of unknown number".into(),
            |log| format!("10^{:.2}", log / std::f64::consts::LN_10),
        );
        let (width, features) = (space.width(), self.dimension());
        let (least, most) = decimal::interval(low, high);
        let summary = Summary::default()
            .figure("space", space.name())
            .figure("conditions", conditions.clone())
            .figure("scores", scores)
            .figure("width", width)
            .figure("log_count", space.log_count())
            .figure("features", features)
            .figure("lowest_score", low)
            .figure("highest_score", high)
            .figure("bytes", self.bytes())
            .line("kind", format!("{}, {}", SpaceModel::KIND, space.name()))
            .line("structures", format!("{count}, {width} numbers each"))
            .line("scores", format!("{scores}, {features} features, between {least} and {most}"));
        if conditions.is_empty() { summary } else { summary.line("conditions", conditions.join(", ")) }
    }

    fn tensors(&self) -> Vec<Tensor<'_>> {
        file::tensors(self)
    }

    fn texts(&self) -> Vec<(&'static str, String)> {
        file::texts(self)
    }

    fn check_writable(&self) -> Result<()> {
        file::check(self)
    }

    fn equals(&self, other: &dyn AnyModel) -> bool {
        any::equal(self, other)
    }

    fn condition(&self, evidence: &[Evidence]) -> Result<Model> {
        let condition = |item: &Evidence| match item {
            Evidence::Condition(condition) => Ok(condition.clone()),
            _ => Err(other_evidence(SpaceModel::KIND, "its structures, such as `before 3 1`")),
        };
        Ok(self.restrict(evidence.iter().map(condition).collect::<Result<Vec<_>>>()?)?.into())
    }

    fn parse_evidence(&self, text: &str) -> Result<Evidence> {
        Ok(Evidence::Condition(text.parse::<Condition>()?))
    }

    fn state_size(&self) -> usize {
        self.width()
    }

    fn place_name(&self, i: usize) -> String {
        format!("y{i}")
    }

    fn show_state(&self, state: &[usize]) -> Option<String> {
        let structure: Vec<u32> = state.iter().map(|x| *x as u32).collect();
        Some(self.space().show(&structure))
    }

    fn headings(&self, tensor: &str) -> (Vec<&'static str>, &'static str) {
        if tensor == "parameters" {
            return (vec!["feature"], "expectation");
        }
        match self.structures().base() {
            Structures::Hypercube(_) => (vec!["label"], "P(chosen)"),
            Structures::Subtrees(_) => (vec!["node"], "P(chosen)"),
            Structures::Permutations(_) => (vec!["item"], "P(item at position)"),
            Structures::Cycles(_) => {
                (vec!["vertex"], "P(neighbours on the cycle); on the diagonal P(on the cycle)")
            }
            _ => (vec!["element"], "P(in one block)"),
        }
    }

    fn row_label(&self, _: &str, index: &[usize]) -> Vec<String> {
        index.iter().map(usize::to_string).collect()
    }
}
