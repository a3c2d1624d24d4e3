//! The families of distributions p(y | u) ∝ exp⟨u, φ(y)⟩ over the structures of a space. The scores u of a
//! row are linear in its inputs.
//!
//! A family computes log Z, the means E\[φ\] = ∇ log Z, the most probable structure and samples for many rows
//! at once. Numbers are stored channel by channel: entry k·lanes + l is channel k of row l. Every loop runs
//! over rows innermost, so that it is vectorised, and all rows share one schedule of operations.

mod hierarchy;
mod label_graph;
mod mallows;
mod partition;
mod plackett_luce;
mod ranking;
mod sampled;
mod space;

pub(crate) use hierarchy::{Hierarchy, topological};
pub(crate) use label_graph::LabelGraph;
pub(crate) use mallows::{Mallows, best_spread, kendall_distance, log_partition, places, sorted};
pub(crate) use partition::Partition;
pub(crate) use plackett_luce::PlackettLuce;
pub(crate) use ranking::{MOST_ITEMS, Ranking, RankingScores, pair};
pub(crate) use sampled::Sampled;

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::Targets;
use crate::error::{Error, Result};
use crate::method::space::perfect::Draws;
use crate::random::Stream;
use crate::run::{Clock, Run};

/// Maximum number of rows that are evaluated together. It is constant, so that results do not depend on the
/// number of threads.
pub(crate) const LANES: usize = 64;

/// Buffers that are kept between calls.
#[derive(Default)]
pub(crate) struct Work {
    /// Tables of the upward pass that the downward pass, samples and best structures need.
    pub shares: Vec<f64>,
    /// Messages of the upward pass.
    pub messages: Vec<f64>,
    /// Tables of the downward pass.
    pub beliefs: Vec<f64>,
    /// One table.
    pub table: Vec<f64>,
    /// One row of numbers.
    pub row: Vec<f64>,
    /// Means of the features.
    pub means: Vec<f64>,
}

/// Resizes a buffer and fills it with a value.
pub(crate) fn filled(buffer: &mut Vec<f64>, length: usize, value: f64) -> &mut [f64] {
    buffer.clear();
    buffer.resize(length, value);
    buffer
}

/// The features φ of a predictor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Form {
    /// Sets of labels: label × input, and pairs of labels.
    Labels {
        /// The number of labels.
        labels: usize,
        /// The pairs i < j with a score.
        pairs: Vec<(usize, usize)>,
        /// Whether the scores of pairs depend on the inputs.
        pairs_by_input: bool,
    },
    /// Sets of nodes closed under parents: node × input, and pairs of nodes such as siblings. Pairs of a node
    /// and its parent add nothing, since both are chosen whenever the node is.
    Hierarchy {
        /// The parent of every node.
        parents: Vec<Option<usize>>,
        /// The pairs i < j with a score.
        pairs: Vec<(usize, usize)>,
        /// Whether the scores of pairs depend on the inputs.
        pairs_by_input: bool,
    },
    /// Orders of items: item × position × input.
    Positions {
        /// The number of items.
        items: usize,
    },
    /// Orders of items: pairs × input, for the first item before the second.
    Precedence {
        /// The number of items.
        items: usize,
    },
    /// Orders of items by the model of Plackett and Luce: item × input.
    PlackettLuce {
        /// The number of items.
        items: usize,
    },
    /// Orders of items by the model of Mallows around the order of the scores, item × input, with a constant
    /// spread. It is made from a Plackett–Luce predictor, not trained directly.
    Mallows {
        /// The number of items.
        items: usize,
    },
    /// Partitions of elements: pairs in a common block × input.
    Partition {
        /// The number of elements.
        elements: usize,
    },
}

/// A family with its number of scores that depend on the inputs; the other scores are constants.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub family: Box<dyn Family>,
    pub by_input: usize,
}

