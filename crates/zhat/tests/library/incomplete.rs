//! Learning from tables with missing values, against enumeration of all states.

use crate::support::oracle::{Oracle, log_sum_exp, states};
use crate::support::statistics::{ALARM, chi_square_tail};
use zhat::catalogue::{Choice, Settings};
use zhat::io::bif;
use zhat::io::table::Missing;
use zhat::learn::{
    self, Column, Fit, Likelihood, NetworkFit, NetworkFitted, Optimizer, Parents, Statistics, Structure,
    Table, columns_of, fit_network, score_states,
};
use zhat::model::NetworkType;
use zhat::model::generate::{self, GraphShape};
use zhat::random::{Stream, Streams};
use zhat::{Answer, Diagnostics, Error, FactorGraph, Guarantee, LogPartition, Run, Sample, exact};

type Row = Vec<Option<u32>>;

fn columns(lengths: &[usize]) -> Vec<Column> {
    let state = |s: usize| format!("s{s}");
    let column =
        |(i, &n): (usize, &usize)| Column { name: format!("c{i}"), states: (0..n).map(state).collect() };
    lengths.iter().enumerate().map(column).collect()
}

fn transposed(rows: &[Row], width: usize) -> Vec<Vec<Option<u32>>> {
    (0..width).map(|v| rows.iter().map(|row| row[v]).collect()).collect()
}

fn table(lengths: &[usize], rows: &[Row]) -> Table {
    let codes = transposed(rows, lengths.len());
    Table::of_known_codes(columns(lengths), &codes, Missing::Marginal, &Run::default()).unwrap()
}

/// Rows drawn from a model, each cell missing with this probability.
fn drawn(graph: &FactorGraph, count: usize, gaps: f64, seed: u64) -> Vec<Row> {
    let run = Run::default().with_seed(seed);
    let samples = exact::Elimination::default().sample(graph, count, &run).unwrap().value;
    let mut random = Streams::new(seed, "gaps").block(0);
    let mut cell = |s: &usize| (random.uniform() >= gaps).then_some(*s as u32);
    samples.iter().map(|state| state.iter().map(&mut cell).collect()).collect()
}

fn random_rows(lengths: &[usize], count: usize, gaps: f64, random: &mut Stream) -> Vec<Row> {
    let mut cell = |&n: &usize| {
        let state = random.below(n) as u32;
        (random.uniform() >= gaps).then_some(state)
    };
    (0..count).map(|_| lengths.iter().map(&mut cell).collect()).collect()
}

/// Σ over rows of log P(observed cells), by enumeration.
fn enumerated(graph: &FactorGraph, rows: &[Row]) -> f64 {
    let oracle = Oracle::new(graph);
    let log_z = oracle.log_partition();
    let seen = rows.iter().filter(|row| row.iter().any(Option::is_some));
    seen.map(|row| {
        let agrees = |state: &[usize]| row.iter().zip(state).all(|(c, &s)| c.is_none_or(|c| c as usize == s));
        let all = oracle.states.iter().zip(&oracle.scores).filter(|(state, _)| agrees(state));
        log_sum_exp(&all.map(|(_, &score)| score).collect::<Vec<f64>>()) - log_z
    })
    .sum()
}

fn likelihood(table: &Table, structure: &Structure) -> Likelihood {
    let run = Run::default();
    let edges = structure.edges(&Statistics::available(table, &run).unwrap()).unwrap();
    Likelihood::of_table(table, &edges, Choice::parse("exact"), Settings::new(), &run).unwrap()
}

fn parameters(graph: &FactorGraph) -> Vec<f64> {
    graph.factors().flat_map(|factor| factor.log_values.to_vec()).collect()
}

/// A fit with the objective of every iteration.
fn fitted(likelihood: &Likelihood, how: &Fit) -> (learn::Fitted, Vec<f64>) {
    let mut history = Vec::new();
    let mut watch = |now: &learn::FitCheckpoint| {
        history.push(now.progress().objective);
        Ok(true)
    };
    let found = learn::fit(likelihood, how, None, &Run::default(), &mut watch).unwrap();
    (found, history)
}

