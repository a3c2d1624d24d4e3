//! Pairwise graphs with many states: message passing against enumeration, and randomized estimates against
//! the exact value.

use crate::support::oracle::{log_sum_exp, states as states_of};
use zhat::Real;
use zhat::dynamic::{Selection, States};
use zhat::messages::BeliefPropagation;
use zhat::messages::{GraphProposal, PairwisePropagation, RandomizedMessages};
use zhat::model::{FactorGraph, PairwiseGradient, PairwiseGraph, Transitions};
use zhat::query::TransitionGradient;
use zhat::random::Streams;
use zhat::{Entropy, Error, FactorMarginals, Guarantee, LogPartition, Marginals, Run, exact};

/// A random graph. `seed % 6` in 0 to 2 gives a forest with shared, per-edge and factored interactions, 3 to
/// 5 the same with cycles.
fn random_graph<F: Real>(
    seed: u64,
    variables: usize,
    states: usize,
    zeros: f64,
    strength: f64,
) -> PairwiseGraph<F> {
    let mut random = Streams::new(seed, "pairwise tests").block(0);
    let loopy = seed % 6 >= 3;
    let mut edges = Vec::new();
    for v in 1..variables {
        let u = random.below(v);
        // Some variables have no edge.
        if random.uniform() < 0.9 {
            edges.push(if random.uniform() < 0.5 { (u, v) } else { (v, u) });
        }
    }
    if loopy && variables > 2 {
        edges.push((0, variables - 1));
        edges.push((variables - 2, variables - 1));
    }
    let mut scores = |n: usize, zeros: f64| -> Vec<F> {
        let score = |_| {
            if random.uniform() < zeros { F::NEG_INFINITY } else { F::from_f64(strength * random.normal()) }
        };
        (0..n).map(score).collect()
    };
    let interactions = match seed % 3 {
        0 => Transitions::Shared(scores(states * states, zeros).into()),
        1 => Transitions::PerStep(scores(edges.len() * states * states, zeros).into()),
        _ => Transitions::Factored {
            left: scores(states * 2, 0.0).into(),
            right: Some(scores(states * 2, 0.0).into()),
        },
    };
    PairwiseGraph::new(states, scores(variables * states, zeros).into(), edges, interactions).unwrap()
}

fn enumerate(graph: &FactorGraph) -> Result<f64, Error> {
    Ok(exact::Enumeration::default().log_partition(graph, &Run::default())?.value)
}

fn forests_agree<F: Real>(tolerance: f64) {
    let run = Run::default();
    for seed in 0..120 {
        if seed % 6 >= 3 {
            continue;
        }
        for (zeros, strength) in [(0.0, 1.0), (0.5, 2.0), (0.0, if seed % 3 == 2 { 30.0 } else { 1e4 })] {
            let (variables, states) = (1 + seed as usize % 5, 1 + seed as usize / 7 % 4);
            let graph = random_graph::<F>(seed, variables, states, zeros, strength);
            let whole = graph.to_factor_graph().unwrap();
            let bp = PairwisePropagation::default();
            let want = match enumerate(&whole) {
                Err(Error::ZeroPartition) => {
                    assert!(matches!(bp.log_partition(&graph, &run), Err(Error::ZeroPartition)), "{seed}");
                    continue;
                }
                other => other.unwrap(),
            };
            let got = bp.log_partition(&graph, &run).unwrap();
            assert_eq!(got.guarantee, Guarantee::Exact);
            assert!(
                (got.value - want).abs() <= got.diagnostics.rounding + 1e-12 * want.abs(),
                "{seed}: {} {want}",
                got.value
            );
            // The gradient consists of the marginals of nodes and edges.
            let beliefs = exact::Enumeration::default().factor_marginals(&whole, &run).unwrap().value;
            let gradient = bp.factor_marginals(&graph, &run).unwrap().value;
            let scale = tolerance * (1.0 + strength);
            for v in 0..variables {
                let want = beliefs.factor(v);
                let got = &gradient.nodes[v * states..(v + 1) * states];
                assert!(
                    got.iter().zip(want).all(|(a, b)| (a.to_f64() - b).abs() < scale),
                    "{seed}: {got:?} {want:?}"
                );
            }
            if let TransitionGradient::PerStep(tables) = &gradient.interactions {
                for e in 0..graph.edges().len() {
                    let want = beliefs.factor(variables + e);
                    let got = &tables[e * states * states..(e + 1) * states * states];
                    assert!(got.iter().zip(want).all(|(a, b)| (a.to_f64() - b).abs() < scale), "{seed}");
                }
            }
            let entropy = exact::Enumeration::default().entropy(&whole, &run).unwrap().value;
            let got = bp.entropy(&graph, &run).unwrap().value;
            assert!((got - entropy).abs() <= scale * (1.0 + want.abs()), "{seed}: {got} {entropy}");
        }
    }
}

