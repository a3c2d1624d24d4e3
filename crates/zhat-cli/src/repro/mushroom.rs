//! Piatkowski & Morik (2018), Figure 2, third and fourth plot: a model of the mushroom table, fitted with
//! exact and estimated gradients; and fits on a graph with cycles by every method.

use std::path::PathBuf;
use std::time::Instant;

use serde_json::json;
use zhat::catalogue::{Choice, Settings};
use zhat::internal::optimize::{Fista, StepSize};
use zhat::io::table::TableOptions;
use zhat::learn::read_statistics;
use zhat::learn::{self, Fit, Likelihood, Statistics, Structure};
use zhat::{Error, Result};

use super::{Setting, header, line, short};
use crate::chart::{self, Axes, Curve};
use crate::output;

/// The paper's l1 penalty on the mean log-likelihood.
const L1: f64 = 0.5;
/// The paper's number of samples per iteration.
const SAMPLES: u64 = 10_000;
const ITERATIONS: usize = 300;
/// Maximum number of redraws if log Ẑ does not exist.
const ANEW: u64 = 50;
/// Number of pairs added to the tree.
const MORE: usize = 20;

/// Statistics of the rows without missing values.
fn table(setting: &Setting<'_>) -> Result<Statistics> {
    let folder = std::env::var_os("ZHAT_DATA").ok_or_else(|| {
        let message =
            "is not set: `cargo xtask data mushroom FOLDER` fetches the table, then set it to FOLDER";
        Error::argument("ZHAT_DATA", message)
    })?;
    let path = PathBuf::from(folder).join("data/mushroom/agaricus-lepiota.data");
    let options = TableOptions { header: false, markers: vec!["?".into()], ..Default::default() };
    let statistics = read_statistics(&path, &options, &setting.run)?;
    output::print(&format!(
        "Mushroom data: {} complete rows, {} columns.\n",
        statistics.rows(),
        statistics.columns().len()
    ))?;
    Ok(statistics)
}

fn options(pairs: &[(&str, serde_json::Value)]) -> Settings {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}

/// A method for log Z and marginals.
struct Variant {
    name: &'static str,
    method: &'static str,
    settings: Settings,
}

fn published(name: &'static str, degree: usize, samples: u64) -> Variant {
    let settings = options(&[("degree", json!(degree)), ("samples", json!(samples))]);
    Variant { name, method: "sccq-published", settings }
}

/// One run of FISTA with step 1/L: the method's estimate of −ℓ, the exact −ℓ, and the mean squared difference
/// between the marginals of the model and of the table.
struct Course {
    seen: Vec<(f64, f64)>,
    truth: Vec<(f64, f64)>,
    marginals: Vec<(f64, f64)>,
    /// Reason for early termination, or a note on redraws.
    end: Option<String>,
}

fn course(
    statistics: &Statistics,
    edges: &[(usize, usize)],
    variant: &Variant,
    setting: &Setting<'_>,
) -> Result<Course> {
    // The paper's cliques are only the pairs.
    let with = |method: &str, settings: Settings| {
        Likelihood::with_tables(statistics, &[], edges, Choice::parse(method), settings)
    };
    let (own, exact) = (with(variant.method, variant.settings.clone())?, with("exact", Settings::new())?);
    let size = StepSize::Fixed(own.tables() as f64);
    let mut fista = Fista::new(vec![0.0; own.dimension()], L1, size);
    let mut course = Course { seen: Vec::new(), truth: Vec::new(), marginals: Vec::new(), end: None };
    let (mut iteration, mut anew) = (1, 0);
    while iteration <= ITERATIONS {
        let seed = setting.run.seed().wrapping_add(iteration as u64 + (anew << 32));
        let run = setting.run.clone().with_seed(seed);
        let mut at = |parameters: &[f64], gradient: &mut [f64]| {
            let value = own.negative(parameters, gradient, &run)?;
            let squares: f64 = gradient.iter().map(|x| x * x).sum();
            course.seen.push((iteration as f64, value));
            course.truth.push((iteration as f64, -exact.value(parameters, &setting.run)?.value));
            course.marginals.push((iteration as f64, squares / gradient.len() as f64));
            Ok(value)
        };
        match fista.step(&mut at) {
            Err(Error::NoAnswer(why)) => {
                anew += 1;
                course.end = Some(format!("{why} (after {anew} new draws)"));
                if anew > ANEW {
                    return Ok(course);
                }
            }
            step => {
                step?;
                iteration += 1;
            }
        }
    }
    course.end = (anew > 0).then(|| format!("log Ẑ was undefined {anew} times and was drawn again"));
    Ok(course)
}

