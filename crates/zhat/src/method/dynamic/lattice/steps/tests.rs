//! Steps compared with their definition, for all forms of transitions.

use super::naive::{self, Naive};
use super::*;
use crate::method::dynamic::lattice::Edges;
use crate::numeric::{Matrix, multiply};
use crate::random::{Stream, Streams};

/// The kind of a random table.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Mild,
    Zeros,
    EmptyRows,
    Wild,
}

const KINDS: [Kind; 4] = [Kind::Mild, Kind::Zeros, Kind::EmptyRows, Kind::Wild];

fn table<F: Real>(random: &mut Stream, states: usize, kind: Kind) -> Vec<F> {
    let empty: Vec<(bool, bool)> =
        (0..states).map(|_| (random.below(3) == 0, random.below(3) == 0)).collect();
    let mut score = |at: usize| match kind {
        Kind::Mild => random.normal(),
        Kind::Zeros if random.below(4) > 0 => f64::NEG_INFINITY,
        Kind::Zeros => random.normal(),
        Kind::EmptyRows if empty[at / states].0 || empty[at % states].1 => f64::NEG_INFINITY,
        Kind::EmptyRows => random.normal(),
        Kind::Wild => [-1e4, 0.0, 1e4][random.below(3)] + 30.0 * random.normal(),
    };
    (0..states * states).map(|at| F::from_f64(score(at))).collect()
}

/// Transitions of form 0 (shared), 1 (per step), 2 (factored with one embedding), 3 (factored with two), 4 (low
/// rank), 5 (sparse) or 6 (sparse, per step).
fn transitions<F: Real>(
    random: &mut Stream,
    form: usize,
    states: usize,
    boundaries: usize,
    kind: Kind,
) -> Transitions<F> {
    match form {
        0 => Transitions::Shared(table(random, states, kind).into()),
        1 => {
            let tables: Vec<F> = (0..boundaries).flat_map(|_| table::<F>(random, states, kind)).collect();
            Transitions::PerStep(tables.into())
        }
        5 | 6 => {
            let (mut starts, mut targets) = (vec![0], Vec::new());
            for _ in 0..states {
                targets.extend((0..states as u32).filter(|_| random.below(3) == 0));
                starts.push(targets.len());
            }
            let pattern = Pattern::new(states, starts, targets).unwrap();
            let tables = if form == 6 { boundaries } else { 1 };
            let values = (0..tables).flat_map(|_| table::<F>(random, states, kind)[..pattern.len()].to_vec());
            let values: Vec<F> = values.collect();
            Transitions::Sparse { pattern, values: values.into(), per_step: form == 6 }
        }
        4 => {
            let rank = 1 + random.below(40);
            let mut factor = || -> Vec<F> {
                let size = states.max(rank);
                let square = table::<F>(random, size, kind);
                square.chunks(size).take(states).flat_map(|row| &row[..rank]).copied().collect()
            };
            Transitions::LowRank { left: factor().into(), right: factor().into() }
        }
        _ => {
            let rank = random.below(12);
            let scale = if kind == Kind::Wild { 20.0 } else { 0.8 };
            let mut embeddings =
                || -> Vec<F> { (0..states * rank).map(|_| F::from_f64(scale * random.normal())).collect() };
            let left = embeddings().into();
            Transitions::Factored { left, right: (form == 3).then(|| embeddings().into()) }
        }
    }
}

fn zero_gradient<F: Real>(transitions: &Transitions<F>) -> TransitionGradient<F> {
    match transitions {
        Transitions::Shared(values) => TransitionGradient::Shared(vec![F::ZERO; values.len()]),
        Transitions::PerStep(values) => TransitionGradient::PerStep(vec![F::ZERO; values.len()]),
        Transitions::PerSequence(values) => TransitionGradient::PerSequence(vec![F::ZERO; values.len()]),
        Transitions::Sparse { values, .. } => TransitionGradient::Sparse {
            values: vec![F::ZERO; values.len()],
            shape: transitions.sparse_shape(),
        },
        Transitions::Factored { left, right } => TransitionGradient::Factored {
            left: vec![F::ZERO; left.len()],
            right: right.as_ref().map(|right| vec![F::ZERO; right.len()]),
        },
        Transitions::LowRank { left, right } => {
            TransitionGradient::LowRank { left: vec![F::ZERO; left.len()], right: vec![F::ZERO; right.len()] }
        }
    }
}

fn numbers<F: Clone>(gradient: &TransitionGradient<F>) -> Vec<F> {
    match gradient {
        TransitionGradient::Shared(values)
        | TransitionGradient::PerStep(values)
        | TransitionGradient::PerSequence(values)
        | TransitionGradient::Sparse { values, .. } => values.clone(),
        TransitionGradient::Factored { left, right } => {
            left.iter().chain(right.iter().flatten()).cloned().collect()
        }
        TransitionGradient::LowRank { left, right } => left.iter().chain(right).cloned().collect(),
    }
}

