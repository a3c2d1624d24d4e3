//! Expected counts against enumeration and the gradients of a chain, training, gradients, durations, files and budgets.

mod descent;
mod durations;
mod forecast;
mod missing;
mod passes;
mod reading;
mod supervised;
mod training;

use super::*;
use crate::random::Stream;

/// The families of the tests.
pub(super) const FAMILIES: [Family; 8] = [
    Family::Categorical { symbols: 3 },
    Family::Gaussian { covariance: Covariance::Spherical },
    Family::Gaussian { covariance: Covariance::Diagonal },
    Family::Gaussian { covariance: Covariance::Full },
    Family::Gaussian { covariance: Covariance::Tied },
    Family::Poisson,
    Family::Mixture { components: 2, covariance: Covariance::Diagonal },
    Family::Mixture { components: 2, covariance: Covariance::Full },
];

/// A distribution, with zeros now and then.
pub(super) fn distribution(length: usize, zeros: bool, random: &mut Stream) -> Vec<f64> {
    let keep = random.below(length);
    let mut row: Vec<f64> = (0..length)
        .map(|i| if zeros && i != keep && random.uniform() < 0.3 { 0.0 } else { 0.05 + random.uniform() })
        .collect();
    let sum: f64 = row.iter().sum();
    row.iter_mut().for_each(|p| *p /= sum);
    row
}

fn normals(states: usize, columns: usize, form: Covariance, random: &mut Stream) -> Gaussian {
    let means = (0..states * columns).map(|_| 2.0 * random.normal()).collect();
    let size = form.shape(states, columns).iter().product::<usize>();
    let covariances = if form.has_matrices() {
        let mut matrices = Vec::new();
        for _ in 0..size / (columns * columns) {
            let b: Vec<f64> = (0..columns * columns).map(|_| random.normal()).collect();
            for i in 0..columns {
                for j in 0..columns {
                    let product: f64 = (0..columns).map(|k| b[i * columns + k] * b[j * columns + k]).sum();
                    matrices.push(product + if i == j { 0.3 } else { 0.0 });
                }
            }
        }
        matrices
    } else {
        (0..size).map(|_| 0.2 + random.uniform()).collect()
    };
    Gaussian::new(states, form, means, covariances).unwrap()
}

pub(super) fn emissions(family: Family, states: usize, columns: usize, random: &mut Stream) -> Emissions {
    match family {
        Family::Categorical { symbols } => {
            let table = (0..states).flat_map(|_| distribution(symbols, true, random)).collect();
            Emissions::Categorical(Categorical::new(states, table).unwrap())
        }
        Family::Gaussian { covariance } => Emissions::Gaussian(normals(states, columns, covariance, random)),
        Family::Poisson => {
            let rates = (0..states * columns).map(|_| 5.0 * random.uniform()).collect();
            Emissions::Poisson(Poisson::new(states, rates).unwrap())
        }
        Family::Mixture { components, covariance } => {
            let weights = (0..states).flat_map(|_| distribution(components, false, random)).collect();
            let normals = normals(states * components, columns, covariance, random);
            Emissions::Mixture(Mixture::new(states, weights, normals).unwrap())
        }
    }
}

/// A random model with zeros, and sequences drawn from it; some values are missing if asked for.
pub(super) fn random_case(family: Family, missing: bool, random: &mut Stream) -> (Hmm, Sequences) {
    let states = 1 + random.below(4);
    let columns = if matches!(family, Family::Categorical { .. }) { 1 } else { 1 + random.below(3) };
    let start = distribution(states, true, random);
    let transitions = (0..states).flat_map(|_| distribution(states, true, random)).collect();
    let hmm = Hmm::new(start, transitions, emissions(family, states, columns, random)).unwrap();
    let lengths: Vec<usize> = (0..1 + random.below(4)).map(|_| 1 + random.below(6)).collect();
    let run = crate::Run::default().with_threads(1).with_seed(random.bits());
    let (data, _) = hmm.sample(&lengths, &run).unwrap();
    if !missing {
        return (hmm, data);
    }
    let mut values = data.values().to_vec();
    for row in values.chunks_exact_mut(columns) {
        if random.uniform() < 0.3 {
            row.fill(f64::NAN);
        }
    }
    (hmm, Sequences::new(columns, values, &lengths).unwrap())
}
