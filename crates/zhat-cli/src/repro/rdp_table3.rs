//! Table 3: bias and variance of the randomized forward, N = 2000, and what Theorem B.1 predicts.

use zhat::catalogue::{self, AnyAnswer, Choice, Sequences, Settings};
use zhat::randomized::Proposal;
use zhat::{Model, Query, Result};

use super::rdp::{self, Estimator};
use super::{Setting, header, line};
use crate::output;

const STATES: usize = 2000;

/// Bias and variance for dense emissions, then for long-tailed ones.
const PAPER: [[f64; 4]; 5] = [
    [-1.968, 0.0, -0.403, 0.0],
    [-0.995, 0.0, -0.177, 0.0],
    [-0.066, 0.141, -0.050, 0.074],
    [-0.030, 0.066, -0.027, 0.054],
    [-0.013, 0.046, -0.003, 0.026],
];

pub fn run(setting: &Setting<'_>) -> Result<()> {
    rdp::introduce(
        "Bias and variance of log Ẑ, N = 2000. Theorem B.1, applied to every position with the exact marginals, predicts V[Ẑ]/Z², which is\n\
         V[log Ẑ] to first order: only of use where it is well below 1.",
        setting,
    )?;
    let names = ["estimator", "D: bias", "variance", "predicted", "L: bias", "variance", "predicted"];
    output::print(&header(&names))?;
    let mut models = Vec::new();
    for sharpness in [rdp::SHARPENING[0], rdp::SHARPENING[2]] {
        let model = rdp::chain(STATES, sharpness, setting)?;
        let query = Query::LogPartition;
        let truth = rdp::ask(&model, query, "forward-backward", &Settings::new(), &setting.run)?;
        let marginals = marginals(&model, setting)?;
        models.push((model, truth, marginals));
    }
    let mut estimators: Vec<(Estimator, Option<usize>, Option<usize>)> =
        vec![(Estimator::top(STATES, 500), Some(0), None), (Estimator::top(STATES, 1000), Some(1), None)];
    for (row, percent) in [(2, 1), (3, 10), (4, 20)] {
        let chosen = STATES * percent / 100;
        estimators.push((Estimator::paper("local-global", percent, chosen), Some(row), Some(chosen)));
        estimators.push((Estimator::threshold("two-pass", percent, chosen), None, None));
    }
    for (estimator, row, chosen) in estimators {
        let mut cells = vec![estimator.name.clone()];
        for (m, (model, truth, marginals)) in models.iter().enumerate() {
            let errors = rdp::errors(model, Query::LogPartition, &estimator, *truth, setting)?;
            cells.push(rdp::beside(errors.bias, row.map(|row| PAPER[row][2 * m])));
            cells.push(rdp::beside(errors.variance, row.map(|row| PAPER[row][2 * m + 1])));
            let prediction = chosen.map(|chosen| predict(model, marginals, chosen - 1));
            cells.push(prediction.transpose()?.map_or_else(String::new, super::short));
        }
        output::print(&line(&cells))?;
    }
    Ok(())
}

/// P(xₜ = i), position after position.
fn marginals(model: &Model, setting: &Setting<'_>) -> Result<Vec<f64>> {
    let choice = Choice::parse("forward-backward");
    match catalogue::answer(model, Query::Marginals, &choice, &Settings::new(), &setting.run)? {
        AnyAnswer::Sequences(answer) => match answer.value {
            Sequences::Marginals64(marginals) => Ok(marginals.values),
            Sequences::Marginals32(marginals) => Ok(marginals.values.into_iter().map(f64::from).collect()),
            _ => Err(rdp::odd()),
        },
        _ => Err(rdp::odd()),
    }
}

/// Theorem B.1 with one draw from the tail at every position: Πₜ (1 + Vₜ) − 1 with
/// Vₜ = Σ_tail γₜ(i)²/qₜ(i) − (Σ_tail γₜ(i))², q renormalised over the tail.
fn predict(model: &Model, marginals: &[f64], top: usize) -> Result<f64> {
    let Model::Chain64(chain) = model else { return Err(rdp::odd()) };
    let mut second_moment = 1.0;
    for (t, marginal) in marginals.chunks_exact(chain.states()).enumerate() {
        let q = Proposal::LocalGlobal.probabilities(chain, 0, t)?;
        let mut order: Vec<usize> = (0..q.len()).collect();
        order.sort_by(|&a, &b| q[b].total_cmp(&q[a]));
        let tail = &order[top..];
        let total: f64 = tail.iter().map(|&i| q[i]).sum();
        let squares: f64 = tail.iter().map(|&i| marginal[i].powi(2) * total / q[i]).sum();
        let mass: f64 = tail.iter().map(|&i| marginal[i]).sum();
        second_moment *= 1.0 + squares - mass * mass;
    }
    Ok(second_moment - 1.0)
}
