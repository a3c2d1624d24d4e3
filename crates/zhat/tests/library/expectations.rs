//! Expectations of additive scores against enumeration, and their gradients against differences.

use zhat::dynamic::{ForwardBackward, SequenceModel, SpanningTrees};
use zhat::model::generate::{self, SentenceShape};
use zhat::model::{Chain, DependencyTree, Hypertree, SemiMarkov, Transitions};
use zhat::query::{Differentiable, HasFactorMarginals, Operation};
use zhat::{Expectation, Real, Run};

use crate::dependency::SHAPES;
use crate::hypertree::{method, parameters, shapes, with_parameters, with_unary};
use crate::support::parses::Parses;
use crate::support::sequences::{Listed, close, flat, flat_segments, methods};
use crate::support::trees;
use crate::{chains, semi_markov};

const ZERO: f64 = f64::NEG_INFINITY;

/// Σ p(x) f(x) over pairs of a log weight and a score; −∞ if a state of positive weight has score −∞, or there is no
/// state.
fn mean(states: &[(f64, f64)]) -> f64 {
    let log_z = zhat::internal::numeric::log_sum_exp(&states.iter().map(|(log, _)| *log).collect::<Vec<_>>());
    let possible = || states.iter().filter(|(log, _)| *log > ZERO);
    if log_z == ZERO || possible().any(|(_, score)| *score == ZERO) {
        return ZERO;
    }
    possible().map(|(log, score)| (log - log_z).exp() * score).sum()
}

fn mean_of_sequence<M: Listed>(model: &M, scores: &M, b: usize) -> f64 {
    let states: Vec<(f64, f64)> = model.scores(b).into_iter().zip(scores.scores(b)).collect();
    mean(&states)
}

/// Checks values and, in double precision, gradients.
fn check<M: Listed + HasFactorMarginals + SequenceModel>(
    name: &str,
    model: &M,
    scores: &M,
    gradients: bool,
    flat: fn(&M::FactorMarginals) -> Vec<f64>,
) -> [usize; 2]
where
    ForwardBackward: Expectation<M> + Differentiable<M>,
{
    let (run, batch) = (Run::default(), Listed::batch(model));
    let want: Vec<f64> = (0..batch).map(|b| mean_of_sequence(model, scores, b)).collect();
    let cotangent: Vec<f64> = (0..batch).map(|b| 1.5 - b as f64).collect();
    let total = |model: &M, scores: &M| -> f64 {
        let values = (0..batch).map(|b| cotangent[b] * mean_of_sequence(model, scores, b));
        values.filter(|x| x.is_finite()).sum()
    };
    for method in methods() {
        let found = method.expectation(model, scores, &run).unwrap();
        close(name, &found.value, &want, found.diagnostics.rounding);
        let (value, tape) = method.differentiate(Operation::Expectation, &[model, scores], &run).unwrap();
        close(name, &value, &want, found.diagnostics.rounding);
        if gradients {
            let [to_model, to_scores] = &tape.vjp(&cotangent).unwrap()[..] else { panic!("{name}") };
            let allowance = |want: &[f64]| 1e-6 * want.iter().fold(1.0, |a: f64, b| a.max(b.abs()));
            let expected = model.differences(|model| total(model, scores));
            close(&format!("{name}, to the model"), &flat(to_model), &expected, allowance(&expected));
            let expected = scores.differences(|scores| total(model, scores));
            close(&format!("{name}, to the scores"), &flat(to_scores), &expected, allowance(&expected));
        }
    }
    let finite = want.iter().filter(|x| x.is_finite()).count();
    [finite, batch - finite]
}

#[test]
fn expectations_on_chains_agree_with_enumeration() {
    let mut counts = [0, 0];
    chains::pairs::<f64>(4, |name, model, scores| {
        let found = check::<Chain<f64>>(name, model, scores, true, flat);
        counts = [counts[0] + found[0], counts[1] + found[1]];
    });
    assert!(counts.iter().all(|&count| count > 20), "{counts:?}");
    chains::pairs::<f32>(4, |name, model, scores| {
        check::<Chain<f32>>(name, model, scores, false, flat);
    });
}

#[test]
fn expectations_on_semi_markov_chains_agree_with_enumeration() {
    let (mut seed, mut counts) = (0, [0, 0]);
    semi_markov::models::<f64>(4, |name, model| {
        seed += 1;
        // Embeddings are never zero. Other models also get scores of which one is −∞.
        let factored = name.contains("factor");
        let gradients = !name.contains("extreme");
        let scores = semi_markov::beside(model, if factored { 2 } else { seed });
        let mut all = vec![];
        if !factored {
            let mut parameters = Listed::parameters(&semi_markov::beside(model, 2));
            let at = 7 * seed as usize % parameters.len();
            parameters[at] = ZERO;
            all.push(scores.with_parameters(&parameters));
        }
        all.push(scores);
        for scores in &all {
            let found = check::<SemiMarkov<f64>>(name, model, scores, gradients, flat_segments);
            counts = [counts[0] + found[0], counts[1] + found[1]];
        }
    });
    assert!(counts.iter().all(|&count| count > 20), "{counts:?}");
}

