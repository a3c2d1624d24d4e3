//! From the cells of a file to numbers: standardised columns, missing values, categories, Fourier features.
//!
//! | column | encoding |
//! |---|---|
//! | numeric, dense | (x − mean)/standard deviation; constant columns become 0 |
//! | numeric, sparse | x/max |x|, so that zeros stay zeros |
//! | missing value | the mean (0 after standardisation), and an indicator column if the training data have any |
//! | any, with unit rows | as given; then every row is divided by its Euclidean norm, and rows of zeros stay |
//! | categorical | one indicator per category; another one for missing values if the training data have any |
//!
//! Random Fourier features replace the inputs x by √(2/m)·cos(Wx + b), with normal W of variance 2γ and uniform
//! b, so that inner products approximate exp(−γ‖x − x'‖²).
//!
//! Reference: A. Rahimi, B. Recht, *Random features for large-scale kernel machines*, NIPS 2007.

mod fourier;
mod sparse;

use serde::{Deserialize, Serialize};

use self::fourier::fourier_features;
use self::sparse::SparseRows;

use super::Inputs;
use super::data::{Cells, Examples, InputColumn, fail};
use crate::error::{Error, Result};
use crate::run::Run;

/// Data with fewer cells than this share that are not zero are stored as a sparse matrix.
const SPARSE: f64 = 0.25;

/// Scaling of numeric columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scaling {
    /// Standardised if dense, divided by the maximum if sparse.
    #[default]
    Auto,
    /// Mean 0 and variance 1; the matrix is dense.
    Standard,
    /// Divided by the maximum absolute value.
    Max,
    /// As given, and then every row divided by its Euclidean norm: for counts of words and other rows whose
    /// sizes differ for reasons that do not matter.
    Unit,
    /// As given.
    None,
}

/// Random Fourier features.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fourier {
    /// The number of features.
    pub features: usize,
    /// γ; by default 1 over the number of inputs, or 1 for unit rows.
    pub gamma: Option<f64>,
    /// The seed of W and b.
    pub seed: u64,
}

/// How to encode inputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Encoding {
    /// Scaling of numeric columns.
    pub scaling: Scaling,
    /// Random Fourier features instead of the columns.
    pub fourier: Option<Fourier>,
}

/// The encoding of one column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Code {
    column: InputColumn,
    /// x is encoded as (x − shift)·scale.
    shift: f64,
    scale: f64,
    /// The value of a missing cell after encoding.
    missing: f64,
    /// Whether there is an indicator of missing values.
    indicator: bool,
    /// The first encoded column.
    first: usize,
}

/// An encoding fitted to training data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Encoder {
    codes: Vec<Code>,
    width: usize,
    sparse: bool,
    /// Whether rows are divided by their norms.
    #[serde(default)]
    unit: bool,
    fourier: Option<(Fourier, f64)>,
}

/// Sums over the cells of a column, by weight.
#[derive(Clone, Copy, Default)]
struct Sums {
    missing: f64,
    count: f64,
    mean: f64,
    squares: f64,
    largest: f64,
}

/// Visits the cells of all rows: row, column, value. Zeros of sparse data are not visited.
fn each_cell(examples: &Examples, mut visit: impl FnMut(usize, usize, f64)) {
    let width = examples.columns.len();
    match &examples.cells {
        Cells::Dense(values) => {
            values
                .iter()
                .enumerate()
                .for_each(|(at, &value)| visit(at / width.max(1), at % width.max(1), value));
        }
        Cells::Sparse { ends, indices, values } => {
            let mut start = 0;
            for (row, &end) in ends.iter().enumerate() {
                (start..end).for_each(|at| visit(row, indices[at] as usize, values[at]));
                start = end;
            }
        }
    }
}

