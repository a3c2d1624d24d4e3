//! Groups of samples: each draws and sums tuples with its own random stream.

use super::Subject;
use crate::method::quadrature::tuples::Tuples;
use crate::model::FactorGraph;
use crate::numeric::CompensatedSum;
use crate::query::{Beliefs, FactorBeliefs, Query};
use crate::random::Stream;

/// The running sums of one group of samples, in units of τ.
pub(super) struct Group<'c> {
    random: Stream,
    tuples: Tuples<'c>,
    sum: CompensatedSum,
    pub sums: Sums,
}

/// Additional sums of a group.
pub(super) enum Sums {
    None,
    Variables(Beliefs),
    Factors { beliefs: FactorBeliefs, seen: Vec<bool>, near: Vec<usize> },
}

/// The factors near each variable, if the query needs them.
pub(super) struct Near(Vec<Vec<usize>>);

impl Near {
    pub fn new(graph: &FactorGraph, query: Query) -> Self {
        let mut near = Vec::new();
        if query == Query::FactorMarginals {
            near = vec![Vec::new(); graph.variable_count()];
            for (f, factor) in graph.factors().enumerate() {
                factor.scope.iter().for_each(|&v| near[v].push(f));
            }
        }
        Near(near)
    }
}

impl<'c> Group<'c> {
    pub fn new(random: Stream, tuples: Tuples<'c>, graph: &FactorGraph, query: Query) -> Self {
        let sums = match query {
            Query::Marginals => Sums::Variables(Beliefs::zeros(graph.cardinalities())),
            Query::FactorMarginals => Sums::Factors {
                beliefs: FactorBeliefs::zeros(graph),
                seen: vec![false; graph.factor_count()],
                near: Vec::new(),
            },
            _ => Sums::None,
        };
        Group { random, tuples, sum: CompensatedSum::default(), sums }
    }

    /// Sum of all samples so far.
    pub fn sum(&self) -> f64 {
        self.sum.value()
    }

    /// The same with its correction.
    pub fn total(&self) -> CompensatedSum {
        self.sum
    }

    /// Replaces the sum of all samples.
    pub fn set_total(&mut self, total: CompensatedSum) {
        self.sum = total;
    }

    /// Draws `count` more tuples.
    pub fn draw(&mut self, count: u64, subject: &Subject, graph: &FactorGraph, near: &Near) {
        let Subject { cumulative, signs, cliques, .. } = subject;
        let last = cumulative.len() - 1;
        let mut sum = 0.0;
        for _ in 0..count {
            let point = self.random.uniform() * cumulative[last];
            let length = cumulative[..last].iter().take_while(|&&c| c <= point).count();
            match &mut self.sums {
                Sums::None => sum += signs[length] * self.tuples.product(length, &mut self.random),
                Sums::Variables(beliefs) => {
                    let tuple = self.tuples.draw(length, &mut self.random).iter();
                    let z = signs[length] * tuple.map(|&j| cliques.theta()[j]).product::<f64>();
                    sum += z;
                    // Untouched variables stay uniform, so only the difference from uniform is added.
                    for &v in self.tuples.touched() {
                        let own = beliefs.variable_mut(v as usize);
                        let spread = z / own.len() as f64;
                        own.iter_mut().for_each(|mass| *mass -= spread);
                        if let Some(s) = self.tuples.state_of(v as usize) {
                            own[s] += z;
                        }
                    }
                }
                Sums::Factors { beliefs, seen, near: list } => {
                    let tuple = self.tuples.draw(length, &mut self.random).iter();
                    let z = signs[length] * tuple.map(|&j| cliques.theta()[j]).product::<f64>();
                    sum += z;
                    list.clear();
                    for &v in self.tuples.touched() {
                        for &f in &near.0[v as usize] {
                            if !std::mem::replace(&mut seen[f], true) {
                                list.push(f);
                            }
                        }
                    }
                    for &f in list.iter() {
                        seen[f] = false;
                        agree(&self.tuples, graph, f, z, beliefs.factor_mut(f));
                    }
                }
            }
        }
        self.sum.add(sum);
    }
}

/// Adds z·|X_T|/|X_{T ∪ U}| to each state of the factor's variables U that agrees with the touched ones T,
/// minus the uniform share.
fn agree(tuples: &Tuples<'_>, graph: &FactorGraph, f: usize, z: f64, masses: &mut [f64]) {
    let scope = graph.factor(f).scope;
    let size = masses.len();
    let free: f64 = scope
        .iter()
        .filter(|&&v| tuples.state_of(v).is_none())
        .map(|&v| graph.cardinalities()[v] as f64)
        .product();
    let (spread, share) = (z / size as f64, z / free);
    for (entry, mass) in masses.iter_mut().enumerate() {
        let mut rest = entry;
        let mut agrees = true;
        for &v in scope.iter().rev() {
            let states = graph.cardinalities()[v];
            agrees &= tuples.state_of(v).is_none_or(|s| s == rest % states);
            rest /= states;
        }
        *mass += if agrees { share - spread } else { -spread };
    }
}
