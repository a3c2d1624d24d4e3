//! Eisner's algorithm on a few arcs.
//!
//! With right(i, j), left(i, j) and arc(h → d) as in `eisner`,
//!
//!   right(i, ·) = Σ_k arc(i → k)·right(k, ·),     left(i, j) = Σ_k left(i, k)·arc(j → k)
//!
//! run over the kept arcs only, and arc(i → j) = w(i → j)·Σ_k right(i, k)·left(k + 1, j) is needed for kept arcs
//! only. First words are taken from last to first; then everything that a row needs is known, and its sums run
//! along rows. One square array holds right(i, j) at (i, j) and left(i, j) at (j, i); both are 1 on the diagonal.
//! The derivatives of Z follow in the opposite order.
//!
//! Time O(T²·K) for K arcs into every word, memory O(T²).

use super::arcs::{ArcLogs, KeptArcs};
use crate::error::Result;
use crate::method::dynamic::tree::number::{Largest, Leading, Number, Wide, WithSlope, dot};
use crate::method::dynamic::tree::projective::SAFE;
use crate::numeric::simd::{self, Kernel};
use crate::random::Stream;
use crate::run::Clock;

/// No arc.
const NONE: u32 = u32::MAX;

/// Two words with an arc between them.
#[derive(Clone, Copy, Debug)]
struct Pair {
    /// The later word.
    last: u32,
    /// The number of the arc from the first word to the last, or `NONE`.
    right: u32,
    /// The number of the arc from the last word to the first, or `NONE`.
    left: u32,
}

/// The kept arcs in the order in which the passes need them.
pub struct Links {
    words: usize,
    single_root: bool,
    /// By first word, then by last word.
    pairs: Vec<Vec<Pair>>,
    /// By head: the dependents before it, from last to first, and the numbers of these arcs.
    before: Vec<Vec<(u32, u32)>>,
    /// The number of the arc from the root to each word, or `NONE`.
    roots: Vec<u32>,
}

impl Links {
    pub fn new(arcs: &KeptArcs, single_root: bool) -> Self {
        let n = arcs.words;
        let mut links = Links {
            words: n,
            single_root,
            pairs: vec![Vec::new(); n],
            before: vec![Vec::new(); n],
            roots: vec![NONE; n],
        };
        for (e, head, d) in arcs.list() {
            let e = e as u32;
            match head.checked_sub(1) {
                None => links.roots[d] = e,
                Some(h) if h < d => links.pairs[h].push(Pair { last: d as u32, right: e, left: NONE }),
                Some(h) => {
                    links.pairs[d].push(Pair { last: h as u32, right: NONE, left: e });
                    links.before[h].push((d as u32, e));
                }
            }
        }
        links.before.iter_mut().for_each(|own| own.reverse());
        for own in &mut links.pairs {
            own.sort_by_key(|pair| pair.last);
            own.dedup_by(|next, kept| {
                let same = next.last == kept.last;
                if same {
                    (kept.right, kept.left) = (kept.right.min(next.right), kept.left.min(next.left));
                }
                same
            });
        }
        links
    }
}

/// Numbers of the passes.
pub trait Scalar: Number {
    const ONE: Self;
    /// exp(log), with the derivative of the logarithm in a direction.
    fn weight(log: f64, slope: f64) -> Self;
    /// The logarithm, and whether it is accurate.
    fn log(self) -> (f64, bool);
    /// The value and its derivative.
    fn value(self) -> (f64, f64);
}

impl Scalar for f64 {
    const ONE: f64 = 1.0;
    fn weight(log: f64, _: f64) -> f64 {
        log.exp()
    }
    fn log(self) -> (f64, bool) {
        (self.ln(), self >= SAFE)
    }
    fn value(self) -> (f64, f64) {
        (self, 0.0)
    }
}

impl Scalar for WithSlope {
    const ONE: WithSlope = WithSlope { value: 1.0, slope: 0.0 };
    fn weight(log: f64, slope: f64) -> WithSlope {
        WithSlope { value: log.exp(), slope: log.exp() * slope }
    }
    fn log(self) -> (f64, bool) {
        Scalar::log(self.value)
    }
    fn value(self) -> (f64, f64) {
        (self.value, self.slope)
    }
}

impl Scalar for Wide {
    const ONE: Wide = Wide::ONE;
    fn weight(log: f64, _: f64) -> Wide {
        Wide::exp(log)
    }
    fn log(self) -> (f64, bool) {
        (self.ln(), true)
    }
    fn value(self) -> (f64, f64) {
        (self.ln().exp(), 0.0)
    }
}