fn messages<F: Real>(random: &mut Stream, len: usize) -> Vec<F> {
    (0..len).map(|_| F::from_f64(if random.below(5) == 0 { 0.0 } else { random.uniform() })).collect()
}

fn doubles<F: Real>(values: &[F]) -> Vec<f64> {
    values.iter().map(|x| x.to_f64()).collect()
}

/// The largest finite |x|.
fn extent<F: Real>(values: &[F]) -> f64 {
    F::extent(values).0.to_f64()
}

/// A bound on the relative error of a weight and of a sum of weights, from the rounding of scores, shifts and
/// sums.
fn rounding<F: Real>(transitions: &Transitions<F>, states: usize, steps: &dyn Steps<F>, t: usize) -> f64 {
    let score = match transitions {
        Transitions::Shared(values)
        | Transitions::PerStep(values)
        | Transitions::PerSequence(values)
        | Transitions::Sparse { values, .. } => extent(values),
        Transitions::Factored { left, .. } => {
            let rank = (left.len() / states) as f64;
            rank * (rank + 1.0) * extent(left) * extent(transitions.right().unwrap())
        }
        Transitions::LowRank { left, right } => 4.0 * (extent(left) + extent(right)) + left.len() as f64,
    };
    let (before, after) = steps.shape(t);
    let shifts = extent(steps.row_shifts(t)) + extent(steps.column_shifts(t));
    (2.0 * (score + shifts) + (before + after) as f64 + 64.0) * F::EPSILON.to_f64()
}

struct Case<'a, F: Real> {
    transitions: &'a Transitions<F>,
    states: usize,
    sets: Option<Vec<(&'a [u32], &'a [u32])>>,
    boundaries: usize,
}

