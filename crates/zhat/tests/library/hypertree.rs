//! Trees over words against enumeration.

use zhat::dynamic::{InsideOutside, TreeChoice};
use zhat::model::generate::{self, HypertreeShape, RuleForm, SpanForm};
use zhat::model::{Hypertree, Observed, Rule, Rules, Spans, Symbols, UnaryRule, Values};
use zhat::query::{Constituent, HypertreeGradient, RuleGradient, SpanGradient};
use zhat::query::{Differentiable, Operation};
use zhat::{
    Divergence, Entropy, Error, FactorMarginals, Guarantee, KBest, LogPartition, Map, Marginals, Run, Sample,
};

use crate::support::parses::Parses;
use crate::support::statistics::multinomial_tail;

pub fn method() -> InsideOutside {
    InsideOutside::default()
}

pub const RULES: [RuleForm; 6] = [
    RuleForm::Any,
    RuleForm::Dense,
    RuleForm::Sparse(12),
    RuleForm::LowRank(1),
    RuleForm::LowRank(2),
    RuleForm::LowRank(3),
];

/// Small batches with every form of rules and spans, few and many zeros, scores of 1e4, one word.
pub fn shapes() -> Vec<(HypertreeShape, u64)> {
    let mut all = Vec::new();
    let symbols = [Symbols::disjoint(2, 2), Symbols::same(2), Symbols { all: 3, heads: 2, tags: 2 }];
    let spans = [SpanForm::None, SpanForm::PerSpan, SpanForm::PerSymbol, SpanForm::Factored(2)];
    let mut seed = 0;
    for rules in RULES {
        for spans in spans {
            for (zeros, strength) in [(0.0, 1.0), (0.3, 1.0), (0.75, 1.0), (0.0, 1e4), (0.5, 1e4)] {
                seed += 1;
                let symbols = symbols[seed as usize % 3];
                let rules = match rules {
                    RuleForm::Sparse(_) => RuleForm::Sparse(symbols.heads * symbols.all * symbols.all / 2),
                    other => other,
                };
                let per_sentence = seed % 4 == 0 && !matches!(rules, RuleForm::Sparse(_));
                let words = [4, 1, 3, 2][seed as usize % 4];
                let batch = 1 + seed as usize % 3;
                let shape = HypertreeShape {
                    words,
                    batch,
                    ragged: seed % 2 == 1,
                    symbols,
                    rules,
                    per_sentence,
                    spans,
                    strength,
                    zeros,
                };
                all.push((shape, seed));
            }
        }
    }
    all
}

/// The same with unary rules that have no cycle.
pub fn with_unary(model: Hypertree<f64>, seed: u64) -> Hypertree<f64> {
    let all = model.symbols().all;
    let heads = model.symbols().heads;
    let mut rules = vec![UnaryRule { head: 0, child: 1 }];
    let mut scores = vec![(seed as f64).sin() - 1.0];
    if all > 2 && heads > 1 {
        rules.push(UnaryRule { head: 1, child: all - 1 });
        scores.push((seed as f64).cos() - 0.5);
        rules.push(UnaryRule { head: 0, child: all - 1 });
        scores.push(-0.3);
    }
    model.with_unary(rules, scores.into()).unwrap()
}

