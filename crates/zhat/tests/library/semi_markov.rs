//! Exact queries on semi-Markov chains, against enumeration of all segmentations.

use crate::support::sequences::{
    FORMS, Listed, SCORES, close, cross_entropy, flat_segments, methods, semi_markov, sized_chain,
};
use crate::support::statistics::{ALARM, multinomial_tail};
use zhat::Real;
use zhat::dynamic::ForwardBackward;
use zhat::model::{Segments, SemiMarkov};
use zhat::query::{Differentiable, Operation};
use zhat::random::Streams;
use zhat::{Chain, Divergence, Entropy, KBest, LogPartition, Map, Marginals, Run, Sample};

const ZERO: f64 = f64::NEG_INFINITY;

pub fn models<F: Real>(seeds: u64, mut check: impl FnMut(&str, &SemiMarkov<F>)) {
    for (form, scores) in FORMS.iter().flat_map(|form| SCORES.map(|scores| (form, scores))) {
        for seed in 0..seeds {
            let model = semi_markov::<F>(form, scores, seed);
            if (0..model.batch()).any(|b| model.log_partition(b) > ZERO) {
                check(&format!("{form}, {scores}, seed {seed}, {}", F::NAME), &model);
            }
        }
    }
}

/// `value`, or −∞ if the sequence has no segmentation of positive weight.
fn some<F: Real>(model: &SemiMarkov<F>, b: usize, value: f64) -> f64 {
    if model.log_partition(b) == ZERO { ZERO } else { value }
}

fn numbers<F: Real>() {
    let run = Run::default();
    models::<F>(12, |name, model| {
        let method = ForwardBackward::default();
        let want: Vec<f64> = (0..model.batch()).map(|b| model.log_partition(b)).collect();
        let got = method.log_partition(model, &run).unwrap();
        close(name, &got.value, &want, got.diagnostics.rounding);
        let want: Vec<f64> = (0..model.batch()).map(|b| some(model, b, model.entropy(b))).collect();
        let got = method.entropy(model, &run).unwrap();
        close(name, &got.value, &want, got.diagnostics.rounding);
        let (steps, states) = (model.chain().steps(), model.chain().states());
        let mut want = vec![0.0; model.chain().emissions().len()];
        for b in (0..model.batch()).filter(|&b| model.log_partition(b) > ZERO) {
            for (segments, p) in Listed::states(model, b).iter().zip(model.probabilities(b)) {
                let positions =
                    segments.iter().flat_map(|&(state, length)| std::iter::repeat_n(state, length));
                positions.enumerate().for_each(|(t, i)| want[(b * steps + t) * states + i] += p);
            }
        }
        for method in methods() {
            let got = method.marginals(model, &run).unwrap();
            let values: Vec<f64> = got.value.values.iter().map(|x| x.to_f64()).collect();
            close(name, &values, &want, got.diagnostics.rounding);
        }
    });
}

#[test]
fn numbers_and_marginals_agree_with_enumeration() {
    numbers::<f64>();
    numbers::<f32>();
}

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
fn gradients_agree_with_differences() {
    let run = Run::default();
    models::<f64>(5, |name, model| {
        let cotangent = cotangent(model.batch());
        let want = model.differences(|model| weighted(&cotangent, |b| model.log_partition(b)));
        for method in methods() {
            let got = method
                .differentiate(Operation::LogPartition, &[model], &run)
                .unwrap()
                .1
                .gradient(&cotangent)
                .unwrap();
            close(name, &flat_segments(&got), &want, tolerance(&want));
            let got =
                method.value_and_gradients(Operation::LogPartition, &[model], &cotangent, &run).unwrap().1;
            close(name, &flat_segments(&got[0]), &want, tolerance(&want));
        }
        let want = model.differences(|model| weighted(&cotangent, |b| some(model, b, model.entropy(b))));
        for method in methods() {
            let got = method
                .differentiate(Operation::Entropy, &[model], &run)
                .unwrap()
                .1
                .gradient(&cotangent)
                .unwrap();
            close(name, &flat_segments(&got), &want, tolerance(&want));
        }
    });
}

/// A model of the same shape with other numbers and, depending on the seed, zeros where p has them, elsewhere
/// or nowhere.
pub fn beside<F: Real>(p: &SemiMarkov<F>, seed: u64) -> SemiMarkov<F> {
    let parameters = p.parameters();
    let wave = |k: usize| ((k * k) as f64 + seed as f64).sin();
    let zeros = seed % 3;
    let other = parameters.iter().enumerate().map(|(k, &x)| match zeros {
        0 if x == ZERO => ZERO,
        1 if k % 17 == 0 && x != 0.0 && p.parameters().contains(&ZERO) => ZERO,
        _ => wave(k),
    });
    p.with_parameters(&other.collect::<Vec<f64>>())
}

