//! Index tuples of the overcomplete statistics, their mass, and three samplers.
//!
//! An index j is a clique and a joint state of its variables; φ_{C=y}(x) = \[x_C = y\]. For a tuple j of i
//! indices, χⁱ(j) = Σ_x Π_r φ(x)_{j_r} = |X| / |X_{∪C}| if its states agree where cliques overlap, otherwise
//! 0, and ‖χⁱ‖₁ = |X|·|C|ⁱ. The distribution χⁱ/‖χⁱ‖₁ is obtained by drawing i cliques independently and
//! uniformly, and then one uniform joint state of all variables that they touch.
//!
//! - [`TupleSampler::Direct`] does exactly this: O(i) per tuple.
//! - [`TupleSampler::Unranking`] is the published Algorithm 2: it draws the number of distinct cliques, the
//!   set of cliques, the assignment of cliques to places and the state, each by its rank. O(i² + |C|) per
//!   tuple.
//! - [`TupleSampler::Rejection`] is the older method: uniform tuples from \[d\]ⁱ, accepted with probability
//!   χⁱ(j)/max χⁱ. Exponential in i.
//!
//! All three have the same distribution, which is tested.
//!
//! Reference: N. Piatkowski, K. Morik, *Fast stochastic quadrature for approximate maximum-likelihood
//! estimation*, UAI 2018.

use serde::{Deserialize, Serialize};

use super::unranking::{self, Counts};
use crate::error::{Error, Result};
use crate::model::FactorGraph;
use crate::random::Stream;

/// Sampler of index tuples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TupleSampler {
    /// Independent cliques, then a state of the variables that they touch.
    #[default]
    Direct,
    /// Algorithm 2 of the paper.
    Unranking,
    /// Uniform proposals, most of them rejected.
    Rejection,
}

/// The cliques of a model (its factors) with θ.
#[derive(Clone, Debug)]
pub struct Cliques {
    cardinalities: Vec<usize>,
    cliques: Vec<Clique>,
    /// The vertices of all cliques, concatenated, with their numbers of states.
    vertices: Vec<(u32, u32)>,
    theta: Vec<f64>,
    /// The clique of each index.
    owners: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Clique {
    start: u32,
    end: u32,
    /// The offset of its θ.
    theta: usize,
}

impl Cliques {
    /// The factors of a graph.
    ///
    /// # Errors
    /// If a factor forbids a state, because −∞ has no polynomial, or the indices do not fit into 32 bits.
    ///
    /// ```
    /// use zhat::FactorGraph;
    /// use zhat::internal::quadrature::Cliques;
    /// let mut graph = FactorGraph::new(vec![2, 2])?;
    /// graph.add_factor(&[0, 1], &[0.5, -0.5, -0.5, 0.5])?;
    /// assert_eq!(Cliques::new(&graph)?.naive_norm(2), 1.0);
    /// # Ok::<(), zhat::Error>(())
    /// ```
    pub fn new(graph: &FactorGraph) -> Result<Self> {
        let mut all = Cliques {
            cardinalities: graph.cardinalities().to_vec(),
            cliques: Vec::with_capacity(graph.factor_count()),
            vertices: Vec::new(),
            theta: Vec::new(),
            owners: Vec::new(),
        };
        for (f, factor) in graph.factors().enumerate() {
            if factor.log_values.contains(&f64::NEG_INFINITY) {
                return Err(Error::NoAnswer(format!(
                    "factor {f} forbids a state (log value -inf), and no polynomial of the log values can do that; sccq, \
                     importance or an exact method can"
                )));
            }
            let start = all.vertices.len() as u32;
            all.vertices.extend(factor.scope.iter().map(|&v| (v as u32, graph.cardinalities()[v] as u32)));
            all.cliques.push(Clique { start, end: all.vertices.len() as u32, theta: all.theta.len() });
            all.theta.extend_from_slice(factor.log_values);
            all.owners.extend(std::iter::repeat_n(f as u32, factor.log_values.len()));
        }
        if all.vertices.len() > u32::MAX as usize || all.cliques.len() > u32::MAX as usize {
            return Err(Error::model("the scopes are too many to be numbered with 32 bits"));
        }
        Ok(all)
    }

