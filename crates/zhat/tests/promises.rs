//! Options, time budgets and cancellation, for every row of the catalogue and every query that the row
//! supports.
//!
//! A separate program that runs one test at a time, because it measures wall-clock time: a run may exceed its
//! budget by at most 10% + 1 s, preparation included, and a cancelled run must end within half a second. A case
//! fails if it is late in each of three attempts.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use zhat::catalogue::{self, Choice, Row, Settings};
use zhat::model::generate::{
    self, ChainShape, GraphShape, Grid, HypertreeShape, PairwiseShape, RuleForm, SentenceShape,
    SequenceMrfShape, Sharpness, SpanForm,
};
use zhat::model::{Domain, Kind, MixedModel, Statistic, Symbols, Term, TreeShape};
use zhat::options::Range;
use zhat::{Chain, Error, Model, Query, Run, SemiMarkov};

/// Lock that makes the tests run one at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Models of a kind that are too large for most methods to finish in a fraction of a second.
fn large(kind: Kind) -> Vec<Model> {
    let space = |kind: &str, size, scores: &str| -> Model {
        generate::space(kind, size, scores, 1.0, 3).unwrap().into()
    };
    match kind.name() {
        "factor-graph" => {
            let grid = |side| Grid { rows: side, columns: side, torus: false };
            vec![
                generate::ising(grid(25), 1.0, 0.3, false, 1).unwrap().into(),
                generate::ising(grid(300), 0.5, 0.3, false, 1).unwrap().into(),
                generate::random(
                    &GraphShape {
                        variables: 120,
                        states: 3,
                        factors: 400,
                        arity: 3,
                        zeros: 0.25,
                        ..Default::default()
                    },
                    1,
                )
                .unwrap()
                .into(),
            ]
        }
        "chain" => {
            let chain: Chain<f32> = generate::rdp_chain(1500, 400, 4, Sharpness::Dense, 1).unwrap();
            let narrow = ChainShape { states: 3, steps: 100_000, ..ChainShape::default() };
            let transitions = generate::TransitionForm::LowRank { rank: 40 };
            let low_rank = ChainShape { states: 20_000, steps: 200, transitions, ..ChainShape::default() };
            let transitions = generate::TransitionForm::Sparse { entries: 10, per_step: false };
            let sparse = ChainShape { states: 20_000, steps: 200, transitions, ..ChainShape::default() };
            vec![
                chain.into(),
                generate::chain::<f64>(&narrow, 1).unwrap().into(),
                generate::chain::<f32>(&low_rank, 1).unwrap().into(),
                generate::chain::<f64>(&sparse, 1).unwrap().into(),
            ]
        }
        "semi-markov" => {
            let shape = ChainShape { states: 200, steps: 500, batch: 2, ..ChainShape::default() };
            let model: SemiMarkov<f64> = generate::semi_markov(&shape, 30, 1).unwrap();
            vec![model.into()]
        }
        "hypertree" => {
            let trees = |words, batch, symbols, rules, spans, strength| -> Model {
                let shape = HypertreeShape {
                    words,
                    batch,
                    symbols,
                    rules,
                    spans,
                    strength,
                    ..HypertreeShape::default()
                };
                generate::hypertree::<f64>(&shape, 1).unwrap().into()
            };
            let disjoint = Symbols::disjoint;
            vec![
                trees(40, 8, disjoint(30, 60), RuleForm::Dense, SpanForm::None, 1.0),
                trees(30, 2, disjoint(20, 30), RuleForm::Dense, SpanForm::PerSymbol, 300.0),
                trees(40, 4, disjoint(200, 300), RuleForm::Sparse(5000), SpanForm::None, 1.0),
                trees(40, 4, disjoint(500, 800), RuleForm::LowRank(64), SpanForm::PerSymbol, 1.0),
                trees(60, 8, disjoint(2000, 3000), RuleForm::LowRank(64), SpanForm::PerSpan, 1.0),
            ]
        }
        "dependency-tree" => {
            let sentences = |words, batch, projective, strength| -> Model {
                let trees = TreeShape { projective, single_root: true };
                let shape = SentenceShape { words, batch, trees, strength, ..SentenceShape::default() };
                generate::dependency::<f64>(&shape, 1).unwrap().into()
            };
            vec![
                sentences(120, 40, true, 1.0),
                sentences(250, 2, true, 300.0),
                sentences(200, 20, false, 1.0),
                sentences(200, 2, false, 300.0),
            ]
        }
        "pairwise-graph" => {
            let shape = PairwiseShape { rows: 12, columns: 12, states: 500, ..PairwiseShape::default() };
            vec![generate::pairwise::<f64>(&shape, 1).unwrap().into()]
        }
        "mixed-model" => {
            vec![generate::gaussian_mixture(40, (-6.0, 6.0), 1).unwrap().into(), interactions(5).into()]
        }
        "space" => vec![
            space("hypercube", 300, "pairwise"),
            space("permutation", 80, "position"),
            space("permutation", 17, "precedence"),
            space("permutation", 500, "cayley"),
            space("subtree", 100_000, "unary"),
            space("cycle", 19, "links"),
            space("cycle", 60, "links"),
            space("partition", 18, "links"),
            space("partition", 200, "links"),
        ],
        "sequence-mrf" => {
            let shape =
                |states, context, length| SequenceMrfShape { states, context, length, ..Default::default() };
            vec![
                generate::sequence_mrf(&shape(45, 2, 36_000), 1).unwrap().into(),
                generate::sequence_mrf(&shape(3000, 2, 1_000_000), 1).unwrap().into(),
            ]
        }
        other => panic!("no large models of kind {other}"),
    }
}

