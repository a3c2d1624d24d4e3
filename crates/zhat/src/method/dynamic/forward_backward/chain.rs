//! Chains: what their lattice says, and its gradients.

use std::ops::Range;

use rayon::prelude::*;

use super::ForwardBackward;
use super::forecast::Cost;
use super::recorded::{Factors, Recorded, answer, some_weight};
use crate::answer::Answer;
use crate::error::Result;
use crate::method::dynamic::lattice::{
    ChainNodes, Directed, Direction, Edges, Lattice, Linear, Messages, Sizes, rounding, steps_of,
    zero_gradient,
};
use crate::model::Chain;
use crate::numeric::Real;
use crate::query::sequence::{ChainGradient, NodeMarginals};
use crate::query::{Marginals, Query};
use crate::run::{Clock, Run};

/// Rows of fewer numbers in all are not worth sharing out.
const PARALLEL: usize = 1 << 15;

/// The messages of a chain.
pub struct ChainMessages<F>(Messages<F>);

/// The messages of one chain or two, and expectations along them.
pub struct ChainDirected<F>(Directed<F>);

impl<F: Real> Recorded for Chain<F> {
    type Real = F;
    type Swept = ChainMessages<F>;
    type Directed = ChainDirected<F>;

    fn sequences(&self) -> usize {
        self.batch()
    }

    /// Every position adds up N terms in the model's precision.
    fn rounding(&self) -> f64 {
        let states = self.states();
        let (terms, magnitude) = (states as f64, self.magnitude());
        rounding(self.transitions(), &Sizes { states, steps: longest(self), terms, longest: 1.0, magnitude })
    }

    fn largest_score(&self) -> f64 {
        self.magnitude()
    }

    fn largest_entropy(&self) -> f64 {
        longest(self) * (self.states() as f64).ln()
    }

