//! Hand-written networks, round trips of names, and all errors. Round trips of tables are tested with the other
//! formats of Bayesian networks in `net`.

use super::*;
use crate::io::bif;
use crate::model::NetworkType;

const BAKERY: &str = r#"<?xml version="1.0" encoding="US-ASCII"?>
<!--
  A bakery, as in the description of the format: x -> y
-->
<!DOCTYPE BIF [
  <!ELEMENT BIF ( NETWORK )*>
  <!ATTLIST BIF VERSION CDATA #REQUIRED>
]>
<BIF VERSION="0.3" xmlns="http://example.org/XMLBIF">
<NETWORK>
<NAME>Bakery</NAME>
<PROPERTY>author = "a > b"</PROPERTY>
<DEFINITION>
  <FOR>bread</FOR>
  <GIVEN>oven</GIVEN>
  <GIVEN> age </GIVEN>
  <TABLE>0.5 0.5 <!-- hot old --> 0.75 .25
    0.25 0.75 <!-- 9 9 -->
    0.875 1.25E-1<!---->
    0 1 <![CDATA[0.125 0.875]]> </TABLE>
</DEFINITION>
<VARIABLE TYPE="nature">
  <NAME>oven</NAME>
  <OUTCOME>hot</OUTCOME><OUTCOME>luke warm</OUTCOME><OUTCOME>&lt; &#48;</OUTCOME>
  <PROPERTY>position = (73, 165)</PROPERTY>
</VARIABLE>
<VARIABLE><OUTCOME>old</OUTCOME><OUTCOME>fresh</OUTCOME><NAME>age</NAME></VARIABLE>
<VARIABLE TYPE="nature"><NAME>bread</NAME><OUTCOME>good</OUTCOME><OUTCOME>bad</OUTCOME></VARIABLE>
<DEFINITION><FOR>oven</FOR><TABLE>0.25 0.5 0.25</TABLE></DEFINITION>
<DEFINITION><FOR>age</FOR><TABLE>0.1 0.9</TABLE><PROPERTY/></DEFINITION>
</NETWORK>
</BIF>
"#;

/// The same network.
const BAKERY_BIF: &str = r#"network bakery { }
variable oven { type discrete [ 3 ] { hot, "luke warm", "< 0" }; }
variable age { type discrete [ 2 ] { old, fresh }; }
variable bread { type discrete [ 2 ] { good, bad }; }
probability ( bread | oven, age ) {
  (hot, old) 0.5, 0.5; (hot, fresh) 0.75, 0.25;
  ("luke warm", old) 0.25, 0.75; ("luke warm", fresh) 0.875, 0.125;
  ("< 0", old) 0, 1; ("< 0", fresh) 0.125, 0.875;
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
    assert_eq!(parse(BAKERY).unwrap(), bif::parse_model(BAKERY_BIF.as_bytes(), "").unwrap());
}

fn named(variable: &str, states: &[&str]) -> FactorGraph {
    let mut graph = FactorGraph::new(vec![states.len()]).unwrap().with_network_type(NetworkType::Bayes);
    graph.add_factor(&[0], &vec![-(states.len() as f64).ln(); states.len()]).unwrap();
    let states = states.iter().map(|&state| state.to_owned()).collect();
    graph.with_names(vec![variable.into()], vec![states]).unwrap()
}

#[test]
fn strange_names_travel() {
    let names =
        ["", " ", "a<b>", "&amp;", "]]>", " x ", "\n", "\r\n", "é|", "\"'", "-->", "\t", "a  b", "\u{85}"];
    for variable in names {
        let graph = named(variable, &names);
        assert_eq!(parse(&written(&graph)).unwrap().names(), graph.names(), "{variable:?}");
    }
    for bad in ["\u{0}", "a\u{1b}b", "\u{ffff}"] {
        let message = check(&named(bad, &["x"])).unwrap_err().to_string();
        assert!(message.contains("which an .xmlbif file cannot hold"), "{message}");
        assert!(check(&named("x", &[bad])).is_err());
    }
}

#[test]
fn what_is_written_has_the_child_fastest() {
    let mut graph = FactorGraph::new(vec![2, 2]).unwrap().with_network_type(NetworkType::Bayes);
    graph.add_factor(&[1], &[0.25f64.ln(), 0.75f64.ln()]).unwrap();
    graph.add_factor(&[1, 0], &[0.0, f64::NEG_INFINITY, 0.5f64.ln(), 0.5f64.ln()]).unwrap();
    let want = "<DEFINITION>\n  <FOR>x0</FOR>\n  <GIVEN>x1</GIVEN>\n  <TABLE>\n    1 0\n    0.5 0.5\n  </TABLE>\n\
        </DEFINITION>\n";
    let text = written(&graph);
    assert!(text.contains(want), "{text}");
    assert!(text.contains("<OUTCOME>s0</OUTCOME>\n  <OUTCOME>s1</OUTCOME>"), "{text}");
    let markov = FactorGraph::new(vec![2]).unwrap();
    let message = check(&markov).unwrap_err().to_string();
    assert!(
        message
            .ends_with("only a Bayesian network can be a .xmlbif file, but this model has the form MARKOV")
    );
}

