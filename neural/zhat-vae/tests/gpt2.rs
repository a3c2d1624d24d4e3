//! The GPT-2 path, with a tiny model of the same format made here.
#![allow(clippy::unwrap_used, clippy::panic, clippy::needless_range_loop)]

use std::collections::BTreeMap;
use std::path::Path;

use burn_flex::Flex;
use safetensors::tensor::{Dtype, TensorView, serialize};
use zhat::Run;
use zhat_vae::config::{EncoderKind, ModelConfig, TrainConfig};
use zhat_vae::gpt2::{Gpt2, Tokenizer, Weights};
use zhat_vae::posterior::Engine;
use zhat_vae::text::{Lines, Vocabulary};
use zhat_vae::train::{Limits, Outputs, Trainer, beginning};

const SIZE: usize = 8;
const HEADS: usize = 2;
const LAYERS: usize = 2;

/// Letters, a few merges, and the mark. A space is written Ġ.
fn vocabulary() -> Vec<String> {
    let mut pieces: Vec<String> = ('a'..='z').map(String::from).collect();
    pieces.extend([".", "Ġ", "th", "the", "Ġthe", "Ġa", "ca", "cat", "<|endoftext|>"].map(String::from));
    pieces
}

fn weights(pieces: usize) -> BTreeMap<String, (Vec<usize>, Vec<f32>)> {
    let mut shapes =
        vec![("wte.weight".to_owned(), vec![pieces, SIZE]), ("wpe.weight".to_owned(), vec![64, SIZE])];
    for layer in 0..LAYERS {
        for (name, shape) in [
            ("ln_1.weight", vec![SIZE]),
            ("ln_1.bias", vec![SIZE]),
            ("attn.c_attn.weight", vec![SIZE, 3 * SIZE]),
            ("attn.c_attn.bias", vec![3 * SIZE]),
            ("attn.c_proj.weight", vec![SIZE, SIZE]),
            ("attn.c_proj.bias", vec![SIZE]),
            ("ln_2.weight", vec![SIZE]),
            ("ln_2.bias", vec![SIZE]),
            ("mlp.c_fc.weight", vec![SIZE, 4 * SIZE]),
            ("mlp.c_fc.bias", vec![4 * SIZE]),
            ("mlp.c_proj.weight", vec![4 * SIZE, SIZE]),
            ("mlp.c_proj.bias", vec![SIZE]),
        ] {
            shapes.push((format!("h.{layer}.{name}"), shape));
        }
    }
    shapes.extend([("ln_f.weight".to_owned(), vec![SIZE]), ("ln_f.bias".to_owned(), vec![SIZE])]);
    let mut random = zhat::random::Streams::new(1, "a tiny GPT-2").block(0);
    shapes
        .into_iter()
        .map(|(name, shape)| {
            let values = (0..shape.iter().product()).map(|_| (0.4 * random.normal()) as f32).collect();
            (name, (shape, values))
        })
        .collect()
}

/// Writes the four files.
fn write(folder: &Path, pieces: &[String], weights: &BTreeMap<String, (Vec<usize>, Vec<f32>)>) {
    let index: serde_json::Map<String, serde_json::Value> =
        pieces.iter().enumerate().map(|(i, piece)| (piece.clone(), i.into())).collect();
    std::fs::write(folder.join("vocab.json"), serde_json::to_string(&index).unwrap()).unwrap();
    std::fs::write(folder.join("merges.txt"), "#version: 0.2\nt h\nth e\nĠ the\nĠ a\nc a\nca t\n").unwrap();
    std::fs::write(folder.join("config.json"), format!("{{\"n_head\": {HEADS}}}")).unwrap();
    let bytes: Vec<(String, Vec<usize>, Vec<u8>)> = weights
        .iter()
        .map(|(name, (shape, values))| {
            (
                format!("transformer.{name}"),
                shape.clone(),
                values.iter().flat_map(|x| x.to_le_bytes()).collect(),
            )
        })
        .collect();
    let views = bytes
        .iter()
        .map(|(name, shape, data)| (name.clone(), TensorView::new(Dtype::F32, shape.clone(), data).unwrap()));
    std::fs::write(folder.join("model.safetensors"), serialize(views, None).unwrap()).unwrap();
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let pieces = vocabulary();
    write(folder.path(), &pieces, &weights(pieces.len()));
    folder
}