    /// |C|.
    pub fn len(&self) -> usize {
        self.cliques.len()
    }

    /// Whether there are no cliques.
    pub fn is_empty(&self) -> bool {
        self.cliques.is_empty()
    }

    /// d, the number of indices.
    pub fn dimension(&self) -> usize {
        self.theta.len()
    }

    /// All θ, clique by clique.
    pub fn theta(&self) -> &[f64] {
        &self.theta
    }

    /// θ of one clique.
    pub fn theta_of(&self, clique: usize) -> &[f64] {
        let end = self.cliques.get(clique + 1).map_or(self.theta.len(), |next| next.theta);
        &self.theta[self.cliques[clique].theta..end]
    }

    fn vertices_of(&self, clique: usize) -> &[(u32, u32)] {
        let Clique { start, end, .. } = self.cliques[clique];
        &self.vertices[start as usize..end as usize]
    }

    pub(super) fn cardinality(&self, vertex: u32) -> usize {
        self.cardinalities[vertex as usize]
    }

    /// ‖χⁱ‖₁ / |X| = |C|ⁱ (Theorem 3).
    pub fn norm(&self, length: usize) -> f64 {
        (self.len() as f64).powi(length as i32)
    }

    /// The same as the sum over the number of distinct cliques, Σ_l S(i, l)·C(|C|, l)·l!; `None` if its
    /// counts do not fit into 128 bits.
    pub fn stirling_norm(&self, length: usize) -> Option<f64> {
        let counts = Counts::new(length)?;
        let term = |l: usize| {
            let sets = unranking::binomial(self.len(), l)? as f64;
            Some(counts.stirling(length, l) as f64 * sets * counts.factorial(l) as f64)
        };
        (0..=length).map(term).sum()
    }

    /// The same as the sum over all dⁱ tuples, as it was computed before Theorem 3.
    pub fn naive_norm(&self, length: usize) -> f64 {
        if length > 0 && self.dimension() == 0 {
            return 0.0;
        }
        let mut assignment = Assignment::new(self);
        let mut tuple = vec![0usize; length];
        let mut total = 0.0;
        loop {
            if assignment.agrees(self, &tuple) {
                total += 1.0 / assignment.states(self);
            }
            let Some(place) = tuple.iter().rposition(|&j| j + 1 < self.dimension()) else { return total };
            tuple[place] += 1;
            tuple[place + 1..].fill(0);
        }
    }
}

/// The states of the touched vertices.
#[derive(Clone, Debug)]
struct Assignment {
    /// A vertex is touched if its stamp equals `now`.
    stamps: Vec<u32>,
    states: Vec<u32>,
    touched: Vec<u32>,
    now: u32,
}

impl Assignment {
    fn new(cliques: &Cliques) -> Self {
        let n = cliques.cardinalities.len();
        Assignment { stamps: vec![0; n], states: vec![0; n], touched: Vec::new(), now: 0 }
    }

    fn clear(&mut self) {
        self.touched.clear();
        self.now = self.now.wrapping_add(1);
        if self.now == 0 {
            self.stamps.fill(0);
            self.now = 1;
        }
    }

    /// Touches a vertex; false if it was touched before.
    fn touch(&mut self, vertex: u32) -> bool {
        let stamp = &mut self.stamps[vertex as usize];
        let new = *stamp != self.now;
        if new {
            *stamp = self.now;
            self.touched.push(vertex);
        }
        new
    }

    /// Sets the states given by the indices of a tuple; false if they contradict each other.
    fn agrees(&mut self, cliques: &Cliques, tuple: &[usize]) -> bool {
        self.clear();
        for &index in tuple {
            let clique = cliques.owners[index] as usize;
            let mut entry = index - cliques.cliques[clique].theta;
            for &(v, states) in cliques.vertices_of(clique).iter().rev() {
                let state = (entry % states as usize) as u32;
                entry /= states as usize;
                if self.touch(v) {
                    self.states[v as usize] = state;
                } else if self.states[v as usize] != state {
                    return false;
                }
            }
        }
        true
    }

