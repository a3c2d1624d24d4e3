//! Known states: closed forms of every family, what is still hidden, zeros, and given models.

use super::super::*;
use super::{FAMILIES, random_case};
use crate::Run;
use crate::random::{Stream, Streams};

fn run() -> Run {
    Run::default().with_threads(1)
}

fn close(a: &[f64], b: &[f64], tolerance: f64) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(x, y)| (x - y).abs() <= tolerance * (1.0 + y.abs()))
}

/// Mean and covariance matrix of rows, by their definitions.
fn moments(rows: &[&[f64]]) -> (Vec<f64>, Vec<f64>) {
    let (columns, count) = (rows[0].len(), rows.len() as f64);
    let mean: Vec<f64> = (0..columns).map(|d| rows.iter().map(|row| row[d]).sum::<f64>() / count).collect();
    let product = |i: usize, j: usize| {
        rows.iter().map(|row| (row[i] - mean[i]) * (row[j] - mean[j])).sum::<f64>() / count
    };
    let covariance = (0..columns * columns).map(|at| product(at / columns, at % columns)).collect();
    (mean, covariance)
}

/// The covariances of groups of rows in the shape of a form.
fn covariances(form: Covariance, groups: &[Vec<&[f64]>]) -> Vec<f64> {
    let columns = groups[0][0].len();
    let total: usize = groups.iter().map(Vec::len).sum();
    let each = groups.iter().map(|rows| (rows.len(), moments(rows).1));
    match form {
        Covariance::Full => each.flat_map(|(_, matrix)| matrix).collect(),
        Covariance::Diagonal => {
            each.flat_map(|(_, matrix)| (0..columns).map(move |d| matrix[d * columns + d])).collect()
        }
        Covariance::Spherical => each
            .map(|(_, matrix)| (0..columns).map(|d| matrix[d * columns + d]).sum::<f64>() / columns as f64)
            .collect(),
        Covariance::Tied => each.fold(vec![0.0; columns * columns], |sum, (count, matrix)| {
            let share = count as f64 / total as f64;
            sum.iter().zip(matrix).map(|(sum, x)| sum + share * x).collect()
        }),
    }
}

/// A path of three states that visits all of them, in sequences of ten steps.
fn path(length: usize, random: &mut Stream) -> Vec<usize> {
    (0..length).map(|t| if t < 30 { t % 3 } else { random.below(3) }).collect()
}

