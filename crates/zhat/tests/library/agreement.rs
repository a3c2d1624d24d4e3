//! The exact methods against plain loops over all states.

use std::collections::HashMap;

use crate::support::oracle::Oracle;
use crate::support::statistics::{ALARM, multinomial_tail};
use crate::support::{Method, exact_methods};
use zhat::random::Streams;
use zhat::{Beliefs, Error, FactorGraph, Guarantee, Law, Result, Run};

/// Probabilities below this may be flushed to 0: `exp` has no subnormal results.
const TINY: f64 = 1e-300;

/// Compares the results of `method` with the oracle.
///
/// A probability is a quotient of two sums, both accurate to their allowance in the log domain, so its
/// relative error is at most twice the allowance. −Σ p·ln p has this error for p and the allowance once more
/// for ln p.
fn compare(name: &str, method: &dyn Method, given: &FactorGraph, oracle: &Oracle<'_>, run: &Run) {
    let z = method.log_partition(given, run).unwrap();
    assert_eq!(z.guarantee, Guarantee::Exact);
    let allowance = z.diagnostics.rounding + oracle.allowance();
    let want = oracle.log_partition();
    assert!((z.value - want).abs() <= allowance, "{name}: log Z = {}, want {want} ± {allowance:e}", z.value);

    let entropy = method.entropy(given, run).unwrap().value;
    let want = oracle.entropy();
    assert!(
        (entropy - want).abs() <= (1.0 + 2.0 * want) * allowance,
        "{name}: H = {entropy}, want {want} ± {allowance:e}"
    );

    let beliefs = method.marginals(given, run).unwrap().value;
    assert_eq!(beliefs.len(), given.variable_count(), "{name}");
    for (v, (got, want)) in beliefs.iter().zip(oracle.marginals()).enumerate() {
        assert_eq!(got.len(), want.len(), "{name}");
        assert!((got.iter().sum::<f64>() - 1.0).abs() < 1e-14, "{name}: variable {v} sums to one");
        for (p, q) in got.iter().zip(&want) {
            assert!(
                (p - q).abs() <= 2.0 * allowance * q + TINY,
                "{name}: variable {v} has {got:?}, want {want:?}"
            );
        }
    }

    let tables = method.factors().map(|method| method.factor_marginals(given, run).unwrap().value);
    assert!(tables.as_ref().is_none_or(|tables| tables.len() == given.factor_count()), "{name}");
    let tables = tables.iter().flat_map(|tables| tables.iter());
    for (f, (got, want)) in tables.zip(oracle.factor_marginals(given)).enumerate() {
        assert_eq!(got.len(), want.len(), "{name}");
        assert!((got.iter().sum::<f64>() - 1.0).abs() < 1e-14, "{name}: factor {f} sums to one");
        for (p, q) in got.iter().zip(&want) {
            assert!(
                (p - q).abs() <= 2.0 * allowance * q + TINY,
                "{name}: factor {f} has {got:?}, want {want:?}"
            );
        }
        hold_together(name, given, f, got, &beliefs);
    }

    let best = method.map(given, run).unwrap();
    assert_eq!(best.value.score, given.score(&best.value.state), "{name}: the score is the state's");
    let want = oracle.best();
    let allowance = best.diagnostics.rounding + oracle.allowance();
    assert!((best.value.score - want).abs() <= allowance, "{name}: best {}, want {want}", best.value.score);
}

/// Asserts that the marginals of a factor's table agree with those of its variables.
fn hold_together(name: &str, graph: &FactorGraph, f: usize, table: &[f64], beliefs: &Beliefs) {
    let mut stride = 1;
    for &v in graph.factor(f).scope.iter().rev() {
        let states = graph.cardinalities()[v];
        let mut sums = vec![0.0; states];
        table.iter().enumerate().for_each(|(i, p)| sums[i / stride % states] += p);
        for (sum, p) in sums.iter().zip(beliefs.variable(v)) {
            assert!((sum - p).abs() <= 1e-9, "{name}: factor {f}, variable {v}: {sum} and {p}");
        }
        stride *= states;
    }
}

#[test]
fn exact_methods_agree_with_plain_loops() {
    let run = Run::default();
    for (name, graph) in crate::support::small_models(210).into_iter().chain(crate::support::wide_models(4)) {
        let oracle = Oracle::new(&graph);
        for (method, exact) in exact_methods() {
            compare(&format!("{method}, {name}"), &*exact, &graph, &oracle, &run);
        }
    }
}

/// Evidence about a random choice of variables.
fn random_evidence(graph: &FactorGraph, seed: u64) -> Vec<(usize, usize)> {
    let mut random = Streams::new(seed, "random evidence").block(0);
    let mut variables: Vec<usize> = (0..graph.variable_count()).collect();
    random.shuffle(&mut variables);
    variables.truncate(random.below(variables.len() + 1));
    variables.into_iter().map(|v| (v, random.below(graph.cardinalities()[v]))).collect()
}

