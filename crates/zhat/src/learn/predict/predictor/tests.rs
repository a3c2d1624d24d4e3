//! Predictions, probabilities and decisions against enumeration.

use super::*;
use crate::learn::predict::data::{Cells, InputColumn};
use crate::learn::predict::file::{parse_predictor, write_predictor};
use crate::learn::predict::form::tests::{forms, score, structures};
use crate::learn::predict::{Encoding, Ranks, Scaling, Sets, area, evaluate, kendall};
use crate::random::Streams;

const ROWS: usize = 70;

/// Rows with two inputs.
fn examples() -> Examples {
    let mut random = Streams::new(8, "predictor tests").block(0);
    let column = |name: &str| InputColumn { name: name.into(), levels: None };
    Examples {
        source: "t".into(),
        lines: (1..=ROWS).collect(),
        columns: vec![column("a"), column("b")],
        cells: Cells::Dense((0..2 * ROWS).map(|_| random.normal()).collect()),
        names: Vec::new(),
        parents: Vec::new(),
        targets: None,
        weights: None,
    }
}

/// A predictor with random parameters, and the scores of all its rows.
fn predictor(form: &Form, seed: u64) -> (Predictor, Inputs, Vec<Vec<f64>>) {
    let mut random = Streams::new(seed, "predictor tests").block(1);
    let examples = examples();
    let how = Encoding { scaling: Scaling::None, fourier: None };
    let encoder = Encoder::fit(&examples, &how).unwrap();
    let compiled = form.compile().unwrap();
    let (width, channels) = (compiled.by_input, compiled.family.channels());
    let mut parameters: Vec<f64> = (0..dimension(&compiled, 3)).map(|_| random.normal()).collect();
    if let (Form::Mallows { .. }, Some(spread)) = (form, parameters.last_mut()) {
        *spread = spread.abs();
    }
    let names = (0..form.width()).map(|i| format!("n{i}")).collect();
    let Cells::Dense(cells) = &examples.cells else { panic!() };
    let rows = cells.chunks(2).map(|x| {
        let weight = |j: usize, k: usize| parameters[j * width + k];
        let by_input = (0..width).map(|k| x[0] * weight(0, k) + x[1] * weight(1, k) + weight(2, k));
        by_input.chain((width..channels).map(|k| parameters[3 * width + k - width])).collect()
    });
    let rows = rows.collect();
    let made = Predictor::new(form.clone(), names, encoder, parameters.clone(), Training::default()).unwrap();
    let inputs = made.inputs(&examples, &Run::default()).unwrap();
    (made, inputs, rows)
}

/// All structures with their probabilities.
fn law(form: &Form, u: &[f64]) -> Vec<(Vec<u32>, f64)> {
    let all = structures(form);
    let weights: Vec<f64> = all.iter().map(|y| score(form, u, y).exp()).collect();
    let total: f64 = weights.iter().sum();
    all.into_iter().zip(weights.into_iter().map(|w| w / total)).collect()
}

fn f1(y: &[u32], h: &[u32]) -> f64 {
    let both = y.iter().zip(h).filter(|(a, b)| **a == 1 && **b == 1).count() as f64;
    let sizes = (y.iter().sum::<u32>() + h.iter().sum::<u32>()) as f64;
    if sizes == 0.0 { 1.0 } else { 2.0 * both / sizes }
}

fn place(order: &[u32], item: usize) -> usize {
    order.iter().position(|x| *x as usize == item).unwrap()
}

fn tau(a: &[u32], b: &[u32]) -> f64 {
    let ranks = |order: &[u32]| (0..order.len()).map(|i| place(order, i) as u32 + 1).collect::<Vec<u32>>();
    kendall(&ranks(a), &ranks(b)).unwrap_or(0.0)
}

