//! Definition of the command line of `zhat structured`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::arguments::BudgetArguments;

#[derive(Args, Debug)]
pub struct StructuredArguments {
    #[command(subcommand)]
    pub command: StructuredCommand,
}

#[derive(Subcommand, Debug)]
pub enum StructuredCommand {
    /// Trains a predictor; the objective is certified to be close to its minimum
    Train(TrainArguments),
    /// Predicts structures with their probabilities, as CSV
    Predict(PredictArguments),
    /// Measures of the predictions, log-loss and reliability of the probabilities
    Eval(EvalArguments),
    /// Cross-validation: trains on all folds but one and evaluates on that one
    Cv(CvArguments),
}

/// Which data.
#[derive(Args, Debug)]
pub struct DataArguments {
    /// The data: ARFF (Mulan or Clus), multi-label libsvm, or CSV with a header; plain or compressed, or - for
    /// stdin
    pub data: PathBuf,
    /// The XML file with the labels of an ARFF file [default: the file of the same name, if it exists]
    #[arg(long, value_name = "FILE")]
    pub xml: Option<PathBuf>,
    /// The target columns [default: labels of the XML file; L1, L2, … for rankings; for a hierarchy the
    /// hierarchical attribute, or the column `class` of a CSV file]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub labels: Vec<String>,
    /// Accept rankings with ties and with items that have no rank; otherwise every row must be a permutation
    #[arg(long)]
    pub partial: bool,
}

