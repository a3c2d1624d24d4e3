//! Training, files and decoding on small corpora.

use super::*;
use crate::learn::tag::joint::file::{
    parse_joint_tagger, read_checkpoint, write_checkpoint, write_joint_tagger,
};
use crate::learn::tag::joint::{Certified, MarkovTagger};
use crate::learn::tag::{ReadOptions, golden};
use crate::random::Streams;

/// Sentences of a small language: articles, nouns and verbs that agree in number.
fn corpus(sentences: usize, seed: u64) -> Corpus {
    let mut random = Streams::new(seed, "joint corpus").block(0);
    let mut text = String::new();
    for _ in 0..sentences {
        let nouns = ["dog", "cat", "bird", "horse", "frog", "cow"];
        let verbs = ["walk", "bark", "eat", "see", "talk"];
        let noun = nouns[random.below(6)];
        let verb = verbs[random.below(5)];
        let (noun, verb) = match random.below(2) {
            0 => (format!("{noun}_NN"), format!("{verb}s_VBZ")),
            _ => (format!("{noun}s_NNS"), format!("{verb}_VBP")),
        };
        let article = ["the_DT", "The_DT", "no_DT"][random.below(3)];
        text += &format!("{article} {noun} {verb} ._.\n");
    }
    Corpus::parse(text, "small", &ReadOptions::default()).unwrap()
}

fn run() -> Run {
    Run::default().with_threads(1)
}

fn trained(corpus: &Corpus, how: &Training) -> JointTagger {
    train(corpus, None, how, None, &run(), &mut |_| Ok(true)).unwrap()
}

#[test]
fn every_form_learns_a_small_language() {
    let (text, other) = (corpus(60, 1), corpus(20, 2));
    for (context, window) in [(1, 1), (1, 3), (2, 1), (2, 3), (1, 5)] {
        for bound in [None, Some(Bound::Cover), Some(Bound::Star)] {
            let how =
                Training::default().context(context).window(window).bound(bound).l2(1e-3).iterations(60);
            let tagger = trained(&text, &how);
            let score = tagger.evaluate(&other, &run()).unwrap();
            assert!(score.accuracy() > 0.95, "{context} {window} {bound:?}: {}", score.accuracy());
            if bound.is_none() {
                let tags = tagger.tag_words(&["the", "zebras", "sing", "."], &run()).unwrap();
                assert_eq!(tags[..2], ["DT", "NNS"], "{context} {window}");
            }
        }
    }
    let baseline = MarkovTagger::train(&text).unwrap();
    assert!(baseline.evaluate(&other, &run()).unwrap().accuracy() > 0.95);
}

#[test]
fn bounds_of_a_trained_model_are_ordered() {
    let text = corpus(40, 3);
    for window in [1, 3] {
        let how = Training::default().window(window).iterations(40);
        let tagger = trained(&text, &how);
        let tags = TagSet::of(&text).unwrap();
        let moments = Moments::of(&text, &tags, tagger.lexicon(), 1).unwrap();
        let of =
            |bound: Bound| -> (f64, Certified) { tagger.likelihood(&moments, bound, 30, &run()).unwrap() };
        let (exact, cover, star) = (of(Bound::Exact).0, of(Bound::Cover).0, of(Bound::Star).0);
        // The exact method bounds a trace with the constant 2·log T.
        let slack = 2.0 * 7f64.ln() / moments.tokens() as f64;
        assert!(exact + slack >= cover && cover >= star, "{window}: {exact} {cover} {star}");
        let own = |bound: Bound| tagger.trained().log_likelihood(bound).unwrap();
        assert_eq!(own(Bound::Exact), exact);
        assert!(own(Bound::Exact) + slack >= own(Bound::Cover) && own(Bound::Cover) >= own(Bound::Star));
    }
}

