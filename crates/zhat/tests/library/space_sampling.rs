//! Combinatorial spaces: guarantees of perfect samples and of estimates of Z.

use std::time::Duration;

use super::spaces::{counts, law, small};
use crate::support::statistics::{ALARM, binomial_tail, multinomial_tail};
use crate::support::structures::Listed;
use zhat::exact::Enumeration;
use zhat::internal::space::Published;
use zhat::internal::space::meta_steps;
use zhat::random::Streams;
use zhat::space::{
    AnnealedSampling, Cycles, Hypercube, Oracle, Partitions, PerfectSampling, Permutations, PublishedScheme,
    Sampler, Scores, SpaceModel, Structures, Subtrees, Telescoped, TootsiePop, UniformImportance,
};
use zhat::{
    Error, Estimate, FactorMarginals, Forecasts, Guarantee, Law, LogPartition, Map, Promise, Query, Run,
    Sample,
};

fn figure(answer: &zhat::Diagnostics, name: &str) -> f64 {
    answer.figures().find(|figure| figure.0 == name).and_then(|figure| figure.1.as_f64()).unwrap()
}

fn name(model: &SpaceModel) -> String {
    format!("{} {} {:?}", model.space().name(), model.scores().name(), model.range())
}

/// A bound on the probability that the mean of n geometric variables is at least this far, as a ratio, from
/// its expectation (S. Janson, *Tail bounds for sums of geometric and exponential variables*, 2018).
fn geometric_tail(n: f64, ratio: f64) -> f64 {
    (-n * (ratio - 1.0 - ratio.ln())).exp()
}

#[test]
fn perfect_draws_follow_the_model_and_take_the_expected_time() {
    let run = Run::default();
    for seed in 0..2 {
        for model in small(seed, 0.8) {
            let (law, places) = law(&model);
            let (low, high) = model.range();
            let z = Listed::new(&model).log_partition();
            for sampler in [Sampler::Auto, Sampler::Rejection, Sampler::Meta, Sampler::Coupling] {
                let limit = if sampler == Sampler::Meta { 4.5 } else { 8.0 };
                if high - low > limit && sampler != Sampler::Auto {
                    continue;
                }
                let number = 4000;
                let method = PerfectSampling::default().sampler(sampler);
                let answer = match method.sample(&model, number, &run.clone().with_seed(seed)) {
                    Err(Error::Argument { .. }) if sampler == Sampler::Coupling => continue,
                    other => other.unwrap(),
                };
                assert_eq!((&answer.guarantee, &answer.value.law), (&Guarantee::Exact, &Law::Exact));
                let counts = counts(&answer.value, &places);
                assert!(multinomial_tail(&counts, &law) > ALARM, "{seed} {sampler:?} {}", name(&model));
                let expected = match sampler {
                    Sampler::Meta => (high - low).exp(),
                    Sampler::Rejection => (model.space().log_count().unwrap() + high - z).exp(),
                    _ => continue,
                };
                let mean = figure(&answer.diagnostics, "uniform_draws") / number as f64;
                let tail = geometric_tail(number as f64, mean / expected);
                assert!(tail > ALARM || expected < 1.0 + 1e-9, "{mean} {expected} {}", name(&model));
            }
        }
    }
}

fn ising(n: usize, field: f64, coupling: f64, signs: bool, random: &mut zhat::random::Stream) -> SpaceModel {
    let mut pairs = Vec::new();
    for i in 0..n {
        pairs.push((i, (i + 1) % n, coupling * (0.5 + random.uniform())));
        if i + n / 2 < n {
            pairs.push((i, i + n / 2, coupling * (0.5 + random.uniform())));
        }
    }
    let unary = (0..n).map(|_| field * random.normal()).collect();
    let cube = if signs { Hypercube::signs(n) } else { Hypercube::new(n) }.unwrap();
    SpaceModel::new(cube, Scores::pairwise(unary, &pairs).unwrap()).unwrap()
}

