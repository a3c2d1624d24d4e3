//! Sparse transitions: only listed pairs of states have a positive weight.
//!
//! The pattern is stored by rows (compressed sparse rows: row i has the entries `starts[i]..starts[i + 1]`, each
//! with its target state) and, for sums over source states, by columns. A banded table is a sparse one whose
//! rows list the states i − lower … i + upper. Memory 12 bytes per entry and 16 per state, besides the values.

use std::sync::Arc;

use super::{Transitions, check_scores, expect_len};
use crate::error::{Error, Result};
use crate::model::Values;
use crate::numeric::Real;

/// The pairs of states between which a transition is possible. Cheap to clone.
///
/// ```
/// use zhat::model::{Chain, Pattern, Transitions};
/// // Three states in a row: each stays or moves on to the next one.
/// let pattern = Pattern::new(3, vec![0, 2, 4, 5], vec![0, 1, 1, 2, 2])?;
/// assert_eq!((pattern.len(), pattern.row(1)), (5, &[1, 2][..]));
/// let transitions = Transitions::sparse(pattern, vec![0.0; 5].into());
/// let chain = Chain::crf(3, vec![0.0; 12].into(), vec![4], transitions)?;
/// assert_eq!(chain.score(0, &[0, 0, 1, 2]), 0.0);
/// assert_eq!(chain.score(0, &[1, 0, 1, 2]), f64::NEG_INFINITY);
/// # Ok::<(), zhat::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(Arc<Lists>);

#[derive(Debug, PartialEq, Eq)]
struct Lists {
    /// N + 1 numbers: the first entry of each row.
    starts: Vec<usize>,
    /// The target state of each entry, ascending within a row.
    targets: Vec<u32>,
    /// N + 1 numbers: the first place of each column in the lists below.
    column_starts: Vec<usize>,
    /// The source states of each column, ascending.
    sources: Vec<u32>,
    /// The entry of each of them.
    entries: Vec<u32>,
    /// The largest number of entries of a row or column.
    largest: usize,
}

impl Pattern {
    /// From compressed sparse rows: row i has the target states `targets[starts[i]..starts[i + 1]]`, in ascending
    /// order.
    ///
    /// # Errors
    /// If `starts` is not a list of N + 1 numbers that ascend from 0 to the number of targets, a target is not
    /// below N, or the targets of a row are repeated or not in ascending order.
    pub fn new(states: usize, starts: Vec<usize>, targets: Vec<u32>) -> Result<Self> {
        let fail = |message: String| Err(Error::Model(message));
        if starts.len() != states.saturating_add(1) {
            let found = starts.len();
            return fail(format!("indptr: found {found} numbers, expected N + 1 = {}", states as f64 + 1.0));
        }
        if starts[0] != 0 {
            return fail(format!("indptr: the first number is {}, expected 0", starts[0]));
        }
        if let Some(i) = (0..states).find(|&i| starts[i + 1] < starts[i]) {
            let (from, to) = (starts[i], starts[i + 1]);
            return fail(format!(
                "indptr: row {i} starts at {from} and ends at {to}; the numbers never descend"
            ));
        }
        if starts[states] != targets.len() {
            let (end, found) = (starts[states], targets.len());
            return fail(format!("indptr: the last number is {end}, but there are {found} indices"));
        }
        if targets.len() > u32::MAX as usize {
            return fail(format!("indices: {} entries are more than {}", targets.len(), u32::MAX));
        }
        for i in 0..states {
            for e in starts[i]..starts[i + 1] {
                let j = targets[e] as usize;
                if j >= states {
                    return fail(format!(
                        "indices: entry {e}, in row {i}, is {j}, which is not below {states}"
                    ));
                }
                if e > starts[i] && targets[e - 1] as usize >= j {
                    let what = if targets[e - 1] as usize == j { "repeats" } else { "is smaller than" };
                    let rule = "each row lists different states in ascending order";
                    return fail(format!("indices: entry {e}, in row {i}, {what} the one before it; {rule}"));
                }
            }
        }
        Ok(Pattern(Arc::new(Lists::new(starts, targets))))
    }

    /// Row i has the states from i − `lower` to i + `upper`, as far as they exist.
    ///
    /// # Errors
    /// If there are more than 2³² − 1 entries.
    pub fn banded(states: usize, lower: usize, upper: usize) -> Result<Self> {
        let (mut starts, mut targets) = (vec![0], Vec::new());
        let width = lower.saturating_add(upper).saturating_add(1).min(states);
        if states as f64 * width as f64 > f64::from(u32::MAX) {
            return Err(Error::Model(format!("the band has more than {} entries", u32::MAX)));
        }
        for i in 0..states {
            let last = i.saturating_add(upper).min(states - 1);
            targets.extend(i.saturating_sub(lower) as u32..=last as u32);
            starts.push(targets.len());
        }
        Ok(Pattern(Arc::new(Lists::new(starts, targets))))
    }

    /// N.
    pub fn states(&self) -> usize {
        self.0.starts.len() - 1
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.0.targets.len()
    }

