//! Sweeps over few states against messages in the log domain.

use super::*;
use crate::dynamic::ForwardBackward;
use crate::method::dynamic::SequenceModel;
use crate::model::Chain;
use crate::model::generate::{self, ChainShape, TransitionForm};
use crate::query::sequence::ChainGradient;
use crate::query::{Differentiable, LogPartition, Marginals, Operation};
use crate::run::Run;

fn shape(states: usize, steps: usize, batch: usize, strength: f64, zeros: f64) -> ChainShape {
    ChainShape { states, steps, batch, ragged: batch > 2, strength, zeros, ..Default::default() }
}

/// log Z and the gradient by the sweeps for few states, if they lose nothing.
fn narrow<F: Real>(chain: &Chain<F>, cotangent: &[f64]) -> Option<(Vec<f64>, ChainGradient<F>)> {
    let run = Run::default();
    let clock = run.start("test");
    let found = chain.with_lattice(&clock, |lattice| {
        assert!(lattice.narrow());
        let mut gradient = chain.zero_gradient();
        let ChainGradient { emissions, transitions, .. } = &mut gradient;
        let values = lattice.narrow_gradient(cotangent, emissions, Some(transitions), &clock)?;
        let alone = lattice.narrow_log_partitions(&clock)?;
        assert!(values.is_none() || values == alone);
        Ok(values.map(|values| (values, gradient)))
    });
    found.unwrap()
}

/// The same from messages in the log domain.
fn in_logs<F: Real>(chain: &Chain<F>, cotangent: &[f64]) -> (Vec<f64>, ChainGradient<F>) {
    let method = ForwardBackward::default().checkpoint(true);
    let models = [chain];
    let found = method.value_and_gradients(Operation::LogPartition, &models, cotangent, &Run::default());
    let (values, mut gradients) = found.unwrap();
    (values, gradients.remove(0))
}

fn close<F: Real>(what: &str, got: &[F], want: &[F], allowance: f64) {
    for (k, (a, b)) in got.iter().zip(want).enumerate() {
        let distance = (a.to_f64() - b.to_f64()).abs();
        assert!(distance <= allowance, "{what}: entry {k} is {a}, expected {b} within {allowance:e}");
    }
}

/// Compares all results; returns whether the sweeps for few states were used.
fn compare<F: Real>(chain: &Chain<F>, what: &str) -> bool {
    let cotangent: Vec<f64> = (0..chain.batch()).map(|b| 1.0 - 0.3 * (b % 5) as f64).collect();
    let Some((values, gradient)) = narrow(chain, &cotangent) else { return false };
    let (want, wanted) = in_logs(chain, &cotangent);
    let rounding = 2.0 * chain.rounding(true);
    close(what, &values, &want, rounding);
    close(what, &gradient.emissions, &wanted.emissions, 2.0 * rounding);
    let (got, wanted) = match (&gradient.transitions, &wanted.transitions) {
        (TransitionGradient::Shared(got), TransitionGradient::Shared(wanted)) => (got, wanted),
        (TransitionGradient::PerStep(got), TransitionGradient::PerStep(wanted)) => (got, wanted),
        _ => panic!("tables"),
    };
    let positions: usize = chain.lengths().iter().sum();
    close(what, got, wanted, positions as f64 * 2.0 * rounding);
    true
}

fn agrees<F: Real>() {
    let mut seed = 0;
    for states in [1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 20, 33, 45, 48, 63, 64] {
        for (steps, batch) in [(1, 1), (1, 40), (2, 3), (17, 1), (9, 33), (6, 70)] {
            for (strength, zeros) in [(1.0, 0.0), (3.0, 0.5), (0.5, 0.9)] {
                seed += 1;
                for transitions in [TransitionForm::Shared, TransitionForm::PerStep] {
                    let shape = ChainShape { transitions, ..shape(states, steps, batch, strength, zeros) };
                    let chain = generate::chain::<F>(&shape, seed).unwrap();
                    let what = format!("{shape:?}, {}", F::NAME);
                    assert!(compare(&chain, &what), "{what}: not used");
                }
            }
        }
    }
}

#[test]
fn agrees_with_the_log_domain() {
    agrees::<f32>();
    agrees::<f64>();
}

/// Tables of every step are padded to those of the model, if all sequences are shorter.
#[test]
fn sequences_shorter_than_the_tables_leave_a_gradient_of_zero() {
    let numbers = |count: usize| (0..count).map(|k| (k as f64 * 0.7).sin()).collect::<Vec<f64>>();
    let transitions = Transitions::PerStep(numbers(4 * 9).into());
    let chain = Chain::new(numbers(3).into(), numbers(2 * 5 * 3).into(), vec![3, 1], transitions).unwrap();
    assert!(compare(&chain, "short"));
    let (_, gradient) = narrow(&chain, &[1.0, 1.0]).unwrap();
    let TransitionGradient::PerStep(tables) = gradient.transitions else { panic!("tables") };
    let sums: Vec<f64> = tables.chunks(9).map(|table| table.iter().sum()).collect();
    assert!((sums[0] - 1.0).abs() < 1e-12 && (sums[1] - 1.0).abs() < 1e-12, "{sums:?}");
    assert_eq!(sums[2..], [0.0, 0.0]);
}

