//! Dependency trees against enumeration.

use zhat::dynamic::SpanningTrees;
use zhat::model::generate::{self, SentenceShape};
use zhat::model::{DependencyTree, Observed, TreeShape};
use zhat::query::{Differentiable, Operation};
use zhat::random::Streams;
use zhat::{
    Divergence, Entropy, Error, FactorMarginals, KBest, LogPartition, Map, Marginals, Real, Run, Sample,
};

use crate::support::statistics::multinomial_tail;
use crate::support::trees::{Listed, trees};

pub const SHAPES: [TreeShape; 4] = [
    TreeShape { projective: true, single_root: false },
    TreeShape { projective: true, single_root: true },
    TreeShape { projective: false, single_root: false },
    TreeShape { projective: false, single_root: true },
];

fn method() -> SpanningTrees {
    SpanningTrees::default()
}

/// Small batches with every kind of score: few and many zeros, labels, scores of 1e4, one word.
pub fn models<F: Real>(trees: TreeShape) -> Vec<DependencyTree<F>> {
    let mut all = Vec::new();
    for seed in 0..6 {
        for zeros in [0.0, 0.4, 0.75] {
            for (labels, words) in [(None, 5), (Some(2), 3), (Some(1), 4), (None, 1)] {
                for strength in [1.0, 1e4] {
                    let batch = 1 + seed as usize * 2;
                    let shape =
                        SentenceShape { words, batch, ragged: seed % 2 == 1, labels, trees, strength, zeros };
                    all.push(generate::dependency(&shape, seed).unwrap());
                }
            }
        }
    }
    all
}

/// The models whose first sentence need not have a tree: any arc may be impossible.
pub fn sparse(trees: TreeShape, seed: u64) -> DependencyTree {
    let mut random = Streams::new(seed, "sparse trees").block(0);
    let words = 1 + (seed as usize) % 5;
    let mut scores = |count: usize| -> Vec<f64> {
        let score = |_| if random.uniform() < 0.6 { f64::NEG_INFINITY } else { random.normal() };
        (0..count).map(score).collect()
    };
    let (arcs, roots) = (scores(words * words), scores(words));
    DependencyTree::new(arcs.into(), roots.into(), vec![words], None, trees).unwrap()
}

#[test]
fn trees_are_counted() {
    let counts = [[1, 3, 12, 55, 273], [1, 2, 7, 30, 143], [1, 3, 16, 125, 1296], [1, 2, 9, 64, 625]];
    for (shape, counts) in SHAPES.into_iter().zip(counts) {
        for (words, count) in (1..).zip(counts) {
            assert_eq!(trees(words, shape).len(), count);
            let model = DependencyTree::new(
                vec![0.0; words * words].into(),
                vec![0.0; words].into(),
                vec![words],
                None,
                shape,
            );
            let found = method().log_partition(&model.unwrap(), &Run::default()).unwrap();
            assert!(
                (found.value[0] - (count as f64).ln()).abs() <= found.diagnostics.rounding,
                "{shape:?} {words}"
            );
        }
    }
}

fn check_sums<F: Real>(model: &DependencyTree<F>, tolerance: f64) {
    let run = Run::default();
    let log_z = method().log_partition(model, &run).unwrap();
    let marginals = method().marginals(model, &run).unwrap().value;
    let gradient = method().factor_marginals(model, &run).unwrap().value;
    let entropy = method().entropy(model, &run).unwrap();
    let best = method().map(model, &run).unwrap().value;
    let ranked = method().k_best(model, 7, &run).unwrap().value;
    let (words, labels) = (model.words(), model.per_arc());
    let magnitude = model.magnitude();
    for b in 0..model.batch() {
        let listed = Listed::new(model, b);
        let allowance = log_z.diagnostics.rounding + 1e-14 * magnitude;
        assert!((log_z.value[b] - listed.log_partition()).abs() <= allowance, "{model:?} sentence {b}");
        let probabilities = listed.probabilities();
        let expected: f64 = probabilities.iter().filter(|p| **p > 0.0).map(|p| -p * p.ln()).sum();
        assert!(
            (entropy.value[b] - expected).abs() <= 1e-9 * (1.0 + magnitude),
            "{} {expected}",
            entropy.value[b]
        );
        let n = model.lengths()[b];
        for d in 0..n {
            for head in (0..=n).filter(|&head| head != d + 1) {
                let mut all = 0.0;
                for label in 0..labels {
                    let expected = listed.arc(head, d, label);
                    let found: f64 = match head {
                        0 => gradient.roots[(b * words + d) * labels + label].into(),
                        head => gradient.arcs[((b * words + head - 1) * words + d) * labels + label].into(),
                    };
                    // Errors of scores of 1e4 are larger than those of probabilities.
                    let allowance = tolerance + 1e-12 * magnitude.min(1e3) + 1e-14 * magnitude;
                    assert!(
                        (found - expected).abs() <= allowance,
                        "arc {head} {d} {label}: {found} {expected}"
                    );
                    all += expected;
                }
                let found: f64 = marginals.values[(b * words + d) * (words + 1) + head].into();
                assert!(
                    (found - all).abs() <= tolerance + 1e-12 * magnitude,
                    "head {head} of {d}: {found} {all}"
                );
            }
        }
        let mut scores = listed.scores.clone();
        scores.sort_by(|a, b| b.total_cmp(a));
        assert!((best[b].score - scores[0]).abs() <= 1e-15 * magnitude + 1e-12);
        assert_eq!(ranked[b].len(), scores.len().min(7));
        for (tree, score) in ranked[b].iter().zip(&scores) {
            assert!((tree.score - score).abs() <= 1e-15 * magnitude + 1e-12, "{} {score}", tree.score);
            assert!((model.score(b, &tree.heads, &tree.labels) - tree.score).abs() == 0.0);
            let own = if tree.labels.is_empty() { vec![0; n] } else { tree.labels.clone() };
            assert!(listed.trees.contains(&(tree.heads.clone(), own)));
        }
        let mut distinct: Vec<_> = ranked[b].iter().map(|tree| (&tree.heads, &tree.labels)).collect();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), ranked[b].len());
    }
}

