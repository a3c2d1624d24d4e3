//! Entropy, divergences and expectations of scores: derivatives of log Z in the direction of scores.
//!
//! E_p[s_q] = d/dε log Z(s_p + ε·s_q), so H(p) = log Z_p − E_p[s_p] and −E_p[log q] = log Z_q − E_p[s_q].

use std::borrow::Cow;

use super::pass::Purpose;
use super::solve::{Passes, Solutions, solve};
use super::{InsideOutside, answer_within, rounding, some_partition};
use crate::answer::Answer;
use crate::error::{Error, Result};
use crate::model::{Hypertree, Rules, Spans, Values};
use crate::numeric::Real;
use crate::query::tree::{HypertreeGradient, RuleGradient, SpanGradient};
use crate::query::{Divergence, Expectation};
use crate::run::{Clock, Run};

/// A model whose score is a sum of stored scores: rules of rank 2 and more become dense.
pub fn additive<'a, F: Real>(model: &'a Hypertree<F>, clock: &Clock<'_>) -> Result<Cow<'a, Hypertree<F>>> {
    Ok(match model.rules() {
        Rules::LowRank { rank, .. } if *rank > 1 => Cow::Owned(dense(model, clock)?),
        _ => Cow::Borrowed(model),
    })
}

/// The same model with dense rules.
pub fn dense<F: Real>(model: &Hypertree<F>, clock: &Clock<'_>) -> Result<Hypertree<F>> {
    let table = model.rules().expanded(model.symbols(), model.batch(), &|| clock.check())?;
    Ok(model.with_rules(Rules::Dense(table)))
}

/// Whether the rules of two models have the same form once those of rank 2 and more are dense.
pub fn same_form<F: Real>(p: &Hypertree<F>, q: &Hypertree<F>) -> bool {
    let hidden = |rules: &Rules<F>| rules.rank().is_some_and(|rank| rank > 1);
    let is_dense = |rules: &Rules<F>| matches!(rules, Rules::Dense(_)) || hidden(rules);
    match (p.rules(), q.rules()) {
        (Rules::Any, Rules::Any) => true,
        (Rules::LowRank { rank: 1, .. }, Rules::LowRank { rank: 1, .. }) => true,
        (Rules::Sparse { rules: a, .. }, Rules::Sparse { rules: b, .. }) => a == b,
        (p, q) => is_dense(p) && is_dense(q),
    }
}

/// A model and another one, as they are or with other rules.
type Two<'a, F> = (Cow<'a, Hypertree<F>>, Cow<'a, Hypertree<F>>);

/// Two models whose rules have the same form.
pub fn of_one_form<'a, F: Real>(
    p: &'a Hypertree<F>,
    q: &'a Hypertree<F>,
    clock: &Clock<'_>,
) -> Result<Two<'a, F>> {
    let as_dense = |model: &'a Hypertree<F>| {
        Ok(match model.rules() {
            Rules::Dense(_) => Cow::Borrowed(model),
            _ => Cow::Owned(dense(model, clock)?),
        })
    };
    match same_form(p, q) {
        true => Ok((additive(p, clock)?, additive(q, clock)?)),
        false => Ok((as_dense(p)?, as_dense(q)?)),
    }
}

/// H = log Z − E[score]; −∞ for sentences without a tree.
pub fn entropies<F: Real>(solutions: &Solutions<F>, model: &Hypertree<F>) -> Result<Vec<f64>> {
    let log_z = some_partition(solutions, model)?;
    let means = solutions.means(model.batch());
    let of = |(log_z, mean): (&f64, f64)| if log_z.is_finite() { (log_z - mean).max(0.0) } else { *log_z };
    Ok(log_z.iter().zip(means).map(of).collect())
}

/// An error if p and q cannot be compared.
pub fn check_shapes<F: Real>(p: &Hypertree<F>, q: &Hypertree<F>) -> Result<()> {
    let rules = |model: &Hypertree<F>| model.unary().map(|unary| unary.rules().to_vec());
    if (p.lengths(), p.positions(), p.symbols()) != (q.lengths(), q.positions(), q.symbols())
        || rules(p) != rules(q)
    {
        return Err(Error::model(
            "the models differ in lengths, symbols or unary rules, which must be the same",
        ));
    }
    Ok(())
}

impl<F: Passes> Divergence<Hypertree<F>> for InsideOutside {
    fn cross_entropy(&self, p: &Hypertree<F>, q: &Hypertree<F>, run: &Run) -> Result<Answer<Vec<f64>>> {
        divergence(p, q, false, run)
    }

    fn kl(&self, p: &Hypertree<F>, q: &Hypertree<F>, run: &Run) -> Result<Answer<Vec<f64>>> {
        divergence(p, q, true, run)
    }
}

