//! One pass over a matrix: products with it and with its transpose.
//!
//! Panels of columns are distributed to threads. Each panel computes its tiles one at a time, and both
//! products use a tile while it is in the cache. The product with M sums over rows, which stays within one
//! panel. The product with Mᵀ sums over columns, and the partial sums of the panels are added in order. Rows
//! are processed in waves, so that these partial sums take only a few MiB.
//!
//! A symmetric matrix is its own transpose. The messages of both products are multiplied by it together, and
//! an off-diagonal tile also serves as its mirror image.

use std::ops::Range;

use crate::numeric::parallel::prelude::*;

use super::Product;
use super::tiles::{ROWS, Scratch, Tile, Tiles, panels, pieces, tile_columns};
use crate::method::dynamic::lattice::entries::{Entries, Index};
use crate::numeric::{Aligned, Backward, Forward, Real, block_of, padded};

/// Maximum count of numbers in the partial sums of all panels in a wave.
const PARTS: usize = 1 << 21;

/// Minimum number of multiply-adds for parallel execution.
const LARGE: usize = 1 << 21;

/// The number of rows per wave, such that `panels` partial sums with `numbers` numbers per row take a few
/// MiB.
pub(in crate::method::dynamic::lattice) fn wave_length(panels: usize, numbers: usize) -> usize {
    (PARTS / (panels * numbers).max(1)).max(1).next_multiple_of(ROWS)
}

/// Maps in the thread pool if there is enough work. The results are always in order.
pub(super) fn map_all<I: Send, O: Send>(
    items: impl Iterator<Item = I>,
    work: usize,
    map: impl Fn(I) -> O + Sync + Send,
) -> Vec<O> {
    if work < LARGE || crate::numeric::parallel::threads() == 1 {
        return items.map(map).collect();
    }
    items.collect::<Vec<_>>().into_par_iter().with_max_len(1).map(map).collect()
}

/// output = input·M and output = input·Mᵀ, or both with M ∘ D for the direction's table t.
pub(super) fn multiply<F: Real>(
    tiles: &dyn Tiles<F>,
    t: usize,
    direction: Option<&dyn Entries<F>>,
    forward: Option<Product<'_, F>>,
    backward: Option<Product<'_, F>>,
) {
    if tiles.symmetric() && direction.is_none() {
        return multiply_symmetric(tiles, forward, backward);
    }
    let (before, after) = tiles.shape();
    let down = forward.as_ref().map(|task| Down::new(before, task.count, task.input));
    let across = backward.as_ref().map(|task| Across::new(after, task.count, task.input));
    let sweep = Sweep { tiles, t, direction, down, across, triangle: false };
    let (mut no_columns, mut no_rows) = ([], []);
    let columns = forward.map_or(&mut no_columns[..], |task| task.output);
    let rows = backward.map_or(&mut no_rows[..], |task| task.output);
    sweep.run(columns, rows);
}

fn multiply_symmetric<F: Real>(
    tiles: &dyn Tiles<F>,
    forward: Option<Product<'_, F>>,
    backward: Option<Product<'_, F>>,
) {
    let states = tiles.shape().0;
    let tasks: Vec<Product<'_, F>> = forward.into_iter().chain(backward).collect();
    let count = tasks.iter().map(|task| task.count).sum();
    let input: Vec<F> = tasks.iter().flat_map(|task| &task.input[..task.count * states]).copied().collect();
    let down = Some(Down::new(states, count, &input));
    let across = Some(Across::new(states, count, &input));
    let sweep = Sweep { tiles, t: 0, direction: None, down, across, triangle: true };
    let (mut columns, mut rows) = (vec![F::ZERO; count * states], vec![F::ZERO; count * states]);
    sweep.run(&mut columns, &mut rows);
    F::add_to(&mut columns, &rows);
    let mut rest = &columns[..];
    for task in tasks {
        let (some, behind) = rest.split_at(task.count * states);
        task.output[..some.len()].copy_from_slice(some);
        rest = behind;
    }
}

/// The messages of a product with M, in blocks of rows × messages.
struct Down<F> {
    rows: usize,
    count: usize,
    /// First message and number of messages of each block.
    blocks: Vec<(usize, usize)>,
    data: Aligned<F>,
}

