//! `zhat demo`: a model, log Z by every method, and a picture.

use zhat::catalogue::{self, Choice, Settings};
use zhat::internal::units;
use zhat::model::generate::{self, Grid};
use zhat::query::{AnyAnswer, AnyValue};
use zhat::tensor::Tensor;
use zhat::{Guarantee, Model, Query, Result, Run};

use crate::arguments::DemoArguments;
use crate::output::{self, Exit};
use crate::picture::{self, Panels, Track};
use crate::progress;

const SIDE: usize = 12;
/// Methods with a longer forecast are not run, in seconds.
const LONGEST: f64 = 2.0;
/// Numbers of samples of the estimates in the picture.
const BUDGETS: [u64; 7] = [64, 256, 1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18];

pub fn run(arguments: &DemoArguments) -> Result<Exit> {
    let grid = Grid { rows: SIDE, columns: SIDE, torus: false };
    let model: Model = generate::ising(grid, 0.6, 0.3, false, 3)?.into();
    let run = Run::default();
    output::print(&format!(
        "An Ising grid of {SIDE} × {SIDE} spins with random couplings and fields. Its partition function Z is a sum over 2^{} \
         states.\nlog Z by every method that takes less than {LONGEST} s, with its guarantee:\n\n",
        SIDE * SIDE
    ))?;
    output::print(&table(&model, &run)?)?;

    let exact = ask(&model, Query::LogPartition, "exact", &[], &run)?.into_estimate()?;
    let marginals = ask(&model, Query::Marginals, "exact", &[], &run)?;
    let beliefs = marginals.tensor("marginals").ok_or_else(|| marginals.unexpected_shape())?;
    let best = ask(&model, Query::Map, "exact", &[], &run)?;
    let AnyValue::States(states) = &best.value else { return Err(best.unexpected_shape()) };
    let drawn = ask(&model, Query::Sample(1), "exact", &[], &run)?;
    let AnyValue::Samples(samples) = &drawn.value else { return Err(drawn.unexpected_shape()) };
    let svg = picture::demo(&Panels {
        side: SIDE,
        up: up(beliefs),
        best: states.iter().flat_map(|best| &best.state).map(|&s| s as f64).collect(),
        sample: samples.iter().flat_map(|draws| draws.states.as_slice()).map(|&s| s as f64).collect(),
        exact: exact.value,
        tracks: vec![track(&model, "tree", &run)?, track(&model, "uniform", &run)?],
    })?;
    zhat::internal::io::write_atomically(&arguments.output, |out| out.write_all(svg.as_bytes()))?;
    output::print(&format!(
        "\nThe picture is in {}: the marginals of the model, its best state and a sample, and estimates of log Z.\n\nNext:\n  \
         zhat generate ising --rows 20 --columns 20 -o grid.uai   generates a model\n  \
         zhat info grid.uai                                       recommends a method for each query\n  \
         zhat logz grid.uai                                       computes log Z\n",
        arguments.output.display()
    ))?;
    Ok(Exit::Answered)
}

fn ask(model: &Model, query: Query, method: &str, options: &[(&str, &str)], run: &Run) -> Result<AnyAnswer> {
    let option = |(name, value): &(&str, &str)| {
        (name.to_string(), serde_json::from_str(value).unwrap_or_else(|_| (*value).into()))
    };
    let settings: Settings = options.iter().map(option).collect();
    // Every query has its own clock.
    catalogue::answer(model, query, &Choice::parse(method), &settings, &progress::attend(run.clone()))
}

/// One line per method: log Z and its guarantee, or the reason why the method is not run.
fn table(model: &Model, run: &Run) -> Result<String> {
    let mut rows = Vec::new();
    for row in catalogue::rows(model.kind()).filter(|row| row.answers(Query::LogPartition)) {
        let forecast = row.forecast(model, Query::LogPartition, &Settings::new(), run)?;
        if !forecast.fits(run, LONGEST) {
            let why = match forecast.seconds.is_finite() {
                true => format!("not run: estimated time {}", units::seconds(forecast.seconds)),
                false => "not run: out of reach".into(),
            };
            rows.push(vec![row.method.into(), "-".into(), why, "-".into()]);
            continue;
        }
        let proposals: &[&str] = if row.method == "importance" { &["tree", "uniform"] } else { &[""] };
        for proposal in proposals {
            let options: Vec<(&str, &str)> =
                Some(("proposal", *proposal)).filter(|(_, p)| !p.is_empty()).into_iter().collect();
            let z = ask(model, Query::LogPartition, row.method, &options, run)?.into_estimate()?;
            let name =
                if proposal.is_empty() { row.method.into() } else { format!("{}, {proposal}", row.method) };
            rows.push(vec![
                name,
                output::stated(z.value, &z.guarantee, &z.diagnostics, 1.0),
                output::guarantee(&z.guarantee, Some(z.value), &z.diagnostics),
                units::seconds(z.diagnostics.seconds),
            ]);
        }
    }
    Ok(output::table(&["method", "log Z", "guarantee", "time"], &rows, usize::MAX))
}

/// P(up) for each spin.
fn up(marginals: &Tensor<'_>) -> Vec<f64> {
    (0..marginals.rows()).map(|v| marginals.row(v)[1]).collect()
}

/// Estimates with an increasing number of samples.
fn track(model: &Model, proposal: &'static str, run: &Run) -> Result<Track> {
    let mut points = Vec::new();
    for samples in BUDGETS {
        let options = [("proposal", proposal), ("samples", &samples.to_string())];
        let z = ask(model, Query::LogPartition, "importance", &options, run)?.into_estimate()?;
        if let Guarantee::Unbiased { low, .. } = z.guarantee {
            points.push((samples as f64, z.value, low));
        }
    }
    Ok(Track { name: proposal, points })
}
