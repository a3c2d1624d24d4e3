//! A tagger whose scores come from a network: `cargo run --release --example tagger`.
//!
//! The tag of a word depends on the tag before it, so scores of words alone cannot predict it. Training maximises
//! log p(tags | words) = score(tags) − log Z by gradient descent.

use burn_autodiff::Autodiff;
use burn_ndarray::NdArray;
use burn_tensor::backend::Backend;
use burn_tensor::{Distribution, Int, Tensor, TensorData};
use zhat::Run;
use zhat_burn::{ChainScores, Method, log_partition};

type B = Autodiff<NdArray>;

const WORDS: usize = 6;
const TAGS: usize = 3;
const SENTENCES: usize = 32;
const LENGTH: usize = 10;

/// Words, and tags that move on by one or two, depending on the word.
fn sentences() -> (Vec<i64>, Vec<i64>) {
    let (mut words, mut tags, mut random) = (Vec::new(), Vec::new(), 1_u64);
    for _ in 0..SENTENCES {
        let mut tag = 0;
        for _ in 0..LENGTH {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let word = (random >> 33) % WORDS as u64;
            tag = (tag + 1 + word % 2) % TAGS as u64;
            words.push(word as i64);
            tags.push(tag as i64);
        }
    }
    (words, tags)
}

fn main() -> zhat::Result<()> {
    let device = Default::default();
    <B as Backend>::seed(&device, 0);
    let (words, tags) = sentences();
    let words = Tensor::<B, 1, Int>::from_data(TensorData::new(words, [SENTENCES * LENGTH]), &device);
    let tags = Tensor::<B, 2, Int>::from_data(TensorData::new(tags, [SENTENCES, LENGTH]), &device);
    let one_hot = tags.one_hot::<3>(TAGS).float();
    let small = Distribution::Normal(0.0, 0.1);
    let mut table = Tensor::<B, 2>::random([WORDS, TAGS], small, &device).require_grad();
    // Transitions by word: an even word and an odd word move the tag differently.
    let mut moves = Tensor::<B, 2>::random([WORDS, TAGS * TAGS], small, &device).require_grad();
    let mut loss = f32::INFINITY;
    for _ in 0..100 {
        let emissions = table.clone().select(0, words.clone()).reshape([SENTENCES, LENGTH, TAGS]);
        let transitions = moves.clone().select(0, words.clone()).reshape([SENTENCES, LENGTH, TAGS, TAGS]);
        let transitions = transitions.slice([0..SENTENCES, 1..LENGTH]);
        let before = one_hot.clone().slice([0..SENTENCES, 0..LENGTH - 1]).unsqueeze_dim::<4>(3);
        let after = one_hot.clone().slice([0..SENTENCES, 1..LENGTH]).unsqueeze_dim::<4>(2);
        let score =
            (emissions.clone() * one_hot.clone()).sum() + (transitions.clone() * before * after).sum();
        let chain = ChainScores::per_sequence(emissions, transitions);
        let log_z = log_partition(&chain, &Method::exact(), &Run::default())?;
        let objective = (log_z.sum() - score) / (SENTENCES * LENGTH) as f32;
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
    Ok(())
}
