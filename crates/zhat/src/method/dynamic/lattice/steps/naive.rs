//! Reference implementation of all operations of steps, directly from their definition in double precision,
//! for the tests.

use super::Steps;
use crate::method::dynamic::lattice::entries::{Entries, Index};
use crate::model::Transitions;
use crate::numeric::Real;
use crate::query::sequence::TransitionGradient;

/// One table with the shifts chosen by the steps.
pub struct Naive {
    pub before: usize,
    pub after: usize,
    /// ln M.
    pub logs: Vec<f64>,
    /// D, or ones.
    pub direction: Vec<f64>,
}

impl Naive {
    pub fn new<F: Real>(
        transitions: &Transitions<F>,
        states: usize,
        sets: Option<(&[u32], &[u32])>,
        t: usize,
        steps: &dyn Steps<F>,
        direction: Option<&dyn Entries<F>>,
    ) -> Self {
        let (before, after) = steps.shape(t);
        let state = |set: Option<&[u32]>, k: usize| set.map_or(k, |set| set[k] as usize);
        let score = |at: usize| {
            let (i, j) = (at / after, at % after);
            let score = transitions.score(states, t, state(sets.unzip().0, i), state(sets.unzip().1, j));
            score - steps.row_shifts(t)[i].to_f64() - steps.column_shifts(t)[j].to_f64()
        };
        let mut scores = vec![F::from_f64(1.0); before * after];
        if let Some(direction) = direction {
            direction.fill(t, Index::Range(0..before), Index::Range(0..after), &mut scores);
        }
        let direction = scores.into_iter().map(F::to_f64).collect();
        Naive { before, after, logs: (0..before * after).map(score).collect(), direction }
    }

    /// M ∘ D at (i, j).
    pub fn weight(&self, i: usize, j: usize) -> f64 {
        let m = self.logs[i * self.after + j].exp();
        if m == 0.0 { 0.0 } else { m * self.direction[i * self.after + j] }
    }

    /// One entry of a product, and the sum of the absolute values of its terms.
    pub fn product(&self, message: &[f64], o: usize, forward: bool) -> (f64, f64) {
        let weight = |k: usize| if forward { self.weight(k, o) } else { self.weight(o, k) };
        let terms = message.iter().enumerate().map(|(k, x)| x * weight(k));
        (terms.clone().sum(), terms.map(f64::abs).sum())
    }

    /// The marginal of an edge.
    pub fn edge(&self, count: usize, left: &[f64], right: &[f64], i: usize, j: usize) -> f64 {
        let pairs: f64 = (0..count).map(|k| left[k * self.before + i] * right[k * self.after + j]).sum();
        pairs * self.weight(i, j)
    }
}

/// Adds the gradient of all edges to one gradient, and the absolute values to a second one.
#[allow(clippy::too_many_arguments)]
pub fn add_gradient<F: Real>(
    naive: &Naive,
    transitions: &Transitions<F>,
    states: usize,
    sets: Option<(&[u32], &[u32])>,
    t: usize,
    count: usize,
    left: &[f64],
    right: &[f64],
    gradient: &mut [TransitionGradient<f64>; 2],
) {
    let state = |set: Option<&[u32]>, k: usize| set.map_or(k, |set| set[k] as usize);
    for at in 0..naive.before * naive.after {
        let edge = naive.edge(count, left, right, at / naive.after, at % naive.after);
        let (i, j) = (state(sets.unzip().0, at / naive.after), state(sets.unzip().1, at % naive.after));
        for (gradient, size) in gradient.iter_mut().zip([|x: f64| x, f64::abs]) {
            match gradient {
                TransitionGradient::Shared(table) => table[i * states + j] += size(edge),
                TransitionGradient::PerStep(tables) | TransitionGradient::PerSequence(tables) => {
                    tables[(t * states + i) * states + j] += size(edge);
                }
                TransitionGradient::Sparse { values, .. } => {
                    let Transitions::Sparse { pattern, per_step, .. } = transitions else { panic!("sparse") };
                    let first = if *per_step { t * pattern.len() } else { 0 };
                    if let Some(e) = pattern.entry(i, j) {
                        values[first + e] += size(edge);
                    }
                }
                TransitionGradient::Factored { left: dl, right: dr } => {
                    let Transitions::Factored { left: l, .. } = transitions else { panic!("factored") };
                    let r = transitions.right().unwrap();
                    let rank = l.len() / states;
                    for k in 0..rank {
                        dl[i * rank + k] += size(edge * r[j * rank + k].to_f64());
                        let dr = dr.as_mut().unwrap_or(dl);
                        dr[j * rank + k] += size(edge * l[i * rank + k].to_f64());
                    }
                }
                TransitionGradient::LowRank { left: dl, right: dr } => {
                    let Transitions::LowRank { left: l, right: r } = transitions else { panic!("low rank") };
                    let rank = l.len() / states;
                    let total = transitions.score(states, t, i, j);
                    for k in 0..rank {
                        let log = l[i * rank + k].to_f64() + r[j * rank + k].to_f64();
                        let part = if log > f64::NEG_INFINITY { (log - total).exp() } else { 0.0 };
                        dl[i * rank + k] += size(edge * part);
                        dr[j * rank + k] += size(edge * part);
                    }
                }
            }
        }
    }
}
