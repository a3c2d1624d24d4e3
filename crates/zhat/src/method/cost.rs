//! The costs of elementary steps, from which forecasts are made: one table for all methods.
//!
//! Seconds are those of one core, bytes are what a step holds. All were measured on one machine, an x86-64 server with
//! AVX-512, with the release profile, by fitting the times of the method's own queries on models of increasing size;
//! `tests/library/sequence_forecasts.rs` and `tests/memory.rs` hold forecasts to what queries really take. On other
//! machines they are off by a factor that is about the same for all methods, which is all that choosing between
//! methods needs; a time budget is kept by the clock, not by them.

/// Elimination.
pub(crate) mod elimination {
    /// Bytes that a variable takes in lists and small allocations.
    pub const OVERHEAD: f64 = 300.0;
    /// Measured seconds: an entry of a clique, in a sweep forward and in both sweeps; summing it down for a
    /// child; reading an entry of a large table besides; a number of memory touched for the first time; setting
    /// up a table, a variable, and the whole.
    pub const PER_ENTRY: f64 = 2.3e-9;
    pub const PER_ENTRY_BOTH_WAYS: f64 = 3.8e-9;
    pub const PER_SUM: f64 = 1.2e-9;
    pub const PER_READ: f64 = 0.25e-9;
    pub const PER_FRESH: f64 = 1.7e-9;
    pub const PER_TABLE: f64 = 0.7e-6;
    pub const PER_VARIABLE: f64 = 0.3e-6;
    pub const AT_LEAST: f64 = 1.5e-4;
    /// How the work on large tables goes down with the number of threads: its power.
    pub const THREADS: f64 = 0.5;
}

/// Enumeration.
pub(crate) mod enumeration {
    /// Measured cost of one state and of one factor at a state, for both walks together.
    pub const SECONDS_PER_STATE: f64 = 1.2e-8;
    /// What setting up takes.
    pub const AT_LEAST: f64 = 4e-4;
}

/// Search.
pub(crate) mod search {
    /// Measured cost of a step, which is a clause, variable or entry looked at.
    pub const SECONDS_PER_STEP: f64 = 4e-8;
    /// Where there was no trial: setting up, and some decisions for each entry that elimination would look at.
    pub const AT_LEAST: f64 = 4e-4;
    pub const SECONDS_PER_ENTRY: f64 = 1e-5;
}

/// Lattice.
pub(crate) mod lattice {
    /// Seconds for one multiplication and addition in a product, single precision; double takes twice as long.
    pub const PER_PRODUCT: f64 = 1.3e-11;
    /// Seconds to write a byte of fresh memory: results, and scratch beyond what is kept between queries.
    pub const PER_FRESH_BYTE: f64 = 6e-10;
    /// Seconds to start: threads, allocations, tables of offsets.
    pub const PER_CALL: f64 = 2e-5;
    /// What a query holds besides arrays that are as large as N: scales and norms of a row, offsets, boxes.
    pub const BYTES_PER_ROW: f64 = 96.0;
    pub const BYTES_PER_CALL: f64 = (96 << 10) as f64;
}

/// Forward backward.
pub(crate) mod forward_backward {
    /// Seconds to bring one byte of a matrix from memory, and from the cache as far as it fits there.
    pub const PER_BYTE: f64 = 5.5e-11;
    pub const PER_CACHED_BYTE: f64 = 3e-11;
    pub const CACHE: f64 = 16e6;
    /// Seconds for an entry of a matrix that is read or multiplied out, and exponentiated, single precision.
    pub const PER_MADE: f64 = 4.6e-10;
    /// Seconds for a number of a message: copied, scaled, `exp` or `ln`, single precision.
    pub const PER_NUMBER: f64 = 1.3e-9;
    /// Seconds for a state of a segment, in double precision whatever the model's.
    pub const PER_SEGMENT: f64 = 3e-9;
    /// Seconds for an entry of a maximum over paths.
    pub const PER_COMPARISON: f64 = 1e-10;
    /// Seconds for an entry of the law of a draw, more where it is a product of embeddings, and for the draw
    /// itself.
    pub const PER_WEIGHT: f64 = 1.4e-9;
    pub const PER_MADE_WEIGHT: f64 = 3e-9;
    pub const PER_DRAW: f64 = 9e-8;
    /// Seconds for a way into a node that the k best paths are asked of, and for a position of one of them.
    pub const PER_WAY: f64 = 2e-8;
    pub const PER_RANKED: f64 = 2e-7;
}

