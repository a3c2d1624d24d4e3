//! Log-transitions, read tile by tile.

use std::ops::Range;

use crate::model::Transitions;
use crate::numeric::Real;

/// Which rows or columns of a table are meant.
#[derive(Clone, Debug)]
pub(crate) enum Index<'a> {
    /// These, one after the other.
    Range(Range<usize>),
    /// These.
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
}

/// The log-transitions of a lattice: table t leads from layer t to layer t + 1.
pub(crate) trait Entries<F: Real>: Sync {
    /// The number of states of the layers before and after boundary t.
    fn shape(&self, t: usize) -> (usize, usize);

    /// True if all boundaries have the same table.
    fn shared(&self) -> bool;

    /// Writes the log-transitions between `rows` and `columns` of table t, row-major, −∞ where there is none.
    fn fill(&self, t: usize, rows: Index<'_>, columns: Index<'_>, out: &mut [F]);
}

/// The transitions of a chain of `states` states.
pub(crate) struct ChainEntries<'a, F: Real> {
    pub transitions: &'a Transitions<F>,
    pub states: usize,
}

impl<F: Real> Entries<F> for ChainEntries<'_, F> {
    fn shape(&self, _: usize) -> (usize, usize) {
        (self.states, self.states)
    }

    fn shared(&self) -> bool {
        !matches!(self.transitions, Transitions::PerStep(_))
    }

    fn fill(&self, t: usize, rows: Index<'_>, columns: Index<'_>, out: &mut [F]) {
        for (r, row) in out.chunks_exact_mut(columns.len()).enumerate() {
            for (c, x) in row.iter_mut().enumerate() {
                *x = F::from_f64(self.transitions.score(self.states, t, rows.at(r), columns.at(c)));
            }
        }
    }
}

/// A lattice that keeps only some states of each layer.
pub(crate) struct Restricted<'a, F: Real> {
    pub entries: &'a dyn Entries<F>,
    /// The states kept before boundary t, and after it: for a chain the sets of layers t and t + 1.
    pub sets: Vec<(&'a [u32], &'a [u32])>,
}

impl<F: Real> Entries<F> for Restricted<'_, F> {
    fn shape(&self, t: usize) -> (usize, usize) {
        let (before, after) = self.sets[t];
        (before.len(), after.len())
    }

    fn shared(&self) -> bool {
        false
    }

    fn fill(&self, t: usize, rows: Index<'_>, columns: Index<'_>, out: &mut [F]) {
        let (before, after) = self.sets[t];
        let (mut some_rows, mut some_columns) = (Vec::new(), Vec::new());
        let rows = compose(before, rows, &mut some_rows);
        let columns = compose(after, columns, &mut some_columns);
        self.entries.fill(t, Index::List(rows), Index::List(columns), out);
    }
}

/// The members of `set` that `index` means; `buffer` holds them where they do not stand side by side.
fn compose<'a>(set: &'a [u32], index: Index<'_>, buffer: &'a mut Vec<u32>) -> &'a [u32] {
    match index {
        Index::Range(range) => &set[range],
        Index::List(list) => {
            buffer.extend(list.iter().map(|&k| set[k as usize]));
            buffer
        }
    }
}
