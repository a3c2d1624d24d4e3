//! A comparison of sums over paths on a device with the library's, for machines that the tests do not reach.

use anyhow::{Result, bail};
use burn_autodiff::Autodiff;
use burn_tensor::backend::Backend;
use burn_tensor::{Tensor, TensorData};
use zhat::Run;
use zhat::random::Streams;
use zhat_burn::on_device::{DeviceChain, DeviceStates};
use zhat_burn::{ChainScores, Method, entropy, log_partition};

/// Sizes of a comparison; all states without `kept`.
struct Case {
    batch: usize,
    steps: usize,
    states: usize,
    size: usize,
    kept: Option<usize>,
}

/// Paths of each sequence.
const SAMPLES: usize = 100;

const CASES: [Case; 6] = [
    Case { batch: 4, steps: 9, states: 60, size: 8, kept: None },
    Case { batch: 4, steps: 9, states: 60, size: 8, kept: Some(16) },
    Case { batch: 4, steps: 9, states: 60, size: 8, kept: Some(40) },
    Case { batch: 16, steps: 12, states: 500, size: 64, kept: None },
    Case { batch: 16, steps: 12, states: 500, size: 64, kept: Some(100) },
    Case { batch: 16, steps: 12, states: 500, size: 64, kept: Some(200) },
];

/// Emissions and embeddings.
type Scores<I> = (Tensor<Autodiff<I>, 3>, Tensor<Autodiff<I>, 2>);

impl Case {
    fn numbers(&self, count: usize, what: &str, scale: f64) -> Vec<f64> {
        let mut random = Streams::new(7, what).block(self.states as u64);
        (0..count).map(|_| scale * random.normal()).collect()
    }

    fn scores<I: Backend>(&self, device: &I::Device) -> Scores<I> {
        let &Case { batch, steps, states, size, .. } = self;
        let own = self.numbers(batch * steps * states, "emissions", 1.0);
        let vectors = self.numbers(states * size, "embeddings", (1.0 / size as f64).sqrt());
        let own = Tensor::from_data(TensorData::new(own, [batch, steps, states]), device);
        let vectors = Tensor::from_data(TensorData::new(vectors, [states, size]), device);
        (own.require_grad(), vectors.require_grad())
    }

    /// The states chosen for these scores.
    fn method<I: Backend>(&self, (own, vectors): &Scores<I>, run: &Run) -> Result<Method> {
        let Some(kept) = self.kept else { return Ok(Method::exact()) };
        let method = Method::randomized().with("states", kept).with("replicates", 1);
        let chain = ChainScores::factored(own.clone(), vectors.clone(), vectors.clone());
        Ok(method.with("proposal", "local-global").with("selection", "draws").choose(&chain, run)?)
    }

    fn chain<I: Backend>(&self, (own, vectors): &Scores<I>, method: &Method) -> DeviceChain<Autodiff<I>> {
        let chain = DeviceChain::new(own.clone(), vectors.clone());
        match self.chosen(method, &own.device()) {
            Some(states) => chain.with_states(states),
            None => chain,
        }
    }

    fn chosen<B: Backend>(&self, method: &Method, device: &B::Device) -> Option<DeviceStates<B>> {
        let choice = method.choice()?;
        let supports: Vec<_> = (0..self.batch).map(|b| &choice.supports(b)[0]).collect();
        Some(DeviceStates::new(&supports, device))
    }

    /// A weighted sum of relaxed samples.
    fn relaxed<I: Backend>(&self, scores: &Scores<I>, method: &Method) -> Tensor<Autodiff<I>, 1> {
        let &Case { batch, steps, states, .. } = self;
        let messages = self.chain(scores, method).messages(false);
        let kept = messages.kept();
        let device = scores.0.device();
        let mut random = Streams::new(11, "noise").block(0);
        let noise: Vec<f64> = (0..batch * steps * kept).map(|_| random.gumbel()).collect();
        let noise = Tensor::from_data(TensorData::new(noise, [batch, 1, steps, kept]), &device);
        let weights = self.numbers(batch * steps * states, "weights of states", 1.0);
        let weights = Tensor::from_data(TensorData::new(weights, [batch, 1, steps, states]), &device);
        let soft = messages.paths(noise, 0.7).soft * weights;
        soft.sum_dim(3).sum_dim(2).reshape([batch])
    }
}

fn list<I: Backend, const D: usize>(tensor: Tensor<I, D>) -> Vec<f64> {
    tensor.into_data().iter::<f64>().collect()
}

