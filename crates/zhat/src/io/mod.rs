//! File input with located errors, and atomic file output.

pub mod bif;
#[cfg(feature = "csv")]
pub(crate) mod blocks;
mod cell;
pub(crate) mod compression;
pub mod model_file;
pub mod net;
pub(crate) mod network;
#[cfg(feature = "csv")]
mod row_ends;
#[cfg(feature = "csv")]
pub mod table;
pub mod tensor_file;
mod tokens;
pub mod uai;
pub(crate) mod whole;
mod words;
pub(crate) mod xml;
pub mod xmlbif;

pub(crate) use cell::cell;
pub(crate) use whole::write_atomically;

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read, Take, Write as _};
use std::path::Path;
use std::str::Utf8Error;

use crate::error::{Error, Result};
use crate::model::{FactorGraph, Grammar, Input, Model};
use crate::platform;

/// The output formats of models, chosen by the file name extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// [`bif`].
    Bif,
    /// The text of a [`Grammar`].
    Grammar,
    /// [`net`].
    Net,
    /// [`uai`].
    Uai,
    /// [`xmlbif`].
    XmlBif,
    /// [`model_file`].
    Zhat,
}

impl Format {
    /// The output format for a file of this name.
    ///
    /// # Errors
    /// If the extension is not `bif`, `net`, `uai`, `zhat`, one of `xmlbif`, `bifxml` and `xml`, or one of `cfg`,
    /// `pcfg` and `grammar` for the text of a grammar.
    pub fn of(path: &Path) -> Result<Format> {
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("bif") => Ok(Format::Bif),
            Some("cfg" | "pcfg" | "grammar") => Ok(Format::Grammar),
            Some("net") => Ok(Format::Net),
            Some("uai") => Ok(Format::Uai),
            Some("xmlbif" | "bifxml" | "xml") => Ok(Format::XmlBif),
            Some("zhat") => Ok(Format::Zhat),
            _ => Err(Error::argument(
                path.display().to_string(),
                "the extension selects the format: .zhat, .uai, .bif, .xmlbif or .net, or .cfg for a grammar",
            )),
        }
    }
}

/// Number of bytes used to recognise the format.
const SNIFF: usize = 4096;

/// Reads a model from a file, plain or compressed (.gz, .zst); `-` is the standard input. Format and compression
/// are recognised from the content, not from the name.
///
/// # Errors
/// If the file cannot be read, is in no known format or does not follow it, or is too large for the free
/// memory.
pub fn read_model(path: &Path) -> Result<Model> {
    let name = path.display().to_string();
    if path == Path::new("-") {
        return read_model_from(Box::new(std::io::stdin()), "standard input", u64::MAX);
    }
    let file = File::open(path).map_err(|source| Error::io(path, source))?;
    let length = file.metadata().map_err(|source| Error::io(path, source))?.len();
    read_model_from(Box::new(file), &name, length)
}

fn read_model_from(mut source: Box<dyn Read + Send>, name: &str, length: u64) -> Result<Model> {
    let fail = |source| Error::io(Path::new(name), source);
    let mut bytes = Vec::new();
    while bytes.iter().all(u8::is_ascii_whitespace) {
        // The first word may be preceded by any amount of whitespace.
        if source.by_ref().take(SNIFF as u64).read_to_end(&mut bytes).map_err(fail)? == 0 {
            break;
        }
    }
    if let Some(decompress) = compression::of(&bytes) {
        let whole = std::io::Cursor::new(bytes).chain(source);
        return read_model_from(decompress(Box::new(whole)).map_err(fail)?, name, u64::MAX);
    }
    let format = sniff(&bytes, name)?;
    let budget = platform::available_memory() / 4;
    if length != u64::MAX && length > budget {
        return Err(Error::argument(
            name,
            format!("the file has {length} bytes, which does not fit into the free memory"),
        ));
    }
    if length != u64::MAX {
        // Avoids copies of a large file while the buffer grows.
        bytes.reserve_exact((length as usize).saturating_sub(bytes.len()) + 1);
    }
    source.take(budget).read_to_end(&mut bytes).map_err(fail)?;
    if length == u64::MAX && bytes.len() as u64 > budget {
        return Err(Error::argument(name, "has more bytes than a quarter of the free memory"));
    }
    match format {
        Format::Bif => Ok(bif::parse_model(&bytes, name)?.into()),
        Format::Grammar => Ok(Grammar::parse(&utf8(bytes, name)?, name)?.into()),
        Format::Net => Ok(net::parse_model(&bytes, name)?.into()),
        Format::Uai => Ok(uai::parse_model(&bytes, name)?.into()),
        Format::XmlBif => Ok(xmlbif::parse_model(&bytes, name)?.into()),
        Format::Zhat => model_file::parse(&bytes, name),
    }
}

