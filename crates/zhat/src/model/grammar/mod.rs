//! Weighted context-free grammars in text form.
//!
//! One rule per line: a symbol, an arrow, and the symbols and quoted words that replace it, each alternative
//! with a weight.
//!
//! ```text
//! # comments start with #
//! S  -> NP VP            1.0
//! NP -> D N [0.6] | 'fish' [0.4]      # NLTK's notation
//! VP -> V NP 'with' NP
//! ```
//!
//! Weights are non-negative numbers, not logarithms; a missing weight is 1, and a rule of weight 0 is dropped.
//! The start symbol is that of `%start S`, or else of the first rule. The weight of a tree is the product of
//! the weights of its rules: probabilities make a probabilistic context-free grammar, and without weights Z is
//! the number of trees.
//!
//! A grammar has no answers by itself: [`Grammar::hypertree`] makes a model of the trees of given sentences.
//! Right-hand sides of three or more parts are divided into pairs by hidden symbols, which printed trees leave
//! out.

pub(in crate::model) mod any;
mod build;
pub(in crate::model) mod generate;
mod parse;
#[cfg(test)]
mod tests;

use super::generate::affordable;
use super::hypertree::{Hypertree, Rules, TreeNames};
use crate::error::{Error, Result};
use crate::suggest;

/// A weighted context-free grammar.
///
/// ```
/// use zhat::model::Grammar;
/// let grammar = Grammar::parse("S -> S S [0.4] | 'a' [0.6]", "")?;
/// assert_eq!((grammar.start(), grammar.productions(), grammar.vocabulary().len()), ("S", 2, 1));
/// let trees = grammar.hypertree(&[vec!["a".into(); 3]])?;
/// assert_eq!(trees.lengths(), [3]);
/// # Ok::<(), zhat::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Grammar {
    text: String,
    productions: usize,
    vocabulary: Vec<String>,
    rules: build::Compiled,
}

/// Two grammars are equal if their texts are.
impl PartialEq for Grammar {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Grammar {
    /// Reads a grammar; `source_name` is the file name for messages.
    ///
    /// # Errors
    /// If the text does not follow the format, a production is empty or given twice, a symbol is never
    /// rewritten, or unary rules can be repeated with a sum of weights that diverges. The error has the line.
    pub fn parse(text: &str, source_name: &str) -> Result<Self> {
        let source = parse::parse(text, source_name)?;
        let rules = build::compile(&source)?;
        let grammar = Grammar {
            text: text.into(),
            productions: source.productions.len(),
            vocabulary: source.words,
            rules,
        };
        grammar.check_unary(source_name)?;
        Ok(grammar)
    }

    /// The text of the grammar, with its comments.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The name of the start symbol.
    pub fn start(&self) -> &str {
        &self.rules.names[self.rules.start]
    }

    /// The names of the symbols of the text.
    pub fn symbols(&self) -> Vec<&str> {
        let visible = |k: &usize| self.rules.hidden.binary_search(k).is_err();
        (0..self.rules.names.len()).filter(visible).map(|k| self.rules.names[k].as_str()).collect()
    }

    /// The number of productions; every alternative is one.
    pub fn productions(&self) -> usize {
        self.productions
    }

    /// The words, in the order of their first use.
    pub fn vocabulary(&self) -> &[String] {
        &self.vocabulary
    }

    /// The trees of sentences, each a list of words.
    ///
    /// # Errors
    /// If there is no sentence, a sentence has no words, a word is not in the grammar, or the scores do not fit
    /// in memory.
    pub fn hypertree(&self, sentences: &[Vec<String>]) -> Result<Hypertree<f64>> {
        self.trees(sentences, &|b, message| Error::argument("sentences", format!("sentence {b}: {message}")))
    }

    /// The trees of sentences; `fail` makes an error about one of them.
    fn trees(
        &self,
        sentences: &[Vec<String>],
        fail: &dyn Fn(usize, String) -> Error,
    ) -> Result<Hypertree<f64>> {
        let build::Compiled { symbols, names, hidden, start, rules, unary, unary_scores, lexicon, .. } =
            &self.rules;
        let longest = sentences.iter().map(Vec::len).max().unwrap_or(0);
        let (tags, first_tag) = (symbols.tags, symbols.first_tag());
        // `affordable` assumes 32 bytes per number; here they have 8.
        affordable(sentences.len() as f64 * longest as f64 * tags as f64 / 4.0)?;
        let mut words = vec![f64::NEG_INFINITY; sentences.len() * longest * tags];
        for (b, sentence) in sentences.iter().enumerate() {
            if sentence.is_empty() {
                return Err(fail(b, "empty sentence; expected at least one word".into()));
            }
            for (i, word) in sentence.iter().enumerate() {
                let Some(entries) = lexicon.get(word) else {
                    let known: Vec<&str> = self.vocabulary.iter().map(String::as_str).collect();
                    let hint = suggest::hint(word, &known);
                    return Err(fail(b, format!("the grammar has no word `{word}`{hint}")));
                };
                let row = (b * longest + i) * tags;
                entries.iter().for_each(|&(tag, score)| words[row + tag - first_tag] = score);
            }
        }
        let lengths: Vec<usize> = sentences.iter().map(Vec::len).collect();
        let mut roots = vec![f64::NEG_INFINITY; symbols.heads];
        roots[*start] = 0.0;
        let names = TreeNames { symbols: names.clone(), hidden: hidden.clone(), words: sentences.to_vec() };
        Hypertree::new(*symbols, words.into(), lengths, rules.clone())?
            .with_names(names)?
            .with_roots(roots.into())?
            .with_unary(unary.clone(), unary_scores.clone().into())
    }

    /// Checks that the sum over repeated unary rules converges. The line of the error is that of the first rule
    /// with which it does not.
    fn check_unary(&self, source_name: &str) -> Result<()> {
        let build::Compiled { symbols, names, hidden, unary, unary_scores, unary_lines, .. } = &self.rules;
        let none = Rules::sparse(Vec::new(), &[])?;
        let one_word = Hypertree::new(*symbols, vec![0.0; symbols.tags].into(), vec![1], none)?;
        let words = vec![vec![String::new()]];
        let named =
            one_word.with_names(TreeNames { symbols: names.clone(), hidden: hidden.clone(), words })?;
        let closed = |count: usize| {
            let scores = unary_scores[..count].to_vec();
            named.clone().with_unary(unary[..count].to_vec(), scores.into()).map(|_| ())
        };
        let Err(mut error) = closed(unary.len()) else { return Ok(()) };
        let (mut below, mut count) = (0, unary.len());
        while below + 1 < count {
            let middle = below.midpoint(count);
            match closed(middle) {
                Ok(()) => below = middle,
                Err(found) => (count, error) = (middle, found),
            }
        }
        // Without the name of the argument of a hypertree.
        let message = error.to_string().trim_start_matches("unary: ").to_owned();
        Err(Error::Parse { source_name: source_name.into(), line: unary_lines[count - 1], message })
    }
}
