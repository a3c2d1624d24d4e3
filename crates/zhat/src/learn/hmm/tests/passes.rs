//! Likelihoods, posteriors, expected counts and best states of small models.

use super::super::emission::{Context, padded};
use super::super::group::Counts;
use super::super::sweep::{Plan, expect};
use super::super::*;
use super::{FAMILIES, random_case};
use crate::dynamic::ForwardBackward;
use crate::query::TransitionGradient;
use crate::random::Streams;
use crate::{FactorMarginals, Run};

fn run() -> Run {
    Run::default().with_threads(1)
}

fn expected(hmm: &Hmm, data: &Sequences) -> (Counts, f64) {
    let context = Context { centre: vec![0.0; data.columns()], ..Context::default() };
    let density = hmm.emissions().part().density(&context);
    let plan = Plan::new(data, &(0..data.count()).collect::<Vec<_>>());
    let run = run();
    let clock = run.start("test");
    expect(hmm, data, &plan, &*density, &clock, &run).unwrap()
}

/// ln p of every row and state, without the passes.
fn scores(hmm: &Hmm, data: &Sequences, sequence: usize) -> Vec<Vec<f64>> {
    let context = Context::default();
    let density = hmm.emissions().part().density(&context);
    let width = padded(hmm.states());
    let mut all = vec![0.0; data.length(sequence) * width];
    density.log_density(data.sequence(sequence), width, &mut all);
    all.chunks_exact(width).map(|row| row[..hmm.states()].to_vec()).collect()
}

/// Weight of every path of a sequence, by enumeration.
fn paths(hmm: &Hmm, data: &Sequences, sequence: usize) -> Vec<(Vec<usize>, f64)> {
    let (states, scores) = (hmm.states(), scores(hmm, data, sequence));
    let length = scores.len();
    (0..states.pow(length as u32))
        .map(|mut code| {
            let path: Vec<usize> = (0..length)
                .map(|_| {
                    let state = code % states;
                    code /= states;
                    state
                })
                .collect();
            let mut weight = hmm.start()[path[0]].ln();
            for t in 0..length {
                weight += scores[t][path[t]];
                if t > 0 {
                    weight += hmm.transitions()[path[t - 1] * states + path[t]].ln();
                }
            }
            (path, weight)
        })
        .collect()
}

#[test]
fn passes_agree_with_enumeration() {
    let mut random = Streams::new(11, "hmm enumeration").block(0);
    for case in 0..240 {
        let (hmm, data) = random_case(FAMILIES[case % FAMILIES.len()], case % 3 == 0, &mut random);
        let (states, width) = (hmm.states(), padded(hmm.states()));
        let logs = hmm.log_likelihoods(&data, &run()).unwrap();
        let (posteriors, same) = hmm.posteriors(&data, &run()).unwrap();
        let (best, best_scores) = hmm.decode(&data, &run()).unwrap();
        let (counts, total) = expected(&hmm, &data);
        let (mut start, mut moves) = (vec![0.0; states], vec![0.0; states * states]);
        for sequence in 0..data.count() {
            let all = paths(&hmm, &data, sequence);
            let weights: Vec<f64> = all.iter().map(|(_, weight)| *weight).collect();
            let log = crate::numeric::log_sum_exp(&weights);
            assert!((logs[sequence] - log).abs() < 1e-10 * (1.0 + log.abs()), "case {case}");
            assert!((same[sequence] - log).abs() < 1e-10 * (1.0 + log.abs()), "case {case}");
            let rows = data.range(sequence);
            let mut marginals = vec![0.0; rows.len() * states];
            for (path, weight) in &all {
                let p = (weight - log).exp();
                start[path[0]] += p;
                for (t, &state) in path.iter().enumerate() {
                    marginals[t * states + state] += p;
                    if t > 0 {
                        moves[path[t - 1] * states + state] += p;
                    }
                }
            }
            let found = &posteriors[rows.start * states..rows.end * states];
            for (found, expected) in found.iter().zip(&marginals) {
                assert!((found - expected).abs() < 1e-10, "case {case}");
            }
            let most = weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            assert!((best_scores[sequence] - most).abs() < 1e-10 * (1.0 + most.abs()), "case {case}");
            let own = &best[rows];
            let of_path = all.iter().find(|(path, _)| path == own).unwrap().1;
            assert!((of_path - most).abs() < 1e-10 * (1.0 + most.abs()), "case {case}");
        }
        assert!((total - logs.iter().sum::<f64>()).abs() < 1e-10 * (1.0 + total.abs()));
        for i in 0..states {
            assert!((counts.start[i] - start[i]).abs() < 1e-9, "case {case}");
            for j in 0..states {
                let found = counts.transitions[i * width + j];
                assert!((found - moves[i * states + j]).abs() < 1e-9, "case {case}");
            }
        }
    }
}

