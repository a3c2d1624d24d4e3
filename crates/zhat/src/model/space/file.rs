//! Models on combinatorial spaces in files.

use super::{
    Condition, Cycles, Distance, Event, Hypercube, Partitions, Permutations, Restricted, Scores, SpaceModel,
    Structures, Subtrees,
};
use crate::error::{Error, Result};
use crate::model::any::Model;
use crate::tensor::{Tensor, TensorMap};

/// Reads a model on a space.
pub(in crate::model) fn read(tensors: &mut TensorMap) -> Result<Model> {
    let text = |tensors: &TensorMap, name: &str| tensors.text(name).unwrap_or_default().to_owned();
    // Scores first: they determine the size of the space, and are no larger than the file.
    let square = |tensors: &mut TensorMap| -> Result<(Vec<f64>, usize)> {
        let n = tensors.shape("matrix")?.first().copied().unwrap_or(0);
        Ok((tensors.take_shaped("matrix", &[n, n], "[n, n]")?, n))
    };
    let (scores, n) = match text(tensors, "scores").as_str() {
        "unary" => {
            let unary: Vec<f64> = tensors.take("unary")?;
            let n = unary.len();
            (Scores::Unary(unary), n)
        }
        "products" => {
            let inputs: Vec<f64> = tensors.take("inputs")?;
            let n = tensors.shape("weights")?.first().copied().unwrap_or(0);
            let weights = tensors.take_shaped("weights", &[n, inputs.len()], "[n, d]")?;
            (Scores::products(weights, inputs).map_err(|error| tensors.error(error.to_string()))?, n)
        }
        "pairwise" => {
            let unary: Vec<f64> = tensors.take("unary")?;
            let scores: Vec<f64> = tensors.take("pair_scores")?;
            tensors.expect_shape("pairs", &[scores.len(), 2], "[m, 2]")?;
            let pairs = tensors.integers("pairs")?;
            let pairs = pairs.as_chunks::<2>().0.iter().zip(&scores).map(|(&[i, j], &w)| (i, j, w));
            let n = unary.len();
            (
                Scores::pairwise(unary, &pairs.collect::<Vec<_>>())
                    .map_err(|error| tensors.error(error.to_string()))?,
                n,
            )
        }
        "position" => square(tensors).map(|(matrix, n)| (Scores::Position(matrix), n))?,
        "precedence" => square(tensors).map(|(matrix, n)| (Scores::Precedence(matrix), n))?,
        "links" => square(tensors).map(|(matrix, n)| (Scores::Links(matrix), n))?,
        other => {
            let Some(distance) = Distance::ALL.into_iter().find(|distance| distance.name() == other) else {
                return Err(tensors.error(format!("unknown scores `{other}`")));
            };
            let reference = tensors.integers("reference")?;
            let spread: Vec<f64> = tensors.take_shaped("spread", &[1], "[1]")?;
            let scores = Scores::distance(distance, &reference, spread.first().copied().unwrap_or(0.0));
            (scores.map_err(|error| tensors.error(error.to_string()))?, reference.len())
        }
    };
    let space: Result<Structures> = match text(tensors, "space").as_str() {
        "hypercube" => Hypercube::new(n).map(Structures::from),
        "signs" => Hypercube::signs(n).map(Structures::from),
        "permutations" => Permutations::new(n).map(Structures::from),
        "cycles" => Cycles::new(n).map(Structures::from),
        "partitions" => Partitions::new(n).map(Structures::from),
        kind @ ("subtrees" | "subtrees-with-empty") => {
            let parents = tensors.integers("parents")?;
            let nodes = parents.len();
            let parents: Vec<Option<usize>> =
                parents.into_iter().map(|p| (p != nodes).then_some(p)).collect();
            Subtrees::new(&parents, kind == "subtrees-with-empty").map(Structures::from)
        }
        other => return Err(tensors.error(format!("unknown space `{other}`"))),
    };
    let mut space = space.map_err(|error| tensors.error(error.to_string()))?;
    if tensors.has("conditions") {
        let codes = tensors.integers("conditions")?;
        tensors.expect_shape("conditions", &[codes.len() / 4, 4], "[m, 4]")?;
        let read = |code: &[usize; 4]| {
            decoded(code).ok_or_else(|| tensors.error(format!("there is no condition {code:?}")))
        };
        let conditions: Result<Vec<Condition>> = codes.as_chunks::<4>().0.iter().map(read).collect();
        space = Restricted::new(space, conditions?).map_err(|error| tensors.error(error.to_string()))?.into();
    }
    let model = SpaceModel::new(space, scores).map_err(|error| tensors.error(error.to_string()))?;
    Ok(model.into())
}

/// A condition as four numbers: its type, two arguments, and 1 if it is negated.
fn coded(condition: &Condition) -> Option<[usize; 4]> {
    let code = |event: &Event| match *event {
        Event::Chosen(i) => [0, i, 0],
        Event::At { item, position } => [1, item, position],
        Event::Before(i, j) => [2, i, j],
        Event::Linked(i, j) => [3, i, j],
    };
    let (kind, not) = match condition {
        Condition::Is(event) => (code(event), 0),
        Condition::Not(event) => (code(event), 1),
        Condition::Size { least, most } => ([4, *least, *most], 0),
        Condition::Function(_) => return None,
    };
    Some([kind[0], kind[1], kind[2], not])
}

