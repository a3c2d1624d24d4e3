//! Combinatorial spaces: sets of structures with an exact uniform sampler, and models on them.
//!
//! In every space, a structure is a slice of `u32` whose length is the width of the space:
//!
//! | space | value at index i | number of structures |
//! |---|---|---|
//! | [`Hypercube`] | 0 or 1: whether label i is chosen | 2ⁿ |
//! | [`Permutations`] | the item at position i | n! |
//! | [`Subtrees`] | 0 or 1: whether node i belongs to the subtree, which is closed under parents | f(root), f(v) = 1 + Π f(child) |
//! | [`Cycles`] | the successor of vertex i; i itself if it is not on the cycle | Σ_{k≥3} C(n, k)(k − 1)!/2 |
//! | [`Partitions`] | the block of element i; blocks are numbered by first occurrence | Bell(n) |
//!
//! [`Restricted`] is the subset of a space that satisfies conditions.
//!
//! A model ([`SpaceModel`]) is a space with scores ([`Scores`]), s(y) = ⟨θ, φ(y)⟩, and log Z = ln Σ_y exp
//! s(y). A user-defined space implements [`Space`], user-defined scores implement [`Features`].
//!
//! Reference: S. Vembu, T. Gärtner, M. Boley, *Probabilistic structured predictors*, UAI 2009.

pub(in crate::model) mod any;
pub(crate) mod assignment;
pub(crate) mod choices;
pub(crate) mod condition;
pub(crate) mod counted;
mod cycles;
mod distance;
pub(crate) mod file;
pub(in crate::model) mod generate;
mod hypercube;
mod model;
mod partitions;
mod permutations;
pub(crate) mod range;
mod restricted;
pub(crate) mod scores;
mod subtrees;

use std::fmt::Debug;
use std::sync::Arc;

pub use condition::{Condition, Event};
pub use cycles::Cycles;
pub use distance::Distance;
pub use hypercube::Hypercube;
pub use model::{Expectations, SpaceMarginals, SpaceModel};
pub use partitions::Partitions;
pub use permutations::Permutations;
pub use restricted::Restricted;
pub use scores::{Closure, Features, Pairs, Scores};
pub use subtrees::Subtrees;

use crate::error::{Error, Result};
use crate::random::Stream;
use crate::run::Clock;

/// Maximum number of attempts of rejection sampling.
pub(crate) const MOST_TRIES: u64 = 1 << 22;
/// Number of structures between two checks of the clock. It is small because each structure may call
/// user-defined functions, which may be slow.
pub(crate) const ROUND: u64 = 4;

/// A finite set of structures with a uniform sampler.
///
/// A user-defined space gives the number of its structures, or names a larger space that contains it
/// ([`Space::enclosing`]). In the second case samples are drawn by rejection, structures are enumerated by
/// filtering those of the larger space, and methods estimate the number of structures as part of Z.
///
/// ```
/// use zhat::space::{Hypercube, Scores, Space, SpaceModel, Structures, UniformImportance};
/// use zhat::{Error, LogPartition, Result, Run};
///
/// /// Sets of vertices of a cycle, no two of them adjacent. Their number is unknown.
/// #[derive(Debug)]
/// struct IndependentSets(Hypercube);
///
/// impl Space for IndependentSets {
///     fn name(&self) -> &'static str {
///         "independent sets"
///     }
///
///     fn width(&self) -> usize {
///         self.0.width()
///     }
///
///     fn enclosing(&self) -> Option<&dyn Space> {
///         Some(&self.0)
///     }
///
///     fn check(&self, y: &[u32]) -> Result<()> {
///         self.0.check(y)?;
///         match (0..y.len()).find(|i| y[*i] == 1 && y[(i + 1) % y.len()] == 1) {
///             Some(i) => Err(Error::argument("structure", format!("{i} and its neighbour are both chosen"))),
///             None => Ok(()),
///         }
///     }
/// }
///
/// let space = Structures::custom(IndependentSets(Hypercube::new(10)?));
/// let model = SpaceModel::new(space, Scores::closure(|_| Ok(0.0), 0.0, 0.0))?;
/// let z = UniformImportance::default().log_partition(&model, &Run::default())?;
/// let (low, high, confidence) = z.guarantee.interval(z.value, 0.0).unwrap();
/// // There are 123 (a Lucas number).
/// assert!(low < 123f64.ln() && 123f64.ln() < high && confidence == 0.95);
/// # Ok::<(), Error>(())
/// ```
pub trait Space: Send + Sync + Debug {
    /// A short name for messages.
    fn name(&self) -> &'static str;

    /// The number of values in a structure.
    fn width(&self) -> usize;

    /// Checks that this is a structure of the space in canonical form; the error describes the problem.
    ///
    /// # Errors
    /// If the structure does not belong to the space or is not in canonical form.
    fn check(&self, structure: &[u32]) -> Result<()>;

    /// ln |Y|, if it is known.
    fn log_count(&self) -> Option<f64> {
        None
    }

