//! The distribution q and its coordinate ascent: each cluster in turn is optimised given the others.
//!
//! With fields η_s = `base` + Σ_f E_q\[θ_f | slot s\] from the crossing factors, the optimal q of a cluster
//! is the tree distribution ∝ exp Σ_s η_s(x_s). In the upward pass, starting at the leaves, each hyperedge
//! sends the message m(p) = log Σ exp over its children to its parent and keeps the conditional K(children |
//! p). In the downward pass, q of a hyperedge is q(p) K. Messages are in the log domain, relative to their
//! maximum.
//!
//! q is **defined** by its computed conditionals, including their rounding errors, so the bound always
//! belongs to an actual distribution. Conditionals below 10⁻²⁵ are set to 0: they would gain nothing, but
//! would prevent other clusters from using states that are incompatible with them. A probability is 0 if and
//! only if the state is impossible under q.

use crate::numeric::parallel::prelude::*;

use super::layout::{Cluster, Edge, Group, Layout};
use crate::numeric::{self, CompensatedSum};

/// Minimum number of entries updated per task.
const CHUNK: usize = 1 << 13;
/// Conditional probabilities below this are set to 0.
const LEAST: f64 = 1e-25;
/// Lower limit of non-zero products, which prevents underflow to 0.
const TINY: f64 = 1e-290;
const ZERO: f64 = f64::NEG_INFINITY;

/// Treatment of zeros of the model in the fields.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Zeros {
    /// −∞: q stays on states of positive weight.
    Hard,
    /// Minus this penalty.
    Soft(f64),
}

/// q, stored by slot.
pub(super) struct Ascent<'l> {
    pub layout: &'l Layout<'l>,
    pub q: Vec<f64>,
    fresh: Vec<f64>,
    /// Factor of the fields; values below 1 flatten q.
    pub inverse_temperature: f64,
    /// For each colour, the ends of its chunks, in clusters.
    chunks: Vec<Vec<usize>>,
}

impl<'l> Ascent<'l> {
    /// q is all zero and must be set.
    pub fn new(layout: &'l Layout<'l>) -> Self {
        let chunks = layout
            .colours
            .iter()
            .map(|colour| {
                let (mut ends, mut size) = (Vec::new(), 0);
                for c in colour.clone() {
                    size += layout.clusters[c].entries.len() + layout.clusters[c].crossings.len();
                    if size >= CHUNK || c + 1 == colour.end {
                        ends.push(c + 1);
                        size = 0;
                    }
                }
                ends
            })
            .collect();
        let len = layout.base.len();
        Ascent { layout, q: vec![0.0; len], fresh: vec![0.0; len], inverse_temperature: 1.0, chunks }
    }

    /// Sets q to the product of these marginals, given for each variable of the graph.
    pub fn set_product(&mut self, mut marginal: impl FnMut(usize, &mut [f64])) {
        for v in 0..self.layout.number.len() {
            let own = &mut self.q[self.layout.variable(v)];
            marginal(v, own);
            let total: f64 = own.iter().sum();
            own.iter_mut().for_each(|p| *p = if *p > LEAST * total { *p / total } else { 0.0 });
        }
        let mut rows = Vec::new();
        for edge in &self.layout.edges {
            let (marginals, table) = self.q.split_at_mut(edge.offset);
            let of = |v: u32| {
                let start = self.layout.offsets[v as usize];
                &marginals[start..start + self.layout.states[v as usize] as usize]
            };
            rows.clear();
            rows.push(1.0);
            for v in std::iter::once(edge.parent).chain(self.layout.children_of(edge).iter().copied()) {
                let before = rows.len();
                for i in 0..before {
                    let weight = rows[i];
                    rows.extend(of(v).iter().map(|&p| product(weight, p)));
                }
                rows.drain(..before);
            }
            table[..edge.len].copy_from_slice(&rows);
        }
    }

    /// Sets q to a point mass at one state.
    pub fn set_state(&mut self, state: &[usize]) {
        self.set_product(|v, q| q.iter_mut().enumerate().for_each(|(s, p)| *p = f64::from(s == state[v])));
    }

