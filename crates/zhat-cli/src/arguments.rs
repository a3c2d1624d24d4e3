//! Definition of the command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use zhat::catalogue;

use crate::hmm_arguments::{HmmArguments, KindArgument};
use crate::lm_arguments::LmArguments;
use crate::network;
use crate::part_arguments::{MergeArguments, PartArguments};
use crate::structured_arguments::StructuredArguments;
use crate::tag_arguments::TagArguments;
use crate::tree_arguments::{GrammarArguments, HypertreeArguments, TreeFormArgument};

/// Partition functions of structured probabilistic models: log Z, marginals, samples and gradients with
/// stated guarantees.
#[derive(Parser, Debug)]
#[command(name = "zhat", version, max_term_width = 110, after_help = AFTER_HELP)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

const AFTER_HELP: &str = "\
Exit status: 0 success; 1 no result (zero partition, over budget); 2 invalid command line or input;
130 SIGINT (Ctrl-C), 143 SIGTERM, 129 SIGHUP, each with the result so far if there is one.
Environment: ZHAT_SIMD=portable|avx2|avx512 selects the vector instructions.
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
    /// Entropy of the model
    Entropy(PlainQueryArguments),
    /// The most probable state, or the k best
    #[command(visible_alias = "mpe")]
    Map(MapArguments),
    /// Samples from the model, as CSV or JSON lines
    Sample(SampleArguments),
    /// KL divergence KL(p ‖ q) of two models of sequences or trees
    Kl(DivergenceArguments),
    /// Cross-entropy −Σ p log q of two models of sequences or trees
    CrossEntropy(DivergenceArguments),
    /// Expectation of an additive score under a model of sequences or trees
    Expectation(ExpectationArguments),
    /// Does a part of the work of a query, to be merged with other parts; or prints the commands for all parts
    Part(PartArguments),
    /// The answer of a query from its parts
    Merge(MergeArguments),
    /// Fits a Markov random field to a table of categories, or a hidden Markov model to sequences
    Fit(Box<FitArguments>),
    /// Log-likelihood of the rows of a table under a model, or of sequences under a hidden Markov model
    Score(ScoreArguments),
    /// Replaces missing values of a table by the most probable ones given the rest of the row
    Impute(ImputeArguments),
    /// Language models: train, evaluate, sample, inspect embeddings
    Lm(LmArguments),
    /// Structured predictors: label sets, rankings, hierarchies and partitions
    Structured(StructuredArguments),
    /// Taggers: one tag per word, learned from tagged files
    Tag(TagArguments),
    /// Generates random models
    Generate(GenerateArguments),
    /// Converts a model between formats
    Convert(ConvertArguments),
    /// A short tour: a model, log Z by several methods, a picture
    Demo(DemoArguments),
    /// Reproduces tables and figures of the papers; without a name, lists them
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
        /// Write the pages of the program and of every command to this folder
        #[arg(long, value_name = "FOLDER", conflicts_with = "command")]
        folder: Option<PathBuf>,
        /// Print the reference of all commands and options as one Markdown page
        #[arg(long, conflicts_with_all = ["command", "folder"])]
        markdown: bool,
    },
}

/// Which model, given what.
#[derive(Args, Debug)]
pub struct ModelArguments {
    /// The model: a .uai, .bif, .xmlbif, .net or .zhat file or a text grammar, plain or compressed (.gz, .zst), or - for stdin
    pub model: PathBuf,
    /// The data of a model that needs some, plain or compressed, or - for stdin. For a grammar: one sentence
    /// per line, words separated by white space. For a hidden Markov model: a table of observations
    #[arg(long, value_name = "FILE")]
    pub input: Option<PathBuf>,
    /// Evidence file in the UAI format
    #[arg(long, value_name = "FILE")]
    pub evidence: Option<PathBuf>,
    /// Evidence. Variables by name or number: rain=yes,x3=1. Sequences: 0:12=3 is state 3 at position 12 of
    /// sequence 0. Sets of states: sky=grey|dark. Likelihoods, one weight per state: rain=0.8:0.2.
    /// Combinatorial spaces: [not] chosen I, at ITEM POSITION, before I J, linked I J, or size LEAST MOST
    #[arg(long, value_name = "NAME=STATE", value_delimiter = ',')]
    pub given: Vec<String>,
}

