//! Random models on combinatorial spaces.

use crate::error::{Error, Result};
use crate::model::generate::affordable;
use crate::model::space::{
    Cycles, Distance, Hypercube, Partitions, Permutations, Scores, SpaceModel, Structures, Subtrees,
};
use crate::random::{Stream, Streams};

/// A random model on a space of `size` elements, with normal scores of standard deviation `strength`.
///
/// Values of `kind` and `scores` (empty `scores` means the first): `hypercube` (`unary`, `pairwise` on a
/// cycle), `permutation` (`position`, `precedence`, or a distance: `kendall`, `cayley`, `hamming`,
/// `footrule`, `spearman`, with θ = `strength` and a random reference), `subtree` (`unary`; the parent of
/// every node except the first is a random earlier node), `cycle` and `partition` (`links`).
///
/// # Errors
/// If there is no such kind or scores, `strength` is not finite, `size` is too small for the space, or the
/// model does not fit in memory.
///
/// ```
/// use zhat::{LogPartition, Run};
/// use zhat::model::generate;
/// use zhat::space::Oracle;
/// let model = generate::space("permutation", 8, "precedence", 0.5, 1)?;
/// println!("{}", Oracle::default().log_partition(&model, &Run::default())?);
/// # Ok::<(), zhat::Error>(())
/// ```
pub fn space(kind: &str, size: usize, scores: &str, strength: f64, seed: u64) -> Result<SpaceModel> {
    if !strength.is_finite() {
        return Err(Error::argument("strength", format!("{strength} is not finite")));
    }
    let mut random = Streams::new(seed, "random space").block(0);
    let random = &mut random;
    let n = size;
    let square = matches!(
        (kind, scores),
        ("cycle" | "partition", _) | ("permutation", "" | "position" | "precedence")
    );
    affordable(if square { 8.0 * (n as f64).powi(2) } else { 64.0 * n as f64 })?;
    let normals = |random: &mut Stream, count: usize| {
        (0..count).map(|_| strength * random.normal()).collect::<Vec<_>>()
    };
    let (space, scores): (Structures, Scores) = match (kind, scores) {
        ("hypercube", "" | "unary") => (Hypercube::new(n)?.into(), Scores::Unary(normals(random, n))),
        ("hypercube", "pairwise") => {
            let unary = normals(random, n);
            // Two labels have one pair, one label has none.
            let around = if n > 2 { n } else { n.saturating_sub(1) };
            let pairs: Vec<(usize, usize, f64)> =
                (0..around).map(|i| (i, (i + 1) % n, strength * random.normal())).collect();
            (Hypercube::new(n)?.into(), Scores::pairwise(unary, &pairs)?)
        }
        ("subtree", "" | "unary") => {
            let parents: Vec<Option<usize>> = (0..n).map(|v| (v > 0).then(|| random.below(v))).collect();
            (Subtrees::new(&parents, true)?.into(), Scores::Unary(normals(random, n)))
        }
        ("permutation", "" | "position") => {
            (Permutations::new(n)?.into(), Scores::Position(normals(random, n * n)))
        }
        ("permutation", "precedence") => {
            (Permutations::new(n)?.into(), Scores::Precedence(normals(random, n * n)))
        }
        ("permutation", name) if Distance::ALL.iter().any(|distance| distance.name() == name) => {
            let distance = Distance::ALL.into_iter().find(|distance| distance.name() == name);
            let mut reference: Vec<usize> = (0..n).collect();
            random.shuffle(&mut reference);
            let distance = distance.unwrap_or(Distance::Kendall);
            (Permutations::new(n)?.into(), Scores::distance(distance, &reference, strength)?)
        }
        ("cycle" | "partition", "" | "links") => {
            let mut pairs = Vec::with_capacity(n * n.saturating_sub(1) / 2);
            for i in 0..n {
                for j in i + 1..n {
                    pairs.push((i, j, strength * random.normal()));
                }
            }
            let space = if kind == "cycle" { Cycles::new(n)?.into() } else { Partitions::new(n)?.into() };
            (space, Scores::links(n, &pairs)?)
        }
        ("hypercube" | "permutation" | "subtree" | "cycle" | "partition", other) => {
            return Err(Error::argument("scores", format!("a {kind} has no random `{other}` scores")));
        }
        (other, _) => {
            let known = "hypercube, permutation, subtree, cycle, partition";
            return Err(Error::argument("kind", format!("there is no space `{other}`; there are {known}")));
        }
    };
    SpaceModel::new(space, scores)
}
