//! Semi-Markov models against enumeration, the ordinary model and the library's semi-Markov chains.

use super::super::emission::{Context, padded};
use super::super::file::{parse_hmm, write_hmm};
use super::super::simplex;
use super::super::sweep::{Plan, expect};
use super::super::*;
use super::{FAMILIES, distribution, random_case};
use crate::dynamic::ForwardBackward;
use crate::numeric::log_sum_exp;
use crate::random::{Stream, Streams};
use crate::{LogPartition, Run};

fn run() -> Run {
    Run::default().with_threads(1)
}

fn random_model(case: usize, random: &mut Stream) -> (Hmm, Sequences) {
    let (hmm, data) = random_case(FAMILIES[case % FAMILIES.len()], case.is_multiple_of(3), random);
    let (states, longest) = (hmm.states(), 1 + random.below(7));
    let durations = if case.is_multiple_of(2) {
        Durations::free(states, (0..states).flat_map(|_| distribution(longest, true, random)).collect())
    } else {
        let shapes = (0..states).flat_map(|_| [0.2 + 3.0 * random.uniform(), 0.05 + 0.9 * random.uniform()]);
        Durations::negative_binomial(shapes.collect(), longest)
    };
    (hmm.with_durations(durations.unwrap()).unwrap(), data)
}

/// All segmentations of a sequence with their log weights: (state, duration), the last one censored.
fn segmentations(hmm: &Hmm, data: &Sequences, sequence: usize) -> Vec<(Vec<(usize, usize)>, f64)> {
    let (states, durations) = (hmm.states(), hmm.durations().unwrap());
    let (longest, length, width) = (durations.longest(), data.length(sequence), padded(states));
    let context = Context::default();
    let mut scores = vec![0.0; length * width];
    hmm.emissions().part().density(&context).log_density(data.sequence(sequence), width, &mut scores);
    let mut found = Vec::new();
    let mut open = vec![(Vec::<(usize, usize)>::new(), 0, 0.0)];
    while let Some((segments, t, weight)) = open.pop() {
        if t == length {
            found.push((segments, weight));
            continue;
        }
        for n in 0..states {
            let into = match segments.last() {
                None => hmm.start()[n],
                Some(&(before, _)) => hmm.transitions()[before * states + n],
            };
            for d in 1..=longest.min(length - t) {
                let table = &durations.probabilities()[n * longest..][..longest];
                let lasting: f64 = if t + d < length { table[d - 1] } else { table[d - 1..].iter().sum() };
                let emitted: f64 = (t..t + d).map(|u| scores[u * width + n]).sum();
                let more = weight + into.ln() + lasting.ln() + emitted;
                open.push(([segments.clone(), vec![(n, d)]].concat(), t + d, more));
            }
        }
    }
    found
}

