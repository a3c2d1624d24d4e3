//! Randomized inside: unbiased, exact if all symbols are kept, gradients for fixed choices.

use zhat::dynamic::{RandomizedInside, Selection, SpanProposal, States};
use zhat::model::generate::{self, HypertreeShape, RuleForm, SpanForm};
use zhat::model::{Hypertree, Rule, Rules, Symbols, UnaryRule};
use zhat::query::{Differentiable, Operation};
use zhat::{Entropy, Error, FactorMarginals, LogPartition, Marginals, Run, Sample};

use crate::hypertree::{RULES, flat, method, parameters, shapes, with_parameters, with_unary};

/// z of the mean of exp(log Ẑ − log Z) over seeds.
fn z_score(logs: &[f64], log_z: f64) -> (f64, f64) {
    let ratios: Vec<f64> = logs.iter().map(|x| (x - log_z).exp()).collect();
    let n = ratios.len() as f64;
    let mean = ratios.iter().sum::<f64>() / n;
    let variance = ratios.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, (mean - 1.0) / (variance / n).sqrt().max(1e-12))
}

/// The first model of a shape that has several trees, and log Z.
fn with_trees(shape: &HypertreeShape, first: u64, unary: bool) -> (Hypertree<f64>, f64) {
    let usable = |seed: u64| {
        let mut model: Hypertree<f64> = generate::hypertree(shape, seed).unwrap();
        if unary {
            model = with_unary(model, 1);
        }
        let log_z = method().log_partition(&model, &Run::default()).ok()?.value[0];
        let entropy = method().entropy(&model, &Run::default()).ok()?.value[0];
        (entropy > 0.7).then_some((model, log_z))
    };
    (first..first + 1000).find_map(usable).unwrap()
}

/// A false alarm once in 10⁶ tests for each of the estimators.
#[test]
fn randomized_inside_is_unbiased() {
    let all = [SpanProposal::Uniform, SpanProposal::Local, SpanProposal::TwoPass, SpanProposal::UniformTail];
    let mut cases =
        vec![(0.0, SpanProposal::Uniform), (0.5, SpanProposal::Local), (0.3, SpanProposal::TwoPass)];
    cases.extend(all.map(|proposal| (0.75, proposal)));
    let mut tested = 0;
    for (i, rules) in RULES.into_iter().enumerate() {
        for &(zeros, proposal) in &cases {
            let symbols = Symbols { all: 7, heads: 6, tags: 5 };
            let rules = if matches!(rules, RuleForm::Sparse(_)) { RuleForm::Sparse(150) } else { rules };
            let spans = [SpanForm::PerSymbol, SpanForm::None, SpanForm::Factored(2)][i % 3];
            let shape = HypertreeShape { words: 4, symbols, rules, spans, zeros, ..Default::default() };
            let (model, log_z) = with_trees(&shape, 3 + i as u64, i % 2 == 1);
            for selection in [Selection::Threshold, Selection::Draws] {
                let randomized = RandomizedInside::default()
                    .states(States::Count(3))
                    .proposal(proposal)
                    .selection(selection)
                    .top(Some(1))
                    .replicates(1);
                let one = |seed: u64| {
                    let run = Run::default().with_seed(seed);
                    randomized.log_partition(&model, &run).unwrap().value[0]
                };
                let logs: Vec<f64> = (0..500).map(one).collect();
                let (mean, z) = z_score(&logs, log_z);
                assert!(z.abs() < 4.9, "{rules:?} {zeros} {proposal:?} {selection:?}: {mean} z {z}");
                tested += 1;
            }
        }
    }
    assert_eq!(tested, RULES.len() * cases.len() * 2);
}

