//! Training.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use burn_autodiff::Autodiff;
use burn_tensor::backend::Backend;
use burn_tensor::{Int, Tensor, TensorData};
use zhat::Run;
use zhat::random::Streams;
use zhat_burn::on_device::FLOOR;

use crate::checkpoint::{Checkpoint, Progress};
use crate::config::{ModelConfig, TrainConfig};
use crate::decoder::{self, States, log_joint};
use crate::encoder::{self, Sentences};
use crate::gpt2::{Gpt2, Weights};
use crate::parameters::{Adam, Initial, Numbers, Parameters, require_moments, require_same};
use crate::posterior::{Engine, Sums, relax};
use crate::text::Corpus;

/// Steps between two lines of the log.
const INTERVAL: usize = 25;

/// The first values of all parameters.
pub fn initial(config: &ModelConfig, words: usize, gpt2: Option<&Weights>, seed: u64) -> Numbers {
    let mut initial = Initial::new(seed);
    encoder::add_parameters(&mut initial, config, words, gpt2.map_or(0, Weights::size));
    decoder::add_parameters(&mut initial, config, words);
    initial.finish()
}

/// The sentences of a batch as tensors.
pub fn sentences<B: Backend>(corpus: &Corpus, batch: &[usize], device: &B::Device) -> Sentences<B> {
    let steps = batch.first().map_or(0, |&i| corpus.sentences[i].len());
    let words: Vec<i64> =
        batch.iter().flat_map(|&i| corpus.sentences[i].iter().map(|&word| i64::from(word))).collect();
    let words = Tensor::<B, 2, Int>::from_data(TensorData::new(words, [batch.len(), steps]), device);
    let pieces =
        (!corpus.pieces.is_empty()).then(|| batch.iter().map(|&i| corpus.pieces[i].clone()).collect());
    Sentences { words, pieces }
}

/// A fingerprint of sentences.
pub fn fingerprint(corpus: &Corpus) -> u64 {
    let numbers = corpus.sentences.iter().flat_map(|s| s.iter().copied().chain([u32::MAX]));
    numbers.fold(0xcbf2_9ce4_8422_2325_u64, |hash, x| (hash ^ u64::from(x)).wrapping_mul(0x0100_0000_01b3))
}

/// When training ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// Epochs.
    pub epochs: Option<usize>,
    /// Seconds of training, those before a resumption included.
    pub seconds: Option<f64>,
    /// Steps.
    pub steps: Option<usize>,
    /// Epochs without a better objective of the validation sentences.
    pub patience: Option<usize>,
    /// The warm-up ends after this share of the run, instead of a number of steps.
    pub warm_up: Option<f64>,
}

impl Limits {
    /// How much of the run is done.
    fn done(&self, step: usize, seconds: f64, per_epoch: usize) -> f64 {
        let parts = [
            self.epochs.map(|n| step as f64 / (n * per_epoch).max(1) as f64),
            self.steps.map(|n| step as f64 / n.max(1) as f64),
            self.seconds.map(|limit| seconds / limit),
        ];
        parts.into_iter().flatten().fold(0.0, f64::max)
    }
}

/// Where a training run writes.
#[derive(Clone, Debug, Default)]
pub struct Outputs {
    /// The best model so far.
    pub model: Option<PathBuf>,
    /// The state of the run, from which it can be resumed.
    pub state: Option<PathBuf>,
    /// A table with a line for every 25 steps.
    pub log: Option<PathBuf>,
    /// Seconds between two states.
    pub keep_every: f64,
    /// Prints no progress.
    pub quiet: bool,
    /// Keeps the best parameters in memory, those after the last step included.
    pub remember: bool,
}

/// Averages per sentence of the parts of the objective.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Parts {
    /// E log p(x | z).
    pub words: f64,
    /// E log p(z).
    pub states: f64,
    /// H(q).
    pub entropy: f64,
}

impl Parts {
    /// The objective with entropy weight 1: the evidence lower bound, up to the relaxation.
    pub fn bound(&self) -> f64 {
        self.words + self.states + self.entropy
    }
}

/// A training run.
pub struct Trainer<'a, I: Backend> {
    corpus: &'a Corpus,
    kept: &'a Corpus,
    /// Settings and how far the run is.
    pub progress: Progress,
    /// How many sums over states were set to [`FLOOR`](zhat_burn::on_device::FLOOR) in the steps since the run was begun
    /// or resumed: 0 on the CPU, whose sums have no such limit. Sentences that fill up a batch are counted too.
    pub floored: u64,
    parameters: Parameters<Autodiff<I>>,
    best: Option<Parameters<I>>,
    adam: Adam<I>,
    gpt2: Option<Gpt2<Autodiff<I>>>,
    engine: Engine,
    device: I::Device,
    run: Run,
}

