//! SIGINT and SIGTERM at different times: exit status, temporary files, output.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Output, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::support::Folder;
use serde_json::Value;

fn start(folder: &Folder, args: &[&str]) -> Child {
    folder.command(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn send(child: &Child, signal: &str) {
    let sent = std::process::Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

/// Waits for the process to exit. It exits within half a second on an idle machine; the limit allows for a
/// busy one. A process that was started while SIGINT is ignored, as in a background job of a shell, loses
/// signals that arrive before its handlers are installed.
fn end(mut child: Child) -> Output {
    let started = Instant::now();
    let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let readers = [read(Box::new(stdout)), read(Box::new(stderr))];
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if started.elapsed() > Duration::from_secs(10) => {
                child.kill().unwrap();
                panic!("it did not stop; is SIGINT ignored here?")
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    let [stdout, stderr] = readers.map(|reader| reader.join().unwrap());
    Output { status, stdout, stderr }
}

/// Reads a pipe to its end, so that the process never waits for a reader.
fn read(mut pipe: Box<dyn Read + Send>) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).unwrap();
        bytes
    })
}

/// The exit status. If the signal killed the process before it installed its handler, 128 + the signal
/// number, as in a shell.
fn status(output: &Output) -> i32 {
    output.status.code().or_else(|| output.status.signal().map(|signal| 128 + signal)).unwrap()
}

fn temporary_files(folder: &Folder) -> Vec<String> {
    let names = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    names.map(|name| name.into_string().unwrap()).filter(|name| name.ends_with(".tmp")).collect()
}

/// Waits until a condition holds.
fn wait_until(mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < Duration::from_secs(60), "it never came to that");
        std::thread::sleep(Duration::from_millis(5));
    }
}

const SIGNALS: [(&str, i32); 2] = [("-INT", 130), ("-TERM", 143)];

#[test]
fn a_signal_soon_after_the_start_ends_the_program() {
    let folder = Folder::new("signal-early");
    folder.ok(&["generate", "ising", "--rows", "8", "--columns", "8", "-o", "g.zhat"]);
    let endless = ["logz", "g.zhat", "--method", "enumeration"];
    for (signal, expected) in SIGNALS {
        for delay in [0, 1, 2, 5, 10, 20, 50, 300] {
            let child = start(&folder, &endless);
            std::thread::sleep(Duration::from_millis(delay));
            send(&child, signal);
            let output = end(child);
            assert_eq!(status(&output), expected, "{signal} after {delay} ms: {output:?}");
            assert_eq!(output.stdout, b"");
        }
    }
}

#[test]
fn a_method_with_a_result_so_far_prints_it() {
    let folder = Folder::new("signal-result");
    folder.ok(&["generate", "ising", "-o", "g.zhat"]);
    for (signal, expected) in SIGNALS {
        let child = start(
            &folder,
            &["logz", "g.zhat", "--method", "importance", "--set", "samples=1000000000000", "--json"],
        );
        std::thread::sleep(Duration::from_millis(1500));
        send(&child, signal);
        let output = end(child);
        assert_eq!(status(&output), expected, "{output:?}");
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(answer["diagnostics"]["stopped_early"], true);
        assert!(answer["value"].is_number());
    }
}

#[test]
fn an_interrupted_fit_writes_the_model_so_far() {
    let folder = Folder::new("signal-fit");
    let row = |i: u32| (0..20).map(|j| (i >> j & 1).to_string()).collect::<Vec<_>>().join(",");
    let header = (0..20).map(|j| format!("c{j}")).collect::<Vec<_>>().join(",");
    let rows: Vec<String> = (0..4000u32).map(|i| row(i.wrapping_mul(2_654_435_761) >> 7)).collect();
    folder.write("t.csv", &format!("{header}\n{}\n", rows.join("\n")));
    for (signal, expected) in SIGNALS {
        let _ = std::fs::remove_file(folder.path().join("m.zhat"));
        let args = ["fit", "t.csv", "--structure", "complete", "--tolerance", "0", "--l2", "1e-12"];
        let slow = ["--iterations", "100000000", "--optimizer", "fista", "-o", "m.zhat", "--json"];
        let child = start(&folder, &[&args[..], &slow].concat());
        std::thread::sleep(Duration::from_millis(1500));
        send(&child, signal);
        let output = end(child);
        assert_eq!(status(&output), expected, "{output:?}");
        // An interrupt before the fit has begun is an error without a model.
        if String::from_utf8_lossy(&output.stdout).contains("\"command\"") {
            assert!(folder.ok(&["logz", "m.zhat"]).contains("log Z"));
        }
        assert_eq!(temporary_files(&folder), [""; 0]);
    }
}

#[test]
fn a_signal_while_a_large_file_is_written_leaves_nothing_behind() {
    let folder = Folder::new("signal-write");
    folder.write("keep.uai", "old");
    for (signal, expected) in SIGNALS {
        let args = ["generate", "tree", "--states", "80", "--variables", "1000", "-o", "keep.uai"];
        let child = start(&folder, &args);
        wait_until(|| !temporary_files(&folder).is_empty());
        send(&child, signal);
        let output = end(child);
        assert_eq!(status(&output), expected, "{output:?}");
        assert_eq!(temporary_files(&folder), [""; 0]);
        assert_eq!(std::fs::read_to_string(folder.path().join("keep.uai")).unwrap(), "old");
        assert!(String::from_utf8_lossy(&output.stderr).contains("interrupted"));
    }
}

#[test]
fn a_signal_while_a_model_or_table_is_read_ends_the_program() {
    let folder = Folder::new("signal-read");
    for (signal, expected) in SIGNALS {
        for (args, begin) in [
            (vec!["logz", "-", "--json"], "MARKOV 2 2 2 1 2 0 1 4 1 2"),
            (vec!["fit", "-", "-o", "m.zhat", "--json"], "a,b\n1,2\n2,1\n"),
            (vec!["lm", "train", "-", "-o", "m.zhat", "--json"], "a b a\nb a b\n"),
        ] {
            let mut child = start(&folder, &args);
            // The program waits for more input, which never arrives.
            let mut input = child.stdin.take().unwrap();
            std::io::Write::write_all(&mut input, begin.as_bytes()).unwrap();
            std::thread::sleep(Duration::from_millis(300));
            send(&child, signal);
            let output = end(child);
            drop(input);
            assert_eq!(status(&output), expected, "{args:?}: {output:?}");
            let error: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(error["error"]["kind"], "interrupted");
            assert_eq!(temporary_files(&folder), [""; 0]);
        }
    }
}

#[test]
fn a_blocked_reader_does_not_keep_the_program_alive() {
    let folder = Folder::new("signal-print");
    folder.ok(&["generate", "tree", "-o", "t.zhat"]);
    for (signal, expected) in SIGNALS {
        let child = start(&folder, &["sample", "t.zhat", "-n", "1000000", "--json"]);
        std::thread::sleep(Duration::from_millis(1500));
        send(&child, signal);
        std::thread::sleep(Duration::from_millis(300));
        let output = end(child);
        assert_eq!(status(&output), expected);
    }
}