/// A quartic on a box in which every two neighbours interact.
fn interactions(variables: usize) -> MixedModel {
    let term = |weight, factors| Term { weight, factors };
    let mut terms = Vec::new();
    for v in 0..variables {
        terms.push(term(-0.3, vec![(v, Statistic::Power(4.0))]));
        terms.push(term(0.5, vec![(v, Statistic::Power(1.0)), ((v + 1) % variables, Statistic::Power(1.0))]));
    }
    MixedModel::new(vec![Domain::Interval(-2.0, 2.0); variables], terms).unwrap()
}

/// A small model of a kind.
fn small(kind: Kind) -> Model {
    let shape = ChainShape { states: 3, steps: 4, batch: 2, ..ChainShape::default() };
    match kind.name() {
        "factor-graph" => {
            generate::random(&GraphShape { variables: 5, factors: 6, strength: 0.3, ..Default::default() }, 0)
                .unwrap()
                .into()
        }
        "chain" => generate::chain::<f64>(&shape, 1).unwrap().into(),
        "semi-markov" => generate::semi_markov::<f64>(&shape, 2, 1).unwrap().into(),
        "hypertree" => {
            let shape = HypertreeShape { words: 4, batch: 2, ..HypertreeShape::default() };
            generate::hypertree::<f64>(&shape, 1).unwrap().into()
        }
        "dependency-tree" => {
            let shape = SentenceShape { words: 4, batch: 2, ..SentenceShape::default() };
            generate::dependency::<f64>(&shape, 1).unwrap().into()
        }
        "pairwise-graph" => {
            let shape = PairwiseShape { rows: 2, columns: 2, states: 3, ..PairwiseShape::default() };
            generate::pairwise::<f64>(&shape, 1).unwrap().into()
        }
        "mixed-model" => interactions(2).into(),
        "space" => generate::space("permutation", 5, "position", 0.5, 1).unwrap().into(),
        "sequence-mrf" => {
            let shape = SequenceMrfShape { length: 6, states: 3, context: 2, ..Default::default() };
            generate::sequence_mrf(&shape, 1).unwrap().into()
        }
        other => panic!("no small model of kind {other}"),
    }
}

/// One query of each sort.
const QUERIES: [Query; 7] = [
    Query::LogPartition,
    Query::Marginals,
    Query::FactorMarginals,
    Query::Entropy,
    Query::Map,
    Query::KBest(3),
    Query::Sample(10),
];

