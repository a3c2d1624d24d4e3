//! Models with discrete and continuous variables.
//!
//!   p(x) ∝ w(x) = exp Σⱼ θⱼ Πᵥ fⱼᵥ(xᵥ),   Z = Σ over discrete ∫ over continuous variables of w(x).
//!
//! A variable has n states, is a count, or is a number in a box [a, b]. Every f is a statistic whose products
//! have integrals in closed form: xᶜ and 1/xᶜ, |x − m|ᶜ, (ln x)ᶜ, the indicator of a state, ln x! of a count;
//! or it is ln(1 − x), which needs numerical quadrature. Non-integer powers, 1/x and ln x need a box with a >
//! 0, ln(1 − x) one with b < 1. An unbounded count needs terms that bound its sum (`count`).

pub(in crate::model) mod any;
mod count;
mod family;
pub(in crate::model) mod generate;

pub use family::Family;

use self::count::{Cut, cut, log_factorial};
use crate::error::{Error, Result};

/// Maximum |c| of a power xᶜ.
const LARGEST_POWER: f64 = 64.0;
/// Maximum power of a logarithm.
const LARGEST_LOG_POWER: u32 = 16;
/// Maximum |score|; larger scores have too few digits after the decimal point.
const LARGEST_SCORE: f64 = 1e12;
/// Maximum value of a count; the logarithms of larger factorials have too few digits.
const LARGEST_COUNT: u64 = 1 << 40;

/// The values of a variable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Domain {
    /// The states 0 to n − 1, each of measure 1.
    States(usize),
    /// The numbers from a to b, with Lebesgue measure.
    Interval(f64, f64),
    /// The whole numbers from a to b, or from a on, each of measure 1.
    Counts(u64, Option<u64>),
}

/// A function of one variable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Statistic {
    /// xᶜ, c not 0.
    Power(f64),
    /// (ln x)ᶜ, c at least 1.
    Log(u32),
    /// ln(1 − x).
    LogComplement,
    /// 1 in this state and 0 in the others; for a count, 1 at this value.
    State(usize),
    /// |x − centre|ᶜ, c above 0.
    Distance {
        /// The centre.
        centre: f64,
        /// c.
        power: f64,
    },
    /// ln x!, for a count x.
    LogFactorial,
}

impl Statistic {
    /// The value at x; a state is given by its number.
    pub fn value(self, x: f64) -> f64 {
        match self {
            Statistic::Power(c) if c.fract() == 0.0 => x.powi(c as i32),
            Statistic::Power(c) => x.powf(c),
            Statistic::Log(c) => x.ln().powi(c as i32),
            Statistic::LogComplement => (-x).ln_1p(),
            Statistic::State(state) => f64::from(u8::from(x == state as f64)),
            Statistic::Distance { centre, power } if power.fract() == 0.0 => {
                (x - centre).abs().powi(power as i32)
            }
            Statistic::Distance { centre, power } => (x - centre).abs().powf(power),
            Statistic::LogFactorial => log_factorial(x),
        }
    }

    /// Whether it is a polynomial, on each side of its centre if it has one.
    pub(crate) fn is_polynomial(self) -> bool {
        match self {
            Statistic::Power(c) | Statistic::Distance { power: c, .. } => c.fract() == 0.0 && c > 0.0,
            _ => false,
        }
    }
}

/// θ Πᵥ f(xᵥ); without factors a constant.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    /// θ.
    pub weight: f64,
    /// The variables and the statistic of each.
    pub factors: Vec<(usize, Statistic)>,
}

/// A model of discrete and continuous variables.
///
/// ```
/// use zhat::model::{Domain, MixedModel, Statistic, Term};
/// // exp(−x²/2) on [−1, 2].
/// let square = Term { weight: -0.5, factors: vec![(0, Statistic::Power(2.0))] };
/// let model = MixedModel::new(vec![Domain::Interval(-1.0, 2.0)], vec![square])?;
/// assert_eq!(model.score(&[1.0]), -0.5);
/// # Ok::<(), zhat::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct MixedModel {
    domains: Vec<Domain>,
    terms: Vec<Term>,
    magnitude: f64,
    /// The truncation point of each variable that is an unbounded count.
    cuts: Vec<Option<Cut>>,
}

