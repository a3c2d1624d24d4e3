//! Measures of predictions.
//!
//! | space | measures |
//! |---|---|
//! | labels, hierarchy | Hamming loss, accuracy of whole sets, micro and macro F1, micro-averaged area under precision–recall |
//! | ranking | Kendall τ and Spearman ρ, means over rows; accuracy of whole orders |
//! | partition | Rand index, accuracy of whole partitions |
//! | all | mean of −ln p of the observed structure (log-loss) |
//!
//! The area under precision–recall is that of all pairs of row and label at once: Σ (Rₙ − Rₙ₋₁)·Pₙ over the
//! distinct probabilities.

use serde::{Deserialize, Serialize, Serializer};

use super::data::Space;
use super::{Decision, Guaranteed, Inputs, Prediction, Predictor, Ranks, Targets};
use crate::answer::Guarantee;
use crate::error::{Error, Result};
use crate::run::Run;

/// Number of bins of a reliability table.
const BINS: usize = 10;
/// Quantile of the normal distribution for 95% limits.
const QUANTILE: f64 = 1.959_963_984_540_054;
/// Probability that the guarantee of the log-loss, or of all marginals, fails.
const FAILURE: f64 = 0.01;

/// One bin of a reliability table: events whose predicted probability is in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bin {
    /// The interval of probabilities.
    pub from: f64,
    /// Its upper end, included in the last bin.
    pub to: f64,
    /// The number of events.
    pub count: u64,
    /// The mean predicted probability.
    pub predicted: f64,
    /// The share of the events that happened.
    pub observed: f64,
    /// Limits of that share: 95%, Wilson's interval.
    pub low: f64,
    /// Its upper limit.
    pub high: f64,
}

/// The measures of a predictor on a data set.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evaluation {
    /// The number of rows.
    pub rows: usize,
    /// The measures by name.
    pub measures: Vec<(String, f64)>,
    /// The reliability of the probabilities of single labels, nodes, pairs of items or pairs of elements.
    pub reliability: Vec<Bin>,
    /// The guarantee of the log-loss.
    #[serde(serialize_with = "as_json")]
    pub log_loss: Guarantee,
    /// The guarantee of the probabilities in the reliability table and in the area under precision–recall: exact,
    /// or bounds on the largest error of all of them.
    #[serde(serialize_with = "as_json")]
    pub marginals: Guarantee,
}

fn as_json<S: Serializer>(guarantee: &Guarantee, into: S) -> std::result::Result<S::Ok, S::Error> {
    guarantee.to_json().serialize(into)
}

impl Evaluation {
    /// A measure.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.measures.iter().find(|(own, _)| own == name).map(|(_, value)| *value)
    }
}

