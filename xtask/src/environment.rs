//! Virtual environments of pinned Python packages, in the user's cache folder.

use std::path::PathBuf;

use crate::shell::{Outcome, Step, root};

/// The environment with the packages of some requirements files, created if needed. A change of the files or
/// of Python creates a new one.
pub fn with(requirements: &[&str]) -> Outcome<PathBuf> {
    let mut pinned = Vec::new();
    for file in requirements {
        pinned.extend(std::fs::read(root().join(file)).map_err(|error| format!("{file}: {error}"))?);
    }
    let version = Step::new("python3", &["-c", "import sys; print(sys.version, sys.executable)"]).output()?;
    let key =
        pinned.iter().copied().chain(version.bytes()).fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    let environment = cache()?.join("zhat").join(format!("python-{key:016x}"));
    let complete = environment.join("complete");
    if !complete.exists() {
        let path = environment.to_string_lossy().into_owned();
        Step::new("python3", &["-m", "venv", "--clear", &path]).run()?;
        let mut install = vec!["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        install.extend(requirements.iter().flat_map(|file| ["-r", file]));
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
