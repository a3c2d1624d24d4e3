//! Queries of single rows whose sums are out of reach, by the methods of the catalogue: the strongest
//! guarantee that fits the budget.

use super::{Decision, Prediction, Predictor};
use crate::answer::{Estimate, Guarantee};
use crate::catalogue::{self, Choice};
use crate::error::{Error, Result};
use crate::model::Model;
use crate::model::space::SpaceModel;
use crate::options::Settings;
use crate::query::{AnyAnswer, AnyValue, Query};
use crate::run::Run;

fn ask(model: &SpaceModel, query: Query, run: &Run) -> Result<AnyAnswer> {
    let model: Model = model.clone().into();
    catalogue::answer(&model, query, &Choice::parse("auto"), &Settings::new(), &run.unobserved())
}

/// log Z of a row.
pub(super) fn log_partition(model: &SpaceModel, run: &Run) -> Result<Estimate> {
    ask(model, Query::LogPartition, run)?.into_estimate()
}

/// The probabilities of the labels or nodes, and their guarantee.
pub(super) fn marginals(
    predictor: &Predictor,
    model: &SpaceModel,
    run: &Run,
) -> Result<(Vec<f64>, Guarantee)> {
    let answer = ask(model, Query::Marginals, run)?;
    let AnyValue::Tensors(tensors) = &answer.value else { return Err(answer.unexpected_shape()) };
    let values = tensors.list.first().map(|tensor| tensor.to_f64()).unwrap_or_default();
    let hidden = usize::from(predictor.hidden_root());
    Ok((values[hidden..].to_vec(), answer.guarantee.clone()))
}

/// The structure for a decision, with its probability.
pub(super) fn predict(
    predictor: &Predictor,
    scores: &[f64],
    model: &SpaceModel,
    decision: Decision,
    run: &Run,
) -> Result<Prediction> {
    let hidden = usize::from(predictor.hidden_root());
    let (structure, first) = match decision {
        Decision::MostProbable => {
            let answer = ask(model, Query::Map, run)?;
            let AnyValue::States(states) = &answer.value else { return Err(answer.unexpected_shape()) };
            let state = states.first().map(|best| best.state.as_slice()).unwrap_or_default();
            let structure: Vec<u32> = state.iter().skip(hidden).map(|&y| y as u32).collect();
            (structure, answer.guarantee.clone())
        }
        Decision::Hamming => {
            let (values, guarantee) = marginals(predictor, model, run)?;
            (values.iter().map(|p| u32::from(*p > 0.5)).collect(), guarantee)
        }
        Decision::F1 | Decision::Kendall => {
            let message =
                "needs exact sums, which the label graph is too dense for; most-probable or hamming";
            return Err(Error::argument("decision", message));
        }
    };
    let log_z = log_partition(model, run)?;
    let log_probability = predictor.compiled.family.score(scores, (0, 1), &structure) - log_z.value;
    let weaker = if first.promise() <= log_z.guarantee.promise() { first } else { log_z.guarantee };
    Ok(Prediction { structure, log_probability, guarantee: weaker })
}
