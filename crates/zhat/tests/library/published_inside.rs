//! Randomized inside as published: every estimate is one that Eq. 18 gives for some draws, and the mean over all
//! draws is below Z.

use zhat::dynamic::{PublishedInside, RandomizedInside, Selection, SpanProposal, States};
use zhat::model::generate::{self, HypertreeShape, RuleForm, SpanForm};
use zhat::model::{Hypertree, Rules, Spans, Symbols};
use zhat::{Error, Guarantee, LogPartition, Real, Run};

use crate::hypertree::{RULES, method, shapes};
use crate::support::parses::{Parses, rule_score};

/// The words i … j of a sentence.
type Cell = (usize, usize);

fn cells(words: usize) -> Vec<Cell> {
    (0..words).flat_map(|width| (0..words - width).map(move |i| (i, i + width))).collect()
}

/// The score of a node by itself, for each symbol that it can have.
fn scores(model: &Hypertree<f64>, (i, j): Cell) -> Vec<f64> {
    match i == j {
        true => model.word(0, i).to_vec(),
        false => (0..model.symbols().heads).map(|k| model.span(0, i, j, k)).collect(),
    }
}

/// The symbols of a word or span that are kept, and those that are drawn with their weights.
#[derive(Clone)]
struct Choice {
    kept: Vec<usize>,
    drawn: Vec<(usize, f64)>,
}

/// All choices of a cell, which have equal probabilities: K₁ are kept, and K₂ are drawn from the others.
fn choices(model: &Hypertree<f64>, cell: Cell, kept: usize, drawn: usize) -> Vec<Choice> {
    let mut own = scores(model, cell);
    if cell == (0, model.lengths()[0] - 1) && cell.0 < cell.1 {
        own.iter_mut().zip(model.root(0)).for_each(|(x, root)| *x += root);
    }
    let mut order: Vec<usize> = (0..own.len()).filter(|&k| own[k] > f64::NEG_INFINITY).collect();
    if order.len() <= kept + drawn {
        return vec![Choice { kept: order, drawn: Vec::new() }];
    }
    order.sort_by(|&a, &b| own[b].total_cmp(&own[a]).then(a.cmp(&b)));
    let tail = order.split_off(kept);
    let weight = tail.len() as f64 / drawn as f64;
    let mut all = vec![Vec::new()];
    for _ in 0..drawn {
        all =
            all.iter().flat_map(|list| tail.iter().map(|&k| [&list[..], &[(k, weight)]].concat())).collect();
    }
    all.into_iter().map(|drawn| Choice { kept: order.clone(), drawn }).collect()
}

/// Eq. 18, with rules, for one choice per cell, in the order of `cells`.
fn published(model: &Hypertree<f64>, chosen: &[&Choice]) -> f64 {
    let (words, cells) = (model.lengths()[0], cells(model.lengths()[0]));
    let first_tag = model.symbols().first_tag();
    let mut inside: Vec<Vec<f64>> = Vec::new();
    let at = |cell: Cell| cells.iter().position(|&other| other == cell).unwrap();
    // The symbols of a cell with their weights: the kept ones, or the drawn ones.
    let of = |cell: Cell, drawn: bool| -> Vec<(usize, f64)> {
        let own = chosen[at(cell)];
        if drawn { own.drawn.clone() } else { own.kept.iter().map(|&k| (k, 1.0)).collect() }
    };
    let symbol = |cell: Cell, k: usize| if cell.0 == cell.1 { first_tag + k } else { k };
    for &(i, j) in &cells {
        let mut own: Vec<f64> = scores(model, (i, j)).iter().map(|x| x.exp()).collect();
        if i < j {
            for (k, x) in own.iter_mut().enumerate() {
                let mut sum = 0.0;
                for m in i..j {
                    let (left, right) = ((i, m), (m + 1, j));
                    for drawn in [false, true] {
                        for (a, w) in of(left, drawn) {
                            for (c, v) in of(right, drawn) {
                                let rule = rule_score(model, 0, k, symbol(left, a), symbol(right, c)).exp();
                                sum += rule * w * v * inside[at(left)][a] * inside[at(right)][c];
                            }
                        }
                    }
                }
                *x *= sum;
            }
        }
        inside.push(own);
    }
    let whole = (0, words - 1);
    let roots = [of(whole, false), of(whole, true)].concat();
    let root = |k: usize| model.root(0).get(symbol(whole, k)).map_or(0.0, |x| x.exp());
    roots.into_iter().map(|(k, w)| w * inside[at(whole)][k] * root(k)).sum()
}

