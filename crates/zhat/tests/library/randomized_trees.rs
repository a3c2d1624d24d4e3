//! Randomized inference on projective trees: unbiased, exact if all heads are kept, gradients for fixed choices.

use zhat::dynamic::{RandomizedInside, Selection, SpanProposal, SpanningTrees, States};
use zhat::model::generate::{self, SentenceShape};
use zhat::model::{DependencyTree, TreeShape};
use zhat::query::{Differentiable, Operation};
use zhat::random::Streams;
use zhat::{Entropy, Error, FactorMarginals, Guarantee, LogPartition, Marginals, Real, Run, Sample};

use crate::dependency::{models, sparse};
use crate::support::statistics::multinomial_tail;
use crate::support::trees::Listed;

const SHAPES: [TreeShape; 2] =
    [TreeShape { projective: true, single_root: false }, TreeShape { projective: true, single_root: true }];

const PROPOSALS: [SpanProposal; 3] = [SpanProposal::Uniform, SpanProposal::Local, SpanProposal::TwoPass];

fn exact() -> SpanningTrees {
    SpanningTrees::default()
}

/// The mean of exp(log Ẑ − log Z) and its distance from 1 in standard errors.
fn z_score(logs: &[f64], log_z: f64) -> (f64, f64) {
    let ratios: Vec<f64> = logs.iter().map(|x| (x - log_z).exp()).collect();
    let n = ratios.len() as f64;
    let mean = ratios.iter().sum::<f64>() / n;
    let variance = ratios.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, (mean - 1.0) / (variance / n).sqrt().max(1e-12))
}

/// 48 comparisons with a false-alarm rate of 2·10⁻⁸ each, up to the skewness of the mean of 800 estimates. In the
/// last model, most heads are neither neighbours nor kept.
#[test]
fn estimates_are_unbiased() {
    for (i, shape) in SHAPES.into_iter().enumerate() {
        for (words, zeros, strength, labels) in
            [(6, 0.0, 0.7, None), (6, 0.75, 1.0, None), (6, 0.3, 0.7, Some(2)), (7, 0.0, 0.3, None)]
        {
            let sentence =
                SentenceShape { words, labels, trees: shape, strength, zeros, ..Default::default() };
            let model = generate::dependency::<f64>(&sentence, 3 + i as u64).unwrap();
            let log_z = Listed::new(&model, 0).log_partition();
            for proposal in PROPOSALS {
                for selection in [Selection::Threshold, Selection::Draws] {
                    let method = RandomizedInside::default()
                        .states(States::Count(if words == 6 { 3 } else { 1 }))
                        .proposal(proposal)
                        .selection(selection)
                        .top(Some(1))
                        .replicates(1);
                    let one = |seed: u64| {
                        method.log_partition(&model, &Run::default().with_seed(seed)).unwrap().value[0]
                    };
                    let logs: Vec<f64> = (0..800).map(one).collect();
                    let (mean, z) = z_score(&logs, log_z);
                    assert!(
                        z.abs() < 5.6,
                        "{shape:?} {words} {zeros} {labels:?} {proposal:?} {selection:?}: mean {mean}, z {z}"
                    );
                }
            }
        }
    }
}

/// Neighbours are kept, so there is always a tree; without them, distant heads form none.
#[test]
fn estimates_are_finite() {
    for (i, shape) in SHAPES.into_iter().enumerate() {
        let sentence = SentenceShape { words: 200, trees: shape, strength: 1.0, ..Default::default() };
        let model = generate::dependency::<f64>(&sentence, 9 + i as u64).unwrap();
        let log_z = exact().log_partition(&model, &Run::default()).unwrap().value[0];
        for proposal in PROPOSALS {
            for selection in [Selection::Threshold, Selection::Draws, Selection::Top] {
                let method = RandomizedInside::default()
                    .states(States::Count(8))
                    .proposal(proposal)
                    .selection(selection)
                    .replicates(2);
                let found = method.log_partition(&model, &Run::default()).unwrap();
                assert!(found.value[0].is_finite(), "{shape:?} {proposal:?} {selection:?}");
                if selection != Selection::Top {
                    let Guarantee::Unbiased { low, .. } = first(&found.guarantee) else {
                        panic!("{:?}", found.guarantee)
                    };
                    assert!(*low <= log_z && low.is_finite(), "{proposal:?} {selection:?}: {low} {log_z}");
                }
            }
        }
        let drawn =
            RandomizedInside::default().states(States::Count(8)).sample(&model, 4, &Run::default()).unwrap();
        assert_eq!(drawn.value.samples[0].len(), 4);
    }
}

