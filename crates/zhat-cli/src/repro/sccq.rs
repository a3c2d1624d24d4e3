//! Shared code of the experiments of Piatkowski & Morik, "Fast stochastic quadrature for approximate
//! maximum-likelihood estimation" (UAI 2018).

use zhat::Result;
use zhat::internal::quadrature::Cliques;
use zhat::model::FactorGraph;
use zhat::model::generate::Grid;

use super::Setting;

/// Tuple lengths of the figure.
pub const LENGTHS: [usize; 4] = [1, 2, 3, 4];

/// The cliques of a 4×4 binary grid: its 24 edges with four joint states each. Times do not depend on θ.
pub fn cliques() -> Result<Cliques> {
    let grid = Grid { rows: 4, columns: 4, torus: false };
    let mut graph = FactorGraph::new(vec![2; 16])?;
    for (u, v) in grid.edges() {
        graph.add_factor(&[u, v], &[0.1, -0.1, -0.1, 0.1])?;
    }
    Cliques::new(&graph)
}

/// The number of runs, at most ten as in the paper; more are not needed.
pub fn runs(setting: &Setting<'_>) -> usize {
    setting.runs.clamp(1, 10)
}

/// Mean and standard deviation.
pub struct Spread {
    pub mean: f64,
    pub deviation: f64,
}

impl Spread {
    pub fn of(values: &[f64]) -> Self {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|x| (x - mean).powi(2)).sum();
        Spread { mean, deviation: (squares / (count - 1.0).max(1.0)).sqrt() }
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ± {}", super::short(self.mean), super::short(self.deviation))
    }
}
