//! Sums over all trees of a sentence and samples from them, by elimination of words.
//!
//! The linear domain is used where it is safe. Z is linear in every number of an elimination, and its
//! derivative is a probability, because weights are normalised. A number that underflows, and is therefore
//! below 2⁻¹⁰²², changes Z by less than that, which is nothing for Z ≥ 2⁻⁹⁰⁰. Other sentences are done again
//! with logarithms. In the linear domain ε is 2⁻⁵⁰⁰: trees with more than one root add at most ε² to a sum of
//! εZ ≥ 2⁻⁹⁰⁰.

use super::elimination::Walk;
use super::number::{Leading, Number, WithSlope};
use super::sentence::{Sentence, Sums};
use crate::error::Result;
use crate::numeric;
use crate::random::Stream;
use crate::run::Clock;

/// The exponent of ε in the linear domain.
const EPSILON_EXPONENT: i64 = -500;

/// The exponent of the smallest sum that is accurate in the linear domain.
const SAFE_EXPONENT: i64 = -900;

/// A number that a sentence's log weights are converted to.
trait Weight: Number {
    /// The weight exp(log), times ε if `root`, with the derivative of its logarithm.
    fn new(log: f64, slope: f64, root: bool) -> Self;
    /// The same for many; there may be no slopes.
    fn all(logs: &[f64], slopes: &[f64], root: bool) -> Vec<Self> {
        let slope = |at: usize| slopes.get(at).copied().unwrap_or(0.0);
        logs.iter().enumerate().map(|(at, &log)| Self::new(log, slope(at), root)).collect()
    }
    /// The logarithm, without the factor ε if `single`; `None` if it is not accurate.
    fn log_of_product(product: &[Self], single: bool) -> Option<f64>;
    /// part / total as a number, and its derivative.
    fn share(part: Self, total: Self) -> (f64, f64);
}

impl Weight for f64 {
    fn new(log: f64, _: f64, root: bool) -> f64 {
        if root { log.exp() * 2f64.powi(EPSILON_EXPONENT as i32) } else { log.exp() }
    }
    fn all(logs: &[f64], _: &[f64], root: bool) -> Vec<f64> {
        let mut weights = logs.to_vec();
        numeric::exp_in_place(&mut weights);
        if root {
            weights.iter_mut().for_each(|x| *x *= 2f64.powi(EPSILON_EXPONENT as i32));
        }
        weights
    }
    fn log_of_product(product: &[f64], single: bool) -> Option<f64> {
        // Mantissa and exponent apart: the exponent of ε is taken off without rounding.
        let (mut mantissa, mut exponent) = (1.0, 0i64);
        for x in product {
            mantissa *= x;
            let own = ((mantissa.to_bits() >> 52) & 0x7ff) as i64 - 1023;
            mantissa *= 2f64.powi(-own as i32);
            exponent += own;
        }
        let safe = exponent >= SAFE_EXPONENT && mantissa > 0.0;
        let exponent = if single { exponent - EPSILON_EXPONENT } else { exponent };
        safe.then(|| mantissa.ln() + exponent as f64 * std::f64::consts::LN_2)
    }
    fn share(part: f64, total: f64) -> (f64, f64) {
        (part / total, 0.0)
    }
}

impl Weight for WithSlope {
    fn new(log: f64, slope: f64, root: bool) -> WithSlope {
        let value = f64::new(log, 0.0, root);
        WithSlope { value, slope: value * slope }
    }
    fn log_of_product(product: &[WithSlope], single: bool) -> Option<f64> {
        let values: Vec<f64> = product.iter().map(|x| x.value).collect();
        f64::log_of_product(&values, single)
    }
    fn share(part: WithSlope, total: WithSlope) -> (f64, f64) {
        let share = part.over(total);
        (share.value, share.slope)
    }
}

impl Weight for Leading {
    fn new(log: f64, slope: f64, root: bool) -> Leading {
        if log == f64::NEG_INFINITY { Leading::ZERO } else { Leading { order: i32::from(root), log, slope } }
    }
    fn log_of_product(product: &[Leading], single: bool) -> Option<f64> {
        let order: i32 = product.iter().map(|x| x.order).sum();
        let possible = !single || order == 1;
        Some(if possible { product.iter().map(|x| x.log).sum() } else { f64::NEG_INFINITY })
    }
    fn share(part: Leading, total: Leading) -> (f64, f64) {
        let share = part.over(total);
        let value = share.limit();
        (value, value * share.slope)
    }
}

