//! Tests of the model files.

use super::*;
use crate::model::generate::{self, ChainShape, GraphShape, TransitionForm};
use crate::model::{
    FactorGraph, Family, Grammar, Interactions, MixedModel, PairwiseGraph, Segments, SemiMarkov, SequenceMrf,
    Transitions,
};

fn models() -> Vec<Model> {
    let plain = generate::random(
        &GraphShape { variables: 6, states: 3, factors: 8, arity: 3, strength: 2.0, zeros: 0.3 },
        5,
    )
    .unwrap();
    let names = |prefix: &str, n: usize| (0..n).map(|i| format!("{prefix}{i}")).collect::<Vec<_>>();
    let named = generate::bayes(4, 2, 2, 0.0, 1).unwrap();
    let named = named.with_names(names("v", 4), vec![names("s", 2), vec![], vec![], names("t", 2)]).unwrap();
    let given = named.condition(&[(2, 1)]).unwrap();
    let mut models: Vec<Model> =
        [plain, named, given, FactorGraph::new(vec![]).unwrap()].map(Model::from).into();
    let shape = ChainShape { states: 2, steps: 3, batch: 2, ragged: true, zeros: 0.3, ..Default::default() };
    for transitions in [
        TransitionForm::Shared,
        TransitionForm::PerStep,
        TransitionForm::Factored { rank: 2, tied: true },
        TransitionForm::Factored { rank: 3, tied: false },
        TransitionForm::LowRank { rank: 3 },
    ] {
        let shape = ChainShape { transitions, ..shape };
        models.push(generate::chain::<f32>(&shape, 1).unwrap().into());
        models.push(generate::chain::<f64>(&shape, 2).unwrap().into());
        models.push(generate::semi_markov::<f32>(&shape, 2, 3).unwrap().into());
    }
    let chain = generate::chain::<f64>(&shape, 4).unwrap();
    let places = (0..24).map(f64::from).collect::<Vec<_>>();
    models.push(SemiMarkov::new(chain, Segments::Places(places.into()), 2).unwrap().into());
    models.push(generate::chain::<f64>(&ChainShape { steps: 1, ..shape }, 5).unwrap().into());
    let edges = vec![(0, 1), (2, 1)];
    for interactions in [
        Transitions::Shared(vec![0.5, 1.0, f64::NEG_INFINITY, 2.0].into()),
        Transitions::PerStep(vec![0.25; 8].into()),
        Transitions::Factored { left: vec![0.5; 6].into(), right: None },
    ] {
        let nodes = vec![0.125; 6].into();
        models.push(PairwiseGraph::new(2, nodes, edges.clone(), interactions).unwrap().into());
    }
    let alone = Transitions::Shared(vec![0.0f32; 4].into());
    models.push(PairwiseGraph::new(2, vec![1.0f32; 2].into(), vec![], alone).unwrap().into());
    let mixture = MixedModel::gaussian_mixture(&[0.25, 1.0], &[0.0, 1.5], &[1.0, 2.0], (-3.0, 4.0));
    models.push(mixture.unwrap().into());
    models.push(Family::Weibull { shape: 1.5, scale: 2.0 }.on((0.1, 9.0)).unwrap().into());
    models.push(Family::Beta { alpha: 2.0, beta: 3.5 }.on((0.1, 0.9)).unwrap().into());
    models.push(MixedModel::new(vec![], vec![]).unwrap().into());
    let embeddings = Interactions::LowRank { rank: 1, left: vec![0.5; 3], right: vec![vec![-1.0; 3]; 2] };
    for interactions in [embeddings, Interactions::Full(vec![vec![f32::NEG_INFINITY; 9]])] {
        models.push(SequenceMrf::new(4, vec![0.5, 1.0, f64::NEG_INFINITY], interactions).unwrap().into());
    }
    let grammar = "S -> S 'x' S 0.4 | 'a' [0.6]  # \"quotes\"";
    models.push(Grammar::parse(grammar, "").unwrap().into());
    models.extend(crate::model::space::file::examples().into_iter().map(Model::from));
    models
}

#[test]
fn what_is_written_is_read_back_to_the_bit() {
    for model in models() {
        let bytes = to_bytes(&model);
        assert!(looks_like(&bytes));
        assert_eq!(bytes.len(), length(&model));
        assert_eq!(parse(&bytes, "").unwrap(), model);
        assert_eq!(to_bytes(&model), bytes);
    }
}

