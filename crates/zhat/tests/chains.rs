//! Exact answers about chains, against enumeration.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use support::sequences::{FORMS, Listed, METHODS, SCORES, chain, close, flat};
use zhat::exact::ForwardBackward;
use zhat::numeric::Real;
use zhat::{Chain, Error, FactorMarginals, LogPartition, Marginals, Run};

/// Every form of transitions, kind of score and a few seeds, with a name; only those where some sequence has a weight.
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
        for method in METHODS {
            let got = method.log_partition(chain, &Run::default()).unwrap();
            close(name, &got.value, &want, got.diagnostics.rounding);
            let (value, _) = method.log_partition_with_tape(chain, &Run::default()).unwrap();
            close(name, &value, &want, got.diagnostics.rounding);
        }
    });
}

#[test]
fn log_partitions_agree_with_enumeration() {
    log_partitions::<f64>();
    log_partitions::<f32>();
}

/// P(xₜ = i) in the layout of the emissions.
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
        for method in METHODS {
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

/// Σ c_b x_b over the sequences that have a weight.
fn weighted(cotangent: &[f64], values: impl Fn(usize) -> f64) -> f64 {
    cotangent.iter().enumerate().map(|(b, c)| c * values(b)).filter(|x| x.is_finite()).sum()
}

/// 10⁻⁶ of the largest entry, at least of 1.
fn tolerance(gradient: &[f64]) -> f64 {
    1e-6 * gradient.iter().fold(1.0, |a: f64, b| a.max(b.abs()))
}

#[test]
fn gradients_of_log_z_agree_with_differences() {
    chains::<f64>(6, |name, chain| {
        let cotangent = cotangent(chain.batch());
        let want = chain.differences(|chain| weighted(&cotangent, |b| chain.log_partition(b)));
        for method in METHODS {
            let (_, tape) = method.log_partition_with_tape(chain, &Run::default()).unwrap();
            let got = flat(&tape.vjp(&cotangent).unwrap());
            close(name, &got, &want, tolerance(&want));
        }
    });
}
