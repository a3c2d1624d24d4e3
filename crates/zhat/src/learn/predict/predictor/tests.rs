//! Predictions, probabilities and decisions against enumeration.

use super::*;
use crate::learn::predict::data::{Cells, InputColumn};
use crate::learn::predict::file::{parse_predictor, write_predictor};
use crate::learn::predict::form::tests::{forms, score, structures};
use crate::learn::predict::{Blocks, Encoding, Ranks, Scaling, Sets, area, evaluate, kendall, reliability};
use crate::model::space::{Condition, Event};
use crate::random::{Stream, Streams};

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
        assert!(marginals.iter().all(|row| row.guarantee == Guarantee::Exact));
        let marginals: Vec<Vec<f64>> = marginals.into_iter().map(|row| row.value).collect();
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

/// The events of a row of targets, each with its place in the table of marginals: labels, nodes or pairs.
fn events(space: Space, n: usize, y: &[u32]) -> Vec<(usize, bool)> {
    let pairs = || (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j)));
    match space {
        Space::Labels | Space::Hierarchy => (0..n).map(|i| (i, y[i] == 1)).collect(),
        Space::Ranking => pairs().map(|(i, j)| (i * n + j, place(y, i) < place(y, j))).collect(),
        Space::Partition => pairs().map(|(i, j)| (i * n + j, y[i] == y[j])).collect(),
    }
}

/// P(S ≤ s) and P(S ≥ s), where S counts independent events with these probabilities.
fn tails(probabilities: &[f64], s: usize) -> (f64, f64) {
    let mut law = vec![1.0];
    for &p in probabilities {
        law.push(0.0);
        for k in (0..law.len()).rev() {
            let before = if k > 0 { law[k - 1] } else { 0.0 };
            law[k] = law[k] * (1.0 - p) + before * p;
        }
    }
    (law[..=s].iter().sum(), law[s..].iter().sum())
}

/// Probabilities of one event in many independent rows, and how often it happened: the bins in which the count is
/// too small or too large for its exact limits at this level.
fn unreliable(events: &[(f64, bool)], level: f64) -> usize {
    let bin = |p: f64| ((10.0 * p) as usize).min(9);
    let outside = |&own: &usize| {
        let some: Vec<(f64, bool)> = events.iter().copied().filter(|(p, _)| bin(*p) == own).collect();
        let probabilities: Vec<f64> = some.iter().map(|(p, _)| *p).collect();
        let (below, above) = tails(&probabilities, some.iter().filter(|(_, happened)| *happened).count());
        below.min(above) < 0.5 * level
    };
    (0..10).filter(outside).count()
}

