//! Differentiable operations for models and methods chosen at run time.

use super::row::{Asked, Differentiated, Gradients};
use super::{Row, Settings, rows};
use crate::error::{Error, Result};
use crate::model::Model;
use crate::query::Operation;
use crate::run::Run;
use crate::values::Values;

/// The value of an operation on one or two models, one number per item, and its tape. `method` is the name of
/// a method, or `auto` or `exact` for the first method in the catalogue that has the gradient; `arrays` holds
/// the options that are arrays.
///
/// ```
/// use zhat::catalogue::{self, Settings};
/// use zhat::model::generate::{self, ChainShape};
/// use zhat::query::Operation;
/// use zhat::{Model, Run};
/// let chain = generate::chain::<f32>(&ChainShape { states: 3, steps: 5, ..Default::default() }, 1)?;
/// let models = [Model::new(chain)];
/// let (values, tape) =
///     catalogue::differentiate(Operation::LogPartition, &models, "auto", &Settings::new(), &[], &Run::default())?;
/// let gradient = tape.vjp(&vec![1.0; values.len()])?.remove(0);
/// assert_eq!(gradient.list[1].name(), "emissions");
/// # Ok::<(), zhat::Error>(())
/// ```
///
/// # Errors
/// Those of the query; also if no method of that name has the gradient.
pub fn differentiate(
    operation: Operation,
    models: &[Model],
    method: &str,
    settings: &Settings,
    arrays: &[(String, Values<f64>)],
    run: &Run,
) -> Result<Differentiated> {
    let row = able(operation, models, method)?;
    let asked = Asked { method: row.method, operation, models, settings, arrays, run };
    (row.differentiator(&asked)?.differentiate)(&asked)
}

/// The value of an operation and its gradients for a cotangent that is known beforehand. This may be cheaper
/// than a tape: log Z and its gradient come from one pass.
///
/// # Errors
/// As [`differentiate`].
pub fn value_and_gradients(
    operation: Operation,
    models: &[Model],
    cotangent: &[f64],
    (method, settings): (&str, &Settings),
    run: &Run,
) -> Result<Gradients> {
    let row = able(operation, models, method)?;
    let asked = Asked { method: row.method, operation, models, settings, arrays: &[], run };
    (row.differentiator(&asked)?.both)(&asked, cotangent)
}

/// The row that differentiates the operation.
fn able(operation: Operation, models: &[Model], method: &str) -> Result<&'static Row> {
    let model = models.first().ok_or_else(|| Error::argument("models", "there is none"))?;
    let able: Vec<&Row> = rows(model.kind()).filter(|row| row.differentiates(operation, model)).collect();
    if able.is_empty() {
        let message = format!("{} has no gradient for a {}", operation.name(), model.kind());
        return Err(Error::argument("model", message));
    }
    able.iter().find(|row| ["auto", "exact", row.method].contains(&method)).copied().ok_or_else(|| {
        let names: Vec<&str> = able.iter().map(|row| row.method).collect();
        let message = format!(
            "`{method}` has no gradient of {}; methods that have one: {}",
            operation.name(),
            names.join(", ")
        );
        Error::argument("method", message)
    })
}
