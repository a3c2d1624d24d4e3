//! What estimates need of a model: proposals for its positions.

use super::proposal::{ChainProposals, Proposal, Rule, Support};
use super::segment_proposal::SegmentProposals;
use crate::error::Result;
use crate::method::dynamic::SequenceModel;
use crate::model::{Chain, Segments, SemiMarkov};
use crate::numeric::Real;
use crate::random::Streams;
use crate::run::Clock;

/// A batch of sequences whose states can be proposed.
pub trait Target: SequenceModel {
    /// What is likely to matter.
    fn proposals<'a>(&'a self, proposal: Proposal, scores: &'a [f64]) -> Box<dyn Proposals<Self::Real> + 'a>;

    /// Numbers of the gradient with respect to transitions and segments.
    fn parameters(&self) -> usize {
        let segments = match self.segment_scores() {
            Some(Segments::Lengths(values) | Segments::Places(values)) => values.len(),
            None => 0,
        };
        self.chain().transitions().len() + segments
    }
}

impl<F: Real> Target for Chain<F> {
    fn proposals<'a>(&'a self, proposal: Proposal, scores: &'a [f64]) -> Box<dyn Proposals<F> + 'a> {
        Box::new(ChainProposals::new(self, proposal, scores))
    }
}

impl<F: Real> Target for SemiMarkov<F> {
    fn proposals<'a>(&'a self, proposal: Proposal, scores: &'a [f64]) -> Box<dyn Proposals<F> + 'a> {
        Box::new(SegmentProposals::new(self, proposal, scores))
    }
}

/// The proposals for the positions of a batch.
pub trait Proposals<F: Real>: Sync {
    /// Backward messages of sequence b for every position and state, each position up to a constant.
    fn guide(&self, b: usize, rule: Rule, streams: &Streams, clock: &Clock<'_>) -> Result<Vec<F>>;

    /// Chooses the states of sequence b for one replicate.
    fn support(
        &self,
        b: usize,
        replicate: usize,
        guide: &[F],
        rule: Rule,
        streams: &Streams,
        clock: &Clock<'_>,
    ) -> Result<Support>;
}
