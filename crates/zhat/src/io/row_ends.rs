//! Where rows end in bytes that arrive piece by piece.
//!
//! A field is quoted if its first byte is a quotation mark; a line end inside it belongs to the field, and a
//! doubled quotation mark is one mark of the text. Anywhere else a quotation mark is an ordinary byte. Text
//! without quotes is only searched for line ends.

/// What the next byte belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Start,
    Field,
    Quoted,
    /// After a quotation mark in quoted text: its end, or the first of two.
    Mark,
}

/// The ends of rows in bytes of which more are added at the end and rows are taken from the beginning.
#[derive(Clone, Debug)]
pub(super) struct RowEnds {
    /// Bytes that end a field; none where quotation marks mean nothing.
    delimiters: Option<Vec<u8>>,
    place: Place,
    /// Bytes that were looked at.
    seen: usize,
    /// The last row end among them.
    last: Option<usize>,
    /// Where the quotation mark stands that was opened last.
    opened: usize,
}

impl RowEnds {
    /// A row is a line.
    pub fn plain() -> Self {
        RowEnds { delimiters: None, place: Place::Start, seen: 0, last: None, opened: 0 }
    }

    /// Fields between these delimiters may be quoted.
    pub fn quoted(delimiters: &[u8]) -> Self {
        RowEnds { delimiters: Some(delimiters.to_vec()), ..Self::plain() }
    }

    /// The bytes begin with a new row, none of them looked at.
    pub fn restart(&mut self) {
        (self.place, self.seen, self.last) = (Place::Start, 0, None);
    }

    /// So many bytes, up to a row end, were taken from the beginning.
    pub fn cut(&mut self, count: usize) {
        self.seen -= count;
        self.opened = self.opened.saturating_sub(count);
        self.last = self.last.filter(|&end| end >= count).map(|end| end - count);
    }

    /// The first row end; nothing was taken since the restart.
    pub fn first(&mut self, bytes: &[u8]) -> Option<usize> {
        self.restart();
        self.scan(bytes, true)
    }

    /// The last row end.
    pub fn last(&mut self, bytes: &[u8]) -> Option<usize> {
        self.scan(bytes, false)
    }

    /// Where a quoted field begins that the bytes looked at do not end.
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

    /// Feeds the bytes in pieces and takes rows away whenever some are whole; returns what was taken and what
    /// an open quote is.
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
