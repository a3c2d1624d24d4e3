//! A chain or a cycle as a factor graph: a variable a position, a factor a score.

use super::{Chain, FactorGraph, SequenceMrf, Transitions};
use crate::error::{Error, Result};
use crate::numeric::Real;

/// A factor graph has a table for every step; above this many values nobody would want it.
pub(super) const MOST_VALUES: f64 = 1e8;

/// Refuses what would be too large as a factor graph.
fn moderate(values: f64) -> Result<()> {
    if values > MOST_VALUES {
        return Err(Error::model(format!(
            "as a factor graph the model would have {values:.0e} values, and at most {MOST_VALUES:.0e} are written"
        )));
    }
    Ok(())
}

impl SequenceMrf {
    /// The factor graph of the cycle: a factor for each position, and one for each pair that interacts.
    pub fn to_factor_graph(&self) -> Result<FactorGraph> {
        let (length, states) = (self.length(), self.states());
        moderate(length as f64 * self.context() as f64 * (states as f64).powi(2))?;
        let mut graph = FactorGraph::new(vec![states; length])?;
        for i in 0..length {
            graph.add_factor(&[i], self.unary())?;
        }
        for l in 1..=self.context() {
            let entries = (0..states * states).map(|e| self.interaction(l, e / states, e % states));
            let table: Vec<f64> = entries.collect();
            for i in 0..length {
                graph.add_factor(&[i, (i + l) % length], &table)?;
            }
        }
        Ok(graph)
    }
}

impl<F: Real> Chain<F> {
    /// The factor graph of a batch of one: variable t is position t, with a factor for its scores and one for
    /// each step.
    ///
    /// ```
    /// use zhat::model::{Chain, Transitions};
    /// use zhat::{LogPartition, Run, exact::Elimination};
    /// let transitions = Transitions::Shared(vec![0.0, 1.0, 1.0, 0.0].into());
    /// let chain = Chain::crf(2, vec![0.0; 6].into(), vec![3], transitions)?;
    /// let z = Elimination::default().log_partition(&chain.to_factor_graph()?, &Run::default())?;
    /// assert!((z.value - (2.0 * (1.0 + 1f64.exp()).powi(2)).ln()).abs() < 1e-12);
    /// # Ok::<(), zhat::Error>(())
    /// ```
    pub fn to_factor_graph(&self) -> Result<FactorGraph> {
        let &[length] = self.lengths() else {
            let message = format!("a factor graph holds one sequence, and the batch has {}", self.batch());
            return Err(Error::model(message));
        };
        let states = self.states();
        moderate((length - 1) as f64 * (states as f64).powi(2))?;
        let mut graph = FactorGraph::new(vec![states; length])?;
        let as_double = |values: &[F]| values.iter().map(|x| x.to_f64()).collect::<Vec<f64>>();
        graph.add_factor(&[0], &as_double(self.start()))?;
        for t in 0..length {
            graph.add_factor(&[t], &as_double(self.emission(0, t)))?;
        }
        let mut table = Vec::new();
        for t in 0..length - 1 {
            // Only tables of their own differ from step to step.
            if t == 0 || matches!(self.transitions(), Transitions::PerStep(_)) {
                let scores = (0..states * states)
                    .map(|entry| self.transitions().score(states, t, entry / states, entry % states));
                table = scores.collect();
            }
            graph.add_factor(&[t, t + 1], &table)?;
        }
        Ok(graph)
    }
}

#[cfg(test)]
mod tests {
    use crate::model::generate::{self, ChainShape, TransitionForm};

    #[test]
    fn scores_are_the_same() {
        for transitions in [
            TransitionForm::Shared,
            TransitionForm::PerStep,
            TransitionForm::Factored { rank: 2, tied: false },
            TransitionForm::Factored { rank: 2, tied: true },
        ] {
            let shape = ChainShape { states: 3, steps: 4, transitions, ..Default::default() };
            let chain = generate::chain::<f32>(&shape, 1).unwrap();
            let graph = chain.to_factor_graph().unwrap();
            for path in [[0, 1, 2, 0], [2, 2, 1, 0], [1, 1, 1, 1]] {
                assert!((graph.score(&path) - chain.score(0, &path)).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn batches_and_large_chains_are_refused() {
        let refused = |shape: ChainShape| {
            generate::chain::<f32>(&shape, 1).unwrap().to_factor_graph().unwrap_err().to_string()
        };
        assert!(refused(ChainShape { batch: 2, ..Default::default() }).contains("the batch has 2"));
        let transitions = TransitionForm::Factored { rank: 1, tied: true };
        let large = ChainShape { states: 20_000, steps: 3, transitions, ..Default::default() };
        assert!(refused(large).contains("8e8 values"));
    }
}