/// Ẑ for every choice; all have the same probability.
fn all_estimates(model: &Hypertree<f64>, kept: usize, drawn: usize) -> Vec<f64> {
    let lists: Vec<Vec<Choice>> =
        cells(model.lengths()[0]).into_iter().map(|cell| choices(model, cell, kept, drawn)).collect();
    let total: usize = lists.iter().map(Vec::len).product();
    let of = |mut number: usize| {
        let mut one = |list: &Vec<Choice>| {
            let place = number % list.len();
            number /= list.len();
            place
        };
        let places: Vec<usize> = lists.iter().map(&mut one).collect();
        published(model, &lists.iter().zip(places).map(|(list, at)| &list[at]).collect::<Vec<_>>())
    };
    (0..total).map(of).collect()
}

fn estimator(kept: usize, drawn: usize) -> PublishedInside {
    PublishedInside::default().states(States::Count(kept + drawn)).top(Some(kept)).replicates(1)
}

fn estimates(found: &impl LogPartition<Hypertree<f64>>, model: &Hypertree<f64>, count: u64) -> Vec<f64> {
    let one = |seed: u64| found.log_partition(model, &Run::default().with_seed(seed)).unwrap().value[0].exp();
    (0..count).map(one).collect()
}

/// z of the mean of some numbers.
fn z_score(values: &[f64], expected: f64) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean - expected) / (variance / n).sqrt().max(1e-12 * expected)
}

#[test]
fn estimates_are_those_of_the_published_recursion() {
    for (i, rules) in RULES.into_iter().enumerate() {
        for (zeros, words, size, kept, drawn) in [(0.0, 3, 3, 1, 1), (0.3, 3, 3, 1, 1), (0.0, 2, 4, 1, 2)] {
            let rules = if matches!(rules, RuleForm::Sparse(_)) { RuleForm::Sparse(20) } else { rules };
            let spans = [SpanForm::PerSymbol, SpanForm::None, SpanForm::Factored(2)][i % 3];
            let symbols = [Symbols::same(size), Symbols::disjoint(size, size)][i % 2];
            let shape = HypertreeShape { words, symbols, rules, spans, zeros, ..Default::default() };
            let model: Hypertree<f64> = generate::hypertree(&shape, 20 + i as u64).unwrap();
            let every = all_estimates(&model, kept, drawn);
            let mean = every.iter().sum::<f64>() / every.len() as f64;
            let z = Parses::new(&model, 0).log_partition().exp();
            assert!(mean <= z * (1.0 + 1e-12), "{shape:?}: {mean} {z}");
            if z == 0.0 {
                continue;
            }
            let found = estimates(&estimator(kept, drawn), &model, 400);
            for x in &found {
                let known = every.iter().any(|y| (x - y).abs() <= 1e-11 * (x + y));
                assert!(known, "{shape:?}: {x} is no value of the recursion");
            }
            if mean == 0.0 {
                assert!(found.iter().all(|x| *x == 0.0), "{shape:?}");
                continue;
            }
            // Six standard deviations: a false alarm once in 5·10⁸ tests.
            assert!(z_score(&found, mean).abs() < 6.0, "{shape:?}: {mean}");
        }
    }
}

