//! Relaxed trees: expected numbers of nodes under scores with Gumbel noise.

use zhat::dynamic::{InsideOutside, RandomizedInside, SpanProposal, States};
use zhat::model::generate::{self, HypertreeShape, RuleForm, SpanForm};
use zhat::model::{Hypertree, Rules, Spans, Symbols, Values};
use zhat::query::Constituent;
use zhat::random::Streams;
use zhat::{Error, Run};

use crate::hypertree::{RULES, flat, method, parameters, with_parameters, with_unary};
use crate::support::parses::Parses;
use crate::support::statistics::{ALARM, multinomial_tail};

/// The model whose scores have the noise of a sample of sentence b, at a temperature.
fn noisy(
    model: &Hypertree<f64>,
    purpose: &str,
    seed: u64,
    b: usize,
    s: usize,
    temperature: f64,
) -> Hypertree<f64> {
    let (t, Symbols { heads, tags, .. }) = (model.positions(), model.symbols());
    let mut random = Streams::new(seed, purpose).block(((b as u64) << 32) | s as u64);
    let (mut words, mut spans) = (model.words().to_vec(), vec![0.0; model.batch() * t * t * heads]);
    for i in 0..model.lengths()[b] {
        for k in 0..tags {
            words[(b * t + i) * tags + k] += random.gumbel();
        }
        for j in i + 1..model.lengths()[b] {
            for k in 0..heads {
                spans[((b * t + i) * t + j) * heads + k] = model.span(b, i, j, k) + random.gumbel();
            }
        }
    }
    let cool = |values: &[f64]| -> Values<f64> {
        values.iter().map(|x| x / temperature).collect::<Vec<f64>>().into()
    };
    let rules = match model.rules() {
        Rules::Any => Rules::Any,
        Rules::Dense(values) => Rules::Dense(cool(values)),
        Rules::Sparse { rules, scores } => Rules::Sparse { rules: rules.clone(), scores: cool(scores) },
        Rules::LowRank { rank, heads, left, right } => {
            Rules::LowRank { rank: *rank, heads: cool(heads), left: cool(left), right: cool(right) }
        }
    };
    let built = Hypertree::new(model.symbols(), cool(&words), model.lengths().to_vec(), rules)
        .and_then(|built| built.with_roots(cool(model.roots())))
        .and_then(|built| built.with_spans(Spans::PerSymbol(cool(&spans))))
        .unwrap();
    match model.unary() {
        None => built,
        Some(unary) => built.with_unary(unary.rules().to_vec(), cool(unary.scores())).unwrap(),
    }
}

/// Small batches with every form of rules and spans.
fn models() -> Vec<(String, Hypertree<f64>)> {
    let mut all = Vec::new();
    let spans = [SpanForm::None, SpanForm::PerSpan, SpanForm::PerSymbol, SpanForm::Factored(2)];
    for (i, rules) in RULES.into_iter().enumerate() {
        for (j, spans) in spans.into_iter().enumerate() {
            let symbols = [Symbols::disjoint(2, 2), Symbols::same(2), Symbols { all: 3, heads: 2, tags: 2 }];
            let symbols = symbols[(i + j) % 3];
            let rules = match rules {
                RuleForm::Sparse(_) => RuleForm::Sparse(symbols.heads * symbols.all * symbols.all / 2 + 1),
                other => other,
            };
            let per_sentence = j == 1 && !matches!(rules, RuleForm::Sparse(_));
            let zeros = if (i + j) % 2 == 0 { 0.0 } else { 0.2 };
            let shape = HypertreeShape {
                // The enumeration has at most four unary steps one below the other.
                words: if j == 3 { 3 } else { 4 - (i + j) % 2 },
                batch: 2,
                ragged: true,
                symbols,
                rules,
                per_sentence,
                spans,
                zeros,
                ..Default::default()
            };
            let seed = (10 * i + j) as u64;
            let mut model = generate::hypertree(&shape, seed).unwrap();
            if j == 3 {
                model = with_unary(model, seed);
            }
            all.push((format!("{shape:?} seed {seed}"), model));
        }
    }
    all
}

