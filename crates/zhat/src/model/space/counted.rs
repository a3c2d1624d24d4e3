//! Structures under conditions for which their number is known in closed form, with a uniform sampler.
//!
//! | space | conditions | number of structures |
//! |---|---|---|
//! | hypercube | `chosen`, `not chosen`, `size` | Σ_k C(f, k − m) with m required and f free labels |
//! | cycles | the same | Σ_k C(f, k − m)(k − 1)!/2 |
//! | subtrees | the same | one pass over the nodes by size (`choices`) |
//! | partitions | `linked`, `size` | Σ_k S(c, k), Stirling numbers for the c classes of linked elements |
//!
//! A sample draws the size from its distribution, then a structure of that size.

use super::choices::{Choices, Plan};
use super::{Condition, Event, Space, Structures, condition, log_factorial, refuse};
use crate::error::{Error, Result};
use crate::numeric;
use crate::random::Stream;
use crate::run::Clock;

/// Maximum number of table entries; beyond it, conditions are treated as having no formula.
const LARGEST_TABLE: f64 = (1 << 22) as f64;

/// A subset of a space whose size is known.
#[derive(Debug)]
pub(crate) struct Counted {
    base: Structures,
    conditions: Vec<Condition>,
    sizes: (usize, usize),
    log_count: f64,
    law: Law,
}

#[derive(Debug)]
enum Law {
    /// Required elements and free elements, and the probability of each size from the minimum on.
    Subsets {
        certain: Vec<u32>,
        free: Vec<u32>,
        sizes: Vec<f64>,
    },
    Nodes(Box<Choices>),
    /// The class of each element, and ln S(m, k) at index m·columns + k.
    Blocks {
        classes: Vec<u32>,
        count: usize,
        columns: usize,
        stirling: Vec<f64>,
        sizes: Vec<f64>,
    },
}

/// Whether the number of structures under this condition is known.
pub(crate) fn counts(space: &Structures, condition: &Condition) -> bool {
    matches!(
        (space, condition),
        (
            Structures::Hypercube(_) | Structures::Subtrees(_) | Structures::Cycles(_),
            Condition::Is(Event::Chosen(_)) | Condition::Not(Event::Chosen(_)) | Condition::Size { .. },
        ) | (Structures::Partitions(_), Condition::Is(Event::Linked(..)) | Condition::Size { .. })
    )
}

/// Whether each element may be left out, and whether it may be chosen.
pub(crate) fn may(n: usize, conditions: &[Condition]) -> Vec<(bool, bool)> {
    let mut may = vec![(true, true); n];
    for condition in conditions {
        match *condition {
            Condition::Is(Event::Chosen(i)) => may[i].0 = false,
            Condition::Not(Event::Chosen(i)) => may[i].1 = false,
            _ => {}
        }
    }
    may
}

/// ln C(n, k); −∞ for k > n.
fn log_choose(n: usize, k: usize) -> f64 {
    if k > n { f64::NEG_INFINITY } else { log_factorial(n) - log_factorial(k) - log_factorial(n - k) }
}

/// The log of the sum of the exponentials, and the share of each term.
fn shares(logs: &[f64]) -> (f64, Vec<f64>) {
    let total = numeric::log_sum_exp(logs);
    (total, logs.iter().map(|x| if *x == f64::NEG_INFINITY { 0.0 } else { (x - total).exp() }).collect())
}

/// The class of each element under the links, numbered by first occurrence, and the number of classes.
fn classes(n: usize, conditions: &[Condition]) -> (Vec<u32>, usize) {
    fn root(parents: &[usize], mut i: usize) -> usize {
        while parents[i] != i {
            i = parents[i];
        }
        i
    }
    let mut parents: Vec<usize> = (0..n).collect();
    for condition in conditions {
        if let Condition::Is(Event::Linked(i, j)) = *condition {
            let (a, b) = (root(&parents, i), root(&parents, j));
            parents[a.max(b)] = a.min(b);
        }
    }
    let mut names = vec![0; n];
    let mut count = 0;
    for i in 0..n {
        let own = root(&parents, i);
        if own == i {
            names[i] = count;
            count += 1;
        } else {
            names[i] = names[own];
        }
    }
    (names, count as usize)
}

