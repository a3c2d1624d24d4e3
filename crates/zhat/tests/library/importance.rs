//! Importance sampling is unbiased: the weights match their definition, and their means converge.

use std::collections::HashMap;

use crate::support::PROPOSALS;
use crate::support::oracle::Oracle;
use crate::support::statistics::{ALARM, bernstein_radius, multinomial_tail};
use zhat::model::generate::{self, GraphShape, Grid};
use zhat::sampling::{ImportanceProposal, ImportanceSampling};
use zhat::{
    Entropy, FactorGraph, FactorMarginals, Law, LogPartition, Marginals, Promise, Run, Sample, Samples,
};

/// Models with cycles and zeros that have few states, all probable enough to be drawn.
fn moderate_models() -> Vec<(String, FactorGraph)> {
    let grid = |rows, columns, torus| Grid { rows, columns, torus };
    let mut models = vec![
        (
            "pairwise",
            generate::random(
                &GraphShape { variables: 5, factors: 8, strength: 0.6, ..Default::default() },
                1,
            ),
        ),
        (
            "triples",
            generate::random(
                &GraphShape {
                    variables: 4,
                    states: 3,
                    factors: 5,
                    arity: 3,
                    strength: 0.4,
                    ..Default::default()
                },
                2,
            ),
        ),
        (
            "zeros",
            generate::random(
                &GraphShape {
                    variables: 4,
                    states: 3,
                    factors: 5,
                    strength: 0.5,
                    zeros: 0.25,
                    ..Default::default()
                },
                3,
            ),
        ),
        (
            "many zeros",
            generate::random(
                &GraphShape {
                    variables: 5,
                    factors: 6,
                    arity: 3,
                    strength: 0.5,
                    zeros: 0.4,
                    ..Default::default()
                },
                6,
            ),
        ),
        ("ring", generate::ising(grid(1, 6, true), 0.5, 0.4, false, 5)),
        ("potts", generate::potts(grid(2, 2, false), 3, 0.6, 0.3, false, 6)),
        ("network", generate::bayes(5, 2, 2, 0.2, 7)),
    ];
    let given = generate::random(
        &GraphShape { variables: 6, factors: 9, strength: 0.6, zeros: 0.1, ..Default::default() },
        8,
    )
    .and_then(|graph| graph.condition(&[(2, 1)]));
    models.push(("given", given));
    models.into_iter().map(|(name, model)| (name.to_string(), model.unwrap())).collect()
}

fn log_weights(samples: &Samples) -> &[f64] {
    let Law::Weighted { log_weights } = &samples.law else { panic!("{:?}", samples.law) };
    log_weights
}

/// A model with the exact weights and probabilities of a proposal.
struct Known<'g> {
    oracle: Oracle<'g>,
    partition: f64,
    /// w(x) = exp(score(x)) / q(x), by index of the state; 0 if the model gives x weight zero.
    weights: Vec<f64>,
    index: HashMap<Vec<usize>, usize>,
}

impl<'g> Known<'g> {
    /// Reads w(x) off the draws: it is a function of the state, and every possible state is drawn.
    fn new(graph: &'g FactorGraph, proposal: ImportanceProposal) -> Self {
        let oracle = Oracle::new(graph);
        let index: HashMap<Vec<usize>, usize> =
            oracle.states.iter().enumerate().map(|(i, state)| (state.clone(), i)).collect();
        let method = ImportanceSampling::default().proposal(proposal);
        let samples = method.sample(graph, 50_000, &Run::default().with_seed(1)).unwrap().value;
        let mut weights = vec![None; oracle.states.len()];
        for (state, log_weight) in samples.iter().zip(log_weights(&samples)) {
            let weight = weights[index[state]].get_or_insert(log_weight.exp());
            assert_eq!(*weight, log_weight.exp(), "the weight is a function of the state");
        }
        let impossible = |i: usize| oracle.scores[i] == f64::NEG_INFINITY;
        let weights = weights.into_iter().enumerate();
        let weights =
            weights.map(|(i, w)| w.unwrap_or_else(|| if impossible(i) { 0.0 } else { panic!("not seen") }));
        let weights = weights.collect();
        Known { partition: oracle.log_partition().exp(), oracle, weights, index }
    }

    /// q(x) = exp(score(x)) / w(x); 0 if the model gives x weight zero.
    fn proposal(&self) -> Vec<f64> {
        let q = |(score, weight): (&f64, &f64)| if *weight > 0.0 { score.exp() / weight } else { 0.0 };
        self.oracle.scores.iter().zip(&self.weights).map(q).collect()
    }

    /// The exact mean of w·f, and the radius around it for the mean over n draws.
    fn mean(&self, n: f64, f: impl Fn(&[usize], f64) -> f64) -> (f64, f64) {
        let (mut mean, mut square, mut range) = (0.0, 0.0, 0.0f64);
        for (((state, &score), &weight), q) in
            self.oracle.states.iter().zip(&self.oracle.scores).zip(&self.weights).zip(self.proposal())
        {
            let term = if weight > 0.0 { weight * f(state, score) } else { 0.0 };
            (mean, square, range) = (mean + q * term, square + q * term * term, range.max(term.abs()));
        }
        (mean, bernstein_radius(n, square - mean * mean, range + mean.abs(), ALARM))
    }
}

