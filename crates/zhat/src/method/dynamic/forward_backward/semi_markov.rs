//! Semi-Markov chains: what their lattice says, and its gradients.

use std::ops::Range;

use rayon::prelude::*;

use super::ForwardBackward;
use super::chain::zeros;
use super::forecast::Cost;
use super::paths::draw_all;
use super::recorded::{Factors, Recorded, answer, some_weight};
use crate::answer::Answer;
use crate::error::{Error, Result};
use crate::method::dynamic::lattice::{
    Edges, Messages, SegmentDirected, SegmentDirection, SegmentLattice, SegmentNodes, SemiMarkovSegments,
    Sizes, rounding, steps_of,
};
use crate::model::{Segments, SemiMarkov};
use crate::numeric::Real;
use crate::query::sequence::{NodeMarginals, PathSamples, Segmentation, SemiMarkovGradient};
use crate::query::{KBest, Map, Marginals, Query, Sample};
use crate::run::{Clock, Run};

/// The messages of a semi-Markov chain.
pub struct SegmentMessages<F>(Messages<F>);

/// The messages of one semi-Markov chain or two, and expectations along them.
pub struct SegmentExpectations<F>(SegmentDirected<F>);

impl<F: Real> Recorded for SemiMarkov<F> {
    type Real = F;
    type Swept = SegmentMessages<F>;
    type Directed = SegmentExpectations<F>;

    fn sequences(&self) -> usize {
        self.chain().batch()
    }

    /// Every position adds up N terms in the model's precision and L in double precision.
    fn rounding(&self) -> f64 {
        let states = self.chain().states();
        let (steps, longest, magnitude) = (positions(self), self.longest() as f64, self.largest_score());
        let terms = states as f64 + 2.0 * longest;
        rounding(self.transitions(), &Sizes { states, steps, terms, longest, magnitude })
    }

    fn largest_score(&self) -> f64 {
        let (Segments::Lengths(values) | Segments::Places(values)) = self.segments();
        let largest = values.iter().map(|x| x.to_f64().abs()).filter(|x| x.is_finite()).fold(0.0, f64::max);
        self.chain().magnitude() + positions(self) * largest
    }

    fn largest_entropy(&self) -> f64 {
        // A cut or none, and a state, at every position.
        positions(self) * (2.0 * self.chain().states() as f64).ln()
    }

