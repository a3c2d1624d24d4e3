//! Exact samples by sequential rejection: structures are built part by part, and every part is accepted or the
//! whole attempt is rejected.
//!
//! The score of a structure is the sum over its parts of s_k(c_k | c_1 … c_{k−1}), where c_k is the choice of
//! part k. Let W_k = Σ_c exp s_k(c | c_1 … c_{k−1}), and M_k an upper bound on W_k for any earlier choices. An
//! attempt chooses c_k with probability exp(s_k)/W_k and goes on with probability W_k/M_k. A structure is then
//! accepted with probability exp(s(y))/U, U = Π M_k, so accepted structures are exact samples. The share of
//! attempts that succeed is Z/U, so Z = U·E\[Π W_k/M_k\], an expectation of numbers in [0, 1]: Bernstein's and
//! Chernoff's inequalities give an interval for ln Z.
//!
//! | space, scores | choice k | M_k |
//! |---|---|---|
//! | permutations, precedences | the place of item k among the earlier items; items by total preference | Σ_p exp of the sum of the p largest preferences of earlier items over k |
//! | permutations, positions | the item at position k | the sum of the n − k + 1 largest weights of the position |
//! | partitions, links | the urn of element k, of m urns; m ∝ Π M_k(m)/m! | m − 2 + e^P + e^N, P and N the sums of the positive and negative links to earlier elements |
//! | hypercube, pairs | label k | 1 + exp(θ + sum of the positive pairs with earlier labels) |
//!
//! For permutations, the bound is reached if the earlier items are in descending order of preference, which is
//! nearly so if the preferences agree on one order. For partitions, Dobiński's formula Z = e⁻¹ Σ_m Z_m/m! holds
//! for any scores, Z_m being the sum over all ways to distribute the elements over m urns. Earlier elements of
//! one urn contribute exp of the sum of their links. Merging blocks of equal sign increases Σ(e^x − 1), so one urn
//! with all positive links and one with all negative links is the maximum. Without scores nothing is rejected.
//! Except for positions, U is never above |Y| exp s_max with the bound s_max of [`SpaceModel::range`], so this needs
//! no more attempts than rejection from uniform samples.
//!
//! Time: O(n²) per attempt, Z/U attempts succeed. Memory: O(n²).

use crate::error::Result;
use crate::method::bounds::minibucket::Moments;
use crate::method::space::{Scores, SpaceModel, Structures, log_factorial, softplus};
use crate::numeric::log_sum_exp;
use crate::random::Stream;
use crate::run::Clock;

/// Log ratio to the largest term below which a number of urns is omitted.
const NEGLIGIBLE: f64 = -60.0;

/// What is chosen part by part. All scores are multiplied by β.
enum Parts {
    /// B(i, j) − B(j, i) at i·n + j.
    Precedences(Vec<f64>),
    /// Scores at item·n + position.
    Positions(Vec<f64>),
    Links {
        links: Vec<f64>,
        /// P and N of every step.
        sums: Vec<(f64, f64)>,
        /// The weights of 1, 2, … urns.
        urns: Vec<f64>,
    },
    /// Scores of labels, and of pairs with earlier labels.
    Labels { unary: Vec<f64>, earlier: Vec<Vec<(u32, f64)>> },
}

/// A sampler for one model at one inverse temperature.
pub(crate) struct Sequential {
    parts: Parts,
    /// The order in which items, positions, elements or labels are added.
    order: Vec<usize>,
    /// ln M_k, except for links, where it depends on the number of urns.
    bounds: Vec<f64>,
    log_bound: f64,
}

/// Orders elements so that each has a strong link to an earlier one.
fn linked_order(links: &[f64], n: usize) -> Vec<usize> {
    let mut strongest = vec![f64::NEG_INFINITY; n];
    let mut left: Vec<usize> = (0..n).collect();
    let mut order = Vec::with_capacity(n);
    while !left.is_empty() {
        let at = (0..left.len())
            .max_by(|&a, &b| strongest[left[a]].total_cmp(&strongest[left[b]]).then(b.cmp(&a)))
            .unwrap_or(0);
        let next = left.remove(at);
        left.iter().for_each(|&i| strongest[i] = strongest[i].max(links[next * n + i]));
        order.push(next);
    }
    order
}

