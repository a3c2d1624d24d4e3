//! Damaged texts and files are parsed or give an error that names the line; they never cause a panic.

use crate::support::input::{answer, names_a_line, small};
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};
use zhat::FactorGraph;
use zhat::io::uai::{parse_evidence, parse_model, write_model};
use zhat::io::{bif, model_file};
use zhat::model::generate::{self, ChainShape, GraphShape, TransitionForm};

/// Invalid tokens that occur by mistake or on purpose.
const STRANGE: [&str; 18] = [
    "",
    "-1",
    "nan",
    "inf",
    "-inf",
    "1e999",
    "1e-999",
    "1e99999999999999999999",
    "0",
    "-0.0",
    "007",
    "+3",
    "0x10",
    "99999999999999999999999999",
    "3.5",
    "é\u{0}",
    "MARKOV",
    ".",
];

/// One change to a text: its kind, its position and a number that determines it.
type Change = (u8, usize, usize);

fn change(bytes: &mut Vec<u8>, (kind, at, with): Change) {
    let length = bytes.len().max(1);
    let (at, other) = (at % length, with % length);
    let end = (at + 1 + with % 40).min(bytes.len());
    let token = |bytes: &[u8], at: usize| {
        let space = |i: &usize| bytes[*i].is_ascii_whitespace();
        let start = (0..at).rev().find(space).map_or(0, |i| i + 1);
        start..(start..bytes.len()).find(space).unwrap_or(bytes.len())
    };
    match kind {
        _ if bytes.is_empty() => {}
        0 => bytes[at] ^= 1 << (with % 8),
        1 => bytes[at] = with as u8,
        2 => drop(bytes.drain(at..end)),
        3 => bytes.truncate(at),
        4 => {
            let piece = bytes[at..end].to_vec();
            bytes.splice(other..other, piece);
        }
        5 => {
            let line = bytes.split_inclusive(|&b| b == b'\n').nth(with % 10).unwrap_or_default().to_vec();
            bytes.splice(at..at, line);
        }
        6 => {
            let (first, second) = (token(bytes, at.min(other)), token(bytes, at.max(other)));
            if first.end <= second.start {
                let (a, b) = (bytes[first.clone()].to_vec(), bytes[second.clone()].to_vec());
                bytes.splice(second, a);
                bytes.splice(first, b);
            }
        }
        _ => drop(bytes.splice(token(bytes, at), STRANGE[with % STRANGE.len()].bytes())),
    }
}

/// Runs `check` on the originals with one to three changes; the changes are the same in every run.
fn mutate(originals: &[Vec<u8>], cases: u32, check: impl Fn(&[u8])) {
    let config = ProptestConfig {
        cases,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(2024),
        ..ProptestConfig::default()
    };
    let changes = prop::collection::vec((0..9u8, any::<usize>(), any::<usize>()), 1..4);
    TestRunner::new(config)
        .run(&(0..originals.len(), changes), |(original, changes)| {
            let mut bytes = originals[original].clone();
            changes.into_iter().for_each(|it| change(&mut bytes, it));
            check(&bytes);
            Ok(())
        })
        .unwrap();
}

fn text(graph: &FactorGraph) -> Vec<u8> {
    let mut text = Vec::new();
    write_model(graph, &mut text).unwrap();
    text
}

/// Small benchmark files with their evidence.
fn real_files(test: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    let Some(data) = crate::support::data(test) else { return Vec::new() };
    let names = ["Promedus/Promedus_29.uai", "Pedigree/Pedigree_13.uai", "Grids/grid10x10.f10.uai"];
    let read = |name: &str| std::fs::read(data.join("uai").join(name)).unwrap();
    names.iter().map(|name| (read(name), read(&format!("{name}.evid")))).collect()
}

#[test]
fn a_damaged_model_is_read_or_refused_with_a_line() {
    let mut originals: Vec<Vec<u8>> =
        crate::support::small_models(14).iter().map(|(_, graph)| text(graph)).collect();
    originals.push(text(&generate::tree(30, 3, 1.0, 1).unwrap()));
    let run = small();
    let (read, refused) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    mutate(&originals, 20_000, |bytes| match parse_model(bytes, "") {
        Ok(graph) => {
            read.set(read.get() + 1);
            answer(&graph, &run);
        }
        Err(error) => {
            refused.set(refused.get() + 1);
            assert!(names_a_line(&error), "{error:?}");
        }
    });
    assert!(read.get() > 300 && refused.get() > 300, "{} read, {} refused", read.get(), refused.get());
}

