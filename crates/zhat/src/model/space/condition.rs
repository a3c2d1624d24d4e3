//! Events about structures, and conditions that require or exclude them.
//!
//! | event | spaces | text |
//! |---|---|---|
//! | a label, a node is chosen; a vertex is on the cycle | hypercube, subtrees, cycles | `chosen 3` |
//! | an item is at a position | permutations | `at 3 0` |
//! | an item comes before another one | permutations | `before 3 5` |
//! | two vertices are neighbours; two elements share a block | cycles, partitions | `linked 3 5` |
//!
//! A condition is an event, `not` an event, or `size 2 5`: the minimum and maximum number of labels, nodes,
//! vertices or blocks.

use std::fmt::{self, Debug, Display};
use std::str::FromStr;
use std::sync::Arc;

use super::Structures;
use crate::error::{Error, Result};

/// A property that a structure may have; the probabilities of events are the marginals of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A label or node is chosen, a vertex is on the cycle.
    Chosen(usize),
    /// An item is at a position.
    At {
        /// The item.
        item: usize,
        /// The position.
        position: usize,
    },
    /// The first item comes before the second.
    Before(usize, usize),
    /// Two vertices are neighbours on the cycle; two elements are in the same block.
    Linked(usize, usize),
}

impl Event {
    /// Whether it holds for a structure in canonical form.
    pub fn holds(&self, space: &Structures, structure: &[u32]) -> bool {
        let y = structure;
        match (*self, space.base()) {
            (Event::Chosen(v), Structures::Cycles(_)) => y[v] as usize != v,
            (Event::Chosen(i), _) => y[i] == 1,
            (Event::At { item, position }, _) => y[position] as usize == item,
            (Event::Before(i, j), _) => {
                let first = y.iter().find(|item| **item as usize == i || **item as usize == j);
                first.is_some_and(|item| *item as usize == i)
            }
            (Event::Linked(u, v), Structures::Cycles(_)) => y[u] as usize == v || y[v] as usize == u,
            (Event::Linked(i, j), _) => y[i] == y[j],
        }
    }

    /// Whether the event is defined for this space.
    fn check(&self, space: &Structures) -> Result<()> {
        let n = space.as_space().width();
        let numbers = match (*self, space.base()) {
            (
                Event::Chosen(i),
                Structures::Hypercube(_) | Structures::Subtrees(_) | Structures::Cycles(_),
            ) => [i, i],
            (Event::At { item, position }, Structures::Permutations(_)) => [item, position],
            (Event::Before(i, j), Structures::Permutations(_))
            | (Event::Linked(i, j), Structures::Cycles(_) | Structures::Partitions(_)) => {
                if i == j {
                    return Err(refuse(format!("`{self}` is of one element, expected two")));
                }
                [i, j]
            }
            _ => return Err(refuse(format!("{} have no `{self}`", space.as_space().name()))),
        };
        match numbers.into_iter().find(|i| *i >= n) {
            Some(i) => Err(refuse(format!("`{self}`: there is no {i}, only 0 to {}", n.saturating_sub(1)))),
            None => Ok(()),
        }
    }
}

impl Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Chosen(i) => write!(f, "chosen {i}"),
            Event::At { item, position } => write!(f, "at {item} {position}"),
            Event::Before(i, j) => write!(f, "before {i} {j}"),
            Event::Linked(i, j) => write!(f, "linked {i} {j}"),
        }
    }
}

/// A function that tells whether a structure is allowed.
pub type Predicate = dyn Fn(&[u32]) -> Result<bool> + Send + Sync;

/// A condition on a structure.
#[derive(Clone)]
#[non_exhaustive]
pub enum Condition {
    /// The event holds.
    Is(Event),
    /// The event does not hold.
    Not(Event),
    /// Bounds on the number of chosen labels or nodes, of vertices on the cycle, or of blocks.
    Size {
        /// Minimum.
        least: usize,
        /// Maximum.
        most: usize,
    },
    /// A user-defined predicate.
    Function(Arc<Predicate>),
}

impl Condition {
    /// A condition given by a function that tells whether a structure is allowed.
    pub fn function(allowed: impl Fn(&[u32]) -> Result<bool> + Send + Sync + 'static) -> Self {
        Condition::Function(Arc::new(allowed))
    }

