//! Probabilities of events: a partial order of items, labels or nodes that are chosen, elements in one block.
//!
//! P(E) = Z(E)/Z, where Z(E) sums over the structures that satisfy all conditions of E; exact sums take both. For
//! Plackett–Luce, f(S) is the probability that the first |S| items are the set S in an order that satisfies E:
//! f(S) = Σ_{i ∈ S} f(S∖i)·e^{u_i}/Σ_{j ∉ S∖i} e^{u_j}. Items without a condition are left out, which is exact for
//! this model. Time 2ⁿ·n per row for the n items of conditions.
//!
//! Beyond exact sums, P(E) is the share of samples that satisfy E, with an interval if the samples are exact. Those of
//! Plackett–Luce and Mallows always are. The probability of a partial ranking of many items is that of its order of
//! pairs.

use super::row::{self, Row, approximate};
use super::{Guaranteed, Predictor};
use crate::answer::Guarantee;
use crate::error::{Error, Result};
use crate::learn::predict::data::Space;
use crate::learn::predict::form::MOST_ITEMS;
use crate::learn::predict::{Form, Inputs};
use crate::method::space::Oracle;
use crate::method::space::perfect::Draws;
use crate::model::space::{Condition, Event, Permutations, SpaceModel, Structures};
use crate::numeric::log_sum_exp;
use crate::query::LogPartition;
use crate::random::Streams;
use crate::run::Run;

impl Predictor {
    /// The conditions of an event given as text, separated by commas: `tea>milk` (tea before milk; also
    /// `tea>milk>juice`) for rankings, `a=b` (in one block) for partitions, and names for labels and nodes that are
    /// chosen. `not` before a condition negates it.
    ///
    /// # Errors
    /// If there is no such name, or the text is no list of conditions.
    pub fn event(&self, text: &str) -> Result<Vec<Condition>> {
        let mut conditions = Vec::new();
        for part in text.split(',').map(str::trim) {
            let fail = |message: String| Err(Error::argument("event", message));
            let known = self.names().iter().position(|name| name == part);
            let (negated, body) = match part.strip_prefix("not ") {
                Some(rest) if known.is_none() => (true, rest.trim()),
                _ => (false, part),
            };
            let place = |name: &str| {
                let name = name.trim();
                self.names().iter().position(|known| known == name).ok_or_else(|| {
                    Error::argument("event", format!("`{part}`: the model does not know `{name}`"))
                })
            };
            let pairs = |sign: char| -> Result<Vec<(usize, usize)>> {
                let places = body.split(sign).map(place).collect::<Result<Vec<usize>>>()?;
                Ok(places.windows(2).map(|pair| (pair[0], pair[1])).collect())
            };
            let events: Vec<Event> = match self.space() {
                Space::Labels | Space::Hierarchy => vec![Event::Chosen(place(body)?)],
                Space::Ranking => pairs('>')?.into_iter().map(|(i, j)| Event::Before(i, j)).collect(),
                Space::Partition => pairs('=')?.into_iter().map(|(i, j)| Event::Linked(i, j)).collect(),
            };
            match events.as_slice() {
                [] => {
                    let sign = if self.space() == Space::Ranking { "a>b" } else { "a=b" };
                    return fail(format!("expected `{sign}` with two names, found `{part}`"));
                }
                [_, _, ..] if negated => {
                    return fail(format!("`{part}`: `not` applies to one pair"));
                }
                _ => {}
            }
            let condition = |event: Event| if negated { Condition::Not(event) } else { Condition::Is(event) };
            conditions.extend(events.into_iter().map(condition));
        }
        Ok(conditions)
    }

    /// ln P of an event for every row: that the structure satisfies all conditions, such as a partial order that
    /// orders some pairs of items, or a subtree that is contained. Numbers are those of [`Predictor::names`]. Where
    /// exact sums are out of reach, the probability is a share of samples and has an interval: under Plackett–Luce for
    /// conditions on more than 16 items, under Mallows for more than 16 items.
    ///
    /// # Errors
    /// If a condition does not apply to the space, exact sums with conditions are out of reach for sets or partitions
    /// where those without are exact, the inputs have another width, or the budget is exceeded.
    pub fn event_log_probabilities(
        &self,
        inputs: &Inputs,
        conditions: &[Condition],
        run: &Run,
    ) -> Result<Vec<Guaranteed<f64>>> {
        let clock = run.start("event");
        if conditions.iter().any(|condition| matches!(condition, Condition::Function(_))) {
            let message = "a function is no condition of a predictor; expected events and sizes";
            return Err(Error::argument("condition", message));
        }
        match self.form {
            Form::PlackettLuce { items } => {
                let Some(order) = Order::new(conditions, items)? else {
                    return self.sampled_events(inputs, conditions, row::FAILURE, run);
                };
                return self.each_block(inputs, run, &clock, |block, _| {
                    let lanes = block.rows.len();
                    let one = |lane: usize| {
                        let own: Vec<f64> = block.scores.iter().skip(lane).step_by(lanes).copied().collect();
                        Guaranteed { value: order.log_probability(&own), guarantee: Guarantee::Exact }
                    };
                    Ok((0..lanes).map(one).collect())
                });
            }
            Form::Mallows { items } if items > MOST_ITEMS => {
                return self.sampled_events(inputs, conditions, row::FAILURE, run);
            }
            _ => {}
        }
        let conditions = conditions.iter().map(|condition| shifted(condition, self.form.hidden()));
        let conditions: Vec<Condition> = conditions.collect();
        let quiet = run.unobserved();
        self.each_row(inputs, run, &clock, |row, model| {
            if self.is_exact() {
                let some = model.restrict(conditions.iter().cloned())?;
                let log_z = Oracle::default().log_partition(model, &quiet)?.value;
                let value = match possible(Oracle::default().log_partition(&some, &quiet))? {
                    Some(found) => (found.value - log_z).min(0.0),
                    None => f64::NEG_INFINITY,
                };
                return Ok(Guaranteed { value, guarantee: Guarantee::Exact });
            }
            log_probability(&self.row(row, model, run, &clock), &conditions)
        })
    }

