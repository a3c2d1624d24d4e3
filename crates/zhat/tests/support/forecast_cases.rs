//! Queries whose memory is measured and compared with its forecast.

use std::process::Command;

use zhat::catalogue::{self, Choice, Settings, answer};
use zhat::{Error, Model, Query, Run};

use crate::counting::measured;

/// Scratch memory is kept between queries, so the memory of one query can only be measured in a separate
/// process.
const CHILD: &str = "ZHAT_MEMORY_CASE";
/// From this many bytes on, a forecast may be at most a few times the memory allocated.
pub const MUCH: f64 = (16 << 20) as f64;

#[derive(Clone, Copy)]
pub struct Case {
    pub name: &'static str,
    pub model: fn() -> Model,
    pub method: &'static str,
    pub query: Query,
    /// A JSON object.
    pub settings: &'static str,
    pub threads: usize,
}

/// What a case took and what was forecast, in bytes.
pub struct Measured {
    pub name: String,
    pub taken: f64,
    pub forecast: f64,
}

fn measure(case: &Case) -> (f64, f64) {
    let model = (case.model)();
    let run = Run::default().with_threads(case.threads);
    run.install(|| ());
    let settings: Settings = serde_json::from_str(case.settings).unwrap();
    let row = catalogue::rows(model.kind()).find(|row| row.method == case.method).unwrap();
    let forecast = row.forecast(&model, case.query, &settings, &run).unwrap();
    let choice = Choice::Named(case.method.into());
    let (result, peak) = measured(|| answer(&model, case.query, &choice, &settings, &run));
    // Every replicate may miss all structures; the memory has been allocated all the same.
    if !matches!(result, Err(Error::NoAnswer(_))) {
        result.unwrap();
    }
    (peak as f64, forecast.bytes)
}

/// The memory of every case, each measured in its own process, which runs only the test that calls this. `None`
/// in these processes.
pub fn measure_each(test: &str, cases: &[Case]) -> Option<Vec<Measured>> {
    let name = |case: &Case| {
        let Case { name, method, query, threads, .. } = case;
        format!("{name}: {method} {query:?}, {threads} threads")
    };
    let names: Vec<String> = cases.iter().map(name).collect();
    measure_named(test, &names, |number| measure(&cases[number]))
}

/// The same for anything with a name; `measure` gives what a case took and what was forecast.
pub fn measure_named(
    test: &str,
    names: &[String],
    measure: impl Fn(usize) -> (f64, f64),
) -> Option<Vec<Measured>> {
    if let Ok(number) = std::env::var(CHILD) {
        let (peak, forecast) = measure(number.parse::<usize>().unwrap());
        println!("\ntaken {peak} {forecast}");
        return None;
    }
    let this = std::env::current_exe().unwrap();
    let one = |(number, name): (usize, &String)| {
        let child = Command::new(&this)
            .args([test, "--exact", "--nocapture"])
            .env(CHILD, number.to_string())
            .output();
        let output = String::from_utf8(child.unwrap().stdout).unwrap();
        let found = output.lines().find_map(|line| line.strip_prefix("taken "));
        let found = found.unwrap_or_else(|| panic!("{name} failed: {output}"));
        let numbers: Vec<f64> = found.split(' ').map(|x| x.parse().unwrap()).collect();
        Measured { name: name.clone(), taken: numbers[0], forecast: numbers[1] }
    };
    Some(names.iter().enumerate().map(one).collect())
}

/// Fails with a list of the forecasts that are below what was taken or, where that is large, more than `most`
/// times as much.
pub fn check_forecasts(found: &[Measured], most: f64) {
    let mut wrong = Vec::new();
    for Measured { name, taken, forecast } in found {
        if taken > forecast || (*taken >= MUCH && *forecast > most * taken) {
            let ratio = forecast / taken;
            wrong.push(format!("{name}: {taken} bytes, forecast {forecast} ({ratio:.2})"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