#[test]
fn decisions_and_probabilities_agree_with_enumeration() {
    let run = Run::default();
    for (number, form) in forms().into_iter().enumerate() {
        let (made, inputs, scores) = predictor(&form, number as u64);
        let n = form.width();
        let sets = matches!(made.space(), Space::Labels | Space::Hierarchy);
        let marginals = made.marginals(&inputs, &run).unwrap();
        let whole = made.predict(&inputs, Decision::MostProbable, &run).unwrap();
        let best = made.best(&inputs, 4, &run).unwrap();
        let (single, largest, order) = (
            sets.then(|| made.predict(&inputs, Decision::Hamming, &run).unwrap()),
            sets.then(|| made.predict(&inputs, Decision::F1, &run).unwrap()),
            (made.space() == Space::Ranking).then(|| made.predict(&inputs, Decision::Kendall, &run).unwrap()),
        );
        assert_eq!(made.predict(&inputs, Decision::F1, &run).is_ok(), sets);
        for row in (0..ROWS).step_by(9) {
            let law = law(&form, &scores[row]);
            let probability = |y: &[u32]| law.iter().find(|(other, _)| other == y).unwrap().1;
            let mut ranked: Vec<f64> = law.iter().map(|(_, p)| *p).collect();
            ranked.sort_by(|a, b| b.total_cmp(a));
            assert!((whole[row].log_probability.exp() - ranked[0]).abs() < 1e-12, "{form:?}");
            for (found, want) in best[row].iter().zip(&ranked) {
                assert!((found.log_probability.exp() - want).abs() < 1e-12, "{form:?}");
                assert!((probability(&found.structure) - want).abs() < 1e-12, "{form:?}");
            }
            assert_eq!(best[row].len(), ranked.len().min(4));
            let event =
                |is: &dyn Fn(&[u32]) -> bool| law.iter().filter(|(y, _)| is(y)).map(|(_, p)| p).sum::<f64>();
            for i in 0..n {
                if sets {
                    let want = event(&|y| y[i] == 1);
                    assert!((marginals[row][i] - want).abs() < 1e-12, "{form:?} {i}");
                    continue;
                }
                for j in (0..n).filter(|&j| j != i) {
                    let want = match made.space() {
                        Space::Ranking => event(&|y| place(y, i) < place(y, j)),
                        _ => event(&|y| y[i] == y[j]),
                    };
                    assert!((marginals[row][i * n + j] - want).abs() < 1e-12, "{form:?} {i} {j}");
                }
            }
            let expected = |value: &dyn Fn(&[u32]) -> f64| law.iter().map(|(y, p)| p * value(y)).sum::<f64>();
            let most = |value: &dyn Fn(&[u32]) -> f64| {
                law.iter().map(|(h, _)| value(h)).fold(f64::NEG_INFINITY, f64::max)
            };
            if let (Some(single), Some(largest)) = (&single, &largest) {
                let wrong = |h: &[u32]| expected(&|y| y.iter().zip(h).filter(|(a, b)| a != b).count() as f64);
                let chosen = &single[row].structure;
                assert!((wrong(chosen) + most(&|h| -wrong(h))).abs() < 1e-10, "{form:?}");
                let value = |h: &[u32]| expected(&|y| f1(y, h));
                let chosen = &largest[row].structure;
                assert!(law.iter().any(|(y, _)| y == chosen), "{form:?}: {chosen:?}");
                assert!((value(chosen) - most(&|h| value(h))).abs() < 1e-10, "{form:?}");
            }
            if let Some(order) = &order {
                let value = |h: &[u32]| expected(&|y| tau(y, h));
                assert!((value(&order[row].structure) - most(&|h| value(h))).abs() < 1e-10, "{form:?}");
            }
        }
        let drawn = made.sample(&inputs, 3, &run).unwrap();
        assert_eq!((drawn.len(), drawn[0].len()), (ROWS, 3));
        assert_eq!(drawn, made.sample(&inputs, 3, &Run::default().with_threads(1)).unwrap());
        if !matches!(form, Form::PlackettLuce { .. }) {
            made.row_model(&inputs, 3, &run).unwrap();
        }
        let mut bytes = Vec::new();
        write_predictor(&made, &mut bytes).unwrap();
        let again = parse_predictor(&bytes, "m.zhat").unwrap();
        assert_eq!(
            (again.form(), again.parameters(), again.encoder()),
            (made.form(), made.parameters(), made.encoder())
        );
        for length in (0..bytes.len()).step_by(37) {
            assert!(parse_predictor(&bytes[..length], "").is_err());
        }
    }
}

