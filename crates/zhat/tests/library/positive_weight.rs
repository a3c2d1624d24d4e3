//! Every method that supports `map`, `k_best` or `sample` for factor graphs returns states of positive weight
//! or an error.

use std::time::Duration;

use zhat::catalogue::{self, Choice, Settings, answer};
use zhat::model::generate::{self, GraphShape};
use zhat::query::AnyValue;
use zhat::{BestState, FactorGraph, Law, Model, Query, Run};

const NEVER: f64 = f64::NEG_INFINITY;

/// The logarithm of the largest weight, by enumeration.
fn largest(graph: &FactorGraph) -> f64 {
    let cardinalities = graph.cardinalities();
    let count: usize = cardinalities.iter().product();
    let state = |mut k: usize| -> Vec<usize> {
        cardinalities
            .iter()
            .map(|states| {
                let own = k % states;
                k /= states;
                own
            })
            .collect()
    };
    (0..count).map(|k| graph.score(&state(k))).fold(NEVER, f64::max)
}

/// Adds the constraint that the first variables, which have the same number of states, all have different
/// states.
fn all_different(graph: &mut FactorGraph, variables: usize) {
    let states = graph.cardinalities()[0];
    let entry = |k: usize| if k / states == k % states { NEVER } else { 0.0 };
    let different: Vec<f64> = (0..states * states).map(entry).collect();
    for u in 0..variables {
        for v in u + 1..variables {
            graph.add_factor(&[u, v], &different).unwrap();
        }
    }
}

fn check(graph: &FactorGraph, possible: Option<bool>, run: &Run, what: &str) -> usize {
    let model: Model = graph.clone().into();
    let mut states = 0;
    let mut have_weight = |best: &BestState, what: &str| {
        assert!(best.score > NEVER, "{what}: a state of weight 0");
        assert_eq!(graph.score(&best.state), best.score, "{what}");
        states += 1;
    };
    for row in catalogue::rows(FactorGraph::KIND) {
        let asked = [Query::Map, Query::KBest(3), Query::Sample(20)];
        for query in asked.into_iter().filter(|&query| row.answers(query)) {
            let what = format!("{what}, {} {}", row.method, query.name());
            let found = answer(&model, query, &Choice::parse(row.method), &Settings::new(), run);
            let Ok(found) = found else { continue };
            match &found.value {
                AnyValue::States(best) => best.iter().for_each(|best| have_weight(best, &what)),
                AnyValue::Ranked(ranked) => ranked.iter().flatten().for_each(|best| have_weight(best, &what)),
                AnyValue::Samples(samples) => {
                    let draws = &samples[0];
                    for (s, state) in draws.states.iter().enumerate() {
                        let weight = match &draws.law {
                            Law::Weighted { log_weights } => log_weights[s],
                            _ => 0.0,
                        };
                        assert_eq!(graph.score(state) > NEVER, weight > NEVER, "{what}: sample {s}");
                    }
                    let none = draws.states.iter().all(|state| graph.score(state) == NEVER);
                    let warned = found.diagnostics.warning().is_some();
                    // Markov chains also warn that they may not have converged.
                    assert!(warned == none || (warned && row.method == "gibbs"), "{what}");
                    continue;
                }
                other => panic!("{what}: {other:?}"),
            }
            assert_ne!(possible, Some(false), "{what}: the model has no state of positive weight");
        }
    }
    states
}

#[test]
fn returned_states_have_a_positive_weight() {
    let (mut states, mut impossible) = (0, 0);
    for seed in 0..24 {
        let zeros = [0.3, 0.5, 0.6, 0.7][seed as usize % 4];
        let mut graph = generate::random(
            &GraphShape { variables: 7, states: 3, factors: 12, zeros, ..Default::default() },
            seed,
        )
        .unwrap();
        if seed % 6 == 5 {
            // Four variables with three states cannot all be different.
            all_different(&mut graph, 4);
        }
        let possible = largest(&graph) > NEVER;
        impossible += usize::from(!possible);
        let run = Run::default().with_threads(1).with_time(Duration::from_secs(5));
        states += check(&graph, Some(possible), &run, &format!("seed {seed}"));
    }
    assert!(states > 50 && impossible > 1, "{states}, {impossible}");
}

#[test]
fn a_stopped_run_returns_no_state_of_weight_zero() {
    // There are more variables than states, so Z = 0, and local search and propagation alone cannot detect
    // it.
    let mut pigeons = FactorGraph::new(vec![8; 9]).unwrap();
    all_different(&mut pigeons, 9);
    check(
        &pigeons,
        Some(false),
        &Run::default().with_threads(1).with_time(Duration::from_millis(200)),
        "pigeons",
    );
    for seed in 0..8 {
        let graph = generate::random(
            &GraphShape { variables: 60, states: 4, factors: 150, zeros: 0.45, ..Default::default() },
            seed,
        )
        .unwrap();
        for time in [Duration::ZERO, Duration::from_millis(30)] {
            let run = Run::default().with_threads(1).with_time(time);
            check(&graph, None, &run, &format!("seed {seed} in {time:?}"));
        }
    }
}
