//! A user-defined kind of model and a method for it, registered at run time and used through the catalogue
//! like the built-in ones: forecast, `auto`, text and JSON output, files, evidence.
//!
//! The model is a *ring of coins*: n coins in a cycle, each heads or tails, with a score for every coin that
//! shows heads and one for every pair of neighbours that agree,
//!
//!   score(x) = Σᵢ headsᵢ·xᵢ + agreement·Σᵢ [xᵢ = xᵢ₊₁].
//!
//! The method multiplies 2×2 transfer matrices: log Z = ln tr Πᵢ Mᵢ in time O(n), exactly.
//!
//! Run it with `cargo run --example own_model`.

use serde::{Deserialize, Serialize};
use zhat::catalogue::{self, Choice, Row, Settings};
use zhat::io::model_file;
use zhat::model;
use zhat::model::{AnyModel, Evidence, Kind, Reader, Summary};
use zhat::query::Answers;
use zhat::report::Report;
use zhat::tensor::{Tensor, TensorMap};
use zhat::{
    Answer, BestState, Diagnostics, Error, Forecast, Forecasts, LogPartition, Map, Model, Promise, Query,
    Result, Run, query,
};

// 1. The model: data, checked when built.

/// Coins in a cycle.
#[derive(Clone, Debug, PartialEq)]
struct Ring {
    heads: Vec<f64>,
    agreement: f64,
}

const RING: Kind = Kind::new("ring");

impl Ring {
    fn new(heads: Vec<f64>, agreement: f64) -> Result<Self> {
        if heads.len() < 3 || !agreement.is_finite() || heads.iter().any(|x| x.is_nan() || *x > 1e300) {
            return Err(Error::Model("a ring needs three coins or more, and finite scores".into()));
        }
        Ok(Ring { heads, agreement })
    }

    /// The score of coin i showing side x.
    fn side(&self, i: usize, x: usize) -> f64 {
        if x == 1 { self.heads[i] } else { 0.0 }
    }

    fn pair(&self, x: usize, y: usize) -> f64 {
        if x == y { self.agreement } else { 0.0 }
    }
}

// 2. The trait of all models. Only four functions have no default.

impl AnyModel for Ring {
    fn kind(&self) -> Kind {
        RING
    }

    fn summary(&self) -> Summary {
        Summary::default()
            .figure("coins", self.heads.len())
            .figure("agreement", self.agreement)
            .line("kind", RING.name())
            .line("coins", self.heads.len().to_string())
    }

    fn tensors(&self) -> Vec<Tensor<'_>> {
        vec![
            Tensor::new("heads", &[self.heads.len()], self.heads.as_slice()),
            Tensor::new("agreement", &[1], vec![self.agreement]),
        ]
    }

    fn equals(&self, other: &dyn AnyModel) -> bool {
        model::equal(self, other)
    }

    /// `--given 3=heads`.
    fn parse_evidence(&self, text: &str) -> Result<Evidence> {
        let parsed = text.split_once('=').and_then(|(coin, side)| {
            let state = ["tails", "heads"].into_iter().position(|name| name == side)?;
            Some(Evidence::State { variable: coin.parse().ok()?, state })
        });
        parsed.ok_or_else(|| {
            Error::argument("evidence", format!("expected COIN=heads or COIN=tails, found `{text}`"))
        })
    }

    fn condition(&self, evidence: &[Evidence]) -> Result<Model> {
        let mut ring = self.clone();
        for item in evidence {
            match item {
                // Observing tails gives heads the score −∞.
                Evidence::State { variable, state: 0 } if *variable < ring.heads.len() => {
                    ring.heads[*variable] = f64::NEG_INFINITY;
                }
                _ => return Err(Error::argument("evidence", "this example observes tails only")),
            }
        }
        Ok(ring.into())
    }

    fn place_name(&self, i: usize) -> String {
        format!("coin {i}")
    }

    fn state_name(&self, _: usize, state: usize) -> String {
        ["tails", "heads"].get(state).map_or_else(|| state.to_string(), ToString::to_string)
    }
}

fn read_ring(tensors: &mut TensorMap) -> Result<Model> {
    let agreement: Vec<f64> = tensors.take_shaped("agreement", &[1], "[1]")?;
    Ok(Ring::new(tensors.take("heads")?, agreement[0])?.into())
}

// 3. The types of the results: log Z is a number, and the best state is a list of sides.

impl Answers for Ring {
    type Number = f64;
}

impl query::HasStates for Ring {
    type Best = BestState;
    type Ranked = Vec<BestState>;
    type Samples = zhat::Samples;
}

// 4. The method: a configuration struct with its options and their ranges.

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Transfer {}

zhat::options!(Transfer {});

impl Forecasts<Ring> for Transfer {
    fn forecast(&self, ring: &Ring, _: Query, _: &Run) -> Forecast {
        let n = ring.heads.len() as f64;
        Forecast { bytes: 64.0 * n, seconds: 1e-7 * n, promise: Promise::Exact }
    }
}

