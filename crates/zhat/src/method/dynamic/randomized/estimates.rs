//! The estimates of several replicates for a batch.

use crate::answer::Guarantee;
use crate::method::sampling::unbiased;
use crate::numeric;

/// A warning that names the items of a batch whose estimate is 0 without a proof that Z = 0; `None` if there are none.
/// The last argument has the names of the structures, of an item, and of what more may help.
pub(crate) fn missed_warning(
    missed: &[usize],
    batch: usize,
    (structures, item, more): (&str, &str, &str),
) -> Option<String> {
    let places = match missed {
        [] => return None,
        _ if batch == 1 => String::new(),
        [one] => format!(" of {item} {one}"),
        [first @ .., last] if missed.len() <= 8 => {
            let first: Vec<String> = first.iter().map(usize::to_string).collect();
            format!(" of {item}s {} and {last}", first.join(", "))
        }
        all => format!(" of {} {item}s, the first of them {item} {}", all.len(), all[0]),
    };
    Some(format!(
        "every replicate missed all {structures} of positive weight{places}, so the estimate of Z is 0; more {more} may \
         find some"
    ))
}

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
