//! Dependency trees: every word has one head, which is another word or the root.
//!
//! A batch of B sentences. Sentence b has T_b words; a tree y gives word d the head h(d), a word or the root,
//! such that every word is reached from the root. With L labels, the arc into word d also has a label l(d),
//! and
//!
//!   score_b(y) = Σ_{d: h(d) = root} root_b(d, l(d)) + Σ_{d: h(d) ≠ root} arc_b(h(d), d, l(d)),
//!
//! where all terms are log scores and −∞ is allowed. Trees may be restricted to *projective* ones (every
//! subtree covers consecutive words) and to those with a *single root* (exactly one word has the root as its
//! head). Every query has one answer per sentence.

pub(in crate::model) mod any;
pub(in crate::model) mod generate;

use std::collections::HashSet;

use super::Values;
use super::chain::{LARGEST_TOTAL, check_scores};
use super::evidence::{Evidence, positions};
use crate::error::{Error, Result};
use crate::model::Observed;
use crate::numeric::Real;

/// The trees that a [`DependencyTree`] model admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeShape {
    /// Only trees in which every subtree covers consecutive words.
    pub projective: bool,
    /// Only trees in which exactly one word has the root as its head.
    pub single_root: bool,
}

/// A batch of sentences with scores of arcs between their words.
///
/// ```
/// use zhat::model::{DependencyTree, TreeShape};
/// // One sentence of two words: arc 0 → 1 has score 1, arc 1 → 0 has score 2. The diagonal is not used.
/// let arcs = vec![0.0, 1.0, 2.0, 0.0];
/// let shape = TreeShape { projective: true, single_root: false };
/// let model = DependencyTree::new(arcs.into(), vec![0.0, 0.0].into(), vec![2], None, shape)?;
/// // Word 0 depends on word 1 (number 2 in `heads`), and word 1 on the root (number 0).
/// assert_eq!(model.score(0, &[2, 0], &[]), 2.0);
/// # Ok::<(), zhat::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct DependencyTree<F: Real = f64> {
    arcs: Values<F>,
    roots: Values<F>,
    lengths: Vec<usize>,
    words: usize,
    labels: Option<usize>,
    shape: TreeShape,
    magnitude: f64,
}

impl<F: Real> DependencyTree<F> {
    /// A batch of sentences.
    ///
    /// `arcs` are B×T×T, by sentence, head and dependent, and `roots` are B×T; with `labels` both have one
    /// more axis, of that length. B = `lengths.len()`, and T ≥ 1 is the same for all sentences. Only the
    /// first `lengths[b]` words of sentence b are used, and the diagonal of the arcs is not. Nothing is
    /// copied.
    ///
    /// # Errors
    /// If there is no sentence or no label, an array has the wrong length, a sentence has no word or more
    /// than T, a score is NaN or +∞, or a sum of scores could overflow.
    pub fn new(
        arcs: Values<F>,
        roots: Values<F>,
        lengths: Vec<usize>,
        labels: Option<usize>,
        shape: TreeShape,
    ) -> Result<Self> {
        let fail = |message: String| Err(Error::Model(message));
        if lengths.is_empty() {
            return fail("lengths: a batch has at least one sentence".into());
        }
        let per_arc = labels.unwrap_or(1);
        if per_arc == 0 {
            return fail("labels: an arc has at least one label".into());
        }
        let row = lengths.len().saturating_mul(per_arc);
        if roots.is_empty() || !roots.len().is_multiple_of(row) {
            let form = if labels.is_some() { "B × T × L" } else { "B × T" };
            return fail(format!(
                "roots: {} numbers are not {form} for {} sentences",
                roots.len(),
                lengths.len()
            ));
        }
        let words = roots.len() / row;
        let expected = roots.len().saturating_mul(words);
        if arcs.len() != expected {
            let form = if labels.is_some() { "B × T × T × L" } else { "B × T × T" };
            return fail(format!("arcs: found {} numbers, expected {form} = {expected}", arcs.len()));
        }
        if let Some(b) = lengths.iter().position(|&length| length == 0 || length > words) {
            let found = lengths[b];
            return fail(format!("lengths: sentence {b} has {found} words, expected 1 to {words}"));
        }
        let mut largest = 0.0f64;
        for (b, &length) in lengths.iter().enumerate() {
            let first = b * words * per_arc;
            largest = largest.max(check_scores("roots", &roots, first..first + length * per_arc)?);
            for head in 0..length {
                let row = (b * words + head) * words;
                let used = |range: std::ops::Range<usize>| {
                    (row + range.start) * per_arc..(row + range.end) * per_arc
                };
                largest = largest.max(check_scores("arcs", &arcs, used(0..head))?);
                largest = largest.max(check_scores("arcs", &arcs, used(head + 1..length))?);
            }
        }
        let longest = lengths.iter().copied().max().unwrap_or(0) as f64;
        let magnitude = longest * largest;
        if magnitude > LARGEST_TOTAL || largest > F::MAX.to_f64() / 64.0 {
            return fail(
                "the scores are too large: their sum would overflow; use -inf for what is impossible".into(),
            );
        }
        Ok(DependencyTree { arcs, roots, lengths, words, labels, shape, magnitude })
    }