/// Reliability on data drawn from the model itself: the share of each bin has a variance of at most the sum
/// of those of single rows, each of at most n² per row; Hoeffding with ranges n per row.
#[test]
fn probabilities_are_reliable_on_data_drawn_from_the_model() {
    let run = Run::default().with_seed(11);
    for form in [forms().swap_remove(2), forms().swap_remove(5), forms().swap_remove(13)] {
        let (made, inputs, _) = predictor(&form, 5);
        // Sixty samples of each row are sixty rows.
        let copies = 60;
        let rows: Vec<usize> = (0..ROWS).flat_map(|row| vec![row; copies]).collect();
        let many = inputs.select(&rows);
        let drawn = made.sample(&many, 1, &run).unwrap();
        let n = form.width();
        let targets = match made.space() {
            Space::Ranking => {
                let ranks =
                    drawn.iter().flat_map(|y| (0..n).map(|i| place(&y[0], i) as u32 + 1).collect::<Vec<_>>());
                Targets::Ranks(Ranks { items: n, ranks: ranks.collect() })
            }
            _ => {
                let mut sets = Sets { width: n, ..Default::default() };
                for y in &drawn {
                    sets.push((0..n as u32).filter(|i| y[0][*i as usize] == 1)).unwrap();
                }
                Targets::Sets(sets)
            }
        };
        let found = evaluate(&made, &many, &targets, None, &run).unwrap();
        let events_per_row = if made.space() == Space::Ranking { n * (n - 1) / 2 } else { n } as f64;
        for bin in &found.reliability {
            // At most all events of a row are in the bin: the mean of `count` events has a range of n/count
            // per row. False alarm 1e-8 per bin.
            let rows = (bin.count as f64).min((ROWS * copies) as f64);
            let radius = events_per_row / bin.count as f64 * (rows * (2e8f64).ln() / 2.0).sqrt();
            assert!((bin.observed - bin.predicted).abs() <= radius, "{form:?}: {bin:?} {radius}");
        }
        // The log-loss estimates the entropy; a uniform guess has ln |Y|.
        assert!(found.get("log_loss").unwrap() < (structures(&form).len() as f64).ln());
        if let Some(value) = found.get("au_prc") {
            let marginals = made.marginals(&many, &run).unwrap();
            let Targets::Sets(sets) = &targets else { panic!() };
            let events: Vec<(f64, bool)> = marginals
                .iter()
                .enumerate()
                .flat_map(|(row, own)| {
                    let members = sets.row(row);
                    own.iter().enumerate().map(move |(i, p)| (*p, members.contains(&(i as u32))))
                })
                .collect();
            assert_eq!(value, area(&events));
        }
    }
}

#[test]
fn unusable_parts_and_questions_are_refused() {
    let run = Run::default();
    let (made, inputs, _) = predictor(&forms().swap_remove(12), 1);
    let message = |error: Error| error.to_string();
    assert!(
        message(made.predict(&inputs, Decision::Hamming, &run).unwrap_err())
            .contains("most-probable or kendall")
    );
    assert!(
        message(made.predict(&Inputs::bias(3), Decision::Kendall, &run).unwrap_err()).contains("columns")
    );
    assert!(message(made.row_model(&inputs, ROWS, &run).unwrap_err()).contains("out of range"));
    let sets = Targets::Sets(Sets { width: 5, ends: vec![0], members: vec![] });
    assert!(message(made.log_probabilities(&inputs, &sets, &run).unwrap_err()).contains("ranking"));
    let short =
        Predictor::new(made.form().clone(), vec![], made.encoder().clone(), vec![], Training::default());
    assert!(message(short.unwrap_err()).contains("names"));
}

