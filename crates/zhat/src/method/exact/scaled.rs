//! Tables of weights with a separate scale, in the linear domain if their range permits.

use std::borrow::Cow;

use super::bucket::Domain;
use crate::numeric;

/// Tables whose positive weights span a ratio of more than e⁶⁰⁰ are stored as logarithms.
const LINEAR_SPAN: f64 = 600.0;
/// Products of tables cannot underflow if the sum of their spans is below this.
pub(crate) const PRODUCT_SPAN: f64 = 650.0;

/// weights = exp(shift) · values, or exp(shift + values) in the log domain. The largest of `values` is 1 or 0
/// respectively.
#[derive(Clone, Debug)]
pub(crate) struct Scaled {
    pub values: Vec<f64>,
    pub domain: Domain,
    /// Log of the largest weight; −∞ if all weights are zero.
    pub shift: f64,
    /// ln(largest / smallest positive weight).
    pub span: f64,
}

impl Scaled {
    /// An empty table.
    pub const EMPTY: Scaled = Scaled { values: Vec::new(), domain: Domain::Linear, shift: 0.0, span: 0.0 };

    /// Converts from logarithms. The values stay logarithms if `linear` is false or their span is too large.
    pub fn from_log(mut values: Vec<f64>, linear: bool) -> Self {
        let shift = numeric::max(&values);
        if shift == f64::NEG_INFINITY {
            let (zero, domain) = if linear { (0.0, Domain::Linear) } else { (shift, Domain::Log) };
            values.fill(zero);
            return Scaled { values, domain, shift, span: 0.0 };
        }
        let mut least = 0.0f64;
        for x in &mut values {
            *x -= shift;
            least = if *x < least && *x > f64::NEG_INFINITY { *x } else { least };
        }
        let domain = if linear && -least <= LINEAR_SPAN {
            numeric::exp_in_place(&mut values);
            Domain::Linear
        } else {
            Domain::Log
        };
        Scaled { values, domain, shift, span: -least }
    }

    /// Converts from weights that have not underflowed.
    pub fn from_linear(mut values: Vec<f64>) -> Self {
        let (least, largest) = numeric::positive_range(&values);
        if largest <= 0.0 {
            return Scaled { values, domain: Domain::Linear, shift: f64::NEG_INFINITY, span: 0.0 };
        }
        let factor = largest.recip();
        values.iter_mut().for_each(|x| *x *= factor);
        Scaled { values, domain: Domain::Linear, shift: largest.ln(), span: (largest / least).ln() }
    }

    /// Turns weights into their logarithms, in place.
    pub fn make_log(&mut self) {
        if self.domain == Domain::Linear {
            numeric::ln_in_place(&mut self.values);
            self.domain = Domain::Log;
        }
    }

    /// The values in the given domain, converted if necessary, without the shift.
    pub fn values_in(&self, domain: Domain) -> Cow<'_, [f64]> {
        if self.domain == domain {
            return Cow::Borrowed(&self.values);
        }
        let mut values = self.values.clone();
        match domain {
            Domain::Log => numeric::ln_in_place(&mut values),
            Domain::Linear => numeric::exp_in_place(&mut values),
        }
        Cow::Owned(values)
    }
}
