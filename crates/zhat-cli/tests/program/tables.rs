//! Tables with quotes, encodings and missing values; samples of any number.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::support::Folder;

fn refused(folder: &Folder, args: &[&str], words: &[&str]) {
    let ran = folder.run(args);
    assert_eq!(ran.status(), 2, "{args:?}: {}", ran.stdout());
    for word in words {
        assert!(ran.stderr().contains(word), "{args:?}: `{word}` is missing in {}", ran.stderr());
    }
}

#[test]
fn a_quote_that_is_never_closed_is_an_error_with_its_line() {
    let folder = Folder::new("unclosed");
    // More than one block (1 MB) before the error, and after it.
    for (before, after) in [(0, 1000), (300_000, 10), (10, 300_000), (300_000, 300_000)] {
        let mut text = String::from("a,b\n\"x\ny\",1\n");
        text += &"x,1\n".repeat(before);
        text += "\"y,2\n";
        text += &"y,1\n".repeat(after);
        folder.write("t.csv", &text);
        let line = format!("line {}:", before + 4);
        for args in
            [vec!["fit", "t.csv", "-o", "m.zhat"], vec!["fit", "t.csv", "-o", "m.zhat", "--threads", "1"]]
        {
            refused(&folder, &args, &[&line, "never closed"]);
        }
    }
    folder.write("t.csv", "a,\"b\n1,2\n");
    refused(&folder, &["fit", "t.csv", "-o", "m.zhat"], &["line 1:", "never closed"]);
    // A quotation mark inside an unquoted field is an ordinary character.
    folder.write("t.csv", &format!("a,b\n{}", "5\" disk,1\n3\" disk,2\n".repeat(100_001)));
    let fitted = folder.json(&["fit", "t.csv", "-o", "m.zhat"]);
    assert_eq!((&fitted["rows"], &fitted["columns"]), (&200_002.into(), &2.into()));
}

#[test]
fn bytes_that_are_not_utf_8_are_an_error_or_latin_1() {
    let folder = Folder::new("latin");
    let write = |before: usize| {
        let mut text = b"town,b\n".to_vec();
        text.extend(b"Ulm,1\n".repeat(before));
        text.extend(b"K\xf6ln,1\nM\xe4r,2\nK\xf6ln,2\n");
        text.extend(b"Ulm,2\n".repeat(3));
        std::fs::write(folder.path().join("t.csv"), text).unwrap();
    };
    for before in [0, 400_000] {
        write(before);
        let line = format!("line {}:", before + 2);
        refused(&folder, &["fit", "t.csv", "-o", "m.zhat"], &[&line, "column town", "0xf6", "latin-1"]);
        let latin = ["--encoding", "latin-1"];
        let fitted = folder.json(&[&["fit", "t.csv", "-o", "m.zhat"], &latin[..]].concat());
        assert_eq!(fitted["rows"], before + 6);
        assert!(folder.ok(&["marginals", "m.zhat"]).contains("Köln"));
        refused(&folder, &["score", "m.zhat", "t.csv"], &[&line, "column town"]);
        let scored = folder.json(&[&["score", "m.zhat", "t.csv"], &latin[..]].concat());
        assert_eq!(scored["rows"], before + 6);
    }
    std::fs::write(folder.path().join("g.csv"), b"town,b\nK\xf6ln,\n").unwrap();
    let filled = folder.ok(&["impute", "m.zhat", "g.csv", "--encoding", "latin-1"]);
    assert!(filled.starts_with("town,b\nKöln,"));
    std::fs::write(folder.path().join("h.csv"), b"a,\xff\n1,2\n").unwrap();
    refused(&folder, &["fit", "h.csv", "-o", "m.zhat"], &["line 1:", "column 2", "0xff"]);
}