#[test]
fn the_likelihood_of_observed_cells_is_that_of_enumeration() {
    let run = Run::default();
    for seed in 0..6 {
        let mut random = Streams::new(seed, "incomplete").block(0);
        // With seven variables of three states, a row without values in most columns is summed by elimination.
        let lengths: &[usize] = if seed % 3 == 2 { &[3, 3, 3, 3, 3, 3, 3, 2] } else { &[2, 3, 1, 2, 3] };
        let mut rows = random_rows(lengths, 25, 0.5, &mut random);
        let mut nearly_empty = vec![None; lengths.len()];
        nearly_empty[seed as usize % 2] = Some(1);
        rows.extend([nearly_empty, vec![None; lengths.len()]]);
        let table = table(lengths, &rows);
        let structure = if seed % 3 == 1 { Structure::Complete } else { Structure::ChowLiu { more: 2 } };
        let own = likelihood(&table, &structure);
        assert!(own.has_gaps() && table.dropped() >= 1);
        let mut point: Vec<f64> = (0..own.dimension()).map(|_| 0.7 * random.normal()).collect();
        let n = table.rows() as f64;
        let value = |point: &[f64]| own.value(point, &run).unwrap().value;
        let by_hand = |point: &[f64]| enumerated(&own.model(point).unwrap(), &rows) / n;
        assert!((value(&point) - by_hand(&point)).abs() < 1e-11, "{seed}");
        let mut gradient = vec![0.0; point.len()];
        let negative = own.negative(&point, &mut gradient, &run).unwrap();
        assert!((negative + value(&point)).abs() < 1e-11);
        for i in (0..point.len()).step_by(7) {
            let at = |step: f64| {
                let mut moved = point.clone();
                moved[i] += step;
                -by_hand(&moved)
            };
            let slope = (at(1e-5) - at(-1e-5)) / 2e-5;
            assert!((slope - gradient[i]).abs() < 1e-8, "{seed} {i}: {slope} {}", gradient[i]);
        }
        // The scores of single rows.
        let model = own.model(&point).unwrap();
        let log_z = exact::Elimination::default().log_partition(&model, &run).unwrap();
        let cells: Vec<Vec<Option<usize>>> =
            rows.iter().map(|row| row.iter().map(|c| c.map(|c| c as usize)).collect()).collect();
        let (scores, mean) = score_states(&model, log_z.clone(), &cells, Missing::Marginal, &run).unwrap();
        assert!((mean.value - by_hand(&point)).abs() < 1e-11 && scores.last().unwrap().is_nan());
        for (row, score) in
            rows.iter().zip(&scores).filter(|(row, _)| row.iter().any(Option::is_some)).take(5)
        {
            assert!((score - enumerated(&model, std::slice::from_ref(row))).abs() < 1e-11);
        }
        // Forbidden states.
        point[0] = f64::NEG_INFINITY;
        let (own, hand) = (value(&point), by_hand(&point));
        assert!(own == hand || (own - hand).abs() < 1e-11, "{seed}: {own} {hand}");
    }
}

