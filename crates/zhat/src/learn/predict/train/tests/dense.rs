//! Sampled training of forms without exact sums. A small memory budget forces small forms, whose objective is
//! known exactly, through samples.

use super::*;
use crate::answer::Guarantee;
use crate::learn::Structure;
use crate::learn::predict::objective::Objective;
use crate::learn::predict::{Cells, Decision, Examples, InputColumn, Recipe, Space};

const LAMBDA: f64 = 0.2;

fn labels() -> (Form, (Inputs, Targets)) {
    let form = Form::Labels { labels: 5, pairs: pairs_of(5), pairs_by_input: false };
    let mut random = Streams::new(6, "dense").block(0);
    let (inputs, _) = problem(&form, 24, 1, false, &mut random);
    // The labels depend on each other and on the input.
    let mut sets = Sets { width: 5, ..Default::default() };
    for row in 0..24 {
        let on = random.below(3) > 0;
        sets.push((0..5u32).filter(|i| (on && *i < 3) || (row + *i as usize).is_multiple_of(7))).unwrap();
    }
    (form, (inputs, Targets::Sets(sets)))
}

/// Orders near 0, 1, 2, 3, 4, and blocks near {0, 1}, {2, 3, 4}.
fn others() -> Vec<(Form, (Inputs, Targets))> {
    let mut random = Streams::new(7, "dense").block(0);
    let mut made = Vec::new();
    for form in [Form::Precedence { items: 5 }, Form::Positions { items: 5 }, Form::Partition { elements: 5 }]
    {
        let (inputs, _) = problem(&form, 24, 1, false, &mut random);
        let mut values = Vec::new();
        for _ in 0..24 {
            if let Form::Partition { .. } = form {
                let odd = random.below(5);
                let mut own: Vec<u32> = (0..5).map(|i| if i == odd { 2 } else { u32::from(i > 1) }).collect();
                Blocks::canonical(&mut own);
                values.extend(own);
            } else {
                let mut own = [1, 2, 3, 4, 5];
                let at = random.below(4);
                own.swap(at, at + 1);
                values.extend(own);
            }
        }
        let targets = match form {
            Form::Partition { .. } => Targets::Blocks(Blocks { elements: 5, blocks: values }),
            _ => Targets::Ranks(Ranks { items: 5, ranks: values }),
        };
        made.push((form, (inputs, targets)));
    }
    made
}

fn all() -> Vec<(Form, (Inputs, Targets))> {
    let mut all = others();
    all.push(labels());
    all
}

/// A budget for which the tables of all these forms are too large.
fn tight() -> Run {
    Run::default().with_threads(1).with_memory(30_000)
}

/// The exact objective at a point.
fn exact(form: &Form, data: &(Inputs, Targets), point: &[f64]) -> f64 {
    let (compiled, run) = (form.compile().unwrap(), Run::default().with_threads(1));
    let objective = Objective::new(&compiled, &data.0, &data.1, LAMBDA);
    let mut gradient = vec![0.0; point.len()];
    objective.evaluate(point, &mut gradient, &run.start("test")).unwrap()
}

#[test]
fn training_lowers_the_objective_to_within_its_certified_gap() {
    for (form, data) in all() {
        let how = Learning::default().lambda(LAMBDA);
        let best = whole(&form, &data, &how.gap(1e-12), &Run::default().with_threads(1)).0.progress.objective;
        let refused = train(&form, &data.0, &data.1, &how, None, None, &tight(), &mut |_| Ok(true));
        assert!(refused.unwrap_err().to_string().contains("memory"));
        for (method, steps) in [(Method::Sampled, 40), (Method::Online, 12)] {
            let how = how.method(method).samples(4).gap(0.05).iterations(steps);
            let (found, seen) = whole(&form, &data, &how, &tight());
            let zero = exact(&form, &data, &vec![0.0; found.parameters.len()]);
            let last = exact(&form, &data, &found.parameters);
            assert!(found.progress.objective.is_nan() && found.confidence == 0.95);
            assert!(found.progress.certified);
            assert!(last - best < 0.2 * (zero - best), "{form:?} {method:?}: {last} {best} {zero}");
            assert!(last - best <= found.progress.gap, "{method:?}: {last} {best} {:?}", found.progress);
            assert!(
                found.progress.gap < 0.2 * seen[0].progress.gap,
                "{form:?} {method:?}: {:?}",
                found.progress
            );
            // The gap, which is known, is below what the trivial bound f(0) would give.
            assert!(found.progress.gap < zero, "{form:?}: {:?}", found.progress);
        }
    }
}

