//! `zhat repro`: tables of the papers.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::support::Folder;

/// The first table, of trees. The program is stopped before the chains, which take much longer.
#[test]
fn table_2_has_the_errors_on_trees_beside_those_of_the_paper() {
    let folder = Folder::new("repro-rdp-table2");
    let mut command = folder.command(&["repro", "rdp-table2", "--quick", "--runs", "2"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut table = Vec::new();
    for line in lines {
        // The last row.
        let last = line.starts_with("| threshold, K = 400, local");
        table.push(line);
        if last {
            break;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let cells = |name: &str| -> Vec<&str> {
        let row = table.iter().find(|line| line.starts_with(&format!("| {name}"))).unwrap();
        row.split('|').map(str::trim).skip(2).take(3).collect()
    };
    let ours = |cell: &str| -> f64 { cell.split(' ').next().unwrap().parse().unwrap() };
    assert!(table.iter().any(|line| line.starts_with("Trees, N = 2000, T = 15: log Z")), "{table:?}");
    // Top K is deterministic; the paper's value is in parentheses.
    let top = cells("top K = 500 (25%)");
    assert!(top[0].ends_with("(36.127)") && (30.0..90.0).contains(&ours(top[0])), "{top:?}");
    // Eq. 18 is biased, and its error does not fall with K; that of all products does.
    let [few, many] = ["10", "200"].map(|half| cells(&format!("paper, K₁ = K₂ = {half}, all products")));
    assert!(ours(many[0]) < 1.0 && ours(many[0]) < ours(few[0]), "{few:?} {many:?}");
    let printed = cells("paper, K₁ = K₂ = 200, Eq. 18");
    assert!(ours(printed[0]) > 50.0 && printed[0].ends_with("(0.445)"), "{printed:?}");
    for chosen in [20, 200, 400] {
        let threshold = cells(&format!("threshold, K = {chosen}, local"));
        assert!(threshold.iter().all(|cell| ours(cell) < 1e-20), "{threshold:?}");
    }
}

/// Every sentence of `word_TAG` as CoNLL-U with the same universal tags.
fn conllu(text: &str) -> String {
    let sentence = |line: &str| -> String {
        let tokens = line.split(' ').enumerate().map(|(at, token)| {
            let (word, tag) = token.rsplit_once('_').unwrap();
            format!("{}\t{word}\t_\t{tag}\t{tag}\t_\t_\t_\t_\t_\n", at + 1)
        });
        tokens.collect::<String>() + "\n"
    };
    text.lines().map(sentence).collect()
}

#[test]
fn tagging_of_table_2_on_a_small_treebank() {
    let folder = Folder::new("repro-lifted-table2");
    let refused = folder.command(&["repro", "lifted-table2"]).env_remove("ZHAT_DATA").output().unwrap();
    let message = String::from_utf8(refused.stderr).unwrap();
    assert!(message.contains("ZHAT_DATA") && message.contains("en_ewt-ud-train.conllu"), "{message}");
    let train = "the_DET old_ADJ dog_NOUN barks_VERB\na_DET small_ADJ cat_NOUN sleeps_VERB\nthe_DET cat_NOUN sees_VERB a_DET dog_NOUN\n\
        dogs_NOUN bark_VERB\ncats_NOUN sleep_VERB\nshe_PRON sees_VERB the_DET old_ADJ cat_NOUN\n";
    let test = "the_DET small_ADJ dog_NOUN sees_VERB a_DET bird_NOUN\nshe_PRON sleeps_VERB\n";
    let data = folder.path().join("data/ud-ewt");
    std::fs::create_dir_all(&data).unwrap();
    // 1,200 training sentences, of which --quick takes 1,000: 166 times all six and four more.
    let parts = [("train", train.repeat(200)), ("dev", train.to_owned()), ("test", test.to_owned())];
    for (part, text) in parts {
        std::fs::write(data.join(format!("en_ewt-ud-{part}.conllu")), conllu(&text)).unwrap();
    }
    let mut command = folder.command(&["repro", "lifted-table2", "--quick", "--threads", "1"]);
    let ran = command.env("ZHAT_DATA", folder.path()).output().unwrap();
    let told = String::from_utf8(ran.stdout).unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let count = |text: &str, lines: usize| -> usize {
        text.lines().take(lines).map(|line| line.split(' ').count()).sum()
    };
    let (training, tested) = (166 * count(train, 6) + count(train, 4), count(test, 2));
    let first = format!(
        "English-EWT, UPOS, at most 1000 sentences per part: {training} training tokens, {tested} test tokens."
    );
    assert!(told.starts_with(&first), "{told}");
    let cells = |name: &str| -> Vec<&str> {
        let row = told.lines().find(|line| line.starts_with(&format!("| {name} |")));
        row.unwrap_or_else(|| panic!("{name}: {told}")).split('|').map(str::trim).skip(2).collect()
    };
    let number = |cell: &str| -> f64 { cell.parse().unwrap_or_else(|_| panic!("{cell}: {told}")) };
    for name in [
        "HMM, order 1",
        "joint, K = 1, L = 1",
        "joint, K = 1, L = 3, exact",
        "joint, K = 1, L = 3, cover",
        "joint, K = 1, L = 3, star",
    ] {
        let own = cells(name);
        // Eight words, of which one is not in the training corpus.
        let right = number(own[0]) / 100.0 * tested as f64;
        assert!(
            (right - right.round()).abs() < 1e-3 && (6.0..=8.0).contains(&right.round()),
            "{name}: {own:?}"
        );
        assert!(["0.00", "100.00"].contains(&own[1]), "{name}: {own:?}");
        if name.starts_with("joint") {
            // A lower bound is not above the log-likelihood; the last digits are rounded down.
            let [exact, cover, star] = [own[2], own[3], own[4]].map(number);
            assert!(exact < 0.0 && cover <= exact + 1e-9 && star <= exact + 1e-9, "{name}: {own:?}");
            if name.ends_with("L = 1") {
                // Tag chains with one word per tag are a chain.
                assert!(exact - cover < 2e-4, "{name}: {own:?}");
            }
        }
    }
    assert_eq!((cells("paper: HMM")[1], cells("paper: lifted")[1]), ("65.4", "76.0"));
    // The different counts, and with them the cost of a step, do not grow with the corpus.
    let (one, ten) = (cells("English-EWT"), cells("ten copies"));
    assert_eq!([number(one[0]), number(ten[0])], [training as f64, 10.0 * training as f64]);
    assert!(one[1] == ten[1] && number(one[1]) > 10.0, "{one:?} {ten:?}");
}

/// A program that prints its arguments stands for `zhat-vae`.
#[test]
#[cfg(unix)]
fn table_5_and_figure_2_are_run_by_zhat_vae() {
    use std::os::unix::fs::PermissionsExt;

    let folder = Folder::new("repro-zhat-vae");
    let told = |path: &std::path::Path, arguments: &[&str]| {
        let output = folder.command(arguments).env("PATH", path).output().unwrap();
        let [out, errors] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        (output.status.code().unwrap(), out, errors)
    };
    // Nothing in PATH.
    let programs = folder.path().join("programs");
    std::fs::create_dir(&programs).unwrap();
    let (status, _, errors) = told(&programs, &["repro", "rdp-table5", "--quick"]);
    assert_ne!(status, 0);
    assert!(errors.contains("cargo install --path neural/zhat-vae"), "{errors}");
    // A program first in PATH.
    let program = programs.join("zhat-vae");
    std::fs::write(&program, "#!/bin/sh\nfor x in \"$@\"; do echo \"$x\"; done\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let passed = |arguments: &[&str]| {
        let (status, out, errors) = told(&programs, arguments);
        assert_eq!(status, 0, "{arguments:?}: {errors}");
        out.lines().map(str::to_owned).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        passed(&["repro", "rdp-table5", "--seed", "3"]),
        "repro rdp-table5 --output . --seed 3 --results ./rdp-table5.jsonl"
    );
    let more = ["--device", "cuda", "--seconds", "60", "--only", "two-pass RDP-2000"];
    assert_eq!(
        passed(&[&["repro", "rdp-fig2", "--quick", "--threads", "2", "-o", "out", "--"][..], &more].concat()),
        "repro rdp-fig2 --output out --seed 0 --results out/rdp-fig2-quick.jsonl --quick --threads 2 --device cuda \
         --seconds 60 --only two-pass RDP-2000"
    );
    // What is given after -- is not passed twice, and nothing is passed that --print refuses.
    assert_eq!(
        passed(&["repro", "rdp-table5", "--", "--print", "--results=here.jsonl"]),
        "repro rdp-table5 --output . --print --results=here.jsonl"
    );
    // Its failure is a failure; other experiments take no further options.
    std::fs::write(&program, "#!/bin/sh\nexit 3\n").unwrap();
    let (status, _, errors) = told(&programs, &["repro", "rdp-fig2"]);
    assert!(status != 0 && errors.contains("zhat-vae repro rdp-fig2"), "{errors}");
    let (status, _, errors) = told(&programs, &["repro", "rdp-table4", "--", "--device", "cuda"]);
    assert!(status != 0 && errors.contains("rdp-table5"), "{errors}");
}