type A<I> = Autodiff<I>;

/// Sums over a batch: the three parts of the objective, and the number of sums over states that were set to their
/// smallest value.
type Totals<I> = [Tensor<I, 1>; 4];

/// What is minimised, and sums over a batch.
type Objective<I> = (Tensor<A<I>, 1>, Totals<I>);

impl<'a, I: Backend> Trainer<'a, I> {
    /// A new run, or one that goes on from a checkpoint.
    ///
    /// # Errors
    /// If the checkpoint is of another text or another GPT-2, or has no state to go on from.
    pub fn new(
        corpus: &'a Corpus,
        kept: &'a Corpus,
        checkpoint: Checkpoint,
        gpt2: Option<&Weights>,
        engine: Engine,
        device: I::Device,
        run: Run,
    ) -> Result<Self> {
        let Checkpoint { progress, parameters, moments } = checkpoint;
        if progress.text != fingerprint(corpus) {
            bail!("the model was trained on another text; a run can be resumed with the same text only");
        }
        progress.require_gpt2(gpt2)?;
        let wanted = initial(&progress.model, progress.words.len(), gpt2, 0);
        require_same(&parameters, &wanted)?;
        if let Some(moments) = &moments {
            require_moments(moments, &wanted)?;
        }
        let parameters = Parameters::trainable(&parameters, &device);
        let adam = match moments {
            Some(moments) => Adam::from_numbers(&moments, progress.step, &device),
            None if progress.step == 0 => Adam::new(&parameters),
            None => {
                bail!("the file is a finished model; a run is resumed from the file that ends with .state")
            }
        };
        let gpt2 = gpt2.map(|weights| Gpt2::new(weights, &device));
        Ok(Trainer {
            corpus,
            kept,
            progress,
            floored: 0,
            parameters,
            best: None,
            adam,
            gpt2,
            engine,
            device,
            run,
        })
    }

    /// The parameters without gradients.
    pub fn parameters(&self) -> Parameters<I> {
        self.parameters.inner()
    }

    /// The best parameters of a run with [`Outputs::remember`]; else the present ones.
    pub fn best(&self) -> Parameters<I> {
        self.best.clone().unwrap_or_else(|| self.parameters())
    }

    /// The objective of a batch to be minimised, and sums over the batch.
    fn objective(
        &self,
        corpus: &Corpus,
        batch: &[usize],
        step: u64,
        purpose: &str,
        schedule: (f64, f64),
        dropout: f64,
    ) -> Result<Objective<I>> {
        let config = &self.progress.train;
        let rows = whole(self.engine, batch, config.batch);
        let read = sentences::<A<I>>(corpus, &rows, &self.device);
        let (emissions, states) =
            encoder::chain(&self.parameters, &self.progress.model, self.gpt2.as_ref(), &read);
        let seed = Streams::new(config.seed, purpose).block(step).bits();
        let run = self.run.clone().with_seed(seed);
        let sums = Sums::from(config);
        let drawn = relax::<I>(self.engine, &sums, emissions, states, schedule.1, &run)?;
        let soft = if config.straight_through {
            let one = drawn.hard.one_hot::<3>(self.progress.model.states).float();
            one.clone().detach() + drawn.soft.clone() - drawn.soft.detach()
        } else {
            drawn.soft
        };
        let seen = (dropout > 0.0).then(|| {
            let mut random = Streams::new(config.seed, "word dropout").block(step);
            let [count, steps] = read.words.dims();
            let mask: Vec<f32> =
                (0..count * steps).map(|_| if random.uniform() < dropout { 0.0 } else { 1.0 }).collect();
            Tensor::from_data(TensorData::new(mask, [count, steps]), &self.device)
        });
        let joint = log_joint(&self.parameters, &read.words, &States::Soft(soft), seen);
        let parts = [&joint.words, &joint.states, &drawn.entropy].map(|part| part.clone().inner());
        let floored = match drawn.floored {
            Some(count) => count.inner().float(),
            None => Tensor::zeros([1], &self.device),
        };
        let totals = |parts: [Tensor<I, 1>; 3]| {
            let [words, states, entropy] = parts;
            [words, states, entropy, floored]
        };
        let total = joint.words + joint.states + drawn.entropy * schedule.0;
        if self.engine == Engine::Library {
            return Ok((-total.mean(), totals(parts.map(Tensor::sum))));
        }
        let real: Vec<f32> = (0..rows.len()).map(|i| if i < batch.len() { 1.0 } else { 0.0 }).collect();
        let real = Tensor::<I, 1>::from_data(TensorData::new(real, [rows.len()]), &self.device);
        let mean = (total * Tensor::from_inner(real.clone())).sum() / batch.len() as f64;
        Ok((-mean, totals(parts.map(|part| (part * real.clone()).sum()))))
    }

