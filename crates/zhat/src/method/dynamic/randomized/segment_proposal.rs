//! What states are likely to matter for the segments that start at each position of a semi-Markov chain.
//!
//! With inₛ(j) what leads into a segment of state j that starts at s, localₛ(j) = Σ_d exp score(s, d, j) and followₛ(j) = Σ_d exp score(s, d, j)·β_{s+d}(j),
//! the best proposal is in·follow. *local* is local, *forward* in·local, *two-pass* 0.95·in·follow/Σ + 0.05·in·local/Σ. Segments
//! that end at t are those from the last L sets, so the states that are left there are the union of these sets.
//!
//! Time O(T·L·K·N) for proposals from messages, memory O(T·N).

use std::collections::VecDeque;

use super::proposal::{GUIDED, Proposal, Rule, Support, global, mixture, weighted};
use super::select::{Chosen, Order};
use super::spread;
use super::target::Proposals;
use crate::error::Result;
use crate::method::dynamic::SequenceModel;
use crate::method::dynamic::lattice::ChainEntries;
use crate::model::SemiMarkov;
use crate::numeric::{self, Real};
use crate::random::Streams;
use crate::run::Clock;

/// The proposals of a batch of semi-Markov chains.
pub(crate) struct SegmentProposals<'a, F: Real> {
    model: &'a SemiMarkov<F>,
    entries: ChainEntries<'a, F>,
    proposal: Proposal,
    /// log of the global proposal, normalised; empty where it is not needed.
    global: Vec<f64>,
    /// B×T×N, the caller's.
    scores: &'a [f64],
}

impl<'a, F: Real> SegmentProposals<'a, F> {
    pub fn new(model: &'a SemiMarkov<F>, proposal: Proposal, scores: &'a [f64]) -> Self {
        let chain = model.chain();
        let entries = ChainEntries { transitions: chain.transitions(), states: chain.states() };
        let global = match proposal {
            Proposal::Global | Proposal::LocalGlobal => global(chain, &entries),
            _ => Vec::new(),
        };
        SegmentProposals { model, entries, proposal, global, scores }
    }

    /// log Σ_d exp(score(s, d, j) + after(d)(j)) for every state, without the start scores.
    fn follow<'m>(&self, b: usize, s: usize, after: impl Fn(usize) -> Option<&'m [F]>) -> Vec<f64> {
        let chain = self.model.chain();
        let longest = self.model.longest().min(chain.lengths()[b] - s);
        let mut sums = vec![0.0; chain.states()];
        let mut terms = Vec::with_capacity(longest * chain.states());
        for d in 1..=longest {
            add(&mut sums, chain.emission(b, s + d - 1));
            let at = terms.len();
            terms.extend_from_slice(&sums);
            add(&mut terms[at..], self.model.segment(b, s, d));
            if let Some(after) = after(d) {
                add(&mut terms[at..], after);
            }
        }
        numeric::log_sum_exp_over_slabs(&terms, &mut sums);
        sums
    }

    /// log q for the segments that start at s, up to a constant.
    fn at(&self, b: usize, s: usize, message: &[F], guide: &[F]) -> Vec<f64> {
        let chain = self.model.chain();
        let local = || {
            let mut logs = self.follow(b, s, |_| None);
            if s == 0 {
                add(&mut logs, chain.start());
            }
            logs
        };
        let with_message = || {
            let mut logs = self.follow(b, s, |_| None);
            add(&mut logs, message);
            logs
        };
        match self.proposal {
            Proposal::Uniform => vec![0.0; chain.states()],
            Proposal::Local => local(),
            Proposal::Global => self.global.clone(),
            Proposal::LocalGlobal => mixture(local(), &self.global, 0.5),
            Proposal::Given => {
                let from = (b * chain.steps() + s) * chain.states();
                self.scores[from..from + chain.states()].to_vec()
            }
            Proposal::Forward => with_message(),
            Proposal::TwoPass => {
                let both = message.iter().zip(guide).map(|(x, y)| x.to_f64() + y.to_f64()).collect();
                mixture(both, &with_message(), GUIDED)
            }
        }
    }

    /// log Σ_s exp(inₛ(j) + log w + score(s, t, j)) for the states j that are left at t, in ascending order.
    fn leave(&self, b: usize, t: usize, starts: &VecDeque<(usize, Chosen, Vec<F>)>) -> (Vec<u32>, Vec<f64>) {
        let mut left: Vec<u32> = starts.iter().flat_map(|(_, chosen, _)| &chosen.states).copied().collect();
        left.sort_unstable();
        left.dedup();
        let mut logs = vec![f64::NEG_INFINITY; left.len()];
        for (s, chosen, message) in starts {
            for (k, &state) in chosen.states.iter().enumerate() {
                let score = segment_score(self.model, b, *s, t, state as usize);
                let at = left.partition_point(|&other| other < state);
                let term = message[k].to_f64() + chosen.log_weights[k] + score;
                logs[at] = numeric::log_sum_exp(&[logs[at], term]);
            }
        }
        (left, logs)
    }
}

