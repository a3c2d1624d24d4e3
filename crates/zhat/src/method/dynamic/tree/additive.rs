//! Expectations of additive scores: Σ over arcs of the probability of the arc times its score. Exact; time and memory
//! of the probabilities.

use super::tape::{Recording, add_slopes, of_finite, scores as scores_of};
use super::{
    Depth, NAME, SpanningTrees, Sums, add_arcs, all_sums, answer, check_shapes, expectation, forbids,
    no_tree, some_partition, zero_gradient,
};
use crate::answer::Answer;
use crate::error::Result;
use crate::method::dynamic::forward_backward::check_numbers;
use crate::model::DependencyTree;
use crate::numeric::Real;
use crate::query::{Expectation, Query, Tape};
use crate::run::{Clock, Run};

impl<F: Real> Expectation<DependencyTree<F>> for SpanningTrees {
    fn expectation(
        &self,
        model: &DependencyTree<F>,
        scores: &DependencyTree<F>,
        run: &Run,
    ) -> Result<Answer<Vec<f64>>> {
        check_shapes(model, scores)?;
        let mut found = answer(self, model, Query::Entropy, run, |clock| {
            let sums = all_sums(model, Depth::Marginals, None, clock)?;
            let log_z = some_partition(&sums)?;
            Ok((expectations(model, scores, &sums, clock)?, log_z))
        })?;
        found.diagnostics.rounding *= 4.0 * (1.0 + scores.magnitude());
        Ok(found)
    }
}

/// E[score of another model]; −∞ if it forbids a tree of the model, or there is no tree.
pub(super) fn expectations<F: Real>(
    model: &DependencyTree<F>,
    scores: &DependencyTree<F>,
    sums: &[Sums],
    clock: &Clock<'_>,
) -> Result<Vec<f64>> {
    let score = scores_of(scores);
    let of = |(b, own): (usize, &Sums)| {
        if own.log_partition == f64::NEG_INFINITY || forbids(model, scores, b, clock)? {
            return Ok(f64::NEG_INFINITY);
        }
        Ok(expectation(model, b, own, |head, d, l| score(b, head, d, l)))
    };
    sums.iter().enumerate().map(of).collect()
}

impl SpanningTrees {
    /// The gradient of E[f] is Cov·f with respect to the model, and the marginals with respect to f.
    pub(super) fn record_expectation<F: Real>(
        &self,
        model: &DependencyTree<F>,
        averaged: &DependencyTree<F>,
        run: &Run,
    ) -> Result<Recording<F>> {
        check_shapes(model, averaged)?;
        let clock = run.start(NAME);
        let sums = run.install(|| all_sums(model, Depth::Marginals, None, &clock))?;
        some_partition(&sums).map_err(|error| no_tree::described(error, model))?;
        let values = expectations(model, averaged, &sums, &clock)?;
        let (model, averaged, run, own) = (model.clone(), averaged.clone(), run.clone(), values.clone());
        let vjp = move |cotangent: &[f64]| {
            check_numbers(cotangent, model.batch())?;
            let factor = of_finite(cotangent, &own, 1.0);
            let (mut to_model, mut to_scores) = (zero_gradient(&model), zero_gradient(&averaged));
            add_slopes(&model, &scores_of(&averaged), &factor, &run, &mut to_model)?;
            add_arcs(&model, &sums, &factor, None, &mut to_scores);
            Ok(vec![to_model, to_scores])
        };
        Ok((values, Tape::new(vjp)))
    }
}
