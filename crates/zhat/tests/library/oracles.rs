//! Tests of the tools that the other tests rely on.

use crate::support::double_double::Double;
use crate::support::statistics::{ALARM, bernstein_radius, binomial_tail, multinomial_tail};

#[test]
fn the_tails_have_known_values() {
    assert!((binomial_tail(10, 8, 0.5) - 56.0 / 1024.0).abs() < 1e-15);
    assert!((binomial_tail(3000, 0, 0.05) - 1.0).abs() < 1e-10);
    assert_eq!(multinomial_tail(&[25, 25, 50], &[0.25, 0.25, 0.5]), 1.0);
    assert_eq!(multinomial_tail(&[1, 9], &[0.0, 1.0]), 0.0);
    assert!(multinomial_tail(&[700, 300], &[0.5, 0.5]) < ALARM);
    // The mean of n terms ±1 is within about √(2·ln(2/alarm)/n) of 0.
    assert!((bernstein_radius(1e6, 1.0, 1.0, 2.0 * (-8f64).exp()) - 4e-3).abs() < 1e-5);
}

#[test]
fn exp_ln_and_square_root_have_thirty_digits() {
    let e = Double::from(1.0).exp();
    assert_eq!(e.high, std::f64::consts::E);
    assert!((e.low - 1.445_646_891_729_250_2e-16).abs() < 1e-29);
    for x in [0.3, 1.0, 7.25, 650.0] {
        let back = Double::from(x).exp().ln() - x.into();
        assert!(back.high.abs() < 1e-28 * x, "{x}: {back:?}");
        let root = Double::from(x).sqrt();
        assert!((root * root - x.into()).high.abs() < 1e-30 * x, "{x}");
    }
    let ln_2 = Double { high: std::f64::consts::LN_2, low: 2.319_046_813_846_299_6e-17 };
    assert!((Double::from(2.0).ln() - ln_2).high.abs() < 1e-31);
}
