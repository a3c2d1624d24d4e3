//! Belief propagation and the tree-reweighted bound against plain loops over all states.

use std::ops::ControlFlow;
use std::time::Duration;

use crate::support::oracle::Oracle;
use zhat::messages::{BeliefPropagation, Schedule, TreeReweighted};
use zhat::model::generate::{self, GraphShape, Grid};
use zhat::random::Streams;
use zhat::{
    Entropy, Error, FactorGraph, FactorMarginals, Guarantee, LogPartition, Map, Marginals, Promise, Run,
};

const ZERO: f64 = f64::NEG_INFINITY;
/// Probabilities below this may be flushed to 0: `exp` has no subnormal results.
const TINY: f64 = 1e-300;

/// A forest of factors over 0 to 4 variables, with zeros, ties and scores of any magnitude.
fn random_forest(seed: u64) -> FactorGraph {
    let mut random = Streams::new(seed, "random forests").block(0);
    let n = 1 + random.below(7);
    let mut graph = FactorGraph::new((0..n).map(|_| 1 + random.below(3)).collect()).unwrap();
    let scale = [0.0, 1.0, 3.0, 1e4][random.below(4)];
    let zeros = [0.0, 0.3, 0.75][random.below(3)];
    let mut component: Vec<usize> = (0..n).collect();
    for _ in 0..2 * n {
        let mut scope: Vec<usize> = (0..n).collect();
        random.shuffle(&mut scope);
        scope.truncate(random.below(5));
        let mut roots: Vec<usize> = scope.iter().map(|&v| component[v]).collect();
        roots.sort_unstable();
        if roots.windows(2).any(|pair| pair[0] == pair[1]) {
            continue;
        }
        component.iter_mut().for_each(|c| *c = if roots.contains(c) { roots[0] } else { *c });
        add_random(&mut graph, &scope, scale, zeros, &mut random);
    }
    graph
}

/// A random graph of factors over 0 to 5 variables.
fn random_graph(seed: u64) -> FactorGraph {
    let mut random = Streams::new(seed, "random graphs").block(0);
    let n = 2 + random.below(6);
    let mut graph = FactorGraph::new((0..n).map(|_| 1 + random.below(3)).collect()).unwrap();
    let scale = [0.0, 0.3, 1.0, 3.0, 1e4][random.below(5)];
    let zeros = [0.0, 0.0, 0.2, 0.5, 0.75][random.below(5)];
    for _ in 0..random.below(3 * n) {
        let mut scope: Vec<usize> = (0..n).collect();
        random.shuffle(&mut scope);
        scope.truncate([0, 1, 2, 2, 2, 3, 4, 5][random.below(8)]);
        add_random(&mut graph, &scope, scale, zeros, &mut random);
    }
    graph
}

fn add_random(
    graph: &mut FactorGraph,
    scope: &[usize],
    scale: f64,
    zeros: f64,
    random: &mut zhat::random::Stream,
) {
    let size = scope.iter().map(|&v| graph.cardinalities()[v]).product();
    let mut values: Vec<f64> = (0..size).map(|_| scale * random.normal()).collect();
    if !scope.is_empty() {
        values.iter_mut().for_each(|x| *x = if random.uniform() < zeros { ZERO } else { *x });
    }
    graph.add_factor(scope, &values).unwrap();
}

/// The result, or `None` for errors that state Z = 0 or that there is no result. Panics on other errors.
fn well<T>(name: &str, answer: zhat::Result<zhat::Answer<T>>) -> Option<zhat::Answer<T>> {
    match answer {
        Ok(answer) => Some(answer),
        Err(Error::ZeroPartition | Error::ImpossibleEvidence { .. } | Error::NoAnswer(_)) => None,
        Err(error) => panic!("{name}: {error}"),
    }
}

