//! `zhat structured`: trains and evaluates predictors of label sets, rankings, hierarchies and partitions.

use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};
use zhat::internal::io::write_atomically;
use zhat::internal::units;
use zhat::io::table::cell;
use zhat::learn::Structure;
use zhat::learn::predict::file::{
    read_predictor, read_predictor_checkpoint, write_predictor, write_predictor_checkpoint,
};
use zhat::learn::predict::{
    Bin, Decision, Encoding, Evaluation, Examples, Form, Fourier, Guaranteed, Learning, Method, Predictor,
    RankingModel, ReadOptions, Recipe, Regret, Scaling, Space, Training, evaluate, folds, read_examples,
};
use zhat::{Error, Guarantee, Result, Run};

use crate::output::{self, Exit, json_number};
use crate::query::budgeted;
use crate::structured_arguments::{
    CvArguments, DataArguments, DecisionArgument, EvalArguments, MethodArgument, PredictArguments,
    RankingArgument, RecipeArguments, ScalingArgument, SpaceArgument, StructuredArguments, StructuredCommand,
    TrainArguments,
};
use crate::{chart, progress, signals};

pub fn run(arguments: &StructuredArguments) -> Result<Exit> {
    match &arguments.command {
        StructuredCommand::Train(arguments) => train(arguments),
        StructuredCommand::Predict(arguments) => predict(arguments),
        StructuredCommand::Eval(arguments) => eval(arguments),
        StructuredCommand::Cv(arguments) => cv(arguments),
    }
}

fn space(argument: SpaceArgument) -> Space {
    match argument {
        SpaceArgument::Labels => Space::Labels,
        SpaceArgument::Ranking => Space::Ranking,
        SpaceArgument::Hierarchy => Space::Hierarchy,
        SpaceArgument::Partition => Space::Partition,
    }
}

fn read(arguments: &DataArguments, space: Space, predictor: Option<&Predictor>) -> Result<Examples> {
    let options = ReadOptions {
        space,
        labels: arguments.labels.clone(),
        xml: arguments.xml.clone(),
        partial: arguments.partial,
        inputs: None,
        known: predictor.map(Predictor::known),
    };
    read_examples(&arguments.data, &options)
}

/// The data of a recipe, with the weights of the rows.
fn read_weighted(data: &DataArguments, how: &RecipeArguments) -> Result<Examples> {
    let mut examples = read(data, space(how.space), None)?;
    if let Some(column) = &how.weights {
        examples.take_weights(column)?;
    }
    Ok(examples)
}

fn decision(argument: DecisionArgument) -> Decision {
    match argument {
        DecisionArgument::MostProbable => Decision::MostProbable,
        DecisionArgument::Hamming => Decision::Hamming,
        DecisionArgument::F1 => Decision::F1,
        DecisionArgument::Kendall => Decision::Kendall,
    }
}

/// The pairs given by `--pairs`.
fn pairs(text: &str, names: &[String]) -> Result<Structure> {
    let more = |rest: &str| rest.strip_prefix('+').and_then(|count| count.parse().ok());
    match text {
        "none" => Ok(Structure::Independent),
        "all" => Ok(Structure::Complete),
        "chow-liu" => Ok(Structure::ChowLiu { more: 0 }),
        other => match other.strip_prefix("chow-liu").and_then(more) {
            Some(more) => Ok(Structure::ChowLiu { more }),
            None => {
                let path = Path::new(other);
                if !path.exists() {
                    let known = "none, chow-liu, chow-liu+M, all, or a file of pairs";
                    return Err(Error::argument("--pairs", format!("expected {known}, found `{other}`")));
                }
                let text = std::fs::read_to_string(path).map_err(|source| Error::io(path, source))?;
                Structure::parse_names(&text, other, names)
            }
        },
    }
}

/// The candidates for λ.
fn lambdas(arguments: &RecipeArguments) -> Result<Vec<f64>> {
    if arguments.lambda.len() == 1 && arguments.lambda[0] == "auto" {
        return Ok((0..=6).map(|i| 10f64.powi(-i)).collect());
    }
    let number = |text: &String| {
        let value = text.parse::<f64>().ok().filter(|value| *value > 0.0 && value.is_finite());
        value.ok_or_else(|| {
            Error::argument("--lambda", format!("expected numbers above 0, or auto, found `{text}`"))
        })
    };
    arguments.lambda.iter().map(number).collect()
}

