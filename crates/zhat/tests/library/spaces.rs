//! Combinatorial spaces: samplers, counts, moves, exact methods.

use std::collections::HashMap;
use std::time::Duration;

use crate::support::statistics::{ALARM, multinomial_tail};
use crate::support::structures::{self, Listed};
use zhat::exact::Enumeration;
use zhat::random::{Stream, Streams};
use zhat::space::{
    Cycles, Distance, Hypercube, Oracle, Partitions, Permutations, Scores, Space, SpaceModel, Step,
    Structures, Subtrees,
};
use zhat::{Entropy, Error, FactorMarginals, Guarantee, LogPartition, Map, Run, Sample};

/// A binary heap with this number of nodes.
pub fn heap(nodes: usize, empty: bool) -> Subtrees {
    let parents: Vec<Option<usize>> = (0..nodes).map(|v| (v > 0).then(|| (v - 1) / 2)).collect();
    Subtrees::new(&parents, empty).unwrap()
}

/// A random tree with nodes in random order.
pub fn tree(random: &mut Stream, nodes: usize, empty: bool) -> Subtrees {
    let mut names: Vec<usize> = (0..nodes).collect();
    random.shuffle(&mut names);
    let mut parents = vec![None; nodes];
    for v in 1..nodes {
        parents[names[v]] = Some(names[random.below(v)]);
    }
    Subtrees::new(&parents, empty).unwrap()
}

pub fn numbers(random: &mut Stream, count: usize, scale: f64) -> Vec<f64> {
    (0..count).map(|_| scale * random.normal()).collect()
}

pub fn all_pairs(random: &mut Stream, n: usize, scale: f64, share: f64) -> Vec<(usize, usize, f64)> {
    let mut pairs = Vec::new();
    for i in 0..n {
        for j in i + 1..n {
            if random.uniform() < share {
                pairs.push((j, i, scale * random.normal()));
            }
        }
    }
    pairs
}

/// Small random models of each kind.
pub fn small(seed: u64, scale: f64) -> Vec<SpaceModel> {
    let mut random = Streams::new(seed, "small spaces").block(0);
    let random = &mut random;
    let mut models = Vec::new();
    let mut push = |space: Structures, scores: Scores| models.push(SpaceModel::new(space, scores).unwrap());
    for signs in [false, true] {
        let n = random.below(7);
        let cube = if signs { Hypercube::signs(n).unwrap() } else { Hypercube::new(n).unwrap() };
        push(cube.into(), Scores::Unary(numbers(random, n, scale)));
        let (weights, inputs) = (numbers(random, 3 * n, scale), numbers(random, 3, 1.0));
        push(cube.into(), Scores::products(weights, inputs).unwrap());
        let pairs = all_pairs(random, n, scale, 0.6);
        push(cube.into(), Scores::pairwise(numbers(random, n, scale), &pairs).unwrap());
    }
    for empty in [false, true] {
        let n = 1 + random.below(8);
        let space = tree(random, n, empty);
        push(space.clone().into(), Scores::Unary(numbers(random, n, scale)));
        let pairs = all_pairs(random, n, scale, 0.5);
        push(space.into(), Scores::pairwise(numbers(random, n, scale), &pairs).unwrap());
    }
    let n = random.below(6);
    let orders: Structures = Permutations::new(n).unwrap().into();
    push(orders.clone(), Scores::Position(numbers(random, n * n, scale)));
    push(orders.clone(), Scores::Precedence(numbers(random, n * n, scale)));
    let mut reference: Vec<usize> = (0..n).collect();
    random.shuffle(&mut reference);
    for distance in Distance::ALL {
        let spread = 0.3 * scale * random.normal();
        push(orders.clone(), Scores::distance(distance, &reference, spread).unwrap());
    }
    let n = 3 + random.below(4);
    let pairs = all_pairs(random, n, scale, 0.8);
    push(Cycles::new(n).unwrap().into(), Scores::links(n, &pairs).unwrap());
    let n = 1 + random.below(6);
    let pairs = all_pairs(random, n, scale, 0.8);
    push(Partitions::new(n).unwrap().into(), Scores::links(n, &pairs).unwrap());
    models
}

