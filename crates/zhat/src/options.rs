//! Options of methods and their ranges.
//!
//! The options of a method are the fields of its configuration struct. The macro `options!` states their
//! ranges next to that struct. The catalogue checks the ranges when it reads options by name ([`read`]),
//! before any forecast or run; every method checks its own struct again when it is called from Rust.

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::suggest;
use crate::values::Values;

/// Options of a method by name, as given by `--set` and by Python's keyword arguments.
pub type Settings = Map<String, Value>;

/// The permitted values of a numeric option. For a list, the range applies to each element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Range {
    /// A whole number in a closed interval.
    Whole {
        /// Minimum.
        low: u64,
        /// Maximum.
        high: u64,
    },
    /// A finite number.
    Number {
        /// Lower end.
        low: f64,
        /// Upper end; may be infinite.
        high: f64,
        /// Whether each end is itself permitted.
        closed: (bool, bool),
    },
    /// A count, or a fraction of the total.
    CountOrFraction,
}

/// Number of samples. The maximum is beyond any feasible run, and sums of counts still do not overflow.
pub const SAMPLES: Range = Range::whole(1, 1_000_000_000_000_000);
/// Number of independent replicates, for methods that estimate their variance.
pub const REPLICATES: Range = Range::whole(2, 1_000_000);
/// Number of iterations; methods check the clock between them.
pub const ITERATIONS: Range = Range::whole(0, 1_000_000_000);
/// A number of variables or states; it may exceed the number in the model.
pub const COUNT: Range = Range::whole(0, 1_000_000_000);
/// A confidence level, relative error or probability: above 0 and below 1.
pub const INSIDE_UNIT: Range = Range::Number { low: 0.0, high: 1.0, closed: (false, false) };
/// The share of the old message that is kept.
pub const DAMPING: Range = Range::Number { low: 0.0, high: 1.0, closed: (true, false) };
/// A tolerance or penalty.
pub const FROM_ZERO: Range = Range::Number { low: 0.0, high: f64::INFINITY, closed: (true, false) };
/// An error or rate that must be positive.
pub const ABOVE_ZERO: Range = Range::Number { low: 0.0, high: f64::INFINITY, closed: (false, false) };

impl Range {
    /// Whole numbers from `low` to `high`.
    pub const fn whole(low: u64, high: u64) -> Self {
        Range::Whole { low, high }
    }

    /// Numbers from `low` to `high`.
    pub const fn closed(low: f64, high: f64) -> Self {
        Range::Number { low, high, closed: (true, true) }
    }

    fn has_whole(self, value: u64) -> bool {
        match self {
            Range::Whole { low, high } => (low..=high).contains(&value),
            _ => self.has(value as f64),
        }
    }

    fn has(self, value: f64) -> bool {
        match self {
            Range::Whole { low, high } => value.fract() == 0.0 && value >= low as f64 && value <= high as f64,
            Range::Number { low, high, closed } => {
                value.is_finite()
                    && (value > low || (closed.0 && value == low))
                    && (value < high || (closed.1 && value == high))
            }
            Range::CountOrFraction => {
                value > 0.0 && (value < 1.0 || value.fract() == 0.0 && value <= f64::from(u32::MAX))
            }
        }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Range::Whole { low, high } => write!(f, "a whole number from {low} to {}", power(high as f64)),
            Range::Number { low, high, closed } => {
                let below = if closed.1 { "at most" } else { "below" };
                match (closed.0, high.is_finite()) {
                    (true, true) if closed.1 => {
                        write!(f, "a number from {} to {}", power(low), power(high))
                    }
                    (true, true) => {
                        write!(f, "a number of at least {} and {below} {}", power(low), power(high))
                    }
                    (false, true) => write!(f, "a number above {} and {below} {}", power(low), power(high)),
                    (true, false) => write!(f, "a finite number of at least {}", power(low)),
                    (false, false) => write!(f, "a finite number above {}", power(low)),
                }
            }
            Range::CountOrFraction => {
                write!(f, "a whole number from 1 to {}, or a fraction above 0 and below 1", u32::MAX)
            }
        }
    }
}

/// Formats large powers of ten as powers.
fn power(number: f64) -> String {
    let exponent = number.log10().round();
    if exponent >= 6.0 && 10f64.powf(exponent) == number {
        format!("10^{exponent}")
    } else {
        number.to_string()
    }
}

/// A type of option values.
pub trait Ranged {
    /// The first value outside `range`, as text.
    fn outside(&self, range: Range) -> Option<String>;
}

macro_rules! whole {
    ($($type:ty)*) => {$(
        impl Ranged for $type {
            fn outside(&self, range: Range) -> Option<String> {
                (!range.has_whole(*self as u64)).then(|| self.to_string())
            }
        }
    )*};
}

whole!(u32 u64 usize);

