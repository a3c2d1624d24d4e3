//! Trees over five and six words against enumeration: every query and form of rules, with few symbols.

use zhat::model::generate::{self, HypertreeShape, RuleForm, SpanForm};
use zhat::model::{Hypertree, Rules, Spans, Symbols};
use zhat::query::{Differentiable, Operation};
use zhat::{Divergence, Error, FactorMarginals, Run, Sample};

use crate::hypertree::{RULES, check, flat, method, parameters, with_parameters};
use crate::support::parses::{Parses, rule_score};
use crate::support::statistics::multinomial_tail;

/// The first seed from this one on with which the first sentence has a tree, if there is one soon.
fn possible(shape: &HypertreeShape, seed: u64) -> u64 {
    let has_tree = |seed: &u64| {
        let model: Hypertree<f64> = generate::hypertree(shape, *seed).unwrap();
        !Parses::new(&model, 0).trees.is_empty()
    };
    (seed..seed + 400).find(has_tree).unwrap_or(seed)
}

/// Batches whose first sentence has five or six words. Most have a tree; with many zeros there are more symbols.
fn shapes() -> Vec<(HypertreeShape, u64)> {
    let symbols = [Symbols::disjoint(2, 1), Symbols::disjoint(1, 2), Symbols { all: 2, heads: 2, tags: 1 }];
    let spans = [SpanForm::None, SpanForm::PerSpan, SpanForm::PerSymbol, SpanForm::Factored(2)];
    let mut all = Vec::new();
    let mut seed = 500;
    for rules in RULES {
        for (zeros, strength) in [(0.0, 1.0), (0.75, 1.0), (0.3, 1.0), (0.0, 1e4), (0.75, 1e4), (0.3, 1e4)] {
            for words in [5, 6] {
                seed += 1;
                let few = symbols[seed as usize % 3];
                let symbols = if zeros == 0.75 { Symbols::disjoint(3, 4) } else { few };
                let rules = match rules {
                    RuleForm::Sparse(_) => {
                        RuleForm::Sparse(symbols.heads * symbols.all * symbols.all / 2 + 1)
                    }
                    other => other,
                };
                let shape = HypertreeShape {
                    words,
                    batch: 2,
                    ragged: seed % 2 == 1,
                    symbols,
                    rules,
                    per_sentence: seed % 5 == 0 && !matches!(rules, RuleForm::Sparse(_)),
                    spans: spans[(seed / 2) as usize % 4],
                    strength,
                    zeros,
                };
                let own = if seed % 7 == 6 { 1000 * seed } else { possible(&shape, 1000 * seed) };
                all.push((shape, own));
            }
        }
    }
    all
}

#[test]
fn queries_agree_with_enumeration() {
    for (shape, seed) in shapes() {
        let model: Hypertree<f64> = generate::hypertree(&shape, seed).unwrap();
        check(&model, 1e-10, &format!("{shape:?} seed {seed}"));
        let model: Hypertree<f32> = generate::hypertree(&shape, seed).unwrap();
        check(&model, 2e-5, &format!("f32 {shape:?} seed {seed}"));
    }
}

