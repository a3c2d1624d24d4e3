//! Fast draws from a model of small width: every conditional p(x_v | others) as a table of cumulative
//! probabilities.

use super::bucket::Reduce;
use super::tree::{Plan, Tree};
use crate::error::Result;
use crate::method::exact::prepare::Order;
use crate::model::FactorGraph;
use crate::numeric::Pool;
use crate::random::Stream;
use crate::run::Clock;

/// The conditionals of a swept tree, last eliminated variable first.
pub(crate) struct Ancestral {
    steps: Vec<Step>,
    /// For each step and each state of its others the running sums of p(x_v | others) over x_v.
    cumulative: Vec<f64>,
}

struct Step {
    variable: usize,
    states: usize,
    /// Where its table starts.
    start: usize,
    /// The others, with the distance in the table of one step of each.
    others: Vec<(usize, usize)>,
}

impl Ancestral {
    /// Sweeps through a graph of small width and tabulates its conditionals, which takes as much memory as
    /// all cliques together. Also returns log Z.
    pub fn new(graph: &FactorGraph, order: Order, clock: &Clock<'_>) -> Result<(Self, f64)> {
        let tree = Tree::sweep(graph, Plan::new(graph, order), Reduce::Sum, true, clock)?;
        let mut sampler = Ancestral { steps: Vec::new(), cumulative: Vec::new() };
        let mut pool = Pool::default();
        for i in (0..tree.len()).rev() {
            let (variable, states) = tree.variable(i);
            let start = sampler.cumulative.len();
            let mut others = Vec::new();
            let mut stride = states;
            for (u, states) in tree.others(i).rev() {
                others.push((u, stride));
                stride *= states;
            }
            let rows = stride / states;
            let conditional = tree.clique(i, vec![1.0; rows], &mut pool, clock)?;
            for row in 0..rows {
                let mut sum = 0.0;
                for state in 0..states {
                    sum += conditional[state * rows + row];
                    sampler.cumulative.push(sum);
                }
            }
            sampler.steps.push(Step { variable, states, start, others });
        }
        Ok((sampler, tree.log_value))
    }

    /// Draws a state.
    pub fn draw(&self, random: &mut Stream, state: &mut [usize]) {
        for step in &self.steps {
            let row = step.others.iter().fold(step.start, |at, &(u, stride)| at + state[u] * stride);
            let cumulative = &self.cumulative[row..row + step.states];
            let point = random.uniform() * cumulative[step.states - 1];
            // Below the total, so there is always one above it; a state of probability zero never is the
            // first.
            state[step.variable] = cumulative.iter().take_while(|&&sum| sum <= point).count();
        }
    }
}
