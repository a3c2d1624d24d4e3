//! Bytes of charts and tables of rules, for forecasts.

use super::number::Wide;
use super::search::PENDING;
use super::solve::GROUP;
use super::{dense, free, listed};
use crate::model::{Hypertree, Rules, Symbols};
use crate::numeric::{Real, packed_bytes, padded_row};

/// The form of the rules that a chart is made with.
#[derive(Clone, Copy, PartialEq)]
pub enum Form {
    /// Of so low a rank; rank 1 without rules.
    Rank(f64),
    /// So many listed rules.
    Listed(f64),
    Dense,
}

impl Form {
    /// The form in which a model stores its rules.
    pub fn of<F: Real>(rules: &Rules<F>) -> Self {
        match (rules.rank(), rules) {
            (Some(rank), _) => Form::Rank(rank as f64),
            (None, Rules::Sparse { rules, .. }) => Form::Listed(rules.len() as f64),
            _ => Form::Dense,
        }
    }

    /// The form after [`additive`](super::divergence::additive).
    pub fn additive<F: Real>(rules: &Rules<F>) -> Self {
        match Form::of(rules) {
            Form::Rank(rank) if rank > 1.0 => Form::Dense,
            form => form,
        }
    }

    fn rank(self) -> Option<f64> {
        if let Form::Rank(rank) = self { Some(rank) } else { None }
    }
}

/// What charts are made for.
#[derive(Clone, Copy, Default)]
pub struct Need {
    /// The best tree, the symbols of spans, sums with derivatives, and expected numbers in the form of the model.
    pub best: bool,
    pub symbols: bool,
    pub slopes: bool,
    pub counts: bool,
}

/// Numbers of words, spans and symbols of a batch, and the form of its charts.
#[derive(Clone, Copy)]
pub struct Sizes {
    /// S, N and P.
    pub all: f64,
    pub heads: f64,
    pub tags: f64,
    pub words: f64,
    pub spans: f64,
    /// T and B.
    pub positions: f64,
    pub batch: f64,
    /// Sets of rules, charts, and charts that are worked on at once.
    pub sets: f64,
    pub groups: f64,
    pub active: f64,
    /// The largest number of words of a chart.
    pub group_words: f64,
    pub longest: f64,
    pub threads: f64,
    /// The length of the rows of spans and of words.
    pub row: f64,
    pub word_row: f64,
    pub form: Form,
    /// Whether scores of spans depend on the symbol, and whether there are unary rules.
    pub by_symbol: bool,
    pub unary: bool,
    /// Bytes of a number of the model.
    pub plain: f64,
}

/// Bytes of administration for every word and span (scales, norms and places) and for every sentence.
const PER_PART: f64 = 96.0;
pub const PER_SENTENCE: f64 = 1536.0;

/// Scores of words, spans and rules above which narrow numbers may underflow, and above which doubles may.
const NARROW: f64 = 20.0;
const DOUBLE: f64 = 150.0;

/// The bytes of a number of charts of sums. Charts of wider numbers are made beside those in which too much may have
/// been lost.
pub fn number<F: Real>(model: &Hypertree<F>, slopes: bool) -> f64 {
    let longest = model.lengths().iter().copied().max().unwrap_or(1) as f64;
    let each = model.magnitude() / (2.0 * longest - 1.0);
    let wide = size_of::<Wide>() as f64;
    match (slopes, size_of::<F>() == 4) {
        (true, _) => 16.0 + if each > DOUBLE { 2.0 * wide } else { 0.0 },
        (false, true) => 4.0 + if each > NARROW { 8.0 } else { 0.0 } + if each > DOUBLE { wide } else { 0.0 },
        (false, false) => 8.0 + if each > DOUBLE { wide } else { 0.0 },
    }
}

