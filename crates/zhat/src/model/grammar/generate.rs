//! Random grammars.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::Grammar;
use crate::error::{Error, Result};
use crate::model::generate::affordable;
use crate::random::Streams;

/// The probability that a symbol is divided, if it has a rule for it. Below ½ every tree is finite.
const DIVIDED: f64 = 0.4;

/// Sizes of a random [`Grammar`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrammarShape {
    /// The number of symbols.
    pub symbols: usize,
    /// The number of words.
    pub words: usize,
    /// The number of rules with two symbols on the right.
    pub rules: usize,
}

impl Default for GrammarShape {
    fn default() -> Self {
        GrammarShape { symbols: 5, words: 20, rules: 15 }
    }
}

/// A random probabilistic grammar: the weights of the rules of each symbol add up to 1. Every word has one or
/// two symbols and every symbol a word.
///
/// # Errors
/// If a size is 0, there are more rules than triples of symbols, or the grammar does not fit in memory.
///
/// ```
/// use zhat::model::generate::{grammar, GrammarShape};
/// let grammar = grammar(&GrammarShape { symbols: 3, words: 5, rules: 4 }, 7)?;
/// assert_eq!((grammar.symbols().len(), grammar.vocabulary().len()), (3, 5));
/// # Ok::<(), zhat::Error>(())
/// ```
pub fn grammar(shape: &GrammarShape, seed: u64) -> Result<Grammar> {
    let &GrammarShape { symbols, words, rules } = shape;
    for (name, count) in [("symbols", symbols), ("words", words), ("rules", rules)] {
        if count == 0 {
            return Err(Error::argument(name, "must be at least 1"));
        }
    }
    let triples = (symbols as f64).powi(3);
    if rules as f64 > triples {
        return Err(Error::argument("rules", format!("{rules} is more than all {triples} triples")));
    }
    // A rule takes about 64 bytes as text and as often again as a table.
    affordable(4.0 * (rules as f64 + 2.0 * words as f64 + symbols as f64))?;
    let streams = Streams::new(seed, "generate grammar");
    let (mut random, mut sizes) = (streams.block(0), streams.block(1));
    let mut weight = || -(1.0 - sizes.uniform()).ln() + 1e-3;
    // Right-hand sides and weights of each symbol; those with two symbols apart.
    let (mut pairs, mut single) = (BTreeMap::new(), BTreeMap::new());
    while pairs.len() < rules {
        // The start symbol can be divided.
        let head = if pairs.is_empty() { 0 } else { random.below(symbols) };
        let (left, right) = (random.below(symbols), random.below(symbols));
        pairs.entry((head, left, right)).or_insert_with(&mut weight);
    }
    for word in 0..words {
        for symbol in [word % symbols, random.below(symbols)] {
            single.entry((symbol, word)).or_insert_with(&mut weight);
        }
    }
    for symbol in words..symbols {
        single.entry((symbol, symbol % words)).or_insert_with(&mut weight);
    }
    let (mut of_pairs, mut of_single) = (vec![0.0; symbols], vec![0.0; symbols]);
    pairs.iter().for_each(|((head, ..), weight)| of_pairs[*head] += weight);
    single.iter().for_each(|((head, _), weight)| of_single[*head] += weight);
    let name = |symbol: usize| if symbol == 0 { "S".to_owned() } else { format!("X{symbol}") };
    let mut text = String::new();
    for ((head, left, right), weight) in &pairs {
        let weight = DIVIDED * weight / of_pairs[*head];
        let _ = writeln!(text, "{} -> {} {} [{weight}]", name(*head), name(*left), name(*right));
    }
    for ((head, word), weight) in &single {
        let share = if of_pairs[*head] > 0.0 { 1.0 - DIVIDED } else { 1.0 };
        let _ = writeln!(text, "{} -> 'w{word}' [{}]", name(*head), share * weight / of_single[*head]);
    }
    Grammar::parse(&text, "")
}
