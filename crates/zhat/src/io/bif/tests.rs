//! Hand-written networks, round trips of generated networks, and all errors.

use super::*;
use crate::method::exact::Elimination;
use crate::model::{NetworkType, generate};
use crate::{LogPartition, Marginals, Run};

/// P(good) = 0.615625.
const BAKERY: &str = r#"// a bakery
network "the bakery" { property made by hand; }
/* two causes
   and an effect */
variable oven { type discrete [ 3 ] { hot, warm, cold }; property position = (1, 2); }
variable flour-age {
  property "a; b";
  type discrete[2]{old fresh};
}
probability ( bread | oven, flour-age ) {
  (warm, old) .25, 0.75; // in no order
  (hot, old) 5e-1 0.5;
  (warm, fresh) +0.875, 125E-3;
  property none;
  (cold, old) 0, 1;
  (hot, fresh) 0.75, 0.25;
  default 0.125, 0.875;
}
probability ( oven ) { table 0.25, 0.5, 0.25; }
variable bread { type discrete [ 2 ] = { good, "quite bad" }; }
probability ( flour-age ) { table 0.1, 0.9; }
property the end;
"#;

fn parse(text: &str) -> Result<FactorGraph> {
    parse_model(text.as_bytes(), "")
}

fn failure(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

fn written(graph: &FactorGraph) -> String {
    let mut text = Vec::new();
    check(graph).unwrap();
    write_model(graph, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

fn log_partition(graph: &FactorGraph) -> f64 {
    Elimination::default().log_partition(graph, &Run::default()).unwrap().value
}

#[test]
fn a_network_is_read_with_its_names() {
    let graph = parse(BAKERY).unwrap();
    assert_eq!((graph.network_type(), graph.cardinalities()), (NetworkType::Bayes, [3, 2, 2].as_slice()));
    let names = graph.names().unwrap();
    assert_eq!(names.variables(), ["oven", "flour-age", "bread"]);
    assert_eq!(names.states(2), ["good", "quite bad"]);
    let scopes: Vec<&[usize]> = graph.factors().map(|factor| factor.scope).collect();
    assert_eq!(scopes, [[0, 1, 2].as_slice(), &[0], &[1]]);
    let want = [0.5, 0.5, 0.75, 0.25, 0.25, 0.75, 0.875, 0.125, 0.0, 1.0, 0.125, 0.875].map(f64::ln);
    assert_eq!(graph.factor(0).log_values, want);
    assert!(log_partition(&graph).abs() < 1e-14);
    let good = graph.condition(&[(2, 0)]).unwrap();
    assert!((log_partition(&good) - 0.615625f64.ln()).abs() < 1e-14);
    let beliefs = Elimination::default().marginals(&good, &Run::default()).unwrap().value;
    let hot = beliefs.iter().next().unwrap()[0];
    assert!((hot - 0.18125 / 0.615625).abs() < 1e-14, "{hot}");
}

#[test]
fn a_table_has_the_child_slowest_and_the_last_parent_fastest() {
    let start = BAKERY.find("(warm, old)").unwrap();
    let end = BAKERY.find("default").unwrap();
    let table = "table 0.5 0.75 0.25 0.875 0 0.125  0.5 0.25 0.75 0.125 1 0.875; ";
    let text = format!("{}{table}{}", &BAKERY[..start], &BAKERY[end..]);
    assert_eq!(parse(&text).unwrap(), parse(BAKERY).unwrap());
    // Old files name the parents without a bar.
    assert_eq!(
        parse(&text.replace("bread | oven, flour", "bread oven flour")).unwrap(),
        parse(BAKERY).unwrap()
    );
}

#[test]
fn strange_names_travel() {
    let text = "network x{}variable <5-1=2.0+a/b>{type discrete[1]{>=7.5};}
        variable property{type discrete[3]{property,table \"//\"};}
        probability(property|<5-1=2.0+a/b>){(>=7.5)1,0,0;}probability(<5-1=2.0+a/b>){table 1.;}";
    let graph = parse(text).unwrap();
    assert_eq!(graph.names().unwrap().variables(), ["<5-1=2.0+a/b>", "property"]);
    assert_eq!(graph.names().unwrap().states(1), ["property", "table", "//"]);
    let names = ["", " ", "a//b", "\n", "{", "é|", "/*", "network", "-", "\u{0}"];
    let mut named = FactorGraph::new(vec![names.len()]).unwrap().with_network_type(NetworkType::Bayes);
    named.add_factor(&[0], &[-(names.len() as f64).ln(); 10]).unwrap();
    for variable in names {
        let states = names.map(String::from).to_vec();
        let graph = named.clone().with_names(vec![variable.into()], vec![states]).unwrap();
        assert_eq!(parse(&written(&graph)).unwrap().names(), graph.names());
    }
    assert_eq!(parse(&written(&graph)).unwrap(), graph);
}

#[test]
fn what_is_written_is_read_back() {
    let mut tiny = FactorGraph::new(vec![3]).unwrap().with_network_type(NetworkType::Bayes);
    tiny.add_factor(&[0], &[-1e4, 0.0, f64::NEG_INFINITY]).unwrap();
    let mut models = vec![tiny, FactorGraph::new(vec![]).unwrap().with_network_type(NetworkType::Bayes)];
    for seed in 0..20 {
        let (states, parents) = (1 + seed as usize % 4, seed as usize % 5);
        models.push(generate::bayes(9, states, parents, 0.2, seed).unwrap());
    }
    for graph in models {
        let back = parse(&written(&graph)).unwrap();
        assert_eq!((back.network_type(), back.cardinalities()), (NetworkType::Bayes, graph.cardinalities()));
        assert_eq!(back.names().unwrap().variables().len(), graph.variable_count());
        assert_eq!(back.factor_count(), graph.factor_count());
        for (a, b) in back.factors().zip(graph.factors()) {
            assert_eq!(a.scope, b.scope);
            for (x, y) in a.log_values.iter().zip(b.log_values) {
                // One rounding of `exp` and one of `ln`; the latter grows with the size of the logarithm.
                assert!(x == y || (x - y).abs() <= 4e-16 * y.abs().max(1.0), "{x} {y}");
                assert!((x.exp() - y.exp()).abs() <= 1e-15, "{x} {y}");
            }
        }
        assert_eq!(parse(&written(&back)).unwrap().names(), back.names());
    }
}

#[test]
fn unnamed_variables_and_states_get_names() {
    let mut graph = FactorGraph::new(vec![2, 2]).unwrap().with_network_type(NetworkType::Bayes);
    graph.add_factor(&[1], &[0.25f64.ln(), 0.75f64.ln()]).unwrap();
    graph.add_factor(&[1, 0], &[0.0, f64::NEG_INFINITY, 0.5f64.ln(), 0.5f64.ln()]).unwrap();
    let want = "network unknown {\n}\n\
        variable x0 {\n  type discrete [ 2 ] { s0, s1 };\n}\n\
        variable x1 {\n  type discrete [ 2 ] { s0, s1 };\n}\n\
        probability ( x1 ) {\n  table 0.25, 0.75;\n}\n\
        probability ( x0 | x1 ) {\n  (s0) 1, 0;\n  (s1) 0.5, 0.5;\n}\n";
    assert_eq!(written(&graph), want);
}

#[test]
fn a_chain_of_thousands_is_read() {
    let graph = generate::bayes(3000, 2, 1, 0.0, 4).unwrap();
    let back = parse(&written(&graph)).unwrap();
    assert!(log_partition(&back).abs() < 1e-9);
}

/// Two variables, `a` before `b`, with these probabilities.
fn pair(probabilities: &str) -> String {
    let variables = "network n {\n}\nvariable a { type discrete [ 2 ] { t, f }; }\n\
        variable b { type discrete [ 2 ] { t, f }; }\n";
    format!("{variables}{probabilities}")
}

#[test]
fn mistakes_in_probabilities_are_named_with_their_line() {
    let a = "probability ( a ) { table 0.5, 0.5; }\n";
    for (b, message) in [
        ("", "line 4: variable `b` has no `probability` block"),
        ("probability ( c ) { }", "line 6: there is no variable `c`"),
        (
            "probability ( a ) { table 1, 0; }",
            "line 6: the probabilities of `a` are given twice; first in line 5",
        ),
        ("probability ( b | b ) { }", "line 6: variable `b` is its own parent"),
        ("probability ( b | a, a ) { }", "line 6: the parent `a` of `b` is named twice"),
        ("probability ( b, a | a ) { }", "line 6: expected a parent or `)`, found `|`"),
        ("probability { }", "line 6: expected `(`, found `{`"),
        ("probability ( b | a ) {\n(t) 1, 0;\n(t) 1, 0; }", "line 8: the row (t) of `b` is given twice"),
        (
            "probability ( b | a ) {\n(t) 1, 0;\n}",
            "line 8: the row (f) of `b` is missing, and there is no `default`",
        ),
        ("probability ( b ) {\n}", "line 7: the row of `b` is missing, and there is no `default`"),
        ("probability ( b | a ) {\n(t) 1; }", "line 7: the row (t) of `b` lists 1 values, but needs 2"),
        ("probability ( b ) {\ntable 1, 0, 0; }", "line 7: the table of `b` lists 3 values, but needs 2"),
        ("probability ( b | a ) {\ntable 1, 0; }", "line 7: the table of `b` lists 2 values, but needs 4"),
        ("probability ( b ) {\ndefault 1; }", "line 7: the default row of `b` lists 1 values, but needs 2"),
        (
            "probability ( b ) {\ndefault 1, 0; default 1, 0; }",
            "line 7: the default row of `b` is given twice",
        ),
        (
            "probability ( b | a ) {\n(t) 1 0;\ntable 1, 0; }",
            "line 8: the rows of `b` are given before its `table`",
        ),
        (
            "probability ( b ) {\ntable 1, 0; table 1, 0; }",
            "line 7: the rows of `b` are given before its `table`",
        ),
        (
            "probability ( b | a ) {\ntable 1, 1, 0, 0; (t) 1, 0; }",
            "line 7: the row (t) of `b` is given twice",
        ),
        ("probability ( b | a ) {\n(x) 1, 0; }", "line 7: variable `a` has no state `x`"),
        ("probability ( b | a ) {\n() 1, 0; }", "line 7: the row names 0 states, but there are 1 parents"),
        (
            "probability ( b | a ) {\n(t, t) 1, 0; }",
            "line 7: expected `)` after a state of every parent, found `t`",
        ),
        (
            "probability ( b ) {\ntable 0.5, 0.4; }",
            "line 7: the row of `b` sums to 0.9; expected 1 up to 0.01",
        ),
        (
            "probability ( b | a ) {\n(t) 0.5, 0.52; }",
            "line 7: the row (t) of `b` sums to 1.02; expected 1 up to 0.01",
        ),
        (
            "probability ( b | a ) {\ntable 1 1 0 1; }",
            "line 7: the row (f) of `b` sums to 2; expected 1 up to 0.01",
        ),
        (
            "probability ( b ) {\ndefault 2, 0; }",
            "line 7: the default row of `b` sums to 2; expected 1 up to 0.01",
        ),
        (
            "probability ( b ) {\ntable 1, 0 }",
            "line 7: expected a probability, a finite number that is 0 or more, or `;`, found `}`",
        ),
        ("probability ( b ) {\nvalues 1, 0; }", "line 7: expected a row, a property or `}`, found `values`"),
        (
            "probability ( b ) {\n[ 1, 0; }",
            "line 7: expected `(`, `table`, `default`, `property` or `}`, found `[`",
        ),
        ("probability ( b ) {\ntable 1, 0;\n", "line 8: the file ends where `}` was expected"),
        (
            "probability ( b ) {\ntable 1, 0;\nprobability",
            "line 8: expected a row, a property or `}`, found `probability`",
        ),
    ] {
        assert_eq!(failure(&pair(&format!("{a}{b}"))), message);
    }
    for bad in ["-0.1", "nan", "inf", "1e", "x", "0x1", "1_0", "\"\""] {
        let message = failure(&pair(&format!("{a}probability ( b ) {{\ntable\n{bad}, 1; }}")));
        let shown = bad.trim_matches('"');
        let want = format!(
            "line 8: expected a probability, a finite number that is 0 or more, or `;`, found `{shown}`"
        );
        assert_eq!(message, want);
    }
    let cycle = "probability ( a | b ) { table 1 1 0 0; }\nprobability ( b | a ) { table 1 1 0 0; }";
    let message = failure(&pair(cycle));
    assert!(
        ["line 5: variable `a`", "line 6: variable `b`"].iter().any(|start| message.starts_with(start)),
        "{message}"
    );
    assert!(message.ends_with("is its own ancestor; a Bayesian network has no cycles"), "{message}");
}

#[test]
fn mistakes_in_declarations_are_named_with_their_line() {
    for (text, message) in [
        ("", "line 1: the file ends where `network` was expected"),
        ("\n net", "line 2: expected `network`, found `net`"),
        ("network x\n", "line 2: the file ends where `{` was expected"),
        ("network { x", "line 1: expected `property` or `}`, found `x`"),
        ("network {}\nvar", "line 2: expected `variable`, `probability` or `property`, found `var`"),
        ("network {}\nproperty x", "line 2: the file ends where `;` after a property was expected"),
        ("network {}\n/* x", "line 2: the comment `/*` is never closed by `*/`"),
        ("network {}\nvariable \"x", "line 2: the quote of `\"x` is never closed"),
        ("network {}\nvariable {", "line 2: expected the name of a variable, found `{`"),
        ("network {}\nvariable a (", "line 2: expected `{`, found `(`"),
        ("network {}\nvariable a {\ncolour", "line 3: expected `type`, `property` or `}`, found `colour`"),
        (
            "network {}\nvariable a {\n}",
            "line 3: variable `a` has no type; expected `type discrete [ … ] { … };`",
        ),
        (
            "network {}\nvariable a { type continuous",
            "line 2: expected `discrete`, the only type that can be read, found `continuous`",
        ),
        (
            "network {}\nvariable a { type discrete [ two ]",
            "line 2: expected the number of states of variable `a`, a whole number, found `two`",
        ),
        ("network {}\nvariable a { type discrete [ 2 ] t", "line 2: expected `{`, found `t`"),
        (
            "network {}\nvariable a { type discrete [ 3 ] {\nt, f } ;}",
            "line 3: variable `a` is to have 3 states, but lists 2",
        ),
        (
            "network {}\nvariable a { type discrete [ 0 ] { };}",
            "line 2: variable `a` has 0 states; every variable needs at least one",
        ),
        (
            "network {}\nvariable a { type discrete [ 2 ] { t, t",
            "line 2: variable `a` has two states named `t`",
        ),
        ("network {}\nvariable a { type discrete [ 2 ] { t (", "line 2: expected a state or `}`, found `(`"),
        ("network {}\nvariable a { type discrete [ 1 ] { t }\n}", "line 3: expected `;`, found `}`"),
        ("network {}\nvariable a { type discrete [ 1 ] { t };\ntype", "line 3: variable `a` has two types"),
        (
            "network {}\nvariable a { type discrete [ 1 ] { t }; }\nvariable a",
            "line 3: variable `a` is declared twice; first in line 2",
        ),
    ] {
        assert_eq!(failure(text), message);
    }
    let bytes = b"network {}\nvariable \xff\xfe {";
    assert!(parse_model(bytes, "f").unwrap_err().to_string().starts_with("f: line 2: the name `"));
}

#[test]
fn rounded_rows_are_kept_as_they_are() {
    let rounded = "probability ( a ) { table 0.333, 0.666; } probability ( b ) { table 0.5, 0.49; }";
    let graph = parse(&pair(rounded)).unwrap();
    assert_eq!(graph.factor(0).log_values, [0.333f64.ln(), 0.666f64.ln()]);
    assert!((log_partition(&graph) - (0.999f64 * 0.99).ln()).abs() < 1e-14);
    assert!(check(&graph).is_ok());
}

#[test]
fn a_default_that_asks_for_terabytes_is_refused() {
    let states: Vec<String> = (0..1000).map(|s| s.to_string()).collect();
    let mut text = String::from("network n {}\n");
    for v in 0..9 {
        text += &format!("variable v{v} {{ type discrete [ 1000 ] {{ {} }}; }}\n", states.join(" "));
    }
    let message = failure(&format!("{text}probability ( v0 | v1 v2 v3 v4 v5 v6 v7 v8 ) {{ default 1; }}"));
    assert_eq!(message, "line 11: with the table of `v0` the network takes more memory than is free");
    let message = failure(&format!("{text}probability ( v0 | v1 v2 v3 v4 ) {{ default 1; }}"));
    assert_eq!(message, "line 11: with the table of `v0` the network takes more memory than is free");
}

#[test]
fn what_is_no_bayesian_network_is_not_written() {
    let reason = |graph: &FactorGraph| check(graph).unwrap_err().to_string();
    assert!(reason(&generate::tree(5, 2, 1.0, 1).unwrap()).ends_with("but this model has the form MARKOV"));
    let network = parse(BAKERY).unwrap();
    assert!(reason(&network.condition(&[(0, 1)]).unwrap()).ends_with("has been given evidence"));
    let new = || FactorGraph::new(vec![2, 2]).unwrap().with_network_type(NetworkType::Bayes);
    let half = 0.5f64.ln();
    let built = |scopes: &[&[usize]]| {
        let mut graph = new();
        for scope in scopes {
            graph.add_factor(scope, &vec![half; 1 << scope.len()]).unwrap();
        }
        graph
    };
    assert!(reason(&new()).ends_with("variable `x0` is last in no factor's scope"));
    assert!(reason(&built(&[&[]])).ends_with("factor 0 is a constant"));
    assert!(reason(&built(&[&[0], &[0]])).ends_with("variable `x0` is last in the scopes of two factors"));
    assert!(reason(&built(&[&[0, 1], &[1, 0]])).ends_with("is its own ancestor"));
    let mut skew = built(&[&[0]]);
    skew.add_factor(&[1], &[0.0, half]).unwrap();
    assert!(reason(&skew).ends_with("a row of the table of `x1` sums to 1.5; expected 1 up to 0.01"));
    let names = vec!["a".into(), "b\"".into()];
    let quote = built(&[&[0], &[1]]).with_names(names, vec![vec![], vec![]]).unwrap();
    assert!(reason(&quote).contains("the name `b\"` has a quote in it"));
}