/// ln M_k for m urns.
fn urn_bound(urns: usize, (positive, negative): (f64, f64)) -> f64 {
    match urns {
        1 => positive + negative,
        2 => log_sum_exp(&[positive, negative]),
        _ => log_sum_exp(&[((urns - 2) as f64).ln(), positive, negative]),
    }
}

impl Sequential {
    /// `None` for models that are not in the table.
    pub fn new(model: &SpaceModel, beta: f64) -> Option<Self> {
        let n = model.width();
        let scaled = |numbers: &[f64]| numbers.iter().map(|x| beta * x).collect::<Vec<f64>>();
        match (model.structures(), model.scores()) {
            (Structures::Permutations(_), Scores::Precedence(matrix)) => {
                Some(Self::precedences(&scaled(matrix), n))
            }
            (Structures::Permutations(_), Scores::Position(matrix)) => {
                Some(Self::positions(scaled(matrix), n))
            }
            (Structures::Partitions(_), Scores::Links(matrix)) => Some(Self::links(scaled(matrix), n)),
            (Structures::Hypercube(cube), Scores::Pairwise(pairs)) if !cube.has_signs() => {
                let before = |i: usize| {
                    let own = pairs.neighbours(i).iter().filter(|(j, _)| (*j as usize) < i);
                    own.map(|(j, w)| (*j, beta * w)).collect::<Vec<_>>()
                };
                let unary = scaled(pairs.unary());
                let earlier: Vec<Vec<(u32, f64)>> = (0..n).map(before).collect();
                let most = |(theta, own): (&f64, &Vec<(u32, f64)>)| {
                    softplus(theta + own.iter().map(|(_, w)| w.max(0.0)).sum::<f64>())
                };
                let bounds: Vec<f64> = unary.iter().zip(&earlier).map(most).collect();
                let log_bound = bounds.iter().sum();
                Some(Sequential {
                    parts: Parts::Labels { unary, earlier },
                    order: (0..n).collect(),
                    bounds,
                    log_bound,
                })
            }
            _ => None,
        }
    }

    fn precedences(matrix: &[f64], n: usize) -> Self {
        let mut preferences = vec![0.0; n * n];
        let mut constant = 0.0;
        for i in 0..n {
            for j in (0..n).filter(|&j| j != i) {
                preferences[i * n + j] = matrix[i * n + j] - matrix[j * n + i];
            }
        }
        let total = |i: usize| preferences[i * n..(i + 1) * n].iter().sum::<f64>();
        let totals: Vec<f64> = (0..n).map(total).collect();
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by(|&a, &b| totals[b].total_cmp(&totals[a]));
        let mut bounds = Vec::with_capacity(n);
        for (k, &item) in order.iter().enumerate() {
            // The item before all earlier ones; each earlier item that precedes it adds its preference.
            constant += order[..k].iter().map(|&other| matrix[item * n + other]).sum::<f64>();
            let mut own: Vec<f64> = order[..k].iter().map(|&other| preferences[other * n + item]).collect();
            own.sort_by(|a, b| b.total_cmp(a));
            bounds.push(log_sum_exp(&prefix_sums(own)));
        }
        let log_bound = constant + bounds.iter().sum::<f64>();
        Sequential { parts: Parts::Precedences(preferences), order, bounds, log_bound }
    }

    fn positions(matrix: Vec<f64>, n: usize) -> Self {
        let column = |j: usize| {
            let mut own: Vec<f64> = (0..n).map(|i| matrix[i * n + j]).collect();
            own.sort_by(|a, b| b.total_cmp(a));
            own
        };
        // Positions whose scores differ most come first, while all items are left.
        let spread: Vec<f64> = (0..n)
            .map(|j| {
                let own = column(j);
                own.first().copied().unwrap_or(0.0) - own.last().copied().unwrap_or(0.0)
            })
            .collect();
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by(|&a, &b| spread[b].total_cmp(&spread[a]));
        let bounds: Vec<f64> =
            order.iter().enumerate().map(|(k, &j)| log_sum_exp(&column(j)[..n - k])).collect();
        let log_bound = bounds.iter().sum();
        Sequential { parts: Parts::Positions(matrix), order, bounds, log_bound }
    }

