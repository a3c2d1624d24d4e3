//! Error of the published quadrature and of ours in the same time.

use std::time::Instant;

use zhat::exact::Elimination;
use zhat::internal::quadrature::{Cliques, Norms, Polynomial, corrected, least_degree};
use zhat::quadrature::{PublishedQuadrature, QuadratureForm, StochasticQuadrature};
use zhat::random::Streams;
use zhat::{Error, FactorGraph, LogPartition, Result, Run};

use super::{Setting, header, line};
use crate::chart::{self, Axes, Curve};
use crate::output;

const NORMS: [f64; 7] = [0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0];
/// The degree of the paper's experiments.
const DEGREE: usize = 3;
/// The number of tuples drawn to measure their time.
const TRIAL: u64 = 1 << 18;

pub fn run(setting: &Setting<'_>) -> Result<()> {
    output::print(
        "Relative standard error of Ẑ at equal time, Ising grids with couplings ±J of random sign and ‖θ‖₁ = 4·edges·J.\n\
         published: as many tuples as fit into the time of `tree`, by their analytic second moment, with degree 3 and with the degree \
         for which the polynomial is within 1%;\n\
         tree, width 8: `sccq` with 131072 samples from its base; half the width of its 95% interval for log Z in parentheses.\n\n",
    )?;
    let sides: &[usize] = if setting.quick { &[4] } else { &[4, 10] };
    let mut curves = Vec::new();
    for &side in sides {
        let names = [
            "‖θ‖₁",
            "published, k = 3",
            "published, k for 1%",
            "tree",
            "width 8",
            "published / tree",
            "N for ε = 0.1, published",
        ];
        output::print(&format!("{side} × {side}\n\n{}", header(&names)))?;
        let mut points: [Vec<(f64, f64)>; 3] = Default::default();
        for norm in NORMS {
            let graph = grid(side, norm, setting.run.seed())?;
            let exact = Elimination::default().log_partition(&graph, &setting.run)?.value;
            let started = Instant::now();
            let tree = ours(&graph, QuadratureForm::Tree, &setting.run)?;
            let seconds = started.elapsed().as_secs_f64();
            let wide = ours(&graph, QuadratureForm::Width, &setting.run)?;
            let subject = Published::new(&graph, exact)?;
            let cubic = subject.error(DEGREE, seconds, &graph, &setting.run)?;
            let needed = least_degree(subject.norms.interval(), 0.01 * subject.mean);
            let right = match needed {
                Some(degree) => {
                    let error = subject.error(degree, seconds, &graph, &setting.run)?;
                    format!("{} (k = {degree})", short(error))
                }
                None => "no such polynomial".into(),
            };
            let samples = corrected(&subject.norms, subject.norms.interval(), 0.1, 0.05);
            let samples = samples.map_or("no such polynomial".into(), |needed| {
                format!("10^{:.1}", needed.log_samples / std::f64::consts::LN_10)
            });
            output::print(&line(&[
                norm.to_string(),
                short(cubic),
                right,
                tree.to_string(),
                wide.to_string(),
                format!("{:.1e}", cubic / tree.error),
                samples,
            ]))?;
            for (list, error) in points.iter_mut().zip([cubic, tree.error, wide.error]) {
                list.push((norm, error));
            }
        }
        output::print("\n")?;
        for (name, points) in ["published, k = 3", "sccq, tree", "sccq, width 8"].into_iter().zip(points) {
            curves.push(Curve { name: format!("{side} × {side}, {name}"), points });
        }
    }
    let axes =
        Axes {
            title: "Relative standard error of Z at equal time", x: "‖θ‖₁", y: "relative standard error"
        };
    setting.picture("sccq-error.svg", &chart::log_log(&axes, &curves)?)
}

/// Three significant digits for numbers of any magnitude.
fn short(x: f64) -> String {
    if x.abs() < 1e4 { super::short(x) } else { format!("{x:.1e}") }
}

/// A grid without fields.
fn grid(side: usize, norm: f64, seed: u64) -> Result<FactorGraph> {
    let mut random = Streams::new(seed, "couplings of random sign").block(0);
    let mut graph = FactorGraph::new(vec![2; side * side])?;
    let coupling = norm / (8 * side * (side - 1)) as f64;
    let mut add = |graph: &mut FactorGraph, u: usize, v: usize| {
        let j = if random.below(2) == 0 { coupling } else { -coupling };
        graph.add_factor(&[u, v], &[j, -j, -j, j]).map(|_| ())
    };
    for v in 0..side * side {
        if v % side + 1 < side {
            add(&mut graph, v, v + 1)?;
        }
        if v + side < side * side {
            add(&mut graph, v, v + side)?;
        }
    }
    Ok(graph)
}

/// A relative standard error and half the width of the interval.
struct Ours {
    error: f64,
    half: f64,
}

impl std::fmt::Display for Ours {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.error == 0.0 {
            return write!(f, "exact");
        }
        write!(f, "{} ({})", short(self.error), short(self.half))
    }
}

fn ours(graph: &FactorGraph, form: QuadratureForm, run: &Run) -> Result<Ours> {
    let method = StochasticQuadrature::default().form(form);
    let answer = method.log_partition(graph, run)?;
    let error = answer.diagnostics.figures().find(|(name, _)| *name == "relative_std_error");
    let error = error.and_then(|(_, value)| value.as_f64()).unwrap_or(0.0);
    let half = answer
        .guarantee
        .interval(answer.value, 0.0)
        .map_or(f64::INFINITY, |(low, high, _)| 0.5 * (high - low));
    Ok(Ours { error, half })
}

/// The published estimator on a model whose θ all have the same absolute value, so that its second moment is
/// known.
struct Published {
    norms: Norms,
    /// Z/|X|.
    mean: f64,
}

impl Published {
    fn new(graph: &FactorGraph, log_partition: f64) -> Result<Self> {
        let norms = Norms::of(&Cliques::new(graph)?);
        Ok(Published { norms, mean: (log_partition - graph.log_state_count()).exp() })
    }

    /// The relative standard error of as many tuples as can be drawn in `seconds`: E\[(τ Π θ)²\] = τ·Σᵢ
    /// |ζᵢ|·|C|ⁱ·θ²ⁱ, in units of |X|².
    fn error(&self, degree: usize, seconds: f64, graph: &FactorGraph, run: &Run) -> Result<f64> {
        let polynomial = Polynomial::chebyshev(degree, self.norms.interval())?;
        let mass = |squared: f64| -> f64 {
            let size = self.norms.cliques as f64 * squared;
            polynomial
                .coefficients()
                .iter()
                .enumerate()
                .map(|(i, zeta)| zeta.abs() * size.powi(i as i32))
                .sum()
        };
        let second = mass(1.0) * mass(self.norms.largest.powi(2));
        let method = PublishedQuadrature::default().degree(Some(degree)).samples(TRIAL);
        let started = Instant::now();
        // A negative estimate has no logarithm, but its time counts all the same.
        if let Err(error) = method.log_partition(graph, run)
            && !matches!(error, Error::NoAnswer(_))
        {
            return Err(error);
        }
        let samples = seconds * TRIAL as f64 / started.elapsed().as_secs_f64();
        Ok(((second - self.mean.powi(2)).max(0.0) / samples).sqrt() / self.mean)
    }
}
