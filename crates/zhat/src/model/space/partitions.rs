//! Partitions of n elements into blocks, as the block of each element; blocks are numbered by first
//! occurrence.
//!
//! |Y| is the Bell number, Bell(n) = e⁻¹ Σ_m mⁿ/m! (Dobiński). A uniform sample uses Stam's urn model: it
//! draws the number m of urns with probability proportional to mⁿ/m!, puts each element into a uniformly
//! random urn, and takes the non-empty urns as blocks (A. J. Stam, *Generation of a random partition of a
//! finite set by an urn model*, 1983).

use super::{Space, Step, check_size, check_width, log_factorial, refuse};
use crate::error::Result;
use crate::random::Stream;
use crate::run::Clock;

/// Log ratio to the largest term below which a term of Dobiński's sum is omitted.
const NEGLIGIBLE: f64 = -60.0;

/// The partitions of n elements.
#[derive(Clone, Debug, PartialEq)]
pub struct Partitions {
    elements: usize,
    log_count: f64,
    /// `urns` holds the cumulative weights of the number of urns, from `least` on.
    least: usize,
    urns: Vec<f64>,
}

impl Partitions {
    /// The partitions of this many elements.
    ///
    /// # Errors
    /// If there are no elements, or more than `u32::MAX`.
    pub fn new(elements: usize) -> Result<Self> {
        check_size("elements of partitions", elements, 1)?;
        let log = |m: usize| elements as f64 * (m as f64).ln() - log_factorial(m);
        // The terms are unimodal.
        let mut mode = 1;
        while log(mode + 1) > log(mode) {
            mode += 1;
        }
        let largest = log(mode);
        let least = (1..=mode).rev().take_while(|m| log(*m) - largest > NEGLIGIBLE).last().unwrap_or(mode);
        let mut urns = Vec::new();
        let mut total = 0.0;
        for m in least.. {
            let term = log(m) - largest;
            if m > mode && term < NEGLIGIBLE {
                break;
            }
            total += term.exp();
            urns.push(total);
        }
        Ok(Partitions { elements, log_count: largest + total.ln() - 1.0, least, urns })
    }

    /// The number of elements.
    pub fn elements(&self) -> usize {
        self.elements
    }
}

impl Space for Partitions {
    fn name(&self) -> &'static str {
        "partitions"
    }

    fn width(&self) -> usize {
        self.elements
    }

    fn log_count(&self) -> Option<f64> {
        Some(self.log_count)
    }

    fn uniform(&self, random: &mut Stream, structure: &mut [u32], _: &Clock<'_>) -> Result<()> {
        let point = random.uniform() * self.urns.last().copied().unwrap_or(1.0);
        let urns = self.least + self.urns.partition_point(|sum| *sum <= point).min(self.urns.len() - 1);
        structure.iter_mut().for_each(|block| *block = random.below(urns) as u32);
        self.canonical(structure);
        Ok(())
    }

    fn check(&self, structure: &[u32]) -> Result<()> {
        check_width(self, structure)?;
        let mut blocks = 0;
        for (i, &block) in structure.iter().enumerate() {
            if block > blocks {
                return Err(refuse(format!(
                    "element {i} is in block {block}; blocks are numbered as they appear, so expected at most {blocks}"
                )));
            }
            blocks = blocks.max(block + 1);
        }
        Ok(())
    }

    fn enumerate(&self, _: &Clock<'_>, visit: &mut dyn FnMut(&[u32]) -> bool) -> Result<bool> {
        Ok(growth_strings(self.elements, (1, self.elements), visit))
    }

    /// Moves an element to the block of another element or to a new block, each block with equal probability.
    fn propose(
        &self,
        random: &mut Stream,
        structure: &mut [u32],
        step: &mut Step,
        _: &Clock<'_>,
    ) -> Result<f64> {
        let i = random.below(self.elements);
        let old = structure[i];
        // Block numbers stay below n: without the element there are at most n − 1 blocks, so one number is
        // free.
        let mut used = vec![false; self.elements];
        structure.iter().enumerate().filter(|(j, _)| *j != i).for_each(|(_, b)| used[*b as usize] = true);
        let blocks = used.iter().filter(|used| **used).count();
        let chosen = random.below(blocks + 1);
        let target = if chosen == blocks {
            used.iter().position(|used| !used)
        } else {
            used.iter().enumerate().filter(|(_, used)| **used).map(|(b, _)| b).nth(chosen)
        };
        step.set(structure, i, target.map_or(old, |b| b as u32));
        Ok(0.0)
    }

    fn canonical(&self, structure: &mut [u32]) {
        let most = structure.iter().copied().max().unwrap_or(0) as usize;
        let mut names = vec![u32::MAX; most + 1];
        let mut next = 0;
        for block in structure {
            let name = &mut names[*block as usize];
            if *name == u32::MAX {
                *name = next;
                next += 1;
            }
            *block = *name;
        }
    }

    fn show(&self, structure: &[u32]) -> String {
        let blocks = structure.iter().max().map_or(0, |most| most + 1);
        let block = |b: u32| {
            let own = structure.iter().enumerate().filter(|(_, block)| **block == b);
            own.map(|(i, _)| i.to_string()).collect::<Vec<_>>().join(" ")
        };
        (0..blocks).map(block).collect::<Vec<_>>().join(" | ")
    }
}

/// Visits the partitions of n elements into a number of blocks in the given range, in lexicographic order,
/// until `visit` returns false; returns whether all were visited.
pub(crate) fn growth_strings(
    n: usize,
    (least, most): (usize, usize),
    visit: &mut dyn FnMut(&[u32]) -> bool,
) -> bool {
    if least.max(1) > most.min(n) {
        return true;
    }
    // The first completion from index `from` with `blocks` blocks so far: all elements in the first block,
    // except the last ones, which form the missing blocks.
    let fill = |structure: &mut [u32], from: usize, blocks: usize| {
        structure[from..].fill(0);
        let missing = least.saturating_sub(blocks);
        structure[n - missing..].iter_mut().zip(blocks as u32..).for_each(|(block, own)| *block = own);
    };
    let mut structure = vec![0u32; n];
    fill(&mut structure, 1, 1);
    loop {
        if !visit(&structure) {
            return false;
        }
        // The last element whose block can be increased by one: to at most a new block, with enough elements
        // left for the missing blocks.
        let mut blocks = 1;
        let mut found = None;
        for (i, &block) in structure.iter().enumerate().skip(1) {
            let raised = block as usize + 1;
            let after = blocks.max(raised + 1);
            if raised <= blocks && after <= most && after + (n - i - 1) >= least {
                found = Some((i, after));
            }
            blocks = blocks.max(raised);
        }
        let Some((at, blocks)) = found else { return true };
        structure[at] += 1;
        fill(&mut structure, at + 1, blocks);
    }
}
