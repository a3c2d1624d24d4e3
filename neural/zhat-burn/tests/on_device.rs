//! Chains by tensor operations against the library, which is the reference.
#![allow(clippy::unwrap_used, clippy::panic)]

use burn_autodiff::Autodiff;
use burn_ndarray::NdArray;
use burn_tensor::{Tensor, TensorData};
use zhat::Chain;
use zhat::Run;
use zhat::dynamic::{RandomizedForward, Selection, StateProposal, States};
use zhat::model::Transitions;
use zhat::random::Streams;
use zhat_burn::on_device::{DeviceChain, DeviceStates};
use zhat_burn::{ChainScores, Method, entropy, log_partition, relaxed_sample};

type Inner = NdArray<f64>;
type B = Autodiff<Inner>;

fn numbers(count: usize, seed: u64, scale: f64) -> Vec<f64> {
    let mut random = Streams::new(seed, "numbers of a test").block(0);
    (0..count).map(|_| scale * random.normal()).collect()
}

fn tensor<const D: usize>(shape: [usize; D], seed: u64, scale: f64) -> Tensor<B, D> {
    let data = TensorData::new(numbers(shape.iter().product(), seed, scale), shape.to_vec());
    Tensor::from_data(data.convert::<f64>(), &Default::default()).require_grad()
}

fn list<const D: usize>(tensor: Tensor<Inner, D>) -> Vec<f64> {
    tensor.into_data().iter::<f64>().collect()
}

fn close(found: &[f64], wanted: &[f64], tolerance: f64, what: &str) {
    assert_eq!(found.len(), wanted.len(), "{what}");
    for (a, b) in found.iter().zip(wanted) {
        assert!((a - b).abs() <= tolerance * (1.0 + b.abs()), "{what}: {a} and {b}");
    }
}

fn chain(emissions: &Tensor<B, 3>, states: &Tensor<B, 2>) -> Chain<f64> {
    let [batch, steps, count] = emissions.dims();
    let left: zhat::model::Values<f64> = list(states.clone().inner()).into();
    let transitions = Transitions::Factored { right: Some(left.clone()), left };
    let own = list(emissions.clone().inner());
    Chain::new(vec![0.0; count].into(), own.into(), vec![steps; batch], transitions).unwrap()
}

type Way<'a> = &'a dyn Fn(Tensor<B, 3>, Tensor<B, 2>) -> Tensor<B, 1>;

/// Values and both gradients of two ways to compute the same.
fn same(
    what: &str,
    seed: u64,
    shape: [usize; 3],
    scale: f64,
    one: impl Fn(Tensor<B, 3>, Tensor<B, 2>) -> Tensor<B, 1>,
    two: impl Fn(Tensor<B, 3>, Tensor<B, 2>) -> Tensor<B, 1>,
) {
    let (emissions, states) = (tensor(shape, seed, scale), tensor([shape[2], 3], seed + 100, 0.7));
    let weights = tensor([shape[0]], seed + 200, 1.0).inner();
    let run = |way: &dyn Fn(Tensor<B, 3>, Tensor<B, 2>) -> Tensor<B, 1>| {
        let values = way(emissions.clone(), states.clone());
        let gradients = (values.clone() * Tensor::from_inner(weights.clone())).sum().backward();
        let of_emissions = emissions.grad(&gradients).map(list).unwrap();
        (list(values.inner()), of_emissions, states.grad(&gradients).map(list).unwrap_or_default())
    };
    let (found, wanted) = (run(&one), run(&two));
    close(&found.0, &wanted.0, 1e-10, what);
    close(&found.1, &wanted.1, 1e-9, &format!("{what}, gradient of emissions"));
    if shape[1] > 1 {
        close(&found.2, &wanted.2, 1e-9, &format!("{what}, gradient of states"));
    }
}

#[test]
fn exact_sums_agree_with_the_library() {
    let run = Run::default();
    let of = |a: Tensor<B, 3>, b: Tensor<B, 2>| ChainScores::factored(a, b.clone(), b);
    for (seed, shape, scale) in
        [(1, [3, 5, 4], 1.0), (2, [2, 1, 3], 1.0), (3, [1, 6, 2], 5.0), (4, [2, 4, 1], 1.0)]
    {
        same(
            "log Z",
            seed,
            shape,
            scale,
            |a, b| DeviceChain::new(a, b).messages(false).log_partition(),
            |a, b| log_partition(&of(a, b), &Method::exact(), &run).unwrap(),
        );
        same(
            "entropy",
            seed,
            shape,
            scale,
            |a, b| DeviceChain::new(a, b).messages(true).entropy().unwrap(),
            |a, b| entropy(&of(a, b), &Method::exact(), &run).unwrap(),
        );
    }
}