/// Reliability on data drawn from the model itself. The bins are those of single labels, nodes or pairs, so that
/// the events of a bin are in different rows and independent: their count is within the exact limits of a sum of
/// independent events. False alarm 1e-6 in all bins of all forms together.
#[test]
fn probabilities_are_reliable_on_data_drawn_from_the_model() {
    let run = Run::default().with_seed(11);
    let all: Vec<Form> = forms().into_iter().filter(|form| form.width() > 1).collect();
    let bins: usize = all.iter().map(|form| 10 * form.width() * form.width()).sum();
    let level = 1e-6 / bins as f64;
    let mut caught = 0;
    for form in &all {
        let (made, inputs, _) = predictor(form, 5);
        // Each row several times, with one sample each.
        let copies = 12;
        let rows: Vec<usize> = (0..ROWS).flat_map(|row| vec![row; copies]).collect();
        let many = inputs.select(&rows);
        let drawn: Vec<Vec<u32>> =
            made.sample(&many, 1, &run).unwrap().into_iter().map(|mut own| own.swap_remove(0)).collect();
        let n = form.width();
        let targets = match made.space() {
            Space::Ranking => {
                let ranks = drawn.iter().flat_map(|y| (0..n).map(move |i| place(y, i) as u32 + 1));
                Targets::Ranks(Ranks { items: n, ranks: ranks.collect() })
            }
            Space::Partition => Targets::Blocks(Blocks { elements: n, blocks: drawn.concat() }),
            _ => {
                let mut sets = Sets { width: n, ..Default::default() };
                for y in &drawn {
                    sets.push((0..n as u32).filter(|i| y[*i as usize] == 1)).unwrap();
                }
                Targets::Sets(sets)
            }
        };
        let marginals: Vec<Vec<f64>> =
            made.marginals(&many, &run).unwrap().into_iter().map(|row| row.value).collect();
        let happened: Vec<Vec<(usize, bool)>> = drawn.iter().map(|y| events(made.space(), n, y)).collect();
        let mut pooled = Vec::new();
        for k in 0..happened[0].len() {
            let event = |row: usize| (marginals[row][happened[row][k].0], happened[row][k].1);
            let own: Vec<(f64, bool)> = (0..rows.len()).map(event).collect();
            assert_eq!(unreliable(&own, level), 0, "{form:?}, event {k}");
            // Probabilities that are too extreme are found out.
            let sharp = |p: f64| p * p / (p * p + (1.0 - p) * (1.0 - p));
            let wrong: Vec<(f64, bool)> = own.iter().map(|(p, is)| (sharp(*p), *is)).collect();
            caught += usize::from(unreliable(&wrong, level) > 0);
            pooled.extend(own);
        }
        let found = evaluate(&made, &many, &targets, None, &run).unwrap();
        assert_eq!((&found.log_loss, &found.marginals), (&Guarantee::Exact, &Guarantee::Exact));
        // The table has the same events.
        for (a, b) in found.reliability.iter().zip(reliability(&pooled)) {
            assert!((a.from, a.count, a.observed) == (b.from, b.count, b.observed), "{a:?} {b:?}");
            assert!((a.predicted - b.predicted).abs() < 1e-12, "{a:?} {b:?}");
        }
        assert_eq!(found.reliability.iter().map(|bin| bin.count).sum::<u64>(), pooled.len() as u64);
        // The log-loss estimates the entropy; a uniform guess has ln |Y|.
        assert!(found.get("log_loss").unwrap() < (structures(form).len() as f64).ln());
        if let Some(value) = found.get("au_prc") {
            assert!((value - area(&pooled)).abs() < 1e-12);
        }
    }
    assert!(caught >= 5, "{caught}");
}

/// Partial orders, sets of labels and nodes, elements in one block, and their negations, for every form.
#[test]
fn probabilities_of_events_agree_with_enumeration() {
    let run = Run::default().with_seed(12);
    for (number, form) in forms().into_iter().enumerate().filter(|(_, form)| form.width() > 3) {
        let (made, inputs, scores) = predictor(&form, 50 + number as u64);
        let texts = match made.space() {
            Space::Ranking => ["n1>n0", "n0>n3, n2>n1", "n3>n1>n0,n2>n0", "not n0>n1,n2>n1", "n0>n1,n1>n0"],
            Space::Partition => {
                ["n0=n1", "n0=n1,n2=n3", "not n0=n2,n1=n3", "n0=n1=n3,n2=n4", "n0=n1,not n1=n0"]
            }
            _ => ["n2", "n1,n3", "n0,not n2", "n0,n1,n2", "n1,not n1"],
        };
        let rows = [0, 27];
        let some = inputs.select(&rows);
        for text in texts {
            let conditions = made.event(text).unwrap();
            let holds = |y: &[u32]| {
                text.split(',').map(str::trim).all(|part| {
                    let (wanted, body) = part.strip_prefix("not ").map_or((true, part), |rest| (false, rest));
                    let names: Vec<usize> =
                        body.split(['>', '=']).map(|name| name[1..].parse().unwrap()).collect();
                    let is = match made.space() {
                        Space::Ranking => names.windows(2).all(|w| place(y, w[0]) < place(y, w[1])),
                        Space::Partition => names.windows(2).all(|w| y[w[0]] == y[w[1]]),
                        _ => y[names[0]] == 1,
                    };
                    is == wanted
                })
            };
            let found = made.event_log_probabilities(&some, &conditions, &run).unwrap();
            for (row, own) in rows.iter().zip(&found) {
                let want: f64 =
                    law(&form, &scores[*row]).iter().filter(|(y, _)| holds(y)).map(|(_, p)| p).sum();
                assert!((own.value.exp() - want).abs() < 1e-12, "{form:?} {text}: {own:?} {want}");
                assert!(own.guarantee == Guarantee::Exact, "{form:?} {text}: {own:?}");
                assert_eq!(own.value == f64::NEG_INFINITY, want == 0.0, "{form:?} {text}");
            }
        }
        let refused = |text: &str| made.event(text).unwrap_err().to_string();
        assert!(refused("n0>n9,x").contains("does not know"), "{}", refused("n0>n9,x"));
        assert!(made.event_log_probabilities(&some, &[Condition::function(|_| Ok(true))], &run).is_err());
    }
}

