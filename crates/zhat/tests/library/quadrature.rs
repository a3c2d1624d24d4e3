//! Stochastic quadrature: distribution of tuples, unbiasedness of estimates and validity of every guarantee.

use std::collections::HashMap;

use zhat::catalogue::Settings;
use zhat::internal::quadrature::{Cliques, Norms, Polynomial, Tuples, corrected};
use zhat::model::generate::{self, GraphShape, Grid};
use zhat::quadrature::{
    Approximation, PublishedQuadrature, QuadratureForm, StochasticQuadrature, TupleSampler,
};
use zhat::random::Streams;
use zhat::{
    Error, FactorGraph, FactorMarginals, Forecasts, Guarantee, Law, LogPartition, Marginals, Promise, Query,
    Run, Sample,
};

use crate::support::oracle::Oracle;
use crate::support::statistics::{ALARM, WeightedDraws, bernstein_radius, binomial_tail, multinomial_tail};
use crate::support::{one_thread, small_models, zero_models};

const SAMPLERS: [TupleSampler; 3] = [TupleSampler::Direct, TupleSampler::Unranking, TupleSampler::Rejection];

/// Overlapping cliques of sizes 1 to 3 over variables with 2 and 3 states.
fn overlapping(scale: f64) -> FactorGraph {
    let mut graph = FactorGraph::new(vec![2, 3, 2]).unwrap();
    for (i, scope) in [vec![0, 1], vec![2, 1], vec![0], vec![0, 1, 2]].into_iter().enumerate() {
        let size = scope.iter().map(|&v: &usize| graph.cardinalities()[v]).product::<usize>();
        let values: Vec<f64> = (0..size).map(|e| scale * ((7 * e + 3 * i + 1) as f64).sin()).collect();
        graph.add_factor(&scope, &values).unwrap();
    }
    graph
}

/// χ(j)/‖χ‖ for a tuple of indices, by definition: proportional to the fraction of states in which all its
/// statistics are one.
fn mass(graph: &FactorGraph, tuple: &[usize], states: &[Vec<usize>]) -> f64 {
    let mut ends = vec![0];
    graph.factors().for_each(|factor| ends.push(ends[ends.len() - 1] + factor.log_values.len()));
    let holds = |state: &Vec<usize>, j: usize| {
        let f = ends.iter().rposition(|&end| end <= j).unwrap();
        let factor = graph.factor(f);
        let entry = factor.scope.iter().fold(0, |at, &v| at * graph.cardinalities()[v] + state[v]);
        entry == j - ends[f]
    };
    let agree = states.iter().filter(|state| tuple.iter().all(|&j| holds(state, j))).count();
    agree as f64 / states.len() as f64 / (graph.factor_count() as f64).powi(tuple.len() as i32)
}

