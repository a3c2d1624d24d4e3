//! Gibbs sampling against enumeration, its diagnostics, and its limits.

use crate::support::oracle::Oracle;
use zhat::model::generate::{self, GraphShape, Grid};
use zhat::sampling::Gibbs;
use zhat::{Error, FactorGraph, FactorMarginals, Guarantee, Law, Map, Marginals, Promise, Run, Sample};

const ZERO: f64 = f64::NEG_INFINITY;

/// Models on which chains mix fast: asymmetric, with tables of different arity, zeros that leave all states
/// connected, variables of one state, evidence.
fn models() -> Vec<(&'static str, FactorGraph)> {
    let shape = GraphShape { variables: 5, factors: 7, strength: 0.5, ..Default::default() };
    let triples =
        GraphShape { variables: 4, states: 3, factors: 4, arity: 3, strength: 0.4, ..Default::default() };
    let shape_with_zeros =
        GraphShape { variables: 5, states: 3, factors: 4, strength: 0.4, zeros: 0.2, ..Default::default() };
    let mut zeros = (0..100).map(|seed| generate::random(&shape_with_zeros, seed).unwrap());
    let zeros = zeros.find(is_connected).unwrap();
    let mut odd = FactorGraph::new(vec![1, 3, 2, 1]).unwrap();
    odd.add_factor(&[2, 0, 1], &[0.3, -0.4, 0.0, 0.8, ZERO, -1.0]).unwrap();
    odd.add_factor(&[], &[2.5]).unwrap();
    odd.add_factor(&[3], &[-7.0]).unwrap();
    let given = generate::random(&shape, 4).unwrap().condition(&[(1, 1)]).unwrap();
    vec![
        ("pairwise", generate::random(&shape, 1).unwrap()),
        ("triples", generate::random(&triples, 2).unwrap()),
        ("zeros", zeros),
        ("ring", generate::ising(Grid { rows: 1, columns: 6, torus: true }, 0.4, 0.5, false, 5).unwrap()),
        ("network", generate::bayes(5, 2, 2, 0.0, 7).unwrap()),
        ("odd", odd),
        ("given", given),
        ("free", FactorGraph::new(vec![3, 2]).unwrap()),
    ]
}

/// Whether changes of one variable at a time connect all states of positive weight.
fn is_connected(graph: &FactorGraph) -> bool {
    let oracle = Oracle::new(graph);
    let possible: Vec<&Vec<usize>> = oracle
        .states
        .iter()
        .zip(&oracle.scores)
        .filter(|(_, score)| **score > ZERO)
        .map(|(x, _)| x)
        .collect();
    let mut reached = vec![false; possible.len()];
    let mut open = vec![0];
    while let Some(i) = open.pop() {
        if i >= possible.len() || std::mem::replace(&mut reached[i], true) {
            continue;
        }
        let distance = |j: &usize| possible[i].iter().zip(possible[*j]).filter(|(a, b)| a != b).count();
        open.extend((0..possible.len()).filter(|j| distance(j) == 1));
    }
    !reached.is_empty() && reached.iter().all(|&reached| reached)
}

/// The mean of independent estimates is compared with p by a t test with `RUNS` − 1 = 59 degrees of freedom.
/// P(|t| > 8.5) < 10⁻¹¹, so 10⁵ comparisons have a false-alarm rate of 10⁻⁶. Estimates with less spread than
/// 10⁻³ are compared with that spread: the bias of chains of this length is below it.
const RUNS: u64 = 60;
const CRITICAL: f64 = 8.5;

fn compare(name: &str, estimates: &[Vec<f64>], expected: &[f64]) {
    for (i, &p) in expected.iter().enumerate() {
        let own: Vec<f64> = estimates.iter().map(|estimate| estimate[i]).collect();
        let mean = own.iter().sum::<f64>() / RUNS as f64;
        let variance = own.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (RUNS - 1) as f64;
        let error = variance.sqrt().max(1e-3) / (RUNS as f64).sqrt();
        assert!((mean - p).abs() < CRITICAL * error, "{name} {i}: {mean} {p} ± {error}");
        if p == 0.0 {
            assert!(own.iter().all(|&x| x == 0.0), "{name} {i}");
        }
    }
}

#[test]
fn marginals_and_samples_are_those_of_enumeration() {
    let method = Gibbs::default().burn_in(50).samples(400).chains(2);
    for (name, graph) in models() {
        let oracle = Oracle::new(&graph);
        let run = |seed: u64| Run::default().with_seed(seed).with_threads(1);
        let marginals: Vec<Vec<f64>> = (0..RUNS)
            .map(|seed| method.marginals(&graph, &run(seed)).unwrap().value.as_slice().to_vec())
            .collect();
        compare(name, &marginals, &oracle.marginals().concat());
        let factors: Vec<Vec<f64>> = (0..RUNS)
            .map(|seed| method.factor_marginals(&graph, &run(seed)).unwrap().value.as_slice().to_vec())
            .collect();
        compare(name, &factors, &oracle.factor_marginals(&graph).concat());
        // Samples: the frequency of every state.
        let index =
            |state: &[usize]| state.iter().zip(graph.cardinalities()).fold(0, |at, (s, n)| at * n + s);
        let frequencies: Vec<Vec<f64>> = (0..RUNS)
            .map(|seed| {
                let answer = method.sample(&graph, 301, &run(seed)).unwrap();
                assert_eq!((answer.value.len(), &answer.value.law), (301, &Law::Chains));
                let mut shares = vec![0.0; oracle.states.len()];
                answer.value.iter().for_each(|state| shares[index(state)] += 1.0 / 301.0);
                shares
            })
            .collect();
        compare(name, &frequencies, &oracle.probabilities());
        let best = method.map(&graph, &run(0)).unwrap();
        assert!((best.value.score - oracle.best()).abs() < 1e-9, "{name}");
        let Guarantee::Bounds { low, high, .. } = best.guarantee else { panic!("{name}") };
        assert!(low <= oracle.best() && oracle.best() <= high, "{name}");
    }
}

