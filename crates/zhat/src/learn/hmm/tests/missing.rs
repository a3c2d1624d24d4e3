//! Rows with single missing values, against the densities of the other columns written out here.

use super::super::*;
use super::{FAMILIES, random_case};
use crate::Run;
use crate::numeric::log_sum_exp;
use crate::random::{Stream, Streams};

fn run() -> Run {
    Run::default().with_threads(1)
}

/// Families with more than one column.
const PARTIAL: [Family; 9] = [
    FAMILIES[1],
    FAMILIES[2],
    FAMILIES[3],
    FAMILIES[4],
    FAMILIES[5],
    FAMILIES[6],
    FAMILIES[7],
    Family::Mixture { components: 3, covariance: Covariance::Spherical },
    Family::Mixture { components: 2, covariance: Covariance::Tied },
];

/// ln p of the columns of a row that are known, under the normal distribution of a state or component.
fn log_normal(normals: &Gaussian, n: usize, row: &[f64]) -> f64 {
    let columns = row.len();
    if normals.form().has_matrices() {
        let first = if normals.form() == Covariance::Tied { 0 } else { n * columns * columns };
        let known: Vec<usize> = (0..columns).filter(|&d| !row[d].is_nan()).collect();
        let distances: Vec<f64> = known.iter().map(|&d| row[d] - normals.means()[n * columns + d]).collect();
        let entry = |i: usize, j: usize| normals.covariances()[first + known[i] * columns + known[j]];
        let (log_determinant, square) = eliminated(entry, &distances);
        return -0.5 * (known.len() as f64 * std::f64::consts::TAU.ln() + log_determinant + square);
    }
    let one = |(d, &x): (usize, &f64)| {
        let variance = match normals.form() {
            Covariance::Spherical => normals.covariances()[n],
            _ => normals.covariances()[n * columns + d],
        };
        let distance = x - normals.means()[n * columns + d];
        -0.5 * ((std::f64::consts::TAU * variance).ln() + distance * distance / variance)
    };
    row.iter().enumerate().filter(|(_, x)| !x.is_nan()).map(one).sum()
}

/// ln |A| and xᵀA⁻¹x for a positive definite matrix, by Gaussian elimination of (A | x).
fn eliminated(entry: impl Fn(usize, usize) -> f64, x: &[f64]) -> (f64, f64) {
    let size = x.len();
    let mut rows: Vec<Vec<f64>> =
        (0..size).map(|i| (0..size).map(|j| entry(i, j)).chain([x[i]]).collect()).collect();
    for i in 0..size {
        let (above, below) = rows.split_at_mut(i + 1);
        let pivot = &above[i];
        for row in below {
            let factor = row[i] / pivot[i];
            row.iter_mut().zip(pivot).skip(i).for_each(|(x, own)| *x -= factor * own);
        }
    }
    let mut solved = vec![0.0; size];
    for i in (0..size).rev() {
        let others: f64 = (i + 1..size).map(|j| rows[i][j] * solved[j]).sum();
        solved[i] = (rows[i][size] - others) / rows[i][i];
    }
    let log_determinant = (0..size).map(|i| rows[i][i].ln()).sum();
    (log_determinant, x.iter().zip(&solved).map(|(a, b)| a * b).sum())
}

fn log_density(hmm: &Hmm, n: usize, row: &[f64]) -> f64 {
    match hmm.emissions() {
        Emissions::Gaussian(normals) => log_normal(normals, n, row),
        Emissions::Poisson(poisson) => row
            .iter()
            .zip(&poisson.rates()[n * row.len()..])
            .filter(|(x, _)| !x.is_nan())
            .map(|(&x, &rate)| (1..=x as u64).map(|k| (rate / k as f64).ln()).sum::<f64>() - rate)
            .sum(),
        Emissions::Mixture(mixture) => {
            let own = n * mixture.components()..(n + 1) * mixture.components();
            let terms = own.map(|k| mixture.weights()[k].ln() + log_normal(mixture.normals(), k, row));
            log_sum_exp(&terms.collect::<Vec<_>>())
        }
        Emissions::Categorical(_) => panic!("one column"),
    }
}

/// The log weights of all paths of a sequence.
fn paths(hmm: &Hmm, rows: &[f64], columns: usize) -> Vec<(Vec<usize>, f64)> {
    let states = hmm.states();
    let mut open = vec![(Vec::new(), 0.0)];
    for row in rows.chunks_exact(columns) {
        open = open
            .into_iter()
            .flat_map(|(path, weight): (Vec<usize>, f64)| {
                (0..states).map(move |n| {
                    let into = match path.last() {
                        None => hmm.start()[n],
                        Some(&before) => hmm.transitions()[before * states + n],
                    };
                    ([path.clone(), vec![n]].concat(), weight + into.ln() + log_density(hmm, n, row))
                })
            })
            .collect();
    }
    open
}

