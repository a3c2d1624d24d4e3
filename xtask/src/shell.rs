//! Runs commands: prints each command and names the one that fails.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// The error is a message for the user.
pub type Outcome<T = ()> = Result<T, String>;

/// One command of a task.
pub struct Step {
    command: Command,
    shown: String,
}

impl Step {
    /// A program with arguments, run in the root of the workspace.
    pub fn new(program: impl AsRef<Path>, args: &[&str]) -> Self {
        let program = program.as_ref();
        let mut command = Command::new(program);
        command.args(args).current_dir(root());
        let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned();
        Step { command, shown: format!("{name} {}", args.join(" ")) }
    }

    /// `cargo` with arguments. Python's module is built as maturin builds it: not linked with Python.
    pub fn cargo(args: &[&str]) -> Self {
        let cargo = std::env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from);
        Step::new(cargo, args).with(|command| {
            command.env("PYO3_BUILD_EXTENSION_MODULE", "1");
        })
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self.shown = format!("{name}={value} {}", self.shown);
        self
    }

    /// Modifies the command without showing it in the printed command line.
    pub fn with(mut self, change: impl FnOnce(&mut Command)) -> Self {
        change(&mut self.command);
        self
    }

    /// Runs the command; returns an error unless it succeeds.
    pub fn run(mut self) -> Outcome {
        eprintln!("\n▶ {}", self.shown);
        let started = Instant::now();
        let status = self.command.status().map_err(|error| format!("{}: {error}", self.shown))?;
        if !status.success() {
            return Err(format!("failed ({status}): {}", self.shown));
        }
        eprintln!("  {:.0} s", started.elapsed().as_secs_f64());
        Ok(())
    }

    /// Runs the command, prints its output and returns it; returns an error unless it succeeds.
    pub fn run_and_keep(mut self) -> Outcome<String> {
        eprintln!("\n▶ {}", self.shown);
        let fail = |error: std::io::Error| error.to_string();
        let mut child = self.command.stdout(Stdio::piped()).spawn().map_err(fail)?;
        let mut kept = String::new();
        for line in child.stdout.take().into_iter().flat_map(|out| BufReader::new(out).lines()) {
            let line = line.map_err(fail)?;
            println!("{line}");
            kept += &(line + "\n");
        }
        let status = child.wait().map_err(fail)?;
        if status.success() { Ok(kept) } else { Err(format!("failed ({status}): {}", self.shown)) }
    }

    /// Runs the command and returns its output.
    pub fn output(mut self) -> Outcome<String> {
        let output = self.command.output().map_err(|error| format!("{}: {error}", self.shown))?;
        if !output.status.success() {
            return Err(format!("failed ({}): {}", output.status, self.shown));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}

/// Cargo's target folder.
pub fn target() -> PathBuf {
    let chosen = std::env::var_os("CARGO_TARGET_DIR").filter(|value| !value.is_empty());
    chosen.map_or_else(|| root().join("target"), |path| root().join(path))
}

/// The root of the workspace.
pub fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_owned()
}