impl MixedModel {
    /// A model from its variables and terms, validated.
    ///
    /// # Errors
    /// If a domain is empty or an interval unbounded, a weight is not finite, a term has an unknown variable
    /// or a statistic that is not defined on its domain, the sum over an unbounded count diverges, or the
    /// terms are too large.
    pub fn new(domains: Vec<Domain>, terms: Vec<Term>) -> Result<Self> {
        for (v, &domain) in domains.iter().enumerate() {
            match domain {
                Domain::States(0) => return Err(Error::model(format!("variable {v} has no state"))),
                Domain::States(_) => {}
                Domain::Interval(a, b) if a < b && (b - a).is_finite() => {}
                Domain::Interval(a, b) => {
                    let message = format!("variable {v} is on [{a}, {b}], expected finite ends a < b");
                    return Err(Error::model(message));
                }
                Domain::Counts(a, Some(b)) if b < a => {
                    return Err(Error::model(format!("variable {v} counts from {a} to {b}, expected a ≤ b")));
                }
                Domain::Counts(a, b) if a.max(b.unwrap_or(0)) > LARGEST_COUNT => {
                    return Err(Error::model(format!("variable {v} has counts above {LARGEST_COUNT}")));
                }
                Domain::Counts(..) => {}
            }
        }
        let mut magnitude = 0.0;
        for (j, term) in terms.iter().enumerate() {
            if !term.weight.is_finite() {
                let message = format!("the weight of term {j} is {}, expected a finite number", term.weight);
                return Err(Error::model(message));
            }
            for (i, &(v, statistic)) in term.factors.iter().enumerate() {
                let place = |message: String| Error::model(format!("term {j}: {message}"));
                let Some(&domain) = domains.get(v) else {
                    return Err(place(format!("there is no variable {v}, only {}", domains.len())));
                };
                check(v, domain, statistic).map_err(place)?;
                if matches!(statistic, Statistic::State(_)) && term.factors[..i].iter().any(|f| f.0 == v) {
                    return Err(place(format!("has two states of variable {v}")));
                }
            }
        }
        let mut cuts = Vec::with_capacity(domains.len());
        for (v, &domain) in domains.iter().enumerate() {
            cuts.push(match domain {
                Domain::Counts(least, None) => Some(cut(&domains, &terms, v, least).map_err(Error::model)?),
                _ => None,
            });
        }
        for term in &terms {
            let mut size = term.weight.abs();
            for &(v, statistic) in &term.factors {
                let (a, b) = match (domains[v], cuts[v]) {
                    (Domain::States(_), _) => continue,
                    (Domain::Interval(a, b), _) => (a, b),
                    (Domain::Counts(a, b), cut) => {
                        (a as f64, b.or(cut.map(|cut| cut.last)).unwrap_or(a) as f64)
                    }
                };
                let end = statistic.value(a).abs().max(statistic.value(b).abs());
                size *= if matches!(statistic, Statistic::State(_)) { 1.0 } else { end };
            }
            magnitude += size;
        }
        if magnitude.is_nan() || magnitude > LARGEST_SCORE {
            return Err(Error::model("the terms are so large that their sum has no digits left"));
        }
        Ok(MixedModel { domains, terms, magnitude, cuts })
    }

    /// The variables.
    pub fn domains(&self) -> &[Domain] {
        &self.domains
    }

    /// The terms.
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// The values of a discrete variable: the first value, their number, and an upper bound on the correction
    /// to the log weight of the last value, which stands for all larger ones. `None` for a continuous
    /// variable.
    pub(crate) fn values(&self, v: usize) -> Option<(u64, u64, f64)> {
        match (self.domains[v], self.cuts[v]) {
            (Domain::States(n), _) => Some((0, n as u64, 0.0)),
            (Domain::Interval(..), _) => None,
            (Domain::Counts(a, Some(b)), _) => Some((a, b - a + 1, 0.0)),
            (Domain::Counts(a, None), cut) => cut.map(|cut| (a, cut.last - a + 1, cut.beyond)),
        }
    }

    /// An upper bound on |score|, up to the truncation points of counts.
    pub fn magnitude(&self) -> f64 {
        self.magnitude
    }

