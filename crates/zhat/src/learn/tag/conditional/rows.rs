//! Scores of tags from attributes, and sums of residuals over attributes: sparse products with the table of
//! parameters, one token at a time.

// The compiler unrolls counted loops over arrays of registers.
#![allow(clippy::needless_range_loop)]

use std::ops::Range;

use super::super::examples::Numbered;
use super::design::{Design, LANES};
use super::sweep::{Lane, multiply_add};
use crate::numeric::simd::{self, Kernel};

/// out ← the scores of all tags of some tokens.
pub(super) fn scores(design: &Design, data: &Numbered, tokens: Range<usize>, table: &[f64], out: &mut [f64]) {
    let rows = design.dense * design.width();
    let (rows, others) = table.split_at(rows);
    let rows = rows.as_chunks::<LANES>().0;
    let task = Scores { design, data, tokens, rows, others, out };
    match design.width() / LANES {
        1 => simd::run(SizedScores::<1>(task)),
        2 => simd::run(SizedScores::<2>(task)),
        3 => simd::run(SizedScores::<3>(task)),
        4 => simd::run(SizedScores::<4>(task)),
        6 => simd::run(SizedScores::<6>(task)),
        7 => simd::run(SizedScores::<7>(task)),
        _ => simd::run(SizedScores::<0>(task)),
    }
}

/// gradient ← gradient + Σ residuals of the tokens, for every attribute.
pub(super) fn spread(
    design: &Design,
    data: &Numbered,
    tokens: Range<usize>,
    residuals: &[f64],
    gradient: &mut [f64],
) {
    let (rows, others) = gradient.split_at_mut(design.dense * design.width());
    let rows = rows.as_chunks_mut::<LANES>().0;
    let task = Spread { design, data, tokens, rows, others, residuals };
    match design.width() / LANES {
        1 => simd::run(SizedSpread::<1>(task)),
        2 => simd::run(SizedSpread::<2>(task)),
        3 => simd::run(SizedSpread::<3>(task)),
        4 => simd::run(SizedSpread::<4>(task)),
        6 => simd::run(SizedSpread::<6>(task)),
        7 => simd::run(SizedSpread::<7>(task)),
        _ => simd::run(SizedSpread::<0>(task)),
    }
}

struct Scores<'a> {
    design: &'a Design,
    data: &'a Numbered,
    tokens: Range<usize>,
    rows: &'a [Lane],
    others: &'a [f64],
    out: &'a mut [f64],
}

struct SizedScores<'a, const V: usize>(Scores<'a>);

impl<const V: usize> Kernel for SizedScores<'_, V> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Scores { design, data, tokens, rows, others, out } = self.0;
        let vectors = if V == 0 { design.width() / LANES } else { V };
        let (split, weighted) = (design.starts[design.dense], !data.weights.is_empty());
        let mut start = data.start(tokens.start);
        for (token, out) in tokens.zip(out.chunks_exact_mut(vectors * LANES)) {
            let (middle, end) = (data.splits[token], data.ends[token]);
            if V > 0 {
                let mut sum = [[0.0; LANES]; V];
                for at in start..middle {
                    let weight = if weighted { data.weights[at] } else { 1.0 };
                    let row = &rows[data.items[at] as usize * V..][..V];
                    for v in 0..V {
                        for l in 0..LANES {
                            sum[v][l] = multiply_add::<FMA>(weight, row[v][l], sum[v][l]);
                        }
                    }
                }
                out.copy_from_slice(sum.as_flattened());
            } else {
                out.fill(0.0);
                for at in start..middle {
                    let weight = if weighted { data.weights[at] } else { 1.0 };
                    let row = rows[data.items[at] as usize * vectors..][..vectors].as_flattened();
                    out.iter_mut().zip(row).for_each(|(o, r)| *o = multiply_add::<FMA>(weight, *r, *o));
                }
            }
            for at in middle..end {
                let weight = if weighted { data.weights[at] } else { 1.0 };
                let item = data.items[at] as usize;
                let own = design.starts[item]..design.starts[item + 1];
                let tags = &design.state_tags[own.clone()];
                for (&tag, value) in tags.iter().zip(&others[own.start - split..own.end - split]) {
                    let place = &mut out[usize::from(tag)];
                    *place = multiply_add::<FMA>(weight, *value, *place);
                }
            }
            start = end;
        }
    }
}

struct Spread<'a> {
    design: &'a Design,
    data: &'a Numbered,
    tokens: Range<usize>,
    rows: &'a mut [Lane],
    others: &'a mut [f64],
    residuals: &'a [f64],
}

struct SizedSpread<'a, const V: usize>(Spread<'a>);

impl<const V: usize> Kernel for SizedSpread<'_, V> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Spread { design, data, tokens, rows, others, residuals } = self.0;
        let vectors = if V == 0 { design.width() / LANES } else { V };
        let (split, weighted) = (design.starts[design.dense], !data.weights.is_empty());
        let mut start = data.start(tokens.start);
        for (token, own) in tokens.zip(residuals.chunks_exact(vectors * LANES)) {
            let (middle, end) = (data.splits[token], data.ends[token]);
            let residual = own.as_chunks::<LANES>().0;
            for at in start..middle {
                let weight = if weighted { data.weights[at] } else { 1.0 };
                let row = &mut rows[data.items[at] as usize * vectors..][..vectors];
                for v in 0..vectors {
                    for l in 0..LANES {
                        row[v][l] = multiply_add::<FMA>(weight, residual[v][l], row[v][l]);
                    }
                }
            }
            for at in middle..end {
                let weight = if weighted { data.weights[at] } else { 1.0 };
                let item = data.items[at] as usize;
                let range = design.starts[item]..design.starts[item + 1];
                let tags = &design.state_tags[range.clone()];
                let sums = &mut others[range.start - split..range.end - split];
                for (&tag, sum) in tags.iter().zip(sums) {
                    *sum = multiply_add::<FMA>(weight, own[usize::from(tag)], *sum);
                }
            }
            start = end;
        }
    }
}
