//! Training objective: (B(θ) − ⟨μ̂, θ⟩ + λ·(‖u‖² + ‖V‖²/1000))/N, in nats per position, where B is a bound on A(θ).
//!
//! The parameters are V_k (T × T), one weight u per offset, feature and tag, with U_m(t, w) = Σ_{f of w} u_{m, f, t}, one
//! score per word that does not depend on the tag (optional), and the dual variables of the bound. ⟨μ̂, θ⟩ is linear in
//! the parameters: its coefficients are computed from the counts once, and no evaluation looks at the corpus again.
//! With the scores of single words the frequencies of words are fitted exactly, and features need only say which tags
//! a word has.
//!
//! V is penalised little: pairs of tags are frequent, and V also has to carry the normalisers of the words, which are far
//! from 0.
//!
//! A separator has its own tag and word, and neither occurs without the other: the other scores of both are −∞.
//!
//! Cost of an evaluation: T additions per word and feature for the tables and for the derivative, and the bound.
//!
//! L-BFGS works on parameters divided by 1/√(frequency/T + 2λ/N), the inverse of the square root of the curvature when all
//! tags are equally probable.

use super::bound::{Bound, Stop};
use super::field::{Field, Slopes};
use super::training::Training;
use super::{Lexicon, Moments};
use crate::error::Result;
use crate::numeric::parallel::prelude::*;

/// The penalty of V, relative to that of the features.
const PAIRS: f64 = 1e-3;

/// Where the parameters are.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Layout {
    pub tags: usize,
    pub words: usize,
    pub context: usize,
    /// The start of the weights of each offset, and their end.
    pub features: Vec<usize>,
    /// The end of the scores of words, which are the start of the dual variables.
    pub bias: usize,
}

impl Layout {
    pub fn new(lexicon: &Lexicon, tags: usize, context: usize, bias: bool) -> Self {
        let mut end = context * tags * tags;
        let mut features = vec![end];
        for own in &lexicon.features {
            end += own.names.len() * tags;
            features.push(end);
        }
        let bias = end + if bias { lexicon.len() } else { 0 };
        Layout { tags, words: lexicon.len(), context, features, bias }
    }

    fn penalised(&self) -> usize {
        self.features.last().copied().unwrap_or(0)
    }
}

/// The tables of scores at a point.
pub(super) fn field(layout: &Layout, lexicon: &Lexicon, point: &[f64]) -> Result<Field> {
    let Layout { tags, words, .. } = *layout;
    let square = tags * tags;
    let pairs = point[..layout.context * square].chunks_exact(square).map(<[f64]>::to_vec).collect();
    let mut emissions = Vec::with_capacity(lexicon.window());
    for (m, features) in lexicon.features.iter().enumerate() {
        let mut table = vec![0.0; words * tags];
        features.of_words.sums(&point[layout.features[m]..layout.features[m + 1]], tags, &mut table);
        emissions.push(table);
    }
    let centre = &mut emissions[lexicon.window() / 2];
    let bias = &point[layout.penalised()..layout.bias];
    for (row, bias) in centre.chunks_exact_mut(tags).zip(bias) {
        row.iter_mut().for_each(|x| *x += bias);
    }
    for (word, row) in centre.chunks_exact_mut(tags).enumerate() {
        if word == 0 {
            row[..tags - 1].fill(f64::NEG_INFINITY);
        } else {
            row[tags - 1] = f64::NEG_INFINITY;
        }
    }
    Field::new(tags, words, pairs, emissions)
}

/// The objective of a corpus.
pub(super) struct Objective<'a> {
    lexicon: &'a Lexicon,
    pub layout: Layout,
    bound: Bound,
    length: usize,
    /// 2λ/N.
    l2: f64,
    /// μ̂/N for all parameters except the dual variables.
    data: Vec<f64>,
    /// The factor between the parameters and the point of the search.
    scale: Vec<f64>,
    slopes: Slopes,
}

