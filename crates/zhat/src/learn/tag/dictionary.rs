//! Numbers of strings.
//!
//! The strings lie one after the other in one text; a table of their numbers is searched with linear probing.
//! Memory: the length of the strings and 24 bytes each at most. Time: one hash and about one comparison per
//! lookup.

/// Marks a free slot.
const FREE: u32 = u32::MAX;

/// Numbers strings in the order in which they are added, and counts them.
///
/// ```
/// use zhat::learn::tag::Dictionary;
/// let mut words = Dictionary::default();
/// for word in ["a", "b", "a"] {
///     words.add(word);
/// }
/// assert_eq!((words.len(), words.find("b"), words.find("c")), (2, Some(1), None));
/// assert_eq!((words.name(0), words.count(0)), ("a", 2));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Dictionary {
    text: String,
    /// The end of every string in the text.
    ends: Vec<usize>,
    counts: Vec<u32>,
    slots: Vec<u32>,
}

/// A hash of a string that is the same on every machine and in every run.
pub(crate) fn hash(text: &str) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, word: u64| {
        let product = u128::from(hash ^ word) * u128::from(FACTOR);
        (product as u64) ^ ((product >> 64) as u64)
    };
    let (words, rest) = text.as_bytes().as_chunks::<8>();
    let mut state = words.iter().fold(text.len() as u64, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    state = mix(state, u64::from_le_bytes(last));
    mix(state, FACTOR)
}

impl Dictionary {
    /// The number of strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The string of this number.
    ///
    /// # Panics
    /// If there is no such number.
    pub fn name(&self, number: u32) -> &str {
        let number = number as usize;
        let start = if number == 0 { 0 } else { self.ends[number - 1] };
        &self.text[start..self.ends[number]]
    }

    /// How often the string was added.
    ///
    /// # Panics
    /// If there is no such number.
    pub fn count(&self, number: u32) -> u32 {
        self.counts[number as usize]
    }

    /// The strings in the order of their numbers.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        (0..self.len() as u32).map(|number| self.name(number))
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.text.len() + 8 * self.ends.len() + 4 * (self.counts.len() + self.slots.len())
    }

    /// The slot of a string, or the free slot where it would be.
    fn slot(&self, text: &str) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = hash(text) as usize & mask;
        while self.slots[at] != FREE && self.name(self.slots[at]) != text {
            at = (at + 1) & mask;
        }
        at
    }

    /// The number of a string, if it was added.
    pub fn find(&self, text: &str) -> Option<u32> {
        if self.slots.is_empty() {
            return None;
        }
        let number = self.slots[self.slot(text)];
        (number != FREE).then_some(number)
    }

    /// The number of a string, which is added if it is new; counts it.
    pub fn add(&mut self, text: &str) -> u32 {
        if 2 * (self.len() + 1) > self.slots.len() {
            self.grow();
        }
        let at = self.slot(text);
        let number = match self.slots[at] {
            FREE => {
                let number = self.len() as u32;
                self.slots[at] = number;
                self.text.push_str(text);
                self.ends.push(self.text.len());
                self.counts.push(0);
                number
            }
            number => number,
        };
        let count = &mut self.counts[number as usize];
        *count = count.saturating_add(1);
        number
    }

    fn grow(&mut self) {
        self.slots = vec![FREE; (2 * self.slots.len()).max(64)];
        for number in 0..self.len() as u32 {
            let at = self.slot(self.name(number));
            self.slots[at] = number;
        }
    }

    /// The dictionary of the strings for which `keep` is true, in the same order, and the new number of every
    /// string. `keep` receives a string and its count.
    pub fn filtered(&self, keep: impl Fn(&str, u32) -> bool) -> (Self, Vec<Option<u32>>) {
        let mut kept = Dictionary::default();
        let numbers = (0..self.len() as u32).map(|old| {
            let (name, count) = (self.name(old), self.count(old));
            keep(name, count).then(|| {
                let new = kept.add(name);
                kept.counts[new as usize] = count;
                new
            })
        });
        let numbers = numbers.collect();
        (kept, numbers)
    }
}

impl PartialEq for Dictionary {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text && self.ends == other.ends
    }
}

impl<'a> FromIterator<&'a str> for Dictionary {
    fn from_iter<I: IntoIterator<Item = &'a str>>(strings: I) -> Self {
        let mut made = Dictionary::default();
        strings.into_iter().for_each(|text| {
            made.add(text);
        });
        made
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn a_dictionary_agrees_with_a_map() {
        let (mut own, mut map) = (Dictionary::default(), HashMap::<String, (u32, u32)>::new());
        assert_eq!((own.find(""), own.is_empty()), (None, true));
        let mut state = 1u64;
        for _ in 0..5000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let text = "ab\u{e9}".repeat((state >> 60) as usize) + &((state >> 33) % 700).to_string();
            let next = map.len() as u32;
            let entry = map.entry(text.clone()).or_insert((next, 0));
            entry.1 += 1;
            assert_eq!(own.add(&text), entry.0);
        }
        assert_eq!(own.len(), map.len());
        for (text, (number, count)) in &map {
            assert_eq!(
                (own.find(text), own.name(*number), own.count(*number)),
                (Some(*number), text.as_str(), *count)
            );
        }
        let (few, numbers) = own.filtered(|_, count| count >= 5);
        for (old, new) in numbers.iter().enumerate() {
            let expected = own.count(old as u32) >= 5;
            assert_eq!(new.is_some(), expected);
            if let Some(new) = new {
                assert_eq!((few.name(*new), few.count(*new)), (own.name(old as u32), own.count(old as u32)));
            }
        }
    }
}
