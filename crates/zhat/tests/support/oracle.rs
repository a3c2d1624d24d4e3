//! Brute-force oracle: plain loops over every state with `graph.score` and the standard library's `exp` and
//! `ln`. It shares no code with the library's kernels, sweeps or reductions.

use zhat::FactorGraph;
use zhat::internal::numeric::rounding_allowance;

/// Every state of a model; the last variable changes fastest.
pub fn states(graph: &FactorGraph) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for &states in graph.cardinalities() {
        all = all.iter().flat_map(|state| (0..states).map(|s| [state.as_slice(), &[s]].concat())).collect();
    }
    all
}

/// Every state with its score.
pub struct Oracle<'g> {
    pub graph: &'g FactorGraph,
    pub states: Vec<Vec<usize>>,
    pub scores: Vec<f64>,
}

impl<'g> Oracle<'g> {
    pub fn new(graph: &'g FactorGraph) -> Self {
        Self::given(graph, &[])
    }

    /// Only the states that agree with the evidence.
    pub fn given(graph: &'g FactorGraph, evidence: &[(usize, usize)]) -> Self {
        let mut states = states(graph);
        states.retain(|state| evidence.iter().all(|&(v, s)| state[v] == s));
        let scores = states.iter().map(|state| graph.score(state)).collect();
        Oracle { graph, states, scores }
    }

    /// The maximum score; −∞ if no state has a positive weight.
    pub fn best(&self) -> f64 {
        self.scores.iter().fold(f64::NEG_INFINITY, |best, &score| best.max(score))
    }

    pub fn is_zero(&self) -> bool {
        self.best() == f64::NEG_INFINITY
    }

    pub fn log_partition(&self) -> f64 {
        log_sum_exp(&self.scores)
    }

    /// p(x) for every state.
    pub fn probabilities(&self) -> Vec<f64> {
        let log_partition = self.log_partition();
        self.scores.iter().map(|score| (score - log_partition).exp()).collect()
    }

    pub fn marginals(&self) -> Vec<Vec<f64>> {
        let probabilities = self.probabilities();
        let belief = |v: usize, s: usize| {
            let agree = self.states.iter().zip(&probabilities).filter(|(state, _)| state[v] == s);
            pairwise_sum(&agree.map(|(_, &p)| p).collect::<Vec<f64>>())
        };
        let cardinalities = self.graph.cardinalities().iter().enumerate();
        cardinalities.map(|(v, &states)| (0..states).map(|s| belief(v, s)).collect()).collect()
    }

    /// For each factor of a graph over the same variables, the marginal probabilities of the joint states of
    /// its scope.
    pub fn factor_marginals(&self, graph: &FactorGraph) -> Vec<Vec<f64>> {
        let probabilities = self.probabilities();
        let table = |factor: zhat::model::Factor<'_>| {
            let mut terms = vec![Vec::new(); factor.log_values.len()];
            for (state, &p) in self.states.iter().zip(&probabilities) {
                let entry = factor.scope.iter().fold(0, |at, &v| at * graph.cardinalities()[v] + state[v]);
                terms[entry].push(p);
            }
            terms.iter().map(|terms| pairwise_sum(terms)).collect()
        };
        graph.factors().map(table).collect()
    }

    pub fn entropy(&self) -> f64 {
        let log_partition = self.log_partition();
        let terms = self.scores.iter().map(|score| score - log_partition);
        pairwise_sum(&terms.map(|x| if x.exp() > 0.0 { -x * x.exp() } else { 0.0 }).collect::<Vec<f64>>())
    }

    /// A bound on the rounding error of the oracle's logarithms: a score adds all factors, the sum over
    /// states is a tree of additions, and a few more operations follow.
    pub fn allowance(&self) -> f64 {
        let depth = (self.states.len() as f64).log2().ceil();
        rounding_allowance(self.graph.factor_count() as f64 + depth + 8.0, magnitude(self.graph))
    }
}

/// Σ_f max |θ_f| + ln |X|: no score and no log Z is larger.
pub fn magnitude(graph: &FactorGraph) -> f64 {
    let largest =
        |values: &[f64]| values.iter().filter(|x| x.is_finite()).fold(0.0, |m: f64, x| m.max(x.abs()));
    let factors: f64 = graph.factors().map(|factor| largest(factor.log_values)).sum();
    factors + graph.log_state_count()
}

/// log Σ exp by definition: −∞ for an empty list and for a list of −∞.
pub fn log_sum_exp(logs: &[f64]) -> f64 {
    let top = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if top == f64::NEG_INFINITY {
        return top;
    }
    let weights: Vec<f64> = logs.iter().map(|log| (log - top).exp()).collect();
    top + pairwise_sum(&weights).ln()
}

/// Sums the halves recursively, so that the error grows only with the logarithm of the length.
fn pairwise_sum(terms: &[f64]) -> f64 {
    if terms.len() < 3 {
        return terms.iter().sum();
    }
    let (left, right) = terms.split_at(terms.len() / 2);
    pairwise_sum(left) + pairwise_sum(right)
}
