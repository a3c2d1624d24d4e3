//! Families whose exact sums are out of reach: samples only.
//!
//! Samples are drawn from the space model of a row ([`crate::method::space::perfect`]): exactly by coupling from
//! the past or rejection, or approximately by a Markov chain where no exact sampler is fast enough. There is no log
//! Z and there are no means: training uses gradients from samples, which have a certified radius if all samples
//! are exact.

use super::{Family, Form, Mode, Work};
use crate::error::Result;
use crate::method::space::perfect::{Draws, samples};
use crate::random::Stream;
use crate::run::Clock;

/// A family with samples in place of sums.
#[derive(Debug)]
pub(crate) struct Sampled {
    form: Form,
    /// The same family, of which only the features are used.
    shape: Box<dyn Family>,
}

impl Sampled {
    /// The form, and the family of its features.
    pub fn new(form: &Form, shape: Box<dyn Family>) -> Self {
        Sampled { form: form.clone(), shape }
    }
}

impl Family for Sampled {
    fn channels(&self) -> usize {
        self.shape.channels()
    }

    fn width(&self) -> usize {
        self.shape.width()
    }

    fn has_sums(&self) -> bool {
        false
    }

    fn bytes(&self, _: usize) -> f64 {
        128.0 * self.channels() as f64
    }

    fn upward(&self, _: &[f64], _: usize, _: Mode, _: &mut Work, out: &mut [f64]) {
        out.fill(f64::NAN);
    }

    fn means(&self, _: &[f64], _: usize, _: &mut Work, means: &mut [f64]) {
        means.fill(f64::NAN);
    }

    fn decode(
        &self,
        _: &[f64],
        _: (usize, usize),
        _: &mut Work,
        _: Option<&mut Stream>,
        structure: &mut [u32],
    ) {
        structure.fill(0);
    }

    fn draw(
        &self,
        scores: &[f64],
        at: (usize, usize),
        _: &mut Work,
        (count, random): (usize, &mut Stream),
        clock: &Clock<'_>,
        each: &mut dyn FnMut(&[u32]),
    ) -> Result<Draws> {
        let (model, hidden) = (self.form.space_model(scores, at)?, self.form.hidden());
        let (all, draws) = samples(&model, (1.0, count), random, clock)?;
        all.iter().for_each(|structure| each(&structure[hidden..]));
        Ok(draws)
    }

    fn features(&self, structure: &[u32], add: &mut dyn FnMut(usize)) {
        self.shape.features(structure, add);
    }

    fn radius(&self) -> f64 {
        self.shape.radius()
    }

    fn log_count(&self) -> f64 {
        self.shape.log_count()
    }
}
