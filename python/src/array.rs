//! NumPy arrays without copies: arrays of the user are used in place, and arrays of results take ownership of
//! their buffer.

use numpy::ndarray::{ArrayView, IxDyn};
use numpy::{Element, PyArray, PyArray1, PyArrayDyn, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use zhat::model::Values;
use zhat::tensor;

use crate::error;

/// A floating-point type supported by models and by NumPy.
pub trait Precision: tensor::Precision + Element {}

impl Precision for f32 {}
impl Precision for f64 {}

/// Evaluates `$found` with the model bound in its precision if it is of this kind, and `$other` otherwise.
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

/// The numbers of an array, which is kept alive.
struct InPlace<F: Element> {
    numbers: *const F,
    count: usize,
    /// Keeps the array alive; its memory is freed with the last reference.
    _array: Py<PyArrayDyn<F>>,
}

// SAFETY: the pointer is only read, and the array behind it outlives this value. The documentation of
// `zhat.Chain` requires that the caller does not write to the array while a query reads it, as in every
// library that uses arrays without a copy.
unsafe impl<F: Element + Sync> Send for InPlace<F> {}
// SAFETY: as above; concurrent reads are safe.
unsafe impl<F: Element + Sync> Sync for InPlace<F> {}

impl<F: Element> AsRef<[F]> for InPlace<F> {
    fn as_ref(&self) -> &[F] {
        if self.count == 0 {
            return &[];
        }
        // SAFETY: `in_place` has checked that the array is contiguous, aligned and of this length, and NumPy
        // does not resize an array with other references.
        unsafe { std::slice::from_raw_parts(self.numbers, self.count) }
    }
}

/// The numbers of an array, without a copy. The array must be C-contiguous and aligned.
pub fn in_place<F: Precision>(name: &str, array: &Bound<'_, PyArrayDyn<F>>) -> PyResult<Values<F>> {
    let numbers = array.data().cast_const();
    if !array.is_c_contiguous() || !numbers.is_aligned() {
        return Err(error::argument(name, "the array must be C-contiguous and aligned"));
    }
    Ok(Values::shared(InPlace { numbers, count: array.len(), _array: array.clone().unbind() }))
}

/// An array of this shape that takes ownership of the numbers.
pub fn handed_over<'py, T: Element>(
    py: Python<'py>,
    numbers: Vec<T>,
    shape: &[usize],
) -> PyResult<Bound<'py, PyArrayDyn<T>>> {
    let array = PyArray1::from_vec(py, numbers);
    // A vector already has the right shape; reshaping would return a view.
    if let [length] = shape
        && array.len() == *length
    {
        return Ok(array.to_dyn().clone());
    }
    array.reshape(shape)
}

/// A read-only view of numbers whose memory `owner` keeps valid.
///
/// # Safety
///
/// The numbers must not move or change until `owner` is freed.
pub unsafe fn view<'py, F: Precision>(
    numbers: &[F],
    shape: &[usize],
    owner: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyArrayDyn<F>>> {
    let view = ArrayView::from_shape(IxDyn(shape), numbers)
        .map_err(|error| error::argument("shape", error.to_string()))?;
    // SAFETY: guaranteed by the caller, and the array holds a reference to `owner`.
    let array = unsafe { PyArray::borrow_from_array(&view, owner.clone()) };
    let flags = PyDict::new(owner.py());
    flags.set_item("write", false)?;
    array.call_method("setflags", (), Some(&flags))?;
    Ok(array)
}
