//! Answers about a batch of sequences, in words and as JSON.

mod tensors;

use std::fmt::Write;

use serde::Serialize;
use serde_json::{Value, json};
use zhat::catalogue::Sequences;
use zhat::model::{Kind, Observed};
use zhat::numeric::Real;
use zhat::sequence::{NodeMarginals, Path, PathSamples, Segmentation};
use zhat::{Answer, Error, Model, Query, Result, decimal};

use super::{Answered, Style, csv_line, explain_weights};
use crate::output::{self, json_text, json_value};

/// Given what `SEQUENCE:POSITION=STATE` says; of a single sequence `POSITION=STATE` will do.
pub fn condition(model: Model, given: &[String]) -> Result<Model> {
    if matches!(model, Model::MixedModel(_) | Model::SequenceMrf(_)) && !given.is_empty() {
        let message = format!("a {} takes no evidence", model.kind().name());
        return Err(Error::argument("--given", message));
    }
    let evidence =
        given.iter().map(|item| parse_given(item, model.lengths().len())).collect::<Result<Vec<_>>>()?;
    if evidence.is_empty() {
        return Ok(model);
    }
    Ok(match model {
        Model::Chain32(chain) => chain.condition(&evidence)?.into(),
        Model::Chain64(chain) => chain.condition(&evidence)?.into(),
        Model::SemiMarkov32(model) => model.condition(&evidence)?.into(),
        Model::SemiMarkov64(model) => model.condition(&evidence)?.into(),
        Model::Pairwise32(graph) => graph.observe(&variables(&evidence))?.into(),
        Model::Pairwise64(graph) => graph.observe(&variables(&evidence))?.into(),
        other => {
            let message = format!("a {} takes no evidence by sequence and position", other.kind().name());
            return Err(Error::argument("--given", message));
        }
    })
}

/// Of a graph a position is a variable.
fn variables(evidence: &[Observed]) -> Vec<(usize, usize)> {
    evidence.iter().map(|seen| (seen.position, seen.state)).collect()
}

fn parse_given(item: &str, batch: usize) -> Result<Observed> {
    let parse = || {
        let (place, state) = item.split_once('=')?;
        let (sequence, position) = match place.split_once(':') {
            Some(both) => both,
            None if batch == 1 => ("0", place),
            None => return None,
        };
        let number = |text: &str| text.trim().parse::<usize>().ok();
        Some(Observed { sequence: number(sequence)?, position: number(position)?, state: number(state)? })
    };
    parse().ok_or_else(|| {
        let form = if batch == 1 { "POSITION=STATE" } else { "SEQUENCE:POSITION=STATE" };
        Error::argument("--given", format!("expected {form} in numbers that count from 0, found `{item}`"))
    })
}

/// The answer as it is printed.
pub(super) fn text(answered: &Answered, answer: &Answer<Sequences>, style: Style) -> Result<String> {
    let (model, json) = (&answered.model, style == Style::Json);
    match &answer.value {
        Sequences::Numbers(values) => numbers(answered, values, json),
        Sequences::Marginals32(marginals) => node_marginals(answered, marginals, json),
        Sequences::Marginals64(marginals) => node_marginals(answered, marginals, json),
        Sequences::Gradient32(gradient) => tensors::text(answered, &tensors::of_chain(model, gradient), json),
        Sequences::Gradient64(gradient) => tensors::text(answered, &tensors::of_chain(model, gradient), json),
        Sequences::SemiMarkovGradient32(gradient) => {
            tensors::text(answered, &tensors::of_semi_markov(model, gradient), json)
        }
        Sequences::SemiMarkovGradient64(gradient) => {
            tensors::text(answered, &tensors::of_semi_markov(model, gradient), json)
        }
        Sequences::PairwiseGradient32(gradient) => {
            tensors::text(answered, &tensors::of_graph(model, gradient), json)
        }
        Sequences::PairwiseGradient64(gradient) => {
            tensors::text(answered, &tensors::of_graph(model, gradient), json)
        }
        Sequences::Paths(paths) => best(answered, &paths.iter().map(Best::path).collect::<Vec<_>>(), json),
        Sequences::Segmentations(all) => {
            best(answered, &all.iter().map(Best::segmentation).collect::<Vec<_>>(), json)
        }
        Sequences::RankedPaths(ranked) => {
            let ranked = ranked.iter().map(|paths| paths.iter().map(Best::path).collect());
            k_best(answered, &ranked.collect::<Vec<_>>(), json)
        }
        Sequences::RankedSegmentations(ranked) => {
            let ranked = ranked.iter().map(|all| all.iter().map(Best::segmentation).collect());
            k_best(answered, &ranked.collect::<Vec<_>>(), json)
        }
        Sequences::PathSamples(samples) => sample(answered, samples, |path| States::Path(path), json),
        Sequences::SegmentationSamples(samples) => {
            sample(answered, samples, |one| States::Segments(one), json)
        }
        _ => Err(answered.mismatch()),
    }
}

