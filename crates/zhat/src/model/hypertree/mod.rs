//! Binary trees over the words of sentences: weighted context-free grammars and span models.
//!
//! A batch of B sentences. A tree over sentence b has one node for every word and for every division of a span
//! into two; each node has one of S symbols. The first N symbols can be divided (*heads*), and the last P
//! symbols cover single words (*tags*); the two ranges may overlap. With i ≤ j the first and the last word of
//! a node,
//!
//!   score_b(y) = root_b(symbol of the whole) + Σ_words word_b(i, symbol)
//!              + Σ_divided nodes [span_b(i, j, symbol) + rule(symbol → left right)] + Σ_unary steps unary(k → a),
//!
//! where all terms are log scores and −∞ is allowed. Every query has one answer per sentence.

pub(in crate::model) mod any;
pub(in crate::model) mod generate;
mod names;
mod rules;
mod unary;

use std::collections::HashSet;

use super::Values;
use super::chain::{LARGEST_TOTAL, check_scores};
use super::evidence::{Evidence, positions};
use crate::error::{Error, Result};
use crate::model::Observed;
use crate::numeric::Real;
use crate::query::tree::Constituent;

pub use names::TreeNames;
pub(crate) use rules::part as rules_part;
pub use rules::{Rule, Rules};
pub use unary::{Closure, UnaryRule, UnaryRules};

/// The numbers of symbols of a [`Hypertree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbols {
    /// S, all symbols.
    pub all: usize,
    /// N: the first N symbols can be divided.
    pub heads: usize,
    /// P: the last P symbols cover single words.
    pub tags: usize,
}

impl Symbols {
    /// N symbols that can be divided, followed by P others that cover single words.
    pub fn disjoint(heads: usize, tags: usize) -> Self {
        Symbols { all: heads + tags, heads, tags }
    }

    /// N symbols that can be divided and can cover single words.
    pub fn same(symbols: usize) -> Self {
        Symbols { all: symbols, heads: symbols, tags: symbols }
    }

    /// The first symbol that covers single words.
    pub fn first_tag(&self) -> usize {
        self.all - self.tags
    }
}

/// The scores of spans of at least two words, by their first and last word.
#[derive(Clone, Debug, PartialEq)]
pub enum Spans<F: Real = f64> {
    /// No scores.
    None,
    /// B×T×T: entry (b, i, j) with i < j is the score of words i … j; the others are not used.
    PerSpan(Values<F>),
    /// B×T×T×N: a score for every span and symbol.
    PerSymbol(Values<F>),
    /// spanᵢⱼ · symbolₖ: the scores of spans and symbols are never stored.
    Factored {
        /// The embeddings of spans, B×T×T×D.
        spans: Values<F>,
        /// The embeddings of symbols, N×D.
        symbols: Values<F>,
    },
}

impl<F: Real> Spans<F> {
    /// The name of the form, for tables and messages.
    pub fn form(&self) -> &'static str {
        match self {
            Spans::None => "none",
            Spans::PerSpan(_) => "per span",
            Spans::PerSymbol(_) => "per span and symbol",
            Spans::Factored { .. } => "factored",
        }
    }

    /// The number of stored values.
    pub fn len(&self) -> usize {
        match self {
            Spans::None => 0,
            Spans::PerSpan(values) | Spans::PerSymbol(values) => values.len(),
            Spans::Factored { spans, symbols } => spans.len() + symbols.len(),
        }
    }

    /// True if there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if the score depends on the symbol.
    pub fn by_symbol(&self) -> bool {
        matches!(self, Spans::PerSymbol(_) | Spans::Factored { .. })
    }
}

