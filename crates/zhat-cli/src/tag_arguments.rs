//! Definition of the command line of `zhat tag`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::arguments::{BudgetArguments, parse_bytes};

#[derive(Args, Debug)]
pub struct TagArguments {
    #[command(subcommand)]
    pub command: TagCommand,
}

#[derive(Subcommand, Debug)]
pub enum TagCommand {
    /// Trains a tagger on a tagged file
    Train(Box<TagTrainArguments>),
    /// Writes a file with the predicted tags
    Predict(TagPredictArguments),
    /// Accuracy in total, on seen and on unseen words, per tag, and F1 of spans
    Eval(TagEvalArguments),
    /// The largest weights of a tagger
    Features(TagFeaturesArguments),
}

/// How tagged files are read.
#[derive(Args, Debug)]
pub struct TagReadArguments {
    /// Format: conllu, columns, words (word_TAG), crfsuite or csv [default: from the name and the first lines]
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<String>,
    /// The column of the tags: upos or xpos in CoNLL-U, a number from 1, or a name in a table [default: upos, the
    /// last column, or the column `tag`]
    #[arg(long, value_name = "COLUMN")]
    pub column: Option<String>,
    /// The column of the words [default: the form, the first column, or the column `word`]
    #[arg(long, value_name = "COLUMN")]
    pub word_column: Option<String>,
    /// The column of a table that tells sequences apart [default: `sentence`, `sequence` or `id`]
    #[arg(long, value_name = "COLUMN")]
    pub sequence: Option<String>,
}

