//! Values and gradients against burn's own differentiation of the naive formula and of sums over all paths, and against
//! finite differences.
#![allow(clippy::unwrap_used, clippy::panic)]

use burn_autodiff::Autodiff;
use burn_flex::Flex;
use burn_ndarray::NdArray;
use burn_tensor::backend::Backend;
use burn_tensor::{Tensor, TensorData};
use zhat::Run;
use zhat_burn::{
    ChainScores, Method, best, cross_entropy, entropy, kl, log_partition, log_probability, relaxed_sample,
    score,
};

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

/// Scores of a chain in all forms.
struct Leaves {
    ends: [Tensor<B, 1>; 2],
    emissions: Tensor<B, 3>,
    factors: [Tensor<B, 2>; 3],
    two: Tensor<B, 2>,
    three: Tensor<B, 3>,
    four: Tensor<B, 4>,
}

const FORMS: [&str; 5] = ["shared", "per step", "per sequence", "factored", "low rank"];

impl Leaves {
    fn new() -> Self {
        Leaves {
            ends: [tensor([STATES], 1), tensor([STATES], 2)],
            emissions: tensor([BATCH, STEPS, STATES], 3),
            factors: [4, 5, 6].map(|seed| tensor([STATES, 2], seed)),
            two: tensor([STATES, STATES], 7),
            three: tensor([STEPS - 1, STATES, STATES], 8),
            four: tensor([BATCH, STEPS - 1, STATES, STATES], 9),
        }
    }

    /// A chain, and its transitions as one tensor.
    fn chain(&self, form: &str) -> (ChainScores<Inner>, Tensor<B, 4>) {
        let Leaves { ends: [start, end], emissions, factors: [left, right, of_rank], .. } = self;
        let (two, three, four) = (self.two.clone(), self.three.clone(), self.four.clone());
        let all = [BATCH, STEPS - 1, STATES, STATES];
        let shared = |table: Tensor<B, 2>| table.reshape([1, 1, STATES, STATES]).expand(all);
        let (chain, table) = match form {
            "shared" => (ChainScores::new(emissions.clone(), two.clone()), shared(two)),
            "per step" => (
                ChainScores::per_step(emissions.clone(), three.clone()),
                three.reshape([1, STEPS - 1, STATES, STATES]).expand(all),
            ),
            "per sequence" => (ChainScores::per_sequence(emissions.clone(), four.clone()), four),
            "factored" => (
                ChainScores::factored(emissions.clone(), left.clone(), right.clone()),
                shared(left.clone().matmul(right.clone().transpose())),
            ),
            _ => (
                ChainScores::low_rank(emissions.clone(), left.clone(), of_rank.clone()),
                shared(left.clone().exp().matmul(of_rank.clone().exp().transpose()).log()),
            ),
        };
        (chain.with_start(start.clone()).with_end(end.clone()).with_lengths(LENGTHS.to_vec()), table)
    }

    /// Compares values, and the gradients of a weighted sum of them.
    fn same(&self, found: Tensor<B, 1>, wanted: Tensor<B, 1>, form: &str) {
        close(&list(found.clone().inner()), &list(wanted.clone().inner()), 1e-12, form);
        let weights =
            Tensor::<B, 1>::from_data(TensorData::new(vec![1.0, -0.5, 2.0], [BATCH]), &Default::default());
        let found = (found * weights.clone()).sum().backward();
        let wanted = (wanted * weights).sum().backward();
        let mut compared = 0;
        macro_rules! same {
            ($($tensor:expr),*) => {$(
                match ($tensor.grad(&found), $tensor.grad(&wanted)) {
                    (Some(found), Some(wanted)) => {
                        close(&list(found), &list(wanted), 1e-10, form);
                        compared += 1;
                    }
                    (None, None) => {}
                    _ => panic!("{form}: one gradient is missing: {}", stringify!($tensor)),
                }
            )*};
        }
        let Leaves { ends: [start, end], emissions, factors: [left, right, of_rank], two, three, four } =
            self;
        same!(start, end, emissions, left, right, of_rank, two, three, four);
        // Start, end, emissions and the transitions.
        assert_eq!(compared, if ["factored", "low rank"].contains(&form) { 5 } else { 4 }, "{form}");
    }
}

