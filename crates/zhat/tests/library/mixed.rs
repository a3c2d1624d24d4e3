//! Models with continuous variables: certified intervals against closed forms, the error function and
//! incomplete gamma functions. Reference values were computed independently with 40 digits.

use std::time::Duration;

use zhat::model::{Domain, Family, MixedModel, Statistic, Term};
use zhat::quadrature::{GaussLegendre, MixedQuadrature};
use zhat::random::Streams;
use zhat::{Error, Estimate, Guarantee, LogPartition, Promise, Run};

fn families() -> Vec<(Family, (f64, f64), f64)> {
    vec![
        (Family::Gaussian { mean: 0.0, deviation: 1.0 }, (-1.0, 2.0), 0.7187722388802101),
        (Family::Gaussian { mean: 0.0, deviation: 1.0 }, (-8.0, 8.0), 0.9189385332046714),
        (Family::Gaussian { mean: 100.5, deviation: 0.125 }, (100.0, 101.0), -1.1605663529650492),
        (Family::Gaussian { mean: 3.0, deviation: 0.5 }, (10.0, 12.0), -101.33724305480523),
        (Family::Gaussian { mean: 0.0, deviation: 100.0 }, (-1.0, 1.0), 0.6931305140043894),
        (Family::Gaussian { mean: 0.25, deviation: 0.001 }, (-5.0, 50.0), -5.988816745777465),
        (Family::Exponential { rate: 2.0 }, (0.0, 1.0), -0.8385606384288044),
        (Family::Exponential { rate: 1.0 }, (-3.0, 40.0), 3.0),
        (Family::Exponential { rate: 0.001 }, (0.0, 2.0), 0.6921473472266064),
        (Family::Gamma { shape: 2.5, rate: 1.5 }, (0.01, 10.0), -0.7290028521762966),
        (Family::Gamma { shape: 0.5, rate: 1.0 }, (0.001, 5.0), 0.5344179844541893),
        (Family::Gamma { shape: 40.0, rate: 2.0 }, (1.0, 60.0), 78.90587303824564),
        (Family::Gamma { shape: 1.0, rate: 3.0 }, (0.5, 2.0), -2.6097834509364066),
        (Family::ChiSquared { degrees: 3.0 }, (0.1, 20.0), 0.9105713066895893),
        (Family::ChiSquared { degrees: 7.0 }, (0.5, 40.0), 3.626433802960999),
        (Family::Weibull { shape: 1.5, scale: 2.0 }, (0.05, 9.0), 0.6302310391118515),
        (Family::Weibull { shape: 0.7, scale: 1.0 }, (0.01, 6.0), 0.2851025409207425),
        (Family::Weibull { shape: 5.0, scale: 3.0 }, (0.5, 4.0), 3.868595355701391),
        (Family::LogNormal { mean: 0.0, deviation: 1.0 }, (0.05, 20.0), 0.9161969114161502),
        (Family::LogNormal { mean: 1.5, deviation: 0.25 }, (1.0, 12.0), -0.4673966339986118),
        (Family::Pareto { shape: 2.0 }, (1.0, 50.0), -0.693547260581285),
        (Family::Pareto { shape: 0.5 }, (0.2, 3.0), 1.1991920195502788),
        // scale·(2 − e^{−(m − a)/s} − e^{−(b − m)/s}), and scale·(e^{−(a − m)/s} − e^{−(b − m)/s}) if the
        // interval excludes the centre.
        (
            Family::Laplace { centre: 0.0, scale: 1.0 },
            (-1.0, 2.0),
            (2.0 - (-1f64).exp() - (-2f64).exp()).ln(),
        ),
        (
            Family::Laplace { centre: 3.1, scale: 0.25 },
            (2.0, 9.0),
            (0.25 * (2.0 - (-4.4f64).exp() - (-23.6f64).exp())).ln(),
        ),
        (
            Family::Laplace { centre: -5.0, scale: 2.0 },
            (1.0, 4.0),
            (2.0 * ((-3f64).exp() - (-4.5f64).exp())).ln(),
        ),
    ]
}