/// How to run.
#[derive(Args, Debug)]
pub struct RunArguments {
    /// The method: a name; a kind of guarantee (exact, bounds, unbiased) for the strongest of at least that
    /// kind; or auto for the strongest guarantee that fits the budget
    #[arg(long, default_value = "auto", value_parser = PossibleValuesParser::new(catalogue::method_names()))]
    pub method: String,
    /// An option of the method, such as samples=1000000; may be repeated. `zhat methods NAME` lists the
    /// options
    #[arg(long, value_name = "OPTION=VALUE", value_delimiter = ',')]
    pub set: Vec<String>,
    #[command(flatten)]
    pub budget: BudgetArguments,
}

/// What the work may take, and how it is told of.
#[derive(Args, Debug)]
pub struct BudgetArguments {
    /// Random seed; the same seed gives the same result
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Number of threads, at least 1 [default: all processors]; results do not depend on it
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Option<u16>,
    /// Memory budget, such as 4GiB [default: 80% of the free memory]; a query that needs more is refused
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub memory: Option<u64>,
    /// Time budget, such as 300ms, 60s or 5min [default: none; auto plans for 10 minutes]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub time: Option<Duration>,
    /// Print JSON instead of text: one object, or one per line for samples
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
    /// Print the result in a format of other tools; factor graphs only
    #[arg(long, conflicts_with = "json")]
    pub format: Option<ResultFormat>,
}

#[derive(Args, Debug)]
pub struct LogPartitionArguments {
    #[command(flatten)]
    pub query: QueryArguments,
    /// With --method anytime-bounds: stop when the interval is this narrow, in nats; each step is logged to
    /// stderr
    #[arg(long, value_name = "NATS")]
    pub gap: Option<f64>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ResultFormat {
    /// The result files of the UAI competitions: PR (log10 Z), MAR or MAP
    Uai,
}

#[derive(Args, Debug)]
pub struct MarginalsArguments {
    #[command(flatten)]
    pub query: QueryArguments,
    /// Joint probabilities of the variables of each factor; an observed variable is removed from the scopes
    /// and has its own factor
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
    /// Number of best states to find, best first [default: 1]
    #[arg(short = 'k', long, value_name = "K", conflicts_with = "format")]
    pub best: Option<usize>,
    /// Print trees in this form; all but the indented one print nothing else [default: indented for trees
    /// with symbols]
    #[arg(long, value_enum, value_name = "FORM", conflicts_with_all = ["json", "format"])]
    pub trees: Option<TreeFormArgument>,
}

#[derive(Args, Debug)]
pub struct SampleArguments {
    #[command(flatten)]
    pub plain: PlainQueryArguments,
    /// Number of samples
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1)]
    pub count: usize,
    /// Length of the sequences drawn from a hidden Markov model, without --input [default: 100]
    #[arg(long, value_name = "N")]
    pub length: Option<usize>,
    /// Print trees in this form instead of CSV; all but the indented one print nothing else
    #[arg(long, value_enum, value_name = "FORM", conflicts_with = "json")]
    pub trees: Option<TreeFormArgument>,
}

#[derive(Args, Debug)]
pub struct DivergenceArguments {
    /// The model p, a .zhat file or a text grammar
    pub p: PathBuf,
    /// The model q, of the same kind and shape
    pub q: PathBuf,
    /// The data of both models, if they need some: for grammars, one sentence per line
    #[arg(long, value_name = "FILE")]
    pub input: Option<PathBuf>,
    #[command(flatten)]
    pub run: RunArguments,
}

#[derive(Args, Debug)]
pub struct ExpectationArguments {
    /// The model, a .zhat file or a text grammar
    pub model: PathBuf,
    /// A model of the same kind and shape, with the scores to take the expectation of
    pub scores: PathBuf,
    /// The data of both models, if they need some: for grammars, one sentence per line
    #[arg(long, value_name = "FILE")]
    pub input: Option<PathBuf>,
    #[command(flatten)]
    pub run: RunArguments,
}

/// How a table is read.
#[derive(Args, Debug)]
pub struct TableArguments {
    /// The table: comma-separated values with a header, plain or compressed (.gz, .zst), or - for stdin
    pub data: PathBuf,
    #[command(flatten)]
    pub format: FormatArguments,
}

