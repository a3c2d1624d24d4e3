//! Every family against enumeration of its structures.

// Several arrays share an index.
#![allow(clippy::needless_range_loop)]

use super::*;
use crate::learn::predict::{Blocks, Ranks, Sets};
use crate::random::Streams;

/// All structures, listed independently of the families.
pub(crate) fn structures(form: &Form) -> Vec<Vec<u32>> {
    let n = form.width();
    let sets = (0..1u32 << n).map(|set| (0..n).map(|i| set >> i & 1).collect::<Vec<u32>>());
    match form {
        Form::Labels { .. } => sets.collect(),
        Form::Hierarchy { parents, .. } => {
            let closed = |y: &Vec<u32>| (0..n).all(|v| y[v] == 0 || parents[v].is_none_or(|p| y[p] == 1));
            sets.filter(closed).collect()
        }
        Form::Partition { .. } => {
            let mut all = vec![vec![0u32]];
            for _ in 1..n {
                let extend = |y: &Vec<u32>| {
                    let next = y.iter().max().unwrap() + 1;
                    let more = |block| y.iter().copied().chain([block]).collect();
                    (0..=next).map(more).collect::<Vec<Vec<u32>>>()
                };
                all = all.iter().flat_map(extend).collect();
            }
            all
        }
        _ => {
            let mut all = vec![vec![]];
            for _ in 0..n {
                let extend = |y: &Vec<u32>| {
                    let free = (0..n as u32).filter(|i| !y.contains(i));
                    free.map(|i| y.iter().copied().chain([i]).collect()).collect::<Vec<Vec<u32>>>()
                };
                all = all.iter().flat_map(extend).collect();
            }
            all
        }
    }
}

/// The score of a structure by the definition of its form.
pub(crate) fn score(form: &Form, u: &[f64], y: &[u32]) -> f64 {
    let n = form.width();
    let chosen = |i: usize| f64::from(y[i]);
    match form {
        Form::Labels { pairs, .. } | Form::Hierarchy { pairs, .. } => {
            (0..n).map(|i| u[i] * chosen(i)).sum::<f64>()
                + pairs.iter().zip(&u[n..]).map(|(&(i, j), w)| w * chosen(i) * chosen(j)).sum::<f64>()
        }
        Form::Positions { .. } => (0..n).map(|place| u[y[place] as usize * n + place]).sum(),
        Form::Precedence { .. } => {
            let mut pairs = u.iter();
            let place = |item: usize| y.iter().position(|x| *x as usize == item).unwrap();
            let mut sum = 0.0;
            for i in 0..n {
                for j in i + 1..n {
                    let w = pairs.next().unwrap();
                    sum += if place(i) < place(j) { *w } else { 0.0 };
                }
            }
            sum
        }
        Form::PlackettLuce { .. } => (0..n)
            .map(|k| {
                let rest = y[k..].iter().map(|i| u[*i as usize].exp()).sum::<f64>();
                u[y[k] as usize] - rest.ln()
            })
            .sum(),
        Form::Mallows { .. } => {
            let place = |item: usize| y.iter().position(|x| *x as usize == item).unwrap();
            let mut wrong = 0.0;
            for i in 0..n {
                for j in i + 1..n {
                    // Of equal scores, the first item comes first.
                    wrong += f64::from((u[i] >= u[j]) != (place(i) < place(j)));
                }
            }
            -u[n] * wrong
        }
        Form::Partition { .. } => {
            let mut pairs = u.iter();
            let mut sum = 0.0;
            for i in 0..n {
                for j in i + 1..n {
                    let w = pairs.next().unwrap();
                    sum += if y[i] == y[j] { *w } else { 0.0 };
                }
            }
            sum
        }
    }
}

