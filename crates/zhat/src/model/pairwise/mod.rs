//! Pairwise graphs whose variables all have the same, large number of states.
//!
//! V variables of N states each, E edges between them, and
//!
//!   score(x) = Σᵥ node(v, xᵥ) + Σₑ interactionₑ(xᵢ, xⱼ) for e = (i, j),
//!
//! where all terms are log scores and −∞ is allowed. The interactions have the forms of a chain's
//! transitions: one table for all edges, one table per edge, or products of embeddings, whose N×N table is
//! never formed. A factor graph stores every table in full; this model does not, so N may be 10⁵.

pub(in crate::model) mod any;
pub(in crate::model) mod generate;

pub use any::{PairwiseGradient, VariableMarginals};

use super::chain::{LARGEST_TOTAL, check_scores};
use super::evidence::{Evidence, variables};
use super::factor_graph::check_moderate;
use super::{FactorGraph, Transitions, Values};
use crate::error::{Error, Result};
use crate::numeric::Real;

/// Variables with many states and pairwise interactions.
///
/// ```
/// use zhat::model::{PairwiseGraph, Transitions};
/// // A triangle of variables of 2 states that like to agree.
/// let agree = Transitions::Shared(vec![1.0, 0.0, 0.0, 1.0].into());
/// let graph = PairwiseGraph::new(2, vec![0.0; 6].into(), vec![(0, 1), (1, 2), (2, 0)], agree)?;
/// assert_eq!((graph.variables(), graph.states(), graph.is_forest()), (3, 2, false));
/// assert_eq!(graph.score(&[1, 1, 1]), 3.0);
/// # Ok::<(), zhat::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct PairwiseGraph<F: Real = f64> {
    states: usize,
    variables: usize,
    nodes: Values<F>,
    edges: Vec<(usize, usize)>,
    interactions: Transitions<F>,
    forest: bool,
    magnitude: f64,
}

impl<F: Real> PairwiseGraph<F> {
    /// A graph of variables of `states` states.
    ///
    /// `nodes` are V×N. The rows of the table of edge e are the states of `edges[e].0`, the columns those of
    /// `edges[e].1`; with [`Transitions::PerStep`], edge e has table e. Nothing is copied.
    ///
    /// # Errors
    /// If an array has the wrong length, an edge does not join two different variables, a score is NaN or +∞,
    /// an embedding is not finite, a sum of scores could overflow, or the interactions are low-rank, sparse or per
    /// sequence.
    pub fn new(
        states: usize,
        nodes: Values<F>,
        edges: Vec<(usize, usize)>,
        interactions: Transitions<F>,
    ) -> Result<Self> {
        if states == 0 || nodes.is_empty() || !nodes.len().is_multiple_of(states) {
            let message = format!("nodes: {} numbers are not V × N for {states} states", nodes.len());
            return Err(Error::Model(message));
        }
        if matches!(
            interactions,
            Transitions::LowRank { .. } | Transitions::Sparse { .. } | Transitions::PerSequence(_)
        ) {
            let form = interactions.form();
            let message =
                format!("interactions: the {form} form is for chains; expected tables or embeddings");
            return Err(Error::Model(message));
        }
        let variables = nodes.len() / states;
        for (e, &(i, j)) in edges.iter().enumerate() {
            if i >= variables || j >= variables || i == j {
                let message = format!(
                    "edges: edge {e} leads from {i} to {j}, expected two different variables below {variables}"
                );
                return Err(Error::Model(message));
            }
        }
        let node = check_scores("nodes", &nodes, 0..nodes.len())?;
        let interaction = interactions.check(states, edges.len() + 1, &[]).map_err(|error| match error {
            // The checks are those of a chain.
            Error::Model(message) => Error::Model(message.replace("transitions: ", "interactions: ")),
            error => error,
        })?;
        let magnitude = variables as f64 * node + edges.len() as f64 * interaction;
        let mut degrees = vec![0usize; variables];
        edges.iter().for_each(|&(i, j)| [i, j].into_iter().for_each(|v| degrees[v] += 1));
        let degree = degrees.iter().copied().max().unwrap_or(0) as f64;
        // The scores at one variable must fit the precision F, with room for a few such terms.
        if magnitude > LARGEST_TOTAL || node + (degree + 1.0) * interaction > F::MAX.to_f64() / 64.0 {
            return Err(Error::Model(
                "the scores are too large: their sum would overflow; use -inf for what is impossible".into(),
            ));
        }
        let forest = is_forest(variables, &edges);
        Ok(PairwiseGraph { states, variables, nodes, edges, interactions, forest, magnitude })
    }