/// log Z and, if `marginals`, the probabilities of arcs; with `slopes` their derivatives in the direction of
/// the sentence.
pub fn sums(
    sentence: &Sentence,
    single_root: bool,
    marginals: bool,
    slopes: bool,
    clock: &Clock<'_>,
) -> Result<Sums> {
    let none = || match marginals {
        true => Sums::none(sentence.words),
        false => Sums { log_partition: f64::NEG_INFINITY, ..Sums::default() },
    };
    if sentence.offset == f64::NEG_INFINITY {
        return Ok(none());
    }
    let first = match slopes {
        false => sums_in::<f64>(sentence, single_root, marginals, clock)?,
        true => sums_in::<WithSlope>(sentence, single_root, marginals, clock)?,
    };
    let found = match first {
        Some(found) => Some(found),
        None => sums_in::<Leading>(sentence, single_root, marginals, clock)?,
    };
    Ok(found.unwrap_or_else(none))
}

/// `None` if the sum is not accurate in this domain, or there is no tree.
fn sums_in<N: Weight>(
    sentence: &Sentence,
    single_root: bool,
    marginals: bool,
    clock: &Clock<'_>,
) -> Result<Option<Sums>> {
    let n = sentence.words;
    let roots = N::all(&sentence.roots, &sentence.root_slopes, single_root);
    let arcs = N::all(&sentence.arcs, &sentence.arc_slopes, false);
    let walk = Walk::new(n, |d, h| if h == n { roots[d] } else { arcs[h * n + d] });
    let total = |leaving: &[N]| match N::log_of_product(leaving, single_root) {
        Some(log) => log + sentence.offset,
        None => f64::NEG_INFINITY,
    };
    if !marginals {
        let log_partition = walk.leaving(clock)?.map_or(f64::NEG_INFINITY, |leaving| total(&leaving));
        return Ok((log_partition > f64::NEG_INFINITY).then(|| Sums { log_partition, ..Sums::default() }));
    }
    let Some(reach) = walk.reach(clock)? else { return Ok(None) };
    let mut sums = Sums::none(n);
    sums.log_partition = total(&reach.leaving);
    if sums.log_partition == f64::NEG_INFINITY {
        return Ok(None);
    }
    // P(head of v = h) ∝ p(v, h)·reach(h, v), by rows of heads.
    let (mut parts, mut totals) = (arcs, roots.clone());
    for (row, reach) in parts.chunks_exact_mut(n).zip(reach.values.chunks_exact(reach.stride)) {
        for ((part, &reach), total) in row.iter_mut().zip(reach).zip(&mut totals) {
            *part = part.times(reach);
            *total = total.plus(*part);
        }
    }
    let share = |part: N, total: N| if part.is_zero() { (0.0, 0.0) } else { N::share(part, total) };
    for (v, (&root, &total)) in roots.iter().zip(&totals).enumerate() {
        (sums.roots[v], sums.root_slopes[v]) = share(root, total);
    }
    let rows = sums.arcs.chunks_exact_mut(n).zip(sums.arc_slopes.chunks_exact_mut(n));
    for ((arcs, slopes), parts) in rows.zip(parts.chunks_exact(n)) {
        for (v, (&part, &total)) in parts.iter().zip(&totals).enumerate() {
            (arcs[v], slopes[v]) = share(part, total);
        }
    }
    Ok(Some(sums))
}

/// Draws trees from a sentence that has one. Reference: D. Wilson (1996). The number of steps of the walk is
/// independent of the tree (J. Propp, D. Wilson, *How to get a perfectly random sample from a generic Markov
/// chain*, J. Algorithms 27, 1998), so a walk that takes too long may be given up for another way to draw.
pub struct Sampler {
    sentence: Sentence,
    /// The cumulative probabilities of the heads of each word, (T + 1) each: the words, then the root.
    heads: Vec<f64>,
    /// With a single root, its probabilities.
    roots: Option<Vec<f64>>,
}

/// Steps of a walk per word after which it is given up.
const STEPS: usize = 200;

