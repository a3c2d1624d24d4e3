//! The methods of the library, one row for each method and kind of model. Among methods with the same
//! guarantee, the better one comes first.

use super::row::{Row, row};
use crate::method::bounds::{self, mean_field, minibucket};
use crate::method::dynamic::{forward_backward, grammar, randomized, tree};
use crate::method::messages::{self, pairwise};
use crate::method::{cycle, exact, quadrature, sampling, space};
use crate::model::space::SpaceModel;
use crate::model::{
    Chain, DependencyTree, FactorGraph, Hypertree, MixedModel, Model, PairwiseGraph, SemiMarkov, SequenceMrf,
    Summary,
};
use crate::query::Query;
use crate::run::Run;
use crate::units;

/// All rows of the library.
pub(super) fn table() -> Vec<Row> {
    vec![
        row!(
            "elimination",
            FactorGraph,
            exact::Elimination,
            [LogPartition, Marginals, FactorMarginals, Entropy, Map, KBest, Sample],
            "variable elimination along the best order found"
        )
        .describes(difficulty),
        row!(
            "conditioning",
            FactorGraph,
            exact::Conditioning,
            [LogPartition, Marginals, FactorMarginals, Entropy, Map, Sample],
            "elimination case by case on a cutset, chosen so that it fits into memory"
        )
        .divisible(&[Query::LogPartition]),
        row!(
            "search",
            FactorGraph,
            exact::Search,
            [LogPartition, Marginals, Entropy, Map, Sample],
            "exact search with clause learning and component caching; for models with many zeros"
        ),
        row!(
            "enumeration",
            FactorGraph,
            exact::Enumeration,
            [LogPartition, Marginals, FactorMarginals, Entropy, Map, KBest, Sample],
            "adds up every state; for small models and as a check"
        )
        .divisible(&[Query::LogPartition]),
        row!("forward-backward", Chain<f32 | f64>, forward_backward::ForwardBackward, [LogPartition, Marginals, FactorMarginals, Entropy, Map, KBest, Sample, Divergence, Expectation, Differentiable], "forward and backward messages for a whole batch at once"),
        row!("forward-backward", SemiMarkov<f32 | f64>, forward_backward::ForwardBackward, [LogPartition, Marginals, FactorMarginals, Entropy, Map, KBest, Sample, Divergence, Expectation, Differentiable], "forward and backward messages into and out of segments"),
        row!("inside-outside", Hypertree<f32 | f64>, grammar::InsideOutside, [LogPartition, Marginals, FactorMarginals, Entropy, Map, KBest, Sample, Divergence, Expectation, Differentiable], "sums over the trees of a grammar or span model: inside and outside passes by matrix products, in rank space for low-rank rules"),
        row!("randomized-inside", Hypertree<f32 | f64>, grammar::RandomizedInside, [LogPartition, Marginals, FactorMarginals, Entropy, Sample, Differentiable], "unbiased inside pass over randomly chosen symbols of each span"),
        row!(
            "randomized-inside-published",
            Hypertree<f32 | f64>,
            grammar::PublishedInside,
            [LogPartition],
            "randomized inside as published (Eq. 18), without products of a kept and a drawn symbol; biased, for reference"
        ),
        row!("spanning-trees", DependencyTree<f32 | f64>, tree::SpanningTrees, [LogPartition, Marginals, FactorMarginals, Entropy, Map, KBest, Sample, Divergence, Expectation, Differentiable], "sums over dependency trees: Eisner's algorithm for projective trees, elimination of words for all trees"),
        row!("randomized-inside", DependencyTree<f32 | f64>, grammar::RandomizedInside, [LogPartition, Marginals, FactorMarginals, Entropy, Sample, Differentiable], "unbiased sum over projective trees with randomly chosen heads of each word"),
        row!(
            "anytime-bounds",
            FactorGraph,
            bounds::CertifiedBounds,
            [LogPartition],
            "certified interval that tightens over time: mean field from below, tree reweighting from above, mini-buckets from both sides"
        ),
        row!(
            "wmb",
            FactorGraph,
            minibucket::WeightedMiniBuckets,
            [LogPartition],
            "weighted mini-buckets: elimination within the memory budget; sums that are too large are bounded from both sides"
        ),
        row!(
            "wmb-is",
            FactorGraph,
            minibucket::WeightedMiniBucketSampling,
            [LogPartition, Marginals, FactorMarginals, Sample],
            "importance sampling from the mini-bucket upper bound; no weight exceeds the bound"
        )
        .divisible(&[Query::LogPartition, Query::Marginals, Query::FactorMarginals]),
        row!(
            "sccq",
            FactorGraph,
            quadrature::StochasticQuadrature,
            [LogPartition, Marginals, FactorMarginals, Sample],
            "samples exactly from a low-width part of the model and reweights by the rest; interval valid for any weights"
        )
        .divisible(&[Query::LogPartition, Query::Marginals, Query::FactorMarginals]),
        row!("randomized", Chain<f32 | f64>, randomized::RandomizedForward, [LogPartition, Marginals, FactorMarginals, Entropy, Sample, Differentiable], "messages between a few states per position, chosen at random and reweighted")
        .divisible(&[Query::LogPartition]),
        row!("randomized", SemiMarkov<f32 | f64>, randomized::RandomizedForward, [LogPartition, Marginals, FactorMarginals, Entropy, Sample, Differentiable], "messages between a few states per position, chosen at random and reweighted")
        .divisible(&[Query::LogPartition]),
        row!("bp", PairwiseGraph<f32 | f64>, pairwise::PairwisePropagation, [LogPartition, Marginals, FactorMarginals, Entropy], "loopy belief propagation; exact on trees"),
        row!("randomized-bp", PairwiseGraph<f32 | f64>, pairwise::RandomizedMessages, [LogPartition, Marginals, FactorMarginals, Entropy], "belief propagation between a few states per variable, chosen at random and reweighted")
        .divisible(&[Query::LogPartition]),
        row!(
            "bp",
            FactorGraph,
            messages::BeliefPropagation,
            [LogPartition, Marginals, FactorMarginals, Entropy, Map],
            "loopy belief propagation; exact on trees, no guarantee otherwise"
        ),
        row!(
            "mean-field",
            FactorGraph,
            mean_field::MeanField,
            [LogPartition, Marginals, FactorMarginals, Entropy, Map],
            "best product of trees or of single variables: a certified lower bound; exact on forests"
        ),
        row!(
            "trw",
            FactorGraph,
            messages::TreeReweighted,
            [LogPartition, Marginals, FactorMarginals],
            "tree-reweighted message passing: a certified upper bound at any time"
        ),
        row!(
            "importance",
            FactorGraph,
            sampling::ImportanceSampling,
            [LogPartition, Marginals, FactorMarginals, Entropy, Map, Sample],
            "importance sampling from a spanning tree of the model, or uniform"
        )
        .divisible(&[Query::LogPartition, Query::Marginals, Query::FactorMarginals, Query::Entropy]),
        row!(
            "gibbs",
            FactorGraph,
            sampling::Gibbs,
            [Marginals, FactorMarginals, Map, Sample],
            "Gibbs sampling with several chains, split R-hat and effective sample size"
        ),
        row!(
            "sccq",
            MixedModel,
            quadrature::MixedQuadrature,
            [LogPartition],
            "integrates a polynomial approximation of exp in closed form on cells, or samples: a certified interval"
        ),
        row!(
            "gauss-legendre",
            MixedModel,
            quadrature::GaussLegendre,
            [LogPartition],
            "numerical quadrature on a grid, for reference"
        ),
        row!(
            "sccq-published",
            FactorGraph,
            quadrature::PublishedQuadrature,
            [LogPartition, Marginals, FactorMarginals],
            "stochastic Clenshaw–Curtis quadrature as published: tuples of factors, a polynomial for exp; for weak models"
        )
        .divisible(&[Query::LogPartition]),
        row!(
            "oracle",
            SpaceModel,
            space::Oracle,
            [LogPartition, Marginals, FactorMarginals, Entropy, Map, KBest, Sample],
            "the exact method that suits the space: closed forms, dynamic programming over subtrees, sets, tours or blocks, elimination"
        ),
        row!(
            "enumeration",
            SpaceModel,
            exact::Enumeration,
            [LogPartition, Marginals, FactorMarginals, Entropy, Map, KBest, Sample],
            "adds up every structure; for small spaces and as a check"
        ),
        row!(
            "perfect",
            SpaceModel,
            space::PerfectSampling,
            [Marginals, FactorMarginals, Entropy, Sample],
            "exact samples by an oracle, coupling from the past or rejection; marginals, gradient and entropy from them within a stated radius"
        )
        .divisible(&[Query::Marginals, Query::FactorMarginals]),
        row!(
            "importance",
            SpaceModel,
            space::UniformImportance,
            [LogPartition],
            "reweighted uniform samples, until the interval from their known range is narrow enough"
        )
        .divisible(&[Query::LogPartition])
        .ending_at_looks(space::UniformImportance::FIRST)
        .with_target_error(),
        row!(
            "tpa",
            SpaceModel,
            space::TootsiePop,
            [LogPartition],
            "Tootsie Pop algorithm: a Poisson count of temperature steps gives an exact confidence interval"
        )
        .divisible(&[Query::LogPartition])
        .with_target_error(),
        row!(
            "telescoped",
            SpaceModel,
            space::Telescoped,
            [LogPartition],
            "one exact sample at each of many temperatures; the median of several such runs"
        )
        .divisible(&[Query::LogPartition])
        .with_target_error(),
        row!(
            "annealed",
            SpaceModel,
            space::AnnealedSampling,
            [LogPartition, Map],
            "annealed importance sampling by local moves: unbiased; also the best structure seen"
        )
        .divisible(&[Query::LogPartition]),
        row!(
            "fpras-published",
            SpaceModel,
            space::PublishedScheme,
            [LogPartition],
            "the approximation scheme as published, corrected or as printed; for reference"
        )
        .divisible(&[Query::LogPartition])
        .with_target_error(),
        row!(
            "transfer-matrix",
            SequenceMrf,
            cycle::TransferMatrix,
            [LogPartition],
            "trace of a power of the transfer matrix over K consecutive states"
        ),
        row!(
            "spectral",
            SequenceMrf,
            cycle::Spectral,
            [LogPartition],
            "one matrix per distance with a certified spectral radius: an upper bound at a cost independent of the length"
        ),
        row!(
            "star",
            SequenceMrf,
            cycle::Star,
            [LogPartition],
            "the lifted star bound as published: an upper bound at a cost independent of the length"
        ),
        row!(
            "annealed",
            SequenceMrf,
            cycle::Annealed,
            [LogPartition],
            "annealed importance sampling from independent positions by Gibbs sampling: unbiased"
        )
        .divisible(&[Query::LogPartition]),
    ]
}

/// Difficulty of a graph for exact methods, after propagation of evidence and zeros.
fn difficulty(model: &Model, run: &Run) -> Summary {
    let difficulty = model.get::<FactorGraph>().and_then(|graph| graph.difficulty(run));
    let barren = difficulty.map_or(0, |found| found.barren);
    let width = difficulty.map_or("unknown".into(), |found| {
        let width = found.width.map_or("large".into(), |width| width.to_string());
        let tables = format!("largest table 2^{:.1} entries", found.log2_table);
        format!("{width}, {tables}, {} variables after evidence and zeros", found.free)
    });
    let summary = Summary::default()
        .figure("free", difficulty.map(|found| found.free))
        .figure("barren", barren)
        .figure("width", difficulty.and_then(|found| found.width))
        .figure("log2_table", difficulty.map(|found| found.log2_table))
        .line("width", width);
    if barren == 0 {
        return summary;
    }
    let variables = units::count(barren, "variable");
    summary.line("barren", format!("{variables} without observed descendants, left out for log Z"))
}
