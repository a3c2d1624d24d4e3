//! Learning from tables: closed forms, recovery, and bad input.

use std::path::PathBuf;

use crate::support::oracle::Oracle;
use crate::support::statistics::{ALARM, chi_square_tail};
use zhat::catalogue::{Choice, Settings};
use zhat::io::table::{Missing, TableOptions};
use zhat::learn::read_statistics;
use zhat::learn::{self, Column, Fit, Likelihood, Optimizer, Start, Statistics, Structure, chow_liu};
use zhat::model::generate::{self, GraphShape};
use zhat::random::Streams;
use zhat::{FactorGraph, Guarantee, LogPartition, Run, Sample, exact};

fn columns(lengths: &[usize]) -> Vec<Column> {
    let state = |s: usize| format!("s{s}");
    let column =
        |(i, &n): (usize, &usize)| Column { name: format!("c{i}"), states: (0..n).map(state).collect() };
    lengths.iter().enumerate().map(column).collect()
}

/// Rows drawn from a model.
fn draws(graph: &FactorGraph, count: usize, seed: u64) -> Statistics {
    let run = Run::default().with_seed(seed);
    let samples = exact::Elimination::default().sample(graph, count, &run).unwrap().value;
    let n = graph.variable_count();
    let mut codes: Vec<Vec<Option<u32>>> = vec![Vec::with_capacity(count); n];
    for state in samples.iter() {
        for (v, column) in codes.iter_mut().enumerate() {
            column.push(Some(state[v] as u32));
        }
    }
    Statistics::of_codes(columns(graph.cardinalities()), &codes, &Run::default()).unwrap()
}

fn likelihood(statistics: &Statistics, structure: &Structure, method: &str) -> Likelihood {
    let edges = structure.edges(statistics).unwrap();
    Likelihood::new(statistics, &edges, Choice::parse(method), Settings::new()).unwrap()
}

fn fitted(likelihood: &Likelihood, how: &Fit) -> learn::Fitted {
    learn::fit(likelihood, how, None, &Run::default(), &mut |_| Ok(true)).unwrap()
}

/// For a tree, the maximum log-likelihood per row is −Σ H(v) + Σ I(edge).
#[test]
fn trees_reach_the_closed_form() {
    for seed in 0..4 {
        let graph = generate::tree(7, 3, 1.0, seed).unwrap();
        let statistics = draws(&graph, 3000, seed);
        let tree = chow_liu(&statistics);
        assert_eq!(tree.len(), 6);
        let entropies: f64 = (0..7).map(|v| statistics.entropy(v)).sum();
        let information: f64 = tree.iter().map(|&(i, j)| statistics.mutual_information(i, j)).sum();
        let own = likelihood(&statistics, &Structure::ChowLiu { more: 0 }, "exact");
        let best = information - entropies;
        let closed = fitted(&own, &Fit::default());
        assert!((closed.log_likelihood.value - best).abs() < 1e-12 && closed.progress.iteration == 0);
        let start = own.value(&own.start(Start::Forest), &Run::default()).unwrap().value;
        assert!(start <= best && start > -entropies, "{seed}: {start} {best} {entropies}");
        for optimizer in [Optimizer::Lbfgs, Optimizer::Fista] {
            let start = Start::Zero;
            let how =
                Fit::default().l2(1e-12).optimizer(optimizer).start(start).iterations(3000).tolerance(1e-7);
            let found = fitted(&own, &how);
            assert_eq!(found.log_likelihood.guarantee, Guarantee::Exact);
            assert!(
                (found.log_likelihood.value - best).abs() < 1e-6,
                "{seed}: {} {best}",
                found.log_likelihood.value
            );
        }
    }
}