fn log_partition(model: &SpaceModel) -> f64 {
    Oracle::default().log_partition(model, &Run::default()).unwrap().value
}

#[test]
fn reference_values() {
    let close = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9, "{found} {expected}");
    let sines: Vec<f64> = (1..=20).map(|i| f64::from(i).sin()).collect();
    let cube = |space: Hypercube| SpaceModel::new(space, Scores::Unary(sines.clone())).unwrap();
    close(log_partition(&cube(Hypercube::new(20).unwrap())), 15.610925383253);
    close(log_partition(&cube(Hypercube::signs(20).unwrap())), 18.480124340544);
    let matrix: Vec<f64> = (1..=6).flat_map(|i| (1..=6).map(move |j| f64::from(i * j).sin())).collect();
    let six = Permutations::new(6).unwrap();
    close(log_partition(&SpaceModel::new(six, Scores::Position(matrix.clone())).unwrap()), 6.640724319037);
    close(log_partition(&SpaceModel::new(six, Scores::Precedence(matrix)).unwrap()), 3.645938038273);
    for (distance, n, expected) in [
        (Distance::Kendall, 7, 4.572559334282),
        (Distance::Kendall, 10, 7.334398364439),
        (Distance::Kendall, 50, 44.634083801502),
        (Distance::Cayley, 10, 11.755114853640),
        (Distance::Hamming, 10, 10.753133843657),
    ] {
        let reference: Vec<usize> = (0..n).rev().collect();
        let scores = Scores::distance(distance, &reference, 0.5).unwrap();
        close(log_partition(&SpaceModel::new(Permutations::new(n).unwrap(), scores).unwrap()), expected);
    }
    let heap = heap(15, true);
    close(heap.log_count().unwrap(), 677f64.ln());
    let scores = Scores::Unary((1..=15).map(|v| f64::from(v).sin()).collect());
    close(log_partition(&SpaceModel::new(heap, scores).unwrap()), 8.694605599017);
    let pairs = |n: usize, score: fn(f64, f64) -> f64| -> Vec<(usize, usize, f64)> {
        (0..n).flat_map(|u| (u + 1..n).map(move |v| (u, v, score(u as f64 + 1.0, v as f64 + 1.0)))).collect()
    };
    for (n, count) in [(3, 1.0), (4, 7.0), (5, 37.0), (6, 197.0), (7, 1172.0), (8, 8018f64)] {
        close(Cycles::new(n).unwrap().log_count().unwrap(), count.ln());
    }
    let links = Scores::links(8, &pairs(8, |u, v| (u + 2.0 * v).cos())).unwrap();
    close(log_partition(&SpaceModel::new(Cycles::new(8).unwrap(), links).unwrap()), 10.240418051936);
    let links = Scores::links(8, &pairs(8, |i, j| (3.0 * i + 5.0 * j).sin())).unwrap();
    close(log_partition(&SpaceModel::new(Partitions::new(8).unwrap(), links).unwrap()), 9.546473428757);
}

