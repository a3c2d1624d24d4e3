//! Helpers that run the program and parse its output.
#![allow(dead_code, clippy::unwrap_used, clippy::panic, missing_docs)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

/// A temporary folder for one test, removed on drop.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(test: &str) -> Self {
        // Tests run side by side, and two of them may have the same name for their folder.
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let (process, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(format!("zhat-cli-{test}-{process}-{count}"));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file and returns its name.
    pub fn write(&self, name: &str, content: &str) -> String {
        std::fs::write(self.0.join(name), content).unwrap();
        name.into()
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zhat"));
        command.args(args).current_dir(&self.0);
        command
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        Ran(self.command(args).output().unwrap())
    }

    /// Runs the program with this text as its stdin.
    pub fn run_with_input(&self, args: &[&str], input: impl AsRef<[u8]>) -> Ran {
        let file = self.0.join(".stdin");
        std::fs::write(&file, input).unwrap();
        Ran(self.command(args).stdin(std::fs::File::open(file).unwrap()).output().unwrap())
    }

    /// Runs the program, expects success and returns stdout.
    pub fn ok(&self, args: &[&str]) -> String {
        let ran = self.run(args);
        assert_eq!(ran.status(), 0, "{args:?}: {}", ran.stderr());
        ran.stdout()
    }

    /// Runs the program with `--json` and expects a result.
    pub fn json(&self, args: &[&str]) -> Value {
        let mut args = args.to_vec();
        args.push("--json");
        serde_json::from_str(&self.ok(&args)).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub struct Ran(pub Output);

impl Ran {
    pub fn status(&self) -> i32 {
        self.0.status.code().unwrap_or(-1)
    }

    pub fn stdout(&self) -> String {
        String::from_utf8(self.0.stdout.clone()).unwrap()
    }

    pub fn stderr(&self) -> String {
        String::from_utf8(self.0.stderr.clone()).unwrap()
    }
}

/// The bytes as a .gz file.
pub fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

/// The bytes as a .zst file of one frame with uncompressed blocks (RFC 8878).
pub fn zst(bytes: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0xa0];
    frame.extend((bytes.len() as u32).to_le_bytes());
    let mut blocks = bytes.chunks(1 << 16).peekable();
    while let Some(block) = blocks.next() {
        let header = (block.len() as u32) << 3 | u32::from(blocks.peek().is_none());
        frame.extend(&header.to_le_bytes()[..3]);
        frame.extend(block);
    }
    frame
}

/// Sprinkler network with numbered states: cloudy, sprinkler, rain, wet.
pub const SPRINKLER: &str = "BAYES\n4\n2 2 2 2\n4\n1 0\n2 0 1\n2 0 2\n3 1 2 3\n
2\n .5 .5\n4\n .5 .5\n .9 .1\n4\n .8 .2\n .2 .8\n8\n 1 0\n .1 .9\n .1 .9\n .01 .99\n";

/// The output without times, which differ between runs.
pub fn without_times(text: &str) -> String {
    let line = |line: &str| match line.split_once(", ") {
        Some((method, rest)) if line.starts_with("method  ") => {
            let figures = rest.split_once("; ").map_or(String::new(), |(_, figures)| format!("; {figures}"));
            format!("{method}, [time]{figures}")
        }
        _ => line.to_owned(),
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// A JSON result without times, which differ between runs.
pub fn without_seconds(mut answer: Value) -> Value {
    for part in ["diagnostics", "plan"] {
        answer[part].as_object_mut().unwrap().remove("seconds");
    }
    answer
}