/// Values that many options do not accept.
fn extreme_values() -> Vec<Value> {
    vec![
        json!(0),
        json!(-1),
        json!("nan"),
        json!("inf"),
        json!("-inf"),
        json!(1_000_000_000),
        json!(u64::MAX),
        json!(-1.5),
        json!(1e300),
        json!("text"),
        json!([]),
        json!({}),
        Value::Null,
    ]
}

/// Attempts per case. A machine that stalls for a moment makes one attempt late, a slow method every attempt.
const ATTEMPTS: usize = 3;

/// The longest time that a run may take with a budget: 10% + 1 s more.
fn limit(budget: f64) -> f64 {
    1.1 * budget + 1.0
}

/// An error message if the run exceeded its budget by more than 10% + 1 s.
fn late(seconds: f64, budget: f64) -> Option<String> {
    (seconds > limit(budget)).then(|| format!("took {seconds:.2} s with a budget of {budget} s"))
}

/// The time and the error of a run, of the first attempt that takes at most `limit` seconds or else the last.
fn attempt(limit: f64, run: impl Fn() -> Option<Error>) -> (f64, Option<Error>) {
    let once = || {
        let started = Instant::now();
        let error = run();
        (started.elapsed().as_secs_f64(), error)
    };
    let mut found = once();
    for _ in 1..ATTEMPTS {
        if found.0 <= limit {
            break;
        }
        found = once();
    }
    found
}

fn ask(row: &Row, model: &Model, query: Query, settings: &Settings, run: &Run) -> Option<Error> {
    let choice = Choice::Named(row.method.into());
    catalogue::answer(model, query, &choice, settings, run).err()
}

/// Prints each case if `ZHAT_VERBOSE` is set.
fn tell(title: &str, seconds: f64, error: Option<&Error>) {
    if std::env::var_os("ZHAT_VERBOSE").is_some() {
        eprintln!("{title}: {seconds:.3} s {error:?}");
    }
}

/// Filter by `ZHAT_PROMISES`: runs only the cases whose titles contain its text, or with a leading `!` only
/// those that do not.
fn skipped(title: &str) -> bool {
    std::env::var("ZHAT_PROMISES").is_ok_and(|only| match only.strip_prefix('!') {
        Some(without) => title.contains(without),
        None => !title.contains(&only),
    })
}

fn title(row: &Row, query: Query) -> String {
    format!("{} {} {}", row.kind.name(), row.method, query.name())
}

#[test]
fn every_numeric_option_has_a_range() {
    for row in catalogue::all() {
        let Value::Object(options) = (row.options)() else { panic!("{}: no options", row.method) };
        for (name, value) in &options {
            let stated = row.ranges.iter().any(|(own, _)| own == name);
            let word = value.is_string() || value.is_boolean();
            assert!(stated != word, "{} {name}: a number has a range, a word has none", row.method);
        }
        for (name, range) in row.ranges {
            assert!(options.contains_key(*name), "{} has no option {name}", row.method);
            if let Range::Whole { low, high } = range {
                assert!(low < high, "{} {name}", row.method);
            }
        }
        // Checks that the defaults are in range.
        let run = Run::default();
        row.forecast(&small(row.kind), row.queries().next().unwrap(), &options, &run).unwrap();
    }
}

