//! Initial parameters.
//!
//! Means and rates are the centres of a k-means clustering (k-means++ seeds, a few Lloyd steps, columns scaled by
//! their variance); symbols have their frequencies, times random factors. Transitions are half uniform, half random.
//!
//! Reference: D. Arthur, S. Vassilvitskii, *k-means++: the advantages of careful seeding*, SODA 2007.

use serde::{Deserialize, Serialize};

use super::data::Sequences;
use super::durations::Durations;
use super::emission::{Categorical, Covariance, Emissions, Gaussian, Mixture, Poisson};
use super::learning::Learning;
use super::model::Hmm;
use super::simplex::normalize_rows;
use crate::error::{Error, Result};
use crate::random::{Stream, Streams};

/// Most rows that are clustered.
const ROWS: usize = super::forecast::CLUSTERED;
/// Lloyd steps.
const STEPS: usize = 10;
/// Least variance of an initial normal distribution, relative to that of the data.
const SPREAD: f64 = 0.01;

/// A family of emissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// Symbols 0 … V−1.
    Categorical {
        /// V.
        symbols: usize,
    },
    /// Normal distributions.
    Gaussian {
        /// The form of the covariances.
        covariance: Covariance,
    },
    /// Poisson counts.
    Poisson,
    /// Mixtures of normal distributions.
    Mixture {
        /// K, the number of components per state.
        components: usize,
        /// The form of the covariances.
        covariance: Covariance,
    },
}

/// The transitions that are not zero at the start of training; the others stay zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Topology {
    /// All.
    #[default]
    Full,
    /// From every state to itself and to the next one; sequences start in state 0.
    LeftToRight,
}

/// Initial parameters, with the topology, ties and durations of `how`; `attempt` numbers the starts of one seed.
///
/// # Errors
/// If there are no states or no components, the ties are of another number of states, or the data do not fit the
/// family.
pub fn initial(
    data: &Sequences,
    states: usize,
    family: Family,
    how: &Learning,
    seed: u64,
    attempt: usize,
) -> Result<Hmm> {
    if states == 0 {
        return Err(Error::argument("states", "0 is out of range; expected at least 1"));
    }
    let mut random = Streams::new(seed, "initial parameters of a hidden Markov model").block(attempt as u64);
    let (start, mut transitions) = moves(states, how.topology, &mut random);
    let durations = Durations::initial(how.durations, states, how.max_duration)?;
    if durations.is_some() {
        without_returns(&mut transitions, states);
    }
    let columns = data.columns();
    let emissions = match family {
        Family::Categorical { symbols } => {
            if columns != 1 {
                let message = format!("have {columns} columns; categorical emissions have 1");
                return Err(Error::argument("observations", message));
            }
            Emissions::Categorical(categorical(data, states, symbols, &mut random)?)
        }
        Family::Gaussian { covariance } => {
            Emissions::Gaussian(gaussian(data, states, covariance, &mut random)?)
        }
        Family::Poisson => {
            let found = Clusters::new(data, states, &mut random);
            let rates = found.centres.iter().map(|rate| rate.max(1e-3)).collect();
            Emissions::Poisson(Poisson::new(states, rates)?)
        }
        Family::Mixture { components, covariance } => {
            if components == 0 {
                return Err(Error::argument("components", "0 is out of range; expected at least 1"));
            }
            let weights = vec![1.0 / components as f64; states * components];
            let normals = gaussian(data, states * components, covariance, &mut random)?;
            Emissions::Mixture(Mixture::new(states, weights, sorted(normals))?)
        }
    };
    let mut hmm = Hmm::new(start, transitions, emissions)?.with_ties(&how.ties)?;
    hmm.durations = durations;
    hmm.check_data(data)?;
    Ok(hmm)
}

/// Removes the transitions from a state to itself where there are others: durations replace them.
fn without_returns(transitions: &mut [f64], states: usize) {
    for i in 0..states {
        let row = &mut transitions[i * states..][..states];
        if row.iter().enumerate().any(|(j, p)| j != i && *p > 0.0) {
            row[i] = 0.0;
        }
    }
    normalize_rows(transitions, states);
}

fn moves(states: usize, topology: Topology, random: &mut Stream) -> (Vec<f64>, Vec<f64>) {
    // −ln u is exponential, so the normalised row is uniform on the simplex.
    let mut draw = || -(1.0 - random.uniform()).ln();
    let (mut start, mut transitions) = (vec![0.0; states], vec![0.0; states * states]);
    match topology {
        Topology::Full => {
            transitions.iter_mut().for_each(|p| *p = draw());
            start.fill(1.0);
            normalize_rows(&mut transitions, states);
            transitions.iter_mut().for_each(|p| *p = 0.5 * *p + 0.5 / states as f64);
        }
        Topology::LeftToRight => {
            start[0] = 1.0;
            for i in 0..states {
                transitions[i * states + i] = 1.0 + draw();
                if i + 1 < states {
                    transitions[i * states + i + 1] = 1.0 + draw();
                }
            }
            normalize_rows(&mut transitions, states);
        }
    }
    normalize_rows(&mut start, states);
    (start, transitions)
}

