//! Derivatives with respect to transitions: Σₖ left_k(i)·M(i, j)·right_k(j), tile by tile.
//!
//! A tile of the product leftᵀ·right is computed in registers, eight rows and a strip of columns at a time,
//! and multiplied by M before it is stored. For tables it is added to the gradient. For embeddings, the tile
//! G contributes to G·right and Gᵀ·left and is discarded. As in the products, panels of columns are
//! distributed to threads and rows are processed in waves. A symmetric matrix is visited only on and above
//! its diagonal, with left and right exchanged for the other half.

use std::ops::Range;

use super::sweep::{Directed, map_all, split_at_diagonal, wave_length};
use super::tiles::{ROWS, Scratch, Tile, Tiles, panels, pieces, tile_columns};
use crate::method::dynamic::lattice::entries::Entries;
use crate::model::Pattern;
use crate::numeric::{Aligned, Backward, Forward, Real, padded, strip};
use crate::query::sequence::TransitionGradient;

/// Number of messages summed in registers at a time, so that a strip of them stays in the L1 cache.
const DEPTH: usize = 256;

/// Number of rows per task, out of `rows`. The messages are rearranged once per task.
pub(in crate::method::dynamic::lattice) fn group_of(rows: usize) -> usize {
    rows.div_ceil(8).clamp(2 * ROWS, 8 * ROWS).next_multiple_of(ROWS)
}

/// The marginals of the edges of table t, as factors: left_k(i)·M(i, j)·right_k(j), times D(i, j) if there is
/// a direction.
pub(super) struct Edges<'a, F: Real> {
    pub t: usize,
    /// The states kept before and after the boundary; `None` if all are kept.
    pub sets: Option<(&'a [u32], &'a [u32])>,
    /// N of the model.
    pub states: usize,
    /// The pattern of sparse transitions, and whether each step has its own values.
    pub pattern: Option<(&'a Pattern, bool)>,
    pub count: usize,
    /// count × states before the boundary.
    pub left: &'a [F],
    /// count × states after the boundary.
    pub right: &'a [F],
    pub direction: Option<&'a dyn Entries<F>>,
}

/// Splits `length` into blocks of 8 and then 4, 2, 1. Yields the start and size of each block.
pub(super) fn blocks(length: usize) -> impl Iterator<Item = (usize, usize)> {
    let mut first = 0;
    std::iter::from_fn(move || {
        let size = [8, 4, 2, 1].into_iter().find(|size| first + size <= length)?;
        first += size;
        Some((first - size, size))
    })
}

/// Factors that are summed over, concatenated; each is count × states.
#[derive(Clone, Copy)]
struct Sources<'a, F> {
    factors: &'a [&'a [F]],
    count: usize,
    states: usize,
}

impl<F> Sources<'_, F> {
    /// Total number of messages.
    fn total(&self) -> usize {
        self.factors.len() * self.count
    }

    /// Some states of message k.
    fn message(&self, k: usize, states: Range<usize>) -> &[F] {
        &self.factors[k / self.count][k % self.count * self.states..][states]
    }
}

/// The left factors of some rows, in blocks of rows: message × block.
struct Left<F> {
    rows: Range<usize>,
    total: usize,
    data: Aligned<F>,
}

impl<F: Real> Left<F> {
    fn new(sources: Sources<'_, F>, rows: Range<usize>) -> Self {
        let total = sources.total();
        let mut data = Aligned::zeros(total * rows.len());
        for k in 0..total {
            let message = sources.message(k, rows.clone());
            for (first, size) in blocks(rows.len()) {
                let (to, from) = (&mut data[first * total + k * size..], &message[first..first + size]);
                // A copy of fixed length compiles without a function call.
                match (to.first_chunk_mut::<8>(), from.first_chunk::<8>()) {
                    (Some(to), Some(from)) => *to = *from,
                    _ => to[..size].copy_from_slice(from),
                }
            }
        }
        Left { rows, total, data }
    }
}

/// A tile of leftᵀ·right ∘ M, and the rearranged right factors.
#[derive(Default)]
struct Pairs<F> {
    /// The right factors of some columns, by depth and then by strip: message × strip.
    right: Aligned<F>,
    /// The number of these columns, padded to whole strips.
    entered: usize,
    edges: Aligned<F>,
}

