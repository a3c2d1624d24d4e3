//! The number of states to keep: a count, or a fraction of all states.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::options::{Range, Ranged};

/// Minimum number of states for a fraction: fewer save no time and cost much accuracy.
const LEAST: usize = 64;

/// The number of states kept at each position.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub enum States {
    /// This number of states.
    Count(usize),
    /// This fraction of all states, between 0 and 1, but at least 64 states.
    Fraction(f64),
}

impl States {
    /// The resulting number of states out of `all`.
    pub fn of(self, all: usize) -> usize {
        let count = match self {
            States::Count(count) => count,
            States::Fraction(fraction) => ((fraction * all as f64).ceil() as usize).max(LEAST),
        };
        count.clamp(1, all.max(1))
    }
}

impl TryFrom<f64> for States {
    type Error = Error;

    fn try_from(number: f64) -> Result<Self> {
        if number > 0.0 && number < 1.0 {
            Ok(States::Fraction(number))
        } else if number >= 1.0 && number <= f64::from(u32::MAX) && number.fract() == 0.0 {
            Ok(States::Count(number as usize))
        } else {
            let message = format!("{number} is neither a whole number from 1 up nor a part between 0 and 1");
            Err(Error::argument("states", message))
        }
    }
}

impl Ranged for States {
    fn outside(&self, range: Range) -> Option<String> {
        f64::from(*self).outside(range)
    }
}

impl From<States> for f64 {
    fn from(states: States) -> f64 {
        match states {
            States::Count(count) => count as f64,
            States::Fraction(fraction) => fraction,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_counts_or_parts() {
        let read = |text: &str| serde_json::from_str::<States>(text);
        assert_eq!(read("200").unwrap(), States::Count(200));
        assert_eq!(read("1").unwrap(), States::Count(1));
        assert_eq!(read("0.05").unwrap(), States::Fraction(0.05));
        for bad in ["0", "-3", "1.5", "\"many\""] {
            assert!(read(bad).is_err(), "{bad}");
        }
        assert_eq!(States::Fraction(0.01).of(100_000), 1000);
        assert_eq!(States::Fraction(0.01).of(2000), 64);
        assert_eq!(States::Fraction(0.01).of(10), 10);
        assert_eq!(States::Count(7).of(5), 5);
        assert_eq!(serde_json::to_string(&States::Fraction(0.01)).unwrap(), "0.01");
    }
}
