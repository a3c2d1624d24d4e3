//! Measured costs of elementary steps, on which the forecasts of all methods are based.
//!
//! Seconds are for one core; bytes are the memory that a step holds. All values were measured on one machine
//! (an x86-64 server with AVX-512, release profile) by fitting the times of each method's queries on models
//! of increasing size. `tests/library/sequence_forecasts.rs` and `tests/memory.rs` compare forecasts with the
//! actual cost of queries. On other machines the values are off by a factor that is about the same for all
//! methods, which is accurate enough for choosing between methods. Time budgets are enforced by the clock,
//! not by these values.

/// Elimination.
pub(crate) mod elimination {
    /// Bytes per variable for lists and small allocations.
    pub const OVERHEAD: f64 = 300.0;
    /// Measured seconds, in the order of the constants: per clique entry in a forward sweep; per clique entry
    /// in both sweeps; per clique entry summed to the marginal of a child; extra per entry read from a large
    /// table; per number in memory touched for the first time; fixed cost per table, per variable and per
    /// query.
    pub const PER_ENTRY: f64 = 2.3e-9;
    pub const PER_ENTRY_BOTH_WAYS: f64 = 3.8e-9;
    pub const PER_SUM: f64 = 1.2e-9;
    pub const PER_READ: f64 = 0.25e-9;
    pub const PER_FRESH: f64 = 1.7e-9;
    pub const PER_TABLE: f64 = 0.7e-6;
    pub const PER_VARIABLE: f64 = 0.3e-6;
    pub const AT_LEAST: f64 = 1.5e-4;
    /// The time for large tables falls as this power of the number of threads.
    pub const THREADS: f64 = 0.5;
}

/// Enumeration.
pub(crate) mod enumeration {
    /// Measured seconds per state, and per factor evaluated at a state, for both walks together.
    pub const SECONDS_PER_STATE: f64 = 1.2e-8;
    /// Setup time in seconds.
    pub const AT_LEAST: f64 = 4e-4;
}

/// Search.
pub(crate) mod search {
    /// Measured seconds per step; a step is one clause, variable or entry visited.
    pub const SECONDS_PER_STEP: f64 = 4e-8;
    /// Used without a trial run: setup time, and seconds for each entry that elimination would visit.
    pub const AT_LEAST: f64 = 4e-4;
    pub const SECONDS_PER_ENTRY: f64 = 1e-5;
}

/// Lattice.
pub(crate) mod lattice {
    /// Seconds per multiply-add in a matrix product in single precision; double precision takes twice as
    /// long.
    pub const PER_PRODUCT: f64 = 1.3e-11;
    /// Seconds to write one byte of newly allocated memory: results, and scratch that is not kept between
    /// queries.
    pub const PER_FRESH_BYTE: f64 = 6e-10;
    /// Startup time in seconds: threads, allocations, offset tables.
    pub const PER_CALL: f64 = 2e-5;
    /// Memory of a query besides the arrays of size N: scales and norms of each row, offsets, boxes.
    pub const BYTES_PER_ROW: f64 = 96.0;
    pub const BYTES_PER_CALL: f64 = (96 << 10) as f64;
}

/// Forward backward.
pub(crate) mod forward_backward {
    /// Seconds to read one byte of a matrix from memory, and from the cache for the part that fits there.
    pub const PER_BYTE: f64 = 5.5e-11;
    pub const PER_CACHED_BYTE: f64 = 3e-11;
    pub const CACHE: f64 = 16e6;
    /// Seconds per matrix entry that is read or computed as a product, then exponentiated, in single
    /// precision.
    pub const PER_MADE: f64 = 4.6e-10;
    /// Seconds per number of a message (copy, scale, `exp` or `ln`), in single precision.
    pub const PER_NUMBER: f64 = 1.3e-9;
    /// Seconds per state of a segment; always in double precision.
    pub const PER_SEGMENT: f64 = 3e-9;
    /// Seconds per entry in a maximisation over paths.
    pub const PER_COMPARISON: f64 = 1e-10;
    /// Seconds per entry of a distribution that is sampled from, per such entry if it is a product of
    /// embeddings, and per draw.
    pub const PER_WEIGHT: f64 = 1.4e-9;
    pub const PER_MADE_WEIGHT: f64 = 3e-9;
    pub const PER_DRAW: f64 = 9e-8;
    /// Seconds per edge into a node visited by the search for the k best paths, and per position of each path
    /// found.
    pub const PER_WAY: f64 = 2e-8;
    pub const PER_RANKED: f64 = 2e-7;
    /// Seconds per entry of a sparse table in a product, and per entry of the product of M with a direction.
    pub const PER_SPARSE: f64 = 1.2e-9;
    pub const PER_DIRECTED: f64 = 4e-8;
}