fn recipe(arguments: &RecipeArguments, examples: &Examples, run: &Run) -> Result<Recipe> {
    let lambdas = lambdas(arguments)?;
    let learning = Learning::default()
        .lambda(lambdas[0])
        .method(match arguments.method {
            MethodArgument::Batch => Method::Batch,
            MethodArgument::Sampled => Method::Sampled,
            MethodArgument::Online => Method::Online,
        })
        .gap(arguments.gap)
        .iterations(arguments.iterations)
        .samples(arguments.samples)
        .batch(arguments.batch)
        .share(arguments.step_share)
        .failure(arguments.failure);
    let fourier =
        arguments.fourier.map(|features| Fourier { features, gamma: arguments.gamma, seed: run.seed() });
    let scaling = match arguments.scaling {
        ScalingArgument::Auto => Scaling::Auto,
        ScalingArgument::Standard => Scaling::Standard,
        ScalingArgument::Max => Scaling::Max,
        ScalingArgument::Unit => Scaling::Unit,
        ScalingArgument::None => Scaling::None,
    };
    Ok(Recipe {
        space: space(arguments.space),
        pairs: pairs(&arguments.pairs, &examples.names)?,
        pairs_by_input: arguments.pairs_by_input,
        ranking: match arguments.ranking {
            RankingArgument::PlackettLuce => RankingModel::PlackettLuce,
            RankingArgument::Precedence => RankingModel::Precedence,
            RankingArgument::Positions => RankingModel::Positions,
            RankingArgument::Mallows => RankingModel::Mallows,
        },
        encoding: Encoding { scaling, fourier },
        learning,
        lambdas,
        folds: arguments.lambda_folds,
    })
}