/// A batch of sentences with scores of words, spans and rules.
///
/// ```
/// use zhat::model::{Hypertree, Rules, Symbols};
/// // Three words, one symbol, every rule allowed: two binary trees.
/// let model = Hypertree::new(Symbols::same(1), vec![0.0; 3].into(), vec![3], Rules::Any)?;
/// assert_eq!((model.batch(), model.positions()), (1, 3));
/// # Ok::<(), zhat::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Hypertree<F: Real = f64> {
    symbols: Symbols,
    words: Values<F>,
    roots: Values<F>,
    spans: Spans<F>,
    rules: Rules<F>,
    unary: Option<UnaryRules<F>>,
    lengths: Vec<usize>,
    positions: usize,
    names: Option<std::sync::Arc<TreeNames>>,
    magnitudes: Magnitudes,
}

/// The largest absolute value of each kind of score.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Magnitudes {
    words: f64,
    roots: f64,
    spans: f64,
    rules: f64,
    unary: f64,
}

fn fail<T>(message: String) -> Result<T> {
    Err(Error::Model(message))
}

impl<F: Real> Hypertree<F> {
    /// A batch of sentences with the scores of words, B×T×P with B = `lengths.len()` and the same T ≥ 1 for
    /// all sentences, and rules. Only the first `lengths[b]` words of sentence b are used. All symbols that
    /// can be divided are possible roots, with score 0. Nothing is copied.
    ///
    /// # Errors
    /// If there is no symbol or no sentence, an array has the wrong length, a sentence has no word or more
    /// than T, a symbol of a rule is out of range, a score is NaN or +∞, or a sum of scores could overflow.
    pub fn new(symbols: Symbols, words: Values<F>, lengths: Vec<usize>, rules: Rules<F>) -> Result<Self> {
        let Symbols { all, heads, tags } = symbols;
        if heads == 0 || heads > all || tags == 0 || tags > all || all > heads + tags {
            return fail(format!(
                "symbols: {heads} heads and {tags} tags do not make {all} symbols; every symbol is one of the \
                 first (heads) or of the last (tags)"
            ));
        }
        if lengths.is_empty() {
            return fail("lengths: a batch has at least one sentence".into());
        }
        let row = tags.saturating_mul(lengths.len());
        if words.is_empty() || !words.len().is_multiple_of(row) {
            return fail(format!(
                "words: {} numbers are not B × T × P for {} sentences and {tags} tags",
                words.len(),
                lengths.len()
            ));
        }
        let positions = words.len() / row;
        if let Some(b) = lengths.iter().position(|&length| length == 0 || length > positions) {
            let found = lengths[b];
            return fail(format!("lengths: sentence {b} has {found} words, expected 1 to {positions}"));
        }
        let magnitudes = Magnitudes {
            rules: rules.check(symbols, lengths.len())?,
            words: check_words(&words, &lengths, positions * tags, tags)?,
            ..Magnitudes::default()
        };
        let roots = vec![F::ZERO; heads].into();
        let model = Hypertree {
            symbols,
            words,
            roots,
            spans: Spans::None,
            rules,
            unary: None,
            lengths,
            positions,
            names: None,
            magnitudes,
        };
        model.checked()
    }

    /// The same with scores of roots: N, or B×N for one set per sentence.
    ///
    /// # Errors
    /// If the array has the wrong length, a score is NaN or +∞, or a sum of scores could overflow.
    pub fn with_roots(mut self, roots: Values<F>) -> Result<Self> {
        let heads = self.symbols.heads;
        if roots.len() != heads && roots.len() != heads * self.batch() {
            return fail(format!(
                "roots: found {} numbers, expected N = {heads} or B × N = {}",
                roots.len(),
                heads * self.batch()
            ));
        }
        self.magnitudes.roots = check_scores("roots", &roots, 0..roots.len())?;
        self.roots = roots;
        self.checked()
    }