impl<F: Real> Down<F> {
    fn new(rows: usize, count: usize, input: &[F]) -> Self {
        let mut blocks = Vec::new();
        let mut first = 0;
        while first < count {
            blocks.push((first, block_of(count - first)));
            first += block_of(count - first);
        }
        let mut data = Aligned::zeros(first * rows);
        for &(first, size) in &blocks {
            let block = &mut data[first * rows..(first + size) * rows];
            let messages = &input[first * rows..(first + size).min(count) * rows];
            match <[&[F]; 8]>::try_from(messages.chunks_exact(rows.max(1)).collect::<Vec<_>>()) {
                // Eight messages are interleaved with a fixed-size loop.
                Ok(messages) => {
                    for (i, to) in block.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                        *to = messages.map(|message| message[i]);
                    }
                }
                Err(messages) => {
                    for (r, message) in messages.into_iter().enumerate() {
                        for (to, &x) in block.chunks_exact_mut(size).zip(message) {
                            to[r] = x;
                        }
                    }
                }
            }
        }
        Down { rows, count, blocks, data }
    }

    /// The number of messages, including padding of the last block.
    fn total(&self) -> usize {
        self.blocks.last().map_or(0, |(first, size)| first + size)
    }
}

/// The messages of a product with Mᵀ, each padded to whole strips.
struct Across<F> {
    count: usize,
    stride: usize,
    data: Aligned<F>,
}

impl<F: Real> Across<F> {
    fn new(columns: usize, count: usize, input: &[F]) -> Self {
        let stride = padded::<F>(columns);
        let mut data = Aligned::zeros(count * stride);
        for (to, from) in data.chunks_exact_mut(stride.max(1)).zip(input.chunks_exact(columns.max(1))) {
            to[..columns].copy_from_slice(from);
        }
        Across { count, stride, data }
    }
}

struct Sweep<'a, F: Real> {
    tiles: &'a dyn Tiles<F>,
    t: usize,
    direction: Option<&'a dyn Entries<F>>,
    down: Option<Down<F>>,
    across: Option<Across<F>>,
    /// Visit only entries on and above the diagonal. Off-diagonal entries serve both products, diagonal ones
    /// serve one.
    triangle: bool,
}

/// Working memory of one panel.
struct Share<F> {
    panel: Range<usize>,
    /// Messages × columns of the panel, padded to whole strips.
    sums: Aligned<F>,
    scratch: Scratch<F>,
    directed: Directed<F>,
}

