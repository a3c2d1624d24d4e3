//! Exact samples from pairwise models on the hypercube by coupling from the past.
//!
//! Each label is drawn in turn given its neighbours (Gibbs sampling), with the same random numbers for all
//! chains. The start moves further into the past until all initial states lead to the same state at time 0,
//! which then has the distribution of the model (Propp and Wilson 1996). The set of possible states is
//! represented by two values per label, the smallest and the largest: the probability of 1 is bounded by
//! setting each unknown neighbour to its worst and best value. If all couplings are attractive, the two
//! bounds are chains themselves (monotone coupling). Otherwise this is a bounding chain (M. Huber, *Perfect
//! sampling using bounding chains*, 2004), and unknown labels die out if the couplings are weak: Σ_j |w_ij|/4
//! < 1 for every i suffices.
//!
//! Time: sweeps of O(labels + pairs); their number is random. The number of sweeps and the state are
//! dependent, so stopping a run at a time limit would bias the other samples. Such a run ends with an error.

use super::{Scores, SpaceModel, Structures, sigmoid};
use crate::error::{Error, Result};
use crate::random::{Stream, Streams};
use crate::run::Clock;

/// Number of sweeps after which the chains are considered not to meet.
pub(super) const MOST_SWEEPS: u64 = 1 << 22;

/// A pairwise model of labels 0 and 1.
pub(super) struct Spins {
    fields: Vec<f64>,
    starts: Vec<usize>,
    neighbours: Vec<(u32, f64)>,
}

impl Spins {
    /// `None` for other models.
    pub fn new(model: &SpaceModel) -> Option<Self> {
        let Structures::Hypercube(cube) = model.structures() else { return None };
        let (unary, pairs) = match model.scores() {
            Scores::Pairwise(pairs) => (pairs.unary(), Some(pairs)),
            scores => (scores.unary()?, None),
        };
        // With signs y = 2x − 1: the field is 2θ − 2Σw, the coupling 4w.
        let (scale, shift) = if cube.has_signs() { (4.0, -2.0) } else { (1.0, 0.0) };
        let mut spins = Spins { fields: Vec::new(), starts: vec![0], neighbours: Vec::new() };
        for (i, theta) in unary.iter().enumerate() {
            let own = pairs.map_or(&[][..], |pairs| pairs.neighbours(i));
            let sum: f64 = own.iter().map(|(_, w)| w).sum();
            spins.fields.push(if cube.has_signs() { 2.0 * theta } else { *theta } + shift * sum);
            spins.neighbours.extend(own.iter().map(|(j, w)| (*j, scale * w)));
            spins.starts.push(spins.neighbours.len());
        }
        Some(spins)
    }

    /// Whether all couplings are attractive.
    pub fn is_attractive(&self) -> bool {
        self.neighbours.iter().all(|(_, w)| *w >= 0.0)
    }

    /// Whether unknown labels must die out: the probability that a label is unknown is below the fraction of
    /// its unknown neighbours.
    pub fn is_weak(&self, beta: f64) -> bool {
        let influence = |own: &[usize]| -> f64 {
            self.neighbours[own[0]..own[1]].iter().map(|(_, w)| 0.25 * beta * w.abs()).sum()
        };
        self.starts.windows(2).all(|own| influence(own) < 1.0)
    }

    /// One sweep of the smallest and largest states.
    fn sweep(&self, beta: f64, random: &mut Stream, least: &mut [u32], largest: &mut [u32]) {
        for i in 0..self.fields.len() {
            let (mut low, mut high) = (self.fields[i], self.fields[i]);
            for &(j, w) in &self.neighbours[self.starts[i]..self.starts[i + 1]] {
                let (a, b) = (w * f64::from(least[j as usize]), w * f64::from(largest[j as usize]));
                low += a.min(b);
                high += a.max(b);
            }
            let point = random.uniform();
            least[i] = u32::from(point < sigmoid(beta * low));
            // If all neighbours are known, both fields are the same sum in the same order, so they are equal.
            largest[i] = u32::from(point < sigmoid(beta * high));
        }
    }

    /// Whether the smallest and largest states meet within this many sweeps, for the given random numbers.
    pub fn meet(&self, beta: f64, sweeps: u64, streams: &Streams) -> bool {
        let (mut least, mut largest) = (vec![0; self.fields.len()], vec![1; self.fields.len()]);
        (0..sweeps).any(|time| {
            self.sweep(beta, &mut streams.block(time), &mut least, &mut largest);
            least == largest
        })
    }

    /// A state at inverse temperature β, and the number of sweeps used; an error if the chains have not met
    /// after `most` sweeps.
    pub fn draw(
        &self,
        (beta, most): (f64, u64),
        random: &mut Stream,
        state: &mut [u32],
        clock: &Clock<'_>,
    ) -> Result<u64> {
        let past = Streams::new(random.bits(), "coupling from the past");
        let mut largest = vec![0; state.len()];
        let (mut start, mut spent) = (1u64, 0);
        loop {
            state.fill(0);
            largest.fill(1);
            for time in (1..=start).rev() {
                if time % 8 == 0 {
                    clock.check()?;
                }
                self.sweep(beta, &mut past.block(time), state, &mut largest);
            }
            spent += start;
            if *state == *largest {
                return Ok(spent);
            }
            clock.check()?;
            if start >= most {
                return Err(Error::NoAnswer(format!(
                    "the chains have not met after {start} sweeps: the couplings are too strong for coupling from the past"
                )));
            }
            start *= 2;
        }
    }
}
