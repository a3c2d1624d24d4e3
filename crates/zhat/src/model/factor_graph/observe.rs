//! Evidence about variables: known states, sets of states, and likelihoods.

use std::collections::HashSet;

use super::FactorGraph;
use crate::error::{Error, Result};
use crate::model::evidence::{Evidence, Known, variables};
use crate::model::{NetworkType, table};

impl FactorGraph {
    /// The model given that each listed variable is in its state. The numbering of variables is unchanged.
    ///
    /// Every factor is restricted to the observed states, and each observed variable gets a factor that
    /// forbids its other states. log Z becomes log P̃(evidence), and methods need no special treatment of
    /// evidence.
    ///
    /// # Errors
    /// If a variable or state is out of range, a variable is given twice, or there is no memory for the
    /// tables.
    ///
    /// ```
    /// # use zhat::FactorGraph;
    /// let mut graph = FactorGraph::new(vec![2, 2])?;
    /// graph.add_factor(&[0, 1], &[0.1, 0.2, 0.3, 0.4])?;
    /// let given = graph.condition(&[(0, 1)])?;
    /// assert_eq!(given.factor(0).log_values, [0.3, 0.4]);
    /// assert!(graph.condition(&[(0, 2)]).is_err());
    /// # Ok::<(), zhat::Error>(())
    /// ```
    pub fn condition(&self, evidence: &[(usize, usize)]) -> Result<FactorGraph> {
        let mut observed: Vec<Option<usize>> = vec![None; self.variable_count()];
        for &(v, s) in evidence {
            if s >= self.states_of(v)? {
                return Err(Error::argument("evidence", self.no_state(v, s)));
            }
            if observed[v].replace(s).is_some() {
                return Err(self.given_twice(v));
            }
        }
        if evidence.is_empty() {
            return Ok(self.clone());
        }
        // As long as the longest axis of a table; variables without a factor may have more states.
        let longest = self.scopes.iter().map(|&v| self.cardinalities[v]).max().unwrap_or(0);
        let every: Vec<usize> = (0..longest).collect();
        let mut graph = FactorGraph::new(self.cardinalities.clone())?;
        graph.names = self.names.clone();
        graph.evidence = self.evidence.iter().chain(evidence).copied().collect();
        graph.evidence.sort_unstable();
        graph.evidence.dedup();
        (graph.uncertain, graph.cuts) = (self.uncertain.clone(), self.cuts.clone());
        for (f, factor) in self.factors().enumerate() {
            let kept = |v: usize| match &observed[v] {
                Some(s) => std::slice::from_ref(s),
                None => &every[..self.cardinalities[v]],
            };
            let keep: Vec<&[usize]> = factor.scope.iter().map(|&v| kept(v)).collect();
            let values = table::select(factor.log_values, &self.lengths(factor.scope), &keep);
            let scope: Vec<usize> = factor.scope.iter().copied().filter(|&v| observed[v].is_none()).collect();
            graph.add_factor(&scope, &values)?;
            let cut = factor.scope.iter().filter(|&&v| observed[v].is_some());
            cut.for_each(|&v| graph.cuts.push((f, v)));
        }
        for &(v, s) in evidence {
            graph.add_observation(v, &[s])?;
        }
        Ok(graph)
    }

