//! A tractable base measure of a model, and the residual.
//!
//! score(x) = base(x) + r(x). The base contains all factors on single variables and as many of the others,
//! strongest first, as an elimination of bounded width allows; the rest is r. From each table θ_c of the
//! rest, single-variable terms are first subtracted and moved to the base: r_c = θ_c − Σ_v λ_{cv}(x_v). The λ
//! are chosen so that Π_v b_v(x_v)·exp r_c has the marginals b_v again, for given beliefs b (Sinkhorn
//! scaling). With the beliefs of belief propagation, the λ are its messages, and r_c is the logarithm of b_c
//! / Π b_v.
//!
//! The strength of a factor is the variance of r_c under Π b_v. Factors that forbid states come first. Cost:
//! a few passes over all tables, and one greedy elimination order per trial. The number of trials is bounded
//! by the size of the model.

use crate::error::Result;
use crate::method::exact::prepare::{Order, Stop};
use crate::method::sampling::acyclic;
use crate::model::FactorGraph;
use crate::query::Beliefs;

/// Maximum number of scaling rounds; more have no noticeable effect.
const ROUNDS: usize = 30;
/// Minimum value of a belief.
const LEAST: f64 = 1e-6;
/// Maximum number of variables and factors processed in trials of the base.
const TRIALS: f64 = 3e6;

/// Which factors the base may contain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Reach {
    /// None: the uniform measure.
    Nothing,
    /// Factors on single variables.
    Variables,
    /// A spanning forest of factors.
    Forest,
    /// Any factors that can be eliminated with at most this number of neighbours and of table entries in
    /// total.
    Width { width: usize, entries: f64 },
}

/// A model split into base and rest.
pub(super) struct Split {
    pub base: FactorGraph,
    /// An elimination order of the base.
    pub order: Order,
    /// r, over the same variables.
    pub rest: FactorGraph,
}

/// The uniform beliefs.
pub(super) fn uniform(graph: &FactorGraph) -> Beliefs {
    let mut beliefs = Beliefs::zeros(graph.cardinalities());
    beliefs.as_mut_slice().fill(1.0);
    beliefs.normalise();
    beliefs
}

/// A table with its single-variable terms subtracted.
struct Interaction {
    values: Vec<f64>,
    /// λ for each variable of the scope, concatenated.
    moved: Vec<f64>,
    strength: f64,
}

impl Interaction {
    fn new(graph: &FactorGraph, f: usize, logs: &Beliefs) -> Self {
        let factor = graph.factor(f);
        let lengths = graph.lengths(factor.scope);
        let mut values = factor.log_values.to_vec();
        let total: usize = lengths.iter().sum();
        let mut moved = vec![0.0; total];
        if values.contains(&f64::NEG_INFINITY) {
            return Interaction { values, moved, strength: f64::INFINITY };
        }
        let weight = |entry: usize, skip: usize| {
            let (mut rest, mut log) = (entry, 0.0);
            for (axis, &states) in lengths.iter().enumerate().rev() {
                log += if axis == skip { 0.0 } else { logs.variable(factor.scope[axis])[rest % states] };
                rest /= states;
            }
            log
        };
        for _ in 0..ROUNDS {
            let (mut start, mut change) = (0, 0.0f64);
            let mut stride = values.len();
            for (axis, &states) in lengths.iter().enumerate() {
                stride /= states;
                let (mut best, mut sums) = (vec![f64::NEG_INFINITY; states], vec![0.0; states]);
                let terms: Vec<f64> = (0..values.len()).map(|e| values[e] + weight(e, axis)).collect();
                for (e, &term) in terms.iter().enumerate() {
                    let s = e / stride % states;
                    best[s] = best[s].max(term);
                }
                for (e, &term) in terms.iter().enumerate() {
                    let s = e / stride % states;
                    sums[s] += (term - best[s]).exp();
                }
                for (e, value) in values.iter_mut().enumerate() {
                    let s = e / stride % states;
                    *value -= best[s] + sums[s].ln();
                }
                for s in 0..states {
                    let step = best[s] + sums[s].ln();
                    moved[start + s] += step;
                    change = change.max(step.abs());
                }
                start += states;
            }
            if change < 1e-9 {
                break;
            }
        }
        let none = lengths.len();
        let (mut mean, mut squares) = (0.0, 0.0);
        for (e, &value) in values.iter().enumerate() {
            let p = weight(e, none).exp();
            mean += p * value;
            squares += p * value * value;
        }
        Interaction { values, moved, strength: (squares - mean * mean).max(0.0) }
    }
}

