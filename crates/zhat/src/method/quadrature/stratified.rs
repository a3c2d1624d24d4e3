//! Quadrature by tuples with all known terms computed exactly: a variance-reduced version of the published
//! estimator.
//!
//! Tables are centred, θ_c ← θ_c − mean, so that Z = |X|·exp m·E\[exp Σ_c θ_c(x)\] over uniform x, with E ≥ 1
//! by Jensen's inequality. The polynomial approximates exp on \[Σ min θ_c, Σ max θ_c\], which is much smaller
//! than ±‖θ‖₁. In Σᵢ ζᵢ·E\[(Σ_c θ_c)ⁱ\], the terms of order 0 and 1 are known (1 and 0), and the term of
//! order 2 is a sum over pairs of tables that share a variable. Each higher order is sampled separately: i
//! cliques drawn with probability ∝ a_c = max |θ_c| and one state of the variables that they touch give
//! ζᵢ·Aⁱ·Π θ_c/a_c with A = Σ a_c, a number in ±|ζᵢ|·Aⁱ. Empirical Bernstein bounds hold for each length, and
//! their sum holds for Z.
//!
//! Time O(i) per tuple, independent of the size of the model. For very large and very weak models; if states
//! of a base can be drawn, they give better estimates.

use crate::numeric::parallel::prelude::*;

use super::polynomial::{Polynomial, least_degree};
use super::residual::{NAME, StochasticQuadrature, rounding};
use crate::answer::{Answer, Diagnostics, Estimate, Guarantee};
use crate::error::{Error, Result};
use crate::method::bounds::minibucket::Moments;
use crate::method::cost::stratified_quadrature::{PER_CLIQUE, PER_TUPLE};
use crate::model::{FactorGraph, table};
use crate::query::DEFAULT_HORIZON;
use crate::query::Query;
use crate::random::{Stream, Streams};
use crate::run::share::Units;
use crate::run::{Clock, Run};
use crate::units;

/// The error of the polynomial if no degree is given.
const ERROR: f64 = 1e-4;
/// Maximum number of products for the exact term of order 2.
const PAIRS: f64 = 2e7;
/// Tuples per replicate between two checks of the clock.
const ROUND: u64 = 4096;
/// The purpose of the random numbers.
const STREAMS: &str = "quadrature strata";

/// Cliques to be drawn with probability proportional to a_c.
struct Tuples {
    cardinalities: Vec<usize>,
    cliques: Vec<(u32, u32, usize)>,
    vertices: Vec<u32>,
    /// θ_c/a_c.
    values: Vec<f64>,
    /// Walker's alias table: with probability `stay` the clique itself, otherwise the other one.
    alias: Vec<(f64, u32)>,
    /// A.
    total: f64,
    low: f64,
    high: f64,
    mean: f64,
}

impl Tuples {
    fn new(graph: &FactorGraph) -> Result<Self> {
        let mut tuples = Tuples {
            cardinalities: graph.cardinalities().to_vec(),
            cliques: Vec::new(),
            vertices: Vec::new(),
            values: Vec::new(),
            alias: Vec::new(),
            total: 0.0,
            low: 0.0,
            high: 0.0,
            mean: 0.0,
        };
        let mut sizes = Vec::new();
        for factor in graph.factors() {
            if factor.log_values.contains(&f64::NEG_INFINITY) {
                let message = "a factor forbids a state (log value -inf), and no polynomial can do that; the forms with a base can";
                return Err(Error::argument("form", message));
            }
            let mean = factor.log_values.iter().sum::<f64>() / factor.log_values.len() as f64;
            let centred = factor.log_values.iter().map(|x| x - mean);
            let (low, high) = centred.clone().fold((0.0f64, 0.0f64), |(l, h), x| (l.min(x), h.max(x)));
            tuples.mean += mean;
            tuples.low += low;
            tuples.high += high;
            let size = high.max(-low);
            if size > 0.0 {
                let start = tuples.vertices.len() as u32;
                tuples.vertices.extend(factor.scope.iter().map(|&v| v as u32));
                tuples.cliques.push((start, tuples.vertices.len() as u32, tuples.values.len()));
                tuples.values.extend(centred.map(|x| x / size));
                sizes.push(size);
            }
        }
        tuples.total = sizes.iter().sum();
        tuples.alias = alias(&sizes, tuples.total);
        Ok(tuples)
    }

