//! Evidence: observations about a model, and their text form.
//!
//! What is known about a variable x, or about a position of a sequence, is one of
//!
//! - a state: x = s;
//! - a set of states: x ∈ S;
//! - a likelihood: an observation e with P(e | x = s) = λ(s), known up to a factor. The weight of every state
//!   of the model is multiplied by λ(x).
//!
//! log Z of the model given evidence is the log of the sum of all weights, each times its likelihoods. For states
//! and sets this is the log weight of the evidence, and for a normalised model its log-probability.
//! Likelihoods are not normalised.

use std::ops::Range;

use super::any::Kind;
use super::chain::Observed;
use super::space::Condition;
use crate::decimal;
use crate::error::{Error, Result};
use crate::numeric::Real;

/// An observation about a model.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Evidence {
    /// A variable of a graph is in a state.
    State {
        /// The variable.
        variable: usize,
        /// Its state.
        state: usize,
    },
    /// A position of a sequence is in a state.
    Position(Observed),
    /// A variable or position is in one of several states.
    Set {
        /// The variable or position.
        place: Place,
        /// The states that are possible, in any order.
        states: Vec<usize>,
    },
    /// An uncertain observation of a variable or position.
    Likelihood {
        /// The variable or position.
        place: Place,
        /// The logarithm of the observation's probability in each state, up to a constant; −∞ is allowed.
        log_values: Vec<f64>,
    },
    /// The structures of a space satisfy a condition.
    Condition(Condition),
}

/// What evidence is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// A variable of a graph.
    Variable(usize),
    /// A position of a sequence.
    Position {
        /// The sequence of the batch.
        sequence: usize,
        /// The position in the sequence.
        position: usize,
    },
}

/// What is known about the state of a variable or position.
#[derive(Clone, Debug, PartialEq)]
pub enum Finding {
    /// The state.
    State(usize),
    /// The states that are possible.
    Set(Vec<usize>),
    /// The log-likelihood of each state.
    Likelihood(Vec<f64>),
}

impl Evidence {
    /// Evidence about the state of a variable or position.
    ///
    /// ```
    /// use zhat::model::{Evidence, Finding, Place};
    /// let evidence = Evidence::new(Place::Variable(3), Finding::State(1));
    /// assert_eq!(evidence, Evidence::State { variable: 3, state: 1 });
    /// ```
    pub fn new(place: Place, finding: Finding) -> Evidence {
        match (place, finding) {
            (Place::Variable(variable), Finding::State(state)) => Evidence::State { variable, state },
            (Place::Position { sequence, position }, Finding::State(state)) => {
                Evidence::Position(Observed { sequence, position, state })
            }
            (place, Finding::Set(states)) => Evidence::Set { place, states },
            (place, Finding::Likelihood(log_values)) => Evidence::Likelihood { place, log_values },
        }
    }

    /// The place and what is known about its state; `None` for conditions.
    pub(super) fn parts(&self) -> Option<(Place, Known<'_>)> {
        match self {
            &Evidence::State { variable, state } => Some((Place::Variable(variable), Known::State(state))),
            &Evidence::Position(Observed { sequence, position, state }) => {
                Some((Place::Position { sequence, position }, Known::State(state)))
            }
            Evidence::Set { place, states } => Some((*place, Known::Set(states))),
            Evidence::Likelihood { place, log_values } => Some((*place, Known::Likelihood(log_values))),
            Evidence::Condition(_) => None,
        }
    }
}

/// A [`Finding`], borrowed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Known<'a> {
    State(usize),
    Set(&'a [usize]),
    Likelihood(&'a [f64]),
}

impl Known<'_> {
    /// Checks a finding about the states of this range.
    ///
    /// # Errors
    /// If a state is out of range (the message is `no_state`), a set is empty, or likelihoods are not one for
    /// each state, finite or −∞, and positive for some state. `subject` is what has the states.
    pub fn check(
        self,
        range: &Range<usize>,
        subject: impl Fn() -> String,
        no_state: impl Fn(usize) -> String,
    ) -> Result<()> {
        let fail = |message: String| Err(Error::argument("evidence", message));
        let states = match &self {
            Known::State(state) => std::slice::from_ref(state),
            Known::Set([]) => {
                return fail(format!("the set of states of {} is empty; name at least one", subject()));
            }
            Known::Set(states) => states,
            Known::Likelihood(_) => &[],
        };
        if let Some(&state) = states.iter().find(|state| !range.contains(state)) {
            return fail(no_state(state));
        }
        let Known::Likelihood(values) = self else { return Ok(()) };
        if values.len() != range.len() {
            let (found, states) = (values.len(), range.len());
            return fail(format!("{} has {states} states, but {found} likelihoods are given", subject()));
        }
        if let Some(i) = values.iter().position(|x| x.is_nan() || *x == f64::INFINITY) {
            let message = format!(
                "likelihood {i} of {} has the logarithm {}; expected a finite number that is 0 or more",
                subject(),
                values[i]
            );
            return fail(message);
        }
        if values.iter().all(|x| *x == f64::NEG_INFINITY) {
            return fail(format!("the likelihoods of {} are all 0; one must be positive", subject()));
        }
        Ok(())
    }

    /// The only possible state, if there is one, and the finding says nothing else.
    pub fn only(self) -> Option<usize> {
        match self {
            Known::State(state) => Some(state),
            Known::Set([first, rest @ ..]) if rest.iter().all(|state| state == first) => Some(*first),
            _ => None,
        }
    }

    /// Adds the log weights to the scores of the states; `first` is the number of the first one.
    pub fn apply<F: Real>(self, first: usize, scores: &mut [F]) {
        if let Known::Likelihood(values) = self {
            for (score, value) in scores.iter_mut().zip(values).filter(|(score, _)| **score > F::NEG_INFINITY)
            {
                *score += F::from_f64(*value);
            }
            return;
        }
        let mut possible = vec![false; scores.len()];
        match &self {
            Known::State(state) => possible[state - first] = true,
            Known::Set(states) => states.iter().for_each(|state| possible[state - first] = true),
            Known::Likelihood(_) => {}
        }
        let excluded = scores.iter_mut().zip(possible).filter(|(_, possible)| !possible);
        excluded.for_each(|(score, _)| *score = F::NEG_INFINITY);
    }
}