#[test]
fn messages_on_forests_are_exact() {
    forests_agree::<f64>(1e-10);
    forests_agree::<f32>(2e-4);
}

/// The Bethe approximation of log Z, computed at every state: score(x) − Σ_edges ln b_uv + Σ_v (d_v − 1)·ln
/// b_v. At a fixed point of belief propagation the value is the same for every state. Returns the minimum and
/// the maximum over all states.
fn bethe(graph: &PairwiseGraph<f64>, beliefs: &PairwiseGradient<f64>) -> (f64, f64) {
    let (states, edges) = (graph.states(), graph.edges());
    let TransitionGradient::PerStep(tables) = &beliefs.interactions else { panic!() };
    let mut degrees = vec![0.0; graph.variables()];
    edges.iter().for_each(|&(u, v)| [u, v].iter().for_each(|w| degrees[*w] += 1.0));
    let whole = graph.to_factor_graph().unwrap();
    let log_z = |x: &Vec<usize>| {
        let pair = |(e, &(u, v)): (usize, &(usize, usize))| tables[(e * states + x[u]) * states + x[v]].ln();
        let pairs: f64 = edges.iter().enumerate().map(pair).sum();
        let single = |v: usize| (degrees[v] - 1.0) * beliefs.nodes[v * states + x[v]].ln();
        whole.score(x) - pairs + (0..x.len()).map(single).sum::<f64>()
    };
    let all = states_of(&whole).iter().map(log_z).collect::<Vec<f64>>();
    all.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(*x), high.max(*x)))
}

/// With cycles there is no guarantee, but converged messages are a fixed point and log Z is the Bethe
/// approximation there.
#[test]
fn on_cycles_log_z_is_the_bethe_approximation_also_with_all_states_kept() {
    let run = Run::default();
    let mut checked = 0;
    for seed in 0..60 {
        if seed % 6 < 3 {
            continue;
        }
        let graph = random_graph::<f64>(seed, 5, 4, 0.0, 0.7);
        let method = PairwisePropagation::default().tolerance(1e-12).iterations(10_000);
        let bp = method.log_partition(&graph, &run).unwrap();
        assert!(matches!(bp.guarantee, Guarantee::Heuristic { .. }));
        assert!(bp.diagnostics.figures().any(|(name, value)| name == "converged" && value == true), "{seed}");
        let whole = graph.to_factor_graph().unwrap();
        // Another implementation for the same fixed point, which is unique for interactions this weak.
        let other = BeliefPropagation::default().tolerance(1e-12).iterations(10_000);
        let want = other.log_partition(&whole, &run).unwrap().value;
        assert!((bp.value - want).abs() < 1e-9, "{seed}: {} {want}", bp.value);
        if matches!(graph.interactions(), Transitions::PerStep(_)) {
            let beliefs = method.factor_marginals(&graph, &run).unwrap().value;
            let (low, high) = bethe(&graph, &beliefs);
            assert!((low - bp.value).abs() < 1e-8 && (high - bp.value).abs() < 1e-8, "{seed}: {low} {high}");
            checked += 1;
        }
        let all = RandomizedMessages::default()
            .states(States::Count(4))
            .replicates(1)
            .tolerance(1e-12)
            .iterations(10_000);
        let got = all.log_partition(&graph, &run).unwrap().value;
        assert!((got - bp.value).abs() < 1e-9, "{seed}: {got} {}", bp.value);
        let marginals = all.marginals(&graph, &run).unwrap().value;
        for v in 0..5 {
            let total: f64 = marginals.variable(v).iter().sum();
            assert!((total - 1.0).abs() < 1e-9);
        }
    }
    assert_eq!(checked, 10);
}