impl Counted {
    /// `None` if the tables would be too large.
    pub fn new(base: &Structures, conditions: Vec<Condition>) -> Option<Self> {
        let n = base.as_space().width();
        let (least, most) = condition::sizes(base, &conditions);
        let range = || least..=most;
        let (log_count, law) = match base {
            Structures::Hypercube(_) | Structures::Cycles(_) => {
                let may = may(n, &conditions);
                let of = |kind: (bool, bool)| -> Vec<u32> {
                    (0..n as u32).filter(|i| may[*i as usize] == kind).collect()
                };
                let (certain, free) = (of((false, true)), of((true, true)));
                let possible = !may.contains(&(false, false));
                let cycles = matches!(base, Structures::Cycles(_));
                let log = |k: usize| match k.checked_sub(certain.len()) {
                    Some(rest) if possible => {
                        let orders = if cycles { log_factorial(k - 1) - std::f64::consts::LN_2 } else { 0.0 };
                        log_choose(free.len(), rest) + orders
                    }
                    _ => f64::NEG_INFINITY,
                };
                let (log_count, sizes) = shares(&range().map(log).collect::<Vec<f64>>());
                (log_count, Law::Subsets { certain, free, sizes })
            }
            Structures::Subtrees(tree) => {
                if Plan::entries(n, most) > LARGEST_TABLE {
                    return None;
                }
                let plan = Plan::nodes(tree, &may(n, &conditions), (least, most));
                let choices = Choices::new(plan, &vec![0.0; n], false, None).ok()?;
                (choices.total(), Law::Nodes(Box::new(choices)))
            }
            Structures::Partitions(_) => {
                let (classes, count) = classes(n, &conditions);
                if (count as f64 + 1.0) * (most as f64 + 1.0) > LARGEST_TABLE {
                    return None;
                }
                let columns = most + 1;
                let mut stirling = vec![f64::NEG_INFINITY; (count + 1) * columns];
                stirling[0] = 0.0;
                for m in 1..=count {
                    for k in 1..columns.min(m + 1) {
                        let before = &stirling[(m - 1) * columns..m * columns];
                        let joined = before[k] + (k as f64).ln();
                        stirling[m * columns + k] = numeric::log_sum_exp(&[before[k - 1], joined]);
                    }
                }
                let logs: Vec<f64> = range().map(|k| stirling[count * columns + k]).collect();
                let (log_count, sizes) = shares(&logs);
                (log_count, Law::Blocks { classes, count, columns, stirling, sizes })
            }
            _ => return None,
        };
        Some(Counted { base: base.clone(), conditions, sizes: (least, most), log_count, law })
    }

    fn require_some(&self) -> Result<()> {
        if self.log_count == f64::NEG_INFINITY { Err(Error::ZeroPartition) } else { Ok(()) }
    }
}

