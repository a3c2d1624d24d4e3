//! The regret of online training against its bounds.

use super::*;

/// The measured regret, the run, and the number of steps for which it was measured.
fn measured(form: &Form, data: &(Inputs, Targets), how: &Learning, seed: u64) -> Vec<(f64, Regret)> {
    let run = Run::default().with_threads(1).with_seed(seed);
    let minimum = whole(form, data, &how.method(Method::Batch).gap(1e-12), &run).0.progress.objective;
    let (_, seen) = whole(form, data, how, &run);
    seen.iter().filter_map(|now| now.regret()).map(|regret| (regret.measured(minimum), regret)).collect()
}

/// Exact gradients: always. Samples: each bound fails with probability 0.05 at most; of 60 runs, more than 14
/// failures have probability 6e-7.
#[test]
fn the_regret_is_at_most_its_bounds() {
    let mut random = Streams::new(9, "regret").block(0);
    let (mut failures, mut runs) = ([0; 2], 0);
    for round in 0..90 {
        let form = forms().swap_remove(round % forms().len());
        let data = problem(&form, 3 + random.below(9), 1 + random.below(2), false, &mut random);
        let samples = if matches!(form, Form::PlackettLuce { .. }) { 0 } else { round % 3 };
        let how = Learning::default()
            .method(Method::Online)
            .lambda([0.02, 0.3, 2.0][random.below(3)])
            .samples(samples)
            .batch(1 + random.below(4))
            .share([1.0, 0.5, 0.8][random.below(3)])
            .iterations(6)
            .gap(0.0);
        for (regret, sums) in measured(&form, &data, &how, round as u64) {
            if samples == 0 {
                assert!(regret <= sums.exact_part() + 1e-9, "{form:?} {how:?}: {regret} {sums:?}");
                assert_eq!((sums.confidence(), sums.sample_bound()), (1.0, sums.exact_part()));
            } else if sums.steps == (6 * data.0.rows().div_ceil(how.batch)) as u64 {
                runs += 1;
                failures[0] += u32::from(regret > sums.radius_bound());
                failures[1] += u32::from(regret > sums.sample_bound());
            }
        }
    }
    assert!(runs >= 50 && failures.iter().all(|count| *count <= 14), "{failures:?} {runs}");
}

/// Ties before other items make the loss of a ranking not convex, and the proofs do not hold. Plackett–Luce without
/// ties keeps its bounds, also with items that have no rank.
#[test]
fn partial_rankings_have_no_bound_unless_they_are_convex() {
    let mut random = Streams::new(11, "regret").block(0);
    let how = Learning::default().method(Method::Online).samples(0).lambda(0.3).iterations(4).gap(0.0);
    let run = Run::default().with_threads(1);
    for form in [Form::Precedence { items: 4 }, Form::Positions { items: 3 }, Form::PlackettLuce { items: 4 }]
    {
        let (inputs, mut targets) = problem(&form, 9, 2, false, &mut random);
        let Targets::Ranks(ranks) = &mut targets else { panic!() };
        ranks.ranks.iter_mut().filter(|rank| **rank == 2).for_each(|rank| *rank = 1);
        let (found, seen) = whole(&form, &(inputs, targets), &how, &run);
        let regret = found.regret.unwrap();
        assert!(!regret.is_convex() && regret.confidence() == 0.0, "{regret:?}");
        assert_eq!((regret.sample_bound(), regret.radius_bound()), (f64::INFINITY, f64::INFINITY));
        // The measured regret still bounds the true one, since the minimum is at least 0.
        assert!(found.progress.gap == found.progress.objective && found.confidence == 1.0);
        // A checkpoint keeps this.
        let path = std::env::temp_dir().join(format!("zhat-regret-{}", std::process::id()));
        crate::learn::predict::file::write_predictor_checkpoint(&seen[3], &path).unwrap();
        let read = crate::learn::predict::file::read_predictor_checkpoint(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read.regret(), Some(regret));
    }
    let form = Form::PlackettLuce { items: 4 };
    let (inputs, mut targets) = problem(&form, 9, 2, false, &mut random);
    let Targets::Ranks(ranks) = &mut targets else { panic!() };
    ranks.ranks.iter_mut().filter(|_| random.below(4) == 0).for_each(|rank| *rank = 0);
    for (regret, sums) in measured(&form, &(inputs, targets), &how, 1) {
        assert!(sums.is_convex() && sums.confidence() == 1.0);
        assert!(regret <= sums.sample_bound() + 1e-9, "{regret} {sums:?}");
    }
}

/// With a share below 1 the additional regret of samples has a bound that does not depend on the number of
/// steps, and the one of any errors within their radii grows in proportion to it.
#[test]
fn the_cost_of_samples_is_constant_with_a_share_below_one() {
    let mut random = Streams::new(10, "regret").block(0);
    let form = forms().swap_remove(0);
    let data = problem(&form, 12, 2, false, &mut random);
    let how = Learning::default().method(Method::Online).lambda(0.5).share(0.5).iterations(40).gap(0.0);
    let seen = measured(&form, &data, &how, 1);
    let cost = |(_, sums): &(f64, Regret)| sums.sample_bound() - sums.exact_part();
    let any = |(_, sums): &(f64, Regret)| sums.radius_bound() - sums.exact_part();
    assert!(cost(&seen[39]) <= 1.0001 * cost(&seen[9]), "{} {}", cost(&seen[39]), cost(&seen[9]));
    assert!(any(&seen[39]) > 3.0 * any(&seen[9]));
    // The regret itself grows by less than a third when the number of steps is multiplied by four.
    assert!(seen[39].0 < 1.5 * seen[9].0 && seen[39].0 > 0.0, "{} {}", seen[9].0, seen[39].0);
}
