//! Poisson emissions: independent counts, p(x | n) = Π_d λ_nd^x_d e^(−λ_nd) / x_d!.
//!
//! Statistics: for every state and column the weight of the known values and their weighted sum. M-step: their
//! ratio.

use super::{Context, Density, Emission, padded};
use crate::error::{Error, Result};
use crate::learn::hmm::data::Sequences;
use crate::random::Stream;
use crate::tensor::Tensor;

/// Least rate that a step of a gradient method reaches.
const LEAST: f64 = 1e-290;

/// One rate per state and column.
#[derive(Clone, Debug, PartialEq)]
pub struct Poisson {
    pub(in crate::learn::hmm) states: usize,
    pub(in crate::learn::hmm) columns: usize,
    /// N × D.
    pub(in crate::learn::hmm) rates: Vec<f64>,
}

impl Poisson {
    /// `rates` has one row per state.
    ///
    /// # Errors
    /// If a rate is negative or not finite, or rows have different lengths.
    pub fn new(states: usize, rates: Vec<f64>) -> Result<Self> {
        let made = Poisson { states, columns: rates.len() / states.max(1), rates };
        made.check()?;
        Ok(made)
    }

    /// The rates, one row per state.
    pub fn rates(&self) -> &[f64] {
        &self.rates
    }
}

/// ln n!, by its series for large n; the error is below 1e-15 relative.
fn log_factorial(n: f64) -> f64 {
    if n < 20.0 {
        return (2..=n as u64).map(|k| k as f64).product::<f64>().ln();
    }
    let (x, square) = (n + 1.0, 1.0 / ((n + 1.0) * (n + 1.0)));
    let series = (1.0 / 12.0 - square * (1.0 / 360.0 - square * (1.0 / 1260.0 - square / 1680.0))) / x;
    (x - 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + series
}

struct Prepared<'a> {
    own: &'a Poisson,
    logs: Vec<f64>,
}

impl Density for Prepared<'_> {
    fn log_density(&self, rows: &[f64], stride: usize, out: &mut [f64]) {
        let Poisson { states, columns, rates } = self.own;
        for (row, out) in rows.chunks_exact(*columns).zip(out.chunks_exact_mut(stride)) {
            for (n, out) in out[..*states].iter_mut().enumerate() {
                let one = |(d, &x): (usize, &f64)| match x {
                    x if x.is_nan() => 0.0,
                    // 0 · ln 0 = 0.
                    0.0 => -rates[n * columns + d],
                    x => x * self.logs[n * columns + d] - rates[n * columns + d],
                };
                *out = row.iter().enumerate().map(one).sum();
            }
            let constant: f64 = row.iter().filter(|x| !x.is_nan()).map(|&x| log_factorial(x)).sum();
            out[..*states].iter_mut().for_each(|out| *out -= constant);
        }
    }

    fn accumulate(&self, rows: &[f64], stride: usize, weights: &[f64], statistics: &mut [f64]) {
        let (columns, width) = (self.own.columns, padded(self.own.states));
        for (row, weights) in rows.chunks_exact(columns).zip(weights.chunks_exact(stride)) {
            for (d, &x) in row.iter().enumerate().filter(|(_, x)| !x.is_nan()) {
                let (totals, sums) = statistics[2 * d * width..][..2 * width].split_at_mut(width);
                for ((total, sum), weight) in totals.iter_mut().zip(sums).zip(weights) {
                    *total += weight;
                    *sum += weight * x;
                }
            }
        }
    }
}

impl Emission for Poisson {
    fn states(&self) -> usize {
        self.states
    }

    fn columns(&self) -> usize {
        self.columns
    }

    fn check(&self) -> Result<()> {
        if self.columns == 0 || self.rates.len() != self.states * self.columns {
            let message = format!("{} numbers are not N × D for {} states", self.rates.len(), self.states);
            return Err(Error::argument("rates", message));
        }
        match self.rates.iter().position(|rate| !(rate.is_finite() && *rate >= 0.0)) {
            None => Ok(()),
            Some(at) => {
                let (state, found) = (at / self.columns, self.rates[at]);
                let message =
                    format!("state {state} has the rate {found}, expected a finite number of at least 0");
                Err(Error::argument("rates", message))
            }
        }
    }

    fn check_data(&self, data: &Sequences) -> Result<()> {
        let known = |x: f64| x.is_nan() || (x >= 0.0 && x.fract() == 0.0);
        match data.values().iter().position(|&x| !known(x)) {
            None => Ok(()),
            Some(at) => {
                let message = format!("found {}, expected a count: 0, 1, 2, …", data.values()[at]);
                Err(data.fail(at / self.columns, at % self.columns, &message))
            }
        }
    }

