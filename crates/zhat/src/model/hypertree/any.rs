//! A batch of trees over words as a dynamic model: summary, tensors, evidence and answers.

use std::sync::Arc;

use super::{Hypertree, Rule, Rules, Spans, Symbols, TreeNames, UnaryRule};
use crate::error::{Error, Result};
use crate::model::any::{self, AnyModel, Batch, Kind, Model, StateForm, Summary};
use crate::model::evidence::{Evidence, parse_position};
use crate::model::tree::{NamedTree, TreeKind};
use crate::numeric::Real;
use crate::query::sequence::PathSamples;
use crate::query::tree::{HypertreeGradient, ParseTree, RuleGradient, SpanGradient, SpanMarginals};
use crate::query::{
    Answers, AnyValue, BestState, Draws, HasFactorMarginals, HasMarginals, HasStates, IntoValue, Law,
    StateList,
};
use crate::suggest;
use crate::tensor::{Precision, Tensor, TensorMap};
use crate::units;

impl Hypertree {
    /// The name of the kind, for either precision.
    pub const KIND: Kind = Kind::new("hypertree");
}

/// One number for each sentence.
impl<F: Real> Answers for Hypertree<F> {
    type Number = Vec<f64>;
}

impl<F: Real> HasMarginals for Hypertree<F> {
    type Marginals = SpanMarginals<F>;
}

/// The gradient of Σ_b log Z_b.
impl<F: Real> HasFactorMarginals for Hypertree<F> {
    type FactorMarginals = HypertreeGradient<F>;
}

impl<F: Real> HasStates for Hypertree<F> {
    type Best = Vec<ParseTree>;
    type Ranked = Vec<Vec<ParseTree>>;
    type Samples = PathSamples<ParseTree>;
}

/// The names and shapes of the tensors of a model, in the order of its file.
struct Shapes {
    words: [usize; 3],
    roots: Vec<usize>,
    spans: Vec<usize>,
    symbol_embeddings: Vec<usize>,
    rules: Vec<usize>,
    factors: [Vec<usize>; 3],
}

impl<F: Real> Hypertree<F> {
    fn shapes(&self) -> Shapes {
        let (batch, positions, Symbols { all, heads, tags }) =
            (self.batch(), self.positions(), self.symbols());
        // One set, or one per sentence.
        let sets = |length: usize, shape: &[usize]| -> Vec<usize> {
            let one: usize = shape.iter().product();
            (length > one).then_some(batch).into_iter().chain(shape.iter().copied()).collect()
        };
        let (mut rules, mut factors) = (Vec::new(), [const { Vec::new() }; 3]);
        match self.rules() {
            Rules::Any => {}
            Rules::Dense(values) => rules = sets(values.len(), &[heads, all, all]),
            Rules::Sparse { scores, .. } => rules = vec![scores.len()],
            Rules::LowRank { rank, heads: u, left, right } => {
                factors = [
                    sets(u.len(), &[heads, *rank]),
                    sets(left.len(), &[all, *rank]),
                    sets(right.len(), &[all, *rank]),
                ];
            }
        }
        let (mut spans, mut symbol_embeddings) = (vec![batch, positions, positions], Vec::new());
        match self.spans() {
            Spans::None | Spans::PerSpan(_) => {}
            Spans::PerSymbol(_) => spans.push(heads),
            Spans::Factored { symbols, .. } => {
                spans.push(symbols.len() / heads);
                symbol_embeddings = vec![heads, symbols.len() / heads];
            }
        }
        Shapes {
            words: [batch, positions, tags],
            roots: sets(self.roots().len(), &[heads]),
            spans,
            symbol_embeddings,
            rules,
            factors,
        }
    }
}

impl<F: Precision> AnyModel for Hypertree<F> {
    fn kind(&self) -> Kind {
        Hypertree::KIND
    }

