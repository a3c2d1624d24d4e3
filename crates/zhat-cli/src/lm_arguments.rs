//! Definition of the command line of `zhat lm`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::arguments::BudgetArguments;

#[derive(Args, Debug)]
pub struct LmArguments {
    #[command(subcommand)]
    pub command: LmCommand,
}

#[derive(Subcommand, Debug)]
pub enum LmCommand {
    /// Learns a globally normalised language model from texts; the cost of a step does not depend on their
    /// length
    Train(TrainArguments),
    /// A certified lower bound on the likelihood of a text, and its exact pseudo-likelihood
    Eval(EvalArguments),
    /// The words whose embeddings are nearest to those of some words
    Neighbours(NeighboursArguments),
    /// Sentences drawn by Gibbs sampling
    Sample(SentencesArguments),
    /// The embeddings in other formats
    Export(ExportArguments),
}

#[derive(Args, Debug)]
pub struct TrainArguments {
    /// Texts, a sentence a line, plain, .gz or .zst; - is the standard input
    #[arg(required = true)]
    pub texts: Vec<PathBuf>,
    /// K: how many words apart two words may be that interact
    #[arg(long, short = 'K', default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub context: u16,
    /// D: the length of the embeddings
    #[arg(long, short = 'D', default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..))]
    pub rank: u16,
    /// One right embedding for all distances, turned by a D × D matrix for each, instead of one for each
    #[arg(long)]
    pub rotations: bool,
    /// Full matrices instead of embeddings; for small vocabularies
    #[arg(long, conflicts_with_all = ["rank", "rotations"])]
    pub full_rank: bool,
    /// A text to end by: learning stops when it does not become likelier
    #[arg(long, value_name = "FILE")]
    pub valid: Option<PathBuf>,
    /// Words that occur less often become <unk> [default: 2, or 1 for a text that has <unk> itself; without
    /// the option <unk> is always in the vocabulary]
    #[arg(long)]
    pub min_count: Option<u64>,
    /// At most so many words, <unk> among them
    #[arg(long)]
    pub vocabulary: Option<usize>,
    /// What learning makes likelier
    #[arg(long, default_value = "lifted")]
    pub objective: ObjectiveArgument,
    /// Passes over the texts at most, for the objectives of stochastic gradients
    #[arg(long, default_value_t = 20)]
    pub epochs: usize,
    /// Their first rate
    #[arg(long)]
    pub rate: Option<f64>,
    /// The bound that is made less
    #[arg(long, default_value = "spectral")]
    pub bound: BoundArgument,
    /// The shares of the distances in the spectral bound, such as 0.9,0.1
    #[arg(long, value_delimiter = ',')]
    pub shares: Vec<f64>,
    /// The weight λ of the penalty λ/2·‖φ‖², in nats a position
    #[arg(long)]
    pub l2: Option<f64>,
    /// Steps at most
    #[arg(long, default_value_t = 1000)]
    pub iterations: usize,
    /// Ends after so many steps in which the validation text has not become likelier
    #[arg(long, default_value_t = 30)]
    pub patience: usize,
    /// A file that keeps where learning stands; if it exists, learning goes on from there, to the same bits
    #[arg(long, value_name = "FILE")]
    pub checkpoint: Option<PathBuf>,
    /// It is written after so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0, requires = "checkpoint")]
    pub keep_every: f64,
    /// The model file
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    #[command(flatten)]
    pub budget: BudgetArguments,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ObjectiveArgument {
    /// The certified bound on the likelihood; its cost does not depend on the texts' length
    Lifted,
    /// The pseudo-likelihood of the same model, by stochastic gradients
    Pseudo,
    /// A log-bilinear model of the words before, with an exact likelihood, by stochastic gradients
    Lbl,
    /// The same on the text as a cycle: a Markov random field that is exactly normalised, its likelihood
    /// certified
    Exact,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BoundArgument {
    /// Chains of words a fixed distance apart
    Spectral,
    /// Stars, as published
    Star,
}

#[derive(Args, Debug)]
pub struct EvalArguments {
    /// The model
    pub model: PathBuf,
    /// The text, or - for the standard input
    pub text: PathBuf,
    /// Also the pseudo-likelihood, which looks at the whole vocabulary for each word
    #[arg(long)]
    pub pseudo: bool,
    /// Also an estimate of the likelihood itself, with log Z by annealed importance sampling at this many
    /// equal levels; without a number a pilot run chooses the levels
    #[arg(long, value_name = "LEVELS", num_args = 0..=1, require_equals = false, value_parser = clap::value_parser!(u32).range(1..))]
    pub annealed: Option<Option<u32>>,
    #[command(flatten)]
    pub budget: BudgetArguments,
}

#[derive(Args, Debug)]
pub struct NeighboursArguments {
    /// The model
    pub model: PathBuf,
    /// The words
    #[arg(required = true)]
    pub words: Vec<String>,
    /// How many for each
    #[arg(short = 'n', long, default_value_t = 10)]
    pub count: usize,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct SentencesArguments {
    /// The model
    pub model: PathBuf,
    /// How many sentences
    #[arg(short = 'n', long, default_value_t = 10)]
    pub count: usize,
    /// How often every word is drawn anew
    #[arg(long, default_value_t = 50)]
    pub sweeps: usize,
    #[command(flatten)]
    pub budget: BudgetArguments,
}

#[derive(Args, Debug)]
pub struct ExportArguments {
    /// The model
    pub model: PathBuf,
    /// The file; - is the standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub output: PathBuf,
    /// The format; if it is not given, that of a file .safetensors is safetensors and that of others word2vec
    #[arg(long)]
    pub format: Option<FormatArgument>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FormatArgument {
    /// Text: a line with the number of words and D, then a line a word
    Word2vec,
    /// A tensor `embeddings`, the words in the metadata
    Safetensors,
}
