//! Best segmentations, the k best, and samples of semi-Markov chains.
//!
//! As for chains, with two rows a position: the best way to have left a segment in a state, and to have entered one.

use super::best::first_best;
use super::draw::Cumulative;
use super::entries::{Entries, Index};
use super::layout::Rows;
use super::messages::{Messages, normalise};
use super::nodes::add;
use super::ranked::{Backward, Node, Ranked};
use super::segments::{SegmentLattice, origin};
use crate::error::Result;
use crate::numeric::Real;
use crate::random::Stream;
use crate::run::Clock;

/// (state, length) of each segment.
type Segmentation = Vec<(usize, usize)>;

/// The best scores of having left, and entered, each state at each position.
pub(crate) struct Best<F> {
    left: Rows<F>,
    entered: Rows<F>,
}

impl<F: Real> SegmentLattice<'_, F> {
    /// The best scores of all positions.
    pub fn sweep_max(&self, clock: &Clock<'_>) -> Result<Best<F>> {
        let layout = &self.base.layout;
        let steps = layout.steps();
        let mut best = Best {
            left: Rows::new(layout, 0..steps, F::ZERO),
            entered: Rows::new(&self.entered, 0..steps, F::ZERO),
        };
        for t in 0..steps {
            clock.step("best scores", t, steps)?;
            for place in 0..layout.active(t) {
                let reference = best.entered.scale(place, t);
                let mut scores = vec![f64::NEG_INFINITY; layout.size(t)];
                self.each_ending(place, t, |s, own| {
                    let shift = best.entered.scale(place, s) - reference;
                    let (origins, from) = (self.segments.origins(s, t), best.entered.row(place, s));
                    for (k, (score, x)) in scores.iter_mut().zip(own).enumerate() {
                        *score = score.max(x + from[origin(origins, k)].to_f64() + shift);
                    }
                });
                let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let shift = if top == f64::NEG_INFINITY { 0.0 } else { top };
                let row = best.left.row_mut(place, t);
                row.iter_mut().zip(&scores).for_each(|(x, y)| *x = F::from_f64(y - shift));
                best.left.set_scale(place, t, reference + shift);
            }
            if t + 1 == steps {
                break;
            }
            let count = layout.active(t + 1);
            let (size, next) = self.base.steps.shape(t);
            let mut output = vec![F::ZERO; count * next];
            let (input, _) = best.left.layer_mut(t, count);
            self.base.edges.max_product(t, count, &input[..count * size], &mut output);
            for (place, row) in output.chunks_exact_mut(next).enumerate() {
                let scale = best.left.scale(place, t) + normalise(row);
                best.entered.row_mut(place, t + 1).copy_from_slice(row);
                best.entered.set_scale(place, t + 1, scale);
            }
        }
        Ok(best)
    }

    /// The best segmentation of sequence b, empty if there is none; of equals the smallest last state, the shortest last segment.
    pub fn best_segmentation(&self, best: &Best<F>, b: usize, clock: &Clock<'_>) -> Result<Segmentation> {
        let place = self.base.layout.place(b);
        let mut t = self.base.layout.length(place) - 1;
        let (mut state, score) = first_best(best.left.row(place, t));
        if score == F::NEG_INFINITY {
            return Ok(Vec::new());
        }
        let (mut segments, mut column) = (Vec::new(), Vec::new());
        loop {
            clock.check()?;
            let (mut start, mut top) = (t, f64::NEG_INFINITY);
            self.each_ending(place, t, |s, own| {
                let j = origin(self.segments.origins(s, t), state);
                let score =
                    own[state] + best.entered.row(place, s)[j].to_f64() + best.entered.scale(place, s);
                if score > top {
                    (start, top) = (s, score);
                }
            });
            segments.push((state, t + 1 - start));
            if start == 0 {
                break;
            }
            let j = origin(self.segments.origins(start, t), state);
            state = self.base.edges.best_before(start - 1, best.left.row(place, start - 1), j, &mut column).0;
            t = start - 1;
        }
        segments.reverse();
        Ok(segments)
    }

    /// The k best segmentations of sequence b, best first, fewer if there are fewer.
    pub fn best_segmentations(
        &self,
        best: &Best<F>,
        b: usize,
        k: usize,
        clock: &Clock<'_>,
    ) -> Result<Vec<Segmentation>> {
        let place = self.base.layout.place(b);
        let length = self.base.layout.length(place);
        let graph = Graph { lattice: self, best, place, length };
        let mut ranked = Ranked::new(&graph, k);
        let mut found = Vec::new();
        while found.len() < k {
            clock.step("ranking paths", found.len(), k)?;
            let Some(nodes) = ranked.path((2 * length, 0), found.len()) else { break };
            // Entered, left, entered, left, …, the end.
            let pairs = nodes[..nodes.len() - 1].chunks_exact(2);
            found.push(pairs.map(|pair| (pair[1].1, pair[1].0 / 2 + 1 - pair[0].0 / 2)).collect());
        }
        Ok(found)
    }

    /// `count` segmentations of sequence b, which must have one.
    pub fn draw(
        &self,
        messages: &Messages<F>,
        b: usize,
        count: usize,
        random: &mut Stream,
        clock: &Clock<'_>,
    ) -> Result<Vec<Segmentation>> {
        let Some(entering) = &messages.entering else { return Ok(Vec::new()) };
        let place = self.base.layout.place(b);
        let length = self.base.layout.length(place);
        let mut drawn: Vec<Segmentation> = vec![Vec::new(); count];
        let mut at = vec![0; count];
        for s in 0..length {
            clock.check()?;
            let here: Vec<usize> = (0..count).filter(|&k| at[k] == s).collect();
            let uniforms: Vec<(f64, f64)> =
                here.iter().map(|_| (random.uniform(), random.uniform())).collect();
            // The state, by the one before.
            let before = |k: usize| drawn[k].last().map(|segment: &(usize, usize)| segment.0);
            let mut order: Vec<usize> = (0..here.len()).collect();
            order.sort_by_key(|&x| (before(here[x]), x));
            let mut states = vec![0; here.len()];
            for group in order.chunk_by(|&x, &y| before(here[x]) == before(here[y])) {
                let mut logs = entering.row(place, s).to_vec();
                if let Some(i) = before(here[group[0]]) {
                    let mut row = vec![F::ZERO; logs.len()];
                    self.base.steps.log_row(s - 1, i, &mut row);
                    add(&mut logs, &row);
                }
                let law = Cumulative::new(&mut logs);
                group.iter().for_each(|&x| states[x] = law.at(uniforms[x].0));
            }
            // The length, by the state.
            order.sort_by_key(|&x| (states[x], x));
            let ends = if here.is_empty() { Vec::new() } else { self.end_weights(messages, place, s) };
            for group in order.chunk_by(|&x, &y| states[x] == states[y]) {
                let state = states[group[0]];
                let mut logs: Vec<f64> = ends.iter().map(|end| end[state]).collect();
                let law = Cumulative::new(&mut logs);
                for &x in group {
                    let d = 1 + law.at(uniforms[x].1);
                    drawn[here[x]].push((state, d));
                    at[here[x]] = s + d;
                }
            }
        }
        Ok(drawn)
    }

    /// For every end of a segment that starts at s the log weight of it and what follows, in each state.
    fn end_weights(&self, messages: &Messages<F>, place: usize, s: usize) -> Vec<Vec<f64>> {
        let mut ends = Vec::new();
        self.each_starting(place, s, |t, scores| {
            let mut logs = scores.to_vec();
            self.add_row_shift(place, t, &mut logs);
            let scale = messages.backward.scale(place, t);
            logs.iter_mut().zip(messages.backward.row(place, t)).for_each(|(x, y)| *x += y.to_f64() + scale);
            ends.push(logs);
        });
        ends
    }
}