    /// Π θ_c/a_c of a new tuple.
    fn product(&self, length: usize, random: &mut Stream, stamps: &mut [(u32, u32)], now: u32) -> f64 {
        let mut product = 1.0;
        for _ in 0..length {
            let scaled = random.uniform() * self.cliques.len() as f64;
            let column = (scaled as usize).min(self.cliques.len() - 1);
            let (stay, other) = self.alias[column];
            let chosen = if scaled - (column as f64) < stay { column } else { other as usize };
            let (start, end, values) = self.cliques[chosen];
            let mut entry = values;
            let mut offset = 0;
            for &v in &self.vertices[start as usize..end as usize] {
                let states = self.cardinalities[v as usize];
                let own = &mut stamps[v as usize];
                if own.0 != now {
                    *own = (now, random.below(states) as u32);
                }
                offset = offset * states + own.1 as usize;
            }
            entry += offset;
            product *= self.values[entry];
        }
        product
    }
}

/// Walker's alias table for these weights.
fn alias(sizes: &[f64], total: f64) -> Vec<(f64, u32)> {
    let n = sizes.len() as f64;
    let mut left: Vec<f64> = sizes.iter().map(|size| size * n / total).collect();
    let mut table: Vec<(f64, u32)> = (0..sizes.len()).map(|i| (1.0, i as u32)).collect();
    let (mut small, mut large): (Vec<usize>, Vec<usize>) = (0..sizes.len()).partition(|&i| left[i] < 1.0);
    while let (Some(&s), Some(&l)) = (small.last(), large.last()) {
        small.pop();
        table[s] = (left[s], l as u32);
        left[l] -= 1.0 - left[s];
        if left[l] < 1.0 {
            large.pop();
            small.push(l);
        }
    }
    table
}

/// E\[(Σ_c θ_c)²\] with centred tables, or `None` if there are too many pairs.
fn second_moment(graph: &FactorGraph) -> Option<f64> {
    let mut near = vec![Vec::new(); graph.variable_count()];
    for (f, factor) in graph.factors().enumerate() {
        factor.scope.iter().for_each(|&v| near[v].push(f));
    }
    let mean = |f: usize| {
        let values = graph.factor(f).log_values;
        values.iter().sum::<f64>() / values.len() as f64
    };
    let (mut total, mut left) = (0.0, PAIRS);
    let mut state = vec![0; graph.variable_count()];
    for f in 0..graph.factor_count() {
        let scope = graph.factor(f).scope;
        let mut partners: Vec<usize> =
            scope.iter().flat_map(|&v| near[v].iter().copied()).filter(|&g| g >= f).collect();
        partners.sort_unstable();
        partners.dedup();
        for g in partners {
            let mut union = scope.to_vec();
            union.extend(graph.factor(g).scope.iter().filter(|v| !scope.contains(v)));
            let lengths = graph.lengths(&union);
            let size = table::size(lengths.iter().copied())? as f64;
            left -= size;
            if left < 0.0 {
                return None;
            }
            let (own, other) = (mean(f), mean(g));
            let mut digits = vec![0; union.len()];
            let mut sum = 0.0;
            loop {
                union.iter().zip(&digits).for_each(|(&v, &s)| state[v] = s);
                let at = |f: usize| graph.factor(f).log_values[graph.entry(graph.factor(f).scope, &state)];
                sum += (at(f) - own) * (at(g) - other);
                if !table::advance(&mut digits, &lengths) {
                    break;
                }
            }
            total += if f == g { 1.0 } else { 2.0 } * sum / size;
        }
    }
    Some(total)
}

/// The tuples of one length.
struct Stratum {
    length: usize,
    /// ζᵢ·Aⁱ.
    scale: f64,
    /// Tuples per replicate.
    each: u64,
}

