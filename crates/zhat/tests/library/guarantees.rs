//! `Exact` means within the stated rounding of the true value; here the true value is known to thirty digits.

use std::ops::Add;

use crate::support::double_double::{Double, Truth, log_sum_exp};
use crate::support::exact_methods;
use crate::support::oracle::Oracle;
use zhat::exact::Elimination;
use zhat::model::generate;
use zhat::random::Streams;
use zhat::{Entropy, FactorGraph, LogPartition, Map, Marginals, Run};

const ZERO: f64 = f64::NEG_INFINITY;

/// Asserts that all results of the exact methods are within their stated rounding, without further tolerance.
fn hold(name: &str, graph: &FactorGraph, run: &Run) {
    let truth = Truth::new(graph);
    for (method, exact) in exact_methods() {
        let check = |what: &str, want: Double, got: f64, rounding: f64| {
            let off = want.distance(got);
            assert!(
                off <= rounding,
                "{method}, {name}: {what} is {got}, off by {off:e}, stated {rounding:e}"
            );
        };
        let z = exact.log_partition(graph, run).unwrap();
        check("log Z", truth.log_partition, z.value, z.diagnostics.rounding);
        let entropy = exact.entropy(graph, run).unwrap();
        check("the entropy", truth.entropy, entropy.value, entropy.diagnostics.rounding);
        let best = exact.map(graph, run).unwrap();
        check("the best score", truth.best, best.value.score, best.diagnostics.rounding);
        let beliefs = exact.marginals(graph, run).unwrap();
        for (got, want) in beliefs.value.iter().zip(&truth.marginals) {
            got.iter().zip(want).for_each(|(&p, &q)| check("a marginal", q, p, beliefs.diagnostics.rounding));
        }
        let Some(exact) = exact.factors() else { continue };
        let tables = exact.factor_marginals(graph, run).unwrap();
        for (got, want) in tables.value.iter().zip(&truth.factor_marginals) {
            let entries = got.iter().zip(want);
            entries.for_each(|(&p, &q)| check("a factor's marginal", q, p, tables.diagnostics.rounding));
        }
    }
}

#[test]
fn exact_answers_lie_within_their_stated_rounding() {
    for (name, graph) in crate::support::small_models(140).into_iter().chain(crate::support::wide_models(1)) {
        hold(&name, &graph, &Run::default());
    }
}

#[test]
fn the_stated_rounding_covers_variables_fixed_by_evidence() {
    for (seed, (name, graph)) in crate::support::small_models(70).into_iter().enumerate() {
        if graph.variable_count() > 0 {
            let v = seed % graph.variable_count();
            let evidence = [(v, seed % graph.cardinalities()[v])];
            if !Oracle::given(&graph, &evidence).is_zero() {
                hold(&name, &graph.condition(&evidence).unwrap(), &Run::default());
            }
        }
    }
}

#[test]
fn the_stated_rounding_covers_nearly_equal_sums() {
    // Rows that sum to one up to a few units in the last place, on either side of the threshold for equality.
    for seed in 0..60 {
        let mut random = Streams::new(seed, "almost one").block(0);
        let network = generate::bayes(7, 2 + seed as usize % 3, 3, 0.2, seed).unwrap();
        let mut graph = FactorGraph::new(network.cardinalities().to_vec()).unwrap();
        for factor in network.factors() {
            let nudge = f64::EPSILON * (seed % 16) as f64;
            let nudged = factor.log_values.iter().map(|x| x + nudge * (random.uniform() - 0.5));
            graph.add_factor(factor.scope, &nudged.collect::<Vec<f64>>()).unwrap();
        }
        hold(&format!("network {seed}"), &graph, &Run::default());
        let evidence = [(seed as usize % 7, 0)];
        if !Oracle::given(&graph, &evidence).is_zero() {
            hold(&format!("network {seed}, given"), &graph.condition(&evidence).unwrap(), &Run::default());
        }
    }
}

#[test]
fn the_stated_rounding_covers_constants() {
    // Added to 10¹⁶, ln 2 is rounded away completely; the stated rounding must cover it.
    let mut graph = FactorGraph::new(vec![2]).unwrap();
    graph.add_factor(&[], &[1e16]).unwrap();
    hold("a large constant", &graph, &Run::default());
    let mut graph = FactorGraph::new(vec![1; 1000]).unwrap();
    for v in 0..1000 {
        graph.add_factor(&[v], &[0.1]).unwrap();
    }
    hold("many decided variables", &graph, &Run::default());
}

