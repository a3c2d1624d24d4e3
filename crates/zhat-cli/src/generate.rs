//! `zhat generate`: random models.

use std::io::IsTerminal as _;
use std::path::Path;

use zhat::internal::units;
use zhat::io;
use zhat::model::generate::{
    self, ChainShape, GraphShape, Grid, PairwiseShape, SentenceShape, SequenceMrfShape, Sharpness,
    TransitionForm,
};
use zhat::model::{Family, TreeShape};
use zhat::{Error, Model, Result};

use crate::arguments::{
    ChainArguments, Form, Generate, GenerateArguments, GridArguments, Precision, SharpnessArgument,
    SpaceArguments,
};
use crate::load;
use crate::output::Exit;

pub fn run(arguments: &GenerateArguments) -> Result<Exit> {
    let model = model(&arguments.what, arguments.seed)?;
    refuse_flood(&model, &arguments.output)?;
    io::write_model(&model, &arguments.output)?;
    Ok(Exit::Answered)
}

/// The most bytes that are printed on a terminal without being asked for by name.
const MOST_ON_TERMINAL: f64 = 64.0 * 1024.0;

/// An error if a large model would be printed on a terminal.
fn refuse_flood(model: &Model, output: &Path) -> Result<()> {
    let numbers: usize = model.tensors().iter().map(|tensor| tensor.data().len()).sum();
    // A number takes about 20 characters.
    let bytes = 20.0 * numbers as f64;
    if output == Path::new("-") && std::io::stdout().is_terminal() && bytes > MOST_ON_TERMINAL {
        let message = format!("the model is about {} of text; write it to a file", units::bytes(bytes));
        return Err(Error::argument("-o", message));
    }
    Ok(())
}

