//! Transitions as matrices to multiply messages with.
//!
//! Table t is written as log-transition(i, j) = rowₜ(i) + ln Mₜ(i, j) + columnₜ(j) with 0 ≤ M ≤ 1. A message that is scaled to a
//! largest entry of 1 then loses at most N·TINY in a product, which the caller checks and repairs from the logarithms.

use super::entries::{ChainEntries, Entries, Index, Restricted};
use crate::model::Transitions;
use crate::numeric::Real;
use crate::sequence::TransitionGradient;

/// `count` messages multiplied with table t; the rows of `input` and `output` are messages.
pub(crate) struct Product<'a, F> {
    pub t: usize,
    pub count: usize,
    pub input: &'a [F],
    pub output: &'a mut [F],
}

/// The scaled matrices of a lattice.
pub(crate) trait Steps<F: Real>: Sync {
    /// The number of states of the layers before and after boundary t.
    fn shape(&self, t: usize) -> (usize, usize);

    /// True if all boundaries have the same matrix, so that products of different boundaries may share a call.
    fn shared(&self) -> bool;

    /// The part of log-transition(i, j) that depends on i alone.
    fn row_shifts(&self, t: usize) -> &[F];

    /// The part of log-transition(i, j) that depends on j alone.
    fn column_shifts(&self, t: usize) -> &[F];

    /// output = input·Mₜ for `forward`, output = input·Mₜᵀ for `backward`; both read each tile once where they can.
    fn multiply(&self, forward: Option<Product<'_, F>>, backward: Option<Product<'_, F>>);

    /// The same with M ∘ D for a direction D, unscaled; entries with M = 0 do not count, whatever D is there.
    fn multiply_directed(
        &self,
        direction: &dyn Entries<F>,
        forward: Option<Product<'_, F>>,
        backward: Option<Product<'_, F>>,
    );

    /// ln Mₜ(i, ·).
    fn log_row(&self, t: usize, i: usize, out: &mut [F]);

    /// ln Mₜ(·, j).
    fn log_column(&self, t: usize, j: usize, out: &mut [F]);

    /// Adds Σₖ left_k(i)·Mₜ(i, j)·right_k(j), and the same times D(i, j) for a direction, to the gradient with respect to
    /// log-transition(i, j); the gradient has the form of the model's transitions.
    fn add_gradient(
        &self,
        t: usize,
        count: usize,
        left: &[F],
        right: &[F],
        direction: Option<&dyn Entries<F>>,
        gradient: &mut TransitionGradient<F>,
    );
}

/// The matrices of a chain of `states` states.
pub(crate) fn steps_of<'a, F: Real>(
    transitions: &'a Transitions<F>,
    states: usize,
    boundaries: usize,
) -> Box<dyn Steps<F> + 'a> {
    let entries = ChainEntries { transitions, states };
    let tables = if entries.shared() { boundaries.min(1) } else { boundaries };
    let matrices = (0..tables).map(|t| Scaled::new(&entries, t)).collect();
    Box::new(Tables { transitions, states, sets: None, matrices })
}

/// The matrices between the states that `sets` keep before and after each boundary. A state may stand in a set more than once.
pub(crate) fn restricted_steps_of<'a, F: Real>(
    transitions: &'a Transitions<F>,
    states: usize,
    sets: Vec<(&'a [u32], &'a [u32])>,
) -> Box<dyn Steps<F> + 'a> {
    let entries = ChainEntries { transitions, states };
    let restricted = Restricted { entries: &entries, sets: sets.clone() };
    let matrices = (0..sets.len()).map(|t| Scaled::new(&restricted, t)).collect();
    Box::new(Tables { transitions, states, sets: Some(sets), matrices })
}

/// One table, scaled: rows first, then columns, so that the largest entry of each is 1.
struct Scaled<F> {
    rows: Vec<F>,
    columns: Vec<F>,
    logs: Vec<F>,
    matrix: Vec<F>,
}

impl<F: Real> Scaled<F> {
    fn new(entries: &dyn Entries<F>, t: usize) -> Self {
        let (before, after) = entries.shape(t);
        let mut logs = vec![F::ZERO; before * after];
        entries.fill(t, Index::Range(0..before), Index::Range(0..after), &mut logs);
        let finite = |x: F| if x == F::NEG_INFINITY { F::ZERO } else { x };
        let rows: Vec<F> = logs.chunks_exact(after).map(|row| finite(F::max(row))).collect();
        for (row, &shift) in logs.chunks_exact_mut(after).zip(&rows) {
            row.iter_mut().for_each(|x| *x = *x - shift);
        }
        let mut columns = vec![F::NEG_INFINITY; after];
        for row in logs.chunks_exact(after) {
            for (best, &x) in columns.iter_mut().zip(row) {
                *best = if x > *best { x } else { *best };
            }
        }
        columns.iter_mut().for_each(|x| *x = finite(*x));
        for row in logs.chunks_exact_mut(after) {
            row.iter_mut().zip(&columns).for_each(|(x, &shift)| *x = *x - shift);
        }
        let mut matrix = logs.clone();
        F::exp_in_place(&mut matrix);
        Scaled { rows, columns, logs, matrix }
    }
}

