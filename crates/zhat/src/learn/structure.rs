//! Choice of the interacting pairs of variables.
//!
//! The maximum-likelihood tree is the spanning tree with the largest sum of mutual informations (Chow & Liu
//! 1968); its maximum-likelihood parameters are known in closed form. Further edges are added in order of
//! decreasing mutual information.
//!
//! Reference: C. K. Chow, C. N. Liu, *Approximating discrete probability distributions with dependence
//! trees*, IEEE Trans. Information Theory 14 (1968).

use crate::error::{Error, Result};
use crate::learn::Statistics;

/// How the interacting pairs are chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Structure {
    /// No pairs: independent variables.
    Independent,
    /// The tree of Chow and Liu, and this many further pairs with the largest mutual information.
    ChowLiu {
        /// Number of pairs in addition to the tree.
        more: usize,
    },
    /// All pairs; for use with an l1 penalty.
    Complete,
    /// The given pairs.
    Edges(Vec<(usize, usize)>),
}

/// The edges of the spanning tree with maximum mutual information, i < j, ascending. Ties are broken by
/// order; constant columns are connected too, with information 0.
pub fn chow_liu(statistics: &Statistics) -> Vec<(usize, usize)> {
    let pairs = by_information(statistics);
    let kept = forest(statistics.columns().len(), pairs.iter().copied());
    let mut tree: Vec<(usize, usize)> =
        pairs.into_iter().zip(kept).filter(|(_, kept)| *kept).map(|(pair, _)| pair).collect();
    tree.sort_unstable();
    tree
}

/// For pairs in this order, whether each connects two components of `n` variables (Kruskal's algorithm).
pub(super) fn forest(n: usize, pairs: impl Iterator<Item = (usize, usize)>) -> Vec<bool> {
    let mut parts: Vec<usize> = (0..n).collect();
    let mut ties = |(i, j)| {
        let (a, b) = (root(&mut parts, i), root(&mut parts, j));
        parts[a] = b;
        a != b
    };
    pairs.map(&mut ties).collect()
}

fn root(parts: &mut [usize], mut v: usize) -> usize {
    while parts[v] != v {
        parts[v] = parts[parts[v]];
        v = parts[v];
    }
    v
}

/// All pairs, by decreasing mutual information.
fn by_information(statistics: &Statistics) -> Vec<(usize, usize)> {
    let n = statistics.columns().len();
    let mut pairs: Vec<(f64, usize, usize)> = (0..n)
        .flat_map(|i| (i + 1..n).map(move |j| (i, j)))
        .map(|(i, j)| (statistics.mutual_information(i, j), i, j))
        .collect();
    pairs.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| (a.1, a.2).cmp(&(b.1, b.2))));
    pairs.into_iter().map(|(_, i, j)| (i, j)).collect()
}

impl Structure {
    /// The pairs, i < j, ascending, each once.
    ///
    /// # Errors
    /// If a given pair contains an unknown column or one column twice.
    pub fn edges(&self, statistics: &Statistics) -> Result<Vec<(usize, usize)>> {
        let n = statistics.columns().len();
        let mut edges = match self {
            Structure::Independent => Vec::new(),
            Structure::Complete => (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j))).collect(),
            Structure::ChowLiu { more } => {
                let mut edges = chow_liu(statistics);
                let others: Vec<(usize, usize)> = by_information(statistics)
                    .into_iter()
                    .filter(|edge| !edges.contains(edge))
                    .take(*more)
                    .collect();
                edges.extend(others);
                edges
            }
            Structure::Edges(edges) => edges.iter().map(|&(i, j)| (i.min(j), i.max(j))).collect(),
        };
        if let Some(&(i, j)) = edges.iter().find(|&&(i, j)| i == j || j >= n) {
            let message = format!("({i}, {j}) is no pair of two of the {n} columns");
            return Err(Error::argument("structure", message));
        }
        edges.sort_unstable();
        edges.dedup();
        Ok(edges)
    }

    /// Parses pairs of columns, one pair per line, by name or number, separated by a comma or spaces; `#`
    /// starts a comment.
    ///
    /// # Errors
    /// If a line does not name two columns of the table.
    pub fn parse(text: &str, source: &str, statistics: &Statistics) -> Result<Structure> {
        let names: Vec<String> = statistics.columns().iter().map(|column| column.name.clone()).collect();
        Structure::parse_names(text, source, &names)
    }

    /// Like [`Structure::parse`], for columns with these names.
    ///
    /// # Errors
    /// If a line does not name two of the columns.
    pub fn parse_names(text: &str, source: &str, columns: &[String]) -> Result<Structure> {
        let mut edges = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let fail =
                |message: String| Error::Parse { source_name: source.into(), line: number + 1, message };
            let separator = |c: char| if line.contains(',') { c == ',' } else { c.is_whitespace() };
            let names: Vec<&str> =
                line.split(separator).map(str::trim).filter(|name| !name.is_empty()).collect();
            let &[a, b] = names.as_slice() else {
                return Err(fail(format!("expected two columns, found {}", names.len())));
            };
            let find = |name: &str| {
                let named = columns.iter().position(|column| column == name);
                let numbered = name.parse().ok().filter(|&i: &usize| i < columns.len());
                named.or(numbered).ok_or_else(|| fail(format!("there is no column `{name}`")))
            };
            edges.push((find(a)?, find(b)?));
        }
        Ok(Structure::Edges(edges))
    }
}
