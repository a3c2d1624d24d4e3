//! The log-likelihood of a pairwise model, and its gradient.
//!
//! With empirical marginals μ̂ of the variables and of the chosen pairs, the mean log-likelihood per row is
//! ℓ(θ) = ⟨θ, μ̂⟩ − log Z(θ), and its gradient is μ̂ − μ(θ), where μ are the model's marginals. The guarantee
//! of ℓ follows from that of log Z: exact; a lower bound if log Z has an upper bound (tree-reweighted
//! messages); an upper bound if log Z has a lower bound (mean field), for which a fit gives a warning; or
//! none.
//!
//! If rows are incomplete and values are missing at random, the log-likelihood of the observed cells is
//! ℓ(θ) = 1/n · Σ_rows log Σ_h exp⟨θ, φ(o, h)⟩ − log Z(θ), where h runs over the states of the missing cells.
//! Its gradient is E_θ\[φ | observed cells\] − μ(θ): the expected counts take the place of μ̂. They are
//! exact, whatever the method for log Z.

use std::sync::Arc;

use crate::answer::{Answer, Estimate, Guarantee};
use crate::catalogue::{Choice, Settings, answer};
use crate::error::Result;
use crate::learn::gaps::Gaps;
use crate::learn::start::{EXTRA, Start, forest_parameters};
use crate::learn::{Statistics, Table};
use crate::model::FactorGraph;
use crate::query::Query;
use crate::run::Run;

/// ℓ for a table and a structure, by one method.
#[derive(Clone, Debug)]
pub struct Likelihood {
    graph: FactorGraph,
    /// μ̂, in the order of the graph's tables. If rows are incomplete, the marginals of the values that are present,
    /// which are used for initial parameters only.
    empirical: Vec<f64>,
    rows: u64,
    /// The rows, if some are incomplete.
    gaps: Option<Arc<Gaps>>,
    choice: Choice,
    settings: Settings,
}

impl Likelihood {
    /// The columns of `statistics` are the variables; each variable has a table, and so does each pair in
    /// `edges`.
    ///
    /// # Errors
    /// If two states of a column have the same name.
    ///
    /// # Panics
    /// If a column does not exist, or a pair contains one column twice.
    pub fn new(
        statistics: &Statistics,
        edges: &[(usize, usize)],
        choice: Choice,
        settings: Settings,
    ) -> Result<Self> {
        let all: Vec<usize> = (0..statistics.columns().len()).collect();
        Self::with_tables(statistics, &all, edges, choice, settings)
    }

    /// Like [`Likelihood::new`], but with unary tables only for the variables `singles`: a variable that
    /// occurs in a pair needs no table of its own.
    ///
    /// # Errors
    /// If two states of a column have the same name.
    ///
    /// # Panics
    /// If a column does not exist, or a pair contains one column twice.
    pub fn with_tables(
        statistics: &Statistics,
        singles: &[usize],
        edges: &[(usize, usize)],
        choice: Choice,
        settings: Settings,
    ) -> Result<Self> {
        let columns = statistics.columns();
        let sizes = columns.iter().map(|column| column.states.len()).collect();
        let mut graph = FactorGraph::new(sizes)?;
        let mut empirical = Vec::new();
        let mut add = |scope: &[usize], counts: &[u64]| -> Result<()> {
            graph.add_factor(scope, &vec![0.0; counts.len()])?;
            // If values are missing, different tables have different totals.
            let total: u64 = counts.iter().sum();
            let equal = 1.0 / counts.len() as f64;
            let share = |&count: &u64| if total > 0 { count as f64 / total as f64 } else { equal };
            empirical.extend(counts.iter().map(share));
            Ok(())
        };
        for &v in singles {
            add(&[v], statistics.single(v))?;
        }
        for &(i, j) in edges {
            add(&[i, j], &statistics.pair(i, j))?;
        }
        let names = columns.iter().map(|column| column.name.clone()).collect();
        let states = columns.iter().map(|column| column.states.clone()).collect();
        let graph = graph.with_names(names, states)?;
        Ok(Likelihood { graph, empirical, rows: statistics.rows(), gaps: None, choice, settings })
    }

    /// The likelihood of the observed cells of rows of which some are incomplete; `edges` are as in
    /// [`Likelihood::new`], for example from [`Statistics::available`].
    ///
    /// # Errors
    /// If the memory budget does not suffice for the sums over missing values or the counts of the pairs, or the
    /// run is cancelled or out of time.
    ///
    /// # Panics
    /// As [`Likelihood::new`].
    pub fn of_table(
        table: &Table,
        edges: &[(usize, usize)],
        choice: Choice,
        settings: Settings,
        run: &Run,
    ) -> Result<Self> {
        let statistics = Statistics::available(table, run)?;
        let mut likelihood = Self::new(&statistics, edges, choice, settings)?;
        if !table.is_complete() {
            likelihood.gaps = Some(Arc::new(Gaps::new(&likelihood.graph, table, run)?));
        }
        Ok(likelihood)
    }

    /// Whether some rows are incomplete.
    pub fn has_gaps(&self) -> bool {
        self.gaps.is_some()
    }

    /// The likelihood of complete rows with the expected counts that these parameters give, divided by the number of
    /// rows: the objective of the M-step of EM. Unchanged if all rows are complete.
    ///
    /// # Errors
    /// If the run is cancelled or out of time.
    pub fn completed(&self, parameters: &[f64], run: &Run) -> Result<Self> {
        let Some(gaps) = &self.gaps else { return Ok(self.clone()) };
        let (_, counts) = gaps.expected(parameters, run)?;
        let empirical = counts.into_iter().map(|count| count / self.rows as f64).collect();
        Ok(Likelihood { empirical, gaps: None, ..self.clone() })
    }