/// Attractive couplings (two chains) and weak repulsive couplings (a bounding chain), where rejection would
/// be infeasible.
#[test]
fn coupling_from_the_past_is_exact_for_attractive_or_weak_couplings() {
    let run = Run::default();
    let mut random = Streams::new(2, "ising").block(0);
    for (signs, coupling) in [(false, 1.5), (true, 0.4), (false, -0.8), (true, -0.2)] {
        let model = ising(7, 1.0, coupling, signs, &mut random);
        let (law, places) = law(&model);
        let method = PerfectSampling::default().sampler(Sampler::Coupling);
        let answer = method.sample(&model, 12_000, &run).unwrap();
        let counts = counts(&answer.value, &places);
        assert!(multinomial_tail(&counts, &law) > ALARM, "{signs} {coupling}");
        assert!(figure(&answer.diagnostics, "sweeps") >= 12_000.0);
    }
    // log Z of a model whose scores span more than 30, estimated from draws of such chains.
    let model = ising(16, 1.0, 0.35, true, &mut random);
    assert!(model.spread() > 30.0);
    let truth = Oracle::default().log_partition(&model, &run).unwrap().value;
    let method = Telescoped::default().error(0.5).confidence(1.0 - 1e-7).sampler(Sampler::Coupling);
    covers(&method.log_partition(&model, &run).unwrap(), truth);
    // With strong repulsive couplings the chains never meet: the run ends with a time-out, not with a wrong
    // draw.
    let model = ising(12, 0.1, -4.0, true, &mut random);
    let method = PerfectSampling::default().sampler(Sampler::Coupling);
    let short = Run::default().with_time(Duration::from_millis(50));
    assert!(method.sample(&model, 10, &short).unwrap_err().is_unanswerable());
}

#[test]
fn approximate_draws_are_within_the_stated_distance() {
    let model = SpaceModel::new(Hypercube::new(2).unwrap(), Scores::Unary(vec![1.0, -1.5])).unwrap();
    let (law, places) = law(&model);
    let distance = 0.02;
    let answer =
        PerfectSampling::default().distance(distance).sample(&model, 40_000, &Run::default()).unwrap();
    assert_eq!(answer.value.law, Law::Approximate { distance });
    assert_eq!(figure(&answer.diagnostics, "steps"), meta_steps(2.5, distance));
    assert!((1.0 - (-2.5f64).exp()).powf(meta_steps(2.5, distance)) <= distance);
    // Each of the four frequencies is within the distance plus Hoeffding's radius.
    for (count, p) in counts(&answer.value, &places).iter().zip(&law) {
        let radius = (0.5 * (2.0 / ALARM).ln() / 40_000.0).sqrt();
        assert!((*count as f64 / 40_000.0 - p).abs() <= distance + radius);
    }
}

/// The distributions of META after 0, 1, 2, … steps from each start, from its transition matrix.
fn meta_laws(scores: &[f64], beta: f64, steps: usize) -> Vec<Vec<Vec<f64>>> {
    let n = scores.len();
    let go = |y: usize, z: usize| (beta * (scores[z] - scores[y])).exp().min(1.0) / n as f64;
    let next = |law: &Vec<f64>| {
        let mut after = vec![0.0; n];
        for y in 0..n {
            let mut stay = 1.0;
            for z in (0..n).filter(|z| *z != y) {
                after[z] += law[y] * go(y, z);
                stay -= go(y, z);
            }
            after[y] += law[y] * stay;
        }
        after
    };
    let start = |y: usize| (0..n).map(|z| f64::from(u8::from(z == y))).collect::<Vec<f64>>();
    let mut laws = vec![(0..n).map(start).collect::<Vec<_>>()];
    for _ in 0..steps {
        let after = laws[laws.len() - 1].iter().map(next).collect();
        laws.push(after);
    }
    laws
}

fn variation(a: &[f64], b: &[f64]) -> f64 {
    0.5 * a.iter().zip(b).map(|(a, b)| (a - b).abs()).sum::<f64>()
}