    /// The same with scores of spans.
    ///
    /// # Errors
    /// If an array has the wrong length, a score is NaN or +∞, an embedding is not finite, or a sum of scores
    /// could overflow.
    pub fn with_spans(mut self, spans: Spans<F>) -> Result<Self> {
        let (cells, heads) = (self.batch() * self.positions * self.positions, self.symbols.heads);
        let expect = |name: &str, found: usize, expected: usize, form: &str| match found == expected {
            true => Ok(()),
            false => fail(format!("{name}: found {found} numbers, expected {form} = {expected}")),
        };
        self.magnitudes.spans = match &spans {
            Spans::None => 0.0,
            Spans::PerSpan(values) => {
                expect("spans", values.len(), cells, "B × T × T")?;
                self.check_used("spans", values, 1)?
            }
            Spans::PerSymbol(values) => {
                expect("spans", values.len(), cells.saturating_mul(heads), "B × T × T × N")?;
                self.check_used("spans", values, heads)?
            }
            Spans::Factored { spans, symbols } => {
                let size = symbols.len() / heads;
                if size == 0 || !symbols.len().is_multiple_of(heads) {
                    return fail(format!(
                        "symbol_embeddings: {} numbers are not N × D for {heads} symbols",
                        symbols.len()
                    ));
                }
                expect("span_embeddings", spans.len(), cells.saturating_mul(size), "B × T × T × D")?;
                let of_spans = self.check_used("span_embeddings", spans, size)?;
                let of_symbols = check_scores("symbol_embeddings", symbols, 0..symbols.len())?;
                for (name, values) in [("span_embeddings", spans), ("symbol_embeddings", symbols)] {
                    if let Some(at) = values.iter().position(|x| *x == F::NEG_INFINITY) {
                        return fail(format!("{name}: number {at} is not finite"));
                    }
                }
                of_spans * of_symbols * size as f64
            }
        };
        self.spans = spans;
        self.checked()
    }

    /// The same with unary rules k → a, whose heads can be divided. A node may be rewritten by any number of
    /// them before it is divided or covers a word.
    ///
    /// # Errors
    /// If a symbol is out of range, a rule is given twice, a score is NaN or +∞, or the sum over repeated
    /// rules diverges; the message names the cycle.
    pub fn with_unary(mut self, rules: Vec<UnaryRule>, scores: Values<F>) -> Result<Self> {
        self.magnitudes.unary = check_scores("unary", &scores, 0..scores.len())?;
        let name = |k: usize| self.symbol_name(k);
        self.unary = match rules.is_empty() {
            true => None,
            false => Some(UnaryRules::new(rules, scores, self.symbols, &name)?),
        };
        self.checked()
    }

    /// The same with names of symbols and words, for printed trees.
    ///
    /// # Errors
    /// If the number of names is not that of the symbols, or that of the words of a sentence.
    pub fn with_names(mut self, names: TreeNames) -> Result<Self> {
        names.check(self.symbols, &self.lengths)?;
        self.names = Some(std::sync::Arc::new(names));
        Ok(self)
    }

    fn check_used(&self, name: &str, values: &[F], per_span: usize) -> Result<f64> {
        let mut largest = 0.0f64;
        for (b, &length) in self.lengths.iter().enumerate() {
            for i in 0..length {
                let row = (b * self.positions + i) * self.positions;
                let used = (row + i + 1) * per_span..(row + length) * per_span;
                largest = largest.max(check_scores(name, values, used)?);
            }
        }
        Ok(largest)
    }

    fn checked(self) -> Result<Self> {
        let Magnitudes { words, roots, spans, rules, unary } = self.magnitudes;
        let largest = words.max(roots).max(spans).max(rules).max(unary);
        if self.magnitude() > LARGEST_TOTAL || largest > F::MAX.to_f64() / 64.0 {
            return fail(
                "the scores are too large: their sum would overflow; use -inf for what is impossible".into(),
            );
        }
        Ok(self)
    }

    /// B, the number of sentences.
    pub fn batch(&self) -> usize {
        self.lengths.len()
    }

    /// T, the number of words in the arrays.
    pub fn positions(&self) -> usize {
        self.positions
    }

