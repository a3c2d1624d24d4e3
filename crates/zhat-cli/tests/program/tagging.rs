//! `zhat tag`: training, prediction and evaluation on every format, and bad input.

use serde_json::json;

use crate::support::{Folder, gz, zst};

const TRAIN: &str = "the_DT old_JJ dog_NN barks_VBZ\na_DT small_JJ cat_NN sleeps_VBZ\ndogs_NNS bark_VBP\n\
    the_DT cat_NN sees_VBZ a_DT dog_NN\ncats_NNS sleep_VBP\n";

const CONLLU: &str = "# sent_id = 1\n# text = the dog runs\n1-2\tthedog\t_\t_\t_\t_\t_\t_\t_\t_\n\
    1\tthe\t_\tDET\tDT\t_\t_\t_\t_\t_\n2\tdog\t_\tNOUN\tNN\t_\t_\t_\t_\t_\n2.1\tgone\t_\t_\t_\t_\t_\t_\t_\t_\n\
    3\truns\t_\tVERB\tVBZ\t_\t_\t_\t_\tSpaceAfter=No\n\n";

fn trained(test: &str) -> Folder {
    let folder = Folder::new(test);
    folder.write("train.txt", TRAIN);
    folder.ok(&["tag", "train", "train.txt", "--l2", "0.01", "-o", "m.zhat"]);
    folder
}

#[test]
fn every_format_is_tagged_and_written_back() {
    let folder = trained("tag-formats");
    let columns: String =
        TRAIN.lines().map(|line| line.replace('_', "\t").replace(' ', "\n") + "\n\n").collect();
    let mut csv = String::from("sentence,word,tag\n");
    for (number, line) in TRAIN.lines().enumerate() {
        line.split(' ').for_each(|token| csv += &format!("{number},{}\n", token.replace('_', ",")));
    }
    let attributes: String = TRAIN
        .lines()
        .map(|line| {
            let tokens = line.split(' ').map(|token| token.split_once('_').unwrap());
            tokens
                .map(|(word, tag)| format!("{tag}\tw={word}\tend={}:0.5\n", &word[word.len() - 1..]))
                .collect()
        })
        .map(|sentence: String| sentence + "\n")
        .collect();
    for (name, content, more) in [
        ("a.txt", TRAIN, ""),
        ("b.txt", &columns, ""),
        ("c.csv", &csv, ""),
        ("d.crf", &attributes, "--format crfsuite"),
        ("e.conllu", CONLLU, "--column xpos"),
    ] {
        folder.write(name, content);
        let more: Vec<&str> = more.split_whitespace().collect();
        let arguments = ["tag", "train", name, "--l2", "0.01", "-o", "f.zhat"];
        folder.ok(&[&arguments[..], &more].concat());
        // Training tags are learned, and the file is written back byte by byte, from a file and from stdin.
        let arguments = [&["tag", "predict", "f.zhat", name][..], &more].concat();
        assert_eq!(folder.ok(&arguments), content, "{name}");
        if !name.ends_with("csv") && !name.ends_with("conllu") {
            let arguments = [&["tag", "predict", "f.zhat", "-"][..], &more].concat();
            assert_eq!(folder.run_with_input(&arguments, content).stdout(), content, "{name}");
        }
        let found = folder.json(&[&["tag", "eval", "f.zhat", name][..], &more].concat());
        assert_eq!(found["accuracy"], 1.0, "{name}");
    }
    let (first, rest) = TRAIN.split_at(TRAIN.find("dogs").unwrap());
    // Two frames, as of two files one after the other.
    let frames = [zst(first.as_bytes()), zst(rest.as_bytes())].concat();
    for (name, bytes) in [("train.txt.gz", gz(TRAIN.as_bytes())), ("train.txt.zst", frames)] {
        std::fs::write(folder.path().join(name), &bytes).unwrap();
        assert_eq!(folder.ok(&["tag", "predict", "m.zhat", name]), TRAIN, "{name}");
        assert_eq!(folder.json(&["tag", "eval", "m.zhat", name])["tokens"], 17, "{name}");
        assert_eq!(
            folder.run_with_input(&["tag", "predict", "m.zhat", "-"], &bytes).stdout(),
            TRAIN,
            "{name}"
        );
    }
    let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
    for optimizer in ["lbfgs", "sgd"] {
        for name in ["train.txt", "train.txt.gz", "train.txt.zst"] {
            let output = format!("{name}.zhat");
            let line =
                format!("tag train {name} --l2 0.01 --optimizer {optimizer} --iterations 30 -o {output}");
            folder.ok(&line.split(' ').collect::<Vec<_>>());
        }
        for name in ["train.txt.gz.zhat", "train.txt.zst.zhat"] {
            assert!(read("train.txt.zhat") == read(name), "{optimizer}, {name}");
        }
    }
}

