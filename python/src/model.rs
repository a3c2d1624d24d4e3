//! Models: construction from arrays, files, queries.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use numpy::{PyArray1, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use serde_json::{Map, Value};
use zhat::catalogue::{self, Choice, DEFAULT_HORIZON, Settings};
use zhat::io::{self, model_file, uai};
use zhat::model::{AnyModel, Evidence, Factor, Finding, Place};
use zhat::tensor::{Data, Tensor};
use zhat::{Cache, Error, FactorGraph, Query};

use crate::answer::{Cost, Parts};
use crate::array::{self, Precision};
use crate::error::{self, Failure};
use crate::run::Run;
use crate::space;

/// The names of the variables, and of the states of each.
type Names = (Vec<String>, Vec<Vec<String>>);
/// A factor: scope and table.
type Table<'py> = (Bound<'py, PyTuple>, Bound<'py, PyArrayDyn<f64>>);
/// Method, query, whether it fits the budget, and the forecast.
type Entry = (&'static str, &'static str, bool, Cost);

/// An immutable model with a cache shared by its queries.
#[pyclass(frozen, eq, module = "zhat._zhat")]
pub struct Model {
    model: zhat::Model,
    cache: Cache,
}

/// Equality ignores the cache.
impl PartialEq for Model {
    fn eq(&self, other: &Self) -> bool {
        self.model == other.model
    }
}

/// A variable or a state, by number or by name.
#[derive(FromPyObject)]
enum Label {
    Number(usize),
    Name(String),
}

/// What is known about a state: the state, the possible states, or the log-likelihood of each state.
#[derive(FromPyObject)]
enum Known {
    State(Label),
    Set(Vec<Label>),
    Likelihood(Vec<f64>),
}

/// An observation: what is known about a variable or about a position of a sequence, or a condition on
/// structures.
#[derive(FromPyObject)]
enum Observation {
    Position(usize, usize, Known),
    Variable(Label, Known),
    Text(String),
    Function(Py<PyAny>),
}

impl Model {
    /// Wraps a model of any kind.
    pub fn of(model: impl Into<zhat::Model>) -> Self {
        Model::with_cache(model, Cache::default())
    }

    /// The same with an existing cache.
    pub fn with_cache(model: impl Into<zhat::Model>, cache: Cache) -> Self {
        Model { model: model.into(), cache }
    }

    /// The cache shared by the queries of this model.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// The model itself.
    pub fn inner(&self) -> &zhat::Model {
        &self.model
    }

    /// The model, if it has this type.
    pub fn get<M: AnyModel>(&self) -> Option<&M> {
        self.model.get()
    }

    fn graph(&self) -> PyResult<&FactorGraph> {
        graph_of(&self.model).map_err(|error| Failure(error).into())
    }
}

#[pymethods]
impl Model {
    #[new]
    fn new(
        cardinalities: Vec<usize>,
        factors: Vec<(Vec<usize>, PyReadonlyArrayDyn<'_, f64>)>,
        names: Option<Names>,
    ) -> PyResult<Self> {
        let mut graph = FactorGraph::new(cardinalities).map_err(Failure)?;
        for (f, (scope, values)) in factors.iter().enumerate() {
            graph.add_factor(scope, values.as_slice()?).map_err(Failure)?;
            let shape: Vec<usize> = scope.iter().map(|&v| graph.cardinalities()[v]).collect();
            if values.ndim() != 1 && values.shape() != shape {
                let message = format!(
                    "factor {f} has shape {:?}, but its scope {scope:?} needs {shape:?}",
                    values.shape()
                );
                return Err(Failure(Error::Model(message)).into());
            }
        }
        if let Some((variables, states)) = names {
            graph = graph.with_names(variables, states).map_err(Failure)?;
        }
        Ok(Model::of(graph))
    }

    /// Reads a model from a file, and evidence from another file.
    #[staticmethod]
    fn read(py: Python<'_>, path: PathBuf, evidence: Option<PathBuf>) -> PyResult<Self> {
        let model = py.detach(|| {
            let model = io::read_model(&file(path))?;
            let Some(evidence) = evidence else {
                return Ok(model);
            };
            let states = uai::read_evidence(&evidence, graph_of(&model)?)?;
            let state = |(variable, state)| Evidence::State { variable, state };
            model.condition(&states.into_iter().map(state).collect::<Vec<_>>())
        });
        Ok(Model::of(model.map_err(Failure)?))
    }

    /// The kind of model: `factor-graph`, `chain`, …
    #[getter]
    fn kind(&self) -> &'static str {
        self.model.kind().name()
    }

