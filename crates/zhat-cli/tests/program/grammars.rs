//! Text grammars, `--input`, printed trees, and random grammars and trees.

use crate::support::Folder;

/// Two trees for `I saw stars with stars`: 0.018 and 0.009.
const STARS: &str = "\
# PP attachment
S  -> NP VP
NP -> NP PP [0.2] | 'I' [0.3] | 'stars' [0.5]
VP -> V NP 0.6 | VP PP 0.4
PP -> 'with' NP
V  -> 'saw'
";

#[test]
fn a_grammar_is_described_and_needs_sentences() {
    let folder = Folder::new("grammar-info");
    let file = folder.write("stars.cfg", STARS);
    let text = folder.ok(&["info", &file]);
    assert!(text.contains("kind     grammar") && text.contains("start    S"), "{text}");
    assert!(text.contains("Queries need sentences"), "{text}");
    let info = folder.json(&["info", &file]);
    for (figure, value) in
        [("symbols", 5), ("hidden", 1), ("words", 4), ("productions", 8), ("binary", 5), ("unary", 0)]
    {
        assert_eq!(info[figure], value, "{figure}");
    }
    for command in ["logz", "marginals", "entropy", "map", "sample"] {
        let ran = folder.run(&[command, &file]);
        assert_eq!(ran.status(), 2);
        assert_eq!(ran.stderr(), "zhat: a grammar needs sentences: give them with --input\n");
    }
    assert!(folder.run(&["kl", &file, &file]).stderr().contains("needs sentences"));
}

#[test]
fn grammars_are_converted_with_and_without_sentences() {
    let folder = Folder::new("grammar-convert");
    let file = folder.write("stars.cfg", STARS);
    let input = folder.write("sentences.txt", "I saw stars\nI saw stars with stars\n\n");
    folder.ok(&["convert", &file, "stars.zhat"]);
    assert_eq!(folder.json(&["info", "stars.zhat"]), folder.json(&["info", &file]));
    folder.ok(&["convert", "stars.zhat", "again.pcfg"]);
    assert_eq!(std::fs::read_to_string(folder.path().join("again.pcfg")).unwrap(), STARS);
    assert_eq!(folder.ok(&["convert", "stars.zhat", "-"]), STARS);
    folder.ok(&["convert", &file, "trees.zhat", "--input", &input]);
    let info = folder.json(&["info", "trees.zhat"]);
    assert_eq!((&info["kind"], &info["batch"], &info["words"]), (&"hypertree".into(), &2.into(), &5.into()));
    assert_eq!((&info["symbols"], &info["heads"], &info["tags"]), (&6.into(), &4.into(), &3.into()));
    assert_eq!(folder.json(&["info", &file, "--input", &input])["batch"], 2);
    let refused = folder.run(&["convert", "trees.zhat", "trees.cfg"]);
    assert!(refused.stderr().contains("a hypertree is no grammar"), "{}", refused.stderr());
}

#[test]
fn errors_have_the_file_and_the_line() {
    let folder = Folder::new("grammar-errors");
    let stars = folder.write("stars.cfg", STARS);
    let chain = "chain.zhat";
    folder.ok(&["generate", "chain", "--states", "2", "--steps", "2", "-o", chain]);
    let file = |name: &str, text: &str| folder.write(name, text);
    let unknown = file("unknown.txt", "I saw stars\nI saw stras\n");
    let blank = file("blank.txt", "I saw stars\n\nI saw stars\n");
    let none = file("none.txt", "\n");
    for (args, message) in [
        (
            vec!["info", &file("arrow.cfg", "S -> 'a'\nNP 'b'\n")],
            "arrow.cfg: line 2: expected `->` after `NP`",
        ),
        (vec!["info", &file("weight.cfg", "S -> 'a' [-1]\n")], "weight.cfg: line 1: the weight `[-1]`"),
        (vec!["info", &file("nan.cfg", "S -> 'a'\n  | 'b' [nan]\n")], "nan.cfg: line 2: the weight `[nan]`"),
        (vec!["info", &file("inf.cfg", "S -> 'a' [inf]\n")], "inf.cfg: line 1: the weight `[inf]`"),
        (vec!["info", &file("side.cfg", "S -> 'a'\nS ->\n")], "side.cfg: line 2: empty productions"),
        (
            vec!["info", &file("symbol.cfg", "S -> 'a' NP\n")],
            "symbol.cfg: line 1: no rule rewrites the symbol `NP`",
        ),
        (
            vec!["info", &file("start.cfg", "%start X\nS -> 'a'\n")],
            "start.cfg: line 1: no rule rewrites the start symbol `X`",
        ),
        (
            vec!["info", &file("cycle.cfg", "S -> A | 'a'\nA -> S 2\n")],
            "cycle.cfg: line 2: the rules S → A → S can be repeated without end",
        ),
        (vec!["info", &file("empty.cfg", "# only this\n")], "empty.cfg: the grammar has no rules"),
        (
            vec!["logz", &stars, "--input", &unknown],
            "unknown.txt: line 2: the grammar has no word `stras`; did",
        ),
        (vec!["logz", &stars, "--input", &blank], "blank.txt: line 2: empty sentence"),
        (vec!["logz", &stars, "--input", &none], "none.txt: no sentences"),
        (vec!["logz", &stars, "--input", "missing.txt"], "missing.txt: "),
        (vec!["logz", chain, "--input", &unknown], "--input: a chain takes no input"),
        (vec!["logz", "-", "--input", "-"], "--input: the model is read from stdin"),
    ] {
        let ran = folder.run(&args);
        assert_eq!(ran.status(), 2, "{args:?}");
        assert!(ran.stderr().contains(message), "{args:?}: {}", ran.stderr());
    }
}

