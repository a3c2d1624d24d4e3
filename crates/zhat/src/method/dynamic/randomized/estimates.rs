//! The estimates of several replicates for a batch.

use crate::answer::Guarantee;
use crate::method::sampling::unbiased;
use crate::numeric;

/// log Ẑᵣ of every replicate and item of a batch.
#[derive(Clone, Debug)]
pub(crate) struct LogEstimates {
    /// By item and replicate.
    logs: Vec<Vec<f64>>,
}

impl LogEstimates {
    /// The estimates of every item, one per replicate.
    pub fn new(logs: Vec<Vec<f64>>) -> Self {
        LogEstimates { logs }
    }

    /// log of the mean of the estimates of an item.
    pub fn log_partition(&self, b: usize) -> f64 {
        numeric::log_sum_exp(&self.logs[b]) - (self.logs[b].len() as f64).ln()
    }

    /// The same for every item.
    pub fn log_partitions(&self) -> Vec<f64> {
        (0..self.logs.len()).map(|b| self.log_partition(b)).collect()
    }

    /// Ẑᵣ/ΣẐ of an item; zero if all are zero.
    pub fn shares(&self, b: usize) -> Vec<f64> {
        let total = numeric::log_sum_exp(&self.logs[b]);
        let share = |log: &f64| if total == f64::NEG_INFINITY { 0.0 } else { (log - total).exp() };
        self.logs[b].iter().map(share).collect()
    }

    /// Whether every estimate of every item is zero.
    pub fn all_missed(&self) -> bool {
        self.logs.iter().flatten().all(|&log| log == f64::NEG_INFINITY)
    }

    /// The guarantees of log Ẑ.
    pub fn guarantees(&self, confidence: f64, rounding: f64) -> Guarantee {
        Guarantee::each(self.logs.iter().map(|logs| unbiased(logs, confidence, rounding).1).collect())
    }

    /// Of `count` samples of an item in turn from the replicates, the replicate that each is drawn from and its
    /// log weight. Samples of a replicate whose estimate is zero come from another one. Empty if all estimates
    /// are zero.
    pub fn turns(&self, b: usize, count: usize) -> Vec<(usize, f64)> {
        let logs = &self.logs[b];
        let Some(possible) = logs.iter().position(|&log| log > f64::NEG_INFINITY) else { return Vec::new() };
        let turn = |s: usize| {
            let r = s % logs.len();
            (if logs[r] > f64::NEG_INFINITY { r } else { possible }, logs[r])
        };
        (0..count).map(turn).collect()
    }
}
