//! Vembu, Gärtner & Boley (2009): number of samples for a guaranteed error, coalescence times of coupled
//! chains, and hardness of the general problem.

use std::time::Instant;

use zhat::internal::space::{Published, telescoped_levels};
use zhat::internal::space::{flip_congestion, flip_steps, single_flip_congestion};
use zhat::random::Streams;
use zhat::space::{
    Cycles, Hypercube, Oracle, PerfectSampling, PublishedScheme, Sampler, Scores, SpaceModel, Telescoped,
    TootsiePop, UniformImportance,
};
use zhat::{Answer, Estimate, LogPartition, Result, Run, Sample};

use super::{Setting, header, line, short};
use crate::output;

/// The guarantee: Ẑ is within a factor 1 ± ε of Z with this confidence.
const ERROR: f64 = 0.1;
const CONFIDENCE: f64 = 0.75;
/// The paper's p.
const P: f64 = 3.0;
/// The error at which the published scheme is timed; its number of samples grows as 1/ε².
const SLICE: f64 = 0.9;
const LABELS: usize = 20;

/// Labels −1 and 1 with scores from −BR to BR: Δ = 2BR.
fn labels(norm: f64) -> Result<SpaceModel> {
    let raw: Vec<f64> = (1..=LABELS).map(|i| (i as f64).sin()).collect();
    let total: f64 = raw.iter().map(|x| x.abs()).sum();
    let unary = raw.iter().map(|x| norm * x / total).collect();
    SpaceModel::new(Hypercube::signs(LABELS)?, Scores::Unary(unary))
}

fn noted<T>(answer: &Answer<T>, name: &str) -> f64 {
    answer.diagnostics.to_json().get(name).and_then(serde_json::Value::as_f64).unwrap_or(f64::NAN)
}

/// Mean number of samples and seconds over several runs, and the number of runs within the guarantee.
fn measured(
    model: &SpaceModel,
    setting: &Setting<'_>,
    method: &dyn Fn(&Run) -> Result<Estimate>,
) -> Result<(f64, f64, usize)> {
    let truth = Oracle::default().log_partition(model, &setting.run)?.value;
    let (mut samples, mut kept) = (0.0, 0);
    let started = Instant::now();
    for number in 0..setting.runs {
        let run = setting.run.clone().with_seed(setting.run.seed() + number as u64);
        let answer = method(&run)?;
        samples += noted(&answer, "samples");
        kept += usize::from(((answer.value - truth).exp() - 1.0).abs() <= ERROR);
    }
    let runs = setting.runs.max(1) as f64;
    Ok((samples / runs, started.elapsed().as_secs_f64() / runs, kept))
}

/// Samples and time of several schemes for the same guarantee.
pub fn bounds(setting: &Setting<'_>) -> Result<()> {
    output::print(&format!(
        "Samples and time for a relative error of at most {ERROR} with probability {CONFIDENCE}: as printed in the paper, corrected, and measured. Subsets of {LABELS} labels, \
         scores from −BR to BR. The published scheme is timed at ε = {SLICE}, and the time is multiplied by {:.0}.\n\n{}",
        (SLICE / ERROR).powi(2),
        header(&["BR", "scheme", "exact draws by", "samples", "seconds", "within the error"])
    ))?;
    for norm in [5.0, 20.0, 100.0] {
        let model = labels(norm)?;
        let printed = Published::as_printed(norm, ERROR, P);
        let corrected = Published::corrected(norm, ERROR, P);
        let row = |scheme: &str, by: &str, samples: f64, seconds: String, kept: String| {
            output::print(&line(&[
                short(norm),
                scheme.into(),
                by.into(),
                format!("{samples:.0}"),
                seconds,
                kept,
            ]))
        };
        row("published, as printed", "", printed.total(), String::new(), "no guarantee".into())?;
        // META takes e^Δ uniform draws, which is infeasible beyond BR = 5.
        let by = if norm <= 5.0 { (Sampler::Meta, "META") } else { (Sampler::Oracle, "oracle") };
        let mut clock = "unknown".to_owned();
        if norm <= 20.0 && !(setting.quick && by.0 == Sampler::Meta) {
            let scheme = PublishedScheme::default().error(SLICE).sampler(by.0);
            let started = Instant::now();
            scheme.log_partition(&model, &setting.run)?;
            clock = short((SLICE / ERROR).powi(2) * started.elapsed().as_secs_f64()) + " (extrapolated)";
        }
        row("published, corrected", by.1, corrected.total(), clock, String::new())?;
        for (sampler, name) in [(Sampler::Rejection, "rejection"), (Sampler::Oracle, "oracle")] {
            if sampler == Sampler::Rejection && norm > 5.0 {
                continue;
            }
            let telescoped = Telescoped::default().error(ERROR).confidence(CONFIDENCE).sampler(sampler);
            let (samples, seconds, kept) =
                measured(&model, setting, &|run| telescoped.log_partition(&model, run))?;
            debug_assert!((samples - telescoped_levels(2.0 * norm, ERROR)).abs() < 1.0);
            row("telescoped", name, samples, short(seconds), format!("{kept} of {}", setting.runs))?;
            if setting.quick && norm > 20.0 {
                continue;
            }
            let tpa = TootsiePop::default().error(ERROR).confidence(CONFIDENCE).sampler(sampler);
            let (samples, seconds, kept) = measured(&model, setting, &|run| tpa.log_partition(&model, run))?;
            row("tpa", name, samples, short(seconds), format!("{kept} of {}", setting.runs))?;
        }
        if norm <= 5.0 {
            let uniform = UniformImportance::default().error(ERROR).confidence(CONFIDENCE);
            let (samples, seconds, kept) =
                measured(&model, setting, &|run| uniform.log_partition(&model, run))?;
            row("importance", "none needed", samples, short(seconds), format!("{kept} of {}", setting.runs))?;
        }
    }
    output::print(
        "\nUniform importance sampling takes about |Y|·exp(s_max)/Z draws: too many from BR = 20 on.\n",
    )
}

