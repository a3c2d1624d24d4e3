//! Best trees and samples.
//!
//! The k best trees come from Lawler's partition, with one run of the algorithm for the best tree per part. For
//! trees that need not be projective, P. Camerini, L. Fratta and F. Maffioli (*The k best spanning arborescences
//! of a network*, Networks 10, 1980) need only O(T²·log T) per tree, but their algorithm does not keep to a
//! single root; the partition serves projective trees, single roots and labels alike.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use crate::numeric::parallel::prelude::*;

use super::projective::{Forest, pick_best, pick_random};
use super::sentence::Sentence;
use super::spanning::Sampler;
use super::{SpanningTrees, answer, edmonds, projective, some_tree};
use crate::answer::Answer;
use crate::error::Result;
use crate::model::DependencyTree;
use crate::numeric::Real;
use crate::numeric::semiring::{Best, LANES, Linear, Log};
use crate::query::sequence::PathSamples;
use crate::query::tree::Tree;
use crate::query::{KBest, Map, Query, Sample};
use crate::random::{Stream, Streams};
use crate::run::{Clock, Run};

/// Trees that are drawn with one random stream.
const BLOCK: usize = 64;

/// An arc into a word: its head and label.
type Choice = (usize, usize);

/// A set of trees: the arcs into the first words are fixed, and some arcs into the next word are excluded.
#[derive(Clone, Debug, Default)]
struct Part {
    fixed: Vec<Choice>,
    excluded: Vec<Choice>,
}

impl Part {
    fn allows(&self, head: usize, d: usize, label: usize) -> bool {
        match d.cmp(&self.fixed.len()) {
            Ordering::Less => self.fixed[d] == (head, label),
            Ordering::Equal => !self.excluded.contains(&(head, label)),
            Ordering::Greater => true,
        }
    }
}

