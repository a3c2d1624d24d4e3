//! Convergence of Markov chains: split-R̂ and effective sample size.
//!
//! Every chain is split into halves, so that a trend within a chain shows. With W the mean variance within the
//! m half-chains of n draws and B/n the variance of their means, R̂ = √(((n − 1)/n·W + B/n) / W). For numbers
//! such as scores, the draws are replaced by the normal quantiles of their ranks, and R̂ is the larger one of
//! the draws and of their distances from the median; the effective sample size is m·n / (1 + 2·Σ ρ_t), with
//! autocorrelations ρ_t over all half-chains, summed while the sums of two neighbours are positive and made
//! non-increasing (Geyer). An indicator of a state has only two values, so its ranks have the same R̂ as itself,
//! which follows from counts. Its effective sample size is computed from the means of batches:
//! N·p(1 − p) / (L·Var), with Var the mean squared distance of the means of batches of length L from p.
//!
//! Reference: A. Vehtari, A. Gelman, D. Simpson, B. Carpenter, P.-C. Bürkner, *Rank-normalization, folding, and
//! localization: an improved R̂*, Bayesian Analysis 16 (2021).

/// R̂ of half-chains with these means and variances of n draws each. If nothing varies within them it is 1 if they
/// agree and infinite otherwise.
fn r_hat(means: &[f64], variances: &[f64], n: f64) -> f64 {
    let m = means.len() as f64;
    if m < 2.0 || n < 2.0 {
        return f64::INFINITY;
    }
    let mean = means.iter().sum::<f64>() / m;
    let between = means.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (m - 1.0);
    let within = variances.iter().sum::<f64>() / m;
    if within > 0.0 {
        (((n - 1.0) / n * within + between) / within).sqrt()
    } else if between > 0.0 {
        f64::INFINITY
    } else {
        1.0
    }
}

/// R̂ of an indicator: its number of occurrences and the number of draws of every half-chain.
pub(super) fn indicator_r_hat(counts: &[(f64, f64)]) -> f64 {
    let n = counts.iter().map(|(_, draws)| draws).sum::<f64>() / counts.len().max(1) as f64;
    let means: Vec<f64> = counts.iter().map(|(count, draws)| count / draws.max(1.0)).collect();
    let variance = |p: &f64| p * (1.0 - p) * n / (n - 1.0).max(1.0);
    let variances: Vec<f64> = means.iter().map(variance).collect();
    r_hat(&means, &variances, n)
}

/// The effective sample size of an indicator: its number of occurrences and the number of draws of every batch.
/// Infinite if it is constant.
pub(super) fn indicator_size(batches: &[(f64, f64)]) -> f64 {
    let (total, draws) = batches.iter().fold((0.0, 0.0), |(c, d), (count, own)| (c + count, d + own));
    let p = total / draws.max(1.0);
    if p <= 0.0 || p >= 1.0 {
        return f64::INFINITY;
    }
    // Σ over batches of L·(mean − p)², an estimate of (number of batches)·p(1 − p)·(autocorrelation time).
    let spread: f64 = batches.iter().map(|(count, own)| (count - own * p).powi(2) / own.max(1.0)).sum();
    let per_draw = spread / (batches.len() as f64 - 1.0).max(1.0);
    if per_draw > 0.0 { (draws * p * (1.0 - p) / per_draw).min(draws) } else { draws }
}

/// The rank-normalised split-R̂ and the bulk effective sample size of one number per draw; the chains have equal
/// lengths.
pub(super) fn of_numbers(chains: &[Vec<f64>]) -> (f64, f64) {
    let half = chains.first().map_or(0, Vec::len) / 2;
    if half < 2 {
        return (f64::INFINITY, 0.0);
    }
    let halves: Vec<&[f64]> =
        chains.iter().flat_map(|chain| [&chain[..half], &chain[chain.len() - half..]]).collect();
    let bulk = normal_scores(&halves.concat(), half);
    let mut sorted = halves.concat();
    sorted.sort_by(f64::total_cmp);
    let median = 0.5 * (sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2]);
    let folded: Vec<f64> = halves.concat().iter().map(|x| (x - median).abs()).collect();
    let folded = normal_scores(&folded, half);
    let both = plain_r_hat(&bulk).max(plain_r_hat(&folded));
    (both, effective_size(&bulk))
}

