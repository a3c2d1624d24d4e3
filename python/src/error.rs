//! The library's errors as Python exceptions, which are defined in `zhat.errors`.

use std::io::ErrorKind;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use zhat::Error;

/// An error of the library, to be converted to a Python exception.
pub struct Failure(pub Error);

impl From<Failure> for PyErr {
    fn from(Failure(error): Failure) -> PyErr {
        let class = match &error {
            Error::Parse { .. }
            | Error::Model(_)
            | Error::Argument { .. }
            | Error::Function { .. }
            | Error::Unsupported { .. } => "InputError",
            Error::UnknownOption { .. } => "UnknownOptionError",
            Error::Io { source, .. } if source.kind() == ErrorKind::NotFound => "MissingFileError",
            Error::Io { .. } => "FileError",
            Error::ZeroPartition | Error::NoTree(_) => "ZeroPartitionError",
            Error::ImpossibleEvidence { .. } => "ImpossibleEvidenceError",
            Error::OverBudget { .. } => "OverBudgetError",
            _ => "Error",
        };
        let raised = exception(class, &error.to_string(), error.kind());
        if let Error::Function { source, .. } = error
            && let Ok(cause) = source.downcast::<PyErr>()
        {
            Python::attach(|py| raised.set_cause(py, Some(*cause)));
        }
        raised
    }
}

/// An internal error: the work panicked, and `payload` contains the message.
pub fn internal(payload: &(dyn std::any::Any + Send)) -> PyErr {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
    exception("Error", &format!("internal error, please report it: {text}"), "internal")
}

/// An invalid argument.
pub fn argument(name: &str, message: impl Into<String>) -> PyErr {
    Failure(Error::argument(name, message)).into()
}

fn exception(class: &str, message: &str, kind: &str) -> PyErr {
    let build = |py: Python<'_>| -> PyResult<PyErr> {
        let keywords = PyDict::new(py);
        keywords.set_item("kind", kind)?;
        let value = py.import("zhat.errors")?.getattr(class)?.call((message,), Some(&keywords))?;
        Ok(PyErr::from_value(value))
    };
    Python::attach(|py| build(py).unwrap_or_else(|error| error))
}
