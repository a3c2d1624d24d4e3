//! Text grammars, the trees of their sentences, and drawings of trees.

use std::path::PathBuf;

use pyo3::prelude::*;
use zhat::io;
use zhat::model::generate::{self, GrammarShape};
use zhat::model::{AnyModel, Grammar, NamedTree, TreeEntry};
use zhat::report::tree::Drawing;

use crate::error::{self, Failure};
use crate::model::{Model, file};

/// Text, start symbol, symbols, words and number of rules.
type Parts = (String, String, Vec<String>, Vec<String>, usize);

/// The grammar of a text.
#[pyfunction]
pub fn grammar(py: Python<'_>, text: &str) -> PyResult<Model> {
    Ok(Model::of(py.detach(|| Grammar::parse(text, "")).map_err(Failure)?))
}

/// The parts of a grammar.
#[pyfunction]
pub fn grammar_parts(model: &Model) -> PyResult<Parts> {
    let own = of(model)?;
    let symbols = own.symbols().into_iter().map(str::to_owned).collect();
    Ok((own.text().into(), own.start().into(), symbols, own.vocabulary().to_vec(), own.productions()))
}

/// The trees of sentences, each a list of words.
#[pyfunction]
pub fn grammar_trees(py: Python<'_>, model: &Model, sentences: Vec<Vec<String>>) -> PyResult<Model> {
    let own = of(model)?;
    Ok(Model::of(py.detach(|| own.hypertree(&sentences)).map_err(Failure)?))
}

/// The trees of the sentences of a file.
#[pyfunction]
pub fn grammar_trees_of_file(py: Python<'_>, model: &Model, path: PathBuf) -> PyResult<Model> {
    let own = of(model)?;
    let made = py.detach(|| own.with_input(&io::read_input(&file(path))?));
    Ok(Model::of(made.map_err(Failure)?))
}

/// See `zhat.generate.grammar`.
#[pyfunction]
pub fn random_grammar(
    py: Python<'_>,
    symbols: usize,
    words: usize,
    rules: usize,
    seed: u64,
) -> PyResult<Model> {
    let shape = GrammarShape { symbols, words, rules };
    Ok(Model::of(py.detach(|| generate::grammar(&shape, seed)).map_err(Failure)?))
}

/// A drawing of a tree of symbols and words: the level, the name and whether it is a word of each, every
/// symbol before its parts.
#[pyfunction]
pub fn draw_parse(entries: Vec<(usize, String, bool)>) -> String {
    let entry = |(level, name, is_word)| TreeEntry { level, name, is_word };
    Drawing::of(&NamedTree::Constituency(entries.into_iter().map(entry).collect())).svg()
}

/// A drawing of a dependency tree: heads are 0 for the root and i + 1 for word i; labels may be empty.
#[pyfunction]
pub fn draw_dependency(words: Vec<String>, heads: Vec<usize>, labels: Vec<String>) -> String {
    Drawing::of(&NamedTree::Dependency { words, heads, labels }).svg()
}

fn of(model: &Model) -> PyResult<&Grammar> {
    model.get::<Grammar>().ok_or_else(|| error::argument("model", "expected a grammar"))
}
