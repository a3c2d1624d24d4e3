//! Derivatives with respect to transitions: Σₖ left_k(i)·M(i, j)·right_k(j), tile by tile.
//!
//! A tile of the product leftᵀ·right is made in registers, eight rows and a strip of columns at a time, and multiplied with M as it
//! leaves them. For tables it is added to the gradient. For embeddings the tile G gives its share of G·right and Gᵀ·left and is forgotten:
//! panels of columns are shared out to threads, rows come in waves, as in the products. A symmetric matrix is visited on and above
//! its diagonal only, with left and right exchanged for the other half.

use std::ops::Range;

use super::View;
use super::sweep::{Directed, map_all, split_at_diagonal, wave_length};
use super::tiles::{ROWS, Scratch, Tile, Tiles, panels, pieces, tile_columns};
use crate::lattice::entries::Entries;
use crate::numeric::{Aligned, Backward, Forward, Real, padded, strip};
use crate::sequence::TransitionGradient;

/// Messages that are summed in registers at a time, so that a strip of them stays in the first cache.
const DEPTH: usize = 256;

/// Rows that one thread takes at a time: the messages that enter their columns are rearranged once for all of them.
const GROUP: usize = 2 * ROWS;

/// The marginals of the edges of table t, as factors: left_k(i)·M(i, j)·right_k(j), times D(i, j) if there is a direction.
pub(super) struct Edges<'a, F: Real> {
    pub view: View<'a, F>,
    pub count: usize,
    /// count × states before.
    pub left: &'a [F],
    /// count × states after.
    pub right: &'a [F],
    pub direction: Option<&'a dyn Entries<F>>,
}

/// `length` in blocks of 8 and then 4, 2, 1: first and size.
fn blocks(length: usize) -> impl Iterator<Item = (usize, usize)> {
    let mut first = 0;
    std::iter::from_fn(move || {
        let size = [8, 4, 2, 1].into_iter().find(|size| first + size <= length)?;
        first += size;
        Some((first - size, size))
    })
}

/// A tile of leftᵀ·right ∘ M, and the factors on their way there.
#[derive(Default)]
struct Pairs<F> {
    /// The right factors of some columns, for each depth by strips: message × strip.
    right: Aligned<F>,
    /// The left factors of some rows, by blocks of rows: message × block.
    left: Aligned<F>,
    edges: Aligned<F>,
}

impl<F: Real> Pairs<F> {
    /// Rearranges the right factors of some columns; `sources` are count × states each.
    fn enter(&mut self, sources: &[&[F]], count: usize, states: usize, columns: Range<usize>) {
        let (total, strip, width) = (sources.len() * count, strip::<F>(), padded::<F>(columns.len()));
        let out = self.right.room(total * width);
        for k in 0..total {
            let from = &sources[k / count][k % count * states..][columns.clone()];
            let depth = k / DEPTH * DEPTH;
            let height = DEPTH.min(total - depth);
            for (s, from) in from.chunks(strip).enumerate() {
                let to = &mut out[depth * width + (s * height + k - depth) * strip..][..strip];
                to[..from.len()].copy_from_slice(from);
                to[from.len()..].fill(F::ZERO);
            }
        }
    }

    /// The tile at some rows, of all columns entered from `skip` strips on; returns rows × columns.
    #[allow(clippy::too_many_arguments)]
    fn multiply(
        &mut self,
        sources: &[&[F]],
        count: usize,
        states: usize,
        rows: Range<usize>,
        entered: usize,
        columns: Range<usize>,
        matrix: Tile<'_, F>,
    ) -> Tile<'_, F> {
        let (total, strip) = (sources.len() * count, strip::<F>());
        let (stride, entered) = (padded::<F>(columns.len()), padded::<F>(entered));
        let left = self.left.room(total * rows.len());
        for (first, size) in blocks(rows.len()) {
            let block = left[first * total..(first + size) * total].chunks_exact_mut(size);
            for (k, to) in block.enumerate() {
                to.copy_from_slice(&sources[k / count][k % count * states + rows.start + first..][..size]);
            }
        }
        let edges = self.edges.room(rows.len() * stride);
        if total == 0 {
            edges.fill(F::ZERO);
        }
        for depth in pieces(0..total, DEPTH) {
            for at in (0..stride).step_by(strip) {
                let right = &self.right[depth.start * entered + (columns.start + at) * depth.len()..];
                for (first, size) in blocks(rows.len()) {
                    F::forward(Forward {
                        rows: depth.len(),
                        columns: strip,
                        block: size,
                        messages: &left[first * total + depth.start * size..],
                        matrix: right,
                        stride: strip,
                        output: &mut edges[first * stride + at..],
                        output_stride: stride,
                        weights: Some((&matrix.data[first * matrix.stride + at..], matrix.stride)),
                        accumulate: depth.start > 0,
                    });
                }
            }
        }
        Tile { data: edges, stride }
    }
}

