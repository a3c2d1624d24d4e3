//! Models trained by stochastic gradient descent: they beat independent words, do not depend on the number of
//! threads, stop when asked to, and reject malformed text.

use zhat::cycle::TransferMatrix;
use zhat::learn::language::{
    Certificate, Epoch, LanguageModel, LogBilinear, Stochastic, Vocabulary, train_log_bilinear, train_pseudo,
};
use zhat::random::Streams;
use zhat::{Error, LogPartition, Run};

/// Sentences in which a word carries information about the next word and more about the one after that.
fn sentences(seed: u64, count: usize, words: u32) -> Vec<Vec<u32>> {
    let mut random = Streams::new(seed, "baseline texts").block(0);
    (0..count)
        .map(|_| {
            let mut sentence = vec![1 + random.below(words as usize) as u32];
            for _ in 0..2 + random.below(6) {
                let from = sentence[sentence.len().saturating_sub(2)];
                let jump = if random.uniform() < 0.8 { 1 } else { random.below(words as usize) as u32 };
                sentence.push((from + jump) % words + 1);
            }
            sentence
        })
        .collect()
}

fn vocabulary(words: u32) -> Vocabulary {
    Vocabulary::new((0..words).map(|i| format!("w{i}")).collect()).unwrap()
}

/// Log-likelihood in nats per word if words and sentence ends are independent, with the frequencies of the
/// text itself.
fn independent(sentences: &[Vec<u32>]) -> f64 {
    let mut counts = vec![0.0; 32];
    sentences.iter().flatten().for_each(|&word| counts[word as usize] += 1.0);
    counts[0] = sentences.len() as f64;
    let total: f64 = counts.iter().sum();
    let sum: f64 = counts.iter().filter(|c| **c > 0.0).map(|c| c * (c / total).ln()).sum();
    sum / (total - counts[0])
}

fn how() -> Stochastic {
    Stochastic::default().context(2).rank(6).batch(16).rate(0.3).epochs(6).cyclic(false).patience(2)
}

fn bilinear(threads: usize, watch: &mut (dyn FnMut(&Epoch) -> bool + Send)) -> LogBilinear {
    let (text, valid) = (sentences(1, 300, 12), sentences(2, 60, 12));
    let run = Run::default().with_threads(threads).with_seed(5);
    train_log_bilinear(&text, &vocabulary(12), Some(&valid), &how(), &run, &mut |epoch| Ok(watch(epoch)))
        .unwrap()
}

fn pseudo(threads: usize, context: usize) -> LanguageModel {
    let (text, valid) = (sentences(1, 300, 12), sentences(2, 60, 12));
    let run = Run::default().with_threads(threads).with_seed(5);
    let how = how().context(context);
    train_pseudo(&text, &vocabulary(12), Some(&valid), &how, &run, &mut |_| Ok(true)).unwrap()
}

#[test]
fn a_log_bilinear_model_beats_independent_words_on_a_text_it_has_not_seen() {
    let mut told = Vec::new();
    let model = bilinear(2, &mut |epoch| {
        told.push(*epoch);
        true
    });
    let valid = sentences(2, 60, 12);
    let score = model.evaluate(&valid, &Run::default()).unwrap();
    assert!(score.per_word() > independent(&valid) + 0.5, "{} {}", score.per_word(), independent(&valid));
    let best = told.last().unwrap().best;
    let reached = told[best - 1].valid.unwrap();
    assert!((reached - score.per_word()).abs() < 1e-5, "{reached} {}", score.per_word());
    assert!(told.iter().all(|epoch| epoch.valid.unwrap() <= reached));
    assert_eq!(model.neighbours("w3", 4).unwrap().len(), 4);
}

#[test]
fn models_do_not_depend_on_threads_and_a_callback_can_stop_training() {
    let whole = bilinear(1, &mut |_| true);
    assert_eq!(whole, bilinear(3, &mut |_| true));
    assert_eq!(pseudo(1, 2), pseudo(3, 2));
    let mut epochs = 0;
    let short = bilinear(2, &mut |_| {
        epochs += 1;
        epochs < 2
    });
    assert_eq!(epochs, 2);
    assert_ne!(whole, short);
}

#[test]
fn pseudo_likelihood_training_gives_a_model_with_a_valid_certificate() {
    let valid = sentences(2, 60, 12);
    for context in [1, 2, 3] {
        let model = pseudo(2, context);
        assert!(matches!(model.certificate(), Certificate::Spectral { .. }));
        let words: usize = valid.iter().map(Vec::len).sum();
        let pseudo = model.pseudo_log_likelihood(&valid, &Run::default()).unwrap() / words as f64;
        assert!(pseudo > independent(&valid) + 0.5, "{pseudo}");
        // Compares the bound with the exact log Z of a cycle.
        let (high, _) = model.bound(20, &Run::default()).unwrap();
        assert!(high.is_finite());
        if context < 3 {
            let cycle = model.mrf().with_length(20).unwrap();
            let exact = TransferMatrix::default().log_partition(&cycle, &Run::default()).unwrap();
            assert!(high >= exact.value, "{high} {exact}");
            // With one distance the bound exceeds log Z by at most log C, up to the error of the eigenvector.
            assert!(context > 1 || high - exact.value < 4.0, "{high} {exact}");
        }
        assert_eq!(model.sample(3, 2, &Run::default()).unwrap().len(), 3);
    }
}

#[test]
fn malformed_text_is_refused_and_the_time_limit_stops_training() {
    let learn = |text: &[Vec<u32>], how: &Stochastic, run: &Run| {
        train_log_bilinear(text, &vocabulary(12), None, how, run, &mut |_| Ok(true))
    };
    let run = Run::default();
    let text = sentences(1, 20, 12);
    for bad in [vec![], vec![vec![]], vec![vec![1, 0]], vec![vec![13]]] {
        assert!(matches!(learn(&bad, &how(), &run), Err(Error::Argument { .. })));
    }
    for how in [how().rank(0), how().batch(0), how().rate(f64::NAN)] {
        assert!(learn(&text, &how, &run).is_err());
    }
    assert!(matches!(learn(&text, &how(), &Run::default().with_memory(100)), Err(Error::OverBudget { .. })));
    let now = Run::default().with_time(std::time::Duration::ZERO);
    let many = how().epochs(1_000_000).patience(1_000_000_000);
    assert!(learn(&text, &many, &now).is_ok());
    // One word, and a context longer than any sentence.
    let one =
        train_log_bilinear(&[vec![1]], &vocabulary(1), None, &how().context(7), &run, &mut |_| Ok(true));
    assert!(one.unwrap().log_likelihood(&[vec![1]], &run).unwrap() < 0.0);
}
