//! L-BFGS and tied states.

use super::super::emission::Context;
use super::super::file::{read_hmm_checkpoint, write_hmm_checkpoint};
use super::super::group::Counts;
use super::super::sweep::{Plan, expect};
use super::super::*;
use super::{FAMILIES, random_case};
use crate::Run;
use crate::random::Streams;

fn run() -> Run {
    Run::default().with_threads(1)
}

pub(super) fn expected(hmm: &Hmm, data: &Sequences, context: &Context) -> (Counts, f64) {
    let density = hmm.emissions().part().density(context);
    let plan = Plan::new(data, &(0..data.count()).collect::<Vec<_>>());
    let run = run();
    let clock = run.start("test");
    expect(hmm, data, &plan, &*density, &clock, &run).unwrap()
}

/// All families and durations, with zeros, ties, priors, missing values and fixed parts.
#[test]
fn gradients_agree_with_finite_differences() {
    let mut random = Streams::new(31, "hmm gradient").block(0);
    for case in 0..96 {
        let family = FAMILIES[case % FAMILIES.len()];
        let (mut hmm, data) = random_case(family, case % 3 == 0, &mut random);
        let states = hmm.states();
        let mut how = Learning::default().least_variance(1e-3);
        if case % 2 == 0 {
            how = how.start_prior(1.5).transition_prior(2.0).emission_prior(1.2).duration_prior(1.3);
            how = how.mean_weight(0.5).covariance_weight(1.0);
        }
        how = how.fixed_start(case % 5 == 0).fixed_transitions(case % 7 == 0).fixed_emissions(case % 11 == 0);
        let form =
            [DurationForm::Geometric, DurationForm::Free, DurationForm::NegativeBinomial][case / 8 % 3];
        if let Some(durations) = Durations::initial(form, states, 6).unwrap() {
            hmm = hmm.with_durations(durations).unwrap();
        }
        let context = how.context(&data);
        let at = how.coordinates(&hmm, &context);
        how.place(&mut hmm, &at, &context);
        let value = |at: &[f64]| {
            let mut moved = hmm.clone();
            how.place(&mut moved, at, &context);
            let (counts, likelihood) = expected(&moved, &data, &context);
            (counts, likelihood + how.log_prior(&moved, &context))
        };
        let (counts, _) = value(&at);
        let gradient = how.gradient(&hmm, &at, &counts, &context);
        assert_eq!(gradient.len(), at.len(), "case {case}");
        for (i, derivative) in gradient.iter().enumerate() {
            let shifted = |by: f64| {
                let mut other = at.clone();
                other[i] += by;
                value(&other).1
            };
            let numeric = (shifted(1e-5) - shifted(-1e-5)) / 2e-5;
            let scale = 1.0 + derivative.abs();
            assert!((numeric - derivative).abs() < 1e-4 * scale, "case {case}, {i}: {numeric} {derivative}");
        }
    }
}

/// From the same parameters close to an optimum, both algorithms find it.
#[test]
fn descent_and_em_find_the_same_optimum() {
    let mut random = Streams::new(32, "hmm optimum").block(0);
    for (case, &family) in FAMILIES.iter().enumerate() {
        let columns = if case == 0 { 1 } else { 2 };
        let emissions = super::emissions(family, 2, columns, &mut random);
        let hmm = Hmm::new(vec![0.6, 0.4], vec![0.9, 0.1, 0.2, 0.8], emissions).unwrap();
        let (data, _) = hmm.sample(&[40; 5], &run().with_seed(case as u64)).unwrap();
        let how = Learning::default().tolerance(1e-10).iterations(3000);
        let how = how.transition_prior(1.5).start_prior(1.5).emission_prior(1.5).covariance_weight(1.0);
        let go = |how: &Learning, from: &Hmm| {
            train(&data, 2, family, how, Some(from), None, &run(), &mut |_| Ok(true)).unwrap()
        };
        let em = go(&how, &hmm);
        let near = go(&how.clone().iterations(10), &hmm);
        let descent = go(&how.clone().optimizer(Optimizer::Lbfgs), &near.model);
        assert!(descent.converged, "{family:?}");
        let gap = (em.objective - descent.objective).abs() / em.objective.abs();
        assert!(gap < 1e-6, "{family:?}: {} {}", em.objective, descent.objective);
        assert!(descent.objective >= near.objective);
    }
}

