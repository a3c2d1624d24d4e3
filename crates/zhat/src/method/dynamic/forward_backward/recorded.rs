//! Values with gradients for both kinds of sequence model, and the queries that return these values.

use crate::numeric::parallel::prelude::*;

use super::forecast::Cost;
use super::{ForwardBackward, NAME};
use crate::answer::{Answer, Diagnostics};
use crate::error::{Error, Result};
use crate::method::dynamic::SequenceModel;
use crate::method::dynamic::lattice::{Directed, Direction, Lattice, Messages};
use crate::numeric::Real;
use crate::query::sequence::NodeMarginals;
use crate::query::{Divergence, Entropy, FactorMarginals, Forecasts, LogPartition, Marginals, Query};
use crate::run::{Clock, Run};

/// Coefficients of the log-probabilities whose expectation under p is computed.
#[derive(Clone, Copy)]
pub struct Factors {
    /// Coefficient of log p.
    pub own: f64,
    /// Coefficient of log q.
    pub other: f64,
    /// Whether gradients are those of the expectation with the score of q, log q + log Z_q, in place of log q. They
    /// differ with respect to q only.
    pub score: bool,
}

impl Factors {
    /// own·log p + other·log q.
    pub fn new(own: f64, other: f64) -> Self {
        Factors { own, other, score: false }
    }

    /// The score of q.
    pub fn of_score() -> Self {
        Factors { own: 0.0, other: 1.0, score: true }
    }
}

/// A lattice and its messages.
pub type Answered<'a, F> = (&'a Lattice<'a, F>, &'a Messages<F>);

/// log Z of each sequence and, if they are kept, the messages.
type Swept<F> = (Vec<f64>, Option<Messages<F>>);

/// A kind of model that forward–backward differentiates: [`crate::Chain`] or [`crate::SemiMarkov`]. The
/// gradient has the same form as its factor marginals.
pub trait Recorded: SequenceModel {
    /// Cost of its queries.
    #[doc(hidden)]
    fn cost(&self, checkpoint: bool, threads: usize) -> Cost;