pub(crate) fn forms() -> Vec<Form> {
    let labels = |labels, pairs: &[(usize, usize)]| Form::Labels {
        labels,
        pairs: pairs.to_vec(),
        pairs_by_input: true,
    };
    let tree = |parents: &[Option<usize>], pairs: &[(usize, usize)]| Form::Hierarchy {
        parents: parents.to_vec(),
        pairs: pairs.to_vec(),
        pairs_by_input: false,
    };
    vec![
        labels(1, &[]),
        labels(5, &[]),
        labels(6, &[(0, 1), (1, 2), (2, 3), (0, 3), (4, 5)]),
        labels(4, &[(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]),
        tree(&[None], &[]),
        tree(&[None, Some(0), Some(0), Some(1), None, Some(4), Some(1)], &[]),
        // A child before its parent.
        tree(&[Some(2), Some(0), None, Some(2)], &[]),
        tree(&[None, Some(0), Some(0), Some(0), Some(1), Some(1), None], &[(1, 2), (2, 3), (4, 5)]),
        tree(&[None, Some(0), Some(0), Some(0)], &[(1, 2), (1, 3), (2, 3)]),
        Form::Positions { items: 1 },
        Form::Positions { items: 5 },
        Form::Precedence { items: 5 },
        Form::PlackettLuce { items: 5 },
        Form::Mallows { items: 5 },
        Form::Partition { elements: 1 },
        Form::Partition { elements: 5 },
    ]
}

/// Scores of several rows: ordinary, all equal, with ties, very large.
fn lanes_of_scores(channels: usize, seed: u64) -> (usize, Vec<f64>) {
    let mut random = Streams::new(seed, "form tests").block(0);
    let lanes = 5;
    let mut scores = vec![0.0; channels * lanes];
    for k in 0..channels {
        scores[k * lanes] = random.normal();
        scores[k * lanes + 1] = 0.0;
        scores[k * lanes + 2] = random.below(3) as f64 - 1.0;
        scores[k * lanes + 3] = 3.0 * random.normal();
        scores[k * lanes + 4] = 1e4 * (random.below(3) as f64 - 1.0);
    }
    (lanes, scores)
}

#[test]
fn sums_means_maxima_and_features_agree_with_enumeration() {
    for (number, form) in forms().into_iter().enumerate() {
        let family = form.compile().unwrap().family;
        let channels = family.channels();
        let (lanes, scores) = lanes_of_scores(channels, number as u64);
        let all = structures(&form);
        assert!((family.log_count() - (all.len() as f64).ln()).abs() < 1e-12, "{form:?}");
        let mut work = Work::default();
        let (mut log_z, mut best) = (vec![0.0; lanes], vec![0.0; lanes]);
        family.upward(&scores, lanes, Mode::Sum, &mut work, &mut log_z);
        let mut means = vec![0.0; channels * lanes];
        family.means(&scores, lanes, &mut work, &mut means);
        let exponential = !matches!(form, Form::PlackettLuce { .. } | Form::Mallows { .. });
        for lane in 0..lanes {
            let own: Vec<f64> = scores.iter().skip(lane).step_by(lanes).copied().collect();
            let large = own.iter().fold(1.0f64, |m, x| m.max(x.abs()));
            if !exponential && large > 100.0 {
                continue;
            }
            let values: Vec<f64> = all.iter().map(|y| score(&form, &own, y)).collect();
            let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let total: f64 = values.iter().map(|s| (s - most).exp()).sum();
            let want = most + total.ln();
            assert!((log_z[lane] - want).abs() < 1e-11 * large, "{form:?} {lane}: {} {want}", log_z[lane]);
            let mut expected = vec![0.0; channels];
            for (y, value) in all.iter().zip(&values) {
                let found = family.score(&scores, (lane, lanes), y);
                assert!((found - value).abs() < 1e-11 * large, "{form:?}: {found} {value}");
                family.features(y, &mut |channel| expected[channel] += (value - want).exp());
            }
            for channel in (0..channels).filter(|_| exponential) {
                let mean = means[channel * lanes + lane];
                assert!(
                    (mean - expected[channel]).abs() < 1e-10,
                    "{form:?} {lane}: {mean} {}",
                    expected[channel]
                );
            }
        }
        family.upward(&scores, lanes, Mode::Max, &mut work, &mut best);
        for lane in 0..lanes {
            let own: Vec<f64> = scores.iter().skip(lane).step_by(lanes).copied().collect();
            let large = own.iter().fold(1.0f64, |m, x| m.max(x.abs()));
            let mut y = vec![0; form.width()];
            family.decode(&scores, (lane, lanes), &mut work, None, &mut y);
            assert!(all.contains(&y), "{form:?}: {y:?}");
            if exponential {
                let most = all.iter().map(|y| score(&form, &own, y)).fold(f64::NEG_INFINITY, f64::max);
                assert!((best[lane] - most).abs() < 1e-11 * large);
                assert!((score(&form, &own, &y) - most).abs() < 1e-11 * large, "{form:?}: {y:?}");
            }
        }
    }
}

/// χ² of samples against the exact distribution; false alarms below 1e-7 (Wilson–Hilferty).
fn check_samples(form: &Form, family: &dyn Family, draws: u32, number: u64) {
    let (lanes, scores) = lanes_of_scores(family.channels(), 100 + number);
    let lane = 0;
    let all = structures(form);
    let own: Vec<f64> = scores.iter().skip(lane).step_by(lanes).copied().collect();
    let weights: Vec<f64> = all.iter().map(|y| score(form, &own, y).exp()).collect();
    let total: f64 = weights.iter().sum();
    let (mut work, mut log_z) = (Work::default(), vec![0.0; lanes]);
    family.upward(&scores, lanes, Mode::Sum, &mut work, &mut log_z);
    let mut random = Streams::new(7, "form samples").block(number);
    let mut counts = vec![0.0; all.len()];
    let run = Run::default();
    let many = (draws as usize, &mut random);
    family
        .draw(&scores, (lane, lanes), &mut work, many, &run.start("test"), &mut |y| {
            counts[all.iter().position(|other| other == y).unwrap()] += 1.0;
        })
        .unwrap();
    // Rare structures are put together.
    let (mut chi, mut cells, mut rest) = (0.0, -1.0, (0.0, 0.0));
    for (count, weight) in counts.iter().zip(&weights) {
        let expected = f64::from(draws) * weight / total;
        if expected < 8.0 {
            rest = (rest.0 + count, rest.1 + expected);
        } else {
            chi += (count - expected).powi(2) / expected;
            cells += 1.0;
        }
    }
    if rest.1 >= 8.0 {
        chi += (rest.0 - rest.1).powi(2) / rest.1;
        cells += 1.0;
    }
    let m = f64::max(cells, 1.0);
    let limit = m * (1.0 - 2.0 / (9.0 * m) + 5.2 * (2.0 / (9.0 * m)).sqrt()).powi(3);
    assert!(chi <= limit, "{form:?}: {chi} {limit}");
}

#[test]
fn samples_follow_the_distribution() {
    for (number, form) in forms().into_iter().enumerate() {
        check_samples(&form, &*form.compile().unwrap().family, 20_000, number as u64);
        let sampled = form.compile_samples().unwrap().family;
        if !sampled.has_sums() {
            check_samples(&form, &*sampled, 2_000, number as u64);
        }
    }
}

/// −log p of an observation by enumeration: complete and partial rankings, sets, partitions.
fn observed(form: &Form, u: &[f64], targets: &Targets, row: usize) -> f64 {
    let all = structures(form);
    let fits = |y: &Vec<u32>| match targets {
        Targets::Ranks(ranks) => {
            let ranks = ranks.row(row);
            let place = |item: usize| y.iter().position(|x| *x as usize == item).unwrap();
            (0..ranks.len()).all(|i| {
                (0..ranks.len()).all(|j| ranks[i] == 0 || ranks[i] >= ranks[j] || place(i) < place(j))
            })
        }
        _ => targets.structure(row).unwrap() == *y,
    };
    let sum = |which: &dyn Fn(&Vec<u32>) -> bool| {
        all.iter().filter(|y| which(y)).map(|y| score(form, u, y).exp()).sum::<f64>().ln()
    };
    sum(&|_| true) - sum(&fits)
}

#[test]
fn losses_agree_with_enumeration_and_gradients_with_differences() {
    for (number, form) in forms().into_iter().enumerate() {
        let family = form.compile().unwrap().family;
        let n = form.width();
        let mut random = Streams::new(3, "form targets").block(number as u64);
        let all = structures(&form);
        let rows = 7;
        let targets = match form {
            Form::Labels { .. } | Form::Hierarchy { .. } => {
                let mut sets = Sets { width: n, ..Default::default() };
                for _ in 0..rows {
                    let y = &all[random.below(all.len())];
                    sets.push((0..n as u32).filter(|i| y[*i as usize] == 1)).unwrap();
                }
                Targets::Sets(sets)
            }
            Form::Partition { .. } => {
                let blocks = (0..rows).flat_map(|_| all[random.below(all.len())].clone()).collect();
                Targets::Blocks(Blocks { elements: n, blocks })
            }
            _ => {
                let mut ranks: Vec<u32> = Vec::new();
                for row in 0..rows {
                    let order = &all[random.below(all.len())];
                    let mut own = vec![0; n];
                    order.iter().enumerate().for_each(|(place, item)| own[*item as usize] = place as u32 + 1);
                    match row {
                        // Top two, ties in the middle, unranked items, nothing at all.
                        1 => own.iter_mut().for_each(|rank| *rank = (*rank).min(3)),
                        2 => own.iter_mut().for_each(|rank| *rank = if *rank == 3 { 2 } else { *rank }),
                        3 => own.iter_mut().for_each(|rank| *rank = if *rank == 2 { 0 } else { *rank }),
                        4 => own.fill(0),
                        5 => own.iter_mut().for_each(|rank| *rank = (*rank).div_ceil(3)),
                        _ => {}
                    }
                    ranks.extend(own);
                }
                Targets::Ranks(Ranks { items: n, ranks })
            }
        };
        form.check(&targets).unwrap();
        let channels = family.channels();
        let mut scores: Vec<f64> = (0..channels * rows).map(|_| random.normal()).collect();
        let mallows = matches!(form, Form::Mallows { .. });
        if mallows {
            scores[n * rows..].iter_mut().for_each(|spread| *spread = spread.abs());
        }
        let mut work = Work::default();
        let mut evaluate = |scores: &[f64]| {
            let (mut gradient, mut losses) = (scores.to_vec(), vec![0.0; rows]);
            family.losses(&mut gradient, &targets, 0..rows, &mut work, &mut losses);
            (losses, gradient)
        };
        let (losses, gradient) = evaluate(&scores);
        for row in 0..rows {
            let own: Vec<f64> = scores.iter().skip(row).step_by(rows).copied().collect();
            let want = observed(&form, &own, &targets, row);
            assert!((losses[row] - want).abs() < 1e-10, "{form:?} {row}: {} {want}", losses[row]);
        }
        // Mallows is not trained by gradients.
        for at in (0..scores.len()).filter(|_| !mallows) {
            let step = 1e-5;
            let moved = |by: f64| {
                let mut other = scores.clone();
                other[at] += by;
                observed_sum(&form, &other, &targets, rows)
            };
            let slope = (moved(step) - moved(-step)) / (2.0 * step);
            assert!((gradient[at] - slope).abs() < 1e-6, "{form:?} {at}: {} {slope}", gradient[at]);
        }
    }
}

fn observed_sum(form: &Form, scores: &[f64], targets: &Targets, rows: usize) -> f64 {
    let own = |row: usize| scores.iter().skip(row).step_by(rows).copied().collect::<Vec<f64>>();
    (0..rows).map(|row| observed(form, &own(row), targets, row)).sum()
}

#[test]
fn unusable_forms_and_targets_are_refused() {
    let message = |form: Form| form.compile().unwrap_err().to_string();
    assert!(
        message(Form::Labels { labels: 0, pairs: vec![], pairs_by_input: false }).contains("at least one")
    );
    assert!(
        message(Form::Labels { labels: 2, pairs: vec![(1, 1)], pairs_by_input: false }).contains("(1, 1)")
    );
    let cycle = vec![Some(1), Some(0)];
    assert!(
        message(Form::Hierarchy { parents: cycle, pairs: vec![], pairs_by_input: false }).contains("cycle")
    );
    assert!(message(Form::Positions { items: 40 }).contains("plackett-luce"));
    let all: Vec<(usize, usize)> = (0..40).flat_map(|i| (i + 1..40).map(move |j| (i, j))).collect();
    assert!(message(Form::Labels { labels: 40, pairs: all, pairs_by_input: false }).contains("2^40"));
    let tree = Form::Hierarchy { parents: vec![None, Some(0)], pairs: vec![], pairs_by_input: false };
    let mut sets = Sets { width: 2, ..Default::default() };
    sets.push([1]).unwrap();
    let error = tree.check(&Targets::Sets(sets)).unwrap_err().to_string();
    assert!(error.contains("row 0 contains node 1 without its parent"), "{error}");
    let ranks = Targets::Ranks(Ranks { items: 2, ranks: vec![1, 2] });
    assert!(tree.check(&ranks).is_err());
}
