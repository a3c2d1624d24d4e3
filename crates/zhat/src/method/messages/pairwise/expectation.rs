//! Quantities computed from converged messages: marginals of variables and edges, and the Bethe entropy.

use crate::numeric::parallel::prelude::*;

use super::network::{Messages, Network};
use crate::error::Result;
use crate::method::dynamic::lattice::{Entries, Index, Listed, Product};
use crate::method::dynamic::randomized::Chosen;
use crate::model::PairwiseGraph;
use crate::numeric::{Real, log_sum_exp};
use crate::query::sequence::TransitionGradient;
use crate::run::Clock;

/// Maximum number of edges whose marginals are added in one matrix product.
const TOGETHER: usize = 64;

impl<F: Real> Network<'_, F> {
    /// P(xᵥ = x) for the states in use.
    pub fn marginal(&self, messages: &Messages<F>, v: usize) -> Vec<F> {
        let mut row = Vec::new();
        self.belief(messages, v, None, &mut row);
        let total = F::log_sum_exp(&row);
        if total == f64::NEG_INFINITY {
            row.fill(F::ZERO);
            return row;
        }
        row.iter_mut().for_each(|x| *x = F::from_f64(x.to_f64() - total));
        F::exp_in_place(&mut row);
        row
    }

    /// Adds factor · P(xᵥ = x) of every variable to an array of V×N numbers.
    pub fn add_marginals(
        &self,
        messages: &Messages<F>,
        chosen: Option<&[Chosen]>,
        states: usize,
        factor: f64,
        out: &mut [F],
    ) {
        let factor = F::from_f64(factor);
        out.par_chunks_exact_mut(states).enumerate().for_each(|(v, out)| {
            let marginal = self.marginal(messages, v);
            match chosen {
                None => out.iter_mut().zip(&marginal).for_each(|(x, &p)| *x += factor * p),
                Some(chosen) => {
                    let states = chosen[v].states.iter().zip(&marginal);
                    states.for_each(|(&x, &p)| out[x as usize] += factor * p);
                }
            }
        });
    }

    /// Adds factor · Σₑ P(xᵢ, xⱼ) to the gradient with respect to the interactions.
    pub fn add_edge_marginals(
        &self,
        messages: &Messages<F>,
        factor: f64,
        clock: &Clock<'_>,
        gradient: &mut TransitionGradient<F>,
    ) -> Result<()> {
        let together = if self.steps.shared() { TOGETHER } else { 1 };
        let edges: Vec<usize> = (0..self.edges.len()).collect();
        for edges in edges.chunks(together) {
            clock.check()?;
            let pairs: Vec<Pair<F>> = edges.par_iter().map(|&e| self.pair(messages, e)).collect();
            let (mut left, mut right) = (Vec::new(), Vec::new());
            for (pair, &e) in pairs.into_iter().zip(edges) {
                match pair {
                    Pair::Linear([mut a, mut b], norm) => {
                        F::multiply(&mut b, F::from_f64(factor / norm));
                        left.append(&mut a);
                        right.append(&mut b);
                    }
                    Pair::Logs(sides) => {
                        self.each_row(e, &sides, clock, |i, row, _| {
                            F::multiply(row, F::from_f64(factor));
                            self.entries.add_row(e, i, (Listed(None), row), gradient);
                        })?;
                    }
                }
            }
            let (before, _) = self.steps.shape(edges[0]);
            let count = left.len().checked_div(before).unwrap_or(0);
            if count > 0 {
                self.steps.add_gradient(edges[0], count, &left, &right, None, gradient);
            }
        }
        Ok(())
    }

    /// E\[score\] of the original scores over the states in use. The Bethe entropy is log Z minus this.
    pub fn expected_score(
        &self,
        messages: &Messages<F>,
        graph: &PairwiseGraph<F>,
        chosen: Option<&[Chosen]>,
        clock: &Clock<'_>,
    ) -> Result<f64> {
        let node = |v: usize| -> f64 {
            let (scores, marginal) = (graph.node(v), self.marginal(messages, v));
            let state = |k: usize| chosen.map_or(k, |chosen| chosen[v].states[k] as usize);
            let some = marginal.iter().enumerate().filter(|(_, p)| **p > F::ZERO);
            some.map(|(k, p)| p.to_f64() * scores[state(k)].to_f64()).sum()
        };
        let edge = |e: usize| -> Result<f64> {
            clock.check()?;
            Ok(match self.pair(messages, e) {
                Pair::Linear([left, right], norm) => {
                    let mut output = vec![F::ZERO; right.len()];
                    let product = Product { t: e, count: 1, input: &left, output: &mut output };
                    self.steps.multiply_directed(&self.entries, Some(product), None);
                    F::dot(&output, &right) / norm
                }
                Pair::Logs(sides) => {
                    let mut sum = 0.0;
                    self.each_row(e, &sides, clock, |_, row, scores| {
                        let some = row.iter().zip(scores).filter(|(p, _)| **p > F::ZERO);
                        sum += some.map(|(p, s)| p.to_f64() * s.to_f64()).sum::<f64>();
                    })?;
                    sum
                }
            })
        };
        let nodes: Vec<f64> = (0..self.nodes.len()).into_par_iter().map(node).collect();
        let edges: Vec<f64> = (0..self.edges.len()).into_par_iter().map(edge).collect::<Result<_>>()?;
        Ok(nodes.iter().chain(&edges).sum())
    }

    /// The two sides of an edge, and leftᵀ·Mₑ·right if it does not underflow.
    fn pair(&self, messages: &Messages<F>, edge: usize) -> Pair<F> {
        let logs = self.sides(messages, edge);
        let [mut left, mut right] = logs.clone();
        F::exp_in_place(&mut left);
        F::exp_in_place(&mut right);
        let mut output = vec![F::ZERO; right.len()];
        self.steps.multiply(Some(Product { t: edge, count: 1, input: &left, output: &mut output }), None);
        let norm = F::dot(&output, &right);
        let lost = 4.0 * (left.len() * right.len()) as f64 * F::TINY.to_f64() / F::EPSILON.to_f64();
        if norm > lost { Pair::Linear([left, right], norm) } else { Pair::Logs(logs) }
    }

    /// Calls `visit` with i, P(xᵢ = i, xⱼ = ·) and row i of the interactions, computed in the log domain.
    fn each_row(
        &self,
        edge: usize,
        logs: &[Vec<F>; 2],
        clock: &Clock<'_>,
        mut visit: impl FnMut(usize, &mut [F], &[F]),
    ) -> Result<()> {
        let [left, right] = logs;
        let row = |i: usize, row: &mut Vec<F>| {
            self.steps.log_row(edge, i, row);
            // In double precision, because the terms may be far larger than their sum.
            for (x, w) in row.iter_mut().zip(right) {
                *x = F::from_f64(x.to_f64() + left[i].to_f64() + w.to_f64());
            }
        };
        let mut values = vec![F::ZERO; right.len()];
        let totals: Vec<f64> = (0..left.len())
            .map(|i| {
                clock.check()?;
                row(i, &mut values);
                Ok(F::log_sum_exp(&values))
            })
            .collect::<Result<_>>()?;
        let total = log_sum_exp(&totals);
        if total == f64::NEG_INFINITY {
            return Ok(());
        }
        let mut scores = vec![F::ZERO; right.len()];
        for i in (0..left.len()).filter(|&i| totals[i] > f64::NEG_INFINITY) {
            clock.check()?;
            row(i, &mut values);
            values.iter_mut().for_each(|x| *x = F::from_f64(x.to_f64() - total));
            F::exp_in_place(&mut values);
            self.entries.fill(edge, Index::Range(i..i + 1), Index::Range(0..right.len()), &mut scores);
            visit(i, &mut values, &scores);
        }
        Ok(())
    }
}

/// The marginals of an edge: exponentials and their total, or logarithms if the total is too small.
enum Pair<F> {
    Linear([Vec<F>; 2], f64),
    Logs([Vec<F>; 2]),
}
