//! The program: from a text to a model, its uses, and errors that say what to do.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Without ZHAT_DATA: experiments use the made-up text, also where the benchmark data are installed.
fn program(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zhat-vae"));
    command.args(arguments).current_dir(folder).env_remove("ZHAT_DATA").output().unwrap()
}

fn fails(folder: &Path, arguments: &[&str], part: &str) {
    let found = program(folder, arguments);
    let text = String::from_utf8_lossy(&found.stderr);
    assert_eq!(found.status.code(), Some(2), "{arguments:?}: {text}");
    assert!(text.contains(part) && !text.contains("panicked"), "{arguments:?}: {text}");
}

fn works(folder: &Path, arguments: &[&str]) -> String {
    let found = program(folder, arguments);
    let errors = String::from_utf8_lossy(&found.stderr).into_owned();
    assert!(found.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(found.stdout).unwrap()
}

fn text(folder: &Path) -> PathBuf {
    let lines = zhat_vae::repro::made_up(200, 4).sentences;
    let lines: Vec<String> = lines.iter().map(|words| words.join(" ")).collect();
    let path = folder.join("text.txt");
    std::fs::write(&path, lines.join("\n") + "\n").unwrap();
    path
}

const SMALL: [&str; 12] = [
    "--states",
    "8",
    "--units",
    "12",
    "--state-size",
    "6",
    "--batch",
    "32",
    "--rate",
    "0.01",
    "--warm-up",
    "20",
];

#[test]
fn a_model_is_trained_and_used() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    text(at);
    let train = |more: &[&str]| {
        let base = ["train", "text.txt", "-o", "m.safetensors", "--epochs", "4", "--log", "log.csv"];
        works(at, &[&base[..], &SMALL, &["--method", "rdp", "--top", "2", "--sampled", "2"], more].concat())
    };
    assert!(train(&[]).contains("best bound"));
    let log = std::fs::read_to_string(at.join("log.csv")).unwrap();
    let names = "step,epoch,seconds,bound,words,states,entropy,words_per_second,floored\n";
    assert!(log.starts_with(&format!("{names}25,")), "{log}");
    assert!(log.lines().skip(1).all(|line| line.split(',').count() == 9 && line.ends_with(",0")), "{log}");
    let found = works(at, &["eval", "m.safetensors", "text.txt", "--samples", "10", "--first", "20"]);
    assert!(found.contains("negative log-likelihood") && found.contains(" per word\n"), "{found}");
    let bias = found.lines().find(|line| line.contains("too large by about")).unwrap();
    let bias: f64 = bias.split_whitespace().last().unwrap().parse().unwrap();
    assert!((0.0..1.0).contains(&bias), "{found}");
    let drawn = works(
        at,
        &[
            "eval",
            "m.safetensors",
            "text.txt",
            "--samples",
            "10",
            "--first",
            "20",
            "--method",
            "rdp",
            "--top",
            "2",
            "--sampled",
            "4",
        ],
    );
    let number = |text: &str| text.split_whitespace().nth(2).unwrap().parse::<f64>().unwrap();
    assert!((number(&found) - number(&drawn)).abs() < 2.0, "{found}\n{drawn}");
    let tags = works(at, &["tag", "m.safetensors", "text.txt"]);
    assert_eq!(tags.lines().count(), 200);
    let first = std::fs::read_to_string(at.join("text.txt")).unwrap().lines().next().unwrap().to_owned();
    let words: Vec<&str> =
        tags.lines().next().unwrap().split(' ').map(|x| x.rsplit_once('/').unwrap().0).collect();
    assert_eq!(words.join(" "), first);
    assert!(works(at, &["tag", "m.safetensors", "text.txt", "--words", "3"]).lines().count() <= 8);
    let new = works(at, &["sample", "m.safetensors", "-n", "5", "--seed", "2"]);
    assert_eq!(new.lines().count(), 5);
    assert_eq!(new, works(at, &["sample", "m.safetensors", "-n", "5", "--seed", "2"]));
    // The posterior is a model of zhat: its best paths are the tags.
    works(at, &["posterior", "m.safetensors", "text.txt", "-o", "first.zhat", "--first", "7"]);
    let first = zhat::io::read_model(&at.join("first.zhat")).unwrap();
    assert_eq!(first.get::<zhat::Chain<f32>>().unwrap().batch(), 7);
    works(at, &["posterior", "m.safetensors", "text.txt", "-o", "q.zhat"]);
    let chain = zhat::io::read_model(&at.join("q.zhat")).unwrap();
    let chain = chain.get::<zhat::Chain<f32>>().unwrap();
    assert_eq!((chain.batch(), chain.states()), (200, 8));
    let best = zhat::Map::map(&zhat::dynamic::ForwardBackward::default(), chain, &zhat::Run::default())
        .unwrap()
        .value;
    let states: Vec<usize> = tags
        .lines()
        .next()
        .unwrap()
        .split(' ')
        .map(|x| x.rsplit_once('/').unwrap().1.parse().unwrap())
        .collect();
    assert_eq!(best[0].states[..states.len()], states[..]);
}

