//! A model too large for exact inference within the budget: the catalogue chooses the method with the
//! strongest guarantee that fits.
//!
//! Run it with `cargo run --release --example certified_interval`.

use std::time::Duration;

use zhat::catalogue::{self, Choice, Settings};
use zhat::model::generate::{self, Grid};
use zhat::report::Report;
use zhat::{Guarantee, Model, Promise, Query, Result, Run};

pub(crate) fn main() -> Result<()> {
    let grid = Grid { rows: 30, columns: 30, torus: false };
    let model = Model::new(generate::ising(grid, 0.4, 0.2, false, 1)?);
    // Exact elimination would need several GiB here.
    let run = Run::default().with_memory(64 << 20).with_time(Duration::from_secs(2));

    let plan = catalogue::choose(&model, Query::LogPartition, &Choice::Auto, &Settings::new(), &run)?;
    println!("auto takes {}, which promises {}", plan.row.method, plan.forecast.promise.name());
    let answer = plan.answer(&model, Query::LogPartition, &Settings::new(), &run)?;
    println!("{}", Report::new("log_partition", &model, &answer).text());

    assert!(answer.guarantee.promise() >= Promise::Bounds);
    if let Guarantee::Bounds { low, high, confidence } = answer.guarantee {
        assert!(low <= high && confidence == 1.0);
    }
    Ok(())
}
