//! Sentences as lists of numbered attributes.

use std::collections::HashSet;

use super::dictionary::hash;
use super::{Corpus, Dictionary, Format, TagSet, Template};
use crate::error::{Error, Result};

/// The tag of a token whose tag is not known.
pub(crate) const UNKNOWN: u16 = u16::MAX;
/// A bucket that no attribute of the training data has.
pub(crate) const UNUSED: u32 = u32::MAX;

/// Collisions are counted among at most this many attributes, so that the memory is bounded.
const MOST_HASHES: usize = 1 << 22;

/// Numbers of attributes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Names {
    /// One number per name.
    Listed(Dictionary),
    /// The number of the bucket of its hash, by bucket; `UNUSED` for buckets without parameters.
    Hashed { slots: Vec<u32> },
}

impl Names {
    /// The bucket of a name; the number of buckets is a power of two.
    fn bucket(name: &str, buckets: usize) -> u32 {
        (hash(name) >> 16) as u32 & (buckets - 1) as u32
    }

    /// The number of names or buckets.
    pub fn len(&self) -> usize {
        match self {
            Names::Listed(names) => names.len(),
            Names::Hashed { slots } => slots.len(),
        }
    }

    /// The number of an attribute that has parameters.
    pub fn find(&self, name: &str) -> Option<u32> {
        match self {
            Names::Listed(names) => names.find(name),
            Names::Hashed { slots } => {
                let number = slots[Names::bucket(name, slots.len()) as usize];
                (number != UNUSED).then_some(number)
            }
        }
    }

    /// The name of a number, for printing.
    pub fn name(&self, number: u32) -> String {
        match self {
            Names::Listed(names) => names.name(number).to_owned(),
            Names::Hashed { slots } => {
                let bucket = slots.iter().position(|slot| *slot == number).unwrap_or(0);
                format!("bucket {bucket}")
            }
        }
    }
}

/// Sentences as lists of numbered attributes, with the tags that are known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbered {
    /// The attributes of all tokens.
    pub items: Vec<u32>,
    /// Their weights; empty if all are 1.
    pub weights: Vec<f64>,
    /// The end of every token, in items.
    pub ends: Vec<usize>,
    /// The end of the attributes with rows, in items (see `Design`).
    pub splits: Vec<usize>,
    /// The tag of every token, or `UNKNOWN`.
    pub tags: Vec<u16>,
    /// The end of every sentence, in tokens.
    pub sentences: Vec<usize>,
}

impl Numbered {
    pub fn push(&mut self, number: u32, weight: f64) {
        if weight != 1.0 && self.weights.is_empty() {
            self.weights = vec![1.0; self.items.len()];
        }
        if weight != 1.0 || !self.weights.is_empty() {
            self.weights.push(weight);
        }
        self.items.push(number);
    }

    pub fn end_token(&mut self, tag: u16) {
        self.ends.push(self.items.len());
        self.splits.push(self.items.len());
        self.tags.push(tag);
    }

    pub fn end_sentence(&mut self) {
        self.sentences.push(self.ends.len());
    }

    pub fn tokens(&self) -> usize {
        self.ends.len()
    }

    pub fn sentence(&self, number: usize) -> std::ops::Range<usize> {
        let start = if number == 0 { 0 } else { self.sentences[number - 1] };
        start..self.sentences[number]
    }

    pub fn start(&self, token: usize) -> usize {
        if token == 0 { 0 } else { self.ends[token - 1] }
    }

    pub fn weight(&self, item: usize) -> f64 {
        self.weights.get(item).copied().unwrap_or(1.0)
    }

    pub fn bytes(&self) -> f64 {
        (4 * self.items.len() + 8 * (self.weights.len() + 2 * self.ends.len() + self.sentences.len())) as f64
    }

