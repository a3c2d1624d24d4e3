//! Cost of language models: counting and one training step, for a text once and repeated ten times, and one
//! pass over full matrices compared with the memory bandwidth.

use std::io::Write;
use std::time::Instant;

use zhat::cycle::Star;
use zhat::learn::language::text;
use zhat::learn::language::{self, InteractionForm, Training, Vocabulary};
use zhat::model::generate::{self, SequenceMrfShape};
use zhat::{Error, LogPartition, Result};

use super::lifted::{RANK, Treebank};
use super::{Setting, header, line, short};
use crate::output;

/// Each time is the best of this many runs. Times of about a tenth of a second use more runs, because other
/// programs compete for the memory bandwidth.
const TIMES: usize = 5;
const SHORT_TIMES: usize = 25;
/// Number of repetitions of the text.
const COPIES: usize = 10;

fn best(times: usize, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..times {
        let started = Instant::now();
        work()?;
        best = best.min(started.elapsed().as_secs_f64());
    }
    Ok(best)
}

/// Seconds for all threads to read the entries of some matrices once, with almost no computation.
fn reading(matrices: &[Vec<f32>], threads: usize) -> Result<f64> {
    best(SHORT_TIMES, || {
        for matrix in matrices {
            let part = matrix.len().div_ceil(threads).max(1);
            std::thread::scope(|scope| {
                for part in matrix.chunks(part) {
                    scope.spawn(move || {
                        let mut bits = [0u32; 64];
                        for piece in part.as_chunks::<64>().0 {
                            bits.iter_mut().zip(piece).for_each(|(bits, x)| *bits ^= x.to_bits());
                        }
                        std::hint::black_box(bits)
                    });
                }
            });
        }
        Ok(())
    })
}

pub fn run(setting: &Setting<'_>) -> Result<()> {
    let (states, context) = (if setting.quick { 2000 } else { 10_000 }, 2);
    let shape = SequenceMrfShape { length: 1_000_000, states, context, ..Default::default() };
    let model = generate::sequence_mrf(&shape, 1)?;
    let zhat::model::Interactions::Full(matrices) = model.interactions() else {
        return Err(Error::argument("shape", "full matrices were expected"));
    };
    let gigabytes = 4e-9 * (context * states * states) as f64;
    let bare = reading(matrices, setting.run.threads())?;
    let pass = Star::default().iterations(0);
    let pass = best(SHORT_TIMES, || pass.log_partition(&model, &setting.run).map(|_| ()))?;
    output::print(&format!(
        "One evaluation of the certified bound with full matrices, {states} states, K = {context}: {} s, {:.1} GB/s. Reading the matrices alone: {} s, {:.1} GB/s. Share of the bandwidth: {:.0}%.\n\n",
        short(pass),
        gigabytes / pass,
        short(bare),
        gigabytes / bare,
        100.0 * bare / pass
    ))?;
    drop(model);
    let treebank = Treebank::open(setting)?;
    let once = std::fs::read(&treebank.train).map_err(|source| Error::io(&treebank.train, source))?;
    let many = std::env::temp_dir().join(format!("zhat-treebank-{}.txt", std::process::id()));
    let write = || -> std::io::Result<()> {
        let mut out = std::fs::File::create(&many)?;
        (0..COPIES).try_for_each(|_| out.write_all(&once))
    };
    write().map_err(|source| Error::io(&many, source))?;
    let told = table(setting, &treebank, &[(1, &treebank.train), (COPIES, &many)]);
    let _ = std::fs::remove_file(&many);
    told
}

fn table(setting: &Setting<'_>, treebank: &Treebank, texts: &[(usize, &std::path::PathBuf)]) -> Result<()> {
    output::print(&header(&["text", "words", "counting", "words per second", "K", "training step"]))?;
    for context in [1, 2] {
        for (copies, path) in texts {
            let mut counts = None;
            let counting = best(TIMES, || {
                counts = Some(text::count(path, context, &setting.run)?);
                Ok(())
            })?;
            let counts = counts.ok_or_else(|| Error::argument("text", "was not counted"))?;
            let vocabulary: &Vocabulary = &treebank.vocabulary;
            let moments = counts.moments(vocabulary)?;
            let steps = if setting.quick { 4 } else { 12 };
            let how = Training::default().form(InteractionForm::Products(RANK)).iterations(steps).l2(0.0);
            let mut times = Vec::new();
            let mut last = Instant::now();
            language::train(&moments, vocabulary, None, &how, None, &setting.run, &mut |_| {
                times.push(last.elapsed().as_secs_f64());
                last = Instant::now();
                Ok(true)
            })?;
            // Skips the first steps, which include the line search.
            let least = times.iter().skip(2).copied().fold(f64::INFINITY, f64::min);
            output::print(&line(&[
                if *copies == 1 { "once".into() } else { format!("{copies} times") },
                counts.tokens().to_string(),
                format!("{} s", short(counting)),
                format!("{:.1} M", 1e-6 * counts.tokens() as f64 / counting),
                context.to_string(),
                format!("{} s", short(least)),
            ]))?;
        }
    }
    Ok(())
}