pub fn check<F: zhat::Real>(model: &Hypertree<F>, tolerance: f64, label: &str)
where
    InsideOutside: LogPartition<Hypertree<F>>
        + Marginals<Hypertree<F>>
        + Entropy<Hypertree<F>>
        + Map<Hypertree<F>>
        + KBest<Hypertree<F>>,
{
    let run = Run::default();
    let parses: Vec<Parses> = (0..model.batch()).map(|b| Parses::new(model, b)).collect();
    let found = method().log_partition(model, &run);
    if parses.iter().all(|own| own.trees.is_empty()) {
        assert!(matches!(found.unwrap_err(), Error::NoTree(_)), "{label}");
        assert!(matches!(method().map(model, &run).unwrap_err(), Error::NoTree(_)), "{label}");
        assert!(matches!(method().entropy(model, &run).unwrap_err(), Error::NoTree(_)), "{label}");
        assert!(matches!(method().k_best(model, 3, &run).unwrap_err(), Error::NoTree(_)), "{label}");
        return;
    }
    let log_z = found.unwrap();
    let marginals = method().marginals(model, &run).unwrap().value;
    let entropy = method().entropy(model, &run).unwrap();
    let best = method().map(model, &run).unwrap();
    let ranked = method().k_best(model, 7, &run).unwrap().value;
    let magnitude = model.magnitude();
    let [_, t, _, s] = marginals.shape;
    for (b, own) in parses.iter().enumerate() {
        let label = format!("{label} sentence {b}");
        let allowance = log_z.diagnostics.rounding + 1e-14 * magnitude;
        let expected = own.log_partition();
        if expected == f64::NEG_INFINITY {
            assert_eq!(log_z.value[b], expected, "{label}");
            assert_eq!(entropy.value[b], expected, "{label}");
            assert!(best.value[b].nodes.is_empty() && ranked[b].is_empty(), "{label}");
            continue;
        }
        assert!((log_z.value[b] - expected).abs() <= allowance, "{label}: {} {expected}", log_z.value[b]);
        let probabilities = own.probabilities();
        let h: f64 = probabilities.iter().filter(|p| **p > 0.0).map(|p| -p * p.ln()).sum();
        assert!(
            (entropy.value[b] - h).abs() <= 1e-9 * (1.0 + magnitude) + tolerance,
            "{label} {} {h}",
            entropy.value[b]
        );
        let counts = own.node_counts();
        for i in 0..model.lengths()[b] {
            for j in i..model.lengths()[b] {
                for k in 0..s {
                    let value: f64 = marginals.values[((b * t + i) * t + j) * s + k].into();
                    let node = Constituent { first: i, last: j, symbol: k };
                    let expected = counts.get(&node).copied().unwrap_or(0.0);
                    let allowance = tolerance + 1e-12 * magnitude.min(1e3) + 1e-13 * magnitude;
                    assert!(
                        (value - expected).abs() <= allowance,
                        "{label} ({i}, {j}, {k}): {value} {expected}"
                    );
                }
            }
        }
        let mut scores = own.scores.clone();
        scores.sort_by(|a, b| b.total_cmp(a));
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-12 * (1.0 + magnitude) + 4.0 * tolerance;
        assert_eq!(model.score(b, &best.value[b].nodes), best.value[b].score, "{label}");
        assert_eq!(*best.guarantee.item(b), Guarantee::Exact, "{label}");
        assert!(near(best.value[b].score, scores[0]), "{label} {} {}", best.value[b].score, scores[0]);
        assert_eq!(ranked[b].len(), scores.len().min(7), "{label}");
        for (tree, score) in ranked[b].iter().zip(&scores) {
            assert!(near(tree.score, *score), "{label} {} {score}", tree.score);
            assert!(own.trees.contains(&tree.nodes), "{label}");
        }
        let mut distinct: Vec<_> = ranked[b].iter().map(|tree| &tree.nodes).collect();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), ranked[b].len(), "{label}");
    }
}

#[test]
fn every_form_agrees_with_enumeration() {
    for (shape, seed) in shapes() {
        let model: Hypertree<f64> = generate::hypertree(&shape, seed).unwrap();
        check(&model, 1e-10, &format!("{shape:?} seed {seed}"));
        // Four words without zeros have too many trees for enumeration, except with two symbols.
        let few = shape.words < 4 || shape.zeros > 0.0 || shape.symbols.all == 2;
        if shape.strength == 1.0 && few {
            check(&with_unary(model, seed), 1e-10, &format!("unary {shape:?} seed {seed}"));
        }
        let model: Hypertree<f32> = generate::hypertree(&shape, seed).unwrap();
        check(&model, 2e-5, &format!("f32 {shape:?} seed {seed}"));
    }
}

#[test]
fn trees_are_counted() {
    let catalan = [1.0f64, 1.0, 2.0, 5.0, 14.0, 42.0, 132.0];
    for (words, count) in (1..).zip(catalan) {
        for symbols in [1, 3] {
            let model = Hypertree::new(
                Symbols::same(symbols),
                vec![0.0; words * symbols].into(),
                vec![words],
                Rules::Any,
            );
            let found = method().log_partition(&model.unwrap(), &Run::default()).unwrap();
            // Every node has one of the symbols.
            let expected = count.ln() + (2 * words - 1) as f64 * (symbols as f64).ln();
            assert!((found.value[0] - expected).abs() <= found.diagnostics.rounding, "{words} {symbols}");
        }
    }
}

