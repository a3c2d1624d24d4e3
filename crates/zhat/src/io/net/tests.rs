//! Hand-written networks, round trips through all formats of Bayesian networks, and all errors.

use super::*;
use crate::io::{bif, xmlbif};
use crate::model::{NetworkType, generate};

const BAKERY: &str = r#"% a bakery
net % with attributes
{
    node_size = (80 40);
    HR_Desc = "a \"small\" bakery; with % and {";
}

node oven { label = "The oven"; position = (1 2); states = ("hot" "luke warm" "cold"); }
discrete node age
{
    states = ("old" "fr%esh");
    subtype = label;
}
potential (bread | oven age) % the child varies fastest
{
    model_nodes = ();
    data = (((0.5 0.5)      % hot old
             (0.75 .25))    % hot fresh
            ((0.25 0.75)
             (0.875 1.25E-1))
            ((0 1)
             (0.125 0.875)));
    experience_data = ((1 1) (2 2) (3 3));
}
potential (oven) { data = (0.25 0.5 0.25); }
node bread { states = (good bad); }
potential (age | ) { data = (0.1 0.9); }
"#;

/// The same network.
const BAKERY_BIF: &str = r#"network bakery { }
variable oven { type discrete [ 3 ] { hot, "luke warm", cold }; }
variable age { type discrete [ 2 ] { old, fr%esh }; }
variable bread { type discrete [ 2 ] { good, bad }; }
probability ( bread | oven, age ) {
  (hot, old) 0.5, 0.5; (hot, fr%esh) 0.75, 0.25;
  ("luke warm", old) 0.25, 0.75; ("luke warm", fr%esh) 0.875, 0.125;
  (cold, old) 0, 1; (cold, fr%esh) 0.125, 0.875;
}
probability ( oven ) { table 0.25, 0.5, 0.25; }
probability ( age ) { table 0.1, 0.9; }
"#;

fn parse(text: &str) -> Result<FactorGraph> {
    parse_model(text.as_bytes(), "")
}