    /// The model from the bytes of a .zhat file.
    #[staticmethod]
    fn from_bytes(data: &[u8]) -> PyResult<Self> {
        Ok(Model::of(model_file::parse(data, "").map_err(Failure)?))
    }

    /// The bytes of the model's .zhat file.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        // Writes directly into the bytes object, so that a large model is not copied twice.
        PyBytes::new_with(py, model_file::length(&self.model), |mut bytes| {
            Ok(model_file::write(&self.model, &mut bytes)?)
        })
    }

    /// Writes the model in the format given by the file extension.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        Ok(py.detach(|| io::write_model(&self.model, &file(path))).map_err(Failure)?)
    }

    #[getter]
    fn cardinalities(&self) -> PyResult<Vec<usize>> {
        Ok(self.graph()?.cardinalities().to_vec())
    }

    #[getter]
    fn factor_count(&self) -> PyResult<usize> {
        Ok(self.graph()?.factor_count())
    }

    #[getter]
    fn evidence(&self) -> PyResult<Vec<(usize, usize)>> {
        Ok(self.graph()?.evidence().to_vec())
    }

    /// The variables of which sets of states or likelihoods were given.
    #[getter]
    fn uncertain_evidence(&self) -> PyResult<Vec<usize>> {
        let graph = self.graph()?;
        Ok(graph
            .uncertain_evidence()
            .iter()
            .filter_map(|&f| graph.factor(f).scope.first().copied())
            .collect())
    }

    /// The names, if the model has any.
    #[getter]
    fn names(&self) -> PyResult<Option<Names>> {
        let graph = self.graph()?;
        Ok(graph.names().map(|names| {
            let states = (0..graph.variable_count()).map(|v| names.states(v).to_vec());
            (names.variables().to_vec(), states.collect())
        }))
    }

    /// The scopes of the factors.
    #[getter]
    fn scopes<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        self.graph()?.factors().map(|factor| PyTuple::new(py, factor.scope)).collect()
    }

    /// The factors, as copies.
    #[getter]
    fn factors<'py>(&self, py: Python<'py>) -> PyResult<Vec<Table<'py>>> {
        let graph = self.graph()?;
        let array = |factor: Factor<'_>| {
            let shape: Vec<usize> = factor.scope.iter().map(|&v| graph.cardinalities()[v]).collect();
            let values = PyArray1::from_slice(py, factor.log_values).reshape(shape)?;
            Ok((PyTuple::new(py, factor.scope)?, values))
        };
        graph.factors().map(array).collect()
    }

    /// The number of a variable given by its name or number.
    fn variable(&self, label: Label) -> PyResult<usize> {
        let graph = self.graph()?;
        let count = graph.variable_count();
        match label {
            Label::Name(name) => Ok(graph.variable_named(&name).map_err(Failure)?),
            Label::Number(v) if v < count => Ok(v),
            Label::Number(v) => {
                Err(error::argument("variables", format!("there is no variable {v}; there are {count}")))
            }
        }
    }

    /// The log weight of a state.
    fn score(&self, state: Vec<usize>) -> PyResult<f64> {
        let graph = self.graph()?;
        if state.len() != graph.variable_count() {
            let (given, needed) = (state.len(), graph.variable_count());
            let message = format!("one state for each of the {needed} variables is needed, found {given}");
            return Err(error::argument("state", message));
        }
        for (v, (&s, &states)) in state.iter().zip(graph.cardinalities()).enumerate() {
            if s >= states {
                let name = graph.variable_name(v);
                let message = format!("variable {name} has {states} states, so there is no state {s}");
                return Err(error::argument("state", message));
            }
        }
        Ok(graph.score(&state))
    }

    /// The model given these observations.
    fn condition(&self, evidence: Vec<Observation>) -> PyResult<Self> {
        let evidence =
            evidence.into_iter().map(|item| self.evidence_of(item)).collect::<PyResult<Vec<_>>>()?;
        Ok(Model::of(self.model.condition(&evidence).map_err(Failure)?))
    }

    /// The parameters by name, as read-only views of the model's memory; integers are copies. A tensor stored
    /// in several pieces is a list of views.
    fn parameters<'py>(model: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        let parts = PyDict::new(model.py());
        for tensor in model.get().model.tensors() {
            parts.set_item(tensor.name(), views(model, &tensor)?)?;
        }
        Ok(parts)
    }

    /// The length of each item of a batch.
    #[getter]
    fn lengths(&self) -> Vec<usize> {
        self.model.batch().map_or_else(Vec::new, |batch| batch.lengths.to_vec())
    }

    /// The summary of the model as JSON.
    fn summary(&self) -> String {
        Value::Object(self.model.summary().figures).to_string()
    }

    /// The same with figures computed by methods, and for each method and query its cost and whether it fits
    /// the budget of `run`.
    fn info(&self, py: Python<'_>, run: &Run) -> PyResult<(String, Vec<Entry>)> {
        let model = self.model.clone();
        run.supervise_sharing(py, self.cache(), move |run| {
            let horizon = run.time().map_or(DEFAULT_HORIZON, |time| time.as_secs_f64());
            let mut costs = Vec::new();
            for row in catalogue::rows(model.kind()) {
                for query in row.queries() {
                    let forecast = row.forecast(&model, query, &Settings::new(), run)?;
                    costs.push((row.method, query.name(), forecast.fits(run, horizon), forecast.into()));
                }
            }
            let mut figures = Map::from_iter([("kind".to_owned(), Value::from(model.kind().name()))]);
            figures.extend(catalogue::describe(&model, run).figures);
            Ok((Value::Object(figures).to_string(), costs))
        })
    }

    /// Chooses a method and runs the query. `count` matters only for samples and the k best states;
    /// `settings` is a JSON object.
    fn answer<'py>(
        &self,
        py: Python<'py>,
        query: &str,
        count: usize,
        method: &str,
        settings: &str,
        run: &Run,
    ) -> PyResult<Parts<'py>> {
        let known = Query::ALL.into_iter().find(|known| known.name() == query);
        let known = known.ok_or_else(|| error::argument("query", format!("there is no query `{query}`")))?;
        let query = known.with_count(count);
        let settings: Settings =
            serde_json::from_str(settings).map_err(|error| error::argument("options", error.to_string()))?;
        let (model, choice) = (self.model.clone(), Choice::parse(method));
        let cache = self.cache().clone();
        let ((plan, answer), mut trace) = run.supervise_traced(py, Arc::default(), move |run| {
            let run = &run.clone().with_cache(cache);
            let plan = catalogue::choose(&model, query, &choice, &settings, run)?;
            let answer = plan.answer(&model, query, &settings, run)?;
            Ok((plan, answer))
        })?;
        // Other queries may report bounds on log Z on the way, which are not bounds on their answer.
        if query != Query::LogPartition {
            trace.clear();
        }
        Parts::new(py, &self.model, plan.forecast, answer, trace)
    }

    /// Clears the cache of this model.
    fn clear_cache(&self) {
        self.cache.clear();
    }

    /// The number of cache entries.
    #[getter]
    fn cache_len(&self) -> usize {
        self.cache.len()
    }
}

