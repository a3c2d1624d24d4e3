//! `cargo xtask wheel`: builds the wheel and tries it in an empty environment. The test command does the same
//! without optimisation.

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::environment;
use crate::shell::{Outcome, Step, root, target};

/// maturin, and the linker that makes a wheel for old and new Linux systems.
const REQUIREMENTS: &str = "python/requirements-wheel.txt";

/// What the README promises of an installed package.
const EXAMPLE: &str = "\
import time
begun = time.perf_counter()
import zhat
seconds = time.perf_counter() - begun
import numpy as np
chain = zhat.Chain(np.zeros((3, 2)), [[0.0, 1.0], [1.0, 0.0]])
assert abs(chain.log_partition().value - 3.319671) < 1e-6
print(f'import of zhat, with NumPy: {1000 * seconds:.0f} ms')
";

/// The profile of the wheel that is given to users.
pub const RELEASE: &str = "dist";

/// The profile of the wheel that the tests try: what is packed is the same, compiled without optimisation.
pub const PACKAGING: &str = "packaging";

/// Builds the wheel, installs it without a compiler, and runs a short example and the program.
pub fn run(profile: &str) -> Outcome {
    let wheel = build(profile)?;
    let empty = target().join("wheel-environment");
    let path = empty.to_string_lossy().into_owned();
    let started = Instant::now();
    Step::new("python3", &["-m", "venv", "--clear", &path]).run()?;
    let python = empty.join("bin/python");
    let install =
        ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:"];
    Step::new(&python, &[&install[..], &[&wheel.to_string_lossy()]].concat()).run()?;
    // Not in the root, where the sources would be found first.
    let in_target = |step: Step| {
        step.with(|command| {
            command.current_dir(target());
        })
    };
    in_target(Step::new(&python, &["-c", EXAMPLE])).run()?;
    in_target(Step::new(empty.join("bin/zhat"), &["--version"])).run()?;
    eprintln!("  installed and tried in {:.0} s", started.elapsed().as_secs_f64());
    Ok(())
}

/// Builds a wheel for this system; on Linux one for every distribution with glibc 2.17 or later.
fn build(profile: &str) -> Outcome<PathBuf> {
    let environment = environment::with(&[REQUIREMENTS])?;
    let folder = target().join("wheels");
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let out = folder.to_string_lossy().into_owned();
    let mut args = vec!["build", "--profile", profile, "--locked", "--out", &out];
    if cfg!(target_os = "linux") {
        args.extend(["--zig", "--compatibility", "manylinux_2_17"]);
    }
    let path = with_tools(&environment)?;
    Step::new(environment.join("bin/maturin"), &args)
        .with(|command| {
            command.current_dir(root().join("python")).env("VIRTUAL_ENV", &environment).env("PATH", path);
        })
        .run()?;
    let files = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let found =
        files.flatten().map(|entry| entry.path()).find(|path| path.extension() == Some("whl".as_ref()));
    let wheel = found.ok_or("maturin has written no wheel")?;
    let size = std::fs::metadata(&wheel).map_or(0, |data| data.len()) as f64 / 1e6;
    eprintln!("  {} ({size:.1} MB)", wheel.display());
    Ok(wheel)
}

/// The search path with the environment's programs first.
fn with_tools(environment: &Path) -> Outcome<std::ffi::OsString> {
    let old = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(environment.join("bin")).chain(std::env::split_paths(&old));
    std::env::join_paths(folders).map_err(|error| error.to_string())
}