#[test]
fn dependency_trees_are_printed_in_every_form() {
    let folder = Folder::new("dependency-forms");
    let args = ["generate", "dependency", "--words", "5", "--batch", "2", "--labels", "3", "-o", "d.zhat"];
    folder.ok(&args);
    let best = folder.json(&["map", "d.zhat"]);
    let columns = folder.ok(&["map", "d.zhat", "--trees", "conllu"]);
    let sentences: Vec<&str> = columns.trim_end().split("\n\n").collect();
    assert_eq!(sentences.len(), 2);
    for (b, sentence) in sentences.iter().enumerate() {
        assert!(sentence.starts_with(&format!("# sent_id = {b}\n# score = ")), "{sentence}");
        let words = sentence.lines().filter(|line| !line.starts_with('#'));
        for (i, line) in words.enumerate() {
            let cells: Vec<&str> = line.split('\t').collect();
            let expected = &best["sentences"][b]["heads"][i];
            assert_eq!((cells.len(), cells[0]), (10, (i + 1).to_string().as_str()));
            assert_eq!((cells[6], cells[7]), (&*expected[0].to_string(), &*expected[1].to_string()));
        }
    }
    let indented = folder.ok(&["map", "d.zhat", "--trees", "indented"]);
    assert!(indented.starts_with("sentence 0: score ") && indented.contains("\nmethod "), "{indented}");
    let drawing = folder.ok(&["map", "d.zhat", "-k", "3", "--trees", "svg"]);
    assert!(drawing.starts_with("<svg ") && drawing.ends_with("</svg>\n"));
    assert_eq!(drawing.matches("<g ").count(), 6);
    let drawn = folder.ok(&["sample", "d.zhat", "-n", "3", "--trees", "conllu"]);
    assert_eq!(drawn.matches("# sample = 2\n").count(), 2);
    for (args, message) in [
        (vec!["map", "d.zhat", "--trees", "bracketed"], "--trees: dependency trees have no form bracketed"),
        (vec!["sample", "d.zhat", "-n", "600", "--trees", "svg"], "1200 trees are too many to draw"),
        (vec!["map", "d.zhat", "--trees", "svg", "--json"], "cannot be used with"),
    ] {
        let ran = folder.run(&args);
        assert!(ran.status() == 2 && ran.stderr().contains(message), "{args:?}: {}", ran.stderr());
    }
    folder.ok(&["generate", "chain", "--states", "2", "--steps", "2", "-o", "c.zhat"]);
    assert!(folder.run(&["map", "c.zhat", "--trees", "svg"]).stderr().contains("are not trees"));
}

#[test]
fn random_grammars_and_trees_are_generated() {
    let folder = Folder::new("grammar-generate");
    let args = ["generate", "grammar", "--symbols", "3", "--words", "4", "--rules", "5", "--seed", "7"];
    let text = folder.ok(&args);
    assert!(text.starts_with("S -> ") && text.lines().count() >= 9, "{text}");
    assert_eq!(text, folder.ok(&args));
    folder.write("random.cfg", &text);
    let info = folder.json(&["info", "random.cfg"]);
    assert_eq!((&info["symbols"], &info["words"], &info["binary"]), (&3.into(), &4.into(), &5.into()));
    folder.ok(&["generate", "grammar", "-o", "random.zhat"]);
    for (rules, spans, form) in [
        ("any", "none", "any"),
        ("dense", "per-span", "dense"),
        ("sparse", "per-symbol", "sparse"),
        ("low-rank", "factored", "low rank"),
    ] {
        let args = [
            "generate",
            "hypertree",
            "--words",
            "4",
            "--batch",
            "3",
            "--ragged",
            "--heads",
            "3",
            "--tags",
            "4",
            "--symbols",
            "6",
            "--rules",
            rules,
            "--rule-count",
            "7",
            "--rank",
            "2",
            "--spans",
            spans,
            "--embedding",
            "3",
            "--precision",
            "f32",
            "-o",
            "trees.zhat",
        ];
        folder.ok(&args);
        let info = folder.json(&["info", "trees.zhat"]);
        assert_eq!(
            (&info["batch"], &info["symbols"], &info["precision"]),
            (&3.into(), &6.into(), &"f32".into())
        );
        assert_eq!(info["rules"].as_str().unwrap().replace('-', " "), form);
    }
    let refused = folder.run(&["generate", "grammar", "--symbols", "2", "--rules", "9"]);
    assert!(refused.stderr().contains("more than all 8 triples"), "{}", refused.stderr());
}
