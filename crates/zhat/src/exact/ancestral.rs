//! Fast draws from a model of small width: every conditional p(x_v | others) as a table of cumulative probabilities.

use super::elimination::Tree;
use crate::error::Result;
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
    /// Tabulates the conditionals; takes as much memory as all cliques together.
    pub fn new(tree: &Tree, clock: &Clock<'_>) -> Result<Self> {
        let mut sampler = Ancestral { steps: Vec::new(), cumulative: Vec::new() };
        for i in (0..tree.len()).rev() {
            let (variable, states) = tree.variable(i);
            let start = sampler.cumulative.len();
            let mut others = Vec::new();
            let mut stride = states;
            for (u, states) in tree.others(i).rev() {
                others.push((u, stride));
                stride *= states;
            }
            sampler.cumulative.resize(start + stride, 0.0);
            let table = &mut sampler.cumulative[start..];
            tree.conditional(i, clock, |at, slabs| {
                let width = slabs.len() / states;
                for j in 0..width {
                    let mut sum = 0.0;
                    for (s, cumulative) in table[(at + j) * states..][..states].iter_mut().enumerate() {
                        sum += slabs[s * width + j];
                        *cumulative = sum;
                    }
                }
            })?;
            sampler.steps.push(Step { variable, states, start, others });
        }
        Ok(sampler)
    }

    /// Draws a state.
    pub fn draw(&self, random: &mut Stream, state: &mut [usize]) {
        for step in &self.steps {
            let row = step.others.iter().fold(step.start, |at, &(u, stride)| at + state[u] * stride);
            let cumulative = &self.cumulative[row..row + step.states];
            let point = random.uniform() * cumulative[step.states - 1];
            // Below the total, so there is always one above it; a state of probability zero never is the first.
            state[step.variable] = cumulative.iter().take_while(|&&sum| sum <= point).count();
        }
    }
}
