//! KL divergence and cross-entropy if q gives weight zero to paths of p, even very improbable ones.

use crate::support::oracle::log_sum_exp;
use crate::support::sequences::{self, Listed, methods};
use zhat::Real;
use zhat::dynamic::{ForwardBackward, SequenceModel};
use zhat::model::{Chain, SemiMarkov};
use zhat::query::{Differentiable, HasFactorMarginals, Operation};
use zhat::random::Streams;
use zhat::{Divergence, Error, Run};

const GAPS: [f64; 6] = [50.0, 90.0, 200.0, 740.0, 2000.0, 1e4];

/// Σ p (own·log p − log q) by enumeration: +∞ if a state of finite score under p has score −∞ under q.
fn enumerated<M: Listed>(p: &M, q: &M, b: usize, own: f64) -> f64 {
    let (of_p, of_q) = (p.scores(b), q.scores(b));
    let (log_zp, log_zq) = (log_sum_exp(&of_p), log_sum_exp(&of_q));
    if log_zp == f64::NEG_INFINITY {
        return f64::NEG_INFINITY;
    }
    let possible = of_p.iter().zip(&of_q).filter(|(p, _)| **p > f64::NEG_INFINITY);
    let terms = possible.map(|(&x, &y)| {
        if y == f64::NEG_INFINITY {
            f64::INFINITY
        } else {
            (x - log_zp).exp() * (own * (x - log_zp) - (y - log_zq))
        }
    });
    terms.sum()
}

/// The model with some scores lowered by `gap` and some set to −∞; the last `fixed` parameters, embeddings
/// that must be finite, are unchanged.
fn changed<M: Listed>(model: &M, fixed: usize, gap: f64, (gaps, zeros): (f64, f64), seed: u64) -> M {
    let mut random = Streams::new(seed, "divergences").block(0);
    let mut parameters = model.parameters();
    let free = parameters.len() - fixed;
    for x in &mut parameters[..free] {
        match random.uniform() {
            u if u < zeros => *x = f64::NEG_INFINITY,
            u if u < zeros + gaps => *x -= gap,
            _ => {}
        }
    }
    model.with_parameters(&parameters)
}

/// Checks queries and tapes; returns the number of sequences with each outcome.
fn check<M: Listed + HasFactorMarginals + SequenceModel>(
    p: &M,
    q: &M,
    what: &str,
    flat: fn(&M::FactorMarginals) -> Vec<f64>,
) -> [usize; 2]
where
    ForwardBackward: Divergence<M> + Differentiable<M>,
{
    let (run, batch) = (Run::default().with_threads(1), Listed::batch(p));
    let mut counts = [0, 0];
    for own in [0.0, 1.0] {
        let want: Vec<f64> = (0..batch).map(|b| enumerated(p, q, b, own)).collect();
        for method in methods() {
            let answer = if own > 0.0 { method.kl(p, q, &run) } else { method.cross_entropy(p, q, &run) };
            let recorded = if own > 0.0 {
                method.differentiate(Operation::Kl, &[p, q], &run)
            } else {
                method.differentiate(Operation::CrossEntropy, &[p, q], &run)
            };
            let rounding = match answer {
                Ok(answer) => {
                    sequences::close(what, &answer.value, &want, 1e-9 + answer.diagnostics.rounding);
                    answer.diagnostics.rounding
                }
                Err(Error::ZeroPartition) => {
                    assert!(want.iter().all(|x| *x == f64::NEG_INFINITY), "{what}");
                    assert!(matches!(recorded, Err(Error::ZeroPartition)), "{what}");
                    continue;
                }
                Err(error) => panic!("{what}: {error}"),
            };
            let (values, tape) = recorded.unwrap();
            sequences::close(what, &values, &want, 1e-9 + rounding);
            for gradient in tape.vjp(&vec![1.0; batch]).unwrap().iter().map(flat) {
                assert!(gradient.iter().all(|x| x.is_finite()), "{what}: {gradient:?}");
                if want.iter().all(|x| x.is_infinite()) {
                    assert!(gradient.iter().all(|x| *x == 0.0), "{what}");
                }
            }
        }
        counts[0] += want.iter().filter(|x| **x == f64::INFINITY).count();
        counts[1] += want.iter().filter(|x| x.is_finite()).count();
    }
    counts
}

fn chains<F: Real>() {
    let mut counts = [0, 0];
    for gap in GAPS {
        for form in ["shared", "per-step", "factored"] {
            for seed in 0..12 {
                let model: Chain<F> = sequences::chain(form, "plain", seed);
                // Embeddings must be finite; end scores come after them.
                let end = model.end().map_or(0, <[F]>::len);
                let fixed = if form == "factored" { model.transitions().len() + end } else { 0 };
                let p = changed(&model, fixed, gap, (0.4, 0.05), 31 * seed + 1);
                let q = changed(&model, fixed, gap, (0.0, 0.1), 31 * seed + 2);
                let what = format!("{} {form} gap {gap} seed {seed}", F::NAME);
                let found = check(&p, &q, &what, |gradient| sequences::flat(gradient));
                counts = [counts[0] + found[0], counts[1] + found[1]];
            }
        }
    }
    assert!(counts.iter().all(|&count| count > 100), "{counts:?}");
}

fn semi_markov<F: Real>() {
    let mut counts = [0, 0];
    for gap in GAPS {
        for form in ["shared", "per-step"] {
            for seed in 0..12 {
                let model: SemiMarkov<F> = sequences::semi_markov(form, "plain", seed);
                let p = changed(&model, 0, gap, (0.4, 0.05), 31 * seed + 1);
                let q = changed(&model, 0, gap, (0.0, 0.07), 31 * seed + 2);
                let what = format!("{} {form} gap {gap} seed {seed}", F::NAME);
                let found = check(&p, &q, &what, |gradient| sequences::flat_segments(gradient));
                counts = [counts[0] + found[0], counts[1] + found[1]];
            }
        }
    }
    assert!(counts.iter().all(|&count| count > 50), "{counts:?}");
}

#[test]
fn divergences_of_chains_are_infinite_exactly_where_p_has_a_forbidden_path() {
    chains::<f32>();
    chains::<f64>();
}

#[test]
fn divergences_of_semi_markov_chains_are_infinite_exactly_where_p_has_a_forbidden_path() {
    semi_markov::<f32>();
    semi_markov::<f64>();
}
