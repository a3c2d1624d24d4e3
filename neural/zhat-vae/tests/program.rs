//! The program: from a text to a model, its uses, and errors that say what to do.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn program(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zhat-vae"));
    command.args(arguments).current_dir(folder).output().unwrap()
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
    assert!(log.starts_with("step,epoch,seconds,bound,words,states,entropy,words_per_second\n25,"), "{log}");
    let found = works(at, &["eval", "m.safetensors", "text.txt", "--samples", "10", "--first", "20"]);
    assert!(found.contains("negative log-likelihood") && found.contains("perplexity"), "{found}");
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
    fails(at, &train(&["--temperature", "1,0"]), "--temperature");
    fails(at, &train(&["--batch", "0"]), "--batch");
    fails(at, &train(&["--limit", "0"]), "--limit");
    fails(at, &train(&["--encoder", "gpt2"]), "--gpt2");
    fails(at, &train(&["--encoder", "gpt2", "--gpt2", "nowhere"]), "nowhere");
    fails(at, &train(&["--resume"]), "m.state");
    fails(at, &["eval", "missing", "text.txt"], "missing");
    fails(at, &["eval", "text.txt", "text.txt"], "damaged");
    fails(at, &["repro", "rdp-table6", "--quick"], "rdp-table5");
    fails(at, &["repro", "rdp-table5", "--quick", "--samples", "0"], "--samples");
    fails(at, &["repro", "rdp-table5", "--quick", "--only", "FULL-100,RDP"], "two-pass RDP-10000");
    #[cfg(not(feature = "cuda"))]
    fails(at, &["sample", "missing", "--device", "cuda"], "cuda");
}

#[test]
fn long_sentences_are_cut_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    text(at);
    let arguments = ["train", "text.txt", "-q", "-o", "m", "--limit", "5", "--epochs", "1"];
    let found = program(at, &[&arguments[..], &SMALL].concat());
    let errors = String::from_utf8_lossy(&found.stderr);
    assert!(found.status.success() && errors.contains("were cut to 5 words"), "{errors}");
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
    let started = std::time::Instant::now();
    assert_eq!(works(at, &["repro", "rdp-table5", "--quick"]), table);
    assert!(started.elapsed().as_secs() < 20);
    // Other settings are another table.
    let other = ["repro", "rdp-table5", "--quick", "--only", "FULL-100", "--steps", "5"];
    let other = works(at, &other);
    assert_eq!((rows(&other).len(), results().lines().count()), (1, 10), "{other}");
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
    assert_eq!((picture(), std::fs::read_to_string(&results).unwrap().lines().count()), (first, 4));
}

#[test]
fn sums_of_the_device_are_compared_with_the_library() {
    let folder = tempfile::tempdir().unwrap();
    let found = works(folder.path(), &["selftest"]);
    assert_eq!(found.lines().filter(|line| line.contains("entropy")).count(), 6, "{found}");
}