fn decoded(code: &[usize; 4]) -> Option<Condition> {
    let event = match *code {
        [0, i, 0, _] => Event::Chosen(i),
        [1, item, position, _] => Event::At { item, position },
        [2, i, j, _] => Event::Before(i, j),
        [3, i, j, _] => Event::Linked(i, j),
        [4, least, most, 0] => return Some(Condition::Size { least, most }),
        _ => return None,
    };
    match code[3] {
        0 => Some(Condition::Is(event)),
        1 => Some(Condition::Not(event)),
        _ => None,
    }
}

/// The conditions of a space.
fn conditions(model: &SpaceModel) -> &[Condition] {
    match model.structures() {
        Structures::Restricted(space) => space.conditions(),
        _ => &[],
    }
}

/// Whether a file can hold the model: user-defined functions cannot be written.
pub(super) fn check(model: &SpaceModel) -> Result<()> {
    let refuse = |what: &str| Err(Error::model(format!("user-defined {what} cannot be written to a file")));
    match (model.structures().base(), model.scores()) {
        (Structures::Custom(_), _) | (_, Scores::Custom(_)) => refuse("spaces and scores"),
        _ if conditions(model).iter().any(|condition| coded(condition).is_none()) => refuse("conditions"),
        _ => Ok(()),
    }
}

/// The names of the space and of the scores.
pub(super) fn texts(model: &SpaceModel) -> Vec<(&'static str, String)> {
    let space = match model.structures().base() {
        Structures::Hypercube(cube) if cube.has_signs() => "signs",
        Structures::Subtrees(tree) if tree.has_empty() => "subtrees-with-empty",
        other => other.as_space().name(),
    };
    let scores = match model.scores() {
        Scores::Distance { distance, .. } => distance.name(),
        other => other.name(),
    };
    vec![("space", space.to_owned()), ("scores", scores.to_owned())]
}

/// The parameters.
pub(super) fn tensors(model: &SpaceModel) -> Vec<Tensor<'_>> {
    let n = model.width();
    let mut tensors = Vec::new();
    let conditions: Vec<[usize; 4]> = conditions(model).iter().filter_map(coded).collect();
    if !conditions.is_empty() {
        tensors.push(Tensor::integers("conditions", &[conditions.len(), 4], conditions.concat()));
    }
    if let Structures::Subtrees(tree) = model.structures().base() {
        let parents = (0..n).map(|v| tree.parent(v).unwrap_or(n));
        tensors.push(Tensor::integers("parents", &[n], parents));
    }
    match model.scores() {
        Scores::Unary(unary) => tensors.push(Tensor::new("unary", &[n], unary.as_slice())),
        Scores::Products { weights, inputs, .. } => {
            tensors.push(Tensor::new("weights", &[n, inputs.len()], weights.as_slice()));
            tensors.push(Tensor::new("inputs", &[inputs.len()], inputs.as_slice()));
        }
        Scores::Pairwise(pairs) => {
            let count = pairs.edges().len();
            let weights: Vec<f64> = pairs.edges().map(|pair| pair.2).collect();
            tensors.push(Tensor::new("unary", &[n], pairs.unary()));
            let ends = pairs.edges().flat_map(|(i, j, _)| [i, j]);
            tensors.push(Tensor::integers("pairs", &[count, 2], ends));
            tensors.push(Tensor::new("pair_scores", &[count], weights));
        }
        Scores::Position(matrix) | Scores::Precedence(matrix) | Scores::Links(matrix) => {
            tensors.push(Tensor::new("matrix", &[n, n], matrix.as_slice()));
        }
        Scores::Distance { places, spread, .. } => {
            let mut reference = vec![0; n];
            places.iter().enumerate().for_each(|(item, place)| reference[*place as usize] = item);
            tensors.push(Tensor::integers("reference", &[n], reference));
            tensors.push(Tensor::new("spread", &[1], vec![*spread]));
        }
        Scores::Custom(_) => {}
    }
    tensors
}

/// One model of each type, for the tests of files.
#[cfg(test)]
pub(crate) fn examples() -> Vec<SpaceModel> {
    let parents = [Some(2), Some(0), None, Some(2)];
    let tree = |empty| Subtrees::new(&parents, empty).unwrap();
    let pairs = [(0, 1, 0.5), (3, 2, -1.0)];
    let model = |space: Structures, scores: Scores| SpaceModel::new(space, scores).unwrap();
    vec![
        model(Hypercube::new(2).unwrap().into(), Scores::Unary(vec![0.5, -1.0])),
        model(
            Hypercube::signs(2).unwrap().into(),
            Scores::products(vec![0.5; 6], vec![1.0, 2.0, 3.0]).unwrap(),
        ),
        model(Hypercube::new(4).unwrap().into(), Scores::pairwise(vec![0.25; 4], &pairs).unwrap()),
        model(tree(true).into(), Scores::Unary(vec![1.0; 4])),
        model(tree(false).into(), Scores::pairwise(vec![0.25; 4], &pairs).unwrap()),
        model(Permutations::new(2).unwrap().into(), Scores::Position(vec![1.0, 2.0, 3.0, 4.0])),
        model(Permutations::new(2).unwrap().into(), Scores::Precedence(vec![1.0, 2.0, 3.0, 4.0])),
        model(
            Permutations::new(3).unwrap().into(),
            Scores::distance(Distance::Kendall, &[2, 0, 1], 0.5).unwrap(),
        ),
        model(Cycles::new(4).unwrap().into(), Scores::links(4, &pairs).unwrap()),
        model(Partitions::new(4).unwrap().into(), Scores::links(4, &pairs).unwrap()),
        model(tree(true).into(), Scores::Unary(vec![1.0; 4]))
            .restrict(["not chosen 3".parse().unwrap(), "size 1 2".parse().unwrap()])
            .unwrap(),
    ]
}
