//! Tagged files that are read in blocks of whole sentences, for corpora larger than memory.
//!
//! Memory: one block of text and its tokens, and more only for a sentence longer than a block. A table (`csv`) has
//! no mark at the end of a sentence and is one block.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::{Corpus, Format, ReadOptions};
use crate::error::{Error, Result};
use crate::io::compression;

/// A tagged file, plain or compressed, that can be read many times.
///
/// ```
/// use zhat::learn::tag::{ReadOptions, Stream};
/// let path = std::env::temp_dir().join("zhat-stream-example.txt");
/// std::fs::write(&path, "a_A b_B\nc_C\n")?;
/// let mut blocks = Vec::new();
/// Stream::new(&path, ReadOptions::default(), 4)?.each(&mut |corpus| {
///     blocks.push(corpus.tokens());
///     Ok(())
/// })?;
/// assert_eq!(blocks, [2, 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Stream {
    path: PathBuf,
    options: ReadOptions,
    bytes: usize,
}

impl Stream {
    /// A file that is read in blocks of about this many bytes.
    ///
    /// # Errors
    /// If it is the standard input, which can be read only once.
    pub fn new(path: &Path, options: ReadOptions, bytes: usize) -> Result<Self> {
        if path == Path::new("-") {
            let message =
                "the standard input can be read only once; a file that is read in blocks has a name";
            return Err(Error::argument("file", message));
        }
        Ok(Stream { path: path.to_owned(), options, bytes: bytes.max(1) })
    }

    /// The name of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The format, from the options or from the first bytes.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn format(&self) -> Result<Format> {
        if let Some(format) = self.options.format {
            return Ok(format);
        }
        let mut start = Vec::new();
        let read = self.open()?.take(1 << 16).read_to_end(&mut start);
        read.map_err(|source| Error::io(&self.path, source))?;
        let start = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&start);
        Ok(Format::of(&String::from_utf8_lossy(start), &self.path.display().to_string()))
    }

    /// The bytes of the file, decompressed.
    fn open(&self) -> Result<Box<dyn Read + Send>> {
        let fail = |source| Error::io(&self.path, source);
        let mut source: Box<dyn Read + Send> = Box::new(File::open(&self.path).map_err(fail)?);
        let mut start = Vec::new();
        source.by_ref().take(16).read_to_end(&mut start).map_err(fail)?;
        let decompress = compression::of(&start);
        let whole = Box::new(std::io::Cursor::new(start).chain(source));
        match decompress {
            Some(decompress) => decompress(whole).map_err(fail),
            None => Ok(whole),
        }
    }

    /// The length of a block.
    pub(crate) fn block_bytes(&self) -> usize {
        self.bytes
    }

    /// Reads the file once and calls `each` with its blocks in order.
    ///
    /// # Errors
    /// As [`Corpus::read`], or if `each` fails.
    pub fn each(&self, each: &mut dyn FnMut(&Corpus) -> Result<()>) -> Result<()> {
        let name = self.path.display().to_string();
        let fail = |source| Error::io(&self.path, source);
        let mut source = self.open()?;
        let options = ReadOptions { format: Some(self.format()?), ..self.options.clone() };
        let (mut bytes, mut line, mut blocks, mut wanted) = (Vec::new(), 0, 0, self.bytes);
        loop {
            let missing = wanted.saturating_sub(bytes.len()) as u64;
            let ended =
                source.by_ref().take(missing).read_to_end(&mut bytes).map_err(fail)? < missing as usize;
            if line == 0 && bytes.starts_with(b"\xef\xbb\xbf") {
                bytes.drain(..3);
            }
            let end = if ended { bytes.len() } else { last_end(&bytes, options.format) };
            if end == 0 && !ended {
                wanted *= 2;
                continue;
            }
            let rest = bytes.split_off(end);
            let text = String::from_utf8(std::mem::replace(&mut bytes, rest)).map_err(|error| {
                let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
                let line = line + 1 + valid.iter().filter(|&&byte| byte == b'\n').count();
                let message = "the text is not UTF-8".into();
                Error::Parse { source_name: name.clone(), line, message }
            })?;
            let lines = text.bytes().filter(|&byte| byte == b'\n').count();
            if let Some(corpus) = Corpus::parse_block(text, &name, &options, line)? {
                each(&corpus)?;
                blocks += 1;
            }
            line += lines;
            wanted = self.bytes;
            if ended {
                break;
            }
        }
        if blocks == 0 {
            let read = options.format.map_or("", Format::name);
            let message = format!("no token was found; read as {read}");
            return Err(Error::Parse { source_name: name, line: 0, message });
        }
        Ok(())
    }
}

/// The end of the last whole sentence in the beginning of a file; 0 if there is none.
fn last_end(bytes: &[u8], format: Option<Format>) -> usize {
    let last_line = |bytes: &[u8]| bytes.iter().rposition(|&byte| byte == b'\n').map(|at| at + 1);
    let Some(mut end) = last_line(bytes) else { return 0 };
    match format {
        Some(Format::Csv) => 0,
        Some(Format::Words) => end,
        _ => loop {
            let start = last_line(&bytes[..end - 1]).unwrap_or(0);
            if bytes[start..end].iter().all(u8::is_ascii_whitespace) {
                return end;
            }
            if start == 0 {
                return 0;
            }
            end = start;
        },
    }
}