fn divergence<F: Real>(p: &SemiMarkov<F>, q: &SemiMarkov<F>, b: usize) -> (f64, f64) {
    if p.log_partition(b) == ZERO {
        return (ZERO, ZERO);
    }
    let lacking = p.scores(b).iter().zip(q.scores(b)).any(|(&p, q)| p > ZERO && q == ZERO);
    let cross = if lacking { f64::INFINITY } else { cross_entropy(p, q, b) };
    (cross, cross - p.entropy(b))
}

fn divergences<F: Real>() {
    let (method, run) = (ForwardBackward::default(), Run::default());
    let mut seed = 0;
    models::<F>(6, |name, p| {
        seed += 1;
        // Embeddings are never zero.
        let factored = name.contains("factor");
        let q = beside(p, if factored { 2 } else { seed });
        let want: Vec<(f64, f64)> = (0..p.batch()).map(|b| divergence(p, &q, b)).collect();
        let (cross, kl): (Vec<f64>, Vec<f64>) = want.into_iter().unzip();
        let got = method.cross_entropy(p, &q, &run).unwrap();
        close(name, &got.value, &cross, got.diagnostics.rounding);
        let got = method.kl(p, &q, &run).unwrap();
        close(name, &got.value, &kl, got.diagnostics.rounding);
    });
}

#[test]
fn divergences_agree_with_enumeration() {
    divergences::<f64>();
    divergences::<f32>();
}

#[test]
fn gradients_of_divergences_agree_with_differences() {
    let run = Run::default();
    let mut seed = 0;
    models::<f64>(4, |name, p| {
        if name.contains("extreme") {
            return;
        }
        seed += 1;
        let q = beside(p, if name.contains("factor") { 2 } else { seed });
        let cotangent = cotangent(p.batch());
        let by_p = p.differences(|p| weighted(&cotangent, |b| divergence(p, &q, b).1));
        let by_q = q.differences(|q| weighted(&cotangent, |b| divergence(p, q, b).1));
        let crossed = p.differences(|p| weighted(&cotangent, |b| divergence(p, &q, b).0));
        for method in methods() {
            let to = method.differentiate(Operation::Kl, &[p, &q], &run).unwrap().1.vjp(&cotangent).unwrap();
            close(&format!("{name}, to p"), &flat_segments(&to[0]), &by_p, tolerance(&by_p));
            close(&format!("{name}, to q"), &flat_segments(&to[1]), &by_q, tolerance(&by_q));
            let to_p = method
                .differentiate(Operation::CrossEntropy, &[p, &q], &run)
                .unwrap()
                .1
                .gradient(&cotangent)
                .unwrap();
            close(&format!("{name}, cross-entropy"), &flat_segments(&to_p), &crossed, tolerance(&crossed));
        }
    });
}

/// A batch of five sequences of up to 40 positions and 20 states, with segments of up to L positions.
fn longer(form: &str, longest: usize, places: bool) -> SemiMarkov<f64> {
    let mut random = Streams::new(3, form).block(0);
    let chain: Chain<f64> = sized_chain(&mut random, form, "plain", [5, 40, 20]);
    let count = if places { 5 * 40 * longest * 20 } else { longest * 20 };
    let values: Vec<f64> = (0..count).map(|_| random.normal()).collect();
    let segments = if places { Segments::Places(values.into()) } else { Segments::Lengths(values.into()) };
    SemiMarkov::new(chain, segments, longest).unwrap()
}

#[test]
fn longer_models_give_the_same_results_with_checkpoints() {
    for (form, longest, places) in
        FORMS.iter().flat_map(|form| [(form, 1, false), (form, 3, true), (form, 9, false), (form, 60, false)])
    {
        let p = longer(form, longest, places);
        let q = beside(&p, 2);
        let (run, cotangent) = (Run::default(), cotangent(5));
        let all = |method: ForwardBackward| {
            let (log_z, gradient) =
                method.value_and_gradients(Operation::LogPartition, &[&p], &cotangent, &run).unwrap();
            let (entropy, tape) = method.differentiate(Operation::Entropy, &[&p], &run).unwrap();
            let (kl, of_kl) = method.differentiate(Operation::Kl, &[&p, &q], &run).unwrap();
            let to = of_kl.vjp(&cotangent).unwrap();
            let of_entropy = tape.gradient(&cotangent).unwrap();
            let gradients = [&gradient[0], &of_entropy, &to[0], &to[1]].map(flat_segments);
            (vec![log_z, entropy, kl], gradients)
        };
        let [whole, windows] = methods().map(all);
        for (one, other) in whole.0.iter().zip(&windows.0).chain(whole.1.iter().zip(&windows.1)) {
            close(&format!("{form}, L = {longest}"), one, other, 1e-9);
        }
    }
}

