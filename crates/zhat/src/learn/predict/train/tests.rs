//! The objective against enumeration and differences; certified gaps against the optimum; resumed runs.

use super::*;
use crate::learn::predict::{Blocks, Ranks, Sets};
use crate::random::{Stream, Streams};

/// A random data set of a form: inputs dense or sparse, targets.
fn problem(form: &Form, rows: usize, columns: usize, sparse: bool, random: &mut Stream) -> (Inputs, Targets) {
    let mut numbers: Vec<f64> = (0..rows * columns).map(|_| random.normal()).collect();
    let inputs = if sparse {
        let (mut ends, mut indices, mut values) = (vec![], vec![], vec![]);
        for row in numbers.chunks_exact_mut(columns) {
            for (j, x) in row.iter().enumerate().filter(|(j, _)| j % 2 == 0) {
                indices.push(j as u32);
                values.push(*x);
            }
            ends.push(values.len());
        }
        Inputs::sparse(columns, &ends, &indices, &values).unwrap()
    } else {
        Inputs::dense(columns, &numbers).unwrap()
    };
    let n = form.width();
    let targets = match form {
        Form::Labels { .. } | Form::Hierarchy { .. } => {
            let mut sets = Sets { width: n, ..Default::default() };
            for _ in 0..rows {
                let mut set: Vec<u32> = (0..n as u32).filter(|_| random.below(2) == 0).collect();
                if let Form::Hierarchy { parents, .. } = form {
                    while let Some(&v) =
                        set.iter().find(|v| parents[**v as usize].is_some_and(|p| !set.contains(&(p as u32))))
                    {
                        set.push(parents[v as usize].unwrap() as u32);
                    }
                }
                sets.push(set).unwrap();
            }
            Targets::Sets(sets)
        }
        Form::Partition { .. } => {
            let mut blocks = Vec::new();
            for _ in 0..rows {
                let mut next = 0;
                for _ in 0..n {
                    let block = random.below(next + 1) as u32;
                    next = next.max(block as usize + 1);
                    blocks.push(block);
                }
            }
            Targets::Blocks(Blocks { elements: n, blocks })
        }
        _ => {
            let mut ranks = Vec::new();
            for _ in 0..rows {
                let mut own: Vec<u32> = (1..=n as u32).collect();
                random.shuffle(&mut own);
                ranks.extend(own);
            }
            Targets::Ranks(Ranks { items: n, ranks })
        }
    };
    (inputs, targets)
}

fn forms() -> Vec<Form> {
    vec![
        Form::Labels { labels: 3, pairs: vec![(0, 1), (1, 2)], pairs_by_input: false },
        Form::Labels { labels: 3, pairs: vec![(0, 2)], pairs_by_input: true },
        Form::Hierarchy {
            parents: vec![None, Some(0), Some(0), Some(1)],
            pairs: vec![],
            pairs_by_input: false,
        },
        Form::Hierarchy {
            parents: vec![None, Some(0), Some(0), None],
            pairs: vec![(1, 2)],
            pairs_by_input: false,
        },
        Form::Positions { items: 3 },
        Form::Precedence { items: 4 },
        Form::PlackettLuce { items: 4 },
        Form::Partition { elements: 4 },
        Form::Labels { labels: 2, pairs: vec![], pairs_by_input: false },
        Form::Labels { labels: 4, pairs: pairs_of(4), pairs_by_input: true },
    ]
}

/// All pairs of n labels.
fn pairs_of(n: usize) -> Vec<(usize, usize)> {
    (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j))).collect()
}

#[test]
fn gradients_agree_with_differences_and_do_not_depend_on_threads() {
    let mut random = Streams::new(1, "objective").block(0);
    for form in forms() {
        for sparse in [false, true] {
            let (inputs, targets) = problem(&form, 70, 3, sparse, &mut random);
            let compiled = form.compile().unwrap();
            let objective = Objective::new(&compiled, &inputs, &targets, 0.03);
            let point: Vec<f64> = (0..objective.dimension()).map(|_| 0.5 * random.normal()).collect();
            let evaluate = |point: &[f64], threads: usize| {
                let run = Run::default().with_threads(threads);
                let mut gradient = vec![0.0; point.len()];
                let value =
                    run.install(|| objective.evaluate(point, &mut gradient, &run.start("test"))).unwrap();
                (value, gradient)
            };
            let (value, gradient) = evaluate(&point, 1);
            assert_eq!((value, gradient.clone()), evaluate(&point, 3));
            for at in 0..point.len() {
                let moved = |by: f64| {
                    let mut other = point.clone();
                    other[at] += by;
                    evaluate(&other, 1).0
                };
                let slope = (moved(1e-5) - moved(-1e-5)) / 2e-5;
                assert!((gradient[at] - slope).abs() < 1e-7, "{form:?} {at}: {} {slope}", gradient[at]);
            }
        }
    }
}

