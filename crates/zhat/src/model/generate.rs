//! Random models for tests and experiments; the same seed gives the same model.

pub use super::chain::generate::*;
pub use super::chain::reference::*;
pub use super::dependency::generate::*;
pub use super::grammar::generate::*;
pub use super::hypertree::generate::*;
pub use super::mixed::generate::*;
pub use super::pairwise::generate::*;
pub use super::sequence_mrf::generate::*;
pub use super::space::generate::*;

use crate::error::{Error, Result};
use crate::model::{FactorGraph, NetworkType};
use crate::platform;
use crate::random::{Stream, Streams};
use crate::units;

/// A rectangular grid of variables.
#[derive(Clone, Copy, Debug)]
pub struct Grid {
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub columns: usize,
    /// Whether opposite sides are connected.
    pub torus: bool,
}

impl Grid {
    /// The pairs of neighbours, each once.
    pub fn edges(&self) -> Vec<(usize, usize)> {
        let at = |row: usize, column: usize| row * self.columns + column;
        let mut edges = Vec::new();
        for row in 0..self.rows {
            for column in 0..self.columns {
                // Connecting the ends of a line of two would repeat its edge.
                if column + 1 < self.columns {
                    edges.push((at(row, column), at(row, column + 1)));
                } else if self.torus && self.columns > 2 {
                    edges.push((at(row, column), at(row, 0)));
                }
                if row + 1 < self.rows {
                    edges.push((at(row, column), at(row + 1, column)));
                } else if self.torus && self.rows > 2 {
                    edges.push((at(row, column), at(0, column)));
                }
            }
        }
        edges
    }
}

/// Score Σ Jᵢⱼ sᵢ sⱼ + Σ hᵢ sᵢ with s = ±1 on a grid; hᵢ ~ N(0, field²), and Jᵢⱼ ~ N(0, coupling²), or all
/// equal to `coupling` if `uniform`.
///
/// # Errors
/// If `coupling` or `field` is not finite, or the model does not fit in memory.
pub fn ising(grid: Grid, coupling: f64, field: f64, uniform: bool, seed: u64) -> Result<FactorGraph> {
    let mut random = Streams::new(seed, "generate ising").block(0);
    affordable(12.0 * grid.rows as f64 * grid.columns as f64)?;
    let mut graph = FactorGraph::new(vec![2; grid.rows * grid.columns])?;
    for v in 0..graph.variable_count() {
        let h = field * random.normal();
        graph.add_factor(&[v], &[-h, h])?;
    }
    for (u, v) in grid.edges() {
        let j = if uniform { coupling } else { coupling * random.normal() };
        graph.add_factor(&[u, v], &[j, -j, -j, j])?;
    }
    Ok(graph)
}

/// Score Σ Jᵢⱼ·1\[xᵢ = xⱼ\] + Σ hᵢ(xᵢ) with `states` states on a grid; fields and couplings as for [`ising`].
///
/// # Errors
/// If `states` is 0, `coupling` or `field` is not finite, or the model does not fit in memory.
pub fn potts(
    grid: Grid,
    states: usize,
    coupling: f64,
    field: f64,
    uniform: bool,
    seed: u64,
) -> Result<FactorGraph> {
    let mut random = Streams::new(seed, "generate potts").block(0);
    affordable((2.0 + 2.0 * (states as f64).powi(2)) * grid.rows as f64 * grid.columns as f64)?;
    let mut graph = FactorGraph::new(vec![states; grid.rows * grid.columns])?;
    for v in 0..graph.variable_count() {
        graph.add_factor(&[v], &normals(&mut random, states, field))?;
    }
    for (u, v) in grid.edges() {
        let j = if uniform { coupling } else { coupling * random.normal() };
        let entry = |i| if i / states == i % states { j } else { 0.0 };
        let values: Vec<f64> = (0..states * states).map(entry).collect();
        graph.add_factor(&[u, v], &values)?;
    }
    Ok(graph)
}

/// A random recursive tree: every variable is connected to an earlier one by a table of N(0, strength²)
/// entries.
///
/// # Errors
/// If `states` is 0, `strength` is not finite, or the model does not fit in memory.
pub fn tree(variables: usize, states: usize, strength: f64, seed: u64) -> Result<FactorGraph> {
    affordable((4.0 + (states as f64).powi(2)) * variables as f64)?;
    let mut random = Streams::new(seed, "generate tree").block(0);
    let mut graph = FactorGraph::new(vec![states; variables])?;
    for v in 0..variables {
        graph.add_factor(&[v], &normals(&mut random, states, strength))?;
        if v > 0 {
            let parent = random.below(v);
            graph.add_factor(&[parent, v], &normals(&mut random, states * states, strength))?;
        }
    }
    Ok(graph)
}

/// The shape of a random factor graph.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GraphShape {
    /// The number of variables.
    pub variables: usize,
    /// The number of states of each variable.
    pub states: usize,
    /// The number of factors.
    pub factors: usize,
    /// The number of variables of each factor.
    pub arity: usize,
    /// The standard deviation of the log-values.
    pub strength: f64,
    /// The fraction of log-values that is −∞.
    pub zeros: f64,
}

impl Default for GraphShape {
    fn default() -> Self {
        GraphShape { variables: 10, states: 2, factors: 15, arity: 2, strength: 1.0, zeros: 0.0 }
    }
}

