//! End scores: scores of the state at the last position of each sequence.
//!
//! end(i) and the emission of state i at the last position enter the score only through their sum. The sum is
//! stored once per sequence, and methods read it in place of that emission ([`Chain::node`]); every query is
//! then the same with and without end scores. The gradient with respect to end(i) is the gradient with respect
//! to the last emissions, summed over sequences.

use super::{Chain, check_scores, check_total, expect_len};
use crate::error::Result;
use crate::model::Values;
use crate::numeric::Real;
use crate::query::sequence::ChainGradient;

/// The end scores, and their sums with the last emissions.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct End<F: Real> {
    /// N.
    pub(super) scores: Values<F>,
    /// B×N.
    pub(super) sums: Values<F>,
}

impl<F: Real> End<F> {
    /// The number of stored values.
    pub fn len(&self) -> usize {
        self.scores.len() + self.sums.len()
    }
}

impl<F: Real> Chain<F> {
    /// The same chains with these end scores (N): end(i) is added to the score of a path whose last state is i.
    /// Earlier end scores are replaced.
    ///
    /// # Errors
    /// If there is not one score per state, a score is NaN or +∞, or a sum of scores could overflow.
    ///
    /// ```
    /// use zhat::model::{Chain, Transitions};
    /// let transitions = Transitions::Shared(vec![0.0, 1.0, 1.0, 0.0].into());
    /// let chain = Chain::crf(2, vec![0.0; 6].into(), vec![3], transitions)?;
    /// let chain = chain.with_end(vec![0.0, 0.5].into())?;
    /// assert_eq!(chain.score(0, &[1, 0, 1]), 2.5);
    /// # Ok::<(), zhat::Error>(())
    /// ```
    pub fn with_end(mut self, end: Values<F>) -> Result<Self> {
        let states = self.states();
        expect_len("end", end.len(), states, "N")?;
        let largest = |end: &[F]| check_scores("end", end, 0..end.len());
        let before = self.end().map_or(Ok(0.0), largest)?;
        let more = largest(&end)? - before;
        check_total::<F>(self.magnitude + more, self.local + more)?;
        let last = |b: usize| self.emission(b, self.lengths()[b] - 1).iter().zip(&*end);
        let sums = (0..self.batch()).flat_map(|b| last(b).map(|(&x, &y)| x + y));
        let sums: Vec<F> = sums.collect();
        self.end = Some(End { scores: end, sums: sums.into() });
        (self.magnitude, self.local) = (self.magnitude + more, self.local + more);
        Ok(self)
    }

    /// The end scores, N, if there are any.
    pub fn end(&self) -> Option<&[F]> {
        self.end.as_ref().map(|end| &*end.scores)
    }

    /// The emission scores of sequence b at position t, plus the end scores at its last position.
    pub(crate) fn node(&self, b: usize, t: usize) -> &[F] {
        &self.node_on(b, t)[..self.states()]
    }

    /// The same, followed by other numbers.
    pub(crate) fn node_on(&self, b: usize, t: usize) -> &[F] {
        let states = self.states();
        match &self.end {
            Some(end) if t + 1 == self.lengths()[b] => &end.sums[b * states..],
            _ => &self.emissions()[(b * self.steps() + t) * states..],
        }
    }

    /// Completes a gradient: with respect to the end scores, from the gradient with respect to the emissions.
    pub(crate) fn finish_end(&self, gradient: &mut ChainGradient<F>) {
        let Some(end) = &mut gradient.end else { return };
        let states = self.states();
        for (b, &length) in self.lengths().iter().enumerate() {
            let at = (b * self.steps() + length - 1) * states;
            end.iter_mut().zip(&gradient.emissions[at..]).for_each(|(x, &y)| *x += y);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Transitions;

    fn chain(emissions: Vec<f32>, lengths: Vec<usize>) -> Chain<f32> {
        Chain::crf(2, emissions.into(), lengths, Transitions::Shared(vec![0.0; 4].into())).unwrap()
    }

    #[test]
    fn bad_end_scores_are_refused() {
        let refused =
            |end: Vec<f32>| chain(vec![0.0; 6], vec![3]).with_end(end.into()).unwrap_err().to_string();
        assert!(refused(vec![0.0; 3]).contains("end: found 3 numbers, expected N = 2"));
        assert!(refused(vec![0.0, f32::NAN]).contains("end: number 1 is NaN"));
        assert!(refused(vec![f32::MAX, 0.0]).contains("overflow"));
    }

    #[test]
    fn end_scores_are_added_at_the_last_position_of_each_sequence() {
        let none = f32::NEG_INFINITY;
        let chain = chain((0..12).map(|x| x as f32).collect(), vec![3, 1]);
        let plain = chain.clone();
        let chain = chain.with_end(vec![10.0, none].into()).unwrap();
        assert_eq!((chain.node(0, 1), chain.node(0, 2)), (&[2.0, 3.0][..], &[14.0, none][..]));
        assert_eq!((chain.node(1, 0), chain.emission(1, 0)), (&[16.0, none][..], &[6.0, 7.0][..]));
        assert_eq!(chain.magnitude(), plain.magnitude() + 10.0);
        let replaced = chain.with_end(vec![0.0, 1.0].into()).unwrap();
        assert_eq!(replaced.magnitude(), plain.magnitude() + 1.0);
        assert_eq!(replaced.score(1, &[1]), 8.0);
    }
}
