//! Sparse transitions and transitions per sequence: every answer agrees with that of the chain that has the same
//! transitions in dense tables.

use zhat::dynamic::{ForwardBackward, RandomizedForward, States};
use zhat::model::generate::{self, ChainShape, TransitionForm};
use zhat::model::{Chain, Observed, Pattern, Transitions};
use zhat::query::{ChainGradient, TransitionGradient};
use zhat::query::{
    Differentiable, Divergence, Entropy, FactorMarginals, KBest, Map, Marginals, Operation, Sample,
};
use zhat::random::Streams;
use zhat::{Error, LogPartition, Model, Real, Run};

use crate::support::sequences::{close, methods, pattern};

/// The chain with the same transitions in a table for each step.
fn dense<F: Real>(chain: &Chain<F>) -> Chain<F> {
    let (n, tables) = (chain.states(), chain.steps() - 1);
    let score = |at: usize| chain.transitions().score(n, at / (n * n), at / n % n, at % n);
    let values: Vec<F> = (0..tables * n * n).map(|at| F::from_f64(score(at))).collect();
    let (start, emissions) = (chain.start().to_vec(), chain.emissions().to_vec());
    let transitions = Transitions::PerStep(values.into());
    Chain::new(start.into(), emissions.into(), chain.lengths().to_vec(), transitions).unwrap()
}

fn doubles<F: Real>(values: &[F]) -> Vec<f64> {
    values.iter().map(|x| x.to_f64()).collect()
}

/// The gradient with respect to the entries, from the one with respect to dense tables.
fn of_entries<F: Real>(chain: &Chain<F>, gradient: &ChainGradient<F>) -> Vec<f64> {
    let Transitions::Sparse { pattern, values, per_step } = chain.transitions() else { panic!("sparse") };
    let TransitionGradient::PerStep(tables) = &gradient.transitions else { panic!("tables") };
    let n = chain.states();
    let mut entries = vec![0.0; values.len()];
    for (at, x) in tables.iter().enumerate() {
        let (t, i, j) = (at / (n * n), at / n % n, at % n);
        match pattern.entry(i, j) {
            Some(e) => entries[if *per_step { t * pattern.len() + e } else { e }] += x.to_f64(),
            None => assert_eq!(x.to_f64(), 0.0),
        }
    }
    entries
}

fn agrees<F: Real>(chain: &Chain<F>, what: &str) {
    let table = dense(chain);
    let run = Run::default();
    for method in methods() {
        let got = method.log_partition(chain, &run).unwrap();
        let want = method.log_partition(&table, &run).unwrap();
        let allowed = got.diagnostics.rounding + want.diagnostics.rounding;
        close(&format!("{what}: log Z"), &got.value, &want.value, allowed);
        let small = 1e3 * allowed + 1e3 * F::EPSILON.to_f64();
        let got = method.marginals(chain, &run).unwrap().value.values;
        let want = method.marginals(&table, &run).unwrap().value.values;
        close(&format!("{what}: marginals"), &doubles(&got), &doubles(&want), small);
        let got = method.factor_marginals(chain, &run).unwrap().value;
        let want = method.factor_marginals(&table, &run).unwrap().value;
        let TransitionGradient::Sparse { values, .. } = &got.transitions else { panic!("sparse") };
        close(&format!("{what}: counts"), &doubles(values), &of_entries(chain, &want), small);
        for operation in [Operation::Entropy, Operation::Kl, Operation::CrossEntropy] {
            // With a form on either side.
            let pairs = [[chain, chain], [chain, &table], [&table, chain]];
            let results = pairs.map(|pair| {
                let models = if operation == Operation::Entropy { &pair[..1] } else { &pair[..] };
                method.differentiate(operation, models, &run).unwrap()
            });
            let want = match operation {
                Operation::Entropy => method.entropy(&table, &run).unwrap().value,
                Operation::Kl => method.kl(&table, &table, &run).unwrap().value,
                _ => method.cross_entropy(&table, &table, &run).unwrap().value,
            };
            for (value, tape) in results {
                close(&format!("{what}: {operation:?}"), &value, &want, 10.0 * small);
                tape.vjp(&vec![1.0; chain.batch()]).unwrap();
            }
        }
    }
    let method = ForwardBackward::default();
    let best = method.map(chain, &run).unwrap().value;
    for (one, other) in best.iter().zip(method.map(&table, &run).unwrap().value) {
        assert!(one.score == other.score || (one.score - other.score).abs() <= 1e-3, "{what}");
    }
    let ranked = method.k_best(chain, 5, &run).unwrap().value;
    for (ours, theirs) in ranked.iter().zip(method.k_best(&table, 5, &run).unwrap().value) {
        let scores = |paths: &[zhat::query::Path]| paths.iter().map(|path| path.score).collect::<Vec<f64>>();
        close(&format!("{what}: k best"), &scores(ours), &scores(&theirs), 1e-3);
    }
    let drawn = method.sample(chain, 20, &run).unwrap().value;
    for (b, samples) in drawn.samples.iter().enumerate() {
        assert!(samples.iter().all(|path| chain.score(b, path) > f64::NEG_INFINITY));
    }
}

