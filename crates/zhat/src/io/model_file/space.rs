//! Models on combinatorial spaces in `.zhat` files.

use std::collections::HashMap;

use super::tensors::{Tensors, Writer};
use crate::error::{Error, Result};
use crate::model::Kind;
use crate::model::space::{
    Condition, Cycles, Distance, Event, Hypercube, Partitions, Permutations, Restricted, Scores, SpaceModel,
    Structures, Subtrees,
};

pub(super) fn read(tensors: &Tensors<'_>, metadata: &HashMap<String, String>) -> Result<SpaceModel> {
    let text = |name: &str| metadata.get(name).map_or("", String::as_str);
    let place = |error: Error| tensors.fail(error.to_string());
    // Scores first: they say how large the space is, and are no larger than the file.
    let square = || -> Result<(Vec<f64>, usize)> {
        let n = tensors.shape("matrix")?.first().copied().unwrap_or(0);
        Ok((tensors.shaped("matrix", &[n, n], "[n, n]")?, n))
    };
    let (scores, n) = match text("scores") {
        "unary" => {
            let unary: Vec<f64> = tensors.numbers("unary")?;
            let n = unary.len();
            (Scores::Unary(unary), n)
        }
        "products" => {
            let inputs: Vec<f64> = tensors.numbers("inputs")?;
            let n = tensors.shape("weights")?.first().copied().unwrap_or(0);
            let weights = tensors.shaped("weights", &[n, inputs.len()], "[n, d]")?;
            (Scores::products(weights, inputs).map_err(place)?, n)
        }
        "pairwise" => {
            let unary: Vec<f64> = tensors.numbers("unary")?;
            let scores: Vec<f64> = tensors.numbers("pair_scores")?;
            tensors.expect_shape("pairs", &[scores.len(), 2], "[m, 2]")?;
            let pairs = tensors.integers("pairs")?;
            let pairs = pairs.as_chunks::<2>().0.iter().zip(&scores).map(|(&[i, j], &w)| (i, j, w));
            let n = unary.len();
            (Scores::pairwise(unary, &pairs.collect::<Vec<_>>()).map_err(place)?, n)
        }
        "position" => square().map(|(matrix, n)| (Scores::Position(matrix), n))?,
        "precedence" => square().map(|(matrix, n)| (Scores::Precedence(matrix), n))?,
        "links" => square().map(|(matrix, n)| (Scores::Links(matrix), n))?,
        other => {
            let Some(distance) = Distance::ALL.into_iter().find(|distance| distance.name() == other) else {
                return Err(tensors.fail(format!("unknown scores `{other}`")));
            };
            let reference = tensors.integers("reference")?;
            let spread: Vec<f64> = tensors.shaped("spread", &[1], "[1]")?;
            let scores = Scores::distance(distance, &reference, spread.first().copied().unwrap_or(0.0));
            (scores.map_err(place)?, reference.len())
        }
    };
    let space: Result<Structures> = match text("space") {
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
        other => return Err(tensors.fail(format!("unknown space `{other}`"))),
    };
    let mut space = space.map_err(place)?;
    if tensors.shape("conditions").is_ok() {
        let codes = tensors.integers("conditions")?;
        tensors.expect_shape("conditions", &[codes.len() / 4, 4], "[m, 4]")?;
        let read = |code: &[usize; 4]| {
            decoded(code).ok_or_else(|| tensors.fail(format!("there is no condition {code:?}")))
        };
        let conditions: Result<Vec<Condition>> = codes.as_chunks::<4>().0.iter().map(read).collect();
        space = Restricted::new(space, conditions?).map_err(place)?.into();
    }
    SpaceModel::new(space, scores).map_err(place)
}

/// A condition as four numbers: what it is about, two numbers, and 1 where it is not to be.
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

/// User-defined functions cannot be written to a file.
pub(super) fn check(model: &SpaceModel) -> std::io::Result<()> {
    let refuse =
        |what: &str| Err(std::io::Error::other(format!("user-defined {what} cannot be written to a file")));
    match (model.structures().base(), model.scores()) {
        (Structures::Custom(_), _) | (_, Scores::Custom(_)) => refuse("spaces and scores"),
        _ if conditions(model).iter().any(|condition| coded(condition).is_none()) => refuse("conditions"),
        _ => Ok(()),
    }
}

pub(super) fn write(model: &SpaceModel) -> Writer<'_> {
    let mut file = Writer::new(Kind::Space.name());
    let n = model.width();
    let space = match model.structures().base() {
        Structures::Hypercube(cube) if cube.has_signs() => "signs",
        Structures::Subtrees(tree) if tree.has_empty() => "subtrees-with-empty",
        other => other.as_space().name(),
    };
    file.metadata("space", space);
    let scores = match model.scores() {
        Scores::Distance { distance, .. } => distance.name(),
        other => other.name(),
    };
    file.metadata("scores", scores);
    let conditions: Vec<[usize; 4]> = conditions(model).iter().filter_map(coded).collect();
    if !conditions.is_empty() {
        file.integers("conditions", &[conditions.len(), 4], conditions.concat());
    }
    if let Structures::Subtrees(tree) = model.structures().base() {
        file.integers("parents", &[n], (0..n).map(|v| tree.parent(v).unwrap_or(n)).collect());
    }
    match model.scores() {
        Scores::Unary(unary) => file.numbers("unary", &[n], vec![unary]),
        Scores::Products { weights, inputs, .. } => {
            file.numbers("weights", &[n, inputs.len()], vec![weights]);
            file.numbers("inputs", &[inputs.len()], vec![inputs]);
        }
        Scores::Pairwise(pairs) => {
            let count = pairs.edges().len();
            file.numbers("unary", &[n], vec![pairs.unary()]);
            file.integers("pairs", &[count, 2], pairs.edges().flat_map(|(i, j, _)| [i, j]).collect());
            file.owned("pair_scores", &[count], pairs.edges().map(|pair| pair.2).collect());
        }
        Scores::Position(matrix) | Scores::Precedence(matrix) | Scores::Links(matrix) => {
            file.numbers("matrix", &[n, n], vec![matrix]);
        }
        Scores::Distance { places, spread, .. } => {
            let mut reference = vec![0; n];
            places.iter().enumerate().for_each(|(item, place)| reference[*place as usize] = item);
            file.integers("reference", &[n], reference);
            file.owned("spread", &[1], vec![*spread]);
        }
        Scores::Custom(_) => {}
    }
    file
}

/// One of each, for the tests of files.
#[cfg(test)]
pub(super) fn examples() -> Vec<SpaceModel> {
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
