//! The interface shared by chains and semi-Markov chains, and their lattices.

use crate::error::Result;
use crate::method::dynamic::lattice::{
    ChainNodes, Edges, Lattice, ScoreGradient, SegmentPath, SemiMarkovSegments, Sizes, rounding, steps_of,
    zero_gradient,
};
use crate::model::{Chain, Segments, SemiMarkov};
use crate::numeric::Real;
use crate::query::sequence::{
    ChainGradient, NodeMarginals, Path, PathSamples, Segmentation, SemiMarkovGradient, TransitionGradient,
};
use crate::query::{Answers, HasFactorMarginals, HasMarginals, HasStates};
use crate::run::Clock;

/// A batch of sequences with a lattice: [`Chain`] or [`SemiMarkov`]. In a chain, each segment has one
/// position.
pub trait SequenceModel:
    Answers<Number = Vec<f64>>
    + HasMarginals<Marginals = NodeMarginals<Self::Real>>
    + HasFactorMarginals<FactorMarginals: Send>
    + HasStates<Best = Vec<Self::Scored>, Ranked = Vec<Vec<Self::Scored>>, Samples = PathSamples<Self::Drawn>>
    + Clone
    + Send
    + Sync
{
    #[doc(hidden)]
    type Real: Real;
    /// A path without its score.
    #[doc(hidden)]
    type Drawn: Clone + std::fmt::Debug + PartialEq + Default + Send;
    /// A path with its score.
    #[doc(hidden)]
    type Scored: Send;
    /// Whether there are segments of more than one position.
    #[doc(hidden)]
    const SEGMENTS: bool;

    /// Start, emissions and transitions.
    #[doc(hidden)]
    fn chain(&self) -> &Chain<Self::Real>;
    /// L; 1 for a chain.
    #[doc(hidden)]
    fn longest(&self) -> usize {
        1
    }
    /// The scores of segments.
    #[doc(hidden)]
    fn segment_scores(&self) -> Option<&Segments<Self::Real>> {
        None
    }
    /// Scores of the segments of sequence b with d positions from s on, one per state.
    #[doc(hidden)]
    fn segment_row(&self, _b: usize, _s: usize, _d: usize) -> &[Self::Real] {
        &[]
    }
    /// Sequence b alone.
    #[doc(hidden)]
    fn part(&self, b: usize) -> Self;
    /// Adds the gradient of sequence b alone to that of the whole batch.
    #[doc(hidden)]
    fn add_part(&self, b: usize, part: Self::FactorMarginals, gradient: &mut Self::FactorMarginals);
    /// Builds the lattice and passes it to `work`.
    #[doc(hidden)]
    fn with_lattice<R>(
        &self,
        clock: &Clock<'_>,
        work: impl FnOnce(&Lattice<'_, Self::Real>) -> Result<R>,
    ) -> Result<R>;
    /// A gradient of zeros.
    #[doc(hidden)]
    fn zero_gradient(&self) -> Self::FactorMarginals;
    /// Completes a gradient: with respect to the end scores, from the gradient with respect to the emissions.
    #[doc(hidden)]
    fn finish_end(&self, gradient: &mut Self::FactorMarginals);
    /// The parts of a gradient: with respect to the scores of segments, and to the transitions.
    #[doc(hidden)]
    fn split<'a>(
        &'a self,
        gradient: &'a mut Self::FactorMarginals,
    ) -> (ScoreGradient<'a, Self::Real>, &'a mut TransitionGradient<Self::Real>);
    /// A path from its segments.
    #[doc(hidden)]
    fn drawn(segments: SegmentPath) -> Self::Drawn;
    /// A path of sequence b with its score; −∞ for an empty path.
    #[doc(hidden)]
    fn scored(&self, b: usize, segments: SegmentPath) -> Self::Scored;
    /// The score of a path.
    #[doc(hidden)]
    fn score_of(path: &Self::Scored) -> f64;

    /// The length of the longest sequence.
    #[doc(hidden)]
    fn positions(&self) -> f64 {
        self.chain().lengths().iter().max().map_or(0.0, |&longest| longest as f64)
    }
    /// A bound on the rounding error of log Z, or with `backward` of results that depend on both sweeps: each
    /// position sums N terms in the model's precision and L terms in double precision.
    #[doc(hidden)]
    fn rounding(&self, backward: bool) -> f64 {
        let (states, steps, magnitude) = (self.chain().states(), self.positions(), self.largest_score());
        let longest = self.longest() as f64;
        let (terms, others) = (states as f64, if Self::SEGMENTS { 2.0 * longest } else { 0.0 });
        let sizes = Sizes { states, steps, terms, others, backward, longest, magnitude };
        rounding(self.chain().transitions(), &sizes)
    }
    /// A bound on |score|.
    #[doc(hidden)]
    fn largest_score(&self) -> f64 {
        let chain = self.chain().magnitude();
        let Some(Segments::Lengths(values) | Segments::Places(values)) = self.segment_scores() else {
            return chain;
        };
        let largest = values.iter().map(|x| x.to_f64().abs()).filter(|x| x.is_finite()).fold(0.0, f64::max);
        chain + self.positions() * largest
    }
    /// A bound on the entropy.
    #[doc(hidden)]
    fn largest_entropy(&self) -> f64 {
        // With segments, each position has a state and either ends a segment or does not.
        let choices = if Self::SEGMENTS { 2.0 } else { 1.0 };
        self.positions() * (choices * self.chain().states() as f64).ln()
    }
    /// Size of the gradient with respect to transitions and segment scores.
    #[doc(hidden)]
    fn parameters(&self) -> usize {
        let segments = match self.segment_scores() {
            Some(Segments::Lengths(values) | Segments::Places(values)) => values.len(),
            None => 0,
        };
        self.chain().transitions().len() + segments
    }
    /// Whether both have the same lengths, states and longest segment.
    #[doc(hidden)]
    fn same_shape(&self, other: &Self) -> bool {
        let (own, others) = (self.chain(), other.chain());
        own.lengths() == others.lengths()
            && own.states() == others.states()
            && self.longest() == other.longest()
    }
}

