//! Checks whether p has a path of positive weight that q forbids. In that case E_p[log q] = −∞, however small
//! the probability of the path.
//!
//! Only the support matters, so the check uses bits instead of masses, which underflow. One bit per state
//! records whether a path of positive weight reaches it from the start, another whether the end can be
//! reached from it. p has a forbidden path exactly if a segment (in a chain: a state at a position) or a
//! transition between two such states is −∞ in q.
//!
//! Time O(B·T·N²/64 + B·T·L·N), memory N² bits for each table and 4·B·T·N bits. For low-rank transitions, only
//! the existing factors are stored, N·R bits, and each row of a table is the union of at most R sets of states:
//! time O(B·T·N²·R/64). If p is sparse, its entries are visited instead of bits: time O(B·T·(E + N)).

use super::entries::{Entries, Index};
use super::messages::Lattice;
use super::nodes::Edges;
use crate::error::Result;
use crate::model::{Pattern, Transitions};
use crate::numeric::Real;
use crate::run::Clock;

/// For each sequence: whether some path of p has weight zero under q, a lattice of the same shape.
pub(super) fn forbidden<F: Real>(
    p: &Lattice<'_, F>,
    q: &Lattice<'_, F>,
    clock: &Clock<'_>,
) -> Result<Vec<bool>> {
    let layout = &p.layout;
    let (batch, steps, states) = (layout.batch(), layout.steps(), layout.largest());
    let mut found = vec![false; batch];
    if !q.edges.has_zeros() && !some_segment_is_missing(q, clock)? {
        return Ok(found);
    }
    let (mut of_p, mut of_q) = (Tables::new(&p.edges), Tables::new(&q.edges));
    let words = states.div_ceil(64);
    let rows = || Rows { words, steps, bits: vec![0; batch * steps * words] };
    // States that can be entered and left at a position: reachable from the start, and from which the end is
    // reachable.
    let (mut entered, mut left, mut entering, mut leaving) = (rows(), rows(), rows(), rows());
    let all = ones(states);
    for t in 0..steps {
        for place in 0..layout.active(t) {
            clock.check()?;
            if t == 0 {
                entered.row_mut(place, 0).copy_from_slice(&all);
            }
            let from = entered.row(place, t);
            starting(p, place, t, |end, some| join(left.row_mut(place, end), from, some));
        }
        let active = layout.active(t + 1);
        if active > 0 {
            of_p.enter(t);
        }
        for place in 0..active {
            clock.check()?;
            let to = entered.row_mut(place, t + 1);
            for i in members(left.row(place, t)) {
                of_p.join_row(i, to);
            }
        }
    }
    for t in (0..steps).rev() {
        let goes_on = layout.active(t + 1);
        if goes_on > 0 {
            of_p.enter(t);
            of_q.enter(t);
        }
        for place in 0..layout.active(t) {
            clock.check()?;
            let b = layout.sequence(place);
            if place >= goes_on {
                leaving.row_mut(place, t).copy_from_slice(&all);
            } else {
                let next = entering.row(place, t + 1);
                for i in members(left.row(place, t)) {
                    let [on, missing] = of_p.leads(i, next, &mut of_q);
                    if on {
                        leaving.row_mut(place, t)[i / 64] |= 1 << (i % 64);
                        found[b] |= missing;
                    }
                }
            }
            let mut theirs: Vec<Vec<u64>> = Vec::new();
            starting(q, place, t, |_, some| theirs.push(some.to_vec()));
            let (from, mut segment) = (entered.row(place, t), 0);
            starting(p, place, t, |end, some| {
                let on_path = |k: usize| from[k] & some[k] & leaving.row(place, end)[k];
                found[b] |= theirs[segment].iter().enumerate().any(|(k, q)| on_path(k) & !q != 0);
                join(entering.row_mut(place, t), leaving.row(place, end), some);
                segment += 1;
            });
        }
    }
    Ok(found)
}

