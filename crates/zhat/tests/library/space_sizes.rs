//! Conditions on size, labels, vertices and links: exact counts, draws and query results against enumeration
//! in this file; time limits and cancellation.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::spaces::{all_pairs, numbers, tree};
use crate::support::oracle::log_sum_exp;
use crate::support::statistics::{ALARM, multinomial_tail};
use crate::support::structures::{Listed, structures};
use zhat::catalogue::{Choice, Settings, answer};
use zhat::exact::Enumeration;
use zhat::internal::space::{flip_congestion, flip_steps, single_flip_congestion};
use zhat::random::{Stream, Streams};
use zhat::space::{
    AnnealedSampling, Condition, Cycles, Distance, Hypercube, Oracle, Partitions, PerfectSampling,
    Permutations, Scores, SpaceModel, Structures, Subtrees, Telescoped, UniformImportance, log_count,
};
use zhat::{
    Entropy, Error, FactorMarginals, Guarantee, KBest, LogPartition, Map, Marginals, Model, Query, Result,
    Run, Sample,
};

/// Whether a structure meets conditions given as text.
fn meets(space: &Structures, y: &[u32], texts: &[String]) -> bool {
    let cycles = matches!(space, Structures::Cycles(_));
    let size = match space {
        Structures::Cycles(_) => (0..y.len()).filter(|v| y[*v] as usize != *v).count(),
        Structures::Partitions(_) => *y.iter().max().unwrap() as usize + 1,
        _ => y.iter().filter(|x| **x == 1).count(),
    };
    texts.iter().all(|text| {
        let words: Vec<&str> = text.split(' ').collect();
        let (wanted, words) = if words[0] == "not" { (false, &words[1..]) } else { (true, &words[..]) };
        let number = |k: usize| words[k].parse::<usize>().unwrap();
        let is = match words[0] {
            "size" => number(1) <= size && size <= number(2),
            "chosen" if cycles => y[number(1)] as usize != number(1),
            "chosen" => y[number(1)] == 1,
            _ if cycles => y[number(1)] as usize == number(2) || y[number(2)] as usize == number(1),
            _ => y[number(1)] == y[number(2)],
        };
        is == wanted
    })
}

/// Random conditions, one of them on the size, which may be out of range.
fn texts(space: &Structures, random: &mut Stream) -> Vec<String> {
    let n = space.as_space().width();
    let least = random.below(n + 1);
    let mut texts = vec![format!("size {least} {}", least + random.below(n + 2 - least))];
    for _ in 0..random.below(3) {
        let not = if random.uniform() < 0.5 { "not " } else { "" };
        let (i, j) = (random.below(n), random.below(n - 1));
        let j = if j >= i { j + 1 } else { j };
        texts.push(match space {
            Structures::Partitions(_) => format!("{not}linked {i} {j}"),
            Structures::Cycles(_) if random.uniform() < 0.6 => format!("{not}linked {i} {j}"),
            _ => format!("{not}chosen {i}"),
        });
    }
    texts
}

fn models(seed: u64) -> Vec<SpaceModel> {
    let mut random = Streams::new(seed, "sized models").block(0);
    let random = &mut random;
    let n = 3 + random.below(3);
    let mut models = Vec::new();
    let mut push = |space: Structures, scores: Scores| models.push(SpaceModel::new(space, scores).unwrap());
    for cube in [Hypercube::new(n).unwrap(), Hypercube::signs(n).unwrap()] {
        push(cube.into(), Scores::Unary(numbers(random, n, 1.0)));
        let (weights, inputs) = (numbers(random, 2 * n, 1.0), numbers(random, 2, 1.0));
        push(cube.into(), Scores::products(weights, inputs).unwrap());
        let pairs = all_pairs(random, n, 1.0, 0.5);
        push(cube.into(), Scores::pairwise(numbers(random, n, 1.0), &pairs).unwrap());
    }
    for empty in [false, true] {
        let tree = tree(random, n + 2, empty);
        push(tree.clone().into(), Scores::Unary(numbers(random, n + 2, 1.0)));
        let pairs = all_pairs(random, n + 2, 1.0, 0.3);
        push(tree.into(), Scores::pairwise(numbers(random, n + 2, 1.0), &pairs).unwrap());
    }
    let pairs = all_pairs(random, n, 1.0, 0.8);
    push(Cycles::new(n).unwrap().into(), Scores::links(n, &pairs).unwrap());
    push(Partitions::new(n).unwrap().into(), Scores::links(n, &pairs).unwrap());
    models
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * (1.0 + b.abs())
}