/// At the end the derivative of the enumerated objective is zero, and on the way the objective never rises.
#[test]
fn em_ends_at_a_stationary_point_and_never_raises_the_objective() {
    for seed in 0..8 {
        let mut random = Streams::new(seed, "em").block(0);
        let lengths = [2, 3, 2, 2];
        let shape = GraphShape { variables: 4, factors: 5, strength: 0.8, ..Default::default() };
        let rows = if seed % 2 == 0 {
            random_rows(&lengths, 80, 0.3, &mut random)
        } else {
            drawn(&generate::random(&shape, seed).unwrap(), 300, 0.3, seed)
        };
        let lengths: &[usize] = if seed % 2 == 0 { &lengths } else { &[2; 4] };
        let table = table(lengths, &rows);
        let own = likelihood(&table, &Structure::ChowLiu { more: (seed % 3) as usize });
        let (l1, l2) = [(0.0, 0.01), (0.0, 0.0), (0.02, 0.0)][(seed % 3) as usize];
        let how = Fit::default().l1(l1).l2(l2).iterations(3000);
        let (found, history) = fitted(&own, &how);
        assert_eq!(found.log_likelihood.guarantee, Guarantee::Exact);
        assert!(history.len() > 3 && history.windows(2).all(|w| w[1] <= w[0] + 1e-13), "{seed}: {history:?}");
        let n = table.rows() as f64;
        let hand = enumerated(&found.graph, &rows) / n;
        assert!((found.log_likelihood.value - hand).abs() < 1e-11, "{seed}");
        if l2 == 0.0 && l1 == 0.0 && seed % 3 == 1 && !found.converged {
            continue; // some parameters tend to −∞
        }
        assert!(found.converged, "{seed}: {:?}", found.progress);
        let point = parameters(&found.graph);
        for i in 0..point.len() {
            if point[i] == f64::NEG_INFINITY {
                continue;
            }
            let at = |step: f64| {
                let mut moved = point.clone();
                moved[i] += step;
                let graph = found.graph.reweighted(&moved).unwrap();
                -enumerated(&graph, &rows) / n + 0.5 * l2 * moved.iter().map(|x| x * x).sum::<f64>()
            };
            let slope = if l2 == 0.0 && l1 == 0.0 && point.contains(&f64::NEG_INFINITY) {
                (-enumerated(&found.graph, &rows) / n - at(-1e-5)) / 1e-5
            } else {
                (at(1e-5) - at(-1e-5)) / 2e-5
            };
            let excess =
                if point[i] == 0.0 { slope.abs() - l1 } else { (slope + l1 * point[i].signum()).abs() };
            assert!(excess < 2e-5, "{seed} {i}: {slope} at {}", point[i]);
        }
        if l1 == 0.0 {
            // The other optimiser ends at the same objective.
            let (other, history) = fitted(&own, &how.optimizer(Optimizer::Lbfgs));
            assert!(history.windows(2).all(|w| w[1] <= w[0] + 1e-13));
            let (one, two) = (found.progress.objective, other.progress.objective);
            assert!((one - two).abs() < 1e-5, "{seed}: {one} {two}");
        }
    }
}

#[test]
fn complete_rows_and_empty_rows_change_nothing() {
    let graph =
        generate::random(&GraphShape { variables: 5, factors: 7, strength: 0.8, ..Default::default() }, 3)
            .unwrap();
    let lengths = graph.cardinalities().to_vec();
    let run = Run::default();
    let complete = drawn(&graph, 500, 0.0, 1);
    let structure = Structure::ChowLiu { more: 2 };
    let statistics =
        Statistics::of_codes(columns(&lengths), &transposed(&complete, lengths.len()), &run).unwrap();
    let edges = structure.edges(&statistics).unwrap();
    let plain = Likelihood::new(&statistics, &edges, Choice::parse("exact"), Settings::new()).unwrap();
    let how = Fit::default().l2(0.01);
    let mut with_empty = complete.clone();
    with_empty.extend(vec![vec![None; lengths.len()]; 7]);
    let whole = table(&lengths, &with_empty);
    assert_eq!((whole.rows(), whole.dropped(), whole.is_complete()), (500, 7, true));
    assert_eq!(fitted(&likelihood(&whole, &structure), &how).0.graph, fitted(&plain, &how).0.graph);
    // The same with gaps; and the number of threads and the order of the rows do not matter.
    let rows = drawn(&graph, 400, 0.3, 2);
    let with_gaps = table(&lengths, &rows);
    let one = fitted(&likelihood(&with_gaps, &structure), &how).0;
    let mut other = vec![vec![None; lengths.len()]; 3];
    other.extend(rows.iter().rev().cloned());
    let other = table(&lengths, &other);
    assert_eq!(fitted(&likelihood(&other, &structure), &how).0.graph, one.graph);
    let single = Run::default().with_threads(1);
    let alone =
        learn::fit(&likelihood(&with_gaps, &structure), &how, None, &single, &mut |_| Ok(true)).unwrap();
    assert_eq!(alone.graph, one.graph);
}