/// Calls `visit` with each end of the segments of a place that start at s, and with one bit per state that is
/// set if such a segment exists.
fn starting<F: Real>(lattice: &Lattice<'_, F>, place: usize, s: usize, mut visit: impl FnMut(usize, &[u64])) {
    if lattice.segments.is_some() {
        return lattice.each_starting(place, s, |t, scores| visit(t, &bits(scores)));
    }
    let mut row = vec![F::ZERO; lattice.layout.size(s)];
    lattice.add_node(place, s, &mut row);
    visit(s, &bits(&row));
}

fn some_segment_is_missing<F: Real>(lattice: &Lattice<'_, F>, clock: &Clock<'_>) -> Result<bool> {
    let layout = &lattice.layout;
    let all = ones(layout.largest());
    let mut missing = false;
    for t in 0..layout.steps() {
        for place in 0..layout.active(t) {
            clock.check()?;
            starting(lattice, place, t, |_, some| missing |= some != all);
        }
        if missing {
            break;
        }
    }
    Ok(missing)
}

/// Rows of bits, one per place and position.
struct Rows {
    words: usize,
    steps: usize,
    bits: Vec<u64>,
}

impl Rows {
    fn row(&self, place: usize, t: usize) -> &[u64] {
        &self.bits[(place * self.steps + t) * self.words..][..self.words]
    }

    fn row_mut(&mut self, place: usize, t: usize) -> &mut [u64] {
        &mut self.bits[(place * self.steps + t) * self.words..][..self.words]
    }
}

/// The existing transitions of one boundary at a time, or of all if they share a table.
struct Tables<'a, F: Real> {
    edges: &'a Edges<'a, F>,
    /// Whether some transition has weight zero.
    zeros: bool,
    at: Option<usize>,
    words: usize,
    /// One row per state; empty for low-rank and sparse transitions.
    bits: Vec<u64>,
    /// For low-rank transitions: the targets of each intermediate state.
    targets: Vec<u64>,
    /// The row of a low-rank or sparse table.
    row: Vec<u64>,
}

impl<'a, F: Real> Tables<'a, F> {
    fn new(edges: &'a Edges<'a, F>) -> Self {
        let (bits, targets, row) = (Vec::new(), Vec::new(), Vec::new());
        Tables { edges, zeros: edges.has_zeros(), at: None, words: 0, bits, targets, row }
    }

    /// The log factors, if the transitions have low rank and some are zero.
    fn factors(&self) -> Option<(&'a [F], &'a [F])> {
        match self.edges.transitions {
            Transitions::LowRank { left, right } if self.zeros => Some((left, right)),
            _ => None,
        }
    }

    /// Prepares the rows of boundary t.
    fn enter(&mut self, t: usize) {
        let t = if self.edges.shared() { 0 } else { t };
        if self.at == Some(t) {
            return;
        }
        self.at = Some(t);
        self.bits.clear();
        let (before, after) = self.edges.shape(t);
        self.words = after.div_ceil(64);
        if self.sparse().is_some() {
            return;
        }
        let mut row = vec![F::ZERO; after];
        if let Some((left, right)) = self.factors() {
            let rank = left.len() / before;
            self.targets.clear();
            for r in 0..rank {
                row.iter_mut().zip(right.iter().skip(r).step_by(rank)).for_each(|(x, &log)| *x = log);
                self.targets.extend(bits(&row));
            }
            return;
        }
        for i in 0..before {
            if self.zeros {
                self.edges.fill(t, Index::Range(i..i + 1), Index::Range(0..after), &mut row);
            }
            self.bits.extend(bits(&row));
        }
    }