#[test]
fn every_family_has_its_closed_form() {
    let mut random = Streams::new(61, "hmm known states").block(0);
    let labels = path(120, &mut random);
    for family in FAMILIES {
        let columns = if matches!(family, Family::Categorical { .. }) { 1 } else { 2 };
        let draw = |random: &mut Stream, at: usize| match family {
            Family::Categorical { .. } => random.below(3) as f64,
            Family::Poisson => random.below(5 + labels[at / columns]) as f64,
            // Two clusters, far from each other: every share of a component is 0 or 1 in double precision. The clusters
            // of the three states interleave.
            Family::Mixture { .. } => {
                let side = if at / columns % 5 < 2 { 0.0 } else { 3000.0 };
                1000.0 * labels[at / columns] as f64 + side + random.normal()
            }
            Family::Gaussian { .. } => 3.0 * labels[at / columns] as f64 + random.normal(),
        };
        let values: Vec<f64> = (0..labels.len() * columns).map(|at| draw(&mut random, at)).collect();
        let data = Sequences::new(columns, values.clone(), &[10; 12]).unwrap();
        let how = Learning::default().start_prior(1.5).transition_prior(2.0).least_variance(1e-12);
        let found = train_supervised(&data, &labels, 3, family, &how, None, &run()).unwrap();
        assert!(found.converged, "{family:?}");
        let mut start = [0.5; 3];
        let mut moves = [1.0; 9];
        for own in labels.chunks(10) {
            start[own[0]] += 1.0;
            own.windows(2).for_each(|pair| moves[3 * pair[0] + pair[1]] += 1.0);
        }
        simplex::normalize_rows(&mut start, 3);
        simplex::normalize_rows(&mut moves, 3);
        assert!(close(found.model.start(), &start, 1e-13), "{family:?}");
        assert!(close(found.model.transitions(), &moves, 1e-13), "{family:?}");
        let rows = |n: usize, keep: &dyn Fn(usize) -> bool| -> Vec<&[f64]> {
            let rows = values.chunks_exact(columns).enumerate();
            rows.filter(|(t, _)| labels[*t] == n && keep(*t)).map(|(_, row)| row).collect()
        };
        let own: Vec<_> = (0..3).map(|n| rows(n, &|_| true)).collect();
        let means =
            |groups: &[Vec<&[f64]>]| groups.iter().flat_map(|rows| moments(rows).0).collect::<Vec<_>>();
        match found.model.emissions() {
            Emissions::Categorical(table) => {
                let share = |n: usize, v: usize| {
                    own[n].iter().filter(|row| row[0] == v as f64).count() as f64 / own[n].len() as f64
                };
                let expected: Vec<f64> = (0..9).map(|at| share(at / 3, at % 3)).collect();
                assert!(close(table.probabilities(), &expected, 1e-13));
            }
            Emissions::Poisson(poisson) => assert!(close(poisson.rates(), &means(&own), 1e-13)),
            Emissions::Gaussian(normals) => {
                assert!(close(normals.means(), &means(&own), 1e-12), "{family:?}");
                let expected = covariances(normals.form(), &own);
                assert!(close(normals.covariances(), &expected, 1e-10), "{family:?}");
            }
            Emissions::Mixture(mixture) => {
                let clusters: Vec<_> =
                    (0..6).map(|k| rows(k / 2, &|t| (t % 5 >= 2) == (k % 2 == 1))).collect();
                let shares: Vec<f64> = clusters
                    .iter()
                    .enumerate()
                    .map(|(k, rows)| rows.len() as f64 / own[k / 2].len() as f64)
                    .collect();
                assert!(close(mixture.weights(), &shares, 1e-12), "{family:?}");
                assert!(close(mixture.normals().means(), &means(&clusters), 1e-9), "{family:?}");
                let expected = covariances(mixture.normals().form(), &clusters);
                let found = mixture.normals().covariances();
                assert!(close(found, &expected, 1e-6), "{family:?}: {found:?} {expected:?}");
            }
        }
    }
}

/// Overlapping components: the derivatives of the likelihood given the states are zero, and more than one step is
/// needed.
#[test]
fn mixtures_are_trained_to_a_stationary_point() {
    let mut random = Streams::new(62, "hmm known mixtures").block(0);
    let labels: Vec<usize> = (0..200).map(|t| t / 7 % 2).collect();
    let values: Vec<f64> = (0..200)
        .map(|t| random.normal() + 4.0 * f64::from(u8::from(random.uniform() < 0.4)) - 2.0 * labels[t] as f64)
        .collect();
    let data = Sequences::new(1, values.clone(), &[100, 100]).unwrap();
    let family = Family::Mixture { components: 2, covariance: Covariance::Diagonal };
    let how = Learning::default().tolerance(1e-15).iterations(100_000);
    let found = train_supervised(&data, &labels, 2, family, &how, None, &run()).unwrap();
    assert!(found.converged && found.steps > 10, "{}", found.steps);
    let Emissions::Mixture(mixture) = found.model.emissions() else { panic!("mixture") };
    let (weights, normals) = (mixture.weights(), mixture.normals());
    for n in 0..2 {
        let (mut total, mut slopes) = (0.0, [0.0; 6]);
        for (x, _) in values.iter().zip(&labels).filter(|(_, label)| **label == n) {
            let density = |k: usize| {
                let (mean, variance) = (normals.means()[k], normals.covariances()[k]);
                weights[k] * (-(x - mean).powi(2) / (2.0 * variance)).exp() / variance.sqrt()
            };
            let parts = [density(2 * n), density(2 * n + 1)];
            total += 1.0;
            for k in 0..2 {
                let share = parts[k] / (parts[0] + parts[1]);
                let distance = x - normals.means()[2 * n + k];
                slopes[k] += share * distance;
                slopes[2 + k] += share * (distance * distance - normals.covariances()[2 * n + k]);
                slopes[4 + k] += share - weights[2 * n + k];
            }
        }
        assert!(slopes.iter().all(|slope| (slope / total).abs() < 1e-5), "{slopes:?}");
    }
    let one = train_supervised(&data, &labels, 2, family, &how.clone().iterations(1), None, &run()).unwrap();
    assert!(!one.converged && one.steps == 1);
    assert!(one.log_likelihood < found.log_likelihood);
}

