//! The bound of a distribution q, and its rounding error.
//!
//! F(q) = E_q\[score\] + H(q) ≤ log Z for every q. Let J_e be the joint distribution of a hyperedge e and d_v
//! the number of hyperedges below variable v; then
//!
//! F = Σ_s Σ q_s base_s + Σ_f E_q\[θ_f\] − Σ_e Σ J_e ln J_e + Σ_v (d_v − \[v is a root\]) Σ q_v ln q_v.
//!
//! **Rounding.** q is the distribution defined by its computed conditionals, with each row taken to sum to
//! one. A marginal is a sum of products of positive numbers along the path from the root, so its relative
//! error is at most the number of roundings on that path times 2⁻⁵³; there is no cancellation for any scores.
//! The error of a term Σ q θ is that times max |θ|, the error of a term Σ q ln q is that times (ln n + 1) for
//! n states, and for products of groups the errors add up. Sums over slots and factors are compensated.
//! [`Layout::operations`] holds the number of roundings; the allowance is its product with Σ max |θ| + Σ (ln
//! n + 1).

use crate::numeric::parallel::prelude::*;

use super::ascent::{Ascent, expected_value};
use super::layout::{Cluster, Layout};
use crate::numeric::{self, CompensatedSum};

/// Crossing factors, and clusters, summed per task. They are constants, so that sums do not depend on the
/// number of threads.
const FACTORS: usize = 4096;
const CLUSTERS: usize = 64;
/// Entries whose x ln x is summed at once.
const STRIPE: usize = 256;
/// Additional roundings per term: logarithms, sums within a stripe, simplified tables.
const ELSE: f64 = 128.0;

/// F(q); −∞ if q gives probability to a state of weight zero.
pub(super) fn bound(ascent: &Ascent<'_>) -> f64 {
    let (layout, q) = (ascent.layout, &ascent.q[..]);
    let inside: Vec<f64> = layout
        .clusters
        .par_chunks(CLUSTERS)
        .map(|clusters| {
            let mut sum = CompensatedSum::default();
            let mut logs = Vec::new();
            for cluster in clusters {
                sum.add(expected_base(layout, cluster, q));
                sum.add(entropy(layout, cluster, q, &mut logs));
            }
            sum.value()
        })
        .collect();
    let crossing: Vec<f64> = layout
        .crossing
        .par_chunks(FACTORS)
        .map(|factors| {
            let terms = factors.iter().map(|&(f, zeros)| expected_value(layout, f as usize, zeros, q));
            terms.collect::<CompensatedSum>().value()
        })
        .collect();
    inside.into_iter().chain(crossing).collect::<CompensatedSum>().value()
}

/// H(q).
pub(super) fn total_entropy(ascent: &Ascent<'_>) -> f64 {
    let mut logs = Vec::new();
    let terms =
        ascent.layout.clusters.iter().map(|cluster| entropy(ascent.layout, cluster, &ascent.q, &mut logs));
    terms.collect::<CompensatedSum>().value().max(0.0)
}

/// Bound on the rounding error of [`bound`], for factors whose magnitudes sum to at most `magnitude`.
pub(super) fn allowance(layout: &Layout<'_>, magnitude: f64) -> f64 {
    numeric::rounding_allowance(2.0 * layout.operations + ELSE, 2.0 * magnitude + layout.entropy_magnitude)
}

/// Σ q base, where 0 · −∞ = 0.
fn expected_base(layout: &Layout<'_>, cluster: &Cluster, q: &[f64]) -> f64 {
    let mut sum = CompensatedSum::default();
    let (q, base) = (&q[cluster.entries.clone()], &layout.base[cluster.entries.clone()]);
    for (q, base) in q.chunks(16).zip(base.chunks(16)) {
        let term = |(&p, &value): (&f64, &f64)| if p > 0.0 { p * value } else { 0.0 };
        sum.add(q.iter().zip(base).map(term).sum());
    }
    sum.value()
}

/// The entropy of q of a cluster; `logs` is scratch.
fn entropy(layout: &Layout<'_>, cluster: &Cluster, q: &[f64], logs: &mut Vec<f64>) -> f64 {
    let mut sum = CompensatedSum::default();
    let start = cluster.entries.start;
    let edges = layout.edges.get(cluster.edges.start).filter(|_| !cluster.edges.is_empty());
    let end = edges.map_or(cluster.entries.end, |edge| edge.offset);
    for joint in q[end..cluster.entries.end].chunks(STRIPE) {
        sum.add(-numeric::sum_x_ln_x(joint));
    }
    logs.clear();
    logs.extend(q[start..end].iter().map(|&p| if p > 0.0 { p } else { 1.0 }));
    numeric::ln_in_place(logs);
    for v in cluster.variables.clone() {
        let weight = layout.weights[v];
        if weight != 0.0 {
            let own = layout.offsets[v]..layout.offsets[v] + layout.states[v] as usize;
            let terms = q[own.clone()].iter().zip(&logs[own.start - start..own.end - start]);
            sum.add(weight * terms.map(|(p, log)| p * log).sum::<f64>());
        }
    }
    sum.value()
}