#[test]
fn pieces_are_merged_as_the_file_says() {
    let folder = folder();
    let tokenizer = Tokenizer::read(folder.path()).unwrap();
    let (pieces, numbers) = tokenizer.split("cat the a.").unwrap();
    assert_eq!(pieces, ["cat", "Ġthe", "Ġa", "."]);
    let all = vocabulary();
    assert!(numbers.iter().zip(&pieces).all(|(&n, piece)| all[n as usize] == *piece));
    assert_eq!(all[tokenizer.end() as usize], "<|endoftext|>");
}

/// GPT-2 with loops over numbers.
fn by_hand(weights: &BTreeMap<String, (Vec<usize>, Vec<f32>)>, pieces: &[u32]) -> Vec<Vec<f64>> {
    let get = |name: &str| -> Vec<f64> { weights[name].1.iter().map(|&x| f64::from(x)).collect() };
    let linear = |name: &str, x: &[f64]| -> Vec<f64> {
        let (weight, bias) = (get(&format!("{name}.weight")), get(&format!("{name}.bias")));
        let out = bias.len();
        (0..out).map(|j| bias[j] + (0..x.len()).map(|i| x[i] * weight[i * out + j]).sum::<f64>()).collect()
    };
    let norm = |name: &str, x: &[f64]| -> Vec<f64> {
        let (scale, shift) = (get(&format!("{name}.weight")), get(&format!("{name}.bias")));
        let mean = x.iter().sum::<f64>() / SIZE as f64;
        let variance = x.iter().map(|a| (a - mean).powi(2)).sum::<f64>() / SIZE as f64;
        (0..SIZE).map(|i| (x[i] - mean) / (variance + 1e-5).sqrt() * scale[i] + shift[i]).collect()
    };
    let gelu =
        |x: f64| 0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x)).tanh());
    let (words, places) = (get("wte.weight"), get("wpe.weight"));
    let mut rows: Vec<Vec<f64>> = pieces
        .iter()
        .enumerate()
        .map(|(t, &p)| (0..SIZE).map(|i| words[p as usize * SIZE + i] + places[t * SIZE + i]).collect())
        .collect();
    let each = SIZE / HEADS;
    for layer in 0..LAYERS {
        let name = |part: &str| format!("h.{layer}.{part}");
        let all: Vec<Vec<f64>> =
            rows.iter().map(|x| linear(&name("attn.c_attn"), &norm(&name("ln_1"), x))).collect();
        for t in 0..rows.len() {
            let mut joined = vec![0.0; SIZE];
            for head in 0..HEADS {
                let at = |row: usize, part: usize, i: usize| all[row][part * SIZE + head * each + i];
                let scores: Vec<f64> = (0..=t)
                    .map(|s| (0..each).map(|i| at(t, 0, i) * at(s, 1, i)).sum::<f64>() / (each as f64).sqrt())
                    .collect();
                let total: f64 = scores.iter().map(|x| x.exp()).sum();
                for i in 0..each {
                    joined[head * each + i] = (0..=t).map(|s| scores[s].exp() / total * at(s, 2, i)).sum();
                }
            }
            let add = linear(&name("attn.c_proj"), &joined);
            rows[t].iter_mut().zip(add).for_each(|(x, y)| *x += y);
        }
        for row in &mut rows {
            let wide: Vec<f64> =
                linear(&name("mlp.c_fc"), &norm(&name("ln_2"), row)).into_iter().map(gelu).collect();
            let add = linear(&name("mlp.c_proj"), &wide);
            row.iter_mut().zip(add).for_each(|(x, y)| *x += y);
        }
    }
    rows.iter().map(|row| norm("ln_f", row)).collect()
}

