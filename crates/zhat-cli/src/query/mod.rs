//! `zhat logz`, `marginals`, `entropy`, `map` and `sample`.

mod graph;
mod sequences;
mod space;

pub use space::restrict;

use std::time::Duration;

use serde_json::Value;
use zhat::catalogue::{self, AnyAnswer, Choice, Plan, Settings};
use zhat::exact::ForwardBackward;
use zhat::io::table::cell;
use zhat::io::{self, uai};
use zhat::random::Streams;
use zhat::{Answer, Answers, Divergence, Error, Model, Promise, Query, Result, Run};

use crate::arguments::{
    BudgetArguments, DivergenceArguments, LogPartitionArguments, MapArguments, MarginalsArguments,
    ModelArguments, PlainQueryArguments, QueryArguments, SampleArguments,
};
use crate::output::{self, Exit};
use crate::{progress, signals};

/// Reads a model and conditions it on the evidence that was given.
pub fn load(arguments: &ModelArguments) -> Result<Model> {
    match io::read_model(&arguments.model)? {
        Model::FactorGraph(graph) => {
            let mut evidence = match &arguments.evidence {
                Some(path) => uai::read_evidence(path, &graph)?,
                None => Vec::new(),
            };
            for item in &arguments.given {
                evidence.push(graph::parse_given(item, &graph)?);
            }
            Ok(graph.condition(&evidence)?.into())
        }
        model => {
            if arguments.evidence.is_some() {
                let message = "evidence files are for factor graphs; give a sequence's states with --given SEQUENCE:POSITION=STATE, conditions on structures with --given \"before 0 3\"";
                return Err(Error::argument("--evidence", message));
            }
            if let Model::Space(model) = model {
                return Ok(restrict(&model, &arguments.given)?.into());
            }
            sequences::condition(model, &arguments.given)
        }
    }
}

/// Reads `name=value` options of a method; a value that is JSON is taken as that, any other as text.
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

/// How an answer is written.
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

/// A question put and answered.
struct Answered {
    model: Model,
    /// The query's name in JSON.
    name: &'static str,
    /// `None` where there was no choice of methods.
    plan: Option<Plan>,
    answer: AnyAnswer,
    run: Run,
    /// Draws that were printed before these.
    first: usize,
}

pub fn log_partition(arguments: &LogPartitionArguments) -> Result<Exit> {
    let (plain, style) = (&arguments.query.plain, Style::of(&arguments.query));
    let mut settings = settings(&plain.run.set)?;
    if let Some(gap) = arguments.gap {
        if plain.run.method != "bounds" {
            return Err(Error::argument("--gap", "is for --method bounds"));
        }
        settings.insert("gap".into(), Value::from(gap));
    }
    answer_with(plain, Query::LogPartition, style, settings)
}

pub fn entropy(arguments: &PlainQueryArguments) -> Result<Exit> {
    answer(arguments, Query::Entropy, Style::plain(arguments))
}

pub fn marginals(arguments: &MarginalsArguments) -> Result<Exit> {
    let query = if arguments.factors { Query::FactorMarginals } else { Query::Marginals };
    answer(&arguments.query.plain, query, Style::of(&arguments.query))
}

pub fn map(arguments: &MapArguments) -> Result<Exit> {
    let query = arguments.best.map_or(Query::Map, Query::KBest);
    answer(&arguments.query.plain, query, Style::of(&arguments.query))
}

/// Numbers of a batch of draws, at most; and its rows.
const BATCH: usize = 1 << 23;
const BATCH_ROWS: usize = 1 << 16;

/// Draws from the model. Independent draws are made and printed in batches, so that the first lines appear at once and memory does not depend on how
/// many there are; batch i > 0 has a seed of its own, so the first batch has the draws of a smaller count.
pub fn sample(arguments: &SampleArguments) -> Result<Exit> {
    let (plain, count) = (&arguments.plain, arguments.count);
    let style = Style::plain(plain);
    let settings = settings(&plain.run.set)?;
    let run = budgeted(&plain.run.budget);
    let mut model = load(&plain.model)?;
    let choice = Choice::parse(&plain.run.method);
    let batch = (BATCH / numbers_of_a_draw(&model).max(1)).clamp(1, BATCH_ROWS).min(count);
    let plan = catalogue::choose(&model, Query::Sample(batch), &choice, &settings, &run)?;
    if batch == count || plan.forecast.promise != Promise::Exact {
        return answer_of(plain, model, Query::Sample(count), style, &settings, run);
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
        let answer = answer.map_err(|error| explained(error, &plain.model))?;
        let answered = Answered { model, name: query.name(), plan: None, answer, run: own, first };
        output::print(&text_of(&answered, style)?)?;
        if signals::received() {
            return Ok(Exit::Interrupted);
        }
        model = answered.model;
    }
    Ok(output::ended())
}

/// The numbers that one draw has.
fn numbers_of_a_draw(model: &Model) -> usize {
    match model {
        Model::FactorGraph(graph) => graph.variable_count(),
        Model::Space(model) => model.space().width(),
        other => other.lengths().iter().sum(),
    }
}

/// Asks, and prints the answer in the words of the model's kind.
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
    answer_of(arguments, model, query, style, &settings, run)
}

