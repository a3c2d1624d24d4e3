//! Models whose kind is known only at run time: the trait that every kind implements, and a handle that holds
//! a model.

use std::any::{Any, TypeId};
use std::fmt::{self, Debug, Display};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::FactorGraph;
use super::evidence::Evidence;
use super::tree::{NamedTree, TreeKind};
use crate::error::{Error, Result};
use crate::tensor::{Tensor, TensorMap};

/// The name of a kind of model in files, messages and the catalogue: `chain`. Other crates can define new
/// kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(&'static str);

impl Kind {
    /// A kind with this name.
    pub const fn new(name: &'static str) -> Self {
        Kind(name)
    }

    /// The name.
    pub const fn name(self) -> &'static str {
        self.0
    }
}

impl Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Data that a model is applied to, such as the sentences of a grammar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// The data as text.
    pub text: String,
    /// The file name for messages; empty for text in memory.
    pub source_name: String,
}

/// The items of a batch; each has its own answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch<'a> {
    /// The name of an item: `sequence`.
    pub item: &'static str,
    /// The length of each item.
    pub lengths: &'a [usize],
}

/// The layout of a state: rows of one or more columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateForm {
    /// The name of all rows together: `state`, `states`, `segments`.
    pub name: &'static str,
    /// The columns of a row: `state`, or `state` and `length`.
    pub columns: &'static [&'static str],
}

/// Figures about a model, for programs and for people.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Figures by name: sizes, precision, evidence.
    pub figures: Map<String, Value>,
    /// The same as text: pairs of label and description.
    pub lines: Vec<(&'static str, String)>,
}

impl Summary {
    /// Adds a figure.
    pub fn figure(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.figures.insert(name.into(), value.into());
        self
    }

    /// Adds a line.
    pub fn line(mut self, label: &'static str, text: impl Into<String>) -> Self {
        self.lines.push((label, text.into()));
        self
    }

    /// Adds the figures and lines of another summary.
    pub fn extend(&mut self, other: Summary) {
        self.figures.extend(other.figures);
        self.lines.extend(other.lines);
    }
}

/// The interface of every kind of model. Files, `zhat info`, evidence, gradients and printed answers use
/// nothing else; most methods have a default. `examples/own_model.rs` implements it for a kind outside the
/// library.
pub trait AnyModel: Any + Debug + Send + Sync {
    /// The kind.
    fn kind(&self) -> Kind;

    /// Sizes and other figures that need no inference.
    fn summary(&self) -> Summary;

    /// The parameters by name, borrowed; with [`AnyModel::texts`] they are the content of the model's file.
    fn tensors(&self) -> Vec<Tensor<'_>>;

    /// True if another model is the same, including every number.
    fn equals(&self, other: &dyn AnyModel) -> bool;

    /// Texts that the model's file contains besides the tensors.
    fn texts(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Checks whether a file can hold the model.
    ///
    /// # Errors
    /// For models with user-defined functions.
    fn check_writable(&self) -> Result<()> {
        Ok(())
    }

    /// The model conditioned on evidence.
    ///
    /// # Errors
    /// For evidence of another kind, or out of range.
    fn condition(&self, evidence: &[Evidence]) -> Result<Model> {
        let _ = evidence;
        Err(no_evidence(self.kind()))
    }

    /// Parses evidence, in the syntax of `zhat --given`.
    ///
    /// # Errors
    /// If the text is not valid evidence for the model.
    fn parse_evidence(&self, text: &str) -> Result<Evidence> {
        let _ = text;
        Err(no_evidence(self.kind()))
    }

    /// What the model has to be given by [`AnyModel::with_input`] before it has answers: `sentences`.
    fn needs_input(&self) -> Option<&'static str> {
        None
    }

    /// The model of given data, such as the trees of sentences for a grammar.
    ///
    /// # Errors
    /// If the model takes no data, or they do not fit the model.
    fn with_input(&self, input: &Input) -> Result<Model> {
        let _ = input;
        Err(Error::argument("input", format!("a {} takes no input", self.kind())))
    }

    /// The model as a factor graph.
    ///
    /// # Errors
    /// If the model cannot be written as a factor graph, or the graph would be too large.
    fn to_factor_graph(&self) -> Result<FactorGraph> {
        Err(Error::model(format!("a {} is no factor graph", self.kind())))
    }

