//! What the queries cost.

use super::ForwardBackward;
use crate::answer::Promise;
use crate::forecast::{Forecast, Forecasts};
use crate::model::{Chain, Segments, SemiMarkov, Transitions};
use crate::numeric::Real;
use crate::query::Query;
use crate::run::Run;

/// Seconds for one multiplication and addition in a product of many rows, single precision; double takes twice as long.
const PER_PRODUCT: f64 = 4e-11;
/// Seconds to bring one byte of a matrix from memory.
const PER_BYTE: f64 = 1.2e-10;
/// Seconds for `exp` or `ln` of one number in single precision, and the additions around it.
const PER_NUMBER: f64 = 2e-9;
/// Seconds to start the threads and allocate.
const PER_CALL: f64 = 2e-5;

/// Counts of what a lattice does.
pub(super) struct Cost {
    /// B·T·N over the positions that count.
    pub nodes: f64,
    /// N.
    pub states: f64,
    /// Positions of the longest sequence.
    pub steps: f64,
    /// B.
    pub batch: f64,
    /// The bytes of a number.
    pub size: f64,
    /// Numbers of the matrices that are kept.
    pub matrices: f64,
    /// Numbers of the transitions' gradient.
    pub parameters: f64,
    /// Operations for an entry of the matrix where it is made anew for every step.
    pub rank: f64,
    /// Rows of N numbers that a position needs besides its messages, for segments.
    pub segments: f64,
    /// The option.
    pub checkpoint: bool,
}

impl Cost {
    pub fn of<F: Real>(chain: &Chain<F>, checkpoint: bool) -> Cost {
        let positions: f64 = chain.lengths().iter().map(|&length| length as f64).sum();
        let states = chain.states() as f64;
        let steps = chain.lengths().iter().max().map_or(0.0, |&longest| longest as f64);
        let (matrices, rank) = match chain.transitions() {
            Transitions::Shared(_) => (states * states, 0.0),
            Transitions::PerStep(_) => ((steps - 1.0).max(0.0) * states * states, 0.0),
            Transitions::Factored { left, .. } => {
                (4.0 * states + (1 << 20) as f64, left.len() as f64 / states)
            }
        };
        Cost {
            nodes: positions * states,
            states,
            steps,
            batch: chain.batch() as f64,
            size: size_of::<F>() as f64,
            matrices,
            parameters: chain.transitions().len() as f64,
            rank,
            segments: 0.0,
            checkpoint,
        }
    }

    pub fn forecast(&self, query: Query) -> Forecast {
        let step = self.batch * self.states;
        let kept = if self.checkpoint { 3.0 * step * self.steps.sqrt().ceil() } else { 2.0 * self.nodes };
        let output = step * self.steps;
        let gathered = (2.0 * self.nodes).min(2.0 * (1 << 24) as f64 + 512.0 * self.states);
        // (arrays, sweeps, rows that are exponentiated, entries read one by one)
        let (arrays, products, numbers, single) = match query {
            Query::LogPartition => (2.0 * step, 1.0, 2.0, 0.0),
            Query::Marginals => (kept + output, 2.0, 5.0, 0.0),
            Query::FactorMarginals => (kept + output + self.parameters + gathered, 3.0, 7.0, 0.0),
            Query::Entropy => (kept + self.nodes, 4.0, 7.0, 0.0),
            Query::Map => (self.nodes, 0.0, 1.0, self.nodes * self.states),
            Query::KBest(k) => {
                let states = (k as f64) * self.steps * self.batch;
                (self.nodes + 16.0 * states * self.states / self.size, 0.0, 1.0, self.nodes * self.states)
            }
            Query::Sample(count) => {
                let draws = count as f64 * self.nodes / self.states;
                (self.nodes + draws * 8.0 / self.size, 1.0, 2.0, draws * self.states)
            }
        };
        let double = self.size / 4.0;
        let multiplications = self.nodes * self.states * PER_PRODUCT * double;
        // A matrix is read, or made, once a step for the whole batch.
        let entries = self.states * self.states * self.steps;
        let made = entries
            * (self.rank * PER_PRODUCT * double + if self.rank > 0.0 { PER_NUMBER / 2.0 } else { 0.0 });
        let read = entries * self.size * PER_BYTE;
        let sweep = multiplications.max(if self.rank > 0.0 { 0.0 } else { read }) + made;
        let segments = self.nodes * self.segments * PER_NUMBER * 2.0;
        Forecast {
            bytes: self.size
                * (arrays + self.matrices + 4.0 * step + 2.0 * self.nodes * f64::from(self.segments > 0.0)),
            seconds: PER_CALL
                + products * (sweep + segments)
                + numbers * self.nodes * PER_NUMBER * double
                + single * (PER_NUMBER / 4.0 + self.rank * PER_PRODUCT) * double
                + self.matrices * PER_NUMBER * double,
            promise: Promise::Exact,
        }
    }
}

impl<F: Real> Forecasts<Chain<F>> for ForwardBackward {
    fn forecast(&self, chain: &Chain<F>, query: Query, _: &Run) -> Forecast {
        Cost::of(chain, self.checkpoint).forecast(query)
    }
}

impl<F: Real> Forecasts<SemiMarkov<F>> for ForwardBackward {
    fn forecast(&self, model: &SemiMarkov<F>, query: Query, _: &Run) -> Forecast {
        let mut cost = Cost::of(model.chain(), false);
        cost.segments = model.longest() as f64;
        let (Segments::Lengths(values) | Segments::Places(values)) = model.segments();
        if query == Query::FactorMarginals {
            cost.parameters += values.len() as f64;
        }
        cost.forecast(query)
    }
}
