//! Small dense matrices: Cholesky factors, inverses of triangles, and a bound on eigenvalues. Time D³.

/// L with L·Lᵀ = A, row-major with zeros above the diagonal; `None` if A is not positive definite.
pub(super) fn cholesky(matrix: &[f64], size: usize) -> Option<Vec<f64>> {
    let mut factor = vec![0.0; size * size];
    for i in 0..size {
        for j in 0..=i {
            let sum: f64 = (0..j).map(|k| factor[i * size + k] * factor[j * size + k]).sum();
            let rest = matrix[i * size + j] - sum;
            if i == j {
                if !(rest > 0.0 && rest.is_finite()) {
                    return None;
                }
                factor[i * size + i] = rest.sqrt();
            } else {
                factor[i * size + j] = rest / factor[j * size + j];
            }
        }
    }
    Some(factor)
}

/// (L⁻¹)ᵀ, row-major.
pub(super) fn inverse_transposed(factor: &[f64], size: usize) -> Vec<f64> {
    let mut inverse = vec![0.0; size * size];
    for column in 0..size {
        for i in column..size {
            let own = if i == column { 1.0 } else { 0.0 };
            let sum: f64 = (column..i).map(|k| factor[i * size + k] * inverse[column * size + k]).sum();
            inverse[column * size + i] = (own - sum) / factor[i * size + i];
        }
    }
    inverse
}

/// Raises the eigenvalues of D^(−½)·A·D^(−½) to at least `least`, for the diagonal matrix D of `scales`.
pub(super) fn raise(matrix: &mut [f64], size: usize, least: f64, scales: &[f64]) {
    let roots: Vec<f64> = scales.iter().map(|scale| scale.sqrt()).collect();
    let mut scaled = vec![0.0; size * size];
    for i in 0..size {
        for j in 0..size {
            scaled[i * size + j] = matrix[i * size + j] / (roots[i] * roots[j]);
        }
    }
    let mut shifted = scaled.clone();
    (0..size).for_each(|i| shifted[i * size + i] -= least);
    if cholesky(&shifted, size).is_some() {
        return;
    }
    let (values, vectors) = eigen(scaled, size);
    for i in 0..size {
        for j in 0..=i {
            let sum: f64 =
                (0..size).map(|k| values[k].max(least) * vectors[i * size + k] * vectors[j * size + k]).sum();
            let value = sum * roots[i] * roots[j];
            (matrix[i * size + j], matrix[j * size + i]) = (value, value);
        }
    }
}

/// Eigenvalues and eigenvectors (as columns) of a symmetric matrix, by Jacobi rotations.
fn eigen(mut a: Vec<f64>, size: usize) -> (Vec<f64>, Vec<f64>) {
    let mut vectors = vec![0.0; size * size];
    (0..size).for_each(|i| vectors[i * size + i] = 1.0);
    for _ in 0..60 {
        let off: f64 = (0..size).map(|i| (0..i).map(|j| a[i * size + j].powi(2)).sum::<f64>()).sum();
        let all: f64 = a.iter().map(|x| x * x).sum();
        if off <= 1e-30 * all {
            break;
        }
        for p in 0..size {
            for q in p + 1..size {
                let apq = a[p * size + q];
                if apq == 0.0 {
                    continue;
                }
                let theta = (a[q * size + q] - a[p * size + p]) / (2.0 * apq);
                let t = theta.signum() / (theta.abs() + (theta * theta + 1.0).sqrt());
                let c = 1.0 / (t * t + 1.0).sqrt();
                let s = t * c;
                for k in 0..size {
                    let (x, y) = (a[k * size + p], a[k * size + q]);
                    (a[k * size + p], a[k * size + q]) = (c * x - s * y, s * x + c * y);
                }
                for k in 0..size {
                    let (x, y) = (a[p * size + k], a[q * size + k]);
                    (a[p * size + k], a[q * size + k]) = (c * x - s * y, s * x + c * y);
                }
                for k in 0..size {
                    let (x, y) = (vectors[k * size + p], vectors[k * size + q]);
                    (vectors[k * size + p], vectors[k * size + q]) = (c * x - s * y, s * x + c * y);
                }
            }
        }
    }
    ((0..size).map(|i| a[i * size + i]).collect(), vectors)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Streams;

    #[test]
    fn factors_and_eigenvalues_give_the_matrix_back() {
        let mut random = Streams::new(3, "linear test").block(0);
        for size in 1..7 {
            let b: Vec<f64> = (0..size * size).map(|_| random.normal()).collect();
            let product =
                |i: usize, j: usize| (0..size).map(|k| b[i * size + k] * b[j * size + k]).sum::<f64>();
            let a: Vec<f64> = (0..size * size).map(|at| product(at / size, at % size)).collect();
            let (values, vectors) = eigen(a.clone(), size);
            for i in 0..size {
                for j in 0..size {
                    let sum: f64 =
                        (0..size).map(|k| values[k] * vectors[i * size + k] * vectors[j * size + k]).sum();
                    assert!((sum - a[i * size + j]).abs() < 1e-12 * (1.0 + sum.abs()) * size as f64);
                }
            }
            if let Some(factor) = cholesky(&a, size) {
                let inverse = inverse_transposed(&factor, size);
                for i in 0..size {
                    for j in 0..size {
                        let sum: f64 = (0..size).map(|k| factor[i * size + k] * inverse[j * size + k]).sum();
                        assert!((sum - f64::from(u8::from(i == j))).abs() < 1e-6, "{size}");
                    }
                }
            }
            let mut raised = a.clone();
            raise(&mut raised, size, 0.5, &vec![1.0; size]);
            assert!(eigen(raised, size).0.iter().all(|value| *value >= 0.5 - 1e-9));
        }
        assert!(cholesky(&[1.0, 2.0, 2.0, 1.0], 2).is_none());
    }
}
