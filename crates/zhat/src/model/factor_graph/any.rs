//! A factor graph as a dynamic model: summary, tensors, evidence, names and answers.

use serde_json::json;

use super::{FactorGraph, Names, NetworkType};
use crate::error::{Error, Result};
use crate::model::any::{self, AnyModel, Kind, Model, Summary};
use crate::model::evidence::{Evidence, Place, parse_finding};
use crate::model::table;
use crate::query::{
    Answers, Beliefs, BestState, FactorBeliefs, HasFactorMarginals, HasMarginals, HasStates, Samples,
};
use crate::tensor::{Tensor, TensorMap};
use crate::units;

impl FactorGraph {
    /// The name of the kind.
    pub const KIND: Kind = Kind::new("factor-graph");
}

impl Answers for FactorGraph {
    type Number = f64;
}

impl HasMarginals for FactorGraph {
    type Marginals = Beliefs;
}

impl HasFactorMarginals for FactorGraph {
    type FactorMarginals = FactorBeliefs;
}

impl HasStates for FactorGraph {
    type Best = BestState;
    type Ranked = Vec<BestState>;
    type Samples = Samples;
}

impl FactorBeliefs {
    /// All-zero tables, one for every factor of `graph`.
    pub fn zeros(graph: &FactorGraph) -> Self {
        let sizes: Vec<usize> = graph.factors().map(|factor| factor.log_values.len()).collect();
        FactorBeliefs::with_sizes(&sizes)
    }
}

/// The name of the tensor of factor marginals.
const FACTORS: &str = "factors";

impl FactorGraph {
    fn form_name(&self) -> &'static str {
        if self.network_type() == NetworkType::Bayes { "bayes" } else { "markov" }
    }

    fn names_of(&self, scope: &[usize]) -> Vec<String> {
        scope.iter().map(|&v| self.variable_name(v)).collect()
    }
}

impl AnyModel for FactorGraph {
    fn kind(&self) -> Kind {
        FactorGraph::KIND
    }

    fn summary(&self) -> Summary {
        let values = || self.factors().flat_map(|factor| factor.log_values);
        let (entries, zeros) = (values().count(), values().filter(|x| **x == f64::NEG_INFINITY).count());
        let largest = self.cardinalities().iter().max().copied().unwrap_or(0);
        let arity = self.factors().map(|factor| factor.scope.len()).max().unwrap_or(0);
        let log2_states = self.log_state_count() / std::f64::consts::LN_2;
        let (form, variables, factors) = (self.form_name(), self.variable_count(), self.factor_count());
        let summary = Summary::default()
            .figure("form", form)
            .figure("variables", variables)
            .figure("factors", factors)
            .figure("largest_domain", largest)
            .figure("largest_arity", arity)
            .figure("values", entries)
            .figure("zeros", zeros)
            .figure("bytes", self.bytes())
            .figure("evidence", self.evidence().len())
            .figure("log2_states", log2_states)
            .line("kind", format!("{} ({form})", FactorGraph::KIND))
            .line(
                "variables",
                format!("{variables}, up to {largest} states, 2^{log2_states:.1} states in all"),
            )
            .line(
                "factors",
                format!("{factors} of up to {arity} variables, {entries} values, {zeros} of them zero"),
            );
        let uncertain = self.uncertain_evidence().len();
        let summary = if uncertain > 0 { summary.figure("uncertain_evidence", uncertain) } else { summary };
        let observed = units::count(self.evidence().len(), "observed variable");
        let unsure = units::count(uncertain, "uncertain observation");
        match (self.evidence().is_empty(), uncertain) {
            (true, 0) => summary,
            (false, 0) => summary.line("evidence", observed),
            (true, _) => summary.line("evidence", unsure),
            (false, _) => summary.line("evidence", format!("{observed}, {unsure}")),
        }
    }

