//! The program `zhat-vae`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use burn_ndarray::NdArray;
use burn_tensor::backend::Backend;
use clap::{Args, Parser, Subcommand, ValueEnum};
use zhat::Run;
#[cfg(feature = "cuda")]
use zhat_vae::attempt::attempt;
use zhat_vae::checkpoint::{Checkpoint, Progress};
use zhat_vae::config::{EncoderKind, Inference, ModelConfig, TrainConfig};
use zhat_vae::evaluate::Model;
use zhat_vae::gpt2::{Gpt2, Tokenizer, Weights};
use zhat_vae::parameters::Parameters;
use zhat_vae::posterior::{Engine, Sums};
use zhat_vae::text::{Corpus, Lines, Vocabulary};
use zhat_vae::train::{Limits, Outputs, Trainer, beginning, initial};
use zhat_vae::{encoder, repro, selftest, uses};

/// Text autoencoders with thousands of latent states, trained through randomized dynamic programming.
#[derive(Parser)]
#[command(version, about)]
struct Program {
    #[command(subcommand)]
    command: Command,
    /// Where tensors are.
    #[arg(long, value_enum, default_value = "cpu", global = true)]
    device: Device,
    /// Threads of the CPU for sums over paths; all by default.
    #[arg(long, global = true)]
    threads: Option<std::num::NonZeroUsize>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Device {
    /// The processor.
    Cpu,
    /// An NVIDIA GPU.
    Cuda,
}

#[derive(Subcommand)]
enum Command {
    #[command(flatten)]
    Model(ModelCommand),
    /// Compares sums over paths on the device with the library's.
    #[command(hide = true)]
    Selftest {
        /// In double precision only.
        #[arg(long)]
        double: bool,
    },
}

#[derive(Subcommand)]
enum ModelCommand {
    /// Trains a model on a text with one sentence per line.
    Train(Box<TrainArguments>),
    /// Prints the negative log-likelihood of a text, by importance sampling.
    Eval(EvalArguments),
    /// Writes the inference network's chains of the sentences of a text, as a .zhat file for every query of zhat.
    Posterior {
        #[command(flatten)]
        model: ModelFiles,
        /// One sentence per line. Lines without words have no chain.
        text: PathBuf,
        /// The file to write, NAME.zhat.
        #[arg(short, long)]
        output: PathBuf,
        /// Only the first sentences.
        #[arg(long, value_parser = at_least_one)]
        first: Option<usize>,
    },
    /// Prints the likeliest state of every word, one line per line of the text.
    Tag {
        #[command(flatten)]
        model: ModelFiles,
        /// One sentence per line.
        text: PathBuf,
        /// Prints this many of the commonest words of each state instead.
        #[arg(long, value_parser = at_least_one)]
        words: Option<usize>,
    },
    /// Prints new sentences.
    Sample {
        #[command(flatten)]
        model: ModelFiles,
        /// Number of sentences.
        #[arg(short = 'n', long, default_value_t = 10, value_parser = at_least_one)]
        count: usize,
        /// Prints each word, or each piece with GPT-2, with its state.
        #[arg(long)]
        states: bool,
        /// Seed.
        #[arg(long, default_value_t = 0)]
        seed: u64,
    },
    /// Reproduces a table or figure of Fu, Cunningham and Lapata (2022): rdp-table5, rdp-fig2.
    Repro(ReproArguments),
}

/// The range of an option that counts something.
fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count) if count > 0 => Ok(count),
        _ => Err("expected a whole number of at least 1".to_owned()),
    }
}

fn real(text: &str, wanted: &str, fits: impl Fn(f64) -> bool) -> Result<f64, String> {
    match text.parse() {
        Ok(x) if f64::is_finite(x) && fits(x) => Ok(x),
        _ => Err(format!("expected {wanted}")),
    }
}

fn positive(text: &str) -> Result<f64, String> {
    real(text, "a positive number", |x| x > 0.0)
}

