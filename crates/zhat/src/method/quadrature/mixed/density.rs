//! exp of a sum of terms over a box, with all discrete variables fixed: its range on a cell, and the exact
//! mean of a polynomial of the score.
//!
//! For a polynomial p of degree k, p(s(x) − c) expands into a polynomial in the **generators** of the
//! variables: t = (x − m)/h for a variable with only integer powers, and otherwise each statistic minus its
//! value in the middle of the cell. On a cell on one side of m, |x − m|ᶜ is a polynomial for integer c. For
//! other c the variable is |x − m|, and integer powers are polynomials in it. Cells that contain m are split
//! there first. Equal products are collected, so there are far fewer than the C(d + k, k) multi-indices of d
//! terms. The set of products does not depend on the cell and is computed once. Horner's rule multiplies
//! repeatedly by s − c; the mean of each product is a product of one-dimensional closed forms (`moments`).

use crate::model::Statistic;
use crate::numeric::Double;

use super::moments::{Bounded, Ends, NOISE, Shifted};
use super::range::{self, Range};
use crate::method::quadrature::polynomial::Polynomial;

/// The ends of each variable.
pub(super) type Cell = Vec<(f64, f64)>;

/// Each generator has one byte for its exponent in a key.
const MOST_GENERATORS: usize = 16;

/// θ and the statistics of continuous variables of one term.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub weight: f64,
    pub factors: Vec<(usize, Statistic)>,
}

/// The sum of the parts, a function of the continuous variables only.
#[derive(Clone, Debug)]
pub(super) struct Density {
    pub parts: Vec<Part>,
    pub variables: usize,
    /// A bound on the rounding error of the contribution of the discrete variables.
    pub blur: f64,
    /// A bound on how much the logarithm may be too small because counts are truncated.
    pub beyond: f64,
}

/// The point m where |x − m|ᶜ is not smooth, if it lies inside the cell.
pub(super) fn kink(statistic: Statistic, (a, b): (f64, f64)) -> Option<f64> {
    match statistic {
        Statistic::Distance { centre, .. } if a < centre && centre < b => Some(centre),
        _ => None,
    }
}

fn ends((a, b): (f64, f64)) -> Range {
    Range { low: a, high: b }
}

impl Density {
    /// The score at a point.
    pub fn score(&self, x: &[f64]) -> f64 {
        let value =
            |part: &Part| part.factors.iter().fold(part.weight, |product, &(v, f)| product * f.value(x[v]));
        self.parts.iter().map(value).sum()
    }

    /// The range of the score on a cell, and the variable that changes it most.
    pub fn range(&self, cell: &Cell) -> (Range, usize) {
        let middles: Vec<f64> = cell.iter().map(|&(a, b)| 0.5 * (a + b)).collect();
        let mut naive = Range::point(0.0);
        let mut centre = Range::point(0.0);
        let mut slopes = vec![Range::point(0.0); self.variables];
        // How much each variable can change the score: by its slopes, or by its values if the slopes are too
        // steep.
        let mut moves = vec![0.0; self.variables];
        let mut kinks = vec![false; self.variables];
        for part in &self.parts {
            let weight = Range::point(part.weight);
            let ranges: Vec<Range> =
                part.factors.iter().map(|&(v, f)| range::range(f, ends(cell[v]))).collect();
            naive = naive.plus(ranges.iter().fold(weight, |product, &r| product.times(r)));
            let points = part.factors.iter().map(|&(v, f)| range::range(f, Range::point(middles[v])));
            centre = centre.plus(points.fold(weight, Range::times));
            for (i, &(v, f)) in part.factors.iter().enumerate() {
                let others = ranges.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, &r)| r);
                let slope = others.clone().fold(weight.times(range::slope(f, ends(cell[v]))), Range::times);
                slopes[v] = slopes[v].plus(slope);
                let size = others.fold(weight, Range::times).magnitude();
                moves[v] += size * 0.5 * (ranges[i].high - ranges[i].low);
                kinks[v] |= kink(f, cell[v]).is_some();
            }
        }
        let (mut widest, mut most) = (0, (false, -1.0));
        for (v, &slope) in slopes.iter().enumerate() {
            let half = (cell[v].1 - middles[v]).max(middles[v] - cell[v].0).next_up();
            centre = centre.plus(slope.times(Range { low: -half, high: half }));
            let moved = (kinks[v], (slope.magnitude() * half).min(moves[v]));
            if moved > most {
                (widest, most) = (v, moved);
            }
        }
        (naive.intersect(centre), widest)
    }

    /// The point at which to split a variable: the kink nearest to the middle, or else the middle.
    pub fn cut(&self, v: usize, (a, b): (f64, f64)) -> f64 {
        let middle = 0.5 * (a + b);
        let own = self.parts.iter().flat_map(|part| &part.factors).filter(|factor| factor.0 == v);
        own.filter_map(|&(_, f)| kink(f, (a, b)))
            .min_by(|x, y| (x - middle).abs().total_cmp(&(y - middle).abs()))
            .unwrap_or(middle)
    }
}