    /// The states that state i of a sparse table leads to.
    fn targets(&self, i: usize) -> Option<impl Iterator<Item = usize> + 'a> {
        let (pattern, values) = self.sparse()?;
        let row = pattern.row(i).iter().zip(&values[pattern.starts()[i]..]);
        Some(row.filter(|(_, x)| **x > F::NEG_INFINITY).map(|(&j, _)| j as usize))
    }

    /// The table of the boundary, if the transitions are sparse.
    fn sparse(&self) -> Option<(&'a Pattern, &'a [F])> {
        self.edges.transitions.sparse_table(self.at.unwrap_or(0))
    }

    /// Adds the states that state i leads to.
    fn join_row(&mut self, i: usize, to: &mut [u64]) {
        match self.targets(i) {
            Some(targets) => targets.for_each(|j| to[j / 64] |= 1 << (j % 64)),
            None => to.iter_mut().zip(self.row(i)).for_each(|(x, y)| *x |= y),
        }
    }

    /// Whether state i leads to a state of `next`, and whether it does where `other` has no such transition.
    fn leads(&mut self, i: usize, next: &[u64], other: &mut Self) -> [bool; 2] {
        let (mut on, mut missing) = (false, false);
        if let Some(targets) = self.targets(i) {
            for j in targets.filter(|j| next[j / 64] & (1 << (j % 64)) != 0) {
                (on, missing) = (true, missing || !other.has(i, j));
            }
            return [on, missing];
        }
        let row = self.row(i);
        if meet(row, next) {
            let other = other.row(i);
            (on, missing) = (true, row.iter().zip(other).zip(next).any(|((p, q), next)| p & !q & next != 0));
        }
        [on, missing]
    }

    /// Whether the transition from i to j exists.
    fn has(&mut self, i: usize, j: usize) -> bool {
        match self.sparse() {
            Some((pattern, values)) => pattern.entry(i, j).is_some_and(|e| values[e] > F::NEG_INFINITY),
            None => self.row(i)[j / 64] & (1 << (j % 64)) != 0,
        }
    }

    /// The states that state i leads to.
    fn row(&mut self, i: usize) -> &[u64] {
        if let Some(targets) = self.targets(i) {
            self.row.clear();
            self.row.resize(self.words, 0);
            targets.for_each(|j| self.row[j / 64] |= 1 << (j % 64));
            return &self.row;
        }
        let Some((left, _)) = self.factors() else { return &self.bits[i * self.words..][..self.words] };
        let rank = self.targets.len() / self.words;
        self.row.clear();
        self.row.resize(self.words, 0);
        for (r, targets) in self.targets.chunks_exact(self.words).enumerate() {
            if left[i * rank + r] > F::NEG_INFINITY {
                self.row.iter_mut().zip(targets).for_each(|(x, y)| *x |= y);
            }
        }
        &self.row
    }
}

impl<F: Real> Edges<'_, F> {
    /// True if some transition has weight zero. Products of embeddings never have weight zero.
    fn has_zeros(&self) -> bool {
        match self.transitions {
            Transitions::Shared(values) | Transitions::PerStep(values) | Transitions::PerSequence(values) => {
                values.contains(&F::NEG_INFINITY)
            }
            Transitions::Sparse { .. } => true,
            Transitions::Factored { .. } => false,
            Transitions::LowRank { left, right } => {
                left.contains(&F::NEG_INFINITY) || right.contains(&F::NEG_INFINITY)
            }
        }
    }
}

/// One bit per state, set if its log weight is not −∞.
fn bits<F: Real>(row: &[F]) -> Vec<u64> {
    let word = |some: &[F]| {
        some.iter().enumerate().fold(0, |word, (k, &x)| word | (u64::from(x > F::NEG_INFINITY) << k))
    };
    row.chunks(64).map(word).collect()
}

fn ones(states: usize) -> Vec<u64> {
    bits(&vec![0.0; states])
}

/// The indices of the bits that are set.
fn members(row: &[u64]) -> impl Iterator<Item = usize> {
    row.iter().enumerate().flat_map(|(k, &word)| {
        let mut rest = word;
        std::iter::from_fn(move || {
            (rest != 0).then(|| {
                let bit = rest.trailing_zeros() as usize;
                rest &= rest - 1;
                64 * k + bit
            })
        })
    })
}

fn meet(a: &[u64], b: &[u64]) -> bool {
    a.iter().zip(b).any(|(a, b)| a & b != 0)
}

/// out ← out ∪ (a ∩ b).
fn join(out: &mut [u64], a: &[u64], b: &[u64]) {
    out.iter_mut().zip(a.iter().zip(b)).for_each(|(x, (a, b))| *x |= a & b);
}