/// Randomized.
pub(crate) mod randomized {
    /// Seconds per transition that is exponentiated and summed in single precision; double precision takes
    /// twice as long.
    pub const PER_ENTRY: f64 = 7.2e-10;
    /// Extra seconds per entry that is gathered individually from a table, and per such entry if the table is
    /// larger than the cache.
    pub const PER_GATHERED: f64 = 9.5e-10;
    pub const PER_FAR_GATHERED: f64 = 3.5e-9;
    pub const CACHE: f64 = 16e6;
    /// Seconds per state to compute its weight and choose among all states: in their given order, sorted, and
    /// sorted in bands.
    pub const PER_STATE: f64 = 2.4e-8;
    pub const PER_SORTED_STATE: f64 = 3.1e-8;
    pub const PER_BANDED_STATE: f64 = 7.4e-8;
    /// Seconds per state of a segment whose weight is computed, and per state of a segment on the lattice of
    /// chosen states.
    pub const PER_SEGMENT: f64 = 7.8e-9;
    pub const PER_CHOSEN_SEGMENT: f64 = 2.5e-7;
    /// Seconds to start a product on the lattice of chosen states.
    pub const PER_STEP: f64 = 1.1e-5;
}

/// Belief propagation.
pub(crate) mod belief_propagation {
    /// Measured seconds per table entry and variable of its scope, and per factor.
    pub const SECONDS_PER_ENTRY: f64 = 6e-9;
    pub const SECONDS_PER_FACTOR: f64 = 6e-8;
}

/// Tree reweighted.
pub(crate) mod tree_reweighted {
    /// Measured seconds per table entry and variable of its scope, and per factor.
    pub const SECONDS_PER_ENTRY: f64 = 6e-9;
    pub const SECONDS_PER_FACTOR: f64 = 6e-8;
}

/// Pairwise.
pub(crate) mod pairwise {
    /// Seconds per multiply-add in a matrix product, per matrix entry that is computed, and per number of a
    /// message; see `lattice::cost`.
    pub const PER_PRODUCT: f64 = 2e-11;
    pub const PER_MADE: f64 = 5e-10;
    pub const PER_NUMBER: f64 = 5e-9;
    /// Seconds per state to compute its weight and choose among all states.
    pub const PER_WEIGHED: f64 = 3e-8;
}

/// Mean field.
pub(crate) mod mean_field {
    /// Measured seconds per number of the model, in a sweep and in setup.
    pub const SECONDS_PER_ENTRY: f64 = 1e-8;
    pub const SECONDS_TO_SET_UP: f64 = 1.5e-7;
}

/// Mini buckets.
pub(crate) mod mini_buckets {
    /// Measured seconds in both sweeps: per entry of a mini-bucket whose bucket is whole; per entry where the
    /// bucket is split; per mini-bucket.
    pub const PER_ENTRY: f64 = 1e-8;
    pub const PER_SPLIT_ENTRY: f64 = 2.2e-8;
    pub const PER_NODE: f64 = 4e-6;
}

/// Mini bucket sampling.
pub(crate) mod mini_bucket_sampling {
    /// Measured seconds per table lookup in a draw, and per mini-bucket.
    pub const PER_TABLE: f64 = 1.2e-8;
    pub const PER_NODE: f64 = 4e-8;
}

/// Importance.
pub(crate) mod importance {
    /// Measured seconds to read one factor at a state, and to draw one variable.
    pub const SECONDS_PER_FACTOR: f64 = 6e-9;
    pub const SECONDS_PER_VARIABLE: f64 = 4e-8;
}