/// Values, and the gradients of a weighted sum of them.
fn parts<I: Backend>(case: &Case, scores: &Scores<I>, values: Tensor<Autodiff<I>, 1>) -> [Vec<f64>; 3] {
    let weights = case.numbers(case.batch, "weights of values", 1.0);
    let weights = Tensor::from_data(TensorData::new(weights, [case.batch]), &values.device());
    let gradients = (values.clone() * weights).sum().backward();
    let of = |found: Option<Vec<f64>>| found.unwrap_or_default();
    let (own, vectors) = scores;
    [list(values.inner()), of(own.grad(&gradients).map(list)), of(vectors.grad(&gradients).map(list))]
}

/// The largest difference relative to the largest number.
fn difference(found: &[f64], wanted: &[f64]) -> f64 {
    if found.len() != wanted.len() {
        return f64::INFINITY;
    }
    let largest = wanted.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
    let differences = found.iter().zip(wanted).map(|(a, b)| (a - b).abs());
    differences.fold(0.0, |most: f64, x| if x.is_nan() { f64::INFINITY } else { most.max(x) }) / largest
}

/// Compares values and gradients on a device with those of the library in the same precision, prints the largest
/// differences relative to the largest number, and checks them. Relaxed samples are compared with those of the
/// operations of the device on another back end, which has the same precision.
///
/// # Errors
/// If a difference is above `tolerance`.
pub fn run<I: Backend, Other: Backend>(
    name: &str,
    device: &I::Device,
    tolerance: f64,
    run: &Run,
) -> Result<()> {
    println!("{name}: largest differences of values, gradients of emissions, gradients of embeddings");
    let mut worst: f64 = 0.0;
    for case in &CASES {
        let Case { batch, steps, states, kept, .. } = case;
        let scores = case.scores::<I>(device);
        let method = case.method(&scores, run)?;
        let chain = || case.chain(&scores, &method);
        let library = || ChainScores::factored(scores.0.clone(), scores.1.clone(), scores.1.clone());
        // With the same noise.
        let others = case.scores::<Other>(&Default::default());
        let no_scores = || anyhow::anyhow!("messages without scores");
        let checks = [
            (
                "log Z",
                parts(case, &scores, chain().messages(false).log_partition()),
                parts(case, &scores, log_partition(&library(), &method, run)?),
            ),
            (
                "entropy",
                parts(case, &scores, chain().messages(true).entropy().ok_or_else(no_scores)?),
                parts(case, &scores, entropy(&library(), &method, run)?),
            ),
            (
                "samples",
                parts(case, &scores, case.relaxed(&scores, &method)),
                parts(case, &others, case.relaxed(&others, &method)),
            ),
        ];
        let kept = kept.unwrap_or(*states);
        println!("B = {batch}, T = {steps}, {kept} of {states} states");
        for (what, found, wanted) in checks {
            let all: Vec<f64> = found.iter().zip(&wanted).map(|(a, b)| difference(a, b)).collect();
            println!("  {what:8} {:.1e}  {:.1e}  {:.1e}", all[0], all[1], all[2]);
            worst = all.into_iter().fold(worst, f64::max);
        }
        worst = worst.max(paths(case, &scores, &method, run)?);
    }
    println!("largest: {worst:.1e}, allowed: {tolerance:.0e}");
    if worst.is_nan() || worst > tolerance {
        bail!("{name}: differences up to {worst:.1e}, expected at most {tolerance:.0e}");
    }
    Ok(())
}

/// Of every sampled path, score + log weight is log Z or log Ẑ, up to the precision of the sums.
fn paths<I: Backend>(case: &Case, scores: &Scores<I>, method: &Method, run: &Run) -> Result<f64> {
    let mut chain = DeviceChain::new(scores.0.clone().inner(), scores.1.clone().inner());
    let device = scores.0.device();
    if let Some(states) = case.chosen::<I>(method, &device) {
        chain = chain.with_states(states);
    }
    let messages = chain.messages(false);
    let mut random = Streams::new(13, "noise").block(0);
    let noise: Vec<f64> = (0..case.batch * SAMPLES * messages.kept()).map(|_| random.gumbel()).collect();
    let noise = |shape: [usize; 3]| Tensor::from_data(TensorData::new(noise.clone(), shape), &device);
    let drawn = messages.hard_paths(SAMPLES, noise);
    let found = list(chain.score(&drawn.states) + drawn.log_weights);
    let library = ChainScores::factored(scores.0.clone(), scores.1.clone(), scores.1.clone());
    let exact = list(log_partition(&library, method, run)?.inner());
    let wanted: Vec<f64> = exact.iter().flat_map(|&log| std::iter::repeat_n(log, SAMPLES)).collect();
    let worst = difference(&found, &wanted);
    println!("  paths    {worst:.1e}");
    Ok(worst)
}