impl Ranged for f64 {
    fn outside(&self, range: Range) -> Option<String> {
        (!range.has(*self)).then(|| self.to_string())
    }
}

impl<T: Ranged> Ranged for Option<T> {
    fn outside(&self, range: Range) -> Option<String> {
        self.as_ref().and_then(|value| value.outside(range))
    }
}

impl<T: Ranged> Ranged for Vec<T> {
    fn outside(&self, range: Range) -> Option<String> {
        self.iter().find_map(|value| value.outside(range))
    }
}

/// The configuration struct of a method: its fields are the options.
pub trait Options: Default + Serialize + DeserializeOwned {
    /// The ranges of all numeric options.
    const RANGES: &'static [(&'static str, Range)];

    /// Checks that every option is in its range.
    ///
    /// # Errors
    /// Names the first option that is out of its range, and the range.
    fn check(&self) -> Result<()>;

    /// Sets an option whose value is an array; arrays are not passed as JSON.
    ///
    /// # Errors
    /// If there is no such option.
    fn attach(&mut self, name: &str, numbers: Values<f64>) -> Result<()> {
        let _ = numbers;
        Err(Error::argument(name, "this method has no option of this name that takes an array"))
    }
}

/// Declares the options of a method: the type of every field of its configuration struct, the range of a
/// numeric one, and which fields are arrays.
///
/// It implements [`Options`] and gives the struct one builder method per option.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use zhat::options::{Options, SAMPLES};
///
/// #[derive(Default, Serialize, Deserialize)]
/// #[serde(default, deny_unknown_fields)]
/// #[non_exhaustive]
/// pub struct Walk {
///     pub steps: usize,
///     pub lazy: bool,
/// }
///
/// zhat::options!(Walk { steps: usize => SAMPLES, lazy: bool });
/// assert!(Walk::default().steps(7).lazy(true).check().is_ok());
/// assert!(Walk::default().steps(0).check().is_err());
/// ```
#[macro_export]
macro_rules! options {
    ($type:ty { $($field:ident: $field_type:ty $(=> $range:expr)?),* $(,)? }
     $(arrays { $($array:ident),* })?) => {
        impl $crate::options::Options for $type {
            const RANGES: &'static [(&'static str, $crate::options::Range)] =
                &[$($((stringify!($field), $range),)?)*];

            fn check(&self) -> $crate::Result<()> {
                $($($crate::options::in_range(stringify!($field), &self.$field, $range)?;)?)*
                Ok(())
            }

            $(fn attach(&mut self, name: &str, numbers: $crate::model::Values<f64>) -> $crate::Result<()> {
                match name {
                    $(stringify!($array) => self.$array = Some(numbers),)*
                    _ => {
                        let message = "this method has no option of this name that takes an array";
                        return Err($crate::Error::argument(name, message));
                    }
                }
                Ok(())
            })?
        }

        #[allow(dead_code)]
        impl $type {
            $(
                #[doc = concat!("The same with another value of the option `", stringify!($field), "`.")]
                #[must_use]
                pub fn $field(mut self, value: $field_type) -> Self {
                    self.$field = value;
                    self
                }
            )*
        }
    };
}

pub use crate::options;

/// Checks that the value of an option is in its range.
///
/// # Errors
/// If it is not.
pub fn in_range(name: &str, value: &impl Ranged, range: Range) -> Result<()> {
    value.outside(range).map_or(Ok(()), |value| Err(out_of_range(name, &value, range)))
}

fn out_of_range(name: &str, value: &str, range: Range) -> Error {
    Error::argument(name, format!("{value} is out of range; expected {range}"))
}

/// The range of an option, if it is numeric.
fn range<T: Options>(name: &str) -> Option<Range> {
    T::RANGES.iter().find(|(own, _)| *own == name).map(|(_, range)| *range)
}

/// The options of a method, from values by name; each is checked.
///
/// # Errors
/// If an option is unknown, has the wrong type or is out of range.
///
/// ```
/// use zhat::options::{read, Settings};
/// use zhat::space::Telescoped;
/// let settings = Settings::from_iter([("confidence".to_string(), 95.into())]);
/// let error = read::<Telescoped>("telescoped", &settings).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "confidence: 95 is out of range; expected a number above 0 and below 1"
/// );
/// ```
pub fn read<T: Options>(method: &str, settings: &Settings) -> Result<T> {
    let defaults = defaults::<T>();
    if let Some(name) = settings.keys().find(|name| !defaults.contains_key(*name)) {
        let known: Vec<&str> = defaults.keys().map(String::as_str).collect();
        return Err(Error::UnknownOption {
            name: name.clone(),
            message: format!("the method `{method}` has no such option{}", suggest::hint(name, &known)),
        });
    }
    let settings: Settings =
        settings.iter().map(|(name, value)| (name.clone(), whole::<T>(name, value))).collect();
    let options: T = serde_json::from_value(Value::Object(settings.clone())).map_err(|error| {
        let alone = |name: &String, value: &Value| {
            serde_json::from_value::<T>(Value::Object(Settings::from_iter([(name.clone(), value.clone())])))
        };
        let wrong = settings.iter().find_map(|(name, value)| Some((name, value, alone(name, value).err()?)));
        match wrong {
            Some((name, value, error)) => mistyped(name, value, range::<T>(name), &defaults[name], &error),
            None => Error::argument(format!("options of {method}"), error.to_string()),
        }
    })?;
    options.check()?;
    Ok(options)
}

