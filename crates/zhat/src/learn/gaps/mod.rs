//! Exact expected counts of the entries of a factor graph, given the observed cells of incomplete rows.
//!
//! For a row with observed cells o and missing cells h, log Σ_h exp θ(o, h) splits into the factors over
//! observed cells and one sum for each connected set of missing cells, which depends only on the states of
//! the observed neighbours of that set. Equal sums occur in many rows and are computed once ([`Part`]): with
//! few gaps, the cost of one evaluation does not depend on the number of rows. Sets of few joint states are
//! enumerated; others are summed by elimination, with an order prepared once per set.
//!
//! The expected counts are the derivative of Σ_rows log Σ_h exp θ(o, h) with respect to θ: the counts of the
//! observed entries, plus the marginals of the others given the observed cells.

mod part;

use std::collections::HashMap;

use crate::numeric::parallel::prelude::*;

use self::part::{Part, Scratch};
use super::table::Table;
use crate::error::Result;
use crate::io::table::dictionary::MISSING;
use crate::model::FactorGraph;
use crate::numeric::CompensatedSum;
use crate::run::{Clock, Run};

/// The number of groups of sums, each with counts of its own. It is constant, so that sums do not depend on
/// the number of threads.
const GROUPS: usize = 16;
/// Number of rows or sums between checks of the clock.
const LOOK: usize = 1 << 8;

/// How rows with the same missing cells split.
#[derive(Clone, Debug)]
struct Pattern {
    /// Factors without a missing cell.
    observed: Vec<usize>,
    /// The sets of missing cells: numbers of parts.
    parts: Vec<usize>,
}

/// A part of some rows, with its factors.
#[derive(Clone, Debug)]
struct Member {
    part: Part,
    factors: Vec<usize>,
}

/// The parts of the rows of one graph, found when they are first needed.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// The start of each factor's table among all values, and the strides of its scope.
    starts: Vec<usize>,
    touching: Vec<Vec<usize>>,
    patterns: HashMap<Vec<usize>, Pattern>,
    numbers: HashMap<Vec<usize>, usize>,
    members: Vec<Member>,
    bytes: f64,
}

impl Layout {
    pub fn new(graph: &FactorGraph) -> Self {
        let mut starts = Vec::with_capacity(graph.factor_count());
        let (mut start, mut touching) = (0, vec![Vec::new(); graph.variable_count()]);
        for (f, factor) in graph.factors().enumerate() {
            starts.push(start);
            start += factor.log_values.len();
            factor.scope.iter().for_each(|&v| touching[v].push(f));
        }
        let bytes = 32.0 * (graph.factor_count() + graph.scope_entries()) as f64;
        let (patterns, numbers) = (HashMap::new(), HashMap::new());
        Layout { starts, touching, patterns, numbers, members: Vec::new(), bytes }
    }

    /// Prepares the pattern of a row.
    fn prepare(&mut self, graph: &FactorGraph, missing: &[usize], clock: &Clock<'_>) -> Result<()> {
        if self.patterns.contains_key(missing) {
            return Ok(());
        }
        let mut parts = Vec::new();
        let mut seen = vec![false; graph.variable_count()];
        let mut is_hidden = vec![false; graph.factor_count()];
        for &first in missing {
            if seen[first] {
                continue;
            }
            seen[first] = true;
            let (mut set, mut factors, mut next) = (vec![first], Vec::new(), 0);
            while let Some(&v) = set.get(next) {
                next += 1;
                for &f in &self.touching[v] {
                    if std::mem::replace(&mut is_hidden[f], true) {
                        continue;
                    }
                    factors.push(f);
                    for &u in graph.factor(f).scope {
                        if missing.binary_search(&u).is_ok() && !std::mem::replace(&mut seen[u], true) {
                            set.push(u);
                        }
                    }
                }
            }
            set.sort_unstable();
            factors.sort_unstable();
            let number = match self.numbers.get(&set) {
                Some(&number) => number,
                None => {
                    let part = Part::new(graph, &set, &factors, clock)?;
                    self.bytes += part.bytes() + 8.0 * (set.len() + factors.len()) as f64 + 128.0;
                    self.members.push(Member { part, factors });
                    self.numbers.insert(set, self.members.len() - 1);
                    self.members.len() - 1
                }
            };
            parts.push(number);
        }
        let observed: Vec<usize> = (0..graph.factor_count()).filter(|&f| !is_hidden[f]).collect();
        self.bytes += 8.0 * (missing.len() + observed.len() + parts.len()) as f64 + 128.0;
        self.patterns.insert(missing.to_vec(), Pattern { observed, parts });
        Ok(())
    }

