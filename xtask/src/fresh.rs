//! `cargo xtask fresh`: runs the README's commands in a fresh clone with a minimal environment.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::shell::{Outcome, Step, root};

/// The README's two commands.
const COMMANDS: [&str; 2] = ["cargo run --release -- demo", "cargo xtask test"];

/// Environment variables that are kept: network access, locale, data folder and toolchain.
const KEPT: [&str; 14] = [
    "LANG",
    "LC_ALL",
    "TERM",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "PIP_CERT",
    "ZHAT_DATA",
    "RUSTUP_TOOLCHAIN",
];

/// Runs the commands; with `all` every part of the test command, as in continuous integration.
pub fn run(all: bool) -> Outcome {
    let readme =
        std::fs::read_to_string(root().join("README.md")).map_err(|error| format!("README.md: {error}"))?;
    for command in COMMANDS {
        if !readme.lines().any(|line| line.trim() == command) {
            return Err(format!("the README does not have the line `{command}`"));
        }
    }
    if !Step::new("git", &["status", "--porcelain"]).output()?.is_empty() {
        eprintln!("only what is committed is tried; there are changes that are not");
    }
    let folder = std::env::temp_dir().join(format!("zhat-fresh-{}", std::process::id()));
    let clone = folder.join("zhat");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let (from, to) = (root().to_string_lossy().into_owned(), clone.to_string_lossy().into_owned());
    Step::new("git", &["clone", "--quiet", "--no-local", &from, &to]).run()?;
    let path = search_path()?;
    for command in COMMANDS {
        let step = Step::new("sh", &["-c", command]).with(|step| strip(step, &folder, &clone, &path));
        let step = if all { step.env("CI", "true") } else { step };
        step.run()?;
    }
    std::fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))
}

/// Reduces the environment of a command to the toolchain, Python, the C compiler and network access.
fn strip(command: &mut Command, folder: &Path, clone: &Path, path: &str) {
    command.current_dir(clone).env_clear().env("PATH", path).env("HOME", folder);
    command.env("CARGO_HOME", folder.join("cargo")).env("XDG_CACHE_HOME", folder.join("cache"));
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let rustup = std::env::var_os("RUSTUP_HOME").map_or_else(|| home.join(".rustup"), PathBuf::from);
    command.env("RUSTUP_HOME", rustup);
    for name in KEPT {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
}

/// The folders of cargo and of the actual Python executable (a version manager's shim would need its own
/// home), then the system folders.
fn search_path() -> Outcome<String> {
    let python = Step::new("python3", &["-c", "import sys; print(sys.executable)"]).output()?;
    let cargo = Step::new("sh", &["-c", "command -v cargo"]).output()?;
    let folders = [python, cargo].map(|program| {
        Path::new(&program).parent().map(|folder| folder.to_string_lossy().into_owned()).unwrap_or_default()
    });
    Ok(format!("{}:/usr/local/bin:/usr/bin:/bin", folders.join(":")))
}
