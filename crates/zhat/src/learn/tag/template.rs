//! Which attributes of a token a tagger uses.
//!
//! A template is a list of items, separated by spaces:
//!
//! | item | attributes |
//! |---|---|
//! | `appendix-b` or `appendix-b:L` | [`features`](super::features) of the L nearest words (odd; 1 by default) |
//! | `chunking` | CRFsuite's benchmark: words and column 2 in a window of ±2, their bigrams and trigrams |
//! | `attributes` | the attributes of the file (CRFsuite's format) |
//! | `w[m]` | the word at offset m |
//! | `c2[m]` | column 2 at offset m |
//! | `w[-1]\|w[0]` | a conjunction |
//! | `bias` | the same attribute for every token |
//! | `ends:K` | `tag[-k]=<S>` and `tag[k]=<S>`, k ≤ K, if the tag at that distance is beyond the sentence |
//!
//! An item that reaches beyond the sentence has no attribute. Templates with offsets also have `__BOS__` and
//! `__EOS__` for the first and last token.

use std::borrow::Cow;
use std::fmt::Write;

use super::{Sentence, features};
use crate::error::{Error, Result};

/// One item of a template.
#[derive(Clone, Debug, PartialEq)]
enum Item {
    AppendixB {
        words: i32,
    },
    Attributes,
    Bias,
    /// Tags beyond the sentence, at distances up to this.
    Ends {
        tags: i32,
    },
    /// A conjunction of columns at offsets; column 0 is the word.
    Columns {
        name: String,
        parts: Vec<(usize, i32)>,
    },
}

/// The attributes of a token.
///
/// ```
/// use zhat::learn::tag::{Corpus, ReadOptions, Template};
/// let corpus = Corpus::parse("the_DT dog_NN\n".into(), "example", &ReadOptions::default())?;
/// let template = Template::parse("w[0] w[-1]|w[0]")?;
/// let mut found = Vec::new();
/// template.each(&corpus.sentence(0), 1, &mut |name, weight| found.push((name.to_owned(), weight)))?;
/// assert_eq!(found[0], ("w[0]=dog".into(), 1.0));
/// assert_eq!(found[1], ("w[-1]|w[0]=the|dog".into(), 1.0));
/// assert_eq!(found[2], ("__EOS__".into(), 1.0));
/// # Ok::<(), zhat::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    text: String,
    items: Vec<Item>,
}

/// The offsets of CRFsuite's benchmark: conjunctions of the column in a window.
const CHUNKING: &str = "w[-2] w[-1] w[0] w[1] w[2] w[-1]|w[0] w[0]|w[1] c2[-2] c2[-1] c2[0] c2[1] c2[2] \
    c2[-2]|c2[-1] c2[-1]|c2[0] c2[0]|c2[1] c2[1]|c2[2] c2[-2]|c2[-1]|c2[0] c2[-1]|c2[0]|c2[1] c2[0]|c2[1]|c2[2]";

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// If it is empty or an item is unknown.
    pub fn parse(text: &str) -> Result<Self> {
        let mut items = Vec::new();
        for item in text.split_whitespace() {
            match item {
                "chunking" => {
                    for item in CHUNKING.split_whitespace() {
                        items.push(Item::columns(item)?);
                    }
                }
                "attributes" => items.push(Item::Attributes),
                "bias" => items.push(Item::Bias),
                "appendix-b" => items.push(Item::AppendixB { words: 1 }),
                "ends:1" => items.push(Item::Ends { tags: 1 }),
                "ends:2" => items.push(Item::Ends { tags: 2 }),
                other => match other.strip_prefix("appendix-b:") {
                    Some(words) => {
                        let number = words.parse::<i32>().ok().filter(|n| (1..=99).contains(n) && n % 2 == 1);
                        let words = number.ok_or_else(|| {
                            let message = format!("expected an odd number of words from 1 to 99 in `{item}`");
                            Error::argument("features", message)
                        })?;
                        items.push(Item::AppendixB { words });
                    }
                    None => items.push(Item::columns(other)?),
                },
            }
        }
        if items.is_empty() {
            return Err(Error::argument("features", "the template is empty; `appendix-b` would work"));
        }
        Ok(Template { text: text.split_whitespace().collect::<Vec<_>>().join(" "), items })
    }

    /// The text of the template.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Calls `found` with every attribute of a token and its weight.
    ///
    /// # Errors
    /// If the token has no such column.
    pub fn each(
        &self,
        sentence: &Sentence<'_>,
        token: usize,
        found: &mut dyn FnMut(&str, f64),
    ) -> Result<()> {
        let mut scratch = String::new();
        let at = |offset: i32| {
            let place = token as i64 + i64::from(offset);
            (0..sentence.len() as i64).contains(&place).then_some(place as usize)
        };
        let mut offsets = false;
        for item in &self.items {
            match item {
                Item::AppendixB { words } => {
                    for offset in -(words / 2)..=words / 2 {
                        let word = at(offset).map_or(features::BOUNDARY, |place| sentence.word(place));
                        features::each(word, offset, &mut scratch, &mut |name| found(name, 1.0));
                    }
                }
                Item::Attributes => {
                    sentence.attributes(token).for_each(|(name, weight)| found(&name, weight));
                }
                Item::Bias => found("bias", 1.0),
                Item::Ends { tags } => {
                    for distance in (1..=*tags).flat_map(|k| [-k, k]).filter(|k| at(*k).is_none()) {
                        found(&features::end(distance), 1.0);
                    }
                }
                Item::Columns { name, parts } => {
                    offsets = true;
                    if parts.iter().any(|(_, offset)| at(*offset).is_none()) {
                        continue;
                    }
                    scratch.clear();
                    scratch.push_str(name);
                    for (i, (column, offset)) in parts.iter().enumerate() {
                        let place = at(*offset).unwrap_or(token);
                        let value = match column {
                            0 => Some(Cow::Borrowed(sentence.word(place))),
                            _ => sentence.field(place, *column),
                        };
                        let Some(value) = value else {
                            let message = format!("the features need column {column}, which the line lacks");
                            return Err(sentence.error(place, message));
                        };
                        // Writing to a string does not fail.
                        let _ = write!(scratch, "{}{value}", if i == 0 { '=' } else { '|' });
                    }
                    found(&scratch, 1.0);
                }
            }
        }
        if offsets && token == 0 {
            found("__BOS__", 1.0);
        }
        if offsets && token + 1 == sentence.len() {
            found("__EOS__", 1.0);
        }
        Ok(())
    }

    /// Whether a rare attribute of this name is dropped: with `appendix-b`, rare words lose only their word
    /// indicator.
    pub(crate) fn drops_rare(&self, name: &str) -> bool {
        let only = self.items.iter().any(|item| matches!(item, Item::AppendixB { .. }));
        !only || features::is_word_indicator(name)
    }
}

