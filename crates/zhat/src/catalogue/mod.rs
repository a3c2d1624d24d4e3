//! Which method answers which query for which kind of model: one table, and the one chooser.
//!
//! `--method`, `zhat info`, completions, Python's `method=`, the README's table and `auto` are all read off
//! [`CATALOGUE`]. A row names a method's configuration type and the queries it implements; the traits are the only
//! implementation. Within one kind of promise the better method stands first.

mod any;
mod choose;

pub use crate::options::Settings;
pub use any::{AnyAnswer, Sequences};
pub use choose::{Choice, Plan, answer, choose, method_names};

use serde_json::Value;

use crate::error::{Error, Result};
use crate::forecast::{Forecast, Forecasts};
use crate::method::bounds::{self, mean_field, minibucket};
use crate::method::dynamic::randomized;
use crate::method::messages::{self, pairwise};
use crate::method::{cycle as lifted, exact, quadrature, sampling as montecarlo, space};
use crate::model::{Kind, Model};
use crate::options::{self, Options, Range};
use crate::query::{self, Query};
use crate::run::Run;

/// `auto` looks this far ahead where there is no time budget.
pub const DEFAULT_HORIZON: f64 = 600.0;

/// A method for a kind of model.
pub struct Row {
    /// The name for `--method` and `method=`.
    pub method: &'static str,
    /// The kind of model.
    pub kind: Kind,
    /// What it does, in a line.
    pub about: &'static str,
    /// The queries it answers; the count of a sample is of no account here.
    pub queries: &'static [Query],
    /// Its options with their default values.
    pub options: fn() -> Value,
    /// The ranges of its numeric options.
    pub ranges: &'static [(&'static str, Range)],
    forecast: fn(&Model, Query, &Settings, &Run) -> Result<Forecast>,
    run: fn(&Model, Query, &Settings, &Run) -> Result<AnyAnswer>,
}

/// Builds a row from a kind of model, a configuration type and the names of the query traits it implements.
macro_rules! row {
    ($method:literal, Chain, $config:ty, $queries:tt, $about:literal) => {
        row!(@build $method, Chain, [Chain32 Chain64], $config, $queries, $about)
    };
    ($method:literal, PairwiseGraph, $config:ty, $queries:tt, $about:literal) => {
        row!(@build $method, PairwiseGraph, [Pairwise32 Pairwise64], $config, $queries, $about)
    };
    ($method:literal, SemiMarkov, $config:ty, $queries:tt, $about:literal) => {
        row!(@build $method, SemiMarkov, [SemiMarkov32 SemiMarkov64], $config, $queries, $about)
    };
    ($method:literal, $kind:ident, $config:ty, $queries:tt, $about:literal) => {
        row!(@build $method, $kind, [$kind], $config, $queries, $about)
    };
    (@build $method:literal, $kind:ident, $variants:tt, $config:ty, [$($query:ident),*], $about:literal) => {
        Row {
            method: $method,
            kind: Kind::$kind,
            about: $about,
            queries: &[$(row!(@query $query)),*],
            options: || serde_json::to_value(<$config>::default()).unwrap_or_default(),
            ranges: <$config as Options>::RANGES,
            forecast: |model, query, settings, run| {
                let config: $config = options::read($method, settings)?;
                row!(@forecast model $variants, $method, config query run)
            },
            run: |model, query, settings, run| {
                let config: $config = options::read($method, settings)?;
                match query {
                    $(row!(@pattern $query) => row!(@run $query model $variants, $method, config query run),)*
                    #[allow(unreachable_patterns)]
                    _ => Err(unsupported($method, query, model.kind())),
                }
            },
        }
    };
    (@forecast $model:ident [$($variant:ident)*], $method:literal, $config:ident $query:ident $run:ident) => {
        match $model {
            $(Model::$variant(model) => Ok($config.forecast(model, $query, $run)),)*
            _ => Err(unsupported($method, $query, $model.kind())),
        }
    };
    (@run $trait:ident $model:ident [$($variant:ident)*], $method:literal, $config:ident $query:ident $run:ident) => {
        match $model {
            $(Model::$variant(model) => row!(@call $trait $config model $query $run),)*
            _ => Err(unsupported($method, $query, $model.kind())),
        }
    };
    (@query LogPartition) => { Query::LogPartition };
    (@query Marginals) => { Query::Marginals };
    (@query FactorMarginals) => { Query::FactorMarginals };
    (@query Entropy) => { Query::Entropy };
    (@query Map) => { Query::Map };
    (@query KBest) => { Query::KBest(1) };
    (@query Sample) => { Query::Sample(1) };
    (@pattern KBest) => { Query::KBest(_) };
    (@pattern Sample) => { Query::Sample(_) };
    (@pattern $query:ident) => { Query::$query };
    (@call LogPartition $config:ident $model:ident $query:ident $run:ident) => {
        query::LogPartition::log_partition(&$config, $model, $run).map(AnyAnswer::from)
    };
    (@call Marginals $config:ident $model:ident $query:ident $run:ident) => {
        query::Marginals::marginals(&$config, $model, $run).map(AnyAnswer::from)
    };
    (@call FactorMarginals $config:ident $model:ident $query:ident $run:ident) => {
        query::FactorMarginals::factor_marginals(&$config, $model, $run).map(AnyAnswer::from)
    };
    (@call Entropy $config:ident $model:ident $query:ident $run:ident) => {
        query::Entropy::entropy(&$config, $model, $run).map(AnyAnswer::from)
    };
    (@call Map $config:ident $model:ident $query:ident $run:ident) => {
        query::Map::map(&$config, $model, $run).map(AnyAnswer::from)
    };
    (@call KBest $config:ident $model:ident $query:ident $run:ident) => {{
        let count = if let Query::KBest(count) = $query { count } else { 0 };
        query::KBest::k_best(&$config, $model, count, $run).map(AnyAnswer::from)
    }};
    (@call Sample $config:ident $model:ident $query:ident $run:ident) => {{
        let count = if let Query::Sample(count) = $query { count } else { 0 };
        query::Sample::sample(&$config, $model, count, $run).map(AnyAnswer::from)
    }};
}

