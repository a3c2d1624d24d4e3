//! Tests of the catalogue.

use super::*;
use crate::model::{
    Chain, DependencyTree, FactorGraph, Hypertree, Interactions, MixedModel, PairwiseGraph, Rules, Segments,
    SemiMarkov, SequenceMrf, Symbols, Transitions, TreeShape,
    generate::{self, GraphShape},
};
use std::time::Duration;

fn grid(side: usize) -> Model {
    let grid = generate::Grid { rows: side, columns: side, torus: false };
    generate::ising(grid, 0.3, 0.3, false, 1).unwrap().into()
}

/// A small model of the kind.
fn small(kind: Kind) -> Model {
    let transitions = Transitions::Shared(vec![0.5, -0.5, 0.25, 1.0].into());
    let emissions = (0..12).map(|k| f64::from(k % 5) / 4.0).collect::<Vec<f64>>();
    let chain = Chain::crf(2, emissions.into(), vec![3, 2], transitions).unwrap();
    match kind.name() {
        "factor-graph" => generate::random(&GraphShape { variables: 5, factors: 6, ..Default::default() }, 0)
            .unwrap()
            .into(),
        "chain" => chain.into(),
        "pairwise-graph" => {
            let table = Transitions::Shared(vec![0.5, -0.5, 0.25, 1.0].into());
            PairwiseGraph::new(2, vec![0.0; 6].into(), vec![(0, 1), (2, 1)], table).unwrap().into()
        }
        "mixed-model" => {
            MixedModel::gaussian_mixture(&[0.5, 0.5], &[-1.0, 2.0], &[1.0, 0.5], (-4.0, 4.0)).unwrap().into()
        }
        "space" => {
            let cube = crate::space::Hypercube::new(3).unwrap();
            let scores = crate::space::Scores::Unary(vec![0.5, -0.25, 0.125]);
            crate::space::SpaceModel::new(cube, scores).unwrap().into()
        }
        "sequence-mrf" => {
            let theta = Interactions::Full(vec![vec![0.5, -0.5, 0.25, 1.0]]);
            SequenceMrf::new(5, vec![0.25, 0.0], theta).unwrap().into()
        }
        "semi-markov" => SemiMarkov::new(chain, Segments::Lengths(vec![0.0; 4].into()), 2).unwrap().into(),
        "hypertree" => {
            Hypertree::new(Symbols::same(2), vec![0.5; 6].into(), vec![3], Rules::Any).unwrap().into()
        }
        "dependency-tree" => {
            let shape = TreeShape { projective: false, single_root: true };
            DependencyTree::new(vec![0.5; 9].into(), vec![0.0; 3].into(), vec![3], None, shape)
                .unwrap()
                .into()
        }
        other => panic!("no small model of kind {other}"),
    }
}

fn chosen(model: &Model, choice: &str, run: &Run) -> Result<&'static str> {
    let plan = choose(model, Query::LogPartition, &Choice::parse(choice), &Settings::new(), run)?;
    Ok(plan.row.method)
}

#[test]
fn auto_takes_the_strongest_promise_that_fits() {
    let run = Run::default().with_memory(1 << 30);
    assert_eq!(chosen(&grid(12), "auto", &run).unwrap(), "elimination");
    assert_eq!(chosen(&grid(60), "auto", &run).unwrap(), "anytime-bounds");
    let short = run.clone().with_time(Duration::from_millis(1));
    assert!(matches!(chosen(&grid(60), "auto", &short), Err(Error::OverBudget { .. })));
}

#[test]
fn a_kind_of_promise_can_be_asked_for() {
    let run = Run::default().with_memory(1 << 30);
    assert_eq!(chosen(&grid(3), "exact", &run).unwrap(), "elimination");
    let error = chosen(&grid(60), "exact", &run).unwrap_err();
    assert!(error.is_unanswerable() && error.to_string().contains("these fit: anytime-bounds"), "{error}");
}

#[test]
fn unknown_methods_and_options_name_what_there_is() {
    let run = Run::default();
    let error = chosen(&grid(3), "magic", &run).unwrap_err().to_string();
    assert!(error.contains("no method `magic`") && error.contains("elimination"), "{error}");
    let settings = Settings::from_iter([("smaples".to_string(), Value::from(3))]);
    let choice = Choice::parse("importance");
    let error = answer(&grid(3), Query::LogPartition, &choice, &settings, &run).unwrap_err().to_string();
    assert!(error.contains("smaples") && error.contains("samples"), "{error}");
}

#[test]
fn every_row_answers_every_query_it_lists() {
    for row in all() {
        let model = small(row.kind);
        for query in row.queries() {
            let choice = Choice::Named(row.method.into());
            let answer = answer(&model, query, &choice, &Settings::new(), &Run::default());
            // For such strong interactions the estimate of the published quadrature may not be positive, so
            // it has no logarithm. The small dependency trees are not projective.
            let excused = row.method == "sccq-published"
                || (row.method == "randomized-inside" && row.kind == DependencyTree::<f64>::KIND);
            if matches!(answer, Err(Error::NoAnswer(_))) && excused {
                continue;
            }
            let answer = answer.unwrap();
            let forecast = row.forecast(&model, query, &Settings::new(), &Run::default()).unwrap();
            // The guarantee is at least the forecast one; it is stronger if nothing had to be estimated.
            let promise = answer.guarantee.promise();
            assert!(promise >= forecast.promise, "{} {}: {promise:?}", row.method, query.name());
            assert_eq!(answer.diagnostics.method, row.method);
        }
    }
}

#[test]
fn an_empty_model_has_one_state() {
    let model: Model = FactorGraph::new(vec![]).unwrap().into();
    for row in rows(FactorGraph::KIND).filter(|row| row.answers(Query::LogPartition)) {
        let choice = Choice::Named(row.method.into());
        let z = answer(&model, Query::LogPartition, &choice, &Settings::new(), &Run::default()).unwrap();
        assert!(z.number().unwrap().abs() < 1e-12, "{}: {:?}", row.method, z.value);
    }
}