    /// Renumbers the attributes, drops those without a new number, and puts numbers below `dense` first in
    /// every token.
    pub fn renumber(&mut self, new: impl Fn(u32) -> Option<u32>, dense: u32) {
        let (mut write, mut read) = (0, 0);
        let mut others: Vec<(u32, f64)> = Vec::new();
        let weighted = !self.weights.is_empty();
        for token in 0..self.ends.len() {
            others.clear();
            while read < self.ends[token] {
                let weight = self.weight(read);
                match new(self.items[read]) {
                    Some(number) if number < dense => {
                        self.items[write] = number;
                        if weighted {
                            self.weights[write] = weight;
                        }
                        write += 1;
                    }
                    Some(number) => others.push((number, weight)),
                    None => {}
                }
                read += 1;
            }
            self.splits[token] = write;
            for (number, weight) in others.drain(..) {
                self.items[write] = number;
                if weighted {
                    self.weights[write] = weight;
                }
                write += 1;
            }
            self.ends[token] = write;
        }
        self.items.truncate(write);
        self.items.shrink_to_fit();
        if weighted {
            self.weights.truncate(write);
        }
    }
}

/// Tagged sentences for training, as attributes with weights.
///
/// ```
/// use zhat::learn::tag::Examples;
/// let mut examples = Examples::new(None)?;
/// examples.token([("w=dogs", 1.0), ("bias", 1.0)], "NOUN")?;
/// examples.token([("w=bark", 1.0), ("bias", 1.0)], "VERB")?;
/// examples.end_sentence();
/// assert_eq!((examples.len(), examples.tokens(), examples.attributes()), (1, 2, 3));
/// # Ok::<(), zhat::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Examples {
    pub(crate) numbered: Numbered,
    pub(crate) names: Names,
    pub(crate) tags: Dictionary,
    pub(crate) template: Option<Template>,
    /// The words, if the sentences are of a corpus with words.
    pub(crate) words: Option<Dictionary>,
    /// Distinct hashes, to count collisions.
    hashes: HashSet<u64>,
    buckets: HashSet<u32>,
}

impl Examples {
    /// No sentences yet. With `hash_bits`, attributes are numbered by a hash of this many bits, and their names
    /// are not kept.
    ///
    /// # Errors
    /// If the number of bits is not from 1 to 30.
    pub fn new(hash_bits: Option<u32>) -> Result<Self> {
        let names = match hash_bits {
            None => Names::Listed(Dictionary::default()),
            Some(bits) if (1..=30).contains(&bits) => Names::Hashed { slots: vec![UNUSED; 1 << bits] },
            Some(bits) => {
                return Err(Error::argument(
                    "hash_bits",
                    format!("{bits} is out of range; expected 1 to 30"),
                ));
            }
        };
        let (numbered, tags) = (Numbered::default(), Dictionary::default());
        Ok(Examples {
            numbered,
            names,
            tags,
            template: None,
            words: None,
            hashes: HashSet::new(),
            buckets: HashSet::new(),
        })
    }

    /// The same with the template that made the attributes, for files that the tagger is applied to.
    #[must_use]
    pub fn with_template(self, template: Template) -> Self {
        Examples { template: Some(template), ..self }
    }

