//! Answers whose types are known only at run time: a few shapes for all kinds of models.
//!
//! A program that chooses model, query and method at run time prints or converts these shapes without knowing
//! the kind of model. The model gives the names of variables, rows and states ([`crate::model::AnyModel`]).

use super::{Beliefs, BestState, FactorBeliefs, Law, Samples};
use crate::answer::{Answer, Estimate};
use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// An answer to a query that was chosen at run time.
pub type AnyAnswer = Answer<AnyValue>;

/// The value of an answer, by shape.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum AnyValue {
    /// log Z or entropy of one model.
    Number(f64),
    /// log Z or entropy of each item of a batch.
    Numbers(Vec<f64>),
    /// Marginals, factor marginals, gradients.
    Tensors(Tensors),
    /// The best state of each item; a single model has one.
    States(Vec<BestState>),
    /// The k best states of each item, best first.
    Ranked(Vec<Vec<BestState>>),
    /// Samples of each item.
    Samples(Vec<Draws>),
}

/// Named tensors with an error radius.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensors {
    /// The tensors.
    pub list: Vec<Tensor<'static>>,
    /// Error radius at the confidence of the guarantee, if the method estimates one: for each number
    /// (marginals), or for all numbers together in Euclidean norm (gradients).
    pub radius: Option<f64>,
}

/// Samples of one item of a batch, and the distribution they follow.
#[derive(Clone, Debug, PartialEq)]
pub struct Draws {
    /// One state per sample.
    pub states: StateList,
    /// The distribution they follow.
    pub law: Law,
}

/// Concatenated states of equal or different lengths.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StateList {
    ends: Vec<usize>,
    values: Vec<usize>,
}

impl StateList {
    /// `count` states of the same length.
    pub fn uniform(count: usize, values: Vec<usize>) -> Self {
        let length = values.len().checked_div(count).unwrap_or(0);
        StateList { ends: (1..=count).map(|i| i * length).collect(), values }
    }

    /// An empty list with capacity for this many states and this many numbers in total.
    pub fn with_capacity(states: usize, numbers: usize) -> Self {
        StateList { ends: Vec::with_capacity(states), values: Vec::with_capacity(numbers) }
    }

    /// Adds a state.
    pub fn push(&mut self, state: impl IntoIterator<Item = usize>) {
        self.values.extend(state);
        self.ends.push(self.values.len());
    }

    /// The number of states.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True if there are no states.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The states.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[usize]> {
        let start = |i: usize| if i == 0 { 0 } else { self.ends[i - 1] };
        (0..self.len()).map(move |i| &self.values[start(i)..self.ends[i]])
    }

    /// All states, concatenated.
    pub fn as_slice(&self) -> &[usize] {
        &self.values
    }
}

/// Conversion of a value about a model of type `M` to one of the shapes of [`AnyValue`].
pub trait IntoValue<M: ?Sized> {
    /// The value in its shape; the model supplies the names.
    fn into_value(self, model: &M) -> AnyValue;
}

impl<M: ?Sized> IntoValue<M> for f64 {
    fn into_value(self, _: &M) -> AnyValue {
        AnyValue::Number(self)
    }
}

impl<M: ?Sized> IntoValue<M> for Vec<f64> {
    fn into_value(self, _: &M) -> AnyValue {
        AnyValue::Numbers(self)
    }
}

impl<M: ?Sized> IntoValue<M> for Beliefs {
    fn into_value(self, _: &M) -> AnyValue {
        let (ends, probabilities) = self.into_parts();
        AnyValue::tensors(vec![Tensor::ragged("marginals", ends, probabilities)])
    }
}

impl<M: ?Sized> IntoValue<M> for FactorBeliefs {
    fn into_value(self, _: &M) -> AnyValue {
        let (ends, probabilities) = self.into_parts();
        AnyValue::tensors(vec![Tensor::ragged("factors", ends, probabilities)])
    }
}

impl<M: ?Sized> IntoValue<M> for BestState {
    fn into_value(self, _: &M) -> AnyValue {
        AnyValue::States(vec![self])
    }
}

impl<M: ?Sized> IntoValue<M> for Vec<BestState> {
    fn into_value(self, _: &M) -> AnyValue {
        AnyValue::Ranked(vec![self])
    }
}

impl<M: ?Sized> IntoValue<M> for Samples {
    fn into_value(self, _: &M) -> AnyValue {
        let (count, law) = (self.len(), self.law.clone());
        let states = StateList::uniform(count, self.into_states());
        AnyValue::Samples(vec![Draws { states, law }])
    }
}

impl AnyValue {
    /// Tensors without an error radius.
    pub fn tensors(list: Vec<Tensor<'static>>) -> Self {
        AnyValue::Tensors(Tensors { list, radius: None })
    }
}

impl AnyAnswer {
    /// The number in an answer about a single model: log Z or entropy.
    pub fn number(&self) -> Option<f64> {
        if let AnyValue::Number(value) = self.value { Some(value) } else { None }
    }

    /// The numbers in an answer about a batch; one number for a single model.
    pub fn numbers(&self) -> Option<&[f64]> {
        match &self.value {
            AnyValue::Number(value) => Some(std::slice::from_ref(value)),
            AnyValue::Numbers(values) => Some(values),
            _ => None,
        }
    }

    /// Converts an answer that is a single number.
    ///
    /// # Errors
    /// If the value has another shape.
    pub fn into_estimate(self) -> Result<Estimate> {
        match self.value {
            AnyValue::Number(value) => {
                Ok(Answer { value, guarantee: self.guarantee, diagnostics: self.diagnostics })
            }
            _ => Err(self.unexpected_shape()),
        }
    }

    /// The error for a value of an unexpected shape.
    pub fn unexpected_shape(&self) -> Error {
        let method = self.diagnostics.method;
        Error::argument("method", format!("the answer of `{method}` has another shape than expected"))
    }

    /// The tensor with this name.
    pub fn tensor(&self, name: &str) -> Option<&Tensor<'static>> {
        let AnyValue::Tensors(tensors) = &self.value else { return None };
        tensors.list.iter().find(|tensor| tensor.name() == name)
    }
}
