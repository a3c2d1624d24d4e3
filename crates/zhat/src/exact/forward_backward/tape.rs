//! Values with their gradients.

use rayon::prelude::*;

use super::{ForwardBackward, NAME};
use crate::error::{Error, Result};
use crate::lattice::{ChainNodes, Edges, Lattice, Messages, steps_of, zero_gradient};
use crate::model::Chain;
use crate::numeric::Real;
use crate::run::{Clock, Run};
use crate::sequence::ChainGradient;

/// What log Z leaves for its gradient.
pub struct LogPartitionTape<F: Real> {
    chain: Chain<F>,
    /// Without them, with checkpoints, they are computed again.
    messages: Option<Messages<F>>,
    run: Run,
}

impl ForwardBackward {
    /// log Z of each sequence, and what its gradient needs.
    pub fn log_partition_with_tape<F: Real>(
        &self,
        chain: &Chain<F>,
        run: &Run,
    ) -> Result<(Vec<f64>, LogPartitionTape<F>)> {
        let clock = run.start(NAME);
        let (value, messages) = run.install(|| {
            with_lattice(chain, |lattice| {
                if self.checkpoint {
                    return Ok((lattice.log_partitions(&clock)?, None));
                }
                let messages = lattice.sweep(&clock)?;
                Ok((messages.log_partition.clone(), Some(messages)))
            })
        })?;
        Ok((value, LogPartitionTape { chain: chain.clone(), messages, run: run.clone() }))
    }

    /// log Z of each sequence and the gradient of Σ_b cotangent_b · log Z_b in one go, where both are wanted at once.
    pub fn log_partition_and_gradient<F: Real>(
        &self,
        chain: &Chain<F>,
        cotangent: &[f64],
        run: &Run,
    ) -> Result<(Vec<f64>, ChainGradient<F>)> {
        check_cotangent(cotangent, chain.batch())?;
        let clock = run.start(NAME);
        run.install(|| {
            with_lattice(chain, |lattice| {
                let mut gradient = zeros(chain);
                let value = if self.checkpoint {
                    lattice.sweep_windows(&clock, |messages| {
                        add_gradient(lattice, messages, cotangent, &clock, &mut gradient)
                    })?
                } else {
                    let messages = lattice.sweep(&clock)?;
                    add_gradient(lattice, &messages, cotangent, &clock, &mut gradient)?;
                    messages.log_partition
                };
                add_start(chain, &mut gradient);
                Ok((value, gradient))
            })
        })
    }
}

impl<F: Real> LogPartitionTape<F> {
    /// The gradient of Σ_b cotangent_b · log Z_b; sequences without a weight have none.
    pub fn vjp(&self, cotangent: &[f64]) -> Result<ChainGradient<F>> {
        let Some(messages) = &self.messages else {
            let method = ForwardBackward { checkpoint: true };
            return Ok(method.log_partition_and_gradient(&self.chain, cotangent, &self.run)?.1);
        };
        check_cotangent(cotangent, self.chain.batch())?;
        let clock = self.run.start(NAME);
        self.run.install(|| {
            with_lattice(&self.chain, |lattice| {
                let mut gradient = zeros(&self.chain);
                add_gradient(lattice, messages, cotangent, &clock, &mut gradient)?;
                add_start(&self.chain, &mut gradient);
                Ok(gradient)
            })
        })
    }
}

/// Makes the lattice of a chain for `work`.
pub(super) fn with_lattice<F: Real, R>(chain: &Chain<F>, work: impl FnOnce(&Lattice<'_, F>) -> R) -> R {
    let boundaries = chain.lengths().iter().max().map_or(0, |longest| longest - 1);
    let steps = steps_of(chain.transitions(), chain.states(), boundaries);
    let nodes = ChainNodes(chain);
    let edges = Edges { transitions: chain.transitions(), states: chain.states(), sets: None };
    work(&Lattice::new(chain.lengths(), &nodes, &*steps, edges))
}

/// A cotangent is one finite number for each value.
pub(super) fn check_cotangent(cotangent: &[f64], expected: usize) -> Result<()> {
    if cotangent.len() != expected || cotangent.iter().any(|x| !x.is_finite()) {
        let message = format!("found {} numbers, expected {expected} finite ones", cotangent.len());
        return Err(Error::argument("cotangent", message));
    }
    Ok(())
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
pub(super) fn add_gradient<F: Real>(
    lattice: &Lattice<'_, F>,
    messages: &Messages<F>,
    cotangent: &[f64],
    clock: &Clock<'_>,
    gradient: &mut ChainGradient<F>,
) -> Result<()> {
    each_node(lattice, messages, &mut gradient.emissions, |b, t, row| {
        lattice.node_marginals(messages, b, t, row);
        scale(row, cotangent[b]);
    });
    lattice.add_edge_marginals(messages, cotangent, clock, &mut gradient.transitions)
}

/// Works on the rows of B×T×N numbers that stand at positions of the window.
pub(super) fn each_node<F: Real>(
    lattice: &Lattice<'_, F>,
    messages: &Messages<F>,
    values: &mut [F],
    work: impl Fn(usize, usize, &mut [F]) + Sync,
) {
    let (batch, size) = (lattice.layout.batch(), lattice.layout.largest());
    let sequence = |b: usize, rows: &mut [F]| {
        let length = lattice.layout.length(lattice.layout.place(b));
        for t in messages.window.start..messages.window.end.min(length) {
            work(b, t, &mut rows[t * size..(t + 1) * size]);
        }
    };
    let stride = values.len() / batch;
    if values.len() >= 1 << 15 {
        values.par_chunks_exact_mut(stride).enumerate().for_each(|(b, rows)| sequence(b, rows));
    } else {
        values.chunks_exact_mut(stride).enumerate().for_each(|(b, rows)| sequence(b, rows));
    }
}

/// The gradient with respect to the start scores is that of the first emissions, summed.
pub(super) fn add_start<F: Real>(chain: &Chain<F>, gradient: &mut ChainGradient<F>) {
    for rows in gradient.emissions.chunks_exact(chain.steps() * chain.states()) {
        for (x, &y) in gradient.start.iter_mut().zip(rows) {
            *x += y;
        }
    }
}

pub(super) fn scale<F: Real>(row: &mut [F], factor: f64) {
    if factor != 1.0 {
        let factor = F::from_f64(factor);
        row.iter_mut().for_each(|x| *x *= factor);
    }
}