/// The same rules as a table, a list and factors. The choices do not depend on the rules, so all forms give the
/// same estimates, by sums over chosen symbols only or over all.
#[test]
fn estimates_do_not_depend_on_the_form_of_the_rules() {
    let sizes = [(5, 6, 7, 3), (4, 20, 22, 4), (4, 20, 22, 15), (3, 17, 17, 17), (1, 5, 6, 2)];
    for (seed, (words, heads, all, count)) in sizes.into_iter().enumerate() {
        let symbols = Symbols { all, heads, tags: all - 1 };
        let shape = HypertreeShape {
            words,
            batch: 3,
            ragged: true,
            symbols,
            rules: RuleForm::LowRank(2),
            spans: [SpanForm::PerSymbol, SpanForm::PerSpan, SpanForm::Factored(2)][seed % 3],
            ..Default::default()
        };
        let factors: Hypertree<f64> = generate::hypertree(&shape, seed as u64).unwrap();
        let mut list = Vec::new();
        for (head, left, right) in
            (0..heads).flat_map(|k| (0..all).flat_map(move |a| (0..all).map(move |b| (k, a, b))))
        {
            list.push((Rule { head, left, right }, factors.rules().score(symbols, 0, head, left, right)));
        }
        let (rules, scores): (Vec<Rule>, Vec<f64>) = list.into_iter().unzip();
        let built = |rules: Rules<f64>| {
            let (lengths, words) = (factors.lengths().to_vec(), factors.words().to_vec());
            let model = Hypertree::new(symbols, words.into(), lengths, rules).unwrap();
            let model = model.with_roots(factors.roots().to_vec().into()).unwrap();
            model.with_spans(factors.spans().clone()).unwrap()
        };
        let dense = built(Rules::Dense(scores.clone().into()));
        let listed = built(Rules::sparse(rules, &scores).unwrap());
        let randomized = RandomizedInside::default()
            .states(States::Count(count))
            .replicates(2)
            .proposal(SpanProposal::Local);
        let run = Run::default().with_seed(seed as u64);
        let near = |a: &[f64], b: &[f64], what: &str| {
            assert_eq!(a.len(), b.len(), "{what} {seed}");
            let same = |(x, y): (&f64, &f64)| x == y || (x - y).abs() < 1e-10 * (1.0 + y.abs());
            assert!(a.iter().zip(b).all(same), "{what} {seed}: {a:?} {b:?}");
        };
        let log_z = |model: &Hypertree<f64>| randomized.log_partition(model, &run).unwrap().value;
        near(&log_z(&dense), &log_z(&factors), "log Z, dense");
        near(&log_z(&listed), &log_z(&factors), "log Z, listed");
        let nodes = |model: &Hypertree<f64>| randomized.marginals(model, &run).unwrap().value.values;
        near(&nodes(&dense), &nodes(&factors), "nodes, dense");
        near(&nodes(&listed), &nodes(&factors), "nodes, listed");
        let entropy = |model: &Hypertree<f64>| randomized.entropy(model, &run).unwrap().value;
        near(&entropy(&listed), &entropy(&dense), "entropy, listed");
        near(&entropy(&factors), &entropy(&dense), "entropy, low rank");
        let gradient = |model: &Hypertree<f64>| flat(randomized.factor_marginals(model, &run).unwrap().value);
        near(&gradient(&listed), &gradient(&dense), "gradient, listed");
    }
}

#[test]
fn all_symbols_give_the_exact_answers() {
    let run = Run::default();
    for (shape, seed) in shapes() {
        let mut model: Hypertree<f64> = generate::hypertree(&shape, seed).unwrap();
        if seed % 3 == 0 && shape.strength == 1.0 {
            model = with_unary(model, seed);
        }
        let randomized = RandomizedInside::default().replicates(2);
        let Ok(exact) = method().log_partition(&model, &run) else {
            assert!(matches!(randomized.log_partition(&model, &run).unwrap_err(), Error::NoTree(_)));
            continue;
        };
        let found = randomized.log_partition(&model, &run).unwrap();
        // Shares of replicates have the rounding of log Z.
        let relative = 1e-9 + 1e-15 * model.magnitude();
        let near = |a: f64, b: f64| a == b || (a - b).abs() < relative * (1.0 + b.abs());
        assert!(found.value.iter().zip(&exact.value).all(|(a, b)| near(*a, *b)), "{shape:?} {seed}");
        let entropy = randomized.entropy(&model, &run).unwrap().value;
        let expected = method().entropy(&model, &run).unwrap().value;
        let tolerance = 1e-9 * (1.0 + model.magnitude());
        assert!(entropy.iter().zip(&expected).all(|(a, b)| a == b || (a - b).abs() < tolerance));
        let gradient = flat(randomized.factor_marginals(&model, &run).unwrap().value);
        let expected = flat(method().factor_marginals(&model, &run).unwrap().value);
        assert!(gradient.iter().zip(&expected).all(|(a, b)| near(*a, *b)), "{shape:?} {seed}");
        let nodes = randomized.marginals(&model, &run).unwrap().value.values;
        let expected = method().marginals(&model, &run).unwrap().value.values;
        assert!(nodes.iter().zip(&expected).all(|(a, b)| near(*a, *b)), "{shape:?} {seed}");
    }
}

