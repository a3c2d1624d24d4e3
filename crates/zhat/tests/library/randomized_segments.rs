//! Randomized dynamic programming on semi-Markov chains.

use crate::support::oracle::log_sum_exp;
use crate::support::sequences::{
    Listed, RANDOMIZED_FORMS, SCORES, close, flat_segments, semi_markov, sized_chain,
};
use crate::support::statistics::{ALARM, multinomial_tail};
use zhat::Real;
use zhat::dynamic::ForwardBackward;
use zhat::dynamic::{
    RandomizedForward, Selection, SparseCotangent, SparsePath, SparseSamples, StateProposal, States, Support,
};
use zhat::model::{Segments, SemiMarkov};
use zhat::query::{Differentiable, Operation};
use zhat::random::{Stream, Streams};
use zhat::{Divergence, Entropy, Error, FactorMarginals, LogPartition, Marginals, Run, Sample};

const PROPOSALS: [StateProposal; 7] = [
    StateProposal::Uniform,
    StateProposal::Local,
    StateProposal::Global,
    StateProposal::LocalGlobal,
    StateProposal::Given,
    StateProposal::Forward,
    StateProposal::TwoPass,
];

fn method<F: Real>(
    model: &SemiMarkov<F>,
    count: usize,
    proposal: StateProposal,
    selection: Selection,
) -> RandomizedForward {
    let scores: Vec<f64> = model.chain().emissions().iter().map(|x| 0.3 * x.to_f64()).collect();
    RandomizedForward::default()
        .states(States::Count(count))
        .proposal(proposal)
        .selection(selection)
        .top(Some(count / 2))
        .scores(Some(scores.into()))
}

/// Semi-Markov chains with more states than are kept.
fn larger(random: &mut Stream, form: &str, scores: &str, places: bool, shape: [usize; 3]) -> SemiMarkov<f64> {
    let chain = sized_chain(random, form, scores, shape);
    let [batch, steps, states] = shape;
    let longest = 3;
    let mut one = |_| {
        let zero = scores == "zeros" && random.uniform() < 0.3;
        if zero { f64::NEG_INFINITY } else { random.normal() }
    };
    let segments = if places {
        Segments::Places((0..batch * steps * longest * states).map(&mut one).collect::<Vec<_>>().into())
    } else {
        Segments::Lengths((0..longest * states).map(&mut one).collect::<Vec<_>>().into())
    };
    SemiMarkov::new(chain, segments, longest).unwrap()
}

fn exact_with_all_states<F: Real>() {
    for form in RANDOMIZED_FORMS {
        for scores in SCORES {
            for seed in 0..6 {
                let model = semi_markov::<F>(form, scores, seed);
                let name = format!("{form}, {scores}, seed {seed}, {}", F::NAME);
                let want: Vec<f64> = (0..model.batch()).map(|b| model.log_partition(b)).collect();
                let selection = [Selection::Threshold, Selection::Draws, Selection::Top][seed as usize % 3];
                let method = method(&model, model.chain().states(), PROPOSALS[seed as usize], selection);
                let got = method.log_partition(&model, &Run::default());
                if want.iter().all(|&log_z| log_z == f64::NEG_INFINITY) {
                    assert!(matches!(got, Err(Error::ZeroPartition)), "{name}");
                    continue;
                }
                let got = got.unwrap();
                close(&name, &got.value, &want, got.diagnostics.rounding);
                let exact = ForwardBackward::default();
                let run = Run::default();
                // The entropy is computed as a cross-entropy.
                let crossed = exact.cross_entropy(&model, &model, &run).unwrap();
                let allowance = crossed.diagnostics.rounding + 4.0 * got.diagnostics.rounding;
                let entropy = method.entropy(&model, &run).unwrap().value;
                close(&name, &entropy, &exact.entropy(&model, &run).unwrap().value, allowance);
                let marginals = method.marginals(&model, &run).unwrap().value;
                let want = exact.marginals(&model, &run).unwrap().value;
                let list = |values: &[F]| values.iter().map(|x| x.to_f64()).collect::<Vec<f64>>();
                close(&name, &list(&marginals.values), &list(&want.values), 8.0 * got.diagnostics.rounding);
                let counts = method.factor_marginals(&model, &run).unwrap().value;
                let want = exact.factor_marginals(&model, &run).unwrap().value;
                let scale = 1.0 + model.chain().magnitude().min(1e3);
                close(&name, &flat_segments(&counts), &flat_segments(&want), 100.0 * scale * allowance);
            }
        }
    }
}