/// The scores of a model as one list, and the model with other scores.
pub fn parameters(model: &Hypertree<f64>) -> Vec<f64> {
    let mut all = [model.words(), model.roots()].concat();
    match model.rules() {
        Rules::Dense(values) | Rules::Sparse { scores: values, .. } => all.extend_from_slice(values),
        Rules::LowRank { heads, left, right, .. } => all.extend([&heads[..], left, right].concat()),
        _ => {}
    }
    match model.spans() {
        Spans::PerSpan(values) | Spans::PerSymbol(values) => all.extend_from_slice(values),
        Spans::Factored { spans, symbols } => all.extend([&spans[..], symbols].concat()),
        _ => {}
    }
    all.extend(model.unary().map_or(&[][..], |unary| unary.scores()));
    all
}

pub fn with_parameters(model: &Hypertree<f64>, all: &[f64]) -> Hypertree<f64> {
    let mut rest = all;
    let mut take = |length: usize| -> Values<f64> {
        let (own, tail) = rest.split_at(length);
        rest = tail;
        own.to_vec().into()
    };
    let (words, roots) = (take(model.words().len()), take(model.roots().len()));
    let rules = match model.rules() {
        Rules::Dense(values) => Rules::Dense(take(values.len())),
        Rules::Sparse { rules, scores } => Rules::Sparse { rules: rules.clone(), scores: take(scores.len()) },
        Rules::LowRank { rank, heads, left, right } => Rules::LowRank {
            rank: *rank,
            heads: take(heads.len()),
            left: take(left.len()),
            right: take(right.len()),
        },
        other => other.clone(),
    };
    let spans = match model.spans() {
        Spans::PerSpan(values) => Spans::PerSpan(take(values.len())),
        Spans::PerSymbol(values) => Spans::PerSymbol(take(values.len())),
        Spans::Factored { spans, symbols } => {
            Spans::Factored { spans: take(spans.len()), symbols: take(symbols.len()) }
        }
        other => other.clone(),
    };
    let unary = model.unary().map(|unary| (unary.rules().to_vec(), take(unary.rules().len())));
    let (unary, scores) = unary.unwrap_or((Vec::new(), Vec::new().into()));
    Hypertree::new(model.symbols(), words, model.lengths().to_vec(), rules)
        .unwrap()
        .with_roots(roots)
        .unwrap()
        .with_spans(spans)
        .unwrap()
        .with_unary(unary, scores)
        .unwrap()
}

pub fn flat(gradient: HypertreeGradient<f64>) -> Vec<f64> {
    let mut all = [gradient.words, gradient.roots].concat();
    match gradient.rules {
        RuleGradient::None => {}
        RuleGradient::Scores(values) => all.extend(values),
        RuleGradient::LowRank { heads, left, right } => all.extend([heads, left, right].concat()),
    }
    match gradient.spans {
        SpanGradient::None => {}
        SpanGradient::Scores(values) => all.extend(values),
        SpanGradient::Factored { spans, symbols } => all.extend([spans, symbols].concat()),
    }
    all.extend(gradient.unary);
    all
}

#[test]
fn gradients_agree_with_finite_differences() {
    let run = Run::default();
    for (shape, seed) in shapes().into_iter().filter(|(shape, _)| shape.strength == 1.0 && shape.words > 1) {
        let mut p: Hypertree<f64> = generate::hypertree(&shape, seed).unwrap();
        let mut q: Hypertree<f64> = generate::hypertree(&shape, seed + 1000).unwrap();
        if seed % 3 == 0 {
            (p, q) = (with_unary(p, seed), with_unary(q, seed + 1));
        }
        if method().log_partition(&p, &run).is_err() || method().log_partition(&q, &run).is_err() {
            continue;
        }
        // q must not forbid what p allows.
        let open: Vec<f64> = parameters(&q).iter().map(|x| if x.is_finite() { *x } else { -3.0 }).collect();
        q = with_parameters(&p, &open);
        let weights: Vec<f64> = (0..p.batch()).map(|b| 0.5 + b as f64).collect();
        let total = |values: &[f64]| -> f64 {
            values.iter().zip(&weights).filter(|(x, _)| x.is_finite()).map(|(x, w)| x * w).sum()
        };
        for operation in Operation::ALL {
            let two = operation.models() == 2;
            let value = |p: &Hypertree<f64>, q: &Hypertree<f64>| {
                let models: Vec<&Hypertree<f64>> = if two { vec![p, q] } else { vec![p] };
                total(&method().differentiate(operation, &models, &run).unwrap().0)
            };
            let models: Vec<&Hypertree<f64>> = if two { vec![&p, &q] } else { vec![&p] };
            let (_, tape) = method().differentiate(operation, &models, &run).unwrap();
            let gradients = tape.vjp(&weights).unwrap();
            for (side, gradient) in gradients.into_iter().enumerate() {
                let model = if side == 0 { &p } else { &q };
                let (gradient, scores) = (flat(gradient), parameters(model));
                assert_eq!(gradient.len(), scores.len());
                let step = 1e-5;
                for at in (seed as usize % 3..scores.len()).step_by(3) {
                    if scores[at] == f64::NEG_INFINITY {
                        assert_eq!(gradient[at], 0.0);
                        continue;
                    }
                    let moved = |by: f64| {
                        let mut scores = scores.clone();
                        scores[at] += by;
                        let other = with_parameters(model, &scores);
                        if side == 0 { value(&other, &q) } else { value(&p, &other) }
                    };
                    let expected = (moved(step) - moved(-step)) / (2.0 * step);
                    assert!(
                        (gradient[at] - expected).abs() < 1e-6 * (1.0 + expected.abs()),
                        "{shape:?} seed {seed} {operation:?} side {side} at {at}: {} {expected}",
                        gradient[at]
                    );
                }
            }
        }
    }
}

