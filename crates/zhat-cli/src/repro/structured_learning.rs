//! Vembu, Gärtner & Boley (2009), Eq. 1 and Section 5: batch, sampled and online learning of the emotions data
//! set, with the certified gap over time, and the regret of online learning beside its bounds.

use std::path::PathBuf;
use std::time::Instant;

use zhat::learn::Structure;
use zhat::learn::predict::{
    Encoder, Encoding, Form, Inputs, Learning, Method, ReadOptions, Recipe, Regret, Space, Targets,
    read_examples, train,
};
use zhat::{Error, Result};

use super::{Setting, header, line};
use crate::chart;
use crate::output;

/// λ of all runs.
const LAMBDA: f64 = 0.01;

/// The objective and its certified gap after some time.
struct Point {
    seconds: f64,
    step: usize,
    objective: f64,
    gap: f64,
    regret: Option<Regret>,
}

/// The training rows of emotions: form, inputs and targets.
fn data(setting: &Setting<'_>) -> Result<(Form, Inputs, Targets)> {
    let folder = std::env::var_os("ZHAT_DATA").ok_or_else(|| {
        Error::argument("ZHAT_DATA", "is not set: the folder must contain data/multilabel/emotions")
    })?;
    let folder = PathBuf::from(folder).join("data/multilabel/emotions");
    let options =
        ReadOptions { space: Space::Labels, xml: Some(folder.join("emotions.xml")), ..Default::default() };
    let examples = read_examples(&folder.join("emotions-train.arff"), &options)?;
    let recipe = Recipe { pairs: Structure::ChowLiu { more: 0 }, ..Default::default() };
    let form = recipe.form(&examples, &setting.run)?;
    let inputs = Encoder::fit(&examples, &Encoding::default())?.encode(&examples, &setting.run)?;
    let targets = examples.observed()?.clone();
    Ok((form, inputs, targets))
}

pub fn run(setting: &Setting<'_>) -> Result<()> {
    let (form, inputs, targets) = data(setting)?;
    output::print(&format!(
        "Emotions: {} rows, {} inputs, {} labels with the pairs of the Chow–Liu tree, λ = {LAMBDA}. The certified \
         gap bounds the distance of the objective from its minimum; for sampled gradients at confidence 0.95.\n\n",
        inputs.rows(),
        inputs.columns() - 1,
        form.width()
    ))?;
    let short = setting.quick;
    let how = Learning::default().lambda(LAMBDA).gap(1e-9).iterations(500);
    let steps = |many: usize, few: usize| if short { few } else { many };
    let online = how.method(Method::Online).iterations(steps(100, 3));
    let cases = [
        ("batch, L-BFGS", how),
        ("sampled, first 1 per row", how.method(Method::Sampled).samples(1).iterations(steps(80, 20))),
        ("sampled, first 100 per row", how.method(Method::Sampled).samples(100).iterations(steps(25, 5))),
        ("online, 1 sample", online.samples(1)),
        ("online, 1 sample, a = 1/2", online.samples(1).share(0.5)),
        ("online, exact, 17 rows", online.samples(0).batch(17)),
    ];
    let mut least = f64::INFINITY;
    let mut courses: Vec<(&str, Vec<Point>)> = Vec::new();
    for (name, how) in cases {
        let mut course = Vec::new();
        let started = Instant::now();
        train(&form, &inputs, &targets, &how, None, None, &setting.run, &mut |now| {
            let progress = now.progress();
            course.push(Point {
                seconds: started.elapsed().as_secs_f64(),
                step: progress.step,
                objective: progress.objective,
                gap: progress.gap,
                regret: now.regret(),
            });
            Ok(true)
        })?;
        least = course.iter().fold(least, |least, point| least.min(point.objective));
        courses.push((name, course));
    }
    output::print(&header(&[
        "method",
        "steps or passes",
        "seconds",
        "objective − minimum",
        "certified gap",
    ]))?;
    for (name, course) in &courses {
        // The first step, then each time the number of steps has doubled, and the last.
        let mut next = 1;
        for (i, point) in course.iter().enumerate() {
            if point.step < next && i + 1 < course.len() {
                continue;
            }
            next = 2 * point.step;
            output::print(&line(&[
                (*name).into(),
                point.step.to_string(),
                format!("{:.3}", point.seconds),
                format!("{:.1e}", (point.objective - least).max(0.0)),
                format!("{:.1e}", point.gap),
            ]))?;
        }
    }
    let curve = |name: String, points: Vec<(f64, f64)>| chart::Curve { name, points };
    let mut curves = Vec::new();
    for (name, course) in &courses {
        let gap = course.iter().map(|point| (point.seconds, point.gap)).collect();
        curves.push(curve(format!("{name}: certified gap"), gap));
    }
    let axes = chart::Axes {
        title: "Learning of emotions: certified distance from the minimum",
        x: "seconds",
        y: "nats per row",
    };
    setting.picture("structured-learning.svg", &chart::log_log(&axes, &curves)?)?;
    regrets(setting, &courses, least)
}

/// The measured regret of the online runs, and its bounds.
fn regrets(setting: &Setting<'_>, courses: &[(&str, Vec<Point>)], least: f64) -> Result<()> {
    output::print(
        "\nRegret of online learning, Σ f_t(θ_t) − T·min f. The bounds for samples hold at confidence 0.95: the \
         first for exact samples, the second for any errors of gradients within their certified radii.\n\n",
    )?;
    output::print(&header(&[
        "method",
        "steps",
        "measured regret",
        "part of exact gradients",
        "bound, exact samples",
        "bound, any errors",
    ]))?;
    let mut curves = Vec::new();
    for (name, course) in courses {
        let found: Vec<Regret> = course.iter().filter_map(|point| point.regret).collect();
        let mut next = 1;
        for (i, regret) in found.iter().enumerate() {
            if i + 1 < next && i + 1 < found.len() {
                continue;
            }
            next = 2 * (i + 1);
            output::print(&line(&[
                (*name).into(),
                regret.steps.to_string(),
                format!("{:.1}", regret.measured(least)),
                format!("{:.1}", regret.exact_part()),
                format!("{:.1}", regret.sample_bound()),
                format!("{:.1}", regret.radius_bound()),
            ]))?;
        }
        if let Some(last) = found.last()
            && last.measured(least) > last.sample_bound()
        {
            return Err(Error::NoAnswer(format!("{name}: the regret exceeds its bound")));
        }
        let points = |value: &dyn Fn(&Regret) -> f64| {
            found.iter().map(|regret| (regret.steps as f64, value(regret))).filter(|at| at.1 > 0.0).collect()
        };
        if !found.is_empty() {
            let measured: Vec<(f64, f64)> = points(&|regret| regret.measured(least));
            curves.push(chart::Curve { name: format!("{name}: measured"), points: measured });
            let bound: Vec<(f64, f64)> = points(&Regret::sample_bound);
            curves.push(chart::Curve { name: format!("{name}: bound"), points: bound });
        }
    }
    let axes = chart::Axes { title: "Regret of online learning of emotions", x: "steps", y: "nats" };
    setting.picture("structured-regret.svg", &chart::log_log(&axes, &curves)?)
}
