//! Log-transitions, read tile by tile.

use std::borrow::Cow;
use std::ops::Range;

use super::messages::normalise;
use crate::model::Transitions;
use crate::numeric::{Matrix, Real, log_sum_exp, multiply};

/// Maximum number of rows and columns of low-rank log-transitions computed at a time.
pub(super) const ROWS_FILLED: usize = 128;
pub(super) const COLUMNS_FILLED: usize = 512;

/// A selection of rows or columns of a table.
#[derive(Clone, Debug)]
pub(crate) enum Index<'a> {
    /// A contiguous range.
    Range(Range<usize>),
    /// A list of indices.
    List(&'a [u32]),
}

impl Index<'_> {
    pub fn len(&self) -> usize {
        match self {
            Index::Range(range) => range.len(),
            Index::List(list) => list.len(),
        }
    }

    pub fn at(&self, k: usize) -> usize {
        match self {
            Index::Range(range) => range.start + k,
            Index::List(list) => list[k] as usize,
        }
    }

    /// Converts a list of consecutive indices into a range, which is read faster.
    fn simplified(self) -> Self {
        match self {
            Index::List(list @ [first, ..]) if list.iter().zip(*first..).all(|(&k, next)| k == next) => {
                Index::Range(*first as usize..*first as usize + list.len())
            }
            other => other,
        }
    }

    /// The selected rows of `width` numbers, contiguous.
    fn rows_of<'a, F: Real>(&self, values: &'a [F], width: usize) -> Cow<'a, [F]> {
        match self {
            Index::Range(range) => Cow::Borrowed(&values[range.start * width..range.end * width]),
            Index::List(list) => {
                let mut rows = Vec::with_capacity(list.len() * width);
                for &k in *list {
                    rows.extend_from_slice(&values[k as usize * width..(k as usize + 1) * width]);
                }
                Cow::Owned(rows)
            }
        }
    }
}

/// The states that a row or column of a matrix is computed for: those of a list in ascending order, or all.
/// Transitions of other states are impossible.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listed<'a>(pub Option<&'a [u32]>);

impl<'a> Listed<'a> {
    /// State k of the list.
    pub fn at(self, k: usize) -> usize {
        self.0.map_or(k, |list| list[k] as usize)
    }

    /// values(k) ← values(k) + row(state k).
    pub fn add<F: Real>(self, values: &mut [F], row: &[F]) {
        match self.0 {
            None => F::add_to(values, row),
            Some(list) => values.iter_mut().zip(list).for_each(|(x, &j)| *x += row[j as usize]),
        }
    }

    /// Writes −∞ for the other states, of `len` in all.
    pub fn spread<F: Real>(self, values: &mut Vec<F>, len: usize) {
        let Some(list) = self.0 else { return };
        let mut all = vec![F::NEG_INFINITY; len];
        list.iter().zip(&*values).for_each(|(&j, &x)| all[j as usize] = x);
        *values = all;
    }

    /// The states as an index, of `len` states in all.
    pub fn index(self, len: usize) -> Index<'a> {
        self.0.map_or(Index::Range(0..len), Index::List)
    }
}

/// The log-transitions of a lattice: table t leads from layer t to layer t + 1.
pub(crate) trait Entries<F: Real>: Sync {
    /// The number of states of the layers before and after boundary t.
    fn shape(&self, t: usize) -> (usize, usize);

    /// True if all boundaries have the same table.
    fn shared(&self) -> bool;

    /// Writes the log-transitions between `rows` and `columns` of table t, row-major; −∞ for missing
    /// transitions.
    fn fill(&self, t: usize, rows: Index<'_>, columns: Index<'_>, out: &mut [F]);

    /// True if the run must stop. A product with M ∘ D or its gradient asks D before each tile, and then ends
    /// with an invalid result: with many states, one product takes seconds.
    fn must_stop(&self) -> bool {
        false
    }
}

/// The transitions of a chain of `states` states.
pub(crate) struct ChainEntries<'a, F: Real> {
    pub transitions: &'a Transitions<F>,
    pub states: usize,
}

