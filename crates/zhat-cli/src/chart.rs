//! Curves on logarithmic axes, as SVG.

use plotters::prelude::*;
use zhat::{Error, Result};

/// A curve and its name.
pub struct Curve {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// What the axes are.
pub struct Axes<'a> {
    pub title: &'a str,
    pub x: &'a str,
    pub y: &'a str,
}

const INK: RGBColor = RGBColor(40, 44, 52);

/// Draws curves through their points, both axes logarithmic; points that are not positive are left out.
pub fn log_log(axes: &Axes<'_>, curves: &[Curve]) -> Result<String> {
    let mut svg = String::new();
    draw(axes, curves, &mut svg).map_err(|error| Error::argument("picture", error.to_string()))?;
    Ok(svg)
}

fn draw(
    axes: &Axes<'_>,
    curves: &[Curve],
    svg: &mut String,
) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let root = SVGBackend::with_string(svg, (900, 600)).into_drawing_area();
    root.fill(&WHITE)?;
    let shown = |curve: &Curve| -> Vec<(f64, f64)> {
        curve.points.iter().copied().filter(|p| p.0 > 0.0 && p.1 > 0.0 && p.1.is_finite()).collect()
    };
    let all: Vec<(f64, f64)> = curves.iter().flat_map(shown).collect();
    let range = |pick: fn(&(f64, f64)) -> f64| {
        let low = all.iter().map(pick).fold(f64::INFINITY, f64::min);
        let high = all.iter().map(pick).fold(0.0, f64::max);
        if low < high { low / 1.5..high * 1.5 } else { 0.1..10.0 }
    };
    let mut chart = ChartBuilder::on(&root)
        .caption(axes.title, ("sans-serif", 18).into_font().color(&INK))
        .margin(14)
        .x_label_area_size(48)
        .y_label_area_size(80)
        .build_cartesian_2d(range(|p| p.0).log_scale(), range(|p| p.1).log_scale())?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .x_desc(axes.x)
        .y_desc(axes.y)
        .x_label_formatter(&|x| format!("{x:.0e}"))
        .y_label_formatter(&|y| format!("{y:.0e}"))
        .label_style(("sans-serif", 14).into_font().color(&INK))
        .draw()?;
    for (i, curve) in curves.iter().enumerate() {
        let colour = Palette99::pick(i).to_rgba();
        let points = shown(curve);
        chart.draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)))?;
        chart
            .draw_series(points.iter().map(|&point| Circle::new(point, 4, colour.filled())))?
            .label(curve.name.clone())
            .legend(move |(x, y)| Circle::new((x + 9, y), 5, colour.filled()));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.9))
        .border_style(INK.mix(0.4))
        .label_font(("sans-serif", 14).into_font().color(&INK))
        .draw()?;
    Ok(())
}
