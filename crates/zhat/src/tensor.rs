//! Named tensors: the exchange format for parameters, marginals and gradients whose types are known only at
//! run time. Files, printed answers, gradients and Python arrays are made from them.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::numeric::Real;

/// An array of numbers with a name and a shape, row-major.
///
/// ```
/// use zhat::tensor::Tensor;
/// let tensor = Tensor::new("weights", &[2, 3], vec![1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
/// assert_eq!((tensor.shape(), tensor.row(1)), (&[2, 3][..], vec![4.0, 5.0, 6.0]));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor<'a> {
    name: Cow<'a, str>,
    shape: Vec<usize>,
    /// End of each row, for a ragged tensor.
    ends: Option<Vec<usize>>,
    data: Data<'a>,
}

/// The numbers of a tensor, stored in one or several consecutive pieces.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Data<'a> {
    /// Single precision.
    F32(Vec<Cow<'a, [f32]>>),
    /// Double precision.
    F64(Vec<Cow<'a, [f64]>>),
    /// Unsigned integers, for counts and indices.
    U64(Cow<'a, [u64]>),
}

/// The precision of a tensor: `f32` or `f64`.
pub trait Precision: Real {
    /// Converts numbers to the data of a tensor.
    fn data(pieces: Vec<Cow<'_, [Self]>>) -> Data<'_>;

    /// The numbers of a tensor, if it has this precision.
    fn pieces<'t, 'a>(data: &'t Data<'a>) -> Option<&'t [Cow<'a, [Self]>]>;

    /// The numbers of a tensor as a vector, if it has this precision.
    fn into_vec(data: Data<'_>) -> Option<Vec<Self>>;
}

/// Concatenates the pieces; a single owned piece is not copied.
fn joined<T: Clone>(mut pieces: Vec<Cow<'_, [T]>>) -> Vec<T> {
    match (pieces.len(), pieces.pop()) {
        (1, Some(only)) => only.into_owned(),
        (_, last) => pieces.iter().chain(&last).flat_map(|piece| piece.iter().cloned()).collect(),
    }
}

macro_rules! precision {
    ($($type:ty, $variant:ident);*) => {
        $(impl Precision for $type {
            fn data(pieces: Vec<Cow<'_, [Self]>>) -> Data<'_> {
                Data::$variant(pieces)
            }

            fn pieces<'t, 'a>(data: &'t Data<'a>) -> Option<&'t [Cow<'a, [Self]>]> {
                if let Data::$variant(pieces) = data { Some(pieces) } else { None }
            }

            fn into_vec(data: Data<'_>) -> Option<Vec<Self>> {
                if let Data::$variant(pieces) = data { Some(joined(pieces)) } else { None }
            }
        })*
    };
}

precision!(f32, F32; f64, F64);

impl Data<'_> {
    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Data::F32(pieces) => pieces.iter().map(|piece| piece.len()).sum(),
            Data::F64(pieces) => pieces.iter().map(|piece| piece.len()).sum(),
            Data::U64(numbers) => numbers.len(),
        }
    }

    /// True if there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// `f32`, `f64` or `u64`.
    pub fn type_name(&self) -> &'static str {
        match self {
            Data::F32(_) => "f32",
            Data::F64(_) => "f64",
            Data::U64(_) => "u64",
        }
    }
}

impl<'a> Tensor<'a> {
    /// A tensor of real numbers, owned or borrowed.
    pub fn new<F: Precision>(
        name: impl Into<Cow<'a, str>>,
        shape: &[usize],
        numbers: impl Into<Cow<'a, [F]>>,
    ) -> Self {
        Self::of_pieces(name, shape, vec![numbers.into()])
    }

    /// A tensor of real numbers stored in several consecutive pieces.
    pub fn of_pieces<F: Precision>(
        name: impl Into<Cow<'a, str>>,
        shape: &[usize],
        pieces: Vec<Cow<'a, [F]>>,
    ) -> Self {
        Tensor { name: name.into(), shape: shape.to_vec(), ends: None, data: F::data(pieces) }
    }

