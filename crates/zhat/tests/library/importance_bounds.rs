//! Stated bounds of importance sampling on hard models, and rejected arguments.

use crate::support::PROPOSALS;
use crate::support::oracle::Oracle;
use crate::support::statistics::{ALARM, binomial_tail};
use zhat::model::generate::{self, GraphShape, Grid};
use zhat::sampling::ImportanceSampling;
use zhat::{Entropy, Error, FactorGraph, Guarantee, LogPartition, Map, Marginals, Run, Sample};

/// Models whose weights have such heavy tails that estimates are nearly always far too small, and a few easy
/// models.
fn heavy_models() -> Vec<(String, FactorGraph)> {
    let grid = |rows, columns, torus| Grid { rows, columns, torus };
    let mut models = vec![
        ("strong glass", generate::ising(grid(3, 4, true), 4.0, 1.0, false, 1)),
        ("strong magnet", generate::ising(grid(3, 4, false), 3.0, 0.1, true, 2)),
        (
            "zeros",
            generate::random(
                &GraphShape { variables: 10, factors: 12, arity: 3, zeros: 0.5, ..Default::default() },
                3,
            ),
        ),
        (
            "strong zeros",
            generate::random(
                &GraphShape {
                    variables: 8,
                    states: 3,
                    factors: 12,
                    strength: 3.0,
                    zeros: 0.3,
                    ..Default::default()
                },
                4,
            ),
        ),
        (
            "huge",
            generate::random(
                &GraphShape { variables: 8, factors: 12, strength: 100.0, ..Default::default() },
                5,
            ),
        ),
        ("network", generate::bayes(9, 2, 3, 0.5, 6).and_then(|graph| graph.condition(&[(8, 1)]))),
        ("tree", generate::tree(9, 2, 3.0, 7)),
    ];
    // One state of 4096 has nearly all the weight, so that a sample mean can far exceed its expectation.
    let mut needle = FactorGraph::new(vec![2; 12]).unwrap();
    (0..12).for_each(|v| assert!(needle.add_factor(&[v, (v + 1) % 12], &[1.5, 0.0, 0.0, 0.0]).is_ok()));
    models.push(("needle", Ok(needle)));
    models.into_iter().map(|(name, model)| (name.to_string(), model.unwrap())).collect()
}

#[test]
fn the_lower_bound_fails_no_more_often_than_its_confidence_allows() {
    let base = crate::support::one_thread();
    let runs = 2000;
    for (name, graph) in heavy_models() {
        let oracle = Oracle::new(&graph);
        let log_partition = oracle.log_partition() + oracle.allowance();
        for proposal in PROPOSALS {
            for (replicates, samples, confidence) in [(2, 2, 0.5), (3, 30, 0.3), (16, 16, 0.9)] {
                let method = ImportanceSampling::default()
                    .proposal(proposal)
                    .samples(samples)
                    .replicates(replicates)
                    .confidence(confidence);
                let fails = |seed: &u64| {
                    let z = method.log_partition(&graph, &base.clone().with_seed(*seed)).unwrap();
                    let Guarantee::Unbiased { low, confidence: stated, replicates: r, .. } = z.guarantee
                    else {
                        panic!("{:?}", z.guarantee)
                    };
                    assert_eq!((stated, r), (confidence, replicates));
                    low > log_partition
                };
                let failures = (0..runs).filter(fails).count() as u64;
                let p = binomial_tail(runs, failures, 1.0 - confidence);
                assert!(p > ALARM, "{name}, {proposal:?}: {failures} of {runs} at {confidence}");
            }
        }
    }
}

#[test]
fn bounds_on_the_best_score_always_hold() {
    let run = Run::default();
    for (name, graph) in crate::support::small_models(140).into_iter().chain(heavy_models()) {
        let oracle = Oracle::new(&graph);
        for proposal in PROPOSALS {
            let method = ImportanceSampling::default().proposal(proposal).samples(64).replicates(2);
            let best = match method.map(&graph, &run) {
                Ok(best) => best,
                Err(error) => {
                    assert!(error.to_string().contains("weight 0"), "{name}: {error}");
                    continue;
                }
            };
            let Guarantee::Bounds { low, high, confidence } = best.guarantee else {
                panic!("{:?}", best.guarantee)
            };
            assert_eq!((best.value.score, confidence), (graph.score(&best.value.state), 1.0), "{name}");
            let (truth, allowance) = (oracle.best(), oracle.allowance());
            assert!(
                low <= truth + allowance && truth - allowance <= high,
                "{name}: {truth} not in [{low}, {high}]"
            );
        }
    }
}

#[test]
fn a_zero_partition_never_has_a_finite_estimate() {
    let run = Run::default();
    for (name, graph) in crate::support::zero_models() {
        for proposal in PROPOSALS {
            let method = ImportanceSampling::default().proposal(proposal).samples(4096);
            // Samples cannot prove that Z is 0 if single factors do not show it.
            match method.log_partition(&graph, &run) {
                Ok(z) => {
                    assert_eq!(z.value, f64::NEG_INFINITY, "{name}");
                    assert!(z.diagnostics.figures().any(|(figure, _)| figure == "warning"), "{name}");
                }
                Err(error) => assert!(matches!(error, Error::ZeroPartition), "{name}: {error}"),
            }
            assert!(method.marginals(&graph, &run).is_err(), "{name}");
            assert!(method.entropy(&graph, &run).is_err(), "{name}");
            assert!(method.map(&graph, &run).is_err(), "{name}");
        }
    }
}

#[test]
fn bad_arguments_are_named() {
    let graph = FactorGraph::new(vec![2, 2]).unwrap();
    let good = ImportanceSampling::default();
    let bad = [
        good.samples(0),
        good.replicates(1),
        good.replicates(0),
        good.confidence(1.5),
        good.confidence(1.0),
        good.confidence(0.0),
        good.confidence(f64::NAN),
    ];
    for method in bad {
        let run = Run::default();
        for error in [method.log_partition(&graph, &run).err(), method.sample(&graph, 5, &run).err()] {
            assert!(matches!(error, Some(Error::Argument { .. })), "{method:?}: {error:?}");
        }
    }
}
