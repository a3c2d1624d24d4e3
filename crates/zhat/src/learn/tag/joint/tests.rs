//! The bounds against enumeration of all states.

use super::field::Slopes;
use super::*;
use crate::numeric::log_sum_exp;
use crate::random::Streams;
use crate::run::Run;

struct Case {
    field: Field,
    length: usize,
}

/// A random model; a share of the scores is −∞.
fn random(sizes: (usize, usize, usize, usize), length: usize, spread: f64, zeros: f64, seed: u64) -> Case {
    let (tags, words, context, window) = sizes;
    let mut random = Streams::new(seed, "joint tests").block(0);
    let mut table = |size: usize, zeros: f64| -> Vec<f64> {
        (0..size)
            .map(|_| if random.uniform() < zeros { f64::NEG_INFINITY } else { spread * random.normal() })
            .collect()
    };
    let pairs = (0..context).map(|_| table(tags * tags, zeros)).collect();
    let emissions = (0..window).map(|_| table(words * tags, zeros)).collect();
    Case { field: Field::new(tags, words, pairs, emissions).unwrap(), length }
}

/// A by enumeration of all tags; given the tags, the words are independent.
fn enumerated(case: &Case) -> f64 {
    let Case { field, length } = case;
    let (tags, words, n) = (field.tags(), field.words(), *length);
    let window = offsets(field.window());
    let mut terms = Vec::new();
    let mut state = vec![0; n];
    loop {
        let mut score = 0.0;
        for (k, pairs) in field.pairs().iter().enumerate() {
            score += (0..n).map(|i| pairs[state[i] * tags + state[(i + k + 1) % n]]).sum::<f64>();
        }
        for j in 0..n {
            let each = (0..words).map(|w| {
                let one = |(m, table): (&i32, &Vec<f64>)| {
                    let i = (j as i32 - m).rem_euclid(n as i32) as usize;
                    table[w * tags + state[i]]
                };
                window.iter().zip(field.emissions()).map(one).sum::<f64>()
            });
            score += log_sum_exp(&each.collect::<Vec<_>>());
        }
        terms.push(score);
        let Some(i) = (0..n).find(|&i| state[i] + 1 < tags) else { break };
        state[i] += 1;
        state[..i].fill(0);
    }
    log_sum_exp(&terms)
}

const SIZES: [(usize, usize, usize, usize, usize); 12] = [
    (1, 1, 1, 1, 2),
    (2, 3, 1, 1, 7),
    (3, 6, 1, 1, 6),
    (4, 5, 1, 2, 5),
    (2, 4, 1, 3, 9),
    (3, 4, 2, 3, 6),
    (2, 6, 2, 3, 12),
    (2, 3, 2, 1, 7),
    (4, 2, 2, 2, 5),
    (2, 3, 3, 2, 8),
    (2, 3, 1, 5, 7),
    (1, 4, 2, 3, 4),
];

fn bounds(field: &Field) -> Vec<Bound> {
    let all = [Bound::Exact, Bound::Cover, Bound::Star];
    all.into_iter().filter(|bound| *bound != Bound::Exact || exact::applies(field)).collect()
}

#[test]
fn no_bound_is_violated_wherever_it_is_stopped() {
    let run = Run::default().with_threads(1);
    for (i, &(tags, words, context, window, length)) in SIZES.iter().enumerate() {
        for (j, (spread, zeros)) in [(0.5, 0.0), (3.0, 0.0), (1.0, 0.2), (1e4, 0.0)].into_iter().enumerate() {
            let case = random((tags, words, context, window), length, spread, zeros, (10 * i + j) as u64);
            let exact = enumerated(&case);
            for bound in bounds(&case.field) {
                for steps in [0, 1, 3, 40] {
                    let found = certify(&case.field, length, bound, steps, &run);
                    if exact == f64::NEG_INFINITY && found.is_err() {
                        continue;
                    }
                    let found = match found {
                        Ok(found) => found,
                        Err(error) => panic!("{bound:?} {:?}: {error}", SIZES[i]),
                    };
                    assert!(
                        found.high >= exact,
                        "{bound:?} {:?} {spread}: {} < {exact}",
                        SIZES[i],
                        found.high
                    );
                    // The trace over single tags is exact. That over pairs of tags is bounded with the constant
                    // 2·log T and an excess that is small in these models, but not certified.
                    if bound == Bound::Exact && zeros == 0.0 && spread < 100.0 && length >= 5 {
                        let of_tags = context == 1 && window < 3 || tags == 1;
                        let extra =
                            if of_tags { 2.0 * found.rounding } else { 2.0 * (tags as f64).ln() + 3.0 };
                        assert!(found.high - exact <= extra, "{:?}: {} {exact}", SIZES[i], found.high);
                    }
                    if (bound, context, window) == (Bound::Cover, 1, 1) {
                        assert!(found.high - exact <= 2.0 * found.rounding, "{} {exact}", found.high);
                    }
                }
            }
        }
    }
}

