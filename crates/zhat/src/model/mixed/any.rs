//! A mixed model as a dynamic model: summary and tensors.

use super::{Domain, MixedModel, Statistic, Term};
use crate::error::Result;
use crate::model::any::{self, AnyModel, Kind, Model, Summary};
use crate::query::Answers;
use crate::tensor::{Tensor, TensorMap};

impl MixedModel {
    /// The name of the kind.
    pub const KIND: Kind = Kind::new("mixed-model");
}

impl Answers for MixedModel {
    type Number = f64;
}

impl AnyModel for MixedModel {
    fn kind(&self) -> Kind {
        MixedModel::KIND
    }

    fn summary(&self) -> Summary {
        let sizes = self.sizes();
        let (variables, continuous, largest) = (sizes.variables, sizes.continuous, sizes.largest_component);
        let closed =
            if sizes.numerical { "ln(1 − x) among them: numerical" } else { "all with closed forms" };
        Summary::default()
            .figure("variables", variables)
            .figure("continuous", continuous)
            .figure("terms", sizes.terms)
            .figure("largest_component", largest)
            .figure("numerical", sizes.numerical)
            .figure("bytes", sizes.bytes)
            .line("kind", MixedModel::KIND.name())
            .line(
                "variables",
                format!("{variables}, {continuous} of them continuous, up to {largest} in one component"),
            )
            .line("terms", format!("{}, {closed}", sizes.terms))
    }

    fn tensors(&self) -> Vec<Tensor<'_>> {
        let mut tensors = Vec::new();
        let (n, d) = (self.domains().len(), self.terms().len());
        let states = |domain: &Domain| if let Domain::States(states) = domain { *states } else { 0 };
        let ends = |domain: &Domain| match *domain {
            Domain::Interval(a, b) => [a, b],
            Domain::Counts(a, b) => [a as f64, b.map_or(f64::INFINITY, |b| b as f64)],
            Domain::States(_) => [0.0; 2],
        };
        let factors: Vec<(usize, Statistic)> =
            self.terms().iter().flat_map(|term| term.factors.iter().copied()).collect();
        let code = |statistic: Statistic| match statistic {
            Statistic::Power(c) => (0, c),
            Statistic::Log(c) => (1, f64::from(c)),
            Statistic::LogComplement => (2, 1.0),
            Statistic::State(s) => (3, s as f64),
            Statistic::Distance { power, .. } => (4, power),
            Statistic::LogFactorial => (5, 1.0),
        };
        tensors.push(Tensor::integers("cardinalities", &[n], self.domains().iter().map(states)));
        tensors.push(Tensor::integers(
            "term_lengths",
            &[d],
            self.terms().iter().map(|term| term.factors.len()),
        ));
        tensors.push(Tensor::integers("variables", &[factors.len()], factors.iter().map(|f| f.0)));
        tensors.push(Tensor::integers("statistics", &[factors.len()], factors.iter().map(|f| code(f.1).0)));
        tensors.push(Tensor::new(
            "intervals",
            &[n, 2],
            owned(self.domains().iter().flat_map(ends).collect()),
        ));
        tensors.push(Tensor::new(
            "weights",
            &[d],
            owned(self.terms().iter().map(|term| term.weight).collect()),
        ));
        tensors.push(Tensor::new(
            "arguments",
            &[factors.len()],
            owned(factors.iter().map(|f| code(f.1).1).collect()),
        ));
        // Written only if needed, so that the files of other models are unchanged.
        let is_count = |domain: &Domain| f64::from(u8::from(matches!(domain, Domain::Counts(..))));
        let counts: Vec<f64> = self.domains().iter().map(is_count).collect();
        if counts.contains(&1.0) {
            tensors.push(Tensor::new("counts", &[n], owned(counts)));
        }
        let centre =
            |f: &(usize, Statistic)| if let Statistic::Distance { centre, .. } = f.1 { centre } else { 0.0 };
        if factors.iter().any(|f| matches!(f.1, Statistic::Distance { .. })) {
            tensors.push(Tensor::new(
                "centres",
                &[factors.len()],
                owned(factors.iter().map(centre).collect()),
            ));
        }
        tensors
    }

    fn equals(&self, other: &dyn AnyModel) -> bool {
        any::equal(self, other)
    }
}

