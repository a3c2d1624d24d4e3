//! Values and gradients against burn's own differentiation of the naive formula and of sums over all paths, and against
//! finite differences.
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

/// The scores of all paths of each sequence, one tensor of N^length numbers for each.
fn all_scores(
    start: &Tensor<B, 1>,
    end: &Tensor<B, 1>,
    emissions: &Tensor<B, 3>,
    transitions: &Tensor<B, 4>,
    lengths: &[usize],
) -> Vec<Tensor<B, 1>> {
    let [_, _, states] = emissions.dims();
    let each = lengths.iter().enumerate().map(|(b, &length)| {
        let at = |t: usize| emissions.clone().slice([b..b + 1, t..t + 1]).reshape([1, states]);
        let mut scores = (start.clone().reshape([1, states]) + at(0)).reshape([states]);
        let mut count = states;
        for t in 1..length {
            let table = transitions.clone().slice([b..b + 1, t - 1..t]).reshape([1, states, states]);
            let longer = scores.reshape([count / states, states, 1]) + table + at(t).unsqueeze::<3>();
            count *= states;
            scores = longer.reshape([count]);
        }
        (scores.reshape([count / states, states]) + end.clone().reshape([1, states])).reshape([count])
    });
    each.collect()
}

/// log p of all paths of a sequence.
fn log_probabilities(scores: Tensor<B, 1>) -> Tensor<B, 1> {
    let log_z = scores.clone().exp().sum().log();
    scores - log_z
}

/// Entropy, cross-entropy and KL divergence by sums over all paths, which burn differentiates.
#[test]
fn divergences_agree_with_sums_over_all_paths() {
    let run = Run::default();
    /// Scores of a chain: start, end, emissions, and transitions of three forms.
    struct Scores {
        ends: [Tensor<B, 1>; 2],
        emissions: Tensor<B, 3>,
        two: Tensor<B, 2>,
        three: Tensor<B, 3>,
        pair: [Tensor<B, 2>; 2],
    }
    let scores = |seed: u64| Scores {
        ends: [tensor([STATES], seed), tensor([STATES], seed + 1)],
        emissions: tensor([BATCH, STEPS, STATES], seed + 2),
        two: tensor([STATES, STATES], seed + 3),
        three: tensor([STEPS - 1, STATES, STATES], seed + 4),
        pair: [tensor([STATES, 2], seed + 5), tensor([STATES, 2], seed + 6)],
    };
    let of = |own: &Scores, form: usize| -> (ChainScores<Inner>, Vec<Tensor<B, 1>>) {
        let Scores { ends: [start, end], emissions, two, three, pair: [left, right] } = own;
        let all = [BATCH, STEPS - 1, STATES, STATES];
        let shared = |table: Tensor<B, 2>| table.reshape([1, 1, STATES, STATES]).expand(all);
        let (chain, table) = match form {
            0 => (ChainScores::new(emissions.clone(), two.clone()), shared(two.clone())),
            1 => (
                ChainScores::per_step(emissions.clone(), three.clone()),
                three.clone().reshape([1, STEPS - 1, STATES, STATES]).expand(all),
            ),
            _ => (
                ChainScores::factored(emissions.clone(), left.clone(), right.clone()),
                shared(left.clone().matmul(right.clone().transpose())),
            ),
        };
        let chain = chain.with_start(start.clone()).with_end(end.clone()).with_lengths(LENGTHS.to_vec());
        (chain, all_scores(start, end, emissions, &table, &LENGTHS))
    };
    for form in 0..3 {
        let (p, q) = (scores(1), scores(51));
        let ((chain_p, paths_p), (chain_q, paths_q)) = (of(&p, form), of(&q, form));
        let pairs = || paths_p.iter().cloned().map(log_probabilities).zip(paths_q.iter().cloned());
        let over_paths = |of: &dyn Fn(Tensor<B, 1>, Tensor<B, 1>) -> Tensor<B, 1>| {
            Tensor::cat(pairs().map(|(log_p, q)| of(log_p, log_probabilities(q))).collect(), 0)
        };
        let exact = Method::exact();
        let cases = [
            (
                "entropy",
                entropy(&chain_p, &exact, &run).unwrap(),
                over_paths(&|log_p, _| -(log_p.clone().exp() * log_p).sum()),
            ),
            (
                "cross-entropy",
                cross_entropy(&chain_p, &chain_q, &run).unwrap(),
                over_paths(&|log_p, log_q| -(log_p.exp() * log_q).sum()),
            ),
            (
                "KL",
                kl(&chain_p, &chain_q, &run).unwrap(),
                over_paths(&|log_p, log_q| (log_p.clone().exp() * (log_p - log_q)).sum()),
            ),
        ];
        for (name, found, wanted) in cases {
            let what = format!("{name}, form {form}");
            close(&list(found.clone().inner()), &list(wanted.clone().inner()), 1e-12, &what);
            let weights = TensorData::new(vec![1.0, -0.5, 2.0], [BATCH]);
            let weights = Tensor::<B, 1>::from_data(weights, &found.device());
            let found = (found * weights.clone()).sum().backward();
            let wanted = (wanted * weights).sum().backward();
            let mut compared = 0;
            macro_rules! same {
                ($($tensor:expr),*) => {$(
                    match ($tensor.grad(&found), $tensor.grad(&wanted)) {
                        (Some(found), Some(wanted)) => {
                            close(&list(found), &list(wanted), 1e-10, &format!("{what}, {}", stringify!($tensor)));
                            compared += 1;
                        }
                        (None, None) => {}
                        _ => panic!("{what}: one gradient is missing: {}", stringify!($tensor)),
                    }
                )*};
            }
            for Scores { ends: [start, end], emissions, two, three, pair: [left, right] } in [&p, &q] {
                same!(start, end, emissions, two, three, left, right);
            }
            // Start, end, emissions and the transitions of each chain that occurs.
            let own = if form == 2 { 5 } else { 4 };
            assert_eq!(compared, if name == "entropy" { own } else { 2 * own }, "{what}");
        }
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
    check("randomized entropy", |a, b| entropy(&ChainScores::new(a, b), &half(), &run).unwrap());
    check("randomized entropy of one choice", |a, b| {
        let method = half().with("replicates", 1);
        entropy(&ChainScores::new(a, b), &method, &run.clone().with_seed(8)).unwrap()
    });
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
