//! Gradients of log Z, entropy and divergences.

use super::counts::add_scaled;
use super::divergence::{additive, check_shapes, divergences, entropies, expectations, of_one_form, to_form};
use super::pass::Purpose;
use super::solve::{Passes, solve};
use super::{InsideOutside, NAME, no_parse};
use crate::error::Result;
use crate::method::dynamic::forward_backward::check_numbers;
use crate::model::Hypertree;
use crate::query::tree::HypertreeGradient;
use crate::query::{Differentiable, Operation, Tape, not_differentiable};
use crate::run::Run;

/// One value per sentence, and the tape of its gradient.
type Recording<F> = (Vec<f64>, Tape<HypertreeGradient<F>>);

/// The cotangent of the sentences whose value is finite; zero for the others.
fn of_finite(cotangent: &[f64], values: &[f64], factor: f64) -> Vec<f64> {
    cotangent.iter().zip(values).map(|(c, value)| if value.is_finite() { factor * c } else { 0.0 }).collect()
}

fn record_log_partition<F: Passes>(model: &Hypertree<F>, run: &Run) -> Result<Recording<F>> {
    let clock = run.start(NAME);
    let solutions = run.install(|| solve(model, &[], Purpose::Sums, None, &clock))?;
    let values = solutions.log_partition(model.batch());
    let (model, run) = (model.clone(), run.clone());
    let vjp = move |cotangent: &[f64]| {
        check_numbers(cotangent, model.batch())?;
        let clock = run.start(NAME);
        Ok(vec![run.install(|| solutions.vjp(&model, &[], cotangent, &clock))?])
    };
    Ok((values, Tape::new(vjp)))
}

/// The gradient of H = log Z − E[s] is −Cov·s: minus the derivative of the expected numbers in the direction of
/// the scores.
fn record_entropy<F: Passes>(model: &Hypertree<F>, run: &Run) -> Result<Recording<F>> {
    let clock = run.start(NAME);
    let model = model.clone();
    let values = run.install(|| {
        let own = additive(&model, &clock)?;
        entropies(&solve(&own, &[(1.0, &own)], Purpose::Sums, None, &clock)?, &own)
    });
    let values = values.map_err(|error| no_parse::described(error, &model, run, &clock))?;
    let (run, known) = (run.clone(), values.clone());
    let vjp = move |cotangent: &[f64]| {
        check_numbers(cotangent, model.batch())?;
        let (clock, factors) = (run.start(NAME), of_finite(cotangent, &known, -1.0));
        run.install(|| {
            let own = additive(&model, &clock)?;
            let direction = [(1.0, &*own)];
            let solutions = solve(&own, &direction, Purpose::Sums, None, &clock)?;
            Ok(vec![to_form(&model, solutions.vjp(&own, &direction, &factors, &clock)?)])
        })
    };
    Ok((values, Tape::new(vjp)))
}

/// With respect to p, the gradient of −E_p[log q] is −Cov_p·s_q, and that of E_p[log p] is Cov_p·s_p; with
/// respect to q, the gradient of both divergences is μ_q − μ_p.
fn record_divergence<F: Passes>(
    p: &Hypertree<F>,
    q: &Hypertree<F>,
    kl: bool,
    run: &Run,
) -> Result<Recording<F>> {
    check_shapes(p, q)?;
    let clock = run.start(NAME);
    let (p, q) = (p.clone(), q.clone());
    let values = run.install(|| {
        let (p, q) = of_one_form(&p, &q, &clock)?;
        divergences(&p, &q, kl, &clock)
    });
    let values = values.map_err(|error| no_parse::described(error, &p, run, &clock))?;
    let (run, known) = (run.clone(), values.clone());
    let vjp = move |cotangent: &[f64]| {
        check_numbers(cotangent, p.batch())?;
        let (clock, factors) = (run.start(NAME), of_finite(cotangent, &known, 1.0));
        run.install(|| {
            let (own_p, own_q) = of_one_form(&p, &q, &clock)?;
            let both = [(-1.0, &*own_q), (1.0, &*own_p)];
            let direction = if kl { &both[..] } else { &both[..1] };
            let to_p = solve(&own_p, direction, Purpose::Sums, None, &clock)?
                .vjp(&own_p, direction, &factors, &clock)?;
            let counts_of = |model: &Hypertree<F>| {
                let solutions = solve(model, &[], Purpose::Sums, Some(&factors), &clock)?;
                solutions.gradient(model, &own_q, &factors, &clock)
            };
            let mut to_q = counts_of(&own_q)?;
            add_scaled(&mut to_q, -1.0, &counts_of(&own_p)?);
            Ok(vec![to_form(&p, to_p), to_form(&q, to_q)])
        })
    };
    Ok((values, Tape::new(vjp)))
}

/// The gradient of E[f] is Cov·f with respect to the model, and the expected numbers with respect to f.
fn record_expectation<F: Passes>(
    model: &Hypertree<F>,
    scores: &Hypertree<F>,
    run: &Run,
) -> Result<Recording<F>> {
    check_shapes(model, scores)?;
    let clock = run.start(NAME);
    let (model, scores) = (model.clone(), scores.clone());
    let values = run.install(|| {
        let (model, scores) = of_one_form(&model, &scores, &clock)?;
        Ok(expectations(&model, &scores, &clock)?.0)
    });
    let values = values.map_err(|error| no_parse::described(error, &model, run, &clock))?;
    let (run, known) = (run.clone(), values.clone());
    let vjp = move |cotangent: &[f64]| {
        check_numbers(cotangent, model.batch())?;
        let (clock, factors) = (run.start(NAME), of_finite(cotangent, &known, 1.0));
        run.install(|| {
            let (own, averaged) = of_one_form(&model, &scores, &clock)?;
            let direction = [(1.0, &*averaged)];
            let to_model = solve(&own, &direction, Purpose::Sums, None, &clock)?
                .vjp(&own, &direction, &factors, &clock)?;
            let solutions = solve(&own, &[], Purpose::Sums, Some(&factors), &clock)?;
            let to_scores = solutions.gradient(&own, &averaged, &factors, &clock)?;
            Ok(vec![to_form(&model, to_model), to_form(&scores, to_scores)])
        })
    };
    Ok((values, Tape::new(vjp)))
}

impl<F: Passes> Differentiable<Hypertree<F>> for InsideOutside {
    const OPERATIONS: &'static [Operation] = &Operation::ALL;

    fn differentiate(
        &self,
        operation: Operation,
        models: &[&Hypertree<F>],
        run: &Run,
    ) -> Result<Recording<F>> {
        if let Some(first) = models.first() {
            run.require_memory(NAME, self.bytes_of_gradient(operation, first, models.get(1).copied(), run))?;
        }
        match (operation, models) {
            (Operation::LogPartition, [model]) => record_log_partition(model, run),
            (Operation::Entropy, [model]) => record_entropy(model, run),
            (Operation::CrossEntropy, [p, q]) => record_divergence(p, q, false, run),
            (Operation::Kl, [p, q]) => record_divergence(p, q, true, run),
            (Operation::Expectation, [model, scores]) => record_expectation(model, scores, run),
            _ => Err(not_differentiable(NAME, operation, models.len())),
        }
    }
}
