//! Time forecasts for chains and semi-Markov chains: they grow with the cost of the algorithms, and `auto`
//! chooses by them.

use std::time::Duration;

use zhat::catalogue::{self, Choice, Settings, choose};
use zhat::model::{Chain, Segments, SemiMarkov, Transitions};
use zhat::{Model, Query, Run};

#[derive(Clone, Copy)]
enum Form {
    Shared,
    PerStep,
    Factored(usize),
    LowRank(usize),
}

#[derive(Clone, Copy)]
struct Size {
    states: usize,
    steps: usize,
    batch: usize,
    longest: usize,
    form: Form,
}

const QUERIES: [Query; 6] = [
    Query::LogPartition,
    Query::Marginals,
    Query::FactorMarginals,
    Query::Entropy,
    Query::Map,
    Query::Sample(100),
];

/// All scores are zero, because forecasts depend only on shapes.
fn model(size: Size) -> Model {
    let Size { states, steps, batch, longest, form } = size;
    let zeros = |count: usize| vec![0.0f32; count].into();
    let transitions = match form {
        Form::Shared => Transitions::Shared(zeros(states * states)),
        Form::PerStep => Transitions::PerStep(zeros((steps - 1) * states * states)),
        Form::Factored(rank) => Transitions::Factored { left: zeros(states * rank), right: None },
        Form::LowRank(rank) => {
            Transitions::LowRank { left: zeros(states * rank), right: zeros(states * rank) }
        }
    };
    let chain = Chain::crf(states, zeros(batch * steps * states), vec![steps; batch], transitions).unwrap();
    if longest == 0 {
        return chain.into();
    }
    SemiMarkov::new(chain, Segments::Lengths(zeros(longest * states)), longest).unwrap().into()
}

fn seconds(size: Size, method: &str, query: Query, settings: &[(&str, u64)]) -> f64 {
    let model = model(size);
    let settings: Settings = settings.iter().map(|&(name, x)| (name.to_string(), x.into())).collect();
    let row = catalogue::rows(model.kind()).find(|row| row.method == method).unwrap();
    row.forecast(&model, query, &settings, &Run::default().with_threads(1)).unwrap().seconds
}

fn exact(size: Size, query: Query) -> f64 {
    seconds(size, "forward-backward", query, &[])
}

fn randomized(size: Size, query: Query, states: u64, replicates: u64) -> f64 {
    seconds(size, "randomized", query, &[("states", states), ("replicates", replicates)])
}

const DENSE: Size = Size { states: 64, steps: 16, batch: 4, longest: 0, form: Form::Shared };

#[test]
fn time_grows_with_every_size() {
    let answers = |query| !matches!(query, Query::Map);
    for form in [Form::Shared, Form::PerStep, Form::Factored(8), Form::LowRank(8)] {
        for longest in [0, 4] {
            let size = Size { form, longest, ..DENSE };
            let larger = [
                Size { states: 2 * size.states, ..size },
                Size { steps: 2 * size.steps, ..size },
                Size { batch: 2 * size.batch, ..size },
            ];
            for query in QUERIES {
                for more in larger {
                    assert!(exact(more, query) > exact(size, query), "{query:?}");
                    if answers(query) {
                        assert!(randomized(more, query, 16, 4) > randomized(size, query, 16, 4), "{query:?}");
                    }
                }
                if answers(query) {
                    assert!(randomized(size, query, 32, 4) > randomized(size, query, 16, 4), "{query:?}");
                    assert!(randomized(size, query, 16, 8) > randomized(size, query, 16, 4), "{query:?}");
                }
                if longest > 0 {
                    assert!(exact(Size { longest: 8, ..size }, query) > exact(size, query), "{query:?}");
                }
            }
        }
    }
}

/// Growth exponent of a doubled size: log₂ of the ratio.
fn exponent(more: f64, less: f64) -> f64 {
    (more / less).log2()
}

fn is_about(exponent: f64, wanted: f64, what: &str) {
    assert!((exponent - wanted).abs() < 0.25, "{what}: {exponent} for {wanted}");
}