#[test]
fn optimised_dual_variables_tighten_the_bounds() {
    let run = Run::default().with_threads(1);
    for seed in 0..5 {
        let case = random((3, 5, 2, 3), 6, 1.0, 0.0, 100 + seed);
        let exact = certify(&case.field, 6, Bound::Exact, 0, &run).unwrap().high;
        for bound in [Bound::Cover, Bound::Star] {
            let first = certify(&case.field, 6, bound, 0, &run).unwrap().high;
            let best = certify(&case.field, 6, bound, 200, &run).unwrap().high;
            assert!(best <= first, "{bound:?}");
            assert!(best >= exact - 2.0 * 3f64.ln() - 1e-6, "{bound:?}: {best} {exact}");
        }
        let cover = certify(&case.field, 6, Bound::Cover, 200, &run).unwrap().high;
        let star = certify(&case.field, 6, Bound::Star, 200, &run).unwrap().high;
        assert!(cover < star, "{cover} {star}");
    }
}

#[test]
fn derivatives_are_those_of_the_value() {
    for (i, &(tags, words, context, window, length)) in SIZES.iter().enumerate() {
        let case = random((tags, words, context, window), length, 0.7, 0.0, 1000 + i as u64);
        let mut random = Streams::new(i as u64, "joint duals").block(0);
        for bound in bounds(&case.field) {
            let size = bound.duals(&case.field);
            let duals: Vec<f64> = (0..size).map(|_| 0.3 * random.normal()).collect();
            let mut slopes = Slopes::new(&case.field, size);
            let stop = || Ok(());
            bound.evaluate(&case.field, length, &duals, Some(&mut slopes), &stop).unwrap();
            let value = |field: &Field, duals: &[f64]| {
                bound.evaluate(field, length, duals, None, &stop).unwrap().value
            };
            let check = |found: f64, at: &mut dyn FnMut(f64) -> f64, what: &str| {
                let slope = (at(1e-5) - at(-1e-5)) / 2e-5;
                assert!((slope - found).abs() < 1e-8, "{bound:?} {:?} {what}: {slope} {found}", SIZES[i]);
            };
            for d in 0..size {
                let mut at = |step: f64| {
                    let mut moved = duals.clone();
                    moved[d] += step;
                    value(&case.field, &moved)
                };
                check(slopes.duals[d], &mut at, &format!("dual {d}"));
            }
            for k in 0..context {
                for x in 0..tags * tags {
                    let mut at = |step: f64| {
                        let mut moved = case.field.clone();
                        moved.pairs[k][x] += step;
                        value(&moved, &duals)
                    };
                    check(slopes.pairs[k][x], &mut at, &format!("pair {k} {x}"));
                }
            }
            for m in 0..window {
                for x in 0..words * tags {
                    let mut at = |step: f64| {
                        let mut moved = case.field.clone();
                        moved.emissions[m][x] += step;
                        value(&moved, &duals)
                    };
                    check(slopes.emissions[m][x], &mut at, &format!("word {m} {x}"));
                }
            }
        }
    }
}

#[test]
fn impossible_models_and_short_cycles_are_refused() {
    let run = Run::default().with_threads(1);
    let none = Field::new(1, 1, vec![vec![f64::NEG_INFINITY]], vec![vec![0.0]]).unwrap();
    for bound in [Bound::Exact, Bound::Cover, Bound::Star] {
        let error = certify(&none, 3, bound, 5, &run).unwrap_err();
        assert_eq!(error.kind(), "zero-partition", "{bound:?}");
    }
    let wide = random((2, 2, 1, 5), 5, 1.0, 0.0, 1).field;
    assert!(certify(&wide, 4, Bound::Star, 5, &run).is_err());
    assert!(certify(&wide, 5, Bound::Exact, 5, &run).is_err());
    assert!(Field::new(1, 1, vec![vec![f64::NAN]], vec![vec![0.0]]).is_err());
    assert!(Field::new(1, 2, vec![vec![0.0]], vec![vec![0.0]]).is_err());
    assert!(Field::new(0, 2, vec![vec![]], vec![vec![]]).is_err());
}

#[test]
fn the_same_bits_for_any_number_of_threads() {
    for bound in [Bound::Exact, Bound::Cover, Bound::Star] {
        let case = random((3, 1500, 1, 3), 50, 0.5, 0.0, 7);
        let found = |threads: usize| {
            certify(&case.field, 50, bound, 4, &Run::default().with_threads(threads)).unwrap()
        };
        assert_eq!(found(1), found(4));
    }
}