#[test]
fn a_resumed_em_has_the_same_bits() {
    let graph =
        generate::random(&GraphShape { variables: 5, factors: 7, strength: 0.8, ..Default::default() }, 3)
            .unwrap();
    let with_gaps = table(graph.cardinalities(), &drawn(&graph, 300, 0.3, 2));
    let own = likelihood(&with_gaps, &Structure::ChowLiu { more: 2 });
    for l1 in [0.0, 0.01] {
        let how = Fit::default().l1(l1).l2(0.01).iterations(9).tolerance(0.0);
        let whole = fitted(&own, &how).0;
        let mut kept = None;
        learn::fit(&own, &how, None, &Run::default(), &mut |now| {
            kept = Some(serde_json::to_string(now).unwrap());
            Ok(now.progress().iteration < 4)
        })
        .unwrap();
        let from = serde_json::from_str(&kept.unwrap()).unwrap();
        let rest = learn::fit(&own, &how, Some(from), &Run::default(), &mut |_| Ok(true)).unwrap();
        assert_eq!((rest.graph, rest.progress), (whole.graph, whole.progress), "{l1}");
    }
}

/// With 20% of the cells missing, twice the log-likelihood ratio of the fit and the truth, on the observed cells,
/// is asymptotically χ² with as many degrees of freedom as there are free parameters (Wilks), and the divergence
/// falls in proportion to 1/rows. The false-alarm rate is 10⁻⁸ for each of three sizes.
#[test]
fn a_known_model_is_recovered_from_rows_with_gaps() {
    let graph =
        generate::random(&GraphShape { variables: 6, factors: 8, strength: 0.8, ..Default::default() }, 3)
            .unwrap();
    let mut edges: Vec<(usize, usize)> = graph
        .factors()
        .map(|factor| (factor.scope[0].min(factor.scope[1]), factor.scope[0].max(factor.scope[1])))
        .collect();
    edges.sort_unstable();
    edges.dedup();
    let freedom = (graph.variable_count() + edges.len()) as f64;
    let truth = Oracle::new(&graph).probabilities();
    let mut divergences = Vec::new();
    for rows in [1000, 10_000, 100_000] {
        let data = drawn(&graph, rows, 0.2, 7);
        let whole = table(graph.cardinalities(), &data);
        let own = likelihood(&whole, &Structure::Edges(edges.clone()));
        let found = fitted(&own, &Fit::default().l2(1e-7)).0;
        let n = whole.rows() as f64;
        // Grouped rows, so that enumeration is not slow.
        let distinct = |graph: &FactorGraph| -> f64 {
            let cells = |row: &[u32]| row.iter().map(|&c| (c != u32::MAX).then_some(c)).collect();
            whole.iter().map(|(row, count)| count as f64 * enumerated(graph, &[cells(row)])).sum()
        };
        let ratio = 2.0 * (n * found.log_likelihood.value - distinct(&graph));
        let tail = chi_square_tail(ratio, freedom);
        let fit = Oracle::new(&found.graph).probabilities();
        let divergence: f64 = truth.iter().zip(&fit).map(|(p, q)| p * (p / q).ln()).sum();
        assert!(ratio > 0.0 && tail > ALARM, "{rows} rows: {ratio}, p-value at most {tail:e}");
        // Even if a fifth of the cells carried no information about pairs, 0.64 of the rows would.
        let tail = chi_square_tail(2.0 * 0.64 * rows as f64 * divergence, freedom);
        assert!(tail > ALARM, "{rows} rows: {divergence:e}, p-value at most {tail:e}");
        divergences.push(divergence);
    }
    assert!(divergences[2] < 0.2 * divergences[0], "{divergences:?}");
}

/// A network over variables of different numbers of states, in which the parents are not in order.
fn network(columns: &[Column]) -> FactorGraph {
    Parents::parse(&["c0=c3,c1", "c2=c0", "c4=c2,c3"], columns).unwrap().network(columns).unwrap()
}

const LENGTHS: [usize; 5] = [2, 3, 2, 2, 3];