    /// The number of words of each sentence.
    pub fn lengths(&self) -> &[usize] {
        &self.lengths
    }

    /// The numbers of symbols.
    pub fn symbols(&self) -> Symbols {
        self.symbols
    }

    /// The scores of words, B×T×P.
    pub fn words(&self) -> &[F] {
        &self.words
    }

    /// The scores of the tags of word i of sentence b, P.
    pub fn word(&self, b: usize, i: usize) -> &[F] {
        let (at, tags) = (b * self.positions + i, self.symbols.tags);
        &self.words[at * tags..(at + 1) * tags]
    }

    /// The scores of roots, N or B×N.
    pub fn roots(&self) -> &[F] {
        &self.roots
    }

    /// The scores of the roots of sentence b, N.
    pub fn root(&self, b: usize) -> &[F] {
        let heads = self.symbols.heads;
        let first = if self.roots.len() == heads { 0 } else { b * heads };
        &self.roots[first..first + heads]
    }

    /// The scores of spans.
    pub fn spans(&self) -> &Spans<F> {
        &self.spans
    }

    /// The score of words i … j of sentence b, i < j, as a node with this symbol.
    pub fn span(&self, b: usize, i: usize, j: usize, symbol: usize) -> f64 {
        let at = (b * self.positions + i) * self.positions + j;
        match &self.spans {
            Spans::None => 0.0,
            Spans::PerSpan(values) => values[at].to_f64(),
            Spans::PerSymbol(values) => values[at * self.symbols.heads + symbol].to_f64(),
            Spans::Factored { spans, symbols } => {
                let size = symbols.len() / self.symbols.heads;
                let (span, symbol) = (&spans[at * size..][..size], &symbols[symbol * size..][..size]);
                span.iter().zip(symbol).map(|(x, y)| x.to_f64() * y.to_f64()).sum()
            }
        }
    }

    /// The rules.
    pub fn rules(&self) -> &Rules<F> {
        &self.rules
    }

    /// The unary rules, if there are any.
    pub fn unary(&self) -> Option<&UnaryRules<F>> {
        self.unary.as_ref()
    }

    /// The names of symbols and words, if they are known.
    pub fn names(&self) -> Option<&TreeNames> {
        self.names.as_deref()
    }

    /// The name of a symbol, or its number.
    pub fn symbol_name(&self, symbol: usize) -> String {
        match &self.names {
            Some(names) => names.symbols[symbol].clone(),
            None => symbol.to_string(),
        }
    }

    /// The score of a tree over sentence b, its nodes in the order of [`Constituent`]; −∞ if they are no
    /// tree.
    pub fn score(&self, b: usize, nodes: &[Constituent]) -> f64 {
        self.checked_score(b, nodes).unwrap_or(f64::NEG_INFINITY)
    }

    fn checked_score(&self, b: usize, nodes: &[Constituent]) -> Option<f64> {
        let root = nodes.first().filter(|root| (root.first, root.last + 1) == (0, self.lengths[b]))?;
        let mut total = self.root(b).get(root.symbol)?.to_f64();
        // Divided nodes whose right part comes later, with the left part.
        let mut open: Vec<(Constituent, Constituent)> = Vec::new();
        for (at, &node) in nodes.iter().enumerate() {
            let Constituent { first, last, symbol } = node;
            let next = nodes.get(at + 1);
            match next.filter(|next| next.first == first && next.last <= last) {
                Some(child) if child.last == last => {
                    total += self.unary.as_ref()?.score(symbol, child.symbol)?;
                }
                Some(left) if symbol < self.symbols.heads => {
                    total += self.span(b, first, last, symbol);
                    open.push((node, *left));
                }
                Some(_) => return None,
                None => {
                    let tag = symbol.checked_sub(self.symbols.first_tag()).filter(|_| first == last)?;
                    total += self.word(b, first).get(tag)?.to_f64();
                    let Some((whole, left)) = open.pop() else {
                        return next.is_none().then_some(total);
                    };
                    let right =
                        next.filter(|right| (right.first, right.last) == (left.last + 1, whole.last))?;
                    total += self.rules.score(self.symbols, b, whole.symbol, left.symbol, right.symbol);
                }
            }
        }
        None
    }

