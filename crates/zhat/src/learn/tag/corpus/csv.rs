//! Tables with a sequence column: rows with the same value that follow each other are one sentence.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use super::columns::column;
use super::{Bytes, Corpus, Place, ReadOptions};
use crate::error::Result;

/// The end of the row that starts at `from`: at a line feed outside quotes, or the end of the text.
fn row_end(text: &str, from: usize) -> usize {
    let mut quoted = false;
    for (at, byte) in text.as_bytes()[from..].iter().enumerate() {
        match byte {
            b'"' => quoted = !quoted,
            b'\n' if !quoted => return from + at,
            _ => {}
        }
    }
    text.len()
}

/// The cells of a row, with their quotes.
pub(super) fn cells(row: &str) -> impl Iterator<Item = Range<usize>> {
    let mut at = Some(0);
    std::iter::from_fn(move || {
        let start = at?;
        let mut quoted = false;
        let mut end = row.len();
        for (place, byte) in row.as_bytes()[start..].iter().enumerate() {
            match byte {
                b'"' => quoted = !quoted,
                b',' if !quoted => {
                    end = start + place;
                    break;
                }
                _ => {}
            }
        }
        at = (end < row.len()).then_some(end + 1);
        Some(start..end)
    })
}

/// The value of a cell.
pub(super) fn value(cell: &str) -> Cow<'_, str> {
    match cell.strip_prefix('"').and_then(|cell| cell.strip_suffix('"')) {
        Some(inner) if inner.contains('"') => Cow::Owned(inner.replace("\"\"", "\"")),
        Some(inner) => Cow::Borrowed(inner),
        None => Cow::Borrowed(cell),
    }
}

/// The column of this name or number, or the first of the usual names that the table has.
fn find(
    option: &'static str,
    given: Option<&str>,
    usual: &[&str],
    names: &[&str],
    corpus: &Corpus,
) -> Result<Option<usize>> {
    match given {
        Some(given) => {
            let missing = |_| {
                let message = format!("there is no column `{given}`; the table has {}", names.join(", "));
                corpus.error(1, message)
            };
            let found = column(option, given, names).map_err(missing)?;
            if found >= names.len() {
                let message = format!("there is no column {given}; the table has {}", names.len());
                return Err(corpus.error(1, message));
            }
            Ok(Some(found))
        }
        None => Ok(usual.iter().find_map(|usual| names.iter().position(|name| name == usual))),
    }
}

pub(super) fn read(corpus: &mut Corpus, options: &ReadOptions) -> Result<()> {
    corpus.separator = ',';
    let text = std::mem::take(&mut corpus.text);
    let mut more = String::new();
    let done = read_rows(corpus, &text, &mut more, options);
    corpus.text = text + &more;
    done
}

fn read_rows(corpus: &mut Corpus, text: &str, more: &mut String, options: &ReadOptions) -> Result<()> {
    let header_end = row_end(text, 0);
    let header = text[..header_end].strip_suffix('\r').unwrap_or(&text[..header_end]);
    let names: Vec<Cow<'_, str>> = cells(header).map(|cell| value(&header[cell])).collect();
    let names: Vec<&str> = names.iter().map(|name| name.as_ref()).collect();
    let listed = names.join(", ");
    let usual = ["sentence", "sequence", "sentence_id", "sequence_id", "id"];
    let sequence = find("sequence", options.sequence.as_deref(), &usual, &names, corpus)?;
    let word = find("word", options.word.as_deref(), &["word", "token", "form"], &names, corpus)?;
    let tag = match options.tagged {
        true => find("column", options.column.as_deref(), &["tag", "label"], &names, corpus)?,
        false => None,
    };
    let missing = |what: &str, option: &str| {
        let message =
            format!("no column of {what} was found; name one with {option}; the table has {listed}");
        corpus.error(1, message)
    };
    let sequence = sequence.ok_or_else(|| missing("sequences", "`sequence`"))?;
    let word = word.ok_or_else(|| missing("words", "`word`"))?;
    if options.tagged && tag.is_none() {
        return Err(missing("tags", "`column`"));
    }
    if !options.tagged {
        corpus.header = Some(header.len());
    }
    let mut seen: HashSet<String> = HashSet::new();
    let mut current: Option<String> = None;
    let (mut start, mut number) = (header_end + 1, 2 + header.matches('\n').count());
    while start < text.len() {
        let end = row_end(text, start);
        let row = text[start..end].strip_suffix('\r').unwrap_or(&text[start..end]);
        let (line, from) = (number, start);
        number += 1 + row.matches('\n').count();
        start = end + 1;
        if row.trim().is_empty() {
            continue;
        }
        let all: Vec<Range<usize>> = cells(row).collect();
        if all.len() != names.len() {
            let message = format!("the row has {} cells, expected {}", all.len(), names.len());
            return Err(corpus.error(line, message));
        }
        let own = value(&row[all[sequence].clone()]);
        if current.as_deref() != Some(own.as_ref()) {
            corpus.end_sentence();
            if !seen.insert(own.clone().into_owned()) {
                let message = format!("the sequence `{own}` continues after another one; sort the rows");
                return Err(corpus.error(line, message));
            }
            current = Some(own.into_owned());
        }
        let mut keep = |cell: Range<usize>| -> Bytes {
            match value(&row[cell.clone()]) {
                Cow::Borrowed(value) => {
                    let quote = usize::from(value.len() < cell.len());
                    Bytes::new(from + cell.start + quote..from + cell.end - quote)
                }
                Cow::Owned(value) => {
                    let at = text.len() + more.len();
                    more.push_str(&value);
                    Bytes::new(at..at + value.len())
                }
            }
        };
        let mut place = Place {
            line: line as u32,
            row: Bytes::new(from..from + row.len()),
            word: keep(all[word].clone()),
            ..Place::default()
        };
        match tag {
            Some(tag) => {
                let cell = all[tag].clone();
                let found = value(&row[cell.clone()]);
                let missing = found.is_empty() || found == options.missing;
                place.tag = if missing { Bytes::default() } else { keep(cell.clone()) };
                place.write = Bytes::new(from + cell.start..from + cell.end);
            }
            None => {
                let end = from + row.len();
                place.write = Bytes::new(end..end);
            }
        }
        corpus.places.push(place);
    }
    Ok(())
}
