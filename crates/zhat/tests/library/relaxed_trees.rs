//! Relaxed samples of dependency trees.

use zhat::dynamic::{RandomizedInside, SpanProposal, SpanningTrees, States};
use zhat::model::generate::{self, SentenceShape};
use zhat::model::{DependencyTree, TreeShape};
use zhat::query::{DependencyGradient, RelaxedTrees, SparseTrees, Tree};
use zhat::{Error, Run};

use crate::dependency::SHAPES;
use crate::support::statistics::multinomial_tail;
use crate::support::trees::Listed;

const ZERO: f64 = f64::NEG_INFINITY;

/// Uniform proposals, so that the kept arcs do not depend on the scores.
fn randomized() -> RandomizedInside {
    RandomizedInside::default().states(States::Count(3)).proposal(SpanProposal::Uniform).replicates(2)
}

fn model(shape: TreeShape, labels: Option<usize>, zeros: f64, seed: u64) -> DependencyTree {
    let (batch, ragged, strength) = (3, true, 1.0);
    let sentence = SentenceShape { words: 4, batch, ragged, labels, trees: shape, strength, zeros };
    generate::dependency(&sentence, seed).unwrap()
}

fn exact(model: &DependencyTree, count: usize, temperature: f64) -> RelaxedTrees<f64> {
    let run = Run::default().with_seed(3);
    SpanningTrees::default().relaxed_samples_with_tape(model, count, temperature, &run).unwrap().0
}

fn sparse(model: &DependencyTree, count: usize, temperature: f64) -> SparseTrees<f64> {
    let run = Run::default().with_seed(3);
    randomized().relaxed_trees_with_tape(model, count, temperature, &run).unwrap().0
}

fn label(tree: &Tree, d: usize) -> usize {
    tree.labels.get(d).copied().unwrap_or(0)
}

/// Rows are distributions, trees are trees of the model, and at a low temperature both agree.
#[test]
fn low_temperatures_give_the_hard_trees() {
    for (shape, labels) in SHAPES.into_iter().flat_map(|shape| [(shape, None), (shape, Some(2))]) {
        for zeros in [0.0, 0.75] {
            let model = model(shape, labels, zeros, 1);
            let (words, per_arc) = (model.words(), model.per_arc());
            let soft = exact(&model, 4, 1e-4);
            let mut certain = 0;
            for b in 0..3 {
                let listed = Listed::new(&model, b);
                assert_eq!(soft.hard[b].len(), 4);
                for (s, tree) in soft.hard[b].iter().enumerate() {
                    let n = model.lengths()[b];
                    let own = if labels.is_none() { vec![0; n] } else { tree.labels.clone() };
                    assert!(listed.trees.contains(&(tree.heads.clone(), own)));
                    assert_eq!(tree.score, model.score(b, &tree.heads, &tree.labels));
                    for d in 0..n {
                        let row = ((b * 4 + s) * words + d) * (words + 1) * per_arc;
                        let row = &soft.heads[row..row + (words + 1) * per_arc];
                        assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-9);
                        certain += usize::from(row[tree.heads[d] * per_arc + label(tree, d)] > 0.99);
                    }
                }
            }
            let all: usize = model.lengths().iter().map(|n| 4 * n).sum();
            assert!(certain * 100 >= all * 95, "{shape:?} {labels:?}: {certain} of {all}");
            if !shape.projective {
                continue;
            }
            let (mut certain, mut all) = (0, 0);
            for (b, samples) in sparse(&model, 4, 1e-4).samples.iter().enumerate() {
                for sample in samples {
                    assert_eq!(sample.hard.score, model.score(b, &sample.hard.heads, &sample.hard.labels));
                    for d in 0..model.lengths()[b] {
                        let own = sample.index.iter().zip(&sample.values).filter(|(at, _)| at[0] == d as u32);
                        assert!((own.clone().map(|(_, x)| x).sum::<f64>() - 1.0).abs() < 1e-9);
                        let hard = [sample.hard.heads[d] as u32, label(&sample.hard, d) as u32];
                        certain += usize::from(own.into_iter().any(|(at, x)| at[1..] == hard && *x > 0.99));
                        all += 1;
                    }
                }
            }
            assert!(certain * 100 >= all * 95 && (all > 0 || zeros > 0.0), "{certain} of {all}");
        }
    }
}