    /// Updates all clusters, colour by colour.
    pub fn sweep(&mut self, zeros: Zeros) {
        for colour in 0..self.layout.colours.len() {
            self.update(colour, zeros);
        }
    }

    /// Updates the clusters of a colour. Returns Σ log Σ exp of their fields, which is their contribution to
    /// log Z if there are no crossing factors.
    pub fn update(&mut self, colour: usize, zeros: Zeros) -> f64 {
        let layout = self.layout;
        let clusters = layout.colours[colour].clone();
        let (Some(first), Some(last)) = (layout.clusters.get(clusters.start), clusters.end.checked_sub(1))
        else {
            return 0.0;
        };
        let entries = first.entries.start..layout.clusters[last].entries.end;
        let mut parts: Vec<(usize, usize, &mut [f64])> = Vec::new();
        let (mut rest, mut start) = (&mut self.fresh[entries.clone()], clusters.start);
        for &end in &self.chunks[colour] {
            let len = layout.clusters[end - 1].entries.end - layout.clusters[start].entries.start;
            let (own, others) = rest.split_at_mut(len);
            parts.push((start, end, own));
            (rest, start) = (others, end);
        }
        let view = View { layout, q: &self.q, zeros, inverse_temperature: self.inverse_temperature };
        let sums: Vec<f64> = parts
            .into_par_iter()
            .map(|(start, end, mut own)| {
                let (mut fields, mut sum) = (Vec::new(), CompensatedSum::default());
                for cluster in &layout.clusters[start..end] {
                    let (table, others) = std::mem::take(&mut own).split_at_mut(cluster.entries.len());
                    own = others;
                    sum.add(view.update(cluster, &mut fields, table));
                }
                sum.value()
            })
            .collect();
        self.q[entries.clone()].copy_from_slice(&self.fresh[entries]);
        sums.into_iter().collect::<CompensatedSum>().value()
    }
}

/// A product of probabilities that is 0 only if one of them is.
#[inline]
fn product(p: f64, q: f64) -> f64 {
    if p > 0.0 && q > 0.0 { (p * q).max(TINY) } else { 0.0 }
}

/// The inputs of an update.
#[derive(Clone, Copy)]
struct View<'a> {
    layout: &'a Layout<'a>,
    q: &'a [f64],
    zeros: Zeros,
    inverse_temperature: f64,
}

