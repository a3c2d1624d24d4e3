//! A graphical model learnt from a table, and the log-likelihood of the table under it.
//!
//! Run it with `cargo run --example learn_from_table`.

use zhat::catalogue::{Choice, Settings};
use zhat::io::table::TableOptions;
use zhat::learn::{Fit, Likelihood, chow_liu, fit, read_statistics};
use zhat::{Error, Result, Run};

const TABLE: &str = "weather,ground,mood\nrain,wet,bad\nrain,wet,good\nsun,dry,good\nsun,dry,good\nsun,wet,good\nrain,wet,bad\n";

pub(crate) fn main() -> Result<()> {
    let path = std::env::temp_dir().join(format!("zhat-example-{}.csv", std::process::id()));
    std::fs::write(&path, TABLE).map_err(|source| Error::io(&path, source))?;
    let run = Run::default();
    let statistics = read_statistics(&path, &TableOptions::default(), &run);
    let _ = std::fs::remove_file(&path);
    let statistics = statistics?;
    let edges = chow_liu(&statistics);
    let likelihood = Likelihood::new(&statistics, &edges, Choice::Auto, Settings::new())?;
    let fitted = fit(&likelihood, &Fit::default(), None, &run, &mut |_| Ok(true))?;
    println!("edges {edges:?}, log-likelihood per row {}", fitted.log_likelihood);
    assert!(fitted.converged);
    Ok(())
}
