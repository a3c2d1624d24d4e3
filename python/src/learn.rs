//! Models from tables: counting, fitting, scoring, imputation.

use std::path::PathBuf;
use std::sync::Arc;

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use zhat::catalogue::{self, Choice, Settings};
use zhat::io::table::{Encoding, Missing, TableOptions};
use zhat::learn::{
    self, Column, Fit, FitCheckpoint, Fitted, Likelihood, NetworkFit, Parents, Structure, columns_of,
    read_statistics, read_table, read_table_for,
};
use zhat::{Cache, Estimate, FactorGraph, Query};

use crate::error::{self, Failure};
use crate::model::Model;
use crate::run::Run;

/// Statistics of a table.
#[pyclass(frozen, module = "zhat._zhat")]
pub struct Statistics {
    inner: learn::Statistics,
}

#[pymethods]
impl Statistics {
    /// From columns of codes; −1 is a missing value.
    #[staticmethod]
    fn of_codes(
        py: Python<'_>,
        names: Vec<String>,
        states: Vec<Vec<String>>,
        codes: Vec<PyReadonlyArray1<'_, i64>>,
        run: &Run,
    ) -> PyResult<Self> {
        let (columns, own) = (columns(names, states), optional(&codes)?);
        let inner = run.supervise(py, move |run| learn::Statistics::of_codes(columns, &own, run))?;
        Ok(Statistics { inner })
    }

    /// From a text file; `format` is whether it has a header, its encoding and the treatment of missing
    /// values.
    #[staticmethod]
    fn read(
        py: Python<'_>,
        path: PathBuf,
        format: (bool, String, String),
        ignore: Vec<String>,
        most_states: usize,
        run: &Run,
    ) -> PyResult<Self> {
        let (header, encoding, missing) = format;
        let options = TableOptions { ignore, most_states, ..table_options(header, &encoding, &missing)? };
        let inner = run.supervise(py, move |run| read_statistics(&path, &options, run))?;
        Ok(Statistics { inner })
    }

    #[getter]
    fn rows(&self) -> u64 {
        self.inner.rows()
    }

    #[getter]
    fn dropped(&self) -> u64 {
        self.inner.dropped()
    }

    /// Columns with missing values and the number of rows concerned, in descending order.
    fn lacking(&self) -> Vec<(String, u64)> {
        self.inner.lacking().into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
    }

    /// The names of the columns and of their states.
    fn columns(&self) -> Vec<(String, Vec<String>)> {
        self.inner.columns().iter().map(|column| (column.name.clone(), column.states.clone())).collect()
    }

    /// The mutual information of two columns, in nats.
    fn mutual_information(&self, i: usize, j: usize) -> PyResult<f64> {
        let columns = self.inner.columns().len();
        if i >= columns || j >= columns || i == j {
            return Err(error::argument("columns", format!("expected two of {columns} columns")));
        }
        Ok(self.inner.mutual_information(i, j))
    }

    /// Pairs of columns by a rule, or those given.
    fn edges(&self, rule: &str, more: usize, given: Vec<(usize, usize)>) -> PyResult<Vec<(usize, usize)>> {
        let structure = match rule {
            "independent" => Structure::Independent,
            "chow-liu" => Structure::ChowLiu { more },
            "complete" => Structure::Complete,
            _ => Structure::Edges(given),
        };
        Ok(structure.edges(&self.inner).map_err(Failure)?)
    }
}

fn columns(names: Vec<String>, states: Vec<Vec<String>>) -> Vec<Column> {
    names.into_iter().zip(states).map(|(name, states)| Column { name, states }).collect()
}

/// Columns of codes; −1 is a missing value.
fn optional(codes: &[PyReadonlyArray1<'_, i64>]) -> PyResult<Vec<Vec<Option<u32>>>> {
    let column = |column: &PyReadonlyArray1<'_, i64>| {
        Ok(column.as_slice()?.iter().map(|&code| u32::try_from(code).ok()).collect())
    };
    codes.iter().map(column).collect()
}

/// The distinct rows of a table, some with missing values.
#[pyclass(frozen, module = "zhat._zhat")]
pub struct Table {
    inner: Arc<learn::Table>,
}

