//! A small Bayesian network with named states: the probabilities of the causes given an observation.
//!
//! Run it with `cargo run --example bayesian_network`.

use zhat::exact::Elimination;
use zhat::model::NetworkType;
use zhat::{FactorGraph, LogPartition, Map, Marginals, Result, Run};

pub(crate) fn main() -> Result<()> {
    let names = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
    let no_yes = names(&["no", "yes"]);
    let mut network = FactorGraph::new(vec![2, 2, 2])?
        .with_network_type(NetworkType::Bayes)
        .with_names(names(&["rain", "sprinkler", "wet"]), vec![no_yes.clone(), no_yes.clone(), no_yes])?;
    // Tables hold logarithms; the child is the last variable of its scope.
    let log = |weights: &[f64]| weights.iter().map(|p| p.ln()).collect::<Vec<_>>();
    network.add_factor(&[0], &log(&[0.8, 0.2]))?;
    network.add_factor(&[0, 1], &log(&[0.6, 0.4, 0.99, 0.01]))?;
    network.add_factor(&[0, 1, 2], &log(&[1.0, 0.0, 0.1, 0.9, 0.2, 0.8, 0.01, 0.99]))?;

    let (method, run) = (Elimination::default(), Run::default());
    let wet = network.condition(&[(2, 1)])?;
    let evidence = method.log_partition(&wet, &run)?;
    println!("P(wet) = {:.4}", evidence.value.exp());
    let marginals = method.marginals(&wet, &run)?.value;
    for v in 0..2 {
        println!("P({} | wet) = {:.4}", network.variable_name(v), marginals.variable(v)[1]);
    }
    let best = method.map(&wet, &run)?.value;
    println!("most likely: {:?}, probability {:.4}", best.state, (best.score - evidence.value).exp());

    // 0.8·0.4·0.9 + 0.2·0.99·0.8 + 0.2·0.01·0.99
    assert!((evidence.value.exp() - 0.44838).abs() < 1e-12);
    Ok(())
}