/// Compares a gradient with finite differences; the proposal must not move with the scores.
fn check_gradient(method: &RandomizedInside, operation: Operation, model: &Hypertree<f64>, run: &Run) {
    let cotangent: Vec<f64> = (0..model.batch()).map(|b| 1.5 - b as f64).collect();
    let value = |model: &Hypertree<f64>| -> f64 {
        let values = method.differentiate(operation, &[model], run).unwrap().0;
        values.iter().zip(&cotangent).filter(|(x, _)| x.is_finite()).map(|(x, c)| c * x).sum()
    };
    let (values, tape) = method.differentiate(operation, &[model], run).unwrap();
    if operation == Operation::Entropy {
        assert_eq!(values, method.entropy(model, run).unwrap().value);
    }
    let gradient = flat(tape.vjp(&cotangent).unwrap().remove(0));
    let (scores, step) = (parameters(model), 1e-5);
    assert_eq!(gradient.len(), scores.len());
    for at in (0..scores.len()).step_by(2).filter(|&at| scores[at].is_finite()) {
        let moved = |by: f64| {
            let mut scores = scores.clone();
            scores[at] += by;
            value(&with_parameters(model, &scores))
        };
        let expected = (moved(step) - moved(-step)) / (2.0 * step);
        let near = (gradient[at] - expected).abs() < 1e-6;
        assert!(near, "{operation:?} {:?} {at}: {} {expected}", model.rules().rank(), gradient[at]);
    }
}

/// Batches, zeros, unary rules, sentences without a tree of chosen symbols, and rules per sentence.
#[test]
fn gradients_of_entropy_estimates_agree_with_finite_differences() {
    let mut compared = 0;
    for (i, rules) in RULES.into_iter().enumerate() {
        for unary in [false, true] {
            let symbols = Symbols { all: 5, heads: 4, tags: 4 };
            let rules = if matches!(rules, RuleForm::Sparse(_)) { RuleForm::Sparse(60) } else { rules };
            let shape = HypertreeShape {
                words: 4,
                batch: 3,
                ragged: true,
                symbols,
                rules,
                per_sentence: i % 2 == 1 && !matches!(rules, RuleForm::Sparse(_)),
                spans: [SpanForm::PerSymbol, SpanForm::None, SpanForm::Factored(2)][i % 3],
                zeros: 0.2,
                ..Default::default()
            };
            let model: Hypertree<f64> = generate::hypertree(&shape, 20 + i as u64).unwrap();
            let model = if unary { with_unary(model, 1) } else { model };
            for (selection, count) in
                [(Selection::Threshold, 2), (Selection::Draws, 3), (Selection::Draws, 5)]
            {
                let randomized = RandomizedInside::default()
                    .states(States::Count(count))
                    .proposal(SpanProposal::Uniform)
                    .selection(selection)
                    .replicates(3);
                let run = Run::default().with_seed(6 + i as u64);
                // Every estimate may be zero.
                if randomized.entropy(&model, &run).is_ok() {
                    check_gradient(&randomized, Operation::Entropy, &model, &run);
                    compared += 1;
                }
            }
        }
    }
    assert!(compared > 20, "{compared}");
}

#[test]
fn gradients_of_chosen_symbols_agree_with_finite_differences() {
    let run = Run::default().with_seed(4);
    for rules in [RuleForm::LowRank(2), RuleForm::Dense, RuleForm::Sparse(60), RuleForm::Any] {
        let symbols = Symbols { all: 5, heads: 4, tags: 4 };
        let shape =
            HypertreeShape { words: 4, symbols, rules, spans: SpanForm::PerSymbol, ..Default::default() };
        let model: Hypertree<f64> = generate::hypertree(&shape, 8).unwrap();
        // The proposal must not move with the scores.
        let randomized = RandomizedInside::default()
            .states(States::Count(2))
            .proposal(SpanProposal::Uniform)
            .replicates(3);
        for operation in [Operation::LogPartition, Operation::Entropy] {
            check_gradient(&randomized, operation, &model, &run);
        }
        let drawn = randomized.sample(&model, 30, &run).unwrap().value;
        let weights = drawn.log_weights.unwrap();
        assert!(drawn.samples[0].len() == 30 && weights[0].len() == 30);
        assert!(drawn.samples[0].iter().all(|tree| model.score(0, &tree.nodes) == tree.score));
    }
}

