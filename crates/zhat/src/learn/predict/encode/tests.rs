//! Encoded columns against their definition.

use super::*;

fn examples(columns: &[(&str, Option<&[&str]>)], cells: Cells, rows: usize) -> Examples {
    let column = |(name, levels): &(&str, Option<&[&str]>)| InputColumn {
        name: (*name).into(),
        levels: levels.map(|levels| levels.iter().map(|level| (*level).into()).collect()),
    };
    Examples {
        source: "t".into(),
        lines: (1..=rows).collect(),
        columns: columns.iter().map(column).collect(),
        cells,
        names: vec![],
        parents: vec![],
        targets: None,
        weights: None,
    }
}

/// The encoded matrix, from its products with unit vectors.
fn matrix(inputs: &Inputs) -> Vec<Vec<f64>> {
    let n = inputs.columns();
    let unit: Vec<f64> = (0..n * n).map(|i| f64::from(i % (n + 1) == 0)).collect();
    let mut all = vec![0.0; inputs.rows() * n];
    inputs.scores(0..inputs.rows(), &inputs.weights_of(&unit, n), &mut all);
    all.chunks(n).map(<[f64]>::to_vec).collect()
}

#[test]
fn weights_count_as_repeated_rows() {
    let (run, nan) = (Run::default(), f64::NAN);
    let columns: [(&str, Option<&[&str]>); 3] = [("a", None), ("b", None), ("c", None)];
    let numbers = [[1.0, 0.0, nan], [4.0, 0.5, 2.0], [-3.0, 0.0, 7.0], [90.0, nan, 1.0]];
    let repeated: Vec<usize> = vec![0, 0, 1, 2, 2, 2];
    let all = repeated.iter().flat_map(|&row| numbers[row]).collect();
    let sparse = |rows: &[usize]| {
        let (mut ends, mut indices, mut values) = (vec![], vec![], vec![]);
        for &row in rows {
            let own = numbers[row].iter().enumerate().filter(|(_, x)| **x != 0.0);
            own.for_each(|(j, x)| (indices.push(j as u32), values.push(*x)).0);
            ends.push(values.len());
        }
        Cells::Sparse { ends, indices, values }
    };
    let pairs = [
        (examples(&columns, Cells::Dense(all), 6), examples(&columns, Cells::Dense(numbers.concat()), 4)),
        (examples(&columns, sparse(&repeated), 6), examples(&columns, sparse(&[0, 1, 2, 3]), 4)),
    ];
    for (repeated, mut weighted) in pairs {
        weighted.weights = Some(vec![2.0, 1.0, 3.0, 0.0]);
        for scaling in [Scaling::Auto, Scaling::Standard, Scaling::Max, Scaling::Unit, Scaling::None] {
            let how = Encoding { scaling, fourier: None };
            let [a, b] = [&repeated, &weighted].map(|data| Encoder::fit(data, &how).unwrap());
            let a = matrix(&a.encode(&repeated, &run).unwrap());
            let found = b.encode(&weighted, &run).unwrap();
            assert_eq!(found.weights(), Some(&[2.0, 1.0, 3.0, 0.0][..]));
            let b = matrix(&found);
            for (i, j) in [(0, 0), (2, 1), (3, 2)] {
                assert_eq!(a[i].len(), b[j].len());
                a[i].iter().zip(&b[j]).for_each(|(a, b)| assert!((a - b).abs() < 1e-12, "{scaling:?}"));
            }
        }
    }
}

#[test]
fn unit_rows_have_norm_one_dense_and_sparse() {
    let run = Run::default();
    let how = Encoding { scaling: Scaling::Unit, fourier: None };
    let columns: [(&str, Option<&[&str]>); 3] = [("a", None), ("b", None), ("c", None)];
    let dense = examples(&columns, Cells::Dense(vec![3.0, 0.0, 4.0, 0.0, 0.0, 0.0, -2.0, 1.0, 2.0]), 3);
    let cells = Cells::Sparse {
        ends: vec![2, 2, 5],
        indices: vec![0, 2, 0, 1, 2],
        values: vec![3.0, 4.0, -2.0, 1.0, 2.0],
    };
    for data in [dense, examples(&columns, cells, 3)] {
        let rows = matrix(&Encoder::fit(&data, &how).unwrap().encode(&data, &run).unwrap());
        assert_eq!(rows[0], [0.6, 0.0, 0.8, 1.0]);
        assert_eq!(rows[1], [0.0, 0.0, 0.0, 1.0]);
        assert_eq!(rows[2], [-2.0 / 3.0, 1.0 / 3.0, 2.0 / 3.0, 1.0]);
    }
}