/// Appendices A and B of the paper, on a case small enough for transition matrices.
#[test]
fn the_coupling_bound_and_the_tolerance_hold_exactly() {
    let (error, p) = (0.5, 3.0);
    let mut told = 0;
    for (seed, scale) in [(1, 0.3), (2, 0.8), (3, 1.5)] {
        let mut random = Streams::new(seed, "meta matrix").block(0);
        let unary: Vec<f64> = (0..3).map(|_| scale * random.normal()).collect();
        let model = SpaceModel::new(Hypercube::new(3).unwrap(), Scores::Unary(unary)).unwrap();
        let list = Listed::new(&model);
        let (all, scores) = (&list.structures, &list.scores);
        let law = |beta: f64| {
            let weights: Vec<f64> = scores.iter().map(|s| (beta * s).exp()).collect();
            let total: f64 = weights.iter().sum();
            weights.iter().map(|w| w / total).collect::<Vec<f64>>()
        };
        let norm = model.range().0.abs().max(model.range().1.abs());
        let schedule = Published::corrected(norm, error, p);
        let (levels, tolerance) = (schedule.levels, schedule.tolerance(error, p));
        for level in 0..levels as usize {
            let (beta, step) = (level as f64 / levels, 1.0 / levels);
            let truth = law(beta);
            let spread = beta * model.spread();
            let steps = meta_steps(spread, tolerance);
            let laws = meta_laws(scores, beta, steps as usize);
            // Theorem B.2, from every start and after any number of steps.
            for (t, from) in laws.iter().enumerate() {
                let bound = (1.0 - (-spread).exp()).powi(t as i32);
                for reached in from {
                    assert!(variation(reached, &truth) <= bound + 1e-12, "{level} {t} {bound}");
                }
            }
            assert!((1.0 - (-spread).exp()).powf(steps) <= tolerance);
            // Theorem A.1: the mean of a level changes by a factor within 1 ± ε/5l.
            let mean = |law: &[f64]| law.iter().zip(scores).map(|(p, s)| p * (step * s).exp()).sum::<f64>();
            for reached in &laws[steps as usize] {
                assert!((mean(reached) / mean(&truth) - 1.0).abs() <= error / (5.0 * levels));
            }
        }
        // The sampler runs that chain from a uniform start: after few steps it has the chain's distribution,
        // not the model's.
        let distance = 0.95;
        let steps = meta_steps(model.spread(), distance) as usize;
        let mut own = vec![0.0; all.len()];
        for from in &meta_laws(scores, 1.0, steps)[steps] {
            own.iter_mut().zip(from).for_each(|(sum, p)| *sum += p / all.len() as f64);
        }
        assert!(variation(&own, &law(1.0)) <= distance);
        let method = PerfectSampling::default().distance(distance);
        let drawn = method.sample(&model, 40_000, &Run::default().with_seed(seed)).unwrap().value;
        let places = list.places();
        assert!(multinomial_tail(&counts(&drawn, &places), &own) > ALARM);
        if variation(&own, &law(1.0)) > 0.05 {
            assert!(multinomial_tail(&counts(&drawn, &places), &law(1.0)) < ALARM);
            told += 1;
        }
    }
    assert!(told > 0);
}

/// Scores that are almost always far from their maximum: the forecast must not be so optimistic that
/// importance sampling is tried.
#[test]
fn forecasts_recognise_infeasible_models() {
    let run = Run::default();
    let mallows = zhat::model::generate::space("permutation", 300, "kendall", 0.1, 1).unwrap();
    let flat = zhat::model::generate::space("permutation", 300, "kendall", 1e-5, 1).unwrap();
    let seconds =
        |model: &SpaceModel| UniformImportance::default().forecast(model, Query::LogPartition, &run).seconds;
    assert!(seconds(&mallows) > 1e5 && seconds(&flat) < 10.0, "{} {}", seconds(&mallows), seconds(&flat));
    let draws = PerfectSampling::default().sampler(Sampler::Rejection);
    assert!(draws.forecast(&mallows, Query::Sample(1), &run).seconds > 1e6);
}

/// The draws do not depend on the number of threads.
#[test]
fn large_samples_are_shared_between_threads() {
    let model = zhat::model::generate::space("permutation", 300, "kendall", 0.05, 1).unwrap();
    let drawn = |threads: usize| {
        let run = Run::default().with_threads(threads).with_seed(2);
        let exact = Oracle::default().sample(&model, 2000, &run).unwrap().value;
        let flat = SpaceModel::new(Permutations::new(300).unwrap(), Scores::closure(|_| Ok(0.0), 0.0, 0.0));
        let perfect = PerfectSampling::default().sample(&flat.unwrap(), 2000, &run).unwrap().value;
        (exact, perfect)
    };
    assert_eq!(drawn(1), drawn(2));
}

