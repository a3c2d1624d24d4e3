//! Training: the objective, recovery of parameters, checkpoints, files, budgets.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::super::file::{parse_hmm, read_hmm_checkpoint, write_hmm, write_hmm_checkpoint};
use super::super::*;
use super::{FAMILIES, random_case};
use crate::random::Streams;
use crate::{Error, Run};

fn run() -> Run {
    Run::default().with_threads(1)
}

/// 1,000 random models of all families, with zeros, one state, one step, missing values and priors.
#[test]
fn the_objective_never_falls() {
    let mut random = Streams::new(21, "hmm monotone").block(0);
    for case in 0..1000 {
        let family = FAMILIES[case % FAMILIES.len()];
        let (hmm, data) = random_case(family, case % 3 == 0, &mut random);
        let mut how = Learning::default().iterations(8).tolerance(0.0).least_variance(1e-3);
        if case % 2 == 0 {
            how = how.start_prior(1.5).transition_prior(2.0).emission_prior(1.2);
            how = how.mean_weight(0.5).covariance_weight(1.0);
        }
        let mut objectives: Vec<f64> = Vec::new();
        let zeros: Vec<usize> =
            (0..hmm.transitions().len()).filter(|&i| hmm.transitions()[i] == 0.0).collect();
        let trained = train(&data, hmm.states(), family, &how, Some(&hmm), None, &run(), &mut |now| {
            objectives.push(now.progress().objective);
            Ok(true)
        });
        let trained = trained.unwrap_or_else(|error| panic!("case {case}: {error}"));
        objectives.push(trained.objective);
        for pair in objectives[1..].windows(2) {
            // The first step can lower the objective, where the given model has variances below the least one.
            assert!(
                pair[1] >= pair[0] - 1e-9 * (1.0 + pair[0].abs()),
                "case {case}, {family:?}: {objectives:?}"
            );
        }
        assert!(zeros.iter().all(|&i| trained.model.transitions()[i] == 0.0), "case {case}");
        trained.model.clone().checked().unwrap_or_else(|error| panic!("case {case}: {error}"));
    }
}

#[test]
fn parameters_are_recovered_from_drawn_data() {
    let normals = Gaussian::new(
        2,
        Covariance::Full,
        vec![-2.0, 0.0, 2.0, 1.0],
        vec![1.0, 0.5, 0.5, 1.0, 0.5, 0.0, 0.0, 2.0],
    );
    let hmm =
        Hmm::new(vec![0.5, 0.5], vec![0.9, 0.1, 0.2, 0.8], Emissions::Gaussian(normals.unwrap())).unwrap();
    let (data, states) = hmm.sample(&[500; 40], &run().with_seed(3)).unwrap();
    let family = hmm.family();
    let how = Learning::default().starts(2).iterations(200);
    let trained = train(&data, 2, family, &how, None, None, &run(), &mut |_| Ok(true)).unwrap();
    let Emissions::Gaussian(found) = trained.model.emissions() else { panic!("gaussian") };
    let order = if found.means()[0] < found.means()[2] { [0, 1] } else { [1, 0] };
    // About 13,000 and 7,000 rows per state: six standard errors are at most 6·√(2/6,600) = 0.1.
    for (n, &own) in order.iter().enumerate() {
        for d in 0..2 {
            let expected = [[-2.0, 0.0], [2.0, 1.0]][n][d];
            assert!((found.means()[own * 2 + d] - expected).abs() < 0.1, "{found:?}");
        }
        let expected = [[1.0, 0.5, 0.5, 1.0], [0.5, 0.0, 0.0, 2.0]][n];
        for (at, expected) in expected.iter().enumerate() {
            assert!((found.covariances()[own * 4 + at] - expected).abs() < 0.2, "{found:?}");
        }
        let stays = trained.model.transitions()[own * 2 + own];
        assert!((stays - [0.9, 0.8][n]).abs() < 0.03, "{stays}");
    }
    // Known states: relative counts.
    let supervised = train_supervised(&data, &states, 2, family, &Learning::default(), None, &run()).unwrap();
    let mut moves = [0.0; 4];
    for sequence in 0..data.count() {
        let path = &states[data.range(sequence)];
        path.windows(2).for_each(|pair| moves[pair[0] * 2 + pair[1]] += 1.0);
    }
    assert!((supervised.model.transitions()[0] - moves[0] / (moves[0] + moves[1])).abs() < 1e-12);
    assert!(trained.log_likelihood >= supervised.log_likelihood);
    // Stochastic EM comes close.
    let how = Learning::default().batch(8).iterations(30);
    let online = train(&data, 2, family, &how, None, None, &run(), &mut |_| Ok(true)).unwrap();
    let gap = (trained.log_likelihood - online.log_likelihood) / data.rows() as f64;
    assert!(gap < 1e-3, "{gap}");
}

