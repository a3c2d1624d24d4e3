//! Relaxed samples of semi-Markov chains: hard samples follow the model's distribution, soft samples have the
//! right gradient.

use crate::support::sequences::{FORMS, Listed, SCORES, close, flat_segments, semi_markov};
use crate::support::statistics::{ALARM, multinomial_tail};
use zhat::Real;
use zhat::dynamic::ForwardBackward;
use zhat::query::RelaxedSamples;
use zhat::{Run, SemiMarkov};

const ZERO: f64 = f64::NEG_INFINITY;

fn models<F: Real>(scores: &[&str], seeds: u64, mut check: impl FnMut(&str, u64, &SemiMarkov<F>)) {
    for (form, scores) in FORMS.iter().flat_map(|form| scores.iter().map(move |scores| (form, scores))) {
        for seed in 0..seeds {
            let model = semi_markov::<F>(form, scores, seed);
            if (0..model.batch()).any(|b| model.log_partition(b) > ZERO) {
                check(&format!("{form}, {scores}, seed {seed}, {}", F::NAME), seed, &model);
            }
        }
    }
}

/// Calls `check` with (end, length, state), the softmax over states and the softmax over lengths for each
/// segment of one sample.
fn each_segment<F: Real>(
    samples: &RelaxedSamples<F, Vec<(usize, usize)>>,
    (b, s): (usize, usize),
    mut check: impl FnMut((usize, usize, usize), &[F], &[F]),
) {
    let ([_, count, steps, states], longest) = (samples.shape, samples.longest);
    let mut open = 0;
    for &(state, length) in &samples.hard[b][s] {
        open += length;
        let row = (b * count + s) * steps + open - 1;
        let (of_states, of_lengths) =
            (&samples.states[row * states..][..states], &samples.lengths[row * longest..][..longest]);
        check((open - 1, length, state), of_states, of_lengths);
    }
}

/// About fifty comparisons with a false-alarm rate of 10⁻⁸ each.
fn hard<F: Real>() {
    models::<F>(&["plain", "zeros"], 3, |name, seed, model| {
        let run = Run::default().with_seed(seed);
        let (samples, _) =
            ForwardBackward::default().relaxed_samples_with_tape(model, 3000, 0.5, &run).unwrap();
        let allowance = 4.0 * F::EPSILON.to_f64() * (samples.shape[3] + samples.longest) as f64;
        let mut ends = 0;
        for (b, drawn) in samples.hard.iter().enumerate() {
            if model.log_partition(b) == ZERO {
                assert!(drawn.is_empty());
                continue;
            }
            let all = Listed::states(model, b);
            let mut counts = vec![0; all.len()];
            for (s, segments) in drawn.iter().enumerate() {
                counts[all.iter().position(|state| state == segments).unwrap()] += 1;
                ends += segments.len();
                // The hard state and length are the argmax of the soft values.
                each_segment(&samples, (b, s), |(_, length, state), states, lengths| {
                    for (row, at) in [(states, state), (lengths, length - 1)] {
                        assert!(row.iter().all(|x| *x <= row[at]), "{name}");
                        let total: f64 = row.iter().map(|x| x.to_f64()).sum();
                        assert!((total - 1.0).abs() < allowance, "{name}: {total}");
                    }
                });
            }
            let tail = multinomial_tail(&counts, &model.probabilities(b));
            assert!(tail > ALARM, "{name}, sequence {b}: {tail}");
        }
        // Rows are nonzero at the ends of segments and nowhere else.
        let rows = |values: &[F], size: usize| {
            values.chunks_exact(size).filter(|row| row.iter().any(|x| *x != F::ZERO)).count()
        };
        assert_eq!(rows(&samples.states, samples.shape[3]), ends, "{name}");
        assert_eq!(rows(&samples.lengths, samples.longest), ends, "{name}");
    });
}

#[test]
fn hard_samples_follow_the_distribution() {
    hard::<f64>();
    hard::<f32>();
}

#[test]
fn low_temperature_samples_equal_the_hard_samples() {
    models::<f64>(&["plain", "zeros", "ties"], 4, |name, seed, model| {
        let run = Run::default().with_seed(seed);
        let (samples, _) =
            ForwardBackward::default().relaxed_samples_with_tape(model, 3, 1e-9, &run).unwrap();
        for b in 0..model.batch() {
            for s in 0..samples.hard[b].len() {
                each_segment(&samples, (b, s), |(_, length, state), states, lengths| {
                    let one_hot = |row: &[f64], at: usize| {
                        row.iter().enumerate().all(|(k, &x)| x == if k == at { 1.0 } else { 0.0 })
                    };
                    assert!(one_hot(states, state) && one_hot(lengths, length - 1), "{name}");
                });
            }
        }
    });
}