fn covers(z: &Estimate, truth: f64) {
    let Guarantee::Bounds { low, high, .. } = z.guarantee else { panic!("{z}") };
    assert!(low <= truth && truth <= high && low <= z.value && z.value <= high, "{z} {truth}");
}

/// One random model of each space, small in size and range.
fn one_of_each(seed: u64, scale: f64) -> Vec<SpaceModel> {
    let models = small(seed, scale);
    let mut random = Streams::new(seed, "one of each").block(0);
    let kinds = ["hypercube", "permutations", "subtrees", "cycles", "partitions"];
    kinds
        .iter()
        .map(|kind| {
            let own: Vec<&SpaceModel> = models.iter().filter(|model| model.space().name() == *kind).collect();
            own[random.below(own.len())].clone()
        })
        .collect()
}

/// Exact binomial test of the (ε, δ) guarantee with a confidence of 3/4, on random instances of each space.
fn promise(
    instances: u64,
    scale: f64,
    error: f64,
    method: impl Fn(&SpaceModel, &Run) -> zhat::Result<Estimate>,
) {
    let run = Run::default();
    run.install(|| ());
    let (mut missed, mut wide) = ([0u64; 5], [0u64; 5]);
    for seed in 0..instances {
        for (k, model) in one_of_each(seed, scale).iter().enumerate() {
            let truth = Listed::new(model).log_partition();
            let z = method(model, &run.clone().with_seed(seed)).unwrap();
            let Guarantee::Bounds { low, high, confidence } = z.guarantee else { panic!("{z}") };
            assert_eq!(confidence, 0.75);
            missed[k] += u64::from(truth < low || truth > high);
            wide[k] += u64::from((z.value - truth).exp_m1().abs() > error);
        }
    }
    for k in 0..5 {
        assert!(binomial_tail(instances, missed[k], 0.25) > ALARM, "{missed:?}");
        assert!(binomial_tail(instances, wide[k], 0.25) > ALARM, "{wide:?}");
    }
}

#[test]
fn the_telescoped_scheme_keeps_its_guarantee() {
    promise(1000, 0.5, 0.4, |model, run| {
        Telescoped::default().error(0.4).confidence(0.75).log_partition(model, run)
    });
}

#[test]
fn the_tootsie_pop_algorithm_keeps_its_guarantee() {
    promise(1000, 0.5, 0.5, |model, run| {
        TootsiePop::default().error(0.4).confidence(0.75).log_partition(model, run)
    });
}

#[test]
fn uniform_importance_sampling_keeps_its_guarantee() {
    promise(1000, 0.5, 0.4, |model, run| {
        UniformImportance::default().error(0.4).confidence(0.75).log_partition(model, run)
    });
}

#[test]
fn the_corrected_published_scheme_keeps_its_guarantee() {
    // Scores so small that a few levels are enough, and a few instances with more levels.
    promise(1000, 0.1, 0.9, |model, run| PublishedScheme::default().error(0.9).log_partition(model, run));
    promise(12, 0.5, 0.9, |model, run| PublishedScheme::default().error(0.9).log_partition(model, run));
    // Approximate draws (Theorem A.1).
    promise(100, 0.1, 0.9, |model, run| {
        PublishedScheme::default().error(0.9).approximate(true).log_partition(model, run)
    });
    let model = one_of_each(3, 0.5).swap_remove(0);
    let printed = PublishedScheme::default().error(0.9).as_printed(true);
    let z = printed.log_partition(&model, &Run::default()).unwrap();
    assert_eq!(z.guarantee.promise(), Promise::Heuristic);
}