fn compare_exact(name: &str, graph: &FactorGraph) {
    let (method, run, oracle) = (BeliefPropagation::default(), Run::default(), Oracle::new(graph));
    let z = method.log_partition(graph, &run);
    if oracle.is_zero() {
        assert!(matches!(z, Err(Error::ZeroPartition)), "{name}: {z:?}");
        return;
    }
    let z = z.unwrap();
    assert_eq!(z.guarantee, Guarantee::Exact, "{name}");
    let allowance = z.diagnostics.rounding + oracle.allowance();
    let want = oracle.log_partition();
    assert!((z.value - want).abs() <= allowance, "{name}: log Z = {}, want {want} ± {allowance:e}", z.value);

    let beliefs = method.marginals(graph, &run).unwrap();
    assert_eq!(beliefs.guarantee, Guarantee::Exact, "{name}");
    let allowance = beliefs.diagnostics.rounding + 2.0 * oracle.allowance();
    for (v, (got, want)) in beliefs.value.iter().zip(oracle.marginals()).enumerate() {
        assert!((got.iter().sum::<f64>() - 1.0).abs() < 1e-14, "{name}: variable {v} sums to one");
        for (p, q) in got.iter().zip(&want) {
            assert!(
                (p - q).abs() <= 2.0 * allowance * q + TINY,
                "{name}: variable {v}: {got:?}, want {want:?}"
            );
        }
    }
    let tables = method.factor_marginals(graph, &run).unwrap().value;
    for (f, (got, want)) in tables.iter().zip(oracle.factor_marginals(graph)).enumerate() {
        for (p, q) in got.iter().zip(&want) {
            assert!(
                (p - q).abs() <= 2.0 * allowance * q + TINY,
                "{name}: factor {f}: {got:?}, want {want:?}"
            );
        }
    }
    let entropy = method.entropy(graph, &run).unwrap();
    let want = oracle.entropy();
    let allowance = entropy.diagnostics.rounding + (1.0 + 2.0 * want) * oracle.allowance();
    assert!(
        (entropy.value - want).abs() <= allowance,
        "{name}: H = {}, want {want} ± {allowance:e}",
        entropy.value
    );

    let best = method.map(graph, &run).unwrap();
    assert_eq!(best.guarantee, Guarantee::Exact, "{name}");
    assert_eq!(best.value.score, graph.score(&best.value.state), "{name}: the score is the state's");
    let allowance = best.diagnostics.rounding + oracle.allowance();
    assert!(
        (best.value.score - oracle.best()).abs() <= allowance,
        "{name}: {:?}, want {}",
        best.value,
        oracle.best()
    );

    let bound = TreeReweighted::default().log_partition(graph, &run).unwrap();
    let Guarantee::Bounds { low, high, confidence } = bound.guarantee else { panic!("{name}") };
    let (want, slack) = (oracle.log_partition(), oracle.allowance());
    assert!(confidence == 1.0 && low - slack <= want && want <= high + slack, "{name}: {low} {want} {high}");
    assert!(
        high - low <= 4.0 * bound.diagnostics.rounding + 1e-12,
        "{name}: without cycles the bound is log Z"
    );
}

#[test]
fn without_cycles_everything_is_exact() {
    let mut possible = 0;
    for seed in 0..400 {
        let graph = random_forest(seed);
        possible += usize::from(!Oracle::new(&graph).is_zero());
        compare_exact(&format!("forest {seed}"), &graph);
    }
    assert!(possible > 200, "{possible}");
    for (seed, states) in [(1, 2), (2, 3), (3, 4)] {
        compare_exact("tree", &generate::tree(8, states, 2.0, seed).unwrap());
    }
    for states in [vec![], vec![1], vec![3, 2]] {
        compare_exact("free", &FactorGraph::new(states).unwrap());
    }
}

#[test]
fn a_long_chain_is_exact_to_its_allowance() {
    let chain = generate::tree(100_000, 2, 1.0, 5).unwrap();
    let z = BeliefPropagation::default().log_partition(&chain, &Run::default()).unwrap();
    let exact = zhat::exact::Elimination::default().log_partition(&chain, &Run::default()).unwrap();
    assert_eq!(z.guarantee, Guarantee::Exact);
    assert!(z.diagnostics.rounding < 1e-7);
    assert!((z.value - exact.value).abs() <= z.diagnostics.rounding + exact.diagnostics.rounding);
}