/// At a high temperature noise and scores vanish, and all trees are equally likely.
#[test]
fn high_temperatures_give_the_shares_of_trees() {
    for shape in SHAPES {
        let model = model(shape, Some(2), 0.4, 2);
        let (words, soft) = (model.words(), exact(&model, 2, 1e9));
        for b in 0..3 {
            let listed = Listed::new(&model, b);
            for d in 0..model.lengths()[b] {
                for (head, l) in (0..=words).flat_map(|head| [(head, 0), (head, 1)]) {
                    let has =
                        |(heads, labels): &&(Vec<usize>, Vec<usize>)| heads[d] == head && labels[d] == l;
                    let share = listed.trees.iter().filter(has).count() as f64 / listed.trees.len() as f64;
                    for s in 0..2 {
                        let found = soft.heads[(((b * 2 + s) * words + d) * (words + 1) + head) * 2 + l];
                        assert!((found - share).abs() < 1e-6, "{shape:?} {head} {d}: {found} {share}");
                    }
                }
            }
        }
    }
}

fn flat(gradient: DependencyGradient<f64>) -> Vec<f64> {
    gradient.arcs.into_iter().chain(gradient.roots).collect()
}

/// Compares with differences of `value` in every score.
fn check_gradient(model: &DependencyTree, found: &[f64], value: impl Fn(&DependencyTree) -> f64) {
    let scores: Vec<f64> = model.arcs().iter().chain(model.roots()).copied().collect();
    for k in (0..scores.len()).filter(|&k| scores[k] > ZERO) {
        let at = |by: f64| {
            let mut moved = scores.clone();
            moved[k] += by;
            let roots = moved.split_off(model.arcs().len());
            let lengths = model.lengths().to_vec();
            let moved =
                DependencyTree::new(moved.into(), roots.into(), lengths, model.labels(), model.shape());
            value(&moved.unwrap())
        };
        let difference = (at(1e-5) - at(-1e-5)) / 2e-5;
        assert!((difference - found[k]).abs() < 1e-6, "{k}: {difference} {}", found[k]);
    }
}

fn weight(i: usize) -> f64 {
    ((i * i) as f64).sin()
}

#[test]
fn gradients_agree_with_differences() {
    let run = Run::default().with_seed(3);
    for (shape, labels) in SHAPES.into_iter().flat_map(|shape| [(shape, None), (shape, Some(2))]) {
        for (zeros, temperature) in [(0.0, 0.7), (0.75, 0.4)] {
            let model = model(shape, labels, zeros, 1);
            let (samples, tape) =
                SpanningTrees::default().relaxed_samples_with_tape(&model, 2, temperature, &run).unwrap();
            let cotangent: Vec<f64> = (0..samples.heads.len()).map(weight).collect();
            let found = flat(tape.vjp(&cotangent).unwrap());
            assert!(found.iter().any(|x| *x != 0.0));
            check_gradient(&model, &found, |model| {
                exact(model, 2, temperature).heads.iter().zip(&cotangent).map(|(x, c)| x * c).sum()
            });
            if !shape.projective {
                continue;
            }
            let (samples, tape) = randomized().relaxed_trees_with_tape(&model, 3, temperature, &run).unwrap();
            let cotangent: Vec<Vec<Vec<f64>>> = samples
                .samples
                .iter()
                .map(|own| own.iter().map(|one| (0..one.values.len()).map(weight).collect()).collect())
                .collect();
            check_gradient(&model, &flat(tape.vjp(&cotangent).unwrap()), |model| {
                let drawn = sparse(model, 3, temperature).samples;
                let each = drawn.iter().flatten().zip(cotangent.iter().flatten());
                each.flat_map(|(own, c)| own.values.iter().zip(c)).map(|(x, c)| x * c).sum()
            });
        }
    }
}

