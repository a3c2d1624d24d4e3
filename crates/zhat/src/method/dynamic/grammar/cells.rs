//! The words and spans of a group of sentences, numbered so that spans of equal width lie side by side.

use std::ops::Range;

/// A part of a sentence: a single word, or a span of at least two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The number of a word.
    Word(usize),
    /// The number of a span.
    Span(usize),
}

/// A span of at least two words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The place of the sentence in its group.
    pub sentence: usize,
    /// The first word.
    pub first: usize,
    /// The last word.
    pub last: usize,
}

/// The words and spans of a group of sentences. The *width* of a span is the number of its divisions: the
/// number of its words minus one.
#[derive(Clone, Debug)]
pub struct Cells {
    lengths: Vec<usize>,
    /// The number of the first word of each sentence, and the number of all words.
    words: Vec<usize>,
    /// The number of the first span of every width and sentence, and the number of all spans.
    spans: Vec<usize>,
    longest: usize,
}

impl Cells {
    pub fn new(lengths: Vec<usize>) -> Self {
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let mut words = vec![0];
        for &length in &lengths {
            words.push(words[words.len() - 1] + length);
        }
        let (mut spans, mut next) = (Vec::with_capacity(longest * lengths.len() + 1), 0);
        for width in 1..longest {
            for &length in &lengths {
                spans.push(next);
                next += length.saturating_sub(width);
            }
        }
        spans.push(next);
        Cells { lengths, words, spans, longest }
    }

    /// The number of sentences.
    pub fn sentences(&self) -> usize {
        self.lengths.len()
    }

    /// The number of words of a sentence.
    pub fn length(&self, sentence: usize) -> usize {
        self.lengths[sentence]
    }

    /// The largest number of words.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// The number of all words.
    pub fn word_count(&self) -> usize {
        self.words[self.lengths.len()]
    }

    /// The number of all spans.
    pub fn span_count(&self) -> usize {
        self.spans[self.spans.len() - 1]
    }

    /// The sentence and position of every word, in order.
    pub fn all_words(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        (0..self.sentences()).flat_map(|sentence| (0..self.lengths[sentence]).map(move |i| (sentence, i)))
    }

    /// The number of the words i … j.
    #[inline]
    pub fn part(&self, sentence: usize, i: usize, j: usize) -> Part {
        if i == j {
            Part::Word(self.words[sentence] + i)
        } else {
            Part::Span(self.spans[(j - i - 1) * self.lengths.len() + sentence] + i)
        }
    }

    /// The numbers of the spans of a width.
    pub fn of_width(&self, width: usize) -> Range<usize> {
        let count = self.lengths.len();
        self.spans[(width - 1) * count]..self.spans[width * count]
    }

    /// The spans of a width, in order.
    pub fn list(&self, width: usize) -> Vec<Span> {
        let of = |sentence: usize| {
            (0..self.lengths[sentence].saturating_sub(width)).map(move |first| Span {
                sentence,
                first,
                last: first + width,
            })
        };
        (0..self.sentences()).flat_map(of).collect()
    }

    /// The span that is a whole sentence; `None` for a single word.
    pub fn whole(&self, sentence: usize) -> Part {
        self.part(sentence, 0, self.lengths[sentence] - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_a_width_lie_side_by_side() {
        let cells = Cells::new(vec![3, 1, 4]);
        assert_eq!((cells.word_count(), cells.span_count(), cells.longest()), (8, 3 + 6, 4));
        assert_eq!((cells.of_width(1), cells.of_width(2), cells.of_width(3)), (0..5, 5..8, 8..9));
        let mut seen = 0;
        for width in 1..4 {
            for (at, span) in cells.of_width(width).zip(cells.list(width)) {
                assert_eq!(cells.part(span.sentence, span.first, span.last), Part::Span(at));
                assert_eq!(at, seen);
                seen += 1;
            }
        }
        assert_eq!(cells.part(2, 1, 1), Part::Word(5));
        assert_eq!(cells.whole(1), Part::Word(3));
        assert_eq!(Cells::new(vec![1]).span_count(), 0);
    }
}
