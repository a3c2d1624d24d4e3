//! Weighted mini-buckets: the bounds always hold, and no sample weight exceeds the upper bound.

use std::time::Duration;

use crate::support::oracle::Oracle;
use crate::support::statistics::{ALARM, WeightedDraws, bernstein_radius, binomial_tail};
use zhat::bounds::{WeightedMiniBucketSampling, WeightedMiniBuckets};
use zhat::exact::Elimination;
use zhat::model::generate::{self, GraphShape, Grid};
use zhat::random::Streams;
use zhat::{
    Error, Estimate, FactorGraph, FactorMarginals, Guarantee, Law, LogPartition, Marginals, Run, Sample,
};

const ZERO: f64 = f64::NEG_INFINITY;

/// A small model of any shape: arity 0 to 5, 1 to 4 states, zeros, ties and huge scores.
fn random_model(seed: u64) -> FactorGraph {
    let mut random = Streams::new(seed, "mini-bucket models").block(0);
    let n = 1 + random.below(9);
    let largest = if n > 6 { 2 } else { 4 };
    let cardinalities: Vec<usize> = (0..n).map(|_| 1 + random.below(largest)).collect();
    let mut graph = FactorGraph::new(cardinalities).unwrap();
    let kind = seed % 6;
    for _ in 0..random.below(3 * n) {
        let mut scope: Vec<usize> = (0..n).collect();
        random.shuffle(&mut scope);
        scope.truncate(random.below(n.min(5) + 1));
        let size: usize = scope.iter().map(|&v| graph.cardinalities()[v]).product();
        let value = |random: &mut zhat::random::Stream| match kind {
            0 => random.normal(),
            1 if random.uniform() < 0.3 => ZERO,
            2 if random.uniform() < 0.75 => ZERO,
            3 => 1e4 * (2.0 * random.uniform() - 1.0),
            4 => random.below(2) as f64,
            5 => 20.0 * random.normal(),
            _ => 2.0 * random.normal(),
        };
        let values: Vec<f64> = (0..size).map(|_| value(&mut random)).collect();
        graph.add_factor(&scope, &values).unwrap();
    }
    graph
}

fn models(count: u64) -> Vec<(String, FactorGraph)> {
    let own = (0..count).map(|seed| (format!("random {seed}"), random_model(seed)));
    let wide = crate::support::wide_models(1);
    own.chain(crate::support::small_models(count / 4)).chain(wide).collect()
}

fn ends(answer: &Estimate) -> (f64, f64, f64) {
    match answer.guarantee {
        Guarantee::Bounds { low, high, confidence } => (low, high, confidence),
        ref other => panic!("{other:?}"),
    }
}

/// Checks a certified interval against the truth and returns its width.
fn hold(what: &str, oracle: &Oracle<'_>, answer: &Estimate) -> f64 {
    let (low, high, confidence) = ends(answer);
    let (truth, slack) = (oracle.log_partition(), oracle.allowance());
    assert!(!low.is_nan() && !high.is_nan() && answer.value == high && confidence == 1.0, "{what}");
    assert!(low <= truth + slack, "{what}: low {low} above {truth}");
    assert!(high >= truth - slack, "{what}: high {high} below {truth}");
    assert!(high < f64::INFINITY, "{what}");
    high - low
}

#[test]
fn no_bound_is_violated_on_a_thousand_models() {
    let run = crate::support::one_thread();
    let (mut finite, mut all) = (0, 0);
    for (k, (name, graph)) in models(1000).into_iter().enumerate() {
        let oracle = Oracle::new(&graph);
        for (j, iterations) in [0, 1, 2, 5, 20].into_iter().enumerate() {
            for i_bound in [(k + j) % 7, (k + 2 * j + 1) % 3] {
                let method = WeightedMiniBuckets::default().i_bound(Some(i_bound)).iterations(iterations);
                let what = format!("{name}, i = {i_bound}, {iterations} iterations");
                match method.log_partition(&graph, &run) {
                    Err(Error::ZeroPartition) => assert!(oracle.is_zero(), "{what}"),
                    Err(error) => panic!("{what}: {error}"),
                    Ok(answer) if oracle.is_zero() => {
                        assert_eq!(ends(&answer).0, ZERO, "{what}");
                    }
                    Ok(answer) => {
                        all += 1;
                        finite += usize::from(hold(&what, &oracle, &answer).is_finite());
                    }
                }
            }
        }
    }
    assert!(finite as f64 > 0.9 * f64::from(all), "{finite} of {all} have both ends");
}