#[test]
fn training_can_be_stopped_anywhere_and_its_bounds_are_certified() {
    let text = corpus(30, 12);
    let how = Training::default().window(3).l2(1e-3).iterations(20);
    let cancelled = Run::default().with_cancel(std::sync::Arc::new(true.into()));
    let start = train(&text, None, &how, None, &cancelled, &mut |_| Ok(true)).unwrap();
    assert_eq!((start.trained().steps, start.trained().objective), (0, None));
    assert_eq!(start.trained().log_likelihoods.len(), 3);
    let no_time = run().with_time(std::time::Duration::ZERO);
    assert_eq!(start, train(&text, None, &how, None, &no_time, &mut |_| Ok(true)).unwrap());
    for (window, bounds) in [(3, 3), (5, 2)] {
        let how = how.clone().window(window);
        for steps in [1, 4] {
            let now = train(&text, None, &how, None, &run(), &mut |now| Ok(now.progress().iteration < steps));
            let now = now.unwrap();
            assert_eq!((now.trained().steps, now.trained().converged), (steps, false));
            assert_eq!(now.trained().log_likelihoods.len(), bounds);
            // The likelihood is a probability of discrete outcomes.
            assert!(now.trained().log_likelihoods.iter().all(|(_, value)| *value < 0.0));
        }
    }
}

#[test]
fn the_gradient_is_that_of_the_objective() {
    let text = corpus(6, 4);
    let tags = TagSet::of(&text).unwrap();
    for (bound, context, window) in
        [(Bound::Exact, 1, 1), (Bound::Exact, 2, 3), (Bound::Cover, 2, 3), (Bound::Star, 1, 5)]
    {
        for word_scores in [false, true] {
            let lexicon = Lexicon::of(&text, window, 2).unwrap();
            let moments = Moments::of(&text, &tags, &lexicon, context).unwrap();
            let how = Training::default().l2(0.2).word_scores(word_scores);
            let mut objective = Objective::new(&moments, &lexicon, bound, &how).unwrap();
            let mut random = Streams::new(5, "objective tests").block(0);
            let point: Vec<f64> =
                objective.begin(&moments).unwrap().iter().map(|x| x + 0.02 * random.normal()).collect();
            let mut gradient = vec![0.0; point.len()];
            objective.evaluate(&point, &mut gradient, &|| Ok(())).unwrap();
            let mut ignored = vec![0.0; point.len()];
            for _ in 0..60 {
                let i = random.below(point.len());
                let mut at = |step: f64| {
                    let mut moved = point.clone();
                    moved[i] += step;
                    objective.evaluate(&moved, &mut ignored, &|| Ok(())).unwrap()
                };
                let slope = (at(4e-6) - at(-4e-6)) / 8e-6;
                assert!(
                    (slope - gradient[i]).abs() < 1e-6 * (1.0 + slope.abs()),
                    "{bound:?} {i}: {slope} {}",
                    gradient[i]
                );
            }
        }
    }
}

