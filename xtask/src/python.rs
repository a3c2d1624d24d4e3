//! The Python package: an environment of pinned tools, the wheel, its tests.

use std::path::PathBuf;

use crate::shell::{Outcome, Step, root};

/// The pinned tools; a change of this file makes a new environment.
const REQUIREMENTS: &str = "python/requirements-dev.txt";

pub fn test() -> Outcome {
    let environment = environment()?;
    let tool = |name: &str| environment.join("bin").join(name);
    let in_python = |step: Step| {
        step.with(|command| {
            command.current_dir(root().join("python"));
        })
    };
    in_python(Step::new(tool("ruff"), &["format", "--check", "."])).run()?;
    in_python(Step::new(tool("ruff"), &["check", "."])).run()?;
    let develop = ["develop", "--profile", "ci", "--locked", "--quiet"];
    let activated = |step: Step| {
        step.with(|command| {
            command.env("VIRTUAL_ENV", &environment);
        })
    };
    activated(in_python(Step::new(tool("maturin"), &develop))).run()?;
    in_python(Step::new(tool("mypy"), &["--strict", "zhat"])).run()?;
    in_python(Step::new(tool("python"), &["-m", "pytest", "-q"])).run()
}

/// The virtual environment with the pinned tools, made if need be, in the user's cache folder.
fn environment() -> Outcome<PathBuf> {
    let requirements =
        std::fs::read(root().join(REQUIREMENTS)).map_err(|error| format!("{REQUIREMENTS}: {error}"))?;
    let version = Step::new("python3", &["-c", "import sys; print(sys.version, sys.executable)"]).output()?;
    let key =
        requirements.iter().copied().chain(version.bytes()).fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    let environment = cache()?.join("zhat").join(format!("python-{key:016x}"));
    let complete = environment.join("complete");
    if !complete.exists() {
        let path = environment.to_string_lossy().into_owned();
        Step::new("python3", &["-m", "venv", "--clear", &path]).run()?;
        let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", REQUIREMENTS];
        Step::new(environment.join("bin/python"), &install).run()?;
        std::fs::write(&complete, "").map_err(|error| format!("{}: {error}", complete.display()))?;
    }
    Ok(environment)
}

/// The user's cache folder.
fn cache() -> Outcome<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("XDG_CACHE_HOME")
        .or_else(|| variable("HOME").map(|home| home.join(".cache")))
        .ok_or_else(|| "neither XDG_CACHE_HOME nor HOME is set".into())
}