#[test]
fn every_query_under_conditions_on_the_size_is_exact() {
    let run = Run::default();
    let oracle = Oracle::default();
    let (mut empty, mut some) = (0, 0);
    for seed in 0..24 {
        let mut random = Streams::new(seed, "sizes").block(0);
        for model in models(seed) {
            let base = model.structures().clone();
            let texts = texts(&base, &mut random);
            let conditions: Vec<Condition> = texts.iter().map(|text| text.parse().unwrap()).collect();
            let name = format!("{} {} {texts:?}", model.space().name(), model.scores().name());
            let model = model.restrict(conditions).unwrap();
            let all: Vec<Vec<u32>> =
                structures(&base).into_iter().filter(|y| meets(&base, y, &texts)).collect();
            if all.is_empty() {
                empty += 1;
                let model: Model = model.into();
                for query in [
                    Query::LogPartition,
                    Query::Marginals,
                    Query::FactorMarginals,
                    Query::Entropy,
                    Query::Map,
                    Query::KBest(2),
                    Query::Sample(2),
                ] {
                    for method in ["oracle", "enumeration"] {
                        let choice = Choice::Named(method.into());
                        let error = answer(&model, query, &choice, &Settings::new(), &run).unwrap_err();
                        assert!(matches!(error, Error::ZeroPartition), "{name} {} {error}", query.name());
                    }
                }
                let importance = UniformImportance::default();
                let model = model.get::<SpaceModel>().unwrap();
                let error = importance.log_partition(model, &run).unwrap_err();
                assert!(matches!(error, Error::ZeroPartition | Error::NoAnswer(_)), "{name} {error}");
                continue;
            }
            some += 1;
            let list = Listed::of(&model, all.clone());
            let (z, law, ranked) = (list.log_partition(), list.law(), list.ranked());
            assert!(close(oracle.log_partition(&model, &run).unwrap().value, z), "{name}");
            // Marginals: labels, nodes; links and vertices; pairs in one block.
            let n = model.width();
            let shows = |y: &[u32], i: usize, j: usize| match &base {
                Structures::Cycles(_) if i == j => y[i] as usize != i,
                Structures::Cycles(_) => y[i] as usize == j || y[j] as usize == i,
                Structures::Partitions(_) => y[i] == y[j],
                _ => y[i] == 1,
            };
            let probability = |i: usize, j: usize| -> f64 {
                all.iter().zip(&law).filter(|(y, _)| shows(y, i, j)).map(|(_, p)| p).sum()
            };
            let found = oracle.marginals(&model, &run).unwrap().value;
            for (k, p) in found.values.iter().enumerate() {
                let want = if found.shape.len() == 1 { probability(k, k) } else { probability(k / n, k % n) };
                assert!(close(*p, want), "{name} {k}: {p} {want}");
            }
            let found = oracle.factor_marginals(&model, &run).unwrap().value;
            assert!(found.values.iter().zip(&list.gradient()).all(|(a, b)| close(*a, *b)), "{name}");
            let entropy: f64 = law.iter().filter(|p| **p > 0.0).map(|p| -p * p.ln()).sum();
            assert!(close(oracle.entropy(&model, &run).unwrap().value, entropy), "{name}");
            let best = oracle.map(&model, &run).unwrap().value;
            assert!(close(best.score, ranked[0]), "{name}");
            let found = oracle.k_best(&model, 5, &run).unwrap().value;
            assert_eq!(found.len(), all.len().min(5), "{name}");
            for (state, score) in found.iter().zip(&ranked) {
                assert!(close(state.score, *score), "{name}");
                let y: Vec<u32> = state.state.iter().map(|x| *x as u32).collect();
                assert!(all.contains(&y), "{name} {y:?}");
            }
            // The number of structures, their enumeration, and uniform draws.
            if let Some(log) = model.space().log_count() {
                assert!(close(log, (all.len() as f64).ln()), "{name}");
            } else {
                let links = texts.iter().any(|text| text.contains("linked"));
                assert!(links, "{name}");
            }
            let (mut listed, mut wanted) = (Vec::new(), all.clone());
            let clock = run.start("test");
            let mut keep = |y: &[u32]| {
                listed.push(y.to_vec());
                true
            };
            model.space().enumerate(&clock, &mut keep).unwrap();
            listed.sort_unstable();
            wanted.sort_unstable();
            assert_eq!(listed, wanted, "{name}");
            let place = |y: &[u32]| all.iter().position(|own| own == y).unwrap();
            if seed < 6 {
                let mut tally = vec![0; all.len()];
                let mut y = vec![0; n];
                for _ in 0..2000 {
                    model.space().uniform(&mut random, &mut y, &clock).unwrap();
                    tally[place(&y)] += 1;
                }
                let uniform = vec![1.0 / all.len() as f64; all.len()];
                assert!(multinomial_tail(&tally, &uniform) > ALARM, "{name}");
                let drawn = oracle.sample(&model, 2000, &run).unwrap().value;
                let mut tally = vec![0; all.len()];
                for state in drawn.iter() {
                    let y: Vec<u32> = state.iter().map(|x| *x as u32).collect();
                    tally[place(&y)] += 1;
                }
                assert!(multinomial_tail(&tally, &law) > ALARM, "{name}");
            }
        }
    }
    assert!(empty > 20 && some > 100, "{empty} {some}");
}