#[test]
fn mistakes_are_named_with_their_line() {
    let a = "<VARIABLE><NAME>a</NAME><OUTCOME>t</OUTCOME><OUTCOME>f</OUTCOME></VARIABLE>\n";
    for (text, message) in [
        ("", "line 1: the file ends where <BIF> was expected"),
        ("\n<html>", "line 2: expected <BIF>, found <html>"),
        ("<BIF VERSION=\"0.5\">", "line 1: XMLBIF of version 0.5 cannot be read, only 0.3"),
        ("<BIF>\n</BIF>", "line 2: the file has no <NETWORK>"),
        ("<BIF>\nx", "line 1: expected an element inside <BIF>, found `x`"),
        ("<BIF><NETWORK/>\n<NETWORK>", "line 2: the file has two networks; one can be read"),
        ("<BIF><x>", "line 1: expected <NETWORK>, found <x>"),
        (
            "<BIF><NETWORK>\n<NODE>",
            "line 2: expected <VARIABLE>, <DEFINITION>, <NAME> or <PROPERTY>, found <NODE>",
        ),
        (
            "<BIF><NETWORK>\n",
            "line 2: the file ends where `</NETWORK>` was expected; the element starts in line 1",
        ),
        ("<BIF>\n<NETWORK>\n</BIF>", "line 3: expected `</NETWORK>`, which starts in line 2, found `</BIF>`"),
    ] {
        let found = parse(text).unwrap_err().to_string();
        assert!(found.starts_with(message), "{found}");
    }
    for (text, message) in [
        (
            "<VARIABLE TYPE=\"decision\">",
            "line 3: a variable of type `decision` cannot be read, only `nature`",
        ),
        ("<VARIABLE>\n</VARIABLE>", "line 3: a variable has no <NAME>"),
        ("<VARIABLE><NAME>b</NAME></VARIABLE>", "line 3: variable `b` has no states; every variable needs"),
        ("<VARIABLE><NAME>b</NAME>\n<NAME>c</NAME></VARIABLE>", "line 4: a variable has two names"),
        (
            "<VARIABLE><NAME>b</NAME>\n<VALUE>c</VALUE></VARIABLE>",
            "line 4: expected <NAME>, <OUTCOME> or <PROPERTY>, found <VALUE>",
        ),
        ("<VARIABLE><NAME>b<x/></NAME></VARIABLE>", "line 3: expected the text of <NAME>, found <x>"),
        ("<VARIABLE><NAME>b&c;</NAME></VARIABLE>", "line 3: unknown entity `&c`"),
        ("<VARIABLE>x</VARIABLE>", "line 3: expected an element inside <VARIABLE>, found `x`"),
        (a, "line 3: variable `a` is declared twice; first in line 2"),
        (
            "<VARIABLE><NAME>b</NAME><OUTCOME>t</OUTCOME><OUTCOME>\nt</OUTCOME></VARIABLE>",
            "line 3: variable `b` has two states named `t`",
        ),
        ("", "line 2: variable `a` has no table"),
        ("<DEFINITION>\n</DEFINITION>", "line 3: a definition has no <FOR>"),
        ("<DEFINITION><FOR>a</FOR>\n</DEFINITION>", "line 3: the definition of `a` has no <TABLE>"),
        ("<DEFINITION><FOR>a</FOR>\n<FOR>b</FOR></DEFINITION>", "line 4: a definition is for two variables"),
        ("<DEFINITION><TABLE/><TABLE/></DEFINITION>", "line 3: a definition has two tables"),
        (
            "<DEFINITION><FOR>a</FOR>\n<TABLE>1\n-1</TABLE></DEFINITION>",
            "line 5: expected a probability, a finite number that is 0 or more, found `-1`",
        ),
        (
            "<DEFINITION><FOR>a</FOR><TABLE>1 <b/> 0</TABLE></DEFINITION>",
            "line 3: expected a probability or </TABLE>, found <b>",
        ),
        (
            "<DEFINITION><FOR>a</FOR>\n<TABLE>1 0 0</TABLE></DEFINITION>",
            "line 4: the table of `a` lists 3 values, but needs 2",
        ),
        (
            "<DEFINITION><FOR>a</FOR>\n<TABLE>1 1</TABLE></DEFINITION>",
            "line 4: the row of `a` sums to 2; expected 1 up to 0.01",
        ),
        ("<DEFINITION><FOR>c</FOR><TABLE>1</TABLE></DEFINITION>", "line 3: there is no variable `c`"),
        (
            "<DEFINITION><FOR>a</FOR><GIVEN>a</GIVEN><TABLE>1</TABLE></DEFINITION>",
            "line 3: variable `a` is its own parent",
        ),
    ] {
        let found = parse(&format!("<BIF><NETWORK>\n{a}{text}</NETWORK></BIF>")).unwrap_err().to_string();
        assert!(found.starts_with(message), "{text}: {found}");
    }
    let bytes = b"<BIF>\n\xff";
    assert_eq!(parse_model(bytes, "f").unwrap_err().to_string(), "f: line 2: the text is not UTF-8");
}

#[test]
fn a_file_is_recognised() {
    for word in ["<?xml", "<BIF>", "<!--", "<!DOCTYPE", "\u{feff}<?xml"] {
        assert!(looks_like(word.as_bytes()), "{word}");
    }
    // A grammar may write its symbols in this way.
    assert!(!looks_like(b"<S>") && !looks_like(b"BIF"));
}

#[test]
fn altered_files_are_read_or_refused() {
    network::try_altered(BAKERY, |bytes| parse_model(bytes, "f"));
}