#[test]
fn every_report_is_certified_and_the_bounds_only_close() {
    let run = crate::support::one_thread();
    for (name, graph) in models(120) {
        let oracle = Oracle::new(&graph);
        if oracle.is_zero() {
            continue;
        }
        let (truth, slack) = (oracle.log_partition(), oracle.allowance());
        for i_bound in [1, 2, 3] {
            let method = WeightedMiniBuckets::default().i_bound(Some(i_bound));
            let (mut low, mut high) = (ZERO, f64::INFINITY);
            let answer = method
                .tighten(&graph, &run, &mut |bounds| {
                    assert!(bounds.low >= low && bounds.high <= high, "{name}");
                    (low, high) = (bounds.low, bounds.high);
                    assert!(low <= truth + slack && high >= truth - slack, "{name}: {truth} {bounds:?}");
                    true
                })
                .unwrap();
            assert_eq!(ends(&answer), (low, high, 1.0), "{name}");
        }
    }
}

#[test]
fn a_large_enough_i_bound_is_exact() {
    let run = Run::default();
    for (name, graph) in models(300) {
        let oracle = Oracle::new(&graph);
        for i_bound in [None, Some(12)] {
            let method = WeightedMiniBuckets::default().i_bound(i_bound);
            match method.log_partition(&graph, &run) {
                Err(error) => assert!(oracle.is_zero(), "{name}: {error}"),
                Ok(answer) => {
                    let width = hold(&name, &oracle, &answer);
                    let rounding = answer.diagnostics.rounding;
                    assert!(
                        width <= 3.0 * rounding + 1e-12 * answer.value.abs(),
                        "{name}: {width} {rounding}"
                    );
                }
            }
        }
    }
}

#[test]
fn larger_mini_buckets_and_more_sweeps_tighten_the_bounds() {
    let grid = generate::ising(Grid { rows: 9, columns: 9, torus: false }, 1.0, 0.5, false, 3).unwrap();
    let run = Run::default();
    let truth = Elimination::default().log_partition(&grid, &run).unwrap().value;
    let gaps = |i_bound, iterations| {
        let method = WeightedMiniBuckets::default().i_bound(Some(i_bound)).iterations(iterations);
        let (low, high, _) = ends(&method.log_partition(&grid, &run).unwrap());
        (truth - low, high - truth)
    };
    assert!(gaps(4, 30).1 < 0.3 * gaps(4, 0).1, "{:?} {:?}", gaps(4, 30), gaps(4, 0));
    assert!(gaps(7, 30).1 < gaps(2, 30).1 && gaps(7, 30).0 < gaps(2, 30).0);
}

#[test]
fn disconnected_models_add_up() {
    let mut graph = FactorGraph::new(vec![2; 12]).unwrap();
    let mut one = FactorGraph::new(vec![2; 4]).unwrap();
    let table = [0.3, -1.0, 0.7, 1.1];
    for u in 0..4 {
        for v in 0..u {
            one.add_factor(&[u, v], &table).unwrap();
            (0..3).for_each(|k| assert!(graph.add_factor(&[4 * k + u, 4 * k + v], &table).is_ok()));
        }
    }
    let method = WeightedMiniBuckets::default().i_bound(Some(1));
    let run = Run::default();
    let (part, whole) =
        (method.log_partition(&one, &run).unwrap(), method.log_partition(&graph, &run).unwrap());
    // Equal up to the convergence of the sweeps.
    assert!((whole.value - 3.0 * part.value).abs() < 0.05, "{} {}", whole.value, part.value);
}

#[test]
fn a_run_out_of_time_returns_the_bounds_so_far() {
    let grid = generate::ising(Grid { rows: 30, columns: 30, torus: false }, 1.0, 0.5, false, 3).unwrap();
    let run = Run::default().with_time(Duration::from_millis(300));
    let method =
        WeightedMiniBuckets::default().i_bound(Some(6)).iterations(1_000_000).tolerance(0.0).lower(true);
    let answer = method.log_partition(&grid, &run).unwrap();
    assert!(answer.diagnostics.stopped_early);
    let (low, high, _) = ends(&answer);
    assert!(low < high && high < f64::INFINITY);
}

#[test]
fn weights_never_exceed_the_bound() {
    let run = crate::support::one_thread();
    for (name, graph) in models(240) {
        for (i_bound, iterations) in [(0, 0), (1, 3), (2, 10), (3, 1)] {
            let method = WeightedMiniBucketSampling::default().i_bound(Some(i_bound)).iterations(iterations);
            let Ok(samples) = method.sample(&graph, 200, &run) else {
                assert!(Oracle::new(&graph).is_zero(), "{name}");
                continue;
            };
            let high = samples.diagnostics.figures().find(|(name, _)| *name == "certified_high").unwrap().1;
            let Law::Weighted { log_weights } = &samples.value.law else { panic!("{:?}", samples.value.law) };
            for (state, &log_weight) in samples.value.iter().zip(log_weights) {
                assert!(
                    !log_weight.is_nan()
                        && log_weight <= high.as_f64().unwrap() + samples.diagnostics.rounding
                );
                if graph.score(state) == ZERO {
                    assert_eq!(log_weight, ZERO, "{name}");
                }
            }
        }
    }
}