/// The expectation is the inner product of factor marginals and scores.
#[test]
fn expectations_are_inner_products_of_factor_marginals_and_scores() {
    use zhat::FactorMarginals;
    use zhat::query::TransitionGradient;
    let run = Run::default();
    let shape = generate::ChainShape { states: 7, steps: 9, batch: 1, ..Default::default() };
    let model: Chain = generate::chain(&shape, 1).unwrap();
    let scores: Chain = generate::chain(&shape, 2).unwrap();
    let counts = ForwardBackward::default().factor_marginals(&model, &run).unwrap().value;
    let TransitionGradient::Shared(edges) = &counts.transitions else { panic!() };
    let Transitions::Shared(transitions) = scores.transitions() else { panic!() };
    let product = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(x, y)| x * y).sum() };
    let expected = product(&counts.start, scores.start())
        + product(&counts.emissions, scores.emissions())
        + product(edges, transitions);
    let found = ForwardBackward::default().expectation(&model, &scores, &run).unwrap();
    close("inner product", &found.value, &[expected], 1e-10);
}

#[test]
fn expectations_on_dependency_trees_agree_with_enumeration() {
    fn values<F: Real>(allowance: f64) -> [usize; 2] {
        let (run, mut counts) = (Run::default(), [0, 0]);
        for trees in SHAPES {
            for (seed, words, labels) in
                (0..12).map(|seed| (seed, 1 + seed as usize % 5, [None, Some(2)][seed as usize / 6]))
            {
                let words = if labels.is_some() { words.min(3) } else { words };
                let sentence =
                    SentenceShape { words, batch: 2, trees, labels, zeros: 0.3, ..Default::default() };
                let model: DependencyTree<F> = generate::dependency(&sentence, seed).unwrap();
                let other = SentenceShape { zeros: 0.15 * (seed % 2) as f64, ..sentence };
                let scores: DependencyTree<F> = generate::dependency(&other, seed + 50).unwrap();
                let found = SpanningTrees::default().expectation(&model, &scores, &run).unwrap();
                let (taped, _) = SpanningTrees::default()
                    .differentiate(Operation::Expectation, &[&model, &scores], &run)
                    .unwrap();
                for (b, &taped) in taped.iter().enumerate() {
                    let listed = trees::Listed::new(&model, b);
                    let states: Vec<(f64, f64)> = listed
                        .trees
                        .iter()
                        .map(|(heads, labels)| {
                            (model.score(b, heads, labels), scores.score(b, heads, labels))
                        })
                        .collect();
                    let expected = mean(&states);
                    counts[usize::from(expected == ZERO)] += 1;
                    for value in [found.value[b], taped] {
                        assert!(
                            value == expected || (value - expected).abs() < allowance,
                            "{value} {expected}"
                        );
                    }
                }
            }
        }
        counts
    }
    let counts = values::<f64>(1e-10);
    assert!(counts.iter().all(|&count| count > 10), "{counts:?}");
    values::<f32>(1e-4);
}

#[test]
fn expectations_on_trees_with_symbols_agree_with_enumeration() {
    let (run, mut counts) = (Run::default(), [0, 0]);
    for (shape, seed) in shapes() {
        let model: Hypertree<f64> = generate::hypertree(&shape, seed).unwrap();
        let model = if seed % 3 == 0 && shape.strength == 1.0 { with_unary(model, seed) } else { model };
        let other: Hypertree<f64> = generate::hypertree(&shape, seed + 7).unwrap();
        let other = if model.unary().is_some() { with_unary(other, seed + 1) } else { other };
        // The same listed rules and lengths. In every second model no score is −∞.
        let open = |x: &f64| if seed % 2 == 0 && *x == ZERO { -2.0 } else { *x };
        let scores = with_parameters(&model, &parameters(&other).iter().map(open).collect::<Vec<_>>());
        let Ok(found) = method().expectation(&model, &scores, &run) else { continue };
        let (taped, _) = method().differentiate(Operation::Expectation, &[&model, &scores], &run).unwrap();
        for (b, &taped) in taped.iter().enumerate() {
            let trees = Parses::new(&model, b).trees;
            let states: Vec<(f64, f64)> =
                trees.iter().map(|tree| (model.score(b, tree), scores.score(b, tree))).collect();
            let expected = mean(&states);
            counts[usize::from(expected == ZERO)] += 1;
            let allowance = 1e-9 * (1.0 + expected.abs()) + 1e-12 * (model.magnitude() + scores.magnitude());
            for value in [found.value[b], taped] {
                let same = value == expected || (value - expected).abs() < allowance;
                assert!(same, "{shape:?} seed {seed} sentence {b}: {value} {expected}");
            }
        }
    }
    assert!(counts.iter().all(|&count| count > 20), "{counts:?}");
}