#[test]
fn a_resumed_run_has_the_same_bits_and_another_corpus_is_refused() {
    let (text, valid) = (corpus(20, 6), corpus(10, 7));
    for bound in [Bound::Exact, Bound::Star] {
        let how = Training::default().window(3).bound(Some(bound)).l2(1e-3).iterations(24);
        let whole = train(&text, Some(&valid), &how, None, &run(), &mut |_| Ok(true)).unwrap();
        let path =
            std::env::temp_dir().join(format!("zhat-joint-{}-{}.zhat", bound.name(), std::process::id()));
        let mut write = |now: &TrainingCheckpoint| {
            if now.progress().iteration == 9 {
                write_checkpoint(now, &path)?;
                return Ok(false);
            }
            Ok(true)
        };
        train(&text, Some(&valid), &how, None, &run(), &mut write).unwrap();
        let saved = read_checkpoint(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(saved.progress().iteration, 9);
        let resumed =
            train(&text, Some(&valid), &how, Some(saved.clone()), &run(), &mut |_| Ok(true)).unwrap();
        assert_eq!(whole, resumed);
        let other = train(&corpus(20, 8), Some(&valid), &how, Some(saved), &run(), &mut |_| Ok(true));
        assert!(other.unwrap_err().to_string().contains("another corpus"));
    }
}

#[test]
fn taggers_are_read_back_and_broken_files_are_refused_but_never_panic() {
    let text = corpus(8, 9);
    for (bound, word_scores) in [(Bound::Exact, true), (Bound::Star, false)] {
        let how = Training::default().window(3).bound(Some(bound)).iterations(3).word_scores(word_scores);
        let tagger = trained(&text, &how);
        let mut bytes = Vec::new();
        write_joint_tagger(&tagger, &mut bytes).unwrap();
        assert_eq!(parse_joint_tagger(&bytes, "").unwrap(), tagger);
        for length in (0..bytes.len()).step_by(97) {
            assert!(parse_joint_tagger(&bytes[..length], "").is_err());
        }
        for at in (0..bytes.len()).step_by(13) {
            for value in [0, 0xff, b'9', bytes[at] ^ 1] {
                let mut altered = bytes.clone();
                altered[at] = value;
                let _ = parse_joint_tagger(&altered, "");
            }
        }
    }
}

#[test]
fn counts_do_not_grow_with_the_corpus() {
    let once = corpus(30, 10);
    let text: String = once
        .sentences()
        .map(|sentence| {
            let words: Vec<String> = (0..sentence.len())
                .map(|i| format!("{}_{}", sentence.word(i), sentence.tag(i).unwrap()))
                .collect();
            words.join(" ") + "\n"
        })
        .collect();
    let often = Corpus::parse(text.repeat(10), "often", &ReadOptions::default()).unwrap();
    let tags = TagSet::of(&once).unwrap();
    let of = |corpus: &Corpus| {
        let lexicon = Lexicon::of(corpus, 3, 1).unwrap();
        let moments = Moments::of(corpus, &tags, &lexicon, 2).unwrap();
        (lexicon.features(), moments.distinct(), moments.length())
    };
    let (one, ten) = (of(&once), of(&often));
    assert_eq!((one.0, 10 * one.2), (ten.0, ten.2));
    // Ten copies on a cycle have the same pairs, because separators stand between sentences.
    assert_eq!(one.1, ten.1);
}

#[test]
fn bad_options_and_corpora() {
    let text = corpus(5, 11);
    let attempt =
        |how: Training| train(&text, None, &how, None, &run(), &mut |_| Ok(true)).unwrap_err().to_string();
    assert!(attempt(Training::default().context(3)).contains("context"));
    assert!(attempt(Training::default().window(0)).contains("window"));
    assert!(attempt(Training::default().window(2)).contains("odd number"));
    assert!(attempt(Training::default().window(5).bound(Some(Bound::Exact))).contains("at most 3 words"));
    assert!(attempt(Training::default().l2(-1.0)).contains("l2"));
    let small = Run::default().with_memory(1000);
    let error = train(&text, None, &Training::default(), None, &small, &mut |_| Ok(true)).unwrap_err();
    assert_eq!(error.kind(), "over-budget");
    let untagged = Corpus::parse("the DT\ndog _\n".into(), "x", &ReadOptions::default()).unwrap();
    let error = train(&untagged, None, &Training::default(), None, &run(), &mut |_| Ok(true)).unwrap_err();
    assert!(error.to_string().contains("`dog` has no tag"), "{error}");
    let tagger = trained(&text, &Training::default().iterations(2));
    assert!(tagger.tag_words(&[], &run()).unwrap().is_empty());
    assert!(tagger.chain(&["the", "dog"]).unwrap().states() == 6);
}

#[test]
fn the_golden_file_gives_the_original_tagger() {
    let text = "the_DT dog_NN barks_VBZ\n\u{1e90}_NN \"2_CD\n";
    let text = Corpus::parse(text.into(), "golden", &ReadOptions::default()).unwrap();
    let how = Training::default().window(3).min_count(1).bound(Some(Bound::Cover)).iterations(0);
    let mut tagger = trained(&text, &how);
    // Numbers that every machine computes alike.
    tagger.point = golden::numbers(tagger.point.len());
    tagger.duals = golden::numbers(tagger.duals.len());
    tagger.trained = Trained {
        steps: 7,
        objective: Some(2.5),
        converged: true,
        valid: Some((5, 0.75)),
        log_likelihoods: vec![(Bound::Exact, -6.5), (Bound::Cover, -7.25), (Bound::Star, -8.0)],
        // Files of version 1 do not have them.
        learning: None,
        seed: None,
        ..tagger.trained
    };
    let mut bytes = Vec::new();
    write_joint_tagger(&tagger, &mut bytes).unwrap();
    let file = golden::compared("v1-joint-tagger.zhat", &bytes);
    assert_eq!(parse_joint_tagger(&file, "golden").unwrap(), tagger);
}