/// (log or max)-semiring products of the transfer matrices along the ring that starts with side `first`.
fn along(ring: &Ring, first: usize, add: impl Fn(f64, f64) -> f64) -> f64 {
    let mut message = [f64::NEG_INFINITY; 2];
    message[first] = ring.side(0, first);
    for i in 1..ring.heads.len() {
        let old = message;
        for (y, new) in message.iter_mut().enumerate() {
            *new = add(old[0] + ring.pair(0, y), old[1] + ring.pair(1, y)) + ring.side(i, y);
        }
    }
    add(message[0] + ring.pair(0, first), message[1] + ring.pair(1, first))
}

fn log_add(a: f64, b: f64) -> f64 {
    let (low, high) = (a.min(b), a.max(b));
    if high == f64::NEG_INFINITY { high } else { high + (low - high).exp().ln_1p() }
}

impl LogPartition<Ring> for Transfer {
    fn log_partition(&self, ring: &Ring, _: &Run) -> Result<Answer<f64>> {
        let value = log_add(along(ring, 0, log_add), along(ring, 1, log_add));
        if value == f64::NEG_INFINITY {
            return Err(Error::ZeroPartition);
        }
        let mut diagnostics = Diagnostics::new("transfer").note("coins", ring.heads.len());
        diagnostics.rounding = 1e-15 * ring.heads.len() as f64 * (1.0 + value.abs());
        Ok(Answer::exact(value, diagnostics))
    }
}

impl Map<Ring> for Transfer {
    /// Tries both sides of each coin in turn: O(n²), simple rather than fast.
    fn map(&self, ring: &Ring, _: &Run) -> Result<Answer<BestState>> {
        let best = |ring: &Ring| along(ring, 0, f64::max).max(along(ring, 1, f64::max));
        let score = best(ring);
        let (mut fixed, mut state) = (ring.clone(), Vec::new());
        for i in 0..ring.heads.len() {
            let mut tails = fixed.clone();
            tails.heads[i] = f64::NEG_INFINITY;
            let is_tails = best(&tails) >= score - 1e-12 * (1.0 + score.abs());
            state.push(usize::from(!is_tails));
            if is_tails {
                fixed = tails;
            }
        }
        Ok(Answer::exact(BestState { state, score }, Diagnostics::new("transfer")))
    }
}

pub(crate) fn main() -> Result<()> {
    // 5. Registration: from here on the catalogue, `auto`, files and reports support the kind.
    catalogue::register(
        Row::new::<Transfer>("transfer", RING, "products of 2 × 2 transfer matrices along the ring")
            .forecasts::<Transfer, Ring>()
            .log_partition::<Transfer, Ring>()
            .map::<Transfer, Ring>(),
    )?;
    model_file::register(Reader { kind: RING, read: read_ring })?;

    let ring = Ring::new(vec![0.5, -1.0, 2.0, 0.25, -0.75], 0.8)?;
    let (model, run) = (Model::new(ring.clone()), Run::default());

    // The same result by summing over all 2⁵ states.
    let scores = (0..1 << ring.heads.len()).map(|bits: usize| {
        let x = |i: usize| bits >> (i % ring.heads.len()) & 1;
        (0..ring.heads.len()).map(|i| ring.side(i, x(i)) + ring.pair(x(i), x(i + 1))).sum::<f64>()
    });
    let by_hand = scores.map(f64::exp).sum::<f64>().ln();

    for query in [Query::LogPartition, Query::Map] {
        let plan = catalogue::choose(&model, query, &Choice::Auto, &Settings::new(), &run)?;
        println!("auto takes {} ({} s)", plan.row.method, plan.forecast.seconds);
        let answer = plan.answer(&model, query, &Settings::new(), &run)?;
        if let Some(log_z) = answer.number() {
            assert!((log_z - by_hand).abs() <= answer.diagnostics.rounding, "{log_z} is not {by_hand}");
        }
        let report = Report::new(query.name(), &model, &answer);
        println!("{}\n{}", report.text(), report.json()?);
    }

    // A file, and evidence.
    let read = model_file::parse(&model_file::to_bytes(&model), "ring.zhat")?;
    assert!(read == model);
    let tails = read.condition(&[read.parse_evidence("2=tails")?])?;
    let less = catalogue::answer(&tails, Query::LogPartition, &Choice::Auto, &Settings::new(), &run)?;
    println!("P(coin 2 shows tails) = {:.6}", (less.number().unwrap_or(f64::NAN) - by_hand).exp());

    // An unsupported query returns an error that says so.
    let refused = catalogue::answer(&model, Query::Entropy, &Choice::Auto, &Settings::new(), &run);
    println!("entropy: {}", refused.err().map_or_else(String::new, |error| error.to_string()));
    Ok(())
}