/// Randomized.
pub(crate) mod randomized {
    /// Seconds for an entry of the transitions that is exponentiated and added up, single precision; double takes
    /// twice as long.
    pub const PER_ENTRY: f64 = 7.2e-10;
    /// Seconds more for an entry that stands alone in a table, and for one in a table that is larger than the
    /// cache.
    pub const PER_GATHERED: f64 = 9.5e-10;
    pub const PER_FAR_GATHERED: f64 = 3.5e-9;
    pub const CACHE: f64 = 16e6;
    /// Seconds to weigh a state and choose among all: as they are numbered, sorted, and sorted in bands.
    pub const PER_STATE: f64 = 2.4e-8;
    pub const PER_SORTED_STATE: f64 = 3.1e-8;
    pub const PER_BANDED_STATE: f64 = 7.4e-8;
    /// Seconds for a state of a segment that is weighed, and for one on the lattice of chosen states.
    pub const PER_SEGMENT: f64 = 7.8e-9;
    pub const PER_CHOSEN_SEGMENT: f64 = 2.5e-7;
    /// Seconds to start a product on the lattice of chosen states.
    pub const PER_STEP: f64 = 1.1e-5;
}

/// Belief propagation.
pub(crate) mod belief_propagation {
    /// Measured cost of an entry of a table for each variable that it has, and of a factor.
    pub const SECONDS_PER_ENTRY: f64 = 6e-9;
    pub const SECONDS_PER_FACTOR: f64 = 6e-8;
}

/// Tree reweighted.
pub(crate) mod tree_reweighted {
    /// Measured cost of an entry of a table for each variable that it has, and of a factor.
    pub const SECONDS_PER_ENTRY: f64 = 6e-9;
    pub const SECONDS_PER_FACTOR: f64 = 6e-8;
}

/// Pairwise.
pub(crate) mod pairwise {
    /// Seconds for a multiplication in a product, for an entry of a matrix that is made, and for a number of a
    /// message; see `lattice::cost`.
    pub const PER_PRODUCT: f64 = 2e-11;
    pub const PER_MADE: f64 = 5e-10;
    pub const PER_NUMBER: f64 = 5e-9;
    /// Seconds to weigh a state and choose among all.
    pub const PER_WEIGHED: f64 = 3e-8;
}

/// Mean field.
pub(crate) mod mean_field {
    /// Measured for each number that the model has: in a sweep, and in setting up.
    pub const SECONDS_PER_ENTRY: f64 = 1e-8;
    pub const SECONDS_TO_SET_UP: f64 = 1.5e-7;
}

/// Mini buckets.
pub(crate) mod mini_buckets {
    /// Measured seconds: an entry of a mini-bucket in both sweeps, where its bucket is whole and where it is cut;
    /// a mini-bucket.
    pub const PER_ENTRY: f64 = 1e-8;
    pub const PER_SPLIT_ENTRY: f64 = 2.2e-8;
    pub const PER_NODE: f64 = 4e-6;
}

/// Mini bucket sampling.
pub(crate) mod mini_bucket_sampling {
    /// Measured seconds a table looked up in a draw.
    pub const PER_TABLE: f64 = 1.2e-8;
    pub const PER_NODE: f64 = 4e-8;
}

/// Importance.
pub(crate) mod importance {
    /// Measured cost of reading one factor at a state, and of drawing one variable.
    pub const SECONDS_PER_FACTOR: f64 = 6e-9;
    pub const SECONDS_PER_VARIABLE: f64 = 4e-8;
}

/// Stratified quadrature.
pub(crate) mod stratified_quadrature {
    /// Measured seconds of a tuple, and of each clique of it.
    pub const PER_TUPLE: f64 = 1e-8;
    pub const PER_CLIQUE: f64 = 2e-8;
}

/// Published quadrature.
pub(crate) mod published_quadrature {
    /// Measured seconds of a sample, and of each index of it.
    pub const PER_SAMPLE: f64 = 2e-8;
    pub const PER_INDEX: f64 = 1.5e-8;
}

/// Quadrature.
pub(crate) mod quadrature {
    /// Measured seconds of drawing a variable, and of reading a table.
    pub const PER_VARIABLE: f64 = 1.5e-8;
    pub const PER_TABLE: f64 = 4e-9;
    pub const PER_ENTRY: f64 = 2e-8;
    pub const BYTES_PER_ENTRY: f64 = 48.0;
}

/// Space enumeration.
pub(crate) mod space_enumeration {
    /// Measured: one number of a structure, made and scored.
    pub const SECONDS_PER_NUMBER: f64 = 4e-9;
}

/// Oracle.
pub(crate) mod oracle {
    /// Measured: one term of a log-sum-exp, and one node or label of the closed forms.
    pub const SECONDS_PER_TERM: f64 = 1.2e-8;
    pub const SECONDS_PER_ELEMENT: f64 = 5e-8;
    /// One step of the best assignment, and one of the walk of an item through the insertions of Kendall's model.
    pub const SECONDS_PER_STEP: f64 = 2e-9;
}

/// Transfer matrix.
pub(crate) mod transfer_matrix {
    /// Seconds of one operation of a matrix product, of one entry's exponential and logarithm, and of one
    /// operation in logarithms.
    pub const OPERATION: f64 = 1.2e-10;
    pub const ENTRY: f64 = 8e-9;
    pub const LOGARITHMIC: f64 = 2.5e-9;
}
