//! A component of a mixed model, cut into cells until the interval about its log Z is narrow.
//!
//! On a cell where the score ranges over [c − r, c + r] the integral of exp is within volume·e^c·ε of that of its polynomial, and for
//! degree k the ε is about r^{k+1}/(2ᵏ (k + 1)!); so a cell that is cut in two gains a factor 2^{k+2}. A wide cell, or one whose
//! polynomial cancels too much, has volume·[e^{c−r}, e^{c+r}]. Every round cuts the cells with more than their share of the error.
//! The interval is certified at any moment.

use std::sync::OnceLock;

use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::model::{Component, Domain, MixedModel, Statistic};
use crate::numeric;
use crate::run::Clock;

use super::density::{Cell, Density, Expansion, Part};
use crate::quadrature::polynomial::Polynomial;

/// Half-widths of ranges that there are polynomials for: 4, 2, 1, ½, …
const WIDEST: f64 = 4.0;
const LADDER: usize = 24;
/// More joint states of the discrete variables of a component are not gone through.
pub(super) const MOST_STATES: f64 = 65_536.0;
/// More products make a polynomial too dear, and its degree is lowered.
pub(super) const MOST_PRODUCTS: usize = 4096;

/// Polynomials of one degree for every half-width of the ladder, made when asked for.
struct Ladder {
    degree: usize,
    rungs: Vec<OnceLock<Option<Polynomial>>>,
}

impl Ladder {
    fn new(degree: usize) -> Self {
        Ladder { degree, rungs: (0..LADDER).map(|_| OnceLock::new()).collect() }
    }

    /// The polynomial for the least half-width that is at least r.
    fn polynomial(&self, r: f64) -> Option<&Polynomial> {
        if r.is_nan() || r > WIDEST {
            return None;
        }
        let rung = (0..LADDER).rev().find(|&i| r <= WIDEST * 0.5f64.powi(i as i32))?;
        let half = WIDEST * 0.5f64.powi(rung as i32);
        self.rungs[rung].get_or_init(|| Polynomial::chebyshev(self.degree, (-half, half)).ok()).as_ref()
    }
}

/// The densities of a component, one a joint state of its discrete variables; none where those are too many. The constant is
/// added to each, so that what it cancels is gone before digits are lost.
pub(super) fn densities(
    model: &MixedModel,
    component: &Component,
    constant: f64,
) -> Option<(Vec<Density>, Cell)> {
    let mut boxes = Cell::new();
    let mut places = vec![usize::MAX; model.domains().len()];
    let mut discrete = Vec::new();
    let mut states = 1.0;
    for &v in &component.variables {
        match model.domains()[v] {
            Domain::Interval(a, b) => {
                places[v] = boxes.len();
                boxes.push((a, b));
            }
            Domain::States(n) => {
                states *= n as f64;
                discrete.push((v, n));
            }
        }
    }
    if states > MOST_STATES {
        return None;
    }
    let mut densities = Vec::with_capacity(states as usize);
    for joint in 0..states as usize {
        let mut rest = joint;
        let mut state = vec![0; model.domains().len()];
        for &(v, n) in &discrete {
            state[v] = rest % n;
            rest /= n;
        }
        let terms = component.terms.iter().map(|&j| &model.terms()[j]);
        let holds = |f: &(usize, Statistic)| !matches!(f.1, Statistic::State(s) if s != state[f.0]);
        let part = |term: &crate::model::Term| Part {
            weight: term.weight,
            factors: term
                .factors
                .iter()
                .filter(|f| places[f.0] != usize::MAX)
                .map(|f| (places[f.0], f.1))
                .collect(),
        };
        let mut parts: Vec<Part> = terms.filter(|term| term.factors.iter().all(holds)).map(part).collect();
        parts.push(Part { weight: constant, factors: vec![] });
        densities.push(Density { parts, variables: boxes.len() });
    }
    Some((densities, boxes))
}

/// The products of the highest degree up to `degree` that are not too many.
pub(super) fn expansion(density: &Density, degree: usize) -> Option<Expansion> {
    (1..=degree).rev().find_map(|k| Expansion::new(density, k, MOST_PRODUCTS))
}

/// A cell of one density, and what is known of the integral over it.
struct Piece {
    density: usize,
    cell: Cell,
    widest: usize,
    log_low: f64,
    log_high: f64,
}

/// What the cells say together.
pub(super) struct Outcome {
    pub low: f64,
    pub high: f64,
    pub cells: usize,
    pub degree: usize,
    pub stopped: bool,
}

/// What the search for an interval may take.
pub(super) struct Limits {
    pub error: f64,
    pub degree: usize,
    pub cells: usize,
}

/// Brackets log Z of one component.
pub(super) fn bracket(
    densities: &[Density],
    boxes: &Cell,
    limits: &Limits,
    clock: &Clock<'_>,
) -> Result<Outcome> {
    // Joint states mostly have the same products: one expansion for each pattern of statistics.
    let mut kinds: Vec<(Vec<Vec<(usize, Statistic)>>, Option<Expansion>)> = Vec::new();
    let mut kind_of = Vec::with_capacity(densities.len());
    for density in densities {
        let pattern: Vec<_> = density.parts.iter().map(|part| part.factors.clone()).collect();
        let known = kinds.iter().position(|kind| kind.0 == pattern);
        kind_of.push(known.unwrap_or(kinds.len()));
        if known.is_none() {
            let found = if boxes.is_empty() { None } else { expansion(density, limits.degree) };
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
    let mut pieces: Vec<Piece> =
        (0..densities.len()).into_par_iter().map(|density| bound(density, boxes.clone())).collect();
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
        // The error of a piece, as a part of the whole.
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
        worst.truncate((limits.cells - pieces.len()).max(1));
        clock.progress("cells", pieces.len() as u64, limits.cells as u64);
        let halves: Vec<[Piece; 2]> = worst
            .par_iter()
            .map(|&(i, _)| {
                let piece = &pieces[i];
                let (a, b) = piece.cell[piece.widest];
                let middle = 0.5 * (a + b);
                [(a, middle), (middle, b)].map(|ends| {
                    let mut cell = piece.cell.clone();
                    cell[piece.widest] = ends;
                    let mut half = bound(piece.density, cell);
                    // A half of the whole is bounded by what the whole's range says.
                    half.log_high = half.log_high.min(piece.log_high);
                    half
                })
            })
            .collect();
        for ((i, _), [first, second]) in worst.into_iter().zip(halves) {
            pieces[i] = first;
            pieces.push(second);
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

/// Brackets the integral over one cell.
fn bound(
    density: &Density,
    index: usize,
    cell: Cell,
    expansion: Option<&Expansion>,
    ladder: Option<&Ladder>,
) -> Piece {
    if cell.is_empty() {
        let score: numeric::CompensatedSum = density.parts.iter().map(|part| part.weight).collect();
        return Piece { density: index, cell, widest: 0, log_low: score.value(), log_high: score.value() };
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
        // ln of what is not positive is NaN or −∞, which a maximum ignores.
        log_low = log_low.max(base + (mean - error - p.error()).ln());
        log_high = log_high.min(base + (mean + error + p.error()).ln());
    }
    let sizes: f64 = cell.iter().map(|&(a, b)| 1.0 + (b - a).ln().abs()).sum();
    let slack = 4.0 * f64::EPSILON * (2.0 + centre.abs() + range.low.abs().max(range.high.abs()) + sizes);
    // Where the two do not meet rounding has the last word.
    let log_high = log_high.max(log_low) + slack;
    Piece { density: index, cell, widest, log_low: log_low - slack, log_high }
}
