//! Scores of tags from attributes, and sums of residuals over attributes: sparse products with the table of
//! parameters, one token at a time.
//!
//! Attributes with rows are added as vectors. The parameters of the others are added one by one. For training,
//! [`Singles`] lists the latter for every token, which makes one loop of the two over attributes and tags.

use std::ops::Range;

use super::super::examples::Numbered;
use super::design::{Design, LANES};
use super::sweep::{Lane, add_scaled, multiply_add};
use crate::numeric::simd::{self, Kernel};

/// Runs `$kernel` of `$task`, compiled for its number of vectors; 0 is any number.
macro_rules! sized {
    ($kernel:ident, $task:expr, $vectors:expr) => {
        match $vectors {
            1 => simd::run($kernel::<1>($task)),
            2 => simd::run($kernel::<2>($task)),
            3 => simd::run($kernel::<3>($task)),
            4 => simd::run($kernel::<4>($task)),
            6 => simd::run($kernel::<6>($task)),
            7 => simd::run($kernel::<7>($task)),
            _ => simd::run($kernel::<0>($task)),
        }
    };
}

/// out ← the scores of all tags of some tokens.
pub(super) fn scores(design: &Design, data: &Numbered, tokens: Range<usize>, table: &[f64], out: &mut [f64]) {
    let others = row_scores(design, data, tokens.clone(), table, out);
    let split = design.starts[design.dense];
    for (token, out) in tokens.zip(out.chunks_exact_mut(design.width())) {
        for at in data.splits[token]..data.ends[token] {
            let (weight, item) = (data.weight(at), data.items[at] as usize);
            let own = design.starts[item]..design.starts[item + 1];
            let tags = &design.state_tags[own.clone()];
            for (&tag, value) in tags.iter().zip(&others[own.start - split..own.end - split]) {
                out[usize::from(tag)] += weight * value;
            }
        }
    }
}

/// out ← the scores from attributes with rows; the rest of the table is returned.
fn row_scores<'a>(
    design: &Design,
    data: &Numbered,
    tokens: Range<usize>,
    table: &'a [f64],
    out: &mut [f64],
) -> &'a [f64] {
    let (rows, others) = table.split_at(design.dense * design.width());
    let vectors = design.width() / LANES;
    let task = Scores { data, vectors, tokens, rows: rows.as_chunks().0, out: out.as_chunks_mut().0 };
    sized!(SizedScores, task, vectors);
    others
}

struct Scores<'a> {
    data: &'a Numbered,
    vectors: usize,
    tokens: Range<usize>,
    rows: &'a [Lane],
    out: &'a mut [Lane],
}

struct SizedScores<'a, const V: usize>(Scores<'a>);

impl<const V: usize> Kernel for SizedScores<'_, V> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Scores { data, vectors, tokens, rows, out } = self.0;
        let weighted = !data.weights.is_empty();
        for (token, out) in tokens.zip(out.chunks_exact_mut(vectors)) {
            let items = data.start(token)..data.splits[token];
            if V > 0 {
                let rows = rows.as_chunks::<V>().0;
                let mut sum = [[0.0; LANES]; V];
                for at in items {
                    let weight = if weighted { data.weights[at] } else { 1.0 };
                    sum = add_scaled::<FMA, V>(sum, weight, &rows[data.items[at] as usize]);
                }
                out.copy_from_slice(&sum);
            } else {
                out.fill([0.0; LANES]);
                for at in items {
                    let weight = if weighted { data.weights[at] } else { 1.0 };
                    let row = rows[data.items[at] as usize * vectors..][..vectors].as_flattened();
                    let out = out.as_flattened_mut().iter_mut().zip(row);
                    out.for_each(|(o, r)| *o = multiply_add::<FMA>(weight, *r, *o));
                }
            }
        }
    }
}

struct Spread<'a> {
    data: &'a Numbered,
    vectors: usize,
    tokens: Range<usize>,
    rows: &'a mut [Lane],
    residuals: &'a [Lane],
}

struct SizedSpread<'a, const V: usize>(Spread<'a>);

