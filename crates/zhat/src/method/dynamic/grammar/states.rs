//! Best trees and samples.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::numeric::parallel::prelude::*;

use super::derive::{AtRandom, Largest};
use super::divergence::{additive, dense};
use super::expected::most_expected;
use super::pass::Purpose;
use super::ranked::k_best;
use super::search::{Found, search};
use super::solve::{Passes, solve};
use super::{InsideOutside, TreeChoice, answer, some_partition, some_tree};
use crate::answer::{Answer, Guarantee};
use crate::error::Result;
use crate::model::Hypertree;
use crate::numeric::Real;
use crate::options::Options;
use crate::query::sequence::PathSamples;
use crate::query::tree::{Constituent, ParseTree};
use crate::query::{KBest, Map, Query, Sample};
use crate::random::Streams;
use crate::run::{Clock, Run};

/// Trees that are drawn with one random stream.
const BLOCK: usize = 64;

impl<F: Passes> Map<Hypertree<F>> for InsideOutside {
    /// A sentence without a tree gets an empty one, with a score of −∞.
    fn map(&self, model: &Hypertree<F>, run: &Run) -> Result<Answer<Vec<ParseTree>>> {
        self.check()?;
        let hidden = hidden_rank(model);
        let found = answer(self, model, Query::Map, run, |clock| {
            let (found, stopped) = match self.tree {
                TreeChoice::Expected => (expected_trees(model, clock)?, false),
                TreeChoice::Best if hidden => searched_trees(model, self.steps, clock)?,
                _ => (derived_trees(model, hidden, clock)?, false),
            };
            let scores: Vec<f64> = found.iter().map(|(tree, _)| tree.score).collect();
            some_tree(&scores)?;
            Ok(((found, stopped), scores))
        })?;
        let (found, stopped, mut diagnostics) = (found.value.0, found.value.1, found.diagnostics);
        diagnostics.stopped_early = stopped;
        if hidden || self.tree == TreeChoice::Expected {
            diagnostics = diagnostics.note("tree", self.which(&found));
        }
        let (trees, guarantees): (Vec<ParseTree>, Vec<Guarantee>) = found.into_iter().unzip();
        let guarantee = match guarantees.iter().all(|own| *own == guarantees[0]) {
            true => guarantees[0].clone(),
            false => Guarantee::each(guarantees),
        };
        Ok(Answer { value: trees, guarantee, diagnostics })
    }
}

impl InsideOutside {
    /// Which trees the answer has, for the diagnostics.
    fn which(&self, found: &Trees) -> String {
        let has_tree = |tree: &ParseTree| tree.score > f64::NEG_INFINITY;
        let proven = |(tree, own): &&(ParseTree, Guarantee)| has_tree(tree) && *own == Guarantee::Exact;
        let (all, proven) =
            (found.iter().filter(|(tree, _)| has_tree(tree)).count(), found.iter().filter(proven).count());
        match self.tree {
            TreeChoice::Expected => "largest expected number of correct nodes".into(),
            TreeChoice::Derivation => "best derivation".into(),
            TreeChoice::Best if proven == all => "best, proven".into(),
            TreeChoice::Best if proven == 0 => "best derivation, with bounds on the best score".into(),
            TreeChoice::Best => format!(
                "best, proven for {proven} of {all} sentences; for the others the best derivation, with bounds on the \
                 best score"
            ),
        }
    }
}

/// Whether a rule is a sum of several terms, so that the best tree cannot be read from a chart.
fn hidden_rank<F: Real>(model: &Hypertree<F>) -> bool {
    model.rules().rank().is_some_and(|rank| rank > 1)
}

/// One tree per sentence, with its guarantee.
type Trees = Vec<(ParseTree, Guarantee)>;

fn scored<F: Real>(model: &Hypertree<F>, b: usize, nodes: Option<Vec<Constituent>>) -> ParseTree {
    match nodes {
        Some(nodes) if !nodes.is_empty() => ParseTree { score: model.score(b, &nodes), nodes },
        _ => ParseTree { nodes: Vec::new(), score: f64::NEG_INFINITY },
    }
}

/// The best trees from charts of maxima; with low-rank rules those of the best derivations.
fn derived_trees<F: Passes>(model: &Hypertree<F>, hidden: bool, clock: &Clock<'_>) -> Result<Trees> {
    let solutions = solve(model, &[], Purpose::Best, None, clock)?;
    let reason = "the tree of the best derivation, in which every rule uses one of its R terms; another tree may \
                  have a larger weight in total";
    let guarantee = if hidden { Guarantee::Heuristic { reason: reason.into() } } else { Guarantee::Exact };
    let tree = |b: usize| (scored(model, b, solutions.tree(model, b, &mut Largest)), guarantee.clone());
    Ok((0..model.batch()).map(tree).collect())
}

/// The trees with the largest expected numbers of correct nodes.
fn expected_trees<F: Passes>(model: &Hypertree<F>, clock: &Clock<'_>) -> Result<Trees> {
    let solutions = solve(model, &[], Purpose::Symbols, None, clock)?;
    let log_z = solutions.log_partition(model.batch());
    let nodes = solutions.nodes(model, clock)?;
    let reason =
        "the tree with the largest expected number of correct nodes, which need not be the best tree";
    let tree = |b: usize| {
        let own = (log_z[b] > f64::NEG_INFINITY).then(|| most_expected(model, b, &nodes));
        (scored(model, b, own), Guarantee::Heuristic { reason: reason.into() })
    };
    Ok((0..model.batch()).map(tree).collect())
}

