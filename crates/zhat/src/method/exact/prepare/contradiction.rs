//! Explains why a model has no state of positive weight: finds the factors and evidence that contradict each
//! other.
//!
//! A set of factors is contradictory if arc consistency over it leaves some variable without a state. A
//! contradictory set is reduced recursively: if one half alone is contradictory, the other half is discarded;
//! otherwise a minimal part of each half is determined with the rest held fixed. The result is *minimal*:
//! without any one of its factors, arc consistency finds no contradiction. With c of m factors left this
//! takes O(c·log(m/c)) passes of arc consistency.
//!
//! Reference: U. Junker, *QuickXplain: preferred explanations and relaxations for over-constrained problems*,
//! AAAI (2004).

use std::fmt::Write as _;

use super::consistency::Domains;
use crate::error::Result;
use crate::model::FactorGraph;

/// Models with more entries and states than this are not analysed, because it would take more than a few
/// seconds.
const ENTRIES: usize = 5_000_000;
/// Maximum number of factors named in a message.
const NAMED: usize = 6;

/// A minimal set of factors that no state satisfies together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// The indices of the factors, in ascending order.
    pub factors: Vec<usize>,
    /// The evidence involved in the contradiction, as pairs of a variable and its state.
    pub evidence: Vec<(usize, usize)>,
}

impl FactorGraph {
    /// A contradiction between factors, if arc consistency finds one. `None` does not imply Z > 0.
    ///
    /// ```
    /// # use zhat::FactorGraph;
    /// let forbidden = f64::NEG_INFINITY;
    /// let mut graph = FactorGraph::new(vec![2, 2, 2])?;
    /// graph.add_factor(&[0, 1], &[0.0, forbidden, forbidden, 0.0])?;
    /// graph.add_factor(&[1, 2], &[0.0, forbidden, forbidden, 0.0])?;
    /// let given = graph.condition(&[(0, 1), (2, 0)])?;
    /// let found = given.contradiction().unwrap();
    /// assert_eq!((found.factors, found.evidence), (vec![0, 1], vec![(0, 1), (2, 0)]));
    /// # Ok::<(), zhat::Error>(())
    /// ```
    pub fn contradiction(&self) -> Option<Contradiction> {
        let entries: usize = self.factors().map(|factor| factor.log_values.len()).sum();
        let states: usize = self.cardinalities().iter().sum();
        if entries + states > ENTRIES || Domains::new(self, &|| false).is_some() {
            return None;
        }
        let hard: Vec<usize> = (0..self.factor_count())
            .filter(|&f| self.factor(f).log_values.contains(&f64::NEG_INFINITY))
            .collect();
        let mut kept = Vec::new();
        let mut factors = self.least(&mut kept, &hard, false).ok()?;
        factors.sort_unstable();
        let involved = |v: usize| {
            let cut = self.cuts().iter().any(|&(f, w)| w == v && factors.contains(&f));
            cut || factors.iter().any(|&f| self.factor(f).scope.contains(&v))
        };
        let evidence = self.evidence().iter().copied().filter(|&(v, _)| involved(v)).collect();
        Some(Contradiction { factors, evidence })
    }

    /// A minimal part of `among` that contradicts `kept`; `kept` is restored before returning. `grown` is
    /// true if `kept` has changed since it was last checked.
    fn least(&self, kept: &mut Vec<usize>, among: &[usize], grown: bool) -> Result<Vec<usize>> {
        if grown && self.contradicts(kept)? {
            return Ok(Vec::new());
        }
        if among.len() <= 1 {
            return Ok(among.to_vec());
        }
        let (one, other) = among.split_at(among.len() / 2);
        let before = kept.len();
        kept.extend(one);
        let mut found = self.least(kept, other, true)?;
        kept.truncate(before);
        kept.extend(&found);
        let more = self.least(kept, one, !found.is_empty())?;
        kept.truncate(before);
        found.extend(more);
        Ok(found)
    }

    fn contradicts(&self, factors: &[usize]) -> Result<bool> {
        let mut part = FactorGraph::new(self.cardinalities().to_vec())?;
        for factor in factors.iter().map(|&f| self.factor(f)) {
            part.add_factor(factor.scope, factor.log_values)?;
        }
        Ok(Domains::new(&part, &|| false).is_none())
    }

