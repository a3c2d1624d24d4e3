//! The program `zhat-vae`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use burn_ndarray::NdArray;
use burn_tensor::backend::Backend;
use clap::{Args, Parser, Subcommand, ValueEnum};
use zhat::Run;
#[cfg(feature = "cuda")]
use zhat_vae::attempt::attempt;
use zhat_vae::checkpoint::Checkpoint;
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
    /// Trains a model on a text with one sentence per line.
    Train(Box<TrainArguments>),
    /// Prints the negative log-likelihood of a text, by importance sampling.
    Eval(EvalArguments),
    /// Writes the inference network's chains of the sentences of a text, as a .zhat file for every query of zhat.
    Posterior {
        /// The model.
        model: PathBuf,
        /// One sentence per line.
        text: PathBuf,
        /// The file to write, NAME.zhat.
        #[arg(short, long)]
        output: PathBuf,
        /// Only the first sentences.
        #[arg(long)]
        first: Option<usize>,
    },
    /// Prints the likeliest state of every word.
    Tag {
        /// The model.
        model: PathBuf,
        /// One sentence per line.
        text: PathBuf,
        /// Prints instead the commonest words of each state.
        #[arg(long)]
        words: Option<usize>,
    },
    /// Prints new sentences.
    Sample {
        /// The model.
        model: PathBuf,
        /// How many.
        #[arg(short = 'n', long, default_value_t = 10)]
        count: usize,
        /// Prints the states too.
        #[arg(long)]
        states: bool,
        /// Seed.
        #[arg(long, default_value_t = 0)]
        seed: u64,
    },
    /// Reproduces a table or figure of Fu, Cunningham and Lapata (2022): rdp-table5, rdp-fig2.
    Repro(ReproArguments),
    /// Compares sums over paths on the device with the library's.
    #[command(hide = true)]
    Selftest,
}

#[derive(Args)]
struct TrainArguments {
    /// One sentence per line.
    text: PathBuf,
    /// The model to write. NAME.state beside it is the state of the run, for --resume.
    #[arg(short, long)]
    output: PathBuf,
    /// Sentences on which the model is judged after every epoch; a twentieth of the text by default.
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
    /// The folder of GPT-2's files, for --encoder gpt2.
    #[arg(long)]
    gpt2: Option<PathBuf>,
    /// Units of the networks.
    #[arg(long, default_value_t = 256)]
    units: usize,
    /// Size of state embeddings.
    #[arg(long, default_value_t = 64)]
    state_size: usize,
    /// Words seen less often are unknown.
    #[arg(long, default_value_t = 2)]
    min_count: usize,
    /// Longer sentences are cut.
    #[arg(long, default_value_t = 40)]
    limit: usize,
    /// Epochs.
    #[arg(long, default_value_t = 20)]
    epochs: usize,
    /// Ends after this many seconds of training.
    #[arg(long)]
    seconds: Option<f64>,
    /// Ends after this many epochs in which the objective of --dev did not improve.
    #[arg(long)]
    patience: Option<usize>,
    /// Sentences per step.
    #[arg(long, default_value_t = 64)]
    batch: usize,
    /// Learning rate.
    #[arg(long, default_value_t = 1e-3)]
    rate: f64,
    /// Largest norm of the gradient.
    #[arg(long, default_value_t = 5.0)]
    clip: f64,
    /// Probability that the decoder does not see the word before.
    #[arg(long, default_value_t = 0.3)]
    word_dropout: f64,
    /// Entropy weight at the first step and after the warm-up.
    #[arg(long, value_delimiter = ',', num_args = 2, default_values_t = [1.0, 1.0])]
    entropy_weight: Vec<f64>,
    /// Temperature of relaxed samples at the first step and after the warm-up.
    #[arg(long, value_delimiter = ',', num_args = 2, default_values_t = [1.0, 0.5])]
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
    #[arg(long, default_value_t = 60.0)]
    keep_every: f64,
    /// No progress.
    #[arg(short, long)]
    quiet: bool,
}

