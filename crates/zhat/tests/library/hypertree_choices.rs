//! The trees of best derivations and of most expected nodes, and longer sentences with unary rules, against
//! enumeration.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use zhat::dynamic::{InsideOutside, TreeChoice};
use zhat::model::generate::{self, HypertreeShape, RuleForm, SpanForm};
use zhat::model::{Hypertree, Rules, Symbols};
use zhat::query::{Constituent, Differentiable, Operation};
use zhat::{Error, Expectation, Forecasts, Guarantee, Map, Observer, Query, Run};

use crate::hypertree::{RULES, check, method, parameters, with_parameters, with_unary};
use crate::support::parses::{Parses, rule_score};

/// Batches of two sentences with every form of rules and spans, with and without zeros and unary rules.
fn models() -> Vec<(String, Hypertree<f64>)> {
    let spans = [SpanForm::None, SpanForm::PerSpan, SpanForm::PerSymbol, SpanForm::Factored(2)];
    let mut all = Vec::new();
    for (i, rules) in RULES.into_iter().enumerate() {
        for (j, (words, zeros)) in [(3, 0.0), (4, 0.3), (3, 0.6), (4, 0.0)].into_iter().enumerate() {
            let symbols = if zeros == 0.0 && words == 4 {
                Symbols { all: 2, heads: 2, tags: 1 }
            } else {
                Symbols { all: 3, heads: 2, tags: 2 }
            };
            let rules = if matches!(rules, RuleForm::Sparse(_)) {
                RuleForm::Sparse(symbols.heads * symbols.all * symbols.all - 2)
            } else {
                rules
            };
            for unary in [false, true] {
                let shape = HypertreeShape {
                    words,
                    batch: 2,
                    ragged: j == 1,
                    symbols,
                    rules,
                    per_sentence: j == 2 && !matches!(rules, RuleForm::Sparse(_)),
                    spans: spans[(i + j) % 4],
                    strength: 1.5,
                    zeros,
                };
                let seed = (10 * i + j) as u64;
                let model: Hypertree<f64> = generate::hypertree(&shape, seed).unwrap();
                let model = if unary { with_unary(model, seed) } else { model };
                all.push((format!("{shape:?} seed {seed} unary {unary}"), model));
            }
        }
    }
    all
}

/// log max_r exp(u_kr + v_ar + w_br), from the arrays.
fn largest_term(model: &Hypertree<f64>, b: usize, k: usize, a: usize, c: usize) -> f64 {
    let Rules::LowRank { rank, heads, left, right } = model.rules() else {
        return rule_score(model, b, k, a, c);
    };
    let Symbols { all, heads: n, .. } = model.symbols();
    let set = |length: usize, one: usize| if length > one { b * one } else { 0 };
    let term = |r: usize| {
        heads[set(heads.len(), n * rank) + k * rank + r]
            + left[set(left.len(), all * rank) + a * rank + r]
            + right[set(right.len(), all * rank) + c * rank + r]
    };
    (0..*rank).map(term).fold(f64::NEG_INFINITY, f64::max)
}

/// The score of the best derivation of a tree, whose score is known: every rule has its largest term only.
fn derivation(model: &Hypertree<f64>, b: usize, tree: &[Constituent], score: f64) -> f64 {
    let mut total = score;
    for (at, node) in tree.iter().enumerate().filter(|(_, node)| node.first < node.last) {
        let left = tree[at + 1];
        if (left.first, left.last) == (node.first, node.last) {
            continue;
        }
        let place = (left.last + 1, node.last);
        let right = tree[at + 2..].iter().find(|own| (own.first, own.last) == place).unwrap();
        let (k, a, c) = (node.symbol, left.symbol, right.symbol);
        total += largest_term(model, b, k, a, c) - rule_score(model, b, k, a, c);
    }
    total
}

