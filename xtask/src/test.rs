//! `cargo xtask test`: all checks and tests, as run from a fresh clone.

use crate::docs;
use crate::python;
use crate::report::Report;
use crate::shell::{Outcome, Step};
use crate::wheel;

/// A part of the test command.
struct Part {
    name: &'static str,
    flag: &'static str,
    /// Whether it is run without `CI=true` and without its flag.
    core: bool,
    work: fn(&Setting) -> Outcome,
}

/// How the tests are run.
struct Setting {
    /// Continuous integration: nothing may be skipped.
    ci: bool,
    /// Whether the benchmark models are there.
    has_data: bool,
}

/// All parts, in order. The parts that are not core have their own environments.
const PARTS: [Part; 7] = [
    Part { name: "Rust", flag: "--rust", core: true, work: |_| run_rust() },
    Part { name: "Python", flag: "--python", core: true, work: |on| python::test(on.ci, on.has_data) },
    Part { name: "PyTorch", flag: "--torch", core: false, work: |on| python::test_torch(on.ci) },
    Part { name: "documentation", flag: "--docs", core: false, work: |_| docs::test() },
    Part { name: "wheel", flag: "--wheel", core: false, work: |_| wheel::run(wheel::PACKAGING) },
    Part { name: "Ray", flag: "--ray", core: false, work: |on| python::test_ray(on.ci) },
    Part { name: "burn", flag: "--vae", core: false, work: |_| run_neural() },
];

/// Which parts are run: those that flags name; without a flag the core, and with `CI=true` all.
fn chosen(flags: &[&str], ci: bool) -> Outcome<Vec<bool>> {
    if let Some(unknown) = flags.iter().find(|flag| PARTS.iter().all(|part| part.flag != **flag)) {
        let known: Vec<_> = PARTS.iter().map(|part| part.flag).collect();
        return Err(format!("`{unknown}`: expected {}", known.join(", ")));
    }
    let wanted = |part: &Part| if flags.is_empty() { part.core || ci } else { flags.contains(&part.flag) };
    Ok(PARTS.iter().map(wanted).collect())
}

pub fn run(flags: &[&str]) -> Outcome {
    let ci = std::env::var_os("CI").is_some_and(|value| value == "true");
    let on = Setting { ci, has_data: std::env::var_os("ZHAT_DATA").is_some() };
    let report = run_parts(&PARTS, &chosen(flags, ci)?, flags.is_empty(), &on);
    eprintln!("\n{}", report.table());
    report.verdict(ci)
}

/// Runs the chosen parts until one fails. Parts excluded by flags are not reported.
fn run_parts(parts: &[Part], chosen: &[bool], all: bool, on: &Setting) -> Report {
    let mut report = Report::default();
    let mut failed = false;
    for (part, &chosen) in parts.iter().zip(chosen) {
        if !chosen {
            if all {
                report.skip(part.name, format!("CI=true or {} runs it", part.flag));
            }
        } else if failed {
            report.skip(part.name, "an earlier part failed");
        } else {
            failed = report.run(part.name, || (part.work)(on)).is_err();
        }
    }
    if !on.has_data {
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

/// The workspace of crates that use burn, which the core does not compile.
fn run_neural() -> Outcome {
    let place = ["--manifest-path", "neural/Cargo.toml", "--target-dir", "target/neural", "--locked"];
    Step::cargo(&["fmt", "--all", "--check", "--manifest-path", "neural/Cargo.toml"]).run()?;
    let lint = [&["clippy", "--all-targets"], &place[..], &["--", "-D", "warnings"]].concat();
    Step::cargo(&lint).run()?;
    Step::cargo(&[&["test"], &place[..]].concat()).run()?;
    Step::cargo(&[&["run", "--example", "tagger"], &place[..]].concat()).run()
}

/// The tests that run every vector kernel: those of the kernels themselves, and of the methods whose inner
/// loops they are.
const ARITHMETIC: [&str; 12] = [
    "agreement::",
    "chain_paths::",
    "chain_relaxed::",
    "chains::",
    "dependency::",
    "divergences::",
    "hypertree::",
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
        assert_eq!(chosen(&[], false), Ok(vec![true, true, false, false, false, false, false]));
        assert_eq!(chosen(&[], true), Ok(vec![true; 7]));
        assert_eq!(chosen(&["--torch"], true), Ok(vec![false, false, true, false, false, false, false]));
        assert!(chosen(&["--ruby"], true).is_err());
    }

    #[test]
    fn skipped_parts_are_in_the_table_and_fail_a_complete_run() {
        fn part(name: &'static str, work: fn(&Setting) -> Outcome) -> Part {
            Part { name, flag: "", core: true, work }
        }
        let on = Setting { ci: false, has_data: true };
        let good = [part("Rust", |_| Ok(())), part("PyTorch", |_| Ok(()))];
        let report = run_parts(&good, &[true, false], true, &on);
        assert!(report.table().contains("PyTorch  skipped"));
        assert!(report.verdict(false).is_ok());
        assert!(report.verdict(true).is_err());
        let bad = [part("Rust", |_| Err("failed: pytest".into())), part("Python", |_| Ok(()))];
        let report = run_parts(&bad, &[true, true], true, &on);
        assert!(report.table().contains("an earlier part failed"));
        assert!(report.verdict(false).is_err());
        let report = run_parts(&good, &[true, true], true, &Setting { ci: true, has_data: false });
        assert!(report.table().contains("ZHAT_DATA is not set"));
        assert!(report.verdict(true).is_ok());
        // Parts excluded by flags do not count as skipped.
        let report = run_parts(&good, &[true, false], false, &on);
        assert!(report.verdict(true).is_ok());
    }
}