#[test]
fn the_stated_rounding_covers_long_sums() {
    // The same term 40,000 times: every addition rounds in the same direction.
    let mut graph = FactorGraph::new(vec![256, 40_000]).unwrap();
    let first: Vec<f64> = (0..256).map(|s| if s == 0 { 0.0 } else { -50.0 }).collect();
    let second: Vec<f64> = (0..40_000).map(|s| if s == 0 { 0.0 } else { -0.1 }).collect();
    graph.add_factor(&[0], &first).unwrap();
    graph.add_factor(&[1], &second).unwrap();
    let sum = |rest: f64, log: f64| log_sum_exp(&[Double::ZERO, Double::from(rest).ln() + log.into()]);
    let want = sum(255.0, -50.0) + sum(39_999.0, -0.1);
    for (method, exact) in exact_methods() {
        let z = exact.log_partition(&graph, &Run::default()).unwrap();
        let (off, stated) = (want.distance(z.value), z.diagnostics.rounding);
        assert!(off <= stated, "{method}: {}, off by {off:e}, stated {stated:e}", z.value);
    }
}

/// Asserts that log Z by elimination agrees with a closed form within the stated rounding.
fn hold_log_partition(name: &str, graph: &FactorGraph, want: Double) {
    let z = Elimination::default().log_partition(graph, &Run::default()).unwrap();
    let (off, stated) = (want.distance(z.value), z.diagnostics.rounding);
    assert!(off <= stated, "{name}: {}, off by {off:e}, stated {stated:e}", z.value);
    // A very large stated rounding would pass the check above, so it must be small.
    assert!(stated <= 1e-6 * want.high.abs(), "{name}: {} with a stated rounding of {stated:e}", z.value);
}

/// n·x for a count n.
fn times(n: usize, x: Double) -> Double {
    x * (n as f64).into()
}

#[test]
fn log_z_of_a_million_independent_variables() {
    let n = 1_000_000;
    let tables = [[0.3, -1.0], [2.5, 2.0], [ZERO, 0.7], [-4.0, -4.0], [0.0, 30.0]];
    let mut graph = FactorGraph::new(vec![2; n]).unwrap();
    for v in 0..n {
        graph.add_factor(&[v], &tables[v % 5]).unwrap();
    }
    let term = |table: &[f64; 2]| times(n / 5, log_sum_exp(&table.map(Double::from)));
    let want = tables.iter().map(term).fold(Double::ZERO, Double::add);
    hold_log_partition("independent variables", &graph, want);
}

#[test]
fn log_z_of_half_a_million_pairs() {
    let n = 500_000;
    let table = [0.5, -0.25, 1.0, 3.0];
    let mut graph = FactorGraph::new(vec![2; 2 * n]).unwrap();
    for k in 0..n {
        graph.add_factor(&[2 * k + 1, 2 * k], &table).unwrap();
    }
    hold_log_partition("pairs", &graph, times(n, log_sum_exp(&table.map(Double::from))));
}

#[test]
fn log_z_of_a_star_with_a_hundred_thousand_leaves() {
    let leaves = 100_000;
    let mut graph = FactorGraph::new(vec![3; leaves + 1]).unwrap();
    let rows = [[0.1, 0.7, -1.0], [0.2, ZERO, 0.4], [0.9, 0.3, 0.30001]];
    for leaf in 1..=leaves {
        graph.add_factor(&[0, leaf], &rows.concat()).unwrap();
    }
    let hub = rows.map(|row| times(leaves, log_sum_exp(&row.map(Double::from))));
    hold_log_partition("star", &graph, log_sum_exp(&hub));
}

#[test]
fn log_z_of_a_chain_of_a_hundred_thousand_variables_by_its_transfer_matrix() {
    // The offset moves log Z and the best score to about a million and minus a million.
    for offset in [0.0, 10.0, -10.0] {
        let n = 100_000;
        let mut random = Streams::new(1, "transfer matrix").block(0);
        let kinds: Vec<[f64; 4]> =
            (0..32).map(|_| std::array::from_fn(|_| 2.0 * random.normal() + offset)).collect();
        let weights: Vec<[Double; 4]> =
            kinds.iter().map(|kind| kind.map(|x| Double::from(x).exp())).collect();
        let mut graph = FactorGraph::new(vec![2; n]).unwrap();
        let one = Double::from(1.0);
        let (mut sums, mut log, mut bests) = ([one; 2], Double::ZERO, [Double::ZERO; 2]);
        for v in 0..n - 1 {
            let k = random.below(kinds.len());
            graph.add_factor(&[v, v + 1], &kinds[k]).unwrap();
            sums = [0, 1].map(|s| sums[0] * weights[k][s] + sums[1] * weights[k][2 + s]);
            bests = [0, 1].map(|s| {
                let (a, b) = (bests[0] + kinds[k][s].into(), bests[1] + kinds[k][2 + s].into());
                if (a - b).high > 0.0 { a } else { b }
            });
            let scale = (sums[0] + sums[1]).high;
            if !(1e-100..1e100).contains(&scale) {
                (sums, log) = (sums.map(|sum| sum.over(scale)), log + Double::from(scale).ln());
            }
        }
        hold_log_partition(&format!("chain, offset {offset}"), &graph, log + (sums[0] + sums[1]).ln());
        let best = Elimination::default().map(&graph, &Run::default()).unwrap();
        let off = bests[0].distance(best.value.score).min(bests[1].distance(best.value.score));
        assert!(off <= best.diagnostics.rounding, "best score {}, off by {off:e}", best.value.score);
    }
}

