//! Cutset conditioning agrees with elimination for any memory limit.

use zhat::exact::{Conditioning, Elimination};
use zhat::model::generate::{self, GraphShape, Grid};
use zhat::{
    Entropy, Error, FactorGraph, FactorMarginals, Forecasts, LogPartition, Map, Marginals, Query, Run, Sample,
};

fn models() -> Vec<(String, FactorGraph)> {
    let mut models = crate::support::small_models(28);
    for seed in 0..2 {
        let grid = Grid { rows: 13, columns: 13, torus: false };
        models.push((format!("grid {seed}"), generate::ising(grid, 1.0, 0.5, false, seed).unwrap()));
        models.push((
            format!("torus {seed}"),
            generate::potts(Grid { rows: 4, columns: 9, torus: true }, 3, 1.0, 0.5, false, seed).unwrap(),
        ));
        models.push((
            format!("zeros {seed}"),
            generate::random(
                &GraphShape { variables: 50, factors: 70, arity: 3, zeros: 0.4, ..Default::default() },
                seed,
            )
            .unwrap(),
        ));
        models.push((format!("network {seed}"), generate::bayes(60, 2, 4, 0.3, seed).unwrap()));
        let network = generate::bayes(60, 2, 4, 0.0, seed).unwrap();
        let leaves: Vec<(usize, usize)> = (40..60).map(|v| (v, v % 2)).collect();
        models.push((format!("network {seed}, given its leaves"), network.condition(&leaves).unwrap()));
    }
    models
}

/// Runs with decreasing memory limits, all below the forecast of elimination for a query.
fn tight(graph: &FactorGraph, query: Query) -> Vec<Run> {
    let wanted = Elimination::default().forecast(graph, query, &Run::default()).bytes;
    [0.9, 0.7, 0.5].map(|share| Run::default().with_memory((wanted * share) as u64)).to_vec()
}

#[test]
fn every_query_agrees_with_elimination() {
    let (whole, parts, run) = (Elimination::default(), Conditioning::default(), Run::default());
    let (mut cases, mut together) = (0.0, 0);
    for (name, graph) in models() {
        let z = whole.log_partition(&graph, &run).unwrap();
        let beliefs = whole.marginals(&graph, &run).unwrap().value;
        let tables = whole.factor_marginals(&graph, &run).unwrap().value;
        let entropy = whole.entropy(&graph, &run).unwrap().value;
        let best = whole.map(&graph, &run).unwrap().value;
        for i in 0..3 {
            match parts.log_partition(&graph, &tight(&graph, Query::LogPartition)[i]) {
                Ok(got) => {
                    let allowed = z.diagnostics.rounding + got.diagnostics.rounding;
                    assert!((got.value - z.value).abs() <= allowed, "{name}: {} and {}", got.value, z.value);
                    let figures: Vec<_> = got.diagnostics.figures().collect();
                    cases +=
                        figures.iter().find(|(name, _)| *name == "cases").unwrap().1.as_f64().unwrap() - 1.0;
                }
                Err(error) => assert!(matches!(error, Error::OverBudget { .. }), "{name}: {error}"),
            }
            if let Ok(got) = parts.marginals(&graph, &tight(&graph, Query::Marginals)[i]) {
                for (p, q) in got.value.as_slice().iter().zip(beliefs.as_slice()) {
                    assert!((p - q).abs() <= 1e-11, "{name}: {p} and {q}");
                }
            }
            if let Ok(got) = parts.factor_marginals(&graph, &tight(&graph, Query::FactorMarginals)[i]) {
                together += 1;
                for (p, q) in got.value.as_slice().iter().zip(tables.as_slice()) {
                    assert!((p - q).abs() <= 1e-11, "{name}: {p} and {q}");
                }
            }
            if let Ok(got) = parts.entropy(&graph, &tight(&graph, Query::Entropy)[i]) {
                assert!((got.value - entropy).abs() <= 1e-10, "{name}: {} and {entropy}", got.value);
            }
            if let Ok(got) = parts.map(&graph, &tight(&graph, Query::Map)[i]) {
                let allowed = 2.0 * z.diagnostics.rounding;
                assert!((got.value.score - best.score).abs() <= allowed, "{name}: {}", got.value.score);
                assert_eq!(graph.score(&got.value.state), got.value.score, "{name}");
            }
        }
    }
    assert!(cases > 40.0, "only {cases} cases were gone through");
    assert!(together > 10, "factor marginals only {together} times");
}

#[test]
fn samples_follow_the_marginals() {
    let graph = generate::ising(Grid { rows: 13, columns: 13, torus: false }, 0.7, 0.5, false, 5).unwrap();
    let count = 2_000;
    let run = &tight(&graph, Query::Sample(count))[0];
    let samples = Conditioning::default().sample(&graph, count, run).unwrap().value;
    let beliefs = Elimination::default().marginals(&graph, &Run::default()).unwrap().value;
    for v in 0..graph.variable_count() {
        let ups = samples.iter().filter(|state| state[v] == 1).count() as f64;
        let p = beliefs.variable(v)[1];
        let deviation = (ups - count as f64 * p) / (count as f64 * p * (1.0 - p)).sqrt();
        // Six standard deviations: a false-alarm rate of 2·10⁻⁹ per variable.
        assert!(deviation.abs() < 6.0, "variable {v}: {ups} of {count}, expected {p}");
    }
}

#[test]
fn an_infeasible_model_is_refused() {
    let graph = generate::ising(Grid { rows: 40, columns: 40, torus: false }, 1.0, 0.5, false, 1).unwrap();
    let error =
        Conditioning::default().log_partition(&graph, &Run::default().with_memory(1 << 26)).unwrap_err();
    assert!(matches!(error, Error::OverBudget { .. }), "{error}");
}
