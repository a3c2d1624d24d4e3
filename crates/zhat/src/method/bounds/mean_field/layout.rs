//! Flat memory layout of the clusters, so that a sweep accesses memory in order.
//!
//! A **slot** is a variable or a hyperedge, which has a table in q. The slots of a cluster are stored
//! contiguously, variables first and parents before children. So are the clusters of one colour, which share
//! no factor and are updated together. The first axis of the table of a hyperedge is its parent, so a row is
//! the distribution of the children given a state of the parent.
//!
//! Factors inside one slot are summed into `base` once. The remaining factors are the crossing factors: each
//! is a table over two or more slots, and E_q\[θ_f\] = Σ θ_f Π_g q_g over the states of its groups g.

use std::ops::Range;

use super::partition::{Partition, Touching};
use crate::model::{FactorGraph, table};

const NONE: u32 = u32::MAX;

/// The part of the scope of a factor that lies in one slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    /// Start of the table of the slot.
    pub offset: u32,
    /// The number of its entries.
    pub len: u32,
    /// Entry j corresponds to index j · stride in the table of the factor, unless there is an index list.
    stride: u32,
    /// Start of the index list, if there is one.
    list: u32,
}

/// A hyperedge.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    pub offset: usize,
    /// The number of its entries.
    pub len: usize,
    /// Its first variable.
    pub parent: u32,
    /// Range of its children in the list of all children.
    pub children: (u32, u32),
}

/// A cluster: a tree of variables.
#[derive(Clone, Debug)]
pub(super) struct Cluster {
    pub variables: Range<usize>,
    pub edges: Range<usize>,
    /// The entries of all its slots.
    pub entries: Range<usize>,
    /// Its crossing factors, as pairs (factor, group).
    pub crossings: Range<usize>,
}

/// The immutable description of a graph and its clusters.
pub(super) struct Layout<'g> {
    pub graph: &'g FactorGraph,
    pub clusters: Vec<Cluster>,
    /// The clusters of each colour.
    pub colours: Vec<Range<usize>>,
    /// By new index: the start of the table of a variable, and its number of states.
    pub offsets: Vec<usize>,
    pub states: Vec<u32>,
    /// The coefficient of q_v ln q_v in the entropy.
    pub weights: Vec<f64>,
    pub edges: Vec<Edge>,
    pub children: Vec<u32>,
    /// The new index of each variable of the graph.
    pub number: Vec<u32>,
    pub base: Vec<f64>,
    groups: Vec<Group>,
    group_ends: Vec<u32>,
    lists: Vec<u32>,
    /// The factors with two or more groups, and whether they have zeros.
    pub crossing: Vec<(u32, bool)>,
    /// For each cluster, its crossing factors and the group of each.
    pub incidence: Vec<(u32, u32)>,
    /// The maximum number of roundings in a term of the bound: along a path from a root to a leaf, in
    /// products and in sums.
    pub operations: f64,
    /// The sum of the maximum magnitudes of the entropies.
    pub entropy_magnitude: f64,
}

/// Hyperedges as lists of variables, before they are ordered.
struct Hyperedges {
    ends: Vec<u32>,
    variables: Vec<u32>,
    /// For each variable, its hyperedges as a linked list of positions in `variables`: the first position,
    /// and for each position the next one.
    first: Vec<u32>,
    next: Vec<u32>,
    /// The hyperedge of each position.
    owner: Vec<u32>,
    degree: Vec<u32>,
}

impl Hyperedges {
    fn of(&self, e: u32) -> &[u32] {
        let start = if e == 0 { 0 } else { self.ends[e as usize - 1] };
        &self.variables[start as usize..self.ends[e as usize] as usize]
    }

