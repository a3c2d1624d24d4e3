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

    /// The same, to be written.
    pub fn variable_mut(&mut self, v: usize) -> &mut [f64] {
        &mut self.probabilities[self.offsets[v]..self.offsets[v + 1]]
    }

    /// The vectors in variable order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[f64]> {
        (0..self.len()).map(|v| self.variable(v))
    }

    /// All probabilities, one variable after the other.
    pub fn as_slice(&self) -> &[f64] {
        &self.probabilities
    }

    /// All probabilities, to be written.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [f64] {
        &mut self.probabilities
    }

    /// Where each vector ends, and all probabilities.
    pub(crate) fn into_parts(mut self) -> (Vec<usize>, Vec<f64>) {
        self.offsets.drain(..self.offsets.len().min(1));
        (self.offsets, self.probabilities)
    }

    /// Scales every vector to sum to one; an all-zero vector is left alone.
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

/// One probability table per factor: the axes are the factor's scope in its own order, row-major, the last
/// fastest. A factor over no variable has the one entry 1.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct FactorBeliefs(Beliefs);

impl FactorBeliefs {
    /// All-zero tables of the given numbers of entries.
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

    /// The same, to be written.
    pub fn factor_mut(&mut self, f: usize) -> &mut [f64] {
        self.0.variable_mut(f)
    }

    /// The tables in the order of the factors.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[f64]> {
        self.0.iter()
    }

    /// All probabilities, one factor after the other.
    pub fn as_slice(&self) -> &[f64] {
        self.0.as_slice()
    }

    /// All probabilities, to be written.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [f64] {
        self.0.as_mut_slice()
    }

    /// Where each table ends, and all probabilities.
    pub(crate) fn into_parts(self) -> (Vec<usize>, Vec<f64>) {
        self.0.into_parts()
    }

    /// Scales every table to sum to one; an all-zero table is left alone.
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

/// States drawn from a model, and the law they follow.
#[derive(Clone, Debug, PartialEq)]
pub struct Samples {
    count: usize,
    variables: usize,
    states: Vec<usize>,
    /// What they may be used for.
    pub law: Law,
}

/// The law that samples follow.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Law {
    /// Independent draws from the model.
    Exact,
    /// Independent draws from a proposal; sample s stands for the model with weight exp(log_weights\[s\]).
    Weighted {
        /// log of (model weight / proposal probability), one per sample.
        log_weights: Vec<f64>,
    },
    /// Draws whose law is within this total-variation distance of the model.
    Approximate {
        /// The distance.
        distance: f64,
    },
}

impl Samples {
    /// Wraps `count` states stored sample after sample.
    pub(crate) fn new(count: usize, variables: usize, states: Vec<usize>, law: Law) -> Self {
        debug_assert_eq!(states.len(), count * variables);
        Samples { count, variables, states, law }
    }

    /// The number of samples.
    pub fn len(&self) -> usize {
        self.count
    }

    /// True if there are none.
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

    /// All states, sample after sample.
    pub fn as_slice(&self) -> &[usize] {
        &self.states
    }

    /// All states, sample after sample, taken out.
    pub fn into_states(self) -> Vec<usize> {
        self.states
    }
}
