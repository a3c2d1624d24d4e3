//! Model files of earlier versions can still be read, and the same model is still written to the same bytes.
//!
//! `ZHAT_BLESS=1` writes the files of a new version; files of an old version are never rewritten.

use std::path::PathBuf;
use std::sync::Once;

use zhat::io::{model_file, read_model, write_model};
use zhat::model::{
    DependencyTree, Domain, Grammar, Hypertree, Interactions, MixedModel, NetworkType, Pattern, Rule, Rules,
    Segments, SequenceMrf, Spans, Statistic, Symbols, Term, Transitions, TreeNames, TreeShape, UnaryRule,
    Values,
};
use zhat::random::Streams;
use zhat::space::{Scores, Subtrees};
use zhat::{Chain, FactorGraph, Model, SemiMarkov, SpaceModel};

const ZERO: f64 = f64::NEG_INFINITY;

/// A Markov network with names, evidence, a constant, zeros and extreme values. It uses only exact
/// arithmetic, so that every machine writes the same bytes.
fn markov() -> FactorGraph {
    let mut random = Streams::new(1, "golden").block(0);
    let mut value = || 8.0 * random.uniform() - 4.0;
    let mut graph = FactorGraph::new(vec![2, 3, 1, 4]).unwrap();
    graph.add_factor(&[], &[-0.5]).unwrap();
    graph.add_factor(&[2], &[1e300]).unwrap();
    graph.add_factor(&[3], &[5e-324, -0.0, ZERO, -1e300]).unwrap();
    for scope in [vec![1, 0], vec![3, 1], vec![0, 3, 2]] {
        let size = scope.iter().map(|&v: &usize| graph.cardinalities()[v]).product();
        let mut values: Vec<f64> = (0..size).map(|_| value()).collect();
        values[size / 2] = ZERO;
        graph.add_factor(&scope, &values).unwrap();
    }
    let list = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<String>>();
    let states = vec![list(&["no", "yes"]), vec![], list(&["\\u00e9 \"é\"\n"]), list(&["N", "E", "S", "W"])];
    let graph = graph.with_names(list(&["rain", "Ẑ", "a b", "wind"]), states).unwrap();
    graph.condition(&[(1, 2), (0, 1)]).unwrap()
}

/// A Bayesian network without names; probabilities are halves and quarters.
fn bayes() -> FactorGraph {
    let half = -std::f64::consts::LN_2;
    let mut graph = FactorGraph::new(vec![2, 2, 3]).unwrap().with_network_type(NetworkType::Bayes);
    graph.add_factor(&[0], &[half, half]).unwrap();
    graph.add_factor(&[0, 1], &[0.0, ZERO, half, half]).unwrap();
    let quarter = 2.0 * half;
    let rows = [[quarter, half, quarter], [ZERO, half, half], [0.0, ZERO, ZERO], [half, quarter, quarter]];
    graph.add_factor(&[1, 0, 2], &rows.concat()).unwrap();
    graph
}

/// Two sequences of different lengths in double precision, with zeros among the scores.
fn chain() -> Chain<f64> {
    let mut random = Streams::new(2, "golden").block(0);
    let mut values = |count| (0..count).map(|_| 8.0 * random.uniform() - 4.0).collect::<Vec<f64>>();
    let (mut start, mut transitions) = (values(3), values(9));
    (start[1], transitions[4], transitions[5]) = (ZERO, ZERO, -1e300);
    let transitions = Transitions::Shared(transitions.into());
    Chain::new(start.into(), values(24).into(), vec![4, 2], transitions).unwrap()
}

/// Single precision, left and right embeddings.
fn factored() -> Chain<f32> {
    let numbers = |count: u8| (0..count).map(|i| f32::from(i) / 8.0 - 1.0).collect::<Vec<f32>>();
    let transitions = Transitions::Factored { left: numbers(15).into(), right: Some(numbers(15).into()) };
    Chain::crf(5, numbers(10).into(), vec![2], transitions).unwrap()
}

/// Double precision, log factors of low rank.
fn low_rank() -> Chain<f64> {
    let numbers = |count: u8| (0..count).map(|i| f64::from(i) / 8.0 - 1.0).collect::<Vec<f64>>();
    let mut left = numbers(9);
    left[4] = ZERO;
    let transitions = Transitions::LowRank { left: left.into(), right: numbers(9).into() };
    Chain::crf(3, numbers(12).into(), vec![2, 1], transitions).unwrap()
}

/// Single precision, sparse transitions with scores for each step, and a state that no transition leaves.
fn sparse() -> Chain<f32> {
    let numbers = |count: u8| (0..count).map(|i| f32::from(i) / 8.0 - 1.0).collect::<Vec<f32>>();
    let pattern = Pattern::new(3, vec![0, 2, 2, 5], vec![1, 2, 0, 1, 2]).unwrap();
    let mut values = numbers(10);
    values[3] = f32::NEG_INFINITY;
    let transitions = Transitions::Sparse { pattern, values: values.into(), per_step: true };
    Chain::crf(3, numbers(9).into(), vec![3], transitions).unwrap()
}