    /// The parts of the objective for sentences that were not trained on.
    ///
    /// # Errors
    /// Those of the library.
    pub fn judge(&self, corpus: &Corpus) -> Result<Parts> {
        let mut sums = [0.0; 3];
        let (_, temperature) = self.progress.train.schedule(usize::MAX);
        for (i, batch) in corpus.batches(self.progress.train.batch).iter().enumerate() {
            let schedule = (1.0, temperature);
            let (_, parts) = self.objective(corpus, batch, i as u64, "judge", schedule, 0.0)?;
            parts.into_iter().zip(&mut sums).for_each(|(part, sum)| *sum += number(part));
        }
        let count = corpus.sentences.len().max(1) as f64;
        Ok(Parts { words: sums[0] / count, states: sums[1] / count, entropy: sums[2] / count })
    }

    /// Steps on copies of the parameters, one for each shape of a batch, and a judgement. On a GPU they compile the
    /// kernels and choose among them, which takes far longer than the steps.
    ///
    /// # Errors
    /// Those of the library.
    pub fn warm_up(&self) -> Result<()> {
        let config = &self.progress.train;
        let (mut parameters, mut adam) = (self.parameters.clone(), self.adam.clone());
        for _ in 0..2 {
            let mut seen = std::collections::BTreeSet::new();
            for batch in self.corpus.batches(config.batch) {
                let rows = whole(self.engine, &batch, config.batch).len();
                if !seen.insert((rows, self.corpus.sentences[batch[0]].len())) {
                    continue;
                }
                let schedule = config.schedule(0);
                let (loss, parts) =
                    self.objective(self.corpus, &batch, 0, "warm-up", schedule, config.word_dropout)?;
                let mut gradients = loss.backward();
                adam.step(&mut parameters, &mut gradients, config.rate, config.clip);
                let _ = parts.map(number);
            }
        }
        self.judge(self.kept)?;
        self.wait()
    }

    /// Waits until the device has done all work.
    fn wait(&self) -> Result<()> {
        I::sync(&self.device).map_err(|error| anyhow::anyhow!("the device has failed: {error:?}"))
    }

    /// One step on a batch.
    fn step(&mut self, batch: &[usize], schedule: (f64, f64)) -> Result<Totals<I>> {
        let config = self.progress.train.clone();
        let step = self.progress.step as u64;
        let (loss, parts) =
            self.objective(self.corpus, batch, step, "step", schedule, config.word_dropout)?;
        let mut gradients = loss.backward();
        self.adam.step(&mut self.parameters, &mut gradients, config.rate, config.clip);
        self.progress.step += 1;
        Ok(parts)
    }

