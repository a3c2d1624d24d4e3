//! Values and gradients against burn's own differentiation of the naive formula, and against finite differences.
#![allow(clippy::unwrap_used, clippy::panic)]

use burn_autodiff::Autodiff;
use burn_ndarray::NdArray;
use burn_tensor::{Tensor, TensorData};
use zhat::Run;
use zhat_burn::{ChainScores, Method, cross_entropy, entropy, kl, log_partition, relaxed_sample};

type Inner = NdArray<f64>;
type B = Autodiff<Inner>;

/// Numbers that look random.
fn numbers(count: usize, seed: u64) -> Vec<f64> {
    (0..count as u64).map(|i| ((i * i + 7 * i + 13 * seed) as f64 * 0.731).sin() * 1.5).collect()
}

fn tensor<const D: usize>(shape: [usize; D], seed: u64) -> Tensor<B, D> {
    let count = shape.iter().product();
    let data = TensorData::new(numbers(count, seed), shape.to_vec());
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

/// log Z by tensors of all pairs of states, (B, T − 1, N, N), as one would write it without the library.
fn naive(
    start: Tensor<B, 1>,
    end: Tensor<B, 1>,
    emissions: Tensor<B, 3>,
    transitions: Tensor<B, 4>,
    lengths: &[usize],
) -> Tensor<B, 1> {
    let [_, _, states] = emissions.dims();
    let each = lengths.iter().enumerate().map(|(b, &length)| {
        let at = |t: usize| emissions.clone().slice([b..b + 1, t..t + 1]).reshape([states]);
        let mut alpha = start.clone() + at(0);
        for t in 1..length {
            let table = transitions.clone().slice([b..b + 1, t - 1..t]).reshape([states, states]);
            alpha = log_sum(alpha.reshape([states, 1]) + table) + at(t);
        }
        log_sum((alpha + end.clone()).reshape([states, 1]))
    });
    Tensor::cat(each.collect(), 0)
}

/// ln Σᵢ exp(xᵢⱼ).
fn log_sum(x: Tensor<B, 2>) -> Tensor<B, 1> {
    let [_, columns] = x.dims();
    x.exp().sum_dim(0).log().reshape([columns])
}

const BATCH: usize = 3;
const STEPS: usize = 5;
const STATES: usize = 4;
const LENGTHS: [usize; 3] = [5, 1, 3];

#[test]
fn log_partition_agrees_with_the_naive_formula() {
    let shared = |table: Tensor<B, 2>| {
        table.reshape([1, 1, STATES, STATES]).expand([BATCH, STEPS - 1, STATES, STATES])
    };
    for form in ["shared", "per step", "per sequence", "factored", "low rank"] {
        let (start, end) = (tensor([STATES], 1), tensor([STATES], 2));
        let emissions = tensor([BATCH, STEPS, STATES], 3);
        let (left, right) = (tensor([STATES, 2], 4), tensor([STATES, 2], 5));
        let of_rank = tensor([STATES, 2], 6);
        let (two, three) = (tensor([STATES, STATES], 7), tensor([STEPS - 1, STATES, STATES], 8));
        let four = tensor([BATCH, STEPS - 1, STATES, STATES], 9);
        let (chain, table) = match form {
            "shared" => (ChainScores::new(emissions.clone(), two.clone()), shared(two.clone())),
            "per step" => {
                let table = three.clone().reshape([1, STEPS - 1, STATES, STATES]);
                (
                    ChainScores::per_step(emissions.clone(), three.clone()),
                    table.expand([BATCH, STEPS - 1, STATES, STATES]),
                )
            }
            "per sequence" => (ChainScores::per_sequence(emissions.clone(), four.clone()), four.clone()),
            "factored" => {
                let table = left.clone().matmul(right.clone().transpose());
                (ChainScores::factored(emissions.clone(), left.clone(), right.clone()), shared(table))
            }
            _ => {
                let table = left.clone().exp().matmul(of_rank.clone().exp().transpose()).log();
                (ChainScores::low_rank(emissions.clone(), left.clone(), of_rank.clone()), shared(table))
            }
        };
        let chain = chain.with_start(start.clone()).with_end(end.clone()).with_lengths(LENGTHS.to_vec());
        let weights =
            Tensor::<B, 1>::from_data(TensorData::new(vec![1.0, -0.5, 2.0], [BATCH]), &Default::default());
        let found = log_partition(&chain, &Method::exact(), &Run::default()).unwrap();
        let wanted = naive(start.clone(), end.clone(), emissions.clone(), table, &LENGTHS);
        close(&list(found.clone().inner()), &list(wanted.clone().inner()), 1e-12, form);
        let found = (found * weights.clone()).sum().backward();
        let wanted = (wanted * weights).sum().backward();
        macro_rules! same {
            ($($tensor:expr),*) => {$(
                match ($tensor.grad(&found), $tensor.grad(&wanted)) {
                    (Some(found), Some(wanted)) => close(&list(found), &list(wanted), 1e-10, form),
                    (None, None) => {}
                    _ => panic!("{form}: one gradient is missing: {}", stringify!($tensor)),
                }
            )*};
        }
        same!(start, end, emissions, left, right, of_rank, two, three, four);
    }
}

/// Checks the gradient of a function of emissions and transitions by central differences.
fn check(what: &str, value: impl Fn(Tensor<B, 3>, Tensor<B, 2>) -> Tensor<B, 1>) {
    let (emissions, transitions) = (tensor([2, 3, 3], 11), tensor([3, 3], 12));
    let gradients = value(emissions.clone(), transitions.clone()).sum().backward();
    let (of_emissions, of_transitions) =
        (list(emissions.grad(&gradients).unwrap()), list(transitions.grad(&gradients).unwrap()));
    let flat = [list(emissions.inner()), list(transitions.inner())].concat();
    let at = |point: &[f64]| {
        let (a, b) = point.split_at(18);
        let a = Tensor::from_data(TensorData::new(a.to_vec(), [2, 3, 3]), &Default::default());
        let b = Tensor::from_data(TensorData::new(b.to_vec(), [3, 3]), &Default::default());
        list(value(a, b).sum().inner())[0]
    };
    let step = 1e-5;
    for (i, found) in of_emissions.iter().chain(&of_transitions).enumerate() {
        let moved = |by: f64| {
            let mut point = flat.clone();
            point[i] += by;
            at(&point)
        };
        let wanted = (moved(step) - moved(-step)) / (2.0 * step);
        assert!(
            (found - wanted).abs() < 1e-7 * (1.0 + wanted.abs()),
            "{what}, number {i}: {found} and {wanted}"
        );
    }
}

#[test]
fn gradients_agree_with_finite_differences() {
    let run = Run::default();
    let other = || ChainScores::new(tensor([2, 3, 3], 21), tensor([3, 3], 22));
    check("entropy", |a, b| entropy(&ChainScores::new(a, b), &Method::exact(), &run).unwrap());
    check("cross-entropy", |a, b| cross_entropy(&ChainScores::new(a, b), &other(), &run).unwrap());
    check("cross-entropy of the second", |a, b| {
        cross_entropy(&other(), &ChainScores::new(a, b), &run).unwrap()
    });
    check("KL", |a, b| kl(&ChainScores::new(a, b), &other(), &run).unwrap());
    // With uniform proposals the weights do not depend on the scores.
    let half = || Method::randomized().with("states", 2).with("proposal", "uniform");
    check("randomized log Z", |a, b| log_partition(&ChainScores::new(a, b), &half(), &run).unwrap());
    check("segments", |a, b| {
        let segments = tensor([2, 3], 31);
        log_partition(&ChainScores::new(a, b).with_segments(segments), &Method::exact(), &run).unwrap()
    });
    let weights = tensor([2, 2, 3, 3], 41);
    check("relaxed samples", |a, b| {
        let drawn =
            relaxed_sample(&ChainScores::new(a, b), &Method::exact(), 2, 0.7, &run.clone().with_seed(5))
                .unwrap();
        assert_eq!((drawn.hard.len(), drawn.hard[0].len(), drawn.hard[0][0].len()), (2, 2, 3));
        (drawn.soft * weights.clone()).sum()
    });
}

#[test]
fn single_precision_agrees_with_double() {
    type S = Autodiff<NdArray<f32>>;
    let single = |shape: Vec<usize>, seed: u64| {
        TensorData::new(numbers(shape.iter().product(), seed), shape).convert::<f32>()
    };
    let emissions = Tensor::<S, 3>::from_data(single(vec![2, 3, 3], 11), &Default::default()).require_grad();
    let transitions = Tensor::<S, 2>::from_data(single(vec![3, 3], 12), &Default::default());
    let chain = ChainScores::new(emissions.clone(), transitions);
    let found = log_partition(&chain, &Method::exact(), &Run::default()).unwrap();
    let chain = ChainScores::new(tensor([2, 3, 3], 11), tensor([3, 3], 12));
    let wanted = log_partition(&chain, &Method::exact(), &Run::default()).unwrap();
    let values: Vec<f64> = found.clone().into_data().iter::<f64>().collect();
    close(&values, &list(wanted.inner()), 1e-6, "single precision");
    let gradient = emissions.grad(&found.sum().backward()).unwrap();
    let sum: f64 = gradient.into_data().iter::<f64>().sum();
    assert!((sum - 6.0).abs() < 1e-5, "{sum}");
}

#[test]
fn bad_scores_are_errors_that_name_them() {
    let message = |chain: ChainScores<Inner>| {
        log_partition(&chain, &Method::exact(), &Run::default()).unwrap_err().to_string()
    };
    let emissions = || tensor([2, 3, 3], 1);
    assert!(message(ChainScores::new(emissions(), tensor([3, 2], 2))).contains("transitions"));
    assert!(message(ChainScores::per_step(emissions(), tensor([3, 3, 3], 2))).contains("[2, 3, 3]"));
    assert!(
        message(ChainScores::new(emissions(), tensor([3, 3], 2)).with_start(tensor([2], 3)))
            .contains("start")
    );
    assert!(
        message(ChainScores::new(emissions(), tensor([3, 3], 2)).with_lengths(vec![3])).contains("lengths")
    );
    assert!(message(ChainScores::new(emissions(), tensor([3, 3], 2)).with_lengths(vec![3, 4])).contains('4'));
    assert!(
        message(ChainScores::new(emissions(), tensor([3, 3], 2)).with_segments(tensor([2, 4], 3)))
            .contains("segments")
    );
    let nan = tensor([3, 3], 2) * f64::NAN;
    assert!(message(ChainScores::new(emissions(), nan)).contains("NaN"));
    let chain = ChainScores::new(emissions(), tensor([3, 3], 2));
    assert!(log_partition(&chain, &Method::randomized().with("k9", 1), &Run::default()).is_err());
    assert!(relaxed_sample(&chain, &Method::exact(), 1, 0.0, &Run::default()).is_err());
}