#[test]
fn the_best_derivation_agrees_with_enumeration() {
    let run = Run::default();
    let (mut compared, mut of_rank) = (0, 0);
    for (name, model) in models() {
        let Ok(found) = method().tree(TreeChoice::Derivation).map(&model, &run) else { continue };
        let hidden = model.rules().rank().is_some_and(|rank| rank > 1);
        for (b, tree) in found.value.iter().enumerate() {
            let parses = Parses::new(&model, b);
            if parses.trees.is_empty() {
                assert!(tree.nodes.is_empty() && tree.score == f64::NEG_INFINITY, "{name}");
                continue;
            }
            let listed = parses.trees.iter().zip(&parses.scores);
            let derivations: Vec<f64> =
                listed.map(|(tree, &score)| derivation(&model, b, tree, score)).collect();
            let top = derivations.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let at = parses.trees.iter().position(|own| *own == tree.nodes).unwrap();
            assert!((derivations[at] - top).abs() < 1e-10, "{name} sentence {b}: {} {top}", derivations[at]);
            assert!((tree.score - parses.scores[at]).abs() < 1e-10, "{name} sentence {b}");
            of_rank += usize::from(hidden);
            match found.guarantee.item(b) {
                Guarantee::Exact => assert!(!hidden, "{name}"),
                other => assert!(hidden && matches!(other, Guarantee::Heuristic { .. }), "{name}"),
            }
            compared += 1;
        }
    }
    assert!(compared > 50 && of_rank > 15, "{compared} {of_rank}");
}

/// Every way to divide words i … j into two, and the parts again: the spans of each.
fn divisions(i: usize, j: usize) -> Vec<Vec<(usize, usize)>> {
    if i == j {
        return vec![vec![(i, j)]];
    }
    let mut all = Vec::new();
    for middle in i..j {
        for left in divisions(i, middle) {
            for right in divisions(middle + 1, j) {
                all.push([vec![(i, j)], left.clone(), right].concat());
            }
        }
    }
    all
}

#[test]
fn the_tree_of_most_expected_nodes_agrees_with_enumeration() {
    let (run, mut compared) = (Run::default(), 0);
    for (name, model) in models() {
        let Ok(found) = method().tree(TreeChoice::Expected).map(&model, &run) else { continue };
        for (b, tree) in found.value.iter().enumerate() {
            let parses = Parses::new(&model, b);
            if parses.trees.is_empty() {
                assert!(tree.nodes.is_empty() && tree.score == f64::NEG_INFINITY, "{name}");
                continue;
            }
            let counts = parses.node_counts();
            let count = |first: usize, last: usize, symbol: usize| {
                counts.get(&Constituent { first, last, symbol }).copied().unwrap_or(0.0)
            };
            let most = |&(i, j): &(usize, usize)| {
                (0..model.symbols().all).map(|k| count(i, j, k)).fold(0.0, f64::max)
            };
            let ways = divisions(0, model.lengths()[b] - 1);
            let best = ways.iter().map(|spans| spans.iter().map(most).sum::<f64>()).fold(0.0, f64::max);
            let spans: Vec<(usize, usize)> = tree.nodes.iter().map(|node| (node.first, node.last)).collect();
            assert!(ways.contains(&spans), "{name} sentence {b}: {spans:?}");
            let own: f64 = tree.nodes.iter().map(|node| count(node.first, node.last, node.symbol)).sum();
            assert!((own - best).abs() < 1e-9, "{name} sentence {b}: {own} {best}");
            assert!(matches!(found.guarantee.item(b), Guarantee::Heuristic { .. }), "{name}");
            assert_eq!(tree.score, model.score(b, &tree.nodes), "{name}");
            compared += 1;
        }
    }
    assert!(compared > 50, "{compared}");
}

