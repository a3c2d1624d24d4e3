//! Likelihoods against summation over all states. burn's tensors of random numbers come from one generator per process,
//! so tests that use it have a process of their own: with fixed seeds their results are always the same.
#![allow(clippy::unwrap_used, clippy::panic)]

use burn_flex::Flex;
use burn_tensor::{Tensor, TensorData};
use zhat::Run;
use zhat::random::Streams;
use zhat_vae::config::{EncoderKind, Inference, ModelConfig};
use zhat_vae::decoder::{States, log_joint};
use zhat_vae::evaluate::{Model, log_mean};
use zhat_vae::parameters::Parameters;
use zhat_vae::posterior::{Engine, Sums};
use zhat_vae::text::Corpus;
use zhat_vae::train::{initial, whole};

fn tiny(states: usize) -> ModelConfig {
    ModelConfig { states, units: 6, state_size: 4, encoder: EncoderKind::Lstm, gpt2: None }
}

/// A model with random parameters, multiplied by a number: the larger they are, the more states matter.
fn model(config: &ModelConfig, words: usize, engine: Engine, scale: f32) -> Model<Flex> {
    let mut numbers = initial(config, words, None, 3);
    numbers.values_mut().for_each(|(_, values)| values.iter_mut().for_each(|x| *x *= scale));
    let parameters = Parameters::from_numbers(&numbers, &Default::default());
    Model { config: config.clone(), parameters, gpt2: None, engine, device: Default::default() }
}

fn paths(states: usize, steps: usize) -> Vec<Vec<i64>> {
    (0..states.pow(steps as u32))
        .map(|code| (0..steps).map(|t| (code / states.pow(t as u32) % states) as i64).collect())
        .collect()
}

/// log p(x) by summation over all states.
fn exact(model: &Model<Flex>, sentence: &[u32]) -> f64 {
    let steps = sentence.len();
    let all = paths(model.config.states, steps);
    let words: Vec<i64> = all.iter().flat_map(|_| sentence.iter().map(|&word| i64::from(word))).collect();
    let words = Tensor::from_data(TensorData::new(words, [all.len(), steps]), &model.device);
    let states = Tensor::from_data(TensorData::new(all.concat(), [all.len(), steps]), &model.device);
    let joint = log_joint::<Flex>(&model.parameters, &words, &States::Hard(states), None);
    let logs: Vec<f64> = (joint.words + joint.states).into_data().iter::<f64>().collect();
    let apart: Vec<usize> = (0..logs.len()).collect();
    log_mean(&logs, &apart).0 + (logs.len() as f64).ln()
}

#[test]
fn the_joint_distribution_sums_to_one() {
    // One word and the end, over all words and states: Σ p(x, z) over sentences of two words is 1.
    let config = tiny(3);
    let model = model(&config, 5, Engine::Library, 2.0);
    let total: f64 = paths(5, 2).iter().map(|x| exact(&model, &[x[0] as u32, x[1] as u32]).exp()).sum();
    assert!((total - 1.0).abs() < 1e-5, "{total}");
}

