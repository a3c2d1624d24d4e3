//! Gradients of log Z, entropy and divergences.

use super::{
    Depth, Direction, NAME, SpanningTrees, add_arcs, all_sums, check_shapes, divergences, entropies, no_tree,
    some_partition, zero_gradient,
};
use crate::error::{Error, Result};
use crate::method::dynamic::forward_backward::check_numbers;
use crate::model::DependencyTree;
use crate::numeric::Real;
use crate::query::tree::DependencyGradient;
use crate::query::{Differentiable, Forecasts, Operation, Query, Tape, not_differentiable};
use crate::run::Run;

/// One value per sentence, and the tape of its gradient.
pub(super) type Recording<F> = (Vec<f64>, Tape<DependencyGradient<F>>);

/// The cotangent of the sentences whose value is finite; zero for the others.
pub(super) fn of_finite(cotangent: &[f64], values: &[f64], factor: f64) -> Vec<f64> {
    cotangent.iter().zip(values).map(|(c, value)| if value.is_finite() { factor * c } else { 0.0 }).collect()
}

impl SpanningTrees {
    fn record_log_partition<F: Real>(&self, model: &DependencyTree<F>, run: &Run) -> Result<Recording<F>> {
        let clock = run.start(NAME);
        let sums = run.install(|| all_sums(model, Depth::Marginals, None, &clock))?;
        let values: Vec<f64> = sums.iter().map(|own| own.log_partition).collect();
        let model = model.clone();
        let vjp = move |cotangent: &[f64]| {
            check_numbers(cotangent, model.batch())?;
            let mut gradient = zero_gradient(&model);
            add_arcs(&model, &sums, cotangent, None, &mut gradient);
            Ok(vec![gradient])
        };
        Ok((values, Tape::new(vjp)))
    }

    /// The gradient of H = log Z − E[s] is −Cov·s: minus the derivative of the marginals in the direction of
    /// the scores.
    fn record_entropy<F: Real>(&self, model: &DependencyTree<F>, run: &Run) -> Result<Recording<F>> {
        let clock = run.start(NAME);
        let sums = run.install(|| all_sums(model, Depth::Marginals, None, &clock))?;
        some_partition(&sums).map_err(|error| no_tree::described(error, model))?;
        let values = entropies(model, &sums);
        let (model, run, own) = (model.clone(), run.clone(), values.clone());
        let vjp = move |cotangent: &[f64]| {
            check_numbers(cotangent, model.batch())?;
            let mut gradient = zero_gradient(&model);
            let direction = scores(&model);
            add_slopes(&model, &direction, &of_finite(cotangent, &own, -1.0), &run, &mut gradient)?;
            Ok(vec![gradient])
        };
        Ok((values, Tape::new(vjp)))
    }

    /// With respect to p, the gradient of −E_p[log q] is −Cov_p·s_q, and that of E_p[log p] is Cov_p·s_p;
    /// with respect to q, the gradient of both divergences is μ_q − μ_p.
    fn record_divergence<F: Real>(
        &self,
        p: &DependencyTree<F>,
        q: &DependencyTree<F>,
        kl: bool,
        run: &Run,
    ) -> Result<Recording<F>> {
        check_shapes(p, q)?;
        let clock = run.start(NAME);
        let (of_p, of_q) = run.install(|| {
            Ok::<_, Error>((
                all_sums(p, Depth::Marginals, None, &clock)?,
                all_sums(q, Depth::Marginals, None, &clock)?,
            ))
        })?;
        some_partition(&of_p).map_err(|error| no_tree::described(error, p))?;
        let values = divergences(p, q, &of_p, &of_q, kl, &clock)?;
        let (p, q, run, own) = (p.clone(), q.clone(), run.clone(), values.clone());
        let vjp = move |cotangent: &[f64]| {
            check_numbers(cotangent, p.batch())?;
            let (mut to_p, mut to_q) = (zero_gradient(&p), zero_gradient(&q));
            let (by_p, by_q) = (scores(&p), scores(&q));
            let direction = |b: usize, head: usize, d: usize, l: usize| {
                let of_p = if kl { by_p(b, head, d, l) } else { 0.0 };
                of_p - by_q(b, head, d, l)
            };
            add_slopes(&p, &direction, &of_finite(cotangent, &own, 1.0), &run, &mut to_p)?;
            add_arcs(&q, &of_q, &of_finite(cotangent, &own, 1.0), None, &mut to_q);
            add_arcs(&p, &of_p, &of_finite(cotangent, &own, -1.0), None, &mut to_q);
            Ok(vec![to_p, to_q])
        };
        Ok((values, Tape::new(vjp)))
    }
}

/// The scores of a model as a direction; −∞ counts as 0, because such arcs have probability zero.
pub(super) fn scores<F: Real>(
    model: &DependencyTree<F>,
) -> impl Fn(usize, usize, usize, usize) -> f64 + Sync {
    move |b, head, d, l| {
        let score = model.arc_from(b, head, d)[l].to_f64();
        if score > f64::NEG_INFINITY { score } else { 0.0 }
    }
}

/// Adds factor · the derivatives of the marginals in a direction.
pub(super) fn add_slopes<F: Real>(
    model: &DependencyTree<F>,
    direction: &Direction<'_>,
    factor: &[f64],
    run: &Run,
    gradient: &mut DependencyGradient<F>,
) -> Result<()> {
    let clock = run.start(NAME);
    let sums = run.install(|| all_sums(model, Depth::Marginals, Some(direction), &clock))?;
    add_arcs(model, &sums, factor, Some(direction), gradient);
    Ok(())
}

impl<F: Real> Differentiable<DependencyTree<F>> for SpanningTrees {
    const OPERATIONS: &'static [Operation] = &Operation::ALL;

    fn differentiate(
        &self,
        operation: Operation,
        models: &[&DependencyTree<F>],
        run: &Run,
    ) -> Result<Recording<F>> {
        if let Some(first) = models.first() {
            run.require_memory(NAME, self.forecast(first, Query::FactorMarginals, run).bytes)?;
        }
        match (operation, models) {
            (Operation::LogPartition, [model]) => self.record_log_partition(model, run),
            (Operation::Entropy, [model]) => self.record_entropy(model, run),
            (Operation::CrossEntropy, [p, q]) => self.record_divergence(p, q, false, run),
            (Operation::Kl, [p, q]) => self.record_divergence(p, q, true, run),
            (Operation::Expectation, [model, scores]) => self.record_expectation(model, scores, run),
            _ => Err(not_differentiable(NAME, operation, models.len())),
        }
    }
}
