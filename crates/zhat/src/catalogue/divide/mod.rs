//! Queries divided over processes and machines.
//!
//! The work of a [`Division`] consists of units: replicates, blocks of samples, subtrees of states. Any process
//! can do any range of them, and a [`Part`] is the result. Parts in the order of their ranges give the bits of
//! one run, for any number of parts and threads, on processors with the same vector instructions.
//!
//! The preparation of a method, such as an elimination order or the bound behind an importance sampler, is
//! repeated for every part and for the merge ([`Division::preparation_seconds`]). It depends on the memory budget, which is therefore a part of
//! the task, and not on the time.
//!
//! ```
//! use zhat::catalogue::{Divisible, Division, Settings};
//! use zhat::model::generate;
//! use zhat::{Query, Run};
//! let grid = generate::Grid { rows: 6, columns: 6, torus: false };
//! let model = generate::ising(grid, 0.3, 0.5, false, 1)?.into();
//! let run = Run::default().with_memory(1 << 30);
//! let division = Division::new(&model, Query::LogPartition, "wmb-is", &Settings::new(), &run)?;
//! assert_eq!(division.units(), 32);
//! // In other processes:
//! let parts = [division.part(20..32, &run)?, division.part(0..20, &run)?];
//! let merged = division.merge(&parts, &run)?;
//! let whole = zhat::catalogue::answer(
//!     &model, Query::LogPartition, &zhat::catalogue::Choice::parse("wmb-is"), &Settings::new(), &run)?;
//! assert_eq!(merged.number(), whole.number());
//! # Ok::<(), zhat::Error>(())
//! ```

mod part;

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use self::part::Task;
pub use self::part::{Part, model_hash};
use super::{Row, Settings, rows};
use crate::answer::Guarantee;
use crate::error::{Error, Result};
use crate::model::Model;
use crate::numeric::simd;
use crate::query::{AnyAnswer, Forecast, Query};
use crate::run::Run;
use crate::run::share::Share;
use crate::units;

/// Work that can be divided into units.
///
/// Implemented by [`Division`] for the queries of the catalogue.
pub trait Divisible {
    /// What one or more processes have done of it.
    type Part;
    /// The result of all units.
    type Answer;

    /// The number of units.
    fn units(&self) -> u64;

    /// The estimated time of a unit in seconds.
    fn unit_seconds(&self) -> f64;

    /// Does a range of units.
    ///
    /// # Errors
    /// If the range is empty or beyond the last unit, or the work fails, is cancelled or out of time.
    fn part(&self, units: Range<u64>, run: &Run) -> Result<Self::Part>;

    /// The answer from parts that together cover all units. Parts may be given in any order; of equal parts
    /// one is used.
    ///
    /// # Errors
    /// If the parts are those of another task, or units are missing or in parts that differ.
    fn merge(&self, parts: &[Self::Part], run: &Run) -> Result<Self::Answer>;
}

/// A query about a model by one method, whose work is divided.
#[derive(Clone)]
pub struct Division {
    model: Model,
    row: &'static Row,
    query: Query,
    settings: Settings,
    task: Task,
    forecast: Forecast,
    expected: Option<u64>,
    preparation: f64,
    mixed: bool,
}

/// The row of the named method, if it can divide the work of the query.
fn divisible_row(model: &Model, query: Query, method: &str) -> Result<&'static Row> {
    let can = |row: &&Row| row.divisible_queries().contains(&query);
    rows(model.kind()).find(|row| row.method == method && can(row)).ok_or_else(|| {
        let known: Vec<&str> = rows(model.kind()).filter(can).map(|row| row.method).collect();
        let others = match known.is_empty() {
            true => "no method can".to_owned(),
            false => format!("these methods can: {}", known.join(", ")),
        };
        let message =
            format!("`{method}` cannot divide the work of {} of a {}; {others}", query.name(), model.kind());
        Error::argument("method", message)
    })
}

