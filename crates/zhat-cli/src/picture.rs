//! The picture of `zhat demo`.

use plotters::prelude::*;
use zhat::{Error, Result};

use crate::chart::{INK, category, shade};

/// Data of the picture.
pub struct Panels {
    /// The grid has `side` × `side` cells; each list is row-major.
    pub side: usize,
    /// P(spin up).
    pub up: Vec<f64>,
    /// The best state.
    pub best: Vec<f64>,
    /// An exact sample.
    pub sample: Vec<f64>,
    /// log Z.
    pub exact: f64,
    /// Estimates of log Z.
    pub tracks: Vec<Track>,
}

/// Estimates with an increasing number of samples: (samples, log Ẑ, lower bound).
pub struct Track {
    pub name: &'static str,
    pub points: Vec<(f64, f64, f64)>,
}

type Area<'a, 'b> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// Draws the picture as SVG.
pub fn demo(panels: &Panels) -> Result<String> {
    let mut svg = String::new();
    draw(panels, &mut svg).map_err(|error| Error::argument("picture", error.to_string()))?;
    Ok(svg)
}

fn draw(panels: &Panels, svg: &mut String) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let root = SVGBackend::with_string(svg, (1000, 720)).into_drawing_area();
    root.fill(&WHITE)?;
    let (grids, chart) = root.split_vertically(330);
    let cells = grids.split_evenly((1, 3));
    heat(&cells[0], "P(spin up)", panels.side, &panels.up)?;
    colour_bar(&cells[0])?;
    // States are drawn without the ends of the map, whose contrast is hard on the eyes.
    let soft = |states: &[f64]| states.iter().map(|state| 0.1 + 0.75 * state).collect::<Vec<_>>();
    heat(&cells[1], "most probable state (light: up)", panels.side, &soft(&panels.best))?;
    heat(&cells[2], "one exact sample", panels.side, &soft(&panels.sample))?;
    convergence(&chart, panels)?;
    root.present()?;
    Ok(())
}

/// A grid of cells from dark (0) to light (1).
fn heat(
    area: &Area<'_, '_>,
    title: &str,
    side: usize,
    values: &[f64],
) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let (width, height) = area.dim_in_pixel();
    let (left, top) = (30, 44);
    let cell = ((width as i32 - 60).min(height as i32 - top - 10)) / side as i32;
    area.draw(&Text::new(title.to_owned(), (left, 16), ("sans-serif", 17).into_font().color(&INK)))?;
    for (i, &value) in values.iter().enumerate() {
        let (row, column) = ((i / side) as i32, (i % side) as i32);
        let corner = (left + column * cell, top + row * cell);
        let end = (corner.0 + cell - 1, corner.1 + cell - 1);
        area.draw(&Rectangle::new([corner, end], shade(value).filled()))?;
    }
    Ok(())
}

/// The scale of the colours, at the right of a title.
fn colour_bar(area: &Area<'_, '_>) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let (left, top, steps, width, height) = (150, 20, 50, 2, 12);
    let label = |text: &str, x: i32| {
        Text::new(text.to_owned(), (x, top - 2), ("sans-serif", 14).into_font().color(&INK))
    };
    area.draw(&label("0", left - 14))?;
    for step in 0..steps {
        let x = left + step * width;
        let colour = shade(f64::from(step) / f64::from(steps - 1));
        area.draw(&Rectangle::new([(x, top), (x + width, top + height)], colour.filled()))?;
    }
    area.draw(&label("1", left + steps * width + 6))?;
    Ok(())
}

/// log Ẑ and its lower bound against the number of samples, with log Z as a line.
fn convergence(area: &Area<'_, '_>, panels: &Panels) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let points = || panels.tracks.iter().flat_map(|track| &track.points);
    let finite = |x: &f64| x.is_finite();
    let values = || points().flat_map(|&(_, value, low)| [value, low]).filter(finite).chain([panels.exact]);
    let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max));
    let margin = 0.06 * (high - low).max(1e-3);
    let (first, last) = points().fold((f64::INFINITY, 1.0f64), |(a, b), p| (a.min(p.0), b.max(p.0)));
    let title = "estimates of log Z; bars reach down to the 95% lower bound";
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 17).into_font().color(&INK))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(70)
        .build_cartesian_2d((first * 0.8..last * 1.25).log_scale().base(4.0), low - margin..high + margin)?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .x_desc("samples")
        .y_desc("log Z, nats")
        .x_label_formatter(&|x| format!("{x:.0}"))
        .label_style(("sans-serif", 14).into_font().color(&INK))
        .draw()?;
    let line = [(first * 0.8, panels.exact), (last * 1.25, panels.exact)];
    chart
        .draw_series(LineSeries::new(line, INK.stroke_width(2)))?
        .label("exact")
        .legend(|(x, y)| PathElement::new([(x, y), (x + 18, y)], INK.stroke_width(2)));
    for (i, track) in panels.tracks.iter().enumerate() {
        let colour = category(i);
        // Shifted horizontally, so that the series do not overlap.
        let shifted = 0.94 + 0.12 * i as f64;
        let shown: Vec<(f64, f64, f64)> = track
            .points
            .iter()
            .filter(|p| p.1.is_finite())
            .map(|&(x, y, low)| (x * shifted, y, low))
            .collect();
        chart.draw_series(shown.iter().map(|&(x, y, low)| {
            let foot = if low.is_finite() { low } else { y };
            PathElement::new([(x, y), (x, foot)], colour.stroke_width(3))
        }))?;
        chart
            .draw_series(shown.iter().map(|&(x, y, _)| Circle::new((x, y), 5, colour.filled())))?
            .label(format!("importance sampling, {} proposal", track.name))
            .legend(move |(x, y)| Circle::new((x + 9, y), 5, colour.filled()));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE.mix(0.9))
        .border_style(INK.mix(0.4))
        .label_font(("sans-serif", 15).into_font().color(&INK))
        .draw()?;
    Ok(())
}
