//! Low-rank transitions: every answer agrees with that of the chain that has the same transitions as a table.

use zhat::dynamic::{ForwardBackward, RandomizedForward, Selection, SequenceModel, StateProposal, States};
use zhat::internal::numeric::log_sum_exp;
use zhat::model::generate::{self, ChainShape, TransitionForm};
use zhat::model::{Chain, Evidence, Observed, Segments, SemiMarkov, Transitions};
use zhat::query::{ChainGradient, Divergence, Entropy, FactorMarginals, KBest, Map, Marginals};
use zhat::query::{Sample, TransitionGradient};
use zhat::random::Streams;
use zhat::{Error, LogPartition, Model, Real, Run};

use crate::support::sequences::{Listed, close};

/// The chain with the same transitions in a table.
fn dense<F: Real>(chain: &Chain<F>) -> Chain<F> {
    let n = chain.states();
    let score = |at| F::from_f64(chain.transitions().score(n, 0, at / n, at % n));
    let table: Vec<F> = (0..n * n).map(score).collect();
    let (start, emissions) = (chain.start().to_vec(), chain.emissions().to_vec());
    let transitions = Transitions::Shared(table.into());
    Chain::new(start.into(), emissions.into(), chain.lengths().to_vec(), transitions).unwrap()
}

/// The gradient with respect to the log factors, from the one with respect to the table.
fn of_factors<F: Real>(chain: &Chain<F>, gradient: &ChainGradient<F>) -> [Vec<f64>; 2] {
    let TransitionGradient::Shared(table) = &gradient.transitions else { panic!("a table") };
    let Transitions::LowRank { left, right } = chain.transitions() else { panic!("factors") };
    let n = chain.states();
    let rank = left.len() / n;
    let mut factors = [vec![0.0; left.len()], vec![0.0; left.len()]];
    for (at, count) in table.iter().enumerate().filter(|(_, count)| count.to_f64() != 0.0) {
        let (i, j) = (at / n, at % n);
        let term = |r: usize| left[i * rank + r].to_f64() + right[j * rank + r].to_f64();
        let total = log_sum_exp(&(0..rank).map(term).collect::<Vec<f64>>());
        for r in 0..rank {
            let part = count.to_f64() * (term(r) - total).exp();
            factors[0][i * rank + r] += part;
            factors[1][j * rank + r] += part;
        }
    }
    factors
}

fn doubles<F: Real>(values: &[F]) -> Vec<f64> {
    values.iter().map(|x| x.to_f64()).collect()
}

fn agrees<F: Real>(chain: &Chain<F>, what: &str) {
    let table = dense(chain);
    let run = Run::default();
    for method in [ForwardBackward::default(), ForwardBackward::default().checkpoint(true)] {
        let (got, want) =
            (method.log_partition(chain, &run).unwrap(), method.log_partition(&table, &run).unwrap());
        let allowed = got.diagnostics.rounding + want.diagnostics.rounding;
        close(&format!("{what}: log Z"), &got.value, &want.value, allowed);
        let small = 1e3 * allowed + 1e3 * F::EPSILON.to_f64();
        let (got, want) = (method.marginals(chain, &run).unwrap(), method.marginals(&table, &run).unwrap());
        close(
            &format!("{what}: marginals"),
            &doubles(&got.value.values),
            &doubles(&want.value.values),
            small,
        );
        let got = method.factor_marginals(chain, &run).unwrap().value;
        let want = method.factor_marginals(&table, &run).unwrap().value;
        close(&format!("{what}: emissions"), &doubles(&got.emissions), &doubles(&want.emissions), small);
        let TransitionGradient::LowRank { left, right } = &got.transitions else { panic!("factors") };
        let [of_left, of_right] = of_factors(chain, &want);
        let pairs: usize = chain.lengths().iter().map(|length| length - 1).sum();
        close(&format!("{what}: left"), &doubles(left), &of_left, small * (1.0 + pairs as f64));
        close(&format!("{what}: right"), &doubles(right), &of_right, small * (1.0 + pairs as f64));
        let (got, want) = (method.entropy(chain, &run).unwrap(), method.entropy(&table, &run).unwrap());
        let allowed = got.diagnostics.rounding + want.diagnostics.rounding;
        close(&format!("{what}: entropy"), &got.value, &want.value, allowed);
        let (got, want) = (method.kl(chain, &table, &run).unwrap(), method.kl(&table, chain, &run).unwrap());
        let none = vec![0.0; chain.batch()];
        close(&format!("{what}: KL"), &got.value, &none, got.diagnostics.rounding);
        close(&format!("{what}: KL of the table"), &want.value, &none, want.diagnostics.rounding);
        let (got, want) = (method.map(chain, &run).unwrap(), method.map(&table, &run).unwrap());
        let scores = |paths: &[zhat::query::Path]| paths.iter().map(|path| path.score).collect::<Vec<f64>>();
        let allowed = got.diagnostics.rounding + want.diagnostics.rounding;
        close(&format!("{what}: best"), &scores(&got.value), &scores(&want.value), allowed);
        let (got, want) = (method.k_best(chain, 3, &run).unwrap(), method.k_best(&table, 3, &run).unwrap());
        for (got, want) in got.value.iter().zip(&want.value) {
            close(&format!("{what}: k best"), &scores(got), &scores(want), allowed);
        }
    }
}