impl<'a, F: Real> Case<'a, F> {
    fn steps(&self) -> Box<dyn Steps<F> + 'a> {
        match &self.sets {
            None => {
                let run = crate::Run::default();
                steps_of(self.transitions, self.states, self.boundaries, &run.start("test")).unwrap()
            }
            Some(sets) => restricted_steps_of(self.transitions, self.states, sets.clone()),
        }
    }

    fn check(&self, random: &mut Stream, direction: &Transitions<F>) {
        let steps = self.steps();
        let directed = &Edges { transitions: direction, states: self.states, sets: self.sets.clone() };
        for t in 0..self.boundaries {
            self.check_logs(t, &*steps);
            for direction in [None, Some(directed as &dyn Entries<F>)] {
                self.check_products(random, t, &*steps, direction);
                self.check_gradient(random, t, &*steps, direction);
            }
        }
    }

    fn naive(&self, t: usize, steps: &dyn Steps<F>, direction: Option<&dyn Entries<F>>) -> Naive {
        Naive::new(self.transitions, self.states, self.sets.as_ref().map(|sets| sets[t]), t, steps, direction)
    }

    fn check_logs(&self, t: usize, steps: &dyn Steps<F>) {
        let naive = self.naive(t, steps, None);
        let allowed = rounding(self.transitions, self.states, steps, t);
        let close = |got: F, want: f64| {
            assert!(got.to_f64() == want || (got.to_f64() - want).abs() <= allowed, "{got} for {want}");
            assert!(want <= allowed, "M is {want} above 1");
        };
        for i in 0..naive.before {
            let mut row = Vec::new();
            steps.log_row(t, i, &mut row).spread(&mut row, naive.after);
            row.iter().zip(&naive.logs[i * naive.after..]).for_each(|(&x, &want)| close(x, want));
        }
        for j in 0..naive.after {
            let mut column = Vec::new();
            steps.log_column(t, j, &mut column).spread(&mut column, naive.before);
            column.iter().enumerate().for_each(|(i, &x)| close(x, naive.logs[i * naive.after + j]));
        }
    }

    fn check_products(
        &self,
        random: &mut Stream,
        t: usize,
        steps: &dyn Steps<F>,
        direction: Option<&dyn Entries<F>>,
    ) {
        let naive = self.naive(t, steps, direction);
        let allowed = rounding(self.transitions, self.states, steps, t);
        let counts = [1 + random.below(12), [0, 1, 2, 3, 5, 9, 40][random.below(7)]];
        let inputs =
            [messages::<F>(random, counts[0] * naive.before), messages::<F>(random, counts[1] * naive.after)];
        let which = random.below(3);
        let run = |threads: usize| {
            let mut outputs = [
                vec![F::from_f64(7.0); counts[0] * naive.after],
                vec![F::from_f64(7.0); counts[1] * naive.before],
            ];
            let [down, across] = &mut outputs;
            let forward = Product { t, count: counts[0], input: &inputs[0], output: down };
            let backward = Product { t, count: counts[1], input: &inputs[1], output: across };
            let (forward, backward) = match which {
                0 => (Some(forward), None),
                1 => (None, Some(backward)),
                _ => (Some(forward), Some(backward)),
            };
            with_threads(threads, || match direction {
                None => steps.multiply(forward, backward),
                Some(direction) => steps.multiply_directed(direction, forward, backward),
            });
            outputs
        };
        let outputs = run(1);
        assert_eq!(outputs, run(2));
        assert_eq!(outputs, run(3));
        for (side, output) in outputs.iter().enumerate() {
            if which == 1 - side {
                continue;
            }
            let (from, to) =
                if side == 0 { (naive.before, naive.after) } else { (naive.after, naive.before) };
            for k in 0..counts[side] {
                let message = doubles(&inputs[side][k * from..(k + 1) * from]);
                for o in 0..to {
                    let (want, size) = naive.product(&message, o, side == 0);
                    let got = output[k * to + o].to_f64();
                    let lost = from as f64 * 4.0 * F::TINY.to_f64() * extent_or_one(&naive.direction);
                    assert!(
                        (got - want).abs() <= allowed * size + lost,
                        "{got} for {want}: {} states, side {side}, {:?}",
                        self.states,
                        self.transitions
                    );
                }
            }
        }
    }

    fn check_gradient(
        &self,
        random: &mut Stream,
        t: usize,
        steps: &dyn Steps<F>,
        direction: Option<&dyn Entries<F>>,
    ) {
        let naive = self.naive(t, steps, direction);
        let count = 1 + random.below(40);
        let left = messages::<F>(random, count * naive.before);
        let right = messages::<F>(random, count * naive.after);
        let run = |threads: usize| {
            let mut gradient = zero_gradient(self.transitions);
            with_threads(threads, || {
                steps.add_gradient(t, count, &left, &right, direction, &mut gradient);
            });
            numbers(&gradient)
        };
        let got = run(1);
        assert_eq!(got, run(2));
        assert_eq!(got, run(3));
        let zero = match zero_gradient(self.transitions) {
            TransitionGradient::Shared(values) => TransitionGradient::Shared(doubles(&values)),
            TransitionGradient::PerStep(values) => TransitionGradient::PerStep(doubles(&values)),
            TransitionGradient::PerSequence(values) => TransitionGradient::PerSequence(doubles(&values)),
            TransitionGradient::Sparse { values, shape } => {
                TransitionGradient::Sparse { values: doubles(&values), shape }
            }
            TransitionGradient::Factored { left, right } => TransitionGradient::Factored {
                left: doubles(&left),
                right: right.map(|right| doubles(&right)),
            },
            TransitionGradient::LowRank { left, right } => {
                TransitionGradient::LowRank { left: doubles(&left), right: doubles(&right) }
            }
        };
        let mut want = [zero.clone(), zero];
        let sets = self.sets.as_ref().map(|sets| sets[t]);
        let (left, right) = (doubles(&left), doubles(&right));
        naive::add_gradient(&naive, self.transitions, self.states, sets, t, count, &left, &right, &mut want);
        let allowed =
            rounding(self.transitions, self.states, steps, t) + 2.0 * count as f64 * F::EPSILON.to_f64();
        let embedding = match self.transitions {
            Transitions::Factored { left, .. } => extent(left) + extent(self.transitions.right().unwrap()),
            _ => 1.0,
        };
        let lost = (naive.before * naive.after * count) as f64
            * 4.0
            * F::TINY.to_f64()
            * extent_or_one(&naive.direction)
            * embedding.max(1.0);
        for ((got, want), size) in got.iter().zip(numbers(&want[0])).zip(numbers(&want[1])) {
            assert!(
                (got.to_f64() - want).abs() <= 2.0 * allowed * size + lost,
                "{got} for {want}: {} states, {count} messages, {:?}",
                self.states,
                self.transitions
            );
        }
    }
}

fn extent_or_one(values: &[f64]) -> f64 {
    extent(values).max(1.0)
}

fn with_threads(threads: usize, work: impl FnOnce() + Send) {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(work);
}

fn agree_with_the_definition<F: Real>(seed: u64) {
    for case in 0..168 {
        let random = &mut Streams::new(seed, "steps tests").block(case);
        let kind = KINDS[case as usize % 4];
        let form = (case / 4) as usize % 7;
        let states = [1 + random.below(70), 1 + random.below(5)][usize::from(random.below(4) == 0)];
        let boundaries = 1 + random.below(2);
        let model = transitions::<F>(random, form, states, boundaries, kind);
        // The model's own scores are −∞ where M is 0.
        let direction = match random.below(3) {
            0 => model.clone(),
            other => transitions::<F>(random, other - 1, states, boundaries, Kind::Mild),
        };
        let all = Case { transitions: &model, states, sets: None, boundaries };
        all.check(random, &direction);
        let everything: Vec<u32> = (0..states as u32).collect();
        let sets: Vec<Vec<u32>> = (0..=boundaries)
            .map(|_| match random.below(4) {
                0 => everything.clone(),
                _ => (0..1 + random.below(40)).map(|_| random.below(states) as u32).collect(),
            })
            .collect();
        let sets = Some(sets.windows(2).map(|pair| (&pair[0][..], &pair[1][..])).collect());
        Case { transitions: &model, states, sets, boundaries }.check(random, &direction);
    }
}

