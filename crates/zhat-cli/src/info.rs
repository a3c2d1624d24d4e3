//! `zhat info`: what a model is, and which method would do what.

use serde_json::{Map, Value, json};
use zhat::catalogue::{self, DEFAULT_HORIZON, Row, Settings};
use zhat::model::{Form, Interactions, Kind, MixedModel, SequenceMrf, SequenceSizes};
use zhat::space::Structures;
use zhat::{Error, FactorGraph, Forecast, Model, Query, Result, Run, SpaceModel, decimal, units};

use crate::arguments::InfoArguments;
use crate::output::{self, Exit};
use crate::query;

pub fn run(arguments: &InfoArguments) -> Result<Exit> {
    let model = query::load(&arguments.model)?;
    let run = match arguments.memory {
        Some(memory) => Run::default().with_memory(memory),
        None => Run::default(),
    };
    let forecasts = forecasts(&model, &run)?;
    let (figures, facts) = match (&model, model.sequence_sizes()) {
        (Model::FactorGraph(graph), _) => graph_facts(graph, &run),
        (Model::MixedModel(mixed), _) => mixed_facts(mixed),
        (Model::Space(model), _) => space_facts(model),
        (Model::SequenceMrf(model), _) => cycle_facts(model),
        (_, Some(sizes)) => sequence_facts(&sizes, model.kind()),
        _ => return Err(Error::argument("MODEL", "this kind of model is not known to the program")),
    };
    if arguments.json {
        let methods: Vec<Value> = forecasts
            .iter()
            .map(|(row, query, forecast)| {
                json!({
                    "method": row.method, "query": query.name(), "promise": forecast.promise.name(),
                    "bytes": forecast.bytes, "seconds": forecast.seconds, "fits": forecast.fits(&run, DEFAULT_HORIZON),
                })
            })
            .collect();
        let head = json!({
            "schema": 1, "version": env!("CARGO_PKG_VERSION"), "query": "info", "kind": model.kind().name(),
        });
        let mut object = Map::new();
        for part in [head, figures, json!({"methods": methods})] {
            object.extend(part.as_object().cloned().unwrap_or_default());
        }
        output::print(&format!("{}\n", Value::Object(object)))?;
        return Ok(Exit::Answered);
    }
    let rows = forecasts
        .iter()
        .map(|(row, query, forecast)| {
            vec![
                row.method.into(),
                query.name().into(),
                forecast.promise.name().into(),
                units::bytes(forecast.bytes),
                units::seconds(forecast.seconds),
                verdict(forecast, &run).into(),
            ]
        })
        .collect();
    let table = output::table(&["method", "query", "promise", "memory", "time", "can it"], rows, usize::MAX);
    output::print(&format!("{}\n{table}", output::facts(&facts)))?;
    Ok(Exit::Answered)
}