    /// Whether a structure in canonical form satisfies it.
    ///
    /// # Errors
    /// If a user-defined predicate fails.
    ///
    /// # Panics
    /// May panic if the structure does not belong to the space.
    pub fn holds(&self, space: &Structures, structure: &[u32]) -> Result<bool> {
        Ok(match self {
            Condition::Is(event) => event.holds(space, structure),
            Condition::Not(event) => !event.holds(space, structure),
            Condition::Size { least, most } => (*least..=*most).contains(&size(space, structure)),
            Condition::Function(allowed) => allowed(structure)?,
        })
    }

    /// Whether the condition is defined for this space.
    pub(crate) fn check(&self, space: &Structures) -> Result<()> {
        match self {
            Condition::Is(event) | Condition::Not(event) => event.check(space),
            Condition::Size { least, most } => match space.base() {
                Structures::Permutations(_) | Structures::Custom(_) => {
                    Err(refuse(format!("{} have no `{self}`", space.as_space().name())))
                }
                _ if least > most => Err(refuse(format!("`{self}`: the least is above the most"))),
                _ => Ok(()),
            },
            Condition::Function(_) => Ok(()),
        }
    }
}

/// The number of chosen labels or nodes, of vertices on the cycle, or of blocks.
fn size(space: &Structures, structure: &[u32]) -> usize {
    match space.base() {
        Structures::Cycles(_) => {
            structure.iter().enumerate().filter(|(v, next)| *v != **next as usize).count()
        }
        Structures::Partitions(_) => structure.iter().max().map_or(0, |most| *most as usize + 1),
        _ => structure.iter().filter(|bit| **bit == 1).count(),
    }
}

/// The minimum and maximum size of a structure under these conditions; there is none if the first exceeds the
/// second.
pub(crate) fn sizes(space: &Structures, conditions: &[Condition]) -> (usize, usize) {
    let n = space.as_space().width();
    let least = match space.base() {
        Structures::Cycles(_) => 3,
        Structures::Partitions(_) => 1,
        Structures::Subtrees(tree) => usize::from(!tree.has_empty()),
        _ => 0,
    };
    conditions.iter().fold((least, n), |(least, most), condition| match *condition {
        Condition::Size { least: own_least, most: own_most } => (least.max(own_least), most.min(own_most)),
        _ => (least, most),
    })
}

/// Whether the conditions restrict the size of structures.
pub(crate) fn limits_size(space: &Structures, conditions: &[Condition]) -> bool {
    sizes(space, conditions) != sizes(space, &[])
}

fn refuse(message: String) -> Error {
    Error::argument("condition", message)
}

/// Functions are equal if they are the same object.
impl PartialEq for Condition {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Condition::Is(a), Condition::Is(b)) | (Condition::Not(a), Condition::Not(b)) => a == b,
            (Condition::Size { least, most }, Condition::Size { least: other_least, most: other_most }) => {
                least == other_least && most == other_most
            }
            (Condition::Function(a), Condition::Function(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

impl Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Condition::Is(event) => write!(f, "{event}"),
            Condition::Not(event) => write!(f, "not {event}"),
            Condition::Size { least, most } => write!(f, "size {least} {most}"),
            Condition::Function(_) => write!(f, "a function"),
        }
    }
}

impl Debug for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{self}`")
    }
}

/// Parses the text written by [`Display`].
impl FromStr for Condition {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let fail = || {
            let known =
                "[not] chosen I, [not] at ITEM POSITION, [not] before I J, [not] linked I J, size LEAST MOST";
            refuse(format!("`{text}` is none of: {known}"))
        };
        let (negated, words) = match words.as_slice() {
            ["not", rest @ ..] => (true, rest),
            rest => (false, rest),
        };
        let (name, numbers) = words.split_first().ok_or_else(fail)?;
        let numbers: Option<Vec<usize>> = numbers.iter().map(|word| word.parse().ok()).collect();
        let event = match (*name, numbers.ok_or_else(fail)?.as_slice()) {
            ("chosen", &[i]) => Event::Chosen(i),
            ("at", &[item, position]) => Event::At { item, position },
            ("before", &[i, j]) => Event::Before(i, j),
            ("linked", &[i, j]) => Event::Linked(i, j),
            ("size", &[least, most]) if !negated => return Ok(Condition::Size { least, most }),
            _ => return Err(fail()),
        };
        Ok(if negated { Condition::Not(event) } else { Condition::Is(event) })
    }
}