#[test]
fn a_killed_run_goes_on_to_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    text(at);
    let arguments = |name: &'static str, more: &[&'static str]| -> Vec<&'static str> {
        let base = ["train", "text.txt", "-q", "-o", name, "--epochs", "12", "--keep-every", "0"];
        [&base[..], &SMALL, &["--method", "rdp", "--top", "2", "--sampled", "2"], more].concat()
    };
    works(at, &arguments("whole", &[]));
    let read = |name: &str| zhat_vae::checkpoint::Checkpoint::read(&at.join(name)).unwrap();
    let whole = read("whole.state");
    // Killed at two steps drawn at random, each some time after a state was written.
    let mut random = zhat::random::Streams::new(25, "steps at which a run is killed").block(0);
    let mut step = 0;
    for more in [&[][..], &["--resume"]] {
        step += 1 + random.below(whole.progress.step / 4);
        let mut command = Command::new(env!("CARGO_BIN_EXE_zhat-vae"));
        let mut child = command.args(arguments("part", more)).current_dir(at).spawn().unwrap();
        let reached = || at.join("part.state").exists() && read("part.state").progress.step >= step;
        for _ in 0..60_000 {
            if child.try_wait().unwrap().is_some() || reached() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        std::thread::sleep(std::time::Duration::from_micros(random.below(30_000) as u64));
        assert!(child.try_wait().unwrap().is_none(), "the run ended before it was killed");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(read("part.state").progress.step < whole.progress.step);
    }
    works(at, &arguments("part", &["--resume"]));
    let part = read("part.state");
    assert_eq!((whole.progress.step, whole.progress.best), (part.progress.step, part.progress.best));
    assert!(whole.parameters == part.parameters && whole.moments == part.moments);
    assert!(read("whole").parameters == read("part").parameters);
}

/// A limit of the size of files stands for a full disk.
#[test]
#[cfg(target_os = "linux")]
fn the_old_files_stay_when_the_disk_is_full() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    text(at);
    let train = |epochs| {
        let base = ["train", "text.txt", "-q", "-o", "m", "--epochs", epochs];
        [&base[..], &SMALL].concat()
    };
    works(at, &train("2"));
    let contents = || ["m", "m.state"].map(|name| std::fs::read(at.join(name)).unwrap());
    let before = contents();
    let resumed = [train("6"), vec!["--resume"]].concat();
    let script = "trap '' XFSZ; ulimit -f 8; exec \"$@\"";
    let found = Command::new("sh")
        .args(["-c", script, "sh", env!("CARGO_BIN_EXE_zhat-vae")])
        .args(&resumed)
        .current_dir(at)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&found.stderr);
    assert_eq!(found.status.code(), Some(2), "{errors}");
    assert!(errors.contains("m: ") || errors.contains("m.state"), "{errors}");
    assert!(before == contents());
    let mut names: Vec<_> = std::fs::read_dir(at).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["m", "m.state", "text.txt"]);
    // The run goes on from the old state once there is space.
    works(at, &resumed);
    assert!(before != contents());
}