/// Five words with every form of rules.
fn longer() -> Vec<(HypertreeShape, u64)> {
    let spans = [SpanForm::PerSymbol, SpanForm::None, SpanForm::Factored(2), SpanForm::PerSpan];
    let mut all = Vec::new();
    for (i, rules) in RULES.into_iter().enumerate() {
        for (zeros, symbols) in [
            (0.0, Symbols { all: 2, heads: 2, tags: 1 }),
            (0.3, Symbols { all: 2, heads: 2, tags: 1 }),
            (0.6, Symbols::disjoint(2, 1)),
        ] {
            let rules = if matches!(rules, RuleForm::Sparse(_)) {
                RuleForm::Sparse(symbols.heads * symbols.all * symbols.all - 1)
            } else {
                rules
            };
            let seed = 7000 + all.len() as u64;
            let shape = HypertreeShape {
                words: 5,
                batch: 2,
                ragged: i % 2 == 1,
                symbols,
                rules,
                spans: spans[(i + all.len()) % 4],
                zeros,
                ..Default::default()
            };
            all.push((shape, seed));
        }
    }
    all
}

#[test]
fn five_words_with_unary_rules_agree_with_enumeration() {
    for (shape, seed) in longer() {
        let model: Hypertree<f64> = generate::hypertree(&shape, seed).unwrap();
        check(&with_unary(model, seed), 1e-10, &format!("{shape:?} seed {seed}"));
    }
}

#[test]
fn expectations_over_five_words_agree_with_enumeration() {
    let (run, mut compared) = (Run::default(), 0);
    for (shape, seed) in longer() {
        for unary in [false, true] {
            let model: Hypertree<f64> = generate::hypertree(&shape, seed).unwrap();
            let other: Hypertree<f64> = generate::hypertree(&shape, seed + 500).unwrap();
            let (model, other) = match unary {
                true => (with_unary(model, seed), with_unary(other, seed + 1)),
                false => (model, other),
            };
            // The same listed rules and lengths. In every second model no score is −∞.
            let open = |x: &f64| if seed % 2 == 0 && !x.is_finite() { -2.0 } else { *x };
            let scores = with_parameters(&model, &parameters(&other).iter().map(open).collect::<Vec<f64>>());
            let Ok(found) = method().expectation(&model, &scores, &run) else { continue };
            let (taped, _) =
                method().differentiate(Operation::Expectation, &[&model, &scores], &run).unwrap();
            for (b, &taped) in taped.iter().enumerate() {
                let parses = Parses::new(&model, b);
                let each = parses.trees.iter().zip(parses.probabilities());
                let forbidden = parses.trees.iter().any(|tree| scores.score(b, tree) == f64::NEG_INFINITY);
                let expected = match forbidden || parses.trees.is_empty() {
                    true => f64::NEG_INFINITY,
                    false => each.map(|(tree, p)| p * scores.score(b, tree)).sum::<f64>(),
                };
                for value in [found.value[b], taped] {
                    let same = value == expected || (value - expected).abs() < 1e-9 * (1.0 + expected.abs());
                    assert!(same, "{shape:?} seed {seed} unary {unary} sentence {b}: {value} {expected}");
                }
                compared += usize::from(expected.is_finite());
            }
        }
    }
    assert!(compared > 20, "{compared}");
}

/// Cancels the run when the search of a sentence begins.
struct Cancel {
    flag: Arc<AtomicBool>,
    after: u64,
}

impl Observer for Cancel {
    fn progress(&self, phase: &'static str, done: u64, _: u64) {
        if phase == "search" && done >= self.after {
            self.flag.store(true, Ordering::Relaxed);
        }
    }
}

/// A run on one thread that has to stop when the searches of `after` sentences have begun.
fn stopping(after: u64) -> Run {
    let flag = Arc::<AtomicBool>::default();
    let observer = Cancel { flag: flag.clone(), after };
    Run::default().with_threads(1).with_cancel(flag).with_observer(Arc::new(observer))
}

