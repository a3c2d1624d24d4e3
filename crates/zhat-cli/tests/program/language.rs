//! `zhat lm`: training on a text, evaluation, sampling, embeddings.

use crate::support::Folder;

fn text(sentences: usize) -> String {
    let subjects = ["the cat", "a dog", "the old man", "she"];
    let verbs = ["sees", "has", "wants"];
    let objects = ["the cat", "a house", "bread", "the old dog"];
    (0..sentences)
        .map(|i| format!("{} {} {}\n", subjects[i % 4], verbs[i / 2 % 3], objects[i * 7 / 3 % 4]))
        .collect()
}

#[test]
fn a_model_is_trained_evaluated_and_used() {
    let folder = Folder::new("lm");
    std::fs::write(folder.path().join("train.txt"), text(200)).unwrap();
    std::fs::write(folder.path().join("valid.txt"), text(37)).unwrap();
    let learn = |more: &str| {
        let line = format!("lm train train.txt --valid valid.txt --rank 4 --iterations 40 {more}");
        folder.json(&line.split_whitespace().collect::<Vec<_>>())
    };
    for more in [
        "-o m.zhat",
        "-K 2 --bound star -o s.zhat",
        "-K 2 --shares 0.8,0.2 -o t.zhat",
        "-K 2 --rotations -o r.zhat",
    ] {
        let learned = learn(more);
        assert_eq!(learned["valid"]["guarantee"]["kind"], "bounds");
        assert!(learned["valid"]["per_word"].as_f64().unwrap() < 0.0, "{learned}");
    }
    let learned = learn("-o again.zhat");
    let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
    assert!(read("m.zhat") == read("again.zhat"));
    let score = folder.json(&["lm", "eval", "m.zhat", "valid.txt", "--pseudo"]);
    assert_eq!(score["per_word"], learned["valid"]["per_word"]);
    assert!(score["pseudo_log_likelihood"].as_f64().unwrap() < 0.0);
    let plain = folder.ok(&["lm", "eval", "m.zhat", "valid.txt"]);
    assert!(plain.contains("certified") && plain.contains("37 sentences"), "{plain}");
    // log Z of the model for a cycle of the text's length.
    let bound = folder.json(&["logz", "m.zhat", "--method", "spectral"]);
    let exact = folder.json(&["logz", "m.zhat"]);
    assert_eq!(exact["guarantee"]["kind"], "exact");
    assert!(exact["value"].as_f64().unwrap() <= bound["value"].as_f64().unwrap());
    let near = folder.json(&["lm", "neighbours", "m.zhat", "cat", "she", "-n", "3"]);
    assert_eq!(near["words"][1]["neighbours"].as_array().unwrap().len(), 3);
    let sentences = folder.ok(&["lm", "sample", "m.zhat", "-n", "5", "--sweeps", "3", "--seed", "1"]);
    assert_eq!(sentences.lines().count(), 5);
    let table = folder.ok(&["lm", "export", "m.zhat"]);
    assert_eq!(table.lines().next().unwrap().split(' ').nth(1), Some("4"));
    assert_eq!(table.lines().nth(1).unwrap().split(' ').count(), 5);
    folder.ok(&["lm", "export", "m.zhat", "-o", "m.safetensors"]);
    let bytes = read("m.safetensors");
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    let words: Vec<String> = serde_json::from_str(header["__metadata__"]["words"].as_str().unwrap()).unwrap();
    assert_eq!(header["embeddings"]["shape"], serde_json::json!([words.len(), 4]));
    assert_eq!(bytes.len(), 8 + length + 16 * words.len());
    // The same numbers as in the text export.
    let first: f32 = table.lines().nth(1).unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    assert_eq!(bytes[8 + length..12 + length], first.to_le_bytes());
    assert!(table.lines().nth(1).unwrap().starts_with(&words[0]));
    assert_ne!(folder.run(&["lm", "export", "m.zhat", "--format", "safetensors"]).status(), 0);
}

#[test]
fn annealed_estimates_state_their_uncertainty() {
    let folder = Folder::new("lm-annealed");
    std::fs::write(folder.path().join("train.txt"), text(200)).unwrap();
    folder.ok(&["lm", "train", "train.txt", "--rank", "4", "--iterations", "40", "-o", "m.zhat"]);
    let told = folder.ok(&["lm", "eval", "m.zhat", "train.txt", "--annealed", "1"]);
    for words in
        ["standard error of Ẑ", "certified, and", "95% confidence", "warning", "effective sample size"]
    {
        assert!(told.contains(words), "{told}");
    }
    let score = folder.json(&["lm", "eval", "m.zhat", "train.txt", "--annealed"]);
    let figure = |name: &str| score["annealed"][name].as_f64().unwrap();
    assert_eq!(score["annealed_per_word"], score["annealed"]["per_word"]);
    assert!(figure("lower_per_word") <= figure("upper_per_word") && figure("levels") >= 16.0, "{score}");
    assert!(figure("effective_sample_size") >= 1.0);
    assert!(score["annealed"]["guarantee"]["relative_std_error"].as_f64().unwrap() >= 0.0);
}