#[test]
fn passes_agree_with_enumeration() {
    let mut random = Streams::new(41, "hmm durations").block(0);
    let mut possible = 0;
    for case in 0..160 {
        let (hmm, data) = random_model(case, &mut random);
        let (states, width, longest) =
            (hmm.states(), padded(hmm.states()), hmm.durations().unwrap().longest());
        let logs = hmm.log_likelihoods(&data, &run()).unwrap();
        let table = hmm.durations().unwrap().probabilities();
        let (mut start, mut moves) = (vec![0.0; states], vec![0.0; states * states]);
        let (mut lasting, mut marginals) = (vec![0.0; states * longest], vec![0.0; data.rows() * states]);
        let mut most = Vec::new();
        for (sequence, &found) in logs.iter().enumerate() {
            let all = segmentations(&hmm, &data, sequence);
            let weights: Vec<f64> = all.iter().map(|(_, weight)| *weight).collect();
            let log = if weights.is_empty() { f64::NEG_INFINITY } else { log_sum_exp(&weights) };
            let close = found == log || (found - log).abs() < 1e-10 * (1.0 + log.abs());
            assert!(close, "case {case}: {found} {log}");
            most.push(weights.iter().copied().fold(f64::NEG_INFINITY, f64::max));
            let rows = data.range(sequence);
            for (segments, weight) in all.iter().filter(|(_, weight)| *weight > f64::NEG_INFINITY) {
                let p = (weight - log).exp();
                let mut t = 0;
                for (i, &(n, d)) in segments.iter().enumerate() {
                    (t..t + d).for_each(|u| marginals[(rows.start + u) * states + n] += p);
                    t += d;
                    if i == 0 {
                        start[n] += p;
                    } else {
                        moves[segments[i - 1].0 * states + n] += p;
                    }
                    if t < rows.len() {
                        lasting[n * longest + d - 1] += p;
                    } else {
                        let survival: f64 = table[n * longest + d - 1..(n + 1) * longest].iter().sum();
                        for longer in d - 1..longest {
                            lasting[n * longest + longer] += p * table[n * longest + longer] / survival;
                        }
                    }
                }
            }
        }
        if logs.contains(&f64::NEG_INFINITY) {
            assert!(hmm.posteriors(&data, &run()).is_err() && hmm.decode(&data, &run()).is_err());
            continue;
        }
        possible += 1;
        let (posteriors, same) = hmm.posteriors(&data, &run()).unwrap();
        assert_eq!(same, logs);
        for (found, expected) in posteriors.iter().zip(&marginals) {
            assert!((found - expected).abs() < 1e-9, "case {case}");
        }
        let (_, best) = hmm.decode(&data, &run()).unwrap();
        for (best, most) in best.iter().zip(&most) {
            assert!((best - most).abs() < 1e-10 * (1.0 + most.abs()), "case {case}");
        }
        let context = Context { centre: vec![0.0; data.columns()], ..Context::default() };
        let density = hmm.emissions().part().density(&context);
        let plan = Plan::new(&data, &(0..data.count()).collect::<Vec<_>>());
        let (run, mut wrong) = (run(), Vec::new());
        let clock = run.start("test");
        let (counts, _) = expect(&hmm, &data, &plan, &*density, &clock, &run).unwrap();
        for i in 0..states {
            wrong.push((counts.start[i] - start[i]).abs());
            wrong.extend(
                (0..states).map(|j| (counts.transitions[i * width + j] - moves[i * states + j]).abs()),
            );
        }
        wrong.extend(counts.durations.iter().zip(&lasting).map(|(a, b)| (a - b).abs()));
        assert!(wrong.iter().all(|x| *x < 1e-9), "case {case}");
        // The library's semi-Markov chain has the same log Z.
        let chain = hmm.segments(&data, &run).unwrap();
        let found = ForwardBackward::default().log_partition(&chain, &run).unwrap().value;
        for (found, log) in found.iter().zip(&logs) {
            assert!((found - log).abs() < 1e-9 * (1.0 + log.abs()), "case {case}");
        }
        assert!(hmm.chain(&data, &run).is_err());
        let mut bytes = Vec::new();
        write_hmm(&hmm, &mut bytes).unwrap();
        assert_eq!(parse_hmm(&bytes, "m.zhat").unwrap(), hmm);
    }
    assert!(possible > 80, "{possible}");
}

/// With D(n, d) = (1 − a)a^(d − 1), and the rest at M, the model is the ordinary one as long as M ≥ T.
#[test]
fn geometric_durations_give_the_ordinary_model() {
    let mut random = Streams::new(42, "hmm geometric").block(0);
    let (states, longest) = (3, 12);
    let emissions = super::emissions(FAMILIES[1], states, 2, &mut random);
    let stay = [0.7, 0.2, 0.5];
    let jumps = [0.0, 0.4, 0.6, 0.5, 0.0, 0.5, 0.9, 0.1, 0.0];
    let ordinary: Vec<f64> = (0..9)
        .map(|at| if at / 3 == at % 3 { stay[at / 3] } else { (1.0 - stay[at / 3]) * jumps[at] })
        .collect();
    let table = stay.iter().flat_map(|&a: &f64| {
        (1..=longest).map(move |d| if d < longest { (1.0 - a) * a.powi(d - 1) } else { a.powi(d - 1) })
    });
    let start = vec![0.2, 0.3, 0.5];
    let durations = Durations::free(states, table.collect()).unwrap();
    let plain = Hmm::new(start.clone(), ordinary, emissions.clone()).unwrap();
    let segmental = Hmm::new(start, jumps.to_vec(), emissions).unwrap().with_durations(durations).unwrap();
    let (data, _) = segmental.sample(&[12, 1, 7], &run()).unwrap();
    let (a, logs) = plain.posteriors(&data, &run()).unwrap();
    let (b, same) = segmental.posteriors(&data, &run()).unwrap();
    assert!(logs.iter().zip(&same).all(|(x, y)| (x - y).abs() < 1e-10 * (1.0 + x.abs())));
    assert!(a.iter().zip(&b).all(|(x, y)| (x - y).abs() < 1e-10));
}

