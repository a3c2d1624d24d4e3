//! Discrete models defined as a product of factors.

pub(in crate::model) mod any;
mod names;
mod observe;

pub use names::Names;

use crate::cache::Identity;
use crate::error::{Error, Result};
use crate::model::table;

/// p(x) = exp(Σ_f θ_f(x_f)) / Z over discrete variables, with θ_f a table over the factor's scope.
///
/// Tables are in the log domain; an entry of −∞ forbids a combination of states. They are row-major: the
/// first variable of the scope is the most significant. Storage is flat, so a graph can have millions of
/// small factors.
///
/// ```
/// use zhat::{FactorGraph, LogPartition, Run};
/// use zhat::exact::Elimination;
///
/// let mut graph = FactorGraph::new(vec![2, 3])?;
/// graph.add_factor(&[0, 1], &[0.0, 1.0, 2.0, 0.5, f64::NEG_INFINITY, -1.0])?;
/// let z = Elimination::default().log_partition(&graph, &Run::default())?;
/// let by_hand: f64 = [0.0f64, 1.0, 2.0, 0.5, -1.0].iter().map(|s| s.exp()).sum();
/// assert!((z.value - by_hand.ln()).abs() < 1e-14);
/// # Ok::<(), zhat::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct FactorGraph {
    cardinalities: Vec<usize>,
    scope_ends: Vec<usize>,
    scopes: Vec<usize>,
    value_ends: Vec<usize>,
    values: Vec<f64>,
    names: Option<Names>,
    form: NetworkType,
    evidence: Vec<(usize, usize)>,
    /// The factors that stand for sets of states and likelihoods given as evidence.
    uncertain: Vec<usize>,
    /// Pairs of a factor and an observed variable that [`FactorGraph::condition`] removed from its scope.
    cuts: Vec<(usize, usize)>,
    /// Σ_f max |θ_f|, without entries −∞.
    magnitude: f64,
    /// Identity of variables and factors, renewed by every change; it is the key of cached results.
    identity: Identity,
    /// Identity of everything except the tables.
    structure: Identity,
    /// Whether this graph shares the structure of another graph and has other tables.
    is_reweighted: bool,
}

/// Graphs are equal if their variables, factors, names, form and evidence are.
impl PartialEq for FactorGraph {
    fn eq(&self, other: &Self) -> bool {
        // Destructures all fields, so that a new field is not forgotten here.
        let FactorGraph {
            cardinalities,
            scope_ends,
            scopes,
            value_ends,
            values,
            names,
            form,
            evidence,
            uncertain,
            cuts: _,
            magnitude: _,
            identity: _,
            structure: _,
            is_reweighted: _,
        } = self;
        *cardinalities == other.cardinalities
            && *scope_ends == other.scope_ends
            && *scopes == other.scopes
            && *value_ends == other.value_ends
            && *values == other.values
            && *names == other.names
            && *form == other.form
            && *evidence == other.evidence
            && *uncertain == other.uncertain
    }
}

/// Maximum number of states of one variable, and of all variables together. Whether a model is valid does not
/// depend on the machine.
const MAX_STATES: usize = 1 << 28;
const MAX_TOTAL_STATES: u64 = 1 << 32;

/// Maximum sum of |scores|; it keeps all sums finite.
const MAGNITUDE: f64 = 1e305;

fn largest_finite(log_values: &[f64]) -> f64 {
    log_values.iter().filter(|x| x.is_finite()).fold(0.0, |m, x| x.abs().max(m))
}

/// Maximum number of values created by a conversion to a factor graph.
const MOST_VALUES: f64 = 1e8;

/// Fails if a conversion to a factor graph would be too large.
pub(in crate::model) fn check_moderate(values: f64) -> Result<()> {
    if values > MOST_VALUES {
        return Err(Error::model(format!(
            "as a factor graph the model would have {values:.0e} values, and a conversion makes at most {MOST_VALUES:.0e}"
        )));
    }
    Ok(())
}

/// The meaning of the factors. Inference ignores it; files record it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkType {
    /// Arbitrary potentials.
    Markov,
    /// Conditional probability tables, with the child last in each scope.
    Bayes,
}

/// One factor of a graph.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Factor<'a> {
    /// The variables, most significant first.
    pub scope: &'a [usize],
    /// θ_f, row-major.
    pub log_values: &'a [f64],
}