/// Beyond exact sums, intervals of events cover the frequencies of exact samples.
#[test]
fn probabilities_of_events_beyond_exact_sums_have_intervals() {
    let run = Run::default().with_seed(2);
    let form = Form::Precedence { items: 25 };
    let shape = form.compile_samples().unwrap();
    let mut random = Streams::new(13, "predictor tests").block(2);
    let names = (0..25).map(|i| format!("n{i}")).collect();
    let how = Encoding { scaling: Scaling::None, fourier: None };
    let encoder = Encoder::fit(&examples(), &how).unwrap();
    let parameters = (0..dimension(&shape, 3)).map(|_| 0.02 * random.normal()).collect();
    let made = Predictor::new(form, names, encoder, parameters, Training::default()).unwrap();
    let inputs = made.inputs(&examples(), &run).unwrap().select(&[3]);
    let drawn = made.sample(&inputs, 2000, &run).unwrap().swap_remove(0);
    for text in ["n3>n7", "n3>n7,n20>n1", "n0>n1,n1>n0"] {
        let conditions = made.event(text).unwrap();
        let own = made.event_log_probabilities(&inputs, &conditions, &run).unwrap().swap_remove(0);
        let hold = |y: &&Vec<u32>| {
            text.split(',').all(|pair| {
                let (i, j) = pair.split_once('>').unwrap();
                place(y, i[1..].parse().unwrap()) < place(y, j[1..].parse().unwrap())
            })
        };
        let share = drawn.iter().filter(hold).count() as f64 / 2000.0;
        match own.guarantee {
            // Hoeffding at 1e-6 on each side.
            Guarantee::Bounds { low, high, confidence } => {
                let radius = ((1e6f64).ln() / 4000.0).sqrt();
                assert!(confidence == 0.99 && low <= own.value && own.value <= high, "{text}: {own:?}");
                assert!(high.exp() - low.exp() < 0.06, "{text}: {own:?}");
                assert!(
                    low.exp() - radius <= share && share <= high.exp() + radius,
                    "{text}: {own:?} {share}"
                );
            }
            _ => panic!("{own:?}"),
        }
    }
}