/// Both exact methods against enumeration: log Z, gradient, entropy and best score, for small and huge
/// scores.
#[test]
fn exact_methods_agree_with_enumeration() {
    let run = Run::default();
    let (oracle, enumeration) = (Oracle::default(), Enumeration::default());
    for seed in 0..25 {
        for (scale, tolerance) in [(0.0, 1e-12), (1.0, 1e-11), (30.0, 1e-10), (1e4, 1e-7)] {
            for model in small(seed, scale) {
                let name = format!("{seed} {scale} {} {}", model.space().name(), model.scores().name());
                let list = Listed::new(&model);
                let z = list.log_partition();
                for found in [oracle.log_partition(&model, &run), enumeration.log_partition(&model, &run)] {
                    let found = found.unwrap();
                    assert!((found.value - z).abs() <= tolerance, "{name}: {found} {z}");
                    let allowed = found.diagnostics.rounding + list.allowance;
                    assert!((found.value - z).abs() <= allowed, "{name}: {found} {z} {allowed}");
                    assert_eq!(found.guarantee, Guarantee::Exact);
                }
                let count = (list.structures.len() as f64).ln();
                assert!((count - model.space().log_count().unwrap()).abs() < 1e-11, "{name}");

                let truth = list.gradient();
                assert_eq!(truth.len(), model.dimension());
                for found in
                    [oracle.factor_marginals(&model, &run), enumeration.factor_marginals(&model, &run)]
                {
                    for (a, b) in found.unwrap().value.values.iter().zip(&truth) {
                        assert!((a - b).abs() <= 1e2 * tolerance, "{name}: {a} {b}");
                    }
                }
                let truth = list.entropy();
                for found in [oracle.entropy(&model, &run), enumeration.entropy(&model, &run)] {
                    let found = found.unwrap();
                    assert!((found.value - truth).abs() <= 1e2 * tolerance, "{name}: {found} {truth}");
                }
                let best = list.best();
                for found in [oracle.map(&model, &run), enumeration.map(&model, &run)] {
                    let found = found.unwrap().value;
                    assert!((found.score - best).abs() <= tolerance * 1e-2 + 1e-12, "{name}");
                    let state: Vec<u32> = found.state.iter().map(|x| *x as u32).collect();
                    assert!(list.structures.contains(&state), "{name}: {state:?}");
                }
                let (low, high) = model.range();
                let slack = model.slack() + list.allowance;
                assert!(list.scores.iter().all(|s| *s <= high + slack && low <= *s + slack), "{name}");
            }
        }
    }
}

/// Every kind of scores and every distance against sums over features that are implemented in the tests.
#[test]
fn scores_and_features_are_those_of_their_definitions() {
    let mut kinds = std::collections::BTreeSet::new();
    for seed in 0..8 {
        for scale in [1.0, 1e4] {
            for model in small(seed, scale) {
                let list = Listed::new(&model);
                let theta = structures::parameters(&model);
                let name = match model.scores() {
                    Scores::Distance { distance, .. } => distance.name(),
                    other => other.name(),
                };
                kinds.insert(name);
                assert_eq!(model.parameters(), theta, "{name}");
                for (y, score) in list.structures.iter().zip(&list.scores) {
                    let own = model.score(y).unwrap();
                    assert!((own - score).abs() <= model.slack() + list.allowance, "{name}: {own} {score}");
                    let mut features = vec![0.0; theta.len()];
                    model.add_features(y, 1.0, &mut features).unwrap();
                    let close = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-14 * (1.0 + b.abs());
                    let want = structures::features(&model, y);
                    assert!(features.iter().zip(&want).all(close), "{name}: {features:?} {want:?}");
                }
            }
        }
    }
    let all = [
        "unary",
        "products",
        "pairwise",
        "position",
        "precedence",
        "links",
        "kendall",
        "cayley",
        "hamming",
        "footrule",
        "spearman",
    ];
    assert!(all.iter().all(|kind| kinds.contains(kind)), "{kinds:?}");
    for distance in Distance::ALL {
        assert!(all.contains(&distance.name()), "{distance:?} is not tested");
    }
}

/// All structures enumerated by the space, in its own order.
pub fn enumerated(space: &dyn Space) -> Vec<Vec<u32>> {
    let mut all = Vec::new();
    let mut keep = |structure: &[u32]| {
        all.push(structure.to_vec());
        true
    };
    space.enumerate(&Run::default().start("list"), &mut keep).unwrap();
    all
}

/// Asserts that a space enumerates exactly the structures listed by the tests, each once.
pub fn enumerates_the_list(space: &Structures) {
    let (mut own, mut list) = (enumerated(space.as_space()), structures::structures(space));
    own.sort_unstable();
    list.sort_unstable();
    assert_eq!(own, list, "{space:?}");
}

