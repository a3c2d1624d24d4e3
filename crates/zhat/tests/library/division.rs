//! Divided work: for every row of the catalogue that can divide a query, the answer from parts has the bits of
//! one run, whatever the parts and threads; parts that do not fit together are refused by name.

use zhat::catalogue::{self, Choice, Divisible, Division, Part, Settings};
use zhat::model::Kind;
use zhat::model::generate::{self, ChainShape, Grid, PairwiseShape, SequenceMrfShape, Sharpness};
use zhat::random::Streams;
use zhat::{Chain, Guarantee, Model, PairwiseGraph, Query, Result, Run, SemiMarkov};

const MEMORY: u64 = 1 << 30;

fn run(seed: u64, threads: usize) -> Run {
    Run::default().with_seed(seed).with_threads(threads).with_memory(MEMORY)
}

fn grid(side: usize) -> Model {
    generate::ising(Grid { rows: side, columns: side, torus: false }, 0.4, 0.6, false, 3).unwrap().into()
}

/// A model for methods that need small scores.
fn weak() -> Model {
    generate::ising(Grid { rows: 3, columns: 3, torus: false }, 0.03, 0.03, false, 3).unwrap().into()
}

/// Models and options with which a row finishes in a fraction of a second.
fn cases(kind: Kind, method: &str) -> Vec<(Model, Settings)> {
    let set = |options: &[(&str, serde_json::Value)]| -> Settings {
        options.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
    };
    let space = |kind: &str, size, scores: &str| -> Model {
        generate::space(kind, size, scores, 0.3, 3).unwrap().into()
    };
    let samples = set(&[("samples", 4000.into())]);
    match (kind.name(), method) {
        // Without the memory for one table, cases are needed.
        ("factor-graph", "conditioning") => vec![(grid(12), set(&[]))],
        ("factor-graph", "enumeration") => vec![(grid(4), set(&[]))],
        ("factor-graph", "wmb-is") => {
            vec![(grid(6), set(&[("i_bound", 2.into()), ("samples", 4000.into())]))]
        }
        ("factor-graph", "sccq") => vec![
            (grid(5), set(&[("width", 1.into()), ("samples", 4000.into())])),
            (weak(), set(&[("form", "tuples".into()), ("samples", 4000.into())])),
        ],
        ("factor-graph", "sccq-published") => vec![(weak(), set(&[("samples", 40_000.into())]))],
        ("factor-graph", _) => vec![(grid(5), samples)],
        ("chain", _) => {
            let single: Chain<f32> = generate::rdp_chain(200, 12, 1, Sharpness::Dense, 1).unwrap();
            let shape = ChainShape { states: 90, steps: 9, batch: 3, ..ChainShape::default() };
            let batch: Chain<f64> = generate::chain(&shape, 1).unwrap();
            let states = set(&[("states", 10.into())]);
            let local =
                set(&[("states", 10.into()), ("proposal", "uniform".into()), ("replicates", 5.into())]);
            vec![(single.into(), states.clone()), (batch.clone().into(), states), (batch.into(), local)]
        }
        ("semi-markov", _) => {
            let shape = ChainShape { states: 40, steps: 12, batch: 2, ..ChainShape::default() };
            let model: SemiMarkov<f64> = generate::semi_markov(&shape, 3, 1).unwrap();
            vec![(model.into(), set(&[("states", 8.into())]))]
        }
        ("pairwise-graph", _) => {
            let shape = PairwiseShape { rows: 3, columns: 3, states: 30, ..PairwiseShape::default() };
            let graph: PairwiseGraph<f64> = generate::pairwise(&shape, 1).unwrap();
            vec![(graph.into(), set(&[("states", 8.into())]))]
        }
        ("space", "perfect") => vec![(space("hypercube", 7, "unary"), set(&[("error", 0.03.into())]))],
        ("space", "fpras-published") => {
            vec![(space("permutation", 4, "position"), set(&[("error", 0.9.into())]))]
        }
        ("space", "importance") => vec![(space("permutation", 6, "position"), set(&[("error", 0.2.into())]))],
        ("space", "annealed") => {
            vec![(space("permutation", 6, "position"), set(&[("replicates", 9.into())]))]
        }
        ("space", _) => vec![(space("permutation", 5, "position"), set(&[("error", 0.4.into())]))],
        ("sequence-mrf", _) => {
            let shape = SequenceMrfShape { length: 12, states: 4, context: 2, ..SequenceMrfShape::default() };
            let model = generate::sequence_mrf(&shape, 1).unwrap();
            vec![(model.into(), set(&[("levels", 10.into())]))]
        }
        other => panic!("no model for {other:?}"),
    }
}

