//! Descriptions of sentences without a tree: the longest part that a symbol covers, and where it stops.

use super::pass::Pass;
use super::solve::{Passes, best_of};
use super::{InsideOutside, NAME, TreeChoice};
use crate::error::{Error, Result};
use crate::method::dynamic::randomized::missed_warning;
use crate::model::Hypertree;
use crate::numeric::Real;
use crate::query::{Forecasts, Query};
use crate::run::{Clock, Run};

/// So many sentences are described; of the others the number is given.
const DESCRIBED: usize = 3;

/// A list names at most this many symbols or words.
const MOST_NAMED: usize = 8;

/// The error if no sentence has a tree. Without time or memory for a description it only names sentences.
pub fn error<F: Passes>(model: &Hypertree<F>, run: &Run, clock: &Clock<'_>) -> Error {
    let all: Vec<usize> = (0..model.batch()).collect();
    Error::NoTree(describe(model, &all, run, clock))
}

/// Replaces the error of a query without an answer.
pub fn described<F: Passes>(error: Error, model: &Hypertree<F>, run: &Run, clock: &Clock<'_>) -> Error {
    if matches!(error, Error::ZeroPartition) { self::error(model, run, clock) } else { error }
}

/// A warning about the sentences without a tree; `None` if all have one.
pub fn warning<F: Passes>(
    model: &Hypertree<F>,
    log_partition: &[f64],
    run: &Run,
    clock: &Clock<'_>,
) -> Option<String> {
    let none: Vec<usize> = (0..model.batch()).filter(|&b| log_partition[b] == f64::NEG_INFINITY).collect();
    (!none.is_empty()).then(|| describe(model, &none, run, clock))
}

/// A warning about the sentences whose estimate of Z is 0. If all symbols were kept, they have no tree.
pub fn warning_of_estimates<F: Passes>(
    model: &Hypertree<F>,
    log_partition: &[f64],
    all_kept: bool,
    run: &Run,
    clock: &Clock<'_>,
) -> Option<String> {
    if all_kept {
        return warning(model, log_partition, run, clock);
    }
    let missed: Vec<usize> = (0..model.batch()).filter(|&b| log_partition[b] == f64::NEG_INFINITY).collect();
    missed_warning(&missed, model.batch(), ("trees", "sentence", "symbols"))
}

fn describe<F: Passes>(model: &Hypertree<F>, none: &[usize], run: &Run, clock: &Clock<'_>) -> String {
    // The charts of a description have one number per span and symbol, as those of the best tree.
    let bytes = InsideOutside::default().tree(TreeChoice::Derivation).forecast(model, Query::Map, run).bytes;
    let fits = run.require_memory(NAME, bytes).is_ok();
    let one = |&b: &usize| {
        let reason = if fits { run.install(|| reason(model, b, clock)).ok() } else { None };
        let reason = reason.map_or(String::new(), |reason| format!("; {reason}"));
        format!("sentence {b} has no parse{reason}")
    };
    let mut all: Vec<String> = none.iter().take(DESCRIBED).map(one).collect();
    match none.len().saturating_sub(DESCRIBED) {
        0 => {}
        1 => all.push("1 more sentence has no parse".into()),
        more => all.push(format!("{more} more sentences have no parse")),
    }
    all.join(". ")
}

/// Why a sentence has no tree.
fn reason<F: Passes>(model: &Hypertree<F>, b: usize, clock: &Clock<'_>) -> Result<String> {
    let (pass, n) = (best_of(model, b, clock)?, model.lengths()[b]);
    let places = (0..n).rev().flat_map(|width| (0..n - width).map(move |i| (i, i + width)));
    let mut longest = None;
    for (i, j) in places {
        let symbols = visible(model, &*pass, b, i, j);
        if !symbols.is_empty() {
            longest = Some((i, j, symbols));
            break;
        }
    }
    let Some((i, j, symbols)) = longest else { return Ok("no symbol covers any of its words".into()) };
    let symbols = listed(symbols.into_iter().map(|k| symbol(model, k)), " or ");
    if j + 1 - i == n {
        let roots = model.root(b).iter().enumerate().filter(|(_, score)| **score > F::NEG_INFINITY);
        let roots: Vec<String> = roots.map(|(k, _)| symbol(model, k)).collect();
        return Ok(match roots.is_empty() {
            true => "no symbol can be the root".into(),
            false => {
                let roots = listed(roots.into_iter(), " or ");
                format!("all of its words together are {symbols}, but the root has to be {roots}")
            }
        });
    }
    let end = match j + 1 < n {
        true => format!("it stops before {}", words(model, b, j + 1, j + 1)),
        false => format!("it starts after {}", words(model, b, i - 1, i - 1)),
    };
    let scores = |word: usize| pass.scores((model, b), 0, word, word, false);
    let bare = (0..n).find(|&word| scores(word).iter().all(|x| *x == f64::NEG_INFINITY));
    let bare =
        bare.map_or(String::new(), |word| format!("; no symbol covers {}", words(model, b, word, word)));
    Ok(format!(
        "the longest part that a symbol covers is {}, as {symbols}; {end}{bare}",
        words(model, b, i, j)
    ))
}

/// The symbols that cover words i … j, without those that printed trees leave out.
fn visible<F: Real>(model: &Hypertree<F>, pass: &dyn Pass<F>, b: usize, i: usize, j: usize) -> Vec<usize> {
    let shown = |k: &usize| model.names().is_none_or(|names| names.hidden.binary_search(k).is_err());
    let scores = pass.scores((model, b), 0, i, j, false);
    (0..scores.len()).filter(|&k| scores[k] > f64::NEG_INFINITY).filter(shown).collect()
}

fn symbol<F: Real>(model: &Hypertree<F>, k: usize) -> String {
    model.names().map_or_else(|| format!("symbol {k}"), |names| names.symbols[k].clone())
}

/// `word 3 (with)`, or `words 0 to 2 (I saw stars)`.
fn words<F: Real>(model: &Hypertree<F>, b: usize, i: usize, j: usize) -> String {
    let numbers = if i == j { format!("word {i}") } else { format!("words {i} to {j}") };
    let Some(names) = model.names() else { return numbers };
    let shown = match &names.words[b][i..=j] {
        all if all.len() <= MOST_NAMED => all.join(" "),
        all => {
            let (first, last) = (&all[..MOST_NAMED / 2], &all[all.len() - MOST_NAMED / 2..]);
            format!("{} … {}", first.join(" "), last.join(" "))
        }
    };
    format!("{numbers} ({shown})")
}

fn listed(names: impl ExactSizeIterator<Item = String>, last: &str) -> String {
    let more = names.len().saturating_sub(MOST_NAMED);
    let mut names: Vec<String> = names.take(MOST_NAMED).collect();
    if more > 0 {
        names.push(format!("{more} more"));
    }
    match names.pop() {
        Some(end) if !names.is_empty() => format!("{}{last}{end}", names.join(", ")),
        only => only.unwrap_or_default(),
    }
}
