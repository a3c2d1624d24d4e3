//! Trees over words in single precision against double precision with the same rounded scores.

use zhat::dynamic::{RandomizedInside, Selection, SpanProposal, States};
use zhat::model::generate::{self, HypertreeShape, RuleForm, SpanForm};
use zhat::model::{Hypertree, Rules, Spans, Symbols, UnaryRule, Values};
use zhat::query::{Differentiable, HypertreeGradient, Operation, RuleGradient, SpanGradient};
use zhat::{Divergence, Entropy, Expectation, FactorMarginals, LogPartition, Marginals, Run, Sample};

use crate::hypertree::{RULES, flat, method};

/// The same scores in double precision.
fn widened(model: &Hypertree<f32>) -> Hypertree<f64> {
    let wide =
        |values: &[f32]| -> Values<f64> { values.iter().map(|&x| f64::from(x)).collect::<Vec<f64>>().into() };
    let rules = match model.rules() {
        Rules::Dense(values) => Rules::Dense(wide(values)),
        Rules::Sparse { rules, scores } => Rules::Sparse { rules: rules.clone(), scores: wide(scores) },
        Rules::LowRank { rank, heads, left, right } => {
            Rules::LowRank { rank: *rank, heads: wide(heads), left: wide(left), right: wide(right) }
        }
        _ => Rules::Any,
    };
    let spans = match model.spans() {
        Spans::PerSpan(values) => Spans::PerSpan(wide(values)),
        Spans::PerSymbol(values) => Spans::PerSymbol(wide(values)),
        Spans::Factored { spans, symbols } => Spans::Factored { spans: wide(spans), symbols: wide(symbols) },
        _ => Spans::None,
    };
    let (rules_of_one, scores) =
        model.unary().map_or((Vec::new(), wide(&[])), |unary| (unary.rules().to_vec(), wide(unary.scores())));
    Hypertree::new(model.symbols(), wide(model.words()), model.lengths().to_vec(), rules)
        .unwrap()
        .with_roots(wide(model.roots()))
        .unwrap()
        .with_spans(spans)
        .unwrap()
        .with_unary(rules_of_one, scores)
        .unwrap()
}

fn flat_single(gradient: HypertreeGradient<f32>) -> Vec<f64> {
    let wide = |values: Vec<f32>| -> Vec<f64> { values.into_iter().map(f64::from).collect() };
    flat(HypertreeGradient {
        words: wide(gradient.words),
        roots: wide(gradient.roots),
        rules: match gradient.rules {
            RuleGradient::None => RuleGradient::None,
            RuleGradient::Scores(values) => RuleGradient::Scores(wide(values)),
            RuleGradient::LowRank { heads, left, right } => {
                RuleGradient::LowRank { heads: wide(heads), left: wide(left), right: wide(right) }
            }
        },
        spans: match gradient.spans {
            SpanGradient::None => SpanGradient::None,
            SpanGradient::Scores(values) => SpanGradient::Scores(wide(values)),
            SpanGradient::Factored { spans, symbols } => {
                SpanGradient::Factored { spans: wide(spans), symbols: wide(symbols) }
            }
        },
        unary: wide(gradient.unary),
    })
}

fn with_unary(model: Hypertree<f32>) -> Hypertree<f32> {
    let rules = vec![UnaryRule { head: 0, child: 1 }, UnaryRule { head: 1, child: 2 }];
    model.with_unary(rules, vec![-0.7f32, -1.3].into()).unwrap()
}

/// Batches with every form of rules and spans, with and without zeros and unary rules. The second model has the
/// same listed rules and zeros.
fn pairs() -> Vec<(String, Hypertree<f32>, Hypertree<f32>)> {
    let spans = [SpanForm::None, SpanForm::PerSpan, SpanForm::PerSymbol, SpanForm::Factored(3)];
    let mut all = Vec::new();
    for (i, rules) in RULES.into_iter().chain([RuleForm::LowRank(9)]).enumerate() {
        for (j, (words, zeros)) in [(4, 0.0), (6, 0.3), (9, 0.0), (5, 0.6)].into_iter().enumerate() {
            let symbols = [Symbols::disjoint(7, 9), Symbols::same(6), Symbols { all: 8, heads: 6, tags: 5 }];
            let rules = if matches!(rules, RuleForm::Sparse(_)) { RuleForm::Sparse(100) } else { rules };
            let shape = HypertreeShape {
                words,
                batch: 3,
                ragged: j % 2 == 1,
                symbols: symbols[(i + j) % 3],
                rules,
                per_sentence: (i + j) % 3 == 0 && !matches!(rules, RuleForm::Sparse(_)),
                spans: spans[(i + j) % 4],
                zeros,
                ..Default::default()
            };
            let seed = (10 * i + j) as u64;
            let mut model: Hypertree<f32> = generate::hypertree(&shape, seed).unwrap();
            if (i + j) % 2 == 0 {
                model = with_unary(model);
            }
            let other = moved(&model);
            all.push((format!("{shape:?} seed {seed}"), model, other));
        }
    }
    all
}

