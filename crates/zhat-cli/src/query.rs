//! `zhat logz`, `marginals`, `entropy`, `map`, `sample`, `kl`, `cross-entropy` and `expectation`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use zhat::catalogue::{self, Choice, Plan, Settings};
use zhat::io::{self, uai};
use zhat::learn::hmm::Hmm;
use zhat::query::{AnyAnswer, AnyValue, Law, Operation};
use zhat::random::Streams;
use zhat::report::Report;
use zhat::report::tree::TreeForm;
use zhat::{Error, FactorGraph, Model, Promise, Query, Result, Run};

use crate::arguments::{
    BudgetArguments, DivergenceArguments, ExpectationArguments, LogPartitionArguments, MapArguments,
    MarginalsArguments, PlainQueryArguments, QueryArguments, RunArguments, SampleArguments,
};
use crate::load::{applied, described, load, require_input};
use crate::output::{self, Exit};
use crate::tree_arguments::TreeFormArgument;
use crate::{hmm, progress, signals};

/// Parses `name=value` options of a method; a value that is not valid JSON is taken as text.
pub fn settings(items: &[String]) -> Result<Settings> {
    let mut settings = Settings::new();
    for item in items {
        let (name, value) = item
            .split_once('=')
            .ok_or_else(|| Error::argument("--set", format!("expected OPTION=VALUE, found `{item}`")))?;
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
        if settings.insert(name.into(), value).is_some() {
            return Err(Error::argument("--set", format!("`{name}` is set twice")));
        }
    }
    Ok(settings)
}

pub fn budgeted(arguments: &BudgetArguments) -> Run {
    let mut run = Run::default().with_seed(arguments.seed);
    if let Some(threads) = arguments.threads {
        run = run.with_threads(threads.into());
    }
    if let Some(memory) = arguments.memory {
        run = run.with_memory(memory);
    }
    if let Some(time) = arguments.time {
        run = run.with_time(time);
    }
    run
}

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Plain,
    Json,
    /// The result files of the UAI competitions.
    Uai,
}

impl Style {
    fn of(arguments: &QueryArguments) -> Style {
        if arguments.format.is_some() { Style::Uai } else { Style::plain(&arguments.plain) }
    }

    fn plain(arguments: &PlainQueryArguments) -> Style {
        if arguments.run.budget.json { Style::Json } else { Style::Plain }
    }
}

/// A query and its result.
struct Answered {
    model: Model,
    /// The query's name in JSON.
    name: &'static str,
    /// `None` if no method was chosen by the catalogue.
    plan: Option<Plan>,
    answer: AnyAnswer,
    run: Run,
    /// The number of draws printed before these.
    first: usize,
    /// The rows of marginals to print.
    rows: Option<Vec<usize>>,
    /// The form of printed trees.
    trees: Option<TreeForm>,
}

/// The parts of an answer that are printed, and how.
#[derive(Default)]
struct Shown {
    rows: Option<Vec<usize>>,
    trees: Option<TreeForm>,
}

pub fn log_partition(arguments: &LogPartitionArguments) -> Result<Exit> {
    let (plain, style) = (&arguments.query.plain, Style::of(&arguments.query));
    let mut settings = settings(&plain.run.set)?;
    if let Some(gap) = arguments.gap {
        let methods = with_option("gap");
        if !methods.contains(&plain.run.method.as_str()) {
            return Err(Error::argument("--gap", format!("is for --method {}", methods.join(" or "))));
        }
        settings.insert("gap".into(), Value::from(gap));
    }
    answer_with(plain, Query::LogPartition, style, settings)
}

/// The methods that have an option of this name.
fn with_option(name: &str) -> Vec<&'static str> {
    let has = |row: &&catalogue::Row| (row.options)().get(name).is_some();
    catalogue::all().into_iter().filter(has).map(|row| row.method).collect()
}

pub fn entropy(arguments: &PlainQueryArguments) -> Result<Exit> {
    answer(arguments, Query::Entropy, Style::plain(arguments))
}

pub fn marginals(arguments: &MarginalsArguments) -> Result<Exit> {
    let query = if arguments.factors { Query::FactorMarginals } else { Query::Marginals };
    let (plain, style) = (&arguments.query.plain, Style::of(&arguments.query));
    let (run, model) = (budgeted(&plain.run.budget), load(&plain.model)?);
    let rows = match arguments.of.as_slice() {
        [] => None,
        names => Some(variables(&model, names)?),
    };
    let shown = Shown { rows, ..Shown::default() };
    answer_of(plain, model, query, style, &settings(&plain.run.set)?, run, shown)
}

/// The variables with these names.
fn variables(model: &Model, names: &[String]) -> Result<Vec<usize>> {
    let graph = model
        .get::<FactorGraph>()
        .ok_or_else(|| Error::argument("--of", "is for factor graphs, whose variables have names"))?;
    let find = |name: &String| match graph.variable_named(name) {
        Err(Error::Argument { message, .. }) => Err(Error::argument("--of", message)),
        other => other,
    };
    names.iter().map(find).collect()
}

