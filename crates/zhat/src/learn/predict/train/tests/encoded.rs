//! The objective and its gradient from the cells of a file: missing values, categories, sparse rows and Fourier
//! features, against their definitions, enumeration and differences.

use super::*;
use crate::learn::predict::form::tests::{score, structures};
use crate::learn::predict::{Cells, Encoder, Encoding, Examples, Fourier, InputColumn, Scaling};

const ROWS: usize = 14;
const SEED: u64 = 5;
const GAMMA: f64 = 0.3;

/// Two numeric columns and one with three categories, all with missing cells. Every third number is 0.
fn cells(random: &mut Stream) -> Vec<[f64; 3]> {
    (0..ROWS)
        .map(|row| {
            let a = if row % 5 == 1 { f64::NAN } else { 2.0 + random.normal() };
            let b = if row % 3 == 0 { 0.0 } else { 5.0 * random.normal() };
            let c = if row % 7 == 4 { f64::NAN } else { (row % 3) as f64 };
            [a, if row == 8 { f64::NAN } else { b }, c]
        })
        .collect()
}

fn examples(rows: &[[f64; 3]], sparse: bool) -> Examples {
    let column = |name: &str, levels: Option<&[&str]>| InputColumn {
        name: name.into(),
        levels: levels.map(|levels| levels.iter().map(|level| (*level).into()).collect()),
    };
    let cells = if sparse {
        let (mut ends, mut indices, mut values) = (vec![], vec![], vec![]);
        for row in rows {
            for (j, &x) in row.iter().enumerate().filter(|(_, x)| **x != 0.0) {
                indices.push(j as u32);
                values.push(x);
            }
            ends.push(values.len());
        }
        Cells::Sparse { ends, indices, values }
    } else {
        Cells::Dense(rows.concat())
    };
    Examples {
        source: "t".into(),
        lines: (1..=rows.len()).collect(),
        columns: vec![column("a", None), column("b", None), column("c", Some(&["u", "v", "w"]))],
        cells,
        names: vec![],
        parents: vec![],
        targets: None,
        weights: None,
    }
}

/// The encoded rows by their definition: the number, an indicator of missing values; the categories, an
/// indicator; a bias.
fn encoded(rows: &[[f64; 3]], scaling: Scaling, fourier: usize) -> Vec<Vec<f64>> {
    let mut all = vec![Vec::new(); rows.len()];
    for column in 0..2 {
        let known: Vec<f64> = rows.iter().map(|row| row[column]).filter(|x| !x.is_nan()).collect();
        let mean = known.iter().sum::<f64>() / known.len() as f64;
        let variance = known.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / known.len() as f64;
        let most = known.iter().fold(0.0, |most, x| f64::max(most, x.abs()));
        let (shift, scale) = match scaling {
            Scaling::Standard => (mean, 1.0 / variance.sqrt()),
            Scaling::Max => (0.0, 1.0 / most),
            _ => (0.0, 1.0),
        };
        for (row, out) in rows.iter().zip(&mut all) {
            let missing = row[column].is_nan();
            let x = if missing { mean } else { row[column] };
            out.extend([(x - shift) * scale, f64::from(missing)]);
        }
    }
    for (row, out) in rows.iter().zip(&mut all) {
        out.extend((0..3).map(|level| f64::from(row[2] == f64::from(level))));
        out.push(f64::from(row[2].is_nan()));
        if scaling == Scaling::Unit {
            let norm = out.iter().map(|x| x * x).sum::<f64>().sqrt();
            out.iter_mut().for_each(|x| *x /= norm);
        }
    }
    if fourier > 0 {
        let streams = Streams::new(SEED, "fourier features");
        let draws: Vec<(Vec<f64>, f64)> = (0..fourier as u64)
            .map(|feature| {
                let mut random = streams.block(feature);
                let weights = (0..8).map(|_| (2.0 * GAMMA).sqrt() * random.normal()).collect();
                (weights, std::f64::consts::TAU * random.uniform())
            })
            .collect();
        for out in &mut all {
            let wave = |(weights, phase): &(Vec<f64>, f64)| {
                let angle: f64 = weights.iter().zip(&*out).map(|(w, x)| w * x).sum();
                (2.0 / fourier as f64).sqrt() * (angle + phase).cos()
            };
            *out = draws.iter().map(wave).collect();
        }
    }
    all.iter_mut().for_each(|out| out.push(1.0));
    all
}

/// The objective by enumeration.
fn enumerated(form: &Form, rows: &[Vec<f64>], targets: &Targets, lambda: f64, point: &[f64]) -> f64 {
    let width = form.compile().unwrap().by_input;
    let (weights, constants) = point.split_at(rows[0].len() * width);
    let all = structures(form);
    let loss = |(row, x): (usize, &Vec<f64>)| {
        let by_input =
            (0..width).map(|k| x.iter().enumerate().map(|(j, x)| x * weights[j * width + k]).sum());
        let u: Vec<f64> = by_input.chain(constants.iter().copied()).collect();
        let total: f64 = all.iter().map(|y| score(form, &u, y).exp()).sum();
        total.ln() - score(form, &u, &targets.structure(row).unwrap())
    };
    let norm: f64 = point.iter().map(|x| x * x).sum();
    rows.iter().enumerate().map(loss).sum::<f64>() / rows.len() as f64 + lambda * norm
}

#[test]
fn objectives_of_encoded_cells_agree_with_enumeration_and_differences() {
    let run = Run::default().with_threads(2);
    let clock = run.start("test");
    let mut random = Streams::new(31, "encoded").block(0);
    let cases = [
        (Scaling::Standard, false, 0),
        (Scaling::Max, false, 0),
        (Scaling::Max, true, 0),
        (Scaling::None, true, 0),
        (Scaling::Unit, false, 0),
        (Scaling::Unit, true, 0),
        (Scaling::Standard, false, 6),
        (Scaling::Max, true, 6),
    ];
    for form in forms() {
        let rows = cells(&mut random);
        let (_, targets) = problem(&form, ROWS, 1, false, &mut random);
        for (scaling, sparse, fourier) in cases {
            let examples = examples(&rows, sparse);
            let features =
                (fourier > 0).then_some(Fourier { features: fourier, gamma: Some(GAMMA), seed: SEED });
            let encoder = Encoder::fit(&examples, &Encoding { scaling, fourier: features }).unwrap();
            let inputs = encoder.encode(&examples, &run).unwrap();
            assert_eq!(inputs.is_sparse(), sparse && fourier == 0, "{scaling:?}");
            let want = encoded(&rows, scaling, fourier);
            let compiled = form.compile().unwrap();
            let objective = Objective::new(&compiled, &inputs, &targets, 0.03);
            let point: Vec<f64> = (0..objective.dimension()).map(|_| 0.5 * random.normal()).collect();
            let mut gradient = vec![0.0; point.len()];
            let value = run.install(|| objective.evaluate(&point, &mut gradient, &clock)).unwrap();
            let defined = |point: &[f64]| enumerated(&form, &want, &targets, 0.03, point);
            let case = format!("{form:?} {scaling:?} sparse {sparse} Fourier {fourier}");
            assert!((value - defined(&point)).abs() < 1e-9, "{case}: {value} {}", defined(&point));
            for at in 0..point.len() {
                let moved = |by: f64| {
                    let mut other = point.clone();
                    other[at] += by;
                    defined(&other)
                };
                let slope = (moved(1e-5) - moved(-1e-5)) / 2e-5;
                assert!((gradient[at] - slope).abs() < 1e-6, "{case} {at}: {} {slope}", gradient[at]);
            }
        }
    }
}