    /// A larger space, whose structures belong to this one if [`Space::contains`] returns true. It is
    /// required if |Y| is unknown; |Y| is then estimated from the share of such structures. The larger space
    /// may itself have an enclosing space.
    fn enclosing(&self) -> Option<&dyn Space> {
        None
    }

    /// Whether a structure of the enclosing space belongs to this space.
    ///
    /// # Errors
    /// If a user-defined function fails. The default does not fail.
    fn contains(&self, structure: &[u32]) -> Result<bool> {
        Ok(self.check(structure).is_ok())
    }

    /// Draws a structure exactly uniformly. The default is rejection from the enclosing space.
    /// Implementations that may take long must check the clock.
    ///
    /// # Errors
    /// For the default: if there is no enclosing space, 2²² samples of it are all outside this space,
    /// [`Space::contains`] fails, or the run is cancelled or out of time.
    fn uniform(&self, random: &mut Stream, structure: &mut [u32], clock: &Clock<'_>) -> Result<()> {
        let Some(space) = self.enclosing() else {
            return Err(Error::NoAnswer(format!("the space of {} has no uniform sampler", self.name())));
        };
        reject(self, space, random, structure, clock)
    }

    /// Visits every structure once, until `visit` returns `false`; returns whether all were visited. The
    /// clock is checked for structures that are skipped.
    ///
    /// # Errors
    /// For the default: if there is no enclosing space, [`Space::contains`] fails, or the run is cancelled or
    /// out of time.
    fn enumerate(&self, clock: &Clock<'_>, visit: &mut dyn FnMut(&[u32]) -> bool) -> Result<bool> {
        let Some(space) = self.enclosing() else {
            return Err(Error::NoAnswer(format!("the structures of {} cannot be listed", self.name())));
        };
        let mut failure = None;
        let mut seen = 0u64;
        let mut inside = |structure: &[u32]| {
            seen += 1;
            if seen.is_multiple_of(ROUND) {
                clock.check()?;
            }
            self.contains(structure)
        };
        let all = space.enumerate(clock, &mut |structure| match inside(structure) {
            Ok(inside) => !inside || visit(structure),
            Err(error) => {
                failure = Some(error);
                false
            }
        })?;
        failure.map_or(Ok(all), Err)
    }

    /// Proposes a small change of a structure: records every changed value in `step` and returns
    /// ln(q(back)/q(forth)). With this ratio the Metropolis rule must leave the uniform distribution
    /// invariant, and every structure must be reachable from every other. The result may be non-canonical;
    /// [`Space::canonical`] restores the canonical form.
    ///
    /// # Errors
    /// As [`Space::uniform`], which the default calls.
    fn propose(
        &self,
        random: &mut Stream,
        structure: &mut [u32],
        step: &mut Step,
        clock: &Clock<'_>,
    ) -> Result<f64> {
        // The default for any space: a new structure.
        let mut drawn = vec![0; structure.len()];
        self.uniform(random, &mut drawn, clock)?;
        for (index, &value) in drawn.iter().enumerate() {
            step.set(structure, index, value);
        }
        Ok(0.0)
    }

    /// Brings a structure changed by moves into canonical form.
    fn canonical(&self, structure: &mut [u32]) {
        let _ = structure;
    }

    /// A short text for people.
    fn show(&self, structure: &[u32]) -> String {
        structure.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
    }
}

/// A value changed by a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The index.
    pub index: usize,
    /// The old value.
    pub old: u32,
    /// The new value; a later change of the same move may replace it.
    pub new: u32,
}

/// The changes of a move, in order.
#[derive(Clone, Debug, Default)]
pub struct Step {
    /// The changes.
    pub changes: Vec<Change>,
}

impl Step {
    /// Sets a value and records the old one.
    pub fn set(&mut self, structure: &mut [u32], index: usize, value: u32) {
        self.changes.push(Change { index, old: structure[index], new: value });
        structure[index] = value;
    }

    /// Reverts the changes.
    pub fn undo(&mut self, structure: &mut [u32]) {
        while let Some(change) = self.changes.pop() {
            structure[change.index] = change.old;
        }
    }
}

/// A space whose type is known only at run time.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Structures {
    /// Subsets of labels, or vectors of signs.
    Hypercube(Hypercube),
    /// Orders of items.
    Permutations(Permutations),
    /// Subtrees that contain the root of a tree.
    Subtrees(Subtrees),
    /// Undirected cycles through some of the vertices.
    Cycles(Cycles),
    /// Partitions of a set into blocks.
    Partitions(Partitions),
    /// The structures of another space that satisfy conditions.
    Restricted(Restricted),
    /// A user-defined space.
    Custom(Arc<dyn Space>),
}

impl Structures {
    /// A user-defined space.
    pub fn custom(space: impl Space + 'static) -> Self {
        Structures::Custom(Arc::new(space))
    }