impl<'a> Objective<'a> {
    pub fn new(moments: &Moments, lexicon: &'a Lexicon, bound: Bound, how: &Training) -> Result<Self> {
        let (l2, bias) = (2.0 * how.l2 / moments.length() as f64, how.word_scores);
        let tags = moments.tags();
        let layout = Layout::new(lexicon, tags, moments.context(), bias);
        let n = moments.length() as f64;
        let mut data = vec![0.0; layout.bias];
        let mut scale = vec![0.0; layout.bias];
        let unit = |frequency: f64| (frequency + l2 + 1e-9).sqrt().recip();
        let square = tags * tags;
        let single: Vec<f64> =
            moments.pairs[0].chunks_exact(tags).map(|row| row.iter().sum::<u64>() as f64 / n).collect();
        for k in 0..layout.context {
            data[k * square..(k + 1) * square].copy_from_slice(&moments.pair_shares(k));
            let to = scale[k * square..(k + 1) * square].iter_mut().enumerate();
            to.for_each(|(i, s)| *s = unit(single[i / tags] * single[i % tags]));
        }
        for (m, features) in lexicon.features.iter().enumerate() {
            let range = layout.features[m]..layout.features[m + 1];
            let to = &mut data[range.clone()];
            for &(word, tag, count) in &moments.emissions[m] {
                for &f in features.of_words.row(word as usize) {
                    to[f as usize * tags + tag as usize] += count as f64 / n;
                }
            }
            for (to, own) in scale[range.clone()].chunks_exact_mut(tags).zip(data[range].chunks_exact(tags)) {
                to.fill(unit(own.iter().sum::<f64>() / tags as f64));
            }
        }
        if bias {
            let each = data[layout.penalised()..].iter_mut().zip(&mut scale[layout.penalised()..]);
            for ((d, s), &count) in each.zip(&moments.words) {
                *d = count as f64 / n;
                *s = unit(*d);
            }
        }
        let empty = field(&layout, lexicon, &vec![0.0; layout.bias])?;
        let duals = bound.duals(&empty);
        let mut own = vec![1.0; duals];
        for column in own[bound.word_duals(&empty)].chunks_exact_mut(lexicon.len()) {
            column.iter_mut().zip(&moments.words).for_each(|(s, &count)| *s = unit(count as f64 / n));
        }
        scale.extend(own);
        let slopes = Slopes::new(&empty, duals);
        Ok(Objective { lexicon, layout, bound, length: moments.length(), l2, data, scale, slopes })
    }

    /// The point of the search at which training starts: tags as a Markov chain, words independent of tags.
    pub fn begin(&self, moments: &Moments) -> Result<Vec<f64>> {
        let tags = self.layout.tags;
        let mut point = vec![0.0; self.layout.bias];
        let shares = moments.pair_shares(0);
        let smallest = 0.1 / self.length as f64;
        for (to, row) in point[..tags * tags].chunks_exact_mut(tags).zip(shares.chunks_exact(tags)) {
            let total: f64 = row.iter().sum::<f64>() + smallest * tags as f64;
            to.iter_mut().zip(row).for_each(|(t, p)| *t = ((p + smallest) / total).ln());
        }
        let words = moments.log_words();
        let bias = self.layout.penalised();
        if self.layout.bias > bias {
            point[bias..].copy_from_slice(&words);
        }
        let field = field(&self.layout, self.lexicon, &point)?;
        let words = if self.layout.bias > bias { words } else { vec![0.0; words.len()] };
        point.extend(self.bound.start(&field, &words));
        Ok(point.iter().zip(&self.scale).map(|(x, s)| x / s).collect())
    }

    /// The parameters at a point of the search.
    pub fn parameters(&self, z: &[f64]) -> Vec<f64> {
        z.iter().zip(&self.scale).map(|(z, s)| z * s).collect()
    }

    /// The value at a point of the search; its gradient is written to `gradient`.
    pub fn evaluate(&mut self, z: &[f64], gradient: &mut [f64], stop: Stop<'_>) -> Result<f64> {
        let point = self.parameters(z);
        let layout = &self.layout;
        let tags = layout.tags;
        let field = field(layout, self.lexicon, &point)?;
        let duals = &point[layout.bias..];
        let found = self.bound.evaluate(&field, self.length, duals, Some(&mut self.slopes), stop)?;
        if !found.value.is_finite() {
            return Ok(f64::INFINITY);
        }
        let square = tags * tags;
        for (to, slopes) in gradient.chunks_exact_mut(square).zip(&self.slopes.pairs) {
            to.copy_from_slice(slopes);
        }
        for (m, features) in self.lexicon.features.iter().enumerate() {
            let to = &mut gradient[layout.features[m]..layout.features[m + 1]];
            features.words_of.sums(&self.slopes.emissions[m], tags, to);
        }
        let centre = &self.slopes.emissions[self.lexicon.window() / 2];
        let to = &mut gradient[layout.penalised()..layout.bias];
        to.iter_mut().zip(centre.chunks_exact(tags)).for_each(|(t, row)| *t = row.iter().sum());
        gradient[layout.bias..].copy_from_slice(&self.slopes.duals);
        let (of_pairs, penalised, l2) = (layout.features[0], layout.penalised(), self.l2);
        // Blocks of fixed length, so that the sum does not depend on the number of threads.
        const PART: usize = 1 << 14;
        let (own, rest) = gradient.split_at_mut(layout.bias);
        let parts: Vec<f64> = own
            .par_chunks_mut(PART)
            .enumerate()
            .map(|(block, to)| {
                let first = block * PART;
                let mut sum = 0.0;
                for (i, g) in to.iter_mut().enumerate() {
                    let (i, x) = (first + i, point[first + i]);
                    sum -= self.data[i] * x;
                    *g -= self.data[i];
                    if i < penalised {
                        let l2 = if i < of_pairs { PAIRS * l2 } else { l2 };
                        sum += 0.5 * l2 * x * x;
                        *g += l2 * x;
                    }
                    *g *= self.scale[i];
                }
                sum
            })
            .collect();
        rest.iter_mut().zip(&self.scale[layout.bias..]).for_each(|(g, s)| *g *= s);
        Ok(found.value + parts.iter().sum::<f64>())
    }
}