/// Adds a gradient of the same form.
fn add_gradient<F: Real>(to: &mut TransitionGradient<F>, from: &TransitionGradient<F>) {
    use TransitionGradient::{Factored, LowRank, PerSequence, PerStep, Shared, Sparse};
    match (to, from) {
        (Shared(to), Shared(from)) | (PerStep(to), PerStep(from)) | (PerSequence(to), PerSequence(from)) => {
            F::add_to(to, from);
        }
        (Sparse { values: to, .. }, Sparse { values: from, .. }) => F::add_to(to, from),
        (Factored { left, right }, Factored { left: from_left, right: from_right }) => {
            F::add_to(left, from_left);
            right.iter_mut().zip(from_right).for_each(|(to, from)| F::add_to(to, from));
        }
        (LowRank { left, right }, LowRank { left: from_left, right: from_right }) => {
            F::add_to(left, from_left);
            F::add_to(right, from_right);
        }
        // Both belong to models of the same form.
        _ => {}
    }
}

/// The transitions between all states of a model.
fn edges<F: Real>(chain: &Chain<F>) -> Edges<'_, F> {
    Edges { transitions: chain.transitions(), states: chain.states(), sets: None }
}

impl<F: Real> SequenceModel for Chain<F> {
    type Real = F;
    type Drawn = Vec<usize>;
    type Scored = Path;
    const SEGMENTS: bool = false;

    fn chain(&self) -> &Chain<F> {
        self
    }

    fn with_lattice<R>(
        &self,
        clock: &Clock<'_>,
        work: impl FnOnce(&Lattice<'_, F>) -> Result<R>,
    ) -> Result<R> {
        let boundaries = self.lengths().iter().max().map_or(0, |longest| longest - 1);
        let steps = steps_of(self.transitions(), self.states(), boundaries, clock)?;
        work(&Lattice::new(self.lengths(), &ChainNodes(self), &*steps, edges(self)))
    }

    fn part(&self, b: usize) -> Self {
        Chain::part(self, b)
    }

    fn add_part(&self, b: usize, part: ChainGradient<F>, gradient: &mut ChainGradient<F>) {
        F::add_to(&mut gradient.start, &part.start);
        let nodes = part.emissions.len();
        F::add_to(&mut gradient.emissions[b * nodes..(b + 1) * nodes], &part.emissions);
        if let (Some(end), Some(part)) = (&mut gradient.end, &part.end) {
            F::add_to(end, part);
        }
        match (&mut gradient.transitions, &part.transitions) {
            (TransitionGradient::PerSequence(all), TransitionGradient::PerStep(own)) => {
                let first = b * (all.len() / self.batch());
                all[first..first + own.len()].copy_from_slice(own);
            }
            (all, own) => add_gradient(all, own),
        }
    }

    fn zero_gradient(&self) -> ChainGradient<F> {
        ChainGradient {
            start: vec![F::ZERO; self.states()],
            emissions: vec![F::ZERO; self.emissions().len()],
            transitions: zero_gradient(self.transitions()),
            end: self.end().map(|end| vec![F::ZERO; end.len()]),
        }
    }

    fn finish_end(&self, gradient: &mut ChainGradient<F>) {
        Chain::finish_end(self, gradient);
    }

    fn split<'a>(
        &'a self,
        gradient: &'a mut ChainGradient<F>,
    ) -> (ScoreGradient<'a, F>, &'a mut TransitionGradient<F>) {
        ScoreGradient::split(self, gradient, None)
    }

