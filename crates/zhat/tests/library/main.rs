//! The library's tests in one program: what is generic is compiled once, not once for every file.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../support/mod.rs"]
mod support;

mod agreement;
mod bad_files;
mod bad_input;
mod barren;
mod bounds;
mod chain_paths;
mod chain_relaxed;
mod chains;
mod conditioning;
mod divergences;
mod golden;
mod guarantees;
mod importance;
mod importance_bounds;
mod k_best;
mod language;
mod language_baselines;
mod learn;
mod lifted;
mod mean_field;
mod messages;
mod minibucket;
mod mixed;
mod oracles;
mod pairwise;
mod positive_weight;
mod quadrature;
mod randomized;
mod randomized_misses;
mod randomized_segments;
mod reference_models;
mod running;
mod search;
mod semi_markov;
mod semi_markov_relaxed;
mod sequence_forecasts;
mod sequence_runs;
mod space_counts;
mod space_queries;
mod space_sampling;
mod space_sizes;
mod spaces;
