//! `zhat lm`: trains language models on texts and evaluates, samples and exports them.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use zhat::cycle::Annealed;
use zhat::internal::io::write_atomically;
use zhat::internal::{decimal, units};
use zhat::learn::language::file::{
    read_any_language_model, read_checkpoint, write_checkpoint, write_language_model,
};
use zhat::learn::language::text;
use zhat::learn::language::{
    self, AnnealedScore, AnyLanguageModel, Fold, InteractionForm, Moments, Objective, TextScore, Training,
    Vocabulary,
};
use zhat::{Error, Result, Run};

use crate::arguments::BudgetArguments;
use crate::lm_arguments::{
    BoundArgument, EvalArguments, ExportArguments, FormatArgument, LmArguments, LmCommand,
    NeighboursArguments, ObjectiveArgument, SentencesArguments, TrainArguments,
};
use crate::lm_baselines;
use crate::output::{self, Exit, json_number};
use crate::query::budgeted;
use crate::{progress, signals};

/// Interval between progress lines.
const TOLD: Duration = Duration::from_secs(10);

pub fn run(arguments: &LmArguments) -> Result<Exit> {
    match &arguments.command {
        LmCommand::Train(arguments) => train(arguments),
        LmCommand::Eval(arguments) => eval(arguments),
        LmCommand::Neighbours(arguments) => neighbours(arguments),
        LmCommand::Sample(arguments) => sample(arguments),
        LmCommand::Export(arguments) => export(arguments),
    }
}

/// Counts all texts and builds the vocabulary.
pub fn counted(
    arguments: &TrainArguments,
    context: usize,
    run: &Run,
) -> Result<(language::Counts, Vocabulary)> {
    let mut counts = None::<language::Counts>;
    for path in &arguments.texts {
        let more = text::count(path, context, run)?;
        match &mut counts {
            Some(counts) => counts.merge(more)?,
            None => counts = Some(more),
        }
    }
    let counts = counts.ok_or_else(|| Error::argument("TEXTS", "there is none"))?;
    let vocabulary =
        Vocabulary::of(&counts, &Fold { min_count: arguments.min_count, size: arguments.vocabulary })?;
    Ok((counts, vocabulary))
}

fn train(arguments: &TrainArguments) -> Result<Exit> {
    output::refuse_stdout(&arguments.output, "model.zhat")?;
    let run = progress::attend(budgeted(&arguments.budget));
    let started = Instant::now();
    let context = usize::from(arguments.context);
    if arguments.objective != ObjectiveArgument::Lifted {
        return lm_baselines::train(arguments, &run);
    }
    let (counts, vocabulary) = counted(arguments, context, &run)?;
    let counting = started.elapsed().as_secs_f64();
    let moments = counts.moments(&vocabulary)?;
    drop(counts);
    let valid: Option<Moments> = match &arguments.valid {
        Some(path) => Some(text::count(path, context, &run)?.moments(&vocabulary)?),
        None => None,
    };
    let how = Training::default()
        .form(match usize::from(arguments.rank) {
            _ if arguments.full_rank => InteractionForm::Full,
            rank if arguments.rotations => InteractionForm::Rotated(rank),
            rank => InteractionForm::Products(rank),
        })
        .objective(match arguments.bound {
            BoundArgument::Spectral => Objective::Spectral(arguments.shares.clone()),
            BoundArgument::Star => Objective::Star,
        })
        .l2(arguments.l2.unwrap_or(Training::default().l2))
        .iterations(arguments.iterations)
        .patience(arguments.patience);
    let kept = arguments.checkpoint.as_deref();
    let from = kept.filter(|path| path.exists()).map(read_checkpoint).transpose()?;
    let (mut last, mut told, mut steps) = (Instant::now(), Instant::now(), None);
    let attention = signals::patient_attention();
    let model = language::train(&moments, &vocabulary, valid.as_ref(), &how, from, &run, &mut |now| {
        let progress = now.progress();
        steps = Some(progress);
        if told.elapsed() >= TOLD {
            eprintln!("{}", note(&progress));
            told = Instant::now();
        }
        if let Some(path) = kept
            && last.elapsed().as_secs_f64() >= arguments.keep_every
        {
            write_checkpoint(now, path)?;
            last = Instant::now();
        }
        Ok(true)
    })?;
    drop(attention);
    write_atomically(&arguments.output, |out| write_language_model(&model, out))?;
    let of = |moments: &Moments| model.evaluate(moments, &budgeted_again(&arguments.budget));
    let (own, other) = (of(&moments)?, valid.as_ref().map(of).transpose()?);
    let seconds = started.elapsed().as_secs_f64();
    let (iterations, best) = steps.map_or((0, 0), |progress| (progress.iteration, progress.best));
    if arguments.budget.json {
        let members = json!({
            "objective": "lifted", "tokens": moments.tokens(), "sentences": moments.sentences(), "states": moments.states(),
            "context": context, "rank": how.form.rank(), "l2": how.l2, "iterations": iterations, "best": best,
            "train": score_json(&own), "valid": other.as_ref().map(score_json),
            "seconds": {"counting": counting, "all": seconds},
        });
        output::print_object("lm train", members)?;
    } else {
        let size = match how.form {
            InteractionForm::Products(rank) => format!("embeddings of dimension {rank}"),
            InteractionForm::Rotated(rank) => {
                format!("embeddings of dimension {rank}, rotated for each distance")
            }
            InteractionForm::Full => "full matrices".into(),
        };
        let mut facts = vec![
            ("text", texts(&own)),
            ("model", format!("{} states, context {context}, {size}", moments.states())),
            ("training text", certified(&own)),
        ];
        if let Some(other) = &other {
            facts.push(("validation", certified(other)));
        }
        facts.extend([
            ("training", format!("{iterations} steps, best at step {best}; {}", units::seconds(seconds))),
            ("written", arguments.output.display().to_string()),
        ]);
        output::print(&output::facts(&facts))?;
    }
    Ok(output::ended())
}

