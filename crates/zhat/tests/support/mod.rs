//! Shared test helpers: reference models, small random models, an oracle and statistical tests.
#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

pub mod double_double;
pub mod input;
pub mod oracle;
pub mod parses;
pub mod sequences;
pub mod statistics;
pub mod structures;
pub mod trees;

use std::path::PathBuf;

use zhat::model::generate::{self, GraphShape};
use zhat::random::Streams;
use zhat::sampling::ImportanceProposal;
use zhat::{Entropy, FactorGraph, FactorMarginals, LogPartition, Map, Marginals, Run, Sample};

/// A method that supports every query on factor graphs.
pub trait Method:
    LogPartition<FactorGraph>
    + Marginals<FactorGraph>
    + Entropy<FactorGraph>
    + Map<FactorGraph>
    + Sample<FactorGraph>
{
    /// `self`, if the method also computes factor marginals.
    fn factors(&self) -> Option<&dyn FactorMarginals<FactorGraph>>;
}

impl Method for zhat::exact::Elimination {
    fn factors(&self) -> Option<&dyn FactorMarginals<FactorGraph>> {
        Some(self)
    }
}

impl Method for zhat::exact::Enumeration {
    fn factors(&self) -> Option<&dyn FactorMarginals<FactorGraph>> {
        Some(self)
    }
}

impl Method for zhat::exact::Search {
    fn factors(&self) -> Option<&dyn FactorMarginals<FactorGraph>> {
        None
    }
}

/// The proposals of importance sampling.
pub const PROPOSALS: [ImportanceProposal; 2] = [ImportanceProposal::Tree, ImportanceProposal::Uniform];

/// The exact methods.
pub fn exact_methods() -> [(&'static str, Box<dyn Method>); 3] {
    [
        ("elimination", Box::new(zhat::exact::Elimination::default())),
        ("search", Box::new(zhat::exact::Search::default())),
        ("enumeration", Box::new(zhat::exact::Enumeration::default())),
    ]
}

/// The folder named by `ZHAT_DATA`. If it is not set, the calling test prints what it skips and passes.
pub fn data(test: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("ZHAT_DATA").map(PathBuf::from);
    if folder.is_none() {
        eprintln!("skipped: {test} needs ZHAT_DATA");
    }
    folder
}

/// One line of `uai/INDEX.tsv`.
pub struct Reference {
    pub path: PathBuf,
    pub log10_partition: Option<f64>,
    pub log2_max_clique: f64,
}

/// The models of the index whose largest clique has at most 2^`limit` entries.
pub fn references(test: &str, limit: f64) -> Vec<Reference> {
    let Some(data) = data(test) else {
        return Vec::new();
    };
    let index = std::fs::read_to_string(data.join("uai/INDEX.tsv")).unwrap();
    let header: Vec<&str> = index.lines().next().unwrap().split('\t').collect();
    let column = |name: &str| header.iter().position(|h| *h == name).unwrap();
    let rows = index.lines().skip(1).map(|line| {
        let cells: Vec<&str> = line.split('\t').collect();
        Reference {
            path: data.join("uai").join(cells[column("family")]).join(cells[column("name")]),
            log10_partition: cells[column("ref_log10PR")].parse().ok(),
            log2_max_clique: cells[column("log2_max_clique")].parse().unwrap_or(f64::INFINITY),
        }
    });
    let found: Vec<Reference> = rows.filter(|row| row.log2_max_clique <= limit).collect();
    assert!(!found.is_empty(), "no model in the index");
    found
}

impl Reference {
    /// The model with its evidence.
    pub fn model(&self) -> FactorGraph {
        let model = zhat::io::read_model(&self.path).unwrap();
        let graph = model.get::<FactorGraph>().unwrap().clone();
        let evidence = self.beside("evid");
        if !evidence.exists() {
            return graph;
        }
        graph.condition(&zhat::io::uai::read_evidence(&evidence, &graph).unwrap()).unwrap()
    }

    /// The reference marginals, if there are any.
    pub fn marginals(&self) -> Option<Vec<Vec<f64>>> {
        let text = std::fs::read_to_string(self.beside("MAR")).ok()?;
        let mut numbers = text.split_whitespace().skip(1).map(|token| token.parse::<f64>().unwrap());
        let n = numbers.next()? as usize;
        Some(
            (0..n)
                .map(|_| (0..numbers.next().unwrap() as usize).map(|_| numbers.next().unwrap()).collect())
                .collect(),
        )
    }

    /// The path of the model file with `ending` appended.
    pub fn beside(&self, ending: &str) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(".");
        name.push(ending);
        name.into()
    }
}