/// After convergence the beliefs of factors and variables agree, and Σ_f ln b_f − Σ_i (d_i − 1) ln b_i equals
/// the score up to a constant. Together these characterise a fixed point. The constant is the Bethe
/// approximation of log Z.
#[test]
fn converged_messages_are_a_fixed_point() {
    let mut converged = 0;
    for seed in 0..60 {
        let graph = generate::random(
            &GraphShape {
                variables: 7,
                states: 2 + (seed % 2) as usize,
                factors: 9,
                arity: 2 + (seed % 3 / 2) as usize,
                strength: 0.7,
                ..Default::default()
            },
            seed,
        )
        .unwrap();
        let run = Run::default();
        for schedule in [Schedule::Parallel, Schedule::Residual] {
            let method = BeliefPropagation::default().schedule(schedule).tolerance(1e-12).iterations(5000);
            let z = method.log_partition(&graph, &run).unwrap();
            if !z.diagnostics.figures().any(|(name, value)| name == "converged" && value == true) {
                continue;
            }
            converged += 1;
            let beliefs = method.marginals(&graph, &run).unwrap().value;
            let tables = method.factor_marginals(&graph, &run).unwrap().value;
            let mut degrees = vec![0.0; graph.variable_count()];
            for (f, factor) in graph.factors().enumerate() {
                let mut stride = 1;
                for &v in factor.scope.iter().rev() {
                    let states = graph.cardinalities()[v];
                    let mut sums = vec![0.0; states];
                    tables.factor(f).iter().enumerate().for_each(|(i, p)| sums[i / stride % states] += p);
                    let differ = sums.iter().zip(beliefs.variable(v)).any(|(sum, p)| (sum - p).abs() > 1e-9);
                    assert!(!differ, "seed {seed}, {schedule:?}: factor {f} and variable {v} disagree");
                    stride *= states;
                    degrees[v] += 1.0;
                }
            }
            let oracle = Oracle::new(&graph);
            for (state, score) in oracle.states.iter().zip(&oracle.scores) {
                let mut constant = *score;
                for (f, factor) in graph.factors().enumerate() {
                    let entry =
                        factor.scope.iter().fold(0, |at, &v| at * graph.cardinalities()[v] + state[v]);
                    constant -= tables.factor(f)[entry].ln();
                }
                for (v, &s) in state.iter().enumerate() {
                    constant += (degrees[v] - 1.0) * beliefs.variable(v)[s].ln();
                }
                assert!(
                    (constant - z.value).abs() < 1e-7,
                    "seed {seed}, {schedule:?}: {constant}, {}",
                    z.value
                );
            }
        }
    }
    assert!(converged > 80, "{converged}");
}

#[test]
fn both_schedules_agree_and_state_that_they_are_heuristic() {
    let grid = generate::ising(Grid { rows: 6, columns: 6, torus: true }, 0.3, 0.5, false, 3).unwrap();
    let run = Run::default();
    let ask = |schedule| {
        let method = BeliefPropagation::default().schedule(schedule).tolerance(1e-10);
        method.log_partition(&grid, &run).unwrap()
    };
    let (parallel, residual) = (ask(Schedule::Parallel), ask(Schedule::Residual));
    assert!((parallel.value - residual.value).abs() < 1e-7);
    let Guarantee::Heuristic { reason } = parallel.guarantee else { panic!() };
    assert!(reason.contains("cycles") && reason.contains("converged in"), "{reason}");
    let few = BeliefPropagation::default().iterations(2);
    let Guarantee::Heuristic { reason } = few.log_partition(&grid, &run).unwrap().guarantee else { panic!() };
    assert!(reason.contains("did not converge in 2"), "{reason}");
}

#[test]
fn no_result_is_nan() {
    let models = (0..300).map(|seed| (format!("random {seed}"), random_graph(seed)));
    let zero = crate::support::zero_models().into_iter().map(|(name, graph)| (name.to_string(), graph));
    let run = Run::default();
    for (name, graph) in models.chain(crate::support::small_models(70)).chain(zero) {
        for schedule in [Schedule::Parallel, Schedule::Residual] {
            let method = BeliefPropagation::default().schedule(schedule).iterations(50);
            if let Some(z) = well(&name, method.log_partition(&graph, &run)) {
                assert!(z.value.is_finite(), "{name}: {z}");
            }
            if let Some(entropy) = well(&name, method.entropy(&graph, &run)) {
                assert!(entropy.value.is_finite(), "{name}: {entropy}");
            }
            if let Some(beliefs) = well(&name, method.marginals(&graph, &run)) {
                assert!(beliefs.value.iter().all(|p| (p.iter().sum::<f64>() - 1.0).abs() < 1e-9), "{name}");
            }
            if let Some(tables) = well(&name, method.factor_marginals(&graph, &run)) {
                assert!(tables.value.iter().all(|p| (p.iter().sum::<f64>() - 1.0).abs() < 1e-9), "{name}");
            }
            if let Some(best) = well(&name, method.map(&graph, &run)) {
                assert_eq!(best.value.score, graph.score(&best.value.state), "{name}");
                assert!(best.value.score <= Oracle::new(&graph).best(), "{name}");
            }
        }
    }
    for (name, graph) in crate::support::zero_models().into_iter().take(3) {
        for answer in [
            BeliefPropagation::default().log_partition(&graph, &run),
            TreeReweighted::default().log_partition(&graph, &run),
        ] {
            assert!(matches!(answer, Err(Error::ZeroPartition)), "{name}");
        }
    }
}

