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
    /// Trains a globally normalised language model; the cost per step does not depend on the length of the
    /// texts
    Train(TrainArguments),
    /// Certified lower bound on the likelihood of a text, and its pseudo-likelihood
    Eval(EvalArguments),
    /// Words with the nearest embeddings
    Neighbours(NeighboursArguments),
    /// Samples sentences by Gibbs sampling
    Sample(SentencesArguments),
    /// Exports the embeddings
    Export(ExportArguments),
}

#[derive(Args, Debug)]
pub struct TrainArguments {
    /// Texts, one sentence per line, plain or compressed (.gz, .zst), or - for stdin
    #[arg(required = true)]
    pub texts: Vec<PathBuf>,
    /// Maximum distance K of interacting words, from 1 to 64
    #[arg(long, short = 'K', default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub context: u16,
    /// Dimension D of the embeddings, at least 1
    #[arg(long, short = 'D', default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..))]
    pub rank: u16,
    /// One right embedding for all distances with a D × D matrix per distance, instead of one embedding per
    /// distance
    #[arg(long)]
    pub rotations: bool,
    /// Full matrices instead of embeddings, for small vocabularies
    #[arg(long, conflicts_with_all = ["rank", "rotations"])]
    pub full_rank: bool,
    /// Validation text for early stopping
    #[arg(long, value_name = "FILE")]
    pub valid: Option<PathBuf>,
    /// Less frequent words become <unk> [default: 2, or 1 for a text that contains <unk>; by default <unk> is
    /// always in the vocabulary]
    #[arg(long)]
    pub min_count: Option<u64>,
    /// Maximum vocabulary size, including <unk> [default: no limit]
    #[arg(long)]
    pub vocabulary: Option<usize>,
    /// Training objective
    #[arg(long, default_value = "lifted")]
    pub objective: ObjectiveArgument,
    /// Maximum number of epochs, for objectives trained by stochastic gradients
    #[arg(long, default_value_t = 20)]
    pub epochs: usize,
    /// Initial learning rate of stochastic gradients, above 0
    #[arg(long)]
    pub rate: Option<f64>,
    /// Bound to minimise
    #[arg(long, default_value = "spectral")]
    pub bound: BoundArgument,
    /// Weights of the distances in the spectral bound, such as 0.9,0.1
    #[arg(long, value_delimiter = ',')]
    pub shares: Vec<f64>,
    /// Weight λ of the penalty λ/2·‖φ‖², in nats per position [default: 4e-6]
    #[arg(long)]
    pub l2: Option<f64>,
    /// Maximum number of steps
    #[arg(long, default_value_t = 1000)]
    pub iterations: usize,
    /// Stop after this many steps without improvement on the validation text
    #[arg(long, default_value_t = 30)]
    pub patience: usize,
    /// Checkpoint file; an existing one is resumed and gives the same bits as an uninterrupted run
    #[arg(long, value_name = "FILE")]
    pub checkpoint: Option<PathBuf>,
    /// Seconds between checkpoints
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0, requires = "checkpoint")]
    pub keep_every: f64,
    /// Output file of the model, such as model.zhat
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    #[command(flatten)]
    pub budget: BudgetArguments,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ObjectiveArgument {
    /// Certified bound on the likelihood; its cost does not depend on the length of the texts
    Lifted,
    /// Pseudo-likelihood of the same model, by stochastic gradients
    Pseudo,
    /// Log-bilinear model of the preceding words, with exact likelihood, by stochastic gradients
    Lbl,
    /// The same on the text as a cycle: an exactly normalised Markov random field with certified likelihood
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
    /// The language model, a .zhat file
    pub model: PathBuf,
    /// The text, or - for stdin
    pub text: PathBuf,
    /// Also compute the pseudo-likelihood, at a cost of the vocabulary size per word
    #[arg(long)]
    pub pseudo: bool,
    /// Also estimate the likelihood, with log Z by annealed importance sampling with this many levels;
    /// without a number, a pilot run chooses the levels
    #[arg(long, value_name = "LEVELS", num_args = 0..=1, require_equals = false, value_parser = clap::value_parser!(u32).range(1..))]
    pub annealed: Option<Option<u32>>,
    #[command(flatten)]
    pub budget: BudgetArguments,
}

#[derive(Args, Debug)]
pub struct NeighboursArguments {
    /// The language model, a .zhat file
    pub model: PathBuf,
    /// The words
    #[arg(required = true)]
    pub words: Vec<String>,
    /// Number of neighbours per word
    #[arg(short = 'n', long, default_value_t = 10)]
    pub count: usize,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct SentencesArguments {
    /// The language model, a .zhat file
    pub model: PathBuf,
    /// Number of sentences to sample
    #[arg(short = 'n', long, default_value_t = 10)]
    pub count: usize,
    /// Number of sweeps over all words
    #[arg(long, default_value_t = 50)]
    pub sweeps: usize,
    #[command(flatten)]
    pub budget: BudgetArguments,
}

#[derive(Args, Debug)]
pub struct ExportArguments {
    /// The language model, a .zhat file
    pub model: PathBuf,
    /// Output file, or - for stdout
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub output: PathBuf,
    /// Output format; by default safetensors for a file .safetensors, and word2vec otherwise
    #[arg(long)]
    pub format: Option<FormatArgument>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FormatArgument {
    /// Text: a line with the number of words and D, then one line per word
    Word2vec,
    /// A tensor `embeddings`, the words in the metadata
    Safetensors,
}