#[test]
fn a_search_that_is_stopped_leaves_the_best_derivation_with_bounds() {
    let hour = Duration::from_secs(3600);
    let (mut open, mut proven) = (0, 0);
    for seed in 0..20 {
        let shape = HypertreeShape {
            words: 4,
            batch: 3,
            symbols: Symbols { all: 3, heads: 2, tags: 2 },
            rules: RuleForm::LowRank(4),
            spans: SpanForm::PerSymbol,
            strength: 1.5,
            ..Default::default()
        };
        let model: Hypertree<f64> = generate::hypertree(&shape, seed).unwrap();
        for after in 0..3 {
            let found = method().map(&model, &stopping(after).with_time(hour)).unwrap();
            assert!(found.diagnostics.stopped_early);
            let derivations =
                method().tree(TreeChoice::Derivation).map(&model, &Run::default()).unwrap().value;
            for (b, tree) in found.value.iter().enumerate() {
                let scores = Parses::new(&model, b).scores;
                let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                match *found.guarantee.item(b) {
                    Guarantee::Bounds { low, high, confidence } => {
                        open += 1;
                        assert!(low <= top && top <= high && high < top + 10.0 && confidence == 1.0);
                        assert_eq!(*tree, derivations[b]);
                    }
                    ref other => {
                        proven += 1;
                        assert_eq!(*other, Guarantee::Exact);
                        assert!((tree.score - top).abs() < 1e-12);
                    }
                }
            }
            // Without a time budget there is no tree yet.
            let cancelled = method().map(&model, &stopping(after));
            assert!(matches!(cancelled, Err(Error::Interrupted)), "{cancelled:?}");
        }
    }
    assert!(open >= 60 && proven >= 20, "{open} {proven}");
}

#[test]
fn the_diagnostics_name_the_tree() {
    let shape = HypertreeShape {
        words: 4,
        batch: 2,
        symbols: Symbols { all: 3, heads: 2, tags: 2 },
        rules: RuleForm::LowRank(4),
        strength: 1.5,
        ..Default::default()
    };
    let model: Hypertree<f64> = generate::hypertree(&shape, 1).unwrap();
    let which = |method: InsideOutside, run: &Run| -> String {
        let found = method.map(&model, run).unwrap();
        let tree = found.diagnostics.figures().find(|(name, _)| *name == "tree").unwrap().1;
        tree.as_str().unwrap().to_owned()
    };
    let (run, hour) = (Run::default(), Duration::from_secs(3600));
    assert_eq!(which(method(), &run), "best, proven");
    assert_eq!(which(method().steps(1), &run), "best derivation, with bounds on the best score");
    assert!(which(method(), &stopping(1).with_time(hour)).starts_with("best, proven for 1 of 2 sentences; "));
    assert_eq!(which(method().tree(TreeChoice::Derivation), &run), "best derivation");
    let expected = which(method().tree(TreeChoice::Expected), &run);
    assert_eq!(expected, "largest expected number of correct nodes");
}

#[test]
fn forecasts_have_the_time_of_the_search() {
    let shape = HypertreeShape {
        words: 30,
        symbols: Symbols { all: 90, heads: 30, tags: 60 },
        rules: RuleForm::LowRank(16),
        ..Default::default()
    };
    let model: Hypertree<f64> = generate::hypertree(&shape, 1).unwrap();
    let run = Run::default().with_threads(1);
    let seconds = |method: InsideOutside, run: &Run| method.forecast(&model, Query::Map, run).seconds;
    let derivation = seconds(method().tree(TreeChoice::Derivation), &run);
    let [few, many, most] = [1, 1000, 1_000_000_000].map(|steps| seconds(method().steps(steps), &run));
    assert!(derivation < few && few < many && many < most, "{derivation} {few} {many} {most}");
    // Candidates are limited: 2¹⁹ sums of 16 terms.
    assert!(most < few + 1.0, "{few} {most}");
    // A search ends with the time budget.
    let short = run.with_time(Duration::from_millis(10));
    assert!(seconds(method(), &short) <= derivation + 0.01);
}
