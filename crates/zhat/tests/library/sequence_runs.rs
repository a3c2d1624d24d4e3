//! Sequences and pairwise graphs: progress, time budgets with extreme options, and edge cases of queries.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use zhat::catalogue::{self, Choice, Settings, answer};
use zhat::dynamic::ForwardBackward;
use zhat::exact::{Elimination, Enumeration};
use zhat::model::{Chain, PairwiseGraph, Segments, SemiMarkov, Transitions};
use zhat::query::{Differentiable, Operation};
use zhat::random::Streams;
use zhat::space::{Hypercube, Oracle, Scores, SpaceModel};
use zhat::{Entropy, Error, FactorGraph, KBest, LogPartition, Model, Observer, Query, Run};

fn numbers(count: usize, seed: u64) -> Vec<f64> {
    let mut random = Streams::new(seed, "sequence runs").block(0);
    (0..count).map(|_| random.normal()).collect()
}

fn chain(steps: usize, states: usize) -> Chain {
    let transitions = Transitions::Shared(numbers(states * states, 1).into());
    Chain::crf(states, numbers(steps * states, 2).into(), vec![steps], transitions).unwrap()
}

fn semi_markov(steps: usize, states: usize, longest: usize) -> SemiMarkov {
    let segments = Segments::Lengths(numbers(longest * states, 3).into());
    SemiMarkov::new(chain(steps, states), segments, longest).unwrap()
}

/// A graph with a cycle, so that messages take several sweeps.
fn graph(variables: usize, states: usize) -> PairwiseGraph {
    let edges = (0..variables).map(|v| (v, (v + 1) % variables)).collect();
    let interactions = Transitions::Shared(numbers(states * states, 4).into());
    PairwiseGraph::new(states, numbers(variables * states, 5).into(), edges, interactions).unwrap()
}

fn models() -> [Model; 3] {
    [chain(40, 30).into(), semi_markov(40, 30, 4).into(), graph(20, 30).into()]
}

#[derive(Default)]
struct Heard {
    calls: AtomicUsize,
    wrong: AtomicBool,
}

impl Observer for Heard {
    fn progress(&self, _: &'static str, done: u64, total: u64) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.wrong.fetch_or(done > total, Ordering::Relaxed);
    }
}

#[test]
fn every_query_about_sequences_reports_progress() {
    for model in models() {
        for row in catalogue::rows(model.kind()) {
            for query in row.queries() {
                let heard = Arc::<Heard>::default();
                let run = Run::default().with_observer(heard.clone());
                answer(&model, query, &Choice::parse(row.method), &Settings::new(), &run).unwrap();
                let what = format!("{} {}", row.method, query.name());
                assert!(heard.calls.load(Ordering::Relaxed) > 0, "{what} says nothing");
                assert!(!heard.wrong.load(Ordering::Relaxed), "{what} is more than done");
            }
        }
    }
}

/// Asserts the guarantee that a run exceeds its budget by at most 10% plus one second.
fn in_time(started: Instant, budget: Duration, what: &str) {
    assert!(
        started.elapsed() < budget.mul_f64(1.1) + Duration::from_secs(1),
        "{what}: {:?}",
        started.elapsed()
    );
}

