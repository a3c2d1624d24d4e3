//! Random chains and semi-Markov chains.

use std::f64::consts::SQRT_2;

use crate::error::{Error, Result};
use crate::model::generate::affordable;
use crate::model::{Chain, Pattern, Segments, SemiMarkov, Transitions, Values};
use crate::numeric::Real;
use crate::random::{Stream, Streams};

/// Sizes and strengths of a random chain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChainShape {
    /// N.
    pub states: usize,
    /// T.
    pub steps: usize,
    /// B.
    pub batch: usize,
    /// Random lengths between 1 and T; the first sequence always has length T.
    pub ragged: bool,
    /// The form of the transitions.
    pub transitions: TransitionForm,
    /// The standard deviation of the scores.
    pub strength: f64,
    /// The fraction of emissions, and of transitions given as tables or log factors, that is −∞; every
    /// sequence keeps at least one path of finite score.
    pub zeros: f64,
}

/// The form that random transitions take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransitionForm {
    /// One table.
    Shared,
    /// One table per step.
    PerStep,
    /// One table per sequence and step.
    PerSequence,
    /// Products of embeddings.
    Factored {
        /// The dimension D.
        rank: usize,
        /// Whether left and right embeddings are the same.
        tied: bool,
    },
    /// Log factors of a matrix of low rank.
    LowRank {
        /// The rank R.
        rank: usize,
    },
    /// A list of transitions: to the next state, and to random others.
    Sparse {
        /// The number of transitions from each state, at most N.
        entries: usize,
        /// Whether each step has its own scores.
        per_step: bool,
    },
    /// Transitions to neighbouring states.
    Banded {
        /// How many states below.
        lower: usize,
        /// How many states above, at least 1.
        upper: usize,
    },
}

impl Default for ChainShape {
    fn default() -> Self {
        ChainShape {
            states: 100,
            steps: 20,
            batch: 1,
            ragged: false,
            transitions: TransitionForm::Shared,
            strength: 1.0,
            zeros: 0.0,
        }
    }
}

/// Chains with N(0, strength²) scores; factored transitions have normal embeddings whose products have this
/// variance, low-rank transitions have normal log factors whose sums have this variance.
///
/// # Errors
/// If `states`, `steps`, `batch` or the rank of low-rank transitions is 0, `zeros` is not between 0 and 1, `strength` is not finite, or the
/// scores do not fit in memory.
///
/// ```
/// use zhat::model::generate::{chain, ChainShape};
/// let chain = chain::<f32>(&ChainShape { states: 50, steps: 10, batch: 3, ragged: true, ..Default::default() }, 7)?;
/// assert_eq!((chain.states(), chain.lengths()[0]), (50, 10));
/// # Ok::<(), zhat::Error>(())
/// ```
pub fn chain<F: Real>(shape: &ChainShape, seed: u64) -> Result<Chain<F>> {
    let &ChainShape { states, steps, batch, ragged, transitions, strength, zeros } = shape;
    for (name, count) in [("states", states), ("steps", steps), ("batch", batch)] {
        if count == 0 {
            return Err(Error::argument(name, "must be at least 1"));
        }
    }
    if !(0.0..=1.0).contains(&zeros) {
        return Err(Error::argument("zeros", format!("{zeros} is not a fraction between 0 and 1")));
    }
    let (n, t) = (states as f64, steps as f64);
    let parameters = match transitions {
        TransitionForm::Shared => n * n,
        TransitionForm::PerStep => n * n * t,
        TransitionForm::PerSequence => batch as f64 * n * n * t,
        TransitionForm::Sparse { entries, per_step } => {
            4.0 * n * n.min(entries as f64) * if per_step { t } else { 1.0 }
        }
        TransitionForm::Banded { lower, upper } => 4.0 * n * n.min(lower as f64 + upper as f64 + 1.0),
        TransitionForm::Factored { rank, .. } | TransitionForm::LowRank { rank } => 2.0 * n * rank as f64,
    };
    if let TransitionForm::LowRank { rank: 0 }
    | TransitionForm::Sparse { entries: 0, .. }
    | TransitionForm::Banded { upper: 0, .. } = transitions
    {
        return Err(Error::argument("rank", "must be at least 1"));
    }
    // `affordable` assumes 32 bytes per number; arrays need less.
    affordable((n + batch as f64 * t * n + parameters) * size_of::<F>() as f64 / 16.0)?;
    let streams = Streams::new(seed, "generate chain");
    let lengths: Vec<usize> = {
        let mut random = streams.block(0);
        let length = |b| if ragged && b > 0 { 1 + random.below(steps) } else { steps };
        (0..batch).map(length).collect()
    };
    let mut random = streams.block(1);
    let start = normals(&mut random, states, strength);
    let mut emissions: Vec<F> = normals(&mut random, batch * steps * states, strength);
    // One path per sequence keeps finite scores: it advances by one state per step, from a different state in
    // each sequence.
    forbid(&mut random, &mut emissions, zeros, |entry| {
        let (row, state) = (entry / states, entry % states);
        state == (row / steps + row % steps) % states
    });
    let next = |entry: usize| entry % states == (entry / states % states + 1) % states;
    if let Some(pattern) = sparse_pattern(transitions, states, &mut streams.block(2))? {
        let per_step = matches!(transitions, TransitionForm::Sparse { per_step: true, .. });
        let tables = if per_step { steps - 1 } else { 1 };
        let mut values = normals(&mut random, tables * pattern.len(), strength);
        // The last state of a band has no next one and stays where it is.
        let spared = |entry: usize| {
            let e = entry % pattern.len();
            let i = pattern.starts().partition_point(|&start| start <= e) - 1;
            let next = (i + 1) % states;
            let kept = if pattern.entry(i, next).is_some() { next } else { i };
            pattern.targets()[e] as usize == kept
        };
        forbid(&mut random, &mut values, zeros, spared);
        let transitions = Transitions::Sparse { pattern, values: values.into(), per_step };
        return Chain::new(start.into(), emissions.into(), lengths, transitions);
    }
    let mut table = |count: usize| -> Values<F> {
        let mut values = normals(&mut random, count * states * states, strength);
        forbid(&mut random, &mut values, zeros, next);
        values.into()
    };
    let transitions = match transitions {
        TransitionForm::Shared => Transitions::Shared(table(1)),
        TransitionForm::PerStep => Transitions::PerStep(table(steps - 1)),
        TransitionForm::PerSequence => Transitions::PerSequence(table(batch * (steps - 1))),
        // Made above.
        TransitionForm::Sparse { .. } | TransitionForm::Banded { .. } => Transitions::Shared(table(1)),
        TransitionForm::Factored { rank, tied } => {
            let scale = (strength.abs() / (rank as f64).sqrt().max(1.0)).sqrt();
            let left = normals(&mut random, states * rank, scale).into();
            let right = (!tied).then(|| normals(&mut random, states * rank, scale).into());
            Transitions::Factored { left, right }
        }
        TransitionForm::LowRank { rank } => {
            // One term of each transition from a state to the next one stays finite.
            let mut factor = |before: usize| -> Values<F> {
                let mut values = normals(&mut random, states * rank, strength / SQRT_2);
                let source = |state: usize| (state + states - before) % states;
                forbid(&mut random, &mut values, zeros, |entry| entry % rank == source(entry / rank) % rank);
                values.into()
            };
            Transitions::LowRank { left: factor(0), right: factor(1) }
        }
    };
    Chain::new(start.into(), emissions.into(), lengths, transitions)
}

