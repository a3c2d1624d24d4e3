//! The Python package: pinned tools, build and tests.

use std::path::Path;

use crate::environment;
use crate::report::unexpected_skips;
use crate::shell::{Outcome, Step, root};

/// The pinned tools; a change of this file creates a new environment.
const REQUIREMENTS: &str = "python/requirements-dev.txt";

/// PyTorch, which only the tests of `zhat.torch` need. It comes from the package index configured for pip and
/// can take gigabytes.
const TORCH: &str = "python/requirements-torch.txt";

/// Runs the linters and tests of the package. With `ci` a skipped test fails the run, unless it needs
/// benchmark models that are not available.
pub fn test(ci: bool, has_data: bool) -> Outcome {
    let environment = environment::with(&[REQUIREMENTS])?;
    tool(&environment, "ruff", &["format", "--check", ".", "../bench"]).run()?;
    tool(&environment, "ruff", &["check", ".", "../bench"]).run()?;
    develop(&environment)?;
    tool(&environment, "mypy", &["--strict", "zhat"]).run()?;
    // The tests of `zhat.torch` are run separately, by `test_torch`.
    let expected: &[&str] = if has_data { &["PyTorch"] } else { &["PyTorch", "ZHAT_DATA"] };
    pytest(&environment, &[], ci.then_some(expected))
}

/// Runs pytest. If `expected` is given, tests that are skipped for any other reason are an error.
fn pytest(environment: &Path, args: &[&str], expected: Option<&[&str]>) -> Outcome {
    let all = [&["-m", "pytest", "-q", "-rs"], args].concat();
    let step = tool(environment, "python", &all);
    let Some(expected) = expected else { return step.run() };
    let skipped = unexpected_skips(&step.run_and_keep()?, expected);
    if skipped.is_empty() {
        return Ok(());
    }
    Err(format!("CI=true allows no test to be skipped: {}", skipped.join("; ")))
}

/// Runs the tests whose names contain `torch`, in a separate environment.
///
/// With `ci` a skipped test fails the run.
pub fn test_torch(ci: bool) -> Outcome {
    let environment = environment::with(&[REQUIREMENTS, TORCH])?;
    develop(&environment)?;
    // Fails here if PyTorch is missing, because the tests would then all be skipped.
    tool(&environment, "python", &["-c", "import torch"]).run()?;
    pytest(&environment, &["-k", "torch"], ci.then_some(&[]))
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