impl Sizes {
    /// Those of charts of all symbols; `row` is the length of the rows of spans.
    pub fn new<F: Real>(model: &Hypertree<F>, form: Form, row: f64, threads: usize) -> Self {
        let Symbols { all, heads, tags } = model.symbols();
        let each =
            |of: &dyn Fn(f64) -> f64| model.lengths().iter().map(|&length| of(length as f64)).sum::<f64>();
        let (words, alone) = (each(&|t| t), model.rules().per_sentence(model.symbols()));
        let longest = model.lengths().iter().copied().max().unwrap_or(0) as f64;
        let batch = model.batch() as f64;
        let groups = if alone { batch } else { (batch / GROUP as f64).ceil() };
        let unary = model.unary().is_some();
        Sizes {
            all: all as f64,
            heads: heads as f64,
            tags: tags as f64,
            words,
            spans: each(&|t| t * (t - 1.0) / 2.0),
            positions: model.positions() as f64,
            batch,
            sets: if alone { batch } else { 1.0 },
            groups,
            active: groups.min(threads as f64),
            group_words: words.min(longest * if alone { 1.0 } else { GROUP as f64 }),
            longest,
            threads: threads as f64,
            row,
            word_row: if unary { all as f64 } else { tags as f64 },
            form,
            by_symbol: model.spans().by_symbol(),
            unary,
            plain: size_of::<F>() as f64,
        }
    }

    /// The numbers of the rules of all sets.
    pub fn rules(&self) -> f64 {
        let Sizes { all, heads, .. } = *self;
        self.sets
            * match self.form {
                Form::Rank(rank) => (heads + 2.0 * all) * rank,
                Form::Listed(count) => count,
                Form::Dense => heads * all * all,
            }
    }

    /// Tables of rules that all charts share, with numbers of so many bytes; and what making them takes.
    pub fn table(&self, number: f64) -> f64 {
        let count = self.rules();
        // Sums in a direction need scores and slopes as doubles, one head at a time. Threads that find no table
        // make one each.
        let copies = if self.sets == 1.0 { self.active } else { 1.0 };
        match self.form {
            Form::Rank(_) => copies * count * number,
            Form::Listed(_) => copies * count * (number + 48.0) + 8.0 * (self.all + self.heads),
            Form::Dense => {
                copies * count * number + self.threads * self.all * self.all * 40.0 + 24.0 * self.heads
            }
        }
    }

    /// Numbers of a table that is padded for matrix products with dense rules, for every chart and every word.
    fn padded<F: Real>(&self, number: f64) -> (f64, f64) {
        let (heads, all) = (self.heads, self.all);
        let (width, stride) = if number > 8.0 {
            (heads, all)
        } else {
            (padded_row::<F>(heads as usize) as f64, padded_row::<F>(all as usize) as f64)
        };
        let (width, stride) = (width.max(padded_row::<f64>(heads as usize) as f64), stride + 16.0);
        (heads * width * (heads + width), heads * (stride + 3.0 * width))
    }

    /// The charts of all sentences.
    pub fn chart(&self, number: f64) -> f64 {
        let Sizes { words, spans, row, word_row, batch, heads, .. } = *self;
        let copies = if self.unary { 2.0 } else { 1.0 };
        let sides = self.form.rank().map_or(0.0, |rank| (2.0 * words + 3.0 * spans) * rank);
        number * (copies * (spans * row + words * word_row) + sides + batch * (heads + 1.0))
            + PER_PART * (words + spans)
            + PER_SENTENCE * batch
            + if self.form.rank().is_some() { 8.0 * self.groups * heads.max(row) } else { 0.0 }
    }

    /// Tables for matrix products with dense rules, which all charts share, and those of the charts.
    pub fn products<F: Real>(&self, number: f64) -> (f64, f64) {
        let sets = if self.sets == 1.0 { self.active } else { self.sets };
        match self.form {
            Form::Rank(rank) => (0.0, number * self.groups * 2.0 * rank * rank),
            Form::Listed(_) => (0.0, 0.0),
            Form::Dense => {
                let (square, word) = self.padded::<F>(number);
                // Large matrix products rearrange blocks, in memory that every thread keeps.
                let packed = self.threads * packed_bytes() as f64;
                (number * sets * square + packed, number * self.words * word)
            }
        }
    }

