//! Bounds on cyclic sequence models, at every iteration, against enumeration. Comparisons with the bounds
//! have no tolerance.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::oracle::log_sum_exp;
use zhat::cycle::{Annealed, Descent, Spectral, Star, TransferMatrix};
use zhat::model::{Interactions, SequenceMrf};
use zhat::random::{Stream, Streams};
use zhat::{Error, Estimate, Forecasts, Guarantee, LogPartition, Observer, Query, Run};

/// log Z by enumeration.
fn enumerated(model: &SequenceMrf) -> f64 {
    let (c, n) = (model.states(), model.length());
    let scores: Vec<f64> = (0..c.pow(n as u32))
        .map(|mut code| {
            let states: Vec<usize> = (0..n)
                .map(|_| {
                    let state = code % c;
                    code /= c;
                    state
                })
                .collect();
            model.score(&states)
        })
        .collect();
    log_sum_exp(&scores)
}

fn random_model(random: &mut Stream, size: f64, zeros: f64) -> SequenceMrf {
    let c = 1 + random.below(4);
    let context = 1 + random.below(3);
    let n = (context + 1 + random.below(4)).min(if c > 3 { 6 } else { 7 });
    let mut number = |zeros: f64| {
        if random.uniform() < zeros { f64::NEG_INFINITY } else { size * (2.0 * random.uniform() - 1.0) }
    };
    let unary: Vec<f64> = (0..c).map(|_| number(0.5 * zeros)).collect();
    if number(0.0) > 0.0 {
        let mut matrix = || (0..c * c).map(|_| number(zeros) as f32).collect::<Vec<f32>>();
        let matrices = (0..context).map(|_| matrix()).collect();
        return SequenceMrf::new(n, unary, Interactions::Full(matrices)).unwrap();
    }
    let rank = 2;
    let mut matrix =
        || (0..c * rank).map(|_| (number(0.0).abs().sqrt() * number(0.0).signum()) as f32).collect();
    let left = matrix();
    let right = (0..context).map(|_| matrix()).collect();
    SequenceMrf::new(n, unary, Interactions::LowRank { rank, left, right }).unwrap()
}

#[derive(Default)]
struct Ends(Mutex<Vec<f64>>);

