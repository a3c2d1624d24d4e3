//! Node scores of a lattice, and the mapping of its edges to the model's transitions.

use super::entries::{ChainEntries, Entries, Index, Listed};
use crate::model::{Chain, Transitions};
use crate::numeric::{Real, exp_in_place, log_sum_exp};
use crate::query::sequence::TransitionGradient;

/// The node scores of a lattice: emissions, start scores and weights of a selection. They exclude the shifts
/// of the transitions.
pub(crate) trait Nodes<F: Real>: Sync {
    /// The number of states of layer t, the same for all sequences.
    fn states(&self, t: usize) -> usize;

    /// The scores of sequence b at position t, one per state of the layer, without the start scores; may be
    /// empty.
    fn scores(&self, b: usize, t: usize) -> &[F];

    /// The same scores, possibly followed by other numbers, so that whole vectors can be read.
    fn scores_on(&self, b: usize, t: usize) -> &[F] {
        self.scores(b, t)
    }

    /// Scores added at t = 0; may be empty.
    fn start(&self) -> &[F] {
        &[]
    }

    /// Adds the scores of sequence b at position t, including the start scores at t = 0.
    fn add_scores(&self, b: usize, t: usize, scores: &mut [F]) {
        add(scores, self.scores(b, t));
        if t == 0 {
            add(scores, self.start());
        }
    }
}

/// Start, emissions and end scores of a chain.
pub(crate) struct ChainNodes<'a, F: Real>(pub &'a Chain<F>);

impl<F: Real> Nodes<F> for ChainNodes<'_, F> {
    fn states(&self, _: usize) -> usize {
        self.0.states()
    }

    fn scores(&self, b: usize, t: usize) -> &[F] {
        self.0.node(b, t)
    }

    fn scores_on(&self, b: usize, t: usize) -> &[F] {
        self.0.node_on(b, t)
    }

    fn start(&self) -> &[F] {
        self.0.start()
    }
}

/// One sequence with given node scores for each layer.
pub(crate) struct LayerNodes<'a, F: Real>(pub Vec<&'a [F]>);

impl<F: Real> Nodes<F> for LayerNodes<'_, F> {
    fn states(&self, t: usize) -> usize {
        self.0[t].len()
    }

    fn scores(&self, _: usize, t: usize) -> &[F] {
        self.0[t]
    }
}

/// x ← x + y. Scores are finite or −∞, so no sum is NaN.
pub(crate) fn add<F: Real>(x: &mut [F], y: &[F]) {
    F::add_to(x, y);
}

/// Maps the edges of a lattice to the model's transitions, for operations that cannot use a matrix product.
#[derive(Clone)]
pub(crate) struct Edges<'a, F: Real> {
    pub transitions: &'a Transitions<F>,
    /// N of the model.
    pub states: usize,
    /// The states kept before and after each boundary; `None` if all are kept.
    pub sets: Option<Vec<(&'a [u32], &'a [u32])>>,
}