impl Item {
    fn columns(item: &str) -> Result<Self> {
        let part = |text: &str| -> Option<(usize, i32)> {
            let (name, offset) = text.strip_suffix(']')?.split_once('[')?;
            let column = match name {
                "w" => 0,
                _ => name.strip_prefix('c')?.parse().ok().filter(|column| *column >= 1)?,
            };
            Some((column, offset.parse().ok().filter(|offset: &i32| offset.abs() <= 1000)?))
        };
        let parts: Option<Vec<(usize, i32)>> = item.split('|').map(part).collect();
        let parts = parts.ok_or_else(|| {
            let message = format!(
                "unknown item `{item}`; known are appendix-b, appendix-b:L, chunking, attributes, bias, ends:1, ends:2, and \
                 words and columns with offsets such as w[0], c2[-1] and w[-1]|w[0]"
            );
            Error::argument("features", message)
        })?;
        Ok(Item::Columns { name: item.to_owned(), parts })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Corpus, ReadOptions};
    use super::*;

    fn all(template: &str, text: &str, token: usize) -> Vec<String> {
        let corpus = Corpus::parse(text.into(), "file", &ReadOptions::default()).unwrap();
        let mut found = Vec::new();
        let template = Template::parse(template).unwrap();
        template.each(&corpus.sentence(0), token, &mut |name, _| found.push(name.to_owned())).unwrap();
        found
    }

    #[test]
    fn the_benchmark_of_crfsuite() {
        let text = "He PRP B-NP\nreckons VBZ B-VP\nthe DT B-NP\n";
        let expected = "w[0]=He w[1]=reckons w[2]=the w[0]|w[1]=He|reckons c2[0]=PRP c2[1]=VBZ c2[2]=DT \
            c2[0]|c2[1]=PRP|VBZ c2[1]|c2[2]=VBZ|DT c2[0]|c2[1]|c2[2]=PRP|VBZ|DT __BOS__";
        assert_eq!(all("chunking", text, 0).join(" "), expected);
        assert_eq!(all("appendix-b:3 bias", text, 0)[..2], ["w[-1]=<S>", "w[0]=He"]);
        assert_eq!(all("ends:2", text, 0), ["tag[-1]=<S>", "tag[-2]=<S>"]);
        assert_eq!(all("ends:2", text, 1), ["tag[-2]=<S>", "tag[2]=<S>"]);
        assert_eq!(all("ends:1", text, 2), ["tag[1]=<S>"]);
        assert_eq!(all("attributes", "A\tx=1:2\ty=2\n", 0), ["x=1", "y=2"]);
    }

    #[test]
    fn bad_templates() {
        for wrong in ["", "appendix-b:2", "w", "c0[1]", "x[1]", "w[1]|", "w[99999]"] {
            assert!(Template::parse(wrong).unwrap_err().to_string().contains("features"), "{wrong}");
        }
        let corpus = Corpus::parse("a B\n".into(), "f", &ReadOptions::default()).unwrap();
        let error =
            Template::parse("c3[0]").unwrap().each(&corpus.sentence(0), 0, &mut |_, _| {}).unwrap_err();
        assert_eq!(
            error.to_string(),
            "f: line 1: token 1 `a`: the features need column 3, which the line lacks"
        );
    }
}
