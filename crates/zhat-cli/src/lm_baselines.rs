//! `zhat lm` for models trained by stochastic gradients: training and evaluation.

use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::json;
use zhat::internal::io::write_atomically;
use zhat::internal::units;
use zhat::learn::language::file::{write_language_model, write_log_bilinear};
use zhat::learn::language::text;
use zhat::learn::language::{
    Epoch, LanguageModel, LogBilinear, Stochastic, TextScore, train_log_bilinear, train_pseudo,
};
use zhat::{Error, Result, Run};

use crate::lm::{budgeted_again, certified, counted, score_json, texts};
use crate::lm_arguments::{EvalArguments, ObjectiveArgument, TrainArguments};
use crate::output::{self, Exit, json_number};
use crate::signals;

/// The options that apply only to the lifted objective.
fn refuse_others(arguments: &TrainArguments) -> Result<()> {
    let given = [
        (arguments.full_rank, "--full-rank"),
        (arguments.rotations, "--rotations"),
        (!arguments.shares.is_empty(), "--shares"),
        (arguments.l2.is_some(), "--l2"),
        (arguments.checkpoint.is_some(), "--checkpoint"),
    ];
    match given.iter().find(|given| given.0) {
        Some((_, name)) => Err(Error::argument(*name, "belongs to `--objective lifted` only")),
        None => Ok(()),
    }
}

fn note(epoch: &Epoch) -> String {
    let valid = epoch.valid.map_or_else(String::new, |valid| format!(", validation {valid:.4}"));
    format!("epoch {}: {:.4} nats per word{valid}, rate {}", epoch.epoch, epoch.train, epoch.rate)
}

/// `lm train --objective pseudo` and `lbl`.
pub fn train(arguments: &TrainArguments, run: &Run) -> Result<Exit> {
    refuse_others(arguments)?;
    if arguments.texts.iter().any(|path| path == Path::new("-")) {
        return Err(Error::argument("TEXTS", "are read twice, so they cannot be stdin"));
    }
    let started = Instant::now();
    let context = usize::from(arguments.context);
    let (_, vocabulary) = counted(arguments, 1, run)?;
    let mut sentences = Vec::new();
    for path in &arguments.texts {
        sentences.extend(text::sentences(path, &vocabulary)?);
    }
    let valid = arguments.valid.as_ref().map(|path| text::sentences(path, &vocabulary)).transpose()?;
    let how = Stochastic::default()
        .context(context)
        .rank(arguments.rank.into())
        .epochs(arguments.epochs)
        .cyclic(arguments.objective == ObjectiveArgument::Exact)
        .rate(arguments.rate.unwrap_or(Stochastic::default().rate));
    let mut last = None;
    let mut watch = |epoch: &Epoch| {
        eprintln!("{}", note(epoch));
        last = Some(*epoch);
        Ok(true)
    };
    let again = budgeted_again(&arguments.budget);
    let (own, other, promise) = if arguments.objective != ObjectiveArgument::Pseudo {
        let attention = signals::patient_attention();
        let model = train_log_bilinear(&sentences, &vocabulary, valid.as_deref(), &how, run, &mut watch)?;
        drop(attention);
        write_atomically(&arguments.output, |out| write_log_bilinear(&model, out))?;
        let of = |sentences: &Vec<Vec<u32>>| model.evaluate(sentences, &again);
        (None, valid.as_ref().map(of).transpose()?, promised(&model))
    } else {
        let attention = signals::patient_attention();
        let model = train_pseudo(&sentences, &vocabulary, valid.as_deref(), &how, run, &mut watch)?;
        drop(attention);
        write_atomically(&arguments.output, |out| write_language_model(&model, out))?;
        let of = |paths: &[PathBuf]| certified_score(&model, paths, &again);
        let other = arguments.valid.as_ref().map(|path| of(std::slice::from_ref(path))).transpose()?;
        (Some(of(&arguments.texts)?), other, certified as fn(&TextScore) -> String)
    };
    let report = Report {
        arguments,
        states: vocabulary.states(),
        last,
        size: (sentences.iter().map(|sentence| sentence.len() as u64).sum(), sentences.len()),
        own,
        other,
        promise,
    };
    report.print(started.elapsed().as_secs_f64())?;
    Ok(output::ended())
}

