//! Queries with one run prepare a model once, and results do not depend on the cache.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use zhat::exact::{Elimination, Search};
use zhat::model::generate::{self, Grid};
use zhat::random::Streams;
use zhat::{Cache, Error, FactorGraph, Forecasts, LogPartition, Marginals, Query, Run};

fn grid(seed: u64) -> FactorGraph {
    generate::ising(Grid { rows: 4, columns: 5, torus: false }, 1.0, 1.0, false, seed).unwrap()
}

fn log_z(graph: &FactorGraph, run: &Run) -> f64 {
    Elimination::default().log_partition(graph, run).unwrap().value
}

#[test]
fn queries_with_one_run_prepare_once() {
    let (graph, run) = (grid(1), Run::default());
    assert!(run.cache().is_empty());
    let z = log_z(&graph, &run);
    let prepared = run.cache().len();
    assert!(prepared > 0);
    assert_eq!(log_z(&graph, &run), z);
    // A clone of the graph, other methods, and a run with another seed and other budgets use the same cache
    // entries.
    let other = run.clone().with_seed(7).with_threads(1).with_time(Duration::from_secs(1000));
    assert_eq!(log_z(&graph.clone(), &other), z);
    Search::default().log_partition(&graph, &run).unwrap();
    Elimination::default().marginals(&graph, &run).unwrap();
    assert_eq!(graph.difficulty(&run).unwrap().free, 20);
    assert_eq!(run.cache().len(), prepared);
    // A new run has its own cache.
    assert!(Run::default().cache().is_empty());
    run.cache().clear();
    assert!(other.cache().is_empty());
    assert_eq!(log_z(&graph, &run), z);
}

#[test]
fn clones_of_a_graph_share_cache_entries() {
    let (graph, run) = (grid(2), Run::default());
    let clone = graph.clone();
    let z = log_z(&clone, &run);
    let prepared = run.cache().len();
    drop(clone);
    assert_eq!((run.cache().len(), log_z(&graph, &run)), (prepared, z));
    assert_eq!(run.cache().len(), prepared);
}

#[test]
fn a_dropped_graph_leaves_no_cache_entries() {
    let cache = Cache::default();
    let run = Run::default().with_cache(cache.clone());
    let graph = grid(3);
    log_z(&graph, &run);
    let one = cache.len();
    for v in 0..20 {
        log_z(&graph.condition(&[(v, 1)]).unwrap(), &run);
        assert_eq!(cache.len(), one);
    }
    drop(graph);
    assert!(cache.is_empty());
}

#[test]
fn a_changed_graph_is_prepared_anew() {
    let run = Run::default();
    let mut graph = grid(4);
    let before = graph.clone();
    let z = log_z(&graph, &run);
    for v in 0..5 {
        graph.add_factor(&[v], &[0.5, f64::NEG_INFINITY]).unwrap();
        let changed = log_z(&graph, &run);
        assert_ne!(changed, z);
        assert_eq!(changed, log_z(&graph, &Run::default()));
    }
    assert_eq!(log_z(&before, &run), z);
    // Equality compares data only.
    assert_ne!(graph, before);
    assert_eq!(before, grid(4));
}

#[test]
fn graphs_with_other_tables_share_the_order_only() {
    let (template, run) = (grid(5), Run::default());
    let size: usize = template.factors().map(|factor| factor.log_values.len()).sum();
    let with =
        |x: f64| template.reweighted(&(0..size).map(|i| (x * i as f64).sin()).collect::<Vec<f64>>()).unwrap();
    let (first, second) = (with(1.0), with(2.0));
    let values = [log_z(&first, &run), log_z(&second, &run)];
    assert_ne!(values[0], values[1]);
    for (graph, value) in [(first, values[0]), (second, values[1])] {
        assert_eq!(log_z(&graph, &Run::default()), value);
    }
    // The order is kept as long as a graph with these scopes exists.
    assert_eq!(run.cache().len(), 1);
    log_z(&with(3.0), &run);
    assert_eq!(run.cache().len(), 1);
    let mut other = with(4.0);
    other.add_factor(&[0, 19], &[0.0, 1.0, 1.0, 0.0]).unwrap();
    assert_eq!(log_z(&other, &run), log_z(&other, &Run::default()));
    drop((template, other));
    assert!(run.cache().is_empty());
}

#[test]
fn stopped_work_leaves_no_cache_entries() {
    let graph = grid(6);
    let stopped = Run::default().with_cancel(Arc::new(AtomicBool::new(true)));
    let late = Run::default().with_time(Duration::ZERO);
    for run in [stopped, late] {
        Elimination::default().log_partition(&graph, &run).unwrap_err();
        assert!(run.cache().is_empty());
    }
}

#[test]
fn a_cached_answer_keeps_to_the_budgets_of_every_run() {
    // Random clauses of large width with few satisfying states. The forecast runs a trial search, which
    // finishes for this model.
    let mut random = Streams::new(1, "cached answer").block(0);
    let mut graph = FactorGraph::new(vec![2; 60]).unwrap();
    for _ in 0..200 {
        let mut scope: Vec<usize> = (0..60).collect();
        random.shuffle(&mut scope);
        let mut values = [0.0; 8];
        values[random.below(8)] = f64::NEG_INFINITY;
        graph.add_factor(&scope[..3], &values).unwrap();
    }
    let (run, search) = (Run::default(), Search::default());
    search.forecast(&graph, Query::LogPartition, &run);
    let answers = [(); 2].map(|()| search.log_partition(&graph, &run).unwrap());
    // The search is not repeated: the reported time is that of the trial.
    assert_eq!(answers[0].diagnostics.seconds, answers[1].diagnostics.seconds);
    let own = search.log_partition(&graph, &Run::default()).unwrap();
    assert!(answers.iter().all(|answer| answer.value == own.value));
    let small = run.clone().with_memory(1);
    assert!(matches!(search.log_partition(&graph, &small), Err(Error::OverBudget { .. })));
    let stopped = run.with_cancel(Arc::new(AtomicBool::new(true)));
    assert!(matches!(search.log_partition(&graph, &stopped), Err(Error::Interrupted)));
}