/// log Z, entropy or a divergence: in words for one sequence, a table for more.
pub(super) fn numbers(answered: &Answered, values: &[f64], json: bool) -> Result<String> {
    let (label, heading) = match answered.name {
        "entropy" => ("entropy ", "entropy (nats)"),
        "cross_entropy" => ("cross-entropy ", "cross-entropy (nats)"),
        "kl" => ("KL      ", "KL (nats)"),
        _ => ("log Z   ", "log Z"),
    };
    let log_partition = answered.name == Query::LogPartition.name();
    let unit = if log_partition { std::f64::consts::LN_10 } else { std::f64::consts::LN_2 };
    let scaled: Vec<f64> = values.iter().map(|value| value / unit).collect();
    if json {
        let mut members = vec![("value", one_or_all(values))];
        if log_partition {
            members.push(("log10", one_or_all(&scaled)));
        }
        return Ok(answered.object(&members));
    }
    if let &[value] = values {
        let (value, scaled) = (answered.stated(value, 0, 1.0), answered.stated(value, 0, unit));
        let line = match log_partition {
            true => format!("{value} (log10 Z {scaled})"),
            false => format!("{value} nats ({scaled} bits)"),
        };
        return Ok(format!("{label} {line}\n{}", answered.footer()));
    }
    let rows = each_sequence(answered, |b| vec![answered.stated(values[b], b, 1.0)]);
    let header = ["sequence", "length", heading, "promise"];
    Ok(format!("{}\n{}", output::table(&header, rows, usize::MAX), answered.origin()))
}

/// A number for one sequence, an array for more.
fn one_or_all(values: &[f64]) -> String {
    match values {
        [value] => json_value(*value).to_string(),
        values => Value::Array(values.iter().copied().map(json_value).collect()).to_string(),
    }
}

/// A row a sequence: its number, its length, what is told of it, what is promised.
fn each_sequence(answered: &Answered, cells: impl Fn(usize) -> Vec<String>) -> Vec<Vec<String>> {
    let (guarantee, diagnostics) = (answered.answer.guarantee(), answered.answer.diagnostics());
    let row = |(b, length): (usize, &usize)| {
        let mut row = vec![b.to_string(), length.to_string()];
        row.extend(cells(b));
        row.push(output::promise(guarantee.item(b), diagnostics));
        row
    };
    answered.model.lengths().iter().enumerate().map(row).collect()
}

/// Up to this many states are all shown, of more the likeliest.
const ALL_STATES: usize = 8;
const LIKELIEST: usize = 5;

fn node_marginals<F: Real + Serialize>(
    answered: &Answered,
    marginals: &NodeMarginals<F>,
    json: bool,
) -> Result<String> {
    let lengths = answered.model.lengths();
    if json {
        let sequence = |(b, &length): (usize, &usize)| {
            let p: Vec<&[F]> = (0..length).map(|t| marginals.at(b, t)).collect();
            Ok(format!("{{\"length\":{length},\"p\":{}}}", json_text(&p)?))
        };
        let sequences = lengths.iter().enumerate().map(sequence).collect::<Result<Vec<_>>>()?;
        return Ok(answered.object(&[("sequences", format!("[{}]", sequences.join(",")))]));
    }
    let places = lengths.iter().enumerate().flat_map(|(b, &length)| (0..length).map(move |t| (b, t)));
    let row = |(b, t): (usize, usize)| vec![b.to_string(), t.to_string(), likeliest(marginals.at(b, t))];
    let rows: Vec<Vec<String>> = places.map(row).collect();
    let header = ["sequence", "position", "probability of the states"];
    if answered.model.kind() == Kind::PairwiseGraph {
        let rows = rows.into_iter().map(|row: Vec<String>| row[1..].to_vec()).collect();
        let table = output::table(&["variable", header[2]], rows, usize::MAX);
        return Ok(format!("{table}\n{}", answered.footer()));
    }
    Ok(format!("{}\n{}", output::table(&header, rows, usize::MAX), answered.footer()))
}

/// `3: 0.750000  0: 0.250000`: every state in order, or of many the likeliest.
fn likeliest<F: Real>(p: &[F]) -> String {
    let shown = if p.len() <= ALL_STATES { (0..p.len()).collect() } else { largest(p, LIKELIEST) };
    let mut cells: Vec<String> =
        shown.iter().map(|&i| format!("{i}: {}", decimal::probability(p[i].to_f64()))).collect();
    if shown.len() < p.len() {
        cells.push(format!("… and {} less likely", p.len() - shown.len()));
    }
    cells.join("  ")
}

/// The places of the `count` numbers that are largest in size, largest first.
fn largest<F: Real>(values: &[F], count: usize) -> Vec<usize> {
    let size = |i: usize| values[i].to_f64().abs();
    let mut found: Vec<usize> = Vec::with_capacity(count + 1);
    for i in 0..values.len() {
        if found.len() == count && found.last().is_some_and(|&last| size(i) <= size(last)) {
            continue;
        }
        let at = found.partition_point(|&other| size(other) >= size(i));
        found.insert(at, i);
        found.truncate(count);
    }
    found
}

