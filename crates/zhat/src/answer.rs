//! Answers: a value, its guarantee, and diagnostics about how it was computed.

use serde_json::{Map, Value, json};

use crate::decimal;

/// A value with its guarantee.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer<T> {
    /// The value.
    pub value: T,
    /// The guarantee for the value.
    pub guarantee: Guarantee,
    /// How the value was computed.
    pub diagnostics: Diagnostics,
}

/// An answer that is one number: nats for log Z and entropy.
pub type Estimate = Answer<f64>;

/// The guarantee of an answer. Tests check it for every method.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Guarantee {
    /// Correct up to the rounding allowance in the diagnostics.
    Exact,
    /// The true value lies in [low, high] with this confidence; 1 means certified. An end may be infinite.
    Bounds {
        /// Lower end.
        low: f64,
        /// Upper end.
        high: f64,
        /// Probability, over the method's randomness, that the interval contains the true value.
        confidence: f64,
    },
    /// E\[Ẑ\] = Z where the value is log Ẑ.
    ///
    /// Markov's inequality on R independent replicates always gives a lower bound:
    /// log Z ≥ minᵣ log Ẑᵣ − ln(1/δ)/R with probability 1 − δ.
    Unbiased {
        /// Estimated standard error of Ẑ, divided by Z; computed from the replicates.
        relative_std_error: f64,
        /// Number of independent replicates.
        replicates: usize,
        /// The lower bound by Markov's inequality.
        low: f64,
        /// 1 − δ for that bound.
        confidence: f64,
    },
    /// No guarantee.
    Heuristic {
        /// The reason.
        reason: String,
    },
    /// One guarantee for each item of a batch.
    Each(Vec<Guarantee>),
}

/// The kinds of guarantee, weakest first, so that a larger value is a stronger guarantee.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Promise {
    /// [`Guarantee::Heuristic`].
    Heuristic,
    /// [`Guarantee::Unbiased`].
    Unbiased,
    /// [`Guarantee::Bounds`].
    Bounds,
    /// [`Guarantee::Exact`].
    Exact,
}

impl Promise {
    /// One-word name, for tables.
    pub fn name(self) -> &'static str {
        match self {
            Promise::Heuristic => "heuristic",
            Promise::Unbiased => "unbiased",
            Promise::Bounds => "bounds",
            Promise::Exact => "exact",
        }
    }
}

impl Guarantee {
    /// The guarantees of a batch; a batch of one has the guarantee of its only item.
    pub fn each(mut each: Vec<Guarantee>) -> Self {
        if each.len() == 1 { each.swap_remove(0) } else { Guarantee::Each(each) }
    }

    /// An interval with the given confidence; both ends are moved outward by the rounding allowance.
    pub fn bounds(low: f64, high: f64, confidence: f64, allowance: f64) -> Self {
        Guarantee::Bounds { low: low - allowance, high: high + allowance, confidence }
    }

    /// The kind of guarantee; for a batch, the weakest kind among its items.
    pub fn promise(&self) -> Promise {
        match self {
            Guarantee::Exact => Promise::Exact,
            Guarantee::Bounds { .. } => Promise::Bounds,
            Guarantee::Unbiased { .. } => Promise::Unbiased,
            Guarantee::Heuristic { .. } => Promise::Heuristic,
            Guarantee::Each(each) => each.iter().map(Guarantee::promise).min().unwrap_or(Promise::Exact),
        }
    }

    /// The guarantee for item `i` of a batch. A guarantee that is not [`Guarantee::Each`] applies to every
    /// item.
    pub fn item(&self, i: usize) -> &Guarantee {
        match self {
            Guarantee::Each(each) => each.get(i).unwrap_or(self),
            same => same,
        }
    }

    /// The guaranteed interval for a value, with its confidence; `None` if there is none.
    ///
    /// `rounding` is the allowance from the diagnostics; it is the half-width of the interval of an exact
    /// answer.
    pub fn interval(&self, value: f64, rounding: f64) -> Option<(f64, f64, f64)> {
        match *self {
            Guarantee::Exact => Some((value - rounding, value + rounding, 1.0)),
            Guarantee::Bounds { low, high, confidence } => Some((low, high, confidence)),
            Guarantee::Unbiased { low, confidence, .. } => Some((low, f64::INFINITY, confidence)),
            Guarantee::Heuristic { .. } | Guarantee::Each(_) => None,
        }
    }