/// The path of conditions on many items, on few: shares of samples against enumeration. Each of 60 intervals fails
/// with probability 1e-8, all together with less than 1e-6.
#[test]
fn sampled_probabilities_of_events_cover_the_exact_ones() {
    let run = Run::default().with_seed(21);
    for form in [Form::PlackettLuce { items: 5 }, Form::Mallows { items: 5 }] {
        let (made, inputs, scores) = predictor(&form, 41);
        let rows = [0, 5, 11, 17, 23, 29];
        let some = inputs.select(&rows);
        for text in ["n1>n0", "n0>n3, n2>n1", "n3>n1>n0>n4", "not n0>n1,n2>n1", "n0>n1,n1>n0"] {
            let conditions = made.event(text).unwrap();
            let holds = |y: &[u32]| {
                conditions.iter().all(|condition| match condition {
                    Condition::Is(Event::Before(i, j)) => place(y, *i) < place(y, *j),
                    Condition::Not(Event::Before(i, j)) => place(y, *i) > place(y, *j),
                    _ => unreachable!(),
                })
            };
            let found = made.sampled_events(&some, &conditions, 1e-8, &run).unwrap();
            let exact = made.event_log_probabilities(&some, &conditions, &run).unwrap();
            for ((row, own), exact) in rows.iter().zip(&found).zip(&exact) {
                let law = law(&form, &scores[*row]);
                let want: f64 = law.iter().filter(|(y, _)| holds(y)).map(|(_, p)| p).sum();
                let Guarantee::Bounds { low, high, confidence } = own.guarantee else { panic!("{own:?}") };
                assert!(confidence == 1.0 - 1e-8 && low <= own.value && own.value <= high, "{text}: {own:?}");
                assert!(low <= want.ln() && want.ln() <= high, "{form:?} {text}: {own:?} {want}");
                assert!(high.exp() - low.exp() < 0.11, "{own:?}");
                assert!(exact.guarantee == Guarantee::Exact && (exact.value.exp() - want).abs() < 1e-12);
            }
        }
    }
}

/// Conditions on more items than exact sums reach, whose probabilities are known. Each of 4 intervals fails with
/// probability 1e-7.
#[test]
fn events_of_many_items_are_answered() {
    let run = Run::default().with_seed(22);
    let examples = examples();
    let how = Encoding { scaling: Scaling::None, fourier: None };
    let encoder = Encoder::fit(&examples, &how).unwrap();
    let made = |form: Form, constants: &[f64], more: &[f64]| {
        // The scores are the constants, whatever the inputs are.
        let n = constants.len();
        let parameters: Vec<f64> =
            vec![0.0; 2 * n].into_iter().chain(constants.iter().chain(more).copied()).collect();
        let names = (0..n).map(|i| format!("n{i}")).collect();
        Predictor::new(form, names, encoder.clone(), parameters, Training::default()).unwrap()
    };
    let check = |made: &Predictor, text: &str, want: f64| {
        let inputs = made.inputs(&examples, &run).unwrap().select(&[0, 1]);
        let conditions = made.event(text).unwrap();
        let found = made.sampled_events(&inputs, &conditions, 1e-7, &run).unwrap();
        let asked = made.event_log_probabilities(&inputs, &conditions, &run).unwrap();
        for (own, asked) in found.iter().zip(&asked) {
            let Guarantee::Bounds { low, high, .. } = own.guarantee else { panic!("{text}: {own:?}") };
            assert!(low <= want.ln() && want.ln() <= high, "{text}: {own:?} {want}");
            let Guarantee::Bounds { low, high, confidence } = asked.guarantee else { panic!("{asked:?}") };
            assert_eq!((confidence, asked.value), (0.99, own.value));
            assert!(low < asked.value && asked.value < high && high.exp() - low.exp() < 0.06, "{asked:?}");
        }
    };
    // n0 is the first of 18 items.
    let scores: Vec<f64> = (0..20).map(|i| if i == 0 { 2.0 } else { 0.1 * f64::from(i % 3) }).collect();
    let first = (1..18).map(|i| format!("n0>n{i}")).collect::<Vec<_>>().join(",");
    let total: f64 = scores[..18].iter().map(|u| u.exp()).sum();
    check(&made(Form::PlackettLuce { items: 20 }, &scores, &[]), &first, scores[0].exp() / total);
    // Neighbours in the centre.
    let (spread, n) = (0.3, 60);
    let centre: Vec<f64> = (0..n).map(|i| -f64::from(i)).collect();
    let h = |k: f64| k / -(-k * spread).exp_m1();
    check(&made(Form::Mallows { items: 60 }, &centre, &[spread]), "n7>n8", h(2.0) - h(1.0));
}

