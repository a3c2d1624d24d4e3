//! `zhat tag train --objective joint`.

use std::time::Instant;

use serde_json::json;
use zhat::internal::decimal;
use zhat::internal::io::write_atomically;
use zhat::internal::training::require_step;
use zhat::internal::units;
use zhat::learn::tag::joint::file::{read_checkpoint, write_checkpoint, write_joint_tagger};
use zhat::learn::tag::joint::{Bound, Training, train};
use zhat::learn::tag::{Corpus, Format, ReadOptions};
use zhat::{Error, Result};

use crate::output::{self, Exit, json_number};
use crate::query::budgeted;
use crate::tag::Told;
use crate::tag_arguments::{BoundArgument, TagTrainArguments};
use crate::{progress, signals};

/// The options that apply only to the conditional objective.
fn refuse_others(arguments: &TagTrainArguments) -> Result<()> {
    let conditional = [
        (arguments.features.is_some(), "--features", "; `--words` sets the number of nearest words"),
        (arguments.l1.is_some(), "--l1", "; `--l2` applies to both"),
        (arguments.all_possible, "--all-possible", "; joint taggers always have all weights"),
        (arguments.hash_bits.is_some(), "--hash-bits", ""),
        (arguments.optimizer != "lbfgs", "--optimizer", ""),
    ];
    match conditional.iter().find(|(given, ..)| *given) {
        Some((_, name, instead)) => {
            Err(Error::argument(*name, format!("belongs to `--objective conditional` only{instead}")))
        }
        None => Ok(()),
    }
}

/// Refuses the options of the joint objective.
pub fn refuse_joint(arguments: &TagTrainArguments) -> Result<()> {
    let joint = [
        (arguments.bound.is_some(), "--bound"),
        (arguments.no_word_scores, "--no-word-scores"),
        (arguments.certifying.is_some(), "--certifying"),
    ];
    match joint.iter().find(|(given, _)| *given) {
        Some((_, name)) => Err(Error::argument(*name, "belongs to `--objective joint` only")),
        None => Ok(()),
    }
}

fn training(arguments: &TagTrainArguments) -> Training {
    let how = Training::default();
    let bound = arguments.bound.map(|bound| match bound {
        BoundArgument::Exact => Bound::Exact,
        BoundArgument::Cover => Bound::Cover,
        BoundArgument::Star => Bound::Star,
    });
    how.clone()
        .context(arguments.context)
        .window(arguments.words)
        .bound(bound)
        .min_count(arguments.min_count.unwrap_or(how.min_count))
        .word_scores(!arguments.no_word_scores)
        .l2(arguments.l2.unwrap_or(how.l2))
        .iterations(arguments.iterations.unwrap_or(how.iterations))
        .delta(arguments.delta.unwrap_or(how.delta))
        .period(arguments.period.unwrap_or(how.period))
        .patience(arguments.patience.unwrap_or(how.patience))
        .certifying(arguments.certifying.unwrap_or(how.certifying))
}

fn words(path: &std::path::Path, read: &ReadOptions) -> Result<Corpus> {
    let corpus = Corpus::read(path, read)?;
    if corpus.format() == Format::Crfsuite {
        let message = "has attributes, not words; `--objective conditional` works with attributes";
        return Err(Error::argument(path.display().to_string(), message));
    }
    Ok(corpus)
}

pub fn train_joint(arguments: &TagTrainArguments, read: &ReadOptions) -> Result<Exit> {
    refuse_others(arguments)?;
    if !(1..=9).contains(&arguments.words) || arguments.words.is_multiple_of(2) {
        let message = format!("expected an odd number from 1 to 9, found {}", arguments.words);
        return Err(Error::argument("--words", message));
    }
    let run = progress::attend(budgeted(&arguments.budget));
    let started = Instant::now();
    let corpus = words(&arguments.file, read)?;
    let valid = arguments.valid.as_deref().map(|path| words(path, read)).transpose()?;
    let how = training(arguments);
    let mut told = Told::new(arguments, write_checkpoint);
    let from = told.kept.found(read_checkpoint)?;
    let reading = started.elapsed().as_secs_f64();
    let attention = signals::patient_attention();
    let tagger = train(&corpus, valid.as_ref(), &how, from, &run, &mut |now| {
        let progress = now.progress();
        let valid = progress.valid.map(|share| format!(", validation accuracy {:.2}%", 100.0 * share));
        let objective = || format!("{:.5} nats per position", progress.objective);
        told.step(now, progress.iteration, progress.stationarity, valid, objective)
    })?;
    drop(attention);
    told.kept.finish()?;
    let trained = tagger.trained();
    require_step(trained.steps, how.iterations, &run)?;
    write_atomically(&arguments.output, |out| write_joint_tagger(&tagger, out))?;
    let seconds = started.elapsed().as_secs_f64();
    let lexicon = tagger.lexicon();
    if arguments.budget.json {
        let valid = trained.valid.map(|(step, share)| json!({"step": step, "accuracy": share}));
        let bounds: serde_json::Map<_, _> = trained
            .log_likelihoods
            .iter()
            .map(|(bound, value)| (bound.name().to_owned(), json_number(*value)))
            .collect();
        output::print_object(
            "tag train",
            json!({
                "sentences": trained.sentences, "tokens": trained.tokens, "tags": tagger.tags().len(),
                "words": lexicon.len() - 1, "attributes": lexicon.features(), "parameters": tagger.parameters(),
                "objective_kind": "joint", "context": tagger.context(), "window": lexicon.window(),
                "bound": tagger.bound().name(), "l2": how.l2, "steps": trained.steps,
                "objective": trained.objective.map(json_number), "converged": trained.converged, "valid": valid,
                "log_likelihood_per_token": bounds, "reading_seconds": reading, "seconds": seconds,
            }),
        )?;
        return Ok(output::ended());
    }
    let late = if trained.converged { "" } else { " (not converged)" };
    let mut facts = vec![
        (
            "data",
            format!(
                "{} sentences, {} tokens, {} words",
                trained.sentences,
                trained.tokens,
                lexicon.len() - 1
            ),
        ),
        (
            "model",
            format!(
                "{} tags, {} attributes, {} parameters",
                tagger.tags().len(),
                lexicon.features(),
                tagger.parameters()
            ),
        ),
        (
            "objective",
            format!(
                "{:.6} nats per position{late}, by the bound `{}`",
                trained.objective.unwrap_or(f64::NAN),
                tagger.bound().name()
            ),
        ),
    ];
    for bound in Bound::ALL {
        let value = match trained.log_likelihood(bound) {
            Some(value) => {
                let value = decimal::below(value, 6);
                format!("log-likelihood of tags and words ≥ {value} nats per token, certified")
            }
            None => "does not apply".into(),
        };
        facts.push((bound.name(), value));
    }
    if let Some((step, share)) = trained.valid {
        facts.push(("validation", format!("accuracy {:.2}%, at step {step}", 100.0 * share)));
    }
    facts.extend([
        ("training", format!("{} steps, {}", trained.steps, units::seconds(seconds))),
        ("written", arguments.output.display().to_string()),
    ]);
    output::print(&output::facts(&facts))?;
    Ok(output::ended())
}
