//! `zhat repro`: reproduces the papers' tables and figures and prints the paper's values for comparison.

mod lifted;
mod lifted_cost;
mod lifted_fig5;
mod lifted_fig6;
mod lifted_rank;
mod lifted_table1;
mod lifted_table2;
mod mushroom;
mod rdp;
mod rdp_graph;
mod rdp_hypertree;
mod rdp_scaling;
mod rdp_table2;
mod rdp_table3;
mod rdp_table4;
mod rdp_trees;
mod rdp_vae;
mod rdp_variance;
mod sccq;
mod sccq_error;
mod sccq_fig2_1;
mod sccq_fig2_2;
mod structured;
mod structured_learning;

use std::path::Path;

use zhat::{Error, Result, Run};

use crate::arguments::ReproArguments;
use crate::output::{self, Exit};
use crate::progress;

/// A table or figure of a paper.
struct Experiment {
    name: &'static str,
    about: &'static str,
    run: fn(&Setting<'_>) -> Result<()>,
}

/// Settings of an experiment.
pub struct Setting<'a> {
    /// Independent runs of every estimator.
    pub runs: usize,
    /// Only the smaller models.
    pub quick: bool,
    /// Seed, threads, cancellation.
    pub run: Run,
    /// The folder for pictures.
    pub folder: &'a Path,
    /// The number of threads, if one was given.
    pub threads: Option<u16>,
    /// Options for another program.
    pub further: &'a [String],
}

impl Setting<'_> {
    /// Writes a picture and prints its path.
    pub fn picture(&self, name: &str, svg: &str) -> Result<()> {
        let path = self.folder.join(name);
        zhat::internal::io::write_atomically(&path, |out| out.write_all(svg.as_bytes()))?;
        output::print(&format!("\nThe picture is in {}.\n", path.display()))
    }
}

const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "rdp-table2",
        about: "Fu et al. 2022, Table 2: mean squared error of log Z and entropy of chains, and of log Z of trees",
        run: rdp_table2::run,
    },
    Experiment {
        name: "rdp-table3",
        about: "Fu et al. 2022, Table 3: bias and variance of the randomized forward algorithm, measured and predicted by Theorem B.1",
        run: rdp_table3::run,
    },
    Experiment {
        name: "rdp-table4",
        about: "Fu et al. 2022, Table 4: mean squared error by proposal",
        run: rdp_table4::run,
    },
    Experiment {
        name: "rdp-table5",
        about: "Fu et al. 2022, Table 5: negative log-likelihood of variational autoencoders for text; needs the program zhat-vae",
        run: rdp_vae::table5,
    },
    Experiment {
        name: "rdp-fig2",
        about: "Fu et al. 2022, Figure 2: frequencies of latent states, with a picture; needs the program zhat-vae",
        run: rdp_vae::figure2,
    },
    Experiment {
        name: "rdp-trees",
        about: "randomized inside on trees with scores of spans and rules of low rank: error by proposal, at equal K and at equal time",
        run: rdp_trees::run,
    },
    Experiment {
        name: "rdp-scaling",
        about: "time of the randomized and the exact forward algorithm for N = 10³ to 10⁶ states at fixed K, with a picture",
        run: rdp_scaling::run,
    },
    Experiment {
        name: "rdp-graph",
        about: "randomized belief propagation on a graph with cycles and 10⁵ states: error by the number of states kept",
        run: rdp_graph::run,
    },
    Experiment {
        name: "sccq-fig2-1",
        about: "Piatkowski & Morik 2018, Figure 2, first plot: time to normalise the tuple mass, with a picture",
        run: sccq_fig2_1::run,
    },
    Experiment {
        name: "sccq-fig2-2",
        about: "Piatkowski & Morik 2018, Figure 2, second plot: time to draw an index tuple, with a picture",
        run: sccq_fig2_2::run,
    },
    Experiment {
        name: "sccq-error",
        about: "stochastic quadrature, published and zhat: relative standard error at equal time on Ising grids, with a picture",
        run: sccq_error::run,
    },
    Experiment {
        name: "sccq-fig2-3",
        about: "Piatkowski & Morik 2018, Figure 2, third plot: mushroom data, negative log-likelihood by iteration, with a picture",
        run: mushroom::likelihoods,
    },
    Experiment {
        name: "sccq-fig2-4",
        about: "Piatkowski & Morik 2018, Figure 2, fourth plot: mushroom data, error of the marginals by iteration, with a picture",
        run: mushroom::marginals,
    },
    Experiment {
        name: "sccq-mushroom",
        about: "mushroom data, graph with cycles: log-likelihood of models fitted by sccq, bp, trw and the published quadrature",
        run: mushroom::cycles,
    },
    Experiment {
        name: "lifted-fig5",
        about: "Jernite et al. 2015, Figure 5: a text of twelve letters, trained by the exact likelihood and by the bounds, with a picture",
        run: lifted_fig5::run,
    },
    Experiment {
        name: "lifted-fig6",
        about: "Jernite et al. 2015, Figure 6: Penn Treebank, certified likelihood by training time, compared with a log-bilinear model, with a picture",
        run: lifted_fig6::run,
    },
    Experiment {
        name: "lifted-table1",
        about: "Jernite et al. 2015, Table 1: nearest neighbours by embedding, zhat and the paper",
        run: lifted_table1::run,
    },
    Experiment {
        name: "lifted-table2",
        about: "Jernite et al. 2015, Table 2: tagging accuracy of the joint model and of a hidden Markov model, English-EWT, and the cost of a step",
        run: lifted_table2::run,
    },
    Experiment {
        name: "lifted-rank",
        about: "Jernite et al. 2015: embeddings of several dimensions compared with full matrices, Penn Treebank",
        run: lifted_rank::run,
    },
    Experiment {
        name: "lifted-cost",
        about: "language models: time of counting and of a training step for a text and for ten copies of it, and memory bandwidth",
        run: lifted_cost::run,
    },
    Experiment {
        name: "structured-bounds",
        about: "Vembu et al. 2009: samples and time for the same guarantee, the paper's scheme and zhat",
        run: structured::bounds,
    },
    Experiment {
        name: "structured-cftp",
        about: "Vembu et al. 2009: expected and measured coupling times",
        run: structured::cftp,
    },
    Experiment {
        name: "structured-hardness",
        about: "Vembu et al. 2009, Theorem 2.1: deciding from log Z whether a graph is Hamiltonian",
        run: structured::hardness,
    },
    Experiment {
        name: "structured-learning",
        about: "Vembu et al. 2009, Eq. 1 and Section 5: batch, sampled and online learning of emotions, certified gap over time, with a picture",
        run: structured_learning::run,
    },
];