#[test]
fn factor_marginals_are_the_gradient() {
    let run = Run::default();
    for (shape, seed) in shapes() {
        let model: Hypertree<f64> = generate::hypertree(&shape, seed).unwrap();
        let Ok(found) = method().factor_marginals(&model, &run) else { continue };
        let (_, tape) = method().differentiate(Operation::LogPartition, &[&model], &run).unwrap();
        let expected = flat(tape.vjp(&vec![1.0; model.batch()]).unwrap().remove(0));
        for (x, y) in flat(found.value).into_iter().zip(expected) {
            assert!((x - y).abs() < 1e-9, "{shape:?} seed {seed}: {x} {y}");
        }
    }
}

#[test]
fn divergences_agree_with_enumeration() {
    let run = Run::default();
    let mut infinite = 0;
    for (shape, seed) in shapes().into_iter().filter(|(shape, _)| shape.strength == 1.0) {
        let p: Hypertree<f64> = generate::hypertree(&shape, seed).unwrap();
        let q: Hypertree<f64> = generate::hypertree(&shape, seed + 7).unwrap();
        // The same listed rules and lengths.
        let q = with_parameters(&p, &parameters(&q));
        let (Ok(kl), Ok(cross)) = (method().kl(&p, &q, &run), method().cross_entropy(&p, &q, &run)) else {
            continue;
        };
        for b in 0..p.batch() {
            let own = Parses::new(&p, b);
            let log_q = Parses::new(&q, b).log_partition();
            let mut expected = [0.0, 0.0];
            for (tree, probability) in own.trees.iter().zip(own.probabilities()).filter(|(_, p)| *p > 0.0) {
                let other = q.score(b, tree) - log_q;
                let other = if log_q == f64::NEG_INFINITY { log_q } else { other };
                expected[0] += probability * (probability.ln() - other);
                expected[1] -= probability * other;
            }
            if own.trees.is_empty() {
                expected = [f64::NEG_INFINITY; 2];
            }
            infinite += usize::from(expected[0] == f64::INFINITY);
            for (found, expected) in [kl.value[b], cross.value[b]].into_iter().zip(expected) {
                let same = found == expected || (found - expected).abs() < 1e-9 * (1.0 + expected.abs());
                assert!(same, "{shape:?} seed {seed} sentence {b}: {found} {expected}");
            }
        }
    }
    assert!(infinite > 5, "{infinite}");
}

#[test]
fn samples_follow_the_distribution() {
    for (i, rules) in RULES.into_iter().enumerate() {
        let symbols = Symbols { all: 3, heads: 2, tags: 2 };
        let rules = if matches!(rules, RuleForm::Sparse(_)) { RuleForm::Sparse(9) } else { rules };
        let spans = [SpanForm::PerSymbol, SpanForm::None][i % 2];
        let shape = HypertreeShape { words: 3, symbols, rules, spans, ..Default::default() };
        let mut model: Hypertree<f64> = generate::hypertree(&shape, 5).unwrap();
        if i % 2 == 0 {
            model = with_unary(model, 3);
        }
        let parses = Parses::new(&model, 0);
        let drawn = method().sample(&model, 20_000, &Run::default()).unwrap().value.samples.remove(0);
        let mut counts = vec![0u64; parses.trees.len()];
        for tree in &drawn {
            let at = parses.trees.iter().position(|own| *own == tree.nodes).unwrap();
            assert!((tree.score - parses.scores[at]).abs() < 1e-12);
            counts[at] += 1;
        }
        let tail = multinomial_tail(&counts, &parses.probabilities());
        assert!(tail > 1e-6, "{rules:?}: {tail}");
    }
}