impl Division {
    /// Prepares the method far enough to know the number of units. The seed and the memory budget of `run` are
    /// part of the task; its time budget and cancel flag hold for this preparation.
    ///
    /// # Errors
    /// If the method cannot divide the work of this query, the model cannot be written to a file, an option is
    /// invalid, or the method fails before it comes to its units. `Error::NoAnswer` if there is nothing to
    /// divide, because the method finds the answer without its units.
    pub fn new(model: &Model, query: Query, method: &str, settings: &Settings, run: &Run) -> Result<Self> {
        let row = divisible_row(model, query, method)?;
        model.check_writable().map_err(|error| {
            Error::argument("model", format!("it cannot be sent to another process: {error}"))
        })?;
        let forecast = row.forecast(model, query, settings, &run.clone().without_time())?;
        run.require_memory(method, forecast.bytes)?;
        let task = Task {
            zhat: env!("CARGO_PKG_VERSION").into(),
            kind: model.kind().name().into(),
            model: model_hash(model),
            query: query.name().into(),
            method: row.method.into(),
            settings: settings.clone(),
            seed: run.seed(),
            memory: run.memory(),
            units: 0,
        };
        let mut division = Division {
            model: model.clone(),
            row,
            query,
            settings: settings.clone(),
            task,
            forecast,
            expected: None,
            preparation: 0.0,
            mixed: false,
        };
        let share = Arc::new(Share::count(row.method));
        let begin = Instant::now();
        let outcome = division.run(&share, run);
        division.preparation = begin.elapsed().as_secs_f64();
        division.expected = share.expected();
        division.task.units = match (share.counted(), outcome) {
            (Some(units), _) => units,
            (None, Err(error)) => return Err(error),
            (None, Ok(_)) => {
                let message = format!(
                    "{method} finds the answer without work that can be divided; run the query as a whole"
                );
                return Err(Error::NoAnswer(message));
            }
        };
        Ok(division)
    }

    /// The task of a part, for the model that it is about.
    ///
    /// # Errors
    /// If the part is about another model, was made by another version of zhat, or as [`Division::new`].
    pub fn of_part(part: &Part, model: &Model) -> Result<Self> {
        let task = part.task();
        if task.zhat != env!("CARGO_PKG_VERSION") {
            let message =
                format!("they were made by zhat {}, this is zhat {}", task.zhat, env!("CARGO_PKG_VERSION"));
            return Err(Error::argument("parts", message));
        }
        let found = model_hash(model);
        if (found.as_str(), model.kind().name()) != (&task.model, &task.kind) {
            let message = format!(
                "the parts are about a {} with hash {}, this is a {} with hash {found}",
                task.kind,
                task.model,
                model.kind()
            );
            return Err(Error::argument("model", message));
        }
        let query = part::query_named(&task.query)?;
        let row = divisible_row(model, query, &task.method)?;
        let settings = task.settings.clone();
        let run = Run::default().with_seed(task.seed).with_memory(task.memory);
        let forecast = row.forecast(model, query, &settings, &run)?;
        Ok(Division {
            model: model.clone(),
            row,
            query,
            settings,
            task: task.clone(),
            forecast,
            expected: None,
            preparation: 0.0,
            mixed: false,
        })
    }

    /// Whether parts computed with different vector instructions are merged; otherwise that is an error. The
    /// answer then equals that of one run up to rounding, and says so.
    pub fn with_mixed(mut self, mixed: bool) -> Self {
        self.mixed = mixed;
        self
    }

    /// The query.
    pub fn query(&self) -> Query {
        self.query
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The method.
    pub fn method(&self) -> &'static str {
        self.row.method
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.task.seed
    }

    /// The memory budget in bytes.
    pub fn memory(&self) -> u64 {
        self.task.memory
    }

    /// The forecast of the whole query.
    pub fn forecast(&self) -> Forecast {
        self.forecast
    }

    /// Whether answers can be computed from the first units only.
    pub fn is_anytime(&self) -> bool {
        // The strata of tuples follow each other, so each of them is needed.
        let tuples = self.settings.get("form").is_some_and(|form| form == "tuples");
        self.query == Query::LogPartition && ANYTIME.contains(&self.row.method) && !tuples
    }

    /// Whether the method itself decides when it ends: at the first look at which its error is small enough.
    /// [`Divisible::merge`] then needs the units up to that look only.
    pub fn ends_itself(&self) -> bool {
        self.row.first_look.is_some()
    }

    /// The number of units that will probably be needed: fewer than all if the method ends itself.
    pub fn expected_units(&self) -> u64 {
        self.expected.unwrap_or(self.task.units)
    }

    /// The time in seconds that the preparation took here. Every part and every merge repeats it, except for what
    /// the cache of the run holds, so a part should take much longer.
    pub fn preparation_seconds(&self) -> f64 {
        self.preparation
    }

    /// Checks that a part belongs to this task, before it is used or kept. Returns its units.
    ///
    /// # Errors
    /// If it is of another task, or was computed with other vector instructions than this machine has, and
    /// parts may not be mixed.
    pub fn check_part(&self, part: &Part) -> Result<Range<u64>> {
        if let Some(difference) = self.task.difference(part.task()) {
            return Err(Error::argument("parts", format!("they are of different tasks: {difference}")));
        }
        self.check_levels(std::slice::from_ref(part))?;
        Ok(part.range())
    }