/// Coalescence times of coupled chains.
pub fn cftp(setting: &Setting<'_>) -> Result<()> {
    let draws = if setting.quick { 200 } else { 2000 };
    output::print(&format!(
        "Uniform draws per exact sample, mean of {draws}: META (coupling from the past, with a geometric coupling time of mean exp(Δ)) and rejection \
         (mean |Y|·exp(s_max)/Z). Subsets of {LABELS} labels.\n\n{}",
        header(&["Δ", "META", "exp(Δ)", "rejection", "|Y|·exp(s_max)/Z"])
    ))?;
    for spread in [1.0, 2.0, 4.0, 6.0, 8.0] {
        let model = labels(0.5 * spread)?;
        let cost = |sampler: Sampler| -> Result<f64> {
            let perfect = PerfectSampling::default().sampler(sampler);
            Ok(noted(&perfect.sample(&model, draws, &setting.run)?, "uniform_draws") / draws as f64)
        };
        let log_z = Oracle::default().log_partition(&model, &setting.run)?.value;
        let expected = (LABELS as f64 * 2f64.ln() + model.range().1 - log_z).exp();
        output::print(&line(
            &[spread, cost(Sampler::Meta)?, spread.exp(), cost(Sampler::Rejection)?, expected].map(short),
        ))?;
    }
    output::print(&format!(
        "\nGibbs sweeps per exact sample by monotone coupling from the past: a ring of 100 labels; two neighbours score w if both are 1; \
         fields −w.\n\n{}",
        header(&["w", "sweeps"])
    ))?;
    for coupling in [0.5, 1.0, 2.0, 4.0] {
        let n = 100;
        let pairs: Vec<(usize, usize, f64)> = (0..n).map(|i| (i, (i + 1) % n, coupling)).collect();
        let model = SpaceModel::new(Hypercube::new(n)?, Scores::pairwise(vec![-coupling; n], &pairs)?)?;
        let perfect = PerfectSampling::default().sampler(Sampler::Coupling);
        let draws = draws / 10;
        let sweeps = noted(&perfect.sample(&model, draws, &setting.run)?, "sweeps") / draws as f64;
        output::print(&line(&[short(coupling), short(sweeps)]))?;
    }
    flips(0.01)
}

