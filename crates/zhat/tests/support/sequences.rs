//! Small random chains and semi-Markov chains, with query results by enumeration.

use zhat::Real;
use zhat::dynamic::ForwardBackward;
use zhat::internal::numeric::log_sum_exp;
use zhat::model::{Chain, Pattern, Segments, SemiMarkov, Transitions};
use zhat::query::{ChainGradient, SemiMarkovGradient, TransitionGradient};
use zhat::random::{Stream, Streams};

const ZERO: f64 = f64::NEG_INFINITY;

/// The forms of transitions.
pub const FORMS: [&str; 8] = [
    "shared",
    "per-step",
    "factored",
    "two factors",
    "low-rank",
    "sparse",
    "sparse per step",
    "per-sequence",
];
/// The forms that the randomized method accepts.
pub const RANDOMIZED_FORMS: [&str; 7] =
    ["shared", "per-step", "factored", "two factors", "low-rank", "sparse", "sparse per step"];
/// The kinds of scores.
pub const SCORES: [&str; 4] = ["plain", "zeros", "extreme", "ties"];

/// A model with a flat parameter vector and an enumerable state space.
pub trait Listed: Sized {
    /// A sequence of states, or a segmentation.
    type State: Clone + PartialEq + std::fmt::Debug;

    fn batch(&self) -> usize;
    fn states(&self, b: usize) -> Vec<Self::State>;
    fn score(&self, b: usize, state: &Self::State) -> f64;
    /// All parameters as doubles, in the order start, emissions, transitions, end, segments.
    fn parameters(&self) -> Vec<f64>;
    /// The same model with other parameters.
    fn with_parameters(&self, parameters: &[f64]) -> Self;

    fn scores(&self, b: usize) -> Vec<f64> {
        self.states(b).iter().map(|state| self.score(b, state)).collect()
    }

    fn log_partition(&self, b: usize) -> f64 {
        log_sum_exp(&self.scores(b))
    }

    fn probabilities(&self, b: usize) -> Vec<f64> {
        let scores = self.scores(b);
        let log_z = log_sum_exp(&scores);
        scores.iter().map(|x| (x - log_z).exp()).collect()
    }

    fn entropy(&self, b: usize) -> f64 {
        cross_entropy(self, self, b)
    }

    /// The central difference of `value` in every finite parameter; 0 for the others.
    fn differences(&self, value: impl Fn(&Self) -> f64) -> Vec<f64> {
        let step = 1e-4;
        let mut parameters = self.parameters();
        (0..parameters.len())
            .map(|k| {
                let x = parameters[k];
                if x == ZERO {
                    return 0.0;
                }
                parameters[k] = x + step;
                let high = value(&self.with_parameters(&parameters));
                parameters[k] = x - step;
                let low = value(&self.with_parameters(&parameters));
                let width = (x + step) - (x - step);
                parameters[k] = x;
                (high - low) / width
            })
            .collect()
    }
}

/// −Σ p log q by enumeration.
pub fn cross_entropy<M: Listed>(p: &M, q: &M, b: usize) -> f64 {
    let (weights, log_z) = (q.scores(b), q.log_partition(b));
    let terms = p.probabilities(b).into_iter().zip(weights);
    terms.filter(|(p, _)| *p > 0.0).map(|(p, score)| p * (log_z - score)).sum()
}

impl<F: Real> Listed for Chain<F> {
    type State = Vec<usize>;

    fn batch(&self) -> usize {
        Chain::batch(self)
    }

    fn states(&self, b: usize) -> Vec<Vec<usize>> {
        (0..self.lengths()[b]).fold(vec![Vec::new()], |paths, _| {
            let longer =
                |path: Vec<usize>| (0..Chain::states(self)).map(move |i| [path.clone(), vec![i]].concat());
            paths.into_iter().flat_map(longer).collect()
        })
    }

    fn score(&self, b: usize, path: &Vec<usize>) -> f64 {
        Chain::score(self, b, path)
    }

    fn parameters(&self) -> Vec<f64> {
        let transitions: Vec<&[F]> = match self.transitions() {
            Transitions::Shared(values)
            | Transitions::PerStep(values)
            | Transitions::PerSequence(values)
            | Transitions::Sparse { values, .. } => vec![values],
            Transitions::Factored { left, right } => {
                std::iter::once(left).chain(right).map(|values| &**values).collect()
            }
            Transitions::LowRank { left, right } => vec![left, right],
        };
        let parts = [self.start(), self.emissions()].into_iter().chain(transitions).chain(self.end());
        parts.flatten().map(|x| x.to_f64()).collect()
    }

