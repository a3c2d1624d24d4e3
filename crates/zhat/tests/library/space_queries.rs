//! Combinatorial spaces: marginals and the k best structures, by every method that supports them.

use super::spaces::small;
use crate::support::structures::{Listed, events};
use zhat::catalogue::{Choice, Settings, answer};
use zhat::exact::Enumeration;
use zhat::internal::space::marginal_samples;
use zhat::query::AnyValue;
use zhat::space::{
    Cycles, Distance, Hypercube, Oracle, PerfectSampling, Permutations, Scores, SpaceModel, Subtrees,
};
use zhat::{BestState, Entropy, Error, FactorMarginals, Guarantee, KBest, Map, Marginals, Model, Query, Run};

fn name(model: &SpaceModel) -> String {
    format!("{} {} {:?}", model.space().name(), model.scores().name(), model.range())
}

#[test]
fn marginals_are_the_probabilities_of_events() {
    let run = Run::default();
    for seed in 0..12 {
        for (scale, tolerance) in [(0.0, 1e-12), (1.0, 1e-11), (1e4, 1e-6)] {
            for model in small(seed, scale) {
                let list = Listed::new(&model);
                let truth = list.marginals();
                for found in [
                    Oracle::default().marginals(&model, &run).unwrap(),
                    Enumeration::default().marginals(&model, &run).unwrap(),
                ] {
                    assert_eq!(found.guarantee, Guarantee::Exact);
                    assert_eq!(found.value.shape.iter().product::<usize>(), truth.len());
                    for (a, b) in found.value.values.iter().zip(&truth) {
                        assert!((a - b).abs() <= tolerance, "{}: {a} {b}", name(&model));
                        let allowed = found.value.radius + 4.0 * list.allowance;
                        assert!((a - b).abs() <= allowed, "{}: {a} {b} ± {allowed:e}", name(&model));
                        assert!((0.0..=1.0).contains(a), "{a}");
                    }
                    for (event, p) in events(model.structures().base()).into_iter().zip(&found.value.values) {
                        assert_eq!(found.value.probability(event), Some(*p));
                    }
                }
            }
        }
    }
}

/// Too large for enumeration: rows and columns sum to one, and for Hamming's distance the marginals agree
/// with E[d].
#[test]
fn marginals_of_large_rankings() {
    let n = 60;
    let reference: Vec<usize> = (0..n).map(|i| (i * 7 + 3) % n).collect();
    let run = Run::default();
    for distance in [Distance::Kendall, Distance::Cayley, Distance::Hamming] {
        for spread in [-0.2, 0.0, 0.3, 9.0] {
            let scores = Scores::distance(distance, &reference, spread).unwrap();
            let model = SpaceModel::new(Permutations::new(n).unwrap(), scores).unwrap();
            let p = Oracle::default().marginals(&model, &run).unwrap().value.values;
            for i in 0..n {
                let row: f64 = p[i * n..(i + 1) * n].iter().sum();
                let column: f64 = p.iter().skip(i).step_by(n).sum();
                assert!((row - 1.0).abs() < 1e-9 && (column - 1.0).abs() < 1e-9, "{distance:?} {spread}");
            }
            if distance == Distance::Hamming {
                let mean = -Oracle::default().factor_marginals(&model, &run).unwrap().value.values[0];
                let fixed: f64 = reference.iter().enumerate().map(|(place, item)| p[item * n + place]).sum();
                assert!((n as f64 - fixed - mean).abs() < 1e-9);
            }
        }
    }
    // With spread 0 all orders are equally likely, so positions are uniform.
    let flat = Scores::distance(Distance::Kendall, &reference, 0.0).unwrap();
    let model = SpaceModel::new(Permutations::new(n).unwrap(), flat).unwrap();
    let p = Oracle::default().marginals(&model, &run).unwrap().value.values;
    assert!(p.iter().all(|p| (p - 1.0 / n as f64).abs() < 1e-12));
}

