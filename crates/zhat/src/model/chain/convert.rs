//! A chain as a factor graph: one variable per position, one factor per score.

use super::Chain;
use crate::error::{Error, Result};
use crate::model::FactorGraph;
use crate::model::factor_graph::check_moderate;
use crate::numeric::Real;

impl<F: Real> Chain<F> {
    /// The factor graph of a batch of one: variable t is position t, with one factor for its emissions and
    /// one for each step.
    ///
    /// # Errors
    /// If the batch has more than one sequence, or the tables would have more than 10⁸ values.
    ///
    /// ```
    /// use zhat::model::{Chain, Transitions};
    /// use zhat::{LogPartition, Run};
    /// use zhat::exact::Elimination;
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
        check_moderate((length - 1) as f64 * (states as f64).powi(2))?;
        let mut graph = FactorGraph::new(vec![states; length])?;
        let as_double = |values: &[F]| values.iter().map(|x| x.to_f64()).collect::<Vec<f64>>();
        graph.add_factor(&[0], &as_double(self.start()))?;
        for t in 0..length {
            graph.add_factor(&[t], &as_double(self.emission(0, t)))?;
        }
        if let Some(end) = self.end() {
            graph.add_factor(&[length - 1], &as_double(end))?;
        }
        let mut table = Vec::new();
        for t in 0..length - 1 {
            // Without per-step tables, the table is the same for every step.
            if t == 0 || !self.transitions().shared() {
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
            TransitionForm::LowRank { rank: 2 },
            TransitionForm::PerSequence,
            TransitionForm::Sparse { entries: 2, per_step: false },
            TransitionForm::Sparse { entries: 2, per_step: true },
            TransitionForm::Banded { lower: 0, upper: 1 },
        ] {
            let shape = ChainShape { states: 3, steps: 4, transitions, ..Default::default() };
            let chain = generate::chain::<f32>(&shape, 1).unwrap();
            let graph = chain.to_factor_graph().unwrap();
            for path in [[0, 1, 2, 0], [2, 2, 1, 0], [1, 1, 1, 1]] {
                let (got, want) = (graph.score(&path), chain.score(0, &path));
                assert!(got == want || (got - want).abs() < 1e-12);
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