#[test]
fn every_space_enumerates_exactly_its_structures() {
    for space in spaces() {
        enumerates_the_list(&space);
    }
    for n in 0..8 {
        enumerates_the_list(&Hypercube::new(n).unwrap().into());
        enumerates_the_list(&Permutations::new(n.min(6)).unwrap().into());
        enumerates_the_list(&Partitions::new(n + 1).unwrap().into());
        enumerates_the_list(&Cycles::new((n + 3).min(8)).unwrap().into());
    }
    let mut random = Streams::new(11, "lists").block(0);
    for seed in 0..20 {
        enumerates_the_list(&tree(&mut random, 1 + seed % 10, seed % 2 == 0).into());
    }
}

/// The structures of a space, listed by the tests, and the index of each in the list.
pub fn listed(space: &Structures) -> (Vec<Vec<u32>>, HashMap<Vec<u32>, usize>) {
    let all = structures::structures(space);
    let places: HashMap<Vec<u32>, usize> = all.iter().cloned().enumerate().map(|(i, s)| (s, i)).collect();
    assert_eq!(places.len(), all.len());
    (all, places)
}

fn spaces() -> Vec<Structures> {
    let mut random = Streams::new(8, "spaces").block(0);
    vec![
        Hypercube::new(7).unwrap().into(),
        Permutations::new(5).unwrap().into(),
        Permutations::new(1).unwrap().into(),
        heap(7, true).into(),
        tree(&mut random, 9, false).into(),
        tree(&mut random, 8, true).into(),
        Cycles::new(3).unwrap().into(),
        Cycles::new(6).unwrap().into(),
        Partitions::new(1).unwrap().into(),
        Partitions::new(6).unwrap().into(),
    ]
}

#[test]
fn uniform_draws_are_uniform_and_canonical() {
    let run = Run::default();
    let clock = run.start("draws");
    for (k, space) in spaces().iter().enumerate() {
        let (all, places) = listed(space);
        let space = space.as_space();
        assert!((space.log_count().unwrap() - (all.len() as f64).ln()).abs() < 1e-12, "{space:?}");
        let mut random = Streams::new(k as u64, "uniform draws").block(0);
        let mut counts = vec![0; all.len()];
        let mut structure = vec![0; space.width()];
        for _ in 0..200 * all.len() {
            space.uniform(&mut random, &mut structure, &clock).unwrap();
            counts[places[&structure]] += 1;
        }
        let law = vec![1.0 / all.len() as f64; all.len()];
        assert!(multinomial_tail(&counts, &law) > ALARM, "{space:?}");
        for structure in &all {
            space.check(structure).unwrap();
            let mut same = structure.clone();
            space.canonical(&mut same);
            assert_eq!(&same, structure);
        }
    }
}

/// Detailed balance: with the Metropolis rule for the uniform distribution, moves from a to b are as frequent
/// as from b to a, and every structure is reached. Incremental changes of the score agree with the full
/// score.
#[test]
fn moves_satisfy_detailed_balance_and_report_the_change_of_score() {
    let run = Run::default();
    let clock = run.start("moves");
    for (k, space) in spaces().iter().enumerate() {
        let (all, places) = listed(space);
        let mut random = Streams::new(k as u64, "moves").block(0);
        let mut flows: HashMap<(usize, usize), u64> = HashMap::new();
        let mut reached = vec![false; all.len()];
        let mut at = all[0].clone();
        let mut step = Step::default();
        let steps = 2000 * all.len();
        for _ in 0..steps {
            let from = at.clone();
            step.changes.clear();
            let ratio = space.as_space().propose(&mut random, &mut at, &mut step, &clock).unwrap();
            if random.uniform() >= ratio.exp() {
                step.undo(&mut at);
                assert_eq!(at, from);
            }
            let canonical = |structure: &[u32]| {
                let mut structure = structure.to_vec();
                space.as_space().canonical(&mut structure);
                places[&structure]
            };
            let (a, b) = (canonical(&from), canonical(&at));
            reached[b] = true;
            if a != b {
                *flows.entry((a, b)).or_default() += 1;
            }
        }
        assert!(reached.iter().all(|x| *x) || all.len() == 1, "{space:?}");
        // In equilibrium the two flows of a pair differ by at most one move plus noise: a fair coin, with
        // Hoeffding's bound for all pairs simultaneously.
        for (&(a, b), &forth) in &flows {
            let back = flows.get(&(b, a)).copied().unwrap_or(0);
            let total = (forth + back) as f64;
            let radius = (0.5 * (2.0 * flows.len() as f64 / ALARM).ln() / total).sqrt();
            assert!((forth as f64 / total - 0.5).abs() <= radius + 1.0 / total, "{space:?} {forth} {back}");
        }
    }
    for seed in 0..10 {
        for model in small(seed, 2.0) {
            let mut random = Streams::new(seed, "changes").block(0);
            let mut at = vec![0; model.width()];
            model.space().uniform(&mut random, &mut at, &clock).unwrap();
            let mut score = model.score(&at).unwrap();
            let mut step = Step::default();
            for _ in 0..200 {
                step.changes.clear();
                model.space().propose(&mut random, &mut at, &mut step, &clock).unwrap();
                score = model.score_after(score, &at, &step).unwrap();
                let whole = model.score(&at).unwrap();
                assert!((score - whole).abs() < 1e-10, "{} {}", model.space().name(), model.scores().name());
            }
        }
    }
}