#[derive(Args)]
struct EvalArguments {
    /// The model.
    model: PathBuf,
    /// One sentence per line.
    text: PathBuf,
    /// Samples per sentence.
    #[arg(long, default_value_t = 100)]
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
    #[arg(long)]
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
    #[arg(long, default_value_t = 120.0)]
    seconds: f64,
    /// Steps of training per row and seed, instead of seconds.
    #[arg(long)]
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
    #[arg(long, default_value_t = 1000)]
    test: usize,
    /// Samples per sentence.
    #[arg(long, default_value_t = 100)]
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
    if let Command::Repro(arguments) = &program.command
        && arguments.print
    {
        return repro::print(arguments.checked_name()?, &arguments.results(), &arguments.output);
    }
    let mut run = Run::default();
    if let Some(threads) = program.threads {
        run = run.with_threads(threads.get());
    }
    match program.device {
        Device::Cpu if matches!(program.command, Command::Selftest) => {
            let single =
                selftest::run::<burn_flex::Flex, NdArray<f32>>("f32", &Default::default(), 1e-5, &run);
            single.and(selftest::run::<NdArray<f64>, NdArray<f64>>("f64", &Default::default(), 1e-10, &run))
        }
        Device::Cpu => {
            perform::<burn_flex::Flex>(&program.command, Engine::Library, &Default::default(), &run)
        }
        Device::Cuda => on_gpu(&program.command, &run),
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
        Ok(found) => bail!("--device cuda: the GPU does not add: 1 + 1 = {found:?}"),
        Err(error) => bail!(
            "--device cuda: the NVIDIA GPU, its driver or the NVRTC library cannot be used; --device cpu needs none of \
             them. The back end says: {error}"
        ),
    }
    if matches!(command, Command::Selftest) {
        // Products of f32 matrices have factors of 11 bits; those of f64 have all.
        let double = selftest::run::<burn_cuda::Cuda<f64, i32>, NdArray<f64>>("f64", &device, 1e-10, run);
        return selftest::run::<Gpu, burn_flex::Flex>("f32 with factors of 11 bits", &device, 1e-2, run)
            .and(double);
    }
    perform::<Gpu>(command, Engine::Device, &device, run)
}

#[cfg(not(feature = "cuda"))]
fn on_gpu(_: &Command, _: &Run) -> Result<()> {
    bail!("--device cuda: this program was built without it; build it with `--features cuda`")
}

fn perform<I: Backend>(command: &Command, engine: Engine, device: &I::Device, run: &Run) -> Result<()> {
    match command {
        Command::Train(arguments) => train::<I>(arguments, engine, device, run),
        Command::Eval(arguments) => eval::<I>(arguments, engine, device, run),
        Command::Posterior { model, text, output, first } => {
            let used = Used::<I>::read(model, engine, device)?;
            let corpus = used.corpus(text)?.first(first.unwrap_or(usize::MAX));
            if corpus.sentences.is_empty() {
                bail!("--first 0: expected at least 1");
            }
            let chain = uses::posterior(&used.model, &corpus, run)?;
            Ok(zhat::io::write_model(&chain.into(), output)?)
        }
        Command::Tag { model, text, words } => {
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
                    for (path, sentence) in paths.iter().zip(&lines.sentences) {
                        let pairs: Vec<String> = sentence
                            .iter()
                            .zip(path)
                            .map(|(word, state)| format!("{word}/{state}"))
                            .collect();
                        println!("{}", pairs.join(" "));
                    }
                }
            }
            Ok(())
        }
        Command::Sample { model, count, states, seed } => {
            let used = Used::<I>::read(model, engine, device)?;
            for sentence in uses::generate(&used.model, *count, used.limit, *seed) {
                let words: Vec<String> = sentence
                    .iter()
                    .map(|&(word, state)| {
                        let word = &used.vocabulary.words()[word as usize];
                        if *states { format!("{word}/{state}") } else { word.clone() }
                    })
                    .collect();
                println!("{}", words.join(" "));
            }
            Ok(())
        }
        Command::Repro(arguments) => reproduce::<I>(arguments, engine, device, run),
        Command::Selftest => bail!("the device of the comparison is not known"),
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
    fn read(path: &std::path::Path, engine: Engine, device: &B::Device) -> Result<Self> {
        let Checkpoint { progress, parameters, .. } = Checkpoint::read(path)?;
        let (tokenizer, weights) = pretrained(&progress.model)?;
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

    fn lines(&self, path: &std::path::Path) -> Result<Lines> {
        read_lines(path, self.limit, self.tokenizer.as_ref())
    }

    fn corpus(&self, path: &std::path::Path) -> Result<Corpus> {
        Ok(self.lines(path)?.corpus(&self.vocabulary))
    }
}

