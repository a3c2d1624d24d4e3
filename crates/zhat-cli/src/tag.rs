//! `zhat tag`: trains and evaluates taggers, and tags files.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use zhat::internal::io::{compressed, write_atomically};
use zhat::internal::training::{Kept, require_step};
use zhat::internal::units;
use zhat::io::table::cell;
use zhat::learn::tag::file::{read_tagger_checkpoint, write_tagger, write_tagger_checkpoint};
use zhat::learn::tag::{
    AnyTagger, Corpus, Evaluation, Examples, Format, Hits, Learning, ReadOptions, Stream, TagCounts,
    TagOptimizer, Tagger, TaggerCheckpoint, Template, evaluate, train, train_file,
};
use zhat::{Error, Result};

use crate::output::{self, Exit, json_number};
use crate::query::budgeted;
use crate::tag_arguments::{
    TagArguments, TagCommand, TagEvalArguments, TagFeaturesArguments, TagObjectiveArgument,
    TagPredictArguments, TagReadArguments, TagTrainArguments,
};
use crate::{chart, progress, signals, tag_joint};

/// Interval between progress lines.
const TOLD: Duration = Duration::from_secs(10);

/// What is written during training: progress lines on stderr, and the checkpoint.
pub struct Told<'a, C> {
    last: Instant,
    pub kept: Kept<'a, C>,
}

impl<'a, C: Clone> Told<'a, C> {
    pub fn new(arguments: &'a TagTrainArguments, write: fn(&C, &Path) -> Result<()>) -> Self {
        let kept = Kept::new(arguments.checkpoint.as_deref(), arguments.keep_every, write);
        Told { last: Instant::now(), kept }
    }

    /// Reports a step; `objective` is its text, and `valid` that of the validation data.
    pub fn step(
        &mut self,
        now: &C,
        step: usize,
        gradient: f64,
        valid: Option<String>,
        objective: impl FnOnce() -> String,
    ) -> Result<bool> {
        if self.last.elapsed() >= TOLD {
            let (objective, valid) = (objective(), valid.unwrap_or_default());
            eprintln!("step {step}: objective {objective}, largest gradient {gradient:.1e}{valid}");
            self.last = Instant::now();
        }
        self.kept.step(now)?;
        Ok(true)
    }
}

pub fn run(arguments: &TagArguments) -> Result<Exit> {
    match &arguments.command {
        TagCommand::Train(arguments) => train_tagger(arguments),
        TagCommand::Predict(arguments) => predict(arguments),
        TagCommand::Eval(arguments) => eval(arguments),
        TagCommand::Features(arguments) => features(arguments),
    }
}

fn options(arguments: &TagReadArguments, tagged: bool) -> Result<ReadOptions> {
    let format = arguments.format.as_deref().map(Format::named).transpose()?;
    Ok(ReadOptions::default()
        .format(format)
        .column(arguments.column.clone())
        .word(arguments.word_column.clone())
        .sequence(arguments.sequence.clone())
        .tagged(tagged))
}

fn template(arguments: &TagTrainArguments, format: Format) -> Result<Template> {
    match &arguments.features {
        Some(features) => Template::parse(features),
        None if format == Format::Crfsuite => Template::parse("attributes"),
        None => Template::parse(&format!("appendix-b:{}", arguments.words)),
    }
}

/// The training data.
enum Data {
    Whole(Box<Examples>),
    /// A file that is read in blocks.
    Blocks(Stream, Template),
}