/// The best tree of a part.
struct Candidate {
    tree: Tree,
    part: Part,
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Candidate {}
impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Candidate {
    /// Better trees are greater; of equal ones the first in lexicographic order of heads and labels.
    fn cmp(&self, other: &Self) -> Ordering {
        let score = self.tree.score.total_cmp(&other.tree.score);
        score
            .then_with(|| (&other.tree.heads, &other.tree.labels).cmp(&(&self.tree.heads, &self.tree.labels)))
    }
}

/// The best trees of several parts of the trees of sentence b; `None` where a part is empty.
fn best_of<F: Real>(
    model: &DependencyTree<F>,
    b: usize,
    parts: &[Part],
    clock: &Clock<'_>,
) -> Result<Vec<Option<Tree>>> {
    let shape = model.shape();
    let sentences: Vec<Sentence> = parts
        .iter()
        .map(|part| Sentence::best(model, b, &|head, d, label| part.allows(head, d, label)))
        .collect();
    let mut heads: Vec<Option<Vec<usize>>> = Vec::with_capacity(parts.len());
    if shape.projective {
        for group in sentences.chunks(LANES) {
            let lanes: Vec<Option<&Sentence>> = group.iter().map(Some).collect();
            let forest = Forest::<Best>::new(&lanes, shape.single_root, clock)?;
            let tree = |lane: usize| {
                (forest.total(lane) > f64::NEG_INFINITY).then(|| forest.tree(lane, &mut pick_best))
            };
            heads.extend((0..group.len()).map(tree));
        }
    } else {
        for own in &sentences {
            clock.check()?;
            heads.push(edmonds::best_tree(own, shape.single_root));
        }
    }
    let tree = |(part, heads): (&Part, Option<Vec<usize>>)| {
        heads.map(|heads| with_labels(model, b, heads, |head, d, label| part.allows(head, d, label)))
    };
    Ok(parts.iter().zip(heads).map(tree).collect())
}

/// A tree with the best allowed label of every arc.
fn with_labels<F: Real>(
    model: &DependencyTree<F>,
    b: usize,
    heads: Vec<usize>,
    allows: impl Fn(usize, usize, usize) -> bool,
) -> Tree {
    let best = |(d, &head): (usize, &usize)| {
        let scores = model.arc_from(b, head, d).iter().enumerate().filter(|(l, _)| allows(head, d, *l));
        let better = |best: (usize, f64), (l, x): (usize, &F)| {
            if x.to_f64() > best.1 { (l, x.to_f64()) } else { best }
        };
        scores.fold((0, f64::NEG_INFINITY), better).0
    };
    let labels: Vec<usize> = match model.labels() {
        None => Vec::new(),
        Some(_) => heads.iter().enumerate().map(best).collect(),
    };
    Tree { score: model.score(b, &heads, &labels), heads, labels }
}

/// The k best trees of sentence b.
pub(super) fn best_trees<F: Real>(
    model: &DependencyTree<F>,
    b: usize,
    k: usize,
    clock: &Clock<'_>,
) -> Result<Vec<Tree>> {
    // No more candidates than trees still wanted.
    let mut candidates = BTreeSet::new();
    let everything = Part::default();
    if let Some(tree) = best_of(model, b, std::slice::from_ref(&everything), clock)?.remove(0) {
        candidates.insert(Candidate { tree, part: everything });
    }
    let mut found = Vec::new();
    while found.len() < k {
        let Some(Candidate { tree, part }) = candidates.pop_last() else { break };
        clock.check()?;
        if found.len() + 1 < k {
            let choice = |d: usize| (tree.heads[d], tree.labels.get(d).copied().unwrap_or(0));
            let first = part.fixed.len();
            let without = |d: usize| Part {
                fixed: (0..d).map(choice).collect(),
                excluded: match d == first {
                    true => part.excluded.iter().copied().chain([choice(d)]).collect(),
                    false => vec![choice(d)],
                },
            };
            let words: Vec<usize> = (first..tree.heads.len()).collect();
            for some in words.chunks(LANES) {
                let parts: Vec<Part> = some.iter().map(|&d| without(d)).collect();
                for (tree, part) in best_of(model, b, &parts, clock)?.into_iter().zip(parts) {
                    candidates.extend(tree.map(|tree| Candidate { tree, part }));
                }
                while candidates.len() + found.len() + 1 > k {
                    candidates.pop_first();
                }
            }
        }
        found.push(tree);
    }
    Ok(found)
}

/// −∞ for every sentence without any of the `wanted` trees, 0 for the others.
fn marks(found: &[Vec<Tree>], wanted: usize) -> Vec<f64> {
    let none = |own: &Vec<Tree>| wanted > 0 && own.is_empty();
    found.iter().map(|own| if none(own) { f64::NEG_INFINITY } else { 0.0 }).collect()
}

/// Applies `work` to every sentence.
fn each_sentence<T: Send>(batch: usize, work: impl Fn(usize) -> Result<T> + Sync + Send) -> Result<Vec<T>> {
    (0..batch).into_par_iter().map(work).collect()
}

impl<F: Real> Map<DependencyTree<F>> for SpanningTrees {
    /// A sentence without a tree gets an empty one, with a score of −∞.
    fn map(&self, model: &DependencyTree<F>, run: &Run) -> Result<Answer<Vec<Tree>>> {
        answer(self, model, Query::Map, run, |clock| {
            let best = each_sentence(model.batch(), |b| Ok(best_trees(model, b, 1, clock)?.pop()))?;
            let none = || Tree { heads: Vec::new(), labels: Vec::new(), score: f64::NEG_INFINITY };
            let best: Vec<Tree> = best.into_iter().map(|tree| tree.unwrap_or_else(none)).collect();
            let scores = some_tree(best.iter().map(|tree| tree.score).collect())?;
            Ok((best, scores))
        })
    }
}

impl<F: Real> KBest<DependencyTree<F>> for SpanningTrees {
    fn k_best(&self, model: &DependencyTree<F>, k: usize, run: &Run) -> Result<Answer<Vec<Vec<Tree>>>> {
        answer(self, model, Query::KBest(k), run, |clock| {
            let ranked = each_sentence(model.batch(), |b| best_trees(model, b, k, clock))?;
            let found = some_tree(marks(&ranked, k))?;
            Ok((ranked, found))
        })
    }
}

impl<F: Real> Sample<DependencyTree<F>> for SpanningTrees {
    /// A sentence without a tree has no samples.
    fn sample(
        &self,
        model: &DependencyTree<F>,
        count: usize,
        run: &Run,
    ) -> Result<Answer<PathSamples<Tree>>> {
        answer(self, model, Query::Sample(count), run, |clock| {
            let streams = Streams::new(run.seed(), "spanning-trees sample");
            let samples = each_sentence(model.batch(), |b| {
                let source = Source::new(model, b, clock)?;
                let blocks: Vec<Vec<Tree>> = (0..count.div_ceil(BLOCK))
                    .into_par_iter()
                    .map(|block| {
                        clock.check()?;
                        let mut random = streams.block(((b as u64) << 32) | block as u64);
                        let some = BLOCK.min(count - block * BLOCK);
                        let drawn = (0..some).map(|_| source.draw(model, b, &mut random, clock));
                        Ok(drawn.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
                    })
                    .collect::<Result<_>>()?;
                Ok(blocks.into_iter().flatten().collect::<Vec<Tree>>())
            })?;
            let found = some_tree(marks(&samples, count))?;
            Ok((PathSamples { samples, log_weights: None }, found))
        })
    }
}

/// A distribution over the trees of a sentence.
enum Source {
    /// No tree has positive weight.
    None,
    Projective(Forest<Linear>),
    /// The same where weights underflow.
    ProjectiveLog(Forest<Log>),
    Any(Box<Sampler>),
}

impl Source {
    fn new<F: Real>(model: &DependencyTree<F>, b: usize, clock: &Clock<'_>) -> Result<Self> {
        let (sentence, shape) = (Sentence::new(model, b, None), model.shape());
        if sentence.offset == f64::NEG_INFINITY {
            return Ok(Source::None);
        }
        if !shape.projective {
            let sums = super::spanning::sums(&sentence, shape.single_root, false, false, clock)?;
            let any = sums.log_partition > f64::NEG_INFINITY;
            return match any {
                true => Ok(Source::Any(Box::new(Sampler::new(sentence, shape.single_root, clock)?))),
                false => Ok(Source::None),
            };
        }
        let linear = Forest::<Linear>::new(&[Some(&sentence)], shape.single_root, clock)?;
        if linear.total(0) >= projective::SAFE {
            return Ok(Source::Projective(linear));
        }
        let log = Forest::<Log>::new(&[Some(&sentence)], shape.single_root, clock)?;
        Ok(if log.total(0) > f64::NEG_INFINITY { Source::ProjectiveLog(log) } else { Source::None })
    }

