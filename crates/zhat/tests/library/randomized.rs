//! Randomized dynamic programming on chains: exact with all states, unbiased with few states, gradients for a
//! fixed choice of states.

use crate::support::oracle::log_sum_exp;
use crate::support::sequences::{Listed, RANDOMIZED_FORMS, SCORES, chain, close, flat, sized_chain};
use crate::support::statistics::{ALARM, binomial_tail};
use zhat::Real;
use zhat::dynamic::ForwardBackward;
use zhat::dynamic::{RandomizedForward, Selection, SparseCotangent, SparsePath, StateProposal, States};
use zhat::model::Transitions;
use zhat::query::{Differentiable, Operation};
use zhat::random::Streams;
use zhat::{
    Chain, Entropy, Error, FactorMarginals, Guarantee, LogPartition, Marginals, Promise, Run, Sample,
};

const PROPOSALS: [StateProposal; 7] = [
    StateProposal::Uniform,
    StateProposal::Local,
    StateProposal::Global,
    StateProposal::LocalGlobal,
    StateProposal::Given,
    StateProposal::Forward,
    StateProposal::TwoPass,
];

/// A method that keeps `count` states. The given proposal scores are half the emissions.
fn method<F: Real>(
    chain: &Chain<F>,
    count: usize,
    proposal: StateProposal,
    selection: Selection,
) -> RandomizedForward {
    let scores: Vec<f64> = chain.emissions().iter().map(|x| 0.5 * x.to_f64()).collect();
    RandomizedForward::default()
        .states(States::Count(count))
        .proposal(proposal)
        .selection(selection)
        .top(Some(count / 2))
        .scores(Some(scores.into()))
}