fn train(arguments: &TrainArguments) -> Result<Exit> {
    output::refuse_stdout(&arguments.output, "model.zhat")?;
    let run = progress::attend(budgeted(&arguments.budget));
    let started = Instant::now();
    let examples = read_weighted(&arguments.data, &arguments.recipe)?;
    let recipe = recipe(&arguments.recipe, &examples, &run)?;
    let kept = arguments.checkpoint.as_deref();
    let from = kept.filter(|path| path.exists()).map(read_predictor_checkpoint).transpose()?;
    let (mut last, mut told, mut steps, mut begun) = (Instant::now(), Instant::now(), 0, None);
    let (mut newest, mut regret, mut history) = (None, None, Vec::new());
    let attention = signals::patient_attention();
    let (predictor, candidates) = recipe.fit_owned(examples, from, &run, &mut |now| {
        let progress = now.progress();
        (steps, regret) = (progress.step, now.regret());
        if arguments.budget.json {
            history.push(json!({
                "step": progress.step, "objective": json_number(progress.objective),
                "gap": json_number(progress.gap), "certified": progress.certified,
            }));
        }
        let (first, since) = *begun.get_or_insert((progress.step, Instant::now()));
        if told.elapsed().as_secs_f64() >= arguments.progress_every {
            let each = since.elapsed().as_secs_f64() / (progress.step - first).max(1) as f64;
            let left = each * (now.expected().saturating_sub(progress.step)) as f64;
            eprintln!(
                "step {}: objective {}, {} gap {:.1e}, about {} left",
                progress.step,
                objective(progress.objective),
                if progress.certified { "certified" } else { "estimated" },
                progress.gap,
                units::seconds(left)
            );
            told = Instant::now();
        }
        if let Some(path) = kept {
            if last.elapsed().as_secs_f64() >= arguments.keep_every {
                write_predictor_checkpoint(now, path)?;
                last = Instant::now();
            }
            newest = Some(now.clone());
        }
        Ok(true)
    })?;
    drop(attention);
    let training = predictor.training();
    if training.gap == f64::INFINITY {
        let Some(time) = run.time() else { return Err(Error::Interrupted) };
        return Err(Error::OverBudget {
            needs: "training did not finish its first step in time".into(),
            budget: units::precise_seconds(time.as_secs_f64()),
            fitting: Vec::new(),
        });
    }
    if let (Some(path), Some(now)) = (kept, &newest) {
        write_predictor_checkpoint(now, path)?;
    }
    write_atomically(&arguments.output, |out| write_predictor(&predictor, out))?;
    if training.left_out > 0 {
        let (count, rows) = (training.left_out, training.rows);
        eprintln!(
            "zhat: warning: {count} of {rows} rankings are partial; the fit of the spread leaves them out"
        );
    }
    let seconds = started.elapsed().as_secs_f64();
    let converged = training.gap <= arguments.recipe.gap;
    let pairs = match predictor.form() {
        Form::Labels { pairs, .. } | Form::Hierarchy { pairs, .. } => pairs.len(),
        _ => 0,
    };
    if arguments.budget.json {
        let mut members = json!({
            "space": predictor.form().space(), "rows": training.rows, "inputs": predictor.encoder().width(),
            "width": predictor.names().len(), "pairs": pairs, "parameters": predictor.parameters().len(),
            "lambda": training.lambda, "candidates": candidates, "steps": steps,
            "objective": json_number(training.objective), "gap": json_number(training.gap),
            "confidence": training.confidence, "certified": training.confidence > 0.0, "converged": converged, "history": history, "seed": run.seed(), "seconds": seconds,
        });
        if let Some(centres) = &training.centres {
            members["left_out"] = json!(training.left_out);
            members["centres"] = json!({
                "objective": json_number(centres.objective), "gap": json_number(centres.gap),
                "confidence": centres.confidence, "converged": centres.gap <= arguments.recipe.gap,
            });
        }
        if let Some(regret) = &regret {
            members["regret"] = json!({
                "steps": regret.steps, "measured": json_number(measured(regret, training)),
                "sample_bound": json_number(regret.sample_bound()),
                "radius_bound": json_number(regret.radius_bound()), "confidence": regret.confidence(),
            });
        }
        output::print_object("structured train", members)?;
        return Ok(output::ended());
    }
    let late = |gap: f64| if gap <= arguments.recipe.gap { "" } else { " (not yet the requested gap)" };
    let above = |value: f64, gap: f64, confidence: f64| {
        let certified = certified(confidence);
        format!("{}, at most {gap:.1e} above its minimum, {certified}{}", objective(value), late(gap))
    };
    let mut facts = vec![
        ("data", format!("{} rows, {} inputs", training.rows, predictor.encoder().width())),
        ("model", model(&predictor, pairs)),
    ];
    if !candidates.is_empty() {
        let each = candidates.iter().map(|one| format!("{} {:.4}", one.lambda, one.log_loss));
        facts.push(("log-loss by λ", each.collect::<Vec<_>>().join(", ")));
    }
    facts.push(("λ", training.lambda.to_string()));
    if let Some(centres) = &training.centres {
        facts.push(("centres", above(centres.objective, centres.gap, centres.confidence)));
        let known = "the spread is the best for these centres; no bound on the joint minimum except 0";
        facts.push(("objective", format!("{}; {known}", objective(training.objective))));
        if training.left_out > 0 {
            let spread = format!(
                "from {} complete rankings, without {} partial ones",
                training.rows - training.left_out,
                training.left_out
            );
            facts.push(("spread", spread));
        }
    } else if training.confidence == 1.0 && training.gap == training.objective {
        let known = "not convex, so that no bound on its minimum except 0 is known";
        facts.push(("objective", format!("{}; {known}", objective(training.objective))));
    } else {
        facts.push(("objective", above(training.objective, training.gap, training.confidence)));
    }
    if let Some(regret) = &regret {
        facts.push(("regret", regret_in_words(regret, training)));
    }
    facts.extend([
        ("training", format!("{steps} steps, {}", units::seconds(seconds))),
        ("written", arguments.output.display().to_string()),
    ]);
    output::print(&output::facts(&facts))?;
    Ok(output::ended())
}

