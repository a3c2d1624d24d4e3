//! Definition of the command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use zhat::catalogue;

use crate::lm_arguments::LmArguments;

/// Partition functions of structured probabilistic models, with answers that say how far they may be trusted.
#[derive(Parser, Debug)]
#[command(name = "zhat", version, max_term_width = 110, after_help = AFTER_HELP)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

const AFTER_HELP: &str = "\
Exit status: 0 answered; 1 no answer (zero partition, over budget); 2 bad command line or input;
130 SIGINT (Ctrl-C), 143 SIGTERM, 129 SIGHUP, each with the result so far if there is one.
Environment: ZHAT_SIMD=portable|avx2|avx512 forces a set of vector instructions.
Start with: zhat demo";

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Size of a model, and the recommended method for each query with its guarantee, memory and time
    Info(InfoArguments),
    /// The methods, or the options of one method
    Methods(MethodsArguments),
    /// log Z, the logarithm of the partition function; with evidence, the log weight of the evidence
    #[command(visible_alias = "pr")]
    Logz(LogPartitionArguments),
    /// The probability of every state of each variable, or of the joint states of each factor
    #[command(visible_alias = "mar")]
    Marginals(MarginalsArguments),
    /// The entropy of the model
    Entropy(PlainQueryArguments),
    /// The most probable state, or the k best
    #[command(visible_alias = "mpe")]
    Map(MapArguments),
    /// States drawn from the model, as CSV or JSON lines
    Sample(SampleArguments),
    /// The divergence KL(p ‖ q) of two chains, sequence by sequence
    Kl(DivergenceArguments),
    /// The cross-entropy −Σ p log q of two chains, sequence by sequence
    CrossEntropy(DivergenceArguments),
    /// Fits a Markov random field to a table of categories
    Fit(FitArguments),
    /// The log-likelihood of a table's rows under a model
    Score(ScoreArguments),
    /// A table with its missing values filled in by what is likeliest given the rest of the row
    Impute(ImputeArguments),
    /// Language models: learn, evaluate, sample, look at embeddings
    Lm(LmArguments),
    /// Random models to play with
    Generate(GenerateArguments),
    /// Converts a model between formats
    Convert(ConvertArguments),
    /// A tour in ten seconds: a model, log Z by several methods, a picture
    Demo(DemoArguments),
    /// The papers' tables and figures, run again; without a name lists them
    Repro(ReproArguments),
    /// Prints a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Prints a manual page (view it with: zhat man | man -l -)
    Man {
        /// The command, such as logz; without it the page of the program
        command: Option<String>,
        /// Writes the pages of the program and of every command to this folder
        #[arg(long, value_name = "FOLDER", conflicts_with = "command")]
        folder: Option<PathBuf>,
    },
}

/// Which model, given what.
#[derive(Args, Debug)]
pub struct ModelArguments {
    /// The model: a .uai, .bif or .zhat file, or - for the standard input
    pub model: PathBuf,
    /// Evidence in the UAI format
    #[arg(long, value_name = "FILE")]
    pub evidence: Option<PathBuf>,
    /// Evidence by name or number, such as rain=yes,x3=1; of sequences such as 0:12=3, state 3 at position 12
    /// of sequence 0; of structures conditions: [not] chosen I, at ITEM POSITION, before I J, linked I J, and
    /// size LEAST MOST
    #[arg(long, value_name = "NAME=STATE", value_delimiter = ',')]
    pub given: Vec<String>,
}

/// How to run.
#[derive(Args, Debug)]
pub struct RunArguments {
    /// The method: a name, a kind of promise (exact, bounds, unbiased) for the strongest of at least that
    /// kind, or auto for the strongest that fits
    #[arg(long, default_value = "auto", value_parser = PossibleValuesParser::new(catalogue::method_names()))]
    pub method: String,
    /// An option of the method, such as samples=1000000; may be repeated
    #[arg(long, value_name = "OPTION=VALUE", value_delimiter = ',')]
    pub set: Vec<String>,
    #[command(flatten)]
    pub budget: BudgetArguments,
}