/// Normal quantiles of the fractional ranks (r − 3/8) / (S + 1/4), in chains of this length; equal numbers share the
/// mean of their ranks.
fn normal_scores(draws: &[f64], length: usize) -> Vec<Vec<f64>> {
    let mut order: Vec<usize> = (0..draws.len()).collect();
    order.sort_by(|&a, &b| draws[a].total_cmp(&draws[b]));
    let mut scores = vec![0.0; draws.len()];
    let mut first = 0;
    while first < order.len() {
        let equal = order[first..].iter().take_while(|&&i| draws[i] == draws[order[first]]).count().max(1);
        let rank = first as f64 + 0.5 * (equal as f64 + 1.0);
        let score = normal_quantile((rank - 0.375) / (draws.len() as f64 + 0.25));
        order[first..first + equal].iter().for_each(|&i| scores[i] = score);
        first += equal;
    }
    scores.chunks(length).map(<[f64]>::to_vec).collect()
}

fn mean_and_variance(chain: &[f64]) -> (f64, f64) {
    let n = chain.len() as f64;
    let mean = chain.iter().sum::<f64>() / n;
    (mean, chain.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0))
}

fn plain_r_hat(chains: &[Vec<f64>]) -> f64 {
    let (means, variances): (Vec<f64>, Vec<f64>) =
        chains.iter().map(|chain| mean_and_variance(chain)).unzip();
    r_hat(&means, &variances, chains[0].len() as f64)
}

/// m·n / τ, with Geyer's estimate of the autocorrelation time τ.
fn effective_size(chains: &[Vec<f64>]) -> f64 {
    let (m, n) = (chains.len() as f64, chains[0].len());
    let moments: Vec<(f64, f64)> = chains.iter().map(|chain| mean_and_variance(chain)).collect();
    let within = moments.iter().map(|(_, variance)| variance).sum::<f64>() / m;
    let mean = moments.iter().map(|(mean, _)| mean).sum::<f64>() / m;
    let between = moments.iter().map(|(own, _)| (own - mean).powi(2)).sum::<f64>() / (m - 1.0).max(1.0);
    let whole = within * (n as f64 - 1.0) / n as f64 + between;
    if whole <= 0.0 {
        return m * n as f64;
    }
    let covariance = |lag: usize| {
        let of = |(chain, (mean, _)): (&Vec<f64>, &(f64, f64))| {
            let products = chain.iter().zip(&chain[lag..]).map(|(x, y)| (x - mean) * (y - mean));
            products.sum::<f64>() / n as f64
        };
        chains.iter().zip(&moments).map(of).sum::<f64>() / m
    };
    let correlation = |lag: usize| {
        if lag == 0 { 1.0 } else { 1.0 - (within - covariance(lag) * n as f64 / (n as f64 - 1.0)) / whole }
    };
    let (mut sum, mut least, mut lag) = (0.0, f64::INFINITY, 0);
    while lag + 1 < n {
        let pair = correlation(lag) + correlation(lag + 1);
        if pair <= 0.0 {
            break;
        }
        least = least.min(pair);
        sum += least;
        lag += 2;
    }
    let draws = m * n as f64;
    // The limit of Stan for antithetic chains.
    draws / (2.0 * sum - 1.0).max(1.0 / draws.log10().max(1.0))
}