#[test]
fn cut_or_altered_files_are_refused_or_read_but_never_panic() {
    for model in models() {
        let bytes = to_bytes(&model);
        for length in 0..bytes.len() {
            assert!(parse(&bytes[..length], "").is_err());
        }
        for at in 0..bytes.len() {
            for value in [0, 0xff, b'9', bytes[at] ^ 1] {
                let mut altered = bytes.clone();
                altered[at] = value;
                let _ = parse(&altered, "");
            }
        }
    }
}

/// The error message for a file in which one header text is replaced by another of the same length.
fn refusal(model: &Model, from: &str, to: &str) -> String {
    let mut bytes = to_bytes(model);
    let at = bytes.windows(from.len()).position(|w| w == from.as_bytes()).unwrap();
    bytes[at..at + from.len()].copy_from_slice(to.as_bytes());
    parse(&bytes, "m.zhat").unwrap_err().to_string()
}

#[test]
fn a_newer_version_and_a_strange_kind_are_named() {
    let replaced = |from: &str, to: &str| refusal(&models()[0], from, to);
    assert!(replaced("\"zhat\":\"1\"", "\"zhat\":\"9\"").contains("version 9"));
    assert!(replaced("factor-graph", "factor-grape").contains("`factor-grape`"));
    assert!(replaced("\"zhat\"", "\"that\"").contains("no version"));
    assert!(replaced("\"scopes\"", "\"scoops\"").contains("`scopes` is missing"));
}

#[test]
fn tensors_of_sequences_that_do_not_fit_are_named_with_what_was_expected() {
    let models = models();
    let dense = &models[4];
    assert_eq!(dense.kind(), crate::model::Chain::KIND);
    for (from, to, words) in [
        ("\"emissions\"", "\"omissions\"", "`emissions` is missing"),
        ("\"start\"", "\"stall\"", "`start` is missing"),
        ("\"lengths\"", "\"strengs\"", "`lengths` is missing"),
        ("\"transitions\"", "\"transmitted\"", "`transitions`, `left` or `log_left` is missing"),
        ("[2,3,2]", "[3,2,2]", "`lengths` has shape [2], expected [B] = [3]"),
        ("[2,3,2]", "[2,2,3]", "`start` has shape [2], expected [N] = [3]"),
        ("[2,3,2]", "[1,12 ]", "`emissions` has shape [1, 12], expected [B, T, N]"),
        ("[2,2]", "[4]  ", "`transitions` has shape [4], expected [N, N] = [2, 2] or [T − 1, N, N]"),
        ("[2,2]", "[4,1]", "`transitions` has shape [4, 1], expected [N, N] = [2, 2]"),
        ("\"U64\"", "\"I64\"", "`lengths` has type I64, expected U64"),
    ] {
        let message = refusal(dense, from, to);
        assert!(message.contains(words) && message.starts_with("m.zhat: "), "{message}");
    }
    let per_step = &models[7];
    assert!(refusal(per_step, "[2,2,2]", "[4,2,1]").contains("expected [T − 1, N, N] = [2, 2, 2]"));
    let factored = &models[13];
    assert!(refusal(factored, "[2,3]", "[3,2]").contains("`left` has shape [3, 2], expected [N, D]"));
    assert!(refusal(factored, "\"left\"", "\"lift\"").contains("`left` or `log_left` is missing"));
    let low_rank = &models[16];
    assert!(refusal(low_rank, "[2,3]", "[3,2]").contains("`log_left` has shape [3, 2], expected [N, R]"));
    assert!(refusal(low_rank, "\"log_right\"", "\"log_light\"").contains("`log_right` is missing"));
    let semi_markov = &models[6];
    assert!(refusal(semi_markov, "\"segments\"", "\"sagments\"").contains("`segments` is missing"));
    // The data contain a length that no sequence can have.
    let mut bytes = to_bytes(dense);
    let at = bytes.windows(8).position(|w| w == 3u64.to_le_bytes()).unwrap();
    bytes[at] = 4;
    let message = parse(&bytes, "").unwrap_err().to_string();
    assert!(message.contains("lengths: sequence 0 has length 4, expected 1 to 3"), "{message}");
}