impl View<'_> {
    /// Writes the optimal q of a cluster to `table` and returns log Σ exp of its fields. If the fields allow
    /// no state, q is unchanged.
    fn update(&self, cluster: &Cluster, fields: &mut Vec<f64>, table: &mut [f64]) -> f64 {
        let View { layout, q, .. } = *self;
        let start = cluster.entries.start;
        fields.clear();
        fields.extend_from_slice(&layout.base[cluster.entries.clone()]);
        if let Zeros::Soft(penalty) = self.zeros {
            fields.iter_mut().for_each(|x| *x = if *x == ZERO { -penalty } else { *x });
        }
        for &(k, g) in &layout.incidence[cluster.crossings.clone()] {
            self.add_field(k as usize, g as usize, fields, start);
        }
        if self.inverse_temperature != 1.0 {
            fields.iter_mut().for_each(|x| *x *= self.inverse_temperature);
        }
        let mut total = CompensatedSum::default();
        for edge in layout.edges[cluster.edges.clone()].iter().rev() {
            total.add(upward(layout, edge, fields, table, start));
        }
        let root = layout.offsets[cluster.variables.start] - start;
        let states = layout.states[cluster.variables.start] as usize;
        let log = softmax(&mut fields[root..root + states]);
        if log == ZERO {
            table.copy_from_slice(&q[cluster.entries.clone()]);
            return ZERO;
        }
        let variables =
            layout.offsets[cluster.variables.end - 1] + layout.states[cluster.variables.end - 1] as usize;
        table[..variables - start].fill(0.0);
        table[root..root + states].copy_from_slice(&fields[root..root + states]);
        for edge in &layout.edges[cluster.edges.clone()] {
            downward(layout, edge, table, start);
        }
        total.add(log);
        total.value()
    }

    /// Adds E_q\[θ_f | group g\] to the field of the slot of that group.
    fn add_field(&self, k: usize, g: usize, fields: &mut [f64], start: usize) {
        let View { layout, q, .. } = *self;
        let (f, has_zeros) = layout.crossing[k];
        let values = layout.graph.factor(f as usize).log_values;
        let groups = layout.groups(f as usize);
        let own = &groups[g];
        let target = &mut fields[own.offset as usize - start..own.offset as usize - start + own.len as usize];
        if let ([_, _], false) = (groups, has_zeros) {
            let other = &groups[1 - g];
            if let (Some(step), Some(other_step)) = (layout.stride_of(own), layout.stride_of(other)) {
                let weights = &q[other.offset as usize..(other.offset + other.len) as usize];
                for (j, x) in target.iter_mut().enumerate() {
                    let row = values[j * step..].iter().step_by(other_step);
                    *x += weights.iter().zip(row).map(|(w, value)| w * value).sum::<f64>();
                }
                return;
            }
        }
        // A table over more groups than this, with two states each, cannot exist.
        let mut others: [Option<&Group>; 64] = [None; 64];
        let mut count = 0;
        for (i, group) in groups.iter().enumerate() {
            if i != g && count < others.len() {
                others[count] = Some(group);
                count += 1;
            }
        }
        for (j, x) in target.iter_mut().enumerate() {
            if *x > ZERO {
                *x += self.expectation(values, layout.place_of(own, j), 1.0, &others[..count]);
            }
        }
    }

    /// Σ over the states of the groups of θ(place + …) · weight · Π q.
    fn expectation(&self, values: &[f64], place: usize, weight: f64, groups: &[Option<&Group>]) -> f64 {
        let Some((Some(group), rest)) = groups.split_first() else {
            return match self.zeros {
                Zeros::Soft(penalty) if values[place] == ZERO => -penalty * weight,
                _ => values[place] * weight,
            };
        };
        let mut sum = 0.0;
        for (j, &p) in self.q[group.offset as usize..(group.offset + group.len) as usize].iter().enumerate() {
            if p > 0.0 {
                let place = place + self.layout.place_of(group, j);
                sum += self.expectation(values, place, product(weight, p), rest);
            }
        }
        sum
    }
}

/// Normalises log-weights to probabilities. Returns log Σ exp, −∞ if there is no weight.
#[inline]
fn softmax(row: &mut [f64]) -> f64 {
    if let [a, b] = row {
        let high = if *a > *b { *a } else { *b };
        if high == ZERO {
            return ZERO;
        }
        let ratio = (if *a > *b { *b } else { *a } - high).exp();
        let sum = 1.0 + ratio;
        let (large, small) = (1.0 / sum, ratio / sum);
        let small = if small < LEAST { 0.0 } else { small };
        (*a, *b) = if *a > *b { (large, small) } else { (small, large) };
        return high + sum.ln();
    }
    let high = numeric::max(row);
    if high == ZERO {
        return ZERO;
    }
    row.iter_mut().for_each(|x| *x -= high);
    if row.len() < 8 {
        row.iter_mut().for_each(|x| *x = x.exp());
    } else {
        numeric::exp_in_place(row);
    }
    let sum: f64 = row.iter().sum();
    let scale = 1.0 / sum;
    row.iter_mut().for_each(|x| *x = if *x < LEAST * sum { 0.0 } else { *x * scale });
    high + sum.ln()
}

/// Calls `each` with the slices of a row that belong to one state of axis `axis`.
fn along_axis<'r>(
    row: &'r mut [f64],
    inner: usize,
    states: usize,
    mut each: impl FnMut(usize, &'r mut [f64]),
) {
    for block in row.chunks_exact_mut(inner * states) {
        block.chunks_exact_mut(inner).enumerate().for_each(|(s, slice)| each(s, slice));
    }
}

