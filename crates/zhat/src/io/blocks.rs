//! The bytes of a table or text in blocks of whole rows, read by one thread and parsed by all others.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, sync_channel};

use crate::numeric::parallel::prelude::*;

use super::compression;
use crate::error::{Error, Result};
use crate::io::row_ends::RowEnds;
use crate::run::Run;

/// Number of blocks that wait to be parsed, per thread.
const WAITING: usize = 2;

/// Bytes per read.
const SIZE: usize = 1 << 20;
/// Maximum length of a row, in bytes.
const LONGEST: usize = 1 << 26;

/// Whole rows; the last may lack its line end.
pub(crate) struct Block {
    pub bytes: Vec<u8>,
    /// The line number of the first row.
    pub line: usize,
}

/// Reader of consecutive blocks.
pub(crate) struct Blocks {
    /// Finds the row ends in `rest`.
    ends: RowEnds,
    source: Box<dyn Read + Send>,
    path: PathBuf,
    /// Bytes that were read but not yet returned.
    rest: Vec<u8>,
    line: usize,
    /// The first row, as long as it may be put back.
    first: Vec<u8>,
    ended: bool,
}

impl Blocks {
    /// The rows of a table with one of these delimiters; `-` is the standard input.
    pub fn rows(path: &Path, delimiters: &[u8]) -> Result<Self> {
        Ok(Self::new(open(path)?, path.to_owned(), RowEnds::quoted(delimiters)))
    }

    /// The lines of a text; quotation marks have no special meaning.
    pub fn lines(path: &Path) -> Result<Self> {
        Ok(Self::new(open(path)?, path.to_owned(), RowEnds::plain()))
    }

    fn new(source: Box<dyn Read + Send>, path: PathBuf, ends: RowEnds) -> Self {
        Blocks { ends, source, path, rest: Vec::new(), line: 1, first: Vec::new(), ended: false }
    }

    /// Sets the only delimiter from now on.
    pub fn set_delimiter(&mut self, delimiter: u8) {
        self.ends = RowEnds::quoted(&[delimiter]);
    }

