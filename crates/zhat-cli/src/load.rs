//! Reading of models: `--input`, `--evidence` and `--given`.

use std::path::Path;

use zhat::io::{self, uai};
use zhat::model::{Evidence, Input};
use zhat::{Error, FactorGraph, Model, Result};

use crate::arguments::ModelArguments;

/// Reads a model, and applies it to the data of `--input`.
pub fn read(path: &Path, input: Option<&Path>) -> Result<Model> {
    let stdin = Path::new("-");
    if path == stdin && input == Some(stdin) {
        return Err(Error::argument("--input", "the model is read from stdin, so the data need a file"));
    }
    let model = io::read_model(path)?;
    match input {
        Some(input) => applied(&model, &io::read_input(input)?),
        None => Ok(model),
    }
}

/// The model of these data.
pub fn applied(model: &Model, input: &Input) -> Result<Model> {
    model.with_input(input).map_err(|error| match error {
        Error::Argument { name, message } if name == "input" => Error::argument("--input", message),
        other => other,
    })
}

/// Reads a model that is to be queried, and conditions it on the given evidence.
pub fn load(arguments: &ModelArguments) -> Result<Model> {
    let model = described(arguments)?;
    require_input(&model)?;
    Ok(model)
}

pub fn require_input(model: &Model) -> Result<()> {
    match model.needs_input() {
        Some(data) => Err(Error::Model(format!("a {} needs {data}: give them with --input", model.kind()))),
        None => Ok(()),
    }
}

/// Reads a model and conditions it on the given evidence; it may still need data.
pub fn described(arguments: &ModelArguments) -> Result<Model> {
    let model = read(&arguments.model, arguments.input.as_deref())?;
    let mut evidence = Vec::new();
    if let Some(path) = &arguments.evidence {
        let graph = model.get::<FactorGraph>().ok_or_else(|| {
            let message = "evidence files are for factor graphs; for other models use --given";
            Error::argument("--evidence", message)
        })?;
        let states = uai::read_evidence(path, graph)?;
        evidence.extend(states.into_iter().map(|(variable, state)| Evidence::State { variable, state }));
    }
    condition(&model, evidence, &arguments.given)
}

/// The model conditioned on evidence and on the items of `--given`.
pub fn condition(model: &Model, mut evidence: Vec<Evidence>, given: &[String]) -> Result<Model> {
    for item in given {
        let parsed = model.parse_evidence(item).map_err(|error| match error {
            Error::Argument { message, .. } => Error::argument("--given", message),
            other => other,
        })?;
        evidence.push(parsed);
    }
    model.condition(&evidence)
}
