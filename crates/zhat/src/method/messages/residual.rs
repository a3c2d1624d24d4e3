//! The residual schedule: the next factor to update is the one whose incoming messages have changed most.
//!
//! The sum of the changes of the messages to the variables of a factor since its last update bounds the
//! change of its own messages, so no message is computed only for comparison. Factors wait in buckets by the
//! binary exponent of that sum, which takes constant time per operation; each bucket is first in, first out.
//! Single-threaded.
//!
//! References: G. Elidan, I. McGraw, D. Koller, *Residual belief propagation*, UAI 2006; C. Sutton, A.
//! McCallum, *Improved dynamic schedules for belief propagation*, UAI 2007.

use super::engine::Messages;
use super::kernel::Workspace;
use crate::run::Clock;

/// The outcome of message passing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    /// Average number of updates per factor.
    pub iterations: f64,
    /// Upper bound on the remaining changes.
    pub residual: f64,
    pub converged: bool,
    pub stopped_early: bool,
}

/// The binary exponents of the first and the last bucket.
const FINEST: i32 = -60;
const COARSEST: i32 = 20;
/// Number of updates between checks of the clock.
const ROUND: usize = 256;

/// No factor.
const NONE: u32 = u32::MAX;
/// No bucket.
const OUTSIDE: u8 = u8::MAX;

/// Factors by urgency: one list per bucket, with each factor in at most one list.
struct Queue {
    urgency: Vec<f64>,
    /// The bucket of each factor.
    bucket: Vec<u8>,
    /// The previous and the next factor in the same bucket.
    links: Vec<[u32; 2]>,
    /// The first and the last factor of each bucket.
    ends: Vec<[u32; 2]>,
    /// All buckets above this one are empty.
    top: usize,
}

impl Queue {
    /// Starts with all factors equally urgent.
    fn new(count: usize) -> Self {
        let top = (COARSEST - FINEST) as usize;
        let mut queue = Queue {
            urgency: vec![f64::MAX; count],
            bucket: vec![OUTSIDE; count],
            links: vec![[NONE; 2]; count],
            ends: vec![[NONE; 2]; top + 1],
            top,
        };
        (0..count as u32).for_each(|f| queue.append(f, top));
        queue
    }

    fn index(urgency: f64) -> usize {
        let exponent = (urgency.to_bits() >> (f64::MANTISSA_DIGITS - 1)) as i32 - 1023;
        (exponent.clamp(FINEST, COARSEST) - FINEST) as usize
    }

    fn append(&mut self, f: u32, bucket: usize) {
        let last = std::mem::replace(&mut self.ends[bucket][1], f);
        self.links[f as usize] = [last, NONE];
        match last {
            NONE => self.ends[bucket][0] = f,
            last => self.links[last as usize][1] = f,
        }
        self.bucket[f as usize] = bucket as u8;
        self.top = self.top.max(bucket);
    }

    fn remove(&mut self, f: u32) {
        let bucket = std::mem::replace(&mut self.bucket[f as usize], OUTSIDE) as usize;
        let [before, after] = self.links[f as usize];
        match before {
            NONE => self.ends[bucket][0] = after,
            before => self.links[before as usize][1] = after,
        }
        match after {
            NONE => self.ends[bucket][1] = before,
            after => self.links[after as usize][0] = before,
        }
    }

    /// Increases the urgency of a factor.
    fn raise(&mut self, f: u32, by: f64) {
        self.urgency[f as usize] += by;
        let index = Self::index(self.urgency[f as usize]);
        match self.bucket[f as usize] {
            OUTSIDE => self.append(f, index),
            now if (now as usize) < index => {
                self.remove(f);
                self.append(f, index);
            }
            _ => {}
        }
    }

    /// Removes the most urgent factor, if it is in bucket `least` or above.
    fn pop(&mut self, least: usize) -> Option<u32> {
        while self.top > least && self.ends[self.top][0] == NONE {
            self.top -= 1;
        }
        let first = self.ends[self.top][0];
        if self.top < least || first == NONE {
            return None;
        }
        self.remove(first);
        self.urgency[first as usize] = 0.0;
        Some(first)
    }

    fn largest(&self) -> f64 {
        self.urgency.iter().copied().fold(0.0, f64::max)
    }
}

/// Updates factors until no change exceeds `tolerance`, at most `iterations` times each on average.
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
            if clock.must_stop() {
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
    let residual = if updates < count as u64 { f64::INFINITY } else { queue.largest() };
    let converged = converged || queue.pop(least).is_none();
    Outcome { iterations: updates as f64 / count.max(1) as f64, residual, converged, stopped_early }
}
