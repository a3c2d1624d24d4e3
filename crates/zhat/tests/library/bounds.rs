//! The interval that tightens: it always covers, and never widens.

use zhat::bounds::CertifiedBounds;
use zhat::exact::{Elimination, Enumeration};
use zhat::model::generate::{self, Grid};
use zhat::{Guarantee, LogPartition, Run};

#[test]
fn small_models_close_at_once() {
    for (name, graph) in crate::support::small_models(40) {
        let want = Enumeration::default().log_partition(&graph, &Run::default());
        let got = CertifiedBounds::default().log_partition(&graph, &Run::default());
        let (Ok(want), Ok(got)) = (&want, &got) else {
            assert!(want.is_err() && got.is_err(), "{name}");
            continue;
        };
        let Guarantee::Bounds { low, high, confidence } = got.guarantee else { panic!("{name}") };
        assert_eq!(confidence, 1.0);
        let rounding = want.diagnostics.rounding;
        assert!(low <= want.value + rounding && want.value - rounding <= high, "{name}");
        assert!(high - low < 0.01, "{name}: {low} to {high}");
    }
}

#[test]
fn without_memory_for_the_exact_answer_every_interval_covers_it() {
    for (coupling, seed) in [(0.3, 1), (1.0, 2)] {
        let grid = Grid { rows: 17, columns: 17, torus: false };
        let graph = generate::ising(grid, coupling, 0.5, false, seed).unwrap();
        let exact = Elimination::default().log_partition(&graph, &Run::default()).unwrap();
        let (truth, rounding) = (exact.value, exact.diagnostics.rounding);
        let run = Run::default().with_memory(1 << 20).with_time(std::time::Duration::from_secs(4));
        let mut steps = 0;
        let mut last = f64::INFINITY;
        let answer = CertifiedBounds { gap: 0.001 }
            .tighten(&graph, &run, &mut |interval| {
                assert!(
                    interval.low <= truth + rounding && truth - rounding <= interval.high,
                    "{interval:?} {truth}"
                );
                assert!(interval.gap() <= last);
                last = interval.gap();
                steps += 1;
                true
            })
            .unwrap();
        assert!(steps > 3 && last.is_finite(), "{steps} {last}");
        let Guarantee::Bounds { low, high, .. } = answer.guarantee else { panic!() };
        assert!((low, high) == (answer.value - 0.5 * (high - low), high) || (high - low - last).abs() < 1e-9);
    }
}

#[test]
fn a_wide_enough_gap_ends_the_work() {
    let grid = Grid { rows: 30, columns: 30, torus: false };
    let graph = generate::ising(grid, 0.5, 0.5, false, 1).unwrap();
    let run = Run::default().with_memory(16 << 20);
    let answer = CertifiedBounds { gap: 1e4 }.log_partition(&graph, &run).unwrap();
    assert!(!answer.diagnostics.stopped_early && answer.diagnostics.seconds < 20.0);
    assert!(CertifiedBounds { gap: -1.0 }.log_partition(&graph, &run).is_err());
}