fn not_negative(text: &str) -> Result<f64, String> {
    real(text, "a number that is not negative", |x| x >= 0.0)
}

fn below_one(text: &str) -> Result<f64, String> {
    real(text, "a number from 0 up to but not including 1", |x| (0.0..1.0).contains(&x))
}

/// A trained model.
#[derive(Args)]
struct ModelFiles {
    /// The model.
    model: PathBuf,
    /// The folder of GPT-2's files, if it is not the one used in training.
    #[arg(long, value_name = "FOLDER")]
    gpt2: Option<PathBuf>,
}

#[derive(Args)]
struct TrainArguments {
    /// One sentence per line.
    text: PathBuf,
    /// The model to write. NAME.state beside it is the state of the run, for --resume.
    #[arg(short, long)]
    output: PathBuf,
    /// Validation sentences, on which the model is judged after every epoch; by default every twentieth sentence of the
    /// text, which is then not trained on.
    #[arg(long)]
    dev: Option<PathBuf>,
    /// Goes on from the state of an earlier run; settings are those of that run.
    #[arg(long)]
    resume: bool,
    /// Number of latent states, N.
    #[arg(long, default_value_t = 100)]
    states: usize,
    /// How sums over states are computed.
    #[arg(long, value_enum, default_value = "full")]
    method: Inference,
    /// States kept with certainty, K1; a tenth of all by default.
    #[arg(long)]
    top: Option<usize>,
    /// States drawn from the others, K2; a tenth of all by default.
    #[arg(long)]
    sampled: Option<usize>,
    /// The network that reads sentences.
    #[arg(long, value_enum, default_value = "lstm")]
    encoder: EncoderKind,
    /// The folder of GPT-2's files, for --encoder gpt2; with --resume, if it is not the one used before.
    #[arg(long, value_name = "FOLDER")]
    gpt2: Option<PathBuf>,
    /// Units of the networks.
    #[arg(long, default_value_t = 256, value_parser = at_least_one)]
    units: usize,
    /// Size of state embeddings.
    #[arg(long, default_value_t = 64, value_parser = at_least_one)]
    state_size: usize,
    /// Words seen less often are unknown.
    #[arg(long, default_value_t = 2, value_parser = at_least_one)]
    min_count: usize,
    /// Longer sentences are cut.
    #[arg(long, default_value_t = 40, value_parser = at_least_one)]
    limit: usize,
    /// Epochs.
    #[arg(long, default_value_t = 20, value_parser = at_least_one)]
    epochs: usize,
    /// Ends after this many seconds of training.
    #[arg(long, value_parser = positive, allow_negative_numbers = true)]
    seconds: Option<f64>,
    /// Ends after this many epochs in which the objective of the validation sentences did not improve.
    #[arg(long, value_parser = at_least_one)]
    patience: Option<usize>,
    /// Sentences per step.
    #[arg(long, default_value_t = 64, value_parser = at_least_one)]
    batch: usize,
    /// Learning rate.
    #[arg(long, default_value_t = 1e-3, value_parser = positive, allow_negative_numbers = true)]
    rate: f64,
    /// Largest norm of the gradient.
    #[arg(long, default_value_t = 5.0, value_parser = positive, allow_negative_numbers = true)]
    clip: f64,
    /// Probability that the decoder does not see the previous word.
    #[arg(long, default_value_t = 0.3, value_parser = below_one, allow_negative_numbers = true)]
    word_dropout: f64,
    /// Entropy weight at the first step and after the warm-up.
    #[arg(long, value_delimiter = ',', value_name = "FIRST,LAST", default_values_t = [1.0, 1.0], value_parser = not_negative, allow_negative_numbers = true)]
    entropy_weight: Vec<f64>,
    /// Temperature of relaxed samples at the first step and after the warm-up.
    #[arg(long, value_delimiter = ',', value_name = "FIRST,LAST", default_values_t = [1.0, 0.5], value_parser = positive, allow_negative_numbers = true)]
    temperature: Vec<f64>,
    /// Steps of the warm-up.
    #[arg(long, default_value_t = 1000)]
    warm_up: usize,
    /// The decoder sees the sampled states themselves; gradients pass through their relaxation.
    #[arg(long)]
    straight_through: bool,
    /// Seed.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// A table of the objective and its parts, CSV.
    #[arg(long)]
    log: Option<PathBuf>,
    /// Seconds between two states of the run.
    #[arg(long, default_value_t = 60.0, value_parser = not_negative, allow_negative_numbers = true)]
    keep_every: f64,
    /// Prints no progress.
    #[arg(short, long)]
    quiet: bool,
}