/// The guarantee of a gap, by its confidence.
fn certified(confidence: f64) -> String {
    if confidence == 0.0 {
        "by an estimate from approximate samples, not certified".into()
    } else if confidence < 1.0 {
        format!("at confidence {confidence}")
    } else {
        "certified".into()
    }
}

/// The measured regret and its bound, with the number of steps.
fn regret_in_words(regret: &Regret, training: &Training) -> String {
    let known = measured(regret, training);
    let measured = if known.is_finite() { format!("at most {known:.4} measured, ") } else { String::new() };
    let bound = if !regret.is_convex() {
        "no bound, since the losses are not convex".into()
    } else if regret.confidence() == 0.0 {
        format!("bound {:.4} not certified, since samples are approximate", regret.sample_bound())
    } else {
        format!("bound {:.4} at confidence {}", regret.sample_bound(), regret.confidence())
    };
    format!("{measured}{bound}; {} steps", regret.steps)
}

/// The objective as text; it is not known where log Z is out of reach.
fn objective(value: f64) -> String {
    if value.is_nan() { "unknown (log Z is out of reach)".into() } else { format!("{value:.6}") }
}

/// The measured regret, from the certified lower bound on the minimum.
fn measured(regret: &Regret, training: &Training) -> f64 {
    regret.measured(training.objective - training.gap)
}

fn model(predictor: &Predictor, pairs: usize) -> String {
    let (n, parameters) = (predictor.names().len(), predictor.parameters().len());
    let what = match predictor.form() {
        Form::Labels { .. } => format!("sets of {n} labels, {pairs} pairs"),
        Form::Hierarchy { .. } => format!("hierarchy of {n} nodes, {pairs} pairs"),
        Form::PlackettLuce { .. } => format!("orders of {n} items, Plackett–Luce"),
        Form::Precedence { .. } => format!("orders of {n} items, precedences"),
        Form::Positions { .. } => format!("orders of {n} items, positions"),
        Form::Mallows { .. } => format!("orders of {n} items, Mallows"),
        _ => format!("partitions of {n} elements"),
    };
    format!("{what}; {parameters} parameters")
}

/// A structure as text: labels separated by semicolons, nodes by @ (without ancestors of listed nodes), items
/// in order by >, blocks by |.
pub fn shown(predictor: &Predictor, structure: &[u32]) -> String {
    let names = predictor.names();
    let chosen = |i: &usize| structure[*i] == 1;
    match predictor.form() {
        Form::Hierarchy { parents, .. } => {
            let inner: Vec<usize> = (0..names.len()).filter(chosen).filter_map(|v| parents[v]).collect();
            let last = (0..names.len()).filter(chosen).filter(|v| !inner.contains(v));
            last.map(|v| names[v].as_str()).collect::<Vec<_>>().join("@")
        }
        Form::Labels { .. } => {
            (0..names.len()).filter(chosen).map(|i| names[i].as_str()).collect::<Vec<_>>().join(";")
        }
        Form::Partition { .. } => {
            let blocks = structure.iter().max().map_or(0, |last| last + 1);
            let block = |b: u32| {
                let members = (0..names.len()).filter(|&i| structure[i] == b).map(|i| names[i].as_str());
                members.collect::<Vec<_>>().join(" ")
            };
            (0..blocks).map(block).collect::<Vec<_>>().join("|")
        }
        _ => structure.iter().map(|&i| names[i as usize].as_str()).collect::<Vec<_>>().join(">"),
    }
}

/// The names of the marginals and their places in the table of a row.
fn events(predictor: &Predictor) -> Vec<(String, usize)> {
    let (names, n) = (predictor.names(), predictor.names().len());
    let sign = match predictor.space() {
        Space::Labels | Space::Hierarchy => return names.iter().cloned().zip(0..).collect(),
        Space::Ranking => '>',
        Space::Partition => '=',
    };
    let pairs = (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j)));
    pairs.map(|(i, j)| (format!("{}{sign}{}", names[i], names[j]), i * n + j)).collect()
}

/// The guarantee of probabilities and predictions, as JSON.
fn guarantee(exact: bool) -> Value {
    match exact {
        true => json!({"kind": "exact"}),
        false => json!({
            "kind": "heuristic",
            "reason": "exact sums are out of reach; predictions and probabilities state their own guarantees",
        }),
    }
}