    /// The same model with rules of another form and the same scores.
    pub(crate) fn with_rules(&self, rules: Rules<F>) -> Self {
        Hypertree { rules, ..self.clone() }
    }

    /// The model of one sentence.
    pub(crate) fn only(&self, b: usize) -> Self {
        let (cells, heads) = (self.positions * self.positions, self.symbols.heads);
        let one = |values: &Values<F>, length: usize| -> Values<F> {
            values[b * length..(b + 1) * length].to_vec().into()
        };
        let spans = match &self.spans {
            Spans::None => Spans::None,
            Spans::PerSpan(values) => Spans::PerSpan(one(values, cells)),
            Spans::PerSymbol(values) => Spans::PerSymbol(one(values, cells * heads)),
            Spans::Factored { spans, symbols } => Spans::Factored {
                spans: one(spans, cells * (symbols.len() / heads)),
                symbols: symbols.clone(),
            },
        };
        Hypertree {
            words: one(&self.words, self.positions * self.symbols.tags),
            roots: self.root(b).to_vec().into(),
            rules: self.rules.only(self.symbols, b),
            spans,
            lengths: vec![self.lengths[b]],
            names: None,
            ..self.clone()
        }
    }

    /// The trees of positive weight: scores of −∞ stay, and all others become equal. Unary rules get weights
    /// whose sums converge.
    pub(crate) fn support(&self) -> Hypertree<f64> {
        let flat = |values: &[F], score: f64| -> Values<f64> {
            let of = |x: &F| if x.to_f64() > f64::NEG_INFINITY { score } else { f64::NEG_INFINITY };
            values.iter().map(of).collect::<Vec<f64>>().into()
        };
        let spans = match &self.spans {
            Spans::None | Spans::Factored { .. } => Spans::None,
            Spans::PerSpan(values) => Spans::PerSpan(flat(values, 0.0)),
            Spans::PerSymbol(values) => Spans::PerSymbol(flat(values, 0.0)),
        };
        let rules = match &self.rules {
            Rules::Any => Rules::Any,
            Rules::Dense(values) => Rules::Dense(flat(values, 0.0)),
            Rules::Sparse { rules, scores } => {
                Rules::Sparse { rules: rules.clone(), scores: flat(scores, 0.0) }
            }
            Rules::LowRank { rank, heads, left, right } => Rules::LowRank {
                rank: *rank,
                heads: flat(heads, 0.0),
                left: flat(left, 0.0),
                right: flat(right, 0.0),
            },
        };
        let unary = self.unary.as_ref().and_then(|unary| {
            let score = -(2.0 * unary.rules().len() as f64).ln();
            let scores = flat(unary.scores(), score);
            UnaryRules::new(unary.rules().to_vec(), scores, self.symbols, &|k| k.to_string()).ok()
        });
        Hypertree {
            symbols: self.symbols,
            words: flat(&self.words, 0.0),
            roots: flat(&self.roots, 0.0),
            spans,
            rules,
            unary,
            lengths: self.lengths.clone(),
            positions: self.positions,
            names: None,
            magnitudes: self.magnitudes,
        }
    }

    /// The number of stored scores.
    pub fn values(&self) -> usize {
        let unary = self.unary.as_ref().map_or(0, |unary| unary.scores().len());
        self.words.len() + self.roots.len() + self.spans.len() + self.rules.len() + unary
    }