    /// Pairs of heads that are worked on at once.
    fn pairs<F: Real>(&self, number: f64) -> f64 {
        let width = padded_row::<F>(self.heads as usize) as f64 + 8.0;
        let one = self.heads * width;
        number * (self.group_words * one).min((dense::BLOCK as f64).max(one))
    }

    /// The work of an inside pass, beside its charts: rows of one width, and pairs.
    pub fn inside<F: Real>(&self, number: f64, compact: bool) -> f64 {
        let rows = self.group_words * self.row * 3.0 * number;
        let scores = match self.by_symbol && !compact {
            true => self.group_words * self.heads * 24.0 + self.threads * self.heads * 48.0,
            false => self.threads * self.heads * 16.0,
        };
        let divisions = match compact {
            true => {
                (self.threads + self.group_words) * self.longest * 192.0
                    + self.group_words * 48.0 * self.row
                    + 48.0 * self.heads
            }
            false => self.threads * self.longest * 192.0,
        };
        let pairs = match self.form {
            Form::Rank(rank) => self.group_words * rank * 3.0 * number,
            Form::Listed(count) => self.threads * (count + self.all) * number,
            Form::Dense if compact => 0.0,
            Form::Dense => {
                let width = self.heads + 16.0;
                self.pairs::<F>(number) + self.threads * width * (2.0 * self.longest + width) * number
            }
        };
        self.active * (rows + scores + divisions + pairs)
    }

    /// The work of an outside pass and the expected numbers that it collects, beside the chart.
    pub fn outside<F: Real>(&self, number: f64, compact: bool, counts: bool) -> f64 {
        let Sizes { words, spans, row, word_row, heads, all, tags, .. } = *self;
        let own = (spans * row + words * word_row) * number;
        let sides = self
            .form
            .rank()
            .map_or(0.0, |rank| (2.0 * words + 3.0 * spans + self.active * heads) * rank * number);
        let rows = self.active * (2.0 * self.group_words * row + 2.0 * self.group_words * word_row) * number;
        let (square, word) = self.padded::<F>(number);
        let (rules, work) = match self.form {
            Form::Rank(rank) => {
                (self.groups * (heads + 2.0 * all) * rank, self.active * self.group_words * rank * number)
            }
            Form::Listed(count) => {
                let block = listed::block(count as usize) as f64;
                let one = count * (16.0 + number) + 2.0 * all * number;
                let parts = self.longest * 2.0 * (row + 8.0) * number;
                let each = self.threads * (2.0 * count + 2.0 * all) * number;
                let own = 3.0 * self.groups * count * number;
                (self.groups * count, self.active * (block * (one + parts) + each) + own)
            }
            Form::Dense if compact => {
                let parts = kept_block() * self.longest * (2.0 * row * number + 128.0);
                let pairs = self.threads * self.longest * (row * row * number + 192.0);
                let index = if counts { 24.0 * spans + 32.0 * spans * row + 48.0 * heads } else { 0.0 };
                let sums = spans * row * number;
                (self.groups * heads * all * all, self.active * (parts + pairs) + index + sums)
            }
            Form::Dense => {
                // Pairs of the inside pass are kept.
                let of_rows = self.group_words * self.longest / 2.0 * (heads + 8.0) * number;
                let work = self.active * (3.0 * self.pairs::<F>(number) + square * number + of_rows)
                    + words * word * number;
                (self.groups * heads * all * all, work)
            }
        };
        let scores =
            if self.by_symbol && !compact { self.active * self.group_words * heads * 24.0 } else { 0.0 };
        if !counts {
            return own + sides + rows + work + scores;
        }
        // The numbers of rules in the precision of the chart and in that of the result.
        let conversion = if number == self.plain { 1.0 } else { 1.0 + number / self.plain };
        let of_spans = if self.by_symbol { spans * heads } else { spans };
        let collected = self.plain * (rules * conversion + words * tags + of_spans);
        own + sides + rows + work + scores + collected
    }