#[test]
fn sums_over_chosen_states_agree_with_the_library() {
    // 5 of 12 states in tables of their own, and 9 through log weights of all.
    for (seed, selection, proposal, kept) in [
        (1, "draws", "local-global", 5),
        (2, "threshold", "two-pass", 5),
        (3, "top", "local-global", 5),
        (4, "threshold", "uniform", 5),
        (5, "draws", "local-global", 9),
        (6, "threshold", "two-pass", 9),
        (7, "top", "local-global", 9),
    ] {
        let run = Run::default().with_seed(seed);
        let shape = [3, 5, 12];
        let method = || {
            let method = Method::randomized().with("states", kept).with("replicates", 1);
            method.with("selection", selection).with("proposal", proposal)
        };
        let of = |a: Tensor<B, 3>, b: Tensor<B, 2>| ChainScores::factored(a, b.clone(), b);
        let device = |a: Tensor<B, 3>, b: Tensor<B, 2>| {
            let chosen = method().choose(&of(a.clone(), b.clone()), &run).unwrap();
            let choice = chosen.choice().unwrap();
            let supports: Vec<_> = (0..3).map(|i| &choice.supports(i)[0]).collect();
            let states = DeviceStates::<B>::new(&supports, &a.device());
            DeviceChain::new(a, b).with_states(states)
        };
        let library = |a: Tensor<B, 3>, b: Tensor<B, 2>| {
            let chain = of(a, b);
            let method = method().choose(&chain, &run).unwrap();
            (chain, method)
        };
        same(
            &format!("log Z, {selection}, {kept} states"),
            seed,
            shape,
            1.0,
            |a, b| device(a, b).messages(false).log_partition(),
            |a, b| {
                let (chain, method) = library(a, b);
                log_partition(&chain, &method, &run).unwrap()
            },
        );
        same(
            &format!("entropy, {selection}, {kept} states"),
            seed,
            shape,
            1.0,
            |a, b| device(a, b).messages(true).entropy().unwrap(),
            |a, b| {
                let (chain, method) = library(a, b);
                entropy(&chain, &method, &run).unwrap()
            },
        );
    }
}

#[test]
fn selection_without_estimates_draws_the_same_states() {
    let (emissions, states) = (tensor([4, 6, 30], 1, 1.0), tensor([30, 3], 2, 0.5));
    let chain = chain(&emissions, &states);
    for (proposal, selection) in [
        (StateProposal::LocalGlobal, Selection::Draws),
        (StateProposal::TwoPass, Selection::Threshold),
        (StateProposal::Forward, Selection::Top),
    ] {
        let method = RandomizedForward::default()
            .states(States::Count(7))
            .proposal(proposal)
            .selection(selection)
            .replicates(3);
        let run = Run::default().with_seed(9);
        let (choice, alone) = (method.choose(&chain, &run).unwrap(), method.select(&chain, &run).unwrap());
        for (b, supports) in alone.iter().enumerate() {
            assert_eq!(choice.supports(b), supports.as_slice(), "{proposal:?}");
        }
    }
}

/// All paths of a sequence.
fn paths(states: usize, steps: usize) -> Vec<Vec<usize>> {
    (0..states.pow(steps as u32))
        .map(|code| (0..steps).map(|t| code / states.pow(t as u32) % states).collect())
        .collect()
}

#[test]
fn samples_follow_the_chain_and_scores_are_those_of_the_library() {
    let (emissions, states) = (tensor([2, 3, 3], 5, 1.0), tensor([3, 3], 6, 0.7));
    let library = chain(&emissions, &states);
    let device = Default::default();
    let samples = 20_000;
    let mut random = Streams::new(3, "noise of a test").block(0);
    let noise: Vec<f64> = (0..2 * samples * 9).map(|_| random.gumbel()).collect();
    let noise = Tensor::<Inner, 4>::from_data(TensorData::new(noise, [2, samples, 3, 3]), &device);
    let own = DeviceChain::new(emissions.inner(), states.inner());
    let messages = own.messages(false);
    let drawn = messages.paths(noise.clone(), 1.0);
    let log_z = list(messages.log_partition());
    let hard: Vec<usize> = drawn.hard.clone().into_data().iter::<i64>().map(|x| x as usize).collect();
    let scores = list(own.score(&drawn.hard));
    for b in 0..2 {
        let mine = &hard[b * samples * 3..(b + 1) * samples * 3];
        for (s, path) in mine.chunks(3).enumerate().take(50) {
            close(&[scores[b * samples + s]], &[library.score(b, path)], 1e-10, "score");
        }
        let mut chi = 0.0;
        for path in paths(3, 3) {
            let expected = samples as f64 * (library.score(b, &path) - log_z[b]).exp();
            let found = mine.chunks(3).filter(|own| **own == path[..]).count() as f64;
            chi += (found - expected).powi(2) / expected;
        }
        // The 10⁻⁶ point of χ² with 26 degrees of freedom.
        assert!(chi < 80.0, "{chi}");
    }
    // At a low temperature the relaxation is the path itself.
    let cold = messages.paths(noise.slice([0..2, 0..50]), 1e-3).soft;
    let soft: Vec<f64> = list(cold);
    let certain = soft.chunks(3).filter(|row| row.iter().any(|&x| x > 0.99)).count();
    assert!(certain >= soft.len() / 3 - 3, "{certain}");
}

