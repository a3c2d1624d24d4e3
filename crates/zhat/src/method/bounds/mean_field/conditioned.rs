//! Conditioning on a few variables: log Z = log Σ_s Z_s ≥ log Σ_s exp F_s.
//!
//! The bound is that of a mixture with one component per joint state s of the k variables, each optimised
//! separately. Cases that are left out for lack of time contribute nothing, and the bound remains valid. The
//! k variables are those with the strongest factors. The bound without conditioning is computed first and is
//! kept if it is better, which can happen because of local maxima.

use super::{Each, LowerBound, MeanField};
use crate::error::{Error, Result};
use crate::model::{FactorGraph, table};
use crate::numeric;
use crate::query::Query;
use crate::run::{Clock, Run};

/// Maximum number of cases.
const CASES: usize = 1 << 16;
/// Contribution of a zero to the strength of a factor, in nats.
const ZERO_STRENGTH: f64 = 5.0;

/// The result of the cases.
pub(super) struct Cases {
    pub bound: f64,
    pub rounding: f64,
    pub exact: bool,
    pub cases: usize,
    pub stopped_early: bool,
}

/// The `k` variables with the strongest factors, among those with two or more states.
fn strongest(graph: &FactorGraph, k: usize) -> Vec<usize> {
    let mut strength = vec![0.0; graph.variable_count()];
    for factor in graph.factors().filter(|factor| factor.scope.len() > 1) {
        let finite = factor.log_values.iter().filter(|x| x.is_finite());
        let (low, high) =
            finite.clone().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), &x| (l.min(x), h.max(x)));
        let zeros = if finite.count() < factor.log_values.len() { ZERO_STRENGTH } else { 0.0 };
        let own = if high > low { high - low } else { 0.0 } + zeros;
        factor.scope.iter().for_each(|&v| strength[v] += own);
    }
    let open = |v: &usize| graph.cardinalities()[*v] > 1 && !graph.evidence().iter().any(|(u, _)| u == v);
    let mut variables: Vec<usize> = (0..graph.variable_count()).filter(open).collect();
    variables.sort_by(|&u, &v| strength[v].total_cmp(&strength[u]).then(u.cmp(&v)));
    variables.truncate(k);
    variables
}

/// Computes the bound from the cases.
pub(super) fn by_cases(
    method: &MeanField,
    graph: &FactorGraph,
    run: &Run,
    clock: &Clock<'_>,
    each: Each<'_>,
) -> Result<Cases> {
    let variables = strongest(graph, method.condition);
    let lengths = graph.lengths(&variables);
    let count = table::size(lengths.iter().copied()).filter(|&count| count <= CASES).ok_or_else(|| {
        let message = format!("the states of {} variables are more than {CASES} cases", variables.len());
        Error::argument("condition", message)
    })?;
    let plain = MeanField { condition: 0, ..*method };
    let (mut states, mut low) = (vec![0; variables.len()], f64::NEG_INFINITY);
    let (mut bounds, mut lows) = (Vec::with_capacity(count), Vec::with_capacity(count));
    let mut all =
        Cases { bound: f64::NEG_INFINITY, rounding: 0.0, exact: true, cases: 0, stopped_early: false };
    let whole = plain.solve(graph, Query::LogPartition, run, clock, each, |outcome| {
        Ok((outcome.bound, outcome.rounding, outcome.exact.is_some(), outcome.stopped_early))
    })?;
    low = low.max(whole.0 - whole.1);
    if whole.2 || whole.3 {
        (all.bound, all.rounding, all.exact, all.stopped_early) = whole;
        return Ok(all);
    }
    for case in 0..count {
        let evidence: Vec<(usize, usize)> = variables.iter().copied().zip(states.iter().copied()).collect();
        let given = graph.condition(&evidence)?;
        let mut quiet = |_: LowerBound| true;
        let found = plain.solve(&given, Query::LogPartition, run, clock, &mut quiet, |outcome| {
            let stopped = outcome.stopped_early;
            Ok((outcome.bound, outcome.rounding, outcome.exact.is_some(), stopped))
        });
        match found {
            Ok((bound, rounding, exact, stopped)) => {
                bounds.push(bound);
                lows.push(bound - rounding);
                all.rounding = all.rounding.max(rounding);
                all.exact &= exact;
                all.stopped_early |= stopped;
            }
            Err(Error::ZeroPartition | Error::ImpossibleEvidence { .. }) => {}
            Err(error) => return Err(error),
        }
        all.cases = case + 1;
        clock.progress("raising the lower bound case by case", all.cases as u64, count as u64);
        let rounding = numeric::rounding_allowance(lows.len() as f64, graph.magnitude());
        low = low.max(numeric::log_sum_exp(&lows) - rounding);
        all.stopped_early |= clock.must_stop();
        let go_on = each(LowerBound { low, restart: case, iteration: 0, seconds: clock.seconds() });
        if !go_on || (all.stopped_early && all.cases < count) {
            all.exact = false;
            break;
        }
        table::advance(&mut states, &lengths);
    }
    if bounds.is_empty() && all.cases == count {
        return Err(graph.zero_error());
    }
    all.rounding += numeric::rounding_allowance(bounds.len() as f64, graph.magnitude());
    all.bound = numeric::log_sum_exp(&bounds);
    if whole.0 - whole.1 > all.bound - all.rounding && !all.exact {
        (all.bound, all.rounding) = (whole.0, whole.1);
    }
    Ok(all)
}