/// The tables of a network from counts by hand: `weights` are the weights of all states, in the order of
/// [`states`].
fn tables_by_hand(structure: &FactorGraph, weights: &[f64], extra: impl Fn(usize) -> f64) -> Vec<f64> {
    let mut tables = Vec::new();
    for factor in structure.factors() {
        let child = *factor.scope.last().unwrap();
        let lengths: Vec<usize> = factor.scope.iter().map(|&v| structure.cardinalities()[v]).collect();
        let mut counts = vec![0.0; factor.log_values.len()];
        for (state, weight) in states(structure).iter().zip(weights) {
            let at = factor.scope.iter().zip(&lengths).fold(0, |at, (&v, length)| at * length + state[v]);
            counts[at] += weight;
        }
        let size = structure.cardinalities()[child];
        for row in counts.chunks(size) {
            let total: f64 = row.iter().map(|count| count + extra(counts.len())).sum();
            let share = |count: &f64| (count + extra(counts.len())) / total;
            tables.extend(row.iter().map(|count| if total > 0.0 { share(count) } else { 1.0 / size as f64 }));
        }
    }
    tables
}

fn fit_of(structure: &FactorGraph, table: &Table, how: &NetworkFit) -> (NetworkFitted, Vec<f64>) {
    let mut history = Vec::new();
    let mut watch = |now: &learn::NetworkProgress| {
        history.push(now.objective);
        Ok(true)
    };
    let found = fit_network(structure, table, how, &Run::default(), &mut watch).unwrap();
    (found, history)
}

fn probabilities(graph: &FactorGraph) -> Vec<f64> {
    parameters(graph).iter().map(|x| x.exp()).collect()
}

#[test]
fn tables_of_complete_rows_have_the_closed_form() {
    let mut random = Streams::new(5, "networks").block(0);
    let rows = random_rows(&LENGTHS, 60, 0.0, &mut random);
    let table = table(&LENGTHS, &rows);
    let structure = network(table.columns());
    let weight = |state: &Vec<usize>| {
        rows.iter().filter(|row| row.iter().zip(state).all(|(c, &s)| *c == Some(s as u32))).count() as f64
    };
    let weights: Vec<f64> = states(&structure).iter().map(weight).collect();
    let half = NetworkFit::default().pseudo_count(Some(0.5));
    let bdeu = NetworkFit::default().equivalent_sample_size(Some(10.0));
    type Extra = fn(usize) -> f64;
    let cases: [(NetworkFit, Extra); 3] =
        [(NetworkFit::default(), |_| 0.0), (half, |_| 0.5), (bdeu, |entries| 10.0 / entries as f64)];
    for (how, extra) in cases {
        let (found, history) = fit_of(&structure, &table, &how);
        let expected = tables_by_hand(&structure, &weights, extra);
        let largest =
            probabilities(&found.graph).iter().zip(&expected).map(|(p, q)| (p - q).abs()).fold(0.0, f64::max);
        assert!(largest < 1e-14 && history.is_empty() && found.converged, "{how:?}: {largest}");
        let hand = enumerated(&found.graph, &rows) / 60.0;
        assert!((found.log_likelihood.value - hand).abs() < 1e-11);
        // It is a Bayesian network that can be written, with its names.
        assert_eq!(found.graph.network_type(), NetworkType::Bayes);
        let mut text = Vec::new();
        bif::check(&found.graph).unwrap();
        bif::write_model(&found.graph, &mut text).unwrap();
        let again = bif::parse_model(&text, "again").unwrap();
        assert_eq!(columns_of(&again), table.columns());
    }
}

