//! Models of discrete and continuous variables.

use pyo3::prelude::*;
use zhat::model::{Domain, Family, MixedModel, Statistic, Term, generate};

use crate::error::{self, Failure};
use crate::model::Model;

/// A variable: its number of states (0 if it is not discrete), whether it is a count, and the ends of its
/// range.
type Variable = (usize, bool, f64, f64);
/// A term: its weight, and for each factor the variable, the name of the statistic, its argument and its
/// centre.
type Parts = (f64, Vec<(usize, String, f64, f64)>);

fn statistic(name: &str, argument: f64, centre: f64) -> PyResult<Statistic> {
    let whole = || {
        if argument.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&argument) {
            Ok(argument as u32)
        } else {
            Err(error::argument("terms", format!("expected a whole number for `{name}`, found {argument}")))
        }
    };
    Ok(match name {
        "power" => Statistic::Power(argument),
        "log" => Statistic::Log(whole()?),
        "log1m" => Statistic::LogComplement,
        "state" => Statistic::State(whole()? as usize),
        "distance" => Statistic::Distance { centre, power: argument },
        "log_factorial" => Statistic::LogFactorial,
        _ => {
            let message = format!(
                "there is no statistic `{name}`; there are power, log, log1m, state, distance and log_factorial"
            );
            return Err(error::argument("terms", message));
        }
    })
}

/// A mixed model from its variables and terms.
#[pyfunction]
pub fn mixed(variables: Vec<Variable>, terms: Vec<Parts>) -> PyResult<Model> {
    let domain = |&(states, counts, a, b): &Variable| {
        let whole = |x: f64| x.fract() == 0.0 && (0.0..9e15).contains(&x);
        if states > 0 {
            return Ok(Domain::States(states));
        }
        if !counts {
            return Ok(Domain::Interval(a, b));
        }
        if !whole(a) || !(whole(b) || b == f64::INFINITY) {
            let message = format!("counts from {a} to {b}: expected whole numbers from 0 on");
            return Err(error::argument("domains", message));
        }
        Ok(Domain::Counts(a as u64, b.is_finite().then_some(b as u64)))
    };
    let domains = variables.iter().map(domain).collect::<PyResult<_>>()?;
    let mut built = Vec::with_capacity(terms.len());
    for (weight, factors) in terms {
        let factors =
            factors.iter().map(|(v, name, argument, centre)| Ok((*v, statistic(name, *argument, *centre)?)));
        built.push(Term { weight, factors: factors.collect::<PyResult<_>>()? });
    }
    Ok(Model::of(MixedModel::new(domains, built).map_err(Failure)?))
}

/// A family by name on a box; an end that is not given has the default of the family.
#[pyfunction]
pub fn family(name: &str, parameters: Vec<f64>, low: Option<f64>, high: Option<f64>) -> PyResult<Model> {
    let family = Family::named(name, &parameters).map_err(Failure)?;
    let usual = family.usual_box();
    let bounds = (low.unwrap_or(usual.0), high.unwrap_or(usual.1));
    Ok(Model::of(family.on(bounds).map_err(Failure)?))
}

/// A class and a continuous variable that is normal given the class.
#[pyfunction]
pub fn gaussian_mixture(
    weights: Vec<f64>,
    means: Vec<f64>,
    deviations: Vec<f64>,
    bounds: (f64, f64),
) -> PyResult<Model> {
    Ok(Model::of(MixedModel::gaussian_mixture(&weights, &means, &deviations, bounds).map_err(Failure)?))
}

/// See `zhat.generate.gaussian_mixture`.
#[pyfunction]
pub fn random_mixture(classes: usize, bounds: (f64, f64), seed: u64) -> PyResult<Model> {
    Ok(Model::of(generate::gaussian_mixture(classes, bounds, seed).map_err(Failure)?))
}

fn of(model: &Model) -> PyResult<&MixedModel> {
    model.get().ok_or_else(|| error::argument("model", "expected a mixed model"))
}

/// The variables and terms.
#[pyfunction]
pub fn mixed_parts(model: &Model) -> PyResult<(Vec<Variable>, Vec<Parts>)> {
    let model = of(model)?;
    let variable = |domain: &Domain| match *domain {
        Domain::States(states) => (states, false, 0.0, 0.0),
        Domain::Interval(a, b) => (0, false, a, b),
        Domain::Counts(a, b) => (0, true, a as f64, b.map_or(f64::INFINITY, |b| b as f64)),
    };
    let factor = |&(v, statistic): &(usize, Statistic)| match statistic {
        Statistic::Power(c) => (v, "power".to_owned(), c, 0.0),
        Statistic::Log(c) => (v, "log".to_owned(), f64::from(c), 0.0),
        Statistic::LogComplement => (v, "log1m".to_owned(), 1.0, 0.0),
        Statistic::State(s) => (v, "state".to_owned(), s as f64, 0.0),
        Statistic::Distance { centre, power } => (v, "distance".to_owned(), power, centre),
        Statistic::LogFactorial => (v, "log_factorial".to_owned(), 1.0, 0.0),
    };
    let term = |term: &Term| (term.weight, term.factors.iter().map(factor).collect());
    Ok((model.domains().iter().map(variable).collect(), model.terms().iter().map(term).collect()))
}

/// The log density at a point.
#[pyfunction]
pub fn mixed_score(model: &Model, point: Vec<f64>) -> PyResult<f64> {
    let model = of(model)?;
    if point.len() != model.domains().len() {
        let message = format!("expected {} values, found {}", model.domains().len(), point.len());
        return Err(error::argument("point", message));
    }
    for (v, (&x, domain)) in point.iter().zip(model.domains()).enumerate() {
        let inside = match *domain {
            Domain::States(n) => x.fract() == 0.0 && (0.0..n as f64).contains(&x),
            Domain::Interval(a, b) => (a..=b).contains(&x),
            Domain::Counts(a, b) => {
                x.fract() == 0.0 && x >= a as f64 && x <= b.map_or(f64::INFINITY, |b| b as f64)
            }
        };
        if !inside {
            return Err(error::argument("point", format!("variable {v} does not take the value {x}")));
        }
    }
    Ok(model.score(&point))
}