/// Too little memory for elimination as a whole.
fn tight(model: &Model) -> u64 {
    let mut rows = catalogue::rows(model.kind());
    let elimination = rows.find(|row| row.method == "elimination").unwrap();
    let forecast = elimination.forecast(model, Query::LogPartition, &Settings::new(), &run(1, 1)).unwrap();
    (0.7 * forecast.bytes) as u64
}

/// The ranges of `count` parts, in an order that depends on the seed.
fn ranges(units: u64, count: u64, seed: u64) -> Vec<std::ops::Range<u64>> {
    let count = count.min(units);
    let mut ranges: Vec<_> = (0..count).map(|i| units * i / count..units * (i + 1) / count).collect();
    Streams::new(seed, "order of parts").block(0).shuffle(&mut ranges);
    ranges
}

#[test]
fn parts_have_the_bits_of_one_run() -> Result<()> {
    let mut divided = Vec::new();
    for row in catalogue::all() {
        for &query in row.divisible_queries() {
            for (model, settings) in cases(row.kind, row.method) {
                // The form with tuples answers log Z only.
                if settings.get("form").is_some() && query != Query::LogPartition {
                    continue;
                }
                let name = format!("{} {} of {}", row.method, query.name(), row.kind);
                let memory = if row.method == "conditioning" { tight(&model) } else { MEMORY };
                let run = |threads| run(7, threads).with_memory(memory);
                let choice = Choice::Named(row.method.into());
                let whole = catalogue::answer(&model, query, &choice, &settings, &run(1))?;
                let division = Division::new(&model, query, row.method, &settings, &run(2))?;
                assert!(division.units() > 1, "{name}: {} units", division.units());
                for (parts, threads) in [(1, 2), (2, 1), (7, 2), (100, 1)] {
                    let ranges = ranges(division.expected_units(), parts, parts);
                    let mut made = Vec::new();
                    for range in ranges {
                        let part = division.part(range, &run(threads))?;
                        // As it would arrive from another process.
                        let bytes = part.to_bytes()?;
                        assert!(
                            query != Query::LogPartition || bytes.len() < 100_000,
                            "{name}: {}",
                            bytes.len()
                        );
                        made.push(Part::from_bytes(&bytes, "p.part")?);
                    }
                    let merged = Division::of_part(&made[0], &model)?.merge(&made, &run(threads))?;
                    assert!(merged.value == whole.value, "{name}, {parts} parts: other values");
                    assert_eq!(merged.guarantee, whole.guarantee, "{name}, {parts} parts");
                }
                divided.push((row.method, row.kind.name()));
            }
        }
    }
    divided.dedup();
    assert!(divided.len() >= 16, "{divided:?}");
    Ok(())
}

fn options(samples: u64) -> Settings {
    [("samples".to_owned(), samples.into()), ("i_bound".to_owned(), 1.into())].into_iter().collect()
}

fn division(seed: u64) -> Division {
    let settings = options(2000);
    Division::new(&grid(5), Query::LogPartition, "wmb-is", &settings, &run(seed, 1)).unwrap()
}

#[test]
fn parts_that_do_not_fit_are_refused() -> Result<()> {
    let division = division(1);
    let part = |range| division.part(range, &run(1, 1)).unwrap();
    let merge = |parts: &[Part]| division.merge(parts, &run(1, 1)).map(|_| ()).unwrap_err().to_string();
    let (first, last) = (part(0..8), part(8..32));
    assert!(
        merge(&[first.clone()]).contains("units 8..32 of 32 are missing; compute them with --range 8..32")
    );
    assert!(merge(&[last.clone()]).contains("units 0..8 of 32 are missing"));
    assert!(merge(&[]).contains("units 0..32 of 32 are missing"));
    assert!(merge(&[part(0..10), last.clone()]).contains("units 0..10 and 8..32 overlap"));
    assert!(merge(&[part(0..9), first.clone(), last.clone()]).contains("overlap"));
    // The same part twice is used once.
    let whole = division.merge(&[first.clone(), last.clone()], &run(1, 2))?;
    assert!(division.merge(&[last.clone(), first.clone(), first.clone()], &run(1, 1))?.value == whole.value);
    // Another seed, other options, another model, another method.
    let other = self::division(2).part(0..8, &run(2, 1))?;
    assert!(merge(&[other, last.clone()]).contains("different tasks: seed: 2, expected 1"));
    let settings = options(4000);
    let other = Division::new(&grid(5), Query::LogPartition, "wmb-is", &settings, &run(1, 1))?;
    assert!(merge(&[other.part(0..8, &run(1, 1))?, last.clone()]).contains("different tasks: settings"));
    let error = Division::of_part(&first, &grid(6)).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("hash"), "{error}");
    let names = |method| {
        let found = Division::new(&grid(5), Query::LogPartition, method, &Settings::new(), &run(1, 1));
        found.map(|_| ()).unwrap_err().to_string()
    };
    assert!(
        names("elimination").contains("these methods can: conditioning, enumeration, wmb-is"),
        "{}",
        names("elimination")
    );
    // Ranges.
    for range in [0..0, 5..33, 32..40] {
        let error = division.part(range, &run(1, 1)).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("within 0..32"), "{error}");
    }
    Ok(())
}