    /// The number of joint states of the touched vertices.
    fn states(&self, cliques: &Cliques) -> f64 {
        self.touched.iter().map(|&v| cliques.cardinality(v) as f64).product()
    }
}

/// Draws tuples and gives access to the last one.
#[derive(Clone, Debug)]
pub struct Tuples<'c> {
    cliques: &'c Cliques,
    sampler: TupleSampler,
    counts: Option<Counts>,
    assignment: Assignment,
    indices: Vec<usize>,
    chosen: Vec<usize>,
    places: Vec<usize>,
    names: Vec<usize>,
    /// Unused random bits, and half of another 64-bit word.
    bits: u64,
    left: u32,
    half: Option<u32>,
    smallest: f64,
}

impl<'c> Tuples<'c> {
    /// A sampler for tuples of up to `longest` indices.
    ///
    /// # Errors
    /// If the counts of Algorithm 2 do not fit into 128 bits.
    pub fn new(cliques: &'c Cliques, sampler: TupleSampler, longest: usize) -> Result<Self> {
        let counts = (sampler == TupleSampler::Unranking).then(|| Counts::new(longest)).flatten();
        let widest = (0..cliques.len()).map(|c| cliques.theta_of(c).len() as f64).fold(1.0, f64::max);
        let overflow = sampler == TupleSampler::Unranking
            && (counts.is_none()
                || (0..=longest).any(|l| unranking::binomial(cliques.len(), l).is_none())
                || widest.log2() * longest as f64 > 120.0);
        if overflow {
            let message = "Algorithm 2 counts with 128-bit integers, which are too small for this model and degree; \
                 `sampler=direct` has the same law";
            return Err(Error::argument("sampler", message));
        }
        let smallest =
            (0..cliques.len()).map(|c| cliques.theta_of(c).len() as f64).fold(f64::INFINITY, f64::min);
        Ok(Tuples {
            cliques,
            sampler,
            counts,
            assignment: Assignment::new(cliques),
            indices: Vec::with_capacity(longest),
            chosen: Vec::with_capacity(longest),
            places: Vec::with_capacity(longest),
            names: Vec::with_capacity(longest),
            bits: 0,
            left: 0,
            half: None,
            smallest,
        })
    }

    /// Discards unused random bits, so that the next tuples depend only on their stream.
    pub fn reset(&mut self) {
        self.left = 0;
        self.half = None;
    }

    /// Draws a tuple of this length; the model must have a clique.
    pub fn draw(&mut self, length: usize, random: &mut Stream) -> &[usize] {
        match self.sampler {
            TupleSampler::Direct => {
                self.chosen.clear();
                for _ in 0..length {
                    self.chosen.push(random.below(self.cliques.len()));
                }
                self.touch();
                for at in 0..self.assignment.touched.len() {
                    let v = self.assignment.touched[at];
                    self.assignment.states[v as usize] =
                        self.state(self.cliques.cardinality(v) as u32, random);
                }
                self.read();
            }
            TupleSampler::Unranking => self.unrank(length, random),
            TupleSampler::Rejection => loop {
                self.indices.clear();
                for _ in 0..length {
                    self.indices.push(random.below(self.cliques.dimension()));
                }
                if length == 0 {
                    self.assignment.clear();
                    break;
                }
                // χ is largest if all cliques are the smallest one.
                if self.assignment.agrees(self.cliques, &self.indices)
                    && random.uniform() * self.assignment.states(self.cliques) < self.smallest
                {
                    break;
                }
            },
        }
        &self.indices
    }

    /// Π θ of a new tuple of this length, which is all that an estimate needs.
    pub fn product(&mut self, length: usize, random: &mut Stream) -> f64 {
        if self.sampler != TupleSampler::Direct {
            self.draw(length, random);
            return self.indices.iter().map(|&j| self.cliques.theta[j]).product();
        }
        // Draws the state of each vertex when it is first met. The distribution is the same as in `draw`.
        let cliques = self.cliques;
        self.assignment.clear();
        let mut product = 1.0;
        for _ in 0..length {
            let clique = cliques.cliques[self.index(random)];
            let mut entry = 0;
            for &(v, states) in &cliques.vertices[clique.start as usize..clique.end as usize] {
                let at = v as usize;
                if self.assignment.stamps[at] != self.assignment.now {
                    self.assignment.stamps[at] = self.assignment.now;
                    self.assignment.states[at] = self.state(states, random);
                }
                entry = entry * states as usize + self.assignment.states[at] as usize;
            }
            product *= cliques.theta[clique.theta + entry];
        }
        product
    }