/// Scores that nearly cancel, in two orders of their terms: the gradients differ by less than their allowances, which
/// grow with the parameters.
#[test]
fn the_allowance_for_rounding_covers_scores_that_cancel() {
    let mut random = Streams::new(31, "objective").block(0);
    let form = Form::Labels { labels: 3, pairs: vec![], pairs_by_input: false };
    let (_, targets) = problem(&form, 50, 1, false, &mut random);
    let numbers: Vec<f64> = (0..100).map(|_| random.normal()).collect();
    let compiled = form.compile().unwrap();
    let gradient = |order: [usize; 3]| {
        // The columns x, x and z with the weights 1e8, −1e8 and 1.
        let row = |pair: &[f64]| order.map(|at| [pair[0], pair[0], pair[1]][at]);
        let cells: Vec<f64> = numbers.chunks_exact(2).flat_map(row).collect();
        let inputs = Inputs::dense(3, &cells).unwrap();
        let objective = Objective::new(&compiled, &inputs, &targets, 0.01);
        let weights = order.map(|at| [1e8, -1e8, 1.0][at]).into_iter().chain([0.5]);
        let point: Vec<f64> = weights.flat_map(|weight| [weight, 0.7 * weight, -0.3 * weight]).collect();
        let mut gradient = vec![0.0; point.len()];
        let run = Run::default().with_threads(1);
        run.install(|| objective.evaluate(&point, &mut gradient, &run.start("test"))).unwrap();
        let allowance = (4.0 * 0.01 * objective.gap(&vec![0.0; point.len()], &point, 0.0)).sqrt();
        let mut sorted = vec![0.0; point.len()];
        for (place, at) in order.into_iter().chain([3]).enumerate() {
            sorted[3 * at..3 * at + 3].copy_from_slice(&gradient[3 * place..3 * place + 3]);
        }
        (sorted, allowance)
    };
    let ((one, first), (two, second)) = (gradient([0, 1, 2]), gradient([0, 2, 1]));
    let differences: Vec<f64> = one.iter().zip(&two).map(|(a, b)| a - b).collect();
    let norm = differences.iter().map(|x| x * x).sum::<f64>().sqrt();
    assert!(norm > 1e-11, "{norm}");
    assert!(norm <= first + second, "{norm} {first} {second}");
}

fn whole(
    form: &Form,
    data: &(Inputs, Targets),
    how: &Learning,
    run: &Run,
) -> (Trained, Vec<PredictorCheckpoint>) {
    let mut seen = Vec::new();
    let trained = train(form, &data.0, &data.1, how, None, None, run, &mut |now| {
        seen.push(now.clone());
        Ok(true)
    });
    (trained.unwrap(), seen)
}

/// 1,000 random problems of all forms; the minimum is that of the same run, continued to a gap of 1e-9 or less.
#[test]
fn the_certified_gap_is_never_below_the_true_gap() {
    let run = Run::default().with_threads(1);
    let mut random = Streams::new(2, "gaps").block(0);
    let mut tight = 0;
    for round in 0..1000 {
        let form = forms().swap_remove(round % forms().len());
        let (inputs, mut targets) =
            problem(&form, 1 + random.below(16), 1 + random.below(3), random.below(2) == 0, &mut random);
        // Some items of some rankings have no rank: the rest is still convex for Plackett–Luce.
        if let (Form::PlackettLuce { .. }, Targets::Ranks(ranks)) = (&form, &mut targets) {
            ranks.ranks.iter_mut().filter(|_| random.below(4) == 0).for_each(|rank| *rank = 0);
        }
        let lambda = 10f64.powf(3.0 * random.uniform() - 2.5);
        let how = Learning::default().lambda(lambda).gap(1e-12);
        let start: Vec<f64> = {
            let compiled = form.compile().unwrap();
            let length = crate::learn::predict::objective::dimension(&compiled, inputs.columns());
            (0..length).map(|_| random.normal()).collect()
        };
        let start = Some(start.as_slice()).filter(|_| round % 2 == 0);
        let mut seen: Vec<PredictorProgress> = Vec::new();
        let best = train(&form, &inputs, &targets, &how, start, None, &run, &mut |now| {
            seen.push(now.progress);
            Ok(true)
        })
        .unwrap();
        assert!(best.progress.gap < 1e-9, "{form:?}: {best:?}");
        for now in &seen {
            let true_gap = now.objective - best.progress.objective;
            assert!(now.gap >= true_gap, "{round} {form:?}: {now:?} {true_gap}");
            // The bound is of the right order where the regularisation dominates.
            tight += u32::from(true_gap > 1e-6 && now.gap < 3.0 * true_gap);
        }
    }
    assert!(tight > 100, "{tight}");
}