/// The gradient of relaxed samples against differences, on the device and from chosen states of the library.
#[test]
fn gradients_of_relaxed_samples_agree_with_differences() {
    let shape = [2, 4, 6];
    let run = Run::default().with_seed(4);
    let weights = tensor([2, 1, 4, 6], 8, 1.0).inner();
    let mut random = Streams::new(5, "noise of a test").block(0);
    let noise: Vec<f64> = (0..2 * 4 * 6).map(|_| random.gumbel()).collect();
    let device = Default::default();
    let on_device = |a: Tensor<B, 3>, b: Tensor<B, 2>| {
        let noise = Tensor::from_data(TensorData::new(noise.clone(), [2, 1, 4, 6]), &device);
        let drawn = DeviceChain::new(a, b).messages(false).paths(noise, 0.7);
        (drawn.soft * Tensor::from_inner(weights.clone())).sum()
    };
    // With uniform proposals the choice does not depend on the scores.
    let chosen = |a: Tensor<B, 3>, b: Tensor<B, 2>| {
        let chain = ChainScores::factored(a, b.clone(), b);
        let method = Method::randomized().with("states", 3).with("replicates", 1).with("proposal", "uniform");
        let method = method.choose(&chain, &run).unwrap();
        let drawn = relaxed_sample(&chain, &method, 1, 0.7, &run).unwrap();
        let zeros = list(drawn.soft.clone().inner()).iter().filter(|&&x| x == 0.0).count();
        assert_eq!((zeros, drawn.log_weights.len()), (2 * 4 * 3, 2));
        (drawn.soft * Tensor::from_inner(weights.clone())).sum()
    };
    let some = |kept: usize, own: usize| {
        let (noise, weights, run, device) = (&noise, &weights, &run, &device);
        move |a: Tensor<B, 3>, b: Tensor<B, 2>| {
            let chain = ChainScores::factored(a.clone(), b.clone(), b.clone());
            let method = Method::randomized().with("states", kept).with("replicates", 1);
            let method = method.with("proposal", "uniform").choose(&chain, run).unwrap();
            let choice = method.choice().unwrap();
            let supports: Vec<_> = (0..2).map(|i| &choice.supports(i)[0]).collect();
            let chain = DeviceChain::new(a, b).with_states(DeviceStates::new(&supports, device));
            let messages = chain.messages(false);
            assert_eq!(messages.kept(), own);
            let noise = noise[..2 * 4 * own].to_vec();
            let noise = Tensor::from_data(TensorData::new(noise, [2, 1, 4, own]), device);
            let soft = messages.paths(noise, 0.7).soft;
            let zeros = list(soft.clone().inner()).iter().filter(|&&x| x == 0.0).count();
            assert_eq!(zeros, 2 * 4 * (6 - kept));
            (soft * Tensor::from_inner(weights.clone())).sum()
        }
    };
    // Tables of their own for 3 states of 6; log weights of all for 5.
    let (few, most) = (some(3, 3), some(5, 6));
    let ways: [(&str, Way<'_>); 4] =
        [("device", &on_device), ("chosen", &chosen), ("few states", &few), ("most states", &most)];
    for (name, way) in ways {
        let (emissions, states) = (tensor(shape, 11, 1.0), tensor([6, 2], 12, 0.7));
        let gradients = way(emissions.clone(), states.clone()).backward();
        let found =
            [emissions.grad(&gradients).map(list).unwrap(), states.grad(&gradients).map(list).unwrap()];
        let value = |a: &[f64], b: &[f64]| {
            let a = Tensor::from_data(TensorData::new(a.to_vec(), shape.to_vec()), &device);
            let b = Tensor::from_data(TensorData::new(b.to_vec(), [6, 2]), &device);
            list(way(a, b).inner())[0]
        };
        let (a, b) = (list(emissions.inner()), list(states.inner()));
        let step = 1e-5;
        for i in 0..a.len() + b.len() {
            let moved = |by: f64| {
                let (mut a, mut b) = (a.clone(), b.clone());
                if i < a.len() {
                    a[i] += by
                } else {
                    b[i - a.len()] += by
                }
                value(&a, &b)
            };
            let wanted = (moved(step) - moved(-step)) / (2.0 * step);
            let own = if i < a.len() { found[0][i] } else { found[1][i - a.len()] };
            close(&[own], &[wanted], 1e-6, &format!("{name} {i}"));
        }
    }
}

/// Chosen states with their weights: the average of Ẑ over many choices is Z.
#[test]
fn estimates_on_the_device_are_unbiased() {
    let (emissions, states) = (tensor([1, 4, 10], 21, 1.0), tensor([10, 2], 22, 0.7));
    let library = chain(&emissions, &states);
    let own = DeviceChain::new(emissions.clone().inner(), states.clone().inner());
    let log_z = list(own.messages(false).log_partition())[0];
    let method = RandomizedForward::default()
        .states(States::Count(4))
        .top(Some(2))
        .proposal(StateProposal::LocalGlobal)
        .selection(Selection::Draws)
        .replicates(1);
    let ratios: Vec<f64> = (0..3000)
        .map(|seed| {
            let supports = method.select(&library, &Run::default().with_seed(seed)).unwrap();
            let chosen = DeviceStates::<Inner>::new(&[&supports[0][0]], &emissions.device());
            let log = list(own.clone().with_states(chosen).messages(false).log_partition())[0];
            (log - log_z).exp()
        })
        .collect();
    let mean = ratios.iter().sum::<f64>() / 3000.0;
    let variance = ratios.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 2999.0;
    let z = (mean - 1.0) / (variance / 3000.0).sqrt();
    assert!(z.abs() < 4.9 && variance > 0.0, "mean {mean}, z = {z}");
}

/// Every path has the probability with which it was drawn: score + log weight is log Z or log Ẑ.
#[test]
fn weights_of_paths_are_those_of_their_scores() {
    let (emissions, states) = (tensor([2, 5, 12], 31, 1.0), tensor([12, 3], 32, 0.7));
    let library = chain(&emissions, &states);
    let own = DeviceChain::new(emissions.clone().inner(), states.clone().inner());
    let device = Default::default();
    for kept in [None, Some(4), Some(10)] {
        let chain = match kept {
            None => own.clone(),
            Some(kept) => {
                let method = RandomizedForward::default().states(States::Count(kept)).replicates(1);
                let supports = method.select(&library, &Run::default()).unwrap();
                own.clone().with_states(DeviceStates::new(&[&supports[0][0], &supports[1][0]], &device))
            }
        };
        let messages = chain.messages(false);
        let random = std::cell::RefCell::new(Streams::new(3, "noise of a test").block(0));
        let noise = |shape: [usize; 3]| {
            let count: usize = shape.iter().product();
            let noise: Vec<f64> = (0..count).map(|_| random.borrow_mut().gumbel()).collect();
            Tensor::<Inner, 3>::from_data(TensorData::new(noise, shape), &device)
        };
        let drawn = messages.hard_paths(20, noise);
        let log_z = list(messages.log_partition());
        let found = list(chain.score(&drawn.states) + drawn.log_weights);
        let wanted: Vec<f64> = log_z.iter().flat_map(|&log| [log; 20]).collect();
        close(&found, &wanted, 1e-10, &format!("{kept:?}"));
    }
}

#[test]
fn sums_that_are_too_small_are_counted() {
    let device = Default::default();
    let of = |vectors: [f64; 2]| {
        let emissions = Tensor::<Inner, 3>::from_data([[[200.0, 0.0], [0.0, 0.0]]], &device);
        let states = Tensor::<Inner, 2>::from_data([[vectors[0]], [vectors[1]]], &device);
        DeviceChain::new(emissions, states)
    };
    let count = |chain: &DeviceChain<Inner>| {
        let messages = chain.messages(false);
        assert!(list(messages.log_partition())[0].is_finite());
        messages.floored().into_data().iter::<i64>().next().unwrap()
    };
    assert_eq!(count(&of([1.0, -1.0])), 0);
    // From state 0 to state 1 the score is 200 below that from state 1 to itself, and state 1 is 200 below state 0.
    assert_eq!(count(&of([10.0, -10.0])), 1);
    // States that were not chosen do not count.
    let chosen = |second: f64| DeviceStates {
        states: Tensor::from_data([[[0, 1], [0, 1]]], &device),
        log_weights: Tensor::from_data([[[0.0, 0.0], [0.0, second]]], &device),
    };
    assert_eq!(count(&of([10.0, -10.0]).with_states(chosen(0.0))), 1);
    assert_eq!(count(&of([10.0, -10.0]).with_states(chosen(-1e30))), 0);
}