#[test]
fn unary_cycles_are_summed_in_closed_form() {
    // One word; A → A with weight w, A → word: Z = 1/(1 − w).
    for w in [0.1f64, 0.5, 0.999] {
        let model = Hypertree::new(Symbols::same(1), vec![0.0].into(), vec![1], Rules::Any).unwrap();
        let model = model.with_unary(vec![UnaryRule { head: 0, child: 0 }], vec![w.ln()].into()).unwrap();
        let log_z = method().log_partition(&model, &Run::default()).unwrap();
        assert!((log_z.value[0] + (1.0 - w).ln()).abs() < 1e-12);
        let nodes = method().marginals(&model, &Run::default()).unwrap().value.values[0];
        assert!((nodes - 1.0 / (1.0 - w)).abs() < 1e-9);
        let uses = method().factor_marginals(&model, &Run::default()).unwrap().value.unary[0];
        assert!((uses - w / (1.0 - w)).abs() < 1e-9);
        let ranked = method().k_best(&model, 4, &Run::default()).unwrap().value.remove(0);
        let lengths: Vec<usize> = ranked.iter().map(|tree| tree.nodes.len()).collect();
        assert_eq!(lengths, [1, 2, 3, 4]);
        assert_eq!(method().map(&model, &Run::default()).unwrap().value[0].nodes.len(), 1);
        // The length of the chain is geometric.
        let entropy = method().entropy(&model, &Run::default()).unwrap().value[0];
        let expected = -(1.0 - w).ln() - w * w.ln() / (1.0 - w);
        assert!((entropy - expected).abs() < 1e-8 * (1.0 + expected), "{entropy} {expected}");
        let drawn = method().sample(&model, 4000, &Run::default()).unwrap().value.samples.remove(0);
        let mean = drawn.iter().map(|tree| tree.nodes.len() as f64).sum::<f64>() / 4000.0;
        let deviation = w.sqrt() / (1.0 - w) / 4000f64.sqrt();
        assert!((mean - 1.0 / (1.0 - w)).abs() < 5.0 * deviation, "{mean}");
    }
}

#[test]
fn evidence_fixes_a_tag() {
    let shape = HypertreeShape { words: 3, symbols: Symbols::disjoint(2, 2), ..Default::default() };
    let model: Hypertree<f64> = generate::hypertree(&shape, 1).unwrap();
    let run = Run::default();
    let given = model.condition(&[Observed { sequence: 0, position: 1, state: 3 }]).unwrap();
    let marginal = method().marginals(&model, &run).unwrap().value;
    let [_, t, _, s] = marginal.shape;
    let expected = marginal.values[(t + 1) * s + 3];
    let log_z = |model| method().log_partition(model, &run).unwrap().value[0];
    assert!(((log_z(&given) - log_z(&model)).exp() - expected).abs() < 1e-12);
    let refused = |position, state| {
        model.condition(&[Observed { sequence: 0, position, state }]).unwrap_err().to_string()
    };
    assert!(refused(3, 3).contains("no word 3"));
    assert!(refused(0, 1).contains("such symbols are 2 to 3"));
}

#[test]
fn answers_do_not_depend_on_threads_and_follow_the_seed() {
    for rules in [RuleForm::Dense, RuleForm::Sparse(400), RuleForm::LowRank(8)] {
        let symbols = Symbols::disjoint(12, 20);
        let shape =
            HypertreeShape { words: 12, batch: 5, ragged: true, symbols, rules, ..Default::default() };
        let model: Hypertree<f32> = generate::hypertree(&shape, 3).unwrap();
        let of = |threads: usize| {
            let run = Run::default().with_threads(threads).with_seed(9);
            let gradient = method().factor_marginals(&model, &run).unwrap().value;
            let samples = method().sample(&model, 100, &run).unwrap().value;
            (method().log_partition(&model, &run).unwrap().value, gradient, samples)
        };
        assert_eq!(of(1), of(2));
    }
}

