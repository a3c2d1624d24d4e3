//! The Python package: pinned tools, the wheel, its tests.

use std::path::Path;

use crate::environment;
use crate::shell::{Outcome, Step, root};

/// The pinned tools; a change of this file makes a new environment.
const REQUIREMENTS: &str = "python/requirements-dev.txt";

/// PyTorch, which only the tests of `zhat.torch` need: from the index that pip is set up with, on some systems gigabytes.
const TORCH: &str = "python/requirements-torch.txt";

pub fn test() -> Outcome {
    let environment = environment::with(&[REQUIREMENTS])?;
    tool(&environment, "ruff", &["format", "--check", ".", "../bench"]).run()?;
    tool(&environment, "ruff", &["check", ".", "../bench"]).run()?;
    develop(&environment)?;
    tool(&environment, "mypy", &["--strict", "zhat"]).run()?;
    tool(&environment, "python", &["-m", "pytest", "-q"]).run()
}

/// The tests whose names have `torch` in them, in an environment of their own.
pub fn test_torch() -> Outcome {
    let environment = environment::with(&[REQUIREMENTS, TORCH])?;
    develop(&environment)?;
    // A test that is skipped for want of PyTorch would have been run for nothing.
    tool(&environment, "python", &["-c", "import torch"]).run()?;
    tool(&environment, "python", &["-m", "pytest", "-q", "-k", "torch"]).run()
}

/// A program of an environment, run in the package's folder.
fn tool(environment: &Path, name: &str, args: &[&str]) -> Step {
    Step::new(environment.join("bin").join(name), args).with(|command| {
        command.current_dir(root().join("python"));
    })
}

/// Builds the package into an environment.
fn develop(environment: &Path) -> Outcome {
    let args = ["develop", "--profile", "ci", "--locked", "--quiet"];
    let step = tool(environment, "maturin", &args).with(|command| {
        command.env("VIRTUAL_ENV", environment);
    });
    step.run()
}