/// The score of a segment of a state from s to t, without the start score.
pub(super) fn segment_score<M: SequenceModel>(model: &M, b: usize, s: usize, t: usize, state: usize) -> f64 {
    let emissions: f64 = (s..=t).map(|u| model.chain().emission(b, u)[state].to_f64()).sum();
    emissions + model.segment_row(b, s, t + 1 - s)[state].to_f64()
}

fn add<F: Real>(x: &mut [f64], y: &[F]) {
    x.iter_mut().zip(y).for_each(|(x, y)| *x += y.to_f64());
}

/// Where nothing is possible: one state that has no weight, because a layer of a lattice has at least one.
fn at_least_one(chosen: Chosen) -> Chosen {
    if chosen.states.is_empty() {
        return Chosen { states: vec![0], log_weights: vec![f64::NEG_INFINITY] };
    }
    chosen
}

impl<F: Real> Proposals<F> for SegmentProposals<'_, F> {
    fn guide(&self, b: usize, rule: Rule, streams: &Streams, clock: &Clock<'_>) -> Result<Vec<F>> {
        let chain = self.model.chain();
        let (states, length) = (chain.states(), chain.lengths()[b]);
        let mut guide = vec![F::ZERO; length * states];
        // What follows from leaving each of the next L positions, the nearest first, all relative to one constant.
        let mut after: VecDeque<Vec<F>> = VecDeque::from([vec![F::ZERO; states]]);
        for s in (0..length).rev() {
            clock.check()?;
            let follow = self.follow(b, s, |d| after.get(d - 1).map(Vec::as_slice));
            let row = &mut guide[s * states..(s + 1) * states];
            let shift = numeric::max(&follow);
            let shift = if shift.is_finite() { shift } else { 0.0 };
            row.iter_mut().zip(&follow).for_each(|(x, y)| *x = F::from_f64(y - shift));
            if s == 0 {
                break;
            }
            let chosen = rule.choose(Order::Proposal, &follow, streams, b * chain.steps() + s);
            let mut before = vec![F::NEG_INFINITY; states];
            spread::backward(&self.entries, s - 1, &chosen.states, &weighted(row, &chosen), &mut before);
            // The messages that were sent are relative to the largest of them, those that wait to the last constant.
            let sent = largest_sent(row, &chosen) + shift;
            for waiting in &mut after {
                waiting.iter_mut().for_each(|x| *x = F::from_f64(x.to_f64() - sent));
            }
            after.push_front(before);
            after.truncate(self.model.longest());
        }
        Ok(guide)
    }

    fn support(
        &self,
        b: usize,
        replicate: usize,
        guide: &[F],
        rule: Rule,
        streams: &Streams,
        clock: &Clock<'_>,
    ) -> Result<Support> {
        let chain = self.model.chain();
        let (states, length) = (chain.states(), chain.lengths()[b]);
        let needs_messages = self.proposal.needs_messages();
        let mut message = if needs_messages { chain.start().to_vec() } else { Vec::new() };
        let mut starts: VecDeque<(usize, Chosen, Vec<F>)> = VecDeque::new();
        let mut positions = Vec::with_capacity(length);
        for s in 0..length {
            clock.check()?;
            let guide = guide.get(s * states..(s + 1) * states).unwrap_or_default();
            let log_proposal = self.at(b, s, &message, guide);
            let features: Vec<f64> = guide.iter().map(|x| x.to_f64()).collect();
            let order = match self.proposal {
                Proposal::TwoPass => Order::Bands(&features),
                Proposal::Forward => Order::Proposal,
                _ => Order::Number,
            };
            let block = (replicate * chain.batch() + b) * chain.steps() + s;
            let chosen = at_least_one(rule.choose(order, &log_proposal, streams, block));
            if needs_messages {
                let entered = chosen.states.iter().map(|&i| message[i as usize]).collect();
                starts.push_back((s, chosen.clone(), entered));
                if starts.len() > self.model.longest() {
                    starts.pop_front();
                }
                if s + 1 < length {
                    let (left, mut logs) = self.leave(b, s, &starts);
                    let shift = numeric::max(&logs);
                    let shift = if shift.is_finite() { shift } else { 0.0 };
                    logs.iter_mut().for_each(|x| *x -= shift);
                    let sent: Vec<F> = logs.iter().map(|&x| F::from_f64(x)).collect();
                    spread::forward(&self.entries, s, &left, &sent, &mut message);
                    // All messages that wait are relative to the same constant.
                    for (_, _, waiting) in &mut starts {
                        waiting.iter_mut().for_each(|x| *x = F::from_f64(x.to_f64() - shift));
                    }
                }
            }
            positions.push(chosen);
        }
        Ok(Support::new(positions))
    }
}

/// What `weighted` takes out of the messages of the chosen states.
fn largest_sent<F: Real>(message: &[F], chosen: &Chosen) -> f64 {
    let pairs = chosen.states.iter().zip(&chosen.log_weights);
    let largest = pairs.map(|(&i, w)| message[i as usize].to_f64() + w).fold(f64::NEG_INFINITY, f64::max);
    if largest.is_finite() { largest } else { 0.0 }
}