fn shape(states: usize, transitions: TransitionForm, strength: f64, zeros: f64) -> ChainShape {
    ChainShape { states, steps: 7, batch: 3, ragged: true, transitions, strength, zeros }
}

#[test]
fn sparse_and_banded_chains_agree_with_tables() {
    for (k, &(states, strength, zeros)) in
        [(1, 1.0, 0.0), (30, 1.0, 0.0), (30, 2.0, 0.4), (20, 300.0, 0.2)].iter().enumerate()
    {
        for transitions in [
            TransitionForm::Sparse { entries: 3, per_step: false },
            TransitionForm::Sparse { entries: 4, per_step: true },
            TransitionForm::Banded { lower: 0, upper: 2 },
        ] {
            let shape = shape(states, transitions, strength, zeros);
            // A band does not return to the first state, so its guaranteed path may end.
            let Ok(chain) = generate::chain::<f64>(&shape, k as u64) else { panic!("{shape:?}") };
            if ForwardBackward::default().log_partition(&chain, &Run::default()).is_err() {
                continue;
            }
            agrees(&chain, &format!("{shape:?}"));
            if strength < 100.0 {
                agrees(&generate::chain::<f32>(&shape, k as u64).unwrap(), &format!("{shape:?}, single"));
            }
        }
    }
}

/// Left to right from a single state: most products are zero at first.
#[test]
fn unreached_states_cost_nothing_and_keep_their_zeros() {
    let states = 40_000;
    let transitions = Transitions::banded(states, 0, 1, &vec![-0.5; 2 * states]).unwrap();
    let mut start = vec![f64::NEG_INFINITY; states];
    start[0] = 0.0;
    let chain = Chain::new(start.into(), vec![0.0; 6 * states].into(), vec![6], transitions).unwrap();
    let run = Run::default();
    let method = ForwardBackward::default();
    // 2⁵ paths of score −2.5.
    let log_z = method.log_partition(&chain, &run).unwrap().value[0];
    assert!((log_z - (32f64.ln() - 2.5)).abs() < 1e-12);
    let gradient = method.factor_marginals(&chain, &run).unwrap().value;
    assert!(gradient.emissions[5 * states + 6..].iter().all(|x| *x == 0.0));
    assert!((gradient.emissions[5 * states] - 1.0 / 32.0).abs() < 1e-12);
    assert!((method.entropy(&chain, &run).unwrap().value[0] - 32f64.ln()).abs() < 1e-10);
    assert_eq!(method.k_best(&chain, 40, &run).unwrap().value[0].len(), 32);
    assert!(method.kl(&chain, &chain, &run).unwrap().value[0].abs() < 1e-10);
    let known = chain.condition(&[Observed { sequence: 0, position: 5, state: 5 }]).unwrap();
    assert!((method.log_partition(&known, &run).unwrap().value[0] + 2.5).abs() < 1e-12);
    let never = chain.condition(&[Observed { sequence: 0, position: 5, state: 6 }]).unwrap();
    assert!(matches!(method.log_partition(&never, &run), Err(Error::ZeroPartition)));
}

#[test]
fn the_bits_do_not_depend_on_the_threads() {
    let transitions = TransitionForm::Sparse { entries: 20, per_step: false };
    let shape = ChainShape { states: 60_000, steps: 3, transitions, ..Default::default() };
    let chain = generate::chain::<f32>(&shape, 4).unwrap();
    let result = |threads| {
        let run = Run::default().with_threads(threads);
        let ones = vec![1.0; chain.batch()];
        let method = ForwardBackward::default();
        method.value_and_gradients(Operation::LogPartition, &[&chain], &ones, &run).unwrap()
    };
    assert!(result(1) == result(2));
}

#[test]
fn sequences_with_their_own_tables_are_answered_as_chains_of_their_own() {
    let shape = shape(5, TransitionForm::PerSequence, 1.0, 0.2);
    let chain = generate::chain::<f64>(&shape, 7).unwrap();
    let Transitions::PerSequence(tables) = chain.transitions() else { panic!("tables") };
    let (run, method) = (Run::default(), ForwardBackward::default());
    let all = method.log_partition(&chain, &run).unwrap().value;
    let gradient = method.factor_marginals(&chain, &run).unwrap().value;
    let TransitionGradient::PerSequence(counts) = &gradient.transitions else { panic!("tables") };
    for b in 0..3 {
        let (size, nodes) = (tables.len() / 3, 7 * 5);
        let own = Transitions::PerStep(tables[b * size..(b + 1) * size].to_vec().into());
        let emissions = chain.emissions()[b * nodes..(b + 1) * nodes].to_vec();
        let alone =
            Chain::new(chain.start().to_vec().into(), emissions.into(), vec![chain.lengths()[b]], own)
                .unwrap();
        close("log Z", &all[b..=b], &method.log_partition(&alone, &run).unwrap().value, 1e-12);
        let alone = method.factor_marginals(&alone, &run).unwrap().value;
        let TransitionGradient::PerStep(own) = &alone.transitions else { panic!("tables") };
        close("counts", &counts[b * size..(b + 1) * size], own, 1e-12);
        close("nodes", &gradient.emissions[b * nodes..(b + 1) * nodes], &alone.emissions, 1e-12);
    }
    let refused = RandomizedForward::default().states(States::Count(2)).log_partition(&chain, &run);
    assert!(refused.unwrap_err().to_string().contains("use forward-backward"));
}

