//! Log-likelihood of rows under a model, and imputation of missing values.

use crate::numeric::parallel::prelude::*;

use super::Column;
use super::gaps::Layout;
use super::likelihood::likelihood_of;
use super::statistics::lacking;
use crate::answer::{Estimate, Guarantee, Promise};
use crate::catalogue::{Choice, Settings, answer};
use crate::error::Result;
use crate::io::table::dictionary::MISSING;
use crate::io::table::{Missing, Rows, TableOptions, TableRow};
use crate::model::FactorGraph;
use crate::numeric::CompensatedSum;
use crate::query::Query;
use crate::run::{Clock, Run};

/// The log-likelihood of a table under a model.
#[derive(Clone, Debug)]
pub struct RowScores {
    /// Number of rows scored.
    pub rows: u64,
    /// Number of scored rows with a missing value, with [`Missing::Marginal`].
    pub incomplete: u64,
    /// Number of rows left out because of a missing value; with [`Missing::Marginal`], because they have no value.
    pub dropped: u64,
    /// Columns of the model with missing values and the number of affected rows, largest first.
    pub lacking: Vec<(String, u64)>,
    /// The mean log-likelihood per row, with the guarantee that follows from log Z.
    pub mean: Estimate,
}

/// The variables of a model as the columns of a table.
pub fn columns_of(graph: &FactorGraph) -> Vec<Column> {
    let column = |v: usize| Column {
        name: graph.variable_name(v),
        states: (0..graph.cardinalities()[v]).map(|s| graph.state_name(v, s)).collect(),
    };
    (0..graph.variable_count()).map(column).collect()
}

/// The log weights of incomplete rows, with exact sums over the states of their missing values.
struct Incomplete<'g> {
    graph: &'g FactorGraph,
    values: Vec<f64>,
    layout: Layout,
}

impl<'g> Incomplete<'g> {
    fn new(graph: &'g FactorGraph) -> Self {
        let values = graph.factors().flat_map(|factor| factor.log_values).copied().collect();
        Incomplete { graph, values, layout: Layout::new(graph) }
    }

    /// `None` if no value is known.
    fn score(&mut self, row: &[Option<usize>], clock: &Clock<'_>) -> Result<Option<f64>> {
        if row.iter().all(Option::is_none) {
            return Ok(None);
        }
        clock.check()?;
        let cells: Vec<u32> = row.iter().map(|state| state.map_or(MISSING, |state| state as u32)).collect();
        self.layout.log_weight(self.graph, &self.values, &cells, clock).map(Some)
    }
}