/// Models for the statistical tests, some with rare large weights.
fn hard_models() -> Vec<(&'static str, FactorGraph)> {
    let grid = |rows, columns, torus| Grid { rows, columns, torus };
    let models = vec![
        ("glass", generate::ising(grid(3, 4, true), 1.5, 1.0, false, 1)),
        ("strong glass", generate::ising(grid(3, 4, true), 4.0, 1.0, false, 2)),
        (
            "zeros",
            generate::random(
                &GraphShape { variables: 10, factors: 14, arity: 3, zeros: 0.4, ..Default::default() },
                3,
            ),
        ),
        ("network", generate::bayes(9, 2, 3, 0.5, 6).and_then(|graph| graph.condition(&[(8, 1)]))),
        ("potts", generate::potts(grid(3, 3, false), 3, 1.0, 0.0, true, 4)),
        ("dense", generate::random(&GraphShape { variables: 9, factors: 36, ..Default::default() }, 5)),
    ];
    models.into_iter().map(|(name, model)| (name, model.unwrap())).collect()
}

#[test]
fn the_estimate_is_unbiased() {
    let run = crate::support::one_thread();
    for (name, graph) in hard_models() {
        let log_partition = Oracle::new(&graph).log_partition();
        for (i_bound, iterations) in [(1, 0), (2, 5)] {
            let method = WeightedMiniBucketSampling::default().i_bound(Some(i_bound)).iterations(iterations);
            let samples = method.sample(&graph, 100_000, &run).unwrap();
            let high = samples.diagnostics.figures().find(|(name, _)| *name == "certified_high").unwrap().1;
            let Law::Weighted { log_weights } = &samples.value.law else { panic!("{:?}", samples.value.law) };
            let ratios: Vec<f64> = log_weights.iter().map(|w| (w - log_partition).exp()).collect();
            let n = ratios.len() as f64;
            let mean = ratios.iter().sum::<f64>() / n;
            let variance = ratios.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
            let range = (high.as_f64().unwrap() - log_partition).exp();
            // Twice the empirical variance, to allow for rare large weights that the sample misses.
            let radius = bernstein_radius(n, 2.0 * variance, range, ALARM) + 1e-9;
            assert!((mean - 1.0).abs() <= radius, "{name}, i = {i_bound}: {mean} ± {radius}");
        }
    }
}

#[test]
fn intervals_cover_with_their_stated_confidence() {
    let base = crate::support::one_thread();
    let runs = 300;
    for (name, graph) in hard_models() {
        let oracle = Oracle::new(&graph);
        let (truth, slack) = (oracle.log_partition(), oracle.allowance());
        for (samples, replicates, confidence) in [(4, 2, 0.5), (64, 8, 0.7), (600, 8, 0.9)] {
            let method = WeightedMiniBucketSampling::default()
                .i_bound(Some(1))
                .iterations(1)
                .samples(samples)
                .replicates(replicates)
                .confidence(confidence);
            let misses = |seed: &u64| {
                let answer = method.log_partition(&graph, &base.clone().with_seed(*seed)).unwrap();
                let (low, high, stated) = ends(&answer);
                assert!(stated == confidence || stated == 1.0, "{name}");
                assert!(low <= high, "{name}");
                low > truth + slack || high < truth - slack
            };
            let missed = (0..runs).filter(misses).count() as u64;
            let p = binomial_tail(runs, missed, 1.0 - confidence);
            assert!(p > ALARM, "{name}: {missed} of {runs} at {confidence}");
        }
    }
}