/// The tables after each of some iterations are those of EM by enumeration, from the same initial tables.
#[test]
fn tables_of_incomplete_rows_are_those_of_em_by_enumeration() {
    for (seed, how) in [
        (0, NetworkFit::default()),
        (1, NetworkFit::default().pseudo_count(Some(0.3))),
        (2, NetworkFit::default().equivalent_sample_size(Some(4.0))),
    ] {
        let mut random = Streams::new(seed, "incomplete networks").block(0);
        let rows = random_rows(&LENGTHS, 70, 0.25, &mut random);
        let table = table(&LENGTHS, &rows);
        let structure = network(table.columns());
        let extra = |entries: usize| {
            how.pseudo_count.or(how.equivalent_sample_size.map(|size| size / entries as f64)).unwrap_or(0.0)
        };
        let all = states(&structure);
        // Initial tables: rows in which a family is observed, and half a count.
        let mut now = Vec::new();
        for factor in structure.factors() {
            let mut counts = vec![0.5; factor.log_values.len()];
            for row in &rows {
                let cells: Option<Vec<usize>> =
                    factor.scope.iter().map(|&v| row[v].map(|c| c as usize)).collect();
                if let Some(cells) = cells {
                    let at = factor.scope.iter().zip(&cells).fold(0, |at, (&v, s)| at * LENGTHS[v] + s);
                    counts[at] += 1.0;
                }
            }
            for row in counts.chunks(LENGTHS[*factor.scope.last().unwrap()]) {
                now.extend(row.iter().map(|count| count / row.iter().sum::<f64>()));
            }
        }
        for iterations in 1..5 {
            let logs: Vec<f64> = now.iter().map(|p| p.ln()).collect();
            let p = Oracle::new(&structure.reweighted(&logs).unwrap()).probabilities();
            let mut weights = vec![0.0; all.len()];
            for row in &rows {
                let agrees =
                    |state: &[usize]| row.iter().zip(state).all(|(c, &s)| c.is_none_or(|c| c as usize == s));
                let total: f64 = all.iter().zip(&p).filter(|(state, _)| agrees(state)).map(|(_, p)| p).sum();
                for ((state, p), weight) in all.iter().zip(&p).zip(&mut weights) {
                    if agrees(state) {
                        *weight += p / total;
                    }
                }
            }
            // A row without any value says nothing.
            let empty = rows.iter().filter(|row| row.iter().all(Option::is_none)).count() as f64;
            weights.iter_mut().zip(&p).for_each(|(weight, p)| *weight -= empty * p);
            now = tables_by_hand(&structure, &weights, extra);
            let found = fit_of(&structure, &table, &how.iterations(iterations).tolerance(0.0)).0;
            let pairs = probabilities(&found.graph);
            let largest = pairs.iter().zip(&now).map(|(p, q)| (p - q).abs()).fold(0.0, f64::max);
            assert!(largest < 1e-12, "{seed}, {iterations} iterations: {largest:e}");
        }
        let (found, history) = fit_of(&structure, &table, &how);
        assert!(found.converged && history.len() > 3);
        assert!(history.windows(2).all(|w| w[1] <= w[0] + 1e-13), "{seed}: {history:?}");
        let hand = enumerated(&found.graph, &rows) / table.rows() as f64;
        assert!((found.log_likelihood.value - hand).abs() < 1e-11);
    }
}

/// A variable without a column: its tables start from those of the structure, and the fit cannot be worse.
#[test]
fn a_column_without_values_is_a_latent_variable() {
    let mut truth = FactorGraph::new(vec![2, 2, 2, 2]).unwrap();
    let row = |p: f64| [p.ln(), (1.0 - p).ln()];
    truth.add_factor(&[0], &row(0.4)).unwrap();
    for child in 1..4 {
        truth.add_factor(&[0, child], &[row(0.9), row(0.2)].concat()).unwrap();
    }
    let lengths = [2; 4];
    let names = columns(&lengths);
    let (variables, own) = names.iter().map(|c| (c.name.clone(), c.states.clone())).unzip();
    let truth = truth.with_names(variables, own).unwrap().with_network_type(NetworkType::Bayes);
    let mut rows = drawn(&truth, 20_000, 0.1, 3);
    rows.iter_mut().for_each(|row| row[0] = None);
    let table = table(&lengths, &rows);
    let (found, history) = fit_of(&truth, &table, &NetworkFit::default().tolerance(1e-5));
    assert!(history.windows(2).all(|w| w[1] <= w[0] + 1e-12) && found.converged);
    let n = table.rows() as f64;
    let reference = score_of(&truth, &table) / n;
    assert!(found.log_likelihood.value >= reference, "{} {reference}", found.log_likelihood);
    let largest =
        probabilities(&found.graph).into_iter().zip(probabilities(&truth)).map(|(p, q)| (p - q).abs());
    assert!(largest.fold(0.0, f64::max) < 0.1);
    // Uniform tables start from random numbers, so that EM does not stay where it begins.
    let uniform = Parents::new(vec![vec![], vec![0], vec![0], vec![0]]).unwrap().network(&names).unwrap();
    let (blind, _) = fit_of(&uniform, &table, &NetworkFit::default().tolerance(1e-5));
    assert!((blind.log_likelihood.value - found.log_likelihood.value).abs() < 1e-3);
}

