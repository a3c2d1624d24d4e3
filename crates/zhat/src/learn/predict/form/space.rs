//! The space model of a row.

use super::{Form, pair, sorted};
use crate::error::{Error, Result};
use crate::model::space::{
    Distance, Hypercube, Partitions, Permutations, Scores, SpaceModel, Structures, Subtrees,
};

impl Form {
    /// 1 if the space model has an additional first node, the root of all trees.
    pub(crate) fn hidden(&self) -> usize {
        usize::from(matches!(self, Form::Hierarchy { .. }))
    }

    /// The model of one row, for its scores. A forest has an additional root, which is always chosen.
    ///
    /// # Errors
    /// If the form is Plackett–Luce, whose orders have no sum of scores.
    pub(crate) fn space_model(&self, scores: &[f64], (lane, lanes): (usize, usize)) -> Result<SpaceModel> {
        let own: Vec<f64> = scores.iter().skip(lane).step_by(lanes).copied().collect();
        let (n, hidden) = (self.width(), self.hidden());
        let sets = |pairs: &[(usize, usize)], space: Structures| {
            let single: Vec<f64> = std::iter::repeat_n(0.0, hidden).chain(own[..n].iter().copied()).collect();
            if pairs.is_empty() {
                return SpaceModel::new(space, Scores::Unary(single));
            }
            let pairs: Vec<(usize, usize, f64)> =
                pairs.iter().zip(&own[n..]).map(|(&(i, j), &w)| (i + hidden, j + hidden, w)).collect();
            SpaceModel::new(space, Scores::pairwise(single, &pairs)?)
        };
        match self {
            Form::Labels { pairs, .. } => sets(pairs, Hypercube::new(n)?.into()),
            Form::Hierarchy { parents, pairs, .. } => {
                let above = |parent: &Option<usize>| Some(parent.map_or(0, |parent| parent + 1));
                let tree: Vec<Option<usize>> =
                    std::iter::once(None).chain(parents.iter().map(above)).collect();
                sets(pairs, Subtrees::new(&tree, false)?.into())
            }
            Form::Positions { .. } => SpaceModel::new(Permutations::new(n)?, Scores::Position(own)),
            Form::Precedence { .. } => {
                let mut table = vec![0.0; n * n];
                for i in 0..n {
                    (i + 1..n).for_each(|j| table[i * n + j] = own[pair(i, j, n)]);
                }
                SpaceModel::new(Permutations::new(n)?, Scores::Precedence(table))
            }
            Form::Mallows { .. } => {
                let centre: Vec<usize> =
                    sorted(own[..n].iter().copied()).iter().map(|&i| i as usize).collect();
                let scores = Scores::distance(Distance::Kendall, &centre, own[n])?;
                SpaceModel::new(Permutations::new(n)?, scores)
            }
            Form::PlackettLuce { .. } => {
                Err(Error::NoAnswer("plackett-luce is no model with scores of structures".into()))
            }
            Form::Partition { .. } => {
                let mut links = Vec::new();
                for i in 0..n {
                    links.extend((i + 1..n).map(|j| (i, j, own[pair(i, j, n)])));
                }
                SpaceModel::new(Partitions::new(n)?, Scores::links(n, &links)?)
            }
        }
    }
}