/// Each interval misses with probability at most 10⁻⁸, and more draws narrow it. The errors of estimates and
/// marginals stay within Bernstein's inequality, computed from the certified bound on the weights and the
/// moments of other draws: fewer than 2000 numbers with a false-alarm rate of 2·10⁻¹⁰ each, 4·10⁻⁷ in total.
#[test]
fn more_draws_narrow_intervals_and_marginals_are_close() {
    const EACH: f64 = 1e-10;
    let run = Run::default();
    let (mut numbers, mut close) = (0, 0);
    for (name, graph) in hard_models() {
        let oracle = Oracle::new(&graph);
        let (truth, slack) = (oracle.log_partition(), oracle.allowance());
        let method = WeightedMiniBucketSampling::default().i_bound(Some(3)).confidence(1.0 - ALARM);
        let answer = method.log_partition(&graph, &run).unwrap();
        let (low, high, _) = ends(&answer);
        assert!(low <= truth + slack && truth - slack <= high, "{name}: {low} {truth} {high}");
        let few = method.samples(method.samples / 64);
        let few = ends(&few.log_partition(&graph, &run).unwrap());
        // If no bucket is split, both intervals are certified and equal.
        let closer = if few.2 == 1.0 { high - low <= few.1 - few.0 } else { high - low < few.1 - few.0 };
        assert!(closer, "{name}: {low} to {high}, with fewer draws {few:?}");

        let drawn = method.sample(&graph, 1 << 15, &run.clone().with_seed(1)).unwrap();
        let bound = drawn.diagnostics.figures().find(|(name, _)| *name == "certified_high").unwrap().1;
        let Law::Weighted { log_weights } = &drawn.value.law else { panic!("{name}") };
        let ratios = log_weights.iter().map(|w| (w - truth).exp()).collect();
        let draws = WeightedDraws { ratios, range: (bound.as_f64().unwrap() - truth).exp() };
        let states: Vec<&[usize]> = drawn.value.iter().collect();
        let n = method.samples as f64;
        let (off, radius) = ((answer.value - truth).exp_m1().abs(), draws.mean_radius(n, EACH));
        assert!(off <= radius + slack, "{name}: Ẑ is off by {off} of Z, allowed {radius}");

        let mut check = |got: f64, want: f64, holds: &dyn Fn(&[usize]) -> bool| {
            let radius = draws.share_radius(n, want, |i| holds(states[i]), EACH);
            assert!((got - want).abs() <= radius + 1e-9, "{name}: {got}, want {want} ± {radius}");
            numbers += 1;
            close += usize::from(radius < 0.1);
        };
        let beliefs = method.marginals(&graph, &run).unwrap();
        assert!(matches!(beliefs.guarantee, Guarantee::Heuristic { .. }));
        for (v, want) in oracle.marginals().iter().enumerate() {
            for (s, (p, q)) in beliefs.value.variable(v).iter().zip(want).enumerate() {
                check(*p, *q, &|state| state[v] == s);
            }
        }
        let factors = method.factor_marginals(&graph, &run).unwrap().value;
        for (f, want) in oracle.factor_marginals(&graph).iter().enumerate() {
            let scope = graph.factor(f).scope;
            let at =
                |state: &[usize]| scope.iter().fold(0, |at, &v| at * graph.cardinalities()[v] + state[v]);
            for (entry, (p, q)) in factors.factor(f).iter().zip(want).enumerate() {
                check(*p, *q, &|state| at(state) == entry);
            }
        }
    }
    // A very large radius would pass every check above, so most radii must be small.
    assert!(numbers < 2000 && close * 10 > numbers * 8, "{close} of {numbers}");
}

#[test]
fn zero_partitions_are_errors_or_have_lower_bound_minus_infinity() {
    let run = Run::default();
    for (name, graph) in crate::support::zero_models() {
        for i_bound in [0, 1, 8] {
            let method = WeightedMiniBuckets::default().i_bound(Some(i_bound));
            match method.log_partition(&graph, &run) {
                Ok(answer) => assert_eq!(ends(&answer).0, ZERO, "{name}"),
                Err(error) => assert!(matches!(error, Error::ZeroPartition), "{name}: {error}"),
            }
            let method = WeightedMiniBucketSampling::default().i_bound(Some(i_bound));
            match method.log_partition(&graph, &run) {
                Ok(answer) => assert_eq!((answer.value, ends(&answer).0), (ZERO, ZERO), "{name}"),
                Err(error) => assert!(matches!(error, Error::ZeroPartition), "{name}: {error}"),
            }
        }
    }
}

#[test]
fn bad_arguments_are_named() {
    let (graph, run) = (FactorGraph::new(vec![2, 2]).unwrap(), Run::default());
    for tolerance in [-1.0, f64::NAN] {
        let method = WeightedMiniBuckets::default().tolerance(tolerance);
        assert!(matches!(method.log_partition(&graph, &run), Err(Error::Argument { .. })));
    }
    let good = WeightedMiniBucketSampling::default();
    let bad = [good.samples(0), good.replicates(1), good.confidence(1.0), good.confidence(f64::NAN)];
    for method in bad {
        assert!(matches!(method.log_partition(&graph, &run), Err(Error::Argument { .. })), "{method:?}");
    }
}
