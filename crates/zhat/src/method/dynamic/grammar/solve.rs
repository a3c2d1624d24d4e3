//! Charts of all sentences of a batch, with numbers that are wide enough for each.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::numeric::parallel::prelude::*;

use super::cells::Cells;
use super::choices::Kept;
use super::counts::{Counts, add_all, zero_gradient};
use super::free::{self, Free};
use super::number::{Dual, Max, Number, Wide};
use super::pass::{Pass, Purpose, Task, pass};
use super::shared::Shared;
use super::source::Direction;
use crate::error::Result;
use crate::model::Hypertree;
use crate::numeric::Real;
use crate::query::tree::HypertreeGradient;
use crate::run::Clock;

/// Sentences that share a chart.
pub const GROUP: usize = 64;

/// The chart of some sentences.
pub struct Solution<F: Real> {
    pub sentences: Vec<usize>,
    /// Those for which the chart is accurate; the others are in another solution.
    pub active: Vec<bool>,
    pub pass: Box<dyn Pass<F>>,
    /// Their expected numbers, if they were asked for and are known already.
    counts: Option<Counts<F>>,
    /// For later passes, which make no tables.
    shared: Shared,
}

/// The charts of a batch.
pub struct Solutions<F: Real>(pub Vec<Solution<F>>);

/// The charts of all sentences. With `factors`, the gradient of Σ_b factor_b·log Z_b is asked for next.
pub fn solve<F: Passes>(
    model: &Hypertree<F>,
    direction: &Direction<'_, F>,
    purpose: Purpose,
    factors: Option<&[f64]>,
    clock: &Clock<'_>,
) -> Result<Solutions<F>> {
    solve_chosen(model, direction, purpose, factors, (None, &Shared::default()), clock)
}

/// The same with randomly chosen symbols, and tables of rules that may be known already. With several sets of choices,
/// the sentences of the solutions are those of the choices, and only log Z can be asked for.
pub fn solve_chosen<F: Passes>(
    model: &Hypertree<F>,
    direction: &Direction<'_, F>,
    purpose: Purpose,
    factors: Option<&[f64]>,
    (choices, shared): (Option<Kept<'_>>, &Shared),
    clock: &Clock<'_>,
) -> Result<Solutions<F>> {
    // Sentences of similar length share a chart, if they share the rules.
    let batch = model.batch();
    let count = choices.map_or(batch, |kept| kept.choices.sentences());
    let mut order: Vec<usize> = (0..count).collect();
    let alone = model.rules().per_sentence(model.symbols());
    // Sets of choices for one sentence share its rules.
    order.sort_by_key(|&at| (model.lengths()[at % batch], if alone { at % batch } else { 0 }));
    let groups: Vec<&[usize]> = order.chunks(if alone { (count / batch).max(1) } else { GROUP }).collect();
    let done = AtomicUsize::new(0);
    let work = |group: &&[usize]| -> Result<Vec<Solution<F>>> {
        clock.step("sentences", done.fetch_add(group.len(), Ordering::Relaxed), count)?;
        solve_group(model, direction, purpose, factors, (choices, shared), group, groups.len() == 1, clock)
    };
    let found: Vec<Vec<Solution<F>>> = match groups.len() {
        1 => groups.iter().map(work).collect::<Result<_>>()?,
        _ => groups.par_iter().map(work).collect::<Result<_>>()?,
    };
    Ok(Solutions(found.into_iter().flatten().collect()))
}

/// An inside pass with one kind of numbers.
type Stage<F> = fn(&Task<'_, F>, Purpose, bool, &Clock<'_>) -> Result<Box<dyn Pass<F>>>;

/// The precision of a model, `f32` or `f64`, with its passes for all kinds of numbers. These functions are not
/// generic, so that the library compiles the passes once and programs that use it do not compile them again.
pub trait Passes: Real + Number {
    /// Sums, with the kinds of numbers to try one after the other.
    fn sums() -> &'static [Stage<Self>];
    /// Sums and their derivatives in a direction.
    fn slopes() -> &'static [Stage<Self>];
    /// Best trees.
    fn best() -> &'static [Stage<Self>];
}

impl Passes for f32 {
    #[inline(never)]
    fn sums() -> &'static [Stage<f32>] {
        &[pass::<f32, f32>, pass::<f64, f32>, pass::<Wide, f32>]
    }

    #[inline(never)]
    fn slopes() -> &'static [Stage<f32>] {
        &[pass::<Dual<f64>, f32>, pass::<Dual<Wide>, f32>]
    }

    #[inline(never)]
    fn best() -> &'static [Stage<f32>] {
        &[pass::<Max, f32>]
    }
}

impl Passes for f64 {
    #[inline(never)]
    fn sums() -> &'static [Stage<f64>] {
        &[pass::<f64, f64>, pass::<Wide, f64>]
    }

    #[inline(never)]
    fn slopes() -> &'static [Stage<f64>] {
        &[pass::<Dual<f64>, f64>, pass::<Dual<Wide>, f64>]
    }

    #[inline(never)]
    fn best() -> &'static [Stage<f64>] {
        &[pass::<Max, f64>]
    }
}