fn exact_with_all_states<F: Real>() {
    for form in RANDOMIZED_FORMS {
        for scores in SCORES {
            for seed in 0..6 {
                let chain = chain::<F>(form, scores, seed);
                let name = format!("{form}, {scores}, seed {seed}, {}", F::NAME);
                let want: Vec<f64> = (0..chain.batch()).map(|b| chain.log_partition(b)).collect();
                let proposal = PROPOSALS[seed as usize];
                let selection = [Selection::Threshold, Selection::Draws, Selection::Top][seed as usize % 3];
                let method = method(&chain, Chain::states(&chain), proposal, selection);
                let got = method.log_partition(&chain, &Run::default());
                if want.iter().all(|&log_z| log_z == f64::NEG_INFINITY) {
                    assert!(matches!(got, Err(Error::ZeroPartition)), "{name}");
                    continue;
                }
                let got = got.unwrap();
                close(&name, &got.value, &want, got.diagnostics.rounding);
                let exact = ForwardBackward::default();
                let allowance = got.diagnostics.rounding * (1.0 + 4.0 * chain.magnitude().min(1e3));
                let entropy = method.entropy(&chain, &Run::default()).unwrap().value;
                close(&name, &entropy, &exact.entropy(&chain, &Run::default()).unwrap().value, allowance);
                let marginals = method.marginals(&chain, &Run::default()).unwrap().value;
                let counts = method.factor_marginals(&chain, &Run::default()).unwrap().value;
                let want = exact.factor_marginals(&chain, &Run::default()).unwrap().value;
                let values: Vec<f64> = marginals.values.iter().map(|x| x.to_f64()).collect();
                let of_nodes: Vec<f64> = want.emissions.iter().map(|x| x.to_f64()).collect();
                close(&name, &values, &of_nodes, 4.0 * got.diagnostics.rounding);
                close(&name, &flat(&counts), &flat(&want), 100.0 * allowance);
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

/// A chain of 4 positions and 8 states; one with zeros is drawn until it has several paths.
fn chain_with_paths(form: &str, scores: &str, block: u64) -> Chain<f64> {
    for attempt in 0..10_000 {
        let mut random = Streams::new(8, "unbiased").block(block + 2 * attempt);
        let chain: Chain<f64> = sized_chain(&mut random, form, scores, [1, 4, 8]);
        if scores != "zeros" {
            return chain;
        }
        // Most chains have no path at all, which is found out without enumeration.
        let some = ForwardBackward::default().log_partition(&chain, &Run::default()).is_ok();
        if some && chain.lengths()[0] > 1 {
            let paths = Listed::states(&chain, 0);
            let paths = paths.iter().filter(|path| chain.score(0, path) > f64::NEG_INFINITY).count();
            if paths >= 5 {
                return chain;
            }
        }
    }
    panic!("{form}, {scores}: no chain has several paths");
}

#[test]
fn estimates_are_unbiased_for_every_proposal() {
    // The number of cases of each form with zeros whose estimates differ.
    let mut varied = [0; RANDOMIZED_FORMS.len()];
    for (k, scores) in ["plain", "zeros"].into_iter().enumerate() {
        for (number, &proposal) in PROPOSALS.iter().enumerate() {
            for (turn, selection) in [Selection::Threshold, Selection::Draws].into_iter().enumerate() {
                let at = (number + k + 3 * k * turn) % RANDOMIZED_FORMS.len();
                let form = RANDOMIZED_FORMS[at];
                let chain = chain_with_paths(form, scores, k as u64);
                let want = Listed::log_partition(&chain, 0);
                let method = method(&chain, 3, proposal, selection).replicates(300);
                // Several seeds, because all replicates of a run share one backward pass.
                let mut ratios = Vec::new();
                for seed in 0..20 {
                    let choice = method.choose(&chain, &Run::default().with_seed(seed)).unwrap();
                    ratios.extend(choice.log_estimates(0).iter().map(|log| (log - want).exp()));
                }
                assert_mean_one(&format!("{form} {scores} {proposal:?} {selection:?}"), &ratios);
                if scores == "zeros" {
                    varied[at] += usize::from(ratios.iter().any(|x| (x - 1.0).abs() > 1e-6));
                }
            }
        }
    }
    // With few paths, some choices of states contain all of them.
    assert!(varied.iter().filter(|&&cases| cases > 0).count() >= 6, "{varied:?}");
}

#[test]
fn a_concentrated_backward_pass_that_misses_paths_causes_no_bias() {
    // A backward pass with few states misses most continuations; without the floor on its values the estimate
    // would be too small.
    for seed in 0..6 {
        let mut random = Streams::new(seed, "sparse").block(0);
        let states = 16;
        let table: Vec<f64> = (0..states * states)
            .map(|_| if random.uniform() < 0.75 { f64::NEG_INFINITY } else { random.normal() })
            .collect();
        let emissions: Vec<f64> = (0..6 * states).map(|_| random.normal()).collect();
        let chain = Chain::crf(states, emissions.into(), vec![6], Transitions::Shared(table.into())).unwrap();
        let want = ForwardBackward::default().log_partition(&chain, &Run::default()).unwrap().value[0];
        let two_pass = method(&chain, 4, StateProposal::TwoPass, Selection::Threshold);
        let two_pass = two_pass.replicates(100);
        let mut ratios = Vec::new();
        for seed in 0..100 {
            let choice = two_pass.choose(&chain, &Run::default().with_seed(seed)).unwrap();
            ratios.extend(choice.log_estimates(0).iter().map(|log| (log - want).exp()));
        }
        assert_mean_one(&format!("seed {seed}"), &ratios);
    }
}

/// Chains with more states than are kept, for every form of transitions.
fn larger_chains(mut check: impl FnMut(&str, &Chain<f64>)) {
    for form in RANDOMIZED_FORMS {
        for scores in ["plain", "zeros"] {
            let mut random = Streams::new(21, "larger").block(0);
            let chain: Chain<f64> = sized_chain(&mut random, form, scores, [3, 4, 6]);
            check(&format!("{form}, {scores}"), &chain);
        }
    }
}

#[test]
fn gradients_agree_with_differences_for_a_fixed_choice() {
    larger_chains(|name, chain| {
        let run = Run::default();
        for (selection, proposal) in
            [(Selection::Threshold, StateProposal::TwoPass), (Selection::Draws, StateProposal::LocalGlobal)]
        {
            let method = method(chain, 3, proposal, selection).replicates(3);
            let cotangent = [0.7, -1.3, 2.0];
            let weighted = |values: Vec<f64>| -> f64 {
                let pairs = values.iter().zip(&cotangent).filter(|(value, _)| value.is_finite());
                pairs.map(|(value, c)| value * c).sum()
            };
            let (value, tape) = method.differentiate(Operation::LogPartition, &[chain], &run).unwrap();
            let choice = method.choose(chain, &run).unwrap();
            close(name, &choice.on(chain, &run).unwrap().log_partition(), &value, 1e-12);
            let want = chain.differences(|chain| weighted(choice.on(chain, &run).unwrap().log_partition()));
            close(name, &flat(&tape.gradient(&cotangent).unwrap()), &want, 1e-6);
            let want = chain.differences(|chain| {
                weighted(choice.differentiate(Operation::Entropy, chain, &run).unwrap().0)
            });
            let (entropy, tape) = choice.differentiate(Operation::Entropy, chain, &run).unwrap();
            close(name, &flat(&tape.gradient(&cotangent).unwrap()), &want, 1e-6);
            match method.differentiate(Operation::Entropy, &[chain], &run) {
                Ok((value, _)) => close(name, &value, &entropy, 1e-12),
                // Every replicate missed all paths, so there is no estimate.
                Err(_) => assert!(entropy.iter().all(|x| *x == f64::NEG_INFINITY), "{name}"),
            }
            assert!(tape.vjp(&[1.0]).is_err());
        }
    });
}

#[test]
fn relaxed_samples_are_differentiable_for_fixed_choice_and_paths() {
    larger_chains(|name, chain| {
        let run = Run::default().with_seed(4);
        let method = method(chain, 3, StateProposal::TwoPass, Selection::Threshold).replicates(2);
        let choice = method.choose(chain, &run).unwrap();
        let (samples, tape) = choice.relaxed_samples_with_tape(chain, 3, 0.7, &run).unwrap();
        let mut random = Streams::new(1, "cotangent").block(0);
        let cotangent: Vec<Vec<SparseCotangent<f64>>> = samples
            .samples
            .iter()
            .map(|samples| {
                let one = |path: &SparsePath<f64>| {
                    (path.values.iter().map(|_| random.normal()).collect(), Vec::new())
                };
                samples.iter().map(one).collect()
            })
            .collect();
        for (b, of_sequence) in samples.samples.iter().enumerate() {
            for (s, path) in of_sequence.iter().enumerate() {
                assert_eq!(samples.log_weights[b][s], choice.log_estimates(b)[s % 2]);
                for t in 0..path.hard.len() {
                    let values = &path.values[path.offsets[t]..path.offsets[t + 1]];
                    let states = &path.states[path.offsets[t]..path.offsets[t + 1]];
                    assert!((values.iter().sum::<f64>() - 1.0).abs() < 1e-12);
                    let best = (0..values.len()).max_by(|&a, &b| values[a].total_cmp(&values[b])).unwrap();
                    assert_eq!(states[best] as usize, path.hard[t], "{name}");
                }
            }
        }
        let hard = |chain: &Chain<f64>| choice.relaxed_samples_with_tape(chain, 3, 0.7, &run).unwrap().0;
        let want = chain.differences(|chain| {
            let all = hard(chain);
            let mut sum = 0.0;
            for (samples, cotangent) in all.samples.iter().zip(&cotangent) {
                for (path, cotangent) in samples.iter().zip(cotangent) {
                    sum += path.values.iter().zip(&cotangent.0).map(|(x, c)| x * c).sum::<f64>();
                }
            }
            sum
        });
        close(name, &flat(&tape.vjp(&cotangent).unwrap()), &want, 1e-6);
        assert!(tape.vjp(&cotangent[1..]).is_err());
        assert!(choice.relaxed_samples_with_tape(chain, 1, 0.0, &run).is_err());
    });
}

/// log Ẑ − Ê[score], where the weights are not part of the score, by enumeration of all paths through the
/// chosen states.
#[test]
fn entropy_is_that_of_the_weighted_paths() {
    larger_chains(|name, chain| {
        let run = Run::default();
        let method = method(chain, 3, StateProposal::Forward, Selection::Threshold).replicates(2);
        let choice = method.choose(chain, &run).unwrap();
        let (got, _) = choice.differentiate(Operation::Entropy, chain, &run).unwrap();
        for (b, &got) in got.iter().enumerate() {
            let (mut logs, mut scores) = (Vec::new(), Vec::new());
            for support in choice.supports(b) {
                for path in Listed::states(chain, b) {
                    let weight = |t: usize| {
                        let at = support.at(t).states.iter().position(|&i| i as usize == path[t])?;
                        Some(support.at(t).log_weights[at])
                    };
                    let weights: Option<Vec<f64>> = (0..path.len()).map(weight).collect();
                    let score = Listed::score(chain, b, &path);
                    if let (Some(weights), true) = (weights, score > f64::NEG_INFINITY) {
                        logs.push(score + weights.iter().sum::<f64>());
                        scores.push(score);
                    }
                }
            }
            if logs.is_empty() {
                assert_eq!(got, f64::NEG_INFINITY, "{name}");
                continue;
            }
            let total = log_sum_exp(&logs);
            let mean: f64 = logs.iter().zip(&scores).map(|(log, score)| (log - total).exp() * score).sum();
            close(name, &[got], &[total - 2f64.ln() - mean], 1e-9);
            close(name, &[choice.log_partition()[b]], &[total - 2f64.ln()], 1e-9);
        }
    });
}

#[test]
fn weighted_samples_follow_the_model() {
    let mut random = Streams::new(7, "samples").block(0);
    let chain: Chain<f64> = sized_chain(&mut random, "shared", "ties", [1, 3, 5]);
    let paths = Listed::states(&chain, 0);
    let probabilities = chain.probabilities(0);
    let log_z = chain.log_partition(0);
    let likely: Vec<usize> = (0..paths.len()).filter(|&k| probabilities[k] > 0.01).collect();
    assert!(likely.len() > 2);
    let mut ratios = vec![Vec::new(); likely.len()];
    for seed in 0..60 {
        let method = method(&chain, 2, StateProposal::TwoPass, Selection::Threshold).replicates(100);
        let drawn = method.sample(&chain, 203, &Run::default().with_seed(seed)).unwrap();
        assert_eq!(drawn.guarantee.promise(), Promise::Unbiased);
        let weights = drawn.value.log_weights.unwrap();
        assert_eq!((drawn.value.samples[0].len(), weights[0].len()), (203, 203));
        // Uses one sample per replicate, because samples of the same replicate are not independent.
        for (path, weight) in drawn.value.samples[0].iter().zip(&weights[0]).take(100) {
            for (k, ratios) in likely.iter().zip(&mut ratios) {
                let hit = if *path == paths[*k] { (weight - log_z).exp() } else { 0.0 };
                ratios.push(hit / probabilities[*k]);
            }
        }
    }
    for (k, ratios) in likely.iter().zip(&ratios) {
        assert_mean_one(&format!("path {k}"), ratios);
    }
}

/// Theorem B.1 of Fu et al. with a normalised proposal on the tail: V[Ẑ] = (Σ a²/q − (Σ a)²)/K₂ over the
/// tail.
#[test]
fn the_variance_of_one_step_agrees_with_theorem_b1() {
    let mut random = Streams::new(2, "theorem").block(0);
    let states = 12;
    let emissions: Vec<f64> = (0..states).map(|_| random.normal()).collect();
    let scores: Vec<f64> = (0..states).map(|_| random.normal()).collect();
    let transitions = Transitions::Shared(vec![0.0; states * states].into());
    let chain = Chain::crf(states, emissions.clone().into(), vec![1], transitions).unwrap();
    let (top, draws) = (4, 3);
    const RUNS: usize = 40_000;
    let method = RandomizedForward::default()
        .states(States::Count(top + draws))
        .top(Some(top))
        .proposal(StateProposal::Given)
        .selection(Selection::Draws)
        .scores(Some(scores.clone().into()))
        .replicates(RUNS);
    let mut order: Vec<usize> = (0..states).collect();
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
    let tail = &order[top..];
    let total: f64 = tail.iter().map(|&i| scores[i].exp()).sum();
    let terms: Vec<(f64, f64)> =
        tail.iter().map(|&i| (emissions[i].exp(), scores[i].exp() / total)).collect();
    let sum: f64 = terms.iter().map(|(a, _)| a).sum();
    let moment = |power: i32| -> f64 { terms.iter().map(|(a, q)| q * (a / q - sum).powi(power)).sum() };
    let variance = terms.iter().map(|(a, q)| a * a / q).sum::<f64>() - sum * sum;
    assert!((variance - moment(2)).abs() < 1e-9 * variance);
    // Second and fourth central moments of a mean of K₂ draws.
    let k = draws as f64;
    let (second, fourth) = (variance / k, (moment(4) + 3.0 * (k - 1.0) * variance * variance) / k.powi(3));
    let choice = method.choose(&chain, &Run::default()).unwrap();
    let mean: f64 = emissions.iter().map(|e| e.exp()).sum();
    let squares = choice.log_estimates(0).iter().map(|log| (log.exp() - mean).powi(2));
    let measured = squares.sum::<f64>() / RUNS as f64;
    let standard_error = ((fourth - second * second) / RUNS as f64).sqrt();
    assert!((measured - second).abs() < 6.0 * standard_error, "{measured} {second} ± {standard_error}");
}

#[test]
fn the_lower_bound_has_its_stated_confidence() {
    let mut random = Streams::new(12, "coverage").block(0);
    let chain: Chain<f64> = sized_chain(&mut random, "shared", "plain", [1, 5, 8]);
    let want = chain.log_partition(0);
    let method = method(&chain, 2, StateProposal::Local, Selection::Draws).replicates(4).confidence(0.6);
    const RUNS: u64 = 1000;
    let misses = (0..RUNS).filter(|&seed| {
        let answer = method.log_partition(&chain, &Run::default().with_seed(seed)).unwrap();
        let Guarantee::Unbiased { low, .. } = answer.guarantee else { panic!() };
        low > want
    });
    assert!(binomial_tail(RUNS, misses.count() as u64, 0.4) > ALARM);
}

#[test]
fn threads_do_not_change_the_result() {
    let mut random = Streams::new(3, "threads").block(0);
    let chain: Chain<f32> = sized_chain(&mut random, "factored", "plain", [3, 6, 700]);
    let answers = |threads: usize| {
        let run = Run::default().with_threads(threads).with_seed(9);
        let method = method(&chain, 40, StateProposal::TwoPass, Selection::Threshold);
        let log_z = method.log_partition(&chain, &run).unwrap().value;
        let entropy = method.entropy(&chain, &run).unwrap().value;
        let counts = method.factor_marginals(&chain, &run).unwrap().value;
        let samples = method.sample(&chain, 20, &run).unwrap().value;
        (log_z, entropy, counts, samples)
    };
    let one = answers(1);
    assert_eq!(one, answers(2));
    assert_eq!(one, answers(5));
}

#[test]
fn a_requested_error_is_kept_on_draws_independent_of_the_pilot() {
    let chain: Chain<f64> =
        zhat::model::generate::rdp_chain(600, 6, 10, zhat::model::generate::Sharpness::Dense, 3).unwrap();
    let want = ForwardBackward::default().log_partition(&chain, &Run::default()).unwrap().value[0];
    let mut ratios = Vec::new();
    for seed in 0..40 {
        let method = RandomizedForward::default().error(Some(0.05));
        let answer = method.log_partition(&chain, &Run::default().with_seed(seed)).unwrap();
        ratios.push((answer.value[0] - want).exp());
    }
    assert_mean_one("wanted error", &ratios);
    let squares = ratios.iter().map(|x| (x - 1.0).powi(2)).sum::<f64>() / 40.0;
    assert!(squares.sqrt() < 0.05, "{}", squares.sqrt());
}

#[test]
fn top_states_give_a_heuristic_value_below_log_z() {
    larger_chains(|name, chain| {
        let method = method(chain, 3, StateProposal::Local, Selection::Top);
        let Ok(answer) = method.log_partition(chain, &Run::default()) else { return };
        assert!(matches!(answer.guarantee, Guarantee::Heuristic { .. }));
        for (b, log) in answer.value.iter().enumerate() {
            assert!(*log <= chain.log_partition(b) + answer.diagnostics.rounding, "{name}");
        }
    });
}

#[test]
fn a_sequence_without_a_path_does_not_affect_the_others() {
    let none = f64::NEG_INFINITY;
    let emissions = vec![0.0, 1.0, 0.5, 0.0, none, none, 0.0, 0.0];
    let transitions = Transitions::Shared(vec![0.0, 1.0, 1.0, 0.0].into());
    let chain = Chain::crf(2, emissions.into(), vec![2, 2], transitions).unwrap();
    let run = Run::default();
    for count in [1, 2] {
        let method = method(&chain, count, StateProposal::TwoPass, Selection::Threshold);
        let value = method.log_partition(&chain, &run).unwrap().value;
        assert!(value[0].is_finite() && value[1] == none);
        let entropy = method.entropy(&chain, &run).unwrap().value;
        assert!(entropy[0].is_finite() && entropy[1] == none);
        let counts = method.factor_marginals(&chain, &run).unwrap().value;
        assert!(counts.emissions[4..].iter().all(|&x| x == 0.0));
        assert!((counts.emissions.iter().sum::<f64>() - 2.0).abs() < 1e-12);
        let samples = method.sample(&chain, 3, &run).unwrap().value;
        assert_eq!((samples.samples[0].len(), samples.samples[1].len()), (3, 0));
    }
}

#[test]
fn invalid_options_are_errors() {
    let chain: Chain<f64> = chain("shared", "plain", 1);
    let fails = |method: RandomizedForward| {
        let error = method.log_partition(&chain, &Run::default()).unwrap_err();
        assert!(matches!(error, Error::Argument { .. }), "{error}");
    };
    let default = RandomizedForward::default;
    fails(default().replicates(0));
    fails(default().confidence(1.0));
    fails(default().error(Some(0.0)));
    fails(default().error(Some(0.1)).selection(Selection::Top));
    fails(default().proposal(StateProposal::Given));
    let short = Some(vec![0.0; 1].into());
    fails(default().proposal(StateProposal::Given).scores(short));
}
