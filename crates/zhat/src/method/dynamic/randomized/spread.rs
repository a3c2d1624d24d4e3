//! Messages from a few states to all states.
//!
//!   forward:  out(j) = log Σ_{i∈Ω} exp(message(i) + log-transition(i, j)) for every j,
//!   backward: out(i) = log Σ_{j∈Ω} exp(log-transition(i, j) + message(j)) for every i.
//!
//! Time: K·N exponentials, computed tile by tile. Each sum is shifted by its own largest term, so no finite
//! value is lost. Memory: one tile per thread.

use crate::numeric::parallel::prelude::*;

use crate::method::dynamic::lattice::{Entries, Index};
use crate::numeric::Real;

/// Maximum number of rows and columns of a tile, chosen so that it fits into the L2 cache.
const ROWS: usize = 64;
const COLUMNS: usize = 512;

/// Rows per task. The tile has one column per chosen state.
const BACKWARD_ROWS: usize = 64;

/// Forward messages from the states `rows` through table t to all states.
pub(crate) fn forward<F: Real>(
    entries: &dyn Entries<F>,
    t: usize,
    rows: &[u32],
    messages: &[F],
    out: &mut [F],
) {
    out.par_chunks_mut(COLUMNS).enumerate().for_each_init(
        || (vec![F::ZERO; ROWS * COLUMNS], vec![F::ZERO; COLUMNS], vec![F::ZERO; COLUMNS]),
        |(tile, shifts, sums), (c, out)| {
            let width = out.len();
            let (shifts, sums) = (&mut shifts[..width], &mut sums[..width]);
            let columns = c * COLUMNS..c * COLUMNS + width;
            out.fill(F::NEG_INFINITY);
            sums.fill(F::ZERO);
            for (rows, messages) in rows.chunks(ROWS).zip(messages.chunks(ROWS)) {
                let tile = &mut tile[..rows.len() * width];
                entries.fill(t, Index::List(rows), Index::Range(columns.clone()), tile);
                // `out` holds the largest term so far. The sums are relative to it.
                shifts.copy_from_slice(out);
                for (row, &message) in tile.chunks_exact(width).zip(messages) {
                    F::raise_to(out, row, -message);
                }
                for ((shift, &best), sum) in shifts.iter_mut().zip(out.iter()).zip(sums.iter()) {
                    *shift = if *sum > F::ZERO { *shift - best } else { F::ZERO };
                }
                F::exp_in_place(shifts);
                for (sum, &factor) in sums.iter_mut().zip(shifts.iter()) {
                    *sum *= factor;
                }
                for (shift, &best) in shifts.iter_mut().zip(out.iter()) {
                    *shift = if best > F::NEG_INFINITY { best } else { F::ZERO };
                }
                for (row, &message) in tile.chunks_exact_mut(width).zip(messages) {
                    F::exp_shifted(row, -message, shifts);
                    F::add_to(sums, row);
                }
            }
            F::ln_in_place(sums);
            for (best, &sum) in out.iter_mut().zip(sums.iter()) {
                *best = if *best > F::NEG_INFINITY { *best + sum } else { F::NEG_INFINITY };
            }
        },
    );
}

/// Backward messages from the states `columns` through table t to all states.
pub(crate) fn backward<F: Real>(
    entries: &dyn Entries<F>,
    t: usize,
    columns: &[u32],
    messages: &[F],
    out: &mut [F],
) {
    if columns.is_empty() {
        out.fill(F::NEG_INFINITY);
        return;
    }
    out.par_chunks_mut(BACKWARD_ROWS).enumerate().for_each_init(Vec::new, |tile, (r, out)| {
        tile.resize(out.len() * columns.len(), F::ZERO);
        let rows = r * BACKWARD_ROWS..r * BACKWARD_ROWS + out.len();
        entries.fill(t, Index::Range(rows), Index::List(columns), tile);
        for (row, out) in tile.chunks_exact_mut(columns.len()).zip(out) {
            F::add_to(row, messages);
            *out = F::from_f64(F::log_sum_exp(row));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::method::dynamic::lattice::ChainEntries;
    use crate::model::Transitions;
    use crate::random::Streams;

    fn agrees<F: Real>(scale: f64, tolerance: f64) {
        let mut random = Streams::new(4, "spread tests").block(0);
        for states in [1, 5, 700] {
            let table: Vec<F> = (0..states * states)
                .map(|_| if random.below(4) == 0 { scale * random.normal() } else { f64::NEG_INFINITY })
                .map(F::from_f64)
                .collect();
            let transitions = Transitions::Shared(table.clone().into());
            let entries = ChainEntries { transitions: &transitions, states };
            let chosen: Vec<u32> = (0..states as u32).filter(|i| states == 1 || i % 5 < 2).collect();
            let messages: Vec<F> = chosen.iter().map(|_| F::from_f64(scale * random.normal())).collect();
            let (mut ahead, mut back) = (vec![F::ZERO; states], vec![F::ZERO; states]);
            forward(&entries, 0, &chosen, &messages, &mut ahead);
            backward(&entries, 0, &chosen, &messages, &mut back);
            for j in 0..states {
                let into = |i: u32| table[i as usize * states + j].to_f64();
                let out_of = |i: u32| table[j * states + i as usize].to_f64();
                let sum = |entry: &dyn Fn(u32) -> f64| {
                    let terms: Vec<f64> =
                        chosen.iter().zip(&messages).map(|(&i, m)| entry(i) + m.to_f64()).collect();
                    crate::numeric::log_sum_exp(&terms)
                };
                for (got, want) in [(ahead[j], sum(&into)), (back[j], sum(&out_of))] {
                    let got = got.to_f64();
                    assert!(got == want || (got - want).abs() < tolerance * scale, "{got} {want}");
                }
            }
        }
    }

    #[test]
    fn messages_are_log_sums_whatever_their_scale() {
        for scale in [1.0, 1e4] {
            agrees::<f64>(scale, 1e-13);
            agrees::<f32>(scale, 1e-5);
        }
    }
}
