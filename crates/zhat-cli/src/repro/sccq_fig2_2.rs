//! Figure 2, second plot: the time to draw one index tuple.

use std::hint::black_box;
use std::time::Instant;

use zhat::Result;
use zhat::internal::quadrature::Tuples;
use zhat::quadrature::TupleSampler;
use zhat::random::Streams;

use super::sccq::{self, Spread};
use super::{Setting, header, line};
use crate::chart::{self, Axes, Curve};
use crate::output;

/// The samplers, and the number of tuples drawn to time each.
const SAMPLERS: [(TupleSampler, &str, usize); 3] = [
    (TupleSampler::Rejection, "rejection", 20_000),
    (TupleSampler::Unranking, "Algorithm 2", 200_000),
    (TupleSampler::Direct, "zhat", 1_000_000),
];

pub fn run(setting: &Setting<'_>) -> Result<()> {
    let (cliques, runs) = (sccq::cliques()?, sccq::runs(setting));
    output::print(&format!(
        "Nanoseconds to draw one tuple of k indices of a 4×4 binary grid, {} cliques and {} indices; mean ± standard deviation of \
         {runs} runs.\nThe paper shows a plot without numbers: rejection grows with k, Algorithm 2 is almost constant. zhat draws the \
         cliques one by one and then the states.\nThe last column is the time of zhat for the product of θ alone, which is all that an estimate needs.\n\n{}",
        cliques.len(),
        cliques.dimension(),
        header(&["k", "rejection", "Algorithm 2", "zhat", "Algorithm 2 / zhat", "zhat, product only"])
    ))?;
    let mut curves: Vec<Curve> =
        SAMPLERS.map(|(_, name, _)| Curve { name: name.into(), points: vec![] }).into();
    curves.push(Curve { name: "zhat, product only".into(), points: vec![] });
    let mut bars: Vec<Vec<f64>> = vec![vec![]; 4];
    for length in sccq::LENGTHS {
        let mut spreads = Vec::new();
        for (sampler, _, count) in SAMPLERS {
            let count = if setting.quick { count / 10 } else { count };
            let mut tuples = Tuples::new(&cliques, sampler, length)?;
            let times: Vec<f64> = (0..runs)
                .map(|run| {
                    let mut random = Streams::new(setting.run.seed(), "figure").block(run as u64);
                    let started = Instant::now();
                    for _ in 0..count {
                        black_box(tuples.draw(length, &mut random));
                    }
                    1e9 * started.elapsed().as_secs_f64() / count as f64
                })
                .collect();
            spreads.push(Spread::of(&times));
        }
        let count = if setting.quick { 100_000 } else { 2_000_000 };
        let mut tuples = Tuples::new(&cliques, TupleSampler::Direct, length)?;
        let times: Vec<f64> = (0..runs)
            .map(|run| {
                let mut random = Streams::new(setting.run.seed(), "figure").block(run as u64);
                let started = Instant::now();
                let sum: f64 = (0..count).map(|_| tuples.product(length, &mut random)).sum();
                black_box(sum);
                1e9 * started.elapsed().as_secs_f64() / f64::from(count)
            })
            .collect();
        spreads.push(Spread::of(&times));
        let mut cells = vec![length.to_string()];
        cells.extend(spreads[..3].iter().map(ToString::to_string));
        cells.push(super::short(spreads[1].mean / spreads[2].mean));
        cells.push(spreads[3].to_string());
        output::print(&line(&cells))?;
        for (i, spread) in spreads.iter().enumerate() {
            curves[i].points.push((length as f64, spread.mean));
            bars[i].push(spread.deviation);
        }
    }
    let axes =
        Axes { title: "Drawing one index tuple of a 4×4 grid", x: "tuple length k", y: "nanoseconds" };
    setting.picture("sccq-fig2-2.svg", &chart::log_y(&axes, &curves, &bars)?)
}