/// The error of maximum likelihood falls as 1/√n: sixteen times the data, a quarter of the error.
#[test]
fn errors_of_recovered_parameters_fall_at_the_expected_rate() {
    let table = Categorical::new(2, vec![0.8, 0.15, 0.05, 0.1, 0.2, 0.7]);
    let hmm =
        Hmm::new(vec![0.5, 0.5], vec![0.9, 0.1, 0.2, 0.8], Emissions::Categorical(table.unwrap())).unwrap();
    let how = Learning::default().iterations(100);
    let error = |sequences: usize| -> f64 {
        let squares = (0..12).map(|seed| {
            let (data, _) = hmm.sample(&vec![100; sequences], &run().with_seed(seed)).unwrap();
            // Started at the truth, so that the states have the same order.
            let found =
                train(&data, 2, hmm.family(), &how, Some(&hmm), None, &run(), &mut |_| Ok(true)).unwrap();
            let pairs = found.model.transitions().iter().zip(hmm.transitions());
            pairs.map(|(a, b)| (a - b) * (a - b)).sum::<f64>()
        });
        (squares.sum::<f64>() / 12.0).sqrt()
    };
    let ratio = error(10) / error(160);
    // Each mean of squares has about 24 degrees of freedom, so the ratio is within a factor of 2 of 4.
    assert!((2.0..8.0).contains(&ratio), "{ratio}");
}

