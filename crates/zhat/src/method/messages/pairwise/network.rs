//! Message passing on a graph of variables with many states, with all states or a chosen subset.
//!
//! With Bᵥ = nodeᵥ + Σ messages into v, the message through edge e = (i, j) is
//!
//!   m_{e→j}(y) = ln Σₓ exp(Bᵢ(x) − m_{e→i}(x) + interactionₑ(x, y)) − cₑ,
//!
//! with cₑ such that its largest entry is 0, and likewise m_{e→i}. At a fixed point
//!
//!   log Z_Bethe = Σᵥ (1 − leftᵥ)·ln Σₓ exp Bᵥ(x) + Σₑ cₑ,
//!
//! where leftᵥ is the number of edges with left end v. On a forest this equals log Z after one pass to the
//! roots and one back. On other graphs all messages are recomputed from the previous ones, with damping,
//! until they converge.
//!
//! Products use the matrices of `lattice::steps`: for all edges at once if they share a table, and tile by
//! tile if the table is a product of embeddings. Time O(E·N²) per sweep, memory O(E·N) plus the model.

use std::borrow::Cow;
use std::collections::VecDeque;

use crate::numeric::parallel::prelude::*;

use crate::error::Result;
use crate::method::dynamic::lattice::{Edges, Product, Steps, restricted_steps_of, steps_of};
use crate::method::dynamic::randomized::Chosen;
use crate::model::PairwiseGraph;
use crate::numeric::Real;
use crate::run::Clock;

/// Maximum number of edges whose products share a call.
const TOGETHER: usize = 64;

/// One end of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub edge: usize,
    /// True for the second variable of the edge, whose states are columns.
    pub right: bool,
}

/// A graph and the states in use.
pub(crate) struct Network<'a, F: Real> {
    pub edges: &'a [(usize, usize)],
    /// The log-scores of each variable's states.
    pub nodes: Vec<Cow<'a, [F]>>,
    pub steps: Box<dyn Steps<F> + 'a>,
    /// The interactions between the states in use.
    pub entries: Edges<'a, F>,
    /// The edges at each variable, as seen from that variable.
    ends: Vec<Vec<End>>,
    forest: bool,
}

/// Messages along all edges.
#[derive(Clone)]
pub(crate) struct Messages<F> {
    /// Messages to the right end of each edge; the largest entry is 0.
    right: Vec<Vec<F>>,
    /// Messages to the left end of each edge.
    left: Vec<Vec<F>>,
    /// cₑ of the messages to the right ends.
    constants: Vec<f64>,
}

/// The outcome of message passing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rest {
    pub sweeps: usize,
    /// The largest change of a message in the last sweep.
    pub change: f64,
}

/// A recomputed message, to one end of an edge.
struct Update<F> {
    to: End,
    message: Vec<F>,
    constant: f64,
}

impl<'a, F: Real> Network<'a, F> {
    /// Uses all states.
    pub fn new(graph: &'a PairwiseGraph<F>, clock: &Clock<'_>) -> Result<Self> {
        let nodes = (0..graph.variables()).map(|v| Cow::Borrowed(graph.node(v))).collect();
        let steps = steps_of(graph.interactions(), graph.states(), graph.edges().len(), clock)?;
        let entries = Edges { transitions: graph.interactions(), states: graph.states(), sets: None };
        let forest = graph.is_forest();
        Ok(Network { edges: graph.edges(), nodes, steps, entries, ends: ends(graph), forest })
    }

    /// Uses the states chosen for each variable; their log-weights are added to the scores.
    pub fn restricted(graph: &'a PairwiseGraph<F>, chosen: &'a [Chosen]) -> Self {
        let node = |(v, chosen): (usize, &Chosen)| {
            let scores = chosen.states.iter().zip(&chosen.log_weights);
            let node = graph.node(v);
            Cow::Owned(scores.map(|(&x, w)| F::from_f64(node[x as usize].to_f64() + w)).collect())
        };
        let set = |&(i, j): &(usize, usize)| (&*chosen[i].states, &*chosen[j].states);
        let sets: Vec<(&'a [u32], &'a [u32])> = graph.edges().iter().map(set).collect();
        let (transitions, states) = (graph.interactions(), graph.states());
        let steps = restricted_steps_of(transitions, states, sets.clone());
        let entries = Edges { transitions, states, sets: Some(sets) };
        let nodes = chosen.iter().enumerate().map(node).collect();
        Network { edges: graph.edges(), nodes, steps, entries, ends: ends(graph), forest: graph.is_forest() }
    }

    /// The variable at an end.
    pub fn variable(&self, end: End) -> usize {
        let (i, j) = self.edges[end.edge];
        if end.right { j } else { i }
    }

    /// The edges at a variable, as seen from that variable.
    pub fn ends(&self, v: usize) -> &[End] {
        &self.ends[v]
    }

