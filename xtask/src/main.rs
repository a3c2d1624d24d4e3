//! Developer tasks of the workspace: `cargo xtask test | fresh | docs | wheel | catalogue | bench | data`.

mod bench;
mod data;
mod docs;
mod environment;
mod fresh;
mod python;
mod report;
mod shell;
mod test;
mod wheel;

use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask test [--rust] [--python] [--torch] [--docs] [--wheel] [--ray] [--vae]
                                    formatting, lints, all tests; without a flag Rust and Python, with CI=true every part
cargo xtask fresh [--all]           the README's two commands in an empty folder with empty caches; --all: every part
cargo xtask docs                    builds the documentation site in target/site/html
cargo xtask wheel                   builds the Python wheel and tries it in an empty environment
cargo xtask catalogue               rewrites the table of methods in docs/catalogue.md
cargo xtask bench exact [FILTER…]   compares zhat with other tools for exact inference
cargo xtask bench bounds [FILTER…]  compares zhat with other tools for approximate inference
cargo xtask bench chain             compares zhat with other libraries on chains
cargo xtask bench tree              compares zhat with other libraries on trees
cargo xtask bench hmm               compares zhat with other libraries on training of hidden Markov models
cargo xtask bench python            compares zhat.torch with PyTorch libraries on a training step of a CRF
cargo xtask bench networks          compares zhat with other libraries on Bayesian networks
cargo xtask bench predictors        compares structured predictors with others; needs ZHAT_DATA
cargo xtask bench tagger            compares taggers with CRFsuite; needs ZHAT_DATA
cargo xtask data mushroom FOLDER    fetches the mushroom table from the Rust registry";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let outcome = match args.as_slice() {
        ["test", flags @ ..] => test::run(flags),
        ["fresh"] => fresh::run(false),
        ["fresh", "--all"] => fresh::run(true),
        ["docs"] => docs::run(),
        ["wheel"] => wheel::run(wheel::RELEASE),
        ["catalogue"] => test::bless_catalogue(),
        ["bench", "exact", rest @ ..] => bench::exact(rest),
        ["bench", "bounds", rest @ ..] => bench::bounds(rest),
        ["bench", "chain", rest @ ..] => bench::chain(rest),
        ["bench", "tree", rest @ ..] => bench::tree(rest),
        ["bench", "hmm", rest @ ..] => bench::hmm(rest),
        ["bench", "python", rest @ ..] => bench::python(rest),
        ["bench", "networks", rest @ ..] => bench::networks(rest),
        ["bench", "predictors", rest @ ..] => bench::predictors(rest),
        ["bench", "tagger", rest @ ..] => bench::tagger(rest),
        ["data", "mushroom", folder] => data::mushroom(folder),
        _ => Err(USAGE.into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
