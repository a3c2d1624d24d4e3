//! Evidence about sequences: positions with known states.

use crate::error::{Error, Result};
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
        if evidence.is_empty() {
            return Ok(self.clone());
        }
        let states = self.states();
        let mut emissions = self.emissions().to_vec();
        for (i, &Observed { sequence, position, state }) in evidence.iter().enumerate() {
            let fail = |message: String| Err(Error::argument("evidence", message));
            let Some(&length) = self.lengths().get(sequence) else {
                return fail(format!("there is no sequence {sequence}; the batch has {}", self.batch()));
            };
            if position >= length {
                return fail(format!(
                    "sequence {sequence} has {length} positions, so there is no {position}"
                ));
            }
            if state >= states {
                return fail(format!("the chain has {states} states, so there is no {state}"));
            }
            let same = |other: &Observed| (other.sequence, other.position) == (sequence, position);
            if evidence[..i].iter().any(same) {
                return fail(format!("position {position} of sequence {sequence} is given twice"));
            }
            let at = (sequence * self.steps() + position) * states;
            let kept = emissions[at + state];
            emissions[at..at + states].fill(F::NEG_INFINITY);
            emissions[at + state] = kept;
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