#[test]
fn every_query_agrees_with_enumeration() {
    for shape in SHAPES {
        models::<f64>(shape).iter().for_each(|model| check_sums(model, 1e-12));
        models::<f32>(shape).iter().step_by(5).for_each(|model| check_sums(model, 1e-6));
    }
}

/// Five and six words: up to 16,807 trees, and 41,472 or 91,392 with labels.
#[test]
fn every_query_agrees_with_enumeration_of_longer_sentences() {
    for (i, shape) in SHAPES.into_iter().enumerate() {
        for (words, labels) in [(6, None), (5, Some(2)), (6, Some(2))] {
            if words == 6 && labels.is_some() && !shape.projective {
                continue;
            }
            for (zeros, strength) in [(0.75, 1.0), (0.0, 1e4), (0.75, 1e4), (0.0, 1.0)] {
                let sentence =
                    SentenceShape { words, labels, trees: shape, strength, zeros, ..Default::default() };
                let model = generate::dependency::<f64>(&sentence, 20 + i as u64).unwrap();
                check_sums(&model, 1e-12);
                if (zeros, strength) != (0.0, 1.0) || labels.is_some() {
                    continue;
                }
                // Samples: the heads of every word.
                let listed = Listed::new(&model, 0);
                let drawn = method().sample(&model, 5000, &Run::default()).unwrap().value;
                for d in 0..words {
                    let heads: Vec<usize> = (0..=words).filter(|&head| head != d + 1).collect();
                    let count = |head: &usize| {
                        drawn.samples[0].iter().filter(|tree| tree.heads[d] == *head).count() as u64
                    };
                    let counts: Vec<u64> = heads.iter().map(count).collect();
                    let expected: Vec<f64> = heads.iter().map(|&head| listed.arc(head, d, 0)).collect();
                    assert!(multinomial_tail(&counts, &expected) > 1e-8, "{shape:?} {d}: {counts:?}");
                }
            }
        }
    }
}

#[test]
fn models_without_a_tree_are_recognised() {
    let mut none = 0;
    for (seed, shape) in (0..800).flat_map(|seed| SHAPES.map(|shape| (seed, shape))) {
        let model = sparse(shape, seed);
        let listed = Listed::new(&model, 0);
        if listed.scores.is_empty() {
            none += 1;
            let run = Run::default();
            assert!(
                matches!(method().log_partition(&model, &run), Err(Error::NoTree(_))),
                "{shape:?} {seed}"
            );
            assert!(matches!(method().map(&model, &run), Err(Error::NoTree(_))));
            assert!(matches!(method().sample(&model, 1, &run), Err(Error::NoTree(_))));
            assert!(matches!(method().marginals(&model, &run), Err(Error::NoTree(_))));
            let (values, tape) = method().differentiate(Operation::LogPartition, &[&model], &run).unwrap();
            assert_eq!(values, [f64::NEG_INFINITY]);
            assert!(tape.gradient(&[1.0]).unwrap().arcs.iter().all(|x| *x == 0.0));
        } else {
            check_sums(&model, 1e-12);
        }
    }
    assert!(none > 300);
}