impl Encoder {
    /// Fits the encoding to training data.
    ///
    /// # Errors
    /// If the options are out of range.
    pub fn fit(examples: &Examples, how: &Encoding) -> Result<Self> {
        if let Some(fourier) = how.fourier {
            let wrong = fourier.gamma.is_some_and(|gamma| !(gamma > 0.0 && gamma.is_finite()));
            if fourier.features == 0 || wrong {
                return Err(Error::argument("fourier", "needs at least one feature and a positive gamma"));
            }
        }
        let weight = |row: usize| examples.weights.as_ref().map_or(1.0, |weights| weights[row]);
        let rows = match &examples.weights {
            Some(weights) => weights.iter().sum(),
            None => examples.rows() as f64,
        };
        let mut sums = vec![Sums::default(); examples.columns.len()];
        let mut filled = 0usize;
        each_cell(examples, |row, column, value| {
            let (own, weight) = (&mut sums[column], weight(row));
            filled += usize::from(value != 0.0 && !value.is_nan());
            // Rows without weight count as if they were not there.
            if weight == 0.0 {
                return;
            }
            if value.is_nan() {
                own.missing += weight;
                return;
            }
            own.count += weight;
            // Welford's update.
            let difference = value - own.mean;
            own.mean += weight * difference / own.count;
            own.squares += weight * difference * (value - own.mean);
            own.largest = own.largest.max(value.abs());
        });
        let share = filled as f64 / ((examples.rows() * examples.columns.len()) as f64).max(1.0);
        let given_sparse = matches!(examples.cells, Cells::Sparse { .. });
        let categories = examples.columns.iter().any(|column| column.levels.is_some());
        let sparse = how.fourier.is_none()
            && how.scaling != Scaling::Standard
            && (given_sparse || share < SPARSE && !categories);
        let mut first = 0;
        let mut codes = Vec::with_capacity(sums.len());
        for (column, sums) in examples.columns.iter().zip(sums) {
            // Cells of sparse rows that are not given are zeros.
            let zeros = if given_sparse { (rows - (sums.count + sums.missing)).max(0.0) } else { 0.0 };
            let count = sums.count + zeros;
            let positive = if count > 0.0 { count } else { 1.0 };
            let mean = sums.mean * sums.count / positive;
            let squares = sums.squares + sums.mean * sums.mean * sums.count * zeros / positive;
            let deviation = (squares / positive).sqrt();
            let standard = how.scaling == Scaling::Standard || how.scaling == Scaling::Auto && !sparse;
            let (shift, scale) = match &column.levels {
                Some(_) => (0.0, 1.0),
                None if matches!(how.scaling, Scaling::None | Scaling::Unit) => (0.0, 1.0),
                // A deviation of a few roundings of the mean is that of a constant.
                None if standard && deviation <= 1e-13 * mean.abs() => (mean, 0.0),
                None if standard => (mean, 1.0 / deviation),
                None if sums.largest > 0.0 => (0.0, 1.0 / sums.largest),
                None => (0.0, 0.0),
            };
            let indicator = sums.missing > 0.0;
            let width = column.levels.as_ref().map_or(1, Vec::len) + usize::from(indicator);
            let missing = (mean - shift) * scale;
            codes.push(Code { column: column.clone(), shift, scale, missing, indicator, first });
            first += width;
        }
        let unit = how.scaling == Scaling::Unit;
        let gamma = if unit { 1.0 } else { 1.0 / first.max(1) as f64 };
        let fourier = how.fourier.map(|fourier| (fourier, fourier.gamma.unwrap_or(gamma)));
        Ok(Encoder { codes, width: first, sparse, unit, fourier })
    }

    /// The number of encoded inputs, without the bias.
    pub fn width(&self) -> usize {
        self.fourier.map_or(self.width, |(fourier, _)| fourier.features)
    }

    /// The input columns.
    pub fn columns(&self) -> impl ExactSizeIterator<Item = &InputColumn> {
        self.codes.iter().map(|code| &code.column)
    }

    /// Encodes a data set, whose columns are found by name.
    ///
    /// # Errors
    /// If a column is missing or of another kind, a category is unknown, or the memory budget is too small.
    pub fn encode(&self, examples: &Examples, run: &Run) -> Result<Inputs> {
        let inputs = self.encode_rows(examples, run)?;
        match &examples.weights {
            Some(weights) => inputs.with_weights(weights.clone()),
            None => Ok(inputs),
        }
    }

