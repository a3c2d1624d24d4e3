//! Chains and semi-Markov chains in `.zhat` files.

use safetensors::Dtype;

use super::tensors::{Stored, Tensors, Writer};
use crate::error::{Error, Result};
use crate::model::{Chain, Kind, Model, Segments, SemiMarkov, Transitions};

/// Reads a chain in the precision of its emissions.
pub(super) fn read_chain(tensors: &Tensors<'_>) -> Result<Model> {
    Ok(match precision(tensors)? {
        Dtype::F32 => Model::Chain32(chain(tensors)?),
        _ => Model::Chain64(chain(tensors)?),
    })
}

/// Reads a semi-Markov chain in the precision of its emissions.
pub(super) fn read_semi_markov(tensors: &Tensors<'_>) -> Result<Model> {
    Ok(match precision(tensors)? {
        Dtype::F32 => Model::SemiMarkov32(semi_markov(tensors)?),
        _ => Model::SemiMarkov64(semi_markov(tensors)?),
    })
}

fn precision(tensors: &Tensors<'_>) -> Result<Dtype> {
    match tensors.dtype("emissions")? {
        known @ (Dtype::F32 | Dtype::F64) => Ok(known),
        other => Err(tensors.fail(format!("the tensor `emissions` has type {other:?}, expected F32 or F64"))),
    }
}

fn chain<F: Stored>(tensors: &Tensors<'_>) -> Result<Chain<F>> {
    let fail = |message: String| tensors.fail(message);
    let found = tensors.shape("emissions")?;
    let &[batch, steps, states] = found.as_slice() else {
        return Err(fail(format!("the tensor `emissions` has shape {found:?}, expected [B, T, N]")));
    };
    if batch == 0 || steps == 0 || states == 0 {
        return Err(fail(format!("the tensor `emissions` has shape {found:?}; B, T and N are at least 1")));
    }
    let start: Vec<F> = tensors.shaped("start", &[states], "[N]")?;
    tensors.expect_shape("lengths", &[batch], "[B]")?;
    let transitions = transitions(tensors, states, steps)?;
    let emissions: Vec<F> = tensors.numbers("emissions")?;
    Chain::new(start.into(), emissions.into(), tensors.integers("lengths")?, transitions)
        .map_err(|error: Error| fail(error.to_string()))
}

pub(super) fn transitions<F: Stored>(
    tensors: &Tensors<'_>,
    states: usize,
    steps: usize,
) -> Result<Transitions<F>> {
    if tensors.has("transitions") {
        if let Some(other) = ["left", "right"].into_iter().find(|name| tensors.has(name)) {
            let message = format!("there are both `transitions` and `{other}`; a chain has one form of them");
            return Err(tensors.fail(message));
        }
        let found = tensors.shape("transitions")?;
        return match found.len() {
            2 => {
                let values: Vec<F> = tensors.shaped("transitions", &[states, states], "[N, N]")?;
                Ok(Transitions::Shared(values.into()))
            }
            3 => {
                let shape = [steps - 1, states, states];
                let values: Vec<F> = tensors.shaped("transitions", &shape, "[T − 1, N, N]")?;
                Ok(Transitions::PerStep(values.into()))
            }
            _ => Err(tensors.fail(format!(
                "the tensor `transitions` has shape {found:?}, expected [N, N] = {:?} or [T − 1, N, N] = {:?}",
                [states, states],
                [steps - 1, states, states]
            ))),
        };
    }
    if !tensors.has("left") {
        return Err(tensors.fail("there are no transitions: the tensor `transitions`, or `left`, is missing"));
    }
    let found = tensors.shape("left")?;
    let rank = match found.as_slice() {
        &[rows, rank] if rows == states => rank,
        _ => {
            let message = format!("the tensor `left` has shape {found:?}, expected [N, D] with N = {states}");
            return Err(tensors.fail(message));
        }
    };
    let left: Vec<F> = tensors.numbers("left")?;
    let right = match tensors.has("right") {
        false => None,
        true => Some(tensors.shaped::<F>("right", &[states, rank], "[N, D]")?.into()),
    };
    Ok(Transitions::Factored { left: left.into(), right })
}

fn semi_markov<F: Stored>(tensors: &Tensors<'_>) -> Result<SemiMarkov<F>> {
    let chain = chain::<F>(tensors)?;
    let (batch, steps, states) = (chain.batch(), chain.steps(), chain.states());
    let found = tensors.shape("segments")?;
    let longest = match *found.as_slice() {
        [longest, n] if n == states => longest,
        [b, t, longest, n] if (b, t, n) == (batch, steps, states) => longest,
        _ => {
            return Err(tensors.fail(format!(
                "the tensor `segments` has shape {found:?}, expected [L, N] = [L, {states}] or [B, T, L, N] = [{batch}, {steps}, L, {states}]"
            )));
        }
    };
    let values = tensors.numbers::<F>("segments")?.into();
    let segments = if found.len() == 2 { Segments::Lengths(values) } else { Segments::Places(values) };
    SemiMarkov::new(chain, segments, longest).map_err(|error| tensors.fail(error.to_string()))
}

pub(super) fn write_chain<F: Stored>(chain: &Chain<F>) -> Writer<'_> {
    let mut file = Writer::new(Kind::Chain.name());
    add_chain(&mut file, chain);
    file
}

pub(super) fn write_semi_markov<F: Stored>(model: &SemiMarkov<F>) -> Writer<'_> {
    let mut file = Writer::new(Kind::SemiMarkov.name());
    let chain = model.chain();
    add_chain(&mut file, chain);
    match model.segments() {
        Segments::Lengths(values) => {
            file.numbers::<F>("segments", &[model.longest(), chain.states()], vec![values]);
        }
        Segments::Places(values) => {
            let shape = [chain.batch(), chain.steps(), model.longest(), chain.states()];
            file.numbers::<F>("segments", &shape, vec![values]);
        }
    }
    file
}

fn add_chain<'a, F: Stored>(file: &mut Writer<'a>, chain: &'a Chain<F>) {
    let (batch, steps, states) = (chain.batch(), chain.steps(), chain.states());
    // Eight bytes a number first, so that every tensor starts where its numbers may lie.
    file.integers("lengths", &[batch], chain.lengths().to_vec());
    file.numbers("start", &[states], vec![chain.start()]);
    file.numbers("emissions", &[batch, steps, states], vec![chain.emissions()]);
    add_transitions(file, chain.transitions(), states);
}

/// The transitions of a chain, or the interactions of a pairwise graph.
pub(super) fn add_transitions<'a, F: Stored>(
    file: &mut Writer<'a>,
    transitions: &'a Transitions<F>,
    states: usize,
) {
    match transitions {
        Transitions::Shared(values) => {
            file.numbers::<F>("transitions", &[states, states], vec![values]);
        }
        Transitions::PerStep(values) => {
            let tables = values.len() / (states * states);
            file.numbers::<F>("transitions", &[tables, states, states], vec![values]);
        }
        Transitions::Factored { left, right } => {
            let shape = [states, left.len() / states];
            file.numbers::<F>("left", &shape, vec![left]);
            if let Some(right) = right {
                file.numbers::<F>("right", &shape, vec![right]);
            }
        }
    }
}