    /// B, the number of sentences.
    pub fn batch(&self) -> usize {
        self.lengths.len()
    }

    /// T, the number of words in the arrays.
    pub fn words(&self) -> usize {
        self.words
    }

    /// The number of words of each sentence.
    pub fn lengths(&self) -> &[usize] {
        &self.lengths
    }

    /// L, the number of labels, if arcs have labels.
    pub fn labels(&self) -> Option<usize> {
        self.labels
    }

    /// The number of scores per arc: the number of labels, or 1.
    pub fn per_arc(&self) -> usize {
        self.labels.unwrap_or(1)
    }

    /// The trees that are admitted.
    pub fn shape(&self) -> TreeShape {
        self.shape
    }

    /// The scores of arcs, B×T×T or B×T×T×L, by sentence, head and dependent.
    pub fn arcs(&self) -> &[F] {
        &self.arcs
    }

    /// The scores of arcs from the root, B×T or B×T×L.
    pub fn roots(&self) -> &[F] {
        &self.roots
    }

    /// The scores of the arc from word `head` to word `dependent` of sentence `b`, one per label.
    pub fn arc(&self, b: usize, head: usize, dependent: usize) -> &[F] {
        let (at, labels) = ((b * self.words + head) * self.words + dependent, self.per_arc());
        &self.arcs[at * labels..(at + 1) * labels]
    }

    /// The scores of the arc from the root to word `dependent` of sentence `b`, one per label.
    pub fn root(&self, b: usize, dependent: usize) -> &[F] {
        let (at, labels) = (b * self.words + dependent, self.per_arc());
        &self.roots[at * labels..(at + 1) * labels]
    }

    /// The scores of the arc into word `dependent` from a head: 0 for the root, i + 1 for word i.
    pub fn arc_from(&self, b: usize, head: usize, dependent: usize) -> &[F] {
        if head == 0 { self.root(b, dependent) } else { self.arc(b, head - 1, dependent) }
    }

    /// The score of a tree: the head of each word (0 for the root, i + 1 for word i) and, if arcs have
    /// labels, the label of each arc.
    pub fn score(&self, b: usize, heads: &[usize], labels: &[usize]) -> f64 {
        let label = |d: usize| labels.get(d).copied().unwrap_or(0);
        let arcs = heads.iter().enumerate();
        arcs.map(|(d, &head)| self.arc_from(b, head, d)[label(d)].to_f64()).sum()
    }

    /// The memory of the scores, in bytes.
    pub fn bytes(&self) -> usize {
        (self.arcs.len() + self.roots.len()) * size_of::<F>()
    }

    /// An upper bound on |score| of any possible tree.
    pub fn magnitude(&self) -> f64 {
        self.magnitude
    }

    /// The model conditioned on the heads of some words. In an observation, `position` is the dependent and
    /// `state` its head: 0 for the root, i + 1 for word i.
    ///
    /// log Z of the result is the log weight of the evidence.
    ///
    /// # Errors
    /// If a sentence, word or head is out of range, a word is its own head, or the head of a word is given
    /// twice.
    pub fn condition(&self, evidence: &[Observed]) -> Result<Self> {
        self.condition_on(&evidence.iter().copied().map(Evidence::Position).collect::<Vec<_>>())
    }