fn given(texts: &[&str]) -> Vec<Condition> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// Closed forms for spaces far too large to enumerate.
#[test]
fn large_spaces_are_counted() {
    let run = Run::default();
    let flat = |space: Structures, scores: Scores, texts: &[&str]| {
        let model = SpaceModel::new(space, scores).unwrap().restrict(given(texts)).unwrap();
        let count = log_count(model.space(), 0.1, 0.9, &run).unwrap();
        assert!(matches!(count.guarantee, Guarantee::Exact), "{texts:?}");
        (count.value, model)
    };
    let unary = |n: usize| Scores::Unary(vec![0.0; n]);
    let (count, model) = flat(Hypercube::new(40).unwrap().into(), unary(40), &["size 2 3"]);
    assert!(close(count, 10_660f64.ln()));
    assert!(close(Oracle::default().log_partition(&model, &run).unwrap().value, 10_660f64.ln()));
    let texts = ["size 3 3", "chosen 7", "not chosen 1"];
    let (count, model) = flat(Hypercube::new(1000).unwrap().into(), unary(1000), &texts);
    assert!(close(count, (998.0 * 997.0 / 2.0f64).ln()), "{count}");
    assert!(close(Oracle::default().log_partition(&model, &run).unwrap().value, count));
    // A path of 5000 nodes has one subtree of each size.
    let parents: Vec<Option<usize>> = (0..5000).map(|v: usize| v.checked_sub(1)).collect();
    let path = Subtrees::new(&parents, true).unwrap();
    let (count, _) = flat(path.into(), unary(5000), &["size 100 299"]);
    assert!(close(count, 200f64.ln()));
    // There are (n − 1)!/2 Hamiltonian cycles, and C(29, 3)·3 cycles of four vertices through a given vertex.
    let none = |n: usize| Scores::links(n, &[]).unwrap();
    let (count, _) = flat(Cycles::new(30).unwrap().into(), none(30), &["size 30 30"]);
    let factorial: f64 = (2..30).map(|k| f64::from(k).ln()).sum();
    assert!(close(count, factorial - 2f64.ln()));
    let (count, _) = flat(Cycles::new(30).unwrap().into(), none(30), &["size 4 4", "chosen 5"]);
    assert!(close(count, (3654.0 * 3.0f64).ln()));
    // There are 2^{n−1} − 1 partitions into two blocks; a link reduces n by one.
    let (count, _) = flat(Partitions::new(50).unwrap().into(), none(50), &["size 2 2"]);
    assert!(close(count, (2f64.powi(49) - 1.0).ln()));
    let (count, _) = flat(Partitions::new(50).unwrap().into(), none(50), &["size 2 2", "linked 3 9"]);
    assert!(close(count, (2f64.powi(48) - 1.0).ln()));
}

/// Cayley's distance with a condition on the order has no exact method, and the error says so.
#[test]
fn cayleys_distance_with_conditions_is_refused_with_a_reason() {
    let scores = Scores::distance(Distance::Cayley, &(0..30).collect::<Vec<_>>(), 1.0).unwrap();
    let model = SpaceModel::new(Permutations::new(30).unwrap(), scores).unwrap();
    let model: Model = model.restrict(given(&["at 3 0"])).unwrap().into();
    let oracle = Choice::Named("oracle".into());
    let error = answer(&model, Query::LogPartition, &oracle, &Settings::new(), &Run::default()).unwrap_err();
    assert!(error.to_string().contains("no exact method other than enumeration"), "{error}");
}