/// Φ⁻¹(p), with a relative error below 1.2·10⁻⁹ (P. J. Acklam's rational approximation).
fn normal_quantile(p: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969683028665376e1,
        2.209460984245205e2,
        -2.759285104469687e2,
        1.383_577_518_672_69e2,
        -3.066479806614716e1,
        2.506628277459239,
    ];
    const B: [f64; 5] = [
        -5.447609879822406e1,
        1.615858368580409e2,
        -1.556989798598866e2,
        6.680131188771972e1,
        -1.328068155288572e1,
    ];
    const C: [f64; 6] = [
        -7.784894002430293e-3,
        -3.223964580411365e-1,
        -2.400758277161838,
        -2.549732539343734,
        4.374664141464968,
        2.938163982698783,
    ];
    const D: [f64; 4] = [7.784695709041462e-3, 3.224671290700398e-1, 2.445134137142996, 3.754408661907416];
    let evaluate = |coefficients: &[f64], x: f64| coefficients.iter().fold(0.0, |sum, c| sum * x + c);
    let tail = |p: f64| {
        let q = (-2.0 * p.ln()).sqrt();
        evaluate(&C, q) / (evaluate(&D, q) * q + 1.0)
    };
    if p < 0.02425 {
        tail(p)
    } else if p > 1.0 - 0.02425 {
        -tail(1.0 - p)
    } else {
        let q = p - 0.5;
        let r = q * q;
        evaluate(&A, r) * q / (evaluate(&B, r) * r + 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Streams;

    /// Chains of an autoregressive process of order 1 with variance 1 and this mean.
    fn chains(means: &[f64], correlation: f64, length: usize) -> Vec<Vec<f64>> {
        let streams = Streams::new(3, "convergence tests");
        let chain = |(i, mean): (usize, &f64)| {
            let mut random = streams.block(i as u64);
            let mut x = random.normal();
            let step = |_| {
                x = correlation * x + (1.0 - correlation * correlation).sqrt() * random.normal();
                mean + x
            };
            (0..length).map(step).collect()
        };
        means.iter().enumerate().map(chain).collect()
    }

    #[test]
    fn quantiles_are_those_of_tables() {
        for (p, x) in
            [(0.5, 0.0), (0.975, 1.959963984540054), (0.001, -3.090232306167813), (0.9, 1.2815515655446004)]
        {
            assert!((normal_quantile(p) - x).abs() < 1e-8, "{p}: {}", normal_quantile(p));
        }
    }

    #[test]
    fn chains_of_one_distribution_agree_and_others_do_not() {
        let (r, size) = of_numbers(&chains(&[0.0; 4], 0.0, 2000));
        assert!(r < 1.01 && size > 6000.0, "{r} {size}");
        // A shift of one standard deviation in one of four chains: between = 0.25·(8/7)/… gives R̂ ≈ 1.1.
        let (r, size) = of_numbers(&chains(&[0.0, 0.0, 0.0, 1.0], 0.0, 2000));
        assert!(r > 1.08 && size < 100.0, "{r} {size}");
        // Equal means, but one chain varies less: only the folded draws show it.
        let mut uneven = chains(&[0.0; 4], 0.0, 2000);
        uneven[0].iter_mut().for_each(|x| *x *= 0.2);
        assert!(of_numbers(&uneven).0 > 1.05);
    }

    /// The effective sample size of the process is N·(1 − φ)/(1 + φ).
    #[test]
    fn correlated_draws_count_less() {
        for correlation in [0.5, 0.9] {
            let (_, size) = of_numbers(&chains(&[0.0; 4], correlation, 4000));
            let expected = 16_000.0 * (1.0 - correlation) / (1.0 + correlation);
            assert!(size / expected > 0.75 && size / expected < 1.33, "{correlation}: {size} {expected}");
        }
    }

    /// Indicators that switch with probability q have correlation 1 − 2q and p = 1/2.
    #[test]
    fn indicators_are_judged_by_counts() {
        let (switch, batch, batches) = (0.1, 500, 64);
        let mut random = Streams::new(4, "indicators").block(0);
        let mut on = 0.0;
        let counted: Vec<(f64, f64)> = (0..batches)
            .map(|_| {
                let mut count = 0.0;
                for _ in 0..batch {
                    on = if random.uniform() < switch { 1.0 - on } else { on };
                    count += on;
                }
                (count, f64::from(batch))
            })
            .collect();
        let expected = f64::from(batch * batches) * switch / (1.0 - switch);
        let ratio = indicator_size(&counted) / expected;
        assert!(ratio > 0.5 && ratio < 2.0, "{ratio}");
        assert!(indicator_r_hat(&counted) < 1.05);
        assert_eq!(indicator_r_hat(&[(10.0, 10.0), (10.0, 10.0)]), 1.0);
        assert_eq!(indicator_r_hat(&[(10.0, 10.0), (0.0, 10.0)]), f64::INFINITY);
        assert_eq!(indicator_size(&[(0.0, 10.0), (0.0, 10.0)]), f64::INFINITY);
    }
}