#[pymethods]
impl Table {
    /// From columns of codes; −1 is a missing value. With `structure`, the columns are its variables, and its states
    /// are kept.
    #[staticmethod]
    #[pyo3(signature = (names, states, codes, missing, structure, run))]
    fn of_codes(
        py: Python<'_>,
        names: Vec<String>,
        states: Vec<Vec<String>>,
        codes: Vec<PyReadonlyArray1<'_, i64>>,
        missing: &str,
        structure: Option<&Model>,
        run: &Run,
    ) -> PyResult<Self> {
        let own = optional(&codes)?;
        let missing = missing_named(missing);
        let inner = match structure {
            Some(structure) => {
                let columns = columns_of(&graph_of(structure)?);
                run.supervise(py, move |run| learn::Table::of_known_codes(columns, &own, missing, run))?
            }
            None => {
                let columns = columns(names, states);
                run.supervise(py, move |run| learn::Table::of_codes(columns, &own, missing, run))?
            }
        };
        Ok(Table { inner: Arc::new(inner) })
    }

    /// From a text file, as `Statistics.read`. With `structure`, the columns are its variables.
    #[staticmethod]
    #[pyo3(signature = (path, format, ignore, most_states, structure, run))]
    fn read(
        py: Python<'_>,
        path: PathBuf,
        format: (bool, String, String),
        ignore: Vec<String>,
        most_states: usize,
        structure: Option<&Model>,
        run: &Run,
    ) -> PyResult<Self> {
        let (header, encoding, missing) = format;
        let options = TableOptions { ignore, most_states, ..table_options(header, &encoding, &missing)? };
        let known =
            structure.map(|structure| graph_of(structure).map(|graph| columns_of(&graph))).transpose()?;
        let inner = run.supervise(py, move |run| match &known {
            Some(columns) => read_table_for(columns, &path, &options, run),
            None => read_table(&path, &options, run),
        })?;
        Ok(Table { inner: Arc::new(inner) })
    }

    #[getter]
    fn rows(&self) -> u64 {
        self.inner.rows()
    }

    #[getter]
    fn dropped(&self) -> u64 {
        self.inner.dropped()
    }

    #[getter]
    fn incomplete(&self) -> u64 {
        self.inner.incomplete()
    }

    /// Columns with missing values and the number of rows concerned, in descending order.
    fn lacking(&self) -> Vec<(String, u64)> {
        self.inner.lacking().into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
    }

    /// The counts of the values that are present.
    fn available(&self, py: Python<'_>, run: &Run) -> PyResult<Statistics> {
        let table = self.inner.clone();
        let inner = run.supervise(py, move |run| learn::Statistics::available(&table, run))?;
        Ok(Statistics { inner })
    }

    /// A Bayesian network over the columns with these parents, each as child=parent,parent.
    fn network(&self, parents: Vec<(String, Vec<String>)>) -> PyResult<Model> {
        let columns = self.inner.columns();
        let find = |name: &String| {
            let found = columns.iter().position(|column| column.name == *name);
            found.ok_or_else(|| error::argument("structure", format!("there is no column {name:?}")))
        };
        let mut own = vec![Vec::new(); columns.len()];
        for (child, names) in &parents {
            own[find(child)?] = names.iter().map(find).collect::<PyResult<Vec<usize>>>()?;
        }
        let network = Parents::new(own).and_then(|parents| parents.network(columns)).map_err(Failure)?;
        Ok(Model::with_cache(network, Cache::default()))
    }
}

/// Fits the tables of a Bayesian network; `how` is a JSON object.
#[pyfunction]
pub fn fit_network(
    py: Python<'_>,
    table: &Table,
    structure: &Model,
    how: &str,
    run: &Run,
) -> PyResult<Outcome> {
    let how: NetworkFit =
        serde_json::from_str(how).map_err(|error| error::argument("fit", error.to_string()))?;
    let (structure, table) = (graph_of(structure)?, table.inner.clone());
    let (fitted, history) = run.supervise(py, move |run| {
        let mut history = Vec::new();
        let fitted = learn::fit_network(&structure, &table, &how, run, &mut |now| {
            history.push(now.objective);
            Ok(true)
        })?;
        Ok((fitted, history))
    })?;
    let progress = fitted.progress;
    Ok((
        Model::with_cache(fitted.graph, Cache::default()),
        told(&fitted.log_likelihood),
        progress.iteration,
        fitted.converged,
        progress.objective,
        progress.change,
        history,
    ))
}