    /// The vertices touched by the last tuple.
    pub fn touched(&self) -> &[u32] {
        &self.assignment.touched
    }

    /// The state of a vertex in the last tuple, if the tuple touches it.
    pub fn state_of(&self, vertex: usize) -> Option<usize> {
        let Assignment { stamps, states, now, .. } = &self.assignment;
        (stamps[vertex] == *now).then(|| states[vertex] as usize)
    }

    /// A uniform clique from 32 random bits and one multiplication (Lemire 2019), without bias.
    #[inline]
    fn index(&mut self, random: &mut Stream) -> usize {
        let n = self.cliques.cliques.len() as u32;
        loop {
            let draw = match self.half.take() {
                Some(half) => half,
                None => {
                    let bits = random.bits();
                    self.half = Some((bits >> 32) as u32);
                    bits as u32
                }
            };
            let product = u64::from(draw) * u64::from(n);
            let low = product as u32;
            if low >= n || low >= n.wrapping_neg() % n {
                return (product >> 32) as usize;
            }
        }
    }

    /// A uniform state below `states`. Powers of two use leftover bits.
    #[inline]
    fn state(&mut self, states: u32, random: &mut Stream) -> u32 {
        if states.is_power_of_two() && states <= 1 << 16 {
            let width = states.trailing_zeros();
            if self.left < width {
                (self.bits, self.left) = (random.bits(), 64);
            }
            let state = self.bits & u64::from(states - 1);
            self.bits >>= width;
            self.left -= width;
            return state as u32;
        }
        random.below(states as usize) as u32
    }

    fn unrank(&mut self, length: usize, random: &mut Stream) {
        let cliques = self.cliques.len();
        self.chosen.clear();
        if let Some(counts) = self.counts.as_ref().filter(|_| length > 0) {
            // l, the number of distinct cliques.
            let mut left = random.uniform() * (cliques as f64).powi(length as i32);
            let mut distinct = 1;
            for l in 1..=length.min(cliques) {
                let sets = unranking::binomial(cliques, l).unwrap_or(0) as f64;
                let mass = counts.stirling(length, l) as f64 * sets * counts.factorial(l) as f64;
                distinct = l;
                if left < mass {
                    break;
                }
                left -= mass;
            }
            let combinations = unranking::binomial(cliques, distinct).unwrap_or(1);
            let surjections = counts.stirling(length, distinct) * counts.factorial(distinct);
            let a = unranking::below(combinations, random);
            let b = unranking::below(surjections, random);
            self.chosen.resize(distinct, 0);
            unranking::combination(a, cliques, &mut self.chosen);
            self.places.clear();
            self.places.resize(length, 0);
            counts.surjection(b, distinct, &mut self.places, &mut self.names);
            self.places.iter_mut().for_each(|block| *block = self.chosen[*block]);
            std::mem::swap(&mut self.chosen, &mut self.places);
        }
        self.touch();
        let touched = self.assignment.touched.iter().map(|&v| self.cliques.cardinality(v) as u128);
        let mut rank = unranking::below(touched.product(), random);
        for &v in self.assignment.touched.iter().rev() {
            let states = self.cliques.cardinality(v) as u128;
            self.assignment.states[v as usize] = (rank % states) as u32;
            rank /= states;
        }
        self.read();
    }

    /// Touches the vertices of the chosen cliques.
    fn touch(&mut self) {
        self.assignment.clear();
        for &clique in &self.chosen {
            for &(v, _) in self.cliques.vertices_of(clique) {
                self.assignment.touch(v);
            }
        }
    }

    /// Computes the indices of the chosen cliques from the states of their vertices.
    fn read(&mut self) {
        self.indices.clear();
        for &clique in &self.chosen {
            let entry = self.cliques.vertices_of(clique).iter().fold(0, |entry, &(v, states)| {
                entry * states as usize + self.assignment.states[v as usize] as usize
            });
            self.indices.push(self.cliques.cliques[clique].theta + entry);
        }
    }
}