fn numerical() -> Vec<(Family, (f64, f64), f64)> {
    vec![
        (Family::Beta { alpha: 2.0, beta: 3.5 }, (0.05, 0.95), -2.7752218705183496),
        (Family::Beta { alpha: 0.5, beta: 0.5 }, (0.01, 0.99), 1.008294713658161),
        (Family::Beta { alpha: 20.0, beta: 7.0 }, (0.001, 0.999), -15.342566361792407),
        (Family::Dirichlet { concentrations: vec![2.0, 3.0, 1.5] }, (0.01, 0.99), -5.095740994387312),
    ]
}

fn term(weight: f64, factors: &[(usize, Statistic)]) -> Term {
    Term { weight, factors: factors.to_vec() }
}

/// Models with several variables or unusual statistics, and their log Z.
fn others() -> Vec<(MixedModel, f64)> {
    let (x, y) = (0, 1);
    let (power, log) = (Statistic::Power, Statistic::Log);
    let bivariate = MixedModel::new(
        vec![Domain::Interval(-1.0, 2.0), Domain::Interval(-2.0, 1.0)],
        vec![
            term(-0.5, &[(x, power(2.0))]),
            term(-0.5, &[(y, power(2.0))]),
            term(0.6, &[(x, power(1.0)), (y, power(1.0))]),
        ],
    );
    let coupled = MixedModel::new(
        vec![Domain::Interval(0.5, 3.0), Domain::Interval(-1.0, 1.0)],
        vec![
            term(-2.0, &[(x, power(1.0))]),
            term(0.5, &[(y, power(1.0)), (x, log(1))]),
            term(-1.0, &[(y, power(2.0))]),
        ],
    );
    let entropic = MixedModel::new(
        vec![Domain::Interval(0.25, 2.0)],
        vec![term(1.0, &[(x, power(1.0)), (x, log(1))]), term(-1.0, &[(x, power(-1.0))])],
    );
    let mixture =
        MixedModel::gaussian_mixture(&[0.25, 0.5, 1.0], &[-2.0, 0.0, 3.0], &[0.5, 1.0, 0.1], (-4.0, 5.0));
    vec![
        (bivariate.unwrap(), 1.4595800788668054),
        (coupled.unwrap(), -1.2930874427920587),
        (entropic.unwrap(), 0.1912307409712339),
        (mixture.unwrap(), 1.478540665757055),
    ]
}

fn ends(z: &Estimate) -> (f64, f64) {
    match z.guarantee {
        Guarantee::Bounds { low, high, .. } => (low, high),
        _ => panic!("{z}"),
    }
}

#[test]
fn families_are_bracketed_within_the_requested_error() {
    let run = Run::default();
    for (family, bounds, truth) in families() {
        let model = family.on(bounds).unwrap();
        for error in [1.0, 1e-3, 1e-9] {
            let z = MixedQuadrature::default().error(error).log_partition(&model, &run).unwrap();
            let (low, high) = ends(&z);
            assert!(low <= truth && truth <= high, "{family:?} {bounds:?}: {low} {truth} {high}");
            assert!(
                high - low <= error + 2.0 * z.diagnostics.rounding,
                "{family:?} {bounds:?}: {}",
                high - low
            );
        }
        let reference = GaussLegendre::default().log_partition(&model, &run).unwrap();
        assert!(
            (reference.value - truth).abs() <= 1e-9 * (1.0 + truth.abs()),
            "{family:?} {}",
            reference.value
        );
        assert_eq!(reference.guarantee.promise(), Promise::Heuristic);
    }
}