/// Random ranks of some items, with ties and items without a rank; at least two differ.
fn partial_ranks(n: usize, random: &mut Stream) -> Vec<u32> {
    loop {
        let ranks: Vec<u32> = (0..n).map(|_| random.below(4) as u32).collect();
        let mut known: Vec<u32> = ranks.iter().copied().filter(|rank| *rank > 0).collect();
        known.sort_unstable();
        known.dedup();
        if known.len() > 1 && Ranks::order(&ranks).is_none() {
            return ranks;
        }
    }
}

/// The path of many items, on few: shares of samples against enumeration. Each of 72 intervals fails with probability
/// 1e-8, all together with less than 1e-6.
#[test]
fn sampled_probabilities_of_partial_rankings_cover_the_exact_ones() {
    let run = Run::default().with_seed(3);
    let (clock, failure) = (run.start("test"), 1e-8);
    let mut random = Streams::new(14, "predictor tests").block(3);
    for form in [Form::Precedence { items: 5 }, Form::Positions { items: 5 }, Form::Mallows { items: 5 }] {
        let (made, inputs, scores) = predictor(&form, 40);
        for (at, scores) in scores.iter().enumerate().take(24) {
            let ranks = partial_ranks(5, &mut random);
            let extended = |y: &[u32]| {
                let rank = |item: u32| ranks[item as usize];
                let pairs = (0..5).flat_map(|i| (i + 1..5).map(move |j| (i, j)));
                pairs
                    .filter(|&(i, j)| rank(y[i]) > 0 && rank(y[j]) > 0)
                    .all(|(i, j)| rank(y[i]) <= rank(y[j]))
            };
            let law = law(&form, scores);
            let want: f64 = law.iter().filter(|(y, _)| extended(y)).map(|(_, p)| p).sum();
            assert!(law.iter().all(|(y, _)| event::extends(y, &ranks) == extended(y)), "{ranks:?}");
            let own = match form {
                Form::Mallows { .. } => {
                    let mut stream = Streams::new(at as u64, "predictor tests").block(4);
                    let many = (failure, &mut stream);
                    made.counted(scores, (0, 1), &mut Work::default(), &ranks, many, &clock).unwrap()
                }
                _ => {
                    let model = made.row_model(&inputs, at, &run).unwrap();
                    let row = row::Row { failure, number: at as u64, ..made.row(at, &model, &run, &clock) };
                    let some = model.restrict(event::partial_order(&ranks)).unwrap();
                    event::sampled(&row, &some).unwrap()
                }
            };
            let Guarantee::Bounds { low, high, confidence } = own.guarantee else { panic!("{own:?}") };
            assert!(confidence == 1.0 - failure && low <= own.value && own.value <= high, "{own:?}");
            assert!(low <= want.ln() && want.ln() <= high, "{form:?} {ranks:?}: {own:?} {want}");
            assert!(high.exp() - low.exp() < 0.11, "{own:?}");
            // The same conditions, exactly.
            let targets = Targets::Ranks(Ranks { items: 5, ranks: ranks.clone() });
            let exact = made.log_probabilities(&inputs.select(&[at]), &targets, &run).unwrap().swap_remove(0);
            assert!((exact.value.exp() - want).abs() < 1e-12, "{exact:?} {want}");
        }
    }
}