#[test]
fn counts_are_the_gradients_of_a_chain() {
    let mut random = Streams::new(12, "hmm gradients").block(0);
    for case in 0..40 {
        let (hmm, data) = random_case(FAMILIES[case % FAMILIES.len()], case % 2 == 0, &mut random);
        let (counts, _) = expected(&hmm, &data);
        let chain = hmm.chain(&data, &run()).unwrap();
        let gradient = ForwardBackward::default().factor_marginals(&chain, &run()).unwrap().value;
        let (states, width) = (hmm.states(), padded(hmm.states()));
        let TransitionGradient::Shared(moves) = &gradient.transitions else { panic!("shared transitions") };
        for i in 0..states {
            assert!((gradient.start[i] - counts.start[i]).abs() < 1e-10);
            for j in 0..states {
                assert!((moves[i * states + j] - counts.transitions[i * width + j]).abs() < 1e-9);
            }
        }
    }
}

/// A state that explains the data much worse, but is the only one that can be reached.
#[test]
fn sequences_beyond_the_range_of_the_scaled_passes_are_exact() {
    let means = vec![0.0, 100.0, 0.5];
    let normals = Gaussian::new(3, Covariance::Diagonal, means, vec![1e-3; 3]).unwrap();
    let transitions = vec![0.5, 0.0, 0.5, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0];
    let hmm = Hmm::new(vec![1.0, 0.0, 0.0], transitions, Emissions::Gaussian(normals)).unwrap();
    let values: Vec<f64> = (0..12).map(|t| if t < 3 { 0.0 } else { 99.0 + 0.01 * f64::from(t) }).collect();
    let data = Sequences::new(1, [values.clone(), vec![0.0; 5]].concat(), &[12, 5]).unwrap();
    let logs = hmm.log_likelihoods(&data, &run()).unwrap();
    let weights: Vec<f64> = paths(&hmm, &data, 0).iter().map(|(_, weight)| *weight).collect();
    let log = crate::numeric::log_sum_exp(&weights);
    assert!(log < -1e6 && (logs[0] - log).abs() < 1e-12 * log.abs(), "{} {log}", logs[0]);
    let (posteriors, _) = hmm.posteriors(&data, &run()).unwrap();
    for row in posteriors.chunks_exact(3) {
        assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-12 && row[1] == 0.0);
    }
    let (counts, total) = expected(&hmm, &data);
    assert!((total - logs.iter().sum::<f64>()).abs() < 1e-12 * total.abs());
    let moves: f64 = counts.transitions.iter().sum();
    assert!((moves - 15.0).abs() < 1e-9, "{moves}");
}

#[test]
fn an_impossible_sequence_is_an_error_with_its_place() {
    let table = Categorical::new(2, vec![1.0, 0.0, 0.0, 1.0]).unwrap();
    let hmm = Hmm::new(vec![1.0, 0.0], vec![1.0, 0.0, 0.0, 1.0], Emissions::Categorical(table)).unwrap();
    assert_eq!(hmm.unreachable(), [1]);
    let data = Sequences::new(1, vec![0.0, 0.0, 0.0, 1.0, 0.0], &[2, 3]).unwrap();
    let logs = hmm.log_likelihoods(&data, &run()).unwrap();
    assert_eq!(logs, [0.0, f64::NEG_INFINITY]);
    for error in [hmm.posteriors(&data, &run()).unwrap_err(), hmm.decode(&data, &run()).unwrap_err()] {
        assert!(error.to_string().contains("row 3") && error.to_string().contains("sequence 1"), "{error}");
    }
}

#[test]
fn many_sequences_have_the_same_bits_for_any_number_of_threads() {
    let mut random = Streams::new(13, "hmm threads").block(0);
    let emissions = super::emissions(FAMILIES[2], 9, 2, &mut random);
    let start = super::distribution(9, false, &mut random);
    let transitions = (0..9).flat_map(|_| super::distribution(9, false, &mut random)).collect();
    let hmm = Hmm::new(start, transitions, emissions).unwrap();
    let lengths: Vec<usize> = (0..60).map(|i| 1 + (i * 7) % 40).collect();
    let (data, _) = hmm.sample(&lengths, &run()).unwrap();
    let family = hmm.family();
    let trained = |threads: usize| {
        let run = Run::default().with_threads(threads).with_seed(5);
        let how = Learning::default().iterations(5);
        train(&data, 9, family, &how, None, None, &run, &mut |_| Ok(true)).unwrap()
    };
    let one = trained(1);
    assert_eq!(one, trained(3));
    // Sequences grouped differently have the same posteriors up to rounding.
    let (together, _) = hmm.posteriors(&data, &run()).unwrap();
    for sequence in [0, 17, 59] {
        let alone = data.subset(&[sequence]).unwrap();
        let (own, _) = hmm.posteriors(&alone, &run()).unwrap();
        let rows = data.range(sequence);
        for (a, b) in own.iter().zip(&together[rows.start * 9..rows.end * 9]) {
            assert!((a - b).abs() < 1e-12);
        }
    }
}
