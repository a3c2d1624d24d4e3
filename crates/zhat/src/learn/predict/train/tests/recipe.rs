//! Whole recipes: the fit of Mallows in two stages, checkpoints and λ, examples that are used up.

use super::*;
use crate::learn::predict::{
    Cells, Encoding, Examples, InputColumn, RankingModel, Recipe, Scaling, Space, evaluate,
};

fn examples(form: &Form, rows: usize, random: &mut Stream) -> Examples {
    let (_, targets) = problem(form, rows, 1, false, random);
    let column = |name: &str| InputColumn { name: name.into(), levels: None };
    Examples {
        source: "t".into(),
        lines: (2..rows + 2).collect(),
        columns: ["a", "b"].map(column).to_vec(),
        cells: Cells::Dense((0..2 * rows).map(|_| random.normal()).collect()),
        names: (0..form.width()).map(|i| i.to_string()).collect(),
        parents: vec![],
        targets: Some(targets),
        weights: None,
    }
}

/// The minimum of the objective of Mallows is not that of the fit in two stages: shorter parameters of the same
/// orders have a smaller objective. Only the first stage has a certified minimum.
#[test]
fn mallows_has_a_certificate_for_its_centres_only() {
    let run = Run::default().with_threads(1);
    let form = Form::PlackettLuce { items: 4 };
    let data = examples(&form, 30, &mut Streams::new(25, "recipes").block(0));
    let first = Recipe {
        space: Space::Ranking,
        learning: Learning::default().lambda(0.05).gap(1e-9),
        ..Default::default()
    };
    let recipe = Recipe { ranking: RankingModel::Mallows, ..first.clone() };
    let (plain, _) = first.fit(&data, None, &run, &mut |_| Ok(true)).unwrap();
    let (made, _) = recipe.fit(&data, None, &run, &mut |_| Ok(true)).unwrap();
    let (own, training) = (plain.training(), made.training());
    let centres = training.centres.unwrap();
    assert_eq!((centres.objective, centres.gap, centres.confidence), (own.objective, own.gap, 1.0));
    assert!(own.centres.is_none() && centres.gap <= 1e-9);
    assert!(training.gap == training.objective && training.confidence == 1.0);
    let objective = |parameters: &[f64]| {
        let parts = (made.form().clone(), made.names().to_vec(), made.encoder().clone());
        let other =
            crate::learn::predict::Predictor::new(parts.0, parts.1, parts.2, parameters.to_vec(), *training);
        let other = other.unwrap();
        let inputs = other.inputs(&data, &run).unwrap();
        let found = evaluate(&other, &inputs, data.observed().unwrap(), None, &run).unwrap();
        found.get("log_loss").unwrap() + training.lambda * parameters.iter().map(|x| x * x).sum::<f64>()
    };
    let parameters = made.parameters();
    assert!((objective(parameters) - training.objective).abs() < 1e-12);
    let (spread, weights) = parameters.split_last().unwrap();
    let shorter: Vec<f64> = weights.iter().map(|x| 0.5 * x).chain([*spread]).collect();
    assert!(objective(&shorter) < training.objective);
    // The spread is the best for these centres.
    for other in [0.9 * spread, 1.1 * spread] {
        let moved: Vec<f64> = weights.iter().copied().chain([other]).collect();
        assert!(objective(&moved) > training.objective);
    }
    let mut bytes = Vec::new();
    crate::learn::predict::file::write_predictor(&made, &mut bytes).unwrap();
    let read = crate::learn::predict::file::parse_predictor(&bytes, "m.zhat").unwrap();
    assert_eq!(read.training(), training);
}