/// 60 z-tests, |z| < 6 each: a false-alarm rate of 2e-9 each and 1.2e-7 in total. A replicate that misses all
/// states of positive weight counts as an estimate of 0, so no run may return an error.
#[test]
fn estimates_on_forests_are_unbiased() {
    let mut tried = 0;
    for seed in [0u64, 1, 2, 6, 7, 8] {
        let zeros = if seed >= 6 { 0.4 } else { 0.0 };
        let graph = random_graph::<f64>(seed, 6, 12, zeros, 1.0);
        let whole = graph.to_factor_graph().unwrap();
        let want = exact::Elimination::default().log_partition(&whole, &Run::default()).unwrap().value;
        for proposal in [
            GraphProposal::Uniform,
            GraphProposal::Local,
            GraphProposal::Global,
            GraphProposal::LocalGlobal,
            GraphProposal::Guided,
        ] {
            for selection in [Selection::Threshold, Selection::Draws] {
                let method = RandomizedMessages::default()
                    .states(States::Count(4))
                    .proposal(proposal)
                    .selection(selection)
                    .top(Some(2))
                    .replicates(1000);
                let run = Run::default().with_seed(seed + 17);
                let got = method.log_partition(&graph, &run).unwrap();
                let Guarantee::Unbiased { relative_std_error, .. } = got.guarantee else { panic!() };
                // If every replicate were 0 there would be no standard error and nothing to compare.
                assert!(relative_std_error < 1.0, "{seed} {proposal:?} {selection:?}: {got}");
                let ratio = (got.value - want).exp();
                let z = (ratio - 1.0) / relative_std_error.max(1e-9);
                assert!(z.abs() < 6.0, "{seed} {proposal:?} {selection:?}: {ratio} ± {relative_std_error}");
                tried += 1;
            }
        }
    }
    assert_eq!(tried, 60);
}

/// If all replicates miss, the estimate of Z is 0, its logarithm is −∞, and the result carries a warning.
#[test]
fn an_estimate_of_zero_is_not_an_error() {
    // One state of 400 has a positive weight, and the uniform proposal keeps two states.
    let mut nodes = vec![f64::NEG_INFINITY; 800];
    (nodes[137], nodes[400 + 211]) = (0.0, 0.0);
    let table = Transitions::Shared(vec![0.0; 160_000].into());
    let graph = PairwiseGraph::new(400, nodes.into(), vec![(0, 1)], table).unwrap();
    let method =
        RandomizedMessages::default().states(States::Count(2)).proposal(GraphProposal::Uniform).replicates(2);
    // Each of the two replicates hits with probability at most 4·(2/400)²; the default seed misses.
    let z = method.log_partition(&graph, &Run::default()).unwrap();
    assert_eq!(z.value, f64::NEG_INFINITY);
    assert!(z.diagnostics.figures().any(|(name, _)| name == "warning"), "{z}");
    assert!(matches!(method.marginals(&graph, &Run::default()), Err(Error::NoAnswer(_))));
}

#[test]
fn guided_choices_need_fewer_states() {
    // A tree of 40 variables with 2000 states each, factored.
    let mut random = Streams::new(5, "pairwise tests").block(1);
    let (variables, states, rank) = (40, 2000, 8);
    let mut normal =
        |n: usize, s: f64| -> Vec<f32> { (0..n).map(|_| (s * random.normal()) as f32).collect() };
    let interactions = Transitions::Factored { left: normal(states * rank, 0.5).into(), right: None };
    let edges = (1..variables).map(|v| ((v - 1) / 2, v)).collect();
    let graph =
        PairwiseGraph::new(states, normal(variables * states, 1.5).into(), edges, interactions).unwrap();
    let run = Run::default();
    let want = PairwisePropagation::default().log_partition(&graph, &run).unwrap().value;
    let mut errors = Vec::new();
    for (proposal, count) in [
        (GraphProposal::LocalGlobal, 50),
        (GraphProposal::Guided, 50),
        (GraphProposal::Guided, 200),
        (GraphProposal::Guided, 800),
    ] {
        let method =
            RandomizedMessages::default().states(States::Count(count)).proposal(proposal).replicates(12);
        let got = method.log_partition(&graph, &run).unwrap();
        let Guarantee::Unbiased { relative_std_error, .. } = got.guarantee else { panic!() };
        assert!((got.value - want).abs() < 8.0 * relative_std_error + 0.01, "{} {want}", got.value);
        errors.push(relative_std_error);
    }
    assert!(errors[1] < 0.5 * errors[0] && errors[2] < errors[1] && errors[3] < errors[2], "{errors:?}");
}