/// An estimate: value, guarantee as JSON and in words, method, diagnostics as JSON.
type Told = (f64, String, String, &'static str, String);

fn told(estimate: &Estimate) -> Told {
    let (guarantee, diagnostics) = (&estimate.guarantee, &estimate.diagnostics);
    let words = guarantee.to_string();
    (
        estimate.value,
        guarantee.to_json().to_string(),
        words,
        diagnostics.method,
        diagnostics.to_json().to_string(),
    )
}

/// The result of a fit.
type Outcome = (Model, Told, usize, bool, f64, f64, Vec<f64>);

/// Fits a model; `how` and `settings` are JSON objects. With `table`, to its rows, some of which are incomplete,
/// otherwise to the complete rows that `statistics` counts.
#[pyfunction]
#[pyo3(signature = (statistics, table, edges, method, settings, how, checkpoint, run))]
#[expect(clippy::too_many_arguments, reason = "the Python side gives them names")]
pub fn fit(
    py: Python<'_>,
    statistics: &Statistics,
    table: Option<&Table>,
    edges: Vec<(usize, usize)>,
    method: &str,
    settings: &str,
    how: &str,
    checkpoint: Option<PathBuf>,
    run: &Run,
) -> PyResult<Outcome> {
    let settings = options(settings)?;
    let how: Fit = serde_json::from_str(how).map_err(|error| error::argument("fit", error.to_string()))?;
    let choice = Choice::parse(method);
    let likelihood = match table {
        Some(table) => {
            let table = table.inner.clone();
            run.supervise(py, move |run| Likelihood::of_table(&table, &edges, choice, settings, run))?
        }
        None => Likelihood::new(&statistics.inner, &edges, choice, settings).map_err(Failure)?,
    };
    let cache = Cache::default();
    let (fitted, history): (Fitted, Vec<f64>) = run.supervise_sharing(py, &cache, move |run| {
        let mut history = Vec::new();
        let mut watch = |now: &FitCheckpoint| {
            history.push(now.progress().objective);
            Ok(true)
        };
        let fitted = match &checkpoint {
            Some(path) => learn::fit_kept(&likelihood, &how, path, run, &mut watch)?,
            None => learn::fit(&likelihood, &how, None, run, &mut watch)?,
        };
        Ok((fitted, history))
    })?;
    let progress = fitted.progress;
    Ok((
        Model::with_cache(fitted.graph, cache),
        told(&fitted.log_likelihood),
        progress.iteration,
        fitted.converged,
        progress.objective,
        progress.stationarity,
        history,
    ))
}

/// Parses the options of a method, a JSON object.
fn options(text: &str) -> PyResult<Settings> {
    serde_json::from_str(text).map_err(|error| error::argument("options", error.to_string()))
}

fn graph_of(model: &Model) -> PyResult<FactorGraph> {
    let other =
        || error::argument("model", format!("is a {}, expected a factor graph", model.inner().kind()));
    model.get().cloned().ok_or_else(other)
}

/// The treatment of missing values; the Python side has checked the name.
fn missing_named(name: &str) -> Missing {
    match name {
        "drop" => Missing::Drop,
        "refuse" => Missing::Refuse,
        "em" | "marginal" => Missing::Marginal,
        _ => Missing::State,
    }
}

/// Format of a text file.
fn table_options(header: bool, encoding: &str, missing: &str) -> PyResult<TableOptions> {
    let encoding = Encoding::named(encoding).ok_or_else(|| {
        error::argument("encoding", format!("expected \"utf-8\" or \"latin-1\", found {encoding:?}"))
    })?;
    let missing = missing_named(missing);
    Ok(TableOptions { header, encoding, missing, ..Default::default() })
}

/// The rows of a text file as columns of codes; −1 is a missing value.
#[pyfunction]
pub fn read_codes<'py>(
    py: Python<'py>,
    model: &Model,
    path: PathBuf,
    header: bool,
    encoding: &str,
    missing: &str,
    run: &Run,
) -> PyResult<Vec<Bound<'py, PyArray1<i64>>>> {
    let graph = graph_of(model)?;
    let options = table_options(header, encoding, missing)?;
    let columns = run.supervise(py, move |run| {
        let clock = run.start("reading");
        let mut rows = learn::open_rows(&graph, &path, &options)?;
        let mut columns = vec![Vec::new(); graph.variable_count()];
        while let Some(some) = rows.next_rows()? {
            clock.check()?;
            for row in some {
                if options.missing == Missing::Refuse && row.states.contains(&None) {
                    return Err(rows.fail(row.line, "a value is missing"));
                }
                for (column, state) in columns.iter_mut().zip(row.states) {
                    column.push(state.map_or(-1, |state| state as i64));
                }
            }
        }
        Ok(columns)
    })?;
    Ok(columns.into_iter().map(|column| PyArray1::from_vec(py, column)).collect())
}