#[derive(Args)]
struct EvalArguments {
    #[command(flatten)]
    model: ModelFiles,
    /// One sentence per line.
    text: PathBuf,
    /// Samples per sentence.
    #[arg(long, default_value_t = 100, value_parser = at_least_one)]
    samples: usize,
    /// How the samples are drawn.
    #[arg(long, value_enum, default_value = "full")]
    method: Inference,
    /// States kept with certainty; a tenth of all by default.
    #[arg(long)]
    top: Option<usize>,
    /// States drawn from the others; a tenth of all by default.
    #[arg(long)]
    sampled: Option<usize>,
    /// Only the first sentences.
    #[arg(long, value_parser = at_least_one)]
    first: Option<usize>,
    /// Seed.
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

#[derive(Args)]
struct ReproArguments {
    /// rdp-table5 or rdp-fig2.
    name: String,
    /// Small models and a small part of the text, for a CPU.
    #[arg(long)]
    quick: bool,
    /// Seconds of training per row and seed.
    #[arg(long, default_value_t = 120.0, value_parser = positive, allow_negative_numbers = true)]
    seconds: f64,
    /// Steps of training per row and seed, instead of seconds.
    #[arg(long, value_parser = at_least_one)]
    steps: Option<usize>,
    /// Only these rows of the table, such as FULL-100,RDP-2000.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Only this seed of each row of the table, from 0.
    #[arg(long)]
    seed_index: Option<u64>,
    /// Trains nothing: prints the table of the results file, for all settings that it has, and draws the picture.
    #[arg(long, conflicts_with_all = ["seconds", "steps", "only", "seed_index", "test", "samples", "seed"])]
    print: bool,
    /// Results, one line per row; rows that it has under the same settings are not run again. By default NAME.jsonl, or
    /// NAME-quick.jsonl with --quick.
    #[arg(long)]
    results: Option<PathBuf>,
    /// The folder of pictures.
    #[arg(short, long, default_value = ".")]
    output: PathBuf,
    /// Sentences of the test file.
    #[arg(long, default_value_t = 1000, value_parser = at_least_one)]
    test: usize,
    /// Samples per sentence.
    #[arg(long, default_value_t = 100, value_parser = at_least_one)]
    samples: usize,
    /// Seed.
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

impl ReproArguments {
    fn checked_name(&self) -> Result<&str> {
        match self.name.as_str() {
            name @ ("rdp-table5" | "rdp-fig2") => Ok(name),
            other => bail!("`{other}`: expected rdp-table5 or rdp-fig2"),
        }
    }

