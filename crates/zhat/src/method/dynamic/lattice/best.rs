//! The best path and the k best paths: messages with max instead of sum.
//!
//! δₜ₊₁(j) = maxᵢ(δₜ(i) + log-transition(i, j)) + scoreₜ₊₁(j). Only δ is stored. Backtracking reads one
//! column of transitions per step and takes the smallest state among ties. Semi-Markov chains have two rows
//! per position: the best path that has just left a segment in a state, and the best path that has just
//! entered one. Time O(B·T·N²), memory one row of N numbers per position.

use crate::numeric::parallel::prelude::*;

use super::entries::{Entries, Index, Listed};
use super::layout::PositionRows;
use super::messages::{Lattice, each_row, normalise};
use super::nodes::Edges;
use super::ranked::{Backward, Node, Ranked};
use super::segments::{origin, rounded};
use crate::error::Result;
use crate::model::Transitions;
use crate::numeric::Real;
use crate::run::Clock;

/// Columns per task: one row of them and its results fit into the L1 cache.
const COLUMNS: usize = 512;
/// Columns of a sparse table per task.
const SPARSE_COLUMNS: usize = 4096;
/// Rows of log-transitions computed at a time if they are not stored in a table.
const TILE: usize = 32;

impl<F: Real> Edges<'_, F> {
    /// output(j) = maxᵢ(input(i) + log-transition(i, j)) for `count` rows. If the clock signals a stop, the
    /// result is invalid.
    pub fn max_product(&self, t: usize, count: usize, input: &[F], output: &mut [F], clock: &Clock<'_>) {
        if self.sets.is_none() && self.transitions.sparse_table(t).is_some() {
            return self.sparse_max_product(t, input, output);
        }
        let (before, after) = self.shape(t);
        let blocks = after.div_ceil(COLUMNS);
        let block = |k: usize| {
            let columns = k * COLUMNS..((k + 1) * COLUMNS).min(after);
            let mut best = vec![F::NEG_INFINITY; count * columns.len()];
            let mut tile = Vec::new();
            for first in (0..before).step_by(TILE) {
                if clock.must_stop() {
                    break;
                }
                let rows = first..(first + TILE).min(before);
                let table = self.table(t);
                if table.is_none() {
                    tile.resize(rows.len() * columns.len(), F::ZERO);
                    self.fill(t, Index::Range(rows.clone()), Index::Range(columns.clone()), &mut tile);
                }
                for i in rows {
                    let row = match table {
                        Some(table) => &table[i * after..][columns.clone()],
                        None => &tile[(i - first) * columns.len()..][..columns.len()],
                    };
                    for (best, input) in best.chunks_exact_mut(columns.len()).zip(input.chunks_exact(before))
                    {
                        let from = input[i];
                        if from > F::NEG_INFINITY {
                            raise(best, from, row);
                        }
                    }
                }
            }
            (columns, best)
        };
        let results: Vec<_> = if blocks > 1 && count * before * after > 1 << 18 {
            (0..blocks).into_par_iter().map(block).collect()
        } else {
            (0..blocks).map(block).collect()
        };
        for (columns, best) in results {
            for (row, best) in output.chunks_exact_mut(after).zip(best.chunks_exact(columns.len())) {
                row[columns.clone()].copy_from_slice(best);
            }
        }
    }

    /// The same over the entries of a sparse table.
    fn sparse_max_product(&self, t: usize, input: &[F], output: &mut [F]) {
        let Some((pattern, values)) = self.transitions.sparse_table(t) else { return };
        let size = self.states;
        let block = |(block, out): (usize, &mut [F]), input: &[F]| {
            for (j, out) in (block * SPARSE_COLUMNS..).zip(out) {
                let (sources, entries) = pattern.column(j);
                let scores =
                    sources.iter().zip(entries).map(|(&i, &e)| input[i as usize] + values[e as usize]);
                *out = scores.fold(F::NEG_INFINITY, |a, b| if b > a { b } else { a });
            }
        };
        for (input, output) in input.chunks_exact(size).zip(output.chunks_exact_mut(size)) {
            if pattern.len() > 1 << 18 {
                output.par_chunks_mut(SPARSE_COLUMNS).enumerate().for_each(|part| block(part, input));
            } else {
                output.chunks_mut(SPARSE_COLUMNS).enumerate().for_each(|part| block(part, input));
            }
        }
    }

    /// The table of boundary t, if the model stores it in this form.
    fn table(&self, t: usize) -> Option<&[F]> {
        let len = self.states * self.states;
        match (&self.sets, self.transitions) {
            (None, Transitions::Shared(table)) => Some(table),
            (None, Transitions::PerStep(tables)) => Some(&tables[t * len..(t + 1) * len]),
            _ => None,
        }
    }

    /// The best predecessor of j before boundary t, the smallest among ties, and the total score.
    pub fn best_before(&self, t: usize, from: &[F], j: usize, column: &mut Vec<F>) -> (usize, F) {
        let listed = self.arrivals(t, j, column);
        listed.add(column, from);
        let (at, best) = first_best(column);
        if column.is_empty() { (0, best) } else { (listed.at(at), best) }
    }
}

