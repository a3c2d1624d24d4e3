//! Sampling from the beliefs of the upper bound.
//!
//! q(x) = Π_v Σ_r w_r b_r(x_v | others of r), with b_r(x_v | others) = (ψ_r(x) / λ_r(others))^{1/w_r}. The
//! variables are drawn in reverse order of elimination. By the inequality of arithmetic and geometric means,
//! Σ_r w_r b_r ≥ Π_r b_r^{w_r} = Π_r ψ_r / λ_r. In the product over all v every message λ_r occurs once in
//! the denominator and once, in some ψ, in the numerator, except for the constants, whose product is the
//! bound Z⁺; shifts cancel too. Hence q(x) ≥ exp score(x) / Z⁺, and no weight exp score(x) / q(x) exceeds Z⁺.

use super::pass::{Parameters, Sweeper};
use super::plan::Plan;
use crate::method::exact::bucket::Domain;
use crate::method::exact::scaled::Scaled;
use crate::model::{FactorGraph, table};
use crate::numeric;
use crate::random::Stream;

/// The tables to sample from, all as logarithms.
pub(crate) struct Proposal<'p> {
    plan: &'p Plan,
    graph: &'p FactorGraph,
    tables: Vec<Vec<f64>>,
    minis: Vec<Mini>,
}

struct Mini {
    weight: f64,
    operands: Vec<Operand>,
}

struct Operand {
    table: usize,
    sign: f64,
    /// Stride of the eliminated variable, and strides of the others.
    own: usize,
    others: Vec<(usize, usize)>,
}

/// Scratch space for one draw.
#[derive(Default)]
pub(crate) struct Scratch {
    logs: Vec<f64>,
    mixture: Vec<f64>,
}

impl<'p> Proposal<'p> {
    /// Number of tables read per draw.
    pub fn tables(&self) -> usize {
        self.minis.iter().map(|mini| mini.operands.len()).sum()
    }

    /// Created from the messages of a forward sweep with positive weights; `graph` is the graph of the plan.
    pub fn new(
        sweeper: Sweeper<'p>,
        graph: &'p FactorGraph,
        parameters: Parameters,
        messages: Vec<Scaled>,
    ) -> Self {
        let plan = sweeper.plan;
        let logs = |mut table: Scaled| {
            table.make_log();
            debug_assert!(table.domain == Domain::Log || table.values.is_empty());
            table.values
        };
        let (factors, nodes) = (sweeper.factors.len(), plan.nodes.len());
        let minis = plan.nodes.iter().enumerate().map(|(r, node)| {
            let operand = |table: usize, sign: f64, scope: &[usize]| {
                let lengths: Vec<usize> = scope.iter().map(|&u| plan.states[u]).collect();
                let strides = table::strides(&lengths);
                let others = scope.iter().zip(&strides).skip(1);
                let others = others.map(|(&u, &stride)| (plan.variables[u], stride)).collect();
                Operand { table, sign, own: strides[0], others }
            };
            let own = node.factors.iter().map(|&f| operand(f, 1.0, &plan.scopes[f]));
            let children = node.children.iter().map(|&c| operand(factors + c, 1.0, &plan.nodes[c].others));
            let links = node.links.iter().map(|&(l, added)| {
                operand(factors + nodes + l, if added { 1.0 } else { -1.0 }, &plan.links[l].scope)
            });
            Mini { weight: parameters.weights[r], operands: own.chain(children).chain(links).collect() }
        });
        let minis = minis.collect();
        let tables = sweeper.factors.into_iter().chain(messages).map(logs).chain(parameters.shifts);
        Proposal { plan, graph, tables: tables.collect(), minis }
    }

    /// Draws a state and returns its log-weight. The log-weight is −∞ if the model forbids the state; then
    /// not all variables may have been drawn.
    pub fn draw(&self, random: &mut Stream, state: &mut [usize], scratch: &mut Scratch) -> f64 {
        let mut log_q = 0.0;
        for (i, group) in self.plan.groups.iter().enumerate().rev() {
            let states = self.plan.states[i];
            scratch.mixture.clear();
            scratch.mixture.resize(states, 0.0);
            for mini in &self.minis[group.nodes.clone()] {
                scratch.logs.clear();
                scratch.logs.resize(states, 0.0);
                for operand in &mini.operands {
                    let values = &self.tables[operand.table];
                    let base = operand.others.iter().fold(0, |at, &(u, stride)| at + state[u] * stride);
                    for (s, log) in scratch.logs.iter_mut().enumerate() {
                        *log += operand.sign * values[base + s * operand.own];
                    }
                }
                let best = scratch.logs.iter().fold(f64::NEG_INFINITY, |best: f64, &x| best.max(x));
                if best == f64::NEG_INFINITY {
                    return best;
                }
                let power = mini.weight.recip();
                scratch.logs.iter_mut().for_each(|x| *x = (*x - best) * power);
                numeric::exp_in_place(&mut scratch.logs);
                let share = mini.weight / scratch.logs.iter().sum::<f64>();
                scratch.mixture.iter_mut().zip(&scratch.logs).for_each(|(q, x)| *q += share * x);
            }
            let s = random.categorical(&scratch.mixture);
            log_q += (scratch.mixture[s] / scratch.mixture.iter().sum::<f64>()).ln();
            state[self.plan.variables[i]] = s;
        }
        self.graph.score(state) - log_q
    }
}
