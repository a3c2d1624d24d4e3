//! The training objective f(θ) = λ‖θ‖² + (1/m) Σ −ln p(yᵢ | xᵢ), its gradient, and its certified gap.
//!
//! The loss of a row is convex in its scores, which are linear in θ, so f is strongly convex with constant 2λ
//! and f(θ) − min f ≤ ‖∇f(θ)‖²/(4λ). The gradient is Xᵀ·(E\[φ\] − φ(y))/m + 2λθ. Rows may have weights wᵢ ≥ 0, with
//! which the mean is Σ wᵢ·lossᵢ / Σ wᵢ; nothing else changes.
//!
//! θ holds the weights of the scores that depend on the inputs, one row per input, and then the constants.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::numeric::parallel::prelude::*;

use super::form::{Compiled, LANES, Mode, Work};
use super::{Inputs, Targets};
use crate::error::{Error, Result};
use crate::method::space::perfect::Draws;
use crate::numeric::{CompensatedSum, Elementwise};
use crate::random::Streams;
use crate::run::Clock;

/// Memory of the scores of one block of rows, in bytes: enough rows for all cores, and small beside large inputs.
const BLOCK_BYTES: usize = 1 << 23;
/// Number of power iterations for the largest eigenvalue.
const POWER_STEPS: usize = 40;

/// The regularised negative log-likelihood of a data set.
pub(crate) struct Objective<'a> {
    pub compiled: &'a Compiled,
    pub inputs: &'a Inputs,
    pub targets: &'a Targets,
    pub lambda: f64,
    /// The factor of the weighted sum of losses: 1/Σwᵢ, unless these rows are a part of a larger data set.
    scale: f64,
    /// Σwᵢ‖xᵢ‖.
    norms: f64,
    /// Σwᵢ‖xᵢ‖².
    squares: f64,
    /// Σwᵢ²‖xᵢ‖².
    weighted_squares: f64,
}

impl<'a> Objective<'a> {
    /// The objective for these data.
    pub fn new(compiled: &'a Compiled, inputs: &'a Inputs, targets: &'a Targets, lambda: f64) -> Self {
        let squares = inputs.squares();
        let sum = |term: &dyn Fn(f64, f64) -> f64| -> f64 {
            squares.iter().enumerate().map(|(row, &square)| term(inputs.weight(row), square)).sum()
        };
        let total = inputs.total();
        Objective {
            compiled,
            inputs,
            targets,
            lambda,
            // Rows without weight have no loss.
            scale: if total > 0.0 { 1.0 / total } else { 0.0 },
            norms: sum(&|weight, square| weight * square.sqrt()),
            squares: sum(&|weight, square| weight * square),
            weighted_squares: sum(&|weight, square| weight * weight * square),
        }
    }

    /// The same with another factor of the sum of losses.
    pub fn scaled(self, scale: f64) -> Self {
        Objective { scale, ..self }
    }

    /// The length of θ.
    pub fn dimension(&self) -> usize {
        dimension(self.compiled, self.inputs.columns())
    }

    /// Rows per block: constant for a data set, so that results do not depend on the number of threads.
    fn block(&self) -> usize {
        let width = self.compiled.family.channels().max(1);
        (BLOCK_BYTES / (8 * width)).clamp(LANES, 1 << 16) / LANES * LANES
    }

    /// Bytes for one evaluation.
    pub fn bytes(&self, threads: usize) -> f64 {
        let width = self.compiled.family.channels();
        let block = self.block().min(self.inputs.rows());
        let sums = self.inputs.product_bytes(self.compiled.by_input);
        // Each thread turns the scores of its rows.
        let turned = 8.0 * (LANES.min(block) * width) as f64;
        8.0 * (block * width + self.dimension()) as f64
            + sums as f64
            + threads as f64 * (self.compiled.family.bytes(LANES) + turned)
    }

    /// f and its gradient.
    ///
    /// # Errors
    /// If the time is over.
    pub fn evaluate(&self, point: &[f64], gradient: &mut [f64], clock: &Clock<'_>) -> Result<f64> {
        self.pass(point, gradient, clock, |scores, rows, work, losses| {
            self.compiled.family.losses(scores, self.targets, rows, work, losses);
            Ok(())
        })
    }

