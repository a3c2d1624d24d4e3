//! Sources of the tiles of a scaled matrix.

use std::borrow::Cow;
use std::ops::Range;

use super::View;
use super::shifts::Shifts;
use crate::numeric::parallel::prelude::*;
use crate::numeric::{Aligned, Forward, Real, padded, strip};
use crate::run::Clock;

/// Maximum number of rows of a tile.
pub(in crate::method::dynamic::lattice) const ROWS: usize = 64;

/// Maximum number of columns of a tile. A tile of `f32` takes 128 KiB, which fits into the L2 cache.
pub(in crate::method::dynamic::lattice) const fn tile_columns<F>() -> usize {
    2048 / size_of::<F>()
}

/// Maximum number of panels of columns, the units of parallel work.
pub(in crate::method::dynamic::lattice) const PANELS: usize = 64;

/// Splits the columns into panels of whole strips. The split depends only on the number of columns. A panel
/// is at most one tile wide if `PANELS` allows it.
pub(super) fn panels<F>(columns: usize) -> impl Iterator<Item = Range<usize>> + Clone {
    let width = panel_width::<F>(columns);
    (0..columns.div_ceil(width)).map(move |p| p * width..columns.min((p + 1) * width))
}

fn panel_width<F>(columns: usize) -> usize {
    let count = columns.div_ceil(tile_columns::<F>()).clamp(1, PANELS);
    padded::<F>(columns.div_ceil(count)).max(1)
}

/// Splits a range into pieces of `length`.
pub(super) fn pieces(range: Range<usize>, length: usize) -> impl Iterator<Item = Range<usize>> {
    range.clone().step_by(length).map(move |start| start..range.end.min(start + length))
}

/// Working memory of a thread for computing tiles.
#[derive(Default)]
pub(super) struct Scratch<F> {
    /// ROWS rows.
    tile: Aligned<F>,
    /// Data that does not have the shape of the tile, before it is copied there.
    spare: Aligned<F>,
    /// The right embeddings of the entered columns, D × columns.
    columns: Aligned<F>,
    /// The first entered column, and the stride.
    entered: (usize, usize),
    /// The left embeddings in blocks of eight rows, D × 8.
    rows: Aligned<F>,
}

impl<F: Real> Scratch<F> {
    /// The right embeddings from `column` on, rank × columns, and their stride.
    pub fn entered(&self, column: usize) -> (&[F], usize) {
        let (first, stride) = self.entered;
        (self.columns.get(column - first..).unwrap_or_default(), stride)
    }
}

/// M on some rows and columns. Row i starts at i·stride, and its strip s starts s·strips after that. The
/// columns are padded with zeros to a whole strip.
#[derive(Clone, Copy)]
pub(super) struct Tile<'a, F> {
    pub data: &'a [F],
    pub stride: usize,
    pub strips: usize,
    /// The memory of the next tile in the same panel, if there is one.
    pub next: &'a [F],
}

impl<'a, F: Real> Tile<'a, F> {
    /// A row-major tile.
    pub fn of_rows(data: &'a [F], stride: usize) -> Self {
        Tile { data, stride, strips: strip::<F>(), next: &[] }
    }

    /// outⱼ ← M(i, j)·dⱼ, and 0 where M is 0.
    pub fn weigh_row(&self, i: usize, out: &mut [F], direction: &[F]) {
        if self.strips == strip::<F>() {
            return F::weigh(out, &self.data[i * self.stride..][..out.len()], direction);
        }
        let strips = out.chunks_mut(strip::<F>()).zip(direction.chunks(strip::<F>())).enumerate();
        for (s, (out, direction)) in strips {
            F::weigh(out, &self.data[i * self.stride + s * self.strips..][..out.len()], direction);
        }
    }
}

/// A matrix that provides tiles.
pub(super) trait Tiles<F: Real>: Sync {
    /// Rows and columns.
    fn shape(&self) -> (usize, usize);

