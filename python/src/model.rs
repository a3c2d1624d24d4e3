//! Models: built from arrays, read from files, asked.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use numpy::{PyArray1, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use zhat::catalogue::{self, Choice, DEFAULT_HORIZON, Settings};
use zhat::io::{self, model_file, uai};
use zhat::model::{Factor, Form};
use zhat::{Cache, Error, FactorGraph, Query};

use crate::answer::{Cost, Parts};
use crate::error::{self, Failure};
use crate::run::Run;
use crate::sequence::Figures;

/// The names of the variables, and of the states of each.
type Names = (Vec<String>, Vec<Vec<String>>);
/// A factor: scope and table.
type Table<'py> = (Bound<'py, PyTuple>, Bound<'py, PyArrayDyn<f64>>);
/// Method, query, whether it fits the budget, and what it takes.
type Entry = (&'static str, &'static str, bool, Cost);

/// A model, never changed once made, with the cache that its queries share.
#[pyclass(frozen, eq, module = "zhat._zhat")]
pub struct Model {
    model: Arc<zhat::Model>,
    cache: Cache,
}

/// The cache makes no difference.
impl PartialEq for Model {
    fn eq(&self, other: &Self) -> bool {
        self.model == other.model
    }
}

/// A variable or a state: by number or by name.
#[derive(FromPyObject)]
enum Label {
    Number(usize),
    Name(String),
}

/// The figures of a factor graph; a dict in Python.
#[derive(IntoPyObject)]
struct Sizes {
    kind: &'static str,
    form: &'static str,
    variables: usize,
    factors: usize,
    largest_domain: usize,
    largest_arity: usize,
    values: usize,
    zeros: usize,
    bytes: usize,
    evidence: usize,
    free: Option<usize>,
    barren: usize,
    log2_states: f64,
    width: Option<usize>,
    log2_table: Option<f64>,
}

/// The figures of a mixed model.
#[derive(IntoPyObject)]
struct MixedSizes {
    kind: &'static str,
    variables: usize,
    continuous: usize,
    terms: usize,
    largest_component: usize,
    numerical: bool,
    bytes: usize,
}

/// The figures of a model on a space.
#[derive(IntoPyObject)]
struct SpaceSizes {
    kind: &'static str,
    space: &'static str,
    scores: &'static str,
    width: usize,
    log_count: Option<f64>,
    features: usize,
    bytes: usize,
}

/// The figures of a cyclic sequence model.
#[derive(IntoPyObject)]
struct CycleSizes {
    kind: &'static str,
    length: usize,
    states: usize,
    context: usize,
    bytes: usize,
}

/// The figures of any model.
#[derive(IntoPyObject)]
enum AnySizes {
    Graph(Sizes),
    Mixed(MixedSizes),
    Space(SpaceSizes),
    Cycle(CycleSizes),
    Sequences(Figures),
}

impl Model {
    /// Wraps a model of any kind.
    pub fn of(model: impl Into<zhat::Model>) -> Self {
        Model::with_cache(model, Cache::default())
    }

    /// The same with results that are known already.
    pub fn with_cache(model: impl Into<zhat::Model>, cache: Cache) -> Self {
        Model { model: Arc::new(model.into()), cache }
    }

    /// The cache that the queries of this model share.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// The model itself.
    pub fn inner(&self) -> &zhat::Model {
        &self.model
    }

    /// The same, to be shared with a thread.
    pub fn shared(&self) -> Arc<zhat::Model> {
        self.model.clone()
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

    /// Reads a model from a file, and evidence from another.
    #[staticmethod]
    fn read(py: Python<'_>, path: PathBuf, evidence: Option<PathBuf>) -> PyResult<Self> {
        let model = py.detach(|| {
            let model = io::read_model(&file(path))?;
            let Some(evidence) = evidence else {
                return Ok(model);
            };
            let graph = graph_of(&model)?;
            Ok(graph.condition(&uai::read_evidence(&evidence, graph)?)?.into())
        });
        Ok(Model::of(model.map_err(Failure)?))
    }

    /// The kind of model: `factor-graph`, `chain` or `semi-markov`.
    #[getter]
    fn kind(&self) -> &'static str {
        self.model.kind().name()
    }

    /// The model in these bytes of a .zhat file.
    #[staticmethod]
    fn from_bytes(data: &[u8]) -> PyResult<Self> {
        Ok(Model::of(model_file::parse(data, "").map_err(Failure)?))
    }