#[test]
fn marginals_from_draws_are_within_their_radius() {
    let run = Run::default();
    for model in small(3, 0.6) {
        let truth = Listed::new(&model).marginals();
        let method = PerfectSampling::default().error(0.05).confidence(1.0 - 1e-9);
        let found = method.marginals(&model, &run).unwrap();
        let Guarantee::Bounds { low, high, confidence } = found.guarantee else { panic!() };
        assert!(low == 0.0 && high == found.value.radius && confidence == 1.0 - 1e-9);
        assert!(high <= 0.05 + 1e-9);
        for (a, b) in found.value.values.iter().zip(&truth) {
            assert!((a - b).abs() <= found.value.radius, "{}: {a} {b}", name(&model));
        }
        let same = method.marginals(&model, &run.clone().with_threads(1)).unwrap();
        assert_eq!(same.value, found.value);
    }
    // Hoeffding: 2m exp(−2Sε²) ≤ δ.
    let samples = marginal_samples(100.0, 0.05, 0.99);
    assert!(200.0 * (-2.0 * samples * 0.0025f64).exp() <= 0.01 && samples < 1990.0);
}

#[test]
fn entropies_from_draws_are_within_their_interval() {
    let run = Run::default();
    for seed in 0..3 {
        for model in small(seed, 0.4) {
            let truth = Listed::new(&model).entropy();
            let method = PerfectSampling::default().error(0.5).confidence(1.0 - 1e-9);
            let found = method.entropy(&model, &run).unwrap();
            let Guarantee::Bounds { low, high, .. } = found.guarantee else { panic!("{found}") };
            assert!(low <= truth && truth <= high, "{}: {found} {truth}", name(&model));
            assert!(high - low <= 1.2 && low <= found.value && found.value <= high, "{found}");
        }
    }
}

fn scores(ranked: &[BestState]) -> Vec<f64> {
    ranked.iter().map(|best| best.score).collect()
}

/// Compared with the sorted list of all structures: scores agree, structures belong to the space, and no two
/// are equal.
#[test]
fn the_k_best_agree_with_the_sorted_list() {
    let run = Run::default();
    for seed in 0..12 {
        for scale in [0.0, 1.0, 1e4] {
            for model in small(seed, scale) {
                let list = Listed::new(&model);
                let (all, places, want) = (&list.structures, list.places(), list.ranked());
                for k in [1, 2, 7, all.len(), all.len() + 3] {
                    for method in [&Oracle::default() as &dyn KBest<SpaceModel>, &Enumeration::default()] {
                        let found = method.k_best(&model, k, &run).unwrap();
                        assert_eq!(found.guarantee, Guarantee::Exact);
                        let ranked = &found.value;
                        assert_eq!(ranked.len(), k.min(all.len()), "{k} {}", name(&model));
                        for (a, b) in scores(ranked).iter().zip(&want) {
                            assert!((a - b).abs() <= 1e-11 * scale + 1e-12, "{k} {} {a} {b}", name(&model));
                        }
                        let mut states: Vec<Vec<usize>> =
                            ranked.iter().map(|best| best.state.clone()).collect();
                        for best in ranked {
                            let y: Vec<u32> = best.state.iter().map(|x| *x as u32).collect();
                            let score = list.scores[places[&y]];
                            assert!((score - best.score).abs() <= 1e-9 * scale + 1e-12, "{}", name(&model));
                        }
                        states.sort_unstable();
                        states.dedup();
                        assert_eq!(states.len(), ranked.len(), "{k} {}", name(&model));
                    }
                }
                assert!(Oracle::default().k_best(&model, 0, &run).unwrap().value.is_empty());
            }
        }
    }
}