fn ranked<F: Real>() {
    let (method, run) = (ForwardBackward::default(), Run::default());
    models::<F>(8, |name, model| {
        let best = method.map(model, &run).unwrap();
        for k in [1, 4, 3000] {
            let answer = method.k_best(model, k, &run).unwrap();
            for (b, found) in answer.value.iter().enumerate() {
                let mut want: Vec<f64> = model.scores(b).into_iter().filter(|&x| x > ZERO).collect();
                want.sort_by(|a, b| b.total_cmp(a));
                let near = |a: f64, b: f64| (a - b).abs() <= answer.diagnostics.rounding;
                match want.first() {
                    Some(&first) => assert!(near(best.value[b].score, first), "{name}"),
                    None => assert!(best.value[b].segments.is_empty(), "{name}"),
                }
                want.truncate(k);
                assert_eq!(found.len(), want.len(), "{name}, k = {k}");
                for (one, want) in found.iter().zip(&want) {
                    assert_eq!(one.score, SemiMarkov::score(model, b, &one.segments));
                    assert!(near(one.score, *want), "{name}, k = {k}");
                }
                let mut all: Vec<_> = found.iter().map(|one| &one.segments).collect();
                all.sort();
                all.dedup();
                assert_eq!(all.len(), found.len(), "{name}: a segmentation twice");
            }
        }
    });
}

#[test]
fn the_k_best_segmentations_agree_with_enumeration() {
    ranked::<f64>();
    ranked::<f32>();
}

/// About fifty comparisons with a false-alarm rate of 10⁻⁸ each.
fn samples<F: Real>() {
    models::<F>(2, |name, model| {
        if name.contains("extreme") || name.contains("ties") {
            return;
        }
        let answer = ForwardBackward::default().sample(model, 4000, &Run::default()).unwrap();
        for (b, drawn) in answer.value.samples.iter().enumerate() {
            if model.log_partition(b) == ZERO {
                assert!(drawn.is_empty());
                continue;
            }
            let states = Listed::states(model, b);
            let mut counts = vec![0; states.len()];
            for one in drawn {
                counts[states.iter().position(|state| state == one).unwrap()] += 1;
            }
            let tail = multinomial_tail(&counts, &model.probabilities(b));
            assert!(tail > ALARM, "{name}, sequence {b}: {tail}");
        }
    });
}

#[test]
fn samples_follow_the_distribution() {
    samples::<f64>();
    samples::<f32>();
}

#[test]
fn segments_of_one_position_are_a_chain() {
    let (method, run) = (ForwardBackward::default(), Run::default());
    for form in FORMS {
        for seed in 0..5 {
            let chain: Chain<f64> = crate::support::sequences::chain(form, "plain", seed);
            let zeros = Segments::Lengths(vec![0.0; Chain::states(&chain)].into());
            let model = SemiMarkov::new(chain.clone(), zeros, 1).unwrap();
            let (one, other) =
                (method.log_partition(&chain, &run).unwrap(), method.log_partition(&model, &run).unwrap());
            close(form, &one.value, &other.value, one.diagnostics.rounding);
            let (one, other) = (method.entropy(&chain, &run).unwrap(), method.entropy(&model, &run).unwrap());
            close(form, &one.value, &other.value, one.diagnostics.rounding);
        }
    }
}

#[test]
fn threads_do_not_change_the_result() {
    for form in FORMS {
        let model = semi_markov::<f32>(form, "plain", 4);
        let all = |threads: usize, method: ForwardBackward| {
            let run = Run::default().with_threads(threads);
            let ones = vec![1.0; model.batch()];
            (
                method.log_partition(&model, &run).unwrap().value,
                flat_segments(
                    &method
                        .differentiate(Operation::LogPartition, &[&model], &run)
                        .unwrap()
                        .1
                        .gradient(&ones)
                        .unwrap(),
                ),
                flat_segments(
                    &method
                        .differentiate(Operation::Entropy, &[&model], &run)
                        .unwrap()
                        .1
                        .gradient(&ones)
                        .unwrap(),
                ),
                method.sample(&model, 300, &run).unwrap().value,
            )
        };
        for method in methods() {
            let one = all(1, method);
            assert!(one == all(2, method) && one == all(3, method), "{form}");
        }
    }
}