#[test]
fn with_all_states_the_results_are_exact() {
    exact_with_all_states::<f64>();
    exact_with_all_states::<f32>();
}

/// A z-test of a mean of 1 with a false-alarm rate of 2·10⁻⁹.
fn assert_mean_one(name: &str, ratios: &[f64]) {
    let n = ratios.len() as f64;
    let mean = ratios.iter().sum::<f64>() / n;
    let variance = ratios.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let z = (mean - 1.0) / (variance / n).sqrt().max(1e-12);
    assert!(z.abs() < 6.0, "{name}: mean {mean}, z = {z}");
}

#[test]
fn estimates_are_unbiased_for_every_proposal() {
    for (k, scores) in ["ties", "zeros"].into_iter().enumerate() {
        for (form, &proposal) in PROPOSALS.iter().enumerate() {
            let selection = [Selection::Threshold, Selection::Draws][form % 2];
            // Low-rank factors with many zeros leave no path.
            let forms = if scores == "zeros" { 4 } else { RANDOMIZED_FORMS.len() };
            let form = RANDOMIZED_FORMS[(form + k) % forms];
            let models = (0..100).map(|block| {
                let mut random = Streams::new(17, "segments").block(block);
                larger(&mut random, form, scores, k == 0, [1, 4, 6])
            });
            // The first model with several positions and a positive weight.
            let mut models = models.filter(|model| model.chain().lengths()[0] > 2);
            let model = models.find(|model| model.log_partition(0) > f64::NEG_INFINITY).unwrap();
            let want = model.log_partition(0);
            let method = method(&model, 3, proposal, selection).replicates(200);
            let mut ratios = Vec::new();
            for seed in 0..20 {
                let choice = method.choose(&model, &Run::default().with_seed(seed)).unwrap();
                ratios.extend(choice.log_estimates(0).iter().map(|log| (log - want).exp()));
            }
            assert_mean_one(&format!("{form} {scores} {proposal:?} {selection:?}"), &ratios);
        }
    }
}

#[test]
fn gradients_agree_with_differences_for_a_fixed_choice() {
    for (k, form) in RANDOMIZED_FORMS.into_iter().enumerate() {
        for scores in ["ties", "zeros"] {
            let mut random = Streams::new(4, "segment gradients").block(k as u64);
            let model = larger(&mut random, form, scores, k % 2 == 0, [2, 4, 5]);
            let run = Run::default();
            let method = method(&model, 2, StateProposal::TwoPass, Selection::Threshold).replicates(2);
            let cotangent = [0.7, -1.3];
            let weighted = |values: Vec<f64>| -> f64 {
                let pairs = values.iter().zip(&cotangent).filter(|(value, _)| value.is_finite());
                pairs.map(|(value, c)| value * c).sum()
            };
            let name = format!("{form} {scores}");
            let (_, tape) = method.differentiate(Operation::LogPartition, &[&model], &run).unwrap();
            let choice = method.choose(&model, &run).unwrap();
            let want = model.differences(|model| weighted(choice.on(model, &run).unwrap().log_partition()));
            close(&name, &flat_segments(&tape.gradient(&cotangent).unwrap()), &want, 1e-6);
            let want = model.differences(|model| {
                weighted(choice.differentiate(Operation::Entropy, model, &run).unwrap().0)
            });
            let (_, tape) = choice.differentiate(Operation::Entropy, &model, &run).unwrap();
            close(&name, &flat_segments(&tape.gradient(&cotangent).unwrap()), &want, 1e-6);
        }
    }
}

