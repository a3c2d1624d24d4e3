//! Results of the program and their output formats.

use crate::support::{Folder, SPRINKLER, without_seconds, without_times};
use insta::assert_snapshot;
use serde_json::{Value, json};

#[test]
fn plain_output() {
    let folder = Folder::new("plain");
    let model = folder.write("m.uai", SPRINKLER);
    let ask = |args: &[&str]| without_times(&folder.ok(args));
    assert_snapshot!("logz", ask(&["logz", &model, "--given", "x3=1", "--method", "elimination"]));
    assert_snapshot!("marginals", ask(&["marginals", &model, "--given", "x3=1", "--method", "elimination"]));
    let ask_factors = ["marginals", &model, "--factors", "--given", "x3=1", "--method", "elimination"];
    assert_snapshot!("marginals_factors", ask(&ask_factors));
    assert_snapshot!("entropy", ask(&["entropy", &model, "--method", "elimination"]));
    assert_snapshot!("map", ask(&["map", &model, "--method", "elimination"]));
    assert_snapshot!("map_importance", ask(&["map", &model, "--method", "importance"]));
    assert_snapshot!("sample", folder.ok(&["sample", &model, "-n", "5", "--seed", "1"]));
    assert_snapshot!("info", folder.ok(&["info", &model, "--memory", "1GiB"]));
}

#[test]
fn json_answers_keep_the_contract() {
    let folder = Folder::new("json");
    let model = folder.write("m.uai", SPRINKLER);
    let z = folder.json(&["logz", &model, "--given", "x3=1", "--method", "elimination"]);
    let keys: Vec<&String> = z.as_object().unwrap().keys().collect();
    let want = [
        "schema",
        "version",
        "query",
        "value",
        "log10",
        "guarantee",
        "method",
        "seed",
        "plan",
        "diagnostics",
    ];
    assert_eq!(keys, want);
    // P(wet) = 0.6471 for this network.
    assert!((z["value"].as_f64().unwrap() - 0.6471f64.ln()).abs() < 1e-12);
    assert!((z["log10"].as_f64().unwrap() - 0.6471f64.log10()).abs() < 1e-12);
    assert_eq!(
        (&z["schema"], &z["query"], &z["method"]),
        (&json!(1), &json!("log_partition"), &json!("elimination"))
    );
    assert_eq!(z["guarantee"], json!({"kind": "exact"}));

    let marginals = folder.json(&["marginals", &model, "--given", "x3=1"]);
    assert_eq!(marginals["variables"][3], json!({"name": "x3", "states": ["0", "1"], "p": [0.0, 1.0]}));
    let sprinkler = marginals["variables"][1]["p"][1].as_f64().unwrap();
    assert!((sprinkler - 0.2781 / 0.6471).abs() < 1e-12, "{sprinkler}");

    let factors = folder.json(&["marginals", &model, "--factors", "--given", "x1=1"]);
    assert_eq!(factors["query"], json!("factor_marginals"));
    let tables = factors["factors"].as_array().unwrap();
    // Four factors of the model and one for the observed variable.
    assert_eq!(tables.len(), 5);
    assert_eq!((&tables[3]["scope"], &tables[3]["shape"]), (&json!(["x2", "x3"]), &json!([2, 2])));
    assert_eq!(tables[4], json!({"scope": ["x1"], "shape": [2], "p": [0.0, 1.0]}));
    // P(rain, wet | sprinkler) = (0.5·0.5·0.2 + 0.5·0.1·0.8)/0.3 · 0.99.
    let both = tables[3]["p"][3].as_f64().unwrap();
    assert!((both - 0.09 / 0.3 * 0.99).abs() < 1e-12, "{both}");

    let best = folder.json(&["map", &model]);
    assert_eq!(best["state"], json!([1, 0, 1, 1]));
    assert!((best["value"].as_f64().unwrap() - (0.5f64 * 0.9 * 0.8 * 0.9).ln()).abs() < 1e-12);

    let ranked = folder.json(&["map", &model, "-k", "3"]);
    assert_eq!(ranked["states"][0]["state"], best["state"]);
    assert_eq!(ranked["states"].as_array().unwrap().len(), 3);
    assert!(folder.ok(&["map", &model, "-k", "2", "--given", "x3=1"]).contains("rank"));

    let unbiased =
        folder.json(&["logz", &model, "--method", "importance", "--set", "samples=640,proposal=uniform"]);
    let guarantee = &unbiased["guarantee"];
    assert_eq!((&guarantee["kind"], &guarantee["high"]), (&json!("unbiased"), &Value::Null));
    assert_eq!((&guarantee["replicates"], &guarantee["confidence"]), (&json!(32), &json!(0.95)));
    assert!(guarantee["low"].as_f64().unwrap() < 0.0);
    assert_eq!(unbiased["diagnostics"]["samples"], json!(640));

    let lines = folder.ok(&["sample", &model, "-n", "3", "--json", "--method", "importance"]);
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    assert!(
        lines
            .iter()
            .all(|line| line["state"].as_array().unwrap().len() == 4 && line["log_weight"].is_number())
    );

    let info = folder.json(&["info", &model]);
    assert_eq!((&info["variables"], &info["width"], &info["form"]), (&json!(4), &json!(2), &json!("bayes")));
    assert!(info["methods"].as_array().unwrap().len() >= 15);
    let barren = |given: &str| folder.json(&["info", &model, "--given", given])["barren"].clone();
    // The table of `cloudy` is uniform and is dropped, so that `cloudy` remains in only one factor.
    assert_eq!((&info["barren"], barren("x1=0"), barren("x3=1")), (&json!(4), json!(3), json!(0)));
    assert_eq!(barren("x2=1,x3=1"), json!(0));
}

