//! The parameters of a conditional tagger.
//!
//! | parameter | one for every |
//! |---|---|
//! | state | attribute and tag seen together, or attribute and tag |
//! | pair | pair of tags seen one after the other, or pair of tags |
//! | triple (second order) | three tags seen one after the other, or three tags |
//!
//! They lie in this order in one vector; those of an attribute are together. Attributes with many tags come
//! first. While scores are computed they have a row of all tags, padded to whole vectors, in a table; the others
//! have only their parameters there.

use std::collections::BTreeSet;

use super::super::examples::{Examples, Names, UNUSED};
use crate::error::{Error, Result};

/// Numbers in a vector register.
pub(super) const LANES: usize = 8;

/// Which parameters there are, and where.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Design {
    /// The number of tags.
    pub tags: usize,
    /// 1, or 2 for parameters of three tags.
    pub order: usize,
    /// The number of attributes with rows.
    pub dense: usize,
    /// The first parameter of every attribute, and the end of the last.
    pub starts: Vec<usize>,
    /// The tag of every state parameter.
    pub state_tags: Vec<u16>,
    /// The pairs of tags with a parameter.
    pub pairs: Vec<[u16; 2]>,
    /// The triples of tags with a parameter.
    pub triples: Vec<[u16; 3]>,
}

/// Which parameters a design has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub order: usize,
    pub min_count: usize,
    pub all_possible: bool,
}

impl Design {
    /// Rows of the table are this long.
    pub fn width(&self) -> usize {
        padded(self.tags)
    }

    pub fn attributes(&self) -> usize {
        self.starts.len() - 1
    }

    /// The number of parameters.
    pub fn size(&self) -> usize {
        self.state_tags.len() + self.pairs.len() + self.triples.len()
    }

    /// The length of the table.
    pub fn table(&self) -> usize {
        self.dense * self.width() + self.state_tags.len() - self.starts[self.dense]
    }

    /// Whether an attribute with so many tags has a row.
    pub fn has_row(count: usize, tags: usize) -> bool {
        4 * count >= padded(tags)
    }

    /// The parameters of training data, whose attributes are renumbered.
    pub fn new(examples: &mut Examples, tags: usize, wanted: Wanted) -> Result<Self> {
        let Wanted { order, min_count, all_possible } = wanted;
        let numbered = &examples.numbered;
        let attributes = examples.names.len();
        // The tags of every attribute, by counting.
        let mut counts = vec![0usize; attributes + 1];
        numbered.items.iter().for_each(|&item| counts[item as usize + 1] += 1);
        let mut places = counts;
        for at in 0..attributes {
            places[at + 1] += places[at];
        }
        let first = places.clone();
        let mut seen = vec![0u16; numbered.items.len()];
        for token in 0..numbered.tokens() {
            for &item in &numbered.items[numbered.start(token)..numbered.ends[token]] {
                seen[places[item as usize]] = numbered.tags[token];
                places[item as usize] += 1;
            }
        }
        drop(places);
        let mut own: Vec<Option<Vec<u16>>> = Vec::with_capacity(attributes);
        for attribute in 0..attributes {
            let all = &mut seen[first[attribute]..first[attribute + 1]];
            let rare = examples.drops(attribute as u32, all.len(), min_count);
            if all.is_empty() || rare {
                own.push(None);
            } else if all_possible {
                own.push(Some((0..tags as u16).collect()));
            } else {
                all.sort_unstable();
                let mut tags = all.to_vec();
                tags.dedup();
                tags.shrink_to_fit();
                own.push(Some(tags));
            }
        }
        drop((seen, first));
        let (pairs, triples) = transitions(examples, tags, order, all_possible);
        let (design, new) = Design::assemble(&mut examples.names, own, (tags, order), pairs, triples)?;
        let number = |old: u32| Some(new[old as usize]).filter(|&number| number != UNUSED);
        examples.numbered.renumber(number, design.dense as u32);
        Ok(design)
    }

    /// The parameters of attributes with these tags, and the new number of every attribute, `UNUSED` for one
    /// without tags. The names are renumbered.
    pub fn assemble(
        names: &mut Names,
        own: Vec<Option<Vec<u16>>>,
        (tags, order): (usize, usize),
        pairs: Vec<[u16; 2]>,
        triples: Vec<[u16; 3]>,
    ) -> Result<(Self, Vec<u32>)> {
        let is_dense =
            |tags_of: &Option<Vec<u16>>| tags_of.as_ref().is_some_and(|own| Self::has_row(own.len(), tags));
        let is_sparse = |tags_of: &Option<Vec<u16>>| tags_of.is_some() && !is_dense(tags_of);
        let ids = 0..own.len() as u32;
        let dense: Vec<u32> = ids.clone().filter(|&a| is_dense(&own[a as usize])).collect();
        let sparse = ids.filter(|&a| is_sparse(&own[a as usize]));
        let order_of: Vec<u32> = dense.iter().copied().chain(sparse).collect();
        let (mut starts, mut state_tags) = (vec![0], Vec::new());
        let mut new = vec![UNUSED; own.len()];
        for (number, &old) in order_of.iter().enumerate() {
            state_tags.extend(own[old as usize].iter().flatten());
            starts.push(state_tags.len());
            new[old as usize] = number as u32;
        }
        drop(own);
        if state_tags.is_empty() {
            return Err(Error::argument("features", "no attribute is left; reduce min_count"));
        }
        *names = match &*names {
            Names::Listed(names) => Names::Listed(order_of.iter().map(|&old| names.name(old)).collect()),
            Names::Hashed { .. } => Names::Hashed { slots: new.clone() },
        };
        Ok((Design { tags, order, dense: dense.len(), starts, state_tags, pairs, triples }, new))
    }