/// A model whose words choose their heads independently: word 0 depends on the root, word 1 on the root or on
/// word 0. Then the best tree under noise is an exact sample.
#[test]
fn independent_choices_are_exact_samples() {
    let (draws, labels) = (20_000, 2);
    for shape in SHAPES.into_iter().filter(|shape| !shape.single_root) {
        let mut arcs = vec![ZERO; 8];
        (arcs[2], arcs[3]) = (0.3, -0.8);
        let roots = vec![0.0, 0.5, 1.0, -0.4];
        let model = DependencyTree::new(arcs.into(), roots.into(), vec![2], Some(labels), shape).unwrap();
        let listed = Listed::new(&model, 0);
        let check = |trees: &mut dyn Iterator<Item = &Tree>| {
            let mut counts = vec![0; listed.trees.len()];
            for tree in trees {
                let own = (tree.heads.clone(), tree.labels.clone());
                counts[listed.trees.iter().position(|known| *known == own).unwrap()] += 1;
            }
            assert_eq!(counts.iter().sum::<u64>(), draws as u64);
            assert!(multinomial_tail(&counts, &listed.probabilities()) > 1e-7, "{shape:?} {counts:?}");
        };
        check(&mut exact(&model, draws, 0.5).hard[0].iter());
        if shape.projective {
            check(&mut sparse(&model, draws, 0.5).samples[0].iter().map(|own| &own.hard));
        }
    }
}

#[test]
fn threads_and_bad_input() {
    let model = model(SHAPES[1], Some(2), 0.0, 5);
    let (exact, own) = (SpanningTrees::default(), randomized().proposal(SpanProposal::TwoPass));
    let all = |threads: usize| {
        let run = Run::default().with_threads(threads);
        let (soft, tape) = exact.relaxed_samples_with_tape(&model, 3, 0.5, &run).unwrap();
        let (few, sparse_tape) = own.relaxed_trees_with_tape(&model, 3, 0.5, &run).unwrap();
        let cotangent: Vec<Vec<Vec<f64>>> =
            few.samples.iter().map(|own| own.iter().map(|one| one.values.clone()).collect()).collect();
        (tape.vjp(&soft.heads).unwrap(), sparse_tape.vjp(&cotangent).unwrap(), soft, few)
    };
    assert_eq!(all(1), all(3));
    let run = Run::default();
    for temperature in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let error = exact.relaxed_samples_with_tape(&model, 1, temperature, &run).err().unwrap();
        assert!(matches!(error, Error::Argument { ref name, .. } if name == "temperature"), "{error}");
        assert!(own.relaxed_trees_with_tape(&model, 1, temperature, &run).is_err());
    }
    let (soft, tape) = exact.relaxed_samples_with_tape(&model, 0, 1.0, &run).unwrap();
    assert!(soft.heads.is_empty() && tape.vjp(&[]).unwrap().arcs.iter().all(|x| *x == 0.0));
    let (_, tape) = exact.relaxed_samples_with_tape(&model, 1, 1.0, &run).unwrap();
    assert!(tape.vjp(&[1.0]).is_err());
    let (_, tape) = own.relaxed_trees_with_tape(&model, 1, 1.0, &run).unwrap();
    assert!(tape.vjp(&[]).is_err());
    let roots = vec![ZERO, ZERO].into();
    let none = DependencyTree::new(vec![0.0; 4].into(), roots, vec![2], None, SHAPES[2]).unwrap();
    let error = exact.relaxed_samples_with_tape(&none, 1, 1.0, &run).err().unwrap();
    assert!(matches!(error, Error::ZeroPartition));
    let error = own.relaxed_trees_with_tape(&none, 1, 1.0, &run).err().unwrap().to_string();
    assert!(error.contains("projective"), "{error}");
}
