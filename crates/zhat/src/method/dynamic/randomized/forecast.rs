//! Time and memory forecasts of the queries.
//!
//! A replicate weighs all N states of each position. If the proposal needs messages, it computes them from
//! the K chosen states to all states (K·N entries; L·K·N for segments). The query then runs on a lattice of K
//! states (K² entries; L·K² for segments).

use super::method::RandomizedForward;
use super::proposal::StateProposal;
use crate::answer::Promise;
use crate::method::cost::randomized::{
    CACHE, PER_BANDED_STATE, PER_CHOSEN_SEGMENT, PER_ENTRY, PER_FAR_GATHERED, PER_GATHERED, PER_SEGMENT,
    PER_SORTED_STATE, PER_STATE, PER_STEP,
};
use crate::method::dynamic::SequenceModel;
use crate::method::dynamic::lattice::{
    BYTES_PER_CALL, BYTES_PER_ROW, Matrices, PER_CALL, PER_FRESH_BYTE, PER_PRODUCT, Scratch,
};
use crate::model::Transitions;
use crate::query::Query;
use crate::query::{Forecast, Forecasts};
use crate::run::Run;

/// Numbers in a tile of messages; see `spread`.
const TILE: f64 = (66 * 512) as f64;

/// The sizes behind a forecast.
struct Cost<'a, M: SequenceModel> {
    method: &'a RandomizedForward,
    model: &'a M,
    /// N, B, the total number of positions of all sequences, and T.
    all: f64,
    batch: f64,
    positions: f64,
    steps: f64,
    /// L; 1 for a chain.
    longest: f64,
    /// K, and the number of states in which a segment may end at a position.
    kept: f64,
    left: f64,
    /// R.
    replicates: f64,
    size: f64,
    matrices: Matrices,
    threads: f64,
}

impl<'a, M: SequenceModel> Cost<'a, M> {
    fn new(method: &'a RandomizedForward, model: &'a M, run: &Run) -> Self {
        let (chain, longest) = (model.chain(), model.longest());
        let all = chain.states();
        // The number of states for a target error is not known in advance. The default is used as a guess.
        let kept = method.states.of(all);
        Cost {
            method,
            model,
            all: all as f64,
            batch: chain.batch() as f64,
            positions: chain.lengths().iter().map(|&length| length as f64).sum(),
            steps: chain.steps() as f64,
            longest: longest as f64,
            kept: kept as f64,
            left: longest.saturating_mul(kept).min(all) as f64,
            replicates: method.replicates_for() as f64,
            size: size_of::<M::Real>() as f64,
            matrices: Matrices::of(chain.transitions(), all),
            threads: run.threads() as f64,
        }
    }

    fn guided(&self) -> bool {
        self.method.proposal == StateProposal::TwoPass
    }

    /// Size of the results that are as large as the model.
    fn outputs(&self, query: Query) -> f64 {
        let nodes = self.batch * self.steps * self.all;
        match query {
            // Marginals of segments are computed through the gradient.
            Query::Marginals if self.longest == 1.0 => nodes,
            Query::Marginals | Query::FactorMarginals => nodes + self.model.parameters() as f64,
            _ => 0.0,
        }
    }

    /// Seconds for choosing the states.
    fn choosing(&self, entry: f64, gathered: f64) -> f64 {
        let (pairs, transitions) = (self.positions - self.batch, self.model.chain().transitions());
        let (per_state, messages) = match self.method.proposal {
            StateProposal::TwoPass => (PER_BANDED_STATE, true),
            StateProposal::Forward => (PER_SORTED_STATE, true),
            _ => (PER_STATE, false),
        };
        let mut seconds = self.positions * self.replicates * self.all * per_state;
        if messages {
            seconds += pairs * self.replicates * self.left * self.all * entry;
        }
        if self.guided() {
            seconds += self.positions * self.all * PER_SORTED_STATE;
            seconds += pairs * self.kept * self.all * (entry + gathered);
        }
        let tables = matches!(transitions, Transitions::Shared(_) | Transitions::PerStep(_));
        if tables && matches!(self.method.proposal, StateProposal::Global | StateProposal::LocalGlobal) {
            seconds += 2.0 * transitions.len() as f64 * entry;
        }
        if self.longest > 1.0 {
            let passes = self.replicates + if self.guided() { 1.0 } else { 0.0 };
            seconds += self.positions * passes * self.longest * self.all * PER_SEGMENT;
        }
        seconds
    }

