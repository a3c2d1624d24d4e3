//! Table 5 and Figure 2 of Fu, Cunningham and Lapata (2022), by the program `zhat-vae`.
//!
//! Training needs a neural network library, which zhat does not depend on. The options after `--` are those of
//! `zhat-vae repro`.

use std::io::ErrorKind;
use std::process::Command;

use zhat::{Error, Result};

use super::Setting;

/// The experiments of this file.
pub const NAMES: [&str; 2] = ["rdp-table5", "rdp-fig2"];

pub fn table5(setting: &Setting<'_>) -> Result<()> {
    run(NAMES[0], setting)
}

pub fn figure2(setting: &Setting<'_>) -> Result<()> {
    run(NAMES[1], setting)
}

fn run(name: &str, setting: &Setting<'_>) -> Result<()> {
    let given = |option: &str| {
        let with_value = format!("{option}=");
        setting.further.iter().any(|own| own == option || own.starts_with(&with_value))
    };
    let mut command = Command::new("zhat-vae");
    command.args(["repro", name, "--output"]).arg(setting.folder);
    // `--print` trains nothing, so it has no seed.
    if !given("--print") && !given("--seed") {
        command.args(["--seed", &setting.run.seed().to_string()]);
    }
    let quick = setting.quick || given("--quick");
    if !given("--results") {
        let file = if quick { format!("{name}-quick.jsonl") } else { format!("{name}.jsonl") };
        command.arg("--results").arg(setting.folder.join(file));
    }
    if setting.quick && !given("--quick") {
        command.arg("--quick");
    }
    if let Some(threads) = setting.threads.filter(|_| !given("--threads")) {
        command.args(["--threads", &threads.to_string()]);
    }
    let status = command.args(setting.further).status().map_err(|error| match error.kind() {
        ErrorKind::NotFound => Error::argument(
            name,
            "needs the program `zhat-vae`, which is not installed; in a checkout, `cargo install --path \
             neural/zhat-vae` installs it, with `--features cuda` also for an NVIDIA GPU",
        ),
        _ => Error::argument(name, format!("`zhat-vae` could not be started: {error}")),
    })?;
    match status.success() {
        true => Ok(()),
        false => Err(Error::NoAnswer(format!("`zhat-vae repro {name}` failed ({status})"))),
    }
}
