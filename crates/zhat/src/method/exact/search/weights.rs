//! Normal forms of the factors, restricted to the live states of their variables.
//!
//! A factor restricted to the live states of its variables is brought into a normal form. Axes along which it
//! is constant are removed (zeros are ignored here, because the clauses forbid them), and the largest entry
//! is factored out as a constant. Equal forms have equal indices, so an index contains all information about
//! the factor that the rest of the search can depend on.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::cache;
use super::propagate::Propagator;
use crate::model::{FactorGraph, table};
use crate::numeric;

/// Fast hashing; the keys are compared in full.
#[derive(Clone, Copy, Debug, Default)]
struct Mixer(u64);
type Mix = BuildHasherDefault<Mixer>;

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = self.0.rotate_left(5) ^ cache::hash(bytes);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Larger tables are identified by their factor and live states only.
const LARGE: usize = 1 << 12;

/// The normal form of a factor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    /// Log of the constant that was factored out; −∞ if no live entry is left.
    pub log: f64,
    /// The index of the table; 0 if it is a constant.
    pub table: u32,
    /// Positions of the variables of the table, and of its values if it has one variable.
    scope: (u32, u32),
    values: u32,
}

pub(super) struct Weights<'a> {
    graph: &'a FactorGraph,
    /// The factors with non-constant weights.
    factors: Vec<usize>,
    /// For each variable, the places in `factors` of the factors that contain it.
    pub touching: Vec<Vec<u32>>,
    /// Indices of forms, by factor and live states.
    known: HashMap<Box<[u64]>, u32, Mix>,
    pub forms: Vec<Form>,
    /// Indices of tables, by content.
    tables: HashMap<Box<[u64]>, u32, Mix>,
    scopes: Vec<u32>,
    values: Vec<f64>,
    key: Vec<u64>,
    bytes: usize,
    pub steps: u64,
}

impl<'a> Weights<'a> {
    pub fn new(graph: &'a FactorGraph, factors: Vec<usize>) -> Self {
        let mut touching = vec![Vec::new(); graph.variable_count()];
        for (place, &f) in factors.iter().enumerate() {
            graph.factor(f).scope.iter().for_each(|&v| touching[v].push(place as u32));
        }
        let bytes = 48 * factors.len() + 40 * touching.len();
        Weights {
            graph,
            factors,
            touching,
            known: HashMap::default(),
            forms: Vec::new(),
            tables: HashMap::default(),
            scopes: Vec::new(),
            values: Vec::new(),
            key: Vec::new(),
            bytes,
            steps: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.factors.len()
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The variables that the form of a factor depends on.
    pub fn scope(&self, form: u32) -> &[u32] {
        let (start, length) = self.forms[form as usize].scope;
        &self.scopes[start as usize..(start + length) as usize]
    }

    /// The log-values of a form over one variable, by live state.
    pub fn values(&self, form: u32, states: usize) -> &[f64] {
        let start = self.forms[form as usize].values as usize;
        &self.values[start..start + states]
    }

    /// The index of the current form of the factor at `place`.
    pub fn form(&mut self, place: usize, propagator: &Propagator) -> u32 {
        self.key.clear();
        self.key.push(place as u64);
        let (mut word, mut bits) = (0u64, 0);
        for &v in self.graph.factor(self.factors[place]).scope {
            for s in 0..propagator.variables.states(v) {
                word |= u64::from(!propagator.is_false(propagator.variables.is(v, s))) << bits;
                bits += 1;
                if bits == 64 {
                    self.key.push(word);
                    (word, bits) = (0, 0);
                }
            }
        }
        self.key.push(word);
        self.steps += 2 + bits;
        if let Some(&form) = self.known.get(self.key.as_slice()) {
            return form;
        }
        let form = self.make(place, propagator);
        self.steps += 100 + self.graph.factor(self.factors[place]).log_values.len() as u64;
        self.forms.push(form);
        let number = self.forms.len() as u32 - 1;
        self.known.insert(self.key.as_slice().into(), number);
        // Three times the stored size, because lists reserve room for growth.
        self.bytes += 3 * (32 + 24 + 8) + 8 * self.key.len() + 16;
        number
    }

    fn make(&mut self, place: usize, propagator: &Propagator) -> Form {
        let factor = self.graph.factor(self.factors[place]);
        let live: Vec<Vec<usize>> = factor.scope.iter().map(|&v| propagator.live(v).collect()).collect();
        let keep: Vec<&[usize]> = live.iter().map(Vec::as_slice).collect();
        let mut values = table::select(factor.log_values, &self.graph.lengths(factor.scope), &keep);
        let mut axes: Vec<usize> = (0..live.len()).collect();
        let mut axis = 0;
        while axis < axes.len() {
            let length = live[axes[axis]].len();
            if length > 1 && values.len() > LARGE {
                axis += 1;
                continue;
            }
            let inner: usize = axes[axis + 1..].iter().map(|&other| live[other].len()).product();
            match without(&values, length, inner) {
                Some(smaller) => {
                    values = smaller;
                    axes.remove(axis);
                }
                None => axis += 1,
            }
        }
        let log = numeric::max(&values);
        if axes.is_empty() || log == f64::NEG_INFINITY {
            return Form { log, table: 0, scope: (0, 0), values: 0 };
        }
        values.iter_mut().for_each(|x| *x -= log);
        let mut content: Vec<u64> = Vec::new();
        for &axis in &axes {
            content.push(factor.scope[axis] as u64);
            content.push(live[axis].len() as u64);
            content.extend(live[axis].iter().map(|&s| s as u64));
        }
        if values.len() > LARGE {
            content.insert(0, u64::MAX);
            content.extend_from_slice(&self.key);
        } else {
            content.extend(values.iter().map(|x| x.to_bits()));
        }
        let next = self.tables.len() as u32 + 1;
        self.bytes += 8 * content.len();
        let table = *self.tables.entry(content.into_boxed_slice()).or_insert(next);
        let scope = (self.scopes.len() as u32, axes.len() as u32);
        self.scopes.extend(axes.iter().map(|&axis| factor.scope[axis] as u32));
        let start = self.values.len() as u32;
        if axes.len() == 1 {
            self.values.extend_from_slice(&values);
            self.bytes += 24 * values.len();
        }
        self.bytes += 12 * axes.len() + 3 * 40;
        Form { log, table, scope, values: start }
    }
}

/// The table without an axis, if its non-zero entries do not depend on it.
pub(super) fn without(values: &[f64], length: usize, inner: usize) -> Option<Vec<f64>> {
    let mut smaller = Vec::with_capacity(values.len() / length.max(1));
    for slab in values.chunks_exact(length * inner) {
        for i in 0..inner {
            let mut common = f64::NEG_INFINITY;
            for x in (0..length).map(|s| slab[s * inner + i]).filter(|x| *x > f64::NEG_INFINITY) {
                if common > f64::NEG_INFINITY && common != x {
                    return None;
                }
                common = x;
            }
            smaller.push(common);
        }
    }
    Some(smaller)
}
