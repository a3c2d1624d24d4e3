//! CRFsuite's format: the label and attributes of a token, separated by tabs.
//!
//! The last colon that is not escaped separates an attribute from its weight; without one the weight is 1. `\:`
//! and `\\` are a colon and a backslash of the name.

use std::borrow::Cow;

use super::columns::lines;
use super::{Bytes, Corpus, Place, ReadOptions};
use crate::error::Result;

/// The place of the first colon that is not escaped.
fn colon(item: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, byte) in item.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b':' => return Some(at),
            _ => {}
        }
    }
    None
}

fn unescaped(name: &str) -> Cow<'_, str> {
    if !name.contains('\\') {
        return Cow::Borrowed(name);
    }
    let mut out = String::with_capacity(name.len());
    let mut rest = name.chars().peekable();
    while let Some(c) = rest.next() {
        match (c, rest.peek()) {
            ('\\', Some(&next @ (':' | '\\'))) => {
                out.push(next);
                rest.next();
            }
            _ => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// The name and weight of an attribute; the weight of one that was not checked is 1 if it is not a number.
pub(super) fn attribute(item: &str) -> (Cow<'_, str>, f64) {
    match colon(item) {
        Some(at) => (unescaped(&item[..at]), item[at + 1..].parse().unwrap_or(1.0)),
        None => (unescaped(item), 1.0),
    }
}

pub(super) fn read(corpus: &mut Corpus, options: &ReadOptions) -> Result<()> {
    let text = std::mem::take(&mut corpus.text);
    let done = read_lines(corpus, &text, options);
    corpus.text = text;
    done
}

fn read_lines(corpus: &mut Corpus, text: &str, options: &ReadOptions) -> Result<()> {
    for (number, start, line) in lines(text) {
        if line.trim().is_empty() {
            corpus.end_sentence();
            continue;
        }
        let label = line.split('\t').next().unwrap_or_default();
        if label.is_empty() {
            let message = "the line has no label before its first tab; `_` stands for none".into();
            return Err(corpus.error(number, message));
        }
        for (place, item) in line.split('\t').enumerate().skip(1) {
            let Some(at) = colon(item) else { continue };
            let weight = item[at + 1..].parse::<f64>().ok().filter(|weight| weight.is_finite());
            if weight.is_none() {
                let message = format!(
                    "attribute {place} `{item}`: expected a finite weight after the colon; a colon of the name is written `\\:`"
                );
                return Err(corpus.error(number, message));
            }
        }
        let write = Bytes::new(start..start + label.len());
        let missing = !options.tagged || label == options.missing;
        corpus.places.push(Place {
            line: number as u32,
            row: Bytes::new(start..start + line.len()),
            word: Bytes::default(),
            tag: if missing { Bytes::default() } else { write },
            write,
        });
    }
    Ok(())
}