impl Form {
    /// The number of labels, nodes, items or elements.
    pub fn width(&self) -> usize {
        match self {
            Form::Labels { labels, .. } => *labels,
            Form::Hierarchy { parents, .. } => parents.len(),
            Form::Positions { items }
            | Form::Precedence { items }
            | Form::PlackettLuce { items }
            | Form::Mallows { items } => *items,
            Form::Partition { elements } => *elements,
        }
    }

    /// The space: `labels`, `hierarchy`, `ranking` or `partition`.
    pub fn space(&self) -> &'static str {
        match self {
            Form::Labels { .. } => "labels",
            Form::Hierarchy { .. } => "hierarchy",
            Form::Positions { .. }
            | Form::Precedence { .. }
            | Form::PlackettLuce { .. }
            | Form::Mallows { .. } => "ranking",
            Form::Partition { .. } => "partition",
        }
    }

    /// The schedule of exact sums.
    pub(crate) fn compile(&self) -> Result<Compiled> {
        let width = self.width();
        if width == 0 {
            return Err(Error::argument("form", "needs at least one label, node, item or element"));
        }
        let check = |pairs: &[(usize, usize)]| match pairs.iter().find(|(i, j)| i >= j || *j >= width) {
            Some((i, j)) => {
                Err(Error::argument("pairs", format!("({i}, {j}) is no pair i < j of {width} labels")))
            }
            None => Ok(()),
        };
        let counted =
            |pairs: &[(usize, usize)], by_input: bool| width + if by_input { pairs.len() } else { 0 };
        let (family, by_input): (Box<dyn Family>, usize) = match self {
            Form::Labels { pairs, pairs_by_input, .. } => {
                check(pairs)?;
                (Box::new(LabelGraph::new(width, pairs, &[])?), counted(pairs, *pairs_by_input))
            }
            Form::Hierarchy { parents, pairs, pairs_by_input } => {
                check(pairs)?;
                let plain = Hierarchy::new(parents)
                    .ok_or_else(|| Error::argument("parents", "form a cycle; expected a forest"))?;
                if pairs.is_empty() {
                    (Box::new(plain), width)
                } else {
                    (Box::new(LabelGraph::new(width, pairs, parents)?), counted(pairs, *pairs_by_input))
                }
            }
            Form::Positions { items } => {
                let ranking = Ranking::new(*items, RankingScores::Positions)?;
                let channels = ranking.channels();
                (Box::new(ranking), channels)
            }
            Form::Precedence { items } => {
                let ranking = Ranking::new(*items, RankingScores::Precedence)?;
                let channels = ranking.channels();
                (Box::new(ranking), channels)
            }
            Form::PlackettLuce { items } => (Box::new(PlackettLuce { items: *items }), *items),
            Form::Mallows { items } => (Box::new(Mallows { items: *items }), *items),
            Form::Partition { elements } => {
                let partition = Partition::new(*elements)?;
                let channels = partition.channels();
                (Box::new(partition), channels)
            }
        };
        Ok(Compiled { family, by_input })
    }

    /// Exact sums if their tables fit the memory budget, otherwise samples.
    pub(crate) fn compile_or_sample(&self, run: &Run) -> Result<Compiled> {
        // For one thread, so that the choice does not depend on their number.
        let fits = |made: &Compiled| run.fits(made.family.bytes(LANES));
        match self.compile() {
            Err(Error::OverBudget { .. }) => {}
            Ok(made) if !fits(&made) => {}
            made => return made,
        }
        self.compile_samples()
    }

    /// Samples in place of sums, for forms whose sums grow exponentially.
    pub(crate) fn compile_samples(&self) -> Result<Compiled> {
        let width = self.width();
        let (shape, by_input): (Box<dyn Family>, usize) = match self {
            Form::Labels { pairs, pairs_by_input, .. } | Form::Hierarchy { pairs, pairs_by_input, .. }
                if !pairs.is_empty() =>
            {
                let by_input = width + if *pairs_by_input { pairs.len() } else { 0 };
                (Box::new(LabelGraph::shape(width, pairs)), by_input)
            }
            Form::Positions { .. } | Form::Precedence { .. } => {
                let positions = matches!(self, Form::Positions { .. });
                let scores = if positions { RankingScores::Positions } else { RankingScores::Precedence };
                let ranking = Ranking::shape(width, scores);
                let channels = ranking.channels();
                (Box::new(ranking), channels)
            }
            Form::Partition { .. } => {
                let partition = Partition::shape(width)?;
                let channels = partition.channels();
                (Box::new(partition), channels)
            }
            _ => return self.compile(),
        };
        Ok(Compiled { family: Box::new(Sampled::new(self, shape)), by_input })
    }

    /// Whether the negative log-likelihood of these structures is known to be convex in the scores. For a
    /// partial ranking it is a difference of convex functions, except for Plackett–Luce without ties before
    /// other items.
    pub(crate) fn is_convex(&self, targets: &Targets) -> bool {
        let Targets::Ranks(ranks) = targets else { return true };
        (0..targets.rows()).all(|row| match self {
            Form::PlackettLuce { .. } => {
                let own = ranks.row(row);
                let tied = |rank: u32| own.iter().filter(|other| **other == rank).count() > 1;
                let last = own.iter().copied().max().unwrap_or(0);
                own.iter().all(|&rank| rank == 0 || rank == last || !tied(rank))
            }
            _ => targets.structure(row).is_some(),
        })
    }

    /// Checks that observed structures belong to the space and that a predictor can be trained with them.
    ///
    /// # Errors
    /// If they are of another kind or width, a row is no structure of the space, or a partial ranking has too many
    /// items for exact gradients.
    pub fn check(&self, targets: &Targets) -> Result<()> {
        self.check_space(targets)?;
        match self.long_partial(targets) {
            Some(row) => {
                let message = format!(
                    "row {row} is partial; only plackett-luce is trained with such rows for more than {MOST_ITEMS} items"
                );
                Err(Error::argument("targets", message))
            }
            None => Ok(()),
        }
    }

    /// The first partial ranking of too many items for exact sums.
    pub(crate) fn long_partial(&self, targets: &Targets) -> Option<usize> {
        let (Form::Mallows { items } | Form::Positions { items } | Form::Precedence { items }) = self else {
            return None;
        };
        if *items <= MOST_ITEMS {
            return None;
        }
        (0..targets.rows()).find(|&row| targets.structure(row).is_none())
    }

    /// Checks that observed structures belong to the space.
    ///
    /// # Errors
    /// If they are of another kind or width, or a row is no structure of the space.
    pub(crate) fn check_space(&self, targets: &Targets) -> Result<()> {
        let kind = match self {
            Form::Labels { .. } | Form::Hierarchy { .. } => matches!(targets, Targets::Sets(_)),
            Form::Partition { .. } => matches!(targets, Targets::Blocks(_)),
            _ => matches!(targets, Targets::Ranks(_)),
        };
        if !kind || targets.width() != self.width() {
            let message = format!(
                "are {} of {}, expected those of a {} predictor of {}",
                targets.name(),
                targets.width(),
                self.space(),
                self.width()
            );
            return Err(Error::argument("targets", message));
        }
        if let (Form::Hierarchy { parents, .. }, Targets::Sets(sets)) = (self, targets) {
            for row in 0..targets.rows() {
                let members = sets.row(row);
                let orphan = members.iter().find(|&&v| {
                    parents[v as usize].is_some_and(|parent| members.binary_search(&(parent as u32)).is_err())
                });
                if let Some(v) = orphan {
                    let message = format!("row {row} contains node {v} without its parent");
                    return Err(Error::argument("targets", message));
                }
            }
        }
        if let (Form::PlackettLuce { .. }, Targets::Ranks(ranks)) = (self, targets)
            && let Some(row) = (0..targets.rows()).find(|&row| !plackett_luce::fits(ranks.row(row)))
        {
            let message =
                format!("row {row} has more than {} tied items before others", plackett_luce::MOST_TIED);
            return Err(Error::argument("targets", message));
        }
        Ok(())
    }
}