    fn seconds(&self, query: Query) -> f64 {
        let entry = (PER_ENTRY + self.matrices.rank as f64 * PER_PRODUCT) * self.size / 4.0;
        let gathered = match self.matrices.rank {
            0 if self.all * self.all * self.size > CACHE => PER_FAR_GATHERED,
            0 => PER_GATHERED,
            _ => 0.0,
        };
        // The number of lattices of chosen states that are processed, in units of one log Ẑ.
        let chain = self.longest == 1.0;
        let lattices = match query {
            Query::LogPartition => {
                if chain {
                    1.0
                } else {
                    1.5
                }
            }
            Query::Marginals => 2.6,
            Query::FactorMarginals => {
                if chain {
                    4.3
                } else {
                    3.7
                }
            }
            Query::Entropy => {
                if chain {
                    4.3
                } else {
                    6.0
                }
            }
            Query::Sample(_) => 2.5,
            Query::Map | Query::KBest(_) => 0.0,
        };
        let pairs = self.positions - self.batch;
        let mut lattice = pairs * (self.left * self.kept * (entry + gathered) + PER_STEP);
        if !chain {
            lattice += self.positions * self.longest * self.kept * PER_CHOSEN_SEGMENT;
        }
        let pilots = if self.method.error.is_some() { 3.0 } else { 1.0 };
        let work = self.choosing(entry, gathered) + lattices * self.replicates * lattice;
        PER_CALL + pilots * work + self.size * self.outputs(query) * PER_FRESH_BYTE
    }

    /// The bytes of one lattice of chosen states.
    fn lattice_bytes(&self, query: Query) -> f64 {
        let (left, kept) = (self.left as usize, self.kept as usize);
        let matrices = self.matrices.restricted(left, kept);
        let rows = if query == Query::Entropy { 12.0 } else { 8.0 };
        let mut scratch = Scratch::default().then(matrices.product(1, 1, false));
        if query == Query::Entropy {
            scratch = scratch.then(matrices.product(2, 2, true));
        }
        if query == Query::FactorMarginals {
            scratch = scratch.then(matrices.gradient(1, self.threads as usize));
            // Table rows written by one thread; see `lattice::steps::gradient`.
            scratch.rows += (self.left * self.kept).min((8 << 20) as f64);
        }
        // Embeddings of both sides, and rows read for their maxima.
        let mut chosen = (self.matrices.rank + 18) as f64 * (self.left + self.kept) + (1 << 16) as f64;
        if self.matrices.low_rank {
            // Factors of the chosen states at every boundary.
            chosen += self.steps * (self.matrices.rank + 4) as f64 * (self.left + self.kept);
            if query == Query::FactorMarginals || query == Query::Entropy {
                let extra = matrices.directed_gradient(1, self.threads as usize);
                scratch = scratch.then(extra).then(matrices.product(2, 2, true));
            }
        }
        let numbers = rows * self.steps * self.left + scratch.numbers() + chosen;
        // Indices of the end states in the sets of start states.
        let origins = if self.longest > 1.0 { 32.0 * self.steps * self.longest * self.left } else { 0.0 };
        self.size * numbers + origins
    }

    /// Log factors of the chosen states, copied for a tile.
    fn gathered_rows(&self) -> f64 {
        if self.matrices.low_rank { self.matrices.rank as f64 * self.left.max(self.kept) } else { 0.0 }
    }

    fn bytes(&self, query: Query) -> f64 {
        let groups = self.threads.min(self.batch);
        // A thread that waits for others may start another replicate meanwhile.
        let workers = self.threads.min(groups * self.replicates);
        let waiting =
            if self.threads > 1.0 { self.threads.min(groups * self.replicates - workers) } else { 0.0 };
        let guides = if self.guided() { groups * self.steps * self.all * self.size } else { 0.0 };
        let global = 8.0 * self.all;
        let segments = if self.longest > 1.0 { 8.0 * self.all * (self.longest + 2.0) } else { 0.0 };
        let messages = 2.0 * self.size * self.all + 16.0 * self.all;
        let choosing = workers
            * (messages
                + 32.0 * self.all
                + segments
                + self.size * (TILE + 64.0 * self.left + self.matrices.entries() + self.gathered_rows()))
            + waiting * (messages + segments)
            + self.threads * self.matrices.packed_bytes();
        let supports = if query == Query::LogPartition {
            (workers + waiting) * self.steps
        } else {
            self.replicates * self.positions
        };
        let drawn = match query {
            // Segments are stored twice: in a growing vector and in the final result.
            Query::Sample(count) => {
                let each = if self.longest > 1.0 { 48.0 } else { 24.0 };
                count as f64 * (each * self.positions + 128.0 * self.batch)
            }
            _ => 0.0,
        };
        // States are chosen first, and each replicate uses a lattice for log Ẑ. The query runs afterwards.
        let first = guides + choosing + workers * self.lattice_bytes(Query::LogPartition);
        let then = self.size * self.outputs(query) + workers * self.lattice_bytes(query) + drawn;
        global
            + first.max(then)
            + supports * (24.0 * self.kept + 64.0)
            + BYTES_PER_ROW * self.replicates * self.positions
            + BYTES_PER_CALL * self.threads
    }
}

impl<M: SequenceModel> Forecasts<M> for RandomizedForward {
    fn forecast(&self, model: &M, query: Query, run: &Run) -> Forecast {
        let cost = Cost::new(self, model, run);
        Forecast {
            bytes: cost.bytes(query),
            seconds: cost.seconds(query),
            promise: match query {
                Query::LogPartition | Query::Sample(_) if self.is_unbiased() => Promise::Unbiased,
                _ => Promise::Heuristic,
            },
        }
    }
}
