//! Paths of chains: the best path, the k best paths and samples; independence of the number of threads.

use crate::support::sequences::{FORMS, Listed, SCORES, chain, flat, methods, sized_chain};
use crate::support::statistics::{ALARM, multinomial_tail};
use zhat::Real;
use zhat::dynamic::ForwardBackward;
use zhat::exact::Elimination;
use zhat::model::{FactorGraph, Transitions};
use zhat::query::{Differentiable, Operation};
use zhat::random::Streams;
use zhat::{Chain, Entropy, FactorMarginals, KBest, LogPartition, Map, Marginals, Run, Sample};

const ZERO: f64 = f64::NEG_INFINITY;

fn chains<F: Real>(seeds: u64, mut check: impl FnMut(&str, &Chain<F>)) {
    for (form, scores) in FORMS.iter().flat_map(|form| SCORES.map(|scores| (form, scores))) {
        for seed in 0..seeds {
            let chain = chain::<F>(form, scores, seed);
            if (0..chain.batch()).any(|b| chain.log_partition(b) > ZERO) {
                check(&format!("{form}, {scores}, seed {seed}, {}", F::NAME), &chain);
            }
        }
    }
}

fn best<F: Real>() {
    chains::<F>(12, |name, chain| {
        let answer = ForwardBackward::default().map(chain, &Run::default()).unwrap();
        for (b, path) in answer.value.iter().enumerate() {
            let want = chain.scores(b).into_iter().fold(ZERO, f64::max);
            if want == ZERO {
                assert!(path.states.is_empty() && path.score == ZERO, "{name}");
                continue;
            }
            assert_eq!(path.score, Chain::score(chain, b, &path.states), "{name}");
            assert!(want - path.score <= answer.diagnostics.rounding, "{name}: {} of {want}", path.score);
        }
    });
}

#[test]
fn best_paths_agree_with_enumeration() {
    best::<f64>();
    best::<f32>();
}

#[test]
fn ties_are_broken_by_the_smallest_states_from_the_end() {
    let zeros = |len: usize| vec![0.0; len];
    let chain = Chain::crf(3, zeros(12).into(), vec![4], Transitions::Shared(zeros(9).into())).unwrap();
    let best = ForwardBackward::default().map(&chain, &Run::default()).unwrap();
    assert_eq!(best.value[0].states, [0, 0, 0, 0]);
}

fn ranked<F: Real>() {
    chains::<F>(8, |name, chain| {
        for k in [1, 3, 50, 2000] {
            let answer = ForwardBackward::default().k_best(chain, k, &Run::default()).unwrap();
            for (b, paths) in answer.value.iter().enumerate() {
                let mut want: Vec<f64> = chain.scores(b).into_iter().filter(|&x| x > ZERO).collect();
                want.sort_by(|a, b| b.total_cmp(a));
                want.truncate(k);
                assert_eq!(paths.len(), want.len(), "{name}, k = {k}");
                for (path, want) in paths.iter().zip(&want) {
                    assert_eq!(path.score, Chain::score(chain, b, &path.states));
                    assert!((path.score - want).abs() <= answer.diagnostics.rounding, "{name}, k = {k}");
                }
                let mut states: Vec<&Vec<usize>> = paths.iter().map(|path| &path.states).collect();
                states.sort();
                states.dedup();
                assert_eq!(states.len(), paths.len(), "{name}: a path twice");
            }
        }
    });
}

#[test]
fn the_k_best_agree_with_enumeration() {
    ranked::<f64>();
    ranked::<f32>();
}

