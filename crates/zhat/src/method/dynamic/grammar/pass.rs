//! A chart of a group of sentences whose numbers and form of rules no longer matter.

use std::any::Any;

use crate::numeric::parallel::prelude::*;

use super::cells::Cells;
use super::chart::{Chart, Core, Unary, accurate, inside, outside};
use super::choices::{GroupChoices, Kept};
use super::counts::{Collector, Counts, Importance, Nodes, Nothing};
use super::dense::{self, Dense, Squares, Weights};
use super::derive::{Divides, Pick, derive};
use super::kept::{self, KeptDense};
use super::listed::{self, Listed, RuleTable};
use super::number::Number;
use super::rank::{self, Factors, Rank};
use super::shared::Shared;
use super::source::{Scores, Source};
use crate::error::Result;
use crate::model::{Closure, Hypertree, Rules, UnaryRules};
use crate::numeric::Real;
use crate::query::tree::{Constituent, RuleGradient};
use crate::run::Clock;

/// What a chart is made for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// log Z and its gradient.
    Sums,
    /// The symbols of spans, too.
    Symbols,
    /// The best tree.
    Best,
}

/// The inside values of a group of sentences.
pub trait Pass<F: Real>: Send + Sync {
    /// The words and spans.
    fn cells(&self) -> &Cells;
    /// log Z of each sentence.
    fn log_partition(&self) -> &[f64];
    /// Whether nothing was lost by underflow, as far as the inside values show.
    fn large(&self) -> &[bool];
    /// The bound on what was lost, by an outside pass: whether it is small, for each sentence.
    fn certify(&self, task: &Task<'_, F>, clock: &Clock<'_>) -> Result<Vec<bool>>;
    /// Σ_b factor_b·(gradient of log Z_b), and a bound on what each sentence lost by underflow of inside values.
    fn counts(&self, task: &Task<'_, F>, factors: &[f64], clock: &Clock<'_>)
    -> Result<(Counts<F>, Vec<f64>)>;
    /// Whether these losses and those of the derivatives are negligible, for each sentence.
    fn accurate(&self, task: &Task<'_, F>, losses: &[f64], clock: &Clock<'_>) -> Result<Vec<bool>>;
    /// The expected numbers of nodes of sentences with factor 1.
    fn nodes(&self, task: &Task<'_, F>, factors: &[f64], values: &mut [F], clock: &Clock<'_>) -> Result<()>;
    /// For every word and span, the logarithms of inside times outside of all symbols that could have been
    /// chosen, to `found(sentence, i, j, logs)`.
    fn importance(
        &self,
        task: &Task<'_, F>,
        found: &mut dyn FnMut(usize, usize, usize, Vec<f64>),
        clock: &Clock<'_>,
    ) -> Result<()>;
    /// The derivative of log Z of each sentence in the direction.
    fn means(&self) -> Vec<f64>;
    /// The logarithms of the inside values of words i … j, one per symbol, before or after unary rules. The
    /// sentence is given by its number in the batch of a model and by its place in the group.
    fn scores(&self, of: (&Hypertree<F>, usize), sentence: usize, i: usize, j: usize, bare: bool)
    -> Vec<f64>;
    /// A tree; `None` if there is none.
    fn tree(&self, task: &Task<'_, F>, sentence: usize, pick: &mut dyn Pick) -> Option<Vec<Constituent>>;
}

/// A group of sentences of a model, and a direction in the space of its scores.
pub struct Task<'a, F: Real> {
    pub model: &'a Hypertree<F>,
    pub direction: &'a [(f64, &'a Hypertree<F>)],
    pub sentences: &'a [usize],
    /// Randomly chosen symbols, and the sentences among those of the choices.
    pub choices: Option<(Kept<'a>, &'a [usize])>,
    /// Tables of rules that the charts of one or more batches share.
    pub shared: &'a Shared,
}

impl<F: Real> Task<'_, F> {
    fn source(&self) -> Source<'_> {
        let direction =
            self.direction.iter().map(|&(factor, model)| (factor, model as &dyn Scores)).collect();
        Source { scores: self.model, direction, sentences: self.sentences }
    }

    /// The derivatives of the scores of unary rules.
    fn unary_slopes(&self) -> Vec<f64> {
        let count = self.model.unary().map_or(0, |unary| unary.rules().len());
        // A direction may leave the unary rules out.
        let read = |scores: &dyn Scores, out: &mut [f64]| {
            out.iter_mut().for_each(|x| *x = 0.0);
            out.iter_mut().zip(scores.unary()).for_each(|(x, score)| *x = score);
        };
        self.source().with_slopes(count, read).1
    }
}

/// The chart and the rules that it was made with.
struct Inside<G, C> {
    chart: Chart<G>,
    core: C,
}

/// Rules whose gradient can be taken after an outside pass.
trait Rewards<G: Number, F>: Core<G> + Divides<G> {
    fn gradient(&self, back: Self::Back, chart: &Chart<G>) -> RuleGradient<F>;
}