    fn with_parameters(&self, parameters: &[f64]) -> Self {
        let mut rest = parameters;
        let mut take = |len: usize| -> Vec<F> {
            let (now, later) = rest.split_at(len);
            rest = later;
            now.iter().map(|&x| F::from_f64(x)).collect()
        };
        let (start, emissions) = (take(self.start().len()), take(self.emissions().len()));
        let transitions = match self.transitions() {
            Transitions::Shared(values) => Transitions::Shared(take(values.len()).into()),
            Transitions::PerStep(values) => Transitions::PerStep(take(values.len()).into()),
            Transitions::PerSequence(values) => Transitions::PerSequence(take(values.len()).into()),
            Transitions::Sparse { pattern, values, per_step } => Transitions::Sparse {
                pattern: pattern.clone(),
                values: take(values.len()).into(),
                per_step: *per_step,
            },
            Transitions::Factored { left, right } => Transitions::Factored {
                left: take(left.len()).into(),
                right: right.as_ref().map(|right| take(right.len()).into()),
            },
            Transitions::LowRank { left, right } => {
                Transitions::LowRank { left: take(left.len()).into(), right: take(right.len()).into() }
            }
        };
        let end = self.end().map(|end| take(end.len()));
        let chain = Chain::new(start.into(), emissions.into(), self.lengths().to_vec(), transitions).unwrap();
        match end {
            None => chain,
            Some(end) => chain.with_end(end.into()).unwrap(),
        }
    }
}

impl<F: Real> Listed for SemiMarkov<F> {
    type State = Vec<(usize, usize)>;

    fn batch(&self) -> usize {
        self.chain().batch()
    }

    fn states(&self, b: usize) -> Vec<Vec<(usize, usize)>> {
        let mut done = Vec::new();
        let mut open = vec![(Vec::new(), self.chain().lengths()[b])];
        while let Some((segments, left)) = open.pop() {
            if left == 0 {
                done.push(segments);
                continue;
            }
            for length in 1..=self.longest().min(left) {
                for state in 0..self.chain().states() {
                    open.push(([segments.clone(), vec![(state, length)]].concat(), left - length));
                }
            }
        }
        done
    }

    fn score(&self, b: usize, segments: &Vec<(usize, usize)>) -> f64 {
        SemiMarkov::score(self, b, segments)
    }

    fn parameters(&self) -> Vec<f64> {
        let (Segments::Lengths(values) | Segments::Places(values)) = self.segments();
        self.chain().parameters().into_iter().chain(values.iter().map(|x| x.to_f64())).collect()
    }

    fn with_parameters(&self, parameters: &[f64]) -> Self {
        let at = self.chain().parameters().len();
        let values: Vec<F> = parameters[at..].iter().map(|&x| F::from_f64(x)).collect();
        let segments = match self.segments() {
            Segments::Lengths(_) => Segments::Lengths(values.into()),
            Segments::Places(_) => Segments::Places(values.into()),
        };
        SemiMarkov::new(self.chain().with_parameters(&parameters[..at]), segments, self.longest()).unwrap()
    }
}

/// The gradient as a flat vector, in the order of [`Listed::parameters`].
pub fn flat<F: Real>(gradient: &ChainGradient<F>) -> Vec<f64> {
    let transitions: Vec<&[F]> = match &gradient.transitions {
        TransitionGradient::Shared(values)
        | TransitionGradient::PerStep(values)
        | TransitionGradient::PerSequence(values)
        | TransitionGradient::Sparse { values, .. } => vec![values],
        TransitionGradient::Factored { left, right } => {
            std::iter::once(left).chain(right).map(Vec::as_slice).collect()
        }
        TransitionGradient::LowRank { left, right } => vec![left, right],
    };
    let end = gradient.end.as_deref();
    let parts = [&gradient.start[..], &gradient.emissions[..]].into_iter().chain(transitions).chain(end);
    parts.flatten().map(|x| x.to_f64()).collect()
}

/// The same for semi-Markov chains.
pub fn flat_segments<F: Real>(gradient: &SemiMarkovGradient<F>) -> Vec<f64> {
    flat(&gradient.chain).into_iter().chain(gradient.segments.iter().map(|x| x.to_f64())).collect()
}

fn numbers<F: Real>(random: &mut Stream, scores: &str, len: usize) -> Vec<F> {
    let one = |random: &mut Stream| match scores {
        "zeros" if random.uniform() < 0.75 => ZERO,
        "extreme" => 1e4 * (2.0 * random.uniform() - 1.0),
        "ties" => random.below(2) as f64,
        _ => 2.0 * random.normal(),
    };
    (0..len).map(|_| F::from_f64(one(random))).collect()
}