    /// The number of parameters.
    pub fn dimension(&self) -> usize {
        self.empirical.len()
    }

    /// The number of tables, an upper bound on the eigenvalues of the Hessian of log Z.
    pub fn tables(&self) -> usize {
        self.graph.factor_count()
    }

    /// The empirical marginals; if rows are incomplete, of the values that are present.
    pub fn empirical(&self) -> &[f64] {
        &self.empirical
    }

    /// The initial parameters.
    pub fn start(&self, start: Start) -> Vec<f64> {
        match start {
            Start::Zero => vec![0.0; self.dimension()],
            Start::Forest => forest_parameters(&self.graph, &self.empirical, self.rows as f64, EXTRA).0,
        }
    }

    /// The maximum-likelihood parameters in closed form, if the pairs form no cycle; −∞ for states that never
    /// occur together. `None` if rows are incomplete.
    pub fn closed_form(&self) -> Option<Vec<f64>> {
        if self.gaps.is_some() {
            return None;
        }
        let (parameters, all) = forest_parameters(&self.graph, &self.empirical, self.rows as f64, 0.0);
        all.then_some(parameters)
    }

    /// The model with these parameters.
    ///
    /// # Errors
    /// If the number of parameters is wrong, or a parameter is NaN or +∞.
    pub fn model(&self, parameters: &[f64]) -> Result<FactorGraph> {
        self.graph.reweighted(parameters)
    }

    /// ℓ, with the guarantee that follows from log Z.
    ///
    /// # Errors
    /// As [`Likelihood::model`]; also if the method cannot compute log Z within the budget.
    pub fn value(&self, parameters: &[f64], run: &Run) -> Result<Estimate> {
        let model = self.model(parameters)?.into();
        let log_z =
            answer(&model, Query::LogPartition, &self.choice, &self.settings, run)?.into_estimate()?;
        let score = match &self.gaps {
            Some(gaps) => gaps.expected(parameters, run)?.0 / self.rows as f64,
            None => {
                let occurring = parameters.iter().zip(&self.empirical).filter(|(_, p)| **p > 0.0);
                occurring.map(|(x, p)| x * p).sum()
            }
        };
        Ok(likelihood_of(score, log_z))
    }

    /// −ℓ; its gradient μ(θ) − μ̂ is written to `gradient`.
    ///
    /// # Errors
    /// As [`Likelihood::value`]; also if the method cannot compute factor marginals within the budget.
    pub fn negative(&self, parameters: &[f64], gradient: &mut [f64], run: &Run) -> Result<f64> {
        if let Some(gaps) = &self.gaps {
            let (log_weight, counts) = gaps.expected(parameters, run)?;
            if log_weight == f64::NEG_INFINITY {
                gradient.fill(0.0);
                return Ok(f64::INFINITY);
            }
            let rows = self.rows as f64;
            let empirical: Vec<f64> = counts.into_iter().map(|count| count / rows).collect();
            let completed = Likelihood { empirical, gaps: None, ..self.clone() };
            let complete = completed.negative(parameters, gradient, run)?;
            // The log-likelihood of the completed rows, with their score replaced.
            let occurring = parameters.iter().zip(&completed.empirical).filter(|(_, p)| **p > 0.0);
            let score: f64 = occurring.map(|(x, p)| x * p).sum();
            return Ok(complete + score - log_weight / rows);
        }
        let value = self.value(parameters, run)?.value;
        let model = self.model(parameters)?.into();
        let beliefs = answer(&model, Query::FactorMarginals, &self.choice, &self.settings, run)?;
        let table = beliefs.tensor("factors").and_then(|tensor| tensor.as_slice::<f64>());
        let both = table.ok_or_else(|| beliefs.unexpected_shape())?.iter().zip(&self.empirical);
        gradient.iter_mut().zip(both).for_each(|(out, (model, data))| *out = model - data);
        Ok(-value)
    }
}

/// Adds a warning if only an upper bound on ℓ is known: maximising it gives no guarantee for ℓ.
pub(crate) fn warned(mut likelihood: Estimate) -> Estimate {
    if matches!(likelihood.guarantee, Guarantee::Bounds { low, high, confidence } if low == f64::NEG_INFINITY && high.is_finite() && confidence >= 1.0)
    {
        let warning = format!(
            "{} bounds log Z from below, so the fit maximised an upper bound on the log-likelihood, not a lower bound: the log-likelihood itself may be much lower; score the table with method anytime-bounds, trw or an exact one",
            likelihood.diagnostics.method
        );
        likelihood.diagnostics = likelihood.diagnostics.note("warning", warning);
    }
    likelihood
}

/// score − log Z; the ends of an interval change places.
pub(crate) fn likelihood_of(score: f64, log_z: Estimate) -> Estimate {
    let Answer { value, guarantee, diagnostics } = log_z;
    let guarantee = match guarantee {
        Guarantee::Bounds { low, high, confidence } => {
            Guarantee::Bounds { low: score - high, high: score - low, confidence }
        }
        Guarantee::Unbiased { low, confidence, .. } => {
            Guarantee::Bounds { low: f64::NEG_INFINITY, high: score - low, confidence }
        }
        other => other,
    };
    Answer { value: score - value, guarantee, diagnostics }
}