    /// The hyperedges of a variable.
    fn around(&self, v: u32) -> impl Iterator<Item = u32> + '_ {
        let mut at = self.first[v as usize];
        std::iter::from_fn(move || {
            let place = (at != NONE).then_some(at)?;
            at = self.next[place as usize];
            Some(self.owner[place as usize])
        })
    }

    /// The hyperedge that contains all of these variables.
    fn host(&self, members: &[u32]) -> Option<u32> {
        let &rarest = members.iter().min_by_key(|&&v| self.degree[v as usize])?;
        self.around(rarest).find(|&e| members.iter().all(|v| self.of(e).contains(v)))
    }

    fn add(&mut self, members: &[u32]) {
        for &v in members {
            self.next.push(std::mem::replace(&mut self.first[v as usize], self.variables.len() as u32));
            self.variables.push(v);
            self.owner.push(self.ends.len() as u32);
            self.degree[v as usize] += 1;
        }
        self.ends.push(self.variables.len() as u32);
    }

    fn new(graph: &FactorGraph, partition: &Partition) -> Self {
        let n = graph.variable_count();
        let mut edges = Hyperedges {
            ends: Vec::new(),
            variables: Vec::new(),
            first: vec![NONE; n],
            next: Vec::new(),
            owner: Vec::new(),
            degree: vec![0; n],
        };
        // Larger parts first, because they contain the others.
        let (mut parts, mut members): (Vec<Vec<u32>>, Vec<u32>) = Default::default();
        for factor in graph.factors().filter(|factor| factor.scope.len() > 2) {
            for part in partition.parts(factor.scope, &mut members).filter(|part| part.len() > 1) {
                parts.push(part.to_vec());
            }
        }
        parts.sort_by_key(|part| std::cmp::Reverse(part.len()));
        for part in parts {
            if edges.host(&part).is_none() {
                edges.add(&part);
            }
        }
        for factor in graph.factors() {
            if let [u, v] = *factor.scope {
                let pair = [u as u32, v as u32];
                if partition.cluster[u] == partition.cluster[v] && edges.host(&pair).is_none() {
                    edges.add(&pair);
                }
            }
        }
        edges
    }
}

/// Colours the clusters such that those sharing a factor differ. Also returns the number of colours.
fn colours(graph: &FactorGraph, touching: &Touching, partition: &Partition) -> (Vec<u32>, usize) {
    let mut starts = vec![0u32; partition.count + 1];
    partition.cluster.iter().for_each(|&c| starts[c as usize + 1] += 1);
    for c in 1..starts.len() {
        starts[c] += starts[c - 1];
    }
    let mut members = vec![0u32; partition.cluster.len()];
    let mut next = starts.clone();
    for (v, &c) in partition.cluster.iter().enumerate() {
        members[next[c as usize] as usize] = v as u32;
        next[c as usize] += 1;
    }
    let mut colour = vec![NONE; partition.count];
    // For each colour, the last cluster that could not use it.
    let mut taken: Vec<u32> = Vec::new();
    for c in 0..partition.count {
        for &v in &members[starts[c] as usize..starts[c + 1] as usize] {
            for &f in touching.of(v as usize) {
                for &u in graph.factor(f as usize).scope {
                    let other = colour[partition.cluster[u] as usize];
                    if other != NONE {
                        taken[other as usize] = c as u32;
                    }
                }
            }
        }
        let free = taken.iter().position(|&last| last != c as u32).unwrap_or(taken.len());
        if free == taken.len() {
            taken.push(NONE);
        }
        colour[c] = free as u32;
    }
    (colour, taken.len())
}

impl<'g> Layout<'g> {
    /// Creates the layout of a graph; `None` if there are more entries than 32-bit indices allow.
    pub fn new(graph: &'g FactorGraph, touching: &Touching, partition: &Partition) -> Option<Self> {
        let n = graph.variable_count();
        let (colour, colour_count) = colours(graph, touching, partition);
        let hyperedges = Hyperedges::new(graph, partition);
        let mut order: Vec<u32> = (0..partition.count as u32).collect();
        order.sort_by_key(|&c| colour[c as usize]);
        let mut roots = vec![NONE; partition.count];
        for (v, &c) in partition.cluster.iter().enumerate().rev() {
            roots[c as usize] = v as u32;
        }
        let mut layout = Layout {
            graph,
            clusters: Vec::with_capacity(partition.count),
            colours: vec![0..0; colour_count],
            offsets: Vec::with_capacity(n),
            states: Vec::with_capacity(n),
            weights: Vec::with_capacity(n),
            edges: Vec::with_capacity(hyperedges.ends.len()),
            children: Vec::with_capacity(hyperedges.variables.len()),
            number: vec![NONE; n],
            base: Vec::new(),
            groups: Vec::new(),
            group_ends: Vec::with_capacity(graph.factor_count()),
            lists: Vec::new(),
            crossing: Vec::new(),
            incidence: Vec::new(),
            operations: 0.0,
            entropy_magnitude: 0.0,
        };
        let mut edge_number = vec![NONE; hyperedges.ends.len()];
        let mut depth = vec![0.0; n];
        for &c in &order {
            layout.place(roots[c as usize], &hyperedges, &mut edge_number, &mut depth)?;
            let place = layout.clusters.len();
            let range = &mut layout.colours[colour[c as usize] as usize];
            *range = if range.end == 0 { place - 1..place } else { range.start..place };
        }
        layout.entropy_magnitude += layout.edges.iter().map(|edge| (edge.len as f64).ln() + 1.0).sum::<f64>();
        layout.base = vec![0.0; layout.clusters.last().map_or(0, |cluster| cluster.entries.end)];
        layout.assign_factors(partition, &hyperedges, &edge_number)?;
        layout.collect_incidence();
        Some(layout)
    }