    fn summary(&self) -> Summary {
        let (batch, words, Symbols { all, heads, tags }) = (self.batch(), self.positions(), self.symbols());
        let total: usize = self.lengths().iter().sum();
        let shortest = self.lengths().iter().copied().min().unwrap_or(0);
        let sentences = match batch {
            1 => format!("1 of {total} words"),
            _ if shortest == words => format!("{batch} of {words} words each"),
            _ => format!("{batch} of {shortest} to {words} words, {total} in all"),
        };
        let form = match self.rules() {
            Rules::Any => "every pair".to_owned(),
            Rules::Dense(_) => format!("dense, {heads} × {all} × {all}"),
            Rules::Sparse { rules, .. } => format!("{}", rules.len()),
            Rules::LowRank { rank, .. } => format!("rank {rank}"),
        };
        let sets = if self.rules().per_sentence(self.symbols()) { ", one set per sentence" } else { "" };
        let mut summary = Summary::default()
            .figure("precision", F::NAME)
            .figure("batch", batch)
            .figure("words", words)
            .figure("shortest", shortest)
            .figure("positions", total)
            .figure("symbols", all)
            .figure("heads", heads)
            .figure("tags", tags)
            .figure("rules", self.rules().form())
            .figure("spans", self.spans().form())
            .figure("values", self.values())
            .figure("bytes", self.bytes())
            .line("kind", format!("{}, {}", Hypertree::KIND, F::NAME))
            .line("sentences", sentences)
            .line("symbols", format!("{all}: {heads} can be divided, {tags} cover single words"))
            .line("rules", form + sets);
        if let Some(rank) = self.rules().rank().filter(|_| !self.rules().is_empty()) {
            summary = summary.figure("rank", rank);
        }
        if let Some(unary) = self.unary() {
            let count = unary.rules().len();
            summary = summary.figure("unary", count).line("unary rules", count.to_string());
        }
        if !self.spans().is_empty() {
            summary = summary.line("span scores", self.spans().form());
        }
        summary.line("numbers", format!("{}, {}", self.values(), units::bytes(self.bytes() as f64)))
    }

    fn tensors(&self) -> Vec<Tensor<'_>> {
        let (shapes, Symbols { all, heads, tags }) = (self.shapes(), self.symbols());
        let mut list = vec![
            Tensor::integers("lengths", &[self.batch()], self.lengths().iter().copied()),
            Tensor::integers("symbols", &[3], [all, heads, tags]),
            Tensor::new("words", &shapes.words, self.words()),
            Tensor::new("roots", &shapes.roots, self.roots()),
        ];
        match self.rules() {
            Rules::Any => {}
            Rules::Dense(values) => list.push(Tensor::new("rules", &shapes.rules, &values[..])),
            Rules::Sparse { rules, scores } => {
                let numbers = rules.iter().flat_map(|rule| [rule.head, rule.left, rule.right]);
                list.push(Tensor::integers("rule_symbols", &[rules.len(), 3], numbers));
                list.push(Tensor::new("rules", &shapes.rules, &scores[..]));
            }
            Rules::LowRank { heads, left, right, .. } => {
                let [of_heads, of_left, of_right] = &shapes.factors;
                list.push(Tensor::new("rule_heads", of_heads, &heads[..]));
                list.push(Tensor::new("rule_left", of_left, &left[..]));
                list.push(Tensor::new("rule_right", of_right, &right[..]));
            }
        }
        match self.spans() {
            Spans::None => {}
            Spans::PerSpan(values) | Spans::PerSymbol(values) => {
                list.push(Tensor::new("spans", &shapes.spans, &values[..]));
            }
            Spans::Factored { spans, symbols } => {
                list.push(Tensor::new("span_embeddings", &shapes.spans, &spans[..]));
                list.push(Tensor::new("symbol_embeddings", &shapes.symbol_embeddings, &symbols[..]));
            }
        }
        if let Some(unary) = self.unary() {
            let numbers = unary.rules().iter().flat_map(|rule| [rule.head, rule.child]);
            list.push(Tensor::integers("unary_symbols", &[unary.rules().len(), 2], numbers));
            list.push(Tensor::new("unary", &[unary.rules().len()], unary.scores()));
        }
        list
    }

    fn texts(&self) -> Vec<(&'static str, String)> {
        let names = self.names().and_then(|names| serde_json::to_string(names).ok());
        names.map(|names| ("names", names)).into_iter().collect()
    }

    fn equals(&self, other: &dyn AnyModel) -> bool {
        any::equal(self, other)
    }

    fn condition(&self, evidence: &[Evidence]) -> Result<Model> {
        Ok(self.condition_on(evidence)?.into())
    }

    /// The symbol is given by its name or its number.
    fn parse_evidence(&self, text: &str) -> Result<Evidence> {
        parse_position(text, Hypertree::batch(self), |symbol| {
            let (names, symbol) = (self.names()?, symbol.trim());
            let named = names.symbols.iter().position(|name| name == symbol);
            let number = named.or_else(|| symbol.parse().ok());
            Some(number.ok_or_else(|| {
                let known: Vec<&str> = names.symbols.iter().map(String::as_str).collect();
                let hint = suggest::hint(symbol, &known);
                Error::argument("evidence", format!("there is no symbol `{symbol}`{hint}"))
            }))
        })
    }

    fn batch(&self) -> Option<Batch<'_>> {
        Some(Batch { item: "sentence", lengths: self.lengths() })
    }

    fn state_size(&self) -> usize {
        self.lengths().iter().map(|length| 2 * length - 1).sum()
    }

    fn state_form(&self) -> StateForm {
        StateForm { name: "nodes", columns: &["first", "last", "symbol"] }
    }

    fn tree_kind(&self) -> Option<TreeKind> {
        Some(TreeKind::Constituency)
    }

    fn named_tree(&self, item: usize, state: &[usize]) -> Option<NamedTree> {
        NamedTree::constituency(state, item, self.names())
    }

    fn headings(&self, tensor: &str) -> (Vec<&'static str>, &'static str) {
        match tensor {
            "marginals" => (vec!["sentence", "first", "last"], "expected number of nodes with each symbol"),
            _ => (vec![], "expected number"),
        }
    }

    fn entry_label(&self, tensor: &str, _: usize, entry: usize) -> String {
        if tensor == "marginals" { self.symbol_name(entry) } else { entry.to_string() }
    }
}