/// The distribution of a model by enumeration, and the index of each structure.
pub fn law(model: &SpaceModel) -> (Vec<f64>, HashMap<Vec<u32>, usize>) {
    let list = Listed::new(model);
    (list.law(), list.places())
}

pub fn counts(samples: &zhat::Samples, places: &HashMap<Vec<u32>, usize>) -> Vec<u64> {
    let mut counts = vec![0; places.len()];
    for state in samples.iter() {
        let structure: Vec<u32> = state.iter().map(|x| *x as u32).collect();
        counts[places[&structure]] += 1;
    }
    counts
}

#[test]
fn exact_draws_follow_the_model() {
    for seed in 0..3 {
        for model in small(seed, 1.5) {
            let (law, places) = law(&model);
            let run = Run::default().with_seed(seed);
            for samples in [
                Oracle::default().sample(&model, 20_000, &run).unwrap().value,
                Enumeration::default().sample(&model, 5_000, &run).unwrap().value,
            ] {
                let counts = counts(&samples, &places);
                let name = format!("{seed} {} {}", model.space().name(), model.scores().name());
                assert!(multinomial_tail(&counts, &law) > ALARM, "{name} {counts:?} {law:?}");
            }
        }
    }
}

#[test]
fn bad_input_is_named() {
    let refusal = |result: zhat::Result<SpaceModel>| result.unwrap_err().to_string();
    let message = Subtrees::new(&[None, Some(2), Some(1)], true).unwrap_err().to_string();
    assert!(message.contains("cycle"), "{message}");
    let message = Subtrees::new(&[Some(1), Some(0)], true).unwrap_err().to_string();
    assert!(message.contains("no root"), "{message}");
    assert!(Subtrees::new(&[None, None], true).unwrap_err().to_string().contains("two roots"));
    assert!(Subtrees::new(&[None, Some(7)], true).unwrap_err().to_string().contains("parent 7"));
    assert!(Subtrees::new(&[], true).is_err() && Cycles::new(2).is_err());
    let cube = Hypercube::new(2).unwrap();
    for bad in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
        let message = refusal(SpaceModel::new(cube, Scores::Unary(vec![0.0, bad])));
        assert!(message.contains("expected a finite score"), "{message}");
        let pairs = Scores::pairwise(vec![0.0; 2], &[(0, 1, bad)]).unwrap();
        assert!(SpaceModel::new(cube, pairs).is_err());
        assert!(SpaceModel::new(Cycles::new(3).unwrap(), Scores::links(3, &[(0, 1, bad)]).unwrap()).is_err());
        let scores = Scores::distance(Distance::Kendall, &[1, 0], bad).unwrap();
        assert!(SpaceModel::new(Permutations::new(2).unwrap(), scores).is_err());
        assert!(Scores::products(vec![bad, 1.0], vec![1.0]).is_err());
    }
    assert!(refusal(SpaceModel::new(cube, Scores::Unary(vec![0.0; 3]))).contains("expected 2"));
    assert!(refusal(SpaceModel::new(cube, Scores::Position(vec![0.0; 4]))).contains("no position scores"));
    assert!(refusal(SpaceModel::new(cube, Scores::Unary(vec![1e300; 2]))).contains("no digits"));
    assert!(Scores::pairwise(vec![0.0; 2], &[(0, 1, 1.0), (1, 0, 1.0)]).is_err());
    assert!(Scores::pairwise(vec![0.0; 2], &[(1, 1, 1.0)]).is_err());
    assert!(Scores::distance(Distance::Cayley, &[0, 0], 1.0).is_err());
    // An invalid value of a user function is detected when it occurs.
    let run = Run::default();
    for (said, words) in [(f64::NAN, "NaN"), (2.0, "outside the range")] {
        let model =
            SpaceModel::new(cube, Scores::closure(move |y| Ok(if y[1] == 1 { said } else { 0.0 }), 0.0, 1.0));
        let error = Enumeration::default().log_partition(&model.unwrap(), &run).unwrap_err().to_string();
        assert!(error.contains(words) && error.contains("outside"), "{error}");
    }
    let failing = Scores::closure(|_| Err(Error::NoAnswer("said no".into())), 0.0, 1.0);
    let model = SpaceModel::new(cube, failing).unwrap();
    assert!(Enumeration::default().log_partition(&model, &run).unwrap_err().to_string().contains("said no"));
    let error = Oracle::default().log_partition(&model, &run).unwrap_err().to_string();
    assert!(error.contains("no exact method"), "{error}");
    let wrong = SpaceModel::new(cube, Scores::closure(|_| Ok(0.0), 0.0, f64::INFINITY));
    assert!(refusal(wrong).contains("finite ends"));
    for (structure, words) in [(&[1u32][..], "expected 2"), (&[2, 0], "expected 0 or 1")] {
        assert!(cube.check(structure).unwrap_err().to_string().contains(words));
    }
    let cycles = Cycles::new(4).unwrap();
    for bad in [[0, 1, 2, 3], [1, 0, 3, 2], [1, 1, 2, 3], [3, 0, 1, 2], [9, 0, 1, 2]] {
        assert!(cycles.check(&bad).is_err(), "{bad:?}");
    }
    assert!(Partitions::new(3).unwrap().check(&[0, 2, 1]).is_err());
    assert!(heap(3, false).check(&[0, 0, 0]).is_err() && heap(3, true).check(&[0, 1, 0]).is_err());
}

