//! Uses of a trained model: posteriors, tags, new sentences, frequencies of states.

use anyhow::{Result, bail};
use burn_tensor::backend::Backend;
use burn_tensor::{Int, Tensor, TensorData};
use zhat::dynamic::ForwardBackward;
use zhat::model::Transitions;
use zhat::random::Streams;
use zhat::{Chain, Map, Run};

use crate::decoder::Generator;
use crate::encoder;
use crate::evaluate::Model;
use crate::posterior::{Sums, library_chain, sample};
use crate::text::{Corpus, END, Vocabulary};
use crate::train::{sentences, whole};

/// Sentences of which [`frequencies`] draws states at once.
const SENTENCES: usize = 256;

/// The inference network's chains of all sentences, in their order.
///
/// # Errors
/// If a score is not finite, or the scores do not fit into the memory of the run.
pub fn posterior<B: Backend>(model: &Model<B>, corpus: &Corpus, run: &Run) -> Result<Chain<f32>> {
    let lengths: Vec<usize> = corpus.sentences.iter().map(Vec::len).collect();
    let (longest, states) = (lengths.iter().copied().max().unwrap_or(0), model.config.states);
    // Once as they are collected and once in the file's buffers.
    let bytes = lengths.len() as u64 * longest as u64 * states as u64 * 8;
    if bytes > run.memory() {
        bail!(
            "the scores of {} sentences need {:.1} GiB, and {:.1} GiB are available; use --first for a part of them",
            lengths.len(),
            bytes as f64 / 2_f64.powi(30),
            run.memory() as f64 / 2_f64.powi(30)
        );
    }
    let mut emissions = vec![0.0_f32; lengths.len() * longest * states];
    let mut vectors = Vec::new();
    for batch in corpus.batches(64) {
        let read = sentences::<B>(corpus, &batch, &model.device);
        let (own, embeddings) = encoder::chain(&model.parameters, &model.config, model.gpt2.as_ref(), &read);
        let [_, steps, _] = own.dims();
        let own: Vec<f32> = own.into_data().iter::<f32>().collect();
        for (i, rows) in batch.iter().zip(own.chunks(steps * states)) {
            emissions[i * longest * states..][..rows.len()].copy_from_slice(rows);
        }
        if vectors.is_empty() {
            vectors = embeddings.into_data().iter::<f32>().collect::<Vec<f32>>();
        }
    }
    let left: zhat::model::Values<f32> = vectors.into();
    let transitions = Transitions::Factored { right: Some(left.clone()), left };
    Ok(Chain::new(vec![0.0; states].into(), emissions.into(), lengths, transitions)?)
}

/// The likeliest states of all sentences, ends included.
///
/// # Errors
/// Those of the library.
pub fn tag<B: Backend>(model: &Model<B>, corpus: &Corpus, run: &Run) -> Result<Vec<Vec<usize>>> {
    let mut paths = vec![Vec::new(); corpus.sentences.len()];
    for batch in corpus.batches(64) {
        let read = sentences::<B>(corpus, &batch, &model.device);
        let (emissions, states) =
            encoder::chain(&model.parameters, &model.config, model.gpt2.as_ref(), &read);
        let chain = library_chain(&emissions, &states)?;
        let best = ForwardBackward::default().map(&chain, run)?.value;
        for (i, path) in batch.into_iter().zip(best) {
            paths[i] = path.states;
        }
    }
    Ok(paths)
}

/// A new sentence: words and their states, the end left out.
pub type NewSentence = Vec<(u32, usize)>;

/// New sentences of at most `limit` words.
pub fn generate<B: Backend>(model: &Model<B>, count: usize, limit: usize, seed: u64) -> Vec<NewSentence> {
    let mut random = Streams::new(seed, "new sentences").block(0);
    let mut found = vec![NewSentence::new(); count];
    let mut open = vec![true; count];
    let device = &model.device;
    let numbers = |list: Vec<i64>| Tensor::<B, 1, Int>::from_data(TensorData::new(list, [count]), device);
    let mut generator = Generator::new(&model.parameters, count);
    let mut words = numbers(vec![i64::from(END); count]);
    let mut states: Option<Tensor<B, 1, Int>> = None;
    let mut draw = |logs: Tensor<B, 2>| -> Vec<usize> {
        let [rows, size] = logs.dims();
        let logs: Vec<f64> = logs.into_data().iter::<f64>().collect();
        let row = |k: usize| logs[k * size..(k + 1) * size].iter().map(|log| log.exp()).collect::<Vec<f64>>();
        (0..rows).map(|k| random.categorical(&row(k))).collect()
    };
    for _ in 0..limit {
        if open.iter().all(|open| !open) {
            break;
        }
        let own_states = draw(generator.states(&words, states.as_ref()));
        let as_numbers =
            |list: &[usize]| list.iter().map(|&x| i64::try_from(x).unwrap_or(0)).collect::<Vec<i64>>();
        let given = numbers(as_numbers(&own_states));
        let own_words = draw(generator.words(&given));
        for k in 0..count {
            open[k] = open[k] && own_words[k] != END as usize;
            if open[k] {
                found[k].push((own_words[k] as u32, own_states[k]));
            }
        }
        words = numbers(as_numbers(&own_words));
        states = Some(given);
    }
    found
}

/// How often each state occurs in one sample of the posterior of every sentence, of all states or of the chosen ones.
///
/// # Errors
/// Those of the library.
pub fn frequencies<B: Backend>(
    model: &Model<B>,
    corpus: &Corpus,
    sums: &Sums,
    run: &Run,
) -> Result<Vec<usize>> {
    let mut counts = vec![0; model.config.states];
    let streams = Streams::new(run.seed(), "frequencies of states");
    for (i, batch) in corpus.batches(SENTENCES).iter().enumerate() {
        let read = sentences::<B>(corpus, &whole(model.engine, batch, SENTENCES), &model.device);
        let (emissions, states) =
            encoder::chain(&model.parameters, &model.config, model.gpt2.as_ref(), &read);
        let run = run.clone().with_seed(streams.block(i as u64).bits());
        let drawn = sample(model.engine, sums, &emissions, &states, 1, &run)?;
        let [_, _, steps] = drawn.paths.dims();
        let states = drawn.paths.into_data();
        states.iter::<i64>().take(batch.len() * steps).for_each(|state| counts[state as usize] += 1);
    }
    Ok(counts)
}

/// The words most often seen with each state that occurs, by frequency of the state.
pub fn describe(
    paths: &[Vec<usize>],
    corpus: &Corpus,
    vocabulary: &Vocabulary,
    most: usize,
) -> Vec<(usize, usize, Vec<String>)> {
    let mut seen: std::collections::BTreeMap<usize, std::collections::BTreeMap<u32, usize>> =
        Default::default();
    for (path, sentence) in paths.iter().zip(&corpus.sentences) {
        for (&state, &word) in path.iter().zip(sentence) {
            *seen.entry(state).or_default().entry(word).or_default() += 1;
        }
    }
    let mut list: Vec<(usize, usize, Vec<String>)> = seen
        .into_iter()
        .map(|(state, words)| {
            let total = words.values().sum();
            let mut words: Vec<(u32, usize)> = words.into_iter().collect();
            words.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
            let words =
                words.into_iter().take(most).map(|(word, _)| vocabulary.words()[word as usize].clone());
            (state, total, words.collect())
        })
        .collect();
    list.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    list
}
