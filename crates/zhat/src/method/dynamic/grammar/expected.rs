//! The tree with the largest expected number of correct nodes.
//!
//! Σ over nodes of the probability that a tree of the model has the same node is maximised over all binary
//! trees: T³ steps from the expected numbers of nodes. The symbol of each span is chosen on its own, so no rule
//! need connect a node to its parts, and the tree may have probability zero under the model. Reference: J.
//! Goodman, *Parsing algorithms and metrics*, ACL 1996.

use crate::model::Hypertree;
use crate::numeric::Real;
use crate::query::tree::Constituent;

/// The best tree for the expected numbers of nodes of sentence b, B×T×T×S.
pub fn most_expected<F: Real>(model: &Hypertree<F>, b: usize, nodes: &[F]) -> Vec<Constituent> {
    let (n, t, all) = (model.lengths()[b], model.positions(), model.symbols().all);
    let symbol = |i: usize, j: usize| -> (usize, f64) {
        let row = &nodes[((b * t + i) * t + j) * all..][..all];
        let better = |best: (usize, f64), (k, x): (usize, &F)| {
            if x.to_f64() > best.1 { (k, x.to_f64()) } else { best }
        };
        row.iter().enumerate().fold((0, f64::NEG_INFINITY), better)
    };
    // The largest sum for words i … j, its symbol and the last word of its left part.
    let mut best = vec![(0.0, 0, 0); n * n];
    for width in 0..n {
        for i in 0..n - width {
            let j = i + width;
            let ((k, own), mut division) = (symbol(i, j), (f64::NEG_INFINITY, i));
            for middle in i..j {
                let sum = best[i * n + middle].0 + best[(middle + 1) * n + j].0;
                if sum > division.0 {
                    division = (sum, middle);
                }
            }
            best[i * n + j] = (own + if width == 0 { 0.0 } else { division.0 }, k, division.1);
        }
    }
    let (mut tree, mut open) = (Vec::new(), vec![(0, n - 1)]);
    while let Some((first, last)) = open.pop() {
        let (_, symbol, middle) = best[first * n + last];
        tree.push(Constituent { first, last, symbol });
        if first < last {
            open.push((middle + 1, last));
            open.push((first, middle));
        }
    }
    tree
}