#[test]
fn products_and_gradients_agree_with_the_definition_in_single_precision() {
    agree_with_the_definition::<f32>(1);
}

#[test]
fn products_and_gradients_agree_with_the_definition_in_double_precision() {
    agree_with_the_definition::<f64>(2);
}

/// Larger than a tile and a panel, to test their boundaries and parallel execution.
fn large_matrices_have_the_same_bits<F: Real>() {
    for (form, states) in [(0, 1200), (1, 1100), (2, 1300), (3, 700), (2, 513), (4, 4200), (5, 4200)] {
        let random = &mut Streams::new(9, "steps tests").block(form as u64);
        let model = transitions::<F>(random, form, states, 1, Kind::Mild);
        let some: Vec<u32> = (0..600).map(|_| random.below(states) as u32).collect();
        let all: Vec<u32> = (0..states as u32).collect();
        let pairs =
            [None, Some((&some[..], &some[..])), Some((&all[..], &some[..])), Some((&some[..], &all[..]))];
        for sets in pairs {
            let case = Case { transitions: &model, states, sets: sets.map(|sets| vec![sets]), boundaries: 1 };
            let steps = case.steps();
            let (before, after) = steps.shape(0);
            let (a, w) = (messages::<F>(random, 9 * before), messages::<F>(random, 9 * after));
            let (left, right) = (messages::<F>(random, 300 * before), messages::<F>(random, 300 * after));
            let run = |threads: usize| {
                let (mut down, mut across) = (vec![F::ZERO; 9 * after], vec![F::ZERO; 9 * before]);
                let mut gradient = zero_gradient(&model);
                with_threads(threads, || {
                    let steps = case.steps();
                    let forward = Product { t: 0, count: 9, input: &a, output: &mut down };
                    let backward = Product { t: 0, count: 9, input: &w, output: &mut across };
                    steps.multiply(Some(forward), Some(backward));
                    steps.add_gradient(0, 300, &left, &right, None, &mut gradient);
                });
                (down, across, numbers(&gradient))
            };
            let got = run(1);
            assert_eq!(got, run(2));
            assert_eq!(got, run(3));
            // Compared with a plain matrix product, for some of the rows of M.
            let mut m = vec![F::ZERO; before * after];
            let mut logs = Vec::new();
            for (i, row) in m.chunks_exact_mut(after).enumerate() {
                steps.log_row(0, i, &mut logs).spread(&mut logs, after);
                row.copy_from_slice(&logs);
            }
            F::exp_in_place(&mut m);
            let mut want = (vec![F::ZERO; 9 * after], vec![F::ZERO; 9 * before]);
            let (a, w) = (Matrix::row_major(&a, 9, before), Matrix::row_major(&w, 9, after));
            let m = Matrix::row_major(&m, before, after);
            multiply(a, m, &mut want.0, false);
            multiply(w, m.transposed(), &mut want.1, false);
            let allowed = rounding(&model, states, &*steps, 0);
            let all_close = |got: &[F], want: &[F]| {
                for (got, want) in got.iter().zip(want) {
                    let (got, want) = (got.to_f64(), want.to_f64());
                    assert!((got - want).abs() <= 2.0 * allowed * want, "{got} for {want}");
                }
            };
            all_close(&got.0, &want.0);
            all_close(&got.1, &want.1);
            if let (TransitionGradient::Shared(_), None) = (zero_gradient(&model), sets) {
                let mut pairs = vec![F::ZERO; before * after];
                let (l, r) = (Matrix::row_major(&left, 300, before), Matrix::row_major(&right, 300, after));
                multiply(l.transposed(), r, &mut pairs, false);
                for (i, pairs) in pairs.chunks_exact_mut(after).enumerate() {
                    let mut row = vec![F::ZERO; after];
                    steps.log_row(0, i, &mut row);
                    F::exp_in_place(&mut row);
                    pairs.iter_mut().zip(&row).for_each(|(x, &m)| *x *= m);
                }
                all_close(&got.2, &pairs);
            }
        }
    }
}

#[test]
fn large_matrices_have_the_same_bits_for_all_threads() {
    large_matrices_have_the_same_bits::<f32>();
    large_matrices_have_the_same_bits::<f64>();
}