impl FactorGraph {
    /// A model without factors over variables with these numbers of states: each from 1 to 2²⁸, together at
    /// most 2³².
    ///
    /// Memory is not checked here: methods compare their needs with the budget of their [`Run`](crate::Run).
    ///
    /// # Errors
    /// If a number of states, or their sum, is out of range.
    pub fn new(cardinalities: Vec<usize>) -> Result<Self> {
        if let Some(v) = cardinalities.iter().position(|&states| states == 0) {
            return Err(Error::model(format!(
                "variable {v} has 0 states; every variable needs at least one"
            )));
        }
        if let Some(v) = cardinalities.iter().position(|&states| states > MAX_STATES) {
            return Err(Error::model(format!(
                "variable {v} has {} states; at most {MAX_STATES} (2^28) are supported",
                cardinalities[v]
            )));
        }
        let states: u64 = cardinalities.iter().map(|&states| states as u64).sum();
        if states > MAX_TOTAL_STATES {
            return Err(Error::model(format!(
                "the variables have {states} states together; at most {MAX_TOTAL_STATES} (2^32) are supported"
            )));
        }
        Ok(FactorGraph {
            cardinalities,
            scope_ends: Vec::new(),
            scopes: Vec::new(),
            value_ends: Vec::new(),
            values: Vec::new(),
            names: None,
            form: NetworkType::Markov,
            evidence: Vec::new(),
            uncertain: Vec::new(),
            cuts: Vec::new(),
            magnitude: 0.0,
            identity: Identity::default(),
            structure: Identity::default(),
            is_reweighted: false,
        })
    }

    /// Adds θ_f over `scope`; an empty scope has one value, a constant.
    ///
    /// # Errors
    /// If the scope contains an unknown variable or one twice, the table has the wrong length, a log-value is
    /// NaN or +∞, or the log-values of all factors could add up to too much.
    pub fn add_factor(&mut self, scope: &[usize], log_values: &[f64]) -> Result<&mut Self> {
        let f = self.factor_count();
        if let Some(v) = scope.iter().find(|&&v| v >= self.cardinalities.len()) {
            return Err(Error::model(format!(
                "factor {f} names variable {v}, but the variables are 0 to {}",
                self.cardinalities.len() as i64 - 1
            )));
        }
        if let Some(v) = table::first_repeated(scope) {
            return Err(Error::model(format!("factor {f} names variable {v} twice")));
        }
        let size = table::size(scope.iter().map(|&v| self.cardinalities[v]));
        if size != Some(log_values.len()) {
            return Err(Error::model(format!(
                "factor {f} has {} values, but its scope {scope:?} needs {}",
                log_values.len(),
                size.map_or("more than fit in memory".into(), |size| size.to_string())
            )));
        }
        if let Some(i) = log_values.iter().position(|x| x.is_nan() || *x == f64::INFINITY) {
            return Err(Error::model(format!(
                "factor {f} has the log value {} at entry {i}; it must be finite or -inf",
                log_values[i]
            )));
        }
        let magnitude = self.magnitude + largest_finite(log_values);
        if magnitude > MAGNITUDE {
            return Err(Error::model(format!(
                "with factor {f} the log values can add up to {magnitude:e}, beyond what can be computed with"
            )));
        }
        self.magnitude = magnitude;
        self.has_changed();
        self.scopes.extend_from_slice(scope);
        self.scope_ends.push(self.scopes.len());
        self.values.extend_from_slice(log_values);
        self.value_ends.push(self.values.len());
        Ok(self)
    }

    /// Names the variables and their states.
    ///
    /// # Errors
    /// As [`Names::new`].
    pub fn with_names(mut self, variables: Vec<String>, states: Vec<Vec<String>>) -> Result<Self> {
        self.names = Some(Names::new(variables, states, &self.cardinalities)?);
        Ok(self)
    }

    /// Declares whether the factors are conditional probability tables with the child last.
    pub fn with_network_type(mut self, form: NetworkType) -> Self {
        self.form = form;
        self
    }

    /// The number of variables.
    pub fn variable_count(&self) -> usize {
        self.cardinalities.len()
    }

    /// The number of factors.
    pub fn factor_count(&self) -> usize {
        self.scope_ends.len()
    }

    /// The number of states of each variable.
    pub fn cardinalities(&self) -> &[usize] {
        &self.cardinalities
    }