/// The false-alarm rate of the whole test is about 10⁻⁶: about a hundred comparisons at 10⁻⁸.
fn samples<F: Real>() {
    for (form, scores) in FORMS.iter().flat_map(|form| ["plain", "zeros"].map(|scores| (form, scores))) {
        for seed in 0..3 {
            let chain = chain::<F>(form, scores, seed);
            if (0..chain.batch()).all(|b| chain.log_partition(b) == ZERO) {
                continue;
            }
            let count = 5000;
            let answer =
                ForwardBackward::default().sample(&chain, count, &Run::default().with_seed(seed)).unwrap();
            for (b, drawn) in answer.value.samples.iter().enumerate() {
                if chain.log_partition(b) == ZERO {
                    assert!(drawn.is_empty());
                    continue;
                }
                assert_eq!(drawn.len(), count);
                let states = Listed::states(&chain, b);
                let mut counts = vec![0; states.len()];
                for path in drawn {
                    counts[states.iter().position(|state| state == path).unwrap()] += 1;
                }
                let tail = multinomial_tail(&counts, &chain.probabilities(b));
                assert!(tail > ALARM, "{form}, {scores}, seed {seed}, sequence {b}: {tail}");
            }
        }
    }
}

#[test]
fn samples_follow_the_distribution() {
    samples::<f64>();
    samples::<f32>();
}

fn threads<F: Real>() {
    for form in FORMS {
        // Large enough that rows and products are split between threads.
        let mut random = Streams::new(1, "threads").block(0);
        let chain: Chain<F> = sized_chain(&mut random, form, "plain", [110, 3, 480]);
        for method in methods() {
            let all = |threads: usize| {
                let run = Run::default().with_threads(threads);
                (
                    method.log_partition(&chain, &run).unwrap().value,
                    method.marginals(&chain, &run).unwrap().value,
                    flat(&method.factor_marginals(&chain, &run).unwrap().value),
                    method.entropy(&chain, &run).unwrap().value,
                    flat(
                        &method
                            .differentiate(Operation::Entropy, &[&chain], &run)
                            .unwrap()
                            .1
                            .gradient(&[1.0; 110])
                            .unwrap(),
                    ),
                    method.map(&chain, &run).unwrap().value,
                    method.sample(&chain, 3, &run).unwrap().value,
                )
            };
            let one = all(1);
            assert!(one == all(2), "{form}");
            assert!(one == all(3), "{form}");
        }
    }
}

#[test]
fn threads_do_not_change_the_result() {
    threads::<f32>();
    threads::<f64>();
}

#[test]
fn a_chain_as_a_factor_graph_gives_the_same_results() {
    let mut compared = 0;
    for form in FORMS {
        for seed in 0..8 {
            let chain: Chain<f64> = chain(form, "plain", seed);
            for b in 0..chain.batch() {
                // Sparse transitions may leave a sequence without a path.
                if chain.log_partition(b) == ZERO {
                    continue;
                }
                let (length, states) = (chain.lengths()[b], Chain::states(&chain));
                let first = if form == "per-sequence" { b * (chain.steps() - 1) } else { 0 };
                let mut graph = FactorGraph::new(vec![states; length]).unwrap();
                graph.add_factor(&[0], chain.start()).unwrap();
                for t in 0..length {
                    graph.add_factor(&[t], chain.emission(b, t)).unwrap();
                }
                if let Some(end) = chain.end() {
                    graph.add_factor(&[length - 1], end).unwrap();
                }
                for t in 1..length {
                    let table = (0..states * states)
                        .map(|k| chain.transitions().score(states, first + t - 1, k / states, k % states))
                        .collect::<Vec<f64>>();
                    graph.add_factor(&[t - 1, t], &table).unwrap();
                }
                let run = Run::default();
                let (ours, theirs) = (ForwardBackward::default(), Elimination::default());
                let near =
                    |a: f64, b: f64| assert!((a - b).abs() < 1e-10, "{form}, seed {seed}: {a} and {b}");
                near(
                    ours.log_partition(&chain, &run).unwrap().value[b],
                    theirs.log_partition(&graph, &run).unwrap().value,
                );
                near(
                    ours.entropy(&chain, &run).unwrap().value[b],
                    theirs.entropy(&graph, &run).unwrap().value,
                );
                near(
                    ours.map(&chain, &run).unwrap().value[b].score,
                    theirs.map(&graph, &run).unwrap().value.score,
                );
                compared += 1;
            }
        }
    }
    assert!(compared > 30);
}
