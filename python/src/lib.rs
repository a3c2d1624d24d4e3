//! The native module of the Python package: models, queries and the program.
//!
//! The user-facing API is the typed Python code on top of it. The interface uses plain types: numbers,
//! strings, arrays, and JSON for data that differs between methods.

mod answer;
mod array;
mod dependency;
mod division;
mod error;
mod generate;
mod grammar;
mod hmm;
mod hypertree;
mod language;
mod learn;
mod mixed;
mod model;
mod ops;
mod pairwise;
mod predict;
mod relaxed;
mod relaxed_trees;
mod run;
mod sequence;
mod sequence_mrf;
mod space;
mod tag;
mod tag_joint;

use std::ffi::OsString;
use std::io::Write;

use pyo3::prelude::*;
use zhat::catalogue;
use zhat::internal::numeric::simd::{self, Level};
use zhat::internal::{decimal, platform, units};
use zhat::{Guarantee, Query};

use error::Failure;

/// A row of the catalogue; a dict in Python.
#[derive(IntoPyObject)]
struct Method {
    name: &'static str,
    kind: &'static str,
    about: &'static str,
    queries: Vec<&'static str>,
    /// The options with their default values, as JSON.
    options: String,
    /// The ranges of the numeric options, as text.
    ranges: Vec<(&'static str, String)>,
}

/// Properties of the build and the machine; a dict in Python.
#[derive(IntoPyObject)]
struct Machine {
    simd: &'static str,
    simd_detected: &'static str,
    memory: u64,
}

/// The catalogue.
#[pyfunction]
fn methods() -> Vec<Method> {
    let method = |row: &catalogue::Row| Method {
        name: row.method,
        kind: row.kind.name(),
        about: row.about,
        queries: row.queries().map(Query::name).collect(),
        options: (row.options)().to_string(),
        ranges: row.ranges.iter().map(|(name, range)| (*name, range.to_string())).collect(),
    };
    catalogue::all().into_iter().map(method).collect()
}

/// The SIMD instructions in use and the default memory budget.
#[pyfunction]
fn machine() -> Machine {
    Machine {
        simd: simd::level().name(),
        simd_detected: Level::detected().name(),
        memory: zhat::Run::default().memory(),
    }
}

/// The processors that this process may use.
#[pyfunction]
fn processors() -> usize {
    platform::available_processors()
}

/// `2.8 GiB`.
#[pyfunction]
fn format_bytes(bytes: f64) -> String {
    units::bytes(bytes)
}

/// `12 ms`.
#[pyfunction]
fn format_seconds(seconds: f64) -> String {
    units::seconds(seconds)
}

/// A value, rounded to nearest.
#[pyfunction]
fn format_number(value: f64) -> String {
    decimal::number(value)
}

/// A lower bound with this many decimal places, rounded down.
#[pyfunction]
fn format_low(value: f64, places: usize) -> String {
    decimal::below(value, places)
}

/// A value printed according to its guarantee, a JSON object: a certified bound is printed as a bound.
#[pyfunction]
fn format_value(value: f64, guarantee: &str, rounding: f64) -> String {
    let parsed = serde_json::from_str(guarantee).ok();
    let guarantee = parsed.and_then(|value| Guarantee::from_json(&value));
    guarantee.map_or_else(|| decimal::number(value), |guarantee| guarantee.stated(value, rounding, 1.0))
}

/// Runs the `zhat` program and returns its exit status.
#[pyfunction]
fn run_program(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| {
        let status = zhat_cli::run(arguments);
        // A Rust `main` would flush at exit; here it must be done explicitly. A closed pipe is not an error.
        let _ = std::io::stdout().flush();
        status
    })
}

/// The native part of the package `zhat`.
#[pymodule]
mod _zhat {
    #[pymodule_export]
    use super::dependency::{dependency, tree_score};
    #[pymodule_export]
    use super::division::{Division, model_hash};
    #[pymodule_export]
    use super::generate::{
        bayes, ising, potts, random, random_chain, random_dependency, random_hypertree, random_pairwise,
        rdp_chain, tree,
    };
    #[pymodule_export]
    use super::grammar::{
        draw_dependency, draw_parse, grammar, grammar_parts, grammar_trees, grammar_trees_of_file,
        random_grammar,
    };
    #[pymodule_export]
    use super::hmm::{Hmm, compare_hmm_states, forecast_hmm, hmm_of, train_hmm};
    #[pymodule_export]
    use super::hypertree::{hypertree, hypertree_names, parse_score};
    #[pymodule_export]
    use super::language::{LanguageModel, train_language_model, train_stochastic};
    #[pymodule_export]
    use super::learn::{Statistics, Table, fit, fit_network, impute_rows, read_codes, score_rows};
    #[pymodule_export]
    use super::mixed::{family, gaussian_mixture, mixed, mixed_parts, mixed_score, random_mixture};
    #[pymodule_export]
    use super::model::Model;
    #[pymodule_export]
    use super::ops::{Tape, forward, log_partition_and_gradient};
    #[pymodule_export]
    use super::pairwise::{graph_score, pairwise, pairwise_relaxed_sample};
    #[pymodule_export]
    use super::predict::{Inputs, Predictor, read_examples, train_predictor};
    #[pymodule_export]
    use super::relaxed::{relaxed_sample, sparse_relaxed_sample};
    #[pymodule_export]
    use super::relaxed_trees::{relaxed_trees, sparse_relaxed_trees};
    #[pymodule_export]
    use super::run::Run;
    #[pymodule_export]
    use super::sequence::{chain, hmm, path_score, segments_score, semi_markov};
    #[pymodule_export]
    use super::sequence_mrf::{cycle_score, random_sequence_mrf, sequence_mrf};
    #[pymodule_export]
    use super::space::{random_space, space_model, space_model_of, space_score};
    #[pymodule_export]
    use super::tag::{
        Tagger, read_tagged, tag_spans, train_tagger, train_tagger_file, word_attributes, write_tagged,
    };
    #[pymodule_export]
    use super::tag_joint::train_joint_tagger;
    #[pymodule_export]
    use super::{
        format_bytes, format_low, format_number, format_seconds, format_value, machine, methods, processors,
        run_program,
    };

    use super::{Bound, Failure, PyModule, PyModuleMethods, PyResult, simd};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        simd::check().map_err(Failure)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