#[test]
fn gradients_of_soft_samples_agree_with_differences() {
    let mut compared = 0;
    models::<f64>(&SCORES, 5, |name, seed, model| {
        let run = Run::default().with_seed(seed);
        let relaxed = |model: &SemiMarkov<f64>| {
            ForwardBackward::default().relaxed_samples_with_tape(model, 2, 0.7, &run).unwrap()
        };
        let (samples, tape) = relaxed(model);
        let wave = |count: usize, phase: f64| -> Vec<f64> {
            (0..count).map(|k| ((k * k) as f64 + phase).sin()).collect()
        };
        let (of_states, of_lengths) = (wave(samples.states.len(), 0.0), wave(samples.lengths.len(), 1.0));
        let dot = |x: &[f64], y: &[f64]| -> f64 { x.iter().zip(y).map(|(x, y)| x * y).sum() };
        let value = |model: &SemiMarkov<f64>| {
            let samples = relaxed(model).0;
            dot(&samples.states, &of_states) + dot(&samples.lengths, &of_lengths)
        };
        // Skips seeds for which the hard segmentation changes within the finite-difference step.
        let parameters = model.parameters();
        let moved = (0..parameters.len()).any(|k| {
            [1e-4, -1e-4].into_iter().any(|h| {
                let mut other = parameters.clone();
                other[k] += h;
                relaxed(&model.with_parameters(&other)).0.hard != samples.hard
            })
        });
        if moved {
            return;
        }
        let want = model.differences(value);
        let scale = want.iter().fold(1.0, |a: f64, b| a.max(b.abs()));
        let got = tape.vjp(&of_states, &of_lengths).unwrap();
        close(name, &flat_segments(&got), &want, 1e-6 * scale);
        compared += 1;
    });
    assert!(compared > 30, "{compared}");
}

#[test]
fn segments_of_one_position_have_the_gradient_of_a_chain() {
    for form in FORMS {
        let chain: zhat::Chain<f64> = crate::support::sequences::chain(form, "plain", 2);
        let zeros = zhat::model::Segments::Lengths(vec![0.0; chain.states()].into());
        let model = SemiMarkov::new(chain, zeros, 1).unwrap();
        let run = Run::default();
        let (samples, tape) =
            ForwardBackward::default().relaxed_samples_with_tape(&model, 2, 0.7, &run).unwrap();
        let cotangent: Vec<f64> = (0..samples.states.len()).map(|k| (k as f64).sin()).collect();
        let got = tape.vjp(&cotangent, &samples.lengths).unwrap();
        // With a single length, the gradient of a segment score is the sum of the gradients of all emissions
        // of its state.
        let (n, mut sums) = (model.chain().states(), vec![0.0; model.chain().states()]);
        got.chain
            .emissions
            .chunks_exact(n)
            .for_each(|row| sums.iter_mut().zip(row).for_each(|(x, y)| *x += y));
        close(form, &got.segments, &sums, 1e-12);
    }
}

#[test]
fn invalid_arguments_are_refused() {
    let model = semi_markov::<f64>("shared", "plain", 3);
    let (method, run) = (ForwardBackward::default(), Run::default());
    for temperature in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(method.relaxed_samples_with_tape(&model, 1, temperature, &run).is_err());
    }
    let (samples, tape) = method.relaxed_samples_with_tape(&model, 2, 1.0, &run).unwrap();
    assert!(tape.vjp(&samples.states[1..], &samples.lengths).is_err());
    assert!(tape.vjp(&samples.states, &vec![f64::NAN; samples.lengths.len()]).is_err());
}

#[test]
fn threads_do_not_change_the_result() {
    for form in FORMS {
        let model = semi_markov::<f32>(form, "plain", 4);
        let all = |threads: usize| {
            let run = Run::default().with_threads(threads);
            let (samples, tape) =
                ForwardBackward::default().relaxed_samples_with_tape(&model, 5, 0.5, &run).unwrap();
            let gradient = flat_segments(&tape.vjp(&samples.states, &samples.lengths).unwrap());
            (samples, gradient)
        };
        assert!(all(1) == all(3), "{form}");
    }
}
