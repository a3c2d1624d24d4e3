//! Arguments about trees: printed forms, and random grammars and sentences.

use clap::{Args, ValueEnum};
use zhat::model::Symbols;
use zhat::model::generate::{GrammarShape, HypertreeShape, RuleForm, SpanForm};
use zhat::report::tree::TreeForm;

use crate::arguments::Precision;

/// Printed forms of trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TreeFormArgument {
    /// For people: nested brackets, or words below their heads, with scores and the guarantee
    Indented,
    /// One line per tree, as in treebanks: (S (NP the dog) (VP barks))
    Bracketed,
    /// Dependency trees in ten columns
    Conllu,
    /// A drawing
    Svg,
}

impl From<TreeFormArgument> for TreeForm {
    fn from(form: TreeFormArgument) -> TreeForm {
        match form {
            TreeFormArgument::Indented => TreeForm::Indented,
            TreeFormArgument::Bracketed => TreeForm::Bracketed,
            TreeFormArgument::Conllu => TreeForm::Conllu,
            TreeFormArgument::Svg => TreeForm::Svg,
        }
    }
}

/// A random grammar.
#[derive(Args, Debug)]
pub struct GrammarArguments {
    /// Number of symbols
    #[arg(long, default_value_t = GrammarShape::default().symbols)]
    pub symbols: usize,
    /// Number of words
    #[arg(long, default_value_t = GrammarShape::default().words)]
    pub words: usize,
    /// Number of rules with two symbols on the right
    #[arg(long, default_value_t = GrammarShape::default().rules)]
    pub rules: usize,
}

impl GrammarArguments {
    pub fn shape(&self) -> GrammarShape {
        GrammarShape { symbols: self.symbols, words: self.words, rules: self.rules }
    }
}

/// Random sentences with rules.
#[derive(Args, Debug)]
pub struct HypertreeArguments {
    /// Number of words
    #[arg(long, default_value_t = 10)]
    pub words: usize,
    /// Number of sentences
    #[arg(long, default_value_t = 1)]
    pub batch: usize,
    /// Random lengths between 1 and --words; the first sentence always has --words
    #[arg(long)]
    pub ragged: bool,
    /// Number of symbols that can be divided
    #[arg(long, default_value_t = 5)]
    pub heads: usize,
    /// Number of symbols that cover single words
    #[arg(long, default_value_t = 10)]
    pub tags: usize,
    /// Number of all symbols; with fewer than heads + tags, some are both [default: heads + tags]
    #[arg(long)]
    pub symbols: Option<usize>,
    /// Form of the rules
    #[arg(long, value_enum, default_value_t = RuleFormArgument::Dense)]
    pub rules: RuleFormArgument,
    /// Number of sparse rules
    #[arg(long, default_value_t = 100)]
    pub rule_count: usize,
    /// Rank of low-rank rules
    #[arg(long, default_value_t = 8)]
    pub rank: usize,
    /// One set of rules and root scores per sentence; not for sparse rules
    #[arg(long)]
    pub per_sentence: bool,
    /// Form of the span scores
    #[arg(long, value_enum, default_value_t = SpanFormArgument::None)]
    pub spans: SpanFormArgument,
    /// Dimension of the embeddings of factored span scores
    #[arg(long, default_value_t = 8)]
    pub embedding: usize,
    /// Standard deviation of the scores
    #[arg(long, default_value_t = 1.0)]
    pub strength: f64,
    /// Fraction of scores that are -inf, except in embeddings
    #[arg(long, default_value_t = 0.0)]
    pub zeros: f64,
    /// Floating-point precision of the scores
    #[arg(long, value_enum, default_value_t = Precision::F64)]
    pub precision: Precision,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RuleFormArgument {
    /// Every symbol is divided into every pair, with score 0
    Any,
    /// A score for every symbol and pair
    Dense,
    /// A list of rules
    Sparse,
    /// A sum of products of three factors
    LowRank,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SpanFormArgument {
    /// No span scores
    None,
    /// One score per span
    PerSpan,
    /// One score per span and symbol
    PerSymbol,
    /// Products of embeddings of spans and symbols
    Factored,
}

impl HypertreeArguments {
    pub fn shape(&self) -> HypertreeShape {
        let all = self.symbols.unwrap_or(self.heads.saturating_add(self.tags));
        HypertreeShape {
            words: self.words,
            batch: self.batch,
            ragged: self.ragged,
            symbols: Symbols { all, heads: self.heads, tags: self.tags },
            rules: match self.rules {
                RuleFormArgument::Any => RuleForm::Any,
                RuleFormArgument::Dense => RuleForm::Dense,
                RuleFormArgument::Sparse => RuleForm::Sparse(self.rule_count),
                RuleFormArgument::LowRank => RuleForm::LowRank(self.rank),
            },
            per_sentence: self.per_sentence,
            spans: match self.spans {
                SpanFormArgument::None => SpanForm::None,
                SpanFormArgument::PerSpan => SpanForm::PerSpan,
                SpanFormArgument::PerSymbol => SpanForm::PerSymbol,
                SpanFormArgument::Factored => SpanForm::Factored(self.embedding),
            },
            strength: self.strength,
            zeros: self.zeros,
        }
    }
}