/// Rows with partial rankings are not in the fit of the spread: their number is reported, and the spread is that of
/// the other rows.
#[test]
fn mallows_reports_the_partial_rankings_that_it_leaves_out() {
    let run = Run::default().with_threads(1);
    let form = Form::PlackettLuce { items: 4 };
    let mut data = examples(&form, 30, &mut Streams::new(26, "recipes").block(0));
    let recipe = Recipe {
        space: Space::Ranking,
        ranking: RankingModel::Mallows,
        learning: Learning::default().lambda(0.05).gap(1e-9),
        ..Default::default()
    };
    let fitted = |data: &Examples| recipe.fit(data, None, &run, &mut |_| Ok(true)).map(|made| made.0);
    assert_eq!(fitted(&data).unwrap().training().left_out, 0);
    let partial = |data: &mut Examples, rows: std::ops::Range<usize>| {
        let Some(Targets::Ranks(ranks)) = &mut data.targets else { panic!() };
        rows.for_each(|row| ranks.ranks[4 * row..4 * row + 4].copy_from_slice(&[1, 2, 2, 0]));
    };
    partial(&mut data, 5..12);
    let made = fitted(&data).unwrap();
    assert_eq!(made.training().left_out, 7);
    // The mean of the complete rows alone: their log-loss and the penalty are the objective.
    let others: Vec<usize> = (0..30).filter(|row| !(5..12).contains(row)).collect();
    let some = data.select(&others);
    let inputs = made.inputs(&some, &run).unwrap();
    let found = evaluate(&made, &inputs, some.observed().unwrap(), None, &run).unwrap();
    let penalty = 0.05 * made.parameters().iter().map(|x| x * x).sum::<f64>();
    assert!((found.get("log_loss").unwrap() + penalty - made.training().objective).abs() < 1e-12);
    let mut bytes = Vec::new();
    crate::learn::predict::file::write_predictor(&made, &mut bytes).unwrap();
    let read = crate::learn::predict::file::parse_predictor(&bytes, "m.zhat").unwrap();
    assert_eq!(read.training(), made.training());
    // Rows without weight are neither complete nor left out.
    data.weights = Some((0..30).map(|row| if (5..15).contains(&row) { 0.0 } else { 1.0 }).collect());
    assert_eq!(fitted(&data).unwrap().training().left_out, 0);
    partial(&mut data, 0..5);
    partial(&mut data, 15..30);
    for weights in [data.weights.take(), None] {
        data.weights = weights.clone();
        if weights.is_none() {
            partial(&mut data, 0..30);
        }
        let message = fitted(&data).unwrap_err().to_string();
        assert!(message.contains("mallows needs at least one row with a complete ranking"), "{message}");
    }
}

/// A checkpoint does not replace λ: it resumes a run with the same λ, or with several of which one was chosen.
#[test]
fn a_checkpoint_of_another_lambda_is_refused() {
    let run = Run::default().with_threads(1);
    let form = Form::Labels { labels: 3, pairs: vec![], pairs_by_input: false };
    let data = examples(&form, 20, &mut Streams::new(26, "recipes").block(0));
    let recipe = |lambdas: &[f64]| Recipe {
        lambdas: lambdas.to_vec(),
        folds: 2,
        learning: Learning::default().lambda(lambdas.first().copied().unwrap_or(0.1)),
        ..Default::default()
    };
    let mut kept = None;
    let (want, _) = recipe(&[0.1])
        .fit(&data, None, &run, &mut |now| {
            kept = kept.take().or(Some(now.clone()));
            Ok(true)
        })
        .unwrap();
    let resume = |lambdas: &[f64]| recipe(lambdas).fit(&data, kept.clone(), &run, &mut |_| Ok(true));
    for lambdas in [&[0.2][..], &[0.2, 0.3], &[0.0999999, 1.0]] {
        let message = resume(lambdas).unwrap_err().to_string();
        assert!(message.contains("checkpoint: belongs to other data"), "{lambdas:?}: {message}");
    }
    for lambdas in [&[][..], &[0.1], &[0.3, 0.1]] {
        let (found, candidates) = resume(lambdas).unwrap();
        assert_eq!((found.parameters(), found.training().lambda), (want.parameters(), 0.1));
        assert!(candidates.is_empty());
    }
}

/// Examples that are used up give the same bits: dense and sparse cells, missing values, columns in any order.
#[test]
fn examples_that_are_used_up_give_the_same_bits() {
    let run = Run::default().with_threads(1);
    let form = Form::Labels { labels: 3, pairs: vec![], pairs_by_input: false };
    let mut random = Streams::new(27, "recipes").block(0);
    for missing in [false, true] {
        for scaling in [Scaling::Auto, Scaling::Max, Scaling::Unit, Scaling::Standard, Scaling::None] {
            let mut data = examples(&form, 20, &mut random);
            let (mut ends, mut indices, mut values) = (vec![], vec![], vec![]);
            for row in 0..20 {
                // Columns in any order, empty rows, zeros that are given.
                let own = [[0, 1], [1, 0]][row % 2];
                for &column in own.iter().take((row + 1) % 3) {
                    let value = if row % 7 == 3 { 0.0 } else { random.normal() };
                    indices.push(column);
                    values.push(if missing && row == 4 { f64::NAN } else { value });
                }
                ends.push(values.len());
            }
            data.cells = Cells::Sparse { ends, indices, values };
            data.weights = missing.then(|| (0..20).map(|row| f64::from(row % 3)).collect());
            let recipe = Recipe {
                encoding: Encoding { scaling, fourier: None },
                learning: Learning::default().lambda(0.1),
                ..Default::default()
            };
            let (want, _) = recipe.fit(&data, None, &run, &mut |_| Ok(true)).unwrap();
            let (found, _) = recipe.fit_owned(data, None, &run, &mut |_| Ok(true)).unwrap();
            assert_eq!((found.parameters(), found.training()), (want.parameters(), want.training()));
        }
    }
}