#[test]
fn log_partition_agrees_with_the_naive_formula() {
    for form in FORMS {
        let leaves = Leaves::new();
        let (chain, table) = leaves.chain(form);
        let found = log_partition(&chain, &Method::exact(), &Run::default()).unwrap();
        let [start, end] = leaves.ends.clone();
        leaves.same(found, naive(start, end, leaves.emissions.clone(), table, &LENGTHS), form);
    }
}

/// The states of path `code` of `length` positions, the first one most significant.
fn states_of(code: usize, length: usize) -> Vec<usize> {
    (0..length).rev().map(|t| code / STATES.pow(t as u32) % STATES).collect()
}

#[test]
fn scores_of_given_states_agree_with_sums_over_all_paths() {
    let run = Run::default();
    for form in FORMS {
        let leaves = Leaves::new();
        let (chain, _) = leaves.chain(form);
        let all = || {
            let (_, table) = leaves.chain(form);
            all_scores(&leaves.ends[0], &leaves.ends[1], &leaves.emissions, &table, &LENGTHS)
        };
        for seed in 0..4 {
            // Codes of paths, one for each sequence.
            let codes = LENGTHS.iter().enumerate();
            let codes: Vec<usize> =
                codes.map(|(b, &n)| (seed * 389 + b * 71 + 5) % STATES.pow(n as u32)).collect();
            let states: Vec<Vec<usize>> =
                codes.iter().zip(&LENGTHS).map(|(&code, &length)| states_of(code, length)).collect();
            // A new graph each time: a backward pass frees the nodes that it visits.
            let pick = |of: &dyn Fn(Tensor<B, 1>) -> Tensor<B, 1>| {
                let own = all().into_iter().zip(&codes).map(|(scores, &code)| of(scores).narrow(0, code, 1));
                Tensor::cat(own.collect(), 0)
            };
            leaves.same(score(&chain, &states).unwrap(), pick(&|scores| scores), form);
            let wanted = pick(&log_probabilities);
            leaves.same(log_probability(&chain, &states, &run).unwrap(), wanted, form);
        }
        // The best path has the largest score.
        let states = best(&chain, &run).unwrap();
        let largest = all()
            .into_iter()
            .map(|scores| list(scores.inner()).into_iter().fold(f64::NEG_INFINITY, f64::max));
        let largest: Vec<f64> = largest.collect();
        close(&list(score(&chain, &states).unwrap().inner()), &largest, 1e-12, form);
    }
    // A single position has no transitions.
    let chain = ChainScores::new(tensor([2, 1, 3], 1), tensor([3, 3], 2));
    let own = numbers(6, 1);
    close(
        &list(score(&chain, &[vec![2], vec![0]]).unwrap().inner()),
        &[own[2], own[3]],
        1e-15,
        "one position",
    );
}