    /// Everything needed to go on.
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint {
            progress: self.progress.clone(),
            parameters: self.parameters.inner().numbers(),
            moments: Some(self.adam.numbers()),
        }
    }

    /// Trains until a limit is reached. Returns the parts of the objective by step of the log.
    ///
    /// # Errors
    /// If a file cannot be written, or the objective is no longer a number.
    pub fn train(&mut self, limits: &Limits, outputs: &Outputs) -> Result<Vec<(usize, Parts)>> {
        let before = self.progress.seconds;
        let mut log = outputs.log.as_deref().map(|path| Log::open(path, self.progress.step)).transpose()?;
        let mut history = Vec::new();
        // Judging and writing do not count as training.
        let mut clock = Clock::new();
        let mut since = Instant::now();
        let mut sums: Option<Totals<I>> = None;
        let (mut count, mut words, mut last_line) = (0_usize, 0_usize, 0.0);
        let (size, seed) = (self.progress.train.batch, self.progress.train.seed);
        let per_epoch = self.corpus.shuffled(size, seed, 0).len();
        'all: loop {
            let epoch = self.progress.step / per_epoch;
            if limits.epochs.is_some_and(|epochs| epoch >= epochs) {
                break;
            }
            let order = self.corpus.shuffled(size, seed, epoch);
            for batch in &order[self.progress.step % per_epoch..] {
                let (step, seconds) = (self.progress.step, self.progress.seconds);
                let out_of_time = limits.seconds.is_some_and(|limit| seconds >= limit);
                if out_of_time || limits.steps.is_some_and(|steps| step >= steps) {
                    break 'all;
                }
                let schedule = match limits.warm_up {
                    Some(share) => {
                        let part = limits.done(step, seconds, per_epoch) / share;
                        self.progress.train.schedule_at(part)
                    }
                    None => self.progress.train.schedule(step),
                };
                let parts = self.step(batch, schedule)?;
                sums = Some(match sums.take() {
                    None => parts,
                    Some(sums) => add(sums, parts),
                });
                count += batch.len();
                words += batch.len() * self.corpus.sentences[batch[0]].len();
                self.progress.seconds = before + clock.seconds();
                if self.progress.step.is_multiple_of(INTERVAL)
                    && let Some(own) = sums.take()
                {
                    let [a, b, c, floored] = own.map(number);
                    let each = |sum: f64| sum / count as f64;
                    let parts = Parts { words: each(a), states: each(b), entropy: each(c) };
                    self.floored += floored as u64;
                    self.require_finite(parts.bound())?;
                    // The device has done its work now, not before.
                    let now = clock.seconds();
                    self.progress.seconds = before + now;
                    let line = Line {
                        step: self.progress.step,
                        epoch: self.progress.step as f64 / per_epoch as f64,
                        seconds: self.progress.seconds,
                        parts,
                        per_second: words as f64 / (now - last_line),
                        floored: floored as u64,
                    };
                    history.push((line.step, parts));
                    if let Some(log) = &mut log {
                        log.add(&line)?;
                    }
                    if !outputs.quiet {
                        line.show(limits, per_epoch);
                    }
                    (count, words, last_line) = (0, 0, now);
                }
                // At the end of an epoch the state is written after the judgement, which a resumed run would miss.
                let ended = self.progress.step.is_multiple_of(per_epoch);
                let due = outputs.state.is_some() && since.elapsed().as_secs_f64() >= outputs.keep_every;
                if due && !ended {
                    if let Some([words, states, entropy, _]) = sums.clone() {
                        self.require_finite(number(words + states + entropy))?;
                    }
                    self.wait()?;
                    self.progress.seconds = before + clock.seconds();
                    clock.pause(|| self.keep(outputs))?;
                    since = Instant::now();
                }
            }
            self.wait()?;
            self.progress.seconds = before + clock.seconds();
            if clock.pause(|| self.end_of_epoch(limits, outputs))? {
                break;
            }
            since = Instant::now();
        }
        self.wait()?;
        self.progress.seconds = before + clock.seconds();
        if let Some([_, _, _, floored]) = sums {
            self.floored += number(floored) as u64;
        }
        self.keep(outputs)?;
        // A resumed run does not know of this judgement: an uninterrupted one would not have made it.
        if self.progress.best.is_none() || (outputs.remember && !self.progress.step.is_multiple_of(per_epoch))
        {
            self.judge_and_keep_best(outputs)?;
        }
        if let Some(log) = log {
            log.0.sync_all().context("cannot write the log")?;
        }
        Ok(history)
    }

    fn require_finite(&self, objective: f64) -> Result<()> {
        if !objective.is_finite() {
            bail!("the objective is {objective} at step {}; try a smaller --rate", self.progress.step);
        }
        Ok(())
    }

    fn keep(&self, outputs: &Outputs) -> Result<()> {
        match &outputs.state {
            Some(path) => self.checkpoint().write(path),
            None => Ok(()),
        }
    }

    /// Judges the model on the validation sentences, and keeps it if it is the best so far.
    fn judge_and_keep_best(&mut self, outputs: &Outputs) -> Result<()> {
        let found = self.judge(self.kept)?.bound();
        let better = !found.is_nan() && self.progress.best.is_none_or(|(best, _)| found > best);
        if better {
            self.progress.best = Some((found, self.progress.step));
            if outputs.remember {
                self.best = Some(self.parameters());
            }
            if let Some(path) = &outputs.model {
                let parameters = self.parameters.inner().numbers();
                Checkpoint { progress: self.progress.clone(), parameters, moments: None }.write(path)?;
            }
        }
        if !outputs.quiet {
            eprintln!(
                "\nvalidation sentences: bound {found:.3} per sentence{}",
                if better { ", the best so far" } else { "" }
            );
        }
        Ok(())
    }

    /// Judges the model, writes the state of the run, and says whether to stop.
    fn end_of_epoch(&mut self, limits: &Limits, outputs: &Outputs) -> Result<bool> {
        self.judge_and_keep_best(outputs)?;
        self.keep(outputs)?;
        let at = self.progress.best.map_or(self.progress.step, |(_, at)| at);
        let per_epoch = self.corpus.batches(self.progress.train.batch).len().max(1);
        let waited = (self.progress.step - at) / per_epoch;
        Ok(limits.patience.is_some_and(|patience| waited >= patience))
    }
}