#[test]
fn contradicting_evidence_is_impossible_evidence() {
    let mut graph = FactorGraph::new(vec![2, 2, 2]).unwrap();
    graph.add_factor(&[0, 1], &[0.0, ZERO, ZERO, 0.0]).unwrap();
    graph.add_factor(&[1, 2], &[0.1, 0.2, 0.3, 0.4]).unwrap();
    let given = graph.condition(&[(0, 0), (1, 1)]).unwrap();
    let run = Run::default();
    assert!(matches!(
        BeliefPropagation::default().log_partition(&given, &run),
        Err(Error::ImpossibleEvidence { .. })
    ));
    assert!(matches!(
        TreeReweighted::default().log_partition(&given, &run),
        Err(Error::ImpossibleEvidence { .. })
    ));
}

#[test]
fn the_bound_holds_after_any_number_of_iterations() {
    let run = Run::default();
    let models = (0..600).map(|seed| (format!("random {seed}"), random_graph(seed)));
    let zero = crate::support::zero_models().into_iter().map(|(name, graph)| (name.to_string(), graph));
    let mut possible = 0;
    for (name, graph) in models.chain(crate::support::small_models(140)).chain(zero) {
        let oracle = Oracle::new(&graph);
        let want = if oracle.is_zero() { ZERO } else { oracle.log_partition() - oracle.allowance() };
        possible += usize::from(!oracle.is_zero());
        for iterations in [0, 1, 2, 5, 30] {
            for damping in [0.0, 0.5] {
                let method = TreeReweighted::default().iterations(iterations).damping(damping).tolerance(0.0);
                let mut last = f64::INFINITY;
                let answer = method.improve(&graph, &run, |bound| {
                    assert!(
                        bound.high >= want,
                        "{name}, {iterations} iterations: {} below {want}",
                        bound.high
                    );
                    assert!(bound.high <= last, "{name}: the best bound is kept");
                    last = bound.high;
                    ControlFlow::Continue(())
                });
                let Some(bound) = well(&name, answer) else {
                    assert!(oracle.is_zero(), "{name}");
                    continue;
                };
                let Guarantee::Bounds { high, confidence, .. } = bound.guarantee else { panic!("{name}") };
                assert!(confidence == 1.0 && high >= want && high == last && high.is_finite(), "{name}");
            }
        }
    }
    assert!(possible > 500, "{possible}");
}

#[test]
fn the_bound_decreases() {
    let run = Run::default();
    for seed in 0..20 {
        let grid = Grid { rows: 4, columns: 4, torus: seed % 2 == 0 };
        let graph = generate::ising(grid, 1.0, 0.5, false, seed).unwrap();
        let exact = Oracle::new(&graph).log_partition();
        let naive: f64 = graph.factors().map(|factor| zhat::internal::numeric::max(factor.log_values)).sum();
        let naive = naive + graph.log_state_count();
        let ask = |iterations| {
            TreeReweighted::default().iterations(iterations).log_partition(&graph, &run).unwrap().value
        };
        let (first, last) = (ask(0), ask(400));
        assert!(last < first && last < naive, "seed {seed}: {last}, at first {first}, naively {naive}");
        assert!(last - exact < 0.5 * (naive - exact), "seed {seed}: {last}, exact {exact}, naively {naive}");
    }
}