#[test]
fn resumed_runs_and_runs_with_more_threads_have_the_same_bits() {
    for (form, data) in all() {
        for method in [Method::Sampled, Method::Online] {
            let how =
                Learning::default().lambda(LAMBDA).method(method).samples(2).batch(5).gap(0.0).iterations(5);
            let (all, seen) = whole(&form, &data, &how, &tight());
            let run = tight().with_threads(2);
            assert_eq!(whole(&form, &data, &how, &run).0.parameters, all.parameters);
            let name = format!("zhat-dense-{}-{method:?}-{}", form.space(), std::process::id());
            let path = std::env::temp_dir().join(name);
            crate::learn::predict::file::write_predictor_checkpoint(&seen[2], &path).unwrap();
            let from = crate::learn::predict::file::read_predictor_checkpoint(&path).unwrap();
            std::fs::remove_file(&path).unwrap();
            let resumed =
                train(&form, &data.0, &data.1, &how, None, Some(from), &run, &mut |_| Ok(true)).unwrap();
            assert_eq!((resumed.parameters, resumed.progress.gap), (all.parameters, all.progress.gap));
        }
    }
}

/// A run fails with probability 0.05 at most. Of 40 runs, more than 12 failures have probability 3e-7.
#[test]
fn the_gap_holds_at_its_confidence() {
    for (form, data) in all() {
        let how = Learning::default().lambda(LAMBDA);
        let best = whole(&form, &data, &how.gap(1e-12), &Run::default().with_threads(1)).0.progress.objective;
        let mut failures = 0;
        for seed in 0..40 {
            let how = how.method(Method::Sampled).samples(1).iterations(6).gap(0.0);
            let (_, seen) = whole(&form, &data, &how, &tight().with_seed(seed));
            let late =
                |now: &PredictorCheckpoint| exact(&form, &data, now.parameters()) - best > now.progress.gap;
            failures += u32::from(seen.iter().any(late));
        }
        assert!(failures <= 12, "{form:?}: {failures}");
    }
}

/// Twenty labels with all pairs need tables of 2^20 entries per row.
#[test]
fn large_graphs_are_trained_within_their_time() {
    let form = Form::Labels { labels: 20, pairs: pairs_of(20), pairs_by_input: false };
    let mut random = Streams::new(8, "dense").block(0);
    let data = problem(&form, 6, 1, false, &mut random);
    let run = Run::default().with_threads(1);
    let how = Learning::default().lambda(2.0);
    let refused = train(&form, &data.0, &data.1, &how, None, None, &run, &mut |_| Ok(true));
    assert!(refused.unwrap_err().to_string().contains("sampled gradients would work"));
    let how = how.method(Method::Sampled).samples(2).iterations(6).gap(0.0);
    let (found, seen) = whole(&form, &data, &how, &run);
    assert!(found.parameters.iter().any(|x| *x != 0.0));
    assert!(found.progress.gap < 0.5 * seen[0].progress.gap, "{:?}", found.progress);
    // The time budget ends a run with its last whole step.
    let short = run.with_time(std::time::Duration::from_millis(300));
    let started = std::time::Instant::now();
    let (cut, _) = whole(&form, &data, &how.samples(1_000_000), &short);
    assert!(cut.progress.step == 0 && started.elapsed().as_secs_f64() < 5.0);
}

/// Twenty items or elements are beyond exact sums. The objective falls and stays certified.
#[test]
fn twenty_items_and_elements_are_trained_from_exact_samples() {
    let run = Run::default().with_threads(1);
    for form in [Form::Precedence { items: 20 }, Form::Partition { elements: 20 }] {
        let mut random = Streams::new(9, "dense").block(0);
        let (inputs, _) = problem(&form, 8, 1, false, &mut random);
        let mut values = Vec::new();
        for _ in 0..8 {
            if let Form::Partition { .. } = form {
                let mut own: Vec<u32> = (0..20).map(|i| i % 4).collect();
                own[random.below(20)] = 4;
                Blocks::canonical(&mut own);
                values.extend(own);
            } else {
                let mut own: Vec<u32> = (1..=20).collect();
                let at = random.below(19);
                own.swap(at, at + 1);
                values.extend(own);
            }
        }
        let targets = match form {
            Form::Partition { .. } => Targets::Blocks(Blocks { elements: 20, blocks: values }),
            _ => Targets::Ranks(Ranks { items: 20, ranks: values }),
        };
        let data = (inputs, targets);
        let how = Learning::default().lambda(1.0);
        let refused = train(&form, &data.0, &data.1, &how, None, None, &run, &mut |_| Ok(true));
        assert!(refused.unwrap_err().to_string().contains("sampled gradients would work"));
        let how = how.method(Method::Sampled).samples(4).iterations(8).gap(0.0);
        let (found, seen) = whole(&form, &data, &how, &run);
        assert!(found.confidence == 0.95 && found.progress.gap < 0.5 * seen[0].progress.gap, "{found:?}");
    }
}