/// The same model with other scores and the same zeros.
fn moved(model: &Hypertree<f32>) -> Hypertree<f32> {
    let other = |values: &[f32]| -> Values<f32> {
        let one = |(at, x): (usize, &f32)| 0.5 * x + 0.3 * (at as f32).sin();
        values.iter().enumerate().map(one).collect::<Vec<f32>>().into()
    };
    let rules = match model.rules() {
        Rules::Dense(values) => Rules::Dense(other(values)),
        Rules::Sparse { rules, scores } => Rules::Sparse { rules: rules.clone(), scores: other(scores) },
        Rules::LowRank { rank, heads, left, right } => {
            Rules::LowRank { rank: *rank, heads: other(heads), left: other(left), right: other(right) }
        }
        _ => Rules::Any,
    };
    let spans = match model.spans() {
        Spans::PerSpan(values) => Spans::PerSpan(other(values)),
        Spans::PerSymbol(values) => Spans::PerSymbol(other(values)),
        Spans::Factored { spans, symbols } => {
            Spans::Factored { spans: other(spans), symbols: other(symbols) }
        }
        _ => Spans::None,
    };
    let (rules_of_one, scores) = model
        .unary()
        .map_or((Vec::new(), other(&[])), |unary| (unary.rules().to_vec(), other(unary.scores())));
    Hypertree::new(model.symbols(), other(model.words()), model.lengths().to_vec(), rules)
        .unwrap()
        .with_roots(other(model.roots()))
        .unwrap()
        .with_spans(spans)
        .unwrap()
        .with_unary(rules_of_one, scores)
        .unwrap()
}

fn close(what: &str, found: &[f64], expected: &[f64], allowance: f64) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (at, (x, y)) in found.iter().zip(expected).enumerate() {
        assert!(x == y || (x - y).abs() <= allowance * (1.0 + y.abs()), "{what} at {at}: {x} {y}");
    }
}

#[test]
fn gradients_in_single_precision_agree_with_those_in_double_precision() {
    let (run, mut compared) = (Run::default(), 0);
    for (name, p, q) in pairs() {
        let (wide_p, wide_q) = (widened(&p), widened(&q));
        let Ok(expected) = method().factor_marginals(&wide_p, &run) else { continue };
        let found = method().factor_marginals(&p, &run).unwrap();
        close(&name, &flat_single(found.value), &flat(expected.value), 3e-5);
        let cotangent: Vec<f64> = (0..p.batch()).map(|b| 1.5 - b as f64).collect();
        for operation in Operation::ALL {
            let count = operation.models();
            let single = method().differentiate(operation, &[&p, &q][..count], &run).unwrap().1;
            let double = method().differentiate(operation, &[&wide_p, &wide_q][..count], &run).unwrap().1;
            let (single, double) = (single.vjp(&cotangent).unwrap(), double.vjp(&cotangent).unwrap());
            for (side, (single, double)) in single.into_iter().zip(double).enumerate() {
                let name = format!("{operation:?} side {side} {name}");
                close(&name, &flat_single(single), &flat(double), 1e-4);
                compared += 1;
            }
        }
    }
    assert!(compared > 100, "{compared}");
}

#[test]
fn divergences_and_expectations_in_single_precision_agree_with_those_in_double_precision() {
    let (run, mut compared) = (Run::default(), 0);
    for (name, p, q) in pairs() {
        let (wide_p, wide_q) = (widened(&p), widened(&q));
        let Ok(expected) = method().kl(&wide_p, &wide_q, &run) else { continue };
        close(&name, &method().kl(&p, &q, &run).unwrap().value, &expected.value, 1e-5);
        let expected = method().cross_entropy(&wide_p, &wide_q, &run).unwrap().value;
        close(&name, &method().cross_entropy(&p, &q, &run).unwrap().value, &expected, 1e-5);
        let expected = method().expectation(&wide_p, &wide_q, &run).unwrap().value;
        close(&name, &method().expectation(&p, &q, &run).unwrap().value, &expected, 1e-5);
        compared += 1;
    }
    assert!(compared > 20, "{compared}");
}

/// A model whose last rule has weight zero, which the other model uses.
#[test]
fn divergences_in_single_precision_are_infinite_if_a_tree_is_forbidden() {
    let shape = HypertreeShape { words: 4, symbols: Symbols::same(3), ..Default::default() };
    for rules in [RuleForm::Dense, RuleForm::Sparse(20), RuleForm::LowRank(1), RuleForm::LowRank(2)] {
        let p: Hypertree<f32> = generate::hypertree(&HypertreeShape { rules, ..shape }, 3).unwrap();
        let mut words = moved(&p).words().to_vec();
        words[..3].fill(f32::NEG_INFINITY);
        let q = Hypertree::new(p.symbols(), words.into(), p.lengths().to_vec(), p.rules().clone()).unwrap();
        let run = Run::default();
        assert_eq!(method().kl(&p, &q, &run).unwrap().value, [f64::INFINITY]);
        assert_eq!(method().cross_entropy(&p, &q, &run).unwrap().value, [f64::INFINITY]);
        assert_eq!(method().expectation(&p, &q, &run).unwrap().value, [f64::NEG_INFINITY]);
    }
}

