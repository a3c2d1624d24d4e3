//! The values of answers about a single model.

/// One probability vector per variable.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Beliefs {
    offsets: Vec<usize>,
    probabilities: Vec<f64>,
}

impl Beliefs {
    /// All-zero vectors of the given lengths.
    pub fn zeros(cardinalities: &[usize]) -> Self {
        let mut offsets = Vec::with_capacity(cardinalities.len() + 1);
        offsets.push(0);
        let mut end = 0;
        for &states in cardinalities {
            end += states;
            offsets.push(end);
        }
        Beliefs { offsets, probabilities: vec![0.0; end] }
    }

    /// The number of variables.
    pub fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// True if there are no variables.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The probabilities of variable `v`'s states.
    pub fn variable(&self, v: usize) -> &[f64] {
        &self.probabilities[self.offsets[v]..self.offsets[v + 1]]
    }

    /// The probabilities of variable `v`'s states, mutable.
    pub fn variable_mut(&mut self, v: usize) -> &mut [f64] {
        &mut self.probabilities[self.offsets[v]..self.offsets[v + 1]]
    }

    /// The vectors in variable order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[f64]> {
        (0..self.len()).map(|v| self.variable(v))
    }

    /// All probabilities, concatenated in variable order.
    pub fn as_slice(&self) -> &[f64] {
        &self.probabilities
    }

    /// All probabilities, mutable.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [f64] {
        &mut self.probabilities
    }

    /// The end of each vector, and all probabilities.
    pub(crate) fn into_parts(mut self) -> (Vec<usize>, Vec<f64>) {
        self.offsets.drain(..self.offsets.len().min(1));
        (self.offsets, self.probabilities)
    }

    /// Normalises every vector to sum 1; an all-zero vector is unchanged.
    pub(crate) fn normalise(&mut self) {
        for v in 0..self.len() {
            let vector = self.variable_mut(v);
            let total: f64 = vector.iter().sum();
            if total > 0.0 {
                vector.iter_mut().for_each(|p| *p /= total);
            }
        }
    }
}

impl AsRef<[f64]> for Beliefs {
    fn as_ref(&self) -> &[f64] {
        self.as_slice()
    }
}

/// One probability table per factor, row-major: the axes are the variables of the factor's scope, in the
/// order of the scope. A factor over no variables has the single entry 1.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct FactorBeliefs(Beliefs);

impl FactorBeliefs {
    /// All-zero tables with the given numbers of entries.
    pub fn with_sizes(sizes: &[usize]) -> Self {
        FactorBeliefs(Beliefs::zeros(sizes))
    }

    /// The number of factors.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there are no factors.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The table of factor `f`.
    pub fn factor(&self, f: usize) -> &[f64] {
        self.0.variable(f)
    }

    /// The table of factor `f`, mutable.
    pub fn factor_mut(&mut self, f: usize) -> &mut [f64] {
        self.0.variable_mut(f)
    }

    /// The tables in the order of the factors.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[f64]> {
        self.0.iter()
    }

    /// All probabilities, concatenated in factor order.
    pub fn as_slice(&self) -> &[f64] {
        self.0.as_slice()
    }

    /// All probabilities, mutable.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [f64] {
        self.0.as_mut_slice()
    }

    /// The end of each table, and all probabilities.
    pub(crate) fn into_parts(self) -> (Vec<usize>, Vec<f64>) {
        self.0.into_parts()
    }

    /// Normalises every table to sum 1; an all-zero table is unchanged.
    pub(crate) fn normalise(&mut self) {
        self.0.normalise();
    }
}

impl AsRef<[f64]> for FactorBeliefs {
    fn as_ref(&self) -> &[f64] {
        self.as_slice()
    }
}

/// A state and its score.
#[derive(Clone, Debug, PartialEq)]
pub struct BestState {
    /// The state of each variable.
    pub state: Vec<usize>,
    /// Its log weight.
    pub score: f64,
}

/// States drawn from a model, and the distribution they follow.
#[derive(Clone, Debug, PartialEq)]
pub struct Samples {
    count: usize,
    variables: usize,
    states: Vec<usize>,
    /// The distribution they follow.
    pub law: Law,
}

/// The distribution of samples.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Law {
    /// Independent draws from the model.
    Exact,
    /// Independent draws from a proposal; sample s has the importance weight exp(log_weights\[s\]).
    Weighted {
        /// log of (model weight / proposal probability), one per sample.
        log_weights: Vec<f64>,
    },
    /// States of Markov chains: neighbours are correlated, and how close their distribution is to the model is not
    /// known.
    Chains,
    /// Draws from a distribution within this total-variation distance of the model.
    Approximate {
        /// The distance.
        distance: f64,
    },
}

impl Samples {
    /// Wraps `count` states, concatenated.
    pub(crate) fn new(count: usize, variables: usize, states: Vec<usize>, law: Law) -> Self {
        debug_assert_eq!(states.len(), count * variables);
        Samples { count, variables, states, law }
    }

    /// The number of samples.
    pub fn len(&self) -> usize {
        self.count
    }

    /// True if there are no samples.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The number of variables.
    pub fn variables(&self) -> usize {
        self.variables
    }

    /// The samples, each a state of every variable.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[usize]> {
        (0..self.count).map(|s| &self.states[s * self.variables..(s + 1) * self.variables])
    }

    /// All states, concatenated.
    pub fn as_slice(&self) -> &[usize] {
        &self.states
    }

    /// Consumes the samples and returns all states, concatenated.
    pub fn into_states(self) -> Vec<usize> {
        self.states
    }
}
