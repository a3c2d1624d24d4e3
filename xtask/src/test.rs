//! `cargo xtask test`: everything that must hold, from a fresh clone.

use crate::python;
use crate::shell::{Outcome, Step};

pub fn run(rust: bool, python: bool) -> Outcome {
    if std::env::var_os("ZHAT_DATA").is_none() {
        eprintln!("ZHAT_DATA is not set: tests on the benchmark models will say that they are skipped");
    }
    if rust {
        run_rust()?;
    }
    if python {
        python::test()?;
    }
    eprintln!("\nall is well");
    Ok(())
}

fn run_rust() -> Outcome {
    Step::cargo(&["fmt", "--all", "--check"]).run()?;
    let lint =
        ["clippy", "--workspace", "--all-targets", "--profile", "ci", "--locked", "--", "-D", "warnings"];
    Step::cargo(&lint).run()?;
    Step::cargo(&["test", "--workspace", "--profile", "ci", "--locked"]).run()?;
    // The documentation tests above need no second run; the numbers do, with every set of instructions.
    for level in simd_levels() {
        let test = [
            "test",
            "--package",
            "zhat",
            "--package",
            "zhat-cli",
            "--profile",
            "ci",
            "--locked",
            "--lib",
            "--tests",
        ];
        Step::cargo(&test).env("ZHAT_SIMD", level).run()?;
    }
    let document = ["doc", "--package", "zhat", "--no-deps", "--profile", "ci", "--locked"];
    Step::cargo(&document).env("RUSTDOCFLAGS", "-D warnings").run()
}

/// Rewrites the README's method table: the test that compares it writes it when it is told to.
pub fn bless_readme() -> Outcome {
    let test = ["test", "--package", "zhat", "--profile", "ci", "--test", "readme"];
    Step::cargo(&test).env("ZHAT_BLESS", "1").run()
}

/// The levels weaker than the one used by default.
fn simd_levels() -> Vec<&'static str> {
    let mut levels = vec![];
    #[cfg(target_arch = "x86_64")]
    {
        let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        let avx512 = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512bw");
        if avx2 {
            levels.push("portable");
        }
        if avx2 && avx512 {
            levels.push("avx2");
        }
    }
    levels
}
