//! Memory forecasts of the queries: messages, results, the matrix if it is stored, and scratch for products.

use super::forecast::Cost;
use crate::method::dynamic::lattice::{BLOCK, BYTES_PER_CALL, BYTES_PER_ROW, Scratch, expectation_window};
use crate::query::Query;

/// Rows per window in products with ln M; see `lattice::direction`.
const WINDOW_ROWS: f64 = 128.0;
/// States per task of a maximisation, times rows per tile; see `lattice::best`.
const MAXIMUM_TILE: f64 = (512 * 32) as f64;

impl Cost {
    /// Size of one layer (one position) of the whole batch.
    fn layer(&self) -> f64 {
        self.batch * self.states
    }

    /// Size of the messages that are kept, with `rows` numbers per position and state.
    fn kept(&self, rows: f64) -> f64 {
        if self.checkpoint {
            (rows + 2.0) * self.layer() * (self.window() + 2.0)
        } else {
            rows * self.nodes()
        }
    }

    /// Positions of a window, plus the positions that segments of the window reach beyond it.
    fn window(&self) -> f64 {
        let longest = self.longest.clamp(0.0, self.steps);
        (self.steps * longest.max(1.0)).sqrt().ceil() + longest
    }

    /// Size of the matrix and its shifts, plus scratch for computing the shifts.
    fn tables(&self) -> f64 {
        let tables = match (self.shared, self.separate) {
            (true, _) => 1.0,
            (false, false) => self.boundaries(),
            (false, true) => self.boundaries() * self.batch,
        };
        self.matrices.stored() + (3.0 * tables + 20.0 * self.threads) * self.states
    }

    /// Scratch for the product of `down` messages per sequence with M and `across` messages per sequence with
    /// Mᵀ.
    fn product(&self, down: f64, across: f64) -> Scratch {
        self.matrices.product((down * self.batch) as usize, (across * self.batch) as usize, false)
    }

    /// Scratch for the gradient with respect to the transitions.
    fn gradient(&self) -> Scratch {
        let pairs = match (self.shared, self.checkpoint) {
            (false, _) => self.batch,
            (true, true) => self.batch * self.window(),
            (true, false) => self.pairs(),
        };
        self.matrices.gradient(self.matrices.gathered_edges(pairs as usize), self.threads as usize)
    }

    /// The same for a gradient with a direction.
    fn directed_gradient(&self) -> Scratch {
        let pairs = if self.shared { self.pairs() } else { self.batch };
        let count = self.matrices.gathered(pairs as usize);
        self.matrices.directed_gradient(count, self.threads as usize).then(self.entries())
    }

    /// Scratch for log-transitions that are computed on demand.
    fn entries(&self) -> Scratch {
        Scratch { rows: self.threads * self.matrices.entries(), tiles: 0.0 }
    }

    /// Scratch for products of the rows of `layers` layers with M∘D: copied, multiplied, copied back.
    fn directed(&self, layers: f64) -> Scratch {
        let pairs = if self.shared { layers * self.batch } else { self.batch };
        let count = self.matrices.gathered(pairs as usize);
        let copies = Scratch { rows: 2.0 * count as f64 * self.states, tiles: 0.0 };
        copies
            .then(self.matrices.product(count, 0, true))
            .then(self.matrices.product(0, count, true))
            .then(self.entries())
    }

    /// Additional bytes for segments: terms for each thread, and marginals of all sequences in double
    /// precision.
    fn segment_bytes(&self, marginals: bool) -> f64 {
        if self.longest == 0.0 {
            return 0.0;
        }
        let terms = self.threads * self.states * (4.0 * self.longest + 4.0);
        let places = self.segment_parameters > self.longest * self.states;
        let segments = if places { self.nodes() } else { self.layer() } * self.longest;
        8.0 * (terms + if marginals { self.nodes() + self.layer() + segments } else { 0.0 })
    }

    fn total(&self, numbers: f64, scratch: Scratch, other: f64) -> f64 {
        // Several sequences are processed at the same time if each is a model of its own.
        let together = if self.separate { self.threads.min(self.batch) } else { 1.0 };
        let scratch = together * scratch.numbers();
        let numbers = numbers + scratch + self.tables() + 4.0 * self.threads * self.states;
        let bytes = self.size * numbers + other + BYTES_PER_ROW * (self.rows + self.steps + self.batch);
        bytes + (BYTES_PER_CALL + self.matrices.packed_bytes()) * self.threads
    }

