//! Relaxed samples: marginals of the model with scores perturbed by Gumbel noise.
//!
//! x̃ᵥ = marginal of v under exp((score(x) + Σᵥ gᵥ(xᵥ))/τ) with independent Gumbel noise g
//! (perturb-and-softmax, Fu, Cunningham & Lapata 2022, after Eq. 8). As τ → 0 it converges to the best state
//! of the perturbed scores: an approximate sample, which is exact without edges. Only the chosen states are
//! used, so a relaxed sample is sparse: O(V·K) numbers.

use super::method::{FEW, RandomizedMessages};
use super::network::Network;
use crate::error::{Error, Result};
use crate::method::dynamic::randomized::Chosen;
use crate::model::{PairwiseGraph, Transitions};
use crate::numeric::Real;
use crate::query::Forecasts;
use crate::query::Query;
use crate::random::Streams;
use crate::run::Run;

/// A relaxed state of all variables: for each variable, some states with values that sum to one.
#[derive(Clone, Debug, PartialEq)]
pub struct RelaxedStates<F> {
    /// The states of each variable that have a value.
    pub states: Vec<Vec<u32>>,
    /// Their values.
    pub values: Vec<Vec<F>>,
}

impl RandomizedMessages {
    /// Draws `count` relaxed samples at a positive temperature, using the replicates' choices of states in
    /// turn.
    ///
    /// # Errors
    /// If the temperature is not positive and finite, an option is out of range, no replicate has a positive
    /// estimate, or the run is cancelled or over its memory or time budget.
    pub fn relaxed_samples<F: Real>(
        &self,
        graph: &PairwiseGraph<F>,
        count: usize,
        temperature: f64,
        run: &Run,
    ) -> Result<Vec<RelaxedStates<F>>> {
        if !(temperature > 0.0 && temperature.is_finite()) {
            return Err(Error::argument("temperature", format!("{temperature} is not a positive number")));
        }
        let clock = run.start(FEW);
        // A state and its value, for every chosen state.
        let each = (4 + size_of::<F>()) as f64 * self.states.of(graph.states()) as f64 + 64.0;
        let samples = count as f64 * graph.variables() as f64 * each;
        run.require_memory(FEW, samples + self.forecast(graph, Query::LogPartition, run).bytes)?;
        let streams = Streams::new(run.seed(), "randomized messages relaxed");
        run.install(|| {
            let settled = self.settle(graph, run, &clock)?;
            let possible: Vec<_> =
                settled.iter().filter(|one| one.log_partition > f64::NEG_INFINITY).collect();
            if possible.is_empty() {
                return Err(Error::NoAnswer(
                    "a variable has no chosen state left; more states may help".into(),
                ));
            }
            let cooled = cool(graph, temperature)?;
            let sample = |s: usize| {
                let chosen = possible[s % possible.len()].chosen.as_deref().unwrap_or_default();
                let mut random = streams.block(s as u64);
                let perturbed: Vec<Chosen> = chosen
                    .iter()
                    .map(|chosen| {
                        let noise = chosen.log_weights.iter().map(|w| (w + random.gumbel()) / temperature);
                        Chosen { states: chosen.states.clone(), log_weights: noise.collect() }
                    })
                    .collect();
                let network = Network::restricted(&cooled, &perturbed);
                let (messages, _) = network.settle(self.damping, self.tolerance, self.iterations, &clock)?;
                let values = (0..graph.variables()).map(|v| network.marginal(&messages, v)).collect();
                Ok(RelaxedStates { states: perturbed.iter().map(|c| c.states.clone()).collect(), values })
            };
            (0..count).map(sample).collect()
        })
    }
}

/// The model with all scores divided by the temperature.
fn cool<F: Real>(graph: &PairwiseGraph<F>, temperature: f64) -> Result<PairwiseGraph<F>> {
    let divided =
        |values: &[F], by: f64| -> Vec<F> { values.iter().map(|x| F::from_f64(x.to_f64() / by)).collect() };
    let interactions = match graph.interactions() {
        Transitions::Shared(values) => Transitions::Shared(divided(values, temperature).into()),
        Transitions::PerStep(values) => Transitions::PerStep(divided(values, temperature).into()),
        // Pairwise graphs refuse these forms when they are built.
        Transitions::LowRank { .. } | Transitions::Sparse { .. } | Transitions::PerSequence(_) => {
            graph.interactions().clone()
        }
        Transitions::Factored { left, right } => {
            let right = right.as_ref().unwrap_or(left);
            Transitions::Factored { left: divided(left, temperature).into(), right: Some(right.clone()) }
        }
    };
    let nodes = divided(graph.nodes(), temperature).into();
    PairwiseGraph::new(graph.states(), nodes, graph.edges().to_vec(), interactions)
}