    /// True if there is no entry.
    pub fn is_empty(&self) -> bool {
        self.0.targets.is_empty()
    }

    /// The first entry of each row, and the number of entries.
    pub fn starts(&self) -> &[usize] {
        &self.0.starts
    }

    /// The target state of each entry.
    pub fn targets(&self) -> &[u32] {
        &self.0.targets
    }

    /// The target states of row i.
    pub fn row(&self, i: usize) -> &[u32] {
        &self.0.targets[self.0.starts[i]..self.0.starts[i + 1]]
    }

    /// The entry from state i to state j.
    pub fn entry(&self, i: usize, j: usize) -> Option<usize> {
        let found = u32::try_from(j).ok().and_then(|j| self.row(i).binary_search(&j).ok());
        found.map(|k| self.0.starts[i] + k)
    }

    /// The first place of each column among [`Pattern::sources`], and their number.
    pub(crate) fn column_starts(&self) -> &[usize] {
        &self.0.column_starts
    }

    /// The source states of all columns, column after column.
    pub(crate) fn sources(&self) -> &[u32] {
        &self.0.sources
    }

    /// The entries in the order of [`Pattern::sources`].
    pub(crate) fn by_column(&self) -> &[u32] {
        &self.0.entries
    }

    /// The source states of column j and their entries.
    pub(crate) fn column(&self, j: usize) -> (&[u32], &[u32]) {
        let range = self.0.column_starts[j]..self.0.column_starts[j + 1];
        (&self.0.sources[range.clone()], &self.0.entries[range])
    }

    /// The largest number of entries of a row or column.
    pub(crate) fn largest(&self) -> usize {
        self.0.largest
    }

    /// The memory of the lists, in bytes.
    pub fn bytes(&self) -> usize {
        12 * self.len() + 16 * self.0.starts.len()
    }

    /// Whether there is a path of open entries, of any length, from one of these states to each state, or if `backward`
    /// from each state to one of these. Time: linear in the number of entries.
    pub(in crate::model) fn reached(
        &self,
        from: impl Iterator<Item = usize>,
        backward: bool,
        open: impl Fn(usize) -> bool,
    ) -> Vec<bool> {
        let mut reached = vec![false; self.states()];
        let mut waiting: Vec<usize> = from.collect();
        waiting.iter().for_each(|&state| reached[state] = true);
        while let Some(state) = waiting.pop() {
            let mut visit = |next: u32, entry: usize| {
                let next = next as usize;
                if !reached[next] && open(entry) {
                    reached[next] = true;
                    waiting.push(next);
                }
            };
            if backward {
                let (sources, entries) = self.column(state);
                sources.iter().zip(entries).for_each(|(&source, &entry)| visit(source, entry as usize));
            } else {
                self.row(state).iter().zip(self.0.starts[state]..).for_each(|(&to, entry)| visit(to, entry));
            }
        }
        reached
    }

    /// The states that no transition leads to and those that none leaves.
    pub(in crate::model) fn isolated(&self) -> [Vec<usize>; 2] {
        [&self.0.column_starts, &self.0.starts].map(|starts| {
            let pairs = starts.windows(2).enumerate();
            pairs.filter(|(_, pair)| pair[0] == pair[1]).map(|(state, _)| state).collect()
        })
    }
}

impl Lists {
    fn new(starts: Vec<usize>, targets: Vec<u32>) -> Self {
        let states = starts.len() - 1;
        let mut column_starts = vec![0; states + 1];
        targets.iter().for_each(|&j| column_starts[j as usize + 1] += 1);
        for j in 0..states {
            column_starts[j + 1] += column_starts[j];
        }
        let mut next = column_starts.clone();
        let (mut sources, mut entries) = (vec![0; targets.len()], vec![0; targets.len()]);
        for i in 0..states {
            for e in starts[i]..starts[i + 1] {
                let at = &mut next[targets[e] as usize];
                (sources[*at], entries[*at]) = (i as u32, e as u32);
                *at += 1;
            }
        }
        let longest = |starts: &[usize]| starts.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
        let largest = longest(&starts).max(longest(&column_starts));
        Lists { starts, targets, column_starts, sources, entries, largest }
    }
}

impl<F: Real> Transitions<F> {
    /// Sparse transitions with one value per entry of the pattern, the same at every step.
    pub fn sparse(pattern: Pattern, values: Values<F>) -> Self {
        Transitions::Sparse { pattern, values, per_step: false }
    }

