//! Counts of states and pairs of states in a table.
//!
//! The counts for columns i < j are nᵢⱼ(a, b) = #{rows with a in i and b in j}: the sufficient statistics of
//! every model with pairwise interactions. Rows are processed in blocks, column by column, so that the counts
//! of one pair stay in the L1 cache while a block is counted; blocks are counted on all threads. Time O(rows
//! · columns²), memory O((Σᵢ states)²) per thread.

use crate::numeric::parallel::prelude::*;

use super::table::{Table, no_rows};
use crate::error::{Error, Result};
use crate::io::table::dictionary::MISSING;
use crate::io::table::{Column, check_names};
use crate::run::Run;
use crate::units;

/// Number of rows per block.
const BLOCK: usize = 1 << 14;

/// Counts of a table of complete rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statistics {
    columns: Vec<Column>,
    rows: u64,
    dropped: u64,
    lacking: Vec<u64>,
    singles: Vec<Vec<u64>>,
    /// For i < j, at index j(j−1)/2 + i: row-major, with the states of i as rows.
    pairs: Vec<Vec<u64>>,
}

/// Counts for columns that may still get more states.
#[derive(Clone, Debug, Default)]
pub struct Counter {
    rows: u64,
    lengths: Vec<usize>,
    singles: Vec<Vec<u64>>,
    pairs: Vec<Vec<u64>>,
}

/// Columns with missing values and the number of affected rows, largest first.
pub(crate) fn lacking<'a>(names: impl Iterator<Item = &'a str>, counts: &[u64]) -> Vec<(&'a str, u64)> {
    let mut found: Vec<(&str, u64)> =
        names.zip(counts.iter().copied()).filter(|(_, count)| *count > 0).collect();
    found.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    found
}

fn pair_index(i: usize, j: usize) -> usize {
    j * (j - 1) / 2 + i
}

/// A table over (a, b) extended by rows and columns of zeros.
fn enlarged(table: &[u64], old: (usize, usize), new: (usize, usize)) -> Vec<u64> {
    if old == new {
        return table.to_vec();
    }
    let mut larger = vec![0; new.0 * new.1];
    for a in 0..old.0 {
        larger[a * new.1..a * new.1 + old.1].copy_from_slice(&table[a * old.1..(a + 1) * old.1]);
    }
    larger
}

impl Counter {
    /// Zero counts for columns with these numbers of states.
    pub fn new(lengths: Vec<usize>) -> Self {
        let singles = lengths.iter().map(|&n| vec![0; n]).collect();
        let mut pairs = Vec::new();
        for j in 1..lengths.len() {
            pairs.extend((0..j).map(|i| vec![0; lengths[i] * lengths[j]]));
        }
        Counter { rows: 0, lengths, singles, pairs }
    }

    /// The memory of the counts for columns with these numbers of states, in bytes.
    pub fn bytes(lengths: &[usize]) -> f64 {
        let sum: f64 = lengths.iter().map(|&n| n as f64).sum();
        let squares: f64 = lengths.iter().map(|&n| (n as f64).powi(2)).sum();
        8.0 * (sum + 0.5 * (sum * sum - squares))
    }

    /// Extends the counts to more states.
    pub fn grow(&mut self, lengths: &[usize]) {
        if self.lengths == lengths {
            return;
        }
        if self.lengths.is_empty() {
            *self = Counter::new(lengths.to_vec());
            return;
        }
        for (own, &n) in self.singles.iter_mut().zip(lengths) {
            own.resize(n, 0);
        }
        for j in 1..lengths.len() {
            for i in 0..j {
                let table = &mut self.pairs[pair_index(i, j)];
                *table = enlarged(table, (self.lengths[i], self.lengths[j]), (lengths[i], lengths[j]));
            }
        }
        self.lengths = lengths.to_vec();
    }

