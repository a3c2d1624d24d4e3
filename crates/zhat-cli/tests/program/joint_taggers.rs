//! `zhat tag` with joint taggers: training, certified likelihoods, tags and probabilities, resumed training, refusals.

use crate::support::Folder;

const NOUNS: [&str; 6] = ["dog", "cat", "bird", "horse", "frog", "cow"];
const VERBS: [&str; 5] = ["walk", "bark", "eat", "see", "talk"];

/// Sentences with nouns and verbs that agree in number.
fn text(sentences: usize) -> String {
    let sentence = |i: usize| {
        let (noun, verb, article) = (NOUNS[i % 6], VERBS[i * 7 % 5], ["the", "The", "no"][i % 3]);
        match i * i % 3 {
            0 => format!("{article}_DT {noun}_NN {verb}s_VBZ ._.\n"),
            _ => format!("{article}_DT {noun}s_NNS {verb}_VBP ._.\n"),
        }
    };
    (0..sentences).map(sentence).collect()
}

fn folder(name: &str) -> Folder {
    let folder = Folder::new(name);
    folder.write("train.txt", &text(60));
    folder.write("valid.txt", &text(17));
    folder.write("new.txt", "the_DT zebras_NNS sing_VBP ._.\nNo_DT frog_NN walks_VBZ ._.\n");
    folder
}

fn train(folder: &Folder, more: &str) -> serde_json::Value {
    let line = format!("tag train train.txt --objective joint --l2 0.001 --iterations 60 {more}");
    folder.json(&line.split_whitespace().collect::<Vec<_>>())
}

#[test]
fn joint_taggers_are_trained_used_and_evaluated() {
    let folder = folder("tag-joint");
    for (more, bounds) in [
        ("--words 1", 3),
        ("--valid valid.txt --patience 20", 3),
        ("--context 2 --bound cover --no-word-scores", 3),
        ("--words 5 --bound star --min-count 1", 2),
    ] {
        let learned = train(&folder, &format!("{more} -o m.zhat"));
        let likelihoods = learned["log_likelihood_per_token"].as_object().unwrap();
        assert_eq!(likelihoods.len(), bounds, "{learned}");
        assert!(likelihoods.values().all(|value| value.as_f64().unwrap() < 0.0), "{learned}");
        let (cover, star) = (likelihoods["cover"].as_f64(), likelihoods["star"].as_f64());
        assert!(learned["bound"] == "star" || cover >= star, "{learned}");
        assert_eq!(learned["valid"].is_object(), more.contains("--valid"));
        let score = folder.json(&["tag", "eval", "m.zhat", "valid.txt"]);
        assert!(score["accuracy"].as_f64().unwrap() > 0.95, "{more}: {score}");
        assert!(score["log_loss"].as_f64().unwrap() > 0.0);
        let score = folder.json(&["tag", "eval", "m.zhat", "new.txt"]);
        assert_eq!(score["unseen_words"], 3);
        let tagged = folder.ok(&["tag", "predict", "m.zhat", "new.txt"]);
        assert!(tagged.starts_with("the_DT zebras_"), "{tagged}");
    }
    train(&folder, "-o m.zhat");
    train(&folder, "-o again.zhat --threads 1");
    let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
    assert!(read("m.zhat") == read("again.zhat"));
    let told = folder.ok(&["tag", "train", "train.txt", "--objective", "joint", "-o", "n.zhat"]);
    assert_eq!(told.matches("nats per token, certified").count(), 3, "{told}");
    let told =
        folder.ok(&["tag", "train", "train.txt", "--objective", "joint", "--words", "5", "-o", "n.zhat"]);
    assert!(told.contains("does not apply"), "{told}");
    // Given the words, the probabilities of all sequences sum to 1.
    folder.write("short.txt", "the_DT cats_NNS\n");
    let all = folder.json(&["tag", "predict", "m.zhat", "short.txt", "-k", "1000"]);
    let all = all["sequences"].as_array().unwrap();
    let sum: f64 = all.iter().map(|one| one["log_probability"].as_f64().unwrap().exp()).sum();
    assert!((sum - 1.0).abs() < 1e-9 && all.len() == 36, "{sum}");
    let table = folder.ok(&["tag", "predict", "m.zhat", "short.txt", "--marginals"]);
    let row: Vec<&str> = table.lines().nth(1).unwrap().split(',').collect();
    let sum: f64 = row[3..].iter().map(|p| p.parse::<f64>().unwrap()).sum();
    assert!((sum - 1.0).abs() < 1e-9, "{table}");
    folder.write("part.txt", "the__ cats_NN\n");
    assert!(folder.ok(&["tag", "predict", "m.zhat", "part.txt", "--known"]).contains("cats_NN\n"));
    let forbidden = folder.ok(&["tag", "predict", "m.zhat", "short.txt", "--forbid", "DT,NNS"]);
    assert!(!forbidden.contains("DT cats_NNS"), "{forbidden}");
    let top = folder.json(&["tag", "features", "m.zhat", "--top", "5"]);
    assert_eq!(top["features"].as_array().unwrap().len(), 5);
}

