//! Splits rows into fields.

use crate::error::Result;

/// Receiver of fields.
pub(crate) trait Sink {
    /// Field `i` of a row: text without surrounding whitespace, or the quoted text between the quotation
    /// marks.
    fn field(&mut self, i: usize, value: &[u8], quoted: bool, line: usize) -> Result<()>;
    /// End of the row that began on this line, with the number of its fields.
    fn end(&mut self, fields: usize, line: usize) -> Result<()>;
}

/// Parses the rows of a block. Blank lines are skipped.
pub(crate) fn each_row(bytes: &[u8], first_line: usize, delimiter: u8, sink: &mut impl Sink) -> Result<()> {
    if bytes.contains(&b'"') {
        return each_quoted_row(bytes, first_line, delimiter, sink);
    }
    for (line, row) in (first_line..).zip(bytes.split(|&byte| byte == b'\n')) {
        let row = row.strip_suffix(b"\r").unwrap_or(row);
        if !row.is_empty() && !row.iter().all(u8::is_ascii_whitespace) {
            let mut fields = 0;
            for field in row.split(|&byte| byte == delimiter) {
                sink.field(fields, field.trim_ascii(), false, line)?;
                fields += 1;
            }
            sink.end(fields, line)?;
        }
    }
    Ok(())
}

/// Like [`each_row`], for blocks with quoted fields: fields that begin with a quotation mark. Bytes after the
/// closing mark belong to the field too.
fn each_quoted_row(bytes: &[u8], first_line: usize, delimiter: u8, sink: &mut impl Sink) -> Result<()> {
    let (mut at, mut line, mut text) = (0, first_line, Vec::new());
    while at < bytes.len() {
        let (begin, mut fields) = (line, 0);
        loop {
            let quoted = bytes.get(at) == Some(&b'"');
            text.clear();
            if quoted {
                at = unquoted(bytes, at + 1, &mut text);
            }
            let rest = &bytes[at..];
            let length =
                rest.iter().position(|&byte| byte == delimiter || byte == b'\n').unwrap_or(rest.len());
            let plain = &rest[..length];
            at += length;
            let ends_row = bytes.get(at) != Some(&delimiter);
            at += 1;
            if quoted {
                line += text.iter().filter(|&&byte| byte == b'\n').count();
                text.extend_from_slice(plain.trim_ascii_end());
                sink.field(fields, &text, true, begin)?;
            } else {
                let blank = ends_row && fields == 0 && plain.trim_ascii().is_empty();
                if blank {
                    break;
                }
                sink.field(fields, plain.trim_ascii(), false, begin)?;
            }
            fields += 1;
            if ends_row {
                sink.end(fields, begin)?;
                break;
            }
        }
        line += 1;
    }
    Ok(())
}

/// Copies quoted text up to its closing quotation mark and returns the position after the mark.
fn unquoted(bytes: &[u8], mut at: usize, text: &mut Vec<u8>) -> usize {
    loop {
        let rest = &bytes[at..];
        let length = rest.iter().position(|&byte| byte == b'"').unwrap_or(rest.len());
        text.extend_from_slice(&rest[..length]);
        at += length + 1;
        if bytes.get(at) != Some(&b'"') {
            return at.min(bytes.len());
        }
        text.push(b'"');
        at += 1;
    }
}

/// The fields of one row, such as the header.
pub(crate) fn split(row: &[u8], delimiter: u8) -> Result<Vec<Vec<u8>>> {
    struct Fields(Vec<Vec<u8>>);
    impl Sink for Fields {
        fn field(&mut self, _: usize, value: &[u8], _: bool, _: usize) -> Result<()> {
            self.0.push(value.to_vec());
            Ok(())
        }
        fn end(&mut self, _: usize, _: usize) -> Result<()> {
            Ok(())
        }
    }
    let mut fields = Fields(Vec::new());
    each_row(row, 1, delimiter, &mut fields)?;
    Ok(fields.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The calls to a sink: fields, with a mark for quoted ones, and the lines on which rows begin.
    #[derive(Default)]
    struct Told(Vec<String>, Vec<(usize, usize)>);

    impl Sink for Told {
        fn field(&mut self, i: usize, value: &[u8], quoted: bool, _: usize) -> Result<()> {
            let mark = if quoted { "q" } else { "" };
            self.0.push(format!("{i}{mark}:{}", String::from_utf8_lossy(value)));
            Ok(())
        }
        fn end(&mut self, fields: usize, line: usize) -> Result<()> {
            self.1.push((fields, line));
            Ok(())
        }
    }

    fn told(text: &str) -> (Vec<String>, Vec<(usize, usize)>) {
        let mut told = Told::default();
        each_row(text.as_bytes(), 10, b',', &mut told).unwrap();
        (told.0, told.1)
    }

    #[test]
    fn fields_are_taken_apart() {
        assert_eq!(told("a, b ,c\r\n").0, ["0:a", "1:b", "2:c"]);
        assert_eq!(told("a,,").0, ["0:a", "1:", "2:"]);
        let (fields, rows) =
            told("\"a,1\",\"say \"\"hi\"\"\",\" two\nlines \" \r\n \n5\" disk,\"NA\",\"x\"y\n\"\",,\"b\"");
        let first = ["0q:a,1", "1q:say \"hi\"", "2q: two\nlines "];
        let rest = ["0:5\" disk", "1q:NA", "2q:xy", "0q:", "1:", "2q:b"];
        assert_eq!(fields, [&first[..], &rest].concat());
        assert_eq!(rows, [(3, 10), (3, 13), (3, 14)]);
        assert_eq!(split(b"\"a b\", c\n", b',').unwrap(), [b"a b".to_vec(), b"c".to_vec()]);
    }
}
