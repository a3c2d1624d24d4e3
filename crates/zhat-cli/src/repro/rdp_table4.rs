//! Table 4: mean squared error of log Z by proposal.

use zhat::catalogue::Settings;
use zhat::{Query, Result};

use super::rdp::{self, Estimator};
use super::{Setting, header, line};
use crate::output;

/// The paper's values for D, I, L. The paper does not state N and K; the closest setting of Table 2 is N =
/// 2000 at 10%.
const PAPER: [(&str, Option<[f64; 3]>); 6] = [
    ("uniform", Some([0.655, 11.05, 0.160])),
    ("local", Some([2.908, 9.171, 0.481])),
    ("global", Some([0.453, 0.096, 0.100])),
    ("local-global", Some([0.028, 0.017, 0.022])),
    ("forward", None),
    ("two-pass", None),
];

pub fn run(setting: &Setting<'_>) -> Result<()> {
    rdp::introduce(
        "Mean squared error of log Z of chains by proposal, K = 10% of the states: the selection of the paper and that of zhat (threshold).",
        setting,
    )?;
    for states in if setting.quick { vec![2000] } else { vec![2000, 10_000] } {
        output::print(&format!("N = {states}\n\n{}", header(&["proposal", "selection", "D", "I", "L"])))?;
        let mut models = Vec::new();
        for sharpness in rdp::SHARPENING {
            let model = rdp::chain(states, sharpness, setting)?;
            let query = Query::LogPartition;
            let truth = rdp::ask(&model, query, "forward-backward", &Settings::new(), &setting.run)?;
            models.push((model, truth));
        }
        let chosen = states / 10;
        for (proposal, paper) in PAPER {
            let ours = Estimator::threshold(proposal, 10, chosen);
            for (name, estimator) in [("paper", Estimator::paper(proposal, 10, chosen)), ("threshold", ours)]
            {
                let mut cells = vec![proposal.to_owned(), name.to_owned()];
                for (m, (model, truth)) in models.iter().enumerate() {
                    let errors = rdp::errors(model, Query::LogPartition, &estimator, *truth, setting)?;
                    let printed = paper.filter(|_| name == "paper").map(|values| values[m]);
                    cells.push(rdp::beside(errors.mean_squared(), printed));
                }
                output::print(&line(&cells))?;
            }
        }
        output::print("\n")?;
    }
    Ok(())
}