#[test]
fn known_tags_forbidden_transitions_and_probabilities() {
    let folder = trained("tag-known");
    folder.write("known.txt", "the_NN dog__ sees__ a_ZZ cat_NN\n");
    let ran = folder.run(&["tag", "predict", "m.zhat", "known.txt", "--known"]);
    assert!(ran.stderr().contains("1 token"), "{}", ran.stderr());
    let tags: Vec<String> =
        ran.stdout().split_whitespace().map(|x| x.split_once('_').unwrap().1.into()).collect();
    assert_eq!((tags[0].as_str(), tags[3].as_str(), tags[4].as_str()), ("NN", "DT", "NN"));
    let free = folder.ok(&["tag", "predict", "m.zhat", "known.txt"]);
    assert!(free.starts_with("the_DT dog_NN"), "{free}");
    let forbidden = folder.ok(&["tag", "predict", "m.zhat", "known.txt", "--forbid", "DT,NN"]);
    assert!(!forbidden.contains("the_DT dog_NN"), "{forbidden}");
    // The best sequences are ordered, and the probabilities of a token add up to 1.
    let best = folder.json(&["tag", "predict", "m.zhat", "known.txt", "-k", "3"]);
    let logs: Vec<f64> = best["sequences"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["log_probability"].as_f64().unwrap())
        .collect();
    assert!(logs.len() == 3 && logs.is_sorted_by(|a, b| a >= b), "{logs:?}");
    let table = folder.ok(&["tag", "predict", "m.zhat", "known.txt", "--marginals", "--known"]);
    for (row, line) in table.lines().skip(1).enumerate() {
        let p: Vec<f64> = line.split(',').skip(3).map(|p| p.parse().unwrap()).collect();
        assert!((p.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{line}");
        assert!(row != 0 || p.iter().any(|p| (p - 1.0).abs() < 1e-9), "{line}");
    }
    let error = folder.run(&["tag", "predict", "m.zhat", "known.txt", "--forbid", "DT"]);
    assert!(error.stderr().contains("--forbid: expected two tags"), "{}", error.stderr());
}

#[test]
fn predictions_are_compressed_by_the_ending_of_their_file() {
    let folder = trained("tag-compressed");
    for (name, start) in [("a.txt.gz", &[0x1f, 0x8b][..]), ("a.txt.zst", &[0x28, 0xb5, 0x2f, 0xfd])] {
        folder.ok(&["tag", "predict", "m.zhat", "train.txt", "-o", name]);
        assert!(std::fs::read(folder.path().join(name)).unwrap().starts_with(start), "{name}");
        // Read back and tagged once more, it is the file itself.
        assert_eq!(folder.ok(&["tag", "predict", "m.zhat", name, "--known"]), TRAIN, "{name}");
    }
}

#[test]
fn evaluation_counts_unseen_tags_and_spans_and_draws_a_picture() {
    let folder = trained("tag-eval");
    folder.write("test.txt", "the_DT bird_NN sings_ZZ\n");
    let found = folder.json(&["tag", "eval", "m.zhat", "test.txt", "--confusion", "c.svg"]);
    assert_eq!(
        (&found["unseen_tags"], &found["tokens"], &found["unseen_words"]),
        (&json!(1), &json!(3), &json!(2))
    );
    let svg = std::fs::read_to_string(folder.path().join("c.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains(">ZZ<") && svg.contains("DT as DT: 1"), "{svg}");
    let text = folder.ok(&["tag", "eval", "m.zhat", "test.txt"]);
    assert!(text.contains("1 token has a tag that training never saw"), "{text}");
    folder.write("spans.txt", "He B-NP\nsees B-VP\nold B-NP\ndogs I-NP\n. O\n\n");
    folder.ok(&["tag", "train", "spans.txt", "--l2", "0.01", "--context", "2", "-o", "s.zhat"]);
    let spans = folder.json(&["tag", "eval", "s.zhat", "spans.txt"]);
    assert_eq!((&spans["spans"]["f1"], &spans["spans"]["observed"]), (&json!(1.0), &json!(3)));
}

#[test]
fn l1_empties_weights_and_hashing_counts_collisions() {
    let folder = trained("tag-sparse");
    let train = |more: &str| {
        let line = format!("tag train train.txt -o l.zhat {more}");
        folder.json(&line.split_whitespace().collect::<Vec<_>>())
    };
    let sparse = train("--l1 0.3 --l2 0");
    let (all, left) = (sparse["parameters"].as_u64().unwrap(), sparse["nonzero"].as_u64().unwrap());
    assert!(0 < left && left < all / 2, "{left} of {all}");
    let top = folder.json(&["tag", "features", "l.zhat", "--top", "100000"]);
    assert_eq!(top["features"].as_array().unwrap().len() as u64, left);
    assert!(train("--hash-bits 4")["collisions"].as_u64().unwrap() > 50);
    assert!(folder.ok(&["tag", "features", "l.zhat", "--top", "2"]).contains("bucket"));
    assert_eq!(train("--hash-bits 20 --optimizer sgd --iterations 2")["collisions"], 0);
}

#[test]
fn bad_input_is_named() {
    let folder = trained("tag-bad");
    folder.write("empty.txt", "");
    folder.write("short.txt", "a B\nc\n");
    folder.write("missing.txt", "the_DT dog__\n");
    folder.write("e.conllu", CONLLU);
    folder.write("model.uai", "MARKOV\n1\n2\n1\n1 0\n2\n1 2\n");
    folder.ok(&["convert", "model.uai", "other.zhat"]);
    std::fs::write(folder.path().join("bytes.txt"), b"a B\n\xff C\n").unwrap();
    for (line, expected) in [
        ("tag train empty.txt -o x.zhat", "empty.txt: no token was found"),
        ("tag train short.txt -o x.zhat", "short.txt: line 2: token `c`: 1 column"),
        ("tag train missing.txt -o x.zhat", "line 1: token 2 `dog`: it has no tag"),
        ("tag train missing.txt --optimizer sgd -o x.zhat", "line 1: token 2 `dog`: it has no tag"),
        ("tag train bytes.txt -o x.zhat", "bytes.txt: line 2: the text is not UTF-8"),
        ("tag train bytes.txt --optimizer sgd -o x.zhat", "bytes.txt: line 2: the text is not UTF-8"),
        ("tag train e.conllu --column 11 -o x.zhat", "column: 11 is out of range"),
        ("tag train train.txt --features c9[0] -o x.zhat", "column 9"),
        ("tag train train.txt --optimizer adam -o x.zhat", "optimizer: expected lbfgs or sgd"),
        ("tag train train.txt --rate 0.1 -o x.zhat", "--rate: is the step size of --optimizer sgd"),
        ("tag train - --optimizer sgd -o x.zhat", "the standard input can be read only once"),
        ("tag train train.txt --optimizer sgd --batch 0 -o x.zhat", "batch"),
        ("tag train train.txt --context 3 -o x.zhat", "context"),
        ("tag predict other.zhat train.txt", "expected `tagger`"),
        ("tag predict m.zhat nowhere.txt", "nowhere.txt"),
    ] {
        let ran = folder.run(&line.split(' ').collect::<Vec<_>>());
        assert!(ran.status() != 0 && ran.stderr().contains(expected), "{line}: {}", ran.stderr());
    }
    assert!(!folder.path().join("x.zhat").exists());
}

/// A file on which training takes a second or more.
#[cfg(unix)]
fn large() -> String {
    let mut state = 1u64;
    let mut draw = |n: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % n
    };
    let mut text = String::new();
    for _ in 0..400 {
        for _ in 0..10 {
            text += &format!("w{}_T{} ", draw(300), draw(6));
        }
        text = text.trim_end().to_owned() + "\n";
    }
    text
}

#[cfg(unix)]
#[test]
fn a_killed_run_resumes_to_the_same_bits() {
    let folder = Folder::new("tag-kill");
    folder.write("train.txt", &large());
    for optimizer in ["lbfgs", "sgd"] {
        let line = format!("tag train train.txt --words 1 --delta 0 --iterations 60 --optimizer {optimizer}");
        let arguments: Vec<&str> = line.split(' ').collect();
        folder.ok(&[&arguments[..], &["-o", "whole.zhat"]].concat());
        let kept =
            [&arguments[..], &["--checkpoint", "c.zhat", "--keep-every", "0", "-o", "m.zhat"]].concat();
        let mut child = folder.command(&kept).stdout(std::process::Stdio::null()).spawn().unwrap();
        while !folder.path().join("c.zhat").exists() {
            assert!(child.try_wait().unwrap().is_none(), "{optimizer}: it ended without a checkpoint");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        // SIGKILL.
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!folder.path().join("m.zhat").exists(), "{optimizer}: it had ended before it was killed");
        folder.ok(&kept);
        let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
        assert!(read("m.zhat") == read("whole.zhat"), "{optimizer}");
        for name in ["c.zhat", "m.zhat"] {
            std::fs::remove_file(folder.path().join(name)).unwrap();
        }
    }
}
