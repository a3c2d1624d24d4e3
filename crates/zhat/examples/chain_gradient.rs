//! A linear-chain CRF: log Z and its gradient, as needed for gradient-based training.
//!
//! Run it with `cargo run --example chain_gradient`.

use zhat::dynamic::ForwardBackward;
use zhat::model::Transitions;
use zhat::query::{Differentiable, Operation};
use zhat::{Chain, Entropy, Map, Result, Run};

pub(crate) fn main() -> Result<()> {
    // Two sequences of 4 and 3 positions, 3 states; positions after the end of the second sequence are
    // ignored.
    let emissions: Vec<f32> = (0..2 * 4 * 3).map(|k| ((7 * k) % 11) as f32 / 5.0 - 1.0).collect();
    let transitions = vec![0.5, -0.5, 0.0, 0.0, 0.5, -0.5, -0.5, 0.0, 0.5];
    let chain = Chain::crf(3, emissions.into(), vec![4, 3], Transitions::Shared(transitions.into()))?;
    let (method, run) = (ForwardBackward::default(), Run::default());

    // The forward pass records a tape; the backward pass computes the vector–Jacobian product.
    let (log_z, tape) = method.differentiate(Operation::LogPartition, &[&chain], &run)?;
    let gradient = tape.gradient(&[1.0, 1.0])?;
    println!("log Z   = {log_z:?}");
    println!("entropy = {:?}", method.entropy(&chain, &run)?.value);
    println!("P(state at position 0 of sequence 0) = {:?}", &gradient.emissions[..3]);
    for (path, log_z) in method.map(&chain, &run)?.value.iter().zip(&log_z) {
        println!("best path {:?}, log probability {:.4}", path.states, path.score - log_z);
    }

    // The gradient with respect to the emissions sums to the number of positions.
    let total: f32 = gradient.emissions.iter().sum();
    assert!((total - 7.0).abs() < 1e-4);
    Ok(())
}