    fn encode_rows(&self, examples: &Examples, run: &Run) -> Result<Inputs> {
        let source = &examples.source;
        let mut places = vec![None; examples.columns.len()];
        for (at, code) in self.codes.iter().enumerate() {
            let name = &code.column.name;
            // Usually the columns are in the same order.
            let here = examples.columns.get(at).filter(|column| column.name == *name).map(|_| at);
            let place = here.or_else(|| examples.columns.iter().position(|column| column.name == *name));
            let place = place
                .ok_or_else(|| fail(source, 0, format!("the model's input `{name}` is not in the file")))?;
            places[place] = Some(at);
            // A column of only missing values has no kind, and a categorical one may look numeric.
            if examples.columns[place].levels.is_some() && code.column.levels.is_none() {
                let message = format!("column {name} is categorical; the model expects numbers");
                return Err(fail(source, 0, message));
            }
        }
        let rows = examples.rows();
        let width = self.width();
        if !self.sparse {
            let all = self.width + if self.fourier.is_some() { width } else { 0 };
            run.require_memory("encoding", 8.0 * rows as f64 * (all + 1) as f64)?;
        }
        let mut failure = None;
        // Without Fourier features every row ends with its bias, so that there is only one copy.
        let stride = self.width + usize::from(self.fourier.is_none());
        let categories = self.codes.iter().filter_map(|code| {
            let levels = code.column.levels.as_ref()?.len() + usize::from(code.indicator);
            Some((code.first as u32, (code.first + levels) as u32))
        });
        let mut made = SparseRows::new(self.width, self.unit, categories.collect());
        let mut dense = Vec::new();
        if self.sparse {
            let most = match &examples.cells {
                Cells::Dense(_) => 0,
                Cells::Sparse { values, .. } => values.len() + rows * (1 + made.category_count()),
            };
            made.reserve(rows, most);
        } else {
            dense = vec![0.0; rows * stride];
            // A column that is centred has a value for the zeros that sparse rows leave out.
            if let Cells::Sparse { .. } = examples.cells {
                for row in dense.chunks_exact_mut(stride.max(1)) {
                    for code in self.codes.iter().filter(|code| code.column.levels.is_none()) {
                        row[code.first] = -code.shift * code.scale;
                    }
                    for code in self.codes.iter().filter(|code| code.column.levels.is_some()) {
                        row[code.first] = 1.0;
                    }
                }
            }
        }
        let clear = !self.sparse && matches!(examples.cells, Cells::Sparse { .. });
        each_cell(examples, |row, place, value| {
            let Some(code) = places[place].map(|at| &self.codes[at]) else { return };
            let mut put = |column: usize, number: f64| {
                if self.sparse {
                    made.push(row, column, number);
                } else {
                    dense[row * stride + column] = number;
                }
            };
            let levels = code.column.levels.as_deref();
            let after = code.first + levels.map_or(1, <[String]>::len);
            if clear && levels.is_some() {
                put(code.first, 0.0);
            }
            if value.is_nan() {
                if levels.is_none() {
                    put(code.first, code.missing);
                }
                if code.indicator {
                    put(after, 1.0);
                } else if levels.is_some() {
                    // Given, but without a category.
                    put(code.first, 0.0);
                }
                return;
            }
            match levels {
                None => put(code.first, (value - code.shift) * code.scale),
                Some(levels) => {
                    let name = match &examples.columns[place].levels {
                        Some(own) => own.get(value as usize).cloned().unwrap_or_default(),
                        None => value.to_string(),
                    };
                    match levels.iter().position(|level| *level == name) {
                        Some(level) => put(code.first + level, 1.0),
                        None if failure.is_none() => {
                            let column = &code.column.name;
                            let message =
                                format!("column {column}: the model does not know the category `{name}`");
                            failure = Some(fail(source, examples.lines[row], message));
                        }
                        None => {}
                    }
                }
            }
        });
        if let Some(failure) = failure {
            return Err(failure);
        }
        if self.sparse {
            return made.inputs(rows);
        }
        if self.unit {
            let norm = |square: f64| if square > 0.0 { square.sqrt() } else { 1.0 };
            for row in dense.chunks_exact_mut(stride.max(1)) {
                let row = &mut row[..self.width];
                let norm = norm(row.iter().map(|x| x * x).sum());
                row.iter_mut().for_each(|x| *x /= norm);
            }
        }
        let Some((fourier, gamma)) = self.fourier else {
            dense.iter_mut().skip(self.width).step_by(stride).for_each(|bias| *bias = 1.0);
            return Inputs::dense_with_bias(self.width, dense);
        };
        let features = run.install(|| fourier_features(&fourier, gamma, self.width, &dense, rows));
        Inputs::dense(width, &features)
    }
}

#[cfg(test)]
mod tests;