#[test]
fn quoted_text_is_kept_unchanged() {
    let folder = Folder::new("quoted");
    folder.write("t.csv", "a,b\n\"NA\",\" 1\"\nNA,1\nx,1\n\"NA\",1\nx,\" 1\"\n");
    let fitted = folder.json(&["fit", "t.csv", "-o", "m.zhat"]);
    assert_eq!((fitted["rows"].as_u64(), fitted["dropped"].as_u64()), (Some(4), Some(1)));
    assert_eq!(fitted["missing"], serde_json::json!({"a": 1}));
    let marginals = folder.json(&["marginals", "m.zhat"]);
    assert_eq!(marginals["variables"][0]["states"], serde_json::json!(["NA", "x"]));
    assert_eq!(marginals["variables"][1]["states"], serde_json::json!(["1", " 1"]));
    // The written table is read back with the same states.
    assert_eq!(folder.json(&["score", "m.zhat", "t.csv"])["rows"], 4);
    folder.write("g.csv", "a,b\n\"NA\",\n");
    let filled = folder.ok(&["impute", "m.zhat", "g.csv"]);
    assert!(filled.starts_with("a,b\n\"NA\","), "{filled}");
    folder.write("again.csv", &folder.ok(&["sample", "m.zhat", "-n", "50"]));
    let again = folder.json(&["score", "m.zhat", "again.csv"]);
    assert_eq!((again["rows"].as_u64(), again["dropped"].as_u64()), (Some(50), Some(0)));
}

#[test]
fn missing_values_are_reported_by_column_or_become_a_state() {
    let folder = Folder::new("missing");
    folder.write("t.csv", "a,b,c\n1,x,\n1,y,?\n2,,u\n2,x,v\n1,y,u\n");
    let plain = folder.ok(&["fit", "t.csv", "-o", "m.zhat"]);
    assert!(
        plain.contains(
            "2 (3 left out for missing values: c in 2, b in 1; to keep them, --missing em, --missing state"
        ),
        "{plain}"
    );
    let fitted = folder.json(&["fit", "t.csv", "-o", "m.zhat"]);
    assert_eq!(fitted["missing"], serde_json::json!({"c": 2, "b": 1}));
    let kept = folder.json(&["fit", "t.csv", "-o", "m.zhat", "--missing", "state"]);
    assert_eq!((kept["rows"].as_u64(), kept["dropped"].as_u64()), (Some(5), Some(0)));
    let marginals = folder.json(&["marginals", "m.zhat"]);
    assert!(marginals["variables"][2]["states"].as_array().unwrap().contains(&"(missing)".into()));
    assert_eq!(folder.json(&["score", "m.zhat", "t.csv", "--missing", "state"])["rows"], 5);
    let dropped = folder.json(&["score", "m.zhat", "t.csv"]);
    assert_eq!((dropped["rows"].as_u64(), &dropped["missing"]["c"]), (Some(2), &2.into()));
    refused(&folder, &["fit", "t.csv", "-o", "m.zhat", "--missing", "refuse"], &["line 2", "column c"]);
}

#[test]
fn imputed_tables_are_csv_or_json() {
    let folder = Folder::new("imputed");
    folder.write("t.csv", "a,b\n0,x\n0,x\n1,y\n1,y\n1,x\n");
    folder.ok(&["fit", "t.csv", "-o", "m.zhat"]);
    refused(
        &folder,
        &["fit", "t.csv", "-o", "m.bif"],
        &["-o: a fitted model is a Markov random field", ".zhat or .uai"],
    );
    folder.write("g.csv", "a,b\n1,\n0,x\n");
    let ran = folder.run(&["impute", "m.zhat", "g.csv"]);
    assert_eq!((ran.stdout().as_str(), ran.stderr().as_str()), ("a,b\n1,y\n0,x\n", "1 value filled in\n"));
    let json = folder.json(&["impute", "m.zhat", "g.csv"]);
    assert_eq!((&json["rows"], &json["filled"]), (&2.into(), &1.into()));
    assert_eq!(json["columns"], serde_json::json!(["a", "b"]));
    assert_eq!(json["table"], serde_json::json!([{"a": "1", "b": "y"}, {"a": "0", "b": "x"}]));
    assert_eq!(
        (&json["guarantee"]["kind"], &json["methods"]),
        (&"exact".into(), &serde_json::json!(["elimination"]))
    );
    folder.write("g.csv", "a,b\n,\n,y\n");
    let ran = folder.run(&["impute", "m.zhat", "g.csv", "--method", "importance"]);
    assert!(ran.stderr().contains("3 values filled in; heuristic: "), "{}", ran.stderr());
    let json = folder.json(&["impute", "m.zhat", "g.csv", "--method", "importance"]);
    assert_eq!(json["guarantee"]["kind"], "heuristic");
}