/// The operation of the upward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Sums: log Z, and shares that are probabilities.
    Sum,
    /// Maxima: the best score, and shares that are 0 or 1.
    Max,
}

/// A family of distributions.
pub(crate) trait Family: Send + Sync + std::fmt::Debug {
    /// The number of scores of a row.
    fn channels(&self) -> usize;

    /// The number of values of a structure.
    fn width(&self) -> usize;

    /// Whether log Z and means are within reach; otherwise there are only samples.
    fn has_sums(&self) -> bool {
        true
    }

    /// Bytes of the buffers for this many rows at once.
    fn bytes(&self, lanes: usize) -> f64;

    /// Upward pass: log Z, or the best score, of every row.
    fn upward(&self, scores: &[f64], lanes: usize, mode: Mode, work: &mut Work, out: &mut [f64]);

    /// The means of the features, after an upward pass with sums.
    fn means(&self, scores: &[f64], lanes: usize, work: &mut Work, means: &mut [f64]);

    /// One structure of a row, after an upward pass: with sums a sample, with maxima the best structure. `at`
    /// is the row and the number of rows. Like the upward pass and the means, only for families with sums.
    fn decode(
        &self,
        scores: &[f64],
        at: (usize, usize),
        work: &mut Work,
        random: Option<&mut Stream>,
        structure: &mut [u32],
    );