/// The best trees with low-rank rules, by search; where it does not end, the tree of the best derivation and a
/// bound. Also whether a search was stopped for lack of time.
///
/// With a time budget the best derivations are found first, so that there are trees when time ends.
fn searched_trees<F: Passes>(model: &Hypertree<F>, steps: usize, clock: &Clock<'_>) -> Result<(Trees, bool)> {
    if model.unary().is_some() {
        let own = dense(model, clock)?;
        let trees = derived_trees(&own, false, clock)?;
        let again = |(b, (tree, guarantee)): (usize, (ParseTree, Guarantee))| {
            (scored(model, b, Some(tree.nodes)), guarantee)
        };
        return Ok((trees.into_iter().enumerate().map(again).collect(), false));
    }
    let derivations = || derived_trees(model, true, clock);
    let mut known = if clock.is_limited() { derivations()? } else { Vec::new() };
    let done = AtomicUsize::new(0);
    let one = |b: usize| {
        clock.progress("search", done.fetch_add(1, Ordering::Relaxed) as u64, model.batch() as u64);
        search(model, b, steps, clock)
    };
    let found: Vec<Found> = (0..model.batch()).into_par_iter().map(one).collect();
    let stopped = found.iter().any(|own| own.stopped);
    if known.is_empty() && found.iter().any(|own| own.best.is_none()) {
        clock.check()?;
        known = derivations()?;
    }
    let (allowance, rank) = (super::rounding(model), model.rules().rank().unwrap_or(1) as f64);
    let tree = |(b, own): (usize, Found)| match own.best {
        Some(nodes) => (scored(model, b, Some(nodes)), Guarantee::Exact),
        None => {
            let tree = known[b].0.clone();
            if tree.score == f64::NEG_INFINITY {
                return (tree, Guarantee::Exact);
            }
            // A tree has R^(T − 1) derivations, and none of them is better than the best one.
            let derivations = (model.lengths()[b] - 1) as f64 * rank.ln();
            let high = own.bound.min(tree.score + derivations).max(tree.score);
            let guarantee = Guarantee::bounds(tree.score, high, 1.0, allowance);
            (tree, guarantee)
        }
    };
    Ok((found.into_iter().enumerate().map(tree).collect(), stopped))
}

impl<F: Passes> KBest<Hypertree<F>> for InsideOutside {
    fn k_best(&self, model: &Hypertree<F>, k: usize, run: &Run) -> Result<Answer<Vec<Vec<ParseTree>>>> {
        answer(self, model, Query::KBest(k), run, |clock| {
            let own = additive(model, clock)?;
            let solutions = solve(&own, &[], Purpose::Best, None, clock)?;
            let each = |b: usize| match solutions.find(b) {
                Some((solution, at)) => {
                    let found = k_best(&own, b, &*solution.pass, at, k, clock)?;
                    let scored = |nodes: Vec<Constituent>| ParseTree { score: model.score(b, &nodes), nodes };
                    Ok(found.into_iter().map(scored).collect())
                }
                None => Ok(Vec::new()),
            };
            let ranked: Vec<Vec<ParseTree>> =
                (0..model.batch()).into_par_iter().map(each).collect::<Result<_>>()?;
            let none = |list: &Vec<ParseTree>| k > 0 && list.is_empty();
            let scores: Vec<f64> =
                ranked.iter().map(|list| if none(list) { f64::NEG_INFINITY } else { 0.0 }).collect();
            some_tree(&scores)?;
            Ok((ranked, scores))
        })
    }
}

impl<F: Passes> Sample<Hypertree<F>> for InsideOutside {
    /// A sentence without a tree has no samples.
    fn sample(
        &self,
        model: &Hypertree<F>,
        count: usize,
        run: &Run,
    ) -> Result<Answer<PathSamples<ParseTree>>> {
        answer(self, model, Query::Sample(count), run, |clock| {
            let solutions = solve(model, &[], Purpose::Symbols, None, clock)?;
            let log_z = some_partition(&solutions, model)?;
            let streams = Streams::new(run.seed(), "inside-outside sample");
            let draw = |(b, block): (usize, usize)| -> Result<Vec<ParseTree>> {
                clock.check()?;
                let mut random = streams.block(((b as u64) << 32) | block as u64);
                let mut drawn = Vec::new();
                for _ in 0..BLOCK.min(count - block * BLOCK) {
                    if let Some(nodes) = solutions.tree(model, b, &mut AtRandom(&mut random)) {
                        drawn.push(ParseTree { score: model.score(b, &nodes), nodes });
                    }
                }
                Ok(drawn)
            };
            let of = |b: usize| -> Result<Vec<ParseTree>> {
                let blocks: Vec<Vec<ParseTree>> = (0..count.div_ceil(BLOCK))
                    .into_par_iter()
                    .map(|block| draw((b, block)))
                    .collect::<Result<_>>()?;
                Ok(blocks.into_iter().flatten().collect())
            };
            let samples = (0..model.batch()).into_par_iter().map(of).collect::<Result<_>>()?;
            Ok((PathSamples { samples, log_weights: None }, log_z))
        })
    }
}