/// Twenty items: the first place of an item under Mallows and under precedences, whose probabilities are known.
#[test]
fn probabilities_of_long_partial_rankings_are_answered() {
    let run = Run::default().with_seed(5);
    let n = 20;
    let examples = examples();
    let how = Encoding { scaling: Scaling::None, fourier: None };
    // The centre is 0, 1, 2, …, whatever the inputs are.
    let mut parameters = vec![0.0; 3 * n];
    (0..n).for_each(|item| parameters[2 * n + item] = -(item as f64));
    let spread = 0.3;
    parameters.push(spread);
    let names = |n: usize| (0..n).map(|i| format!("n{i}")).collect::<Vec<_>>();
    let encoder = Encoder::fit(&examples, &how).unwrap();
    let form = Form::Mallows { items: n };
    let made = Predictor::new(form, names(n), encoder.clone(), parameters, Training::default()).unwrap();
    let inputs = made.inputs(&examples, &run).unwrap().select(&[0, 1, 2, 3]);
    // Item k is first with probability ∝ e^{−ks}; the second row has no condition, the third is complete.
    let mut ranks = vec![2; n];
    ranks[1] = 1;
    ranks.extend(vec![0; n]);
    ranks.extend(1..=n as u32);
    ranks.extend([1, 2].into_iter().chain(vec![0; n - 2]));
    let targets = Targets::Ranks(Ranks { items: n, ranks });
    let found = made.log_probabilities(&inputs, &targets, &run).unwrap();
    let total: f64 = (0..n).map(|k| (-spread * k as f64).exp()).sum();
    let h = |k: f64| k / -(-k * spread).exp_m1();
    for (own, want) in [(&found[0], (-spread).exp() / total), (&found[3], h(2.0) - h(1.0))] {
        let Guarantee::Bounds { low, high, confidence } = own.guarantee else { panic!("{own:?}") };
        assert!(confidence == 0.99 && low <= want.ln() && want.ln() <= high, "{own:?} {want}");
        assert!(high.exp() - low.exp() < 0.06, "{own:?}");
    }
    assert_eq!((found[1].value, &found[1].guarantee), (0.0, &Guarantee::Exact));
    let log_z = log_partition(n, spread).0;
    assert!((found[2].value + log_z).abs() < 1e-9 && found[2].guarantee == Guarantee::Exact);
    let measures = evaluate(&made, &inputs, &targets, None, &run).unwrap();
    assert!(matches!(measures.log_loss, Guarantee::Bounds { .. }), "{measures:?}");
    // All orders are equally likely if no pair has a score.
    for form in [Form::Precedence { items: n }, Form::Positions { items: n }] {
        let width = dimension(&form.compile_samples().unwrap(), 3);
        let zeros = vec![0.0; width];
        let made =
            Predictor::new(form.clone(), names(n), encoder.clone(), zeros, Training::default()).unwrap();
        for (own, want) in made
            .log_probabilities(&inputs, &targets, &run)
            .unwrap()
            .iter()
            .zip([1.0 / n as f64, 1.0, f64::NAN, 0.5])
            .filter(|(_, want)| !want.is_nan())
        {
            match own.guarantee {
                Guarantee::Exact => assert!((own.value - f64::ln(want)).abs() < 1e-9, "{form:?} {own:?}"),
                Guarantee::Bounds { low, high, .. } => {
                    assert!(low <= f64::ln(want) && f64::ln(want) <= high, "{form:?} {own:?} {want}");
                }
                _ => panic!("{own:?}"),
            }
        }
        let refused = form.check(&targets).unwrap_err().to_string();
        assert!(refused.contains("row 0 is partial; only plackett-luce is trained"), "{refused}");
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
        let given = made.marginals(&inputs, &run).unwrap().swap_remove(0);
        assert_eq!((&given.value, &given.guarantee), (&values, &guarantee));
        let targets = match form {
            Form::Partition { .. } => Targets::Blocks(Blocks { elements: n, blocks: one.structure.clone() }),
            _ => Targets::Ranks(Ranks::from(&one)),
        };
        let log = made.log_probabilities(&inputs, &targets, &run).unwrap().swap_remove(0);
        assert_eq!((log.value, &log.guarantee), (one.log_probability, &one.guarantee));
        if size > 0.02 {
            continue;
        }
        let found = evaluate(&made, &inputs, &targets, None, &run).unwrap();
        // One row: the guarantee of the log-loss is that of the row.
        let Guarantee::Bounds { low: least, high: most, confidence: own } = found.log_loss else {
            panic!("{found:?}")
        };
        assert_eq!((least, most), (-high, -low));
        assert!((own - confidence).abs() < 1e-9, "{own} {confidence}");
        assert_eq!(found.marginals.promise(), guarantee.promise());
    }
}
