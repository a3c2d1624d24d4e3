//! Acyclic sets of factors, and exact computation of log Z on them.
//!
//! A factor over k variables joins k different trees, as an edge joins two (Kruskal). On the forest T with
//! the scores θ̃_i and (θ_f − Σ_i λ_{f→i})/ρ_f of [`Messages`], log Z(T) is computed from the leaves to the
//! roots: each factor sends the log-sum over its other variables to the variable nearest the root. Every
//! table is read once. The rounding errors, each relative to the current magnitudes, are summed along the
//! way.

use super::engine::Messages;
use super::kernel::Workspace;
use super::layout::{self, Layout, largest};
use super::pairs;

/// A factor, and the axis of its variable nearest the root.
#[derive(Clone, Copy)]
pub(crate) struct Step {
    pub factor: u32,
    pub parent: u32,
}

/// An acyclic set of factors.
pub(crate) struct Forest {
    /// The factors from the leaves to the roots.
    pub steps: Vec<Step>,
}

/// A number and its rounding error, in units of u.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sum {
    pub value: f64,
    pub rounding: f64,
}

/// Disjoint sets of variables: the trees joined so far.
pub(crate) struct Components {
    parent: Vec<u32>,
    roots: Vec<u32>,
}

impl Components {
    pub fn new(variables: usize) -> Self {
        Components { parent: (0..variables as u32).collect(), roots: Vec::new() }
    }

    fn reset(&mut self) {
        self.parent.iter_mut().enumerate().for_each(|(v, parent)| *parent = v as u32);
    }

    fn find(&mut self, mut v: u32) -> u32 {
        while self.parent[v as usize] != v {
            let above = self.parent[self.parent[v as usize] as usize];
            self.parent[v as usize] = above;
            v = above;
        }
        v
    }

    /// Joins the trees of the variables; returns false if two variables are already in the same tree.
    pub fn join(&mut self, variables: impl Iterator<Item = u32>) -> bool {
        let mut roots = std::mem::take(&mut self.roots);
        roots.clear();
        roots.extend(variables.map(|v| self.find(v)));
        let fits = match *roots {
            [a, b] => a != b,
            _ => {
                roots.sort_unstable();
                roots.windows(2).all(|pair| pair[0] != pair[1])
            }
        };
        if fits {
            roots.iter().skip(1).for_each(|&root| self.parent[root as usize] = roots[0]);
        }
        self.roots = roots;
        fits
    }
}

impl Forest {
    /// Adds the factors in this order, skipping those that would close a cycle.
    pub fn greedy(
        layout: &Layout<'_>,
        order: impl Iterator<Item = u32>,
        components: &mut Components,
    ) -> Self {
        components.reset();
        let fits = |f: &u32| components.join(layout.factor(*f as usize).variables.iter().copied());
        let chosen: Vec<u32> = order.filter(fits).collect();
        Self::new(layout, &chosen)
    }

    /// All factors, if they close no cycle.
    pub fn whole(layout: &Layout<'_>) -> Option<Self> {
        let mut components = Components::new(layout.variable_count());
        let factors: Vec<u32> = (0..layout.factor_count() as u32).collect();
        let acyclic =
            factors.iter().all(|&f| components.join(layout.factor(f as usize).variables.iter().copied()));
        acyclic.then(|| Self::new(layout, &factors))
    }

    /// Orders an acyclic set of factors depth-first.
    fn new(layout: &Layout<'_>, factors: &[u32]) -> Self {
        let (start, list) = layout::incidence(layout, factors.iter().copied());
        let n = layout.variable_count();
        let mut seen = vec![false; n];
        let (mut steps, mut stack) = (Vec::with_capacity(factors.len()), Vec::new());
        for root in 0..n as u32 {
            if seen[root as usize] {
                continue;
            }
            // A variable, and the factor from which it was reached.
            stack.push((root, u32::MAX));
            while let Some((v, from)) = stack.pop() {
                seen[v as usize] = true;
                for &f in &list[start[v as usize] as usize..start[v as usize + 1] as usize] {
                    if f == from {
                        continue;
                    }
                    let variables = layout.factor(f as usize).variables;
                    let parent = variables.iter().position(|&w| w == v).unwrap_or_default() as u32;
                    steps.push(Step { factor: f, parent });
                    stack.extend(variables.iter().filter(|&&w| w != v).map(|&w| (w, f)));
                }
            }
        }
        steps.reverse();
        Forest { steps }
    }

    /// One variable of every tree: those without a factor above them.
    pub fn roots<'l>(&self, layout: &'l Layout<'_>) -> impl Iterator<Item = usize> + use<'l> {
        let mut below = vec![false; layout.variable_count()];
        for &Step { factor, parent } in &self.steps {
            let variables = layout.factor(factor as usize).variables;
            let own = variables[parent as usize];
            variables.iter().filter(|&&v| v != own).for_each(|&v| below[v as usize] = true);
        }
        (0..below.len()).filter(move |&v| !below[v])
    }

    /// log Z(T), without the constant.
    pub fn log_partition(&self, messages: &Messages<'_>) -> Sum {
        let layout = messages.layout;
        let mut work = Workspace::new(layout);
        let mut scores: Vec<f64> = messages.scores().collect();
        let mut total = crate::numeric::CompensatedSum::default();
        let mut rounding = 0.0;
        for &Step { factor, parent } in &self.steps {
            let f = factor as usize;
            if let Some((maximum, units)) = pairs::hand_up(messages, f, parent, &mut scores) {
                total.add(maximum);
                rounding += units;
                continue;
            }
            let (view, inverse) = (layout.factor(f), 1.0 / messages.weights[f]);
            let mut shifts = messages.shifts(f);
            let (mut own, mut stride, mut size) = (0..0, 0, largest(view.table) * inverse);
            let mut rest = view.table.len();
            work.incoming.clear();
            for (axis, &v) in view.variables.iter().enumerate() {
                let states = layout.states(v as usize);
                let (shift, others) = shifts.split_at(states.len());
                shifts = others;
                rest /= states.len();
                let scores = &scores[states.clone()];
                size += largest(shift) * inverse + largest(scores);
                if axis == parent as usize {
                    (own, stride) = (states, rest);
                    work.incoming.extend(shift.iter().map(|shift| -shift * inverse));
                } else {
                    let sums = scores.iter().zip(shift).map(|(score, shift)| score - shift * inverse);
                    work.incoming.extend(sums);
                }
            }
            work.join(layout, view, inverse, messages.algebra);
            let mut outgoing = std::mem::take(&mut work.outgoing);
            outgoing.resize(own.len(), 0.0);
            work.along(stride, messages.algebra, &mut outgoing);
            let maximum = outgoing.iter().fold(f64::NEG_INFINITY, |m, x| m.max(*x));
            total.add(maximum);
            scores[own].iter_mut().zip(&outgoing).for_each(|(score, x)| *score += x - maximum);
            work.outgoing = outgoing;
            rounding += (view.table.len() + 4 * view.variables.len() + 8) as f64 * (1.0 + size);
        }
        for root in self.roots(layout) {
            let own = &scores[layout.states(root)];
            total.add(messages.algebra.total(own));
            rounding += (own.len() + 8) as f64 * (1.0 + largest(own));
        }
        Sum { value: total.value(), rounding: rounding + 1.0 + total.value().abs() }
    }
}
