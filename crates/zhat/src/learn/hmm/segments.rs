//! Passes over sequences of semi-Markov models, in the log domain.
//!
//! With σ_t(n) the weight of the observations before t with a segment of state n that begins at t, and ε_t(n) of those
//! up to t with a segment that ends at t: ε_t(n) = Σ_d σ_{t−d+1}(n)·D(n, d)·Π b, σ_{t+1}(j) = Σ_i ε_t(i)·A(i, j). The
//! last segment has the survival S(n, d) in place of D(n, d); the counts of its duration are divided among d′ ≥ d in
//! proportion to D(n, d′). Products of densities run along the segment, so zeros and large scores are exact.
//!
//! Time: T·N·(M + N). Memory: 7·T·N numbers per sequence.

use super::data::Sequences;
use super::durations::Durations;
use super::emission::{Density, padded};
use super::exact::impossible;
use super::group::Counts;
use super::model::Hmm;
use crate::error::Result;
use crate::numeric::log_sum_exp;
use crate::run::Clock;

/// Operations between two checks of the clock.
const CHECK: usize = 1 << 16;

/// The parameters of a semi-Markov model as logarithms.
pub(super) struct Segmental<'a> {
    hmm: &'a Hmm,
    durations: &'a Durations,
    density: &'a dyn Density,
    start: Vec<f64>,
    transitions: Vec<f64>,
    lasting: Vec<f64>,
    surviving: Vec<f64>,
}

/// The forward pass of a sequence.
pub(super) struct Forward {
    /// T × N.
    densities: Vec<f64>,
    begins: Vec<f64>,
    ends: Vec<f64>,
    /// −∞ if the sequence is impossible.
    pub log_likelihood: f64,
}

impl<'a> Segmental<'a> {
    pub fn new(hmm: &'a Hmm, durations: &'a Durations, density: &'a dyn Density) -> Self {
        let logs = |values: &[f64]| values.iter().map(|p| p.ln()).collect::<Vec<f64>>();
        Segmental {
            hmm,
            durations,
            density,
            start: logs(&hmm.start),
            transitions: logs(&hmm.transitions),
            lasting: logs(durations.probabilities()),
            surviving: logs(&durations.survivals()),
        }
    }

    fn densities(&self, rows: &[f64], length: usize) -> Vec<f64> {
        let (states, width) = (self.hmm.states(), padded(self.hmm.states()));
        let mut all = vec![0.0; length * width];
        self.density.log_density(rows, width, &mut all);
        let mut densities = Vec::with_capacity(length * states);
        all.chunks_exact(width).for_each(|row| densities.extend_from_slice(&row[..states]));
        densities
    }

    /// Steps between two checks of the clock.
    fn stride(&self) -> usize {
        let states = self.hmm.states();
        (CHECK / (states * (states + self.durations.longest())).max(1)).max(1)
    }

    /// The scores of segments of state n that end at `end`: `each` gets the duration and the score of duration and
    /// densities, until all longer ones are impossible.
    fn backwards(
        &self,
        densities: &[f64],
        end: usize,
        last: bool,
        n: usize,
        mut each: impl FnMut(usize, f64),
    ) {
        let (states, longest) = (self.hmm.states(), self.durations.longest());
        let scores = if last { &self.surviving } else { &self.lasting };
        let mut product = 0.0;
        for d in 1..=longest.min(end + 1) {
            product += densities[(end + 1 - d) * states + n];
            if product == f64::NEG_INFINITY {
                break;
            }
            each(d, scores[n * longest + d - 1] + product);
        }
    }

    pub fn forward(&self, data: &Sequences, member: usize, clock: &Clock<'_>) -> Result<Forward> {
        let (states, length) = (self.hmm.states(), data.length(member));
        let densities = self.densities(data.sequence(member), length);
        let mut begins = vec![f64::NEG_INFINITY; length * states];
        let mut ends = vec![f64::NEG_INFINITY; length * states];
        begins[..states].copy_from_slice(&self.start);
        let mut terms = Vec::with_capacity(states.max(self.durations.longest()));
        for t in 0..length {
            if t % self.stride() == 0 {
                clock.check()?;
            }
            for n in 0..states {
                terms.clear();
                self.backwards(&densities, t, t + 1 == length, n, |d, score| {
                    terms.push(begins[(t + 1 - d) * states + n] + score);
                });
                ends[t * states + n] = if terms.is_empty() { f64::NEG_INFINITY } else { log_sum_exp(&terms) };
            }
            if t + 1 < length {
                for j in 0..states {
                    terms.clear();
                    terms
                        .extend((0..states).map(|i| ends[t * states + i] + self.transitions[i * states + j]));
                    begins[(t + 1) * states + j] = log_sum_exp(&terms);
                }
            }
        }
        let log_likelihood = log_sum_exp(&ends[(length - 1) * states..]);
        Ok(Forward { densities, begins, ends, log_likelihood })
    }

