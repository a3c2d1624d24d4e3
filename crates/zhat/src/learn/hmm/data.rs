//! Sequences of observations.

use crate::error::{Error, Result};

/// Sequences of observations, one row of numbers per step.
///
/// A symbol of a categorical model is its number. NaN is a missing value.
///
/// ```
/// use zhat::learn::hmm::Sequences;
/// let data = Sequences::new(2, vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0], &[2, 1])?;
/// assert_eq!((data.count(), data.rows(), data.sequence(1)), (2, 3, &[4.0, 5.0][..]));
/// # Ok::<(), zhat::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Sequences {
    columns: usize,
    values: Vec<f64>,
    ends: Vec<usize>,
    /// The file and the line of each row, for messages; empty for data in memory.
    source: String,
    lines: Vec<usize>,
    names: Vec<String>,
    /// The names of known states, for messages; empty for numbers.
    states: Vec<String>,
}

impl Sequences {
    /// Rows of `columns` numbers, divided into sequences of these lengths.
    ///
    /// # Errors
    /// If there are no columns or no sequences, a sequence is empty, a value is infinite, or the lengths do not
    /// add up to the number of rows.
    pub fn new(columns: usize, values: Vec<f64>, lengths: &[usize]) -> Result<Self> {
        if columns == 0 || !values.len().is_multiple_of(columns) {
            let message = format!("{} numbers are not rows of {columns}", values.len());
            return Err(Error::argument("observations", message));
        }
        let rows = values.len() / columns;
        if lengths.is_empty() {
            return Err(Error::argument("lengths", "there are no sequences"));
        }
        if let Some(i) = lengths.iter().position(|&length| length == 0) {
            return Err(Error::argument(
                "lengths",
                format!("sequence {i} has length 0, expected at least 1"),
            ));
        }
        let total = lengths.iter().try_fold(0usize, |sum, &length| sum.checked_add(length));
        if total != Some(rows) {
            let total = total.map_or("too many".to_owned(), |total| total.to_string());
            return Err(Error::argument(
                "lengths",
                format!("add up to {total}, but there are {rows} rows of observations"),
            ));
        }
        let mut end = 0;
        let ends = lengths.iter().map(|length| {
            end += length;
            end
        });
        let made = Sequences {
            columns,
            ends: ends.collect(),
            source: String::new(),
            lines: Vec::new(),
            names: (0..columns).map(|i| format!("x{i}")).collect(),
            states: Vec::new(),
            values,
        };
        if let Some(at) = made.values.iter().position(|value| value.is_infinite()) {
            let message = format!("found {}, expected a finite number", made.values[at]);
            return Err(made.fail(at / columns, at % columns, &message));
        }
        Ok(made)
    }

    /// The same with the file, the lines of the rows and the names of the columns, for messages.
    pub(super) fn with_origin(mut self, source: &str, lines: Vec<usize>, names: Vec<String>) -> Self {
        (self.source, self.lines, self.names) = (source.to_owned(), lines, names);
        self
    }

    /// The same with the names of known states, for messages.
    pub(super) fn with_states(mut self, names: Vec<String>) -> Self {
        self.states = names;
        self
    }

    /// The name of a known state, or its number.
    pub(super) fn state(&self, state: usize) -> String {
        self.states.get(state).map_or_else(|| state.to_string(), |name| format!("`{name}`"))
    }

    /// The number of numbers per row.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The names of the columns.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The number of rows of all sequences.
    pub fn rows(&self) -> usize {
        self.values.len() / self.columns
    }

    /// The number of sequences.
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// All rows.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// The range of rows of a sequence.
    pub fn range(&self, sequence: usize) -> std::ops::Range<usize> {
        let start = if sequence == 0 { 0 } else { self.ends[sequence - 1] };
        start..self.ends[sequence]
    }

    /// The length of a sequence.
    pub fn length(&self, sequence: usize) -> usize {
        self.range(sequence).len()
    }

    /// The lengths of all sequences.
    pub fn lengths(&self) -> Vec<usize> {
        (0..self.count()).map(|i| self.length(i)).collect()
    }

    /// The rows of a sequence.
    pub fn sequence(&self, sequence: usize) -> &[f64] {
        let range = self.range(sequence);
        &self.values[range.start * self.columns..range.end * self.columns]
    }