    /// True if M equals its transpose bit by bit and tiles are so expensive that each should be used twice.
    fn symmetric(&self) -> bool {
        false
    }

    /// The left embeddings and their rank, for a factored matrix.
    fn left(&self) -> Option<(&[F], usize)> {
        None
    }

    /// Cost of computing one entry, in multiply-adds.
    fn cost(&self) -> usize;

    /// Announces the columns of the next tiles: at most one tile wide, within one panel, starting at a whole
    /// strip.
    fn enter(&self, _columns: Range<usize>, _scratch: &mut Scratch<F>) {}

    /// The tile of at most `ROWS` rows with some of the entered columns, starting at a whole strip.
    fn tile<'s>(
        &'s self,
        rows: Range<usize>,
        columns: Range<usize>,
        scratch: &'s mut Scratch<F>,
    ) -> Tile<'s, F>;
}

/// A matrix in memory: panel by panel, within a panel in groups of `ROWS` rows, and within those strip by
/// strip. A product therefore reads it sequentially. Strips are padded by one row, because otherwise their
/// rows would map to the same cache sets.
pub(super) struct Stored<F> {
    states: usize,
    data: Aligned<F>,
}

/// The distance between two consecutive strips of `rows` rows.
const fn strip_stride<F>(rows: usize) -> usize {
    (rows + 1) * strip::<F>()
}

impl<F: Real> Stored<F> {
    /// If the clock signals a stop, the result is invalid.
    pub fn new(table: &[F], states: usize, shifts: &Shifts<F>, clock: &Clock<'_>) -> Self {
        let strip = strip::<F>();
        let mut data = Aligned::<F>::unset(Stored::<F>::start(states, states.next_multiple_of(strip)));
        let mut rest = &mut data[..];
        let mut shares = Vec::new();
        for panel in panels::<F>(states) {
            for rows in pieces(0..states, ROWS) {
                let len = panel.len().div_ceil(strip) * strip_stride::<F>(rows.len());
                let (share, behind) = rest.split_at_mut(len);
                shares.push((panel.clone(), rows, share));
                rest = behind;
            }
        }
        let fill = |(panel, rows, share): (Range<usize>, Range<usize>, &mut [F])| {
            if clock.must_stop() {
                return;
            }
            let (apart, columns) = (strip_stride::<F>(rows.len()), &shifts.columns[panel.clone()]);
            for (k, i) in rows.enumerate() {
                let values = &table[i * states..][panel.clone()];
                F::exp_shifted_strips(&mut share[k * strip..], apart, strip, values, shifts.rows[i], columns);
                let (strips, left_over) = (values.len() / strip, values.len() % strip);
                if left_over > 0 {
                    share[strips * apart + k * strip..][left_over..strip].fill(F::ZERO);
                }
            }
        };
        if states >= 512 {
            shares.into_par_iter().for_each(fill);
        } else {
            shares.into_iter().for_each(fill);
        }
        Stored { states, data }
    }

    /// The offset of the panel that starts at a column.
    fn start(states: usize, column: usize) -> usize {
        column / strip::<F>() * (states + states.div_ceil(ROWS)) * strip::<F>()
    }
}

impl<F: Real> Tiles<F> for Stored<F> {
    fn shape(&self) -> (usize, usize) {
        (self.states, self.states)
    }

    fn cost(&self) -> usize {
        1
    }

    fn tile<'s>(&'s self, rows: Range<usize>, columns: Range<usize>, _: &'s mut Scratch<F>) -> Tile<'s, F> {
        let (states, strip) = (self.states, strip::<F>());
        let width = panel_width::<F>(states);
        let first = columns.start / width * width;
        let strips_of_panel = width.min(states - first).div_ceil(strip);
        let apart = strip_stride::<F>(rows.len());
        let within = rows.start / ROWS * strips_of_panel * strip_stride::<F>(ROWS);
        let block = Stored::<F>::start(states, first) + within;
        let start = block + (columns.start - first) / strip * apart;
        let next = self.data.get(start + columns.len().div_ceil(strip) * apart..).unwrap_or_default();
        Tile { data: &self.data[start..], stride: strip, strips: apart, next }
    }
}