    /// Counts rows: `codes[i]` are the states in column i, all below its number of states.
    pub fn add(&mut self, codes: &[Vec<u32>]) {
        let rows = codes.first().map_or(0, Vec::len);
        self.rows += rows as u64;
        for start in (0..rows).step_by(BLOCK) {
            let block = start..(start + BLOCK).min(rows);
            for (j, right) in codes.iter().enumerate() {
                let right = &right[block.clone()];
                let single = &mut self.singles[j];
                right.iter().for_each(|&b| single[b as usize] += 1);
                for (i, left) in codes[..j].iter().enumerate() {
                    let (n, table) = (self.lengths[j], &mut self.pairs[pair_index(i, j)]);
                    for (&a, &b) in left[block.clone()].iter().zip(right) {
                        table[a as usize * n + b as usize] += 1;
                    }
                }
            }
        }
    }

    /// Adds the counts of other rows; `codes[i][a]` is the state here that corresponds to state a of column i
    /// there.
    pub fn merge(&mut self, other: &Counter, codes: &[Vec<u32>]) {
        // A thread that got no rows has no tables.
        if other.lengths.is_empty() {
            return;
        }
        self.rows += other.rows;
        for ((own, theirs), codes) in self.singles.iter_mut().zip(&other.singles).zip(codes) {
            theirs.iter().zip(codes).for_each(|(&count, &state)| own[state as usize] += count);
        }
        for j in 1..self.lengths.len() {
            for i in 0..j {
                let (n, at) = (self.lengths[j], pair_index(i, j));
                let width = other.lengths[j];
                for (a, &state_a) in codes[i].iter().enumerate() {
                    let row = &other.pairs[at][a * width..(a + 1) * width];
                    for (&count, &state_b) in row.iter().zip(&codes[j]) {
                        self.pairs[at][state_a as usize * n + state_b as usize] += count;
                    }
                }
            }
        }
    }

    /// The number of rows.
    pub fn rows(&self) -> u64 {
        self.rows
    }
}

impl Statistics {
    /// The counts, with the names of columns and states. States that occur in no counted row are left out;
    /// the others are sorted, numbers by value and words alphabetically.
    ///
    /// `dropped` is the number of rows left out; `lacking` is, for each column, the number of rows without a
    /// value in it.
    ///
    /// # Errors
    /// If no row was counted, a column has no name, or two columns have the same name.
    ///
    /// # Panics
    /// If a column has a state that `counter` has no count of.
    pub fn new(columns: Vec<Column>, counter: Counter, dropped: u64, lacking: Vec<u64>) -> Result<Self> {
        if counter.rows == 0 {
            return Err(no_rows(&columns, dropped, &lacking));
        }
        check_names(columns.iter().map(|column| column.name.as_str()))?;
        let mut codes = Vec::with_capacity(columns.len());
        let mut sorted = Vec::with_capacity(columns.len());
        for (column, counts) in columns.into_iter().zip(&counter.singles) {
            let (column, code) = sorted_states(column, |state| counts[state] > 0);
            codes.push(code);
            sorted.push(column);
        }
        let mut ordered = Counter::new(sorted.iter().map(|column: &Column| column.states.len()).collect());
        ordered.merge(&counter, &codes);
        let Counter { rows, singles, pairs, .. } = ordered;
        Ok(Statistics { columns: sorted, rows, dropped, lacking, singles, pairs })
    }

