//! Table 5 and Figure 2 of Fu, Cunningham and Lapata (2022), by the program `zhat-vae`.
//!
//! Training needs a neural network library, which zhat does not depend on.

use std::process::Command;

use zhat::{Error, Result};

use super::Setting;

pub fn table5(setting: &Setting<'_>) -> Result<()> {
    run("rdp-table5", setting)
}

pub fn figure2(setting: &Setting<'_>) -> Result<()> {
    run("rdp-fig2", setting)
}

fn run(name: &str, setting: &Setting<'_>) -> Result<()> {
    let mut command = Command::new("zhat-vae");
    command.args(["repro", name, "--seed", &setting.run.seed().to_string(), "--output"]).arg(setting.folder);
    command.arg("--results").arg(setting.folder.join(format!("{name}.jsonl")));
    if setting.quick {
        command.arg("--quick");
    }
    let status = command.status().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Error::argument(
            name,
            "needs the program `zhat-vae`, which is not installed; in a checkout, `cargo install --path \
             neural/zhat-vae` installs it",
        ),
        _ => Error::argument(name, format!("`zhat-vae` could not be started: {error}")),
    })?;
    match status.success() {
        true => Ok(()),
        false => Err(Error::NoAnswer(format!("`zhat-vae repro {name}` failed ({status})"))),
    }
}
