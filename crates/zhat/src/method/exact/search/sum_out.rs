//! Elimination of variables that can be summed out at no cost.
//!
//! A variable is summed out if the product of its factors, summed over it, has no more entries than the
//! largest of these factors. Examples are a variable that is a function of others and occurs nowhere else, a
//! link of a chain, and an unobserved leaf of a network. Z is unchanged.

use std::collections::{BTreeSet, VecDeque};

use super::constraints::Constraints;
use super::propagate::Propagator;
use super::weights::without;
use crate::error::Result;
use crate::method::exact::prepare::Reduced;
use crate::model::{FactorGraph, table};
use crate::numeric;

/// Products with more entries are not tried.
const LARGEST: usize = 1 << 12;

struct Table {
    scope: Vec<usize>,
    values: Vec<f64>,
}

/// A graph whose log Z plus the returned constant is log Z of `graph`; an error if Z = 0.
pub(super) fn summed_out(graph: &FactorGraph) -> Result<(FactorGraph, f64)> {
    let mut propagator = Propagator::new(Constraints::new(graph));
    if !propagator.probe() {
        return Err(graph.zero_error());
    }
    let mut given = graph.clone();
    for (v, &states) in graph.cardinalities().iter().enumerate() {
        let mut values = vec![f64::NEG_INFINITY; states];
        propagator.live(v).for_each(|s| values[s] = 0.0);
        if values.contains(&f64::NEG_INFINITY) {
            given.add_factor(&[v], &values)?;
        }
    }
    let reduced = Reduced::new(&given)?;
    let (smaller, constant) = eliminated(&reduced.graph)?;
    Ok((smaller, constant + reduced.constant))
}

/// Performs the eliminations, without removing impossible states first.
fn eliminated(graph: &FactorGraph) -> Result<(FactorGraph, f64)> {
    let states = graph.cardinalities();
    let mut tables: Vec<Option<Table>> = graph
        .factors()
        .map(|factor| Some(Table { scope: factor.scope.to_vec(), values: factor.log_values.to_vec() }))
        .collect();
    let mut touching: Vec<Vec<usize>> = vec![Vec::new(); states.len()];
    for (f, factor) in graph.factors().enumerate() {
        factor.scope.iter().for_each(|&v| touching[v].push(f));
    }
    let mut gone = vec![false; states.len()];
    let mut constant = 0.0;
    let mut order: Vec<usize> = (0..states.len()).collect();
    order.sort_by_key(|&v| touching[v].len());
    let mut waiting = VecDeque::from(order);
    let mut is_waiting = vec![true; states.len()];
    while let Some(v) = waiting.pop_front() {
        is_waiting[v] = false;
        let own: Vec<&Table> = touching[v].iter().filter_map(|&f| tables[f].as_ref()).collect();
        let Some(sum) = sum_out(v, &own, states) else { continue };
        gone[v] = true;
        let mut neighbours: BTreeSet<usize> =
            own.iter().flat_map(|table| table.scope.iter().copied()).collect();
        neighbours.remove(&v);
        for f in std::mem::take(&mut touching[v]) {
            tables[f] = None;
        }
        if sum.scope.is_empty() {
            constant += sum.values[0];
        } else {
            sum.scope.iter().for_each(|&u| touching[u].push(tables.len()));
            tables.push(Some(sum));
        }
        for u in neighbours {
            touching[u].retain(|&f| tables[f].is_some());
            if !is_waiting[u] {
                is_waiting[u] = true;
                waiting.push_back(u);
            }
        }
    }
    let mut number = vec![0; states.len()];
    let left: Vec<usize> = (0..states.len()).filter(|&v| !gone[v]).collect();
    left.iter().enumerate().for_each(|(i, &v)| number[v] = i);
    let mut smaller = FactorGraph::new(left.iter().map(|&v| states[v]).collect())?;
    for table in tables.into_iter().flatten() {
        let scope: Vec<usize> = table.scope.iter().map(|&v| number[v]).collect();
        smaller.add_factor(&scope, &table.values)?;
    }
    Ok((smaller, constant))
}

/// The product of the tables of `v` summed over `v`, if it is no larger than the largest of them.
fn sum_out(v: usize, own: &[&Table], states: &[usize]) -> Option<Table> {
    let mut scope: Vec<usize> = own.iter().flat_map(|table| table.scope.iter().copied()).collect();
    scope.sort_unstable();
    scope.dedup();
    scope.retain(|&u| u != v);
    let lengths: Vec<usize> = scope.iter().map(|&u| states[u]).collect();
    let size = table::size(lengths.iter().copied())?;
    if size.checked_mul(states[v])? > LARGEST {
        return None;
    }
    let strides: Vec<(usize, Vec<usize>)> = own
        .iter()
        .map(|table| {
            let strides = table::strides(&table.scope.iter().map(|&u| states[u]).collect::<Vec<_>>());
            let of = |u| table.scope.iter().position(|&w| w == u).map_or(0, |axis| strides[axis]);
            (of(v), scope.iter().map(|&u| of(u)).collect())
        })
        .collect();
    let mut digits = vec![0; scope.len()];
    let mut terms = vec![0.0; states[v]];
    let mut values = Vec::with_capacity(size);
    for _ in 0..size {
        terms.iter_mut().for_each(|term| *term = 0.0);
        for (table, (own_stride, strides)) in own.iter().zip(&strides) {
            let start: usize = digits.iter().zip(strides).map(|(digit, stride)| digit * stride).sum();
            terms.iter_mut().enumerate().for_each(|(s, term)| *term += table.values[start + s * own_stride]);
        }
        values.push(numeric::log_sum_exp(&terms));
        table::advance(&mut digits, &lengths);
    }
    // Sums that should be equal can differ by rounding.
    if let Some(&first) = values.first() {
        let crumb = 4.0 * f64::EPSILON * (1.0 + first.abs());
        if values.iter().all(|x| (x - first).abs() <= crumb) {
            return Some(Table { scope: Vec::new(), values: vec![first] });
        }
    }
    let mut axis = 0;
    while axis < scope.len() {
        let inner: usize = scope[axis + 1..].iter().map(|&u| states[u]).product();
        match without(&values, states[scope[axis]], inner).filter(|_| !values.contains(&f64::NEG_INFINITY)) {
            Some(smaller) => {
                values = smaller;
                scope.remove(axis);
            }
            None => axis += 1,
        }
    }
    let largest = own.iter().map(|table| table.values.len()).max().unwrap_or(1);
    (values.len() <= largest).then_some(Table { scope, values })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::method::exact::Enumeration;
    use crate::model::generate::{self, GraphShape};
    use crate::{LogPartition, Run};

    #[test]
    fn z_stays_and_trees_vanish() {
        let run = Run::default();
        let value = |graph: &FactorGraph| Enumeration::default().log_partition(graph, &run).unwrap().value;
        for seed in 0..60 {
            let graph = match seed % 3 {
                0 => generate::random(
                    &GraphShape { variables: 10, factors: 14, arity: 3, zeros: 0.1, ..Default::default() },
                    seed,
                )
                .unwrap(),
                1 => generate::bayes(10, 3, 2, 0.5, seed).unwrap(),
                _ => generate::tree(10, 3, 1.0, seed).unwrap(),
            };
            let (smaller, constant) = summed_out(&graph).unwrap();
            assert!(seed % 3 == 0 || smaller.variable_count() == 0);
            let want = value(&graph);
            assert!((constant + value(&smaller) - want).abs() < 1e-12 * (1.0 + want.abs()));
        }
    }
}
