//! Operations on long rows, in pieces that run in parallel.
//!
//! Messages of one sequence over very many states are rows too long for one thread: copies, exponentials, logarithms
//! and maxima would take as long as sparse products. Pieces depend only on the length of the row, every number of a
//! result is computed by one piece, and only maxima and minima are taken over pieces, so results have the same bits
//! for any number of threads.

use crate::numeric::Real;
use crate::numeric::parallel::prelude::*;

/// Numbers per piece.
const PIECE: usize = 1 << 13;
/// Shorter rows are one piece.
const LONG: usize = 1 << 15;

/// Calls `work` with the pieces of a row and the place of their first number.
pub(super) fn each_piece<F: Real>(row: &mut [F], work: impl Fn(usize, &mut [F]) + Sync) {
    if row.len() < LONG {
        return work(0, row);
    }
    row.par_chunks_mut(PIECE).enumerate().for_each(|(k, piece)| work(k * PIECE, piece));
}

/// The same; returns the largest of the results.
pub(super) fn largest_of_pieces<F: Real>(row: &mut [F], work: impl Fn(usize, &mut [F]) -> F + Sync) -> F {
    if row.len() < LONG {
        return work(0, row);
    }
    let pieces = row.par_chunks_mut(PIECE).enumerate();
    let found: Vec<F> = pieces.map(|(k, piece)| work(k * PIECE, piece)).collect();
    F::max(&found)
}

/// The smallest number of a row; ∞ if there are none.
pub(super) fn least<F: Real>(row: &[F]) -> F {
    if row.len() < LONG {
        return F::least(row);
    }
    let found: Vec<F> = row.par_chunks(PIECE).map(F::least).collect();
    F::least(&found)
}

/// row ← from.
pub(super) fn copy<F: Real>(row: &mut [F], from: &[F]) {
    each_piece(row, |at, piece| piece.copy_from_slice(&from[at..at + piece.len()]));
}

/// x ← ln x.
pub(super) fn ln_in_place<F: Real>(row: &mut [F]) {
    each_piece(row, |_, piece| F::ln_in_place(piece));
}

/// x ← exp x.
pub(super) fn exp_in_place<F: Real>(row: &mut [F]) {
    each_piece(row, |_, piece| F::exp_in_place(piece));
}

/// Subtracts the maximum if it is finite, and returns it (otherwise 0).
pub(super) fn lower_by<F: Real>(row: &mut [F], largest: F) -> f64 {
    if largest == F::NEG_INFINITY {
        return 0.0;
    }
    each_piece(row, |_, piece| F::lower(piece, largest));
    largest.to_f64()
}

/// The numbers of `row` beside a piece of `len` numbers at `at`; `row` may be empty.
pub(super) fn beside<F>(row: &[F], at: usize, len: usize) -> &[F] {
    &row[at.min(row.len())..(at + len).min(row.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agree<F: Real>() {
        for len in [0, 1, 100, LONG - 1, LONG, LONG + 1, 3 * PIECE + 5 + LONG] {
            let number = |i: usize| F::from_f64((i * 7919 % 10_007) as f64 / 10_007.0);
            let numbers: Vec<F> = (0..len).map(number).collect();
            let (mut row, mut whole) = (vec![F::ZERO; len], numbers.clone());
            copy(&mut row, &numbers);
            assert!(row == numbers);
            assert!(least(&row) == F::least(&numbers));
            let largest = largest_of_pieces(&mut row, |at, piece| {
                assert!(*beside(&numbers, at, piece.len()) == *piece);
                assert!(beside::<F>(&[], at, piece.len()).is_empty());
                F::max(piece)
            });
            assert!(largest == F::max(&numbers));
            let shift = lower_by(&mut row, largest);
            if len > 0 {
                F::lower(&mut whole, largest);
                assert_eq!(shift, largest.to_f64());
            }
            exp_in_place(&mut row);
            F::exp_in_place(&mut whole);
            assert!(row == whole);
            ln_in_place(&mut row);
            F::ln_in_place(&mut whole);
            assert!(row == whole);
        }
    }

    #[test]
    fn pieces_give_the_numbers_of_whole_rows() {
        agree::<f32>();
        agree::<f64>();
    }
}