#[test]
fn entropy_is_that_of_the_weighted_segmentations() {
    for (k, form) in RANDOMIZED_FORMS.into_iter().enumerate() {
        let mut random = Streams::new(6, "segment entropy").block(k as u64);
        let model = larger(&mut random, form, "plain", k % 2 == 1, [1, 4, 5]);
        let run = Run::default();
        let method = method(&model, 3, StateProposal::Forward, Selection::Threshold).replicates(2);
        let choice = method.choose(&model, &run).unwrap();
        let (got, _) = choice.differentiate(Operation::Entropy, &model, &run).unwrap();
        let (mut logs, mut scores) = (Vec::new(), Vec::new());
        for support in choice.supports(0) {
            for segments in Listed::states(&model, 0) {
                let (mut s, mut weight) = (0, Some(0.0));
                for &(state, length) in &segments {
                    let at = support.at(s).states.iter().position(|&i| i as usize == state);
                    weight = weight.zip(at).map(|(sum, at)| sum + support.at(s).log_weights[at]);
                    s += length;
                }
                let score = Listed::score(&model, 0, &segments);
                // Impossible segmentations add nothing to the mean score.
                if let Some(weight) = weight
                    && score > f64::NEG_INFINITY
                {
                    logs.push(score + weight);
                    scores.push(score);
                }
            }
        }
        let total = log_sum_exp(&logs);
        let mean: f64 = logs.iter().zip(&scores).map(|(log, score)| (log - total).exp() * score).sum();
        close(form, &choice.log_partition(), &[total - 2f64.ln()], 1e-9);
        close(form, &got, &[total - 2f64.ln() - mean], 1e-9);
    }
}

#[test]
fn weighted_samples_follow_the_model() {
    let mut random = Streams::new(5, "segment samples").block(0);
    let model = larger(&mut random, "shared", "ties", true, [1, 3, 4]);
    let all = Listed::states(&model, 0);
    let probabilities = model.probabilities(0);
    let log_z = model.log_partition(0);
    let likely: Vec<usize> = (0..all.len()).filter(|&k| probabilities[k] > 0.01).collect();
    assert!(likely.len() > 3);
    let mut ratios = vec![Vec::new(); likely.len()];
    for seed in 0..60 {
        let method = method(&model, 2, StateProposal::TwoPass, Selection::Threshold).replicates(100);
        let drawn = method.sample(&model, 100, &Run::default().with_seed(seed)).unwrap();
        let weights = drawn.value.log_weights.unwrap();
        for (segments, weight) in drawn.value.samples[0].iter().zip(&weights[0]) {
            for (k, ratios) in likely.iter().zip(&mut ratios) {
                let hit = if *segments == all[*k] { (weight - log_z).exp() } else { 0.0 };
                ratios.push(hit / probabilities[*k]);
            }
        }
    }
    for (k, ratios) in likely.iter().zip(&ratios) {
        assert_mean_one(&format!("segmentation {k}"), ratios);
    }
}

#[test]
fn threads_do_not_change_the_result() {
    let mut random = Streams::new(3, "segment threads").block(0);
    let model = larger(&mut random, "factored", "plain", false, [3, 6, 600]);
    let answers = |threads: usize| {
        let run = Run::default().with_threads(threads).with_seed(9);
        let method = method(&model, 20, StateProposal::TwoPass, Selection::Threshold);
        let log_z = method.log_partition(&model, &run).unwrap().value;
        let entropy = method.entropy(&model, &run).unwrap().value;
        let counts = method.factor_marginals(&model, &run).unwrap().value;
        let samples = method.sample(&model, 20, &run).unwrap().value;
        (log_z, entropy, counts, samples)
    };
    let one = answers(1);
    assert_eq!(one, answers(2));
    assert_eq!(one, answers(5));
}

/// (state, length) of each segment.
type Segmentation = Vec<(usize, usize)>;

/// The cotangent of every value and length of relaxed samples.
fn cotangents(samples: &SparseSamples<f64, Segmentation>) -> Vec<Vec<SparseCotangent<f64>>> {
    let mut random = Streams::new(1, "cotangent").block(0);
    let mut numbers = |count: usize| (0..count).map(|_| random.normal()).collect::<Vec<f64>>();
    let mut one = |sample: &SparsePath<f64, Segmentation>| {
        (numbers(sample.values.len()), numbers(sample.lengths.len()))
    };
    samples.samples.iter().map(|samples| samples.iter().map(&mut one).collect()).collect()
}