#[test]
fn damaged_parts_are_refused() -> Result<()> {
    let bytes = division(1).part(0..4, &run(1, 1))?.to_bytes()?;
    assert!(Part::from_bytes(&bytes, "p.part").is_ok());
    let damaged = |bytes: &[u8]| Part::from_bytes(bytes, "p.part").map(|_| ()).unwrap_err().to_string();
    for cut in [0, 7, bytes.len() / 2, bytes.len() - 1] {
        assert!(damaged(&bytes[..cut]).starts_with("p.part"), "{}", damaged(&bytes[..cut]));
    }
    let mut random = Streams::new(1, "damage").block(0);
    for _ in 0..200 {
        let (at, mut other) = (random.below(bytes.len()), bytes.clone());
        other[at] ^= 1 << random.below(8);
        // Damage is found, except in the text that says where the model comes from.
        if let Ok(part) = Part::from_bytes(&other, "p.part") {
            let whole = Part::from_bytes(&bytes, "p.part")?;
            assert_eq!(part.with_source(""), whole.with_source(""));
        }
    }
    Ok(())
}

/// Intervals at all looks hold together with the stated confidence: in 400 runs, the number of runs in which
/// any of them fails is at most that of a binomial number with p = 0.2 (P < 1e-6 beyond 127).
#[test]
fn looks_hold_together() -> Result<()> {
    let model = grid(4);
    let exact = catalogue::answer(
        &model,
        Query::LogPartition,
        &Choice::parse("exact"),
        &Settings::new(),
        &run(1, 1),
    )?;
    let exact = exact.number().unwrap();
    let settings: Settings = [
        ("samples".to_owned(), 1600.into()),
        ("replicates".to_owned(), 16.into()),
        ("i_bound".to_owned(), 1.into()),
        ("confidence".to_owned(), 0.8.into()),
    ]
    .into_iter()
    .collect();
    let mut failures = 0;
    for seed in 0..400 {
        let division = Division::new(&model, Query::LogPartition, "wmb-is", &settings, &run(seed, 1))?;
        assert_eq!(division.looks(), [2, 4, 8, 16]);
        let parts: Vec<Part> = ranges(16, 16, seed)
            .into_iter()
            .map(|range| division.part(range, &run(seed, 1)))
            .collect::<Result<_>>()?;
        let mut failed = false;
        for look in 0..4 {
            let answer = division.look(look, &parts, &run(seed, 1))?;
            let Guarantee::Bounds { low, high, confidence } = answer.guarantee else { panic!() };
            assert_eq!(confidence, 0.8);
            assert_eq!(answer.diagnostics.stopped_early, look < 3);
            failed |= !(low <= exact && exact <= high);
        }
        failures += usize::from(failed);
    }
    assert!(failures <= 127, "{failures} of 400");
    Ok(())
}

#[test]
fn a_look_needs_its_units_only_and_a_method_without_looks_says_so() -> Result<()> {
    let division = division(1);
    let parts = [division.part(0..4, &run(1, 1))?];
    assert!(division.look(0, &parts, &run(1, 1)).is_ok() && division.look(1, &parts, &run(1, 1)).is_ok());
    let error = division.look(2, &parts, &run(1, 1)).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("units 4..8 of 32 are missing"), "{error}");
    let exact = Division::new(&grid(4), Query::LogPartition, "enumeration", &Settings::new(), &run(1, 1))?;
    let parts = [exact.part(0..2, &run(1, 1))?];
    assert!(!exact.is_anytime());
    let error = exact.look(0, &parts, &run(1, 1)).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("before all units"), "{error}");
    Ok(())
}

