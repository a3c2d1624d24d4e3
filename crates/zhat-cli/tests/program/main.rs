//! The tests of the program.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

mod answers;
mod evidence;
mod failures;
mod grammar_queries;
mod grammars;
mod hidden_markov;
mod joint_taggers;
mod language;
mod methods;
mod mixed;
mod papers;
mod parts;
mod printed;
mod reference;
mod reference_models;
mod sequences;
#[cfg(unix)]
mod signals;
mod spaces;
mod structured;
mod structured_options;
mod tables;
mod tagging;
