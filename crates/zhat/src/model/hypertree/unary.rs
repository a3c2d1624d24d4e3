//! Unary rules and the sum over their repetitions.

use std::collections::BTreeMap;

use super::rules::log_sum;
use super::{Symbols, fail};
use crate::error::Result;
use crate::model::Values;
use crate::numeric::Real;

/// head → child, by the numbers of symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnaryRule {
    /// The symbol that is rewritten.
    pub head: usize,
    /// The symbol that it becomes.
    pub child: usize,
}

/// Unary rules with their closure.
#[derive(Clone, Debug, PartialEq)]
pub struct UnaryRules<F: Real = f64> {
    rules: Vec<UnaryRule>,
    scores: Values<F>,
    sums: Closure,
    best: Closure,
}

/// For pairs of symbols k, a: the log weight of all paths of unary rules from k to a together, or of the best
/// one. The empty path counts, with weight 1. Pairs that are not listed have log weight 0 if k = a and −∞
/// otherwise.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Closure {
    /// k, a and the log weight, in ascending order; all pairs of symbols that occur in a rule and have a path.
    pub entries: Vec<(usize, usize, f64)>,
}

impl<F: Real> UnaryRules<F> {
    pub(super) fn new(
        rules: Vec<UnaryRule>,
        scores: Values<F>,
        symbols: Symbols,
        name: &dyn Fn(usize) -> String,
    ) -> Result<Self> {
        if rules.len() != scores.len() {
            return fail(format!("unary: {} rules have {} scores", rules.len(), scores.len()));
        }
        let bad = |rule: &&UnaryRule| rule.head >= symbols.heads || rule.child >= symbols.all;
        if let Some(UnaryRule { head, child }) = rules.iter().find(bad) {
            return fail(format!(
                "unary: the rule {head} → {child} is out of range; heads are below {}, symbols below {}",
                symbols.heads, symbols.all
            ));
        }
        let mut order: Vec<usize> = (0..rules.len()).collect();
        order.sort_by_key(|&i| rules[i]);
        if let Some(pair) = order.windows(2).find(|pair| rules[pair[0]] == rules[pair[1]]) {
            let UnaryRule { head, child } = rules[pair[0]];
            return fail(format!("unary: the rule {} → {} is given twice", name(head), name(child)));
        }
        let scores: Vec<F> = order.iter().map(|&i| scores[i]).collect();
        let rules: Vec<UnaryRule> = order.iter().map(|&i| rules[i]).collect();
        let table = Paths::new(&rules, &scores);
        let sums = match table.clone().closed(false) {
            Ok(closure) => closure,
            Err(symbol) => return fail(table.divergence(symbol, name)),
        };
        let best = table.closed(true).unwrap_or_default();
        Ok(UnaryRules { rules, scores: scores.into(), sums, best })
    }

    /// The rules, in ascending order.
    pub fn rules(&self) -> &[UnaryRule] {
        &self.rules
    }

    /// One score per rule.
    pub fn scores(&self) -> &[F] {
        &self.scores
    }

    /// The score of k → a, if there is such a rule.
    pub fn score(&self, head: usize, child: usize) -> Option<f64> {
        let at = self.rules.binary_search(&UnaryRule { head, child }).ok()?;
        Some(self.scores[at].to_f64())
    }

    /// The sums over all paths.
    pub fn sums(&self) -> &Closure {
        &self.sums
    }

    /// The best paths.
    pub fn best(&self) -> &Closure {
        &self.best
    }

    /// The number of symbols that occur in a rule.
    pub fn involved(&self) -> usize {
        let mut symbols: Vec<usize> = self.rules.iter().flat_map(|rule| [rule.head, rule.child]).collect();
        symbols.sort_unstable();
        symbols.dedup();
        symbols.len()
    }
}

/// Log weights of paths between the symbols that occur in a rule.
#[derive(Clone)]
struct Paths {
    symbols: Vec<usize>,
    /// n×n; −∞ where there is no path.
    weights: Vec<f64>,
}

impl Paths {
    fn new<F: Real>(rules: &[UnaryRule], scores: &[F]) -> Self {
        let mut symbols: Vec<usize> = rules.iter().flat_map(|rule| [rule.head, rule.child]).collect();
        symbols.sort_unstable();
        symbols.dedup();
        let place: BTreeMap<usize, usize> = symbols.iter().enumerate().map(|(i, &k)| (k, i)).collect();
        let n = symbols.len();
        let mut weights = vec![f64::NEG_INFINITY; n * n];
        for (rule, score) in rules.iter().zip(scores) {
            weights[place[&rule.head] * n + place[&rule.child]] = score.to_f64();
        }
        Paths { symbols, weights }
    }