    /// Reads more bytes; false at the end of the file.
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
            let Some(end) = self.ends.first(&self.rest) else {
                if self.rest.len() > LONGEST {
                    return Err(self.too_long());
                }
                if self.more()? {
                    continue;
                }
                self.check_closed()?;
                let row = std::mem::take(&mut self.rest);
                self.first = row.clone();
                return Ok((!row.iter().all(u8::is_ascii_whitespace)).then_some(row));
            };
            let row: Vec<u8> = self.rest.drain(..=end).collect();
            self.ends.restart();
            self.line += lines(&row);
            if !row.iter().all(u8::is_ascii_whitespace) {
                self.first = row.clone();
                return Ok(Some(row));
            }
        }
    }

    /// The line number of the row returned by [`Blocks::first_row`].
    pub fn line_of_first(&self) -> usize {
        self.line - lines(&self.first)
    }

    /// Undoes [`Blocks::first_row`].
    pub fn put_back(&mut self) {
        self.line -= lines(&self.first);
        let rest = std::mem::take(&mut self.rest);
        self.rest = std::mem::take(&mut self.first);
        self.rest.extend(rest);
        self.ends.restart();
    }

    /// The next block; `None` at the end.
    pub fn next(&mut self) -> Result<Option<Block>> {
        loop {
            if self.rest.len() >= SIZE
                && let Some(end) = self.ends.last(&self.rest)
            {
                let after = self.rest.split_off(end + 1);
                self.ends.cut(end + 1);
                return Ok(Some(self.hand_out(after)));
            }
            if self.rest.len() > LONGEST {
                return Err(self.too_long());
            }
            if !self.more()? {
                self.ends.last(&self.rest);
                self.check_closed()?;
                self.ends.restart();
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
        match self.check_closed() {
            Err(unclosed) => unclosed,
            Ok(()) => self.fail(
                self.line,
                format!("the line is longer than {LONGEST} bytes; expected one row or sentence per line"),
            ),
        }
    }

    /// Fails if a quotation mark is still open at the end of the bytes.
    fn check_closed(&self) -> Result<()> {
        match self.ends.open_quote() {
            Some(at) => Err(self.fail(
                self.line + lines(&self.rest[..at]),
                "the quotation mark that opens here is never closed; a quotation mark inside quoted text is doubled".into(),
            )),
            None => Ok(()),
        }
    }

    fn fail(&self, line: usize, message: String) -> Error {
        let standard = self.path == Path::new("-");
        let source_name = if standard { "standard input".into() } else { self.path.display().to_string() };
        Error::Parse { source_name, line, message }
    }
}

/// Opens a file; `-` is the standard input. Compression is recognised from the content.
fn open(path: &Path) -> Result<Box<dyn Read + Send>> {
    let fail = |source| Error::io(path, source);
    let mut raw: Box<dyn Read + Send> = if path == Path::new("-") {
        Box::new(std::io::stdin())
    } else {
        Box::new(File::open(path).map_err(fail)?)
    };
    let mut start = [0u8; 4];
    let mut known = 0;
    while known < 4 {
        match raw.read(&mut start[known..]).map_err(fail)? {
            0 => break,
            more => known += more,
        }
    }
    let whole = std::io::Cursor::new(start[..known].to_vec()).chain(raw);
    Ok(match compression::of(&start[..known]) {
        Some(decompress) => decompress(Box::new(whole)).map_err(fail)?,
        None => Box::new(whole),
    })
}

/// Distributes the blocks to workers, one per thread, and returns the workers. The first error in the text
/// stops the work.
pub(crate) fn share_out<W: Send>(
    mut blocks: Blocks,
    run: &Run,
    worker: impl Fn() -> W + Sync,
    take: impl Fn(&mut W, &Block) -> Result<()> + Sync,
) -> Result<Vec<W>> {
    let clock = run.start("counting");
    let threads = run.threads().max(1);
    let (sender, receiver) = sync_channel::<Block>(WAITING * threads);
    let receiver = Mutex::new(Some(receiver));
    let work = || -> Result<W> {
        let mut worker = worker();
        loop {
            let block = {
                let guard = receiver.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                match guard.as_ref().map(Receiver::recv) {
                    Some(Ok(block)) => block,
                    _ => return Ok(worker),
                }
            };
            if let Err(mistake) = take(&mut worker, &block) {
                // Dropping the receiver ends the reader, which would otherwise block.
                receiver.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
                return Err(mistake);
            }
        }
    };
    let (read, counted) = std::thread::scope(|scope| {
        let reader = scope.spawn(|| -> Result<()> {
            // A separate reader thread: parsing continues while the reader waits for the disk or
            // decompresses.
            let sender = sender;
            while let Some(block) = blocks.next()? {
                clock.check()?;
                // All receivers are gone once a block has failed.
                if sender.send(block).is_err() {
                    break;
                }
            }
            Ok(())
        });
        let counted: Vec<Result<W>> = run.install(|| (0..threads).into_par_iter().map(|_| work()).collect());
        (reader.join().unwrap_or(Err(Error::Interrupted)), counted)
    });
    // If several workers failed, report the error with the smallest line number.
    let (workers, mut mistakes): (Vec<_>, Vec<_>) = counted.into_iter().partition(Result::is_ok);
    mistakes.sort_by_key(|mistake| match mistake {
        Err(Error::Parse { line, .. }) => *line,
        _ => usize::MAX,
    });
    if let Some(Err(mistake)) = mistakes.into_iter().next() {
        return Err(mistake);
    }
    read?;
    Ok(workers.into_iter().flatten().collect())
}

fn lines(bytes: &[u8]) -> usize {
    bytes.iter().filter(|&&byte| byte == b'\n').count()
}