    /// An estimate of the gradient, unbiased if all samples are exact: E\[φ\] is replaced by the mean over samples
    /// of every row. The value is exact where log Z is, and NaN where it is out of reach.
    ///
    /// # Errors
    /// If the time is over.
    pub fn sampled(
        &self,
        point: &[f64],
        gradient: &mut [f64],
        samples: usize,
        streams: &Streams,
        clock: &Clock<'_>,
    ) -> Result<(f64, Draws)> {
        let family = &self.compiled.family;
        let exact = AtomicBool::new(true);
        let value = self.pass(point, gradient, clock, |scores, rows, work, losses| {
            let lanes = rows.len();
            family.upward(scores, lanes, Mode::Sum, work, losses);
            let mut means = vec![0.0; scores.len()];
            for (lane, row) in rows.enumerate() {
                let mut random = streams.block(row as u64);
                let weight = 1.0 / samples as f64;
                let draws = family.draw(
                    scores,
                    (lane, lanes),
                    work,
                    (samples, &mut random),
                    clock,
                    &mut |structure| {
                        family.features(structure, &mut |channel| means[channel * lanes + lane] += weight);
                    },
                )?;
                if draws == Draws::Approximate {
                    exact.store(false, Ordering::Relaxed);
                }
                let observed = self.targets.structure(row).unwrap_or_default();
                family.features(&observed, &mut |channel| {
                    losses[lane] -= scores[channel * lanes + lane];
                    means[channel * lanes + lane] -= 1.0;
                });
            }
            scores.copy_from_slice(&means);
            Ok(())
        })?;
        Ok((value, if exact.into_inner() { Draws::Exact } else { Draws::Approximate }))
    }

    /// One pass over all rows; `loss` replaces the scores of some rows by gradients and writes their losses.
    fn pass(
        &self,
        point: &[f64],
        gradient: &mut [f64],
        clock: &Clock<'_>,
        loss: impl Fn(&mut [f64], Range<usize>, &mut Work, &mut [f64]) -> Result<()> + Sync,
    ) -> Result<f64> {
        let (width, channels) = (self.compiled.by_input, self.compiled.family.channels());
        let (weights, constants) = point.split_at(self.inputs.columns() * width);
        let (rows, block) = (self.inputs.rows(), self.block());
        let mut buffer = vec![0.0; block.min(rows) * width];
        let prepared = self.inputs.weights_of(weights, width);
        let mut sum = self.inputs.gradient(width);
        let mut total = CompensatedSum::default();
        let mut constant_sums = vec![0.0; constants.len()];
        for start in (0..rows).step_by(block) {
            clock.check()?;
            let end = (start + block).min(rows);
            let scores = &mut buffer[..(end - start) * width];
            self.inputs.scores(start..end, &prepared, scores);
            let piece =
                |work: &mut (Work, Vec<f64>), first: usize, scores: &mut [f64]| -> Result<(f64, Vec<f64>)> {
                    clock.check()?;
                    let lanes = LANES.min(end - first);
                    let (work, turned) = work;
                    turned.resize(channels * lanes, 0.0);
                    turn(scores, lanes, width, &mut turned[..width * lanes]);
                    for (k, &constant) in constants.iter().enumerate() {
                        turned[(width + k) * lanes..][..lanes].fill(constant);
                    }
                    let mut losses = vec![0.0; lanes];
                    loss(&mut turned[..channels * lanes], first..first + lanes, work, &mut losses)?;
                    if let Some(weights) = self.inputs.weights() {
                        let own = &weights[first..first + lanes];
                        for values in turned[..channels * lanes].chunks_exact_mut(lanes) {
                            values.iter_mut().zip(own).for_each(|(value, weight)| *value *= weight);
                        }
                        losses.iter_mut().zip(own).for_each(|(loss, weight)| *loss *= weight);
                    }
                    turn(&turned[..width * lanes], width, lanes, scores);
                    let own = turned[width * lanes..channels * lanes].chunks_exact(lanes);
                    Ok((losses.iter().sum(), own.map(|lanes| lanes.iter().sum()).collect()))
                };
            // Without scores that depend on the inputs there would be no chunks of scores.
            let results: Vec<Result<(f64, Vec<f64>)>> = if width == 0 {
                let starts: Vec<usize> = (start..end).step_by(LANES).collect();
                starts
                    .into_par_iter()
                    .map_init(Default::default, |work, first| piece(work, first, &mut []))
                    .collect()
            } else {
                let chunks = scores.par_chunks_mut(LANES * width).enumerate();
                chunks
                    .map_init(Default::default, |work, (i, scores)| piece(work, start + i * LANES, scores))
                    .collect()
            };
            for result in results {
                let (value, constants) = result?;
                total.add(value);
                f64::add_to(&mut constant_sums, &constants);
            }
            self.inputs.add_gradient(start..end, scores, width, &mut sum);
        }
        // Freed before the gradient is written, whose pages take no memory until then.
        drop((prepared, buffer));
        let scale = self.scale;
        let (by_input, constant) = gradient.split_at_mut(weights.len());
        sum.write(width, by_input);
        constant.copy_from_slice(&constant_sums);
        for (g, x) in gradient.iter_mut().zip(point) {
            *g = *g * scale + 2.0 * self.lambda * x;
        }
        let value = total.value() * scale + self.lambda * f64::dot(point, point);
        // Without exact sums the objective is unknown, and its gradient is sampled.
        if value.is_finite() || !self.compiled.family.has_sums() {
            Ok(value)
        } else {
            Err(Error::NoAnswer("the objective is not finite".into()))
        }
    }

