//! Figure 2, first plot: the time to normalise the tuple mass, in closed form and by summation.

use std::hint::black_box;
use std::time::Instant;

use zhat::{Error, Result};

use super::sccq::{self, Spread};
use super::{Setting, header, line};
use crate::chart::{self, Axes, Curve};
use crate::output;

/// The number of repetitions per measurement, because a single one is too fast to time.
const REPEATS: usize = 1_000_000;

pub fn run(setting: &Setting<'_>) -> Result<()> {
    let (cliques, runs) = (sccq::cliques()?, sccq::runs(setting));
    output::print(&format!(
        "Nanoseconds to compute ‖χᵏ‖₁ of a 4×4 binary grid, {} cliques and {} indices; mean ± standard deviation of {runs} runs.\n\
         The paper shows a plot without numbers: the closed form is constant, the summation grows as dᵏ; they differ by several orders of magnitude at k = 4.\n\n{}",
        cliques.len(),
        cliques.dimension(),
        header(&[
            "k",
            "‖χᵏ‖₁ / |X|",
            "closed form",
            "sum over Stirling numbers",
            "summation over dᵏ tuples",
            "ratio"
        ])
    ))?;
    let names = ["closed form", "sum over Stirling numbers", "summation over all tuples"];
    let mut curves: Vec<Curve> = names.map(|name| Curve { name: name.into(), points: vec![] }).into();
    let mut bars: Vec<Vec<f64>> = vec![vec![]; 3];
    for length in sccq::LENGTHS {
        if setting.quick && length > 3 {
            continue;
        }
        let (closed, naive) = (cliques.norm(length), cliques.naive_norm(length));
        if (closed - naive).abs() > 1e-9 * closed {
            return Err(Error::NoAnswer(format!("the closed form {closed} and the sum {naive} differ")));
        }
        let many = |work: &dyn Fn() -> f64| {
            let time = || {
                let started = Instant::now();
                for _ in 0..REPEATS {
                    black_box(work());
                }
                1e9 * started.elapsed().as_secs_f64() / REPEATS as f64
            };
            (0..runs).map(|_| time()).collect::<Vec<f64>>()
        };
        let once = || {
            let started = Instant::now();
            black_box(cliques.naive_norm(black_box(length)));
            1e9 * started.elapsed().as_secs_f64()
        };
        let spreads = [
            Spread::of(&many(&|| cliques.norm(black_box(length)))),
            Spread::of(&many(&|| cliques.stirling_norm(black_box(length)).unwrap_or(f64::NAN))),
            Spread::of(&(0..runs).map(|_| once()).collect::<Vec<f64>>()),
        ];
        let ratio = spreads[2].mean / spreads[0].mean;
        let mut cells = vec![length.to_string(), format!("{closed:.0}")];
        cells.extend(spreads.iter().map(ToString::to_string));
        cells.push(format!("{ratio:.1e}"));
        output::print(&line(&cells))?;
        for (i, spread) in spreads.iter().enumerate() {
            curves[i].points.push((length as f64, spread.mean));
            bars[i].push(spread.deviation);
        }
    }
    let axes =
        Axes { title: "Normalising the tuple mass of a 4×4 grid", x: "tuple length k", y: "nanoseconds" };
    setting.picture("sccq-fig2-1.svg", &chart::log_y(&axes, &curves, &bars)?)
}