/// The generators of one variable.
#[derive(Clone, Debug)]
enum Generators {
    /// Only t.
    Local,
    /// Statistics that are not all integer powers, of the variable or of its distance from a centre.
    Shifted { shifted: Shifted, centre: Option<f64> },
}

impl Generators {
    /// The generators of a variable's statistics with this bound on exponents; `None` if there is no closed
    /// form.
    fn new(statistics: &[Statistic], within: usize) -> Option<(Self, usize)> {
        if statistics.iter().all(|f| f.is_polynomial()) {
            return Some((Generators::Local, 1));
        }
        let centre = centre(statistics);
        let mut own: Vec<Statistic> = Vec::new();
        for &f in statistics {
            let generator = match f {
                // All powers of the logarithm are polynomials in the centred logarithm.
                Statistic::Log(_) if centre.is_none() => Statistic::Log(1),
                Statistic::Distance { power, .. } if !f.is_polynomial() => Statistic::Power(power),
                Statistic::Distance { .. } => Statistic::Power(1.0),
                Statistic::Power(_) if centre.is_some() => Statistic::Power(1.0),
                Statistic::Power(_) | Statistic::LogComplement if centre.is_none() => f,
                _ => return None,
            };
            // With a non-integer power of one distance, everything else must be a polynomial in that
            // distance.
            let other = |f: &Statistic| match f {
                Statistic::Distance { centre: m, .. } => Some(*m) != centre,
                _ => true,
            };
            if centre.is_some() && other(&f) && !f.is_polynomial() {
                return None;
            }
            if !own.contains(&generator) {
                own.push(generator);
            }
        }
        let count = own.len();
        Some((Generators::Shifted { shifted: Shifted::new(own, within), centre }, count))
    }
}

/// The centre of a distance with a non-integer power.
fn centre(statistics: &[Statistic]) -> Option<f64> {
    statistics.iter().find_map(|f| match *f {
        Statistic::Distance { centre, .. } if !f.is_polynomial() => Some(centre),
        _ => None,
    })
}

/// A cell expressed as distances from a centre, and its side of the centre.
fn moved(centre: Option<f64>, (a, b): (f64, f64)) -> (Ends, f64) {
    let (low, high) = (Double::from(a), Double::from(b));
    match centre {
        None => ((low, high), 1.0),
        Some(m) if 0.5 * (a + b) >= m => ((low - m.into(), high - m.into()), 1.0),
        Some(m) => ((Double::from(m) - high, Double::from(m) - low), -1.0),
    }
}

/// The coefficients of (m + h t)ⁿ.
fn binomial_power(m: Double, h: Double, n: usize) -> Vec<Double> {
    let mut power = vec![Double::ONE];
    for _ in 0..n {
        power.push(Double::ZERO);
        for i in (0..power.len()).rev() {
            let below = if i > 0 { power[i - 1] * h } else { Double::ZERO };
            power[i] = power[i] * m + below;
        }
    }
    power
}

/// The products in a polynomial of a score.
#[derive(Clone, Debug)]
pub(super) struct Expansion {
    degree: usize,
    variables: Vec<(usize, Generators)>,
    /// The products in s, as keys with one byte per generator.
    terms: Vec<u128>,
    /// The products in all powers of s, lower powers first.
    keys: Vec<u128>,
    /// The number of products up to each power.
    ends: Vec<usize>,
    /// The index of the product of a key and a term; one row per key below the last power.
    products: Vec<u32>,
    /// The index of each variable's moment; one row per key.
    moments: Vec<u32>,
}