/// Splits a graph whose factors all have a scope. With `absorb`, single-variable terms under these beliefs
/// are subtracted from the rest. The base grows beyond a forest until `stop` returns true.
pub(super) fn split(
    graph: &FactorGraph,
    reach: Reach,
    beliefs: &Beliefs,
    absorb: bool,
    stop: Stop<'_>,
) -> Result<Split> {
    let mut logs = beliefs.clone();
    logs.as_mut_slice().iter_mut().for_each(|p| *p = p.max(LEAST));
    logs.normalise();
    logs.as_mut_slice().iter_mut().for_each(|p| *p = p.ln());
    let interactions: Vec<Option<Interaction>> = (0..graph.factor_count())
        .map(|f| (graph.factor(f).scope.len() > 1).then(|| Interaction::new(graph, f, &logs)))
        .collect();
    let strength = |f: usize| interactions[f].as_ref().map_or(f64::INFINITY, |own| own.strength);
    let (mut inside, mut outside) = match reach {
        Reach::Nothing => (Vec::new(), (0..graph.factor_count()).collect()),
        Reach::Variables => (0..graph.factor_count()).partition(|&f| interactions[f].is_none()),
        Reach::Forest | Reach::Width { .. } => acyclic(graph, strength),
    };
    if let Reach::Width { width, entries } = reach {
        outside.sort_by(|&f, &g| strength(g).total_cmp(&strength(f)));
        let mut grown = Growth { graph, inside, left: TRIALS, width, entries, refused: Vec::new(), stop };
        grown.add(&outside)?;
        (inside, outside) = (grown.inside, grown.refused);
        inside.sort_unstable();
        outside.sort_unstable();
    }
    let mut base = FactorGraph::new(graph.cardinalities().to_vec())?;
    for &f in &inside {
        let factor = graph.factor(f);
        base.add_factor(factor.scope, factor.log_values)?;
    }
    let mut rest = FactorGraph::new(graph.cardinalities().to_vec())?;
    let mut moved = Beliefs::zeros(graph.cardinalities());
    let mut touched = vec![false; graph.variable_count()];
    for &f in &outside {
        let factor = graph.factor(f);
        match &interactions[f] {
            Some(own) if absorb && reach != Reach::Nothing => {
                rest.add_factor(factor.scope, &own.values)?;
                let mut start = 0;
                for &v in factor.scope {
                    let target = moved.variable_mut(v);
                    let states = target.len();
                    target.iter_mut().zip(&own.moved[start..]).for_each(|(sum, step)| *sum += step);
                    touched[v] = true;
                    start += states;
                }
            }
            _ => {
                rest.add_factor(factor.scope, factor.log_values)?;
            }
        }
    }
    for v in (0..graph.variable_count()).filter(|&v| touched[v]) {
        base.add_factor(&[v], moved.variable(v))?;
    }
    // A forest of factors has an order whose tables are no larger than the factors. Any other base has been
    // tested.
    let order =
        Order::greedy(&base).unwrap_or_else(|_| Order::along(&base, (0..graph.variable_count()).collect()));
    Ok(Split { base, order, rest })
}

/// A base that grows as long as its limits allow.
struct Growth<'g> {
    graph: &'g FactorGraph,
    inside: Vec<usize>,
    refused: Vec<usize>,
    left: f64,
    width: usize,
    entries: f64,
    stop: Stop<'g>,
}

impl Growth<'_> {
    /// Adds all of these factors if possible, otherwise tries each half, first half first.
    fn add(&mut self, factors: &[usize]) -> Result<()> {
        if factors.is_empty() {
            return Ok(());
        }
        self.left -= (self.graph.variable_count() + self.graph.factor_count()) as f64;
        if self.left < 0.0 || (self.stop)() {
            self.refused.extend_from_slice(factors);
            return Ok(());
        }
        if self.fits(factors)? {
            self.inside.extend_from_slice(factors);
            return Ok(());
        }
        if factors.len() == 1 {
            self.refused.extend_from_slice(factors);
            return Ok(());
        }
        let (first, second) = factors.split_at(factors.len() / 2);
        self.add(first)?;
        self.add(second)
    }

    fn fits(&self, factors: &[usize]) -> Result<bool> {
        let mut trial = FactorGraph::new(self.graph.cardinalities().to_vec())?;
        for &f in self.inside.iter().chain(factors) {
            let factor = self.graph.factor(f);
            trial.add_factor(factor.scope, factor.log_values)?;
        }
        Ok(Order::greedy(&trial)
            .is_ok_and(|order| order.width <= self.width && order.entries <= self.entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::generate::{self, GraphShape, Grid};
    use crate::model::table;
    use crate::random::Streams;

    #[test]
    fn base_and_rest_are_the_model() {
        for seed in 0..40 {
            let zeros = if seed % 3 == 0 { 0.4 } else { 0.0 };
            let strength = [1.0, 5.0, 1e4][seed as usize % 3];
            let graph = generate::random(
                &GraphShape {
                    variables: 6,
                    states: 3,
                    factors: 9,
                    arity: 1 + seed as usize % 3,
                    strength,
                    zeros,
                },
                seed,
            )
            .unwrap();
            let mut beliefs = uniform(&graph);
            let mut random = Streams::new(seed, "beliefs").block(0);
            beliefs.as_mut_slice().iter_mut().for_each(|p| *p = random.uniform());
            beliefs.normalise();
            let reaches = [
                Reach::Nothing,
                Reach::Variables,
                Reach::Forest,
                Reach::Width { width: 3, entries: 1e4 },
                Reach::Width { width: 9, entries: 1e9 },
            ];
            for reach in reaches {
                let split = split(&graph, reach, &beliefs, seed % 2 == 0, &|| false).unwrap();
                let mut state = vec![0; 6];
                loop {
                    let (want, found) =
                        (graph.score(&state), split.base.score(&state) + split.rest.score(&state));
                    assert!(want == found || (want - found).abs() <= 1e-10 * (1.0 + graph.magnitude()));
                    if !table::advance(&mut state, graph.cardinalities()) {
                        break;
                    }
                }
                if reach == (Reach::Width { width: 9, entries: 1e9 }) {
                    assert_eq!(split.rest.factor_count(), 0);
                }
            }
        }
    }

    #[test]
    fn the_width_is_kept_and_used() {
        let grid = generate::ising(Grid { rows: 10, columns: 10, torus: false }, 1.0, 1.0, false, 0).unwrap();
        let left = |width: usize| {
            let split =
                split(&grid, Reach::Width { width, entries: 1e6 }, &uniform(&grid), true, &|| false).unwrap();
            assert!(split.order.width <= width);
            split.rest.factor_count()
        };
        let forest = split(&grid, Reach::Forest, &uniform(&grid), true, &|| false).unwrap();
        assert_eq!((forest.rest.factor_count(), forest.order.width), (81, 1));
        assert!(left(2) < 81 && left(4) < left(2) && left(8) < left(4));
    }
}