/// Number of single-flip steps until the distribution is within `distance` of the model's, from the worst
/// start: exact value and canonical-path bounds.
fn flips(distance: f64) -> Result<()> {
    const FLIPPED: usize = 6;
    output::print(&format!(
        "\nLazy Metropolis steps (single flips) until the distribution is within {distance} of the model from the worst start: subsets of {FLIPPED} labels, computed from the transition matrix of all {} \
         states. The other columns are bounds by canonical paths for single scores and for any scores of that range.\n\n{}",
        1 << FLIPPED,
        header(&["Δ", "exact", "bound, single scores", "bound, any scores"])
    ))?;
    for spread in [0.0, 1.0, 2.0, 4.0] {
        let raw: Vec<f64> = (1..=FLIPPED).map(|i| (i as f64).sin()).collect();
        let total: f64 = raw.iter().map(|x| x.abs()).sum();
        let odds: Vec<f64> = raw.iter().map(|x| spread * x / total).collect();
        let score = |z: usize| (0..FLIPPED).filter(|i| z >> i & 1 == 1).map(|i| odds[i]).sum::<f64>();
        let weights: Vec<f64> = (0..1 << FLIPPED).map(|z| score(z).exp()).collect();
        let sum: f64 = weights.iter().sum();
        let law: Vec<f64> = weights.iter().map(|w| w / sum).collect();
        let slowest = (0..1 << FLIPPED).map(|start| steps_to(&law, start, FLIPPED, distance)).max();
        let bound = |congestion: f64| flip_steps(congestion, FLIPPED, spread, distance);
        output::print(&line(
            &[
                spread,
                slowest.unwrap_or(0) as f64,
                bound(single_flip_congestion(&odds)),
                bound(flip_congestion(FLIPPED, spread)),
            ]
            .map(short),
        ))?;
    }
    Ok(())
}

/// Number of steps until the single-flip chain from one start state is within `distance` of its stationary
/// distribution.
fn steps_to(law: &[f64], start: usize, labels: usize, distance: f64) -> usize {
    let mut at = vec![0.0; law.len()];
    at[start] = 1.0;
    let mut steps = 0;
    while 0.5 * at.iter().zip(law).map(|(a, b)| (a - b).abs()).sum::<f64>() > distance {
        let mut next = at.clone();
        for (z, p) in at.iter().enumerate() {
            for i in 0..labels {
                let flipped = z ^ 1 << i;
                let moved = p * 0.5 / labels as f64 * (law[flipped] / law[z]).min(1.0);
                next[z] -= moved;
                next[flipped] += moved;
            }
        }
        at = next;
        steps += 1;
    }
    steps
}

/// Theorem 2.1: log Z determines whether a graph has a Hamiltonian cycle.
pub fn hardness(setting: &Setting<'_>) -> Result<()> {
    output::print(&format!(
        "Cycles of random graphs. Every edge of the graph has score θ = ln n! + ln n, so all other cycles together weigh less than one Hamiltonian cycle. \
         log Z ≥ nθ if and only if the graph has a Hamiltonian cycle; a search confirms it.\n\n{}",
        header(&["n", "edges", "log Z", "nθ", "from log Z", "by search"])
    ))?;
    let mut random = Streams::new(setting.run.seed(), "random graphs").block(0);
    for n in [5usize, 6, 8, 10] {
        for _ in 0..3 {
            let theta = (1..=n).map(|k| (k as f64).ln()).sum::<f64>() + (n as f64).ln();
            let mut linked = vec![false; n * n];
            let mut pairs = Vec::new();
            for u in 0..n {
                for v in u + 1..n {
                    if random.uniform() < 2.5 / (n as f64 - 1.0) {
                        (linked[u * n + v], linked[v * n + u]) = (true, true);
                        pairs.push((u, v, theta));
                    }
                }
            }
            let model = SpaceModel::new(Cycles::new(n)?, Scores::links(n, &pairs)?)?;
            let answer = Oracle::default().log_partition(&model, &setting.run)?;
            let target = n as f64 * theta;
            let yes = |yes: bool| if yes { "Hamiltonian" } else { "not Hamiltonian" }.to_owned();
            let read = answer.value >= target - answer.diagnostics.rounding;
            let searched = closes(n, &linked, &mut vec![0]);
            let cells = [
                n.to_string(),
                pairs.len().to_string(),
                format!("{:.4}", answer.value),
                format!("{target:.4}"),
                yes(read),
                yes(searched),
            ];
            output::print(&line(&cells))?;
        }
    }
    Ok(())
}

/// Whether a path can be continued to a Hamiltonian cycle; `linked` is the matrix of edges.
fn closes(n: usize, linked: &[bool], path: &mut Vec<usize>) -> bool {
    let last = path[path.len() - 1];
    if path.len() == n {
        return linked[last * n + path[0]];
    }
    for next in 0..n {
        if linked[last * n + next] && !path.contains(&next) {
            path.push(next);
            if closes(n, linked, path) {
                return true;
            }
            path.pop();
        }
    }
    false
}
