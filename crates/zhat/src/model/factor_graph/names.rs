//! Names of variables and their states.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

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

fn first_duplicate(names: &[String]) -> Option<&str> {
    let mut seen = HashMap::with_capacity(names.len());
    names.iter().find(|name| seen.insert(name.as_str(), ()).is_some()).map(String::as_str)
}