    fn density<'a>(&'a self, _: &'a Context) -> Box<dyn Density + 'a> {
        Box::new(Prepared { own: self, logs: self.rates.iter().map(|rate| rate.ln()).collect() })
    }

    fn statistics(&self) -> usize {
        2 * self.columns * padded(self.states)
    }

    fn maximize(&mut self, statistics: &[f64], _: &Context) {
        let width = padded(self.states);
        for (n, row) in self.rates.chunks_exact_mut(self.columns).enumerate() {
            for (d, rate) in row.iter_mut().enumerate() {
                let (total, sum) = (statistics[2 * d * width + n], statistics[(2 * d + 1) * width + n]);
                if total > 0.0 {
                    *rate = sum / total;
                }
            }
        }
    }

    /// The logarithms of the rates; a rate of zero has none and stays zero.
    fn coordinates(&self, _: &Context, out: &mut Vec<f64>) {
        out.extend(self.rates.iter().filter(|rate| **rate > 0.0).map(|rate| rate.ln()));
    }

    fn place(&mut self, from: &mut &[f64], _: &Context) {
        for rate in self.rates.iter_mut().filter(|rate| **rate > 0.0) {
            if let Some((log, rest)) = from.split_first() {
                (*rate, *from) = (log.exp().max(LEAST), rest);
            }
        }
    }

    fn gradient(&self, _: &[f64], statistics: &[f64], _: &Context, out: &mut Vec<f64>) {
        let width = padded(self.states);
        for (at, rate) in self.rates.iter().enumerate().filter(|(_, rate)| **rate > 0.0) {
            let (n, d) = (at / self.columns, at % self.columns);
            out.push(statistics[(2 * d + 1) * width + n] - statistics[2 * d * width + n] * rate);
        }
    }

    fn log_prior(&self, _: &Context) -> f64 {
        0.0
    }

    fn places(&self, state: usize) -> Vec<usize> {
        (0..2 * self.columns).map(|at| at * padded(self.states) + state).collect()
    }

    fn copy_state(&mut self, from: usize, to: usize) {
        let columns = self.columns;
        self.rates.copy_within(from * columns..(from + 1) * columns, to * columns);
    }

    fn parameters(&self, counted: &dyn Fn(usize) -> bool) -> usize {
        self.columns * (0..self.states).filter(|&n| counted(n)).count()
    }

    fn draw(&self, state: usize, random: &mut Stream, out: &mut [f64]) {
        for (out, &rate) in out.iter_mut().zip(&self.rates[state * self.columns..]) {
            *out = draw_count(rate, random);
        }
    }

    fn tensors(&self) -> Vec<Tensor<'_>> {
        vec![Tensor::new("rates", &[self.states, self.columns], self.rates.as_slice())]
    }
}

/// A Poisson count: sums of counts of rate at most 16, each by inversion; a rounded normal number for rates above
/// 10⁵.
fn draw_count(mut rate: f64, random: &mut Stream) -> f64 {
    if rate > 1e5 {
        return (rate + rate.sqrt() * random.normal()).round().max(0.0);
    }
    let mut count = 0.0;
    while rate > 0.0 {
        let part = rate.min(16.0);
        rate -= part;
        let (mut left, mut weight, mut k) = (random.uniform(), (-part).exp(), 0.0);
        // Beyond 200 the remaining probability is below 1e-100.
        while left >= weight && k < 200.0 {
            left -= weight;
            k += 1.0;
            weight *= part / k;
        }
        count += k;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Streams;

    #[test]
    fn factorials_and_counts() {
        let mut sum = 0.0;
        for n in 1..200u32 {
            sum += f64::from(n).ln();
            assert!((log_factorial(f64::from(n)) - sum).abs() < 1e-12 * sum.max(1.0), "{n}");
        }
        let mut random = Streams::new(1, "poisson test").block(0);
        for rate in [0.0, 0.3, 4.0, 70.0] {
            let n = 20_000;
            let draws: Vec<f64> = (0..n).map(|_| draw_count(rate, &mut random)).collect();
            let mean = draws.iter().sum::<f64>() / f64::from(n);
            // Five standard errors: a false-alarm rate below 1e-6.
            assert!((mean - rate).abs() <= 5.0 * (rate / f64::from(n)).sqrt(), "{rate} {mean}");
        }
    }
}