/// Decisions from exact samples, for label graphs and a hierarchy with all pairs. Each guarantee fails with
/// probability 0.01; more than 3 failures of 6 have probability 2e-7.
#[test]
fn decisions_from_samples_are_within_their_bounds() {
    let run = Run::default().with_seed(3);
    let clock = run.start("test");
    let all =
        |n: usize| -> Vec<(usize, usize)> { (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j))).collect() };
    let forms = [
        Form::Labels { labels: 4, pairs: all(4), pairs_by_input: false },
        Form::Labels { labels: 5, pairs: all(5), pairs_by_input: true },
        Form::Hierarchy {
            parents: vec![None, Some(0), Some(0), None],
            pairs: vec![(1, 2), (0, 3)],
            pairs_by_input: false,
        },
    ];
    let mut failures = [0; 5];
    for (number, form) in forms.iter().enumerate() {
        let (made, inputs, scores) = predictor(form, 20 + number as u64);
        for at in [0, 30] {
            let model = made.row_model(&inputs, at, &run).unwrap();
            let row = made.row(at, &model, &run, &clock);
            let law = law(form, &scores[at]);
            let probability = |y: &[u32]| law.iter().find(|(other, _)| other == y).unwrap().1;
            let expected = |value: &dyn Fn(&[u32]) -> f64| law.iter().map(|(y, p)| p * value(y)).sum::<f64>();
            let most = |value: &dyn Fn(&[u32]) -> f64| {
                law.iter().map(|(h, _)| value(h)).fold(f64::NEG_INFINITY, f64::max)
            };
            let limit = |guarantee: &Guarantee| match guarantee {
                Guarantee::Bounds { low, high, confidence } => {
                    assert!(*low == 0.0 && *confidence >= 0.99);
                    *high + 1e-12
                }
                other => panic!("{other:?}"),
            };
            let (best, choice) = row::annealed(&row).unwrap();
            let below = most(&|h| probability(h).ln()) - probability(&best).ln();
            failures[0] += u32::from(below > limit(&choice));
            let (values, radius) = row::sampled_marginals(&row).unwrap();
            let wrong = (0..form.width())
                .any(|i| (values[i] - expected(&|y| f64::from(y[i]))).abs() > limit(&radius));
            failures[1] += u32::from(wrong);
            let (set, choice) = row::above_half(&values, &radius);
            let loss = |h: &[u32]| {
                expected(&|y| y.iter().zip(h).filter(|(a, b)| a != b).count() as f64) / form.width() as f64
            };
            failures[2] += u32::from(loss(&set) + most(&|h| -loss(h)) > limit(&choice));
            let (set, choice) = row::largest_f1(&row).unwrap();
            let value = |h: &[u32]| expected(&|y| f1(y, h));
            failures[3] += u32::from(most(&|h| value(h)) - value(&set) > limit(&choice));
            let mut ranked: Vec<f64> = law.iter().map(|(_, p)| *p).collect();
            ranked.sort_by(|a, b| b.total_cmp(a));
            let found = row::best_of_samples(&row, 6).unwrap();
            assert!(found.len() <= 6 && !found.is_empty());
            let late = found.iter().zip(&ranked).any(|(one, p)| {
                assert!((one.log_probability - probability(&one.structure).ln()).abs() < 1e-9);
                p.ln() - one.log_probability > limit(&one.choice)
            });
            let missed = ranked.iter().filter(|p| **p >= row::found_probability(4096, 0.01)).count();
            failures[4] += u32::from(late || found.len() < missed.min(6));
            for decision in [Decision::MostProbable, Decision::Hamming, Decision::F1] {
                let one = row::predict(&row, decision).unwrap();
                assert!((one.log_probability - probability(&one.structure).ln()).abs() < 1e-9);
            }
        }
    }
    assert!(failures.iter().all(|count| *count <= 3), "{failures:?}");
}