fn raise<F: Real>(best: &mut [F], from: F, row: &[F]) {
    for (best, &x) in best.iter_mut().zip(row) {
        let score = from + x;
        *best = if score > *best { score } else { *best };
    }
}

/// The index of the first maximum, and the maximum.
pub(crate) fn first_best<F: Real>(values: &[F]) -> (usize, F) {
    values.iter().enumerate().fold(
        (0, F::NEG_INFINITY),
        |(at, best), (i, &x)| {
            if x > best { (i, x) } else { (at, best) }
        },
    )
}

/// (state, length) of each segment; in a chain all lengths are 1.
pub type SegmentPath = Vec<(usize, usize)>;

impl<F: Real> Lattice<'_, F> {
    /// δ of all layers, each row relative to its scale; for segments also the best scores for entering each
    /// position.
    pub fn sweep_max(&self, clock: &Clock<'_>) -> Result<PositionRows<F>> {
        let layout = &self.layout;
        let steps = layout.steps();
        let mut best = self.forward_rows(None, &(0..steps));
        if self.segments.is_none() {
            let (first, scales) = best.left.layer_mut(0, layout.active(0));
            each_row(first, scales, layout.size(0), |place, row, scale| {
                self.nodes.add_scores(layout.sequence(place), 0, row);
                *scale = normalise(row);
            });
        }
        for t in 0..steps {
            clock.step("best scores", t, steps)?;
            self.best_segments(t, &mut best);
            if t + 1 == steps {
                break;
            }
            let (count, (size, next)) = (layout.active(t + 1), self.steps.shape(t));
            let mut output = vec![F::ZERO; count * next];
            let (input, scales) = best.left.layer_mut(t, count);
            let mut scales = scales.to_vec();
            self.edges.max_product(t, count, &input[..count * size], &mut output, clock);
            clock.check()?;
            each_row(&mut output, &mut scales, next, |place, row, scale| {
                if self.segments.is_none() {
                    self.nodes.add_scores(layout.sequence(place), t + 1, row);
                }
                *scale += normalise(row);
            });
            let (rows, kept) = best.entered_mut().layer_mut(t + 1, count);
            rows.copy_from_slice(&output);
            kept.copy_from_slice(&scales);
        }
        Ok(best)
    }

    /// δₜ from the best scores for entering the segments that end at t. Does nothing for a chain.
    fn best_segments(&self, t: usize, best: &mut PositionRows<F>) {
        let PositionRows { left, entered: Some(entered) } = best else { return };
        for place in 0..self.layout.active(t) {
            let reference = entered.scale(place, t);
            let mut scores = vec![f64::NEG_INFINITY; self.layout.size(t)];
            self.each_ending(place, t, |s, own| {
                let shift = entered.scale(place, s) - reference;
                let (origins, from) = (self.origins(s, t), entered.row(place, s));
                for (k, (score, x)) in scores.iter_mut().zip(own).enumerate() {
                    *score = score.max(x + from[origin(origins, k)].to_f64() + shift);
                }
            });
            let scale = reference + rounded(&scores, left.row_mut(place, t));
            left.set_scale(place, t, scale);
        }
    }

    /// The best path of sequence b; empty if there is none. Ties go to the smallest last state and the
    /// shortest last segment.
    pub fn best_path(&self, best: &PositionRows<F>, b: usize, clock: &Clock<'_>) -> Result<SegmentPath> {
        let place = self.layout.place(b);
        let mut t = self.layout.length(place) - 1;
        let (mut state, score) = first_best(best.row(place, t));
        if score == F::NEG_INFINITY {
            return Ok(Vec::new());
        }
        let (mut segments, mut column) = (Vec::new(), Vec::new());
        loop {
            clock.check()?;
            let start = self.best_start(best, place, t, state);
            segments.push((state, t + 1 - start));
            if start == 0 {
                break;
            }
            let entered = self.origin(start, t, state);
            t = start - 1;
            state = self.edges.best_before(t, best.row(place, t), entered, &mut column).0;
        }
        segments.reverse();
        Ok(segments)
    }

    /// The start of the best segment of a state that ends at t.
    fn best_start(&self, best: &PositionRows<F>, place: usize, t: usize, state: usize) -> usize {
        let (mut start, mut top) = (t, f64::NEG_INFINITY);
        self.each_ending(place, t, |s, own| {
            let entered = best.entered();
            let from = entered.row(place, s)[self.origin(s, t, state)].to_f64();
            let score = own[state] + from + entered.scale(place, s);
            if score > top {
                (start, top) = (s, score);
            }
        });
        start
    }

    /// The k best paths of sequence b, best first; fewer if there are fewer.
    pub fn best_paths(
        &self,
        best: &PositionRows<F>,
        b: usize,
        k: usize,
        clock: &Clock<'_>,
    ) -> Result<Vec<SegmentPath>> {
        let place = self.layout.place(b);
        let length = self.layout.length(place);
        let graph = Positions { lattice: self, best, place, length };
        let mut ranked = Ranked::new(&graph, k);
        let mut paths = Vec::new();
        while paths.len() < k {
            clock.step("ranking paths", paths.len(), k)?;
            let Some(nodes) = ranked.path((2 * length, 0), paths.len()) else { break };
            let nodes = &nodes[..nodes.len() - 1];
            // Nodes alternate between entered and left; in a chain there are only left nodes.
            let pairs = nodes.chunks_exact(2).map(|pair| (pair[1].1, pair[1].0 / 2 + 1 - pair[0].0 / 2));
            paths.push(match self.segments {
                None => nodes.iter().map(|node| (node.1, 1)).collect(),
                Some(_) => pairs.collect(),
            });
        }
        Ok(paths)
    }
}