/// A sequence as a graph: node 2s has entered a segment at s, node 2t + 1 has left one at t; one more stands behind the end.
struct Graph<'a, F: Real> {
    lattice: &'a SegmentLattice<'a, F>,
    best: &'a Best<F>,
    place: usize,
    length: usize,
}

impl<F: Real> Backward for Graph<'_, F> {
    fn before(&self, node: Node) -> Vec<(Node, f64)> {
        let (layer, j) = node;
        let t = layer / 2;
        let mut ways = Vec::new();
        if layer == 2 * self.length {
            let size = self.lattice.base.layout.size(t - 1);
            ways.extend((0..size).map(|i| ((layer - 1, i), self.best((layer - 1, i)))));
        } else if layer % 2 == 1 {
            self.lattice.each_ending(self.place, t, |s, scores| {
                ways.push(((2 * s, j), self.best((2 * s, j)) + scores[j]));
            });
        } else if t > 0 {
            let size = self.lattice.base.steps.shape(t - 1).0;
            let mut column = vec![F::ZERO; size];
            self.lattice.base.edges.fill(t - 1, Index::Range(0..size), Index::Range(j..j + 1), &mut column);
            let entries = column.iter().enumerate();
            ways.extend(entries.map(|(i, x)| ((layer - 1, i), self.best((layer - 1, i)) + x.to_f64())));
        }
        ways
    }

    fn step(&self, from: Node, node: Node) -> f64 {
        if node.0 == 2 * self.length {
            return 0.0;
        }
        if node.0 % 2 == 1 {
            let mut score = f64::NEG_INFINITY;
            self.lattice.each_ending(self.place, node.0 / 2, |s, scores| {
                if 2 * s == from.0 {
                    score = scores[node.1];
                }
            });
            return score;
        }
        let mut entry = [F::ZERO];
        let (rows, columns) = (Index::Range(from.1..from.1 + 1), Index::Range(node.1..node.1 + 1));
        self.lattice.base.edges.fill(node.0 / 2 - 1, rows, columns, &mut entry);
        entry[0].to_f64()
    }

    fn best(&self, (layer, j): Node) -> f64 {
        let t = layer / 2;
        if layer == 2 * self.length {
            return first_best(self.best.left.row(self.place, t - 1)).1.to_f64();
        }
        let rows = if layer % 2 == 1 { &self.best.left } else { &self.best.entered };
        rows.row(self.place, t)[j].to_f64() + rows.scale(self.place, t)
    }
}