impl<'a, F: Real> ChainEntries<'a, F> {
    /// The whole table t, if it is stored in memory.
    pub fn table(&self, t: usize) -> Option<&'a [F]> {
        let size = self.states * self.states;
        match self.transitions {
            Transitions::Shared(table) => Some(table),
            Transitions::PerStep(tables) | Transitions::PerSequence(tables) => {
                Some(&tables[t * size..(t + 1) * size])
            }
            Transitions::Factored { .. } | Transitions::LowRank { .. } | Transitions::Sparse { .. } => None,
        }
    }
}

impl<F: Real> Entries<F> for ChainEntries<'_, F> {
    fn shape(&self, _: usize) -> (usize, usize) {
        (self.states, self.states)
    }

    fn shared(&self) -> bool {
        self.transitions.shared()
    }

    fn fill(&self, t: usize, rows: Index<'_>, columns: Index<'_>, out: &mut [F]) {
        let (rows, columns) = (rows.simplified(), columns.simplified());
        if rows.len() == 0 || columns.len() == 0 {
            return;
        }
        if let Some((pattern, values)) = self.transitions.sparse_table(t) {
            for (r, out) in out.chunks_exact_mut(columns.len()).take(rows.len()).enumerate() {
                let i = rows.at(r);
                scatter(pattern.row(i), &values[pattern.starts()[i]..], &columns, out);
            }
        } else if let Some(table) = self.table(t) {
            for (r, out) in out.chunks_exact_mut(columns.len()).take(rows.len()).enumerate() {
                let row = &table[rows.at(r) * self.states..][..self.states];
                match &columns {
                    Index::Range(range) => out.copy_from_slice(&row[range.clone()]),
                    Index::List(list) => F::gather(out, row, list),
                }
            }
        } else if let (Transitions::Factored { left, .. }, Some(right)) =
            (self.transitions, self.transitions.right())
        {
            let rank = left.len() / self.states;
            let (l, r) = (rows.rows_of(left, rank), columns.rows_of(right, rank));
            let (l, r) =
                (Matrix::row_major(&l, rows.len(), rank), Matrix::row_major(&r, columns.len(), rank));
            multiply(l, r.transposed(), &mut out[..rows.len() * columns.len()], false);
        } else if let Transitions::LowRank { left, right } = self.transitions {
            let rank = left.len() / self.states;
            let (l, r) = (rows.rows_of(left, rank), columns.rows_of(right, rank));
            let width = columns.len();
            let mut tile = Vec::new();
            for (i, l) in l.chunks(ROWS_FILLED * rank).enumerate() {
                for (j, r) in r.chunks(COLUMNS_FILLED * rank).enumerate() {
                    tile.resize(l.len() / rank * (r.len() / rank), F::ZERO);
                    log_products(l, r, rank, &mut tile);
                    let out = &mut out[i * ROWS_FILLED * width + j * COLUMNS_FILLED..];
                    for (out, row) in out.chunks_mut(width).zip(tile.chunks_exact(r.len() / rank)) {
                        out[..row.len()].copy_from_slice(row);
                    }
                }
            }
        }
    }
}

/// out(k) ← the value of column k of a sparse row, or −∞ if the row has no such entry.
fn scatter<F: Real>(targets: &[u32], values: &[F], columns: &Index<'_>, out: &mut [F]) {
    out.fill(F::NEG_INFINITY);
    match columns {
        Index::Range(range) => {
            let first = targets.partition_point(|&j| (j as usize) < range.start);
            for (&j, &value) in targets.iter().zip(values).skip(first) {
                if j as usize >= range.end {
                    break;
                }
                out[j as usize - range.start] = value;
            }
        }
        Index::List(list) => {
            // Lists often name the entries of the row in order, so the next entry is tried first.
            let mut next = 0;
            for (x, j) in out.iter_mut().zip(*list) {
                let found = match targets.get(next) {
                    Some(target) if target == j => Ok(next),
                    _ => targets.binary_search(j),
                };
                if let Ok(k) = found {
                    (*x, next) = (values[k], k + 1);
                }
            }
        }
    }
}

