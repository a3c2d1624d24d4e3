//! Named parameters, and Adam.
//!
//! A list of named tensors instead of burn's modules: a checkpoint is then one safetensors file of parameters and
//! moments that other programs can read, and the same numbers initialise a model on every device.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use burn_autodiff::Autodiff;
use burn_autodiff::grads::Gradients;
use burn_tensor::backend::Backend;
use burn_tensor::{Tensor, TensorData};
use zhat::random::Streams;

/// A parameter: its numbers in one row, and its shape.
#[derive(Clone, Debug)]
struct Parameter<B: Backend> {
    value: Tensor<B, 1>,
    shape: Vec<usize>,
}

/// The parameters of a model.
#[derive(Clone, Debug, Default)]
pub struct Parameters<B: Backend>(BTreeMap<String, Parameter<B>>);

/// Numbers of tensors by name, with their shapes.
pub type Numbers = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

impl<B: Backend> Parameters<B> {
    /// The parameter of this name as a tensor of rank D.
    ///
    /// # Panics
    /// If there is none, or it has another rank.
    pub fn get<const D: usize>(&self, name: &str) -> Tensor<B, D> {
        let Some(found) = self.0.get(name) else { panic!("there is no parameter `{name}`") };
        let shape: [usize; D] = found.shape.as_slice().try_into().unwrap_or_else(|_| {
            panic!("parameter `{name}` has shape {:?}", found.shape);
        });
        found.value.clone().reshape(shape)
    }

    /// The number of numbers.
    pub fn size(&self) -> usize {
        self.0.values().map(|parameter| parameter.shape.iter().product::<usize>()).sum()
    }

    /// All numbers.
    pub fn numbers(&self) -> Numbers {
        let of = |parameter: &Parameter<B>| {
            (parameter.shape.clone(), parameter.value.clone().into_data().iter::<f32>().collect())
        };
        self.0.iter().map(|(name, parameter)| (name.clone(), of(parameter))).collect()
    }

    /// Parameters without gradients from numbers.
    pub fn from_numbers(numbers: &Numbers, device: &B::Device) -> Self {
        let of = |(shape, values): &(Vec<usize>, Vec<f32>)| Parameter {
            value: Tensor::from_data(TensorData::new(values.clone(), [values.len()]), device),
            shape: shape.clone(),
        };
        Parameters(numbers.iter().map(|(name, own)| (name.clone(), of(own))).collect())
    }
}

impl<I: Backend> Parameters<Autodiff<I>> {
    /// Parameters with gradients from numbers.
    pub fn trainable(numbers: &Numbers, device: &I::Device) -> Self {
        let mut all = Parameters::<Autodiff<I>>::from_numbers(numbers, device);
        all.0.values_mut().for_each(|parameter| parameter.value = parameter.value.clone().require_grad());
        all
    }

    /// The same without gradients.
    pub fn inner(&self) -> Parameters<I> {
        let of = |parameter: &Parameter<Autodiff<I>>| Parameter {
            value: parameter.value.clone().inner(),
            shape: parameter.shape.clone(),
        };
        Parameters(self.0.iter().map(|(name, parameter)| (name.clone(), of(parameter))).collect())
    }
}

/// The first values of parameters.
pub struct Initial {
    numbers: Numbers,
    streams: Streams,
}

impl Initial {
    /// No parameters.
    pub fn new(seed: u64) -> Self {
        Initial { numbers: Numbers::new(), streams: Streams::new(seed, "first values of parameters") }
    }

    /// A tensor of uniform numbers between −scale and scale.
    pub fn add(&mut self, name: &str, shape: &[usize], scale: f64) {
        // The stream depends on the name alone, not on what else there is.
        let block = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let mut random = self.streams.block(block);
        let values =
            (0..shape.iter().product()).map(|_| (scale * (2.0 * random.uniform() - 1.0)) as f32).collect();
        self.numbers.insert(name.to_owned(), (shape.to_vec(), values));
    }

    /// A tensor of equal numbers.
    pub fn constant(&mut self, name: &str, shape: &[usize], value: f32) {
        self.numbers.insert(name.to_owned(), (shape.to_vec(), vec![value; shape.iter().product()]));
    }

    /// Weights and biases of a linear layer.
    pub fn linear(&mut self, name: &str, from: usize, to: usize) {
        let scale = (1.0 / from as f64).sqrt();
        self.add(&format!("{name}.weight"), &[from, to], scale);
        self.constant(&format!("{name}.bias"), &[to], 0.0);
    }

    /// All of them.
    pub fn finish(self) -> Numbers {
        self.numbers
    }
}

/// Adam (Kingma and Ba 2015) with gradients clipped to a norm.
#[derive(Clone, Debug)]
pub struct Adam<I: Backend> {
    mean: BTreeMap<String, Tensor<I, 1>>,
    square: BTreeMap<String, Tensor<I, 1>>,
    /// Steps taken.
    steps: usize,
}