/// The results of numbers; numbers that are results already are not copied.
fn converted<G: Number, F: Real>(mut values: Vec<G>) -> Vec<F> {
    if let Some(same) = (&mut values as &mut dyn Any).downcast_mut::<Vec<F>>() {
        return std::mem::take(same);
    }
    values.into_par_iter().map(|x| F::from_f64(x.result())).collect()
}

impl<G: Number, F: Real> Rewards<G, F> for Dense<G> {
    fn gradient(&self, back: dense::Back<G>, chart: &Chart<G>) -> RuleGradient<F> {
        RuleGradient::Scores(converted(Dense::gradient(self, &back, chart)))
    }
}

impl<G: Number, F: Real> Rewards<G, F> for KeptDense<G> {
    fn gradient(&self, back: kept::Back<G>, chart: &Chart<G>) -> RuleGradient<F> {
        RuleGradient::Scores(converted(KeptDense::gradient(self, &back, chart)))
    }
}

impl<G: Number, F: Real> Rewards<G, F> for Listed<G> {
    fn gradient(&self, back: listed::Back<G>, _: &Chart<G>) -> RuleGradient<F> {
        RuleGradient::Scores(converted(back.rules().to_vec()))
    }
}

impl<G: Number, F: Real> Rewards<G, F> for Rank<G> {
    fn gradient(&self, back: rank::Back<G>, chart: &Chart<G>) -> RuleGradient<F> {
        if self.implicit() {
            return RuleGradient::None;
        }
        let [heads, left, right] = Rank::gradient(self, back, chart);
        RuleGradient::LowRank { heads: converted(heads), left: converted(left), right: converted(right) }
    }
}

impl<G: Number, C: Rewards<G, F>, F: Real> Pass<F> for Inside<G, C> {
    fn cells(&self) -> &Cells {
        &self.chart.cells
    }

    fn log_partition(&self) -> &[f64] {
        &self.chart.log_partition
    }

    fn large(&self) -> &[bool] {
        &self.chart.large
    }

    fn certify(&self, task: &Task<'_, F>, clock: &Clock<'_>) -> Result<Vec<bool>> {
        let factors: Vec<f64> = self.chart.large.iter().map(|&large| if large { 0.0 } else { 1.0 }).collect();
        let source = task.source();
        let (_, losses) = outside(&source, &self.core, &self.chart, &factors, &mut Nothing, clock)?;
        let fine = accurate(&source, &self.core, &self.chart, &losses, clock)?;
        let possible = self.chart.log_partition.iter().map(|log_z| *log_z > f64::NEG_INFINITY);
        Ok(fine.into_iter().zip(possible).map(|(fine, possible)| fine && possible).collect())
    }

    fn counts(
        &self,
        task: &Task<'_, F>,
        factors: &[f64],
        clock: &Clock<'_>,
    ) -> Result<(Counts<F>, Vec<f64>)> {
        let mut collector = Collector::new(task.model, &self.chart, task.unary_slopes());
        let (back, losses) =
            outside(&task.source(), &self.core, &self.chart, factors, &mut collector, clock)?;
        let mut counts = collector.counts;
        counts.rules = self.core.gradient(back, &self.chart);
        Ok((counts, losses))
    }

    fn accurate(&self, task: &Task<'_, F>, losses: &[f64], clock: &Clock<'_>) -> Result<Vec<bool>> {
        accurate(&task.source(), &self.core, &self.chart, losses, clock)
    }

    fn nodes(&self, task: &Task<'_, F>, factors: &[f64], values: &mut [F], clock: &Clock<'_>) -> Result<()> {
        let (positions, symbols) = (task.model.positions(), task.model.symbols());
        let mut nodes = Nodes { values, sentences: task.sentences, positions, symbols };
        outside(&task.source(), &self.core, &self.chart, factors, &mut nodes, clock)?;
        Ok(())
    }

    fn importance(
        &self,
        task: &Task<'_, F>,
        found: &mut dyn FnMut(usize, usize, usize, Vec<f64>),
        clock: &Clock<'_>,
    ) -> Result<()> {
        let (source, ones) = (task.source(), vec![1.0; task.sentences.len()]);
        let offset = task.model.symbols().first_tag() - self.chart.first_tag;
        let mut report = Importance { found, offset, tags: task.model.symbols().tags };
        outside(&source, &self.core, &self.chart, &ones, &mut report, clock)?;
        Ok(())
    }

    fn means(&self) -> Vec<f64> {
        self.chart.means()
    }

