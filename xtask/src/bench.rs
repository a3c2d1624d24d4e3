//! `cargo xtask bench exact | chain`: zhat beside other tools.

use std::path::PathBuf;

use crate::environment;
use crate::shell::{Outcome, Step, root};

/// The other tools; a change of this file makes a new environment.
const REQUIREMENTS: &str = "bench/exact/requirements.txt";

pub fn exact(args: &[&str]) -> Outcome {
    Step::cargo(&["build", "--release", "--package", "zhat-cli", "--locked"]).run()?;
    let environment = environment::with(&[REQUIREMENTS])?;
    let program = target().join("release/zhat").to_string_lossy().into_owned();
    let all = [&["bench/exact/run.py", "--zhat", &program], args].concat();
    Step::new(environment.join("bin/python"), &all).run()
}

/// What zhat's chains are compared with, and what builds zhat into the same environment.
const CHAIN_REQUIREMENTS: &str = "bench/chain/requirements.txt";

pub fn chain(args: &[&str]) -> Outcome {
    let environment = environment::with(&[CHAIN_REQUIREMENTS])?;
    Step::new(environment.join("bin/maturin"), &["develop", "--release", "--locked", "--quiet"])
        .with(|command| {
            command.current_dir(root().join("python")).env("VIRTUAL_ENV", &environment);
        })
        .run()?;
    Step::new(environment.join("bin/python"), &[&["bench/chain/run.py"], args].concat()).run()
}

/// Where cargo puts what it builds.
fn target() -> PathBuf {
    let chosen = std::env::var_os("CARGO_TARGET_DIR").filter(|value| !value.is_empty());
    chosen.map_or_else(|| root().join("target"), |path| root().join(path))
}