#[test]
fn bad_input_is_an_error_that_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    text(at);
    std::fs::write(at.join("empty.txt"), "\n  \n").unwrap();
    let train = |more: &[&'static str]| [&["train", "text.txt", "-o", "m"], more].concat();
    fails(at, &["train", "missing.txt", "-o", "m"], "missing.txt");
    fails(at, &["train", "empty.txt", "-o", "m"], "no sentences");
    fails(at, &train(&["--states", "1"]), "at least 2");
    fails(
        at,
        &train(&["--states", "10", "--method", "rdp", "--top", "6", "--sampled", "5"]),
        "more than the 10",
    );
    fails(at, &train(&["--method", "rdp", "--sampled", "0"]), "--sampled");
    fails(at, &train(&["--rate", "0"]), "--rate");
    fails(at, &train(&["--word-dropout", "1"]), "--word-dropout");
    for (option, value, range) in [
        ("--temperature", "1,0", "a positive number"),
        ("--temperature", "nan,1", "a positive number"),
        ("--temperature", "1,inf", "a positive number"),
        ("--entropy-weight", "1,-1", "not negative"),
        ("--entropy-weight", "nan,1", "not negative"),
        ("--rate", "-1", "a positive number"),
        ("--clip", "nan", "a positive number"),
        ("--seconds", "0", "a positive number"),
        ("--seconds", "-3", "a positive number"),
        ("--seconds", "inf", "a positive number"),
        ("--keep-every", "-1", "not negative"),
        ("--keep-every", "nan", "not negative"),
        ("--word-dropout", "nan", "not including 1"),
        ("--epochs", "0", "at least 1"),
        ("--patience", "0", "at least 1"),
        ("--batch", "0", "at least 1"),
        ("--limit", "0", "at least 1"),
        ("--units", "0", "at least 1"),
        ("--state-size", "0", "at least 1"),
        ("--min-count", "0", "at least 1"),
        ("--min-count", "few", "at least 1"),
    ] {
        let found =
            format!("invalid value '{}' for '{option} ", value.split(',').find(|x| *x != "1").unwrap());
        fails(at, &train(&[option, value]), &found);
        fails(at, &train(&[option, value]), range);
    }
    for use_of in ["eval", "posterior"] {
        let output: &[&str] = if use_of == "eval" { &[] } else { &["-o", "q.zhat"] };
        fails(at, &[&[use_of, "m", "text.txt", "--first", "0"], output].concat(), "at least 1");
    }
    fails(at, &["eval", "m", "text.txt", "--samples", "0"], "at least 1");
    fails(at, &["tag", "m", "text.txt", "--words", "0"], "at least 1");
    fails(at, &["sample", "m", "-n", "0"], "at least 1");
    fails(at, &["repro", "rdp-table5", "--quick", "--steps", "0"], "at least 1");
    fails(at, &["repro", "rdp-table5", "--quick", "--seconds", "nan"], "a positive number");
    fails(at, &train(&["--gpt2", "."]), "--encoder gpt2");
    fails(at, &train(&["--temperature", "1"]), "--temperature: expected two numbers");
    fails(at, &train(&["--entropy-weight", "1,1,1"]), "--entropy-weight: expected two numbers");
    fails(at, &train(&["--encoder", "gpt2"]), "--gpt2");
    fails(at, &train(&["--encoder", "gpt2", "--gpt2", "nowhere"]), "nowhere");
    fails(at, &train(&["--resume"]), "m.state");
    fails(at, &["eval", "missing", "text.txt"], "missing");
    fails(at, &["eval", "text.txt", "text.txt"], "damaged");
    fails(at, &["repro", "rdp-table6", "--quick"], "rdp-table5");
    fails(at, &["repro", "rdp-table5", "--quick", "--samples", "0"], "--samples");
    fails(at, &["repro", "rdp-table5", "--quick", "--only", "FULL-100,RDP"], "two-pass RDP-10000");
    fails(at, &["repro", "rdp-table5", "--quick", "--seed-index", "1"], "--seed-index 1: expected 0;");
    fails(at, &["repro", "rdp-fig2", "--quick", "--only", "FULL-100"], "--only");
    fails(at, &["repro", "rdp-fig2", "--quick", "--seed-index", "0"], "--seed-index");
    fails(at, &["repro", "rdp-table5", "--print"], "rdp-table5.jsonl: there is no such file");
    fails(at, &["repro", "rdp-table5", "--print", "--results", "text.txt"], "no results of rdp-table5");
    fails(at, &["repro", "rdp-table6", "--print"], "rdp-table5");
    fails(at, &["repro", "rdp-table5", "--print", "--steps", "3"], "--steps");
    #[cfg(not(feature = "cuda"))]
    fails(at, &["sample", "missing", "--device", "cuda"], "cuda");
}