fn courses(setting: &Setting<'_>) -> Result<Vec<(&'static str, Course)>> {
    let statistics = table(setting)?;
    let edges = Structure::ChowLiu { more: 0 }.edges(&statistics)?;
    let ours = options(&[("samples", json!(SAMPLES)), ("form", json!("uniform"))]);
    let variants = [
        Variant { name: "exact", method: "exact", settings: Settings::new() },
        published("published, k = 1", 1, SAMPLES),
        published("published, k = 3", 3, SAMPLES),
        Variant { name: "zhat", method: "sccq", settings: ours },
    ];
    output::print(&format!(
        "Chow-Liu tree, l1 = {L1}, FISTA with step 1/L, {SAMPLES} samples per iteration. zhat uses no base either (`form=uniform`); on a tree its default base would be the whole model.\n\n"
    ))?;
    variants
        .iter()
        .map(|variant| Ok((variant.name, course(&statistics, &edges, variant, setting)?)))
        .collect()
}

/// Rows at some iterations.
fn print(
    courses: &[(&'static str, Course)],
    pick: fn(&Course) -> &Vec<(f64, f64)>,
    number: fn(f64) -> String,
) -> Result<()> {
    let names: Vec<&str> = ["iteration"].into_iter().chain(courses.iter().map(|course| course.0)).collect();
    output::print(&header(&names))?;
    for iteration in [1usize, 2, 5, 10, 20, 50, 100, 200, ITERATIONS] {
        let cell = |(_, course): &(&'static str, Course)| {
            pick(course).get(iteration - 1).map_or_else(|| "ended".into(), |point| number(point.1))
        };
        let cells: Vec<String> =
            [iteration.to_string()].into_iter().chain(courses.iter().map(cell)).collect();
        output::print(&line(&cells))?;
    }
    for (name, course) in courses {
        if let Some(end) = &course.end {
            output::print(&format!("\n{name}: {end}\n"))?;
        }
    }
    Ok(())
}

fn curves(courses: &[(&'static str, Course)], pick: fn(&Course) -> &Vec<(f64, f64)>) -> Vec<Curve> {
    courses
        .iter()
        .map(|(name, course)| Curve { name: (*name).into(), points: pick(course).clone() })
        .collect()
}

/// −ℓ by iteration.
pub fn likelihoods(setting: &Setting<'_>) -> Result<()> {
    let courses = courses(setting)?;
    output::print("Negative log-likelihood −ℓ as estimated by each method:\n\n")?;
    print(&courses, |course| &course.seen, |x| format!("{x:.3}"))?;
    output::print("\nExact −ℓ at the same parameters:\n\n")?;
    print(&courses, |course| &course.truth, |x| format!("{x:.3}"))?;
    let title = "Mushroom data, Chow-Liu tree: estimated −ℓ by iteration";
    let axes = Axes { title, x: "iteration", y: "−ℓ, nats per row" };
    setting.picture("sccq-fig2-3.svg", &chart::log_y(&axes, &curves(&courses, |course| &course.seen), &[])?)
}

/// The error of marginals by iteration.
pub fn marginals(setting: &Setting<'_>) -> Result<()> {
    let courses = courses(setting)?;
    output::print(
        "Mean squared difference between the marginals of the model, as estimated by each method, and those of the table:\n\n",
    )?;
    print(&courses, |course| &course.marginals, short)?;
    let title = "Mushroom data, Chow-Liu tree: error of the marginals by iteration";
    let axes = Axes { title, x: "iteration", y: "mean squared error" };
    setting
        .picture("sccq-fig2-4.svg", &chart::log_y(&axes, &curves(&courses, |course| &course.marginals), &[])?)
}

/// One of the fits of [`cycles`].
struct Ending {
    iterations: usize,
    /// ℓ of the final model, by elimination.
    truth: f64,
    /// The method's own value of ℓ, or the reason why there is none.
    seen: String,
    seconds: f64,
}

fn ending(own: &Likelihood, exact: &Likelihood, how: &Fit, setting: &Setting<'_>) -> Result<Ending> {
    let started = Instant::now();
    let (mut last, mut iterations) = (own.start(how.start), 0);
    let fitted = learn::fit(own, how, None, &setting.run, &mut |now| {
        last = now.parameters().to_vec();
        iterations = now.progress().iteration;
        Ok(true)
    });
    let seconds = started.elapsed().as_secs_f64();
    let seen = match fitted {
        Ok(fitted) => format!("{:.4}", fitted.log_likelihood.value),
        Err(Error::NoAnswer(why)) => why,
        Err(error) => return Err(error),
    };
    Ok(Ending { iterations, truth: exact.value(&last, &setting.run)?.value, seen, seconds })
}

/// The tree and twenty more pairs: the final model of each method, evaluated exactly.
pub fn cycles(setting: &Setting<'_>) -> Result<()> {
    let statistics = table(setting)?;
    let edges = Structure::ChowLiu { more: MORE }.edges(&statistics)?;
    let likelihood =
        |method: &str, settings| Likelihood::new(&statistics, &edges, Choice::parse(method), settings);
    let exact = likelihood("exact", Settings::new())?;
    let how = Fit::default().l2(1.0 / statistics.rows() as f64);
    let tree: f64 = {
        let edges = Structure::ChowLiu { more: 0 }.edges(&statistics)?;
        let information: f64 = edges.iter().map(|&(i, j)| statistics.mutual_information(i, j)).sum();
        let columns = 0..statistics.columns().len();
        information - columns.map(|v| statistics.entropy(v)).sum::<f64>()
    };
    output::print(&format!(
        "Chow-Liu tree and {MORE} more pairs, l2 = 1/rows. Log-likelihood per row of the model fitted by each method, computed by elimination; \
         the tree alone has {tree:.4}.\n\n{}",
        header(&[
            "method",
            "iterations",
            "log-likelihood",
            "below exact",
            "estimated by the method",
            "seconds"
        ])
    ))?;
    let iterations = if setting.quick { 60 } else { 400 };
    let sampled = options(&[("samples", json!(SAMPLES)), ("form", json!("tree"))]);
    let small = options(&[("samples", json!(SAMPLES)), ("i_bound", json!(3))]);
    let variants = [
        Variant { name: "exact", method: "exact", settings: Settings::new() },
        Variant { name: "sccq", method: "sccq", settings: Settings::new() },
        Variant { name: "sccq, form=tree", method: "sccq", settings: sampled },
        Variant { name: "wmb-is, i_bound=3", method: "wmb-is", settings: small },
        Variant { name: "trw", method: "trw", settings: Settings::new() },
        Variant { name: "bp", method: "bp", settings: Settings::new() },
        published("sccq-published, k = 3", 3, 100 * SAMPLES),
    ];
    let mut best = f64::NAN;
    for variant in variants {
        let own = likelihood(variant.method, variant.settings)?;
        // The exact fit runs until convergence.
        let how = if best.is_nan() { how } else { how.iterations(iterations) };
        let Ending { iterations, truth, seen, seconds } = ending(&own, &exact, &how, setting)?;
        best = if best.is_nan() { truth } else { best };
        let below = format!("{:.2}%", (100.0 * (best - truth) / best.abs()).max(0.0));
        let cells =
            [variant.name.into(), iterations.to_string(), format!("{truth:.4}"), below, seen, short(seconds)];
        output::print(&line(&cells))?;
    }
    output::print(WHY)
}

/// Explains the results of `trw` and `bp`, which are known in theory.
const WHY: &str = "
sccq: the base of bounded width contains the whole graph here; with form=tree it samples.
trw: the best bound over forest weights and θ is that of a single forest with its closed-form parameters, so the likelihood of the tree is the largest value that it can
certify.
bp: the Bethe likelihood is largest at θ_vw = ln μ̂_vw/(μ̂_v·μ̂_w) for every pair, as if the graph had no cycles. With strong pairs in cycles the same information is counted
several times: the larger the Bethe likelihood, the worse the model.
";
