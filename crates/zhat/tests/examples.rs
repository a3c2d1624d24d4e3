//! Runs every example.

#![allow(missing_docs)]

#[path = "../examples/bayesian_network.rs"]
mod bayesian_network;
#[path = "../examples/certified_interval.rs"]
mod certified_interval;
#[path = "../examples/chain_gradient.rs"]
mod chain_gradient;
#[path = "../examples/learn_from_table.rs"]
mod learn_from_table;
#[path = "../examples/own_model.rs"]
mod own_model;
#[path = "../examples/ranking.rs"]
mod ranking;
#[path = "../examples/segmentation.rs"]
mod segmentation;

#[test]
fn bayesian_network_runs() {
    bayesian_network::main().unwrap();
}

#[test]
fn certified_interval_runs() {
    certified_interval::main().unwrap();
}

#[test]
fn chain_gradient_runs() {
    chain_gradient::main().unwrap();
}

#[test]
fn learn_from_table_runs() {
    learn_from_table::main().unwrap();
}

#[test]
fn own_model_runs() {
    own_model::main().unwrap();
}

#[test]
fn ranking_runs() {
    ranking::main().unwrap();
}

#[test]
fn segmentation_runs() {
    segmentation::main().unwrap();
}

#[test]
fn every_example_is_run() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
    let this = include_str!("examples.rs");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        assert!(this.contains(&format!("{name}::main()")), "{name} is not run");
    }
}
