//! Cost of products with a matrix: constants shared by the forecasts of lattices, and scratch memory.
//!
//! The constants are a least-squares fit of log ratios over a few hundred runs on one core of a server with
//! AVX-512. Other machines differ by a common factor, which matters little for the choice between methods.

use super::entries::{COLUMNS_FILLED, ROWS_FILLED};
use super::gradient;
use super::steps::scratch;
pub(crate) use crate::method::cost::lattice::{
    BYTES_PER_CALL, BYTES_PER_ROW, PER_CALL, PER_FRESH_BYTE, PER_PRODUCT,
};
use crate::model::Transitions;
use crate::numeric::{Real, packed_bytes, padded, strip};

/// Rows and columns of the log factors exponentiated at a time, and the numbers of a tile of their products
/// with its list of doubtful entries; see `entries`.
const FILLED: usize = ROWS_FILLED + COLUMNS_FILLED;
const ENTRIES: f64 = (4 * ROWS_FILLED * COLUMNS_FILLED) as f64;

/// Scratch memory, counted in numbers. The rows of several phases add up, because released blocks stay in the
/// pool. Tiles all have the same size and are reused.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Scratch {
    /// Rows of messages, rearranged for a product.
    pub rows: f64,
    /// Tiles, and the partial sums of the panels of a product.
    pub tiles: f64,
}

impl Scratch {
    /// The scratch of two successive phases.
    pub fn then(self, other: Scratch) -> Scratch {
        Scratch { rows: self.rows + other.rows, tiles: self.tiles.max(other.tiles) }
    }

    /// Total count of numbers.
    pub fn numbers(self) -> f64 {
        self.rows + self.tiles
    }
}

/// The matrices of a lattice, in the form that products use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matrices {
    /// Numbers of states before and after a boundary.
    pub before: usize,
    pub after: usize,
    /// D of factored transitions, or R of low-rank ones rounded up to whole strips; 0 for tables.
    pub rank: usize,
    /// The number of entries of a sparse table; `None` for other forms.
    pub sparse: Option<usize>,
    /// True if products go through factors of low rank.
    pub low_rank: bool,
    /// True if tiles are computed on demand.
    pub made: bool,
    /// True if both embeddings are the same, so that half of the tiles suffice.
    pub symmetric: bool,
    /// Columns per tile and per strip.
    width: usize,
    strip: usize,
}

impl Matrices {
    /// The matrices of all states.
    pub fn of<F: Real>(transitions: &Transitions<F>, states: usize) -> Self {
        let (rank, symmetric) = match transitions {
            Transitions::Factored { left, right } => (left.len() / states.max(1), right.is_none()),
            Transitions::LowRank { left, .. } => (padded::<F>(left.len() / states.max(1)), false),
            _ => (0, false),
        };
        Matrices {
            before: states,
            after: states,
            rank,
            sparse: match transitions {
                Transitions::Sparse { pattern, .. } => Some(pattern.len()),
                _ => None,
            },
            low_rank: matches!(transitions, Transitions::LowRank { .. }),
            made: !matches!(
                transitions,
                Transitions::Shared(_) | Transitions::Sparse { per_step: false, .. }
            ),
            symmetric,
            width: scratch::tile_columns::<F>(),
            strip: strip::<F>(),
        }
    }

    /// The matrices of the chosen states.
    pub fn restricted(self, before: usize, after: usize) -> Self {
        Matrices { before, after, made: true, symmetric: false, sparse: None, ..self }
    }

    fn panels(&self) -> usize {
        self.after.div_ceil(self.width).clamp(1, scratch::PANELS)
    }

    /// Columns of the tiles of one panel, rounded up to whole strips.
    fn tile(&self) -> usize {
        self.after.div_ceil(self.panels()).next_multiple_of(self.strip).min(self.width)
    }

    /// Total columns, rounded up to whole strips.
    fn columns(&self) -> f64 {
        (self.after + self.strip) as f64
    }

    /// The tiles of one thread, plus `more` tiles for the factors.
    fn tiles(&self, more: usize) -> f64 {
        let made = if self.made { 1 } else { 0 };
        let embeddings = self.rank * (self.tile() + self.strip + scratch::ROWS);
        // For tables, a last tile with a partial strip is first read into a spare tile.
        let spare = if self.made && self.rank == 0 { 1 } else { 0 };
        ((made + spare + more) * scratch::ROWS * self.tile() + embeddings) as f64
    }

    /// Size of the matrix if it is stored, or of its factors.
    pub fn stored(&self) -> f64 {
        if self.low_rank {
            return ((self.before + self.after) * self.rank) as f64;
        }
        if let Some(entries) = self.sparse {
            return if self.made { 0.0 } else { 2.0 * entries as f64 };
        }
        // One extra row per tile keeps strips apart in memory.
        let rows = self.before + self.before.div_ceil(scratch::ROWS);
        if self.made { 0.0 } else { rows as f64 * self.columns() }
    }

