//! Fast sampling from a model of small width: every conditional p(x_v | others) is stored as a table of
//! cumulative probabilities.

use super::bucket::Reduce;
use super::tree::{Plan, Tree};
use crate::error::Result;
use crate::method::exact::prepare::Order;
use crate::model::FactorGraph;
use crate::numeric::Pool;
use crate::random::Stream;
use crate::run::Clock;

/// The conditionals of a tree after the forward sweep, starting with the variable eliminated last.
pub(crate) struct Ancestral {
    steps: Vec<Step>,
    /// Cumulative sums of p(x_v | others) over x_v, for each step and each joint state of its other
    /// variables.
    cumulative: Vec<f64>,
}

struct Step {
    variable: usize,
    states: usize,
    /// Index in `cumulative` at which the table of this step starts.
    start: usize,
    /// The other variables of the clique and their strides in the table.
    others: Vec<(usize, usize)>,
}

impl Ancestral {
    /// Sweeps through a graph of small width and tabulates its conditionals. The tables take as much memory
    /// as all cliques together. Also returns log Z.
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
            // `point` is below the total, so some cumulative sum exceeds it; the first one to do so never
            // belongs to a state of probability zero.
            state[step.variable] = cumulative.iter().take_while(|&&sum| sum <= point).count();
        }
    }
}
