//! Measures of predicted tags.
//!
//! Accuracy of all tokens, and of words that the training data have and have not; precision, recall and F1 of every
//! tag; the confusion matrix; and for tags that mark spans (`B-NP`, `I-NP`, `O`, also with `E-` and `S-`) precision,
//! recall and F1 of whole spans, counted as CoNLL's evaluation script counts them.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Corpus, Dictionary};
use crate::error::{Error, Result};
use crate::units;

/// Counts of one tag, or of one type of spans.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TagCounts {
    /// The tag.
    pub tag: String,
    /// How often it is observed.
    pub observed: usize,
    /// How often it is predicted.
    pub predicted: usize,
    /// How often it is predicted where it is observed.
    pub correct: usize,
}

impl TagCounts {
    /// Share of the predicted ones that are correct; 0 if there are none.
    pub fn precision(&self) -> f64 {
        share(self.correct, self.predicted)
    }

    /// Share of the observed ones that are found; 0 if there are none.
    pub fn recall(&self) -> f64 {
        share(self.correct, self.observed)
    }

    /// The harmonic mean of precision and recall.
    pub fn f1(&self) -> f64 {
        share(2 * self.correct, self.predicted + self.observed)
    }
}

fn share(part: usize, all: usize) -> f64 {
    if all == 0 { 0.0 } else { part as f64 / all as f64 }
}

/// Correct and all tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Hits {
    /// The number of correct tokens.
    pub correct: usize,
    /// The number of tokens.
    pub all: usize,
}

impl Hits {
    /// The share of correct tokens; 0 if there are none.
    pub fn accuracy(&self) -> f64 {
        share(self.correct, self.all)
    }

    fn add(&mut self, correct: bool) {
        self.all += 1;
        self.correct += usize::from(correct);
    }
}

/// Measures of predicted tags.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Evaluation {
    /// All tokens with an observed tag.
    pub total: Hits,
    /// Tokens whose word the training data have, if that is known.
    pub seen: Option<Hits>,
    /// Tokens whose word they do not have.
    pub unseen: Option<Hits>,
    /// Sentences without an error.
    pub sentences: Hits,
    /// Tokens whose observed tag the tagger does not have.
    pub unseen_tags: usize,
    /// One entry per tag, in alphabetical order.
    pub tags: Vec<TagCounts>,
    /// Observed tag, predicted tag, and how often; in alphabetical order.
    pub confusion: Vec<(String, String, usize)>,
    /// All spans, if the tags mark spans.
    pub spans: Option<TagCounts>,
    /// One entry per type of spans.
    pub span_types: Vec<TagCounts>,
}

/// A tag as its position in a span and its type; `O` has none.
fn position(tag: &str) -> Option<(char, &str)> {
    let (first, rest) = tag.split_once('-')?;
    let letter = first.chars().next().filter(|letter| "BIES".contains(*letter) && first.len() == 1)?;
    Some((letter, rest))
}

