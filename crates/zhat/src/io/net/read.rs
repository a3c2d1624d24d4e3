//! The NET reader.

use std::borrow::Cow;

use super::super::network::{self, Table, Variable};
use super::super::words::{Word, Words};
use super::STYLE;
use crate::decimal::parse_log;
use crate::error::Result;
use crate::model::FactorGraph;

/// Reads a model; `name` is the file's name for messages.
///
/// # Errors
/// If the text is not in the format, a row does not sum to 1 within 0.01, or the variables form a directed cycle.
pub fn parse_model(bytes: &[u8], name: &str) -> Result<FactorGraph> {
    let text = super::super::text_of(bytes, name)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut words = Words::new(text.as_bytes(), name, STYLE);
    let word = words.expect("`net`")?;
    if !word.is("net") {
        return Err(words.unexpected(word, "`net`"));
    }
    words.mark(b'{')?;
    while attribute(&mut words)?.is_some() {
        skip_value(&mut words)?;
    }
    let (mut variables, mut tables) = (Vec::new(), Vec::new());
    while let Some(word) = words.next()? {
        match word {
            Word::Plain(b"node") => variables.push(read_node(&mut words)?),
            Word::Plain(b"discrete") => {
                let word = words.expect("`node`")?;
                if !word.is("node") {
                    return Err(words.unexpected(word, "`node`, the only discrete part that can be read"));
                }
                variables.push(read_node(&mut words)?);
            }
            Word::Plain(b"potential") => tables.push(read_potential(&mut words)?),
            Word::Plain(kind @ (b"continuous" | b"decision" | b"utility" | b"function")) => {
                let kind = String::from_utf8_lossy(kind);
                let message = format!("a {kind} node cannot be read, only discrete nodes and potentials");
                return Err(words.error(message));
            }
            word => return Err(words.unexpected(word, "`node` or `potential`")),
        }
    }
    network::build(&variables, &tables, name)
}

/// A name as text; the whole file has been checked to be UTF-8.
fn text(name: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(name)
}

/// Reads the name of an attribute and `=`; `None` at the end of the block.
fn attribute<'a>(words: &mut Words<'a>) -> Result<Option<&'a [u8]>> {
    match words.expect("an attribute or `}`")? {
        Word::Mark(b'}') => Ok(None),
        Word::Plain(name) => {
            words.mark(b'=')?;
            Ok(Some(name))
        }
        word => Err(words.unexpected(word, "an attribute or `}`")),
    }
}

/// Skips the value of an attribute: everything up to a `;`.
fn skip_value(words: &mut Words<'_>) -> Result<()> {
    loop {
        match words.expect("`;` after an attribute")? {
            Word::Mark(b';') => return Ok(()),
            word @ Word::Mark(b'{' | b'}') => return Err(words.unexpected(word, "`;` after an attribute")),
            _ => {}
        }
    }
}

/// Reads `name { states = ("a" "b"); … }`.
fn read_node<'a>(words: &mut Words<'a>) -> Result<Variable<'a>> {
    let name = text(words.name("the name of a node")?);
    let (line, mut states) = (words.line(), None);
    words.mark(b'{')?;
    while let Some(attribute) = attribute(words)? {
        match attribute {
            b"states" if states.is_some() => {
                return Err(words.error(format!("node `{name}` has two lists of states")));
            }
            b"states" => states = Some(read_states(words)?),
            _ => skip_value(words)?,
        }
    }
    match states {
        Some(states) => Ok(Variable { name, states, line }),
        None => Err(words.error(format!("node `{name}` has no states; expected `states = ( … );`"))),
    }
}

fn read_states<'a>(words: &mut Words<'a>) -> Result<Vec<Cow<'a, str>>> {
    words.mark(b'(')?;
    let mut states = Vec::new();
    loop {
        match words.expect("a state or `)`")? {
            Word::Mark(b')') => break,
            Word::Quoted(state) => {
                let state = text(state);
                let escaped = state.contains("\\\"");
                states.push(if escaped { state.replace("\\\"", "\"").into() } else { state });
            }
            Word::Plain(state) => states.push(text(state)),
            word => return Err(words.unexpected(word, "a state or `)`")),
        }
    }
    words.mark(b';')?;
    Ok(states)
}

/// Reads `(child | parents) { data = ( … ); … }`.
fn read_potential<'a>(words: &mut Words<'a>) -> Result<Table<'a>> {
    words.mark(b'(')?;
    let child = text(words.name("the name of a variable")?);
    let (line, mut bar, mut parents) = (words.line(), false, Vec::new());
    loop {
        match words.expect("a parent or `)`")? {
            Word::Mark(b')') => break,
            Word::Mark(b'|') if !bar => bar = true,
            Word::Plain(parent) | Word::Quoted(parent) if bar => parents.push(text(parent)),
            Word::Plain(_) | Word::Quoted(_) => {
                let message = format!(
                    "the potential of `{child}` is for several variables; only conditional tables of one can be read"
                );
                return Err(words.error(message));
            }
            word => return Err(words.unexpected(word, "a parent or `)`")),
        }
    }
    words.mark(b'{')?;
    let mut data = None;
    while let Some(attribute) = attribute(words)? {
        match attribute {
            b"data" if data.is_some() => {
                return Err(words.error(format!("the potential of `{child}` has two tables")));
            }
            b"data" => data = Some(read_data(words)?),
            _ => skip_value(words)?,
        }
    }
    match data {
        Some(Data { log_values, shape, line: values_line }) => {
            Ok(Table { child, parents, log_values, shape: Some(shape), line, values_line })
        }
        None => Err(words.error(format!("the potential of `{child}` has no `data`"))),
    }
}

/// Nested lists of numbers.
struct Data {
    log_values: Vec<f64>,
    /// The length of the lists at each depth.
    shape: Vec<usize>,
    line: usize,
}

/// Reads `((0.1 0.9) (0.2 0.8));`.
fn read_data(words: &mut Words<'_>) -> Result<Data> {
    words.mark(b'(')?;
    let line = words.line();
    let (mut log_values, mut shape): (Vec<f64>, Vec<Option<usize>>) = (Vec::new(), vec![None]);
    // The number of entries of the open lists so far, and the depth of the numbers once it is known.
    let (mut open, mut leaf) = (vec![0usize], None);
    while let Some(depth) = open.len().checked_sub(1) {
        let expected = "a probability, a finite number that is 0 or more, `(` or `)`";
        let word = words.expect(expected)?;
        match word {
            Word::Mark(b'(') if leaf.is_none_or(|leaf| depth < leaf) => {
                open[depth] += 1;
                open.push(0);
                if shape.len() < open.len() {
                    shape.push(None);
                }
            }
            Word::Mark(b')') => {
                let length = open.pop().unwrap_or_default();
                let known = *shape[depth].get_or_insert(length);
                if known != length {
                    let message =
                        format!("a list has {length} entries, but earlier ones of its depth have {known}");
                    return Err(words.error(message));
                }
            }
            _ => match word.name().and_then(parse_log) {
                Some(log) if *leaf.get_or_insert(depth) == depth => {
                    open[depth] += 1;
                    log_values.push(log);
                }
                Some(_) => return Err(words.error("numbers and lists are mixed in a table")),
                None => return Err(words.unexpected(word, expected)),
            },
        }
    }
    words.mark(b';')?;
    Ok(Data { log_values, shape: shape.into_iter().flatten().collect(), line })
}