/// Evaluates a predictor. `decision` chooses the structures; without it, every measure has its own: sets of
/// labels above ½ for the Hamming loss and F1, orders of largest expected τ for τ and ρ, the most probable
/// structure for accuracies.
///
/// # Errors
/// If the targets do not fit, the decision does not apply, or the budget is exceeded.
pub fn evaluate(
    predictor: &Predictor,
    inputs: &Inputs,
    targets: &Targets,
    decision: Option<Decision>,
    run: &Run,
) -> Result<Evaluation> {
    if targets.rows() == 0 {
        return Err(Error::argument("targets", "there are no rows to evaluate"));
    }
    // The guarantees of all rows hold together.
    let failure = FAILURE / targets.rows() as f64;
    let logs = predictor.log_probabilities_with(inputs, targets, failure, run)?;
    let (marginals, radii): (Vec<Vec<f64>>, Vec<Guarantee>) = predictor
        .marginals_with(inputs, failure, run)?
        .into_iter()
        .map(|row| (row.value, row.guarantee))
        .unzip();
    let whole = predictor.predict(inputs, decision.unwrap_or(Decision::MostProbable), run)?;
    let mut measures: Vec<(String, f64)> = Vec::new();
    let mut put = |name: &str, value: f64| measures.push((name.into(), value));
    put("log_loss", -logs.iter().map(|log| log.value).sum::<f64>() / logs.len() as f64);
    let exact =
        (0..targets.rows()).filter(|&row| targets.structure(row).as_ref() == Some(&whole[row].structure));
    let accuracy = exact.count() as f64 / targets.rows() as f64;
    let mut events: Vec<(f64, bool)> = Vec::new();
    match targets {
        Targets::Sets(sets) => {
            let single = predictor.predict(inputs, decision.unwrap_or(Decision::Hamming), run)?;
            put(
                if predictor.space() == Space::Hierarchy { "path_accuracy" } else { "subset_accuracy" },
                accuracy,
            );
            let counts = Counts::new(&single, targets);
            put("hamming_loss", counts.hamming());
            put("micro_f1", counts.micro_f1());
            put("macro_f1", counts.macro_f1());
            for (row, own) in marginals.iter().enumerate() {
                let members = sets.row(row);
                let event = |(i, &p): (usize, &f64)| (p, members.binary_search(&(i as u32)).is_ok());
                events.extend(own.iter().enumerate().map(event));
            }
            put("au_prc", area(&events));
        }
        Targets::Ranks(ranks) => {
            let single = predictor.predict(inputs, decision.unwrap_or(Decision::Kendall), run)?;
            let n = ranks.items;
            let rows = single.iter().enumerate().map(|(row, one)| (places(&one.structure), ranks.row(row)));
            let (mut tau, mut rho, mut count) = (0.0, 0.0, 0.0);
            for (own, observed) in rows {
                if let (Some(t), Some(r)) = (kendall(&own, observed), spearman(&own, observed)) {
                    (tau, rho, count) = (tau + t, rho + r, count + 1.0);
                }
            }
            put("kendall_tau", tau / f64::max(count, 1.0));
            put("spearman_rho", rho / f64::max(count, 1.0));
            put("order_accuracy", accuracy);
            for (row, own) in marginals.iter().enumerate() {
                let observed = ranks.row(row);
                for i in 0..n {
                    for j in (i + 1..n)
                        .filter(|&j| observed[i] > 0 && observed[j] > 0 && observed[i] != observed[j])
                    {
                        events.push((own[i * n + j], observed[i] < observed[j]));
                    }
                }
            }
        }
        Targets::Blocks(blocks) => {
            put("partition_accuracy", accuracy);
            let n = blocks.elements;
            let (mut agreed, mut all) = (0.0, 0.0);
            for (row, own) in marginals.iter().enumerate() {
                let (observed, predicted) = (blocks.row(row), &whole[row].structure);
                for i in 0..n {
                    for j in i + 1..n {
                        let together = observed[i] == observed[j];
                        events.push((own[i * n + j], together));
                        agreed += f64::from(together == (predicted[i] == predicted[j]));
                        all += 1.0;
                    }
                }
            }
            put("rand_index", agreed / f64::max(all, 1.0));
        }
    }
    Ok(Evaluation {
        rows: targets.rows(),
        measures,
        reliability: reliability(&events),
        log_loss: mean_loss(&logs),
        marginals: largest_error(&radii),
    })
}

/// Intervals of some numbers that hold together, and their confidence. If there are none, the guarantee of what is
/// computed from the numbers: exact or heuristic.
type Joint = std::result::Result<(Vec<(f64, f64)>, f64), Guarantee>;

fn joint<'a>(each: impl Iterator<Item = (f64, &'a Guarantee)>) -> Joint {
    let (mut ends, mut failure, mut exact) = (Vec::new(), 0.0, true);
    for (value, guarantee) in each {
        match guarantee {
            Guarantee::Exact => ends.push((value, value)),
            Guarantee::Bounds { low, high, confidence } => {
                ends.push((*low, *high));
                (failure, exact) = (failure + (1.0 - confidence), false);
            }
            other => return Err(other.clone()),
        }
    }
    if exact {
        return Err(Guarantee::Exact);
    }
    // Without the rounding errors of the sum.
    let confidence = ((1.0 - failure) * 1e12).round() / 1e12;
    if confidence <= 0.0 {
        let reason = format!("the guarantees of {} rows do not hold together", ends.len());
        return Err(Guarantee::Heuristic { reason });
    }
    Ok((ends, confidence))
}

/// The guarantee of the mean of −ln p over rows.
fn mean_loss(logs: &[Guaranteed<f64>]) -> Guarantee {
    let rows = logs.len() as f64;
    match joint(logs.iter().map(|log| (log.value, &log.guarantee))) {
        Ok((ends, confidence)) => Guarantee::Bounds {
            low: -ends.iter().map(|(_, high)| high).sum::<f64>() / rows,
            high: -ends.iter().map(|(low, _)| low).sum::<f64>() / rows,
            confidence,
        },
        Err(guarantee) => guarantee,
    }
}

/// The guarantee of the largest error of all rows.
fn largest_error(radii: &[Guarantee]) -> Guarantee {
    match joint(radii.iter().map(|own| (0.0, own))) {
        Ok((ends, confidence)) => {
            let high = ends.iter().map(|(_, high)| *high).fold(0.0, f64::max);
            Guarantee::Bounds { low: 0.0, high, confidence }
        }
        Err(guarantee) => guarantee,
    }
}

