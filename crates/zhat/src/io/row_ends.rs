//! Incremental search for row ends in bytes that arrive in pieces.
//!
//! A field is quoted if its first byte is a quotation mark. A line end inside a quoted field belongs to the
//! field, and a doubled quotation mark is one mark of the text. Elsewhere a quotation mark is an ordinary
//! byte. Text without quotes is searched for line ends only.

/// The state of the scanner before the next byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Start,
    Field,
    Quoted,
    /// After a quotation mark in quoted text: the end of the text, or the first of a doubled mark.
    Mark,
}

/// Finds row ends in a buffer to which bytes are appended and from whose start whole rows are removed.
#[derive(Clone, Debug)]
pub(super) struct RowEnds {
    /// Bytes that end a field; `None` if quotation marks have no special meaning.
    delimiters: Option<Vec<u8>>,
    place: Place,
    /// Number of bytes scanned.
    seen: usize,
    /// The last row end among the scanned bytes.
    last: Option<usize>,
    /// The position of the last opening quotation mark.
    opened: usize,
}

impl RowEnds {
    /// Every line is a row.
    pub fn plain() -> Self {
        RowEnds { delimiters: None, place: Place::Start, seen: 0, last: None, opened: 0 }
    }

    /// Fields between these delimiters may be quoted.
    pub fn quoted(delimiters: &[u8]) -> Self {
        RowEnds { delimiters: Some(delimiters.to_vec()), ..Self::plain() }
    }

    /// Resets the scanner to the start of a row.
    pub fn restart(&mut self) {
        (self.place, self.seen, self.last) = (Place::Start, 0, None);
    }

    /// Removes this many bytes, up to a row end, from the start.
    pub fn cut(&mut self, count: usize) {
        self.seen -= count;
        self.opened = self.opened.saturating_sub(count);
        self.last = self.last.filter(|&end| end >= count).map(|end| end - count);
    }

    /// The first row end, scanning from the start.
    pub fn first(&mut self, bytes: &[u8]) -> Option<usize> {
        self.restart();
        self.scan(bytes, true)
    }

    /// The last row end.
    pub fn last(&mut self, bytes: &[u8]) -> Option<usize> {
        self.scan(bytes, false)
    }

    /// The start of a quoted field that is still open at the end of the scanned bytes.
    pub fn open_quote(&self) -> Option<usize> {
        (self.place == Place::Quoted).then_some(self.opened)
    }

    fn scan(&mut self, bytes: &[u8], first: bool) -> Option<usize> {
        let fresh = &bytes[self.seen..];
        let plain = match &self.delimiters {
            None => true,
            Some(_) => matches!(self.place, Place::Start | Place::Field) && !fresh.contains(&b'"'),
        };
        if plain {
            let line_end = |byte: &u8| *byte == b'\n';
            let end = if first { fresh.iter().position(line_end) } else { fresh.iter().rposition(line_end) };
            self.last = end.map(|end| end + self.seen).or(self.last);
            if let Some(&byte) = fresh.last() {
                let ends = byte == b'\n' || self.delimiters.as_ref().is_some_and(|all| all.contains(&byte));
                self.place = if ends { Place::Start } else { Place::Field };
            }
            self.seen = bytes.len();
            return self.last;
        }
        let delimiters = self.delimiters.as_deref().unwrap_or_default();
        for (at, &byte) in bytes.iter().enumerate().skip(self.seen) {
            self.place = match (self.place, byte) {
                (Place::Quoted, b'"') => Place::Mark,
                (Place::Quoted, _) => Place::Quoted,
                (Place::Mark, b'"') => Place::Quoted,
                (Place::Start, b'"') => {
                    self.opened = at;
                    Place::Quoted
                }
                (_, b'\n') => {
                    self.last = Some(at);
                    if first {
                        self.seen = at + 1;
                        return self.last;
                    }
                    Place::Start
                }
                (_, byte) if delimiters.contains(&byte) => Place::Start,
                _ => Place::Field,
            };
        }
        self.seen = bytes.len();
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds the bytes in pieces and removes complete rows; returns the removed rows and the position of an
    /// open quotation mark.
    fn pieces(text: &[u8], piece: usize) -> (Vec<Vec<u8>>, Option<usize>) {
        let (mut ends, mut rest, mut taken) = (RowEnds::quoted(b","), Vec::new(), Vec::new());
        let mut before = 0;
        for more in text.chunks(piece) {
            rest.extend_from_slice(more);
            if let Some(end) = ends.last(&rest) {
                let after = rest.split_off(end + 1);
                ends.cut(end + 1);
                before += end + 1;
                taken.push(std::mem::replace(&mut rest, after));
            }
        }
        (taken, ends.open_quote().map(|at| at + before))
    }

    #[test]
    fn rows_end_outside_of_quoted_fields_wherever_the_bytes_are_cut() {
        let text = b"a,\"b\nc\",d\ne\"x,f\n\"say \"\"hi\"\"\n\",\"\"\n5\" disk,\"y\"\nz,\"open\nmore\n";
        let ends = [9, 15, 32, 44];
        for piece in 1..=text.len() {
            let (taken, open) = pieces(text, piece);
            assert_eq!(open, Some(47), "{piece}");
            let mut at = 0;
            for rows in &taken {
                at += rows.len();
                assert!(ends.contains(&(at - 1)), "{piece}: {at}");
            }
            assert_eq!(at, 45, "{piece}");
        }
        assert_eq!(RowEnds::quoted(b",").first(text), Some(9));
        assert_eq!(RowEnds::plain().first(text), Some(4));
        assert_eq!(RowEnds::plain().last(text), Some(text.len() - 1));
    }
}