/// All methods.
pub static CATALOGUE: &[Row] = &[
    row!(
        "elimination",
        FactorGraph,
        exact::Elimination,
        [LogPartition, Marginals, FactorMarginals, Entropy, Map, KBest, Sample],
        "sums out one variable after the other in the best order found"
    ),
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
    row!(
        "forward-backward",
        Chain,
        exact::ForwardBackward,
        [LogPartition, Marginals, FactorMarginals, Entropy, Map, KBest, Sample],
        "messages forward and backward for a whole batch at once"
    ),
    row!(
        "forward-backward",
        SemiMarkov,
        exact::ForwardBackward,
        [LogPartition, Marginals, FactorMarginals, Entropy, Map, KBest, Sample],
        "messages forward and backward, into and out of segments"
    ),
    row!(
        "bounds",
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
    row!(
        "randomized",
        Chain,
        randomized::RandomizedForward,
        [LogPartition, Marginals, FactorMarginals, Entropy, Sample],
        "messages between a few states of each position, chosen at random and weighted"
    ),
    row!(
        "randomized",
        SemiMarkov,
        randomized::RandomizedForward,
        [LogPartition, Marginals, FactorMarginals, Entropy, Sample],
        "messages between a few states of each position, chosen at random and weighted"
    ),
    row!(
        "bp",
        PairwiseGraph,
        pairwise::PairwisePropagation,
        [LogPartition, Marginals, FactorMarginals, Entropy],
        "messages along all edges until they come to rest: exact without circles"
    ),
    row!(
        "randomized-bp",
        PairwiseGraph,
        pairwise::RandomizedMessages,
        [LogPartition, Marginals, FactorMarginals, Entropy],
        "messages between a few states of each variable, chosen at random and weighted"
    ),
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
        montecarlo::ImportanceSampling,
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
        Space,
        space::Oracle,
        [LogPartition, Marginals, FactorMarginals, Entropy, Map, KBest, Sample],
        "the exact method that suits the space: closed forms, sums over subtrees, sets, tours or blocks, elimination"
    ),
    row!(
        "enumeration",
        Space,
        exact::Enumeration,
        [LogPartition, Marginals, FactorMarginals, Entropy, Map, KBest, Sample],
        "adds up every structure; for small spaces, and to check the others"
    ),
    row!(
        "perfect",
        Space,
        space::PerfectSampling,
        [Marginals, FactorMarginals, Entropy, Sample],
        "exact draws by an oracle, coupling from the past or rejection; marginals, gradient and entropy from them within a stated radius"
    ),
    row!(
        "importance",
        Space,
        space::UniformImportance,
        [LogPartition],
        "weights of uniform draws, with an interval from their known range, until it is narrow enough"
    ),
    row!(
        "tpa",
        Space,
        space::TootsiePop,
        [LogPartition],
        "walks down the temperatures whose steps are a Poisson number, which gives an exact interval"
    ),
    row!(
        "telescoped",
        Space,
        space::Telescoped,
        [LogPartition],
        "one exact draw at each of many temperatures, and the median of a few such runs"
    ),
    row!(
        "annealed",
        Space,
        space::AnnealedSampling,
        [LogPartition, Map],
        "particles led from the uniform law to the model by local moves: unbiased; the best structure seen"
    ),
    row!(
        "fpras-published",
        Space,
        space::PublishedScheme,
        [LogPartition],
        "the approximation scheme as published, corrected or as printed; for reference"
    ),
    row!(
        "transfer-matrix",
        SequenceMrf,
        lifted::TransferMatrix,
        [LogPartition],
        "the trace of a power of the matrix that leads from the last K states to the next"
    ),
    row!(
        "spectral",
        SequenceMrf,
        lifted::Spectral,
        [LogPartition],
        "one matrix for each distance, its spectral radius certified: an upper bound whose cost does not depend on the length"
    ),
    row!(
        "star",
        SequenceMrf,
        lifted::Star,
        [LogPartition],
        "the lifted star as published: an upper bound whose cost does not depend on the length"
    ),
    row!(
        "annealed",
        SequenceMrf,
        lifted::Annealed,
        [LogPartition],
        "walks from independent positions to the model by Gibbs sampling: unbiased"
    ),
];