#[test]
fn long_sentences_are_cut_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    text(at);
    let arguments = ["train", "text.txt", "-q", "-o", "m", "--limit", "5", "--epochs", "1"];
    let schedules = ["--temperature", "1,0.7", "--entropy-weight", "0.5,1"];
    let found = program(at, &[&arguments[..], &SMALL, &schedules].concat());
    let errors = String::from_utf8_lossy(&found.stderr);
    assert!(found.status.success() && errors.contains("were cut to 5 words"), "{errors}");
    let train = zhat_vae::checkpoint::Checkpoint::read(&at.join("m")).unwrap().progress.train;
    assert_eq!((train.temperature, train.entropy_weight), ((1.0, 0.7), (0.5, 1.0)));
}

#[test]
fn lines_of_tags_are_those_of_the_text() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    text(at);
    works(at, &[&["train", "text.txt", "-q", "-o", "m", "--epochs", "1"], &SMALL[..]].concat());
    std::fs::write(at.join("gaps.txt"), "\na cat sees the dog .\n  \n\nthe dog sees a cat .\n\n").unwrap();
    let tags = works(at, &["tag", "m", "gaps.txt"]);
    let lengths: Vec<usize> = tags.lines().map(|line| line.split_whitespace().count()).collect();
    assert_eq!(lengths, [0, 6, 0, 0, 6, 0], "{tags}");
    let found = program(at, &["posterior", "m", "gaps.txt", "-o", "q.zhat"]);
    let errors = String::from_utf8_lossy(&found.stderr);
    assert!(found.status.success() && errors.contains("have no chain: 4"), "{errors}");
    let chain = zhat::io::read_model(&at.join("q.zhat")).unwrap();
    assert_eq!(chain.get::<zhat::Chain<f32>>().unwrap().batch(), 2);
}

#[test]
fn table_5_has_all_rows() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let rows = |table: &str| -> Vec<String> {
        let rows = table.lines().filter(|line| line.contains('-') && line.contains('±'));
        rows.map(str::to_owned).collect()
    };
    // A row by its exact name, then all others.
    let one = works(at, &["repro", "rdp-table5", "--quick", "--only", "RDP-100", "--threads", "1"]);
    assert_eq!(rows(&one).len(), 1, "{one}");
    let table = works(at, &["repro", "rdp-table5", "--quick"]);
    assert_eq!(rows(&table).len(), 9, "{table}");
    for row in rows(&table) {
        let nll: f64 = row.split('|').nth(2).unwrap().split_whitespace().next().unwrap().parse().unwrap();
        // A sentence has about nine words of 24; uniform words would cost 29 nats.
        assert!((8.0..60.0).contains(&nll), "{table}");
    }
    let results = || std::fs::read_to_string(at.join("rdp-table5-quick.jsonl")).unwrap();
    assert_eq!(results().lines().count(), 9);
    // A second run has nothing left to do.
    let before = results();
    assert_eq!(works(at, &["repro", "rdp-table5", "--quick"]), table);
    assert_eq!(results(), before);
    // Other settings are another table.
    let other = ["repro", "rdp-table5", "--quick", "--only", "FULL-100", "--steps", "5"];
    let other = works(at, &other);
    assert_eq!((rows(&other).len(), results().lines().count()), (1, 10), "{other}");
    // Without training, on any machine: the tables of both settings. The same line twice is one result.
    let first = results().lines().next().unwrap().to_owned();
    std::fs::write(at.join("rdp-table5-quick.jsonl"), format!("{}{first}\n", results())).unwrap();
    let print = ["repro", "rdp-table5", "--quick", "--print", "--device", "cuda"];
    let printed = works(at, &print);
    let both: Vec<String> = [rows(&table), rows(&other)].concat();
    assert_eq!(rows(&printed), both, "{printed}");
    assert!(printed.contains("60 steps of training") && printed.contains("5 steps of training"), "{printed}");
    assert_eq!(results().lines().count(), 11);
}