    /// Whether a score is −∞.
    pub(crate) fn has_zeros(&self) -> bool {
        let any = |values: &[F]| values.contains(&F::NEG_INFINITY);
        let rules = match &self.rules {
            Rules::Any => false,
            Rules::Dense(values) | Rules::Sparse { scores: values, .. } => any(values),
            Rules::LowRank { heads, left, right, .. } => any(heads) || any(left) || any(right),
        };
        let spans = match &self.spans {
            Spans::PerSpan(values) | Spans::PerSymbol(values) => any(values),
            Spans::None | Spans::Factored { .. } => false,
        };
        let unary = self.unary.as_ref().is_some_and(|unary| any(unary.scores()));
        any(&self.words) || any(&self.roots) || rules || spans || unary
    }

    /// The memory of the scores, in bytes.
    pub fn bytes(&self) -> usize {
        let rules = if let Rules::Sparse { rules, .. } = &self.rules { size_of_val(&rules[..]) } else { 0 };
        self.values() * size_of::<F>() + rules
    }

    /// An upper bound on |score| of any possible tree without repeated unary rules.
    pub fn magnitude(&self) -> f64 {
        let Magnitudes { words, roots, spans, rules, unary } = self.magnitudes;
        let longest = self.lengths.iter().copied().max().unwrap_or(0) as f64;
        let chain = unary * self.unary.as_ref().map_or(0, |unary| unary.involved()) as f64;
        roots + longest * (words + spans + rules + 2.0 * chain)
    }

    /// The model conditioned on the tags of some words. In an observation, `state` is a symbol.
    ///
    /// log Z of the result is the log weight of the evidence.
    ///
    /// # Errors
    /// If a sentence, word or symbol is out of range, or the tag of a word is given twice.
    pub fn condition(&self, evidence: &[Observed]) -> Result<Self> {
        self.condition_on(&evidence.iter().copied().map(Evidence::Position).collect::<Vec<_>>())
    }

    /// The model conditioned on tags, sets of tags and likelihoods of the tags of words. Likelihoods are one for
    /// each symbol that covers a single word.
    ///
    /// # Errors
    /// As [`Hypertree::condition`]; also for evidence about anything else, an empty set, and likelihoods of which
    /// there are too few or too many or all are 0.
    pub fn condition_on(&self, evidence: &[Evidence]) -> Result<Self> {
        let mut words = self.words.to_vec();
        let (tags, first) = (self.symbols.tags, self.symbols.first_tag());
        let mut seen = HashSet::new();
        for (sequence, position, known) in positions(evidence, Hypertree::KIND)? {
            let fail = |message: String| Err(Error::argument("evidence", message));
            let Some(&length) = self.lengths.get(sequence) else {
                return fail(format!("there is no sentence {sequence}; the batch has {}", self.batch()));
            };
            if position >= length {
                return fail(format!(
                    "sentence {sequence} has {length} words, so there is no word {position}"
                ));
            }
            let last = self.symbols.all - 1;
            let no_symbol =
                |symbol| format!("symbol {symbol} covers no single word; such symbols are {first} to {last}");
            known.check(&(first..self.symbols.all), || "a word".into(), no_symbol)?;
            if !seen.insert((sequence, position)) {
                return fail(format!("the tag of word {position} of sentence {sequence} is given twice"));
            }
            known.apply(first, &mut words[(sequence * self.positions + position) * tags..][..tags]);
        }
        let largest = check_words(&words, &self.lengths, self.positions * tags, tags)?;
        let magnitudes = Magnitudes { words: largest, ..self.magnitudes };
        Hypertree { words: words.into(), magnitudes, ..self.clone() }.checked()
    }
}

/// Checks the scores of the words of all sentences, which are `stride` apart; returns the largest finite |score|.
fn check_words<F: Real>(words: &[F], lengths: &[usize], stride: usize, tags: usize) -> Result<f64> {
    let rows = lengths.iter().enumerate().map(|(b, &length)| b * stride..b * stride + length * tags);
    rows.map(|row| check_scores("words", words, row)).try_fold(0.0, |most: f64, row| Ok(most.max(row?)))
}