/// out(i, j) ← ln Σᵣ exp(left(i, r) + right(j, r)), by a product of the exponentials of both. Entries that may
/// have lost too much to underflow are recomputed from the logarithms.
fn log_products<F: Real>(left: &[F], right: &[F], rank: usize, out: &mut [F]) {
    let scaled = |logs: &[F]| {
        let (mut values, mut shifts) = (logs.to_vec(), Vec::with_capacity(logs.len() / rank));
        for row in values.chunks_exact_mut(rank) {
            shifts.push(normalise(row));
        }
        F::exp_in_place(&mut values);
        (values, shifts)
    };
    let ((l, of_left), (r, of_right)) = (scaled(left), scaled(right));
    let (rows, columns) = (of_left.len(), of_right.len());
    let r = Matrix::row_major(&r, columns, rank);
    multiply(Matrix::row_major(&l, rows, rank), r.transposed(), out, false);
    let threshold = F::from_f64(16.0 * rank as f64 * F::TINY.to_f64() / F::EPSILON.to_f64());
    let doubtful: Vec<usize> =
        out.iter().enumerate().filter(|(_, x)| **x < threshold).map(|(at, _)| at).collect();
    F::ln_in_place(out);
    for (row, shift) in out.chunks_exact_mut(columns).zip(&of_left) {
        row.iter_mut().zip(&of_right).for_each(|(x, other)| *x += F::from_f64(shift + other));
    }
    let mut terms = vec![0.0; rank];
    for at in doubtful {
        let (l, r) = (&left[at / columns * rank..], &right[at % columns * rank..]);
        terms.iter_mut().zip(l.iter().zip(r)).for_each(|(x, (l, r))| *x = l.to_f64() + r.to_f64());
        out[at] = F::from_f64(log_sum_exp(&terms));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::method::dynamic::lattice::Edges;
    use crate::random::Streams;

    /// Every kind of index for rows and columns, on the whole model and on a restriction.
    fn tiles_agree_with_single_scores<F: Real>() {
        let random = &mut Streams::new(3, "entries tests").block(0);
        let (states, rank) = (23, 5);
        let sets: [Vec<u32>; 2] =
            [0, 1].map(|k| (0..10 + k).map(|_| random.below(states) as u32).collect::<Vec<_>>());
        let mut numbers =
            |len: usize| -> Vec<F> { (0..len).map(|_| F::from_f64(random.uniform() - 0.5)).collect() };
        let forms = [
            Transitions::Shared(numbers(states * states).into()),
            Transitions::PerStep(numbers(2 * states * states).into()),
            Transitions::Factored { left: numbers(states * rank).into(), right: None },
            Transitions::Factored {
                left: numbers(states * rank).into(),
                right: Some(numbers(states * rank).into()),
            },
            Transitions::LowRank {
                left: numbers(states * rank).into(),
                right: numbers(states * rank).into(),
            },
            Transitions::banded(states, 3, 2, &numbers(states * 6)).unwrap(),
        ];
        let lists: [&[u32]; 4] = [&[3, 4, 5, 6], &[7, 2, 2, 9, 0], &[1], &[]];
        let indices = || lists.into_iter().map(Index::List).chain([Index::Range(2..9), Index::Range(0..10)]);
        for transitions in &forms {
            let entries = ChainEntries { transitions, states };
            let chosen: Vec<(&[u32], &[u32])> = vec![(&sets[0], &sets[1]), (&sets[1], &sets[0])];
            let restricted = Edges { transitions, states, sets: Some(chosen) };
            for rows in indices() {
                for columns in indices() {
                    let mut out = vec![F::from_f64(7.0); rows.len() * columns.len()];
                    entries.fill(1, rows.clone(), columns.clone(), &mut out);
                    let mut part = out.clone();
                    restricted.fill(1, rows.clone(), columns.clone(), &mut part);
                    for at in 0..out.len() {
                        let (i, j) = (rows.at(at / columns.len()), columns.at(at % columns.len()));
                        let want = transitions.score(states, 1, i, j);
                        let close = |x: F, y: f64| {
                            x.to_f64() == y || (x.to_f64() - y).abs() <= 8.0 * F::EPSILON.to_f64()
                        };
                        assert!(close(out[at], want), "({i}, {j})");
                        let want = transitions.score(states, 1, sets[1][i] as usize, sets[0][j] as usize);
                        assert!(close(part[at], want), "({i}, {j})");
                    }
                }
            }
        }
    }

    #[test]
    fn tiles_have_the_scores_of_the_model() {
        tiles_agree_with_single_scores::<f32>();
        tiles_agree_with_single_scores::<f64>();
    }
}