    /// The space without its conditions.
    pub fn base(&self) -> &Structures {
        match self {
            Structures::Restricted(space) => space.base(),
            other => other,
        }
    }

    /// The name of the space with conditions.
    fn restricted_name(&self) -> &'static str {
        match self {
            Structures::Hypercube(_) => "restricted hypercube",
            Structures::Permutations(_) => "restricted permutations",
            Structures::Subtrees(_) => "restricted subtrees",
            Structures::Cycles(_) => "restricted cycles",
            Structures::Partitions(_) => "restricted partitions",
            Structures::Restricted(_) | Structures::Custom(_) => "restricted structures",
        }
    }

    /// The space as a trait object.
    pub fn as_space(&self) -> &dyn Space {
        match self {
            Structures::Hypercube(space) => space,
            Structures::Permutations(space) => space,
            Structures::Subtrees(space) => space,
            Structures::Cycles(space) => space,
            Structures::Partitions(space) => space,
            Structures::Restricted(space) => space,
            Structures::Custom(space) => &**space,
        }
    }
}

/// User-defined spaces are equal if they are the same object.
impl PartialEq for Structures {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Structures::Hypercube(a), Structures::Hypercube(b)) => a == b,
            (Structures::Permutations(a), Structures::Permutations(b)) => a == b,
            (Structures::Subtrees(a), Structures::Subtrees(b)) => a == b,
            (Structures::Cycles(a), Structures::Cycles(b)) => a == b,
            (Structures::Partitions(a), Structures::Partitions(b)) => a == b,
            (Structures::Restricted(a), Structures::Restricted(b)) => a == b,
            (Structures::Custom(a), Structures::Custom(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

macro_rules! from_each {
    ($($space:ident),*) => {
        $(impl From<$space> for Structures {
            fn from(space: $space) -> Self {
                Structures::$space(space)
            }
        })*
    };
}

from_each!(Hypercube, Permutations, Subtrees, Cycles, Partitions, Restricted);

/// An upper bound on ln |Y|: that of the innermost enclosing space of known size.
pub(crate) fn log_count_bound(space: &dyn Space) -> Option<f64> {
    let mut at = space;
    loop {
        match at.log_count() {
            Some(log) => return (log > f64::NEG_INFINITY).then_some(log),
            None => at = at.enclosing()?,
        }
    }
}

/// Draws a structure of `space` by rejection from its enclosing space.
pub(crate) fn reject<S: Space + ?Sized>(
    space: &S,
    outer: &dyn Space,
    random: &mut Stream,
    structure: &mut [u32],
    clock: &Clock<'_>,
) -> Result<()> {
    for attempt in 0..MOST_TRIES {
        if attempt % ROUND == ROUND - 1 {
            clock.check()?;
        }
        outer.uniform(random, structure, clock)?;
        if space.contains(structure)? {
            return Ok(());
        }
    }
    Err(too_rare(space.name(), outer.name()))
}

/// The error for structures that are too rare in the enclosing space to be found.
pub(crate) fn too_rare(space: &str, outer: &str) -> Error {
    Error::NoAnswer(format!(
        "none of {MOST_TRIES} uniform {outer} is one of the {space}: they are too rare for rejection, or there are none"
    ))
}

/// Checks the length of a structure.
pub(crate) fn check_width(space: &dyn Space, structure: &[u32]) -> Result<()> {
    if structure.len() == space.width() {
        return Ok(());
    }
    Err(Error::argument(
        "structure",
        format!("has {} numbers, expected {} of {}", structure.len(), space.width(), space.name()),
    ))
}

/// The error for an invalid structure.
pub(crate) fn refuse(message: impl Into<String>) -> Error {
    Error::argument("structure", message)
}

/// Checks the number of elements of a space: at least `least`, and at most what fits into `u32`.
pub(crate) fn check_size(what: &str, n: usize, least: usize) -> Result<()> {
    if n < least {
        return Err(Error::model(format!("{what} need at least {least}, found {n}")));
    }
    if u32::try_from(n).is_err() {
        return Err(Error::model(format!("{what} can be at most {}, found {n}", u32::MAX)));
    }
    Ok(())
}

/// ln n!, with a relative error of about 1e-15: a sum for small n, Stirling's series for larger n.
pub(crate) fn log_factorial(n: usize) -> f64 {
    if n < 32 {
        return (2..=n).map(|k| (k as f64).ln()).sum();
    }
    let x = n as f64 + 1.0;
    let inverse = 1.0 / (x * x);
    let series = (1.0 / 12.0 - inverse * (1.0 / 360.0 - inverse * (1.0 / 1260.0 - inverse / 1680.0))) / x;
    (x - 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + series
}

/// ln(1 + eˣ) without overflow.
pub(crate) fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

/// 1/(1 + e⁻ˣ).
pub(crate) fn sigmoid(x: f64) -> f64 {
    if x >= 0.0 {
        1.0 / (1.0 + (-x).exp())
    } else {
        let e = x.exp();
        e / (1.0 + e)
    }
}
