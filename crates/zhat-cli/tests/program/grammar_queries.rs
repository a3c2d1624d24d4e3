//! Queries on text grammars with sentences.

use crate::support::Folder;

/// Two trees for `I saw stars with stars`: 0.018 and 0.009. One rule has three parts.
const STARS: &str = "\
S  -> NP VP
NP -> NP 'with' NP [0.2] | 'I' [0.3] | 'stars' [0.5]
VP -> V NP 0.6 | VP PP 0.4
PP -> 'with' NP
V  -> 'saw'
";
const VERB: &str = "(S (NP I) (VP (VP (V saw) (NP stars)) (PP with (NP stars))))";
const NOUN: &str = "(S (NP I) (VP (V saw) (NP (NP stars) with (NP stars))))";

/// The command with the grammar and the sentence.
fn query<'a>(command: &[&'a str]) -> Vec<&'a str> {
    [command, &["stars.cfg", "--input", "s.txt"]].concat()
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-12 * b.abs().max(1.0)
}

/// Z of n words of S → S S (0.4), S → a (0.6) is Catalan(n − 1) · 0.4ⁿ⁻¹ · 0.6ⁿ.
#[test]
fn log_z_is_that_of_the_catalan_numbers() {
    let folder = Folder::new("grammar-catalan");
    folder.write("catalan.cfg", "S -> S S [0.4] | 'a' [0.6]\n");
    let sentences: Vec<String> = (1..=8).map(|n| vec!["a"; n].join(" ")).collect();
    folder.write("words.txt", &sentences.join("\n"));
    let found = folder.json(&["logz", "catalan.cfg", "--input", "words.txt"]);
    for (n, catalan) in [1.0, 1.0, 2.0, 5.0, 14.0, 42.0, 132.0, 429.0f64].into_iter().enumerate() {
        let expected = catalan.ln() + n as f64 * 0.4f64.ln() + (n + 1) as f64 * 0.6f64.ln();
        assert!(close(found["value"][n].as_f64().unwrap(), expected), "{n}: {found}");
    }
    // Without weights Z is the number of trees.
    folder.write("count.cfg", "S -> S S | 'a'\n");
    folder.write("seven.txt", "a a a a a a a\n");
    let found = folder.json(&["logz", "count.cfg", "--input", "seven.txt"]);
    assert!(close(found["value"].as_f64().unwrap(), 132f64.ln()), "{found}");
}

#[test]
fn trees_are_printed_without_hidden_symbols() {
    let folder = Folder::new("grammar-trees");
    folder.write("stars.cfg", STARS);
    folder.write("s.txt", "I saw stars with stars\n");
    let z = folder.json(&query(&["logz"]));
    assert!(close(z["value"].as_f64().unwrap(), 0.027f64.ln()), "{z}");
    assert_eq!(folder.ok(&query(&["map", "--trees", "bracketed"])), format!("{VERB}\n"));
    assert_eq!(folder.ok(&query(&["map", "-k", "5", "--trees", "bracketed"])), format!("{VERB}\n{NOUN}\n"));
    let text = folder.ok(&query(&["map"]));
    assert!(text.starts_with(&format!("{VERB}\n\nscore      -4.01738352")), "{text}");
    let best = folder.json(&query(&["map"]));
    assert_eq!(best["sentences"][0]["tree"], VERB);
    assert!(close(best["value"].as_f64().unwrap(), 0.018f64.ln()), "{best}");
    let drawn = folder.ok(&query(&["sample", "-n", "50"]));
    let mut lines = drawn.lines();
    assert_eq!(lines.next(), Some("sentence,sample,tree"));
    for (i, line) in lines.enumerate() {
        let tree = line.strip_prefix(&format!("0,{i},")).unwrap();
        assert!(tree == VERB || tree == NOUN, "{line}");
    }
    assert!(folder.ok(&query(&["map", "--trees", "svg"])).contains(">stars</text>"));
    let refused = folder.run(&query(&["map", "--trees", "conllu"]));
    assert!(refused.stderr().contains("constituency trees have no form conllu"), "{}", refused.stderr());
}

/// A sentence without a tree in a batch with one.
#[test]
fn a_sentence_without_a_tree_is_told() {
    let folder = Folder::new("grammar-none");
    folder.write("stars.cfg", STARS);
    folder.write("two.txt", "I saw stars\nsaw I\n");
    let args = ["map", "stars.cfg", "--input", "two.txt"];
    let text = folder.ok(&args);
    assert!(
        text.contains("(S (NP I) (VP (V saw) (NP stars)))") && text.contains("sentence 1: no parse"),
        "{text}"
    );
    assert_eq!(folder.json(&args)["sentences"][1]["tree"], serde_json::Value::Null);
    let bracketed = folder.ok(&["map", "stars.cfg", "--input", "two.txt", "--trees", "bracketed"]);
    assert_eq!(bracketed, "(S (NP I) (VP (V saw) (NP stars)))\nno parse\n");
    folder.write("one.txt", "saw I\n");
    assert_eq!(folder.run(&["map", "stars.cfg", "--input", "one.txt"]).status(), 1);
}

/// Unary rules, whose sums over repetitions are part of Z.
#[test]
fn unary_rules_are_summed_and_printed() {
    let folder = Folder::new("grammar-unary");
    folder.write("unary.cfg", "S -> A 0.5 | S S\nA -> S 0.5 | 'a' 0.25\n");
    folder.write("one.txt", "a\n");
    let args = ["logz", "unary.cfg", "--input", "one.txt"];
    // S → A → (S → A →)* a: 0.5 · 0.25 / (1 − 0.25).
    let z = folder.json(&args);
    assert!(close(z["value"].as_f64().unwrap(), (0.125f64 / 0.75).ln()), "{z}");
    let best = folder.ok(&["map", "unary.cfg", "--input", "one.txt", "--trees", "bracketed"]);
    assert_eq!(best, "(S (A a))\n");
}