fn predict(arguments: &PredictArguments) -> Result<Exit> {
    let run = progress::attend(budgeted(&arguments.budget));
    let predictor = read_predictor(&arguments.model)?;
    let conditions = arguments.event.as_deref().map(|text| predictor.event(text)).transpose()?;
    let examples = read(&arguments.data, predictor.space(), Some(&predictor))?;
    let inputs = predictor.inputs(&examples, &run)?;
    let predictions = match arguments.best {
        Some(k) => predictor.best(&inputs, k as usize, &run)?,
        None => {
            let chosen = predictor.predict(&inputs, decision(arguments.decision), &run)?;
            chosen.into_iter().map(|one| vec![one]).collect()
        }
    };
    let marginals = if arguments.marginals { Some(predictor.marginals(&inputs, &run)?) } else { None };
    let happens = match &conditions {
        Some(conditions) => Some(predictor.event_log_probabilities(&inputs, conditions, &run)?),
        None => None,
    };
    let events = events(&predictor);
    if arguments.budget.json {
        let rows: Vec<Value> = predictions
            .iter()
            .enumerate()
            .map(|(row, found)| {
                let each: Vec<Value> = found
                    .iter()
                    .map(|one| {
                        let mut object = json!({
                            "prediction": shown(&predictor, &one.structure),
                            "log_probability": json_number(one.log_probability),
                        });
                        if !predictor.is_exact() {
                            object["guarantee"] = one.guarantee.to_json();
                            object["choice"] = one.choice.to_json();
                        }
                        object
                    })
                    .collect();
                let mut object = json!({"line": examples.lines[row], "predictions": each});
                if let Some(marginals) = &marginals {
                    let own =
                        events.iter().map(|(name, at)| (name.clone(), json!(marginals[row].value[*at])));
                    object["marginals"] = Value::Object(own.collect());
                    if !predictor.is_exact() {
                        object["marginals_error"] = marginals[row].guarantee.to_json();
                    }
                }
                if let Some(happens) = &happens {
                    let own = &happens[row];
                    object["event"] = json!({
                        "log_probability": json_number(own.value), "guarantee": own.guarantee.to_json(),
                    });
                }
                object
            })
            .collect();
        let members = json!({"rows": rows, "guarantee": guarantee(predictor.is_exact()), "seed": run.seed()});
        output::print_object("structured predict", members)?;
        return Ok(Exit::Answered);
    }
    let mut text = String::from("line,");
    if arguments.best.is_some() {
        text += "rank,";
    }
    text += "prediction,probability";
    if !predictor.is_exact() {
        text += ",guarantee,choice";
    }
    if marginals.is_some() {
        events.iter().for_each(|(name, _)| text += &format!(",{}", cell(name)));
        if !predictor.is_exact() {
            text += ",marginals_error";
        }
    }
    if happens.is_some() {
        text += if predictor.is_exact() { ",event" } else { ",event,event_log_guarantee" };
    }
    text.push('\n');
    for (row, found) in predictions.iter().enumerate() {
        for (rank, one) in found.iter().enumerate() {
            text += &format!("{},", examples.lines[row]);
            if arguments.best.is_some() {
                text += &format!("{},", rank + 1);
            }
            text += &format!("{},{}", cell(&shown(&predictor, &one.structure)), one.log_probability.exp());
            if !predictor.is_exact() {
                let words = [&one.guarantee, &one.choice].map(|guarantee| guarantee.to_string());
                words.iter().for_each(|words| text += &format!(",{}", cell(words)));
            }
            if let Some(marginals) = &marginals {
                events.iter().for_each(|(_, at)| text += &format!(",{}", marginals[row].value[*at]));
                if !predictor.is_exact() {
                    text += &format!(",{}", cell(&marginals[row].guarantee.to_string()));
                }
            }
            if let Some(happens) = &happens {
                text += &format!(",{}", happens[row].value.exp());
                if !predictor.is_exact() {
                    text += &format!(",{}", cell(&happens[row].guarantee.to_string()));
                }
            }
            text.push('\n');
        }
    }
    if arguments.output == Path::new("-") {
        output::print(&text)?;
    } else {
        write_atomically(&arguments.output, |out| out.write_all(text.as_bytes()))?;
    }
    Ok(Exit::Answered)
}

