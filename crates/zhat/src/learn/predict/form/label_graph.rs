//! Sets of labels with scores of labels and of pairs of labels, summed exactly by elimination.
//!
//! Labels are eliminated one after the other. Eliminating v multiplies the tables that contain v, which are
//! over v and its separator S, the labels not yet eliminated that share a table with v, and sums over v. The
//! result, a table over S, is passed to the first of S to be eliminated. Given S, v is chosen with
//! probability q(S); these shares give probabilities of all labels and pairs, samples and, with maxima in
//! place of sums, the best set from the last label to the first. Hierarchies with scores of pairs have
//! additional implications: a node is chosen only if its parent is.
//!
//! Time and memory: Σ 2^{|S|+1} per row.
//!
//! Reference: D. Koller, N. Friedman, *Probabilistic graphical models* (2009), chapters 9 and 10.

use super::{Family, Mode, Work, filled};
use crate::error::{Error, Result};
use crate::exact::elimination_order;
use crate::model::FactorGraph;
use crate::numeric::{Elementwise, log_add};
use crate::random::Stream;

/// The largest table is 2 to this power; larger ones are out of reach of learning.
const LOG2_TABLE: f64 = 16.0;

/// One label and its separator. An entry of its table has the index 2·σ + y for states σ of the separator,
/// with its first label in the lowest bit, and y of the label.
#[derive(Clone, Debug)]
struct Clique {
    label: usize,
    separator: Vec<usize>,
    /// Pairs of this label: place in the separator, and channel.
    pairs: Vec<(usize, usize)>,
    /// Place in the separator of a label that this one implies (its parent).
    implies: Vec<usize>,
    /// Places of labels that imply this one (its children).
    implied: Vec<usize>,
    /// The clique that receives the message.
    receiver: Option<usize>,
    /// For each entry of the receiver's table, the state of this separator.
    projection: Vec<u32>,
    /// Offsets of the shares (2^|S| entries) and of the table (2^(|S|+1)).
    shares: usize,
    table: usize,
}

/// A schedule of eliminations.
#[derive(Clone, Debug)]
pub(crate) struct LabelGraph {
    labels: usize,
    pairs: Vec<(usize, usize)>,
    cliques: Vec<Clique>,
    entries: usize,
    /// ln |Y|.
    log_count: f64,
}

impl LabelGraph {
    /// The schedule for pairs of labels and, for a hierarchy, its parents. Channels are the labels, then the
    /// pairs.
    ///
    /// # Errors
    /// If the tables are too large.
    pub fn new(labels: usize, pairs: &[(usize, usize)], parents: &[Option<usize>]) -> Result<Self> {
        let mut graph = FactorGraph::new(vec![2; labels])?;
        let links = parents.iter().enumerate().filter_map(|(v, parent)| parent.map(|parent| (v, parent)));
        for (i, j) in pairs.iter().copied().chain(links.clone()) {
            graph.add_factor(&[i, j], &[0.0; 4])?;
        }
        let order = elimination_order(&graph).map_err(too_wide)?;
        if order.log2_table > LOG2_TABLE {
            return Err(too_wide(order.log2_table));
        }
        let mut position = vec![0; labels];
        order.variables.iter().enumerate().for_each(|(i, &v)| position[v] = i);
        let mut cliques: Vec<Clique> = Vec::with_capacity(labels);
        let (mut shares, mut table) = (0, 0);
        for (&label, separator) in order.variables.iter().zip(&order.neighbours) {
            let place = |other: usize| separator.iter().position(|&u| u == other);
            let mut clique = Clique {
                label,
                separator: separator.clone(),
                pairs: Vec::new(),
                implies: Vec::new(),
                implied: Vec::new(),
                receiver: separator.first().map(|&u| position[u]),
                projection: Vec::new(),
                shares,
                table,
            };
            for (k, &(i, j)) in pairs.iter().enumerate() {
                let other = if i == label { j } else { i };
                if (i == label || j == label)
                    && let Some(place) = place(other)
                {
                    clique.pairs.push((place, labels + k));
                }
            }
            for (child, parent) in links.clone() {
                if child == label {
                    clique.implies.extend(place(parent));
                } else if parent == label {
                    clique.implied.extend(place(child));
                }
            }
            shares += 1 << separator.len();
            table += 2 << separator.len();
            cliques.push(clique);
        }
        for i in 0..cliques.len() {
            let Some(receiver) = cliques[i].receiver else { continue };
            let other = &cliques[receiver];
            let all: Vec<usize> = [other.label].into_iter().chain(other.separator.iter().copied()).collect();
            let bits: Vec<u32> = cliques[i]
                .separator
                .iter()
                .filter_map(|u| all.iter().position(|v| v == u))
                .map(|b| b as u32)
                .collect();
            let state = |entry: u32| {
                bits.iter().enumerate().fold(0, |state, (to, &from)| state | (entry >> from & 1) << to)
            };
            cliques[i].projection = (0..1u32 << all.len()).map(state).collect();
        }
        let mut made = LabelGraph { labels, pairs: pairs.to_vec(), cliques, entries: table, log_count: 0.0 };
        let (mut work, mut count) = (Work::default(), [0.0]);
        made.upward(&vec![0.0; made.channels()], 1, Mode::Sum, &mut work, &mut count);
        made.log_count = count[0];
        Ok(made)
    }

