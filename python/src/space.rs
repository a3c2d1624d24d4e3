//! Models on combinatorial spaces.

use pyo3::prelude::*;
use zhat::SpaceModel;
use zhat::model::generate;
use zhat::space::{
    Condition, Cycles, Distance, Hypercube, Partitions, Permutations, Scores, Structures, Subtrees,
};

use crate::error::{self, Failure};
use crate::model::Model;

/// The numbers of the scores: a table, inputs, pairs and a reference order.
#[derive(FromPyObject)]
pub struct Numbers {
    #[pyo3(item)]
    table: Vec<f64>,
    #[pyo3(item)]
    inputs: Vec<f64>,
    #[pyo3(item)]
    pairs: Vec<(usize, usize, f64)>,
    #[pyo3(item)]
    reference: Vec<usize>,
}

fn structures(space: &str, size: usize, parents: &[Option<usize>]) -> PyResult<Structures> {
    let found = match space {
        "hypercube" => Hypercube::new(size).map(Structures::from),
        "signs" => Hypercube::signs(size).map(Structures::from),
        "permutations" => Permutations::new(size).map(Structures::from),
        "cycles" => Cycles::new(size).map(Structures::from),
        "partitions" => Partitions::new(size).map(Structures::from),
        "subtrees" | "subtrees-with-empty" => {
            Subtrees::new(parents, space == "subtrees-with-empty").map(Structures::from)
        }
        _ => return Err(error::argument("space", format!("there is no space `{space}`"))),
    };
    Ok(found.map_err(Failure)?)
}

/// A model from the names of its space and scores and their numbers.
#[pyfunction]
pub fn space_model(
    space: &str,
    size: usize,
    parents: Vec<Option<usize>>,
    scores: &str,
    numbers: Numbers,
) -> PyResult<Model> {
    let Numbers { table, inputs, pairs, reference } = numbers;
    let scores = match scores {
        "unary" => Ok(Scores::Unary(table)),
        "products" => Scores::products(table, inputs),
        "pairwise" => Scores::pairwise(table, &pairs),
        "position" => Ok(Scores::Position(table)),
        "precedence" => Ok(Scores::Precedence(table)),
        "links" => Ok(Scores::Links(table)),
        name => {
            let distance = Distance::ALL.into_iter().find(|distance| distance.name() == name);
            let distance =
                distance.ok_or_else(|| error::argument("scores", format!("there are no scores `{name}`")))?;
            Scores::distance(distance, &reference, table.first().copied().unwrap_or(0.0))
        }
    };
    let space = structures(space, size, &parents)?;
    Ok(Model::of(SpaceModel::new(space, scores.map_err(Failure)?).map_err(Failure)?))
}

/// The value of a user-defined function for a structure; its exception is attached to the error.
fn said<T>(
    function: &Py<PyAny>,
    name: &'static str,
    (structure, signs): (&[u32], bool),
    read: impl FnOnce(Py<PyAny>, Python<'_>) -> PyResult<T>,
) -> zhat::Result<T> {
    Python::attach(|py| {
        let numbers: Vec<i64> =
            structure.iter().map(|x| if signs { 2 * i64::from(*x) - 1 } else { i64::from(*x) }).collect();
        let said = function.call1(py, (numbers,)).and_then(|said| read(said, py));
        said.map_err(|error| zhat::Error::Function { name, source: Box::new(error) })
    })
}

/// A model whose score is a user-defined function of the structure.
#[pyfunction]
pub fn space_model_of(
    space: &str,
    size: usize,
    parents: Vec<Option<usize>>,
    function: Py<PyAny>,
    low: f64,
    high: f64,
) -> PyResult<Model> {
    let signs = space == "signs";
    let scores = Scores::closure(
        move |structure| said(&function, "scores", (structure, signs), |said, py| said.extract::<f64>(py)),
        low,
        high,
    );
    let space = structures(space, size, &parents)?;
    Ok(Model::of(SpaceModel::new(space, scores).map_err(Failure)?))
}

/// A condition given by a function of the structure.
pub fn condition(model: &Model, function: Py<PyAny>) -> PyResult<Condition> {
    let signs = matches!(of(model)?.structures().base(), Structures::Hypercube(cube) if cube.has_signs());
    Ok(Condition::function(move |structure| {
        said(&function, "conditions", (structure, signs), |said, py| said.is_truthy(py))
    }))
}

/// See `zhat.generate.space`.
#[pyfunction]
pub fn random_space(kind: &str, size: usize, scores: &str, strength: f64, seed: u64) -> PyResult<Model> {
    Ok(Model::of(generate::space(kind, size, scores, strength, seed).map_err(Failure)?))
}

fn of(model: &Model) -> PyResult<&SpaceModel> {
    model.get().ok_or_else(|| error::argument("model", "expected a model on a space"))
}

/// The score of a structure.
#[pyfunction]
pub fn space_score(model: &Model, structure: Vec<u32>) -> PyResult<f64> {
    let model = of(model)?;
    model.space().check(&structure).map_err(Failure)?;
    Ok(model.score(&structure).map_err(Failure)?)
}