/// Runs `work` with this time budget and asserts that it was kept.
fn within(seconds: f64, work: impl FnOnce(&Run) -> Result<()>) -> Result<()> {
    let run = Run::default().with_time(Duration::from_secs_f64(seconds)).with_threads(2);
    let started = Instant::now();
    let result = work(&run);
    let spent = started.elapsed().as_secs_f64();
    assert!(spent <= 1.1 * seconds + 1.0, "{spent} s of {seconds}");
    result
}

#[test]
fn every_loop_over_a_space_keeps_the_time_limit() {
    let cube = |n: usize| SpaceModel::new(Hypercube::new(n).unwrap(), Scores::Unary(vec![0.1; n])).unwrap();
    // No structure meets this condition.
    let never = cube(45).restrict([Condition::function(|_| Ok(false))]).unwrap();
    // A fast machine may have made all allowed tries before this.
    let over = |result: Result<()>| {
        assert!(matches!(result, Err(Error::OverBudget { .. } | Error::NoAnswer(_))), "{result:?}");
    };
    over(within(0.2, |run| Enumeration::default().log_partition(&never, run).map(drop)));
    over(within(0.2, |run| Enumeration::default().map(&never, run).map(drop)));
    over(within(0.2, |run| log_count(never.space(), 0.1, 0.9, run).map(drop)));
    over(within(0.2, |run| PerfectSampling::default().sample(&never, 3, run).map(drop)));
    // Extreme options: the methods return the result so far.
    let links = Scores::links(7, &[(0, 1, 1.0), (2, 3, 0.5)]).unwrap();
    let cycles = SpaceModel::new(Cycles::new(7).unwrap(), links).unwrap();
    let many = [
        AnnealedSampling::default().replicates(1_000_000),
        AnnealedSampling::default().sweeps(1e9),
        AnnealedSampling::default().temperatures(1_000_000_000),
    ];
    for annealed in many {
        let found = within(0.2, |run| {
            let best = annealed.map(&cycles, run)?;
            assert!(best.diagnostics.stopped_early);
            Ok(())
        });
        assert!(found.is_ok(), "{found:?}");
    }
    // A schedule with more levels than can be counted.
    let endless = Telescoped::default().error(1e-9).confidence(0.999_999_999_999);
    over(within(0.2, |run| endless.log_partition(&cycles, run).map(drop)));
    let rare = cycles.restrict(given(&["linked 0 1"])).unwrap();
    over(within(0.2, |run| endless.log_partition(&rare, run).map(drop)));
    // With a slow user function, the time limit is checked between calls, in forecasts as well.
    let slow = |y: &[u32]| {
        std::thread::sleep(Duration::from_millis(15));
        Ok(f64::from(y[0]))
    };
    let slow = SpaceModel::new(Hypercube::new(30).unwrap(), Scores::closure(slow, 0.0, 1.0)).unwrap();
    let model: Model = slow.into();
    for query in [Query::LogPartition, Query::Map, Query::Marginals] {
        let _ = within(0.5, |run| answer(&model, query, &Choice::Auto, &Settings::new(), run).map(drop));
    }
}

#[test]
fn a_cancel_is_answered_at_once() {
    let cube = SpaceModel::new(Hypercube::new(45).unwrap(), Scores::Unary(vec![0.1; 45])).unwrap();
    let never = cube.restrict([Condition::function(|_| Ok(false))]).unwrap();
    let works: [&(dyn Fn(&Run) -> bool + Sync); 3] = [
        &|run| matches!(Enumeration::default().log_partition(&never, run), Err(Error::Interrupted)),
        &|run| {
            // A fast machine may have made all allowed tries before this.
            let found = log_count(never.space(), 0.1, 0.9, run);
            matches!(found, Err(Error::Interrupted | Error::NoAnswer(_)))
        },
        &|run| {
            let annealed = AnnealedSampling::default().replicates(1_000_000);
            annealed.map(&cube, run).is_ok_and(|best| best.diagnostics.stopped_early)
        },
    ];
    for work in works {
        let cancel = Arc::new(AtomicBool::new(false));
        let run = Run::default().with_threads(2).with_cancel(cancel.clone());
        let (answered, spent) = std::thread::scope(|scope| {
            let worker = scope.spawn(|| work(&run));
            std::thread::sleep(Duration::from_millis(200));
            cancel.store(true, Ordering::Relaxed);
            let started = Instant::now();
            (worker.join().unwrap(), started.elapsed())
        });
        assert!(answered);
        assert!(spent < Duration::from_millis(1500), "{spent:?}");
    }
}

