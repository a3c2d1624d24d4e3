//! Language models: counts against brute force, merging, training, certificates against enumeration, invalid
//! input.

use std::collections::HashMap;
use std::path::PathBuf;

use crate::support::oracle::log_sum_exp;
use zhat::cycle::{Annealed, TransferMatrix};
use zhat::learn::language::file::{read_checkpoint, write_checkpoint};
use zhat::learn::language::text;
use zhat::learn::language::{
    Counts, Fold, InteractionForm, LanguageModel, Moments, Objective, SEPARATOR, Training,
    TrainingCheckpoint, UNKNOWN, Vocabulary, train,
};
use zhat::random::Streams;
use zhat::{Error, LogPartition, Run};

/// A file that is deleted on drop.
struct Text(PathBuf);

impl Text {
    fn new(name: &str, content: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("zhat-{}-{name}", std::process::id()));
        std::fs::write(&path, content).unwrap();
        Text(path)
    }

    fn counts(&self, context: usize) -> Counts {
        text::count(&self.0, context, &Run::default()).unwrap()
    }
}

impl Drop for Text {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn random_text(seed: u64, sentences: usize, words: usize) -> String {
    let mut random = Streams::new(seed, "texts").block(0);
    let mut text = String::new();
    for _ in 0..sentences {
        let mut last = 0;
        for _ in 0..1 + random.below(6) {
            // The next word depends on the previous one.
            last = (last * 2 + (random.uniform() * random.uniform() * words as f64) as usize) % words;
            text.push_str(&format!("w{last} "));
        }
        text.push('\n');
    }
    text
}

/// The words of the cyclic sequence, with separators.
fn cycle(text: &str, context: usize) -> Vec<String> {
    let mut cycle = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        cycle.extend(std::iter::repeat_n(SEPARATOR.to_owned(), context));
        cycle.extend(line.split_whitespace().map(String::from));
    }
    cycle
}

#[test]
fn moments_are_those_of_the_cyclic_sequence() {
    for (seed, context) in [(1, 1), (2, 2), (3, 3), (4, 9)] {
        let text = random_text(seed, 300, 20) + "\n  \n";
        let file = Text::new(&format!("moments-{seed}"), text.as_bytes());
        let counts = file.counts(context);
        let vocabulary = Vocabulary::of(&counts, &Fold { min_count: Some(1), size: None }).unwrap();
        let moments = counts.moments(&vocabulary).unwrap();
        let cycle = cycle(&text, context);
        let state = |word: &String| {
            if word == SEPARATOR { 0 } else { vocabulary.state(word).unwrap() as usize }
        };
        let states: Vec<usize> = cycle.iter().map(state).collect();
        assert_eq!(moments.positions() as usize, states.len());
        for (x, &count) in moments.unary().iter().enumerate() {
            assert_eq!(count as usize, states.iter().filter(|&&state| state == x).count());
        }
        for l in 1..=context {
            let mut want: HashMap<(usize, usize), u64> = HashMap::new();
            for i in 0..states.len() {
                *want.entry((states[i], states[(i + l) % states.len()])).or_default() += 1;
            }
            let pairs = &moments.pairs()[l - 1];
            let found: HashMap<(usize, usize), u64> = (0..moments.states())
                .flat_map(|x| pairs.row(x).map(move |(y, count)| ((x, y), count)))
                .collect();
            assert_eq!(found, want, "{l} apart");
        }
        assert_eq!(moments.lengths().counts().iter().sum::<u64>(), moments.sentences());
    }
}

#[test]
fn parts_of_a_text_merge_to_the_moments_of_the_whole_for_any_number_of_threads() {
    let (one, two) = (random_text(1, 200, 30), random_text(2, 150, 50));
    let files = [Text::new("one", one.as_bytes()), Text::new("two", two.as_bytes())];
    let whole = Text::new("whole", format!("{one}{two}").as_bytes());
    let fold = Fold { min_count: Some(3), size: Some(25) };
    let want = {
        let counts = text::count(&whole.0, 2, &Run::default().with_threads(1)).unwrap();
        let vocabulary = Vocabulary::of(&counts, &fold).unwrap();
        assert_eq!(vocabulary.words().len(), 25);
        assert!(vocabulary.state(UNKNOWN).is_some());
        counts.moments(&vocabulary).map(|moments| (vocabulary, moments)).unwrap()
    };
    for (first, second) in [(0, 1), (1, 0)] {
        let mut counts = text::count(&files[first].0, 2, &Run::default().with_threads(3)).unwrap();
        counts.merge(files[second].counts(2)).unwrap();
        let vocabulary = Vocabulary::of(&counts, &fold).unwrap();
        let moments = counts.moments(&vocabulary).unwrap();
        assert_eq!((vocabulary, moments), want);
    }
    assert!(files[0].counts(1).merge(files[1].counts(2)).is_err());
}

