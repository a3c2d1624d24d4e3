//! Relaxed samples of chains: hard samples follow the model's distribution, soft samples have the right
//! gradient.

use crate::support::sequences::{FORMS, Listed, SCORES, chain, close, flat};
use crate::support::statistics::{ALARM, multinomial_tail};
use zhat::Real;
use zhat::dynamic::ForwardBackward;
use zhat::{Chain, Run};

const ZERO: f64 = f64::NEG_INFINITY;

fn possible<F: Real>(chain: &Chain<F>) -> bool {
    (0..chain.batch()).any(|b| chain.log_partition(b) > ZERO)
}

/// About fifty comparisons with a false-alarm rate of 10⁻⁸ each.
fn hard<F: Real>() {
    for (form, scores) in FORMS.iter().flat_map(|form| ["plain", "zeros"].map(|scores| (form, scores))) {
        for seed in 0..3 {
            let chain = chain::<F>(form, scores, seed);
            if !possible(&chain) {
                continue;
            }
            let run = Run::default().with_seed(seed);
            let (samples, _) =
                ForwardBackward::default().relaxed_samples_with_tape(&chain, 3000, 0.5, &run).unwrap();
            let [_, count, steps, states] = samples.shape;
            for (b, drawn) in samples.hard.iter().enumerate() {
                if chain.log_partition(b) == ZERO {
                    assert!(drawn.is_empty());
                    continue;
                }
                let paths = Listed::states(&chain, b);
                let mut counts = vec![0; paths.len()];
                for (s, path) in drawn.iter().enumerate() {
                    counts[paths.iter().position(|state| state == path).unwrap()] += 1;
                    // The hard state is the argmax of the soft state.
                    for (t, &state) in path.iter().enumerate() {
                        let row = &samples.states[((b * count + s) * steps + t) * states..][..states];
                        assert!(row.iter().all(|x| *x <= row[state]));
                        let total: f64 = row.iter().map(|x| x.to_f64()).sum();
                        assert!((total - 1.0).abs() < 4.0 * F::EPSILON.to_f64() * states as f64);
                    }
                }
                let tail = multinomial_tail(&counts, &chain.probabilities(b));
                assert!(tail > ALARM, "{form}, {scores}, seed {seed}, sequence {b}: {tail}");
            }
        }
    }
}

#[test]
fn hard_samples_follow_the_distribution() {
    hard::<f64>();
    hard::<f32>();
}

#[test]
fn gradients_of_soft_samples_agree_with_differences() {
    let mut compared = 0;
    for (form, scores) in FORMS.iter().flat_map(|form| SCORES.map(|scores| (form, scores))) {
        for seed in 0..5 {
            let chain = chain::<f64>(form, scores, seed);
            if !possible(&chain) {
                continue;
            }
            let run = Run::default().with_seed(seed);
            let relaxed = |chain: &Chain<f64>| {
                ForwardBackward::default().relaxed_samples_with_tape(chain, 2, 0.7, &run).unwrap()
            };
            let (samples, tape) = relaxed(&chain);
            let cotangent: Vec<f64> = (0..samples.states.len()).map(|k| ((k * k) as f64).sin()).collect();
            let value = |chain: &Chain<f64>| -> f64 {
                relaxed(chain).0.states.iter().zip(&cotangent).map(|(x, c)| x * c).sum()
            };
            // Skips seeds for which a hard state changes within the finite-difference step.
            let moved = |h: f64| {
                let parameters: Vec<f64> = chain.parameters().iter().map(|x| x + h).collect();
                relaxed(&chain.with_parameters(&parameters)).0.hard != samples.hard
            };
            if moved(1e-4) || moved(-1e-4) {
                continue;
            }
            let want = chain.differences(value);
            let scale = want.iter().fold(1.0, |a: f64, b| a.max(b.abs()));
            close(
                &format!("{form}, {scores}, seed {seed}"),
                &flat(&tape.vjp(&cotangent, &[]).unwrap()),
                &want,
                1e-6 * scale,
            );
            compared += 1;
        }
    }
    assert!(compared > 30, "{compared}");
}

#[test]
fn threads_do_not_change_the_result() {
    let chain = chain::<f32>("shared", "plain", 3);
    let all = |threads: usize| {
        let run = Run::default().with_threads(threads);
        let (samples, tape) =
            ForwardBackward::default().relaxed_samples_with_tape(&chain, 5, 0.5, &run).unwrap();
        (samples.states.clone(), samples.hard, flat(&tape.vjp(&samples.states, &[]).unwrap()))
    };
    assert_eq!(all(1), all(3));
}