#[test]
fn beta_and_dirichlet_are_labelled_numerical() {
    let run = Run::default();
    for (family, bounds, truth) in numerical() {
        let model = family.on(bounds).unwrap();
        let z = MixedQuadrature::default().log_partition(&model, &run).unwrap();
        assert!((z.value - truth).abs() < 1e-8, "{family:?}: {} {truth}", z.value);
        let Guarantee::Heuristic { reason } = z.guarantee else { panic!() };
        assert!(reason.contains("numerical"), "{reason}");
        let reference = GaussLegendre::default().log_partition(&model, &run).unwrap();
        assert!((reference.value - truth).abs() < 1e-9, "{family:?}: {} {truth}", reference.value);
    }
}

#[test]
fn models_of_several_variables_are_bracketed() {
    let run = Run::default();
    for (model, truth) in others() {
        for (degree, error) in [(1, 0.1), (2, 0.01), (5, 1e-6), (8, 1e-9)] {
            let method = MixedQuadrature::default().error(error).degree(degree);
            let z = method.log_partition(&model, &run).unwrap();
            let (low, high) = ends(&z);
            assert!(low <= truth && truth <= high, "{truth}: {z}");
            assert!(high - low <= error + 2.0 * z.diagnostics.rounding, "{truth}: {z}");
        }
        let reference = GaussLegendre::default().log_partition(&model, &run).unwrap();
        assert!((reference.value - truth).abs() < 1e-10, "{} {truth}", reference.value);
    }
}

#[test]
fn intervals_hold_after_any_amount_of_work() {
    let run = Run::default().with_time(Duration::from_millis(0));
    for (model, truth) in others() {
        let z = MixedQuadrature::default().log_partition(&model, &run).unwrap();
        let (low, high) = ends(&z);
        assert!(low <= truth && truth <= high && z.diagnostics.stopped_early, "{truth}: {z}");
    }
    for (model, truth) in others() {
        for cells in [1, 2, 3, 7, 40] {
            let method = MixedQuadrature::default().error(0.0).cells(cells);
            let (low, high) = ends(&method.log_partition(&model, &Run::default()).unwrap());
            assert!(low <= truth && truth <= high, "{cells} cells: {low} {truth} {high}");
        }
    }
}

/// A model of random terms.
fn random(seed: u64) -> MixedModel {
    let mut random = Streams::new(seed, "mixed").block(0);
    let variables = 1 + random.below(3);
    let domains: Vec<Domain> = (0..variables)
        .map(|_| match random.below(3) {
            0 => Domain::States(1 + random.below(3)),
            1 => Domain::Interval(-2.0 * random.uniform(), 0.1 + 2.0 * random.uniform()),
            _ => {
                let a = 0.05 + 3.0 * random.uniform();
                Domain::Interval(a, a + 0.1 + 2.0 * random.uniform())
            }
        })
        .collect();
    let mut terms = vec![Term { weight: random.normal(), factors: vec![] }];
    for _ in 0..random.below(5) {
        let mut factors: Vec<(usize, Statistic)> = Vec::new();
        for _ in 0..1 + random.below(2) {
            let v = random.below(variables);
            let statistic = match domains[v] {
                Domain::States(n) if factors.iter().all(|f| f.0 != v) => Statistic::State(random.below(n)),
                Domain::States(_) | Domain::Counts(..) => continue,
                Domain::Interval(a, _) if a <= 0.0 => Statistic::Power(1.0 + random.below(3) as f64),
                Domain::Interval(..) => match random.below(4) {
                    0 => Statistic::Power(1.0 + random.below(3) as f64),
                    1 => Statistic::Power(-1.0 - random.below(2) as f64),
                    2 => Statistic::Power(4.0 * random.uniform() - 2.0),
                    _ => Statistic::Log(1 + random.below(2) as u32),
                },
            };
            factors.push((v, statistic));
        }
        terms.push(Term { weight: 2.0 * random.normal(), factors });
    }
    MixedModel::new(domains, terms).unwrap()
}