/// The Metropolis chain of single flips on 2ⁿ states.
fn flips(weights: &[f64], n: usize) -> Vec<Vec<(usize, f64)>> {
    let row = |z: usize| {
        let mut row: Vec<(usize, f64)> = (0..n)
            .map(|i| (z ^ 1 << i, 0.5 / n as f64 * (weights[z ^ 1 << i] / weights[z]).min(1.0)))
            .collect();
        let away: f64 = row.iter().map(|step| step.1).sum();
        row.push((z, 1.0 - away));
        row
    };
    (0..1 << n).map(row).collect()
}

/// The canonical-path bounds on the spectral gap and the mixing time hold for chains small enough to compute
/// both.
#[test]
fn canonical_paths_bound_the_mixing_of_single_flips() {
    for seed in 0..12 {
        let mut random = Streams::new(seed, "flips").block(0);
        let n = 2 + random.below(4);
        let scale = [0.0, 0.5, 1.5][seed as usize % 3];
        let unary = numbers(&mut random, n, scale);
        let pairs = if seed % 2 == 0 { Vec::new() } else { all_pairs(&mut random, n, scale, 0.7) };
        let score = |z: usize| -> f64 {
            let on = |i: usize| f64::from((z >> i & 1) as u8);
            (0..n).map(|i| unary[i] * on(i)).sum::<f64>()
                + pairs.iter().map(|(i, j, w)| w * on(*i) * on(*j)).sum::<f64>()
        };
        let scores: Vec<f64> = (0..1 << n).map(score).collect();
        let (low, high) =
            scores.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |r, s| (r.0.min(*s), r.1.max(*s)));
        let z = log_sum_exp(&scores);
        let law: Vec<f64> = scores.iter().map(|s| (s - z).exp()).collect();
        let chain = flips(&law, n);
        // The second eigenvalue of the symmetrised matrix by power iteration; all eigenvalues are at least 0.
        let mut vector: Vec<f64> = (0..1 << n).map(|_| random.normal()).collect();
        let mut second = 0.0;
        for _ in 0..4000 {
            let along: f64 = vector.iter().zip(&law).map(|(x, p)| x * p.sqrt()).sum();
            vector.iter_mut().zip(&law).for_each(|(x, p)| *x -= along * p.sqrt());
            let norm = vector.iter().map(|x| x * x).sum::<f64>().sqrt();
            vector.iter_mut().for_each(|x| *x /= norm);
            let mut next = vec![0.0; 1 << n];
            for (from, row) in chain.iter().enumerate() {
                for (to, p) in row {
                    next[from] += (law[from] / law[*to]).sqrt() * p * vector[*to];
                }
            }
            second = vector.iter().zip(&next).map(|(a, b)| a * b).sum::<f64>();
            vector = next;
        }
        let spread = high - low;
        let mut bounds = vec![flip_congestion(n, spread)];
        if pairs.is_empty() {
            bounds.push(single_flip_congestion(&unary));
        }
        for congestion in bounds {
            assert!(1.0 / (1.0 - second) <= congestion * (1.0 + 1e-9), "{seed}: {second} {congestion}");
            for distance in [0.25, 0.01] {
                let bound = flip_steps(congestion, n, spread, distance);
                let slowest = (0..1usize << n).map(|start| {
                    let mut at = vec![0.0; 1 << n];
                    at[start] = 1.0;
                    for step in 0u32.. {
                        let apart = 0.5 * at.iter().zip(&law).map(|(a, b)| (a - b).abs()).sum::<f64>();
                        if apart <= distance {
                            return step;
                        }
                        let mut next = vec![0.0; 1 << n];
                        for (from, row) in chain.iter().enumerate() {
                            row.iter().for_each(|(to, p)| next[*to] += at[from] * p);
                        }
                        at = next;
                    }
                    0
                });
                let slowest = f64::from(slowest.max().unwrap());
                assert!(slowest <= bound, "{seed}: {slowest} {bound}");
            }
        }
    }
}