#[test]
fn bad_models_are_refused() {
    let words = || -> Values<f64> { vec![0.0; 4].into() };
    let new = |symbols, words, lengths, rules| {
        Hypertree::new(symbols, words, lengths, rules).unwrap_err().to_string()
    };
    assert!(
        new(Symbols { all: 5, heads: 2, tags: 2 }, words(), vec![2], Rules::Any).contains("do not make 5")
    );
    assert!(new(Symbols::same(2), words(), vec![], Rules::Any).contains("at least one sentence"));
    assert!(new(Symbols::same(2), words(), vec![3], Rules::Any).contains("has 3 words, expected 1 to 2"));
    assert!(new(Symbols::same(2), words(), vec![0], Rules::Any).contains("has 0 words"));
    assert!(new(Symbols::same(3), words(), vec![1], Rules::Any).contains("4 numbers are not B × T × P"));
    let nan: Values<f64> = vec![0.0, f64::NAN, 0.0, 0.0].into();
    assert!(new(Symbols::same(2), nan, vec![2], Rules::Any).contains("words: number 1 is NaN"));
    let dense = Rules::Dense(vec![0.0; 7].into());
    assert!(new(Symbols::same(2), words(), vec![2], dense).contains("rules: found 7 numbers"));
    let rule = Rule { head: 0, left: 2, right: 0 };
    let sparse = Rules::sparse(vec![rule], &[0.0]).unwrap();
    assert!(new(Symbols::same(2), words(), vec![2], sparse).contains("out of range"));
    assert!(Rules::sparse(vec![rule, rule], &[0.0; 2]).unwrap_err().to_string().contains("given twice"));
    let infinite = Rules::LowRank {
        rank: 1,
        heads: vec![0.0, f64::INFINITY].into(),
        left: vec![0.0; 2].into(),
        right: vec![0.0; 2].into(),
    };
    assert!(new(Symbols::same(2), words(), vec![2], infinite).contains("rule_heads: number 1 is inf"));
    let model = Hypertree::new(Symbols::same(2), words(), vec![2], Rules::Any).unwrap();
    assert!(model.clone().with_roots(vec![0.0; 3].into()).unwrap_err().to_string().contains("roots"));
    let spans = Spans::PerSpan(vec![0.0; 3].into());
    assert!(model.with_spans(spans).unwrap_err().to_string().contains("B × T × T = 4"));
}

#[test]
fn the_choice_of_the_best_tree_is_stated() {
    let run = Run::default();
    let (mut different, mut unfinished) = (0, 0);
    for seed in 0..40 {
        let symbols = Symbols { all: 3, heads: 2, tags: 2 };
        let (rules, spans) = (RuleForm::LowRank(4), SpanForm::PerSymbol);
        let shape = HypertreeShape { words: 4, symbols, rules, spans, strength: 1.5, ..Default::default() };
        let model: Hypertree<f64> = generate::hypertree(&shape, seed).unwrap();
        let parses = Parses::new(&model, 0);
        let top = parses.scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let best = method().map(&model, &run).unwrap();
        assert_eq!(best.guarantee, Guarantee::Exact);
        assert!((best.value[0].score - top).abs() < 1e-12);
        let derivation = method().tree(TreeChoice::Derivation).map(&model, &run).unwrap();
        assert!(matches!(derivation.guarantee, Guarantee::Heuristic { .. }));
        different += usize::from(derivation.value[0].nodes != best.value[0].nodes);
        // The best derivation has one r for every divided node.
        let expected = method().tree(TreeChoice::Expected).map(&model, &run).unwrap();
        let nodes = |tree: &[Constituent]| -> f64 {
            tree.iter().map(|node| parses.nodes(node.first, node.last, node.symbol)).sum()
        };
        let most = parses.trees.iter().map(|tree| nodes(tree)).fold(0.0, f64::max);
        assert!(nodes(&expected.value[0].nodes) >= most - 1e-9);
        let short = method().steps(1).map(&model, &run).unwrap();
        match short.guarantee {
            Guarantee::Bounds { low, high, confidence } => {
                unfinished += 1;
                assert!(low <= top && top <= high && confidence == 1.0);
            }
            other => assert_eq!(other, Guarantee::Exact),
        }
    }
    assert!(different > 0 && unfinished > 20, "{different} {unfinished}");
}
