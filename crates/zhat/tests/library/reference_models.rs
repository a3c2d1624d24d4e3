//! The benchmark models of `ZHAT_DATA`, against their published results.

use zhat::catalogue::{Choice, Settings, answer};
use zhat::exact::Elimination;
use zhat::{LogPartition, Marginals, Promise, Query, Run};

#[test]
fn partition_functions_and_marginals_agree_with_the_references() {
    for reference in crate::support::references("reference models", 20.0) {
        let (model, name) = (reference.model(), reference.path.display());
        let started = std::time::Instant::now();
        if let Some(want) = reference.log10_partition {
            let z = Elimination::default().log_partition(&model, &Run::default()).unwrap();
            let got = z.value / std::f64::consts::LN_10;
            assert!((got - want).abs() <= f64::max(1e-3, 5e-6 * want.abs()), "{name}: {got}, want {want}");
        }
        if let Some(want) = reference.marginals() {
            let beliefs = Elimination::default().marginals(&model, &Run::default()).unwrap().value;
            assert_eq!(beliefs.len(), want.len(), "{name}");
            for (v, (got, want)) in beliefs.iter().zip(&want).enumerate() {
                for (p, q) in got.iter().zip(want) {
                    assert!((p - q).abs() <= 2e-6, "{name}: variable {v} has {got:?}, want {want:?}");
                }
            }
        }
        eprintln!("{name}: {:.2} s", started.elapsed().as_secs_f64());
    }
}

/// Models whose tables would have 2^33 to more than 2^60 entries if zeros were not exploited.
#[test]
fn zeros_make_hard_models_tractable() {
    let hard = ["linkage_21.uai", "linkage_27.uai", "log-1.cnf.uai", "log-3.cnf.uai", "logistics.a.cnf.uai"];
    let run = Run::default().with_memory(1 << 30);
    for reference in crate::support::references("hard models", f64::INFINITY) {
        if !hard.iter().any(|name| reference.path.ends_with(name)) {
            continue;
        }
        let (name, want) = (reference.path.display().to_string(), reference.log10_partition.unwrap());
        let model = reference.model().into();
        let choice = Choice::AtLeast(Promise::Exact);
        let z = answer(&model, Query::LogPartition, &choice, &Settings::new(), &run).unwrap();
        let z = z.into_estimate().unwrap();
        let got = z.value / std::f64::consts::LN_10;
        assert!((got - want).abs() <= f64::max(1e-3, 5e-6 * want.abs()), "{name}: {got}, want {want}");
        eprintln!("{name}: {} in {:.2} s", z.diagnostics.method, z.diagnostics.seconds);
    }
}
