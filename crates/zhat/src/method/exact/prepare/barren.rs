//! Barren variables: variables that can be removed without changing log Z.
//!
//! Let S be the variables that occur in factor f only. If Σ_{x_S} exp θ_f is the same for all states of the
//! other variables of f, it is a constant factor of Z, and f and S can be removed. This may leave a variable
//! in a single other factor, so the step is repeated until nothing changes; the result does not depend on the
//! order. In a Bayesian network f is the table of an unobserved leaf, whose rows sum to one, and in the end
//! all variables without observed descendants are removed.
//!
//! Elimination computes the same sums, but in an order chosen for a graph in which f still connects its
//! variables. Other queries involve all variables, so barren variables are removed for log Z only.
//!
//! Cost: every value is read once, and the values of a factor once more each time a variable is left in that
//! factor alone. Sums are considered equal if they differ by at most 2u·Σ_{v in S} (states of v + 5) times
//! (1 + their magnitude), u = 2⁻⁵³. Their midpoint is used, so the error is at most half of that plus the
//! rounding error of a sum. This is less than the rounding allowance for eliminating S.
//!
//! Reference: R. D. Shachter, *Evaluating influence diagrams*, Operations Research 34 (1986).

use super::order::Stop;
use crate::model::{FactorGraph, table};
use crate::numeric::CompensatedSum;

/// The parts of a graph that can be removed.
pub(super) struct Barren {
    /// For each variable and for each factor, whether it can be removed.
    pub variables: Vec<bool>,
    pub factors: Vec<bool>,
    /// Contribution of the removed parts to log Z.
    pub constant: f64,
}

/// The number of remaining factors that contain a variable, and the sum of their indices, which identifies
/// the last one.
#[derive(Clone, Copy, Default)]
struct Mentions {
    count: usize,
    sum: usize,
}

impl Barren {
    /// Finds everything that can be removed. If it has to stop, it returns the part found so far.
    pub fn of(graph: &FactorGraph, stop: Stop<'_>) -> Self {
        let mut mentions = vec![Mentions::default(); graph.variable_count()];
        for (f, factor) in graph.factors().enumerate() {
            for &v in factor.scope {
                mentions[v].count += 1;
                mentions[v].sum += f;
            }
        }
        let free = mentions.iter().map(|mentions| mentions.count == 0);
        let mut barren =
            Barren { variables: free.collect(), factors: vec![false; graph.factor_count()], constant: 0.0 };
        let states = barren.variables.iter().zip(graph.cardinalities()).filter(|(free, _)| **free);
        let mut constant: CompensatedSum = states.map(|(_, &states)| (states as f64).ln()).collect();
        let mut queue: Vec<usize> = (0..graph.factor_count()).rev().collect();
        let mut is_queued = vec![true; graph.factor_count()];
        while let Some(f) = queue.pop().filter(|_| !stop()) {
            is_queued[f] = false;
            let scope = graph.factor(f).scope;
            let own: Vec<bool> = scope.iter().map(|&v| mentions[v].count == 1).collect();
            let Some(log_sum) = constant_sum(graph, f, &own) else { continue };
            constant.add(log_sum);
            barren.factors[f] = true;
            for (&v, own) in scope.iter().zip(own) {
                barren.variables[v] = own;
                mentions[v].count -= 1;
                mentions[v].sum -= f;
                let last = mentions[v].sum;
                if mentions[v].count == 1 && !is_queued[last] {
                    is_queued[last] = true;
                    queue.push(last);
                }
            }
        }
        barren.constant = constant.value();
        barren
    }
}

/// log Σ exp θ_f over the axes marked `own`, if it is the same for all states of the other variables. If no
/// axis is marked, the entries must be identical.
fn constant_sum(graph: &FactorGraph, f: usize, own: &[bool]) -> Option<f64> {
    let factor = graph.factor(f);
    let lengths = graph.lengths(factor.scope);
    let every: Vec<usize> = (0..lengths.iter().copied().max().unwrap_or(1)).collect();
    let keep: Vec<&[usize]> =
        lengths.iter().zip(own).map(|(&length, &own)| &every[..if own { length } else { 1 }]).collect();
    let inner = table::places(&lengths, &keep);
    let share: usize = lengths.iter().zip(own).filter(|(_, own)| **own).map(|(length, _)| length + 5).sum();
    let others = lengths.iter().zip(table::strides(&lengths)).zip(own).filter(|(_, own)| !**own);
    let (lengths, strides): (Vec<usize>, Vec<usize>) = others.map(|(axis, _)| axis).unzip();
    let mut digits = vec![0; lengths.len()];
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    loop {
        let base: usize = digits.iter().zip(&strides).map(|(digit, stride)| digit * stride).sum();
        let log_sum = log_sum_exp(inner.iter().map(|place| factor.log_values[base + place]))?;
        (low, high) = (low.min(log_sum), high.max(log_sum));
        if high - low > f64::EPSILON * share as f64 * (1.0 + high.abs()) {
            return None;
        }
        if !table::advance(&mut digits, &lengths) {
            return Some(low + (high - low) / 2.0);
        }
    }
}

