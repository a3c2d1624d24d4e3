//! Gradients with respect to the parameters of a chain: named arrays.

use serde::Serialize;
use zhat::numeric::Real;
use zhat::pairwise::PairwiseGradient;
use zhat::sequence::{ChainGradient, SemiMarkovGradient, TransitionGradient};
use zhat::{Model, Result, decimal};

use super::super::Answered;
use super::largest;
use crate::output::{self, json_text};

/// A line of the plain table has this many of the largest entries.
const LARGEST: usize = 3;

/// An array with its name and shape.
pub struct Named<'a, F> {
    name: &'static str,
    shape: Vec<usize>,
    values: &'a [F],
}

/// The parts of a chain's gradient.
pub fn of_chain<'a, F>(model: &Model, gradient: &'a ChainGradient<F>) -> Vec<Named<'a, F>> {
    let states = gradient.start.len();
    let batch = model.lengths().len();
    let steps = gradient.emissions.len() / (batch * states).max(1);
    let named = |name, shape: &[usize], values: &'a Vec<F>| Named { name, shape: shape.to_vec(), values };
    let mut parts = vec![
        named("start", &[states], &gradient.start),
        named("emissions", &[batch, steps, states], &gradient.emissions),
    ];
    match &gradient.transitions {
        TransitionGradient::Shared(values) => parts.push(named("transitions", &[states, states], values)),
        TransitionGradient::PerStep(values) => {
            parts.push(named("transitions", &[steps - 1, states, states], values));
        }
        TransitionGradient::Factored { left, right } => {
            let shape = [states, left.len() / states.max(1)];
            parts.push(named("left", &shape, left));
            parts.extend(right.iter().map(|right| named("right", &shape, right)));
        }
    }
    parts
}

/// The parts of a pairwise graph's gradient.
pub fn of_graph<'a, F>(model: &Model, gradient: &'a PairwiseGradient<F>) -> Vec<Named<'a, F>> {
    let variables = model.lengths()[0];
    let states = gradient.nodes.len() / variables.max(1);
    let named = |name, shape: &[usize], values: &'a Vec<F>| Named { name, shape: shape.to_vec(), values };
    let mut parts = vec![named("nodes", &[variables, states], &gradient.nodes)];
    match &gradient.interactions {
        TransitionGradient::Shared(values) => parts.push(named("interactions", &[states, states], values)),
        TransitionGradient::PerStep(values) => {
            let edges = values.len() / (states * states).max(1);
            parts.push(named("interactions", &[edges, states, states], values));
        }
        TransitionGradient::Factored { left, right } => {
            let shape = [states, left.len() / states.max(1)];
            parts.push(named("left", &shape, left));
            parts.extend(right.iter().map(|right| named("right", &shape, right)));
        }
    }
    parts
}

/// The parts of a semi-Markov chain's gradient.
pub fn of_semi_markov<'a, F>(model: &Model, gradient: &'a SemiMarkovGradient<F>) -> Vec<Named<'a, F>> {
    let mut parts = of_chain(model, &gradient.chain);
    let states = gradient.chain.start.len();
    let longest = model.longest_segment().unwrap_or(1);
    let per_place = gradient.segments.len() != longest * states;
    let mut shape = if per_place { parts[1].shape[..2].to_vec() } else { Vec::new() };
    shape.extend([longest, states]);
    parts.push(Named { name: "segments", shape, values: &gradient.segments });
    parts
}

/// Everything as JSON; in words the shapes, sums and largest entries.
pub fn text<F: Real + Serialize>(answered: &Answered, parts: &[Named<'_, F>], json: bool) -> Result<String> {
    if json {
        let member = |part: &Named<'_, F>| {
            let (shape, values) = (json_text(&part.shape)?, json_text(part.values)?);
            Ok(format!("\"{}\":{{\"shape\":{shape},\"values\":{values}}}", part.name))
        };
        let members = parts.iter().map(member).collect::<Result<Vec<_>>>()?;
        return Ok(answered.object(&[("gradient", format!("{{{}}}", members.join(",")))]));
    }
    let row = |part: &Named<'_, F>| {
        let shape: Vec<String> = part.shape.iter().map(ToString::to_string).collect();
        let sum: f64 = part.values.iter().map(|x| x.to_f64()).sum();
        let entry = |&i: &usize| {
            format!("{}: {}", place(&part.shape, i), decimal::probability(part.values[i].to_f64()))
        };
        let entries: Vec<String> = largest(part.values, LARGEST).iter().map(entry).collect();
        vec![part.name.into(), shape.join("×"), format!("{sum:.6}"), entries.join("  ")]
    };
    let header = ["gradient of log Z by", "shape", "sum", "largest entries"];
    let table = output::table(&header, parts.iter().map(row).collect(), usize::MAX);
    Ok(format!("{table}\n{}", answered.footer()))
}

/// The indices of an entry, `2,0,17`.
fn place(shape: &[usize], entry: usize) -> String {
    let (mut rest, mut indices) = (entry, Vec::new());
    for &length in shape.iter().rev() {
        indices.push((rest % length.max(1)).to_string());
        rest /= length.max(1);
    }
    indices.reverse();
    indices.join(",")
}
