//! Behaviour of the program with invalid input, exceeded budgets and Ctrl-C.

use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::support::{Folder, SPRINKLER};
use serde_json::Value;

/// Runs the program and checks its exit status and that stderr contains these words.
fn fails(folder: &Folder, args: &[&str], status: i32, words: &[&str]) {
    let ran = folder.run(args);
    let message = ran.stderr();
    assert_eq!(ran.status(), status, "{args:?}: {message}");
    assert!(!message.contains("panicked"), "{args:?}: {message}");
    for word in words {
        assert!(message.contains(word), "{args:?}: `{word}` is missing in: {message}");
    }
}

#[test]
fn bad_files_are_named_with_line_and_token() {
    let folder = Folder::new("files");
    for (name, content, words) in [
        ("empty", "", &["empty: the file is empty"] as &[&str]),
        ("blank", " \n\n", &["empty"]),
        ("strange", "hello world", &["line 1", "`hello`", "MARKOV"]),
        ("cut", "MARKOV\n2\n2 2\n1\n2 0 1\n4\n1 2", &["line 6", "is 4, more than the rest of the file"]),
        ("negative", "MARKOV\n1\n2\n1\n1 0\n2\n1 -2", &["line 7", "`-2`"]),
        ("infinite", "MARKOV\n1\n2\n1\n1 0\n2\n1 inf", &["line 7", "`inf`"]),
        ("domain", "MARKOV\n2\n2 0\n0", &["line 3", "0 states"]),
        ("short", "MARKOV\n2\n2 2\n1\n2 0 1\n4\n1 2 .25\n", &["line 8", "value 3 of factor 0"]),
        ("terabytes", "MARKOV\n999999999999\n2 2", &["line 2", "more than the rest of the file can hold"]),
        ("state", "network n {}\nvariable a { type discrete [ 2 ] { t }; }", &["line 2", "`a`", "lists 1"]),
        ("count", "MARKOV\n1\n2\n1\n1 0\n3\n1 2 3", &["line 6", "lists 3 values", "needs 2"]),
    ] {
        folder.write(name, content);
        fails(&folder, &["logz", name], 2, words);
        fails(&folder, &["info", name], 2, words);
    }
    fails(&folder, &["logz", "missing.uai"], 2, &["missing.uai", "No such file"]);
    fails(&folder, &["logz", "."], 2, &["directory"]);
}

#[test]
fn random_bytes_are_refused() {
    let folder = Folder::new("noise");
    let mut noise = Vec::with_capacity(100 << 20);
    let mut word = 0x9e37_79b9_7f4a_7c15u64;
    while noise.len() < 100 << 20 {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        noise.extend_from_slice(&word.to_le_bytes());
    }
    std::fs::write(folder.path().join("noise"), &noise).unwrap();
    fails(&folder, &["logz", "noise"], 2, &["unknown format"]);
    // A valid beginning of the file makes no difference.
    noise[..20].copy_from_slice(b"MARKOV 3 2 2 2 1 1 0");
    std::fs::write(folder.path().join("noise"), &noise).unwrap();
    fails(&folder, &["logz", "noise"], 2, &["line "]);
}

