//! Passes over all sequences: groups of similar length, in parallel.
//!
//! Sequences are sorted by length and divided into groups, and groups into parts; both depend on the data only.
//! Parts run in parallel and their sums are added in order, so results have the same bits for any number of
//! threads. Time: 6·N² operations per row for expected counts. Memory: two rows of N numbers per row of a group for
//! every thread, and one set of counts per part (`forecast`).

use std::ops::Range;

use super::data::Sequences;
use super::emission::{Context, Density};
use super::exact::{self, Messages};
use super::forecast::Sizes;
use super::group::{Counts, Group, Prepared};
use super::model::Hmm;
use super::segments::Segmental;
use crate::error::Result;
use crate::numeric::parallel::prelude::*;
use crate::run::{Clock, Run};

const PHASE: &str = "hidden Markov model";
/// Most sequences per group.
const MEMBERS: usize = 8;
/// Most parts.
const PARTS: usize = 32;

/// The order of the work.
pub(super) struct Plan {
    /// All sequences, longest first.
    order: Vec<usize>,
    /// Sequences per group.
    pub members: usize,
    /// Ranges of `order`.
    pub parts: Vec<Range<usize>>,
    /// Rows of the largest group.
    pub largest: usize,
    /// Rows of the longest sequence.
    pub longest: usize,
}

impl Plan {
    pub fn new(data: &Sequences, sequences: &[usize]) -> Self {
        let mut order = sequences.to_vec();
        order.sort_by_key(|&sequence| std::cmp::Reverse(data.length(sequence)));
        // A few sequences are divided into at least two groups, so that two threads have work.
        let members = (order.len() / 2).next_power_of_two().clamp(1, MEMBERS);
        let rows = |group: &[usize]| group.iter().map(|&sequence| data.length(sequence)).sum::<usize>();
        let largest = order.chunks(members).map(rows).max().unwrap_or(0);
        let share = (rows(&order) / PARTS).max(1);
        let (mut parts, mut begin, mut filled) = (Vec::new(), 0, 0);
        for first in (0..order.len()).step_by(members) {
            let end = (first + members).min(order.len());
            filled += rows(&order[first..end]);
            if filled >= share {
                parts.push(begin..end);
                (begin, filled) = (end, 0);
            }
        }
        if begin < order.len() {
            parts.push(begin..order.len());
        }
        let longest = order.first().map_or(0, |&sequence| data.length(sequence));
        Plan { order, members, parts, largest, longest }
    }

    /// The number of sequences.
    pub fn count(&self) -> usize {
        self.order.len()
    }
}

/// Runs `each` over the groups of all parts, and returns the results of the parts in order.
fn over<T: Send>(
    plan: &Plan,
    clock: &Clock<'_>,
    run: &Run,
    make: impl Fn() -> T + Sync,
    each: impl Fn(&mut T, &[usize]) -> Result<()> + Sync,
) -> Result<Vec<T>> {
    let one = |part: &Range<usize>| -> Result<T> {
        let mut made = make();
        for members in plan.order[part.clone()].chunks(plan.members) {
            clock.check()?;
            each(&mut made, members)?;
        }
        Ok(made)
    };
    let found: Vec<Result<T>> = run.install(|| plan.parts.par_iter().map(one).collect());
    found.into_iter().collect()
}

/// The log-likelihood of every sequence.
pub(super) fn log_likelihoods(hmm: &Hmm, data: &Sequences, run: &Run) -> Result<Vec<f64>> {
    hmm.check_data(data)?;
    let context = Context::default();
    let density = hmm.emissions.part().density(&context);
    let prepared = Prepared::new(&hmm.start, &hmm.transitions, &*density);
    let plan = Plan::new(data, &(0..data.count()).collect::<Vec<_>>());
    run.require_memory(PHASE, plan.bytes(&Sizes::of(hmm), false, run.threads()))?;
    let clock = run.start(PHASE);
    let segmental = hmm.durations.as_ref().map(|durations| Segmental::new(hmm, durations, &*density));
    let found = over(&plan, &clock, run, Vec::new, |found: &mut Vec<(usize, f64)>, members| {
        if let Some(segmental) = &segmental {
            for &member in members {
                found.push((member, segmental.forward(data, member, &clock)?.log_likelihood));
            }
            return Ok(());
        }
        let mut group = Group::new(data, members, &prepared);
        let logs = group.forward(&prepared, &clock)?;
        for (r, (&member, log)) in members.iter().zip(logs).enumerate() {
            let log = if group.failed[r] {
                Messages::new(hmm, data, member, &prepared, &clock)?.log_likelihood
            } else {
                log
            };
            found.push((member, log));
        }
        Ok(())
    })?;
    let mut logs = vec![0.0; data.count()];
    found.into_iter().flatten().for_each(|(member, log)| logs[member] = log);
    Ok(logs)
}

