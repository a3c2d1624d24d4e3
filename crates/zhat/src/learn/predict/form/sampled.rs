//! Sets with scores of pairs whose graph is too dense for exact sums: exact samples only.
//!
//! Samples are drawn from the space model of a row by coupling from the past or rejection
//! ([`crate::method::space::perfect`]). There is no log Z and there are no means: training uses gradients from
//! samples, with their certified radius.

use super::{Family, Mode, Work};
use crate::error::Result;
use crate::method::space::perfect::exact_samples;
use crate::model::space::{Hypercube, Scores, SpaceModel, Structures, Subtrees};
use crate::random::Stream;
use crate::run::Clock;

/// Sets of labels, or of nodes of a hierarchy, with scores of pairs.
#[derive(Debug)]
pub(crate) struct SampledSets {
    labels: usize,
    pairs: Vec<(usize, usize)>,
    /// Labels, or nodes with an additional first node, the root of all trees.
    space: Structures,
}

impl SampledSets {
    /// Labels, or nodes if there are parents.
    ///
    /// # Errors
    /// If the parents are not those of a forest.
    pub fn new(labels: usize, pairs: &[(usize, usize)], parents: &[Option<usize>]) -> Result<Self> {
        let space = if parents.is_empty() {
            Hypercube::new(labels)?.into()
        } else {
            let above = |parent: &Option<usize>| Some(parent.map_or(0, |parent| parent + 1));
            let tree: Vec<Option<usize>> = std::iter::once(None).chain(parents.iter().map(above)).collect();
            Subtrees::new(&tree, false)?.into()
        };
        Ok(SampledSets { labels, pairs: pairs.to_vec(), space })
    }

    /// 1 if the space model has an additional first node.
    fn hidden(&self) -> usize {
        self.space.as_space().width() - self.labels
    }

    /// The space model of a row.
    fn model(&self, scores: &[f64], (lane, lanes): (usize, usize)) -> Result<SpaceModel> {
        let hidden = self.hidden();
        let score = |channel: usize| scores[channel * lanes + lane];
        let single: Vec<f64> = std::iter::repeat_n(0.0, hidden).chain((0..self.labels).map(score)).collect();
        let pairs = self.pairs.iter().enumerate();
        let pairs: Vec<(usize, usize, f64)> =
            pairs.map(|(k, &(i, j))| (i + hidden, j + hidden, score(self.labels + k))).collect();
        SpaceModel::new(self.space.clone(), Scores::pairwise(single, &pairs)?)
    }
}

impl Family for SampledSets {
    fn channels(&self) -> usize {
        self.labels + self.pairs.len()
    }

    fn width(&self) -> usize {
        self.labels
    }

    fn has_sums(&self) -> bool {
        false
    }

    fn bytes(&self, _: usize) -> f64 {
        128.0 * self.channels() as f64
    }

    fn upward(&self, _: &[f64], _: usize, _: Mode, _: &mut Work, out: &mut [f64]) {
        out.fill(f64::NAN);
    }

    fn means(&self, _: &[f64], _: usize, _: &mut Work, means: &mut [f64]) {
        means.fill(f64::NAN);
    }

    fn decode(
        &self,
        _: &[f64],
        _: (usize, usize),
        _: &mut Work,
        _: Option<&mut Stream>,
        structure: &mut [u32],
    ) {
        structure.fill(0);
    }

    fn draw(
        &self,
        scores: &[f64],
        at: (usize, usize),
        _: &mut Work,
        (count, random): (usize, &mut Stream),
        clock: &Clock<'_>,
        each: &mut dyn FnMut(&[u32]),
    ) -> Result<()> {
        let (model, hidden) = (self.model(scores, at)?, self.hidden());
        let mut structure = vec![0; model.width()];
        exact_samples(&model, 1.0, clock, |draw| {
            for _ in 0..count {
                draw(random, &mut structure)?;
                each(&structure[hidden..]);
            }
            Ok(())
        })
    }

    fn features(&self, structure: &[u32], add: &mut dyn FnMut(usize)) {
        structure.iter().enumerate().filter(|(_, y)| **y == 1).for_each(|(v, _)| add(v));
        for (k, &(i, j)) in self.pairs.iter().enumerate() {
            if structure[i] == 1 && structure[j] == 1 {
                add(self.labels + k);
            }
        }
    }

    fn radius(&self) -> f64 {
        0.5 * (self.channels() as f64).sqrt()
    }

    /// An upper bound, which is all that its use needs.
    fn log_count(&self) -> f64 {
        self.labels as f64 * std::f64::consts::LN_2
    }
}