/// Measures as lines of text.
fn measures(evaluation: &Evaluation) -> String {
    let facts: Vec<(&str, String)> =
        evaluation.measures.iter().map(|(name, value)| (name.as_str(), format!("{value:.4}"))).collect();
    output::facts(&facts)
}

/// The guarantees of the log-loss and of the probabilities of single labels, nodes or pairs.
fn promises(evaluation: &Evaluation) -> String {
    output::facts(&[
        ("log-loss", evaluation.log_loss.to_string()),
        ("error of the probabilities", evaluation.marginals.to_string()),
    ])
}

fn reliability(bins: &[Bin]) -> String {
    let rows: Vec<Vec<String>> = bins
        .iter()
        .map(|bin| {
            vec![
                format!("{:.1}–{:.1}", bin.from, bin.to),
                bin.count.to_string(),
                format!("{:.4}", bin.predicted),
                format!("{:.4}", bin.observed),
                format!("{:.4}–{:.4}", bin.low, bin.high),
            ]
        })
        .collect();
    output::table(&["probability", "events", "predicted", "observed", "95% limits"], &rows, 1)
}

fn picture(bins: &[Bin], path: &Path) -> Result<()> {
    let curve = |name: &str, value: fn(&Bin) -> f64| chart::Curve {
        name: name.into(),
        points: bins.iter().map(|bin| (bin.predicted, value(bin))).collect(),
    };
    let ideal = chart::Curve { name: "perfectly reliable".into(), points: vec![(0.0, 0.0), (1.0, 1.0)] };
    let curves = [
        ideal,
        curve("observed", |bin| bin.observed),
        curve("lower limit (95%)", |bin| bin.low),
        curve("upper limit (95%)", |bin| bin.high),
    ];
    let axes = chart::Axes { title: "Reliability", x: "predicted probability", y: "observed share" };
    let svg = chart::plain(&axes, &curves)?;
    write_atomically(path, |out| out.write_all(svg.as_bytes()))
}

fn eval(arguments: &EvalArguments) -> Result<Exit> {
    if let Some(path) = &arguments.reliability {
        output::refuse_stdout(path, "reliability.svg")?;
    }
    let run = progress::attend(budgeted(&arguments.budget));
    let predictor = read_predictor(&arguments.model)?;
    let examples = read(&arguments.data, predictor.space(), Some(&predictor))?;
    let inputs = predictor.inputs(&examples, &run)?;
    let targets = examples.observed()?;
    let found = evaluate(&predictor, &inputs, targets, arguments.decision.map(decision), &run)?;
    let logs = if arguments.rows { Some(predictor.log_probabilities(&inputs, targets, &run)?) } else { None };
    // Partial rankings of many items can need samples where everything else is exact.
    let exact = predictor.is_exact() && found.log_loss == Guarantee::Exact;
    if let Some(path) = &arguments.reliability {
        picture(&found.reliability, path)?;
    }
    if arguments.budget.json {
        let named: serde_json::Map<String, Value> =
            found.measures.iter().map(|(name, value)| (name.clone(), json_number(*value))).collect();
        let mut members = json!({
            "rows": found.rows, "measures": named, "reliability": found.reliability,
            "guarantee": guarantee(exact),
            "guarantees": {"log_loss": found.log_loss.to_json(), "marginals_error": found.marginals.to_json()},
        });
        if let Some(logs) = &logs {
            let object = |(line, log): (&usize, &Guaranteed<f64>)| {
                let mut object = json!({"line": line, "log_probability": json_number(log.value)});
                if !exact {
                    object["guarantee"] = log.guarantee.to_json();
                }
                object
            };
            members["lines"] = examples.lines.iter().zip(logs).map(object).collect();
        }
        output::print_object("structured eval", members)?;
        return Ok(Exit::Answered);
    }
    let promised = if exact { String::new() } else { format!("\n{}", promises(&found)) };
    let text = format!("{}{promised}\n{}", measures(&found), reliability(&found.reliability));
    match logs {
        None => output::print(&text)?,
        Some(logs) => {
            let more = |log: &Guaranteed<f64>| match exact {
                true => String::new(),
                false => format!(",{}", cell(&log.guarantee.to_string())),
            };
            let line =
                |(line, log): (&usize, &Guaranteed<f64>)| format!("{line},{}{}\n", log.value, more(log));
            let header = if exact { "" } else { ",guarantee" };
            let each: String = examples.lines.iter().zip(&logs).map(line).collect();
            output::print(&format!("line,log_probability{header}\n{each}"))?;
            eprint!("{text}");
        }
    }
    Ok(Exit::Answered)
}

