//! Relaxed samples (Gumbel-softmax), drawn backward, and their gradient.
//!
//! p̂(xₜ = i | x̂ₜ₊₁) ∝ exp(laₜ(i)) Mₜ(i, x̂ₜ₊₁). With Gumbel noise g the hard state is x̂ₜ = argmaxᵢ(log p̂(i) + gᵢ), an exact draw, and the
//! relaxed one x̃ₜ = softmax((log p̂ + g)/τ). A cotangent on x̃ goes through the softmax to log p̂, hence to the forward message laₜ and
//! to log-transition(i, x̂ₜ₊₁), and on through the forward recursion,
//!
//!   Vₜ(i) = Cₜ(i) + aₜ(i) Σⱼ Mₜ(i, j) Vₜ₊₁(j)/sⱼ,   s = aₜM:
//!
//! Vₜ is the gradient with respect to the node scores at t, aₜ(i) M(i, j) Vₜ₊₁(j)/sⱼ that with respect to the transitions. It is linear, so all
//! samples of a sequence go through one sweep. The hard states are constants.
//!
//! Reference: Y. Fu, J. P. Cunningham, M. Lapata, *Scaling structured inference with randomization*, ICML (2022), Algorithm 4.

use super::layout::Rows;
use super::messages::{Lattice, each, normalise};
use super::nodes::add;
use super::steps::Product;
use crate::error::Result;
use crate::numeric::{self, Real};
use crate::query::sequence::TransitionGradient;
use crate::random::Stream;
use crate::run::Clock;

/// A path and, position after position, the softmax that it was taken of.
pub(crate) struct Relaxed<F> {
    pub hard: Vec<usize>,
    pub soft: Vec<F>,
}