/// All symbols kept: the exact answers.
#[test]
fn randomized_inside_in_single_precision_is_exact_with_all_symbols() {
    let (run, mut compared) = (Run::default(), 0);
    for (name, model, _) in pairs() {
        let wide = widened(&model);
        let Ok(log_z) = method().log_partition(&wide, &run) else { continue };
        let randomized = RandomizedInside::default().replicates(2);
        close(&name, &randomized.log_partition(&model, &run).unwrap().value, &log_z.value, 1e-5);
        let entropy = method().entropy(&wide, &run).unwrap().value;
        close(&name, &randomized.entropy(&model, &run).unwrap().value, &entropy, 1e-5);
        let gradient = flat(method().factor_marginals(&wide, &run).unwrap().value);
        let found = flat_single(randomized.factor_marginals(&model, &run).unwrap().value);
        close(&name, &found, &gradient, 3e-5);
        let nodes = method().marginals(&wide, &run).unwrap().value.values;
        let found = randomized.marginals(&model, &run).unwrap().value.values;
        close(&name, &found.into_iter().map(f64::from).collect::<Vec<f64>>(), &nodes, 3e-5);
        compared += 1;
    }
    assert!(compared > 20, "{compared}");
}

/// A mean of 1 with a false-alarm rate of 10⁻⁶ for each model. Rounding is smaller than the standard error by a
/// factor of 1,000.
#[test]
fn randomized_inside_in_single_precision_is_unbiased() {
    for (i, rules) in RULES.into_iter().enumerate() {
        let symbols = Symbols { all: 7, heads: 6, tags: 5 };
        let rules = if matches!(rules, RuleForm::Sparse(_)) { RuleForm::Sparse(150) } else { rules };
        let spans = [SpanForm::PerSymbol, SpanForm::None, SpanForm::Factored(2)][i % 3];
        let shape = HypertreeShape { words: 4, symbols, rules, spans, ..Default::default() };
        let model: Hypertree<f32> = generate::hypertree(&shape, 3 + i as u64).unwrap();
        let model = if i % 2 == 1 { with_unary(model) } else { model };
        let log_z = method().log_partition(&widened(&model), &Run::default()).unwrap().value[0];
        for (proposal, selection) in [
            (SpanProposal::Uniform, Selection::Threshold),
            (SpanProposal::Local, Selection::Draws),
            (SpanProposal::TwoPass, Selection::Threshold),
        ] {
            let randomized = RandomizedInside::default()
                .states(States::Count(3))
                .proposal(proposal)
                .selection(selection)
                .top(Some(1))
                .replicates(1);
            let one = |seed: u64| {
                let run = Run::default().with_seed(seed);
                (randomized.log_partition(&model, &run).unwrap().value[0] - log_z).exp()
            };
            let ratios: Vec<f64> = (0..500).map(one).collect();
            let mean = ratios.iter().sum::<f64>() / 500.0;
            let variance = ratios.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 499.0;
            let z = (mean - 1.0) / (variance / 500.0).sqrt().max(1e-5);
            assert!(z.abs() < 4.9, "{rules:?} {proposal:?} {selection:?}: {mean} z {z}");
        }
    }
}

/// With the same choices, single precision gives the estimates and gradients of double precision.
#[test]
fn estimates_in_single_precision_agree_with_those_in_double_precision() {
    let (run, mut compared) = (Run::default().with_seed(5), 0);
    for (name, model, _) in pairs() {
        let wide = widened(&model);
        if method().log_partition(&wide, &run).is_err() {
            continue;
        }
        // These choices do not depend on scores.
        let randomized = RandomizedInside::default()
            .states(States::Count(3))
            .proposal(SpanProposal::Uniform)
            .selection(Selection::Draws)
            .replicates(3);
        let Ok(log_z) = randomized.log_partition(&wide, &run) else { continue };
        close(&name, &randomized.log_partition(&model, &run).unwrap().value, &log_z.value, 1e-5);
        // Every estimate may be zero.
        let Ok(entropy) = randomized.entropy(&wide, &run) else { continue };
        close(&name, &randomized.entropy(&model, &run).unwrap().value, &entropy.value, 1e-4);
        let gradient = flat(randomized.factor_marginals(&wide, &run).unwrap().value);
        let found = flat_single(randomized.factor_marginals(&model, &run).unwrap().value);
        close(&name, &found, &gradient, 1e-4);
        let drawn = randomized.sample(&model, 10, &run).unwrap().value;
        for (b, trees) in drawn.samples.iter().enumerate() {
            for tree in trees {
                assert!((wide.score(b, &tree.nodes) - tree.score).abs() < 1e-4, "{name}");
            }
        }
        compared += 1;
    }
    assert!(compared > 10, "{compared}");
}