fn read_lines(path: &std::path::Path, limit: usize, tokenizer: Option<&Tokenizer>) -> Result<Lines> {
    let lines = Lines::read(path, limit, tokenizer)?;
    if lines.cut > 0 {
        eprintln!("{}: {} sentences were cut to {limit} words", path.display(), lines.cut);
    }
    Ok(lines)
}

fn pretrained(config: &ModelConfig) -> Result<(Option<Tokenizer>, Option<Weights>)> {
    let (EncoderKind::Gpt2, Some(folder)) = (config.encoder, &config.gpt2) else { return Ok((None, None)) };
    let tokenizer = Tokenizer::read(folder)?;
    let weights = Weights::read(folder, &tokenizer)?;
    Ok((Some(tokenizer), Some(weights)))
}

/// K1 and K2: a tenth of the states each by default.
fn kept(states: usize, top: Option<usize>, sampled: Option<usize>) -> (usize, usize) {
    let tenth = (states / 10).max(1);
    (top.unwrap_or(tenth), sampled.unwrap_or(tenth))
}

fn state_of(path: &std::path::Path) -> PathBuf {
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
    let old = arguments.resume.then(|| Checkpoint::read(&state_of(&arguments.output))).transpose()?;
    let model = match &old {
        Some(old) => old.progress.model.clone(),
        None => ModelConfig {
            states: arguments.states,
            units: arguments.units,
            state_size: arguments.state_size,
            encoder: arguments.encoder,
            gpt2: arguments.gpt2.clone(),
        },
    };
    let (top, sampled) = kept(arguments.states, arguments.top, arguments.sampled);
    let [weight, last_weight] = arguments.entropy_weight[..] else {
        bail!("--entropy-weight: expected two numbers")
    };
    let [hot, cold] = arguments.temperature[..] else { bail!("--temperature: expected two numbers") };
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
    let (tokenizer, weights) = pretrained(&model)?;
    let limit = old.as_ref().map_or(arguments.limit, |old| old.progress.limit);
    let longest = weights.as_ref().map_or(encoder::longest(model.encoder), Weights::positions);
    if limit == 0 || limit >= longest {
        bail!("--limit {limit}: expected 1 to {} words for this encoder", longest - 1);
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
            "{} sentences, {} words, {} known words, {} numbers to learn",
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
        println!("best bound of the sentences kept for testing: {best:.3} per sentence, at step {step}");
    }
    Ok(())
}

fn eval<I: Backend>(arguments: &EvalArguments, engine: Engine, device: &I::Device, run: &Run) -> Result<()> {
    let used = Used::<I>::read(&arguments.model, engine, device)?;
    let mut corpus = used.corpus(&arguments.text)?;
    if let Some(first) = arguments.first {
        corpus = corpus.first(first);
    }
    if arguments.samples == 0 {
        bail!("--samples 0: expected at least 1");
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
    println!("perplexity                {:.3} per word", found.perplexity);
    println!("sentences, words          {}, {}", found.sentences, found.words);
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
    let positive = [("--samples", arguments.samples), ("--test", arguments.test)];
    if let Some((name, _)) = positive.iter().find(|(_, value)| *value == 0) {
        bail!("{name} 0: expected at least 1");
    }
    if !(arguments.seconds > 0.0 && arguments.seconds.is_finite()) || arguments.steps == Some(0) {
        bail!("--seconds and --steps: expected positive numbers");
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