    fn links(links: Vec<f64>, n: usize) -> Self {
        let order = linked_order(&links, n);
        let signed = |k: usize| {
            let own = order[..k].iter().map(|&other| links[other * n + order[k]]);
            own.fold((0.0, 0.0), |(p, q): (f64, f64), w| (p + w.max(0.0), q + w.min(0.0)))
        };
        let sums: Vec<(f64, f64)> = (0..n).map(signed).collect();
        // The first element has m equal choices.
        let term = |m: usize| {
            (m as f64).ln() - log_factorial(m) + sums[1..].iter().map(|own| urn_bound(m, *own)).sum::<f64>()
        };
        // Terms are log-concave from m = 2 on.
        let (mut terms, mut largest) = (Vec::new(), f64::NEG_INFINITY);
        for m in 1.. {
            let now = term(m);
            let falling = m > 2 && terms.last().is_some_and(|&last| now < last);
            if falling && now - largest < NEGLIGIBLE {
                break;
            }
            largest = largest.max(now);
            terms.push(now);
        }
        let log_bound = log_sum_exp(&terms) - 1.0;
        let urns = terms.into_iter().map(|log| (log - largest).exp()).collect();
        Sequential { parts: Parts::Links { links, sums, urns }, order, bounds: Vec::new(), log_bound }
    }

    /// ln U, an upper bound on ln Z.
    pub fn log_bound(&self) -> f64 {
        self.log_bound
    }

    /// One attempt: ln Π W_k/M_k of the structure. With `reject`, `None` if a part is rejected; an attempt that is
    /// not is an exact sample. The structure may be in another than canonical form.
    pub fn attempt(&self, reject: bool, random: &mut Stream, structure: &mut [u32]) -> Option<f64> {
        let n = self.order.len();
        let mut ratio = Ratio { log: 0.0, reject };
        let mut logs: Vec<f64> = Vec::with_capacity(n + 1);
        match &self.parts {
            Parts::Precedences(preferences) => {
                let mut order: Vec<u32> = Vec::with_capacity(n);
                for (&item, bound) in self.order.iter().zip(&self.bounds) {
                    logs.clear();
                    let mut sum = 0.0;
                    logs.push(sum);
                    for &other in &order {
                        sum += preferences[other as usize * n + item];
                        logs.push(sum);
                    }
                    let place = ratio.choose(&mut logs, *bound, random)?;
                    order.insert(place, item as u32);
                }
                structure.copy_from_slice(&order);
            }
            Parts::Positions(matrix) => {
                let mut left: Vec<usize> = (0..n).collect();
                for (&position, bound) in self.order.iter().zip(&self.bounds) {
                    logs.clear();
                    logs.extend(left.iter().map(|item| matrix[item * n + position]));
                    let chosen = ratio.choose(&mut logs, *bound, random)?;
                    structure[position] = left.swap_remove(chosen) as u32;
                }
            }
            Parts::Links { links, sums, urns } => {
                // From 1 on.
                let count = 1 + random.categorical(urns);
                let mut blocks = 0;
                for (k, &element) in self.order.iter().enumerate() {
                    logs.clear();
                    logs.resize(blocks, 0.0);
                    for &other in &self.order[..k] {
                        logs[structure[other] as usize] += links[other * n + element];
                    }
                    if count > blocks {
                        logs.push(((count - blocks) as f64).ln());
                    }
                    let bound = if k == 0 { (count as f64).ln() } else { urn_bound(count, sums[k]) };
                    let block = ratio.choose(&mut logs, bound, random)?;
                    structure[element] = block as u32;
                    blocks = blocks.max(block + 1);
                }
            }
            Parts::Labels { unary, earlier } => {
                for i in 0..n {
                    let own = earlier[i].iter().map(|(j, w)| w * f64::from(structure[*j as usize]));
                    logs.clear();
                    logs.extend([0.0, unary[i] + own.sum::<f64>()]);
                    structure[i] = ratio.choose(&mut logs, self.bounds[i], random)? as u32;
                }
            }
        }
        Some(ratio.log)
    }