    /// The variables in order of decreasing distance from the roots of a spanning forest.
    pub fn leaves_first(&self) -> Vec<usize> {
        let levels = self.levels();
        let mut found = vec![false; self.nodes.len()];
        let mut order = Vec::with_capacity(self.nodes.len());
        for end in levels.iter().rev().flatten() {
            let v = self.variable(*end);
            found[v] = true;
            order.push(v);
        }
        order.extend((0..self.nodes.len()).filter(|&v| !found[v]));
        order
    }

    /// Uninformative messages.
    pub fn silence(&self) -> Messages<F> {
        let of = |right: bool| {
            let size = |edge| self.nodes[self.variable(End { edge, right })].len();
            (0..self.edges.len()).map(|edge| vec![F::ZERO; size(edge)]).collect()
        };
        Messages { right: of(true), left: of(false), constants: vec![0.0; self.edges.len()] }
    }

    /// Bᵥ, without the message through one edge. It is computed by summation, not subtraction, because a
    /// message may be −∞.
    pub fn belief(&self, messages: &Messages<F>, v: usize, without: Option<usize>, row: &mut Vec<F>) {
        row.clear();
        row.extend_from_slice(&self.nodes[v]);
        for &end in self.ends[v].iter().filter(|end| Some(end.edge) != without) {
            F::add_to(row, messages.message(end));
        }
    }

    /// Passes messages until they converge; exact on a forest.
    pub fn settle(
        &self,
        damping: f64,
        tolerance: f64,
        most: usize,
        clock: &Clock<'_>,
    ) -> Result<(Messages<F>, Rest)> {
        let mut messages = self.silence();
        if self.forest {
            let levels = self.levels();
            // From the leaves to the roots, and back.
            let inward = levels.iter().rev().map(|level| level.iter().map(|&end| end.other()).collect());
            let outward = levels.iter().cloned();
            let levels: Vec<Vec<End>> = inward.chain(outward).collect();
            for (done, level) in levels.iter().enumerate() {
                clock.step("messages", done, levels.len())?;
                self.update(&mut messages, level, 0.0, clock)?;
            }
            return Ok((messages, Rest { sweeps: 1, change: 0.0 }));
        }
        let edges = 0..self.edges.len();
        let all: Vec<End> = edges.flat_map(|edge| [true, false].map(|right| End { edge, right })).collect();
        let mut rest = Rest { sweeps: 0, change: f64::INFINITY };
        while rest.sweeps < most && rest.change > tolerance {
            clock.step("sweeps", rest.sweeps, most)?;
            let damping = if rest.sweeps == 0 { 0.0 } else { damping };
            rest.change = self.update(&mut messages, &all, damping, clock)?;
            rest.sweeps += 1;
        }
        Ok((messages, rest))
    }

    /// The ends of edges that point away from the roots, level by level.
    fn levels(&self) -> Vec<Vec<End>> {
        let mut levels: Vec<Vec<End>> = Vec::new();
        let mut depth = vec![usize::MAX; self.nodes.len()];
        for root in 0..self.nodes.len() {
            if depth[root] < usize::MAX {
                continue;
            }
            depth[root] = 0;
            let mut queue = VecDeque::from([root]);
            while let Some(v) = queue.pop_front() {
                for &near in &self.ends[v] {
                    let (far, level) = (near.other(), depth[v]);
                    let u = self.variable(far);
                    if depth[u] == usize::MAX {
                        depth[u] = level + 1;
                        queue.push_back(u);
                        if levels.len() <= level {
                            levels.resize(level + 1, Vec::new());
                        }
                        levels[level].push(far);
                    }
                }
            }
        }
        levels
    }

    /// Recomputes messages, all from the old ones. Returns the largest change.
    fn update(&self, messages: &mut Messages<F>, to: &[End], damping: f64, clock: &Clock<'_>) -> Result<f64> {
        let updates: Vec<Vec<Update<F>>> = if self.steps.shared() {
            to.chunks(TOGETHER).map(|to| self.products(messages, to, clock)).collect::<Result<_>>()?
        } else {
            to.par_iter().map(|&end| self.products(messages, &[end], clock)).collect::<Result<_>>()?
        };
        let mut change = 0.0f64;
        for Update { to, mut message, constant } in updates.into_iter().flatten() {
            // Only the constant of the message to the right end is used.
            if to.right {
                messages.constants[to.edge] = constant;
            }
            let old = messages.message_mut(to);
            for (new, &old) in message.iter_mut().zip(old.iter()) {
                let (a, b) = (new.to_f64(), old.to_f64());
                if a.is_finite() && b.is_finite() {
                    change = change.max((a - b).abs());
                    *new = F::from_f64((1.0 - damping) * a + damping * b);
                } else if a != b {
                    change = f64::INFINITY;
                }
            }
            *old = message;
        }
        Ok(change)
    }

