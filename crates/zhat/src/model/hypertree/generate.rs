//! Random trees over words.

use super::{Hypertree, Rule, Rules, Spans, Symbols};
use crate::error::{Error, Result};
use crate::model::generate::affordable;
use crate::numeric::Real;
use crate::random::Streams;

/// The form of random rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleForm {
    /// Every pair is allowed, with score 0.
    Any,
    /// A score for every head and pair.
    Dense,
    /// This many rules.
    Sparse(usize),
    /// Factors of this rank.
    LowRank(usize),
}

/// The form of random scores of spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanForm {
    /// None.
    None,
    /// A score for every span.
    PerSpan,
    /// A score for every span and symbol.
    PerSymbol,
    /// Embeddings of this length.
    Factored(usize),
}

/// Sizes and strengths of a random [`Hypertree`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HypertreeShape {
    /// T.
    pub words: usize,
    /// B.
    pub batch: usize,
    /// Random lengths between 1 and T; the first sentence always has T words.
    pub ragged: bool,
    /// The symbols.
    pub symbols: Symbols,
    /// The form of the rules.
    pub rules: RuleForm,
    /// One set of rules and roots per sentence; not for sparse rules.
    pub per_sentence: bool,
    /// The form of the scores of spans.
    pub spans: SpanForm,
    /// The standard deviation of the scores.
    pub strength: f64,
    /// The fraction of scores that is −∞, except in embeddings.
    pub zeros: f64,
}

impl Default for HypertreeShape {
    fn default() -> Self {
        HypertreeShape {
            words: 10,
            batch: 1,
            ragged: false,
            symbols: Symbols { all: 15, heads: 5, tags: 10 },
            rules: RuleForm::Dense,
            per_sentence: false,
            spans: SpanForm::None,
            strength: 1.0,
            zeros: 0.0,
        }
    }
}

/// Sentences and rules with N(0, strength²) scores.
///
/// # Errors
/// If a size is 0, there are more sparse rules than triples, `zeros` is not between 0 and 1, `strength` is not
/// finite, or the scores do not fit in memory.
///
/// ```
/// use zhat::model::generate::{hypertree, HypertreeShape, RuleForm};
/// let shape = HypertreeShape { words: 8, rules: RuleForm::LowRank(4), ..Default::default() };
/// assert_eq!(hypertree::<f32>(&shape, 7)?.rules().rank(), Some(4));
/// # Ok::<(), zhat::Error>(())
/// ```
pub fn hypertree<F: Real>(shape: &HypertreeShape, seed: u64) -> Result<Hypertree<F>> {
    let &HypertreeShape { words, batch, ragged, symbols, rules, per_sentence, spans, strength, zeros } =
        shape;
    let Symbols { all, heads, tags } = symbols;
    for (name, count) in [("words", words), ("batch", batch), ("heads", heads), ("tags", tags)] {
        if count == 0 {
            return Err(Error::argument(name, "must be at least 1"));
        }
    }
    if !(0.0..=1.0).contains(&zeros) {
        return Err(Error::argument("zeros", format!("{zeros} is not a fraction between 0 and 1")));
    }
    if !strength.is_finite() {
        return Err(Error::argument("strength", format!("{strength} is not finite")));
    }
    let sets = if per_sentence { batch } else { 1 };
    let (n, s, cells) = (heads as f64, all as f64, batch as f64 * (words as f64).powi(2));
    let of_rules = match rules {
        RuleForm::Any => 0.0,
        RuleForm::Dense => sets as f64 * n * s * s,
        RuleForm::Sparse(count) if count as f64 > n * s * s => {
            return Err(Error::argument("rules", format!("{count} is more than all {} triples", n * s * s)));
        }
        RuleForm::Sparse(count) => count as f64,
        RuleForm::LowRank(0) => return Err(Error::argument("rank", "must be at least 1")),
        RuleForm::LowRank(rank) => sets as f64 * rank as f64 * (n + 2.0 * s),
    };
    let of_spans = match spans {
        SpanForm::None => 0.0,
        SpanForm::PerSpan => cells,
        SpanForm::PerSymbol => cells * n,
        SpanForm::Factored(0) => return Err(Error::argument("embedding", "must be at least 1")),
        SpanForm::Factored(size) => (cells + n) * size as f64,
    };
    let count = of_rules + of_spans + batch as f64 * words as f64 * tags as f64;
    // `affordable` assumes 32 bytes per number; arrays need less.
    affordable(count * size_of::<F>() as f64 / 16.0)?;
    let streams = Streams::new(seed, "generate hypertree");
    let mut random = streams.block(0);
    let length = |b| if ragged && b > 0 { 1 + random.below(words) } else { words };
    let lengths: Vec<usize> = (0..batch).map(length).collect();
    let mut next = 1;
    let mut scores = |count: usize, scale: f64, zeros: f64| -> Vec<F> {
        let mut random = streams.block(next);
        next += 1;
        let score = |_| {
            let (score, zero) = (scale * strength * random.normal(), random.uniform() < zeros);
            if zero { F::NEG_INFINITY } else { F::from_f64(score) }
        };
        (0..count).map(score).collect()
    };
    let of_words = scores(batch * words * tags, 1.0, zeros);
    let of_roots = scores(sets * heads, 1.0, zeros);
    let built = match rules {
        RuleForm::Any => Rules::Any,
        RuleForm::Dense => Rules::Dense(scores(sets * heads * all * all, 1.0, zeros).into()),
        RuleForm::Sparse(count) => {
            let mut random = streams.block(1000);
            let mut chosen = std::collections::BTreeSet::new();
            while chosen.len() < count {
                let (head, left, right) = (random.below(heads), random.below(all), random.below(all));
                chosen.insert(Rule { head, left, right });
            }
            Rules::Sparse {
                rules: chosen.into_iter().collect::<Vec<_>>().into(),
                scores: scores(count, 1.0, zeros).into(),
            }
        }
        RuleForm::LowRank(rank) => Rules::LowRank {
            rank,
            heads: scores(sets * heads * rank, 1.0, zeros).into(),
            left: scores(sets * all * rank, 1.0, zeros).into(),
            right: scores(sets * all * rank, 1.0, zeros).into(),
        },
    };
    let of_spans = match spans {
        SpanForm::None => Spans::None,
        SpanForm::PerSpan => Spans::PerSpan(scores(batch * words * words, 1.0, zeros).into()),
        SpanForm::PerSymbol => Spans::PerSymbol(scores(batch * words * words * heads, 1.0, zeros).into()),
        SpanForm::Factored(size) => {
            // The scores of spans then have the standard deviation of the others.
            let scale = (size as f64).powf(-0.25);
            Spans::Factored {
                spans: scores(batch * words * words * size, scale, 0.0).into(),
                symbols: scores(heads * size, scale, 0.0).into(),
            }
        }
    };
    Hypertree::new(symbols, of_words.into(), lengths, built)?
        .with_roots(of_roots.into())?
        .with_spans(of_spans)
}