#[test]
fn states_that_do_not_fit_are_errors() {
    let chain = || ChainScores::new(tensor([2, 3, 3], 1), tensor([3, 3], 2)).with_lengths(vec![3, 2]);
    let message = |states: &[Vec<usize>]| score::<Inner, _>(&chain(), states).unwrap_err().to_string();
    assert!(message(&[vec![0, 1, 2]]).contains("expected 2"));
    assert!(message(&[vec![0, 1, 2], vec![0, 1, 2]]).contains("sequence 1 has 3 of them, expected 2"));
    assert!(message(&[vec![0, 1, 3], vec![0, 1]]).contains("sequence 0 has state 3, expected less than 3"));
    let segments = chain().with_segments(tensor([2, 3], 3));
    assert!(score(&segments, &[vec![0, 1, 2], vec![0, 1]]).unwrap_err().to_string().contains("segments"));
    assert!(best(&segments, &Run::default()).unwrap_err().to_string().contains("segments"));
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
        for name in ["entropy", "cross-entropy", "KL"] {
            // New graphs for each case: a backward pass frees the nodes that it visits, also those of other results.
            let (p, q) = (scores(1), scores(51));
            let ((chain_p, paths_p), (chain_q, paths_q)) = (of(&p, form), of(&q, form));
            let over_paths = |of: &dyn Fn(Tensor<B, 1>, Tensor<B, 1>) -> Tensor<B, 1>| {
                let pairs = paths_p.iter().cloned().zip(paths_q.iter().cloned());
                Tensor::cat(pairs.map(|(p, q)| of(log_probabilities(p), log_probabilities(q))).collect(), 0)
            };
            let exact = Method::exact();
            let (found, wanted) = match name {
                "entropy" => (
                    entropy(&chain_p, &exact, &run),
                    over_paths(&|log_p, _| -(log_p.clone().exp() * log_p).sum()),
                ),
                "cross-entropy" => (
                    cross_entropy(&chain_p, &chain_q, &run),
                    over_paths(&|log_p, log_q| -(log_p.exp() * log_q).sum()),
                ),
                _ => (
                    kl(&chain_p, &chain_q, &run),
                    over_paths(&|log_p, log_q| (log_p.clone().exp() * (log_p - log_q)).sum()),
                ),
            };
            let found = found.unwrap();
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
    let weights = tensor([2, 2, 3, 3], 41);
    check("relaxed samples", |a, b| {
        let drawn =
            relaxed_sample(&ChainScores::new(a, b), &Method::exact(), 2, 0.7, &run.clone().with_seed(5))
                .unwrap();
        assert_eq!((drawn.hard.len(), drawn.hard[0].len(), drawn.hard[0][0].len()), (2, 2, 3));
        (drawn.soft * weights.clone()).sum()
    });
}

/// The divisions of `length` positions into segments of at most `longest`, as lists of lengths and states.
fn segmentations(length: usize, longest: usize, states: usize) -> Vec<Vec<(usize, usize)>> {
    if length == 0 {
        return vec![Vec::new()];
    }
    let first = (1..=longest.min(length)).flat_map(|own| (0..states).map(move |state| (own, state)));
    let all = first.flat_map(|(own, state)| {
        let rest = segmentations(length - own, longest, states).into_iter();
        rest.map(move |rest| [vec![(own, state)], rest].concat())
    });
    all.collect()
}

/// log p of all divisions of each sequence and log Z, by the definition of the model: two sequences of 4 and 3
/// positions, two states and segments of at most 3, from emissions, transitions and scores of segments in one list.
fn segment_logs(scores: &[f64]) -> Vec<(Vec<f64>, f64)> {
    let (emissions, rest) = scores.split_at(16);
    let (transitions, segments) = rest.split_at(4);
    let of = |(b, length): (usize, usize)| {
        let score = |division: &Vec<(usize, usize)>| {
            let (mut total, mut at, mut before) = (0.0, 0, None);
            for &(own, state) in division {
                total += before.map_or(0.0, |before: usize| transitions[before * 2 + state]);
                total += segments[(own - 1) * 2 + state];
                total += (at..at + own).map(|t| emissions[(b * 4 + t) * 2 + state]).sum::<f64>();
                (at, before) = (at + own, Some(state));
            }
            total
        };
        let all: Vec<f64> = segmentations(length, 3, 2).iter().map(score).collect();
        let log_z = all.iter().map(|x| x.exp()).sum::<f64>().ln();
        (all.iter().map(|x| x - log_z).collect(), log_z)
    };
    [(0, 4), (1, 3)].into_iter().map(of).collect()
}

#[test]
fn segments_agree_with_sums_over_all_divisions() {
    assert_eq!(segmentations(3, 2, 2).len(), 8 + 4 + 4);
    let run = Run::default();
    let exact = Method::exact();
    type Enumerated = fn(&[f64], f64, &[f64]) -> f64;
    let cases: [(&str, Enumerated); 4] = [
        ("log Z", |_, log_z, _| log_z),
        ("entropy", |p, _, _| -p.iter().map(|log| log.exp() * log).sum::<f64>()),
        ("cross-entropy", |p, _, q| -p.iter().zip(q).map(|(p, q)| p.exp() * q).sum::<f64>()),
        ("KL", |p, _, q| p.iter().zip(q).map(|(p, q)| p.exp() * (p - q)).sum::<f64>()),
    ];
    for (name, enumerated) in cases {
        let leaves = |seed: u64| {
            (tensor::<3>([2, 4, 2], seed), tensor::<2>([2, 2], seed + 1), tensor::<2>([3, 2], seed + 2))
        };
        let chain = |(emissions, transitions, segments): &(Tensor<B, 3>, Tensor<B, 2>, Tensor<B, 2>)| {
            let chain = ChainScores::new(emissions.clone(), transitions.clone());
            chain.with_segments(segments.clone()).with_lengths(vec![4, 3])
        };
        let (p, q) = (leaves(31), leaves(61));
        let (of_p, of_q) = (chain(&p), chain(&q));
        let found = match name {
            "log Z" => log_partition(&of_p, &exact, &run),
            "entropy" => entropy(&of_p, &exact, &run),
            "cross-entropy" => cross_entropy(&of_p, &of_q, &run),
            _ => kl(&of_p, &of_q, &run),
        }
        .unwrap();
        let values = |scores: &[f64]| -> Vec<f64> {
            let (p, q) = scores.split_at(26);
            let pairs = segment_logs(p).into_iter().zip(segment_logs(q));
            pairs.map(|((p, log_z), (q, _))| enumerated(&p, log_z, &q)).collect()
        };
        let flat: Vec<f64> = [&p, &q]
            .into_iter()
            .flat_map(|(a, b, c)| {
                [list(a.clone().inner()), list(b.clone().inner()), list(c.clone().inner())].concat()
            })
            .collect();
        close(&list(found.clone().inner()), &values(&flat), 1e-12, name);
        let weights = [1.0, -0.6];
        let tensor = Tensor::<B, 1>::from_data(TensorData::new(weights.to_vec(), [2]), &Default::default());
        let gradients = (found * tensor).sum().backward();
        let of = |found: Option<Tensor<Inner, 2>>, count: usize| found.map_or(vec![0.0; count], list);
        let found: Vec<f64> = [&p, &q]
            .into_iter()
            .flat_map(|(a, b, c)| {
                let emissions = a.grad(&gradients).map_or(vec![0.0; 16], list);
                [emissions, of(b.grad(&gradients), 4), of(c.grad(&gradients), 6)].concat()
            })
            .collect();
        let step = 1e-5;
        let wanted: Vec<f64> = (0..flat.len())
            .map(|i| {
                let moved = |by: f64| {
                    let mut point = flat.clone();
                    point[i] += by;
                    values(&point).iter().zip(&weights).map(|(x, w)| x * w).sum::<f64>()
                };
                (moved(step) - moved(-step)) / (2.0 * step)
            })
            .collect();
        close(&found, &wanted, 1e-8, name);
        assert!(found.iter().any(|x| x.abs() > 0.1), "{name}");
    }
}

/// Values and gradients of all operations in the precision of a back end. burn has one precision per kind of device and
/// process, so `NdArray<f32>` and `NdArray<f64>` cannot be compared.
fn operations<I: Backend>() -> Vec<(&'static str, Vec<f64>)> {
    fn numbers_of<I: Backend, const D: usize>(tensor: Tensor<I, D>) -> Vec<f64> {
        tensor.into_data().iter::<f64>().collect()
    }
    let run = Run::default().with_seed(5);
    let exact = Method::exact();
    let names = ["log Z", "entropy", "cross-entropy", "KL", "samples", "segments", "log p"];
    let of = |name: &'static str| {
        let data = |shape: &[usize], seed: u64| {
            TensorData::new(numbers(shape.iter().product(), seed), shape.to_vec())
        };
        let leaves = |seed: u64| {
            let device = Default::default();
            let emissions =
                Tensor::<Autodiff<I>, 3>::from_data(data(&[2, 3, 3], seed), &device).require_grad();
            let transitions =
                Tensor::<Autodiff<I>, 2>::from_data(data(&[3, 3], seed + 1), &device).require_grad();
            (emissions, transitions)
        };
        let (p, q) = (leaves(11), leaves(21));
        let chain = |(a, b): &(Tensor<Autodiff<I>, 3>, Tensor<Autodiff<I>, 2>)| {
            ChainScores::new(a.clone(), b.clone())
        };
        let (of_p, of_q) = (chain(&p), chain(&q));
        let device = Default::default();
        let found: Tensor<Autodiff<I>, 1> = match name {
            "log Z" => log_partition(&of_p, &exact, &run).unwrap(),
            "entropy" => entropy(&of_p, &exact, &run).unwrap(),
            "cross-entropy" => cross_entropy(&of_p, &of_q, &run).unwrap(),
            "KL" => kl(&of_p, &of_q, &run).unwrap(),
            "samples" => {
                let weights = Tensor::from_data(data(&[2, 2, 3, 3], 41), &device);
                let soft = relaxed_sample(&of_p, &exact, 2, 0.7, &run).unwrap().soft;
                (soft * weights).sum()
            }
            "segments" => {
                let segments = Tensor::from_data(data(&[2, 3], 31), &device);
                entropy(&of_p.with_segments(segments), &exact, &run).unwrap()
            }
            _ => log_probability(&of_p, &[vec![0, 2, 1], vec![1, 1, 0]], &run).unwrap(),
        };
        let gradients = found.clone().sum().backward();
        let mut all = numbers_of(found.inner());
        for (a, b) in [&p, &q] {
            all.extend(a.grad(&gradients).map(numbers_of).unwrap_or_default());
            all.extend(b.grad(&gradients).map(numbers_of).unwrap_or_default());
        }
        (name, all)
    };
    names.map(of).into_iter().collect()
}

