//! Random dependency trees.

use super::{DependencyTree, TreeShape};
use crate::error::{Error, Result};
use crate::model::generate::affordable;
use crate::numeric::Real;
use crate::random::Streams;

/// Sizes and strengths of random sentences.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SentenceShape {
    /// T.
    pub words: usize,
    /// B.
    pub batch: usize,
    /// Random lengths between 1 and T; the first sentence always has T words.
    pub ragged: bool,
    /// The number of labels, if arcs have labels.
    pub labels: Option<usize>,
    /// The trees that are admitted.
    pub trees: TreeShape,
    /// The standard deviation of the scores.
    pub strength: f64,
    /// The fraction of scores that is −∞; the tree in which every word depends on the word before it always
    /// remains.
    pub zeros: f64,
}

impl Default for SentenceShape {
    fn default() -> Self {
        SentenceShape {
            words: 20,
            batch: 1,
            ragged: false,
            labels: None,
            trees: TreeShape { projective: true, single_root: false },
            strength: 1.0,
            zeros: 0.0,
        }
    }
}

/// Sentences with N(0, strength²) scores.
///
/// # Errors
/// If `words`, `batch` or `labels` is 0, `zeros` is not between 0 and 1, `strength` is not finite, or the
/// scores do not fit in memory.
///
/// ```
/// use zhat::model::generate::{dependency, SentenceShape};
/// let model = dependency::<f32>(&SentenceShape { words: 12, batch: 3, ragged: true, ..Default::default() }, 7)?;
/// assert_eq!((model.batch(), model.lengths()[0]), (3, 12));
/// # Ok::<(), zhat::Error>(())
/// ```
pub fn dependency<F: Real>(shape: &SentenceShape, seed: u64) -> Result<DependencyTree<F>> {
    let &SentenceShape { words, batch, ragged, labels, trees, strength, zeros } = shape;
    let per_arc = labels.unwrap_or(1);
    for (name, count) in [("words", words), ("batch", batch), ("labels", per_arc)] {
        if count == 0 {
            return Err(Error::argument(name, "must be at least 1"));
        }
    }
    if !(0.0..=1.0).contains(&zeros) {
        return Err(Error::argument("zeros", format!("{zeros} is not a fraction between 0 and 1")));
    }
    if !strength.is_finite() {
        return Err(Error::argument("strength", format!("{strength} is not finite")));
    }
    let count = batch as f64 * words as f64 * (words as f64 + 1.0) * per_arc as f64;
    // `affordable` assumes 32 bytes per number; arrays need less.
    affordable(count * size_of::<F>() as f64 / 16.0)?;
    let streams = Streams::new(seed, "generate dependency");
    let mut random = streams.block(0);
    let length = |b| if ragged && b > 0 { 1 + random.below(words) } else { words };
    let lengths: Vec<usize> = (0..batch).map(length).collect();
    let mut random = streams.block(1);
    let mut scores = |count: usize, kept: &dyn Fn(usize) -> bool| -> Vec<F> {
        let score = |i: usize| {
            let (score, zero) = (strength * random.normal(), random.uniform() < zeros);
            if zero && !kept(i / per_arc) { F::NEG_INFINITY } else { F::from_f64(score) }
        };
        (0..count).map(score).collect()
    };
    let arcs = scores(batch * words * words * per_arc, &|arc| arc % words == arc / words % words + 1);
    let roots = scores(batch * words * per_arc, &|root| root % words == 0);
    DependencyTree::new(arcs.into(), roots.into(), lengths, labels, trees)
}
