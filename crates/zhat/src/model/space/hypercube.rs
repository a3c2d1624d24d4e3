//! The vertices of a hypercube: subsets of n labels. |Y| = 2ⁿ; a uniform sample is n fair coin flips.

use super::{Space, Step, check_size, check_width, refuse};
use crate::error::Result;
use crate::random::Stream;
use crate::run::Clock;

/// Subsets of n labels, as vectors of 0 and 1. With signs, scores use the values −1 and 1 for 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hypercube {
    labels: usize,
    signs: bool,
}

impl Hypercube {
    /// {0, 1}ⁿ.
    ///
    /// # Errors
    /// If there are more than `u32::MAX` labels.
    pub fn new(labels: usize) -> Result<Self> {
        check_size("labels", labels, 0)?;
        Ok(Hypercube { labels, signs: false })
    }

    /// {−1, 1}ⁿ; in structures −1 is written as 0.
    ///
    /// # Errors
    /// If there are more than `u32::MAX` labels.
    pub fn signs(labels: usize) -> Result<Self> {
        Ok(Hypercube { signs: true, ..Self::new(labels)? })
    }

    /// The number of labels.
    pub fn labels(&self) -> usize {
        self.labels
    }

    /// Whether scores use −1 for 0.
    pub fn has_signs(&self) -> bool {
        self.signs
    }

    /// The value used in scores for a number of the structure.
    pub(crate) fn value(&self, bit: u32) -> f64 {
        match (self.signs, bit) {
            (_, 0) => -f64::from(u8::from(self.signs)),
            _ => 1.0,
        }
    }
}

impl Space for Hypercube {
    fn name(&self) -> &'static str {
        "hypercube"
    }

    fn width(&self) -> usize {
        self.labels
    }

    fn log_count(&self) -> Option<f64> {
        Some(self.labels as f64 * std::f64::consts::LN_2)
    }

    fn uniform(&self, random: &mut Stream, structure: &mut [u32], _: &Clock<'_>) -> Result<()> {
        for chunk in structure.chunks_mut(64) {
            let bits = random.bits();
            chunk.iter_mut().enumerate().for_each(|(i, bit)| *bit = (bits >> i & 1) as u32);
        }
        Ok(())
    }

    fn check(&self, structure: &[u32]) -> Result<()> {
        check_width(self, structure)?;
        match structure.iter().position(|bit| *bit > 1) {
            Some(i) => Err(refuse(format!("label {i} is {}, expected 0 or 1", structure[i]))),
            None => Ok(()),
        }
    }

    fn enumerate(&self, _: &Clock<'_>, visit: &mut dyn FnMut(&[u32]) -> bool) -> Result<bool> {
        let mut structure = vec![0; self.labels];
        loop {
            if !visit(&structure) {
                return Ok(false);
            }
            let Some(zero) = structure.iter().position(|bit| *bit == 0) else { return Ok(true) };
            structure[..zero].fill(0);
            structure[zero] = 1;
        }
    }

    /// Flips a label.
    fn propose(
        &self,
        random: &mut Stream,
        structure: &mut [u32],
        step: &mut Step,
        _: &Clock<'_>,
    ) -> Result<f64> {
        if self.labels > 0 {
            let i = random.below(self.labels);
            step.set(structure, i, 1 - structure[i]);
        }
        Ok(0.0)
    }

    fn show(&self, structure: &[u32]) -> String {
        structure.iter().map(|bit| if *bit == 0 { '0' } else { '1' }).collect()
    }
}