/// Figures for JSON, and the same in words.
type Described = (Value, Vec<(&'static str, String)>);

fn graph_facts(graph: &FactorGraph, run: &Run) -> Described {
    let values: usize = graph.factors().map(|factor| factor.log_values.len()).sum();
    let zeros =
        graph.factors().flat_map(|factor| factor.log_values).filter(|x| **x == f64::NEG_INFINITY).count();
    let largest = graph.cardinalities().iter().max().copied().unwrap_or(0);
    let arity = graph.factors().map(|factor| factor.scope.len()).max().unwrap_or(0);
    let log2_states = graph.log_state_count() / std::f64::consts::LN_2;
    let difficulty = graph.difficulty(run);
    let barren = difficulty.map_or(0, |found| found.barren);
    let form = if graph.form() == Form::Bayes { "bayes" } else { "markov" };
    let figures = json!({
        "form": form, "variables": graph.variable_count(), "factors": graph.factor_count(),
        "largest_domain": largest, "largest_arity": arity, "values": values, "zeros": zeros,
        "evidence": graph.evidence().len(), "barren": barren, "log2_states": log2_states,
        "free": difficulty.map(|found| found.free), "width": difficulty.and_then(|found| found.width),
        "log2_table": difficulty.map(|found| found.log2_table),
    });
    let width = difficulty.map_or("unknown".into(), |found| {
        let width = found.width.map_or("large".into(), |width| width.to_string());
        let tables = format!("largest table 2^{:.1} entries", found.log2_table);
        format!("{width}, {tables}, {} variables after evidence and zeros", found.free)
    });
    let mut facts = vec![
        ("kind", format!("{} ({form})", Kind::FactorGraph.name())),
        (
            "variables",
            format!("{}, up to {largest} states, 2^{log2_states:.1} states in all", graph.variable_count()),
        ),
        (
            "factors",
            format!(
                "{} of up to {arity} variables, {values} values, {zeros} of them zero",
                graph.factor_count()
            ),
        ),
        ("width", width),
    ];
    if !graph.evidence().is_empty() {
        facts.push(("evidence", format!("{} variables observed", graph.evidence().len())));
    }
    if barren > 0 {
        facts.push(("barren", format!("{barren} variables, left out for log Z")));
    }
    (figures, facts)
}

fn mixed_facts(model: &MixedModel) -> Described {
    let sizes = model.sizes();
    let figures = json!({
        "variables": sizes.variables, "continuous": sizes.continuous, "terms": sizes.terms,
        "largest_component": sizes.largest_component, "numerical": sizes.numerical, "bytes": sizes.bytes,
    });
    let closed = if sizes.numerical { "ln(1 − x) among them: numerical" } else { "all with closed forms" };
    let facts = vec![
        ("kind", Kind::MixedModel.name().to_owned()),
        (
            "variables",
            format!(
                "{}, {} of them continuous, up to {} that hang together",
                sizes.variables, sizes.continuous, sizes.largest_component
            ),
        ),
        ("terms", format!("{}, {closed}", sizes.terms)),
    ];
    (figures, facts)
}

fn space_facts(model: &SpaceModel) -> Described {
    let (space, scores) = (model.space(), model.scores().name());
    let (low, high) = model.range();
    let conditions: Vec<String> = match model.structures() {
        Structures::Restricted(space) => space.conditions().iter().map(ToString::to_string).collect(),
        _ => Vec::new(),
    };
    let figures = json!({
        "space": space.name(), "conditions": conditions, "scores": scores, "width": space.width(), "log_count": space.log_count(),
        "features": model.dimension(), "lowest_score": low, "highest_score": high, "bytes": model.bytes(),
    });
    let count = space.log_count().map_or_else(
        || "a number that is not known".into(),
        |log| format!("10^{:.2}", log / std::f64::consts::LN_10),
    );
    let (low, high) = decimal::interval(low, high);
    let mut facts = vec![
        ("kind", format!("{}, {}", Kind::Space.name(), space.name())),
        ("structures", format!("{count}, {} numbers each", space.width())),
        ("scores", format!("{scores}, {} features, within {low} and {high}", model.dimension())),
    ];
    if !conditions.is_empty() {
        facts.push(("conditions", conditions.join(", ")));
    }
    (figures, facts)
}

fn cycle_facts(model: &SequenceMrf) -> Described {
    let (length, states, context) = (model.length(), model.states(), model.context());
    let (rank, form) = match model.interactions() {
        Interactions::Full(_) => (None, "full matrices".to_owned()),
        Interactions::LowRank { rank, .. } => (Some(*rank), format!("embeddings of length {rank}")),
    };
    let figures = json!({
        "length": length, "states": states, "context": context, "rank": rank, "bytes": model.bytes(),
    });
    let facts = vec![
        ("kind", Kind::SequenceMrf.name().to_owned()),
        ("cycle", format!("{length} positions of {states} states")),
        ("interactions", format!("up to {context} apart, {form}")),
        ("numbers", units::bytes(model.bytes() as f64)),
    ];
    (figures, facts)
}

fn sequence_facts(sizes: &SequenceSizes, kind: Kind) -> Described {
    let &SequenceSizes { states, steps, batch, positions, shortest, form, precision, .. } = sizes;
    let mut figures = json!({
        "form": form, "precision": precision, "states": states, "steps": steps, "batch": batch,
        "positions": positions, "shortest": shortest, "values": sizes.values, "zeros": sizes.zeros, "bytes": sizes.bytes,
    });
    if let Some(edges) = sizes.edges {
        figures = json!({
            "form": form, "precision": precision, "states": states, "variables": steps, "edges": edges,
            "values": sizes.values, "zeros": sizes.zeros, "bytes": sizes.bytes,
        });
    }
    let mut facts = vec![
        ("kind", format!("{}, {precision}", kind.name())),
        (
            if sizes.edges.is_some() { "variables" } else { "sequences" },
            match batch {
                _ if sizes.edges.is_some() => format!("{steps}, {} edges", sizes.edges.unwrap_or(0)),
                1 => format!("1 of {positions} positions"),
                _ if shortest == steps => format!("{batch} of {steps} positions each"),
                _ => format!("{batch} of {shortest} to {steps} positions, {positions} in all"),
            },
        ),
        ("states", states.to_string()),
        (
            if sizes.edges.is_some() { "interactions" } else { "transitions" },
            sizes.rank.map_or(form.to_owned(), |rank| format!("{form}, embeddings of dimension {rank}")),
        ),
    ];
    if let Some(rank) = sizes.rank {
        figures["rank"] = json!(rank);
    }
    if let Some(longest) = sizes.longest_segment {
        figures["longest_segment"] = json!(longest);
        facts.push(("segments", format!("of up to {longest} positions")));
    }
    let (values, zeros) = (sizes.values, sizes.zeros);
    facts.push(("numbers", format!("{values}, {zeros} of them zero, {}", units::bytes(sizes.bytes as f64))));
    (figures, facts)
}

fn forecasts(model: &Model, run: &Run) -> Result<Vec<(&'static Row, Query, Forecast)>> {
    let mut forecasts = Vec::new();
    for row in catalogue::rows(model.kind()) {
        for &query in row.queries {
            forecasts.push((row, query, row.forecast(model, query, &Settings::new(), run)?));
        }
    }
    Ok(forecasts)
}

fn verdict(forecast: &Forecast, run: &Run) -> &'static str {
    if forecast.bytes.is_infinite() {
        "no: out of reach"
    } else if forecast.bytes > run.memory() as f64 {
        "no: over the memory budget"
    } else if forecast.seconds > DEFAULT_HORIZON {
        "no: too long"
    } else {
        "yes"
    }
}