    /// Some of the sequences.
    ///
    /// # Errors
    /// If there are none.
    pub fn subset(&self, sequences: &[usize]) -> Result<Self> {
        let values = sequences.iter().flat_map(|&i| self.sequence(i).iter().copied()).collect();
        let lengths: Vec<usize> = sequences.iter().map(|&i| self.length(i)).collect();
        let lines = if self.lines.is_empty() {
            Vec::new()
        } else {
            sequences.iter().flat_map(|&i| self.lines[self.range(i)].iter().copied()).collect()
        };
        let made = Sequences::new(self.columns, values, &lengths)?;
        Ok(made.with_origin(&self.source, lines, self.names.clone()).with_states(self.states.clone()))
    }

    /// The error for a value: its file, line and column, or its row and column.
    pub(super) fn fail(&self, row: usize, column: usize, message: &str) -> Error {
        let name = self.names.get(column).map_or_else(|| (column + 1).to_string(), Clone::clone);
        match self.lines.get(row) {
            Some(&line) => Error::Parse {
                source_name: self.source.clone(),
                line,
                message: format!("column {name}: {message}"),
            },
            None => Error::argument("observations", format!("row {row}, column {column}: {message}")),
        }
    }

    /// The error for the known state of a row: its file and line, or its row.
    pub(super) fn fail_state(&self, row: usize, message: String) -> Error {
        match self.lines.get(row) {
            Some(&line) => Error::Parse { source_name: self.source.clone(), line, message },
            None => Error::argument("labels", format!("row {row}: {message}")),
        }
    }

    /// Fails if a value is missing.
    ///
    /// # Errors
    /// Names the first missing value.
    pub fn require_complete(&self) -> Result<()> {
        match self.values.iter().position(|value| value.is_nan()) {
            None => Ok(()),
            Some(at) => {
                let message = "the value is missing; the option `missing` accepts missing values";
                Err(self.fail(at / self.columns, at % self.columns, message))
            }
        }
    }

    /// Mean and variance of every column, of the values that are known. A column without variation has
    /// variance 1.
    pub(super) fn moments(&self) -> (Vec<f64>, Vec<f64>) {
        let mut moments = (vec![0.0; self.columns], vec![1.0; self.columns]);
        for d in 0..self.columns {
            let known = || self.values.iter().skip(d).step_by(self.columns).filter(|x| !x.is_nan());
            let count = known().count() as f64;
            if count == 0.0 {
                continue;
            }
            let mean = known().sum::<f64>() / count;
            let variance = known().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
            moments.0[d] = mean;
            if variance > 0.0 && variance.is_finite() {
                moments.1[d] = variance;
            }
        }
        moments
    }

    /// A number that identifies the data.
    pub(super) fn fingerprint(&self) -> u64 {
        let mix = |hash: u64, bits: u64| (hash ^ bits).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
        let hash = self.ends.iter().fold(self.columns as u64, |hash, &end| mix(hash, end as u64));
        self.values.iter().fold(hash, |hash, value| mix(hash, value.to_bits()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_that_do_not_fit_are_refused() {
        let words = |lengths: &[usize]| Sequences::new(1, vec![0.0; 3], lengths).unwrap_err().to_string();
        assert_eq!(words(&[2]), "lengths: add up to 2, but there are 3 rows of observations");
        assert_eq!(words(&[3, 0]), "lengths: sequence 1 has length 0, expected at least 1");
        assert_eq!(words(&[]), "lengths: there are no sequences");
        let infinite = Sequences::new(2, vec![0.0, 1.0, 2.0, f64::INFINITY], &[2]).unwrap_err();
        assert_eq!(
            infinite.to_string(),
            "observations: row 1, column 1: found inf, expected a finite number"
        );
    }

    #[test]
    fn moments_ignore_missing_values() {
        let data = Sequences::new(2, vec![1.0, f64::NAN, 3.0, 5.0, f64::NAN, 5.0], &[3]).unwrap();
        assert_eq!(data.moments(), (vec![2.0, 5.0], vec![1.0, 1.0]));
        assert!(data.require_complete().unwrap_err().to_string().contains("row 0, column 1"));
    }
}