/// The spans of a sequence of tags: first token, end, type.
///
/// ```
/// use zhat::learn::tag::spans;
/// assert_eq!(spans(&["B-NP", "I-NP", "O", "I-VP", "B-VP"]), [(0, 2, "NP"), (3, 4, "VP"), (4, 5, "VP")]);
/// ```
pub fn spans<'a>(tags: &[&'a str]) -> Vec<(usize, usize, &'a str)> {
    let mut found: Vec<(usize, usize, &'a str)> = Vec::new();
    let mut open: Option<(usize, &'a str)> = None;
    let mut before: Option<(char, &'a str)> = None;
    for (at, tag) in tags.iter().enumerate() {
        let now = position(tag);
        let continues = match (before, now) {
            (Some((last, kind)), Some((letter, own))) => {
                kind == own && matches!(last, 'B' | 'I') && matches!(letter, 'I' | 'E')
            }
            _ => false,
        };
        if !continues {
            if let Some((start, kind)) = open.take() {
                found.push((start, at, kind));
            }
            open = now.map(|(_, kind)| (at, kind));
        }
        before = now;
    }
    if let Some((start, kind)) = open {
        found.push((start, tags.len(), kind));
    }
    found
}

/// Compares predicted tags with those of a corpus; tokens without an observed tag are skipped. `seen` are the words
/// of the training data, `known` the tags of the tagger.
///
/// # Errors
/// If the numbers of sentences or tokens differ, or no token has a tag.
pub fn evaluate<S: AsRef<str>>(
    corpus: &Corpus,
    predicted: &[Vec<S>],
    seen: Option<&Dictionary>,
    known: impl Fn(&str) -> bool,
) -> Result<Evaluation> {
    if predicted.len() != corpus.len() {
        let message = format!("there are tags of {} sentences, expected {}", predicted.len(), corpus.len());
        return Err(Error::argument("predicted", message));
    }
    let mut result = Evaluation { seen: seen.map(|_| Hits::default()), ..Evaluation::default() };
    result.unseen = result.seen;
    let mut tags: BTreeMap<&str, TagCounts> = BTreeMap::new();
    let mut confusion: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut types: BTreeMap<&str, TagCounts> = BTreeMap::new();
    let mut marked = (0, 0);
    for (sentence, own) in corpus.sentences().zip(predicted) {
        if own.len() != sentence.len() {
            let message = format!(
                "sentence {} has {} for {}",
                sentence.number() + 1,
                units::count(own.len(), "tag"),
                units::count(sentence.len(), "token")
            );
            return Err(Error::argument("predicted", message));
        }
        let (mut gold, mut guess) = (Vec::new(), Vec::new());
        for (token, tag) in own.iter().enumerate() {
            let Some(observed) = sentence.tag(token) else { continue };
            let tag = tag.as_ref();
            let correct = tag == observed;
            result.total.add(correct);
            if let (Some(words), Some(yes), Some(no)) = (seen, &mut result.seen, &mut result.unseen) {
                let place = if words.find(sentence.word(token)).is_some() { yes } else { no };
                place.add(correct);
            }
            result.unseen_tags += usize::from(!known(observed));
            tags.entry(observed).or_default().observed += 1;
            tags.entry(tag).or_default().predicted += 1;
            tags.entry(tag).or_default().correct += usize::from(correct);
            *confusion.entry((observed, tag)).or_default() += 1;
            marked.0 += usize::from(position(observed).is_some());
            marked.1 += usize::from(position(observed).is_none() && observed != "O");
            gold.push(observed);
            guess.push(tag);
        }
        if !gold.is_empty() {
            result.sentences.add(gold == guess);
        }
        let (gold, guess) = (spans(&gold), spans(&guess));
        for span in &gold {
            types.entry(span.2).or_default().observed += 1;
        }
        let mut rest = gold.iter().peekable();
        for span in &guess {
            let counts = types.entry(span.2).or_default();
            counts.predicted += 1;
            while rest.peek().is_some_and(|other| other.0 < span.0) {
                rest.next();
            }
            counts.correct += usize::from(rest.peek() == Some(&span));
        }
    }
    if result.total.all == 0 {
        return Err(Error::argument(corpus.source_name(), "no token has a tag to compare with"));
    }
    let named = |(tag, counts): (&str, TagCounts)| TagCounts { tag: tag.to_owned(), ..counts };
    result.tags = tags.into_iter().map(named).collect();
    let entry = |((a, b), count): ((&str, &str), usize)| (a.to_owned(), b.to_owned(), count);
    result.confusion = confusion.into_iter().map(entry).collect();
    if marked.0 > 0 && marked.1 == 0 {
        let sum = |of: fn(&TagCounts) -> usize| types.values().map(of).sum();
        result.spans = Some(TagCounts {
            tag: "all".into(),
            observed: sum(|counts| counts.observed),
            predicted: sum(|counts| counts.predicted),
            correct: sum(|counts| counts.correct),
        });
        result.span_types = types.into_iter().map(named).collect();
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::super::ReadOptions;
    use super::*;

    #[test]
    fn measures_agree_with_values_by_hand() {
        let text = "a B-NP\nb I-NP\nc O\nd B-VP\n\nx B-NP\ny _\nz B-PP\n";
        let corpus = Corpus::parse(text.into(), "f", &ReadOptions::default()).unwrap();
        let predicted = [vec!["B-NP", "I-NP", "B-VP", "B-VP"], vec!["B-NP", "O", "O"]];
        let seen: Dictionary = ["a", "b", "c"].into_iter().collect();
        let found = evaluate(&corpus, &predicted, Some(&seen), |tag| tag != "B-PP").unwrap();
        assert_eq!(found.total, Hits { correct: 4, all: 6 });
        assert_eq!(found.seen, Some(Hits { correct: 2, all: 3 }));
        assert_eq!(found.unseen, Some(Hits { correct: 2, all: 3 }));
        assert_eq!((found.sentences, found.unseen_tags), (Hits { correct: 0, all: 2 }, 1));
        let all = found.spans.unwrap();
        assert_eq!((all.observed, all.predicted, all.correct), (4, 4, 3));
        assert_eq!((all.precision(), all.recall(), all.f1()), (0.75, 0.75, 0.75));
        assert!(found.confusion.contains(&("O".into(), "B-VP".into(), 1)));
        let vp = found.tags.iter().find(|tag| tag.tag == "B-VP").unwrap();
        assert_eq!((vp.observed, vp.predicted, vp.correct), (1, 2, 1));
        assert!(evaluate(&corpus, &predicted[..1], None, |_| true).is_err());
    }

    #[test]
    fn spans_as_conll_counts_them() {
        assert_eq!(spans(&["I-A", "I-A", "I-B", "B-B"]), [(0, 2, "A"), (2, 3, "B"), (3, 4, "B")]);
        assert_eq!(spans(&["S-A", "B-A", "E-A", "I-A"]), [(0, 1, "A"), (1, 3, "A"), (3, 4, "A")]);
        assert_eq!(spans(&["O", "NN", "B-x-y"]), [(2, 3, "x-y")]);
        assert!(spans(&[]).is_empty());
    }
}
