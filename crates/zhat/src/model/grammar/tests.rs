//! Tests of the text format, of binary rules and of named trees.

use super::*;
use crate::model::any::{AnyModel, Input};
use crate::model::tree::NamedTree;
use crate::model::{Rule, Rules};
use crate::query::tree::Constituent;

/// An example of NLTK's documentation, with a comment, a continued line and an arrow of Unicode.
const TOY: &str = r#"
# A toy grammar.
%start S
S -> NP VP [1.0]
NP -> Det N [0.5] | NP PP [0.25] | 'John' [0.1] | 'I' [0.15]   # names
Det -> 'the' [0.8] | "my" [0.2]
N -> 'man' [0.5] | 'telescope#' [0.5]
VP -> VP PP [0.1] | V NP [0.7] | V [0.2]
V → 'ate' [0.35] \
   | 'saw' [0.65]
PP -> P NP
P -> 'with' 0.61
   | 'under' 0.39
"#;

fn words(sentence: &str) -> Vec<String> {
    sentence.split_whitespace().map(str::to_owned).collect()
}

fn message(text: &str) -> String {
    Grammar::parse(text, "g.cfg").unwrap_err().to_string()
}

#[test]
fn the_notation_of_nltk_is_read() {
    let grammar = Grammar::parse(TOY, "").unwrap();
    assert_eq!(grammar.start(), "S");
    assert_eq!(grammar.productions(), 17);
    assert_eq!(grammar.symbols(), ["S", "VP", "PP", "NP", "Det", "N", "V", "P"]);
    assert!(grammar.vocabulary().iter().any(|word| word == "telescope#"));
    let model = grammar.hypertree(&[words("I saw the man"), words("John ate")]).unwrap();
    assert_eq!(model.lengths(), [4, 2]);
    let symbol = |name: &str| model.names().unwrap().symbols.iter().position(|own| own == name).unwrap();
    let symbols = model.symbols();
    assert_eq!((symbols.all, symbols.heads, symbols.tags), (8, 4, 5));
    let root = model.root(0);
    assert_eq!(root.iter().filter(|score| **score == 0.0).count(), 1);
    assert_eq!(root[symbol("S")], 0.0);
    let rule =
        |head, left, right| model.rules().score(symbols, 0, symbol(head), symbol(left), symbol(right)).exp();
    assert!((rule("NP", "NP", "PP") - 0.25).abs() < 1e-15);
    assert!((rule("PP", "P", "NP") - 1.0).abs() < 1e-15);
    assert_eq!(rule("S", "VP", "NP"), 0.0);
    assert_eq!(model.unary().unwrap().score(symbol("VP"), symbol("V")), Some(0.2f64.ln()));
    let word = |b: usize, i: usize, tag: &str| model.word(b, i)[symbol(tag) - symbols.first_tag()];
    assert_eq!(word(0, 1, "V"), 0.65f64.ln());
    assert_eq!(word(1, 0, "NP"), 0.1f64.ln());
    assert_eq!(word(1, 0, "N"), f64::NEG_INFINITY);
    // S → NP VP, NP → John, VP → V, V → ate.
    let node = |first, last, name: &str| Constituent { first, last, symbol: symbol(name) };
    let tree = [node(0, 1, "S"), node(0, 0, "NP"), node(1, 1, "VP"), node(1, 1, "V")];
    assert!((model.score(1, &tree).exp() - 0.1 * 0.2 * 0.35).abs() < 1e-15);
}

