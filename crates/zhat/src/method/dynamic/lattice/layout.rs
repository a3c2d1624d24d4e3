//! Memory layout of a batch of sequences of different lengths.
//!
//! Sequences are sorted by length, longest first, so the sequences that have a position t are the first
//! `active(t)`. The rows of a layer are stored contiguously, layer after layer, so each step multiplies one
//! block.

use std::ops::Range;

use crate::numeric::{Aligned, Real};

/// The order and offsets of a batch.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// Sorted place → number of the sequence.
    order: Vec<usize>,
    /// Number of the sequence → sorted place.
    places: Vec<usize>,
    /// The lengths in sorted order.
    lengths: Vec<usize>,
    /// The number of sequences that have a position t.
    active: Vec<usize>,
    /// The number of states of each layer.
    sizes: Vec<usize>,
    /// The number of states of the largest layer.
    largest: usize,
}

impl Layout {
    pub fn new(lengths: &[usize], size: impl Fn(usize) -> usize) -> Self {
        let mut order: Vec<usize> = (0..lengths.len()).collect();
        order.sort_by_key(|&b| (std::cmp::Reverse(lengths[b]), b));
        let mut places = vec![0; lengths.len()];
        order.iter().enumerate().for_each(|(place, &b)| places[b] = place);
        let sorted: Vec<usize> = order.iter().map(|&b| lengths[b]).collect();
        let steps = sorted.first().copied().unwrap_or(0);
        let active = (0..steps).map(|t| sorted.partition_point(|&length| length > t)).collect();
        let sizes: Vec<usize> = (0..steps).map(size).collect();
        let largest = sizes.iter().copied().max().unwrap_or(0);
        Layout { order, places, lengths: sorted, active, sizes, largest }
    }

    /// T, the number of layers.
    pub fn steps(&self) -> usize {
        self.sizes.len()
    }

    /// B.
    pub fn batch(&self) -> usize {
        self.order.len()
    }

    /// The number of sequences that have a position t; 0 after the last layer.
    pub fn active(&self, t: usize) -> usize {
        self.active.get(t).copied().unwrap_or(0)
    }

    /// The number of states of layer t.
    pub fn size(&self, t: usize) -> usize {
        self.sizes[t]
    }

    /// The number of states of the largest layer.
    pub fn largest(&self) -> usize {
        self.largest
    }

    /// The length of the sequence at a sorted place.
    pub fn length(&self, place: usize) -> usize {
        self.lengths[place]
    }

    /// The number of the sequence at a sorted place.
    pub fn sequence(&self, place: usize) -> usize {
        self.order[place]
    }

    /// The sorted place of sequence b.
    pub fn place(&self, b: usize) -> usize {
        self.places[b]
    }
}

/// One row for each sequence and layer of a window, each with a scale.
#[derive(Debug)]
pub(crate) struct Rows<F> {
    first: usize,
    starts: Vec<(usize, usize)>,
    sizes: Vec<usize>,
    values: Aligned<F>,
    scales: Vec<f64>,
}

impl<F: Real> Rows<F> {
    /// Rows of `fill` for the layers of `window`.
    pub fn new(layout: &Layout, window: Range<usize>, fill: F) -> Self {
        let mut rows = Rows::unset(layout, window);
        rows.values.fill(fill);
        rows
    }

    /// Uninitialised rows with zero scales.
    pub fn unset(layout: &Layout, window: Range<usize>) -> Self {
        let (mut starts, mut sizes) = (Vec::with_capacity(window.len()), Vec::with_capacity(window.len()));
        let (mut row, mut at) = (0, 0);
        for t in window.clone() {
            starts.push((row, at));
            sizes.push(layout.size(t));
            row += layout.active(t);
            at += layout.active(t) * layout.size(t);
        }
        Rows { first: window.start, starts, sizes, values: Aligned::unset(at), scales: vec![0.0; row] }
    }

