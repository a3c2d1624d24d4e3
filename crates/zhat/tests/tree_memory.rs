//! Memory forecasts for trees over words and dependency trees: never below the memory allocated and, where that
//! is large, at most three times as much.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "support/counting.rs"]
mod counting;
#[path = "support/forecast_cases.rs"]
mod forecast_cases;

use counting::{alone, measured};
use forecast_cases::{Case, check_forecasts, measure_each, measure_named};
use zhat::catalogue::{self, Choice, Settings, answer};
use zhat::dynamic::{InsideOutside, RandomizedInside, SpanningTrees, States};
use zhat::model::generate::{self, HypertreeShape, RuleForm, SentenceShape, SpanForm};
use zhat::model::{DependencyTree, Hypertree, Rules, Symbols, TreeShape, UnaryRule};
use zhat::query::{Differentiable, Divergence, Expectation, HasFactorMarginals, Operation};
use zhat::{Error, Map, Model, Query, Real, Run};

/// A name and its model.
type Named = (&'static str, fn() -> Model);

fn shape(words: usize, batch: usize, heads: usize, tags: usize, rules: RuleForm) -> HypertreeShape {
    let symbols = Symbols { all: heads + tags, heads, tags };
    HypertreeShape { words, batch, symbols, rules, ..Default::default() }
}

fn tree<F: Real>(shape: HypertreeShape) -> Hypertree<F> {
    generate::hypertree(&shape, 1).unwrap()
}

fn by_symbol(shape: HypertreeShape) -> HypertreeShape {
    HypertreeShape { spans: SpanForm::PerSymbol, ..shape }
}

fn dense() -> Model {
    tree::<f32>(shape(20, 4, 80, 80, RuleForm::Dense)).into()
}

fn own_rules() -> Model {
    let shape = shape(25, 6, 30, 60, RuleForm::Dense);
    tree::<f32>(HypertreeShape { per_sentence: true, ..shape }).into()
}

/// More sentences than share a chart.
fn many() -> Model {
    tree::<f64>(HypertreeShape { ragged: true, ..shape(12, 200, 30, 40, RuleForm::Dense) }).into()
}

fn with_unary() -> Model {
    with_unary_rules(&tree::<f64>(by_symbol(shape(20, 2, 60, 60, RuleForm::Dense)))).into()
}

fn listed() -> Model {
    tree::<f64>(by_symbol(shape(16, 4, 2000, 2000, RuleForm::Sparse(30_000)))).into()
}

fn collapsed() -> Model {
    let shape = shape(30, 4, 10_000, 10_000, RuleForm::LowRank(32));
    tree::<f32>(HypertreeShape { spans: SpanForm::PerSpan, ..shape }).into()
}

fn low_rank() -> Model {
    tree::<f32>(by_symbol(shape(24, 2, 4000, 4000, RuleForm::LowRank(16)))).into()
}

fn low_rank_double() -> Model {
    tree::<f64>(shape(24, 2, 4000, 4000, RuleForm::LowRank(16))).into()
}

fn embeddings() -> Model {
    let shape = shape(24, 2, 4000, 4000, RuleForm::LowRank(16));
    tree::<f32>(HypertreeShape { spans: SpanForm::Factored(8), ..shape }).into()
}

/// Expanded for entropies and k best trees.
fn few_of_low_rank() -> Model {
    tree::<f32>(by_symbol(shape(12, 2, 80, 80, RuleForm::LowRank(4)))).into()
}

/// Each head but the first is the only child of the one before.
fn with_unary_rules<F: Real>(model: &Hypertree<F>) -> Hypertree<F> {
    let heads = model.symbols().heads;
    let rules = (1..heads).map(|child| UnaryRule { head: child - 1, child }).collect();
    model.clone().with_unary(rules, vec![F::from_f64(-2.0); heads - 1].into()).unwrap()
}

/// The best tree needs dense rules.
fn low_rank_with_unary() -> Model {
    with_unary_rules(&tree::<f64>(shape(10, 2, 80, 80, RuleForm::LowRank(4)))).into()
}

fn without_rules() -> Model {
    tree::<f32>(by_symbol(shape(40, 4, 1000, 1000, RuleForm::Any))).into()
}

fn tree_cases() -> Vec<Case> {
    use Query::{Entropy, FactorMarginals, KBest, LogPartition, Map, Marginals, Sample};
    let exact = |name, query, model| Case {
        name,
        model,
        method: "inside-outside",
        query,
        settings: "{}",
        threads: 1,
    };
    let randomized = |name, query, model| Case {
        method: "randomized-inside",
        settings: r#"{"states": 8, "replicates": 3}"#,
        ..exact(name, query, model)
    };
    let many_kept = |name, query, model| Case {
        settings: r#"{"states": 400, "replicates": 3}"#,
        ..randomized(name, query, model)
    };
    let two_pass = |name, query, model| Case {
        settings: r#"{"states": 8, "replicates": 2, "proposal": "two-pass"}"#,
        ..randomized(name, query, model)
    };
    let mut cases = Vec::new();
    let models: [Named; 9] = [
        ("dense", dense),
        ("dense, own rules", own_rules),
        ("dense, many sentences", many),
        ("dense, unary rules", with_unary),
        ("listed", listed),
        ("low rank, collapsed", collapsed),
        ("low rank", low_rank),
        ("low rank, embeddings", embeddings),
        ("without rules", without_rules),
    ];
    for (name, model) in models {
        cases.extend([LogPartition, FactorMarginals, Marginals].map(|query| exact(name, query, model)));
        cases.extend([LogPartition, FactorMarginals].map(|query| randomized(name, query, model)));
    }
    cases.extend([Entropy, Map, KBest(5), Sample(100)].map(|query| exact("dense", query, dense)));
    cases.extend([Entropy, Map, KBest(5), Sample(100)].map(|query| exact("listed", query, listed)));
    let few = few_of_low_rank as fn() -> Model;
    cases.extend([Entropy, Map, KBest(5), Sample(100)].map(|query| exact("few, low rank", query, few)));
    let unary = low_rank_with_unary as fn() -> Model;
    cases.extend([Map, KBest(5), Marginals].map(|query| exact("low rank, unary rules", query, unary)));
    cases.extend([Entropy, Map, Sample(100)].map(|query| exact("without rules", query, without_rules)));
    let expected = |name, model| Case { settings: r#"{"tree": "expected"}"#, ..exact(name, Map, model) };
    cases.extend([expected("dense, expected nodes", dense), expected("low rank, expected nodes", low_rank)]);
    cases.extend([Marginals, Entropy, Sample(100)].map(|query| randomized("dense", query, dense)));
    cases.extend([Marginals, Entropy, Sample(100)].map(|query| randomized("listed", query, listed)));
    cases.extend([Entropy, Sample(100)].map(|query| randomized("few, low rank", query, few)));
    cases.extend([Marginals, Sample(100)].map(|query| randomized("low rank", query, low_rank)));
    cases.extend([
        exact("low rank, double", FactorMarginals, low_rank_double),
        randomized("low rank, double", FactorMarginals, low_rank_double),
        many_kept("low rank, many kept", LogPartition, low_rank),
        many_kept("low rank, many kept", FactorMarginals, low_rank),
        two_pass("dense, two passes", LogPartition, dense),
        two_pass("listed, two passes", LogPartition, listed),
        two_pass("low rank, two passes", LogPartition, low_rank),
        two_pass("low rank, two passes", FactorMarginals, low_rank),
    ]);
    let two = |case: &Case| case.query == FactorMarginals;
    let threads: Vec<Case> =
        cases.iter().filter(|case| two(case)).map(|case| Case { threads: 2, ..*case }).collect();
    cases.into_iter().chain(threads).collect()
}

#[test]
fn forecasts_for_trees_over_words_hold() {
    let _turn = alone();
    let Some(found) = measure_each("forecasts_for_trees_over_words_hold", &tree_cases()) else { return };
    check_forecasts(&found, 3.0);
}

fn sentences<F: Real>(words: usize, batch: usize, projective: bool, labels: Option<usize>) -> Model
where
    Model: From<DependencyTree<F>>,
{
    let trees = TreeShape { projective, single_root: true };
    let shape = SentenceShape { words, batch, ragged: true, labels, trees, ..Default::default() };
    generate::dependency::<F>(&shape, 1).unwrap().into()
}

fn dependency_cases() -> Vec<Case> {
    let exact = |name, query, model| Case {
        name,
        model,
        method: "spanning-trees",
        query,
        settings: "{}",
        threads: 1,
    };
    let models: [Named; 6] = [
        ("projective", || sentences::<f32>(200, 16, true, None)),
        ("projective, labels", || sentences::<f64>(60, 40, true, Some(20))),
        ("projective, one long sentence", || sentences::<f64>(400, 1, true, None)),
        ("all trees", || sentences::<f32>(200, 16, false, None)),
        ("all trees, labels", || sentences::<f64>(60, 40, false, Some(20))),
        ("all trees, one long sentence", || sentences::<f64>(500, 1, false, None)),
    ];
    let queries = Query::ALL.map(|query| query.with_count(10));
    let mut cases = Vec::new();
    for (name, model) in models {
        let built = model();
        for row in catalogue::rows(built.kind()) {
            let randomized = row.method == "randomized-inside";
            if randomized && name.starts_with("all") {
                continue;
            }
            for query in queries.into_iter().filter(|&query| row.answers(query)) {
                let settings = if randomized { r#"{"states": 16, "replicates": 3}"# } else { "{}" };
                cases.push(Case { method: row.method, settings, ..exact(name, query, model) });
            }
        }
    }
    let threads: Vec<Case> = cases.iter().map(|case| Case { threads: 2, ..*case }).collect();
    cases.into_iter().chain(threads).collect()
}

#[test]
fn forecasts_for_dependency_trees_hold() {
    let _turn = alone();
    let Some(found) = measure_each("forecasts_for_dependency_trees_hold", &dependency_cases()) else {
        return;
    };
    check_forecasts(&found, 3.0);
}

/// Many small models, edge cases among them. Scratch memory kept from an earlier query only lowers the peak, so
/// these need no separate process.
#[test]
fn small_trees_never_take_more_than_is_forecast() {
    let _turn = alone();
    let forms =
        [RuleForm::Any, RuleForm::Dense, RuleForm::Sparse(5), RuleForm::LowRank(1), RuleForm::LowRank(7)];
    let spans = [SpanForm::None, SpanForm::PerSpan, SpanForm::PerSymbol, SpanForm::Factored(3)];
    let sizes = [(1, 1, 2, 3), (2, 70, 2, 2), (30, 1, 2, 2), (5, 3, 20, 9), (7, 9, 5, 5), (12, 2, 9, 30)];
    for (k, (words, batch, heads, tags)) in sizes.into_iter().enumerate() {
        let run = Run::default().with_threads(1 + k % 2);
        run.install(|| ());
        for (i, rules) in forms.into_iter().enumerate() {
            for (j, spans) in spans.into_iter().enumerate() {
                let shape = HypertreeShape {
                    spans,
                    ragged: true,
                    per_sentence: (i + j + k) % 2 == 0 && !matches!(rules, RuleForm::Sparse(_)),
                    strength: [1.0, 30.0][(i + j) % 2],
                    zeros: [0.0, 0.3][j % 2],
                    ..shape(words, batch, heads, tags, rules)
                };
                let models: [Model; 2] = [tree::<f32>(shape).into(), tree::<f64>(shape).into()];
                models.iter().for_each(|model| keep_to_the_forecast(model, &format!("{shape:?}"), &run));
            }
        }
        for (projective, labels) in [(true, None), (true, Some(3)), (false, None), (false, Some(3))] {
            for model in [
                sentences::<f32>(words, batch, projective, labels),
                sentences::<f64>(words, batch, projective, labels),
            ] {
                let name = format!("{words} words, {batch} sentences, {projective} {labels:?}");
                keep_to_the_forecast(&model, &name, &run);
            }
        }
    }
}

fn keep_to_the_forecast(model: &Model, name: &str, run: &Run) {
    for row in catalogue::rows(model.kind()) {
        for query in
            Query::ALL.into_iter().map(|query| query.with_count(8)).filter(|&query| row.answers(query))
        {
            let forecast = row.forecast(model, query, &Settings::new(), run).unwrap();
            let choice = Choice::Named(row.method.into());
            // A query may find that there is no tree; the memory has been allocated all the same.
            let (_, peak) = measured(|| answer(model, query, &choice, &Settings::new(), run));
            let bytes = forecast.bytes;
            assert!(peak as f64 <= bytes, "{name}: {} {query:?} took {peak} of {bytes}", row.method);
        }
    }
}

#[test]
fn the_best_tree_with_low_rank_and_unary_rules_keeps_to_the_budget() {
    let _turn = alone();
    let run = Run::default().with_threads(1).with_memory(256 << 20);
    run.install(|| ());
    // Dense rules would have 256 GB.
    let model = tree::<f64>(shape(6, 1, 2000, 2000, RuleForm::LowRank(2)));
    let model = model.with_unary(vec![UnaryRule { head: 0, child: 1 }], vec![-2.0].into()).unwrap();
    let (result, peak) = measured(|| InsideOutside::default().map(&model, &run));
    let message = result.unwrap_err().to_string();
    assert!(message.contains("inside-outside needs ") && message.contains(" GiB of memory"), "{message}");
    assert!(message.contains("the budget is 256.0 MiB"), "{message}");
    assert!(peak < 1 << 20, "{peak}");
}

/// The memory that a query asks for, if this is more than 1 byte: the forecast, as it is printed in the error.
fn asked<T>(work: impl FnOnce(&Run) -> zhat::Result<T>, run: &Run) -> f64 {
    let run = run.clone().with_memory(1);
    let (result, peak) = measured(|| work(&run));
    assert!(peak < 1 << 16, "{peak} bytes before the query was refused");
    let Err(Error::OverBudget { needs, .. }) = result else { panic!("a budget of 1 byte was enough") };
    let mut words = needs.split(' ').skip_while(|word| *word != "needs").skip(1);
    let number: f64 = words.next().unwrap().parse().unwrap();
    let unit =
        ["B", "KiB", "MiB", "GiB"].iter().position(|unit| words.clone().next() == Some(*unit)).unwrap();
    number * 1024f64.powi(unit as i32)
}

/// Work on two models.
type Work<'a, M> = Box<dyn Fn(&[&M; 2], &Run) -> zhat::Result<()> + 'a>;

/// The values of the queries about two models, then values with gradients.
fn works<'a, M, A>(method: &'a A, batch: usize) -> Vec<(&'static str, Work<'a, M>)>
where
    M: HasFactorMarginals + 'a,
    A: Divergence<M> + Expectation<M> + Differentiable<M> + Sync,
{
    let gradient = move |operation: Operation, count: usize| -> Work<'a, M> {
        Box::new(move |models: &[&M; 2], run: &Run| {
            let (_, tape) = method.differentiate(operation, &models[..count], run)?;
            tape.vjp(&vec![1.0; batch]).map(drop)
        })
    };
    vec![
        ("cross-entropy", Box::new(move |[p, q], run| method.cross_entropy(p, q, run).map(drop))),
        ("KL", Box::new(move |[p, q], run| method.kl(p, q, run).map(drop))),
        ("expectation", Box::new(move |[p, q], run| method.expectation(p, q, run).map(drop))),
        ("gradient of log Z", gradient(Operation::LogPartition, 1)),
        ("gradient of entropy", gradient(Operation::Entropy, 1)),
        ("gradient of cross-entropy", gradient(Operation::CrossEntropy, 2)),
        ("gradient of KL", gradient(Operation::Kl, 2)),
        ("gradient of expectation", gradient(Operation::Expectation, 2)),
    ]
}

/// The number of works.
const WORKS: usize = 8;

/// What a work took and asked for. A tenth less is refused, and what it asks for is enough.
fn kept(name: &str, work: &dyn Fn(&Run) -> zhat::Result<()>, run: &Run) -> (f64, f64) {
    run.install(|| ());
    let forecast = asked(work, run);
    let budget = |factor: f64| run.clone().with_memory((factor * forecast) as u64);
    let (result, peak) = measured(|| work(&budget(0.9)));
    assert!(matches!(result, Err(Error::OverBudget { .. })) && peak < 1 << 16, "{name}: {peak}");
    let (result, peak) = measured(|| work(&budget(1.06)));
    result.unwrap();
    (peak as f64, 1.06 * forecast)
}

fn work<M, A>(method: &A, models: [&M; 2], batch: usize, number: usize, run: &Run) -> (f64, f64)
where
    M: HasFactorMarginals,
    A: Divergence<M> + Expectation<M> + Differentiable<M> + Sync,
{
    let (name, work) = works(method, batch).swap_remove(number);
    kept(name, &|run| work(&models, run), run)
}

fn two_trees<F: Real>(form: usize, strength: f64) -> [Hypertree<F>; 2] {
    let few = |rules| HypertreeShape { strength, ..shape(8, 3, 40, 40, rules) };
    let pair = |shape: HypertreeShape| [1, 2].map(|seed| generate::hypertree::<F>(&shape, seed).unwrap());
    let mixed = |a: RuleForm, b: RuleForm| {
        [generate::hypertree(&few(a), 1).unwrap(), generate::hypertree(&few(b), 2).unwrap()]
    };
    match form {
        0 => pair(few(RuleForm::LowRank(4))),
        1 => mixed(RuleForm::Any, RuleForm::LowRank(3)),
        2 => mixed(RuleForm::Sparse(500), RuleForm::Sparse(700)),
        3 => pair(by_symbol(few(RuleForm::Dense))),
        4 => pair(HypertreeShape { zeros: 0.1, ..few(RuleForm::LowRank(2)) }),
        5 => pair(HypertreeShape { per_sentence: true, ..few(RuleForm::LowRank(2)) }),
        6 => pair(few(RuleForm::LowRank(2))).map(|model| with_unary_rules(&model)),
        7 => pair(by_symbol(HypertreeShape { strength, ..shape(16, 2, 500, 500, RuleForm::LowRank(1)) })),
        8 => {
            let [p, q] =
                pair(by_symbol(HypertreeShape { strength, ..shape(8, 2, 500, 500, RuleForm::Sparse(5000)) }));
            let Rules::Sparse { rules, .. } = p.rules().clone() else { panic!("no listed rules") };
            let scores = vec![F::from_f64(-0.5); rules.len()].into();
            let own = Rules::Sparse { rules, scores };
            let q =
                Hypertree::new(q.symbols(), q.words().to_vec().into(), q.lengths().to_vec(), own).unwrap();
            let spans = q.with_spans(p.spans().clone()).unwrap();
            [p, spans]
        }
        _ => pair(by_symbol(HypertreeShape { strength, ..shape(20, 2, 500, 500, RuleForm::Any) })),
    }
}

const FORMS: usize = 10;

#[test]
fn queries_about_two_trees_and_gradients_keep_to_what_they_ask_for() {
    let _turn = alone();
    let name = |k: usize| {
        let (form, number, threads) = (k / WORKS, k % WORKS, 1 + k % 2);
        format!("form {form}, work {number}, {threads} threads")
    };
    let names: Vec<String> = (0..FORMS * WORKS).map(name).collect();
    let one = |k: usize| {
        let (form, number, run) = (k / WORKS, k % WORKS, Run::default().with_threads(1 + k % 2));
        let method = InsideOutside::default();
        match (form + number) % 2 {
            0 => {
                let [p, q] = two_trees::<f64>(form, 1.0);
                work(&method, [&p, &q], p.batch(), number, &run)
            }
            _ => {
                let [p, q] = two_trees::<f32>(form, 1.0);
                work(&method, [&p, &q], p.batch(), number, &run)
            }
        }
    };
    let test = "queries_about_two_trees_and_gradients_keep_to_what_they_ask_for";
    let Some(found) = measure_named(test, &names, one) else { return };
    check_forecasts(&found, 3.0);
}

#[test]
fn queries_about_two_dependency_trees_and_gradients_keep_to_what_they_ask_for() {
    let _turn = alone();
    let forms = [(true, None), (true, Some(20)), (false, None), (false, Some(20))];
    let name = |k: usize| format!("{:?}, work {}", forms[k / WORKS], k % WORKS);
    let names: Vec<String> = (0..forms.len() * WORKS).map(name).collect();
    let one = |k: usize| {
        let ((projective, labels), run) = (forms[k / WORKS], Run::default().with_threads(1 + k % 2));
        let trees = TreeShape { projective, single_root: true };
        let shape = SentenceShape { words: 50, batch: 16, labels, trees, ..Default::default() };
        let [p, q]: [DependencyTree<f32>; 2] = [1, 2].map(|seed| generate::dependency(&shape, seed).unwrap());
        work(&SpanningTrees::default(), [&p, &q], p.batch(), k % WORKS, &run)
    };
    let test = "queries_about_two_dependency_trees_and_gradients_keep_to_what_they_ask_for";
    let Some(found) = measure_named(test, &names, one) else { return };
    check_forecasts(&found, 3.0);
}

#[test]
fn gradients_of_randomized_entropies_keep_to_what_they_ask_for() {
    let _turn = alone();
    let names: Vec<String> = (0..FORMS + 2).map(|k| format!("form {k}")).collect();
    let one = |k: usize| {
        let run = Run::default().with_threads(1 + k % 2);
        let method = RandomizedInside::default().states(States::Count(8)).replicates(3);
        match k {
            0..FORMS => {
                let [model, _] = two_trees::<f32>(k, 1.0);
                let work = |run: &Run| {
                    let (_, tape) = method.differentiate(Operation::Entropy, &[&model], run)?;
                    tape.vjp(&vec![1.0; model.batch()]).map(drop)
                };
                kept(&names[k], &work, &run)
            }
            _ => {
                let labels = [None, Some(5)][k - FORMS];
                let trees = TreeShape { projective: true, single_root: true };
                let shape = SentenceShape { words: 60, batch: 8, labels, trees, ..Default::default() };
                let model: DependencyTree<f32> = generate::dependency(&shape, 1).unwrap();
                let work = |run: &Run| {
                    let (_, tape) = method.differentiate(Operation::Entropy, &[&model], run)?;
                    tape.vjp(&vec![1.0; model.batch()]).map(drop)
                };
                kept(&names[k], &work, &run)
            }
        }
    };
    let test = "gradients_of_randomized_entropies_keep_to_what_they_ask_for";
    let Some(found) = measure_named(test, &names, one) else { return };
    check_forecasts(&found, 3.0);
}
