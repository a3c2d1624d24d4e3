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

/// The parse with the verb phrase over `saw stars` has probability 2/3, the other one 1/3.
#[test]
fn marginals_are_printed_for_every_part_that_a_symbol_may_cover() {
    let folder = Folder::new("grammar-marginals");
    folder.write("stars.cfg", STARS);
    folder.write("s.txt", "I saw stars with stars\nI saw stars\n");
    let text = folder.ok(&query(&["marginals"]));
    let (table, rest) = text.split_once("\n\n").unwrap();
    assert_eq!(
        table,
        "\
sentence  first  last  expected number of nodes with each symbol
0         0      0     NP: 1.000000
0         0      4     S: 1.000000
0         1      1     V: 1.000000
0         1      2     VP: 0.666667
0         1      4     VP: 1.000000
0         2      2     NP: 1.000000
0         2      4     NP: 0.333333
0         3      3     'with': 1.000000
0         3      4     PP: 0.666667  <'with' NP>: 0.333333
0         4      4     NP: 1.000000
1         0      0     NP: 1.000000
1         0      2     S: 1.000000
1         1      1     V: 1.000000
1         1      2     VP: 1.000000
1         2      2     NP: 1.000000"
    );
    assert!(rest.starts_with("guarantee  exact (rounding at most "), "{rest}");
    assert!(rest.contains("method     inside-outside, "), "{rest}");
    let found = folder.json(&query(&["marginals"]));
    let sentences = found["sentences"].as_array().unwrap();
    for (sentence, words) in sentences.iter().zip([5, 3]) {
        assert_eq!(sentence["length"], words);
        let spans = sentence["spans"].as_array().unwrap();
        let numbers = spans.iter().flat_map(|span| span["p"].as_array().unwrap());
        // Binary trees over n words have 2n − 1 nodes.
        let total: f64 = numbers.map(|x| x.as_f64().unwrap()).sum();
        assert!(close(total, f64::from(2 * words - 1)), "{total}: {found}");
    }
    let phrase = &sentences[0]["spans"][3];
    assert_eq!((&phrase["first"], &phrase["last"]), (&1.into(), &2.into()));
    let largest = phrase["p"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).fold(0.0, f64::max);
    assert!(close(largest, 2.0 / 3.0), "{found}");
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
    let warning =
        "zhat: warning: sentence 1 has no parse; all of its words together are VP, but the root has to be S";
    for command in ["logz", "marginals", "entropy", "map", "sample"] {
        let warned = folder.run(&[command, "stars.cfg", "--input", "two.txt"]);
        assert_eq!(warned.status(), 0);
        assert!(warned.stderr().contains(warning), "{command}: {}", warned.stderr());
    }
}

/// If no sentence has a tree, every query fails with the longest part found and where it stops.
#[test]
fn no_parse_is_described_by_every_query() {
    let folder = Folder::new("grammar-no-parse");
    folder.write("stars.cfg", STARS);
    folder.write("s.txt", "I saw stars saw\nsaw I\nwith with\nsaw\nI\n");
    let described = "zhat: zero partition: sentence 0 has no parse; the longest part that a symbol covers is words 0 to \
                     2 (I saw stars), as S; it stops before word 3 (saw). sentence 1 has no parse; all of its words \
                     together are VP, but the root has to be S. sentence 2 has no parse; no symbol covers any of its \
                     words. 2 more sentences have no parse\n";
    for command in [
        vec!["logz"],
        vec!["marginals"],
        vec!["entropy"],
        vec!["map"],
        vec!["map", "-k", "3"],
        vec!["map", "--trees", "bracketed"],
        vec!["sample", "-n", "2"],
    ] {
        let ran = folder.run(&query(&command));
        assert_eq!((ran.status(), ran.stderr().as_str()), (1, described), "{command:?}");
    }
    let ran = folder.run(&query(&["logz", "--json"]));
    assert_eq!(ran.status(), 1);
    assert!(ran.stderr().contains("zero-partition") || ran.stdout().contains("zero-partition"));
    folder.write("s.txt", "I saw stars\n");
    let given = |item: &'static str| folder.run(&query(&["logz", "--given", item]));
    assert_eq!(given("1=V").status(), 0);
    let impossible = given("1=NP");
    assert_eq!(impossible.status(), 1);
    let reason =
        "impossible evidence: the given evidence has probability 0 under the model: sentence 0 has no parse";
    assert!(impossible.stderr().contains(reason), "{}", impossible.stderr());
    assert_eq!(given("1=W").status(), 2);
    assert!(given("1=W").stderr().contains("--given: there is no symbol `W`"), "{}", given("1=W").stderr());
}