    /// A tensor of counts or indices.
    pub fn integers(
        name: impl Into<Cow<'a, str>>,
        shape: &[usize],
        values: impl IntoIterator<Item = usize>,
    ) -> Self {
        let data = Data::U64(values.into_iter().map(|value| value as u64).collect());
        Tensor { name: name.into(), shape: shape.to_vec(), ends: None, data }
    }

    /// A tensor from its parts, as read from a file.
    pub fn from_parts(name: impl Into<Cow<'a, str>>, shape: Vec<usize>, data: Data<'a>) -> Self {
        Tensor { name: name.into(), shape, ends: None, data }
    }

    /// A ragged tensor: rows of different lengths, concatenated; row r ends at `ends[r]`.
    pub fn ragged<F: Precision>(
        name: impl Into<Cow<'a, str>>,
        ends: Vec<usize>,
        numbers: impl Into<Cow<'a, [F]>>,
    ) -> Self {
        let data = F::data(vec![numbers.into()]);
        Tensor { name: name.into(), shape: vec![ends.len()], ends: Some(ends), data }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The lengths of the axes; for a ragged tensor, the number of rows.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// End of each row, for a ragged tensor.
    pub fn ends(&self) -> Option<&[usize]> {
        self.ends.as_deref()
    }

    /// The numbers.
    pub fn data(&self) -> &Data<'a> {
        &self.data
    }

    /// The numbers, if they have this precision and are in one piece.
    pub fn as_slice<F: Precision>(&self) -> Option<&[F]> {
        match F::pieces(&self.data)? {
            [only] => Some(only),
            _ => None,
        }
    }

