//! The observed structures: label sets, subtrees, (partial) rankings and partitions, one per row.

use crate::error::{Error, Result};

/// Sets of labels or nodes, one per row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sets {
    /// The number of labels or nodes.
    pub width: usize,
    /// The end of each row in `members`.
    pub ends: Vec<usize>,
    /// The members of all rows, ascending in each row.
    pub members: Vec<u32>,
}

impl Sets {
    /// The members of one row.
    pub fn row(&self, row: usize) -> &[u32] {
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        &self.members[start..self.ends[row]]
    }

    /// Adds a row.
    ///
    /// # Errors
    /// If a member is out of range.
    pub fn push(&mut self, members: impl IntoIterator<Item = u32>) -> Result<()> {
        let start = self.members.len();
        self.members.extend(members);
        let row = &mut self.members[start..];
        row.sort_unstable();
        if let Some(&last) = row.last().filter(|last| **last as usize >= self.width) {
            self.members.truncate(start);
            return Err(Error::argument("targets", format!("there is no label {last} of {}", self.width)));
        }
        let mut kept = start;
        for i in start..self.members.len() {
            if i == start || self.members[i] != self.members[i - 1] {
                self.members[kept] = self.members[i];
                kept += 1;
            }
        }
        self.members.truncate(kept);
        self.ends.push(kept);
        Ok(())
    }
}

/// Rankings, one per row. The rank of an item is its place, 1 for the first. Items with equal ranks are tied:
/// their order is not observed. An item with rank 0 was not ranked, and its place is not observed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranks {
    /// The number of items.
    pub items: usize,
    /// rows × items ranks.
    pub ranks: Vec<u32>,
}

impl Ranks {
    /// The ranks of one row.
    pub fn row(&self, row: usize) -> &[u32] {
        &self.ranks[row * self.items..][..self.items]
    }

    /// The items in order, if the row is a complete ranking without ties.
    pub fn order(ranks: &[u32]) -> Option<Vec<u32>> {
        let mut items: Vec<u32> = (0..ranks.len() as u32).collect();
        items.sort_by_key(|&item| ranks[item as usize]);
        let complete = items.first().is_none_or(|&first| ranks[first as usize] > 0)
            && items.windows(2).all(|pair| ranks[pair[0] as usize] < ranks[pair[1] as usize]);
        complete.then_some(items)
    }

    /// For every item, the set of items that come before it, as bits.
    pub fn before(ranks: &[u32]) -> Vec<u32> {
        let earlier = |&own: &u32| {
            let is = |rank: u32| rank > 0 && rank < own;
            ranks
                .iter()
                .enumerate()
                .filter(|(_, rank)| is(**rank))
                .fold(0u32, |set, (item, _)| set | 1 << item)
        };
        ranks.iter().map(earlier).collect()
    }
}

/// Partitions of a set of elements, one per row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    /// The number of elements.
    pub elements: usize,
    /// rows × elements block numbers, by first occurrence.
    pub blocks: Vec<u32>,
}

impl Blocks {
    /// The blocks of one row.
    pub fn row(&self, row: usize) -> &[u32] {
        &self.blocks[row * self.elements..][..self.elements]
    }

    /// Numbers blocks by first occurrence.
    pub fn canonical(blocks: &mut [u32]) {
        let mut seen: Vec<u32> = Vec::new();
        for block in blocks {
            let place = seen.iter().position(|known| known == block).unwrap_or_else(|| {
                seen.push(*block);
                seen.len() - 1
            });
            *block = place as u32;
        }
    }
}

/// The observed structures of a data set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Targets {
    /// Sets of labels, or of nodes that are closed under parents.
    Sets(Sets),
    /// Rankings.
    Ranks(Ranks),
    /// Partitions.
    Blocks(Blocks),
}

impl Targets {
    /// The number of rows.
    pub fn rows(&self) -> usize {
        match self {
            Targets::Sets(sets) => sets.ends.len(),
            Targets::Ranks(ranks) => ranks.ranks.len() / ranks.items.max(1),
            Targets::Blocks(blocks) => blocks.blocks.len() / blocks.elements.max(1),
        }
    }

    /// The number of labels, nodes, items or elements.
    pub fn width(&self) -> usize {
        match self {
            Targets::Sets(sets) => sets.width,
            Targets::Ranks(ranks) => ranks.items,
            Targets::Blocks(blocks) => blocks.elements,
        }
    }

    /// What a row is called in messages.
    pub fn name(&self) -> &'static str {
        match self {
            Targets::Sets(_) => "sets",
            Targets::Ranks(_) => "rankings",
            Targets::Blocks(_) => "partitions",
        }
    }

    /// Some of the rows, in this order.
    pub fn select(&self, rows: &[usize]) -> Targets {
        match self {
            Targets::Sets(sets) => {
                let mut some = Sets { width: sets.width, ..Default::default() };
                for &row in rows {
                    some.members.extend_from_slice(sets.row(row));
                    some.ends.push(some.members.len());
                }
                Targets::Sets(some)
            }
            Targets::Ranks(ranks) => {
                let rows = rows.iter().flat_map(|&row| ranks.row(row).iter().copied());
                Targets::Ranks(Ranks { items: ranks.items, ranks: rows.collect() })
            }
            Targets::Blocks(blocks) => {
                let rows = rows.iter().flat_map(|&row| blocks.row(row).iter().copied());
                Targets::Blocks(Blocks { elements: blocks.elements, blocks: rows.collect() })
            }
        }
    }

    /// The structure of a row as in [`crate::space`]: zeros and ones for sets, items in order for rankings,
    /// block numbers for partitions. `None` for a ranking with ties or unranked items.
    pub fn structure(&self, row: usize) -> Option<Vec<u32>> {
        match self {
            Targets::Sets(sets) => {
                let mut structure = vec![0; sets.width];
                sets.row(row).iter().for_each(|&member| structure[member as usize] = 1);
                Some(structure)
            }
            Targets::Ranks(ranks) => Ranks::order(ranks.row(row)),
            Targets::Blocks(blocks) => Some(blocks.row(row).to_vec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_kept_and_selected() {
        let mut sets = Sets { width: 4, ..Default::default() };
        sets.push([3, 1, 3]).unwrap();
        sets.push([]).unwrap();
        assert!(sets.push([4]).is_err());
        sets.push([0]).unwrap();
        assert_eq!((sets.row(0), sets.row(1), sets.row(2)), (&[1, 3][..], &[][..], &[0][..]));
        let some = Targets::Sets(sets).select(&[2, 0, 0]);
        assert_eq!((some.rows(), some.structure(1)), (3, Some(vec![0, 1, 0, 1])));
        assert_eq!(Ranks::order(&[3, 1, 2]), Some(vec![1, 2, 0]));
        assert_eq!((Ranks::order(&[1, 2, 2]), Ranks::order(&[0, 1, 2])), (None, None));
        assert_eq!(Ranks::before(&[2, 1, 0, 2]), [0b10, 0, 0, 0b10]);
        let mut blocks = [7, 2, 7, 0];
        Blocks::canonical(&mut blocks);
        assert_eq!(blocks, [0, 1, 0, 2]);
    }
}
