//! Entropy, cross-entropy and KL of chains, and their gradients.
//!
//! H(p) = E_p[−log p], cross-entropy(p, q) = E_p[−log q], KL(p ‖ q) = E_p[log p − log q]: each is the expectation of a direction
//! (`lattice::direction`). The gradient with respect to p is a covariance, that with respect to q the difference of their marginals.

use super::chain::{answer, rounding, some_weight};
use super::tape::{add_start, check_cotangent, each_node, scale, with_lattice, zeros};
use super::{ForwardBackward, NAME};
use crate::answer::{Answer, Diagnostics};
use crate::error::{Error, Result};
use crate::lattice::{Directed, Direction};
use crate::model::Chain;
use crate::numeric::Real;
use crate::query::{Divergence, Entropy, Query};
use crate::run::{Clock, Run};
use crate::sequence::ChainGradient;

/// What entropy leaves for its gradient.
pub struct EntropyTape<F: Real>(Tape<F>);

/// What cross-entropy or KL leaves for its gradients.
pub struct DivergenceTape<F: Real>(Tape<F>);

struct Tape<F: Real> {
    p: Chain<F>,
    q: Option<Chain<F>>,
    own: f64,
    other: f64,
    values: Vec<f64>,
    /// Without it, with checkpoints, it is computed again.
    directed: Option<Directed<F>>,
    run: Run,
}

impl<F: Real> EntropyTape<F> {
    /// The gradient of Σ_b cotangent_b · H_b.
    pub fn vjp(&self, cotangent: &[f64]) -> Result<ChainGradient<F>> {
        Ok(self.0.vjp(cotangent)?.0)
    }
}

impl<F: Real> DivergenceTape<F> {
    /// The gradients of Σ_b cotangent_b · value_b with respect to p and to q. Sequences whose value is not finite have none.
    pub fn vjp(&self, cotangent: &[f64]) -> Result<(ChainGradient<F>, ChainGradient<F>)> {
        let (p, q) = self.0.vjp(cotangent)?;
        let missing = || Error::NoAnswer("there is no second chain".into());
        Ok((p, q.ok_or_else(missing)?))
    }
}

impl ForwardBackward {
    /// The entropy of each sequence, and what its gradient needs.
    pub fn entropy_with_tape<F: Real>(
        &self,
        chain: &Chain<F>,
        run: &Run,
    ) -> Result<(Vec<f64>, EntropyTape<F>)> {
        let (values, tape) = self.record(chain, None, -1.0, 0.0, run)?;
        Ok((values, EntropyTape(tape)))
    }

    /// The cross-entropy −E_p[log q] of each sequence, and what its gradients need.
    pub fn cross_entropy_with_tape<F: Real>(
        &self,
        p: &Chain<F>,
        q: &Chain<F>,
        run: &Run,
    ) -> Result<(Vec<f64>, DivergenceTape<F>)> {
        let (values, tape) = self.record(p, Some(q), 0.0, -1.0, run)?;
        Ok((values, DivergenceTape(tape)))
    }

    /// KL(p ‖ q) of each sequence, and what its gradients need.
    pub fn kl_with_tape<F: Real>(
        &self,
        p: &Chain<F>,
        q: &Chain<F>,
        run: &Run,
    ) -> Result<(Vec<f64>, DivergenceTape<F>)> {
        let (values, tape) = self.record(p, Some(q), 1.0, -1.0, run)?;
        Ok((values, DivergenceTape(tape)))
    }

    fn record<F: Real>(
        &self,
        p: &Chain<F>,
        q: Option<&Chain<F>>,
        own: f64,
        other: f64,
        run: &Run,
    ) -> Result<(Vec<f64>, Tape<F>)> {
        let clock = run.start(NAME);
        let (values, directed) = run.install(|| {
            with_direction(p, q, own, other, |direction| {
                if self.checkpoint {
                    let (values, log_partition) = direction.expectation(&clock)?;
                    return Ok((finite_models(values, &log_partition), None));
                }
                let mut directed = None;
                let (values, log_partition) = direction.sweep(false, &clock, |_, whole| {
                    directed = Some(whole);
                    Ok(())
                })?;
                Ok((finite_models(values, &log_partition), directed))
            })
        })?;
        let tape = Tape {
            p: p.clone(),
            q: q.cloned(),
            own,
            other,
            values: values.clone(),
            directed,
            run: run.clone(),
        };
        Ok((values, tape))
    }

    fn divergence<F: Real>(
        &self,
        p: &Chain<F>,
        q: &Chain<F>,
        own: f64,
        run: &Run,
    ) -> Result<Answer<Vec<f64>>> {
        let clock = run.start(NAME);
        let value = run.install(|| {
            with_direction(p, Some(q), own, -1.0, |direction| {
                let (values, log_partition) = direction.expectation(&clock)?;
                some_weight(&log_partition)?;
                Ok(finite_models(values, &log_partition))
            })
        })?;
        let mut diagnostics = Diagnostics::new(NAME).note("precision", F::NAME);
        // A change of p moves E_p[log q] by at most the range of log q.
        diagnostics.rounding = 2.0 * (1.0 + own) * rounding(p) * (1.0 + 2.0 * q.magnitude())
            + 2.0 * rounding(q) * (1.0 + spread(q));
        diagnostics.seconds = clock.seconds();
        Ok(Answer::exact(value, diagnostics))
    }
}