#[test]
fn sums_that_underflow_are_done_again_with_logarithms() {
    for (shape, words) in SHAPES.into_iter().zip([50, 50, 40, 40]) {
        let build = |strength: f64| {
            let shape = SentenceShape { words, trees: shape, strength, ..Default::default() };
            generate::dependency::<f64>(&shape, 3).unwrap()
        };
        for strength in [1.0, 300.0] {
            let model = build(strength);
            let log_z = method().log_partition(&model, &Run::default()).unwrap().value[0];
            let best = method().map(&model, &Run::default()).unwrap().value.remove(0);
            assert!(log_z >= best.score && log_z < best.score + words as f64 * (words as f64 + 1.0).ln());
            let marginals = method().marginals(&model, &Run::default()).unwrap().value;
            for row in marginals.values.chunks(words + 1) {
                assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            }
        }
    }
}

#[test]
fn gradients_agree_with_differences() {
    for (i, shape) in SHAPES.into_iter().enumerate() {
        for labels in [None, Some(2)] {
            let build = |seed| {
                let sentence = SentenceShape {
                    words: 4,
                    batch: 3,
                    ragged: true,
                    labels,
                    trees: shape,
                    strength: 1.0,
                    zeros: if i % 2 == 0 { 0.3 } else { 0.0 },
                };
                generate::dependency::<f64>(&sentence, seed).unwrap()
            };
            let (p, q) = (build(1), build(1));
            // The same zeros, other scores.
            let other = |values: &[f64]| -> Vec<f64> {
                values
                    .iter()
                    .map(|x| 0.5 * x + 0.3 * (3.0 * x).sin())
                    .map(|x| if x.is_nan() { f64::NEG_INFINITY } else { x })
                    .collect()
            };
            let q = DependencyTree::new(
                other(q.arcs()).into(),
                other(q.roots()).into(),
                q.lengths().to_vec(),
                labels,
                shape,
            )
            .unwrap();
            let cotangent = [1.0, -0.5, 2.0];
            for operation in Operation::ALL {
                let value = |p: &DependencyTree, q: &DependencyTree| -> f64 {
                    let models: Vec<&DependencyTree> = [p, q][..operation.models()].to_vec();
                    let (values, _) = method().differentiate(operation, &models, &Run::default()).unwrap();
                    values.iter().zip(cotangent).map(|(x, c)| c * x).sum()
                };
                let models: Vec<&DependencyTree> = [&p, &q][..operation.models()].to_vec();
                let (_, tape) = method().differentiate(operation, &models, &Run::default()).unwrap();
                let gradients = tape.vjp(&cotangent).unwrap();
                for (which, gradient) in gradients.iter().enumerate() {
                    let own = [&p, &q][which];
                    let flat: Vec<f64> = own.arcs().iter().chain(own.roots()).copied().collect();
                    let found: Vec<f64> = gradient.arcs.iter().chain(&gradient.roots).copied().collect();
                    for k in (0..flat.len()).filter(|&k| flat[k] > f64::NEG_INFINITY) {
                        let at = |by: f64| {
                            let mut moved = flat.clone();
                            moved[k] += by;
                            let roots = moved.split_off(own.arcs().len());
                            let model = DependencyTree::new(
                                moved.into(),
                                roots.into(),
                                own.lengths().to_vec(),
                                labels,
                                shape,
                            )
                            .unwrap();
                            if which == 0 { value(&model, &q) } else { value(&p, &model) }
                        };
                        let difference = (at(1e-5) - at(-1e-5)) / 2e-5;
                        assert!(
                            (difference - found[k]).abs() < 1e-6,
                            "{operation:?} {shape:?} {which} {k}: {difference} {}",
                            found[k]
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn divergences_agree_with_enumeration() {
    for shape in SHAPES {
        for (seed, words) in (0..10).map(|seed| (seed, 4)).chain([(10, 5), (11, 5), (12, 6), (13, 6)]) {
            let sentence = SentenceShape { words, batch: 2, trees: shape, zeros: 0.3, ..Default::default() };
            let p = generate::dependency::<f64>(&sentence, seed).unwrap();
            let q = generate::dependency::<f64>(
                &SentenceShape { zeros: 0.1 * (seed % 2) as f64, ..sentence },
                seed + 100,
            )
            .unwrap();
            let (kl, cross) = (
                method().kl(&p, &q, &Run::default()).unwrap().value,
                method().cross_entropy(&p, &q, &Run::default()).unwrap().value,
            );
            for b in 0..2 {
                let (own, all) = (Listed::new(&p, b), Listed::new(&q, b).log_partition());
                let log_q = |tree: &(Vec<usize>, Vec<usize>)| q.score(b, &tree.0, &tree.1) - all;
                let terms = own.trees.iter().zip(own.probabilities());
                let expected: f64 = terms.clone().map(|(tree, p)| -p * log_q(tree)).sum();
                let entropy: f64 = terms.map(|(_, p)| -p * p.ln()).sum();
                let close = |x: f64, y: f64| x == y || (x - y).abs() < 1e-10;
                assert!(close(cross[b], expected), "{} {expected}", cross[b]);
                assert!(close(kl[b], expected - entropy), "{} {}", kl[b], expected - entropy);
            }
        }
    }
}

#[test]
fn samples_have_the_probabilities_of_the_trees() {
    let draws = 40_000;
    for (i, shape) in SHAPES.into_iter().enumerate() {
        for (labels, strength) in [(None, 1.0), (Some(2), 1.0), (None, 12.0)] {
            let words = if labels.is_some() { 2 } else { 3 };
            let sentence =
                SentenceShape { words, labels, trees: shape, strength, zeros: 0.2, ..Default::default() };
            let model = generate::dependency::<f64>(&sentence, 5 + i as u64).unwrap();
            let listed = Listed::new(&model, 0);
            let drawn = method().sample(&model, draws, &Run::default().with_seed(9)).unwrap().value;
            let mut counts = vec![0; listed.trees.len()];
            for tree in &drawn.samples[0] {
                let own = if labels.is_none() { vec![0; words] } else { tree.labels.clone() };
                let at = listed
                    .trees
                    .iter()
                    .position(|known| *known == (tree.heads.clone(), own.clone()))
                    .unwrap();
                counts[at] += 1;
            }
            let tail = multinomial_tail(&counts, &listed.probabilities());
            assert!(tail > 1e-7, "{shape:?} {labels:?}: {tail}");
        }
    }
}

/// Two words that nearly always depend on each other: the walk over heads hardly ever leaves them.
#[test]
fn samples_are_drawn_where_walks_are_long() {
    for single_root in [false, true] {
        let shape = TreeShape { projective: false, single_root };
        let arcs = vec![0.0, 40.0, -3.0, 40.0, 0.0, -2.0, -41.0, -40.0, 0.0];
        let model =
            DependencyTree::new(arcs.into(), vec![-40.0, -39.5, 0.0].into(), vec![3], None, shape).unwrap();
        let listed = Listed::new(&model, 0);
        let drawn = method().sample(&model, 4000, &Run::default()).unwrap().value;
        let mut counts = vec![0; listed.trees.len()];
        for tree in &drawn.samples[0] {
            counts[listed.trees.iter().position(|(heads, _)| *heads == tree.heads).unwrap()] += 1;
        }
        let tail = multinomial_tail(&counts, &listed.probabilities());
        assert!(tail > 1e-7, "{single_root}: {counts:?} {:?}", listed.probabilities());
    }
}

#[test]
fn small_probabilities_are_accurate_relatively() {
    // Arcs into word 0 from word 2 have probability of about 1e-40.
    let shape = TreeShape { projective: false, single_root: false };
    let arcs = vec![0.0, 1.0, 0.5, 2.0, 0.0, -1.0, -90.0, 0.3, 0.0];
    let model = DependencyTree::new(arcs.into(), vec![0.1, 0.2, 0.3].into(), vec![3], None, shape).unwrap();
    let expected = Listed::new(&model, 0).arc(3, 0, 0);
    let found = method().factor_marginals(&model, &Run::default()).unwrap().value.arcs[6];
    assert!(expected < 1e-38 && (found / expected - 1.0).abs() < 1e-12, "{found} {expected}");
}

#[test]
fn evidence_gives_conditional_probabilities() {
    for shape in SHAPES {
        let model =
            generate::dependency::<f64>(&SentenceShape { words: 4, trees: shape, ..Default::default() }, 2)
                .unwrap();
        let log_z = |model: &DependencyTree| method().log_partition(model, &Run::default()).unwrap().value[0];
        let given = model.condition(&[Observed { sequence: 0, position: 1, state: 3 }]).unwrap();
        let expected = Listed::new(&model, 0).arc(3, 1, 0);
        assert!(((log_z(&given) - log_z(&model)).exp() - expected).abs() < 1e-12);
    }
}

#[test]
fn answers_do_not_depend_on_threads() {
    for shape in SHAPES {
        let sentence =
            SentenceShape { words: 12, batch: 21, ragged: true, trees: shape, ..Default::default() };
        let model = generate::dependency::<f32>(&sentence, 4).unwrap();
        let of = |threads: usize| {
            let run = Run::default().with_threads(threads).with_seed(3);
            let gradient = method().factor_marginals(&model, &run).unwrap().value;
            (
                method().log_partition(&model, &run).unwrap().value,
                gradient,
                method().sample(&model, 70, &run).unwrap().value,
            )
        };
        assert_eq!(of(1), of(2));
    }
}
