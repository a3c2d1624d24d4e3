//! A component of a mixed model, split into cells until the interval for its log Z is narrow.
//!
//! On a cell where the score ranges over [c − r, c + r], the integral of exp is within volume·e^c·ε of the
//! integral of its polynomial, and for degree k the error ε is about r^{k+1}/(2ᵏ (k + 1)!). Splitting a cell
//! in two therefore reduces the error by a factor 2^{k+2}. A wide cell, or one whose polynomial cancels too
//! much, uses the bounds volume·[e^{c−r}, e^{c+r}]. Each round splits the cells with more than their share of
//! the error. The interval is certified at all times.

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::numeric::parallel::prelude::*;

use crate::error::{Error, Result};
use crate::model::{Component, Domain, MixedModel, Statistic};
use crate::numeric;
use crate::run::Clock;

use super::density::{Cell, Density, Expansion, Part};
use super::range::{self, Range};
use crate::method::quadrature::polynomial::Polynomial;

/// The half-widths of ranges that have polynomials: 4, 2, 1, ½, …
const WIDEST: f64 = 4.0;
const LADDER: usize = 24;
/// Maximum number of joint states of the discrete variables of a component.
pub(super) const MOST_STATES: f64 = 65_536.0;
/// Cells split between two updates of the interval. This keeps the steps between progress reports small.
const MOST_AT_ONCE: usize = 1 << 16;
/// The highest degree of a polynomial.
pub(super) const MOST_DEGREE: usize = 40;
/// Maximum number of products. The degree of the polynomial is lowered to stay below it.
pub(super) const MOST_PRODUCTS: usize = 4096;

/// Polynomials of one degree for each half-width of the ladder, computed on first use.
struct Ladder {
    degree: usize,
    rungs: Vec<OnceLock<Option<Polynomial>>>,
}

impl Ladder {
    fn new(degree: usize) -> Self {
        Ladder { degree, rungs: (0..LADDER).map(|_| OnceLock::new()).collect() }
    }

    /// The polynomial for the smallest half-width that is at least r.
    fn polynomial(&self, r: f64) -> Option<&Polynomial> {
        if r.is_nan() || r > WIDEST {
            return None;
        }
        let rung = (0..LADDER).rev().find(|&i| r <= WIDEST * 0.5f64.powi(i as i32))?;
        let half = WIDEST * 0.5f64.powi(rung as i32);
        self.rungs[rung].get_or_init(|| Polynomial::chebyshev(self.degree, (-half, half)).ok()).as_ref()
    }
}

/// A component with a separate density for each joint state of its discrete variables.
pub(super) struct Joint<'a> {
    model: &'a MixedModel,
    component: &'a Component,
    /// The discrete variables, each with its first value, the number of values, and an upper bound on the
    /// correction to the log weight of the last value, which stands for all larger ones.
    discrete: Vec<(usize, u64, u64, f64)>,
    places: HashMap<usize, usize>,
    pub boxes: Cell,
    /// The number of joint states.
    pub count: usize,
}

impl<'a> Joint<'a> {
    /// `None` if there are too many joint states.
    pub fn new(model: &'a MixedModel, component: &'a Component) -> Option<Self> {
        let (mut boxes, mut places, mut discrete) = (Cell::new(), HashMap::new(), Vec::new());
        let mut count = 1.0;
        for &v in &component.variables {
            match (model.domains()[v], model.values(v)) {
                (Domain::Interval(a, b), _) => {
                    places.insert(v, boxes.len());
                    boxes.push((a, b));
                }
                (_, Some((first, values, beyond))) => {
                    count *= values as f64;
                    discrete.push((v, first, values, beyond));
                }
                _ => return None,
            }
        }
        let count = (count <= MOST_STATES).then_some(count as usize)?;
        Some(Joint { model, component, discrete, places, boxes, count })
    }