    /// An interval for ln Z from attempts: the estimate, and both ends. It holds with probability 1 − `failure`. `None`
    /// if hardly an attempt can succeed.
    ///
    /// # Errors
    /// If the time is over.
    pub fn interval(
        &self,
        attempts: usize,
        failure: f64,
        random: &mut Stream,
        clock: &Clock<'_>,
    ) -> Result<Option<(f64, f64, f64)>> {
        let mut structure = vec![0; self.order.len()];
        let (mut mean, mut squares) = (0.0, 0.0);
        for i in 0..attempts {
            if i % 64 == 0 {
                clock.check()?;
            }
            let share = self.attempt(false, random, &mut structure).unwrap_or(f64::NEG_INFINITY).exp();
            let step = share - mean;
            mean += step / (i + 1) as f64;
            squares += step * (share - mean);
        }
        let count = attempts as f64;
        let moments = Moments { count, mean, variance: squares / (count - 1.0).max(1.0) };
        let (low, high) = (moments.low(0.5 * failure).max(0.0), moments.high(0.5 * failure));
        let log = |share: f64| self.log_bound + share.ln();
        Ok((mean > f64::MIN_POSITIVE).then(|| (log(mean), log(low), log(high))))
    }

    /// The estimated number of attempts per sample.
    pub fn tries(&self, attempts: usize, random: &mut Stream) -> f64 {
        let mut structure = vec![0; self.order.len()];
        let share = |_| self.attempt(false, random, &mut structure).unwrap_or(f64::NEG_INFINITY).exp();
        attempts as f64 / (0..attempts).map(share).sum::<f64>()
    }
}

/// 0 and the partial sums of some numbers.
fn prefix_sums(numbers: Vec<f64>) -> Vec<f64> {
    let mut sums = vec![0.0];
    let mut sum = 0.0;
    for x in numbers {
        sum += x;
        sums.push(sum);
    }
    sums
}

/// ln Π W_k/M_k so far.
struct Ratio {
    log: f64,
    reject: bool,
}