/// A sequence as a graph: layer 2s has entered a segment at s, layer 2t + 1 has left one at t, and one more
/// node follows the end. A chain has only the nodes that leave.
struct Positions<'a, F: Real> {
    lattice: &'a Lattice<'a, F>,
    best: &'a PositionRows<F>,
    place: usize,
    length: usize,
}

impl<F: Real> Positions<'_, F> {
    /// The node score of state j in a chain. Each call builds a whole row, so callers compute it once per
    /// node.
    fn score(&self, t: usize, j: usize) -> f64 {
        if self.lattice.segments.is_some() {
            return 0.0;
        }
        let mut row = vec![F::ZERO; self.lattice.layout.size(t)];
        self.lattice.nodes.add_scores(self.lattice.layout.sequence(self.place), t, &mut row);
        row[j].to_f64()
    }

    /// True for a node reached through a segment instead of a transition.
    fn ends_segment(&self, layer: usize) -> bool {
        self.lattice.segments.is_some() && layer % 2 == 1
    }
}

impl<F: Real> Backward for Positions<'_, F> {
    fn before(&self, (layer, j): Node) -> Vec<(Node, f64)> {
        let t = layer / 2;
        if self.ends_segment(layer) {
            let mut ways = Vec::new();
            self.lattice.each_ending(self.place, t, |s, scores| {
                ways.push(((2 * s, j), self.best((2 * s, j)) + scores[j]));
            });
            return ways;
        }
        if t == 0 {
            return Vec::new();
        }
        let (before, size) = (2 * t - 1, self.lattice.layout.size(t - 1));
        let (mut column, mut score, mut listed) = (vec![F::ZERO; size], 0.0, Listed(None));
        if t < self.length {
            listed = self.lattice.edges.arrivals(t - 1, j, &mut column);
            score = self.score(t, j);
        }
        let ways = column.iter().enumerate().map(|(k, x)| (listed.at(k), x));
        ways.map(|(i, x)| ((before, i), self.best((before, i)) + x.to_f64() + score)).collect()
    }

    fn step(&self, from: Node, (layer, j): Node) -> f64 {
        let t = layer / 2;
        if t == self.length {
            return 0.0;
        }
        if self.ends_segment(layer) {
            let mut score = f64::NEG_INFINITY;
            self.lattice.each_ending(self.place, t, |s, scores| {
                if 2 * s == from.0 {
                    score = scores[j];
                }
            });
            return score;
        }
        let mut entry = [F::ZERO];
        let (rows, columns) = (Index::Range(from.1..from.1 + 1), Index::Range(j..j + 1));
        self.lattice.edges.fill(t - 1, rows, columns, &mut entry);
        entry[0].to_f64() + self.score(t, j)
    }

    fn best(&self, (layer, j): Node) -> f64 {
        let t = layer / 2;
        if t == self.length {
            return first_best(self.best.row(self.place, t - 1)).1.to_f64();
        }
        let rows = if layer % 2 == 1 { &self.best.left } else { self.best.entered() };
        rows.row(self.place, t)[j].to_f64() + rows.scale(self.place, t)
    }
}