/// Reads a batch of trees in the precision of its words.
pub(in crate::model) fn read(tensors: &mut TensorMap) -> Result<Model> {
    Ok(if tensors.is_double("words")? {
        trees::<f64>(tensors)?.into()
    } else {
        trees::<f32>(tensors)?.into()
    })
}

fn trees<F: Precision>(tensors: &mut TensorMap) -> Result<Hypertree<F>> {
    tensors.expect_shape("symbols", &[3], "[3]")?;
    let found = tensors.integers("symbols")?;
    let symbols = Symbols { all: found[0], heads: found[1], tags: found[2] };
    let lengths = tensors.integers("lengths")?;
    let words = tensors.take::<F>("words")?;
    let rules = if tensors.has("rule_symbols") {
        let list = tensors.integers("rule_symbols")?;
        let rules: Arc<[Rule]> =
            list.chunks_exact(3).map(|rule| Rule { head: rule[0], left: rule[1], right: rule[2] }).collect();
        tensors.expect_shape("rule_symbols", &[rules.len(), 3], "[R, 3]")?;
        Rules::Sparse { rules, scores: tensors.take::<F>("rules")?.into() }
    } else if tensors.has("rules") {
        Rules::Dense(tensors.take::<F>("rules")?.into())
    } else if tensors.has("rule_heads") {
        Rules::LowRank {
            rank: tensors.shape("rule_heads")?.last().copied().unwrap_or(0),
            heads: tensors.take::<F>("rule_heads")?.into(),
            left: tensors.take::<F>("rule_left")?.into(),
            right: tensors.take::<F>("rule_right")?.into(),
        }
    } else {
        Rules::Any
    };
    let spans = if tensors.has("spans") {
        let axes = tensors.shape("spans")?.len();
        let values = tensors.take::<F>("spans")?.into();
        if axes == 4 { Spans::PerSymbol(values) } else { Spans::PerSpan(values) }
    } else if tensors.has("span_embeddings") {
        let spans = tensors.take::<F>("span_embeddings")?.into();
        Spans::Factored { spans, symbols: tensors.take::<F>("symbol_embeddings")?.into() }
    } else {
        Spans::None
    };
    let unary = match tensors.has("unary_symbols") {
        true => {
            let list = tensors.integers("unary_symbols")?;
            let rules: Vec<UnaryRule> =
                list.chunks_exact(2).map(|rule| UnaryRule { head: rule[0], child: rule[1] }).collect();
            tensors.expect_shape("unary_symbols", &[rules.len(), 2], "[R, 2]")?;
            (rules, tensors.take::<F>("unary")?)
        }
        false => (Vec::new(), Vec::new()),
    };
    let roots = tensors.take::<F>("roots")?;
    let names: Option<TreeNames> = match tensors.text("names").map(serde_json::from_str) {
        None => None,
        Some(Ok(names)) => Some(names),
        Some(Err(error)) => return Err(tensors.error(format!("`names`: {error}"))),
    };
    let built = || -> Result<Hypertree<F>> {
        let model = Hypertree::new(symbols, words.into(), lengths, rules)?.with_roots(roots.into())?;
        let model = model.with_spans(spans)?.with_unary(unary.0, unary.1.into())?;
        if let Some(names) = names { model.with_names(names) } else { Ok(model) }
    };
    built().map_err(|error| tensors.error(error.to_string()))
}