#[derive(Args, Debug)]
pub struct TagTrainArguments {
    /// The tagged file, plain or compressed, or - for stdin
    pub file: PathBuf,
    #[command(flatten)]
    pub read: TagReadArguments,
    /// The likelihood to maximise
    #[arg(long, default_value = "conditional")]
    pub objective: TagObjectiveArgument,
    /// The attributes of a token: appendix-b (words, prefixes, suffixes, morphology), appendix-b:L, chunking,
    /// attributes (those of the file), or items such as w[0], c2[-1] and w[-1]|w[0] [default: attributes for
    /// CRFsuite's format, otherwise appendix-b with --words]
    #[arg(long, value_name = "ITEMS")]
    pub features: Option<String>,
    /// The number of nearest words whose features a tag has, odd; at most 9 for joint taggers
    #[arg(long, value_name = "L", default_value_t = 3, conflicts_with = "features")]
    pub words: usize,
    /// 1 for weights of neighbouring tags; 2 for three tags as well, or for joint taggers tags at distance 2
    #[arg(long, value_name = "K", default_value_t = 1)]
    pub context: usize,
    /// Factor λ₁ of the penalty λ₁‖θ‖₁, which makes weights exactly 0 [default: 0]
    #[arg(long)]
    pub l1: Option<f64>,
    /// Factor λ₂ of the penalty λ₂‖θ‖² [default: 1; joint: 0.5]
    #[arg(long)]
    pub l2: Option<f64>,
    /// Drop attributes seen fewer times; with appendix-b only indicators of words [default: 0; joint: 2]
    #[arg(long, value_name = "COUNT")]
    pub min_count: Option<usize>,
    /// The bound on log Z that a joint tagger is trained with [default: the tightest: exact up to 3 words,
    /// otherwise cover]
    #[arg(long)]
    pub bound: Option<BoundArgument>,
    /// Leave out the scores of words that do not depend on the tag from a joint tagger
    #[arg(long)]
    pub no_word_scores: bool,
    /// Steps of optimisation for the certified likelihoods of a joint tagger at the end [default: 40]
    #[arg(long, value_name = "STEPS")]
    pub certifying: Option<usize>,
    /// Weights for all attributes and tags and for all transitions, not only for those of the training file
    #[arg(long)]
    pub all_possible: bool,
    /// Number the attributes by a hash of this many bits, from 1 to 30; their names are not kept
    #[arg(long, value_name = "BITS")]
    pub hash_bits: Option<u32>,
    /// A tagged file for early stopping; the weights with its smallest log-loss, for joint taggers with its
    /// highest accuracy, are kept
    #[arg(long, value_name = "FILE")]
    pub valid: Option<PathBuf>,
    /// Stop after this many steps without an improvement on --valid [default: 10; joint: 50]
    #[arg(long, value_name = "STEPS", requires = "valid")]
    pub patience: Option<usize>,
    /// Maximum number of steps [default: 1000; joint: 300]
    #[arg(long)]
    pub iterations: Option<usize>,
    /// Stop when the objective has fallen by less than this share over --period steps [default: 1e-5; joint: 1e-4]
    #[arg(long)]
    pub delta: Option<f64>,
    /// The number of steps for --delta [default: 10]
    #[arg(long)]
    pub period: Option<usize>,
    /// Optimizer: lbfgs, or sgd (stochastic gradients on a file that is read in blocks, for corpora larger than
    /// memory; a step is then an epoch)
    #[arg(long, value_name = "NAME", default_value = "lbfgs")]
    pub optimizer: String,
    /// With sgd, the number of sentences per batch
    #[arg(long, value_name = "SENTENCES", default_value_t = 8)]
    pub batch: usize,
    /// With sgd, the first step size [default: chosen by trials]
    #[arg(long)]
    pub rate: Option<f64>,
    /// With sgd, the size of a block of the file, whose sentences are shuffled
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = parse_bytes)]
    pub block: u64,
    /// Checkpoint file; an existing one is resumed and gives the same bits as an uninterrupted run
    #[arg(long, value_name = "FILE")]
    pub checkpoint: Option<PathBuf>,
    /// Seconds between checkpoints
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0, requires = "checkpoint")]
    pub keep_every: f64,
    /// Output file of the tagger, such as model.zhat
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    #[command(flatten)]
    pub budget: BudgetArguments,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TagObjectiveArgument {
    /// Tags given words: a conditional random field
    Conditional,
    /// Tags and words together, with a certified likelihood; the cost per step does not depend on the length of
    /// the file
    Joint,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BoundArgument {
    /// log Z by sums over triples of tags, up to 3 words
    Exact,
    /// Tag chains and word stars with optimised weights
    Cover,
    /// The stars of the paper
    Star,
}

#[derive(Args, Debug)]
pub struct TagPredictArguments {
    /// The tagger, a .zhat file
    pub model: PathBuf,
    /// The file, plain or compressed, or - for stdin
    pub file: PathBuf,
    #[command(flatten)]
    pub read: TagReadArguments,
    /// The file has no column of tags; one is added
    #[arg(long)]
    pub untagged: bool,
    /// Keep the tags of the file; only tokens with `_` in place of a tag get one
    #[arg(long, conflicts_with = "untagged")]
    pub known: bool,
    /// Forbid transitions, such as O,I-NP (may be repeated)
    #[arg(long, value_name = "TAG,TAG")]
    pub forbid: Vec<String>,
    /// The k most probable sequences of every sentence as CSV instead
    #[arg(short = 'k', long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    pub best: Option<u32>,
    /// The probability of every tag of every token as CSV instead
    #[arg(long, conflicts_with = "best")]
    pub marginals: bool,
    /// Output file, or - for stdout; a name that ends in .gz or .zst is compressed
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub output: PathBuf,
    #[command(flatten)]
    pub budget: BudgetArguments,
}

#[derive(Args, Debug)]
pub struct TagEvalArguments {
    /// The tagger, a .zhat file
    pub model: PathBuf,
    /// The tagged file, plain or compressed, or - for stdin
    pub file: PathBuf,
    #[command(flatten)]
    pub read: TagReadArguments,
    /// Forbid transitions, such as O,I-NP (may be repeated)
    #[arg(long, value_name = "TAG,TAG")]
    pub forbid: Vec<String>,
    /// Write the confusion matrix to this SVG file
    #[arg(long, value_name = "FILE")]
    pub confusion: Option<PathBuf>,
    #[command(flatten)]
    pub budget: BudgetArguments,
}

#[derive(Args, Debug)]
pub struct TagFeaturesArguments {
    /// The tagger, a .zhat file
    pub model: PathBuf,
    /// The number of weights, largest absolute values first
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    pub top: usize,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