/// A random batch of chains of N ≤ 4 states and T ≤ 5 positions.
pub fn chain<F: Real>(form: &str, scores: &str, seed: u64) -> Chain<F> {
    let mut random = Streams::new(seed, &format!("chain {form} {scores}")).block(0);
    let (states, steps, batch) = (1 + random.below(4), 1 + random.below(5), 1 + random.below(3));
    sized_chain(&mut random, form, scores, [batch, steps, states])
}

/// A random batch of chains of the given shape B, T and N.
pub fn sized_chain<F: Real>(
    random: &mut Stream,
    form: &str,
    scores: &str,
    [batch, steps, states]: [usize; 3],
) -> Chain<F> {
    let lengths: Vec<usize> = (0..batch).map(|_| 1 + random.below(steps)).collect();
    let rank = 1 + random.below(3);
    let embeddings = |random: &mut Stream| {
        // Scales the embeddings so that their products are as large as the other scores.
        let factor = if scores == "extreme" { 70.0 } else { 1.0 };
        let values: Vec<F> = (0..states * rank).map(|_| F::from_f64(factor * random.normal())).collect();
        values.into()
    };
    let transitions = match form {
        "shared" => Transitions::Shared(numbers(random, scores, states * states).into()),
        "per-step" => Transitions::PerStep(numbers(random, scores, (steps - 1) * states * states).into()),
        "per-sequence" => {
            Transitions::PerSequence(numbers(random, scores, batch * (steps - 1) * states * states).into())
        }
        "sparse" | "sparse per step" => {
            let pattern = pattern(random, states);
            let per_step = form != "sparse";
            let tables = if per_step { steps - 1 } else { 1 };
            let values = numbers(random, scores, tables * pattern.len()).into();
            Transitions::Sparse { pattern, values, per_step }
        }
        "low-rank" => {
            let mut factor = || numbers(random, scores, states * rank).into();
            Transitions::LowRank { left: factor(), right: factor() }
        }
        "factored" => Transitions::Factored { left: embeddings(random), right: None },
        _ => Transitions::Factored { left: embeddings(random), right: Some(embeddings(random)) },
    };
    let start = numbers(random, if scores == "zeros" { "plain" } else { scores }, states);
    let emissions = numbers(random, scores, batch * steps * states);
    let chain = Chain::new(start.into(), emissions.into(), lengths, transitions).unwrap();
    // Half of the chains have end scores.
    match random.below(2) {
        0 => chain,
        _ => {
            let end = numbers(random, if scores == "zeros" { "plain" } else { scores }, states);
            chain.with_end(end.into()).unwrap()
        }
    }
}

/// A random pattern, in which some rows and columns may be empty.
pub fn pattern(random: &mut Stream, states: usize) -> Pattern {
    let (mut starts, mut targets) = (vec![0], Vec::new());
    for _ in 0..states {
        targets.extend((0..states as u32).filter(|_| random.uniform() < 0.6));
        starts.push(targets.len());
    }
    Pattern::new(states, starts, targets).unwrap()
}

/// A random batch of semi-Markov chains of N ≤ 3 states and T ≤ 5 positions.
pub fn semi_markov<F: Real>(form: &str, scores: &str, seed: u64) -> SemiMarkov<F> {
    let mut random = Streams::new(seed, &format!("semi-Markov {form} {scores}")).block(0);
    let shape = [1 + random.below(3), 1 + random.below(5), 1 + random.below(3)];
    let [batch, steps, states] = shape;
    let chain = sized_chain(&mut random, form, scores, shape);
    let longest = 1 + random.below(4);
    let segments = if random.below(2) == 0 {
        Segments::Lengths(numbers(&mut random, scores, longest * states).into())
    } else {
        Segments::Places(numbers(&mut random, scores, batch * steps * longest * states).into())
    };
    SemiMarkov::new(chain, segments, longest).unwrap()
}

/// Forward–backward with and without checkpoints.
pub fn methods() -> [ForwardBackward; 2] {
    [ForwardBackward::default().checkpoint(false), ForwardBackward::default().checkpoint(true)]
}

/// Asserts that every entry is within `allowance` of the corresponding entry of the other list.
pub fn close(what: &str, got: &[f64], want: &[f64], allowance: f64) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (k, (a, b)) in got.iter().zip(want).enumerate() {
        assert!(
            a == b || (a - b).abs() <= allowance,
            "{what}: entry {k} is {a}, expected {b} ± {allowance:e}"
        );
    }
}