impl Scalar for Leading {
    const ONE: Leading = Leading { order: 0, log: 0.0, slope: 0.0 };
    fn weight(log: f64, slope: f64) -> Leading {
        if log == f64::NEG_INFINITY { Leading::ZERO } else { Leading { order: 0, log, slope } }
    }
    fn log(self) -> (f64, bool) {
        (self.log, true)
    }
    fn value(self) -> (f64, f64) {
        (self.log.exp(), self.log.exp() * self.slope)
    }
}

impl Scalar for Largest {
    const ONE: Largest = Largest(0.0);
    fn weight(log: f64, _: f64) -> Largest {
        Largest(log)
    }
    fn log(self) -> (f64, bool) {
        (self.0, true)
    }
    fn value(self) -> (f64, f64) {
        (self.0, 0.0)
    }
}

/// outₖ ← outₖ + g·bₖ.
#[inline(always)]
fn add_scaled<N: Number>(g: N, b: &[N], out: &mut [N]) {
    for (out, b) in out.iter_mut().zip(b) {
        *out = out.plus(g.times(*b));
    }
}

/// The items of a sentence.
pub struct Chart<N> {
    /// T×T.
    table: Vec<N>,
    /// By arc.
    arcs: Vec<N>,
    /// The sum over trees of the first j words; T + 1 numbers.
    prefixes: Vec<N>,
    total: N,
}

/// The bytes of the passes over a sentence.
pub fn bytes(words: f64, arcs: f64, marginals: bool) -> f64 {
    let squares = if marginals { 2.0 } else { 1.0 };
    // Numbers of 16 bytes where weights underflow.
    squares * 16.0 * words * words + 128.0 * (arcs + words)
}

struct Inside<'a, N>(&'a Links, &'a [N], &'a Clock<'a>);

impl<N: Scalar> Kernel for Inside<'_, N> {
    type Output = Result<Chart<N>>;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> Self::Output {
        let Inside(links, weights, clock) = self;
        let n = links.words;
        let mut table = vec![N::ZERO; n * n];
        let mut arcs = vec![N::ZERO; weights.len()];
        let mut left = vec![N::ZERO; n];
        for i in (0..n).rev() {
            clock.check()?;
            let (head, later) = table.split_at_mut((i + 1) * n);
            let row = &mut head[i * n..];
            row[i] = N::ONE;
            for pair in &links.pairs[i] {
                let p = pair.last as usize;
                let other = &later[(p - i - 1) * n..(p - i) * n];
                let split = dot(&row[i..p], &other[i + 1..p + 1]);
                if pair.right != NONE {
                    let e = pair.right as usize;
                    arcs[e] = split.times(weights[e]);
                    add_scaled(arcs[e], &other[p..], &mut row[p..]);
                }
                if pair.left != NONE {
                    arcs[pair.left as usize] = split.times(weights[pair.left as usize]);
                }
            }
            left[i] = N::ONE;
            for j in i + 1..n {
                let mut sum = N::ZERO;
                for &(k, e) in links.before[j].iter().take_while(|(k, _)| *k as usize >= i) {
                    sum = sum.plus(left[k as usize].times(arcs[e as usize]));
                }
                left[j] = sum;
                later[(j - i - 1) * n + i] = sum;
            }
        }
        let mut prefixes = vec![N::ZERO; n + 1];
        prefixes[0] = N::ONE;
        let mut total = N::ZERO;
        for r in (0..n).filter(|&r| links.roots[r] != NONE) {
            let (e, row) = (links.roots[r] as usize, &table[r * n..(r + 1) * n]);
            if links.single_root {
                arcs[e] = row[0].times(weights[e]);
                total = total.plus(arcs[e].times(row[n - 1]));
            } else {
                arcs[e] = dot(&prefixes[..r + 1], &row[..r + 1]).times(weights[e]);
                add_scaled(arcs[e], &row[r..], &mut prefixes[r + 1..]);
            }
        }
        if !links.single_root {
            total = prefixes[n];
        }
        Ok(Chart { table, arcs, prefixes, total })
    }
}

struct Outside<'a, N>(&'a Links, &'a [N], &'a Chart<N>, &'a Clock<'a>);