    fn form(&self) -> &'static str {
        self.transitions().form()
    }

    fn same_shape(&self, other: &Self) -> bool {
        self.lengths() == other.lengths() && self.states() == other.states()
    }

    fn gradient_bytes(&self, checkpoint: bool, rows: f64, models: f64, threads: usize) -> f64 {
        Cost::of(self, checkpoint, threads).gradient_bytes(rows, models)
    }

    fn log_partitions(&self, clock: &Clock<'_>) -> Result<Vec<f64>> {
        with_lattice(self, clock, |lattice| {
            let linear =
                lattice.linear().then(|| lattice.linear_log_partitions(clock)).transpose()?.flatten();
            linear.map_or_else(|| lattice.log_partitions(clock), Ok)
        })
    }

    fn sweep(&self, checkpoint: bool, clock: &Clock<'_>) -> Result<(Vec<f64>, Option<ChainMessages<F>>)> {
        with_lattice(self, clock, |lattice| {
            if checkpoint {
                return Ok((lattice.log_partitions(clock)?, None));
            }
            let messages = lattice.sweep(clock)?;
            Ok((messages.log_partition.clone(), Some(ChainMessages(messages))))
        })
    }

    fn gradient(
        &self,
        kept: Option<&ChainMessages<F>>,
        cotangent: &[f64],
        checkpoint: bool,
        clock: &Clock<'_>,
    ) -> Result<(Vec<f64>, ChainGradient<F>)> {
        with_lattice(self, clock, |lattice| {
            let mut gradient = zeros(self);
            if kept.is_none()
                && !checkpoint
                && lattice.linear()
                && let Some(messages) = lattice.sweep_linear(&mut gradient.emissions, clock)?
            {
                add_linear_gradient(lattice, &messages, cotangent, clock, &mut gradient)?;
                add_start(self, &mut gradient);
                return Ok((messages.log_partition, gradient));
            }
            let mut visit =
                |messages: &Messages<F>| add_gradient(lattice, messages, cotangent, clock, &mut gradient);
            let log_partition = match kept {
                Some(ChainMessages(messages)) => {
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
            add_start(self, &mut gradient);
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
    ) -> Result<(Vec<f64>, Vec<f64>, ChainDirected<F>)> {
        with_direction(self, q, factors, clock, |direction| {
            let mut kept = None;
            let (values, log_partition) = direction.sweep(false, clock, |_, directed| {
                kept = Some(directed);
                Ok(())
            })?;
            let none = || crate::Error::NoAnswer("a chain without positions".into());
            Ok((values, log_partition, ChainDirected(kept.ok_or_else(none)?)))
        })
    }

    fn direction_gradient(
        &self,
        q: Option<&Self>,
        factors: Factors,
        kept: Option<(&[f64], &ChainDirected<F>)>,
        cotangent: &[f64],
        clock: &Clock<'_>,
    ) -> Result<(ChainGradient<F>, Option<ChainGradient<F>>)> {
        with_direction(self, q, factors, clock, |direction| {
            let (mut to_p, mut to_q) = (zeros(self), q.map(zeros));
            let mut visit = |values: &[f64], directed: &Directed<F>| {
                add_to_p(direction, directed, values, cotangent, clock, &mut to_p)?;
                match &mut to_q {
                    Some(to_q) => add_to_q(direction, directed, values, cotangent, clock, to_q),
                    None => Ok(()),
                }
            };
            match kept {
                Some((values, directed)) => visit(values, &directed.0)?,
                None => drop(direction.sweep(true, clock, |values, directed| visit(values, &directed))?),
            }
            add_start(self, &mut to_p);
            if let (Some(q), Some(to_q)) = (q, &mut to_q) {
                add_start(q, to_q);
            }
            Ok((to_p, to_q))
        })
    }
}

fn longest<F: Real>(chain: &Chain<F>) -> f64 {
    chain.lengths().iter().max().map_or(0.0, |&longest| longest as f64)
}

/// Makes the lattice of a chain for `work`.
pub(super) fn with_lattice<F: Real, R>(
    chain: &Chain<F>,
    clock: &Clock<'_>,
    work: impl FnOnce(&Lattice<'_, F>) -> Result<R>,
) -> Result<R> {
    let boundaries = chain.lengths().iter().max().map_or(0, |longest| longest - 1);
    let steps = steps_of(chain.transitions(), chain.states(), boundaries, clock)?;
    let nodes = ChainNodes(chain);
    let edges = Edges { transitions: chain.transitions(), states: chain.states(), sets: None };
    work(&Lattice::new(chain.lengths(), &nodes, &*steps, edges))
}

/// Makes the lattices of one or two chains for `work`.
fn with_direction<F: Real, R>(
    p: &Chain<F>,
    q: Option<&Chain<F>>,
    factors: Factors,
    clock: &Clock<'_>,
    work: impl FnOnce(&Direction<'_, F>) -> Result<R>,
) -> Result<R> {
    let own = factors.own;
    with_lattice(p, clock, |p| match q {
        None => work(&Direction { p, own, other: None, extra: None }),
        Some(q) => with_lattice(q, clock, |q| {
            work(&Direction { p, own, other: Some((factors.other, q)), extra: None })
        }),
    })
}

/// A gradient of zeros.
pub(super) fn zeros<F: Real>(chain: &Chain<F>) -> ChainGradient<F> {
    ChainGradient {
        start: vec![F::ZERO; chain.states()],
        emissions: vec![F::ZERO; chain.emissions().len()],
        transitions: zero_gradient(chain.transitions()),
    }
}

/// Adds the gradient of Σ cotangent·log Z that a window has: emissions and transitions.
fn add_gradient<F: Real>(
    lattice: &Lattice<'_, F>,
    messages: &Messages<F>,
    cotangent: &[f64],
    clock: &Clock<'_>,
    gradient: &mut ChainGradient<F>,
) -> Result<()> {
    each_node(lattice, &messages.window, &mut gradient.emissions, clock, |b, t, row| {
        lattice.node_marginals(messages, b, t, row);
        scale(row, cotangent[b]);
    })?;
    lattice.add_edge_marginals(messages, cotangent, clock, &mut gradient.transitions)
}

/// The same from messages in the linear domain, whose weights stand where the emissions' gradient will.
fn add_linear_gradient<F: Real>(
    lattice: &Lattice<'_, F>,
    messages: &Linear<F>,
    cotangent: &[f64],
    clock: &Clock<'_>,
    gradient: &mut ChainGradient<F>,
) -> Result<()> {
    let weights = &gradient.emissions;
    lattice.add_linear_edge_marginals(messages, weights, cotangent, clock, &mut gradient.transitions)?;
    each_node(lattice, &(0..lattice.layout.steps()), &mut gradient.emissions, clock, |b, t, row| {
        lattice.linear_node_marginals(messages, b, t, cotangent[b], row);
    })
}

/// The covariances of a direction with nodes and edges.
fn add_to_p<F: Real>(
    direction: &Direction<'_, F>,
    directed: &Directed<F>,
    values: &[f64],
    cotangent: &[f64],
    clock: &Clock<'_>,
    gradient: &mut ChainGradient<F>,
) -> Result<()> {
    each_node(direction.p, &directed.p.window, &mut gradient.emissions, clock, |b, t, row| {
        if cotangent[b] != 0.0 {
            direction.node_covariance(directed, values, b, t, row);
            scale(row, cotangent[b]);
        }
    })?;
    direction.add_edge_covariance(directed, values, cotangent, clock, &mut gradient.transitions)
}

/// other·(E_p − E_q) of nodes and edges.
fn add_to_q<F: Real>(
    direction: &Direction<'_, F>,
    directed: &Directed<F>,
    values: &[f64],
    cotangent: &[f64],
    clock: &Clock<'_>,
    gradient: &mut ChainGradient<F>,
) -> Result<()> {
    let (Some((factor, q)), Some(messages)) = (direction.other, &directed.q) else { return Ok(()) };
    each_node(q, &messages.window, &mut gradient.emissions, clock, |b, t, row| {
        if cotangent[b] == 0.0 {
            return;
        }
        direction.p.node_marginals(&directed.p, b, t, row);
        let mut of_q = vec![F::ZERO; row.len()];
        q.node_marginals(messages, b, t, &mut of_q);
        row.iter_mut().zip(&of_q).for_each(|(x, &y)| *x = *x - y);
        scale(row, factor * cotangent[b]);
    })?;
    let of_p: Vec<f64> = cotangent.iter().map(|c| factor * c).collect();
    let of_q: Vec<f64> = cotangent.iter().map(|c| -factor * c).collect();
    direction.add_edges_of_p_to_q(directed, values, &of_p, clock, &mut gradient.transitions)?;
    q.add_edge_marginals(messages, &of_q, clock, &mut gradient.transitions)
}

/// Works on the rows of B×T×N numbers that stand at positions of the window.
fn each_node<F: Real>(
    lattice: &Lattice<'_, F>,
    window: &Range<usize>,
    values: &mut [F],
    clock: &Clock<'_>,
    work: impl Fn(usize, usize, &mut [F]) + Sync,
) -> Result<()> {
    let (batch, size) = (lattice.layout.batch(), lattice.layout.largest());
    let sequence = |b: usize, rows: &mut [F]| {
        let length = lattice.layout.length(lattice.layout.place(b));
        for t in window.start..window.end.min(length) {
            clock.check()?;
            work(b, t, &mut rows[t * size..(t + 1) * size]);
        }
        Ok(())
    };
    let stride = values.len() / batch;
    if values.len() >= PARALLEL {
        values.par_chunks_exact_mut(stride).enumerate().try_for_each(|(b, rows)| sequence(b, rows))
    } else {
        values.chunks_exact_mut(stride).enumerate().try_for_each(|(b, rows)| sequence(b, rows))
    }
}

/// The gradient with respect to the start scores is that of the first emissions, summed.
pub(super) fn add_start<F: Real>(chain: &Chain<F>, gradient: &mut ChainGradient<F>) {
    for rows in gradient.emissions.chunks_exact(chain.steps() * chain.states()) {
        gradient.start.iter_mut().zip(rows).for_each(|(x, &y)| *x += y);
    }
}

fn scale<F: Real>(row: &mut [F], factor: f64) {
    if factor != 1.0 {
        let factor = F::from_f64(factor);
        row.iter_mut().for_each(|x| *x *= factor);
    }
}

impl<F: Real> Marginals<Chain<F>> for ForwardBackward {
    fn marginals(&self, chain: &Chain<F>, run: &Run) -> Result<Answer<NodeMarginals<F>>> {
        answer(self, chain, Query::Marginals, run, |clock| {
            with_lattice(chain, clock, |lattice| {
                let mut values = vec![F::ZERO; chain.emissions().len()];
                let mut visit = |messages: &Messages<F>| {
                    each_node(lattice, &messages.window, &mut values, clock, |b, t, row| {
                        lattice.node_marginals(messages, b, t, row);
                    })
                };
                let log_partition = if self.checkpoint {
                    lattice.sweep_windows(clock, visit)?
                } else {
                    let messages = lattice.sweep(clock)?;
                    visit(&messages)?;
                    messages.log_partition
                };
                some_weight(&log_partition)?;
                Ok(NodeMarginals { shape: [chain.batch(), chain.steps(), chain.states()], values })
            })
        })
    }
}
