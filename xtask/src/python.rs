//! The Python package: pinned tools, the wheel, its tests.

use crate::environment;
use crate::shell::{Outcome, Step, root};

/// The pinned tools; a change of this file makes a new environment.
const REQUIREMENTS: &str = "python/requirements-dev.txt";

pub fn test() -> Outcome {
    let environment = environment::with(REQUIREMENTS)?;
    let tool = |name: &str| environment.join("bin").join(name);
    let in_python = |step: Step| {
        step.with(|command| {
            command.current_dir(root().join("python"));
        })
    };
    in_python(Step::new(tool("ruff"), &["format", "--check", ".", "../bench"])).run()?;
    in_python(Step::new(tool("ruff"), &["check", ".", "../bench"])).run()?;
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
