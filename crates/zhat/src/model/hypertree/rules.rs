//! Rules that divide a symbol into two.

use std::sync::Arc;

use super::{Symbols, fail};
use crate::error::Result;
use crate::model::Values;
use crate::model::chain::check_scores;
use crate::numeric::Real;
use crate::numeric::parallel::prelude::*;

/// head → left right, by the numbers of symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rule {
    /// The symbol that is divided.
    pub head: usize,
    /// The symbol of the left part.
    pub left: usize,
    /// The symbol of the right part.
    pub right: usize,
}

/// The scores of rules k → a b; k is one of N heads, a and b are any of S symbols.
#[derive(Clone, Debug, PartialEq)]
pub enum Rules<F: Real = f64> {
    /// Every symbol is divided into every pair, with score 0.
    Any,
    /// N×S×S, or B×N×S×S for one set per sentence.
    Dense(Values<F>),
    /// A list; rules that are not listed have score −∞.
    Sparse {
        /// The rules, in ascending order.
        rules: Arc<[Rule]>,
        /// One score per rule.
        scores: Values<F>,
    },
    /// exp(score(k → a b)) = Σ_r exp(headₖᵣ + leftₐᵣ + rightᵦᵣ): the N×S×S table is never formed. Each array may
    /// be given once, or once per sentence.
    LowRank {
        /// R.
        rank: usize,
        /// N×R, or B×N×R.
        heads: Values<F>,
        /// S×R, or B×S×R.
        left: Values<F>,
        /// S×R, or B×S×R.
        right: Values<F>,
    },
}

impl<F: Real> Rules<F> {
    /// A list of rules in any order, and their scores.
    ///
    /// # Errors
    /// If the numbers of rules and scores differ, or a rule is given twice.
    pub fn sparse(rules: Vec<Rule>, scores: &[F]) -> Result<Self> {
        if rules.len() != scores.len() {
            return fail(format!("rules: {} rules have {} scores", rules.len(), scores.len()));
        }
        let mut order: Vec<usize> = (0..rules.len()).collect();
        order.sort_by_key(|&i| rules[i]);
        if let Some(pair) = order.windows(2).find(|pair| rules[pair[0]] == rules[pair[1]]) {
            let Rule { head, left, right } = rules[pair[0]];
            return fail(format!("rules: the rule {head} → {left} {right} is given twice"));
        }
        Ok(Rules::Sparse {
            rules: order.iter().map(|&i| rules[i]).collect(),
            scores: order.iter().map(|&i| scores[i]).collect::<Vec<F>>().into(),
        })
    }