/// A run without time and memory budgets for the final certificate, so that the time spent on training cannot
/// make it fail.
pub fn budgeted_again(arguments: &BudgetArguments) -> Run {
    let threads = arguments.threads.map_or(Run::default().threads(), usize::from);
    Run::default().with_threads(threads)
}

fn note(progress: &language::TrainingProgress) -> String {
    let valid = progress.valid.map_or_else(String::new, |valid| format!(", validation {valid:.4}"));
    format!("step {}: {:.4} nats per word{valid}", progress.iteration, progress.train)
}

pub fn texts(score: &TextScore) -> String {
    format!("{} words in {} sentences", score.tokens, score.sentences)
}

pub fn certified(score: &TextScore) -> String {
    format!("at least {} nats per word, certified", decimal::below(score.per_word().next_down(), 4))
}

pub fn score_json(score: &TextScore) -> Value {
    json!({
        "tokens": score.tokens, "sentences": score.sentences, "log_likelihood": json_number(score.log_likelihood),
        "per_word": json_number(score.per_word()), "guarantee": score.guarantee().to_json(), "rounding": score.rounding,
        "log_lengths": json_number(score.log_lengths),
    })
}

fn eval(arguments: &EvalArguments) -> Result<Exit> {
    let run = progress::attend(budgeted(&arguments.budget));
    let model = match read_any_language_model(&arguments.model)? {
        AnyLanguageModel::Field(model) => model,
        AnyLanguageModel::LogBilinear(model) => return lm_baselines::eval(&model, arguments, &run),
    };
    if arguments.pseudo && arguments.text == Path::new("-") {
        return Err(Error::argument("--pseudo", "reads the text twice, so it cannot be stdin"));
    }
    let counts = text::count(&arguments.text, model.mrf().context(), &run)?;
    let moments = counts.moments(model.vocabulary())?;
    let score = model.evaluate(&moments, &run)?;
    let annealed = match arguments.annealed {
        Some(levels) => {
            let how = Annealed::default().levels(levels.map(|levels| levels as usize));
            Some(model.annealed(&moments, &how, &run)?)
        }
        None => None,
    };
    let pseudo = if arguments.pseudo {
        let sentences = text::sentences(&arguments.text, model.vocabulary())?;
        Some(model.pseudo_log_likelihood(&sentences, &run)?)
    } else {
        None
    };
    if arguments.budget.json {
        let mut object = score_json(&score);
        object["pseudo_log_likelihood"] = pseudo.map(json_number).into();
        object["annealed_per_word"] = annealed.as_ref().map(AnnealedScore::per_word).map(json_number).into();
        object["annealed"] = annealed.as_ref().map(AnnealedScore::to_json).into();
        output::print_object("lm eval", object)?;
        return Ok(Exit::Answered);
    }
    let words = score.tokens as f64;
    let mut facts = vec![("text", texts(&score)), ("likelihood", certified(&score))];
    if score.log_lengths.is_finite() {
        facts.push(("lengths", format!("{:.4} nats per word", score.log_lengths / words)));
    }
    if let Some(pseudo) = pseudo {
        facts.push(("pseudo-likelihood", format!("{:.4} nats per word (not a likelihood)", pseudo / words)));
    }
    if let Some(annealed) = &annealed {
        facts.push(("annealed", annealed.to_string()));
        if let Some(warning) = annealed.warning() {
            facts.push(("warning", warning.to_owned()));
        }
    }
    output::print(&output::facts(&facts))?;
    Ok(Exit::Answered)
}