    /// Counts columns of codes, on all threads; `None` is a missing value, and its row is left out.
    ///
    /// # Errors
    /// If the columns have different numbers of rows, a code is out of range, or the counts exceed the memory
    /// budget; also as [`Statistics::new`].
    pub fn of_codes(columns: Vec<Column>, codes: &[Vec<Option<u32>>], run: &Run) -> Result<Self> {
        let lengths: Vec<usize> = columns.iter().map(|column| column.states.len()).collect();
        let rows = codes.first().map_or(0, Vec::len);
        if columns.len() != codes.len() || codes.iter().any(|own| own.len() != rows) {
            return Err(Error::argument("data", "the columns have different numbers of rows"));
        }
        for (column, own) in columns.iter().zip(codes) {
            let states = column.states.len() as u32;
            if let Some(row) = own.iter().position(|code| code.is_some_and(|code| code >= states)) {
                let message = format!("row {row} has a state that column {} does not have", column.name);
                return Err(Error::argument("data", message));
            }
        }
        run.require_memory("counting", Counter::bytes(&lengths) * (run.threads() + 1) as f64)?;
        let pieces = run.threads().max(1);
        let length = rows.div_ceil(pieces).max(1);
        let count = |start: usize| {
            let piece = start..(start + length).min(rows);
            let whole: Vec<usize> =
                piece.filter(|&row| codes.iter().all(|column| column[row].is_some())).collect();
            let mut counter = Counter::new(lengths.clone());
            let own: Vec<Vec<u32>> = codes
                .iter()
                .map(|column| whole.iter().map(|&row| column[row].unwrap_or_default()).collect())
                .collect();
            counter.add(&own);
            counter
        };
        let starts: Vec<usize> = (0..rows).step_by(length).collect();
        let counted: Vec<Counter> = run.install(|| starts.into_par_iter().map(count).collect());
        let mut all = Counter::new(lengths.clone());
        let same: Vec<Vec<u32>> = lengths.iter().map(|&n| (0..n as u32).collect()).collect();
        counted.iter().for_each(|counter| all.merge(counter, &same));
        let dropped = rows as u64 - all.rows;
        let lacking =
            codes.iter().map(|column| column.iter().filter(|code| code.is_none()).count() as u64).collect();
        Statistics::new(columns, all, dropped, lacking)
    }