#[test]
fn features_agree_with_loops_over_numbers() {
    let folder = folder();
    let tokenizer = Tokenizer::read(folder.path()).unwrap();
    let read = Weights::read(folder.path(), &tokenizer).unwrap();
    let gpt2 = Gpt2::<Flex>::new(&read, &Default::default());
    let sentences = vec![vec![3, 30, 31, 26], vec![33, 2, 2, 34]];
    let found: Vec<f64> = gpt2.features(&sentences).into_data().iter::<f64>().collect();
    let own = weights(vocabulary().len());
    let wanted: Vec<f64> = sentences.iter().flat_map(|pieces| by_hand(&own, pieces)).flatten().collect();
    assert_eq!(found.len(), wanted.len());
    for (a, b) in found.iter().zip(&wanted) {
        assert!((a - b).abs() < 1e-4, "{a} and {b}");
    }
}

#[test]
fn a_model_trains_on_its_features() {
    let folder = folder();
    let tokenizer = Tokenizer::read(folder.path()).unwrap();
    let read = Weights::read(folder.path(), &tokenizer).unwrap();
    let text = folder.path().join("text");
    std::fs::write(&text, "the cat sat.\na cat ran.\nthe dog sat.\n".repeat(30)).unwrap();
    let lines = Lines::read(&text, 20, Some(&tokenizer)).unwrap();
    let words = Vocabulary::count(lines.sentences.iter(), 1);
    let corpus = lines.corpus(&words);
    assert_eq!(corpus.pieces[0].len(), corpus.sentences[0].len());
    let config = ModelConfig {
        states: 4,
        units: 12,
        state_size: 4,
        encoder: EncoderKind::Gpt2,
        gpt2: Some(folder.path().to_owned()),
    };
    let settings = TrainConfig { rate: 0.01, warm_up: 20, batch: 16, ..TrainConfig::default() };
    let first = beginning(&config, &settings, words.words(), 20, &corpus, Some(&read));
    let mut trainer = Trainer::<Flex>::new(
        &corpus,
        &corpus,
        first,
        Some(&read),
        Engine::Library,
        Default::default(),
        Run::default(),
    )
    .unwrap();
    let before = trainer.judge(&corpus).unwrap().bound();
    let outputs = Outputs { quiet: true, keep_every: 1e9, ..Outputs::default() };
    trainer.train(&Limits { steps: Some(50), ..Limits::default() }, &outputs).unwrap();
    let after = trainer.judge(&corpus).unwrap().bound();
    assert!(after > before + 3.0, "{before} to {after}");
}

#[test]
fn files_that_do_not_fit_are_named() {
    let message = |folder: &Path| {
        let tokenizer = match Tokenizer::read(folder) {
            Ok(tokenizer) => tokenizer,
            Err(error) => return format!("{error:#}"),
        };
        format!("{:#}", Weights::read(folder, &tokenizer).unwrap_err())
    };
    let pieces = vocabulary();
    // Weights of a model with another vocabulary.
    let other = folder();
    write(other.path(), &pieces, &weights(pieces.len() + 3));
    assert!(message(other.path()).contains("different models"), "{}", message(other.path()));
    // A tensor that is missing or of another shape.
    let mut less = weights(pieces.len());
    less.remove("h.1.mlp.c_fc.bias");
    write(other.path(), &pieces, &less);
    assert!(message(other.path()).contains("h.1.mlp.c_fc.bias"));
    let mut wrong = weights(pieces.len());
    wrong.insert("h.0.ln_1.bias".into(), (vec![2], vec![0.0; 2]));
    write(other.path(), &pieces, &wrong);
    assert!(message(other.path()).contains("h.0.ln_1.bias"));
    // A truncated file, and missing ones.
    write(other.path(), &pieces, &weights(pieces.len()));
    let path = other.path().join("model.safetensors");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 7]).unwrap();
    assert!(message(other.path()).contains("damaged"));
    for name in ["model.safetensors", "config.json", "merges.txt", "vocab.json"] {
        std::fs::remove_file(other.path().join(name)).unwrap();
        assert!(message(other.path()).contains(name), "{}", message(other.path()));
    }
}
