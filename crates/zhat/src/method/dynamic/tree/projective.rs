//! Sums over projective trees for groups of sentences, in the linear domain where that is safe.
//!
//! Weights are normalised, so inside and outside values are at most 1, and a value that underflows is below
//! 2⁻¹⁰²². If Z ≥ 2⁻⁹⁰⁰, what underflows is less than 2⁻¹⁰⁰ of Z, for sentences of any practical length.
//! Sentences with a smaller Z are done again in the log domain.

use super::eisner::{Chart, Weights, inside, outside};
use super::sentence::{Sentence, Sums};
use crate::error::Result;
use crate::numeric;
use crate::numeric::semiring::{Best, Dual, LANES, Lane, Linear, Log, Semiring};
use crate::random::Stream;
use crate::run::Clock;

/// The smallest sum that is accurate in the linear domain: 2⁻⁹⁰⁰.
pub const SAFE: f64 = 1.183_052_186_166_774_7e-271;

/// A semiring with the values of a prepared sentence.
pub trait Domain: Semiring {
    /// Whether values have derivatives.
    const SLOPES: bool = false;
    /// Log weights in the form that [`Domain::weight`] takes.
    fn prepared(logs: &[f64]) -> Vec<f64>;
    /// The weight of an arc with this prepared weight and slope, in one lane.
    fn weight(to: Self::Value, lane: usize, weight: f64, slope: f64) -> Self::Value;
    /// The logarithm of one lane, and whether it is accurate.
    fn log(value: Self::Value, lane: usize) -> (f64, bool);
    /// P = a·b / z in one lane, and its derivative.
    fn probability(a: Self::Value, b: Self::Value, z: Self::Value, lane: usize) -> (f64, f64);
}

impl Domain for Linear {
    fn prepared(logs: &[f64]) -> Vec<f64> {
        let mut weights = logs.to_vec();
        numeric::exp_in_place(&mut weights);
        weights
    }
    fn weight(mut to: Lane, lane: usize, weight: f64, _: f64) -> Lane {
        to[lane] = weight;
        to
    }
    fn log(value: Lane, lane: usize) -> (f64, bool) {
        (value[lane].ln(), value[lane] >= SAFE)
    }
    fn probability(a: Lane, b: Lane, z: Lane, lane: usize) -> (f64, f64) {
        (a[lane] / z[lane] * b[lane], 0.0)
    }
}

impl Domain for Log {
    fn prepared(logs: &[f64]) -> Vec<f64> {
        logs.to_vec()
    }
    fn weight(mut to: Lane, lane: usize, log: f64, _: f64) -> Lane {
        to[lane] = log;
        to
    }
    fn log(value: Lane, lane: usize) -> (f64, bool) {
        (value[lane], true)
    }
    fn probability(a: Lane, b: Lane, z: Lane, lane: usize) -> (f64, f64) {
        ((a[lane] + b[lane] - z[lane]).exp(), 0.0)
    }
}

impl Domain for Best {
    fn prepared(logs: &[f64]) -> Vec<f64> {
        logs.to_vec()
    }
    fn weight(to: Lane, lane: usize, log: f64, slope: f64) -> Lane {
        Log::weight(to, lane, log, slope)
    }
    fn log(value: Lane, lane: usize) -> (f64, bool) {
        (value[lane], true)
    }
    fn probability(a: Lane, b: Lane, z: Lane, lane: usize) -> (f64, f64) {
        (if a[lane] + b[lane] == z[lane] { 1.0 } else { 0.0 }, 0.0)
    }
}

impl Domain for Dual<Linear> {
    const SLOPES: bool = true;

    fn prepared(logs: &[f64]) -> Vec<f64> {
        let mut weights = logs.to_vec();
        numeric::exp_in_place(&mut weights);
        weights
    }
    fn weight(mut to: [Lane; 2], lane: usize, weight: f64, slope: f64) -> [Lane; 2] {
        to[0][lane] = weight;
        to[1][lane] = weight * slope;
        to
    }
    fn log(value: [Lane; 2], lane: usize) -> (f64, bool) {
        Linear::log(value[0], lane)
    }
    fn probability(a: [Lane; 2], b: [Lane; 2], z: [Lane; 2], lane: usize) -> (f64, f64) {
        let (own, total) = (a[0][lane] / z[0][lane] * b[0][lane], z[1][lane] / z[0][lane]);
        let slope = (a[1][lane] / z[0][lane]) * b[0][lane] + (a[0][lane] / z[0][lane]) * b[1][lane];
        (own, slope - own * total)
    }
}

impl Domain for Dual<Log> {
    const SLOPES: bool = true;

