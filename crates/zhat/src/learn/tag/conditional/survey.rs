//! The tags, attributes and parameters of a file that is read in blocks.
//!
//! Memory: eight bytes per pair of an attribute and a tag, and the names of the attributes unless they are hashed.

use std::collections::BTreeSet;

use super::super::corpus::Stream;
use super::super::examples::{Examples, Numbered, UNKNOWN};
use super::super::{TagSet, Template};
use super::design::{Design, all_transitions};
use super::train::Learning;
use crate::error::Result;
use crate::run::Clock;

/// The result of reading a file once.
pub(super) struct Survey {
    /// Names, words and hashes; no sentences.
    pub examples: Examples,
    pub tags: TagSet,
    pub design: Design,
    pub sentences: usize,
    pub tokens: usize,
    /// Identifies the data.
    pub data: u64,
}

/// Pairs of attributes and tags without repetition, sorted from time to time.
#[derive(Default)]
struct Pairs {
    keys: Vec<u64>,
    distinct: usize,
}

impl Pairs {
    fn push(&mut self, attribute: u32, tag: u16) {
        if self.keys.len() >= 2 * self.distinct + (1 << 16) {
            self.sort();
        }
        self.keys.push(u64::from(attribute) << 16 | u64::from(tag));
    }

    fn sort(&mut self) {
        self.keys.sort_unstable();
        self.keys.dedup();
        self.distinct = self.keys.len();
    }
}

/// Reads a file once.
pub(super) fn survey(
    stream: &Stream,
    template: &Template,
    hash_bits: Option<u32>,
    how: &Learning,
    clock: &Clock<'_>,
) -> Result<Survey> {
    let mut examples = Examples::new(hash_bits)?.with_template(template.clone());
    let (mut found, mut counts) = (Pairs::default(), Vec::<u32>::new());
    let (mut pairs, mut triples) = (BTreeSet::new(), BTreeSet::new());
    let (mut sentences, mut tokens) = (0, 0);
    let mut data = stream.block_bytes() as u64;
    stream.each(&mut |corpus| {
        clock.check()?;
        data = (data ^ corpus.fingerprint()).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
        examples.extend(corpus, template)?;
        if hash_bits.is_some() {
            // A dictionary of the words would grow with the file.
            examples.words = None;
        }
        let numbered = std::mem::take(&mut examples.numbered);
        count(&numbered, &mut found, &mut counts);
        for number in 0..numbered.sentences.len() {
            let own = &numbered.tags[numbered.sentence(number)];
            pairs.extend(own.windows(2).map(|w| [w[0], w[1]]));
            if how.context == 2 {
                triples.extend(own.windows(3).map(|w| [w[0], w[1], w[2]]));
            }
        }
        sentences += numbered.sentences.len();
        tokens += numbered.tokens();
        Ok(())
    })?;
    found.sort();
    let before: Vec<String> = examples.tags.names().map(str::to_owned).collect();
    let tags = examples.sort_tags()?;
    let number = |tag: u16| tags.number(&before[usize::from(tag)]).map_or(UNKNOWN, |tag| tag as u16);
    let mut own: Vec<Option<Vec<u16>>> = vec![None; examples.names.len()];
    for key in found.keys {
        let attribute = (key >> 16) as usize;
        let rare = examples.drops(attribute as u32, counts[attribute] as usize, how.min_count);
        if !rare {
            own[attribute].get_or_insert_default().push(number(key as u16));
        }
    }
    for tags_of in own.iter_mut().flatten() {
        match how.all_possible {
            true => *tags_of = (0..tags.len() as u16).collect(),
            false => tags_of.sort_unstable(),
        }
    }
    let (pairs, triples) = match how.all_possible {
        true => all_transitions(tags.len(), how.context),
        false => {
            let mut pairs: Vec<[u16; 2]> = pairs.into_iter().map(|pair| pair.map(number)).collect();
            let mut triples: Vec<[u16; 3]> = triples.into_iter().map(|triple| triple.map(number)).collect();
            pairs.sort_unstable();
            triples.sort_unstable();
            (pairs, triples)
        }
    };
    let (design, _) = Design::assemble(&mut examples.names, own, (tags.len(), how.context), pairs, triples)?;
    Ok(Survey { examples, tags, design, sentences, tokens, data })
}

fn count(numbered: &Numbered, found: &mut Pairs, counts: &mut Vec<u32>) {
    for token in 0..numbered.tokens() {
        for &item in &numbered.items[numbered.start(token)..numbered.ends[token]] {
            found.push(item, numbered.tags[token]);
            if counts.len() <= item as usize {
                counts.resize(item as usize + 1, 0);
            }
            let own = &mut counts[item as usize];
            *own = own.saturating_add(1);
        }
    }
}
