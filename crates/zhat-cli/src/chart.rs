//! SVG line charts with logarithmic or linear axes, and the colours of all pictures.

use std::ops::Range;

use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use zhat::{Error, Result};

/// A named curve.
pub struct Curve {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// Title and axis labels.
pub struct Axes<'a> {
    pub title: &'a str,
    pub x: &'a str,
    pub y: &'a str,
}

/// The colour of text and axes.
pub const INK: RGBColor = RGBColor(40, 44, 52);

/// The colours of curves: the palette of Okabe and Ito, which colour-blind readers can tell apart, without
/// its yellow, which is too light for lines on white. `python/zhat/palette.py` has the same values.
const CATEGORIES: [u32; 7] = [0x0072b2, 0xd55e00, 0x009e73, 0xcc79a7, 0x56b4e9, 0xe69f00, 0x000000];

/// The colours of heat maps from 0 (dark) to 1 (light) at equal distances: the perceptually uniform map
/// cividis. `python/zhat/palette.py` has the same values.
const SEQUENTIAL: [u32; 9] =
    [0x00224e, 0x1a386f, 0x434e6c, 0x61656f, 0x7d7c78, 0x9b9476, 0xbcae6c, 0xdec958, 0xfee838];

/// The colour of curve `i`.
pub fn category(i: usize) -> RGBColor {
    rgb(CATEGORIES[i % CATEGORIES.len()])
}

/// The colour of a value between 0 (dark) and 1 (light).
pub fn shade(value: f64) -> RGBColor {
    let place = value.clamp(0.0, 1.0) * (SEQUENTIAL.len() - 1) as f64;
    let first = (place as usize).min(SEQUENTIAL.len() - 2);
    let (low, high) = (rgb(SEQUENTIAL[first]), rgb(SEQUENTIAL[first + 1]));
    let between = |low: u8, high: u8| {
        (f64::from(low) + (f64::from(high) - f64::from(low)) * (place - first as f64)).round() as u8
    };
    RGBColor(between(low.0, high.0), between(low.1, high.1), between(low.2, high.2))
}

fn rgb(hex: u32) -> RGBColor {
    let [_, red, green, blue] = hex.to_be_bytes();
    RGBColor(red, green, blue)
}

/// Draws curves with both axes logarithmic; points that are not positive are omitted.
pub fn log_log(axes: &Axes<'_>, curves: &[Curve]) -> Result<String> {
    let (across, up) = (range(curves, |p| p.0), range(curves, |p| p.1));
    let shown = all_shown(curves);
    let legend = emptiest(&mapped(&shown, |(x, y)| (x.ln(), y.ln())), &logarithms(&across), &logarithms(&up));
    svg(|svg| {
        draw(axes, (&shown, &[]), (across.log_scale(), up.log_scale()), (&sparse, &scientific), legend, svg)
    })
}

