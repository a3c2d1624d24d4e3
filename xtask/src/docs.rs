//! `cargo xtask docs`: the documentation site, and the reference of the library.

use crate::python;
use crate::shell::{Outcome, Step, target};

/// Builds the site with every link checked, notebooks at full size.
pub fn run() -> Outcome {
    site("full")
}

/// Builds the site with small notebooks, and the reference of the library.
pub fn test() -> Outcome {
    let document = ["doc", "--package", "zhat", "--no-deps", "--profile", "ci", "--locked"];
    Step::cargo(&document).env("RUSTDOCFLAGS", "-D warnings").run()?;
    site("small")
}

/// The Python reference is read from the package itself, and notebooks use PyTorch, so both are installed first.
fn site(size: &str) -> Outcome {
    let environment = python::with_torch()?;
    let folder = target().join("site").to_string_lossy().into_owned();
    Step::new(environment.join("bin/python"), &["docs/site/build.py", &folder])
        .env("ZHAT_EXAMPLES", size)
        .run()
}