fn train_tagger(arguments: &TagTrainArguments) -> Result<Exit> {
    output::refuse_stdout(&arguments.output, "model.zhat")?;
    if arguments.objective == TagObjectiveArgument::Joint {
        return tag_joint::train_joint(arguments, &options(&arguments.read, true)?);
    }
    tag_joint::refuse_joint(arguments)?;
    let run = progress::attend(budgeted(&arguments.budget));
    let started = Instant::now();
    let read = options(&arguments.read, true)?;
    let optimizer = TagOptimizer::named(&arguments.optimizer)?;
    if arguments.rate.is_some() && optimizer != TagOptimizer::Sgd {
        return Err(Error::argument("--rate", "is the step size of --optimizer sgd"));
    }
    let data = match optimizer {
        TagOptimizer::Sgd => {
            let stream = Stream::new(&arguments.file, read.clone(), arguments.block as usize)?;
            let template = template(arguments, stream.format()?)?;
            Data::Blocks(stream, template)
        }
        _ => {
            let corpus = Corpus::read(&arguments.file, &read)?;
            let template = template(arguments, corpus.format())?;
            Data::Whole(Box::new(Examples::of(&corpus, &template, arguments.hash_bits)?))
        }
    };
    let valid = arguments.valid.as_deref().map(|path| Corpus::read(path, &read)).transpose()?;
    let usual = Learning::default();
    let how = usual
        .l1(arguments.l1.unwrap_or(usual.l1))
        .l2(arguments.l2.unwrap_or(usual.l2))
        .context(arguments.context)
        .min_count(arguments.min_count.unwrap_or(usual.min_count))
        .all_possible(arguments.all_possible)
        .iterations(arguments.iterations.unwrap_or(usual.iterations))
        .delta(arguments.delta.unwrap_or(usual.delta))
        .period(arguments.period.unwrap_or(usual.period))
        .patience(arguments.patience.unwrap_or(usual.patience))
        .optimizer(optimizer)
        .batch(arguments.batch)
        .rate(arguments.rate.unwrap_or(0.0));
    let mut told = Told::new(arguments, write_tagger_checkpoint);
    let from = told.kept.found(read_tagger_checkpoint)?;
    let reading = started.elapsed().as_secs_f64();
    let attention = signals::patient_attention();
    let encode = |tagger: &Tagger| match &valid {
        Some(corpus) => tagger.inputs(corpus),
        None => Err(Error::argument("--valid", "is missing")),
    };
    let valid_data: Option<&zhat::learn::tag::Valid<'_>> = if valid.is_some() { Some(&encode) } else { None };
    let mut watch = |now: &TaggerCheckpoint| {
        let progress = now.progress();
        let valid = progress.valid.map(|loss| format!(", validation log-loss {loss:.5} per token"));
        told.step(now, progress.step, progress.stationarity, valid, || format!("{:.3}", progress.objective))
    };
    let tagger = match data {
        Data::Whole(examples) => train(*examples, &how, valid_data, from, &run, &mut watch)?,
        Data::Blocks(stream, template) => {
            train_file(&stream, &template, arguments.hash_bits, &how, valid_data, from, &run, &mut watch)?
        }
    };
    drop(attention);
    told.kept.finish()?;
    let training = tagger.training().clone();
    require_step(training.steps, how.iterations, &run)?;
    write_atomically(&arguments.output, |out| write_tagger(&tagger, out))?;
    let seconds = started.elapsed().as_secs_f64();
    if arguments.budget.json {
        let valid = training.valid.map(|(step, loss)| json!({"step": step, "log_loss": json_number(loss)}));
        output::print_object(
            "tag train",
            json!({
                "sentences": training.sentences, "tokens": training.tokens, "tags": tagger.tags().len(),
                "attributes": tagger.attributes(), "parameters": tagger.parameters().len(),
                "nonzero": tagger.nonzero(), "collisions": training.collisions, "context": tagger.context(),
                "l1": how.l1, "l2": how.l2, "steps": training.steps,
                "objective": json_number(training.objective), "converged": training.converged,
                "valid": valid, "reading_seconds": reading, "seconds": seconds,
            }),
        )?;
        return Ok(output::ended());
    }
    let mut facts = vec![
        (
            "data",
            format!(
                "{}, {}",
                units::count(training.sentences, "sentence"),
                units::count(training.tokens, "token")
            ),
        ),
        (
            "model",
            format!(
                "{}, {}, {}, {} of them not 0",
                units::count(tagger.tags().len(), "tag"),
                units::count(tagger.attributes(), "attribute"),
                units::count(tagger.parameters().len(), "parameter"),
                tagger.nonzero()
            ),
        ),
    ];
    if arguments.hash_bits.is_some() {
        facts.push((
            "collisions",
            format!("{} attributes share a bucket with an earlier one", training.collisions),
        ));
    }
    let steps = if optimizer == TagOptimizer::Sgd { "epoch" } else { "step" };
    let steps = units::count(training.steps, steps);
    let late = if training.converged { "" } else { " (not converged)" };
    facts.push(("objective", format!("{:.6}{late}", training.objective)));
    if let Some((step, loss)) = training.valid {
        facts.push(("validation", format!("log-loss {loss:.6} per token, at step {step}")));
    }
    facts.extend([
        ("training", format!("{steps}, {}", units::seconds(seconds))),
        ("written", arguments.output.display().to_string()),
    ]);
    output::print(&output::facts(&facts))?;
    Ok(output::ended())
}