#[test]
fn bad_evidence_is_refused_and_impossible_evidence_has_its_own_status() {
    let folder = Folder::new("evidence");
    let model = folder.write("m.uai", SPRINKLER);
    let given = |given: &str, status: i32, words: &[&str]| {
        fails(&folder, &["logz", &model, "--given", given], status, words);
    };
    given("x9=0", 2, &["no variable `x9`"]);
    given("x1=7", 2, &["no state `7`", "0, 1"]);
    given("x1", 2, &["NAME=STATE"]);
    given("x1=0,x1=0", 2, &["given twice"]);
    given("x1=0,x2=0,x3=1", 1, &["impossible evidence"]);
    for (content, words) in [
        ("2 1 0", &["line 1", "file ends"] as &[&str]),
        ("1 9 0", &["line 1", "no variable 9"]),
        ("1 1 2", &["no state 2"]),
        ("2 1 0 1 0", &["given twice"]),
        ("2\n1 0 0\n1 1 1", &["evidence sets"]),
        ("", &["empty"]),
        ("1 x 0", &["`x`"]),
    ] {
        folder.write("e", content);
        fails(&folder, &["logz", &model, "--evidence", "e"], 2, words);
    }
    folder.write("e", "3 1 0 2 0 3 1");
    for query in ["logz", "marginals", "marginals --factors", "entropy", "map", "sample"] {
        for method in ["elimination", "enumeration", "importance"] {
            let mut args: Vec<&str> = query.split(' ').collect();
            args.extend([&model, "--evidence", "e", "--method", method]);
            fails(&folder, &args, 1, &["impossible evidence"]);
        }
    }
    folder.write("zero", "MARKOV 1 2 1 1 0 2 0 0");
    fails(&folder, &["logz", "zero"], 1, &["zero partition"]);
}

#[test]
fn errors_about_arguments_suggest_valid_values() {
    let folder = Folder::new("arguments");
    let model = folder.write("m.uai", SPRINKLER);
    fails(&folder, &["logz", &model, "--method", "magic"], 2, &["magic", "elimination"]);
    fails(
        &folder,
        &["logz", &model, "--method", "importance", "--set", "smaples=3"],
        2,
        &["smaples", "samples"],
    );
    fails(&folder, &["logz", &model, "--method", "importance", "--set", "samples"], 2, &["OPTION=VALUE"]);
    fails(&folder, &["logz", &model, "--method", "importance", "--set", "replicates=1"], 2, &["from 2 to"]);
    fails(&folder, &["logz", &model, "--memory", "lots"], 2, &["4GiB"]);
    fails(&folder, &["logz", &model, "--time", "soon"], 2, &["60s"]);
    fails(&folder, &["logz", &model, "--threads", "0"], 2, &["0"]);
    fails(&folder, &["logz", &model, "--json", "--format", "uai"], 2, &["cannot be used with"]);
    let format = ["marginals", &model, "--factors", "--format", "uai"];
    fails(&folder, &format, 2, &["cannot be used with"]);
    fails(&folder, &["logz", &model, "--factors"], 2, &["unexpected argument"]);
    fails(&folder, &["entropy", &model, "--format", "uai"], 2, &["unexpected argument"]);
    fails(&folder, &["convert", &model, "m.txt"], 2, &[".zhat, .uai, .bif, .xmlbif or .net"]);
    folder.write("markov.uai", "MARKOV 1 2 0");
    fails(&folder, &["convert", "markov.uai", "m.bif"], 2, &["Bayesian network", "MARKOV"]);
    fails(&folder, &["convert", &model, "no/such/folder/m.uai"], 2, &["No such file"]);
    fails(&folder, &["generate", "ising", "--rows", "10000000", "--columns", "10000000"], 2, &["free"]);
    fails(&folder, &["frobnicate"], 2, &["unrecognized subcommand"]);
    let ran =
        crate::support::Ran(folder.command(&["logz", &model]).env("ZHAT_SIMD", "mmx").output().unwrap());
    assert_eq!(ran.status(), 2);
    assert!(ran.stderr().contains("portable, avx2 and avx512"));
}

#[test]
fn errors_are_json_with_the_json_flag() {
    let folder = Folder::new("json-errors");
    folder.write("zero", "MARKOV 1 2 1 1 0 2 0 0");
    for (args, status, kind) in [
        (vec!["logz", "zero", "--json"], 1, "zero-partition"),
        (vec!["logz", "missing", "--json"], 2, "io"),
        (vec!["logz", "--json", "--nonsense"], 2, "arguments"),
    ] {
        let ran = folder.run(&args);
        assert_eq!(ran.status(), status);
        let object: Value = serde_json::from_str(&ran.stdout()).unwrap();
        assert_eq!(object["error"]["kind"], kind);
        assert_eq!(object["schema"], 1);
        assert!(!object["error"]["message"].as_str().unwrap().is_empty());
    }
}

