//! Time forecasts of the queries.
//!
//! A sweep multiplies B·T rows of N numbers by an N×N matrix and passes over that matrix once per boundary. A
//! stored matrix is read. A matrix computed from tables or embeddings costs D multiplications and one
//! exponential for each of its N² entries. With low-rank transitions, a sweep reads factors of N·R numbers, and
//! only entropies and best paths need the N² entries. Everything else is proportional to B·T·N.

use super::ForwardBackward;
use super::recorded::Recorded;
use crate::answer::Promise;
use crate::method::cost::forward_backward::{
    CACHE, PER_BYTE, PER_CACHED_BYTE, PER_COMPARISON, PER_DIRECTED, PER_DRAW, PER_MADE, PER_MADE_WEIGHT,
    PER_NUMBER, PER_RANKED, PER_SEGMENT, PER_SPARSE, PER_WAY, PER_WEIGHT,
};
use crate::method::dynamic::lattice::{
    BLOCK, Matrices, PER_CALL, PER_FRESH_BYTE, PER_PRODUCT, expectation_window, is_narrow, narrow_numbers,
};
use crate::model::{Chain, Segments, SemiMarkov};
use crate::numeric::{POOL_BYTES, Real};
use crate::query::Query;
use crate::query::{Forecast, Forecasts};
use crate::run::Run;

/// Size of a model and its lattice, as needed by the forecasts.
pub struct Cost {
    /// B·T, counting only positions inside their sequence.
    pub rows: f64,
    /// N.
    pub states: f64,
    /// T of the emissions' shape, and the length of the longest sequence.
    pub room: f64,
    pub steps: f64,
    /// B.
    pub batch: f64,
    /// Bytes per number.
    pub size: f64,
    /// The transitions in the form that matrix products use.
    pub(super) matrices: Matrices,
    /// True if all boundaries have the same matrix.
    pub shared: bool,
    /// True if each sequence has its own matrices; the sequences are then separate models.
    pub separate: bool,
    /// Sizes of the gradients with respect to transitions and segment scores.
    pub parameters: f64,
    pub segment_parameters: f64,
    /// L, or 0 for a chain.
    pub longest: f64,
    /// ln of the number of paths or segmentations of the longest sequence.
    pub log_count: f64,
    /// Numbers of the sweeps over few states; 0 if they are not used.
    pub narrow: f64,
    /// Options of the method and the run.
    pub checkpoint: bool,
    pub threads: f64,
}

/// Work of a query, in units of one sweep.
struct Work {
    /// Rows multiplied by the matrix.
    products: f64,
    /// Passes over a shared matrix at each boundary.
    passes: f64,
    /// Passes over the matrix that serve many boundaries at once.
    whole: f64,
    /// Passes over the messages.
    looks: f64,
    /// Passes over all segments.
    segments: f64,
}

impl Cost {
    pub fn of<F: Real>(chain: &Chain<F>, checkpoint: bool, threads: usize) -> Cost {
        Cost {
            rows: chain.lengths().iter().map(|&length| length as f64).sum(),
            states: chain.states() as f64,
            room: chain.steps() as f64,
            steps: chain.lengths().iter().max().map_or(0.0, |&longest| longest as f64),
            batch: chain.batch() as f64,
            size: size_of::<F>() as f64,
            matrices: Matrices::of(chain.transitions(), chain.states()),
            shared: chain.transitions().shared(),
            separate: chain.separate(),
            parameters: (chain.transitions().len() + chain.end().map_or(0, <[F]>::len)) as f64,
            segment_parameters: 0.0,
            longest: 0.0,
            log_count: chain.lengths().iter().max().map_or(0.0, |&longest| longest as f64)
                * (chain.states() as f64).ln(),
            narrow: match is_narrow(chain.transitions(), chain.states()) && !checkpoint {
                true => {
                    let steps = chain.lengths().iter().max().copied().unwrap_or(0);
                    let numbers = |batch: usize, tables: usize, threads: usize| {
                        narrow_numbers::<F>(batch, steps, chain.states(), tables, threads)
                    };
                    match (chain.separate(), chain.transitions().shared()) {
                        (true, _) => threads.min(chain.batch()) as f64 * numbers(1, steps, 1),
                        (false, shared) => numbers(chain.batch(), if shared { 1 } else { steps }, threads),
                    }
                }
                false => 0.0,
            },
            checkpoint,
            threads: threads as f64,
        }
    }

    /// The same for a semi-Markov chain.
    pub fn of_segments<F: Real>(model: &SemiMarkov<F>, checkpoint: bool, threads: usize) -> Cost {
        let (Segments::Lengths(values) | Segments::Places(values)) = model.segments();
        Cost {
            longest: model.longest() as f64,
            log_count: log_segmentations(model),
            segment_parameters: values.len() as f64,
            narrow: 0.0,
            ..Cost::of(model.chain(), checkpoint, threads)
        }
    }