impl<F: Real> Pairs<F> {
    /// Rearranges the right factors of some columns.
    fn enter(&mut self, sources: Sources<'_, F>, columns: Range<usize>) {
        let (total, strip, width) = (sources.total(), strip::<F>(), padded::<F>(columns.len()));
        self.entered = width;
        let out = self.right.room(total * width);
        for k in 0..total {
            let depth = k / DEPTH * DEPTH;
            let height = DEPTH.min(total - depth);
            for (s, from) in sources.message(k, columns.clone()).chunks(strip).enumerate() {
                let to = &mut out[depth * width + (s * height + k - depth) * strip..][..strip];
                if from.len() == strip {
                    // Copies of fixed length compile without a function call.
                    let (to, from) = (to.as_chunks_mut::<16>().0, from.as_chunks::<16>().0);
                    to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
                } else {
                    to[..from.len()].copy_from_slice(from);
                    to[from.len()..].fill(F::ZERO);
                }
            }
        }
    }

    /// The tile at some rows, starting at a whole tile of `left`, and some columns, counted from the first
    /// entered column.
    fn multiply(
        &mut self,
        left: &Left<F>,
        rows: Range<usize>,
        columns: Range<usize>,
        matrix: Tile<'_, F>,
    ) -> Tile<'_, F> {
        let stride = padded::<F>(columns.len());
        let edges = self.edges.room(rows.len() * stride);
        add_pairs(&self.right, self.entered, left, rows, columns, matrix, edges, stride, false);
        Tile::of_rows(edges, stride)
    }

    /// Adds the tile to a table, starting at its first row and column.
    fn add_to(
        &mut self,
        left: &Left<F>,
        rows: Range<usize>,
        columns: Range<usize>,
        matrix: Tile<'_, F>,
        table: &mut [F],
        stride: usize,
    ) {
        // Whole strips are added in place, the remaining columns separately.
        let whole = columns.len() / strip::<F>() * strip::<F>();
        let (inside, rest) = (columns.start..columns.start + whole, columns.start + whole..columns.end);
        add_pairs(&self.right, self.entered, left, rows.clone(), inside, matrix, table, stride, true);
        if !rest.is_empty() {
            let width = rest.len();
            let matrix = Tile { data: &matrix.data[whole / strip::<F>() * matrix.strips..], ..matrix };
            let edges = self.multiply(left, rows, rest, matrix);
            for (edges, out) in edges.data.chunks(edges.stride).zip(table.chunks_mut(stride)) {
                F::add_to(&mut out[whole..whole + width], &edges[..width]);
            }
        }
    }
}

/// leftᵀ·right ∘ M for some rows and columns, with the right factors in the strip layout of [`Pairs::enter`].
#[allow(clippy::too_many_arguments)]
fn add_pairs<F: Real>(
    right: &[F],
    entered: usize,
    left: &Left<F>,
    rows: Range<usize>,
    columns: Range<usize>,
    matrix: Tile<'_, F>,
    output: &mut [F],
    output_stride: usize,
    accumulate: bool,
) {
    let (total, strip) = (left.total, strip::<F>());
    let left = &left.data[(rows.start - left.rows.start) * total..];
    if total == 0 && !accumulate {
        output.fill(F::ZERO);
    }
    for depth in pieces(0..total, DEPTH) {
        for at in (0..columns.len()).step_by(strip) {
            let right = &right[depth.start * entered + (columns.start + at) * depth.len()..];
            for (first, size) in blocks(rows.len()) {
                F::forward(Forward {
                    rows: depth.len(),
                    columns: strip,
                    block: size,
                    messages: &left[first * total + depth.start * size..],
                    matrix: right,
                    stride: strip,
                    strips: strip,
                    output: &mut output[first * output_stride + at..],
                    output_stride,
                    weights: Some((
                        &matrix.data[first * matrix.stride + at / strip * matrix.strips..],
                        matrix.stride,
                    )),
                    accumulate: accumulate || depth.start > 0,
                    next: &[],
                });
            }
        }
    }
}