    /// The value divided by `unit`, as printed. A certified bound is printed as a bound (`≥ 337.95`, `between
    /// 1 and 2`); any other value has as many digits as its error supports. `rounding` is the allowance from
    /// the diagnostics.
    pub fn stated(&self, value: f64, rounding: f64, unit: f64) -> String {
        // The quotient is rounded, so two units in the last place are added on the safe side.
        let scaled = |end: f64, away: fn(f64) -> f64| if unit == 1.0 { end } else { away(away(end / unit)) };
        if let (true, Guarantee::Bounds { low, high, .. }) = (self.is_stated(value, rounding), self) {
            let (below, above) = decimal::interval(scaled(*low, f64::next_down), scaled(*high, f64::next_up));
            return match (low.is_finite(), high.is_finite()) {
                (true, false) => format!("≥ {below}"),
                (false, true) => format!("≤ {above}"),
                _ => format!("between {below} and {above}"),
            };
        }
        let error = match *self {
            Guarantee::Exact => rounding,
            // Two digits more than the error, so that the value stays between the printed ends.
            Guarantee::Bounds { low, high, .. } => 0.01 * (high - low),
            Guarantee::Unbiased { relative_std_error, .. } => 0.01 * relative_std_error.min(1.0),
            Guarantee::Heuristic { .. } => return decimal::resolved(value / unit, 1e-6),
            Guarantee::Each(_) => 0.0,
        };
        decimal::resolved(value / unit, error.max(rounding) / unit)
    }

    /// True if a value is printed as its certified bounds: it has two ends, or is its only one.
    pub(crate) fn is_stated(&self, value: f64, rounding: f64) -> bool {
        let is_bound = |end: f64| (value - end).abs() <= 2.0 * rounding + 1e-9 * (1.0 + end.abs());
        match *self {
            Guarantee::Bounds { low, high, confidence } if confidence >= 1.0 => {
                match (low.is_finite(), high.is_finite()) {
                    (true, true) => true,
                    (true, false) => is_bound(low),
                    (false, true) => is_bound(high),
                    (false, false) => false,
                }
            }
            _ => false,
        }
    }

    /// The `guarantee` object of the JSON output; infinite ends are `null`.
    pub fn to_json(&self) -> Value {
        match self {
            Guarantee::Exact => json!({"kind": "exact"}),
            Guarantee::Bounds { low, high, confidence } => {
                json!({"kind": "bounds", "low": low, "high": high, "confidence": confidence})
            }
            Guarantee::Unbiased { relative_std_error, replicates, low, confidence } => json!({
                "kind": "unbiased", "low": low, "high": null, "confidence": confidence,
                "relative_std_error": relative_std_error, "replicates": replicates,
            }),
            Guarantee::Heuristic { reason } => json!({"kind": "heuristic", "reason": reason}),
            Guarantee::Each(each) => {
                let items: Vec<Value> = each.iter().map(Guarantee::to_json).collect();
                json!({"kind": "each", "items": items})
            }
        }
    }
}

impl Guarantee {
    /// The guarantee of a JSON object that [`Guarantee::to_json`] wrote; `None` for any other value.
    pub fn from_json(value: &Value) -> Option<Self> {
        let number = |name: &str, missing: f64| match &value[name] {
            Value::Null => Some(missing),
            other => other.as_f64(),
        };
        Some(match value["kind"].as_str()? {
            "exact" => Guarantee::Exact,
            "bounds" => Guarantee::Bounds {
                low: number("low", f64::NEG_INFINITY)?,
                high: number("high", f64::INFINITY)?,
                confidence: value["confidence"].as_f64()?,
            },
            "unbiased" => Guarantee::Unbiased {
                relative_std_error: number("relative_std_error", f64::INFINITY)?,
                replicates: usize::try_from(value["replicates"].as_u64()?).ok()?,
                low: number("low", f64::NEG_INFINITY)?,
                confidence: value["confidence"].as_f64()?,
            },
            "heuristic" => Guarantee::Heuristic { reason: value["reason"].as_str()?.to_owned() },
            "each" => {
                let items = value["items"].as_array()?.iter();
                Guarantee::Each(items.map(Guarantee::from_json).collect::<Option<_>>()?)
            }
            _ => return None,
        })
    }
}

impl std::fmt::Display for Guarantee {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Guarantee::Exact => write!(f, "exact"),
            Guarantee::Bounds { low, high, confidence } => {
                let (below, above) = decimal::interval(*low, *high);
                let range = match (low.is_finite(), high.is_finite()) {
                    (false, true) => format!("at most {above}"),
                    (true, false) => format!("at least {below}"),
                    _ => format!("between {below} and {above}"),
                };
                if *confidence >= 1.0 {
                    write!(f, "certified {range}")
                } else {
                    write!(f, "{range} with {}% confidence", decimal::number(confidence * 100.0))
                }
            }
            Guarantee::Unbiased { relative_std_error, low, confidence, .. } => write!(
                f,
                "unbiased, standard error {}; at least {} with {}% confidence",
                percent(*relative_std_error),
                decimal::interval(*low, f64::INFINITY).0,
                decimal::number(confidence * 100.0)
            ),
            Guarantee::Heuristic { reason } => write!(f, "heuristic: {reason}"),
            Guarantee::Each(each) => match each.as_slice() {
                [] => write!(f, "exact"),
                [one] => one.fmt(f),
                [first, rest @ ..] => write!(f, "{first}; and {} more", rest.len()),
            },
        }
    }
}