#[test]
fn every_error_has_its_line_and_token() {
    for (text, line, parts) in [
        ("", 0, vec!["no rules"]),
        ("# nothing\n\n", 0, vec!["no rules"]),
        ("S 'a'", 1, vec!["expected `->` after `S`", "`'a'`"]),
        ("S", 1, vec!["expected `->` after `S`", "end of the line"]),
        ("\n-> 'a'", 2, vec!["rewrites", "`->`"]),
        ("'a' -> S", 1, vec!["rewrites", "`'a'`"]),
        ("| 'a'", 1, vec!["`|`"]),
        ("S ->", 1, vec!["empty productions are not supported", "`S ->`"]),
        ("S -> 'a'\n  | ", 1, vec!["empty productions are not supported"]),
        ("S -> | 'a'", 1, vec!["empty productions are not supported"]),
        ("S -> 0.5", 1, vec!["empty productions are not supported"]),
        ("S -> ''", 1, vec!["at least one character", "`''`"]),
        ("S -> 'a", 1, vec!["not closed", "`'a`"]),
        ("S -> 'a' [0.5", 1, vec!["not closed", "`[0.5`"]),
        ("S -> 'a' 0.5]", 1, vec!["`]` without `[`"]),
        ("S -> 'a' [x]", 1, vec!["expected a weight", "`[x]`"]),
        ("S -> 'a' [-1]", 1, vec!["`[-1]` is not a finite number of at least 0"]),
        ("S -> 'a' [nan]", 1, vec!["`[nan]`"]),
        ("S -> 'a' 1e999", 1, vec!["`1e999`"]),
        ("S -> 'a' -inf", 1, vec!["`-inf`"]),
        ("S -> 'a' [0.5] 0.5", 1, vec!["after the weight", "`0.5`"]),
        ("S -> 'a' [0.5] 'b'", 1, vec!["after the weight", "`'b'`"]),
        ("S -> 'a' -> 'b'", 1, vec!["second `->`"]),
        ("S -> NP 'a'\nNP -> Nuon 'b'\nNoun -> 'c'", 2, vec!["symbol `Nuon`", "did you mean `Noun`"]),
        ("S -> 'a' dog", 1, vec!["symbol `dog`", "quotes: 'dog'"]),
        ("%start X\nS -> 'a'", 1, vec!["start symbol `X`"]),
        ("%start\nS -> 'a'", 1, vec!["expected a symbol after %start"]),
        ("%start S S\nS -> 'a'", 1, vec!["expected one symbol", "`S`"]),
        ("%start S\nS -> 'a'\n%start S", 3, vec!["second %start", "line 1"]),
        ("%import S\nS -> 'a'", 1, vec!["`%import`"]),
        ("S -> 'a' 0.5 | 'b'\nS -> 'b' 0.1", 2, vec!["`S -> 'b'` is given twice", "line 1"]),
        ("S -> S S", 1, vec!["no words"]),
        ("S -> 'a' | A\nA -> B 0.5\nB -> A 2 | 'b'", 3, vec!["A", "B", "diverges"]),
        ("S -> 'a' | S", 1, vec!["S → S", "diverges"]),
    ] {
        let found = message(text);
        let place = if line == 0 { "g.cfg: ".into() } else { format!("g.cfg: line {line}: ") };
        assert!(found.starts_with(&place), "{text:?}: {found}");
        for part in parts {
            assert!(found.contains(part), "{text:?}: {found}");
        }
    }
}

#[test]
fn a_missing_weight_is_one_and_a_zero_drops_the_rule() {
    let grammar = Grammar::parse("S -> S S | 'a' | 'b' 0\nS->T [0]\nT->'t'", "").unwrap();
    let model = grammar.hypertree(&[words("a b")]).unwrap();
    assert_eq!(model.unary(), None);
    let Rules::Sparse { rules, scores } = model.rules() else { panic!() };
    assert_eq!((rules.len(), scores[0]), (1, 0.0));
    let tag = grammar.rules.start - model.symbols().first_tag();
    assert_eq!(model.word(0, 0)[tag], 0.0);
    assert_eq!(model.word(0, 1)[tag], f64::NEG_INFINITY);
}

#[test]
fn names_may_have_any_characters_but_those_of_the_format() {
    let text = "S/NP^<VP>-1 -> 2-N* 3 [.5]|'x'\n2-N*->'INF'\n3→'3' 1e0";
    let grammar = Grammar::parse(text, "").unwrap();
    assert_eq!(grammar.start(), "S/NP^<VP>-1");
    assert_eq!(grammar.symbols(), ["S/NP^<VP>-1", "2-N*", "3"]);
    assert_eq!(grammar.vocabulary(), ["x", "INF", "3"]);
}

#[test]
fn a_start_symbol_with_words_only_can_be_a_root() {
    let grammar = Grammar::parse("S -> 'a' 0.5 | 'b' 0.5", "").unwrap();
    let model = grammar.hypertree(&[words("b")]).unwrap();
    assert_eq!(model.score(0, &[Constituent { first: 0, last: 0, symbol: 0 }]), 0.5f64.ln());
}