/// Results of a GPU, printed elsewhere: numbers that are not known are dashes.
#[test]
fn results_of_another_machine_are_printed() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let line = |row: &str, seed: u64, nll: f64, floored: u64| {
        format!(
            r#"{{"row":"{row}","seed":{seed},"states":2000,"kept":400,"sampled":0,"nll":{nll},"sampling_error":0.02,"text_error":0.3,"bias":0.01,"perplexity":20.0,"bound":-41.0,"best_step":900,"steps":1000,"epochs":6.0,"seconds":120.0,"warm_up_seconds":30.0,"words_per_second":9000.0,"gib":null,"inactive":100,"inactive_trained":1500,"floored":{floored},"machine":"a GPU","date":"2026-01-0{}","settings":{{"quick":false,"seconds":120.0,"steps":null,"test":1000,"samples":100,"seed":0,"device":"cuda","text":17,"version":"0.1.0"}}}}"#,
            seed + 1
        )
    };
    let lines = [line("TOPK-2000", 0, 40.0, 0), line("TOPK-2000", 1, 41.0, 0), line("FULL-2000", 0, 39.0, 5)];
    std::fs::write(at.join("gpu.jsonl"), lines.join("\n")).unwrap();
    let printed = works(at, &["repro", "rdp-table5", "--print", "--results", "gpu.jsonl"]);
    for part in [
        "cuda, 120 s of training, 1000 test sentences with 100 samples each",
        "a GPU; 2026-01-01 to 2026-01-02",
        // The standard deviation of 40 and 41.
        "| TOPK-2000 | 40.50 ± 0.71 (sd) | 2 | 39.84 ± 0.31 | 100 of 2000 | 1500 | 9000 | – | 1000 |",
        "| FULL-2000 | 39.00 ± 0.02 (se) | 1 | – | 100 of 2000 | 1500 | 9000 | – | 1000 |",
        "FULL-2000: 5 sums over states were below 1e-30",
    ] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
}

#[test]
fn training_stops_early() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    text(at);
    let dev: Vec<String> =
        zhat_vae::repro::made_up(40, 9).sentences.iter().map(|words| words.join(" ")).collect();
    std::fs::write(at.join("dev.txt"), dev.join("\n")).unwrap();
    let train = |model: &str, more: &[&str]| {
        let base = ["train", "text.txt", "-q", "-o", model];
        works(at, &[&base[..], &SMALL[..8], more].concat());
        zhat_vae::checkpoint::Checkpoint::read(&at.join(format!("{model}.state"))).unwrap().progress
    };
    let per_epoch = train("one", &["--epochs", "1", "--dev", "dev.txt"]).step;
    // With so large a rate, the objective soon does not improve.
    let early = ["--epochs", "3000", "--patience", "2", "--dev", "dev.txt", "--rate", "0.3"];
    let early = train("early", &early);
    let (_, best) = early.best.unwrap();
    assert_eq!(early.step, best + 2 * per_epoch);
    assert!(early.step < 3000 * per_epoch);
    // The model is the one that was best.
    let model = zhat_vae::checkpoint::Checkpoint::read(&at.join("early")).unwrap();
    assert_eq!(model.progress.step, best);
    // Seconds of training, those before a resumption included.
    let limited = ["--epochs", "1000000", "--seconds", "0.5", "--dev", "dev.txt"];
    let first = train("limited", &limited);
    assert!(first.seconds >= 0.5 && first.step > 0 && first.step < 1_000_000 * per_epoch);
    let again = train("limited", &[&limited[..], &["--resume"]].concat());
    assert_eq!(again.step, first.step);
}

