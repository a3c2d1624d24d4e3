//! Table 2, hypertree columns: mean squared error of log Z of binary trees over words.
//!
//! The scores of the authors' models do not depend on the span: every node with symbol k has score φₖ, and all
//! rules are allowed. So log Z = ln Catalan(T − 1) + (2T − 1)·ln Σₖ exp φₖ, for any number of symbols.

use zhat::internal::numeric::log_sum_exp;
use zhat::model::{Hypertree, Rules, Spans, Symbols};
use zhat::{Chain, Model, Query, Result};

use super::rdp::{self, Estimator};
use super::{Setting, header, line};
use crate::output;

/// For N = 2000 and 10,000: T, and the paper's mean squared errors for D, I, L in the rows top K = 500 and 1000
/// and K₁ = K₂ = 10, 100 and 200, whatever the percentages in its labels.
const PAPER: [(usize, usize, [[f64; 3]; 5]); 2] = [
    (
        2000,
        15,
        [
            [36.127, 27.435, 21.78],
            [2.842, 2.404, 2.047],
            [26.331, 37.669, 48.863],
            [1.193, 1.530, 1.384],
            [0.445, 0.544, 0.599],
        ],
    ),
    (
        10_000,
        5,
        [
            [78.632, 63.762, 43.556],
            [35.929, 26.677, 17.099],
            [3.376, 5.012, 7.256],
            [0.299, 0.447, 0.576],
            [0.148, 0.246, 0.294],
        ],
    ),
];

/// The number of binary trees with `leaves` leaves, as a logarithm: Catalan(n) = Π 2(2k − 1)/(k + 1) for k = 1 … n.
fn log_catalan(leaves: usize) -> f64 {
    (1..leaves).map(|k| (2.0 * (2 * k - 1) as f64 / (k + 1) as f64).ln()).sum()
}

/// The trees over `words` words whose nodes have these scores, and log Z.
fn trees(words: usize, scores: &[f64]) -> Result<(Model, f64)> {
    let log_z = log_catalan(words) + (2 * words - 1) as f64 * log_sum_exp(scores);
    let spans = Spans::Factored { spans: vec![1.0; words * words].into(), symbols: scores.to_vec().into() };
    let symbols = Symbols::same(scores.len());
    let model =
        Hypertree::new(symbols, scores.repeat(words).into(), vec![words], Rules::Any)?.with_spans(spans)?;
    Ok((model.into(), log_z))
}

/// The estimators, with the index of the paper's row if there is one.
fn estimators(symbols: usize) -> Vec<(Estimator, Option<usize>)> {
    let mut all = vec![
        (Estimator::top_symbols(symbols, 500), Some(0)),
        (Estimator::top_symbols(symbols, 1000), Some(1)),
    ];
    for (row, half) in [(2, 10), (3, 100), (4, 200)] {
        all.push((Estimator::paper_on_trees(half, true), Some(row)));
        all.push((Estimator::paper_on_trees(half, false), Some(row)));
        all.push((Estimator::threshold_on_trees("local", 2 * half), None));
    }
    all
}

pub fn run(setting: &Setting<'_>) -> Result<()> {
    rdp::introduce(
        "Mean squared error of log Z of binary trees, for dense (D), intermediate (I) and long-tailed (L) scores. The scores of a node depend on its symbol only, so\n\
         log Z is known in closed form, and symbols chosen by their scores (threshold, local) have no variance: these models are trivial. For others see rdp-trees.",
        setting,
    )?;
    for (symbols, words, paper) in PAPER.iter().filter(|(symbols, ..)| !setting.quick || *symbols == 2000) {
        let mut models = Vec::new();
        for sharpness in rdp::SHARPENING {
            let chain = rdp::chain(*symbols, sharpness, setting)?;
            let scores =
                chain.get::<Chain>().map_or(Vec::new(), |chain| chain.emissions()[..*symbols].to_vec());
            models.push(trees(*words, &scores)?);
        }
        let truths: Vec<String> = models.iter().map(|(_, log_z)| format!("{log_z:.4}")).collect();
        output::print(&format!(
            "Trees, N = {symbols}, T = {words}: log Z (D, I, L): {}\n\n{}",
            truths.join(", "),
            header(&["estimator", "log Z, D", "I", "L", "seconds per run"])
        ))?;
        for (estimator, printed) in estimators(*symbols) {
            let (mut cells, mut seconds) = (vec![estimator.name.clone()], 0.0);
            for (m, (model, log_z)) in models.iter().enumerate() {
                let errors = rdp::errors(model, Query::LogPartition, &estimator, *log_z, setting)?;
                cells.push(rdp::beside(errors.mean_squared(), printed.map(|row| paper[row][m])));
                seconds += errors.seconds / 3.0;
            }
            cells.push(super::short(seconds));
            output::print(&line(&cells))?;
        }
        output::print("\n")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use zhat::Run;
    use zhat::catalogue::Settings;

    #[test]
    fn the_closed_form_is_the_exact_log_partition() {
        for (words, count) in (1..).zip([1.0f64, 1.0, 2.0, 5.0, 14.0, 42.0]) {
            assert!((log_catalan(words) - count.ln()).abs() < 1e-12);
            let (model, log_z) = trees(words, &[0.3, -1.0, 2.0]).unwrap();
            let query = Query::LogPartition;
            let exact = rdp::ask(&model, query, "inside-outside", &Settings::new(), &Run::default()).unwrap();
            assert!((exact - log_z).abs() < 1e-12, "{words}: {exact} {log_z}");
        }
    }
}