/// `0.32%`, `41%`, or `unknown`.
fn percent(fraction: f64) -> String {
    match fraction * 100.0 {
        p if !p.is_finite() => "unknown".into(),
        p if p >= 10.0 => format!("{p:.0}%"),
        p if p >= 0.01 || p <= 0.0 => format!("{p:.2}%"),
        p => format!("{p:.1e}%"),
    }
}

/// How an answer was computed: method-specific figures, in the order in which they were noted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Diagnostics {
    /// The method that computed the answer.
    pub method: &'static str,
    /// Wall-clock seconds.
    pub seconds: f64,
    /// Bound on the rounding error of the value, in the unit of the value.
    pub rounding: f64,
    /// True if the run was cancelled or ran out of time; the answer is then the best result so far.
    pub stopped_early: bool,
    figures: Map<String, Value>,
}

impl Diagnostics {
    /// Empty diagnostics for a method.
    pub fn new(method: &'static str) -> Self {
        Diagnostics { method, ..Self::default() }
    }

    /// Adds a figure.
    pub fn note(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.figures.insert(name.into(), value.into());
        self
    }

    /// Adds a count that was computed as a real number: rounded to a whole number, in JSON too.
    pub fn count(self, name: &str, count: f64) -> Self {
        // Every whole number below 2⁵³ is a double.
        if count.abs() < 9e15 { self.note(name, count.round() as i64) } else { self.note(name, count) }
    }

    /// All figures, by name.
    pub fn figures(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.figures.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The warning for the user, if there is one.
    pub fn warning(&self) -> Option<&str> {
        self.figures.get("warning").and_then(Value::as_str)
    }

    /// The `diagnostics` object of the JSON output.
    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        object.insert("seconds".into(), json!(self.seconds));
        object.insert("rounding".into(), json!(self.rounding));
        object.insert("stopped_early".into(), json!(self.stopped_early));
        object.extend(self.figures.clone());
        Value::Object(object)
    }
}

impl<T> Answer<T> {
    /// An exact answer.
    pub fn exact(value: T, diagnostics: Diagnostics) -> Self {
        Answer { value, guarantee: Guarantee::Exact, diagnostics }
    }

    /// Another value with the same guarantee and diagnostics.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Answer<U> {
        Answer { value: change(self.value), guarantee: self.guarantee, diagnostics: self.diagnostics }
    }
}

impl std::fmt::Display for Estimate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let value = self.guarantee.stated(self.value, self.diagnostics.rounding, 1.0);
        if self.guarantee.is_stated(self.value, self.diagnostics.rounding) {
            write!(f, "{value} (certified)")
        } else {
            write!(f, "{value} ({})", self.guarantee)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn infinite_ends_are_null_in_json() {
        assert!(Guarantee::bounds(f64::NEG_INFINITY, 1.0, 1.0, 0.0).to_json()["low"].is_null());
    }

    #[test]
    fn the_allowance_moves_both_ends_outward() {
        let bounds = Guarantee::bounds(1.0, 2.0, 1.0, 0.25);
        assert_eq!(bounds.interval(1.5, 0.0), Some((0.75, 2.25, 1.0)));
    }

    #[test]
    fn a_bound_is_stated_as_a_bound() {
        let stated = |low, high, confidence, value, unit| {
            Guarantee::bounds(low, high, confidence, 0.0).stated(value, 0.0, unit)
        };
        let (below, above) = (f64::NEG_INFINITY, f64::INFINITY);
        assert_eq!(stated(1.0 / 3.0, above, 1.0, 1.0 / 3.0, 1.0), "≥ 0.333333");
        assert_eq!(stated(below, 1.0 / 3.0, 1.0, 1.0 / 3.0, 1.0), "≤ 0.333334");
        assert_eq!(stated(below, 2.0, 1.0, 2.0, 2.0), "≤ 1.000001");
        // An estimate with a bound away from it is printed as an estimate.
        assert_eq!(stated(1.0, above, 1.0, 2.0, 1.0), "2");
        assert_eq!(stated(1.0, above, 0.95, 1.0, 1.0), "1");
        assert_eq!(stated(1.0, 2.0, 1.0, 1.0, 1.0), "between 1.000000 and 2.000000");
        assert_eq!(stated(1.0, 2.0, 0.95, 1.23456, 1.0), "1.23");
        assert_eq!(Guarantee::bounds(0.1, above, 1.0, 0.0).to_string(), "certified at least 0.100000");
        assert_eq!(percent(1e-8), "1.0e-6%");
    }

    #[test]
    fn promises_are_ordered_by_strength() {
        assert!(Promise::Exact > Promise::Bounds);
        assert!(Promise::Bounds > Promise::Unbiased);
        assert!(Promise::Unbiased > Promise::Heuristic);
    }
}
