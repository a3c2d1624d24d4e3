//! The tags of a corpus and their numbers.

use std::collections::{BTreeSet, HashMap};

use super::Corpus;
use crate::error::{Error, Result};

/// A set of tags, numbered in alphabetical order.
///
/// ```
/// use zhat::learn::tag::TagSet;
/// let tags = TagSet::new(["VERB", "NOUN", "NOUN"])?;
/// assert_eq!((tags.len(), tags.number("VERB"), tags.number("ADV")), (2, Some(1), None));
/// # Ok::<(), zhat::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TagSet {
    names: Vec<String>,
    numbers: HashMap<String, u32>,
}

impl TagSet {
    /// The set of these tags; repeated ones count once.
    ///
    /// # Errors
    /// If there are no tags, a tag is empty, or there are more than 65,535.
    pub fn new<S: Into<String>>(tags: impl IntoIterator<Item = S>) -> Result<Self> {
        let names: Vec<String> =
            tags.into_iter().map(Into::into).collect::<BTreeSet<String>>().into_iter().collect();
        if names.is_empty() {
            return Err(Error::argument("tags", "there are none"));
        }
        if names[0].is_empty() {
            return Err(Error::argument("tags", "one of them is empty"));
        }
        if names.len() > usize::from(u16::MAX) {
            let message = format!("there are {}; at most 65535 are possible", names.len());
            return Err(Error::argument("tags", message));
        }
        let numbers = names.iter().cloned().zip(0..).collect();
        Ok(TagSet { names, numbers })
    }

    /// The tags of a corpus. Tokens without a tag are skipped.
    ///
    /// # Errors
    /// If no token has a tag, or there are more than 65,535 tags.
    pub fn of(corpus: &Corpus) -> Result<Self> {
        let mut found: BTreeSet<&str> = BTreeSet::new();
        for sentence in corpus.sentences() {
            found.extend((0..sentence.len()).filter_map(|i| sentence.tag(i)));
        }
        if found.is_empty() {
            let message = "no token has a tag; another column may have them";
            return Err(Error::argument(corpus.source_name(), message));
        }
        TagSet::new(found)
    }

    /// The number of tags.
    #[allow(clippy::len_without_is_empty)] // a set always has a tag
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// The tags, in alphabetical order.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The tag of this number.
    ///
    /// # Panics
    /// If there is no such number.
    pub fn name(&self, number: u32) -> &str {
        &self.names[number as usize]
    }

    /// The number of a tag, if it is in the set.
    pub fn number(&self, tag: &str) -> Option<u32> {
        self.numbers.get(tag).copied()
    }

    /// The numbers of the tags of all tokens of a corpus, one list per sentence; `None` for tokens without a
    /// tag and for tags that are not in the set.
    pub fn numbers(&self, corpus: &Corpus) -> Vec<Vec<Option<u32>>> {
        let of = |sentence: super::Sentence<'_>| {
            (0..sentence.len()).map(|i| sentence.tag(i).and_then(|tag| self.number(tag))).collect()
        };
        corpus.sentences().map(of).collect()
    }
}