/// The symbol that is divided or covers the word, of each part of a tree.
fn below_unary(nodes: &[Constituent]) -> Vec<Constituent> {
    let last = |(at, node): (usize, &Constituent)| {
        let next = nodes.get(at + 1);
        next.is_none_or(|next| (next.first, next.last) != (node.first, node.last)).then_some(*node)
    };
    nodes.iter().enumerate().filter_map(last).collect()
}

/// The expected number of a node below unary rules.
fn expected(parses: &Parses, node: Constituent) -> f64 {
    let has = |tree: &Vec<Constituent>| below_unary(tree).contains(&node);
    parses.trees.iter().zip(parses.probabilities()).filter(|(tree, _)| has(tree)).map(|(_, p)| p).sum()
}

#[test]
fn values_are_expected_numbers_under_noisy_scores() {
    let (run, count) = (Run::default().with_seed(5), 2);
    let (mut compared, mut without) = (0, 0);
    for (label, model) in models() {
        for temperature in [0.3, 1.0, 2.5] {
            let relaxed = method().relaxed_samples_with_tape(&model, count, temperature, &run);
            if (0..model.batch()).all(|b| Parses::new(&model, b).trees.is_empty()) {
                assert!(matches!(relaxed.err(), Some(Error::ZeroPartition)), "{label}");
                continue;
            }
            let (found, _) = relaxed.unwrap();
            let [_, _, t, _, all] = found.shape;
            for b in 0..model.batch() {
                for s in 0..count {
                    let parses = Parses::new(&noisy(&model, "relaxed trees", 5, b, s, temperature), b);
                    let value = |i: usize, j: usize, k: usize| {
                        found.values[(((b * count + s) * t + i) * t + j) * all + k]
                    };
                    if parses.trees.is_empty() {
                        without += 1;
                        assert!(found.hard[b].is_empty());
                        assert!((0..t * t * all).all(|at| value(0, 0, at) == 0.0), "{label}");
                        continue;
                    }
                    compared += 1;
                    for (i, j, k) in (0..t * t * all).map(|at| (at / all / t, at / all % t, at % all)) {
                        let expected = expected(&parses, Constituent { first: i, last: j, symbol: k });
                        assert!((value(i, j, k) - expected).abs() < 1e-10, "{label} ({i}, {j}, {k})");
                    }
                    let hard = &found.hard[b][s];
                    assert_eq!(model.score(b, &hard.nodes), hard.score, "{label}");
                    if model.rules().rank().is_none_or(|rank| rank == 1) {
                        let best = parses.scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                        let at = parses.trees.iter().position(|tree| *tree == hard.nodes).unwrap();
                        assert!((parses.scores[at] - best).abs() < 1e-9, "{label}");
                    }
                }
            }
        }
    }
    assert!(compared > 100 && without > 0, "{compared} {without}");
}

#[test]
fn cold_values_are_the_best_tree_of_noisy_scores() {
    let (run, mut seen) = (Run::default().with_seed(9), 0);
    // Scores of thousands: weights and their derivatives leave the range of a double.
    let colder = models().into_iter().map(|(label, model)| (label, model, 1e-3));
    for (label, model, temperature) in models().into_iter().map(|(l, m)| (l, m, 1e-2)).chain(colder) {
        // With more than one term per rule, this is the tree of the best derivation.
        let drawn = method().relaxed_samples_with_tape(&model, 4, temperature, &run);
        let Ok((found, tape)) = drawn else { continue };
        let [_, count, t, _, all] = found.shape;
        for (b, hard) in found.hard.iter().enumerate() {
            for (s, tree) in hard.iter().enumerate() {
                let parses = Parses::new(&noisy(&model, "relaxed trees", 9, b, s, 1.0), b);
                let mut scores = parses.scores.clone();
                scores.sort_by(|a, b| b.total_cmp(a));
                let derivations = model.rules().rank().is_some_and(|rank| rank > 1);
                // The second best has less than e⁻³⁰ of the weight.
                if derivations || (scores.len() > 1 && scores[0] - scores[1] < 30.0 * temperature) {
                    continue;
                }
                seen += 1;
                let best = parses.scores.iter().position(|score| *score == scores[0]).unwrap();
                assert_eq!(tree.nodes, parses.trees[best], "{label}");
                let nodes = below_unary(&tree.nodes);
                for (i, j, k) in (0..t * t * all).map(|at| (at / all / t, at / all % t, at % all)) {
                    let value = found.values[(((b * count + s) * t + i) * t + j) * all + k];
                    let hard = nodes.contains(&Constituent { first: i, last: j, symbol: k });
                    assert!(
                        (value - f64::from(u8::from(hard))).abs() < 1e-6,
                        "{label} ({i}, {j}, {k}) {value}"
                    );
                }
            }
        }
        let ones = vec![1.0; found.values.len()];
        assert!(flat(tape.vjp(&ones).unwrap()).iter().all(|x| x.is_finite()), "{label}");
    }
    assert!(seen > 30, "{seen}");
}