fn score_of(graph: &FactorGraph, table: &Table) -> f64 {
    let cells = |row: &[u32]| row.iter().map(|&c| (c != u32::MAX).then_some(c)).collect();
    table.iter().map(|(row, count)| count as f64 * enumerated(graph, &[cells(row)])).sum()
}

#[test]
fn bad_input_is_refused_with_the_reason() {
    let run = Run::default();
    let rows: Vec<Row> = vec![vec![Some(0), Some(1)], vec![None, Some(0)]];
    let table = table(&[2, 2], &rows);
    let structure = Parents::parse(&["c1=c0"], table.columns()).unwrap().network(table.columns()).unwrap();
    let message = |structure: &FactorGraph, how: &NetworkFit| {
        fit_network(structure, &table, how, &run, &mut |_| Ok(true)).unwrap_err().to_string()
    };
    for prior in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let text = message(&structure, &NetworkFit::default().pseudo_count(Some(prior)));
        assert!(text.contains("pseudo_count") && text.contains("above 0"), "{text}");
    }
    let both = NetworkFit::default().pseudo_count(Some(1.0)).equivalent_sample_size(Some(1.0));
    assert!(message(&structure, &both).contains("equivalent_sample_size: is another form"));
    let markov = structure.clone().with_network_type(NetworkType::Markov);
    assert!(message(&markov, &NetworkFit::default()).contains("expected a Bayesian network"));
    let other = Parents::new(vec![vec![], vec![]]).unwrap().network(&columns(&[2, 3])).unwrap();
    assert!(message(&other, &NetworkFit::default()).contains("not the columns and states"));
    let own = likelihood(&table, &Structure::Independent);
    let refused = |how: &Fit| learn::fit(&own, how, None, &run, &mut |_| Ok(true)).unwrap_err().to_string();
    assert!(refused(&Fit::default().optimizer(Optimizer::Fista)).contains("fista needs complete rows"));
    let graph = generate::tree(4, 2, 1.0, 1).unwrap();
    let cyclic = drawn(&graph, 50, 0.2, 1);
    let cyclic = self::table(graph.cardinalities(), &cyclic);
    let edges: Vec<(usize, usize)> = (0..4).flat_map(|j| (0..j).map(move |i| (i, j))).collect();
    let random =
        Likelihood::of_table(&cyclic, &edges, Choice::parse("importance"), Settings::new(), &run).unwrap();
    let text = learn::fit(&random, &Fit::default(), None, &run, &mut |_| Ok(true)).unwrap_err().to_string();
    assert!(text.contains("method: the values of this method are random"), "{text}");
}

/// A sum over 23 values that all interact needs 3²³ numbers.
#[test]
fn a_sum_over_the_missing_values_that_exceeds_the_budget_is_an_error() {
    let edges: Vec<(usize, usize)> = (0..24).flat_map(|j| (0..j).map(move |i| (i, j))).collect();
    let mut graph = FactorGraph::new(vec![3; 24]).unwrap();
    for &(i, j) in &edges {
        graph.add_factor(&[i, j], &[0.1; 9]).unwrap();
    }
    let run = Run::default().with_memory(1 << 28);
    let mut row: Row = vec![None; 24];
    row[3] = Some(2);
    let full: Row = vec![Some(1); 24];
    let rows: Vec<Vec<Option<usize>>> = vec![row.iter().map(|cell| cell.map(|code| code as usize)).collect()];
    let log_z = Answer::exact(0.0, Diagnostics::new("none"));
    let found = score_states(&graph, log_z, &rows, Missing::Marginal, &run);
    assert!(matches!(found, Err(Error::OverBudget { .. })), "{found:?}");
    let choice = Choice::parse("bp");
    let data = table(&[3; 24], &[row, full]);
    let found = Likelihood::of_table(&data, &edges, choice, Settings::new(), &run);
    assert!(matches!(found, Err(Error::OverBudget { .. })), "{found:?}");
}
