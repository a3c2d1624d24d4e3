//! The engine against enumeration, on chains and on restricted layers.

use super::*;
use crate::model::Transitions;
use crate::random::Streams;
use crate::run::Run;
use crate::sequence::TransitionGradient;

/// All sequences of states below the sizes.
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
        // Windows of layers give the same.
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