    /// The file of results.
    fn results(&self) -> PathBuf {
        match &self.results {
            Some(path) => path.clone(),
            None if self.quick => format!("{}-quick.jsonl", self.name).into(),
            None => format!("{}.jsonl", self.name).into(),
        }
    }
}

fn main() -> ExitCode {
    let program = Program::parse();
    match on_device(&program) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn on_device(program: &Program) -> Result<()> {
    if let Command::Model(ModelCommand::Repro(arguments)) = &program.command
        && arguments.print
    {
        return repro::print(arguments.checked_name()?, &arguments.results(), &arguments.output);
    }
    let mut run = Run::default();
    if let Some(threads) = program.threads {
        run = run.with_threads(threads.get());
    }
    match (program.device, &program.command) {
        (Device::Cpu, Command::Selftest { double: true }) => {
            selftest::run::<NdArray<f64>, NdArray<f64>>("f64", &Default::default(), 1e-10, &run)
        }
        (Device::Cpu, Command::Selftest { double: false }) => {
            let single =
                selftest::run::<burn_flex::Flex, NdArray<f32>>("f32", &Default::default(), 1e-5, &run);
            // burn has one precision per kind of device and process.
            let mut other = std::process::Command::new(std::env::current_exe()?);
            let double =
                other.args(["selftest", "--double"]).status().context("cannot run the second comparison")?;
            single?;
            if !double.success() {
                bail!("the comparison in double precision failed");
            }
            Ok(())
        }
        (Device::Cpu, Command::Model(command)) => {
            perform::<burn_flex::Flex>(command, Engine::Library, &Default::default(), &run)
        }
        (Device::Cuda, command) => on_gpu(command, &run),
    }
}

#[cfg(feature = "cuda")]
fn on_gpu(command: &Command, run: &Run) -> Result<()> {
    type Gpu = burn_cuda::Cuda<f32, i32>;
    let device = burn_cuda::CudaDevice::default();
    // Without a driver, the first use of the device is a panic.
    let first = device.clone();
    let sum = attempt(move || {
        let sum = burn_tensor::Tensor::<Gpu, 1>::ones([2], &first).sum().into_data();
        sum.iter::<f32>().next()
    });
    match sum {
        Ok(Some(2.0)) => {}
        Ok(Some(found)) => bail!("--device cuda: the GPU computes 1 + 1 = {found}; it cannot be used"),
        Ok(None) => bail!("--device cuda: the GPU returns no numbers; it cannot be used"),
        Err(error) => bail!(
            "--device cuda: the NVIDIA GPU, its driver or the NVRTC library cannot be used; --device cpu needs none of \
             them. The back end says: {error}"
        ),
    }
    match command {
        Command::Model(command) => perform::<Gpu>(command, Engine::Device, &device, run),
        // Products of f32 matrices have factors of 11 bits; those of f64 have all.
        Command::Selftest { .. } => {
            let double = selftest::run::<burn_cuda::Cuda<f64, i32>, NdArray<f64>>("f64", &device, 1e-10, run);
            selftest::run::<Gpu, burn_flex::Flex>("f32 with factors of 11 bits", &device, 1e-2, run)
                .and(double)
        }
    }
}

#[cfg(not(feature = "cuda"))]
fn on_gpu(_: &Command, _: &Run) -> Result<()> {
    bail!("--device cuda: this program was built without it; build it with `--features cuda`")
}

fn perform<I: Backend>(command: &ModelCommand, engine: Engine, device: &I::Device, run: &Run) -> Result<()> {
    match command {
        ModelCommand::Train(arguments) => train::<I>(arguments, engine, device, run),
        ModelCommand::Eval(arguments) => eval::<I>(arguments, engine, device, run),
        ModelCommand::Posterior { model, text, output, first } => {
            let used = Used::<I>::read(model, engine, device)?;
            let lines = used.lines(text)?;
            let without = lines.total - lines.sentences.len();
            if without > 0 {
                eprintln!("{}: lines without words, which have no chain: {without}", text.display());
            }
            let corpus = lines.corpus(&used.vocabulary).first(first.unwrap_or(usize::MAX));
            let chain = uses::posterior(&used.model, &corpus, run)?;
            Ok(zhat::io::write_model(&chain.into(), output)?)
        }
        ModelCommand::Tag { model, text, words } => {
            let used = Used::<I>::read(model, engine, device)?;
            let lines = used.lines(text)?;
            let corpus = lines.corpus(&used.vocabulary);
            let paths = uses::tag(&used.model, &corpus, run)?;
            match words {
                Some(most) => {
                    for (state, count, words) in uses::describe(&paths, &corpus, &used.vocabulary, *most) {
                        println!("{state}\t{count}\t{}", words.join(" "));
                    }
                }
                None => {
                    // A line without words stays empty.
                    let mut tagged = vec![String::new(); lines.total];
                    for ((path, sentence), &place) in paths.iter().zip(&lines.sentences).zip(&lines.places) {
                        let pairs = sentence.iter().zip(path);
                        let pairs: Vec<String> =
                            pairs.map(|(word, state)| format!("{word}/{state}")).collect();
                        tagged[place] = pairs.join(" ");
                    }
                    tagged.iter().for_each(|line| println!("{line}"));
                }
            }
            Ok(())
        }
        ModelCommand::Sample { model, count, states, seed } => {
            let used = Used::<I>::read(model, engine, device)?;
            for sentence in uses::generate(&used.model, *count, used.limit, *seed) {
                let words: Vec<String> = sentence
                    .iter()
                    .map(|&(word, state)| {
                        let word = &used.vocabulary.words()[word as usize];
                        if *states { format!("{word}/{state}") } else { word.clone() }
                    })
                    .collect();
                match &used.tokenizer {
                    Some(tokenizer) if !states => println!("{}", tokenizer.join(words)?),
                    _ => println!("{}", words.join(" ")),
                }
            }
            Ok(())
        }
        ModelCommand::Repro(arguments) => reproduce::<I>(arguments, engine, device, run),
    }
}

/// A model read from a file, with what is needed to read texts.
struct Used<B: Backend> {
    model: Model<B>,
    vocabulary: Vocabulary,
    tokenizer: Option<Tokenizer>,
    limit: usize,
}

impl<B: Backend> Used<B> {
    fn read(files: &ModelFiles, engine: Engine, device: &B::Device) -> Result<Self> {
        let Checkpoint { mut progress, parameters, .. } = Checkpoint::read(&files.model)?;
        move_gpt2(&mut progress.model, files.gpt2.as_deref())?;
        let (tokenizer, weights) = trained_with(&progress)?;
        let wanted = initial(&progress.model, progress.words.len(), weights.as_ref(), 0);
        zhat_vae::parameters::require_same(&parameters, &wanted)?;
        let model = Model {
            config: progress.model,
            parameters: Parameters::from_numbers(&parameters, device),
            gpt2: weights.map(|weights| Gpt2::new(&weights, device)),
            engine,
            device: device.clone(),
        };
        Ok(Used { model, vocabulary: Vocabulary::new(progress.words), tokenizer, limit: progress.limit })
    }

    fn lines(&self, path: &Path) -> Result<Lines> {
        read_lines(path, self.limit, self.tokenizer.as_ref())
    }

    fn corpus(&self, path: &Path) -> Result<Corpus> {
        Ok(self.lines(path)?.corpus(&self.vocabulary))
    }
}

fn read_lines(path: &Path, limit: usize, tokenizer: Option<&Tokenizer>) -> Result<Lines> {
    let lines = Lines::read(path, limit, tokenizer)?;
    lines.report(path, limit);
    Ok(lines)
}

/// A path that is valid in every working directory.
fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("cannot find {}", path.display()))
}

/// Replaces the folder from which a trained model reads GPT-2.
fn move_gpt2(config: &mut ModelConfig, folder: Option<&Path>) -> Result<()> {
    let Some(folder) = folder else { return Ok(()) };
    if config.encoder != EncoderKind::Gpt2 {
        bail!("--gpt2 {}: the encoder of this model is not GPT-2", folder.display());
    }
    config.gpt2 = Some(absolute(folder)?);
    Ok(())
}

/// The GPT-2 with which a model was trained.
fn trained_with(progress: &Progress) -> Result<(Option<Tokenizer>, Option<Weights>)> {
    let found = pretrained(&progress.model)
        .context("the model needs the GPT-2 it was trained with; --gpt2 FOLDER names its folder")?;
    progress.require_gpt2(found.1.as_ref())?;
    Ok(found)
}

fn pretrained(config: &ModelConfig) -> Result<(Option<Tokenizer>, Option<Weights>)> {
    let (EncoderKind::Gpt2, Some(folder)) = (config.encoder, &config.gpt2) else { return Ok((None, None)) };
    let tokenizer = Tokenizer::read(folder)?;
    let weights = Weights::read(folder, &tokenizer)?;
    Ok((Some(tokenizer), Some(weights)))
}

/// What the model calls a word.
fn unit(tokenizer: Option<&Tokenizer>) -> &'static str {
    if tokenizer.is_some() { "piece" } else { "word" }
}