/// The Chow–Liu tree of the mushroom data: a fit from zero reaches the closed form.
#[test]
fn mushrooms_reach_the_closed_form() {
    let Some(data) = crate::support::data("maximum likelihood of the mushrooms' tree") else { return };
    let options = TableOptions { header: false, markers: vec!["?".into()], ..Default::default() };
    let path = data.join("data/mushroom/agaricus-lepiota.data");
    let statistics = read_statistics(&path, &options, &Run::default()).unwrap();
    assert_eq!((statistics.rows(), statistics.columns().len()), (5644, 23));
    let tree = chow_liu(&statistics);
    let information: f64 = tree.iter().map(|&(i, j)| statistics.mutual_information(i, j)).sum();
    let best = information - (0..23).map(|v| statistics.entropy(v)).sum::<f64>();
    let own = likelihood(&statistics, &Structure::ChowLiu { more: 0 }, "exact");
    let found = fitted(&own, &Fit::default());
    assert!((found.log_likelihood.value - best).abs() < 1e-9, "{} {best}", found.log_likelihood);
    // The penalty is almost zero, so some parameters tend to −∞ and the fit is not exact.
    let how = Fit::default().l2(1e-9).start(Start::Zero).iterations(300);
    let found = fitted(&own, &how).log_likelihood.value;
    assert!(found <= best + 1e-9 && found > best - 5e-3, "{found} {best}");
    // With any pairs added, tree-reweighted messages cannot certify more than the tree's likelihood at this
    // start.
    let wide = likelihood(&statistics, &Structure::ChowLiu { more: 20 }, "trw");
    let certified = wide.value(&wide.start(Start::Forest), &Run::default()).unwrap().value;
    assert!(certified <= best && certified > best - 0.1, "{certified} {best}");
}

/// If the variables of a pair have no tables of their own, the closed form of the forest is contained in the
/// pair tables.
#[test]
fn forests_need_no_tables_of_single_variables() {
    let graph = generate::tree(6, 3, 1.0, 3).unwrap();
    let statistics = draws(&graph, 2000, 5);
    let edges = chow_liu(&statistics);
    let entropies: f64 = (0..6).map(|v| statistics.entropy(v)).sum();
    let information: f64 = edges.iter().map(|&(i, j)| statistics.mutual_information(i, j)).sum();
    let best = information - entropies;
    for singles in [&[][..], &[2, 4], &[0, 1, 2, 3, 4, 5]] {
        let choice = Choice::parse("exact");
        let own = Likelihood::with_tables(&statistics, singles, &edges, choice, Settings::new()).unwrap();
        let value = |parameters: &[f64]| own.value(parameters, &Run::default()).unwrap().value;
        let closed = value(&own.closed_form().unwrap());
        assert!((closed - best).abs() < 1e-12, "{singles:?}: {closed} {best}");
        // With a pseudocount of 1/2 per cell it is no longer optimal, but better than independence.
        let start = value(&own.start(Start::Forest));
        assert!(start < best && start > -entropies, "{singles:?}: {start} {best} {entropies}");
    }
}