/// The error for evidence of a type that this kind of model does not support; `takes` is what it supports.
pub(super) fn other_evidence(kind: Kind, takes: &str) -> Error {
    Error::argument("evidence", format!("a {kind} takes evidence about {takes}"))
}

/// Evidence about variables of a graph.
pub(super) fn variables(evidence: &[Evidence], kind: Kind) -> Result<Vec<(usize, Known<'_>)>> {
    let variable = |item| match Evidence::parts(item) {
        Some((Place::Variable(variable), known)) => Ok((variable, known)),
        _ => Err(other_evidence(kind, "variables")),
    };
    evidence.iter().map(variable).collect()
}

/// Evidence about a position of a sequence: the sequence, the position, and what is known.
pub(super) type Row<'a> = (usize, usize, Known<'a>);

/// Evidence about positions of sequences.
pub(super) fn positions(evidence: &[Evidence], kind: Kind) -> Result<Vec<Row<'_>>> {
    let position = |item| match Evidence::parts(item) {
        Some((Place::Position { sequence, position }, known)) => Ok((sequence, position, known)),
        _ => Err(other_evidence(kind, "positions of sequences")),
    };
    evidence.iter().map(position).collect()
}

/// Parses what is known about a state: `STATE`, a set `STATE|STATE|…`, or one likelihood for each state,
/// `NUMBER:NUMBER:…`. `state` reads a name or number of a state; a text that it can read as a whole is a
/// state, whatever characters it contains.
pub(super) fn parse_finding(text: &str, state: impl Fn(&str) -> Result<usize>) -> Result<Finding> {
    let no_state = match state(text) {
        Ok(state) => return Ok(Finding::State(state)),
        Err(error) => error,
    };
    if text.contains('|') {
        return text.split('|').map(&state).collect::<Result<_>>().map(Finding::Set);
    }
    if !text.contains(':') {
        return Err(no_state);
    }
    let number = |(i, token): (usize, &str)| {
        decimal::parse_log(token.trim().as_bytes()).ok_or_else(|| {
            let message = format!(
                "likelihood {i} in `{}` is `{}`; expected a finite number that is 0 or more",
                text.trim(),
                token.trim()
            );
            Error::argument("evidence", message)
        })
    };
    text.split(':').enumerate().map(number).collect::<Result<_>>().map(Finding::Likelihood)
}

/// Parses `SEQUENCE:POSITION=…`, or for a single sequence also `POSITION=…`, as [`parse_finding`]. `state`
/// reads the name of a state, if states have names.
pub(super) fn parse_position(
    text: &str,
    batch: usize,
    state: impl Fn(&str) -> Option<Result<usize>>,
) -> Result<Evidence> {
    let unexpected = || {
        let form = if batch == 1 { "POSITION=STATE" } else { "SEQUENCE:POSITION=STATE" };
        Error::argument("evidence", format!("expected {form} in numbers that count from 0, found `{text}`"))
    };
    let number = |text: &str| text.trim().parse::<usize>().ok();
    let parse_place = |place: &str| {
        let (sequence, position) = match place.split_once(':') {
            Some(both) => both,
            None if batch == 1 => ("0", place),
            None => return None,
        };
        Some(Place::Position { sequence: number(sequence)?, position: number(position)? })
    };
    let (place, finding) = text.split_once('=').ok_or_else(unexpected)?;
    let place = parse_place(place).ok_or_else(unexpected)?;
    let state = |text: &str| state(text).unwrap_or_else(|| number(text).ok_or_else(unexpected));
    Ok(Evidence::new(place, parse_finding(finding, state)?))
}