/// Only arcs between neighbours have a finite score, and only one word can be the root.
#[test]
fn the_only_tree_of_neighbours_is_found() {
    for shape in SHAPES {
        for root in [0, 17, 49] {
            let (n, none) = (50, f64::NEG_INFINITY);
            let mut arcs = vec![none; n * n];
            for d in 0..n {
                // Distant heads are likelier by far, but cross each other.
                arcs[((d + 25) % n) * n + d] = 30.0;
                if d != root {
                    arcs[(if d < root { d + 1 } else { d - 1 }) * n + d] = -3.0;
                }
            }
            let roots: Vec<f64> = (0..n).map(|d| if d == root { 1.0 } else { none }).collect();
            let model = DependencyTree::new(arcs.into(), roots.into(), vec![n], None, shape).unwrap();
            let method = RandomizedInside::default().states(States::Count(1)).replicates(1);
            let found = method.log_partition(&model, &Run::default()).unwrap().value[0];
            assert!(found.is_finite(), "{shape:?} {root}");
        }
    }
}

/// The guarantee of the first sentence.
fn first(guarantee: &Guarantee) -> &Guarantee {
    match guarantee {
        Guarantee::Each(each) => &each[0],
        single => single,
    }
}

fn check_all_heads<F: Real>(model: &DependencyTree<F>, tolerance: f64) {
    let run = Run::default();
    let method = RandomizedInside::default().replicates(2).proposal(SpanProposal::TwoPass);
    let magnitude = model.magnitude();
    let near = |what: &str, found: &[f64], expected: &[f64], tolerance: f64| {
        for (a, b) in found.iter().zip(expected) {
            assert!(a == b || (a - b).abs() <= tolerance, "{what}: {a} {b}\n{model:?}");
        }
    };
    let double = |values: Vec<F>| values.into_iter().map(|x| x.to_f64()).collect::<Vec<f64>>();
    let found = method.log_partition(model, &run).unwrap();
    let expected = exact().log_partition(model, &run).unwrap();
    let rounding = found.diagnostics.rounding + expected.diagnostics.rounding;
    near("log Z", &found.value, &expected.value, rounding);
    let (found, expected) = (method.entropy(model, &run).unwrap(), exact().entropy(model, &run).unwrap());
    near("entropy", &found.value, &expected.value, 1e-9 * (1.0 + magnitude));
    let allowance = tolerance + 1e-12 * magnitude.min(1e3) + 1e-14 * magnitude;
    let (found, expected) = (method.marginals(model, &run).unwrap(), exact().marginals(model, &run).unwrap());
    near("heads", &double(found.value.values), &double(expected.value.values), allowance);
    let found = method.factor_marginals(model, &run).unwrap().value;
    let expected = exact().factor_marginals(model, &run).unwrap().value;
    near("arcs", &double(found.arcs), &double(expected.arcs), allowance);
    near("roots", &double(found.roots), &double(expected.roots), allowance);
}

#[test]
fn all_heads_give_the_exact_answers() {
    for shape in SHAPES {
        models::<f64>(shape).iter().for_each(|model| check_all_heads(model, 1e-11));
        models::<f32>(shape).iter().step_by(5).for_each(|model| check_all_heads(model, 1e-6));
        for seed in 0..200 {
            let model = sparse(shape, seed);
            match exact().log_partition(&model, &Run::default()) {
                Ok(_) => check_all_heads(&model, 1e-11),
                Err(_) => {
                    let found = RandomizedInside::default().log_partition(&model, &Run::default());
                    let Err(Error::NoTree(reason)) = found else { panic!("{seed}: {found:?}") };
                    assert!(reason.starts_with("sentence 0 has no tree; "), "{reason}");
                }
            }
        }
    }
}

/// Sentences whose sums underflow in the linear domain.
#[test]
fn long_sentences_do_not_underflow() {
    for (i, shape) in SHAPES.into_iter().enumerate() {
        let sentence =
            SentenceShape { words: 60, trees: shape, strength: 100.0 * i as f64, ..Default::default() };
        // All scores are equal, or some are far below others.
        let model = generate::dependency::<f64>(&sentence, 5).unwrap();
        let shifted = |values: &[f64]| -> Vec<f64> { values.iter().map(|x| x - 20.0).collect() };
        let roots = if shape.single_root { shifted(model.roots()) } else { model.roots().to_vec() };
        let model =
            DependencyTree::new(model.arcs().to_vec().into(), roots.into(), vec![60], None, shape).unwrap();
        let method = RandomizedInside::default().states(States::Count(60)).replicates(1);
        let run = Run::default();
        let found = method.log_partition(&model, &run).unwrap();
        let expected = exact().log_partition(&model, &run).unwrap();
        let difference = (found.value[0] - expected.value[0]).abs();
        assert!(difference <= found.diagnostics.rounding + expected.diagnostics.rounding, "{difference}");
        let marginals = method.marginals(&model, &run).unwrap().value.values;
        let expected = exact().marginals(&model, &run).unwrap().value.values;
        assert!(marginals.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-9));
    }
}

