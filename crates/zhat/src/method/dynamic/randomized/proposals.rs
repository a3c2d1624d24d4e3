//! The proposals for the positions of a model, and the states chosen from them.
//!
//! In a semi-Markov chain, the chosen states are those in which a segment may start. Let inₛ(j) be the total
//! weight that enters a segment of state j starting at s, localₛ(j) = Σ_d exp score(s, d, j), and
//! followₛ(j) = Σ_d exp score(s, d, j)·β_{s+d}(j). The best proposal is in·follow. *local* is local,
//! *forward* is in·local, and *two-pass* is 0.95·in·follow/Σ + 0.05·in·local/Σ. Segments that end at t start
//! in one of the last L sets, so the states in which they end are the union of these sets. In a chain, local
//! is the emission, which the message already includes: one row is passed from position to position, without
//! sums over segments.
//!
//! Time O(T·L·K·N) for proposals from messages, memory O(T·N).

use std::collections::VecDeque;

use super::proposal::{GUIDED, Rule, StateProposal, Support, global, mixture, weighted};
use super::select::{Chosen, Order};
use super::spread;
use crate::error::Result;
use crate::method::dynamic::SequenceModel;
use crate::method::dynamic::lattice::ChainEntries;
use crate::numeric::{self, Real};
use crate::random::Streams;
use crate::run::Clock;

/// The proposals for a batch of sequences.
pub(super) struct Proposals<'a, M: SequenceModel> {
    model: &'a M,
    entries: ChainEntries<'a, M::Real>,
    proposal: StateProposal,
    /// log of the global proposal, normalised; empty if not needed.
    global: Vec<f64>,
    /// B×T×N scores supplied by the caller.
    scores: &'a [f64],
}

impl<'a, M: SequenceModel> Proposals<'a, M> {
    pub fn new(model: &'a M, proposal: StateProposal, scores: &'a [f64]) -> Self {
        let chain = model.chain();
        let entries = ChainEntries { transitions: chain.transitions(), states: chain.states() };
        let global = match proposal {
            StateProposal::Global | StateProposal::LocalGlobal => global(chain, &entries),
            _ => Vec::new(),
        };
        Proposals { model, entries, proposal, global, scores }
    }

