//! Mean field: a certified lower bound at every stopping point, exact on forests, independent of the number
//! of threads.

use std::time::Duration;

use crate::support::double_double::{self, Double};
use crate::support::oracle::{Oracle, states};
use zhat::bounds::{MeanField, MeanFieldStructure};
use zhat::model::generate::{self, GraphShape, Grid};
use zhat::random::{Stream, Streams};
use zhat::{
    Entropy, Error, FactorGraph, FactorMarginals, Guarantee, LogPartition, Map, Marginals, Promise, Run,
};

const ZERO: f64 = f64::NEG_INFINITY;

/// log Z in double-double precision; −∞ for Z = 0.
fn truth(graph: &FactorGraph) -> Double {
    let scores: Vec<Double> = states(graph).iter().map(|state| double_double::score(graph, state)).collect();
    if scores.iter().all(|score| score.high == ZERO) {
        ZERO.into()
    } else {
        double_double::log_sum_exp(&scores)
    }
}

/// True if a certified lower bound is at most log Z, without tolerance.
fn holds(low: f64, truth: Double) -> bool {
    low == ZERO || (truth.high > ZERO && (truth - low.into()).high >= 0.0)
}

fn low(guarantee: &Guarantee, value: f64, rounding: f64) -> f64 {
    let (low, _, confidence) = guarantee.interval(value, rounding).unwrap();
    assert_eq!(confidence, 1.0);
    low
}

fn run() -> Run {
    Run::default().with_threads(1)
}

/// A model with many edge cases: arities 0 to 5, variables with one state, zeros, ties, huge scores,
/// variables without factors.
fn nasty(seed: u64) -> FactorGraph {
    let mut random: Stream = Streams::new(seed, "nasty models").block(0);
    let n = random.below(8);
    let mut graph =
        FactorGraph::new((0..n).map(|_| [1, 2, 2, 2, 3, 3, 4][random.below(7)]).collect()).unwrap();
    let zeros = [0.0, 0.0, 0.1, 0.3, 0.5, 0.75][random.below(6)];
    let strength = [0.3, 1.0, 5.0, 100.0, 1e4][random.below(5)];
    let ties = random.below(4) == 0;
    for _ in 0..random.below(10) {
        let mut scope: Vec<usize> = (0..n).collect();
        random.shuffle(&mut scope);
        scope.truncate(random.below(6));
        let size: usize = scope.iter().map(|&v| graph.cardinalities()[v]).product();
        let mut value = || match random.uniform() {
            u if u < zeros && !scope.is_empty() => ZERO,
            _ if ties => strength * random.below(3) as f64,
            _ => strength * random.normal(),
        };
        graph.add_factor(&scope, &(0..size).map(|_| value()).collect::<Vec<_>>()).unwrap();
    }
    graph
}

#[test]
fn no_bound_is_violated_at_any_stopping_point() {
    let (run, mut finite, mut impossible, mut exact) = (run(), 0, 0, 0);
    for seed in 0..1500 {
        let graph = nasty(seed);
        let truth = truth(&graph);
        for structure in [MeanFieldStructure::Forest, MeanFieldStructure::Independent] {
            let mut last = ZERO;
            for iterations in [0, 1, 2, 5, 50] {
                let method = MeanField::default()
                    .structure(structure)
                    .iterations(iterations)
                    .restarts(1)
                    .tolerance(0.0)
                    .condition(0);
                match method.log_partition(&graph, &run) {
                    Ok(z) => {
                        let low = low(&z.guarantee, z.value, z.diagnostics.rounding);
                        assert!(
                            !low.is_nan() && holds(low, truth),
                            "seed {seed}, {iterations}: {z}, {truth:?}"
                        );
                        assert!(z.value.is_finite(), "seed {seed}: {z}");
                        // More iterations of the same ascent never lower the value.
                        assert!(
                            z.value >= last - 2.0 * z.diagnostics.rounding,
                            "seed {seed}: {z} after {last}"
                        );
                        last = z.value;
                        finite += 1;
                        if z.guarantee == Guarantee::Exact {
                            assert!(truth.distance(z.value) <= z.diagnostics.rounding, "seed {seed}: {z}");
                            exact += 1;
                        }
                    }
                    Err(Error::ZeroPartition) => {
                        assert_eq!(truth.high, ZERO, "seed {seed}");
                        impossible += 1;
                    }
                    Err(error) => panic!("seed {seed}: {error}"),
                }
            }
        }
    }
    assert!(finite > 8000 && impossible > 500 && exact > 2000, "{finite} {impossible} {exact}");
}

