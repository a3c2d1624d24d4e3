//! The structure of a Bayesian network: the parents of every variable.

use crate::error::{Error, Result};
use crate::io::network;
use crate::io::table::Column;
use crate::model::{FactorGraph, NetworkType, table};

/// Maximum number of entries of one table.
const MOST_ENTRIES: usize = 1 << 28;

/// The parents of every variable, in the order in which the tables list them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parents(Vec<Vec<usize>>);

impl Parents {
    /// The parents by variable.
    ///
    /// # Errors
    /// If a parent is not a variable, is its own child, or is given twice.
    pub fn new(parents: Vec<Vec<usize>>) -> Result<Self> {
        let n = parents.len();
        for (child, own) in parents.iter().enumerate() {
            let fail = |message: String| Err(Error::argument("parents", message));
            if let Some(parent) = own.iter().find(|&&parent| parent >= n) {
                return fail(format!(
                    "variable {child} has the parent {parent}, but there are {n} variables"
                ));
            }
            if own.contains(&child) {
                return fail(format!("variable {child} is its own parent"));
            }
            if let Some(parent) = table::first_repeated(own) {
                return fail(format!("variable {child} has the parent {parent} twice"));
            }
        }
        Ok(Parents(parents))
    }

    /// Parses `child=parent1,parent2`, once for each variable that has parents.
    ///
    /// # Errors
    /// If an item is not of this form, names an unknown column, or a child is given twice; also as
    /// [`Parents::new`].
    ///
    /// ```
    /// use zhat::learn::{Column, Parents};
    /// let column = |name: &str| Column { name: name.into(), states: vec!["no".into(), "yes".into()] };
    /// let columns = [column("rain"), column("sprinkler"), column("wet")];
    /// let parents = Parents::parse(&["wet=rain,sprinkler"], &columns)?;
    /// assert_eq!(parents.of(2), [0, 1]);
    /// # Ok::<(), zhat::Error>(())
    /// ```
    pub fn parse(items: &[impl AsRef<str>], columns: &[Column]) -> Result<Self> {
        let fail = |message: String| Error::argument("parents", message);
        let find = |name: &str| {
            let found = columns.iter().position(|column| column.name == name);
            found.ok_or_else(|| {
                let known: Vec<&str> = columns.iter().take(20).map(|column| column.name.as_str()).collect();
                let more = if columns.len() > 20 { ", …" } else { "" };
                fail(format!("there is no column `{name}`; there are {}{more}", known.join(", ")))
            })
        };
        let mut parents = vec![Vec::new(); columns.len()];
        let mut given = vec![false; columns.len()];
        for item in items {
            let item = item.as_ref();
            let (child, own) = item
                .split_once('=')
                .ok_or_else(|| fail(format!("expected child=parent1,parent2, found `{item}`")))?;
            let child = find(child.trim())?;
            if std::mem::replace(&mut given[child], true) {
                return Err(fail(format!("column {} is a child twice", columns[child].name)));
            }
            let names = own.split(',').map(str::trim).filter(|name| !name.is_empty());
            parents[child] = names.map(find).collect::<Result<_>>()?;
            if let Some(parent) = table::first_repeated(&parents[child]) {
                let (child, parent) = (&columns[child].name, &columns[parent].name);
                return Err(fail(format!("column {child} has the parent {parent} twice")));
            }
            if parents[child].contains(&child) {
                return Err(fail(format!("column {} is its own parent", columns[child].name)));
            }
        }
        Parents::new(parents)
    }

    /// The parents of a variable.
    pub fn of(&self, child: usize) -> &[usize] {
        &self.0[child]
    }

    /// A Bayesian network with this structure over these columns, with uniform tables.
    ///
    /// # Errors
    /// If the number of columns differs, two names are equal, a table is too large, or a variable is its own
    /// ancestor.
    pub fn network(&self, columns: &[Column]) -> Result<FactorGraph> {
        if columns.len() != self.0.len() {
            let (own, found) = (self.0.len(), columns.len());
            return Err(Error::argument(
                "parents",
                format!("are of {own} variables, and the table has {found} columns"),
            ));
        }
        let mut graph = FactorGraph::new(columns.iter().map(|column| column.states.len()).collect())?;
        for (child, parents) in self.0.iter().enumerate() {
            let scope: Vec<usize> = parents.iter().copied().chain([child]).collect();
            let size = table::size(graph.lengths(&scope)).filter(|&size| size <= MOST_ENTRIES);
            let size = size.ok_or_else(|| {
                let name = &columns[child].name;
                let message = format!(
                    "the table of {name} given its {} parents would have more than {MOST_ENTRIES} entries",
                    parents.len()
                );
                Error::argument("parents", message)
            })?;
            let uniform = -(columns[child].states.len() as f64).ln();
            graph.add_factor(&scope, &vec![uniform; size])?;
        }
        let names = columns.iter().map(|column| column.name.clone()).collect();
        let states = columns.iter().map(|column| column.states.clone()).collect();
        let graph = graph.with_names(names, states)?.with_network_type(NetworkType::Bayes);
        check_network(&graph, "parents")?;
        Ok(graph)
    }
}

/// Checks that a graph is a Bayesian network, given as this argument.
pub(super) fn check_network(graph: &FactorGraph, argument: &str) -> Result<()> {
    match network::why_not_a_network(graph) {
        Some(reason) => Err(Error::argument(argument, format!("expected a Bayesian network, but {reason}"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> Vec<Column> {
        let column = |name: &str| Column { name: name.into(), states: vec!["a".into(), "b".into()] };
        ["x", "y", "z"].map(column).to_vec()
    }

    #[test]
    fn bad_structures_are_refused_with_the_reason() {
        let message = |items: &[&str]| {
            let network = Parents::parse(items, &columns()).and_then(|parents| parents.network(&columns()));
            network.unwrap_err().to_string()
        };
        assert!(message(&["x=y", "y=z", "z=x"]).contains("is its own ancestor"));
        assert!(message(&["x=y", "x=z"]).contains("column x is a child twice"));
        assert!(message(&["x=y,y"]).contains("column x has the parent y twice"));
        assert!(message(&["x=x"]).contains("column x is its own parent"));
        assert!(message(&["x=w"]).contains("no column `w`; there are x, y, z"));
        assert!(message(&["x"]).contains("expected child=parent1,parent2"));
        assert!(Parents::new(vec![vec![1]]).is_err());
        let network = Parents::parse(&["z = y, x"], &columns()).unwrap().network(&columns()).unwrap();
        assert_eq!(network.factor(2).scope, [1, 0, 2]);
    }
}