fn certified_score(model: &LanguageModel, paths: &[PathBuf], run: &Run) -> Result<TextScore> {
    let mut counts = None::<zhat::learn::language::Counts>;
    for path in paths {
        let more = text::count(path, model.mrf().context(), run)?;
        match &mut counts {
            Some(counts) => counts.merge(more)?,
            None => counts = Some(more),
        }
    }
    let counts = counts.ok_or_else(|| Error::argument("TEXTS", "there is none"))?;
    model.evaluate(&counts.moments(model.vocabulary())?, run)
}

/// The summary that is printed at the end.
struct Report<'a> {
    arguments: &'a TrainArguments,
    states: usize,
    last: Option<Epoch>,
    /// Words and sentences.
    size: (u64, usize),
    own: Option<TextScore>,
    other: Option<TextScore>,
    promise: fn(&TextScore) -> String,
}

impl Report<'_> {
    fn print(&self, seconds: f64) -> Result<()> {
        let Report { arguments, states, last, size, own, other, promise } = self;
        let (epochs, best) = last.map_or((0, 0), |epoch| (epoch.epoch, epoch.best));
        let bilinear = arguments.objective == ObjectiveArgument::Lbl;
        let name = match arguments.objective {
            ObjectiveArgument::Lbl => "lbl",
            ObjectiveArgument::Exact => "exact",
            ObjectiveArgument::Pseudo | ObjectiveArgument::Lifted => "pseudo",
        };
        if arguments.budget.json {
            let score = if bilinear { exact_json } else { score_json };
            let members = json!({
                "objective": name,
                    "tokens": size.0, "sentences": size.1, "states": states,
                    "context": arguments.context, "rank": arguments.rank, "epochs": epochs, "best": best,
                    "objective_per_word": last.map(|epoch| json!({"train": epoch.train, "valid": epoch.valid})),
                    "train": own.as_ref().map(score), "valid": other.as_ref().map(score), "seconds": {"all": seconds},
            });
            return output::print_object("lm train", members);
        }
        let model = format!(
            "{name}: {states} states, context {}, embeddings of dimension {}",
            arguments.context, arguments.rank
        );
        let mut facts = vec![("text", format!("{} words in {} sentences", size.0, size.1)), ("model", model)];
        facts.extend(own.as_ref().map(|own| ("training text", promise(own))));
        facts.extend(other.as_ref().map(|other| ("validation", promise(other))));
        facts.extend([
            ("training", format!("{epochs} epochs, best at epoch {best}; {}", units::seconds(seconds))),
            ("written", arguments.output.display().to_string()),
        ]);
        output::print(&output::facts(&facts))
    }
}

/// Formats the likelihood under a log-bilinear model.
fn promised(model: &LogBilinear) -> fn(&TextScore) -> String {
    if model.cyclic() { certified } else { exact }
}

fn exact(score: &TextScore) -> String {
    format!("{:.4} nats per word, the ends of sentences included", score.per_word())
}

fn exact_json(score: &TextScore) -> serde_json::Value {
    json!({
        "tokens": score.tokens, "sentences": score.sentences, "log_likelihood": json_number(score.log_likelihood),
        "per_word": json_number(score.per_word()),
        "guarantee": score.promise(false).to_json(),
    })
}

/// `lm eval` of a log-bilinear model.
pub fn eval(model: &LogBilinear, arguments: &EvalArguments, run: &Run) -> Result<Exit> {
    if arguments.pseudo || arguments.annealed.is_some() {
        let option = if arguments.pseudo { "--pseudo" } else { "--annealed" };
        let message = "is not needed for this model: it is normalised, so its likelihood is computed exactly";
        return Err(Error::argument(option, message));
    }
    let score = model.evaluate(&text::sentences(&arguments.text, model.vocabulary())?, run)?;
    if score.tokens == 0 {
        return Err(Error::argument("TEXT", "has no words"));
    }
    if arguments.budget.json {
        let object = if model.cyclic() { score_json(&score) } else { exact_json(&score) };
        output::print_object("lm eval", object)?;
    } else {
        output::print(&output::facts(&[("text", texts(&score)), ("likelihood", promised(model)(&score))]))?;
    }
    Ok(Exit::Answered)
}