/// Computes the log-likelihood of the rows of a table, given log Z. `each` is called with the line and the
/// log-likelihood of every row, in order. With [`Missing::Marginal`] it is the log-likelihood of the observed
/// cells, and only rows without any value are left out.
///
/// # Errors
/// If the table cannot be read or has an invalid row, a value is missing with `Missing::Refuse`, no row is
/// left, `each` fails, or the run is cancelled or out of time.
pub fn score(
    graph: &FactorGraph,
    log_z: Estimate,
    rows: &mut Rows,
    missing: Missing,
    run: &Run,
    each: &mut dyn FnMut(usize, f64) -> Result<()>,
) -> Result<RowScores> {
    let clock = run.start("scoring");
    let (mut count, mut dropped, mut total) = (0u64, 0u64, CompensatedSum::default());
    let mut missing_in = vec![0u64; graph.variable_count()];
    let (mut incomplete, mut incomplete_rows) = (Incomplete::new(graph), 0);
    while let Some(some) = rows.next_rows()? {
        clock.check()?;
        let score = |row: &TableRow| {
            let state: Option<Vec<usize>> = row.states.iter().copied().collect();
            (row.line, state.map(|state| graph.score(&state)))
        };
        let scores: Vec<(usize, Option<f64>)> = run.install(|| some.par_iter().map(score).collect());
        for row in &some {
            let gaps = row.states.iter().zip(&mut missing_in).filter(|(state, _)| state.is_none());
            gaps.for_each(|(_, count)| *count += 1);
        }
        for ((line, mut score), row) in scores.into_iter().zip(&some) {
            if score.is_none() && missing == Missing::Marginal {
                score = incomplete.score(&row.states, &clock)?;
                incomplete_rows += u64::from(score.is_some());
            }
            match score {
                Some(score) => {
                    count += 1;
                    total.add(score);
                    each(line, score - log_z.value)?;
                }
                None if missing == Missing::Refuse => {
                    return Err(rows.fail(line, "a value is missing"));
                }
                None => dropped += 1,
            }
        }
    }
    let names: Vec<String> = columns_of(graph).into_iter().map(|column| column.name).collect();
    let lacking = lacking(names.iter().map(String::as_str), &missing_in);
    if count == 0 {
        let empty = lacking.iter().filter(|(_, count)| *count == dropped).map(|(name, _)| *name);
        let empty: Vec<&str> = empty.collect();
        let why = match (dropped, empty.as_slice()) {
            (0, _) => "there are no rows".into(),
            (_, []) => "every row has a missing value".into(),
            (_, names) => {
                format!("the table has no values for these columns of the model: {}", names.join(", "))
            }
        };
        return Err(rows.fail(0, why));
    }
    let lacking = lacking.into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
    Ok(RowScores {
        rows: count,
        incomplete: incomplete_rows,
        dropped,
        lacking,
        mean: likelihood_of(total.value() / count as f64, log_z),
    })
}

/// The log-likelihood of every row and the mean. It is NaN for rows with a missing value, which the mean leaves
/// out; with [`Missing::Marginal`] it is that of the observed cells, and NaN for rows without any value.
///
/// # Errors
/// If the run is cancelled or out of time, or a sum over missing values exceeds the memory budget.
pub fn score_states(
    graph: &FactorGraph,
    log_z: Estimate,
    rows: &[Vec<Option<usize>>],
    missing: Missing,
    run: &Run,
) -> Result<(Vec<f64>, Estimate)> {
    let clock = run.start("scoring");
    let score = |row: &Vec<Option<usize>>| {
        let state: Option<Vec<usize>> = row.iter().copied().collect();
        state.map_or(f64::NAN, |state| graph.score(&state))
    };
    let mut scores: Vec<f64> = run.install(|| rows.par_iter().map(score).collect());
    if missing == Missing::Marginal {
        let mut incomplete = Incomplete::new(graph);
        for (score, row) in scores.iter_mut().zip(rows).filter(|(score, _)| score.is_nan()) {
            *score = incomplete.score(row, &clock)?.unwrap_or(f64::NAN);
        }
    }
    let whole: Vec<f64> = scores.iter().copied().filter(|score| !score.is_nan()).collect();
    let total: CompensatedSum = whole.iter().copied().collect();
    scores.iter_mut().for_each(|score| *score -= log_z.value);
    let mean = likelihood_of(total.value() / (whole.len() as f64).max(1.0), log_z);
    Ok((scores, mean))
}

/// Imputes missing values in every row, as [`impute`] does.
///
/// # Errors
/// If a known state is out of range, the marginals of a row cannot be computed (see [every
/// query](crate::query#errors)), or the run is cancelled or out of time.
pub fn impute_states(
    graph: &FactorGraph,
    rows: Vec<Vec<Option<usize>>>,
    how: (&Choice, &Settings),
    run: &Run,
) -> Result<Vec<Vec<usize>>> {
    let clock = run.start("imputing");
    let total = rows.len() as u64;
    let fill = |(i, row): (usize, Vec<Option<usize>>)| {
        clock.check()?;
        clock.progress("imputing", i as u64, total);
        whole_row(graph, &row, how, run).map(|(whole, _)| whole)
    };
    rows.into_iter().enumerate().map(fill).collect()
}