/// Writes the conditional of a hyperedge to `table` and adds its message, relative to the maximum, to the
/// field of the parent. Returns the maximum.
fn upward(layout: &Layout<'_>, edge: &Edge, fields: &mut [f64], table: &mut [f64], start: usize) -> f64 {
    let children = layout.children_of(edge);
    let parent = layout.offsets[edge.parent as usize] - start;
    let parent_states = layout.states[edge.parent as usize] as usize;
    let width = edge.len / parent_states;
    let at = edge.offset - start;
    let (below, above) = fields.split_at_mut(at);
    let rows = &mut table[at..at + edge.len];
    rows.copy_from_slice(&above[..edge.len]);
    let mut inner = width;
    for &child in children {
        let (offset, states) =
            (layout.offsets[child as usize] - start, layout.states[child as usize] as usize);
        inner /= states;
        let field = &below[offset..offset + states];
        if inner == 1 {
            for row in rows.chunks_exact_mut(states) {
                row.iter_mut().zip(field).for_each(|(x, f)| *x += f);
            }
        } else {
            along_axis(rows, inner, states, |s, slice| slice.iter_mut().for_each(|x| *x += field[s]));
        }
    }
    // The field of the parent must not change yet; the message is written to the place of the hyperedge's
    // field.
    let messages = &mut above[..parent_states];
    let mut high = ZERO;
    for (row, message) in rows.chunks_exact_mut(width).zip(messages.iter_mut()) {
        *message = softmax(row);
        if *message == ZERO {
            row.fill(0.0);
        }
        high = if *message > high { *message } else { high };
    }
    let shift = if high == ZERO { 0.0 } else { high };
    below[parent..parent + parent_states]
        .iter_mut()
        .zip(messages)
        .for_each(|(x, message)| *x += *message - shift);
    shift
}

/// Computes the marginals of a hyperedge and of its children from its conditional and the marginal of the
/// parent.
fn downward(layout: &Layout<'_>, edge: &Edge, table: &mut [f64], start: usize) {
    let parent = layout.offsets[edge.parent as usize] - start;
    let states = layout.states[edge.parent as usize] as usize;
    let width = edge.len / states;
    let (marginals, rest) = table.split_at_mut(edge.offset - start);
    let rows = &mut rest[..edge.len];
    for (row, p) in rows.chunks_exact_mut(width).zip(&marginals[parent..parent + states]) {
        row.iter_mut().for_each(|x| *x = product(*p, *x));
    }
    let mut inner = width;
    for &child in layout.children_of(edge) {
        let (offset, states) =
            (layout.offsets[child as usize] - start, layout.states[child as usize] as usize);
        inner /= states;
        let marginal = &mut marginals[offset..offset + states];
        if inner == 1 {
            for row in rows.chunks_exact(states) {
                marginal.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
            }
        } else {
            along_axis(rows, inner, states, |s, slice| marginal[s] += slice.iter().sum::<f64>());
        }
    }
}

/// E_q\[θ_f\] of a factor; −∞ if q gives probability to a state that the factor forbids.
pub(super) fn expected_value(layout: &Layout<'_>, f: usize, has_zeros: bool, q: &[f64]) -> f64 {
    let values = layout.graph.factor(f).log_values;
    let groups = layout.groups(f);
    if let ([a, b], false) = (groups, has_zeros)
        && let (Some(step), Some(other_step)) = (layout.stride_of(a), layout.stride_of(b))
    {
        let of = |group: &Group| &q[group.offset as usize..(group.offset + group.len) as usize];
        let mut sum = 0.0;
        for (j, p) in of(a).iter().enumerate() {
            let row = values[j * step..].iter().step_by(other_step);
            sum += p * of(b).iter().zip(row).map(|(w, value)| w * value).sum::<f64>();
        }
        return sum;
    }
    let mut list: [Option<&Group>; 64] = [None; 64];
    list.iter_mut().zip(groups).for_each(|(place, group)| *place = Some(group));
    let view = View { layout, q, zeros: Zeros::Hard, inverse_temperature: 1.0 };
    view.expectation(values, 0, 1.0, &list[..groups.len().min(64)])
}