    fn prepared(logs: &[f64]) -> Vec<f64> {
        logs.to_vec()
    }
    fn weight(mut to: [Lane; 2], lane: usize, log: f64, slope: f64) -> [Lane; 2] {
        to[0][lane] = log;
        to[1][lane] = slope;
        to
    }
    fn log(value: [Lane; 2], lane: usize) -> (f64, bool) {
        (value[0][lane], true)
    }
    fn probability(a: [Lane; 2], b: [Lane; 2], z: [Lane; 2], lane: usize) -> (f64, f64) {
        let own = (a[0][lane] + b[0][lane] - z[0][lane]).exp();
        (own, own * (a[1][lane] + b[1][lane] - z[1][lane]))
    }
}

/// The weights of up to [`LANES`] sentences.
pub fn weights<S: Domain>(sentences: &[Option<&Sentence>], single_root: bool) -> Weights<S> {
    let words = sentences.iter().flatten().map(|sentence| sentence.words).max().unwrap_or(0);
    let mut lengths = [0; LANES];
    let (mut arcs, mut roots) = (vec![S::ZERO; words * words], vec![S::ZERO; words]);
    for (lane, sentence) in sentences.iter().enumerate() {
        let Some(sentence) = sentence.filter(|sentence| sentence.offset > f64::NEG_INFINITY) else {
            continue;
        };
        let n = sentence.words;
        lengths[lane] = n;
        let slope = |slopes: &[f64], i: usize| slopes.get(i).copied().unwrap_or(0.0);
        let (own_arcs, own_roots) = (S::prepared(&sentence.arcs), S::prepared(&sentence.roots));
        for (d, (to, &weight)) in roots.iter_mut().zip(&own_roots).enumerate() {
            *to = S::weight(*to, lane, weight, slope(&sentence.root_slopes, d));
        }
        for h in 0..n {
            let (row, from) = (&mut arcs[h * words..h * words + n], h * n);
            for (d, (to, &weight)) in row.iter_mut().zip(&own_arcs[from..from + n]).enumerate() {
                *to = S::weight(*to, lane, weight, slope(&sentence.arc_slopes, from + d));
            }
        }
    }
    Weights { words, lengths, arcs, roots, single_root }
}

/// log Z of up to [`LANES`] sentences and, if `marginals`, the probabilities of arcs; with `slopes` their
/// derivatives in the direction of the sentences.
pub fn sums(
    sentences: &[Sentence],
    single_root: bool,
    marginals: bool,
    slopes: bool,
    clock: &Clock<'_>,
) -> Result<Vec<Sums>> {
    let all: Vec<Option<&Sentence>> = sentences.iter().map(Some).collect();
    let first = match slopes {
        false => sums_in::<Linear>(&all, single_root, marginals, clock)?,
        true => sums_in::<Dual<Linear>>(&all, single_root, marginals, clock)?,
    };
    let unsafe_ones: Vec<Option<&Sentence>> =
        sentences.iter().zip(&first).map(|(own, sums)| sums.is_none().then_some(own)).collect();
    let second = match (unsafe_ones.iter().any(Option::is_some), slopes) {
        (false, _) => Vec::new(),
        (true, false) => sums_in::<Log>(&unsafe_ones, single_root, marginals, clock)?,
        (true, true) => sums_in::<Dual<Log>>(&unsafe_ones, single_root, marginals, clock)?,
    };
    let mut second = second.into_iter();
    let of = |(own, sums): (&Sentence, Option<Sums>)| {
        let again = second.next().flatten();
        sums.or(again).unwrap_or_else(|| Sums::none(own.words))
    };
    Ok(sentences.iter().zip(first).map(of).collect())
}

/// The sums of each sentence, `None` where they are not accurate or there is no tree.
fn sums_in<S: Domain>(
    sentences: &[Option<&Sentence>],
    single_root: bool,
    marginals: bool,
    clock: &Clock<'_>,
) -> Result<Vec<Option<Sums>>> {
    let weights = weights::<S>(sentences, single_root);
    let (chart, total) = inside(&weights, clock)?;
    let out = if marginals { Some(outside(&weights, &chart, clock)?) } else { None };
    let n = weights.words;
    let of = |(lane, sentence): (usize, &Option<&Sentence>)| {
        let sentence = sentence.filter(|_| weights.lengths[lane] > 0)?;
        let (log, accurate) = S::log(total, lane);
        if !accurate || log == f64::NEG_INFINITY {
            return None;
        }
        let mut sums = Sums { log_partition: log + sentence.offset, ..Sums::default() };
        if let Some(out) = &out {
            let probability =
                |a: &[S::Value], b: &[S::Value], at: usize| S::probability(a[at], b[at], total, lane);
            let t = sentence.words;
            let push = |(own, slope): (f64, f64), probabilities: &mut Vec<f64>, slopes: &mut Vec<f64>| {
                probabilities.push(own);
                if S::SLOPES {
                    slopes.push(slope);
                }
            };
            sums.arcs.reserve_exact(t * t);
            for h in 0..t {
                for d in 0..t {
                    let own =
                        if h == d { (0.0, 0.0) } else { probability(&out.arcs, &chart.arcs, h * n + d) };
                    push(own, &mut sums.arcs, &mut sums.arc_slopes);
                }
            }
            for d in 0..t {
                let own = probability(&out.root_arcs, &chart.root_arcs, d);
                push(own, &mut sums.roots, &mut sums.root_slopes);
            }
        }
        Some(sums)
    };
    Ok(sentences.iter().enumerate().map(of).collect())
}

