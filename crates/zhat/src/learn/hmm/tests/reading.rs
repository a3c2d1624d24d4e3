//! Tables of observations.

use super::super::read::parse;
use super::super::*;

const GAUSSIAN: Family = Family::Gaussian { covariance: Covariance::Diagonal };

fn words(text: &str, family: Family, options: &ReadOptions) -> String {
    parse(text, "data.csv", family, options).unwrap_err().to_string()
}

#[test]
fn sequences_symbols_and_states_are_read() {
    let text = "sequence,symbol,tag\na,x,N\na,y,V\nb,x,N\n";
    let options = ReadOptions { labels: Some("tag".into()), ..ReadOptions::default() };
    let read = parse(text, "data.csv", Family::Categorical { symbols: 0 }, &options).unwrap();
    assert_eq!(read.data.lengths(), [2, 1]);
    assert_eq!(read.data.values(), [0.0, 1.0, 0.0]);
    assert_eq!(read.labels, Some(vec![0, 1, 0]));
    assert_eq!((read.layout.symbols.join(""), read.layout.states.join("")), ("xy".into(), "NV".into()));
    assert_eq!(read.family, Family::Categorical { symbols: 2 });
    // A known layout: columns by name, symbols by name.
    let options = ReadOptions { known: Some(read.layout.clone()), ..ReadOptions::default() };
    let again = parse("other,symbol\n1,y\n2,x\n", "data.csv", read.family, &options).unwrap();
    assert_eq!((again.data.values(), again.data.count()), (&[1.0, 0.0][..], 1));
    let unknown = words("symbol\ny\nz\n", read.family, &options);
    assert_eq!(unknown, "data.csv: line 3: column symbol: the model has no symbol `z`");
    // Numbers sort as numbers.
    let numbers =
        parse("v\n10\n9\n", "", Family::Categorical { symbols: 0 }, &ReadOptions::default()).unwrap();
    assert_eq!(numbers.layout.symbols, ["9", "10"]);
}

#[test]
fn bad_tables_name_line_and_column() {
    let plain = ReadOptions::default();
    assert_eq!(words("a,b\n1,2\n3\n", GAUSSIAN, &plain), "data.csv: line 3: found 1 values, expected 2");
    let number = words("a,b\n1,2\n3,x\n", GAUSSIAN, &plain);
    assert_eq!(number, "data.csv: line 3: column b: found `x`, expected a finite number");
    let missing = words("a,b\n1,\n", GAUSSIAN, &plain);
    assert!(missing.starts_with("data.csv: line 2: column b: the value is missing"), "{missing}");
    let apart = words("sequence,a\n1,1\n2,1\n1,1\n", GAUSSIAN, &plain);
    assert_eq!(apart, "data.csv: line 4: the rows of sequence `1` are not together; sort the table");
    let empty = words("a,b\n", GAUSSIAN, &plain);
    assert_eq!(empty, "data.csv: line 1: the table has no rows of observations");
    let column = words("a\n1\n", GAUSSIAN, &ReadOptions { sequence: Some("id".into()), ..plain.clone() });
    assert_eq!(column, "data.csv: line 1: there is no column `id`; there are a");
    let twice = words("a,a\n1,1\n", GAUSSIAN, &plain);
    assert!(twice.contains("line 1: two columns have the name `a`"), "{twice}");
    let symbols = words("a,b\n1,1\n", Family::Categorical { symbols: 0 }, &plain);
    assert!(symbols.contains("categorical emissions have one column"), "{symbols}");
}

#[test]
fn missing_values_if_asked_for() {
    let options = ReadOptions { missing: true, no_header: true, ..ReadOptions::default() };
    let read = parse("1,2\nNA,3\n", "", GAUSSIAN, &options).unwrap();
    assert!(read.data.values()[2].is_nan() && read.data.rows() == 2);
    assert_eq!(read.layout.columns, ["x0", "x1"]);
    let counts = Hmm::new(vec![1.0], vec![1.0], Emissions::Poisson(Poisson::new(1, vec![1.0, 1.0]).unwrap()));
    let half = parse("1,2\n1.5,3\n", "d.csv", GAUSSIAN, &options).unwrap();
    let error = counts.unwrap().check_data(&half.data).unwrap_err().to_string();
    assert_eq!(error, "d.csv: line 2: column x0: found 1.5, expected a count: 0, 1, 2, …");
}

/// States that a model has names for are found by name, whatever the order of the table.
#[test]
fn known_states_are_those_of_the_model() {
    let labels = Some("s".to_owned());
    let plain = ReadOptions { labels: labels.clone(), ..ReadOptions::default() };
    let first = parse("x,s\n1,b\n2,a\n3,c\n", "d.csv", GAUSSIAN, &plain).unwrap();
    assert_eq!(
        (first.labels, &first.layout.states[..]),
        (Some(vec![1, 0, 2]), &["a", "b", "c"].map(String::from)[..])
    );
    let again = ReadOptions { known: Some(first.layout), ..plain };
    let second = parse("x,s\n1,c\n2,b\n", "e.csv", GAUSSIAN, &again).unwrap();
    assert_eq!(second.labels, Some(vec![2, 1]));
    let error = parse("x,s\n1,c\n2,d\n", "e.csv", GAUSSIAN, &again).unwrap_err().to_string();
    assert_eq!(error, "e.csv: line 3: the model has no state `d`");
}
