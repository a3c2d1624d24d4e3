//! The lines of a file, read one after the other: rows with very many cells need about as much memory as text as
//! they need as numbers, and the text of a row is not kept.

use crate::error::Result;
use crate::io::OpenInput;

/// Lines with their numbers, from 1.
pub(super) struct Lines<'a> {
    /// Bytes that are already read, and the number of those that were lines.
    start: Vec<u8>,
    used: usize,
    input: OpenInput<'a>,
    number: usize,
    line: String,
}

impl<'a> Lines<'a> {
    /// All lines of a text.
    #[cfg(test)]
    pub fn of(text: &'a str) -> Self {
        Lines::after(Vec::new(), OpenInput::of(text, "t"))
    }

    /// The lines of a file of which whole lines were already read.
    pub fn after(start: Vec<u8>, input: OpenInput<'a>) -> Self {
        Lines { start, used: 0, input, number: 0, line: String::new() }
    }

    /// The next line, without its end.
    ///
    /// # Errors
    /// If it cannot be read or is not UTF-8.
    pub fn next(&mut self) -> Result<Option<(usize, &str)>> {
        let mut bytes = std::mem::take(&mut self.line).into_bytes();
        bytes.clear();
        let rest = &self.start[self.used..];
        if rest.is_empty() {
            self.start = Vec::new();
            self.used = 0;
            if !self.input.read_line(&mut bytes)? {
                return Ok(None);
            }
        } else {
            let end = rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |at| at + 1);
            bytes.extend_from_slice(&rest[..end]);
            self.used += end;
        }
        self.number += 1;
        self.line = match String::from_utf8(bytes) {
            Ok(line) => line,
            Err(_) => return Err(super::fail(&self.input.source_name, self.number, "the text is not UTF-8")),
        };
        let line = self.line.strip_suffix('\n').unwrap_or(&self.line);
        let line = line.strip_suffix('\r').unwrap_or(line);
        let line = if self.number == 1 { line.strip_prefix('\u{feff}').unwrap_or(line) } else { line };
        Ok(Some((self.number, line)))
    }
}