    /// Banded transitions, the same at every step: `band` is N × (lower + upper + 1), and its entry (i, k) is the
    /// log-transition from state i to state i − lower + k. Entries for states that do not exist are not used. The
    /// result is a sparse table.
    ///
    /// # Errors
    /// If `band` has another length, or there are too many entries.
    ///
    /// ```
    /// use zhat::model::Transitions;
    /// // Two states; each stays or moves one state up.
    /// let transitions = Transitions::banded(2, 0, 1, &[0.5, -1.0, 0.25, 9.0])?;
    /// assert_eq!(transitions.len(), 3);
    /// assert_eq!((transitions.score(2, 0, 0, 1), transitions.score(2, 0, 1, 0)), (-1.0, f64::NEG_INFINITY));
    /// # Ok::<(), zhat::Error>(())
    /// ```
    pub fn banded(states: usize, lower: usize, upper: usize, band: &[F]) -> Result<Self> {
        let width = lower.saturating_add(upper).saturating_add(1);
        expect_len("band", band.len(), states.saturating_mul(width), "N × (lower + upper + 1)")?;
        let pattern = Pattern::banded(states, lower, upper)?;
        let rows = band.chunks_exact(width.max(1)).enumerate();
        let exists = |i: usize, k: usize| (lower..lower + states).contains(&(i + k));
        let values = rows
            .flat_map(|(i, row)| row.iter().enumerate().filter(move |&(k, _)| exists(i, k)).map(|(_, &x)| x));
        Ok(Transitions::sparse(pattern, values.collect::<Vec<F>>().into()))
    }

    /// The values of table t of sparse transitions.
    pub(crate) fn sparse_table(&self, t: usize) -> Option<(&Pattern, &[F])> {
        let Transitions::Sparse { pattern, values, per_step } = self else { return None };
        let from = if *per_step { t * pattern.len() } else { 0 };
        Some((pattern, &values[from..from + pattern.len()]))
    }
}

/// Validates sparse values and returns the largest finite |value|.
pub(super) fn check<F: Real>(
    pattern: &Pattern,
    values: &[F],
    per_step: bool,
    [states, steps]: [usize; 2],
) -> Result<f64> {
    if pattern.states() != states {
        let found = pattern.states();
        return Err(Error::Model(format!("transitions: the pattern has {found} states, expected {states}")));
    }
    if per_step {
        let expected = (steps - 1).saturating_mul(pattern.len());
        expect_len("transitions", values.len(), expected, "(T − 1) × entries")?;
    } else {
        expect_len("transitions", values.len(), pattern.len(), "one per entry")?;
    }
    check_scores("transitions", values, 0..values.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_patterns_are_refused_with_row_and_entry() {
        let refused = |states, starts: &[usize], targets: &[u32]| {
            Pattern::new(states, starts.to_vec(), targets.to_vec()).unwrap_err().to_string()
        };
        assert!(refused(2, &[0, 1], &[0]).contains("found 2 numbers, expected N + 1 = 3"));
        assert!(refused(2, &[1, 1, 1], &[0]).contains("the first number is 1"));
        assert!(refused(2, &[0, 2, 1], &[0]).contains("row 1 starts at 2 and ends at 1"));
        assert!(refused(2, &[0, 1, 3], &[0, 1]).contains("the last number is 3, but there are 2"));
        assert!(refused(2, &[0, 1, 2], &[0, 2]).contains("entry 1, in row 1, is 2"));
        assert!(refused(2, &[0, 0, 2], &[1, 1]).contains("entry 1, in row 1, repeats"));
        assert!(refused(2, &[0, 0, 2], &[1, 0]).contains("entry 1, in row 1, is smaller"));
    }

    #[test]
    fn columns_are_the_transpose() {
        let pattern = Pattern::new(4, vec![0, 2, 2, 5, 6], vec![1, 3, 0, 1, 2, 1]).unwrap();
        assert_eq!(pattern.column(1), (&[0, 2, 3][..], &[0, 3, 5][..]));
        assert_eq!((pattern.entry(2, 2), pattern.entry(1, 1), pattern.largest()), (Some(4), None, 3));
        assert_eq!(pattern.isolated().map(|states| states.len()), [0, 1]);
        let band = Pattern::banded(4, 1, 2).unwrap();
        assert_eq!((band.row(0), band.row(2), band.row(3)), (&[0, 1, 2][..], &[1, 2, 3][..], &[2, 3][..]));
        assert_eq!(Pattern::banded(3, 9, 9).unwrap().len(), 9);
        assert!(Pattern::banded(100_000, usize::MAX, 0).is_err());
    }

    #[test]
    fn values_of_another_length_are_refused() {
        let pattern = Pattern::banded(3, 0, 1).unwrap();
        let refused = |values: Vec<f64>, per_step, states| {
            let transitions =
                Transitions::Sparse { pattern: pattern.clone(), values: values.into(), per_step };
            transitions.check(states, 4, &[4]).unwrap_err().to_string()
        };
        assert!(refused(vec![0.0; 4], false, 3).contains("found 4 numbers, expected one per entry = 5"));
        assert!(refused(vec![0.0; 5], true, 3).contains("(T − 1) × entries = 15"));
        assert!(refused(vec![0.0; 5], false, 4).contains("3 states, expected 4"));
        assert!(refused(vec![0.0, 0.0, f64::NAN, 0.0, 0.0], false, 3).contains("number 2 is NaN"));
        assert!(Transitions::banded(3, 0, 1, &[0.0; 5]).is_err());
    }
}