#[test]
fn every_intermediate_bound_holds_and_none_decreases() {
    let run = run();
    for seed in 0..400 {
        let graph = nasty(10_000 + seed);
        let truth = truth(&graph);
        for condition in [0, 2] {
            let method = MeanField::default().restarts(3).iterations(20).condition(condition);
            let mut lows = Vec::new();
            let answer = method.lower_bounds(&graph, &run, &mut |bound| {
                lows.push(bound.low);
                true
            });
            assert!(lows.is_sorted(), "seed {seed}: {lows:?}");
            assert!(lows.iter().all(|&low| holds(low, truth)), "seed {seed}: {lows:?} {truth:?}");
            match answer {
                Ok(z) => {
                    assert!(holds(low(&z.guarantee, z.value, z.diagnostics.rounding), truth), "seed {seed}")
                }
                Err(error) => assert!(matches!(error, Error::ZeroPartition) && truth.high == ZERO),
            }
        }
    }
}

#[test]
fn small_models_of_every_shape() {
    let run = run();
    for (name, graph) in crate::support::small_models(140) {
        let truth = truth(&graph);
        let z = MeanField::default().log_partition(&graph, &run);
        if truth.high == ZERO {
            assert!(matches!(z, Err(Error::ZeroPartition)), "{name}");
            continue;
        }
        let z = z.unwrap();
        assert!(holds(low(&z.guarantee, z.value, z.diagnostics.rounding), truth), "{name}: {z}");
        let best = MeanField::default().map(&graph, &run).unwrap();
        let (low, high, _) = best.guarantee.interval(best.value.score, 0.0).unwrap();
        let truly = Oracle::new(&graph).best();
        assert!(
            best.value.score == graph.score(&best.value.state) && low <= truly && truly <= high,
            "{name}"
        );
        let beliefs = MeanField::default().marginals(&graph, &run).unwrap().value;
        for belief in beliefs.iter() {
            assert!(
                (belief.iter().sum::<f64>() - 1.0).abs() < 1e-9 && belief.iter().all(|p| *p >= 0.0),
                "{name}"
            );
        }
        let tables = MeanField::default().factor_marginals(&graph, &run).unwrap().value;
        assert!(tables.iter().all(|table| (table.iter().sum::<f64>() - 1.0).abs() < 1e-9), "{name}");
        for (factor, table) in graph.factors().zip(tables.iter()) {
            let on_zero = factor.log_values.iter().zip(table).filter(|(value, _)| **value == ZERO);
            assert!(on_zero.map(|(_, p)| p).all(|&p| p == 0.0), "{name}");
        }
        let entropy = MeanField::default().entropy(&graph, &run).unwrap().value;
        assert!((0.0..=graph.log_state_count() + 1e-9).contains(&entropy), "{name}: {entropy}");
    }
}

#[test]
fn everything_is_exact_on_forests() {
    let run = run();
    for seed in 0..60 {
        let mut random = Streams::new(seed, "forests").block(0);
        let n = 1 + random.below(9);
        let mut graph = FactorGraph::new((0..n).map(|_| 1 + random.below(3)).collect()).unwrap();
        let strength = [1.0, 10.0, 1e4][random.below(3)];
        // Every factor joins at most one earlier variable with new ones, so there is no cycle.
        let mut order: Vec<usize> = (0..n).collect();
        random.shuffle(&mut order);
        let mut joined = 1;
        while joined < n {
            let new = (1 + random.below(3)).min(n - joined);
            let mut scope = order[joined..joined + new].to_vec();
            if random.below(5) > 0 {
                scope.push(order[random.below(joined)]);
            }
            random.shuffle(&mut scope);
            joined += new;
            let size = scope.iter().map(|&v| graph.cardinalities()[v]).product();
            let values: Vec<f64> = (0..size)
                .map(|i| if i > 0 && random.below(5) == 0 { ZERO } else { strength * random.normal() })
                .collect();
            graph.add_factor(&scope, &values).unwrap();
        }
        let oracle = Oracle::new(&graph);
        let z = MeanField::default().log_partition(&graph, &run);
        if oracle.is_zero() {
            assert!(matches!(z, Err(Error::ZeroPartition)));
            continue;
        }
        let z = z.unwrap();
        assert_eq!(z.guarantee, Guarantee::Exact, "seed {seed}");
        assert!(truth(&graph).distance(z.value) <= z.diagnostics.rounding, "seed {seed}: {z}");
        let close = |found: &[f64], expected: &[Vec<f64>]| {
            let expected = expected.iter().flatten();
            found.iter().zip(expected).all(|(p, q)| (p - q).abs() <= 1e-12 + z.diagnostics.rounding)
        };
        let beliefs = MeanField::default().marginals(&graph, &run).unwrap();
        assert!(
            beliefs.guarantee == Guarantee::Exact && close(beliefs.value.as_slice(), &oracle.marginals())
        );
        let tables = MeanField::default().factor_marginals(&graph, &run).unwrap();
        assert!(close(tables.value.as_slice(), &oracle.factor_marginals(&graph)), "seed {seed}");
        let entropy = MeanField::default().entropy(&graph, &run).unwrap();
        assert!((entropy.value - oracle.entropy()).abs() <= 1e-11 + z.diagnostics.rounding, "seed {seed}");
    }
    // A tree larger than any cluster that is used for a graph with cycles.
    let long = generate::tree(5000, 2, 1.0, 3).unwrap();
    let z = MeanField::default().log_partition(&long, &run).unwrap();
    let other = zhat::exact::Elimination::default().log_partition(&long, &run).unwrap();
    assert_eq!(z.guarantee.promise(), Promise::Exact);
    assert!((z.value - other.value).abs() <= z.diagnostics.rounding + other.diagnostics.rounding);
}