impl Model {
    /// Converts an observation to the library's type.
    fn evidence_of(&self, item: Observation) -> PyResult<Evidence> {
        Ok(match item {
            Observation::Position(sequence, position, known) => {
                Evidence::new(Place::Position { sequence, position }, finding(known, number)?)
            }
            Observation::Variable(variable, known) => match self.get::<FactorGraph>() {
                Some(graph) => {
                    let v = match variable {
                        Label::Number(v) => v,
                        Label::Name(name) => graph.variable_named(&name).map_err(Failure)?,
                    };
                    Evidence::new(Place::Variable(v), finding(known, |label| state(graph, v, label))?)
                }
                None => Evidence::new(Place::Variable(number(variable)?), finding(known, number)?),
            },
            Observation::Text(text) => self.model.parse_evidence(&text).map_err(Failure)?,
            Observation::Function(function) => Evidence::Condition(space::condition(self, function)?),
        })
    }
}

/// Views of a tensor's numbers.
fn views<'py>(model: &Bound<'py, Model>, tensor: &Tensor<'_>) -> PyResult<Bound<'py, PyAny>> {
    fn of<'py, F: Precision>(
        model: &Bound<'py, Model>,
        pieces: &[Cow<'_, [F]>],
        shape: &[usize],
    ) -> PyResult<Bound<'py, PyAny>> {
        let one = |piece: &Cow<'_, [F]>, shape: &[usize]| match piece {
            // SAFETY: a model is immutable, and its numbers do not move during its lifetime.
            Cow::Borrowed(numbers) => unsafe { array::view(numbers, shape, model.as_any()) },
            Cow::Owned(numbers) => array::handed_over(model.py(), numbers.clone(), shape),
        };
        match pieces {
            [only] => Ok(one(only, shape)?.into_any()),
            pieces => {
                let rows = shape.get(1..).unwrap_or_default();
                let each = pieces.iter().map(|piece| one(piece, rows)).collect::<PyResult<Vec<_>>>()?;
                Ok(each.into_pyobject(model.py())?.into_any())
            }
        }
    }
    match tensor.data() {
        Data::F32(pieces) => of(model, pieces, tensor.shape()),
        Data::F64(pieces) => of(model, pieces, tensor.shape()),
        Data::U64(numbers) => {
            let numbers = numbers.iter().map(|x| *x as i64).collect();
            Ok(array::handed_over(model.py(), numbers, tensor.shape())?.into_any())
        }
        _ => Err(error::argument("parameters", "of a type that the Python package does not know")),
    }
}