fn unsupported(method: &str, query: Query, kind: Kind) -> Error {
    let available = rows(kind).filter(|row| row.answers(query)).map(|row| row.method).collect();
    Error::Unsupported { method: method.into(), query: query.name(), kind: kind.name(), available }
}

/// The rows for a kind of model.
pub fn rows(kind: Kind) -> impl Iterator<Item = &'static Row> {
    CATALOGUE.iter().filter(move |row| row.kind == kind)
}

impl Row {
    /// Whether it answers this query.
    pub fn answers(&self, query: Query) -> bool {
        self.queries.iter().any(|own| own.name() == query.name())
    }

    /// What it would cost and promise.
    pub fn forecast(&self, model: &Model, query: Query, settings: &Settings, run: &Run) -> Result<Forecast> {
        (self.forecast)(model, query, settings, run)
    }
}

/// The catalogue as a Markdown table: the README's.
pub fn markdown_table() -> String {
    let mut text = String::from(
        "| method | model | answers | options (default) | what it does |\n|---|---|---|---|---|\n",
    );
    for row in CATALOGUE {
        let queries: Vec<&str> = row.queries.iter().map(|query| query.name()).collect();
        let options: Vec<String> = (row.options)()
            .as_object()
            .map(|options| {
                options.iter().map(|(name, value)| format!("`{name}` ({})", plain(value))).collect()
            })
            .unwrap_or_default();
        text += &format!(
            "| `{}` | {} | {} | {} | {} |\n",
            row.method,
            row.kind.name(),
            queries.join(", "),
            if options.is_empty() { "none".into() } else { options.join(", ") },
            row.about
        );
    }
    text
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{
        Chain, FactorGraph, Interactions, MixedModel, PairwiseGraph, Segments, SemiMarkov, SequenceMrf,
        Transitions, generate,
    };
    use std::time::Duration;

    fn grid(side: usize) -> Model {
        let grid = generate::Grid { rows: side, columns: side, torus: false };
        generate::ising(grid, 0.3, 0.3, false, 1).unwrap().into()
    }

    /// A small model of the kind.
    fn small(kind: Kind) -> Model {
        let transitions = Transitions::Shared(vec![0.5, -0.5, 0.25, 1.0].into());
        let emissions = (0..12).map(|k| f64::from(k % 5) / 4.0).collect::<Vec<f64>>();
        let chain = Chain::crf(2, emissions.into(), vec![3, 2], transitions).unwrap();
        match kind {
            Kind::FactorGraph => generate::random(5, 2, 6, 2, 1.0, 0.0, 0).unwrap().into(),
            Kind::Chain => chain.into(),
            Kind::PairwiseGraph => {
                let table = Transitions::Shared(vec![0.5, -0.5, 0.25, 1.0].into());
                PairwiseGraph::new(2, vec![0.0; 6].into(), vec![(0, 1), (2, 1)], table).unwrap().into()
            }
            Kind::MixedModel => {
                MixedModel::gaussian_mixture(&[0.5, 0.5], &[-1.0, 2.0], &[1.0, 0.5], (-4.0, 4.0))
                    .unwrap()
                    .into()
            }
            Kind::Space => {
                let cube = crate::space::Hypercube::new(3).unwrap();
                let scores = crate::space::Scores::Unary(vec![0.5, -0.25, 0.125]);
                crate::space::SpaceModel::new(cube, scores).unwrap().into()
            }
            Kind::SequenceMrf => {
                let theta = Interactions::Full(vec![vec![0.5, -0.5, 0.25, 1.0]]);
                SequenceMrf::new(5, vec![0.25, 0.0], theta).unwrap().into()
            }
            Kind::SemiMarkov => {
                SemiMarkov::new(chain, Segments::Lengths(vec![0.0; 4].into()), 2).unwrap().into()
            }
        }
    }

    fn chosen(model: &Model, choice: &str, run: &Run) -> Result<&'static str> {
        let plan = choose(model, Query::LogPartition, &Choice::parse(choice), &Settings::new(), run)?;
        Ok(plan.row.method)
    }

    #[test]
    fn auto_takes_the_strongest_promise_that_fits() {
        let run = Run::default().with_memory(1 << 30);
        assert_eq!(chosen(&grid(12), "auto", &run).unwrap(), "elimination");
        assert_eq!(chosen(&grid(60), "auto", &run).unwrap(), "bounds");
        let short = run.clone().with_time(Duration::from_millis(1));
        assert!(matches!(chosen(&grid(60), "auto", &short), Err(Error::OverBudget { .. })));
    }

    #[test]
    fn a_kind_of_promise_can_be_asked_for() {
        let run = Run::default().with_memory(1 << 30);
        assert_eq!(chosen(&grid(3), "exact", &run).unwrap(), "elimination");
        let error = chosen(&grid(60), "exact", &run).unwrap_err();
        assert!(error.is_unanswerable() && error.to_string().contains("these fit: bounds"), "{error}");
    }

    #[test]
    fn unknown_methods_and_options_name_what_there_is() {
        let run = Run::default();
        let error = chosen(&grid(3), "magic", &run).unwrap_err().to_string();
        assert!(error.contains("no method `magic`") && error.contains("elimination"), "{error}");
        let settings = Settings::from_iter([("smaples".to_string(), Value::from(3))]);
        let choice = Choice::parse("importance");
        let error = answer(&grid(3), Query::LogPartition, &choice, &settings, &run).unwrap_err().to_string();
        assert!(error.contains("smaples") && error.contains("samples"), "{error}");
    }

    #[test]
    fn every_row_answers_every_query_it_lists() {
        for row in CATALOGUE {
            let model = small(row.kind);
            for &query in row.queries {
                let choice = Choice::Named(row.method.into());
                let answer = answer(&model, query, &choice, &Settings::new(), &Run::default());
                // Of a model so strong the published quadrature may find that its estimate has no logarithm.
                if matches!(answer, Err(Error::NoAnswer(_))) && row.method == "sccq-published" {
                    continue;
                }
                let answer = answer.unwrap();
                let forecast = row.forecast(&model, query, &Settings::new(), &Run::default()).unwrap();
                // Never less than was forecast; more where it turns out that nothing had to be estimated.
                let promise = answer.guarantee().promise();
                assert!(promise >= forecast.promise, "{} {}: {promise:?}", row.method, query.name());
                assert_eq!(answer.diagnostics().method, row.method);
            }
        }
    }

    #[test]
    fn an_empty_model_has_one_state() {
        let model: Model = FactorGraph::new(vec![]).unwrap().into();
        for row in rows(Kind::FactorGraph) {
            let choice = Choice::Named(row.method.into());
            let z = answer(&model, Query::LogPartition, &choice, &Settings::new(), &Run::default()).unwrap();
            let AnyAnswer::Estimate(z) = z else { panic!() };
            assert!(z.value.abs() < 1e-12, "{}: {}", row.method, z.value);
        }
    }
}
