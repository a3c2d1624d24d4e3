//! A tagger whose scores come from a network: `cargo run --release --example tagger`.
//!
//! The tag of a word depends on the tag before it, so scores of words alone cannot predict it. Training maximises
//! log p(tags | words) = score(tags) − log Z by gradient descent; the best tags are then compared with the given ones.

use burn_autodiff::Autodiff;
use burn_ndarray::NdArray;
use burn_tensor::backend::Backend;
use burn_tensor::{Distribution, Int, Tensor, TensorData};
use zhat::Run;
use zhat_burn::{ChainScores, best, log_probability};

type B = Autodiff<NdArray>;

const WORDS: usize = 6;
const TAGS: usize = 3;
const SENTENCES: usize = 32;
const LENGTH: usize = 10;

/// Words, and tags that move on by one or two, depending on the word.
fn sentences() -> (Vec<i64>, Vec<Vec<usize>>) {
    let (mut words, mut tags, mut random) = (Vec::new(), vec![Vec::new(); SENTENCES], 1_u64);
    for own in &mut tags {
        let mut tag = 0;
        for _ in 0..LENGTH {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let word = (random >> 33) % WORDS as u64;
            tag = (tag + 1 + word as usize % 2) % TAGS;
            words.push(word as i64);
            own.push(tag);
        }
    }
    (words, tags)
}

fn main() -> zhat::Result<()> {
    let device = Default::default();
    <B as Backend>::seed(&device, 0);
    let (words, tags) = sentences();
    let words = Tensor::<B, 1, Int>::from_data(TensorData::new(words, [SENTENCES * LENGTH]), &device);
    let small = Distribution::Normal(0.0, 0.1);
    let mut table = Tensor::<B, 2>::random([WORDS, TAGS], small, &device).require_grad();
    // Transitions by word: an even word and an odd word move the tag differently.
    let mut moves = Tensor::<B, 2>::random([WORDS, TAGS * TAGS], small, &device).require_grad();
    let scores = |table: &Tensor<B, 2>, moves: &Tensor<B, 2>| {
        let emissions = table.clone().select(0, words.clone()).reshape([SENTENCES, LENGTH, TAGS]);
        let transitions = moves.clone().select(0, words.clone()).reshape([SENTENCES, LENGTH, TAGS, TAGS]);
        ChainScores::per_sequence(emissions, transitions.slice([0..SENTENCES, 1..LENGTH]))
    };
    let mut loss = f32::INFINITY;
    for _ in 0..100 {
        let log_p = log_probability(&scores(&table, &moves), &tags, &Run::default())?;
        let objective = -log_p.sum() / (SENTENCES * LENGTH) as f32;
        let gradients = objective.backward();
        loss = objective.into_scalar();
        let step = |x: &Tensor<B, 2>| {
            let gradient = x.grad(&gradients).expect("every parameter is used");
            Tensor::from_inner(x.clone().inner() - gradient * 4.0).require_grad()
        };
        (table, moves) = (step(&table), step(&moves));
    }
    println!(
        "loss per tag after 100 steps: {loss:.3} nats (a tag drawn at random: {:.3})",
        (TAGS as f32).ln()
    );
    assert!(loss < 0.2, "{loss}");
    let found = best(&scores(&table, &moves), &Run::default())?;
    let right = found.iter().flatten().zip(tags.iter().flatten()).filter(|(a, b)| a == b).count();
    println!("best tags: {right} of {} are right", SENTENCES * LENGTH);
    assert!(right >= SENTENCES * LENGTH * 95 / 100, "{right}");
    Ok(())
}