    /// The model given states, sets of states and likelihoods of variables; see [`Evidence`].
    ///
    /// A set or likelihood of a variable becomes one more factor, so the variable keeps its states and its
    /// marginals. A set of one state is the same as the state, and a set of all states says nothing. Evidence about
    /// a variable of a model that has been conditioned on it before adds to it: likelihoods multiply.
    ///
    /// # Errors
    /// As [`FactorGraph::condition`]; also for evidence about anything but variables, an empty set, and likelihoods
    /// that are not one for each state or all 0.
    ///
    /// ```
    /// # use zhat::FactorGraph;
    /// use zhat::model::{Evidence, Place};
    /// let mut graph = FactorGraph::new(vec![2, 3])?;
    /// graph.add_factor(&[0, 1], &[0.1, 0.2, 0.3, 0.4, 0.5, 0.6])?;
    /// let given = graph.condition_on(&[
    ///     Evidence::Likelihood { place: Place::Variable(0), log_values: vec![0.8f64.ln(), 0.2f64.ln()] },
    ///     Evidence::Set { place: Place::Variable(1), states: vec![0, 2] },
    /// ])?;
    /// assert!((given.score(&[1, 2]) - (0.6 + 0.2f64.ln())).abs() < 1e-15);
    /// assert_eq!(given.score(&[1, 1]), f64::NEG_INFINITY);
    /// # Ok::<(), zhat::Error>(())
    /// ```
    pub fn condition_on(&self, evidence: &[Evidence]) -> Result<FactorGraph> {
        let (mut states, mut uncertain, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
        for (v, known) in variables(evidence, FactorGraph::KIND)? {
            let count = self.states_of(v)?;
            let no_state = |state| self.no_state(v, state);
            known.check(&(0..count), || format!("variable {}", self.variable_name(v)), no_state)?;
            if !seen.insert(v) {
                return Err(self.given_twice(v));
            }
            match known.only() {
                Some(state) => states.push((v, state)),
                None => uncertain.push((v, known)),
            }
        }
        let mut graph = self.condition(&states)?;
        for (v, known) in uncertain {
            graph.add_uncertain(v, known)?;
        }
        Ok(graph)
    }

    fn states_of(&self, v: usize) -> Result<usize> {
        let count = self.variable_count();
        self.cardinalities.get(v).copied().ok_or_else(|| {
            Error::argument("evidence", format!("there is no variable {v}; there are {count}"))
        })
    }

    fn no_state(&self, v: usize, state: usize) -> String {
        let (name, states) = (self.variable_name(v), self.cardinalities[v]);
        format!("variable {name} has {states} states, so there is no state {state}")
    }

    fn given_twice(&self, v: usize) -> Error {
        Error::argument("evidence", format!("variable {} is given twice", self.variable_name(v)))
    }

    /// Adds a factor for a set of states or likelihoods that have been checked.
    fn add_uncertain(&mut self, v: usize, known: Known<'_>) -> Result<()> {
        match known {
            Known::State(state) => self.add_observation(v, &[state])?,
            Known::Set(states) => {
                let distinct: HashSet<usize> = states.iter().copied().collect();
                if distinct.len() == self.cardinalities[v] {
                    return Ok(());
                }
                self.add_observation(v, states)?;
            }
            Known::Likelihood(values) => {
                self.add_factor(&[v], values)?;
            }
        }
        self.uncertain.push(self.factor_count() - 1);
        self.form = NetworkType::Markov;
        Ok(())
    }

    /// Adds a factor that forbids all states of a variable except these. The number of states may come from a
    /// file without a table of the variable, so allocation may fail.
    fn add_observation(&mut self, v: usize, possible: &[usize]) -> Result<()> {
        let (start, states) = (self.values.len(), self.cardinalities[v]);
        self.values.try_reserve(states).map_err(|_| {
            Error::model(format!(
                "there is no memory for a table over the {states} states of {}",
                self.variable_name(v)
            ))
        })?;
        self.values.resize(start + states, f64::NEG_INFINITY);
        possible.iter().for_each(|state| self.values[start + state] = 0.0);
        self.value_ends.push(self.values.len());
        self.scopes.push(v);
        self.scope_ends.push(self.scopes.len());
        self.has_changed();
        Ok(())
    }

    /// The observations made by [`FactorGraph::condition`], by variable.
    pub fn evidence(&self) -> &[(usize, usize)] {
        &self.evidence
    }

    /// The factors that stand for sets of states and likelihoods given to [`FactorGraph::condition_on`].
    pub fn uncertain_evidence(&self) -> &[usize] {
        &self.uncertain
    }

    /// True if the model has been given evidence of any kind.
    pub fn has_evidence(&self) -> bool {
        !self.evidence.is_empty() || !self.uncertain.is_empty()
    }

    /// Restores the record of evidence from a file.
    pub(crate) fn with_evidence_record(
        mut self,
        evidence: Vec<(usize, usize)>,
        uncertain: Vec<usize>,
    ) -> Self {
        (self.evidence, self.uncertain) = (evidence, uncertain);
        self
    }

    /// Pairs of a factor and a variable that [`FactorGraph::condition`] removed from its scope, for messages.
    pub(crate) fn cuts(&self) -> &[(usize, usize)] {
        &self.cuts
    }

    /// The error for Z = 0: impossible evidence if there is evidence.
    pub(crate) fn zero_error(&self) -> Error {
        if self.has_evidence() { Error::impossible() } else { Error::ZeroPartition }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Place;

    #[test]
    fn observing_a_small_variable_takes_no_memory_for_a_huge_one() {
        let mut graph = FactorGraph::new(vec![1 << 28, 2, 3, 1 << 28]).unwrap();
        graph.add_factor(&[1, 2], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        let given = graph.condition(&[(1, 1)]).unwrap();
        assert_eq!((given.factor(0).log_values, given.values.len()), (&[3.0, 4.0, 5.0][..], 5));
    }

    #[test]
    fn conditioning_keeps_scores_of_agreeing_states_and_forbids_the_rest() {
        let mut graph = FactorGraph::new(vec![2, 3, 2]).unwrap();
        graph.add_factor(&[2, 0], &[0.1, 0.2, 0.3, 0.4]).unwrap();
        graph.add_factor(&[1], &[1.0, 2.0, 3.0]).unwrap();
        let given = graph.condition(&[(0, 1), (1, 2)]).unwrap();
        assert_eq!(given.score(&[1, 2, 1]), graph.score(&[1, 2, 1]));
        assert_eq!(given.score(&[0, 2, 1]), f64::NEG_INFINITY);
        assert_eq!(given.evidence(), [(0, 1), (1, 2)]);
        assert!(graph.condition(&[(0, 1), (0, 1)]).is_err());
        assert!(graph.condition(&[(7, 0)]).is_err());
        // A second, contradicting observation gives an impossible model, not an argument error.
        assert_eq!(given.condition(&[(0, 0)]).unwrap().score(&[0, 2, 1]), f64::NEG_INFINITY);
    }

    #[test]
    fn a_set_of_one_state_is_the_state_and_a_set_of_all_says_nothing() {
        let mut graph = FactorGraph::new(vec![2, 3]).unwrap().with_network_type(NetworkType::Bayes);
        graph.add_factor(&[1, 0], &[0.1, 0.2, 0.3, 0.4, 0.5, 0.6]).unwrap();
        let set = |v, states: &[usize]| Evidence::Set { place: Place::Variable(v), states: states.to_vec() };
        assert_eq!(graph.condition_on(&[set(1, &[2, 2])]).unwrap(), graph.condition(&[(1, 2)]).unwrap());
        assert_eq!(graph.condition_on(&[set(1, &[2, 0, 1])]).unwrap(), graph);
        let given = graph.condition_on(&[set(1, &[2, 0, 2])]).unwrap();
        assert_eq!(given.factor(1).log_values, [0.0, f64::NEG_INFINITY, 0.0]);
        assert_eq!((given.evidence(), given.uncertain_evidence()), ([].as_slice(), [1].as_slice()));
        assert_eq!(given.network_type(), NetworkType::Markov);
        // More evidence keeps the record.
        let more = given.condition(&[(0, 1)]).unwrap();
        assert_eq!((more.uncertain_evidence(), more.has_evidence()), ([1].as_slice(), true));
    }

    #[test]
    fn evidence_that_means_nothing_is_refused() {
        let graph = FactorGraph::new(vec![2, 3]).unwrap();
        let refused = |evidence: &[Evidence]| graph.condition_on(evidence).unwrap_err().to_string();
        let set = |v, states: &[usize]| Evidence::Set { place: Place::Variable(v), states: states.to_vec() };
        let likelihood = |v, values: &[f64]| Evidence::Likelihood {
            place: Place::Variable(v),
            log_values: values.to_vec(),
        };
        let no = f64::NEG_INFINITY;
        for (evidence, message) in [
            (set(1, &[]), "the set of states of variable x1 is empty; name at least one"),
            (set(1, &[0, 3]), "variable x1 has 3 states, so there is no state 3"),
            (set(2, &[0]), "there is no variable 2; there are 2"),
            (likelihood(1, &[0.0, 0.0]), "variable x1 has 3 states, but 2 likelihoods are given"),
            (likelihood(0, &[no, no]), "the likelihoods of variable x0 are all 0; one must be positive"),
            (likelihood(0, &[0.0, f64::NAN]), "likelihood 1 of variable x0 has the logarithm NaN"),
            (likelihood(0, &[f64::INFINITY, 0.0]), "likelihood 0 of variable x0 has the logarithm inf"),
            (
                Evidence::new(Place::Position { sequence: 0, position: 0 }, crate::model::Finding::State(0)),
                "a factor-graph takes evidence about variables",
            ),
        ] {
            assert!(refused(std::slice::from_ref(&evidence)).contains(message), "{evidence:?}");
        }
        assert!(
            refused(&[set(1, &[0, 1]), Evidence::State { variable: 1, state: 0 }]).contains("given twice")
        );
    }
}