/// With estimated gradients, the fit ends between the start and the exact optimum: the remaining distance in
/// the objective is less than the gain.
#[test]
fn estimated_gradients_lead_towards_the_best_model() {
    let graph = generate::random(
        &GraphShape { variables: 8, states: 3, factors: 14, strength: 0.8, ..Default::default() },
        2,
    )
    .unwrap();
    let statistics = draws(&graph, 3000, 1);
    let structure = Structure::ChowLiu { more: 7 };
    let exact = likelihood(&statistics, &structure, "exact");
    let how = Fit::default().l2(1.0 / 3000.0).iterations(60);
    let run = Run::default();
    // The objective to maximise.
    let objective = |parameters: &[f64]| {
        let penalty = 0.5 * how.l2 * parameters.iter().map(|x| x * x).sum::<f64>();
        exact.value(parameters, &run).unwrap().value - penalty
    };
    let best = fitted(&exact, &how.iterations(1000).tolerance(1e-9));
    let best = objective(&best.graph.factors().flat_map(|f| f.log_values.to_vec()).collect::<Vec<f64>>());
    let start = objective(&exact.start(Start::Forest));
    for (method, settings) in
        [("sccq", r#"{"form": "tree", "samples": 8192}"#), ("wmb-is", r#"{"i_bound": 2, "samples": 8192}"#)]
    {
        let edges = structure.edges(&statistics).unwrap();
        let settings: Settings = serde_json::from_str(settings).unwrap();
        let own = Likelihood::new(&statistics, &edges, Choice::parse(method), settings).unwrap();
        let found = fitted(&own, &how);
        assert!(found.random, "{method}");
        let parameters: Vec<f64> =
            found.graph.factors().flat_map(|factor| factor.log_values.to_vec()).collect();
        let reached = objective(&parameters);
        assert!(reached <= best + 1e-9, "{method}: {reached} {best}");
        assert!(best - reached < reached - start, "{method}: {start} {reached} {best}");
    }
}

/// The gradient agrees with finite differences of the value. With penalties, both optimisers reach the same
/// point.
#[test]
fn gradients_and_optimisers_agree() {
    let graph = generate::random(
        &GraphShape { variables: 6, states: 3, factors: 9, strength: 0.7, ..Default::default() },
        5,
    )
    .unwrap();
    let statistics = draws(&graph, 2000, 1);
    let own = likelihood(&statistics, &Structure::ChowLiu { more: 4 }, "exact");
    let mut random = Streams::new(1, "points").block(0);
    let point: Vec<f64> = (0..own.dimension()).map(|_| 0.5 * random.normal()).collect();
    let run = Run::default();
    let mut gradient = vec![0.0; point.len()];
    own.negative(&point, &mut gradient, &run).unwrap();
    for i in (0..point.len()).step_by(5) {
        let at = |step: f64| {
            let mut moved = point.clone();
            moved[i] += step;
            -own.value(&moved, &run).unwrap().value
        };
        let slope = (at(1e-5) - at(-1e-5)) / 2e-5;
        assert!((slope - gradient[i]).abs() < 1e-8, "{i}: {slope} {}", gradient[i]);
    }
    let how = |optimizer| Fit::default().l2(0.01).optimizer(optimizer).iterations(5000).tolerance(1e-7);
    let (one, other) = (fitted(&own, &how(Optimizer::Lbfgs)), fitted(&own, &how(Optimizer::Fista)));
    assert!(one.converged && other.converged);
    for (a, b) in one.graph.factors().zip(other.graph.factors()) {
        assert!(a.log_values.iter().zip(b.log_values).all(|(x, y)| (x - y).abs() < 1e-4));
    }
}

/// With an l1 penalty all pairs are candidates, and the tables of independent pairs become zero.
#[test]
fn l1_removes_independent_pairs() {
    let mut graph = FactorGraph::new(vec![2; 6]).unwrap();
    for (i, j) in [(0, 1), (1, 2), (3, 4)] {
        graph.add_factor(&[i, j], &[0.6, -0.6, -0.6, 0.6]).unwrap();
    }
    let statistics = draws(&graph, 20_000, 2);
    let own = likelihood(&statistics, &Structure::Complete, "exact");
    let found = fitted(&own, &Fit::default().l1(0.02).iterations(3000));
    let mut used: Vec<Vec<usize>> = Vec::new();
    for factor in found.graph.factors() {
        if factor.scope.len() == 2 && factor.log_values.iter().any(|x| *x != 0.0) {
            used.push(factor.scope.to_vec());
        }
    }
    // Shrinkage of (0, 1) and (1, 2) leaves some dependence to (0, 2), so that pair may stay; independent
    // pairs may not.
    used.retain(|pair| *pair != [0, 2]);
    assert_eq!(used, [[0, 1], [1, 2], [3, 4]]);
}

/// For n rows from the model, 2n·KL(truth, fit) is asymptotically χ² with as many degrees of freedom as there
/// are free parameters: one per variable and one per pair. The false-alarm rate is 10⁻⁸ for each of three
/// sizes.
#[test]
fn a_known_model_is_recovered() {
    let graph =
        generate::random(&GraphShape { variables: 6, factors: 8, strength: 0.8, ..Default::default() }, 3)
            .unwrap();
    let mut edges: Vec<(usize, usize)> =
        graph.factors().map(|factor| (factor.scope[0], factor.scope[1])).collect();
    edges.iter_mut().for_each(|(i, j)| (*i, *j) = (*i.min(j), *i.max(j)));
    edges.sort_unstable();
    edges.dedup();
    let freedom = (graph.variable_count() + edges.len()) as f64;
    let truth = Oracle::new(&graph).probabilities();
    for rows in [1000, 10_000, 100_000] {
        let statistics = draws(&graph, rows, 7);
        let own = likelihood(&statistics, &Structure::Edges(edges.clone()), "exact");
        let found = fitted(&own, &Fit::default().l2(1e-6));
        let fit = Oracle::new(&found.graph).probabilities();
        let divergence: f64 = truth.iter().zip(&fit).map(|(p, q)| p * (p / q).ln()).sum();
        let tail = chi_square_tail(2.0 * rows as f64 * divergence, freedom);
        assert!(divergence > 0.0 && tail > ALARM, "{rows} rows: {divergence:e}, p-value at most {tail:e}");
    }
}

/// With tree-reweighted messages the objective is a certified lower bound on the likelihood at every step.
#[test]
fn reweighted_messages_certify_the_likelihood() {
    let graph =
        generate::random(&GraphShape { variables: 8, factors: 14, strength: 0.8, ..Default::default() }, 4)
            .unwrap();
    let statistics = draws(&graph, 2000, 1);
    let structure = Structure::ChowLiu { more: 6 };
    let own = likelihood(&statistics, &structure, "trw");
    let exact = likelihood(&statistics, &structure, "exact");
    let run = Run::default();
    let mut steps = 0;
    let how = Fit::default().l2(1e-3).iterations(30);
    learn::fit(&own, &how, None, &run, &mut |now| {
        let bound = own.value(now.parameters(), &run)?;
        let Guarantee::Bounds { low, .. } = bound.guarantee else { panic!("{:?}", bound.guarantee) };
        assert!(low <= exact.value(now.parameters(), &run)?.value);
        steps += 1;
        Ok(true)
    })
    .unwrap();
    assert!(steps > 5);
}

#[test]
fn a_resumed_fit_has_the_same_bits() {
    let graph = generate::random(
        &GraphShape { variables: 5, states: 3, factors: 6, strength: 0.7, ..Default::default() },
        6,
    )
    .unwrap();
    let statistics = draws(&graph, 1000, 1);
    for (method, l1) in [("exact", 0.0), ("exact", 0.01), ("importance", 0.0)] {
        let own = likelihood(&statistics, &Structure::ChowLiu { more: 2 }, method);
        let how = Fit::default().l1(l1).l2(0.01).iterations(12).tolerance(0.0);
        let whole = fitted(&own, &how);
        let mut kept = None;
        learn::fit(&own, &how, None, &Run::default(), &mut |now| {
            kept = Some(serde_json::to_string(now).unwrap());
            Ok(now.progress().iteration < 5)
        })
        .unwrap();
        let from = serde_json::from_str(&kept.unwrap()).unwrap();
        let rest = learn::fit(&own, &how, Some(from), &Run::default(), &mut |_| Ok(true)).unwrap();
        assert_eq!(rest.graph, whole.graph, "{method} {l1}");
        assert_eq!(rest.progress, whole.progress);
        let folder = Folder::new("kept");
        let path = folder.0.join("state.json");
        let stop_at = |iteration| {
            let mut watch = |now: &learn::FitCheckpoint| Ok(now.progress().iteration < iteration);
            learn::fit_kept(&own, &how, &path, &Run::default(), &mut watch).unwrap()
        };
        stop_at(4);
        assert_eq!(stop_at(99).graph, whole.graph, "{method} {l1}, kept in a file");
        let other = how.l2(0.02);
        let from = serde_json::from_str(&serde_json::to_string(&kept_of(&own, &how)).unwrap()).unwrap();
        assert!(learn::fit(&own, &other, Some(from), &Run::default(), &mut |_| Ok(true)).is_err());
    }
}

fn kept_of(own: &Likelihood, how: &Fit) -> learn::FitCheckpoint {
    let mut kept = None;
    learn::fit(own, how, None, &Run::default(), &mut |now| {
        kept = Some(now.clone());
        Ok(false)
    })
    .unwrap();
    kept.unwrap()
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("zhat-learn-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn tables_are_read_in_every_format_variant() {
    let folder = Folder::new("dress");
    let run = Run::default();
    let plain = "colour,size\nred,1\nblue,2\nred,10\n?,2\nred,2\n";
    let want = read_statistics(&folder.write("a.csv", plain), &TableOptions::default(), &run).unwrap();
    assert_eq!((want.rows(), want.dropped()), (4, 1));
    assert_eq!(want.columns()[1].states, ["1", "2", "10"]);
    assert_eq!(want.pair(0, 1), [0, 1, 0, 1, 1, 1]);
    let dresses = [
        plain.replace('\n', "\r\n"),
        plain.replace(',', ";"),
        plain.replace(',', "\t"),
        plain.replace(',', " , ").trim_end().to_owned(),
        format!("\u{feff}{plain}\n\n"),
        plain.replace("red", "\"red\"").replace("colour", "\"colour\""),
    ];
    for dress in dresses {
        let found = read_statistics(&folder.write("b.csv", &dress), &TableOptions::default(), &run).unwrap();
        assert_eq!(found, want, "{dress}");
    }
    let quoted = "\"a,b\",c\n\"x\ny\",\"say \"\"no\"\"\"\nz,w\n";
    let found = read_statistics(&folder.write("q.csv", quoted), &TableOptions::default(), &run).unwrap();
    assert_eq!(found.columns()[0].name, "a,b");
    assert_eq!(found.columns()[0].states, ["x\ny", "z"]);
    assert_eq!(found.columns()[1].states, ["say \"no\"", "w"]);
    let without = TableOptions { header: false, ignore: vec!["x0".into()], ..Default::default() };
    let found = read_statistics(&folder.write("n.csv", "1,a\n2,b\n"), &without, &run).unwrap();
    assert_eq!((found.columns().len(), found.rows()), (1, 2));
}

/// Many blocks, many threads, and states that first occur late: the counts equal those of a single loop.
#[test]
fn large_tables_are_counted_in_parallel() {
    let folder = Folder::new("large");
    let mut random = Streams::new(5, "large tables").block(0);
    let rows = 300_000;
    let mut text = String::from("a,b,c\n");
    let mut want = std::collections::HashMap::new();
    for r in 0..rows {
        let (a, b) = (random.below(3), if r > 250_000 { random.below(9) } else { random.below(2) });
        let c = (a + b) % 3;
        text += &format!("v{a},{b},w{c}\n");
        *want.entry((a, b)).or_insert(0u64) += 1;
    }
    let path = folder.write("t.csv", &text);
    for threads in [1, 4] {
        let run = Run::default().with_threads(threads);
        let found = read_statistics(&path, &TableOptions::default(), &run).unwrap();
        assert_eq!(found.rows(), rows);
        let pair = found.pair(0, 1);
        for (&(a, b), &count) in &want {
            assert_eq!(pair[a * 9 + b], count);
        }
    }
}

#[test]
fn bad_tables_are_refused_with_a_line() {
    let folder = Folder::new("bad");
    let run = Run::default();
    let many: String = (0..1500).map(|i| format!("id{i},x\n")).collect();
    let refuse = TableOptions { missing: Missing::Refuse, ..Default::default() };
    let plain = TableOptions::default();
    let unknown = TableOptions { ignore: vec!["z".into()], ..Default::default() };
    let cases: [(&str, &TableOptions, &[&str]); 9] = [
        ("", &plain, &["empty"]),
        ("a,b\n", &plain, &["no rows"]),
        ("a,b\n1,2\n1\n", &plain, &["line 3", "found 1 values, expected 2"]),
        ("a,a\n1,2\n", &plain, &["line 1", "two columns", "`a`"]),
        ("a,\n1,2\n", &plain, &["line 1", "no name"]),
        ("a,b\n1,2\n1,?\n", &refuse, &["line 3", "column b"]),
        ("a,b\n?,1\n", &plain, &["missing"]),
        ("a,b\n1,2\n", &unknown, &["`z`"]),
        ("a,b\n1,\"2\n", &plain, &[]),
    ];
    for (text, options, words) in cases {
        let error = read_statistics(&folder.write("t.csv", text), options, &run);
        if words.is_empty() {
            continue;
        }
        let error = error.unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{text:?}: {error}");
    }
    let error = read_statistics(&folder.write("t.csv", format!("id,v\n{many}")), &plain, &run);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("line 1002") && error.contains("column id") && error.contains("1000"), "{error}");
    let missing = read_statistics(&folder.0.join("none.csv"), &plain, &run).unwrap_err();
    assert_eq!(missing.kind(), "io");
}

#[test]
fn rows_are_scored_and_filled_in() {
    let folder = Folder::new("score");
    let run = Run::default();
    let mut graph = FactorGraph::new(vec![2, 3]).unwrap();
    graph.add_factor(&[0, 1], &[0.5, -1.0, 0.0, 0.3, 2.0, 0.1]).unwrap();
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<String>>();
    let graph =
        graph.with_names(names(&["a", "b"]), vec![names(&["n", "y"]), names(&["0", "1", "2"])]).unwrap();
    let log_z = exact::Elimination::default().log_partition(&graph, &run).unwrap();
    let path = folder.write("t.csv", "b,other,a\n1,q,y\n0,q,n\n,q,y\n2,r,\n");
    let mut seen = Vec::new();
    let mut rows = learn::open_rows(&graph, &path, &TableOptions::default()).unwrap();
    let scores = learn::score(&graph, log_z.clone(), &mut rows, Missing::Drop, &run, &mut |line, value| {
        seen.push((line, value));
        Ok(())
    })
    .unwrap();
    assert_eq!((scores.rows, scores.dropped), (2, 2));
    assert_eq!(seen.iter().map(|row| row.0).collect::<Vec<_>>(), [2, 3]);
    assert!((scores.mean.value - (2.5 / 2.0 - log_z.value)).abs() < 1e-12);
    assert!((seen[0].1 - (2.0 - log_z.value)).abs() < 1e-12);
    let mut filled = Vec::new();
    let mut rows = learn::open_rows(&graph, &path, &TableOptions::default()).unwrap();
    let how = (&Choice::Auto, &Settings::new());
    let count = learn::impute(&graph, &mut rows, how, &run, &mut |row| {
        filled.push(row.to_vec());
        Ok(())
    })
    .unwrap();
    assert_eq!((count.rows, count.filled, count.inexact), (4, 2, 0));
    assert_eq!(filled, [[1, 1], [0, 0], [1, 1], [1, 2]]);
    let unseen = folder.write("u.csv", "a,b\ny,1\ny,7\n");
    let mut rows = learn::open_rows(&graph, &unseen, &TableOptions::default()).unwrap();
    let error = rows.next_rows().unwrap_err().to_string();
    assert!(error.contains("line 3") && error.contains("`7`") && error.contains("column b"), "{error}");
}

/// A value that occurs only in dropped rows is not a state of the model.
#[test]
fn states_of_dropped_rows_are_dropped() {
    let folder = Folder::new("dropped");
    let path = folder.write("t.csv", "a,b\n1,x\nz,?\n2,y\n1,y\n");
    let found = read_statistics(&path, &TableOptions::default(), &Run::default()).unwrap();
    assert_eq!(found.columns()[0].states, ["1", "2"]);
    assert_eq!((found.rows(), found.dropped(), found.pair(0, 1)), (3, 1, vec![1, 1, 0, 1]));
}
