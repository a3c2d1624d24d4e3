//! Best trees and samples.

use rayon::prelude::*;

use super::derive::{AtRandom, Largest};
use super::divergence::additive;
use super::number::Number;
use super::pass::Purpose;
use super::ranked::k_best;
use super::solve::solve;
use super::{InsideOutside, answer, some_tree};
use crate::answer::Answer;
use crate::error::{Error, Result};
use crate::model::Hypertree;
use crate::numeric::Real;
use crate::query::sequence::PathSamples;
use crate::query::tree::{Constituent, ParseTree};
use crate::query::{KBest, Map, Query, Sample};
use crate::random::Streams;
use crate::run::Run;

/// Trees that are drawn with one random stream.
const BLOCK: usize = 64;

/// The answer for a sentence without a tree.
fn no_tree() -> ParseTree {
    ParseTree { nodes: Vec::new(), score: f64::NEG_INFINITY }
}

impl<F: Real + Number> Map<Hypertree<F>> for InsideOutside {
    /// A sentence without a tree gets an empty one, with a score of −∞.
    fn map(&self, model: &Hypertree<F>, run: &Run) -> Result<Answer<Vec<ParseTree>>> {
        answer(self, model, Query::Map, run, |clock| {
            let solutions = solve(model, &[], Purpose::Best, None, clock)?;
            some_tree(&solutions.log_partition(model.batch()))?;
            let tree = |b: usize| {
                let nodes = solutions.tree(model, b, &mut Largest)?;
                Some(ParseTree { score: model.score(b, &nodes), nodes })
            };
            Ok((0..model.batch()).map(|b| tree(b).unwrap_or_else(no_tree)).collect())
        })
    }
}

impl<F: Real + Number> KBest<Hypertree<F>> for InsideOutside {
    fn k_best(&self, model: &Hypertree<F>, k: usize, run: &Run) -> Result<Answer<Vec<Vec<ParseTree>>>> {
        answer(self, model, Query::KBest(k), run, |clock| {
            let own = additive(model);
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
            let none = k > 0 && ranked.iter().all(Vec::is_empty);
            if none { Err(Error::ZeroPartition) } else { Ok(ranked) }
        })
    }
}

impl<F: Real + Number> Sample<Hypertree<F>> for InsideOutside {
    /// A sentence without a tree has no samples.
    fn sample(
        &self,
        model: &Hypertree<F>,
        count: usize,
        run: &Run,
    ) -> Result<Answer<PathSamples<ParseTree>>> {
        answer(self, model, Query::Sample(count), run, |clock| {
            let solutions = solve(model, &[], Purpose::Symbols, None, clock)?;
            some_tree(&solutions.log_partition(model.batch()))?;
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
            Ok(PathSamples { samples, log_weights: None })
        })
    }
}
