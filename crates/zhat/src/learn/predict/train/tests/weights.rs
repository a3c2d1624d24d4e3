//! Weights of rows: whole weights count as repeated rows, in the objective, its gradient and its minimum.

use super::*;
use crate::learn::Structure;
use crate::learn::predict::{Cells, Examples, InputColumn, RankingModel, Recipe, Space};

/// Weights from 0 to 3, not all 0, and the rows repeated as often.
fn repetitions(rows: usize, random: &mut Stream) -> (Vec<f64>, Vec<usize>) {
    let mut counts: Vec<usize> = (0..rows).map(|_| random.below(4)).collect();
    counts[0] = 2;
    let repeated = counts.iter().enumerate().flat_map(|(row, &count)| vec![row; count]).collect();
    (counts.iter().map(|&count| count as f64).collect(), repeated)
}

fn evaluated(objective: &Objective<'_>, point: &[f64], threads: usize) -> (f64, Vec<f64>) {
    let run = Run::default().with_threads(threads);
    let mut gradient = vec![0.0; point.len()];
    let value = run.install(|| objective.evaluate(point, &mut gradient, &run.start("test"))).unwrap();
    (value, gradient)
}

#[test]
fn weighted_objectives_agree_with_repeated_rows_and_differences() {
    let mut random = Streams::new(21, "weights").block(0);
    for form in forms() {
        for sparse in [false, true] {
            let (inputs, targets) = problem(&form, 70, 3, sparse, &mut random);
            let (weights, repeated) = repetitions(70, &mut random);
            let (many, many_targets) = (inputs.select(&repeated), targets.select(&repeated));
            // Only the ratios of the weights matter.
            let halves = weights.iter().map(|weight| 0.5 * weight).collect();
            let inputs = inputs.with_weights(halves).unwrap();
            let compiled = form.compile().unwrap();
            let weighted = Objective::new(&compiled, &inputs, &targets, 0.03);
            let plain = Objective::new(&compiled, &many, &many_targets, 0.03);
            let point: Vec<f64> = (0..weighted.dimension()).map(|_| 0.5 * random.normal()).collect();
            let ((value, gradient), (want, slopes)) =
                (evaluated(&weighted, &point, 1), evaluated(&plain, &point, 1));
            assert!((value - want).abs() < 1e-12, "{form:?}: {value} {want}");
            gradient.iter().zip(&slopes).for_each(|(a, b)| assert!((a - b).abs() < 1e-12, "{form:?}"));
            assert_eq!((value, gradient.clone()), evaluated(&weighted, &point, 3));
            for at in 0..point.len() {
                let moved = |by: f64| {
                    let mut other = point.clone();
                    other[at] += by;
                    evaluated(&weighted, &other, 1).0
                };
                let slope = (moved(1e-5) - moved(-1e-5)) / 2e-5;
                assert!((gradient[at] - slope).abs() < 1e-7, "{form:?} {at}: {} {slope}", gradient[at]);
            }
            assert!((weighted.norm_bound() / plain.norm_bound() - 1.0).abs() < 1e-12);
            assert!((weighted.curvature() / plain.curvature() - 1.0).abs() < 1e-6);
            // One sample of a row of weight 2 says less than two samples of two rows.
            assert!(weighted.spread() > plain.spread());
        }
    }
}

#[test]
fn weighted_training_reaches_the_minimum_of_repeated_rows() {
    let mut random = Streams::new(22, "weights").block(0);
    let run = Run::default().with_threads(1);
    for (number, form) in forms().into_iter().enumerate() {
        let (inputs, targets) = problem(&form, 40, 9, number % 2 == 0, &mut random);
        let (weights, repeated) = repetitions(40, &mut random);
        let how = Learning::default().lambda(0.05).gap(1e-10);
        let data = (inputs.select(&repeated), targets.select(&repeated));
        let best = whole(&form, &data, &how, &run).0;
        let data = (inputs.with_weights(weights).unwrap(), targets);
        let (found, seen) = whole(&form, &data, &how, &run);
        assert!(found.converged && best.converged);
        assert!((found.progress.objective - best.progress.objective).abs() < 2e-10, "{form:?}");
        let distance: f64 =
            found.parameters.iter().zip(&best.parameters).map(|(a, b)| (a - b) * (a - b)).sum();
        // Strong convexity: λ‖θ − θ*‖² is at most each gap.
        assert!(0.05 * distance < 4e-10, "{form:?}: {distance}");
        let least = best.progress.objective;
        assert!(seen.iter().all(|now| now.progress.gap >= now.progress.objective - least));
        // Online training with exact gradients.
        let online = how.method(Method::Online).samples(0).batch(6).iterations(60).gap(0.0);
        let (_, seen) = whole(&form, &data, &online, &run);
        assert!(seen.iter().all(|now| now.progress.gap >= now.progress.objective - least));
        let errors = [&seen[1], &seen[59]].map(|now| now.progress.objective - least);
        assert!(8.0 * errors[1] < errors[0], "{form:?}: {errors:?}");
    }
}