#[test]
fn the_log_goes_on_after_a_resumption() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    text(at);
    let train = |epochs: &str, log: &str, model: &str, more: &[&str]| {
        let base = ["train", "text.txt", "-q", "-o", model, "--epochs", epochs, "--log", log];
        works(at, &[&base[..], &SMALL, more].concat());
    };
    let read = |log: &str| std::fs::read_to_string(at.join(log)).unwrap();
    train("12", "whole.csv", "whole", &[]);
    train("5", "part.csv", "part", &[]);
    let first = read("part.csv");
    assert!(first.lines().count() > 1, "{first}");
    // As if the run had been killed after more lines of the log, but no further state.
    std::fs::write(at.join("part.csv"), format!("{first}99999,1,1,1,1,1,1,1,0\n88888,")).unwrap();
    train("12", "part.csv", "part", &["--resume"]);
    let (whole, part) = (read("whole.csv"), read("part.csv"));
    assert!(part.starts_with(&first), "{part}");
    let column = |log: &str, k: usize| -> Vec<String> {
        log.lines().map(|line| line.split(',').nth(k).unwrap().to_owned()).collect()
    };
    for k in [0, 1] {
        assert_eq!(column(&whole, k), column(&part, k));
    }
    let seconds: Vec<f64> = column(&part, 2)[1..].iter().map(|x| x.parse().unwrap()).collect();
    assert!(seconds.windows(2).all(|pair| pair[0] <= pair[1]), "{part}");
    // The objective too, but for the line that has steps from before and after.
    let differ = column(&whole, 3).iter().zip(column(&part, 3)).filter(|(a, b)| *a != b).count();
    assert!(differ <= 1, "{whole}\n{part}");
}

#[test]
fn figure_2_goes_on_where_it_ended() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let arguments = ["repro", "rdp-fig2", "--quick", "--steps", "10"];
    let table = works(at, &arguments);
    assert_eq!(table.lines().filter(|line| line.contains(" of 100 |")).count(), 4, "{table}");
    let picture = || std::fs::read_to_string(at.join("rdp-fig2.svg")).unwrap();
    let first = picture();
    let results = at.join("rdp-fig2-quick.jsonl");
    let lines = std::fs::read_to_string(&results).unwrap();
    assert_eq!(lines.lines().count(), 4);
    // Without its last line only the last run is repeated, with the same result.
    let kept: Vec<&str> = lines.lines().take(3).collect();
    std::fs::write(&results, kept.join("\n") + "\n").unwrap();
    assert_eq!(works(at, &arguments), table);
    assert_eq!((picture(), std::fs::read_to_string(&results).unwrap().lines().count()), (first.clone(), 4));
    // Top K states as trained: at most a fifth of them at each position, so no fewer are inactive than of all.
    let top: Vec<usize> = table
        .lines()
        .find(|line| line.starts_with("| 20 | 0 |"))
        .unwrap()
        .split('|')
        .filter_map(|cell| cell.split_whitespace().next()?.parse().ok())
        .collect();
    assert!(top[3] > top[2] && first.contains("K1 = 20, K2 = 0, as trained"), "{table}");
    // Without training.
    std::fs::remove_file(at.join("rdp-fig2.svg")).unwrap();
    let printed = works(at, &["repro", "rdp-fig2", "--quick", "--print"]);
    assert!(printed.contains(&table) && picture() == first, "{printed}");
}

#[test]
fn sums_of_the_device_are_compared_with_the_library() {
    let folder = tempfile::tempdir().unwrap();
    let found = works(folder.path(), &["selftest"]);
    // Six cases in single and in double precision.
    assert_eq!(found.lines().filter(|line| line.contains("entropy")).count(), 12, "{found}");
    assert!(found.contains("allowed: 1e-5") && found.contains("allowed: 1e-10"), "{found}");
}
