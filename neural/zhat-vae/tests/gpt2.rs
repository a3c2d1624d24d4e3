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

/// The bytes of a number that has this type exactly.
fn bytes_of(x: f32, kind: Dtype) -> Vec<u8> {
    let bits = x.to_bits();
    match kind {
        Dtype::F32 => x.to_le_bytes().to_vec(),
        // The first 16 bits.
        Dtype::BF16 => {
            assert_eq!(bits & 0xffff, 0, "{x}");
            ((bits >> 16) as u16).to_le_bytes().to_vec()
        }
        Dtype::F16 => {
            let sign = (bits >> 16 & 0x8000) as u16;
            if x == 0.0 {
                return sign.to_le_bytes().to_vec();
            }
            let (exponent, fraction) = ((bits >> 23 & 255) as i32 - 127, bits & 0x7f_ffff);
            assert!((-14..=15).contains(&exponent) && fraction & 0x1fff == 0, "{x}");
            (sign | ((exponent + 15) as u16) << 10 | (fraction >> 13) as u16).to_le_bytes().to_vec()
        }
        other => panic!("{other:?}"),
    }
}

/// Writes the four files.
fn write(folder: &Path, pieces: &[String], weights: &BTreeMap<String, (Vec<usize>, Vec<f32>)>) {
    write_as(folder, pieces, weights, Dtype::F32);
}

fn write_as(
    folder: &Path,
    pieces: &[String],
    weights: &BTreeMap<String, (Vec<usize>, Vec<f32>)>,
    kind: Dtype,
) {
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
                values.iter().flat_map(|&x| bytes_of(x, kind)).collect(),
            )
        })
        .collect();
    let views = bytes
        .iter()
        .map(|(name, shape, data)| (name.clone(), TensorView::new(kind, shape.clone(), data).unwrap()));
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
fn files_with_numbers_of_16_bits_are_read() {
    // Multiples of 1/64 up to 2 are numbers of all three types.
    let pieces = vocabulary();
    let mut own = weights(pieces.len());
    for (_, values) in own.values_mut() {
        values.iter_mut().for_each(|x| *x = (*x * 64.0).round().clamp(-127.0, 127.0) / 64.0);
    }
    let sentences = vec![vec![3, 30, 31, 26], vec![33, 2, 2, 34]];
    let wanted: Vec<f64> = sentences.iter().flat_map(|pieces| by_hand(&own, pieces)).flatten().collect();
    let found = [Dtype::F32, Dtype::F16, Dtype::BF16].map(|kind| -> Vec<f64> {
        let folder = tempfile::tempdir().unwrap();
        write_as(folder.path(), &pieces, &own, kind);
        let tokenizer = Tokenizer::read(folder.path()).unwrap();
        let read = Weights::read(folder.path(), &tokenizer).unwrap();
        let gpt2 = Gpt2::<Flex>::new(&read, &Default::default());
        gpt2.features(&sentences).into_data().iter::<f64>().collect()
    });
    assert!(found[0] == found[1] && found[0] == found[2]);
    assert_eq!(found[0].len(), wanted.len());
    for (a, b) in found[0].iter().zip(&wanted) {
        assert!((a - b).abs() < 1e-4, "{a} and {b}");
    }
}

/// Training, evaluation, tags, posteriors and resumption through the program.
#[test]
fn the_program_trains_and_uses_a_model_on_its_features() {
    let folder = folder();
    let at = folder.path();
    std::fs::write(at.join("text"), "the cat sat.\na cat ran.\nthe dog sat.\n".repeat(30)).unwrap();
    let works = |arguments: &[&str]| works_in(at, arguments);
    let train = |model: &str, epochs: &str, more: &[&str]| {
        let base =
            ["train", "text", "-q", "-o", model, "--epochs", epochs, "--encoder", "gpt2", "--gpt2", "."];
        let small =
            ["--states", "4", "--units", "12", "--state-size", "4", "--batch", "16", "--min-count", "1"];
        works(&[&base[..], &small, more].concat())
    };
    train("m", "2", &[]);
    let evaluated = works(&["eval", "m", "text", "--samples", "10"]);
    let nll: f64 = evaluated.split_whitespace().nth(2).unwrap().parse().unwrap();
    // About ten pieces of 20 or so.
    assert!((3.0..60.0).contains(&nll), "{evaluated}");
    assert!(evaluated.contains(" per piece\n") && evaluated.contains("\nsentences, pieces "), "{evaluated}");
    // New sentences are text; their pieces are shown with their states only.
    let new = works(&["sample", "m", "-n", "20"]);
    assert!(new.lines().count() == 20 && !new.contains('Ġ'), "{new}");
    let pieces = works(&["sample", "m", "-n", "20", "--states"]);
    for (line, pieces) in new.lines().zip(pieces.lines()) {
        let pieces: Vec<&str> = pieces.split(' ').filter(|x| !x.is_empty()).map(|x| pair(x).0).collect();
        assert_eq!(pieces.concat().replace('Ġ', " ").trim(), line);
    }
    let tags = works(&["tag", "m", "text"]);
    assert_eq!(tags.lines().count(), 90);
    let pairs: Vec<(&str, usize)> = tags.lines().next().unwrap().split(' ').map(pair).collect();
    let pieces: Vec<&str> = pairs.iter().map(|pair| pair.0).collect();
    assert_eq!(pieces.concat().replace('Ġ', " "), "the cat sat.");
    // The best paths of the posterior are the tags.
    works(&["posterior", "m", "text", "-o", "q.zhat"]);
    let chain = zhat::io::read_model(&at.join("q.zhat")).unwrap();
    let chain = chain.get::<zhat::Chain<f32>>().unwrap();
    assert_eq!((chain.batch(), chain.states()), (90, 4));
    let best = zhat::Map::map(&zhat::dynamic::ForwardBackward::default(), chain, &Run::default()).unwrap();
    let states: Vec<usize> = pairs.iter().map(|pair| pair.1).collect();
    assert_eq!(best.value[0].states[..states.len()], states);
    // A run that is resumed ends like one that was not interrupted.
    train("m", "4", &["--resume"]);
    train("whole", "4", &[]);
    let read = |name: &str| zhat_vae::checkpoint::Checkpoint::read(&at.join(name)).unwrap();
    let (whole, resumed) = (read("whole.state"), read("m.state"));
    assert!(whole.progress.step > 0 && whole.progress.step == resumed.progress.step);
    assert!(whole.parameters == resumed.parameters && whole.moments == resumed.moments);
}