#[test]
fn gradients_of_kept_arcs_agree_with_differences() {
    for (shape, labels) in SHAPES.into_iter().zip([None, Some(2)]) {
        let sentence = SentenceShape {
            words: 6,
            batch: 3,
            ragged: true,
            labels,
            trees: shape,
            zeros: 0.2,
            ..Default::default()
        };
        let model = generate::dependency::<f64>(&sentence, 4).unwrap();
        // The proposal must not move with the scores.
        let method = RandomizedInside::default()
            .states(States::Count(3))
            .proposal(SpanProposal::Uniform)
            .replicates(3);
        let run = Run::default().with_seed(7);
        let cotangent = [1.0, -0.5, 2.0];
        for operation in [Operation::LogPartition, Operation::Entropy] {
            let value = |model: &DependencyTree| -> f64 {
                let (values, _) = method.differentiate(operation, &[model], &run).unwrap();
                values.iter().zip(cotangent).filter(|(x, _)| x.is_finite()).map(|(x, c)| c * x).sum()
            };
            let (values, tape) = method.differentiate(operation, &[&model], &run).unwrap();
            if operation == Operation::Entropy {
                assert_eq!(values, method.entropy(&model, &run).unwrap().value);
            }
            let gradient = tape.gradient(&cotangent).unwrap();
            let found: Vec<f64> = gradient.arcs.iter().chain(&gradient.roots).copied().collect();
            assert!(found.iter().filter(|x| **x != 0.0).count() > 10);
            let flat: Vec<f64> = model.arcs().iter().chain(model.roots()).copied().collect();
            for k in (0..flat.len()).filter(|&k| flat[k] > f64::NEG_INFINITY) {
                let at = |by: f64| {
                    let mut moved = flat.clone();
                    moved[k] += by;
                    let roots = moved.split_off(model.arcs().len());
                    let lengths = model.lengths().to_vec();
                    value(&DependencyTree::new(moved.into(), roots.into(), lengths, labels, shape).unwrap())
                };
                let difference = (at(1e-5) - at(-1e-5)) / 2e-5;
                let near = (difference - found[k]).abs() < 1e-6;
                assert!(near, "{shape:?} {operation:?} {k}: {difference} {}", found[k]);
            }
        }
    }
}

/// With all heads kept, samples have the probabilities of the trees; with a few, the weighted mean over seeds
/// of an indicator is its probability.
#[test]
fn samples_have_the_probabilities_of_the_trees() {
    for (i, shape) in SHAPES.into_iter().enumerate() {
        for labels in [None, Some(2)] {
            let words = if labels.is_some() { 2 } else { 3 };
            let sentence = SentenceShape { words, labels, trees: shape, zeros: 0.2, ..Default::default() };
            let model = generate::dependency::<f64>(&sentence, 5 + i as u64).unwrap();
            let listed = Listed::new(&model, 0);
            let method = RandomizedInside::default().replicates(2);
            let drawn = method.sample(&model, 20_000, &Run::default()).unwrap().value;
            let mut counts = vec![0; listed.trees.len()];
            for tree in &drawn.samples[0] {
                let own = if labels.is_none() { vec![0; words] } else { tree.labels.clone() };
                counts[listed
                    .trees
                    .iter()
                    .position(|known| *known == (tree.heads.clone(), own.clone()))
                    .unwrap()] += 1;
            }
            assert!(multinomial_tail(&counts, &listed.probabilities()) > 1e-7);
        }
        let sentence = SentenceShape { words: 5, trees: shape, zeros: 0.2, ..Default::default() };
        let model = generate::dependency::<f64>(&sentence, 8).unwrap();
        let listed = Listed::new(&model, 0);
        let method = RandomizedInside::default().states(States::Count(2)).replicates(1);
        let log_z = listed.log_partition();
        // The likeliest head of word 2.
        let (expected, head) =
            (0..=5).map(|head| (listed.arc(head, 2, 0), head)).max_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
        // The mean of Ẑ/Z·1[h(2) = head] is P(h(2) = head).
        let one = |seed: u64| {
            let drawn = method.sample(&model, 1, &Run::default().with_seed(seed)).unwrap().value;
            let has = drawn.samples[0].first().is_some_and(|tree| tree.heads[2] == head);
            if has { (drawn.log_weights.unwrap()[0][0] - log_z).exp() } else { 0.0 }
        };
        let values: Vec<f64> = (0..2000).map(one).collect();
        let mean = values.iter().sum::<f64>() / 2000.0;
        let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 1999.0;
        let z = (mean - expected) / (variance / 2000.0).sqrt();
        assert!(z.abs() < 5.6, "{shape:?}: {mean} {expected} z {z}");
    }
}

