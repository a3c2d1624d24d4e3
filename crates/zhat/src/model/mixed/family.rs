//! Well-known densities on boxes, as mixed models.
//!
//! Each density is unnormalised: Z is the integral over the box of the given expression.

use super::{Domain, MixedModel, Statistic, Term};
use crate::error::{Error, Result};

/// A family of densities.
#[derive(Clone, Debug, PartialEq)]
pub enum Family {
    /// exp(−(x − mean)²/2σ²).
    Gaussian {
        /// The mean.
        mean: f64,
        /// The standard deviation σ.
        deviation: f64,
    },
    /// exp(−rate·x).
    Exponential {
        /// The rate.
        rate: f64,
    },
    /// x^(shape − 1) exp(−rate·x).
    Gamma {
        /// The shape.
        shape: f64,
        /// The rate.
        rate: f64,
    },
    /// x^(k/2 − 1) exp(−x/2).
    ChiSquared {
        /// The degrees of freedom k.
        degrees: f64,
    },
    /// x^(shape − 1) exp(−(x/scale)^shape).
    Weibull {
        /// The shape.
        shape: f64,
        /// The scale.
        scale: f64,
    },
    /// exp(−(ln x − mean)²/2σ²)/x.
    LogNormal {
        /// The mean of ln x.
        mean: f64,
        /// The standard deviation σ of ln x.
        deviation: f64,
    },
    /// x^(−shape − 1).
    Pareto {
        /// The shape.
        shape: f64,
    },
    /// x^(alpha − 1) (1 − x)^(beta − 1). Needs numerical quadrature: ln(1 − x) has no closed form.
    Beta {
        /// The exponent of x, plus 1.
        alpha: f64,
        /// The exponent of 1 − x, plus 1.
        beta: f64,
    },
    /// exp(−|x − centre|/scale).
    Laplace {
        /// The centre.
        centre: f64,
        /// The scale.
        scale: f64,
    },
    /// rateˣ/x! for a count x. The box consists of counts; without an upper end the sum is over all counts.
    Poisson {
        /// The rate, which is the mean.
        rate: f64,
    },
    /// A Dirichlet density in the stick-breaking parameterisation, with independent beta variables: vᵢ is the
    /// share of the remainder after v₁ … vᵢ₋₁. Needs numerical quadrature.
    Dirichlet {
        /// One concentration per component, at least two.
        concentrations: Vec<f64>,
    },
}