impl<M: ?Sized, F: Precision> IntoValue<M> for SpanMarginals<F> {
    fn into_value(self, _: &M) -> AnyValue {
        AnyValue::tensors(vec![Tensor::new("marginals", &self.shape, self.values)])
    }
}

impl<F: Precision> IntoValue<Hypertree<F>> for HypertreeGradient<F> {
    fn into_value(self, model: &Hypertree<F>) -> AnyValue {
        let shapes = model.shapes();
        let mut list = vec![
            Tensor::new("words", &shapes.words, self.words),
            Tensor::new("roots", &shapes.roots, self.roots),
        ];
        match self.rules {
            RuleGradient::None => {}
            RuleGradient::Scores(values) => list.push(Tensor::new("rules", &shapes.rules, values)),
            RuleGradient::LowRank { heads, left, right } => {
                let [of_heads, of_left, of_right] = &shapes.factors;
                list.push(Tensor::new("rule_heads", of_heads, heads));
                list.push(Tensor::new("rule_left", of_left, left));
                list.push(Tensor::new("rule_right", of_right, right));
            }
        }
        match self.spans {
            SpanGradient::None => {}
            SpanGradient::Scores(values) => list.push(Tensor::new("spans", &shapes.spans, values)),
            SpanGradient::Factored { spans, symbols } => {
                list.push(Tensor::new("span_embeddings", &shapes.spans, spans));
                list.push(Tensor::new("symbol_embeddings", &shapes.symbol_embeddings, symbols));
            }
        }
        if !self.unary.is_empty() {
            list.push(Tensor::new("unary", &[self.unary.len()], self.unary));
        }
        AnyValue::tensors(list)
    }
}

/// The first word, last word and symbol of each node.
fn flat(tree: &ParseTree) -> impl Iterator<Item = usize> + '_ {
    tree.nodes.iter().flat_map(|node| [node.first, node.last, node.symbol])
}

impl From<ParseTree> for BestState {
    fn from(tree: ParseTree) -> Self {
        BestState { score: tree.score, state: flat(&tree).collect() }
    }
}

impl<M: ?Sized> IntoValue<M> for PathSamples<ParseTree> {
    fn into_value(self, _: &M) -> AnyValue {
        let mut weights = self.log_weights.map(Vec::into_iter);
        let each = self.samples.into_iter().map(|drawn| {
            let total = drawn.iter().map(|tree| 3 * tree.nodes.len()).sum();
            let mut states = StateList::with_capacity(drawn.len(), total);
            drawn.iter().for_each(|tree| states.push(flat(tree)));
            let law = match weights.as_mut().and_then(Iterator::next) {
                Some(log_weights) => Law::Weighted { log_weights },
                None => Law::Exact,
            };
            Draws { states, law }
        });
        AnyValue::Samples(each.collect())
    }
}

impl<M: ?Sized> IntoValue<M> for Vec<ParseTree> {
    fn into_value(self, _: &M) -> AnyValue {
        AnyValue::States(self.into_iter().map(BestState::from).collect())
    }
}

impl<M: ?Sized> IntoValue<M> for Vec<Vec<ParseTree>> {
    fn into_value(self, _: &M) -> AnyValue {
        AnyValue::Ranked(
            self.into_iter().map(|found| found.into_iter().map(BestState::from).collect()).collect(),
        )
    }
}