    /// True if a statistic has no closed form, so that answers need numerical quadrature.
    pub fn is_numerical(&self) -> bool {
        self.terms.iter().any(|term| term.factors.iter().any(|f| f.1 == Statistic::LogComplement))
    }

    /// The log density at a point; a state is given by its number.
    pub fn score(&self, x: &[f64]) -> f64 {
        let value =
            |term: &Term| term.factors.iter().fold(term.weight, |product, &(v, f)| product * f.value(x[v]));
        self.terms.iter().map(value).sum()
    }

    /// The memory of the terms, in bytes.
    pub fn bytes(&self) -> usize {
        let factors: usize = self.terms.iter().map(|term| size_of_val(&*term.factors)).sum();
        size_of_val(&*self.domains) + size_of_val(&*self.terms) + factors
    }

    /// The sizes of the model.
    pub fn sizes(&self) -> MixedSizes {
        let continuous = |domain: &&Domain| matches!(domain, Domain::Interval(..));
        MixedSizes {
            variables: self.domains.len(),
            continuous: self.domains.iter().filter(continuous).count(),
            terms: self.terms.len(),
            largest_component: self.components().iter().map(|part| part.variables.len()).max().unwrap_or(0),
            numerical: self.is_numerical(),
            bytes: self.bytes(),
        }
    }

    /// Connected components: their variables, in ascending order, and terms. Terms without variables belong
    /// to none.
    pub(crate) fn components(&self) -> Vec<Component> {
        let mut leader: Vec<usize> = (0..self.domains.len()).collect();
        fn find(leader: &mut [usize], mut v: usize) -> usize {
            while leader[v] != v {
                leader[v] = leader[leader[v]];
                v = leader[v];
            }
            v
        }
        for term in &self.terms {
            for pair in term.factors.windows(2) {
                let (a, b) = (find(&mut leader, pair[0].0), find(&mut leader, pair[1].0));
                leader[a.max(b)] = a.min(b);
            }
        }
        let mut components: Vec<Component> = Vec::new();
        let mut of = vec![usize::MAX; self.domains.len()];
        for v in 0..self.domains.len() {
            let root = find(&mut leader, v);
            if of[root] == usize::MAX {
                of[root] = components.len();
                components.push(Component::default());
            }
            of[v] = of[root];
            components[of[v]].variables.push(v);
        }
        for (j, term) in self.terms.iter().enumerate() {
            if let Some(&(v, _)) = term.factors.first() {
                components[of[v]].terms.push(j);
            }
        }
        components
    }

    /// Σ of the weights of terms without variables.
    pub(crate) fn constant(&self) -> f64 {
        self.terms.iter().filter(|term| term.factors.is_empty()).map(|term| term.weight).sum()
    }
}

/// The sizes of a mixed model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MixedSizes {
    /// Number of variables.
    pub variables: usize,
    /// Number of continuous variables.
    pub continuous: usize,
    /// Number of terms.
    pub terms: usize,
    /// Number of variables in the largest connected component.
    pub largest_component: usize,
    /// Whether some statistic has no closed form.
    pub numerical: bool,
    /// Memory of the terms, in bytes.
    pub bytes: usize,
}

/// A connected component: its variables and terms.
#[derive(Clone, Debug, Default)]
pub(crate) struct Component {
    pub variables: Vec<usize>,
    pub terms: Vec<usize>,
}