    /// Counts of columns with the states 0 and 1, from the columns of each row that are 1. Time: the squared size of
    /// every set; there is no table of rows × columns. Weights are multiplied by a common factor and rounded, so that
    /// their sum is about 2⁵²; whole weights keep their ratios exactly.
    ///
    /// # Errors
    /// If the counts exceed the memory budget; also as [`Statistics::new`].
    pub(crate) fn of_sets<'a>(
        columns: Vec<Column>,
        rows: impl Iterator<Item = (Vec<usize>, Option<f64>)> + Clone + 'a,
        run: &Run,
    ) -> Result<Self> {
        let n = columns.len();
        run.require_memory("counting", Counter::bytes(&vec![2; n]))?;
        let total: f64 = rows.clone().filter_map(|(_, weight)| weight).sum();
        // A power of two.
        let factor = if total > 0.0 { (2f64.powi(52) / total).log2().floor().exp2() } else { 1.0 };
        let mut counter = Counter::new(vec![2; n]);
        for (set, weight) in rows {
            let count = weight.map_or(1, |weight| (weight * factor).round() as u64);
            counter.rows += count;
            for (at, &j) in set.iter().enumerate() {
                counter.singles[j][1] += count;
                for &i in &set[..at] {
                    counter.pairs[pair_index(i.min(j), i.max(j))][3] += count;
                }
            }
        }
        // The other counts follow from those of 1 and of (1, 1).
        let all = counter.rows;
        for j in 0..n {
            let second = counter.singles[j][1];
            counter.singles[j][0] = all - second;
            for i in 0..j {
                let first = counter.singles[i][1];
                let table = &mut counter.pairs[pair_index(i, j)];
                let both = table[3];
                table.copy_from_slice(&[all + both - first - second, second - both, first - both, both]);
            }
        }
        Statistics::new(columns, counter, 0, vec![0; n])
    }

    /// The counts of the values that are present: of a state over the rows with a value in its column, and of a
    /// pair of states over the rows with a value in both columns. For complete rows these are the usual counts.
    /// They are used to choose a structure and initial parameters if rows are incomplete.
    ///
    /// # Errors
    /// If the counts exceed the memory budget, or the run is cancelled or out of time.
    pub fn available(table: &Table, run: &Run) -> Result<Self> {
        let clock = run.start("counting");
        let lengths: Vec<usize> = table.columns().iter().map(|column| column.states.len()).collect();
        if Counter::bytes(&lengths) > run.memory() as f64 {
            return Err(too_many_states(table.columns(), run));
        }
        let mut counter = Counter::new(lengths.clone());
        for (r, (row, count)) in table.iter().enumerate() {
            if r % BLOCK == 0 {
                clock.check()?;
            }
            for (j, &b) in row.iter().enumerate().filter(|(_, cell)| **cell != MISSING) {
                counter.singles[j][b as usize] += count;
                for (i, &a) in row[..j].iter().enumerate().filter(|(_, cell)| **cell != MISSING) {
                    counter.pairs[pair_index(i, j)][a as usize * lengths[j] + b as usize] += count;
                }
            }
        }
        Ok(Statistics {
            columns: table.columns().to_vec(),
            rows: table.rows(),
            dropped: table.dropped(),
            lacking: table.lacking_counts().to_vec(),
            singles: counter.singles,
            pairs: counter.pairs,
        })
    }

    /// The columns, with sorted states.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The number of rows counted.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The number of rows left out because of a missing value.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Columns with missing values and the number of affected rows, largest first.
    pub fn lacking(&self) -> Vec<(&str, u64)> {
        lacking(self.columns.iter().map(|column| column.name.as_str()), &self.lacking)
    }

    /// How often each state of a column occurs.
    pub fn single(&self, i: usize) -> &[u64] {
        &self.singles[i]
    }

    /// How often each pair of states occurs, row-major, with the states of column i as rows.
    pub fn pair(&self, i: usize, j: usize) -> Vec<u64> {
        let (a, b) = (i.min(j), i.max(j));
        let table = &self.pairs[pair_index(a, b)];
        if i < j {
            return table.clone();
        }
        let (rows, width) = (self.columns[a].states.len(), self.columns[b].states.len());
        let at = |k: usize| table[k % rows * width + k / rows];
        (0..table.len()).map(at).collect()
    }

    /// Columns that have the same state in every row.
    pub fn constants(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().filter(|column| column.states.len() == 1)
    }

    /// The mutual information of the empirical distribution, I(i; j) = Σ p(a, b)·ln(p(a, b)/(p(a)·p(b))), in
    /// nats.
    pub fn mutual_information(&self, i: usize, j: usize) -> f64 {
        let (a, b) = (i.min(j), i.max(j));
        let table = &self.pairs[pair_index(a, b)];
        let width = self.singles[b].len();
        // The margins of the pair, which differ from the counts of single columns if values are missing.
        let left: Vec<u64> = table.chunks(width.max(1)).map(|row| row.iter().sum()).collect();
        let right: Vec<u64> = (0..width).map(|s| table.iter().skip(s).step_by(width).sum()).collect();
        let total = left.iter().sum::<u64>() as f64;
        let mut sum = 0.0;
        for (k, &count) in table.iter().enumerate() {
            if count > 0 {
                let expected = left[k / width] as f64 * right[k % width] as f64;
                sum += count as f64 * (count as f64 * total / expected).ln();
            }
        }
        if total > 0.0 { (sum / total).max(0.0) } else { 0.0 }
    }

    /// The entropy of the empirical distribution, H(i) = −Σ p(a)·ln p(a), in nats.
    pub fn entropy(&self, i: usize) -> f64 {
        let total = self.singles[i].iter().sum::<u64>() as f64;
        let term = |&count: &u64| if count > 0 { -(count as f64) * (count as f64 / total).ln() } else { 0.0 };
        self.singles[i].iter().map(term).sum::<f64>() / total
    }
}

/// A column with only the states that occur, in order, and the new code of each old state. States that are left
/// out have code 0, which is not used.
pub(super) fn sorted_states(column: Column, occurs: impl Fn(usize) -> bool) -> (Column, Vec<u32>) {
    let mut order: Vec<usize> = (0..column.states.len()).filter(|&state| occurs(state)).collect();
    order.sort_by(|&a, &b| compare(&column.states[a], &column.states[b]));
    let mut code = vec![0; column.states.len()];
    order.iter().enumerate().for_each(|(new, &old)| code[old] = new as u32);
    let states = order.into_iter().map(|old| column.states[old].clone()).collect();
    (Column { name: column.name, states }, code)
}

