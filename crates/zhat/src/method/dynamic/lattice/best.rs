//! The best path: messages with max for sum.
//!
//! δₜ₊₁(j) = maxᵢ(δₜ(i) + log-transition(i, j)) + scoreₜ₊₁(j). Only δ is kept; the way back reads one column of transitions a step and
//! takes the smallest state among equals. Time O(B·T·N²), memory one row of N a position.

use rayon::prelude::*;

use super::entries::{Entries, Index};
use super::layout::Rows;
use super::messages::{Lattice, each_row, normalise};
use super::nodes::Edges;
use super::ranked::{Backward, Node, Ranked};
use crate::error::Result;
use crate::model::Transitions;
use crate::numeric::Real;
use crate::run::Clock;

/// Columns that one task works on: a row of them and its results stay in the first cache.
const COLUMNS: usize = 512;
/// Rows of log-transitions that are made at a time where they do not stand in a table.
const TILE: usize = 32;

impl<F: Real> Edges<'_, F> {
    /// output(j) = maxᵢ(input(i) + log-transition(i, j)) for `count` rows.
    pub fn max_product(&self, t: usize, count: usize, input: &[F], output: &mut [F]) {
        let (before, after) = self.shape(t);
        let blocks = after.div_ceil(COLUMNS);
        let block = |k: usize| {
            let columns = k * COLUMNS..((k + 1) * COLUMNS).min(after);
            let mut best = vec![F::NEG_INFINITY; count * columns.len()];
            let mut tile = Vec::new();
            for first in (0..before).step_by(TILE) {
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

    /// The table of boundary t, where it stands in the model as it is.
    fn table(&self, t: usize) -> Option<&[F]> {
        let len = self.states * self.states;
        match (&self.sets, self.transitions) {
            (None, Transitions::Shared(table)) => Some(table),
            (None, Transitions::PerStep(tables)) => Some(&tables[t * len..(t + 1) * len]),
            _ => None,
        }
    }

    /// The state before boundary t that is best to come from into j, the smallest among equals, and with what total.
    pub fn best_before(&self, t: usize, from: &[F], j: usize, column: &mut Vec<F>) -> (usize, F) {
        column.resize(from.len(), F::ZERO);
        self.fill(t, Index::Range(0..from.len()), Index::Range(j..j + 1), column);
        column.iter_mut().zip(from).for_each(|(x, &from)| *x += from);
        first_best(column)
    }
}

fn raise<F: Real>(best: &mut [F], from: F, row: &[F]) {
    for (best, &x) in best.iter_mut().zip(row) {
        let score = from + x;
        *best = if score > *best { score } else { *best };
    }
}

/// The largest value and its first place.
pub(crate) fn first_best<F: Real>(values: &[F]) -> (usize, F) {
    values.iter().enumerate().fold(
        (0, F::NEG_INFINITY),
        |(at, best), (i, &x)| {
            if x > best { (i, x) } else { (at, best) }
        },
    )
}

impl<F: Real> Lattice<'_, F> {
    /// δ of all layers, each row relative to its scale.
    pub fn sweep_max(&self, clock: &Clock<'_>) -> Result<Rows<F>> {
        let layout = &self.layout;
        let mut rows = Rows::new(layout, 0..layout.steps(), F::ZERO);
        let (first, scales) = rows.layer_mut(0, layout.active(0));
        each_row(first, scales, layout.size(0), |place, row, scale| {
            self.nodes.add_scores(layout.sequence(place), 0, row);
            *scale = normalise(row);
        });
        for t in 0..layout.steps().saturating_sub(1) {
            clock.step("best scores", t, layout.steps())?;
            let (count, size, next) = (layout.active(t + 1), layout.size(t), layout.size(t + 1));
            let mut output = vec![F::ZERO; count * next];
            let (input, scales) = rows.layer_mut(t, count);
            let mut scales = scales.to_vec();
            self.edges.max_product(t, count, &input[..count * size], &mut output);
            each_row(&mut output, &mut scales, next, |place, row, scale| {
                self.nodes.add_scores(layout.sequence(place), t + 1, row);
                *scale += normalise(row);
            });
            let (rows, kept) = rows.layer_mut(t + 1, count);
            rows.copy_from_slice(&output);
            kept.copy_from_slice(&scales);
        }
        Ok(rows)
    }

    /// The best path of sequence b, empty if there is none.
    pub fn best_path(&self, rows: &Rows<F>, b: usize, clock: &Clock<'_>) -> Result<Vec<usize>> {
        let place = self.layout.place(b);
        let length = self.layout.length(place);
        let (mut state, best) = first_best(rows.row(place, length - 1));
        if best == F::NEG_INFINITY {
            return Ok(Vec::new());
        }
        let (mut path, mut column) = (vec![0; length], Vec::new());
        path[length - 1] = state;
        for t in (0..length - 1).rev() {
            clock.check()?;
            state = self.edges.best_before(t, rows.row(place, t), state, &mut column).0;
            path[t] = state;
        }
        Ok(path)
    }
}

/// A sequence of a chain as a graph: a node a position and state, and one behind the end.
struct Positions<'a, F: Real> {
    lattice: &'a Lattice<'a, F>,
    rows: &'a Rows<F>,
    place: usize,
    length: usize,
}

