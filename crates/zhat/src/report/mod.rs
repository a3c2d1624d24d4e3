//! Text and JSON output of answers for all kinds of models.
//!
//! A value has one of a few shapes ([`AnyValue`]), and the model names its rows, columns and states
//! ([`AnyModel`](crate::model::AnyModel)), so one text formatter and one JSON writer serve all kinds.
//!
//! ```
//! use zhat::catalogue::{self, Choice, Settings};
//! use zhat::report::Report;
//! use zhat::{FactorGraph, Model, Query, Run};
//! let model = Model::new(FactorGraph::new(vec![2, 2])?);
//! let answer = catalogue::answer(&model, Query::Entropy, &Choice::Auto, &Settings::new(), &Run::default())?;
//! let report = Report::new(Query::Entropy.name(), &model, &answer);
//! assert!(report.text().starts_with("entropy    1.38629"));
//! assert!(report.json()?.contains("\"query\":\"entropy\",\"value\":1.386294"));
//! # Ok::<(), zhat::Error>(())
//! ```

pub(crate) mod json;
mod samples;
pub(crate) mod table;
mod text;
pub mod tree;
mod trees;
pub(crate) mod words;

use serde_json::Value;

use crate::error::{Error, Result};
use crate::model::Model;
use crate::query::{AnyAnswer, AnyValue};
use tree::TreeForm;

/// The version of the JSON output: the key `schema` of every object. It changes with every change that breaks
/// a reader.
pub const SCHEMA: u32 = 1;

/// An answer to be printed.
#[derive(Clone, Debug)]
pub struct Report<'a> {
    query: &'a str,
    model: &'a Model,
    answer: &'a AnyAnswer,
    members: Vec<(&'static str, Value)>,
    first_sample: usize,
    rows: Option<Vec<usize>>,
    trees: Option<TreeForm>,
}

impl<'a> Report<'a> {
    /// The answer to a query about a model.
    pub fn new(query: &'a str, model: &'a Model, answer: &'a AnyAnswer) -> Self {
        Report { query, model, answer, members: Vec::new(), first_sample: 0, rows: None, trees: None }
    }

    /// Adds a member to the JSON object, such as the seed or the plan.
    pub fn with_member(mut self, name: &'static str, value: Value) -> Self {
        self.members.push((name, value));
        self
    }

    /// Shows only these rows of marginals, such as those of chosen variables, in this order.
    pub fn with_rows(mut self, rows: Vec<usize>) -> Self {
        self.rows = Some(rows);
        self
    }

    /// Prints states as trees of this form. Forms other than the indented one print nothing but the trees.
    ///
    /// # Errors
    /// If the states of the model are not trees, or have no such form.
    pub fn with_trees(mut self, form: TreeForm) -> Result<Self> {
        form.check(self.model.tree_kind())?;
        self.trees = Some(form);
        Ok(self)
    }

    /// The rows to show, of so many.
    fn shown_rows(&self, count: usize) -> Vec<usize> {
        self.rows.clone().unwrap_or_else(|| (0..count).collect())
    }

    /// Sets the index of the first sample, for samples that continue earlier output.
    pub fn with_first_sample(mut self, first: usize) -> Self {
        self.first_sample = first;
        self
    }

    /// Text: a number or a table, and below it the guarantee, the method and its figures. Samples are CSV.
    /// Trees with symbols are printed as nested brackets.
    pub fn text(&self) -> String {
        if let Some(text) = trees::text(self) {
            return text;
        }
        match &self.answer.value {
            AnyValue::Samples(draws) => samples::csv(self, draws),
            _ => text::text(self),
        }
    }

    /// One JSON object: `schema`, `version`, `query`, the value, `guarantee`, `method`, further members,
    /// `diagnostics`. Samples are one object per line.
    ///
    /// # Errors
    /// For numbers that JSON cannot express.
    pub fn json(&self) -> Result<String> {
        let text = match &self.answer.value {
            AnyValue::Samples(draws) => samples::json_lines(self, draws),
            _ => serde_json::to_string(&json::Object(self)).map(|text| text + "\n"),
        };
        text.map_err(|error| Error::argument("json", error.to_string()))
    }
}