#[test]
fn a_summary_and_a_file_do_not_share_stdout() {
    let folder = Folder::new("dash");
    folder.write("t.csv", "a,b\n0,0\n0,1\n1,1\n");
    folder.write("text.txt", "a dog runs\na cat runs\n");
    for args in [
        &["fit", "t.csv", "-o", "-"] as &[&str],
        &["lm", "train", "text.txt", "-o", "-"],
        &["lm", "train", "text.txt", "--objective", "lbl", "-o", "-"],
        &["demo", "-o", "-"],
    ] {
        fails(&folder, args, 2, &["-o: stdout has the summary; expected a file name, such as"]);
        assert!(!folder.path().join("-").exists(), "{args:?}");
    }
    // A model alone may go to stdout, as UAI.
    assert!(folder.ok(&["generate", "tree", "--variables", "2", "-o", "-"]).starts_with("MARKOV"));
}

#[test]
fn errors_over_the_budget_state_the_figures_and_methods_that_fit() {
    let folder = Folder::new("budget");
    folder.ok(&["generate", "ising", "--rows", "30", "--columns", "30", "-o", "g.zhat"]);
    let exact = ["logz", "g.zhat", "--method", "exact", "--memory", "64MiB"];
    fails(&folder, &exact, 1, &["over budget", "64.0 MiB", "these fit: anytime-bounds"]);
    let named = ["logz", "g.zhat", "--method", "elimination", "--memory", "64MiB"];
    fails(&folder, &named, 1, &["over budget", "elimination needs", "these fit: anytime-bounds"]);
    let slow = ["logz", "g.zhat", "--method", "enumeration", "--time", "0.2s"];
    fails(&folder, &slow, 1, &["over budget", "200 ms"]);
    let answer = folder.json(&["logz", "g.zhat", "--memory", "64MiB", "--time", "5s"]);
    assert_eq!(answer["guarantee"]["kind"], "bounds");
}

/// Starts the program, sends SIGINT after 700 ms and returns exit status, stdout and stderr.
fn interrupted(folder: &Folder, args: &[&str]) -> (i32, String, String) {
    let child = folder.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(700));
    let killed = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let started = Instant::now();
    let output = child.wait_with_output().unwrap();
    assert!(started.elapsed() < Duration::from_secs(20), "it did not stop");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

#[test]
fn an_interrupt_prints_the_result_so_far_or_an_error() {
    let folder = Folder::new("interrupt");
    folder.ok(&["generate", "ising", "--rows", "7", "--columns", "7", "-o", "g.zhat"]);
    let (status, out, message) = interrupted(&folder, &["logz", "g.zhat", "--method", "enumeration"]);
    assert_eq!((status, out.as_str()), (130, ""));
    assert!(message.contains("interrupted"), "{message}");
    let (status, out, message) = interrupted(
        &folder,
        &["logz", "g.zhat", "--method", "importance", "--set", "samples=1000000000000", "--json"],
    );
    assert_eq!(status, 130, "{message}");
    let answer: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(answer["diagnostics"]["stopped_early"], true);
    assert!(answer["value"].is_number());
}

#[test]
fn a_time_budget_ends_an_anytime_method_with_a_result() {
    let folder = Folder::new("anytime");
    folder.ok(&["generate", "ising", "-o", "g.zhat"]);
    let endless =
        ["logz", "g.zhat", "--method", "importance", "--set", "samples=1000000000000", "--time", "300ms"];
    assert_eq!(folder.json(&endless)["diagnostics"]["stopped_early"], true);
    assert!(folder.ok(&endless).contains("result so far"));
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let folder = Folder::new("pipe");
    folder.ok(&["generate", "tree", "-o", "t.zhat"]);
    let program = env!("CARGO_BIN_EXE_zhat");
    let pipe = format!("'{program}' sample t.zhat -n 20000 2>err | head -n 1 >/dev/null; cat err");
    let output =
        std::process::Command::new("sh").args(["-c", &pipe]).current_dir(folder.path()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
}