/// A mean of 1 with a false-alarm rate of 2·10⁻⁹.
#[test]
fn the_two_pass_proposal_is_unbiased_with_and_without_zeros() {
    for (i, rules) in
        [RuleForm::LowRank(6), RuleForm::Dense, RuleForm::Sparse(2000), RuleForm::Any].into_iter().enumerate()
    {
        for zeros in [0.0, 0.75] {
            let symbols = Symbols { all: 14, heads: 12, tags: 12 };
            let spans = [SpanForm::PerSymbol, SpanForm::Factored(2)][i % 2];
            let shape = HypertreeShape { words: 4, symbols, rules, spans, zeros, ..Default::default() };
            // Few models have many trees with 75% zeros.
            let (model, log_z) = with_trees(&shape, 0, false);
            for selection in [Selection::Threshold, Selection::Draws] {
                let randomized = RandomizedInside::default()
                    .states(States::Count(3))
                    .proposal(SpanProposal::TwoPass)
                    .selection(selection)
                    .top(Some(1))
                    .replicates(1);
                // A first pass for each estimate.
                let one = |seed: u64| {
                    let run = Run::default().with_seed(seed);
                    randomized.log_partition(&model, &run).unwrap().value[0]
                };
                let logs: Vec<f64> = (0..400).map(one).collect();
                let (mean, z) = z_score(&logs, log_z);
                assert!(z.abs() < 6.0, "{rules:?} {zeros} {selection:?}: {mean} z {z}");
            }
        }
    }
}

#[test]
fn the_two_pass_proposal_has_the_smallest_error_if_spans_matter() {
    for (zeros, seed) in [(0.0, 1), (0.0, 2), (0.75, 5)] {
        let (symbols, rules) = (Symbols::same(40), RuleForm::LowRank(3));
        let spans = SpanForm::PerSymbol;
        let shape = HypertreeShape { words: 6, symbols, rules, spans, zeros, ..Default::default() };
        let model: Hypertree<f64> = generate::hypertree(&shape, seed).unwrap();
        let log_z = method().log_partition(&model, &Run::default()).unwrap().value[0];
        let error = |proposal: SpanProposal| {
            let randomized =
                RandomizedInside::default().states(States::Count(5)).proposal(proposal).replicates(4);
            let one = |seed: u64| {
                let run = Run::default().with_seed(seed);
                (randomized.log_partition(&model, &run).unwrap().value[0] - log_z).powi(2)
            };
            (0..40).map(one).sum::<f64>() / 40.0
        };
        let [uniform, local, two_pass] =
            [SpanProposal::Uniform, SpanProposal::Local, SpanProposal::TwoPass].map(error);
        assert!(two_pass < local && two_pass < uniform, "{zeros}: {uniform} {local} {two_pass}");
    }
}

/// Only symbol 0 can be the root, and unary rules make others of it.
#[test]
fn symbols_below_unary_rules_of_the_root_are_chosen() {
    let shape =
        HypertreeShape { words: 3, symbols: Symbols::same(8), rules: RuleForm::Any, ..Default::default() };
    let model: Hypertree<f64> = generate::hypertree(&shape, 1).unwrap();
    let mut roots = vec![f64::NEG_INFINITY; 8];
    roots[0] = 0.0;
    let rules = (1..8).map(|child| UnaryRule { head: child - 1, child }).collect();
    let model = model.with_roots(roots.into()).unwrap().with_unary(rules, vec![-0.1; 7].into()).unwrap();
    let log_z = method().log_partition(&model, &Run::default()).unwrap().value[0];
    for proposal in
        [SpanProposal::Uniform, SpanProposal::Local, SpanProposal::TwoPass, SpanProposal::UniformTail]
    {
        let randomized =
            RandomizedInside::default().states(States::Count(3)).proposal(proposal).replicates(1);
        let one =
            |seed: u64| randomized.log_partition(&model, &Run::default().with_seed(seed)).unwrap().value[0];
        let (mean, z) = z_score(&(0..500).map(one).collect::<Vec<f64>>(), log_z);
        // A false alarm once in 5·10⁸ tests.
        assert!(z.abs() < 6.0, "{proposal:?}: {mean} z {z}");
    }
}