impl<const V: usize> Kernel for SizedSpread<'_, V> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Spread { data, vectors, tokens, rows, residuals } = self.0;
        let weighted = !data.weights.is_empty();
        for (token, own) in tokens.zip(residuals.chunks_exact(vectors)) {
            let items = data.start(token)..data.splits[token];
            if V > 0 {
                let rows = rows.as_chunks_mut::<V>().0;
                let mut residual = [[0.0; LANES]; V];
                residual.copy_from_slice(own);
                for at in items {
                    let weight = if weighted { data.weights[at] } else { 1.0 };
                    let row = &mut rows[data.items[at] as usize];
                    *row = add_scaled::<FMA, V>(*row, weight, &residual);
                }
            } else {
                for at in items {
                    let weight = if weighted { data.weights[at] } else { 1.0 };
                    let row = rows[data.items[at] as usize * vectors..][..vectors].as_flattened_mut();
                    let row = row.iter_mut().zip(own.as_flattened());
                    row.for_each(|(r, x)| *r = multiply_add::<FMA>(weight, *x, *r));
                }
            }
        }
    }
}

/// The parameters of attributes without rows, for every token of training data. Memory: 6 bytes for each, and 8
/// for its weight if not all are 1.
pub(super) struct Singles {
    /// The end of every token.
    ends: Vec<usize>,
    /// Places after the rows of the table.
    places: Vec<u32>,
    tags: Vec<u16>,
    /// Empty if all are 1.
    weights: Vec<f64>,
}

impl Singles {
    pub fn new(design: &Design, data: &Numbered) -> Self {
        let size = Singles::count(design, data);
        let weighted = !data.weights.is_empty();
        let mut made = Singles {
            ends: Vec::with_capacity(data.tokens()),
            places: Vec::with_capacity(size),
            tags: Vec::with_capacity(size),
            weights: Vec::with_capacity(if weighted { size } else { 0 }),
        };
        let split = design.starts[design.dense];
        for token in 0..data.tokens() {
            for at in data.splits[token]..data.ends[token] {
                let item = data.items[at] as usize;
                for k in design.starts[item]..design.starts[item + 1] {
                    made.places.push((k - split) as u32);
                    made.tags.push(design.state_tags[k]);
                    if weighted {
                        made.weights.push(data.weights[at]);
                    }
                }
            }
            made.ends.push(made.places.len());
        }
        made
    }

    /// The number of entries.
    fn count(design: &Design, data: &Numbered) -> usize {
        let of = |item: u32| design.starts[item as usize + 1] - design.starts[item as usize];
        let token =
            |t: usize| data.items[data.splits[t]..data.ends[t]].iter().map(|&item| of(item)).sum::<usize>();
        (0..data.tokens()).map(token).sum()
    }

    /// Bytes of memory.
    pub fn bytes(design: &Design, data: &Numbered) -> f64 {
        let each = if data.weights.is_empty() { 6 } else { 14 };
        (each * Singles::count(design, data) + 8 * data.tokens()) as f64
    }

    /// Calls `each` with the place, the tag and the weight of every entry of a token.
    #[inline(always)]
    fn each(&self, token: usize, mut each: impl FnMut(usize, usize, f64)) {
        let own = if token == 0 { 0 } else { self.ends[token - 1] }..self.ends[token];
        let entries = self.places[own.clone()].iter().zip(&self.tags[own.clone()]);
        if self.weights.is_empty() {
            entries.for_each(|(&place, &tag)| each(place as usize, usize::from(tag), 1.0));
        } else {
            let entries = entries.zip(&self.weights[own]);
            entries.for_each(|((&place, &tag), &weight)| each(place as usize, usize::from(tag), weight));
        }
    }

    /// out ← the scores of all tags of some tokens.
    pub fn scores(
        &self,
        design: &Design,
        data: &Numbered,
        tokens: Range<usize>,
        table: &[f64],
        out: &mut [f64],
    ) {
        let others = row_scores(design, data, tokens.clone(), table, out);
        for (token, out) in tokens.zip(out.chunks_exact_mut(design.width())) {
            self.each(token, |place, tag, weight| out[tag] += weight * others[place]);
        }
    }

    /// gradient ← gradient + Σ residuals of the tokens, for every attribute.
    pub fn spread(
        &self,
        design: &Design,
        data: &Numbered,
        tokens: Range<usize>,
        residuals: &[f64],
        gradient: &mut [f64],
    ) {
        let (rows, others) = gradient.split_at_mut(design.dense * design.width());
        let vectors = design.width() / LANES;
        let rows = rows.as_chunks_mut().0;
        let task = Spread { data, vectors, tokens: tokens.clone(), rows, residuals: residuals.as_chunks().0 };
        sized!(SizedSpread, task, vectors);
        for (token, own) in tokens.zip(residuals.chunks_exact(design.width())) {
            self.each(token, |place, tag, weight| others[place] += weight * own[tag]);
        }
    }
}