impl<F: Real> Positions<'_, F> {
    /// The node score; adding one state's to zeros costs a row, so the row is asked for once.
    fn score(&self, (t, j): Node) -> f64 {
        if t == self.length {
            return 0.0;
        }
        let mut row = vec![F::ZERO; self.lattice.layout.size(t)];
        self.lattice.nodes.add_scores(self.lattice.layout.sequence(self.place), t, &mut row);
        row[j].to_f64()
    }
}

impl<F: Real> Backward for Positions<'_, F> {
    fn before(&self, (t, j): Node) -> Vec<(Node, f64)> {
        if t == 0 {
            return Vec::new();
        }
        let size = self.lattice.layout.size(t - 1);
        let mut column = vec![F::ZERO; size];
        if t < self.length {
            self.lattice.edges.fill(t - 1, Index::Range(0..size), Index::Range(j..j + 1), &mut column);
        }
        let score = self.score((t, j));
        let ways = column.iter().enumerate();
        ways.map(|(i, x)| ((t - 1, i), self.best((t - 1, i)) + x.to_f64() + score)).collect()
    }

    fn step(&self, from: Node, node: Node) -> f64 {
        let mut entry = [F::ZERO];
        if node.0 < self.length {
            let (rows, columns) = (Index::Range(from.1..from.1 + 1), Index::Range(node.1..node.1 + 1));
            self.lattice.edges.fill(from.0, rows, columns, &mut entry);
        }
        entry[0].to_f64() + self.score(node)
    }

    fn best(&self, (t, j): Node) -> f64 {
        if t == self.length {
            return first_best(self.rows.row(self.place, t - 1)).1.to_f64();
        }
        self.rows.row(self.place, t)[j].to_f64() + self.rows.scale(self.place, t)
    }
}

impl<F: Real> Lattice<'_, F> {
    /// The k best paths of sequence b, best first, fewer if there are fewer.
    pub fn best_paths(
        &self,
        rows: &Rows<F>,
        b: usize,
        k: usize,
        clock: &Clock<'_>,
    ) -> Result<Vec<Vec<usize>>> {
        let place = self.layout.place(b);
        let length = self.layout.length(place);
        let graph = Positions { lattice: self, rows, place, length };
        let mut ranked = Ranked::new(&graph, k);
        let mut paths = Vec::new();
        while paths.len() < k {
            clock.step("ranking paths", paths.len(), k)?;
            let Some(nodes) = ranked.path((length, 0), paths.len()) else { break };
            paths.push(nodes[..length].iter().map(|node| node.1).collect());
        }
        Ok(paths)
    }
}