#[test]
fn threads_do_not_change_the_result() {
    let grid = generate::ising(Grid { rows: 150, columns: 150, torus: false }, 1.0, 0.3, false, 1).unwrap();
    let potts = generate::potts(Grid { rows: 40, columns: 40, torus: false }, 4, 1.0, 0.3, false, 1).unwrap();
    for graph in [grid, potts] {
        let ask = |threads| {
            let run = Run::default().with_threads(threads);
            let bp = BeliefPropagation::default().iterations(10);
            let trw = TreeReweighted::default().iterations(20);
            let numbers = [
                bp.log_partition(&graph, &run).unwrap().value,
                bp.entropy(&graph, &run).unwrap().value,
                trw.log_partition(&graph, &run).unwrap().value,
            ];
            (numbers, bp.marginals(&graph, &run).unwrap().value, bp.map(&graph, &run).unwrap().value)
        };
        let one = ask(1);
        assert!(one == ask(2) && one == ask(3));
    }
}

#[test]
fn it_returns_a_bound_within_the_time_limit() {
    let grid = generate::ising(Grid { rows: 60, columns: 60, torus: false }, 1.0, 0.3, false, 1).unwrap();
    let run = Run::default().with_time(Duration::ZERO);
    let bound = TreeReweighted::default().log_partition(&grid, &run).unwrap();
    assert!(bound.diagnostics.stopped_early && bound.guarantee.promise() == Promise::Bounds);
    assert!(bound.value.is_finite());
    let z = BeliefPropagation::default().log_partition(&grid, &run).unwrap();
    assert!(z.diagnostics.stopped_early && z.value.is_finite());
}

/// The largest error of a marginal, the largest difference between a variable's marginal and that of a factor
/// table containing it, and the kind of guarantee.
fn relaxed_marginals(graph: &FactorGraph) -> (f64, f64, Promise) {
    let method = TreeReweighted::default().tolerance(1e-14).iterations(5000);
    let beliefs = method.marginals(graph, &Run::default()).unwrap();
    let tables = method.factor_marginals(graph, &Run::default()).unwrap().value;
    let truth = Oracle::new(graph).marginals();
    let both = beliefs.value.iter().zip(&truth).flat_map(|(got, want)| got.iter().zip(want));
    let error = both.map(|(p, q)| (p - q).abs()).fold(0.0, f64::max);
    let mut apart: f64 = 0.0;
    for (f, factor) in graph.factors().enumerate() {
        let mut stride = 1;
        for &v in factor.scope.iter().rev() {
            let states = graph.cardinalities()[v];
            let mut sums = vec![0.0; states];
            tables.factor(f).iter().enumerate().for_each(|(i, p)| sums[i / stride % states] += p);
            let differences = sums.iter().zip(beliefs.value.variable(v)).map(|(sum, p)| (sum - p).abs());
            apart = differences.fold(apart, f64::max);
            stride *= states;
        }
    }
    (error, apart, beliefs.guarantee.promise())
}

/// The marginals are exact without cycles, and those of tables and variables agree. For weak interactions
/// they are exact to first order: a quarter of the coupling gives about a sixteenth of the error, and the
/// test requires less than a quarter.
#[test]
fn tree_reweighted_marginals_are_consistent_and_exact_to_first_order() {
    for seed in 0..5 {
        let (error, apart, _) = relaxed_marginals(&generate::tree(8, 3, 1.0, seed).unwrap());
        assert!(error < 1e-12 && apart < 1e-12, "tree {seed}: {error:e} {apart:e}");
        let grid = |coupling| {
            let shape = Grid { rows: 4, columns: 4, torus: false };
            relaxed_marginals(&generate::ising(shape, coupling, 0.5, false, seed).unwrap())
        };
        let ((strong, apart, promise), (weak, _, _)) = (grid(0.2), grid(0.05));
        assert_eq!(promise, Promise::Heuristic);
        assert!(apart < 1e-6, "grid {seed}: {apart:e}");
        assert!(weak < 0.25 * strong, "grid {seed}: {weak:e} {strong:e}");
    }
}

#[test]
fn options_out_of_range_are_errors() {
    let graph = FactorGraph::new(vec![2]).unwrap();
    let run = Run::default();
    let bp = BeliefPropagation::default().damping(1.0);
    assert!(matches!(bp.log_partition(&graph, &run), Err(Error::Argument { .. })));
    let trw = TreeReweighted::default().tolerance(f64::NAN);
    assert!(matches!(trw.log_partition(&graph, &run), Err(Error::Argument { .. })));
    let trw = TreeReweighted::default().forests(0);
    assert!(matches!(trw.log_partition(&graph, &run), Err(Error::Argument { .. })));
}