/// A random model, and sequences drawn from it in which this share of the values is missing.
fn case(family: Family, share: f64, random: &mut Stream) -> (Hmm, Sequences) {
    let (hmm, data) = random_case(family, false, random);
    let values = data.values().iter().map(|&x| if random.uniform() < share { f64::NAN } else { x });
    let data = Sequences::new(data.columns(), values.collect(), &data.lengths()).unwrap();
    (hmm, data)
}

#[test]
fn single_missing_values_are_integrated_out() {
    let mut random = Streams::new(51, "hmm partly missing").block(0);
    let mut partly = 0;
    for number in 0..200 {
        let (hmm, data) = case(PARTIAL[number % PARTIAL.len()], 0.4, &mut random);
        let (states, columns) = (hmm.states(), data.columns());
        partly += data
            .values()
            .chunks_exact(columns)
            .filter(|row| row.iter().any(|x| x.is_nan()) && row.iter().any(|x| !x.is_nan()))
            .count();
        let logs = hmm.log_likelihoods(&data, &run()).unwrap();
        let (posteriors, _) = hmm.posteriors(&data, &run()).unwrap();
        let (_, best) = hmm.decode(&data, &run()).unwrap();
        for sequence in 0..data.count() {
            let all = paths(&hmm, data.sequence(sequence), columns);
            let weights: Vec<f64> = all.iter().map(|(_, weight)| *weight).collect();
            let log = log_sum_exp(&weights);
            assert!((logs[sequence] - log).abs() < 1e-10 * (1.0 + log.abs()), "case {number}");
            let rows = data.range(sequence);
            let mut marginals = vec![0.0; rows.len() * states];
            for (path, weight) in &all {
                path.iter().enumerate().for_each(|(t, n)| marginals[t * states + n] += (weight - log).exp());
            }
            let found = &posteriors[rows.start * states..rows.end * states];
            assert!(found.iter().zip(&marginals).all(|(a, b)| (a - b).abs() < 1e-10), "case {number}");
            let most = weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            assert!((best[sequence] - most).abs() < 1e-10 * (1.0 + most.abs()), "case {number}");
        }
    }
    assert!(partly > 300, "{partly}");
}

/// The likelihood of a row with a missing value is the integral of that of complete rows, by the trapezoidal rule,
/// whose error decreases exponentially for normal densities.
#[test]
fn the_likelihood_is_the_integral_over_the_missing_value() {
    let normals = Gaussian::new(
        2,
        Covariance::Full,
        vec![0.0, 1.0, 2.0, -1.0],
        vec![1.0, 0.6, 0.6, 1.5, 2.0, -0.9, -0.9, 0.8],
    );
    let hmm =
        Hmm::new(vec![0.3, 0.7], vec![0.8, 0.2, 0.4, 0.6], Emissions::Gaussian(normals.unwrap())).unwrap();
    let likelihood = |values: Vec<f64>| {
        let data = Sequences::new(2, values, &[3]).unwrap();
        hmm.log_likelihoods(&data, &run()).unwrap()[0].exp()
    };
    for lost in 0..2 {
        let with = |x: f64| {
            let mut values = vec![0.3, 0.9, 1.4, -0.2, 0.1, 1.1];
            values[2 + lost] = x;
            values
        };
        let sum: f64 = (-300..=300).map(|i| likelihood(with(f64::from(i) * 0.05))).sum();
        let found = likelihood(with(f64::NAN));
        assert!((found / (0.05 * sum) - 1.0).abs() < 1e-12, "{lost}: {found} {}", 0.05 * sum);
    }
}

/// Gradients by finite differences, with patterns of missing values.
#[test]
fn gradients_with_single_missing_values_agree_with_finite_differences() {
    let mut random = Streams::new(54, "hmm missing gradient").block(0);
    for number in 0..36 {
        let (mut hmm, data) = case(PARTIAL[number % PARTIAL.len()], 0.4, &mut random);
        let mut how = Learning::default().least_variance(1e-3);
        if number % 2 == 0 {
            how = how.mean_weight(0.5).covariance_weight(1.0);
        }
        let context = how.context(&data);
        let at = how.coordinates(&hmm, &context);
        how.place(&mut hmm, &at, &context);
        let value = |at: &[f64]| {
            let mut moved = hmm.clone();
            how.place(&mut moved, at, &context);
            let (counts, likelihood) = super::descent::expected(&moved, &data, &context);
            (counts, likelihood + how.log_prior(&moved, &context))
        };
        let gradient = how.gradient(&hmm, &at, &value(&at).0, &context);
        for (i, derivative) in gradient.iter().enumerate() {
            let shifted = |by: f64| {
                let mut other = at.clone();
                other[i] += by;
                value(&other).1
            };
            let numeric = (shifted(1e-5) - shifted(-1e-5)) / 2e-5;
            let scale = 1.0 + derivative.abs();
            assert!(
                (numeric - derivative).abs() < 1e-4 * scale,
                "case {number}, {i}: {numeric} {derivative}"
            );
        }
    }
}