/// The number of bytes that a group of sentences needs.
pub fn bytes(words: usize, marginals: bool, slopes: bool) -> usize {
    let charts = if marginals { 2 } else { 1 };
    let (chart, weight) = match slopes {
        false => (Chart::<Linear>::bytes(words), size_of::<Lane>()),
        true => (Chart::<Dual<Linear>>::bytes(words), 2 * size_of::<Lane>()),
    };
    charts * chart + weight * (words + 1) * words
}

/// The factors of every term of a sum.
pub type Terms<'a> = &'a mut dyn Iterator<Item = (f64, f64)>;

/// A chart from which trees are read: of the best scores or of sums.
pub struct Forest<S: Domain> {
    weights: Weights<S>,
    chart: Chart<S>,
    total: S::Value,
}

impl<S: Domain<Value = Lane>> Forest<S> {
    pub fn new(sentences: &[Option<&Sentence>], single_root: bool, clock: &Clock<'_>) -> Result<Self> {
        let weights = weights::<S>(sentences, single_root);
        let (chart, total) = inside(&weights, clock)?;
        Ok(Forest { weights, chart, total })
    }

    /// The value of the sum over all trees of a sentence.
    pub fn total(&self, lane: usize) -> f64 {
        self.total[lane]
    }

    /// The heads of a tree: each sum chooses one of its terms by `pick`, which gets the factors of every
    /// term.
    pub fn tree(&self, lane: usize, pick: &mut impl FnMut(Terms<'_>) -> usize) -> Vec<usize> {
        let (n, t) = (self.weights.words, self.weights.lengths[lane]);
        let Chart { right, left, arcs, root_arcs, prefixes } = &self.chart;
        let mut heads = vec![0; t];
        // A subtree to be expanded: the words from root to end, on one side.
        let mut open: Vec<(usize, usize)> = Vec::new();
        let mut term = |a: &[Lane], b: &[Lane]| pick(&mut a.iter().zip(b).map(|(a, b)| (a[lane], b[lane])));
        if self.weights.single_root {
            let last = (t - 1) * n;
            let root = term(&root_arcs[..t], &right[last..last + t]);
            open.extend([(root, 0), (root, t - 1)]);
        } else {
            let mut end = t;
            while end > 0 {
                let j = end - 1;
                let root = term(&root_arcs[..end], &right[j * n..j * n + end]);
                open.push((root, j));
                let start = term(&prefixes[..root + 1], &left[root * n..root * n + root + 1]);
                open.push((root, start));
                end = start;
            }
        }
        while let Some((root, end)) = open.pop() {
            if root == end {
                continue;
            }
            let (i, j) = (root.min(end), root.max(end));
            let (row_i, row_j) = (i * n, j * n);
            // The dependent of the root that is furthest away on this side.
            let child = if root < end {
                let (a, b) = (row_i + i + 1..row_i + j + 1, row_j + i + 1..row_j + j + 1);
                i + 1 + term(&arcs[a], &right[b])
            } else {
                i + term(&left[row_i + i..row_i + j], &arcs[row_j + i..row_j + j])
            };
            heads[child] = root + 1;
            let (i, j) = (root.min(child), root.max(child));
            let split = i + term(&right[i * n + i..i * n + j], &left[j * n + i + 1..j * n + j + 1]);
            open.extend([(child, end), (i, split), (j, split + 1)]);
        }
        heads
    }
}

/// The first term with the largest value.
pub fn pick_best(terms: Terms<'_>) -> usize {
    let mut best = (0, f64::NEG_INFINITY);
    for (i, (a, b)) in terms.enumerate() {
        if a + b > best.1 {
            best = (i, a + b);
        }
    }
    best.0
}

/// A term at random, from factors in the linear domain or, with `log`, in the log domain.
pub fn pick_random(random: &mut Stream, log: bool, buffer: &mut Vec<f64>, terms: Terms<'_>) -> usize {
    buffer.clear();
    if log {
        buffer.extend(terms.map(|(a, b)| a + b));
        let top = buffer.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        buffer.iter_mut().for_each(|x| *x = (*x - top).exp());
    } else {
        // Both factors may be tiny; scaled by the largest, their products do not underflow.
        let pairs: Vec<(f64, f64)> = terms.collect();
        let top = pairs.iter().fold(0.0, |top: f64, (a, _)| top.max(*a));
        buffer.extend(pairs.into_iter().map(|(a, b)| a / top * b));
    }
    random.categorical(buffer)
}