pub fn run(arguments: &ReproArguments) -> Result<Exit> {
    let Some(name) = &arguments.name else {
        let rows: Vec<Vec<String>> =
            EXPERIMENTS.iter().map(|e| vec![e.name.to_owned(), e.about.to_owned()]).collect();
        output::print(&output::table(&["name", "description"], &rows, usize::MAX))?;
        return Ok(Exit::Answered);
    };
    let experiment = EXPERIMENTS.iter().find(|experiment| experiment.name == name).ok_or_else(|| {
        let known: Vec<&str> = EXPERIMENTS.iter().map(|experiment| experiment.name).collect();
        Error::argument(
            "NAME",
            format!("there is no experiment `{name}`; the experiments are {}", known.join(", ")),
        )
    })?;
    if !arguments.further.is_empty() && !rdp_vae::NAMES.contains(&experiment.name) {
        return Err(Error::argument(
            "-- OPTION",
            format!("only {} take further options, those of `zhat-vae repro`", rdp_vae::NAMES.join(" and ")),
        ));
    }
    let mut run = Run::default().with_seed(arguments.seed);
    if let Some(threads) = arguments.threads {
        run = run.with_threads(threads.into());
    }
    (experiment.run)(&Setting {
        runs: arguments.runs,
        quick: arguments.quick,
        run: progress::attend(run),
        folder: &arguments.output,
        threads: arguments.threads,
        further: &arguments.further,
    })?;
    Ok(Exit::Answered)
}

/// A line of a Markdown table.
fn line(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

/// The first two lines of a Markdown table.
fn header(names: &[&str]) -> String {
    let cells: Vec<String> = names.iter().map(|&name| name.into()).collect();
    line(&cells) + &line(&vec!["---".into(); names.len()])
}

/// Three significant digits for numbers of any magnitude.
fn short(x: f64) -> String {
    let size = x.abs();
    if !x.is_finite() {
        return "unknown".into();
    }
    match size {
        0.0 => "0".into(),
        _ if size < 1e-3 => format!("{x:.1e}"),
        _ if size < 10.0 => format!("{x:.3}"),
        _ if size < 1000.0 => format!("{x:.1}"),
        _ => format!("{x:.0}"),
    }
}