/// The expected number of times that each score is used, times its factor for embeddings, in the order of
/// `flat`.
fn expected_gradient(model: &Hypertree<f64>) -> Vec<f64> {
    let Symbols { all, heads, tags } = model.symbols();
    let (t, sizes) = (model.positions(), [model.words().len(), model.roots().len()]);
    let mut gradient = vec![0.0; parameters(model).len()];
    for b in 0..model.batch() {
        let set = |length: usize, one: usize| if length > one { b * one } else { 0 };
        let own = Parses::new(model, b);
        for (tree, p) in own.trees.iter().zip(own.probabilities()) {
            gradient[sizes[0] + set(sizes[1], heads) + tree[0].symbol] += p;
            for (at, node) in tree.iter().enumerate() {
                let k = node.symbol;
                if node.first == node.last {
                    gradient[(b * t + node.first) * tags + k + tags - all] += p;
                    continue;
                }
                let left = tree[at + 1];
                let place = (left.last + 1, node.last);
                let right = tree[at + 2..].iter().find(|own| (own.first, own.last) == place).unwrap();
                let (a, c) = (left.symbol, right.symbol);
                let rules = sizes[0] + sizes[1];
                let count = match model.rules() {
                    Rules::Dense(values) => {
                        let entry = set(values.len(), heads * all * all) + (k * all + a) * all + c;
                        gradient[rules + entry] += p;
                        values.len()
                    }
                    Rules::Sparse { rules: list, .. } => {
                        let same = list.iter().position(|own| (own.head, own.left, own.right) == (k, a, c));
                        gradient[rules + same.unwrap()] += p;
                        list.len()
                    }
                    Rules::LowRank { rank, heads: u, left: v, right: w } => {
                        for r in 0..*rank {
                            let [x, y, z] = [
                                set(u.len(), heads * rank) + k * rank + r,
                                set(v.len(), all * rank) + a * rank + r,
                                set(w.len(), all * rank) + c * rank + r,
                            ];
                            let share = (u[x] + v[y] + w[z] - rule_score(model, b, k, a, c)).exp();
                            gradient[rules + x] += p * share;
                            gradient[rules + u.len() + y] += p * share;
                            gradient[rules + u.len() + v.len() + z] += p * share;
                        }
                        u.len() + v.len() + w.len()
                    }
                    _ => 0,
                };
                let (spans, cell) = (rules + count, (b * t + node.first) * t + node.last);
                match model.spans() {
                    Spans::PerSpan(_) => gradient[spans + cell] += p,
                    Spans::PerSymbol(_) => gradient[spans + cell * heads + k] += p,
                    Spans::Factored { spans: x, symbols: y } => {
                        let size = y.len() / heads;
                        for d in 0..size {
                            gradient[spans + cell * size + d] += p * y[k * size + d];
                            gradient[spans + x.len() + k * size + d] += p * x[cell * size + d];
                        }
                    }
                    _ => {}
                }
            }
        }
    }
    gradient
}

#[test]
fn gradients_agree_with_enumeration() {
    let (run, mut compared) = (Run::default(), 0);
    for (shape, seed) in shapes() {
        let model: Hypertree<f64> = generate::hypertree(&shape, seed).unwrap();
        let found = match method().factor_marginals(&model, &run) {
            Ok(found) => flat(found.value),
            Err(error) => {
                assert!(matches!(error, Error::NoTree(_)), "{error}");
                assert!((0..model.batch()).all(|b| Parses::new(&model, b).trees.is_empty()));
                continue;
            }
        };
        let (_, tape) = method().differentiate(Operation::LogPartition, &[&model], &run).unwrap();
        let taped = flat(tape.vjp(&vec![1.0; model.batch()]).unwrap().remove(0));
        let expected = expected_gradient(&model);
        assert_eq!(found.len(), expected.len());
        let scale = if matches!(shape.spans, SpanForm::Factored(_)) { 5.0 * shape.strength } else { 1.0 };
        let allowance = (1e-10 + 1e-13 * model.magnitude()) * scale;
        for (at, x) in expected.iter().enumerate() {
            let near = |y: f64| (x - y).abs() <= allowance;
            assert!(near(found[at]) && near(taped[at]), "{shape:?} seed {seed} at {at}: {x} {}", found[at]);
        }
        compared += 1;
    }
    assert!(compared > 50, "{compared}");
}