    /// A gradient with respect to a model with rules of this form.
    pub fn gradient<F: Real>(&self, model: &Hypertree<F>) -> f64 {
        let rules =
            if self.form == Form::of(model.rules()) { model.rules().len() as f64 } else { self.rules() };
        ((model.values() - model.rules().len()) as f64 + rules) * self.plain
    }

    /// The bytes of the charts of all sentences, with the work on them and the expected numbers of each chart.
    fn charts<F: Real>(&self, number: f64, need: Need) -> f64 {
        let (shared, own) = self.products::<F>(number);
        // Sums whose parts may have underflowed are certified by an outside pass.
        let outside = if need.best { 0.0 } else { self.outside::<F>(number, false, need.counts) };
        self.table(number) + shared + own + self.chart(number) + self.inside::<F>(number, false).max(outside)
    }

    /// The same for one sentence of the largest length, as a model of doubles with the same trees.
    fn longest(&self) -> Self {
        let words = self.longest;
        Sizes {
            words,
            spans: words * (words - 1.0) / 2.0,
            batch: 1.0,
            sets: 1.0,
            groups: 1.0,
            active: 1.0,
            group_words: words,
            plain: 8.0,
            ..*self
        }
    }
}

/// The sizes of the charts of a model in a form of its rules.
pub fn sizes<F: Real>(model: &Hypertree<F>, form: Form, need: Need, threads: usize) -> Sizes {
    let plain = !need.best && !need.symbols && !model.spans().by_symbol() && model.unary().is_none();
    let row = form.rank().filter(|_| plain).unwrap_or(model.symbols().heads as f64);
    Sizes::new(model, form, row, threads)
}

/// The bytes of the charts of a model in a form of its rules.
pub fn charts<F: Real>(model: &Hypertree<F>, form: Form, need: Need, threads: usize) -> f64 {
    let sizes = sizes(model, form, need, threads);
    let stored = form == Form::of(model.rules());
    if stored && matches!(model.rules(), Rules::Any) && model.unary().is_none() && !need.best && !need.slopes
    {
        let counts = if need.counts { sizes.gradient(model) } else { 0.0 };
        return without_rules(model, &sizes) + counts;
    }
    sizes.charts::<F>(if need.best { 8.0 } else { number(model, need.slopes) }, need)
}

/// The bytes of a table of the rules of all sets as doubles.
pub fn table<F: Real>(model: &Hypertree<F>, form: Form) -> f64 {
    8.0 * Sizes::new(model, form, 0.0, 1).rules()
}

/// The largest number of candidates of a search for the best tree, by at most `steps` steps.
pub fn candidates<F: Real>(model: &Hypertree<F>, steps: usize) -> f64 {
    let Symbols { all, heads, .. } = model.symbols();
    let (all, heads) = (all as f64, heads as f64);
    let longest = model.lengths().iter().copied().max().unwrap_or(0) as f64;
    let parts = longest * (longest + 1.0) / 2.0;
    (steps as f64 * (all + 1.0)).min(PENDING as f64).min(parts * heads * longest * all * all)
}

/// The bytes of the search for the best tree with low-rank rules, by at most `steps` steps, of the sentences that are
/// searched at once: bounds, factors, candidates and the best trees of parts.
pub fn searched<F: Real>(model: &Hypertree<F>, steps: usize, threads: usize) -> f64 {
    const PER_CANDIDATE: f64 = 100.0;
    const PER_TREE: f64 = 128.0;
    let Symbols { all, heads, .. } = model.symbols();
    let (all, heads, rank) = (all as f64, heads as f64, model.rules().rank().unwrap_or(1) as f64);
    let longest = model.lengths().iter().copied().max().unwrap_or(0) as f64;
    let parts = longest * (longest + 1.0) / 2.0;
    let bounds = parts * (8.0 * all + 16.0 * rank + 256.0) + 8.0 * rank * (2.0 * heads + 2.0 * all);
    let candidates = candidates(model, steps);
    let trees = (parts * heads).min(steps as f64);
    (threads as f64).min(model.batch() as f64) * (bounds + PER_CANDIDATE * candidates + PER_TREE * trees)
}