/// At a confidence of 1 − 10⁻⁹ no interval may miss, even with scores for which rejection is infeasible.
#[test]
fn confident_intervals_never_miss() {
    let run = Run::default();
    let confidence = 1.0 - 1e-9;
    for seed in 0..3 {
        for model in small(seed, 1.0) {
            let truth = Listed::new(&model).log_partition();
            let z = UniformImportance::default()
                .error(0.9)
                .confidence(confidence)
                .samples(1 << 11)
                .log_partition(&model, &run)
                .unwrap();
            covers(&z, truth);
            if model.spread() < 3.5 || matches!(model.scores(), Scores::Unary(_)) {
                let z = TootsiePop::default()
                    .error(0.9)
                    .confidence(confidence)
                    .log_partition(&model, &run)
                    .unwrap();
                covers(&z, truth);
            }
        }
        for model in small(seed, 1e3) {
            let truth = Listed::new(&model).log_partition();
            let z = UniformImportance::default()
                .error(0.9)
                .confidence(confidence)
                .samples(1 << 11)
                .log_partition(&model, &run)
                .unwrap();
            covers(&z, truth);
        }
    }
}

/// The estimates are unbiased, so their mean must lie within six standard errors of Z. Ẑ/Z lies in [0, exp
/// Δ].
#[test]
fn annealed_estimates_are_unbiased() {
    let run = Run::default();
    for model in small(1, 0.7) {
        let truth = Listed::new(&model).log_partition();
        for resample in [false, true] {
            let method = AnnealedSampling::default()
                .particles(4)
                .replicates(600)
                .temperatures(4)
                .sweeps(0.5)
                .resample(resample);
            let z = method.log_partition(&model, &run).unwrap();
            let Guarantee::Unbiased { relative_std_error, low, .. } = z.guarantee else { panic!("{z}") };
            let ratio = (z.value - truth).exp_m1();
            assert!(
                ratio.abs() <= 6.0 * relative_std_error + 1e-9,
                "{resample} {ratio} {relative_std_error} {}",
                name(&model)
            );
            assert!(low <= truth + 1e-9);
        }
    }
}

#[test]
fn annealing_finds_good_structures_and_brackets_the_best() {
    let run = Run::default();
    let mut found = 0;
    for model in small(5, 2.0) {
        let list = Listed::new(&model);
        let best = list.best();
        let answer = AnnealedSampling::default().map(&model, &run).unwrap();
        let Guarantee::Bounds { low, high, confidence } = answer.guarantee else { panic!() };
        assert!(confidence == 1.0 && low <= best && best <= high, "{}", name(&model));
        let structure: Vec<u32> = answer.value.state.iter().map(|x| *x as u32).collect();
        let score = list.scores[list.places()[&structure]];
        assert!((score - answer.value.score).abs() < 1e-12, "{}", name(&model));
        found += usize::from(answer.value.score >= best - 1e-9);
    }
    // The models are so small that the chains always find the best structure unless there is an error.
    assert_eq!(found, small(5, 2.0).len());
}

#[test]
fn gradients_are_within_their_radius() {
    let run = Run::default();
    for model in small(2, 0.6) {
        let truth = Listed::new(&model).gradient();
        let error = 0.25 * (1.0 + model.radius());
        let method = PerfectSampling::default().error(error).confidence(1.0 - 1e-9);
        let found = method.factor_marginals(&model, &run).unwrap();
        let square: f64 = found.value.values.iter().zip(&truth).map(|(a, b)| (a - b) * (a - b)).sum();
        assert!(square.sqrt() <= found.value.radius, "{} {}", square.sqrt(), name(&model));
        assert!(found.value.radius <= error + 1e-9);
    }
}

#[test]
fn answers_do_not_depend_on_the_number_of_threads() {
    for model in one_of_each(7, 0.5) {
        let bits = |threads: usize| {
            let run = Run::default().with_threads(threads).with_seed(11);
            let methods: [&dyn LogPartition<SpaceModel>; 4] = [
                &Telescoped::default(),
                &TootsiePop::default().error(0.5),
                &UniformImportance::default(),
                &AnnealedSampling::default().replicates(4),
            ];
            let gradient = PerfectSampling::default().error(0.5).factor_marginals(&model, &run).unwrap();
            let mut bits: Vec<u64> =
                methods.iter().map(|m| m.log_partition(&model, &run).unwrap().value.to_bits()).collect();
            bits.extend(gradient.value.values.iter().map(|x| x.to_bits()));
            bits
        };
        assert_eq!(bits(1), bits(3));
    }
}

