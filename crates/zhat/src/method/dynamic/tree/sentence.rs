//! A sentence, prepared: scores summed over labels and normalised for every word, and the sums over its
//! trees.

use crate::model::DependencyTree;
use crate::numeric::{self, Real};

/// The log weights of the arcs of a sentence. The weights of all arcs into a word sum to one, so every sum
/// over trees is a probability: that of independent choices of heads forming a tree.
pub struct Sentence {
    /// T.
    pub words: usize,
    /// T×T, by head and dependent, summed over labels and normalised; −∞ on the diagonal.
    pub arcs: Vec<f64>,
    /// The arcs from the root, T.
    pub roots: Vec<f64>,
    /// Σ_d of the normalisers: log Z is this plus the logarithm of the sum over trees. −∞ if a word has no
    /// head.
    pub offset: f64,
    /// The derivatives of the log weights in a direction, in the order of `arcs` and of `roots`; empty if not
    /// wanted.
    pub arc_slopes: Vec<f64>,
    pub root_slopes: Vec<f64>,
}

/// The sums over the trees of a sentence.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    /// log Z; −∞ if there is no tree.
    pub log_partition: f64,
    /// P(arc h → d), T×T; zero if there is no tree.
    pub arcs: Vec<f64>,
    /// P(arc root → d), T.
    pub roots: Vec<f64>,
    /// The derivatives of these probabilities in a direction, if wanted.
    pub arc_slopes: Vec<f64>,
    pub root_slopes: Vec<f64>,
}

impl Sums {
    /// The sums of a sentence without a tree.
    pub fn none(words: usize) -> Sums {
        let (square, row) = (vec![0.0; words * words], vec![0.0; words]);
        Sums {
            log_partition: f64::NEG_INFINITY,
            arcs: square.clone(),
            roots: row.clone(),
            arc_slopes: square,
            root_slopes: row,
        }
    }
}

/// log Σ exp.
pub fn log_sum(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let top = values.clone().fold(f64::NEG_INFINITY, f64::max);
    if top == f64::NEG_INFINITY { top } else { top + values.map(|x| (x - top).exp()).sum::<f64>().ln() }
}

impl Sentence {
    /// Sentence `b`; `direction(head, dependent, label)` is the direction of the derivatives, with head 0 for
    /// the root and i + 1 for word i.
    pub fn new<F: Real>(
        model: &DependencyTree<F>,
        b: usize,
        direction: Option<&dyn Fn(usize, usize, usize) -> f64>,
    ) -> Self {
        let n = model.lengths()[b];
        let score = |head: usize, d: usize| {
            let scores = model.arc_from(b, head, d);
            let [single] = scores else { return log_sum(scores.iter().map(|x| x.to_f64())) };
            single.to_f64()
        };
        let mut sentence = Sentence {
            words: n,
            arcs: vec![f64::NEG_INFINITY; n * n],
            roots: (0..n).map(|d| score(0, d)).collect(),
            offset: 0.0,
            arc_slopes: Vec::new(),
            root_slopes: Vec::new(),
        };
        for h in 0..n {
            let row = &mut sentence.arcs[h * n..(h + 1) * n];
            if model.per_arc() == 1 {
                // A row without calls, for vector instructions.
                let first = (b * model.words() + h) * model.words();
                row.iter_mut().zip(&model.arcs()[first..first + n]).for_each(|(to, x)| *to = x.to_f64());
                row[h] = f64::NEG_INFINITY;
            } else {
                (0..n).filter(|&d| d != h).for_each(|d| row[d] = score(h + 1, d));
            }
        }
        if let Some(direction) = direction {
            let mean = |head: usize, d: usize| {
                let (scores, total) = (model.arc_from(b, head, d), score(head, d));
                let share =
                    |x: &F| if x.to_f64() > f64::NEG_INFINITY { (x.to_f64() - total).exp() } else { 0.0 };
                let each = scores.iter().enumerate().map(|(l, x)| (share(x), l)).filter(|(p, _)| *p > 0.0);
                each.map(|(p, l)| p * direction(head, d, l)).sum::<f64>()
            };
            sentence.root_slopes = (0..n).map(|d| mean(0, d)).collect();
            let pairs = (0..n).flat_map(|h| (0..n).map(move |d| (h, d)));
            sentence.arc_slopes = pairs.map(|(h, d)| if h == d { 0.0 } else { mean(h + 1, d) }).collect();
        }
        sentence.normalise();
        sentence
    }

    /// Makes the weights of the arcs into every word sum to one. Works on rows of heads, for vector instructions.
    fn normalise(&mut self) {
        let n = self.words;
        let mut top = self.roots.clone();
        for row in self.arcs.chunks(n) {
            top.iter_mut().zip(row).for_each(|(top, &x)| *top = if x > *top { x } else { *top });
        }
        // A word without a head keeps −∞.
        let shift: Vec<f64> =
            top.iter().map(|&top| if top > f64::NEG_INFINITY { top } else { 0.0 }).collect();
        let (mut totals, mut weights) = (vec![0.0; n], vec![0.0; n]);
        for row in std::iter::once(self.roots.as_slice()).chain(self.arcs.chunks(n)) {
            weights.iter_mut().zip(row).zip(&shift).for_each(|((to, x), shift)| *to = x - shift);
            numeric::exp_in_place(&mut weights);
            totals.iter_mut().zip(&weights).for_each(|(total, weight)| *total += weight);
        }
        let normalisers: Vec<f64> = shift
            .iter()
            .zip(&totals)
            .map(|(shift, total)| if *total > 0.0 { shift + total.ln() } else { f64::NEG_INFINITY })
            .collect();
        self.offset = normalisers.iter().sum();
        let finite = |x: &f64| if *x > f64::NEG_INFINITY { *x } else { 0.0 };
        let normalisers: Vec<f64> = normalisers.iter().map(finite).collect();
        for row in std::iter::once(self.roots.as_mut_slice()).chain(self.arcs.chunks_mut(n)) {
            row.iter_mut().zip(&normalisers).for_each(|(x, normaliser)| *x -= normaliser);
        }
    }

    /// The same with the best label of every arc instead of the sum, not normalised.
    pub fn best<F: Real>(
        model: &DependencyTree<F>,
        b: usize,
        allowed: &dyn Fn(usize, usize, usize) -> bool,
    ) -> Self {
        let n = model.lengths()[b];
        let score = |head: usize, d: usize| {
            let scores = model.arc_from(b, head, d).iter().enumerate();
            scores
                .filter(|(l, _)| allowed(head, d, *l))
                .map(|(_, x)| x.to_f64())
                .fold(f64::NEG_INFINITY, f64::max)
        };
        let pairs = (0..n).flat_map(|h| (0..n).map(move |d| (h, d)));
        Sentence {
            words: n,
            arcs: pairs.map(|(h, d)| if h == d { f64::NEG_INFINITY } else { score(h + 1, d) }).collect(),
            roots: (0..n).map(|d| score(0, d)).collect(),
            offset: 0.0,
            arc_slopes: Vec::new(),
            root_slopes: Vec::new(),
        }
    }
}