/// A clock that can be paused.
struct Clock {
    started: Instant,
    paused: f64,
}

impl Clock {
    fn new() -> Self {
        Clock { started: Instant::now(), paused: 0.0 }
    }

    fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64() - self.paused
    }

    fn pause<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let before = Instant::now();
        let found = work();
        self.paused += before.elapsed().as_secs_f64();
        found
    }
}

/// The sentences of a batch; on a device, the batch is filled up with its own sentences, which then count nothing, so
/// that all batches of sentences of one length have the same shape.
pub fn whole(engine: Engine, batch: &[usize], size: usize) -> Vec<usize> {
    match engine {
        Engine::Library => batch.to_vec(),
        Engine::Device => batch.iter().copied().cycle().take(size.max(batch.len())).collect(),
    }
}

fn add<I: Backend>(a: Totals<I>, b: Totals<I>) -> Totals<I> {
    let mut b = b.into_iter();
    a.map(|x| match b.next() {
        Some(y) => x + y,
        None => x,
    })
}

fn number<I: Backend>(x: Tensor<I, 1>) -> f64 {
    x.into_data().iter::<f64>().next().unwrap_or(f64::NAN)
}

/// A line of the log.
struct Line {
    step: usize,
    epoch: f64,
    seconds: f64,
    parts: Parts,
    per_second: f64,
    /// Since the line before.
    floored: u64,
}

impl Line {
    fn show(&self, limits: &Limits, per_epoch: usize) {
        let Parts { words, states, entropy } = self.parts;
        let done = limits.done(self.step, self.seconds, per_epoch);
        let left = if done > 0.0 { self.seconds * (1.0 / done - 1.0) } else { f64::NAN };
        let mut out = std::io::stderr().lock();
        let end = if std::io::IsTerminal::is_terminal(&out) { '\r' } else { '\n' };
        let floored = match self.floored {
            0 => String::new(),
            count => format!("  {count} sums raised to {FLOOR:e}"),
        };
        let _ = write!(
            out,
            "step {:6}  epoch {:6.2}  bound {:9.3} = words {words:9.3} + states {states:9.3} + entropy {entropy:8.3}  {:6.0} words/s  {left:5.0} s left{floored}{end}",
            self.step,
            self.epoch,
            self.parts.bound(),
            self.per_second,
        );
        let _ = out.flush();
    }
}

/// The log as a table.
struct Log(std::fs::File);

impl Log {
    /// A new file, or one that goes on; lines of steps that will be repeated and incomplete lines are removed.
    fn open(path: &Path, step: usize) -> Result<Self> {
        let fail = || format!("cannot write {}", path.display());
        let old = if step > 0 { std::fs::read_to_string(path).unwrap_or_default() } else { String::new() };
        let names = "step,epoch,seconds,bound,words,states,entropy,words_per_second,floored";
        let columns = names.split(',').count();
        let earlier = |line: &&str| {
            let whole = line.split(',').count() == columns;
            whole && line.split(',').next().and_then(|x| x.parse::<usize>().ok()).is_some_and(|x| x <= step)
        };
        let mut text = format!("{names}\n");
        old.lines().filter(earlier).for_each(|line| {
            text.push_str(line);
            text.push('\n');
        });
        zhat::internal::io::write_atomically(path, |out| out.write_all(text.as_bytes()))?;
        Ok(Log(std::fs::File::options().append(true).open(path).with_context(fail)?))
    }

    fn add(&mut self, line: &Line) -> Result<()> {
        let Parts { words, states, entropy } = line.parts;
        writeln!(
            self.0,
            "{},{:.4},{:.2},{:.5},{words:.5},{states:.5},{entropy:.5},{:.0},{}",
            line.step,
            line.epoch,
            line.seconds,
            line.parts.bound(),
            line.per_second,
            line.floored
        )
        .context("cannot write the log")
    }
}

/// A checkpoint before the first step.
pub fn beginning(
    model: &ModelConfig,
    train: &TrainConfig,
    words: &[String],
    limit: usize,
    corpus: &Corpus,
    gpt2: Option<&Weights>,
) -> Checkpoint {
    let progress = Progress {
        version: Progress::VERSION,
        model: model.clone(),
        train: train.clone(),
        words: words.to_vec(),
        limit,
        step: 0,
        seconds: 0.0,
        best: None,
        text: fingerprint(corpus),
        gpt2: gpt2.map(Weights::fingerprint),
    };
    Checkpoint { progress, parameters: initial(model, words.len(), gpt2, train.seed), moments: None }
}