#[test]
fn time_options_and_callables_that_fail() {
    let mut random = Streams::new(6, "budget").block(0);
    let matrix: Vec<f64> = (0..900).map(|_| random.normal()).collect();
    let hard = SpaceModel::new(Permutations::new(30).unwrap(), Scores::Position(matrix)).unwrap();
    let short = Run::default().with_time(Duration::from_millis(300));
    let z = UniformImportance::default().log_partition(&hard, &short).unwrap();
    assert!(z.diagnostics.stopped_early, "{z}");
    for method in [&Telescoped::default() as &dyn LogPartition<SpaceModel>, &TootsiePop::default()] {
        assert!(matches!(method.log_partition(&hard, &short), Err(Error::OverBudget { .. })));
    }
    let short = Run::default().with_time(Duration::ZERO);
    assert!(matches!(
        AnnealedSampling::default().log_partition(&hard, &short),
        Err(Error::OverBudget { .. })
    ));
    let cube: Structures = Hypercube::new(3).unwrap().into();
    let run = Run::default();
    let failing = |y: &[u32]| if y[0] == 1 { Ok(f64::NAN) } else { Ok(0.0) };
    let model = SpaceModel::new(cube.clone(), Scores::closure(failing, 0.0, 1.0)).unwrap();
    let methods: [&dyn LogPartition<SpaceModel>; 5] = [
        &Telescoped::default(),
        &TootsiePop::default(),
        &UniformImportance::default(),
        &AnnealedSampling::default(),
        &PublishedScheme::default(),
    ];
    for method in methods {
        let error = method.log_partition(&model, &run).unwrap_err().to_string();
        assert!(error.contains("NaN"), "{error}");
    }
    assert!(PerfectSampling::default().sample(&model, 3, &run).is_err());
    assert!(PerfectSampling::default().factor_marginals(&model, &run).is_err());
    let fine = SpaceModel::new(cube, Scores::Unary(vec![0.0; 3])).unwrap();
    for bad in [0.0, 1.0, f64::NAN] {
        assert!(Telescoped::default().error(bad).log_partition(&fine, &run).is_err());
        assert!(TootsiePop::default().confidence(bad).log_partition(&fine, &run).is_err());
        assert!(UniformImportance::default().error(bad).log_partition(&fine, &run).is_err());
        assert!(PerfectSampling::default().distance(bad - 0.5).sample(&fine, 1, &run).is_err() || bad == 1.0);
    }
    assert!(PublishedScheme::default().p(2).log_partition(&fine, &run).is_err());
    assert!(AnnealedSampling::default().replicates(1).log_partition(&fine, &run).is_err());
    let meta = PerfectSampling::default().sampler(Sampler::Coupling);
    assert!(matches!(meta.sample(&hard, 1, &run), Err(Error::Argument { .. })));
}

/// Without scores, every method returns ln|Y|.
#[test]
fn without_scores_every_method_returns_the_count() {
    let run = Run::default();
    let spaces: Vec<SpaceModel> = vec![
        SpaceModel::new(Hypercube::new(0).unwrap(), Scores::Unary(vec![])).unwrap(),
        SpaceModel::new(Permutations::new(4).unwrap(), Scores::Position(vec![0.0; 16])).unwrap(),
        SpaceModel::new(Subtrees::new(&[None], false).unwrap(), Scores::Unary(vec![0.0])).unwrap(),
        SpaceModel::new(Cycles::new(4).unwrap(), Scores::links(4, &[]).unwrap()).unwrap(),
        SpaceModel::new(Partitions::new(4).unwrap(), Scores::links(4, &[]).unwrap()).unwrap(),
    ];
    for model in spaces {
        let count = model.space().log_count().unwrap();
        let methods: [&dyn LogPartition<SpaceModel>; 7] = [
            &Oracle::default(),
            &Enumeration::default(),
            &Telescoped::default(),
            &TootsiePop::default(),
            &UniformImportance::default(),
            &PublishedScheme::default(),
            &AnnealedSampling::default().replicates(2).particles(2),
        ];
        for (k, method) in methods.iter().enumerate() {
            let z = method.log_partition(&model, &run).unwrap();
            assert!((z.value - count).abs() < 1e-9, "{k} {} {z} {count}", name(&model));
        }
    }
}