/// What the work may take, and how it is told of.
#[derive(Args, Debug)]
pub struct BudgetArguments {
    /// Seed of everything random; the same seed gives the same answer
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Threads; all processors by default. Answers do not depend on it
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Option<u16>,
    /// Memory budget, such as 4GiB; 80% of what is free by default
    #[arg(long, value_parser = parse_bytes)]
    pub memory: Option<u64>,
    /// Time budget, such as 60s or 5min
    #[arg(long, value_parser = parse_duration)]
    pub time: Option<Duration>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct PlainQueryArguments {
    #[command(flatten)]
    pub model: ModelArguments,
    #[command(flatten)]
    pub run: RunArguments,
}

#[derive(Args, Debug)]
pub struct QueryArguments {
    #[command(flatten)]
    pub plain: PlainQueryArguments,
    /// Print the result file of the UAI competitions
    #[arg(long, conflicts_with = "json")]
    pub format: Option<ResultFormat>,
}

#[derive(Args, Debug)]
pub struct LogPartitionArguments {
    #[command(flatten)]
    pub query: QueryArguments,
    /// With --method anytime-bounds: end once the interval is this narrow, in nats; every step is told of on
    /// the standard error
    #[arg(long)]
    pub gap: Option<f64>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ResultFormat {
    /// PR, MAR or MAP
    Uai,
}

#[derive(Args, Debug)]
pub struct MarginalsArguments {
    #[command(flatten)]
    pub query: QueryArguments,
    /// The joint probabilities of each factor's variables; an observed variable leaves the scopes and has a
    /// factor of its own
    #[arg(long, conflicts_with = "format")]
    pub factors: bool,
    /// Only these variables, by name or number
    #[arg(long, value_name = "NAME", value_delimiter = ',', conflicts_with_all = ["factors", "format"])]
    pub of: Vec<String>,
}

#[derive(Args, Debug)]
pub struct MapArguments {
    #[command(flatten)]
    pub query: QueryArguments,
    /// How many states, best first
    #[arg(short = 'k', long, value_name = "K", conflicts_with = "format")]
    pub best: Option<usize>,
}

#[derive(Args, Debug)]
pub struct SampleArguments {
    #[command(flatten)]
    pub plain: PlainQueryArguments,
    /// How many states to draw
    #[arg(short = 'n', long, default_value_t = 1)]
    pub count: usize,
}

#[derive(Args, Debug)]
pub struct DivergenceArguments {
    /// The chains p, a .zhat file
    pub p: PathBuf,
    /// The chains q of the same shape, another
    pub q: PathBuf,
    #[command(flatten)]
    pub run: RunArguments,
}

/// How a table is read.
#[derive(Args, Debug)]
pub struct TableArguments {
    /// The table: comma-separated values with a header, plain, .gz or .zst, or - for the standard input
    pub data: PathBuf,
    /// The first row is no header; columns are x0, x1, …
    #[arg(long)]
    pub no_header: bool,
    /// What stands between two values; found out from the first row by default
    #[arg(long, value_name = "CHARACTER")]
    pub delimiter: Option<char>,
    /// How bytes stand for letters; bytes that are not UTF-8 are an error by default
    #[arg(long, value_enum, default_value_t = EncodingArgument::Utf8)]
    pub encoding: EncodingArgument,
    /// What becomes of rows with missing values
    #[arg(long, value_enum, default_value_t = MissingArgument::Drop)]
    pub missing: MissingArgument,
    /// A value that means that there is none, unless it is quoted; may be repeated [default: nothing, ?, NA,
    /// NaN, nan, null]
    #[arg(long, value_name = "VALUE")]
    pub marker: Vec<String>,
    /// Columns to leave out
    #[arg(long, value_name = "COLUMN", value_delimiter = ',')]
    pub ignore: Vec<String>,
    /// Different values of a column at most
    #[arg(long, default_value_t = 1000)]
    pub most_states: usize,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum MissingArgument {
    /// They are left out, and counted
    Drop,
    /// They are an error
    Refuse,
    /// A missing value is a state of its column, named (missing)
    State,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum EncodingArgument {
    #[value(name = "utf-8")]
    Utf8,
    /// ISO 8859-1
    #[value(name = "latin-1")]
    Latin1,
}

#[derive(Args, Debug)]
pub struct FitArguments {
    #[command(flatten)]
    pub table: TableArguments,
    /// Which pairs interact: independent, chow-liu, chow-liu+M for the M next pairs by mutual information
    /// besides, complete, or a file with two columns a line
    #[arg(long, default_value = "chow-liu")]
    pub structure: String,
    /// Weight of the l1 penalty
    #[arg(long, default_value_t = 0.0)]
    pub l1: f64,
    /// Weight of the l2 penalty; 1 / rows by default, 0 with --l1
    #[arg(long)]
    pub l2: Option<f64>,
    #[arg(long, value_enum, default_value_t = OptimizerArgument::Auto)]
    pub optimizer: OptimizerArgument,
    #[arg(long, value_enum, default_value_t = StartArgument::Forest)]
    pub start: StartArgument,
    /// Iterations at most
    #[arg(long, default_value_t = 1000)]
    pub iterations: usize,
    /// Ends once no component of the gradient is larger
    #[arg(long, default_value_t = 1e-6)]
    pub tolerance: f64,
    /// Keeps the state of the work here, every few seconds, and goes on from it if it is there
    #[arg(long, value_name = "FILE")]
    pub checkpoint: Option<PathBuf>,
    /// The model file to write: .zhat or .uai
    #[arg(short, long)]
    pub output: PathBuf,
    #[command(flatten)]
    pub run: RunArguments,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum OptimizerArgument {
    /// L-BFGS where that is possible, else FISTA
    Auto,
    Lbfgs,
    Fista,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum StartArgument {
    /// The closed form of the spanning forest of greatest mutual information
    Forest,
    /// All parameters zero
    Zero,
}

#[derive(Args, Debug)]
pub struct ScoreArguments {
    /// The model: a .zhat, .uai or .bif file
    pub model: PathBuf,
    #[command(flatten)]
    pub table: TableArguments,
    /// Print the line and the log-likelihood of every row, as CSV, before the summary on the standard error
    #[arg(long)]
    pub rows: bool,
    #[command(flatten)]
    pub run: RunArguments,
}

#[derive(Args, Debug)]
pub struct ImputeArguments {
    /// The model: a .zhat, .uai or .bif file
    pub model: PathBuf,
    #[command(flatten)]
    pub table: TableArguments,
    #[command(flatten)]
    pub run: RunArguments,
}

#[derive(Args, Debug)]
pub struct MethodsArguments {
    /// A method
    pub name: Option<String>,
    /// Print a JSON array
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct InfoArguments {
    #[command(flatten)]
    pub model: ModelArguments,
    /// Memory budget to judge by, such as 4GiB; 80% of what is free by default
    #[arg(long, value_parser = parse_bytes)]
    pub memory: Option<u64>,
    /// List every method and query, not only the recommended method for each query
    #[arg(long)]
    pub all: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct ConvertArguments {
    /// The model to read; its content tells the format
    pub from: PathBuf,
    /// The file to write; its ending tells the format: .zhat, .uai or .bif (- for UAI on the standard output)
    pub to: PathBuf,
}

#[derive(Args, Debug)]
pub struct ReproArguments {
    /// Which table or figure
    pub name: Option<String>,
    /// Independent runs of every estimator
    #[arg(long, default_value_t = 100)]
    pub runs: usize,
    /// Only the smaller models
    #[arg(long)]
    pub quick: bool,
    /// Seed of models and runs
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Threads; all processors by default
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Option<u16>,
    /// The folder for pictures
    #[arg(short, long, default_value = ".")]
    pub output: PathBuf,
}

#[derive(Args, Debug)]
pub struct DemoArguments {
    /// Where to write the picture
    #[arg(short, long, default_value = "zhat-demo.svg")]
    pub output: PathBuf,
}

#[derive(Args, Debug)]
pub struct GenerateArguments {
    #[command(subcommand)]
    pub what: Generate,
    /// The file to write; its ending tells the format: .zhat, .uai or .bif (- for UAI on the standard output)
    #[arg(short, long, global = true, default_value = "-")]
    pub output: PathBuf,
    /// Seed; the same seed gives the same model
    #[arg(long, global = true, default_value_t = 0)]
    pub seed: u64,
}

#[derive(Subcommand, Debug)]
pub enum Generate {
    /// Ising grid: score Σ J s s' + Σ h s with s = ±1
    Ising(GridArguments),
    /// Potts grid: score Σ J [x = x'] + Σ h(x)
    Potts {
        #[command(flatten)]
        grid: GridArguments,
        /// States of each variable
        #[arg(long, default_value_t = 3)]
        states: usize,
    },
    /// Random tree with normal log potentials
    Tree {
        #[arg(long, default_value_t = 100)]
        variables: usize,
        /// States of each variable
        #[arg(long, default_value_t = 3)]
        states: usize,
        /// Standard deviation of the log potentials
        #[arg(long, default_value_t = 1.0)]
        strength: f64,
    },
    /// Factors over random scopes with normal log potentials
    Random {
        #[arg(long, default_value_t = 30)]
        variables: usize,
        /// States of each variable
        #[arg(long, default_value_t = 2)]
        states: usize,
        #[arg(long, default_value_t = 40)]
        factors: usize,
        /// Variables in each factor
        #[arg(long, default_value_t = 3)]
        arity: usize,
        /// Standard deviation of the log potentials
        #[arg(long, default_value_t = 1.0)]
        strength: f64,
        /// Fraction of forbidden combinations
        #[arg(long, default_value_t = 0.0)]
        zeros: f64,
    },
    /// Random Bayesian network
    Bayes {
        #[arg(long, default_value_t = 30)]
        variables: usize,
        /// States of each variable
        #[arg(long, default_value_t = 2)]
        states: usize,
        /// At most this many parents each
        #[arg(long, default_value_t = 3)]
        parents: usize,
        /// Fraction of table rows that are certain
        #[arg(long, default_value_t = 0.0)]
        deterministic: f64,
    },
    /// Chains of hidden states with normal scores; written to a .zhat file
    Chain(ChainArguments),
    /// Chains whose states last for segments of several positions
    SemiMarkov {
        #[command(flatten)]
        chain: ChainArguments,
        /// Positions of the longest segment
        #[arg(long, default_value_t = 5)]
        longest: usize,
    },
    /// Variables of many states on a grid or a random tree, with pairwise interactions; written to a .zhat
    /// file
    Pairwise {
        #[arg(long, default_value_t = 10)]
        rows: usize,
        #[arg(long, default_value_t = 10)]
        columns: usize,
        /// A random tree of rows × columns variables instead of a grid
        #[arg(long)]
        tree: bool,
        #[arg(long, default_value_t = 100)]
        states: usize,
        /// One table, one for each edge (per-step), or products of embeddings
        #[arg(long, value_enum, default_value_t = Form::Shared)]
        interactions: Form,
        /// Dimension of the embeddings
        #[arg(long, default_value_t = 10)]
        rank: usize,
        /// Standard deviation of the node scores
        #[arg(long, default_value_t = 1.0)]
        strength: f64,
        /// Standard deviation of the interactions
        #[arg(long, default_value_t = 0.5)]
        coupling: f64,
        #[arg(long, value_enum, default_value_t = Precision::F64)]
        precision: Precision,
    },
    /// A density of a well-known family on a box, or a mixture of normal ones; written to a .zhat file
    Continuous {
        /// gaussian, exponential, gamma, chi-squared, weibull, log-normal, pareto, beta, laplace, poisson,
        /// dirichlet, or mixture
        #[arg(long, default_value = "gaussian")]
        family: String,
        /// Its parameters, such as shape,rate of gamma; of a mixture the number of classes
        #[arg(long, value_delimiter = ',', allow_negative_numbers = true)]
        parameters: Vec<f64>,
        /// Where the box begins; where little is left out by default
        #[arg(long, allow_negative_numbers = true)]
        low: Option<f64>,
        /// Where it ends; of poisson, which counts, nowhere by default
        #[arg(long, allow_negative_numbers = true)]
        high: Option<f64>,
    },
    /// A cycle of positions with shared parameters, of order K; written to a .zhat file
    SequenceMrf {
        /// N, the positions of the cycle
        #[arg(long, default_value_t = 1000)]
        length: usize,
        /// C
        #[arg(long, default_value_t = 10)]
        states: usize,
        /// K: how many positions apart two may be that interact
        #[arg(long, default_value_t = 1)]
        context: usize,
        /// Dimension of embeddings; full matrices without
        #[arg(long)]
        rank: Option<usize>,
        /// Standard deviation of the scores of states
        #[arg(long, default_value_t = 1.0)]
        strength: f64,
        /// Standard deviation of the interactions
        #[arg(long, default_value_t = 0.5)]
        coupling: f64,
    },
    /// Subsets of labels, with scores of labels or pairs; written to a .zhat file
    Hypercube(SpaceArguments),
    /// Orders of items, with scores of positions or precedences, or by the distance to one order
    Permutation(SpaceArguments),
    /// Subtrees at the root of a random tree, with scores of nodes
    Subtree(SpaceArguments),
    /// Undirected cycles through some vertices, with scores of their edges
    Cycle(SpaceArguments),
    /// Partitions of a set, with scores of pairs in one block
    Partition(SpaceArguments),
    /// A chain of Fu, Cunningham & Lapata (2022), Table 2: factored transitions, scores with a range of 10
    RdpChain {
        #[arg(long, default_value_t = 2000)]
        states: usize,
        /// Positions of the sequence
        #[arg(long, default_value_t = 10)]
        steps: usize,
        /// Dimension of the embeddings
        #[arg(long, default_value_t = 50)]
        rank: usize,
        /// How peaked the emissions are made
        #[arg(long, value_enum, default_value_t = SharpnessArgument::Dense)]
        sharpness: SharpnessArgument,
        #[arg(long, value_enum, default_value_t = Precision::F64)]
        precision: Precision,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum SharpnessArgument {
    Dense,
    Intermediate,
    LongTailed,
}

/// A random model on a combinatorial space.
#[derive(Args, Debug)]
pub struct SpaceArguments {
    /// Labels, items, nodes, vertices or elements
    #[arg(long, default_value_t = 12)]
    pub size: usize,
    /// unary, pairwise (hypercube); position, precedence, kendall, cayley, hamming, footrule, spearman
    /// (permutation); unary (subtree); links (cycle, partition); the first by default
    #[arg(long, default_value = "")]
    pub scores: String,
    /// Standard deviation of the scores, or how fast weights fall off with the distance
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true)]
    pub strength: f64,
    /// Conditions on the structures, such as "before 0 3" or "not chosen 2"; see `zhat logz --help`
    #[arg(long, value_name = "CONDITION", value_delimiter = ',')]
    pub given: Vec<String>,
}

#[derive(Args, Debug)]
pub struct ChainArguments {
    #[arg(long, default_value_t = 100)]
    pub states: usize,
    /// Positions of each sequence
    #[arg(long, default_value_t = 20)]
    pub steps: usize,
    /// Sequences that share the parameters
    #[arg(long, default_value_t = 1)]
    pub batch: usize,
    /// Sequences of different lengths
    #[arg(long)]
    pub ragged: bool,
    /// One table, one for each step, or products of embeddings
    #[arg(long, value_enum, default_value_t = Form::Shared)]
    pub transitions: Form,
    /// Dimension of the embeddings of factored transitions
    #[arg(long, default_value_t = 8)]
    pub rank: usize,
    /// The same embeddings on the left and on the right
    #[arg(long)]
    pub tied: bool,
    /// Standard deviation of the scores
    #[arg(long, default_value_t = 1.0)]
    pub strength: f64,
    /// Fraction of forbidden states and transitions
    #[arg(long, default_value_t = 0.0)]
    pub zeros: f64,
    #[arg(long, value_enum, default_value_t = Precision::F64)]
    pub precision: Precision,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Form {
    Shared,
    PerStep,
    Factored,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Precision {
    F32,
    F64,
}

#[derive(Args, Debug)]
pub struct GridArguments {
    #[arg(long, default_value_t = 10)]
    pub rows: usize,
    #[arg(long, default_value_t = 10)]
    pub columns: usize,
    /// Join opposite sides
    #[arg(long)]
    pub torus: bool,
    /// Standard deviation of the couplings, or their value with --uniform
    #[arg(long, default_value_t = 0.5, allow_negative_numbers = true)]
    pub coupling: f64,
    /// Standard deviation of the fields
    #[arg(long, default_value_t = 0.1)]
    pub field: f64,
    /// All couplings alike
    #[arg(long)]
    pub uniform: bool,
}

pub fn parse_bytes(text: &str) -> Result<u64, String> {
    zhat::internal::units::parse_bytes(text)
        .ok_or_else(|| "expected a size such as 4GiB, 500MB or 1000000".into())
}

pub fn parse_duration(text: &str) -> Result<Duration, String> {
    zhat::internal::units::parse_duration(text)
        .ok_or_else(|| "expected a duration such as 60s, 5min or 300ms".into())
}