#[test]
fn relaxed_samples_are_differentiable_for_fixed_choice_and_segmentations() {
    for (k, form) in RANDOMIZED_FORMS.into_iter().enumerate() {
        for scores in ["ties", "zeros"] {
            let mut random = Streams::new(4, "relaxed segments").block(k as u64);
            let model = larger(&mut random, form, scores, k % 2 == 0, [2, 4, 5]);
            let name = format!("{form} {scores}");
            let run = Run::default().with_seed(4);
            let method = method(&model, 2, StateProposal::TwoPass, Selection::Threshold).replicates(2);
            let choice = method.choose(&model, &run).unwrap();
            let relaxed =
                |model: &SemiMarkov<f64>| choice.relaxed_samples_with_tape(model, 3, 0.7, &run).unwrap();
            let (samples, tape) = relaxed(&model);
            let cotangent = cotangents(&samples);
            for (b, of_sequence) in samples.samples.iter().enumerate() {
                for (s, sample) in of_sequence.iter().enumerate() {
                    assert_eq!(samples.log_weights[b][s], choice.log_estimates(b)[s % 2]);
                    let positions: usize = sample.hard.iter().map(|segment| segment.1).sum();
                    assert_eq!(positions, model.chain().lengths()[b], "{name}");
                    for (m, &(state, length)) in sample.hard.iter().enumerate() {
                        let own = sample.offsets[m]..sample.offsets[m + 1];
                        let (values, states) = (&sample.values[own.clone()], &sample.states[own]);
                        let at = states.iter().position(|&k| k as usize == state).unwrap();
                        let lengths = &sample.lengths[sample.length_offsets[m]..sample.length_offsets[m + 1]];
                        for (row, at) in [(values, at), (lengths, length - 1)] {
                            assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-12, "{name}");
                            assert!(row.iter().all(|x| *x <= row[at]), "{name}");
                        }
                    }
                }
            }
            let value = |model: &SemiMarkov<f64>| {
                let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
                let pairs = relaxed(model).0.samples.into_iter().flatten().zip(cotangent.iter().flatten());
                pairs.map(|(x, c)| dot(&x.values, &c.0) + dot(&x.lengths, &c.1)).sum()
            };
            close(&name, &flat_segments(&tape.vjp(&cotangent).unwrap()), &model.differences(value), 1e-6);
            assert!(tape.vjp(&cotangent[1..]).is_err());
            assert!(choice.relaxed_samples_with_tape(&model, 1, 0.0, &run).is_err());
            let with_threads = |threads: usize| {
                let run = run.clone().with_threads(threads);
                let (samples, tape) = choice.relaxed_samples_with_tape(&model, 3, 0.7, &run).unwrap();
                (samples, flat_segments(&tape.vjp(&cotangent).unwrap()))
            };
            assert!(with_threads(1) == with_threads(3), "{name}");
        }
    }
}

/// The log weight of each segmentation for a choice of states; −∞ if it uses a state that is not chosen.
fn weighted_scores(model: &SemiMarkov<f64>, b: usize, support: &Support) -> Vec<f64> {
    let one = |segments: &Vec<(usize, usize)>| {
        let (mut s, mut total) = (0, Listed::score(model, b, segments));
        for &(state, length) in segments {
            let chosen = support.at(s);
            let at = chosen.states.iter().position(|&k| k as usize == state);
            total += at.map_or(f64::NEG_INFINITY, |at| chosen.log_weights[at]);
            s += length;
        }
        total
    };
    Listed::states(model, b).iter().map(one).collect()
}

/// Eight comparisons with a false-alarm rate of 10⁻⁸ each.
#[test]
fn hard_relaxed_samples_follow_the_weighted_distribution() {
    let mut compared = 0;
    for (k, form) in RANDOMIZED_FORMS.into_iter().enumerate() {
        for scores in ["ties", "zeros"] {
            let mut random = Streams::new(9, "relaxed law").block(k as u64);
            let model = larger(&mut random, form, scores, k % 2 == 0, [1, 4, 5]);
            let method = method(&model, 2, StateProposal::Forward, Selection::Threshold).replicates(1);
            let run = Run::default().with_seed(5);
            let Ok(choice) = method.choose(&model, &run) else { continue };
            let (samples, _) = choice.relaxed_samples_with_tape(&model, 5000, 0.5, &run).unwrap();
            let logs = weighted_scores(&model, 0, &choice.supports(0)[0]);
            let total = log_sum_exp(&logs);
            if total == f64::NEG_INFINITY {
                assert!(samples.samples[0].is_empty());
                continue;
            }
            let all = Listed::states(&model, 0);
            let mut counts = vec![0; all.len()];
            for sample in &samples.samples[0] {
                counts[all.iter().position(|state| *state == sample.hard).unwrap()] += 1;
            }
            let probabilities: Vec<f64> = logs.iter().map(|log| (log - total).exp()).collect();
            let tail = multinomial_tail(&counts, &probabilities);
            assert!(tail > ALARM, "{form} {scores}: {tail}");
            compared += 1;
        }
    }
    assert!(compared >= 4, "{compared}");
}