    /// The messages to some ends, whose edges must have the same table.
    fn products(&self, messages: &Messages<F>, to: &[End], clock: &Clock<'_>) -> Result<Vec<Update<F>>> {
        clock.check()?;
        let mut updates = Vec::with_capacity(to.len());
        for right in [true, false] {
            let to: Vec<End> = to.iter().copied().filter(|end| end.right == right).collect();
            let Some(&first) = to.first() else { continue };
            let (t, count) = (first.edge, to.len());
            let (rows, columns) = self.steps.shape(t);
            let (before, after) = if right { (rows, columns) } else { (columns, rows) };
            let (mut logs, mut scales) = (Vec::with_capacity(count * before), Vec::with_capacity(count));
            let mut row = Vec::new();
            for end in &to {
                let from = end.other();
                self.belief(messages, self.variable(from), Some(end.edge), &mut row);
                F::add_to(&mut row, self.shifts(from));
                scales.push(lower(&mut row));
                logs.extend_from_slice(&row);
            }
            let (mut input, mut output) = (logs.clone(), vec![F::ZERO; count * after]);
            F::exp_in_place(&mut input);
            let product = Product { t, count, input: &input, output: &mut output };
            if right {
                self.steps.multiply(Some(product), None);
            } else {
                self.steps.multiply(None, Some(product));
            }
            for (k, &end) in to.iter().enumerate() {
                let mut message = output[k * after..(k + 1) * after].to_vec();
                self.logarithms(end, &logs[k * before..(k + 1) * before], &mut message, clock)?;
                F::add_to(&mut message, self.shifts(end));
                let constant = scales[k] + lower(&mut message);
                updates.push(Update { to: end, message, constant });
            }
        }
        Ok(updates)
    }

    /// The part of the log-interaction that depends only on the state at an end.
    fn shifts(&self, end: End) -> &[F] {
        if end.right { self.steps.column_shifts(end.edge) } else { self.steps.row_shifts(end.edge) }
    }

    /// Takes the logarithms of a product. Entries that may have suffered from underflow are recomputed.
    fn logarithms(&self, to: End, logs: &[F], product: &mut [F], clock: &Clock<'_>) -> Result<()> {
        let lost = 4.0 * logs.len() as f64 * F::TINY.to_f64() / F::EPSILON.to_f64();
        let threshold = F::from_f64(lost);
        let doubtful: Vec<usize> = if F::least(product) < threshold {
            (0..product.len()).filter(|&k| product[k] < threshold).collect()
        } else {
            Vec::new()
        };
        F::ln_in_place(product);
        let mut terms = vec![F::ZERO; if doubtful.is_empty() { 0 } else { logs.len() }];
        for k in doubtful {
            clock.check()?;
            if to.right {
                self.steps.log_column(to.edge, k, &mut terms);
            } else {
                self.steps.log_row(to.edge, k, &mut terms);
            }
            F::add_to(&mut terms, logs);
            product[k] = F::from_f64(F::log_sum_exp(&terms));
        }
        Ok(())
    }

    /// ln Σₓ exp Bᵥ(x) for each variable.
    pub fn totals(&self, messages: &Messages<F>) -> Vec<f64> {
        let total = |row: &mut Vec<F>, v: usize| {
            self.belief(messages, v, None, row);
            F::log_sum_exp(row)
        };
        (0..self.nodes.len()).into_par_iter().map_init(Vec::new, total).collect()
    }

    /// log Z_Bethe; −∞ if some variable has no state left.
    pub fn log_partition(&self, messages: &Messages<F>) -> f64 {
        let totals = self.totals(messages);
        if totals.contains(&f64::NEG_INFINITY) {
            return f64::NEG_INFINITY;
        }
        let mut value: f64 = totals.iter().sum();
        for (e, &(i, _)) in self.edges.iter().enumerate() {
            value += messages.constants[e] - totals[i];
        }
        value
    }

    /// The terms added to ln Mₑ from the left and the right in the marginals of an edge: Bᵢ and Bⱼ, both
    /// without e, with the shifts; the largest entry is 0.
    pub fn sides(&self, messages: &Messages<F>, edge: usize) -> [Vec<F>; 2] {
        [false, true].map(|right| {
            let end = End { edge, right };
            let mut row = Vec::new();
            self.belief(messages, self.variable(end), Some(edge), &mut row);
            F::add_to(&mut row, self.shifts(end));
            lower(&mut row);
            row
        })
    }
}

impl End {
    pub fn other(self) -> Self {
        End { right: !self.right, ..self }
    }
}

impl<F> Messages<F> {
    /// The message to an end.
    fn message(&self, end: End) -> &[F] {
        if end.right { &self.right[end.edge] } else { &self.left[end.edge] }
    }

    fn message_mut(&mut self, end: End) -> &mut Vec<F> {
        if end.right { &mut self.right[end.edge] } else { &mut self.left[end.edge] }
    }
}

/// Subtracts the maximum if it is finite, and returns it.
fn lower<F: Real>(row: &mut [F]) -> f64 {
    let shift = F::max(row);
    if shift == F::NEG_INFINITY {
        return 0.0;
    }
    F::lower(row, shift);
    shift.to_f64()
}

/// The edges at each variable.
pub(super) fn ends<F: Real>(graph: &PairwiseGraph<F>) -> Vec<Vec<End>> {
    let mut ends = vec![Vec::new(); graph.variables()];
    for (edge, &(i, j)) in graph.edges().iter().enumerate() {
        ends[i].push(End { edge, right: false });
        ends[j].push(End { edge, right: true });
    }
    ends
}