/// Owned numbers for a tensor.
fn owned(numbers: Vec<f64>) -> Vec<f64> {
    numbers
}

/// Reads a mixed model.
pub(in crate::model) fn read(tensors: &mut TensorMap) -> Result<Model> {
    let cardinalities = tensors.integers("cardinalities")?;
    let intervals: Vec<f64> = tensors.take_shaped("intervals", &[cardinalities.len(), 2], "[n, 2]")?;
    let ends = intervals.as_chunks::<2>().0;
    // These tensors are absent in files without counts or distances.
    let optional = |tensors: &mut TensorMap, name: &str, count: usize| {
        if tensors.has(name) { tensors.take_shaped(name, &[count], "[n]") } else { Ok(vec![0.0; count]) }
    };
    let counts: Vec<f64> = optional(tensors, "counts", cardinalities.len())?;
    let mut domains = Vec::with_capacity(cardinalities.len());
    for (v, ((&states, &[a, b]), &count)) in cardinalities.iter().zip(ends).zip(&counts).enumerate() {
        let whole = |x: f64| x.fract() == 0.0 && (0.0..9e15).contains(&x);
        domains.push(match (states, count) {
            (0, 1.0) if whole(a) && (whole(b) || b == f64::INFINITY) => {
                Domain::Counts(a as u64, b.is_finite().then_some(b as u64))
            }
            (0, 1.0) => {
                return Err(
                    tensors.error(format!("variable {v} counts from {a} to {b}, expected whole numbers"))
                );
            }
            (0, _) => Domain::Interval(a, b),
            _ => Domain::States(states),
        });
    }
    let lengths = tensors.integers("term_lengths")?;
    let weights: Vec<f64> = tensors.take_shaped("weights", &[lengths.len()], "[d]")?;
    let variables = tensors.integers("variables")?;
    tensors.expect_shape("statistics", &[variables.len()], "[m]")?;
    let kinds = tensors.integers("statistics")?;
    let arguments: Vec<f64> = tensors.take_shaped("arguments", &[variables.len()], "[m]")?;
    let centres: Vec<f64> = optional(tensors, "centres", variables.len())?;
    let mut terms = Vec::with_capacity(weights.len());
    let mut at = 0usize;
    for (j, (&length, &weight)) in lengths.iter().zip(&weights).enumerate() {
        let end = at.checked_add(length).filter(|end| *end <= variables.len());
        let end = end.ok_or_else(|| tensors.error(format!("the factors of term {j} are cut off")))?;
        let mut factors = Vec::with_capacity(length);
        for i in at..end {
            let whole = |argument: f64| {
                let fits = argument.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&argument);
                let message = || format!("factor {i} has the argument {argument}, expected a whole number");
                if fits { Ok(argument as u32) } else { Err(tensors.error(message())) }
            };
            let statistic = match kinds[i] {
                0 => Statistic::Power(arguments[i]),
                1 => Statistic::Log(whole(arguments[i])?),
                2 => Statistic::LogComplement,
                3 => Statistic::State(whole(arguments[i])? as usize),
                4 => Statistic::Distance { centre: centres[i], power: arguments[i] },
                5 => Statistic::LogFactorial,
                other => {
                    return Err(
                        tensors.error(format!("factor {i} has the statistic {other}, expected 0 to 5"))
                    );
                }
            };
            factors.push((variables[i], statistic));
        }
        terms.push(Term { weight, factors });
        at = end;
    }
    if at != variables.len() {
        return Err(tensors.error("there are more factors than the terms have"));
    }
    let model = MixedModel::new(domains, terms).map_err(|error| tensors.error(error.to_string()))?;
    Ok(model.into())
}