    /// B·T·N, counting only positions inside their sequence.
    pub fn nodes(&self) -> f64 {
        self.rows * self.states
    }

    /// Pairs of neighbouring positions.
    pub fn pairs(&self) -> f64 {
        self.rows - self.batch
    }

    pub fn boundaries(&self) -> f64 {
        (self.steps - 1.0).max(0.0)
    }

    /// Size of the results that are as large as the model.
    pub fn outputs(&self, query: Query) -> f64 {
        let nodes = self.batch * self.room * self.states;
        // The results of separate sequences are copied into one.
        let copies = if self.separate { 2.0 } else { 1.0 };
        copies
            * match query {
                Query::FactorMarginals => nodes + self.parameters + self.segment_parameters,
                // Marginals of segments are computed through the gradient.
                Query::Marginals if self.longest > 0.0 => nodes + self.parameters,
                Query::Marginals => nodes,
                _ => 0.0,
            }
    }

    fn work(&self, query: Query) -> Work {
        let work =
            |products, passes, whole, looks, segments| Work { products, passes, whole, looks, segments };
        let gathered = match query {
            Query::FactorMarginals => self.matrices.gathered_edges(self.pairs() as usize),
            _ => self.matrices.gathered(self.pairs() as usize),
        };
        let gathered = gathered.max(1) as f64;
        let chunks = (self.pairs() / gathered).ceil();
        let windows =
            (self.steps / expectation_window(self.batch as usize, self.steps as usize, 1) as f64).ceil();
        let work = match query {
            Query::Map | Query::KBest(_) => work(0.0, 0.0, 0.0, 2.0, 0.5),
            Query::LogPartition | Query::Sample(_) if self.longest > 0.0 => work(2.0, 1.0, 0.0, 5.0, 2.0),
            Query::LogPartition => work(1.0, 1.0, 0.0, 2.0, 0.0),
            Query::Sample(_) => work(1.0, 1.0, 0.0, 3.0, 0.0),
            Query::Marginals => work(2.0, 1.0, 0.0, 5.0, 3.0),
            Query::FactorMarginals => work(3.0, 1.0, chunks, 7.0, 3.0),
            Query::Entropy if self.longest > 0.0 => work(8.0, 3.0, 2.0 * chunks, 16.0, 10.0),
            Query::Entropy => work(4.0, 2.0, windows.max(chunks), 8.0, 0.0),
        };
        // Checkpoints need a second forward sweep and a separate backward sweep.
        if self.checkpoint && matches!(query, Query::Marginals | Query::FactorMarginals) {
            return Work {
                products: work.products + 1.0,
                passes: work.passes + 2.0,
                looks: work.looks + 2.0,
                ..work
            };
        }
        work
    }

    /// Seconds for reading or computing the matrices.
    fn matrix_seconds(&self, work: &Work, query: Query) -> f64 {
        if let Some(entries) = self.matrices.sparse {
            return self.sparse_seconds(entries as f64, work, query);
        }
        let entries = self.states * self.states;
        let (double, rank) = (self.size / 4.0, self.matrices.rank as f64);
        let (made, boundaries) = (PER_MADE * double, self.boundaries());
        let best = work.products == 0.0;
        if self.matrices.low_rank {
            let factors = 2.0 * self.states * rank;
            let read = |bytes: f64| PER_CACHED_BYTE * bytes.min(CACHE) + PER_BYTE * (bytes - CACHE).max(0.0);
            // A forward and a backward step together read one factor twice and the other once.
            let passes = boundaries * work.passes * 1.5 * read(factors * self.size) + factors * made;
            let entry = rank * PER_PRODUCT * double + made;
            return match query {
                Query::Map | Query::KBest(_) => boundaries * entries * entry,
                // Each direction needs a tile of M and one of ln M.
                Query::Entropy => passes + 2.0 * work.whole * entries * entry,
                _ => passes + work.whole * 4.0 * read(factors * self.size),
            };
        }
        if rank > 0.0 {
            let half = if self.matrices.symmetric { 0.5 } else { 1.0 };
            let multiplied = rank * PER_PRODUCT * double;
            // A gradient needs two more products. A direction is computed along with the matrix.
            let whole = match query {
                Query::FactorMarginals => half * (3.0 * multiplied + made),
                _ => 2.0 * (multiplied + made),
            };
            let passes = if best { 1.0 } else { half * work.passes };
            return entries * (boundaries * passes * (multiplied + made) + work.whole * whole);
        }
        let table = entries * self.size;
        let read = PER_CACHED_BYTE * table.min(CACHE) + PER_BYTE * (table - CACHE).max(0.0);
        if self.shared {
            let passes = if best { 1.0 } else { work.passes };
            return boundaries * passes * read + (2.0 + work.whole) * entries * made;
        }
        let boundaries = boundaries * if self.separate { self.batch } else { 1.0 };
        let tables = boundaries * if best { 1.0 } else { work.products + 1.0 };
        tables * entries * made + if best { boundaries * read } else { 0.0 }
    }

