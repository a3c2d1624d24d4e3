//! `cargo xtask test`: all checks and tests, as run from a fresh clone.

use crate::python;
use crate::report::Report;
use crate::shell::{Outcome, Step};
use crate::wheel;

/// The parts that are tested.
#[derive(Clone, Copy, Default)]
struct Parts {
    rust: bool,
    python: bool,
    torch: bool,
    docs: bool,
    wheel: bool,
}

/// The parts that flags name; without a flag Rust and Python, and with `CI=true` PyTorch and the documentation as well.
/// The wheel is built only if asked for: it compiles everything once more.
fn parts(flags: &[&str], ci: bool) -> Outcome<Parts> {
    let mut parts = Parts::default();
    for flag in flags {
        match *flag {
            "--rust" => parts.rust = true,
            "--python" => parts.python = true,
            "--torch" => parts.torch = true,
            "--docs" => parts.docs = true,
            "--wheel" => parts.wheel = true,
            other => {
                return Err(format!("`{other}`: expected --rust, --python, --torch, --docs or --wheel"));
            }
        }
    }
    Ok(if flags.is_empty() {
        Parts { rust: true, python: true, torch: ci, docs: ci, wheel: false }
    } else {
        parts
    })
}

pub fn run(flags: &[&str]) -> Outcome {
    let ci = std::env::var_os("CI").is_some_and(|value| value == "true");
    let chosen = parts(flags, ci)?;
    let has_data = std::env::var_os("ZHAT_DATA").is_some();
    let (tests, torch) = (|| python::test(ci, has_data), || python::test_torch(ci));
    let mut all: Vec<(&str, bool, &dyn Fn() -> Outcome)> = vec![
        ("Rust", chosen.rust, &run_rust),
        ("Python", chosen.python, &tests),
        ("PyTorch", chosen.torch, &torch),
        ("documentation", chosen.docs, &document),
    ];
    if chosen.wheel {
        all.push(("wheel", true, &wheel::run));
    }
    let report = run_parts(&all, flags.is_empty(), has_data);
    eprintln!("\n{}", report.table());
    report.verdict(ci)
}

/// Runs the chosen parts until one fails. Parts excluded by flags are not reported.
fn run_parts(parts: &[(&'static str, bool, &dyn Fn() -> Outcome)], all: bool, has_data: bool) -> Report {
    let mut report = Report::default();
    let mut failed = false;
    for (name, chosen, work) in parts {
        if !chosen {
            if all {
                report.skip(name, "CI=true or its flag runs it");
            }
        } else if failed {
            report.skip(name, "an earlier part failed");
        } else {
            failed = report.run(name, work).is_err();
        }
    }
    if !has_data {
        report.unavailable("benchmark models", "ZHAT_DATA is not set");
    }
    report
}

fn run_rust() -> Outcome {
    Step::cargo(&["fmt", "--all", "--check"]).run()?;
    let lint =
        ["clippy", "--workspace", "--all-targets", "--profile", "ci", "--locked", "--", "-D", "warnings"];
    Step::cargo(&lint).run()?;
    // The library without its optional parts must compile.
    let bare = ["clippy", "--package", "zhat", "--no-default-features", "--profile", "ci", "--locked"];
    Step::cargo(&[&bare[..], &["--", "-D", "warnings"]].concat()).run()?;
    python::build()?;
    Step::cargo(&["test", "--workspace", "--profile", "ci", "--locked"]).run()?;
    // The arithmetic again, with every weaker set of vector instructions. The targets are chosen from the
    // whole workspace: with fewer packages the features would differ, and everything be compiled anew.
    for level in simd_levels() {
        let test = ["test", "--workspace", "--profile", "ci", "--locked", "--lib", "--test", "library", "--"];
        Step::cargo(&[&test[..], &ARITHMETIC].concat()).env("ZHAT_SIMD", level).run()?;
    }
    Ok(())
}

/// The documentation of the library, with every link.
fn document() -> Outcome {
    let document = ["doc", "--package", "zhat", "--no-deps", "--profile", "ci", "--locked"];
    Step::cargo(&document).env("RUSTDOCFLAGS", "-D warnings").run()
}

/// The tests that run every vector kernel: those of the kernels themselves, and of the methods whose inner
/// loops they are.
const ARITHMETIC: [&str; 10] = [
    "agreement::",
    "chain_paths::",
    "chain_relaxed::",
    "chains::",
    "divergences::",
    "lattice::",
    "lifted::",
    "messages::",
    "numeric::",
    "semi_markov",
];

/// Rewrites the table of methods in the documentation: the test that compares it writes it if `ZHAT_BLESS=1`.
pub fn bless_catalogue() -> Outcome {
    let test = ["test", "--package", "zhat", "--profile", "ci", "--test", "library", "catalogue_table"];
    Step::cargo(&test).env("ZHAT_BLESS", "1").run()
}

/// The SIMD levels below the default one.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn continuous_integration_runs_every_part() {
        let chosen =
            |flags: &[&str], ci| parts(flags, ci).map(|p| [p.rust, p.python, p.torch, p.docs, p.wheel]);
        assert_eq!(chosen(&[], false), Ok([true, true, false, false, false]));
        assert_eq!(chosen(&[], true), Ok([true, true, true, true, false]));
        assert_eq!(chosen(&["--torch"], false), Ok([false, false, true, false, false]));
        assert!(chosen(&["--ruby"], true).is_err());
    }

    #[test]
    fn skipped_parts_are_in_the_table_and_fail_a_complete_run() {
        let good: &dyn Fn() -> Outcome = &|| Ok(());
        let bad: &dyn Fn() -> Outcome = &|| Err("failed: pytest".into());
        let report = run_parts(&[("Rust", true, good), ("PyTorch", false, good)], true, true);
        assert!(report.table().contains("PyTorch  skipped"));
        assert!(report.verdict(false).is_ok());
        assert!(report.verdict(true).is_err());
        let report = run_parts(&[("Rust", true, bad), ("Python", true, good)], true, true);
        assert!(report.table().contains("an earlier part failed"));
        assert!(report.verdict(false).is_err());
        let report = run_parts(&[("Rust", true, good)], true, false);
        assert!(report.table().contains("ZHAT_DATA is not set"));
        assert!(report.verdict(true).is_ok());
        // Parts excluded by flags do not count as skipped.
        let report = run_parts(&[("Rust", true, good), ("PyTorch", false, good)], false, true);
        assert!(report.verdict(true).is_ok());
    }
}
