//! Text files: one sentence per line, words separated by spaces; plain, `.gz` or `.zst`; `-` is the standard
//! input. Lines without words are skipped.
//!
//! One thread reads blocks of whole lines and all others count them; memory is proportional to the number of
//! distinct words and pairs. The counts do not depend on how the text is split, so the counts of several
//! files can be merged ([`Counts::merge`]).

use std::path::Path;

use crate::error::{Error, Result};
use crate::io::blocks::{Block, Blocks, share_out};
use crate::io::table::dictionary::Dictionary;
use crate::learn::language::{Counts, PairTable, Vocabulary};
use crate::run::Run;
use crate::units;

/// The counts of one thread. Code 0 is the separator.
struct Worker {
    dictionary: Dictionary,
    counts: Vec<u64>,
    pairs: Vec<PairTable>,
    lengths: Vec<u64>,
    sentence: Vec<u32>,
}

impl Worker {
    fn new(context: usize) -> Self {
        Worker {
            dictionary: Dictionary::new(&[]),
            counts: vec![0],
            pairs: vec![PairTable::default(); context],
            lengths: Vec::new(),
            sentence: Vec::new(),
        }
    }

    fn take(&mut self, block: &Block, name: &str, run: &Run) -> Result<()> {
        check_text(block, name)?;
        for line in block.bytes.split(|&byte| byte == b'\n') {
            self.sentence.clear();
            for word in line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()) {
                let code = self.dictionary.code(word) + 1;
                match self.counts.get_mut(code as usize) {
                    Some(count) => *count += 1,
                    None => self.counts.push(1),
                }
                self.sentence.push(code);
            }
            self.end();
        }
        let bytes = self.pairs.iter().map(PairTable::bytes).sum::<f64>() * (run.threads() + 1) as f64;
        if bytes > run.memory() as f64 {
            return Err(Error::OverBudget {
                needs: format!(
                    "counting the different pairs of words takes more than {}",
                    units::bytes(bytes)
                ),
                budget: units::bytes(run.memory() as f64),
                fitting: Vec::new(),
            });
        }
        Ok(())
    }

    /// Counts the sentence. With K separators on either side, no pair spans two sentences.
    fn end(&mut self) {
        let sentence = &self.sentence;
        let length = sentence.len();
        if length == 0 {
            return;
        }
        if self.lengths.len() <= length {
            self.lengths.resize(length + 1, 0);
        }
        self.lengths[length] += 1;
        let context = self.pairs.len();
        for (i, pairs) in self.pairs.iter_mut().enumerate() {
            let apart = i + 1;
            let edge = apart.min(length);
            sentence[..edge].iter().for_each(|&word| pairs.add(0, word, 1));
            sentence.windows(apart + 1).for_each(|window| pairs.add(window[0], window[apart], 1));
            sentence[length - edge..].iter().for_each(|&word| pairs.add(word, 0, 1));
            if context > edge {
                pairs.add(0, 0, (context - edge) as u64);
            }
        }
    }

    fn counts(self) -> Counts {
        Counts::new(self.dictionary.states(), self.counts, self.pairs, self.lengths)
    }
}

fn check_text(block: &Block, name: &str) -> Result<()> {
    std::str::from_utf8(&block.bytes).map(|_| ()).map_err(|error| {
        let before = &block.bytes[..error.valid_up_to()];
        Error::Parse {
            source_name: name.into(),
            line: block.line + before.iter().filter(|&&byte| byte == b'\n').count(),
            message: format!("the byte {:#04x} is not UTF-8", block.bytes[error.valid_up_to()]),
        }
    })
}

fn shown(path: &Path) -> String {
    if path == Path::new("-") { "standard input".into() } else { path.display().to_string() }
}

/// Counts words and pairs of words at distances up to `context`, on all threads.
///
/// # Errors
/// If the file cannot be read, is not UTF-8, has a line of more than 64 MiB or has no words, or if the run is
/// cancelled or over its memory or time budget.
pub fn count(path: &Path, context: usize, run: &Run) -> Result<Counts> {
    let name = shown(path);
    let take = |worker: &mut Worker, block: &Block| worker.take(block, &name, run);
    let workers = share_out(Blocks::lines(path)?, run, || Worker::new(context), take)?;
    merged(workers, context, name)
}

/// Like [`count`], for a text in memory, in one thread.
///
/// # Errors
/// If the text has no words, or the counts exceed the memory budget.
///
/// ```
/// let counts = zhat::learn::language::text::count_text("a b a\nb a\n", 1, &zhat::Run::default())?;
/// assert_eq!((counts.tokens(), counts.sentences()), (5, 2));
/// # Ok::<(), zhat::Error>(())
/// ```
pub fn count_text(text: &str, context: usize, run: &Run) -> Result<Counts> {
    let mut worker = Worker::new(context);
    worker.take(&Block { bytes: text.into(), line: 1 }, "", run)?;
    merged(vec![worker], context, String::new())
}

/// Merges the counts of all threads.
fn merged(workers: Vec<Worker>, context: usize, name: String) -> Result<Counts> {
    let mut counts = Counts::new(Vec::new(), vec![0], vec![PairTable::default(); context], Vec::new());
    for worker in workers {
        counts.merge(worker.counts())?;
    }
    if counts.sentences() == 0 {
        return Err(Error::Parse { source_name: name, line: 0, message: "the text has no words".into() });
    }
    Ok(counts)
}

/// The sentences of a text as states of a vocabulary.
///
/// # Errors
/// If the file cannot be read or is not UTF-8, or a word is outside the vocabulary and the vocabulary has no
/// unknown word.
pub fn sentences(path: &Path, vocabulary: &Vocabulary) -> Result<Vec<Vec<u32>>> {
    let name = shown(path);
    let mut blocks = Blocks::lines(path)?;
    let mut sentences = Vec::new();
    while let Some(block) = blocks.next()? {
        add_sentences(&block, &name, vocabulary, &mut sentences)?;
    }
    Ok(sentences)
}

/// Like [`sentences`], for a text in memory.
///
/// # Errors
/// If a word is outside the vocabulary and the vocabulary has no unknown word.
pub fn sentences_of_text(text: &str, vocabulary: &Vocabulary) -> Result<Vec<Vec<u32>>> {
    let mut sentences = Vec::new();
    add_sentences(&Block { bytes: text.into(), line: 1 }, "", vocabulary, &mut sentences)?;
    Ok(sentences)
}

fn add_sentences(
    block: &Block,
    name: &str,
    vocabulary: &Vocabulary,
    sentences: &mut Vec<Vec<u32>>,
) -> Result<()> {
    check_text(block, name)?;
    for (i, line) in block.bytes.split(|&byte| byte == b'\n').enumerate() {
        let words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let states = words.map(|word| {
            let word = String::from_utf8_lossy(word);
            vocabulary.state_or_unknown(&word).map_err(|error| Error::Parse {
                source_name: name.into(),
                line: block.line + i,
                message: error.to_string(),
            })
        });
        let sentence = states.collect::<Result<Vec<u32>>>()?;
        if !sentence.is_empty() {
            sentences.push(sentence);
        }
    }
    Ok(())
}