#[test]
fn models_of_weight_zero_are_detected() {
    for (name, graph) in crate::support::zero_models() {
        for structure in [MeanFieldStructure::Forest, MeanFieldStructure::Independent] {
            let method = MeanField::default().structure(structure);
            assert!(matches!(method.log_partition(&graph, &run()), Err(Error::ZeroPartition)), "{name}");
            let method = method.condition(1);
            assert!(matches!(method.log_partition(&graph, &run()), Err(Error::ZeroPartition)), "{name}");
        }
        assert!(
            matches!(MeanField::default().marginals(&graph, &run()), Err(Error::ZeroPartition)),
            "{name}"
        );
    }
    let mut graph = FactorGraph::new(vec![2, 2]).unwrap();
    graph.add_factor(&[0, 1], &[0.0, ZERO, ZERO, 0.0]).unwrap();
    let given = graph.condition(&[(0, 0), (1, 1)]).unwrap();
    let z = MeanField::default().log_partition(&given, &run());
    assert!(matches!(z, Err(Error::ImpossibleEvidence { .. })));
}

fn grid(side: usize, coupling: f64, seed: u64) -> FactorGraph {
    generate::ising(Grid { rows: side, columns: side, torus: false }, coupling, 0.5, false, seed).unwrap()
}

#[test]
fn threads_do_not_change_the_result() {
    let zeros = generate::random(
        &GraphShape { variables: 300, states: 3, factors: 500, arity: 3, zeros: 0.2, ..Default::default() },
        5,
    )
    .unwrap();
    for graph in [grid(60, 0.7, 1), zeros] {
        let method = MeanField::default().iterations(7);
        let all: Vec<_> = [1, 2, 5]
            .into_iter()
            .map(|threads| {
                let run = Run::default().with_threads(threads);
                let z = method.log_partition(&graph, &run).unwrap();
                let beliefs = method.marginals(&graph, &run).unwrap().value;
                let bits: Vec<u64> = beliefs.as_slice().iter().map(|p| p.to_bits()).collect();
                (z.value.to_bits(), bits)
            })
            .collect();
        assert!(all[0] == all[1] && all[1] == all[2]);
    }
}

#[test]
fn forests_improve_on_independent_variables_and_conditioning_improves_further() {
    let run = run();
    for seed in 0..5 {
        let graph = grid(10, 0.8, seed);
        let truth = zhat::exact::Elimination::default().log_partition(&graph, &run).unwrap().value;
        let bound = |structure, condition| {
            let method = MeanField::default().structure(structure).condition(condition);
            method.log_partition(&graph, &run).unwrap().value
        };
        let (single, trees) =
            (bound(MeanFieldStructure::Independent, 0), bound(MeanFieldStructure::Forest, 0));
        let cases = bound(MeanFieldStructure::Forest, 3);
        assert!(single < trees && trees < cases && cases < truth, "{single} {trees} {cases} {truth}");
    }
}

#[test]
fn a_short_run_still_has_a_bound() {
    let graph = grid(40, 0.7, 2);
    let z = MeanField::default().log_partition(&graph, &run().with_time(Duration::ZERO)).unwrap();
    assert!(z.diagnostics.stopped_early && z.value.is_finite());
    let mut count = 0;
    let z = MeanField::default()
        .lower_bounds(&graph, &run(), &mut |_| {
            count += 1;
            count < 3
        })
        .unwrap();
    assert!(count == 3 && z.value.is_finite());
}

#[test]
fn bad_options_are_refused() {
    let graph = grid(3, 1.0, 0);
    for method in [
        MeanField::default().tolerance(-1.0),
        MeanField::default().tolerance(f64::NAN),
        MeanField::default().condition(60),
    ] {
        let graph = if method.condition > 0 { &grid(10, 1.0, 0) } else { &graph };
        assert!(matches!(method.log_partition(graph, &run()), Err(Error::Argument { .. })));
    }
}
