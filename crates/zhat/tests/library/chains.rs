//! Exact queries on chains, against enumeration.

use crate::support::sequences::{
    FORMS, Listed, SCORES, chain, close, cross_entropy, flat, methods, sized_chain,
};
use zhat::Real;
use zhat::dynamic::ForwardBackward;
use zhat::query::{ChainGradient, Differentiable, Operation, Tape, TransitionGradient};
use zhat::random::Streams;
use zhat::{Chain, Divergence, Entropy, Error, FactorMarginals, LogPartition, Marginals, Run};

/// Calls `check` with named chains for every form of transitions, every kind of score and a few seeds, if
/// some sequence has a positive weight.
fn chains<F: Real>(seeds: u64, mut check: impl FnMut(&str, &Chain<F>)) {
    for form in FORMS {
        for scores in SCORES {
            for seed in 0..seeds {
                let chain = chain::<F>(form, scores, seed);
                if (0..chain.batch()).any(|b| chain.log_partition(b) > f64::NEG_INFINITY) {
                    check(&format!("{form}, {scores}, seed {seed}, {}", F::NAME), &chain);
                } else {
                    let error = ForwardBackward::default().log_partition(&chain, &Run::default());
                    assert!(matches!(error, Err(Error::ZeroPartition)));
                }
            }
        }
    }
}

fn log_partitions<F: Real>() {
    chains::<F>(12, |name, chain| {
        let want: Vec<f64> = (0..chain.batch()).map(|b| chain.log_partition(b)).collect();
        for method in methods() {
            let got = method.log_partition(chain, &Run::default()).unwrap();
            close(name, &got.value, &want, got.diagnostics.rounding);
            let (value, _) =
                method.differentiate(Operation::LogPartition, &[chain], &Run::default()).unwrap();
            close(name, &value, &want, got.diagnostics.rounding);
        }
    });
}

#[test]
fn log_partitions_agree_with_enumeration() {
    log_partitions::<f64>();
    log_partitions::<f32>();
}

/// P(xₜ = i) with the layout of the emissions.
fn node_marginals<F: Real>(chain: &Chain<F>) -> Vec<f64> {
    let (steps, states) = (chain.steps(), Chain::states(chain));
    let mut marginals = vec![0.0; chain.emissions().len()];
    for b in (0..chain.batch()).filter(|&b| chain.log_partition(b) > f64::NEG_INFINITY) {
        for (path, p) in Listed::states(chain, b).iter().zip(chain.probabilities(b)) {
            path.iter().enumerate().for_each(|(t, &i)| marginals[(b * steps + t) * states + i] += p);
        }
    }
    marginals
}

fn marginals<F: Real>() {
    chains::<F>(12, |name, chain| {
        let want = node_marginals(chain);
        for method in methods() {
            let got = method.marginals(chain, &Run::default()).unwrap();
            let values: Vec<f64> = got.value.values.iter().map(|x| x.to_f64()).collect();
            close(name, &values, &want, got.diagnostics.rounding);
            let counts = method.factor_marginals(chain, &Run::default()).unwrap();
            let values: Vec<f64> = counts.value.emissions.iter().map(|x| x.to_f64()).collect();
            close(name, &values, &want, counts.diagnostics.rounding);
        }
    });
}

#[test]
fn marginals_agree_with_enumeration() {
    marginals::<f64>();
    marginals::<f32>();
}

/// A cotangent with different signs.
fn cotangent(batch: usize) -> Vec<f64> {
    (0..batch).map(|b| 1.5 - b as f64).collect()
}

/// Σ c_b x_b over the sequences with a positive weight.
fn weighted(cotangent: &[f64], values: impl Fn(usize) -> f64) -> f64 {
    cotangent.iter().enumerate().map(|(b, c)| c * values(b)).filter(|x| x.is_finite()).sum()
}

/// 10⁻⁶ times the largest entry, or 10⁻⁶ if that is larger.
fn tolerance(gradient: &[f64]) -> f64 {
    1e-6 * gradient.iter().fold(1.0, |a: f64, b| a.max(b.abs()))
}

