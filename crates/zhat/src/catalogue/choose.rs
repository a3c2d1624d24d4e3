//! Choice of the catalogue row that answers a query within the budget.

use std::time::{Duration, Instant};

use super::{DEFAULT_HORIZON, Row, Settings, all, rows, unsupported};
use crate::answer::Promise;
use crate::error::{Error, Result};
use crate::model::{FactorGraph, Model};
use crate::query::Forecast;
use crate::query::{AnyAnswer, Query};
use crate::run::Run;
use crate::suggest;
use crate::units;

/// The share of the time budget reserved for a second method, in case an exact method does not finish in
/// time.
const RESERVE: f64 = 0.25;

/// An exact method with a forecast below this many seconds is chosen at once, because further forecasts would
/// take longer.
const NEGLIGIBLE_SECONDS: f64 = 1e-3;

/// The same for factor graphs, as long as it is also a small share of the time budget: the forecast of the
/// search is a trial run, which can take this long.
const TRIAL_SECONDS: f64 = 0.2;
const TRIAL_SHARE: f64 = 0.05;

/// The user's choice of method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The strongest guarantee among the methods whose forecast fits the budget.
    Auto,
    /// Like `Auto`, but with at least this kind of guarantee.
    AtLeast(Promise),
    /// The method of this name.
    Named(String),
}

impl Choice {
    /// The values that are not method names.
    pub const WORDS: [&'static str; 4] = ["auto", "exact", "bounds", "unbiased"];

    /// Parses `auto`, a kind of guarantee, or the name of a method.
    pub fn parse(text: &str) -> Choice {
        match text {
            "auto" => Choice::Auto,
            "exact" => Choice::AtLeast(Promise::Exact),
            "bounds" => Choice::AtLeast(Promise::Bounds),
            "unbiased" => Choice::AtLeast(Promise::Unbiased),
            _ => Choice::Named(text.into()),
        }
    }
}

/// Every value that `--method` and `method=` accept.
pub fn method_names() -> Vec<&'static str> {
    let mut names = Choice::WORDS.to_vec();
    for row in all() {
        if !names.contains(&row.method) {
            names.push(row.method);
        }
    }
    names
}

/// A chosen row and its forecast.
#[derive(Clone, Copy)]
pub struct Plan {
    /// The row.
    pub row: &'static Row,
    /// Its estimated cost.
    pub forecast: Forecast,
    /// The method to run if the chosen one exceeds its time: the best one that fits the reserved share of the
    /// budget.
    reserve: Option<&'static Row>,
    /// The time taken by the choice.
    spent: Duration,
}

/// Chooses the method for a query.
///
/// Considers the rows that answer the query, accept the settings and fit the budget, and takes the strongest
/// guarantee. Among exact methods, and among methods that run until a given error is reached, it takes the
/// fastest; among others, the first in the catalogue. An exact method that needs less than a millisecond, or
/// for factor graphs less than a fifth of a second, is taken at once.
///
/// # Errors
/// If the model needs data first ([`AnyModel::with_input`](crate::model::AnyModel::with_input)), no method
/// answers the query for this model, the named method does not exist, or an option is invalid; `Error::OverBudget` if no method fits the budget.
pub fn choose(model: &Model, query: Query, choice: &Choice, settings: &Settings, run: &Run) -> Result<Plan> {
    let begun = Instant::now();
    if let Some(data) = model.needs_input() {
        return Err(Error::argument("input", format!("a {} needs {data}", model.kind())));
    }
    // Forecasts get at most half of the time budget.
    let run = run.until(run.time().and_then(|time| begun.checked_add(time / 2)));
    let plan = choose_from(model, query, choice, settings, &run)?;
    Ok(Plan { spent: begun.elapsed(), ..plan })
}