    /// Consumes the tensor and returns its numbers.
    pub fn into_data(self) -> Data<'a> {
        self.data
    }

    /// Number of rows: the product of all axes except the last.
    pub fn rows(&self) -> usize {
        match (&self.ends, self.shape.split_last()) {
            (Some(ends), _) => ends.len(),
            (None, Some((_, leading))) => leading.iter().product(),
            (None, None) => 1,
        }
    }

    /// The numbers of one row, as doubles.
    pub fn row(&self, row: usize) -> Vec<f64> {
        let (start, end) = match &self.ends {
            Some(ends) => (if row == 0 { 0 } else { ends[row - 1] }, ends[row]),
            None => {
                let length = self.shape.last().copied().unwrap_or(1);
                (row * length, (row + 1) * length)
            }
        };
        self.slice(start, end)
    }

    /// All numbers, as doubles.
    pub fn to_f64(&self) -> Vec<f64> {
        self.slice(0, self.data.len())
    }

    fn slice(&self, start: usize, end: usize) -> Vec<f64> {
        fn of<F: Real>(pieces: &[Cow<'_, [F]>], start: usize, end: usize) -> Vec<f64> {
            match pieces {
                [only] => only[start..end].iter().map(|x| x.to_f64()).collect(),
                _ => {
                    let all = pieces.iter().flat_map(|piece| piece.iter());
                    all.skip(start).take(end - start).map(|x| x.to_f64()).collect()
                }
            }
        }
        match &self.data {
            Data::F32(pieces) => of(pieces, start, end),
            Data::F64(pieces) => of(pieces, start, end),
            Data::U64(numbers) => numbers[start..end].iter().map(|x| *x as f64).collect(),
        }
    }

    /// Number of elements equal to −∞.
    pub fn zeros(&self) -> usize {
        fn of<F: Real>(pieces: &[Cow<'_, [F]>]) -> usize {
            let zeros = |piece: &Cow<'_, [F]>| piece.iter().filter(|x| **x == F::NEG_INFINITY).count();
            pieces.iter().map(zeros).sum()
        }
        match &self.data {
            Data::F32(pieces) => of(pieces),
            Data::F64(pieces) => of(pieces),
            Data::U64(_) => 0,
        }
    }

    /// A tensor that owns its numbers.
    pub fn into_owned(self) -> Tensor<'static> {
        fn own<T: Clone>(pieces: Vec<Cow<'_, [T]>>) -> Vec<Cow<'static, [T]>> {
            pieces.into_iter().map(|piece| Cow::Owned(piece.into_owned())).collect()
        }
        let data = match self.data {
            Data::F32(pieces) => Data::F32(own(pieces)),
            Data::F64(pieces) => Data::F64(own(pieces)),
            Data::U64(numbers) => Data::U64(Cow::Owned(numbers.into_owned())),
        };
        Tensor { name: Cow::Owned(self.name.into_owned()), shape: self.shape, ends: self.ends, data }
    }
}

/// The tensors and texts of a file, from which a model is built. Tensors are taken out without a copy; errors
/// name the tensor and what was expected.
#[derive(Debug, Default)]
pub struct TensorMap {
    tensors: HashMap<String, Tensor<'static>>,
    texts: HashMap<String, String>,
    /// Tensors of types that no model uses: name and type.
    unsupported: HashMap<String, String>,
    /// The file name, for messages.
    source: String,
}

impl TensorMap {
    /// Tensors and texts from the file `source`.
    pub fn new(
        source: &str,
        texts: HashMap<String, String>,
        tensors: impl IntoIterator<Item = Tensor<'static>>,
    ) -> Self {
        let tensors = tensors.into_iter().map(|tensor| (tensor.name().to_owned(), tensor)).collect();
        TensorMap { tensors, texts, unsupported: HashMap::new(), source: source.into() }
    }

    /// Adds tensors of types that no model uses; requesting one is an error that names the type.
    pub fn with_unsupported(mut self, types: HashMap<String, String>) -> Self {
        self.unsupported = types;
        self
    }

    /// The error for a file whose content is not as expected.
    pub fn error(&self, message: impl Into<String>) -> Error {
        Error::Parse { source_name: self.source.clone(), line: 0, message: message.into() }
    }

    /// A text from the file's header.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.texts.get(name).map(String::as_str)
    }

    /// True if there is a tensor with this name.
    pub fn has(&self, tensor: &str) -> bool {
        self.tensors.contains_key(tensor) || self.unsupported.contains_key(tensor)
    }

    fn find(&self, tensor: &str, expected: &str) -> Result<&Tensor<'static>> {
        self.tensors.get(tensor).ok_or_else(|| match self.unsupported.get(tensor) {
            Some(found) => self.error(format!("the tensor `{tensor}` has type {found}, expected {expected}")),
            None => self.error(format!("the tensor `{tensor}` is missing")),
        })
    }

    /// The shape of a tensor.
    ///
    /// # Errors
    /// If there is no tensor with this name.
    pub fn shape(&self, tensor: &str) -> Result<Vec<usize>> {
        Ok(self.find(tensor, "F32, F64 or U64")?.shape().to_vec())
    }

    /// True if a tensor has double precision.
    ///
    /// # Errors
    /// If there is no tensor with this name, or it is not real.
    pub fn is_double(&self, tensor: &str) -> Result<bool> {
        match self.find(tensor, "F32 or F64")?.data() {
            Data::F32(_) => Ok(false),
            Data::F64(_) => Ok(true),
            Data::U64(_) => {
                Err(self.error(format!("the tensor `{tensor}` has type U64, expected F32 or F64")))
            }
        }
    }

    /// The values of an integer tensor.
    ///
    /// # Errors
    /// If there is no tensor with this name and type, or a value does not fit in `usize`.
    pub fn integers(&self, tensor: &str) -> Result<Vec<usize>> {
        let Data::U64(numbers) = self.find(tensor, "U64")?.data() else {
            return Err(self.wrong_type(tensor, "U64"));
        };
        numbers.iter().map(|number| usize::try_from(*number).ok()).collect::<Option<_>>().ok_or_else(|| {
            self.error(format!("the tensor `{tensor}` has a number too large for this machine"))
        })
    }

    fn wrong_type(&self, tensor: &str, expected: &str) -> Error {
        let found = self.tensors.get(tensor).map_or("none", |tensor| tensor.data().type_name());
        let found = found.to_uppercase();
        self.error(format!("the tensor `{tensor}` has type {found}, expected {expected}"))
    }

    /// Removes a tensor from the map and returns its numbers.
    ///
    /// # Errors
    /// If there is no tensor with this name and precision.
    pub fn take<F: Precision>(&mut self, tensor: &str) -> Result<Vec<F>> {
        if F::pieces(self.find(tensor, &F::NAME.to_uppercase())?.data()).is_none() {
            return Err(self.wrong_type(tensor, &F::NAME.to_uppercase()));
        }
        let found = self.tensors.remove(tensor).and_then(|tensor| F::into_vec(tensor.into_data()));
        Ok(found.unwrap_or_default())
    }

    /// Like [`TensorMap::take`], for a tensor that must have this shape; `meaning` describes the shape: `[N,
    /// N]`.
    ///
    /// # Errors
    /// If there is no tensor with this name, precision and shape.
    pub fn take_shaped<F: Precision>(
        &mut self,
        tensor: &str,
        shape: &[usize],
        meaning: &str,
    ) -> Result<Vec<F>> {
        self.expect_shape(tensor, shape, meaning)?;
        self.take(tensor)
    }

    /// Checks the shape of a tensor.
    ///
    /// # Errors
    /// If there is no tensor with this name and shape.
    pub fn expect_shape(&self, tensor: &str, shape: &[usize], meaning: &str) -> Result<()> {
        let found = self.shape(tensor)?;
        if found == shape {
            return Ok(());
        }
        Err(self.error(format!("the tensor `{tensor}` has shape {found:?}, expected {meaning} = {shape:?}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_dense_ragged_and_pieced_tensors() {
        let ragged = Tensor::ragged("p", vec![2, 2, 5], vec![0.1, 0.2, 0.3, 0.4, 0.5]);
        assert_eq!((ragged.rows(), ragged.row(0), ragged.row(1).len()), (3, vec![0.1, 0.2], 0));
        assert_eq!(ragged.row(2), [0.3, 0.4, 0.5]);
        let pieces: Vec<Cow<'_, [f32]>> = vec![vec![1.0, 2.0].into(), vec![3.0, f32::NEG_INFINITY].into()];
        let pieced = Tensor::of_pieces("w", &[4, 1], pieces);
        assert_eq!((pieced.rows(), pieced.row(2), pieced.zeros()), (4, vec![3.0], 1));
        assert_eq!(Tensor::integers("i", &[], [7]).row(0), [7.0]);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let list = [Tensor::new("a", &[2], vec![1.0, 2.0]), Tensor::integers("n", &[1], [3])];
        let mut map = TensorMap::new("m.zhat", HashMap::new(), list);
        let words = |error: Error| error.to_string();
        assert!(words(map.take::<f64>("b").unwrap_err()).contains("m.zhat: the tensor `b` is missing"));
        assert!(words(map.take::<f32>("a").unwrap_err()).contains("has type F64, expected F32"));
        assert!(words(map.take::<f32>("n").unwrap_err()).contains("has type U64, expected F32"));
        assert!(words(map.integers("a").unwrap_err()).contains("has type F64, expected U64"));
        assert!(words(map.expect_shape("a", &[3], "[N]").unwrap_err()).contains("expected [N] = [3]"));
        assert_eq!(map.take::<f64>("a").unwrap(), [1.0, 2.0]);
        assert!(!map.has("a"));
    }
}