impl<F: Real> Sweep<'_, F> {
    /// Computes the outputs of the products.
    fn run(&self, columns_out: &mut [F], rows_out: &mut [F]) {
        let (before, after) = self.tiles.shape();
        let (down, across) = (
            self.down.as_ref().map_or(0, Down::total),
            self.across.as_ref().map_or(0, |across| across.count),
        );
        rows_out.fill(F::ZERO);
        columns_out.fill(F::ZERO);
        let share = |panel: Range<usize>| Share {
            sums: Aligned::zeros(down * padded::<F>(panel.len())),
            scratch: Scratch::default(),
            directed: Directed::default(),
            panel,
        };
        let mut shares: Vec<Share<F>> = panels::<F>(after).map(share).collect();
        let length = wave_length(shares.len(), across);
        for wave in pieces(0..before, length) {
            let work = wave.len() * after * (down + across + self.tiles.cost());
            let parts = map_all(shares.iter_mut(), work, |share| self.wave(share, wave.clone()));
            for part in parts {
                for (out, part) in rows_out.chunks_exact_mut(before).zip(part.chunks_exact(wave.len())) {
                    F::add_to(&mut out[wave.clone()], part);
                }
            }
        }
        for Share { panel, sums, .. } in &shares {
            let width = padded::<F>(panel.len());
            let rows =
                columns_out.chunks_exact_mut(after).take(self.down.as_ref().map_or(0, |down| down.count));
            for (out, sums) in rows.zip(sums.chunks_exact(width)) {
                out[panel.clone()].copy_from_slice(&sums[..panel.len()]);
            }
        }
    }

    /// Processes the rows of a wave in one panel. Returns the panel's partial sums of the product with Mᵀ,
    /// messages × rows.
    fn wave(&self, share: &mut Share<F>, wave: Range<usize>) -> Vec<F> {
        let mut part = vec![F::ZERO; self.across.as_ref().map_or(0, |across| across.count) * wave.len()];
        let Share { panel, sums, scratch, directed } = share;
        if self.triangle && panel.end <= wave.start {
            return part;
        }
        for some in pieces(panel.clone(), tile_columns::<F>()) {
            self.tiles.enter(some.clone(), scratch);
            for rows in pieces(wave.clone(), ROWS) {
                if self.direction.is_some_and(Entries::must_stop) {
                    return part;
                }
                for (columns, mirrored) in split_at_diagonal(&some, &rows, self.triangle) {
                    let tile = self.tiles.tile(rows.clone(), columns.clone(), scratch);
                    let tile = directed.tile(tile, self.direction, self.t, rows.clone(), columns.clone());
                    let width = padded::<F>(columns.len());
                    let second_half = tile.next.get(rows.len() * width / 2..).unwrap_or_default();
                    if let Some(across) = &self.across {
                        F::backward(Backward {
                            rows: rows.len(),
                            columns: width,
                            count: across.count,
                            messages: &across.data[columns.start..],
                            messages_stride: across.stride,
                            matrix: tile.data,
                            stride: tile.stride,
                            strips: tile.strips,
                            output: &mut part[rows.start - wave.start..],
                            output_stride: wave.len(),
                            next: tile.next,
                        });
                    }
                    for &(first, size) in self.down.iter().filter(|_| mirrored).flat_map(|down| &down.blocks)
                    {
                        let Some(down) = &self.down else { continue };
                        let stride = padded::<F>(panel.len());
                        F::forward(Forward {
                            rows: rows.len(),
                            columns: width,
                            block: size,
                            messages: &down.data[first * down.rows + rows.start * size..],
                            matrix: tile.data,
                            stride: tile.stride,
                            strips: tile.strips,
                            output: &mut sums[first * stride + columns.start - panel.start..],
                            output_stride: stride,
                            weights: None,
                            accumulate: true,
                            next: if first == 0 { second_half } else { &[] },
                        });
                    }
                }
            }
        }
        part
    }
}

/// The columns of a tile that are visited at some rows, and whether they also serve as the mirror image: all
/// columns, or those on the diagonal and those off it separately.
pub(super) fn split_at_diagonal(
    columns: &Range<usize>,
    rows: &Range<usize>,
    triangle: bool,
) -> impl Iterator<Item = (Range<usize>, bool)> {
    let end = if triangle { columns.end.min(rows.end) } else { columns.start };
    let diagonal = columns.start.max(rows.start).min(end)..end;
    let beside = columns.start.max(end)..columns.end;
    [(diagonal, false), (beside, true)].into_iter().filter(|(columns, _)| !columns.is_empty())
}

/// Computes tiles of M ∘ D.
#[derive(Default)]
pub(super) struct Directed<F> {
    scores: Vec<F>,
    product: Aligned<F>,
}

impl<F: Real> Directed<F> {
    /// The tile, times table t of the direction if there is one.
    pub fn tile<'s>(
        &'s mut self,
        tile: Tile<'s, F>,
        direction: Option<&dyn Entries<F>>,
        t: usize,
        rows: Range<usize>,
        columns: Range<usize>,
    ) -> Tile<'s, F> {
        let Some(direction) = direction else { return tile };
        let (height, width, stride) = (rows.len(), columns.len(), padded::<F>(columns.len()));
        self.scores.resize(height * width, F::ZERO);
        direction.fill(t, Index::Range(rows), Index::Range(columns), &mut self.scores);
        let product = self.product.room(height * stride);
        let scores = self.scores.chunks_exact(width);
        for (i, (out, d)) in product.chunks_exact_mut(stride).zip(scores).enumerate() {
            tile.weigh_row(i, &mut out[..width], d);
            out[width..].fill(F::ZERO);
        }
        Tile::of_rows(product, stride)
    }
}