#[test]
fn all_samplers_follow_the_tuple_distribution() {
    let mut graph = FactorGraph::new(vec![2, 3, 2]).unwrap();
    graph.add_factor(&[0, 1], &[0.1; 6]).unwrap();
    graph.add_factor(&[2, 1], &[0.2; 6]).unwrap();
    graph.add_factor(&[0], &[0.3; 2]).unwrap();
    let cliques = Cliques::new(&graph).unwrap();
    let states = crate::support::oracle::states(&graph);
    let d = cliques.dimension();
    for length in 0..=3 {
        let mut probabilities = Vec::new();
        let mut place = HashMap::new();
        for code in 0..d.pow(length as u32) {
            let tuple: Vec<usize> = (0..length).map(|r| code / d.pow(r as u32) % d).collect();
            let p = mass(&graph, &tuple, &states);
            if p > 0.0 {
                place.insert(tuple, probabilities.len());
                probabilities.push(p);
            }
        }
        assert!((probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        for (number, sampler) in SAMPLERS.into_iter().enumerate() {
            let mut tuples = Tuples::new(&cliques, sampler, 3).unwrap();
            let mut random = Streams::new(3, "tuple law").block((10 * number + length) as u64);
            let mut counts = vec![0u64; probabilities.len()];
            for _ in 0..200_000 {
                // A tuple of probability zero has no cell, so the test fails.
                let tuple = tuples.draw(length, &mut random).to_vec();
                counts[*place.get(&tuple).unwrap_or_else(|| panic!("{sampler:?} drew {tuple:?}"))] += 1;
            }
            let tail = multinomial_tail(&counts, &probabilities);
            assert!(tail > ALARM, "{sampler:?}, length {length}: {tail:e}");
        }
    }
}

#[test]
fn three_formulas_for_the_norm_agree() {
    let mut odd = FactorGraph::new(vec![1, 2, 4]).unwrap();
    odd.add_factor(&[0, 1], &[0.0, 1.0]).unwrap();
    odd.add_factor(&[0], &[0.0]).unwrap();
    odd.add_factor(&[2, 1], &[0.5; 8]).unwrap();
    for graph in [overlapping(1.0), odd, FactorGraph::new(vec![2]).unwrap()] {
        let cliques = Cliques::new(&graph).unwrap();
        for length in 0..4 {
            let norm = cliques.norm(length);
            let close = |x: f64| (x - norm).abs() <= 1e-9 * norm;
            assert!(close(cliques.stirling_norm(length).unwrap()), "{length}");
            assert!(close(cliques.naive_norm(length)), "{length}: {} {norm}", cliques.naive_norm(length));
        }
    }
}

/// Σ_x p(score)/|X|, and the variance and the range of one sample of it. E\[(mean_c θ_c²)ⁱ\] is the second
/// moment of a tuple's product.
fn analytic(graph: &FactorGraph, polynomial: &Polynomial) -> (f64, f64, f64) {
    let cliques = Cliques::new(graph).unwrap();
    let oracle = Oracle::new(graph);
    let count = oracle.states.len() as f64;
    let mass: f64 =
        polynomial.coefficients().iter().enumerate().map(|(i, zeta)| zeta.abs() * cliques.norm(i)).sum();
    let (mut mean, mut second) = (0.0, 0.0);
    for (state, &score) in oracle.states.iter().zip(&oracle.scores) {
        mean += polynomial.evaluate(score) / count;
        let squares: f64 = graph
            .factors()
            .map(|factor| {
                let at = factor.scope.iter().fold(0, |at, &v| at * graph.cardinalities()[v] + state[v]);
                factor.log_values[at].powi(2)
            })
            .sum::<f64>()
            / cliques.len() as f64;
        for (i, zeta) in polynomial.coefficients().iter().enumerate() {
            second += mass * zeta.abs() * cliques.norm(i) * squares.powi(i as i32) / count;
        }
    }
    let norms = Norms::of(&cliques);
    let range = mass * norms.log_range(polynomial.coefficients().len() - 1).exp();
    (mean, second - mean * mean, range)
}

/// True if an estimate is an end of its interval.
fn at_an_end(answer: &zhat::Estimate) -> bool {
    match answer.guarantee {
        Guarantee::Bounds { low, high, .. } => {
            answer.value - low < 1e-9 * (1.0 + low.abs()) || high - answer.value < 1e-9 * (1.0 + high.abs())
        }
        _ => false,
    }
}

#[test]
fn the_mean_is_the_sum_of_the_polynomial() {
    for (scale, degree) in [(0.05, 1), (0.05, 2), (0.05, 3), (0.2, 4), (1.2, 3)] {
        let graph = overlapping(scale);
        let norms = Norms::of(&Cliques::new(&graph).unwrap());
        for approximation in [Approximation::Chebyshev, Approximation::Remez] {
            let polynomial = match approximation {
                Approximation::Chebyshev => Polynomial::chebyshev(degree, norms.interval()),
                Approximation::Remez => Polynomial::minimax(degree, norms.interval()),
            }
            .unwrap();
            let (mean, variance, range) = analytic(&graph, &polynomial);
            for sampler in SAMPLERS {
                let samples = if sampler == TupleSampler::Direct { 1 << 20 } else { 1 << 17 };
                let method = PublishedQuadrature::default()
                    .degree(Some(degree))
                    .approximation(approximation)
                    .sampler(sampler)
                    .samples(samples);
                let estimate = match method.log_partition(&graph, &Run::default()) {
                    // An estimate that its interval has cut is not the mean of the samples.
                    Ok(answer) if at_an_end(&answer) => continue,
                    Ok(answer) => (answer.value - graph.log_state_count()).exp(),
                    Err(error) => {
                        assert!(matches!(error, Error::NoAnswer(_)) && mean < 0.1 * range, "{error}");
                        continue;
                    }
                };
                let radius = bernstein_radius(samples as f64, variance, 2.0 * range, ALARM);
                assert!(
                    (estimate - mean).abs() <= radius,
                    "{sampler:?} {degree}: {estimate} {mean} ± {radius}"
                );
            }
        }
    }
}

/// For a weak model, the marginals lie within Hoeffding's radius plus the error of the polynomial.
#[test]
fn pseudo_marginals_converge_to_the_marginals() {
    let graph = overlapping(0.05);
    let oracle = Oracle::new(&graph);
    let method = PublishedQuadrature::default().degree(Some(4)).samples(1 << 22);
    let norms = Norms::of(&Cliques::new(&graph).unwrap());
    let polynomial = Polynomial::chebyshev(4, norms.interval()).unwrap();
    // Hoeffding's inequality for both sums of the ratio.
    let range = norms.log_mass(&polynomial).exp();
    let radius = range * (2.0 * (2.0 / ALARM).ln() / method.samples as f64).sqrt() + polynomial.error();
    let within = 3.0 * radius;
    for sampler in [TupleSampler::Direct, TupleSampler::Unranking] {
        let method = method.sampler(sampler);
        let found = method.marginals(&graph, &Run::default()).unwrap();
        assert!(matches!(found.guarantee, Guarantee::Heuristic { .. }));
        for (v, want) in oracle.marginals().iter().enumerate() {
            let own = found.value.variable(v);
            assert!((own.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            assert!(
                own.iter().zip(want).all(|(p, q)| (p - q).abs() <= within),
                "{own:?} {want:?} ± {within}"
            );
        }
    }
    let found = method.factor_marginals(&graph, &Run::default()).unwrap();
    for (f, want) in oracle.factor_marginals(&graph).iter().enumerate() {
        let own = found.value.factor(f);
        assert!(own.iter().zip(want).all(|(p, q)| (p - q).abs() <= within), "{own:?} {want:?}");
    }
}

/// The errors stay within Bernstein's inequality, with the moments of as many draws from the same proposal.
/// Fewer than 10⁴ numbers with a false-alarm rate of 2·10⁻¹¹ each, 2·10⁻⁷ in total.
#[test]
fn weighted_marginals_converge_to_the_marginals() {
    const EACH: f64 = 1e-11;
    let (mut numbers, mut close) = (0, 0);
    for (name, graph) in small_models(28) {
        let oracle = Oracle::new(&graph);
        if oracle.is_zero() || name.starts_with("huge") {
            continue;
        }
        let log_partition = oracle.log_partition();
        for form in [QuadratureForm::Width, QuadratureForm::Tree] {
            let samples = 1 << 15;
            let method = StochasticQuadrature::default().form(form).width(2).samples(samples);
            let found = method.marginals(&graph, &Run::default()).unwrap();
            let factors = method.factor_marginals(&graph, &Run::default()).unwrap();
            let drawn = method.sample(&graph, samples as usize, &Run::default().with_seed(1)).unwrap().value;
            let Law::Weighted { log_weights } = &drawn.law else { panic!("{name}: {:?}", drawn.law) };
            let ratios: Vec<f64> = log_weights.iter().map(|w| (w - log_partition).exp()).collect();
            // The method states no bound on the weights, so the test uses twice the largest weight drawn.
            let range = 2.0 * ratios.iter().copied().fold(1.0, f64::max);
            let draws = WeightedDraws { ratios, range };
            let states: Vec<&[usize]> = drawn.iter().collect();
            let mut check = |got: f64, want: f64, exact: bool, holds: &dyn Fn(&[usize]) -> bool| {
                let radius = match exact {
                    true => 0.0,
                    false => draws.share_radius(samples as f64, want, |i| holds(states[i]), EACH),
                };
                let off = (got - want).abs();
                assert!(off <= radius + 1e-9, "{name} {form:?}: {got}, want {want} ± {radius}");
                numbers += 1;
                close += usize::from(radius < 0.1);
            };
            let exact = found.guarantee == Guarantee::Exact;
            for (v, want) in oracle.marginals().iter().enumerate() {
                for (s, (p, q)) in found.value.variable(v).iter().zip(want).enumerate() {
                    check(*p, *q, exact, &|state| state[v] == s);
                }
            }
            let exact = factors.guarantee == Guarantee::Exact;
            for (f, want) in oracle.factor_marginals(&graph).iter().enumerate() {
                let scope = graph.factor(f).scope;
                for (entry, (p, q)) in factors.value.factor(f).iter().zip(want).enumerate() {
                    let at = |state: &[usize]| {
                        scope.iter().fold(0, |at, &v| at * graph.cardinalities()[v] + state[v])
                    };
                    check(*p, *q, exact, &|state| at(state) == entry);
                }
            }
        }
    }
    // A very large radius would pass every check above, so most radii must be small.
    assert!(numbers < 10_000 && 2 * close > numbers, "{close} of {numbers}");
}

/// The number of intervals and the number that miss log Z. Certified intervals must not miss.
fn misses(models: &[(String, FactorGraph)], method: &dyn LogPartition<FactorGraph>, seed: u64) -> (u64, u64) {
    let (mut promised, mut missed) = (0, 0);
    for (i, (name, graph)) in models.iter().enumerate() {
        let oracle = Oracle::new(graph);
        let run = one_thread().with_seed(seed + i as u64);
        let answer = match method.log_partition(graph, &run) {
            Ok(answer) => answer,
            Err(Error::ZeroPartition) if oracle.is_zero() => continue,
            Err(error) => {
                assert!(matches!(error, Error::NoAnswer(_)), "{name}: {error}");
                continue;
            }
        };
        assert!(!answer.value.is_nan(), "{name}");
        let Guarantee::Bounds { low, high, confidence } = answer.guarantee else {
            assert!(matches!(answer.guarantee, Guarantee::Heuristic { .. }), "{name}: {}", answer.guarantee);
            continue;
        };
        assert!(low <= high, "{name}: {low} {high}");
        let want = if oracle.is_zero() { f64::NEG_INFINITY } else { oracle.log_partition() };
        promised += 1;
        if !(low <= want && want <= high) {
            missed += 1;
            assert!(confidence < 1.0, "{name}: {want} is not between {low} and {high}");
        }
    }
    (promised, missed)
}

/// Small models of all kinds: grids and tables of various strengths, zeros, scores of 10⁴.
fn many_models(count: u64) -> Vec<(String, FactorGraph)> {
    let mut models = small_models(count / 2);
    for seed in 0..count / 2 {
        let strength = [0.02, 0.1, 0.5, 1.0, 2.0, 4.0][seed as usize % 6];
        let zeros = [0.0, 0.0, 0.3, 0.75][seed as usize % 4];
        let arity = 1 + seed as usize % 4;
        let graph = generate::random(
            &GraphShape { variables: 7, factors: 12, arity, strength, zeros, ..Default::default() },
            seed,
        )
        .unwrap();
        models.push((format!("random {seed}, strength {strength}, zeros {zeros}"), graph));
    }
    models
}

#[test]
fn intervals_hold_at_their_confidence() {
    let models = many_models(1000);
    // A low confidence, so that wrong intervals are detected, and few samples, where errors are most likely.
    let mut total = (0, 0);
    let mut checked = |method: StochasticQuadrature, seed: u64, models: &[(String, FactorGraph)]| {
        let (promised, missed) = misses(models, &method, seed);
        let tail = binomial_tail(promised, missed, 1.0 - method.confidence);
        assert!(tail > ALARM, "{method:?}: {missed} of {promised} missed");
        total = (total.0 + promised, total.1 + missed);
    };
    let base = StochasticQuadrature::default().width(1).confidence(0.8).replicates(4);
    checked(base.form(QuadratureForm::Tree).samples(64), 1, &models);
    checked(base.form(QuadratureForm::Width).width(2).samples(512), 2, &models[..100]);
    checked(base.form(QuadratureForm::Variables).samples(256), 3, &models[..100]);
    checked(base.form(QuadratureForm::Uniform).samples(1000), 4, &models[..200]);
    checked(base.form(QuadratureForm::Tree).absorb(false).first_order(false).samples(32), 5, &models[..100]);
    assert!(total.0 > 1000, "{total:?}");
}

/// Models weak enough for the published method, or tuples, to give a guarantee.
fn weak_models(count: u64) -> Vec<(String, FactorGraph)> {
    let model = |seed: u64| {
        let strength = [0.001, 0.01, 0.03, 0.1, 0.3][seed as usize % 5];
        let graph = generate::random(
            &GraphShape {
                variables: 6,
                states: 2 + seed as usize % 2,
                factors: 3 + seed as usize % 5,
                arity: 1 + seed as usize % 3,
                strength,
                ..Default::default()
            },
            seed,
        );
        (format!("weak {seed}, strength {strength}"), graph.unwrap())
    };
    (0..count).map(model).collect()
}

#[test]
fn published_guarantees_hold() {
    let models = weak_models(1000);
    let method = PublishedQuadrature::default().degree(Some(2)).samples(1 << 12).confidence(0.8);
    let (promised, missed) = misses(&models, &method, 100);
    assert!(promised > 100, "{promised}");
    assert!(binomial_tail(promised, missed, 0.2) > ALARM, "{missed} of {promised}");
    let tuples = StochasticQuadrature::default()
        .form(QuadratureForm::Tuples)
        .samples(1 << 10)
        .confidence(0.8)
        .replicates(4);
    let (promised, missed) = misses(&models, &tuples, 200);
    assert!(promised > 900, "{promised}");
    assert!(binomial_tail(promised, missed, 0.2) > ALARM, "{missed} of {promised}");
    // Guarantees must also hold for ordinary models.
    let (promised, missed) = misses(&many_models(140), &method, 300);
    assert!(binomial_tail(promised, missed, 0.2) > ALARM, "{missed} of {promised}");
}

#[test]
fn a_requested_error_is_kept_or_refused_with_the_number_of_samples() {
    let mut kept = 0;
    for (seed, (name, graph)) in weak_models(60).into_iter().enumerate() {
        let want = Oracle::new(&graph).log_partition();
        let run = one_thread().with_seed(seed as u64).with_time(std::time::Duration::from_secs(2));
        let (published, ours) = (
            PublishedQuadrature::default().epsilon(Some(0.2)),
            StochasticQuadrature::default().epsilon(Some(0.02)).width(1),
        );
        for (answer, epsilon) in
            [(published.log_partition(&graph, &run), 0.2), (ours.log_partition(&graph, &run), 0.02)]
        {
            match answer {
                // The confidence is 95% each, but the bounds are far from tight, so none of 120 may be
                // violated.
                Ok(answer) => {
                    assert!(((answer.value - want).exp() - 1.0).abs() <= epsilon, "{name}: {answer} {want}");
                    kept += 1;
                }
                Err(error) => {
                    let message = error.to_string();
                    let no_polynomial = matches!(error, Error::NoAnswer(_)) && epsilon == 0.2;
                    let refused = matches!(error, Error::OverBudget { .. }) && message.contains("samples");
                    assert!(no_polynomial || refused, "{message}");
                }
            }
        }
    }
    assert!(kept > 60, "{kept}");
    let grid = generate::ising(Grid { rows: 4, columns: 4, torus: false }, 0.1, 0.0, true, 0).unwrap();
    let error = PublishedQuadrature::default().epsilon(Some(0.1)).log_partition(&grid, &Run::default());
    let message = error.unwrap_err().to_string();
    assert!(message.starts_with("over budget: sccq-published needs 10^"), "{message}");
    let cliques = Cliques::new(&grid).unwrap();
    let norms = Norms::of(&cliques);
    assert!(corrected(&norms, norms.interval(), 0.1, 0.05).unwrap().samples() > 1e20);
    // A small error is feasible if the first order is computed exactly.
    let easy = generate::ising(Grid { rows: 5, columns: 5, torus: false }, 0.1, 0.1, false, 0).unwrap();
    let ours = StochasticQuadrature::default().epsilon(Some(1e-4)).width(2);
    let answer = ours.log_partition(&easy, &Run::default()).unwrap();
    let (low, high, _) = answer.guarantee.interval(answer.value, 0.0).unwrap();
    let want = zhat::exact::Elimination::default().log_partition(&easy, &Run::default()).unwrap().value;
    assert!(low <= want && want <= high && high - low < 4e-4, "{answer} {want}");
    let hard = generate::ising(Grid { rows: 30, columns: 30, torus: false }, 1.0, 0.1, false, 0).unwrap();
    let ours = StochasticQuadrature::default().epsilon(Some(0.01)).width(2);
    let error = ours.log_partition(&hard, &Run::default().with_time(std::time::Duration::from_secs(5)));
    let message = error.unwrap_err().to_string();
    assert!(message.contains("sccq needs") && message.contains("epsilon = 0.01"), "{message}");
}

#[test]
fn threads_do_not_change_the_result() {
    let grid = generate::ising(Grid { rows: 5, columns: 5, torus: false }, 0.3, 0.2, false, 4).unwrap();
    let forms =
        [QuadratureForm::Width, QuadratureForm::Tree, QuadratureForm::Uniform, QuadratureForm::Tuples];
    let ask = |threads: usize| {
        let run = Run::default().with_threads(threads).with_seed(9);
        let mut found = Vec::new();
        for form in forms {
            let degree = if form == QuadratureForm::Tuples { Some(6) } else { None };
            let method = StochasticQuadrature::default().form(form).degree(degree).width(2).samples(4096);
            let answer = method.log_partition(&grid, &run).map(|answer| (answer.value, answer.guarantee));
            found.push(answer.map_err(|error| error.to_string()));
        }
        for sampler in [TupleSampler::Direct, TupleSampler::Unranking] {
            let method = PublishedQuadrature::default().sampler(sampler).samples(1 << 15);
            let answer = method.log_partition(&grid, &run).map(|answer| (answer.value, answer.guarantee));
            found.push(answer.map_err(|error| error.to_string()));
        }
        let method = StochasticQuadrature::default().width(2).samples(4096);
        let beliefs = method.marginals(&grid, &run).unwrap().value;
        let samples = method.sample(&grid, 600, &run).unwrap().value;
        (format!("{found:?}"), beliefs, samples)
    };
    assert_eq!(ask(1), ask(3));
}

#[test]
fn models_unsuitable_for_polynomials_are_refused_and_edge_cases_work() {
    let published = PublishedQuadrature::default();
    let ask = |graph: &FactorGraph| published.log_partition(graph, &Run::default());
    let mut forbidding = FactorGraph::new(vec![2, 2]).unwrap();
    forbidding.add_factor(&[0, 1], &[0.0, f64::NEG_INFINITY, 0.1, 0.2]).unwrap();
    let message = ask(&forbidding).unwrap_err().to_string();
    assert!(message.contains("forbids a state") && message.contains("polynomial"), "{message}");
    assert_eq!(
        published.forecast(&forbidding, Query::LogPartition, &Run::default()).promise,
        Promise::Heuristic
    );
    // Evidence removes states; this does not count as a zero in a table.
    let mut pair = FactorGraph::new(vec![2, 2]).unwrap();
    pair.add_factor(&[0, 1], &[0.01, 0.02, 0.03, 0.04]).unwrap();
    let given = ask(&pair.condition(&[(0, 1)]).unwrap()).unwrap();
    assert!((given.value - (0.03f64.exp() + 0.04f64.exp()).ln()).abs() < 0.02);
    let huge =
        generate::random(&GraphShape { variables: 5, factors: 6, strength: 1e4, ..Default::default() }, 1)
            .unwrap();
    assert!(matches!(ask(&huge), Err(Error::NoAnswer(_))));
    let free = ask(&FactorGraph::new(vec![3, 2, 4]).unwrap()).unwrap();
    assert!((free.value - 24f64.ln()).abs() < 1e-8, "{free}");
    assert!(ask(&FactorGraph::new(vec![]).unwrap()).unwrap().value.abs() < 1e-8);
    let mut one = FactorGraph::new(vec![1, 1]).unwrap();
    one.add_factor(&[0, 1], &[5.0]).unwrap();
    assert!((ask(&one).unwrap().value - 5.0).abs() < 1e-8);
    for (name, graph) in zero_models() {
        assert!(ask(&graph).is_err(), "{name}");
        match StochasticQuadrature::default().log_partition(&graph, &Run::default()) {
            Err(error) => assert!(matches!(error, Error::ZeroPartition), "{name}: {error}"),
            Ok(answer) => assert_eq!(answer.value, f64::NEG_INFINITY, "{name}"),
        }
    }
}

#[test]
fn a_negative_estimate_is_an_error() {
    // Every score is −4, where the cubic on ±16 is negative.
    let mut graph = FactorGraph::new(vec![4]).unwrap();
    graph.add_factor(&[0], &[-4.0; 4]).unwrap();
    let polynomial = Polynomial::chebyshev(3, (-16.0, 16.0)).unwrap();
    assert!(polynomial.evaluate(-4.0) < 0.0);
    for query in [Query::LogPartition, Query::Marginals] {
        let error = match query {
            Query::Marginals => PublishedQuadrature::default().marginals(&graph, &Run::default()).err(),
            _ => PublishedQuadrature::default().log_partition(&graph, &Run::default()).err(),
        };
        let message = error.unwrap().to_string();
        assert!(message.starts_with("no answer: log Ẑ does not exist"), "{message}");
    }
    // The method without a polynomial has a result.
    let z = StochasticQuadrature::default().log_partition(&graph, &Run::default()).unwrap();
    assert!((z.value - (4f64.ln() - 4.0)).abs() < 1e-9);
}

#[test]
fn estimates_are_unbiased_with_and_without_the_exact_first_order() {
    let grid = generate::ising(Grid { rows: 3, columns: 3, torus: true }, 0.4, 0.3, false, 2).unwrap();
    let want = Oracle::new(&grid).log_partition();
    for first_order in [true, false] {
        let method =
            StochasticQuadrature::default().form(QuadratureForm::Tree).first_order(first_order).samples(256);
        let ratios: Vec<f64> = (0..200)
            .map(|seed| {
                (method.log_partition(&grid, &one_thread().with_seed(seed)).unwrap().value - want).exp()
            })
            .collect();
        let count = ratios.len() as f64;
        let mean = ratios.iter().sum::<f64>() / count;
        let variance = ratios.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (count - 1.0);
        // Within six standard errors of the mean.
        assert!((mean - 1.0).abs() < 6.0 * (variance / count).sqrt(), "{mean} {variance}");
    }
}

#[test]
fn a_base_that_contains_the_whole_model_is_exact() {
    let tree = generate::tree(40, 3, 1.0, 5).unwrap();
    let z = StochasticQuadrature::default().log_partition(&tree, &Run::default()).unwrap();
    let exact = zhat::exact::Elimination::default().log_partition(&tree, &Run::default()).unwrap();
    assert!(matches!(z.guarantee, Guarantee::Bounds { confidence: 1.0, .. }), "{z}");
    assert!((z.value - exact.value).abs() < 1e-9);
    let marginals = StochasticQuadrature::default().marginals(&tree, &Run::default()).unwrap();
    assert_eq!(marginals.guarantee, Guarantee::Exact);
}

#[test]
fn a_run_out_of_time_returns_an_interval() {
    let grid = generate::ising(Grid { rows: 12, columns: 12, torus: false }, 0.4, 0.2, false, 4).unwrap();
    let exact = zhat::exact::Elimination::default().log_partition(&grid, &Run::default()).unwrap().value;
    let run = Run::default().with_time(std::time::Duration::from_millis(300));
    let method = StochasticQuadrature::default().width(2).samples(1_000_000_000_000_000);
    let answer = method.log_partition(&grid, &run).unwrap();
    assert!(answer.diagnostics.stopped_early);
    let (low, high, _) = answer.guarantee.interval(answer.value, 0.0).unwrap();
    assert!(low <= exact && exact <= high, "{answer} {exact}");
    let published = PublishedQuadrature::default().samples(1_000_000_000_000_000);
    let weak = overlapping(0.01);
    let answer = published.log_partition(&weak, &run).unwrap();
    assert!(answer.diagnostics.stopped_early);
    assert!((answer.value - Oracle::new(&weak).log_partition()).abs() < 0.05);
}

#[test]
fn auto_prefers_stronger_guarantees() {
    let model =
        generate::ising(Grid { rows: 6, columns: 6, torus: false }, 0.1, 0.1, false, 1).unwrap().into();
    for query in [Query::LogPartition, Query::Marginals, Query::FactorMarginals, Query::Sample(3)] {
        let auto = zhat::catalogue::Choice::Auto;
        let plan = zhat::catalogue::choose(&model, query, &auto, &Settings::new(), &Run::default()).unwrap();
        assert!(!plan.row.method.starts_with("sccq"), "{}", plan.row.method);
    }
}

#[test]
fn an_estimate_lies_within_its_interval() {
    let grid = Grid { rows: 4, columns: 4, torus: false };
    let run = Run::default();
    for seed in 0..8 {
        let model = generate::ising(grid, 0.002, 0.0, false, seed).unwrap();
        let method = PublishedQuadrature::default().degree(Some(1)).samples(20_000_000).confidence(0.9);
        let answer = method.log_partition(&model, &run.clone().with_seed(seed)).unwrap();
        if let Guarantee::Bounds { low, high, .. } = answer.guarantee {
            assert!(low <= answer.value && answer.value <= high, "{seed}: {low} {} {high}", answer.value);
        }
    }
}