/// The same with a linear x axis of integers; `bars` holds the error bars of each curve, or is empty.
pub fn log_y(axes: &Axes<'_>, curves: &[Curve], bars: &[Vec<f64>]) -> Result<String> {
    let all = || curves.iter().flat_map(|curve| curve.points.iter().map(|p| p.0));
    let (low, high) = (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
    let across = if low < high { low - 0.3..high + 0.3 } else { 0.0..10.0 };
    let whole = |x: &f64| if x.fract() == 0.0 { format!("{x:.0}") } else { String::new() };
    let (shown, up) = (all_shown(curves), range(curves, |p| p.1));
    let legend = emptiest(&mapped(&shown, |(x, y)| (x, y.ln())), &across, &logarithms(&up));
    svg(|svg| draw(axes, (&shown, bars), (across, up.log_scale()), (&whole, &scientific), legend, svg))
}

/// Draws curves with both axes linear; points that are not finite are omitted.
pub fn plain(axes: &Axes<'_>, curves: &[Curve]) -> Result<String> {
    let finite: Vec<Curve> = curves
        .iter()
        .map(|curve| {
            let points = curve.points.iter().copied().filter(|p| p.0.is_finite() && p.1.is_finite());
            Curve { name: curve.name.clone(), points: points.collect() }
        })
        .collect();
    let range = |pick: fn(&(f64, f64)) -> f64| {
        let all = || finite.iter().flat_map(|curve| curve.points.iter().map(pick));
        let (low, high) = (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
        let margin = 0.04 * (high - low);
        if low < high { low - margin..high + margin } else { -1.0..1.0 }
    };
    let (across, up) = (range(|p| p.0), range(|p| p.1));
    svg(|svg| {
        draw(
            axes,
            (&finite, &[]),
            (across.clone(), up.clone()),
            (&|x| format!("{x}"), &|y| format!("{y:.2}")),
            emptiest(&finite, &across, &up),
            svg,
        )
    })
}

/// The position for the legend that covers the fewest points.
fn emptiest(curves: &[Curve], across: &Range<f64>, up: &Range<f64>) -> SeriesLabelPosition {
    use SeriesLabelPosition::{LowerLeft, LowerRight, MiddleLeft, MiddleRight, UpperLeft, UpperRight};
    let part = |x: f64, range: &Range<f64>| (x - range.start) / (range.end - range.start);
    let points = |column: f64, row: f64| {
        let all = curves.iter().flat_map(|curve| &curve.points);
        all.filter(|point| {
            let (x, y) = (part(point.0, across) - column, part(point.1, up) - row);
            (0.0..=0.4).contains(&x) && (0.0..=0.4).contains(&y)
        })
        .count()
    };
    let places = [
        (MiddleRight, 0.6, 0.3),
        (LowerRight, 0.6, 0.0),
        (UpperRight, 0.6, 0.6),
        (UpperLeft, 0.0, 0.6),
        (LowerLeft, 0.0, 0.0),
        (MiddleLeft, 0.0, 0.3),
    ];
    let best = places.into_iter().min_by_key(|&(_, column, row)| points(column, row));
    best.map_or(MiddleRight, |(place, ..)| place)
}

type Drawn = std::result::Result<(), Box<dyn std::error::Error>>;

fn svg(draw: impl FnOnce(&mut String) -> Drawn) -> Result<String> {
    let mut svg = String::new();
    draw(&mut svg).map_err(|error| Error::argument("picture", error.to_string()))?;
    Ok(svg)
}

fn scientific(y: &f64) -> String {
    format!("{y:.0e}")
}

/// The same at 1, 2 and 5 times a power of ten; labels of all ticks would overlap.
fn sparse(x: &f64) -> String {
    let text = scientific(x);
    if text.starts_with(['1', '2', '5']) { text } else { String::new() }
}

fn mapped(curves: &[Curve], map: impl Fn((f64, f64)) -> (f64, f64)) -> Vec<Curve> {
    let curve = |curve: &Curve| Curve {
        name: curve.name.clone(),
        points: curve.points.iter().map(|&point| map(point)).collect(),
    };
    curves.iter().map(curve).collect()
}

fn logarithms(range: &Range<f64>) -> Range<f64> {
    range.start.ln()..range.end.ln()
}

fn all_shown(curves: &[Curve]) -> Vec<Curve> {
    curves.iter().map(|curve| Curve { name: curve.name.clone(), points: shown(curve) }).collect()
}

/// Points with positive coordinates, which a logarithmic axis can show.
fn shown(curve: &Curve) -> Vec<(f64, f64)> {
    curve.points.iter().copied().filter(|p| p.0 > 0.0 && p.1 > 0.0 && p.1.is_finite()).collect()
}

fn range(curves: &[Curve], pick: fn(&(f64, f64)) -> f64) -> Range<f64> {
    let all: Vec<(f64, f64)> = curves.iter().flat_map(shown).collect();
    let low = all.iter().map(pick).fold(f64::INFINITY, f64::min);
    let high = all.iter().map(pick).fold(0.0, f64::max);
    if low < high { low / 1.5..high * 1.5 } else { 0.1..10.0 }
}

/// Formats a tick label.
type Label<'a> = &'a dyn Fn(&f64) -> String;

/// Draws curves and error bars on two labelled axes.
fn draw<X, Y>(
    axes: &Axes<'_>,
    (curves, bars): (&[Curve], &[Vec<f64>]),
    (across, up): (X, Y),
    (x_label, y_label): (Label<'_>, Label<'_>),
    legend: SeriesLabelPosition,
    svg: &mut String,
) -> Drawn
where
    X: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
    Y: AsRangedCoord<Value = f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let root = SVGBackend::with_string(svg, (900, 600)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(axes.title, ("sans-serif", 18).into_font().color(&INK))
        .margin(14)
        .x_label_area_size(48)
        .y_label_area_size(80)
        .build_cartesian_2d(across, up)?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .x_desc(axes.x)
        .y_desc(axes.y)
        .x_label_formatter(&x_label)
        .y_label_formatter(&y_label)
        .label_style(("sans-serif", 14).into_font().color(&INK))
        .draw()?;
    for (i, curve) in curves.iter().enumerate() {
        let colour = category(i).to_rgba();
        let points = &curve.points;
        chart.draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)))?;
        for (&(x, y), &spread) in points.iter().zip(bars.get(i).into_iter().flatten()) {
            let ends = [(x, (y - spread).max(0.1 * y)), (x, y + spread)];
            chart.draw_series(LineSeries::new(ends, colour.stroke_width(1)))?;
        }
        chart
            .draw_series(points.iter().map(|&point| Circle::new(point, 4, colour.filled())))?
            .label(curve.name.clone())
            .legend(move |(x, y)| Circle::new((x + 9, y), 5, colour.filled()));
    }
    chart
        .configure_series_labels()
        .position(legend)
        .background_style(WHITE.mix(0.9))
        .border_style(INK.mix(0.4))
        .label_font(("sans-serif", 14).into_font().color(&INK))
        .draw()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shades_pass_through_the_colours_of_the_map() {
        for (i, &colour) in SEQUENTIAL.iter().enumerate() {
            assert_eq!(shade(i as f64 / 8.0), rgb(colour));
        }
        assert_eq!(shade(-1.0), rgb(SEQUENTIAL[0]));
        assert_eq!(shade(2.0), rgb(SEQUENTIAL[8]));
        assert_eq!(category(7), category(0));
        assert_eq!(category(1), RGBColor(213, 94, 0));
    }

    #[test]
    fn names_stand_where_no_curve_is() {
        let line = |slope: f64, base: f64| Curve {
            name: String::new(),
            points: (0..=20).map(|i| (f64::from(i), base + slope * f64::from(i))).collect(),
        };
        let place = |curve: Curve| emptiest(&[curve], &(0.0..20.0), &(0.0..20.0));
        assert!(matches!(place(line(1.0, 0.0)), SeriesLabelPosition::LowerRight));
        assert!(matches!(place(line(-1.0, 20.0)), SeriesLabelPosition::UpperRight));
        assert!(matches!(place(line(0.0, 19.0)), SeriesLabelPosition::MiddleRight));
    }
}