/// Double precision, a table for each sequence and step.
fn per_sequence() -> Chain<f64> {
    let numbers = |count: u8| (0..count).map(|i| f64::from(i) / 8.0 - 1.0).collect::<Vec<f64>>();
    let transitions = Transitions::PerSequence(numbers(16).into());
    Chain::crf(2, numbers(12).into(), vec![3, 2], transitions).unwrap()
}

/// Single precision, a table for each step, and scores for each position of a segment.
fn semi_markov() -> SemiMarkov<f32> {
    let numbers = |count: u8| (0..count).map(|i| f32::from(i) / 8.0 - 1.0).collect::<Vec<f32>>();
    let transitions = Transitions::PerStep(numbers(8).into());
    let chain = Chain::new(numbers(2).into(), numbers(12).into(), vec![2, 3], transitions).unwrap();
    let mut places = numbers(24);
    places[3] = f32::NEG_INFINITY;
    SemiMarkov::new(chain, Segments::Places(places.into()), 2).unwrap()
}

/// Double precision, log factors of low rank, end scores, and scores of segments by length.
fn semi_markov_low_rank() -> SemiMarkov<f64> {
    let numbers = |count: u8| (0..count).map(|i| f64::from(i) / 8.0 - 1.0).collect::<Vec<f64>>();
    let mut right = numbers(6);
    right[2] = ZERO;
    let transitions = Transitions::LowRank { left: numbers(6).into(), right: right.into() };
    let chain = Chain::new(numbers(3).into(), numbers(18).into(), vec![3, 2], transitions)
        .and_then(|chain| chain.with_end(numbers(3).into()))
        .unwrap();
    let mut lengths = numbers(6);
    lengths[4] = ZERO;
    SemiMarkov::new(chain, Segments::Lengths(lengths.into()), 2).unwrap()
}

/// Two sentences of different lengths, with labels and a forbidden arc.
fn dependency() -> DependencyTree<f32> {
    let numbers = |count: u8| (0..count).map(|i| f32::from(i) / 8.0 - 1.0).collect::<Vec<f32>>();
    let mut arcs = numbers(36);
    arcs[3] = f32::NEG_INFINITY;
    let shape = TreeShape { projective: false, single_root: true };
    DependencyTree::new(arcs.into(), numbers(12).into(), vec![3, 2], Some(2), shape).unwrap()
}

/// Two sentences of different lengths with listed rules, a unary rule, scores of spans and names.
fn hypertree() -> Hypertree<f32> {
    let numbers = |count: u8| (0..count).map(|i| f32::from(i) / 8.0 - 1.0).collect::<Vec<f32>>();
    let rule = |head, left, right| Rule { head, left, right };
    let rules = Rules::sparse(vec![rule(0, 1, 2), rule(0, 0, 1), rule(1, 2, 2)], &numbers(3)).unwrap();
    let symbols = Symbols { all: 3, heads: 2, tags: 2 };
    let mut spans = numbers(36);
    spans[4] = f32::NEG_INFINITY;
    let words = |words: &[&str]| words.iter().map(|word| word.to_string()).collect::<Vec<String>>();
    let names = TreeNames {
        symbols: words(&["S", "A", "B"]),
        hidden: vec![1],
        words: vec![words(&["one", "two", "\u{3b6}"]), words(&["(", ")"])],
    };
    Hypertree::new(symbols, numbers(12).into(), vec![3, 2], rules)
        .and_then(|model| model.with_roots(numbers(4).into()))
        .and_then(|model| model.with_spans(Spans::PerSymbol(spans.into())))
        .and_then(|model| model.with_unary(vec![UnaryRule { head: 0, child: 2 }], vec![-0.5].into()))
        .and_then(|model| model.with_names(names))
        .unwrap()
}

/// Rules of low rank, one set per sentence, and embeddings of spans.
fn hypertree_low_rank() -> Hypertree {
    let numbers = |count: u8| -> Values<f64> {
        (0..count).map(|i| f64::from(i) / 8.0 - 1.0).collect::<Vec<_>>().into()
    };
    let rules = Rules::LowRank { rank: 2, heads: numbers(8), left: numbers(12), right: numbers(6) };
    Hypertree::new(Symbols::disjoint(2, 1), numbers(4), vec![2, 1], rules)
        .and_then(|model| model.with_spans(Spans::Factored { spans: numbers(24), symbols: numbers(6) }))
        .unwrap()
}

/// A grammar with weights, words and a comment.
fn grammar() -> Grammar {
    Grammar::parse("# two rules\nS -> S S [0.25] | 'a' [0.75]\n", "golden.cfg").unwrap()
}

