//! The structures of a space that satisfy conditions.
//!
//! For conditions on the size, on labels and nodes, on the vertices of cycles and on links in partitions the
//! number of structures is known and samples are drawn directly (`counted`). For other conditions there is no
//! formula: uniform samples are drawn by rejection from the structures that satisfy the first kind of
//! conditions, with expected cost inversely proportional to the accepted share, and the number is estimated
//! from that share (`count`).

use std::sync::Arc;

use super::counted::{self, Counted};
use super::{Condition, Space, Step, Structures, refuse};
use crate::error::{Error, Result};
use crate::random::Stream;
use crate::run::Clock;

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
#[derive(Clone, Debug)]
pub struct Restricted {
    base: Box<Structures>,
    conditions: Vec<Condition>,
    /// The structures that satisfy the conditions with a formula, if there are such conditions.
    counted: Option<Arc<Counted>>,
    /// Whether all conditions have a formula.
    all_counted: bool,
}

impl PartialEq for Restricted {
    fn eq(&self, other: &Self) -> bool {
        self.base == other.base && self.conditions == other.conditions
    }
}

impl Restricted {
    /// The structures of `space` that satisfy all conditions, in addition to those it already has.
    ///
    /// # Errors
    /// If a condition is not defined for the space, or names an element that does not exist.
    pub fn new(
        space: impl Into<Structures>,
        conditions: impl IntoIterator<Item = Condition>,
    ) -> Result<Self> {
        let mut all = match space.into() {
            Structures::Restricted(space) => space,
            other => Restricted {
                base: Box::new(other),
                conditions: Vec::new(),
                counted: None,
                all_counted: false,
            },
        };
        all.conditions.extend(conditions);
        all.conditions.iter().try_for_each(|condition| condition.check(&all.base))?;
        let own = all.conditions.iter().filter(|condition| counted::counts(&all.base, condition));
        let own: Vec<Condition> = own.cloned().collect();
        let number = own.len();
        all.counted = if number == 0 { None } else { Counted::new(&all.base, own).map(Arc::new) };
        all.all_counted = all.counted.is_some() && number == all.conditions.len();
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

    /// The structures that satisfy the conditions with a formula.
    fn outer(&self) -> &dyn Space {
        match &self.counted {
            Some(counted) => &**counted,
            None => self.base.as_space(),
        }
    }

    /// The first condition that a structure violates.
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
        self.base.restricted_name()
    }

    fn width(&self) -> usize {
        self.base.as_space().width()
    }

    /// Known if all conditions have a formula.
    fn log_count(&self) -> Option<f64> {
        let known = self.all_counted || self.conditions.is_empty();
        if known { self.outer().log_count() } else { None }
    }

    fn enclosing(&self) -> Option<&dyn Space> {
        Some(self.outer())
    }

    fn uniform(&self, random: &mut Stream, structure: &mut [u32], clock: &Clock<'_>) -> Result<()> {
        let outer = self.outer();
        if self.log_count().is_some() {
            return outer.uniform(random, structure, clock);
        }
        super::reject(self, outer, random, structure, clock)
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

    /// Uses one move of the whole space if it stays inside, or two moves through a structure outside;
    /// detailed balance holds because the reverse path is the same. With probability 1/(width + 1) it
    /// proposes a new uniform structure instead, because moves alone need not reach every structure.
    fn propose(
        &self,
        random: &mut Stream,
        structure: &mut [u32],
        step: &mut Step,
        clock: &Clock<'_>,
    ) -> Result<f64> {
        let mut moved = structure.to_vec();
        if random.below(self.width() + 1) == 0 {
            match self.uniform(random, &mut moved, clock) {
                Ok(()) => {}
                // Rejection found no structure: not moving is also a valid move.
                Err(Error::NoAnswer(_)) => return Ok(0.0),
                Err(error) => return Err(error),
            }
            for (index, &value) in moved.iter().enumerate() {
                step.set(structure, index, value);
            }
            return Ok(0.0);
        }
        let base = self.base.as_space();
        let mut ratio = 0.0;
        for _ in 0..2 {
            ratio += base.propose(random, structure, step, clock)?;
            moved.copy_from_slice(structure);
            base.canonical(&mut moved);
            if self.contains(&moved)? {
                return Ok(ratio);
            }
        }
        step.undo(structure);
        Ok(0.0)
    }

    fn canonical(&self, structure: &mut [u32]) {
        self.base.as_space().canonical(structure);
    }

    fn show(&self, structure: &[u32]) -> String {
        self.base.as_space().show(structure)
    }
}