    /// The posteriors of the states, rows of the padded width; adds the expected counts, transitions with the factor A.
    pub fn backward(
        &self,
        forward: &Forward,
        data: &Sequences,
        member: usize,
        counts: Option<&mut Counts>,
        clock: &Clock<'_>,
    ) -> Result<Vec<f64>> {
        let (states, longest, length) = (self.hmm.states(), self.durations.longest(), data.length(member));
        let (width, log) = (padded(states), forward.log_likelihood);
        if log == f64::NEG_INFINITY {
            let dead = |row: &[f64]| row.iter().all(|x| *x == f64::NEG_INFINITY);
            let step = forward.begins.chunks_exact(states).position(dead).unwrap_or(length);
            return Err(impossible(data, member, step.saturating_sub(1).min(length - 1)));
        }
        // The weight of the observations after t given that a segment of state n ends at t.
        let mut after = vec![0.0; length * states];
        // The change of the posterior at t: segments that begin at t, less those that ended before t.
        let mut changes = vec![0.0; (length + 1) * states];
        let mut lasting = vec![0.0; states * longest];
        let mut moves = vec![0.0; states * states];
        let (mut terms, mut here) = (Vec::with_capacity(states), vec![0.0; states]);
        let mut from_here = vec![f64::NEG_INFINITY; length * states];
        let mut ended = Vec::with_capacity(longest);
        for t in (0..length).rev() {
            if t % self.stride() == 0 {
                clock.check()?;
            }
            let last = t + 1 == length;
            if !last {
                let next = &from_here[(t + 1) * states..][..states];
                for i in 0..states {
                    terms.clear();
                    terms.extend((0..states).map(|j| self.transitions[i * states + j] + next[j]));
                    here[i] = log_sum_exp(&terms);
                    let end = forward.ends[t * states + i];
                    if end > f64::NEG_INFINITY {
                        for (j, term) in terms.iter().enumerate() {
                            moves[i * states + j] += (end + term - log).exp();
                        }
                    }
                }
                after[t * states..][..states].copy_from_slice(&here);
            }
            // Segments that begin at t.
            for n in 0..states {
                ended.clear();
                let mut product = 0.0;
                for d in 1..=longest.min(length - t) {
                    let end = t + d - 1;
                    product += forward.densities[end * states + n];
                    if product == f64::NEG_INFINITY {
                        break;
                    }
                    let scores = if end + 1 == length { &self.surviving } else { &self.lasting };
                    ended.push(scores[n * longest + d - 1] + product + after[end * states + n]);
                }
                if ended.is_empty() {
                    continue;
                }
                from_here[t * states + n] = log_sum_exp(&ended);
                let begin = forward.begins[t * states + n];
                if begin == f64::NEG_INFINITY {
                    continue;
                }
                for (d, score) in (1..).zip(&ended) {
                    let p = (begin + score - log).exp();
                    changes[t * states + n] += p;
                    changes[(t + d) * states + n] -= p;
                    if t + d < length {
                        lasting[n * longest + d - 1] += p;
                    } else if p > 0.0 {
                        let survival = self.surviving[n * longest + d - 1].exp();
                        for longer in d - 1..longest {
                            lasting[n * longest + longer] +=
                                p * self.durations.probabilities()[n * longest + longer] / survival;
                        }
                    }
                }
            }
        }
        let mut posteriors = vec![0.0; length * width];
        let mut running = vec![0.0; states];
        for t in 0..length {
            let row = &mut posteriors[t * width..][..states];
            for n in 0..states {
                running[n] += changes[t * states + n];
                // Differences of sums can be below zero by rounding.
                row[n] = f64::max(running[n], 0.0);
            }
            let sum: f64 = row.iter().sum();
            row.iter_mut().for_each(|p| *p /= sum);
        }
        if let Some(counts) = counts {
            counts.start.iter_mut().zip(&posteriors[..width]).for_each(|(sum, x)| *sum += x);
            for (row, own) in counts.transitions.chunks_exact_mut(width).zip(moves.chunks_exact(states)) {
                row.iter_mut().zip(own).for_each(|(sum, x)| *sum += x);
            }
            counts.durations.iter_mut().zip(&lasting).for_each(|(sum, x)| *sum += x);
            self.density.accumulate(data.sequence(member), width, &posteriors, &mut counts.emissions);
        }
        Ok(posteriors)
    }

    /// The most probable segments, as the state of every row, and their log-probability with the observations.
    pub fn best(&self, data: &Sequences, member: usize, clock: &Clock<'_>) -> Result<(Vec<usize>, f64)> {
        let (states, length) = (self.hmm.states(), data.length(member));
        let densities = self.densities(data.sequence(member), length);
        let mut begins = vec![f64::NEG_INFINITY; length * states];
        begins[..states].copy_from_slice(&self.start);
        let (mut lasted, mut from) = (vec![0u32; length * states], vec![0u32; length * states]);
        let mut ends = vec![f64::NEG_INFINITY; states];
        for t in 0..length {
            if t % self.stride() == 0 {
                clock.check()?;
            }
            for n in 0..states {
                let (mut most, mut duration) = (f64::NEG_INFINITY, 0);
                self.backwards(&densities, t, t + 1 == length, n, |d, score| {
                    let way = begins[(t + 1 - d) * states + n] + score;
                    if way > most {
                        (most, duration) = (way, d);
                    }
                });
                (ends[n], lasted[t * states + n]) = (most, duration as u32);
            }
            if t + 1 < length {
                for j in 0..states {
                    for (i, &end) in ends.iter().enumerate() {
                        let way = end + self.transitions[i * states + j];
                        if way > begins[(t + 1) * states + j] {
                            begins[(t + 1) * states + j] = way;
                            from[(t + 1) * states + j] = i as u32;
                        }
                    }
                }
            }
        }
        let mut state = 0;
        for (n, end) in ends.iter().enumerate() {
            if *end > ends[state] {
                state = n;
            }
        }
        let score = ends[state];
        if score == f64::NEG_INFINITY {
            return Err(impossible(data, member, 0));
        }
        let mut path = vec![0; length];
        let mut end = length;
        while end > 0 {
            let duration = (lasted[(end - 1) * states + state] as usize).clamp(1, end);
            path[end - duration..end].fill(state);
            end -= duration;
            if end > 0 {
                state = from[end * states + state] as usize;
            }
        }
        Ok((path, score))
    }
}
