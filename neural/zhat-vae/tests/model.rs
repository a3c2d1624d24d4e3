//! The model: training, resumption, checkpoints.
#![allow(clippy::unwrap_used, clippy::panic)]

use burn_flex::Flex;
use zhat::Run;
use zhat_vae::checkpoint::Checkpoint;
use zhat_vae::config::{EncoderKind, Inference, ModelConfig, TrainConfig};
use zhat_vae::parameters::Numbers;
use zhat_vae::posterior::Engine;
use zhat_vae::repro::made_up;
use zhat_vae::text::{Corpus, Vocabulary};
use zhat_vae::train::{Limits, Outputs, Trainer, beginning, whole};

#[test]
fn batches_of_a_device_have_one_shape() {
    assert_eq!(whole(Engine::Library, &[4, 5], 5), [4, 5]);
    assert_eq!(whole(Engine::Device, &[4, 5], 5), [4, 5, 4, 5, 4]);
    assert_eq!(whole(Engine::Device, &[4, 5], 1), [4, 5]);
}

/// A small text.
fn text(count: usize) -> (Corpus, Corpus, Vocabulary) {
    let lines = made_up(count, 1);
    let vocabulary = Vocabulary::count(lines.sentences.iter(), 1);
    let (kept, train) = lines.corpus(&vocabulary).split(10);
    (kept, train, vocabulary)
}

fn settings(inference: Inference) -> TrainConfig {
    TrainConfig {
        inference,
        top: 2,
        sampled: 2,
        batch: 16,
        rate: 0.01,
        warm_up: 30,
        seed: 5,
        ..TrainConfig::default()
    }
}

fn trainer<'a>(
    kept: &'a Corpus,
    train: &'a Corpus,
    from: Checkpoint,
    engine: Engine,
    threads: usize,
) -> Trainer<'a, Flex> {
    let run = Run::default().with_threads(threads);
    Trainer::new(train, kept, from, None, engine, Default::default(), run).unwrap()
}

#[test]
fn training_improves_the_objective() {
    let (kept, train, vocabulary) = text(300);
    for (engine, inference, encoder, straight_through) in [
        (Engine::Library, Inference::Full, EncoderKind::Lstm, false),
        (Engine::Library, Inference::Rdp, EncoderKind::Lstm, true),
        (Engine::Device, Inference::Full, EncoderKind::Transformer, false),
        (Engine::Device, Inference::Rdp, EncoderKind::Lstm, false),
        (Engine::Library, Inference::TwoPass, EncoderKind::Lstm, false),
        (Engine::Library, Inference::Top, EncoderKind::Lstm, false),
    ] {
        let config = ModelConfig { states: 10, units: 16, state_size: 8, encoder, gpt2: None };
        let settings = TrainConfig { straight_through, ..settings(inference) };
        let first = beginning(&config, &settings, vocabulary.words(), 40, &train, None);
        let mut trainer = trainer(&kept, &train, first, engine, 2);
        let before = trainer.judge(&kept).unwrap().bound();
        let limits = Limits { steps: Some(75), ..Limits::default() };
        trainer.train(&limits, &Outputs { quiet: true, keep_every: 1e9, ..Outputs::default() }).unwrap();
        let after = trainer.judge(&kept).unwrap().bound();
        assert!(after > before + 3.0, "{engine:?} {inference:?}: {before} to {after}");
    }
}

#[test]
fn the_best_parameters_are_kept() {
    let (kept, train, vocabulary) = text(300);
    let config = ModelConfig { states: 8, units: 12, state_size: 6, ..ModelConfig::default() };
    // The rate is so large that the objective does not improve all the time.
    let settings = TrainConfig { rate: 0.3, ..settings(Inference::Full) };
    let first = beginning(&config, &settings, vocabulary.words(), 40, &train, None);
    let mut run = trainer(&kept, &train, first, Engine::Library, 2);
    let outputs = Outputs { quiet: true, keep_every: 1e9, remember: true, ..Outputs::default() };
    let limits = Limits { steps: Some(70), warm_up: Some(0.5), ..Limits::default() };
    run.train(&limits, &outputs).unwrap();
    let (best, step) = run.progress.best.unwrap();
    assert!(run.judge(&kept).unwrap().bound() <= best && step <= 70);
    // Judged again, the best parameters have the same objective.
    let mut again = run.checkpoint();
    again.parameters = run.best().numbers();
    let again = trainer(&kept, &train, again, Engine::Library, 2);
    assert_eq!(again.judge(&kept).unwrap().bound(), best);
}

#[test]
fn a_warm_up_changes_nothing() {
    let (kept, train, vocabulary) = text(100);
    let config = ModelConfig { states: 8, units: 12, state_size: 6, ..ModelConfig::default() };
    let first = beginning(&config, &settings(Inference::Rdp), vocabulary.words(), 40, &train, None);
    let run = trainer(&kept, &train, first, Engine::Device, 2);
    let before = run.checkpoint();
    run.warm_up().unwrap();
    let after = run.checkpoint();
    assert!(before.parameters == after.parameters && before.moments == after.moments);
    assert_eq!(before.progress, after.progress);
}