/// Small named models of every shape that has caused errors before.
pub fn small_models(count: u64) -> Vec<(String, FactorGraph)> {
    let mut models = Vec::new();
    for seed in 0..count {
        let pick = |k: u64| (seed / 7 + k) as usize;
        let (kind, model) = match seed % 7 {
            0 => (
                "pairwise",
                generate::random(
                    &GraphShape {
                        variables: 7,
                        states: 2 + pick(0) % 2,
                        factors: 9,
                        strength: 1.5,
                        ..Default::default()
                    },
                    seed,
                ),
            ),
            1 => (
                "zeros",
                generate::random(
                    &GraphShape {
                        variables: 6,
                        states: 3,
                        factors: 7,
                        arity: 3,
                        zeros: 0.6,
                        ..Default::default()
                    },
                    seed,
                ),
            ),
            2 => (
                "huge scores",
                generate::random(
                    &GraphShape { variables: 6, factors: 8, strength: 1e4, ..Default::default() },
                    seed,
                ),
            ),
            3 => (
                "grid",
                generate::ising(generate::Grid { rows: 3, columns: 3, torus: true }, 2.0, 1.0, false, seed),
            ),
            4 => ("network", generate::bayes(7, 2 + pick(1) % 2, 3, 0.5, seed)),
            5 => ("tree", generate::tree(8, 2, 3.0, seed)),
            _ => (
                "potts",
                generate::potts(
                    generate::Grid { rows: 2, columns: 4, torus: false },
                    3,
                    1.0,
                    0.0,
                    true,
                    seed,
                ),
            ),
        };
        models.push((format!("{kind} {seed}"), model.unwrap()));
    }
    let mut odd = FactorGraph::new(vec![1, 3, 1, 2]).unwrap(); // one state, no neighbours
    odd.add_factor(&[0, 1], &[0.5, f64::NEG_INFINITY, -2.0]).unwrap();
    odd.add_factor(&[], &[7.25]).unwrap();
    odd.add_factor(&[2], &[-1e4]).unwrap();
    models.push(("odd".into(), odd));
    models.push(("empty".into(), FactorGraph::new(vec![]).unwrap()));
    models.push(("free".into(), FactorGraph::new(vec![3, 2, 4]).unwrap()));
    let mut ties = FactorGraph::new(vec![2, 2]).unwrap();
    ties.add_factor(&[0, 1], &[1.0, 0.0, 0.0, 1.0]).unwrap();
    models.push(("ties".into(), ties));
    let mut repeated = FactorGraph::new(vec![3, 2, 2]).unwrap();
    for scope in [[0, 1], [1, 0], [1, 2], [0, 2]] {
        let values: Vec<f64> = (0..repeated.cardinalities()[scope[0]] * repeated.cardinalities()[scope[1]])
            .map(|i| (i as f64).sin())
            .collect();
        repeated.add_factor(&scope, &values).unwrap();
    }
    models.push(("repeated scopes".into(), repeated));
    // Scopes not in variable order, each table with one zero, and their reductions after impossible states
    // are removed.
    let mut backward = FactorGraph::new(vec![2, 3, 1, 2, 3]).unwrap();
    for (scope, dead) in [(vec![4, 2, 0, 1], 5), (vec![3, 1], 0), (vec![3, 4], 4), (vec![4], 2)] {
        let size = scope.iter().map(|&v: &usize| backward.cardinalities()[v]).product();
        let mut values: Vec<f64> = (0..size).map(|i| (3.0 * i as f64).cos()).collect();
        values[dead] = f64::NEG_INFINITY;
        backward.add_factor(&scope, &values).unwrap();
    }
    models.push(("backward scopes".into(), backward));
    models
}

/// Complete graphs over variables of different cardinalities: one clique with all variables, large enough to
/// exercise tiling and threads.
pub fn wide_models(count: u64) -> Vec<(String, FactorGraph)> {
    let mut models = Vec::new();
    for seed in 0..count {
        let mut random = Streams::new(seed, "wide models").block(0);
        let mut cardinalities = vec![7, 2, 5, 3, 4, 2, 3, 2, 3, 2];
        random.shuffle(&mut cardinalities);
        let mut graph = FactorGraph::new(cardinalities).unwrap();
        for u in 0..graph.variable_count() {
            for v in 0..u {
                let scope = if random.below(2) == 0 { [u, v] } else { [v, u] };
                let size = graph.cardinalities()[u] * graph.cardinalities()[v];
                let values: Vec<f64> = (0..size).map(|_| random.normal()).collect();
                graph.add_factor(&scope, &values).unwrap();
            }
        }
        models.push((format!("wide {seed}"), graph));
    }
    models
}

/// Models in which every state has weight zero: some are detected immediately, others only by considering all
/// variables jointly.
pub fn zero_models() -> Vec<(&'static str, FactorGraph)> {
    const ZERO: f64 = f64::NEG_INFINITY;
    let different = |graph: &mut FactorGraph, u: usize, v: usize, states: usize| {
        let value = |i: usize| if i / states == i % states { ZERO } else { 0.5 };
        graph.add_factor(&[u, v], &(0..states * states).map(value).collect::<Vec<f64>>()).unwrap();
    };
    let mut constant = FactorGraph::new(vec![2, 3]).unwrap();
    constant.add_factor(&[], &[ZERO]).unwrap();
    let mut unary = FactorGraph::new(vec![2, 3]).unwrap();
    unary.add_factor(&[1], &[ZERO; 3]).unwrap();
    let mut clash = FactorGraph::new(vec![2, 2]).unwrap();
    clash.add_factor(&[0, 1], &[1.0, ZERO, ZERO, 2.0]).unwrap();
    clash.add_factor(&[0], &[0.0, ZERO]).unwrap();
    clash.add_factor(&[1], &[ZERO, 0.0]).unwrap();
    // Two colours for a triangle, three for a complete graph on four vertices: every single pair can be
    // satisfied.
    let mut triangle = FactorGraph::new(vec![2; 3]).unwrap();
    let mut complete = FactorGraph::new(vec![3; 5]).unwrap();
    for u in 0..4 {
        for v in 0..u {
            if u < 3 {
                different(&mut triangle, u, v, 2);
            }
            different(&mut complete, u, v, 3);
        }
    }
    vec![
        ("constant", constant),
        ("unary", unary),
        ("clash", clash),
        ("triangle", triangle),
        ("complete", complete),
    ]
}

/// A run with one thread. The thread pool is created here, so all clones share it.
pub fn one_thread() -> Run {
    let run = Run::default().with_threads(1);
    run.install(|| ());
    run
}