impl Sampler {
    pub fn new(sentence: Sentence, single_root: bool, clock: &Clock<'_>) -> Result<Self> {
        let n = sentence.words;
        let weight = |d: usize, h: usize| match h == n {
            true if single_root => 0.0,
            true => sentence.roots[d].exp(),
            false => sentence.arcs[h * n + d].exp(),
        };
        let mut heads = Vec::with_capacity(n * (n + 1));
        for d in 0..n {
            let mut sum = 0.0;
            heads.extend((0..=n).map(|h| {
                sum += weight(d, h);
                sum
            }));
        }
        let roots = if single_root { Some(sums(&sentence, true, true, false, clock)?.roots) } else { None };
        Ok(Sampler { sentence, heads, roots })
    }

    /// The heads of a tree: 0 for the root, i + 1 for word i.
    pub fn draw(&self, random: &mut Stream, clock: &Clock<'_>) -> Result<Vec<usize>> {
        let root = self.roots.as_ref().map(|roots| random.categorical(roots));
        match self.wilson(root, random, clock)? {
            Some(heads) => Ok(heads),
            None => self.by_elimination(root, random, clock),
        }
    }

    /// Loop-erased random walks over heads; `None` if they take too long.
    fn wilson(
        &self,
        root: Option<usize>,
        random: &mut Stream,
        clock: &Clock<'_>,
    ) -> Result<Option<Vec<usize>>> {
        let n = self.sentence.words;
        let (mut heads, mut in_tree) = (vec![0; n], vec![false; n]);
        if let Some(root) = root {
            in_tree[root] = true;
        }
        let mut steps = 0;
        for first in 0..n {
            let mut word = first;
            while !in_tree[word] {
                steps += 1;
                if steps > STEPS * (n + 8) {
                    return Ok(None);
                }
                if steps % 1024 == 0 {
                    clock.check()?;
                }
                let row = &self.heads[word * (n + 1)..(word + 1) * (n + 1)];
                if row[n] <= 0.0 {
                    return Ok(None);
                }
                let u = random.uniform() * row[n];
                let head = row.partition_point(|&sum| sum <= u).min(n);
                // The last step from a word is its head; the steps of loops are overwritten.
                heads[word] = if head == n { 0 } else { head + 1 };
                if head == n {
                    break;
                }
                word = head;
            }
            // The walk from the first word to the tree, without its loops.
            let mut word = first;
            while !in_tree[word] {
                in_tree[word] = true;
                match heads[word] {
                    0 => break,
                    head => word = head - 1,
                }
            }
        }
        Ok(Some(heads))
    }

    /// One head after the other, from its probability given the heads before: O(T⁴), for any weights.
    fn by_elimination(
        &self,
        root: Option<usize>,
        random: &mut Stream,
        clock: &Clock<'_>,
    ) -> Result<Vec<usize>> {
        let n = self.sentence.words;
        let mut fixed: Vec<Option<usize>> = vec![None; n];
        if let Some(root) = root {
            fixed[root] = Some(0);
        }
        for d in 0..n {
            if fixed[d].is_some() {
                continue;
            }
            clock.check()?;
            let weight = |d: usize, h: usize| -> Leading {
                let number = if h == n { 0 } else { h + 1 };
                let log = if h == n { self.sentence.roots[d] } else { self.sentence.arcs[h * n + d] };
                let allowed = fixed[d].map_or(root.is_none() || number != 0, |head| head == number);
                Leading::new(if allowed { log } else { f64::NEG_INFINITY }, 0.0, false)
            };
            let walk = Walk::new(n, weight);
            let Some(reach) = walk.one_word(d, clock)? else { break };
            let parts: Vec<Leading> = (0..=n)
                .map(|h| match h {
                    h if h == n => walk.step(d, None),
                    h if h == d => Leading::ZERO,
                    h => walk.step(d, Some(h)).times(reach[h]),
                })
                .collect();
            let top = parts.iter().map(|part| part.log).fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = parts.iter().map(|part| (part.log - top).exp()).collect();
            let head = random.categorical(&weights);
            fixed[d] = Some(if head == n { 0 } else { head + 1 });
        }
        Ok(fixed.into_iter().map(|head| head.unwrap_or(0)).collect())
    }
}