    /// The same for sparse tables: computing M, by step or once, and M∘D for each chunk of rows.
    fn sparse_seconds(&self, entries: f64, work: &Work, query: Query) -> f64 {
        let (double, boundaries) = (self.size / 4.0, self.boundaries());
        let made = entries * PER_MADE * double * 4.0;
        let tables = match (self.shared, work.products == 0.0) {
            (_, true) => 0.0,
            (true, _) => 2.0,
            (false, _) => boundaries * (work.products + 1.0),
        };
        let directed = if query == Query::Entropy { work.whole * entries * PER_DIRECTED } else { 0.0 };
        tables * made + if self.shared { directed } else { directed * boundaries }
    }

    /// Seconds for drawing samples and for the entries that maximisation compares.
    fn single_seconds(&self, query: Query) -> f64 {
        match query {
            Query::Map => match self.matrices.sparse {
                Some(entries) => self.pairs() * entries as f64 * PER_SPARSE,
                None => self.pairs() * self.states.powi(2) * PER_COMPARISON * self.size / 4.0,
            },
            Query::KBest(k) => {
                let asked = (k as f64 * self.rows).min(self.nodes());
                let made = 1.0 + 0.1 * self.matrices.rank as f64;
                let sources = match self.matrices.sparse {
                    Some(entries) => entries as f64 / self.states,
                    None => self.states * made,
                };
                let ways = asked * (sources + self.longest) * PER_WAY;
                self.single_seconds(Query::Map) + ways + k as f64 * self.rows * PER_RANKED
            }
            Query::Sample(count) => {
                let blocks = count.div_ceil(BLOCK) as f64;
                // Samples in the same block and the same state share one distribution.
                let laws = self.rows * blocks * (count.min(BLOCK) as f64).min(self.states);
                let weight = PER_WEIGHT + if self.matrices.rank > 0 { PER_MADE_WEIGHT } else { 0.0 };
                if self.matrices.low_rank {
                    // One distribution over states for each intermediate state.
                    let rank = self.matrices.rank as f64;
                    let laws = laws.min(self.rows * blocks * rank);
                    let sums = self.rows * blocks * self.states * rank * PER_PRODUCT * self.size / 4.0;
                    return laws * self.states * weight + sums + self.rows * count as f64 * PER_DRAW;
                }
                let states = match self.matrices.sparse {
                    Some(entries) => entries as f64 / self.states,
                    None => self.states,
                };
                laws * states * weight + self.rows * count as f64 * PER_DRAW
            }
            _ => 0.0,
        }
    }

    /// Multiply-adds for one message.
    fn terms(&self, query: Query) -> f64 {
        if let Some(entries) = self.matrices.sparse {
            // Each takes as long as many of a dense product.
            return entries as f64 * PER_SPARSE / (PER_PRODUCT * self.size / 4.0);
        }
        if self.matrices.low_rank && query != Query::Entropy {
            return 2.0 * self.states * self.matrices.rank as f64;
        }
        self.states.powi(2)
    }

    pub fn forecast(&self, query: Query) -> Forecast {
        let query = query.at_most(self.log_count);
        let work = self.work(query);
        let double = self.size / 4.0;
        let bytes = self.bytes(query);
        let outputs = self.size * self.outputs(query);
        // Scratch memory is reused by the next query unless it exceeds the pool.
        let scratch = bytes - outputs;
        let fresh = outputs + scratch.min(2.0 * (scratch - POOL_BYTES as f64).max(0.0));
        Forecast {
            bytes,
            seconds: PER_CALL
                + work.products * self.pairs() * self.terms(query) * PER_PRODUCT * double
                + self.matrix_seconds(&work, query)
                + work.looks * self.nodes() * PER_NUMBER * double
                + work.segments * self.nodes() * self.longest * PER_SEGMENT
                + self.single_seconds(query)
                + fresh * PER_FRESH_BYTE,
            promise: Promise::Exact,
        }
    }
}

/// ln of the number of segmentations of the longest sequence; ∞ if there are more than any query can request.
fn log_segmentations<F: Real>(model: &SemiMarkov<F>) -> f64 {
    const MANY: f64 = 1e20;
    let (states, length) = (model.chain().states() as f64, model.chain().lengths().iter().max().copied());
    // The number of segmentations of the most recent prefix lengths, longest prefix first.
    let mut counts = std::collections::VecDeque::from([1.0f64]);
    for _ in 0..length.unwrap_or(0) {
        let count = states * counts.iter().sum::<f64>();
        if count > MANY {
            return f64::INFINITY;
        }
        counts.push_front(count);
        counts.truncate(model.longest());
    }
    counts.front().map_or(0.0, |count| count.ln())
}

impl<M: Recorded> Forecasts<M> for ForwardBackward {
    fn forecast(&self, model: &M, query: Query, run: &Run) -> Forecast {
        model.cost(self.checkpoint, run.threads()).forecast(query)
    }
}