    /// Factor `f`.
    pub fn factor(&self, f: usize) -> Factor<'_> {
        let start = |ends: &[usize]| if f == 0 { 0 } else { ends[f - 1] };
        Factor {
            scope: &self.scopes[start(&self.scope_ends)..self.scope_ends[f]],
            log_values: &self.values[start(&self.value_ends)..self.value_ends[f]],
        }
    }

    /// All factors.
    pub fn factors(&self) -> impl ExactSizeIterator<Item = Factor<'_>> {
        (0..self.factor_count()).map(|f| self.factor(f))
    }

    /// The axis lengths of a table over `scope`.
    pub(crate) fn lengths(&self, scope: &[usize]) -> Vec<usize> {
        scope.iter().map(|&v| self.cardinalities[v]).collect()
    }

    /// The names, if the model has any.
    pub fn names(&self) -> Option<&Names> {
        self.names.as_ref()
    }

    /// The meaning of the factors.
    pub fn network_type(&self) -> NetworkType {
        self.form
    }

    /// The name of variable `v`; `x3` if it is unnamed.
    pub fn variable_name(&self, v: usize) -> String {
        self.names.as_ref().map_or_else(|| format!("x{v}"), |names| names.variables()[v].clone())
    }

    /// The name of state `s` of variable `v`; its number if it is unnamed.
    pub fn state_name(&self, v: usize, s: usize) -> String {
        let name = self.names.as_ref().and_then(|names| names.states(v).get(s));
        name.cloned().unwrap_or_else(|| s.to_string())
    }

    /// The variable with this name; an unnamed one is `x3` or `3`.
    pub fn find_variable(&self, name: &str) -> Option<usize> {
        let named = self.names.as_ref().and_then(|names| names.variables().iter().position(|n| n == name));
        let number = || name.strip_prefix('x').unwrap_or(name).parse().ok();
        named.or_else(number).filter(|&v| v < self.variable_count())
    }

    /// The state of variable `v` with this name or number.
    pub fn find_state(&self, v: usize, name: &str) -> Option<usize> {
        let named = self.names.as_ref().and_then(|names| names.states(v).iter().position(|n| n == name));
        named.or_else(|| name.parse().ok()).filter(|&s| s < self.cardinalities[v])
    }

    /// Σ_f θ_f(x_f), the log weight of a state.
    ///
    /// # Panics
    /// If `state` does not contain one state in range for every variable.
    pub fn score(&self, state: &[usize]) -> f64 {
        assert_eq!(state.len(), self.variable_count(), "one state a variable");
        self.factors().map(|factor| factor.log_values[self.entry(factor.scope, state)]).sum()
    }

    /// The index of the entry selected by `state` in a table over `scope`.
    pub(crate) fn entry(&self, scope: &[usize], state: &[usize]) -> usize {
        scope.iter().fold(0, |index, &v| index * self.cardinalities[v] + state[v])
    }

    /// ln |X|, the log number of states.
    pub fn log_state_count(&self) -> f64 {
        self.cardinalities.iter().map(|&states| (states as f64).ln()).sum()
    }

    /// The memory of the model, in bytes.
    pub fn bytes(&self) -> usize {
        let words = self.cardinalities.len() + self.scopes.len() + 2 * self.scope_ends.len();
        8 * (words + self.values.len())
    }

    /// An upper bound on |log weight| of any possible state and on |log Z|: Σ_f max |θ_f| + ln |X|, without
    /// entries −∞.
    pub(crate) fn magnitude(&self) -> f64 {
        self.magnitude + self.log_state_count()
    }

    /// The same graph with other tables, concatenated in factor order.
    ///
    /// Exact methods use the same elimination order for all such graphs and compute it once per cache.
    ///
    /// # Errors
    /// If the number of log-values is wrong, or a log-value is NaN, +∞ or too large.
    ///
    /// ```
    /// # use zhat::FactorGraph;
    /// let mut graph = FactorGraph::new(vec![2, 2])?;
    /// graph.add_factor(&[0], &[0.0, 0.0])?;
    /// graph.add_factor(&[0, 1], &[0.0; 4])?;
    /// let other = graph.reweighted(&[1.0, 2.0, 0.1, 0.2, 0.3, 0.4])?;
    /// assert_eq!(other.factor(1).log_values, [0.1, 0.2, 0.3, 0.4]);
    /// # Ok::<(), zhat::Error>(())
    /// ```
    pub fn reweighted(&self, log_values: &[f64]) -> Result<FactorGraph> {
        if log_values.len() != self.values.len() {
            let (found, wanted) = (log_values.len(), self.values.len());
            return Err(Error::model(format!("found {found} log values for tables of {wanted} entries")));
        }
        let mut graph = FactorGraph {
            names: self.names.clone(),
            form: self.form,
            ..FactorGraph::new(self.cardinalities.clone())?
        };
        let mut start = 0;
        for f in 0..self.factor_count() {
            graph.add_factor(self.factor(f).scope, &log_values[start..self.value_ends[f]])?;
            start = self.value_ends[f];
        }
        (graph.structure, graph.is_reweighted) = (self.structure.clone(), true);
        Ok(graph)
    }

    /// The key of cached results about this graph.
    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The key of cached results shared by all graphs made from the same one by [`FactorGraph::reweighted`],
    /// if this is such a graph.
    pub(crate) fn shared_structure(&self) -> Option<&Identity> {
        self.is_reweighted.then_some(&self.structure)
    }

    /// Invalidates cached results about the graph.
    fn has_changed(&mut self) {
        self.identity.renew();
        self.structure.renew();
        self.is_reweighted = false;
    }

    /// True if any factor forbids a combination of states.
    pub(crate) fn has_zeros(&self) -> bool {
        self.values.contains(&f64::NEG_INFINITY)
    }

    /// The sum of the lengths of all scopes.
    pub(crate) fn scope_entries(&self) -> usize {
        self.scopes.len()
    }

    /// Removes the marked variables and factors; no remaining factor may contain a removed variable. Returns
    /// the new indices of the variables.
    pub(crate) fn leave_out(&mut self, variables: &[bool], factors: &[bool]) -> Vec<Option<usize>> {
        let mut left = 0..;
        let numbers: Vec<Option<usize>> =
            variables.iter().map(|&gone| if gone { None } else { left.next() }).collect();
        let (mut scope_start, mut value_start, mut scope_len, mut value_len) = (0, 0, 0, 0);
        let (mut scope_ends, mut value_ends) = (Vec::new(), Vec::new());
        self.magnitude = 0.0;
        for (f, &gone) in factors.iter().enumerate() {
            let (scope_end, value_end) = (self.scope_ends[f], self.value_ends[f]);
            if !gone {
                self.magnitude += largest_finite(&self.values[value_start..value_end]);
                for i in scope_start..scope_end {
                    self.scopes[scope_len] = numbers[self.scopes[i]].unwrap_or_default();
                    scope_len += 1;
                }
                self.values.copy_within(value_start..value_end, value_len);
                value_len += value_end - value_start;
                scope_ends.push(scope_len);
                value_ends.push(value_len);
            }
            (scope_start, value_start) = (scope_end, value_end);
        }
        self.scopes.truncate(scope_len);
        self.values.truncate(value_len);
        (self.scope_ends, self.value_ends) = (scope_ends, value_ends);
        let mut gone = variables.iter();
        self.cardinalities.retain(|_| gone.next() == Some(&false));
        self.has_changed();
        self.cuts.clear();
        self.uncertain.clear();
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_models_are_refused_with_the_reason() {
        let message = |result: Result<&mut FactorGraph>| result.unwrap_err().to_string();
        assert!(FactorGraph::new(vec![2, 0]).unwrap_err().to_string().contains("variable 1 has 0 states"));
        let mut graph = FactorGraph::new(vec![2, 3]).unwrap();
        assert!(message(graph.add_factor(&[0, 2], &[0.0; 6])).contains("variables are 0 to 1"));
        assert!(message(graph.add_factor(&[0, 0], &[0.0; 4])).contains("twice"));
        assert!(message(graph.add_factor(&[0, 1], &[0.0; 5])).contains("5 values"));
        assert!(message(graph.add_factor(&[0], &[0.0, f64::NAN])).contains("NaN"));
        assert!(message(graph.add_factor(&[0], &[f64::INFINITY, 0.0])).contains("inf"));
        assert_eq!(graph.factor_count(), 0);
    }

    #[test]
    fn huge_scopes_are_refused_before_any_product_overflows() {
        let mut graph = FactorGraph::new(vec![1 << 24; 3]).unwrap();
        assert!(graph.add_factor(&[0, 1, 2], &[0.0]).unwrap_err().to_string().contains("more than fit"));
    }

    #[test]
    fn the_number_of_states_has_a_limit_that_no_machine_changes() {
        let message = |states: Vec<usize>| FactorGraph::new(states).unwrap_err().to_string();
        assert!(FactorGraph::new(vec![1 << 28; 16]).is_ok());
        assert!(
            message(vec![2, (1 << 28) + 1]).contains("variable 1 has 268435457 states; at most 268435456")
        );
        assert!(message(vec![usize::MAX; 2]).contains("at most 268435456"));
        assert!(message(vec![1 << 28; 17]).contains("4563402752 states together; at most 4294967296"));
    }

    #[test]
    fn names_are_found_and_checked() {
        let graph = FactorGraph::new(vec![2, 2]).unwrap();
        let names = |a: &str, b: &str| vec![a.to_string(), b.to_string()];
        assert!(graph.clone().with_names(names("a", "a"), vec![vec![], vec![]]).is_err());
        assert!(graph.clone().with_names(names("a", "b"), vec![names("s", "s"), vec![]]).is_err());
        let graph = graph.with_names(names("a", "b"), vec![names("no", "yes"), vec![]]).unwrap();
        assert_eq!(graph.find_variable("b"), Some(1));
        assert_eq!(graph.find_variable("x1"), Some(1));
        assert_eq!(graph.find_variable("c"), None);
        assert_eq!((graph.find_state(0, "yes"), graph.find_state(1, "1")), (Some(1), Some(1)));
        assert_eq!((graph.find_state(0, "2"), graph.state_name(0, 0)), (None, "no".into()));
    }
}
