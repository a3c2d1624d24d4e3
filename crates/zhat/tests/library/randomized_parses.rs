//! Weighted samples of randomized inside on trees with symbols: weighted means are unbiased.

use std::collections::HashSet;

use zhat::dynamic::{RandomizedInside, Selection, SpanProposal, States};
use zhat::model::generate::{self, HypertreeShape, RuleForm, SpanForm};
use zhat::model::{Hypertree, Symbols};
use zhat::{Run, Sample};

use crate::hypertree::{RULES, with_unary};
use crate::support::parses::Parses;

const SEEDS: u64 = 2000;

/// E[Ẑ/Z · 1[y = tree]] = P(tree) for the most probable tree, and E[Ẑ/Z] = 1 over samples. Both with a false-alarm
/// rate of 2·10⁻⁸ each.
#[test]
fn weighted_samples_are_unbiased() {
    for (i, rules) in RULES.into_iter().enumerate() {
        for (zeros, proposal, selection) in [
            (0.0, SpanProposal::Local, Selection::Threshold),
            (0.3, SpanProposal::Uniform, Selection::Draws),
            (0.0, SpanProposal::TwoPass, Selection::Threshold),
        ] {
            let symbols = Symbols { all: 5, heads: 4, tags: 3 };
            let rules = if matches!(rules, RuleForm::Sparse(_)) { RuleForm::Sparse(60) } else { rules };
            let spans = [SpanForm::PerSymbol, SpanForm::None, SpanForm::PerSpan][i % 3];
            let shape = HypertreeShape { words: 3, symbols, rules, spans, zeros, ..Default::default() };
            let build = |seed: &u64| -> Hypertree<f64> {
                let model = generate::hypertree(&shape, *seed).unwrap();
                if i % 2 == 1 { with_unary(model, 1) } else { model }
            };
            let seed = (3..200).find(|seed| Parses::new(&build(seed), 0).trees.len() > 3).unwrap();
            let model = build(&seed);
            let parses = Parses::new(&model, 0);
            let known: HashSet<&Vec<_>> = parses.trees.iter().collect();
            let (log_z, probabilities) = (parses.log_partition(), parses.probabilities());
            let best = (0..probabilities.len())
                .max_by(|&a, &b| probabilities[a].total_cmp(&probabilities[b]))
                .unwrap();
            let method = RandomizedInside::default()
                .states(States::Count(2))
                .proposal(proposal)
                .selection(selection)
                .top(Some(1))
                .replicates(1);
            // The weight of the sample, and the same if it is the most probable tree.
            let one = |seed: u64| -> [f64; 2] {
                let drawn = method.sample(&model, 1, &Run::default().with_seed(seed)).unwrap().value;
                let Some(tree) = drawn.samples[0].first() else { return [0.0; 2] };
                assert!(known.contains(&tree.nodes) && model.score(0, &tree.nodes) == tree.score);
                let weight = (drawn.log_weights.as_ref().unwrap()[0][0] - log_z).exp();
                [weight, if tree.nodes == parses.trees[best] { weight } else { 0.0 }]
            };
            let values: Vec<[f64; 2]> = (0..SEEDS).map(one).collect();
            for (which, expected) in [1.0, probabilities[best]].into_iter().enumerate() {
                let n = SEEDS as f64;
                let mean = values.iter().map(|own| own[which]).sum::<f64>() / n;
                let variance = values.iter().map(|own| (own[which] - mean).powi(2)).sum::<f64>() / (n - 1.0);
                let z = (mean - expected) / (variance / n).sqrt().max(1e-9);
                assert!(
                    z.abs() < 5.6,
                    "{rules:?} {zeros} {proposal:?} {selection:?} {which}: {mean} {expected} z {z}"
                );
            }
        }
    }
}
