//! Dictionary of the values of a column and their codes.

/// The code of a missing value.
pub(crate) const MISSING: u32 = u32::MAX;

/// Values in order of first occurrence, each with a code. Markers of missing values have the code
/// [`MISSING`], except quoted ones, which are ordinary text.
///
/// A hash table with open addressing, at most half full: with the few, short values of a column a lookup
/// takes a few nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Dictionary {
    values: Vec<(Box<[u8]>, u32)>,
    places: Vec<u32>,
    codes: u32,
    /// Indices of values that look like a marker; a plain lookup does not find them.
    literal: Vec<usize>,
}

const EMPTY: u32 = u32::MAX;

fn hash(value: &[u8]) -> u64 {
    let mut hash = value.len() as u64;
    for chunk in value.chunks(8) {
        let mut word = [0u8; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = (hash.rotate_left(5) ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    hash ^ (hash >> 29)
}

impl Dictionary {
    pub fn new(markers: &[String]) -> Self {
        let mut dictionary =
            Dictionary { values: Vec::new(), places: vec![EMPTY; 16], codes: 0, literal: Vec::new() };
        for marker in markers {
            if dictionary.find(marker.as_bytes()).is_none() {
                dictionary.insert(marker.as_bytes(), MISSING);
            }
        }
        dictionary
    }

    /// The number of states.
    pub fn len(&self) -> usize {
        self.codes as usize
    }

    /// The states, in the order of their codes.
    pub fn states(&self) -> Vec<String> {
        let states = self.values.iter().filter(|(_, code)| *code != MISSING);
        states.map(|(value, _)| String::from_utf8_lossy(value).into_owned()).collect()
    }

    #[inline]
    pub fn find(&self, value: &[u8]) -> Option<u32> {
        let mask = self.places.len() - 1;
        let mut at = hash(value) as usize & mask;
        loop {
            match self.places[at] {
                EMPTY => return None,
                place => {
                    let (own, code) = &self.values[place as usize];
                    if **own == *value {
                        return Some(*code);
                    }
                }
            }
            at = (at + 1) & mask;
        }
    }

    /// The code of quoted text, which may look like a marker; empty text is a missing value even if quoted.
    pub fn find_text(&self, value: &[u8]) -> Option<u32> {
        match self.find(value) {
            Some(MISSING) if !value.is_empty() => {
                let mut own = self.literal.iter().map(|&place| &self.values[place]);
                own.find(|(own, _)| **own == *value).map(|(_, code)| *code)
            }
            found => found,
        }
    }

    /// The code of quoted text; new text gets a new code.
    pub fn text_code(&mut self, value: &[u8]) -> u32 {
        if let Some(code) = self.find_text(value) {
            return code;
        }
        let code = self.codes;
        self.codes += 1;
        if self.find(value).is_some() {
            self.literal.push(self.values.len());
            self.values.push((value.into(), code));
        } else {
            self.insert(value, code);
        }
        code
    }

    /// The code of a value; a new value gets a new code.
    #[inline]
    pub fn code(&mut self, value: &[u8]) -> u32 {
        self.find(value).unwrap_or_else(|| {
            let code = self.codes;
            self.codes += 1;
            self.insert(value, code);
            code
        })
    }

    fn insert(&mut self, value: &[u8], code: u32) {
        self.values.push((value.into(), code));
        if 2 * self.values.len() > self.places.len() {
            self.places = vec![EMPTY; 4 * self.places.len()];
            (0..self.values.len())
                .filter(|i| !self.literal.contains(i))
                .collect::<Vec<_>>()
                .into_iter()
                .for_each(|i| self.place(i));
        } else {
            self.place(self.values.len() - 1);
        }
    }

    fn place(&mut self, i: usize) {
        let mask = self.places.len() - 1;
        let mut at = hash(&self.values[i].0) as usize & mask;
        while self.places[at] != EMPTY {
            at = (at + 1) & mask;
        }
        self.places[at] = i as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_codes() {
        let mut dictionary = Dictionary::new(&["?".into(), String::new()]);
        let values: Vec<String> = (0..5000).map(|i| format!("value {}", i % 1234)).collect();
        for value in &values {
            let code = dictionary.code(value.as_bytes());
            assert_eq!(dictionary.find(value.as_bytes()), Some(code));
        }
        assert_eq!(dictionary.len(), 1234);
        assert_eq!(dictionary.code(b"?"), MISSING);
        assert_eq!(dictionary.states()[7], "value 7");
        assert_eq!(dictionary.find(b"other"), None);
    }

    #[test]
    fn a_quoted_marker_is_text() {
        let mut dictionary = Dictionary::new(&["NA".into(), String::new()]);
        assert_eq!((dictionary.code(b"NA"), dictionary.text_code(b"x")), (MISSING, 0));
        assert_eq!(
            (dictionary.text_code(b"NA"), dictionary.text_code(b"NA"), dictionary.code(b"NA")),
            (1, 1, MISSING)
        );
        assert_eq!((dictionary.text_code(b""), dictionary.find_text(b"")), (MISSING, Some(MISSING)));
        // Many more values grow the table; the marker keeps its meaning.
        (0..100).for_each(|i| assert_eq!(dictionary.code(format!("v{i}").as_bytes()), i + 2));
        assert_eq!((dictionary.code(b"NA"), dictionary.find_text(b"NA")), (MISSING, Some(1)));
        assert_eq!(dictionary.states()[..3], ["x", "NA", "v0"]);
        assert_eq!(dictionary.len(), 102);
    }
}
