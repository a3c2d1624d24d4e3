//! Files that are not models, and counts that exceed any memory, are refused immediately with a reason.

use std::path::{Path, PathBuf};

use crate::support::input::{answer, names_a_line, small};
use zhat::io::read_model;
use zhat::io::uai::{parse_evidence, parse_model};
use zhat::random::Streams;
use zhat::{Error, FactorGraph};

/// A folder for one test's files, removed afterwards.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("zhat-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn noise(length: usize) -> Vec<u8> {
    let mut random = Streams::new(7, "noise").block(0);
    (0..length.div_ceil(6))
        .flat_map(|_| ((random.uniform() * 2f64.powi(48)) as u64).to_le_bytes()[..6].to_vec())
        .collect()
}

#[test]
fn files_that_are_not_models_are_refused_with_their_name() {
    let folder = Folder::new("no-models");
    let refused = |path: &Path| {
        let error = read_model(path).unwrap_err();
        let message = error.to_string();
        assert!(message.contains(&path.display().to_string()), "{message}");
        assert!(message.len() < 1000, "{} characters", message.len());
        (error, message)
    };
    assert!(refused(&folder.file("empty", b"")).1.contains("empty"));
    assert!(refused(&folder.file("blank", b" \n\n ")).1.contains("empty"));
    assert!(matches!(refused(&folder.0).0, Error::Io { .. }));
    assert!(matches!(refused(&folder.0.join("missing")).0, Error::Io { .. }));
    let long = noise(100_000_000);
    assert!(refused(&folder.file("noise", &long)).1.contains("unknown format"));
    let headed = [b"MARKOV\n5\n2 2 2 2 2\n3\n".as_slice(), &long[..1_000_000]].concat();
    assert!(names_a_line(&refused(&folder.file("headed", &headed)).0));
    // A .zhat file starts with the length of a JSON header.
    for length in [8u32, 1 << 16, u32::MAX] {
        let mut start = u64::from(length).to_le_bytes().to_vec();
        start.extend(b"{\"__metadata__\":{");
        start.extend(&long[..1_000_000]);
        assert!(matches!(refused(&folder.file("headed.zhat", &start)).0, Error::Parse { .. }));
    }
}

#[test]
fn counts_that_imply_terabytes_are_refused_immediately() {
    for text in [
        "MARKOV\n99999999999999\n2 2",
        "MARKOV\n18446744073709551615\n2 2",
        "MARKOV\n2\n2 2\n99999999999999\n1 0",
        "MARKOV\n2\n2 2\n1\n99999999999999 0",
        "MARKOV\n2\n2 2\n1\n2 0 1\n99999999999999\n1 1 1 1",
        "MARKOV\n2\n4294967296 4294967296\n1\n2 0 1\n0\n",
        "MARKOV\n2\n9223372036854775807 9223372036854775807\n1\n2 0 1\n1\n1",
    ] {
        assert!(names_a_line(&parse_model(text.as_bytes(), "").unwrap_err()), "{text}");
    }
    let graph = FactorGraph::new(vec![2; 3]).unwrap();
    for text in ["99999999999999 0 1", "1 99999999999999 0 1", "1 0 99999999999999", "18446744073709551615"] {
        assert!(names_a_line(&parse_evidence(text.as_bytes(), "", &graph).unwrap_err()), "{text}");
    }
}

#[test]
fn a_variable_with_too_many_states_is_refused() {
    for states in ["9223372036854775808", "18446744073709551615", "1000000000000", "268435457"] {
        let error = parse_model(format!("MARKOV\n2\n2 {states}\n0\n").as_bytes(), "").unwrap_err();
        assert!(names_a_line(&error), "{error}");
    }
}

#[test]
fn a_variable_with_more_states_than_memory_is_counted_or_refused_by_methods() {
    let run = small();
    let graph = parse_model(b"MARKOV\n2\n2 268435456\n0\n", "").unwrap();
    answer(&graph, &run);
    answer(&graph.condition(&[(0, 1)]).unwrap(), &run);
}

#[test]
fn leading_blanks_and_comments_do_not_hide_a_model() {
    let folder = Folder::new("blanks");
    let path = folder.file("blanks.uai", format!("{}MARKOV\n1\n2\n0\n", "\n".repeat(5000)).as_bytes());
    assert!(read_model(&path).is_ok());
    let network = "network n {}\nvariable a { type discrete [ 1 ] { t }; }\nprobability ( a ) { table 1; }\n";
    for start in
        ["\n".repeat(5000), format!("// {}\n", "x".repeat(9000)), format!("/*{}*/", " *".repeat(9000))]
    {
        let path = folder.file("comment.bif", format!("{start}{network}").as_bytes());
        assert!(read_model(&path).is_ok(), "{}", &start[..2]);
    }
}

#[test]
fn values_beyond_the_range_of_doubles_are_kept_in_any_notation() {
    let zeros = "0".repeat(400);
    let text = format!("MARKOV 1 4 1 1 0 4 0.{zeros}1 1e-401 1{zeros} 1e400");
    let graph = parse_model(text.as_bytes(), "").unwrap();
    let values = graph.factor(0).log_values;
    assert!((values[0] - values[1]).abs() < 1e-9 && (values[2] - values[3]).abs() < 1e-9, "{values:?}");
}
