//! The residual schedule: the factor next whose surroundings have changed most.
//!
//! How much has come in since a factor was last renewed, Σ of the changes of the messages to its variables, bounds how much
//! its own messages would change; so nothing is computed just to be compared. Factors wait in buckets by the binary
//! exponent of that sum: constant time each, first come first served within a bucket. One thread.
//!
//! References: G. Elidan, I. McGraw, D. Koller, *Residual belief propagation*, UAI 2006; C. Sutton, A. McCallum, *Improved
//! dynamic schedules for belief propagation*, UAI 2007.

use std::collections::VecDeque;

use super::engine::Messages;
use super::kernel::Workspace;
use crate::run::Clock;

/// How passing messages came to its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    /// Updates a factor, on average.
    pub iterations: f64,
    /// The largest change that may be left.
    pub residual: f64,
    pub converged: bool,
    pub stopped_early: bool,
}

/// The exponents of the first and the last bucket.
const FINEST: i32 = -60;
const COARSEST: i32 = 20;
/// Updates between two looks at the clock.
const ROUND: usize = 256;

/// Factors by how urgent they are.
struct Queue {
    urgency: Vec<f64>,
    /// The bucket in which a factor waits.
    bucket: Vec<Option<u8>>,
    buckets: Vec<VecDeque<u32>>,
    /// No bucket above this one has anything.
    top: usize,
}

impl Queue {
    /// All factors, equally urgent.
    fn new(count: usize) -> Self {
        let mut buckets = vec![VecDeque::new(); (COARSEST - FINEST + 1) as usize];
        let top = buckets.len() - 1;
        buckets[top].extend(0..count as u32);
        Queue { urgency: vec![f64::MAX; count], bucket: vec![Some(top as u8); count], buckets, top }
    }

    fn index(urgency: f64) -> usize {
        let exponent = (urgency.to_bits() >> (f64::MANTISSA_DIGITS - 1)) as i32 - 1023;
        (exponent.clamp(FINEST, COARSEST) - FINEST) as usize
    }

    /// Makes a factor more urgent.
    fn raise(&mut self, f: u32, by: f64) {
        let urgency = &mut self.urgency[f as usize];
        *urgency += by;
        let index = Self::index(*urgency);
        if self.bucket[f as usize].is_none_or(|now| (now as usize) < index) {
            self.bucket[f as usize] = Some(index as u8);
            self.buckets[index].push_back(f);
            self.top = self.top.max(index);
        }
    }

    /// The most urgent factor, if it is as urgent as this.
    fn pop(&mut self, least: usize) -> Option<u32> {
        while self.top >= least {
            match self.buckets[self.top].pop_front() {
                Some(f) if self.bucket[f as usize] == Some(self.top as u8) => {
                    self.bucket[f as usize] = None;
                    self.urgency[f as usize] = 0.0;
                    return Some(f);
                }
                // It went on to a higher bucket, or was served there.
                Some(_) => {}
                None if self.top == 0 => return None,
                None => self.top -= 1,
            }
        }
        None
    }

    fn largest(&self) -> f64 {
        self.urgency.iter().copied().fold(0.0, f64::max)
    }
}

/// Renews factors until nothing changes by more than `tolerance`, or `iterations` times each on average.
pub(crate) fn converge(
    messages: &mut Messages<'_>,
    iterations: u64,
    tolerance: f64,
    clock: &Clock<'_>,
) -> Outcome {
    let layout = messages.layout;
    let count = layout.factor_count();
    let (start, list) = layout.incidence();
    let mut queue = Queue::new(count);
    let mut work = Workspace::new(layout);
    let mut moves: Vec<(u32, f64)> = Vec::new();
    let damping = messages.damping;
    let (renewal, shifts) = messages.parts();
    let least = Queue::index(tolerance);
    let most = iterations.saturating_mul(count as u64);
    let (mut updates, mut stopped_early, mut converged) = (0u64, false, false);
    while updates < most {
        if updates.is_multiple_of(ROUND as u64) {
            if clock.is_cancelled() || clock.is_out_of_time() {
                stopped_early = true;
                break;
            }
            clock.progress("passing messages", updates / count.max(1) as u64, iterations);
        }
        let Some(f) = queue.pop(least) else {
            converged = true;
            break;
        };
        moves.clear();
        let own = layout.messages(f as usize..f as usize + 1);
        let change = renewal.update(f as usize, &mut shifts[own], &mut work, |v, step| moves.push((v, step)));
        updates += 1;
        if damping > 0.0 && change > 0.0 {
            queue.raise(f, change * damping / (1.0 - damping));
        }
        for &(v, step) in moves.iter().filter(|(_, step)| *step > 0.0) {
            for &g in &list[start[v as usize] as usize..start[v as usize + 1] as usize] {
                if g != f {
                    queue.raise(g, step);
                }
            }
        }
    }
    let converged = converged || queue.pop(least).is_none();
    let residual = if updates < count as u64 { f64::INFINITY } else { queue.largest() };
    Outcome { iterations: updates as f64 / count.max(1) as f64, residual, converged, stopped_early }
}