/// A path or segmentation and its score.
struct Best<'a> {
    score: f64,
    states: States<'a>,
}

/// What is drawn or found of a sequence.
enum States<'a> {
    Path(&'a [usize]),
    Segments(&'a [(usize, usize)]),
}

impl<'a> Best<'a> {
    fn path(path: &'a Path) -> Self {
        Best { score: path.score, states: States::Path(&path.states) }
    }

    fn segmentation(found: &'a Segmentation) -> Self {
        Best { score: found.score, states: States::Segments(&found.segments) }
    }

    fn json(&self) -> Value {
        json!({"value": json_value(self.score), self.states.name(): self.states.json()})
    }
}

impl States<'_> {
    fn name(&self) -> &'static str {
        match self {
            States::Path(_) => "states",
            States::Segments(_) => "segments",
        }
    }

    fn json(&self) -> Value {
        match self {
            States::Path(states) => json!(states),
            States::Segments(segments) => json!(segments),
        }
    }

    /// `0 3 1`, or state × length: `0×2 3×1`.
    fn words(&self) -> String {
        let words: Vec<String> = match self {
            States::Path(states) => states.iter().map(ToString::to_string).collect(),
            States::Segments(segments) => segments.iter().map(|(s, d)| format!("{s}×{d}")).collect(),
        };
        words.join(" ")
    }
}

fn best(answered: &Answered, found: &[Best<'_>], json: bool) -> Result<String> {
    if json {
        let scores: Vec<f64> = found.iter().map(|best| best.score).collect();
        let sequences = Value::Array(found.iter().map(Best::json).collect());
        return Ok(answered.object(&[("value", one_or_all(&scores)), ("sequences", sequences.to_string())]));
    }
    let rows = each_sequence(answered, |b| vec![output::number(found[b].score), found[b].states.words()]);
    let header = ["sequence", "length", "score", title(answered), "promise"];
    Ok(format!("{}\n{}", output::table(&header, rows, usize::MAX), answered.origin()))
}

fn title(answered: &Answered) -> &'static str {
    match answered.model.kind() {
        Kind::SemiMarkov => "segments (state×length)",
        _ => "states",
    }
}

fn k_best(answered: &Answered, ranked: &[Vec<Best<'_>>], json: bool) -> Result<String> {
    if json {
        let list = |found: &Vec<Best<'_>>| Value::Array(found.iter().map(Best::json).collect());
        let sequences = Value::Array(ranked.iter().map(list).collect());
        return Ok(answered.object(&[("sequences", sequences.to_string())]));
    }
    let mut rows = Vec::new();
    for (b, found) in ranked.iter().enumerate() {
        for (rank, best) in found.iter().enumerate() {
            let (rank, score) = ((rank + 1).to_string(), output::number(best.score));
            rows.push(vec![b.to_string(), rank, score, best.states.words()]);
        }
    }
    let header = ["sequence", "rank", "score", title(answered)];
    Ok(format!("{}\n{}", output::table(&header, rows, usize::MAX), answered.footer()))
}

/// CSV with a column a position (a sequence that has ended leaves its cells empty), or of segments one column with `state:length`
/// for each; or JSON lines.
fn sample<S>(
    answered: &Answered,
    samples: &PathSamples<S>,
    states: impl for<'a> Fn(&'a S) -> States<'a>,
    json: bool,
) -> Result<String> {
    let model = &answered.model;
    let steps = model.lengths().iter().copied().max().unwrap_or(0);
    let mut text = String::new();
    if !json && answered.first == 0 {
        let weight = samples.log_weights.iter().map(|_| "log_weight".to_owned());
        let places = match model.kind() {
            Kind::SemiMarkov => vec!["segments".to_owned()],
            _ => (0..steps).map(|t| format!("t{t}")).collect(),
        };
        csv_line(&mut text, ["sequence".into(), "sample".into()].into_iter().chain(weight).chain(places));
    }
    for (b, drawn) in samples.samples.iter().enumerate() {
        for (i, one) in drawn.iter().enumerate() {
            let weight = samples.log_weights.as_ref().map(|weights| weights[b][i]);
            let i = answered.first + i;
            let states = states(one);
            if json {
                let mut object = json!({"sequence": b, "sample": i, states.name(): states.json()});
                if let Some(weight) = weight {
                    object["log_weight"] = json_value(weight);
                }
                let _ = writeln!(text, "{object}");
            } else {
                let cells = match &states {
                    States::Segments(_) => vec![states.words().replace('×', ":")],
                    States::Path(path) => (0..steps)
                        .map(|t| path.get(t).map_or_else(String::new, ToString::to_string))
                        .collect(),
                };
                let weight = weight.map(|weight| weight.to_string());
                csv_line(&mut text, [b.to_string(), i.to_string()].into_iter().chain(weight).chain(cells));
            }
        }
    }
    if samples.log_weights.is_some() {
        explain_weights();
    }
    Ok(text)
}
