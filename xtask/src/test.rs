//! `cargo xtask test`: everything that must hold, from a fresh clone.

use crate::python;
use crate::shell::{Outcome, Step};

/// The parts that are tested.
#[derive(Clone, Copy, Default)]
struct Parts {
    rust: bool,
    python: bool,
    torch: bool,
}

/// The parts that flags name; without a flag Rust and Python, and where `CI=true` PyTorch as well.
fn parts(flags: &[&str], ci: bool) -> Outcome<Parts> {
    let mut parts = Parts::default();
    for flag in flags {
        match *flag {
            "--rust" => parts.rust = true,
            "--python" => parts.python = true,
            "--torch" => parts.torch = true,
            other => return Err(format!("`{other}`: expected --rust, --python or --torch")),
        }
    }
    Ok(if flags.is_empty() { Parts { rust: true, python: true, torch: ci } } else { parts })
}

pub fn run(flags: &[&str]) -> Outcome {
    let parts = parts(flags, std::env::var_os("CI").is_some_and(|value| value == "true"))?;
    if std::env::var_os("ZHAT_DATA").is_none() {
        eprintln!("ZHAT_DATA is not set: tests on the benchmark models will say that they are skipped");
    }
    if parts.rust {
        run_rust()?;
    }
    if parts.python {
        python::test()?;
    }
    if parts.torch {
        python::test_torch()?;
    }
    eprintln!();
    if parts.python && !parts.torch {
        eprintln!(
            "the tests of zhat.torch were skipped: --torch or CI=true runs them, with PyTorch installed"
        );
    }
    eprintln!("all is well");
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
        // The whole workspace again: with other packages the features would differ, and all be compiled anew.
        let test = ["test", "--workspace", "--profile", "ci", "--locked", "--tests", "--"];
        let skipped: Vec<&str> = NOT_NUMBERS.iter().flat_map(|module| ["--skip", module]).collect();
        Step::cargo(&[&test[..], &skipped].concat()).env("ZHAT_SIMD", level).run()?;
    }
    let document = ["doc", "--package", "zhat", "--no-deps", "--profile", "ci", "--locked"];
    Step::cargo(&document).env("RUSTDOCFLAGS", "-D warnings").run()
}

/// Tests of reading, of memory, of searching and of the laws of samples, which the set of instructions has no part in.
const NOT_NUMBERS: [&str; 14] = [
    "bad_files::",
    "bad_input::",
    "budget",
    "forecast",
    "importance",
    "learn::",
    "minibucket::",
    "polynomial::",
    "quadrature::",
    "reference_models::",
    "running::the_number_of_threads",
    "search::",
    "space_counts::",
    "space_sampling::",
];

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