impl Family {
    /// The names of the families and of their parameters, in order.
    pub const NAMES: [(&'static str, &'static [&'static str]); 11] = [
        ("gaussian", &["mean", "deviation"]),
        ("exponential", &["rate"]),
        ("gamma", &["shape", "rate"]),
        ("chi-squared", &["degrees"]),
        ("weibull", &["shape", "scale"]),
        ("log-normal", &["mean", "deviation"]),
        ("pareto", &["shape"]),
        ("beta", &["alpha", "beta"]),
        ("laplace", &["centre", "scale"]),
        ("poisson", &["rate"]),
        ("dirichlet", &["concentrations"]),
    ];

    /// The family with this name, with parameters in the order of [`Family::NAMES`].
    ///
    /// # Errors
    /// If there is no family of this name, the number of parameters is wrong, or a parameter is out of range.
    ///
    /// ```
    /// use zhat::model::Family;
    /// assert_eq!(Family::named("gamma", &[2.0, 0.5])?, Family::Gamma { shape: 2.0, rate: 0.5 });
    /// # Ok::<(), zhat::Error>(())
    /// ```
    pub fn named(name: &str, parameters: &[f64]) -> Result<Family> {
        let family = match (name, parameters) {
            ("gaussian", &[mean, deviation]) => Family::Gaussian { mean, deviation },
            ("exponential", &[rate]) => Family::Exponential { rate },
            ("gamma", &[shape, rate]) => Family::Gamma { shape, rate },
            ("chi-squared", &[degrees]) => Family::ChiSquared { degrees },
            ("weibull", &[shape, scale]) => Family::Weibull { shape, scale },
            ("log-normal", &[mean, deviation]) => Family::LogNormal { mean, deviation },
            ("pareto", &[shape]) => Family::Pareto { shape },
            ("beta", &[alpha, beta]) => Family::Beta { alpha, beta },
            ("laplace", &[centre, scale]) => Family::Laplace { centre, scale },
            ("poisson", &[rate]) => Family::Poisson { rate },
            ("dirichlet", concentrations) => Family::Dirichlet { concentrations: concentrations.to_vec() },
            _ => {
                let Some((_, names)) = Self::NAMES.iter().find(|known| known.0 == name) else {
                    let known = Self::NAMES.map(|known| known.0).join(", ");
                    return Err(Error::argument(
                        "family",
                        format!("there is no `{name}`; there are {known}"),
                    ));
                };
                let message = format!(
                    "{name} has {}: {} expected, found {}",
                    names.join(", "),
                    names.len(),
                    parameters.len()
                );
                return Err(Error::argument("parameters", message));
            }
        };
        family.check()?;
        Ok(family)
    }

    /// A box with almost all of the mass; for counts, all of it.
    pub fn usual_box(&self) -> (f64, f64) {
        match *self {
            Family::Gaussian { mean, deviation } => (mean - 6.0 * deviation, mean + 6.0 * deviation),
            Family::Exponential { rate } => (0.0, 30.0 / rate),
            Family::Gamma { shape, rate } => {
                (1e-3 * shape / rate, (shape + 10.0 * shape.sqrt() + 10.0) / rate)
            }
            Family::ChiSquared { degrees } => {
                (1e-3 * degrees, degrees + 10.0 * (2.0 * degrees).sqrt() + 10.0)
            }
            Family::Weibull { shape, scale } => (1e-3 * scale, scale * 30f64.powf(1.0 / shape)),
            Family::LogNormal { mean, deviation } => {
                ((mean - 6.0 * deviation).exp(), (mean + 6.0 * deviation).exp())
            }
            Family::Pareto { .. } => (1.0, 1000.0),
            Family::Beta { .. } | Family::Dirichlet { .. } => (1e-3, 1.0 - 1e-3),
            Family::Laplace { centre, scale } => (centre - 40.0 * scale, centre + 40.0 * scale),
            Family::Poisson { .. } => (0.0, f64::INFINITY),
        }
    }

    /// The density on the box [a, b] for every variable.
    ///
    /// # Errors
    /// If a parameter is out of range, or the box is not a bounded interval (for counts: whole numbers) on
    /// which the density is positive and finite.
    ///
    /// ```
    /// use zhat::model::{Family, MixedModel};
    /// use zhat::{LogPartition, Run};
    /// use zhat::quadrature::MixedQuadrature;
    /// let model = Family::Exponential { rate: 2.0 }.on((0.0, 1.0))?;
    /// let z = MixedQuadrature::default().log_partition(&model, &Run::default())?;
    /// assert!((z.value.exp() - (1.0 - (-2f64).exp()) / 2.0).abs() < 1e-8);
    /// # Ok::<(), zhat::Error>(())
    /// ```
    pub fn on(&self, bounds: (f64, f64)) -> Result<MixedModel> {
        self.check()?;
        let x = |weight: f64, statistic: Statistic| Term { weight, factors: vec![(0, statistic)] };
        let constant = |weight: f64| Term { weight, factors: vec![] };
        let (power, log) = (Statistic::Power, Statistic::Log);
        let square = |mean: f64, deviation: f64, first: Statistic, second: Statistic| {
            let precision = 1.0 / (deviation * deviation);
            let shift = constant(-0.5 * mean * mean * precision);
            vec![x(mean * precision, first), x(-0.5 * precision, second), shift]
        };
        let mut terms = match *self {
            Family::Gaussian { mean, deviation } => square(mean, deviation, power(1.0), power(2.0)),
            Family::Exponential { rate } => vec![x(-rate, power(1.0))],
            Family::Gamma { shape, rate } => vec![x(shape - 1.0, log(1)), x(-rate, power(1.0))],
            Family::ChiSquared { degrees } => vec![x(0.5 * degrees - 1.0, log(1)), x(-0.5, power(1.0))],
            Family::Weibull { shape, scale } => {
                vec![x(shape - 1.0, log(1)), x(-scale.powf(-shape), power(shape))]
            }
            Family::LogNormal { mean, deviation } => {
                let mut terms = square(mean, deviation, log(1), log(2));
                terms[0].weight -= 1.0;
                terms
            }
            Family::Pareto { shape } => vec![x(-shape - 1.0, log(1))],
            Family::Beta { alpha, beta } => {
                vec![x(alpha - 1.0, log(1)), x(beta - 1.0, Statistic::LogComplement)]
            }
            Family::Laplace { centre, scale } => {
                vec![x(-1.0 / scale, Statistic::Distance { centre, power: 1.0 })]
            }
            Family::Poisson { rate } => vec![x(rate.ln(), power(1.0)), x(-1.0, Statistic::LogFactorial)],
            Family::Dirichlet { ref concentrations } => {
                let mut terms = Vec::new();
                let mut left: f64 = concentrations.iter().sum();
                for (v, &alpha) in concentrations[..concentrations.len() - 1].iter().enumerate() {
                    left -= alpha;
                    terms.push(Term { weight: alpha - 1.0, factors: vec![(v, log(1))] });
                    terms.push(Term { weight: left - 1.0, factors: vec![(v, Statistic::LogComplement)] });
                }
                terms
            }
        };
        terms.retain(|term| term.weight != 0.0);
        let variables =
            if let Family::Dirichlet { concentrations } = self { concentrations.len() - 1 } else { 1 };
        let domain = if let Family::Poisson { .. } = self {
            counts(bounds)?
        } else {
            Domain::Interval(bounds.0, bounds.1)
        };
        MixedModel::new(vec![domain; variables], terms)
    }

    fn check(&self) -> Result<()> {
        let positive: &[(&str, f64)] = match *self {
            Family::Gaussian { deviation, .. } | Family::LogNormal { deviation, .. } => {
                &[("deviation", deviation)]
            }
            Family::Exponential { rate } => &[("rate", rate)],
            Family::Gamma { shape, rate } => &[("shape", shape), ("rate", rate)],
            Family::ChiSquared { degrees } => &[("degrees", degrees)],
            Family::Weibull { shape, scale } => &[("shape", shape), ("scale", scale)],
            Family::Pareto { shape } => &[("shape", shape)],
            Family::Beta { alpha, beta } => &[("alpha", alpha), ("beta", beta)],
            Family::Laplace { scale, .. } => &[("scale", scale)],
            Family::Poisson { rate } => &[("rate", rate)],
            Family::Dirichlet { ref concentrations } => {
                if concentrations.len() < 2 {
                    return Err(Error::argument("concentrations", "expected at least two"));
                }
                if let Some(&alpha) = concentrations.iter().find(|alpha| alpha.is_nan() || **alpha <= 0.0) {
                    return Err(Error::argument("concentrations", format!("{alpha} is not above 0")));
                }
                &[]
            }
        };
        match positive.iter().find(|(_, value)| !(*value > 0.0 && value.is_finite())) {
            Some((name, value)) => Err(Error::argument(*name, format!("{value} is not above 0 and finite"))),
            None => Ok(()),
        }
    }
}

/// The counts in a box, whose upper end may be infinite.
fn counts((a, b): (f64, f64)) -> Result<Domain> {
    let whole = |x: f64| x.fract() == 0.0 && (0.0..9e15).contains(&x);
    if !whole(a) || !(whole(b) || b == f64::INFINITY) {
        let message =
            format!("[{a}, {b}] is no range of counts: expected whole numbers from 0 on, or no upper end");
        return Err(Error::argument("low, high", message));
    }
    Ok(Domain::Counts(a as u64, b.is_finite().then_some(b as u64)))
}

impl MixedModel {
    /// A mixture of normal distributions: Σₖ wₖ exp(−(x − μₖ)²/2σₖ²)/σₖ on the box. The variables are the
    /// class k and the number x.
    ///
    /// # Errors
    /// If there is no class, the slices have different lengths, a weight or deviation is not positive, or the
    /// box is not a bounded interval.
    pub fn gaussian_mixture(
        weights: &[f64],
        means: &[f64],
        deviations: &[f64],
        bounds: (f64, f64),
    ) -> Result<Self> {
        let classes = weights.len();
        if means.len() != classes || deviations.len() != classes {
            let message =
                format!("{classes}, {} and {} numbers, expected as many", means.len(), deviations.len());
            return Err(Error::argument("weights, means, deviations", message));
        }
        let mut terms = Vec::new();
        for k in 0..classes {
            let (w, mean, deviation) = (weights[k], means[k], deviations[k]);
            if !(w > 0.0 && deviation > 0.0) {
                let message =
                    format!("class {k} has weight {w} and deviation {deviation}, expected both above 0");
                return Err(Error::argument("weights, deviations", message));
            }
            let precision = 1.0 / (deviation * deviation);
            let class = (0, Statistic::State(k));
            let mut add = |weight: f64, more: Option<f64>| {
                let factors = [class].into_iter().chain(more.map(|c| (1, Statistic::Power(c)))).collect();
                terms.push(Term { weight, factors });
            };
            add(w.ln() - deviation.ln() - 0.5 * mean * mean * precision, None);
            add(mean * precision, Some(1.0));
            add(-0.5 * precision, Some(2.0));
        }
        MixedModel::new(vec![Domain::States(classes), Domain::Interval(bounds.0, bounds.1)], terms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_have_the_scores_that_they_say() {
        for (family, x, score) in [
            (Family::Gaussian { mean: 1.0, deviation: 2.0 }, 4.0, -9.0 / 8.0),
            (Family::Exponential { rate: 3.0 }, 0.5, -1.5),
            (Family::Gamma { shape: 3.0, rate: 0.5 }, 2.0, 2.0 * 2f64.ln() - 1.0),
            (Family::ChiSquared { degrees: 5.0 }, 2.0, 1.5 * 2f64.ln() - 1.0),
            (Family::Weibull { shape: 2.0, scale: 4.0 }, 2.0, 2f64.ln() - 0.25),
            (Family::LogNormal { mean: 0.5, deviation: 1.0 }, 1.0, -0.125),
            (Family::Pareto { shape: 2.0 }, 2.0, -3.0 * 2f64.ln()),
            (Family::Laplace { centre: 3.0, scale: 2.0 }, 2.0, -0.5),
        ] {
            let model = family.on((0.25, 8.0)).unwrap();
            assert!((model.score(&[x]) - score).abs() < 1e-12, "{family:?}");
        }
        let poisson = Family::Poisson { rate: 3.0 }.on((0.0, 9.0)).unwrap();
        assert!((poisson.score(&[4.0]) - 4.0 * 3f64.ln() + 24f64.ln()).abs() < 1e-12);
        assert!(Family::Poisson { rate: 3.0 }.on((0.5, 9.0)).is_err());
        let beta = Family::Beta { alpha: 2.0, beta: 3.0 }.on((0.1, 0.9)).unwrap();
        assert!((beta.score(&[0.5]) + 3.0 * 2f64.ln()).abs() < 1e-12 && beta.is_numerical());
    }

    #[test]
    fn every_name_makes_a_model_on_its_usual_box() {
        for (name, names) in Family::NAMES {
            let parameters = if name == "dirichlet" { vec![2.0, 3.0, 4.0] } else { vec![2.5; names.len()] };
            let family = Family::named(name, &parameters).unwrap();
            family.on(family.usual_box()).unwrap();
            assert!(Family::named(name, &[]).is_err(), "{name}");
        }
        assert!(Family::named("gamma", &[0.0, 1.0]).unwrap_err().to_string().contains("shape"));
        assert!(Family::named("cauchy", &[]).unwrap_err().to_string().contains("gaussian"));
        assert!(MixedModel::gaussian_mixture(&[1.0], &[], &[1.0], (0.0, 1.0)).is_err());
        assert!(MixedModel::gaussian_mixture(&[0.0], &[0.0], &[1.0], (0.0, 1.0)).is_err());
    }
}
