//! Exact log Z of a cyclic sequence model: A = log tr Tᴺ, where T leads from the last K states to the next K.
//!
//! A step takes (x₁, …, x_K) to (x₂, …, x_K, y) with the score θ⁰(y) + Σ_l θˡ(x_{K+1−l}, y). For each first window the sums are carried around the cycle in logarithms.
//! Cost: N·C^{2K+1} operations, C^K + C^{K+1} numbers a thread. Exact up to rounding, which grows with N.
//!
//! Reference: Y. Jernite, A. M. Rush, D. Sontag, *A fast variational approach for learning Markov random field language models*, ICML 2015, Section 4.2.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::answer::{Answer, Diagnostics, Estimate, Promise};
use crate::error::{Error, Result};
use crate::forecast::{Forecast, Forecasts};
use crate::model::SequenceMrf;
use crate::numeric::{log_sum_exp, log_sum_exp_over_slabs, rounding_allowance};
use crate::query::{LogPartition, Query};
use crate::run::Run;

const NAME: &str = "transfer-matrix";

/// The trace of a power of the transfer matrix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TransferMatrix {}

impl Forecasts<SequenceMrf> for TransferMatrix {
    fn forecast(&self, model: &SequenceMrf, _: Query, run: &Run) -> Forecast {
        let windows = (model.states() as f64).powi(model.context() as i32);
        let entries = windows * model.states() as f64;
        Forecast {
            bytes: 8.0 * entries + 8.0 * run.threads() as f64 * (2.0 * windows + entries),
            seconds: 3e-9 * model.length() as f64 * windows * entries,
            promise: Promise::Exact,
        }
    }
}

impl LogPartition<SequenceMrf> for TransferMatrix {
    fn log_partition(&self, model: &SequenceMrf, run: &Run) -> Result<Estimate> {
        let clock = run.start(NAME);
        run.require_memory(NAME, self.forecast(model, Query::LogPartition, run).bytes)?;
        let (states, context) = (model.states(), model.context());
        let windows = states.pow(context as u32);
        // The oldest state is the first digit of a window, so that windows which differ in it alone lie `apart` from each other.
        let apart = windows / states;
        let score = |window: usize, y: usize| {
            let mut rest = window;
            let mut score = model.unary()[y];
            for l in 1..=context {
                score += model.interaction(l, rest % states, y);
                rest /= states;
            }
            score
        };
        // Entry (oldest, the K−1 that stay, y).
        let steps: Vec<f64> = (0..windows * states).map(|i| score(i / states, i % states)).collect();
        let around = |first: usize| -> Result<f64> {
            let mut sums = vec![f64::NEG_INFINITY; windows];
            let mut products = vec![0.0; windows * states];
            sums[first] = 0.0;
            for _ in 0..model.length() {
                clock.check()?;
                for (i, product) in products.iter_mut().enumerate() {
                    *product = sums[i / states] + steps[i];
                }
                log_sum_exp_over_slabs(&products, &mut sums);
            }
            Ok(sums[first])
        };
        debug_assert_eq!(apart * states, windows);
        let sums: Vec<f64> =
            run.install(|| (0..windows).into_par_iter().map(around).collect::<Result<_>>())?;
        let value = log_sum_exp(&sums);
        if value == f64::NEG_INFINITY {
            return Err(Error::ZeroPartition);
        }
        let (unary, pairs) = model.magnitude();
        let size = model.length() as f64 * (unary + context as f64 * pairs + (states as f64).ln());
        let mut diagnostics = Diagnostics::new(NAME);
        let operations = model.length() * (states + context * 40 + 8) + windows;
        diagnostics.rounding = rounding_allowance(operations as f64, size);
        diagnostics.seconds = clock.seconds();
        Ok(Answer::exact(value, diagnostics))
    }
}