impl<F: Real> Edges<'_, F> {
    /// Adds them to a gradient in the form of the transitions.
    pub fn add(&self, tiles: &dyn Tiles<F>, gradient: &mut TransitionGradient<F>) {
        let size = self.view.entries.states.pow(2);
        match gradient {
            TransitionGradient::Shared(table) => self.add_to_table(tiles, table),
            TransitionGradient::PerStep(tables) => {
                self.add_to_table(tiles, &mut tables[self.view.t * size..(self.view.t + 1) * size]);
            }
            TransitionGradient::Factored { left, right } => {
                self.add_to_embeddings(tiles, left, right.as_deref_mut());
            }
        }
    }

    fn add_to_table(&self, tiles: &dyn Tiles<F>, table: &mut [F]) {
        let states = self.view.entries.states;
        let (before, after) = tiles.shape();
        let work = |rows: usize| rows * after * (self.count + tiles.cost());
        let Some((rows_set, columns_set)) = self.view.sets else {
            let groups = table.chunks_mut(GROUP * states).enumerate();
            map_all(groups, work(before), |(group, out)| self.add_rows(tiles, group * GROUP, out));
            return;
        };
        if after == 0 {
            return;
        }
        // A state may stand in a set twice, so the places are added to by one thread.
        let height = ((1 << 20) / after).clamp(1, GROUP);
        for wave in pieces(0..before, 8 * height) {
            let groups = map_all(pieces(wave.clone(), height), work(wave.len()), |group| {
                let mut out = vec![F::ZERO; group.len() * after];
                self.add_rows(tiles, group.start, &mut out);
                out
            });
            let rows = groups.iter().flat_map(|group| group.chunks_exact(after));
            for (&i, edges) in rows_set[wave].iter().zip(rows) {
                let row = &mut table[i as usize * states..][..states];
                for (&j, &edge) in columns_set.iter().zip(edges) {
                    row[j as usize] += edge;
                }
            }
        }
    }

    /// Adds the edges of whole rows from `first` on to a table of them.
    fn add_rows(&self, tiles: &dyn Tiles<F>, first: usize, out: &mut [F]) {
        let (before, after) = tiles.shape();
        let rows = first..first + out.len() / after;
        let (mut scratch, mut directed, mut pairs) =
            (Scratch::default(), Directed::default(), Pairs::default());
        let columns = panels::<F>(after).flat_map(|panel| pieces(panel, tile_columns::<F>()));
        for columns in columns {
            tiles.enter(columns.clone(), &mut scratch);
            pairs.enter(&[self.right], self.count, after, columns.clone());
            for some in pieces(rows.clone(), ROWS) {
                let tile = tiles.tile(some.clone(), columns.clone(), &mut scratch);
                let tile = directed.tile(tile, self.direction, self.view.t, some.clone(), columns.clone());
                let all = 0..columns.len();
                let edges =
                    pairs.multiply(&[self.left], self.count, before, some.clone(), columns.len(), all, tile);
                for (i, edges) in some.zip(edges.data.chunks(edges.stride)) {
                    let out = &mut out[(i - first) * after..][columns.clone()];
                    F::add_to(out, &edges[..columns.len()]);
                }
            }
        }
    }

    fn add_to_embeddings(&self, tiles: &dyn Tiles<F>, left_out: &mut [F], mut right_out: Option<&mut [F]>) {
        let Some((left, rank)) = tiles.left() else { return };
        let (before, after) = tiles.shape();
        let triangle = tiles.symmetric() && self.direction.is_none();
        let both = [self.left, self.right, self.left];
        let sources = if triangle { (&both[..2], &both[1..]) } else { (&both[..1], &both[1..2]) };
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
        let (rows_set, columns_set) = self.view.sets.unzip();
        let state = |set: Option<&[u32]>, k: usize| set.map_or(k, |set| set[k] as usize);
        for wave in pieces(0..before, length) {
            let work = wave.len() * after * (self.count + 2 * rank + tiles.cost());
            let parts = map_all(shares.iter_mut(), work, |share| {
                self.wave(tiles, share, wave.clone(), left, rank, sources, triangle)
            });
            for part in parts {
                for (i, part) in wave.clone().zip(part.chunks_exact(rank.max(1))) {
                    F::add_to(&mut left_out[state(rows_set, i) * rank..][..rank], part);
                }
            }
        }
        let out = right_out.as_deref_mut().unwrap_or(left_out);
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

    /// The rows of a wave in one panel; returns the derivatives with respect to their left embeddings, rows × rank.
    #[allow(clippy::too_many_arguments)]
    fn wave(
        &self,
        tiles: &dyn Tiles<F>,
        share: &mut Share<F>,
        wave: Range<usize>,
        embeddings: &[F],
        rank: usize,
        sources: (&[&[F]], &[&[F]]),
        triangle: bool,
    ) -> Vec<F> {
        let mut part = vec![F::ZERO; wave.len() * rank];
        let Share { panel, derivative, scratch, directed, pairs, left } = share;
        if triangle && panel.end <= wave.start {
            return part;
        }
        let (before, after) = tiles.shape();
        let stride = padded::<F>(panel.len());
        for some in pieces(panel.clone(), tile_columns::<F>()) {
            tiles.enter(some.clone(), scratch);
            pairs.enter(sources.1, self.count, after, some.clone());
            for rows in pieces(wave.clone(), ROWS) {
                for (columns, mirrored) in split_at_diagonal(&some, &rows, triangle) {
                    let tile = tiles.tile(rows.clone(), columns.clone(), scratch);
                    let tile =
                        directed.tile(tile, self.direction, self.view.t, rows.clone(), columns.clone());
                    let within = columns.start - some.start..columns.end - some.start;
                    let edges =
                        pairs.multiply(sources.0, self.count, before, rows.clone(), some.len(), within, tile);
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
                        output: &mut part[(rows.start - wave.start) * rank..],
                        output_stride: rank,
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
                            output: &mut derivative[first * stride + columns.start - panel.start..],
                            output_stride: stride,
                            weights: None,
                            accumulate: true,
                        });
                    }
                }
            }
        }
        part
    }
}

/// What one panel's thread works with.
struct Share<F> {
    panel: Range<usize>,
    /// With respect to the panel's right embeddings: rank × columns in whole strips.
    derivative: Aligned<F>,
    scratch: Scratch<F>,
    directed: Directed<F>,
    pairs: Pairs<F>,
    left: Aligned<F>,
}