impl Observer for Ends {
    fn progress(&self, _: &'static str, _: u64, _: u64) {}
    fn bounds(&self, _: f64, high: f64) {
        self.0.lock().unwrap().push(high);
    }
}

/// All upper bounds that were reported during the run, and the final result.
fn ends(method: &dyn LogPartition<SequenceMrf>, model: &SequenceMrf) -> Result<(Vec<f64>, Estimate), Error> {
    let observer = Arc::new(Ends::default());
    let run = Run::default().with_threads(1).with_observer(observer.clone());
    let answer = method.log_partition(model, &run)?;
    let told = observer.0.lock().unwrap().clone();
    Ok((told, answer))
}

#[test]
fn both_bounds_are_above_log_z_at_every_iteration() {
    let mut random = Streams::new(9, "lifted").block(0);
    let mut tried = 0;
    for i in 0..400 {
        let size = [0.5, 3.0, 50.0, 1e4][i % 4];
        let model = random_model(&mut random, size, if i % 3 == 0 { 0.3 } else { 0.0 });
        let exact = enumerated(&model);
        let star = Star::default().iterations(8);
        let steps = star.descent(Descent::Subgradient);
        let spectral = Spectral::default().iterations(6).passes(1 + i % 20);
        for method in [&star as &dyn LogPartition<SequenceMrf>, &steps, &spectral] {
            match ends(method, &model) {
                Ok((told, answer)) => {
                    assert!(!told.is_empty() && !answer.value.is_nan());
                    for high in told.iter().chain([&answer.value]) {
                        assert!(*high >= exact, "{i}: {high} below {exact}: {model:?}");
                    }
                    assert_eq!(answer.guarantee.interval(answer.value, 0.0).unwrap().1, answer.value);
                    tried += 1;
                }
                Err(Error::ZeroPartition) => assert_eq!(exact, f64::NEG_INFINITY),
                Err(other) => panic!("{other}"),
            }
        }
        match TransferMatrix::default().log_partition(&model, &Run::default()) {
            Ok(answer) => {
                let apart = (answer.value - exact).abs();
                assert!(apart <= 2.0 * answer.diagnostics.rounding, "{i}: {} {exact}", answer.value);
            }
            Err(error) => assert!(matches!(error, Error::ZeroPartition) && exact == f64::NEG_INFINITY),
        }
    }
    assert!(tried > 900, "{tried}");
}

#[test]
fn without_interactions_the_star_is_exact_and_the_spectral_bound_nearly_so() {
    let unary = vec![0.3, -1.5, 2.0, f64::NEG_INFINITY];
    let one = log_sum_exp(&unary);
    for (context, n) in [(1, 2), (1, 7), (2, 9), (3, 1_000_003)] {
        let model =
            SequenceMrf::new(n, unary.clone(), Interactions::Full(vec![vec![0.0; 16]; context])).unwrap();
        let exact = n as f64 * one;
        let star = Star::default().log_partition(&model, &Run::default()).unwrap();
        assert!((star.value - exact).abs() <= 1e-9 * exact && star.value >= exact, "{star} {exact}");
        let spectral = Spectral::default().log_partition(&model, &Run::default()).unwrap();
        let ends = context as f64 * 3f64.ln();
        assert!(spectral.value >= exact && spectral.value <= exact * (1.0 + 1e-9) + ends, "{spectral}");
    }
}

#[test]
fn with_one_distance_the_spectral_bound_is_within_log_c_for_any_length() {
    let mut random = Streams::new(9, "lifted").block(1);
    for n in [5, 50, 400] {
        let theta: Vec<f32> = (0..25).map(|_| (3.0 * random.normal()) as f32).collect();
        let unary: Vec<f64> = (0..5).map(|_| random.normal()).collect();
        let model = SequenceMrf::new(n, unary, Interactions::Full(vec![theta])).unwrap();
        let exact = TransferMatrix::default().log_partition(&model, &Run::default()).unwrap().value;
        let bound = Spectral::default().log_partition(&model, &Run::default()).unwrap().value;
        assert!(bound >= exact && bound <= exact + 5f64.ln() + 1e-6, "{n}: {bound} {exact}");
    }
}

#[test]
fn periodic_matrices_and_matrices_without_return_are_bounded() {
    let zero = f32::NEG_INFINITY;
    let swap = vec![zero, 1.0, 2.0, zero];
    let model = SequenceMrf::new(6, vec![0.0; 2], Interactions::Full(vec![swap.clone()])).unwrap();
    let exact = enumerated(&model);
    assert_eq!(exact, 9.0 + 2f64.ln());
    let bound = Spectral::default().log_partition(&model, &Run::default()).unwrap().value;
    assert!(bound >= exact && bound <= exact + 1e-6, "{bound}");
    // On an odd cycle no state has a positive weight: the bound is finite, and the exact method reports Z =
    // 0.
    let odd = SequenceMrf::new(5, vec![0.0; 2], Interactions::Full(vec![swap])).unwrap();
    assert!(Spectral::default().log_partition(&odd, &Run::default()).unwrap().value.is_finite());
    let error = TransferMatrix::default().log_partition(&odd, &Run::default()).unwrap_err();
    assert!(matches!(error, Error::ZeroPartition));
}

#[test]
fn results_are_certified_when_time_is_up_and_do_not_depend_on_threads() {
    let mut random = Streams::new(9, "lifted").block(2);
    let theta = || Interactions::Full(vec![vec![0.5, -1.0, 0.0, 2.0], vec![0.1, 0.2, -3.0, 1.0]]);
    let model = SequenceMrf::new(9, vec![random.normal(), 0.1], theta()).unwrap();
    let exact = enumerated(&model);
    for method in [&Star::default() as &dyn LogPartition<SequenceMrf>, &Spectral::default()] {
        let short = method.log_partition(&model, &Run::default().with_time(Duration::ZERO)).unwrap();
        assert!(short.diagnostics.stopped_early && short.value >= exact);
        let with =
            |threads| method.log_partition(&model, &Run::default().with_threads(threads)).unwrap().value;
        assert_eq!(with(1).to_bits(), with(3).to_bits());
        assert!(with(1) <= short.value);
    }
    let small = Star::default().log_partition(&model, &Run::default().with_memory(10));
    assert!(matches!(small, Err(Error::OverBudget { .. })));
    let answer = Star::default().log_partition(&model, &Run::default()).unwrap();
    assert!(matches!(answer.guarantee, Guarantee::Bounds { low: f64::NEG_INFINITY, .. }));
}

/// Both bounds are above log Z and decrease. L-BFGS reaches the minimum of the same convex function, so its
/// bound is lower.
#[test]
fn the_published_steps_decrease_towards_the_star_of_lbfgs() {
    let mut random = Streams::new(9, "lifted").block(3);
    let theta: Vec<f32> = (0..16).map(|_| random.normal() as f32).collect();
    let model = SequenceMrf::new(12, vec![0.0, 0.5, -0.5, 1.0], Interactions::Full(vec![theta])).unwrap();
    let value = |descent, iterations| {
        let star = Star::default().descent(descent).iterations(iterations).tolerance(1e-9);
        star.log_partition(&model, &Run::default()).unwrap().value
    };
    let quick = value(Descent::Lbfgs, 1000);
    let published = [0, 5, 50, 500, 5000].map(|iterations| value(Descent::Subgradient, iterations));
    assert!(published.windows(2).all(|pair| pair[1] <= pair[0]), "{published:?}");
    assert!(enumerated(&model) <= quick && quick <= published[4] + 1e-9, "{quick} {published:?}");
    // At least as low as L-BFGS after two steps.
    assert!(published[4] < published[0] && published[4] <= value(Descent::Lbfgs, 2), "{quick} {published:?}");
}

#[test]
fn rotations_give_the_same_model_as_their_products() {
    let left = vec![1.0f32, 2.0, -1.0, 0.5];
    let right = vec![0.5f32, 1.0, 2.0, -1.0];
    let turn = vec![0.0f32, 1.0, -1.0, 0.0];
    let model = SequenceMrf::rotated(5, vec![0.0; 2], left.clone(), &[turn], &right).unwrap();
    for x in 0..2 {
        for y in 0..2 {
            // u·R·wᵀ with R = (0 1; −1 0) is u₀w₁ − u₁w₀.
            let want = f64::from(left[2 * x] * right[2 * y + 1] - left[2 * x + 1] * right[2 * y]);
            assert_eq!(model.interaction(1, x, y), want);
        }
    }
    assert!(SequenceMrf::rotated(5, vec![0.0; 2], left, &[vec![1.0; 3]], &right).is_err());
}

#[test]
fn invalid_models_are_refused() {
    let full = |n, numbers| Interactions::Full(vec![vec![numbers; n]]);
    let message = |n, unary: Vec<f64>, pairs| SequenceMrf::new(n, unary, pairs).unwrap_err().to_string();
    assert!(message(5, vec![], full(0, 0.0)).contains("one state"));
    assert!(message(5, vec![f64::NAN], full(1, 0.0)).contains("finite or −∞"));
    assert!(message(5, vec![0.0; 2], full(3, 0.0)).contains("3 numbers, expected 2 × 2"));
    assert!(message(5, vec![0.0], full(1, f32::INFINITY)).contains("finite or −∞"));
    assert!(message(1, vec![0.0], full(1, 0.0)).contains("too short"));
    assert!(message(5, vec![0.0], Interactions::Full(vec![])).contains("distance 1"));
    let embeddings = Interactions::LowRank { rank: 1, left: vec![f32::NEG_INFINITY], right: vec![vec![0.0]] };
    assert!(message(5, vec![0.0], embeddings).contains("must be finite"));
    let shares = Spectral::default().shares(vec![0.5, 0.4]);
    let model = SequenceMrf::new(5, vec![0.0], Interactions::Full(vec![vec![0.0]; 2])).unwrap();
    assert!(shares.log_partition(&model, &Run::default()).unwrap_err().to_string().contains("add up to 1"));
}

#[test]
fn as_a_factor_graph_it_has_the_same_partition_function() {
    let mut random = Streams::new(12, "lifted tests").block(0);
    for _ in 0..40 {
        let model = random_model(&mut random, 3.0, 0.1);
        let run = Run::default();
        let graph =
            zhat::exact::Elimination::default().log_partition(&model.to_factor_graph().unwrap(), &run);
        match (TransferMatrix::default().log_partition(&model, &run), graph) {
            (Ok(own), Ok(graph)) => assert!((own.value - graph.value).abs() < 1e-9),
            (own, graph) => {
                assert!(matches!((own, graph), (Err(Error::ZeroPartition), Err(Error::ZeroPartition))))
            }
        }
    }
    let long = SequenceMrf::new(1 << 40, vec![0.0; 10], Interactions::Full(vec![vec![0.0; 100]])).unwrap();
    assert!(long.to_factor_graph().unwrap_err().to_string().contains("values"));
    // The length does not matter: 2⁴⁰ positions take 40 squarings.
    let z = TransferMatrix::default().log_partition(&long, &Run::default()).unwrap();
    assert!((z.value - (1u64 << 40) as f64 * 10f64.ln()).abs() <= z.diagnostics.rounding);
    assert!(z.diagnostics.rounding < 1e-12 * z.value, "{z}");
}

/// log tr Tᴺ by N products in logarithms, one row of the power at a time.
fn around(model: &SequenceMrf) -> f64 {
    let (c, k) = (model.states(), model.context());
    let windows = c.pow(k as u32);
    let score = |window: usize, y: usize| {
        let pairs = (1..=k).map(|l| model.interaction(l, window / c.pow(l as u32 - 1) % c, y));
        model.unary()[y] + pairs.sum::<f64>()
    };
    let diagonal = (0..windows).map(|first| {
        let mut row = vec![f64::NEG_INFINITY; windows];
        row[first] = 0.0;
        for _ in 0..model.length() {
            let mut terms = vec![Vec::new(); windows];
            for (window, &weight) in row.iter().enumerate() {
                (0..c).for_each(|y| terms[(window * c + y) % windows].push(weight + score(window, y)));
            }
            row = terms.iter().map(|terms| log_sum_exp(terms)).collect();
        }
        row[first]
    });
    log_sum_exp(&diagonal.collect::<Vec<f64>>())
}

#[test]
fn the_transfer_matrix_agrees_with_a_walk_around_the_cycle() {
    let mut random = Streams::new(11, "transfer").block(0);
    for (c, k, n) in [(2, 1, 2), (3, 1, 301), (66, 1, 9), (4, 2, 3), (4, 2, 90), (3, 3, 4), (3, 3, 41)] {
        for (size, zeros) in [(1.0, 0.0), (60.0, 0.2), (1e4, 0.0), (1e4, 0.4)] {
            let mut number = || {
                let zero = random.uniform() < zeros;
                if zero { f32::NEG_INFINITY } else { (size * (2.0 * random.uniform() - 1.0)) as f32 }
            };
            let matrices = (0..k).map(|_| (0..c * c).map(|_| number()).collect()).collect();
            let unary = (0..c).map(|x| 0.1 * x as f64).collect();
            let model = SequenceMrf::new(n, unary, Interactions::Full(matrices)).unwrap();
            let exact = around(&model);
            let answers = [1usize, 3].map(|threads| {
                // With little memory the method does not square matrices.
                let memory = if threads == 1 { 1 << 30 } else { 4_000_000 };
                let run = Run::default().with_threads(threads).with_memory(memory);
                TransferMatrix::default().log_partition(&model, &run)
            });
            for answer in answers {
                match answer {
                    Ok(answer) => {
                        let apart = (answer.value - exact).abs();
                        assert!(
                            apart <= 2.0 * answer.diagnostics.rounding,
                            "{c} {k} {n} {size}: {answer} {exact}"
                        );
                    }
                    Err(Error::ZeroPartition) => assert_eq!(exact, f64::NEG_INFINITY),
                    Err(other) => panic!("{other}"),
                }
            }
        }
    }
}

#[test]
fn sizes_of_options_are_part_of_the_forecast() {
    let theta = Interactions::Full(vec![vec![0.5, -1.0, 0.0, 2.0]]);
    let model = SequenceMrf::new(10, vec![0.0, 0.1], theta).unwrap();
    for replicates in [usize::MAX, 1_000_000_000_000] {
        let how = Annealed::default().replicates(replicates);
        let error = how.log_partition(&model, &Run::default()).unwrap_err();
        assert!(matches!(&error, Error::Argument { name, .. } if name == "replicates"), "{error}");
    }
    let bytes = |replicates| {
        let how = Annealed::default().replicates(replicates);
        how.forecast(&model, Query::LogPartition, &Run::default()).bytes
    };
    assert!(bytes(1_000_000) > bytes(8) + 8.0 * 999_992.0);
    let run = Run::default().with_time(Duration::from_millis(300));
    let methods: [Box<dyn LogPartition<SequenceMrf>>; 5] = [
        Box::new(Annealed::default().levels(Some(1_000_000_000))),
        Box::new(Annealed::default().levels(Some(1)).replicates(1_000_000)),
        Box::new(Star::default().iterations(1_000_000_000).tolerance(0.0)),
        Box::new(Spectral::default().iterations(1_000_000_000).tolerance(0.0)),
        Box::new(Spectral::default().passes(1_000_000_000).tolerance(0.0)),
    ];
    for (i, method) in methods.iter().enumerate() {
        let begin = std::time::Instant::now();
        let answer = method.log_partition(&model, &run);
        assert!(begin.elapsed().as_secs_f64() < 0.33 + 1.0);
        // All have a result except the first, whose chain of levels never ends.
        assert_eq!(answer.is_ok(), i != 0, "{answer:?}");
    }
}