/// log Z from tuples.
pub(super) fn log_partition(
    options: &StochasticQuadrature,
    graph: &FactorGraph,
    run: &Run,
    clock: &Clock<'_>,
) -> Result<Estimate> {
    let n = graph.variable_count() as f64;
    let bytes = graph.preparation_bytes()
        + 6.0 * graph.bytes() as f64
        + options.replicates as f64 * (512.0 + 8.0 * n);
    run.require_memory(NAME, bytes)?;
    let prepared = graph.prepared_for(Query::LogPartition, NAME, run)?;
    let free = &prepared.reduced.graph;
    let tuples = Tuples::new(free)?;
    let offset = prepared.reduced.constant + free.log_state_count() + tuples.mean;
    let interval = (tuples.low.min(-1e-9), tuples.high.max(1e-9));
    let wanted = options.epsilon.map_or(ERROR, |epsilon| 0.25 * epsilon);
    let degree = options.degree.or_else(|| least_degree(interval, wanted)).ok_or_else(|| {
        Error::NoAnswer(format!(
            "no polynomial is within {wanted:.1e} of exp on [{:.4e}, {:.4e}] in double precision; the forms with a base do without",
            interval.0, interval.1
        ))
    })?;
    let polynomial = Polynomial::chebyshev(degree, interval)?;
    let zeta = polynomial.coefficients();
    let mut known = zeta[0];
    let second = if zeta.len() > 2 { second_moment(free) } else { None };
    known += second.map_or(0.0, |second| zeta[2] * second);
    let first = if second.is_some() { 3 } else { 2 };
    let lengths: Vec<usize> = (first..zeta.len()).filter(|_| tuples.total > 0.0).collect();
    let scale = |i: usize| zeta[i] * tuples.total.powi(i as i32);
    let delta = 1.0 - options.confidence;
    // The shares that minimise the sum of the worst-case errors.
    let shares: Vec<f64> = lengths.iter().map(|&i| scale(i).abs().powf(2.0 / 3.0)).collect();
    let all: f64 = shares.iter().sum();
    let mut samples = options.samples as f64;
    if let Some(epsilon) = options.epsilon {
        let left = epsilon - polynomial.error();
        let log = (2.0 * lengths.len().max(1) as f64 / delta).ln();
        samples = 2.0 * log * all.powi(3) / (left * left);
        let seconds = samples * (PER_TUPLE + PER_CLIQUE * degree as f64) / run.threads() as f64;
        let horizon = run.horizon(NAME, DEFAULT_HORIZON);
        if !(left > 0.0 && seconds <= horizon) {
            return Err(Error::OverBudget {
                needs: format!(
                    "{NAME} needs {samples:.1e} tuples of degree {degree} for epsilon = {epsilon} with {}% confidence, about {}",
                    100.0 * options.confidence,
                    units::seconds(seconds)
                ),
                budget: units::seconds(horizon),
                fitting: Vec::new(),
            });
        }
    }
    let count = options.replicates as f64;
    let strata: Vec<Stratum> = lengths
        .iter()
        .zip(&shares)
        .map(|(&length, share)| Stratum {
            length,
            scale: scale(length),
            each: (samples * share / all.max(f64::MIN_POSITIVE) / count).ceil().max(16.0) as u64,
        })
        .collect();
    if strata.iter().any(|stratum| !stratum.scale.is_finite()) {
        return Err(Error::NoAnswer(
            "the tuple mass is beyond the range of numbers; the forms with a base do without it".into(),
        ));
    }
    let mut diagnostics = Diagnostics::new(NAME)
        .note("degree", degree)
        .note("polynomial_error", polynomial.error())
        .note("exact_orders", first - 1);
    let mut drawn = 0;
    let (mut value, mut low, mut high, mut variance) = (known, known, known, 0.0);
    let mut stopped_early = false;
    let shared = match run.is_shared(NAME) {
        true => Some(shared_sums(&tuples, &strata, options.replicates, run, clock)?),
        false => None,
    };
    run.install(|| {
        for (s, stratum) in strata.iter().enumerate() {
            let sums = match &shared {
                Some(shared) => Some(shared[s * options.replicates..][..options.replicates].to_vec()),
                None => sample(&tuples, stratum, s, options.replicates, run, clock),
            };
            let Some(moments) = sums.map(|sums| moments(stratum, &sums)) else {
                stopped_early = true;
                break;
            };
            drawn += moments.count as u64;
            let each = 0.5 * delta / strata.len() as f64;
            let at = |x: f64| stratum.scale * (2.0 * x - 1.0);
            value += at(moments.mean);
            let ends = [at(moments.low(each)), at(moments.high(each))];
            low += ends[0].min(ends[1]);
            high += ends[0].max(ends[1]);
            variance += 4.0 * stratum.scale * stratum.scale * moments.variance / moments.count;
        }
    });
    let rounding = rounding(graph) + 1e-11 * strata.iter().map(|stratum| stratum.scale.abs()).sum::<f64>();
    diagnostics =
        diagnostics.note("samples", drawn).note("relative_std_error", variance.sqrt() / value.abs());
    (diagnostics.rounding, diagnostics.seconds) = (rounding, clock.seconds());
    diagnostics.stopped_early = stopped_early;
    if value.is_nan() || value <= 0.0 || stopped_early {
        return Err(Error::NoAnswer(format!(
            "log Ẑ does not exist: after {drawn} tuples of degree {degree} the estimate is {value:.3e}·|X|{}",
            if stopped_early { ", and time is up" } else { ", not a positive number" }
        )));
    }
    let error = polynomial.error();
    // Z ≥ |X|·exp m, and no score exceeds the sum of the maxima.
    let low = (low - error).max(1.0).ln();
    let high = (high + error).max(1.0).ln().min(tuples.high).max(low);
    let guarantee = Guarantee::bounds(offset + low, offset + high, options.confidence, rounding);
    Ok(Answer { value: offset + value.ln(), guarantee, diagnostics })
}

