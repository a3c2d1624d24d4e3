//! The best sequence of tags of one sentence of the first order.
//!
//! δₜ(j) = eₜ(j) + maxᵢ (δₜ₋₁(i) + T(i, j)). Only the maxima are kept; on the way back the tag before is the first
//! one that attains the maximum. L·N² comparisons, in vector registers.

use super::design::LANES;
use super::sweep::Lane;
use crate::numeric::simd::{self, Kernel};

struct Forward<'a> {
    tags: usize,
    vectors: usize,
    scores: &'a [Lane],
    pairs: &'a [Lane],
    best: &'a mut [Lane],
}

impl Kernel for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Forward { tags, vectors, scores, pairs, best } = self;
        for t in 0..scores.len() / vectors {
            let (before, now) = best.split_at_mut(t * vectors);
            let now = &mut now[..vectors];
            let own = &scores[t * vectors..][..vectors];
            if t == 0 {
                now.copy_from_slice(own);
                continue;
            }
            let before = &before[(t - 1) * vectors..].as_flattened()[..tags];
            now.fill([f64::NEG_INFINITY; LANES]);
            for (&x, row) in before.iter().zip(pairs.chunks_exact(vectors)) {
                for (most, pair) in now.iter_mut().zip(row) {
                    for l in 0..LANES {
                        let way = x + pair[l];
                        most[l] = if way > most[l] { way } else { most[l] };
                    }
                }
            }
            for (most, own) in now.iter_mut().zip(own) {
                for l in 0..LANES {
                    most[l] += own[l];
                }
            }
        }
    }
}

/// The best tags; `None` if every sequence is impossible. `best` is memory.
pub(super) fn viterbi(
    tags: usize,
    width: usize,
    scores: &[f64],
    pairs: &[f64],
    best: &mut Vec<f64>,
) -> Option<Vec<u16>> {
    best.resize(scores.len(), 0.0);
    simd::run(Forward {
        tags,
        vectors: width / LANES,
        scores: scores.as_chunks().0,
        pairs: pairs.as_chunks().0,
        best: best.as_chunks_mut().0,
    });
    let length = scores.len() / width;
    let mut found = vec![0; length];
    let last = &best[(length - 1) * width..][..tags];
    let mut tag = (0..tags).fold(0, |best, j| if last[j] > last[best] { j } else { best });
    if last[tag] == f64::NEG_INFINITY {
        return None;
    }
    found[length - 1] = tag as u16;
    for t in (1..length).rev() {
        let before = &best[(t - 1) * width..][..tags];
        let way = |i: usize| before[i] + pairs[i * width + tag];
        tag = (0..tags).fold(0, |best, i| if way(i) > way(best) { i } else { best });
        found[t - 1] = tag as u16;
    }
    Some(found)
}