fn divergence<F: Passes>(
    p: &Hypertree<F>,
    q: &Hypertree<F>,
    kl: bool,
    run: &Run,
) -> Result<Answer<Vec<f64>>> {
    check_shapes(p, q)?;
    let bytes = InsideOutside::bytes_of_two(p, q, true, run);
    let mut found = answer_within(p, bytes, run, |clock| {
        let (p, q) = of_one_form(p, q, clock)?;
        let values = divergences(&p, &q, kl, clock)?;
        // A divergence is −∞ only if p has no tree.
        Ok((values.clone(), values))
    })?;
    found.diagnostics.rounding =
        4.0 * (found.diagnostics.rounding + rounding(q)) * (1.0 + p.magnitude() + q.magnitude());
    Ok(found)
}

/// −E_p[log q], or KL = E_p[log p − log q]; +∞ if q forbids a tree of p, −∞ if p has no tree.
pub fn divergences<F: Passes>(
    p: &Hypertree<F>,
    q: &Hypertree<F>,
    kl: bool,
    clock: &Clock<'_>,
) -> Result<Vec<f64>> {
    let direction: &[(f64, &Hypertree<F>)] = if kl { &[(1.0, p), (-1.0, q)] } else { &[(-1.0, q)] };
    let of_p = solve(p, direction, Purpose::Sums, None, clock)?;
    let (log_p, means) = (some_partition(&of_p, p)?, of_p.means(p.batch()));
    drop(of_p);
    let log_q = solve(q, &[], Purpose::Sums, None, clock)?.log_partition(q.batch());
    let forbidden = forbidden(p, q, clock)?;
    let of = |b: usize| {
        if log_p[b] == f64::NEG_INFINITY {
            return f64::NEG_INFINITY;
        }
        if forbidden[b] || log_q[b] == f64::NEG_INFINITY {
            return f64::INFINITY;
        }
        let value = means[b] + log_q[b];
        if kl { (value - log_p[b]).max(0.0) } else { value }
    };
    Ok((0..p.batch()).map(of).collect())
}

impl<F: Passes> Expectation<Hypertree<F>> for InsideOutside {
    fn expectation(
        &self,
        model: &Hypertree<F>,
        scores: &Hypertree<F>,
        run: &Run,
    ) -> Result<Answer<Vec<f64>>> {
        check_shapes(model, scores)?;
        let bytes = InsideOutside::bytes_of_two(model, scores, false, run);
        let mut found = answer_within(model, bytes, run, |clock| {
            let (model, scores) = of_one_form(model, scores, clock)?;
            expectations(&model, &scores, clock)
        })?;
        found.diagnostics.rounding *= 4.0 * (1.0 + scores.magnitude());
        Ok(found)
    }
}

/// E[score of another model], which is −∞ if it forbids a tree of the model, or there is no tree; and log Z of the
/// model.
pub fn expectations<F: Passes>(
    model: &Hypertree<F>,
    scores: &Hypertree<F>,
    clock: &Clock<'_>,
) -> Result<(Vec<f64>, Vec<f64>)> {
    let solutions = solve(model, &[(1.0, scores)], Purpose::Sums, None, clock)?;
    let log_z = some_partition(&solutions, model)?;
    let means = solutions.means(model.batch());
    drop(solutions);
    let forbidden = forbidden(model, scores, clock)?;
    let none = f64::NEG_INFINITY;
    let of = |b: usize| if log_z[b] == none || forbidden[b] { none } else { means[b] };
    Ok(((0..model.batch()).map(of).collect(), log_z))
}

