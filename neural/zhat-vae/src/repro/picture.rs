//! The picture of Figure 2.

/// Curves of frequencies by rank, with a logarithmic axis; 0 is below it.
pub(super) fn picture(curves: &[(String, Vec<usize>)]) -> String {
    let (width, height, left, bottom) = (640.0, 400.0, 70.0, 50.0);
    let states = curves.iter().map(|curve| curve.1.len()).max().unwrap_or(1).max(2) as f64;
    let most = curves.iter().flat_map(|curve| curve.1.iter().copied()).max().unwrap_or(1).max(10) as f64;
    let x = |rank: usize| left + (width - left - 20.0) * rank as f64 / (states - 1.0);
    let y = |count: f64| {
        let part = if count < 1.0 { 0.0 } else { 0.08 + 0.92 * count.log10() / most.log10() };
        height - bottom - (height - bottom - 20.0) * part
    };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n"
    );
    let mut ticks: Vec<(f64, String)> = vec![(0.0, "0".into())];
    ticks.extend(
        (0..=most.log10() as i32).map(|power| (10_f64.powi(power), format!("{}", 10_u64.pow(power as u32)))),
    );
    for (count, label) in ticks {
        let at = y(count);
        svg.push_str(&format!(
            "<line x1=\"{left}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#ddd\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>\n",
            width - 20.0,
            left - 6.0,
            at + 4.0
        ));
    }
    for (k, (name, counts)) in curves.iter().enumerate() {
        let colour = ["#444444", "#d62728", "#1f77b4", "#ff7f0e", "#2ca02c"][k % 5];
        let points: Vec<String> = counts
            .iter()
            .enumerate()
            .map(|(rank, &count)| format!("{:.1},{:.1}", x(rank), y(count as f64)))
            .collect();
        svg.push_str(&format!(
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\" points=\"{}\"/>\n<text x=\"{}\" y=\"{}\" fill=\"{colour}\" text-anchor=\"end\">{name}</text>\n",
            points.join(" "),
            width - 30.0,
            36 + 18 * k
        ));
    }
    svg.push_str(&format!(
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">states, most frequent first</text>\n<text transform=\"translate(16 {}) rotate(-90)\" text-anchor=\"middle\">occurrences</text>\n</svg>\n",
        (left + width) / 2.0,
        height - 12.0,
        height / 2.0
    ));
    svg
}
