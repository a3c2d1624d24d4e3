//! The most probable states of every sequence (Viterbi). T·N² additions; T·N bytes × 4 for the way back.

use super::data::Sequences;
use super::emission::{Context, padded};
use super::exact::impossible;
use super::model::Hmm;
use super::segments::Segmental;
use crate::error::Result;
use crate::numeric::parallel::prelude::*;
use crate::run::Run;

const PHASE: &str = "Viterbi";

/// The states of all rows, and the log-probability of each sequence with its states.
pub(super) fn decode(hmm: &Hmm, data: &Sequences, run: &Run) -> Result<(Vec<usize>, Vec<f64>)> {
    hmm.check_data(data)?;
    let (states, width) = (hmm.states(), padded(hmm.states()));
    let longest = data.lengths().into_iter().max().unwrap_or(0);
    let busy = run.threads().min(data.count()) as f64;
    let bytes = busy * longest as f64 * (8 * width + 16 * states) as f64 + 16.0 * data.rows() as f64;
    run.require_memory(PHASE, bytes)?;
    let clock = run.start(PHASE);
    let context = Context::default();
    let density = hmm.emissions.part().density(&context);
    let logs: Vec<f64> = hmm.transitions.iter().map(|p| p.ln()).collect();
    let segmental = hmm.durations.as_ref().map(|durations| Segmental::new(hmm, durations, &*density));
    let one = |member: usize| -> Result<(Vec<usize>, f64)> {
        if let Some(segmental) = &segmental {
            return segmental.best(data, member, &clock);
        }
        let length = data.length(member);
        let mut scores = vec![0.0; length * width];
        density.log_density(data.sequence(member), width, &mut scores);
        let mut best: Vec<f64> = hmm.start.iter().zip(&scores).map(|(p, score)| p.ln() + score).collect();
        let mut from = vec![0u32; length * states];
        for t in 1..length {
            if t % 256 == 0 {
                clock.check()?;
            }
            let from = &mut from[t * states..][..states];
            let mut next = vec![f64::NEG_INFINITY; states];
            for (i, (&score, row)) in best.iter().zip(logs.chunks_exact(states)).enumerate() {
                for ((next, from), log) in next.iter_mut().zip(from.iter_mut()).zip(row) {
                    let way = score + log;
                    if way > *next {
                        (*next, *from) = (way, i as u32);
                    }
                }
            }
            next.iter_mut().zip(&scores[t * width..]).for_each(|(next, score)| *next += score);
            if next.iter().all(|x| *x == f64::NEG_INFINITY) {
                return Err(impossible(data, member, t));
            }
            best = next;
        }
        let mut state = 0;
        for (i, score) in best.iter().enumerate() {
            if *score > best[state] {
                state = i;
            }
        }
        let score = best[state];
        if score == f64::NEG_INFINITY {
            return Err(impossible(data, member, 0));
        }
        let mut path = vec![0; length];
        for t in (0..length).rev() {
            path[t] = state;
            state = from[t * states + state] as usize;
        }
        Ok((path, score))
    };
    let found: Vec<Result<(Vec<usize>, f64)>> =
        run.install(|| (0..data.count()).into_par_iter().map(one).collect());
    let (mut paths, mut scores) = (Vec::with_capacity(data.rows()), Vec::new());
    for one in found {
        let (path, score) = one?;
        paths.extend(path);
        scores.push(score);
    }
    Ok((paths, scores))
}