/// Scores of both signs that no exact sampler can handle: training goes on, and says that its gap is not certified.
#[test]
fn gaps_from_approximate_samples_are_not_certified() {
    let run = Run::default().with_threads(1);
    let form = Form::Precedence { items: 24 };
    let mut random = Streams::new(10, "dense").block(0);
    let data = problem(&form, 1, 1, false, &mut random);
    let start: Vec<f64> = (0..2 * 276).map(|_| 4.0 * random.normal()).collect();
    for method in [Method::Sampled, Method::Online] {
        let how = Learning::default().lambda(1e-4).method(method).iterations(1).gap(0.0);
        let found =
            train(&form, &data.0, &data.1, &how, Some(&start), None, &run, &mut |_| Ok(true)).unwrap();
        assert!(!found.progress.certified && found.confidence == 0.0, "{method:?}: {:?}", found.progress);
        assert!(found.progress.gap.is_finite());
        if let Some(regret) = found.regret {
            assert_eq!(regret.confidence(), 0.0);
        }
    }
}

/// Eighteen siblings with all pairs: from examples to predictions with their guarantees.
#[test]
fn hierarchies_with_dense_pairs_of_siblings_are_trained_by_samples() {
    let run = Run::default().with_threads(1).with_seed(4);
    let parents: Vec<Option<usize>> = (0..20).map(|v| if v < 2 { None } else { Some(0) }).collect();
    let mut sets = Sets { width: 20, ..Default::default() };
    for row in 0..8u32 {
        sets.push([0].into_iter().chain((2..20).filter(|v| (3 * v + 5 * row) % 7 < 2))).unwrap();
    }
    let examples = Examples {
        source: "t".into(),
        lines: (1..9).collect(),
        columns: vec![InputColumn { name: "a".into(), levels: None }],
        cells: Cells::Dense((0..8).map(|row| f64::from(row).sin()).collect()),
        names: (0..20).map(|v| format!("n{v}")).collect(),
        parents: parents.clone(),
        targets: Some(Targets::Sets(sets)),
        weights: None,
    };
    let mut recipe = Recipe {
        space: Space::Hierarchy,
        pairs: Structure::Complete,
        learning: Learning::default().lambda(1.0),
        ..Default::default()
    };
    let refused = recipe.fit(&examples, None, &run, &mut |_| Ok(true)).unwrap_err();
    assert!(refused.to_string().contains("sampled gradients would work"), "{refused}");
    recipe.learning = recipe.learning.method(Method::Sampled).samples(4).iterations(4).gap(0.0);
    let (mut gaps, mut certified) = (Vec::new(), false);
    let fitted = recipe.fit(&examples, None, &run, &mut |now| {
        gaps.push(now.progress().gap);
        certified = now.progress().certified;
        Ok(true)
    });
    let (made, _) = fitted.unwrap();
    let Form::Hierarchy { pairs, .. } = made.form() else { panic!() };
    assert_eq!(pairs.len(), 1 + 18 * 17 / 2);
    let training = made.training();
    // The gap is called certified only if all samples were exact.
    assert_eq!(training.confidence, if certified { 0.95 } else { 0.0 }, "{training:?}");
    assert!(training.objective.is_nan() && training.gap < 0.5 * gaps[0], "{gaps:?}");
    assert!(!made.is_exact());
    let inputs = made.inputs(&examples, &run).unwrap().select(&[0, 5]);
    let closed = |y: &[u32]| (0..20).all(|v| y[v] == 0 || parents[v].is_none_or(|parent| y[parent] == 1));
    for decision in [Decision::MostProbable, Decision::Hamming] {
        for one in made.predict(&inputs, decision, &run).unwrap() {
            assert!(closed(&one.structure), "{one:?}");
            let log = one.log_probability;
            match one.guarantee {
                Guarantee::Exact => {}
                Guarantee::Bounds { low, high, .. } => {
                    assert!(low <= log && log <= high, "{low} {log} {high}")
                }
                other => panic!("{other:?}"),
            }
        }
    }
    for row in made.marginals(&inputs, &run).unwrap() {
        let above = |v: usize| parents[v].is_none_or(|parent| row.value[v] <= row.value[parent] + 1e-12);
        assert!((0..20).all(|v| (0.0..=1.0).contains(&row.value[v]) && above(v)), "{row:?}");
    }
}