/// Uniform samples of a space end at the first look at which the interval is narrow enough.
#[test]
fn a_method_that_ends_itself_needs_the_units_up_to_its_last_look_only() -> Result<()> {
    let model: Model = generate::space("permutation", 6, "position", 0.3, 3)?.into();
    let query = Query::LogPartition;
    let settings = Settings::from_iter([("error".to_owned(), 0.02.into())]);
    let division = Division::new(&model, query, "importance", &settings, &run(5, 1))?;
    assert!(division.ends_itself() && division.is_anytime());
    assert_eq!(division.looks()[..3], [4, 8, 16]);
    assert!(division.expected_units() > 16 && division.expected_units() < 1 << 16);
    let choice = Choice::Named("importance".into());
    let whole = catalogue::answer(&model, query, &choice, &settings, &run(5, 1))?;
    let samples = whole.diagnostics.figures().find(|own| own.0 == "samples").unwrap().1.as_u64().unwrap();
    let needed = samples / 256;
    assert!(needed > 8, "{needed}");
    let part = |range| division.part(range, &run(5, 1));
    let enough = [part(0..needed)?, part(needed..needed + 3)?, part(needed + 9..needed + 10)?];
    let merged = division.merge(&enough, &run(5, 2))?;
    assert!(merged.value == whole.value);
    assert_eq!(merged.guarantee, whole.guarantee);
    let refused = |parts: &[Part]| division.merge(parts, &run(5, 1)).map(|_| ()).unwrap_err().to_string();
    let error = refused(&[part(0..needed - 1)?]);
    assert!(error.contains(&format!("--range {}..{needed}", needed - 1)), "{error}");
    assert!(refused(&[part(3..8)?]).contains("units 0..3 of"));
    let error = refused(&[part(0..5)?, part(7..8)?]);
    assert!(error.contains("--range 5..7"), "{error}");
    // The first look has an answer, and the last one that of the whole run.
    let first = division.look(0, &enough, &run(5, 1))?;
    assert!(first.diagnostics.stopped_early);
    let last = division.looks().iter().position(|&units| units == needed).unwrap();
    let last = division.look(last, &enough, &run(5, 1))?;
    assert!(last.value == whole.value && !last.diagnostics.stopped_early);
    Ok(())
}

#[test]
fn a_mean_that_was_looked_at_has_a_lower_bound_only() -> Result<()> {
    let settings = Settings::from_iter([("samples".to_owned(), 3200.into())]);
    let division = Division::new(&grid(5), Query::LogPartition, "importance", &settings, &run(1, 1))?;
    let parts = [division.part(0..32, &run(1, 1))?];
    let whole = division.merge(&parts, &run(1, 1))?;
    let Guarantee::Unbiased { relative_std_error, low: plain, .. } = whole.guarantee else { panic!() };
    let look = division.look(4, &parts, &run(1, 1))?;
    assert!(look.value == whole.value);
    let Guarantee::Bounds { low, high, confidence } = look.guarantee else { panic!() };
    assert!(low <= plain && high == f64::INFINITY && confidence == 0.95);
    let figure = look.diagnostics.figures().find(|own| own.0 == "relative_std_error").unwrap();
    assert_eq!(figure.1.as_f64(), Some(relative_std_error));
    Ok(())
}

#[test]
fn strata_of_tuples_have_no_looks() -> Result<()> {
    let settings =
        Settings::from_iter([("form".to_owned(), "tuples".into()), ("samples".to_owned(), 4000.into())]);
    let division = Division::new(&weak(), Query::LogPartition, "sccq", &settings, &run(1, 1))?;
    assert!(!division.is_anytime());
    let error = division.look(0, &[], &run(1, 1)).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("before all units"), "{error}");
    let settings = Settings::from_iter([("width".to_owned(), 1.into())]);
    assert!(Division::new(&grid(5), Query::LogPartition, "sccq", &settings, &run(1, 1))?.is_anytime());
    Ok(())
}

#[test]
fn a_part_is_checked_before_it_is_used() -> Result<()> {
    let own = division(1);
    assert_eq!(own.check_part(&own.part(3..5, &run(1, 1))?)?, 3..5);
    let error = own.check_part(&division(2).part(3..5, &run(2, 1))?).unwrap_err().to_string();
    assert!(error.contains("different tasks: seed: 2, expected 1"), "{error}");
    assert!(own.preparation_seconds() > 0.0);
    Ok(())
}

/// One that takes more than an hour by forecast can still be divided.
#[test]
fn divided_work_may_take_longer_than_the_horizon_of_one_run() -> Result<()> {
    let settings = Settings::from_iter([("width".to_owned(), 1.into()), ("epsilon".to_owned(), 1e-6.into())]);
    let choice = Choice::Named("sccq".into());
    let whole = catalogue::answer(&grid(5), Query::LogPartition, &choice, &settings, &run(1, 1));
    assert!(matches!(whole.map(|_| ()).unwrap_err(), zhat::Error::OverBudget { .. }));
    assert!(Division::new(&grid(5), Query::LogPartition, "sccq", &settings, &run(1, 1))?.units() > 1);
    Ok(())
}

#[test]
fn a_cancelled_or_late_part_is_an_error() {
    let division = division(1);
    let cancel = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let error = division.part(0..4, &run(1, 1).with_cancel(cancel)).map(|_| ()).unwrap_err();
    assert!(matches!(error, zhat::Error::Interrupted), "{error}");
    let late = run(1, 1).with_time(std::time::Duration::ZERO);
    let error = division.part(0..4, &late).map(|_| ()).unwrap_err();
    assert!(matches!(error, zhat::Error::OverBudget { .. }), "{error}");
}