    /// The vector instructions of the parts and of this machine, which does the preparation and the merge.
    fn check_levels<'a>(&self, parts: &'a [Part]) -> Result<Vec<&'a str>> {
        let mut levels = part::levels(parts);
        let own = simd::level().name();
        if !levels.contains(&own) {
            levels.push(own);
        }
        if levels.len() > 1 && !self.mixed {
            let message = format!(
                "the parts and this machine use different vector instructions: {}; set ZHAT_SIMD={} everywhere, or allow mixed parts",
                levels.join(" and "),
                levels.iter().find(|level| **level != "avx512").unwrap_or(&"portable"),
            );
            return Err(Error::argument("parts", message));
        }
        Ok(levels)
    }

    /// The numbers of units after which the answer so far may be looked at: the powers of two below the number
    /// of units, and all. They begin at 2, or where the method itself first looks. They are fixed before the first unit is done, and the k-th look has the share
    /// 6/(π²k²) of the error probability, so the answer at the look where the work ends has its confidence
    /// however that look is chosen.
    pub fn looks(&self) -> Vec<u64> {
        let units = self.task.units;
        let powers =
            std::iter::successors(Some(self.row.first_look.unwrap_or(2)), |count| count.checked_mul(2));
        powers.take_while(|&count| count < units).chain([units]).collect()
    }

    /// The answer at look `look` (from 0) of [`Division::looks`], from parts that cover its units.
    ///
    /// An estimate whose last look was chosen by its results is no longer unbiased. Its guarantee is therefore the
    /// lower bound, and the diagnostics have its `relative_std_error`.
    ///
    /// # Errors
    /// As [`Divisible::merge`]; also if the method needs all units.
    pub fn look(&self, look: usize, parts: &[Part], run: &Run) -> Result<AnyAnswer> {
        let looks = self.looks();
        let units = *looks.get(look).ok_or_else(|| {
            Error::argument("look", format!("expected a number from 0 to {}", looks.len() - 1))
        })?;
        if !self.is_anytime() && units < self.task.units {
            let message = format!("{} has no answer before all units are done", self.row.method);
            return Err(Error::argument("look", message));
        }
        self.merged(parts, units, Some(look as u32 + 1), run)
    }

    /// Runs the method with a share of its work.
    fn run(&self, share: &Arc<Share>, run: &Run) -> Result<AnyAnswer> {
        // A time budget ends the work, but does not change how a method prepares itself.
        let deadline = run.time().and_then(|time| Instant::now().checked_add(time));
        let run = run.until(deadline).without_time().with_seed(self.task.seed).with_memory(self.task.memory);
        self.row.run(&self.model, self.query, &self.settings, &run.sharing(share.clone()))
    }

    fn merged(&self, parts: &[Part], units: u64, look: Option<u32>, run: &Run) -> Result<AnyAnswer> {
        let levels = self.check_levels(parts)?;
        let (words, mark) = part::joined(&self.task, parts, units)?;
        let share = Arc::new(Share::merge(self.row.method, words, units, look));
        // The result must not depend on the time that the merge takes.
        let mut answer = self.run(&share, &run.clone().without_time())?;
        if share.recorded().0 != mark && levels.len() == 1 {
            let message = "they depend on a preparation that came out otherwise here; merge them on a machine with the same processor";
            return Err(Error::argument("parts", message));
        }
        if look.is_some() {
            let confidence = self.settings.get("confidence").and_then(serde_json::Value::as_f64);
            let default = (self.row.options)().get("confidence").and_then(serde_json::Value::as_f64);
            if let Some(error) = relative_std_error(&answer.guarantee) {
                answer.diagnostics = answer.diagnostics.note("relative_std_error", error);
            }
            answer.guarantee = looked_at(answer.guarantee, confidence.or(default));
            if !self.ends_itself() {
                answer.diagnostics.stopped_early = units < self.task.units;
            }
        }
        if levels.len() > 1 {
            let note = format!(
                "parts were computed with {}; the answer equals that of one run up to rounding",
                levels.join(" and ")
            );
            answer.diagnostics = answer.diagnostics.note("warning", note);
        }
        Ok(answer)
    }
}

/// The guarantee after a look that results may have chosen, with the confidence of all looks together. A mean is
/// not unbiased then, but its lower bound holds.
fn looked_at(guarantee: Guarantee, confidence: Option<f64>) -> Guarantee {
    match guarantee {
        Guarantee::Bounds { low, high, confidence: own } if own < 1.0 => {
            Guarantee::Bounds { low, high, confidence: confidence.unwrap_or(own) }
        }
        Guarantee::Unbiased { low, confidence: own, .. } => {
            Guarantee::Bounds { low, high: f64::INFINITY, confidence: confidence.unwrap_or(own) }
        }
        Guarantee::Each(all) => {
            Guarantee::Each(all.into_iter().map(|one| looked_at(one, confidence)).collect())
        }
        other => other,
    }
}