/// How a predictor is made.
#[derive(Args, Debug)]
pub struct RecipeArguments {
    /// What is predicted
    #[arg(long, value_enum, default_value = "labels")]
    pub space: SpaceArgument,
    /// Pairs of labels, or of siblings in a hierarchy, with a score: none, chow-liu (the tree of largest mutual
    /// information), chow-liu+M (and M more pairs), all, or a file with one pair of names per line
    #[arg(long, value_name = "PAIRS", default_value = "none")]
    pub pairs: String,
    /// Scores of pairs depend on the inputs; otherwise they are constants
    #[arg(long)]
    pub pairs_by_input: bool,
    /// The model of rankings
    #[arg(long, value_enum, default_value = "plackett-luce")]
    pub ranking: RankingArgument,
    /// Scaling of numeric inputs
    #[arg(long, value_enum, default_value = "auto")]
    pub scaling: ScalingArgument,
    /// Replace the inputs by this many random Fourier features
    #[arg(long, value_name = "COUNT")]
    pub fourier: Option<usize>,
    /// Parameter γ of the kernel exp(−γ‖x − x'‖²) of the Fourier features [default: 1/number of inputs, or 1 with
    /// --scaling unit]
    #[arg(long, requires = "fourier")]
    pub gamma: Option<f64>,
    /// Numeric column with the weights of the rows in training; it is not an input. A row of weight 2 counts as
    /// two rows, a row of weight 0 not at all
    #[arg(long, value_name = "COLUMN")]
    pub weights: Option<String>,
    /// Factor λ of the penalty λ‖θ‖², above 0; several values, or auto for 1, 0.1, …, 1e-6, are compared by
    /// cross-validation of the log-loss
    #[arg(long, value_name = "LAMBDA", default_value = "0.001", value_delimiter = ',')]
    pub lambda: Vec<String>,
    /// Number of folds for the choice of λ, at least 2
    #[arg(long, default_value_t = 5)]
    pub lambda_folds: usize,
    /// Training method
    #[arg(long, value_enum, default_value = "batch")]
    pub method: MethodArgument,
    /// Samples per row and step of sampled and online training, for sampled training at the first step; 0 for
    /// exact expectations (online only)
    #[arg(long, default_value_t = 1)]
    pub samples: usize,
    /// Rows per step of online training
    #[arg(long, default_value_t = 1)]
    pub batch: usize,
    /// Share a of the curvature in the step 1/(2aλt) of online training, from 0.01 to 1; below 1 the regret of
    /// samples grows with the logarithm of the number of steps
    #[arg(long, value_name = "SHARE", default_value_t = 1.0)]
    pub step_share: f64,
    /// Probability δ that the certified gap of a run with sampled gradients fails, a number above 0 and below 1; the
    /// confidence of the gap is 1 − δ
    #[arg(long, value_name = "DELTA", default_value_t = 0.05)]
    pub failure: f64,
    /// Stop once the objective is certified to be this close to its minimum, in nats per row
    #[arg(long, default_value_t = 1e-6)]
    pub gap: f64,
    /// Maximum number of steps; for online training, of passes over the data
    #[arg(long, default_value_t = 1000)]
    pub iterations: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SpaceArgument {
    /// Sets of labels
    Labels,
    /// Orders of items
    Ranking,
    /// Nodes of a hierarchy, with all their ancestors
    Hierarchy,
    /// Partitions of elements into blocks; exact up to 13 elements, from samples above
    Partition,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RankingArgument {
    /// Plackett–Luce: one score per item; any number of items
    PlackettLuce,
    /// One score per pair of items; exact up to 16 items, from samples above
    Precedence,
    /// One score per item and position; exact up to 16 items, from samples above
    Positions,
    /// Mallows around the order of a Plackett–Luce predictor
    Mallows,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ScalingArgument {
    /// Standard for dense inputs, max for sparse ones
    Auto,
    /// Mean 0 and variance 1
    Standard,
    /// Divided by the maximum absolute value
    Max,
    /// As given, and every row divided by its Euclidean norm; for counts of words
    Unit,
    /// As given
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MethodArgument {
    /// Exact gradients of all rows, L-BFGS
    Batch,
    /// Gradients from samples of all rows, with a certified radius if they are exact; for structures without exact sums
    Sampled,
    /// Gradients of a few rows at a time, step 1/(2λt), averaged
    Online,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DecisionArgument {
    /// The most probable structure
    MostProbable,
    /// Labels or nodes of probability above 1/2: smallest expected Hamming loss
    Hamming,
    /// The set of largest expected F1
    F1,
    /// The order of largest expected Kendall τ
    Kendall,
}

#[derive(Args, Debug)]
pub struct TrainArguments {
    #[command(flatten)]
    pub data: DataArguments,
    #[command(flatten)]
    pub recipe: RecipeArguments,
    /// Checkpoint file; an existing one is resumed and gives the same bits as an uninterrupted run
    #[arg(long, value_name = "FILE")]
    pub checkpoint: Option<PathBuf>,
    /// Seconds between checkpoints
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0, requires = "checkpoint")]
    pub keep_every: f64,
    /// Seconds between lines about the progress on stderr: objective, gap, time left
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    pub progress_every: f64,
    /// Output file of the predictor, such as model.zhat
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    #[command(flatten)]
    pub budget: BudgetArguments,
}

#[derive(Args, Debug)]
pub struct PredictArguments {
    #[command(flatten)]
    pub data: DataArguments,
    /// The predictor, a .zhat file
    #[arg(short, long, value_name = "FILE")]
    pub model: PathBuf,
    /// The loss for which structures are chosen
    #[arg(long, value_enum, default_value = "most-probable")]
    pub decision: DecisionArgument,
    /// The k most probable structures of every row instead
    #[arg(short = 'k', long, value_name = "K", conflicts_with = "decision", value_parser = clap::value_parser!(u32).range(1..))]
    pub best: Option<u32>,
    /// Also print the probability of every label or node, of every pair of items in order, or of every pair
    /// of elements in one block
    #[arg(long)]
    pub marginals: bool,
    /// Also print the probability of an event: conditions, separated by commas, such as a>b (item a comes before b;
    /// also a>b>c), a=b (elements in one block) or the name of a label or node that is chosen. The word not before a
    /// condition negates it
    #[arg(long, value_name = "EVENT")]
    pub event: Option<String>,
    /// Output file, or - for stdout
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub output: PathBuf,
    #[command(flatten)]
    pub budget: BudgetArguments,
}

#[derive(Args, Debug)]
pub struct EvalArguments {
    #[command(flatten)]
    pub data: DataArguments,
    /// The predictor, a .zhat file
    #[arg(short, long, value_name = "FILE")]
    pub model: PathBuf,
    /// The loss for which structures are chosen [default: for every measure the one that suits it]
    #[arg(long, value_enum)]
    pub decision: Option<DecisionArgument>,
    /// Print the line number and the log-probability of the observed structure of every row as CSV, and the
    /// measures to stderr; with --json, add them to the object
    #[arg(long)]
    pub rows: bool,
    /// Write the reliability diagram to this SVG file
    #[arg(long, value_name = "FILE")]
    pub reliability: Option<PathBuf>,
    #[command(flatten)]
    pub budget: BudgetArguments,
}

#[derive(Args, Debug)]
pub struct CvArguments {
    #[command(flatten)]
    pub data: DataArguments,
    #[command(flatten)]
    pub recipe: RecipeArguments,
    /// Number of folds, at least 2; the seed determines them
    #[arg(long, default_value_t = 10)]
    pub folds: usize,
    /// Number of repetitions with other folds
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub repeats: u32,
    /// Write the fold of every row to this CSV file
    #[arg(long, value_name = "FILE")]
    pub write_folds: Option<PathBuf>,
    /// The loss for which structures are chosen [default: for every measure the one that suits it]
    #[arg(long, value_enum)]
    pub decision: Option<DecisionArgument>,
    #[command(flatten)]
    pub budget: BudgetArguments,
}