impl Space for Counted {
    fn name(&self) -> &'static str {
        self.base.restricted_name()
    }

    fn width(&self) -> usize {
        self.base.as_space().width()
    }

    fn check(&self, structure: &[u32]) -> Result<()> {
        self.base.as_space().check(structure)?;
        for condition in &self.conditions {
            if !condition.holds(&self.base, structure)? {
                return Err(refuse(format!("it does not meet the condition {condition:?}")));
            }
        }
        Ok(())
    }

    fn log_count(&self) -> Option<f64> {
        Some(self.log_count)
    }

    fn uniform(&self, random: &mut Stream, structure: &mut [u32], _: &Clock<'_>) -> Result<()> {
        self.require_some()?;
        match &self.law {
            Law::Subsets { certain, free, sizes } => {
                let size = self.sizes.0 + random.categorical(sizes);
                let mut free = free.clone();
                for i in 0..size - certain.len() {
                    let j = i + random.below(free.len() - i);
                    free.swap(i, j);
                }
                let mut chosen = certain.clone();
                chosen.extend_from_slice(&free[..size - certain.len()]);
                if let Structures::Cycles(_) = self.base {
                    random.shuffle(&mut chosen);
                    super::Cycles::write(&chosen, structure);
                    self.base.as_space().canonical(structure);
                } else {
                    structure.fill(0);
                    chosen.iter().for_each(|i| structure[*i as usize] = 1);
                }
            }
            Law::Nodes(choices) => choices.choose(Some(random), structure),
            Law::Blocks { classes, count, columns, stirling, sizes } => {
                let mut k = self.sizes.0 + random.categorical(sizes);
                // From the last class back: it is alone in its block, or joins one of the k blocks of the
                // classes before it.
                let mut joins = vec![u32::MAX; *count];
                for m in (1..=*count).rev() {
                    let alone = stirling[(m - 1) * columns + k - 1] - stirling[m * columns + k];
                    if random.uniform() < alone.exp() {
                        k -= 1;
                    } else {
                        joins[m - 1] = random.below(k) as u32;
                    }
                }
                let mut blocks = 0;
                for join in &mut joins {
                    if *join == u32::MAX {
                        *join = blocks;
                        blocks += 1;
                    }
                }
                structure.iter_mut().zip(classes).for_each(|(block, class)| *block = joins[*class as usize]);
                self.base.as_space().canonical(structure);
            }
        }
        Ok(())
    }

    fn enumerate(&self, clock: &Clock<'_>, visit: &mut dyn FnMut(&[u32]) -> bool) -> Result<bool> {
        let (least, most) = self.sizes;
        if self.log_count == f64::NEG_INFINITY {
            return Ok(true);
        }
        match (&self.law, &self.base) {
            (Law::Nodes(choices), _) => Ok(choices.plan.enumerate(|i, k| choices.is_possible(i, k), visit)),
            (Law::Subsets { .. }, Structures::Cycles(cycles)) => {
                let may = may(self.width(), &self.conditions);
                // Every vertex is on or off the cycle as required.
                let fits = |y: &[u32]| {
                    y.iter().zip(&may).enumerate().all(
                        |(v, (next, may))| {
                            if *next as usize == v { may.0 } else { may.1 }
                        },
                    )
                };
                let mut stopped = None;
                let mut seen = 0u64;
                let all = cycles.enumerate_sized((least, most), &mut |structure| {
                    seen += 1;
                    if seen.is_multiple_of(super::ROUND)
                        && let Err(error) = clock.check()
                    {
                        stopped = Some(error);
                        return false;
                    }
                    !fits(structure) || visit(structure)
                });
                stopped.map_or(Ok(all), Err)
            }
            (Law::Subsets { .. }, _) => {
                let may = may(self.width(), &self.conditions);
                let n = may.len();
                // From each position on: the number of elements that must be chosen, and the number that can
                // be.
                let (mut must, mut can) = (vec![0; n + 1], vec![0; n + 1]);
                for i in (0..n).rev() {
                    must[i] = must[i + 1] + usize::from(!may[i].0);
                    can[i] = can[i + 1] + usize::from(may[i].1);
                }
                let plan = Plan::labels(may, self.sizes);
                Ok(plan.enumerate(|i, k| k + must[i] <= most && k + can[i] >= least, visit))
            }
            (Law::Blocks { classes, count, .. }, _) => {
                let mut structure = vec![0; self.width()];
                Ok(super::partitions::growth_strings(*count, (least, most), &mut |blocks| {
                    structure.iter_mut().zip(classes).for_each(|(to, class)| *to = blocks[*class as usize]);
                    self.base.as_space().canonical(&mut structure);
                    visit(&structure)
                }))
            }
        }
    }

    fn canonical(&self, structure: &mut [u32]) {
        self.base.as_space().canonical(structure);
    }

    fn show(&self, structure: &[u32]) -> String {
        self.base.as_space().show(structure)
    }
}