impl<N: Scalar> Kernel for Outside<'_, N> {
    type Output = Result<Vec<N>>;

    /// The derivatives of Z with respect to the items of arcs.
    #[inline(always)]
    fn run<const FMA: bool>(self) -> Self::Output {
        let Outside(links, weights, chart, clock) = self;
        let n = links.words;
        let Chart { table, arcs, prefixes, .. } = chart;
        let mut out = vec![N::ZERO; n * n];
        let mut to_arcs = vec![N::ZERO; weights.len()];
        let mut to_prefixes = vec![N::ZERO; n + 1];
        to_prefixes[n] = N::ONE;
        for r in (0..n).rev().filter(|&r| links.roots[r] != NONE) {
            let (e, row) = (links.roots[r] as usize, &table[r * n..(r + 1) * n]);
            let to_row = &mut out[r * n..(r + 1) * n];
            if links.single_root {
                to_arcs[e] = row[n - 1];
                to_row[n - 1] = to_row[n - 1].plus(arcs[e]);
                to_row[0] = to_row[0].plus(to_arcs[e].times(weights[e]));
            } else {
                to_arcs[e] = dot(&to_prefixes[r + 1..], &row[r..]);
                add_scaled(arcs[e], &to_prefixes[r + 1..], &mut to_row[r..]);
                let before = to_arcs[e].times(weights[e]);
                add_scaled(before, &row[..r + 1], &mut to_prefixes[..r + 1]);
                add_scaled(before, &prefixes[..r + 1], &mut to_row[..r + 1]);
            }
        }
        let (mut left, mut to_left) = (vec![N::ZERO; n], vec![N::ZERO; n]);
        for i in 0..n {
            clock.check()?;
            for j in i..n {
                (left[j], to_left[j]) = (table[j * n + i], out[j * n + i]);
            }
            for j in (i + 1..n).rev() {
                let own = to_left[j];
                for &(k, e) in links.before[j].iter().take_while(|(k, _)| *k as usize >= i) {
                    let (k, e) = (k as usize, e as usize);
                    to_left[k] = to_left[k].plus(own.times(arcs[e]));
                    to_arcs[e] = to_arcs[e].plus(own.times(left[k]));
                }
            }
            let (head, later) = out.split_at_mut((i + 1) * n);
            let (row, to_row) = (&table[i * n..(i + 1) * n], &mut head[i * n..]);
            for pair in links.pairs[i].iter().rev() {
                let p = pair.last as usize;
                let other = &table[p * n..(p + 1) * n];
                let to_other = &mut later[(p - i - 1) * n..(p - i) * n];
                let mut split = N::ZERO;
                if pair.right != NONE {
                    let e = pair.right as usize;
                    to_arcs[e] = dot(&to_row[p..], &other[p..]);
                    add_scaled(arcs[e], &to_row[p..], &mut to_other[p..]);
                    split = to_arcs[e].times(weights[e]);
                }
                if pair.left != NONE {
                    let e = pair.left as usize;
                    split = split.plus(to_arcs[e].times(weights[e]));
                }
                add_scaled(split, &other[i + 1..p + 1], &mut to_row[i..p]);
                add_scaled(split, &row[i..p], &mut to_other[i + 1..p + 1]);
            }
        }
        Ok(to_arcs)
    }
}

/// The sums over the trees of kept arcs.
#[derive(Clone, Debug, Default)]
pub struct ArcSums {
    /// log Ẑ; −∞ if there is no tree.
    pub log_partition: f64,
    /// The probability of each kept arc, if wanted; zero if there is no tree.
    pub arcs: Vec<f64>,
    /// The derivatives of these in the direction, if there is one.
    pub slopes: Vec<f64>,
}

/// log Ẑ and, if `marginals`, the probabilities of arcs; with slopes (one per arc) their derivatives in this
/// direction.
pub fn sums(
    links: &Links,
    arcs: &ArcLogs,
    slopes: Option<&[f64]>,
    marginals: bool,
    clock: &Clock<'_>,
) -> Result<ArcSums> {
    let count = arcs.logs.len();
    let none = ArcSums {
        log_partition: f64::NEG_INFINITY,
        arcs: vec![0.0; if marginals { count } else { 0 }],
        slopes: vec![0.0; if slopes.is_some() { count } else { 0 }],
    };
    if arcs.offset == f64::NEG_INFINITY {
        return Ok(none);
    }
    let first = match slopes {
        None => sums_in::<f64>(links, arcs, None, marginals, clock)?,
        Some(_) => sums_in::<WithSlope>(links, arcs, slopes, marginals, clock)?,
    };
    let found = match (first, slopes) {
        (Some(found), _) => Some(found),
        (None, None) => sums_in::<Wide>(links, arcs, None, marginals, clock)?,
        (None, Some(_)) => sums_in::<Leading>(links, arcs, slopes, marginals, clock)?,
    };
    Ok(found.unwrap_or(none))
}

