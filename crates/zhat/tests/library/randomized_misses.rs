//! Estimates of zero: results of randomized methods when every replicate misses all states of positive
//! weight.

use serde_json::json;

use crate::support::sequences::Listed;
use crate::support::statistics::bernstein_radius;
use zhat::catalogue::{Choice, Settings, answer};
use zhat::model::{Chain, Hypertree, PairwiseGraph, Rule, Rules, Segments, SemiMarkov, Symbols, Transitions};
use zhat::query::AnyAnswer;
use zhat::{Error, Model, Query, Result, Run};

const STATES: usize = 6;
const STEPS: usize = 3;
const NEVER: f64 = f64::NEG_INFINITY;

/// Only i → i is possible, so a path has a positive weight only if its state is kept at every position.
fn loyal() -> Transitions<f64> {
    let entry = |k: usize| if k / STATES == k % STATES { 0.0 } else { NEVER };
    Transitions::Shared((0..STATES * STATES).map(entry).collect::<Vec<f64>>().into())
}

fn scores(count: usize) -> Vec<f64> {
    (0..count).map(|k| ((7 * k) % 5) as f64 / 5.0).collect()
}

fn chain(batch: usize) -> Chain {
    Chain::crf(STATES, scores(batch * STEPS * STATES).into(), vec![STEPS; batch], loyal()).unwrap()
}

fn semi_markov(batch: usize) -> SemiMarkov {
    let segments = Segments::Lengths(vec![0.0; 2 * STATES].into());
    SemiMarkov::new(chain(batch), segments, 2).unwrap()
}

fn graph() -> PairwiseGraph {
    PairwiseGraph::new(STATES, scores(STEPS * STATES).into(), vec![(0, 1), (1, 2)], loyal()).unwrap()
}

/// Binary trees over two words with the rules k → k k only, and log Z of each sentence.
fn parses(batch: usize) -> (Hypertree, Vec<f64>) {
    let rules: Vec<Rule> = (0..STATES).map(|k| Rule { head: k, left: k, right: k }).collect();
    let rules = Rules::sparse(rules, &[0.0; STATES]).unwrap();
    let words = scores(batch * 2 * STATES);
    let of = |b: usize| -> f64 {
        let word = |i: usize, k: usize| words[(2 * b + i) * STATES + k];
        (0..STATES).map(|k| (word(0, k) + word(1, k)).exp()).sum::<f64>().ln()
    };
    let log_z = (0..batch).map(of).collect();
    (Hypertree::new(Symbols::same(STATES), words.into(), vec![2; batch], rules).unwrap(), log_z)
}

fn ask(model: &Model, query: Query, states: usize, seed: u64) -> Result<AnyAnswer> {
    let method = match model.kind().name() {
        "pairwise-graph" => "randomized-bp",
        "hypertree" => "randomized-inside",
        _ => "randomized",
    };
    let settings: Settings =
        [("proposal", json!("uniform")), ("states", json!(states)), ("replicates", json!(1))]
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
    answer(model, query, &Choice::parse(method), &settings, &Run::default().with_threads(1).with_seed(seed))
}

fn numbers(answer: &AnyAnswer) -> Vec<f64> {
    answer.numbers().unwrap().to_vec()
}

fn warning(answer: &AnyAnswer) -> Option<String> {
    answer.diagnostics.warning().map(str::to_owned)
}

/// Checks that the mean of Ẑ/Z over seeds is 1, misses included.
fn check(model: Model, log_z: &[f64]) {
    const SEEDS: u64 = 3000;
    let mut sums = vec![0.0; log_z.len()];
    let mut misses = 0;
    for seed in 0..SEEDS {
        let answer = ask(&model, Query::LogPartition, 2, seed).unwrap();
        let values = numbers(&answer);
        let missed = values.contains(&NEVER);
        assert_eq!(warning(&answer).is_some(), missed, "{values:?}");
        misses += u64::from(missed);
        sums.iter_mut()
            .zip(&values)
            .zip(log_z)
            .for_each(|((sum, value), log_z)| *sum += (value - log_z).exp());
        if values.iter().all(|value| *value == NEVER) {
            for query in [Query::Marginals, Query::FactorMarginals, Query::Entropy] {
                assert!(matches!(ask(&model, query, 2, seed), Err(Error::NoAnswer(_))), "{}", query.name());
            }
        }
    }
    assert!(misses > SEEDS / 4, "{misses}");
    // A weight is at most N/K = 3 at each position, so Ẑ ≤ 27·Z and its second moment is at most 27·Z².
    let most = 3f64.powi(STEPS as i32);
    let radius = bernstein_radius(SEEDS as f64, most - 1.0, most, 1e-6);
    for sum in sums {
        let mean = sum / SEEDS as f64;
        assert!((mean - 1.0).abs() < radius, "mean {mean}, radius {radius}");
    }
}

#[test]
fn estimates_of_zero_keep_the_mean_over_seeds_unbiased() {
    let log_z = |model: &dyn Fn(usize) -> f64, batch: usize| (0..batch).map(model).collect::<Vec<f64>>();
    for batch in [1, 3] {
        let (chain, semi) = (chain(batch), semi_markov(batch));
        check(chain.clone().into(), &log_z(&|b| Listed::log_partition(&chain, b), batch));
        check(semi.clone().into(), &log_z(&|b| Listed::log_partition(&semi, b), batch));
        let (parses, log_z) = parses(batch);
        check(parses.into(), &log_z);
    }
    let (nodes, mut z) = (scores(STEPS * STATES), 0.0);
    for state in 0..STATES {
        z += (0..STEPS).map(|v| nodes[v * STATES + state]).sum::<f64>().exp();
    }
    check(graph().into(), &[z.ln()]);
}

#[test]
fn a_batch_names_the_items_that_were_missed() {
    named(&chain(3).into(), "sequence");
    named(&parses(3).0.into(), "sentence");
}

fn named(model: &Model, item: &str) {
    let mut seen = 0;
    for seed in 0..200 {
        let answer = ask(model, Query::LogPartition, 2, seed).unwrap();
        let missed: Vec<usize> = numbers(&answer)
            .iter()
            .enumerate()
            .filter(|(_, value)| **value == NEVER)
            .map(|(b, _)| b)
            .collect();
        let text = warning(&answer).unwrap_or_default();
        let places = match missed.as_slice() {
            [] => continue,
            [one] => format!(" of {item} {one},"),
            [one, two] => format!(" of {item}s {one} and {two},"),
            _ => format!(" of {item}s 0, 1 and 2,"),
        };
        assert!(text.contains(&places), "{text}: {missed:?}");
        seen += 1;
    }
    assert!(seen > 10);
}

#[test]
fn a_model_of_weight_zero_is_an_error_once_all_states_are_kept() {
    let nothing = |count: usize| vec![NEVER; count].into();
    let chain = Chain::crf(STATES, nothing(STEPS * STATES), vec![STEPS], loyal()).unwrap();
    let semi = SemiMarkov::new(chain.clone(), Segments::Lengths(vec![0.0; 2 * STATES].into()), 2).unwrap();
    let graph = PairwiseGraph::new(STATES, nothing(STEPS * STATES), vec![(0, 1), (1, 2)], loyal()).unwrap();
    for model in [chain.into(), semi.into(), Model::from(graph)] {
        let proved = ask(&model, Query::LogPartition, STATES, 0);
        assert!(matches!(proved, Err(Error::ZeroPartition)), "{proved:?}");
        let missed = ask(&model, Query::LogPartition, 2, 0).unwrap();
        assert_eq!((numbers(&missed), warning(&missed).is_some()), (vec![NEVER], true));
    }
}