/// The bytes of the search for the k best trees beside the chart of best scores: of the sentences that are searched
/// at once, the ways to build parts, and the rows of scores.
pub fn ranked<F: Real>(model: &Hypertree<F>, k: usize, threads: usize) -> f64 {
    const PER_WAY: f64 = 64.0;
    const PER_ITEM: f64 = 640.0;
    const PER_TREE: f64 = 512.0;
    let Symbols { all, heads, .. } = model.symbols();
    let (all, heads, k) = (all as f64, heads as f64, k as f64);
    let longest = model.lengths().iter().copied().max().unwrap_or(0) as f64;
    let spans = longest * (longest - 1.0) / 2.0;
    let ways = match model.rules() {
        Rules::Sparse { rules, .. } => rules.len() as f64,
        _ => all * all,
    };
    // Every tree asks for the next tree of each part of another at most.
    let asked = 2.0 * longest * k;
    let items = (spans * heads + longest * all).min(asked);
    let each = items * (PER_ITEM + PER_WAY * k.min(longest * ways)) + PER_TREE * asked;
    let rows = (spans + longest) * (8.0 * all + 96.0) * if model.unary().is_some() { 2.0 } else { 1.0 };
    let spare = 3.0 * PER_WAY * (k + 4096.0).min(longest * ways);
    (threads as f64).min(model.batch() as f64) * (each + rows + spare)
}

/// The bytes of the search for a tree that p admits and q forbids; 0 if q forbids nothing.
pub fn support<F: Real>(
    (p, of_p): (&Hypertree<F>, Form),
    (q, of_q): (&Hypertree<F>, Form),
    threads: usize,
) -> f64 {
    let need = Need { counts: true, ..Need::default() };
    let (own, other) = (sizes(p, of_p, need, threads), sizes(q, of_q, need, threads));
    // Lists of the scores of words, roots and unary rules of both models.
    let lists = |model: &Hypertree<F>| {
        let unary = model.unary().map_or(0, |unary| unary.scores().len());
        (model.words().len() + model.roots().len() + unary) as f64 * size_of::<F>() as f64
    };
    let lists = lists(p) + lists(q);
    if of_q == Form::of(q.rules()) && !q.has_zeros() {
        return lists;
    }
    // The trees of p of positive weight, as doubles; of one sentence in turn the same, its gradient, and the scores
    // of both models.
    let of_all = own.gradient(p) * 8.0 / own.plain;
    let one = own.longest();
    2.0 * lists + of_all * 3.0 + own.gradient(p) + other.gradient(q) + one.charts::<f64>(8.0, need)
}

/// The bytes of a table of dense rules, if those of a model become dense.
pub fn expanded<F: Real>(model: &Hypertree<F>, form: Form) -> f64 {
    let stored = form == Form::of(model.rules()) || form != Form::Dense;
    let sizes = Sizes::new(model, form, 0.0, 1);
    if stored { 0.0 } else { sizes.rules() * sizes.plain }
}

/// The spans whose derivatives are kept at once.
fn kept_block() -> f64 {
    super::kept::BLOCK as f64
}

/// The bytes of charts without rules.
pub fn without_rules<F: Real>(model: &Hypertree<F>, sizes: &Sizes) -> f64 {
    let charts: f64 = model.lengths().iter().map(|&length| free::bytes(length as f64)).sum();
    charts + sizes.threads * sizes.longest * sizes.heads.max(sizes.tags) * 24.0
}
