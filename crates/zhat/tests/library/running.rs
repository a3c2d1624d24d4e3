//! Execution of queries: results do not depend on threads or on the division into parts, and randomness
//! depends only on the seed; budgets and cancellation are respected.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use zhat::catalogue::{self, Choice, Row, Settings, answer};
use zhat::exact::{Elimination, Enumeration};
use zhat::model::generate::{
    self, ChainShape, GraphShape, Grid, HypertreeShape, PairwiseShape, RuleForm, SentenceShape,
    SequenceMrfShape, Sharpness, SpanForm, TransitionForm,
};
use zhat::model::{Domain, Kind, MixedModel, Statistic, Term, TreeShape};
use zhat::query::AnyAnswer;
use zhat::sampling::{ImportanceProposal, ImportanceSampling};
use zhat::{
    Chain, Diagnostics, Entropy, Error, FactorGraph, LogPartition, Map, Marginals, Model, Observer, Query,
    Result, Run, Sample,
};

/// The answer without the figures that may differ between runs.
fn timeless(mut answer: AnyAnswer) -> AnyAnswer {
    answer.diagnostics.seconds = 0.0;
    // The memory forecast depends on the number of threads.
    answer.diagnostics = answer.diagnostics.note("forecast_bytes", 0);
    answer
}

fn ask(model: &Model, method: &str, query: Query, run: &Run) -> AnyAnswer {
    let mut settings = Settings::new();
    if method == "importance" {
        settings.insert("samples".into(), 10_000.into());
    }
    timeless(answer(model, query, &Choice::parse(method), &settings, run).unwrap())
}

/// Large enough for every method to use several threads.
fn dense() -> Model {
    generate::random(
        &GraphShape {
            variables: 16,
            factors: 60,
            arity: 3,
            strength: 0.5,
            zeros: 0.02,
            ..Default::default()
        },
        1,
    )
    .unwrap()
    .into()
}

/// Three variables on a box with all pairwise interactions.
fn interactions() -> MixedModel {
    let power = |v, p| (v, Statistic::Power(p));
    let mut terms = Vec::new();
    for v in 0..3 {
        terms.push(Term { weight: -0.3, factors: vec![power(v, 4.0)] });
        terms.push(Term { weight: 0.5, factors: vec![power(v, 1.0), power((v + 1) % 3, 1.0)] });
    }
    MixedModel::new(vec![Domain::Interval(-1.0, 1.0); 3], terms).unwrap()
}

/// Models of a kind that are large enough for several threads and small enough to finish within a second.
fn medium(kind: Kind) -> Vec<Model> {
    let grid = |side| Grid { rows: side, columns: side, torus: false };
    let shape = ChainShape { states: 24, steps: 50, batch: 5, ragged: true, ..ChainShape::default() };
    let space = |kind: &str, size, scores: &str| -> Model {
        generate::space(kind, size, scores, 0.1, 3).unwrap().into()
    };
    match kind.name() {
        "factor-graph" => vec![
            dense(),
            generate::ising(grid(14), 0.8, 0.5, false, 2).unwrap().into(),
            // Scores weak enough for the polynomial approximation.
            generate::random(
                &GraphShape { variables: 6, factors: 4, strength: 0.01, ..Default::default() },
                1,
            )
            .unwrap()
            .into(),
        ],
        "chain" => {
            let wide: Chain<f32> = generate::rdp_chain(300, 6, 8, Sharpness::Dense, 1).unwrap();
            let low_rank = ChainShape { transitions: TransitionForm::LowRank { rank: 5 }, ..shape };
            vec![
                wide.into(),
                generate::chain::<f64>(&shape, 1).unwrap().into(),
                generate::chain::<f64>(&low_rank, 1).unwrap().into(),
            ]
        }
        "semi-markov" => vec![
            generate::semi_markov::<f64>(&shape, 6, 1).unwrap().into(),
            generate::semi_markov::<f32>(&shape, 3, 2).unwrap().into(),
        ],
        "hypertree" => {
            let shape = |rules, spans| HypertreeShape {
                words: 12,
                batch: 5,
                ragged: true,
                rules,
                spans,
                ..HypertreeShape::default()
            };
            vec![
                generate::hypertree::<f64>(&shape(RuleForm::Dense, SpanForm::None), 1).unwrap().into(),
                generate::hypertree::<f32>(&shape(RuleForm::LowRank(4), SpanForm::PerSymbol), 2)
                    .unwrap()
                    .into(),
            ]
        }
        "dependency-tree" => {
            let trees = |projective| TreeShape { projective, single_root: !projective };
            let shape = |projective| SentenceShape {
                words: 15,
                batch: 11,
                ragged: true,
                labels: Some(2),
                trees: trees(projective),
                ..SentenceShape::default()
            };
            vec![
                generate::dependency::<f64>(&shape(true), 1).unwrap().into(),
                generate::dependency::<f32>(&shape(false), 2).unwrap().into(),
            ]
        }
        "pairwise-graph" => {
            let shape = PairwiseShape { rows: 4, columns: 5, states: 60, ..PairwiseShape::default() };
            let tree = PairwiseShape { tree: true, ..shape };
            vec![
                generate::pairwise::<f64>(&shape, 1).unwrap().into(),
                generate::pairwise::<f32>(&tree, 1).unwrap().into(),
            ]
        }
        "mixed-model" => {
            vec![generate::gaussian_mixture(8, (-6.0, 6.0), 1).unwrap().into(), interactions().into()]
        }
        "space" => vec![
            space("hypercube", 10, "pairwise"),
            space("permutation", 7, "position"),
            space("permutation", 7, "kendall"),
            space("subtree", 14, "unary"),
            space("cycle", 7, "links"),
            space("partition", 7, "links"),
        ],
        "sequence-mrf" => {
            let shape = SequenceMrfShape { states: 12, context: 2, length: 300, ..Default::default() };
            vec![generate::sequence_mrf(&shape, 1).unwrap().into()]
        }
        other => panic!("no model of kind {other} to test threads with: add one here"),
    }
}