/// The error for a value of the wrong type: what was expected, in the user's words, and what was found.
fn mistyped(
    name: &str,
    value: &Value,
    range: Option<Range>,
    default: &Value,
    error: &serde_json::Error,
) -> Error {
    let found = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let text = error.to_string();
    let variants = variants_in(&text);
    let message = match (range, default) {
        (Some(range), _) if value.is_number() => return out_of_range(name, &found, range),
        (Some(range), _) => format!("expected {range}, found `{found}`"),
        (None, Value::Bool(_)) => format!("expected true or false, found `{found}`"),
        (None, _) if !variants.is_empty() => {
            let nearest = suggest::nearest(&found, variants.iter().copied());
            let hint = nearest.map_or_else(String::new, |name| format!("; did you mean `{name}`?"));
            format!("expected one of {}, found `{found}`{hint}", variants.join(", "))
        }
        (None, _) => text,
    };
    Error::argument(name, message)
}

/// The names that an option accepts, if it is a choice between names.
pub(crate) fn variants<T: Options>(name: &str) -> Vec<String> {
    let impossible = Settings::from_iter([(name.to_owned(), Value::from("?"))]);
    match serde_json::from_value::<T>(Value::Object(impossible)) {
        Ok(_) => Vec::new(),
        Err(error) => variants_in(&error.to_string()).into_iter().map(str::to_owned).collect(),
    }
}

/// The variants that serde names in backquotes in a message about an unknown one.
fn variants_in(message: &str) -> Vec<&str> {
    match (message.starts_with("unknown variant"), message.split_once("expected")) {
        (true, Some((_, rest))) => rest.split('`').skip(1).step_by(2).collect(),
        _ => Vec::new(),
    }
}

/// The options with their default values.
fn defaults<T: Options>() -> Settings {
    match serde_json::to_value(T::default()) {
        Ok(Value::Object(defaults)) => defaults,
        _ => Settings::new(),
    }
}

/// The value; `1e6` for a whole number is converted to a million.
fn whole<T: Options>(name: &str, value: &Value) -> Value {
    match (range::<T>(name), value.as_f64()) {
        (Some(range @ Range::Whole { .. }), Some(number)) if value.is_f64() && range.has(number) => {
            Value::from(number as u64)
        }
        _ => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_said_in_words() {
        assert_eq!(REPLICATES.to_string(), "a whole number from 2 to 10^6");
        assert_eq!(Range::whole(1, 40).to_string(), "a whole number from 1 to 40");
        assert_eq!(INSIDE_UNIT.to_string(), "a number above 0 and below 1");
        assert_eq!(DAMPING.to_string(), "a number of at least 0 and below 1");
        assert_eq!(FROM_ZERO.to_string(), "a finite number of at least 0");
        assert_eq!(ABOVE_ZERO.to_string(), "a finite number above 0");
        assert_eq!(Range::closed(1.0, 1e15).to_string(), "a number from 1 to 10^15");
    }

    #[test]
    fn ends_belong_to_a_range_where_it_says_so() {
        for outside in [0.0, 1.0, f64::NAN, f64::INFINITY, -1.0] {
            assert!(outside.outside(INSIDE_UNIT).is_some(), "{outside}");
        }
        assert!(0.0.outside(DAMPING).is_none() && 1.0.outside(DAMPING).is_some());
        assert!(f64::INFINITY.outside(FROM_ZERO).is_some() && f64::MAX.outside(FROM_ZERO).is_none());
        assert!(1u64.outside(REPLICATES).is_some() && 2u64.outside(REPLICATES).is_none());
        assert!(u64::MAX.outside(SAMPLES).is_some());
        assert!(Some(f64::NAN).outside(FROM_ZERO).is_some() && None::<f64>.outside(FROM_ZERO).is_none());
        assert_eq!(vec![0.5, 2.0].outside(INSIDE_UNIT).as_deref(), Some("2"));
        for (value, fits) in [(0.5, true), (7.0, true), (0.0, false), (1.5, false), (1e10, false)] {
            assert_eq!(value.outside(Range::CountOrFraction).is_none(), fits, "{value}");
        }
    }
}