    /// The items, if the model is a batch.
    fn batch(&self) -> Option<Batch<'_>> {
        None
    }

    /// The number of values in a state, over all items.
    fn state_size(&self) -> usize {
        0
    }

    /// The layout of a state.
    fn state_form(&self) -> StateForm {
        StateForm { name: "state", columns: &["state"] }
    }

    /// The name of value `i` of a state: the name of a variable.
    fn place_name(&self, i: usize) -> String {
        format!("x{i}")
    }

    /// The name of a state of the variable at `place`.
    fn state_name(&self, place: usize, state: usize) -> String {
        let _ = place;
        state.to_string()
    }

    /// A state as one line, for models whose states are not shown as a table of variables.
    fn show_state(&self, state: &[usize]) -> Option<String> {
        let _ = state;
        None
    }

    /// The kind of tree that a state is, if states are trees.
    fn tree_kind(&self) -> Option<TreeKind> {
        None
    }

    /// A state of an item of the batch as a tree with names; `None` if states are not trees or the state is
    /// empty.
    fn named_tree(&self, item: usize, state: &[usize]) -> Option<NamedTree> {
        let _ = (item, state);
        None
    }

    /// The headings of a printed tensor: of the label columns in front of its rows, and of the entries of a
    /// row.
    fn headings(&self, tensor: &str) -> (Vec<&'static str>, &'static str) {
        let _ = tensor;
        match self.batch() {
            Some(batch) => (vec![batch.item, "position"], "probability of each state"),
            None => (vec!["variable"], "probability of each state"),
        }
    }

    /// The label cells in front of a printed row, one for each heading; `index` is the position of the row on
    /// all axes except the last.
    fn row_label(&self, tensor: &str, index: &[usize]) -> Vec<String> {
        let _ = tensor;
        match index {
            &[row] if self.batch().is_none() => vec![self.place_name(row)],
            _ => index.iter().map(usize::to_string).collect(),
        }
    }

    /// JSON description of a row of a ragged tensor, besides its numbers.
    fn row_figures(&self, tensor: &str, row: usize) -> Value {
        serde_json::json!({"name": self.row_label(tensor, &[row]).join(" ")})
    }

    /// The label of an entry of a printed row.
    fn entry_label(&self, tensor: &str, row: usize, entry: usize) -> String {
        let _ = tensor;
        if self.batch().is_none() { self.state_name(row, entry) } else { entry.to_string() }
    }
}

fn no_evidence(kind: Kind) -> Error {
    Error::argument("evidence", format!("a {kind} takes no evidence"))
}

/// A model of any kind, as read from a file; clones share it. It records whether it was conditioned on
/// evidence.
#[derive(Clone, Debug)]
pub struct Model {
    model: Arc<dyn AnyModel>,
    given: bool,
}

impl Model {
    /// Holds a model.
    pub fn new(model: impl AnyModel) -> Self {
        Model { model: Arc::new(model), given: false }
    }

    /// The model, if it has this type.
    ///
    /// ```
    /// use zhat::{Chain, FactorGraph, Model};
    /// let model = Model::new(FactorGraph::new(vec![2, 3])?);
    /// assert_eq!(model.kind().name(), "factor-graph");
    /// assert_eq!(model.get::<FactorGraph>().map(FactorGraph::variable_count), Some(2));
    /// assert!(model.get::<Chain<f32>>().is_none());
    /// # Ok::<(), zhat::Error>(())
    /// ```
    pub fn get<M: AnyModel>(&self) -> Option<&M> {
        let model: &dyn Any = &*self.model;
        model.downcast_ref()
    }

    /// The type of the model.
    pub fn type_of(&self) -> TypeId {
        let model: &dyn Any = &*self.model;
        model.type_id()
    }

    /// The model, shared, if it has this type.
    pub fn shared<M: AnyModel>(&self) -> Option<Arc<M>> {
        let model: Arc<dyn Any + Send + Sync> = self.model.clone();
        model.downcast().ok()
    }

    /// The model conditioned on evidence. This is recorded: Z = 0 then means that the evidence is impossible.
    ///
    /// # Errors
    /// For evidence of another kind, or out of range.
    pub fn condition(&self, evidence: &[Evidence]) -> Result<Model> {
        if evidence.is_empty() {
            return Ok(self.clone());
        }
        Ok(Model { given: true, ..self.model.condition(evidence)? })
    }

    /// True if the model was conditioned by [`Model::condition`].
    pub fn is_given(&self) -> bool {
        self.given
    }
}

impl std::ops::Deref for Model {
    type Target = dyn AnyModel;

    fn deref(&self) -> &(dyn AnyModel + 'static) {
        &*self.model
    }
}

impl PartialEq for Model {
    fn eq(&self, other: &Self) -> bool {
        self.model.equals(&*other.model)
    }
}

impl<M: AnyModel> From<M> for Model {
    fn from(model: M) -> Self {
        Model::new(model)
    }
}

/// True if two models have the same type and are equal; the implementation of [`AnyModel::equals`] for most
/// kinds.
pub fn equal<M: AnyModel + PartialEq>(a: &M, b: &dyn AnyModel) -> bool {
    let other: &dyn Any = b;
    other.downcast_ref::<M>().is_some_and(|b| a == b)
}

/// Constructor of a kind of model from the tensors of a file.
#[derive(Clone, Copy, Debug)]
pub struct Reader {
    /// The kind, as named in the file.
    pub kind: Kind,
    /// Builds the model.
    pub read: fn(&mut TensorMap) -> Result<Model>,
}