/// Checks whether a statistic is defined for a variable.
fn check(v: usize, domain: Domain, statistic: Statistic) -> std::result::Result<(), String> {
    match (domain, statistic) {
        (Domain::States(n), Statistic::State(state)) if state < n => Ok(()),
        (Domain::States(n), Statistic::State(state)) => {
            Err(format!("variable {v} has {n} states, so there is no state {state}"))
        }
        (Domain::States(_), _) => Err(format!("variable {v} is discrete; only its states can be taken")),
        (Domain::Counts(..), Statistic::State(_) | Statistic::LogFactorial) => Ok(()),
        (Domain::Counts(..), Statistic::LogComplement) => {
            Err(format!("variable {v} is a count and has no ln(1 − x)"))
        }
        (_, Statistic::LogFactorial) => Err(format!("ln x! is of a count; variable {v} is continuous")),
        (_, Statistic::Distance { centre, power }) => {
            if centre.is_finite() && power > 0.0 && power <= LARGEST_POWER {
                Ok(())
            } else {
                Err(format!(
                    "|x − {centre}|^{power} of variable {v} needs a finite centre and a power above 0, {LARGEST_POWER} at most"
                ))
            }
        }
        (Domain::Counts(a, _), statistic) => check(v, Domain::Interval(a as f64, a as f64 + 1.0), statistic),
        (Domain::Interval(..), Statistic::State(_)) => {
            Err(format!("variable {v} is continuous and has no states"))
        }
        (_, Statistic::Power(c)) if !(c != 0.0 && c.abs() <= LARGEST_POWER) => {
            Err(format!("the power {c} of variable {v} is not within ±{LARGEST_POWER} and not 0"))
        }
        (Domain::Interval(a, _), Statistic::Power(c)) if a <= 0.0 && !statistic.is_polynomial() => {
            Err(format!("the power {c} of variable {v} needs a box [a, b] with a > 0, found a = {a}"))
        }
        (_, Statistic::Log(c)) if c == 0 || c > LARGEST_LOG_POWER => Err(format!(
            "the power {c} of the logarithm of variable {v} is not within 1 to {LARGEST_LOG_POWER}"
        )),
        (Domain::Interval(a, _), Statistic::Log(_)) if a <= 0.0 => {
            Err(format!("the logarithm of variable {v} needs a box [a, b] with a > 0, found a = {a}"))
        }
        (Domain::Interval(_, b), Statistic::LogComplement) if b >= 1.0 => {
            Err(format!("ln(1 − x) of variable {v} needs a box [a, b] with b < 1, found b = {b}"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(domain: Domain, statistic: Statistic) -> String {
        let term = Term { weight: 1.0, factors: vec![(0, statistic)] };
        MixedModel::new(vec![domain], vec![term]).unwrap_err().to_string()
    }

    #[test]
    fn statistics_must_suit_their_variable() {
        let unit = Domain::Interval(0.0, 1.0);
        for (domain, statistic, words) in [
            (unit, Statistic::Power(-1.0), "a > 0"),
            (unit, Statistic::Power(0.5), "a > 0"),
            (unit, Statistic::Power(0.0), "not 0"),
            (unit, Statistic::Power(f64::NAN), "not within"),
            (unit, Statistic::Log(1), "a > 0"),
            (Domain::Interval(1.0, 2.0), Statistic::Log(0), "not within 1"),
            (unit, Statistic::LogComplement, "b < 1"),
            (unit, Statistic::State(0), "continuous"),
            (Domain::States(2), Statistic::State(2), "no state 2"),
            (Domain::States(2), Statistic::Power(1.0), "discrete"),
            (Domain::States(0), Statistic::State(0), "has no state"),
            (Domain::Interval(1.0, 1.0), Statistic::Power(1.0), "a < b"),
            (Domain::Interval(0.0, f64::INFINITY), Statistic::Power(1.0), "finite"),
            (Domain::Interval(0.0, 1e300), Statistic::Power(2.0), "no digits"),
        ] {
            let message = refusal(domain, statistic);
            assert!(message.contains(words), "{message}");
        }
        let unknown = Term { weight: 1.0, factors: vec![(1, Statistic::Power(1.0))] };
        assert!(MixedModel::new(vec![unit], vec![unknown]).is_err());
        let infinite = Term { weight: f64::NEG_INFINITY, factors: vec![] };
        assert!(MixedModel::new(vec![unit], vec![infinite]).is_err());
    }

    #[test]
    fn variables_that_share_a_term_hang_together() {
        let power = Statistic::Power(1.0);
        let terms = vec![
            Term { weight: 1.0, factors: vec![(3, power), (0, power)] },
            Term { weight: 2.0, factors: vec![(1, Statistic::State(0))] },
            Term { weight: 5.0, factors: vec![] },
        ];
        let unit = Domain::Interval(0.0, 1.0);
        let model = MixedModel::new(vec![unit, Domain::States(2), unit, unit], terms).unwrap();
        let parts = model.components();
        let variables: Vec<Vec<usize>> = parts.iter().map(|part| part.variables.clone()).collect();
        assert_eq!(variables, [vec![0, 3], vec![1], vec![2]]);
        assert_eq!(parts[0].terms, [0]);
        assert_eq!(model.constant(), 5.0);
    }
}