    /// log Σ_d exp(score(s, d, j) + after(d)(j)) for each state j, without the start scores.
    fn follow<'m>(&self, b: usize, s: usize, after: impl Fn(usize) -> Option<&'m [M::Real]>) -> Vec<f64>
    where
        M::Real: 'm,
    {
        let chain = self.model.chain();
        let longest = self.model.longest().min(chain.lengths()[b] - s);
        let mut sums = vec![0.0; chain.states()];
        let mut terms = Vec::with_capacity(longest * chain.states());
        for d in 1..=longest {
            add(&mut sums, chain.node(b, s + d - 1));
            let at = terms.len();
            terms.extend_from_slice(&sums);
            add(&mut terms[at..], self.model.segment_row(b, s, d));
            if let Some(after) = after(d) {
                add(&mut terms[at..], after);
            }
        }
        numeric::log_sum_exp_over_slabs(&terms, &mut sums);
        sums
    }

    /// The log scores of the states at position t without the weight that enters them. For segments, summed
    /// over all lengths.
    fn local(&self, b: usize, t: usize) -> Vec<f64> {
        if M::SEGMENTS {
            return self.follow(b, t, |_| None);
        }
        self.model.chain().node(b, t).iter().map(|x| x.to_f64()).collect()
    }

    /// log q at position t of sequence b, up to a constant. `message` is the running forward message; in a
    /// chain it includes the emission.
    pub fn at(&self, b: usize, t: usize, message: &[M::Real], guide: &[M::Real]) -> Vec<f64> {
        let chain = self.model.chain();
        let local = || {
            let mut logs = self.local(b, t);
            if t == 0 {
                add(&mut logs, chain.start());
            }
            logs
        };
        let running = || -> Vec<f64> {
            if !M::SEGMENTS {
                return message.iter().map(|x| x.to_f64()).collect();
            }
            let mut logs = self.local(b, t);
            add(&mut logs, message);
            logs
        };
        match self.proposal {
            StateProposal::Uniform => vec![0.0; chain.states()],
            StateProposal::Local => local(),
            StateProposal::Global => self.global.clone(),
            StateProposal::LocalGlobal => mixture(local(), &self.global, 0.5),
            StateProposal::Given => {
                let from = (b * chain.steps() + t) * chain.states();
                self.scores[from..from + chain.states()].to_vec()
            }
            StateProposal::Forward => running(),
            StateProposal::TwoPass => {
                let both = message.iter().zip(guide).map(|(x, y)| x.to_f64() + y.to_f64()).collect();
                mixture(both, &running(), GUIDED)
            }
        }
    }

    /// Backward messages of sequence b for each position and state, up to a constant per position: β for
    /// chains, follow for segments.
    pub fn guide(&self, b: usize, rule: Rule, streams: &Streams, clock: &Clock<'_>) -> Result<Vec<M::Real>> {
        let chain = self.model.chain();
        let (states, length) = (chain.states(), chain.lengths()[b]);
        let mut guide = vec![M::Real::default(); length * states];
        // Messages from leaving each of the next L positions, nearest first, all relative to the same
        // constant.
        let mut after: VecDeque<Vec<M::Real>> = VecDeque::from([vec![M::Real::default(); states]]);
        for s in (0..length).rev() {
            clock.check()?;
            let (before, row) = guide[..(s + 1) * states].split_at_mut(s * states);
            let (logs, message, shift) = if M::SEGMENTS {
                let follow = self.follow(b, s, |d| after.get(d - 1).map(Vec::as_slice));
                let shift = finite(numeric::max(&follow));
                row.iter_mut().zip(&follow).for_each(|(x, y)| *x = M::Real::from_f64(y - shift));
                (follow, row.to_vec(), shift)
            } else {
                let mut message = row.to_vec();
                message.iter_mut().zip(chain.node(b, s)).for_each(|(x, &e)| *x += e);
                (message.iter().map(|x| x.to_f64()).collect(), message, 0.0)
            };
            if s == 0 {
                break;
            }
            let chosen = rule.choose(Order::Proposal, &logs, streams, b * chain.steps() + s);
            let sent = weighted(&message, &chosen);
            if !M::SEGMENTS {
                let before = &mut before[(s - 1) * states..];
                spread::backward(&self.entries, s - 1, &chosen.states, &sent, before);
                continue;
            }
            let mut before = vec![M::Real::NEG_INFINITY; states];
            spread::backward(&self.entries, s - 1, &chosen.states, &sent, &mut before);
            // The new messages are relative to their largest entry, the stored ones to the previous constant.
            // This shifts the stored ones to the new constant.
            let sent = largest_sent(&message, &chosen) + shift;
            after.iter_mut().for_each(|waiting| lower(waiting, sent));
            after.push_front(before);
            after.truncate(self.model.longest());
        }
        Ok(guide)
    }

    /// The states of sequence b for one replicate.
    pub fn support(
        &self,
        b: usize,
        replicate: usize,
        guide: &[M::Real],
        rule: Rule,
        streams: &Streams,
        clock: &Clock<'_>,
    ) -> Result<Support> {
        let chain = self.model.chain();
        let (states, length) = (chain.states(), chain.lengths()[b]);
        let add_emission = |message: &mut [M::Real], t: usize| {
            message.iter_mut().zip(chain.node(b, t)).for_each(|(x, &e)| *x += e);
        };
        let mut message = Vec::new();
        if self.proposal.needs_messages() {
            message = chain.start().to_vec();
            if !M::SEGMENTS {
                add_emission(&mut message, 0);
            }
        }
        let mut starts: VecDeque<Start<M::Real>> = VecDeque::new();
        let mut positions = Vec::with_capacity(length);
        for t in 0..length {
            clock.check()?;
            let guide = guide.get(t * states..(t + 1) * states).unwrap_or_default();
            let log_proposal = self.at(b, t, &message, guide);
            // The proposal measures the score of a state, and the guide measures the total weight of its
            // continuations.
            let features: Vec<f64> = guide.iter().map(|x| x.to_f64()).collect();
            let order = match self.proposal {
                StateProposal::TwoPass => Order::Bands(&features),
                StateProposal::Forward => Order::Proposal,
                _ => Order::Number,
            };
            let block = (replicate * chain.batch() + b) * chain.steps() + t;
            let mut chosen = rule.choose(order, &log_proposal, streams, block);
            if M::SEGMENTS {
                chosen = at_least_one(chosen);
            }
            if self.proposal.needs_messages() && t + 1 < length {
                if M::SEGMENTS {
                    let entered = chosen.states.iter().map(|&i| message[i as usize]).collect();
                    starts.push_back(Start { s: t, chosen: chosen.clone(), message: entered });
                    if starts.len() > self.model.longest() {
                        starts.pop_front();
                    }
                    let (left, sent) = self.leave(b, t, &mut starts);
                    spread::forward(&self.entries, t, &left, &sent, &mut message);
                } else {
                    let sent = weighted(&message, &chosen);
                    spread::forward(&self.entries, t, &chosen.states, &sent, &mut message);
                    add_emission(&mut message, t + 1);
                }
            }
            positions.push(chosen);
        }
        Ok(Support::new(positions))
    }

    /// The states j in which a segment may end at t, in ascending order, and log Σ_s exp(inₛ(j) + log w +
    /// score(s, t, j)), shifted so that the largest is 0. Stored messages are shifted to the same constant.
    fn leave(&self, b: usize, t: usize, starts: &mut VecDeque<Start<M::Real>>) -> (Vec<u32>, Vec<M::Real>) {
        let mut left: Vec<u32> = starts.iter().flat_map(|start| &start.chosen.states).copied().collect();
        left.sort_unstable();
        left.dedup();
        let mut logs = vec![f64::NEG_INFINITY; left.len()];
        for Start { s, chosen, message } in &*starts {
            for (k, &state) in chosen.states.iter().enumerate() {
                let score = segment_score(self.model, b, *s, t, state as usize);
                let at = left.partition_point(|&other| other < state);
                let term = message[k].to_f64() + chosen.log_weights[k] + score;
                logs[at] = numeric::log_sum_exp(&[logs[at], term]);
            }
        }
        let shift = finite(numeric::max(&logs));
        starts.iter_mut().for_each(|start| lower(&mut start.message, shift));
        (left, logs.iter().map(|&x| M::Real::from_f64(x - shift)).collect())
    }
}