/// A matrix that is read from the model and exponentiated.
pub(super) struct Filled<'a, F: Real> {
    pub view: View<'a, F>,
    pub shifts: &'a Shifts<F>,
}

impl<F: Real> Tiles<F> for Filled<'_, F> {
    fn shape(&self) -> (usize, usize) {
        self.view.shape()
    }

    fn cost(&self) -> usize {
        16
    }

    fn tile<'s>(
        &'s self,
        rows: Range<usize>,
        columns: Range<usize>,
        scratch: &'s mut Scratch<F>,
    ) -> Tile<'s, F> {
        let (width, stride) = (columns.len(), padded::<F>(columns.len()));
        let tile = scratch.tile.room(rows.len() * stride);
        if width == stride {
            self.view.fill(rows.clone(), columns.clone(), tile);
        } else {
            let narrow = scratch.spare.room(rows.len() * width);
            self.view.fill(rows.clone(), columns.clone(), narrow);
            for (wide, narrow) in tile.chunks_exact_mut(stride).zip(narrow.chunks_exact(width)) {
                wide[..width].copy_from_slice(narrow);
                wide[width..].fill(F::ZERO);
            }
        }
        for (row, &shift) in tile.chunks_exact_mut(stride).zip(&self.shifts.rows[rows]) {
            F::exp_shifted(&mut row[..width], shift, &self.shifts.columns[columns.clone()]);
        }
        Tile::of_rows(tile, stride)
    }
}

/// A matrix of products of embeddings, exponentiated if there are shifts.
pub(super) struct Factored<'a, F: Real> {
    left: Cow<'a, [F]>,
    right: Cow<'a, [F]>,
    rank: usize,
    shape: (usize, usize),
    symmetric: bool,
    shifts: Option<&'a Shifts<F>>,
}

impl<'a, F: Real> Factored<'a, F> {
    pub fn new(view: View<'a, F>, shifts: Option<&'a Shifts<F>>) -> Self {
        let (left, right) = view.embeddings().unwrap_or_default();
        let rank = left.len() / view.entries.states;
        let chosen = |values: &'a [F], set: Option<&[u32]>| match set {
            None => Cow::Borrowed(values),
            Some(set) => {
                let rows = set.iter().map(|&k| &values[k as usize * rank..(k as usize + 1) * rank]);
                Cow::Owned(rows.flatten().copied().collect())
            }
        };
        Factored {
            symmetric: view.sets.is_none() && std::ptr::eq(left, right),
            shape: view.shape(),
            left: chosen(left, view.sets.map(|(before, _)| before)),
            right: chosen(right, view.sets.map(|(_, after)| after)),
            rank,
            shifts,
        }
    }
}

impl<'a, F: Real> Factored<'a, F> {
    /// The matrix left·rightᵀ of two matrices with `rank` columns.
    pub fn of_factors(left: &'a [F], right: &'a [F], rank: usize) -> Self {
        let shape = (left.len() / rank, right.len() / rank);
        let (left, right) = (Cow::Borrowed(left), Cow::Borrowed(right));
        Factored { left, right, rank, shape, symmetric: false, shifts: None }
    }
}

/// A matrix of products whose nonzero entries are replaced by 1.
pub(super) struct Unweighted<'a, F: Real>(pub Factored<'a, F>);

