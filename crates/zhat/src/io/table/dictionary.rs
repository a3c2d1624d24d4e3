//! Values and their codes, and rows taken apart.

use crate::error::Result;

/// The code of a missing value.
pub(super) const MISSING: u32 = u32::MAX;

/// Values in the order of their first occurrence, each with a code; markers of missing values have the code [`MISSING`].
///
/// A table of places by hash, at most half full: for the few and short values of a column a lookup is some nanoseconds.
#[derive(Clone, Debug)]
pub(in crate::io) struct Dictionary {
    values: Vec<(Box<[u8]>, u32)>,
    places: Vec<u32>,
    codes: u32,
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
        let mut dictionary = Dictionary { values: Vec::new(), places: vec![EMPTY; 16], codes: 0 };
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

    /// The code of a value, a new one if it is new.
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
            (0..self.values.len()).for_each(|i| self.place(i));
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

fn trimmed(field: &[u8]) -> &[u8] {
    field.trim_ascii()
}

/// Hands the fields of one row, blanks around them taken off, to `each`.
pub(super) fn split(row: &[u8], delimiter: u8, mut each: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let mut result = Ok(());
    let mut row = row;
    while let [before @ .., b'\n' | b'\r'] = row {
        row = before;
    }
    if !row.contains(&b'"') {
        for field in row.split(|&byte| byte == delimiter) {
            each(trimmed(field))?;
        }
        return Ok(());
    }
    let mut reader = csv_reader(row, delimiter);
    let mut record = csv::ByteRecord::new();
    if reader.read_byte_record(&mut record).unwrap_or(false) {
        result = record.iter().try_for_each(|field| each(trimmed(field)));
    }
    result
}

fn csv_reader(bytes: &[u8], delimiter: u8) -> csv::Reader<&[u8]> {
    csv::ReaderBuilder::new().has_headers(false).flexible(true).delimiter(delimiter).from_reader(bytes)
}

/// Goes through the rows of a block: `field(i, value)` for each field, `end(fields, line)` after each row. Blank lines are skipped.
pub(super) fn each_row(bytes: &[u8], first_line: usize, delimiter: u8, sink: &mut impl Sink) -> Result<()> {
    if bytes.contains(&b'"') {
        return each_quoted_row(bytes, first_line, delimiter, sink);
    }
    for (line, row) in (first_line..).zip(bytes.split(|&byte| byte == b'\n')) {
        let row = row.strip_suffix(b"\r").unwrap_or(row);
        if !row.is_empty() && !row.iter().all(u8::is_ascii_whitespace) {
            let mut fields = 0;
            for field in row.split(|&byte| byte == delimiter) {
                sink.field(fields, trimmed(field), line)?;
                fields += 1;
            }
            sink.end(fields, line)?;
        }
    }
    Ok(())
}

fn each_quoted_row(bytes: &[u8], first_line: usize, delimiter: u8, sink: &mut impl Sink) -> Result<()> {
    let mut reader = csv_reader(bytes, delimiter);
    let mut record = csv::ByteRecord::new();
    // Only text that is not UTF-8 could fail, and bytes are what is asked for.
    while reader.read_byte_record(&mut record).unwrap_or(false) {
        let line = record.position().map_or(0, |position| position.line() as usize) + first_line - 1;
        if record.len() == 1 && record.iter().all(|field| field.trim_ascii().is_empty()) {
            continue;
        }
        for (i, field) in record.iter().enumerate() {
            sink.field(i, trimmed(field), line)?;
        }
        sink.end(record.len(), line)?;
    }
    Ok(())
}

/// Who takes the fields.
pub(super) trait Sink {
    fn field(&mut self, i: usize, value: &[u8], line: usize) -> Result<()>;
    fn end(&mut self, fields: usize, line: usize) -> Result<()>;
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
    fn fields_are_taken_apart() {
        let fields = |row: &[u8]| {
            let mut found = Vec::new();
            split(row, b',', |field| {
                found.push(String::from_utf8_lossy(field).into_owned());
                Ok(())
            })
            .unwrap();
            found
        };
        assert_eq!(fields(b"a, b ,c\r\n"), ["a", "b", "c"]);
        assert_eq!(
            fields(b"\"a,1\",\"say \"\"hi\"\"\",\"two\nlines\"\n"),
            ["a,1", "say \"hi\"", "two\nlines"]
        );
        assert_eq!(fields(b"a,,"), ["a", "", ""]);
    }
}