/// The place of every item, from 1.
fn places(order: &[u32]) -> Vec<u32> {
    let mut places = vec![0; order.len()];
    order.iter().enumerate().for_each(|(place, &item)| places[item as usize] = place as u32 + 1);
    places
}

/// Kendall τ of two rankings: pairs in the same order minus pairs in the other order, over all pairs that
/// both order. `None` if there are none.
pub fn kendall(a: &[u32], b: &[u32]) -> Option<f64> {
    let (mut sum, mut count) = (0i64, 0i64);
    for i in 0..a.len() {
        for j in i + 1..a.len() {
            let ranked =
                [a[i], a[j], b[i], b[j]].iter().all(|rank| *rank > 0) && a[i] != a[j] && b[i] != b[j];
            if ranked {
                sum += if (a[i] < a[j]) == (b[i] < b[j]) { 1 } else { -1 };
                count += 1;
            }
        }
    }
    (count > 0).then(|| sum as f64 / count as f64)
}

/// Spearman ρ: the correlation of the ranks of the items that both rank; ties have their mean rank. `None`
/// if one of the rankings is constant.
pub fn spearman(a: &[u32], b: &[u32]) -> Option<f64> {
    let both: Vec<usize> = (0..a.len()).filter(|&i| a[i] > 0 && b[i] > 0).collect();
    let ranks = |of: &[u32]| -> Vec<f64> {
        let rank = |&i: &usize| {
            let less = both.iter().filter(|&&j| of[j] < of[i]).count();
            let equal = both.iter().filter(|&&j| of[j] == of[i]).count();
            less as f64 + 0.5 * (equal as f64 + 1.0)
        };
        both.iter().map(rank).collect()
    };
    let (x, y) = (ranks(a), ranks(b));
    let mean = 0.5 * (both.len() as f64 + 1.0);
    let product = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| (x - mean) * (y - mean)).sum::<f64>();
    let size = (product(&x, &x) * product(&y, &y)).sqrt();
    (size > 0.0).then(|| product(&x, &y) / size)
}

/// True and false positives and negatives of every label.
struct Counts {
    rows: usize,
    labels: Vec<(f64, f64, f64)>,
}

impl Counts {
    fn new(predictions: &[Prediction], targets: &Targets) -> Self {
        let mut labels = vec![(0.0, 0.0, 0.0); targets.width()];
        for (row, one) in predictions.iter().enumerate() {
            let observed = targets.structure(row).unwrap_or_default();
            for ((own, &y), &seen) in labels.iter_mut().zip(&one.structure).zip(&observed) {
                match (y, seen) {
                    (1, 1) => own.0 += 1.0,
                    (1, _) => own.1 += 1.0,
                    (_, 1) => own.2 += 1.0,
                    _ => {}
                }
            }
        }
        Counts { rows: predictions.len(), labels }
    }

    fn hamming(&self) -> f64 {
        let wrong: f64 = self.labels.iter().map(|(_, extra, lost)| extra + lost).sum();
        wrong / (self.rows * self.labels.len()).max(1) as f64
    }

    fn micro_f1(&self) -> f64 {
        let sum = self.labels.iter().fold((0.0, 0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1, a.2 + b.2));
        f1(sum)
    }

    fn macro_f1(&self) -> f64 {
        self.labels.iter().copied().map(f1).sum::<f64>() / self.labels.len().max(1) as f64
    }
}

/// F1 from true positives, false positives and false negatives; 0 if there are none of them.
fn f1((hit, extra, lost): (f64, f64, f64)) -> f64 {
    if hit == 0.0 { 0.0 } else { 2.0 * hit / (2.0 * hit + extra + lost) }
}

/// The area under precision–recall of events with predicted probabilities; 0 if none happened.
pub fn area(events: &[(f64, bool)]) -> f64 {
    let mut sorted = events.to_vec();
    sorted.sort_by(|a, b| b.0.total_cmp(&a.0));
    let positive = sorted.iter().filter(|(_, happened)| *happened).count() as f64;
    if positive == 0.0 {
        return 0.0;
    }
    let (mut hits, mut seen, mut sum) = (0.0, 0.0, 0.0);
    for group in sorted.chunk_by(|a, b| a.0 == b.0) {
        let new = group.iter().filter(|(_, happened)| *happened).count() as f64;
        (hits, seen) = (hits + new, seen + group.len() as f64);
        sum += new / positive * (hits / seen);
    }
    sum
}