    /// The place of the entry of factor f that the observed cells of a row select; missing cells count as
    /// state 0.
    fn place(&self, graph: &FactorGraph, f: usize, row: &[u32]) -> usize {
        let state = |cell: u32| if cell == MISSING { 0 } else { cell as usize };
        let scope = graph.factor(f).scope;
        let lengths = graph.cardinalities();
        self.starts[f] + scope.iter().fold(0, |at, &v| at * lengths[v] + state(row[v]))
    }

    /// log Σ_h exp θ(o, h) for one row.
    pub fn log_weight(
        &mut self,
        graph: &FactorGraph,
        values: &[f64],
        row: &[u32],
        clock: &Clock<'_>,
    ) -> Result<f64> {
        let missing = missing_in(row);
        self.prepare(graph, &missing, clock)?;
        let pattern = &self.patterns[&missing];
        let mut total: f64 = pattern.observed.iter().map(|&f| values[self.place(graph, f, row)]).sum();
        for &number in &pattern.parts {
            let Member { part, factors } = &self.members[number];
            let bases: Vec<usize> = factors.iter().map(|&f| self.place(graph, f, row)).collect();
            total += part.sum(number, values, &bases, &mut Scratch::default(), clock, &mut |_, _| ())?;
        }
        Ok(total)
    }
}

fn missing_in(row: &[u32]) -> Vec<usize> {
    row.iter().enumerate().filter(|(_, cell)| **cell == MISSING).map(|(v, _)| v).collect()
}

/// Some sums over the same missing cells.
#[derive(Clone, Debug)]
struct Cases {
    number: usize,
    part: Part,
    /// The bases of all factors, case by case.
    bases: Vec<usize>,
    weights: Vec<f64>,
}

/// The rows of a table under a graph with any log-values.
#[derive(Clone, Debug)]
pub(super) struct Gaps {
    rows: u64,
    /// The counts of the entries of factors without a missing cell.
    fixed: Vec<f64>,
    /// Sums in groups of about equal work.
    groups: Vec<Vec<Cases>>,
}

impl Gaps {
    /// Prepares the sums for the rows of a table; its columns are the variables of the graph.
    ///
    /// # Errors
    /// If a sum needs more memory than the budget, or the run is cancelled or out of time.
    pub fn new(graph: &FactorGraph, table: &Table, run: &Run) -> Result<Self> {
        let clock = run.start("preparing incomplete rows");
        let mut layout = Layout::new(graph);
        let entries = graph.factors().map(|factor| factor.log_values.len()).sum();
        let mut fixed = vec![0.0; entries];
        let mut cases: Vec<HashMap<Vec<usize>, usize>> = Vec::new();
        let mut found: Vec<(Vec<usize>, Vec<f64>)> = Vec::new();
        let mut bytes = 8.0 * (1 + GROUPS) as f64 * entries as f64;
        for (r, (row, count)) in table.iter().enumerate() {
            if r % LOOK == 0 {
                clock.step("preparing incomplete rows", r, table.distinct())?;
                run.require_memory("the preparation of incomplete rows", bytes + layout.bytes)?;
            }
            let missing = missing_in(row);
            layout.prepare(graph, &missing, &clock)?;
            let pattern = &layout.patterns[&missing];
            for &f in &pattern.observed {
                fixed[layout.place(graph, f, row)] += count as f64;
            }
            for &number in &pattern.parts {
                let factors = &layout.members[number].factors;
                let bases: Vec<usize> = factors.iter().map(|&f| layout.place(graph, f, row)).collect();
                while cases.len() <= number {
                    cases.push(HashMap::new());
                    found.push((Vec::new(), Vec::new()));
                }
                let (all, weights) = &mut found[number];
                match cases[number].get(&bases) {
                    Some(&case) => weights[case] += count as f64,
                    None => {
                        bytes += 24.0 * bases.len() as f64 + 96.0;
                        all.extend_from_slice(&bases);
                        weights.push(count as f64);
                        cases[number].insert(bases, weights.len() - 1);
                    }
                }
            }
        }
        drop(cases);
        let working = layout.members.iter().map(|member| member.part.working_bytes()).fold(0.0, f64::max);
        let threads = run.threads().min(GROUPS) as f64;
        run.require_memory("the sums over missing values", bytes + layout.bytes + threads * working)?;
        let all = layout.members.into_iter().zip(found).enumerate();
        let all = all.map(|(number, (member, (bases, weights)))| Cases {
            number,
            part: member.part,
            bases,
            weights,
        });
        Ok(Gaps { rows: table.rows(), fixed, groups: split(all.collect()) })
    }