fn cv(arguments: &CvArguments) -> Result<Exit> {
    let run = progress::attend(budgeted(&arguments.budget));
    let started = Instant::now();
    let examples = read_weighted(&arguments.data, &arguments.recipe)?;
    let recipe = recipe(&arguments.recipe, &examples, &run)?;
    let mut parts = Vec::new();
    for repeat in 0..u64::from(arguments.repeats) {
        parts.push(folds(examples.rows(), arguments.folds, run.seed().wrapping_add(repeat))?);
    }
    if let Some(path) = &arguments.write_folds {
        output::refuse_stdout(path, "folds.csv")?;
    }
    let mut all: Vec<(Evaluation, f64)> = Vec::new();
    for part in &parts {
        let results = recipe.cross_validate(&examples, part, arguments.decision.map(decision), &run)?;
        all.extend(results.into_iter().map(|(evaluation, training)| (evaluation, training.lambda)));
    }
    // Only of a finished evaluation: a failure writes nothing.
    if let Some(path) = &arguments.write_folds {
        let mut text = String::from("repeat,line,fold\n");
        for (repeat, part) in parts.iter().enumerate() {
            let mut fold_of = vec![0; examples.rows()];
            for (i, fold) in part.iter().enumerate() {
                fold.iter().for_each(|&row| fold_of[row] = i);
            }
            let each = examples.lines.iter().zip(fold_of);
            each.for_each(|(line, fold)| text += &format!("{repeat},{line},{fold}\n"));
        }
        write_atomically(path, |out| out.write_all(text.as_bytes()))?;
    }
    let names: Vec<String> = all
        .first()
        .map_or_else(Vec::new, |(first, _)| first.measures.iter().map(|(name, _)| name.clone()).collect());
    let summary = |name: &str| {
        let values: Vec<f64> = all.iter().filter_map(|(evaluation, _)| evaluation.get(name)).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let square =
            values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (values.len() - 1).max(1) as f64;
        (mean, square.sqrt())
    };
    let seconds = started.elapsed().as_secs_f64();
    if arguments.budget.json {
        let measures: serde_json::Map<String, Value> = names
            .iter()
            .map(|name| {
                let (mean, deviation) = summary(name);
                let each: Vec<Value> =
                    all.iter().filter_map(|(evaluation, _)| evaluation.get(name)).map(json_number).collect();
                (name.clone(), json!({"mean": json_number(mean), "standard_deviation": json_number(deviation), "folds": each}))
            })
            .collect();
        let lambdas: Vec<f64> = all.iter().map(|(_, lambda)| *lambda).collect();
        let members = json!({
            "rows": examples.rows(), "folds": arguments.folds, "repeats": arguments.repeats, "measures": measures,
            "lambdas": lambdas, "seed": run.seed(), "seconds": seconds,
        });
        output::print_object("structured cv", members)?;
        return Ok(output::ended());
    }
    let rows: Vec<Vec<String>> = names
        .iter()
        .map(|name| {
            let (mean, deviation) = summary(name);
            vec![name.clone(), format!("{mean:.4}"), format!("{deviation:.4}")]
        })
        .collect();
    let table = output::table(&["measure", "mean", "standard deviation"], &rows, 1);
    let what = format!("{} folds, {}", all.len(), units::seconds(seconds));
    output::print(&format!("{table}\n{}", output::facts(&[("evaluated", what)])))?;
    Ok(output::ended())
}