#[test]
fn the_number_of_threads_does_not_matter() {
    let graph = generate::ising(Grid { rows: 7, columns: 5, torus: false }, 0.5, 0.3, false, 1).unwrap();
    let method = Gibbs::default().burn_in(20).samples(103).chains(5).thin(2);
    let answer = |threads: usize| {
        let run = Run::default().with_seed(3).with_threads(threads);
        let marginals = method.marginals(&graph, &run).unwrap();
        (marginals.value, marginals.guarantee, method.sample(&graph, 23, &run).unwrap().value)
    };
    let one = answer(1);
    assert_eq!(one, answer(3));
    let other = Run::default().with_seed(4);
    assert_ne!(one.0, method.marginals(&graph, &other).unwrap().value);
}

fn figure(diagnostics: &zhat::Diagnostics, name: &str) -> f64 {
    let found = diagnostics.figures().find(|(own, _)| *own == name);
    found.and_then(|(_, value)| value.as_f64()).unwrap_or(f64::INFINITY)
}

#[test]
fn diagnostics_tell_mixing_chains_from_separated_ones() {
    let grid = Grid { rows: 6, columns: 6, torus: false };
    let weak = generate::ising(grid, 0.2, 0.3, false, 1).unwrap();
    let answer = Gibbs::default().marginals(&weak, &Run::default()).unwrap();
    assert!(figure(&answer.diagnostics, "r_hat") < 1.02, "{:?}", answer.guarantee);
    assert!(figure(&answer.diagnostics, "effective_sample_size") > 400.0, "{:?}", answer.guarantee);
    let Guarantee::Heuristic { reason } = &answer.guarantee else { panic!() };
    assert!(
        reason.contains("4 Markov chains: largest R-hat 1.0") && reason.contains("effective sample size")
    );
    // Two states that no single change connects: chains stay where they start, and some differ.
    let mut split = FactorGraph::new(vec![2, 2, 2]).unwrap();
    split.add_factor(&[0, 1, 2], &[0.0, ZERO, ZERO, 0.5, ZERO, ZERO, ZERO, 0.2]).unwrap();
    let answer = Gibbs::default().chains(16).marginals(&split, &Run::default()).unwrap();
    assert_eq!(figure(&answer.diagnostics, "r_hat"), f64::INFINITY);
    assert!(answer.guarantee.to_string().contains("R-hat over 1000"), "{}", answer.guarantee);
    assert!(answer.diagnostics.warning().is_some_and(|text| text.contains("not converged")));
    // Strong couplings: the chains hardly leave one of two modes.
    let strong = generate::ising(grid, 1.5, 0.0, false, 1).unwrap();
    let answer = Gibbs::default().chains(8).marginals(&strong, &Run::default()).unwrap();
    assert!(figure(&answer.diagnostics, "r_hat") > 1.1 && answer.diagnostics.warning().is_some());
    assert_eq!(answer.guarantee.promise(), Promise::Heuristic);
}

#[test]
fn zeros_and_extreme_scores_are_handled() {
    let run = Run::default();
    let method = Gibbs::default().burn_in(10).samples(40);
    for (name, graph) in crate::support::zero_models() {
        assert!(matches!(method.marginals(&graph, &run), Err(Error::ZeroPartition)), "{name}");
    }
    for (name, graph) in crate::support::small_models(21) {
        match method.sample(&graph, 10, &run) {
            Ok(answer) => {
                assert!(answer.value.iter().all(|state| graph.score(state) > ZERO), "{name}");
                assert_eq!(answer.value.len(), 10);
            }
            Err(error) => {
                assert!(matches!(error, Error::ZeroPartition) && Oracle::new(&graph).is_zero(), "{name}")
            }
        }
    }
    // Differences of scores that underflow in products.
    let mut steep = FactorGraph::new(vec![2, 3]).unwrap();
    for _ in 0..3 {
        steep.add_factor(&[0], &[-400.0, 0.0]).unwrap();
        steep.add_factor(&[0], &[0.0, -400.5]).unwrap();
        steep.add_factor(&[0, 1], &[0.0, 1.0, 0.5, 0.2, 0.1, 0.0]).unwrap();
    }
    let oracle = Oracle::new(&steep);
    let beliefs = Gibbs::default().samples(40_000).marginals(&steep, &run).unwrap().value;
    for (own, expected) in beliefs.iter().zip(oracle.marginals()) {
        // Five standard errors of a probability with at least 2000 effective samples, false alarm 10⁻⁶.
        assert!(
            own.iter().zip(&expected).all(|(p, q)| (p - q).abs() < 5.0 * 0.5 / 2000f64.sqrt()),
            "{own:?}"
        );
    }
}