/// Sequences with tables of their own.
#[test]
fn tables_of_sequences_agree_with_the_log_domain() {
    for (states, steps, batch, strength, zeros) in [
        (9, 17, 5, 1.0, 0.0),
        (20, 6, 3, 2.0, 0.4),
        (1, 4, 2, 1.0, 0.0),
        (45, 1, 4, 1.0, 0.0),
        (7, 30, 3, 300.0, 0.2),
    ] {
        let transitions = TransitionForm::PerSequence;
        let shape = ChainShape { transitions, ..shape(states, steps, batch, strength, zeros) };
        let chain = generate::chain::<f64>(&shape, 8).unwrap();
        let cotangent: Vec<f64> = (0..batch).map(|b| 0.5 + b as f64).collect();
        let models = [&chain];
        let run = Run::default();
        let method = ForwardBackward::default();
        let found = method.value_and_gradients(Operation::LogPartition, &models, &cotangent, &run);
        let (values, gradients) = found.unwrap();
        let (want, wanted) = in_logs(&chain, &cotangent);
        let rounding = 2.0 * chain.rounding(true);
        let what = format!("{shape:?}");
        close(&what, &values, &want, rounding);
        close(&what, &gradients[0].emissions, &wanted.emissions, 4.0 * batch as f64 * rounding);
        let (TransitionGradient::PerSequence(got), TransitionGradient::PerSequence(wanted)) =
            (&gradients[0].transitions, &wanted.transitions)
        else {
            panic!("tables of sequences");
        };
        close(&what, got, wanted, 4.0 * batch as f64 * rounding);
    }
}

fn strong<F: Real>(strengths: &[f64]) -> usize {
    let mut used = 0;
    for (seed, &strength) in strengths.iter().enumerate() {
        for (states, zeros) in [(1, 0.0), (5, 0.0), (5, 0.5), (20, 0.0), (20, 0.8)] {
            let shape = shape(states, 12, 5, strength, zeros);
            let of_steps = ChainShape { transitions: TransitionForm::PerStep, ..shape };
            compare(&generate::chain::<F>(&of_steps, seed as u64).unwrap(), &format!("{of_steps:?}"));
            let chain = generate::chain::<F>(&shape, seed as u64).unwrap();
            let what = format!("strength {strength}, {states} states, {zeros}, {}", F::NAME);
            used += usize::from(compare(&chain, &what));
            // Whichever way, the method itself has no loss.
            let ones = vec![1.0; chain.batch()];
            let (want, wanted) = in_logs(&chain, &ones);
            let method = ForwardBackward::default();
            let values = method.log_partition(&chain, &Run::default()).unwrap();
            close(&what, &values.value, &want, 2.0 * values.diagnostics.rounding);
            let marginals = method.marginals(&chain, &Run::default()).unwrap();
            let allowance = (4.0 * marginals.diagnostics.rounding).min(1.0);
            close(&what, &marginals.value.values, &wanted.emissions, allowance);
        }
    }
    used
}

#[test]
fn strong_scores_lose_nothing() {
    // Every kind of outcome occurs: single precision covers a range of about 87 nats.
    let strengths = [1.0, 5.0, 10.0, 20.0, 40.0, 100.0, 1000.0, 1e4];
    let (single, double) = (strong::<f32>(&strengths), strong::<f64>(&strengths));
    assert!((8..40).contains(&single), "{single}");
    assert!((single + 5..40).contains(&double), "{double}");
}

#[test]
fn zeros_beside_a_wide_range_are_told_apart() {
    // State 1 is reached only through weights that underflow in single precision; state 2 never.
    let none = f32::NEG_INFINITY;
    let transitions = Transitions::Shared(vec![0.0, -200.0, none, none, 0.0, none, none, none, 0.0].into());
    let mut emissions = vec![0.0f32; 5 * 3];
    emissions[1] = none;
    emissions[2] = none;
    emissions[13] = 300.0;
    let chain = Chain::crf(3, emissions.into(), vec![5], transitions).unwrap();
    let (want, _) = in_logs(&chain, &[1.0]);
    let found = ForwardBackward::default().log_partition(&chain, &Run::default()).unwrap().value;
    assert!((found[0] - want[0]).abs() < 1e-3 && want[0] > 100.0, "{found:?}, {want:?}");
    let (values, gradient) = {
        let method = ForwardBackward::default();
        method.value_and_gradients(Operation::LogPartition, &[&chain], &[1.0], &Run::default()).unwrap()
    };
    assert!((values[0] - want[0]).abs() < 1e-3);
    assert!((gradient[0].emissions[13] - 1.0).abs() < 1e-5);
}

#[test]
fn a_sequence_without_a_path_falls_back() {
    let transitions = Transitions::Shared(vec![0.0, f64::NEG_INFINITY, f64::NEG_INFINITY, 0.0].into());
    let none = f64::NEG_INFINITY;
    let emissions = vec![0.0, none, none, 0.0, 0.0, 0.0, 1.0, 0.0];
    let chain = Chain::crf(2, emissions.into(), vec![2, 2], transitions).unwrap();
    assert!(narrow(&chain, &[1.0, 1.0]).is_none());
    let found = ForwardBackward::default().log_partition(&chain, &Run::default()).unwrap().value;
    assert_eq!(found[0], none);
    assert!((found[1] - 1f64.exp().ln_1p()).abs() < 1e-12);
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    for transitions in [TransitionForm::Shared, TransitionForm::PerStep] {
        let shape = ChainShape { transitions, ..shape(20, 40, 150, 1.0, 0.2) };
        let chain = generate::chain::<f32>(&shape, 3).unwrap();
        let ones = vec![1.0; chain.batch()];
        let method = ForwardBackward::default();
        let of = |threads: usize| {
            let run = Run::default().with_threads(threads);
            method.value_and_gradients(Operation::LogPartition, &[&chain], &ones, &run).unwrap()
        };
        let one = of(1);
        for threads in [2, 3, 8] {
            assert_eq!(one, of(threads));
        }
    }
}
