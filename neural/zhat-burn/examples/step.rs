//! Time and memory of one training step of a chain, by zhat and by burn's differentiation of the naive formula:
//! `cargo run --release --example step -- zhat|randomized|tensors|naive [N] [B]`.
//!
//! A step is the entropy and its gradient, for chains of 20 positions. The naive formula needs a tensor of B × N × N
//! numbers for every position.

use std::time::Instant;

use burn_autodiff::Autodiff;
use burn_ndarray::NdArray;
use burn_tensor::{Distribution, Tensor, activation};
use zhat::Run;
use zhat_burn::on_device::DeviceChain;
use zhat_burn::{ChainScores, Method, entropy};

type B = Autodiff<NdArray>;

const STEPS: usize = 20;

/// The entropy by tables of all pairs of states.
fn naive(emissions: Tensor<B, 3>, table: Tensor<B, 2>) -> Tensor<B, 1> {
    let [batch, steps, states] = emissions.dims();
    let at = |t: usize| emissions.clone().slice([0..batch, t..t + 1]).reshape([batch, states]);
    let log_sum = |x: Tensor<B, 3>| {
        let shift = x.clone().detach().max_dim(1);
        ((x - shift.clone()).exp().sum_dim(1).log() + shift).reshape([batch, states])
    };
    let (mut alpha, mut entropy) = (at(0), Tensor::zeros([batch, states], &emissions.device()));
    for t in 1..steps {
        let pairs = alpha.unsqueeze_dim::<3>(2) + table.clone().unsqueeze::<3>();
        let sums = log_sum(pairs.clone());
        let logs = pairs - sums.clone().unsqueeze_dim::<3>(1);
        entropy =
            (logs.clone().exp() * (entropy.unsqueeze_dim::<3>(2) - logs)).sum_dim(1).reshape([batch, states]);
        alpha = sums + at(t);
    }
    let logs = activation::log_softmax(alpha, 1);
    (logs.clone().exp() * (entropy - logs)).sum_dim(1).reshape([batch])
}

/// The largest memory of this process in MiB.
fn memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)).and_then(|x| x.parse::<f64>().ok());
    kib.unwrap_or(f64::NAN) / 1024.0
}

fn main() -> zhat::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |k: usize, usual: usize| arguments.get(k).and_then(|x| x.parse().ok()).unwrap_or(usual);
    let (way, states, batch) =
        (arguments.first().map_or("zhat", String::as_str), number(1, 200), number(2, 4));
    let device = Default::default();
    let normal = Distribution::Normal(0.0, 1.0);
    let emissions = Tensor::<B, 3>::random([batch, STEPS, states], normal, &device).require_grad();
    let vectors =
        Tensor::<B, 2>::random([states, 16], Distribution::Normal(0.0, 0.3), &device).require_grad();
    let (before, run) = (memory(), Run::default());
    let mut times = Vec::new();
    for _ in 0..3 {
        let started = Instant::now();
        let value = match way {
            "naive" => naive(emissions.clone(), vectors.clone().matmul(vectors.clone().transpose())),
            "tensors" => {
                match DeviceChain::new(emissions.clone(), vectors.clone()).messages(true).entropy() {
                    Some(entropy) => entropy,
                    None => continue,
                }
            }
            _ => {
                let chain = ChainScores::factored(emissions.clone(), vectors.clone(), vectors.clone());
                let method = match way {
                    "randomized" => Method::randomized().with("states", states / 5).with("replicates", 1),
                    _ => Method::exact(),
                };
                entropy(&chain, &method, &run)?
            }
        };
        let gradients = value.clone().sum().backward();
        let _ = (emissions.grad(&gradients), vectors.grad(&gradients));
        times.push(started.elapsed().as_secs_f64());
    }
    let best = times.iter().copied().fold(f64::INFINITY, f64::min);
    println!("{way}: N = {states}, T = {STEPS}, B = {batch}: {best:.3} s, {:.0} MiB", memory() - before);
    Ok(())
}
