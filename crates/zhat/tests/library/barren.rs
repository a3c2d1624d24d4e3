//! Barren variables: leaving them out is free and does not change log Z.

use crate::support::oracle::Oracle;
use zhat::exact::{Conditioning, Elimination, elimination_order};
use zhat::model::generate;
use zhat::random::Streams;
use zhat::{FactorGraph, Forecasts, LogPartition, Marginals, Query, Run};

/// The observed variables and their ancestors; in a generated network the last variable of a scope is the
/// child.
fn ancestors(network: &FactorGraph, evidence: &[(usize, usize)]) -> Vec<bool> {
    let mut needed = vec![false; network.variable_count()];
    evidence.iter().for_each(|&(v, _)| needed[v] = true);
    // Parents come before their children.
    for v in (0..network.variable_count()).rev().filter(|&v| v < network.factor_count()) {
        if needed[v] {
            network.factor(v).scope.iter().for_each(|&u| needed[u] = true);
        }
    }
    needed
}

fn evidence(network: &FactorGraph, count: usize, seed: u64) -> Vec<(usize, usize)> {
    let mut random = Streams::new(seed, "evidence").block(0);
    let mut variables: Vec<usize> = (0..network.variable_count()).collect();
    random.shuffle(&mut variables);
    variables.truncate(count);
    variables.into_iter().map(|v| (v, random.below(network.cardinalities()[v]))).collect()
}

#[test]
fn log_z_of_networks_agrees_with_plain_loops() {
    let run = Run::default();
    let mut left_out = 0;
    for seed in 0..300 {
        let deterministic = [0.0, 0.0, 0.4][seed as usize % 3];
        let network = generate::bayes(8, 2 + seed as usize % 2, 3, deterministic, seed).unwrap();
        let evidence = evidence(&network, seed as usize % 5, seed);
        let oracle = Oracle::given(&network, &evidence);
        if oracle.is_zero() {
            continue;
        }
        let given = network.condition(&evidence).unwrap();
        let methods: [&dyn LogPartition<FactorGraph>; 2] =
            [&Elimination::default(), &Conditioning::default()];
        for method in methods {
            let z = method.log_partition(&given, &run).unwrap();
            let allowance = z.diagnostics.rounding + oracle.allowance();
            let (got, want) = (z.value, oracle.log_partition());
            assert!((got - want).abs() <= allowance, "{seed}: {got}, want {want} ± {allowance:e}");
        }
        let barren = given.difficulty(&run).unwrap().barren;
        let others = ancestors(&network, &evidence).iter().filter(|needed| !**needed).count();
        if deterministic == 0.0 {
            assert_eq!(barren, others, "{seed} given {evidence:?}");
        }
        left_out += barren;
    }
    assert!(left_out > 500, "only {left_out}");
}

#[test]
fn a_wide_network_with_evidence_at_its_roots_is_easy() {
    let run = Run::default().with_memory(1 << 26);
    let network = generate::bayes(400, 2, 6, 0.0, 1).unwrap();
    assert!(elimination_order(&network).map_or(f64::INFINITY, |order| order.log2_table) > 40.0);
    let z = Elimination::default().log_partition(&network, &run).unwrap();
    assert!(z.value.abs() <= z.diagnostics.rounding, "{z}");
    assert_eq!(network.difficulty(&run).unwrap().barren, 400);
    let is_root = |&v: &usize| network.factor(v).scope.len() == 1;
    let roots: Vec<usize> = (0..400).filter(is_root).take(20).collect();
    assert!(roots.len() > 10);
    let evidence: Vec<(usize, usize)> = roots.iter().map(|&v| (v, v % 2)).collect();
    let given = network.condition(&evidence).unwrap();
    let want: f64 = roots.iter().map(|&v| network.factor(v).log_values[v % 2]).sum();
    let z = Elimination::default().log_partition(&given, &run).unwrap();
    assert!((z.value - want).abs() <= z.diagnostics.rounding, "{z}, want {want}");
    // Marginals need all variables and are infeasible.
    assert!(Elimination::default().marginals(&given, &run).is_err());
    let forecast = |query| Elimination::default().forecast(&given, query, &run);
    assert!(forecast(Query::LogPartition).seconds < 1.0 && forecast(Query::Marginals).seconds > 1e3);
}

#[test]
fn the_order_of_queries_does_not_matter() {
    let run = Run::default();
    let method = Elimination::default();
    for seed in 0..20 {
        let network = generate::bayes(30, 3, 2, 0.2, seed).unwrap();
        // A separate graph, for which nothing is cached.
        let fresh = || {
            let mut graph = FactorGraph::new(network.cardinalities().to_vec()).unwrap();
            network.factors().for_each(|f| assert!(graph.add_factor(f.scope, f.log_values).is_ok()));
            graph
        };
        let (first, second) = (fresh(), fresh());
        let z = method.log_partition(&first, &run).unwrap().value;
        let beliefs = method.marginals(&first, &run).unwrap().value;
        assert_eq!(method.marginals(&second, &run).unwrap().value, beliefs);
        assert_eq!(method.log_partition(&second, &run).unwrap().value, z);
    }
}

#[test]
fn constant_factors_are_left_out_only_for_log_z() {
    // Only a constant factor can be left out: log Z is computed on a reduced graph, factor marginals on the
    // whole graph.
    use zhat::FactorMarginals;
    let mut graph = FactorGraph::new(vec![2, 2, 2]).unwrap();
    for (scope, values) in [
        ([0, 1], [0.5, 1.0, -1.0, 0.0]),
        ([1, 2], [3.0; 4]),
        ([2, 0], [0.1, -0.3, 0.2, 1.0]),
        ([1, 2], [0.7, 0.1, 0.0, 2.0]),
    ] {
        graph.add_factor(&scope, &values).unwrap();
    }
    let (run, oracle) = (Run::default(), Oracle::new(&graph));
    let z = Elimination::default().log_partition(&graph, &run).unwrap();
    assert!((z.value - oracle.log_partition()).abs() <= z.diagnostics.rounding + oracle.allowance());
    assert_eq!(graph.difficulty(&run).unwrap().barren, 0);
    let tables = Elimination::default().factor_marginals(&graph, &run).unwrap().value;
    for (got, want) in tables.iter().zip(oracle.factor_marginals(&graph)) {
        got.iter().zip(&want).for_each(|(p, q)| assert!((p - q).abs() < 1e-14, "{got:?}, want {want:?}"));
    }
}
