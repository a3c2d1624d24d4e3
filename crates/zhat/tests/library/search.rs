//! Search against enumeration: clauses around the phase transition, colourings, weights with many zeros.

use crate::support::oracle::Oracle;
use crate::support::statistics::{ALARM, multinomial_tail};
use zhat::exact::{Elimination, Enumeration, Search};
use zhat::model::generate;
use zhat::random::{Stream, Streams};
use zhat::{Entropy, Error, FactorGraph, LogPartition, Map, Marginals, Run, Sample};

const ZERO: f64 = f64::NEG_INFINITY;

/// `clauses` random clauses of two or three literals over `n` variables, each a table with one zero; with
/// `weighted`, random unary factors are added.
fn clauses(n: usize, clauses: usize, weighted: bool, random: &mut Stream) -> FactorGraph {
    let mut graph = FactorGraph::new(vec![2; n]).unwrap();
    for _ in 0..clauses {
        let mut scope: Vec<usize> = (0..n).collect();
        random.shuffle(&mut scope);
        scope.truncate(if random.below(4) == 0 { 2 } else { 3 });
        let mut values = vec![0.0; 1 << scope.len()];
        values[random.below(1 << scope.len())] = ZERO;
        graph.add_factor(&scope, &values).unwrap();
    }
    for v in 0..if weighted { n } else { 0 } {
        graph.add_factor(&[v], &[random.normal(), 3.0 * random.normal()]).unwrap();
    }
    graph
}

/// Colourings of a random graph with some colours forbidden.
fn colouring(n: usize, colours: usize, edges: usize, random: &mut Stream) -> FactorGraph {
    let mut graph = FactorGraph::new(vec![colours; n]).unwrap();
    for _ in 0..edges {
        let a = random.below(n);
        let b = (a + 1 + random.below(n - 1)) % n;
        let differ = |i| if i / colours == i % colours { ZERO } else { 0.0 };
        graph.add_factor(&[a, b], &(0..colours * colours).map(differ).collect::<Vec<_>>()).unwrap();
    }
    let mut values = vec![0.5; colours];
    values[random.below(colours)] = ZERO;
    graph.add_factor(&[random.below(n)], &values).unwrap();
    graph
}

/// Random tables with many zero entries; the other entries take few values, so that independence occurs.
fn sparse(n: usize, factors: usize, random: &mut Stream) -> FactorGraph {
    let states: Vec<usize> = (0..n).map(|_| 1 + random.below(4)).collect();
    let mut graph = FactorGraph::new(states.clone()).unwrap();
    for _ in 0..factors {
        let mut scope: Vec<usize> = (0..n).collect();
        random.shuffle(&mut scope);
        scope.truncate(1 + random.below(3));
        let size = scope.iter().map(|&v| states[v]).product();
        let values: Vec<f64> = (0..size)
            .map(|_| if random.uniform() < 0.35 { ZERO } else { [0.0, 0.0, 1.5, -700.0][random.below(4)] })
            .collect();
        graph.add_factor(&scope, &values).unwrap();
    }
    graph
}

/// Compares log Z with enumeration and returns whether Z > 0.
fn agrees(name: &str, graph: &FactorGraph, run: &Run) -> bool {
    match (Enumeration::default().log_partition(graph, run), Search::default().log_partition(graph, run)) {
        (Ok(want), Ok(got)) => {
            let allowance = want.diagnostics.rounding + got.diagnostics.rounding;
            let (want, got) = (want.value, got.value);
            assert!((want - got).abs() <= allowance, "{name}: {got}, want {want} ± {allowance:e}");
            true
        }
        (Err(Error::ZeroPartition), Err(Error::ZeroPartition)) => false,
        (want, got) => panic!("{name}: {got:?}, want {want:?}"),
    }
}

#[test]
fn counts_around_the_phase_transition_are_exact() {
    let run = Run::default().with_threads(1);
    let (mut some, mut none) = (0, 0);
    for seed in 0..3000 {
        let mut random = Streams::new(seed, "phase transition").block(0);
        let n = 6 + random.below(9);
        let count = n * (15 + random.below(35)) / 10;
        let graph = clauses(n, count, seed % 4 == 0, &mut random);
        if agrees(&format!("clauses {seed}"), &graph, &run) { some += 1 } else { none += 1 }
    }
    assert!(some > 500 && none > 500, "{some} {none}");
}

#[test]
fn colourings_and_sparse_weights_are_exact() {
    let run = Run::default().with_threads(1);
    let (mut some, mut none) = (0, 0);
    for seed in 0..1500 {
        let mut random = Streams::new(seed, "colourings").block(0);
        let graph = match seed % 2 {
            0 => {
                let edges = 8 + random.below(18);
                colouring(8, 3 + seed as usize % 3 / 2, edges, &mut random)
            }
            _ => {
                let (n, factors) = (4 + random.below(6), 3 + random.below(9));
                sparse(n, factors, &mut random)
            }
        };
        if agrees(&format!("model {seed}"), &graph, &run) { some += 1 } else { none += 1 }
    }
    assert!(some > 300 && none > 300, "{some} {none}");
}

