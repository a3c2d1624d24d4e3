//! A text as one sequence of states, and the positions that are predicted.

/// Concatenated sentences with K separators before, between and after them; or a cycle, with one separator
/// after each sentence.
pub(super) struct Windows {
    states: Vec<u32>,
    /// The positions of words and of the separators that end sentences.
    places: Vec<u32>,
    words: usize,
}

impl Windows {
    pub fn new(sentences: &[Vec<u32>], context: usize) -> Self {
        let words: usize = sentences.iter().map(Vec::len).sum();
        let mut states = vec![0; context];
        let mut places = Vec::with_capacity(words + sentences.len());
        for sentence in sentences {
            let first = states.len() as u32;
            places.extend(first..=first + sentence.len() as u32);
            states.extend_from_slice(sentence);
            states.resize(states.len() + context, 0);
        }
        // The last sentence also needs context after its end.
        states.resize(states.len() + context, 0);
        Windows { states, places, words }
    }

    /// The text as a cycle: every position is predicted, and the first positions follow the last ones.
    pub fn cycle(sentences: &[Vec<u32>], context: usize) -> Self {
        let words: usize = sentences.iter().map(Vec::len).sum();
        let length = words + sentences.len();
        let mut states = Vec::with_capacity(length + 2 * context);
        states.resize(context, 0);
        for sentence in sentences {
            states.extend_from_slice(sentence);
            states.push(0);
        }
        // A cycle shorter than the context is repeated.
        for l in 1..=context.min(length * context) {
            states[context - l] = states[context + length - 1 - (l - 1) % length];
        }
        for i in 0..if length > 0 { context } else { 0 } {
            states.push(states[context + i % length]);
        }
        Windows { places: (context as u32..(context + length) as u32).collect(), states, words }
    }

    /// The memory for a text of this many words and sentences, in bytes.
    pub fn bytes(words: usize, sentences: usize, context: usize) -> f64 {
        4.0 * (2 * words + sentences * (context + 1)) as f64
    }

    pub fn places(&self) -> &[u32] {
        &self.places
    }

    /// The number of words, without the ends of sentences.
    pub fn words(&self) -> usize {
        self.words
    }

    pub fn at(&self, place: u32) -> usize {
        self.states[place as usize] as usize
    }

    /// The state this many positions before.
    pub fn before(&self, place: u32, apart: usize) -> usize {
        self.states[place as usize - apart] as usize
    }

    /// The state this many positions after.
    pub fn behind(&self, place: u32, apart: usize) -> usize {
        self.states[place as usize + apart] as usize
    }
}