/// The pattern of sparse or banded transitions.
fn sparse_pattern(form: TransitionForm, states: usize, random: &mut Stream) -> Result<Option<Pattern>> {
    match form {
        TransitionForm::Banded { lower, upper } => Pattern::banded(states, lower, upper).map(Some),
        TransitionForm::Sparse { entries, .. } => {
            let (mut starts, mut targets) = (vec![0], Vec::new());
            for i in 0..states {
                let mut row = std::collections::BTreeSet::from([((i + 1) % states) as u32]);
                while row.len() < entries.min(states) {
                    row.insert(random.below(states) as u32);
                }
                targets.extend(row);
                starts.push(targets.len());
            }
            Pattern::new(states, starts, targets).map(Some)
        }
        _ => Ok(None),
    }
}

/// Semi-Markov chains: a chain as generated by [`chain`], with normal scores for the lengths of segments in
/// each state.
///
/// # Errors
/// As [`chain`]; also if `longest` is 0.
pub fn semi_markov<F: Real>(shape: &ChainShape, longest: usize, seed: u64) -> Result<SemiMarkov<F>> {
    if longest == 0 {
        return Err(Error::argument("longest", "must be at least 1"));
    }
    affordable(longest as f64 * shape.states as f64 * size_of::<F>() as f64 / 16.0)?;
    let mut random = Streams::new(seed, "generate semi-markov").block(0);
    let segments = normals::<F>(&mut random, longest * shape.states, shape.strength);
    SemiMarkov::new(chain(shape, seed)?, Segments::Lengths(segments.into()), longest)
}

pub(in crate::model) fn normals<F: Real>(random: &mut Stream, count: usize, scale: f64) -> Vec<F> {
    (0..count).map(|_| F::from_f64(scale * random.normal())).collect()
}

/// Sets a fraction of the entries to −∞, except the spared ones.
fn forbid<F: Real>(random: &mut Stream, values: &mut [F], zeros: f64, spared: impl Fn(usize) -> bool) {
    if zeros == 0.0 {
        return;
    }
    for (entry, value) in values.iter_mut().enumerate() {
        if random.uniform() < zeros && !spared(entry) {
            *value = F::NEG_INFINITY;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sequence_keeps_a_path_when_all_else_is_forbidden() {
        for transitions in [
            TransitionForm::Shared,
            TransitionForm::PerStep,
            TransitionForm::Factored { rank: 2, tied: false },
            TransitionForm::LowRank { rank: 3 },
            TransitionForm::PerSequence,
            TransitionForm::Sparse { entries: 2, per_step: true },
        ] {
            let shape = ChainShape {
                states: 3,
                steps: 5,
                batch: 4,
                ragged: true,
                transitions,
                strength: 2.0,
                zeros: 1.0,
            };
            let chain = chain::<f64>(&shape, 1).unwrap();
            for (b, &length) in chain.lengths().iter().enumerate() {
                let path: Vec<usize> = (0..length).map(|t| (b + t) % 3).collect();
                assert!(chain.score(b, &path).is_finite());
            }
        }
    }

    #[test]
    fn impossible_wishes_are_errors() {
        let refused = |shape: ChainShape| chain::<f32>(&shape, 0).is_err();
        assert!(refused(ChainShape { states: 0, ..Default::default() }));
        assert!(refused(ChainShape { steps: 0, ..Default::default() }));
        assert!(refused(ChainShape { batch: 0, ..Default::default() }));
        assert!(refused(ChainShape { zeros: 1.5, ..Default::default() }));
        assert!(refused(ChainShape { strength: f64::NAN, ..Default::default() }));
        assert!(refused(ChainShape { states: usize::MAX, ..Default::default() }));
        assert!(refused(ChainShape { states: 10_000_000, ..Default::default() }));
        assert!(semi_markov::<f32>(&ChainShape::default(), 0, 0).is_err());
        assert!(semi_markov::<f32>(&ChainShape::default(), usize::MAX, 0).is_err());
    }
}
