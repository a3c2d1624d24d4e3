//! Sums over all undirected cycles by the Held–Karp algorithm. H(S, v) is the sum over paths that start at
//! the smallest vertex of S, visit all of S and end at v,
//!
//!   H(S, v) = Σ_{u∈S∖v} H(S∖v, u)·exp W_uv,   2Z = Σ_{|S|≥3} Σ_v H(S, v)·exp W_{v,least},
//!
//! because each cycle is counted in both directions. Computed in logarithms. Time O(2ⁿ n²), memory O(2ⁿ n).

use super::conditions::Ring;
use super::layers::{Layers, elements};
use super::orders::{argmax, categorical, combine};
use super::ranked::search;
use crate::error::Result;
use crate::method::space::Cycles;
use crate::method::space::scores::pair_index;
use crate::numeric;
use crate::random::Stream;
use crate::run::Clock;

/// The table of H.
pub(super) struct Tours {
    n: usize,
    links: Links,
    paths: Vec<f64>,
    /// ln of the sum of closed walks through exactly S; −∞ for fewer than three vertices.
    closed: Vec<f64>,
    total: f64,
    /// Cumulative sums of exp(closed − total), for sampling.
    sums: Vec<f64>,
}

/// The log weights of the steps of a path; −∞ if a condition forbids them.
struct Links {
    n: usize,
    matrix: Vec<f64>,
    ring: Option<Ring>,
}

impl Links {
    /// From u, the end of a path through `set`, to v.
    fn step(&self, set: u64, u: usize, v: usize) -> f64 {
        match &self.ring {
            Some(ring) if !ring.steps(set, u, v) => f64::NEG_INFINITY,
            _ => self.matrix[u * self.n + v],
        }
    }

    /// From u, the end of a path through `set`, back to its start.
    fn close(&self, set: u64, u: usize) -> f64 {
        match &self.ring {
            Some(ring) if !ring.closes(set, u) => f64::NEG_INFINITY,
            _ => self.matrix[u * self.n + set.trailing_zeros() as usize],
        }
    }
}

/// Bytes of the tables.
pub(super) fn bytes(n: usize) -> f64 {
    (n as f64).exp2() * 8.0 * (n as f64 + 4.0)
}

impl Tours {
    /// Computes sums, or with `best` maxima.
    pub fn new(links: &[f64], n: usize, ring: Option<Ring>, best: bool, clock: &Clock<'_>) -> Result<Self> {
        let links = Links { n, matrix: links.to_vec(), ring };
        let layers = Layers::new(n);
        let mut paths = vec![f64::NEG_INFINITY; n << n];
        let mut closed = vec![f64::NEG_INFINITY; 1 << n];
        for k in 2..=n {
            let mut layer = vec![f64::NEG_INFINITY; layers.count(k) * (n + 1)];
            layers.fill(k, n + 1, &mut layer, clock, |set, slot, scratch| {
                let start = set.trailing_zeros() as usize;
                for v in elements(set & (set - 1)) {
                    let rest = set & !(1 << v);
                    if k == 2 {
                        slot[v] = links.step(rest, start, v);
                        continue;
                    }
                    scratch.terms.clear();
                    let row = &paths[rest as usize * n..];
                    scratch
                        .terms
                        .extend(elements(rest & (rest - 1)).map(|u| row[u] + links.step(rest, u, v)));
                    slot[v] = combine(&scratch.terms, best);
                }
                if k > 2 {
                    scratch.terms.clear();
                    scratch.terms.extend(elements(set & (set - 1)).map(|v| slot[v] + links.close(set, v)));
                    slot[n] = combine(&scratch.terms, best);
                }
            })?;
            for (set, row) in layers.sets(k).zip(layer.chunks(n + 1)) {
                paths[set as usize * n..(set as usize + 1) * n].copy_from_slice(&row[..n]);
                closed[set as usize] = row[n];
            }
            clock.progress("sets", k as u64, n as u64);
        }
        let total = combine(&closed, best);
        let mut sums = closed.clone();
        let mut sum = 0.0;
        for x in &mut sums {
            if *x > f64::NEG_INFINITY {
                sum += (*x - total).exp();
            }
            *x = sum;
        }
        Ok(Tours { n, links, paths, closed, total, sums })
    }

    /// log Z, or the largest score. Sums count both directions of a cycle.
    pub fn total(&self) -> f64 {
        self.total
    }