    /// V, the number of variables.
    pub fn variables(&self) -> usize {
        self.variables
    }

    /// N, the number of states of every variable.
    pub fn states(&self) -> usize {
        self.states
    }

    /// The node scores, V×N.
    pub fn nodes(&self) -> &[F] {
        &self.nodes
    }

    /// The node scores of variable v.
    pub fn node(&self, v: usize) -> &[F] {
        &self.nodes[v * self.states..(v + 1) * self.states]
    }

    /// The edges.
    pub fn edges(&self) -> &[(usize, usize)] {
        &self.edges
    }

    /// The interactions.
    pub fn interactions(&self) -> &Transitions<F> {
        &self.interactions
    }

    /// True if the graph has no cycle; message passing is then exact.
    pub fn is_forest(&self) -> bool {
        self.forest
    }

    /// An upper bound on |score| of any possible state.
    pub fn magnitude(&self) -> f64 {
        self.magnitude
    }

    /// The score of a state of all variables.
    pub fn score(&self, state: &[usize]) -> f64 {
        let nodes: f64 = state.iter().enumerate().map(|(v, &x)| self.node(v)[x].to_f64()).sum();
        let edge = |(e, &(i, j)): (usize, &(usize, usize))| {
            self.interactions.score(self.states, e, state[i], state[j])
        };
        nodes + self.edges.iter().enumerate().map(edge).sum::<f64>()
    }

    /// The memory of the scores and edges, in bytes.
    pub fn bytes(&self) -> usize {
        (self.nodes.len() + self.interactions.len()) * size_of::<F>() + size_of_val(&*self.edges)
    }

    /// The model conditioned on some variables: their other states get weight zero.
    ///
    /// # Errors
    /// If a variable or state is out of range.
    pub fn observe(&self, evidence: &[(usize, usize)]) -> Result<Self> {
        let state = |&(variable, state): &(usize, usize)| Evidence::State { variable, state };
        self.condition_on(&evidence.iter().map(state).collect::<Vec<_>>())
    }

    /// The model conditioned on states, sets of states and likelihoods of variables: the node scores of excluded
    /// states become −∞, and log-likelihoods are added to the others.
    ///
    /// # Errors
    /// As [`PairwiseGraph::observe`]; also for evidence about anything else, an empty set, and likelihoods that
    /// are not one for each state or all 0.
    pub fn condition_on(&self, evidence: &[Evidence]) -> Result<Self> {
        let (mut nodes, states) = (self.nodes.to_vec(), self.states);
        for (v, known) in variables(evidence, PairwiseGraph::KIND)? {
            if v >= self.variables() {
                let message = format!("there is no variable {v}; there are {}", self.variables());
                return Err(Error::argument("evidence", message));
            }
            let no_state = |x| format!("variable {v} has no state {x}; there are {states}");
            known.check(&(0..states), || format!("variable {v}"), no_state)?;
            known.apply(0, &mut nodes[v * states..][..states]);
        }
        PairwiseGraph::new(self.states, nodes.into(), self.edges.clone(), self.interactions.clone())
    }

    /// The model as a factor graph with full tables.
    ///
    /// # Errors
    /// If the tables would have more than 10⁸ values.
    pub fn to_factor_graph(&self) -> Result<FactorGraph> {
        let (n, v) = (self.states, self.variables());
        let values = v as f64 * n as f64 + self.edges.len() as f64 * (n as f64).powi(2);
        check_moderate(values)?;
        let mut graph = FactorGraph::new(vec![n; v])?;
        for v in 0..v {
            let scores: Vec<f64> = self.node(v).iter().map(|x| x.to_f64()).collect();
            graph.add_factor(&[v], &scores)?;
        }
        for (e, &(i, j)) in self.edges.iter().enumerate() {
            let score = |k: usize| self.interactions.score(n, e, k / n, k % n);
            graph.add_factor(&[i, j], &(0..n * n).map(score).collect::<Vec<f64>>())?;
        }
        Ok(graph)
    }
}

/// True if the graph has no cycle.
fn is_forest(variables: usize, edges: &[(usize, usize)]) -> bool {
    let mut leader: Vec<usize> = (0..variables).collect();
    edges.iter().all(|&(i, j)| {
        let [a, b] = [i, j].map(|mut v| {
            while leader[v] != v {
                leader[v] = leader[leader[v]];
                v = leader[v];
            }
            v
        });
        leader[a] = b;
        a != b
    })
}