#[test]
fn exact_time_grows_as_the_square_of_the_states_and_with_the_steps() {
    // Enough sequences for matrix products to dominate the time, so that it does not depend on whether a
    // table fits into the cache.
    let dense = |states| Size { states, steps: 32, batch: 64, ..DENSE };
    let factored = |states| Size { states, steps: 8, batch: 1, form: Form::Factored(32), ..DENSE };
    for query in QUERIES.into_iter().filter(|query| !matches!(query, Query::Sample(_))) {
        let of = |size| exact(size, query);
        is_about(exponent(of(dense(4000)), of(dense(2000))), 2.0, &format!("dense {query:?}"));
        is_about(exponent(of(factored(40_000)), of(factored(20_000))), 2.0, &format!("factored {query:?}"));
        let long = Size { steps: 64, ..dense(2000) };
        if query != Query::Marginals && query != Query::FactorMarginals {
            is_about(exponent(of(long), of(dense(2000))), 1.0, &format!("steps {query:?}"));
        }
    }
    // For a large rank, products with embeddings dominate the time.
    let ranked = |rank| Size { form: Form::Factored(rank), ..factored(4000) };
    let growth = exponent(exact(ranked(1024), Query::LogPartition), exact(ranked(512), Query::LogPartition));
    is_about(growth, 1.0, "rank");
}

/// Sums over paths take N·R operations per step; what needs single transitions takes N²·R.
#[test]
fn low_rank_time_grows_with_the_states_and_the_rank_where_no_transition_is_needed() {
    let size = |states, rank| Size { states, steps: 8, batch: 1, form: Form::LowRank(rank), ..DENSE };
    for query in [Query::LogPartition, Query::Marginals, Query::FactorMarginals, Query::Sample(100)] {
        let of = |states, rank| exact(size(states, rank), query);
        is_about(exponent(of(400_000, 64), of(200_000, 64)), 1.0, &format!("states {query:?}"));
        let growth = exponent(of(100_000, 512), of(100_000, 256));
        assert!((0.5..1.25).contains(&growth), "rank {query:?}: {growth}");
    }
    for query in [Query::Entropy, Query::Map] {
        let growth = exponent(exact(size(40_000, 64), query), exact(size(20_000, 64), query));
        is_about(growth, 2.0, &format!("{query:?}"));
    }
}

#[test]
fn randomized_time_grows_as_states_kept_times_all_or_squared() {
    let size = |states| Size { states, steps: 8, batch: 1, form: Form::Factored(32), ..DENSE };
    let of = |states, kept| randomized(size(states), Query::LogPartition, kept, 8);
    is_about(exponent(of(200_000, 1000), of(100_000, 1000)), 1.0, "all states");
    is_about(exponent(of(100_000, 4000), of(100_000, 2000)), 1.0, "states kept");
    // Without messages to all states, the cost is that of a lattice of K² edges per step.
    let settings = |kept| vec![("states", kept), ("replicates", 8)];
    let squared = |kept| {
        let model = model(size(20_000));
        let mut all: Settings =
            settings(kept).into_iter().map(|(name, x): (&str, u64)| (name.into(), x.into())).collect();
        all.insert("proposal".into(), "local".into());
        let row = catalogue::rows(model.kind()).find(|row| row.method == "randomized").unwrap();
        row.forecast(&model, Query::FactorMarginals, &all, &Run::default()).unwrap().seconds
    };
    is_about(exponent(squared(8000), squared(4000)), 2.0, "states kept alone");
}

#[test]
fn auto_is_exact_within_the_budget_and_randomized_beyond_it() {
    let size = Size { states: 20_000, steps: 8, batch: 1, longest: 0, form: Form::Factored(32) };
    let model = model(size);
    let row = |method: &str| catalogue::rows(model.kind()).find(|row| row.method == method).unwrap();
    let run = Run::default().with_threads(1).with_memory(1 << 33);
    let of = |method| row(method).forecast(&model, Query::LogPartition, &Settings::new(), &run).unwrap();
    let (exact, randomized) = (of("forward-backward"), of("randomized"));
    assert!(randomized.seconds < exact.seconds / 3.0);
    let chosen = |run: &Run| {
        choose(&model, Query::LogPartition, &Choice::Auto, &Settings::new(), run).map(|plan| plan.row.method)
    };
    let within = |seconds: f64| run.clone().with_time(Duration::from_secs_f64(seconds));
    assert_eq!(chosen(&within(1.01 * exact.seconds)).unwrap(), "forward-backward");
    assert_eq!(chosen(&within(0.99 * exact.seconds)).unwrap(), "randomized");
    assert_eq!(chosen(&within(1.01 * randomized.seconds)).unwrap(), "randomized");
    assert!(chosen(&within(0.99 * randomized.seconds)).is_err());
    let room = |bytes: f64| run.clone().with_memory(bytes as u64);
    assert_eq!(chosen(&room(1.01 * exact.bytes)).unwrap(), "forward-backward");
    if randomized.bytes < exact.bytes {
        assert_eq!(chosen(&room(0.99 * exact.bytes)).unwrap(), "randomized");
    }
}