    /// Describes the contradiction in words.
    pub(crate) fn explain(&self, found: &Contradiction) -> String {
        let state =
            |&(v, s): &(usize, usize)| format!("{} = {}", self.variable_name(v), self.state_name(v, s));
        let mut evidence: Vec<String> = found.evidence.iter().map(state).collect();
        evidence.extend(found.factors.iter().filter_map(|&f| self.uncertain_observation(f)));
        let mut text = match evidence.len() {
            0 => "no state satisfies".to_owned(),
            1 => format!("{} is impossible by", evidence[0]),
            _ => format!("{} exclude each other by", evidence.join(" and ")),
        };
        let scope = |&f: &usize| {
            let cut = self.cuts().iter().filter(|cut| cut.0 == f).map(|cut| cut.1);
            let names: Vec<String> =
                cut.chain(self.factor(f).scope.iter().copied()).map(|v| self.variable_name(v)).collect();
            format!("({})", names.join(", "))
        };
        let mut several: Vec<String> =
            found.factors.iter().filter(|&&f| !self.is_observation(f)).map(scope).collect();
        if several.is_empty() && evidence.len() > 1 {
            return format!("{} exclude each other", evidence.join(" and "));
        }
        let more = if several.len() > NAMED { ", …" } else { "" };
        several.truncate(NAMED);
        let factors = if several.len() > 1 { "factors" } else { "factor" };
        let _ = write!(text, " the {factors} over {}{more}", several.join(", "));
        text
    }

    /// Whether a factor only encodes an observation.
    fn is_observation(&self, f: usize) -> bool {
        let scope = self.factor(f).scope;
        let given =
            |v| self.evidence().iter().any(|&(u, _)| u == v) || self.uncertain_evidence().contains(&f);
        scope.len() == 1 && given(scope[0])
    }

    /// Describes a factor that stands for a set of states or a likelihood, with the states that it allows.
    fn uncertain_observation(&self, f: usize) -> Option<String> {
        let (&[v], true) = (self.factor(f).scope, self.uncertain_evidence().contains(&f)) else {
            return None;
        };
        let values = self.factor(f).log_values.iter().enumerate();
        let possible: Vec<usize> = values.filter(|(_, x)| **x > f64::NEG_INFINITY).map(|(s, _)| s).collect();
        let names: Vec<String> = possible.iter().take(NAMED).map(|&s| self.state_name(v, s)).collect();
        let more = if possible.len() > NAMED { "|…" } else { "" };
        Some(format!("{} = {}{more}", self.variable_name(v), names.join("|")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Streams;
    use crate::{Error, LogPartition, Run, exact::Enumeration};

    /// Random networks of equalities and inequalities with evidence.
    fn random(seed: u64) -> FactorGraph {
        let mut random = Streams::new(seed, "contradictions").block(0);
        let mut graph = FactorGraph::new(vec![2; 9]).unwrap();
        for _ in 0..9 {
            let (u, v) = (random.below(9), random.below(9));
            if u != v {
                let (equal, unequal) =
                    if random.uniform() < 0.7 { (0.0, f64::NEG_INFINITY) } else { (f64::NEG_INFINITY, 0.0) };
                graph.add_factor(&[u, v], &[equal, unequal, unequal, equal]).unwrap();
            }
        }
        let evidence: Vec<(usize, usize)> = (0..4).map(|v| (2 * v, random.below(2))).collect();
        graph.condition(&evidence).unwrap()
    }

    #[test]
    fn contradictions_are_real_and_minimal() {
        let mut found = 0;
        for seed in 0..200 {
            let graph = random(seed);
            let Some(contradiction) = graph.contradiction() else { continue };
            found += 1;
            let zero = Enumeration::default().log_partition(&graph, &Run::default());
            assert!(matches!(zero, Err(Error::ImpossibleEvidence { .. })), "{seed}");
            assert!(graph.contradicts(&contradiction.factors).unwrap(), "{seed}");
            for left_out in 0..contradiction.factors.len() {
                let mut fewer = contradiction.factors.clone();
                fewer.remove(left_out);
                assert!(!graph.contradicts(&fewer).unwrap(), "{seed}");
            }
            assert!(!contradiction.evidence.is_empty(), "{seed}");
        }
        assert!(found > 30, "{found}");
    }

    #[test]
    fn it_is_said_in_words() {
        let mut graph = FactorGraph::new(vec![2, 3, 2, 2]).unwrap();
        let no = f64::NEG_INFINITY;
        graph.add_factor(&[0, 1], &[0.0, no, no, no, 0.0, 0.0]).unwrap();
        graph.add_factor(&[1, 2], &[0.0, no, no, 0.0, no, 0.0]).unwrap();
        graph.add_factor(&[2, 3], &[0.5; 4]).unwrap();
        let given = graph.condition(&[(0, 1), (3, 1)]).unwrap().condition(&[(2, 0)]).unwrap();
        let found = given.contradiction().unwrap();
        assert_eq!(
            given.explain(&found),
            "x0 = 1 and x2 = 0 exclude each other by the factors over (x0, x1), (x2, x1)"
        );
        assert!(graph.contradiction().is_none());
    }
}