fn forbid(tagger: &mut Tagger, texts: &[String]) -> Result<()> {
    let mut pairs = Vec::new();
    for text in texts {
        let pair = text.split_once(',').ok_or_else(|| {
            Error::argument("--forbid", format!("expected two tags such as O,I-NP, found `{text}`"))
        })?;
        pairs.push(pair);
    }
    tagger.forbid(&pairs)
}

fn predict(arguments: &TagPredictArguments) -> Result<Exit> {
    let run = progress::attend(budgeted(&arguments.budget));
    let mut tagger = AnyTagger::read(&arguments.model)?.given_words()?;
    forbid(&mut tagger, &arguments.forbid)?;
    let corpus = Corpus::read(&arguments.file, &options(&arguments.read, !arguments.untagged)?)?;
    let inputs = tagger.inputs(&corpus)?;
    if inputs.unseen_tags() > 0 && arguments.known {
        let count = inputs.unseen_tags();
        let (unseen, they) = (unseen_tags(count), if count == 1 { "it is" } else { "they are" });
        eprintln!("zhat: warning: {unseen}; {they} tagged anew");
    }
    let mut bytes = Vec::new();
    let mut members = json!({});
    if let Some(k) = arguments.best {
        let all = tagger.best(&inputs, k as usize, arguments.known, &run)?;
        let mut text = String::from("sentence,rank,log_probability,tags\n");
        let mut rows = Vec::new();
        for (sentence, ranked) in all.iter().enumerate() {
            for (rank, one) in ranked.iter().enumerate() {
                let tags = tagger.names(&one.tags);
                text += &format!(
                    "{},{},{},{}\n",
                    sentence + 1,
                    rank + 1,
                    one.log_probability,
                    cell(&tags.join(" "))
                );
                rows.push(json!({
                    "sentence": sentence + 1, "rank": rank + 1,
                    "log_probability": json_number(one.log_probability), "tags": tags,
                }));
            }
        }
        bytes.extend_from_slice(text.as_bytes());
        members = json!({"sequences": rows});
    } else if arguments.marginals {
        let all = tagger.marginals(&inputs, arguments.known, &run)?;
        let names = tagger.tags().names();
        let mut text = String::from("sentence,token,word");
        names.iter().for_each(|name| text += &format!(",{}", cell(name)));
        text.push('\n');
        let mut rows = Vec::new();
        for (sentence, own) in corpus.sentences().zip(&all) {
            for (token, row) in own.chunks_exact(names.len()).enumerate() {
                let word = sentence.word(token);
                text += &format!("{},{},{}", sentence.number() + 1, token + 1, cell(word));
                row.iter().for_each(|p| text += &format!(",{p}"));
                text.push('\n');
                if arguments.budget.json {
                    let each = names.iter().cloned().zip(row.iter().map(|p| json!(p)));
                    let each = Value::Object(each.collect());
                    let (number, token) = (sentence.number() + 1, token + 1);
                    rows.push(json!({"sentence": number, "token": token, "word": word, "tags": each}));
                }
            }
        }
        bytes.extend_from_slice(text.as_bytes());
        members = json!({"tokens": rows});
    } else {
        let predicted = match arguments.known {
            true => tagger.predict_known(&inputs, &run)?,
            false => tagger.predict(&inputs, &run)?,
        };
        let tags: Vec<Vec<&str>> = predicted.iter().map(|tags| tagger.names(tags)).collect();
        if arguments.budget.json {
            members = json!({"sentences": tags});
        } else {
            corpus.write(&tags, &mut bytes).map_err(|source| Error::io(&arguments.output, source))?;
        }
    }
    if arguments.budget.json {
        output::print_object("tag predict", members)?;
    } else if arguments.output == Path::new("-") {
        output::print(&String::from_utf8_lossy(&bytes))?;
    } else {
        let bytes = compressed(&arguments.output, bytes)?;
        write_atomically(&arguments.output, |out| out.write_all(&bytes))?;
    }
    Ok(Exit::Answered)
}