    fn tensors(&self) -> Vec<Tensor<'_>> {
        let factors = self.factor_count();
        let mut tensors = vec![
            Tensor::integers("cardinalities", &[self.variable_count()], self.cardinalities().iter().copied()),
            Tensor::integers("scope_lengths", &[factors], self.factors().map(|factor| factor.scope.len())),
            Tensor::integers("scopes", &[self.scopes.len()], self.scopes.iter().copied()),
            Tensor::new("log_values", &[self.values.len()], self.values.as_slice()),
        ];
        if !self.evidence().is_empty() {
            let pairs = self.evidence().iter().flat_map(|&(v, s)| [v, s]);
            tensors.push(Tensor::integers("evidence", &[self.evidence().len(), 2], pairs));
        }
        if !self.uncertain_evidence().is_empty() {
            let factors = self.uncertain_evidence();
            tensors.push(Tensor::integers("uncertain_evidence", &[factors.len()], factors.iter().copied()));
        }
        tensors
    }

    fn texts(&self) -> Vec<(&'static str, String)> {
        let mut texts = vec![("form", self.form_name().to_owned())];
        texts.extend(self.names().map(|names| ("names", json!(names).to_string())));
        texts
    }

    fn equals(&self, other: &dyn AnyModel) -> bool {
        any::equal(self, other)
    }

    fn condition(&self, evidence: &[Evidence]) -> Result<Model> {
        Ok(self.condition_on(evidence)?.into())
    }

    fn parse_evidence(&self, text: &str) -> Result<Evidence> {
        let fail = |message: String| Error::argument("evidence", message);
        let read = |(name, finding): (&str, &str)| {
            let variable = self.variable_named(name)?;
            let finding = parse_finding(finding, |state| self.state_named(variable, state))?;
            Ok(Evidence::new(Place::Variable(variable), finding))
        };
        // Names may have `=` in them: the shortest name that can be meant is.
        let splits = || text.match_indices('=').map(|(at, _)| (&text[..at], &text[at + 1..]));
        if let Some(found) = splits().find_map(|split| read(split).ok()) {
            return Ok(found);
        }
        let known = splits().find(|(name, _)| self.variable_named(name).is_ok());
        let split = known.or_else(|| splits().next());
        split.map_or_else(|| Err(fail(format!("expected NAME=STATE, found `{text}`"))), read)
    }

    fn to_factor_graph(&self) -> Result<FactorGraph> {
        Ok(self.clone())
    }

    fn state_size(&self) -> usize {
        self.variable_count()
    }

    fn place_name(&self, i: usize) -> String {
        self.variable_name(i)
    }

    fn state_name(&self, place: usize, state: usize) -> String {
        FactorGraph::state_name(self, place, state)
    }

    fn headings(&self, tensor: &str) -> (Vec<&'static str>, &'static str) {
        match tensor {
            FACTORS => (vec!["factor", "variables"], "probability of each joint state"),
            _ => (vec!["variable"], "probability of each state"),
        }
    }

    fn row_label(&self, tensor: &str, index: &[usize]) -> Vec<String> {
        let row = index.first().copied().unwrap_or(0);
        match tensor {
            FACTORS => vec![row.to_string(), self.names_of(self.factor(row).scope).join(",")],
            _ => vec![self.variable_name(row)],
        }
    }

    fn entry_label(&self, tensor: &str, row: usize, entry: usize) -> String {
        if tensor != FACTORS {
            return self.state_name(row, entry);
        }
        let (mut rest, mut states) = (entry, Vec::new());
        for &v in self.factor(row).scope.iter().rev() {
            states.push(self.state_name(v, rest % self.cardinalities()[v]));
            rest /= self.cardinalities()[v];
        }
        states.reverse();
        states.join(",")
    }

    fn row_figures(&self, tensor: &str, row: usize) -> serde_json::Value {
        match tensor {
            FACTORS => {
                let scope = self.factor(row).scope;
                json!({"scope": self.names_of(scope), "shape": self.lengths(scope)})
            }
            _ => {
                let states: Vec<String> =
                    (0..self.cardinalities()[row]).map(|s| self.state_name(row, s)).collect();
                json!({"name": self.variable_name(row), "states": states})
            }
        }
    }
}

/// Reads a factor graph.
pub(in crate::model) fn read(tensors: &mut TensorMap) -> Result<Model> {
    let values: Vec<f64> = tensors.take("log_values")?;
    let tensors = &*tensors;
    let fail = |message: String| tensors.error(message);
    let invalid = |error: Error| fail(error.to_string());
    let (scope_lengths, scopes) = (tensors.integers("scope_lengths")?, tensors.integers("scopes")?);
    let mut graph = FactorGraph::new(tensors.integers("cardinalities")?).map_err(invalid)?;
    let (mut scope_at, mut value_at) = (0usize, 0usize);
    for (f, &length) in scope_lengths.iter().enumerate() {
        let scope = scopes
            .get(scope_at..scope_at.saturating_add(length))
            .ok_or_else(|| fail(format!("the scope of factor {f} is cut off")))?;
        let size = if scope.iter().all(|&v| v < graph.variable_count()) {
            table::size(graph.lengths(scope))
        } else {
            Some(0) // rejected below, with the number of the variable
        };
        let end = size.and_then(|size| value_at.checked_add(size)).unwrap_or(usize::MAX);
        let table =
            values.get(value_at..end).ok_or_else(|| fail(format!("the table of factor {f} is cut off")))?;
        graph.add_factor(scope, table).map_err(invalid)?;
        (scope_at, value_at) = (scope_at + length, end);
    }
    if scope_at != scopes.len() || value_at != values.len() {
        return Err(fail("there are more scopes or values than the factors need".into()));
    }
    graph = graph.with_network_type(match tensors.text("form") {
        None | Some("markov") => NetworkType::Markov,
        Some("bayes") => NetworkType::Bayes,
        Some(other) => return Err(fail(format!("unknown form `{other}`; known are markov and bayes"))),
    });
    if let Some(names) = tensors.text("names") {
        let names: Names = serde_json::from_str(names)
            .map_err(|error| fail(format!("the names cannot be read: {error}")))?;
        let (variables, states) = names.into_parts();
        graph = graph.with_names(variables, states).map_err(invalid)?;
    }
    let mut pairs = Vec::new();
    if tensors.has("evidence") {
        pairs.extend(tensors.integers("evidence")?.as_chunks::<2>().0.iter().map(|p| (p[0], p[1])));
        if let Some((v, _)) = pairs.iter().find(|(v, s)| graph.cardinalities().get(*v).is_none_or(|d| s >= d))
        {
            return Err(fail(format!("the evidence about variable {v} is out of range")));
        }
    }
    let mut uncertain = Vec::new();
    if tensors.has("uncertain_evidence") {
        uncertain = tensors.integers("uncertain_evidence")?;
        if let Some(f) = uncertain.iter().find(|&&f| f >= graph.factor_count()) {
            return Err(fail(format!("the uncertain evidence names factor {f}, which does not exist")));
        }
    }
    Ok(graph.with_evidence_record(pairs, uncertain).into())
}