fn categorical(data: &Sequences, states: usize, symbols: usize, random: &mut Stream) -> Result<Categorical> {
    if symbols == 0 {
        return Err(Error::argument("symbols", "0 is out of range; expected at least 1"));
    }
    let mut counts = vec![1.0; symbols];
    for &x in data.values().iter().filter(|x| !x.is_nan()) {
        if !(x >= 0.0 && x < symbols as f64) {
            let row = data.values().iter().position(|&other| other == x).unwrap_or(0);
            let message = format!("found {x}, expected a symbol from 0 to {}", symbols - 1);
            return Err(data.fail(row, 0, &message));
        }
        counts[x as usize] += 1.0;
    }
    let mut table: Vec<f64> = (0..states).flat_map(|_| counts.iter().copied()).collect();
    table.iter_mut().for_each(|p| *p *= 0.25 - (1.0 - random.uniform()).ln());
    normalize_rows(&mut table, symbols);
    Categorical::new(states, table)
}

pub(super) fn gaussian(
    data: &Sequences,
    states: usize,
    form: Covariance,
    random: &mut Stream,
) -> Result<Gaussian> {
    let found = Clusters::new(data, states, random);
    let columns = data.columns();
    let within: Vec<f64> =
        found.within.iter().zip(&found.variances).map(|(own, all)| own.max(SPREAD * all)).collect();
    let mean = within.iter().sum::<f64>() / columns as f64;
    let matrix: Vec<f64> = (0..columns * columns)
        .map(|at| if at / columns == at % columns { within[at / columns] } else { 0.0 })
        .collect();
    let repeated = |one: &[f64]| one.iter().copied().cycle().take(states * one.len()).collect::<Vec<f64>>();
    let covariances = match form {
        Covariance::Spherical => vec![mean; states],
        Covariance::Diagonal => repeated(&within),
        Covariance::Full => repeated(&matrix),
        Covariance::Tied => matrix,
    };
    Gaussian::new(states, form, found.centres, covariances)
}

/// Sorts components by their first mean, so that those of one state are neighbours.
pub(super) fn sorted(mut normals: Gaussian) -> Gaussian {
    let columns = normals.columns;
    let mut means: Vec<Vec<f64>> = normals.means.chunks_exact(columns).map(<[f64]>::to_vec).collect();
    means.sort_by(|a, b| a[0].total_cmp(&b[0]));
    normals.means = means.concat();
    normals
}

/// A k-means clustering.
struct Clusters {
    /// k × D.
    centres: Vec<f64>,
    /// The variance within clusters per column.
    within: Vec<f64>,
    variances: Vec<f64>,
}

impl Clusters {
    fn new(data: &Sequences, count: usize, random: &mut Stream) -> Self {
        let columns = data.columns();
        let (means, variances) = data.moments();
        // As many as are forecast.
        let mut rows: Vec<&[f64]> = Vec::with_capacity(data.rows());
        rows.extend(data.values().chunks_exact(columns).filter(|row| row.iter().all(|x| !x.is_nan())));
        if rows.len() > ROWS {
            for i in 0..ROWS {
                let j = i + random.below(rows.len() - i);
                rows.swap(i, j);
            }
            rows.truncate(ROWS);
        }
        let mut centres = Vec::with_capacity(count * columns);
        if rows.is_empty() {
            for _ in 0..count {
                centres.extend((0..columns).map(|d| means[d] + variances[d].sqrt() * random.normal()));
            }
            return Clusters { centres, within: variances.clone(), variances };
        }
        let distance = |row: &[f64], centre: &[f64]| -> f64 {
            row.iter().zip(centre).zip(&variances).map(|((x, c), v)| (x - c).powi(2) / v).sum()
        };
        let mut nearest = vec![f64::INFINITY; rows.len()];
        for k in 0..count {
            let spread = nearest.iter().any(|d| *d > 0.0);
            let chosen =
                if k == 0 || !spread { random.below(rows.len()) } else { random.categorical(&nearest) };
            centres.extend_from_slice(rows[chosen]);
            let centre = &centres[k * columns..];
            nearest.iter_mut().zip(&rows).for_each(|(near, row)| *near = near.min(distance(row, centre)));
        }
        let mut within = vec![0.0; columns];
        for _ in 0..STEPS {
            let (mut sums, mut sizes) = (vec![0.0; count * columns], vec![0.0; count]);
            within.fill(0.0);
            for row in &rows {
                let (mut best, mut least) = (0, f64::INFINITY);
                for (k, centre) in centres.chunks_exact(columns).enumerate() {
                    let own = distance(row, centre);
                    if own < least {
                        (best, least) = (k, own);
                    }
                }
                sizes[best] += 1.0;
                for d in 0..columns {
                    sums[best * columns + d] += row[d];
                    within[d] += (row[d] - centres[best * columns + d]).powi(2) / rows.len() as f64;
                }
            }
            for k in (0..count).filter(|&k| sizes[k] > 0.0) {
                for d in 0..columns {
                    centres[k * columns + d] = sums[k * columns + d] / sizes[k];
                }
            }
        }
        Clusters { centres, within, variances }
    }
}