/// S → A 'x' B C, with a weight on the first rule, and VP → A 'x' B C, which shares the hidden symbols.
#[test]
fn longer_right_hand_sides_become_pairs_and_are_printed_whole() {
    let text = "S -> A 'x' B C 0.5 | VP B\nVP -> A 'x' B C 0.25 | 'v'\nA -> 'a'\nB -> 'b' | A A\nC -> 'c'";
    let grammar = Grammar::parse(text, "").unwrap();
    let model = grammar.hypertree(&[words("a x b c")]).unwrap();
    let names = model.names().unwrap();
    let hidden: Vec<&str> = names.hidden.iter().map(|&k| names.symbols[k].as_str()).collect();
    assert_eq!(hidden, ["<B C>", "<'x' B C>", "'x'"]);
    let symbol = |name: &str| names.symbols.iter().position(|own| own == name).unwrap();
    let node = |first, last, name: &str| Constituent { first, last, symbol: symbol(name) };
    let tree = [
        node(0, 3, "S"),
        node(0, 0, "A"),
        node(1, 3, "<'x' B C>"),
        node(1, 1, "'x'"),
        node(2, 3, "<B C>"),
        node(2, 2, "B"),
        node(3, 3, "C"),
    ];
    assert!((model.score(0, &tree) - 0.5f64.ln()).abs() < 1e-15);
    let state: Vec<usize> = tree.iter().flat_map(|node| [node.first, node.last, node.symbol]).collect();
    let Some(NamedTree::Constituency(entries)) = model.named_tree(0, &state) else { panic!() };
    let shown: Vec<(usize, &str, bool)> =
        entries.iter().map(|entry| (entry.level, entry.name.as_str(), entry.is_word)).collect();
    let expected = [
        (0, "S", false),
        (1, "A", false),
        (2, "a", true),
        (1, "x", true),
        (1, "B", false),
        (2, "b", true),
        (1, "C", false),
        (2, "c", true),
    ];
    assert_eq!(shown, expected);
    assert_eq!(model.named_tree(0, &[]), None);
    let Rules::Sparse { rules, .. } = model.rules() else { panic!() };
    let of = |head: &str| rules.iter().filter(|rule: &&Rule| rule.head == symbol(head)).count();
    assert_eq!((of("S"), of("VP"), of("<'x' B C>"), of("<B C>")), (2, 1, 1, 1));
}

#[test]
fn a_very_long_right_hand_side_needs_linear_memory() {
    let text = format!("S -> {} 'a'", "'a' ".repeat(20_000));
    let grammar = Grammar::parse(&text, "").unwrap();
    assert_eq!(grammar.rules.hidden.len(), 20_000);
}

#[test]
fn sentences_are_checked_with_their_lines() {
    let grammar = Grammar::parse(TOY, "").unwrap();
    let input = |text: &str| {
        grammar
            .with_input(&Input { text: text.into(), source_name: "s.txt".into() })
            .map(|model| model.batch().unwrap().lengths.to_vec())
    };
    assert_eq!(input("John ate\n I  saw\tthe man \n\n\n").unwrap(), [2, 4]);
    for (text, parts) in [
        ("John ate\nI sow John", ["s.txt: line 2: ", "`sow`", "did you mean `saw`"]),
        ("John ate\n\nI saw John\n", ["s.txt: line 2: ", "empty sentence", ""]),
        ("\n \n", ["s.txt: ", "no sentences", ""]),
    ] {
        let found = input(text).unwrap_err().to_string();
        assert!(parts.iter().all(|part| found.contains(part)), "{found}");
    }
    let found = grammar.hypertree(&[words("John ate"), words("Jon")]).unwrap_err().to_string();
    assert!(found.contains("sentence 1") && found.contains("did you mean `John`"), "{found}");
    assert!(grammar.hypertree(&[vec![]]).unwrap_err().to_string().contains("empty sentence"));
    assert!(grammar.hypertree(&[]).is_err());
}

#[test]
fn random_grammars_are_normalised() {
    use crate::model::generate::{GrammarShape, grammar};
    for (symbols, words, rules) in [(1, 1, 1), (5, 20, 15), (7, 3, 343), (4, 9, 2)] {
        let shape = GrammarShape { symbols, words, rules };
        let random = grammar(&shape, 3).unwrap();
        assert_eq!(random, grammar(&shape, 3).unwrap());
        assert_eq!(random.vocabulary().len(), words);
        let source = parse::parse(random.text(), "").unwrap();
        let mut totals = vec![0.0; source.symbols.len()];
        source.productions.iter().for_each(|production| totals[production.head] += production.weight);
        assert!(totals.iter().all(|total| (total - 1.0f64).abs() < 1e-12), "{totals:?}");
    }
    assert!(grammar(&GrammarShape { symbols: 2, words: 2, rules: 9 }, 0).is_err());
    assert!(grammar(&GrammarShape { symbols: 2, words: 0, rules: 3 }, 0).is_err());
}

proptest::proptest! {
    /// Any text is read or refused with a message, and never panics.
    #[test]
    fn altered_texts_are_read_or_refused(
        changes in proptest::collection::vec((0usize..400, "[-> |'\"\\[\\]#%\\\\\n0.9eNSa→]{0,3}"), 1..4)
    ) {
        let mut text: Vec<char> = TOY.chars().collect();
        for (at, with) in changes {
            let at = at.min(text.len());
            text.splice(at..(at + 1).min(text.len()), with.chars());
        }
        let _ = Grammar::parse(&text.iter().collect::<String>(), "");
    }
}