    /// The name of the form, for tables and messages.
    pub fn form(&self) -> &'static str {
        match self {
            Rules::Any => "any",
            Rules::Dense(_) => "dense",
            Rules::Sparse { .. } => "sparse",
            Rules::LowRank { .. } => "low-rank",
        }
    }

    /// The number of stored values.
    pub fn len(&self) -> usize {
        match self {
            Rules::Any => 0,
            Rules::Dense(values) | Rules::Sparse { scores: values, .. } => values.len(),
            Rules::LowRank { heads, left, right, .. } => heads.len() + left.len() + right.len(),
        }
    }

    /// True if there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// R for low-rank rules; 1 if every rule is allowed, which is a product of three factors.
    pub fn rank(&self) -> Option<usize> {
        match self {
            Rules::Any => Some(1),
            Rules::LowRank { rank, .. } => Some(*rank),
            _ => None,
        }
    }

    /// True if there is one set of rules per sentence, of a batch of several.
    pub fn per_sentence(&self, symbols: Symbols) -> bool {
        let Symbols { all, heads: count, .. } = symbols;
        match self {
            Rules::Dense(values) => values.len() > count * all * all,
            Rules::LowRank { rank, heads, left, right } => {
                heads.len() > count * rank || left.len() > all * rank || right.len() > all * rank
            }
            _ => false,
        }
    }

    /// Checks the symbols and scores; returns an upper bound on the finite |score|.
    pub(super) fn check(&self, symbols: Symbols, batch: usize) -> Result<f64> {
        let Symbols { all, heads: count, .. } = symbols;
        let expect = |name: &str, found: usize, one: usize, form: &str| {
            if found == one || found == one.saturating_mul(batch) {
                return Ok(());
            }
            fail(format!(
                "{name}: found {found} numbers, expected {form} = {one} or B × {form} = {}",
                one.saturating_mul(batch)
            ))
        };
        match self {
            Rules::Any => Ok(0.0),
            Rules::Dense(values) => {
                expect("rules", values.len(), count.saturating_mul(all).saturating_mul(all), "N × S × S")?;
                check_scores("rules", values, 0..values.len())
            }
            Rules::Sparse { rules, scores } => {
                if rules.len() != scores.len() {
                    return fail(format!("rules: {} rules have {} scores", rules.len(), scores.len()));
                }
                if let Some(pair) = rules.windows(2).find(|pair| pair[0] >= pair[1]) {
                    let Rule { head, left, right } = pair[1];
                    return fail(format!(
                        "rules: the rule {head} → {left} {right} is given twice or not in ascending order"
                    ));
                }
                let bad = |rule: &&Rule| rule.head >= count || rule.left >= all || rule.right >= all;
                if let Some(Rule { head, left, right }) = rules.iter().find(bad) {
                    return fail(format!(
                        "rules: the rule {head} → {left} {right} is out of range; heads are below {count}, \
                         symbols below {all}"
                    ));
                }
                check_scores("rules", scores, 0..scores.len())
            }
            Rules::LowRank { rank, heads, left, right } => {
                if *rank == 0 {
                    return fail("rules: the rank is at least 1".into());
                }
                expect("rule_heads", heads.len(), count.saturating_mul(*rank), "N × R")?;
                expect("rule_left", left.len(), all.saturating_mul(*rank), "S × R")?;
                expect("rule_right", right.len(), all.saturating_mul(*rank), "S × R")?;
                let mut total = (*rank as f64).ln();
                for (name, values) in [("rule_heads", heads), ("rule_left", left), ("rule_right", right)] {
                    total += check_scores(name, values, 0..values.len())?;
                }
                Ok(total)
            }
        }
    }

    /// The score of k → a b in sentence b.
    pub fn score(&self, symbols: Symbols, b: usize, head: usize, left: usize, right: usize) -> f64 {
        let Symbols { all, heads: count, .. } = symbols;
        match self {
            Rules::Any => 0.0,
            Rules::Dense(values) => {
                part(values, count * all * all, b)[(head * all + left) * all + right].to_f64()
            }
            Rules::Sparse { rules, scores } => {
                let found = rules.binary_search(&Rule { head, left, right });
                found.map_or(f64::NEG_INFINITY, |at| scores[at].to_f64())
            }
            Rules::LowRank { rank, heads, left: lefts, right: rights } => {
                let row = |values: &[F], count: usize, at: usize| {
                    part(values, count * rank, b)[at * rank..(at + 1) * rank].to_vec()
                };
                let (u, v, w) = (row(heads, count, head), row(lefts, all, left), row(rights, all, right));
                log_sum((0..*rank).map(|r| u[r].to_f64() + v[r].to_f64() + w[r].to_f64()))
            }
        }
    }

    /// The rules of one sentence.
    pub(super) fn only(&self, symbols: Symbols, b: usize) -> Self {
        let Symbols { all, heads: count, .. } = symbols;
        let one = |values: &Values<F>, length: usize| match values.len() > length {
            true => part(values, length, b).to_vec().into(),
            false => values.clone(),
        };
        match self {
            Rules::Dense(values) => Rules::Dense(one(values, count * all * all)),
            Rules::LowRank { rank, heads, left, right } => Rules::LowRank {
                rank: *rank,
                heads: one(heads, count * rank),
                left: one(left, all * rank),
                right: one(right, all * rank),
            },
            other => other.clone(),
        }
    }

    /// The same rules as a dense table, N×S×S or B×N×S×S. `check` is called before each row.
    pub(crate) fn expanded(
        &self,
        symbols: Symbols,
        batch: usize,
        check: &(dyn Fn() -> Result<()> + Sync),
    ) -> Result<Values<F>> {
        let Symbols { all, heads, .. } = symbols;
        let sets = if self.per_sentence(symbols) { batch } else { 1 };
        let mut values = vec![F::ZERO; sets * heads * all * all];
        values.par_chunks_mut(all.max(1)).enumerate().try_for_each(|(row, out)| {
            check()?;
            let (b, head, left) = (row / all / heads, row / all % heads, row % all);
            if let Rules::LowRank { rank, heads: us, left: vs, right: ws } = self {
                let of = |values: &'_ [F], count: usize, at: usize| {
                    part(values, count * rank, b)[at * rank..(at + 1) * rank]
                        .iter()
                        .map(|x| x.to_f64())
                        .collect()
                };
                let (u, v): (Vec<f64>, Vec<f64>) = (of(us, heads, head), of(vs, all, left));
                let sums: Vec<f64> = u.iter().zip(&v).map(|(u, v)| u + v).collect();
                let ws = part(ws, all * rank, b);
                for (out, w) in out.iter_mut().zip(ws.chunks_exact(*rank)) {
                    *out = F::from_f64(log_sum(sums.iter().zip(w).map(|(sum, w)| sum + w.to_f64())));
                }
            } else {
                for (right, out) in out.iter_mut().enumerate() {
                    *out = F::from_f64(self.score(symbols, b, head, left, right));
                }
            }
            Ok(())
        })?;
        Ok(values.into())
    }
}

/// The part of an array that belongs to sentence b; `one` is the length of one set.
pub(crate) fn part<F>(values: &[F], one: usize, b: usize) -> &[F] {
    if values.len() > one { &values[b * one..(b + 1) * one] } else { values }
}

/// log Σ exp.
pub(super) fn log_sum(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let top = values.clone().fold(f64::NEG_INFINITY, f64::max);
    if top == f64::NEG_INFINITY { top } else { top + values.map(|x| (x - top).exp()).sum::<f64>().ln() }
}