fn random<F: Real>(states: usize, rank: usize, strength: f64, zeros: f64, seed: u64) -> Chain<F> {
    let transitions = TransitionForm::LowRank { rank };
    let shape = ChainShape { states, steps: 6, batch: 3, ragged: true, transitions, strength, zeros };
    generate::chain(&shape, seed).unwrap()
}

#[test]
fn every_answer_is_that_of_the_table() {
    for (k, (states, rank)) in [(1, 1), (2, 5), (37, 3), (70, 40), (130, 1)].into_iter().enumerate() {
        for (strength, zeros) in [(1.0, 0.0), (1.0, 0.75), (30.0, 0.0), (3e3, 0.4)] {
            let what = format!("{states} states, rank {rank}, strength {strength}, zeros {zeros}");
            agrees::<f64>(&random(states, rank, strength, zeros, k as u64), &what);
            if strength < 100.0 {
                agrees::<f32>(&random(states, rank, strength, zeros, 9 + k as u64), &what);
            }
        }
    }
}

/// Factors that cancel, columns that lead nowhere and states without a way out.
#[test]
fn nothing_finite_is_lost_between_huge_factors() {
    let none = f64::NEG_INFINITY;
    let left = vec![1e4, -1e4, 9e3, -1e4, 1e4, 9e3, none, 5.0, 9e3, 0.0, none, none];
    let right = vec![-1e4, 1e4, none, 1e4, -1e4, none, 0.0, 0.0, none, none, 3.0, none];
    let transitions = Transitions::LowRank { left: left.into(), right: right.into() };
    let emissions = (0..20).map(|k| f64::from(k * 7 % 5) * 1e3).collect::<Vec<f64>>();
    let chain = Chain::crf(4, emissions.into(), vec![5], transitions).unwrap();
    agrees(&chain, "huge factors");
}

#[test]
fn samples_follow_the_marginals() {
    let chain: Chain<f64> = random(9, 3, 1.0, 0.3, 4);
    let run = Run::default().with_seed(5);
    let (method, count) = (ForwardBackward::default(), 40_000);
    let marginals = method.marginals(&chain, &run).unwrap().value;
    let samples = method.sample(&chain, count, &run).unwrap().value;
    for (b, drawn) in samples.samples.iter().enumerate() {
        for t in 0..chain.lengths()[b] {
            for (i, &p) in marginals.at(b, t).iter().enumerate() {
                let found = drawn.iter().filter(|path| path[t] == i).count() as f64;
                // Six standard deviations: a false alarm once in 10⁷ tests of this kind.
                let deviation = (count as f64 * p * (1.0 - p)).sqrt();
                assert!((found - count as f64 * p).abs() <= 6.0 * deviation + 1e-9, "{b} {t} {i}");
            }
        }
    }
}

#[test]
fn evidence_and_files_keep_the_factors() {
    let chain: Chain<f32> = random(5, 2, 1.0, 0.2, 3);
    let known = chain.condition(&[Observed { sequence: 0, position: 2, state: 1 }]).unwrap();
    assert_eq!(known.transitions(), chain.transitions());
    let model = Model::from(chain);
    let given = Evidence::Position(Observed { sequence: 0, position: 2, state: 1 });
    assert_eq!(model.condition(&[given]).unwrap(), Model::from(known));
    let bytes = zhat::io::model_file::to_bytes(&model);
    assert_eq!(zhat::io::model_file::parse(&bytes, "m").unwrap(), model);
}

#[test]
fn factors_that_do_not_fit_are_refused_by_name() {
    let refused = |left: Vec<f64>, right: Vec<f64>| {
        let transitions = Transitions::LowRank { left: left.into(), right: right.into() };
        match Chain::crf(2, vec![0.0; 4].into(), vec![2], transitions) {
            Err(Error::Model(message)) => message,
            other => panic!("{other:?}"),
        }
    };
    assert!(refused(vec![0.0; 3], vec![0.0; 3]).contains("log_left: 3 numbers are not N × R"));
    assert!(refused(vec![], vec![]).contains("log_left"));
    assert!(refused(vec![0.0; 4], vec![0.0; 2]).contains("log_right"));
    assert!(refused(vec![0.0, f64::NAN], vec![0.0; 2]).contains("log_left: number 1 is NaN"));
    assert!(refused(vec![0.0; 2], vec![f64::INFINITY, 0.0]).contains("log_right: number 0 is inf"));
    assert!(refused(vec![1e305; 2], vec![0.0; 2]).contains("too large"));
}