#[test]
fn log_z_of_a_ring_by_the_eigenvalues_of_its_transfer_matrix() {
    for (n, j, h) in [(3, 0.4, 0.3), (1000, 0.7, -0.2), (20_000, -0.5, 0.0), (501, -1.5, 0.0)] {
        let mut graph = FactorGraph::new(vec![2; n]).unwrap();
        for v in 0..n {
            graph.add_factor(&[v], &[-h, h]).unwrap();
            graph.add_factor(&[v, (v + 1) % n], &[j, -j, -j, j]).unwrap();
        }
        // λ± = e^J·cosh h ± √(e^2J·sinh² h + e^−2J), Z = λ₊ⁿ + λ₋ⁿ.
        let exp = |x: f64| Double::from(x).exp();
        let (cosh, sinh) = ((exp(h) + exp(-h)).over(2.0), (exp(h) - exp(-h)).over(2.0));
        let root = (exp(j) * exp(j) * sinh * sinh + exp(-j) * exp(-j)).sqrt();
        let (plus, minus) = (exp(j) * cosh + root, exp(j) * cosh - root);
        // λ₋ can be negative; then the sign of λ₋ⁿ depends on the parity of n.
        let mut ratio = Double::from(1.0);
        let (size, negative) = if minus.high < 0.0 { (-minus, n % 2 == 1) } else { (minus, false) };
        ratio = if size.high == 0.0 { Double::ZERO } else { ratio * times(n, size.ln() - plus.ln()).exp() };
        let correction = Double::from(1.0) + if negative { -ratio } else { ratio };
        hold_log_partition(&format!("ring {n}"), &graph, times(n, plus.ln()) + correction.ln());
    }
}

#[test]
fn colourings_of_trees_and_independent_sets_of_paths() {
    let (n, colours) = (50_000, 4);
    let mut random = Streams::new(2, "random tree").block(0);
    let mut tree = FactorGraph::new(vec![colours; n]).unwrap();
    let different: Vec<f64> = (0..16).map(|i| if i / 4 == i % 4 { ZERO } else { 0.0 }).collect();
    for v in 1..n {
        tree.add_factor(&[v, random.below(v)], &different).unwrap();
    }
    let want = Double::from(4.0).ln() + times(n - 1, Double::from(3.0).ln());
    hold_log_partition("colourings", &tree, want);
    let beliefs = Elimination::default().marginals(&tree, &Run::default()).unwrap().value;
    assert!(beliefs.as_slice().iter().all(|p| (p - 0.25).abs() < 1e-10));
    // All colourings are equally likely, so the entropy is the logarithm of their number.
    let entropy = Elimination::default().entropy(&tree, &Run::default()).unwrap();
    assert!(want.distance(entropy.value) <= entropy.diagnostics.rounding, "{entropy}");

    let mut path = FactorGraph::new(vec![2; 75]).unwrap();
    for v in 1..75 {
        path.add_factor(&[v - 1, v], &[0.0, 0.0, 0.0, ZERO]).unwrap();
    }
    let (mut one, mut two) = (1u64, 2u64);
    (0..74).for_each(|_| (one, two) = (two, one + two));
    hold_log_partition("independent sets", &path, Double::from(two as f64).ln());
}

#[test]
fn huge_scores_give_probabilities_or_an_error() {
    // Added to 10²⁰, everything else is rounded away. This may cost precision, but results must stay
    // meaningful.
    let mut lopsided = FactorGraph::new(vec![2, 2, 2]).unwrap();
    lopsided.add_factor(&[0, 1], &[3540.0, 3e20, 5848.0, -11652.0]).unwrap();
    lopsided.add_factor(&[1, 2], &[5415.0, 20411.0, -4e19, -1.5e20]).unwrap();
    // Scores whose sums would exceed the largest double are refused.
    let mut beyond = FactorGraph::new(vec![2]).unwrap();
    assert!(beyond.add_factor(&[0], &[1.5e308, 0.0]).is_err());
    beyond.add_factor(&[0], &[9e304, 0.0]).unwrap();
    assert!(beyond.add_factor(&[0], &[9e304, 0.0]).is_err());
    for graph in [lopsided, beyond] {
        for (method, exact) in exact_methods() {
            if let Ok(beliefs) = exact.marginals(&graph, &Run::default()) {
                let beliefs = beliefs.value;
                assert!(beliefs.as_slice().iter().all(|p| (0.0..=1.0).contains(p)), "{method}: {beliefs:?}");
            }
            let numbers =
                [exact.log_partition(&graph, &Run::default()), exact.entropy(&graph, &Run::default())];
            for answer in numbers {
                match answer {
                    Ok(answer) => assert!(answer.value.is_finite(), "{method}: {answer}"),
                    // Some state has a positive weight, even if it overflows.
                    Err(error) => assert!(!matches!(error, zhat::Error::ZeroPartition), "{method}: {error}"),
                }
            }
        }
    }
}
