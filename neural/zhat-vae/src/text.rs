//! Sentences and vocabularies.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use zhat::random::Streams;

use crate::gpt2::Tokenizer;

/// The number of the word that stands for all unknown ones.
pub const UNKNOWN: u32 = 0;
/// The number of the mark at the end of a sentence.
pub const END: u32 = 1;

/// The words that a model knows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Vocabulary {
    words: Vec<String>,
    index: HashMap<String, u32>,
}

impl Vocabulary {
    /// From a list whose first two entries stand for unknown words and for the end.
    pub fn new(words: Vec<String>) -> Self {
        let index = words.iter().enumerate().map(|(i, word)| (word.clone(), i as u32)).collect();
        Vocabulary { words, index }
    }

    /// All words that occur at least `min_count` times, by frequency and then by name.
    pub fn count<'a>(sentences: impl Iterator<Item = &'a Vec<String>>, min_count: usize) -> Self {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for word in sentences.flatten() {
            *counts.entry(word).or_default() += 1;
        }
        let mut kept: Vec<(&str, usize)> = counts.into_iter().filter(|&(_, n)| n >= min_count).collect();
        kept.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        let first = ["<unk>", "</s>"].map(str::to_owned);
        let others = kept.into_iter().map(|(word, _)| word.to_owned()).filter(|word| !first.contains(word));
        Vocabulary::new(first.iter().cloned().chain(others.collect::<Vec<_>>()).collect())
    }

    /// The number of words.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// True if there are no words.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// All words.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// The number of a word.
    pub fn number(&self, word: &str) -> u32 {
        self.index.get(word).copied().unwrap_or(UNKNOWN)
    }
}

/// Splits a line into lower-case words and punctuation marks.
pub fn split(line: &str) -> Vec<String> {
    let (mut words, mut word) = (Vec::new(), String::new());
    for c in line.to_lowercase().chars() {
        if c.is_alphanumeric() || (!word.is_empty() && matches!(c, '\'' | '-')) {
            word.push(c);
            continue;
        }
        if !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if !c.is_whitespace() {
            words.push(c.to_string());
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// The lines of a file as words.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    /// The words of each line that has some, at most `limit` of them.
    pub sentences: Vec<Vec<String>>,
    /// GPT-2's numbers of the same pieces, if it reads the text.
    pub pieces: Vec<Vec<u32>>,
    /// How many lines were cut to the limit.
    pub cut: usize,
    /// The line of each sentence, from 0; lines without words have no sentence.
    pub places: Vec<usize>,
    /// The number of lines, those without words included.
    pub total: usize,
}

impl Lines {
    /// Reads one sentence per line.
    ///
    /// # Errors
    /// If the file cannot be read, is not UTF-8, or has no words.
    pub fn read(path: &Path, limit: usize, tokenizer: Option<&Tokenizer>) -> Result<Lines> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut lines = Lines::default();
        for (place, line) in text.lines().enumerate() {
            lines.total += 1;
            let (mut words, mut pieces) = match tokenizer {
                Some(tokenizer) => tokenizer.split(line.trim())?,
                None => (split(line), Vec::new()),
            };
            if words.is_empty() {
                continue;
            }
            lines.cut += usize::from(words.len() > limit);
            words.truncate(limit);
            pieces.truncate(limit);
            lines.sentences.push(words);
            lines.places.push(place);
            if let Some(tokenizer) = tokenizer {
                pieces.push(tokenizer.end());
                lines.pieces.push(pieces);
            }
        }
        if lines.sentences.is_empty() {
            bail!("{}: there are no sentences in it; expected one per line", path.display());
        }
        Ok(lines)
    }

    /// Prints how many sentences of a file were cut to the limit, if there are any.
    pub fn report(&self, path: &Path, limit: usize) {
        if self.cut > 0 {
            let unit = if self.pieces.is_empty() { "words" } else { "pieces" };
            eprintln!("{}: {} sentences were cut to {limit} {unit}", path.display(), self.cut);
        }
    }

    /// The sentences as numbers, each followed by [`END`].
    pub fn corpus(&self, vocabulary: &Vocabulary) -> Corpus {
        let number = |words: &Vec<String>| {
            words.iter().map(|word| vocabulary.number(word)).chain([END]).collect::<Vec<u32>>()
        };
        Corpus { sentences: self.sentences.iter().map(number).collect(), pieces: self.pieces.clone() }
    }
}

/// Sentences as numbers of words, each ending with [`END`].
#[derive(Clone, Debug, Default)]
pub struct Corpus {
    /// The sentences.
    pub sentences: Vec<Vec<u32>>,
    /// GPT-2's numbers of the same pieces; empty without it.
    pub pieces: Vec<Vec<u32>>,
}

impl Corpus {
    /// Numbers of words, the ends of sentences included.
    pub fn tokens(&self) -> usize {
        self.sentences.iter().map(Vec::len).sum()
    }

    /// Every `every`-th sentence, and the others.
    pub fn split(&self, every: usize) -> (Corpus, Corpus) {
        let part = |wanted: bool| {
            let of = |list: &[Vec<u32>]| {
                let kept = list.iter().enumerate().filter(|(i, _)| (i % every == every - 1) == wanted);
                kept.map(|(_, sentence)| sentence.clone()).collect::<Vec<_>>()
            };
            Corpus { sentences: of(&self.sentences), pieces: of(&self.pieces) }
        };
        (part(true), part(false))
    }

    /// The first sentences.
    pub fn first(&self, count: usize) -> Corpus {
        let of = |list: &[Vec<u32>]| list[..count.min(list.len())].to_vec();
        Corpus { sentences: of(&self.sentences), pieces: of(&self.pieces) }
    }

    /// Batches of at most `size` sentences of the same length, in order of the corpus.
    pub fn batches(&self, size: usize) -> Vec<Vec<usize>> {
        let mut of_length: std::collections::BTreeMap<usize, Vec<usize>> = Default::default();
        for (i, sentence) in self.sentences.iter().enumerate() {
            of_length.entry(sentence.len()).or_default().push(i);
        }
        of_length.values().flat_map(|list| list.chunks(size).map(<[usize]>::to_vec)).collect()
    }

    /// The same in random order, different in every epoch.
    pub fn shuffled(&self, size: usize, seed: u64, epoch: usize) -> Vec<Vec<usize>> {
        let mut random = Streams::new(seed, "order of sentences").block(epoch as u64);
        let mut order: Vec<usize> = (0..self.sentences.len()).collect();
        random.shuffle(&mut order);
        let mut of_length: std::collections::BTreeMap<usize, Vec<usize>> = Default::default();
        for i in order {
            of_length.entry(self.sentences[i].len()).or_default().push(i);
        }
        let mut batches: Vec<Vec<usize>> =
            of_length.values().flat_map(|list| list.chunks(size).map(<[usize]>::to_vec)).collect();
        random.shuffle(&mut batches);
        batches
    }
}