/// K1 and K2: a tenth of the states each by default.
fn kept(states: usize, top: Option<usize>, sampled: Option<usize>) -> (usize, usize) {
    let tenth = (states / 10).max(1);
    (top.unwrap_or(tenth), sampled.unwrap_or(tenth))
}

fn state_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".state");
    name.into()
}

fn train<I: Backend>(
    arguments: &TrainArguments,
    engine: Engine,
    device: &I::Device,
    run: &Run,
) -> Result<()> {
    let mut old = arguments.resume.then(|| Checkpoint::read(&state_of(&arguments.output))).transpose()?;
    if let Some(old) = &mut old {
        move_gpt2(&mut old.progress.model, arguments.gpt2.as_deref())?;
    }
    let model = match &old {
        Some(old) => old.progress.model.clone(),
        None => ModelConfig {
            states: arguments.states,
            units: arguments.units,
            state_size: arguments.state_size,
            encoder: arguments.encoder,
            gpt2: arguments.gpt2.as_deref().map(absolute).transpose()?,
        },
    };
    let (top, sampled) = kept(arguments.states, arguments.top, arguments.sampled);
    let [weight, last_weight] = arguments.entropy_weight[..] else {
        bail!("--entropy-weight: expected two numbers, FIRST,LAST")
    };
    let [hot, cold] = arguments.temperature[..] else {
        bail!("--temperature: expected two numbers, FIRST,LAST")
    };
    let settings = TrainConfig {
        inference: arguments.method,
        top,
        sampled,
        batch: arguments.batch,
        rate: arguments.rate,
        clip: arguments.clip,
        word_dropout: arguments.word_dropout,
        entropy_weight: (weight, last_weight),
        temperature: (hot, cold),
        warm_up: arguments.warm_up,
        straight_through: arguments.straight_through,
        seed: arguments.seed,
    };
    if old.is_none() {
        settings.check(&model)?;
    }
    let (tokenizer, weights) = match &old {
        Some(old) => trained_with(&old.progress)?,
        None => pretrained(&model)?,
    };
    let limit = old.as_ref().map_or(arguments.limit, |old| old.progress.limit);
    let longest = weights.as_ref().map_or(encoder::longest(model.encoder), Weights::positions);
    let unit = unit(tokenizer.as_ref());
    if limit >= longest {
        bail!("--limit {limit}: expected 1 to {} {unit}s for this encoder", longest - 1);
    }
    let lines = read_lines(&arguments.text, limit, tokenizer.as_ref())?;
    let vocabulary = match &old {
        Some(old) => Vocabulary::new(old.progress.words.clone()),
        None => Vocabulary::count(lines.sentences.iter(), arguments.min_count),
    };
    let all = lines.corpus(&vocabulary);
    let (dev, corpus) = match &arguments.dev {
        Some(path) => (read_lines(path, limit, tokenizer.as_ref())?.corpus(&vocabulary), all),
        None if all.sentences.len() < 40 => (all.clone(), all),
        None => all.split(20),
    };
    let checkpoint = match old {
        Some(old) => old,
        None => beginning(&model, &settings, vocabulary.words(), limit, &corpus, weights.as_ref()),
    };
    let mut trainer =
        Trainer::<I>::new(&corpus, &dev, checkpoint, weights.as_ref(), engine, device.clone(), run.clone())?;
    if !arguments.quiet {
        eprintln!(
            "{} sentences, {} {unit}s, {} known {unit}s, {} numbers to learn",
            corpus.sentences.len(),
            corpus.tokens(),
            vocabulary.len(),
            trainer.parameters().size()
        );
    }
    let limits = Limits {
        epochs: Some(arguments.epochs),
        seconds: arguments.seconds,
        patience: arguments.patience,
        ..Limits::default()
    };
    let outputs = Outputs {
        model: Some(arguments.output.clone()),
        state: Some(state_of(&arguments.output)),
        log: arguments.log.clone(),
        keep_every: arguments.keep_every,
        quiet: arguments.quiet,
        remember: false,
    };
    trainer.train(&limits, &outputs)?;
    if let Some((best, step)) = trainer.progress.best {
        println!("best bound of the validation sentences: {best:.3} per sentence, at step {step}");
    }
    Ok(())
}

