//! The Python package: pinned tools, build and tests.

use std::path::{Path, PathBuf};

use crate::environment;
use crate::report::unexpected_skips;
use crate::shell::{Outcome, Step, root, target};

/// The pinned tools; a change of this file creates a new environment.
const REQUIREMENTS: &str = "python/requirements-dev.txt";

/// PyTorch, for the tests of `zhat.torch` and the notebooks that use it, and the site generator. PyTorch comes
/// from the package index configured for pip and can take gigabytes, so both parts share an environment.
const TORCH_AND_DOCS: [&str; 2] = ["python/requirements-torch.txt", "python/requirements-docs.txt"];

/// Ray, for the tests of divided queries on a cluster.
const RAY: &str = "python/requirements-ray.txt";

/// Runs the linters and tests of the package. With `ci` a skipped test fails the run, unless it needs
/// benchmark models that are not available.
pub fn test(ci: bool, has_data: bool) -> Outcome {
    let environment = environment(&[])?;
    let sources = [".", "../bench", "../docs/site"];
    tool(&environment, "ruff", &[&["format", "--check"], &sources[..]].concat()).run()?;
    tool(&environment, "ruff", &[&["check"], &sources[..]].concat()).run()?;
    tool(&environment, "mypy", &["--strict", "zhat"]).run()?;
    // The tests of `zhat.torch` and on Ray are run separately, by `test_torch` and `test_ray`.
    let expected: &[&str] = if has_data { &["PyTorch", "Ray"] } else { &["PyTorch", "Ray", "ZHAT_DATA"] };
    pytest(&environment, &[], ci.then_some(expected))
}

/// Runs pytest. If `expected` is given, tests that are skipped for any other reason are an error.
fn pytest(environment: &Path, args: &[&str], expected: Option<&[&str]>) -> Outcome {
    let all = [&["-m", "pytest", "-q", "-rs"], args].concat();
    // The program itself starts faster than through Python.
    let program = target().join("ci/zhat").to_string_lossy().into_owned();
    let step = tool(environment, "python", &all).env("ZHAT_PROGRAM", &program);
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
    let environment = with_torch()?;
    // Fails here if PyTorch is missing, because the tests would then all be skipped.
    tool(&environment, "python", &["-c", "import torch"]).run()?;
    pytest(&environment, &["-k", "torch"], ci.then_some(&[]))
}

/// Runs the tests of `zhat.cluster` on a Ray cluster of three nodes on this machine.
///
/// With `ci` a skipped test fails the run.
pub fn test_ray(ci: bool) -> Outcome {
    let environment = environment(&[RAY])?;
    tool(&environment, "python", &["-c", "import ray"]).run()?;
    pytest(&environment, &["tests/test_cluster_on_ray.py"], ci.then_some(&[]))
}

/// The environment with PyTorch and the site generator.
pub fn with_torch() -> Outcome<PathBuf> {
    environment(&TORCH_AND_DOCS)
}

/// An environment with the pinned tools, the packages of more requirements files, and zhat itself.
fn environment(more: &[&str]) -> Outcome<PathBuf> {
    let environment = environment::with(&[&[REQUIREMENTS], more].concat())?;
    develop(&environment)?;
    Ok(environment)
}

/// A program of an environment, run in the package's folder.
fn tool(environment: &Path, name: &str, args: &[&str]) -> Step {
    Step::new(environment.join("bin").join(name), args).with(|command| {
        command.current_dir(root().join("python"));
    })
}

/// Installs the package into an environment: the module that `build` makes for all tests, the sources by
/// reference, and the program. (`maturin develop` would compile the library a second time, because it builds
/// fewer packages and cargo unifies features over what is built.) `cargo xtask wheel` tests the packaging.
fn develop(environment: &Path) -> Outcome {
    build()?;
    let fail = |error: std::io::Error| format!("installing the Python package: {error}");
    let (package, target) = (root().join("python"), target().join("ci"));
    let (prefix, suffix) = (std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let module = if cfg!(windows) { "_zhat.pyd" } else { "_zhat.abi3.so" };
    std::fs::copy(target.join(format!("{prefix}_zhat{suffix}")), package.join("zhat").join(module))
        .map_err(fail)?;
    let python = environment.join("bin/python");
    let ask = "import sysconfig; print(sysconfig.get_path('purelib')); print(sysconfig.get_path('scripts'))";
    let folders = Step::new(&python, &["-c", ask]).output()?;
    let (packages, scripts) = folders.split_once('\n').ok_or("Python does not name its folders")?;
    std::fs::write(Path::new(packages).join("zhat.pth"), format!("{}\n", package.display())).map_err(fail)?;
    let script = Path::new(scripts).join("zhat");
    let text =
        format!("#!{}\nimport sys\n\nfrom zhat.__main__ import main\n\nsys.exit(main())\n", python.display());
    std::fs::write(&script, text).map_err(fail)?;
    Step::new("chmod", &["+x", &script.to_string_lossy()]).run()
}

/// Builds every target of the workspace at once, so that all use the same features of their dependencies and
/// nothing is compiled twice.
pub fn build() -> Outcome {
    Step::cargo(&["build", "--workspace", "--all-targets", "--profile", "ci", "--locked"]).run()
}