    /// Adds P(xₜ = i) for the positions of a window to the B×T×N array `values`.
    #[doc(hidden)]
    fn add_node_marginals(
        &self,
        lattice: &Lattice<'_, Self::Real>,
        messages: &Messages<Self::Real>,
        clock: &Clock<'_>,
        values: &mut [Self::Real],
    ) -> Result<()>;
    /// Adds a window's contribution to the gradient of Σ cotangent·log Z, except with respect to the
    /// transitions.
    #[doc(hidden)]
    fn add_marginals(
        &self,
        lattice: &Lattice<'_, Self::Real>,
        messages: &Messages<Self::Real>,
        cotangent: &[f64],
        clock: &Clock<'_>,
        gradient: &mut Self::FactorMarginals,
    ) -> Result<()>;
    /// log Z and the whole gradient by a faster method, if there is one without loss of accuracy.
    #[doc(hidden)]
    fn linear_gradient(
        &self,
        _lattice: &Lattice<'_, Self::Real>,
        _cotangent: &[f64],
        _clock: &Clock<'_>,
        _gradient: &mut Self::FactorMarginals,
    ) -> Result<Option<Vec<f64>>> {
        Ok(None)
    }
    /// P(xₜ = i) for all positions as in [`Recorded::add_node_marginals`] and log Z, by a faster method, if there
    /// is one without loss of accuracy.
    #[doc(hidden)]
    fn linear_marginals(
        &self,
        _lattice: &Lattice<'_, Self::Real>,
        _clock: &Clock<'_>,
        _values: &mut [Self::Real],
    ) -> Result<Option<Vec<f64>>> {
        Ok(None)
    }
    /// True if log Z costs so little that a gradient recomputes its messages.
    #[doc(hidden)]
    fn narrow(&self) -> bool {
        false
    }
    /// Adds the covariances with a direction, except those of the transitions.
    #[doc(hidden)]
    fn add_covariances(
        &self,
        direction: &Direction<'_, Self::Real>,
        directed: &Directed<Self::Real>,
        values: &[f64],
        cotangent: &[f64],
        clock: &Clock<'_>,
        gradient: &mut Self::FactorMarginals,
    ) -> Result<()>;
    /// Adds cotangent·(E_p − E_q) for all parameters except the transitions, for two lattices of this shape.
    #[doc(hidden)]
    fn add_differences(
        &self,
        lattices: [Answered<'_, Self::Real>; 2],
        cotangent: &[f64],
        clock: &Clock<'_>,
        gradient: &mut Self::FactorMarginals,
    ) -> Result<()>;
    /// Completes a gradient after all windows have been added.
    #[doc(hidden)]
    fn finish_gradient(&self, _gradient: &mut Self::FactorMarginals) {}
}

/// Memory of a value with its gradient for `models` models, with `rows` numbers kept per position and state.
pub(super) fn gradient_bytes<M: Recorded>(
    model: &M,
    checkpoint: bool,
    rows: f64,
    models: f64,
    run: &Run,
) -> f64 {
    model.cost(checkpoint, run.threads()).gradient_bytes(rows, models)
}

/// One result per sequence of a batch whose sequences have their own tables, from the chains of the single
/// sequences; `None` for other models.
pub(super) fn each_part<M: Recorded, R: Send>(
    model: &M,
    work: impl Fn(usize, &M) -> Result<R> + Sync + Send,
) -> Result<Option<Vec<R>>> {
    if !model.chain().separate() {
        return Ok(None);
    }
    let parts = (0..model.chain().batch()).into_par_iter();
    Ok(Some(parts.map(|b| work(b, &model.part(b))).collect::<Result<_>>()?))
}

/// log Z alone.
pub(super) fn log_partitions<M: Recorded>(model: &M, clock: &Clock<'_>) -> Result<Vec<f64>> {
    if let Some(parts) = each_part(model, |_, part| log_partitions(part, clock))? {
        return Ok(parts.concat());
    }
    model.with_lattice(clock, |lattice| {
        let linear = match (lattice.narrow(), lattice.linear()) {
            (true, _) => lattice.narrow_log_partitions(clock)?,
            (_, true) => lattice.linear_log_partitions(clock)?,
            _ => None,
        };
        linear.map_or_else(|| lattice.log_partitions(clock), Ok)
    })
}

/// log Z and, without checkpoints, the messages that its gradient needs.
pub(super) fn sweep<M: Recorded>(model: &M, checkpoint: bool, clock: &Clock<'_>) -> Result<Swept<M::Real>> {
    model.with_lattice(clock, |lattice| {
        if checkpoint {
            return Ok((lattice.log_partitions(clock)?, None));
        }
        let messages = lattice.sweep(clock)?;
        Ok((messages.log_partition.clone(), Some(messages)))
    })
}

/// Calls `visit` with all messages, or with checkpoints with one window at a time. Returns log Z.
fn visit_messages<F: Real>(
    lattice: &Lattice<'_, F>,
    checkpoint: bool,
    clock: &Clock<'_>,
    mut visit: impl FnMut(&Messages<F>) -> Result<()>,
) -> Result<Vec<f64>> {
    if checkpoint {
        return lattice.sweep_windows(clock, visit);
    }
    let messages = lattice.sweep(clock)?;
    visit(&messages)?;
    Ok(messages.log_partition)
}

/// log Z and the gradient of Σ cotangent·log Z, from the kept messages or from scratch.
pub(super) fn gradient<M: Recorded>(
    model: &M,
    kept: Option<&Messages<M::Real>>,
    cotangent: &[f64],
    checkpoint: bool,
    clock: &Clock<'_>,
) -> Result<(Vec<f64>, M::FactorMarginals)> {
    let of_part = |b: usize, part: &M| gradient(part, None, &cotangent[b..=b], checkpoint, clock);
    if let Some(parts) = each_part(model, of_part)? {
        let (mut values, mut gradient) = (Vec::new(), model.zero_gradient());
        for (b, (value, part)) in parts.into_iter().enumerate() {
            values.extend(value);
            model.add_part(b, part, &mut gradient);
        }
        return Ok((values, gradient));
    }
    model.with_lattice(clock, |lattice| {
        let mut gradient = model.zero_gradient();
        if kept.is_none() && !checkpoint && (lattice.linear() || lattice.narrow()) {
            let linear = model.linear_gradient(lattice, cotangent, clock, &mut gradient)?;
            if let Some(log_partition) = linear {
                model.finish_gradient(&mut gradient);
                model.finish_end(&mut gradient);
                return Ok((log_partition, gradient));
            }
        }
        let mut visit = |messages: &Messages<M::Real>| {
            model.add_marginals(lattice, messages, cotangent, clock, &mut gradient)?;
            lattice.add_edge_marginals(messages, cotangent, clock, model.split(&mut gradient).1)
        };
        let log_partition = match kept {
            Some(messages) => {
                visit(messages)?;
                messages.log_partition.clone()
            }
            None => visit_messages(lattice, checkpoint, clock, visit)?,
        };
        model.finish_gradient(&mut gradient);
        model.finish_end(&mut gradient);
        Ok((log_partition, gradient))
    })
}

/// Builds the lattices of one or two models and passes them to `work`.
pub(super) fn with_direction<M: Recorded, R>(
    p: &M,
    q: Option<&M>,
    factors: Factors,
    clock: &Clock<'_>,
    work: impl FnOnce(&Direction<'_, M::Real>) -> Result<R>,
) -> Result<R> {
    let own = factors.own;
    p.with_lattice(clock, |p| match q {
        None => work(&Direction { p, own, other: None, extra: None }),
        Some(q) => q.with_lattice(clock, |q| {
            work(&Direction { p, own, other: Some((factors.other, q)), extra: None })
        }),
    })
}

/// True if the sequences of p or q have their own tables.
pub(super) fn separate<M: Recorded>(p: &M, q: Option<&M>) -> bool {
    p.chain().separate() || q.is_some_and(|q| q.chain().separate())
}

/// E_p[own·log p + other·log q] without its gradient, and log Z_p.
pub(super) fn expectation<M: Recorded>(
    p: &M,
    q: Option<&M>,
    factors: Factors,
    clock: &Clock<'_>,
) -> Result<(Vec<f64>, Vec<f64>)> {
    if separate(p, q) {
        let parts = (0..p.chain().batch()).into_par_iter();
        let of_part = |b: usize| expectation(&p.part(b), q.map(|q| q.part(b)).as_ref(), factors, clock);
        let parts: Vec<(Vec<f64>, Vec<f64>)> = parts.map(of_part).collect::<Result<_>>()?;
        let (values, log_partition): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        return Ok((values.concat(), log_partition.concat()));
    }
    with_direction(p, q, factors, clock, |direction| {
        let ends = direction.expectation(clock)?;
        Ok((ends.values, ends.log_partition))
    })
}

/// The gradients of Σ cotangent·expectation with respect to p and q. If nothing was kept, checkpoints are
/// used.
#[allow(clippy::type_complexity)]
pub(super) fn direction_gradient<M: Recorded>(
    p: &M,
    q: Option<&M>,
    factors: Factors,
    kept: Option<(&[f64], &Directed<M::Real>)>,
    cotangent: &[f64],
    clock: &Clock<'_>,
) -> Result<(M::FactorMarginals, Option<M::FactorMarginals>)> {
    if separate(p, q) {
        return direction_gradient_of_parts(p, q, factors, cotangent, clock);
    }
    with_direction(p, q, factors, clock, |direction| {
        let (mut to_p, mut to_q) = (p.zero_gradient(), q.map(M::zero_gradient));
        let of_p: Vec<f64> = cotangent.iter().map(|c| factors.other * c).collect();
        let of_q: Vec<f64> = cotangent.iter().map(|c| -factors.other * c).collect();
        let mut visit = |values: &[f64], directed: &Directed<M::Real>| {
            p.add_covariances(direction, directed, values, cotangent, clock, &mut to_p)?;
            let transitions = p.split(&mut to_p).1;
            direction.add_edge_covariance(directed, values, cotangent, clock, transitions)?;
            let (Some(q), Some(to_q)) = (q, &mut to_q) else { return Ok(()) };
            let (Some((_, lattice)), Some(messages)) = (direction.other, &directed.q) else { return Ok(()) };
            if factors.score {
                q.add_marginals(direction.p, &directed.p, &of_p, clock, to_q)?;
                let transitions = q.split(to_q).1;
                return direction.add_edges_of_p_to_q(directed, values, &of_p, clock, transitions);
            }
            q.add_differences([(direction.p, &directed.p), (lattice, messages)], &of_p, clock, to_q)?;
            let transitions = q.split(to_q).1;
            direction.add_edges_of_p_to_q(directed, values, &of_p, clock, transitions)?;
            lattice.add_edge_marginals(messages, &of_q, clock, transitions)
        };
        match kept {
            Some((values, directed)) => visit(values, directed)?,
            None => drop(direction.sweep(true, clock, |values, directed| visit(values, &directed))?),
        }
        p.finish_gradient(&mut to_p);
        p.finish_end(&mut to_p);
        if let (Some(q), Some(to_q)) = (q, &mut to_q) {
            q.finish_gradient(to_q);
            q.finish_end(to_q);
        }
        Ok((to_p, to_q))
    })
}

/// The same from the single sequences.
#[allow(clippy::type_complexity)]
fn direction_gradient_of_parts<M: Recorded>(
    p: &M,
    q: Option<&M>,
    factors: Factors,
    cotangent: &[f64],
    clock: &Clock<'_>,
) -> Result<(M::FactorMarginals, Option<M::FactorMarginals>)> {
    let of_part = |b: usize| {
        let (p, q) = (p.part(b), q.map(|q| q.part(b)));
        direction_gradient(&p, q.as_ref(), factors, None, &cotangent[b..=b], clock)
    };
    let parts: Vec<_> = (0..p.chain().batch()).into_par_iter().map(of_part).collect::<Result<_>>()?;
    let (mut to_p, mut to_q) = (p.zero_gradient(), q.map(M::zero_gradient));
    for (b, (part_p, part_q)) in parts.into_iter().enumerate() {
        p.add_part(b, part_p, &mut to_p);
        if let (Some(q), Some(part), Some(to)) = (q, part_q, &mut to_q) {
            q.add_part(b, part, to);
        }
    }
    Ok((to_p, to_q))
}

/// log Z, and P(xₜ = i) as a B×T×N array.
fn marginals<M: Recorded>(
    model: &M,
    checkpoint: bool,
    clock: &Clock<'_>,
) -> Result<(Vec<f64>, Vec<M::Real>)> {
    if let Some(parts) = each_part(model, |_, part| marginals(part, checkpoint, clock))? {
        let (log_partition, values): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        return Ok((log_partition.concat(), values.concat()));
    }
    model.with_lattice(clock, |lattice| {
        let mut values = vec![M::Real::default(); model.chain().emissions().len()];
        if !checkpoint && let Some(log_partition) = model.linear_marginals(lattice, clock, &mut values)? {
            return Ok((log_partition, values));
        }
        let visit =
            |messages: &Messages<M::Real>| model.add_node_marginals(lattice, messages, clock, &mut values);
        let log_partition = visit_messages(lattice, checkpoint, clock, visit)?;
        Ok((log_partition, values))
    })
}

/// Requests memory, runs `work` in the threads of the run and wraps the result.
pub(super) fn answer<M: Recorded, T: Send>(
    method: &ForwardBackward,
    model: &M,
    query: Query,
    run: &Run,
    work: impl FnOnce(&Clock<'_>) -> Result<T> + Send,
) -> Result<Answer<T>> {
    let clock = run.start(NAME);
    let forecast = method.forecast(model, query, run);
    run.require_memory(NAME, forecast.bytes)?;
    let value = run.install(|| work(&clock))?;
    let mut diagnostics = Diagnostics::new(NAME)
        .note("transitions", model.chain().transitions().form())
        .note("precision", M::Real::NAME)
        .note("forecast_bytes", forecast.bytes);
    diagnostics.rounding = model.rounding(query != Query::LogPartition);
    diagnostics.seconds = clock.seconds();
    Ok(Answer::exact(value, diagnostics))
}

/// Returns an error if every sequence has Z = 0.
pub(super) fn some_weight(log_partition: &[f64]) -> Result<()> {
    let none = log_partition.iter().all(|&log_z| log_z == f64::NEG_INFINITY);
    if none { Err(Error::ZeroPartition) } else { Ok(()) }
}

/// Checks that a cotangent has one finite number per value.
pub(in crate::method::dynamic) fn check_numbers<F: Real>(cotangent: &[F], expected: usize) -> Result<()> {
    if cotangent.len() != expected || cotangent.iter().any(|x| !x.to_f64().is_finite()) {
        let message = format!("found {} numbers, expected {expected} finite ones", cotangent.len());
        return Err(Error::argument("cotangent", message));
    }
    Ok(())
}

/// Sets the value of each sequence without a path under p to −∞.
pub(super) fn finite_models(mut values: Vec<f64>, log_partition: &[f64]) -> Vec<f64> {
    for (value, &log_z) in values.iter_mut().zip(log_partition) {
        if log_z == f64::NEG_INFINITY {
            *value = f64::NEG_INFINITY;
        }
    }
    values
}

/// Returns an error if p and q cannot be compared.
pub(super) fn check_shapes<M: Recorded>(p: &M, q: &M) -> Result<()> {
    if p.same_shape(q) {
        return Ok(());
    }
    Err(Error::model(
        "the models differ in lengths, number of states or longest segment, which must be the same",
    ))
}

impl<M: Recorded> LogPartition<M> for ForwardBackward {
    fn log_partition(&self, model: &M, run: &Run) -> Result<Answer<Vec<f64>>> {
        answer(self, model, Query::LogPartition, run, |clock| {
            let log_partition = log_partitions(model, clock)?;
            some_weight(&log_partition)?;
            Ok(log_partition)
        })
    }
}

impl<M: Recorded> Marginals<M> for ForwardBackward {
    fn marginals(&self, model: &M, run: &Run) -> Result<Answer<NodeMarginals<M::Real>>> {
        answer(self, model, Query::Marginals, run, |clock| {
            let chain = model.chain();
            let (log_partition, values) = marginals(model, self.checkpoint, clock)?;
            some_weight(&log_partition)?;
            Ok(NodeMarginals { shape: [chain.batch(), chain.steps(), chain.states()], values })
        })
    }
}

impl<M: Recorded> FactorMarginals<M> for ForwardBackward {
    fn factor_marginals(&self, model: &M, run: &Run) -> Result<Answer<M::FactorMarginals>> {
        answer(self, model, Query::FactorMarginals, run, |clock| {
            let ones = vec![1.0; model.chain().batch()];
            let (log_partition, gradient) = gradient(model, None, &ones, self.checkpoint, clock)?;
            some_weight(&log_partition)?;
            Ok(gradient)
        })
    }
}

impl<M: Recorded> Entropy<M> for ForwardBackward {
    fn entropy(&self, model: &M, run: &Run) -> Result<Answer<Vec<f64>>> {
        let mut entropy = answer(self, model, Query::Entropy, run, |clock| {
            let (values, log_partition) = expectation(model, None, Factors::new(-1.0, 0.0), clock)?;
            some_weight(&log_partition)?;
            Ok(finite_models(values, &log_partition))
        })?;
        // If a score changes by ε, the entropy changes by at most ε·x·exp(−x) for each state.
        entropy.diagnostics.rounding *= 2.0 * (1.0 + model.largest_entropy());
        Ok(entropy)
    }
}

impl<M: Recorded> Divergence<M> for ForwardBackward {
    fn cross_entropy(&self, p: &M, q: &M, run: &Run) -> Result<Answer<Vec<f64>>> {
        divergence(self, p, q, 0.0, run)
    }

    fn kl(&self, p: &M, q: &M, run: &Run) -> Result<Answer<Vec<f64>>> {
        divergence(self, p, q, 1.0, run)
    }
}

fn divergence<M: Recorded>(
    method: &ForwardBackward,
    p: &M,
    q: &M,
    own: f64,
    run: &Run,
) -> Result<Answer<Vec<f64>>> {
    check_shapes(p, q)?;
    let mut value = answer(method, p, Query::Entropy, run, |clock| {
        let (values, log_partition) = expectation(p, Some(q), Factors::new(own, -1.0), clock)?;
        some_weight(&log_partition)?;
        Ok(finite_models(values, &log_partition))
    })?;
    // A change of p changes E_p[log q] by at most the range of log q.
    let (of_p, of_q) = (p.rounding(true), q.rounding(true));
    value.diagnostics.rounding =
        2.0 * (1.0 + own) * of_p * (1.0 + 2.0 * q.largest_score()) + 2.0 * of_q * (1.0 + q.largest_entropy());
    Ok(value)
}
