//! The structures of a space that meet conditions.
//!
//! Their number has no formula. Uniform draws are made by rejection from the whole space, so they take the inverse of the share that is allowed; the number is estimated from
//! that share (`count`).

use super::{Condition, Space, Step, Structures, refuse};
use crate::error::{Error, Result};
use crate::random::Stream;

/// A space with conditions on its structures.
///
/// ```
/// use zhat::exact::Enumeration;
/// use zhat::space::{Permutations, Restricted, Scores, SpaceModel};
/// use zhat::{LogPartition, Run};
/// // Orders of four items, 0 before 1 and 2 before 3: a quarter of 24.
/// let space = Restricted::new(Permutations::new(4)?, ["before 0 1".parse()?, "before 2 3".parse()?])?;
/// let model = SpaceModel::new(space, Scores::Position(vec![0.0; 16]))?;
/// let z = Enumeration::default().log_partition(&model, &Run::default())?;
/// assert!((z.value - 6f64.ln()).abs() < 1e-12);
/// # Ok::<(), zhat::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Restricted {
    base: Box<Structures>,
    conditions: Vec<Condition>,
}

impl Restricted {
    /// The structures of `space` that meet all conditions, on top of those that it has already.
    pub fn new(
        space: impl Into<Structures>,
        conditions: impl IntoIterator<Item = Condition>,
    ) -> Result<Self> {
        let mut all = match space.into() {
            Structures::Restricted(space) => space,
            other => Restricted { base: Box::new(other), conditions: Vec::new() },
        };
        all.conditions.extend(conditions);
        all.conditions.iter().try_for_each(|condition| condition.check(&all.base))?;
        Ok(all)
    }

    /// The space without conditions.
    pub fn base(&self) -> &Structures {
        &self.base
    }

    /// The conditions.
    pub fn conditions(&self) -> &[Condition] {
        &self.conditions
    }

    /// The first condition that a structure does not meet.
    fn broken(&self, structure: &[u32]) -> Result<Option<&Condition>> {
        for condition in &self.conditions {
            if !condition.holds(&self.base, structure)? {
                return Ok(Some(condition));
            }
        }
        Ok(None)
    }
}

impl Space for Restricted {
    fn name(&self) -> &'static str {
        match *self.base {
            Structures::Hypercube(_) => "restricted hypercube",
            Structures::Permutations(_) => "restricted permutations",
            Structures::Subtrees(_) => "restricted subtrees",
            Structures::Cycles(_) => "restricted cycles",
            Structures::Partitions(_) => "restricted partitions",
            Structures::Restricted(_) | Structures::Custom(_) => "restricted structures",
        }
    }

    fn width(&self) -> usize {
        self.base.as_space().width()
    }

    /// Known only where there is no condition.
    fn log_count(&self) -> Option<f64> {
        if self.conditions.is_empty() { self.base.as_space().log_count() } else { None }
    }

    fn enclosing(&self) -> Option<&dyn Space> {
        Some(self.base.as_space())
    }

    fn contains(&self, structure: &[u32]) -> Result<bool> {
        Ok(self.broken(structure)?.is_none())
    }

    fn check(&self, structure: &[u32]) -> Result<()> {
        self.base.as_space().check(structure)?;
        match self.broken(structure)? {
            Some(condition) => Err(refuse(format!("it does not meet the condition {condition:?}"))),
            None => Ok(()),
        }
    }

    /// The moves of the whole space that stay inside; now and then a whole new structure, because those need not lead everywhere.
    fn propose(&self, random: &mut Stream, structure: &mut [u32], step: &mut Step) -> Result<f64> {
        let mut moved = structure.to_vec();
        if random.below(self.width() + 1) == 0 {
            match self.uniform(random, &mut moved) {
                Ok(()) => {}
                // Too rare to be found again: staying is a move as well.
                Err(Error::NoAnswer(_)) => return Ok(0.0),
                Err(error) => return Err(error),
            }
            for (index, &value) in moved.iter().enumerate() {
                step.set(structure, index, value);
            }
            return Ok(0.0);
        }
        let ratio = self.base.as_space().propose(random, structure, step)?;
        moved.copy_from_slice(structure);
        self.base.as_space().canonical(&mut moved);
        if !self.contains(&moved)? {
            step.undo(structure);
            return Ok(0.0);
        }
        Ok(ratio)
    }

    fn canonical(&self, structure: &mut [u32]) {
        self.base.as_space().canonical(structure);
    }

    fn show(&self, structure: &[u32]) -> String {
        self.base.as_space().show(structure)
    }
}