    /// Creates the layout of the tree of a root.
    fn place(
        &mut self,
        root: u32,
        hyperedges: &Hyperedges,
        edge_number: &mut [u32],
        depth: &mut [f64],
    ) -> Option<()> {
        let start = self.clusters.last().map_or(0, |cluster| cluster.entries.end);
        let (first, first_edge) = (self.offsets.len(), self.edges.len());
        // The variables in the order of their new indices.
        let mut queue = vec![root];
        self.number[root as usize] = first as u32;
        depth[root as usize] = 8.0 + 2.0 * self.graph.cardinalities()[root as usize] as f64;
        let mut head = 0;
        while let Some(&v) = queue.get(head) {
            head += 1;
            let parent = self.number[v as usize];
            for e in hyperedges.around(v) {
                if edge_number[e as usize] != NONE {
                    continue;
                }
                edge_number[e as usize] = self.edges.len() as u32;
                let begin = self.children.len() as u32;
                let mut len = self.graph.cardinalities()[v as usize];
                for &u in hyperedges.of(e).iter().filter(|&&u| u != v) {
                    self.number[u as usize] = (first + queue.len()) as u32;
                    self.children.push(self.number[u as usize]);
                    queue.push(u);
                    len = len.checked_mul(self.graph.cardinalities()[u as usize])?;
                }
                for &u in hyperedges.of(e).iter().filter(|&&u| u != v) {
                    depth[u as usize] = depth[v as usize] + 8.0 + 2.0 * len as f64;
                }
                let children = (begin, self.children.len() as u32);
                self.edges.push(Edge { offset: 0, len, parent, children });
            }
        }
        let mut end = start;
        for &v in &queue {
            let states = self.graph.cardinalities()[v as usize];
            self.offsets.push(end);
            self.states.push(states as u32);
            end = end.checked_add(states)?;
            self.operations = self.operations.max(depth[v as usize]);
            self.weights.push(0.0);
        }
        self.weights[first] = -1.0;
        for edge in &mut self.edges[first_edge..] {
            edge.offset = end;
            end = end.checked_add(edge.len)?;
            self.weights[edge.parent as usize] += 1.0;
        }
        for v in first..self.offsets.len() {
            self.entropy_magnitude += self.weights[v].abs() * (f64::from(self.states[v]).ln() + 1.0);
        }
        self.clusters.push(Cluster {
            variables: first..self.offsets.len(),
            edges: first_edge..self.edges.len(),
            entries: start..end,
            crossings: 0..0,
        });
        (end < NONE as usize).then_some(())
    }

    /// Assigns groups to every factor, and adds factors inside one slot to `base`.
    fn assign_factors(
        &mut self,
        partition: &Partition,
        hyperedges: &Hyperedges,
        edge_number: &[u32],
    ) -> Option<()> {
        let graph = self.graph;
        let mut inside = vec![0u32; self.base.len()];
        let (mut most_groups, mut most_terms) = (1, 1.0f64);
        let mut members = Vec::new();
        for f in 0..graph.factor_count() {
            let factor = graph.factor(f);
            let start = self.groups.len();
            u32::try_from(factor.log_values.len()).ok()?;
            for part in partition.parts(factor.scope, &mut members) {
                let group = match *part {
                    [v] => {
                        let number = self.number[v as usize] as usize;
                        let axis = factor.scope.iter().position(|&u| u == v as usize).unwrap_or(0);
                        let stride: usize =
                            factor.scope[axis + 1..].iter().map(|&u| graph.cardinalities()[u]).product();
                        Group {
                            offset: self.offsets[number] as u32,
                            len: self.states[number],
                            stride: stride as u32,
                            list: NONE,
                        }
                    }
                    _ => {
                        let e = hyperedges.host(part)?;
                        self.edge_group(f, edge_number[e as usize] as usize)?
                    }
                };
                self.groups.push(group);
            }
            self.group_ends.push(self.groups.len() as u32);
            if self.groups.len() == start + 1 {
                let group = self.groups[start];
                inside[group.offset as usize] += 1;
                for j in 0..group.len as usize {
                    self.base[group.offset as usize + j] += factor.log_values[self.place_of(&group, j)];
                }
            } else if self.groups.len() > start {
                self.crossing.push((f as u32, factor.log_values.contains(&f64::NEG_INFINITY)));
            }
            let own = &self.groups[start..];
            most_groups = most_groups.max(own.len());
            most_terms = most_terms.max(own.iter().map(|group| f64::from(group.len)).product());
        }
        // Roundings in products of groups, and in sums over their terms and over the factors inside a slot.
        self.operations *= most_groups as f64;
        self.operations += most_terms + f64::from(inside.into_iter().max().unwrap_or(0));
        Some(())
    }