#[test]
fn a_factor_with_many_joint_states_takes_one_line() {
    let folder = Folder::new("joint");
    let (zeros, ones) = ("0 ".repeat(60), "1 ".repeat(40));
    let model = folder.write("m.uai", &format!("MARKOV 2 10 10 1 2 0 1\n100 {zeros}{ones}"));
    let text = folder.ok(&["marginals", &model, "--factors"]);
    let line = text.lines().nth(1).unwrap();
    assert!(line.contains("6,0: 0.025000") && line.ends_with("… and 92 less likely"), "{text}");
    let constant = folder.write("c.uai", "MARKOV 1 2 1 0\n1 3");
    assert!(folder.ok(&["marginals", &constant, "--factors"]).contains("1.000000"));
}

#[test]
fn uai_competition_result_files() {
    let folder = Folder::new("uai");
    let model = folder.write("m.uai", "MARKOV 2 2 3 1 2 0 1\n6 1 2 3 0 1 3");
    let pr = folder.ok(&["logz", &model, "--format", "uai"]);
    assert!((pr.strip_prefix("PR\n").unwrap().trim().parse::<f64>().unwrap() - 1.0).abs() < 1e-14);
    let mar = folder.ok(&["marginals", &model, "--format", "uai"]);
    let numbers: Vec<f64> =
        mar.strip_prefix("MAR\n").unwrap().split_whitespace().map(|x| x.parse().unwrap()).collect();
    let want = [2.0, 2.0, 0.6, 0.4, 3.0, 0.1, 0.3, 0.6];
    assert!(numbers.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-14), "{mar}");
    assert_eq!(folder.ok(&["map", &model, "--format", "uai"]), "MAP\n2 0 2\n");
}

#[test]
fn threads_do_not_change_the_result() {
    let folder = Folder::new("threads");
    folder.ok(&["generate", "ising", "--rows", "12", "--columns", "12", "--seed", "4", "-o", "g.zhat"]);
    for method in ["elimination", "importance"] {
        for query in [&["logz"][..], &["marginals"], &["marginals", "--factors"], &["entropy"], &["map"]] {
            let with = |threads: &str| {
                let rest = ["g.zhat", "--method", method, "--threads", threads];
                without_seconds(folder.json(&[query, &rest].concat()))
            };
            assert_eq!(with("1"), with("2"), "{method} {query:?}");
        }
        let samples = |threads: &str| {
            folder.ok(&["sample", "g.zhat", "-n", "700", "--method", method, "--threads", threads])
        };
        assert_eq!(samples("1"), samples("2"), "{method}");
    }
}