#[test]
fn damaged_real_models_and_evidence_are_read_or_refused_with_a_line() {
    let files = real_files("damaged real models");
    if files.is_empty() {
        return;
    }
    let models: Vec<Vec<u8>> = files.iter().map(|(model, _)| model.clone()).collect();
    mutate(&models, 500, |bytes| {
        if let Err(error) = parse_model(bytes, "") {
            assert!(names_a_line(&error), "{error:?}");
        }
    });
    for (model, evidence) in &files {
        let graph = parse_model(model, "").unwrap();
        mutate(std::slice::from_ref(evidence), 2000, |bytes| match parse_evidence(bytes, "", &graph) {
            Ok(evidence) => drop(graph.condition(&evidence).unwrap()),
            Err(error) => assert!(names_a_line(&error), "{error:?}"),
        });
    }
}

#[test]
fn damaged_evidence_is_read_or_refused_with_a_line() {
    let graph =
        generate::random(&GraphShape { variables: 20, states: 4, factors: 30, ..Default::default() }, 1)
            .unwrap();
    let originals =
        ["3\n 0 1\n 7 3\n 19 0\n", "1\n2 5 1 6 2\n", "0", "1\n0\n"].map(|text| text.as_bytes().to_vec());
    mutate(&originals, 2000, |bytes| match parse_evidence(bytes, "", &graph) {
        Ok(evidence) => drop(graph.condition(&evidence).unwrap()),
        Err(error) => assert!(names_a_line(&error), "{error:?}"),
    });
}

#[test]
fn a_damaged_model_file_is_read_or_refused() {
    let graphs = crate::support::small_models(7);
    let mut files: Vec<Vec<u8>> =
        graphs.iter().map(|(_, graph)| model_file::to_bytes(&graph.clone().into())).collect();
    for transitions in [
        TransitionForm::Shared,
        TransitionForm::PerStep,
        TransitionForm::Factored { rank: 2, tied: false },
        TransitionForm::LowRank { rank: 2 },
    ] {
        let shape =
            ChainShape { states: 3, steps: 4, batch: 2, ragged: true, transitions, ..Default::default() };
        files.push(model_file::to_bytes(&generate::chain::<f32>(&shape, 1).unwrap().into()));
        files.push(model_file::to_bytes(&generate::chain::<f64>(&shape, 2).unwrap().into()));
        files.push(model_file::to_bytes(&generate::semi_markov::<f64>(&shape, 2, 3).unwrap().into()));
    }
    let run = small();
    mutate(&files, 20_000, |bytes| match model_file::parse(bytes, "m.zhat") {
        Ok(model) => {
            if let Some(graph) = model.get::<FactorGraph>() {
                answer(graph, &run);
            }
        }
        Err(error) => assert!(error.to_string().starts_with("m.zhat: "), "{error}"),
    });
}

/// The network that is mutated; it contains every statement of the format.
const NETWORK: &str = "// weekend
network weekend { property made up; }
variable sun { type discrete [ 2 ] { yes, no }; }
variable plan { property position = (3, 4); type discrete [ 3 ] { lake, \"stay in\", >=2_hills }; }
/* the rest */
probability ( sun ) { table 0.75, 0.25; }
probability ( plan | sun ) { (no) 0, 0.875, .125; default 5e-1, 0.25, 0.25; }
variable tired { type discrete [ 2 ] { yes no }; }
probability ( tired | plan, sun ) { table 0.5 0.25 0 0.125 1 0.5  0.5 0.75 1 0.875 0 0.5; }
";

#[test]
fn a_damaged_network_is_read_or_refused_with_a_line() {
    let mut originals = vec![NETWORK.as_bytes().to_vec()];
    for seed in 0..5 {
        let mut text = Vec::new();
        let graph = generate::bayes(6, 1 + seed as usize, 2, 0.3, seed).unwrap();
        bif::write_model(&graph, &mut text).unwrap();
        originals.push(text);
    }
    let run = small();
    let (read, refused) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    mutate(&originals, 20_000, |bytes| match bif::parse_model(bytes, "") {
        Ok(graph) => {
            read.set(read.get() + 1);
            answer(&graph, &run);
            if bif::check(&graph).is_ok() {
                let mut text = Vec::new();
                bif::write_model(&graph, &mut text).unwrap();
                assert_eq!(bif::parse_model(&text, "").unwrap().names(), graph.names());
            }
        }
        Err(error) => {
            refused.set(refused.get() + 1);
            assert!(names_a_line(&error), "{error:?}");
        }
    });
    assert!(read.get() > 300 && refused.get() > 300, "{} read, {} refused", read.get(), refused.get());
}
