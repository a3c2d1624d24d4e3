//! Memory is forecast before it is allocated: a refused query allocates next to nothing, and an accepted
//! query stays within the budget.
#![allow(clippy::unwrap_used)]

#[path = "support/counting.rs"]
mod counting;
mod support;

use std::io::Write;
use std::time::Duration;

use counting::{alone, measured};
use zhat::catalogue::{self, Choice, Settings, answer};
use zhat::dynamic::ForwardBackward;
use zhat::model::generate::{self, GraphShape, Grid};
use zhat::model::{Chain, Segments, SemiMarkov, Transitions};
use zhat::query::{Differentiable, Operation};
use zhat::{Error, FactorGraph, LogPartition, Model, Query, Run};

const BUDGET: usize = 1 << 20;

fn models() -> Vec<(&'static str, Model)> {
    let grid = |rows, columns| Grid { rows, columns, torus: false };
    let mut hub = FactorGraph::new(vec![2; 500]).unwrap();
    (1..500).for_each(|v| assert!(hub.add_factor(&[0, v], &[0.1, 0.2, 0.3, 0.4]).is_ok()));
    vec![
        ("a wide grid", generate::ising(grid(30, 30), 1.0, 1.0, false, 1).unwrap().into()),
        ("a narrow grid", generate::ising(grid(5, 20), 1.0, 1.0, false, 1).unwrap().into()),
        ("a tree", generate::tree(300, 3, 1.0, 1).unwrap().into()),
        ("a star", hub.into()),
        (
            "a dense graph",
            generate::random(&GraphShape { variables: 40, states: 4, factors: 300, ..Default::default() }, 1)
                .unwrap()
                .into(),
        ),
        (
            "large factors",
            generate::random(
                &GraphShape { variables: 10, states: 3, factors: 3, arity: 7, ..Default::default() },
                1,
            )
            .unwrap()
            .into(),
        ),
        (
            "few states",
            generate::random(&GraphShape { variables: 10, states: 3, factors: 20, ..Default::default() }, 1)
                .unwrap()
                .into(),
        ),
    ]
}

/// Runs every query with every method and returns the number of queries answered.
fn keep_to_the_budget(name: &str, model: &Model) -> usize {
    let run = Run::default().with_threads(1).with_memory(BUDGET as u64).with_time(Duration::from_millis(100));
    run.install(|| ());
    let mut answered = 0;
    for row in catalogue::rows(model.kind()) {
        let mut settings = Settings::new();
        if row.method == "importance" {
            settings.insert("samples".into(), 100.into());
        }
        let choice = Choice::Named(row.method.into());
        let many = [
            Query::KBest(10_000),
            Query::KBest(usize::MAX),
            Query::Sample(10_000),
            Query::Sample(usize::MAX),
        ];
        for query in Query::ALL.into_iter().chain(many).filter(|query| row.answers(*query)) {
            let (result, peak) = measured(|| answer(model, query, &choice, &settings, &run));
            assert!(peak <= BUDGET, "{name}: {} {query:?} took {peak} bytes", row.method);
            match result {
                Ok(_) => answered += 1,
                // This method can fail for reasons other than memory.
                Err(Error::NoAnswer(_)) if row.method == "sccq-published" => {}
                Err(error) => {
                    let message = error.to_string();
                    assert!(matches!(error, Error::OverBudget { .. }), "{name}: {} {message}", row.method);
                    let figures = ["of memory; the budget is 1.0 MiB", "the budget is 100 ms"];
                    assert!(figures.iter().any(|figure| message.contains(figure)), "{message}");
                }
            }
        }
    }
    answered
}

#[test]
fn accepted_queries_stay_within_the_budget_and_errors_name_it() {
    let _turn = alone();
    for (name, model) in models() {
        let answered = keep_to_the_budget(name, &model);
        assert!(answered > 0 || name == "a wide grid", "{name}");
    }
}

#[test]
fn samples_of_decided_variables_count_against_the_budget() {
    let _turn = alone();
    keep_to_the_budget("decided variables", &FactorGraph::new(vec![1; 1000]).unwrap().into());
}

#[test]
fn enumerating_large_variables_keeps_to_the_budget() {
    let _turn = alone();
    keep_to_the_budget("large variables", &FactorGraph::new(vec![255, 3000]).unwrap().into());
}