/// Too large for enumeration: the first structure has the maximum score, scores do not increase, and
/// structures are valid and distinct.
#[test]
fn the_k_best_of_large_models() {
    let run = Run::default();
    let generate = zhat::model::generate::space;
    for (kind, size, scores_of) in [
        ("hypercube", 5000, "unary"),
        ("hypercube", 200, "pairwise"),
        ("subtree", 20_000, "unary"),
        ("permutation", 30, "position"),
        ("permutation", 40, "footrule"),
        ("permutation", 400, "kendall"),
        ("permutation", 400, "cayley"),
        ("permutation", 14, "precedence"),
        ("cycle", 11, "links"),
        ("partition", 11, "links"),
    ] {
        let model = generate(kind, size, scores_of, 1.0, 5).unwrap();
        let best = Oracle::default().map(&model, &run).unwrap().value;
        let ranked = Oracle::default().k_best(&model, 25, &run).unwrap().value;
        assert_eq!(ranked.len(), 25, "{kind}");
        assert!((ranked[0].score - best.score).abs() < 1e-9, "{kind} {}", best.score);
        assert!(ranked.windows(2).all(|pair| pair[0].score >= pair[1].score), "{kind}");
        for (i, one) in ranked.iter().enumerate() {
            let y: Vec<u32> = one.state.iter().map(|x| *x as u32).collect();
            model.space().check(&y).unwrap();
            assert!(ranked[..i].iter().all(|other| other.state != one.state), "{kind}");
        }
    }
    // Twenty labels with scores 1, 2, 4, …: the k best scores are 2²⁰ − 1, 2²⁰ − 2, ….
    let unary: Vec<f64> = (0..20).map(|i| f64::from(1 << i)).collect();
    let model = SpaceModel::new(Hypercube::new(20).unwrap(), Scores::Unary(unary)).unwrap();
    let ranked = Oracle::default().k_best(&model, 1000, &run).unwrap().value;
    let want: Vec<f64> = (0..1000).map(|k| f64::from((1 << 20) - 1 - k)).collect();
    assert_eq!(scores(&ranked), want);
    // The subtrees of a path are its prefixes.
    let path: Vec<Option<usize>> = (0..2000).map(|v: usize| v.checked_sub(1)).collect();
    let model =
        SpaceModel::new(Subtrees::new(&path, false).unwrap(), Scores::Unary(vec![-1.0; 2000])).unwrap();
    let ranked = Oracle::default().k_best(&model, 30, &run).unwrap().value;
    assert_eq!(scores(&ranked), (1..=30).map(|k| -f64::from(k)).collect::<Vec<_>>());
}

#[test]
fn every_space_supports_every_query_and_refusals_give_a_reason() {
    let run = Run::default();
    for model in small(6, 1.0) {
        let model: Model = model.into();
        for query in Query::ALL {
            let found = answer(&model, query, &Choice::Auto, &Settings::new(), &run).unwrap();
            match query {
                Query::Marginals => assert!(found.tensor("marginals").is_some()),
                Query::KBest(_) => assert!(matches!(found.value, AnyValue::Ranked(_))),
                _ => {}
            }
        }
    }
    // Too many cycles for exact sums or enumeration: marginals are estimated from draws, and k-best is
    // refused.
    let links = Scores::links(40, &[(0, 1, 1.0), (3, 7, -1.0)]).unwrap();
    let model = SpaceModel::new(Cycles::new(40).unwrap(), links).unwrap();
    let model: Model = model.into();
    let settings = Settings::from_iter([("error".to_string(), 0.05.into())]);
    let found = answer(&model, Query::Marginals, &Choice::Auto, &settings, &run).unwrap();
    assert_eq!(found.diagnostics.method, "perfect");
    let error = answer(&model, Query::KBest(2), &Choice::Named("oracle".into()), &Settings::new(), &run);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("too many") || error.contains("memory"), "{error}");
    assert!(matches!(
        answer(&model, Query::KBest(2), &Choice::Auto, &Settings::new(), &run),
        Err(Error::OverBudget { .. })
    ));
}