    fn drawn(segments: SegmentPath) -> Vec<usize> {
        // Iterates by reference: `into_iter` would reuse, and keep, the larger allocation of the pairs.
        segments.iter().map(|segment| segment.0).collect()
    }

    fn scored(&self, b: usize, segments: SegmentPath) -> Path {
        let states = Self::drawn(segments);
        let score = if states.is_empty() { f64::NEG_INFINITY } else { self.score(b, &states) };
        Path { states, score }
    }

    fn score_of(path: &Path) -> f64 {
        path.score
    }
}

impl<F: Real> SequenceModel for SemiMarkov<F> {
    type Real = F;
    type Drawn = Vec<(usize, usize)>;
    type Scored = Segmentation;
    const SEGMENTS: bool = true;

    fn chain(&self) -> &Chain<F> {
        SemiMarkov::chain(self)
    }

    fn longest(&self) -> usize {
        SemiMarkov::longest(self)
    }

    fn segment_scores(&self) -> Option<&Segments<F>> {
        Some(self.segments())
    }

    fn segment_row(&self, b: usize, s: usize, d: usize) -> &[F] {
        self.segment(b, s, d)
    }

    fn with_lattice<R>(
        &self,
        clock: &Clock<'_>,
        work: impl FnOnce(&Lattice<'_, F>) -> Result<R>,
    ) -> Result<R> {
        let chain = self.chain();
        let boundaries = chain.lengths().iter().max().map_or(0, |longest| longest - 1);
        let steps = steps_of(chain.transitions(), chain.states(), boundaries, clock)?;
        work(&Lattice::of_segments(chain.lengths(), &SemiMarkovSegments(self), &*steps, edges(chain)))
    }

    fn part(&self, b: usize) -> Self {
        SemiMarkov::part(self, b)
    }

    fn add_part(&self, b: usize, part: SemiMarkovGradient<F>, gradient: &mut SemiMarkovGradient<F>) {
        self.chain().add_part(b, part.chain, &mut gradient.chain);
        let own = part.segments.len();
        let first = if gradient.segments.len() > own { b * own } else { 0 };
        F::add_to(&mut gradient.segments[first..first + own], &part.segments);
    }

    fn zero_gradient(&self) -> SemiMarkovGradient<F> {
        let (Segments::Lengths(values) | Segments::Places(values)) = self.segments();
        SemiMarkovGradient { chain: self.chain().zero_gradient(), segments: vec![F::ZERO; values.len()] }
    }

    fn finish_end(&self, gradient: &mut SemiMarkovGradient<F>) {
        self.chain().finish_end(&mut gradient.chain);
    }

    fn split<'a>(
        &'a self,
        gradient: &'a mut SemiMarkovGradient<F>,
    ) -> (ScoreGradient<'a, F>, &'a mut TransitionGradient<F>) {
        let SemiMarkovGradient { chain, segments } = gradient;
        ScoreGradient::split(self.chain(), chain, Some((self, segments)))
    }

    fn drawn(segments: SegmentPath) -> SegmentPath {
        segments
    }

    fn scored(&self, b: usize, segments: SegmentPath) -> Segmentation {
        let score = if segments.is_empty() { f64::NEG_INFINITY } else { self.score(b, &segments) };
        Segmentation { segments, score }
    }

    fn score_of(path: &Segmentation) -> f64 {
        path.score
    }
}
