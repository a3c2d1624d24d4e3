//! Trees with the names of their symbols and words, for printing.

use super::hypertree::TreeNames;

/// The kind of tree that a state of a model is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeKind {
    /// Nested constituents, with symbols.
    Constituency,
    /// A head for every word.
    Dependency,
}

/// A tree with names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamedTree {
    /// Symbols and words, each before its parts.
    Constituency(Vec<TreeEntry>),
    /// A head for every word.
    Dependency {
        /// The words.
        words: Vec<String>,
        /// The head of each word: 0 for the root, i + 1 for word i.
        heads: Vec<usize>,
        /// The label of the arc into each word; empty if arcs have no labels.
        labels: Vec<String>,
    },
}

/// A symbol or a word of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeEntry {
    /// The number of symbols above it. Its parts are the entries that follow with one more, up to the next
    /// entry of the same or a lower level.
    pub level: usize,
    /// The symbol or word.
    pub name: String,
    /// True for a word.
    pub is_word: bool,
}

impl NamedTree {
    /// The tree of nodes as (first word, last word, symbol), each before its parts, without hidden symbols.
    /// Without names, symbols have their number and word i is `wi`.
    pub(super) fn constituency(nodes: &[usize], item: usize, names: Option<&TreeNames>) -> Option<Self> {
        let nodes: Vec<&[usize]> = nodes.chunks_exact(3).collect();
        let symbol_name = |symbol: usize| match names.and_then(|names| names.symbols.get(symbol)) {
            Some(name) => name.clone(),
            None => symbol.to_string(),
        };
        let word_name = |word: usize| match names.and_then(|names| names.words.get(item)?.get(word)) {
            Some(name) => name.clone(),
            None => format!("w{word}"),
        };
        let is_hidden =
            |symbol: usize| names.is_some_and(|names| names.hidden.binary_search(&symbol).is_ok());
        let mut entries = Vec::with_capacity(2 * nodes.len());
        // The last word of every open node, and the level of its parts.
        let mut open: Vec<(usize, usize)> = Vec::new();
        for (i, node) in nodes.iter().enumerate() {
            let (first, last, symbol) = (node[0], node[1], node[2]);
            while open.pop_if(|(end, _)| *end < first).is_some() {}
            let mut level = open.last().map_or(0, |(_, level)| *level);
            if !is_hidden(symbol) {
                entries.push(TreeEntry { level, name: symbol_name(symbol), is_word: false });
                level += 1;
            }
            open.push((last, level));
            let rewritten = nodes.get(i + 1).is_some_and(|next| next[0] == first);
            if first == last && !rewritten {
                entries.push(TreeEntry { level, name: word_name(first), is_word: true });
            }
        }
        (!entries.is_empty()).then_some(NamedTree::Constituency(entries))
    }
}
