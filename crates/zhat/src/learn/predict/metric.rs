//! An approximation of the Hessian of the training objective, in which L-BFGS measures its first directions.
//!
//! For one score channel the Hessian is Xᵀ·diag(variances)·X/m + 2λ·I. The variance of the channel is replaced
//! by that of its observed values, rounded to one of a few levels, and X by some of its rows: (σ²·XᵀX/m +
//! 2λ·I)⁻¹ is then applied by one Cholesky factor per level. Correlated and badly scaled inputs slow down
//! training less. Any positive definite matrix gives the same minimum.

use super::objective::Objective;
use super::{Inputs, Targets};
use crate::numeric::Cholesky;

/// Maximum number of columns of the inputs.
const MOST_COLUMNS: usize = 2600;
/// Rows of the inputs that are used, per column, unless the product of all rows is cheap.
const ROWS_PER_COLUMN: usize = 2;
/// Multiplications up to which the product is cheap.
const CHEAP: usize = 100_000_000;
/// The variances are ¼ divided by powers of this.
const LEVEL: f64 = 6.0;
/// Number of levels.
const LEVELS: usize = 3;

/// (σ²·XᵀX/m + 2λ·I)⁻¹ for the channels that depend on the inputs, diagonal for the constants.
pub(crate) struct Metric {
    columns: usize,
    width: usize,
    /// The factor and the channels of every level.
    levels: Vec<(Cholesky, Vec<usize>)>,
    /// The inverse diagonal of the constants.
    constants: Vec<f64>,
}

/// Maximum number of rows of the inputs that are used.
fn most_rows(columns: usize) -> usize {
    (CHEAP / (columns * columns).max(1)).max(ROWS_PER_COLUMN * columns)
}

/// Whether the matrix is worth its cost.
fn suits(inputs: &Inputs, width: usize) -> bool {
    let columns = inputs.columns();
    width > 0 && (8..=MOST_COLUMNS).contains(&columns)
}

impl Metric {
    /// Bytes of the matrices, 0 if they would not be used.
    pub fn bytes(objective: &Objective<'_>) -> f64 {
        let (inputs, width) = (objective.inputs, objective.compiled.by_input);
        if !suits(inputs, width) {
            return 0.0;
        }
        let columns = inputs.columns();
        let rows = inputs.rows().min(most_rows(columns));
        LEVELS as f64 * Cholesky::bytes(columns) + 8.0 * (columns * (columns + rows)) as f64
    }

    /// The matrix of an objective; `None` if it is not worth its cost.
    pub fn new(objective: &Objective<'_>) -> Option<Self> {
        let (inputs, width) = (objective.inputs, objective.compiled.by_input);
        if !suits(inputs, width) {
            return None;
        }
        let columns = inputs.columns();
        let stride = inputs.rows().div_ceil(most_rows(columns)).max(1);
        let some: Vec<usize> = (0..inputs.rows()).step_by(stride).collect();
        let some = inputs.select(&some);
        let (gram, total) = (some.gram(), some.total());
        if total <= 0.0 {
            return None;
        }
        let variances = variances(objective);
        let level = |variance: f64| {
            let steps = (0.25 / variance).ln() / LEVEL.ln();
            (steps.round().max(0.0) as usize).min(LEVELS - 1)
        };
        let mut levels = Vec::new();
        for number in 0..LEVELS {
            let own: Vec<usize> = (0..width).filter(|&k| level(variances[k]) == number).collect();
            if own.is_empty() {
                continue;
            }
            let scale = 0.25 / LEVEL.powi(number as i32) / total;
            levels.push((Cholesky::new(&gram, columns, scale, 2.0 * objective.lambda)?, own));
        }
        let constants = variances[width..].iter().map(|v| 1.0 / (v + 2.0 * objective.lambda)).collect();
        Some(Metric { columns, width, levels, constants })
    }

    /// Applies the inverse to a gradient.
    pub fn apply(&self, gradient: &mut [f64]) {
        let (by_input, constants) = gradient.split_at_mut(self.columns * self.width);
        for (factor, channels) in &self.levels {
            let mut own = Vec::with_capacity(self.columns * channels.len());
            for row in by_input.chunks_exact(self.width) {
                own.extend(channels.iter().map(|&k| row[k]));
            }
            factor.solve(&mut own, channels.len());
            for (row, solved) in by_input.chunks_exact_mut(self.width).zip(own.chunks_exact(channels.len())) {
                channels.iter().zip(solved).for_each(|(&k, x)| row[k] = *x);
            }
        }
        constants.iter_mut().zip(&self.constants).for_each(|(g, scale)| *g *= scale);
    }
}

/// The variances of the features, from the observed structures; ¼ for partial rankings.
fn variances(objective: &Objective<'_>) -> Vec<f64> {
    let family = &objective.compiled.family;
    let (rows, total) = (objective.inputs.rows(), objective.inputs.total());
    // Weights count as repetitions, unless they are smaller.
    let scale = if total > 0.0 { (rows as f64 / total).max(1.0) } else { 1.0 };
    let mut sums = vec![0.0; family.channels()];
    for row in 0..rows {
        let weight = scale * objective.inputs.weight(row);
        match objective.targets {
            Targets::Sets(sets) => family.set_features(sets.row(row), &mut |k| sums[k] += weight),
            targets => match targets.structure(row) {
                Some(structure) => family.features(&structure, &mut |k| sums[k] += weight),
                None => return vec![0.25; sums.len()],
            },
        }
    }
    let variance = |sum: f64| {
        let mean = (sum + 0.5) / (scale * total + 1.0);
        mean * (1.0 - mean)
    };
    sums.into_iter().map(variance).collect()
}