/// Recognises the format from the first bytes.
fn sniff(start: &[u8], name: &str) -> Result<Format> {
    let message = |line, message: String| Error::Parse { source_name: name.into(), line, message };
    if model_file::looks_like(start) {
        return Ok(Format::Zhat);
    }
    let mut tokens = tokens::Tokens::new(start, name);
    match tokens.next() {
        None => Err(message(0, "the file is empty; expected a model".into())),
        Some(token) if bif::looks_like(token) => Ok(Format::Bif),
        Some(token) if xmlbif::looks_like(token) => Ok(Format::XmlBif),
        Some(_) if net::looks_like(start) => Ok(Format::Net),
        Some(_) if looks_like_grammar(start) => Ok(Format::Grammar),
        Some(b"MARKOV" | b"BAYES") => Ok(Format::Uai),
        Some(token) => Err(message(
            tokens.line(),
            format!(
                "unknown format: it starts with `{}`; expected MARKOV or BAYES (a .uai file), network (a .bif file), <BIF> (XMLBIF), net (a .net file), S -> … (a grammar) or a .zhat file",
                tokens::shown(token)
            ),
        )),
    }
}

/// True if the first line that is not a comment is a rule or `%start`, or there are only comments.
fn looks_like_grammar(start: &[u8]) -> bool {
    let start = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start);
    let mut lines = start.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    match lines.find(|line| !line.is_empty() && !line.starts_with(b"#")) {
        // The last character of the bytes may be incomplete.
        Some(line) => {
            let line = match std::str::from_utf8(line) {
                Ok(line) => line,
                Err(error) if error.error_len().is_none() => {
                    std::str::from_utf8(&line[..error.valid_up_to()]).unwrap_or_default()
                }
                Err(_) => return false,
            };
            line.contains("->") || line.contains('→') || line.starts_with("%start")
        }
        None => true,
    }
}

/// The text of a file.
fn utf8(bytes: Vec<u8>, name: &str) -> Result<String> {
    String::from_utf8(bytes).map_err(|error| not_utf8(error.as_bytes(), error.utf8_error(), name))
}

/// The text of a file, borrowed.
fn text_of<'a>(bytes: &'a [u8], name: &str) -> Result<&'a str> {
    std::str::from_utf8(bytes).map_err(|error| not_utf8(bytes, error, name))
}

fn not_utf8(bytes: &[u8], error: Utf8Error, name: &str) -> Error {
    let line = 1 + bytes[..error.valid_up_to()].iter().filter(|&&byte| byte == b'\n').count();
    Error::Parse { source_name: name.into(), line, message: "the text is not UTF-8".into() }
}

/// Data that a model is applied to, opened but not yet read.
pub(crate) struct OpenInput<'a> {
    /// The file name, for messages.
    pub source_name: String,
    bytes: BufReader<Take<Box<dyn Read + Send + 'a>>>,
}

impl<'a> OpenInput<'a> {
    /// A text in memory.
    #[cfg(test)]
    pub fn of(text: &'a str, source_name: &str) -> Self {
        let bytes: Box<dyn Read + Send> = Box::new(text.as_bytes());
        OpenInput { source_name: source_name.into(), bytes: BufReader::new(bytes.take(u64::MAX)) }
    }