#[test]
fn divergences_agree_with_enumeration() {
    let (run, mut kinds) = (Run::default(), [0; 3]);
    for (shape, seed) in shapes() {
        let p: Hypertree<f64> = generate::hypertree(&shape, seed).unwrap();
        let other: Hypertree<f64> = generate::hypertree(&shape, seed + 1000).unwrap();
        // q forbids nothing that p allows in every second model.
        let scores = parameters(&other);
        let open = |(x, own): (&f64, &f64)| if seed % 2 == 0 && !x.is_finite() { own - 1.0 } else { *x };
        let q = with_parameters(&p, &scores.iter().zip(&parameters(&p)).map(open).collect::<Vec<f64>>());
        let (kl, cross) = (method().kl(&p, &q, &run), method().cross_entropy(&p, &q, &run));
        let parses: Vec<[Parses; 2]> =
            (0..p.batch()).map(|b| [Parses::new(&p, b), Parses::new(&q, b)]).collect();
        if parses.iter().all(|[own, _]| own.trees.is_empty()) {
            assert!(matches!((kl, cross), (Err(Error::NoTree(_)), Err(Error::NoTree(_)))));
            kinds[0] += 1;
            continue;
        }
        let found = [kl.unwrap().value, cross.unwrap().value];
        for (b, [own, of_q]) in parses.iter().enumerate() {
            let log_q = of_q.log_partition();
            let mut expected = [0.0, 0.0];
            if own.trees.is_empty() {
                expected = [f64::NEG_INFINITY; 2];
            }
            for (tree, probability) in own.trees.iter().zip(own.probabilities()) {
                let log = if log_q == f64::NEG_INFINITY { log_q } else { q.score(b, tree) - log_q };
                // A tree that q forbids counts even if its probability underflows.
                if probability > 0.0 || log == f64::NEG_INFINITY {
                    let own = if probability > 0.0 { probability.ln() } else { 0.0 };
                    let weight = if log == f64::NEG_INFINITY { 1.0 } else { probability };
                    expected[0] += weight * (own - log);
                    expected[1] -= weight * log;
                }
            }
            kinds[if expected[0].is_finite() { 1 } else { 2 }] += 1;
            for (values, expected) in found.iter().zip(expected) {
                let allowance = 1e-9 * (1.0 + expected.abs()) + 1e-12 * (p.magnitude() + q.magnitude());
                let same = values[b] == expected || (values[b] - expected).abs() < allowance;
                assert!(same, "{shape:?} seed {seed} sentence {b}: {} {expected}", values[b]);
            }
        }
    }
    assert!(kinds.iter().all(|count| *count > 0), "{kinds:?}");
}

#[test]
fn samples_follow_the_distribution() {
    for (i, rules) in RULES.into_iter().enumerate() {
        for (words, zeros, symbols) in [
            (5, 0.0, Symbols::disjoint(2, 1)),
            (6, 0.3, Symbols::same(1)),
            (5, 0.75, Symbols::disjoint(3, 4)),
        ] {
            let rules = if matches!(rules, RuleForm::Sparse(_)) {
                RuleForm::Sparse(symbols.heads * symbols.all * symbols.all)
            } else {
                rules
            };
            // With 75% zeros in rules and spans, hardly any model has several trees.
            let spans = if zeros == 0.75 && rules != RuleForm::Any {
                SpanForm::None
            } else {
                [SpanForm::PerSymbol, SpanForm::PerSpan][i % 2]
            };
            let shape = HypertreeShape { words, symbols, rules, spans, zeros, ..Default::default() };
            let drawable = |seed: &u64| {
                let model: Hypertree<f64> = generate::hypertree(&shape, *seed).unwrap();
                Parses::new(&model, 0).trees.len() > 3
            };
            let seed = (7..2000).find(drawable).unwrap();
            let model: Hypertree<f64> = generate::hypertree(&shape, seed).unwrap();
            let parses = Parses::new(&model, 0);
            let drawn = method().sample(&model, 10_000, &Run::default()).unwrap().value.samples.remove(0);
            let mut counts = vec![0u64; parses.trees.len()];
            for tree in &drawn {
                let at = parses.trees.iter().position(|own| *own == tree.nodes).unwrap();
                counts[at] += 1;
            }
            let tail = multinomial_tail(&counts, &parses.probabilities());
            assert!(tail > 1e-8, "{rules:?} {words}: {tail}");
        }
    }
}