    /// The place of every state parameter in the table.
    pub fn place(&self, attribute: usize, k: usize) -> usize {
        match attribute < self.dense {
            true => attribute * self.width() + usize::from(self.state_tags[k]),
            false => self.dense * self.width() + k - self.starts[self.dense],
        }
    }

    /// Writes the state parameters into a table.
    pub fn expand(&self, parameters: &[f64], table: &mut [f64]) {
        let (width, split) = (self.width(), self.starts[self.dense]);
        let (rows, others) = table.split_at_mut(self.dense * width);
        for (row, attribute) in rows.chunks_exact_mut(width).zip(0..) {
            for k in self.starts[attribute]..self.starts[attribute + 1] {
                row[usize::from(self.state_tags[k])] = parameters[k];
            }
        }
        others.copy_from_slice(&parameters[split..self.state_tags.len()]);
    }

    /// Reads the state parameters from a table.
    pub fn compress(&self, table: &[f64], parameters: &mut [f64]) {
        let (width, split) = (self.width(), self.starts[self.dense]);
        let (rows, others) = table.split_at(self.dense * width);
        for (row, attribute) in rows.chunks_exact(width).zip(0..) {
            for k in self.starts[attribute]..self.starts[attribute + 1] {
                parameters[k] = row[usize::from(self.state_tags[k])];
            }
        }
        parameters[split..self.state_tags.len()].copy_from_slice(others);
    }

    /// The scores of pairs, as rows of the first tag, padded.
    pub fn pair_scores(&self, parameters: &[f64]) -> Vec<f64> {
        self.pair_table(&parameters[self.state_tags.len()..])
    }

    /// The scores of triples, as rows of the first two tags, padded; empty for the first order.
    pub fn triple_scores(&self, parameters: &[f64]) -> Vec<f64> {
        self.triple_table(&parameters[self.state_tags.len() + self.pairs.len()..])
    }

    /// The same from the parameters of pairs.
    pub fn pair_table(&self, parameters: &[f64]) -> Vec<f64> {
        let width = self.width();
        let mut table = vec![0.0; self.tags * width];
        for ([a, b], value) in self.pairs.iter().zip(parameters) {
            table[usize::from(*a) * width + usize::from(*b)] = *value;
        }
        table
    }

    /// The same from the parameters of triples.
    pub fn triple_table(&self, parameters: &[f64]) -> Vec<f64> {
        if self.order < 2 {
            return Vec::new();
        }
        let width = self.width();
        let mut table = vec![0.0; self.tags * self.tags * width];
        for ([a, b, c], value) in self.triples.iter().zip(parameters) {
            table[(usize::from(*a) * self.tags + usize::from(*b)) * width + usize::from(*c)] = *value;
        }
        table
    }
}

pub(super) fn padded(tags: usize) -> usize {
    tags.next_multiple_of(LANES)
}

/// All pairs of tags, and for the second order all triples.
pub(super) fn all_transitions(tags: usize, order: usize) -> (Vec<[u16; 2]>, Vec<[u16; 3]>) {
    let all = 0..tags as u16;
    let pairs: Vec<[u16; 2]> = all.clone().flat_map(|a| all.clone().map(move |b| [a, b])).collect();
    let triples = match order {
        2 => pairs.iter().flat_map(|&[a, b]| all.clone().map(move |c| [a, b, c])).collect(),
        _ => Vec::new(),
    };
    (pairs, triples)
}

fn transitions(
    examples: &Examples,
    tags: usize,
    order: usize,
    all_possible: bool,
) -> (Vec<[u16; 2]>, Vec<[u16; 3]>) {
    if all_possible {
        return all_transitions(tags, order);
    }
    let (mut pairs, mut triples) = (BTreeSet::new(), BTreeSet::new());
    for number in 0..examples.len() {
        let own = &examples.numbered.tags[examples.numbered.sentence(number)];
        pairs.extend(own.windows(2).map(|w| [w[0], w[1]]));
        if order == 2 {
            triples.extend(own.windows(3).map(|w| [w[0], w[1], w[2]]));
        }
    }
    (pairs.into_iter().collect(), triples.into_iter().collect())
}
