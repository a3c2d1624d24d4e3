//! The bytes of a table in blocks of whole rows.

use std::io::Read;
use std::path::PathBuf;

use crate::error::{Error, Result};

/// Bytes that are read at a time.
const SIZE: usize = 1 << 20;
/// A row is not longer than this.
const LONGEST: usize = 1 << 26;

/// Some whole rows, the last with or without its line end.
pub(super) struct Block {
    pub bytes: Vec<u8>,
    /// The line of the first row.
    pub line: usize,
}

/// Blocks one after the other.
pub(super) struct Blocks {
    source: Box<dyn Read + Send>,
    path: PathBuf,
    /// What was read and not handed out.
    rest: Vec<u8>,
    line: usize,
    /// The first row, while it may still be put back.
    first: Vec<u8>,
    ended: bool,
}

impl Blocks {
    pub fn new(source: Box<dyn Read + Send>, path: PathBuf) -> Self {
        Blocks { source, path, rest: Vec::new(), line: 1, first: Vec::new(), ended: false }
    }

    /// Reads more; false at the end.
    fn more(&mut self) -> Result<bool> {
        if self.ended {
            return Ok(false);
        }
        let before = self.rest.len();
        let read = self.source.by_ref().take(SIZE as u64).read_to_end(&mut self.rest);
        let read = read.map_err(|source| Error::io(&self.path, source))?;
        if before == 0 && self.line == 1 && self.rest.starts_with(&[0xef, 0xbb, 0xbf]) {
            self.rest.drain(..3);
        }
        self.ended = read == 0;
        Ok(read > 0)
    }

    /// The first row that is not blank.
    pub fn first_row(&mut self) -> Result<Option<Vec<u8>>> {
        loop {
            let Some(end) = first_end(&self.rest) else {
                if self.rest.len() > LONGEST {
                    return Err(self.too_long());
                }
                if self.more()? {
                    continue;
                }
                let row = std::mem::take(&mut self.rest);
                self.first = row.clone();
                return Ok((!row.iter().all(u8::is_ascii_whitespace)).then_some(row));
            };
            let row: Vec<u8> = self.rest.drain(..=end).collect();
            self.line += lines(&row);
            if !row.iter().all(u8::is_ascii_whitespace) {
                self.first = row.clone();
                return Ok(Some(row));
            }
        }
    }

    /// Undoes [`Blocks::first_row`].
    pub fn put_back(&mut self) {
        self.line -= lines(&self.first);
        let rest = std::mem::take(&mut self.rest);
        self.rest = std::mem::take(&mut self.first);
        self.rest.extend(rest);
    }

    /// The next block; none at the end.
    pub fn next(&mut self) -> Result<Option<Block>> {
        loop {
            if self.rest.len() >= SIZE
                && let Some(end) = last_end(&self.rest)
            {
                let after = self.rest.split_off(end + 1);
                return Ok(Some(self.hand_out(after)));
            }
            if self.rest.len() > LONGEST {
                return Err(self.too_long());
            }
            if !self.more()? {
                return Ok(if self.rest.is_empty() { None } else { Some(self.hand_out(Vec::new())) });
            }
        }
    }

    fn hand_out(&mut self, after: Vec<u8>) -> Block {
        let block = Block { bytes: std::mem::replace(&mut self.rest, after), line: self.line };
        self.line += lines(&block.bytes);
        block
    }

    fn too_long(&self) -> Error {
        Error::Parse {
            source_name: self.path.display().to_string(),
            line: self.line,
            message: "the row has no end; is there a quotation mark that is not closed?".into(),
        }
    }
}

fn lines(bytes: &[u8]) -> usize {
    bytes.iter().filter(|&&byte| byte == b'\n').count()
}

/// The first line end outside of quotes.
fn first_end(bytes: &[u8]) -> Option<usize> {
    let mut quoted = false;
    bytes.iter().position(|&byte| {
        quoted ^= byte == b'"';
        byte == b'\n' && !quoted
    })
}

/// The last line end outside of quotes, in bytes that begin outside of them.
fn last_end(bytes: &[u8]) -> Option<usize> {
    let mut quoted = bytes.iter().filter(|&&byte| byte == b'"').count() % 2 == 1;
    bytes.iter().rposition(|&byte| {
        quoted ^= byte == b'"';
        byte == b'\n' && !quoted
    })
}