fn neighbours(arguments: &NeighboursArguments) -> Result<Exit> {
    let model = read_any_language_model(&arguments.model)?;
    let each = arguments.words.iter().map(|word| Ok((word, model.neighbours(word, arguments.count)?)));
    let each = each.collect::<Result<Vec<_>>>()?;
    if arguments.json {
        let words: Vec<Value> =
            each.iter().map(|(word, near)| json!({"word": word, "neighbours": near})).collect();
        let members = json!({
            "words": words,
        });
        output::print_object("lm neighbours", members)?;
        return Ok(Exit::Answered);
    }
    let line = |near: &[(String, f64)]| {
        near.iter().map(|(word, cosine)| format!("{word} {cosine:.2}")).collect::<Vec<_>>().join(", ")
    };
    let facts: Vec<(&str, String)> = each.iter().map(|(word, near)| (word.as_str(), line(near))).collect();
    output::print(&output::facts(&facts))?;
    Ok(Exit::Answered)
}

fn sample(arguments: &SentencesArguments) -> Result<Exit> {
    let run = progress::attend(budgeted(&arguments.budget));
    let model = read_any_language_model(&arguments.model)?;
    let lines = model.sample(arguments.count, arguments.sweeps, &run)?;
    let reason = match model {
        AnyLanguageModel::Field(_) => {
            "Gibbs sampling follows the model's distribution only after many sweeps"
        }
        AnyLanguageModel::LogBilinear(_) => "drawn word by word, in single precision",
    };
    if arguments.budget.json {
        let members = json!({
            "sentences": lines,
            "seed": run.seed(), "sweeps": arguments.sweeps,
            "guarantee": {"kind": "heuristic", "reason": reason},
        });
        output::print_object("lm sample", members)?;
    } else {
        output::print(&lines.iter().map(|line| format!("{line}\n")).collect::<String>())?;
    }
    Ok(Exit::Answered)
}

fn export(arguments: &ExportArguments) -> Result<Exit> {
    let model = read_any_language_model(&arguments.model)?;
    let named = arguments.output.extension().is_some_and(|extension| extension == "safetensors");
    let usual = if named { FormatArgument::Safetensors } else { FormatArgument::Word2vec };
    let format = arguments.format.unwrap_or(usual);
    let mut bytes = Vec::new();
    let safetensors = format == FormatArgument::Safetensors;
    model
        .write_embeddings(safetensors, &mut bytes)?
        .map_err(|source| Error::io(&arguments.output, source))?;
    if arguments.output != Path::new("-") {
        write_atomically(&arguments.output, |out| out.write_all(&bytes))?;
    } else if format == FormatArgument::Word2vec {
        output::print(&String::from_utf8_lossy(&bytes))?;
    } else {
        return Err(Error::argument(
            "--output",
            "safetensors is a binary format; expected a file, such as m.safetensors",
        ));
    }
    Ok(Exit::Answered)
}