#[test]
fn scores_of_rows_are_part_of_the_json_object() {
    let folder = Folder::new("scored");
    folder.write("t.csv", "a,b\n0,x\n0,x\n1,y\n1,x\n");
    folder.ok(&["fit", "t.csv", "-o", "m.zhat"]);
    let json = folder.json(&["score", "m.zhat", "t.csv", "--rows"]);
    let lines = json["lines"].as_array().unwrap();
    assert_eq!(lines.iter().map(|line| line["line"].as_u64().unwrap()).collect::<Vec<_>>(), [2, 3, 4, 5]);
    let mean = lines.iter().map(|line| line["log_likelihood"].as_f64().unwrap()).sum::<f64>() / 4.0;
    assert!((mean - json["log_likelihood"].as_f64().unwrap()).abs() < 1e-12);
    folder.write("part.csv", "a\n0\n");
    refused(
        &folder,
        &["score", "m.zhat", "part.csv"],
        &["the table has no values for these columns of the model: b"],
    );
}

#[test]
fn a_fit_by_a_lower_bound_on_log_z_has_a_warning() {
    let folder = Folder::new("upper");
    folder.write("t.csv", "a,b,c\n1,x,u\n1,y,v\n2,x,u\n2,x,v\n1,y,u\n2,y,v\n");
    let fit = ["fit", "t.csv", "--structure", "complete", "--iterations", "20", "-o", "m.zhat", "--method"];
    let ran = folder.run(&[&fit[..], &["mean-field"]].concat());
    assert_eq!(ran.status(), 0);
    assert!(ran.stderr().contains("warning: mean-field bounds log Z from below"), "{}", ran.stderr());
    assert!(ran.stdout().contains("log-likelihood  ≤ -"), "{}", ran.stdout());
    let json = folder.json(&[&fit[..], &["mean-field"]].concat());
    assert_eq!(json["guarantee"]["kind"], "bounds");
    assert!(json["warning"].as_str().unwrap().contains("upper bound"));
    let ran = folder.run(&[&fit[..], &["exact"]].concat());
    assert_eq!((ran.status(), ran.stderr().as_str()), (0, ""));
}

#[test]
fn large_samples_are_printed_in_batches_and_begin_like_small_ones() {
    let folder = Folder::new("batches");
    folder.ok(&["generate", "tree", "--variables", "3", "-o", "t.zhat"]);
    folder.ok(&["generate", "chain", "--states", "3", "--steps", "3", "-o", "c.zhat"]);
    folder.ok(&["generate", "permutation", "--size", "4", "-o", "p.zhat"]);
    for model in ["t.zhat", "c.zhat", "p.zhat"] {
        for json in [&[] as &[&str], &["--json"]] {
            let some = folder.ok(&[&["sample", model, "-n", "65536"], json].concat());
            let more = folder.ok(&[&["sample", model, "-n", "150000"], json].concat());
            assert!(more.starts_with(&some), "{model}");
            let header = usize::from(json.is_empty());
            assert_eq!(more.lines().count(), 150_000 + header, "{model}");
            // Later batches contain different draws.
            let lines: Vec<&str> = more.lines().skip(header).collect();
            assert_ne!(lines[..200], lines[65_536..65_736], "{model}");
        }
    }
    let lines = folder.ok(&["sample", "c.zhat", "-n", "70000"]);
    assert!(lines.lines().last().unwrap().starts_with("0,69999,"));
}