    /// Opens a file, plain or compressed (.gz, .zst); `-` is the standard input.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn open(path: &Path) -> Result<OpenInput<'static>> {
        let (source_name, mut source): (String, Box<dyn Read + Send>) = match path == Path::new("-") {
            true => ("standard input".into(), Box::new(std::io::stdin())),
            false => (
                path.display().to_string(),
                Box::new(File::open(path).map_err(|source| Error::io(path, source))?),
            ),
        };
        let fail = |source| Error::io(Path::new(&source_name), source);
        let mut start = Vec::new();
        source.by_ref().take(SNIFF as u64).read_to_end(&mut start).map_err(fail)?;
        let decompress = compression::of(&start);
        source = Box::new(std::io::Cursor::new(start).chain(source));
        if let Some(decompress) = decompress {
            source = decompress(source).map_err(fail)?;
        }
        let bytes = BufReader::new(source.take(platform::available_memory() / 4));
        Ok(OpenInput { source_name, bytes })
    }

    fn check_size(&self) -> Result<()> {
        if self.bytes.get_ref().limit() == 0 {
            let message = "has more bytes than a quarter of the free memory";
            return Err(Error::argument(self.source_name.clone(), message));
        }
        Ok(())
    }

    /// Adds the next line, with its end, to a buffer; false at the end of the data.
    ///
    /// # Errors
    /// If the data cannot be read, or have more bytes than a quarter of the free memory.
    pub fn read_line(&mut self, line: &mut Vec<u8>) -> Result<bool> {
        let read = self.bytes.read_until(b'\n', line);
        let read = read.map_err(|source| Error::io(Path::new(&self.source_name), source))?;
        self.check_size()?;
        Ok(read > 0)
    }

    /// Adds the rest to a buffer.
    ///
    /// # Errors
    /// As [`OpenInput::read_line`].
    pub fn read_rest(&mut self, bytes: &mut Vec<u8>) -> Result<()> {
        let read = self.bytes.read_to_end(bytes);
        read.map_err(|source| Error::io(Path::new(&self.source_name), source))?;
        self.check_size()
    }
}

/// The text of data without a byte order mark.
///
/// # Errors
/// If it is not UTF-8.
pub(crate) fn input_text(bytes: Vec<u8>, name: &str) -> Result<String> {
    let text = utf8(bytes, name)?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

/// Reads the data that a model is applied to, such as the sentences of a grammar, from a file, plain or
/// compressed (.gz, .zst); `-` is the standard input.
///
/// # Errors
/// If the file cannot be read, is not UTF-8, or has more bytes than a quarter of the free memory.
pub fn read_input(path: &Path) -> Result<Input> {
    let mut input = OpenInput::open(path)?;
    let mut bytes = Vec::new();
    input.read_rest(&mut bytes)?;
    Ok(Input { text: input_text(bytes, &input.source_name)?, source_name: input.source_name })
}

/// Writes a model in the format given by the file name extension, or to the standard output for `-`: a grammar
/// as its text, other models as UAI.
///
/// The table formats are for factor graphs; a single short chain is converted to a factor graph.
///
/// # Errors
/// If the extension is unknown, the model cannot be written in the format, or the file cannot be written.
pub fn write_model(model: &Model, path: &Path) -> Result<()> {
    let to_stdout = path == Path::new("-");
    let grammar = model.get::<Grammar>();
    let format = match (to_stdout, grammar) {
        (true, Some(_)) => Format::Grammar,
        (true, None) => Format::Uai,
        (false, _) => Format::of(path)?,
    };
    match (format, grammar) {
        (Format::Zhat, _) => return write_atomically(path, |out| model_file::write(model, out)),
        (Format::Grammar, None) => {
            let message = format!("a {} is no grammar; a .zhat file takes any model", model.kind());
            return Err(Error::argument(path.display().to_string(), message));
        }
        (Format::Grammar, Some(grammar)) => {
            let text = grammar.text().as_bytes();
            return match to_stdout {
                true => std::io::stdout().write_all(text).map_err(|source| Error::io(path, source)),
                false => write_atomically(path, |out| out.write_all(text)),
            };
        }
        _ => {}
    }
    let converted;
    let graph = match model.get::<FactorGraph>() {
        Some(graph) => graph,
        None => {
            converted = model.to_factor_graph().map_err(|error| {
                let place = if to_stdout { "standard output".into() } else { path.display().to_string() };
                Error::argument(place, format!("{error}; a .zhat file takes any model"))
            })?;
            &converted
        }
    };
    match format {
        Format::Bif => {
            bif::check(graph)?;
            write_atomically(path, |out| bif::write_model(graph, out))
        }
        Format::Net => {
            net::check(graph)?;
            write_atomically(path, |out| net::write_model(graph, out))
        }
        Format::XmlBif => {
            xmlbif::check(graph)?;
            write_atomically(path, |out| xmlbif::write_model(graph, out))
        }
        _ if to_stdout => {
            let mut out = std::io::stdout().lock();
            uai::write_model(graph, &mut out).map_err(|source| Error::io(path, source))
        }
        _ => write_atomically(path, |out| uai::write_model(graph, out)),
    }
}