fn exponent(key: u128, generator: usize) -> u8 {
    (key >> (8 * generator)) as u8
}

/// The coefficients and moments of s on a cell.
struct Local {
    /// Coefficients of the terms of s.
    score: Vec<Double>,
    /// Σ |coefficient| · max |product|.
    size: f64,
    moments: Vec<Vec<Bounded>>,
}

impl Expansion {
    /// The products of degree k; `None` if there are more than `most` or an exponent is too large.
    pub fn new(density: &Density, degree: usize, most: usize) -> Option<Self> {
        let mut variables = Vec::new();
        let mut first = 0;
        for v in 0..density.variables {
            let mut statistics: Vec<Statistic> = Vec::new();
            for &(u, f) in density.parts.iter().flat_map(|part| &part.factors) {
                if u == v && !statistics.contains(&f) {
                    statistics.push(f);
                }
            }
            let local = statistics.iter().all(|f| f.is_polynomial());
            let by_distance = centre(&statistics).is_some();
            // A statistic may occur more than once in one term.
            let repeated = |part: &Part| {
                let own = part.factors.iter().filter(|(u, _)| *u == v);
                let exponent = |f: &Statistic| match *f {
                    Statistic::Log(c) => c as usize,
                    Statistic::Power(c) if (local || by_distance) && f.is_polynomial() => c as usize,
                    Statistic::Distance { power, .. } if f.is_polynomial() => power as usize,
                    _ => 1,
                };
                own.map(|(_, f)| exponent(f)).sum::<usize>()
            };
            let within = degree * density.parts.iter().map(repeated).max().unwrap_or(0);
            // Checked before tables are computed: the size that they would have.
            let size = (1..=statistics.len()).fold(1.0, |size, i| size * (within + i) as f64 / i as f64);
            if within > 255 || (!local && size > most as f64) {
                return None;
            }
            let (generators, count) = Generators::new(&statistics, within)?;
            variables.push((first, generators));
            first += count;
        }
        if first > MOST_GENERATORS {
            return None;
        }
        let mut expansion = Expansion {
            degree,
            variables,
            terms: vec![0],
            keys: vec![0],
            ends: vec![1],
            products: vec![],
            moments: vec![],
        };
        let cell: Cell = vec![(1.0, 2.0); density.variables];
        let shifts = expansion.shifts(&cell);
        let mut largest = vec![0usize; first];
        for part in &density.parts {
            for (key, _) in expansion.part(part, &cell, &shifts)? {
                if !expansion.terms.contains(&key) {
                    expansion.terms.push(key);
                }
                (0..first).for_each(|g| largest[g] = largest[g].max(exponent(key, g).into()));
            }
        }
        if largest.iter().any(|&e| e * degree > 255) {
            return None;
        }
        expansion.terms.sort_unstable();
        let mut index = std::collections::HashMap::from([(0u128, 0u32)]);
        for _ in 0..degree {
            let end = expansion.keys.len();
            let begin = expansion.products.len() / expansion.terms.len();
            for at in begin..end {
                for term in 0..expansion.terms.len() {
                    let key = expansion.keys[at] + expansion.terms[term];
                    let next = expansion.keys.len() as u32;
                    let place = *index.entry(key).or_insert(next);
                    if place == next {
                        expansion.keys.push(key);
                    }
                    expansion.products.push(place);
                }
                if expansion.keys.len() > most {
                    return None;
                }
            }
            expansion.ends.push(expansion.keys.len());
        }
        for &key in &expansion.keys {
            for (first, generators) in &expansion.variables {
                expansion.moments.push(match generators {
                    Generators::Local => exponent(key, *first).into(),
                    Generators::Shifted { shifted, .. } => {
                        let own: Vec<u8> =
                            (0..shifted.statistics.len()).map(|i| exponent(key, first + i)).collect();
                        shifted.position(&own)? as u32
                    }
                });
            }
        }
        Some(expansion)
    }

