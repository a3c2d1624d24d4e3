//! Productions as rules of a [`Hypertree`](crate::model::Hypertree): longer right-hand sides become pairs.

use std::collections::HashMap;

use super::parse::{Part, Source};
use crate::error::Result;
use crate::model::hypertree::{Rule, Rules, Symbols, UnaryRule};

/// The name of a hidden symbol lists at most this many parts.
const MOST_NAMED: usize = 8;

/// The rules of a grammar.
#[derive(Clone, Debug)]
pub(super) struct Compiled {
    pub symbols: Symbols,
    /// The name of each symbol, hidden ones among them.
    pub names: Vec<String>,
    /// Hidden symbols, in ascending order.
    pub hidden: Vec<usize>,
    pub start: usize,
    pub rules: Rules<f64>,
    pub unary: Vec<UnaryRule>,
    /// One score per unary rule.
    pub unary_scores: Vec<f64>,
    /// The line of each unary rule.
    pub unary_lines: Vec<usize>,
    /// The tags of each word and their scores.
    pub lexicon: HashMap<String, Vec<(usize, f64)>>,
}

/// A symbol before it has its final number.
struct Symbol {
    name: String,
    hidden: bool,
    head: bool,
    tag: bool,
}

/// Symbols and rules by the order in which the symbols were made.
struct Builder<'a> {
    source: &'a Source,
    symbols: Vec<Symbol>,
    /// The hidden tag of each word that is part of a longer right-hand side.
    tags: HashMap<usize, usize>,
    /// The hidden symbol of each end of a longer right-hand side, by the two symbols that it is divided into.
    /// Rules share it: its only rule has weight 1, so that each derivation still is one tree.
    ends: HashMap<(usize, usize), usize>,
    rules: Vec<(Rule, f64)>,
    lexicon: HashMap<String, Vec<(usize, f64)>>,
}

impl Builder<'_> {
    fn hidden(&mut self, name: String) -> usize {
        self.symbols.push(Symbol { name, hidden: true, head: false, tag: false });
        self.symbols.len() - 1
    }

    fn lexical(&mut self, tag: usize, word: usize, score: f64) {
        self.symbols[tag].tag = true;
        let entries = self.lexicon.entry(self.source.words[word].clone()).or_default();
        if score > f64::NEG_INFINITY {
            entries.push((tag, score));
        }
    }

    fn divide(&mut self, head: usize, left: usize, right: usize, score: f64) {
        self.symbols[head].head = true;
        if score > f64::NEG_INFINITY {
            self.rules.push((Rule { head, left, right }, score));
        }
    }

    /// The symbol of a part of a right-hand side of two or more.
    fn part(&mut self, part: Part) -> usize {
        let word = match part {
            Part::Symbol(symbol) => return symbol,
            Part::Word(word) => word,
        };
        if let Some(&tag) = self.tags.get(&word) {
            return tag;
        }
        let tag = self.hidden(self.source.part_name(part));
        self.tags.insert(word, tag);
        self.lexical(tag, word, 0.0);
        tag
    }

    /// The hidden symbol of `parts`, two or more, which it divides into the first and a symbol for the others.
    fn end(&mut self, parts: &[usize], right: usize) -> usize {
        if let Some(&symbol) = self.ends.get(&(parts[0], right)) {
            return symbol;
        }
        let shown = &parts[..parts.len().min(MOST_NAMED)];
        let mut names: Vec<&str> = shown.iter().map(|&part| self.symbols[part].name.as_str()).collect();
        if parts.len() > MOST_NAMED {
            names.push("…");
        }
        // No symbol of a text has a space in its name.
        let symbol = self.hidden(format!("<{}>", names.join(" ")));
        self.ends.insert((parts[0], right), symbol);
        self.divide(symbol, parts[0], right, 0.0);
        symbol
    }

    /// head → parts, two or more: the first part, and a hidden symbol for the others.
    fn divide_all(&mut self, head: usize, parts: &[usize], score: f64) {
        let mut right = parts[parts.len() - 1];
        for i in (1..parts.len() - 1).rev() {
            right = self.end(&parts[i..], right);
        }
        self.divide(head, parts[0], right, score);
    }
}

/// The rules of the productions of a text.
pub(super) fn compile(source: &Source) -> Result<Compiled> {
    let visible = |name: &String| Symbol { name: name.clone(), hidden: false, head: false, tag: false };
    let mut builder = Builder {
        source,
        symbols: source.symbols.iter().map(visible).collect(),
        tags: HashMap::new(),
        ends: HashMap::new(),
        rules: Vec::new(),
        lexicon: HashMap::new(),
    };
    builder.symbols[source.start].head = true;
    let mut unary: Vec<(UnaryRule, f64, usize)> = Vec::new();
    for production in &source.productions {
        let (head, score) = (production.head, production.weight.ln());
        match production.parts.as_slice() {
            &[Part::Word(word)] => builder.lexical(head, word, score),
            &[Part::Symbol(child)] => {
                builder.symbols[head].head = true;
                if score > f64::NEG_INFINITY {
                    unary.push((UnaryRule { head, child }, score, production.line));
                }
            }
            parts => {
                let parts: Vec<usize> = parts.iter().map(|part| builder.part(*part)).collect();
                builder.divide_all(head, &parts, score);
            }
        }
    }
    let Builder { symbols, rules, mut lexicon, .. } = builder;
    // Heads first, tags last, and those that are both between them.
    let mut order: Vec<usize> = (0..symbols.len()).collect();
    order.sort_by_key(|&k| (symbols[k].tag, !symbols[k].head));
    let mut number = vec![0; symbols.len()];
    order.iter().enumerate().for_each(|(new, &old)| number[old] = new);
    for entries in lexicon.values_mut() {
        entries.iter_mut().for_each(|(tag, _)| *tag = number[*tag]);
    }
    let renamed =
        |rule: &Rule| Rule { head: number[rule.head], left: number[rule.left], right: number[rule.right] };
    let scores: Vec<f64> = rules.iter().map(|(_, score)| *score).collect();
    let counts = |wanted: fn(&Symbol) -> bool| symbols.iter().filter(|symbol| wanted(symbol)).count();
    Ok(Compiled {
        symbols: Symbols { all: symbols.len(), heads: counts(|s| s.head), tags: counts(|s| s.tag) },
        names: order.iter().map(|&k| symbols[k].name.clone()).collect(),
        hidden: (0..order.len()).filter(|&new| symbols[order[new]].hidden).collect(),
        start: number[source.start],
        rules: Rules::sparse(rules.iter().map(|(rule, _)| renamed(rule)).collect(), &scores)?,
        unary: unary
            .iter()
            .map(|(rule, ..)| UnaryRule { head: number[rule.head], child: number[rule.child] })
            .collect(),
        unary_scores: unary.iter().map(|(_, score, _)| *score).collect(),
        unary_lines: unary.iter().map(|(.., line)| *line).collect(),
        lexicon,
    })
}