/// The second column is missing in some rows: the maximum is that of a regression on the first one (T. W. Anderson,
/// *Maximum likelihood estimates for a multivariate normal distribution when some observations are missing*, 1957).
#[test]
fn missing_values_have_the_closed_form_of_a_regression() {
    let mut random = Streams::new(63, "hmm known missing").block(0);
    let labels: Vec<usize> = (0..80).map(|t| t / 5 % 2).collect();
    let mut values = Vec::new();
    for (t, &n) in labels.iter().enumerate() {
        let x = random.normal() + 3.0 * n as f64;
        let y = 0.7 * x + 0.5 * random.normal();
        values.extend([x, if t % 3 == 1 { f64::NAN } else { y }]);
    }
    let data = Sequences::new(2, values.clone(), &[80]).unwrap();
    let family = Family::Gaussian { covariance: Covariance::Full };
    let how = Learning::default().tolerance(1e-15).iterations(10_000).least_variance(1e-12);
    let found = train_supervised(&data, &labels, 2, family, &how, None, &run()).unwrap();
    assert!(found.converged);
    let Emissions::Gaussian(normals) = found.model.emissions() else { panic!("gaussian") };
    for n in 0..2 {
        let own =
            || values.chunks_exact(2).zip(&labels).filter(|(_, label)| **label == n).map(|(row, _)| row);
        let whole: Vec<&[f64]> = own().filter(|row| !row[1].is_nan()).collect();
        let first: Vec<&[f64]> = own().map(|row| &row[..1]).collect();
        let ((mean, matrix), (all, variance)) = (moments(&whole), moments(&first));
        let slope = matrix[1] / matrix[0];
        let residual = matrix[3] - slope * matrix[1];
        let expected = [all[0], mean[1] + slope * (all[0] - mean[0])];
        assert!(close(&normals.means()[2 * n..][..2], &expected, 1e-6), "{n}: {:?}", normals.means());
        let cross = slope * variance[0];
        let expected = [variance[0], cross, cross, residual + slope * cross];
        assert!(close(&normals.covariances()[4 * n..][..4], &expected, 1e-5), "{n}");
    }
}

#[test]
fn zeros_stay_zero_and_impossible_paths_are_named() {
    let data = Sequences::new(1, vec![0.0, 1.0, 0.0, 1.0, 1.0, 0.0], &[3, 3]).unwrap();
    let family = Family::Categorical { symbols: 2 };
    let how = Learning::default().topology(Topology::LeftToRight).transition_prior(2.0).start_prior(3.0);
    let train = |labels: &[usize], given: Option<&Hmm>| {
        let how = if given.is_some() { Learning::default() } else { how.clone() };
        train_supervised(&data, labels, 3, family, &how, given, &run())
    };
    let found = train(&[0, 0, 1, 0, 1, 2], None).unwrap().model;
    assert_eq!(found.start(), [1.0, 0.0, 0.0]);
    // One move from 0 to 0, two from 0 to 1, one from 1 to 2, and one pseudo-count each.
    assert!(close(found.transitions(), &[0.4, 0.6, 0.0, 0.0, 1.0 / 3.0, 2.0 / 3.0, 0.0, 0.0, 1.0], 1e-14));
    let words = |labels: &[usize], given: Option<&Hmm>| train(labels, given).unwrap_err().to_string();
    assert_eq!(
        words(&[0, 0, 1, 0, 2, 2], None),
        "labels: row 4: state 2 follows state 0, but the probability of this transition is 0"
    );
    assert_eq!(
        words(&[0, 0, 1, 1, 1, 2], None),
        "labels: row 3: the sequence starts in state 1, whose start probability is 0"
    );
    assert_eq!(
        words(&[0, 3, 1, 0, 1, 2], None),
        "labels: row 1: the state 3 is out of range; expected 0 to 2"
    );
    let table = Categorical::new(3, vec![0.5, 0.5, 1.0, 0.0, 0.5, 0.5]).unwrap();
    let given = Hmm::new(vec![1.0, 0.0, 0.0], found.transitions().to_vec(), Emissions::Categorical(table));
    assert_eq!(
        words(&[0, 0, 1, 0, 1, 2], Some(&given.unwrap())),
        "labels: row 4: state 1 has the probability 0 for this observation"
    );
    let two = train_supervised(&data, &[0; 6], 2, family, &Learning::default(), Some(&found), &run());
    assert_eq!(two.unwrap_err().to_string(), "states: the given model has 3 states, expected 2");
}

