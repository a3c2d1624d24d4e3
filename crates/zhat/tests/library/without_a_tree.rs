//! Sentences without a tree in a batch with others: every query describes them, and prints them as such.

use zhat::catalogue::{Choice, Settings, answer};
use zhat::model::{DependencyTree, Hypertree, Rules, Symbols, TreeShape};
use zhat::query::AnyAnswer;
use zhat::report::Report;
use zhat::report::tree::TreeForm;
use zhat::{Model, Query, Run};

const NEVER: f64 = f64::NEG_INFINITY;

/// Symbol 0 can be divided and symbols 1 and 2 cover words, so a sentence of one word has no tree.
fn parses(lengths: Vec<usize>) -> Model {
    let words = vec![0.0; lengths.len() * 4].into();
    Hypertree::<f64>::new(Symbols::disjoint(1, 2), words, lengths, Rules::Any).unwrap().into()
}

/// The same with rules of rank 2.
fn low_rank(lengths: Vec<usize>) -> Model {
    let words = vec![0.0; lengths.len() * 4].into();
    let zeros = |count: usize| vec![0.0; count].into();
    let rules = Rules::LowRank { rank: 2, heads: zeros(2), left: zeros(6), right: zeros(6) };
    Hypertree::<f64>::new(Symbols::disjoint(1, 2), words, lengths, rules).unwrap().into()
}

/// Sentences of two words; those in `none` have no arc from the root.
fn heads(projective: bool, none: [bool; 2]) -> Model {
    let roots = none.iter().flat_map(|&none| [if none { NEVER } else { 0.0 }; 2]).collect::<Vec<f64>>();
    let shape = TreeShape { projective, single_root: false };
    DependencyTree::new(vec![0.0; 8].into(), roots.into(), vec![2, 2], None, shape).unwrap().into()
}

fn ask(model: &Model, query: Query, method: &str) -> AnyAnswer {
    answer(model, query, &Choice::parse(method), &Settings::default(), &Run::default()).unwrap()
}

fn check(method: &str, queries: &[Query], whole: &Model, partial: &Model, reason: &str) {
    for &query in queries {
        let warning = |model: &Model| ask(model, query, method).diagnostics.warning().map(str::to_owned);
        let found = warning(partial);
        assert_eq!(found.as_deref(), Some(reason), "{method} {}", query.name());
        assert_eq!(warning(whole), None, "{method} {}", query.name());
    }
}

#[test]
fn every_query_describes_a_sentence_without_a_tree() {
    let states = [Query::Map, Query::KBest(2)];
    let others =
        [Query::LogPartition, Query::Marginals, Query::FactorMarginals, Query::Entropy, Query::Sample(3)];
    let reason = "sentence 1 has no parse; all of its words together are symbol 1 or symbol 2, but the root has to be \
                  symbol 0";
    for model in [parses, low_rank] {
        let (whole, partial) = (model(vec![2, 2]), model(vec![2, 1]));
        check("inside-outside", &[&states[..], &others].concat(), &whole, &partial, reason);
        // All symbols are kept.
        check("randomized-inside", &others, &whole, &partial, reason);
        check("randomized-inside-published", &[Query::LogPartition], &whole, &partial, reason);
    }
    let reason =
        "sentence 1 has no tree; no word can have the root as its head: the scores in roots are all −∞";
    for projective in [true, false] {
        let (whole, partial) = (heads(projective, [false, false]), heads(projective, [false, true]));
        check("spanning-trees", &[&states[..], &others].concat(), &whole, &partial, reason);
        if projective {
            check("randomized-inside", &others, &whole, &partial, reason);
        }
    }
}

#[test]
fn no_trees_and_no_samples_wanted_is_no_reason_for_a_warning() {
    for model in [parses(vec![2, 1]), heads(false, [false, true])] {
        let found =
            answer(&model, Query::KBest(0), &Choice::parse("exact"), &Settings::default(), &Run::default());
        assert_eq!(found.unwrap().diagnostics.warning(), None);
    }
}

#[test]
fn a_sentence_without_a_tree_is_printed_as_such() {
    let model = heads(true, [true, false]);
    for query in [Query::Map, Query::KBest(1)] {
        let found = ask(&model, query, "spanning-trees");
        let text =
            |form: TreeForm| Report::new(query.name(), &model, &found).with_trees(form).unwrap().text();
        let columns = text(TreeForm::Conllu);
        let blocks: Vec<&str> = columns.trim_end().split("\n\n").collect();
        assert_eq!(blocks.len(), 2, "{columns}");
        // Every block has one line of ten columns per word.
        for block in &blocks {
            let lines: Vec<Vec<&str>> = block
                .lines()
                .filter(|line| !line.starts_with('#'))
                .map(|line| line.split('\t').collect())
                .collect();
            assert_eq!(lines.len(), 2, "{block}");
            for (i, line) in lines.iter().enumerate() {
                assert_eq!((line.len(), line[0], line[1]), (10, ["1", "2"][i], ["w0", "w1"][i]), "{block}");
            }
        }
        assert!(blocks[0].contains("# no tree\n1\tw0\t_\t_\t_\t_\t_\t_\t_\t_\n"), "{columns}");
        assert!(!blocks[1].contains("# no tree"), "{columns}");
        assert!(text(TreeForm::Indented).starts_with("sentence 0: no tree"), "{}", text(TreeForm::Indented));
    }
    let model = parses(vec![1, 2]);
    let found = ask(&model, Query::Map, "inside-outside");
    let report = Report::new("map", &model, &found).with_trees(TreeForm::Bracketed).unwrap();
    assert!(report.text().starts_with("no parse\n"), "{}", report.text());
}