    /// The model conditioned on heads, sets of heads and likelihoods of the heads of words, numbered as in
    /// [`DependencyTree::condition`]. There is one likelihood for the root and for each word of the sentence; that
    /// of the word itself is ignored.
    ///
    /// # Errors
    /// As [`DependencyTree::condition`]; also for evidence about anything else, an empty set, and likelihoods of
    /// which there are too few or too many or all are 0.
    pub fn condition_on(&self, evidence: &[Evidence]) -> Result<Self> {
        if evidence.is_empty() {
            return Ok(self.clone());
        }
        let labels = self.per_arc();
        let (mut arcs, mut roots) = (self.arcs.to_vec(), self.roots.to_vec());
        let mut seen = HashSet::new();
        for (sequence, position, known) in positions(evidence, DependencyTree::KIND)? {
            let fail = |message: String| Err(Error::argument("evidence", message));
            let Some(&length) = self.lengths.get(sequence) else {
                return fail(format!("there is no sentence {sequence}; the batch has {}", self.batch()));
            };
            let no_head = |head| {
                format!(
                    "sentence {sequence} has {length} words, so there is no arc from head {head} to word {position}"
                )
            };
            if position >= length {
                return fail(format!(
                    "sentence {sequence} has {length} words, so there is no word {position}"
                ));
            }
            known.check(&(0..length + 1), || format!("the head of word {position}"), no_head)?;
            if known.only() == Some(position + 1) {
                return fail(format!("word {position} of sentence {sequence} cannot be its own head"));
            }
            if !seen.insert((sequence, position)) {
                return fail(format!("the head of word {position} of sentence {sequence} is given twice"));
            }
            let mut weights = vec![F::ZERO; length + 1];
            known.apply(0, &mut weights);
            let add = |scores: &mut [F], weight: F| match weight > F::NEG_INFINITY {
                true => {
                    scores.iter_mut().filter(|score| **score > F::NEG_INFINITY).for_each(|s| *s += weight)
                }
                false => scores.fill(F::NEG_INFINITY),
            };
            add(&mut roots[(sequence * self.words + position) * labels..][..labels], weights[0]);
            for (head, &weight) in weights[1..].iter().enumerate() {
                let at = ((sequence * self.words + head) * self.words + position) * labels;
                add(&mut arcs[at..at + labels], weight);
            }
        }
        DependencyTree::new(arcs.into(), roots.into(), self.lengths.clone(), self.labels, self.shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: TreeShape = TreeShape { projective: true, single_root: false };

    #[test]
    fn bad_arrays_are_named() {
        let model = |arcs: Vec<f64>, roots: Vec<f64>, lengths: Vec<usize>, labels| {
            DependencyTree::new(arcs.into(), roots.into(), lengths, labels, SHAPE)
        };
        let error = |arcs: usize, roots: usize, lengths: &[usize], labels| {
            model(vec![0.0; arcs], vec![0.0; roots], lengths.to_vec(), labels).unwrap_err().to_string()
        };
        assert!(error(4, 2, &[], None).contains("at least one sentence"));
        assert!(error(3, 2, &[2], None).contains("arcs: found 3 numbers, expected B × T × T = 4"));
        assert!(error(4, 3, &[2, 1], None).contains("roots: 3 numbers are not B × T"));
        assert!(error(4, 2, &[3], None).contains("has 3 words, expected 1 to 2"));
        assert!(error(4, 2, &[0], None).contains("has 0 words"));
        assert!(error(4, 2, &[2], Some(0)).contains("at least one label"));
        let error =
            model(vec![0.0, f64::NAN, 0.0, 0.0], vec![0.0; 2], vec![2], None).unwrap_err().to_string();
        assert!(error.contains("arcs: number 1 is NaN"), "{error}");
        let error = model(vec![0.0; 4], vec![0.0, f64::INFINITY], vec![2], None).unwrap_err().to_string();
        assert!(error.contains("roots: number 1 is inf"), "{error}");
        // The diagonal and words beyond the end of a sentence are not used.
        assert!(model(vec![f64::NAN, 0.0, 0.0, f64::NAN], vec![0.0; 2], vec![2], None).is_ok());
        assert!(model(vec![0.0, f64::NAN, f64::NAN, 0.0], vec![0.0, f64::NAN], vec![1], None).is_ok());
    }

    #[test]
    fn evidence_fixes_a_head() {
        let arcs: Vec<f64> = (0..9).map(f64::from).collect();
        let model = DependencyTree::new(arcs.into(), vec![0.5; 3].into(), vec![3], None, SHAPE).unwrap();
        let observed = |position, state| Observed { sequence: 0, position, state };
        let given = model.condition(&[observed(1, 3), observed(0, 0)]).unwrap();
        assert_eq!(given.score(0, &[0, 3, 1], &[]), model.score(0, &[0, 3, 1], &[]));
        assert_eq!(given.score(0, &[0, 1, 1], &[]), f64::NEG_INFINITY);
        assert_eq!(given.score(0, &[2, 3, 1], &[]), f64::NEG_INFINITY);
        let refused = |evidence: &[Observed]| model.condition(evidence).unwrap_err().to_string();
        assert!(refused(&[observed(1, 2)]).contains("its own head"));
        assert!(refused(&[observed(3, 0)]).contains("3 words"));
        assert!(refused(&[observed(1, 4)]).contains("3 words"));
        assert!(refused(&[observed(1, 0), observed(1, 0)]).contains("given twice"));
    }
}