/// The result to compare: every bit of an answer except seconds and forecast bytes, or the message of an
/// error. (`Debug` prints numbers with different bits differently.)
fn bits(row: &Row, model: &Model, query: Query, settings: &Settings, run: &Run) -> (bool, String) {
    let choice = Choice::Named(row.method.into());
    match answer(model, query, &choice, settings, run) {
        Ok(answer) => (true, format!("{:?}", timeless(answer))),
        Err(error) => (false, error.to_string()),
    }
}

/// Every row of the catalogue, every query that it supports, every kind of model.
#[test]
fn the_number_of_threads_never_changes_a_bit() {
    // One thread pool and one cache for each number of threads.
    let [one, two, five] = [1, 2, 5].map(|threads| {
        let run = Run::default().with_seed(5).with_threads(threads);
        run.install(|| ());
        run
    });
    let mut faults = Vec::new();
    for kind in catalogue::kinds() {
        let models = medium(kind);
        for row in catalogue::rows(kind) {
            // A few thousand samples are enough for several blocks.
            let few = |(name, value): (&String, &serde_json::Value)| match value.as_u64() {
                Some(5000..) if name == "samples" => Some((name.clone(), 4000.into())),
                _ => None,
            };
            let options = (row.options)();
            let settings: Settings = options.as_object().unwrap().iter().filter_map(few).collect();
            for query in row.queries() {
                let query = query.with_count(600);
                let title = format!("{kind} {} {}", row.method, query.name());
                let (mut answered, mut why) = (0, String::new());
                for (i, model) in models.iter().enumerate() {
                    let forecast = row.forecast(model, query, &settings, &one).unwrap();
                    if !forecast.fits(&one, 1.0) {
                        why += &format!("; model {i} would take {} s", forecast.seconds);
                        continue;
                    }
                    let want = bits(row, model, query, &settings, &one);
                    match want.0 {
                        true => answered += 1,
                        false => why += &format!("; model {i}: {}", want.1),
                    }
                    for run in [&two, &five] {
                        if bits(row, model, query, &settings, run) != want {
                            faults.push(format!("{title} of model {i} on {} threads", run.threads()));
                        }
                    }
                }
                if answered == 0 {
                    faults.push(format!("{title}: none of the models has an answer within a second{why}"));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn randomness_depends_only_on_the_seed() {
    let model = dense();
    let queries = |method| match method {
        "importance" => {
            vec![
                Query::LogPartition,
                Query::Marginals,
                Query::FactorMarginals,
                Query::Entropy,
                Query::Sample(50),
            ]
        }
        _ => vec![Query::Sample(50)],
    };
    for method in ["elimination", "enumeration", "importance"] {
        for query in queries(method) {
            let by_seed = |seed| ask(&model, method, query, &Run::default().with_seed(seed));
            assert!(by_seed(1) == by_seed(1), "{method} {}", query.name());
            assert!(by_seed(1) != by_seed(2), "{method} {}", query.name());
        }
    }
}

/// Calls `then` when a phase reports progress for the first time.
struct At<F> {
    phase: &'static str,
    then: F,
    done: AtomicBool,
}

impl<F: Fn() + Send + Sync> Observer for At<F> {
    fn progress(&self, phase: &'static str, done: u64, total: u64) {
        assert!(done <= total, "{phase}: {done} of {total}");
        if phase == self.phase && !self.done.swap(true, Ordering::Relaxed) {
            (self.then)();
        }
    }
}

fn at(phase: &'static str, then: impl Fn() + Send + Sync + 'static) -> Arc<dyn Observer> {
    Arc::new(At { phase, then, done: AtomicBool::new(false) })
}

/// Runs every query that can return a partial result: whether it was stopped early, and the number of
/// samples.
fn anytime_answers(
    graph: &FactorGraph,
    proposal: ImportanceProposal,
    run: impl Fn() -> Run,
) -> Vec<Result<(bool, u64)>> {
    let method = ImportanceSampling::default().proposal(proposal).samples(1 << 40).replicates(2);
    let told = |diagnostics: Diagnostics| {
        let samples = diagnostics.figures().find(|(name, _)| *name == "samples");
        (diagnostics.stopped_early, samples.and_then(|(_, value)| value.as_u64()).unwrap())
    };
    vec![
        method.log_partition(graph, &run()).map(|answer| told(answer.diagnostics)),
        method.marginals(graph, &run()).map(|answer| told(answer.diagnostics)),
        method.entropy(graph, &run()).map(|answer| told(answer.diagnostics)),
        method.map(graph, &run()).map(|answer| told(answer.diagnostics)),
    ]
}

#[test]
fn sampling_stops_early_with_the_result_so_far() {
    let graph = generate::random(&GraphShape { variables: 8, factors: 12, ..Default::default() }, 3).unwrap();
    let cancelled = || {
        let flag = Arc::new(AtomicBool::new(false));
        let raise = flag.clone();
        let observer = at("drawing samples", move || raise.store(true, Ordering::Relaxed));
        Run::default().with_cancel(flag).with_observer(observer)
    };
    let limit = Duration::from_millis(150);
    let out_of_time = || {
        Run::default()
            .with_time(limit)
            .with_observer(at("drawing samples", move || std::thread::sleep(limit)))
    };
    for proposal in [ImportanceProposal::Tree, ImportanceProposal::Uniform] {
        let answers = anytime_answers(&graph, proposal, cancelled);
        for told in answers.into_iter().chain(anytime_answers(&graph, proposal, out_of_time)) {
            let (stopped_early, samples) = told.unwrap();
            assert!(stopped_early && samples > 0 && samples < 10_000, "{samples} samples");
        }
    }
    // Uniform draws need no preparation, so there is a result even with a time budget of zero.
    for told in
        anytime_answers(&graph, ImportanceProposal::Uniform, || Run::default().with_time(Duration::ZERO))
    {
        assert!(told.unwrap().0);
    }
}

#[test]
fn a_finished_run_was_not_stopped_early() {
    let graph = generate::random(&GraphShape { variables: 8, factors: 12, ..Default::default() }, 3).unwrap();
    let z = ImportanceSampling::default().log_partition(&graph, &Run::default()).unwrap();
    assert!(!z.diagnostics.stopped_early);
}

#[test]
fn a_cancelled_run_is_interrupted_or_answers_at_once() {
    let graph = generate::random(&GraphShape { variables: 8, factors: 12, ..Default::default() }, 3).unwrap();
    let run = Run::default().with_cancel(Arc::new(AtomicBool::new(true)));
    assert!(matches!(Elimination::default().log_partition(&graph, &run), Err(Error::Interrupted)));
    assert!(matches!(Elimination::default().marginals(&graph, &run), Err(Error::Interrupted)));
    assert!(matches!(Elimination::default().sample(&graph, 10, &run), Err(Error::Interrupted)));
    let states = FactorGraph::new(vec![2; 40]).unwrap();
    assert!(matches!(Enumeration::default().log_partition(&states, &run), Err(Error::Interrupted)));
    for proposal in [ImportanceProposal::Tree, ImportanceProposal::Uniform] {
        for told in anytime_answers(&graph, proposal, || run.clone()) {
            assert!(matches!(told, Ok((true, _)) | Err(Error::Interrupted)), "{told:?}");
        }
    }
}

#[test]
fn exact_methods_out_of_time_state_their_time_limit() {
    let graph = FactorGraph::new(vec![2; 40]).unwrap();
    let error =
        Enumeration::default().log_partition(&graph, &Run::default().with_time(Duration::from_millis(20)));
    let message = error.unwrap_err().to_string();
    assert!(message.contains("over budget") && message.contains("20 ms"), "{message}");
    let tree = generate::tree(30, 3, 1.0, 1).unwrap();
    let run = Run::default().with_time(Duration::ZERO);
    for error in
        [Elimination::default().map(&tree, &run).err(), Elimination::default().sample(&tree, 3, &run).err()]
    {
        assert!(matches!(error, Some(Error::OverBudget { .. })), "{error:?}");
    }
}