#[test]
fn likelihoods_agree_with_summation() {
    for (engine, inference, states, top, sampled) in [
        (Engine::Library, Inference::Full, 3, 1, 1),
        (Engine::Device, Inference::Full, 3, 1, 1),
        (Engine::Library, Inference::Rdp, 3, 1, 1),
        (Engine::Device, Inference::Rdp, 3, 1, 1),
        (Engine::Library, Inference::TwoPass, 3, 1, 1),
        (Engine::Device, Inference::TwoPass, 3, 1, 1),
        (Engine::Library, Inference::Rdp, 5, 1, 2),
        (Engine::Device, Inference::Rdp, 5, 1, 2),
        (Engine::Library, Inference::TwoPass, 5, 1, 2),
        (Engine::Device, Inference::TwoPass, 5, 1, 2),
    ] {
        // With larger parameters a few samples have most of the weight, and z is not nearly normal.
        let model = model(&tiny(states), 5, engine, 1.0);
        let sentence = vec![2, 4, 3, 1];
        let wanted = exact(&model, &sentence);
        let corpus = Corpus { sentences: vec![sentence], pieces: Vec::new() };
        let sums = Sums { inference, top, sampled };
        // Estimates of p(x) itself, each from choices of states of its own, are unbiased.
        let runs = 300;
        let found: Vec<(f64, f64)> = (0..runs)
            .map(|seed| {
                let run = Run::default().with_seed(seed);
                let terms = model.log_terms(&corpus, &[0], &sums, 16, &run).unwrap();
                let (log, variance) = log_mean(&terms.logs[0], &terms.choices);
                (log - wanted, variance)
            })
            .collect();
        let average = |of: &dyn Fn(&(f64, f64)) -> f64| found.iter().map(of).sum::<f64>() / runs as f64;
        let mean = average(&|(log, _)| log.exp());
        let variance = average(&|(log, _)| (log.exp() - mean).powi(2)) * runs as f64 / (runs - 1) as f64;
        let z = (mean - 1.0) / (variance / runs as f64).sqrt();
        // The seeds are fixed, so the test has no false alarms; other ones would exceed three standard errors once in 370.
        assert!(z.abs() < 3.0, "{engine:?} {inference:?}, N = {states}: mean {mean}, z = {z}");
        // The variance that an estimate reports, from a choice of states of its own for every eighth of its samples.
        let reported = average(&|(log, variance)| variance * (2.0 * log).exp());
        println!(
            "{engine:?} {inference:?}, N = {states}: z = {z:.2}; −log p̂ too large by {:.4} (error {:.4}), reported {:.4}; variance {variance:.4}, reported {reported:.4}",
            -average(&|(log, _)| *log),
            (variance / runs as f64).sqrt(),
            average(&|(_, variance)| variance / 2.0)
        );
        assert!((0.6..1.6).contains(&(reported / variance)), "{reported} and {variance}");
        assert!(variance > 0.0);
        // −log p̂ is too large by about half the variance, which is what `eval` prints.
        let (bias, half) = (-average(&|(log, _)| *log), average(&|(_, variance)| variance / 2.0));
        assert!(
            (bias - half).abs() < 3.0 * (variance / runs as f64).sqrt(),
            "{engine:?} {inference:?}: {bias}, {half}"
        );
        let run = Run::default().with_seed(0);
        let printed = model.likelihood(&corpus, &sums, 16, &run).unwrap();
        let own = Run::default().with_seed(Streams::new(0, "likelihood").block(0).bits());
        let rows = whole(engine, &[0], 2048 / 16);
        let terms = model.log_terms(&corpus, &rows, &sums, 16, &own).unwrap();
        assert_eq!(printed.bias, log_mean(&terms.logs[0], &terms.choices).1 / 2.0);
    }
}

#[test]
fn top_states_alone_give_too_little() {
    let model = model(&tiny(5), 5, Engine::Library, 2.0);
    let corpus = Corpus { sentences: vec![vec![2, 4, 3, 1]], pieces: Vec::new() };
    let sums = Sums { inference: Inference::Top, top: 1, sampled: 0 };
    let terms = model.log_terms(&corpus, &[0], &sums, 4, &Run::default()).unwrap();
    assert!(log_mean(&terms.logs[0], &terms.choices).0 < exact(&model, &corpus.sentences[0]) - 0.1);
}

#[test]
fn the_variance_is_that_between_choices() {
    let logs = [2.0_f64.ln(), 4.0_f64.ln(), 4.0_f64.ln(), 6.0_f64.ln()];
    // Average 4; differences −2, 0, 0, 2: variance of the average (4 + 4)/3/4 over 16.
    let (log, variance) = log_mean(&logs, &[0, 1, 2, 3]);
    assert!((log - 4.0_f64.ln()).abs() < 1e-12 && (variance - 8.0 / 12.0 / 16.0).abs() < 1e-12);
    // Averages 3 and 5 of two choices: variance of their average (1 + 1)/1/2 over 16.
    assert!((log_mean(&logs, &[0, 0, 1, 1]).1 - 1.0 / 16.0).abs() < 1e-12);
    assert!(log_mean(&logs, &[0; 4]).1.is_nan());
}