#[test]
#[cfg(target_os = "linux")]
fn samples_are_streamed_and_memory_is_bounded() {
    let folder = Folder::new("stream");
    folder.ok(&["generate", "tree", "--variables", "50", "-o", "t.zhat"]);
    let mut child =
        folder.command(&["sample", "t.zhat", "-n", "100000000"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    (0..200_000).for_each(|_| drop(lines.next().unwrap().unwrap()));
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kilobytes: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    // A hundred million draws would take 40 GB.
    assert!(kilobytes < 500_000, "{kilobytes} kB");
}

#[test]
fn incomplete_rows_are_fitted_scored_and_imputed() {
    let folder = Folder::new("incomplete");
    let rows = "1,x,u\n1,y,?\n2,,u\n2,x,v\n1,y,u\n,y,\n,,\n";
    folder.write("t.csv", &format!("a,b,c\n{}", rows.repeat(5)));
    let args = ["fit", "t.csv", "--missing", "em", "-o", "m.zhat"];
    let printed = folder.ok(&args);
    assert!(
        printed.contains(
            "30 (15 of them with missing values: c in 15, a in 10, b in 10; 5 without any value left out)"
        ),
        "{printed}"
    );
    let fitted = folder.json(&args);
    let figures = ["rows", "incomplete", "dropped"].map(|name| fitted[name].as_u64());
    assert_eq!(figures, [Some(30), Some(15), Some(5)]);
    // Scoring the same rows gives the likelihood of the fit; `marginal` is another name.
    for name in ["em", "marginal"] {
        let scored = folder.json(&["score", "m.zhat", "t.csv", "--missing", name]);
        let both = [&scored, &fitted].map(|json| json["log_likelihood"].as_f64().unwrap());
        assert!((both[0] - both[1]).abs() < 1e-12, "{both:?}");
        assert_eq!((scored["rows"].as_u64(), scored["incomplete"].as_u64()), (Some(30), Some(15)));
    }
    assert!(folder.run(&["impute", "m.zhat", "t.csv"]).stderr().contains("values filled in"));
    refused(&folder, &["fit", "t.csv", "--optimizer", "em", "-o", "m.zhat"], &["em is for incomplete rows"]);
    folder.write("e.csv", "a,b\n1,\n2,\n");
    refused(&folder, &["fit", "e.csv", "--missing", "em", "-o", "m.zhat"], &["column b has no values"]);
}

#[test]
fn tables_of_a_bayesian_network_are_fitted() {
    let folder = Folder::new("network");
    let rows = "no,no,dry\nno,yes,wet\nyes,no,wet\nyes,,wet\nno,no,dry\n,no,wet\n";
    folder.write("t.csv", &format!("rain,sprinkler,grass\n{}", rows.repeat(3)));
    let parents = ["fit", "t.csv", "--parents", "grass=rain,sprinkler", "-o"];
    let printed = folder.ok(&[&parents[..], &["n.bif"]].concat());
    assert!(printed.contains("Bayesian network of 3 variables, 2 arcs, 12 parameters"), "{printed}");
    assert!(printed.contains("in closed form"), "{printed}");
    // Complete rows: rain in 3 of 12.
    let marginals = folder.json(&["marginals", "n.bif", "--of", "rain"]);
    let rain = marginals["variables"][0]["p"][1].as_f64().unwrap();
    assert!((rain - 0.25).abs() < 1e-12, "{marginals}");
    // The written network is a structure, and with em all rows count.
    let again =
        ["fit", "t.csv", "--structure", "n.bif", "--missing", "em", "--pseudo-count", "0.5", "-o", "o.bif"];
    let fitted = folder.json(&again);
    assert_eq!((fitted["rows"].as_u64(), fitted["incomplete"].as_u64()), (Some(18), Some(6)));
    assert_eq!(fitted["converged"], true);
    assert!(folder.ok(&["info", "o.bif"]).contains("bayes"));
    let scored = folder.json(&["score", "o.bif", "t.csv", "--missing", "em"]);
    let both = [&scored, &fitted].map(|json| json["log_likelihood"].as_f64().unwrap());
    assert!((both[0] - both[1]).abs() < 1e-9, "{both:?}");
    let bad: [(&[&str], &[&str]); 9] = [
        (&["--parents", "grass=rain", "--parents", "rain=grass"], &["is its own ancestor"]),
        (&["--parents", "grass=snow"], &["no column `snow`", "rain, sprinkler, grass"]),
        (&["--parents", "grass"], &["expected child=parent1,parent2"]),
        (&["--parents", "grass=rain", "--pseudo-count", "0"], &["pseudo_count", "above 0"]),
        (
            &["--parents", "grass=rain", "--equivalent-sample-size", "0"],
            &["equivalent_sample_size", "above 0"],
        ),
        (&["--parents", "grass=rain", "--l1", "0.1"], &["--l1: is for random fields"]),
        (&["--parents", "grass=rain", "--structure", "n.bif"], &["--parents: is a structure itself"]),
        (&["--pseudo-count", "1"], &["--pseudo-count: is for Bayesian networks"]),
        (&["--structure", "m.uai"], &["expected a Bayesian network"]),
    ];
    folder.write("m.uai", "MARKOV\n3\n2 2 2\n0\n");
    for (arguments, words) in bad {
        refused(&folder, &[&["fit", "t.csv", "-o", "x.bif"], arguments].concat(), words);
    }
    folder.write("u.csv", "rain,sprinkler,grass\nno,no,green\n");
    refused(
        &folder,
        &["fit", "u.csv", "--structure", "n.bif", "-o", "x.bif"],
        &["line 2", "does not know the value `green` of column grass"],
    );
}