fn choose_from(model: &Model, query: Query, choice: &Choice, settings: &Settings, run: &Run) -> Result<Plan> {
    if let Choice::Named(name) = choice {
        return choose_named(model, query, name, settings, run);
    }
    let least = if let Choice::AtLeast(promise) = choice { *promise } else { Promise::Heuristic };
    let horizon = run.time().map_or(DEFAULT_HORIZON, |time| time.as_secs_f64());
    known_to_some(model, query, settings)?;
    let has_trials = model.kind() == FactorGraph::KIND;
    let trial = if has_trials { TRIAL_SECONDS.min(TRIAL_SHARE * horizon) } else { 0.0 };
    let little = horizon.min(NEGLIGIBLE_SECONDS).max(trial);
    let mut plans = Vec::new();
    let mut refusal = None;
    for row in rows(model.kind()).filter(|row| row.answers(query)) {
        match row.forecast(model, query, settings, run) {
            Ok(forecast) => plans.push(Plan { row, forecast, reserve: None, spent: Duration::ZERO }),
            // Methods without the options are passed over; a bad value is reported.
            Err(Error::UnknownOption { .. }) if refusal.is_some() => {}
            Err(error) => refusal = Some(error),
        }
        let at_once =
            |plan: &Plan| plan.forecast.promise == Promise::Exact && plan.forecast.fits(run, little);
        if plans.last().is_some_and(at_once) {
            break;
        }
    }
    let fits = |plan: &&Plan| plan.forecast.fits(run, horizon);
    let fitting_settings: Vec<&'static str> = plans.iter().filter(fits).map(|plan| plan.row.method).collect();
    plans.retain(|plan| plan.forecast.promise >= least);
    if plans.is_empty() {
        let wanted = if let Choice::AtLeast(promise) = choice { promise.name() } else { "auto" };
        return Err(refusal.unwrap_or_else(|| unsupported(wanted, query, model.kind())));
    }
    let better = |best: Plan, plan: Plan| {
        let (new, old) = (plan.forecast, best.forecast);
        let to_target = plan.row.has_target_error && best.row.has_target_error;
        let alike = new.promise == Promise::Exact || to_target;
        let faster = alike && new.seconds < old.seconds;
        if new.promise > old.promise || (new.promise == old.promise && faster) { plan } else { best }
    };
    let best = plans.iter().filter(fits).copied().reduce(better);
    // Forecasts may be wrong by some factor. A method that can stop early with a result needs no reserve.
    let quick =
        |plan: &&Plan| plan.forecast.promise < Promise::Exact && plan.forecast.fits(run, RESERVE * horizon);
    let reserve = plans.iter().filter(quick).copied().reduce(better).map(|plan| plan.row);
    let exact = |plan: &Plan| plan.forecast.promise == Promise::Exact;
    let best = best.map(|plan| if exact(&plan) { Plan { reserve, ..plan } } else { plan });
    best.ok_or_else(|| {
        let need = |plan: &Plan| match plan.forecast {
            Forecast { bytes, seconds, .. } if bytes.is_infinite() || seconds.is_infinite() => {
                format!("{} is out of reach", plan.row.method)
            }
            Forecast { bytes, .. } if !run.fits(bytes) => {
                format!("{} needs {} of memory", plan.row.method, units::bytes(bytes))
            }
            Forecast { seconds, .. } => {
                format!("{} needs about {}", plan.row.method, units::seconds(seconds))
            }
        };
        Error::OverBudget {
            needs: plans.iter().map(need).collect::<Vec<_>>().join(", "),
            budget: format!("{} and {}", units::bytes(run.memory() as f64), units::seconds(horizon)),
            // Without settings, the forecasts above are those that are needed here.
            fitting: match settings.is_empty() {
                true => fitting_settings,
                false => fitting(model, query, run, horizon),
            },
        }
    })
}

/// An error if there is an option that no method for this query has.
fn known_to_some(model: &Model, query: Query, settings: &Settings) -> Result<()> {
    if settings.is_empty() {
        return Ok(());
    }
    let mut known: Vec<String> = Vec::new();
    for row in rows(model.kind()).filter(|row| row.answers(query)) {
        known.extend((row.options)().as_object().into_iter().flat_map(|own| own.keys().cloned()));
    }
    known.sort();
    known.dedup();
    let Some(name) = settings.keys().find(|name| !known.contains(name)) else { return Ok(()) };
    let names: Vec<&str> = known.iter().map(String::as_str).collect();
    let hint = suggest::hint(name, &names);
    let message = format!("no method for {} of a {} has this option{hint}", query.name(), model.kind());
    Err(Error::UnknownOption { name: name.clone(), message })
}