/// Bins of equal width; empty bins are left out.
pub fn reliability(events: &[(f64, bool)]) -> Vec<Bin> {
    let mut bins = vec![(0u64, 0.0, 0u64); BINS];
    for &(p, happened) in events {
        let bin = &mut bins[((p * BINS as f64) as usize).min(BINS - 1)];
        (bin.0, bin.1, bin.2) = (bin.0 + 1, bin.1 + p, bin.2 + u64::from(happened));
    }
    let width = 1.0 / BINS as f64;
    let made = |(i, (count, sum, happened)): (usize, (u64, f64, u64))| {
        let n = count as f64;
        let share = happened as f64 / n;
        let square = QUANTILE * QUANTILE;
        let centre = (share + square / (2.0 * n)) / (1.0 + square / n);
        let radius =
            QUANTILE / (1.0 + square / n) * (share * (1.0 - share) / n + square / (4.0 * n * n)).sqrt();
        Bin {
            from: i as f64 * width,
            to: (i + 1) as f64 * width,
            count,
            predicted: sum / n,
            observed: share,
            low: (centre - radius).max(0.0),
            high: (centre + radius).min(1.0),
        }
    };
    bins.into_iter().enumerate().filter(|(_, bin)| bin.0 > 0).map(made).collect()
}

/// The ranks of a structure, for measures of orders.
impl From<&Prediction> for Ranks {
    fn from(prediction: &Prediction) -> Self {
        let ranks = places(&prediction.structure);
        Ranks { items: ranks.len(), ranks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_agree_with_values_by_hand() {
        assert_eq!(kendall(&[1, 2, 3], &[1, 2, 3]), Some(1.0));
        assert_eq!(kendall(&[1, 2, 3], &[1, 3, 2]), Some(1.0 / 3.0));
        assert_eq!(kendall(&[1, 2, 3], &[0, 2, 1]), Some(-1.0));
        assert_eq!(kendall(&[1, 2], &[1, 1]), None);
        assert!((spearman(&[1, 2, 3], &[1, 3, 2]).unwrap() - 0.5).abs() < 1e-15);
        assert_eq!(spearman(&[1, 2, 3], &[3, 2, 1]), Some(-1.0));
        // As scikit-learn's average_precision_score gives for these scores.
        let scores = [(0.1, false), (0.4, false), (0.35, true), (0.8, true)];
        assert!((area(&scores) - 0.833_333_333_333_333_3).abs() < 1e-15);
        assert!((area(&[(0.5, true), (0.5, false)]) - 0.5).abs() < 1e-15);
        assert_eq!((area(&[(0.3, false)]), area(&[])), (0.0, 0.0));
        let bins = reliability(&[(0.05, false), (0.05, true), (1.0, true)]);
        assert_eq!((bins.len(), bins[0].count, bins[0].observed, bins[1].count), (2, 2, 0.5, 1));
        assert!(bins[0].low > 0.0 && bins[0].low < 0.5 && bins[0].high > 0.5 && bins[1].high == 1.0);
        assert_eq!((f1((0.0, 1.0, 2.0)), f1((1.0, 0.0, 0.0))), (0.0, 1.0));
    }

    #[test]
    fn guarantees_of_rows_are_combined() {
        let exact = |value: f64| Guaranteed { value, guarantee: Guarantee::Exact };
        let bounds = |low: f64, high: f64, confidence: f64| Guarantee::Bounds { low, high, confidence };
        let within = Guaranteed { value: -2.0, guarantee: bounds(-3.0, -1.5, 0.75) };
        assert_eq!(mean_loss(&[exact(-1.0), exact(-2.0)]), Guarantee::Exact);
        assert_eq!(mean_loss(&[exact(-1.0), within.clone()]), bounds(1.25, 2.0, 0.75));
        assert_eq!(mean_loss(&[within.clone(), within.clone()]), bounds(1.5, 3.0, 0.5));
        let many = mean_loss(&vec![within; 4]);
        assert!(matches!(&many, Guarantee::Heuristic { reason } if reason.contains("4 rows")), "{many:?}");
        let radii = [bounds(0.0, 0.02, 0.875), Guarantee::Exact, bounds(0.0, 0.03, 0.875)];
        assert_eq!(largest_error(&radii), bounds(0.0, 0.03, 0.75));
        let reason = Guarantee::Heuristic { reason: "approximate".into() };
        assert_eq!(largest_error(&[radii[0].clone(), reason.clone()]), reason);
    }
}