#[test]
fn large_models_stay_within_the_budget_or_are_refused_with_a_reason() {
    // A path of 200,000 nodes would overflow the stack of a recursive algorithm.
    let path: Vec<Option<usize>> = (0..200_000).map(|v: usize| v.checked_sub(1)).collect();
    let space = Subtrees::new(&path, true).unwrap();
    assert!((space.log_count().unwrap() - 200_001f64.ln()).abs() < 1e-9);
    let model = SpaceModel::new(space, Scores::Unary(vec![0.0; 200_000])).unwrap();
    assert!((log_partition(&model) - 200_001f64.ln()).abs() < 1e-9);
    let n = 10_000;
    let reference: Vec<usize> = (0..n).collect();
    let scores = Scores::distance(Distance::Kendall, &reference, 0.01).unwrap();
    let mallows = SpaceModel::new(Permutations::new(n).unwrap(), scores).unwrap();
    let drawn = Oracle::default().sample(&mallows, 2, &Run::default()).unwrap().value;
    let order: Vec<u32> = drawn.iter().next().unwrap().iter().map(|x| *x as u32).collect();
    mallows.space().check(&order).unwrap();
    // E[d] is known in closed form, and d is a sum of n independent terms: it lies within six standard
    // deviations, at most 100 per term.
    let mean = Oracle::default().factor_marginals(&mallows, &Run::default()).unwrap().value.values[0];
    assert!((mallows.score(&order).unwrap() / 0.01 - mean).abs() < 6.0 * (n as f64).sqrt() * 100.0);
    let scores = Scores::Position(vec![0.0; 40 * 40]);
    let wide = SpaceModel::new(Permutations::new(40).unwrap(), scores).unwrap();
    let error = Oracle::default().log_partition(&wide, &Run::default()).unwrap_err().to_string();
    assert!(error.contains("too many"), "{error}");
    let scores = Scores::Position(vec![0.0; 32 * 32]);
    let wide = SpaceModel::new(Permutations::new(32).unwrap(), scores).unwrap();
    let error = Oracle::default().log_partition(&wide, &Run::default().with_memory(1 << 30)).unwrap_err();
    assert!(matches!(error, Error::OverBudget { .. }), "{error}");
    let scores = Scores::Position(vec![0.0; 24 * 24]);
    let slow = SpaceModel::new(Permutations::new(24).unwrap(), scores).unwrap();
    let short = Run::default().with_time(Duration::from_millis(1));
    assert!(matches!(Oracle::default().log_partition(&slow, &short), Err(Error::OverBudget { .. })));
}