    fn form(&self) -> &'static str {
        self.transitions().form()
    }

    fn same_shape(&self, other: &Self) -> bool {
        self.chain().same_shape(other.chain()) && self.longest() == other.longest()
    }

    fn gradient_bytes(&self, checkpoint: bool, rows: f64, models: f64, threads: usize) -> f64 {
        Cost::of_segments(self, checkpoint, threads).gradient_bytes(rows, models)
    }

    fn log_partitions(&self, clock: &Clock<'_>) -> Result<Vec<f64>> {
        with_lattice(self, clock, |lattice| lattice.log_partitions(clock))
    }

    fn sweep(&self, checkpoint: bool, clock: &Clock<'_>) -> Result<(Vec<f64>, Option<SegmentMessages<F>>)> {
        with_lattice(self, clock, |lattice| {
            if checkpoint {
                return Ok((lattice.log_partitions(clock)?, None));
            }
            let messages = lattice.sweep(clock)?;
            Ok((messages.log_partition.clone(), Some(SegmentMessages(messages))))
        })
    }

    fn gradient(
        &self,
        kept: Option<&SegmentMessages<F>>,
        cotangent: &[f64],
        checkpoint: bool,
        clock: &Clock<'_>,
    ) -> Result<(Vec<f64>, SemiMarkovGradient<F>)> {
        with_lattice(self, clock, |lattice| {
            let mut gradient = zero_gradient(self);
            let mut visit = |messages: &Messages<F>| {
                add_marginals(self, lattice, messages, cotangent, clock, &mut gradient)?;
                let transitions = &mut gradient.chain.transitions;
                lattice.base.add_edge_marginals(messages, cotangent, clock, transitions)
            };
            let log_partition = match kept {
                Some(SegmentMessages(messages)) => {
                    visit(messages)?;
                    messages.log_partition.clone()
                }
                None if checkpoint => lattice.sweep_windows(clock, visit)?,
                None => {
                    let messages = lattice.sweep(clock)?;
                    visit(&messages)?;
                    messages.log_partition
                }
            };
            Ok((log_partition, gradient))
        })
    }

    fn expectation(
        &self,
        q: Option<&Self>,
        factors: Factors,
        clock: &Clock<'_>,
    ) -> Result<(Vec<f64>, Vec<f64>)> {
        with_direction(self, q, factors, clock, |direction| direction.expectation(clock))
    }

    fn direct(
        &self,
        q: Option<&Self>,
        factors: Factors,
        clock: &Clock<'_>,
    ) -> Result<(Vec<f64>, Vec<f64>, SegmentExpectations<F>)> {
        with_direction(self, q, factors, clock, |direction| {
            let (values, swept) = direction.sweep(clock)?;
            Ok((values, swept.directed.p.log_partition.clone(), SegmentExpectations(swept)))
        })
    }

    fn direction_gradient(
        &self,
        q: Option<&Self>,
        factors: Factors,
        kept: Option<(&[f64], &SegmentExpectations<F>)>,
        cotangent: &[f64],
        clock: &Clock<'_>,
    ) -> Result<(SemiMarkovGradient<F>, Option<SemiMarkovGradient<F>>)> {
        with_direction(self, q, factors, clock, |direction| {
            let (mut to_p, mut to_q) = (zero_gradient(self), q.map(zero_gradient));
            let of_p: Vec<f64> = cotangent.iter().map(|c| factors.other * c).collect();
            let of_q: Vec<f64> = cotangent.iter().map(|c| -factors.other * c).collect();
            let mut visit = |values: &[f64], swept: &SegmentDirected<F>| {
                let directed = &swept.directed;
                each_start(self, &directed.p.window, cotangent, clock, &mut to_p, |b, s, visit| {
                    direction.segment_covariances(swept, values[b], b, s, visit);
                })?;
                let transitions = &mut to_p.chain.transitions;
                direction.direction.add_edge_covariance(directed, values, cotangent, clock, transitions)?;
                let (Some(q), Some(to_q)) = (q, &mut to_q) else { return Ok(()) };
                let (Some(lattice), Some(messages)) = (direction.q, &directed.q) else { return Ok(()) };
                add_marginals(q, direction.p, &directed.p, &of_p, clock, to_q)?;
                add_marginals(q, lattice, messages, &of_q, clock, to_q)?;
                let transitions = &mut to_q.chain.transitions;
                direction.direction.add_edges_of_p_to_q(directed, values, &of_p, clock, transitions)?;
                lattice.base.add_edge_marginals(messages, &of_q, clock, transitions)
            };
            match kept {
                Some((values, kept)) => visit(values, &kept.0)?,
                None => direction.sweep_windows(clock, |values, swept| visit(values, &swept))?,
            }
            Ok((to_p, to_q))
        })
    }
}

fn positions<F: Real>(model: &SemiMarkov<F>) -> f64 {
    model.chain().lengths().iter().max().map_or(0.0, |&longest| longest as f64)
}