    /// All paths, by Kleene's algorithm: paths through symbols 0 … k repeat the loop at k any number of times,
    /// Σ_n cⁿ = 1/(1 − c). Only sums and products of positive numbers but for this one. O(n³).
    ///
    /// # Errors
    /// If the sum diverges at a symbol: its place.
    fn closed(mut self, best: bool) -> std::result::Result<Closure, usize> {
        let n = self.symbols.len();
        for k in 0..n {
            let turn = self.weights[k * n + k];
            if turn >= 0.0 && !best {
                return Err(k);
            }
            // −ln(1 − eˣ).
            let repeated = if best || turn == f64::NEG_INFINITY { 0.0 } else { -(-turn.exp_m1()).ln() };
            let onward: Vec<f64> = self.weights[k * n..(k + 1) * n].to_vec();
            for i in 0..n {
                let arrive = self.weights[i * n + k] + repeated;
                if arrive == f64::NEG_INFINITY {
                    continue;
                }
                for (j, &leave) in onward.iter().enumerate().filter(|(_, x)| **x > f64::NEG_INFINITY) {
                    let (through, own) = (arrive + leave, &mut self.weights[i * n + j]);
                    *own = if best { own.max(through) } else { log_sum([*own, through].into_iter()) };
                }
            }
        }
        let mut entries = Vec::new();
        for i in 0..n {
            for j in 0..n {
                let own = self.weights[i * n + j];
                let with_empty = match (i == j, best) {
                    (false, _) => own,
                    (true, true) => 0.0,
                    (true, false) => log_sum([own, 0.0].into_iter()),
                };
                if with_empty > f64::NEG_INFINITY {
                    entries.push((self.symbols[i], self.symbols[j], with_empty));
                }
            }
        }
        Ok(Closure { entries })
    }

    /// The message for a sum that diverges at a symbol: a shortest cycle through it.
    fn divergence(&self, symbol: usize, name: &dyn Fn(usize) -> String) -> String {
        let n = self.symbols.len();
        let mut before: Vec<Option<usize>> = vec![None; n];
        let mut queue = std::collections::VecDeque::from([symbol]);
        while let Some(at) = queue.pop_front().filter(|_| before[symbol].is_none()) {
            for next in (0..n).filter(|&next| self.weights[at * n + next] > f64::NEG_INFINITY) {
                if before[next].is_none() {
                    before[next] = Some(at);
                    queue.push_back(next);
                }
            }
        }
        let (mut cycle, mut at) = (vec![symbol], before[symbol]);
        while let Some(place) = at.filter(|&place| place != symbol && cycle.len() <= n) {
            cycle.push(place);
            at = before[place];
        }
        cycle.push(symbol);
        let names: Vec<String> = cycle.iter().rev().map(|&place| name(self.symbols[place])).collect();
        format!(
            "unary: the rules {} can be repeated without end, and the sum of their weights diverges; lower their \
             weights below 1 in total",
            names.join(" → ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(list: &[(usize, usize, f64)]) -> Result<UnaryRules<f64>> {
        let pairs = list.iter().map(|&(head, child, _)| UnaryRule { head, child }).collect();
        let scores: Vec<f64> = list.iter().map(|&(_, _, weight)| weight.ln()).collect();
        UnaryRules::new(pairs, scores.into(), Symbols::same(4), &|k| format!("X{k}"))
    }

    #[test]
    fn the_closure_is_the_inverse_of_one_minus_the_weights() {
        // 0 → 1 (0.5), 1 → 0 (0.4), 1 → 2 (2), 0 → 0 (0.1).
        let unary = rules(&[(0, 1, 0.5), (1, 0, 0.4), (1, 2, 2.0), (0, 0, 0.1)]).unwrap();
        let at = |closure: &Closure, k: usize, a: usize| {
            closure.entries.iter().find(|entry| (entry.0, entry.1) == (k, a)).map(|entry| entry.2.exp())
        };
        // The inverse of [[0.9, −0.5], [−0.4, 1]] by hand.
        let determinant = 0.9 - 0.2;
        let expected = [[1.0 / determinant, 0.5 / determinant], [0.4 / determinant, 0.9 / determinant]];
        for (k, row) in expected.iter().enumerate() {
            for (a, &value) in row.iter().enumerate() {
                assert!((at(unary.sums(), k, a).unwrap() - value).abs() < 1e-12);
            }
            assert!((at(unary.sums(), k, 2).unwrap() - 2.0 * row[1]).abs() < 1e-12);
        }
        assert_eq!(at(unary.best(), 0, 2), Some(1.0));
        assert_eq!(at(unary.best(), 0, 0), Some(1.0));
        assert_eq!(at(unary.sums(), 2, 0), None);
        assert_eq!(unary.involved(), 3);
    }

    #[test]
    fn cycles_that_diverge_are_named() {
        let error = rules(&[(0, 1, 0.5), (1, 2, 4.0), (2, 0, 0.5), (3, 0, 1.0)]).unwrap_err().to_string();
        assert!(error.contains("→") && error.contains("diverges"), "{error}");
        for name in ["X0", "X1", "X2"] {
            assert!(error.contains(name), "{error}");
        }
        assert!(!error.contains("X3"), "{error}");
        assert!(rules(&[(0, 0, 1.0)]).unwrap_err().to_string().contains("X0 → X0"));
        assert!(rules(&[(0, 1, 1e300), (1, 2, 1e300)]).is_ok());
        assert!(rules(&[(0, 1, 0.5), (0, 1, 0.5)]).unwrap_err().to_string().contains("given twice"));
        assert!(rules(&[(0, 4, 0.5)]).unwrap_err().to_string().contains("out of range"));
    }
}
