//! Descriptions of sentences without a dependency tree: words without a possible head.

use crate::error::Error;
use crate::method::dynamic::randomized::missed_warning;
use crate::model::DependencyTree;
use crate::numeric::Real;

/// So many sentences are described; of the others the number is given.
const DESCRIBED: usize = 3;

/// Replaces the error of a query without an answer.
pub fn described<F: Real>(error: Error, model: &DependencyTree<F>) -> Error {
    let all: Vec<usize> = (0..model.batch()).collect();
    if matches!(error, Error::ZeroPartition) { Error::NoTree(describe(model, &all)) } else { error }
}

/// A warning about the sentences without a tree; `None` if all have one.
pub fn warning<F: Real>(model: &DependencyTree<F>, log_partition: &[f64]) -> Option<String> {
    let none: Vec<usize> = (0..model.batch()).filter(|&b| log_partition[b] == f64::NEG_INFINITY).collect();
    (!none.is_empty()).then(|| describe(model, &none))
}

/// A warning about the sentences whose estimate of Z is 0. Those with no more than `count` words have no tree, because
/// all of their heads were kept.
pub fn warning_of_estimates<F: Real>(
    model: &DependencyTree<F>,
    log_partition: &[f64],
    count: usize,
) -> Option<String> {
    let missed = (0..model.batch()).filter(|&b| log_partition[b] == f64::NEG_INFINITY);
    let (none, missed): (Vec<usize>, Vec<usize>) = missed.partition(|&b| model.lengths()[b] <= count);
    let proven = (!none.is_empty()).then(|| describe(model, &none));
    let missed = missed_warning(&missed, model.batch(), ("trees", "sentence", "heads per word"));
    let warnings: Vec<String> = proven.into_iter().chain(missed).collect();
    (!warnings.is_empty()).then(|| warnings.join(". "))
}

fn describe<F: Real>(model: &DependencyTree<F>, none: &[usize]) -> String {
    let one = |&b: &usize| format!("sentence {b} has no tree; {}", reason(model, b));
    let mut all: Vec<String> = none.iter().take(DESCRIBED).map(one).collect();
    match none.len().saturating_sub(DESCRIBED) {
        0 => {}
        1 => all.push("1 more sentence has no tree".into()),
        more => all.push(format!("{more} more sentences have no tree")),
    }
    all.join(". ")
}

/// Why a sentence has no tree.
fn reason<F: Real>(model: &DependencyTree<F>, b: usize) -> String {
    let n = model.lengths()[b];
    let possible = |head: usize, d: usize| model.arc_from(b, head, d).iter().any(|x| *x > F::NEG_INFINITY);
    let headless = (0..n).find(|&d| !(0..=n).any(|head| head != d + 1 && possible(head, d)));
    if let Some(d) = headless {
        return format!("word {d} has no possible head: its scores in arcs and roots are all −∞");
    }
    if !(0..n).any(|d| possible(0, d)) {
        return "no word can have the root as its head: the scores in roots are all −∞".into();
    }
    let projective = if model.shape().projective { "projective " } else { "" };
    let roots = if model.shape().single_root { " with a single root" } else { "" };
    format!("every word has a possible head, but no choice of heads is a {projective}tree{roots}")
}