impl<F: Real> Edges<'_, F> {
    /// The model's states for row i and column j of boundary t.
    pub fn states_of(&self, t: usize, i: usize, j: usize) -> (usize, usize) {
        self.sets.as_ref().map_or((i, j), |sets| (sets[t].0[i] as usize, sets[t].1[j] as usize))
    }

    /// Adds `weights[k]` to the gradient with respect to log-transition(i, j) of boundary t, where j is state k
    /// of the list.
    pub fn add_row(
        &self,
        t: usize,
        i: usize,
        (listed, weights): (Listed<'_>, &[F]),
        gradient: &mut TransitionGradient<F>,
    ) {
        for (k, &weight) in weights.iter().enumerate().filter(|(_, weight)| **weight != F::ZERO) {
            self.add_entry(t, (i, listed.at(k)), weight, gradient);
        }
    }

    /// Adds `weights[k]` to the gradient with respect to log-transition(i, j) of boundary t, where i is state k
    /// of the list.
    pub fn add_column(
        &self,
        t: usize,
        j: usize,
        (listed, weights): (Listed<'_>, &[F]),
        gradient: &mut TransitionGradient<F>,
    ) {
        for (k, &weight) in weights.iter().enumerate().filter(|(_, weight)| **weight != F::ZERO) {
            self.add_entry(t, (listed.at(k), j), weight, gradient);
        }
    }

    /// The log-transitions into state j across boundary t, from the states of the returned list.
    pub fn arrivals(&self, t: usize, j: usize, out: &mut Vec<F>) -> Listed<'_> {
        if let (None, Some((pattern, values))) = (&self.sets, self.transitions.sparse_table(t)) {
            let (sources, entries) = pattern.column(j);
            out.clear();
            out.extend(entries.iter().map(|&e| values[e as usize]));
            return Listed(Some(sources));
        }
        let before = self.shape(t).0;
        out.resize(before, F::ZERO);
        self.fill(t, Index::Range(0..before), Index::Range(j..j + 1), out);
        Listed(None)
    }

    fn add_entry(&self, t: usize, (i, j): (usize, usize), weight: F, gradient: &mut TransitionGradient<F>) {
        let n = self.states;
        let (i, j) = self.states_of(t, i, j);
        match gradient {
            TransitionGradient::Shared(table) => table[i * n + j] += weight,
            TransitionGradient::PerStep(tables) | TransitionGradient::PerSequence(tables) => {
                tables[(t * n + i) * n + j] += weight;
            }
            TransitionGradient::Sparse { values, .. } => {
                let Transitions::Sparse { pattern, per_step, .. } = self.transitions else { return };
                let first = if *per_step { t * pattern.len() } else { 0 };
                if let Some(e) = pattern.entry(i, j) {
                    values[first + e] += weight;
                }
            }
            TransitionGradient::Factored { left: to_left, right: to_right } => {
                let Transitions::Factored { left, .. } = self.transitions else { return };
                let right = self.transitions.right().unwrap_or(left);
                let rank = left.len() / n;
                for k in 0..rank {
                    to_left[i * rank + k] += weight * right[j * rank + k];
                    let to_right = to_right.as_mut().unwrap_or(to_left);
                    to_right[j * rank + k] += weight * left[i * rank + k];
                }
            }
            TransitionGradient::LowRank { left: to_left, right: to_right } => {
                let Transitions::LowRank { left, right } = self.transitions else { return };
                let rank = left.len() / n;
                let (to_left, to_right) = (&mut to_left[i * rank..], &mut to_right[j * rank..]);
                let terms = left[i * rank..][..rank].iter().zip(&right[j * rank..]);
                let mut terms: Vec<f64> = terms.map(|(l, r)| l.to_f64() + r.to_f64()).collect();
                let total = log_sum_exp(&terms);
                if total == f64::NEG_INFINITY {
                    return;
                }
                terms.iter_mut().for_each(|x| *x -= total);
                exp_in_place(&mut terms);
                for (k, part) in terms.iter().enumerate() {
                    let part = F::from_f64(weight.to_f64() * part);
                    to_left[k] += part;
                    to_right[k] += part;
                }
            }
        }
    }
}

impl<F: Real> Entries<F> for Edges<'_, F> {
    fn shape(&self, t: usize) -> (usize, usize) {
        self.sets.as_ref().map_or((self.states, self.states), |sets| (sets[t].0.len(), sets[t].1.len()))
    }

    fn shared(&self) -> bool {
        self.sets.is_none() && self.transitions.shared()
    }

    fn fill(&self, t: usize, rows: Index<'_>, columns: Index<'_>, out: &mut [F]) {
        let all = ChainEntries { transitions: self.transitions, states: self.states };
        let Some(sets) = &self.sets else { return all.fill(t, rows, columns, out) };
        let list =
            |set: &[u32], index: &Index<'_>| (0..index.len()).map(|k| set[index.at(k)]).collect::<Vec<u32>>();
        let (rows, columns) = (list(sets[t].0, &rows), list(sets[t].1, &columns));
        all.fill(t, Index::List(&rows), Index::List(&columns), out);
    }
}

/// A gradient of zeros in the form of `transitions`.
pub(crate) fn zero_gradient<F: Real>(transitions: &Transitions<F>) -> TransitionGradient<F> {
    let zeros = |len: usize| vec![F::ZERO; len];
    match transitions {
        Transitions::Shared(values) => TransitionGradient::Shared(zeros(values.len())),
        Transitions::PerStep(values) => TransitionGradient::PerStep(zeros(values.len())),
        Transitions::PerSequence(values) => TransitionGradient::PerSequence(zeros(values.len())),
        Transitions::Sparse { values, .. } => {
            TransitionGradient::Sparse { values: zeros(values.len()), shape: transitions.sparse_shape() }
        }
        Transitions::Factored { left, right } => TransitionGradient::Factored {
            left: zeros(left.len()),
            right: right.as_ref().map(|right| zeros(right.len())),
        },
        Transitions::LowRank { left, right } => {
            TransitionGradient::LowRank { left: zeros(left.len()), right: zeros(right.len()) }
        }
    }
}
