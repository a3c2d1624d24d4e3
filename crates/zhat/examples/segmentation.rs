//! A semi-Markov chain: the most probable segmentation of a signal, and its probability.
//!
//! Run it with `cargo run --example segmentation`.

use zhat::dynamic::ForwardBackward;
use zhat::model::{Segments, Transitions};
use zhat::{Chain, KBest, LogPartition, Result, Run, SemiMarkov};

pub(crate) fn main() -> Result<()> {
    // A signal that is low, then high, then low; two states that expect −1 and +1.
    let signal = [-0.9, -1.2, -1.0, 0.8, 1.1, 0.9, 1.3, -1.0, -0.7];
    let emissions: Vec<f64> =
        signal.iter().flat_map(|x: &f64| [-(x + 1.0).powi(2), -(x - 1.0).powi(2)]).collect();
    // Neighbouring segments have different states.
    let transitions = Transitions::Shared(vec![f64::NEG_INFINITY, 0.0, 0.0, f64::NEG_INFINITY].into());
    let chain = Chain::crf(2, emissions.into(), vec![signal.len()], transitions)?;
    // Segments of up to five positions, longer ones preferred.
    let lengths: Vec<f64> = (0..5).flat_map(|d| [0.3 * f64::from(d); 2]).collect();
    let model = SemiMarkov::new(chain, Segments::Lengths(lengths.into()), 5)?;

    let (method, run) = (ForwardBackward::default(), Run::default());
    let log_z = method.log_partition(&model, &run)?.value[0];
    for found in &method.k_best(&model, 3, &run)?.value[0] {
        println!("{:?}: probability {:.4}", found.segments, (found.score - log_z).exp());
    }
    let best = &method.k_best(&model, 1, &run)?.value[0][0];
    assert_eq!(best.segments, [(0, 3), (1, 4), (0, 2)]);
    Ok(())
}