fn model(what: &Generate, seed: u64) -> Result<Model> {
    let shape = |grid: &GridArguments| Grid { rows: grid.rows, columns: grid.columns, torus: grid.torus };
    Ok(match *what {
        Generate::Ising(ref grid) => {
            generate::ising(shape(grid), grid.coupling, grid.field, grid.uniform, seed)?.into()
        }
        Generate::Potts { ref grid, states } => {
            generate::potts(shape(grid), states, grid.coupling, grid.field, grid.uniform, seed)?.into()
        }
        Generate::Tree { variables, states, strength } => {
            generate::tree(variables, states, strength, seed)?.into()
        }
        Generate::Random { variables, states, factors, arity, strength, zeros } => {
            generate::random(&GraphShape { variables, states, factors, arity, strength, zeros }, seed)?.into()
        }
        Generate::Bayes { variables, states, parents, deterministic } => {
            generate::bayes(variables, states, parents, deterministic, seed)?.into()
        }
        Generate::Chain(ref chain) => match chain.precision {
            Precision::F32 => generate::chain::<f32>(&chain_shape(chain), seed)?.into(),
            Precision::F64 => generate::chain::<f64>(&chain_shape(chain), seed)?.into(),
        },
        Generate::SemiMarkov { ref chain, longest } => match chain.precision {
            Precision::F32 => generate::semi_markov::<f32>(&chain_shape(chain), longest, seed)?.into(),
            Precision::F64 => generate::semi_markov::<f64>(&chain_shape(chain), longest, seed)?.into(),
        },
        Generate::Dependency {
            words,
            batch,
            ragged,
            labels,
            any_tree,
            single_root,
            strength,
            zeros,
            precision,
        } => {
            let trees = TreeShape { projective: !any_tree, single_root };
            let shape = SentenceShape { words, batch, ragged, labels, trees, strength, zeros };
            match precision {
                Precision::F32 => generate::dependency::<f32>(&shape, seed)?.into(),
                Precision::F64 => generate::dependency::<f64>(&shape, seed)?.into(),
            }
        }
        Generate::Hypertree(ref sentences) => match sentences.precision {
            Precision::F32 => generate::hypertree::<f32>(&sentences.shape(), seed)?.into(),
            Precision::F64 => generate::hypertree::<f64>(&sentences.shape(), seed)?.into(),
        },
        Generate::Grammar(ref grammar) => generate::grammar(&grammar.shape(), seed)?.into(),
        Generate::Pairwise {
            rows,
            columns,
            tree,
            states,
            interactions,
            rank,
            strength,
            coupling,
            precision,
        } => {
            let interactions = transition_form(interactions, rank, false);
            let shape = PairwiseShape { rows, columns, tree, states, interactions, strength, coupling };
            match precision {
                Precision::F32 => generate::pairwise::<f32>(&shape, seed)?.into(),
                Precision::F64 => generate::pairwise::<f64>(&shape, seed)?.into(),
            }
        }
        Generate::Continuous { ref family, ref parameters, low, high } => {
            let bounds = |usual: (f64, f64)| (low.unwrap_or(usual.0), high.unwrap_or(usual.1));
            if family == "mixture" {
                let classes = parameters.first().map_or(3, |&classes| classes.max(1.0) as usize);
                return Ok(generate::gaussian_mixture(classes, bounds((-10.0, 10.0)), seed)?.into());
            }
            let parameters: &[f64] = match (family.as_str(), parameters.as_slice()) {
                ("gaussian" | "log-normal" | "laplace", []) => &[0.0, 1.0],
                ("dirichlet", []) => &[1.0, 2.0, 3.0],
                ("exponential" | "chi-squared" | "pareto" | "poisson", []) => &[2.0],
                (_, []) => &[2.0, 1.0],
                (_, given) => given,
            };
            let family = Family::named(family, parameters)?;
            family.on(bounds(family.usual_box()))?.into()
        }
        Generate::SequenceMrf { length, states, context, rank, strength, coupling } => {
            let shape = SequenceMrfShape { length, states, context, rank, strength, coupling };
            generate::sequence_mrf(&shape, seed)?.into()
        }
        Generate::Hypercube(ref space) => random_space("hypercube", space, seed)?,
        Generate::Permutation(ref space) => random_space("permutation", space, seed)?,
        Generate::Subtree(ref space) => random_space("subtree", space, seed)?,
        Generate::Cycle(ref space) => random_space("cycle", space, seed)?,
        Generate::Partition(ref space) => random_space("partition", space, seed)?,
        Generate::RdpChain { states, steps, rank, sharpness, precision } => {
            let sharpness = match sharpness {
                SharpnessArgument::Dense => Sharpness::Dense,
                SharpnessArgument::Intermediate => Sharpness::Intermediate,
                SharpnessArgument::LongTailed => Sharpness::LongTailed,
            };
            match precision {
                Precision::F32 => generate::rdp_chain::<f32>(states, steps, rank, sharpness, seed)?.into(),
                Precision::F64 => generate::rdp_chain::<f64>(states, steps, rank, sharpness, seed)?.into(),
            }
        }
    })
}

fn random_space(kind: &str, space: &SpaceArguments, seed: u64) -> Result<Model> {
    let model = generate::space(kind, space.size, &space.scores, space.strength, seed)?;
    load::condition(&model.into(), Vec::new(), &space.given)
}

fn chain_shape(arguments: &ChainArguments) -> ChainShape {
    ChainShape {
        states: arguments.states,
        steps: arguments.steps,
        batch: arguments.batch,
        ragged: arguments.ragged,
        transitions: transition_form(arguments.transitions, arguments.rank, arguments.tied),
        strength: arguments.strength,
        zeros: arguments.zeros,
    }
}

fn transition_form(form: Form, rank: usize, tied: bool) -> TransitionForm {
    match form {
        Form::Shared => TransitionForm::Shared,
        Form::PerStep => TransitionForm::PerStep,
        Form::PerSequence => TransitionForm::PerSequence,
        Form::Factored => TransitionForm::Factored { rank, tied },
        Form::LowRank => TransitionForm::LowRank { rank },
        Form::Sparse => TransitionForm::Sparse { entries: rank, per_step: false },
        Form::SparsePerStep => TransitionForm::Sparse { entries: rank, per_step: true },
        Form::Banded => TransitionForm::Banded { lower: rank, upper: rank },
    }
}