    fn draw<F: Real>(
        &self,
        model: &DependencyTree<F>,
        b: usize,
        random: &mut Stream,
        clock: &Clock<'_>,
    ) -> Result<Option<Tree>> {
        let mut buffer = Vec::new();
        let heads = match self {
            Source::None => return Ok(None),
            Source::Projective(forest) => {
                forest.tree(0, &mut |terms| pick_random(random, false, &mut buffer, terms))
            }
            Source::ProjectiveLog(forest) => {
                forest.tree(0, &mut |terms| pick_random(random, true, &mut buffer, terms))
            }
            Source::Any(sampler) => sampler.draw(random, clock)?,
        };
        let labels = random_labels(model, b, &heads, random);
        Ok(Some(Tree { score: model.score(b, &heads, &labels), heads, labels }))
    }
}

/// A random label of every arc of a tree; none if arcs have no labels.
pub(super) fn random_labels<F: Real>(
    model: &DependencyTree<F>,
    b: usize,
    heads: &[usize],
    random: &mut Stream,
) -> Vec<usize> {
    let weights = |(d, &head): (usize, &usize)| {
        let scores: Vec<f64> = model.arc_from(b, head, d).iter().map(|x| x.to_f64()).collect();
        let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        scores.iter().map(|x| (x - top).exp()).collect::<Vec<f64>>()
    };
    match model.labels() {
        None => Vec::new(),
        Some(_) => heads.iter().enumerate().map(weights).map(|own| random.categorical(&own)).collect(),
    }
}