    fn scores(&self, _: (&Hypertree<F>, usize), sentence: usize, i: usize, j: usize, bare: bool) -> Vec<f64> {
        let part = self.chart.cells.part(sentence, i, j);
        let ((row, symbols), scale) = (self.chart.row(part), self.chart.scale(part));
        let row = if bare { self.chart.bare_row(part) } else { row };
        let mut scores = vec![f64::NEG_INFINITY; self.chart.symbols];
        for (at, x) in row.iter().enumerate() {
            scores[symbols.symbol(at)] = x.ln() + scale;
        }
        scores
    }

    fn tree(&self, task: &Task<'_, F>, sentence: usize, pick: &mut dyn Pick) -> Option<Vec<Constituent>> {
        (self.chart.log_partition[sentence] > f64::NEG_INFINITY)
            .then(|| derive(&self.chart, &self.core, task.model.unary(), sentence, pick))
    }
}

/// The derivatives of the logarithms of a closure by those of the scores of its rules: dC = C·dU·C.
fn closure_slopes<F: Real>(unary: &UnaryRules<F>, slopes: &[f64]) -> Vec<f64> {
    if slopes.is_empty() {
        return Vec::new();
    }
    let entries = &unary.sums().entries;
    let weight = |k: usize, a: usize| {
        let found = entries.binary_search_by(|entry| (entry.0, entry.1).cmp(&(k, a)));
        found.map_or(f64::NEG_INFINITY, |at| entries[at].2)
    };
    let slope = |&(k, a, log): &(usize, usize, f64)| -> f64 {
        let steps = unary.rules().iter().zip(unary.scores()).zip(slopes);
        let through = steps.map(|((rule, score), slope)| {
            let path = weight(k, rule.head) + score.to_f64() + weight(rule.child, a) - log;
            if path > f64::NEG_INFINITY { path.exp() * slope } else { 0.0 }
        });
        through.sum()
    };
    entries.iter().map(slope).collect()
}

/// The inside pass with numbers of type G.
pub fn pass<G: Number, F: Real>(
    task: &Task<'_, F>,
    purpose: Purpose,
    parallel: bool,
    clock: &Clock<'_>,
) -> Result<Box<dyn Pass<F>>> {
    let (model, source) = (task.model, task.source());
    let cells = Cells::new(task.sentences.iter().map(|&b| model.lengths()[b]).collect());
    let longest = cells.longest();
    let closure = |unary: &UnaryRules<F>| -> Unary<G> {
        let closure: &Closure = if purpose == Purpose::Best { unary.best() } else { unary.sums() };
        Unary::new(closure, &closure_slopes(unary, &task.unary_slopes()))
    };
    let (unary, has_unary) = (model.unary().map(closure), model.unary().is_some());
    let symbols = model.symbols();
    let set = if model.rules().per_sentence(symbols) { task.sentences[0] } else { 0 };
    let dense = || task.shared.get(set, || Weights::<G>::new(&source));
    // Unary rules give values to symbols that were not chosen.
    let few = task.choices.filter(|(kept, _)| !kept.full && !has_unary);
    let compact = few.is_some_and(|(kept, _)| match model.rules() {
        Rules::Dense(_) => kept::pays(longest, symbols.heads, kept.choices.most()),
        _ => true,
    });
    let choices = task.choices.map(|(Kept { choices, full }, sentences)| GroupChoices {
        choices: choices.clone(),
        sentences: sentences.to_vec(),
        full,
        compact,
    });
    fn run<G: Number, F: Real, C: Rewards<G, F> + 'static>(
        source: &Source<'_>,
        mut core: C,
        cells: Cells,
        unary: Option<Unary<G>>,
        choices: Option<GroupChoices>,
        clock: &Clock<'_>,
    ) -> Result<Box<dyn Pass<F>>> {
        let chart = inside(source, &mut core, cells, unary, choices, clock)?;
        Ok(Box::new(Inside { chart, core }))
    }
    match model.rules() {
        Rules::Dense(_) if compact => {
            run(&source, KeptDense::new(symbols, dense(), longest), cells, unary, choices, clock)
        }
        Rules::Dense(_) => {
            let table = dense();
            let squares = task.shared.get(set, || Squares::new(symbols, &table.weights));
            let core = Dense::new(symbols, (table, squares), longest, has_unary, parallel);
            run(&source, core, cells, unary, choices, clock)
        }
        Rules::Sparse { rules, .. } => {
            let table = task.shared.get(set, || RuleTable::<G>::new(&source, rules));
            run(&source, Listed::new(symbols, table, longest), cells, unary, choices, clock)
        }
        rules => {
            let collapse = purpose == Purpose::Sums
                && !has_unary
                && !model.spans().by_symbol()
                && task.choices.is_none();
            let implicit = rules.is_empty();
            clock.check()?;
            let rank = rules.rank().unwrap_or(1);
            let factors = (task.shared.get(set, || Factors::<G>::new(&source, rank)), rank);
            let core = Rank::new(symbols, factors, has_unary, collapse, implicit, parallel);
            clock.check()?;
            run(&source, core, cells, unary, choices, clock)
        }
    }
}