fn written(graph: &FactorGraph) -> String {
    let mut text = Vec::new();
    check(graph).unwrap();
    write_model(graph, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

#[test]
fn a_network_is_that_of_the_bif_file() {
    let graph = parse(BAKERY).unwrap();
    assert_eq!(graph, bif::parse_model(BAKERY_BIF.as_bytes(), "").unwrap());
    assert_eq!(graph.names().unwrap().states(0), ["hot", "luke warm", "cold"]);
    // Some programs write one list of all numbers, or one list per row.
    let data = BAKERY.find("(((0.5").unwrap()..BAKERY.find("experience").unwrap();
    for list in [
        "(0.5 0.5 .75 .25 .25 .75 .875 .125 0 1 .125 .875);",
        "((.5 .5)(.75 .25)(.25 .75)(.875 .125)(0 1)(.125 .875));",
    ] {
        let mut text = BAKERY.to_owned();
        text.replace_range(data.clone(), list);
        assert_eq!(parse(&text).unwrap(), graph);
    }
    let quoted = parse(r#"net{} node a{states=("x \"y\"" "z\w");} potential(a){data=(1 0);}"#).unwrap();
    assert_eq!(quoted.names().unwrap().states(0), ["x \"y\"", "z\\w"]);
}

/// A table that differs from another by one rounding of `exp` and one of `ln`.
fn assert_close(a: &FactorGraph, b: &FactorGraph) {
    assert_eq!((a.names(), a.cardinalities()), (b.names(), b.cardinalities()));
    assert_eq!(a.factor_count(), b.factor_count());
    for (a, b) in a.factors().zip(b.factors()) {
        assert_eq!(a.scope, b.scope);
        for (x, y) in a.log_values.iter().zip(b.log_values) {
            assert!(x == y || (x - y).abs() <= 4e-16 * y.abs().max(1.0), "{x} {y}");
        }
    }
}

#[test]
fn bif_to_xmlbif_to_net_to_bif_keeps_names_and_tables() {
    let mut models = vec![bif::parse_model(BAKERY_BIF.as_bytes(), "").unwrap()];
    let mut tiny = FactorGraph::new(vec![3]).unwrap().with_network_type(NetworkType::Bayes);
    tiny.add_factor(&[0], &[-1e4, 0.0, f64::NEG_INFINITY]).unwrap();
    models.push(tiny);
    models.push(FactorGraph::new(vec![]).unwrap().with_network_type(NetworkType::Bayes));
    for seed in 0..20 {
        let (states, parents) = (1 + seed as usize % 4, seed as usize % 5);
        models.push(generate::bayes(9, states, parents, 0.2, seed).unwrap());
    }
    for graph in models {
        // The first file gives names to variables and states that have none.
        let mut text = Vec::new();
        bif::write_model(&graph, &mut text).unwrap();
        let from_bif = bif::parse_model(&text, "").unwrap();
        let mut text = Vec::new();
        xmlbif::check(&from_bif).unwrap();
        xmlbif::write_model(&from_bif, &mut text).unwrap();
        let from_xml = xmlbif::parse_model(&text, "").unwrap();
        assert_close(&from_xml, &from_bif);
        let from_net = parse(&written(&from_xml)).unwrap();
        assert_close(&from_net, &from_bif);
        let mut text = Vec::new();
        bif::write_model(&from_net, &mut text).unwrap();
        let back = bif::parse_model(&text, "").unwrap();
        assert_close(&back, &from_bif);
        assert_eq!(back.names(), from_bif.names());
    }
}

#[test]
fn what_is_written_has_one_list_per_parent() {
    let mut graph = FactorGraph::new(vec![2, 3, 2]).unwrap().with_network_type(NetworkType::Bayes);
    let third = [0.25f64, 0.25, 0.5].map(f64::ln);
    graph.add_factor(&[0], &[0.0, f64::NEG_INFINITY]).unwrap();
    graph.add_factor(&[0, 2, 1], &third.repeat(4)).unwrap();
    graph.add_factor(&[2], &[0.5f64.ln(); 2]).unwrap();
    let text = written(&graph);
    let want = "potential (x1 | x0 x2)\n{\n  data = (((0.25 0.25 0.5)\n          (0.25 0.25 0.5))\n          \
        ((0.25 0.25 0.5)\n          (0.25 0.25 0.5)));\n}\n";
    assert!(text.contains(want), "{text}");
    assert!(text.contains("potential (x0)\n{\n  data = (1 0);\n}\n"), "{text}");
    assert!(text.starts_with("net\n{\n}\nnode x0\n{\n  states = (\"s0\" \"s1\");\n}\n"), "{text}");
}

#[test]
fn mistakes_are_named_with_their_line() {
    let a = "net {}\nnode a { states = (\"t\" \"f\"); }\nnode b { states = (\"u\" \"v\" \"w\"); }\n";
    let both = format!("{a}potential (a) {{ data = (0.5 0.5); }}\n");
    for (text, message) in [
        ("", "line 1: the file ends where `net` was expected"),
        ("\nclass X", "line 2: expected `net`, found `class`"),
        ("net\n{ a = 1;", "line 2: the file ends where an attribute or `}` was expected"),
        ("net\n{ a = 1 }", "line 2: expected `;` after an attribute, found `}`"),
        ("net\n{ a 1; }", "line 2: expected `=`, found `1`"),
        ("net {}\ncontinuous node x {}", "line 2: a continuous node cannot be read"),
        (
            "net {}\ndecision d {}",
            "line 2: a decision node cannot be read, only discrete nodes and potentials",
        ),
        ("net {}\nutility d {}", "line 2: a utility node cannot be read"),
        ("net {}\ndiscrete function d {}", "line 2: expected `node`, the only discrete part"),
        ("net {}\nx", "line 2: expected `node` or `potential`, found `x`"),
        ("net {}\nnode a {\n}", "line 3: node `a` has no states; expected `states = ( … );`"),
        ("net {}\nnode a { states = (x);\nstates = (y); }", "line 3: node `a` has two lists of states"),
        ("net {}\nnode a { states = (x\n;", "line 3: expected a state or `)`, found `;`"),
        ("net {}\nnode a { states = (); }", "line 2: variable `a` has no states"),
        ("net {}\nnode a { states = (x \"x\"); }", "line 2: variable `a` has two states named `x`"),
        ("net {}\nnode a { states = (x \"y); }", "line 2: the quote of `\"y); }` is never closed"),
        (
            "net {}\nnode a { states = (x); }\nnode a { states = (x); }",
            "line 3: variable `a` is declared twice; first in line 2",
        ),
    ] {
        let found = parse(text).unwrap_err().to_string();
        assert!(found.starts_with(message), "{found}");
    }
    for (text, message) in [
        ("", "line 3: variable `b` has no table"),
        ("potential (c) { data = (1); }", "line 5: there is no variable `c`"),
        ("potential (b | c) { data = (1); }", "line 5: there is no variable `c`"),
        ("potential (a) { data = (1 0); }", "line 5: the table of `a` is given twice; first in line 4"),
        ("potential (b | b) { data = (1); }", "line 5: variable `b` is its own parent"),
        ("potential (b | a a) { data = (1); }", "line 5: the parent `a` of `b` is named twice"),
        ("potential (b a) { data = (1); }", "line 5: the potential of `b` is for several variables"),
        ("potential (b | a | a)", "line 5: expected a parent or `)`, found `|`"),
        ("potential (b |\n", "line 6: the file ends where a parent or `)` was expected"),
        ("potential (b) {\n}", "line 6: the potential of `b` has no `data`"),
        ("potential (b) {\ndata = (1 0 0); data = (1 0 0); }", "line 6: the potential of `b` has two tables"),
        ("potential (b) {\ndata = 1; }", "line 6: expected `(`, found `1`"),
        ("potential (b) {\ndata = (1 0); }", "line 6: the table of `b` lists 2 values, but needs 3"),
        ("potential (b) {\ndata = (1 0 0 0); }", "line 6: the table of `b` lists 4 values, but needs 3"),
        (
            "potential (b) {\ndata = (1\nx 0); }",
            "line 7: expected a probability, a finite number that is 0 or more, `(` or `)`, found `x`",
        ),
        (
            "potential (b) {\ndata = (1 -0.5 0.5); }",
            "line 6: expected a probability, a finite number that is 0 or more, `(` or `)`, found `-0.5`",
        ),
        ("potential (b) {\ndata = (1 inf 0); }", "line 6: expected a probability"),
        (
            "potential (b) {\ndata = (1 0 0;",
            "line 6: expected a probability, a finite number that is 0 or more, `(` or `)`, found `;`",
        ),
        ("potential (b) {\ndata = (1 0 0));", "line 6: expected `;`, found `)`"),
        (
            "potential (b) {\ndata = (1 0.25 0); }",
            "line 6: the row of `b` sums to 1.25; expected 1 up to 0.01",
        ),
        (
            "potential (b | a) {\ndata = ((1 0 0)\n(1 1 0)); }",
            "line 6: the row (f) of `b` sums to 2; expected 1 up to 0.01",
        ),
        (
            "potential (b | a) {\ndata = ((1 0 0)\n(1 0)); }",
            "line 7: a list has 2 entries, but earlier ones of its depth have 3",
        ),
        ("potential (b | a) {\ndata = ((1 0 0)\n1); }", "line 7: numbers and lists are mixed in a table"),
        (
            "potential (b | a) {\ndata = (1 (0 0)); }",
            "line 6: expected a probability, a finite number that is 0 or more, `(` or `)`, found `(`",
        ),
        (
            "potential (b | a) {\ndata = ((1 0) (0 1) (0 0)); }",
            "line 6: the lists of the table of `b` are 3 × 2, but should be 2 × 3",
        ),
        (
            "potential (b | a) {\ndata = (((1 0 0) (0 1 0))); }",
            "line 6: the lists of the table of `b` are 1 × 2 × 3, but should be 2 × 3",
        ),
        ("potential (b | a) {\ndata = (); }", "line 6: the table of `b` lists 0 values, but needs 6"),
        ("potential (b | a) {\ndata = (()()); }", "line 6: the table of `b` lists 0 values, but needs 6"),
    ] {
        let found = parse(&format!("{both}{text}")).unwrap_err().to_string();
        assert!(found.starts_with(message), "{text}: {found}");
    }
    let cycle =
        "potential (a | b) { data = ((1 0) (1 0) (1 0)); }\npotential (b | a) { data = ((1 0 0) (1 0 0)); }";
    let message = parse(&format!("{a}{cycle}")).unwrap_err().to_string();
    assert!(message.ends_with("is its own ancestor; a Bayesian network has no cycles"), "{message}");
    let bytes = b"net {}\nnode \xff\xfe {";
    assert_eq!(parse_model(bytes, "f").unwrap_err().to_string(), "f: line 2: the text is not UTF-8");
}

#[test]
fn a_file_is_recognised_behind_comments() {
    for text in [
        "net{}",
        "net\n{",
        "net",
        "% x -> y\n  % z\nnet {",
        "\u{feff}net {",
        "net%\n{",
        "% very long comment",
    ] {
        assert!(looks_like(text.as_bytes()), "{text}");
    }
    for text in ["network x", "nets", "%start S\nS -> a", "", "% c\nMARKOV", "node"] {
        assert!(!looks_like(text.as_bytes()), "{text}");
    }
}

#[test]
fn names_that_the_format_cannot_hold_are_not_written() {
    let named = |variable: &str, state: &str| {
        let mut graph = FactorGraph::new(vec![1]).unwrap().with_network_type(NetworkType::Bayes);
        graph.add_factor(&[0], &[0.0]).unwrap();
        graph.with_names(vec![variable.into()], vec![vec![state.into()]]).unwrap()
    };
    for bad in ["", "a b", "a=b", "a(b", "a|b", "a%b", "a\"b", "a;b", "a\nb"] {
        let message = check(&named(bad, "x")).unwrap_err().to_string();
        assert!(message.contains("cannot be that of a variable in a .net file"), "{message}");
    }
    for bad in ["a\"b", "\\"] {
        let message = check(&named("a", bad)).unwrap_err().to_string();
        assert!(message.contains("has a quote or a backslash in it"), "{message}");
    }
    for good in ["", "a b", "a=b", "(", ";", "%", "a\nb", "é", "net"] {
        let graph = named(if good == "net" { "net" } else { "a-1.é" }, good);
        assert_eq!(parse(&written(&graph)).unwrap().names(), graph.names());
    }
}

#[test]
fn altered_files_are_read_or_refused() {
    network::try_altered(BAKERY, |bytes| parse_model(bytes, "f"));
}