    /// The bytes of the model's .zhat file.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        // Straight into the bytes object: no second copy of a large model.
        PyBytes::new_with(py, model_file::length(&self.model), |mut bytes| {
            Ok(model_file::write(&self.model, &mut bytes)?)
        })
    }

    /// Writes the model in the format that the path's ending names.
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

    /// The model given that variables are in these states.
    fn condition(&self, evidence: Vec<(Label, Label)>) -> PyResult<Self> {
        let graph = self.graph()?;
        let found = evidence.into_iter().map(|(variable, state)| find(graph, variable, state));
        let evidence = found.collect::<PyResult<Vec<_>>>()?;
        Ok(Model::of(graph.condition(&evidence).map_err(Failure)?))
    }

    /// The sizes, and for each method and query its cost and whether it fits the budget of `run`.
    fn info(&self, py: Python<'_>, run: &Run) -> PyResult<(AnySizes, Vec<Entry>)> {
        let model = self.model.clone();
        run.supervise_sharing(py, self.cache(), move |run| {
            let horizon = run.time().map_or(DEFAULT_HORIZON, |time| time.as_secs_f64());
            let mut costs = Vec::new();
            for row in catalogue::rows(model.kind()) {
                for &query in row.queries {
                    let forecast = row.forecast(&model, query, &Settings::new(), run)?;
                    costs.push((row.method, query.name(), forecast.fits(run, horizon), forecast.into()));
                }
            }
            Ok((sizes(&model, run)?, costs))
        })
    }

    /// Chooses a method and asks it; `count` is of account for samples and the k best only, `settings` is a JSON object.
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
        let (plan, answer) = run.supervise_sharing(py, self.cache(), move |run| {
            let plan = catalogue::choose(&model, query, &choice, &settings, run)?;
            let answer = plan.answer(&model, query, &settings, run)?;
            Ok((plan, answer))
        })?;
        Parts::new(py, &self.model, &plan, answer)
    }

    /// Frees what queries of this model have kept for later ones.
    fn clear_cache(&self) {
        self.cache.clear();
    }

    /// How many results are kept for later queries.
    #[getter]
    fn cache_len(&self) -> usize {
        self.cache.len()
    }
}

fn graph_of(model: &zhat::Model) -> zhat::Result<&FactorGraph> {
    match model {
        zhat::Model::FactorGraph(graph) => Ok(graph),
        other => {
            let message = format!("expected a factor graph, found a {}", other.kind().name());
            Err(Error::argument("model", message))
        }
    }
}

/// The path of a file: to the library `-` is a standard stream, in Python it is a name like any other.
fn file(path: PathBuf) -> PathBuf {
    if path == Path::new("-") { Path::new(".").join(path) } else { path }
}

fn find(graph: &FactorGraph, variable: Label, state: Label) -> PyResult<(usize, usize)> {
    let v = match variable {
        Label::Number(v) => v,
        Label::Name(name) => graph
            .find_variable(&name)
            .ok_or_else(|| error::argument("evidence", format!("there is no variable `{name}`")))?,
    };
    let s = match state {
        Label::Number(s) => s,
        // An unknown variable is the library's to refuse.
        Label::Name(_) if v >= graph.variable_count() => 0,
        Label::Name(name) => graph.find_state(v, &name).ok_or_else(|| {
            let message = format!("variable {} has no state `{name}`", graph.variable_name(v));
            error::argument("evidence", message)
        })?,
    };
    Ok((v, s))
}

fn sizes(model: &zhat::Model, run: &zhat::Run) -> zhat::Result<AnySizes> {
    if let Some(sizes) = model.sequence_sizes() {
        return Ok(AnySizes::Sequences(Figures::new(model.kind().name(), sizes)));
    }
    if let zhat::Model::MixedModel(mixed) = model {
        let sizes = mixed.sizes();
        return Ok(AnySizes::Mixed(MixedSizes {
            kind: model.kind().name(),
            variables: sizes.variables,
            continuous: sizes.continuous,
            terms: sizes.terms,
            largest_component: sizes.largest_component,
            numerical: sizes.numerical,
            bytes: sizes.bytes,
        }));
    }
    if let zhat::Model::Space(space) = model {
        return Ok(AnySizes::Space(SpaceSizes {
            kind: model.kind().name(),
            space: space.space().name(),
            scores: space.scores().name(),
            width: space.width(),
            log_count: space.space().log_count(),
            features: space.dimension(),
            bytes: space.bytes(),
        }));
    }
    if let zhat::Model::SequenceMrf(mrf) = model {
        return Ok(AnySizes::Cycle(CycleSizes {
            kind: model.kind().name(),
            length: mrf.length(),
            states: mrf.states(),
            context: mrf.context(),
            bytes: mrf.bytes(),
        }));
    }
    let graph = graph_of(model)?;
    let values = || graph.factors().flat_map(|factor| factor.log_values);
    let difficulty = graph.difficulty(run);
    Ok(AnySizes::Graph(Sizes {
        kind: model.kind().name(),
        form: if graph.form() == Form::Bayes { "bayes" } else { "markov" },
        variables: graph.variable_count(),
        factors: graph.factor_count(),
        largest_domain: graph.cardinalities().iter().max().copied().unwrap_or(0),
        largest_arity: graph.factors().map(|factor| factor.scope.len()).max().unwrap_or(0),
        values: values().count(),
        zeros: values().filter(|&&value| value == f64::NEG_INFINITY).count(),
        bytes: graph.bytes(),
        evidence: graph.evidence().len(),
        free: difficulty.map(|found| found.free),
        barren: difficulty.map_or(0, |found| found.barren),
        log2_states: graph.log_state_count() / std::f64::consts::LN_2,
        width: difficulty.and_then(|found| found.width),
        log2_table: difficulty.map(|found| found.log2_table),
    }))
}
