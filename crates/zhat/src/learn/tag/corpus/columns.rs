//! Files with one token per line: CoNLL-U and columns separated by spaces or tabs.

use std::ops::Range;

use super::{Bytes, Corpus, Place, ReadOptions};
use crate::error::{Error, Result};
use crate::units;

/// The columns of CoNLL-U.
const NAMES: [&str; 10] = ["id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc"];

/// The lines of a text without their ends: number, start and text.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (usize, usize, &str)> {
    let mut start = 0;
    text.split_inclusive('\n').enumerate().map(move |(number, line)| {
        let at = start;
        start += line.len();
        let line = line.strip_suffix('\n').unwrap_or(line);
        (number + 1, at, line.strip_suffix('\r').unwrap_or(line))
    })
}

/// The columns of a line: separated by single tabs if there is one, otherwise by spaces.
pub(super) fn fields(line: &str) -> impl Iterator<Item = Range<usize>> {
    let tabs = line.contains('\t');
    let mut at = 0;
    std::iter::from_fn(move || {
        if !tabs {
            at += line[at..].len() - line[at..].trim_start_matches(' ').len();
        }
        if at > line.len() || (!tabs && at == line.len()) {
            return None;
        }
        let separator = if tabs { '\t' } else { ' ' };
        let end = line[at..].find(separator).map_or(line.len(), |length| at + length);
        let field = at..end;
        at = end + 1;
        if !tabs {
            at = at.min(line.len());
        }
        Some(field)
    })
}

/// A column number from 1, or one of the names.
pub(super) fn column(option: &'static str, text: &str, names: &[&str]) -> Result<usize> {
    if let Some(at) = names.iter().position(|name| *name == text) {
        return Ok(at);
    }
    match text.parse::<usize>() {
        Ok(number) if number >= 1 => Ok(number - 1),
        _ => {
            let known = if names.is_empty() { String::new() } else { format!(", or {}", names.join(", ")) };
            let message = format!("expected the number of a column from 1{known}, found `{text}`");
            Err(Error::argument(option, message))
        }
    }
}

fn shifted(range: Range<usize>, by: usize) -> Range<usize> {
    range.start + by..range.end + by
}

pub(super) fn conllu(corpus: &mut Corpus, options: &ReadOptions) -> Result<()> {
    let tag = column("column", options.column.as_deref().unwrap_or("upos"), &NAMES)?;
    let word = column("word", options.word.as_deref().unwrap_or("form"), &NAMES)?;
    if let Some(wrong) = [tag, word].into_iter().find(|&column| column >= NAMES.len()) {
        return Err(Error::argument("column", format!("{} is out of range; CoNLL-U has 10", wrong + 1)));
    }
    let text = std::mem::take(&mut corpus.text);
    let done = conllu_lines(corpus, &text, (word, tag), options);
    corpus.text = text;
    done
}

fn conllu_lines(
    corpus: &mut Corpus,
    text: &str,
    (word, tag): (usize, usize),
    options: &ReadOptions,
) -> Result<()> {
    for (number, start, line) in lines(text) {
        if line.trim().is_empty() {
            corpus.end_sentence();
            continue;
        }
        if line.starts_with('#') {
            continue;
        }
        let all: Vec<Range<usize>> = fields(line).collect();
        if all.len() != NAMES.len() {
            let message = format!("expected 10 columns separated by tabs, found {}: `{line}`", all.len());
            return Err(corpus.error(number, message));
        }
        let id = &line[all[0].clone()];
        if id.contains(['-', '.']) {
            continue;
        }
        if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(corpus.error(number, format!("expected the number of a token, found `{id}`")));
        }
        let value = all[tag].clone();
        let write = shifted(value.clone(), start);
        if value.is_empty() {
            let message = format!("token {id}: the column {} is empty; `_` stands for no tag", NAMES[tag]);
            return Err(corpus.error(number, message));
        }
        let missing = !options.tagged || line[value] == options.missing;
        corpus.places.push(Place {
            line: number as u32,
            row: Bytes::new(start..start + line.len()),
            word: Bytes::new(shifted(all[word].clone(), start)),
            tag: if missing { Bytes::default() } else { Bytes::new(write.clone()) },
            write: Bytes::new(write),
        });
    }
    Ok(())
}

pub(super) fn plain(corpus: &mut Corpus, options: &ReadOptions) -> Result<()> {
    let tag = options.column.as_deref().map(|text| column("column", text, &[])).transpose()?;
    let word = column("word", options.word.as_deref().unwrap_or("1"), &[])?;
    let text = std::mem::take(&mut corpus.text);
    let done = plain_lines(corpus, &text, word, tag, options);
    corpus.text = text;
    done
}

fn plain_lines(
    corpus: &mut Corpus,
    text: &str,
    word: usize,
    tag: Option<usize>,
    options: &ReadOptions,
) -> Result<()> {
    let mut width = None;
    for (number, start, line) in lines(text) {
        if line.trim().is_empty() {
            corpus.end_sentence();
            continue;
        }
        let all: Vec<Range<usize>> = fields(line).collect();
        let (expected, first) = *width.get_or_insert((all.len(), number));
        if all.len() != expected {
            let token = &line[all.first().cloned().unwrap_or(0..0)];
            let message = format!(
                "token `{token}`: {}, but line {first} has {expected}; every token needs the same number",
                units::count(all.len(), "column")
            );
            return Err(corpus.error(number, message));
        }
        if corpus.places.is_empty() && line.contains('\t') {
            corpus.separator = '\t';
        }
        let Some(word) = all.get(word).cloned() else {
            let message = format!("there is no column {} of words; the line has {}", word + 1, all.len());
            return Err(corpus.error(number, message));
        };
        let row = Bytes::new(start..start + line.len());
        let mut place = Place {
            line: number as u32,
            row,
            word: Bytes::new(shifted(word.clone(), start)),
            ..Place::default()
        };
        if options.tagged {
            let at = tag.unwrap_or(all.len() - 1);
            let Some(value) = all.get(at).cloned() else {
                let message = format!("there is no column {} of tags; the line has {}", at + 1, all.len());
                return Err(corpus.error(number, message));
            };
            if value == word {
                let message = format!(
                    "token `{}`: the column of its word is the column of its tag; the line has {}",
                    &line[word],
                    units::count(all.len(), "column")
                );
                return Err(corpus.error(number, message));
            }
            if value.is_empty() {
                let message = format!("token `{}`: its tag is empty", &line[word]);
                return Err(corpus.error(number, message));
            }
            let missing = line[value.clone()] == options.missing;
            place.write = Bytes::new(shifted(value, start));
            place.tag = if missing { Bytes::default() } else { place.write };
        } else {
            let end = start + line.trim_end().len();
            place.write = Bytes::new(end..end);
        }
        corpus.places.push(place);
    }
    Ok(())
}