    /// The density of a joint state. The constant is added here, so that it cancels before digits are lost.
    pub fn density(&self, mut joint: u64, constant: f64) -> Density {
        let mut beyond = 0.0;
        let mut values = HashMap::with_capacity(self.discrete.len());
        for &(v, first, count, last) in &self.discrete {
            let at = joint % count;
            joint /= count;
            values.insert(v, (first + at) as f64);
            beyond += if at + 1 == count { last } else { 0.0 };
        }
        let (mut parts, mut blur) = (Vec::new(), 0.0);
        for &j in &self.component.terms {
            let term = &self.model.terms()[j];
            let (mut weight, mut factors, mut zero) = (term.weight, Vec::new(), false);
            for &(v, f) in &term.factors {
                match (self.places.get(&v), values.get(&v)) {
                    (Some(&place), _) => factors.push((place, f)),
                    (None, Some(&x)) => {
                        let value = f.value(x);
                        zero |= matches!(f, Statistic::State(_)) && value == 0.0;
                        weight *= value;
                        // Values are accurate to a few units in the last place.
                        blur += if value == 1.0 { 0.0 } else { 16.0 * f64::EPSILON };
                    }
                    (None, None) => {}
                }
            }
            if !zero {
                parts.push((weight, factors));
            }
        }
        let size: f64 = parts
            .iter()
            .map(|(weight, factors)| {
                let ranges = factors.iter().map(|&(place, f)| {
                    let (low, high) = self.boxes[place];
                    range::range(f, Range { low, high }).magnitude()
                });
                weight.abs() * ranges.product::<f64>()
            })
            .sum();
        parts.push((constant, vec![]));
        let parts = parts.into_iter().map(|(weight, factors)| Part { weight, factors }).collect();
        Density { parts, variables: self.boxes.len(), blur: blur * size, beyond }
    }

    /// The densities of all joint states.
    pub fn densities(&self, constant: f64, clock: &Clock<'_>) -> Result<Vec<Density>> {
        let density = |joint| {
            clock.check_late()?;
            Ok(self.density(joint as u64, constant))
        };
        (0..self.count).map(density).collect()
    }
}

/// The expansion of the highest degree up to `degree` without too many products.
pub(super) fn expansion(density: &Density, degree: usize) -> Option<Expansion> {
    (1..=degree.min(MOST_DEGREE)).rev().find_map(|k| Expansion::new(density, k, MOST_PRODUCTS))
}

/// The statistics of all parts.
type Pattern = Vec<Vec<(usize, Statistic)>>;

/// A cell of one density, and bounds on the integral over it.
struct Piece {
    density: usize,
    cell: Cell,
    widest: usize,
    log_low: f64,
    log_high: f64,
}

/// The combined result of all cells.
pub(super) struct Outcome {
    pub low: f64,
    pub high: f64,
    pub cells: usize,
    pub degree: usize,
    pub stopped: bool,
}

/// Limits of the search for an interval.
pub(super) struct Limits {
    pub error: f64,
    pub degree: usize,
    pub cells: usize,
}

