//! The best structure, except for models that are factor graphs.

use super::mallows;
use super::no_algorithm;
use super::orders::Orders;
use super::prepared::{
    Algorithm, algorithm, blocks, choices, conditions, distances, odds_of_labels, steps, tours,
};
use crate::error::{Error, Result};
use crate::method::space::assignment::best_assignment_within;
use crate::method::space::{Scores, SpaceModel, Structures};
use crate::run::Clock;

/// A structure with the largest score.
pub(super) fn best(model: &SpaceModel, clock: &Clock<'_>) -> Result<Vec<u32>> {
    let n = model.width();
    let mut structure = vec![0; n];
    match (algorithm(model), model.structures().base(), model.scores()) {
        (Some(Algorithm::Single), Structures::Hypercube(cube), scores) => {
            let odds = odds_of_labels(cube, scores.unary().unwrap_or(&[]));
            structure.iter_mut().zip(odds).for_each(|(bit, odds)| *bit = u32::from(odds > 0.0));
        }
        (Some(Algorithm::Tree), Structures::Subtrees(tree), scores) => {
            let unary = scores.unary().unwrap_or(&[]);
            let inner = tree.upward(|v, inner| (unary[v] + inner).max(0.0));
            for &v in tree.order() {
                let v = v as usize;
                let open = tree.parent(v).is_none_or(|parent| structure[parent] == 1);
                let forced = tree.parent(v).is_none() && !tree.has_empty();
                structure[v] = u32::from(forced || open && unary[v] + inner[v] > 0.0);
            }
        }
        (Some(Algorithm::Counted), ..) => choices(model, true, clock)?.choose(None, &mut structure),
        (Some(Algorithm::Mallows), _, Scores::Distance { distance, places, spread }) => {
            structure = mallows::Draws::new(*distance, places, *spread).best();
        }
        (Some(Algorithm::Orders), _, scores)
            if matches!(scores, Scores::Precedence(_)) || !conditions(model).is_empty() =>
        {
            let orders = Orders::new(steps(model), n, true, true, clock)?;
            if orders.total() == f64::NEG_INFINITY {
                return Err(Error::ZeroPartition);
            }
            orders.order(None, &mut structure);
        }
        (Some(Algorithm::Orders), _, scores) => {
            let matrix =
                if let Scores::Position(matrix) = scores { matrix.clone() } else { distances(scores, n) };
            for (item, position) in best_assignment_within(&matrix, n, clock)?.into_iter().enumerate() {
                structure[position] = item as u32;
            }
        }
        (Some(Algorithm::Tours), _, Scores::Links(links)) => {
            tours(model, links, true, clock)?.cycle(None, &mut structure);
            model.space().canonical(&mut structure);
        }
        (Some(Algorithm::Blocks), _, Scores::Links(links)) => {
            blocks(model, links, (true, false), clock)?.partition(None, &mut structure);
        }
        _ => return Err(no_algorithm(model)),
    }
    Ok(structure)
}
