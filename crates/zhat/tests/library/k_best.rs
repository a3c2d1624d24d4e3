//! The k best states, against the sorted list of all states.

use zhat::exact::{Elimination, Enumeration};
use zhat::internal::numeric::rounding_allowance;
use zhat::{Answer, BestState, Error, FactorGraph, KBest, Run};

/// Every state of positive weight with its score, best first.
fn sorted(graph: &FactorGraph) -> Vec<(f64, Vec<usize>)> {
    let mut states = vec![vec![]];
    for &cardinality in graph.cardinalities() {
        let extend = |state: Vec<usize>| {
            (0..cardinality).map(move |s| state.iter().copied().chain([s]).collect::<Vec<usize>>())
        };
        states = states.into_iter().flat_map(extend).collect();
    }
    let mut scored: Vec<(f64, Vec<usize>)> =
        states.into_iter().map(|state| (graph.score(&state), state)).collect();
    scored.retain(|(score, _)| *score > f64::NEG_INFINITY);
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    scored
}

fn ask(method: usize, graph: &FactorGraph, k: usize) -> zhat::Result<Answer<Vec<BestState>>> {
    let run = Run::default();
    if method == 0 {
        Elimination::default().k_best(graph, k, &run)
    } else {
        Enumeration::default().k_best(graph, k, &run)
    }
}

#[test]
fn the_k_best_are_the_first_of_all_states() {
    for (name, graph) in crate::support::small_models(70) {
        let want = sorted(&graph);
        let largest = want.first().map_or(0.0, |best| best.0.abs());
        let allowed = rounding_allowance(4.0 * graph.factor_count() as f64, 10.0 * largest.max(1e4));
        for k in [1, 2, 7, 40, 10_000] {
            for method in [0, 1] {
                let got = ask(method, &graph, k).unwrap().value;
                assert_eq!(got.len(), k.min(want.len()), "{name}: method {method}, k = {k}");
                let mut seen = std::collections::HashSet::new();
                for (got, want) in got.iter().zip(&want) {
                    assert!((got.score - want.0).abs() <= allowed, "{name}: {} and {}", got.score, want.0);
                    assert_eq!(graph.score(&got.state), got.score, "{name}");
                    assert!(seen.insert(got.state.clone()), "{name}: a state comes twice");
                }
            }
        }
    }
}

#[test]
fn k_zero_gives_no_states_and_zero_weight_is_an_error() {
    let (_, graph) = crate::support::small_models(1).swap_remove(0);
    let mut zero = FactorGraph::new(vec![2]).unwrap();
    zero.add_factor(&[0], &[f64::NEG_INFINITY; 2]).unwrap();
    for method in [0, 1] {
        assert!(ask(method, &graph, 0).unwrap().value.is_empty());
        assert!(matches!(ask(method, &zero, 3), Err(Error::ZeroPartition)));
    }
}