#[test]
fn a_resumed_descent_gives_the_same_bits() {
    let mut random = Streams::new(33, "hmm descent resume").block(0);
    let path = std::env::temp_dir().join(format!("zhat-hmm-descent-{}.zhat", std::process::id()));
    let (_, data) = random_case(FAMILIES[5], false, &mut random);
    let how = Learning::default().optimizer(Optimizer::Lbfgs).starts(2).iterations(5).tolerance(1e-12);
    let how = how.durations(DurationForm::NegativeBinomial).max_duration(4);
    let go = |from: Option<HmmCheckpoint>, watch: &mut dyn FnMut(&HmmCheckpoint) -> crate::Result<bool>| {
        train(&data, 2, FAMILIES[5], &how, None, from, &run(), watch)
    };
    let (mut steps, mut values) = (0, Vec::new());
    let whole = go(None, &mut |now| {
        (steps, values) = (steps + 1, [values.clone(), vec![now.progress()]].concat());
        Ok(true)
    })
    .unwrap();
    for pair in values.windows(2).filter(|pair| pair[0].start == pair[1].start) {
        assert!(pair[1].objective >= pair[0].objective - 1e-9, "{values:?}");
    }
    for stop in 1..=steps {
        let mut seen = 0;
        let _ = go(None, &mut |now| {
            seen += 1;
            if seen == stop {
                write_hmm_checkpoint(now, &path)?;
            }
            Ok(seen < stop)
        });
        let from = read_hmm_checkpoint(&path).unwrap();
        assert_eq!(whole, go(Some(from), &mut |_| Ok(true)).unwrap(), "{stop}");
    }
    std::fs::remove_file(&path).unwrap();
    let both = how.clone().batch(1);
    let refused = train(&data, 2, FAMILIES[5], &both, None, None, &run(), &mut |_| Ok(true)).unwrap_err();
    assert!(refused.to_string().starts_with("batch: is for optimizer=em"), "{refused}");
}

/// Tied states keep the same emissions, and the M-step is the maximum of the objective.
#[test]
fn tied_states_share_their_emissions() {
    let mut random = Streams::new(34, "hmm ties").block(0);
    for (case, &family) in FAMILIES.iter().enumerate() {
        let columns = if case == 0 { 1 } else { 2 };
        let emissions = super::emissions(family, 3, columns, &mut random);
        let transitions = (0..3).flat_map(|_| super::distribution(3, false, &mut random)).collect();
        let hmm =
            Hmm::new(vec![0.5, 0.3, 0.2], transitions, emissions).unwrap().with_ties(&[4, 1, 4]).unwrap();
        let (data, _) = hmm.sample(&[12; 6], &run()).unwrap();
        for optimizer in [Optimizer::Em, Optimizer::Lbfgs] {
            let how =
                Learning::default().optimizer(optimizer).iterations(6).tolerance(0.0).least_variance(0.01);
            let how = how.emission_prior(1.3).mean_weight(0.5).covariance_weight(0.5).ties(vec![4, 1, 4]);
            let mut objectives = Vec::new();
            let trained = train(&data, 3, family, &how, None, None, &run(), &mut |now| {
                objectives.push(now.progress().objective);
                Ok(true)
            })
            .unwrap();
            let steps = if optimizer == Optimizer::Em { &objectives[1..] } else { &objectives[..] };
            for pair in steps.windows(2) {
                assert!(pair[1] >= pair[0] - 1e-9 * (1.0 + pair[0].abs()), "{family:?} {objectives:?}");
            }
            let same = trained.model.clone().with_ties(&[4, 1, 4]).unwrap();
            assert_eq!(same, trained.model, "{family:?} {optimizer:?}");
            let free = trained.model.clone().with_ties(&[]).unwrap();
            assert!(free.parameters() > trained.model.parameters());
            let mut bytes = Vec::new();
            file::write_hmm(&trained.model, &mut bytes).unwrap();
            assert_eq!(file::parse_hmm(&bytes, "m.zhat").unwrap(), trained.model);
        }
    }
    let (_, data) = random_case(FAMILIES[0], false, &mut random);
    let how = Learning::default().ties(vec![0, 0]);
    let refused = train(&data, 3, FAMILIES[0], &how, None, None, &run(), &mut |_| Ok(true)).unwrap_err();
    assert!(refused.to_string().starts_with("ties: 2 entries for 3 states"), "{refused}");
}