fn check_gradient(
    label: &str,
    model: &Hypertree<f64>,
    gradient: &[f64],
    step: usize,
    value: impl Fn(&Hypertree<f64>) -> f64,
) {
    let scores = parameters(model);
    assert_eq!(gradient.len(), scores.len(), "{label}");
    for at in (0..scores.len()).step_by(step) {
        if scores[at] == f64::NEG_INFINITY {
            assert_eq!(gradient[at], 0.0, "{label}");
            continue;
        }
        let moved = |by: f64| {
            let mut scores = scores.clone();
            scores[at] += by;
            value(&with_parameters(model, &scores))
        };
        let expected = (moved(1e-5) - moved(-1e-5)) / 2e-5;
        let found = gradient[at];
        assert!((found - expected).abs() < 1e-6 * (1.0 + expected.abs()), "{label} {at}: {found} {expected}");
    }
}

fn wave(at: usize) -> f64 {
    (1.7 * at as f64 + 0.3).sin()
}

#[test]
fn gradients_agree_with_finite_differences() {
    let run = Run::default().with_seed(3);
    for (label, model) in models() {
        let relax = |model: &Hypertree<f64>| method().relaxed_samples_with_tape(model, 2, 0.6, &run);
        let Ok((found, tape)) = relax(&model) else { continue };
        let cotangent: Vec<f64> = (0..found.values.len()).map(wave).collect();
        let gradient = flat(tape.vjp(&cotangent).unwrap());
        check_gradient(&label, &model, &gradient, 2, |model| {
            relax(model).unwrap().0.values.iter().zip(&cotangent).map(|(x, y)| x * y).sum()
        });
    }
}

#[test]
fn gradients_of_chosen_symbols_agree_with_finite_differences() {
    let run = Run::default().with_seed(3);
    for (i, rules) in
        [RuleForm::LowRank(2), RuleForm::Dense, RuleForm::Sparse(60), RuleForm::Any].into_iter().enumerate()
    {
        let symbols = Symbols { all: 5, heads: 4, tags: 4 };
        let spans = [SpanForm::Factored(2), SpanForm::PerSpan, SpanForm::PerSymbol, SpanForm::None][i];
        let shape =
            HypertreeShape { words: 4, batch: 2, ragged: true, symbols, rules, spans, ..Default::default() };
        let mut model: Hypertree<f64> = generate::hypertree(&shape, 8).unwrap();
        if i < 2 {
            model = with_unary(model, 2);
        }
        // The proposal must not move with the scores.
        let randomized = RandomizedInside::default()
            .states(States::Count(2))
            .proposal(SpanProposal::Uniform)
            .replicates(2);
        let relax =
            |model: &Hypertree<f64>| randomized.relaxed_samples_with_tape(model, 3, 0.6, &run).unwrap();
        let (found, tape) = relax(&model);
        let cotangent: Vec<Vec<Vec<f64>>> = found
            .samples
            .iter()
            .map(|own| own.iter().map(|tree| (0..tree.values.len()).map(wave).collect()).collect())
            .collect();
        for (b, own) in found.samples.iter().enumerate() {
            assert_eq!((own.len(), found.log_weights[b].len()), (3, 3));
            for tree in own {
                // Every node of the tree below unary rules is one of the chosen.
                assert!(below_unary(&tree.hard.nodes).iter().all(|node| tree.nodes.contains(node)));
                let total: f64 = tree.values.iter().sum();
                assert!((total - (2 * model.lengths()[b] - 1) as f64).abs() < 1e-9);
            }
        }
        let gradient = flat(tape.vjp(&cotangent).unwrap());
        check_gradient(&format!("{shape:?}"), &model, &gradient, 2, |model| {
            let pairs = relax(model).0.samples.into_iter().flatten().zip(cotangent.iter().flatten());
            pairs.map(|(tree, own)| tree.values.iter().zip(own).map(|(x, y)| x * y).sum::<f64>()).sum()
        });
        let short = vec![vec![vec![1.0]; 3]; 2];
        assert!(tape.vjp(&short).unwrap_err().to_string().contains("every value of every sample"));
    }
}