/// The bits do not depend on the number of threads, also with more states than a block has.
#[test]
fn answers_have_the_same_bits_for_all_threads() {
    let mut random = Streams::new(3, "low-rank tests").block(0);
    let (states, rank) = (9000, 3);
    let mut numbers = |count: usize| (0..count).map(|_| random.normal() as f32).collect::<Vec<f32>>();
    let (left, right) = (numbers(states * rank).into(), numbers(states * rank).into());
    let transitions = Transitions::LowRank { left, right };
    let chain = Chain::crf(states, numbers(4 * states).into(), vec![4], transitions).unwrap();
    let answers = |threads: usize| {
        let (method, run) = (ForwardBackward::default(), Run::default().with_threads(threads));
        let gradient = method.factor_marginals(&chain, &run).unwrap().value;
        let samples = method.sample(&chain, 20, &run).unwrap().value;
        (method.log_partition(&chain, &run).unwrap().value, gradient, samples)
    };
    let one = answers(1);
    assert_eq!(one, answers(2));
    assert_eq!(one, answers(3));
}

/// A mean of 1 with a false-alarm rate of 2·10⁻⁹.
fn assert_mean_one(what: &str, ratios: &[f64]) {
    let n = ratios.len() as f64;
    let mean = ratios.iter().sum::<f64>() / n;
    let variance = ratios.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let z = (mean - 1.0) / (variance / n).sqrt().max(1e-12);
    assert!(z.abs() < 6.0, "{what}: mean {mean}, z = {z}");
}

/// The estimates of many replicates with several first passes, relative to Z.
fn ratios<M: SequenceModel>(model: &M, method: &RandomizedForward, log_z: f64) -> Vec<f64> {
    let of = |seed: u64| {
        let choice = method.choose(model, &Run::default().with_seed(seed)).unwrap();
        choice.log_estimates(0).iter().map(|log| (log - log_z).exp()).collect::<Vec<f64>>()
    };
    (0..20).flat_map(of).collect()
}

#[test]
fn randomized_estimates_are_unbiased_with_and_without_zeros() {
    for (k, zeros) in [0.0, 0.75].into_iter().enumerate() {
        let transitions = TransitionForm::LowRank { rank: 3 };
        let shape =
            ChainShape { states: 9, steps: 4, batch: 1, ragged: false, transitions, strength: 1.0, zeros };
        // The first chain with many paths; 75% zeros leave a single path in some.
        let usable = |seed: u64| {
            let chain: Chain<f64> = generate::chain(&shape, seed).unwrap();
            (ForwardBackward::default().entropy(&chain, &Run::default()).unwrap().value[0] > 1.0)
                .then_some(chain)
        };
        let chain = (0..200).find_map(usable).unwrap();
        let with_segments = |seed: u64| {
            let mut random = Streams::new(seed, "low-rank segments").block(k as u64);
            let mut score =
                || if random.uniform() < zeros / 2.0 { f64::NEG_INFINITY } else { random.normal() };
            let scores: Vec<f64> = (0..2 * 9).map(|_| score()).collect();
            let semi = SemiMarkov::new(chain.clone(), Segments::Lengths(scores.into()), 2).unwrap();
            let entropy = ForwardBackward::default().entropy(&semi, &Run::default());
            entropy.is_ok_and(|found| found.value[0] > 0.7).then_some(semi)
        };
        let semi = (0..200).find_map(with_segments).unwrap();
        let (of_chain, of_semi) = (Listed::log_partition(&chain, 0), Listed::log_partition(&semi, 0));
        assert!(of_chain > f64::NEG_INFINITY && of_semi > f64::NEG_INFINITY);
        for proposal in
            [StateProposal::Uniform, StateProposal::Local, StateProposal::Forward, StateProposal::TwoPass]
        {
            for selection in [Selection::Threshold, Selection::Draws] {
                let method = RandomizedForward::default()
                    .states(States::Count(3))
                    .proposal(proposal)
                    .selection(selection)
                    .top(Some(1))
                    .replicates(200);
                let what = format!("{zeros} {proposal:?} {selection:?}");
                assert_mean_one(&format!("chain {what}"), &ratios(&chain, &method, of_chain));
                assert_mean_one(&format!("semi-Markov {what}"), &ratios(&semi, &method, of_semi));
            }
        }
    }
}