impl<F: Real> Tape<F> {
    fn vjp(&self, cotangent: &[f64]) -> Result<(ChainGradient<F>, Option<ChainGradient<F>>)> {
        check_cotangent(cotangent, self.p.batch())?;
        // Sequences without a finite value do not count.
        let finite = |(c, value): (&f64, &f64)| if value.is_finite() { *c } else { 0.0 };
        let cotangent: Vec<f64> = cotangent.iter().zip(&self.values).map(finite).collect();
        let clock = self.run.start(NAME);
        self.run.install(|| {
            with_direction(&self.p, self.q.as_ref(), self.own, self.other, |direction| {
                let mut to_p = zeros(&self.p);
                let mut to_q = self.q.as_ref().map(zeros);
                let mut visit = |values: &[f64], directed: &Directed<F>| {
                    add_to_p(direction, directed, values, &cotangent, &clock, &mut to_p)?;
                    match &mut to_q {
                        Some(to_q) => self.add_to_q(direction, directed, values, &cotangent, &clock, to_q),
                        None => Ok(()),
                    }
                };
                match &self.directed {
                    Some(directed) => visit(&self.values, directed)?,
                    None => {
                        direction.sweep(true, &clock, |values, directed| visit(values, &directed))?;
                    }
                }
                add_start(&self.p, &mut to_p);
                if let (Some(q), Some(to_q)) = (&self.q, &mut to_q) {
                    add_start(q, to_q);
                }
                Ok((to_p, to_q))
            })
        })
    }

    /// other·(E_p − E_q) of nodes and edges.
    fn add_to_q(
        &self,
        direction: &Direction<'_, F>,
        directed: &Directed<F>,
        values: &[f64],
        cotangent: &[f64],
        clock: &Clock<'_>,
        gradient: &mut ChainGradient<F>,
    ) -> Result<()> {
        let (Some((factor, q)), Some(messages)) = (direction.other, &directed.q) else { return Ok(()) };
        each_node(q, messages, &mut gradient.emissions, |b, t, row| {
            if cotangent[b] == 0.0 {
                return;
            }
            direction.p.node_marginals(&directed.p, b, t, row);
            let mut of_q = vec![F::ZERO; row.len()];
            q.node_marginals(messages, b, t, &mut of_q);
            row.iter_mut().zip(&of_q).for_each(|(x, &y)| *x = *x - y);
            scale(row, factor * cotangent[b]);
        });
        let of_p: Vec<f64> = cotangent.iter().map(|c| factor * c).collect();
        let of_q: Vec<f64> = cotangent.iter().map(|c| -factor * c).collect();
        direction.add_edges_of_p_to_q(directed, values, &of_p, clock, &mut gradient.transitions)?;
        q.add_edge_marginals(messages, &of_q, clock, &mut gradient.transitions)
    }
}

/// The covariances of D with nodes and edges.
fn add_to_p<F: Real>(
    direction: &Direction<'_, F>,
    directed: &Directed<F>,
    values: &[f64],
    cotangent: &[f64],
    clock: &Clock<'_>,
    gradient: &mut ChainGradient<F>,
) -> Result<()> {
    each_node(direction.p, &directed.p, &mut gradient.emissions, |b, t, row| {
        if cotangent[b] != 0.0 {
            direction.node_covariance(directed, values, b, t, row);
            scale(row, cotangent[b]);
        }
    });
    direction.add_edge_covariance(directed, values, cotangent, clock, &mut gradient.transitions)
}

/// Makes the lattices of one or two chains for `work`.
fn with_direction<F: Real, R>(
    p: &Chain<F>,
    q: Option<&Chain<F>>,
    own: f64,
    other: f64,
    work: impl FnOnce(&Direction<'_, F>) -> Result<R>,
) -> Result<R> {
    let Some(q) = q else {
        return with_lattice(p, |p| work(&Direction { p, own, other: None, extra: None }));
    };
    if p.lengths() != q.lengths() || p.states() != q.states() {
        let message = "the chains differ in lengths or number of states; a divergence needs them the same";
        return Err(Error::model(message));
    }
    with_lattice(p, |p| {
        with_lattice(q, |q| work(&Direction { p, own, other: Some((other, q)), extra: None }))
    })
}

/// −∞ for sequences that p has no path for.
fn finite_models(mut values: Vec<f64>, log_partition: &[f64]) -> Vec<f64> {
    for (value, &log_z) in values.iter_mut().zip(log_partition) {
        if log_z == f64::NEG_INFINITY {
            *value = f64::NEG_INFINITY;
        }
    }
    values
}

/// ln of the number of paths of the longest sequence: what entropy is at most.
fn spread<F: Real>(chain: &Chain<F>) -> f64 {
    let longest = chain.lengths().iter().max().map_or(0.0, |&longest| longest as f64);
    longest * (chain.states() as f64).ln()
}

impl<F: Real> Entropy<Chain<F>> for ForwardBackward {
    fn entropy(&self, chain: &Chain<F>, run: &Run) -> Result<Answer<Vec<f64>>> {
        let mut entropy = answer(self, chain, Query::Entropy, run, |lattice, clock| {
            let direction = Direction { p: lattice, own: -1.0, other: None, extra: None };
            let (values, log_partition) = direction.expectation(clock)?;
            some_weight(&log_partition)?;
            Ok(finite_models(values, &log_partition))
        })?;
        // Entropy moves with the scores by x·exp(−x) at most for every position and state.
        entropy.diagnostics.rounding *= 2.0 * (1.0 + spread(chain));
        Ok(entropy)
    }
}

impl<F: Real> Divergence<Chain<F>> for ForwardBackward {
    fn cross_entropy(&self, p: &Chain<F>, q: &Chain<F>, run: &Run) -> Result<Answer<Vec<f64>>> {
        self.divergence(p, q, 0.0, run)
    }

    fn kl(&self, p: &Chain<F>, q: &Chain<F>, run: &Run) -> Result<Answer<Vec<f64>>> {
        self.divergence(p, q, 1.0, run)
    }
}