#[test]
fn relaxed_samples_are_distributions_and_become_hard_at_low_temperature() {
    let graph = random_graph::<f64>(4, 6, 20, 0.0, 1.0);
    let method = RandomizedMessages::default().states(States::Count(8));
    let warm = method.relaxed_samples(&graph, 5, 1.0, &Run::default()).unwrap();
    let cold = method.relaxed_samples(&graph, 5, 1e-3, &Run::default()).unwrap();
    for sample in warm.iter().chain(&cold) {
        for (states, values) in sample.states.iter().zip(&sample.values) {
            assert!(states.len() == values.len() && (values.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        }
    }
    let largest = |values: &Vec<f64>| values.iter().copied().fold(0.0, f64::max);
    assert!(cold.iter().flat_map(|s| &s.values).filter(|v| largest(v) > 0.99).count() >= 25);
    assert!(method.relaxed_samples(&graph, 1, 0.0, &Run::default()).is_err());
}

#[test]
fn without_edges_relaxed_samples_follow_the_model() {
    // At a low temperature the largest entry is an exact draw. χ² test with 9 degrees of freedom; the 1e-7
    // quantile is 49.6.
    let scores: Vec<f64> = (0..10).map(|k| 0.3 * k as f64).collect();
    let graph =
        PairwiseGraph::new(10, scores.clone().into(), vec![], Transitions::Shared(vec![0.0; 100].into()))
            .unwrap();
    let method = RandomizedMessages::default().states(States::Count(10)).replicates(1);
    let samples = method.relaxed_samples(&graph, 5000, 1e-4, &Run::default()).unwrap();
    let mut counts = vec![0.0; 10];
    for sample in &samples {
        let best = (0..10).max_by(|&a, &b| sample.values[0][a].total_cmp(&sample.values[0][b])).unwrap();
        counts[sample.states[0][best] as usize] += 1.0;
    }
    let log_z = log_sum_exp(&scores);
    let chi: f64 = (0..10)
        .map(|k| (scores[k] - log_z).exp() * 5000.0)
        .zip(&counts)
        .map(|(e, c)| (c - e).powi(2) / e)
        .sum();
    assert!(chi < 49.6, "{chi}");
}

#[test]
fn threads_do_not_change_the_result() {
    for seed in [2u64, 5] {
        let graph = random_graph::<f32>(seed, 8, 100, 0.0, 1.0);
        let method = RandomizedMessages::default().states(States::Count(70));
        let one = method.log_partition(&graph, &Run::default().with_threads(1)).unwrap().value;
        for threads in [2, 3] {
            let run = Run::default().with_threads(threads);
            assert_eq!(one.to_bits(), method.log_partition(&graph, &run).unwrap().value.to_bits());
        }
    }
}

#[test]
fn errors_name_the_fault_of_a_graph() {
    let tables = || Transitions::Shared(vec![0.0; 4].into());
    let error = |result: zhat::Result<PairwiseGraph>| result.unwrap_err().to_string();
    assert!(error(PairwiseGraph::new(2, vec![0.0; 3].into(), vec![], tables())).contains("V × N"));
    assert!(error(PairwiseGraph::new(2, vec![0.0; 4].into(), vec![(0, 2)], tables())).contains("edge 0"));
    assert!(error(PairwiseGraph::new(2, vec![0.0; 4].into(), vec![(1, 1)], tables())).contains("edge 0"));
    assert!(error(PairwiseGraph::new(2, vec![f64::NAN; 4].into(), vec![], tables())).contains("NaN"));
    let graph = PairwiseGraph::new(2, vec![0.0; 4].into(), vec![(0, 1)], tables()).unwrap();
    let seen = graph.observe(&[(0, 1)]).unwrap();
    let log_z = PairwisePropagation::default().log_partition(&seen, &Run::default()).unwrap().value;
    assert!((log_z - 2f64.ln()).abs() < 1e-12);
    assert!(graph.observe(&[(0, 2)]).is_err());
}