/// A column that is missing everywhere has no influence, and training leaves its parameters as they are.
#[test]
fn a_column_without_values_gives_the_marginal_model() {
    let mut random = Streams::new(52, "hmm missing column").block(0);
    for number in 0..60 {
        let poisson = number % 2 == 0;
        let (states, columns, lost) = (3, 3, number % 3);
        let family = if poisson { FAMILIES[5] } else { FAMILIES[2] };
        let emissions = super::emissions(family, states, columns, &mut random);
        let without = |values: &[f64]| -> Vec<f64> {
            values.iter().enumerate().filter(|(at, _)| at % columns != lost).map(|(_, x)| *x).collect()
        };
        let marginal = match &emissions {
            Emissions::Poisson(own) => {
                Emissions::Poisson(Poisson::new(states, without(own.rates())).unwrap())
            }
            Emissions::Gaussian(own) => {
                let (means, variances) = (without(own.means()), without(own.covariances()));
                Emissions::Gaussian(Gaussian::new(states, Covariance::Diagonal, means, variances).unwrap())
            }
            _ => panic!("{family:?}"),
        };
        let start = super::distribution(states, false, &mut random);
        let transitions: Vec<f64> =
            (0..states).flat_map(|_| super::distribution(states, false, &mut random)).collect();
        let whole = Hmm::new(start.clone(), transitions.clone(), emissions).unwrap();
        let marginal = Hmm::new(start, transitions, marginal).unwrap();
        let (data, _) = whole.sample(&[40, 1, 25], &run().with_seed(number as u64)).unwrap();
        // Some values of the other columns are missing, too.
        let mut values = data.values().to_vec();
        for (at, x) in values.iter_mut().enumerate() {
            if at % columns == lost || random.uniform() < 0.2 {
                *x = f64::NAN;
            }
        }
        let less = Sequences::new(columns - 1, without(&values), &data.lengths()).unwrap();
        let data = Sequences::new(columns, values, &data.lengths()).unwrap();
        let (a, logs) = whole.posteriors(&data, &run()).unwrap();
        let (b, same) = marginal.posteriors(&less, &run()).unwrap();
        assert!(logs.iter().zip(&same).all(|(x, y)| (x - y).abs() < 1e-11 * (1.0 + x.abs())), "{number}");
        assert!(a.iter().zip(&b).all(|(x, y)| (x - y).abs() < 1e-11), "{number}");
        let how = Learning::default().iterations(3).tolerance(0.0).least_variance(1e-6);
        let learned = |hmm: &Hmm, data: &Sequences| {
            train(data, states, family, &how, Some(hmm), None, &run(), &mut |_| Ok(true)).unwrap().model
        };
        let (found, expected) = (learned(&whole, &data), learned(&marginal, &less));
        let numbers = |hmm: &Hmm| match hmm.emissions() {
            Emissions::Poisson(own) => own.rates().to_vec(),
            Emissions::Gaussian(own) => [own.means(), own.covariances()].concat(),
            _ => panic!("{family:?}"),
        };
        let close =
            |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(x, y)| (x - y).abs() < 1e-8 * (1.0 + y.abs()));
        assert!(close(&without(&numbers(&found)), &numbers(&expected)), "{number}");
        assert!(close(found.transitions(), expected.transitions()), "{number}");
        let kept = numbers(&found).into_iter().zip(numbers(&whole)).enumerate();
        let mut kept = kept.filter(|(at, _)| at % columns == lost);
        assert!(kept.all(|(_, (x, y))| x == y), "{number}");
    }
}

#[test]
fn the_objective_never_falls_with_single_missing_values() {
    let mut random = Streams::new(53, "hmm missing monotone").block(0);
    for number in 0..200 {
        let family = PARTIAL[number % PARTIAL.len()];
        let (hmm, data) = case(family, 0.3, &mut random);
        let how = Learning::default().iterations(8).tolerance(0.0).least_variance(1e-3);
        let mut objectives: Vec<f64> = Vec::new();
        train(&data, hmm.states(), family, &how, Some(&hmm), None, &run(), &mut |now| {
            objectives.push(now.progress().objective);
            Ok(true)
        })
        .unwrap_or_else(|error| panic!("case {number}: {error}"));
        for pair in objectives[1..].windows(2) {
            assert!(pair[1] >= pair[0] - 1e-9 * (1.0 + pair[0].abs()), "case {number}: {objectives:?}");
        }
    }
}