    /// Lists the crossing factors by cluster.
    fn collect_incidence(&mut self) {
        let mut counts = vec![0usize; self.clusters.len() + 1];
        let cluster_at: Vec<usize> = self.clusters.iter().map(|cluster| cluster.entries.end).collect();
        let of = |group: &Group| cluster_at.partition_point(|&end| end <= group.offset as usize);
        for &(f, _) in &self.crossing {
            self.groups(f as usize).iter().for_each(|group| counts[of(group) + 1] += 1);
        }
        for c in 1..counts.len() {
            counts[c] += counts[c - 1];
        }
        for (c, cluster) in self.clusters.iter_mut().enumerate() {
            cluster.crossings = counts[c]..counts[c + 1];
        }
        let mut incidence = vec![(0, 0); counts.last().copied().unwrap_or(0)];
        for (k, &(f, _)) in self.crossing.iter().enumerate() {
            for (g, group) in self.groups(f as usize).iter().enumerate() {
                let c = of(group);
                incidence[counts[c]] = (k as u32, g as u32);
                counts[c] += 1;
            }
        }
        self.incidence = incidence;
    }

    /// The group of a factor that shares two or more variables with a hyperedge.
    fn edge_group(&mut self, f: usize, e: usize) -> Option<Group> {
        let Edge { offset, len, parent, children } = self.edges[e];
        let scope = self.graph.factor(f).scope;
        let strides = table::strides(&self.graph.lengths(scope));
        let own = &self.children[children.0 as usize..children.1 as usize];
        let axes = std::iter::once(parent).chain(own.iter().copied());
        let steps = axes.map(|v| {
            let stride = scope.iter().position(|&u| self.number[u] == v).map_or(0, |axis| strides[axis]);
            (0..self.states[v as usize] as usize).map(|s| s * stride).collect()
        });
        let places = table::sums(0, steps);
        let group = |stride, list| Group { offset: offset as u32, len: len as u32, stride, list };
        if places.iter().enumerate().all(|(j, &place)| j == place) {
            return Some(group(1, NONE));
        }
        let list = u32::try_from(self.lists.len()).ok().filter(|&list| list < NONE)?;
        self.lists.extend(places.into_iter().map(|place| place as u32));
        Some(group(0, list))
    }

    /// The groups of a factor.
    pub fn groups(&self, f: usize) -> &[Group] {
        let start = if f == 0 { 0 } else { self.group_ends[f - 1] };
        &self.groups[start as usize..self.group_ends[f] as usize]
    }

    /// The index in the table of the factor that corresponds to entry `j` of a group.
    #[inline]
    pub fn place_of(&self, group: &Group, j: usize) -> usize {
        if group.list == NONE {
            j * group.stride as usize
        } else {
            self.lists[group.list as usize + j] as usize
        }
    }

    /// The distance between the entries of a group in the table of the factor, if it is constant.
    #[inline]
    pub fn stride_of(&self, group: &Group) -> Option<usize> {
        (group.list == NONE).then_some(group.stride as usize)
    }

    /// The children of a hyperedge.
    pub fn children_of(&self, edge: &Edge) -> &[u32] {
        &self.children[edge.children.0 as usize..edge.children.1 as usize]
    }

    /// The range of the table of a variable of the graph.
    pub fn variable(&self, v: usize) -> Range<usize> {
        let number = self.number[v] as usize;
        self.offsets[number]..self.offsets[number] + self.states[number] as usize
    }
}