#[test]
fn given_models_keep_what_is_fixed() {
    let mut random = Streams::new(64, "hmm known given").block(0);
    for family in FAMILIES {
        let (hmm, data) = loop {
            let (hmm, data) = random_case(family, false, &mut random);
            if hmm.states() > 1 && hmm.transitions().iter().chain(hmm.start()).all(|p| *p > 0.0) {
                break (hmm, data);
            }
        };
        let (_, states) = hmm.sample(&data.lengths(), &run()).unwrap();
        let train = |how: Learning| {
            let how = how.least_variance(0.01);
            train_supervised(&data, &states, hmm.states(), family, &how, Some(&hmm), &run())
        };
        let moves = train(Learning::default().fixed_start(true).fixed_transitions(true));
        // A state may not emit the symbols of a path that was drawn apart from them.
        if let Ok(found) = moves {
            assert_eq!((found.model.start(), found.model.transitions()), (hmm.start(), hmm.transitions()));
        } else {
            assert!(matches!(family, Family::Categorical { .. }), "{family:?}");
        }
        if let Ok(found) = train(Learning::default().fixed_emissions(true)) {
            assert_eq!(found.model.emissions(), hmm.emissions(), "{family:?}");
            assert!(found.converged);
        } else {
            assert!(matches!(family, Family::Categorical { .. }), "{family:?}");
        }
    }
}

/// Durations that the end of a sequence cuts off: the estimate of Kaplan and Meier (1958).
#[test]
fn censored_durations_have_their_closed_form() {
    // Of state 0, runs that end, and runs at the end of a sequence.
    let (ended, cut) = ([1, 2, 2, 3, 3, 4, 4, 4], [1, 2, 3, 3]);
    let (mut labels, mut lengths) = (Vec::new(), Vec::new());
    for length in ended {
        labels.extend([vec![0; length], vec![1; 4]].concat());
        lengths.push(length + 4);
    }
    for length in cut {
        labels.extend(vec![0; length]);
        lengths.push(length);
    }
    let data = Sequences::new(1, vec![0.0; labels.len()], &lengths).unwrap();
    let how = Learning::default().durations(DurationForm::Free).max_duration(4);
    let family = Family::Categorical { symbols: 1 };
    let found = train_supervised(&data, &labels, 2, family, &how, None, &run()).unwrap();
    assert!(found.converged);
    let (mut survival, mut expected) = (1.0, Vec::new());
    for d in 1..=4 {
        // A run of the last kind lasts at least as long as it shows, so it is at risk at shorter durations.
        let risk = ended.iter().filter(|length| **length >= d).count()
            + cut.iter().filter(|length| **length > d).count();
        let hazard = ended.iter().filter(|length| **length == d).count() as f64 / risk as f64;
        expected.push(survival * hazard);
        survival *= 1.0 - hazard;
    }
    let durations = found.model.durations().unwrap().probabilities();
    assert!(close(&durations[..4], &expected, 1e-8), "{durations:?} {expected:?}");
    // Runs of state 1 are all cut off after four steps.
    assert!(close(&durations[4..], &[0.0, 0.0, 0.0, 1.0], 1e-8), "{durations:?}");
}