    /// The number of rows.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The counts of the entries of each factor, over the rows in which all its variables are observed.
    pub fn observed(&self) -> &[f64] {
        &self.fixed
    }

    /// Σ_rows log Σ_h exp θ(o, h) and the expected counts of all entries. If some row has weight zero, the sum is
    /// −∞ and the counts are without meaning.
    ///
    /// # Errors
    /// If the run is cancelled or out of time.
    pub fn expected(&self, values: &[f64], run: &Run) -> Result<(f64, Vec<f64>)> {
        let clock = run.start("expected counts");
        let group = |cases: &Vec<Cases>| -> Result<(f64, Vec<f64>)> {
            let mut counts = vec![0.0; self.fixed.len()];
            let (mut total, mut scratch) = (CompensatedSum::default(), Scratch::default());
            for Cases { number, part, bases, weights } in cases {
                let width = bases.len() / weights.len().max(1);
                for (case, &weight) in weights.iter().enumerate() {
                    if case % LOOK == 0 {
                        clock.check()?;
                    }
                    let bases = &bases[case * width..(case + 1) * width];
                    let mut add = |place: usize, p: f64| counts[place] += weight * p;
                    let log_z = part.sum(*number, values, bases, &mut scratch, &clock, &mut add)?;
                    if log_z == f64::NEG_INFINITY {
                        return Ok((log_z, Vec::new()));
                    }
                    total.add(weight * log_z);
                }
            }
            Ok((total.value(), counts))
        };
        let parts: Vec<Result<(f64, Vec<f64>)>> = run.install(|| self.groups.par_iter().map(group).collect());
        let mut counts = self.fixed.clone();
        let occurring = values.iter().zip(&self.fixed).filter(|(_, count)| **count > 0.0);
        let mut total: CompensatedSum = occurring.map(|(value, count)| value * count).collect();
        for part in parts {
            let (log_weight, own) = part?;
            total.add(log_weight);
            counts.iter_mut().zip(&own).for_each(|(count, own)| *count += own);
        }
        Ok((total.value(), counts))
    }
}

/// Splits the sums into groups of about equal work; a set with many sums is divided.
fn split(all: Vec<Cases>) -> Vec<Vec<Cases>> {
    let total: f64 = all.iter().map(|cases| cases.part.work() * cases.weights.len() as f64).sum();
    let each = total / GROUPS as f64;
    let mut groups: Vec<Vec<Cases>> = vec![Vec::new()];
    let mut done = 0.0;
    for cases in all {
        let (work, width) = (cases.part.work(), cases.bases.len() / cases.weights.len().max(1));
        let mut from = 0;
        while from < cases.weights.len() {
            let room = (each * groups.len() as f64 - done) / work;
            let last = groups.len() == GROUPS;
            let most = if last { usize::MAX } else { room.ceil().max(1.0) as usize };
            let to = from + most.min(cases.weights.len() - from);
            if let Some(group) = groups.last_mut() {
                group.push(Cases {
                    number: cases.number,
                    part: cases.part.clone(),
                    bases: cases.bases[from * width..to * width].to_vec(),
                    weights: cases.weights[from..to].to_vec(),
                });
            }
            done += work * (to - from) as f64;
            if !last && done >= each * groups.len() as f64 {
                groups.push(Vec::new());
            }
            from = to;
        }
    }
    groups
}