#[test]
fn weights_are_model_weight_over_proposal_probability() {
    for (name, graph) in moderate_models() {
        for proposal in PROPOSALS {
            let known = Known::new(&graph, proposal);
            let mut q = known.proposal();
            let total: f64 = q.iter().sum();
            // A probability is the exponential of a difference of two logarithms.
            let rounding = 4.0 * known.oracle.allowance();
            assert!(total <= 1.0 + rounding, "{name}, {proposal:?}: Σ q = {total}");
            // The remaining probability belongs to states of weight zero, which share one cell.
            q.push(if total > 1.0 - rounding { 0.0 } else { 1.0 - total });
            let method = ImportanceSampling::default().proposal(proposal);
            let samples = method.sample(&graph, 50_000, &Run::default().with_seed(2)).unwrap().value;
            let mut counts = vec![0; q.len()];
            for (state, log_weight) in samples.iter().zip(log_weights(&samples)) {
                let possible = *log_weight > f64::NEG_INFINITY;
                counts[if possible { known.index[state] } else { q.len() - 1 }] += 1;
            }
            let p = multinomial_tail(&counts, &q);
            assert!(p > ALARM, "{name}, {proposal:?}: p-value at most {p:e}");
        }
    }
}

#[test]
fn estimates_are_unbiased() {
    let base = crate::support::one_thread();
    let seeds = 1000;
    for (name, graph) in moderate_models() {
        for proposal in PROPOSALS {
            let method = ImportanceSampling::default().proposal(proposal).samples(256).replicates(4);
            let known = Known::new(&graph, proposal);
            let estimate =
                |seed| method.log_partition(&graph, &base.clone().with_seed(seed)).unwrap().value.exp();
            let mean = (0..seeds).map(estimate).sum::<f64>() / seeds as f64;
            let (want, radius) = known.mean(256.0 * seeds as f64, |_, _| 1.0);
            assert!((want / known.partition - 1.0).abs() < 1e-9, "{name}");
            assert!((mean - want).abs() <= radius, "{name}, {proposal:?}: {mean}, want {want} ± {radius}");
        }
    }
}

#[test]
fn weighted_samples_follow_the_model() {
    let n = 100_000;
    for (name, graph) in moderate_models() {
        for proposal in PROPOSALS {
            let known = Known::new(&graph, proposal);
            let method = ImportanceSampling::default().proposal(proposal);
            let samples = method.sample(&graph, n, &Run::default().with_seed(3)).unwrap().value;
            assert_eq!(samples.variables(), graph.variable_count());
            for v in 0..2 {
                let weighted = samples.iter().zip(log_weights(&samples)).filter(|(state, _)| state[v] == 1);
                let mean = weighted.map(|(_, log_weight)| log_weight.exp()).sum::<f64>() / n as f64;
                let (want, radius) = known.mean(n as f64, |state, _| f64::from(u8::from(state[v] == 1)));
                assert!(
                    (mean - want).abs() <= radius,
                    "{name}, {proposal:?}: {mean}, want {want} ± {radius}"
                );
            }
        }
    }
}

#[test]
fn marginals_and_entropy_converge() {
    let run = Run::default().with_seed(4);
    for (name, graph) in moderate_models() {
        for proposal in PROPOSALS {
            let known = Known::new(&graph, proposal);
            for samples in [1 << 12, 1 << 16] {
                let method = ImportanceSampling::default().proposal(proposal).samples(samples);
                let n = samples as f64;
                let (z, z_radius) = known.mean(n, |_, _| 1.0);
                // The error of a quotient of two means, each within its radius.
                let quotient =
                    |mean: f64, radius: f64| (radius + (mean / z).abs() * z_radius) / (z - z_radius);
                let beliefs = method.marginals(&graph, &run).unwrap();
                assert_eq!(beliefs.guarantee.promise(), Promise::Heuristic);
                for v in 0..graph.variable_count() {
                    for (s, p) in beliefs.value.variable(v).iter().enumerate() {
                        let (mean, radius) = known.mean(n, |state, _| f64::from(u8::from(state[v] == s)));
                        let (off, may) = ((p - mean / z).abs(), quotient(mean, radius));
                        assert!(off <= may + 1e-12, "{name}, {proposal:?}: {p}, want {}", mean / z);
                    }
                }
                let tables = method.factor_marginals(&graph, &run).unwrap();
                assert_eq!(tables.guarantee.promise(), Promise::Heuristic);
                for (factor, table) in graph.factors().zip(tables.value.iter()) {
                    for (i, p) in table.iter().enumerate() {
                        let entry = |state: &[usize]| {
                            factor.scope.iter().fold(0, |at, &v| at * graph.cardinalities()[v] + state[v])
                        };
                        let (mean, radius) = known.mean(n, |state, _| f64::from(u8::from(entry(state) == i)));
                        let (off, may) = ((p - mean / z).abs(), quotient(mean, radius));
                        assert!(off <= may + 1e-12, "{name}, {proposal:?}: {p}, want {}", mean / z);
                    }
                }
                let entropy = method.entropy(&graph, &run).unwrap().value;
                let (mean, radius) = known.mean(n, |_, score| score);
                let may = quotient(mean, radius) - (1.0 - z_radius / z).ln();
                let want = known.oracle.entropy();
                assert!(
                    (entropy - want).abs() <= may + 1e-12,
                    "{name}, {proposal:?}: {entropy}, want {want} ± {may}"
                );
            }
        }
    }
}
