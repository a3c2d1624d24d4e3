//! Bounds on floating-point rounding errors; all methods use this module.

/// Half the difference between 1 and the next double: the relative error of one rounded operation.
const UNIT_ROUNDOFF: f64 = f64::EPSILON / 2.0;

/// A bound, in nats, on the rounding error of a log-domain computation.
///
/// Adding logarithms and log-sum-exp are both 1-Lipschitz in the largest error of their inputs, so errors
/// only add up. After `operations` rounded operations on numbers of size at most `magnitude`, the error is at
/// most u·operations·(1 + magnitude), u = 2⁻⁵³. The kernels' `exp` and `ln` count as four operations each,
/// which the factor 4 below covers.
///
/// ```
/// let allowance = zhat::internal::numeric::rounding_allowance(1e3, 1e2);
/// assert!(allowance > 0.0 && allowance < 1e-10);
/// ```
pub fn rounding_allowance(operations: f64, magnitude: f64) -> f64 {
    4.0 * UNIT_ROUNDOFF * (operations + 1.0) * (magnitude + 1.0)
}

/// Σ xᵢ with a running correction (Neumaier 1974): the error does not grow with the number of terms.
#[derive(Clone, Copy, Debug, Default)]
pub struct CompensatedSum {
    sum: f64,
    correction: f64,
}

impl CompensatedSum {
    /// Adds one term. An infinite sum stays infinite.
    pub fn add(&mut self, x: f64) {
        let total = self.sum + x;
        if total.is_finite() {
            self.correction +=
                if self.sum.abs() >= x.abs() { (self.sum - total) + x } else { (x - total) + self.sum };
        }
        self.sum = total;
    }

    /// The sum of the terms so far.
    pub fn value(&self) -> f64 {
        if self.sum.is_finite() { self.sum + self.correction } else { self.sum }
    }

    /// The rounded sum and its correction.
    pub fn terms(&self) -> (f64, f64) {
        (self.sum, self.correction)
    }

    /// The sum with these terms.
    pub fn of_terms((sum, correction): (f64, f64)) -> Self {
        CompensatedSum { sum, correction }
    }
}

impl FromIterator<f64> for CompensatedSum {
    fn from_iter<I: IntoIterator<Item = f64>>(terms: I) -> Self {
        let mut sum = Self::default();
        terms.into_iter().for_each(|x| sum.add(x));
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compensated_sum_keeps_what_a_plain_one_loses() {
        let sum: CompensatedSum = [1.0, 1e100, 1.0, -1e100].into_iter().collect();
        assert_eq!(sum.value(), 2.0);
    }

    #[test]
    fn infinite_terms_do_not_become_nan() {
        let sum: CompensatedSum = [1.0, f64::NEG_INFINITY, 3.0].into_iter().collect();
        assert_eq!(sum.value(), f64::NEG_INFINITY);
    }
}