#[test]
fn conditioning_keeps_exactly_the_states_that_agree_with_the_evidence() {
    let run = Run::default();
    let (mut possible, mut impossible) = (0, 0);
    for (seed, (name, graph)) in crate::support::small_models(140).into_iter().enumerate() {
        let evidence = random_evidence(&graph, seed as u64);
        // Conditioning in two steps is the same as in one.
        let (first, second) = evidence.split_at(seed % (evidence.len() + 1));
        let given = graph.condition(first).unwrap().condition(second).unwrap();
        let mut sorted = evidence.clone();
        sorted.sort_unstable();
        assert_eq!(given.evidence(), sorted, "{name}: the evidence is remembered");
        assert_eq!(given.cardinalities(), graph.cardinalities(), "{name}: the variables stay");
        let oracle = Oracle::given(&graph, &evidence);
        for (method, exact) in exact_methods() {
            let name = format!("{method}, {name} given {evidence:?}");
            if oracle.is_zero() {
                impossible += 1;
                for error in every_error(&*exact, &given, &run) {
                    assert!(matches!(error, Some(Error::ImpossibleEvidence { .. })), "{name}: {error:?}");
                }
                continue;
            }
            possible += 1;
            compare(&name, &*exact, &given, &oracle, &run);
            let beliefs = exact.marginals(&given, &run).unwrap().value;
            for &(v, s) in &evidence {
                let one_hot = |i| if i == s { 1.0 } else { 0.0 };
                assert!(beliefs.variable(v).iter().enumerate().all(|(i, &p)| p == one_hot(i)), "{name}");
            }
            if let Some(exact) = exact.factors() {
                let tables = exact.factor_marginals(&given, &run).unwrap().value;
                for (f, factor) in given.factors().enumerate().skip(graph.factor_count()) {
                    assert_eq!(tables.factor(f), beliefs.variable(factor.scope[0]), "{name}");
                }
            }
            let samples = exact.sample(&given, 20, &run).unwrap().value;
            assert!(samples.iter().all(|state| evidence.iter().all(|&(v, s)| state[v] == s)), "{name}");
        }
    }
    assert!(possible > 100 && impossible > 10, "{possible} possible, {impossible} impossible");
}

/// The error of each query, if any.
fn every_error(method: &dyn Method, graph: &FactorGraph, run: &Run) -> Vec<Option<Error>> {
    let factors = method.factors().map(|method| method.factor_marginals(graph, run).err());
    let mut errors = vec![
        method.log_partition(graph, run).err(),
        method.marginals(graph, run).err(),
        method.entropy(graph, run).err(),
        method.map(graph, run).err(),
        method.sample(graph, 3, run).err(),
    ];
    errors.extend(factors);
    errors
}

#[test]
fn a_zero_partition_is_an_error_for_every_query() {
    let run = Run::default();
    for (name, graph) in crate::support::zero_models() {
        assert!(Oracle::new(&graph).is_zero());
        for (method, exact) in exact_methods() {
            for error in every_error(&*exact, &graph, &run) {
                assert!(matches!(error, Some(Error::ZeroPartition)), "{method}, {name}: {error:?}");
            }
            let given = graph.condition(&[(0, 1)]).unwrap();
            for error in every_error(&*exact, &given, &run) {
                assert!(
                    matches!(error, Some(Error::ImpossibleEvidence { .. })),
                    "{method}, {name}: {error:?}"
                );
            }
        }
    }
}

/// Counts how often each of the oracle's states was drawn.
fn count<'a>(oracle: &Oracle<'_>, drawn: impl Iterator<Item = &'a [usize]>) -> Vec<u64> {
    let index: HashMap<&[usize], usize> =
        oracle.states.iter().enumerate().map(|(i, state)| (state.as_slice(), i)).collect();
    let mut counts = vec![0; oracle.states.len()];
    drawn.for_each(|state| counts[index[state]] += 1);
    counts
}

#[test]
fn samples_follow_the_model() {
    let run = Run::default().with_seed(11);
    for (name, graph) in crate::support::small_models(14) {
        let oracle = Oracle::new(&graph);
        for (method, exact) in exact_methods() {
            let samples = exact.sample(&graph, 50_000, &run).unwrap().value;
            assert_eq!((samples.len(), &samples.law), (50_000, &Law::Exact));
            let p = multinomial_tail(&count(&oracle, samples.iter()), &oracle.probabilities());
            assert!(p > ALARM, "{method}, {name}: p-value at most {p:e}");
        }
    }
}

#[test]
fn samples_are_independent() {
    let mut graph = FactorGraph::new(vec![2, 3]).unwrap();
    graph.add_factor(&[1, 0], &[0.3, -1.0, 0.0, 1.2, f64::NEG_INFINITY, 0.7]).unwrap();
    let oracle = Oracle::new(&graph);
    let p = oracle.probabilities();
    let pairs: Vec<f64> = p.iter().flat_map(|first| p.iter().map(move |second| first * second)).collect();
    for (method, exact) in exact_methods() {
        let samples = exact.sample(&graph, 100_000, &Run::default().with_seed(3)).unwrap().value;
        let drawn: Vec<usize> = samples
            .iter()
            .map(|drawn| oracle.states.iter().position(|state| state == drawn).unwrap())
            .collect();
        // Pairs of neighbouring samples and of distant samples, because each block of samples has its own
        // random stream.
        for distance in [1, 256, 25_000] {
            let mut counts = vec![0; pairs.len()];
            for chunk in drawn.chunks_exact(2 * distance) {
                let (first, second) = chunk.split_at(distance);
                first.iter().zip(second).for_each(|(i, j)| counts[i * p.len() + j] += 1);
            }
            let tail = multinomial_tail(&counts, &pairs);
            assert!(tail > ALARM, "{method}, distance {distance}: p-value at most {tail:e}");
        }
    }
}

#[test]
fn zero_samples_are_allowed() -> Result<()> {
    for (name, graph) in crate::support::small_models(7) {
        for (_, exact) in exact_methods() {
            let samples = exact.sample(&graph, 0, &Run::default())?.value;
            assert!(samples.is_empty() && samples.variables() == graph.variable_count(), "{name}");
        }
    }
    Ok(())
}