const DECAY: (f64, f64) = (0.9, 0.999);
const SMALL: f64 = 1e-8;

impl<I: Backend> Adam<I> {
    /// No steps taken yet.
    pub fn new(parameters: &Parameters<Autodiff<I>>) -> Self {
        let zeros = || {
            let of = |(name, own): (&String, &Parameter<Autodiff<I>>)| {
                (name.clone(), own.value.clone().inner().zeros_like())
            };
            parameters.0.iter().map(of).collect()
        };
        Adam { mean: zeros(), square: zeros(), steps: 0 }
    }

    /// The moments as numbers.
    pub fn numbers(&self) -> [Numbers; 2] {
        let of = |list: &BTreeMap<String, Tensor<I, 1>>| -> Numbers {
            let one = |(name, own): (&String, &Tensor<I, 1>)| {
                (name.clone(), (vec![own.dims()[0]], own.clone().into_data().iter::<f32>().collect()))
            };
            list.iter().map(one).collect()
        };
        [of(&self.mean), of(&self.square)]
    }

    /// From moments and the number of steps.
    pub fn from_numbers([mean, square]: &[Numbers; 2], steps: usize, device: &I::Device) -> Self {
        let of = |numbers: &Numbers| {
            let one = |(name, (_, values)): (&String, &(Vec<usize>, Vec<f32>))| {
                (name.clone(), Tensor::from_data(TensorData::new(values.clone(), [values.len()]), device))
            };
            numbers.iter().map(one).collect()
        };
        Adam { mean: of(mean), square: of(square), steps }
    }

    /// One step down the gradient. Returns the norm of the gradient as a tensor, so that devices need not wait.
    pub fn step(
        &mut self,
        parameters: &mut Parameters<Autodiff<I>>,
        gradients: &mut Gradients,
        rate: f64,
        clip: f64,
    ) -> Option<Tensor<I, 1>> {
        self.steps += 1;
        let mut found = Vec::new();
        for (name, parameter) in &mut parameters.0 {
            if let Some(gradient) = parameter.value.grad_remove(gradients) {
                found.push((name, parameter, gradient));
            }
        }
        let squares = found.iter().map(|(_, _, gradient)| gradient.clone().powi_scalar(2).sum());
        let norm = squares.reduce(|a, b| a + b)?.sqrt();
        let factor = (norm.clone() + 1e-12).recip().mul_scalar(clip).clamp_max(1.0);
        let (of_mean, of_square) = DECAY;
        let steps = i32::try_from(self.steps).unwrap_or(i32::MAX);
        let (mean_part, square_part) = (1.0 - of_mean.powi(steps), 1.0 - of_square.powi(steps));
        for (name, parameter, gradient) in found {
            let gradient = gradient * factor.clone();
            let mean = self.mean.entry(name.clone()).or_insert_with(|| gradient.zeros_like());
            let square = self.square.entry(name.clone()).or_insert_with(|| gradient.zeros_like());
            *mean = mean.clone() * of_mean + gradient.clone() * (1.0 - of_mean);
            *square = square.clone() * of_square + gradient.powi_scalar(2) * (1.0 - of_square);
            let step = (mean.clone() / mean_part) / ((square.clone() / square_part).sqrt() + SMALL);
            let value = parameter.value.clone().inner() - step * rate;
            parameter.value = Tensor::from_inner(value).require_grad();
        }
        Some(norm)
    }
}

/// Checks that Adam's moments are those of parameters: one row of numbers for each.
///
/// # Errors
/// Names the first tensor that is missing, unknown or of another shape.
pub fn require_moments(moments: &[Numbers; 2], parameters: &Numbers) -> Result<()> {
    let row = |(name, (shape, _)): (&String, &(Vec<usize>, Vec<f32>))| {
        (name.clone(), (vec![shape.iter().product()], Vec::new()))
    };
    let wanted: Numbers = parameters.iter().map(row).collect();
    for (found, what) in moments.iter().zip(["means of gradients", "means of squared gradients"]) {
        require_same(found, &wanted).context(what)?;
    }
    Ok(())
}

/// Checks that numbers have the names and shapes of others.
///
/// # Errors
/// Names the first tensor that is missing, unknown or of another shape.
pub fn require_same(found: &Numbers, wanted: &Numbers) -> Result<()> {
    for (name, (shape, _)) in wanted {
        match found.get(name) {
            None => bail!("tensor `{name}` is missing"),
            Some((own, _)) if own != shape => bail!("tensor `{name}` has shape {own:?}, expected {shape:?}"),
            Some(_) => {}
        }
    }
    if let Some(name) = found.keys().find(|name| !wanted.contains_key(*name)) {
        bail!("tensor `{name}` is not part of this model");
    }
    Ok(())
}
