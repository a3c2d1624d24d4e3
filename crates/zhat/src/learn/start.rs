//! Initial parameters of a fit.
//!
//! The spanning forest with maximum mutual information among the interacting pairs has maximum-likelihood
//! parameters in closed form: θ_v = ln μ̂_v and θ_vw = ln μ̂_vw − ln μ̂_v − ln μ̂_w, with Z = 1. Every method
//! that is exact on forests is exact at this point, and the fit only has to add the effect of the other
//! pairs. Half a count is added to every cell, so that parameters are finite; without it, and without other
//! pairs, these parameters are the solution itself.

use serde::{Deserialize, Serialize};

use super::structure::forest;
use crate::model::FactorGraph;

/// Half a count.
pub(super) const EXTRA: f64 = 0.5;

/// The initial parameters of a fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// The closed form for the spanning forest with maximum mutual information.
    #[default]
    Forest,
    /// All parameters zero.
    Zero,
}

/// The parameters of the forest, for a graph with tables over one or two variables; `empirical` holds the
/// marginals of `rows` rows, concatenated. Also returns whether the forest contains all pairs.
pub(super) fn forest_parameters(
    graph: &FactorGraph,
    empirical: &[f64],
    rows: f64,
    extra: f64,
) -> (Vec<f64>, bool) {
    let mut tables: Vec<(Vec<usize>, Vec<f64>)> = Vec::with_capacity(graph.factor_count());
    let mut begin = 0;
    for factor in graph.factors() {
        let cells = factor.log_values.len();
        let own = &empirical[begin..begin + cells];
        let smooth = |p: &f64| (rows * p + extra) / (rows + extra * cells as f64);
        tables.push((factor.scope.to_vec(), own.iter().map(smooth).collect()));
        begin += cells;
    }
    let mut pairs: Vec<(f64, usize)> = Vec::new();
    for (place, (scope, p)) in tables.iter().enumerate() {
        if let [_, w] = scope[..] {
            let (rows, columns) = sides(p, graph.cardinalities()[w]);
            pairs.push((information(p, &rows, &columns), place));
        }
    }
    pairs.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let ends = |&(_, place): &(f64, usize)| (tables[place].0[0], tables[place].0[1]);
    let kept = forest(graph.variable_count(), pairs.iter().map(ends));
    let mut parameters: Vec<Vec<f64>> = tables.iter().map(|(_, p)| vec![0.0; p.len()]).collect();
    // The unary term of a variable goes into its own table, or else into the first pair of the forest that
    // contains it.
    let mut told = vec![false; graph.variable_count()];
    for ((scope, p), own) in tables.iter().zip(&mut parameters) {
        if let [v] = scope[..]
            && !told[v]
        {
            told[v] = true;
            own.iter_mut().zip(p).for_each(|(x, p)| *x = p.ln());
        }
    }
    for (&(_, place), _) in pairs.iter().zip(&kept).filter(|(_, kept)| **kept) {
        let (scope, p) = &tables[place];
        let (v, w) = (scope[0], scope[1]);
        let states = graph.cardinalities()[w];
        let (rows, columns) = sides(p, states);
        for (entry, (x, p)) in parameters[place].iter_mut().zip(p).enumerate() {
            *x = p.ln();
            for (variable, p) in [(v, rows[entry / states]), (w, columns[entry % states])] {
                // A state that never occurs is in no pair that occurs.
                if told[variable] && p > 0.0 {
                    *x -= p.ln();
                }
            }
        }
        (told[v], told[w]) = (true, true);
    }
    (parameters.concat(), kept.into_iter().all(|kept| kept))
}

/// The two marginals of a table.
fn sides(p: &[f64], states: usize) -> (Vec<f64>, Vec<f64>) {
    let rows = p.chunks(states).map(|row| row.iter().sum()).collect();
    let columns = (0..states).map(|s| p.iter().skip(s).step_by(states).sum()).collect();
    (rows, columns)
}

/// Σ p ln(p / (row · column)).
fn information(p: &[f64], rows: &[f64], columns: &[f64]) -> f64 {
    let term = |(entry, p): (usize, &f64)| {
        let apart = rows[entry / columns.len()] * columns[entry % columns.len()];
        if *p > 0.0 { p * (p / apart).ln() } else { 0.0 }
    };
    p.iter().enumerate().map(term).sum()
}