/// The kind of guarantee of a computed value, and the method.
type Origin = (Promise, &'static str);

/// A row with its missing values filled in, and how their probabilities were computed; `None` if none was
/// missing.
fn whole_row(
    graph: &FactorGraph,
    row: &[Option<usize>],
    how: (&Choice, &Settings),
    run: &Run,
) -> Result<(Vec<usize>, Option<Origin>)> {
    if let Some(whole) = row.iter().copied().collect() {
        return Ok((whole, None));
    }
    let known = |(v, state): (usize, &Option<usize>)| state.map(|state| (v, state));
    let evidence: Vec<(usize, usize)> = row.iter().enumerate().filter_map(known).collect();
    let given = graph.condition(&evidence)?.into();
    let seconds = run.time().map(|time| time.as_secs_f64());
    let answer = answer(&given, Query::Marginals, how.0, how.1, &run.within(seconds))?;
    let beliefs = answer.tensor("marginals").ok_or_else(|| answer.unexpected_shape())?;
    let state = |(v, state): (usize, &Option<usize>)| state.unwrap_or_else(|| likeliest(&beliefs.row(v)));
    let computed = (answer.guarantee.promise(), answer.diagnostics.method);
    Ok((row.iter().enumerate().map(state).collect(), Some(computed)))
}

/// Summary of an imputation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imputed {
    /// The number of rows.
    pub rows: u64,
    /// The number of values filled in.
    pub filled: u64,
    /// The number of rows whose probabilities were not computed exactly.
    pub inexact: u64,
    /// The methods that computed the probabilities, in order of their first use.
    pub methods: Vec<&'static str>,
}

impl Imputed {
    /// The guarantee: `Exact` if each value is the most probable one given the rest of its row.
    pub fn guarantee(&self) -> Guarantee {
        match self.inexact {
            0 => Guarantee::Exact,
            rows => Guarantee::Heuristic {
                reason: format!("the probabilities of the missing values are not exact in {rows} rows"),
            },
        }
    }
}

/// Fills in missing values: each becomes the most likely state given the other values of its row, by a method
/// of the catalogue that computes marginals. `each` is called with every completed row, in order.
///
/// # Errors
/// If the table cannot be read or has an invalid row, the marginals of a row cannot be computed (see [every
/// query](crate::query#errors)), `each` fails, or the run is cancelled or out of time.
pub fn impute(
    graph: &FactorGraph,
    rows: &mut Rows,
    how: (&Choice, &Settings),
    run: &Run,
    each: &mut dyn FnMut(&[usize]) -> Result<()>,
) -> Result<Imputed> {
    let clock = run.start("imputing");
    let mut imputed = Imputed { rows: 0, filled: 0, inexact: 0, methods: Vec::new() };
    while let Some(some) = rows.next_rows()? {
        for row in some {
            clock.check()?;
            let whole = whole_row(graph, &row.states, how, run);
            let (whole, computed) = whole.map_err(|error| rows.fail(row.line, error.to_string()))?;
            imputed.rows += 1;
            imputed.filled += row.states.iter().filter(|state| state.is_none()).count() as u64;
            if let Some((promise, method)) = computed {
                imputed.inexact += u64::from(promise < Promise::Exact);
                if !imputed.methods.contains(&method) {
                    imputed.methods.push(method);
                }
            }
            each(&whole)?;
        }
    }
    Ok(imputed)
}

/// The index of the first largest probability.
fn likeliest(probabilities: &[f64]) -> usize {
    let mut best = 0;
    for (s, p) in probabilities.iter().enumerate() {
        if *p > probabilities[best] {
            best = s;
        }
    }
    best
}

/// Opens a table for a model.
///
/// # Errors
/// As [`Rows::open`].
pub fn open_rows(graph: &FactorGraph, path: &std::path::Path, options: &TableOptions) -> Result<Rows> {
    Rows::open(path, options, &columns_of(graph))
}
