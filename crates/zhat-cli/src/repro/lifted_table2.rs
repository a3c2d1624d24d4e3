//! Jernite, Rush & Sontag (2015), Table 2: tagging accuracy of the joint model and of a hidden Markov model, in total
//! and on unseen words.

use std::path::PathBuf;
use std::time::Instant;

use zhat::internal::decimal;
use zhat::learn::tag::joint::{Bound, MarkovTagger, Moments, TagScore, Training, train};
use zhat::learn::tag::{Corpus, ReadOptions};
use zhat::{Error, Result};

use super::{Setting, header, line, short};
use crate::output;

/// The number of sentences of every part with `--quick`.
const QUICK: usize = 1000;

/// The corpora of one column of tags.
struct Treebank {
    /// The text of the training corpus.
    text: String,
    options: ReadOptions,
    train: Corpus,
    dev: Corpus,
    test: Corpus,
}

impl Treebank {
    fn open(column: &str, quick: bool) -> Result<Self> {
        let folder = std::env::var_os("ZHAT_DATA").map(PathBuf::from).ok_or_else(|| {
            let message = "is not set: it must name a folder with data/ud-ewt/en_ewt-ud-train.conllu, en_ewt-ud-dev.conllu and en_ewt-ud-test.conllu";
            Error::argument("ZHAT_DATA", message)
        })?;
        let folder = folder.join("data/ud-ewt");
        let options = ReadOptions::default().column(Some(column.into()));
        let read = |part: &str| -> Result<(String, Corpus)> {
            let path = folder.join(format!("en_ewt-ud-{part}.conllu"));
            let mut text = std::fs::read_to_string(&path).map_err(|source| Error::io(&path, source))?;
            if quick {
                let ends = text.match_indices("\n\n").map(|(at, end)| at + end.len());
                text.truncate(ends.take(QUICK).last().unwrap_or(text.len()));
            }
            let corpus = Corpus::parse(text.clone(), &path.display().to_string(), &options)?;
            Ok((text, corpus))
        };
        let (text, train) = read("train")?;
        let (dev, test) = (read("dev")?.1, read("test")?.1);
        Ok(Treebank { text, options, train, dev, test })
    }
}

fn percent(share: f64) -> String {
    format!("{:.2}", 100.0 * share)
}

/// The cells of a row: name, accuracies, certified likelihoods, steps, seconds.
fn row(name: &str, score: &TagScore, likelihoods: [String; 3], steps: &str, seconds: f64) -> Result<()> {
    let [exact, cover, star] = likelihoods;
    output::print(&line(&[
        name.into(),
        percent(score.accuracy()),
        percent(score.unseen_accuracy()),
        exact,
        cover,
        star,
        steps.into(),
        short(seconds),
    ]))
}

/// Trains one form of the model and prints its row.
fn joint(name: &str, treebank: &Treebank, how: &Training, setting: &Setting<'_>) -> Result<()> {
    let started = Instant::now();
    let mut seconds = 0.0;
    let tagger = train(&treebank.train, Some(&treebank.dev), how, None, &setting.run, &mut |_| {
        seconds = started.elapsed().as_secs_f64();
        Ok(true)
    })?;
    let score = tagger.evaluate(&treebank.test, &setting.run)?;
    let certified = |bound: Bound| match tagger.trained().log_likelihood(bound) {
        Some(value) => decimal::below(value, 4),
        None => "does not apply".into(),
    };
    let steps = tagger.trained().steps.to_string();
    row(name, &score, Bound::ALL.map(certified), &steps, seconds)
}

pub fn run(setting: &Setting<'_>) -> Result<()> {
    let columns: &[&str] = if setting.quick { &["upos"] } else { &["xpos", "upos"] };
    let how = Training::default();
    let how = if setting.quick { how.iterations(10).certifying(5) } else { how };
    for column in columns {
        let treebank = Treebank::open(column, setting.quick)?;
        let part =
            if setting.quick { format!(", at most {QUICK} sentences per part") } else { String::new() };
        output::print(&format!(
            "English-EWT, {}{part}: {} training tokens, {} test tokens. Accuracy on the test corpus in percent, in total and on words that the training corpus does \
             not have; certified log-likelihood of the training corpus in nats per token by each bound. The paper has the Penn Treebank, whose tags are not free.\n\n{}",
            column.to_uppercase(),
            treebank.train.tokens(),
            treebank.test.tokens(),
            header(&["model", "total", "unseen", "exact", "cover", "star", "steps", "seconds"])
        ))?;
        let started = Instant::now();
        let baseline = MarkovTagger::train(&treebank.train)?;
        let score = baseline.evaluate(&treebank.test, &setting.run)?;
        let none = || [String::new(), String::new(), String::new()];
        row("HMM, order 1", &score, none(), "", started.elapsed().as_secs_f64())?;
        joint("joint, K = 1, L = 1", &treebank, &how, setting)?;
        joint("joint, K = 1, L = 3, exact", &treebank, &how.clone().window(3), setting)?;
        let cover = how.clone().window(3).bound(Some(Bound::Cover));
        joint("joint, K = 1, L = 3, cover", &treebank, &cover, setting)?;
        let star = how.clone().window(3).bound(Some(Bound::Star));
        joint("joint, K = 1, L = 3, star", &treebank, &star, setting)?;
        for (name, total, unseen) in [("paper: HMM", "95.8", "65.4"), ("paper: lifted", "96.0", "76.0")] {
            let mut cells = vec![name.to_owned(), total.into(), unseen.into()];
            cells.resize(8, String::new());
            output::print(&line(&cells))?;
        }
        output::print("\n")?;
    }
    cost(setting)
}

/// The time of a step for the training corpus and for ten copies of it.
fn cost(setting: &Setting<'_>) -> Result<()> {
    const STEPS: usize = 8;
    let treebank = Treebank::open("upos", setting.quick)?;
    output::print(&format!(
        "Time of one training step, UPOS, K = L = 1.\n\n{}",
        header(&[
            "corpus",
            "tokens",
            "different counts",
            "seconds before the first step",
            "seconds per step"
        ])
    ))?;
    for (name, copies) in [("English-EWT", 1), ("ten copies", 10)] {
        let corpus = Corpus::parse(treebank.text.repeat(copies), "copies.conllu", &treebank.options)?;
        // The vocabulary must not depend on the number of copies.
        let how = Training::default().min_count(1).iterations(STEPS).certifying(0);
        let started = Instant::now();
        let (mut first, mut last) = (0.0, 0.0);
        let tagger = train(&corpus, None, &how, None, &setting.run, &mut |now| {
            last = started.elapsed().as_secs_f64();
            if now.progress().iteration == 1 {
                first = last;
            }
            Ok(true)
        })?;
        let step = (last - first) / (STEPS - 1) as f64;
        let moments = Moments::of(&corpus, tagger.tags(), tagger.lexicon(), 1)?;
        output::print(&line(&[
            name.into(),
            corpus.tokens().to_string(),
            moments.distinct().to_string(),
            short((first - step).max(0.0)),
            short(step),
        ]))?;
    }
    Ok(())
}