#[test]
fn all_symbols_give_the_relaxed_trees_of_the_model() {
    let run = Run::default().with_seed(5);
    for (label, model) in models() {
        if parameters(&model).contains(&f64::NEG_INFINITY) {
            continue;
        }
        let randomized = RandomizedInside::default().replicates(2);
        let (found, _) = randomized.relaxed_samples_with_tape(&model, 3, 0.5, &run).unwrap();
        for (b, own) in found.samples.iter().enumerate() {
            for (s, tree) in own.iter().enumerate() {
                let parses = Parses::new(&noisy(&model, "randomized relaxed trees", 5, b, s, 0.5), b);
                for (&node, value) in tree.nodes.iter().zip(&tree.values) {
                    assert!((value - expected(&parses, node)).abs() < 1e-10, "{label} {node:?}");
                }
            }
        }
    }
}

/// For one word, the best tag of noisy scores is an exact sample.
#[test]
fn single_words_are_drawn_from_their_distribution() {
    let scores = [0.5, -0.4, 1.3, f64::NEG_INFINITY];
    let model = Hypertree::new(Symbols::same(4), scores.to_vec().into(), vec![1], Rules::Any).unwrap();
    let (found, _) = method().relaxed_samples_with_tape(&model, 3000, 0.7, &Run::default()).unwrap();
    let mut counts = [0u64; 4];
    found.hard[0].iter().for_each(|tree| counts[tree.nodes[0].symbol] += 1);
    let total: f64 = scores.iter().map(|x| x.exp()).sum();
    let probabilities: Vec<f64> = scores.iter().map(|x| x.exp() / total).collect();
    assert!(multinomial_tail(&counts, &probabilities) > ALARM, "{counts:?}");
}

#[test]
fn single_precision_threads_and_bad_arguments() {
    let shape =
        HypertreeShape { words: 6, batch: 3, ragged: true, spans: SpanForm::PerSymbol, ..Default::default() };
    let (single, double): (Hypertree<f32>, Hypertree<f64>) =
        (generate::hypertree(&shape, 1).unwrap(), generate::hypertree(&shape, 1).unwrap());
    let run = Run::default().with_seed(2);
    let (short, tape) = method().relaxed_samples_with_tape(&single, 2, 0.5, &run).unwrap();
    let (long, other) = method().relaxed_samples_with_tape(&double, 2, 0.5, &run).unwrap();
    assert_eq!(short.hard.len(), long.hard.len());
    let near = |(x, y): (&f32, &f64)| (f64::from(*x) - y).abs() < 1e-4;
    assert!(short.values.iter().zip(&long.values).all(near));
    let gradient = tape.vjp(&short.values).unwrap();
    let expected = other.vjp(&long.values).unwrap();
    assert!(gradient.words.iter().zip(&expected.words).all(near));
    let one = run.clone().with_threads(1);
    let (again, _) = method().relaxed_samples_with_tape(&single, 2, 0.5, &one).unwrap();
    assert_eq!(again, short);
    let refused = |temperature: f64| {
        let exact = InsideOutside::default().relaxed_samples_with_tape(&double, 1, temperature, &run);
        let few = RandomizedInside::default().relaxed_samples_with_tape(&double, 1, temperature, &run);
        let (exact, few) = (exact.err().unwrap().to_string(), few.err().unwrap().to_string());
        assert_eq!(exact, few);
        exact
    };
    assert!(refused(0.0).contains("temperature: 0 is not a positive number"));
    assert!(refused(f64::NAN).contains("temperature: NaN is not a positive number"));
    assert!(refused(1e-307).contains("scores divided by it overflow"));
    assert!(other.vjp(&[1.0]).is_err() && other.vjp(&vec![f64::NAN; long.values.len()]).is_err());
    let zero = other.vjp(&vec![0.0; long.values.len()]).unwrap();
    assert!(zero.words.iter().all(|x| *x == 0.0) && zero.words.len() == double.words().len());
}
