//! Mixed models in `.zhat` files.

use super::tensors::{Tensors, Writer};
use crate::error::Result;
use crate::model::{Domain, Kind, MixedModel, Statistic, Term};

pub(super) fn read(tensors: &Tensors<'_>) -> Result<MixedModel> {
    let cardinalities = tensors.integers("cardinalities")?;
    let intervals: Vec<f64> = tensors.shaped("intervals", &[cardinalities.len(), 2], "[n, 2]")?;
    let ends = intervals.as_chunks::<2>().0;
    // Files without counts, or without distances, have no such tensors.
    let optional = |name: &str, count: usize| {
        if tensors.has(name) { tensors.shaped(name, &[count], "[n]") } else { Ok(vec![0.0; count]) }
    };
    let counts: Vec<f64> = optional("counts", cardinalities.len())?;
    let mut domains = Vec::with_capacity(cardinalities.len());
    for (v, ((&states, &[a, b]), &count)) in cardinalities.iter().zip(ends).zip(&counts).enumerate() {
        let whole = |x: f64| x.fract() == 0.0 && (0.0..9e15).contains(&x);
        domains.push(match (states, count) {
            (0, 1.0) if whole(a) && (whole(b) || b == f64::INFINITY) => {
                Domain::Counts(a as u64, b.is_finite().then_some(b as u64))
            }
            (0, 1.0) => {
                return Err(
                    tensors.fail(format!("variable {v} counts from {a} to {b}, expected whole numbers"))
                );
            }
            (0, _) => Domain::Interval(a, b),
            _ => Domain::States(states),
        });
    }
    let lengths = tensors.integers("term_lengths")?;
    let weights: Vec<f64> = tensors.shaped("weights", &[lengths.len()], "[d]")?;
    let variables = tensors.integers("variables")?;
    tensors.expect_shape("statistics", &[variables.len()], "[m]")?;
    let kinds = tensors.integers("statistics")?;
    let arguments: Vec<f64> = tensors.shaped("arguments", &[variables.len()], "[m]")?;
    let centres: Vec<f64> = optional("centres", variables.len())?;
    let mut terms = Vec::with_capacity(weights.len());
    let mut at = 0usize;
    for (j, (&length, &weight)) in lengths.iter().zip(&weights).enumerate() {
        let end = at.checked_add(length).filter(|end| *end <= variables.len());
        let end = end.ok_or_else(|| tensors.fail(format!("the factors of term {j} are cut off")))?;
        let mut factors = Vec::with_capacity(length);
        for i in at..end {
            let whole = |argument: f64| {
                let fits = argument.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&argument);
                let message = || format!("factor {i} has the argument {argument}, expected a whole number");
                if fits { Ok(argument as u32) } else { Err(tensors.fail(message())) }
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
                        tensors.fail(format!("factor {i} has the statistic {other}, expected 0 to 5"))
                    );
                }
            };
            factors.push((variables[i], statistic));
        }
        terms.push(Term { weight, factors });
        at = end;
    }
    if at != variables.len() {
        return Err(tensors.fail("there are more factors than the terms have"));
    }
    MixedModel::new(domains, terms).map_err(|error| tensors.fail(error.to_string()))
}

pub(super) fn write(model: &MixedModel) -> Writer<'_> {
    let mut file = Writer::new(Kind::MixedModel.name());
    let (n, d) = (model.domains().len(), model.terms().len());
    let states = |domain: &Domain| if let Domain::States(states) = domain { *states } else { 0 };
    let ends = |domain: &Domain| match *domain {
        Domain::Interval(a, b) => [a, b],
        Domain::Counts(a, b) => [a as f64, b.map_or(f64::INFINITY, |b| b as f64)],
        Domain::States(_) => [0.0; 2],
    };
    let factors: Vec<(usize, Statistic)> =
        model.terms().iter().flat_map(|term| term.factors.iter().copied()).collect();
    let code = |statistic: Statistic| match statistic {
        Statistic::Power(c) => (0, c),
        Statistic::Log(c) => (1, f64::from(c)),
        Statistic::LogComplement => (2, 1.0),
        Statistic::State(s) => (3, s as f64),
        Statistic::Distance { power, .. } => (4, power),
        Statistic::LogFactorial => (5, 1.0),
    };
    file.integers("cardinalities", &[n], model.domains().iter().map(states).collect());
    file.integers("term_lengths", &[d], model.terms().iter().map(|term| term.factors.len()).collect());
    file.integers("variables", &[factors.len()], factors.iter().map(|f| f.0).collect());
    file.integers("statistics", &[factors.len()], factors.iter().map(|f| code(f.1).0).collect());
    file.owned("intervals", &[n, 2], model.domains().iter().flat_map(ends).collect());
    file.owned("weights", &[d], model.terms().iter().map(|term| term.weight).collect());
    file.owned("arguments", &[factors.len()], factors.iter().map(|f| code(f.1).1).collect());
    // Only files that need them have these, so that those of other models stay as they were.
    let is_count = |domain: &Domain| f64::from(u8::from(matches!(domain, Domain::Counts(..))));
    let counts: Vec<f64> = model.domains().iter().map(is_count).collect();
    if counts.contains(&1.0) {
        file.owned("counts", &[n], counts);
    }
    let centre =
        |f: &(usize, Statistic)| if let Statistic::Distance { centre, .. } = f.1 { centre } else { 0.0 };
    if factors.iter().any(|f| matches!(f.1, Statistic::Distance { .. })) {
        file.owned("centres", &[factors.len()], factors.iter().map(centre).collect());
    }
    file
}
