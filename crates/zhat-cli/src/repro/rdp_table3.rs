//! Table 3: bias and variance of the randomized forward pass for N = 2000, and the predictions of Theorems
//! B.1, B.3 and B.4.

use zhat::catalogue::Settings;
use zhat::{Chain, Query, Result};

use super::rdp::{self, Estimator};
use super::rdp_variance::predict;
use super::{Setting, header, line, short};
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
        "Bias and variance of log Ẑ, N = 2000. The other columns are V[Ẑ]/Z², which equals V[log Ẑ] to first order and is meaningful only if it is well\n\
         below 1. B.1: the theorem at every position with the exact marginals. B.3: the variance added by the last position, with the value of\n\
         Eq. 80 as printed in parentheses. B.4: the recursion over all positions, corrected; it is exact.",
        setting,
    )?;
    let names =
        ["estimator", "D: bias", "variance", "B.1", "B.3", "B.4", "L: bias", "variance", "B.1", "B.3", "B.4"];
    output::print(&header(&names))?;
    let mut models = Vec::new();
    for sharpness in [rdp::SHARPENING[0], rdp::SHARPENING[2]] {
        let model = rdp::chain(STATES, sharpness, setting)?;
        let query = Query::LogPartition;
        let truth = rdp::ask(&model, query, "forward-backward", &Settings::new(), &setting.run)?;
        models.push((model, truth));
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
        for (m, (model, truth)) in models.iter().enumerate() {
            let errors = rdp::errors(model, Query::LogPartition, &estimator, *truth, setting)?;
            cells.push(rdp::beside(errors.bias, row.map(|row| PAPER[row][2 * m])));
            cells.push(rdp::beside(errors.variance, row.map(|row| PAPER[row][2 * m + 1])));
            cells.extend(match (chosen, model.get::<Chain>()) {
                (Some(chosen), Some(chain)) => {
                    let found = setting.run.install(|| predict(chain, chosen - 1, 1))?;
                    let last = format!("{} ({})", short(found.last_step), short(found.last_step_printed));
                    [short(found.independent), last, short(found.recursion)]
                }
                _ => Default::default(),
            });
        }
        output::print(&line(&cells))?;
    }
    Ok(())
}