    /// Memory of a value and its gradient for `models` models, with `rows` numbers kept per position and
    /// state.
    pub fn gradient_bytes(&self, rows: f64, models: f64) -> f64 {
        let segments = if self.longest > 0.0 { 2.0 } else { 1.0 };
        let outputs = models * self.outputs(Query::FactorMarginals);
        let more = (models - 1.0) * self.tables();
        let sweep = Scratch { rows: 6.0 * self.layer(), tiles: 0.0 }.then(self.product(2.0, 2.0));
        let mut scratch = sweep.then(self.gradient());
        if rows > 2.0 {
            scratch = scratch.then(self.directed_gradient()).then(self.directed(self.steps));
            // Rows with and without the gains of a direction are gathered.
            scratch = scratch.then(Scratch { rows: self.matrices.extra_pairs(self.pairs()), tiles: 0.0 });
        }
        let numbers = segments * self.kept(rows) + outputs + more;
        let bytes = self.total(numbers, scratch, self.segment_bytes(true));
        bytes.max(self.total(outputs + self.narrow, Scratch::default(), 0.0))
    }

    /// Peak memory of a query.
    pub fn bytes(&self, query: Query) -> f64 {
        let general = self.general_bytes(query);
        match query {
            // Sweeps over few states keep padded rows.
            Query::Marginals | Query::FactorMarginals if self.narrow > 0.0 => {
                general.max(self.total(self.outputs(query) + self.narrow, Scratch::default(), 0.0))
            }
            _ => general,
        }
    }

    /// The same for messages in the log domain, and for all other models.
    fn general_bytes(&self, query: Query) -> f64 {
        let (layer, outputs, segments) = (self.layer(), self.outputs(query), self.longest > 0.0);
        let buffers = |layers: f64| Scratch { rows: layers * layer, tiles: 0.0 };
        // Segments need two sets of messages: into a position and out of it.
        let both = if segments { 2.0 } else { 1.0 } * self.kept(2.0);
        let window = 4.0 * layer * (self.window() + 2.0);
        match query {
            Query::LogPartition if segments => {
                let scratch = buffers(5.0).then(self.product(1.0, 1.0));
                self.total(window, scratch, self.segment_bytes(false))
            }
            Query::LogPartition => self.total(0.0, buffers(7.0).then(self.product(1.0, 0.0)), 0.0),
            Query::Marginals => {
                let scratch = buffers(5.0).then(self.product(1.0, 1.0));
                self.total(outputs + both, scratch, self.segment_bytes(true))
            }
            Query::FactorMarginals => {
                let scratch = buffers(5.0).then(self.product(1.0, 1.0)).then(self.gradient());
                self.total(outputs + both, scratch, self.segment_bytes(true))
            }
            Query::Entropy if segments => {
                // A window has at least the number of rows required by a product with ln M.
                let rows = (WINDOW_ROWS / self.batch.max(1.0) + self.longest).max(self.window());
                let scratch = buffers(7.0).then(self.product(2.0, 2.0)).then(self.directed(rows));
                self.total(8.0 * layer * (rows + 2.0) + window, scratch, self.segment_bytes(false))
            }
            Query::Entropy => {
                let window = expectation_window(self.batch as usize, self.steps as usize, 1) as f64;
                // A shorter last window does not fit into the allocation of the earlier ones.
                let windows = if window < self.steps { 1.5 } else { 1.0 };
                let rows = 2.0 * windows * layer * (window + 1.0).min(self.steps) + 2.0 * layer;
                let scratch = buffers(7.0).then(self.product(2.0, 0.0)).then(self.directed(window));
                self.total(rows, scratch, 0.0)
            }
            Query::Map | Query::KBest(_) => {
                let rows = if segments { 2.0 } else { 1.0 } * self.nodes() + 4.0 * layer;
                let ways = match query {
                    // Alternatives of the nodes that are visited: at most k for each of k·T nodes, and all of
                    // them for the node being processed, before they are selected.
                    Query::KBest(k) => {
                        let asked = k as f64 * self.steps * self.batch;
                        48.0 * (k as f64).min(self.states) * asked + 96.0 * self.threads * self.states
                    }
                    _ => 0.0,
                };
                let paths = 16.0 * self.rows;
                let tiles = Scratch { rows: self.threads * MAXIMUM_TILE, tiles: 0.0 };
                self.total(rows, tiles.then(self.entries()), ways + paths + self.segment_bytes(false))
            }
            Query::Sample(count) => {
                let (rows, product) = if segments {
                    (both, self.product(1.0, 1.0))
                } else {
                    (self.nodes(), self.product(0.0, 1.0))
                };
                // The vector of a segmentation grows as it is drawn. The vector of a path is allocated at
                // full length.
                let each = if segments {
                    16.0 * (self.steps as usize).next_power_of_two() as f64
                } else {
                    8.0 * self.rows / self.batch.max(1.0)
                };
                // Results are copied once into one list per sequence.
                let listed = if segments { 16.0 } else { 8.0 };
                let drawn = (self.threads * BLOCK as f64).min(count as f64);
                let copies = self.steps * (count as f64 * listed + 16.0 * drawn);
                let paths = self.batch * count as f64 * (each + 96.0) + copies;
                let laws = 8.0 * self.threads * self.states * 4.0;
                self.total(rows, buffers(5.0).then(product), paths + laws + self.segment_bytes(false))
            }
        }
    }
}