#[test]
fn models_are_converted_between_formats_and_piped() {
    let folder = Folder::new("convert");
    folder.ok(&[
        "generate",
        "random",
        "--variables",
        "8",
        "--factors",
        "10",
        "--zeros",
        "0.3",
        "-o",
        "a.uai",
    ]);
    folder.ok(&["convert", "a.uai", "b.zhat"]);
    folder.ok(&["convert", "b.zhat", "c.uai"]);
    let value =
        |model: &str| folder.json(&["logz", model, "--method", "elimination"])["value"].as_f64().unwrap();
    assert_eq!(value("a.uai"), value("b.zhat"));
    assert!((value("a.uai") - value("c.uai")).abs() < 1e-12);
    // The format is detected from the content, not from the file name.
    std::fs::rename(folder.path().join("b.zhat"), folder.path().join("b.uai")).unwrap();
    assert_eq!(value("a.uai"), value("b.uai"));
    let text = folder.ok(&["convert", "a.uai", "-"]);
    assert!(text.starts_with("MARKOV\n8\n"));
    let mut piped = folder.command(&["logz", "-", "--method", "elimination", "--json"]);
    let input = std::fs::File::open(folder.path().join("a.uai")).unwrap();
    let output = piped.stdin(input).output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["value"].as_f64().unwrap(), value("a.uai"));
}

#[test]
fn a_network_with_names_is_queried_by_name_and_converted() {
    let folder = Folder::new("bif");
    let text = "// a morning\nnetwork morning { }
variable late { type discrete [ 2 ] { yes, no }; }
variable train { type discrete [ 3 ] { on-time, slow, \"not at all\" }; }
probability ( train ) { table 0.5, 0.25, 0.25; }
probability ( late | train ) { (slow) 0.5, 0.5; (on-time) 0.125, 0.875; default 1, 0; }
";
    let model = folder.write("a.bif", text);
    let late = |model: &str, given: &str| {
        folder.json(&["logz", model, "--given", given, "--method", "elimination"])["value"].as_f64().unwrap()
    };
    let close = |a: f64, b: f64| (a - b).abs() < 1e-14;
    assert!(close(late(&model, "late=yes"), 0.4375f64.ln()));
    assert!(close(late(&model, "late=yes,train=not at all"), 0.25f64.ln()));
    let marginals = folder.json(&["marginals", &model]);
    assert_eq!(marginals["variables"][1]["states"], json!(["on-time", "slow", "not at all"]));
    folder.ok(&["convert", &model, "b.zhat"]);
    folder.ok(&["convert", "b.zhat", "c.bif"]);
    assert!(close(late("c.bif", "late=yes,train=slow"), 0.125f64.ln()));
    folder.ok(&["convert", &model, "d.uai"]);
    assert!(close(late("d.uai", "x0=0"), 0.4375f64.ln()));
    folder.ok(&["generate", "bayes", "-o", "e.bif"]);
    assert!(folder.json(&["logz", "e.bif"])["value"].as_f64().unwrap().abs() < 1e-12);
    assert!(folder.ok(&["convert", &model, "-"]).starts_with("BAYES\n2\n2 3\n"));
}

#[test]
fn every_generator_makes_a_model() {
    let folder = Folder::new("generate");
    for kind in ["ising", "potts", "tree", "random", "bayes"] {
        folder.ok(&["generate", kind, "-o", "m.zhat", "--seed", "3"]);
        let again = folder.ok(&["generate", kind, "--seed", "3"]);
        assert_eq!(folder.ok(&["convert", "m.zhat", "-"]), again, "{kind}");
        assert!(folder.json(&["info", "m.zhat"])["variables"].as_u64().unwrap() >= 30, "{kind}");
    }
}

#[test]
fn the_demo_prints_a_table_and_writes_a_picture() {
    let folder = Folder::new("demo");
    let text = folder.ok(&["demo"]);
    for word in
        ["elimination", "enumeration", "importance, tree", "exact", "unbiased", "years", "zhat-demo.svg"]
    {
        assert!(text.contains(word), "{word} is missing:\n{text}");
    }
    let svg = std::fs::read_to_string(folder.path().join("zhat-demo.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>") && svg.len() > 10_000);
}

#[test]
fn completions_and_manual_list_the_methods() {
    let folder = Folder::new("man");
    for shell in ["bash", "zsh", "fish"] {
        assert!(folder.ok(&["completions", shell]).contains("elimination"), "{shell}");
    }
    assert!(folder.ok(&["man", "logz"]).contains("elimination"));
    let page = folder.ok(&["man"]);
    assert!(page.contains(".TH zhat") && page.contains("zhat\\-logz(1)"));
}

#[test]
fn help_output() {
    let folder = Folder::new("help");
    assert_snapshot!("help", folder.ok(&["--help"]));
    assert_snapshot!("help_logz", folder.ok(&["logz", "--help"]));
    assert_eq!(folder.ok(&["--version"]), format!("zhat {}\n", env!("CARGO_PKG_VERSION")));
}