impl<F: Real> Lattice<'_, F> {
    /// One sample of sequence b, which must have a path; `forward` are its messages.
    pub fn relax(&self, forward: &Rows<F>, b: usize, temperature: f64, random: &mut Stream) -> Relaxed<F> {
        let place = self.layout.place(b);
        let length = self.layout.length(place);
        let starts = self.starts(length);
        let mut relaxed = Relaxed { hard: vec![0; length], soft: vec![F::ZERO; starts[length]] };
        let mut noise = Vec::new();
        for t in (0..length).rev() {
            let row = &mut relaxed.soft[starts[t]..starts[t + 1]];
            let next = if t + 1 < length { Some(relaxed.hard[t + 1]) } else { None };
            relaxed.hard[t] =
                self.relax_position(forward.row(place, t), t, next, temperature, random, &mut noise, row);
        }
        relaxed
    }

    /// Where the rows of each position stand side by side.
    fn starts(&self, length: usize) -> Vec<usize> {
        let sizes = (0..length).map(|t| self.layout.size(t));
        std::iter::once(0)
            .chain(sizes.scan(0, |sum, size| {
                *sum += size;
                Some(*sum)
            }))
            .collect()
    }

    #[allow(clippy::too_many_arguments)]
    fn relax_position(
        &self,
        la: &[F],
        t: usize,
        next: Option<usize>,
        temperature: f64,
        random: &mut Stream,
        noise: &mut Vec<f64>,
        row: &mut [F],
    ) -> usize {
        match next {
            Some(j) => self.steps.log_column(t, j, row),
            None => row.fill(F::ZERO),
        }
        add(row, la);
        normalise(row);
        choose(row, temperature, random, noise)
    }

    /// Takes the cotangent of one relaxed sample, drawn again from the same stream, through its softmaxes: to the messages, and to the
    /// transitions into the hard states.
    #[allow(clippy::too_many_arguments)]
    pub fn relax_vjp(
        &self,
        forward: &Rows<F>,
        b: usize,
        temperature: f64,
        random: &mut Stream,
        cotangent: impl Fn(usize) -> Vec<F>,
        to_forward: &mut Rows<F>,
        gradient: &mut TransitionGradient<F>,
    ) {
        let place = self.layout.place(b);
        let length = self.layout.length(place);
        let (mut noise, mut next) = (Vec::new(), None);
        for t in (0..length).rev() {
            let mut row = vec![F::ZERO; self.layout.size(t)];
            let hard = self.relax_position(
                forward.row(place, t),
                t,
                next,
                temperature,
                random,
                &mut noise,
                &mut row,
            );
            let cotangent = cotangent(t);
            let mean: f64 = row.iter().zip(&cotangent).map(|(x, c)| x.to_f64() * c.to_f64()).sum();
            for (x, c) in row.iter_mut().zip(&cotangent) {
                *x = F::from_f64(x.to_f64() * (c.to_f64() - mean) / temperature);
            }
            add(to_forward.row_mut(place, t), &row);
            if let Some(j) = next {
                self.edges.add_column(t, j, &row, gradient);
            }
            next = Some(hard);
        }
    }

    /// Takes a cotangent on the forward messages (before the shifts of the transitions) back through their recursion. `rows` become the
    /// gradient with respect to the node scores.
    pub fn forward_vjp(
        &self,
        forward: &Rows<F>,
        rows: &mut Rows<F>,
        clock: &Clock<'_>,
        gradient: &mut TransitionGradient<F>,
    ) -> Result<()> {
        for t in (0..self.layout.steps().saturating_sub(1)).rev() {
            clock.check()?;
            let next = rows.layer_mut(t + 1, self.layout.active(t + 1)).0.to_vec();
            self.step_vjp(t, forward, &next, rows, gradient);
        }
        Ok(())
    }

    /// Takes a cotangent on what arrives from boundary t, `after` for every place, to what leaves it, in `rows`, and to the transitions.
    pub(super) fn step_vjp(
        &self,
        t: usize,
        forward: &Rows<F>,
        after: &[F],
        rows: &mut Rows<F>,
        gradient: &mut TransitionGradient<F>,
    ) {
        let (count, (size, next)) = (self.layout.active(t + 1), self.steps.shape(t));
        let mut left = vec![F::ZERO; count * size];
        each(&mut left, size, |place, row| {
            row.copy_from_slice(forward.row(place, t));
            F::exp_in_place(row);
        });
        let mut right = vec![F::ZERO; count * next];
        self.steps.multiply(Some(Product { t, count, input: &left, output: &mut right }), None);
        let mut doubtful = Vec::new();
        for place in 0..count {
            let sums = &mut right[place * next..(place + 1) * next];
            for j in self.doubtful(t, forward.row(place, t), sums) {
                let j = j as usize;
                sums[j] = F::ZERO;
                doubtful.push((place, j));
            }
            for (s, &v) in sums.iter_mut().zip(&after[place * next..]) {
                *s = if *s > F::ZERO { v / *s } else { F::ZERO };
            }
        }
        self.steps.add_gradient(t, count, &left, &right, None, gradient);
        let mut output = vec![F::ZERO; count * size];
        self.steps.multiply(None, Some(Product { t, count, input: &right, output: &mut output }));
        for place in 0..count {
            let row = rows.row_mut(place, t).iter_mut().zip(&left[place * size..]);
            row.zip(&output[place * size..]).for_each(|((x, &a), &y)| *x += a * y);
        }
        // Sums that underflow: their parts are weighed in the log domain.
        let mut weights = vec![F::ZERO; size];
        for (place, j) in doubtful {
            let v = after[place * next + j];
            self.steps.log_column(t, j, &mut weights);
            add(&mut weights, forward.row(place, t));
            let total = F::log_sum_exp(&weights);
            if v == F::ZERO || total == f64::NEG_INFINITY {
                continue;
            }
            for x in &mut weights {
                *x = F::from_f64((x.to_f64() - total).exp() * v.to_f64());
            }
            add(rows.row_mut(place, t), &weights);
            self.edges.add_column(t, j, &weights, gradient);
        }
    }
}

/// Logarithms with Gumbel noise become their softmax; returns where their maximum is.
pub(super) fn choose<F: Real>(
    row: &mut [F],
    temperature: f64,
    random: &mut Stream,
    noise: &mut Vec<f64>,
) -> usize {
    gumbel(random, row.len(), noise);
    // In double precision: noise and logits are added before they are rounded.
    let (mut best, mut at) = (f64::NEG_INFINITY, 0);
    for (i, (x, g)) in row.iter().zip(&mut *noise).enumerate() {
        *g += x.to_f64();
        if *g > best {
            (best, at) = (*g, i);
        }
    }
    for (x, g) in row.iter_mut().zip(&*noise) {
        *x = F::from_f64((g - best) / temperature);
    }
    F::exp_in_place(row);
    let total: f64 = row.iter().map(|x| x.to_f64()).sum();
    let factor = F::from_f64(1.0 / total);
    row.iter_mut().for_each(|x| *x *= factor);
    at
}

/// noise ← −ln(−ln u).
fn gumbel(random: &mut Stream, count: usize, noise: &mut Vec<f64>) {
    noise.clear();
    // Inside (0, 1), so that both logarithms are finite.
    noise.extend((0..count).map(|_| random.uniform() + 0.5 * f64::EPSILON / 2.0));
    numeric::ln_in_place(noise);
    noise.iter_mut().for_each(|x| *x = -*x);
    numeric::ln_in_place(noise);
    noise.iter_mut().for_each(|x| *x = -*x);
}