/// With failure probability 1e-7 of each run, no step of ten runs has a gap below the true one.
#[test]
fn sampled_gaps_hold_with_weights() {
    let mut random = Streams::new(23, "weights").block(0);
    let form = forms().swap_remove(1);
    let (inputs, targets) = problem(&form, 40, 2, false, &mut random);
    let (weights, _) = repetitions(40, &mut random);
    let data = (inputs.with_weights(weights).unwrap(), targets);
    let (how, run) = (Learning::default().lambda(0.2), Run::default().with_threads(1));
    let best = whole(&form, &data, &how.gap(1e-12), &run).0.progress.objective;
    let compiled = form.compile().unwrap();
    let objective = Objective::new(&compiled, &data.0, &data.1, 0.2);
    for seed in 0..10 {
        let sampled = how.method(Method::Sampled).samples(2).iterations(8).gap(0.0).failure(1e-7);
        let (_, seen) = whole(&form, &data, &sampled, &run.clone().with_seed(seed));
        for now in &seen {
            let value = evaluated(&objective, now.parameters(), 1).0;
            assert!(value - best <= now.progress.gap, "{value} {best} {now:?}");
        }
    }
}

/// Pairs, standardisation, λ of the objective and Mallows' spread: a whole recipe with weights is that of
/// repeated rows. The weights come from a column, which is then no input.
#[test]
fn weighted_recipes_agree_with_repeated_rows() {
    let mut random = Streams::new(24, "weights").block(0);
    let run = Run::default().with_threads(1);
    let parents = vec![None, Some(0), Some(0), Some(0), None];
    let hierarchy = Form::Hierarchy { parents: parents.clone(), pairs: vec![], pairs_by_input: false };
    let labels = Form::Labels { labels: 5, pairs: vec![], pairs_by_input: false };
    let cases = [
        (Space::Labels, labels, Structure::ChowLiu { more: 1 }, vec![]),
        (Space::Hierarchy, hierarchy, Structure::ChowLiu { more: 0 }, parents),
        (Space::Ranking, Form::PlackettLuce { items: 4 }, Structure::Independent, vec![]),
    ];
    for (space, form, pairs, parents) in cases {
        let (_, targets) = problem(&form, 40, 1, false, &mut random);
        let (weights, repeated) = repetitions(40, &mut random);
        let cells = weights.iter().flat_map(|&weight| [random.normal(), weight, 10.0 + random.normal()]);
        let column = |name: &str| InputColumn { name: name.into(), levels: None };
        let mut weighted = Examples {
            source: "t".into(),
            lines: (2..42).collect(),
            columns: ["a", "w", "b"].map(column).to_vec(),
            cells: Cells::Dense(cells.collect()),
            names: (0..form.width()).map(|i| i.to_string()).collect(),
            parents,
            targets: Some(targets),
            weights: None,
        };
        weighted.take_weights("w").unwrap();
        assert_eq!((weighted.columns.len(), weighted.weights.as_ref()), (2, Some(&weights)));
        let plain = Examples { weights: None, ..weighted.select(&repeated) };
        let recipe = Recipe {
            space,
            pairs,
            ranking: RankingModel::Mallows,
            learning: Learning::default().lambda(0.05).gap(1e-11),
            ..Default::default()
        };
        let (want, _) = recipe.fit(&plain, None, &run, &mut |_| Ok(true)).unwrap();
        let (found, _) = recipe.fit_owned(weighted, None, &run, &mut |_| Ok(true)).unwrap();
        assert_eq!(found.form(), want.form());
        assert!((found.training().objective - want.training().objective).abs() < 1e-10);
        let both = found.parameters().iter().zip(want.parameters());
        both.for_each(|(a, b)| assert!((a - b).abs() < 1e-4, "{a} {b}"));
    }
}

#[test]
fn unusable_columns_of_weights_are_refused() {
    let column = |name: &str, levels: Option<Vec<String>>| InputColumn { name: name.into(), levels };
    let made = |weight: f64| Examples {
        source: "t.csv".into(),
        lines: vec![2, 3],
        columns: vec![column("a", None), column("w", None), column("c", Some(vec!["u".into()]))],
        cells: Cells::Sparse {
            ends: vec![2, 4],
            indices: vec![0, 1, 1, 2],
            values: vec![7.0, 1.0, weight, 0.0],
        },
        names: vec![],
        parents: vec![],
        targets: None,
        weights: None,
    };
    let message = |weight: f64, name: &str| made(weight).take_weights(name).unwrap_err().to_string();
    assert_eq!(message(-1.0, "w"), "t.csv: line 3: column w: the weight is -1, expected a number from 0");
    assert_eq!(
        message(f64::NAN, "w"),
        "t.csv: line 3: column w: the weight is missing, expected a number from 0"
    );
    assert_eq!(message(1.0, "c"), "t.csv: column c is categorical; weights must be numbers");
    assert_eq!(message(1.0, "d"), "t.csv: there is no input column `d` with weights");
    let mut fine = made(2.5);
    fine.take_weights("w").unwrap();
    assert_eq!(fine.weights, Some(vec![1.0, 2.5]));
    let cells = Cells::Sparse { ends: vec![1, 2], indices: vec![0, 1], values: vec![7.0, 0.0] };
    assert_eq!((fine.cells, fine.columns.len()), (cells, 2));
}
