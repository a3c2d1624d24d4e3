//! Names of variables and their states.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::FactorGraph;
use crate::error::{Error, Result};
use crate::suggest;

/// Names of the variables of a model, and optionally of their states.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Names {
    variables: Vec<String>,
    /// One list per variable; an empty list means numbered states.
    states: Vec<Vec<String>>,
}

impl Names {
    /// Checks that there is one name per variable, that names are unique, and that each variable has names
    /// for none or all of its states.
    ///
    /// # Errors
    /// If one of these conditions does not hold.
    pub fn new(variables: Vec<String>, states: Vec<Vec<String>>, cardinalities: &[usize]) -> Result<Self> {
        if variables.len() != cardinalities.len() || states.len() != cardinalities.len() {
            return Err(Error::model(format!(
                "there are {} variables, but {} names and {} lists of state names",
                cardinalities.len(),
                variables.len(),
                states.len()
            )));
        }
        if let Some(name) = first_duplicate(&variables) {
            return Err(Error::model(format!("two variables have the name `{name}`")));
        }
        for ((name, states), &cardinality) in variables.iter().zip(&states).zip(cardinalities) {
            if !states.is_empty() && states.len() != cardinality {
                return Err(Error::model(format!(
                    "variable `{name}` has {cardinality} states, but {} state names",
                    states.len()
                )));
            }
            if let Some(state) = first_duplicate(states) {
                return Err(Error::model(format!("variable `{name}` has two states named `{state}`")));
            }
        }
        Ok(Names { variables, states })
    }

    /// The names of the variables and the lists of state names.
    pub(crate) fn into_parts(self) -> (Vec<String>, Vec<Vec<String>>) {
        (self.variables, self.states)
    }

    /// The names of the variables.
    pub fn variables(&self) -> &[String] {
        &self.variables
    }

    /// The names of variable `v`'s states; empty if they are numbered.
    pub fn states(&self, v: usize) -> &[String] {
        &self.states[v]
    }
}

impl FactorGraph {
    /// The variable with this name, as [`FactorGraph::find_variable`]; blanks around the name are ignored.
    ///
    /// # Errors
    /// If there is none; the message suggests a similar name.
    pub fn variable_named(&self, name: &str) -> Result<usize> {
        // A file may have names with blanks at the ends.
        let found = self.find_variable(name).or_else(|| self.find_variable(name.trim()));
        found.ok_or_else(|| {
            let names: Vec<String> = (0..self.variable_count()).map(|v| self.variable_name(v)).collect();
            let known: Vec<&str> = names.iter().map(String::as_str).collect();
            let hint = suggest::hint(name.trim(), &known);
            Error::argument("evidence", format!("there is no variable `{}`{hint}", name.trim()))
        })
    }

    /// The state of variable `v` with this name or number; blanks around the name are ignored.
    ///
    /// # Errors
    /// If there is none; the message suggests a similar name.
    ///
    /// # Panics
    /// If there is no variable `v`.
    pub fn state_named(&self, v: usize, name: &str) -> Result<usize> {
        let found = self.find_state(v, name).or_else(|| self.find_state(v, name.trim()));
        found.ok_or_else(|| {
            let names: Vec<String> = (0..self.cardinalities()[v]).map(|s| self.state_name(v, s)).collect();
            let known: Vec<&str> = names.iter().map(String::as_str).collect();
            let (variable, hint) = (self.variable_name(v), suggest::hint(name.trim(), &known));
            let message = format!("variable `{variable}` has no state `{}`{hint}", name.trim());
            Error::argument("evidence", message)
        })
    }
}

fn first_duplicate(names: &[String]) -> Option<&str> {
    let mut seen = HashMap::with_capacity(names.len());
    names.iter().find(|name| seen.insert(name.as_str(), ()).is_some()).map(String::as_str)
}
