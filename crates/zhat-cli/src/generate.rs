//! `zhat generate`: random models.

use zhat::io;
use zhat::model::generate::{self, Grid};
use zhat::{FactorGraph, Result};

use crate::arguments::{Generate, GenerateArguments, GridArguments};
use crate::output::Exit;

pub fn run(arguments: &GenerateArguments) -> Result<Exit> {
    io::write_model(&model(&arguments.what, arguments.seed)?.into(), &arguments.output)?;
    Ok(Exit::Answered)
}

fn model(what: &Generate, seed: u64) -> Result<FactorGraph> {
    let shape = |grid: &GridArguments| Grid { rows: grid.rows, columns: grid.columns, torus: grid.torus };
    match *what {
        Generate::Ising(ref grid) => {
            generate::ising(shape(grid), grid.coupling, grid.field, grid.uniform, seed)
        }
        Generate::Potts { ref grid, states } => {
            generate::potts(shape(grid), states, grid.coupling, grid.field, grid.uniform, seed)
        }
        Generate::Tree { variables, states, strength } => generate::tree(variables, states, strength, seed),
        Generate::Random { variables, states, factors, arity, strength, zeros } => {
            generate::random(variables, states, factors, arity, strength, zeros, seed)
        }
        Generate::Bayes { variables, states, parents, deterministic } => {
            generate::bayes(variables, states, parents, deterministic, seed)
        }
    }
}