fn eval<I: Backend>(arguments: &EvalArguments, engine: Engine, device: &I::Device, run: &Run) -> Result<()> {
    let used = Used::<I>::read(&arguments.model, engine, device)?;
    let mut corpus = used.corpus(&arguments.text)?;
    if let Some(first) = arguments.first {
        corpus = corpus.first(first);
    }
    let (top, sampled) = kept(used.model.config.states, arguments.top, arguments.sampled);
    let config = TrainConfig { inference: arguments.method, top, sampled, ..TrainConfig::default() };
    config.check(&used.model.config)?;
    if arguments.method == Inference::Top {
        eprintln!(
            "warning: with --method top, states left out have probability 0, so the estimate is biased"
        );
    }
    let run = run.clone().with_seed(arguments.seed);
    let found = used.model.likelihood(&corpus, &Sums::from(&config), arguments.samples, &run)?;
    println!("negative log-likelihood   {:.4} nats per sentence", found.nll);
    println!("  error from samples      {:.4}", found.sampling_error);
    println!("  error from sentences    {:.4}", found.text_error);
    println!("  too large by about      {:.4}", found.bias);
    let unit = unit(used.tokenizer.as_ref());
    println!("perplexity                {:.3} per {unit}", found.perplexity);
    println!("{:<25} {}, {}", format!("sentences, {unit}s"), found.sentences, found.words);
    Ok(())
}

