//! Lines of tokens `word_TAG`. The last `_` of a token separates word and tag.

use super::columns::lines;
use super::{Bytes, Corpus, Place, ReadOptions};
use crate::error::Result;

pub(super) fn read(corpus: &mut Corpus, options: &ReadOptions) -> Result<()> {
    corpus.separator = '_';
    let text = std::mem::take(&mut corpus.text);
    let done = read_lines(corpus, &text, options);
    corpus.text = text;
    done
}

fn read_lines(corpus: &mut Corpus, text: &str, options: &ReadOptions) -> Result<()> {
    for (number, start, line) in lines(text) {
        let mut at = 0;
        for token in line.split_whitespace() {
            // The tokens are found in order, so that each search starts after the last one.
            at += line[at..].find(token).unwrap_or(0);
            let (from, to) = (start + at, start + at + token.len());
            at += token.len();
            let row = Bytes::new(from..to);
            let mut place = Place { line: number as u32, row, ..Place::default() };
            if options.tagged {
                // `word__` is a word without a tag, where `_` stands for an unknown one.
                let missing = token.strip_suffix(options.missing.as_str());
                let unknown = missing.and_then(|rest| rest.strip_suffix('_')).map(str::len);
                let known = token.rfind('_').filter(|&split| split + 1 < token.len());
                let Some(split) = unknown.or(known).filter(|&split| split > 0) else {
                    let message = format!("token `{token}` has no tag; expected word_TAG");
                    return Err(corpus.error(number, message));
                };
                place.word = Bytes::new(from..from + split);
                place.write = Bytes::new(from + split + 1..to);
                let missing = token[split + 1..] == options.missing;
                place.tag = if missing { Bytes::default() } else { place.write };
            } else {
                place.word = row;
                place.write = Bytes::new(to..to);
            }
            corpus.places.push(place);
        }
        corpus.end_sentence();
    }
    Ok(())
}