/// Sentences from stdin.
#[test]
fn sentences_are_read_from_stdin() {
    let folder = Folder::new("grammar-stdin");
    folder.write("stars.cfg", STARS);
    let args = ["map", "stars.cfg", "--input", "-", "--trees", "bracketed"];
    let ran = folder.run_with_input(&args, "I saw stars with stars\n");
    assert_eq!((ran.status(), ran.stdout().as_str()), (0, format!("{VERB}\n").as_str()));
    for (input, message) in [
        (
            "I saw stras\n",
            "zhat: standard input: line 1: the grammar has no word `stras`; did you mean `stars`?\n",
        ),
        ("I saw I\n\nI\n", "zhat: standard input: line 2: empty sentence; expected at least one word\n"),
        ("", "zhat: standard input: no sentences; expected one per line\n"),
    ] {
        let ran = folder.run_with_input(&args, input);
        assert_eq!((ran.status(), ran.stderr().as_str()), (2, message));
    }
    let ran = folder.run_with_input(&args, "saw I\n");
    assert_eq!(ran.status(), 1);
    assert!(ran.stderr().contains("sentence 0 has no parse"), "{}", ran.stderr());
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

/// The two trees of the sentence differ in one rule of each grammar.
#[test]
fn two_grammars_are_compared_on_the_same_sentences() {
    let folder = Folder::new("grammar-divergence");
    folder.write("stars.cfg", STARS);
    folder.write("other.cfg", &STARS.replace("[0.2]", "[0.4]"));
    folder.write("s.txt", "I saw stars with stars\nI saw stars\n");
    let compared = |command: &[&str]| -> Vec<f64> {
        let found = folder.json(&[command, &["--input", "s.txt"]].concat());
        found["value"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
    };
    let (kl, cross) =
        (compared(&["kl", "stars.cfg", "other.cfg"]), compared(&["cross-entropy", "stars.cfg", "other.cfg"]));
    // The probabilities of the trees of the first sentence are 2/3 and 1/3, and 1/2 each.
    let (p, q) = ([2.0 / 3.0, 1.0f64 / 3.0], [0.5f64, 0.5]);
    let expected: f64 = p.iter().zip(q).map(|(p, q): (&f64, f64)| p * (p / q).ln()).sum();
    assert!(close(kl[0], expected) && kl[1].abs() < 1e-12, "{kl:?} {expected}");
    assert!(close(cross[0], 2f64.ln()) && cross[1].abs() < 1e-12, "{cross:?}");
    let entropy = compared(&["entropy", "stars.cfg"]);
    assert!(kl.iter().zip(&cross).zip(&entropy).all(|((kl, cross), h)| close(kl + h, *cross)));
    assert!(compared(&["kl", "other.cfg", "other.cfg"]).iter().all(|kl| kl.abs() < 1e-12));
    // The expected log weight is −H + log Z.
    let scores = compared(&["expectation", "stars.cfg", "other.cfg"]);
    let log_z = compared(&["logz", "other.cfg"]);
    assert!(scores.iter().zip(&log_z).zip(&cross).all(|((e, z), cross)| close(z - e, *cross)), "{scores:?}");
    let text = folder.ok(&["expectation", "stars.cfg", "other.cfg", "--input", "s.txt"]);
    assert!(text.contains("expected score"), "{text}");
    // Another list of words.
    folder.write("few.cfg", "S -> S S [0.4] | 'stars' [0.6]\n");
    let refused = folder.run(&["kl", "stars.cfg", "few.cfg", "--input", "s.txt"]);
    assert_eq!(refused.status(), 2);
    assert!(refused.stderr().contains("`I`"), "{}", refused.stderr());
}
