//! The benchmark models of `ZHAT_DATA`, against their published answers.

mod support;

use zhat::exact::Elimination;
use zhat::{LogPartition, Marginals, Run};

#[test]
fn partition_functions_and_marginals_agree_with_the_references() {
    for reference in support::references("reference models", 20.0) {
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