#[test]
fn killed_and_resumed_training_writes_the_same_bytes() {
    let folder = folder("tag-joint-killed");
    let line = "tag train train.txt --objective joint --words 5 --l2 1e-9 --iterations 60 --valid valid.txt --patience 60";
    let line: Vec<&str> = line.split(' ').collect();
    folder.ok(&[line.as_slice(), &["-o", "whole.zhat"]].concat());
    let kept = [line.as_slice(), &["-o", "m.zhat", "--checkpoint", "at.zhat", "--keep-every", "0"]].concat();
    let mut child = folder.command(&kept).stdout(std::process::Stdio::null()).spawn().unwrap();
    while !folder.path().join("at.zhat").exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended without a checkpoint");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!folder.path().join("m.zhat").exists(), "it had ended before it was killed");
    folder.ok(&kept);
    let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
    assert!(read("m.zhat") == read("whole.zhat"));
}

#[test]
fn options_and_files_that_do_not_apply_are_refused() {
    let folder = folder("tag-joint-refused");
    folder.write("attributes.txt", "A\tx=1\ty=2\nB\tx=2\n");
    let refused = |line: &str| {
        let ran = folder.run(&line.split_whitespace().collect::<Vec<_>>());
        assert_ne!(ran.status(), 0, "{line}");
        ran.stderr()
    };
    let joint = "tag train train.txt --objective joint -o m.zhat";
    for option in ["--features w[0]", "--l1 1", "--hash-bits 9", "--all-possible"] {
        let name = option.split(' ').next().unwrap();
        let told = refused(&format!("{joint} {option}"));
        assert!(told.contains(name) && told.contains("`--objective conditional` only"), "{told}");
    }
    for option in ["--bound star", "--no-word-scores", "--certifying 3"] {
        let told = refused(&format!("tag train train.txt -o m.zhat {option}"));
        assert!(told.contains("`--objective joint` only"), "{told}");
    }
    assert!(refused(&format!("{joint} --words 2")).contains("--words: expected an odd number"));
    assert!(refused(&format!("{joint} --words 5 --bound exact")).contains("at most 3 words"));
    assert!(refused(&format!("{joint} --context 3")).contains("context"));
    assert!(refused(&format!("{joint} --memory 10KiB")).contains("over budget"));
    let told = refused("tag train attributes.txt --objective joint -o m.zhat");
    assert!(told.contains("has attributes, not words"), "{told}");
    folder.write("gap.txt", "the_DT dog__ barks_VBZ\n");
    assert!(refused("tag train gap.txt --objective joint -o m.zhat").contains("line 1: `dog` has no tag"));
    train(&folder, "--checkpoint c.zhat -o m.zhat");
    let told = refused(&format!("{joint} --l2 0.5 --checkpoint c.zhat"));
    assert!(told.contains("another corpus or other options"), "{told}");
    assert!(refused("tag train train.txt --checkpoint c.zhat -o n.zhat").contains("joint-tagger-checkpoint"));
    assert!(refused("tag predict c.zhat train.txt").contains("joint-tagger-checkpoint"));
    let model = std::fs::read(folder.path().join("m.zhat")).unwrap();
    std::fs::write(folder.path().join("cut.zhat"), &model[..model.len() - 9]).unwrap();
    assert!(refused("tag eval cut.zhat train.txt").contains("not a whole .zhat file"));
}