impl Ratio {
    /// Chooses one of the log-weights of a part whose sum is at most exp `bound`; `None` if the part is rejected.
    fn choose(&mut self, logs: &mut [f64], bound: f64, random: &mut Stream) -> Option<usize> {
        let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut sum = 0.0;
        for x in logs.iter_mut() {
            *x = (*x - largest).exp();
            sum += *x;
        }
        // Rounding can exceed the bound.
        let own = (largest + sum.ln() - bound).min(0.0);
        if self.reject && random.uniform() >= own.exp() {
            return None;
        }
        self.log += own;
        Some(random.categorical(logs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::space::{Hypercube, Partitions, Permutations};
    use crate::random::Streams;
    use crate::run::Run;

    /// Models of all four kinds with normal scores of this size.
    fn models(n: usize, size: f64, random: &mut Stream) -> Vec<SpaceModel> {
        let mut square = || (0..n * n).map(|_| size * random.normal()).collect::<Vec<f64>>();
        let (precedence, position) = (square(), square());
        let pairs: Vec<(usize, usize, f64)> = (0..n)
            .flat_map(|i| (i + 1..n).map(move |j| (i, j)))
            .map(|(i, j)| (i, j, size * random.normal()))
            .collect();
        let single = (0..n).map(|_| size * random.normal()).collect();
        let orders = || Permutations::new(n).unwrap();
        vec![
            SpaceModel::new(orders(), Scores::Precedence(precedence)).unwrap(),
            SpaceModel::new(orders(), Scores::Position(position)).unwrap(),
            SpaceModel::new(Partitions::new(n).unwrap(), Scores::links(n, &pairs).unwrap()).unwrap(),
            SpaceModel::new(Hypercube::new(n).unwrap(), Scores::pairwise(single, &pairs).unwrap()).unwrap(),
        ]
    }

    /// All structures with their weights at β.
    fn enumerated(model: &SpaceModel, beta: f64) -> Vec<(Vec<u32>, f64)> {
        let run = Run::default();
        let mut all = Vec::new();
        model
            .space()
            .enumerate(&run.start("test"), &mut |y| {
                all.push((y.to_vec(), (beta * model.score(y).unwrap()).exp()));
                true
            })
            .unwrap();
        all
    }

    /// χ² with Wilson and Hilferty's approximation; false alarms below 1e-7 per model.
    #[test]
    fn accepted_structures_have_the_probabilities_of_the_model() {
        let mut random = Streams::new(1, "sequential").block(0);
        for (n, size, beta) in [(1, 1.0, 1.0), (2, 0.0, 1.0), (4, 0.6, 1.0), (4, 1.5, 0.7), (4, 0.3, 2.0)] {
            for model in models(n, size, &mut random) {
                let all = enumerated(&model, beta);
                let total: f64 = all.iter().map(|(_, weight)| weight).sum();
                let sequential = Sequential::new(&model, beta).unwrap();
                assert!(sequential.log_bound() >= total.ln() - 1e-12);
                let (draws, mut counts) = (6_000, vec![0.0; all.len()]);
                let mut structure = vec![0; n];
                for _ in 0..draws {
                    while sequential.attempt(true, &mut random, &mut structure).is_none() {}
                    model.space().canonical(&mut structure);
                    counts[all.iter().position(|(y, _)| *y == structure).unwrap()] += 1.0;
                }
                let (mut square, mut cells, mut rest) = (0.0, -1.0, (0.0, 0.0));
                for ((_, weight), count) in all.iter().zip(&counts) {
                    let expected = f64::from(draws) * weight / total;
                    if expected < 8.0 {
                        rest = (rest.0 + count, rest.1 + expected);
                    } else {
                        square += (count - expected).powi(2) / expected;
                        cells += 1.0;
                    }
                }
                if rest.1 >= 8.0 {
                    square += (rest.0 - rest.1).powi(2) / rest.1;
                    cells += 1.0;
                }
                let m = f64::max(cells, 1.0);
                let limit = m * (1.0 - 2.0 / (9.0 * m) + 5.2 * (2.0 / (9.0 * m)).sqrt()).powi(3);
                assert!(square <= limit, "{} {n} {size}: {square} {limit}", model.space().name());
            }
        }
    }

    /// An interval fails with probability 0.05 at most. Of 120, more than 24 failures have probability 1e-8.
    #[test]
    fn intervals_contain_log_z_and_share_of_attempts_is_z_over_u() {
        let mut random = Streams::new(2, "sequential").block(0);
        let (run, mut failures, mut count) = (Run::default(), 0, 0);
        for size in [0.0, 0.2, 1.0] {
            for _ in 0..10 {
                for model in models(5, size, &mut random) {
                    let log_z = enumerated(&model, 1.0).iter().map(|(_, weight)| weight).sum::<f64>().ln();
                    let sequential = Sequential::new(&model, 1.0).unwrap();
                    let found = sequential.interval(400, 0.05, &mut random, &run.start("test")).unwrap();
                    let (value, low, high) = found.unwrap();
                    assert!(low <= value && value <= high);
                    failures += u32::from(log_z < low - 1e-9 || log_z > high + 1e-9);
                    count += 1;
                    if size == 0.0 {
                        // Nothing is rejected.
                        assert!(
                            (value - log_z).abs() < 1e-9
                                && (sequential.tries(10, &mut random) - 1.0).abs() < 1e-9
                        );
                    }
                }
            }
        }
        assert!(count == 120 && failures <= 24, "{failures}");
    }

    /// Orders that agree with a common order, and clusters, need few attempts at any strength.
    #[test]
    fn consistent_scores_of_twenty_items_need_few_attempts() {
        let mut random = Streams::new(3, "sequential").block(0);
        let n = 20;
        for strength in [0.3, 1.0, 4.0] {
            let score = |i: usize, j: usize| strength * (j as f64 - i as f64) / 6.0;
            let matrix = (0..n * n).map(|at| score(at / n, at % n).max(0.0)).collect();
            let model = SpaceModel::new(Permutations::new(n).unwrap(), Scores::Precedence(matrix)).unwrap();
            let tries = Sequential::new(&model, 1.0).unwrap().tries(256, &mut random);
            assert!(tries < 2e3, "{strength}: {tries}");
            let link = |i: usize, j: usize| if i % 4 == j % 4 { 2.0 * strength } else { -2.0 * strength };
            let pairs: Vec<(usize, usize, f64)> =
                (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j, link(i, j)))).collect();
            let links = Scores::links(n, &pairs).unwrap();
            let model = SpaceModel::new(Partitions::new(n).unwrap(), links).unwrap();
            let tries = Sequential::new(&model, 1.0).unwrap().tries(256, &mut random);
            assert!(tries < 2e3, "{strength}: {tries}");
        }
    }
}