fn graph_of(model: &zhat::Model) -> zhat::Result<&FactorGraph> {
    let other = || Error::argument("model", format!("expected a factor graph, found a {}", model.kind()));
    model.get::<FactorGraph>().ok_or_else(other)
}

/// The path of a file. In the library `-` is a standard stream, in Python it is an ordinary file name.
pub fn file(path: PathBuf) -> PathBuf {
    if path == Path::new("-") { Path::new(".").join(path) } else { path }
}

/// The library's type, with the numbers of the states.
fn finding(known: Known, number: impl Fn(Label) -> PyResult<usize>) -> PyResult<Finding> {
    Ok(match known {
        Known::State(label) => Finding::State(number(label)?),
        Known::Set(labels) => Finding::Set(labels.into_iter().map(number).collect::<PyResult<_>>()?),
        Known::Likelihood(log_values) => Finding::Likelihood(log_values),
    })
}

/// The number of a state of variable `v`.
fn state(graph: &FactorGraph, v: usize, label: Label) -> PyResult<usize> {
    match label {
        Label::Number(s) => Ok(s),
        // The library reports the error for an unknown variable.
        Label::Name(_) if v >= graph.variable_count() => Ok(0),
        Label::Name(name) => Ok(graph.state_named(v, &name).map_err(Failure)?),
    }
}

fn number(label: Label) -> PyResult<usize> {
    match label {
        Label::Number(number) => Ok(number),
        Label::Name(_) => Err(error::argument("evidence", "variables and states go by their numbers")),
    }
}