#[test]
fn models_by_stochastic_gradients_are_trained_and_evaluated() {
    let folder = Folder::new("lm-baselines");
    std::fs::write(folder.path().join("train.txt"), text(200)).unwrap();
    std::fs::write(folder.path().join("valid.txt"), text(37)).unwrap();
    let learn = |more: &str| {
        let line = format!("lm train train.txt --valid valid.txt -K 2 --rank 4 --epochs 2 {more}");
        folder.json(&line.split_whitespace().collect::<Vec<_>>())
    };
    let learned = learn("--objective lbl -o l.zhat");
    let score = folder.json(&["lm", "eval", "l.zhat", "valid.txt"]);
    assert_eq!(score["per_word"], learned["valid"]["per_word"]);
    assert!(
        score["per_word"].as_f64().unwrap() < 0.0 && score["guarantee"]["kind"] == "heuristic",
        "{score}"
    );
    let near = folder.json(&["lm", "neighbours", "l.zhat", "cat", "-n", "3"]);
    assert_eq!(near["words"][0]["neighbours"].as_array().unwrap().len(), 3);
    let learned = learn("--objective pseudo -o p.zhat");
    assert_eq!(learned["valid"]["guarantee"]["kind"], "bounds");
    let score = folder.json(&["lm", "eval", "p.zhat", "valid.txt", "--pseudo"]);
    assert_eq!(score["per_word"], learned["valid"]["per_word"]);
    folder.ok(&["lm", "sample", "p.zhat", "-n", "2", "--sweeps", "2"]);
    let refused = |line: &str| {
        let ran = folder.run(&line.split_whitespace().collect::<Vec<_>>());
        assert_ne!(ran.status(), 0, "{line}");
        ran.stderr()
    };
    assert!(refused("lm train train.txt --objective lbl --l2 1 -o m.zhat").contains("`--objective lifted`"));
    assert!(refused("lm train - --objective lbl -o m.zhat").contains("read twice"));
    assert!(refused("lm eval l.zhat valid.txt --pseudo").contains("computed exactly"));
    let drawn = folder.json(&["lm", "sample", "l.zhat", "-n", "3", "--seed", "2"]);
    assert_eq!(drawn["sentences"].as_array().unwrap().len(), 3);
    let learned = learn("--objective exact -o e.zhat");
    assert_eq!(learned["valid"]["guarantee"]["kind"], "bounds");
    let score = folder.json(&["lm", "eval", "e.zhat", "valid.txt"]);
    assert_eq!(score["per_word"], learned["valid"]["per_word"]);
    assert!(folder.ok(&["lm", "eval", "e.zhat", "valid.txt"]).contains("certified"));
}

#[test]
fn training_edge_cases_and_errors() {
    let folder = Folder::new("lm-failures");
    std::fs::write(folder.path().join("train.txt"), text(50)).unwrap();
    std::fs::write(folder.path().join("empty.txt"), "\n").unwrap();
    std::fs::write(folder.path().join("latin.txt"), b"caf\xe9\n").unwrap();
    std::fs::write(folder.path().join("other.txt"), "strange words\n").unwrap();
    let refused = |line: &str| {
        let ran = folder.run(&line.split_whitespace().collect::<Vec<_>>());
        assert_ne!(ran.status(), 0, "{line}");
        ran.stderr()
    };
    assert!(refused("lm train empty.txt -o m.zhat").contains("no words"));
    assert!(refused("lm train latin.txt -o m.zhat").contains("line 1: the byte 0xe9"));
    assert!(refused("lm train none.txt -o m.zhat").contains("none.txt"));
    assert!(refused("lm train train.txt --shares 0.5,0.5 -o m.zhat").contains("shares"));
    assert!(refused("lm train train.txt --memory 10KiB -o m.zhat").contains("over budget"));
    folder.ok(&["lm", "train", "train.txt", "--iterations", "3", "--min-count", "1", "-o", "m.zhat"]);
    assert!(refused("lm eval m.zhat other.txt").contains("not in the vocabulary"));
    assert!(refused("lm neighbours m.zhat zebra").contains("`zebra` is not among"));
    assert!(refused("lm eval train.txt train.txt").contains("train.txt"));
    let model = std::fs::read(folder.path().join("m.zhat")).unwrap();
    std::fs::write(folder.path().join("cut.zhat"), &model[..model.len() - 9]).unwrap();
    assert!(refused("lm eval cut.zhat train.txt").contains("not a whole .zhat file"));
    // A context longer than any sentence and a text of one word are valid.
    folder.ok(&["lm", "train", "train.txt", "-K", "9", "--iterations", "3", "-o", "long.zhat"]);
    std::fs::write(folder.path().join("one.txt"), "word\n").unwrap();
    folder.ok(&["lm", "train", "one.txt", "--iterations", "3", "-o", "one.zhat"]);
    folder.ok(&["generate", "chain", "-o", "chain.zhat"]);
    assert!(refused("lm eval chain.zhat train.txt").contains("expected `language-model`"));
    folder.ok(&["lm", "train", "train.txt", "--full-rank", "--iterations", "3", "-o", "f.zhat"]);
    assert!(refused("lm export f.zhat").contains("no embeddings"));
}