#[test]
fn states_without_a_table_count_against_the_budget() {
    let _turn = alone();
    let mut graph = FactorGraph::new(vec![2, 1 << 28, 3]).unwrap();
    graph.add_factor(&[2, 0], &[0.5, 1.0, f64::NEG_INFINITY, 0.0, 0.0, 1.0]).unwrap();
    let (given, peak) = measured(|| graph.condition(&[(0, 1)]).unwrap());
    assert!(peak <= BUDGET, "conditioning took {peak} bytes");
    keep_to_the_budget("a huge variable", &graph.into());
    keep_to_the_budget("a huge variable beside evidence", &given.into());
}

#[test]
fn forecasts_are_never_below_the_memory_allocated() {
    let _turn = alone();
    let mut one = FactorGraph::new(vec![3; 11]).unwrap();
    // The scope is not in variable order, so the table must be permuted.
    let scope: Vec<usize> = (0..11).map(|v| 3 * v % 11).collect();
    one.add_factor(&scope, &(0..3usize.pow(11)).map(|i| (i as f64).sin()).collect::<Vec<f64>>()).unwrap();
    let run = Run::default().with_threads(1);
    run.install(|| ());
    // On the wide grid no exact method fits, and finding that out is slow.
    let models = models().into_iter().filter(|(name, _)| *name != "a wide grid");
    for (name, model) in models.chain([("one factor", one.into())]) {
        for row in catalogue::rows(model.kind()) {
            let mut settings = Settings::new();
            if row.method == "importance" {
                settings.insert("samples".into(), 100.into());
            }
            for query in row.queries() {
                let Some(graph) = model.get::<FactorGraph>() else { continue };
                // A fresh copy, so that nothing cached by an earlier query reduces the allocation.
                let fresh: Model = graph.condition(&[(0, 0)]).unwrap().into();
                let forecast = row.forecast(&fresh.clone(), query, &settings, &run).unwrap();
                if !forecast.fits(&run.clone().with_memory(1 << 28), 0.1) {
                    continue;
                }
                let fresh: Model = graph.condition(&[(0, 0)]).unwrap().into();
                let choice = Choice::Named(row.method.into());
                let (result, peak) = measured(|| answer(&fresh, query, &choice, &settings, &run));
                result.unwrap();
                let (method, query) = (row.method, query.name());
                let bytes = forecast.bytes;
                assert!(peak as f64 <= bytes, "{name}: {method} {query} took {peak} bytes of {bytes}");
            }
        }
    }
}

#[test]
fn checkpoints_reduce_memory_for_segments() {
    let _turn = alone();
    let (steps, states, longest) = (4000, 16, 3);
    let wave = |count: usize| -> Vec<f64> { (0..count).map(|k| ((k * k) as f64).sin()).collect() };
    let transitions = Transitions::Shared(wave(states * states).into());
    let chain = Chain::crf(states, wave(steps * states).into(), vec![steps], transitions).unwrap();
    let segments = Segments::Lengths(wave(longest * states).into());
    let model = SemiMarkov::new(chain, segments, longest).unwrap();
    let run = Run::default().with_threads(1);
    run.install(|| ());
    let row = size_of::<f64>() * states;
    let peak = |checkpoint: bool| {
        let method = ForwardBackward::default().checkpoint(checkpoint);
        let (result, peak) =
            measured(|| method.value_and_gradients(Operation::LogPartition, &[&model], &[1.0], &run));
        result.unwrap();
        peak
    };
    // Four rows per position, plus the gradient itself.
    assert!(peak(false) > 5 * steps * row, "{}", peak(false));
    assert!(peak(true) < 2 * steps * row, "{}", peak(true));
    let (log_z, peak) = measured(|| ForwardBackward::default().log_partition(&model, &run));
    log_z.unwrap();
    assert!(peak < steps * row / 2, "{peak}");
}