/// The relative standard error; of a batch the largest.
fn relative_std_error(guarantee: &Guarantee) -> Option<f64> {
    match guarantee {
        Guarantee::Unbiased { relative_std_error, .. } => Some(*relative_std_error),
        Guarantee::Each(all) => all.iter().filter_map(relative_std_error).reduce(f64::max),
        _ => None,
    }
}

/// The methods that have an answer after some of the units.
const ANYTIME: [&str; 7] = ["importance", "wmb-is", "sccq", "randomized", "randomized-bp", "annealed", "tpa"];

impl Divisible for Division {
    type Part = Part;
    type Answer = AnyAnswer;

    fn units(&self) -> u64 {
        self.task.units
    }

    fn unit_seconds(&self) -> f64 {
        self.forecast.seconds / self.expected_units().max(1) as f64
    }

    fn part(&self, units: Range<u64>, run: &Run) -> Result<Part> {
        let all = self.task.units;
        if units.is_empty() || units.end > all {
            let message =
                format!("found {}..{}, expected a range of units within 0..{all}", units.start, units.end);
            return Err(Error::argument("range", message));
        }
        let available = crate::platform::available_memory() as f64;
        if self.forecast.bytes > available {
            return Err(Error::OverBudget {
                needs: format!("{} needs {} of memory", self.row.method, units::bytes(self.forecast.bytes)),
                budget: format!("{} that this machine has available", units::bytes(available)),
                fitting: Vec::new(),
            });
        }
        let share = Arc::new(Share::part(self.row.method, units.clone()));
        let outcome = self.run(&share, run);
        let (mark, words) = share.recorded();
        match outcome {
            Err(Error::Interrupted) if !words.is_empty() => {}
            Err(error) => return Err(error),
            Ok(_) => return Err(Error::NoAnswer(format!("{} has not come to its units", self.row.method))),
        }
        if share.counted() != Some(all) {
            let message = format!(
                "the method has {} units here and {all} in the task; the model or the options differ",
                share.counted().unwrap_or(0)
            );
            return Err(Error::argument("units", message));
        }
        Ok(Part::new(self.task.clone(), simd::level().name(), units, mark, words))
    }

    fn merge(&self, parts: &[Part], run: &Run) -> Result<AnyAnswer> {
        if let Some(first) = self.row.first_look {
            let done = part::prefix(parts);
            // Up to the next part, or else up to a look.
            let next = parts.iter().map(|part| part.range().start).filter(|&start| start > done).min();
            if done < first {
                let end = next.unwrap_or_else(|| self.expected.map_or(first, |units| units.max(first)));
                return Err(Error::argument("parts", part::missing(&self.task, done..end)));
            }
            let answer = self.merged(parts, done, None, run)?;
            if answer.diagnostics.stopped_early {
                let look = (done + 1).checked_next_power_of_two().unwrap_or(self.task.units);
                let message = format!(
                    "the error is still too large after units 0..{done}; compute more with --range {done}..{}",
                    next.unwrap_or(look).min(self.task.units)
                );
                return Err(Error::argument("parts", message));
            }
            return Ok(answer);
        }
        self.merged(parts, self.task.units, None, run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::generate;

    #[test]
    fn the_vector_instructions_of_the_merge_count_too() {
        let grid = generate::Grid { rows: 4, columns: 4, torus: false };
        let model: Model = generate::ising(grid, 0.3, 0.5, false, 1).unwrap().into();
        let run = Run::default().with_memory(1 << 30);
        let settings = Settings::new();
        let division = Division::new(&model, Query::LogPartition, "importance", &settings, &run).unwrap();
        let share = Arc::new(Share::part("importance", 0..32));
        assert!(division.run(&share, &run).is_err());
        let (mark, words) = share.recorded();
        // All parts are from another processor than this one.
        let part = Part::new(division.task.clone(), "other", 0..32, mark, words);
        for error in [
            division.merge(std::slice::from_ref(&part), &run).map(|_| ()).unwrap_err(),
            division.check_part(&part).map(|_| ()).unwrap_err(),
        ] {
            assert!(error.to_string().contains("different vector instructions: other and"), "{error}");
        }
        let mixed = division.with_mixed(true);
        assert_eq!(mixed.check_part(&part).unwrap(), 0..32);
        let answer = mixed.merge(&[part], &run).unwrap();
        assert!(answer.diagnostics.warning().unwrap().contains("up to rounding"));
    }
}