    /// The same for families of orders whose samples are exact and fast: the share of samples that satisfy all
    /// conditions, where the guarantee of each row fails with this probability. Sums that are fast enough after all
    /// come first.
    pub(super) fn sampled_events(
        &self,
        inputs: &Inputs,
        conditions: &[Condition],
        failure: f64,
        run: &Run,
    ) -> Result<Vec<Guaranteed<f64>>> {
        let clock = run.start("event");
        let space = Structures::from(Permutations::new(self.form.width())?);
        let streams = Streams::new(run.seed(), "predictor events");
        self.each_block(inputs, run, &clock, |block, work| {
            let lanes = block.rows.len();
            let one = |(lane, row): (usize, usize)| {
                if let Form::Mallows { items } = self.form {
                    let model = self.space_model(&block, lane)?;
                    let some = model.restrict(conditions.iter().cloned())?;
                    if items > MOST_ITEMS
                        && let Some(found) = exact(&self.row(row, &model, run, &clock), &some)?
                    {
                        return Ok(found);
                    }
                }
                let mut random = streams.block(row as u64);
                self.share(block.scores, (lane, lanes), work, (failure, &mut random), &clock, &|order| {
                    let mut all = conditions.iter().map(|condition| condition.holds(&space, order));
                    all.try_fold(true, |all, own| own.map(|own| all && own))
                })
            };
            block.rows.clone().enumerate().map(one).collect()
        })
    }
}

/// ln P of conditions for one row: exact if the sums are fast enough, otherwise from samples.
fn log_probability(row: &Row<'_>, conditions: &[Condition]) -> Result<Guaranteed<f64>> {
    let some = row.model.restrict(conditions.iter().cloned())?;
    match exact(row, &some)? {
        Some(found) => Ok(found),
        None => sampled(row, &some),
    }
}

/// ln P of the conditions of a restricted model, if the sums are fast enough.
fn exact(row: &Row<'_>, some: &SpaceModel) -> Result<Option<Guaranteed<f64>>> {
    let part = Row { model: some, ..*row };
    let value = match (row.exact_log_partition()?, possible(part.exact_log_partition())?) {
        (_, None) => f64::NEG_INFINITY,
        (Some(all), Some(Some(own))) => (own - all).min(0.0),
        _ => return Ok(None),
    };
    Ok(Some(Guaranteed { value, guarantee: Guarantee::Exact }))
}

/// ln p of a partial ranking: of all orders that extend it.
pub(super) fn partial_log_probability(row: &Row<'_>, ranks: &[u32]) -> Result<Guaranteed<f64>> {
    let conditions = partial_order(ranks);
    if conditions.is_empty() {
        return Ok(Guaranteed { value: 0.0, guarantee: Guarantee::Exact });
    }
    log_probability(row, &conditions)
}

/// The order of items that ranks give: every item comes before those with the next larger rank. Ties and items
/// without a rank have no condition.
pub(super) fn partial_order(ranks: &[u32]) -> Vec<Condition> {
    let mut known: Vec<u32> = ranks.iter().copied().filter(|rank| *rank > 0).collect();
    known.sort_unstable();
    known.dedup();
    let items = |rank: u32| (0..ranks.len()).filter(move |&item| ranks[item] == rank);
    let next = |pair: &[u32]| {
        let (first, second) = (pair[0], pair[1]);
        items(first).flat_map(move |i| items(second).map(move |j| Condition::Is(Event::Before(i, j))))
    };
    known.windows(2).flat_map(next).collect()
}

/// Whether an order extends a partial ranking.
pub(super) fn extends(order: &[u32], ranks: &[u32]) -> bool {
    let mut last = 0;
    order.iter().map(|&item| ranks[item as usize]).filter(|rank| *rank > 0).all(|rank| {
        let fits = rank >= last;
        last = rank;
        fits
    })
}