/// Orders numbers by value and before words, words alphabetically.
fn compare(a: &str, b: &str) -> std::cmp::Ordering {
    match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(x), Ok(y)) => x.total_cmp(&y).then_with(|| a.cmp(b)),
        (Ok(_), Err(_)) => std::cmp::Ordering::Less,
        (Err(_), Ok(_)) => std::cmp::Ordering::Greater,
        (Err(_), Err(_)) => a.cmp(b),
    }
}

/// The error for counts that exceed the memory budget.
pub(crate) fn too_many_states(columns: &[Column], run: &Run) -> Error {
    let widest = columns.iter().max_by_key(|column| column.states.len());
    let lengths: Vec<usize> = columns.iter().map(|column| column.states.len()).collect();
    let name = widest.map_or("", |column| &column.name);
    let states = widest.map_or(0, |column| column.states.len());
    Error::argument(
        "data",
        format!(
            "column {name} has {states} states or more, and the counts of all pairs take {}, over the budget of {}; leave it out or group its values",
            units::bytes(Counter::bytes(&lengths)),
            units::bytes(run.memory() as f64)
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Streams;

    fn random_codes(seed: u64, lengths: &[usize], rows: usize) -> Vec<Vec<u32>> {
        let mut random = Streams::new(seed, "tables").block(0);
        lengths.iter().map(|&n| (0..rows).map(|_| random.below(n) as u32).collect()).collect()
    }

    fn columns(lengths: &[usize]) -> Vec<Column> {
        let state = |s: usize| format!("s{s:03}");
        let column =
            |(i, &n): (usize, &usize)| Column { name: format!("c{i}"), states: (0..n).map(state).collect() };
        lengths.iter().enumerate().map(column).collect()
    }

    /// The counts of sets are those of their table; rows of whole weights count as repeated rows.
    #[test]
    fn sets_are_counted_like_their_table() {
        let run = Run::default().with_threads(1);
        let named = |n: usize| -> Vec<Column> {
            let column = |i: usize| Column { name: format!("c{i}"), states: vec!["0".into(), "1".into()] };
            (0..n).map(column).collect()
        };
        for (seed, n, rows) in [(1, 2, 1), (2, 5, 40), (3, 7, 300), (4, 1, 9)] {
            let codes = random_codes(seed, &vec![2; n], rows);
            // One column is constant.
            let code = |j: usize, row: usize| if j == 3 { 0 } else { codes[j][row] };
            let set = |row: usize| (0..n).filter(|&j| code(j, row) == 1).collect::<Vec<usize>>();
            let table = |rows: &[usize]| -> Vec<Vec<Option<u32>>> {
                (0..n).map(|j| rows.iter().map(|&row| Some(code(j, row))).collect()).collect()
            };
            let all: Vec<usize> = (0..rows).collect();
            let found = Statistics::of_sets(named(n), all.iter().map(|&row| (set(row), None)), &run).unwrap();
            assert_eq!(found, Statistics::of_codes(named(n), &table(&all), &run).unwrap());
            let weighted = all.iter().map(|&row| (set(row), Some((row % 3) as f64 + 1.0)));
            let found = Statistics::of_sets(named(n), weighted, &run).unwrap();
            let repeated: Vec<usize> =
                all.iter().flat_map(|&row| std::iter::repeat_n(row, row % 3 + 1)).collect();
            let want = Statistics::of_codes(named(n), &table(&repeated), &run).unwrap();
            let factor = found.rows() / want.rows();
            assert_eq!(found.rows(), factor * want.rows());
            for j in 0..n {
                for i in 0..j {
                    let scaled: Vec<u64> = want.pair(i, j).iter().map(|count| factor * count).collect();
                    assert_eq!(found.pair(i, j), scaled);
                }
            }
        }
    }

    /// A thread that reads no block of a file has a counter without tables.
    #[test]
    fn counts_of_no_rows_add_nothing() {
        let lengths = [2, 3];
        let mut counter = Counter::new(lengths.to_vec());
        counter.add(&random_codes(1, &lengths, 10));
        let before = (counter.rows, counter.singles.clone(), counter.pairs.clone());
        counter.merge(&Counter::default(), &[vec![], vec![]]);
        assert_eq!((counter.rows, counter.singles, counter.pairs), before);
    }

    #[test]
    fn counts_are_those_of_a_loop_over_rows() {
        let lengths = [3, 1, 4, 2];
        let codes = random_codes(1, &lengths, 40_000);
        let some: Vec<Vec<Option<u32>>> = codes
            .iter()
            .enumerate()
            .map(|(i, column)| {
                column.iter().enumerate().map(|(r, &c)| (i != 2 || r % 7 != 3).then_some(c)).collect()
            })
            .collect();
        for threads in [1, 3] {
            let run = Run::default().with_threads(threads);
            let statistics = Statistics::of_codes(columns(&lengths), &some, &run).unwrap();
            assert_eq!(statistics.rows() + statistics.dropped(), 40_000);
            for i in 0..4 {
                for j in 0..4 {
                    if i == j {
                        continue;
                    }
                    let mut want = vec![0; lengths[i] * lengths[j]];
                    for r in (0..40_000).filter(|r| r % 7 != 3) {
                        want[codes[i][r] as usize * lengths[j] + codes[j][r] as usize] += 1;
                    }
                    assert_eq!(statistics.pair(i, j), want, "{i} {j}");
                }
            }
        }
    }

    #[test]
    fn states_are_put_in_order_and_counters_grow() {
        let names = ["10", "b", "9", "a"].map(String::from).to_vec();
        let mut counter = Counter::new(vec![2, 1]);
        counter.add(&[vec![0, 1, 1], vec![0, 0, 0]]);
        counter.grow(&[4, 2]);
        counter.add(&[vec![2, 3, 3], vec![1, 1, 0]]);
        let both = vec![
            Column { name: "x".into(), states: names },
            Column { name: "y".into(), states: vec!["0".into(), "1".into()] },
        ];
        let statistics = Statistics::new(both, counter, 0, vec![0; 2]).unwrap();
        assert_eq!(statistics.columns()[0].states, ["9", "10", "a", "b"]);
        assert_eq!(statistics.single(0), [1, 1, 2, 2]);
        assert_eq!(statistics.pair(0, 1), [0, 1, 1, 0, 1, 1, 2, 0]);
    }

    #[test]
    fn information_is_that_of_the_definition() {
        let lengths = [3, 4];
        let mut codes = random_codes(3, &lengths, 500);
        codes[1] = codes[0].iter().zip(&codes[1]).map(|(&a, &b)| if b == 0 { a } else { b }).collect();
        let some: Vec<Vec<Option<u32>>> =
            codes.iter().map(|column| column.iter().map(|&c| Some(c)).collect()).collect();
        let s = Statistics::of_codes(columns(&lengths), &some, &Run::default()).unwrap();
        let joint: f64 = s
            .pair(0, 1)
            .iter()
            .filter(|&&n| n > 0)
            .map(|&n| -(n as f64 / 500.0) * (n as f64 / 500.0).ln())
            .sum();
        assert!((s.mutual_information(0, 1) - (s.entropy(0) + s.entropy(1) - joint)).abs() < 1e-12);
        assert_eq!(s.mutual_information(0, 1), s.mutual_information(1, 0));
    }

    #[test]
    fn what_cannot_be_counted_is_refused() {
        let run = Run::default();
        assert!(
            Statistics::of_codes(columns(&[2]), &[vec![]], &run).unwrap_err().to_string().contains("no rows")
        );
        let all = Statistics::of_codes(columns(&[2]), &[vec![None]], &run).unwrap_err().to_string();
        assert!(all.contains("missing"), "{all}");
        let mut twice = columns(&[2, 2]);
        twice[1].name = "c0".into();
        let rows = vec![vec![Some(0)], vec![Some(1)]];
        assert!(Statistics::of_codes(twice, &rows, &run).unwrap_err().to_string().contains("`c0`"));
        assert!(Statistics::of_codes(columns(&[1, 2]), &[vec![Some(1)], vec![Some(0)]], &run).is_err());
    }
}