    /// A random cycle, or the best one.
    pub fn cycle(&self, mut random: Option<&mut Stream>, structure: &mut [u32]) {
        let n = self.n;
        let mut set = match &mut random {
            Some(random) => {
                let point = random.uniform() * self.sums.last().copied().unwrap_or(0.0);
                self.sums.partition_point(|sum| *sum <= point).min(self.sums.len() - 1) as u64
            }
            None => argmax(&self.closed) as u64,
        };
        let start = set.trailing_zeros() as usize;
        let mut order = vec![start as u32];
        let mut next = start;
        let mut terms = Vec::with_capacity(n);
        while set & (set - 1) != 0 {
            let rest = set & (set - 1);
            terms.clear();
            let link = |v: usize| {
                if next == start { self.links.close(set, v) } else { self.links.step(set, v, next) }
            };
            terms.extend(elements(rest).map(|v| self.paths[set as usize * n + v] + link(v)));
            let chosen = match &mut random {
                Some(random) => categorical(random, &mut terms),
                None => argmax(&terms),
            };
            next = elements(rest).nth(chosen).unwrap_or(start);
            order.push(next as u32);
            set &= !(1 << next);
        }
        Cycles::write(&order, structure);
    }

    /// The k best cycles, from the tables of maxima. Each may occur in both directions, so twice as many are
    /// searched for.
    pub fn k_best(&self, k: usize, clock: &Clock<'_>) -> Result<Vec<Vec<u32>>> {
        let n = self.n;
        let twice = k.saturating_mul(2);
        let mut sets: Vec<usize> = (0..1 << n).filter(|set| self.closed[*set] > f64::NEG_INFINITY).collect();
        if twice < sets.len() {
            // At most as many sets as cycles can matter.
            sets.select_nth_unstable_by(twice, |a, b| {
                self.closed[*b].total_cmp(&self.closed[*a]).then(a.cmp(b))
            });
            sets.truncate(twice);
        }
        sets.sort_unstable();
        // The remaining set, its last vertex, and the score of the links after it.
        let start = |set: u64| set.trailing_zeros() as usize;
        let roots =
            sets.iter().map(|set| (self.closed[*set], (*set as u64, start(*set as u64), 0.0))).collect();
        let found = search(roots, twice, clock, |&(set, v, behind), children| {
            let left = if v == start(set) { set } else { set & !(1 << v) };
            for u in elements(left & (left - 1)) {
                let last =
                    if v == start(set) { self.links.close(left, u) } else { self.links.step(left, u, v) };
                let behind = behind + last;
                children.push((behind + self.paths[left as usize * n + u], (left, u, behind)));
            }
        })?;
        let cycle = |path: Vec<(u64, usize, f64)>| {
            let order: Vec<u32> = path.iter().map(|state| state.1 as u32).collect();
            let mut structure = vec![0; n];
            Cycles::write(&order, &mut structure);
            structure
        };
        Ok(found.into_iter().map(cycle).collect())
    }

    /// The probability that u and v are adjacent on the cycle, for each pair.
    pub fn edges(&self, clock: &Clock<'_>) -> Result<Vec<f64>> {
        let n = self.n;
        let mut marginals = vec![0.0; n * (n - 1) / 2];
        // The total weight of all continuations of a path: closing it, or continuing.
        let mut after = vec![f64::NEG_INFINITY; n << n];
        let mut terms = Vec::with_capacity(n + 1);
        for set in (1..1usize << n).rev() {
            if set & 0xfff == 0 {
                clock.check()?;
            }
            let start = set.trailing_zeros() as usize;
            let size = set.count_ones();
            let outside = !(set as u64) & ((1u64 << n) - 1) & !((1u64 << start) - 1);
            for v in elements(set as u64) {
                if (v == start) != (size == 1) {
                    continue;
                }
                let here = if size == 1 { 0.0 } else { self.paths[set * n + v] };
                if here == f64::NEG_INFINITY {
                    continue;
                }
                terms.clear();
                if size > 2 {
                    let closing = self.links.close(set as u64, v);
                    terms.push(closing);
                    marginals[pair_index(n, v, start)] += (here + closing - self.total).exp();
                }
                for u in elements(outside) {
                    let on = self.links.step(set as u64, v, u) + after[(set | 1 << u) * n + u];
                    terms.push(on);
                    marginals[pair_index(n, v, u)] += (here + on - self.total).exp();
                }
                after[set * n + v] = numeric::log_sum_exp(&terms);
            }
        }
        Ok(marginals)
    }
}
