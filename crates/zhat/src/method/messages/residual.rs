//! The residual schedule: the factor next whose surroundings have changed most.
//!
//! How much has come in since a factor was last renewed, Σ of the changes of the messages to its variables,
//! bounds how much its own messages would change; so nothing is computed just to be compared. Factors wait in
//! buckets by the binary exponent of that sum: constant time each, first come first served within a bucket.
//! One thread.
//!
//! References: G. Elidan, I. McGraw, D. Koller, *Residual belief propagation*, UAI 2006; C. Sutton, A.
//! McCallum, *Improved dynamic schedules for belief propagation*, UAI 2007.

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

/// No factor.
const NONE: u32 = u32::MAX;
/// No bucket.
const OUTSIDE: u8 = u8::MAX;

/// Factors by how urgent they are: a list a bucket, each factor in one at the most.
struct Queue {
    urgency: Vec<f64>,
    /// The bucket in which a factor waits.
    bucket: Vec<u8>,
    /// The factors before and after it there.
    links: Vec<[u32; 2]>,
    /// The first and the last factor of each bucket.
    ends: Vec<[u32; 2]>,
    /// No bucket above this one has anything.
    top: usize,
}

impl Queue {
    /// All factors, equally urgent.
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

    /// Makes a factor more urgent.
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

    /// The most urgent factor, if it is in this bucket or above.
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