#[test]
fn promises_and_refusals() {
    let sentence = SentenceShape { words: 30, batch: 2, ..Default::default() };
    let model = generate::dependency::<f32>(&sentence, 1).unwrap();
    let method = RandomizedInside::default().states(States::Count(5));
    let found = method.log_partition(&model, &Run::default()).unwrap();
    let log_z = exact().log_partition(&model, &Run::default()).unwrap().value;
    let Guarantee::Each(each) = &found.guarantee else { panic!("{:?}", found.guarantee) };
    for (guarantee, log_z) in each.iter().zip(&log_z) {
        let Guarantee::Unbiased { low, replicates, .. } = guarantee else { panic!("{guarantee:?}") };
        assert!(*replicates == 8 && low <= log_z);
    }
    let top = method.selection(Selection::Top).log_partition(&model, &Run::default()).unwrap();
    assert!(matches!(top.guarantee, Guarantee::Heuristic { .. }));
    assert!(top.value.iter().zip(&log_z).all(|(a, b)| a <= b));
    let any = TreeShape { projective: false, single_root: false };
    let model = generate::dependency::<f64>(&SentenceShape { trees: any, ..sentence }, 1).unwrap();
    let refused = method.log_partition(&model, &Run::default()).unwrap_err().to_string();
    assert!(refused.contains("projective") && refused.contains("spanning-trees"), "{refused}");
}

#[test]
fn threads_do_not_change_the_result() {
    for batch in [1, 3] {
        let sentence = SentenceShape { words: 20, batch, ragged: true, ..Default::default() };
        let model = generate::dependency::<f64>(&sentence, 1).unwrap();
        let method = RandomizedInside::default().states(States::Count(8)).proposal(SpanProposal::TwoPass);
        let all = |threads: usize| {
            let run = Run::default().with_threads(threads).with_seed(5);
            let gradient = method.factor_marginals(&model, &run).unwrap().value;
            let drawn = method.sample(&model, 11, &run).unwrap().value;
            (method.log_partition(&model, &run).unwrap().value, gradient.arcs, drawn.samples)
        };
        assert_eq!(all(1), all(3));
    }
}

/// An estimate of zero is a value with a warning; a sentence whose heads are all kept is described instead.
#[test]
fn missed_trees_are_told() {
    let few =
        RandomizedInside::default().states(States::Count(2)).proposal(SpanProposal::Uniform).replicates(1);
    let (n, none) = (7, f64::NEG_INFINITY);
    let (mut missed, mut found) = (0, 0);
    for seed in 0..300 {
        let mut random = Streams::new(seed, "missed trees").block(0);
        let mut score = |_| if random.uniform() < 0.6 { none } else { random.normal() };
        let mut arcs: Vec<f64> = (0..2 * n * n).map(&mut score).collect();
        let mut roots: Vec<f64> = (0..2 * n).map(&mut score).collect();
        // The second sentence has two words, and no arc from the root.
        arcs[n * n..].fill(0.0);
        roots[n..].fill(none);
        let model = DependencyTree::new(arcs.into(), roots.into(), vec![n, 2], None, SHAPES[0]).unwrap();
        if exact().log_partition(&model, &Run::default()).is_err() {
            continue;
        }
        let answer = few.log_partition(&model, &Run::default().with_seed(seed)).unwrap();
        let warning = answer.diagnostics.warning().unwrap();
        let reason = "sentence 1 has no tree; no word can have the root as its head";
        assert!(warning.starts_with(reason), "{warning}");
        let missing = "every replicate missed all trees of positive weight of sentence 0, so the estimate of Z is 0; \
                       more heads per word may find some";
        assert_eq!(warning.contains(missing), answer.value[0] == none, "{seed}: {warning}");
        *(if answer.value[0] == none { &mut missed } else { &mut found }) += 1;
    }
    assert!(missed > 10 && found > 10, "{missed} {found}");
}