    /// Scratch for a product of `down` messages with M and of `across` messages with Mᵀ; with `directed`, of
    /// products with M∘D.
    pub fn product(&self, down: usize, across: usize, directed: bool) -> Scratch {
        if self.low_rank && !directed {
            return self.passes(down + across);
        }
        if let Some(entries) = self.sparse {
            return self.sparse_scratch(entries, directed);
        }
        let both = self.symmetric && !directed;
        let (down, across) = if both { (down + across, down + across) } else { (down, across) };
        let (before, panels) = (self.before as f64, self.panels());
        let whole = if down > 2 { down.next_multiple_of(if down > 4 { 8 } else { 4 }) } else { down } as f64;
        let copies = if both { 3.0 * down as f64 * before } else { 0.0 };
        let length = scratch::wave_length(panels, across).min(self.before);
        Scratch {
            rows: whole * (before + self.columns()) + across as f64 * self.columns() + copies,
            tiles: (panels * length * across) as f64
                + panels as f64 * self.tiles(if directed { 2 } else { 0 }),
        }
    }

    /// Scratch for the derivative of the transitions from `count` pairs of rows at a time in `threads`
    /// threads, including the pairs themselves.
    pub fn gradient(&self, count: usize, threads: usize) -> Scratch {
        let pairs = count as f64 * (self.before as f64 + self.columns());
        if self.low_rank {
            let passes = self.passes(2 * count);
            let packed = threads * scratch::ROWS * (count + self.rank);
            return Scratch { rows: pairs + passes.rows, tiles: passes.tiles + packed as f64 };
        }
        if let Some(entries) = self.sparse {
            // The rows of a group side by side, or the sums of all entries, in parts.
            let numbers = if scratch::together(count) { scratch::SPARSE_GROUP * self.after } else { entries };
            let rows = pairs + numbers as f64;
            return Scratch { rows, tiles: 0.0 }.then(self.sparse_scratch(entries, false));
        }
        self.tiled_gradient(pairs, count, threads)
    }

    /// Scratch for the matrix of one step, by rows and by columns; with `directed`, also for M∘D.
    fn sparse_scratch(&self, entries: usize, directed: bool) -> Scratch {
        let made = if self.made { 2 } else { 0 };
        let more = if directed { 2 } else { 0 };
        Scratch { rows: ((made + more) * entries) as f64, tiles: 0.0 }
    }

    /// The same if the derivative has a direction.
    pub fn directed_gradient(&self, count: usize, threads: usize) -> Scratch {
        if let Some(entries) = self.sparse {
            return self.gradient(count, threads).then(self.sparse_scratch(entries, true));
        }
        if !self.low_rank {
            return self.gradient(count, threads);
        }
        let pairs = count as f64 * (self.before as f64 + self.columns());
        // Sums for each factor, before they are weighted.
        self.tiled_gradient(pairs + self.stored(), count, threads)
    }

    /// Scratch for passes over the factors with `count` messages: sums of each block of rows, tiles of
    /// messages and products.
    fn passes(&self, count: usize) -> Scratch {
        let whole = count.next_multiple_of(8);
        let blocks = self.before.max(self.after).div_ceil(scratch::BLOCK) + 3;
        let tiles = scratch::PANELS * scratch::ROWS * (8 + count);
        Scratch { rows: (whole * self.rank * blocks) as f64, tiles: tiles as f64 }
    }

    /// Scratch of one thread for computing some log-transitions.
    pub fn entries(&self) -> f64 {
        if self.low_rank { ENTRIES + (2 * FILLED * self.rank) as f64 } else { 0.0 }
    }

    /// Bytes that a thread keeps for the products of embeddings or factors that give log-transitions.
    pub fn packed_bytes(&self) -> f64 {
        if self.rank > 0 { packed_bytes() as f64 } else { 0.0 }
    }

    fn tiled_gradient(&self, pairs: f64, count: usize, threads: usize) -> Scratch {
        if self.rank == 0 {
            let group = scratch::group_of(self.before).min(self.before);
            let each = (count * (group + self.tile())) as f64 + self.tiles(1);
            return Scratch { rows: pairs, tiles: threads as f64 * each };
        }
        let total = if self.symmetric { 2 * count } else { count };
        let panels = self.panels();
        let length = scratch::wave_length(panels, self.rank).min(self.before);
        let parts = (length * (total + panels * self.rank)) as f64;
        Scratch {
            rows: pairs + self.rank as f64 * self.columns(),
            tiles: parts + panels as f64 * ((total * self.tile()) as f64 + self.tiles(1)),
        }
    }

    /// How many of `pairs` pairs are gathered at a time for products.
    pub fn gathered(&self, pairs: usize) -> usize {
        pairs.min(gradient::gathered(self.before.max(self.after)))
    }

    /// Numbers of the second pair of rows that covariances gather, beyond those of the gradient itself.
    pub fn extra_pairs(&self, pairs: f64) -> f64 {
        if !self.low_rank {
            return 0.0;
        }
        self.gathered(pairs as usize) as f64 * (self.before as f64 + self.columns())
    }

    /// How many of `pairs` pairs are gathered at a time for the gradient.
    pub fn gathered_edges(&self, pairs: usize) -> usize {
        pairs.min(gradient::gathered_edges(self.before.max(self.after), self.low_rank, self.sparse.is_some()))
    }
}