    /// The same with the words of the sentences, by which an evaluation tells seen words from unseen ones.
    #[must_use]
    pub fn with_words<'a>(self, words: impl IntoIterator<Item = &'a str>) -> Self {
        Examples { words: Some(words.into_iter().collect()), ..self }
    }

    /// The sentences of a tagged corpus with the attributes of a template.
    ///
    /// # Errors
    /// If a token has no tag or lacks a column of the template.
    pub fn of(corpus: &Corpus, template: &Template, hash_bits: Option<u32>) -> Result<Self> {
        let mut made = Examples::new(hash_bits)?;
        made.template = Some(template.clone());
        made.extend(corpus, template)?;
        Ok(made)
    }

    /// Adds the sentences of a corpus.
    pub(crate) fn extend(&mut self, corpus: &Corpus, template: &Template) -> Result<()> {
        for sentence in corpus.sentences() {
            for token in 0..sentence.len() {
                let Some(tag) = sentence.tag(token) else {
                    let message = "it has no tag; every token of a training file needs one";
                    return Err(sentence.error(token, message));
                };
                template.each(&sentence, token, &mut |name, weight| self.push(name, weight))?;
                if corpus.format() != Format::Crfsuite {
                    self.words.get_or_insert_default().add(sentence.word(token));
                }
                self.end_token(tag)?;
            }
            self.end_sentence();
        }
        Ok(())
    }

    fn push(&mut self, name: &str, weight: f64) {
        let number = match &mut self.names {
            Names::Listed(names) => names.add(name),
            Names::Hashed { slots } => {
                let bucket = Names::bucket(name, slots.len());
                if self.hashes.len() < MOST_HASHES && self.hashes.insert(hash(name)) {
                    self.buckets.insert(bucket);
                }
                bucket
            }
        };
        self.numbered.push(number, weight);
    }

    fn end_token(&mut self, tag: &str) -> Result<()> {
        if tag.is_empty() {
            return Err(Error::argument("tags", "a tag is empty"));
        }
        let number = self.tags.add(tag);
        if number >= u32::from(UNKNOWN) {
            return Err(Error::argument("tags", "there are more than 65,535 different tags"));
        }
        self.numbered.end_token(number as u16);
        Ok(())
    }

    /// Adds a token to the last sentence: its attributes with their weights, and its tag.
    ///
    /// # Errors
    /// If a weight is not finite or the tag is empty.
    pub fn token<'a>(
        &mut self,
        attributes: impl IntoIterator<Item = (&'a str, f64)>,
        tag: &str,
    ) -> Result<()> {
        for (name, weight) in attributes {
            if !weight.is_finite() {
                let message = format!("the weight of `{name}` is {weight}, not a finite number");
                return Err(Error::argument("attributes", message));
            }
            self.push(name, weight);
        }
        self.end_token(tag)
    }

    /// Ends a sentence; one without tokens is skipped.
    pub fn end_sentence(&mut self) {
        if self.numbered.tokens() > self.numbered.sentences.last().copied().unwrap_or(0) {
            self.numbered.end_sentence();
        }
    }

    /// The number of sentences.
    pub fn len(&self) -> usize {
        self.numbered.sentences.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of tokens.
    pub fn tokens(&self) -> usize {
        self.numbered.tokens()
    }

    /// The number of different attributes; of buckets in use for hashed ones.
    pub fn attributes(&self) -> usize {
        match &self.names {
            Names::Listed(names) => names.len(),
            Names::Hashed { .. } => self.buckets.len(),
        }
    }

    /// Whether an attribute seen this many times is dropped: it is rare, and `appendix-b` does not keep it.
    pub(crate) fn drops(&self, attribute: u32, count: usize, min_count: usize) -> bool {
        count < min_count
            && match &self.names {
                Names::Listed(names) => {
                    let template = self.template.as_ref();
                    template.is_none_or(|template| template.drops_rare(names.name(attribute)))
                }
                Names::Hashed { .. } => true,
            }
    }

    /// The number of attributes that share a bucket with an earlier one, among the first 4,194,304.
    pub fn collisions(&self) -> usize {
        self.hashes.len() - self.buckets.len()
    }

    /// The tags in alphabetical order; the tags of the tokens are renumbered.
    pub(crate) fn sort_tags(&mut self) -> Result<TagSet> {
        let set = TagSet::new(self.tags.names())?;
        let new: Vec<u16> =
            self.tags.names().map(|name| set.number(name).map_or(UNKNOWN, |n| n as u16)).collect();
        self.numbered.tags.iter_mut().for_each(|tag| *tag = new[usize::from(*tag)]);
        self.tags = set.names().iter().map(String::as_str).collect();
        Ok(set)
    }
}
