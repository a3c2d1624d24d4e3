//! The lattice compared with enumeration, on chains and on restricted layers.

use super::*;
use crate::model::{Chain, Transitions};
use crate::numeric::Real;
use crate::query::sequence::TransitionGradient;
use crate::random::Streams;
use crate::run::Run;

/// All sequences of states with these layer sizes.
fn paths(sizes: &[usize]) -> Vec<Vec<usize>> {
    sizes.iter().fold(vec![Vec::new()], |paths, &size| {
        let longer = |path: Vec<usize>| (0..size).map(move |i| [path.clone(), vec![i]].concat());
        paths.into_iter().flat_map(longer).collect()
    })
}

#[test]
fn restricted_layers_of_different_sizes_agree_with_enumeration() {
    for seed in 0..20 {
        let mut random = Streams::new(seed, "lattice tests").block(0);
        let states = 6;
        let mut scores = |n: usize| -> Vec<f64> {
            (0..n)
                .map(|_| if random.uniform() < 0.3 { f64::NEG_INFINITY } else { 3.0 * random.normal() })
                .collect()
        };
        let transitions = Transitions::Shared(scores(states * states).into());
        let sets: [&[u32]; 4] = [&[0, 3, 5], &[1, 1, 2, 4, 0], &[5], &[2, 0, 3, 4]];
        let node: Vec<Vec<f64>> = sets.iter().map(|set| scores(set.len())).collect();
        let pairs: Vec<_> = (0..3).map(|t| (sets[t], sets[t + 1])).collect();
        let steps = restricted_steps_of(&transitions, states, pairs.clone());
        let nodes = LayerNodes(node.iter().map(Vec::as_slice).collect());
        let edges = Edges { transitions: &transitions, states, sets: Some(pairs) };
        let lattice = Lattice::new(&[4], &nodes, &*steps, edges);
        let run = Run::default();
        let clock = run.start("test");
        let messages = lattice.sweep(&clock).unwrap();

        let score = |path: &[usize]| -> f64 {
            let at = |t: usize| sets[t][path[t]] as usize;
            (0..4).map(|t| node[t][path[t]]).sum::<f64>()
                + (0..3).map(|t| transitions.score(states, t, at(t), at(t + 1))).sum::<f64>()
        };
        let all = paths(&[3, 5, 1, 4]);
        let weights: Vec<f64> = all.iter().map(|path| score(path)).collect();
        let log_z = crate::numeric::log_sum_exp(&weights);
        assert_eq!(log_z == f64::NEG_INFINITY, messages.log_partition[0] == f64::NEG_INFINITY);
        if log_z == f64::NEG_INFINITY {
            continue;
        }
        assert!((messages.log_partition[0] - log_z).abs() < 1e-12 * (1.0 + log_z.abs()));
        let mut table = vec![0.0; states * states];
        let mut marginals: Vec<Vec<f64>> = node.iter().map(|row| vec![0.0; row.len()]).collect();
        for (path, weight) in all.iter().zip(&weights) {
            let p = (weight - log_z).exp();
            (0..4).for_each(|t| marginals[t][path[t]] += p);
            (0..3).for_each(|t| {
                table[sets[t][path[t]] as usize * states + sets[t + 1][path[t + 1]] as usize] += 2.0 * p;
            });
        }
        for (t, want) in marginals.iter().enumerate() {
            let mut got = vec![0.0; want.len()];
            lattice.node_marginals(&messages, 0, t, &mut got);
            assert!(got.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-12));
        }
        let mut gradient = zero_gradient(&transitions);
        lattice.add_edge_marginals(&messages, &[2.0], &clock, &mut gradient).unwrap();
        let TransitionGradient::Shared(gradient) = gradient else { panic!() };
        assert!(gradient.iter().zip(&table).all(|(a, b)| (a - b).abs() < 1e-12));
        // Windows of layers give the same result.
        let mut windowed = zero_gradient(&transitions);
        let log_partition = lattice
            .sweep_windows(&clock, |messages| {
                lattice.add_edge_marginals(messages, &[2.0], &clock, &mut windowed)
            })
            .unwrap();
        assert_eq!(log_partition, messages.log_partition);
        assert_eq!(lattice.log_partitions(&clock).unwrap(), messages.log_partition);
        let TransitionGradient::Shared(windowed) = windowed else { panic!() };
        assert!(gradient.iter().zip(&windowed).all(|(a, b)| (a - b).abs() < 1e-14));
    }
}