#[test]
fn single_precision_agrees_with_double() {
    for ((name, found), (_, wanted)) in operations::<Flex>().into_iter().zip(operations::<Inner>()) {
        // The values of both sequences, or their sum, and at least 27 gradients.
        assert!(found.len() >= 28, "{name}");
        close(&found, &wanted, 1e-5, name);
        assert!(found != wanted, "{name}: both are in one precision");
    }
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

#[test]
fn forbidden_transitions_of_low_rank_have_no_nan() {
    // No transition leaves state 0.
    let mut numbers = numbers(6, 3);
    numbers[..2].fill(f64::NEG_INFINITY);
    let left =
        Tensor::<B, 2>::from_data(TensorData::new(numbers, [3, 2]), &Default::default()).require_grad();
    let (emissions, right) = (tensor([3, 3, 3], 4), tensor([3, 2], 5));
    let chain =
        ChainScores::low_rank(emissions.clone(), left.clone(), right.clone()).with_lengths(vec![3, 1, 2]);
    let states = [vec![1, 2, 0], vec![0], vec![0, 1]];
    let scores = score(&chain, &states).unwrap();
    let found = list(scores.clone().inner());
    assert!(found[0].is_finite() && found[1].is_finite(), "{found:?}");
    assert_eq!(found[2], f64::NEG_INFINITY);
    let (own, of) = (list(left.clone().inner()), list(right.clone().inner()));
    let step = |i: usize, j: usize| (0..2).map(|r| (own[2 * i + r] + of[2 * j + r]).exp()).sum::<f64>().ln();
    let at = list(emissions.clone().inner());
    assert!((found[0] - (at[1] + at[5] + at[6] + step(1, 2) + step(2, 0))).abs() < 1e-12);
    let gradients = scores.narrow(0, 0, 2).sum().backward();
    for gradient in [left.grad(&gradients).unwrap(), right.grad(&gradients).unwrap()] {
        assert!(list(gradient).iter().all(|x| x.is_finite()));
    }
}