/// Whether q has weight zero for something that some tree of p uses, for each sentence.
fn forbidden<F: Real>(p: &Hypertree<F>, q: &Hypertree<F>, clock: &Clock<'_>) -> Result<Vec<bool>> {
    let zero = |x: &F| *x == F::NEG_INFINITY;
    let suspects =
        |of_p: &[F], of_q: &[F]| -> bool { of_p.iter().zip(of_q).any(|(p, q)| !zero(p) && zero(q)) };
    let lists = |model: &Hypertree<F>| -> Vec<Values<F>> {
        let mut lists: Vec<Values<F>> = vec![model.words().to_vec().into(), model.roots().to_vec().into()];
        lists.extend(match model.rules() {
            Rules::Dense(values) | Rules::Sparse { scores: values, .. } => vec![values.clone()],
            Rules::LowRank { heads, left, right, .. } => vec![heads.clone(), left.clone(), right.clone()],
            Rules::Any => Vec::new(),
        });
        lists.extend(match model.spans() {
            Spans::PerSpan(values) | Spans::PerSymbol(values) => Some(values.clone()),
            _ => None,
        });
        lists.extend(model.unary().map(|unary| unary.scores().to_vec().into()));
        lists
    };
    let (of_p, of_q) = (lists(p), lists(q));
    // Arrays with one set for the batch or one per sentence, or spans in another form, are compared by trees.
    let same = of_p.len() == of_q.len() && of_p.iter().zip(&of_q).all(|(a, b)| a.len() == b.len());
    if same && !of_p.iter().zip(&of_q).any(|(p, q)| suspects(p, q)) {
        return Ok(vec![false; p.batch()]);
    }
    if !same {
        return Err(Error::model(
            "the models differ in the form of their rules or spans, or in what is given per sentence, which must \
             be the same",
        ));
    }
    // All positive weights equal, so that no expected number underflows.
    let support = p.support();
    let mut found = Vec::with_capacity(p.batch());
    for b in 0..p.batch() {
        let own = support.only(b);
        let solutions = solve(&own, &[], Purpose::Sums, Some(&[1.0]), clock)?;
        let gradient = solutions.gradient(&own, &own, &[1.0], clock)?;
        let used = arrays(&gradient);
        let (of_p, of_q) = (lists(&p.only(b)), lists(&q.only(b)));
        let each = of_p.iter().zip(&of_q).zip(used);
        let bad = |((p, q), used): ((&Values<F>, &Values<F>), &[f64])| {
            p.iter().zip(q.iter()).zip(used).any(|((p, q), used)| *used > 0.0 && !zero(p) && zero(q))
        };
        found.push(each.into_iter().any(bad));
    }
    Ok(found)
}

/// The arrays of a gradient in the order of those of a model.
fn arrays<F>(gradient: &HypertreeGradient<F>) -> Vec<&[F]> {
    let mut arrays: Vec<&[F]> = vec![&gradient.words, &gradient.roots];
    match &gradient.rules {
        RuleGradient::None => {}
        RuleGradient::Scores(values) => arrays.push(values),
        RuleGradient::LowRank { heads, left, right } => arrays.extend([&heads[..], left, right]),
    }
    if let SpanGradient::Scores(values) = &gradient.spans {
        arrays.push(values);
    }
    if !gradient.unary.is_empty() {
        arrays.push(&gradient.unary);
    }
    arrays
}

/// The gradient with respect to a model from that with respect to the model that [`additive`] or
/// [`of_one_form`] made of it: dense rules become factors again.
pub fn to_form<F: Real>(model: &Hypertree<F>, gradient: HypertreeGradient<F>) -> HypertreeGradient<F> {
    let (Rules::LowRank { rank, heads, left, right }, RuleGradient::Scores(scores)) =
        (model.rules(), &gradient.rules)
    else {
        return match (model.rules(), &gradient.rules) {
            (Rules::Any, RuleGradient::Scores(_)) => {
                HypertreeGradient { rules: RuleGradient::None, ..gradient }
            }
            (Rules::Sparse { rules, .. }, RuleGradient::Scores(scores)) if scores.len() != rules.len() => {
                let all = model.symbols().all;
                let own =
                    |rule: &crate::model::Rule| scores[(rule.head * all + rule.left) * all + rule.right];
                let rules = RuleGradient::Scores(rules.iter().map(own).collect());
                HypertreeGradient { rules, ..gradient }
            }
            _ => gradient,
        };
    };
    let crate::model::Symbols { all, heads: count, .. } = model.symbols();
    let square = count * all * all;
    let mut to = [vec![0.0f64; heads.len()], vec![0.0; left.len()], vec![0.0; right.len()]];
    for (at, &x) in scores.iter().enumerate().filter(|(_, x)| x.to_f64() != 0.0) {
        let (b, k, a, c) = (at / square, at / (all * all) % count, at / all % all, at % all);
        let total = model.rules().score(model.symbols(), b, k, a, c);
        let first = |values: &[F], rows: usize, row: usize| {
            (if values.len() > rows * rank { b * rows * rank } else { 0 }) + row * rank
        };
        let (u, v, w) = (first(heads, count, k), first(left, all, a), first(right, all, c));
        for r in 0..*rank {
            let log = heads[u + r].to_f64() + left[v + r].to_f64() + right[w + r].to_f64() - total;
            let share = if log > f64::NEG_INFINITY { x.to_f64() * log.exp() } else { 0.0 };
            to[0][u + r] += share;
            to[1][v + r] += share;
            to[2][w + r] += share;
        }
    }
    let [heads, left, right] = to.map(|values| values.into_iter().map(F::from_f64).collect());
    HypertreeGradient { rules: RuleGradient::LowRank { heads, left, right }, ..gradient }
}