/// Statistics of a discrete variable and of continuous variables.
fn mixed() -> MixedModel {
    let domains = vec![Domain::States(3), Domain::Interval(-1.5, 2.0), Domain::Interval(0.125, 0.75)];
    let term = |weight, factors: &[(usize, Statistic)]| Term { weight, factors: factors.to_vec() };
    let terms = vec![
        term(-0.5, &[]),
        term(0.25, &[(0, Statistic::State(2)), (1, Statistic::Power(2.0))]),
        term(1e-300, &[(2, Statistic::Power(-0.5)), (2, Statistic::Log(3))]),
        term(-3.0, &[(2, Statistic::LogComplement), (1, Statistic::Power(1.0))]),
    ];
    MixedModel::new(domains, terms).unwrap()
}

/// Nonempty subtrees of a tree with unordered nodes, pairwise scores and two kinds of conditions.
fn space() -> SpaceModel {
    let parents = [Some(3), Some(0), Some(3), None, Some(2)];
    let tree = Subtrees::new(&parents, false).unwrap();
    let unary = vec![0.5, -1.25, 5e-324, 1e9, -0.0];
    let scores = Scores::pairwise(unary, &[(4, 0, 0.75), (1, 2, -2.0)]).unwrap();
    let conditions = ["not chosen 1", "size 2 4"].map(|text| text.parse().unwrap());
    SpaceModel::new(tree, scores).unwrap().restrict(conditions).unwrap()
}

/// Embeddings and a state of weight zero.
fn sequence_mrf() -> SequenceMrf {
    let numbers = |count: u8| (0..count).map(|i| f32::from(i) / 8.0 - 1.0).collect::<Vec<f32>>();
    let interactions = Interactions::LowRank { rank: 2, left: numbers(6), right: vec![numbers(6); 2] };
    SequenceMrf::new(1 << 40, vec![0.5, ZERO, -1e300], interactions).unwrap()
}

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// The files of version 1 and their models. The files are written first if `ZHAT_BLESS=1`.
fn version_1() -> [(PathBuf, Model); 16] {
    static BLESS: Once = Once::new();
    let files: [(&str, Model); 16] = [
        ("v1-markov.zhat", markov().into()),
        ("v1-bayes.zhat", bayes().into()),
        ("v1-chain.zhat", chain().into()),
        ("v1-chain-factored.zhat", factored().into()),
        ("v1-chain-low-rank.zhat", low_rank().into()),
        ("v1-chain-sparse.zhat", sparse().into()),
        ("v1-chain-per-sequence.zhat", per_sequence().into()),
        ("v1-semi-markov.zhat", semi_markov().into()),
        ("v1-semi-markov-low-rank.zhat", semi_markov_low_rank().into()),
        ("v1-dependency.zhat", dependency().into()),
        ("v1-hypertree.zhat", hypertree().into()),
        ("v1-hypertree-low-rank.zhat", hypertree_low_rank().into()),
        ("v1-grammar.zhat", grammar().into()),
        ("v1-mixed.zhat", mixed().into()),
        ("v1-space.zhat", space().into()),
        ("v1-sequence-mrf.zhat", sequence_mrf().into()),
    ];
    let files = files.map(|(name, model)| (golden(name), model));
    BLESS.call_once(|| {
        if std::env::var_os("ZHAT_BLESS").is_some_and(|bless| bless == "1") {
            std::fs::create_dir_all(golden("")).unwrap();
            files.iter().for_each(|(path, model)| std::fs::write(path, model_file::to_bytes(model)).unwrap());
        }
    });
    files
}

#[test]
fn the_generator_still_writes_the_same_bytes() {
    for (path, model) in version_1() {
        let want = std::fs::read(&path).unwrap();
        assert!(model_file::to_bytes(&model) == want, "{} would be written otherwise today", path.display());
    }
}

#[test]
fn files_of_version_1_give_the_original_models() {
    for (path, model) in version_1() {
        let read = read_model(&path).unwrap();
        assert_eq!(read, model, "{}", path.display());
        let graphs = (read.get::<FactorGraph>(), model.get::<FactorGraph>());
        let (Some(read), Some(graph)) = graphs else { continue };
        assert_eq!(
            (read.names(), read.network_type(), read.evidence()),
            (graph.names(), graph.network_type(), graph.evidence())
        );
    }
    assert_eq!(markov().evidence(), [(0, 1), (1, 2)]);
    assert_eq!((markov().variable_name(1), markov().state_name(0, 1)), ("Ẑ".into(), "yes".into()));
    assert_eq!((bayes().network_type(), bayes().names()), (NetworkType::Bayes, None));
}

#[test]
fn reading_and_writing_a_file_keeps_its_bytes() {
    for (path, _) in version_1() {
        let copy = std::env::temp_dir().join(format!("zhat-golden-{}.zhat", std::process::id()));
        write_model(&read_model(&path).unwrap(), &copy).unwrap();
        let (old, new) = (std::fs::read(&path).unwrap(), std::fs::read(&copy).unwrap());
        std::fs::remove_file(&copy).unwrap();
        assert!(old == new, "{}", path.display());
    }
}