#[test]
fn rare_words_become_the_unknown_word() {
    let file = Text::new("fold", b"a a a b b c <unk>\nd a b\n");
    let counts = file.counts(1);
    let words = |min_count, size| {
        Vocabulary::of(&counts, &Fold { min_count: Some(min_count), size })
            .map(|v| v.words().join(" "))
            .unwrap()
    };
    assert_eq!(words(1, None), "a b <unk> c d");
    assert_eq!(words(2, None), "a <unk> b");
    assert_eq!(words(1, Some(2)), "<unk> a");
    assert_eq!(words(1, Some(1)), "<unk>");
    assert!(Vocabulary::of(&counts, &Fold { min_count: Some(1), size: Some(0) }).is_err());
    let vocabulary = Vocabulary::of(&counts, &Fold { min_count: Some(2), size: None }).unwrap();
    let moments = counts.moments(&vocabulary).unwrap();
    assert_eq!(moments.unary(), [2, 4, 3, 3]);
    let plain = Text::new("plain", b"x y\n").counts(1);
    let own = Vocabulary::of(&plain, &Fold { min_count: Some(1), size: None }).unwrap();
    let message = counts.moments(&own).unwrap_err().to_string();
    assert!(message.contains("not in the vocabulary"), "{message}");
}

#[test]
fn the_unknown_word_is_in_the_vocabulary_by_default() {
    let words = |text: &str, size| {
        let counts = text::count_text(text, 1, &Run::default()).unwrap();
        Vocabulary::of(&counts, &Fold { size, ..Fold::default() }).unwrap().words().join(" ")
    };
    // Words that occur once become the unknown word.
    assert_eq!(words("a b a c\nb a d\n", None), "a <unk> b");
    // If no word occurs once, the unknown word is still reserved; if all words occur once, they are kept.
    assert_eq!(words("a b a b a\n", None), "a b <unk>");
    assert_eq!(words("a b c\n", None), "a b c <unk>");
    // If the text contains the unknown word itself, every word is kept.
    assert_eq!(words("a b a c <unk>\n", None), "a <unk> b c");
    assert_eq!(words("a a a b b c c d\n", Some(2)), "<unk> a");
    assert_eq!(words("a a a b b c c\n", Some(4)), "a b c <unk>");
    assert_eq!(words("a a a b b c c\n", Some(1)), "<unk>");
}

