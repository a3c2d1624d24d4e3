//! The methods of the library, one row for each method and kind of model. Among methods of the same promise the better
//! one comes first.

use super::row::{Row, row};
use crate::method::bounds::{self, mean_field, minibucket};
use crate::method::dynamic::{forward_backward, randomized};
use crate::method::messages::{self, pairwise};
use crate::method::{cycle, exact, quadrature, sampling, space};
use crate::model::space::SpaceModel;
use crate::model::{Chain, FactorGraph, MixedModel, Model, PairwiseGraph, SemiMarkov, SequenceMrf, Summary};
use crate::run::Run;

/// All rows of the library.
pub(super) fn table() -> Vec<Row> {
    vec![
        row!(
            "elimination",
            FactorGraph,
            exact::Elimination,
            [LogPartition, Marginals, FactorMarginals, Entropy, Map, KBest, Sample],
            "sums out one variable after the other in the best order found"
        )
        .describes(difficulty),
        row!(
            "conditioning",
            FactorGraph,
            exact::Conditioning,
            [LogPartition, Marginals, FactorMarginals, Entropy, Map, Sample],
            "elimination case by case of a few variables, chosen so that it fits into memory"
        ),
        row!(
            "search",
            FactorGraph,
            exact::Search,
            [LogPartition, Marginals, Entropy, Map, Sample],
            "searches through the states that zeros leave, learning from conflicts, part by part"
        ),
        row!(
            "enumeration",
            FactorGraph,
            exact::Enumeration,
            [LogPartition, Marginals, FactorMarginals, Entropy, Map, KBest, Sample],
            "adds up every state; for small models, and to check the others"
        ),
        row!("forward-backward", Chain<f32 | f64>, forward_backward::ForwardBackward, [LogPartition, Marginals, FactorMarginals, Entropy, Map, KBest, Sample, Divergence, Differentiable], "messages forward and backward for a whole batch at once"),
        row!("forward-backward", SemiMarkov<f32 | f64>, forward_backward::ForwardBackward, [LogPartition, Marginals, FactorMarginals, Entropy, Map, KBest, Sample, Divergence, Differentiable], "messages forward and backward, into and out of segments"),
        row!(
            "anytime-bounds",
            FactorGraph,
            bounds::CertifiedBounds,
            [LogPartition],
            "a certified interval that tightens: mean field from below, forests from above, mini-buckets from both sides"
        ),
        row!(
            "wmb",
            FactorGraph,
            minibucket::WeightedMiniBuckets,
            [LogPartition],
            "elimination within the memory there is, sums too large bounded from both sides"
        ),
        row!(
            "wmb-is",
            FactorGraph,
            minibucket::WeightedMiniBucketSampling,
            [LogPartition, Marginals, FactorMarginals, Sample],
            "weighted draws from that upper bound's beliefs, no weight above the bound"
        ),
        row!(
            "sccq",
            FactorGraph,
            quadrature::StochasticQuadrature,
            [LogPartition, Marginals, FactorMarginals, Sample],
            "quadrature of what a base of bounded width leaves over: weighted draws with an interval for weights of any kind"
        ),
        row!("randomized", Chain<f32 | f64>, randomized::RandomizedForward, [LogPartition, Marginals, FactorMarginals, Entropy, Sample, Differentiable], "messages between a few states of each position, chosen at random and weighted"),
        row!("randomized", SemiMarkov<f32 | f64>, randomized::RandomizedForward, [LogPartition, Marginals, FactorMarginals, Entropy, Sample, Differentiable], "messages between a few states of each position, chosen at random and weighted"),
        row!("bp", PairwiseGraph<f32 | f64>, pairwise::PairwisePropagation, [LogPartition, Marginals, FactorMarginals, Entropy], "messages along all edges until they come to rest: exact without circles"),
        row!("randomized-bp", PairwiseGraph<f32 | f64>, pairwise::RandomizedMessages, [LogPartition, Marginals, FactorMarginals, Entropy], "messages between a few states of each variable, chosen at random and weighted"),
        row!(
            "bp",
            FactorGraph,
            messages::BeliefPropagation,
            [LogPartition, Marginals, FactorMarginals, Entropy, Map],
            "passes messages between factors and variables: exact without cycles, no promise with them"
        ),
        row!(
            "mean-field",
            FactorGraph,
            mean_field::MeanField,
            [LogPartition, Marginals, FactorMarginals, Entropy, Map],
            "the best product of trees, or of single variables: a certified lower bound; exact on forests"
        ),
        row!(
            "trw",
            FactorGraph,
            messages::TreeReweighted,
            [LogPartition, Marginals, FactorMarginals],
            "spreads the model over forests by message passing: a certified upper bound at any moment"
        ),
        row!(
            "importance",
            FactorGraph,
            sampling::ImportanceSampling,
            [LogPartition, Marginals, FactorMarginals, Entropy, Map, Sample],
            "weighted draws from a spanning tree of the model, or uniform ones"
        ),
        row!(
            "sccq",
            MixedModel,
            quadrature::MixedQuadrature,
            [LogPartition],
            "integrates a polynomial close to exp in closed form on cells, or draws: a certified interval"
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
        ),
        row!(
            "oracle",
            SpaceModel,
            space::Oracle,
            [LogPartition, Marginals, FactorMarginals, Entropy, Map, KBest, Sample],
            "the exact method that suits the space: closed forms, sums over subtrees, sets, tours or blocks, elimination"
        ),
        row!(
            "enumeration",
            SpaceModel,
            exact::Enumeration,
            [LogPartition, Marginals, FactorMarginals, Entropy, Map, KBest, Sample],
            "adds up every structure; for small spaces, and to check the others"
        ),
        row!(
            "perfect",
            SpaceModel,
            space::PerfectSampling,
            [Marginals, FactorMarginals, Entropy, Sample],
            "exact draws by an oracle, coupling from the past or rejection; marginals, gradient and entropy from them within a stated radius"
        ),
        row!(
            "importance",
            SpaceModel,
            space::UniformImportance,
            [LogPartition],
            "weights of uniform draws, with an interval from their known range, until it is narrow enough"
        )
        .with_target_error(),
        row!(
            "tpa",
            SpaceModel,
            space::TootsiePop,
            [LogPartition],
            "walks down the temperatures whose steps are a Poisson number, which gives an exact interval"
        )
        .with_target_error(),
        row!(
            "telescoped",
            SpaceModel,
            space::Telescoped,
            [LogPartition],
            "one exact draw at each of many temperatures, and the median of a few such runs"
        )
        .with_target_error(),
        row!(
            "annealed",
            SpaceModel,
            space::AnnealedSampling,
            [LogPartition, Map],
            "particles led from the uniform law to the model by local moves: unbiased; the best structure seen"
        ),
        row!(
            "fpras-published",
            SpaceModel,
            space::PublishedScheme,
            [LogPartition],
            "the approximation scheme as published, corrected or as printed; for reference"
        )
        .with_target_error(),
        row!(
            "transfer-matrix",
            SequenceMrf,
            cycle::TransferMatrix,
            [LogPartition],
            "the trace of a power of the matrix that leads from the last K states to the next"
        ),
        row!(
            "spectral",
            SequenceMrf,
            cycle::Spectral,
            [LogPartition],
            "one matrix for each distance, its spectral radius certified: an upper bound whose cost does not depend on the length"
        ),
        row!(
            "star",
            SequenceMrf,
            cycle::Star,
            [LogPartition],
            "the lifted star as published: an upper bound whose cost does not depend on the length"
        ),
        row!(
            "annealed",
            SequenceMrf,
            cycle::Annealed,
            [LogPartition],
            "walks from independent positions to the model by Gibbs sampling: unbiased"
        ),
    ]
}

/// How hard a graph is for exact methods, after evidence and zeros.
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
    summary.line("barren", format!("{barren} variables, left out for log Z"))
}