fn choose_named(model: &Model, query: Query, name: &str, settings: &Settings, run: &Run) -> Result<Plan> {
    let kind = model.kind();
    if !all().iter().any(|row| row.method == name) {
        let hint = suggest::hint(name, &method_names());
        return Err(Error::argument("method", format!("there is no method `{name}`{hint}")));
    }
    let row = rows(kind)
        .find(|row| row.method == name && row.answers(query))
        .ok_or_else(|| unsupported(name, query, kind))?;
    let forecast = row.forecast(model, query, settings, run)?;
    run.require_memory(name, forecast.bytes).map_err(|error| {
        let others = fitting(model, query, run, DEFAULT_HORIZON).into_iter().filter(|method| *method != name);
        with_fitting(error, others.collect())
    })?;
    Ok(Plan { row, forecast, reserve: None, spent: Duration::ZERO })
}

/// The methods whose forecast fits the budget.
fn fitting(model: &Model, query: Query, run: &Run, horizon: f64) -> Vec<&'static str> {
    // Rows are skipped once the time is up.
    let fits = |row: &&Row| {
        let forecast = || row.forecast(model, query, &Settings::new(), run);
        row.answers(query) && !run.must_stop() && forecast().is_ok_and(|forecast| forecast.fits(run, horizon))
    };
    rows(model.kind()).filter(fits).map(|row| row.method).collect()
}

fn with_fitting(error: Error, methods: Vec<&'static str>) -> Error {
    match error {
        Error::OverBudget { needs, budget, .. } => Error::OverBudget { needs, budget, fitting: methods },
        other => other,
    }
}

impl Plan {
    /// Runs the chosen method.
    ///
    /// # Errors
    /// Those of [every query](crate::query#errors); also if the method does not answer the query for this
    /// model.
    pub fn answer(&self, model: &Model, query: Query, settings: &Settings, run: &Run) -> Result<AnyAnswer> {
        let Some(time) = run.time() else {
            return explained(model, self.row.run(model, query, settings, run));
        };
        // Methods plan with the whole budget unless the choice has used a noticeable part of it.
        let left = time.saturating_sub(self.spent);
        let started = Instant::now();
        let planned = if self.spent < time / 50 { time } else { left };
        let whole = run.until(started.checked_add(left)).with_time(planned);
        let Some(reserve) = self.reserve else {
            return explained(model, self.row.run(model, query, settings, &whole));
        };
        let first = whole.clone().with_time(planned.mul_f64(1.0 - RESERVE)).begun();
        match self.row.run(model, query, settings, &first) {
            Err(Error::OverBudget { .. }) => {
                let rest = whole.with_time(left.saturating_sub(started.elapsed()));
                explained(model, reserve.run(model, query, settings, &rest))
            }
            answer => explained(model, answer),
        }
    }
}

/// Adds to an error about impossible evidence which observations and factors contradict each other.
fn explained(model: &Model, answer: Result<AnyAnswer>) -> Result<AnyAnswer> {
    answer.map_err(|error| match (error, model.get::<FactorGraph>()) {
        (Error::ImpossibleEvidence { conflict: None }, Some(graph)) => {
            let found = graph.contradiction();
            Error::ImpossibleEvidence { conflict: found.map(|found| graph.explain(&found)) }
        }
        (Error::ZeroPartition, None) if model.is_given() => Error::ImpossibleEvidence { conflict: None },
        (Error::NoTree(reason), _) if model.is_given() => {
            Error::ImpossibleEvidence { conflict: Some(reason) }
        }
        (error, _) => error,
    })
}

/// Chooses a method and runs it.
///
/// # Errors
/// Those of [`choose`] and [`Plan::answer`].
///
/// ```
/// use zhat::catalogue::{answer, Choice, Settings};
/// use zhat::{Promise, Query, Run};
/// use zhat::model::generate;
/// let model = generate::tree(20, 3, 1.0, 0)?.into();
/// let z = answer(&model, Query::LogPartition, &Choice::Auto, &Settings::new(), &Run::default())?;
/// assert_eq!(z.guarantee.promise(), Promise::Exact);
/// assert!(z.number().is_some());
/// # Ok::<(), zhat::Error>(())
/// ```
pub fn answer(
    model: &Model,
    query: Query,
    choice: &Choice,
    settings: &Settings,
    run: &Run,
) -> Result<AnyAnswer> {
    choose(model, query, choice, settings, run)?.answer(model, query, settings, run)
}