    /// The certified gap for a gradient: an upper bound on f − min f, with an allowance for rounding errors.
    pub fn gap(&self, gradient: &[f64], point: &[f64], radius: f64) -> f64 {
        let norm = f64::dot(gradient, gradient).sqrt();
        let reach = norm + radius + self.rounding(point);
        reach * reach / (4.0 * self.lambda)
    }

    /// Allowance for the rounding error of the gradient, in norm.
    ///
    /// - Scores: a sum of c products has the error cε‖x‖‖w‖ at most, so that the scores of a row are within
    ///   cε‖x‖‖θ‖. The Hessian of its loss has the norm R² at most, which bounds the change of its means.
    /// - Sums over m rows: mε·Σ wᵢ‖xᵢ‖·2R/Σ wᵢ at most, since no two feature vectors are farther apart than 2R.
    /// - Exact sums of a row, from its scores: this part is an estimate, not a bound, of the error of its means,
    ///   64 + 2√channels roundings of 1 per channel.
    fn rounding(&self, point: &[f64]) -> f64 {
        let (channels, radius) = (self.compiled.family.channels() as f64, self.compiled.family.radius());
        let (norms, squares) = (self.norms * self.scale, self.squares * self.scale);
        let norm = f64::dot(point, point).sqrt();
        let scores = self.inputs.columns() as f64 * radius * radius * squares * norm;
        let sums = 2.0 * radius * norms * self.inputs.rows() as f64;
        let means = (64.0 + 2.0 * channels.sqrt()) * (channels * squares).sqrt();
        f64::EPSILON * (scores + sums + means + 4.0 * self.lambda * norm)
    }

    /// √(Σ wᵢ²R²‖xᵢ‖²)/Σwᵢ, where R is the radius of the features of the family: the standard deviation of a
    /// gradient with one sample per row is at most this.
    pub fn spread(&self) -> f64 {
        self.compiled.family.radius() * self.weighted_squares.sqrt() * self.scale
    }

    /// An estimate of an upper bound on the largest eigenvalue of the Hessian: 2λ + R²·μ, where μ is the largest
    /// eigenvalue of XᵀWX/Σwᵢ, found by power iteration with an allowance of a tenth.
    pub fn curvature(&self) -> f64 {
        let radius = self.compiled.family.radius();
        let trace = self.squares * self.scale;
        let (rows, columns) = (self.inputs.rows(), self.inputs.columns());
        let mut vector: Vec<f64> = (0..columns).map(|i| 1.0 + 0.5 * (i as f64).sin()).collect();
        let (mut products, mut largest) = (vec![0.0; rows], 0.0);
        for _ in 0..POWER_STEPS {
            let norm = f64::dot(&vector, &vector).sqrt();
            if norm == 0.0 {
                break;
            }
            f64::multiply(&mut vector, 1.0 / norm);
            self.inputs.scores(0..rows, &self.inputs.weights_of(&vector, 1), &mut products);
            let squares = products.iter().enumerate().map(|(row, x)| self.inputs.weight(row) * x * x);
            largest = squares.sum::<f64>() * self.scale;
            if let Some(weights) = self.inputs.weights() {
                products.iter_mut().zip(weights).for_each(|(x, weight)| *x *= weight);
            }
            let mut sum = self.inputs.gradient(1);
            self.inputs.add_gradient(0..rows, &products, 1, &mut sum);
            sum.write(1, &mut vector);
        }
        2.0 * self.lambda + radius * radius * trace.min(1.1 * largest)
    }

    /// An upper bound on the norm of the minimiser: at θ = 0 the loss is ln |Y|, and at the minimum 2λθ is a
    /// mean of differences of feature vectors.
    pub fn norm_bound(&self) -> f64 {
        let mean = self.norms * self.scale;
        let radius = self.compiled.family.radius();
        (self.compiled.family.log_count() / self.lambda).sqrt().min(radius * mean / self.lambda)
    }
}

/// The length of θ.
pub(crate) fn dimension(compiled: &Compiled, columns: usize) -> usize {
    columns * compiled.by_input + compiled.family.channels() - compiled.by_input
}

/// Columns that [`turn`] reads together: one line of the cache.
const TOGETHER: usize = 8;

/// out ← the transpose of a rows × columns matrix.
pub(crate) fn turn(matrix: &[f64], rows: usize, columns: usize, out: &mut [f64]) {
    for first in (0..columns).step_by(TOGETHER) {
        let last = (first + TOGETHER).min(columns);
        let out = &mut out[first * rows..last * rows];
        for i in 0..rows {
            for (j, &x) in matrix[i * columns + first..i * columns + last].iter().enumerate() {
                out[j * rows + i] = x;
            }
        }
    }
}