/// The format of a table.
#[derive(Args, Debug)]
pub struct FormatArguments {
    /// The first row is not a header; the columns are named x0, x1, …
    #[arg(long)]
    pub no_header: bool,
    /// Delimiter, an ASCII character [default: detected from the first row]
    #[arg(long, value_name = "CHARACTER")]
    pub delimiter: Option<char>,
    /// Character encoding; with utf-8, other bytes are an error
    #[arg(long, value_enum, default_value_t = EncodingArgument::Utf8)]
    pub encoding: EncodingArgument,
    /// Treatment of rows with missing values
    #[arg(long, value_enum, default_value_t = MissingArgument::Drop)]
    pub missing: MissingArgument,
    /// A value that marks a missing one, unless it is quoted; may be repeated [default: empty, ?, NA, NaN,
    /// nan, null]
    #[arg(long, value_name = "VALUE")]
    pub marker: Vec<String>,
    /// Columns to ignore
    #[arg(long, value_name = "COLUMN", value_delimiter = ',')]
    pub ignore: Vec<String>,
    /// Maximum number of distinct values of a column; a column with more is an error
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub most_states: usize,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum MissingArgument {
    /// Drop them, and report how many
    Drop,
    /// Report an error
    Refuse,
    /// Treat a missing value as a state of its column, named (missing)
    State,
    /// Sum over missing values: fit them by expectation-maximisation, score the values that are present
    #[value(alias = "em")]
    Marginal,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum EncodingArgument {
    /// UTF-8
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
    /// The kind of model
    #[arg(long, value_enum, default_value = "mrf")]
    pub kind: KindArgument,
    #[command(flatten)]
    pub hmm: HmmArguments,
    /// Interacting pairs: independent; chow-liu; chow-liu+M, the tree and the next M pairs by mutual
    /// information; complete; or a file with two columns per line. A .bif, .uai or .zhat file with a Bayesian
    /// network: its tables are fitted
    #[arg(long, default_value = network::DEFAULT_STRUCTURE)]
    pub structure: String,
    /// Parents of a column in a Bayesian network, as CHILD=PARENT,PARENT; may be repeated. Other columns have no
    /// parents
    #[arg(long, value_name = "CHILD=PARENTS")]
    pub parents: Vec<String>,
    /// Prior of a Bayesian network: a count added to every entry of its tables, above 0
    #[arg(long, value_name = "COUNT", conflicts_with = "equivalent_sample_size")]
    pub pseudo_count: Option<f64>,
    /// Prior of a Bayesian network: a count divided equally among the entries of each table (BDeu), above 0
    #[arg(long, value_name = "COUNT")]
    pub equivalent_sample_size: Option<f64>,
    /// Weight of the l1 penalty, at least 0
    #[arg(long, value_name = "WEIGHT", default_value_t = 0.0)]
    pub l1: f64,
    /// Weight of the l2 penalty, at least 0 [default: 1 / rows; 0 with --l1]
    #[arg(long, value_name = "WEIGHT")]
    pub l2: Option<f64>,
    /// Optimisation algorithm
    #[arg(long, value_enum, default_value_t = OptimizerArgument::Auto)]
    pub optimizer: OptimizerArgument,
    /// Initial parameters
    #[arg(long, value_enum, default_value_t = StartArgument::Forest)]
    pub start: StartArgument,
    /// Maximum number of iterations
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub iterations: usize,
    /// Stop when no component of the gradient is larger; for a hidden Markov model, when an iteration improves the
    /// objective by less, in nats per row; for a Bayesian network, when no probability changes by more
    #[arg(long, default_value_t = 1e-6)]
    pub tolerance: f64,
    /// Checkpoint file, written every few seconds; an existing one is resumed
    #[arg(long, value_name = "FILE")]
    pub checkpoint: Option<PathBuf>,
    /// The model file to write: .zhat or .uai, for a Bayesian network also .bif
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    #[command(flatten)]
    pub run: RunArguments,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum OptimizerArgument {
    /// L-BFGS if the objective is smooth and exact, otherwise FISTA; EM for a hidden Markov model or incomplete rows
    Auto,
    /// Limited-memory BFGS; neither with --l1 nor with a randomized method
    Lbfgs,
    /// Expectation-maximisation; with --kind hmm or --missing em
    Em,
    /// Accelerated proximal gradients
    Fista,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum StartArgument {
    /// Closed form of the maximum-mutual-information spanning forest
    Forest,
    /// All parameters 0
    Zero,
}

#[derive(Args, Debug)]
pub struct ScoreArguments {
    /// The model: a .zhat, .uai, .bif, .xmlbif or .net file
    pub model: PathBuf,
    /// The table: comma-separated values with a header, plain or compressed (.gz, .zst), or - for stdin
    #[arg(required_unless_present = "input")]
    pub data: Option<PathBuf>,
    /// The table, as an option
    #[arg(long, value_name = "FILE", conflicts_with = "data")]
    pub input: Option<PathBuf>,
    #[command(flatten)]
    pub format: FormatArguments,
    /// Print the line number and the log-likelihood of every row as CSV, or of every sequence for a hidden Markov
    /// model, and the summary to stderr; with --json, add them to the object
    #[arg(long)]
    pub rows: bool,
    #[command(flatten)]
    pub run: RunArguments,
}

#[derive(Args, Debug)]
pub struct ImputeArguments {
    /// The model: a .zhat, .uai, .bif, .xmlbif or .net file
    pub model: PathBuf,
    #[command(flatten)]
    pub table: TableArguments,
    #[command(flatten)]
    pub run: RunArguments,
}

#[derive(Args, Debug)]
pub struct MethodsArguments {
    /// A method, such as elimination; without it, all methods
    pub name: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct InfoArguments {
    #[command(flatten)]
    pub model: ModelArguments,
    /// Memory budget, such as 4GiB [default: 80% of the free memory]; a query that needs more is refused
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
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
    /// The model to read; the format is detected from the content
    pub from: PathBuf,
    /// The file to write; the extension selects the format: .zhat, .uai, .bif, .xmlbif or .net, or .cfg for a
    /// grammar (- for UAI on stdout)
    pub to: PathBuf,
    /// The data of a model that needs some: for a grammar, one sentence per line. The model of these data is
    /// written
    #[arg(long, value_name = "FILE")]
    pub input: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct ReproArguments {
    /// The table or figure, such as lifted-fig5
    pub name: Option<String>,
    /// Number of independent runs of each estimator
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub runs: usize,
    /// Only the smaller models
    #[arg(long)]
    pub quick: bool,
    /// Seed of models and runs
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Number of threads, at least 1 [default: all processors]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Option<u16>,
    /// Output folder for pictures
    #[arg(short, long, value_name = "FOLDER", default_value = ".")]
    pub output: PathBuf,
    /// After --, further options for the program zhat-vae, which runs rdp-table5 and rdp-fig2: --device cuda
    /// --seconds 120
    #[arg(last = true, value_name = "OPTION")]
    pub further: Vec<String>,
}

#[derive(Args, Debug)]
pub struct DemoArguments {
    /// Output file of the picture, an SVG file
    #[arg(short, long, value_name = "FILE", default_value = "zhat-demo.svg")]
    pub output: PathBuf,
}

#[derive(Args, Debug)]
pub struct GenerateArguments {
    #[command(subcommand)]
    pub what: Generate,
    /// The file to write; the extension selects the format: .zhat, .uai, .bif, .xmlbif or .net, or .cfg for a
    /// grammar (- for UAI or the text of a grammar on stdout)
    #[arg(short, long, value_name = "FILE", global = true, default_value = "-")]
    pub output: PathBuf,
    /// Random seed; the same seed gives the same model
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
        /// Number of states of each variable
        #[arg(long, default_value_t = 3)]
        states: usize,
    },
    /// Random tree with normal log potentials
    Tree {
        /// Number of variables
        #[arg(long, default_value_t = 100)]
        variables: usize,
        /// Number of states of each variable
        #[arg(long, default_value_t = 3)]
        states: usize,
        /// Standard deviation of the log potentials
        #[arg(long, default_value_t = 1.0)]
        strength: f64,
    },
    /// Factors over random scopes with normal log potentials
    Random {
        /// Number of variables
        #[arg(long, default_value_t = 30)]
        variables: usize,
        /// Number of states of each variable
        #[arg(long, default_value_t = 2)]
        states: usize,
        /// Number of factors
        #[arg(long, default_value_t = 40)]
        factors: usize,
        /// Number of variables per factor
        #[arg(long, default_value_t = 3)]
        arity: usize,
        /// Standard deviation of the log potentials
        #[arg(long, default_value_t = 1.0)]
        strength: f64,
        /// Fraction of forbidden combinations, from 0 to 1
        #[arg(long, default_value_t = 0.0)]
        zeros: f64,
    },
    /// Random Bayesian network
    Bayes {
        /// Number of variables
        #[arg(long, default_value_t = 30)]
        variables: usize,
        /// Number of states of each variable
        #[arg(long, default_value_t = 2)]
        states: usize,
        /// Maximum number of parents
        #[arg(long, default_value_t = 3)]
        parents: usize,
        /// Fraction of deterministic table rows, from 0 to 1
        #[arg(long, default_value_t = 0.0)]
        deterministic: f64,
    },
    /// Chains with normal scores, such as hidden Markov models; write to a .zhat file with -o
    Chain(ChainArguments),
    /// Semi-Markov chains: states last for segments of several positions
    SemiMarkov {
        #[command(flatten)]
        chain: ChainArguments,
        /// Maximum segment length
        #[arg(long, default_value_t = 5)]
        longest: usize,
    },
    /// Sentences with scores of dependency arcs between their words; write to a .zhat file with -o
    Dependency {
        /// Number of words
        #[arg(long, default_value_t = 20)]
        words: usize,
        /// Number of sentences
        #[arg(long, default_value_t = 1)]
        batch: usize,
        /// Random lengths between 1 and --words; the first sentence always has --words
        #[arg(long)]
        ragged: bool,
        /// Number of labels of an arc; without it, arcs have no labels
        #[arg(long)]
        labels: Option<usize>,
        /// Admit all trees, not only projective ones
        #[arg(long)]
        any_tree: bool,
        /// Admit only trees in which exactly one word depends on the root
        #[arg(long)]
        single_root: bool,
        /// Standard deviation of the scores
        #[arg(long, default_value_t = 1.0)]
        strength: f64,
        /// Fraction of scores that are -inf; at least one tree remains
        #[arg(long, default_value_t = 0.0)]
        zeros: f64,
        /// Floating-point precision of the scores
        #[arg(long, value_enum, default_value_t = Precision::F64)]
        precision: Precision,
    },
    /// Sentences with scores of words, spans and rules of binary trees; write to a .zhat file with -o
    Hypertree(HypertreeArguments),
    /// A probabilistic context-free grammar as text
    Grammar(GrammarArguments),
    /// Variables with many states on a grid or random tree, with pairwise interactions; write to a .zhat file
    /// with -o
    Pairwise {
        /// Number of rows of the grid
        #[arg(long, default_value_t = 10)]
        rows: usize,
        /// Number of columns of the grid
        #[arg(long, default_value_t = 10)]
        columns: usize,
        /// A random tree of rows × columns variables instead of a grid
        #[arg(long)]
        tree: bool,
        /// Number of states of each variable
        #[arg(long, default_value_t = 100)]
        states: usize,
        /// Form of the interactions; per-step means one table per edge
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
        /// Floating-point precision of the scores
        #[arg(long, value_enum, default_value_t = Precision::F64)]
        precision: Precision,
    },
    /// A density of a standard family on a box, or a Gaussian mixture; write to a .zhat file with -o
    Continuous {
        /// Family of the density: gaussian, exponential, gamma, chi-squared, weibull, log-normal, pareto,
        /// beta, laplace, poisson, dirichlet, or mixture
        #[arg(long, default_value = "gaussian")]
        family: String,
        /// Parameters, such as shape,rate for gamma; for a mixture the number of components
        #[arg(long, value_delimiter = ',', allow_negative_numbers = true)]
        parameters: Vec<f64>,
        /// Lower end of the box [default: by family, so that little probability lies outside]
        #[arg(long, allow_negative_numbers = true)]
        low: Option<f64>,
        /// Upper end of the box [default: by family; infinite for poisson]
        #[arg(long, allow_negative_numbers = true)]
        high: Option<f64>,
    },
    /// A cyclic sequence model of order K with shared parameters; write to a .zhat file with -o
    SequenceMrf {
        /// Number of positions N
        #[arg(long, default_value_t = 1000)]
        length: usize,
        /// Number of states C
        #[arg(long, default_value_t = 10)]
        states: usize,
        /// Maximum distance K of interacting positions
        #[arg(long, default_value_t = 1)]
        context: usize,
        /// Dimension of embeddings [default: full matrices]
        #[arg(long)]
        rank: Option<usize>,
        /// Standard deviation of the state scores
        #[arg(long, default_value_t = 1.0)]
        strength: f64,
        /// Standard deviation of the interactions
        #[arg(long, default_value_t = 0.5)]
        coupling: f64,
    },
    /// Subsets of labels, with scores of labels or pairs; write to a .zhat file with -o
    Hypercube(SpaceArguments),
    /// Permutations, with scores of positions or precedences, or by the distance to one order
    Permutation(SpaceArguments),
    /// Rooted subtrees of a random tree, with scores of nodes
    Subtree(SpaceArguments),
    /// Undirected cycles, with scores of edges
    Cycle(SpaceArguments),
    /// Set partitions, with scores of pairs in the same block
    Partition(SpaceArguments),
    /// A chain of Fu, Cunningham & Lapata (2022), Table 2: factored transitions, scores with a range of 10
    RdpChain {
        /// Number of states
        #[arg(long, default_value_t = 2000)]
        states: usize,
        /// Number of positions
        #[arg(long, default_value_t = 10)]
        steps: usize,
        /// Dimension of the embeddings
        #[arg(long, default_value_t = 50)]
        rank: usize,
        /// Concentration of the emissions
        #[arg(long, value_enum, default_value_t = SharpnessArgument::Dense)]
        sharpness: SharpnessArgument,
        /// Floating-point precision of the scores
        #[arg(long, value_enum, default_value_t = Precision::F64)]
        precision: Precision,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum SharpnessArgument {
    /// Scores after 10 steps of gradient descent: many states matter
    Dense,
    /// After 30 steps
    Intermediate,
    /// After 50 steps: few states matter
    LongTailed,
}

/// A random model on a combinatorial space.
#[derive(Args, Debug)]
pub struct SpaceArguments {
    /// Number of labels, items, nodes, vertices or elements
    #[arg(long, default_value_t = 12)]
    pub size: usize,
    /// Form of the scores: unary, pairwise (hypercube); position, precedence, kendall, cayley, hamming,
    /// footrule, spearman (permutation); unary (subtree); links (cycle, partition) [default: the first]
    #[arg(long, default_value = "", hide_default_value = true)]
    pub scores: String,
    /// Standard deviation of the scores, or decay of the weights with the distance
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true)]
    pub strength: f64,
    /// Conditions on the structures, such as "before 0 3" or "not chosen 2"; see `zhat logz --help`
    #[arg(long, value_name = "CONDITION", value_delimiter = ',')]
    pub given: Vec<String>,
}

#[derive(Args, Debug)]
pub struct ChainArguments {
    /// Number of states
    #[arg(long, default_value_t = 100)]
    pub states: usize,
    /// Number of positions per sequence
    #[arg(long, default_value_t = 20)]
    pub steps: usize,
    /// Number of sequences
    #[arg(long, default_value_t = 1)]
    pub batch: usize,
    /// Sequences of different lengths
    #[arg(long)]
    pub ragged: bool,
    /// Form of the transitions
    #[arg(long, value_enum, default_value_t = Form::Shared)]
    pub transitions: Form,
    /// Dimension of the embeddings of factored transitions, rank of low-rank ones, transitions from each state
    /// of sparse ones, or states on each side of a band
    #[arg(long, default_value_t = 8)]
    pub rank: usize,
    /// Use the same embeddings on the left and on the right
    #[arg(long)]
    pub tied: bool,
    /// Standard deviation of the scores
    #[arg(long, default_value_t = 1.0)]
    pub strength: f64,
    /// Fraction of forbidden states and transitions, from 0 to 1
    #[arg(long, default_value_t = 0.0)]
    pub zeros: f64,
    /// Floating-point precision of the scores
    #[arg(long, value_enum, default_value_t = Precision::F64)]
    pub precision: Precision,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Form {
    /// One table
    Shared,
    /// One table per step
    PerStep,
    /// Products of embeddings
    Factored,
    /// Log factors of a matrix of low rank; for chains only
    LowRank,
    /// One table per sequence and step; for chains only
    PerSequence,
    /// A list of transitions from each state; for chains only
    Sparse,
    /// The same with scores for each step; for chains only
    SparsePerStep,
    /// Transitions to neighbouring states; for chains only
    Banded,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Precision {
    /// Single precision
    F32,
    /// Double precision
    F64,
}

#[derive(Args, Debug)]
pub struct GridArguments {
    /// Number of rows
    #[arg(long, default_value_t = 10)]
    pub rows: usize,
    /// Number of columns
    #[arg(long, default_value_t = 10)]
    pub columns: usize,
    /// Join opposite sides, so that the grid is a torus
    #[arg(long)]
    pub torus: bool,
    /// Standard deviation of the couplings, or their value with --uniform
    #[arg(long, default_value_t = 0.5, allow_negative_numbers = true)]
    pub coupling: f64,
    /// Standard deviation of the fields
    #[arg(long, default_value_t = 0.1)]
    pub field: f64,
    /// Give all couplings the value of --coupling
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