#[test]
fn a_resumed_run_ends_with_the_same_bits() {
    let (kept, train, vocabulary) = text(200);
    let config = ModelConfig { states: 8, units: 12, state_size: 6, ..ModelConfig::default() };
    let first = beginning(&config, &settings(Inference::Rdp), vocabulary.words(), 40, &train, None);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.state");
    let limits = |steps| Limits { steps: Some(steps), ..Limits::default() };
    let outputs = || Outputs { quiet: true, keep_every: 1e9, ..Outputs::default() };
    let mut whole = trainer(&kept, &train, first.clone(), Engine::Library, 2);
    whole.train(&limits(40), &outputs()).unwrap();
    let mut part = trainer(&kept, &train, first, Engine::Library, 1);
    let keep = Outputs { state: Some(path.clone()), ..outputs() };
    part.train(&limits(17), &keep).unwrap();
    drop(part);
    let mut rest = trainer(&kept, &train, Checkpoint::read(&path).unwrap(), Engine::Library, 2);
    rest.train(&limits(40), &outputs()).unwrap();
    let (one, two) = (whole.checkpoint(), rest.checkpoint());
    assert_eq!(one.parameters, two.parameters);
    assert_eq!(one.moments, two.moments);
}

#[test]
fn checkpoints_that_do_not_fit_are_refused() {
    let (kept, train, vocabulary) = text(100);
    let config = ModelConfig { states: 4, units: 4, state_size: 3, ..ModelConfig::default() };
    let first = beginning(&config, &settings(Inference::Full), vocabulary.words(), 40, &train, None);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    first.write(&path).unwrap();
    let message = |path: &std::path::Path| format!("{:#}", Checkpoint::read(path).unwrap_err());
    let bytes = std::fs::read(&path).unwrap();
    let other = folder.path().join("other");
    // The file of another program: only the name of the entry in its header differs.
    let mut foreign = bytes.clone();
    let at = bytes.windows(8).position(|part| part == b"zhat-vae").unwrap();
    foreign[at..at + 8].copy_from_slice(b"zhat-xyz");
    for (contents, part) in [
        (bytes[..bytes.len() / 2].to_vec(), "damaged"),
        (bytes[..4].to_vec(), "damaged"),
        (b"not a model at all".to_vec(), "damaged"),
        (foreign, "is a safetensors file, but not a model of zhat-vae"),
    ] {
        std::fs::write(&other, contents).unwrap();
        assert!(message(&other).contains(part), "{}", message(&other));
    }
    assert!(message(&folder.path().join("missing")).contains("cannot read"));
    // Another text, and a finished model.
    let (_, other_text, _) = text(120);
    let new = |from: Checkpoint, text: &Corpus| {
        Trainer::<Flex>::new(text, &kept, from, None, Engine::Library, Default::default(), Run::default())
            .map(|_| ())
            .unwrap_err()
            .to_string()
    };
    assert!(new(first.clone(), &other_text).contains("another text"));
    let mut finished = first.clone();
    finished.progress.step = 10;
    assert!(new(finished, &train).contains(".state"));
    let mut less = first.clone();
    less.parameters.remove("decoder.words");
    assert!(new(less, &train).contains("decoder.words"));
    // Moments that are missing, of another shape, or of no parameter.
    let mut state = trainer(&kept, &train, first, Engine::Library, 1).checkpoint();
    state.write(&path).unwrap();
    let again = Checkpoint::read(&path).unwrap();
    assert!(
        Trainer::<Flex>::new(&train, &kept, again, None, Engine::Library, Default::default(), Run::default())
            .is_ok()
    );
    let error = |from: Checkpoint| {
        let run = Run::default();
        let made = Trainer::<Flex>::new(&train, &kept, from, None, Engine::Library, Default::default(), run);
        format!("{:#}", made.map(|_| ()).unwrap_err())
    };
    let moments = state.moments.take().unwrap();
    let with = |change: fn(&mut [Numbers; 2])| {
        let mut moments = moments.clone();
        change(&mut moments);
        error(Checkpoint { moments: Some(moments), ..state.clone() })
    };
    let missing = with(|moments| drop(moments[0].remove("decoder.words")));
    assert_eq!(missing, "means of gradients: tensor `decoder.words` is missing");
    let shorter = with(|moments| {
        let (shape, values) = moments[1].get_mut("decoder.words").unwrap();
        (*shape, _) = (vec![1], values.truncate(1));
    });
    assert!(
        shorter.contains("means of squared gradients: tensor `decoder.words` has shape [1]"),
        "{shorter}"
    );
    let unknown = with(|moments| drop(moments[1].insert("other".into(), (vec![1], vec![0.0]))));
    assert!(unknown.contains("`other` is not part"), "{unknown}");
}

#[test]
fn the_state_is_written_between_lines_of_the_log() {
    let (kept, train, vocabulary) = text(300);
    let config = ModelConfig { states: 4, units: 4, state_size: 3, ..ModelConfig::default() };
    // After one step with such a rate the scores are not finite.
    let settings = TrainConfig { rate: 1e30, ..settings(Inference::Full) };
    let first = beginning(&config, &settings, vocabulary.words(), 40, &train, None);
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("model.state");
    let outputs = Outputs { state: Some(state.clone()), quiet: true, ..Outputs::default() };
    let limits = Limits { steps: Some(10), ..Limits::default() };
    let mut run = trainer(&kept, &train, first, Engine::Library, 1);
    assert!(run.train(&limits, &outputs).is_err());
    // The state is that before the failure.
    let found = Checkpoint::read(&state).unwrap().progress.step;
    assert!((1..10).contains(&found), "{found}");
}

#[test]
fn a_file_that_cannot_be_written_leaves_the_old_one() {
    let (_, train, vocabulary) = text(100);
    let config = ModelConfig { states: 4, units: 4, state_size: 3, ..ModelConfig::default() };
    let first = beginning(&config, &settings(Inference::Full), vocabulary.words(), 40, &train, None);
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("no such folder").join("model");
    assert!(first.write(&missing).is_err());
    let path = folder.path().join("model");
    first.write(&path).unwrap();
    assert_eq!(Checkpoint::read(&path).unwrap().parameters, first.parameters);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}
