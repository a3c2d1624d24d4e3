//! Combinatorial spaces: sets of structures with an exact uniform sampler, and models on them.
//!
//! A structure is a slice of `u32` of the space's width, whatever the space:
//!
//! | space | the number at i | how many |
//! |---|---|---|
//! | [`Hypercube`] | 0 or 1: whether label i is chosen | 2ⁿ |
//! | [`Permutations`] | the item at position i | n! |
//! | [`Subtrees`] | 0 or 1: whether node i belongs to the subtree, which is closed under parents | f(root), f(v) = 1 + Π f(child) |
//! | [`Cycles`] | the vertex after i, i itself where it is not on the cycle | Σ_{k≥3} C(n, k)(k − 1)!/2 |
//! | [`Partitions`] | the block of element i, blocks numbered as they appear | Bell(n) |
//!
//! A part of a space is a [`Restricted`] one.
//!
//! A model ([`SpaceModel`]) is a space with scores ([`Scores`]), s(y) = ⟨θ, φ(y)⟩, and asks for log Z = ln
//! Σ_y exp s(y). A user-defined space implements [`Space`], user-defined scores implement [`Features`].
//!
//! S. Vembu, T. Gärtner, M. Boley, *Probabilistic structured predictors*, UAI 2009.

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

pub use assignment::best_assignment;
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

/// Tries after which rejection counts as not finding anything.
pub(crate) const MOST_TRIES: u64 = 1 << 22;
/// Structures between two looks at the clock: so few because user-defined functions, which may be slow, are
/// called for each.
pub(crate) const ROUND: u64 = 4;

/// A finite set of structures from which one can draw uniformly.
///
/// A user-defined space says how many structures there are, or names a larger space that it is cut out of
/// ([`Space::enclosing`]): then draws are made by rejection, the structures are listed from those of the
/// larger space, and the methods estimate their number on the way to Z.
///
/// ```
/// use zhat::space::{Hypercube, Scores, Space, SpaceModel, Structures, UniformImportance};
/// use zhat::{Error, LogPartition, Result, Run};
///
/// /// Sets of vertices of a circle no two of which are neighbours. Nothing is known about their number.
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
    /// One word for messages.
    fn name(&self) -> &'static str;

    /// How many numbers a structure has.
    fn width(&self) -> usize;

    /// Whether it is a structure of this space, in canonical form; the error says what is wrong.
    fn check(&self, structure: &[u32]) -> Result<()>;

    /// ln |Y|, if it is known.
    fn log_count(&self) -> Option<f64> {
        None
    }

    /// A larger space whose structures are this one's where [`Space::contains`] says so. Needed where |Y| is
    /// not known, which is then estimated from the share of such structures; that space may be cut out of a
    /// third one.
    fn enclosing(&self) -> Option<&dyn Space> {
        None
    }

    /// Whether a structure of the enclosing space is one of this space.
    fn contains(&self, structure: &[u32]) -> Result<bool> {
        Ok(self.check(structure).is_ok())
    }

    /// A structure with the uniform law, exactly: by rejection where there is an enclosing space and nothing
    /// better. What may take long looks at the clock.
    fn uniform(&self, random: &mut Stream, structure: &mut [u32], clock: &Clock<'_>) -> Result<()> {
        let Some(space) = self.enclosing() else {
            return Err(Error::NoAnswer(format!("the space of {} has no uniform sampler", self.name())));
        };
        reject(self, space, random, structure, clock)
    }

    /// Shows every structure once, until `visit` says `false`; whether all were shown. What is not shown
    /// looks at the clock.
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

    /// Changes a structure a little, notes every number changed in `step`, and returns ln(q(back)/q(forth)):
    /// with these the Metropolis rule leaves the uniform law as it is, and every structure can be reached
    /// from every other. It may leave the canonical form, to which [`Space::canonical`] leads back.
    fn propose(
        &self,
        random: &mut Stream,
        structure: &mut [u32],
        step: &mut Step,
        clock: &Clock<'_>,
    ) -> Result<f64> {
        // Any space has this one: a whole new structure.
        let mut drawn = vec![0; structure.len()];
        self.uniform(random, &mut drawn, clock)?;
        for (index, &value) in drawn.iter().enumerate() {
            step.set(structure, index, value);
        }
        Ok(0.0)
    }

    /// Brings a structure that moves have led to into canonical form.
    fn canonical(&self, structure: &mut [u32]) {
        let _ = structure;
    }

    /// A short text for people.
    fn show(&self, structure: &[u32]) -> String {
        structure.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
    }
}