/// `1 token has a tag that training never saw`.
fn unseen_tags(count: usize) -> String {
    let have = if count == 1 { "has" } else { "have" };
    format!("{} {have} a tag that training never saw", units::count(count, "token"))
}

fn percent(hits: &Hits) -> String {
    match hits.all {
        0 => "none".into(),
        all => format!("{:.2}% of {all}", 100.0 * hits.accuracy()),
    }
}

fn table(name: &str, rows: &[TagCounts]) -> String {
    let row = |one: &TagCounts| {
        vec![
            one.tag.clone(),
            format!("{:.4}", one.precision()),
            format!("{:.4}", one.recall()),
            format!("{:.4}", one.f1()),
            one.observed.to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = rows.iter().map(row).collect();
    output::table(&[name, "precision", "recall", "F1", "observed"], &rows, 1)
}

fn eval(arguments: &TagEvalArguments) -> Result<Exit> {
    if let Some(path) = &arguments.confusion {
        output::refuse_stdout(path, "confusion.svg")?;
    }
    let run = progress::attend(budgeted(&arguments.budget));
    let mut tagger = AnyTagger::read(&arguments.model)?.given_words()?;
    forbid(&mut tagger, &arguments.forbid)?;
    let corpus = Corpus::read(&arguments.file, &options(&arguments.read, true)?)?;
    // Tagging starts with the text of the attributes.
    let started = Instant::now();
    let inputs = tagger.inputs(&corpus)?;
    let predicted = tagger.predict(&inputs, &run)?;
    let seconds = started.elapsed().as_secs_f64();
    let tags: Vec<Vec<&str>> = predicted.iter().map(|tags| tagger.names(tags)).collect();
    let known = |tag: &str| tagger.tags().number(tag).is_some();
    let found = evaluate(&corpus, &tags, tagger.words(), known)?;
    let log_loss = tagger.log_loss(&inputs, &run)?;
    if let Some(path) = &arguments.confusion {
        let svg = confusion(&found);
        write_atomically(path, |out| out.write_all(svg.as_bytes()))?;
    }
    if arguments.budget.json {
        let hits = |hits: &Option<Hits>| hits.as_ref().map(|hits| json!(hits.accuracy()));
        let counts = |one: &TagCounts| {
            json!({
                "tag": one.tag, "precision": one.precision(), "recall": one.recall(), "f1": one.f1(),
                "observed": one.observed, "predicted": one.predicted, "correct": one.correct,
            })
        };
        let members = json!({
            "tokens": found.total.all, "accuracy": found.total.accuracy(), "seen_accuracy": hits(&found.seen),
            "unseen_accuracy": hits(&found.unseen), "unseen_words": found.unseen.map(|hits| hits.all),
            "sentence_accuracy": found.sentences.accuracy(), "unseen_tags": found.unseen_tags,
            "log_loss": log_loss.map(json_number), "tags": found.tags.iter().map(counts).collect::<Vec<_>>(),
            "confusion": found.confusion, "spans": found.spans.as_ref().map(counts),
            "span_types": found.span_types.iter().map(counts).collect::<Vec<_>>(), "seconds": seconds,
        });
        output::print_object("tag eval", members)?;
        return Ok(Exit::Answered);
    }
    let mut facts = vec![("accuracy", percent(&found.total))];
    if let (Some(seen), Some(unseen)) = (&found.seen, &found.unseen) {
        facts.extend([("seen words", percent(seen)), ("unseen words", percent(unseen))]);
    }
    facts.push(("whole sentences", percent(&found.sentences)));
    if found.unseen_tags > 0 {
        facts.push(("unseen tags", unseen_tags(found.unseen_tags)));
    }
    if let Some(log_loss) = log_loss {
        facts.push(("log-loss", format!("{log_loss:.5} nats per token")));
    }
    let mut text = output::facts(&facts);
    text += &format!("\n{}", table("tag", &found.tags));
    if let Some(all) = &found.spans {
        let mut rows = found.span_types.clone();
        rows.push(all.clone());
        text += &format!("\n{}", table("span", &rows));
    }
    output::print(&text)?;
    Ok(Exit::Answered)
}

/// The confusion matrix as SVG: one row per observed tag, shaded by the share of every predicted tag.
fn confusion(found: &Evaluation) -> String {
    const SIDE: usize = 18;
    const MARGIN: usize = 90;
    let names: Vec<&str> = found.tags.iter().map(|one| one.tag.as_str()).collect();
    let place = |tag: &str| names.iter().position(|name| *name == tag).unwrap_or(0);
    let size = MARGIN + SIDE * names.len() + 10;
    let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{size}\" height=\"{size}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"{size}\" height=\"{size}\" fill=\"white\"/>\n\
         <text x=\"4\" y=\"14\">observed (rows), predicted (columns)</text>\n"
    );
    for (at, name) in names.iter().enumerate() {
        let (name, middle) = (escaped(name), MARGIN + SIDE * at + SIDE / 2);
        svg += &format!(
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{name}</text>\n<text transform=\"translate({},{}) \
             rotate(-90)\">{name}</text>\n",
            MARGIN - 4,
            middle + 4,
            middle + 4,
            MARGIN - 4
        );
    }
    for (observed, predicted, count) in &found.confusion {
        let (row, column) = (place(observed), place(predicted));
        let share = *count as f64 / found.tags[row].observed.max(1) as f64;
        // Light for rare, dark for frequent.
        let colour = chart::shade(1.0 - share.sqrt());
        svg += &format!(
            "<rect x=\"{}\" y=\"{}\" width=\"{SIDE}\" height=\"{SIDE}\" fill=\"#{:02x}{:02x}{:02x}\"><title>{} as {}: \
             {count}</title></rect>\n",
            MARGIN + SIDE * column,
            MARGIN + SIDE * row,
            colour.0,
            colour.1,
            colour.2,
            escaped(observed),
            escaped(predicted)
        );
    }
    svg + "</svg>\n"
}

fn features(arguments: &TagFeaturesArguments) -> Result<Exit> {
    let tagger = AnyTagger::read(&arguments.model)?.given_words()?;
    let top = tagger.top(arguments.top);
    if arguments.json {
        let each = |one: &zhat::learn::tag::Weight| json!({"feature": one.feature, "tag": one.tag, "weight": one.value, "transition": one.transition});
        let members = json!({"parameters": tagger.parameters().len(), "nonzero": tagger.nonzero(),
            "features": top.iter().map(each).collect::<Vec<_>>()});
        output::print_object("tag features", members)?;
        return Ok(Exit::Answered);
    }
    let row = |one: &zhat::learn::tag::Weight| {
        let kind = if one.transition { "transition" } else { "attribute" };
        vec![format!("{:+.4}", one.value), kind.into(), one.feature.clone(), one.tag.clone()]
    };
    let rows: Vec<Vec<String>> = top.iter().map(row).collect();
    output::print(&output::table(&["weight", "kind", "feature", "tag"], &rows, 1))?;
    Ok(Exit::Answered)
}