pub fn map(arguments: &MapArguments) -> Result<Exit> {
    let query = arguments.best.map_or(Query::Map, Query::KBest);
    let (plain, style) = (&arguments.query.plain, Style::of(&arguments.query));
    let (run, model) = (budgeted(&plain.run.budget), load(&plain.model)?);
    let shown = Shown { trees: tree_form(arguments.trees, &model)?, ..Shown::default() };
    answer_of(plain, model, query, style, &settings(&plain.run.set)?, run, shown)
}

/// The form of printed trees, if the states of the model have it.
fn tree_form(form: Option<TreeFormArgument>, model: &Model) -> Result<Option<TreeForm>> {
    let Some(form) = form.map(TreeForm::from) else { return Ok(None) };
    form.check(model.tree_kind()).map_err(|error| match error {
        Error::Argument { message, .. } => Error::argument("--trees", message),
        other => other,
    })?;
    Ok(Some(form))
}

/// Most trees in one drawing.
const MOST_DRAWN: usize = 1000;

/// Maximum numbers per batch of draws, and maximum rows per batch.
const BATCH: usize = 1 << 23;
const BATCH_ROWS: usize = 1 << 16;

/// Draws from the model. Independent draws are made and printed in batches, so that the first lines appear
/// immediately and memory does not depend on the number of draws. Each batch i > 0 has its own seed, so the
/// first batch equals the draws of a smaller count.
pub fn sample(arguments: &SampleArguments) -> Result<Exit> {
    let (plain, count) = (&arguments.plain, arguments.count);
    let style = Style::plain(plain);
    let settings = settings(&plain.run.set)?;
    let run = budgeted(&plain.run.budget);
    let mut model = described(&plain.model)?;
    if let Some(model) = model.get::<Hmm>() {
        return hmm::sample(arguments, model);
    }
    if arguments.length.is_some() {
        return Err(Error::argument("--length", "is for a hidden Markov model without --input"));
    }
    require_input(&model)?;
    let trees = tree_form(arguments.trees, &model)?;
    let drawn = count.saturating_mul(model.batch().map_or(1, |batch| batch.lengths.len()));
    if trees == Some(TreeForm::Svg) && drawn > MOST_DRAWN {
        return Err(Error::argument(
            "--trees",
            format!("{drawn} trees are too many to draw; at most {MOST_DRAWN}"),
        ));
    }
    let choice = Choice::parse(&plain.run.method);
    let batch = (BATCH / model.state_size().max(1)).clamp(1, BATCH_ROWS).min(count);
    let plan = catalogue::choose(&model, Query::Sample(batch), &choice, &settings, &run)?;
    if batch == count || plan.forecast.promise != Promise::Exact {
        let shown = Shown { trees, ..Shown::default() };
        return answer_of(plain, model, Query::Sample(count), style, &settings, run, shown);
    }
    let seeds = Streams::new(run.seed(), "batches of samples");
    let clock = run.start("sample");
    for (i, first) in (0..count).step_by(batch).enumerate() {
        let query = Query::Sample(batch.min(count - first));
        let mut own = run.clone();
        if i > 0 {
            clock.check()?;
            own = own.with_seed(seeds.block(i as u64).bits());
        }
        if let Some(time) = run.time() {
            own = own.with_time(time.saturating_sub(Duration::from_secs_f64(clock.seconds())));
        }
        let answer = {
            let _attention = signals::attention();
            plan.answer(&model, query, &settings, &progress::attend(own.clone()))
        };
        let (name, answer) = (query.name(), answer?);
        let answered = Answered { model, name, plan: None, answer, run: own, first, rows: None, trees };
        if first == 0 {
            output::warn(&answered.answer.diagnostics);
        }
        output::print(&text_of(&answered, style)?)?;
        if signals::received() {
            return Ok(Exit::Interrupted);
        }
        model = answered.model;
    }
    Ok(output::ended())
}

/// Chooses a method, runs it and prints the result.
fn answer(arguments: &PlainQueryArguments, query: Query, style: Style) -> Result<Exit> {
    answer_with(arguments, query, style, settings(&arguments.run.set)?)
}

fn answer_with(
    arguments: &PlainQueryArguments,
    query: Query,
    style: Style,
    settings: Settings,
) -> Result<Exit> {
    let run = budgeted(&arguments.run.budget);
    let model = load(&arguments.model)?;
    answer_of(arguments, model, query, style, &settings, run, Shown::default())
}

fn answer_of(
    arguments: &PlainQueryArguments,
    model: Model,
    query: Query,
    style: Style,
    settings: &Settings,
    run: Run,
    Shown { rows, trees }: Shown,
) -> Result<Exit> {
    if style == Style::Uai && model.get::<FactorGraph>().is_none() {
        let message = format!(
            "a result file of the competitions is for factor graphs, not for a {}; use --json",
            model.kind().name()
        );
        return Err(Error::argument("--format", message));
    }
    let plan = catalogue::choose(&model, query, &Choice::parse(&arguments.run.method), settings, &run)?;
    let answer = {
        let _attention = signals::attention();
        plan.answer(&model, query, settings, &progress::attend(run.clone()))
    };
    show(
        &Answered {
            model,
            name: query.name(),
            plan: Some(plan),
            answer: answer?,
            run,
            first: 0,
            rows,
            trees,
        },
        style,
    )
}