/// A factor graph with random scopes and N(0, strength²) log-values. One hidden state of the whole model
/// keeps a positive weight, whatever the fraction of zeros.
///
/// # Errors
/// If a factor has more variables than the model, `zeros` is no fraction, or the tables do not fit in memory.
pub fn random(shape: &GraphShape, seed: u64) -> Result<FactorGraph> {
    let &GraphShape { variables, states, factors, arity, strength, zeros } = shape;
    if arity > variables {
        return Err(Error::argument("arity", format!("{arity} variables in a factor, but only {variables}")));
    }
    if !(0.0..=1.0).contains(&zeros) {
        return Err(Error::argument("zeros", format!("{zeros} is not a fraction between 0 and 1")));
    }
    let size = (states as f64).powf(arity as f64);
    affordable((size + arity as f64) * factors as f64 + variables as f64)?;
    let mut random = Streams::new(seed, "generate random").block(0);
    let mut graph = FactorGraph::new(vec![states; variables])?;
    let hidden: Vec<usize> = (0..variables).map(|_| random.below(states)).collect();
    for _ in 0..factors {
        let mut scope: Vec<usize> = Vec::with_capacity(arity);
        while scope.len() < arity {
            let v = random.below(variables);
            if !scope.contains(&v) {
                scope.push(v);
            }
        }
        let mut values = normals(&mut random, size as usize, strength);
        let spared = graph.entry(&scope, &hidden);
        for (i, value) in values.iter_mut().enumerate() {
            if random.uniform() < zeros && i != spared {
                *value = f64::NEG_INFINITY;
            }
        }
        graph.add_factor(&scope, &values)?;
    }
    Ok(graph)
}

/// A Bayesian network: each variable has up to `parents` random earlier parents. Each row of its table is
/// uniform on the simplex or, with probability `deterministic`, concentrated on one state.
///
/// # Errors
/// If `states` is 0 or the model does not fit in memory.
pub fn bayes(
    variables: usize,
    states: usize,
    parents: usize,
    deterministic: f64,
    seed: u64,
) -> Result<FactorGraph> {
    let largest = (states as f64).powf(1.0 + parents.min(variables.saturating_sub(1)) as f64);
    affordable((largest + 4.0) * variables as f64)?;
    let mut random = Streams::new(seed, "generate bayes").block(0);
    let mut graph = FactorGraph::new(vec![states; variables])?.with_network_type(NetworkType::Bayes);
    for v in 0..variables {
        let mut earlier: Vec<usize> = (0..v).collect();
        random.shuffle(&mut earlier);
        earlier.truncate(random.below(parents.min(variables) + 1));
        let rows = states.pow(earlier.len() as u32);
        let mut values = Vec::with_capacity(rows * states);
        for _ in 0..rows {
            if random.uniform() < deterministic {
                let certain = random.below(states);
                values.extend((0..states).map(|s| if s == certain { 0.0 } else { f64::NEG_INFINITY }));
            } else {
                // Independent exponential variables divided by their sum are uniform on the simplex.
                let weights: Vec<f64> = (0..states).map(|_| -(1.0 - random.uniform()).ln() + 1e-12).collect();
                let total: f64 = weights.iter().sum();
                values.extend(weights.iter().map(|w| (w / total).ln()));
            }
        }
        earlier.push(v);
        graph.add_factor(&earlier, &values)?;
    }
    Ok(graph)
}

/// Fails if this many numbers would not fit into the available memory.
pub(in crate::model) fn affordable(numbers: f64) -> Result<()> {
    let (bytes, free) = (32.0 * numbers, platform::available_memory() as f64);
    if bytes <= free {
        return Ok(());
    }
    let message = format!("needs {}, and only {} are free", units::bytes(bytes), units::bytes(free));
    Err(Error::argument("model size", message))
}

fn normals(random: &mut Stream, count: usize, scale: f64) -> Vec<f64> {
    (0..count).map(|_| scale * random.normal()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_have_the_right_edges() {
        let count = |rows, columns, torus| Grid { rows, columns, torus }.edges().len();
        assert_eq!(count(3, 4, false), 17);
        assert_eq!(count(3, 4, true), 24);
        assert_eq!(count(2, 2, true), 4);
        assert_eq!(count(1, 5, true), 5);
        assert_eq!(count(1, 1, true), 0);
    }

    #[test]
    fn the_same_seed_gives_the_same_model() {
        assert_eq!(tree(9, 3, 1.0, 4).unwrap(), tree(9, 3, 1.0, 4).unwrap());
        assert_ne!(tree(9, 3, 1.0, 4).unwrap(), tree(9, 3, 1.0, 5).unwrap());
    }

    #[test]
    fn rows_of_a_bayesian_network_sum_to_one() {
        let graph = bayes(8, 3, 2, 0.3, 1).unwrap();
        for factor in graph.factors() {
            for row in factor.log_values.chunks(3) {
                assert!((row.iter().map(|x| x.exp()).sum::<f64>() - 1.0).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn impossible_wishes_are_errors() {
        assert!(random(&GraphShape { variables: 2, factors: 1, arity: 3, ..Default::default() }, 0).is_err());
        assert!(
            random(&GraphShape { variables: 40, states: 10, factors: 1, arity: 40, ..Default::default() }, 0)
                .is_err()
        );
        assert!(
            random(&GraphShape { variables: 4, factors: 1, zeros: 1.5, ..Default::default() }, 0).is_err()
        );
        assert!(bayes(60, 10, 50, 0.0, 0).is_err());
        assert!(ising(Grid { rows: usize::MAX, columns: 2, torus: false }, 1.0, 1.0, false, 0).is_err());
    }
}
