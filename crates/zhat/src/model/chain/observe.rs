//! Evidence about sequences: what is known about the states of positions.

use std::collections::HashSet;

use crate::error::{Error, Result};
use crate::model::evidence::{Evidence, positions};
use crate::model::{Chain, SemiMarkov, Values};
use crate::numeric::Real;

/// A position of a sequence that is in a known state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Observed {
    /// The sequence of the batch.
    pub sequence: usize,
    /// The position in the sequence.
    pub position: usize,
    /// The state.
    pub state: usize,
}

impl<F: Real> Chain<F> {
    /// The chains conditioned on these states: the emissions of all other states at the observed positions
    /// become −∞.
    ///
    /// log Z of the result is the log weight of the evidence. Only the emissions are copied.
    ///
    /// # Errors
    /// If a sequence, position or state is out of range, or a position is given twice.
    ///
    /// ```
    /// use zhat::model::{Chain, Observed, Transitions};
    /// let transitions = Transitions::Shared(vec![0.0, 1.0, 1.0, 0.0].into());
    /// let chain = Chain::crf(2, vec![0.5; 6].into(), vec![3], transitions)?;
    /// let given = chain.condition(&[Observed { sequence: 0, position: 1, state: 0 }])?;
    /// assert_eq!(given.emission(0, 1), [0.5, f64::NEG_INFINITY]);
    /// # Ok::<(), zhat::Error>(())
    /// ```
    pub fn condition(&self, evidence: &[Observed]) -> Result<Self> {
        self.condition_on(&evidence.iter().copied().map(Evidence::Position).collect::<Vec<_>>())
    }

    /// The chains conditioned on states, sets of states and likelihoods of positions: the emissions of excluded
    /// states become −∞, and log-likelihoods are added to the others.
    ///
    /// # Errors
    /// As [`Chain::condition`]; also for evidence about anything else, an empty set, and likelihoods that are not
    /// one for each state or all 0.
    ///
    /// ```
    /// use zhat::model::{Chain, Evidence, Place, Transitions};
    /// let transitions = Transitions::Shared(vec![0.0, 1.0, 1.0, 0.0].into());
    /// let chain = Chain::crf(2, vec![0.5; 6].into(), vec![3], transitions)?;
    /// let place = Place::Position { sequence: 0, position: 1 };
    /// let given = chain.condition_on(&[Evidence::Likelihood { place, log_values: vec![-1.0, -0.25] }])?;
    /// assert_eq!(given.emission(0, 1), [-0.5, 0.25]);
    /// # Ok::<(), zhat::Error>(())
    /// ```
    pub fn condition_on(&self, evidence: &[Evidence]) -> Result<Self> {
        if evidence.is_empty() {
            return Ok(self.clone());
        }
        let states = self.states();
        let mut emissions = self.emissions().to_vec();
        let mut seen = HashSet::new();
        for (sequence, position, known) in positions(evidence, Chain::KIND)? {
            let fail = |message: String| Err(Error::argument("evidence", message));
            let Some(&length) = self.lengths().get(sequence) else {
                return fail(format!("there is no sequence {sequence}; the batch has {}", self.batch()));
            };
            if position >= length {
                return fail(format!(
                    "sequence {sequence} has {length} positions, so there is no {position}"
                ));
            }
            let no_state = |state| format!("the chain has {states} states, so there is no {state}");
            known.check(&(0..states), || "the chain".into(), no_state)?;
            if !seen.insert((sequence, position)) {
                return fail(format!("position {position} of sequence {sequence} is given twice"));
            }
            known.apply(0, &mut emissions[(sequence * self.steps() + position) * states..][..states]);
        }
        let start = Values::shared(self.start().to_vec());
        let chain = Chain::new(start, emissions.into(), self.lengths().to_vec(), self.transitions().clone())?;
        match self.end() {
            None => Ok(chain),
            Some(end) => chain.with_end(end.to_vec().into()),
        }
    }
}

impl<F: Real> SemiMarkov<F> {
    /// The chains conditioned on positions being in segments of these states, as in [`Chain::condition`].
    ///
    /// # Errors
    /// As [`Chain::condition`].
    pub fn condition(&self, evidence: &[Observed]) -> Result<Self> {
        SemiMarkov::new(self.chain().condition(evidence)?, self.segments().clone(), self.longest())
    }

    /// The chains conditioned on states, sets of states and likelihoods of positions, as in
    /// [`Chain::condition_on`]. The state of a position is that of its segment.
    ///
    /// # Errors
    /// As [`Chain::condition_on`].
    pub fn condition_on(&self, evidence: &[Evidence]) -> Result<Self> {
        SemiMarkov::new(self.chain().condition_on(evidence)?, self.segments().clone(), self.longest())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::generate::{self, ChainShape};

    #[test]
    fn evidence_out_of_range_or_given_twice_is_refused() {
        let shape = ChainShape { states: 3, steps: 4, batch: 2, ragged: false, ..Default::default() };
        let chain = generate::chain::<f64>(&shape, 1).unwrap();
        let observed = |sequence, position, state| Observed { sequence, position, state };
        let refused = |evidence: &[Observed]| chain.condition(evidence).unwrap_err().to_string();
        assert!(refused(&[observed(2, 0, 0)]).contains("no sequence 2"));
        assert!(refused(&[observed(1, 4, 0)]).contains("has 4 positions"));
        assert!(refused(&[observed(1, 3, 3)]).contains("has 3 states"));
        assert!(refused(&[observed(1, 3, 2), observed(1, 3, 2)]).contains("given twice"));
        let given = chain.condition(&[observed(1, 3, 2), observed(0, 0, 1)]).unwrap();
        assert_eq!(given.score(1, &[0, 0, 0, 2]), chain.score(1, &[0, 0, 0, 2]));
        assert_eq!(given.score(1, &[0, 0, 0, 1]), f64::NEG_INFINITY);
    }
}
