//! Samples from the base, and the residual score of each.

use super::base::Split;
use super::weights::{Draw, WeightBounds};
use crate::error::Result;
use crate::method::exact::prepare::Order;
use crate::method::exact::{Ancestral, marginals_along};
use crate::model::FactorGraph;
use crate::query::{Beliefs, Query};
use crate::random::Stream;
use crate::run::Clock;

/// A base prepared for sampling, and the rest.
pub(super) struct Source {
    pub split: Split,
    sampler: Ancestral,
    /// ln of the partition function of the base.
    pub log_normaliser: f64,
    tables: Vec<Table>,
    places: Vec<(u32, u32)>,
    values: Vec<f64>,
    /// The number of tables, listed first, that forbid nothing.
    soft: usize,
    pub known: WeightBounds,
}

struct Table {
    start: u32,
    end: u32,
    values: usize,
}

impl Source {
    /// Eliminates the base; `None` if it has no state of positive weight.
    pub fn new(split: Split, clock: &Clock<'_>) -> Result<Option<Self>> {
        let (sampler, log_normaliser) = Ancestral::new(&split.base, split.order.clone(), clock)?;
        if log_normaliser == f64::NEG_INFINITY {
            return Ok(None);
        }
        let rest = &split.rest;
        let forbids = |f: &usize| rest.factor(*f).log_values.contains(&f64::NEG_INFINITY);
        let (hard, soft): (Vec<usize>, Vec<usize>) = (0..rest.factor_count()).partition(forbids);
        let mut source = Source {
            sampler,
            log_normaliser,
            tables: Vec::new(),
            places: Vec::new(),
            values: Vec::new(),
            soft: soft.len(),
            known: WeightBounds { hard: !hard.is_empty(), ..WeightBounds::default() },
            split,
        };
        let rest = &source.split.rest;
        for &f in soft.iter().chain(&hard) {
            let factor = rest.factor(f);
            let strides = crate::model::table::strides(&rest.lengths(factor.scope));
            let start = source.places.len() as u32;
            source
                .places
                .extend(factor.scope.iter().zip(strides).map(|(&v, stride)| (v as u32, stride as u32)));
            source.tables.push(Table { start, end: source.places.len() as u32, values: source.values.len() });
            source.values.extend_from_slice(factor.log_values);
            let finite = factor.log_values.iter().copied().filter(|x| x.is_finite());
            let (low, high) =
                finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), x| (x.min(l), x.max(h)));
            source.known.low += low;
            source.known.high += high;
            if source.tables.len() <= source.soft {
                source.known.soft.0 += low;
                source.known.soft.1 += high;
            }
        }
        Ok(Some(source))
    }

    /// The number of tables in the rest.
    pub fn left(&self) -> usize {
        self.tables.len()
    }

    /// Draws a state from the base.
    #[inline]
    pub fn draw(&self, random: &mut Stream, state: &mut [usize]) -> Draw {
        self.sampler.draw(random, state);
        let read = |table: &Table| {
            let places = &self.places[table.start as usize..table.end as usize];
            let at =
                places.iter().fold(table.values, |at, &(v, stride)| at + state[v as usize] * stride as usize);
            self.values[at]
        };
        let h: f64 = self.tables[..self.soft].iter().map(read).sum();
        let hard: f64 = self.tables[self.soft..].iter().map(read).sum();
        Draw { r: h + hard, h }
    }

    /// ln of the probability of a state under the base.
    pub fn log_density(&self, state: &[usize]) -> f64 {
        self.split.base.score(state) - self.log_normaliser
    }

    /// The marginals of the base.
    pub fn beliefs(&self, clock: &Clock<'_>) -> Result<Beliefs> {
        let Split { base, order, .. } = &self.split;
        Ok(marginals_along(base, order.clone(), Query::Marginals, clock)?.0)
    }

    /// E\[h\] under the base. One elimination serves as many tables at once as increase the width of the base
    /// only a little. `None` if it would need more than `budget` entries.
    pub fn first_order(&self, budget: f64, clock: &Clock<'_>) -> Result<Option<f64>> {
        let rest = &self.split.rest;
        let soft = (0..rest.factor_count())
            .filter(|&f| !rest.factor(f).log_values.contains(&f64::NEG_INFINITY))
            .collect::<Vec<_>>();
        let mut work = FirstOrder { split: &self.split, budget, total: 0.0 };
        Ok(work.add(&soft, clock)?.then_some(work.total))
    }
}

struct FirstOrder<'s> {
    split: &'s Split,
    budget: f64,
    total: f64,
}

impl FirstOrder<'_> {
    /// Adds the expectations of these tables; false if the budget is exceeded.
    fn add(&mut self, tables: &[usize], clock: &Clock<'_>) -> Result<bool> {
        if tables.is_empty() {
            return Ok(true);
        }
        let Split { base, order, rest } = self.split;
        let mut joint: FactorGraph = base.clone();
        for &f in tables {
            let factor = rest.factor(f);
            joint.add_factor(factor.scope, &vec![0.0; factor.log_values.len()])?;
        }
        self.budget -= (base.variable_count() + base.factor_count()) as f64;
        let Ok(wider) = Order::greedy(&joint) else { return Ok(false) };
        // A single table may be as expensive as it is. Several tables share an elimination only if they widen
        // the base little.
        let little = wider.entries <= 4.0 * order.entries + 4096.0;
        if !little && tables.len() > 1 {
            let (first, second) = tables.split_at(tables.len() / 2);
            return Ok(self.budget > 0.0 && self.add(first, clock)? && self.add(second, clock)?);
        }
        self.budget -= 4.0 * wider.entries;
        if self.budget < 0.0 {
            return Ok(false);
        }
        let (_, beliefs) = marginals_along(&joint, wider, Query::FactorMarginals, clock)?;
        let first = base.factor_count();
        for (i, &f) in tables.iter().enumerate() {
            let terms = beliefs.factor(first + i).iter().zip(rest.factor(f).log_values);
            self.total += terms.map(|(p, r)| p * r).sum::<f64>();
        }
        Ok(true)
    }
}
