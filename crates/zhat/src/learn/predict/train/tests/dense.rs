//! Sampled training of label graphs without exact sums. A small memory budget forces small graphs, whose
//! objective is known exactly, through samples.

use super::*;
use crate::learn::predict::objective::Objective;

const LAMBDA: f64 = 0.2;

fn small() -> (Form, (Inputs, Targets)) {
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

/// A budget for which tables of five labels are too large.
fn tight() -> Run {
    Run::default().with_threads(1).with_memory(100_000)
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
    let (form, data) = small();
    let how = Learning::default().lambda(LAMBDA);
    let best = whole(&form, &data, &how.gap(1e-12), &Run::default().with_threads(1)).0.progress.objective;
    let zero = exact(&form, &data, &[0.0; 20]);
    let refused = train(&form, &data.0, &data.1, &how, None, None, &tight(), &mut |_| Ok(true));
    assert!(refused.unwrap_err().to_string().contains("memory"));
    for (method, steps) in [(Method::Sampled, 40), (Method::Online, 12)] {
        let how = how.method(method).samples(4).gap(0.05).iterations(steps);
        let (found, seen) = whole(&form, &data, &how, &tight());
        let last = exact(&form, &data, &found.parameters);
        assert!(found.progress.objective.is_nan() && found.confidence == 0.95);
        assert!(last - best < 0.2 * (zero - best), "{method:?}: {last} {best} {zero}");
        assert!(last - best <= found.progress.gap, "{method:?}: {last} {best} {:?}", found.progress);
        assert!(found.progress.gap < 0.1 * seen[0].progress.gap, "{method:?}: {:?}", found.progress);
        // The gap, which is known, is below what the trivial bound f(0) would give.
        assert!(found.progress.gap < zero, "{:?}", found.progress);
    }
}

#[test]
fn resumed_runs_and_runs_with_more_threads_have_the_same_bits() {
    let (form, data) = small();
    for method in [Method::Sampled, Method::Online] {
        let how =
            Learning::default().lambda(LAMBDA).method(method).samples(2).batch(5).gap(0.0).iterations(5);
        let (all, seen) = whole(&form, &data, &how, &tight());
        let run = tight().with_threads(2);
        assert_eq!(whole(&form, &data, &how, &run).0.parameters, all.parameters);
        let path = std::env::temp_dir().join(format!("zhat-dense-{method:?}-{}", std::process::id()));
        crate::learn::predict::file::write_predictor_checkpoint(&seen[2], &path).unwrap();
        let from = crate::learn::predict::file::read_predictor_checkpoint(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let resumed =
            train(&form, &data.0, &data.1, &how, None, Some(from), &run, &mut |_| Ok(true)).unwrap();
        assert_eq!((resumed.parameters, resumed.progress.gap), (all.parameters, all.progress.gap));
    }
}

/// A run fails with probability 0.05 at most. Of 40 runs, more than 12 failures have probability 3e-7.
#[test]
fn the_gap_holds_at_its_confidence() {
    let (form, data) = small();
    let how = Learning::default().lambda(LAMBDA);
    let best = whole(&form, &data, &how.gap(1e-12), &Run::default().with_threads(1)).0.progress.objective;
    let mut failures = 0;
    for seed in 0..40 {
        let how = how.method(Method::Sampled).samples(1).iterations(6).gap(0.0);
        let (_, seen) = whole(&form, &data, &how, &tight().with_seed(seed));
        failures +=
            u32::from(seen.iter().any(|now| exact(&form, &data, now.parameters()) - best > now.progress.gap));
    }
    assert!(failures <= 12, "{failures}");
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