/// A number that a move has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Where.
    pub index: usize,
    /// What it was.
    pub old: u32,
    /// What it is now, or was until a later change of the same move.
    pub new: u32,
}

/// The changes of a move, in their order.
#[derive(Clone, Debug, Default)]
pub struct Step {
    /// The changes.
    pub changes: Vec<Change>,
}

impl Step {
    /// Writes a number and notes what was there.
    pub fn set(&mut self, structure: &mut [u32], index: usize, value: u32) {
        self.changes.push(Change { index, old: structure[index], new: value });
        structure[index] = value;
    }

    /// Takes the changes back.
    pub fn undo(&mut self, structure: &mut [u32]) {
        while let Some(change) = self.changes.pop() {
            structure[change.index] = change.old;
        }
    }
}

/// A space whose kind is known at run time only.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Structures {
    /// Subsets of labels, or vectors of signs.
    Hypercube(Hypercube),
    /// Orders of items.
    Permutations(Permutations),
    /// Subtrees that hang at the root of a tree.
    Subtrees(Subtrees),
    /// Undirected cycles through some of the vertices.
    Cycles(Cycles),
    /// Partitions of a set into blocks.
    Partitions(Partitions),
    /// Those of another space that meet conditions.
    Restricted(Restricted),
    /// A user-defined space.
    Custom(Arc<dyn Space>),
}

impl Structures {
    /// A user-defined space.
    pub fn custom(space: impl Space + 'static) -> Self {
        Structures::Custom(Arc::new(space))
    }

    /// The space without the conditions that were put on it.
    pub fn base(&self) -> &Structures {
        match self {
            Structures::Restricted(space) => space.base(),
            other => other,
        }
    }

    /// What a part of it is called.
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

    /// The space itself.
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

/// User-defined spaces are the same if they are the same object.
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

/// An upper bound on ln |Y|: that of the innermost enclosing space whose size is known.
pub(crate) fn log_count_bound(space: &dyn Space) -> Option<f64> {
    let mut at = space;
    loop {
        match at.log_count() {
            Some(log) => return (log > f64::NEG_INFINITY).then_some(log),
            None => at = at.enclosing()?,
        }
    }
}

/// A structure of `space` by rejection from the one around it.
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

/// The error for structures that are not found among those of the space around them.
pub(crate) fn too_rare(space: &str, outer: &str) -> Error {
    Error::NoAnswer(format!(
        "none of {MOST_TRIES} uniform {outer} is one of the {space}: they are too rare for rejection, or there are none"
    ))
}

/// The error for a structure of the wrong length.
pub(crate) fn check_width(space: &dyn Space, structure: &[u32]) -> Result<()> {
    if structure.len() == space.width() {
        return Ok(());
    }
    Err(Error::argument(
        "structure",
        format!("has {} numbers, expected {} of {}", structure.len(), space.width(), space.name()),
    ))
}

/// The error for a structure that is none.
pub(crate) fn refuse(message: impl Into<String>) -> Error {
    Error::argument("structure", message)
}

/// The least and the most elements that the spaces of n elements take; beyond these a number does not fit
/// into `u32`.
pub(crate) fn check_size(what: &str, n: usize, least: usize) -> Result<()> {
    if n < least {
        return Err(Error::model(format!("{what} need at least {least}, found {n}")));
    }
    if u32::try_from(n).is_err() {
        return Err(Error::model(format!("{what} can be at most {}, found {n}", u32::MAX)));
    }
    Ok(())
}

/// ln n!, to a relative error of about 1e-15: a sum for small n, Stirling's series beyond.
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
