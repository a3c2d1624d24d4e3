//! Dependency trees by enumeration: every choice of heads and labels, tested for being a tree by its
//! definition.

use zhat::Real;
use zhat::model::{DependencyTree, TreeShape};

/// Every tree of `words` words as heads: 0 for the root, i + 1 for word i.
pub fn trees(words: usize, shape: TreeShape) -> Vec<Vec<usize>> {
    let mut found = Vec::new();
    let mut heads = vec![0; words];
    loop {
        if is_tree(&heads, shape) {
            found.push(heads.clone());
        }
        let Some(d) = (0..words).rev().find(|&d| heads[d] < words) else { return found };
        heads[d] += 1;
        heads[d + 1..].fill(0);
    }
}

/// Whether a word is below another one, or is it.
fn is_below(heads: &[usize], mut word: usize, above: usize) -> bool {
    for _ in 0..=heads.len() {
        if word == above {
            return true;
        }
        match heads[word] {
            0 => return false,
            head => word = head - 1,
        }
    }
    false
}

fn is_tree(heads: &[usize], shape: TreeShape) -> bool {
    let reaches_root = |mut word: usize| {
        for _ in 0..heads.len() {
            match heads[word] {
                0 => return true,
                head => word = head - 1,
            }
        }
        false
    };
    let projective = |d: usize| match heads[d] {
        0 => true,
        head => {
            let h = head - 1;
            (h.min(d) + 1..h.max(d)).all(|between| is_below(heads, between, h))
        }
    };
    let words = 0..heads.len();
    words.clone().all(reaches_root)
        && (!shape.projective || words.clone().all(projective))
        && (!shape.single_root || heads.iter().filter(|&&head| head == 0).count() == 1)
}

/// The trees of a sentence with their scores: those of positive weight.
pub struct Listed {
    pub trees: Vec<(Vec<usize>, Vec<usize>)>,
    pub scores: Vec<f64>,
}

impl Listed {
    pub fn new<F: Real>(model: &DependencyTree<F>, b: usize) -> Self {
        let (n, labels) = (model.lengths()[b], model.per_arc());
        let mut listed = Listed { trees: Vec::new(), scores: Vec::new() };
        for heads in trees(n, model.shape()) {
            for code in 0..labels.pow(n as u32) {
                let own: Vec<usize> = (0..n).map(|d| code / labels.pow(d as u32) % labels).collect();
                let arcs = heads.iter().zip(&own).enumerate();
                let score: f64 = arcs
                    .map(|(d, (&head, &label))| {
                        let score: f64 = match head {
                            0 => model.root(b, d)[label].into(),
                            head => model.arc(b, head - 1, d)[label].into(),
                        };
                        score
                    })
                    .sum();
                if score > f64::NEG_INFINITY {
                    listed.trees.push((heads.clone(), own));
                    listed.scores.push(score);
                }
            }
        }
        listed
    }

    pub fn log_partition(&self) -> f64 {
        super::oracle::log_sum_exp(&self.scores)
    }

    pub fn probabilities(&self) -> Vec<f64> {
        let all = self.log_partition();
        self.scores.iter().map(|score| (score - all).exp()).collect()
    }

    /// P(arc, label), with head 0 for the root.
    pub fn arc(&self, head: usize, dependent: usize, label: usize) -> f64 {
        let has = |(heads, labels): &(Vec<usize>, Vec<usize>)| {
            heads[dependent] == head && labels[dependent] == label
        };
        self.trees.iter().zip(self.probabilities()).filter(|(tree, _)| has(tree)).map(|(_, p)| p).sum()
    }
}