#[test]
fn random_models_agree_with_numerical_quadrature() {
    let run = Run::default();
    for seed in 0..120 {
        let model = random(seed);
        let truth = GaussLegendre::default().error(1e-10).log_partition(&model, &run).unwrap();
        let slack = 1e-8;
        for (degree, error) in [(2, 0.5), (6, 1e-4)] {
            let method = MixedQuadrature::default().error(error).degree(degree).cells(20_000);
            let (low, high) = ends(&method.log_partition(&model, &run).unwrap());
            assert!(
                low <= truth.value + slack && truth.value - slack <= high,
                "{seed}: {low} {truth} {high}"
            );
        }
    }
}

/// At a confidence of 1 − 10⁻⁹ no interval may miss.
#[test]
fn draws_cover_the_truth_or_are_refused() {
    let run = Run::default();
    let (mut answered, mut refused) = (0, 0);
    for seed in 0..60 {
        let model = random(seed);
        let truth = GaussLegendre::default().error(1e-10).log_partition(&model, &run).unwrap();
        for tuples in [false, true] {
            let method = MixedQuadrature::default().samples(20_000).tuples(tuples).confidence(1.0 - 1e-9);
            match method.log_partition(&model, &run) {
                Ok(z) => {
                    let (low, high) = ends(&z);
                    let slack = 1e-9;
                    assert!(low - slack <= truth.value && truth.value <= high + slack, "{seed} {truth}: {z}");
                    assert!(low <= z.value && z.value <= high);
                    answered += 1;
                }
                Err(Error::NoAnswer(message)) => {
                    assert!(message.contains("draws"), "{message}");
                    refused += 1;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
    assert!(answered > 40 && refused > 5, "{answered} {refused}");
}

#[test]
fn draws_do_not_depend_on_the_number_of_threads() {
    let (model, _) = others().swap_remove(0);
    for samples in [0, 30_000] {
        let method = MixedQuadrature::default().samples(samples).error(1e-6);
        let answer = |threads| method.log_partition(&model, &Run::default().with_threads(threads)).unwrap();
        assert_eq!(answer(1).value.to_bits(), answer(3).value.to_bits());
    }
}

#[test]
fn many_states_are_refused_without_draws_and_bounded_with_draws() {
    let terms = (0..30).map(|v| {
        let next = (v + 1) % 30;
        term(0.02, &[(v, Statistic::State(0)), (next, Statistic::State(1))])
    });
    let model = MixedModel::new(vec![Domain::States(4); 30], terms.collect()).unwrap();
    let error = MixedQuadrature::default().log_partition(&model, &Run::default()).unwrap_err();
    assert!(error.to_string().contains("samples"), "{error}");
    let method = MixedQuadrature::default().samples(100_000).confidence(1.0 - 1e-9);
    let z = method.log_partition(&model, &Run::default()).unwrap();
    let (low, high) = ends(&z);
    assert!(low < high && high - low < 0.05, "{z}");
}

#[test]
fn empty_models_and_options_out_of_range() {
    let run = Run::default();
    let empty = MixedModel::new(vec![], vec![term(1.5, &[])]).unwrap();
    assert!((MixedQuadrature::default().log_partition(&empty, &run).unwrap().value - 1.5).abs() < 1e-12);
    assert!((GaussLegendre::default().log_partition(&empty, &run).unwrap().value - 1.5).abs() < 1e-12);
    let free = MixedModel::new(vec![Domain::States(3), Domain::Interval(0.0, 2.0)], vec![]).unwrap();
    for samples in [0, 100] {
        let method = MixedQuadrature::default().samples(samples);
        let z = method.log_partition(&free, &run).unwrap();
        assert!((z.value - 6f64.ln()).abs() < 1e-9, "{z}");
    }
    for method in [
        MixedQuadrature::default().degree(0),
        MixedQuadrature::default().degree(41),
        MixedQuadrature::default().cells(0),
        MixedQuadrature::default().error(f64::NAN),
        MixedQuadrature::default().confidence(1.0),
    ] {
        assert!(matches!(method.log_partition(&free, &run), Err(Error::Argument { .. })));
    }
}

/// Composite Simpson's rule on panels split at every kink.
fn simpson(f: &dyn Fn(f64) -> f64, ends: &[f64]) -> f64 {
    let steps = 2000;
    let panel = |a: f64, b: f64| {
        let h = (b - a) / f64::from(2 * steps);
        let at = |i: i32| f(a + f64::from(i) * h);
        let inner: f64 = (1..2 * steps).map(|i| if i % 2 == 1 { 4.0 * at(i) } else { 2.0 * at(i) }).sum();
        h / 3.0 * (at(0) + inner + at(2 * steps))
    };
    ends.windows(2).map(|pair| panel(pair[0], pair[1])).sum()
}

/// Checks log Z of both methods; the certified interval must contain the true value.
fn both(model: &MixedModel, truth: f64, slack: f64) {
    let run = Run::default();
    let z = MixedQuadrature::default().error(1e-7).log_partition(model, &run).unwrap();
    let (low, high) = ends(&z);
    assert!(low <= truth + slack && truth - slack <= high && high - low < 1e-6, "{low} {truth} {high}");
    let reference = GaussLegendre::default().error(1e-9).points(2e6).log_partition(model, &run).unwrap();
    assert!((reference.value - truth).abs() < 1e-8 + slack, "{reference} {truth}");
}

#[test]
fn distance_statistics_alone_and_combined() {
    let (x, y) = (0, 1);
    let distance = |centre: f64, power: f64| Statistic::Distance { centre, power };
    let power = Statistic::Power;
    let one = |a: f64, b: f64, terms: Vec<Term>, kinks: &[f64]| {
        let model = MixedModel::new(vec![Domain::Interval(a, b)], terms).unwrap();
        let ends: Vec<f64> = [a].into_iter().chain(kinks.iter().copied()).chain([b]).collect();
        let truth = simpson(&|x| model.score(&[x]).exp(), &ends).ln();
        both(&model, truth, 2e-7);
    };
    one(-2.0, 3.0, vec![term(-1.3, &[(x, distance(0.5, 1.0))]), term(0.4, &[(x, power(1.0))])], &[0.5]);
    one(-2.0, 3.0, vec![term(-1.0, &[(x, distance(0.5, 2.5))]), term(0.4, &[(x, power(2.0))])], &[0.5]);
    one(0.5, 3.0, vec![term(-2.0, &[(x, distance(1.0, 3.0))]), term(1.5, &[(x, Statistic::Log(1))])], &[1.0]);
    one(
        -1.0,
        4.0,
        vec![term(-1.0, &[(x, distance(0.0, 1.0))]), term(0.7, &[(x, distance(2.0, 1.0))])],
        &[0.0, 2.0],
    );
    one(0.0, 2.0, vec![term(-1.0, &[(x, distance(1.0, 1.0)), (x, power(1.0))])], &[1.0]);
    // Two variables that interact: the inner integral is known in closed form, the outer one is by Simpson's
    // rule.
    let terms = vec![
        term(-1.0, &[(x, distance(0.0, 1.0))]),
        term(-0.5, &[(y, power(2.0))]),
        term(0.8, &[(x, distance(0.0, 1.0)), (y, power(1.0))]),
    ];
    let model =
        MixedModel::new(vec![Domain::Interval(-1.0, 2.0), Domain::Interval(-1.0, 1.0)], terms).unwrap();
    let truth = simpson(
        // ∫ exp(−|x| (1 − 0.8 y)) dx over [−1, 2].
        &|y| {
            let rate = 1.0 - 0.8 * y;
            (-0.5 * y * y).exp() * (2.0 - (-rate).exp() - (-2.0 * rate).exp()) / rate
        },
        &[-1.0, 1.0],
    );
    both(&model, truth.ln(), 1e-9);
    // There is no closed form for a real power with a logarithm: the interval is wide but valid.
    let odd = vec![term(-1.0, &[(x, distance(1.0, 0.5))]), term(0.5, &[(x, Statistic::Log(1))])];
    let model = MixedModel::new(vec![Domain::Interval(0.5, 2.0)], odd).unwrap();
    let z = MixedQuadrature::default().cells(500).log_partition(&model, &Run::default()).unwrap();
    let truth = GaussLegendre::default().log_partition(&model, &Run::default()).unwrap().value;
    let (low, high) = ends(&z);
    assert!(low <= truth && truth <= high && high - low < 0.02, "{low} {truth} {high}");
    // Intervals from draws.
    let weak =
        vec![term(-0.3, &[(x, distance(0.5, 1.5))]), term(0.2, &[(x, distance(0.0, 1.0)), (y, power(1.0))])];
    let model =
        MixedModel::new(vec![Domain::Interval(-1.0, 2.0), Domain::Interval(-1.0, 1.0)], weak).unwrap();
    let exact = MixedQuadrature::default().log_partition(&model, &Run::default()).unwrap().value;
    let drawn = MixedQuadrature::default().samples(100_000).confidence(1.0 - 1e-6);
    let (low, high) = ends(&drawn.log_partition(&model, &Run::default()).unwrap());
    assert!(low <= exact && exact <= high && high - low < 0.1, "{low} {exact} {high}");
}

#[test]
fn count_variables_with_and_without_a_largest_value() {
    let run = Run::default();
    let x = |weight: f64, statistic: Statistic| term(weight, &[(0, statistic)]);
    for rate in [0.01, 1.0, 7.5, 300.0, 20_000.0f64] {
        // Σ λˣ/x! = e^λ.
        let model = Family::Poisson { rate }.on((0.0, f64::INFINITY)).unwrap();
        let (low, high) = ends(&MixedQuadrature::default().log_partition(&model, &run).unwrap());
        assert!(low <= rate && rate <= high && high - low < 1e-9 * (1.0 + rate), "{rate}: {low} {high}");
        let numerical = GaussLegendre::default().log_partition(&model, &run).unwrap().value;
        assert!((numerical - rate).abs() < 1e-11 * (1.0 + rate), "{rate}: {numerical}");
    }
    // Z = 1 + λ + λ²/2 + λ³/6.
    let cut = Family::Poisson { rate: 2.0 }.on((0.0, 3.0)).unwrap();
    let (low, high) = ends(&MixedQuadrature::default().log_partition(&cut, &run).unwrap());
    let truth = (1.0 + 2.0 + 2.0 + 4.0 / 3.0f64).ln();
    assert!(low <= truth && truth <= high);
    let drawn = MixedQuadrature::default().samples(50_000).confidence(1.0 - 1e-6);
    let (low, high) = ends(&drawn.log_partition(&cut, &run).unwrap());
    assert!(low <= truth && truth <= high);
    let all = Family::Poisson { rate: 2.0 }.on((0.0, f64::INFINITY)).unwrap();
    assert!(drawn.log_partition(&all, &run).is_err());
    // A geometric series: Z = 1/(1 − 0.9).
    let counts = Domain::Counts(0, None);
    let geometric = MixedModel::new(vec![counts], vec![x(0.9f64.ln(), Statistic::Power(1.0))]).unwrap();
    let (low, high) = ends(&MixedQuadrature::default().log_partition(&geometric, &run).unwrap());
    assert!(low <= 10f64.ln() + 1e-14 && 10f64.ln() - 1e-14 <= high && high - low < 1e-9, "{low} {high}");
    // A rate r in [0.5, 4]: Σ_x ∫ e^{−r} rˣ/x! dr = 3.5.
    let mixed = vec![
        term(1.0, &[(0, Statistic::Power(1.0)), (1, Statistic::Log(1))]),
        x(-1.0, Statistic::LogFactorial),
        term(-1.0, &[(1, Statistic::Power(1.0))]),
    ];
    let model = MixedModel::new(vec![counts, Domain::Interval(0.5, 4.0)], mixed).unwrap();
    both(&model, 3.5f64.ln(), 0.0);
    // Two counts with a negative interaction, against the direct sum.
    let pair = vec![
        x(1.0, Statistic::Power(1.0)),
        x(-1.0, Statistic::LogFactorial),
        term(0.5, &[(1, Statistic::Power(1.0))]),
        term(-1.0, &[(1, Statistic::LogFactorial)]),
        term(-0.3, &[(0, Statistic::Power(1.0)), (1, Statistic::Power(1.0))]),
    ];
    let model = MixedModel::new(vec![counts, counts], pair).unwrap();
    let (mut sum, mut a) = (0.0, 1.0);
    for i in 0..80 {
        let mut b = 1.0;
        for j in 0..80 {
            sum += a * b * (-0.3 * f64::from(i * j)).exp();
            b *= 0.5f64.exp() / f64::from(j + 1);
        }
        a *= 1f64.exp() / f64::from(i + 1);
    }
    both(&model, f64::ln(sum), 1e-12);
    for (domain, terms, words) in [
        (counts, vec![x(0.1, Statistic::Power(1.0))], "do not bound"),
        (counts, vec![x(-1.0, Statistic::Power(2.0))], "no largest value"),
        (Domain::Counts(3, Some(2)), vec![], "a ≤ b"),
        (Domain::Interval(0.0, 1.0), vec![x(1.0, Statistic::LogFactorial)], "count"),
        (Domain::Counts(0, Some(5)), vec![x(1.0, Statistic::LogComplement)], "count"),
        (
            Domain::Interval(0.0, 1.0),
            vec![x(1.0, Statistic::Distance { centre: 0.0, power: -1.0 })],
            "above 0",
        ),
    ] {
        let message = MixedModel::new(vec![domain], terms).unwrap_err().to_string();
        assert!(message.contains(words), "{message}");
    }
}

#[test]
fn files_keep_counts_and_distances() {
    let terms = vec![
        term(-1.0, &[(0, Statistic::Distance { centre: 0.25, power: 1.5 })]),
        term(0.5, &[(1, Statistic::Power(1.0)), (2, Statistic::Power(1.0))]),
        term(-1.0, &[(1, Statistic::LogFactorial)]),
    ];
    let domains = vec![Domain::Interval(-1.0, 1.0), Domain::Counts(0, None), Domain::Counts(2, Some(9))];
    let model = MixedModel::new(domains, terms).unwrap();
    let bytes = zhat::io::model_file::to_bytes(&zhat::Model::from(model.clone()));
    let again = zhat::io::model_file::parse(&bytes, "counts.zhat").unwrap();
    assert_eq!(again.get::<MixedModel>(), Some(&model));
}

#[test]
fn every_loop_keeps_the_time_limit() {
    let run = Run::default().with_time(Duration::from_millis(300));
    let distance = |v: usize| (v, Statistic::Distance { centre: 0.1, power: 1.5 });
    let terms = (0..6).map(|v| term(-1.0, &[distance(v), distance((v + 1) % 6)])).collect();
    let model = MixedModel::new(vec![Domain::Interval(-3.0, 3.0); 6], terms).unwrap();
    let methods: [Box<dyn LogPartition<MixedModel>>; 4] = [
        Box::new(MixedQuadrature::default().degree(40).cells(1_000_000).error(0.0)),
        Box::new(MixedQuadrature::default().degree(usize::MAX)),
        Box::new(MixedQuadrature::default().samples(u64::MAX)),
        Box::new(GaussLegendre::default().points(f64::MAX).error(0.0)),
    ];
    for method in methods {
        let begin = std::time::Instant::now();
        let _ = method.log_partition(&model, &run);
        assert!(begin.elapsed().as_secs_f64() < 0.33 + 1.0, "{:?}", begin.elapsed());
    }
}