impl<F: Real> Edges<'_, F> {
    /// Adds the marginals to a gradient in the form of the transitions.
    pub fn add(&self, tiles: &dyn Tiles<F>, gradient: &mut TransitionGradient<F>) {
        let size = self.states.pow(2);
        match gradient {
            TransitionGradient::Shared(table) => self.add_to_table(tiles, table),
            TransitionGradient::Sparse { values, .. } => {
                let (Some((pattern, per_step)), Some(sets)) = (self.pattern, self.sets) else { return };
                let first = if per_step { self.t * pattern.len() } else { 0 };
                self.each_chosen(tiles, sets, |i, j, edge| {
                    if let Some(e) = pattern.entry(i, j) {
                        values[first + e] += edge;
                    }
                });
            }
            TransitionGradient::PerStep(tables) | TransitionGradient::PerSequence(tables) => {
                self.add_to_table(tiles, &mut tables[self.t * size..(self.t + 1) * size]);
            }
            TransitionGradient::Factored { left, right } => {
                self.add_to_embeddings(tiles, left, right.as_deref_mut());
            }
            // Steps of low rank have their own gradient.
            TransitionGradient::LowRank { .. } => {}
        }
    }

    fn add_to_table(&self, tiles: &dyn Tiles<F>, table: &mut [F]) {
        let states = self.states;
        let (before, after) = tiles.shape();
        let work = |rows: usize| rows * after * (self.count + tiles.cost());
        if let Some(sets) = self.sets {
            return self.each_chosen(tiles, sets, |i, j, edge| table[i * states + j] += edge);
        }
        let group = group_of(before);
        let groups = table.chunks_mut(group * states).enumerate();
        map_all(groups, work(before), |(g, out)| self.add_rows(tiles, g * group, out));
    }

    /// Calls `add` with each edge between chosen states and its marginal.
    fn each_chosen(
        &self,
        tiles: &dyn Tiles<F>,
        (rows_set, columns_set): (&[u32], &[u32]),
        mut add: impl FnMut(usize, usize, F),
    ) {
        let (before, after) = tiles.shape();
        let work = |rows: usize| rows * after * (self.count + tiles.cost());
        if after == 0 {
            return;
        }
        // A set may contain a state twice, so a single thread adds the results to the gradient.
        let height = ((1 << 20) / after).clamp(1, group_of(before));
        for wave in pieces(0..before, 8 * height) {
            let groups = map_all(pieces(wave.clone(), height), work(wave.len()), |group| {
                let mut out = vec![F::ZERO; group.len() * after];
                self.add_rows(tiles, group.start, &mut out);
                out
            });
            let rows = groups.iter().flat_map(|group| group.chunks_exact(after));
            for (&i, edges) in rows_set[wave].iter().zip(rows) {
                for (&j, &edge) in columns_set.iter().zip(edges) {
                    add(i as usize, j as usize, edge);
                }
            }
        }
    }

    /// Adds the edges of whole rows, from `first` on, to a table of these rows.
    fn add_rows(&self, tiles: &dyn Tiles<F>, first: usize, out: &mut [F]) {
        let (before, after) = tiles.shape();
        let rows = first..first + out.len() / after;
        let (mut scratch, mut directed, mut pairs) =
            (Scratch::default(), Directed::default(), Pairs::default());
        let lefts = Sources { factors: &[self.left], count: self.count, states: before };
        let rights = Sources { factors: &[self.right], count: self.count, states: after };
        let left = Left::new(lefts, rows.clone());
        for columns in panels::<F>(after).flat_map(|panel| pieces(panel, tile_columns::<F>())) {
            tiles.enter(columns.clone(), &mut scratch);
            pairs.enter(rights, columns.clone());
            for some in pieces(rows.clone(), ROWS) {
                if self.direction.is_some_and(Entries::must_stop) {
                    return;
                }
                let tile = tiles.tile(some.clone(), columns.clone(), &mut scratch);
                let tile = directed.tile(tile, self.direction, self.t, some.clone(), columns.clone());
                let out = &mut out[(some.start - first) * after + columns.start..];
                pairs.add_to(&left, some, 0..columns.len(), tile, out, after);
            }
        }
    }

    /// Adds the derivatives with respect to both embeddings.
    pub fn add_to_embeddings(&self, tiles: &dyn Tiles<F>, left_out: &mut [F], right_out: Option<&mut [F]>) {
        let Some((_, rank)) = tiles.left() else { return };
        let (before, after) = tiles.shape();
        let triangle = tiles.symmetric() && self.direction.is_none();
        let both = [self.left, self.right, self.left];
        let half = if triangle { 2 } else { 1 };
        let lefts = Sources { factors: &both[..half], count: self.count, states: before };
        let rights = Sources { factors: &both[1..1 + half], count: self.count, states: after };
        let share = |panel: Range<usize>| Share {
            derivative: Aligned::zeros(rank * padded::<F>(panel.len())),
            scratch: Scratch::default(),
            directed: Directed::default(),
            pairs: Pairs::default(),
            left: Aligned::default(),
            panel,
        };
        let mut shares: Vec<Share<F>> = panels::<F>(after).map(share).collect();
        let length = wave_length(shares.len(), rank);
        let (rows_set, columns_set) = self.sets.unzip();
        let state = |set: Option<&[u32]>, k: usize| set.map_or(k, |set| set[k] as usize);
        for wave in pieces(0..before, length) {
            let work = wave.len() * after * (self.count + 2 * rank + tiles.cost());
            let factors = Left::new(lefts, wave.clone());
            let parts =
                map_all(shares.iter_mut(), work, |share| self.wave(tiles, share, &factors, rights, triangle));
            for part in parts {
                for (i, part) in wave.clone().zip(part.chunks_exact(rank.max(1))) {
                    F::add_to(&mut left_out[state(rows_set, i) * rank..][..rank], part);
                }
            }
        }
        let out = right_out.unwrap_or(left_out);
        for Share { panel, derivative, .. } in &shares {
            let stride = padded::<F>(panel.len());
            for (at, j) in panel.clone().enumerate() {
                let out = &mut out[state(columns_set, j) * rank..][..rank];
                for (k, out) in out.iter_mut().enumerate() {
                    *out += derivative[k * stride + at];
                }
            }
        }
    }

    /// Processes the rows of a wave in one panel. Returns the derivatives with respect to their left
    /// embeddings, rows × rank.
    fn wave(
        &self,
        tiles: &dyn Tiles<F>,
        share: &mut Share<F>,
        factors: &Left<F>,
        rights: Sources<'_, F>,
        triangle: bool,
    ) -> Vec<F> {
        let (embeddings, rank) = tiles.left().unwrap_or_default();
        let wave = factors.rows.clone();
        let mut part = vec![F::ZERO; wave.len() * rank];
        let Share { panel, derivative, scratch, directed, pairs, left } = share;
        if triangle && panel.end <= wave.start {
            return part;
        }
        let stride = padded::<F>(panel.len());
        for some in pieces(panel.clone(), tile_columns::<F>()) {
            tiles.enter(some.clone(), scratch);
            pairs.enter(rights, some.clone());
            for rows in pieces(wave.clone(), ROWS) {
                if self.direction.is_some_and(Entries::must_stop) {
                    return part;
                }
                for (columns, mirrored) in split_at_diagonal(&some, &rows, triangle) {
                    let tile = tiles.tile(rows.clone(), columns.clone(), scratch);
                    let tile = directed.tile(tile, self.direction, self.t, rows.clone(), columns.clone());
                    let within = columns.start - some.start..columns.end - some.start;
                    let edges = pairs.multiply(factors, rows.clone(), within, tile);
                    let width = padded::<F>(columns.len());
                    let (right, right_stride) = scratch.entered(columns.start);
                    F::backward(Backward {
                        rows: rank,
                        columns: width,
                        count: rows.len(),
                        messages: edges.data,
                        messages_stride: edges.stride,
                        matrix: right,
                        stride: right_stride,
                        strips: strip::<F>(),
                        output: &mut part[(rows.start - wave.start) * rank..],
                        output_stride: rank,
                        next: &[],
                    });
                    if !mirrored {
                        continue;
                    }
                    for (first, size) in blocks(rank) {
                        let messages = left.room(rows.len() * size);
                        let from = embeddings[rows.start * rank..].chunks_exact(rank);
                        for (to, from) in messages.chunks_exact_mut(size).zip(from) {
                            to.copy_from_slice(&from[first..first + size]);
                        }
                        F::forward(Forward {
                            rows: rows.len(),
                            columns: width,
                            block: size,
                            messages,
                            matrix: edges.data,
                            stride: edges.stride,
                            strips: edges.strips,
                            output: &mut derivative[first * stride + columns.start - panel.start..],
                            output_stride: stride,
                            weights: None,
                            accumulate: true,
                            next: &[],
                        });
                    }
                }
            }
        }
        part
    }
}

/// Working memory of one panel.
struct Share<F> {
    panel: Range<usize>,
    /// Derivative with respect to the panel's right embeddings: rank × columns, padded to whole strips.
    derivative: Aligned<F>,
    scratch: Scratch<F>,
    directed: Directed<F>,
    pairs: Pairs<F>,
    left: Aligned<F>,
}