/// The loss of partial rankings is not convex: the certified gap is the objective itself.
#[test]
fn gaps_of_losses_that_are_not_convex_are_not_claimed() {
    let run = Run::default().with_threads(1);
    let mut random = Streams::new(7, "partial").block(0);
    for form in [Form::Precedence { items: 4 }, Form::Positions { items: 3 }, Form::PlackettLuce { items: 4 }]
    {
        let (inputs, mut targets) = problem(&form, 9, 2, false, &mut random);
        assert!(form.is_convex(&targets));
        let Targets::Ranks(ranks) = &mut targets else { panic!() };
        // Two items share the first place.
        ranks.ranks.iter_mut().filter(|rank| **rank == 2).for_each(|rank| *rank = 1);
        assert!(!form.is_convex(&targets));
        let how = Learning::default().lambda(0.1);
        let found = train(&form, &inputs, &targets, &how, None, None, &run, &mut |_| Ok(true)).unwrap();
        assert!(
            found.progress.gap == found.progress.objective && !found.converged && found.progress.step < 200
        );
    }
}

#[test]
fn a_resumed_run_has_the_same_bits() {
    let mut random = Streams::new(3, "resumed").block(0);
    let form = forms().swap_remove(0);
    let data = problem(&form, 30, 3, false, &mut random);
    let run = Run::default().with_seed(5);
    for (method, samples, steps) in
        [(Method::Batch, 0, 8), (Method::Sampled, 3, 9), (Method::Online, 1, 4), (Method::Online, 0, 3)]
    {
        let how = Learning::default()
            .method(method)
            .samples(samples)
            .batch(7)
            .iterations(steps)
            .gap(0.0)
            .lambda(0.05);
        let (all, seen) = whole(&form, &data, &how, &run.clone().with_threads(2));
        let middle = seen[steps / 2].clone();
        let path = std::env::temp_dir().join(format!("zhat-resumed-{}-{method:?}", std::process::id()));
        crate::learn::predict::file::write_predictor_checkpoint(&middle, &path).unwrap();
        let read = crate::learn::predict::file::read_predictor_checkpoint(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read, middle);
        let run = run.clone().with_threads(1);
        let resumed =
            train(&form, &data.0, &data.1, &how, None, Some(middle.clone()), &run, &mut |_| Ok(true));
        assert_eq!(resumed.unwrap(), all);
        let other = how.lambda(0.06);
        let refused = train(&form, &data.0, &data.1, &other, None, Some(middle), &run, &mut |_| Ok(true));
        assert!(refused.unwrap_err().to_string().contains("checkpoint"));
    }
}