/// Runs both passes of a group; members that leave the range of the scaled passes are computed in the log domain.
/// `each` receives sequence, step and posteriors.
#[allow(clippy::too_many_arguments)]
fn both_ways(
    hmm: &Hmm,
    data: &Sequences,
    members: &[usize],
    prepared: &Prepared<'_>,
    mut counts: Option<&mut Counts>,
    logs: &mut Vec<(usize, f64)>,
    each: &mut dyn FnMut(usize, usize, &[f64]),
    clock: &Clock<'_>,
) -> Result<()> {
    let mut scaled = members.to_vec();
    let mut others: Vec<usize> = Vec::new();
    while !scaled.is_empty() {
        let mut group = Group::new(data, &scaled, prepared);
        let found = group.forward(prepared, clock)?;
        if !group.failed.contains(&true) {
            group.backward(prepared, counts.as_deref_mut(), clock)?;
        }
        if !group.failed.contains(&true) {
            logs.extend(scaled.iter().copied().zip(found));
            group.posteriors(prepared.states, &mut *each);
            break;
        }
        let failed = |(member, failed): (&usize, &bool)| failed.then_some(*member);
        others.extend(scaled.iter().zip(&group.failed).filter_map(failed));
        scaled.retain(|member| !others.contains(member));
    }
    for &member in &others {
        let messages = Messages::new(hmm, data, member, prepared, clock)?;
        if messages.log_likelihood == f64::NEG_INFINITY {
            return Err(exact::impossible(data, member, messages.first_impossible()));
        }
        let posteriors =
            messages.finish(hmm, data.sequence(member), prepared, counts.as_deref_mut(), clock)?;
        logs.push((member, messages.log_likelihood));
        for (t, row) in posteriors.chunks_exact(prepared.width).enumerate() {
            each(member, t, &row[..prepared.states]);
        }
    }
    Ok(())
}

/// Posteriors and log-likelihoods of all sequences.
pub(super) fn posteriors(hmm: &Hmm, data: &Sequences, run: &Run) -> Result<(Vec<f64>, Vec<f64>)> {
    hmm.check_data(data)?;
    let states = hmm.states();
    let context = Context::default();
    let density = hmm.emissions.part().density(&context);
    let prepared = Prepared::new(&hmm.start, &hmm.transitions, &*density);
    let plan = Plan::new(data, &(0..data.count()).collect::<Vec<_>>());
    let results = 16.0 * data.rows() as f64 * states as f64;
    run.require_memory(PHASE, results + plan.bytes(&Sizes::of(hmm), false, run.threads()))?;
    let clock = run.start(PHASE);
    let segmental = hmm.durations.as_ref().map(|durations| Segmental::new(hmm, durations, &*density));
    type Found = (Vec<(usize, f64)>, Vec<(usize, Vec<f64>)>);
    let found = over(&plan, &clock, run, Found::default, |found, members| {
        let first = found.1.len();
        found.1.extend(members.iter().map(|&member| (member, vec![0.0; data.length(member) * states])));
        let (logs, rows) = (&mut found.0, &mut found.1[first..]);
        if let Some(segmental) = &segmental {
            for (member, out) in rows {
                let forward = segmental.forward(data, *member, &clock)?;
                let found = segmental.backward(&forward, data, *member, None, &clock)?;
                for (out, row) in out.chunks_exact_mut(states).zip(found.chunks_exact(prepared.width)) {
                    out.copy_from_slice(&row[..states]);
                }
                logs.push((*member, forward.log_likelihood));
            }
            return Ok(());
        }
        let mut each = |member: usize, t: usize, row: &[f64]| {
            if let Some((_, out)) = rows.iter_mut().find(|(own, _)| *own == member) {
                out[t * states..][..states].copy_from_slice(row);
            }
        };
        both_ways(hmm, data, members, &prepared, None, logs, &mut each, &clock)
    })?;
    let (mut out, mut logs) = (vec![0.0; data.rows() * states], vec![0.0; data.count()]);
    for (found_logs, found_rows) in found {
        found_logs.into_iter().for_each(|(member, log)| logs[member] = log);
        for (member, rows) in found_rows {
            let range = data.range(member);
            out[range.start * states..range.end * states].copy_from_slice(&rows);
        }
    }
    Ok((out, logs))
}

/// The expected counts of some sequences and their log-likelihood. Transitions have the factor A.
pub(super) fn expect(
    hmm: &Hmm,
    data: &Sequences,
    plan: &Plan,
    density: &dyn Density,
    clock: &Clock<'_>,
    run: &Run,
) -> Result<(Counts, f64)> {
    let prepared = Prepared::new(&hmm.start, &hmm.transitions, density);
    let segmental = hmm.durations.as_ref().map(|durations| Segmental::new(hmm, durations, density));
    let make = || (Counts::new(hmm), Vec::new());
    let found = over(plan, clock, run, make, |(counts, logs), members| {
        if let Some(segmental) = &segmental {
            for &member in members {
                let forward = segmental.forward(data, member, clock)?;
                segmental.backward(&forward, data, member, Some(counts), clock)?;
                logs.push((member, forward.log_likelihood));
            }
            return Ok(());
        }
        both_ways(hmm, data, members, &prepared, Some(counts), logs, &mut |_, _, _| {}, clock)
    })?;
    let mut total = Counts::new(hmm);
    let mut logs = Vec::new();
    for (counts, own) in found {
        total.add(&counts);
        logs.extend(own);
    }
    // In the order of the sequences, so that the sum does not depend on how they were grouped.
    logs.sort_by_key(|(member, _)| *member);
    let log_likelihood = logs.iter().map(|(_, log)| log).sum();
    if segmental.is_some() {
        return Ok((total, log_likelihood));
    }
    for (row, of_model) in
        total.transitions.chunks_exact_mut(prepared.width).zip(hmm.transitions.chunks_exact(prepared.states))
    {
        row.iter_mut().zip(of_model).for_each(|(count, p)| *count *= p);
        // No transition has the states of the padding.
        row[prepared.states..].fill(0.0);
    }
    Ok((total, log_likelihood))
}