/// The sums of the tuples of one length, one for each replicate; `None` if the time limit is reached.
fn sample(
    tuples: &Tuples,
    stratum: &Stratum,
    number: usize,
    replicates: usize,
    run: &Run,
    clock: &Clock<'_>,
) -> Option<Vec<(f64, f64)>> {
    let streams = Streams::new(run.seed(), STREAMS);
    let draw =
        |r: usize| replicate(tuples, stratum, &mut streams.block((number * replicates + r) as u64), clock);
    (0..replicates).into_par_iter().map(draw).collect()
}

/// The same for all lengths in a divided run, where a unit is a replicate of a length.
fn shared_sums(
    tuples: &Tuples,
    strata: &[Stratum],
    replicates: usize,
    run: &Run,
    clock: &Clock<'_>,
) -> Result<Vec<(f64, f64)>> {
    let streams = Streams::new(run.seed(), STREAMS);
    let units = Units::new(NAME, (strata.len() * replicates) as u64, &[strata.len() as u64]);
    let work = |unit: u64| {
        let stratum = &strata[unit as usize / replicates];
        let found = replicate(tuples, stratum, &mut streams.block(unit), clock);
        found.ok_or_else(|| clock.check().err().unwrap_or(Error::Interrupted))
    };
    let mut sums = Vec::new();
    run.units(&units, work, |_, own| sums.push(own))?;
    Ok(sums)
}

/// Σ x and Σ (x − ½)² of the tuples of one replicate, mapped to [0, 1]; `None` if the time limit is reached.
fn replicate(
    tuples: &Tuples,
    stratum: &Stratum,
    random: &mut Stream,
    clock: &Clock<'_>,
) -> Option<(f64, f64)> {
    let mut stamps = vec![(0u32, 0u32); tuples.cardinalities.len()];
    let (mut sum, mut squares, mut now) = (0.0, 0.0, 0u32);
    for at in 0..stratum.each {
        if at % ROUND == 0 && clock.must_stop() {
            return None;
        }
        now = now.wrapping_add(1);
        if now == 0 {
            stamps.fill((0, 0));
            now = 1;
        }
        let x = 0.5 + 0.5 * tuples.product(stratum.length, random, &mut stamps, now);
        sum += x;
        squares += (x - 0.5) * (x - 0.5);
    }
    Some((sum, squares))
}

fn moments(stratum: &Stratum, sums: &[(f64, f64)]) -> Moments {
    let total = sums.iter().fold((0.0, 0.0), |total, own| (total.0 + own.0, total.1 + own.1));
    let count = stratum.each as f64 * sums.len() as f64;
    let mean = total.0 / count;
    let off = mean - 0.5;
    let variance = (total.1 - count * off * off + 1e-14 * total.1).max(0.0) / (count - 1.0).max(1.0);
    Moments { count, mean, variance }
}
