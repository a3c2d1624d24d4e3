//! `cargo xtask bench exact | bounds | chain | tree | hmm | networks | python | predictors | tagger`: compares zhat with other tools.

use crate::environment;
use crate::shell::{Outcome, Step, root, target};

/// Runs `bench/NAME/run.py` with the program, in an environment with the packages of
/// `bench/NAME/requirements.txt`.
fn beside(name: &str, args: &[&str]) -> Outcome {
    Step::cargo(&["build", "--profile", "dist", "--package", "zhat-cli", "--locked"]).run()?;
    let environment = environment::with(&[&format!("bench/{name}/requirements.txt")])?;
    let program = target().join("dist/zhat").to_string_lossy().into_owned();
    let script = format!("bench/{name}/run.py");
    let all = [&[&script, "--zhat", &program], args].concat();
    Step::new(environment.join("bin/python"), &all).env("PYTHONPATH", "bench").run()
}

pub fn exact(args: &[&str]) -> Outcome {
    beside("exact", args)
}

pub fn bounds(args: &[&str]) -> Outcome {
    let results = target().join("bench-bounds.jsonl").to_string_lossy().into_owned();
    beside("bounds", &[&["--results", &results], args].concat())
}

pub fn predictors(args: &[&str]) -> Outcome {
    beside("predictors", args)
}

pub fn tagger(args: &[&str]) -> Outcome {
    beside("tagger", args)
}

/// Runs `bench/NAME/run.py` with the Python package, in an environment with the packages of
/// `bench/NAME/requirements.txt`, one of which is the tool that builds the package.
fn with_package(name: &str, args: &[&str]) -> Outcome {
    let environment = environment::with(&[&format!("bench/{name}/requirements.txt")])?;
    Step::new(environment.join("bin/maturin"), &["develop", "--profile", "dist", "--locked", "--quiet"])
        .with(|command| {
            command.current_dir(root().join("python")).env("VIRTUAL_ENV", &environment);
        })
        .run()?;
    let script = format!("bench/{name}/run.py");
    Step::new(environment.join("bin/python"), &[&[script.as_str()], args].concat())
        .env("PYTHONPATH", "bench")
        .run()
}

pub fn chain(args: &[&str]) -> Outcome {
    with_package("chain", args)
}

pub fn tree(args: &[&str]) -> Outcome {
    with_package("tree", args)
}

pub fn hmm(args: &[&str]) -> Outcome {
    with_package("hmm", args)
}

pub fn python(args: &[&str]) -> Outcome {
    with_package("python", args)
}

pub fn networks(args: &[&str]) -> Outcome {
    with_package("networks", args)
}
