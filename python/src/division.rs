//! Queries divided over processes and machines.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use zhat::catalogue::{self, Divisible, Part, Settings};
use zhat::{Cache, Query};

use crate::answer::Parts;
use crate::error::{self, Failure};
use crate::model::Model;
use crate::run::Run;

/// A query about a model by one method, whose work consists of units.
#[pyclass(frozen, module = "zhat._zhat")]
pub struct Division {
    division: catalogue::Division,
    cache: Cache,
}

#[pymethods]
impl Division {
    /// The division of a query; `settings` is a JSON object. Seed and memory of the run are part of the task.
    #[new]
    fn new(
        py: Python<'_>,
        model: &Model,
        query: &str,
        method: &str,
        settings: &str,
        run: &Run,
    ) -> PyResult<Self> {
        let known = Query::ALL.into_iter().find(|known| known.name() == query);
        let query = known.ok_or_else(|| error::argument("query", format!("there is no query `{query}`")))?;
        let settings: Settings =
            serde_json::from_str(settings).map_err(|error| error::argument("options", error.to_string()))?;
        let (model, cache, method) = (model.inner().clone(), model.cache().clone(), method.to_owned());
        let division = run.supervise_sharing(py, &cache, move |run| {
            catalogue::Division::new(&model, query, &method, &settings, run)
        })?;
        Ok(Division { division, cache })
    }

    #[getter]
    fn units(&self) -> u64 {
        self.division.units()
    }

    #[getter]
    fn unit_seconds(&self) -> f64 {
        self.division.unit_seconds()
    }

    #[getter]
    fn expected_units(&self) -> u64 {
        self.division.expected_units()
    }

    #[getter]
    fn preparation_seconds(&self) -> f64 {
        self.division.preparation_seconds()
    }

    #[getter]
    fn ends_itself(&self) -> bool {
        self.division.ends_itself()
    }

    #[getter]
    fn is_anytime(&self) -> bool {
        self.division.is_anytime()
    }

    #[getter]
    fn looks(&self) -> Vec<u64> {
        self.division.looks()
    }

    #[getter]
    fn method(&self) -> &'static str {
        self.division.method()
    }

    /// The results of units start to stop − 1.
    fn part<'py>(&self, py: Python<'py>, start: u64, stop: u64, run: &Run) -> PyResult<Bound<'py, PyBytes>> {
        let division = self.division.clone();
        let bytes =
            run.supervise_sharing(py, &self.cache, move |run| division.part(start..stop, run)?.to_bytes())?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// The units of a part; an error if it is not one of this task.
    fn check_part(&self, bytes: &[u8], name: &str, mixed: bool) -> PyResult<(u64, u64)> {
        let part = Part::from_bytes(bytes, name).map_err(Failure)?;
        let range = self.division.clone().with_mixed(mixed).check_part(&part).map_err(Failure)?;
        Ok((range.start, range.end))
    }

    /// The answer from parts: of all units, or at a look.
    fn merge<'py>(
        &self,
        py: Python<'py>,
        parts: Vec<Vec<u8>>,
        mixed: bool,
        look: Option<usize>,
        run: &Run,
    ) -> PyResult<Parts<'py>> {
        let division = self.division.clone().with_mixed(mixed);
        let answer = run.supervise_sharing(py, &self.cache, move |run| {
            let parts = parts
                .iter()
                .enumerate()
                .map(|(i, bytes)| Part::from_bytes(bytes, &format!("part {i}")))
                .collect::<zhat::Result<Vec<_>>>()?;
            match look {
                Some(look) => division.look(look, &parts, run),
                None => division.merge(&parts, run),
            }
        })?;
        Parts::new(py, self.division.model(), self.division.forecast(), answer, Vec::new())
    }
}

/// The hash of a model.
#[pyfunction]
pub fn model_hash(model: &Model) -> String {
    catalogue::model_hash(model.inner())
}
