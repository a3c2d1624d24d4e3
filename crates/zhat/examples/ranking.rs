//! A Mallows model over rankings: the probability of a ranking, and of one item being ranked before another.
//!
//! Run it with `cargo run --example ranking`.

use zhat::space::{Distance, Oracle, Permutations, Scores, SpaceModel};
use zhat::{LogPartition, Map, Result, Run, Sample};

pub(crate) fn main() -> Result<()> {
    // Rankings of six items around the order 0, 1, …, 5; the score is −0.7 times Kendall's distance to it.
    let reference: Vec<usize> = (0..6).collect();
    let scores = Scores::distance(Distance::Kendall, &reference, 0.7)?;
    let model = SpaceModel::new(Permutations::new(6)?, scores)?;
    let (method, run) = (Oracle::default(), Run::default().with_seed(1));

    let log_z = method.log_partition(&model, &run)?.value;
    println!("most likely ranking: {:?}", method.map(&model, &run)?.value.state);
    println!("P(reference) = {:.4}", (-log_z).exp());
    let before = model.restrict(["before 5 0".parse()?])?;
    println!("P(5 before 0) = {:.4}", (method.log_partition(&before, &run)?.value - log_z).exp());
    for ranking in method.sample(&model, 3, &run)?.value.iter() {
        println!("a sample: {ranking:?}");
    }

    // Z = Π_k (1 − q^k)/(1 − q), q = e^{−0.7}.
    let q = (-0.7f64).exp();
    let closed: f64 = (1..=6).map(|k| ((1.0 - q.powi(k)) / (1.0 - q)).ln()).sum();
    assert!((log_z - closed).abs() < 1e-9);
    Ok(())
}