/// `None` if the sum is zero or not accurate.
fn sums_in<N: Scalar>(
    links: &Links,
    arcs: &ArcLogs,
    slopes: Option<&[f64]>,
    marginals: bool,
    clock: &Clock<'_>,
) -> Result<Option<ArcSums>> {
    let weights = weights::<N>(&arcs.logs, slopes);
    let chart = simd::run(Inside(links, &weights, clock))?;
    let (log, accurate) = chart.total.log();
    if !accurate || log == f64::NEG_INFINITY {
        return Ok(None);
    }
    let mut sums = ArcSums { log_partition: log + arcs.offset, ..ArcSums::default() };
    if marginals {
        let outside = simd::run(Outside(links, &weights, &chart, clock))?;
        let probability = |(to, arc): (N, &N)| {
            if arc.is_zero() { (0.0, 0.0) } else { to.over(chart.total).times(*arc).value() }
        };
        (sums.arcs, sums.slopes) = outside.into_iter().zip(&chart.arcs).map(probability).unzip();
    }
    Ok(Some(sums))
}

fn weights<N: Scalar>(logs: &[f64], slopes: Option<&[f64]>) -> Vec<N> {
    let slope = |e: usize| slopes.map_or(0.0, |slopes| slopes[e]);
    logs.iter().enumerate().map(|(e, &log)| N::weight(log, slope(e))).collect()
}

/// A chart from which trees are read: of sums or of best scores.
pub struct Forest<'a, N> {
    links: &'a Links,
    chart: Chart<N>,
}

/// The terms of a sum, with the words that they stand for.
pub type Terms<N> = Vec<(usize, N)>;

impl<'a, N: Scalar> Forest<'a, N> {
    /// `None` if there is no tree.
    pub fn new(links: &'a Links, logs: &[f64], clock: &Clock<'_>) -> Result<Option<Self>> {
        let weights = weights::<N>(logs, None);
        let chart = simd::run(Inside(links, &weights, clock))?;
        Ok((!chart.total.is_zero()).then_some(Forest { links, chart }))
    }

    /// The heads of a tree (0 for the root, i + 1 for word i): of every sum, `pick` chooses a term.
    pub fn tree(&self, pick: &mut impl FnMut(&Terms<N>) -> usize) -> Vec<usize> {
        let n = self.links.words;
        let Chart { table, arcs, prefixes, .. } = &self.chart;
        let mut terms = Vec::new();
        let mut pick = |terms: &mut Terms<N>| {
            let found = terms.get(pick(terms)).map_or(0, |(word, _)| *word);
            terms.clear();
            found
        };
        let mut heads = vec![0; n];
        // Subtrees to be expanded: the words from a root to an end, on one side.
        let mut open: Vec<(usize, usize)> = Vec::new();
        let mut end = n;
        while end > 0 {
            let roots = (0..end).filter(|&r| self.links.roots[r] != NONE);
            let arc = |r: usize| arcs[self.links.roots[r] as usize];
            terms.extend(roots.map(|r| (r, arc(r).times(table[r * n + end - 1]))));
            let root = pick(&mut terms);
            open.push((root, end - 1));
            let start = match self.links.single_root {
                true => 0,
                false => {
                    terms.extend((0..=root).map(|i| (i, prefixes[i].times(table[root * n + i]))));
                    pick(&mut terms)
                }
            };
            open.push((root, start));
            end = start;
        }
        while let Some((root, end)) = open.pop() {
            if root == end {
                continue;
            }
            // The dependent of the root that is furthest away on this side.
            let term = |k: u32, e: u32| (k as usize, arcs[e as usize].times(table[k as usize * n + end]));
            if root < end {
                let right = self.links.pairs[root].iter().filter(|pair| pair.right != NONE);
                let inside = right.take_while(|pair| pair.last as usize <= end);
                terms.extend(inside.map(|pair| term(pair.last, pair.right)));
            } else {
                let inside = self.links.before[root].iter().take_while(|(k, _)| *k as usize >= end);
                terms.extend(inside.map(|&(k, e)| term(k, e)));
            }
            let child = pick(&mut terms);
            heads[child] = root + 1;
            let (i, j) = (root.min(child), root.max(child));
            terms.extend((i..j).map(|k| (k, table[i * n + k].times(table[j * n + k + 1]))));
            let split = pick(&mut terms);
            open.extend([(child, end), (i, split), (j, split + 1)]);
        }
        heads
    }
}

/// A term at random.
pub fn pick_random(random: &mut Stream, buffer: &mut Vec<f64>, terms: &Terms<Wide>) -> usize {
    let top = terms.iter().map(|(_, x)| *x).reduce(Wide::larger).unwrap_or(Wide::ONE);
    buffer.clear();
    buffer.extend(terms.iter().map(|(_, x)| x.ratio(top)));
    random.categorical(buffer)
}

/// The first of the largest terms.
pub fn pick_best(terms: &Terms<Largest>) -> usize {
    let better = |best: usize, at: usize| if terms[at].1.0 > terms[best].1.0 { at } else { best };
    (0..terms.len()).reduce(better).unwrap_or(0)
}