#[test]
fn compressed_texts_are_read_and_invalid_texts_are_refused() {
    let text = random_text(5, 50, 9);
    let mut packed = Vec::new();
    {
        use std::io::Write;
        let mut encoder = flate2::write::GzEncoder::new(&mut packed, flate2::Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap();
    }
    let (plain, packed) = (Text::new("plain.txt", text.as_bytes()), Text::new("packed.gz", &packed));
    let moments = |file: &Text| {
        let counts = file.counts(2);
        counts.moments(&Vocabulary::of(&counts, &Fold { min_count: Some(1), size: None }).unwrap()).unwrap()
    };
    assert_eq!(moments(&plain), moments(&packed));
    let refusal = |name: &str, content: &[u8]| {
        let file = Text::new(name, content);
        text::count(&file.0, 1, &Run::default()).unwrap_err().to_string()
    };
    assert!(refusal("empty", b"").contains("no words"));
    assert!(refusal("blank", b"\n \n").contains("no words"));
    let message = refusal("latin", b"fine\ncaf\xe9 here\n");
    assert!(message.contains("line 2") && message.contains("0xe9"), "{message}");
    let missing = text::count(&PathBuf::from("/nowhere/text"), 1, &Run::default());
    assert!(matches!(missing, Err(Error::Io { .. })));
}

fn learned(text: &str, context: usize, how: &Training) -> (LanguageModel, Text) {
    let file = Text::new(&format!("learned-{context}-{:?}", how.form), text.as_bytes());
    let counts = file.counts(context);
    let vocabulary = Vocabulary::of(&counts, &Fold { min_count: Some(1), size: None }).unwrap();
    let moments = counts.moments(&vocabulary).unwrap();
    let model = train(&moments, &vocabulary, None, how, None, &Run::default(), &mut |_| Ok(true)).unwrap();
    (model, file)
}

/// Σ log p(sentence | its length), normalised by enumeration of all sentences of that length.
fn exact(model: &LanguageModel, text: &str) -> f64 {
    let (context, states) = (model.mrf().context(), model.mrf().states());
    let score = |words: &[usize]| {
        let mut padded = vec![0; context];
        padded.extend_from_slice(words);
        padded.extend(vec![0; context]);
        let mut score: f64 = words.iter().map(|&word| model.mrf().unary()[word]).sum();
        for i in 0..padded.len() - context {
            score += (1..=context).map(|l| model.mrf().interaction(l, padded[i], padded[i + l])).sum::<f64>();
        }
        score
    };
    let mut totals: HashMap<usize, f64> = HashMap::new();
    let mut sum = 0.0;
    for line in text.lines() {
        let words: Vec<usize> =
            line.split_whitespace().map(|word| model.vocabulary().state(word).unwrap() as usize).collect();
        let total = *totals.entry(words.len()).or_insert_with(|| {
            let all = (states - 1).pow(words.len() as u32);
            let scores: Vec<f64> = (0..all)
                .map(|mut code| {
                    let each: Vec<usize> = (0..words.len())
                        .map(|_| {
                            let word = 1 + code % (states - 1);
                            code /= states - 1;
                            word
                        })
                        .collect();
                    score(&each)
                })
                .collect();
            log_sum_exp(&scores)
        });
        sum += score(&words) - total;
    }
    sum
}

#[test]
fn certified_likelihoods_are_below_the_exact_one_and_better_than_independent_words() {
    let text = random_text(7, 60, 4);
    for context in [1, 2] {
        for objective in [Objective::Star, Objective::Spectral(Vec::new())] {
            for form in [InteractionForm::Products(3), InteractionForm::Rotated(3), InteractionForm::Full] {
                let how = Training::default().form(form).objective(objective.clone()).l2(1e-4).iterations(60);
                let (model, file) = learned(&text, context, &how);
                let moments = file.counts(context).moments(model.vocabulary()).unwrap();
                let score = model.evaluate(&moments, &Run::default()).unwrap();
                let exact = exact(&model, &text);
                assert!(score.log_likelihood <= exact, "{} {exact}", score.log_likelihood);
                assert!(score.rounding < 1e-6 && score.log_lengths.is_finite());
                // Training starts from independent words and separators.
                let n = moments.positions() as f64;
                let alone: f64 =
                    moments.unary().iter().map(|&count| count as f64 * (count as f64 / n).ln()).sum();
                assert!(score.log_likelihood > alone, "{} {alone}", score.log_likelihood);
                // The bound also exists for a cycle of another length.
                let (high, _) = model.bound(moments.positions() as usize + 1, &Run::default()).unwrap();
                assert!(high.is_finite());
            }
        }
    }
}

#[test]
fn a_resumed_run_gives_the_same_result_and_another_text_is_refused() {
    let text = random_text(8, 100, 12);
    let file = Text::new("resumed", text.as_bytes());
    let counts = file.counts(2);
    let vocabulary = Vocabulary::of(&counts, &Fold { min_count: Some(1), size: None }).unwrap();
    let moments = counts.moments(&vocabulary).unwrap();
    let other = Text::new("resumed-other", random_text(9, 80, 12).as_bytes());
    let valid = other.counts(2).moments(&vocabulary).unwrap();
    let run = |threads| Run::default().with_threads(threads).with_seed(3);
    for (form, search) in [
        (InteractionForm::Products(4), "Lbfgs"),
        (InteractionForm::Rotated(4), "Lbfgs"),
        (InteractionForm::Full, "Lbfgs"),
        (InteractionForm::Full, "Fista"),
    ] {
        let how = Training::default().form(form).iterations(25);
        // For FISTA, the memory limit starts small and is raised until training just fits; L-BFGS would not
        // fit.
        let mut memory = if search == "Fista" { 1000 } else { 1 << 30 };
        let (whole, kept) = loop {
            let mut kept: Option<TrainingCheckpoint> = None;
            let mut told = Vec::new();
            let run = run(1).with_memory(memory);
            let whole = train(&moments, &vocabulary, Some(&valid), &how, None, &run, &mut |now| {
                let progress = now.progress();
                told.push(progress.train);
                if progress.iteration == 9 {
                    kept = Some(now.clone());
                }
                Ok(true)
            });
            match whole {
                Err(Error::OverBudget { .. }) => memory += memory / 20,
                whole => {
                    let rises = told.windows(2).all(|pair| pair[1] >= pair[0] - 1e-4);
                    assert!(rises || search == "Fista", "{told:?}");
                    assert!(told.last() > told.first());
                    break (whole.unwrap(), kept.unwrap());
                }
            }
        };
        assert!(format!("{kept:?}").contains(&format!("search: {search}")));
        let place = Text::new("checkpoint", b"");
        write_checkpoint(&kept, &place.0).unwrap();
        let from = Some(read_checkpoint(&place.0).unwrap());
        let again = |moments: &Moments, from, run: &Run| {
            train(moments, &vocabulary, Some(&valid), &how, from, run, &mut |_| Ok(true))
        };
        assert_eq!(again(&moments, from.clone(), &run(3)).unwrap(), whole);
        let error = again(&valid, from, &run(1)).unwrap_err();
        assert!(error.to_string().contains("another text"), "{error}");
    }
}

#[test]
fn training_handles_one_word_and_contexts_longer_than_any_sentence() {
    let how = Training::default().form(InteractionForm::Products(2)).iterations(10);
    for (text, context) in [("word\n", 1), ("word\n", 5), ("a b\nb a\n", 7)] {
        let (model, file) = learned(text, context, &how);
        let moments = file.counts(context).moments(model.vocabulary()).unwrap();
        let score = model.evaluate(&moments, &Run::default()).unwrap();
        assert!(score.log_likelihood.is_finite() && score.log_likelihood <= exact(&model, text));
    }
    let file = Text::new("memory", b"a b c\n");
    let counts = file.counts(1);
    let vocabulary = Vocabulary::of(&counts, &Fold { min_count: Some(1), size: None }).unwrap();
    let moments = counts.moments(&vocabulary).unwrap();
    let small = Run::default().with_memory(100);
    let error = train(&moments, &vocabulary, None, &how, None, &small, &mut |_| Ok(true)).unwrap_err();
    assert!(matches!(error, Error::OverBudget { .. }));
    let bad = how.form(InteractionForm::Rotated(0));
    assert!(train(&moments, &vocabulary, None, &bad, None, &Run::default(), &mut |_| Ok(true)).is_err());
}

/// Sentences from a template with three slots of four words each: the entropy is ln 64 nats per sentence of
/// six words.
fn template(seed: u64, sentences: usize) -> String {
    let mut random = Streams::new(seed, "template").block(0);
    let mut line = |_| {
        let (a, b, c) = (random.below(4), random.below(4), random.below(4));
        format!("the a{a} b{b} of the c{c}\n")
    };
    (0..sentences).map(&mut line).collect()
}

#[test]
fn an_annealed_estimate_above_the_entropy_bound_has_a_warning_and_a_wide_interval() {
    let run = Run::default();
    let (own, other) =
        (Text::new("template", template(1, 400).as_bytes()), Text::new("fresh", template(2, 400).as_bytes()));
    let counts = own.counts(2);
    let vocabulary = Vocabulary::of(&counts, &Fold { min_count: Some(1), size: None }).unwrap();
    let how = Training::default().form(InteractionForm::Full).iterations(60);
    let moments = counts.moments(&vocabulary).unwrap();
    let model = train(&moments, &vocabulary, None, &how, None, &run, &mut |_| Ok(true)).unwrap();
    let fresh = other.counts(2).moments(&vocabulary).unwrap();
    // By the entropy of the text, no model can exceed this log-likelihood per word on average.
    let bound = -(64f64.ln()) / 6.0;
    let mut claims = 0;
    for levels in [Some(3), Some(20), None] {
        for seed in 0..2 {
            let how = Annealed::default().levels(levels).confidence(1.0 - 1e-6);
            let found = model.annealed(&fresh, &how, &run.clone().with_seed(seed)).unwrap();
            let words = found.tokens as f64;
            let (low, high) = (found.lower / words, found.upper() / words);
            let exact = {
                let cycle = model.mrf().with_length(120).unwrap();
                let z = TransferMatrix::default().log_partition(&cycle, &run).unwrap().value;
                let score = found.value() + fresh.positions() as f64 / 120.0 * found.log_z.value;
                (score - fresh.positions() as f64 / 120.0 * z) / words
            };
            assert!(low <= exact && exact <= high, "{low} {exact} {high}");
            let told = found.to_string();
            assert!(told.contains("standard error") && told.contains("certified"), "{told}");
            if found.per_word() > bound {
                claims += 1;
                assert!(found.warning().is_some(), "{told}");
                assert!(low < bound && bound < high, "{told}");
                assert!(high - low > found.per_word() - bound, "{told}");
            }
        }
    }
    assert!(claims > 0);
}