/// Makes the lattice of a semi-Markov chain for `work`.
pub(super) fn with_lattice<F: Real, R>(
    model: &SemiMarkov<F>,
    clock: &Clock<'_>,
    work: impl FnOnce(&SegmentLattice<'_, F>) -> Result<R>,
) -> Result<R> {
    let chain = model.chain();
    let boundaries = chain.lengths().iter().max().map_or(0, |longest| longest - 1);
    let steps = steps_of(chain.transitions(), chain.states(), boundaries, clock)?;
    let segments = SemiMarkovSegments(model);
    let nodes = SegmentNodes(&segments);
    let edges = Edges { transitions: chain.transitions(), states: chain.states(), sets: None };
    work(&SegmentLattice::new(chain.lengths(), &segments, &nodes, &*steps, edges))
}

/// Makes the lattices of one or two semi-Markov chains for `work`.
fn with_direction<F: Real, R>(
    p: &SemiMarkov<F>,
    q: Option<&SemiMarkov<F>>,
    factors: Factors,
    clock: &Clock<'_>,
    work: impl FnOnce(&SegmentDirection<'_, F>) -> Result<R>,
) -> Result<R> {
    with_lattice(p, clock, |p| match q {
        None => work(&SegmentDirection::new(p, factors.own, None)),
        Some(q) => {
            with_lattice(q, clock, |q| work(&SegmentDirection::new(p, factors.own, Some((factors.other, q)))))
        }
    })
}

pub(super) fn zero_gradient<F: Real>(model: &SemiMarkov<F>) -> SemiMarkovGradient<F> {
    let (Segments::Lengths(values) | Segments::Places(values)) = model.segments();
    SemiMarkovGradient { chain: zeros(model.chain()), segments: vec![F::ZERO; values.len()] }
}

/// Adds Σ_b cotangent_b · P(segment) to the gradient with respect to start, emissions and segments.
fn add_marginals<F: Real>(
    model: &SemiMarkov<F>,
    lattice: &SegmentLattice<'_, F>,
    messages: &Messages<F>,
    cotangent: &[f64],
    clock: &Clock<'_>,
    gradient: &mut SemiMarkovGradient<F>,
) -> Result<()> {
    let some = |b: usize| if messages.log_partition[b] > f64::NEG_INFINITY { cotangent[b] } else { 0.0 };
    let cotangent: Vec<f64> = (0..cotangent.len()).map(some).collect();
    each_start(model, &messages.window, &cotangent, clock, gradient, |b, s, visit| {
        lattice.segment_marginals(messages, b, s, |t, marginals, _| visit(t, marginals));
    })
}

/// Spreads what `weigh` says about the segments from every start of a window over the parameters that they have. Sequences are added up one after the
/// other: the same bits for any number of threads.
fn each_start<F: Real>(
    model: &SemiMarkov<F>,
    window: &Range<usize>,
    cotangent: &[f64],
    clock: &Clock<'_>,
    gradient: &mut SemiMarkovGradient<F>,
    weigh: impl Fn(usize, usize, &mut dyn FnMut(usize, &[f64])) + Sync,
) -> Result<()> {
    let chain = model.chain();
    let (n, longest) = (chain.states(), model.longest());
    // Gradients with respect to start, emissions and segments of one sequence.
    let sequence = |b: usize| {
        let length = chain.lengths()[b];
        let starts = window.start..window.end.min(length);
        let mut start = vec![0.0; n];
        let mut emissions = vec![0.0; ((window.end + longest - 1).min(length) - window.start) * n];
        let places = matches!(model.segments(), Segments::Places(_));
        let mut segments = vec![0.0; if places { starts.len() * longest * n } else { longest * n }];
        for s in starts {
            clock.check()?;
            let mut ends: Vec<Vec<f64>> = Vec::new();
            weigh(b, s, &mut |_, weights| ends.push(weights.to_vec()));
            let from = if places { (s - window.start) * longest * n } else { 0 };
            for (row, weights) in segments[from..].chunks_exact_mut(n).zip(&ends) {
                row.iter_mut().zip(weights).for_each(|(x, w)| *x += w);
            }
            // Position s + d lies in every segment that is longer than d.
            let mut covering = vec![0.0; n];
            for (d, weights) in ends.iter().enumerate().rev() {
                covering.iter_mut().zip(weights).for_each(|(x, w)| *x += w);
                let row = &mut emissions[(s + d - window.start) * n..][..n];
                row.iter_mut().zip(&covering).for_each(|(x, w)| *x += w);
            }
            if s == 0 {
                start = covering;
            }
        }
        Ok((start, emissions, segments))
    };
    let has_some = |b: &usize| cotangent[*b] != 0.0 && window.start < chain.lengths()[*b];
    let wanted: Vec<usize> = (0..chain.batch()).filter(has_some).collect();
    let parts: Vec<_> = wanted.par_iter().map(|&b| sequence(b)).collect::<Result<_>>()?;
    let add = |to: &mut [F], from: &[f64], factor: f64| {
        to.iter_mut().zip(from).for_each(|(x, y)| *x += F::from_f64(factor * y));
    };
    for (b, (start, emissions, segments)) in wanted.into_iter().zip(parts) {
        let (c, at) = (cotangent[b], (b * chain.steps() + window.start) * n);
        add(&mut gradient.chain.start, &start, c);
        add(&mut gradient.chain.emissions[at..], &emissions, c);
        // Marginals have no use for those of segments.
        if !gradient.segments.is_empty() {
            let at = if matches!(model.segments(), Segments::Places(_)) { at * longest } else { 0 };
            add(&mut gradient.segments[at..], &segments, c);
        }
    }
    Ok(())
}

impl<F: Real> Marginals<SemiMarkov<F>> for ForwardBackward {
    /// P(position t lies in a segment of state i).
    fn marginals(&self, model: &SemiMarkov<F>, run: &Run) -> Result<Answer<NodeMarginals<F>>> {
        answer(self, model, Query::Marginals, run, |clock| {
            with_lattice(model, clock, |lattice| {
                let chain = model.chain();
                let mut gradient = SemiMarkovGradient { chain: zeros(chain), segments: Vec::new() };
                let ones = vec![1.0; chain.batch()];
                let mut visit = |messages: &Messages<F>| {
                    add_marginals(model, lattice, messages, &ones, clock, &mut gradient)
                };
                let log_partition = if self.checkpoint {
                    lattice.sweep_windows(clock, visit)?
                } else {
                    let messages = lattice.sweep(clock)?;
                    visit(&messages)?;
                    messages.log_partition
                };
                some_weight(&log_partition)?;
                let shape = [chain.batch(), chain.steps(), chain.states()];
                Ok(NodeMarginals { shape, values: gradient.chain.emissions })
            })
        })
    }
}

fn scored<F: Real>(model: &SemiMarkov<F>, b: usize, segments: Vec<(usize, usize)>) -> Segmentation {
    let score = if segments.is_empty() { f64::NEG_INFINITY } else { model.score(b, &segments) };
    Segmentation { segments, score }
}

impl<F: Real> Map<SemiMarkov<F>> for ForwardBackward {
    /// A sequence without a segmentation has an empty one.
    fn map(&self, model: &SemiMarkov<F>, run: &Run) -> Result<Answer<Vec<Segmentation>>> {
        answer(self, model, Query::Map, run, |clock| {
            with_lattice(model, clock, |lattice| {
                let best = lattice.sweep_max(clock)?;
                let of = |b: usize| Ok(scored(model, b, lattice.best_segmentation(&best, b, clock)?));
                let found: Vec<Segmentation> =
                    (0..model.sequences()).into_par_iter().map(of).collect::<Result<_>>()?;
                let none = found.iter().all(|one| one.segments.is_empty());
                if none { Err(Error::ZeroPartition) } else { Ok(found) }
            })
        })
    }
}

impl<F: Real> KBest<SemiMarkov<F>> for ForwardBackward {
    fn k_best(&self, model: &SemiMarkov<F>, k: usize, run: &Run) -> Result<Answer<Vec<Vec<Segmentation>>>> {
        answer(self, model, Query::KBest(k), run, |clock| {
            with_lattice(model, clock, |lattice| {
                let best = lattice.sweep_max(clock)?;
                let of = |b: usize| {
                    let found = lattice.best_segmentations(&best, b, k, clock)?.into_iter();
                    let mut found: Vec<Segmentation> = found.map(|one| scored(model, b, one)).collect();
                    // Near ties can change places by rounding.
                    found.sort_by(|a, b| b.score.total_cmp(&a.score));
                    Ok(found)
                };
                let ranked: Vec<Vec<Segmentation>> =
                    (0..model.sequences()).into_par_iter().map(of).collect::<Result<_>>()?;
                let none = k > 0 && ranked.iter().all(Vec::is_empty);
                if none { Err(Error::ZeroPartition) } else { Ok(ranked) }
            })
        })
    }
}

impl<F: Real> Sample<SemiMarkov<F>> for ForwardBackward {
    /// A sequence without a segmentation has no samples.
    fn sample(
        &self,
        model: &SemiMarkov<F>,
        count: usize,
        run: &Run,
    ) -> Result<Answer<PathSamples<Vec<(usize, usize)>>>> {
        answer(self, model, Query::Sample(count), run, |clock| {
            with_lattice(model, clock, |lattice| {
                let messages = lattice.sweep(clock)?;
                let possible = |b: usize| messages.log_partition[b] > f64::NEG_INFINITY;
                draw_all(model.sequences(), count, possible, run, clock, |b, count, random| {
                    lattice.draw(&messages, b, count, random, clock)
                })
            })
        })
    }
}
