//! Arguments of `zhat part` and `zhat merge`.

use std::ops::Range;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use zhat::Query;

use crate::arguments::PlainQueryArguments;

/// Queries whose work can be divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PartQuery {
    /// log Z
    Logz,
    /// Probabilities of the states of each variable
    Marginals,
    /// Joint probabilities of the variables of each factor
    FactorMarginals,
    /// The entropy
    Entropy,
}

impl PartQuery {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            PartQuery::Logz => "logz",
            PartQuery::Marginals => "marginals",
            PartQuery::FactorMarginals => "factor-marginals",
            PartQuery::Entropy => "entropy",
        }
    }
}

impl From<PartQuery> for Query {
    fn from(query: PartQuery) -> Query {
        match query {
            PartQuery::Logz => Query::LogPartition,
            PartQuery::Marginals => Query::Marginals,
            PartQuery::FactorMarginals => Query::FactorMarginals,
            PartQuery::Entropy => Query::Entropy,
        }
    }
}

#[derive(Args, Debug)]
pub struct PartArguments {
    /// The query
    pub query: PartQuery,
    #[command(flatten)]
    pub plain: PlainQueryArguments,
    /// The units of work to do, such as 0..8: units 0 to 7. A unit is a replicate, a block of samples or a group
    /// of cases; without this option, the number of units is printed
    #[arg(long, value_name = "A..B", value_parser = parse_range)]
    pub range: Option<Range<u64>>,
    /// Print the commands of this many parts, one per line, as for an array job
    #[arg(long, value_name = "N", conflicts_with_all = ["range", "output"], value_parser = clap::value_parser!(u64).range(1..))]
    pub plan: Option<u64>,
    /// The file to write
    #[arg(short = 'o', long, value_name = "FILE", requires = "range")]
    pub output: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct MergeArguments {
    /// The files of the parts, in any order
    #[arg(required = true)]
    pub parts: Vec<PathBuf>,
    /// The model, if it is not at the path that the parts were made with
    #[arg(long, value_name = "FILE")]
    pub model: Option<PathBuf>,
    /// Also merge parts that were computed with different vector instructions; the answer equals that of one run
    /// up to rounding
    #[arg(long)]
    pub mixed: bool,
    /// Number of threads, at least 1 [default: all processors]; results do not depend on it
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Option<u16>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

fn parse_range(text: &str) -> Result<Range<u64>, String> {
    let parsed =
        text.split_once("..").and_then(|(start, end)| Some((start.parse().ok()?, end.parse().ok()?)));
    match parsed {
        Some((start, end)) if start < end => Ok(start..end),
        _ => Err("expected a range such as 0..8, whose end is larger than its start".into()),
    }
}