#[test]
fn scores_after_the_end_of_a_sequence_are_not_read() {
    let mut tables = vec![0.0; 2 * 2 * 4];
    tables[12..].fill(f64::NAN);
    let chain = |lengths: Vec<usize>| {
        Chain::crf(2, vec![0.0; 12].into(), lengths, Transitions::PerSequence(tables.clone().into()))
    };
    assert!(chain(vec![3, 3]).is_err());
    let run = Run::default();
    let found = ForwardBackward::default().log_partition(&chain(vec![3, 2]).unwrap(), &run).unwrap();
    close("log Z", &found.value, &[8f64.ln(), 4f64.ln()], 1e-12);
}

#[test]
fn the_summary_names_isolated_states() {
    let pattern = Pattern::new(3, vec![0, 2, 2, 3], vec![0, 1, 1]).unwrap();
    let transitions = Transitions::sparse(pattern, vec![0.0; 3].into());
    let chain: Model = Chain::crf(3, vec![0.0; 6].into(), vec![2], transitions).unwrap().into();
    let text = format!("{:?}", chain.summary());
    let warning = "no transition leads to 1 of the 3 states: 2; no transition leaves 1 of the 3 states: 1";
    assert!(text.contains(warning), "{text}");
    // All transitions lead to state 0: ten of the others are listed.
    let pattern = Pattern::new(20, (0..=20).collect(), vec![0; 20]).unwrap();
    let transitions = Transitions::sparse(pattern, vec![0.0; 20].into());
    let chain: Model = Chain::crf(20, vec![0.0; 40].into(), vec![2], transitions).unwrap().into();
    let text = format!("{:?}", chain.summary());
    assert!(text.contains("19 of the 20 states: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …"), "{text}");
}

/// Random patterns with transitions of probability 0, against sets that grow until nothing is added.
#[test]
fn the_summary_names_the_states_of_no_path() {
    let mut random = Streams::new(17, "paths of patterns").block(0);
    let (states, impossible) = (7, f64::NEG_INFINITY);
    let (mut cut, mut whole) = (0, 0);
    for case in 0..300 {
        let pattern = pattern(&mut random, states);
        let (steps, per_step) = (3, case % 2 == 0);
        let tables = if per_step { steps - 1 } else { 1 };
        let mut scores = |count: usize, share: f64| -> Vec<f64> {
            (0..count).map(|_| if random.uniform() < share { impossible } else { random.normal() }).collect()
        };
        let values = scores(tables * pattern.len(), 0.7);
        let (start, end) = (scores(states, 0.8), scores(states, 0.8));
        let starts = |state: usize| start[state] > impossible;
        let ends = |state: usize| case % 3 > 0 || end[state] > impossible;
        let open = |i: usize, j: usize| {
            let entry = pattern.entry(i, j);
            entry.is_some_and(|e| (0..tables).any(|t| values[t * pattern.len() + e] > impossible))
        };
        let (mut from, mut to): (Vec<bool>, Vec<bool>) =
            ((0..states).map(starts).collect(), (0..states).map(ends).collect());
        for _ in 0..states {
            for i in 0..states {
                for j in (0..states).filter(|&j| open(i, j)) {
                    from[j] |= from[i];
                    to[i] |= to[j];
                }
            }
        }
        let transitions =
            Transitions::Sparse { pattern: pattern.clone(), values: values.clone().into(), per_step };
        let emissions = vec![0.0; steps * states];
        let chain = Chain::new(start.clone().into(), emissions.into(), vec![steps], transitions).unwrap();
        let chain = if case % 3 > 0 { chain } else { chain.with_end(end.clone().into()).unwrap() };
        let text = format!("{:?}", Model::from(chain).summary());
        for (what, reached) in
            [("no path from the start leads to", &from), ("no path to the end leaves", &to)]
        {
            let lost: Vec<String> =
                (0..states).filter(|&state| !reached[state]).map(|state| state.to_string()).collect();
            if lost.is_empty() {
                assert!(!text.contains(what), "case {case}: {text}");
                whole += 1;
                continue;
            }
            let line = format!("{what} {} of the {states} states: {}", lost.len(), lost.join(", "));
            let found = text.find(&line).map(|at| text[at + line.len()..].chars().next());
            assert!(matches!(found, Some(Some(';' | '"'))), "case {case}: {line}: {text}");
            cut += 1;
        }
    }
    assert!(cut > 100 && whole > 100, "{cut} {whole}");
}