fn answer_of(
    arguments: &PlainQueryArguments,
    model: Model,
    query: Query,
    style: Style,
    settings: &Settings,
    run: Run,
) -> Result<Exit> {
    if style == Style::Uai && !matches!(model, Model::FactorGraph(_)) {
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
    let answer = answer.map_err(|error| explained(error, &arguments.model))?;
    show(&Answered { model, name: query.name(), plan: Some(plan), answer, run, first: 0 }, style)
}

/// Sequences do not remember that their scores were changed for evidence.
fn explained(error: Error, arguments: &ModelArguments) -> Error {
    match error {
        Error::ZeroPartition if !arguments.given.is_empty() => Error::ImpossibleEvidence { conflict: None },
        other => other,
    }
}

fn show(answered: &Answered, style: Style) -> Result<Exit> {
    output::print(&text_of(answered, style)?)?;
    output::warn(answered.answer.diagnostics());
    Ok(output::ended())
}

fn text_of(answered: &Answered, style: Style) -> Result<String> {
    match (&answered.model, &answered.answer) {
        (Model::FactorGraph(graph), _) => graph::text(answered, graph, style),
        (Model::Space(model), _) => space::text(answered, model, style),
        (_, AnyAnswer::Sequences(value)) => sequences::text(answered, value, style),
        (_, AnyAnswer::Estimate(value)) => sequences::numbers(answered, &[value.value], style == Style::Json),
        _ => Err(answered.mismatch()),
    }
}

/// KL(p ‖ q) of two models of sequences, or their cross-entropy.
pub fn divergence(arguments: &DivergenceArguments, kl: bool) -> Result<Exit> {
    let run = budgeted(&arguments.run.budget);
    let attended = progress::attend(run.clone());
    if !["auto", "exact", "forward-backward"].contains(&arguments.run.method.as_str()) {
        let message = format!("`{}` does not answer this; forward-backward does", arguments.run.method);
        return Err(Error::argument("--method", message));
    }
    let (p, q) = (io::read_model(&arguments.p)?, io::read_model(&arguments.q)?);
    let method: ForwardBackward = zhat::options::read("forward-backward", &settings(&arguments.run.set)?)?;
    let _attention = signals::attention();
    let answer = match (&p, &q) {
        (Model::Chain32(p), Model::Chain32(q)) => compare(&method, p, q, kl, &attended)?,
        (Model::Chain64(p), Model::Chain64(q)) => compare(&method, p, q, kl, &attended)?,
        (Model::SemiMarkov32(p), Model::SemiMarkov32(q)) => compare(&method, p, q, kl, &attended)?,
        (Model::SemiMarkov64(p), Model::SemiMarkov64(q)) => compare(&method, p, q, kl, &attended)?,
        _ => {
            let kind = |model: &Model| {
                let precision = model.sequence_sizes().map_or("", |sizes| sizes.precision);
                format!("{} {precision}", model.kind().name()).trim().to_owned()
            };
            let message = format!(
                "two models of sequences of the same kind and precision are needed, found a {} and a {}",
                kind(&p),
                kind(&q)
            );
            return Err(Error::argument("models", message));
        }
    };
    let name = if kl { "kl" } else { "cross_entropy" };
    let style = if arguments.run.budget.json { Style::Json } else { Style::Plain };
    show(&Answered { model: p, name, plan: None, answer: answer.into(), run, first: 0 }, style)
}

fn compare<M: Answers>(
    method: &ForwardBackward,
    p: &M,
    q: &M,
    kl: bool,
    run: &Run,
) -> Result<Answer<M::Number>>
where
    ForwardBackward: Divergence<M>,
{
    if kl { method.kl(p, q, run) } else { method.cross_entropy(p, q, run) }
}

impl Answered {
    /// The object of `--json`; the members are JSON texts.
    fn object(&self, value: &[(&str, String)]) -> String {
        output::object(self.name, value, &self.answer, self.plan.as_ref(), &self.run)
    }

    /// Value `i`, in units of `unit`, as its guarantee allows to state it.
    fn stated(&self, value: f64, i: usize, unit: f64) -> String {
        output::stated(value, self.answer.guarantee().item(i), self.answer.diagnostics(), unit)
    }

    /// The lines below every plain answer.
    fn footer(&self) -> String {
        let diagnostics = self.answer.diagnostics();
        let mut text = output::facts(&[("promise", output::promise(self.answer.guarantee(), diagnostics))]);
        text += &self.origin();
        text
    }

    /// The footer without the promise, where every line has its own.
    fn origin(&self) -> String {
        let diagnostics = self.answer.diagnostics();
        let mut facts = vec![("method ", output::provenance(diagnostics))];
        facts.extend(output::remark(diagnostics));
        output::facts(&facts)
    }

    /// The error for an answer of another shape than the query's, which no catalogue row gives.
    fn mismatch(&self) -> Error {
        let method = self.answer.diagnostics().method;
        Error::argument("method", format!("`{method}` gave an answer to another query"))
    }
}

/// Says on the standard error what weights are for.
fn explain_weights() {
    eprintln!("zhat: these are weighted draws from a proposal: use each with its weight exp(log_weight)");
}

/// A line of a CSV file; cells are quoted where they must be.
fn csv_line(text: &mut String, cells: impl IntoIterator<Item = String>) {
    let mut cells = cells.into_iter();
    if let Some(first) = cells.next() {
        text.push_str(&cell(&first));
    }
    for next in cells {
        text.push(',');
        text.push_str(&cell(&next));
    }
    text.push('\n');
}
