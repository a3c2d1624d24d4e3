//! Assignment problem with maximum total score: the Hungarian method with potentials (E. L. Lawler, 1976; R.
//! Jonker, A. Volgenant, 1987). Time O(n³), memory O(n) in addition to the matrix.

use crate::error::Result;
use crate::run::Clock;

/// The column of each row in the one-to-one assignment with maximum total score, for a row-major n×n matrix
/// of finite numbers.
///
/// ```
/// use zhat::internal::space::best_assignment;
/// assert_eq!(best_assignment(&[1.0, 5.0, 4.0, 6.0], 2), [1, 0]);
/// ```
pub fn best_assignment(scores: &[f64], n: usize) -> Vec<usize> {
    assign(scores, n, || Ok(())).unwrap_or_default()
}

/// Like [`best_assignment`], but fails once the clock must stop.
pub(crate) fn best_assignment_within(scores: &[f64], n: usize, clock: &Clock<'_>) -> Result<Vec<usize>> {
    assign(scores, n, || clock.check())
}

/// `look` is called before every row.
fn assign(scores: &[f64], n: usize, look: impl Fn() -> Result<()>) -> Result<Vec<usize>> {
    debug_assert_eq!(scores.len(), n * n);
    // Rows are added one by one; column 0 means "none".
    let (mut row_potential, mut column_potential) = (vec![0.0; n + 1], vec![0.0; n + 1]);
    let mut row_of = vec![0usize; n + 1];
    let mut way = vec![0usize; n + 1];
    let mut least = vec![f64::INFINITY; n + 1];
    let mut used = vec![false; n + 1];
    for row in 1..=n {
        look()?;
        row_of[0] = row;
        least.fill(f64::INFINITY);
        used.fill(false);
        let mut column = 0;
        while row_of[column] != 0 {
            used[column] = true;
            let i = row_of[column];
            let (mut delta, mut next) = (f64::INFINITY, 0);
            let costs = &scores[(i - 1) * n..i * n];
            for j in 1..=n {
                if !used[j] {
                    let reduced = -costs[j - 1] - row_potential[i] - column_potential[j];
                    if reduced < least[j] {
                        least[j] = reduced;
                        way[j] = column;
                    }
                    if least[j] < delta {
                        delta = least[j];
                        next = j;
                    }
                }
            }
            for j in 0..=n {
                if used[j] {
                    row_potential[row_of[j]] += delta;
                    column_potential[j] -= delta;
                } else {
                    least[j] -= delta;
                }
            }
            column = next;
        }
        while column != 0 {
            let before = way[column];
            row_of[column] = row_of[before];
            column = before;
        }
    }
    let mut columns = vec![0; n];
    for (column, &row) in row_of.iter().enumerate().skip(1) {
        columns[row - 1] = column - 1;
    }
    Ok(columns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Streams;

    #[test]
    fn no_other_assignment_is_better() {
        let mut random = Streams::new(3, "assignment").block(0);
        for n in 0..7 {
            for scale in [1.0, 1e4] {
                let scores: Vec<f64> = (0..n * n).map(|_| scale * random.normal()).collect();
                let total = |columns: &[usize]| -> f64 {
                    columns.iter().enumerate().map(|(i, j)| scores[i * n + j]).sum()
                };
                let found = best_assignment(&scores, n);
                let mut columns: Vec<usize> = (0..n).collect();
                columns.sort_unstable_by_key(|j| found[*j]);
                let mut best = f64::NEG_INFINITY;
                let space = super::super::Permutations::new(n).unwrap();
                let run = crate::Run::default();
                super::super::Space::enumerate(&space, &run.start("test"), &mut |order| {
                    let order: Vec<usize> = order.iter().map(|j| *j as usize).collect();
                    best = best.max(total(&order));
                    true
                })
                .unwrap();
                assert!((total(&found) - best).abs() <= 1e-12 * scale * n as f64, "{n}");
            }
        }
    }
}