#[test]
fn gradients_of_log_z_agree_with_differences() {
    chains::<f64>(6, |name, chain| {
        let cotangent = cotangent(chain.batch());
        let want = chain.differences(|chain| weighted(&cotangent, |b| chain.log_partition(b)));
        for method in methods() {
            let (_, tape) = method.differentiate(Operation::LogPartition, &[chain], &Run::default()).unwrap();
            let got = flat(&tape.gradient(&cotangent).unwrap());
            close(name, &got, &want, tolerance(&want));
        }
    });
}

fn entropies<F: Real>() {
    chains::<F>(12, |name, chain| {
        let want: Vec<f64> = (0..chain.batch()).map(|b| some(chain, b, chain.entropy(b))).collect();
        let got = ForwardBackward::default().entropy(chain, &Run::default()).unwrap();
        close(name, &got.value, &want, got.diagnostics.rounding);
        for method in methods() {
            let (value, _) = method.differentiate(Operation::Entropy, &[chain], &Run::default()).unwrap();
            close(name, &value, &want, got.diagnostics.rounding);
        }
    });
}

/// `value`, or −∞ if the sequence has no path of positive weight.
fn some<F: Real>(chain: &Chain<F>, b: usize, value: f64) -> f64 {
    if chain.log_partition(b) == f64::NEG_INFINITY { f64::NEG_INFINITY } else { value }
}

#[test]
fn entropies_agree_with_enumeration() {
    entropies::<f64>();
    entropies::<f32>();
}

#[test]
fn gradients_of_entropy_agree_with_differences() {
    chains::<f64>(6, |name, chain| {
        let cotangent = cotangent(chain.batch());
        let want = chain.differences(|chain| weighted(&cotangent, |b| some(chain, b, chain.entropy(b))));
        for method in methods() {
            let (_, tape) = method.differentiate(Operation::Entropy, &[chain], &Run::default()).unwrap();
            let got = flat(&tape.gradient(&cotangent).unwrap());
            close(name, &got, &want, tolerance(&want));
        }
    });
}

/// Pairs of chains of the same shape; sometimes q gives weight zero to paths of p.
pub fn pairs<F: Real>(seeds: u64, mut check: impl FnMut(&str, &Chain<F>, &Chain<F>)) {
    for (form, other) in FORMS.iter().flat_map(|form| FORMS.map(|other| (form, other))) {
        for scores in ["plain", "zeros", "ties"] {
            for seed in 0..seeds {
                let mut random = Streams::new(seed, &format!("pair {form} {other} {scores}")).block(0);
                let shape = [1 + random.below(3), 1 + random.below(4), 1 + random.below(3)];
                let p: Chain<F> = sized_chain(&mut random, form, scores, shape);
                let kind = if random.below(3) == 0 { scores } else { "plain" };
                let q: Chain<F> = sized_chain(&mut random, other, kind, shape);
                let q = Chain::new(
                    q.start().to_vec().into(),
                    q.emissions().to_vec().into(),
                    p.lengths().to_vec(),
                    q.transitions().clone(),
                )
                .unwrap();
                if (0..p.batch()).any(|b| p.log_partition(b) > f64::NEG_INFINITY) {
                    check(&format!("{form} beside {other}, {scores}, seed {seed}"), &p, &q);
                }
            }
        }
    }
}

/// Cross-entropy and KL divergence: +∞ if q gives weight zero to a path of p, −∞ if p has no path.
fn divergence<F: Real>(p: &Chain<F>, q: &Chain<F>, b: usize) -> (f64, f64) {
    if p.log_partition(b) == f64::NEG_INFINITY {
        return (f64::NEG_INFINITY, f64::NEG_INFINITY);
    }
    let lacking =
        p.scores(b).iter().zip(q.scores(b)).any(|(&p, q)| p > f64::NEG_INFINITY && q == f64::NEG_INFINITY);
    let cross = if lacking { f64::INFINITY } else { cross_entropy(p, q, b) };
    (cross, cross - p.entropy(b))
}