/// The log-likelihood of rows of codes under a model, with log Z by a method.
#[pyfunction]
pub fn score_rows<'py>(
    py: Python<'py>,
    model: &Model,
    codes: Vec<PyReadonlyArray1<'py, i64>>,
    missing: &str,
    method: &str,
    settings: &str,
    run: &Run,
) -> PyResult<(Bound<'py, PyArray1<f64>>, Told)> {
    let graph = graph_of(model)?;
    let settings = options(settings)?;
    let rows = states_of(&graph, &codes)?;
    let (choice, missing) = (Choice::parse(method), missing_named(missing));
    let (scores, mean) = run.supervise_sharing(py, model.cache(), move |run| {
        let model = graph.clone().into();
        let answer = catalogue::answer(&model, Query::LogPartition, &choice, &settings, run)?;
        let log_z = answer.into_estimate()?;
        learn::score_states(&graph, log_z, &rows, missing, run)
    })?;
    Ok((PyArray1::from_vec(py, scores), told(&mean)))
}

/// Codes with every −1 replaced by the most probable state given the rest of its row.
#[pyfunction]
pub fn impute_rows<'py>(
    py: Python<'py>,
    model: &Model,
    codes: Vec<PyReadonlyArray1<'py, i64>>,
    method: &str,
    settings: &str,
    run: &Run,
) -> PyResult<Vec<Bound<'py, PyArray1<i64>>>> {
    let graph = graph_of(model)?;
    let settings = options(settings)?;
    let rows = states_of(&graph, &codes)?;
    let choice = Choice::parse(method);
    let columns = graph.variable_count();
    let filled = run.supervise_sharing(py, model.cache(), move |run| {
        learn::impute_states(&graph, rows, (&choice, &settings), run)
    })?;
    let column = |v: usize| PyArray1::from_iter(py, filled.iter().map(|row| row[v] as i64));
    Ok((0..columns).map(column).collect())
}

/// Rows of states from columns of codes.
fn states_of(graph: &FactorGraph, codes: &[PyReadonlyArray1<'_, i64>]) -> PyResult<Vec<Vec<Option<usize>>>> {
    let rows = codes.first().map_or(0, |column| column.as_array().len());
    if codes.len() != graph.variable_count() {
        return Err(error::argument("codes", "expected one column a variable"));
    }
    let mut all = vec![Vec::with_capacity(codes.len()); rows];
    for (v, column) in codes.iter().enumerate() {
        let column = column.as_slice()?;
        if column.len() != rows {
            return Err(error::argument("codes", "the columns have different numbers of rows"));
        }
        for (row, &code) in all.iter_mut().zip(column) {
            let state = usize::try_from(code).ok();
            if state.is_some_and(|state| state >= graph.cardinalities()[v]) {
                return Err(error::argument("codes", format!("variable {v} has no state {code}")));
            }
            row.push(state);
        }
    }
    Ok(all)
}
