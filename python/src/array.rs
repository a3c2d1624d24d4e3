//! NumPy arrays: those of the user used in place, those of an answer handed over, neither copied.

use numpy::ndarray::{ArrayView, IxDyn};
use numpy::{Element, PyArray, PyArray1, PyArrayDyn, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use zhat::model::Values;
use zhat::tensor;

use crate::error;

/// A precision that models and NumPy both have.
pub trait Precision: tensor::Precision + Element {}

impl Precision for f32 {}
impl Precision for f64 {}

/// What to do with a model of a kind that comes in both precisions, or else.
#[macro_export]
macro_rules! either {
    ($model:expr, $kind:ident, $bound:ident => $found:expr, $other:expr) => {
        if let Some($bound) = $model.get::<$kind<f32>>() {
            $found
        } else if let Some($bound) = $model.get::<$kind<f64>>() {
            $found
        } else {
            $other
        }
    };
}

/// The numbers of an array that is kept alive.
struct InPlace<F: Element> {
    numbers: *const F,
    count: usize,
    /// Only held; its memory goes when the last holder does.
    _array: Py<PyArrayDyn<F>>,
}

// SAFETY: the pointer is only read, and the array behind it outlives this value. That nobody writes to the
// array while a query reads it is what `zhat.Chain` asks of its caller, as every library that takes arrays
// without a copy does.
unsafe impl<F: Element + Sync> Send for InPlace<F> {}
// SAFETY: as above; reading from several threads is what it is for.
unsafe impl<F: Element + Sync> Sync for InPlace<F> {}

impl<F: Element> AsRef<[F]> for InPlace<F> {
    fn as_ref(&self) -> &[F] {
        if self.count == 0 {
            return &[];
        }
        // SAFETY: `in_place` has seen that the array is contiguous and aligned and has this many numbers, and
        // an array that somebody else refers to cannot be resized.
        unsafe { std::slice::from_raw_parts(self.numbers, self.count) }
    }
}

/// The numbers of an array, which must be C-contiguous and aligned; nothing is copied.
pub fn in_place<F: Precision>(name: &str, array: &Bound<'_, PyArrayDyn<F>>) -> PyResult<Values<F>> {
    let numbers = array.data().cast_const();
    if !array.is_c_contiguous() || !numbers.is_aligned() {
        return Err(error::argument(name, "the array must be C-contiguous and aligned"));
    }
    Ok(Values::shared(InPlace { numbers, count: array.len(), _array: array.clone().unbind() }))
}

/// Numbers as an array of this shape, which owns them from now on.
pub fn handed_over<'py, T: Element>(
    py: Python<'py>,
    numbers: Vec<T>,
    shape: &[usize],
) -> PyResult<Bound<'py, PyArrayDyn<T>>> {
    let array = PyArray1::from_vec(py, numbers);
    // A vector has its shape already; a reshaped array would be a view of it.
    if let [length] = shape
        && array.len() == *length
    {
        return Ok(array.to_dyn().clone());
    }
    array.reshape(shape)
}

/// A view of numbers that `owner` keeps where they are for as long as it lives; it cannot be written to.
///
/// # Safety
///
/// The numbers must stay where they are, unchanged, until `owner` is freed.
pub unsafe fn view<'py, F: Precision>(
    numbers: &[F],
    shape: &[usize],
    owner: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyArrayDyn<F>>> {
    let view = ArrayView::from_shape(IxDyn(shape), numbers)
        .map_err(|error| error::argument("shape", error.to_string()))?;
    // SAFETY: what the caller promises; and the array holds a reference to `owner`.
    let array = unsafe { PyArray::borrow_from_array(&view, owner.clone()) };
    let flags = PyDict::new(owner.py());
    flags.set_item("write", false)?;
    array.call_method("setflags", (), Some(&flags))?;
    Ok(array)
}