impl<F: Real> Tiles<F> for Unweighted<'_, F> {
    fn shape(&self) -> (usize, usize) {
        self.0.shape()
    }

    fn left(&self) -> Option<(&[F], usize)> {
        self.0.left()
    }

    fn cost(&self) -> usize {
        self.0.cost()
    }

    fn enter(&self, columns: Range<usize>, scratch: &mut Scratch<F>) {
        self.0.enter(columns, scratch);
    }

    fn tile<'s>(
        &'s self,
        rows: Range<usize>,
        columns: Range<usize>,
        scratch: &'s mut Scratch<F>,
    ) -> Tile<'s, F> {
        let (len, stride) = (rows.len() * padded::<F>(columns.len()), padded::<F>(columns.len()));
        self.0.tile(rows, columns, scratch);
        let tile = &mut scratch.tile[..len];
        tile.iter_mut().for_each(|x| *x = if *x > F::ZERO { F::ONE } else { F::ZERO });
        Tile::of_rows(tile, stride)
    }
}

/// Transposes rows of `width` numbers into rows of `stride` numbers, padded with zeros.
pub(super) fn transpose<F: Real>(rows: &[F], width: usize, stride: usize, out: &mut [F]) {
    let count = rows.len().checked_div(width).unwrap_or(0);
    for (k, out) in out.chunks_exact_mut(stride).take(width).enumerate() {
        for (x, row) in out.iter_mut().zip(rows.chunks_exact(width)) {
            *x = row[k];
        }
        out[count.min(stride)..].fill(F::ZERO);
    }
}

/// The number of rows whose left embeddings are multiplied together.
const BLOCK: usize = 8;

impl<F: Real> Tiles<F> for Factored<'_, F> {
    fn shape(&self) -> (usize, usize) {
        self.shape
    }

    fn symmetric(&self) -> bool {
        self.symmetric
    }

    fn left(&self) -> Option<(&[F], usize)> {
        Some((&self.left, self.rank))
    }

    fn cost(&self) -> usize {
        16 + self.rank
    }

    fn enter(&self, columns: Range<usize>, scratch: &mut Scratch<F>) {
        // Not a power of two, so that the rows of a strip do not map to the same cache sets.
        let (rank, stride) = (self.rank, padded::<F>(columns.len()) + strip::<F>() / 2);
        scratch.entered = (columns.start, stride);
        let embeddings = &self.right[columns.start * rank..columns.end * rank];
        transpose(embeddings, rank, stride, scratch.columns.room(rank * stride));
    }

    fn tile<'s>(
        &'s self,
        rows: Range<usize>,
        columns: Range<usize>,
        scratch: &'s mut Scratch<F>,
    ) -> Tile<'s, F> {
        let (rank, width, stride) = (self.rank, columns.len(), padded::<F>(columns.len()));
        let Scratch { tile, columns: right, entered: (first, entered), rows: packed, .. } = scratch;
        let tile = tile.room(rows.len().next_multiple_of(BLOCK) * stride);
        let packed = packed.room(rank * rows.len().next_multiple_of(BLOCK));
        for (some, packed) in pieces(rows.clone(), BLOCK).zip(packed.chunks_exact_mut((rank * BLOCK).max(1)))
        {
            transpose(&self.left[some.start * rank..some.end * rank], rank, BLOCK, packed);
        }
        // A few strips at a time, so that they stay in the L1 cache for all rows.
        for some in pieces(0..stride, 4 * strip::<F>()) {
            let right = right.get(columns.start - *first + some.start..).unwrap_or_default();
            for (block, out) in tile.chunks_exact_mut(BLOCK * stride).enumerate() {
                F::forward(Forward {
                    rows: rank,
                    columns: some.len(),
                    block: BLOCK,
                    messages: &packed[block * rank * BLOCK..],
                    matrix: right,
                    stride: *entered,
                    strips: strip::<F>(),
                    output: &mut out[some.start..],
                    output_stride: stride,
                    weights: None,
                    accumulate: false,
                    next: &[],
                });
            }
        }
        if let Some(shifts) = self.shifts {
            for (row, &shift) in tile.chunks_exact_mut(stride).zip(&shifts.rows[rows]) {
                F::exp_shifted(&mut row[..width], shift, &shifts.columns[columns.clone()]);
            }
        }
        Tile::of_rows(tile, stride)
    }
}
