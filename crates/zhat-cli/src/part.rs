//! `zhat part` and `zhat merge`: a query divided over processes and machines.

use std::path::{Path, PathBuf};

use serde_json::json;
use zhat::catalogue::{Divisible, Division, Part};
use zhat::internal::units;
use zhat::{Error, Query, Result, Run};

use crate::arguments::ModelArguments;
use crate::load::load;
use crate::output::{self, Exit};
use crate::part_arguments::{MergeArguments, PartArguments};
use crate::query::{budgeted, merged, settings};
use crate::{progress, signals};

/// The memory budget of divided work, unless another is given: it is a part of the task, so it must not depend
/// on the machine.
const MEMORY: u64 = 4 << 30;

/// Does the units of a range and writes their results; with `--plan` prints commands instead.
pub fn part(arguments: &PartArguments) -> Result<Exit> {
    let PartArguments { query, plain, range, plan, output } = arguments;
    let run = budgeted(&plain.run.budget).with_memory(plain.run.budget.memory.unwrap_or(MEMORY));
    let model = load(&plain.model)?;
    let settings = settings(&plain.run.set)?;
    let method = plain.run.method.as_str();
    let _attention = signals::attention();
    let attended = progress::attend(run);
    let division = Division::new(&model, Query::from(*query), method, &settings, &attended)?;
    if let Some(count) = plan {
        return plan_of(arguments, &division, *count);
    }
    let Some(range) = range else {
        let members = json!({
            "method": division.method(), "query": division.query().name(), "units": division.units(),
            "expected_units": division.expected_units(), "seconds_per_unit": division.unit_seconds(),
            "preparation_seconds": division.preparation_seconds(),
        });
        if plain.run.budget.json {
            output::print_object("part", members)?;
        } else {
            let all = division.units();
            let units = match division.ends_itself() {
                true => format!("about {} (at most {all})", division.expected_units()),
                false => all.to_string(),
            };
            let text = output::facts(&[
                ("units", units),
                ("per unit", format!("about {}", units::seconds(division.unit_seconds()))),
                ("next", "zhat part … --range A..B -o FILE, or --plan N for the commands of N parts".into()),
            ]);
            output::print(&text)?;
        }
        return Ok(output::ended());
    };
    let Some(output) = output else {
        return Err(Error::argument("-o", "is needed with --range: the file of the part"));
    };
    output::refuse_stdout(output, "p0.part")?;
    let part = division.part(range.clone(), &attended)?.with_source(&source(&plain.model));
    part.write(output)?;
    let members = json!({
        "method": division.method(), "query": division.query().name(), "units": division.units(),
        "range": [range.start, range.end], "output": output,
    });
    if plain.run.budget.json {
        output::print_object("part", members)?;
    } else {
        let text = output::facts(&[
            ("units", format!("{}..{} of {}", range.start, range.end, division.units())),
            ("written", output.display().to_string()),
        ]);
        output::print(&text)?;
    }
    Ok(output::ended())
}

/// Prints the commands of `count` parts of about equal size.
fn plan_of(arguments: &PartArguments, division: &Division, count: u64) -> Result<Exit> {
    let (units, plain) = (division.expected_units(), &arguments.plain);
    let count = count.min(units);
    let stem = plain.model.model.file_stem().map_or_else(|| "model".into(), |stem| stem.to_string_lossy());
    let digits = (count - 1).to_string().len();
    let mut fixed = vec![arguments.query.name().to_owned(), quoted(&plain.model.model.to_string_lossy())];
    let mut option = |name: &str, value: &str| fixed.extend([name.to_owned(), quoted(value)]);
    for (name, path) in [("--input", &plain.model.input), ("--evidence", &plain.model.evidence)] {
        if let Some(path) = path {
            option(name, &path.to_string_lossy());
        }
    }
    plain.model.given.iter().for_each(|item| option("--given", item));
    option("--method", division.method());
    plain.run.set.iter().for_each(|item| option("--set", item));
    option("--seed", &division.seed().to_string());
    option("--memory", &division.memory().to_string());
    if let Some(threads) = plain.run.budget.threads {
        option("--threads", &threads.to_string());
    }
    let mut text = String::new();
    for i in 0..count {
        let bound = |i: u64| (u128::from(units) * u128::from(i) / u128::from(count)) as u64;
        let file = quoted(&format!("{stem}-{i:0digits$}.part"));
        text += &format!("zhat part {} --range {}..{} -o {file}\n", fixed.join(" "), bound(i), bound(i + 1));
    }
    output::print(&text)?;
    Ok(output::ended())
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// The arguments that name the model and its evidence.
fn source(model: &ModelArguments) -> String {
    let ModelArguments { model, input, evidence, given } = model;
    json!({"model": model, "input": input, "evidence": evidence, "given": given}).to_string()
}

/// The model of a part.
fn arguments_of(part: &Part, model: Option<&Path>) -> Result<ModelArguments> {
    let fields: serde_json::Value = serde_json::from_str(part.source()).unwrap_or_default();
    let path = |name: &str| fields[name].as_str().map(PathBuf::from);
    let model = model.map(Path::to_owned).or_else(|| path("model")).ok_or_else(|| {
        Error::argument("--model", "the parts do not say where their model is; name its file")
    })?;
    let given = fields["given"].as_array().into_iter().flatten();
    let given = given.filter_map(|item| item.as_str().map(str::to_owned)).collect();
    Ok(ModelArguments { model, input: path("input"), evidence: path("evidence"), given })
}

/// Merges parts and prints the answer.
pub fn merge(arguments: &MergeArguments) -> Result<Exit> {
    let parts: Vec<Part> = arguments.parts.iter().map(|path| Part::read(path)).collect::<Result<_>>()?;
    let Some(first) = parts.first() else {
        return Err(Error::argument("parts", "expected at least one file"));
    };
    let named = arguments_of(first, arguments.model.as_deref())?;
    let model = load(&named).map_err(|error| match error {
        Error::Io { path, .. } if arguments.model.is_none() && path == named.model => Error::argument(
            "--model",
            format!("the parts were made from {}, which is not here; name the file", path.display()),
        ),
        other => other,
    })?;
    let mut run = Run::default();
    if let Some(threads) = arguments.threads {
        run = run.with_threads(threads.into());
    }
    let division = Division::of_part(first, &model)?.with_mixed(arguments.mixed);
    let answer = {
        let _attention = signals::attention();
        division.merge(&parts, &progress::attend(run.clone()))
    }?;
    merged(model, division.query(), answer, run.with_seed(division.seed()), arguments.json)
}