    /// Labels and pairs without a schedule: only the features are known. ln |Y| is an upper bound.
    pub fn shape(labels: usize, pairs: &[(usize, usize)]) -> Self {
        let log_count = labels as f64 * std::f64::consts::LN_2;
        LabelGraph { labels, pairs: pairs.to_vec(), cliques: Vec::new(), entries: 0, log_count }
    }
}

fn too_wide(log2: f64) -> Error {
    Error::OverBudget {
        needs: format!("exact sums over the label graph need a table of 2^{log2:.0} entries"),
        budget: format!("2^{LOG2_TABLE} entries; fewer pairs or sampled gradients would work"),
        fitting: Vec::new(),
    }
}

impl Clique {
    /// The table of a clique: its own scores and implications.
    fn begin(&self, scores: &[f64], lanes: usize, table: &mut [f64]) {
        table.fill(0.0);
        for state in 0..1usize << self.separator.len() {
            let low = 2 * state * lanes;
            let (zero, one) = table[low..low + 2 * lanes].split_at_mut(lanes);
            let has = |place: &usize| state >> place & 1 == 1;
            if self.implies.iter().any(|place| !has(place)) {
                one.fill(f64::NEG_INFINITY);
            } else {
                f64::add_to(one, &scores[self.label * lanes..][..lanes]);
                for (place, channel) in &self.pairs {
                    if has(place) {
                        f64::add_to(one, &scores[channel * lanes..][..lanes]);
                    }
                }
            }
            if self.implied.iter().any(has) {
                zero.fill(f64::NEG_INFINITY);
            }
        }
    }
}

impl Family for LabelGraph {
    fn channels(&self) -> usize {
        self.labels + self.pairs.len()
    }

    fn width(&self) -> usize {
        self.labels
    }

    fn bytes(&self, lanes: usize) -> f64 {
        8.0 * lanes as f64 * (3.0 * self.entries as f64 + 2.0 * self.channels() as f64)
    }