#[test]
fn options_out_of_range_are_named_with_their_range() {
    let _alone = alone();
    let budget = 0.05;
    let run = Run::default().with_time(Duration::from_secs_f64(budget)).with_memory(1 << 30);
    let (mut faults, mut refused) = (Vec::new(), 0);
    for row in catalogue::all() {
        let model = small(row.kind);
        let Value::Object(options) = (row.options)() else { panic!("{}: no options", row.method) };
        for (query, (name, default)) in row.queries().flat_map(|q| options.iter().map(move |o| (q, o))) {
            for value in extreme_values() {
                let settings = Settings::from_iter([(name.clone(), value.clone())]);
                let title = format!("{} {name}={value}", title(row, query));
                if skipped(&title) {
                    continue;
                }
                let (seconds, error) = attempt(limit(budget), || ask(row, &model, query, &settings, &run));
                tell(&title, seconds, error.as_ref());
                faults.extend(late(seconds, budget).map(|fault| format!("{title}: {fault}")));
                match error {
                    Some(Error::Argument { name: named, message }) => {
                        refused += 1;
                        let range = row.ranges.iter().find(|(own, _)| own == name);
                        let stated = match range {
                            Some((_, range)) => message.contains(&range.to_string()),
                            None => message.contains("expected"),
                        };
                        if named != *name || !stated {
                            faults.push(format!("{title}: {named}: {message}"));
                        }
                    }
                    // Running out of budget is acceptable, but a value that is not a number must be rejected.
                    Some(Error::OverBudget { .. } | Error::NoAnswer(_)) | None => {
                        if !(value.is_number() || value == *default || value.is_null() || value == json!([]))
                        {
                            faults.push(format!("{title}: accepted"));
                        }
                    }
                    Some(error) => faults.push(format!("{title}: {error}")),
                }
            }
        }
    }
    assert!(
        refused > 500 || std::env::var_os("ZHAT_PROMISES").is_some(),
        "only {refused} values were refused"
    );
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// Runs every supported query of every row on large models, which should take at most `limit` seconds, and
/// passes the time taken to `judge`.
fn walk(limit: f64, run: impl Fn() -> Run, judge: impl Fn(f64, Option<&Error>) -> Option<String>) {
    let (mut faults, mut kind, mut models) = (Vec::new(), None, Vec::new());
    for row in catalogue::all() {
        if kind != Some(row.kind) {
            (kind, models) = (Some(row.kind), large(row.kind));
        }
        for (i, model) in models.iter().enumerate() {
            for query in row.queries() {
                let title = format!("{} of model {i}", title(row, query));
                if skipped(&title) {
                    continue;
                }
                for query in [query.with_count(1), query.with_count(1_000_000)] {
                    let ask = || ask(row, model, query, &Settings::new(), &run());
                    let (seconds, error) = attempt(limit, ask);
                    tell(&title, seconds, error.as_ref());
                    faults.extend(judge(seconds, error.as_ref()).map(|fault| format!("{title}: {fault}")));
                    if query == query.with_count(1_000_000) && query == query.with_count(1) {
                        break;
                    }
                }
            }
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn time_budgets_are_kept() {
    let _alone = alone();
    let budget = 0.05;
    walk(
        limit(budget),
        || Run::default().with_time(Duration::from_secs_f64(budget)),
        |seconds, error| match error {
            Some(Error::OverBudget { .. } | Error::NoAnswer(_)) | None => late(seconds, budget),
            Some(error) => Some(error.to_string()),
        },
    );
}

#[test]
fn the_choice_of_a_method_is_part_of_the_budget() {
    let _alone = alone();
    let budget = 0.05;
    let run = Run::default().with_time(Duration::from_secs_f64(budget));
    let mut faults = Vec::new();
    for kind in catalogue::kinds() {
        for (j, model) in large(kind).iter().enumerate() {
            for query in QUERIES {
                let ask = || catalogue::answer(model, query, &Choice::Auto, &Settings::new(), &run).err();
                let (seconds, error) = attempt(limit(budget), ask);
                let fault = match error {
                    Some(Error::OverBudget { .. } | Error::NoAnswer(_) | Error::Unsupported { .. })
                    | None => late(seconds, budget),
                    Some(error) => Some(error.to_string()),
                };
                let title = format!("{} {} of model {j}", kind.name(), query.name());
                faults.extend(fault.map(|fault| format!("{title}: {fault}")));
            }
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn a_cancelled_run_ends_within_half_a_second() {
    let _alone = alone();
    let (delay, grace) = (0.05, 0.5);
    walk(
        delay + grace,
        || {
            let flag = Arc::new(AtomicBool::new(false));
            let run = Run::default().with_cancel(flag.clone());
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_secs_f64(delay));
                flag.store(true, Ordering::Relaxed);
            });
            run
        },
        |seconds, error| match error {
            Some(Error::OverBudget { .. } | Error::NoAnswer(_) | Error::Interrupted) | None => {
                (seconds > delay + grace).then(|| format!("took {seconds:.2} s, cancelled after {delay} s"))
            }
            Some(error) => Some(error.to_string()),
        },
    );
}