/// ln of the share of samples that satisfy the conditions of a restricted model.
pub(super) fn sampled(row: &Row<'_>, some: &SpaceModel) -> Result<Guaranteed<f64>> {
    let (samples, draws) = row.samples()?;
    let Structures::Restricted(space) = some.structures() else {
        return Ok(Guaranteed { value: 0.0, guarantee: Guarantee::Exact });
    };
    let mut hits = 0usize;
    for sample in &samples {
        let whole = row.whole(sample);
        let mut all = space.conditions().iter().map(|condition| condition.holds(space.base(), &whole));
        hits += usize::from(all.try_fold(true, |all, own| own.map(|own| all && own))?);
    }
    Ok(log_share(hits, samples.len(), draws, row.failure))
}

/// ln of a share of samples, with its interval if they are exact.
pub(super) fn log_share(hits: usize, count: usize, draws: Draws, failure: f64) -> Guaranteed<f64> {
    let share = hits as f64 / count as f64;
    let guarantee = match draws {
        Draws::Exact => {
            let (low, high) = proportion(share, count, failure);
            Guarantee::Bounds { low: low.ln(), high: high.ln(), confidence: 1.0 - failure }
        }
        Draws::Approximate => approximate(),
    };
    Guaranteed { value: share.ln(), guarantee }
}

/// An interval for a probability from the share of independent trials, by Chernoff's bound: the p with
/// KL(share ‖ p) ≤ ln(2/δ)/count.
fn proportion(share: f64, count: usize, failure: f64) -> (f64, f64) {
    let most = (2.0 / failure).ln() / count as f64;
    let term = |a: f64, b: f64| if a > 0.0 { a * (a / b).ln() } else { 0.0 };
    let divergence = |p: f64| term(share, p) + term(1.0 - share, 1.0 - p);
    // The bisection keeps `outside` outside of the interval.
    let end = |mut outside: f64| {
        let mut inside = share;
        for _ in 0..100 {
            let middle = 0.5 * (inside + outside);
            if divergence(middle) > most { outside = middle } else { inside = middle }
        }
        outside
    };
    (end(0.0), end(1.0))
}

/// A result, or none if no structure satisfies the conditions.
fn possible<T>(found: Result<T>) -> Result<Option<T>> {
    match found {
        Err(error) if matches!(error.kind(), "zero-partition" | "impossible-evidence") => Ok(None),
        found => found.map(Some),
    }
}

/// A condition on a space with this many nodes before the first.
fn shifted(condition: &Condition, by: usize) -> Condition {
    let event = |event: &Event| match *event {
        Event::Chosen(i) => Event::Chosen(i + by),
        other => other,
    };
    match condition {
        Condition::Is(own) => Condition::Is(event(own)),
        Condition::Not(own) => Condition::Not(event(own)),
        Condition::Size { least, most } => Condition::Size { least: least + by, most: most + by },
        other => other.clone(),
    }
}

/// A partial order of some items.
struct Order {
    items: Vec<usize>,
    /// For each of these items, the set of those that come before it.
    before: Vec<usize>,
}

impl Order {
    /// None if there are too many items for exact sums.
    fn new(conditions: &[Condition], n: usize) -> Result<Option<Self>> {
        let fail = |message: String| Err(Error::argument("condition", message));
        let mut pairs = Vec::with_capacity(conditions.len());
        for condition in conditions {
            let (i, j) = match *condition {
                Condition::Is(Event::Before(i, j)) | Condition::Not(Event::Before(j, i)) => (i, j),
                _ => {
                    return fail(format!(
                        "plackett-luce has no `{condition}`, only the order of pairs of items"
                    ));
                }
            };
            if i == j || i.max(j) >= n {
                return fail(format!("`{condition}` is no pair of the {n} items"));
            }
            pairs.push((i, j));
        }
        let mut items: Vec<usize> = pairs.iter().flat_map(|&(i, j)| [i, j]).collect();
        items.sort_unstable();
        items.dedup();
        if items.len() > MOST_ITEMS {
            return Ok(None);
        }
        let mut before = vec![0; items.len()];
        for (i, j) in pairs {
            let place = |item: usize| items.partition_point(|&other| other < item);
            before[place(j)] |= 1 << place(i);
        }
        Ok(Some(Order { items, before }))
    }

    /// ln of the sum over the orders of the items that satisfy the conditions.
    fn log_probability(&self, scores: &[f64]) -> f64 {
        let (m, own): (usize, Vec<f64>) =
            (self.items.len(), self.items.iter().map(|&item| scores[item]).collect());
        let mut sums = vec![f64::NEG_INFINITY; 1 << m];
        sums[0] = 0.0;
        let (mut left, mut terms) = (Vec::with_capacity(m), Vec::with_capacity(m));
        // Pushes f(S) to the sets with one more item.
        for set in 0..sums.len() - 1 {
            if sums[set] == f64::NEG_INFINITY {
                continue;
            }
            left.clear();
            left.extend((0..m).filter(|i| set >> i & 1 == 0).map(|i| own[i]));
            let rest = log_sum_exp(&left);
            for i in (0..m).filter(|&i| set >> i & 1 == 0 && self.before[i] & !set == 0) {
                let next = set | 1 << i;
                terms.clear();
                terms.extend([sums[next], sums[set] + own[i] - rest]);
                sums[next] = log_sum_exp(&terms);
            }
        }
        sums.last().copied().unwrap_or(0.0).min(0.0)
    }
}
