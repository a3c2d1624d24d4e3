//! Sets with scores of pairs whose graph is too dense for exact sums: exact samples only.
//!
//! Every sample is drawn from the space model of its row by [`PerfectSampling`]: coupling from the past where
//! pairs attract each other or are weak, rejection otherwise. There is no log Z and there are no means; training
//! uses gradients from samples, with their certified radius.

use super::{Family, Mode, Work};
use crate::error::{Error, Result};
use crate::method::space::PerfectSampling;
use crate::model::space::{Hypercube, Scores, SpaceModel, Structures, Subtrees};
use crate::query::Sample;
use crate::random::Stream;
use crate::run::Run;

/// Sets of labels, or of nodes of a hierarchy, with scores of pairs.
#[derive(Debug)]
pub(crate) struct SampledSets {
    labels: usize,
    pairs: Vec<(usize, usize)>,
    /// Labels, or nodes with an additional first node, the root of all trees.
    space: Structures,
    /// Budget of the samples.
    run: Run,
}

impl SampledSets {
    /// Labels, or nodes if there are parents.
    ///
    /// # Errors
    /// If the parents are not those of a forest.
    pub fn new(
        labels: usize,
        pairs: &[(usize, usize)],
        parents: &[Option<usize>],
        run: &Run,
    ) -> Result<Self> {
        let space = if parents.is_empty() {
            Hypercube::new(labels)?.into()
        } else {
            let above = |parent: &Option<usize>| Some(parent.map_or(0, |parent| parent + 1));
            let tree: Vec<Option<usize>> = std::iter::once(None).chain(parents.iter().map(above)).collect();
            Subtrees::new(&tree, false)?.into()
        };
        Ok(SampledSets { labels, pairs: pairs.to_vec(), space, run: run.begun().unobserved() })
    }

    fn draw(
        &self,
        scores: &[f64],
        (lane, lanes): (usize, usize),
        random: &mut Stream,
        structure: &mut [u32],
    ) -> Result<()> {
        let hidden = self.space.as_space().width() - self.labels;
        let score = |channel: usize| scores[channel * lanes + lane];
        let single: Vec<f64> = std::iter::repeat_n(0.0, hidden).chain((0..self.labels).map(score)).collect();
        let pairs = self.pairs.iter().enumerate();
        let pairs: Vec<(usize, usize, f64)> =
            pairs.map(|(k, &(i, j))| (i + hidden, j + hidden, score(self.labels + k))).collect();
        let model = SpaceModel::new(self.space.clone(), Scores::pairwise(single, &pairs)?)?;
        let run = self.run.clone().with_seed(random.bits());
        let samples = PerfectSampling::default().sample(&model, 1, &run)?.value;
        let state = samples.iter().next().ok_or_else(|| Error::NoAnswer("there is no sample".into()))?;
        structure.iter_mut().zip(&state[hidden..]).for_each(|(y, &drawn)| *y = drawn as u32);
        Ok(())
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
        64.0 * self.channels() as f64
    }

    fn upward(&self, _: &[f64], _: usize, _: Mode, _: &mut Work, out: &mut [f64]) {
        out.fill(f64::NAN);
    }

    fn means(&self, _: &[f64], _: usize, _: &mut Work, means: &mut [f64]) {
        means.fill(f64::NAN);
    }

    fn decode(
        &self,
        scores: &[f64],
        at: (usize, usize),
        work: &mut Work,
        random: Option<&mut Stream>,
        structure: &mut [u32],
    ) {
        let drawn = match random {
            Some(random) => self.draw(scores, at, random, structure),
            None => Err(Error::NoAnswer("the best set of a dense label graph is found row by row".into())),
        };
        if let Err(error) = drawn {
            work.failure.get_or_insert(error);
        }
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
