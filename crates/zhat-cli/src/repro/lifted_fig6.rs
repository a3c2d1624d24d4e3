//! Jernite, Rush & Sontag (2015), Figure 6: the certified likelihood of a validation text during training.

use std::time::Instant;

use zhat::Result;
use zhat::learn::language::{Epoch, Objective, train_log_bilinear};

use super::lifted::{Treebank, by_pseudo_likelihood, learned, stochastic, told};
use super::{Setting, header, line, short};
use crate::chart::{self, Axes, Curve};
use crate::output;

pub fn run(setting: &Setting<'_>) -> Result<()> {
    let treebank = Treebank::open(setting)?;
    output::print(&format!(
        "Log-likelihood of the validation text in nats per word, separators included. The bounds are certified, the likelihood of the log-bilinear model (LBL) is exact up to single precision, and the annealed \
         value is an estimate that is biased upward.\nThe paper shows a plot without numbers: its bound (K = 2, star) ends slightly below the LBL after 45 minutes on a GPU.\n\n{}",
        header(&["model", "bound", "ρ", "validation", "annealed", "‖θ²‖", "seconds"])
    ))?;
    let rows = [
        ("K = 1", 1, "spectral", Objective::Spectral(Vec::new())),
        ("K = 2", 2, "star", Objective::Star),
        ("K = 2", 2, "spectral", Objective::Spectral(Vec::new())),
        ("K = 2", 2, "spectral", Objective::Spectral(vec![0.6, 0.4])),
    ];
    let mut curves = Vec::new();
    for (name, context, bound, objective) in rows {
        let found = learned(&treebank, context, objective, setting)?;
        output::print(&line(&[
            name.into(),
            bound.into(),
            found.shares(),
            format!("{:.4}", found.certified(setting)?),
            format!("{:.3}", found.annealed(setting)?),
            found.second_norm().map_or_else(|| "none".into(), short),
            short(found.seconds),
        ]))?;
        curves
            .push(Curve { name: format!("{name}, {bound}, ρ = {}", found.shares()), points: found.course });
    }
    let sentences = treebank.sentences()?;
    let found = by_pseudo_likelihood(&treebank, &sentences, setting)?;
    output::print(&line(&[
        "K = 2, pseudo-likelihood".into(),
        "spectral".into(),
        found.shares(),
        format!("{:.4}", found.certified(setting)?),
        format!("{:.3}", found.annealed(setting)?),
        found.second_norm().map_or_else(|| "none".into(), short),
        short(found.seconds),
    ]))?;
    let [text, valid] = sentences;
    let end = curves.iter().flat_map(|curve| &curve.points).fold(0.0f64, |end, point| end.max(point.0));
    let mut best = f64::NEG_INFINITY;
    for (name, cyclic) in [("LBL, K = 2", false), ("K = 2, exact", true)] {
        let started = Instant::now();
        let how = stochastic(2, setting).cyclic(cyclic);
        let mut course = Vec::new();
        let mut watch = |epoch: &Epoch| {
            told(name, epoch);
            course.extend(epoch.valid.map(|valid| (started.elapsed().as_secs_f64(), valid)));
            Ok(true)
        };
        let model =
            train_log_bilinear(&text, &treebank.vocabulary, Some(&valid), &how, &setting.run, &mut watch)?;
        let seconds = started.elapsed().as_secs_f64();
        let reached = model.evaluate(&valid, &setting.run)?.per_word();
        best = best.max(reached);
        output::print(&line(&[
            name.into(),
            if cyclic { "certified" } else { "no bound" }.into(),
            String::new(),
            format!("{reached:.4}"),
            format!("{reached:.4}"),
            String::new(),
            short(seconds),
        ]))?;
        course.retain(|point| point.0 <= end);
        course.push((end, reached));
        curves.push(Curve { name: name.into(), points: course });
    }
    output::print(
        "\nThe last row is also a pairwise Markov random field of order 2, trained by its exact likelihood (log Z at most 2·log C): the value of the longer context without a bound.\n",
    )?;
    // Omits the first steps, which would dominate the y axis.
    let least =
        curves.iter().filter_map(|curve| curve.points.last()).fold(best, |least, point| least.min(point.1));
    curves.iter_mut().for_each(|curve| curve.points.retain(|point| point.1 > least - 0.5));
    let axes = Axes { title: "Penn Treebank, validation", x: "seconds", y: "certified nats per word" };
    setting.picture("lifted-fig6.svg", &chart::plain(&axes, &curves)?)
}