/// T = N = 3, one symbol kept with half of the sum: the mean is a quarter of Z. With the left-out products it is Z.
#[test]
fn the_published_recursion_is_biased() {
    let row = [2f64.ln(), 0.0, 0.0];
    let model = Hypertree::new(Symbols::same(3), row.repeat(3).into(), vec![3], Rules::Any).unwrap();
    let model = model.with_spans(Spans::PerSymbol(row.repeat(9).into())).unwrap();
    let every = all_estimates(&model, 1, 1);
    assert_eq!(every.len(), 64);
    let z = 2.0 * 4f64.powi(5);
    assert!((Parses::new(&model, 0).log_partition().exp() - z).abs() < 1e-9);
    assert!((every.iter().sum::<f64>() / 64.0 - z / 4.0).abs() < 1e-9);
    let biased = estimates(&estimator(1, 1), &model, 50);
    assert!(z_score(&biased, z / 4.0).abs() < 6.0);
    // Random scores: the mean is 0.25 to 0.5 of Z for most models.
    let shape =
        HypertreeShape { words: 3, symbols: Symbols::same(3), rules: RuleForm::Any, ..Default::default() };
    let shape = HypertreeShape { spans: SpanForm::PerSymbol, strength: 0.5, ..shape };
    let mut ratios = Vec::new();
    for seed in 0..20 {
        let model: Hypertree<f64> = generate::hypertree(&shape, seed).unwrap();
        let log_z = method().log_partition(&model, &Run::default()).unwrap().value[0];
        ratios.push(all_estimates(&model, 1, 1).iter().sum::<f64>() / 64.0 / log_z.exp());
        if seed < 3 {
            let same = RandomizedInside::default()
                .states(States::Count(2))
                .proposal(SpanProposal::UniformTail)
                .selection(Selection::Draws)
                .top(Some(1))
                .replicates(1);
            let unbiased = estimates(&same, &model, 1000);
            assert!(z_score(&unbiased, log_z.exp()).abs() < 6.0, "{seed}");
            let biased = estimates(&estimator(1, 1), &model, 1000);
            assert!(z_score(&biased, log_z.exp()) < -20.0, "{seed}");
        }
    }
    assert!(ratios.iter().all(|ratio| (0.2..0.6).contains(ratio)), "{ratios:?}");
}

#[test]
fn with_all_symbols_the_published_estimate_is_exact_but_not_called_so() {
    fn check<F: Real>(model: &Hypertree<F>, exact: Result<Vec<f64>, Error>, label: &str)
    where
        PublishedInside: LogPartition<Hypertree<F>>,
    {
        let found = PublishedInside::default().replicates(2).log_partition(model, &Run::default());
        match exact {
            Err(_) => {
                let Err(Error::NoTree(reason)) = found else { panic!("{label}: {found:?}") };
                assert!(reason.starts_with("sentence 0 has no parse"), "{label}: {reason}");
            }
            Ok(exact) => {
                let found = found.unwrap();
                let Guarantee::Heuristic { reason } = &found.guarantee else { panic!("{label}") };
                assert!(reason.contains("E[Ẑ] is smaller than Z"));
                let allowed = 2.0 * found.diagnostics.rounding;
                let near = |(a, b): (&f64, &f64)| a == b || (a - b).abs() <= allowed;
                assert!(found.value.iter().zip(&exact).all(near), "{label}: {:?} {exact:?}", found.value);
            }
        }
    }
    for (shape, seed) in shapes() {
        let label = format!("{shape:?} seed {seed}");
        let mut model: Hypertree<f64> = generate::hypertree(&shape, seed).unwrap();
        if seed % 3 == 0 && shape.strength == 1.0 {
            model = crate::hypertree::with_unary(model, seed);
        }
        let exact = method().log_partition(&model, &Run::default()).map(|found| found.value);
        check(&model, exact, &label);
        let model: Hypertree<f32> = generate::hypertree(&shape, seed).unwrap();
        let exact = method().log_partition(&model, &Run::default()).map(|found| found.value);
        check(&model, exact, &label);
    }
}