fn divergences<F: Real>() {
    pairs::<F>(8, |name, p, q| {
        let want: Vec<(f64, f64)> = (0..p.batch()).map(|b| divergence(p, q, b)).collect();
        let (cross, kl): (Vec<f64>, Vec<f64>) = want.into_iter().unzip();
        let got = ForwardBackward::default().cross_entropy(p, q, &Run::default()).unwrap();
        close(name, &got.value, &cross, got.diagnostics.rounding);
        let got = ForwardBackward::default().kl(p, q, &Run::default()).unwrap();
        close(name, &got.value, &kl, got.diagnostics.rounding);
        for method in methods() {
            let (value, _) = method.differentiate(Operation::Kl, &[p, q], &Run::default()).unwrap();
            close(name, &value, &kl, got.diagnostics.rounding);
        }
    });
}

#[test]
fn divergences_agree_with_enumeration() {
    divergences::<f64>();
    divergences::<f32>();
}

/// A divergence between p and q for one sequence of the batch.
type Divergences<'a> = &'a dyn Fn(&Chain<f64>, &Chain<f64>, usize) -> f64;

#[test]
fn gradients_of_divergences_agree_with_differences() {
    pairs::<f64>(3, |name, p, q| {
        let cotangent = cotangent(p.batch());
        let run = Run::default();
        let check = |tape: Tape<ChainGradient<f64>>, value: Divergences| {
            let [to_p, to_q] = &tape.vjp(&cotangent).unwrap()[..] else { panic!("{name}") };
            let want = p.differences(|p| weighted(&cotangent, |b| value(p, q, b)));
            close(&format!("{name}, to p"), &flat(to_p), &want, tolerance(&want));
            let want = q.differences(|q| weighted(&cotangent, |b| value(p, q, b)));
            close(&format!("{name}, to q"), &flat(to_q), &want, tolerance(&want));
        };
        for method in methods() {
            check(method.differentiate(Operation::CrossEntropy, &[p, q], &run).unwrap().1, &|p, q, b| {
                divergence(p, q, b).0
            });
            check(method.differentiate(Operation::Kl, &[p, q], &run).unwrap().1, &|p, q, b| {
                divergence(p, q, b).1
            });
        }
    });
}

#[test]
fn longer_chains_give_the_same_results_with_checkpoints_and_in_single_precision() {
    for form in FORMS {
        let mut random = Streams::new(3, form).block(0);
        let chain: Chain<f64> = sized_chain(&mut random, form, "plain", [5, 40, 60]);
        let mut random = Streams::new(3, form).block(0);
        let single: Chain<f32> = sized_chain(&mut random, form, "plain", [5, 40, 60]);
        let (run, cotangent) = (Run::default(), cotangent(5));
        let all = |method: ForwardBackward| {
            let (log_z, gradient) =
                method.value_and_gradients(Operation::LogPartition, &[&chain], &cotangent, &run).unwrap();
            let (entropy, tape) = method.differentiate(Operation::Entropy, &[&chain], &run).unwrap();
            [log_z, flat(&gradient[0]), entropy, flat(&tape.gradient(&cotangent).unwrap())]
        };
        let [whole, windows] = methods().map(all);
        for (one, other) in whole.iter().zip(&windows) {
            close(form, one, other, 1e-9);
        }
        // Expected counts: one state per position and one edge per pair of neighbouring positions.
        let counts = ForwardBackward::default().factor_marginals(&chain, &run).unwrap().value;
        let positions: usize = chain.lengths().iter().sum();
        assert!((counts.emissions.iter().sum::<f64>() - positions as f64).abs() < 1e-9);
        if let TransitionGradient::Shared(table)
        | TransitionGradient::PerStep(table)
        | TransitionGradient::PerSequence(table)
        | TransitionGradient::Sparse { values: table, .. } = &counts.transitions
        {
            assert!((table.iter().sum::<f64>() - (positions - 5) as f64).abs() < 1e-9);
        }
        let method = ForwardBackward::default();
        let got = method.log_partition(&single, &run).unwrap();
        close(form, &got.value, &whole[0], 2.0 * got.diagnostics.rounding);
        let got = method.entropy(&single, &run).unwrap();
        close(form, &got.value, &whole[2], 2.0 * got.diagnostics.rounding);
    }
}