/// Gibbs sampling.
pub(crate) mod gibbs {
    /// Measured seconds to read one entry of a table, and to draw one variable.
    pub const SECONDS_PER_ENTRY: f64 = 1e-9;
    pub const SECONDS_PER_VARIABLE: f64 = 1e-8;
}

/// Stratified quadrature.
pub(crate) mod stratified_quadrature {
    /// Measured seconds per tuple, and per clique of a tuple.
    pub const PER_TUPLE: f64 = 1e-8;
    pub const PER_CLIQUE: f64 = 2e-8;
}

/// Published quadrature.
pub(crate) mod published_quadrature {
    /// Measured seconds per sample, and per index of a sample.
    pub const PER_SAMPLE: f64 = 2e-8;
    pub const PER_INDEX: f64 = 1.5e-8;
}

/// Quadrature.
pub(crate) mod quadrature {
    /// Measured seconds to draw one variable, and to read one table.
    pub const PER_VARIABLE: f64 = 1.5e-8;
    pub const PER_TABLE: f64 = 4e-9;
    pub const PER_ENTRY: f64 = 2e-8;
    pub const BYTES_PER_ENTRY: f64 = 48.0;
}

/// Space enumeration.
pub(crate) mod space_enumeration {
    /// Measured seconds to generate and score one number of a structure.
    pub const SECONDS_PER_NUMBER: f64 = 4e-9;
}

/// Oracle.
pub(crate) mod oracle {
    /// Measured seconds per term of a log-sum-exp, and per node or label in the closed forms.
    pub const SECONDS_PER_TERM: f64 = 1.2e-8;
    pub const SECONDS_PER_ELEMENT: f64 = 5e-8;
    /// Seconds per step of the best assignment, and per step of an item through the insertions of Kendall's
    /// model.
    pub const SECONDS_PER_STEP: f64 = 2e-9;
}

/// Transfer matrix.
pub(crate) mod transfer_matrix {
    /// Seconds per operation of a matrix product, per entry exponentiated and logarithm taken, and per
    /// operation in the log domain.
    pub const OPERATION: f64 = 1.2e-10;
    pub const ENTRY: f64 = 8e-9;
    pub const LOGARITHMIC: f64 = 2.5e-9;
}

/// Dependency trees.
pub(crate) mod spanning_trees {
    /// Seconds per T³ of a group of sentences in Eisner's algorithm, divided by the sentences in a group; per
    /// T³ of an elimination; per T² of a contraction of cycles.
    pub const PER_SPLIT: f64 = 1.5e-10;
    pub const PER_ELIMINATION: f64 = 2.5e-10;
    pub const PER_CONTRACTION: f64 = 1e-8;
    /// Seconds per step of a random walk, per score, and per query.
    pub const PER_STEP: f64 = 1e-8;
    pub const PER_ARC: f64 = 1e-8;
    pub const PER_CALL: f64 = 2e-5;
    /// Seconds per T² and kept head of a word, and per possible head in the choice of heads.
    pub const PER_KEPT: f64 = 2e-9;
    pub const PER_CHOICE: f64 = 4e-8;
}

/// Trees over words.
pub(crate) mod inside_outside {
    /// Seconds per multiplication of a matrix product in double precision, of one with maxima and of one with
    /// derivatives.
    pub const PER_PRODUCT: f64 = 5e-11;
    pub const PER_MAXIMUM: f64 = 1e-9;
    pub const PER_DUAL: f64 = 2e-10;
    /// Seconds per term of other sums, of sums over listed rules, and of maxima over listed rules.
    pub const PER_TERM: f64 = 3e-10;
    pub const PER_LISTED: f64 = 2e-9;
    pub const PER_LISTED_MAXIMUM: f64 = 7e-10;
    /// Seconds per factor of a chosen symbol, and per symbol in the choice of symbols.
    pub const PER_FACTOR: f64 = 2e-10;
    pub const PER_PROPOSAL: f64 = 2e-8;
    /// Seconds per weight, and per sentence.
    pub const PER_EXP: f64 = 3e-9;
    pub const PER_CALL: f64 = 3e-5;
}
