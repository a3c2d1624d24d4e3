//! Exact draws from pairwise models on the hypercube by coupling from the past.
//!
//! Labels are drawn one after the other given their neighbours (Gibbs), all chains with the same random
//! numbers; time starts ever further in the past until all starts lead to one state at time 0, which then has
//! the model's law (Propp and Wilson 1996). What all chains can be is kept as two numbers a label, the least
//! and the largest: a label's probability of 1 is bounded by setting every unknown neighbour to what hurts or
//! helps it most. Where all couplings attract these two are themselves chains (monotone coupling); where some
//! repel it is a bounding chain (M. Huber, *Perfect sampling using bounding chains*, 2004), and unknown
//! labels die out where the couplings are weak: Σ_j |w_ij|/4 < 1 for every i is enough.
//!
//! Time: sweeps of O(labels + pairs), as many as it takes. The number of sweeps and the state depend on each
//! other, so a run that is stopped for its time leaves a bias in what others drew; it ends with an error.

use super::{Scores, SpaceModel, Structures, sigmoid};
use crate::error::{Error, Result};
use crate::random::{Stream, Streams};
use crate::run::Clock;

/// Sweeps after which the chains count as not meeting.
const MOST_SWEEPS: u64 = 1 << 22;

/// A pairwise model of labels 0 and 1.
pub(super) struct Spins {
    fields: Vec<f64>,
    starts: Vec<usize>,
    neighbours: Vec<(u32, f64)>,
}

impl Spins {
    /// None for other models.
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

    /// Whether all couplings attract.
    pub fn is_attractive(&self) -> bool {
        self.neighbours.iter().all(|(_, w)| *w >= 0.0)
    }

    /// Whether unknown labels must die out: each label's unknown probability is below the unknown neighbours'
    /// share.
    pub fn is_weak(&self, beta: f64) -> bool {
        let influence = |own: &[usize]| -> f64 {
            self.neighbours[own[0]..own[1]].iter().map(|(_, w)| 0.25 * beta * w.abs()).sum()
        };
        self.starts.windows(2).all(|own| influence(own) < 1.0)
    }

    /// One sweep of the least and largest states.
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
            // The two fields are one number where all neighbours are known, whatever the order of the sum.
            largest[i] = u32::from(point < sigmoid(beta * high));
        }
    }

    /// A state at inverse temperature β, and the sweeps that it took.
    pub fn draw(&self, beta: f64, random: &mut Stream, state: &mut [u32], clock: &Clock<'_>) -> Result<u64> {
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
            if start >= MOST_SWEEPS {
                return Err(Error::NoAnswer(format!(
                    "the chains have not met after {start} sweeps: the couplings are too strong for coupling from the past"
                )));
            }
            start *= 2;
        }
    }
}