fn show(answered: &Answered, style: Style) -> Result<Exit> {
    output::print(&text_of(answered, style)?)?;
    output::warn(&answered.answer.diagnostics);
    Ok(output::ended())
}

fn text_of(answered: &Answered, style: Style) -> Result<String> {
    explain_law(&answered.answer);
    let mut report = Report::new(answered.name, &answered.model, &answered.answer)
        .with_first_sample(answered.first)
        .with_member("seed", json!(answered.run.seed()))
        .with_member("plan", json!(answered.plan.as_ref().map(output::forecast)));
    if let Some(rows) = &answered.rows {
        report = report.with_rows(rows.clone());
    }
    if let Some(form) = answered.trees {
        report = report.with_trees(form)?;
    }
    match style {
        Style::Plain => Ok(report.text()),
        Style::Json => report.json(),
        Style::Uai => competition_file(&answered.answer).ok_or_else(|| answered.answer.unexpected_shape()),
    }
}

/// The result file of the UAI competitions.
fn competition_file(answer: &AnyAnswer) -> Option<String> {
    match &answer.value {
        AnyValue::Number(value) => Some(uai::format_partition(*value)),
        AnyValue::Tensors(_) => {
            let marginals = answer.tensor("marginals")?;
            Some(uai::format_marginals((0..marginals.rows()).map(|row| marginals.row(row))))
        }
        AnyValue::States(best) => Some(uai::format_best_state(&best.first()?.state)),
        _ => None,
    }
}

/// Explains on stderr how to use samples that do not follow the model's distribution exactly.
fn explain_law(answer: &AnyAnswer) {
    let AnyValue::Samples(items) = &answer.value else { return };
    match items.first().map(|draws| &draws.law) {
        Some(Law::Weighted { .. }) => {
            eprintln!("zhat: these samples are weighted: use each with its weight exp(log_weight)");
        }
        Some(Law::Chains) => {
            eprintln!(
                "zhat: these samples are states of Markov chains: they are correlated, and convergence is not guaranteed"
            );
        }
        Some(Law::Approximate { distance }) => {
            eprintln!(
                "zhat: the distribution of these samples is within {distance} of the model in total variation"
            );
        }
        _ => {}
    }
}

/// KL(p ‖ q) or the cross-entropy of two models.
pub fn divergence(arguments: &DivergenceArguments, operation: Operation) -> Result<Exit> {
    let DivergenceArguments { p, q, input, run } = arguments;
    compare(operation, [p, q], input.as_deref(), run)
}

/// The expectation of the score of one model under another.
pub fn expectation(arguments: &ExpectationArguments) -> Result<Exit> {
    let ExpectationArguments { model, scores, input, run } = arguments;
    compare(Operation::Expectation, [model, scores], input.as_deref(), run)
}

fn compare(
    operation: Operation,
    [p, q]: [&PathBuf; 2],
    input: Option<&Path>,
    arguments: &RunArguments,
) -> Result<Exit> {
    let run = budgeted(&arguments.budget);
    let attended = progress::attend(run.clone());
    let (mut p, mut q) = (io::read_model(p)?, io::read_model(q)?);
    if let Some(input) = input {
        let input = io::read_input(input)?;
        (p, q) = (applied(&p, &input)?, applied(&q, &input)?);
    }
    require_input(&p).and_then(|()| require_input(&q))?;
    let compares: Vec<&catalogue::Row> =
        catalogue::all().into_iter().filter(|row| row.compares(operation, &p, &q)).collect();
    if compares.is_empty() {
        let precision = |model: &Model| {
            let figures = model.summary().figures;
            let precision = figures.get("precision").and_then(Value::as_str).unwrap_or_default();
            format!("{} {precision}", model.kind()).trim().to_owned()
        };
        let message = format!(
            "expected two models of sequences or trees of the same kind and precision, found a {} and a {}",
            precision(&p),
            precision(&q)
        );
        return Err(Error::argument("models", message));
    }
    let wanted = arguments.method.as_str();
    let row =
        compares.iter().find(|row| ["auto", "exact", row.method].contains(&wanted)).ok_or_else(|| {
            let names: Vec<&str> = compares.iter().map(|row| row.method).collect();
            Error::argument(
                "--method",
                format!("`{wanted}` does not compare models; {} does", names.join(", ")),
            )
        })?;
    let _attention = signals::attention();
    let answer = row.compare(operation, [&p, &q], &settings(&arguments.set)?, &attended)?;
    let name = operation.name();
    let style = if arguments.budget.json { Style::Json } else { Style::Plain };
    show(&Answered { model: p, name, plan: None, answer, run, first: 0, rows: None, trees: None }, style)
}

/// Prints an answer that was merged from parts.
pub fn merged(model: Model, query: Query, answer: AnyAnswer, run: Run, json: bool) -> Result<Exit> {
    let style = if json { Style::Json } else { Style::Plain };
    let name = query.name();
    show(&Answered { model, name, plan: None, answer, run, first: 0, rows: None, trees: None }, style)
}
