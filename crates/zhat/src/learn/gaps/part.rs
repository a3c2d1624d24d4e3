//! A connected set of missing cells: the sum over their states for given states of their neighbours.

use crate::error::Result;
use crate::method::exact::inference_along;
use crate::method::exact::prepare::{Order, order_within};
use crate::model::{FactorGraph, table};
use crate::numeric;
use crate::run::Clock;

/// Sets with at most this many joint states are summed by enumeration; elimination has a higher fixed cost.
const SMALL: usize = 1 << 10;

/// A connected set of missing variables, and the factors that contain at least one of them.
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// The numbers of states of the missing variables.
    lengths: Vec<usize>,
    /// The number of their joint states, if enumeration is faster than elimination.
    joint: Option<usize>,
    /// For each factor, its missing variables as indices in `lengths`, with their strides in its table.
    factors: Vec<Vec<(usize, usize)>>,
    /// The elimination order, if it is not summed by enumeration.
    order: Option<Order>,
}

/// Working memory of [`Part::sum`].
#[derive(Clone, Debug, Default)]
pub(super) struct Scratch {
    scores: Vec<f64>,
    digits: Vec<usize>,
    /// For the entry of each factor and joint state: its distance from the base of the factor.
    entries: Vec<usize>,
    /// The part for which `entries` was computed.
    owner: Option<usize>,
}

impl Part {
    /// `factors` are those with at least one variable of `missing`, which has to contain all of their missing
    /// variables.
    pub fn new(graph: &FactorGraph, missing: &[usize], factors: &[usize], clock: &Clock<'_>) -> Result<Self> {
        let lengths = graph.lengths(missing);
        let axes = |&f: &usize| {
            let scope = graph.factor(f).scope;
            let strides = table::strides(&graph.lengths(scope));
            let axis = |(v, stride): (&usize, usize)| Some((missing.binary_search(v).ok()?, stride));
            scope.iter().zip(strides).filter_map(axis).collect()
        };
        let mut part = Part {
            joint: table::size(lengths.iter().copied()).filter(|&size| size <= SMALL),
            factors: factors.iter().map(axes).collect(),
            lengths,
            order: None,
        };
        if part.joint.is_none() {
            let zeros = part.graph(|_, _| 0.0)?;
            let order = order_within(&zeros, None, &|| clock.must_stop());
            clock.check()?;
            let what = "the sum over the missing values of a row";
            let order = order.map_err(|log2_entries| clock.over_memory(what, 8.0 * log2_entries.exp2()))?;
            part.order = Some(order);
            clock.require_memory(what, part.working_bytes())?;
        }
        Ok(part)
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> f64 {
        let axes: usize = self.factors.iter().map(Vec::len).sum();
        let order = self.order.as_ref().map_or(0, |order| order.neighbours.iter().map(Vec::len).sum());
        64.0 + 8.0 * self.lengths.len() as f64
            + 24.0 * self.factors.len() as f64
            + 16.0 * (axes + order) as f64
    }

    /// Working memory for one sum, in bytes.
    pub fn working_bytes(&self) -> f64 {
        let entries = self.order.as_ref().map_or(0.0, |order| order.entries);
        24.0 * entries + 8.0 * (self.joint.unwrap_or(0) * (1 + self.factors.len())) as f64
    }

    /// A measure of the time of one sum.
    pub fn work(&self) -> f64 {
        let entries = self.order.as_ref().map_or(0.0, |order| 8.0 * order.entries);
        entries + 64.0 + (self.joint.unwrap_or(0) * (1 + self.factors.len())) as f64
    }

    /// The graph over the missing variables with these log-values, by factor and entry.
    fn graph(&self, value: impl Fn(usize, usize) -> f64) -> Result<FactorGraph> {
        let mut graph = FactorGraph::new(self.lengths.clone())?;
        for (f, axes) in self.factors.iter().enumerate() {
            let scope: Vec<usize> = axes.iter().map(|&(axis, _)| axis).collect();
            let places = self.places(axes);
            let values: Vec<f64> = places.into_iter().map(|place| value(f, place)).collect();
            graph.add_factor(&scope, &values)?;
        }
        Ok(graph)
    }

    /// The distances of the entries of a factor from its base, row-major over its missing variables.
    fn places(&self, axes: &[(usize, usize)]) -> Vec<usize> {
        let steps = |&(axis, stride): &(usize, usize)| (0..self.lengths[axis]).map(|s| s * stride).collect();
        table::sums(0, axes.iter().map(steps))
    }

    /// log Σ over the states of the missing variables of the exponential of the sum of all factors, where factor f
    /// has its entries at `values[bases[f]..]`. `each` is called with the place and the probability of every
    /// entry, possibly in several parts. `number` identifies this part.
    pub fn sum(
        &self,
        number: usize,
        values: &[f64],
        bases: &[usize],
        scratch: &mut Scratch,
        clock: &Clock<'_>,
        each: &mut impl FnMut(usize, f64),
    ) -> Result<f64> {
        match &self.order {
            Some(order) => {
                let graph = self.graph(|f, place| values[bases[f] + place])?;
                let (log_z, beliefs) = inference_along(&graph, order.clone(), clock)?;
                if log_z > f64::NEG_INFINITY {
                    for ((f, axes), belief) in self.factors.iter().enumerate().zip(beliefs.iter()) {
                        self.places(axes)
                            .iter()
                            .zip(belief)
                            .for_each(|(place, &p)| each(bases[f] + place, p));
                    }
                }
                Ok(log_z)
            }
            None => Ok(self.enumerate(number, values, bases, scratch, each)),
        }
    }

    fn enumerate(
        &self,
        number: usize,
        values: &[f64],
        bases: &[usize],
        scratch: &mut Scratch,
        each: &mut impl FnMut(usize, f64),
    ) -> f64 {
        let joint = self.joint.unwrap_or(1);
        if scratch.owner != Some(number) {
            scratch.owner = Some(number);
            self.tabulate(joint, scratch);
        }
        let Scratch { scores, entries, .. } = scratch;
        scores.clear();
        scores.resize(joint, 0.0);
        for (entries, &base) in entries.chunks_exact(joint).zip(bases) {
            let own = &values[base..];
            scores.iter_mut().zip(entries).for_each(|(score, &entry)| *score += own[entry]);
        }
        let log_z = numeric::log_sum_exp(scores);
        if log_z == f64::NEG_INFINITY {
            return log_z;
        }
        scores.iter_mut().for_each(|score| *score -= log_z);
        numeric::exp_in_place(scores);
        for (entries, &base) in entries.chunks_exact(joint).zip(bases) {
            scores.iter().zip(entries).for_each(|(&p, &entry)| each(base + entry, p));
        }
        log_z
    }

    /// Computes the entries of every factor for all joint states.
    fn tabulate(&self, joint: usize, scratch: &mut Scratch) {
        let Scratch { digits, entries, .. } = scratch;
        entries.clear();
        for axes in &self.factors {
            digits.clear();
            digits.resize(self.lengths.len(), 0);
            for _ in 0..joint {
                entries.push(axes.iter().map(|&(axis, stride)| digits[axis] * stride).sum());
                table::advance(digits, &self.lengths);
            }
        }
    }
}