#[test]
fn killed_and_resumed_training_writes_the_same_bytes() {
    let folder = Folder::new("lm-killed");
    let words = |i: usize| format!("w{} w{} w{}\n", i * i % 97, i * 31 % 89, i * i * i % 101);
    std::fs::write(folder.path().join("train.txt"), (0..3000).map(words).collect::<String>()).unwrap();
    let line = "lm train train.txt -K 2 --rank 8 --iterations 60 --seed 5";
    let line: Vec<&str> = line.split(' ').collect();
    let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
    folder.ok(&[line.as_slice(), &["-o", "whole.zhat"]].concat());
    let kept = [line.as_slice(), &["-o", "m.zhat", "--checkpoint", "at.zhat", "--keep-every", "0"]].concat();
    let mut child = folder.command(&kept).stdout(std::process::Stdio::null()).spawn().unwrap();
    let begun = std::time::Instant::now();
    while !folder.path().join("at.zhat").exists() && begun.elapsed().as_secs() < 60 {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!folder.path().join("m.zhat").exists(), "it had ended before it was killed");
    // The checkpoint file is complete at any time.
    folder.ok(&kept);
    assert!(read("m.zhat") == read("whole.zhat"));
}

#[test]
fn figure_5_of_the_paper_is_drawn() {
    let folder = Folder::new("lm-figure");
    // The command fails if a bound exceeds the likelihood.
    let told = folder.ok(&["repro", "lifted-fig5", "--quick"]);
    let row = told.lines().find(|line| line.starts_with("| 15 |")).unwrap();
    let cells: Vec<f64> = row.split('|').filter_map(|cell| cell.trim().parse().ok()).skip(1).collect();
    let [exact, star, star_model, spectral, spectral_model] = cells[..] else { panic!("{told}") };
    assert!(star < spectral && spectral < spectral_model && star < star_model, "{row}");
    assert!((spectral_model - exact).abs() < 0.1 && star_model > exact - 3.0, "{row}");
    let svg = std::fs::read_to_string(folder.path().join("lifted-fig5.svg")).unwrap();
    assert!(svg.contains("star bound"));
}

#[test]
fn ordinary_text_with_unknown_words_is_validated_and_scored() {
    let folder = Folder::new("lm-unknown");
    folder.write("train.txt", "the cat sees the dog\nthe dog sees a bird\nthe cat sleeps\n");
    folder.write("valid.txt", "the zebra sees the dog\n");
    for more in [
        &[] as &[&str],
        &["--bound", "star"],
        &["--objective", "lbl", "--epochs", "2"],
        &["--objective", "exact", "--epochs", "2"],
        &["--objective", "pseudo", "--epochs", "2"],
    ] {
        let train = ["lm", "train", "train.txt", "--valid", "valid.txt", "--rank", "2", "-o", "m.zhat"];
        let learned = folder.json(&[&train[..], more].concat());
        // the, cat, dog, sees, <unk> and the separator.
        assert_eq!(learned["states"], 6, "{more:?}");
        assert!(learned["valid"]["per_word"].as_f64().unwrap() < 0.0, "{learned}");
        assert!(folder.json(&["lm", "eval", "m.zhat", "valid.txt"])["per_word"].as_f64().unwrap() < 0.0);
    }
    // With `--min-count 1` every word is kept, and there is no unknown word.
    let strict = ["lm", "train", "train.txt", "--valid", "valid.txt", "--min-count", "1", "-o", "m.zhat"];
    assert!(folder.run(&strict).stderr().contains("`zebra` is not in the vocabulary"));
    // A text with its own <unk> gives the same model as with every word kept.
    folder.write("own.txt", "a <unk> b\na c\n");
    let fit = ["lm", "train", "own.txt", "--rank", "2", "--iterations", "5", "-o"];
    folder.ok(&[&fit[..], &["one.zhat"]].concat());
    folder.ok(&[&fit[..], &["two.zhat", "--min-count", "1"]].concat());
    let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
    assert_eq!(read("one.zhat"), read("two.zhat"));
}