/// The linear domain agrees with the log domain if it returns a result. It returns one for mild models and
/// declines if it would lose accuracy.
fn linear_agrees<F: Real>() {
    let mut answered = [0; 3];
    for seed in 0..60 {
        let mut random = Streams::new(seed, "linear tests").block(0);
        let kind = (seed % 3) as usize;
        // Mild scores; sharp ones; zeros.
        let strength = [2.0, 300.0, 2.0][kind];
        let mut scores = |n: usize| -> Vec<F> {
            let zero = |u: f64| kind == 2 && u < 0.5;
            let score = |_| {
                if zero(random.uniform()) { F::NEG_INFINITY } else { F::from_f64(strength * random.normal()) }
            };
            (0..n).map(score).collect()
        };
        let (states, room, lengths) = ([1, 2, 7, 40][seed as usize % 4], 7, [3, 6, 1]);
        let (start, emissions) = (scores(states), scores(3 * room * states));
        let transitions = Transitions::Shared(scores(states * states).into());
        let chain = Chain::new(start.into(), emissions.into(), lengths.to_vec(), transitions).unwrap();
        let run = Run::default();
        let clock = run.start("test");
        let steps = steps_of(chain.transitions(), states, 5, &clock).unwrap();
        let nodes = ChainNodes(&chain);
        let edges = Edges { transitions: chain.transitions(), states, sets: None };
        let lattice = Lattice::new(chain.lengths(), &nodes, &*steps, edges);
        let mut weights = vec![F::ZERO; 3 * room * states];
        let Some(linear) = lattice.sweep_linear(&mut weights, &clock).unwrap() else { continue };
        answered[kind] += 1;
        let messages = lattice.sweep(&clock).unwrap();
        let close = |a: f64, b: f64, scale: f64| {
            assert!((a - b).abs() <= 500.0 * F::EPSILON.to_f64() * scale, "{a} and {b} at {seed}");
        };
        let alone = lattice.linear_log_partitions(&clock).unwrap().unwrap();
        for (b, &want) in messages.log_partition.iter().enumerate() {
            close(linear.log_partition[b], want, 1.0 + strength + want.abs());
            close(alone[b], want, 1.0 + strength + want.abs());
        }
        let cotangent = [1.0, -0.5, 2.0];
        let (mut got, mut want) = (zero_gradient(chain.transitions()), zero_gradient(chain.transitions()));
        lattice.add_linear_edge_marginals(&linear, &weights, &cotangent, &clock, &mut got).unwrap();
        lattice.add_edge_marginals(&messages, &cotangent, &clock, &mut want).unwrap();
        let (TransitionGradient::Shared(got), TransitionGradient::Shared(want)) = (got, want) else {
            panic!()
        };
        got.iter().zip(&want).for_each(|(a, b)| close(a.to_f64(), b.to_f64(), 8.0 * strength));
        for (b, t) in [(0, 0), (0, 2), (1, 3), (1, 5), (2, 0)] {
            let (mut got, mut want) = (vec![F::ZERO; states], vec![F::ZERO; states]);
            lattice.linear_node_marginals(&linear, b, t, 1.0, &mut got);
            lattice.node_marginals(&messages, b, t, &mut want);
            got.iter().zip(&want).for_each(|(a, b)| close(a.to_f64(), b.to_f64(), 8.0 * strength));
        }
    }
    assert_eq!(answered[0], 20);
    // Models with one state cannot lose accuracy, so some are answered.
    assert!(answered[1] < 20 && answered[2] < 20, "{answered:?}");
}

#[test]
fn the_linear_domain_agrees_with_the_log_domain() {
    linear_agrees::<f32>();
    linear_agrees::<f64>();
}
