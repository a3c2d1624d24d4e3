//! A corpus from lists of words and tags.

use super::{Bytes, Corpus, Format, Place};
use crate::error::{Error, Result};

impl Corpus {
    /// A corpus of sentences in memory, each a list of words with tags; lines are the numbers of sentences, and
    /// sentences without words are skipped.
    ///
    /// # Errors
    /// If there is no word, or there are more than 2 GiB.
    ///
    /// ```
    /// use zhat::learn::tag::Corpus;
    /// let corpus = Corpus::from_lists([vec![("the", Some("DT")), ("dog", None)]])?;
    /// assert_eq!((corpus.sentence(0).word(1), corpus.sentence(0).tag(1)), ("dog", None));
    /// # Ok::<(), zhat::Error>(())
    /// ```
    pub fn from_lists<'a, S>(sentences: impl IntoIterator<Item = S>) -> Result<Self>
    where
        S: IntoIterator<Item = (&'a str, Option<&'a str>)>,
    {
        let mut corpus = Corpus {
            source_name: "sentences".into(),
            text: String::new(),
            file: 0,
            format: Format::Words,
            separator: ' ',
            inserts: false,
            places: Vec::new(),
            ends: Vec::new(),
            header: None,
        };
        for (number, sentence) in sentences.into_iter().enumerate() {
            for (word, tag) in sentence {
                let start = corpus.text.len();
                corpus.text.push_str(word);
                let middle = corpus.text.len();
                corpus.text.push_str(tag.unwrap_or_default());
                let end = corpus.text.len();
                if end > (u32::MAX / 2) as usize {
                    return Err(Error::argument("sentences", "have more than 2 GiB of words and tags"));
                }
                let (word, tag) = (Bytes::new(start..middle), Bytes::new(middle..end));
                corpus.places.push(Place { line: number as u32 + 1, row: word, word, tag, write: tag });
            }
            corpus.end_sentence();
        }
        if corpus.ends.is_empty() {
            return Err(Error::argument("sentences", "have no words"));
        }
        corpus.file = corpus.text.len();
        Ok(corpus)
    }
}