fn works_in(folder: &Path, arguments: &[&str]) -> String {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_zhat-vae"));
    let found = command.args(arguments).current_dir(folder).output().unwrap();
    assert!(found.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&found.stderr));
    String::from_utf8(found.stdout).unwrap()
}

#[test]
fn a_model_finds_its_own_gpt2_only() {
    let folder = folder();
    let at = folder.path();
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::write(at.join("text"), "the cat sat.\na cat ran.\nthe dog sat.\n".repeat(20)).unwrap();
    let train = |epochs: &str, more: &[&str]| {
        let base = ["train", "text", "-q", "-o", "m", "--epochs", epochs, "--encoder", "gpt2"];
        let small =
            ["--states", "3", "--units", "8", "--state-size", "3", "--batch", "16", "--min-count", "1"];
        [&base[..], &small, more].concat().iter().map(|x| (*x).to_owned()).collect::<Vec<String>>()
    };
    let strings = |list: &[String]| list.iter().map(String::as_str).collect::<Vec<&str>>().join("\n");
    let run =
        |folder: &Path, list: &[String]| works_in(folder, &strings(list).split('\n').collect::<Vec<&str>>());
    run(at, &train("1", &["--gpt2", "."]));
    let fails = |folder: &Path, arguments: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_zhat-vae"));
        let found = command.args(arguments).current_dir(folder).output().unwrap();
        assert_eq!(found.status.code(), Some(2), "{arguments:?}");
        String::from_utf8(found.stderr).unwrap()
    };
    // A relative folder was named, and the program runs in another one.
    let path = |name: &str| at.join(name).display().to_string();
    let (model, text) = (path("m"), path("text"));
    let other = elsewhere.path();
    let tags = works_in(other, &["tag", &model, &text]);
    assert_eq!(works_in(other, &["sample", &model, "-n", "2"]).lines().count(), 2);
    // Weights of the same shape that are not those of the model.
    let pieces = vocabulary();
    let mut others = weights(pieces.len());
    others.get_mut("wpe.weight").unwrap().1[5] += 0.1;
    write(other, &pieces, &others);
    let resumed = train("2", &["--resume", "--gpt2", &other.display().to_string()]);
    let of_others: [&[&str]; 4] = [
        &["tag", &model, &text, "--gpt2", "."],
        &["eval", &model, &text, "--gpt2", "."],
        &["sample", &model, "--gpt2", "."],
        &["posterior", &model, &text, "--gpt2", ".", "-o", "q.zhat"],
    ];
    for arguments in of_others {
        let found = fails(other, arguments);
        assert!(found.contains("another GPT-2") && found.contains("--gpt2 FOLDER"), "{found}");
    }
    let found = fails(at, &strings(&resumed).split('\n').collect::<Vec<&str>>());
    assert!(found.contains("another GPT-2"), "{found}");
    // The right ones in another place; where they were, they are missing.
    write(other, &pieces, &weights(pieces.len()));
    for name in ["model.safetensors", "config.json", "merges.txt", "vocab.json"] {
        std::fs::remove_file(at.join(name)).unwrap();
    }
    let found = fails(other, &["tag", &model, &text]);
    assert!(found.contains("--gpt2 FOLDER") && found.contains("vocab.json"), "{found}");
    assert_eq!(works_in(other, &["tag", &model, &text, "--gpt2", "."]), tags);
    run(at, &resumed);
    // The resumed run knows the new place.
    works_in(at, &["tag", &model, &text]);
}

/// A piece and its state.
fn pair(text: &str) -> (&str, usize) {
    let (piece, state) = text.rsplit_once('/').unwrap();
    (piece, state.parse().unwrap())
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