#[test]
fn training_never_falls_and_finds_the_durations() {
    let mut random = Streams::new(43, "hmm duration training").block(0);
    for case in 0..60 {
        let family = FAMILIES[case % FAMILIES.len()];
        let (_, data) = random_case(family, case % 3 == 0, &mut random);
        let form = if case.is_multiple_of(2) { DurationForm::Free } else { DurationForm::NegativeBinomial };
        let how = Learning::default().iterations(6).tolerance(0.0).least_variance(0.01);
        let how = how.durations(form).max_duration(6).duration_prior(if case % 4 == 0 { 1.5 } else { 1.0 });
        let mut objectives = Vec::new();
        train(&data, 1 + case % 3, family, &how, None, None, &run(), &mut |now| {
            objectives.push(now.progress().objective);
            Ok(true)
        })
        .unwrap_or_else(|error| panic!("case {case}: {error}"));
        for pair in objectives[1..].windows(2) {
            assert!(pair[1] >= pair[0] - 1e-8 * (1.0 + pair[0].abs()), "case {case}: {objectives:?}");
        }
    }
    // States that last about 8 and 3 steps.
    let normals = Gaussian::new(2, Covariance::Diagonal, vec![-3.0, 3.0], vec![1.0, 1.0]).unwrap();
    let table = |mean: f64| (1..=12).map(move |d| (-(f64::from(d) - mean).powi(2) / 4.0).exp());
    let mut rows: Vec<f64> = table(8.0).chain(table(3.0)).collect();
    simplex::normalize_rows(&mut rows, 12);
    let durations = Durations::free(2, rows).unwrap();
    let hmm = Hmm::new(vec![0.5, 0.5], vec![0.0, 1.0, 1.0, 0.0], Emissions::Gaussian(normals)).unwrap();
    let hmm = hmm.with_durations(durations).unwrap();
    let (data, states) = hmm.sample(&[110; 30], &run()).unwrap();
    let mean = |hmm: &Hmm, n: usize| -> f64 {
        let row = &hmm.durations().unwrap().probabilities()[n * 12..][..12];
        row.iter().zip(1..).map(|(p, d)| p * f64::from(d)).sum()
    };
    for form in [DurationForm::Free, DurationForm::NegativeBinomial] {
        let how = Learning::default().durations(form).max_duration(12);
        let trained = train(&data, 2, hmm.family(), &how, None, None, &run(), &mut |_| Ok(true)).unwrap();
        let known = train_supervised(&data, &states, 2, hmm.family(), &how, None, &run()).unwrap();
        let Emissions::Gaussian(normals) = trained.model.emissions() else { panic!("gaussian") };
        let order = if normals.means()[0] < normals.means()[1] { [0, 1] } else { [1, 0] };
        for (n, &place) in order.iter().enumerate() {
            // About 300 segments per state with standard deviation √2: five standard errors are 0.41.
            let (found, counted) = (mean(&trained.model, place), mean(&known.model, n));
            assert!((found - mean(&hmm, n)).abs() < 0.5, "{form:?} {found}");
            assert!((counted - mean(&hmm, n)).abs() < 0.5, "{form:?} {counted}");
        }
        assert!(trained.model.transitions()[0] == 0.0);
    }
    let short = Learning::default().durations(DurationForm::Free).max_duration(2);
    let refused = train_supervised(&data, &states, 2, hmm.family(), &short, None, &run()).unwrap_err();
    assert!(refused.to_string().contains("more than max_duration=2"), "{refused}");
}