    /// The row of a place at layer t.
    pub fn row(&self, place: usize, t: usize) -> &[F] {
        let (size, start) = (self.sizes[t - self.first], self.starts[t - self.first].1);
        &self.values[start + place * size..][..size]
    }

    /// The same row, mutable.
    pub fn row_mut(&mut self, place: usize, t: usize) -> &mut [F] {
        let (size, start) = (self.sizes[t - self.first], self.starts[t - self.first].1);
        &mut self.values[start + place * size..][..size]
    }

    /// The rows of layer t for the first `count` places, and their scales.
    pub fn layer_mut(&mut self, t: usize, count: usize) -> (&mut [F], &mut [f64]) {
        let (size, (row, start)) = (self.sizes[t - self.first], self.starts[t - self.first]);
        (&mut self.values[start..start + count * size], &mut self.scales[row..row + count])
    }

    /// The rows and scales of the first `count` places of layers t and t + 1; those of t + 1 are mutable.
    #[allow(clippy::type_complexity)]
    pub fn layers_mut(&mut self, t: usize, count: usize) -> ((&[F], &[f64]), (&mut [F], &mut [f64])) {
        let (size, (row, start)) = (self.sizes[t - self.first], self.starts[t - self.first]);
        let (size_after, (row_after, start_after)) =
            (self.sizes[t + 1 - self.first], self.starts[t + 1 - self.first]);
        let (rows, rows_after) = self.values.split_at_mut(start_after);
        let (scales, scales_after) = self.scales.split_at_mut(row_after);
        let before = (&rows[start..start + count * size], &scales[row..row + count]);
        (before, (&mut rows_after[..count * size_after], &mut scales_after[..count]))
    }

    /// Writes the rows of layer t for the first places.
    pub fn set_layer(&mut self, t: usize, rows: &[F]) {
        let start = self.starts[t - self.first].1;
        self.values[start..start + rows.len()].copy_from_slice(rows);
    }

    /// The scale of a row.
    pub fn scale(&self, place: usize, t: usize) -> f64 {
        self.scales[self.starts[t - self.first].0 + place]
    }

    /// Sets the scale of a row.
    pub fn set_scale(&mut self, place: usize, t: usize, scale: f64) {
        self.scales[self.starts[t - self.first].0 + place] = scale;
    }

    /// A copy of some layers.
    pub fn copied(&self, layout: &Layout, layers: Range<usize>) -> Self {
        let mut copy = Rows::new(layout, layers.clone(), F::ZERO);
        layers.for_each(|t| copy.copy_layer(self, t, layout.active(t)));
        copy
    }

    /// Copies layer t with its scales from other rows.
    pub fn copy_layer(&mut self, other: &Rows<F>, t: usize, count: usize) {
        for place in 0..count {
            self.row_mut(place, t).copy_from_slice(other.row(place, t));
            self.set_scale(place, t, other.scale(place, t));
        }
    }
}

/// Rows for leaving and for entering each position. In a chain both are the same, and `entered` is `None`.
#[derive(Debug)]
pub(crate) struct PositionRows<F> {
    pub left: Rows<F>,
    /// For semi-Markov chains: rows for the states in which a segment may start.
    pub entered: Option<Rows<F>>,
}

impl<F: Real> PositionRows<F> {
    /// The row for leaving layer t.
    pub fn row(&self, place: usize, t: usize) -> &[F] {
        self.left.row(place, t)
    }

    /// Its scale.
    pub fn scale(&self, place: usize, t: usize) -> f64 {
        self.left.scale(place, t)
    }

    /// The rows for entering.
    pub fn entered(&self) -> &Rows<F> {
        self.entered.as_ref().unwrap_or(&self.left)
    }

    /// The same rows, mutable.
    pub fn entered_mut(&mut self) -> &mut Rows<F> {
        self.entered.as_mut().unwrap_or(&mut self.left)
    }
}
