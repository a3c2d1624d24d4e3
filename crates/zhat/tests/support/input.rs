//! Helpers for tests of malformed input: a run with a small budget, and a check that every model that was
//! parsed can be queried.

use std::time::Duration;

use zhat::exact::Elimination;
use zhat::sampling::ImportanceSampling;
use zhat::{Error, FactorGraph, LogPartition, Marginals, Run};

/// True if the message names a line of the text.
pub fn names_a_line(error: &Error) -> bool {
    matches!(error, Error::Parse { line: 1.., .. }) && error.to_string().contains("line ")
}

/// Queries on a model that was parsed must succeed, or fail with a stated reason, within a small budget.
pub fn answer(graph: &FactorGraph, run: &Run) {
    let few = ImportanceSampling::default().samples(16).replicates(2);
    for z in [Elimination::default().log_partition(graph, run), few.log_partition(graph, run)] {
        match z {
            Ok(z) => {
                assert!(z.value.is_finite() || (z.diagnostics.method == "importance" && z.value < 0.0), "{z}")
            }
            Err(error) => assert!(error.is_unanswerable(), "{error:?}"),
        }
    }
    match Elimination::default().marginals(graph, run) {
        Ok(beliefs) => assert!(beliefs.value.as_slice().iter().all(|p| (0.0..=1.0).contains(p))),
        Err(error) => assert!(error.is_unanswerable(), "{error:?}"),
    }
}

/// A run with a small budget.
pub fn small() -> Run {
    let run = Run::default().with_threads(1).with_memory(1 << 22).with_time(Duration::from_secs(2));
    run.install(|| ());
    run
}