/// The gap of sampled gradients fails with probability 0.05 per run at most. Of 60 runs, more than 14
/// failures have probability 6e-7.
#[test]
fn sampled_and_online_training_approach_the_optimum() {
    let mut random = Streams::new(4, "sampled").block(0);
    let form = forms().swap_remove(1);
    let data = problem(&form, 40, 2, false, &mut random);
    let how = Learning::default().lambda(0.2);
    let run = Run::default().with_threads(1);
    let best = whole(&form, &data, &how.gap(1e-12), &run).0.progress.objective;
    let mut failures = 0;
    for seed in 0..60 {
        let sampled = how.method(Method::Sampled).samples(2).iterations(8).gap(0.0);
        let (found, seen) = whole(&form, &data, &sampled, &run.clone().with_seed(seed));
        assert_eq!(found.confidence, 0.95);
        let compiled = form.compile().unwrap();
        let objective = Objective::new(&compiled, &data.0, &data.1, 0.2);
        let mut gradient = vec![0.0; found.parameters.len()];
        let wrong = seen.iter().any(|now| {
            let value = objective.evaluate(now.parameters(), &mut gradient, &run.start("test")).unwrap();
            // The objective is that of the same point as the gap.
            assert!((value - now.progress.objective).abs() < 1e-12, "{value} {now:?}");
            value - best > now.progress.gap
        });
        failures += u32::from(wrong);
    }
    assert!(failures <= 14, "{failures}");
    // The error of the average falls as 1/t: from pass 2 to pass 64 by 32, less a factor of 4 for noise.
    let mut errors = [0.0; 2];
    for seed in 0..5 {
        let online = how.method(Method::Online).samples(1).iterations(64).gap(0.0);
        let (_, seen) = whole(&form, &data, &online, &run.clone().with_seed(seed));
        errors[0] += seen[1].progress.objective - best;
        errors[1] += seen[63].progress.objective - best;
    }
    assert!(errors[1] * 8.0 < errors[0], "{errors:?}");
}

#[test]
fn unusable_data_and_options_are_refused() {
    let mut random = Streams::new(5, "refused").block(0);
    let form = forms().swap_remove(6);
    let (inputs, targets) = problem(&form, 4, 2, false, &mut random);
    let run = Run::default();
    let message = |inputs: &Inputs, targets: &Targets, how: Learning| {
        train(&form, inputs, targets, &how, None, None, &run, &mut |_| Ok(true)).unwrap_err().to_string()
    };
    let how = Learning::default();
    assert!(message(&inputs, &targets, how.lambda(0.0)).contains("lambda"));
    assert!(message(&inputs, &targets.select(&[0]), how).contains("4 rows of inputs and 1"));
    assert!(message(&inputs.select(&[]), &targets.select(&[]), how).contains("no rows"));
    assert!(message(&inputs, &targets, how.method(Method::Sampled)).contains("plackett-luce"));
}

mod dense;
mod encoded;
mod recipe;
mod regret;
mod weights;

/// With correlated inputs, training reaches the same minimum as L-BFGS alone in less than half the steps.
#[test]
fn the_approximate_hessian_saves_steps() {
    let run = Run::default().with_threads(2);
    let clock = run.start("test");
    let mut random = Streams::new(12, "metric").block(0);
    for form in [forms().swap_remove(0), forms().swap_remove(2), forms().swap_remove(5)] {
        for sparse in [false, true] {
            let (rows, columns) = (90, 20);
            let (_, targets) = problem(&form, rows, 1, false, &mut random);
            let mut numbers = Vec::new();
            for _ in 0..rows {
                let common = 3.0 * random.normal();
                numbers.extend((0..columns).map(|j| common + 0.1 * (1 + j) as f64 * random.normal()));
            }
            let inputs = if sparse {
                let ends: Vec<usize> = (1..=rows).map(|row| row * columns).collect();
                let indices: Vec<u32> = (0..rows).flat_map(|_| 0..columns as u32).collect();
                Inputs::sparse(columns, &ends, &indices, &numbers).unwrap()
            } else {
                Inputs::dense(columns, &numbers).unwrap()
            };
            let how = Learning::default().lambda(1e-3).gap(1e-8);
            let found = train(&form, &inputs, &targets, &how, None, None, &run, &mut |_| Ok(true)).unwrap();
            assert!(found.converged, "{found:?}");
            let compiled = form.compile().unwrap();
            let objective = Objective::new(&compiled, &inputs, &targets, how.lambda);
            let mut plain = Lbfgs::new(vec![0.0; objective.dimension()], HISTORY.1);
            let (mut steps, mut least) = (0, f64::INFINITY);
            while least - found.progress.objective > 1e-8 && steps < 2000 {
                let step = plain.step(&mut |point, gradient| objective.evaluate(point, gradient, &clock));
                least = step.unwrap().objective;
                steps += 1;
            }
            assert!((least - found.progress.objective).abs() < 2e-8, "{least} {found:?}");
            assert!(2 * found.progress.step < steps, "{form:?}: {} {steps}", found.progress.step);
        }
    }
}
