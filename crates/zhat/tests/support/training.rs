//! Memory forecasts of the training of hidden Markov models.

use std::process::Command;

use zhat::Run;
use zhat::learn::hmm::{
    Categorical, Covariance, DurationForm, Emissions, Family, Hmm, Learning, Optimizer, Sequences,
    forecast_training, train,
};

use crate::counting::{alone, measured};
use crate::forecast_cases::MUCH;

/// Packing buffers are kept between products, so every case runs in a separate process.
const CHILD: &str = "ZHAT_TRAINING_CASE";

struct Case {
    name: &'static str,
    family: Family,
    states: usize,
    columns: usize,
    lengths: Vec<usize>,
    how: Learning,
    given: Option<fn() -> Hmm>,
    threads: usize,
}

/// A number in [0, 1) per call.
fn numbers(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / (1u64 << 31) as f64
    }
}

fn data(case: &Case) -> Sequences {
    let mut draw = numbers(7);
    let rows: usize = case.lengths.iter().sum();
    let value = |at: usize, x: f64| match case.family {
        // Two symbols that alternate, if a model is given.
        Family::Categorical { .. } if case.given.is_some() => (at % 2) as f64,
        Family::Categorical { symbols } => (x * symbols as f64).floor(),
        Family::Poisson => (x * 9.0).floor(),
        _ => x * if (at / 50).is_multiple_of(2) { 1.0 } else { 4.0 },
    };
    let values = (0..rows * case.columns).map(|at| value(at, draw())).collect();
    Sequences::new(case.columns, values, &case.lengths).unwrap()
}

/// A model under which scaled messages of the data are too small, so that they are computed in the log domain.
fn unlikely() -> Hmm {
    const N: usize = 100;
    let moves = |i: usize, j: usize| if i == j { 1.0 } else { 1e-250 };
    let table = (0..N * N).map(|at| if at / N == at % N { 1.0 } else { 0.0 }).collect();
    let transitions = (0..N * N).map(|at| moves(at / N, at % N)).collect();
    let emissions = Emissions::Categorical(Categorical::new(N, table).unwrap());
    Hmm::new(vec![1.0 / N as f64; N], transitions, emissions).unwrap()
}

fn cases() -> Vec<Case> {
    let normal = |covariance| Family::Gaussian { covariance };
    let how = || Learning::default().iterations(2).tolerance(0.0);
    let case = |name, family, states, columns, lengths| Case {
        name,
        family,
        states,
        columns,
        lengths,
        how: how(),
        given: None,
        threads: 1,
    };
    let symbols = || case("symbols", Family::Categorical { symbols: 2000 }, 128, 1, vec![30; 64]);
    let full = || case("matrices", normal(Covariance::Full), 12, 6, vec![4000; 16]);
    let mixture = || {
        let family = Family::Mixture { components: 3, covariance: Covariance::Diagonal };
        case("mixtures", family, 8, 3, vec![5000; 12])
    };
    let mut all = vec![
        symbols(),
        Case { threads: 2, ..symbols() },
        full(),
        Case { threads: 2, ..full() },
        mixture(),
        Case { threads: 2, ..mixture() },
        case("one long sequence", normal(Covariance::Diagonal), 64, 1, vec![20_000]),
        case("rates", Family::Poisson, 6, 2, vec![100; 300]),
        case("few states, many rows", normal(Covariance::Spherical), 1, 1, vec![2; 200_000]),
        Case {
            how: how().durations(DurationForm::Free).max_duration(20),
            ..case("durations", normal(Covariance::Diagonal), 4, 1, vec![10_000, 3000])
        },
        Case {
            how: how().optimizer(Optimizer::Lbfgs).iterations(4),
            ..case("L-BFGS", Family::Categorical { symbols: 300 }, 300, 1, vec![20; 2])
        },
        Case {
            how: how().batch(8).iterations(1),
            ..case("stochastic", Family::Categorical { symbols: 1500 }, 100, 1, vec![20; 64])
        },
        Case { how: how().ties(vec![0, 0, 1, 1]), ..case("ties", Family::Poisson, 4, 3, vec![50; 20]) },
        Case {
            how: how().iterations(1),
            given: Some(unlikely),
            ..case("log domain", Family::Categorical { symbols: 100 }, 100, 1, vec![1500])
        },
    ];
    // Small models.
    for (k, family) in [
        Family::Categorical { symbols: 3 },
        Family::Poisson,
        normal(Covariance::Full),
        normal(Covariance::Tied),
        Family::Mixture { components: 2, covariance: Covariance::Full },
    ]
    .into_iter()
    .enumerate()
    {
        let columns = if matches!(family, Family::Categorical { .. }) { 1 } else { 2 };
        all.push(case("small", family, 1 + 3 * k, columns, vec![60, 5, 1]));
    }
    all
}

/// Peak memory of a case and its forecast, in bytes.
fn taken(case: &Case) -> (f64, f64) {
    let (data, given) = (data(case), case.given.map(|make| make()));
    let run = Run::default().with_threads(case.threads);
    run.install(|| ());
    let forecast =
        forecast_training(&data, case.states, case.family, &case.how, given.as_ref(), &run).unwrap();
    assert!(forecast.step_seconds > 0.0 && forecast.step_seconds.is_finite());
    let (trained, peak) = measured(|| {
        train(&data, case.states, case.family, &case.how, given.as_ref(), None, &run, &mut |_| Ok(true))
    });
    trained.unwrap();
    (peak as f64, forecast.bytes)
}

#[test]
fn training_takes_between_half_of_the_forecast_and_all_of_it() {
    let _turn = alone();
    if let Ok(number) = std::env::var(CHILD) {
        let (peak, forecast) = taken(&cases()[number.parse::<usize>().unwrap()]);
        println!("\ntaken {peak} {forecast}");
        return;
    }
    let this = std::env::current_exe().unwrap();
    let test = "training::training_takes_between_half_of_the_forecast_and_all_of_it";
    let mut found = Vec::new();
    for (number, case) in cases().iter().enumerate() {
        let mut child = Command::new(&this);
        child.args([test, "--exact", "--nocapture"]).env(CHILD, number.to_string());
        let output = String::from_utf8(child.output().unwrap().stdout).unwrap();
        let line = output.lines().find_map(|line| line.strip_prefix("taken ")).unwrap();
        let [peak, forecast] = [0, 1].map(|k| line.split(' ').nth(k).unwrap().parse::<f64>().unwrap());
        let what = format!("{}, {} threads: {peak} bytes, forecast {forecast}", case.name, case.threads);
        found.push((peak <= forecast && (peak < MUCH || forecast <= 2.0 * peak), what));
    }
    let wrong: Vec<&String> = found.iter().filter(|(right, _)| !right).map(|(_, what)| what).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_budget_below_the_forecast_is_refused() {
    let data = Sequences::new(1, vec![0.0; 100], &[100]).unwrap();
    let family = Family::Categorical { symbols: 2 };
    let how = Learning::default().iterations(1);
    let forecast = forecast_training(&data, 50, family, &how, None, &Run::default().with_threads(1)).unwrap();
    let trained = |memory: f64| {
        let run = Run::default().with_threads(1).with_memory(memory as u64);
        train(&data, 50, family, &how, None, None, &run, &mut |_| Ok(true))
    };
    let error = trained(0.9 * forecast.bytes).unwrap_err().to_string();
    assert!(error.contains("training needs"), "{error}");
    trained(forecast.bytes + 1.0).unwrap();
}