    fn upward(&self, scores: &[f64], lanes: usize, mode: Mode, work: &mut Work, out: &mut [f64]) {
        out.fill(0.0);
        // The tables are first the sums of messages received so far.
        let tables = filled(&mut work.messages, self.entries * lanes, 0.0);
        let shares = filled(&mut work.shares, self.entries / 2 * lanes, 0.0);
        let (table, sum) = (&mut work.table, &mut work.row);
        filled(sum, lanes, 0.0);
        for clique in &self.cliques {
            let states = 1usize << clique.separator.len();
            let table = filled(table, 2 * states * lanes, 0.0);
            clique.begin(scores, lanes, table);
            f64::add_to(table, &tables[clique.table * lanes..][..2 * states * lanes]);
            for state in 0..states {
                let (low, high) = table[2 * state * lanes..][..2 * lanes].split_at(lanes);
                let share = &mut shares[(clique.shares + state) * lanes..][..lanes];
                match mode {
                    Mode::Sum => log_add(low, high, sum, share),
                    Mode::Max => {
                        for ((&a, &b), (share, sum)) in
                            low.iter().zip(high).zip(share.iter_mut().zip(sum.iter_mut()))
                        {
                            (*share, *sum) = if b > a { (1.0, b) } else { (0.0, a) };
                        }
                    }
                }
                match clique.receiver {
                    None => f64::add_to(out, sum),
                    // Reuses the first half of the own table for the message.
                    Some(_) => tables[(clique.table + state) * lanes..][..lanes].copy_from_slice(sum),
                }
            }
            if let Some(receiver) = clique.receiver {
                let (before, after) = tables.split_at_mut(self.cliques[receiver].table * lanes);
                let message = &before[clique.table * lanes..][..states * lanes];
                for (entry, &state) in clique.projection.iter().enumerate() {
                    let part = &message[state as usize * lanes..][..lanes];
                    f64::add_to(&mut after[entry * lanes..][..lanes], part);
                }
            }
        }
    }

    fn means(&self, _: &[f64], lanes: usize, work: &mut Work, means: &mut [f64]) {
        means.fill(0.0);
        let beliefs = filled(&mut work.beliefs, self.entries * lanes, 0.0);
        for clique in self.cliques.iter().rev() {
            let states = 1usize << clique.separator.len();
            let given = filled(&mut work.table, states * lanes, 0.0);
            let (own, later) = beliefs.split_at_mut((clique.table + 2 * states) * lanes);
            match clique.receiver {
                None => given.fill(1.0),
                Some(receiver) => {
                    let start = (self.cliques[receiver].table - clique.table - 2 * states) * lanes;
                    for (entry, &state) in clique.projection.iter().enumerate() {
                        let part = &later[start + entry * lanes..][..lanes];
                        f64::add_to(&mut given[state as usize * lanes..][..lanes], part);
                    }
                }
            }
            let own = &mut own[clique.table * lanes..];
            for state in 0..states {
                let share = &work.shares[(clique.shares + state) * lanes..][..lanes];
                let given = &given[state * lanes..][..lanes];
                let (low, high) = own[2 * state * lanes..][..2 * lanes].split_at_mut(lanes);
                for lane in 0..lanes {
                    high[lane] = given[lane] * share[lane];
                    low[lane] = given[lane] * (1.0 - share[lane]);
                }
                f64::add_to(&mut means[clique.label * lanes..][..lanes], high);
                for (place, channel) in &clique.pairs {
                    if state >> place & 1 == 1 {
                        f64::add_to(&mut means[channel * lanes..][..lanes], high);
                    }
                }
            }
        }
    }

    fn decode(
        &self,
        _: &[f64],
        (lane, lanes): (usize, usize),
        work: &mut Work,
        mut random: Option<&mut Stream>,
        structure: &mut [u32],
    ) {
        for clique in self.cliques.iter().rev() {
            let state = clique
                .separator
                .iter()
                .enumerate()
                .fold(0, |state, (place, &u)| state | (structure[u] as usize) << place);
            let share = work.shares[(clique.shares + state) * lanes + lane];
            let threshold = random.as_mut().map_or(0.5, |random| random.uniform());
            structure[clique.label] = u32::from(threshold < share);
        }
    }

    fn features(&self, structure: &[u32], add: &mut dyn FnMut(usize)) {
        structure.iter().enumerate().filter(|(_, y)| **y == 1).for_each(|(v, _)| add(v));
        for (k, &(i, j)) in self.pairs.iter().enumerate() {
            if structure[i] == 1 && structure[j] == 1 {
                add(self.labels + k);
            }
        }
    }

    fn radius(&self) -> f64 {
        0.5 * (self.channels() as f64).sqrt()
    }

    fn log_count(&self) -> f64 {
        self.log_count
    }
}
