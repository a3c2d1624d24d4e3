//! Certified interval that tightens over time: it always covers log Z and never widens.

use std::mem::discriminant;

use zhat::bounds::CertifiedBounds;
use zhat::exact::Elimination;
use zhat::model::generate::{self, Grid};
use zhat::{Error, Guarantee, LogPartition, Run};

use crate::support::oracle::Oracle;

#[test]
fn small_models_reach_a_narrow_interval() {
    let zero = crate::support::zero_models().into_iter().map(|(name, graph)| (name.to_string(), graph));
    let (mut some, mut none) = (0, 0);
    for (name, graph) in crate::support::small_models(40).into_iter().chain(zero) {
        let oracle = Oracle::new(&graph);
        let got = match CertifiedBounds::default().log_partition(&graph, &Run::default()) {
            Err(error) => {
                assert!(oracle.is_zero(), "{name}: {error}");
                assert_eq!(discriminant(&error), discriminant(&Error::ZeroPartition), "{name}: {error}");
                none += 1;
                continue;
            }
            Ok(got) => got,
        };
        assert!(!oracle.is_zero(), "{name}: {got}");
        some += 1;
        let Guarantee::Bounds { low, high, confidence } = got.guarantee else { panic!("{name}") };
        assert_eq!(confidence, 1.0);
        let (want, allowance) = (oracle.log_partition(), oracle.allowance());
        assert!(low <= want + allowance && want - allowance <= high, "{name}: {low} {want} {high}");
        assert!(high - low < 0.01, "{name}: {low} to {high}");
    }
    assert!(some >= 40 && none >= 5, "{some} {none}");
}

#[test]
fn without_memory_for_exact_inference_every_interval_covers_log_z() {
    for (coupling, seed) in [(0.3, 1), (1.0, 2)] {
        let grid = Grid { rows: 17, columns: 17, torus: false };
        let graph = generate::ising(grid, coupling, 0.5, false, seed).unwrap();
        let exact = Elimination::default().log_partition(&graph, &Run::default()).unwrap();
        let (truth, rounding) = (exact.value, exact.diagnostics.rounding);
        let run = Run::default().with_memory(1 << 20).with_time(std::time::Duration::from_secs(4));
        let mut steps = 0;
        let (mut last, mut gap) = ((f64::NEG_INFINITY, f64::INFINITY), f64::INFINITY);
        let answer = CertifiedBounds::default()
            .gap(0.001)
            .tighten(&graph, &run, &mut |interval| {
                assert!(
                    interval.low <= truth + rounding && truth - rounding <= interval.high,
                    "{interval:?} {truth}"
                );
                assert!(interval.low >= last.0 && interval.high <= last.1 && interval.gap() <= gap);
                (last, gap) = ((interval.low, interval.high), interval.gap());
                steps += 1;
                true
            })
            .unwrap();
        assert!(steps > 3 && gap.is_finite(), "{steps} {gap}");
        // The result is the midpoint of the last reported interval.
        let Guarantee::Bounds { low, high, confidence } = answer.guarantee else { panic!() };
        assert_eq!((low, high, confidence), (last.0, last.1, 1.0));
        assert_eq!(answer.value, 0.5 * (low + high));
    }
}

/// The run ends with the first interval that is narrow enough.
#[test]
fn the_run_ends_once_the_gap_is_reached() {
    let grid = Grid { rows: 30, columns: 30, torus: false };
    let graph = generate::ising(grid, 0.5, 0.5, false, 1).unwrap();
    let run = Run::default().with_memory(16 << 20);
    let wide = 1e4;
    let mut gaps = Vec::new();
    let answer = CertifiedBounds::default()
        .gap(wide)
        .tighten(&graph, &run, &mut |interval| {
            gaps.push(interval.gap());
            true
        })
        .unwrap();
    assert!(!answer.diagnostics.stopped_early);
    let (last, before) = gaps.split_last().unwrap();
    assert!(*last <= wide && before.iter().all(|gap| *gap > wide), "{gaps:?}");
    let Err(error) = (CertifiedBounds::default().gap(-1.0)).log_partition(&graph, &run) else { panic!() };
    assert!(matches!(&error, Error::Argument { name, .. } if name == "gap"), "{error}");
}
