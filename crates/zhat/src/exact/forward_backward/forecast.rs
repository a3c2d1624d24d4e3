//! What the queries cost.

use super::ForwardBackward;
use crate::answer::Promise;
use crate::forecast::{Forecast, Forecasts};
use crate::model::{Chain, Segments, SemiMarkov, Transitions};
use crate::numeric::Real;
use crate::query::Query;
use crate::run::Run;

/// Seconds for one multiplication and addition in a product of many rows, single precision; double takes twice as long.
const PER_PRODUCT: f64 = 1.5e-11;
/// Seconds to bring one byte of a matrix from memory, and from the cache where it fits there.
const PER_BYTE: f64 = 1e-10;
const PER_CACHED_BYTE: f64 = 3e-11;
const CACHE: f64 = 16e6;
/// Seconds for `exp` or `ln` of one number in single precision, and the additions around it.
const PER_NUMBER: f64 = 2e-9;
/// Seconds for an entry of a tile that is made by a product and exponentiated.
const PER_MADE: f64 = 3e-10;
/// Seconds for an entry of a maximum over paths, and of the law of a draw.
const PER_COMPARISON: f64 = 2.5e-10;
const PER_DRAW: f64 = 1.5e-9;
/// Rows of a window for products through ln M.
const WINDOW_ROWS: f64 = 128.0;
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

    /// The same for segments.
    pub fn of_segments<F: Real>(model: &SemiMarkov<F>, checkpoint: bool) -> Cost {
        let (Segments::Lengths(values) | Segments::Places(values)) = model.segments();
        let chain = Cost::of(model.chain(), checkpoint);
        let parameters = chain.parameters + values.len() as f64;
        Cost { segments: model.longest() as f64, parameters, ..chain }
    }

    /// Numbers of messages that are kept, `rows` for each position and state.
    fn kept(&self, rows: f64) -> f64 {
        if self.checkpoint {
            (rows + 1.0) * self.batch * self.states * self.window()
        } else {
            rows * self.nodes
        }
    }

    /// Positions of a window, and those around it that it needs.
    fn window(&self) -> f64 {
        let longest = self.segments.clamp(1.0, self.steps.max(1.0));
        (self.steps * longest).sqrt().ceil() + longest
    }

    /// Numbers of rows gathered for a product.
    fn gathered(&self) -> f64 {
        2.0 * self.nodes.min((1 << 24) as f64 + 256.0 * self.states)
    }

    /// The memory of a value and its gradient with `rows` kept for each position and state, and as many models.
    pub fn gradient_bytes(&self, rows: f64, models: f64) -> f64 {
        let outputs = models * (self.batch * self.steps * self.states + self.parameters);
        let segments = if self.segments > 0.0 { 2.0 } else { 1.0 };
        self.size * (segments * self.kept(rows) + outputs + 2.0 * self.gathered() + models * self.matrices)
    }

    pub fn forecast(&self, query: Query) -> Forecast {
        let step = self.batch * self.states;
        let output = step * self.steps;
        let segments = self.segments > 0.0;
        // Numbers kept, sweeps, rows that are exponentiated, and seconds for entries one by one.
        let (arrays, products, numbers, single) = match query {
            Query::LogPartition if segments => (4.0 * step * self.window(), 1.0, 2.0, 0.0),
            Query::LogPartition => (4.0 * step, 1.0, 2.0, 0.0),
            Query::Marginals => (self.kept(2.0) + output, 2.0, 5.0, 0.0),
            Query::FactorMarginals => {
                (self.kept(2.0) + output + self.parameters + self.gathered(), 3.0, 7.0, 0.0)
            }
            Query::Entropy if segments => {
                let window = self.window().max(WINDOW_ROWS / self.batch.max(1.0)) + self.segments;
                (8.0 * step * window + self.gathered(), 4.0, 7.0, 0.0)
            }
            Query::Entropy => (self.kept(2.0).min(self.nodes) + self.gathered(), 4.0, 7.0, 0.0),
            Query::Map => (self.nodes + 2.0 * step, 0.0, 1.0, self.nodes * self.states * PER_COMPARISON),
            Query::KBest(k) => {
                // Ways into the nodes that are asked: at most k of k·T.
                let ways = (k as f64).min(self.states) * k as f64 * self.steps * self.batch;
                (
                    self.nodes + 2.0 * step + 48.0 * ways / self.size,
                    0.0,
                    1.0,
                    self.nodes * self.states * PER_COMPARISON,
                )
            }
            Query::Sample(count) => {
                let draws = count as f64 * self.nodes / self.states.max(1.0);
                (2.0 * self.nodes + draws * 16.0 / self.size, 1.0, 2.0, draws * self.states * PER_DRAW)
            }
        };
        // Messages into positions.
        let entered = match query {
            _ if !segments => 0.0,
            Query::LogPartition | Query::Entropy => 0.0,
            Query::Marginals | Query::FactorMarginals => 2.0 * self.kept(2.0),
            _ => 2.0 * self.nodes,
        };
        let double = self.size / 4.0;
        let multiplications = self.nodes * self.states * PER_PRODUCT * double;
        // A matrix is read, or made, once a step for the whole batch.
        let entries = self.states * self.states * self.steps;
        let table = self.states * self.states * self.size;
        let per_byte = if table > CACHE { PER_BYTE } else { PER_CACHED_BYTE };
        let matrix = if self.rank > 0.0 {
            entries * (self.rank * PER_PRODUCT + PER_MADE) * double
        } else {
            entries * self.size * per_byte
        };
        let sweep = multiplications + matrix + self.nodes * self.segments * PER_NUMBER * 2.0;
        let made = if self.rank > 0.0 { self.rank * PER_PRODUCT * self.nodes * self.states } else { 0.0 };
        Forecast {
            bytes: self.size * (arrays + self.matrices + 4.0 * step + entered),
            seconds: PER_CALL
                + products * sweep
                + numbers * self.nodes * PER_NUMBER * double
                + single * double
                + if single > 0.0 { made / self.batch.max(1.0) } else { 0.0 }
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
        Cost::of_segments(model, self.checkpoint).forecast(query)
    }
}