/// The same for orders and partitions, whose pairs are the marginals. Each guarantee fails with probability 0.01; more
/// than 3 failures of 6 have probability 2e-7.
#[test]
fn orders_and_partitions_from_samples_are_within_their_bounds() {
    let run = Run::default().with_seed(4);
    let clock = run.start("test");
    let forms =
        [Form::Precedence { items: 5 }, Form::Positions { items: 4 }, Form::Partition { elements: 5 }];
    let mut failures = [0; 5];
    for (number, form) in forms.iter().enumerate() {
        let (made, inputs, scores) = predictor(form, 40 + number as u64);
        let n = form.width();
        for at in [0, 30] {
            let model = made.row_model(&inputs, at, &run).unwrap();
            let row = made.row(at, &model, &run, &clock);
            let law = law(form, &scores[at]);
            let probability = |y: &[u32]| law.iter().find(|(other, _)| other == y).unwrap().1;
            let expected = |value: &dyn Fn(&[u32]) -> f64| law.iter().map(|(y, p)| p * value(y)).sum::<f64>();
            let most = |value: &dyn Fn(&[u32]) -> f64| {
                law.iter().map(|(h, _)| value(h)).fold(f64::NEG_INFINITY, f64::max)
            };
            let limit = |guarantee: &Guarantee| match guarantee {
                Guarantee::Bounds { low, high, confidence } => {
                    assert!(*low == 0.0 && *confidence >= 0.99);
                    *high + 1e-12
                }
                other => panic!("{other:?}"),
            };
            let (best, choice) = row::annealed(&row).unwrap();
            let below = most(&|h| probability(h).ln()) - probability(&best).ln();
            failures[0] += u32::from(below > limit(&choice));
            let (values, radius) = row::sampled_marginals(&row).unwrap();
            let pair = |y: &[u32], i: usize, j: usize| match form {
                Form::Partition { .. } => y[i] == y[j],
                _ => place(y, i) < place(y, j),
            };
            let wrong = |values: &[f64], most: f64| {
                (0..n * n)
                    .any(|at| (values[at] - expected(&|y| f64::from(pair(y, at / n, at % n)))).abs() > most)
            };
            failures[1] += u32::from(wrong(&values, limit(&radius)));
            // Sums over all sets are quick here, and the marginals exact.
            if !matches!(form, Form::Positions { .. }) {
                let (values, guarantee) = row::marginals(&row).unwrap();
                assert!(guarantee == Guarantee::Exact && !wrong(&values, 1e-9), "{form:?}");
            }
            if !matches!(form, Form::Partition { .. }) {
                let (order, choice) = row::largest_tau(&row, &values, &radius).unwrap();
                let value = |h: &[u32]| expected(&|y| tau(y, h));
                failures[2] += u32::from(most(&|h| value(h)) - value(&order) > limit(&choice));
            }
            let mut ranked: Vec<f64> = law.iter().map(|(_, p)| *p).collect();
            ranked.sort_by(|a, b| b.total_cmp(a));
            let found = row::best_of_samples(&row, 6).unwrap();
            assert!(found.len() <= 6 && !found.is_empty());
            let late = found.iter().zip(&ranked).any(|(one, p)| {
                assert!((one.log_probability - probability(&one.structure).ln()).abs() < 1e-9);
                p.ln() - one.log_probability > limit(&one.choice)
            });
            failures[3] += u32::from(late);
            for (one, p) in row::best(&row, 6).unwrap().iter().zip(&ranked) {
                assert!((one.log_probability - p.ln()).abs() < 1e-9 && one.choice == Guarantee::Exact);
            }
            let (log, guarantee) = row::log_probability(&row, &law[0].0).unwrap();
            assert!(guarantee == Guarantee::Exact && (log - law[0].1.ln()).abs() < 1e-9);
            let kendall = matches!(made.space(), Space::Ranking).then_some(Decision::Kendall);
            for decision in [Some(Decision::MostProbable), kendall].into_iter().flatten() {
                let one = row::predict(&row, decision).unwrap();
                assert!((one.log_probability - probability(&one.structure).ln()).abs() < 1e-9);
            }
        }
    }
    assert!(failures.iter().all(|count| *count <= 3), "{failures:?}");
}

/// Beyond exact sums: every answer has a guarantee, and approximate samples are called so.
#[test]
fn answers_beyond_exact_sums_state_their_guarantees() {
    let run = Run::default();
    let clock = run.start("test");
    for (form, size, exact) in [
        (Form::Precedence { items: 25 }, 0.02, true),
        (Form::Partition { elements: 20 }, 0.1, true),
        (Form::Precedence { items: 25 }, 4.0, false),
    ] {
        let shape = form.compile_samples().unwrap();
        let mut random = Streams::new(12, "predictor tests").block(2);
        let names = (0..form.width()).map(|i| format!("n{i}")).collect();
        let how = Encoding { scaling: Scaling::None, fourier: None };
        let encoder = Encoder::fit(&examples(), &how).unwrap();
        let parameters = (0..dimension(&shape, 3)).map(|_| size * random.normal()).collect();
        let made = Predictor::new(form.clone(), names, encoder, parameters, Training::default()).unwrap();
        assert!(!made.is_exact());
        let inputs = made.inputs(&examples(), &run).unwrap().select(&[3]);
        let one = made.predict(&inputs, Decision::MostProbable, &run).unwrap().swap_remove(0);
        let Guarantee::Bounds { low, high, confidence } = one.guarantee else { panic!("{one:?}") };
        assert!(confidence >= 0.98 && low <= one.log_probability && high <= 0.0, "{one:?}");
        assert!(matches!(one.choice, Guarantee::Bounds { .. }), "{one:?}");
        let model = made.row_model(&inputs, 0, &run).unwrap();
        let (values, guarantee) = row::marginals(&made.row(0, &model, &run, &clock)).unwrap();
        let n = form.width();
        let both = |at: usize| values[at] + values[at % n * n + at / n];
        assert!(matches!(guarantee, Guarantee::Heuristic { .. }) != exact, "{form:?}: {guarantee:?}");
        match form {
            Form::Partition { .. } => assert!((0..n).all(|i| values[i * n + i] == 1.0)),
            _ => assert!((0..n * n).all(|at| at / n == at % n || (both(at) - 1.0).abs() < 1e-12)),
        }
        assert_eq!(made.sample(&inputs, 2, &run).is_ok(), exact, "{form:?}");
        assert_eq!(made.best(&inputs, 3, &run).unwrap()[0].len(), 3);
    }
}