#[test]
fn every_query_is_exact_with_many_zeros() {
    let run = Run::default().with_threads(1);
    let (mut asked, mut drawn) = (0, 0);
    for seed in 0..400 {
        let mut random = Streams::new(seed, "all queries").block(0);
        let graph = match seed % 3 {
            0 => clauses(9, 24, seed % 2 == 0, &mut random),
            1 => colouring(6, 3, 8, &mut random),
            _ => sparse(6, 6, &mut random),
        };
        let oracle = Oracle::new(&graph);
        if oracle.is_zero() {
            assert!(matches!(Search::default().marginals(&graph, &run), Err(Error::ZeroPartition)));
            assert!(matches!(Search::default().map(&graph, &run), Err(Error::ZeroPartition)));
            continue;
        }
        asked += 1;
        let search = Search::default();
        let entropy = search.entropy(&graph, &run).unwrap();
        let allowance = entropy.diagnostics.rounding + oracle.allowance();
        let want = oracle.entropy();
        assert!((entropy.value - want).abs() <= (1.0 + 2.0 * want) * allowance, "entropy {seed}");
        let beliefs = search.marginals(&graph, &run).unwrap().value;
        for (got, want) in beliefs.iter().zip(oracle.marginals()) {
            for (p, q) in got.iter().zip(want) {
                assert!((p - q).abs() <= 2.0 * allowance * q + 1e-300, "marginal {seed}: {p}, want {q}");
            }
        }
        let best = search.map(&graph, &run).unwrap().value;
        assert!((best.score - oracle.best()).abs() <= allowance, "best {seed}");
        // For every fourth model, tests the distribution of many draws: at most 100 tests, each with a
        // false-alarm rate of 1e-8. A drawn state of weight zero is always a failure.
        let many = asked % 4 == 0;
        drawn += usize::from(many);
        let mut counts = vec![0; oracle.states.len()];
        let samples = search.sample(&graph, if many { 10_000 } else { 50 }, &run).unwrap().value;
        for state in samples.iter() {
            assert!(graph.score(state) > ZERO, "sample {seed}");
            // The oracle lists states with the last variable changing fastest.
            let place = state.iter().zip(graph.cardinalities()).fold(0, |at, (s, states)| at * states + s);
            counts[place] += 1;
        }
        let tail = multinomial_tail(&counts, &oracle.probabilities());
        assert!(!many || tail > ALARM, "samples {seed}: p-value at most {tail:e}");
    }
    assert!(asked > 150 && drawn > 40 && drawn <= 100, "{asked} {drawn}");
}

#[test]
fn larger_models_agree_with_elimination() {
    let run = Run::default();
    let mut answered = 0;
    for seed in 0..40 {
        let mut random = Streams::new(seed, "larger").block(0);
        let graph = match seed % 3 {
            0 => clauses(36, 70, true, &mut random),
            1 => generate::bayes(30, 3, 2, 0.2, seed).unwrap(),
            _ => colouring(20, 3, 28, &mut random),
        };
        let (Ok(want), got) = (
            Elimination::default().log_partition(&graph, &run),
            Search::default().log_partition(&graph, &run),
        ) else {
            continue;
        };
        let got = got.unwrap();
        let allowance = want.diagnostics.rounding + got.diagnostics.rounding;
        assert!((want.value - got.value).abs() <= allowance, "{seed}: {}, want {}", got.value, want.value);
        let want = Elimination::default().marginals(&graph, &run).unwrap().value;
        let got = Search::default().marginals(&graph, &run).unwrap().value;
        for (p, q) in got.as_slice().iter().zip(want.as_slice()) {
            assert!((p - q).abs() <= 1e-9, "{seed}: {p}, want {q}");
        }
        answered += 1;
    }
    assert!(answered > 15, "{answered}");
}

#[test]
fn large_scores_and_state_spaces_stay_finite() {
    // A long chain of equal variables with scores of ±1e4, and 20,000 variables without factors.
    let n = 2000;
    let mut graph = FactorGraph::new(vec![2; n + 20_000]).unwrap();
    for v in 1..n {
        graph.add_factor(&[v - 1, v], &[1e4, ZERO, ZERO, -1e4]).unwrap();
    }
    let z = Search::default().log_partition(&graph, &Run::default()).unwrap();
    let want = 1e4 * (n - 1) as f64 + 20_000.0 * std::f64::consts::LN_2;
    assert!((z.value - want).abs() <= z.diagnostics.rounding, "{} {want}", z.value);
    let best = Search::default().map(&graph, &Run::default()).unwrap().value;
    assert_eq!(best.score, 1e4 * (n - 1) as f64);
}