#[test]
fn columns_are_standardised_with_indicators_and_categories() {
    let nan = f64::NAN;
    let columns: [(&str, Option<&[&str]>); 3] = [("a", None), ("c", Some(&["u", "v"])), ("k", None)];
    let data = examples(&columns, Cells::Dense(vec![1.0, 0.0, 5.0, 3.0, 1.0, 5.0, nan, nan, 5.0]), 3);
    let encoder = Encoder::fit(&data, &Encoding::default()).unwrap();
    let run = Run::default();
    let rows = matrix(&encoder.encode(&data, &run).unwrap());
    // a, is a missing, u, v, is c missing, k (constant), bias.
    assert_eq!(rows[0], [-1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]);
    assert_eq!(rows[1], [1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0]);
    assert_eq!(rows[2], [0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 1.0]);
    // Columns in another order, an unknown category, a column too few.
    let other: [(&str, Option<&[&str]>); 3] = [("k", None), ("a", None), ("c", Some(&["v", "w"]))];
    let fine = examples(&other, Cells::Dense(vec![5.0, 1.0, 0.0]), 1);
    assert_eq!(matrix(&encoder.encode(&fine, &run).unwrap())[0], [-1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0]);
    let odd = examples(&other, Cells::Dense(vec![5.0, 1.0, 1.0]), 1);
    let message = encoder.encode(&odd, &run).unwrap_err().to_string();
    assert_eq!(message, "t: line 1: column c: the model does not know the category `w`");
    let few = examples(&other[..2], Cells::Dense(vec![5.0, 1.0]), 1);
    assert!(encoder.encode(&few, &run).unwrap_err().to_string().contains("`c` is not in the file"));
}

#[test]
fn sparse_cells_stay_sparse_and_agree_with_dense_ones() {
    let columns = [("a", None), ("b", None), ("c", None)];
    let (ends, indices) = (vec![1, 1, 3], vec![1, 0, 2]);
    let cells = Cells::Sparse { ends, indices, values: vec![4.0, -2.0, f64::NAN] };
    let data = examples(&columns, cells, 3);
    let run = Run::default();
    let encoder = Encoder::fit(&data, &Encoding::default()).unwrap();
    let inputs = encoder.encode(&data, &run).unwrap();
    assert!(inputs.is_sparse());
    let rows = matrix(&inputs);
    assert_eq!(rows[0], [0.0, 1.0, 0.0, 0.0, 1.0]);
    assert_eq!(rows[2], [-1.0, 0.0, 0.0, 1.0, 1.0]);
    // Standardised: the same as for the dense cells.
    let full = Cells::Dense(vec![0.0, 4.0, 0.0, 0.0, 0.0, 0.0, -2.0, 0.0, f64::NAN]);
    let how = Encoding { scaling: Scaling::Standard, fourier: None };
    let dense = examples(&columns, full, 3);
    let (a, b) = (Encoder::fit(&data, &how).unwrap(), Encoder::fit(&dense, &how).unwrap());
    let (a, b) = (matrix(&a.encode(&data, &run).unwrap()), matrix(&b.encode(&dense, &run).unwrap()));
    a.iter().flatten().zip(b.iter().flatten()).for_each(|(a, b)| assert!((a - b).abs() < 1e-12, "{a} {b}"));
}

/// Inner products of Fourier features have mean exp(−γ‖x − x'‖²) and lie in [−2/m, 2/m] per feature; by
/// Hoeffding, a deviation of 4·√(ln(2e7)/(2m)) has probability 1e-7.
#[test]
fn fourier_features_approximate_the_kernel() {
    let data = examples(&[("a", None), ("b", None)], Cells::Dense(vec![0.0, 1.0, 1.0, -1.0, 2.0, 0.5]), 3);
    let fourier = Fourier { features: 20_000, gamma: Some(0.3), seed: 3 };
    let how = Encoding { scaling: Scaling::None, fourier: Some(fourier) };
    let encoder = Encoder::fit(&data, &how).unwrap();
    let inputs = encoder.encode(&data, &Run::default()).unwrap();
    assert_eq!((inputs.columns(), encoder.width()), (20_001, 20_000));
    let points = [[0.0, 1.0], [1.0, -1.0], [2.0, 0.5]];
    let features = fourier_features(&fourier, 0.3, 2, &points.concat(), 3);
    let radius = 4.0 * ((2e7f64).ln() / 40_000.0).sqrt();
    for (i, z) in features.chunks(20_000).enumerate() {
        for (j, other) in features.chunks(20_000).enumerate() {
            let found: f64 = z.iter().zip(other).map(|(a, b)| a * b).sum();
            let square: f64 = points[i].iter().zip(points[j]).map(|(a, b)| (a - b).powi(2)).sum();
            assert!((found - (-0.3 * square).exp()).abs() < radius, "{found} {square}");
        }
    }
    let wrong = Encoding { fourier: Some(Fourier { features: 0, ..fourier }), ..how };
    assert!(Encoder::fit(&data, &wrong).is_err());
}