/// All tables in memory.
struct Tables<'a, F: Real> {
    transitions: &'a Transitions<F>,
    states: usize,
    sets: Option<Vec<(&'a [u32], &'a [u32])>>,
    matrices: Vec<Scaled<F>>,
}

impl<F: Real> Tables<'_, F> {
    fn at(&self, t: usize) -> &Scaled<F> {
        &self.matrices[if self.shared() { 0 } else { t }]
    }

    /// M or M ∘ D.
    fn weights(&self, t: usize, direction: Option<&dyn Entries<F>>) -> Vec<F> {
        let (before, after) = self.shape(t);
        let mut weights = self.at(t).matrix.clone();
        if let Some(direction) = direction {
            let mut scores = vec![F::ZERO; before * after];
            direction.fill(t, Index::Range(0..before), Index::Range(0..after), &mut scores);
            for (w, &d) in weights.iter_mut().zip(&scores) {
                *w = if *w == F::ZERO { F::ZERO } else { *w * d };
            }
        }
        weights
    }

    fn product(&self, direction: Option<&dyn Entries<F>>, task: Product<'_, F>, forward: bool) {
        let (before, after) = self.shape(task.t);
        let weights = self.weights(task.t, direction);
        let (from, to) = if forward { (before, after) } else { (after, before) };
        for k in 0..task.count {
            for o in 0..to {
                let entry = |i: usize| if forward { weights[i * after + o] } else { weights[o * after + i] };
                task.output[k * to + o] = (0..from).map(|i| task.input[k * from + i] * entry(i)).sum();
            }
        }
    }
}

impl<F: Real> Steps<F> for Tables<'_, F> {
    fn shape(&self, t: usize) -> (usize, usize) {
        self.sets.as_ref().map_or((self.states, self.states), |sets| (sets[t].0.len(), sets[t].1.len()))
    }

    fn shared(&self) -> bool {
        self.sets.is_none() && !matches!(self.transitions, Transitions::PerStep(_))
    }

    fn row_shifts(&self, t: usize) -> &[F] {
        &self.at(t).rows
    }

    fn column_shifts(&self, t: usize) -> &[F] {
        &self.at(t).columns
    }

    fn multiply(&self, forward: Option<Product<'_, F>>, backward: Option<Product<'_, F>>) {
        forward.into_iter().for_each(|task| self.product(None, task, true));
        backward.into_iter().for_each(|task| self.product(None, task, false));
    }

    fn multiply_directed(
        &self,
        direction: &dyn Entries<F>,
        forward: Option<Product<'_, F>>,
        backward: Option<Product<'_, F>>,
    ) {
        forward.into_iter().for_each(|task| self.product(Some(direction), task, true));
        backward.into_iter().for_each(|task| self.product(Some(direction), task, false));
    }

    fn log_row(&self, t: usize, i: usize, out: &mut [F]) {
        let after = self.shape(t).1;
        out.copy_from_slice(&self.at(t).logs[i * after..(i + 1) * after]);
    }

    fn log_column(&self, t: usize, j: usize, out: &mut [F]) {
        let after = self.shape(t).1;
        out.iter_mut().enumerate().for_each(|(i, x)| *x = self.at(t).logs[i * after + j]);
    }

    fn add_gradient(
        &self,
        t: usize,
        count: usize,
        left: &[F],
        right: &[F],
        direction: Option<&dyn Entries<F>>,
        gradient: &mut TransitionGradient<F>,
    ) {
        let n = self.states;
        let (before, after) = self.shape(t);
        let weights = self.weights(t, direction);
        for at in 0..before * after {
            let (i, j) = (at / after, at % after);
            let pairs: F = (0..count).map(|k| left[k * before + i] * right[k * after + j]).sum();
            let edge = pairs * weights[at];
            let (i, j) =
                self.sets.as_ref().map_or((i, j), |sets| (sets[t].0[i] as usize, sets[t].1[j] as usize));
            match gradient {
                TransitionGradient::Shared(table) => table[i * n + j] += edge,
                TransitionGradient::PerStep(tables) => tables[(t * n + i) * n + j] += edge,
                TransitionGradient::Factored { left: dl, right: dr } => {
                    let Transitions::Factored { left: l, .. } = self.transitions else { return };
                    let r = self.transitions.right().unwrap_or(l);
                    let rank = l.len() / n;
                    for k in 0..rank {
                        dl[i * rank + k] += edge * r[j * rank + k];
                        let dr = dr.as_mut().unwrap_or(dl);
                        dr[j * rank + k] += edge * l[i * rank + k];
                    }
                }
            }
        }
    }
}