    /// Calls `each` for `count` samples of a row, after an upward pass with sums. `at` is the row and the number
    /// of rows. Returns whether the samples are exact.
    ///
    /// # Errors
    /// If the time is over.
    #[allow(clippy::too_many_arguments)]
    fn draw(
        &self,
        scores: &[f64],
        at: (usize, usize),
        work: &mut Work,
        (count, random): (usize, &mut Stream),
        clock: &Clock<'_>,
        each: &mut dyn FnMut(&[u32]),
    ) -> Result<Draws> {
        let mut structure = vec![0; self.width()];
        for i in 0..count {
            if i % 1024 == 0 {
                clock.check()?;
            }
            self.decode(scores, at, work, Some(random), &mut structure);
            each(&structure);
        }
        Ok(Draws::Exact)
    }

    /// Calls `add` for every feature of a structure that is not zero; all features are 0 or 1.
    fn features(&self, structure: &[u32], add: &mut dyn FnMut(usize));

    /// R, an upper bound on the distance of a feature vector from the centre of a ball that contains all.
    fn radius(&self) -> f64;

    /// ln |Y|.
    fn log_count(&self) -> f64;

    /// The score of a structure.
    fn score(&self, scores: &[f64], (lane, lanes): (usize, usize), structure: &[u32]) -> f64 {
        let mut sum = 0.0;
        self.features(structure, &mut |channel| sum += scores[channel * lanes + lane]);
        sum
    }

    /// The negative log-likelihood of every row, and its gradient in place of the scores.
    fn losses(
        &self,
        scores: &mut [f64],
        targets: &Targets,
        rows: Range<usize>,
        work: &mut Work,
        out: &mut [f64],
    ) {
        let lanes = rows.len();
        self.upward(scores, lanes, Mode::Sum, work, out);
        let mut means = std::mem::take(&mut work.means);
        filled(&mut means, self.channels() * lanes, 0.0);
        self.means(scores, lanes, work, &mut means);
        for (lane, row) in rows.enumerate() {
            let mut add = |channel: usize| {
                out[lane] -= scores[channel * lanes + lane];
                means[channel * lanes + lane] -= 1.0;
            };
            match targets {
                Targets::Sets(sets) => self.set_features(sets.row(row), &mut add),
                _ => {
                    if let Some(structure) = targets.structure(row) {
                        self.features(&structure, &mut add);
                    }
                }
            }
        }
        scores.copy_from_slice(&means);
        work.means = means;
    }

    /// Like [`Family::features`], for a set given by its members.
    fn set_features(&self, members: &[u32], add: &mut dyn FnMut(usize)) {
        let mut structure = vec![0; self.width()];
        members.iter().for_each(|&member| structure[member as usize] = 1);
        self.features(&structure, add);
    }
}

#[cfg(test)]
pub(crate) mod tests;