#[test]
fn a_resumed_run_gives_the_same_bits() {
    let mut random = Streams::new(22, "hmm resume").block(0);
    let path = std::env::temp_dir().join(format!("zhat-hmm-kept-{}.zhat", std::process::id()));
    for (case, &family) in FAMILIES.iter().enumerate() {
        let (_, data) = random_case(family, false, &mut random);
        let (_, more) = random_case(family, false, &mut random);
        let data = if data.columns() == more.columns() {
            let values = [data.values(), more.values()].concat();
            let lengths = [data.lengths(), more.lengths()].concat();
            Sequences::new(data.columns(), values, &lengths).unwrap()
        } else {
            data
        };
        use DurationForm::{Free, Geometric, NegativeBinomial};
        for (form, batch) in [
            (Geometric, 0),
            (Geometric, 1),
            (Free, 0),
            (Free, 1),
            (NegativeBinomial, 0),
            (NegativeBinomial, 1),
        ] {
            let how = Learning::default().starts(2).iterations(6).tolerance(1e-4).least_variance(0.01);
            let how = how.batch(batch).durations(form).max_duration(4);
            let mut steps = 0;
            let whole = train(&data, 2, family, &how, None, None, &run(), &mut |_| {
                steps += 1;
                Ok(true)
            })
            .unwrap();
            for stop in 1..=steps {
                let mut seen = 0;
                let _ = train(&data, 2, family, &how, None, None, &run(), &mut |now| {
                    seen += 1;
                    if seen == stop {
                        write_hmm_checkpoint(now, &path)?;
                    }
                    Ok(seen < stop)
                });
                let from = read_hmm_checkpoint(&path).unwrap();
                let resumed =
                    train(&data, 2, family, &how, None, Some(from), &run(), &mut |_| Ok(true)).unwrap();
                let name = format!("case {case}, {form:?}, batch {batch}");
                assert_eq!(whole, resumed, "{name}, stopped after {stop} of {steps}");
            }
        }
    }
    // More iterations than at first.
    let (_, data) = random_case(FAMILIES[2], false, &mut random);
    let how = Learning::default().tolerance(0.0).least_variance(0.01);
    let go = |how: &Learning, from: Option<HmmCheckpoint>| {
        train(&data, 2, FAMILIES[2], how, None, from, &run(), &mut |now| {
            write_hmm_checkpoint(now, &path)?;
            Ok(true)
        })
        .unwrap()
    };
    let whole = go(&how.clone().iterations(5), None);
    go(&how.clone().iterations(2), None);
    let from = read_hmm_checkpoint(&path).unwrap();
    assert_eq!(whole, go(&how.clone().iterations(5), Some(from)));
    let (_, other) = random_case(FAMILIES[0], false, &mut random);
    let from = read_hmm_checkpoint(&path).unwrap();
    let refused =
        train(&other, 2, FAMILIES[0], &Learning::default(), None, Some(from), &run(), &mut |_| Ok(true));
    assert!(refused.unwrap_err().to_string().contains("belongs to other data"));
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn files_keep_every_bit() {
    let mut random = Streams::new(23, "hmm files").block(0);
    for &family in &FAMILIES {
        let (hmm, _) = random_case(family, false, &mut random);
        let mut bytes = Vec::new();
        write_hmm(&hmm, &mut bytes).unwrap();
        assert_eq!(parse_hmm(&bytes, "m.zhat").unwrap(), hmm);
        let model = crate::io::model_file::parse(&bytes, "m.zhat").unwrap();
        assert_eq!(model.kind().name(), "hmm");
        assert_eq!(model.get::<Hmm>(), Some(&hmm));
        assert_eq!(crate::io::model_file::to_bytes(&model), bytes);
        for cut in [bytes.len() / 3, bytes.len() - 1] {
            assert!(parse_hmm(&bytes[..cut], "m.zhat").is_err());
        }
    }
}

/// A file of version 1 with all optional parts; `ZHAT_BLESS=1` writes it.
#[test]
fn the_golden_file_gives_the_original_model() {
    let normals =
        Gaussian::new(2, Covariance::Diagonal, vec![-1.5, 0.25, -1.5, 0.25], vec![0.5, 2.0, 0.5, 2.0]);
    let hmm = Hmm::new(vec![0.75, 0.25], vec![0.0, 1.0, 1.0, 0.0], Emissions::Gaussian(normals.unwrap()));
    let durations = Durations::free(2, vec![0.5, 0.25, 0.25, 0.0, 0.5, 0.5]).unwrap();
    let hmm = hmm.unwrap().with_ties(&[3, 3]).unwrap().with_durations(durations).unwrap();
    let mut bytes = Vec::new();
    write_hmm(&hmm, &mut bytes).unwrap();
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1-hmm.zhat");
    if std::env::var_os("ZHAT_BLESS").is_some_and(|bless| bless == "1") {
        std::fs::write(&path, &bytes).unwrap();
    }
    assert!(std::fs::read(&path).unwrap() == bytes, "the model would be written otherwise today");
    let read = crate::io::read_model(&path).unwrap();
    assert_eq!(read.get::<Hmm>(), Some(&hmm));
}

#[test]
fn fixed_parameters_stay_and_topologies_hold() {
    let mut random = Streams::new(24, "hmm fixed").block(0);
    let (hmm, data) = random_case(FAMILIES[2], false, &mut random);
    let how = Learning::default().fixed_start(true).fixed_transitions(true);
    let family = hmm.family();
    let trained =
        train(&data, hmm.states(), family, &how, Some(&hmm), None, &run(), &mut |_| Ok(true)).unwrap();
    assert_eq!((trained.model.start(), trained.model.transitions()), (hmm.start(), hmm.transitions()));
    let how = Learning::default().fixed_emissions(true);
    let trained =
        train(&data, hmm.states(), family, &how, Some(&hmm), None, &run(), &mut |_| Ok(true)).unwrap();
    assert_eq!(trained.model.emissions(), hmm.emissions());
    let how = Learning::default().topology(Topology::LeftToRight).iterations(3);
    let trained = train(&data, 3, family, &how, None, None, &run(), &mut |_| Ok(true)).unwrap();
    let moves = trained.model.transitions();
    assert_eq!([moves[2], moves[3], moves[6], moves[7]], [0.0; 4]);
    assert_eq!(trained.model.start(), [1.0, 0.0, 0.0]);
}

#[test]
fn budgets_cancellation_and_ranges_are_honoured() {
    let mut random = Streams::new(25, "hmm budgets").block(0);
    let (hmm, data) = random_case(FAMILIES[1], false, &mut random);
    let family = hmm.family();
    let attempt =
        |how: &Learning, run: &Run| train(&data, 2, family, how, None, None, run, &mut |_| Ok(true));
    let how = Learning::default();
    assert!(matches!(attempt(&how, &run().with_time(Duration::ZERO)), Err(Error::OverBudget { .. })));
    assert!(matches!(attempt(&how, &run().with_memory(100)), Err(Error::OverBudget { .. })));
    let cancelled = run().with_cancel(Arc::new(AtomicBool::new(true)));
    assert!(matches!(attempt(&how, &cancelled), Err(Error::Interrupted)));
    assert!(matches!(hmm.posteriors(&data, &cancelled), Err(Error::Interrupted)));
    let words = |how: Learning| attempt(&how, &run()).unwrap_err().to_string();
    assert!(words(how.clone().transition_prior(0.5)).starts_with("transition_prior: 0.5 is out of range"));
    assert!(words(how.clone().starts(0)).starts_with("starts: 0 is out of range"));
    assert!(words(how.clone().forgetting(0.5)).starts_with("forgetting: 0.5 is out of range"));
    let none = train(&data, 0, family, &how, None, None, &run(), &mut |_| Ok(true)).unwrap_err();
    assert!(none.to_string().contains("states: 0 is out of range"));
}

#[test]
fn numbers_of_states_are_compared() {
    let normals = Gaussian::new(2, Covariance::Diagonal, vec![-3.0, 3.0], vec![1.0, 1.0]).unwrap();
    let hmm = Hmm::new(vec![0.5, 0.5], vec![0.9, 0.1, 0.1, 0.9], Emissions::Gaussian(normals)).unwrap();
    let (data, _) = hmm.sample(&[60; 10], &run()).unwrap();
    let how = Learning::default().starts(2);
    let table = compare_states(&data, &[1, 2, 3], hmm.family(), &how, 5, &run(), &mut |_| Ok(true)).unwrap();
    assert_eq!(table.iter().map(|one| one.parameters).collect::<Vec<_>>(), [2, 7, 14]);
    assert!(table[1].bic < table[0].bic && table[1].bic < table[2].bic);
    assert!(table[1].cross_validated > table[0].cross_validated);
    assert!((table[1].bic - table[1].model.bic(&data, &run()).unwrap()).abs() < 1e-6);
    assert!((table[1].aic - table[1].model.aic(&data, &run()).unwrap()).abs() < 1e-6);
}

#[test]
fn parameters_that_are_no_model_are_refused() {
    let words = |result: crate::Result<Hmm>| result.unwrap_err().to_string();
    let table = || Emissions::Categorical(Categorical::new(2, vec![0.5, 0.5, 0.5, 0.5]).unwrap());
    let zero = Hmm::new(vec![0.5, 0.5], vec![1.0, 0.0, 0.0, 0.0], table());
    assert_eq!(words(zero), "transitions: row 1 sums to 0, expected 1: every row needs a positive entry");
    let negative = Hmm::new(vec![1.5, -0.5], vec![1.0, 0.0, 0.0, 1.0], table());
    assert_eq!(words(negative), "start: row 0, entry 1 is -0.5, expected a probability");
    let matrix = vec![1.0, 2.0, 2.0, 1.0];
    let indefinite = Gaussian::new(1, Covariance::Full, vec![0.0, 0.0], matrix).unwrap_err();
    assert_eq!(indefinite.to_string(), "covariances: the matrix of state 0 is not positive definite");
    let rate = Poisson::new(1, vec![-1.0]).unwrap_err().to_string();
    assert!(rate.contains("expected a finite number of at least 0"), "{rate}");
}