    /// The number of products.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    pub fn degree(&self) -> usize {
        self.degree
    }

    /// An approximate count of operations per cell.
    pub fn operations(&self) -> f64 {
        let products = self.products.len() as f64 * self.degree as f64 / 2.0;
        let tables = self.variables.iter().map(|(_, generators)| match generators {
            Generators::Local => 1.0,
            Generators::Shifted { shifted, .. } => 60.0 * shifted.len() as f64,
        });
        products + tables.sum::<f64>() + (self.keys.len() * (1 + self.variables.len())) as f64
    }

    /// σ of each shifted statistic, by variable.
    fn shifts(&self, cell: &Cell) -> Vec<Vec<f64>> {
        let of = |(&ends, (_, generators)): (&(f64, f64), &(usize, Generators))| match generators {
            Generators::Local => vec![],
            Generators::Shifted { shifted, centre } => shifted.shifts(moved(*centre, ends).0),
        };
        cell.iter().zip(&self.variables).map(of).collect()
    }

    /// A part, expanded into products.
    fn part(&self, part: &Part, cell: &Cell, shifts: &[Vec<f64>]) -> Option<Vec<(u128, Double)>> {
        let mut sum = vec![(0u128, Double::from(part.weight))];
        for &(v, f) in &part.factors {
            let (first, generators) = &self.variables[v];
            let factor: Vec<(u128, Double)> = match (generators, f) {
                (Generators::Local, f) => {
                    // (m + h t)ᶜ, or ±(m + h t − centre)ᶜ.
                    let (a, b) = (Double::from(cell[v].0), Double::from(cell[v].1));
                    let (middle, half) = ((a + b).scaled(0.5), (b - a).scaled(0.5));
                    let power = match f {
                        Statistic::Power(c) => binomial_power(middle, half, c as usize),
                        Statistic::Distance { centre, power } => {
                            let side = moved(Some(centre), cell[v]).1;
                            let from = (middle - centre.into()).scaled(side);
                            binomial_power(from, half.scaled(side), power as usize)
                        }
                        _ => return None,
                    };
                    power.into_iter().enumerate().map(|(i, c)| ((i as u128) << (8 * first), c)).collect()
                }
                (Generators::Shifted { shifted, centre }, f) => {
                    let place = |f: Statistic| shifted.statistics.iter().position(|known| *known == f);
                    let side = moved(*centre, cell[v]).1;
                    // x = origin ± (σ + L) for the generator L of the first power.
                    let origin = centre.map_or(Double::ZERO, Double::from);
                    let (i, from, slope, power) = match f {
                        // (σ + L)ᶜ.
                        Statistic::Log(c) => {
                            let i = place(Statistic::Log(1))?;
                            (i, Double::from(shifts[v][i]), 1.0, c as usize)
                        }
                        Statistic::Distance { centre: m, power } if f.is_polynomial() => {
                            let i = place(Statistic::Power(1.0))?;
                            let x = origin + Double::from(shifts[v][i]).scaled(side);
                            let own = moved(Some(m), cell[v]).1;
                            (i, (x - m.into()).scaled(own), side * own, power as usize)
                        }
                        Statistic::Power(c) if centre.is_some() => {
                            let i = place(Statistic::Power(1.0))?;
                            (i, origin + Double::from(shifts[v][i]).scaled(side), side, c as usize)
                        }
                        Statistic::Distance { power, .. } => {
                            let i = place(Statistic::Power(power))?;
                            (i, Double::from(shifts[v][i]), 1.0, 1)
                        }
                        f => {
                            let i = place(f)?;
                            (i, Double::from(shifts[v][i]), 1.0, 1)
                        }
                    };
                    let power = binomial_power(from, slope.into(), power);
                    let key = |j: usize| (j as u128) << (8 * (first + i));
                    power.into_iter().enumerate().map(|(j, c)| (key(j), c)).collect()
                }
            };
            let mut product: Vec<(u128, Double)> = Vec::with_capacity(sum.len() * factor.len());
            for &(key, c) in &sum {
                for &(more, d) in &factor {
                    let key = key + more;
                    match product.iter_mut().find(|entry| entry.0 == key) {
                        Some(entry) => entry.1 = entry.1 + c * d,
                        None => product.push((key, c * d)),
                    }
                }
            }
            sum = product;
        }
        Some(sum)
    }

    fn local(&self, density: &Density, cell: &Cell) -> Option<Local> {
        let mut factors = density.parts.iter().flat_map(|part| &part.factors);
        if factors.any(|&(v, f)| kink(f, cell[v]).is_some()) {
            return None;
        }
        let shifts = self.shifts(cell);
        let mut score = vec![Double::ZERO; self.terms.len()];
        for part in &density.parts {
            for (key, c) in self.part(part, cell, &shifts)? {
                let at = self.terms.binary_search(&key).ok()?;
                score[at] = score[at] + c;
            }
        }
        let mut largest = [1.0; MOST_GENERATORS];
        let mut moments = Vec::with_capacity(cell.len());
        for (v, (first, generators)) in self.variables.iter().enumerate() {
            moments.push(match generators {
                Generators::Local => {
                    let top = self.keys.iter().map(|&key| exponent(key, *first)).max().unwrap_or(0);
                    let mean = |n: u8| {
                        if n.is_multiple_of(2) { Double::ONE.over(f64::from(n) + 1.0) } else { Double::ZERO }
                    };
                    (0..=top).map(|n| Bounded { value: mean(n), error: 0.0 }).collect()
                }
                Generators::Shifted { shifted, centre } => {
                    let own = moved(*centre, cell[v]).0;
                    let mut hull = Range { low: own.0.value(), high: own.1.value() };
                    if centre.is_some() {
                        hull = Range { low: hull.low.next_down().max(0.0), high: hull.high.next_up() };
                    }
                    for (i, (&f, &shift)) in shifted.statistics.iter().zip(&shifts[v]).enumerate() {
                        let moved = range::range(f, hull).plus(Range::point(-shift));
                        largest[first + i] = moved.magnitude();
                    }
                    shifted.moments(own, &shifts[v])
                }
            });
        }
        let product = |key: u128| {
            largest.iter().enumerate().map(|(g, x)| x.powi(exponent(key, g).into())).product::<f64>()
        };
        let size = self.terms.iter().zip(&score).map(|(&key, c)| c.high.abs() * product(key)).sum();
        Some(Local { score, size, moments })
    }

    /// The mean of p(s − c) over a cell, and a bound on its rounding error.
    pub fn mean(&self, density: &Density, cell: &Cell, centre: f64, p: &Polynomial) -> Option<(f64, f64)> {
        let mut local = self.local(density, cell)?;
        // The score has the rounding error of its largest terms. With its centre subtracted, the rest is
        // small.
        let blur = NOISE * (local.size + centre.abs());
        local.size -= local.score[0].high.abs();
        local.score[0] = local.score[0] - centre.into();
        let size = (local.size + local.score[0].high.abs()).max(1.0);
        let width = self.terms.len();
        let zeta = p.coefficients();
        let mut sum = vec![Double::ZERO; self.keys.len()];
        let mut next = sum.clone();
        sum[0] = zeta[self.degree].into();
        for power in 0..self.degree {
            next[..self.ends[power + 1]].fill(Double::ZERO);
            let rows = self.products.chunks_exact(width);
            for (row, &factor) in rows.zip(&sum).take(self.ends[power]) {
                for (&place, &c) in row.iter().zip(&local.score) {
                    next[place as usize] = next[place as usize] + factor * c;
                }
            }
            next[0] = next[0] + zeta[self.degree - 1 - power].into();
            std::mem::swap(&mut sum, &mut next);
        }
        let (mut mean, mut error) = (Double::ZERO, 0.0);
        for (coefficient, row) in sum.iter().zip(self.moments.chunks(self.variables.len().max(1))) {
            let (mut value, mut off) = (*coefficient, 0.0);
            for (table, &at) in local.moments.iter().zip(row) {
                let moment = table[at as usize];
                off = off * (moment.value.high.abs() + moment.error) + value.high.abs() * moment.error;
                value = value * moment.value;
            }
            mean = mean + value;
            error += off;
        }
        let magnitude = zeta.iter().rev().fold(0.0, |sum, c| sum * size + c.abs());
        error += (NOISE + blur) * (self.degree + 4) as f64 * magnitude;
        let mean = mean.value();
        (mean.is_finite() && f64::is_finite(error)).then_some((mean, error + f64::EPSILON * mean.abs()))
    }
}