#[test]
fn draws_do_not_depend_on_the_number_of_threads() {
    for model in small(4, 1.0) {
        let drawn = |threads| {
            let run = Run::default().with_threads(threads).with_seed(3);
            Oracle::default().sample(&model, 300, &run).unwrap().value
        };
        assert_eq!(drawn(1), drawn(3));
    }
}

/// Theorem 2.1: with θ = ln(n!·n) on the edges of a graph, log Z ≥ n·θ holds if and only if there is a
/// Hamiltonian cycle.
#[test]
fn the_partition_function_decides_hamiltonian_cycles() {
    let mut random = Streams::new(9, "hamiltonian").block(0);
    let mut seen = [0; 2];
    for n in [4usize, 5, 6, 7] {
        for _ in 0..12 {
            let theta = (1..=n).map(|k| (k as f64).ln()).sum::<f64>() + (n as f64).ln();
            let mut edge = vec![false; n * n];
            let mut pairs = Vec::new();
            for u in 0..n {
                for v in u + 1..n {
                    if random.uniform() < 0.5 {
                        (edge[u * n + v], edge[v * n + u]) = (true, true);
                        pairs.push((u, v, theta));
                    }
                }
            }
            let model = SpaceModel::new(Cycles::new(n).unwrap(), Scores::links(n, &pairs).unwrap()).unwrap();
            let whole = |cycle: &[u32]| {
                cycle.iter().enumerate().all(|(v, next)| v != *next as usize && edge[v * n + *next as usize])
            };
            let hamiltonian = listed(model.structures()).0.iter().any(|cycle| whole(cycle));
            assert_eq!(log_partition(&model) >= n as f64 * theta - 1e-9, hamiltonian, "{pairs:?}");
            seen[usize::from(hamiltonian)] += 1;
        }
    }
    assert!(seen[0] > 5 && seen[1] > 5, "{seen:?}");
}

/// Ten thousand items: the closed form is accurate to its stated rounding. At θ = 0 the distribution is
/// uniform and log Z = ln n!.
#[test]
fn large_rankings_keep_their_accuracy() {
    let n = 10_000;
    let reference: Vec<usize> = (0..n).collect();
    for distance in [Distance::Kendall, Distance::Cayley, Distance::Hamming] {
        let at = |spread: f64| {
            let scores = Scores::distance(distance, &reference, spread).unwrap();
            let model = SpaceModel::new(Permutations::new(n).unwrap(), scores).unwrap();
            Oracle::default().log_partition(&model, &Run::default()).unwrap()
        };
        let flat = at(0.0);
        let want: f64 = (1..=n).map(|k| (k as f64).ln()).sum();
        assert!(
            (flat.value - want).abs() <= flat.diagnostics.rounding,
            "{distance:?}: {} {want}",
            flat.value
        );
        assert!(flat.diagnostics.rounding < 1e-4, "{distance:?}: {}", flat.diagnostics.rounding);
        // A small spread changes ln Z by at most its product with the largest distance.
        let near = at(1e-9);
        assert!(near.value < flat.value && near.value > flat.value - 0.1, "{distance:?}");
    }
}