#[test]
fn extreme_options_keep_the_time_budget() {
    let budget = Duration::from_secs(1);
    let extremes = [1_000_000_000u64, 1 << 63];
    let options: [(&str, Value); 6] = [
        ("replicates", json!(extremes[0])),
        ("replicates", json!(extremes[1])),
        ("iterations", json!(extremes[0])),
        ("iterations", json!(extremes[1])),
        ("states", json!(u32::MAX)),
        ("top", json!(extremes[1])),
    ];
    for model in models() {
        for row in catalogue::rows(model.kind()) {
            let known = (row.options)();
            for query in row.queries() {
                let counts: &[usize] = match query {
                    Query::KBest(_) | Query::Sample(_) => &[1, 1_000_000_000, 1 << 63],
                    _ => &[1],
                };
                let mut settings = vec![Settings::new()];
                for (name, value) in options.iter().filter(|(name, _)| known.get(*name).is_some()) {
                    settings.push([((*name).to_owned(), value.clone())].into_iter().collect());
                }
                for (settings, &count) in settings.iter().flat_map(|s| counts.iter().map(move |c| (s, c))) {
                    let run = Run::default().with_time(budget);
                    let (started, choice) = (Instant::now(), Choice::parse(row.method));
                    let what = format!("{} {} {count} {settings:?}", row.method, query.name());
                    let found = answer(&model, query.with_count(count), &choice, settings, &run);
                    in_time(started, budget, &what);
                    if let Err(error) = found {
                        assert!(
                            matches!(error, Error::OverBudget { .. } | Error::Argument { .. }),
                            "{what}: {error}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn a_forecast_grows_with_the_options() {
    let seconds = |model: &Model, method: &str, query: Query, settings: &[(&str, u64)]| {
        let row = catalogue::rows(model.kind()).find(|row| row.method == method).unwrap();
        let settings: Settings =
            settings.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
        row.forecast(model, query, &settings, &Run::default()).unwrap().seconds
    };
    let [chain, semi, graph] = models();
    for model in [&chain, &semi] {
        for query in [Query::KBest(1), Query::Sample(1)] {
            let more = seconds(model, "forward-backward", query.with_count(1 << 20), &[]);
            assert!(more > 100.0 * seconds(model, "forward-backward", query, &[]), "{}", query.name());
        }
        let replicates = |count| seconds(model, "randomized", Query::LogPartition, &[("replicates", count)]);
        assert!(replicates(100_000) > 100.0 * replicates(10));
    }
    let replicates = |count| seconds(&graph, "randomized-bp", Query::LogPartition, &[("replicates", count)]);
    assert!(replicates(100_000) > 100.0 * replicates(10));
}

#[test]
fn work_stops_soon_after_it_is_cancelled() {
    // Each of these takes many seconds.
    let models: [(Model, &str, Query); 6] = [
        (chain(20_000, 400).into(), "forward-backward", Query::Entropy),
        (chain(2_000, 100).into(), "forward-backward", Query::Sample(100_000)),
        (chain(2_000, 60).into(), "forward-backward", Query::KBest(20_000)),
        (semi_markov(3_000, 100, 30).into(), "forward-backward", Query::FactorMarginals),
        (chain(3_000, 4000).into(), "randomized", Query::LogPartition),
        (graph(300, 1000).into(), "bp", Query::Entropy),
    ];
    for (model, method, query) in models {
        let cancel = Arc::new(AtomicBool::new(false));
        let run = Run::default().with_cancel(cancel.clone()).with_memory(1 << 40);
        let (sender, stopped) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let found = answer(&model, query, &Choice::parse(method), &Settings::new(), &run);
                sender.send((Instant::now(), found.err())).unwrap();
            });
            std::thread::sleep(Duration::from_millis(300));
            let raised = Instant::now();
            cancel.store(true, Ordering::Relaxed);
            let (ended, error) = stopped.recv().unwrap();
            let what = format!("{method} {}", query.name());
            if let Some(error) = error {
                assert!(matches!(error, Error::Interrupted), "{what}: {error}");
                let late = ended.saturating_duration_since(raised);
                assert!(late < Duration::from_millis(1500), "{what}: {late:?}");
            }
        });
    }
}

#[test]
fn k_best_returns_at_most_the_number_of_states() {
    let (run, many) = (Run::default().with_memory(1 << 28), 1_000_000_000_000);
    let method = ForwardBackward::default();
    assert_eq!(method.k_best(&chain(3, 2), many, &run).unwrap().value[0].len(), 8);
    // Segment lengths 1 + 1 + 1, 1 + 2 and 2 + 1 give 8 + 4 + 4 segmentations with two states.
    assert_eq!(method.k_best(&semi_markov(3, 2, 2), many, &run).unwrap().value[0].len(), 16);
    let mut graph = FactorGraph::new(vec![2, 2, 2]).unwrap();
    graph.add_factor(&[0, 1], &numbers(4, 6)).unwrap();
    graph.add_factor(&[1, 2], &numbers(4, 7)).unwrap();
    assert_eq!(Elimination::default().k_best(&graph, many, &run).unwrap().value.len(), 8);
    assert_eq!(Enumeration::default().k_best(&graph, many, &run).unwrap().value.len(), 8);
    let space = SpaceModel::new(Hypercube::new(3).unwrap(), Scores::Unary(numbers(3, 8))).unwrap();
    assert_eq!(Enumeration::default().k_best(&space, many, &run).unwrap().value.len(), 8);
    assert_eq!(Oracle::default().k_best(&space, many, &run).unwrap().value.len(), 8);
}

#[test]
fn a_sequence_without_paths_has_no_entropy() {
    let run = Run::default();
    let never = f64::NEG_INFINITY;
    let with = |emissions: Vec<f64>, batch: usize| {
        let transitions = Transitions::Shared(vec![0.0; 4].into());
        Chain::crf(2, emissions.into(), vec![2; batch], transitions).unwrap()
    };
    let none = with(vec![never; 4], 1);
    let mixed = with([vec![never; 4], vec![0.0; 4]].concat(), 2);
    for checkpoint in [false, true] {
        let method = ForwardBackward::default().checkpoint(checkpoint);
        assert!(matches!(method.log_partition(&none, &run), Err(Error::ZeroPartition)));
        assert!(matches!(method.entropy(&none, &run), Err(Error::ZeroPartition)));
        assert!(matches!(
            method.differentiate(Operation::Entropy, &[&none], &run),
            Err(Error::ZeroPartition)
        ));
        assert!(matches!(
            method.differentiate(Operation::Kl, &[&none, &none], &run),
            Err(Error::ZeroPartition)
        ));
        let (values, tape) = method.differentiate(Operation::Entropy, &[&mixed], &run).unwrap();
        assert_eq!(values, method.entropy(&mixed, &run).unwrap().value);
        assert!(values[0] == never && (values[1] - 4f64.ln()).abs() < 1e-12, "{values:?}");
        let gradient = tape.gradient(&[1.0, 1.0]).unwrap();
        assert!(gradient.emissions.iter().all(|x| x.is_finite()));
    }
    let found =
        answer(&mixed.into(), Query::Entropy, &Choice::parse("exact"), &Settings::new(), &run).unwrap();
    assert_eq!(found.numbers().unwrap()[0], never);
}

#[test]
fn a_hidden_markov_model_accepts_only_probabilities() {
    let build = |start: [f64; 2], transitions: [f64; 4], emissions: [f64; 4]| {
        Chain::hmm(&start, &transitions, &emissions, &[vec![0, 1]]).map_err(|error| error.to_string())
    };
    let (start, transitions, emissions) = ([0.4, 0.6], [0.9, 0.1, 0.2, 0.8], [1.0, 0.0, 0.5, 0.5]);
    assert!(build(start, transitions, emissions).is_ok());
    assert!(build([0.4, 0.60001], transitions, emissions).is_ok());
    let told = |found: Result<Chain, String>, want: &str| {
        let error = found.unwrap_err();
        assert!(error.contains(want), "{error}");
    };
    told(
        build([0.4, 0.5], transitions, emissions),
        "start: the probabilities sum to 0.9, expected 1 within 0.0001",
    );
    told(build(start, [0.9, 0.1, 0.5, 0.75], emissions), "transitions: row 1 sums to 1.25, expected 1");
    told(build(start, transitions, [0.5, 0.0, 0.5, 0.5]), "emissions: row 0 sums to 0.5, expected 1");
    let single = Chain::<f32>::hmm(&[0.5, 0.25], &[1.0, 0.0, 0.0, 1.0], &[1.0, 1.0], &[vec![0]]);
    assert!(single.is_err());
}