/// Computes an interval for log Z of one component.
pub(super) fn bracket(
    densities: &[Density],
    boxes: &Cell,
    limits: &Limits,
    clock: &Clock<'_>,
) -> Result<Outcome> {
    // Most joint states have the same products, so there is one expansion per pattern of statistics.
    let mut kinds: Vec<(Pattern, Option<Expansion>)> = Vec::new();
    let mut kind_of = Vec::with_capacity(densities.len());
    let mut late = false;
    for density in densities {
        if clock.is_cancelled() {
            return Err(Error::Interrupted);
        }
        late |= clock.is_out_of_time();
        // After the time limit, a cell uses the range of its score and no polynomial. Without continuous
        // variables there is no polynomial in any case.
        let plain = late || boxes.is_empty();
        let pattern: Pattern =
            if plain { vec![] } else { density.parts.iter().map(|part| part.factors.clone()).collect() };
        let known = kinds.iter().rposition(|kind| kind.0 == pattern);
        kind_of.push(known.unwrap_or(kinds.len()));
        if known.is_none() {
            let found = if plain { None } else { expansion(density, limits.degree) };
            kinds.push((pattern, found));
        }
    }
    let degree = kinds.iter().filter_map(|kind| kind.1.as_ref()).map(Expansion::degree).max().unwrap_or(0);
    let ladders: Vec<Ladder> = (0..=degree).map(Ladder::new).collect();
    let bound = |density: usize, cell: Cell| -> Piece {
        let expansion = kinds[kind_of[density]].1.as_ref();
        let ladder = expansion.map(|expansion| &ladders[expansion.degree()]);
        bound(&densities[density], density, cell, expansion, ladder)
    };
    let first = |index: usize| {
        if clock.is_cancelled() {
            return Err(Error::Interrupted);
        }
        let density = &densities[index];
        let late = clock.is_out_of_time();
        Ok(if late {
            self::bound(density, index, boxes.clone(), None, None)
        } else {
            bound(index, boxes.clone())
        })
    };
    let mut pieces: Vec<Piece> = (0..densities.len()).into_par_iter().map(first).collect::<Result<_>>()?;
    loop {
        let lows: Vec<f64> = pieces.iter().map(|piece| piece.log_low).collect();
        let highs: Vec<f64> = pieces.iter().map(|piece| piece.log_high).collect();
        let (low, high) = (numeric::log_sum_exp(&lows), numeric::log_sum_exp(&highs));
        clock.bounds(low, high);
        let done = high - low <= limits.error;
        let stopped = !done && (clock.is_out_of_time() || pieces.len() >= limits.cells);
        if clock.is_cancelled() && !done {
            return Err(Error::Interrupted);
        }
        // The error of a piece, as a fraction of the whole.
        let share = |piece: &Piece| {
            (piece.log_high - high).exp() * -(piece.log_low - piece.log_high).min(0.0).exp_m1()
        };
        let mut worst: Vec<(usize, f64)> = pieces
            .iter()
            .enumerate()
            .filter(|(_, piece)| can_split(piece))
            .map(|(i, piece)| (i, share(piece)))
            .filter(|(_, share)| *share > 0.25 * limits.error / pieces.len() as f64)
            .collect();
        if done || stopped || worst.is_empty() {
            return Ok(Outcome { low, high, cells: pieces.len(), degree, stopped: !done });
        }
        worst.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        worst.truncate((limits.cells - pieces.len()).clamp(1, MOST_AT_ONCE));
        clock.progress("cells", pieces.len() as u64, limits.cells as u64);
        // Pieces that are not split when the run must stop keep their bounds.
        let stop = || clock.must_stop();
        let halves: Vec<Option<[Piece; 2]>> = worst
            .par_iter()
            .map(|&(i, _)| {
                if stop() {
                    return None;
                }
                let piece = &pieces[i];
                let (a, b) = piece.cell[piece.widest];
                let middle = densities[piece.density].cut(piece.widest, (a, b));
                Some([(a, middle), (middle, b)].map(|ends| {
                    let mut cell = piece.cell.clone();
                    cell[piece.widest] = ends;
                    let mut half = bound(piece.density, cell);
                    // The upper bound of the whole also holds for a half.
                    half.log_high = half.log_high.min(piece.log_high);
                    half
                }))
            })
            .collect();
        for ((i, _), halves) in worst.into_iter().zip(halves) {
            if let Some([first, second]) = halves {
                pieces[i] = first;
                pieces.push(second);
            }
        }
    }
}

/// Whether there is a number between the ends.
fn can_split(piece: &Piece) -> bool {
    piece.cell.get(piece.widest).is_some_and(|&(a, b)| {
        let middle = 0.5 * (a + b);
        a < middle && middle < b
    })
}

/// Bounds on the integral over one cell.
fn bound(
    density: &Density,
    index: usize,
    cell: Cell,
    expansion: Option<&Expansion>,
    ladder: Option<&Ladder>,
) -> Piece {
    if cell.is_empty() {
        let score: numeric::CompensatedSum = density.parts.iter().map(|part| part.weight).collect();
        let (log_low, log_high) =
            (score.value() - density.blur, score.value() + density.blur + density.beyond);
        return Piece { density: index, cell, widest: 0, log_low, log_high };
    }
    let (range, widest) = density.range(&cell);
    let log_volume: f64 = cell.iter().map(|&(a, b)| (b - a).ln()).sum();
    let centre = 0.5 * (range.low + range.high);
    let half = (range.high - centre).max(centre - range.low).next_up();
    let (mut log_low, mut log_high) = (log_volume + range.low, log_volume + range.high);
    let base = centre + log_volume;
    if let (Some(expansion), Some(p)) = (expansion, ladder.and_then(|ladder| ladder.polynomial(half)))
        && let Some((mean, error)) = expansion.mean(density, &cell, centre, p)
    {
        // The logarithm of a nonpositive number is NaN or −∞, which `max` ignores.
        log_low = log_low.max(base + (mean - error - p.error()).ln());
        log_high = log_high.min(base + (mean + error + p.error()).ln());
    }
    let sizes: f64 = cell.iter().map(|&(a, b)| 1.0 + (b - a).ln().abs()).sum();
    let slack = 4.0 * f64::EPSILON * (2.0 + centre.abs() + range.low.abs().max(range.high.abs()) + sizes);
    let slack = slack + density.blur;
    // If rounding makes the bounds cross, the upper one is raised to the lower one.
    let log_high = log_high.max(log_low) + slack + density.beyond;
    Piece { density: index, cell, widest, log_low: log_low - slack, log_high }
}