/// log Σ exp with an error that does not grow with the number of terms; `None` if the result is −∞.
fn log_sum_exp(terms: impl Iterator<Item = f64> + Clone) -> Option<f64> {
    let shift = terms.clone().fold(f64::NEG_INFINITY, f64::max);
    let sum: CompensatedSum = terms.map(|x| (x - shift).exp()).collect();
    (shift > f64::NEG_INFINITY).then(|| shift + sum.value().ln())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::generate;

    fn log(weights: &[f64]) -> Vec<f64> {
        weights.iter().map(|weight| weight.ln()).collect()
    }

    fn left(barren: &Barren) -> Vec<usize> {
        (0..barren.variables.len()).filter(|&v| !barren.variables[v]).collect()
    }

    #[test]
    fn all_without_an_observed_descendant_goes() {
        // 0 → 1 → 2 → 3 and 0 → 4; variable 1 is observed through a table that is not part of the network.
        let mut graph = FactorGraph::new(vec![2, 2, 3, 2, 2]).unwrap();
        graph.add_factor(&[0], &log(&[0.3, 0.7])).unwrap();
        graph.add_factor(&[0, 1], &log(&[0.1, 0.9, 0.6, 0.4])).unwrap();
        graph.add_factor(&[1, 2], &log(&[0.2, 0.3, 0.5, 0.1, 0.1, 0.8])).unwrap();
        graph.add_factor(&[3, 2], &log(&[0.9, 0.35, 0.2, 0.1, 0.65, 0.8])).unwrap();
        graph.add_factor(&[0, 4], &log(&[0.25, 0.75, 1.0, 0.0])).unwrap();
        let barren = Barren::of(&graph, &|| false);
        assert_eq!((left(&barren), barren.factors), (vec![], vec![true; 5]));
        assert!(barren.constant.abs() < 1e-15);
        graph.add_factor(&[1], &[0.5, 2.0]).unwrap();
        let barren = Barren::of(&graph, &|| false);
        assert_eq!(left(&barren), [0, 1]);
        assert_eq!(barren.factors, [false, false, true, true, true, false]);
    }

    #[test]
    fn sums_that_differ_by_more_than_rounding_stay() {
        for (gap, stays) in [(0.0, false), (1e-16, false), (1e-12, true), (1e-3, true)] {
            let mut graph = FactorGraph::new(vec![2, 2]).unwrap();
            graph.add_factor(&[0, 1], &log(&[0.3, 0.7, 0.6, 0.4 + gap])).unwrap();
            graph.add_factor(&[0], &[0.1, 0.2]).unwrap();
            graph.add_factor(&[0], &[0.3, 0.2]).unwrap();
            assert_eq!(left(&Barren::of(&graph, &|| false)).contains(&1), stays, "{gap}");
        }
        // One row has zero weight: the sums are 1, 1 and 0.
        let mut graph = FactorGraph::new(vec![3, 2]).unwrap();
        graph.add_factor(&[0, 1], &log(&[0.5, 0.5, 0.25, 0.75, 0.0, 0.0])).unwrap();
        graph.add_factor(&[0], &[0.1, 0.2, 0.3]).unwrap();
        graph.add_factor(&[0], &[0.1, 0.2, 0.3]).unwrap();
        assert_eq!(left(&Barren::of(&graph, &|| false)), [0, 1]);
    }

    #[test]
    fn variables_without_factors_and_parts_of_one_factor_go() {
        let mut graph = FactorGraph::new(vec![3, 2, 2]).unwrap();
        graph.add_factor(&[2, 1], &[0.0, 1.0, 2.0, f64::NEG_INFINITY]).unwrap();
        let barren = Barren::of(&graph, &|| false);
        assert!(left(&barren).is_empty());
        let want = 3f64.ln() + (1.0 + 1f64.exp() + 2f64.exp()).ln();
        assert!((barren.constant - want).abs() < 1e-15);
    }

    #[test]
    fn nothing_goes_from_a_grid() {
        let grid = generate::Grid { rows: 5, columns: 5, torus: false };
        let barren = Barren::of(&generate::ising(grid, 1.0, 1.0, false, 1).unwrap(), &|| false);
        assert_eq!((left(&barren).len(), barren.constant), (25, 0.0));
    }
}