fn reproduce<I: Backend>(
    arguments: &ReproArguments,
    engine: Engine,
    device: &I::Device,
    run: &Run,
) -> Result<()> {
    let figure = arguments.checked_name()? == "rdp-fig2";
    if figure && !arguments.only.is_empty() {
        bail!("--only: rdp-fig2 has no rows to choose from; the option belongs to rdp-table5");
    }
    if figure && arguments.seed_index.is_some() {
        bail!("--seed-index: rdp-fig2 has one seed per curve; the option belongs to rdp-table5");
    }
    let data = match std::env::var_os("ZHAT_DATA") {
        Some(folder) => Some(PathBuf::from(folder).join("data/coco")),
        None if arguments.quick => {
            eprintln!("ZHAT_DATA is not set: the sentences are those of a small grammar");
            None
        }
        None => {
            bail!("set ZHAT_DATA to the folder of benchmark data; {} reads data/coco in it", arguments.name)
        }
    };
    let results = arguments.results();
    let setting = repro::Setting {
        data,
        quick: arguments.quick,
        seconds: arguments.seconds,
        steps: arguments.steps,
        only: arguments.only.clone(),
        seed_index: arguments.seed_index,
        results: &results,
        folder: &arguments.output,
        test: if arguments.quick { arguments.test.min(50) } else { arguments.test },
        samples: if arguments.quick { arguments.samples.min(10) } else { arguments.samples },
        seed: arguments.seed,
        run: run.clone(),
    };
    if figure {
        return repro::figure2::<I>(&setting, engine, device);
    }
    repro::table5::<I>(&setting, engine, device).map(|_| ())
}
