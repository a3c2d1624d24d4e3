//! Table 2: mean squared error of log Z and entropy of chains, and of log Z of trees.

use zhat::catalogue::Settings;
use zhat::{Query, Result};

use super::rdp::{self, Estimator};
use super::{Setting, header, line, rdp_hypertree};
use crate::output;

/// The paper's mean squared errors of log Z for D, I, L, then of the entropy.
type Printed = [f64; 6];

/// For N = 2000 and 10,000: top-K rows (K = 500, 1000 whatever the label says), then 1%, 10%, 20%.
const PAPER: [(usize, [Printed; 5]); 2] = [
    (
        2000,
        [
            [3.874, 1.015, 0.162, 443.7, 84.35, 8.011],
            [0.990, 0.251, 0.031, 131.8, 22.100, 1.816],
            [0.146, 0.066, 0.076, 5.925, 1.989, 0.691],
            [0.067, 0.033, 0.055, 2.116, 1.298, 0.316],
            [0.046, 0.020, 0.026, 1.326, 0.730, 0.207],
        ],
    ),
    (
        10_000,
        [
            [6.395, 6.995, 6.381, 227.36, 171.97, 141.91],
            [2.134, 2.013, 1.647, 85.063, 59.877, 46.853],
            [0.078, 0.616, 0.734, 6.450, 6.379, 4.150],
            [0.024, 0.031, 0.024, 0.513, 1.539, 0.275],
            [0.004, 0.003, 0.003, 0.144, 0.080, 0.068],
        ],
    ),
];

/// The estimators, with the index of the paper's row if there is one.
fn estimators(states: usize) -> Vec<(Estimator, Option<usize>)> {
    let mut all = vec![(Estimator::top(states, 500), Some(0)), (Estimator::top(states, 1000), Some(1))];
    for (row, percent) in [(2, 1), (3, 10), (4, 20)] {
        let chosen = states * percent / 100;
        all.push((Estimator::paper("local-global", percent, chosen), Some(row)));
        for proposal in ["local-global", "forward", "two-pass"] {
            all.push((Estimator::threshold(proposal, percent, chosen), None));
        }
    }
    all
}

pub fn run(setting: &Setting<'_>) -> Result<()> {
    // First, because it takes seconds.
    rdp_hypertree::run(setting)?;
    rdp::introduce(
        "Mean squared error of log Z and of the entropy of chains, for dense (D), intermediate (I) and long-tailed (L) emissions.\n\
         The paper's models with N = 2000 are not public; the generator for N = 10,000 is used for both.",
        setting,
    )?;
    for (states, paper) in PAPER.iter().filter(|(states, _)| !setting.quick || *states == 2000) {
        let mut models = Vec::new();
        for sharpness in rdp::SHARPENING {
            let model = rdp::chain(*states, sharpness, setting)?;
            let exact = |query| rdp::ask(&model, query, "forward-backward", &Settings::new(), &setting.run);
            let truths = [exact(Query::LogPartition)?, exact(Query::Entropy)?];
            models.push((model, truths));
        }
        let truths: Vec<String> = models.iter().map(|(_, [z, h])| format!("{z:.4} and {h:.4}")).collect();
        let names = ["estimator", "log Z, D", "I", "L", "entropy, D", "I", "L", "seconds per run"];
        output::print(&format!(
            "N = {states}: log Z and entropy (D, I, L): {}\n\n{}",
            truths.join(", "),
            header(&names)
        ))?;
        for (estimator, printed) in estimators(*states) {
            let mut cells = vec![estimator.name.clone()];
            let mut seconds = 0.0;
            for (q, query) in [Query::LogPartition, Query::Entropy].into_iter().enumerate() {
                for (m, (model, truths)) in models.iter().enumerate() {
                    let errors = rdp::errors(model, query, &estimator, truths[q], setting)?;
                    cells.push(rdp::beside(errors.mean_squared(), printed.map(|row| paper[row][3 * q + m])));
                    seconds += if q == 0 { errors.seconds / 3.0 } else { 0.0 };
                }
            }
            cells.push(super::short(seconds));
            output::print(&line(&cells))?;
        }
        output::print("\n")?;
    }
    Ok(())
}