/// The same sentences three and twelve times, read in blocks: the peak does not depend on the length of the file, once
/// the list of pairs of attributes and tags has reached its largest size.
#[test]
fn memory_of_training_on_a_file_does_not_grow_with_the_file() {
    use zhat::learn::tag::{
        Corpus, Examples, Learning, ReadOptions, Stream, TagOptimizer, Template, train, train_file,
    };

    let _turn = alone();
    let mut sentences = String::new();
    for sentence in 0..1000usize {
        for token in 0..8usize {
            let at = sentence * 8 + token;
            sentences += &format!("T{}", at * at % 5);
            (0..10).for_each(|k| sentences += &format!("\ta{k}={}", (at * (k + 3) + at / 7) % 50));
            sentences.push('\n');
        }
        sentences.push('\n');
    }
    let folder = std::env::temp_dir().join(format!("zhat-memory-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = |copies: usize| folder.join(format!("{copies}.crfsuite"));
    [3, 12].iter().for_each(|&copies| std::fs::write(path(copies), sentences.repeat(copies)).unwrap());
    let bytes = 12 * sentences.len();
    drop(sentences);
    let (template, options) = (Template::parse("attributes").unwrap(), ReadOptions::default());
    let how = Learning::default().optimizer(TagOptimizer::Sgd).rate(0.05).iterations(2).delta(0.0);
    let run = Run::default().with_threads(1);
    run.install(|| ());
    for (l1, hash_bits) in [(0.0, None), (0.1, None), (0.0, Some(12))] {
        let how = how.l1(l1);
        let peak = |copies: usize| {
            let stream = Stream::new(&path(copies), options.clone(), 1 << 15).unwrap();
            let (tagger, peak) = measured(|| {
                train_file(&stream, &template, hash_bits, &how, None, None, &run, &mut |_| Ok(true))
            });
            assert_eq!(tagger.unwrap().training().sentences, 1000 * copies);
            peak
        };
        let (few, many) = (peak(3), peak(12));
        assert!(many < few + few / 20, "l1 {l1}, {hash_bits:?}: {few} and {many} bytes");
        assert!(many < bytes / 2, "l1 {l1}, {hash_bits:?}: {many} bytes for a file of {bytes}");
    }
    // All of it in memory takes more than the file.
    let (tagger, peak) = measured(|| {
        let examples = Examples::of(&Corpus::read(&path(12), &options)?, &template, None)?;
        train(examples, &how.iterations(1), None, None, &run, &mut |_| Ok(true))
    });
    tagger.unwrap();
    assert!(peak > bytes, "{peak} bytes for a file of {bytes}");
    std::fs::remove_dir_all(folder).unwrap();
}

/// Twelve bytes per number: 8 for the number, 4 for its column. Neither the text nor a second copy of the numbers fits
/// beside the rest.
#[test]
fn reading_and_training_of_sparse_rows_takes_less_than_twice_the_data() {
    use zhat::learn::predict::{Learning, ReadOptions, Recipe, Space, read_examples};

    let _turn = alone();
    let (rows, columns, each) = (10_000, 500, 100);
    let path = std::env::temp_dir().join(format!("zhat-memory-{}.arff", std::process::id()));
    let mut file = std::io::BufWriter::new(std::fs::File::create(&path).unwrap());
    writeln!(file, "@relation large").unwrap();
    (0..columns).for_each(|j| writeln!(file, "@attribute x{j} numeric").unwrap());
    let nodes: Vec<String> =
        (0..20).map(|v| if v < 4 { format!("{v}") } else { format!("{}/{v}", v % 4) }).collect();
    writeln!(file, "@attribute class hierarchical {}\n@data", nodes.join(",")).unwrap();
    for i in 0..rows {
        let cell = |k: usize| format!("{} 0.{:03}", 5 * k + (i + k * k) % 5, 1 + (31 * i + 17 * k) % 999);
        let cells: Vec<String> = (0..each).map(cell).collect();
        writeln!(file, "{{{},{columns} {}}}", cells.join(","), nodes[(i + i / 7) % 20]).unwrap();
    }
    file.flush().unwrap();
    drop(file);
    let run = Run::default().with_threads(2);
    run.install(|| ());
    let recipe = Recipe {
        space: Space::Hierarchy,
        learning: Learning::default().lambda(1e-4).gap(0.0).iterations(4),
        ..Default::default()
    };
    let options = ReadOptions { space: Space::Hierarchy, ..Default::default() };
    let data = 12 * rows * each;
    let (examples, read) = measured(|| read_examples(&path, &options).unwrap());
    drop(examples);
    let (trained, all) = measured(|| {
        recipe.fit_owned(read_examples(&path, &options).unwrap(), None, &run, &mut |_| Ok(true)).unwrap()
    });
    std::fs::remove_file(&path).unwrap();
    assert_eq!(trained.0.training().rows, rows);
    assert!(read < 2 * data, "reading took {read} bytes for {data} of data");
    assert!(all < 2 * data, "training took {all} bytes for {data} of data");
}