#[allow(clippy::too_many_arguments)]
fn solve_group<F: Passes>(
    model: &Hypertree<F>,
    direction: &Direction<'_, F>,
    purpose: Purpose,
    factors: Option<&[f64]>,
    (choices, shared): (Option<Kept<'_>>, &Shared),
    group: &[usize],
    parallel: bool,
    clock: &Clock<'_>,
) -> Result<Vec<Solution<F>>> {
    let stages = match (purpose, direction.is_empty()) {
        (Purpose::Best, _) => F::best(),
        (_, true) => F::sums(),
        (_, false) => F::slopes(),
    };
    if direction.is_empty() && choices.is_none() && free::applies(model, purpose) {
        let sentences = group.to_vec();
        let found = Free::new(&Task { model, direction, sentences: group, choices: None, shared }, clock)?;
        let active = vec![true; sentences.len()];
        return Ok(vec![Solution {
            sentences,
            active,
            pass: Box::new(found),
            counts: None,
            shared: Shared::default(),
        }]);
    }
    let (mut pending, mut solutions) = (group.to_vec(), Vec::new());
    for (stage, make) in stages.iter().enumerate() {
        let sentences = std::mem::take(&mut pending);
        if sentences.is_empty() {
            break;
        }
        let own: Vec<usize> = sentences.iter().map(|at| at % model.batch()).collect();
        let choices = choices.map(|kept| (kept, &sentences[..]));
        let task = Task { model, direction, sentences: &own, choices, shared };
        let found = make(&task, purpose, parallel, clock)?;
        let last = stage + 1 == stages.len();
        let (mut active, mut counts) = (found.large().to_vec(), None);
        if active.contains(&false) && !last {
            let fine = match factors {
                None => found.certify(&task, clock)?,
                Some(factors) => {
                    let own: Vec<f64> = sentences.iter().map(|&b| factors[b]).collect();
                    let (known, losses) = found.counts(&task, &own, clock)?;
                    let fine = found.accurate(&task, &losses, clock)?;
                    let impossible = |i: usize| found.log_partition()[i] == f64::NEG_INFINITY;
                    let fine: Vec<bool> =
                        fine.into_iter().enumerate().map(|(i, fine)| fine && !impossible(i)).collect();
                    let usable = (0..sentences.len()).all(|i| fine[i] || impossible(i));
                    counts = usable.then_some(known);
                    fine
                }
            };
            active.iter_mut().zip(fine).for_each(|(large, fine)| *large |= fine);
        }
        if last {
            active.fill(true);
        }
        pending = sentences.iter().zip(&active).filter(|(_, fine)| !**fine).map(|(&b, _)| b).collect();
        solutions.push(Solution { sentences, active, pass: found, counts, shared: Shared::default() });
    }
    Ok(solutions)
}

/// The chart of the best tree of one sentence.
pub fn best_of<F: Passes>(model: &Hypertree<F>, b: usize, clock: &Clock<'_>) -> Result<Box<dyn Pass<F>>> {
    let shared = &Shared::default();
    let task = Task { model, direction: &[], sentences: &[b], choices: None, shared };
    F::best()[0](&task, Purpose::Best, true, clock)
}

impl<F: Real> Solution<F> {
    fn task<'a>(&'a self, model: &'a Hypertree<F>, direction: &'a Direction<'a, F>) -> Task<'a, F> {
        Task { model, direction, sentences: &self.sentences, choices: None, shared: &self.shared }
    }

    /// The factors of its sentences; 0 for those that it is not accurate for.
    fn factors(&self, factors: &[f64]) -> Vec<f64> {
        let own = self.sentences.iter().zip(&self.active);
        own.map(|(&b, &active)| if active { factors[b] } else { 0.0 }).collect()
    }
}

impl<F: Real> Solutions<F> {
    /// One number per sentence, in the order of the batch.
    fn each(&self, batch: usize, of: impl Fn(&Solution<F>) -> Vec<f64>) -> Vec<f64> {
        let mut values = vec![f64::NEG_INFINITY; batch];
        for solution in &self.0 {
            let own = of(solution);
            for ((&b, &active), value) in solution.sentences.iter().zip(&solution.active).zip(own) {
                if active {
                    values[b] = value;
                }
            }
        }
        values
    }

    /// The sentences of every chart and their parts.
    fn groups(&self) -> impl Iterator<Item = (&[usize], &Cells)> {
        self.0.iter().map(|solution| (&*solution.sentences, solution.pass.cells()))
    }

    /// log Z of every sentence.
    pub fn log_partition(&self, batch: usize) -> Vec<f64> {
        self.each(batch, |solution| solution.pass.log_partition().to_vec())
    }

    /// The derivative of log Z of every sentence in the direction.
    pub fn means(&self, batch: usize) -> Vec<f64> {
        self.each(batch, |solution| solution.pass.means().to_vec())
    }

    /// The solution of a sentence and its place in it.
    pub fn find(&self, b: usize) -> Option<(&Solution<F>, usize)> {
        self.0.iter().find_map(|solution| {
            let at = solution.sentences.iter().position(|&other| other == b)?;
            solution.active[at].then_some((solution, at))
        })
    }

    /// The gradient of Σ_b factor_b·log Z_b, for the factors that [`solve`] was given. Embeddings of spans are
    /// those of the model `through`, whose gradient it is.
    pub fn gradient(
        mut self,
        model: &Hypertree<F>,
        through: &Hypertree<F>,
        factors: &[f64],
        clock: &Clock<'_>,
    ) -> Result<HypertreeGradient<F>> {
        let mut gradient = zero_gradient(through);
        let counts = |solution: &mut Solution<F>| {
            let known = solution.counts.take();
            let task = solution.task(model, &[]);
            known.map_or_else(|| Ok(solution.pass.counts(&task, &solution.factors(factors), clock)?.0), Ok)
        };
        let all: Vec<Counts<F>> = match self.0.len() {
            1 => self.0.iter_mut().map(counts).collect::<Result<_>>()?,
            _ => self.0.par_iter_mut().map(counts).collect::<Result<_>>()?,
        };
        add_all(through, self.groups().zip(all).map(|((b, cells), own)| (b, cells, own)), &mut gradient);
        Ok(filled(through, gradient))
    }

    /// The same for any factors and direction.
    pub fn vjp(
        &self,
        model: &Hypertree<F>,
        direction: &Direction<'_, F>,
        factors: &[f64],
        clock: &Clock<'_>,
    ) -> Result<HypertreeGradient<F>> {
        let mut gradient = zero_gradient(model);
        let counts = |solution: &Solution<F>| {
            let task = solution.task(model, direction);
            Ok(solution.pass.counts(&task, &solution.factors(factors), clock)?.0)
        };
        let all: Vec<Counts<F>> = match self.0.len() {
            1 => self.0.iter().map(counts).collect::<Result<_>>()?,
            _ => self.0.par_iter().map(counts).collect::<Result<_>>()?,
        };
        add_all(model, self.groups().zip(all).map(|((b, cells), own)| (b, cells, own)), &mut gradient);
        Ok(filled(model, gradient))
    }

    /// The expected numbers of nodes, B×T×T×S.
    pub fn nodes(&self, model: &Hypertree<F>, clock: &Clock<'_>) -> Result<Vec<F>> {
        let cells = model.batch() * model.positions() * model.positions();
        let mut values = vec![F::ZERO; cells * model.symbols().all];
        self.add_nodes(model, &vec![1.0; model.batch()], &mut values, clock)?;
        Ok(values)
    }

    /// Adds factor_b times the expected numbers of nodes of each sentence.
    pub fn add_nodes(
        &self,
        model: &Hypertree<F>,
        factors: &[f64],
        values: &mut [F],
        clock: &Clock<'_>,
    ) -> Result<()> {
        for solution in &self.0 {
            let task = solution.task(model, &[]);
            solution.pass.nodes(&task, &solution.factors(factors), values, clock)?;
        }
        Ok(())
    }

    /// Inside times outside of all symbols, for charts with chosen symbols that keep all; see
    /// [`Pass::importance`]. The first argument is the sentence of the batch.
    pub fn importance(
        &self,
        model: &Hypertree<F>,
        found: &mut dyn FnMut(usize, usize, usize, Vec<f64>),
        clock: &Clock<'_>,
    ) -> Result<()> {
        for solution in &self.0 {
            let task = solution.task(model, &[]);
            let mut own = |at: usize, i: usize, j: usize, logs: Vec<f64>| {
                if solution.active[at] {
                    found(solution.sentences[at], i, j, logs);
                }
            };
            solution.pass.importance(&task, &mut own, clock)?;
        }
        Ok(())
    }

    /// A tree of a sentence.
    pub fn tree(
        &self,
        model: &Hypertree<F>,
        b: usize,
        pick: &mut dyn super::derive::Pick,
    ) -> Option<Vec<crate::query::tree::Constituent>> {
        let (solution, at) = self.find(b)?;
        solution.pass.tree(&solution.task(model, &[]), at, pick)
    }
}

/// Factors of rules that no sentence contributed to are zero.
pub fn filled<F: Real>(model: &Hypertree<F>, mut gradient: HypertreeGradient<F>) -> HypertreeGradient<F> {
    use crate::model::Rules;
    use crate::query::tree::RuleGradient;
    gradient.words.resize(model.words().len(), F::ZERO);
    if let (
        RuleGradient::LowRank { heads, left, right },
        Rules::LowRank { heads: u, left: v, right: w, .. },
    ) = (&mut gradient.rules, model.rules())
    {
        heads.resize(u.len(), F::ZERO);
        left.resize(v.len(), F::ZERO);
        right.resize(w.len(), F::ZERO);
    }
    gradient
}
