//! Proposal distributions.

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::method::exact::Ancestral;
use crate::method::exact::prepare::order_within;
use crate::model::FactorGraph;
use crate::random::Stream;
use crate::run::Clock;

/// The distribution to sample from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ImportanceProposal {
    /// The product of the factors on a spanning tree of the strongest factors, sampled exactly.
    #[default]
    Tree,
    /// The uniform distribution over the states that are not ruled out individually.
    Uniform,
}

/// A proposal prepared for one model. It draws states x with log(exp score(x) / q(x)).
pub(crate) struct Sampler<'g> {
    graph: &'g FactorGraph,
    /// Samples from the tree; `None` for uniform sampling.
    tree: Option<Ancestral>,
    /// Log of the normaliser of the proposal.
    log_normaliser: f64,
    /// The factors that are not part of the proposal.
    residual: Vec<usize>,
}

impl<'g> Sampler<'g> {
    /// Prepares `proposal` for a graph whose factors all have a scope.
    pub fn new(proposal: ImportanceProposal, graph: &'g FactorGraph, clock: &Clock<'_>) -> Result<Self> {
        let all = || (0..graph.factor_count()).collect();
        let uniform = |graph: &'g FactorGraph| Sampler {
            graph,
            tree: None,
            log_normaliser: graph.log_state_count(),
            residual: all(),
        };
        if proposal == ImportanceProposal::Uniform {
            return Ok(uniform(graph));
        }
        let (inside, residual) = spanning_tree(graph);
        let mut sub = FactorGraph::new(graph.cardinalities().to_vec())?;
        for &f in &inside {
            let factor = graph.factor(f);
            sub.add_factor(factor.scope, factor.log_values)?;
        }
        // A tree of factors has width arity − 1, so its tables are no larger than those of the model.
        let order = order_within(&sub, clock.budget(), &|| clock.must_stop());
        clock.check()?;
        let Ok(order) = order else {
            return Ok(uniform(graph));
        };
        let (tree, log_normaliser) = Ancestral::new(&sub, order, clock)?;
        if log_normaliser == f64::NEG_INFINITY {
            return Err(graph.zero_error());
        }
        Ok(Sampler { graph, tree: Some(tree), log_normaliser, residual })
    }

    /// Draws a state and returns log(exp score / q), −∞ if the model forbids the state.
    pub fn draw(&self, random: &mut Stream, state: &mut [usize]) -> f64 {
        match &self.tree {
            Some(tree) => tree.draw(random, state),
            None => {
                let cardinalities = self.graph.cardinalities();
                state.iter_mut().zip(cardinalities).for_each(|(s, &states)| *s = random.below(states));
            }
        }
        let entry = |&f: &usize| {
            let factor = self.graph.factor(f);
            factor.log_values[self.graph.entry(factor.scope, state)]
        };
        self.log_normaliser + self.residual.iter().map(entry).sum::<f64>()
    }
}

/// Splits the factors into a maximal acyclic set, strongest factors first (Kruskal), and the rest.
///
/// The strength of a factor is the spread of its values; factors with zeros are strongest.
fn spanning_tree(graph: &FactorGraph) -> (Vec<usize>, Vec<usize>) {
    let spread = |f: usize| {
        let values = graph.factor(f).log_values;
        let (low, high) =
            values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), &x| (l.min(x), h.max(x)));
        if graph.factor(f).scope.len() == 1 { f64::INFINITY } else { high - low }
    };
    acyclic(graph, spread)
}

/// Like [`spanning_tree`], for any measure of strength.
pub(crate) fn acyclic(graph: &FactorGraph, strength: impl Fn(usize) -> f64) -> (Vec<usize>, Vec<usize>) {
    let mut candidates: Vec<(f64, usize)> = (0..graph.factor_count()).map(|f| (strength(f), f)).collect();
    candidates.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut component: Vec<usize> = (0..graph.variable_count()).collect();
    let (mut inside, mut residual) = (Vec::new(), Vec::new());
    for (_, f) in candidates {
        let scope = graph.factor(f).scope;
        let mut roots: Vec<usize> = scope.iter().map(|&v| find(&mut component, v)).collect();
        roots.sort_unstable();
        if roots.windows(2).any(|pair| pair[0] == pair[1]) {
            residual.push(f);
        } else {
            roots.iter().skip(1).for_each(|&root| component[root] = roots[0]);
            inside.push(f);
        }
    }
    inside.sort_unstable();
    residual.sort_unstable();
    (inside, residual)
}

/// The representative of the component of `v`, with path halving.
fn find(component: &mut [usize], mut v: usize) -> usize {
    while component[v] != v {
        component[v] = component[component[v]];
        v = component[v];
    }
    v
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::generate::{self, Grid};

    #[test]
    fn a_tree_is_its_own_spanning_tree() {
        let tree = generate::tree(30, 3, 1.0, 2).unwrap();
        assert!(spanning_tree(&tree).1.is_empty());
    }

    #[test]
    fn a_grid_keeps_all_unaries_and_a_tree_of_its_edges() {
        let grid = generate::ising(Grid { rows: 4, columns: 5, torus: false }, 1.0, 1.0, false, 0).unwrap();
        let (inside, residual) = spanning_tree(&grid);
        assert_eq!((inside.len(), residual.len()), (20 + 19, 31 - 19));
    }
}
