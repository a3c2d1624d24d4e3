//! Lower bound from exactly solved cases: Z ≥ Σ_c Z(c) over any distinct states c of some variables. Zeros do
//! not invalidate it.
//!
//! The variables, the cutset, are chosen such that the rest can be eliminated exactly with tables no larger
//! than the mini-buckets. The states c are those found to be likely in samples from the beliefs of the upper
//! bound.

use std::collections::HashMap;

use crate::numeric::parallel::prelude::*;

use super::plan::Plan;
use super::proposal::{Proposal, Scratch};
use crate::method::exact::log_partition_given;
use crate::model::FactorGraph;
use crate::numeric;
use crate::random::Streams;
use crate::run::Clock;

/// Number of samples for finding likely cases.
const DRAWS: usize = 4096;
/// Maximum total size of the cases found, in numbers.
const NUMBERS: usize = 1 << 20;
/// Number of samples that share one random stream.
const BLOCK: usize = 64;

/// The cutset, and the cost of eliminating the rest.
pub(super) struct Cutset {
    /// Indices of the variables in the graph.
    pub variables: Vec<usize>,
    /// Total entries of the tables of one case.
    pub entries: f64,
}

impl Cutset {
    /// Follows the order of the plan. If a whole bucket would be too large, the variable in the largest
    /// number of split mini-buckets is fixed.
    pub fn new(plan: &Plan, graph: &FactorGraph) -> Self {
        let n = plan.variables.len();
        let log2_states: Vec<f64> = plan.states.iter().map(|&states| (states as f64).log2()).collect();
        let limit = plan.nodes.iter().map(|node| {
            log2_states[node.variable] + node.others.iter().map(|&u| log2_states[u]).sum::<f64>()
        });
        let limit = limit.fold(0.0, f64::max) + 1e-9;
        let mut often = vec![0usize; n];
        for group in plan.groups.iter().filter(|group| group.nodes.len() > 1) {
            for node in &plan.nodes[group.nodes.clone()] {
                node.others.iter().chain([&node.variable]).for_each(|&u| often[u] += 1);
            }
        }
        let mut fixed = vec![false; n];
        let mut met: Vec<Vec<usize>> = vec![Vec::new(); n];
        for scope in plan.scopes.iter().filter(|scope| !scope.is_empty()) {
            met[scope[0]].extend(scope);
        }
        let mut entries = 0.0;
        for i in 0..n {
            let mut clique = std::mem::take(&mut met[i]);
            clique.sort_unstable();
            clique.dedup();
            clique.retain(|&u| !fixed[u]);
            let mut size: f64 = clique.iter().map(|&u| log2_states[u]).sum();
            while size > limit {
                // Among ties, the variable that is eliminated last.
                let Some(&u) = clique.iter().max_by_key(|&&u| (often[u], u)) else { break };
                fixed[u] = true;
                clique.retain(|&w| w != u);
                size -= log2_states[u];
            }
            entries += size.exp2();
            clique.retain(|&u| u != i);
            if let Some(&next) = clique.first() {
                met[next].extend(clique);
            }
        }
        debug_assert_eq!(graph.variable_count(), n);
        let variables = (0..n).filter(|&i| fixed[i]).map(|i| plan.variables[i]).collect();
        Cutset { variables, entries }
    }

    /// Memory for solving one case, in bytes.
    pub fn case_bytes(&self, graph: &FactorGraph) -> f64 {
        graph.preparation_bytes() + 4.0 * graph.bytes() as f64 + 8.0 * self.entries + 2e5
    }

    /// log Σ_c Z(c) over at most `count` likely cases; −∞ if none was found.
    pub fn bound(
        &self,
        plan: &Plan,
        graph: &FactorGraph,
        proposal: &Proposal<'_>,
        count: usize,
        clock: &Clock<'_>,
    ) -> f64 {
        let (n, clock) = (graph.variable_count(), &clock.quiet());
        let draws = (NUMBERS / (self.variables.len() + 1)).clamp(BLOCK, DRAWS);
        let streams = Streams::new(0, "mini-bucket lower bound");
        let block = |b: usize| {
            let (mut random, mut scratch) = (streams.block(b as u64), Scratch::default());
            let (mut state, mut found) = (vec![0; n], Vec::new());
            for _ in 0..BLOCK {
                if clock.must_stop() {
                    break;
                }
                let weight = proposal.draw(&mut random, &mut state, &mut scratch);
                if weight > f64::NEG_INFINITY {
                    let case: Vec<u32> = self.variables.iter().map(|&v| state[v] as u32).collect();
                    found.push((case, weight));
                }
            }
            found
        };
        let found: Vec<Vec<(Vec<u32>, f64)>> = (0..draws / BLOCK).into_par_iter().map(block).collect();
        // The total weight of the samples of a case measures its importance.
        let mut weights: HashMap<Vec<u32>, f64> = HashMap::new();
        for (case, weight) in found.into_iter().flatten() {
            let sum = weights.entry(case).or_insert(f64::NEG_INFINITY);
            *sum = numeric::log_sum_exp(&[*sum, weight]);
        }
        let mut cases: Vec<(Vec<u32>, f64)> = weights.into_iter().collect();
        cases.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        cases.truncate(count);
        let solve = |(case, _): &(Vec<u32>, f64)| {
            // A case that is not finished in time contributes nothing.
            if clock.check().is_err() {
                return f64::NEG_INFINITY;
            }
            let evidence: Vec<(usize, usize)> =
                self.variables.iter().zip(case).map(|(&v, &s)| (v, s as usize)).collect();
            log_partition_given(graph, &evidence, &plan.variables, clock).unwrap_or(f64::NEG_INFINITY)
        };
        let logs: Vec<f64> = cases.par_iter().map(solve).collect();
        numeric::log_sum_exp(&logs)
    }
}