/// The states in which segments may start at s, and the messages into them.
struct Start<F> {
    s: usize,
    chosen: Chosen,
    message: Vec<F>,
}

/// The score of a segment of one state from s to t, without the start score.
pub(super) fn segment_score<M: SequenceModel>(model: &M, b: usize, s: usize, t: usize, state: usize) -> f64 {
    let emissions: f64 = (s..=t).map(|u| model.chain().node(b, u)[state].to_f64()).sum();
    emissions + model.segment_row(b, s, t + 1 - s)[state].to_f64()
}

fn add<F: Real>(x: &mut [f64], y: &[F]) {
    x.iter_mut().zip(y).for_each(|(x, y)| *x += y.to_f64());
}

fn lower<F: Real>(x: &mut [F], shift: f64) {
    x.iter_mut().for_each(|x| *x = F::from_f64(x.to_f64() - shift));
}

/// x, or 0 if x is not finite.
fn finite(x: f64) -> f64 {
    if x.is_finite() { x } else { 0.0 }
}

/// If no state is possible, returns one state with weight zero, because a layer of a lattice needs at least
/// one.
fn at_least_one(chosen: Chosen) -> Chosen {
    if chosen.states.is_empty() {
        return Chosen { states: vec![0], log_weights: vec![f64::NEG_INFINITY] };
    }
    chosen
}

/// The shift that `weighted` subtracts from the messages of the chosen states.
fn largest_sent<F: Real>(message: &[F], chosen: &Chosen) -> f64 {
    let pairs = chosen.states.iter().zip(&chosen.log_weights);
    finite(pairs.map(|(&i, w)| message[i as usize].to_f64() + w).fold(f64::NEG_INFINITY, f64::max))
}
