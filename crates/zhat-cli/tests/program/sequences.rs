//! The program on chains and semi-Markov chains.

use crate::support::{Folder, without_seconds, without_times};
use insta::assert_snapshot;
use serde_json::{Value, json};

/// Chains with one and with two sequences, in both precisions and with many states, and a semi-Markov chain.
fn models(test: &str) -> Folder {
    let folder = Folder::new(test);
    let generate = |rest: &str| {
        let args: Vec<&str> = ["generate"].into_iter().chain(rest.split_whitespace()).collect();
        folder.ok(&args);
    };
    generate("chain --states 3 --steps 4 --batch 2 --ragged --seed 1 -o two.zhat");
    generate("chain --states 3 --steps 4 --zeros 0.3 -o one.zhat");
    generate("chain --states 3 --steps 4 --precision f32 -o single.zhat");
    generate("chain --states 60 --steps 2 --transitions factored --rank 3 -o many.zhat");
    generate("semi-markov --states 3 --steps 5 --longest 3 --transitions per-step -o semi.zhat");
    folder
}

#[test]
fn single_precision_is_printed_with_the_digits_that_it_has() {
    let folder = Folder::new("single");
    let make =
        ["generate", "chain", "--states", "1000", "--steps", "50", "--precision", "f32", "-o", "c.zhat"];
    folder.ok(&make);
    let text = folder.ok(&["logz", "c.zhat"]);
    let value = text.lines().next().unwrap().split_whitespace().nth(2).unwrap();
    let places = value.split('.').nth(1).map_or(0, str::len);
    assert!((2..=4).contains(&places), "{text}");
    assert!(text.contains("exact (rounding at most 0.00"), "{text}");
}

#[test]
fn plain_output_for_sequences() {
    let folder = models("plain");
    let ask = |args: &str| {
        let text = without_times(&folder.ok(&args.split_whitespace().collect::<Vec<_>>()));
        // The memory forecast depends on the number of processors.
        let line = |line: &str| match line.split_once("forecast bytes") {
            Some((start, _)) => format!("{start}…"),
            None => line.to_owned(),
        };
        text.lines().map(line).collect::<Vec<_>>().join("\n")
    };
    assert_snapshot!("logz", ask("logz two.zhat"));
    assert_snapshot!("logz_given", ask("logz two.zhat --given 0:3=1,1:0=2"));
    assert_snapshot!("logz_one", ask("logz one.zhat --given 2=1"));
    assert_snapshot!("entropy", ask("entropy two.zhat"));
    assert_snapshot!("marginals", ask("marginals two.zhat"));
    assert_snapshot!("marginals_many", ask("marginals many.zhat"));
    assert_snapshot!("factors", ask("marginals two.zhat --factors"));
    assert_snapshot!("factors_semi_markov", ask("marginals semi.zhat --factors"));
    assert_snapshot!("map", ask("map two.zhat"));
    assert_snapshot!("map_semi_markov", ask("map semi.zhat"));
    assert_snapshot!("k_best", ask("map two.zhat -k 3"));
    assert_snapshot!("sample", ask("sample two.zhat -n 3 --seed 2"));
    assert_snapshot!("sample_semi_markov", ask("sample semi.zhat -n 3"));
}

#[test]
fn info_shows_sizes_and_methods() {
    let folder = models("info");
    for (model, words) in [
        ("two.zhat", &["chain, f64", "2 of ", "shared", "log_partition     forward-backward"] as &[&str]),
        ("single.zhat", &["chain, f32", "1 of 4 positions"]),
        ("many.zhat", &["factored, embeddings of dimension 3"]),
        ("semi.zhat", &["semi-markov, f64", "per-step", "of up to 3 positions"]),
    ] {
        let text = folder.ok(&["info", model, "--memory", "1GiB"]);
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    }
    let info = folder.json(&["info", "semi.zhat"]);
    assert_eq!((&info["kind"], &info["form"]), (&json!("semi-markov"), &json!("per-step")));
    assert_eq!((&info["states"], &info["steps"], &info["batch"]), (&json!(3), &json!(5), &json!(1)));
    assert_eq!((&info["precision"], &info["longest_segment"]), (&json!("f64"), &json!(3)));
    assert!(info["methods"].as_array().unwrap().iter().any(|row| row["method"] == "forward-backward"));
    assert_eq!(folder.json(&["info", "many.zhat"])["rank"], json!(3));
}

#[test]
fn json_has_a_number_for_one_sequence_and_arrays_for_more() {
    let folder = models("json");
    let one = folder.json(&["logz", "one.zhat"]);
    assert!(one["value"].is_number() && one["log10"].is_number());
    let two = folder.json(&["logz", "two.zhat", "--method", "forward-backward"]);
    let keys: Vec<&String> = two.as_object().unwrap().keys().collect();
    let want = "schema version query value log10 guarantee method seed plan diagnostics";
    assert_eq!(keys, want.split(' ').collect::<Vec<_>>());
    let values: Vec<f64> =
        two["value"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect();
    assert_eq!(values.len(), 2);
    assert!((two["log10"][1].as_f64().unwrap() - values[1] / std::f64::consts::LN_10).abs() < 1e-12);

    let marginals = folder.json(&["marginals", "two.zhat"]);
    let sequences = marginals["sequences"].as_array().unwrap();
    for sequence in sequences {
        let positions = sequence["p"].as_array().unwrap();
        assert_eq!(positions.len() as u64, sequence["length"].as_u64().unwrap());
        for p in positions {
            let total: f64 = p.as_array().unwrap().iter().map(|p| p.as_f64().unwrap()).sum();
            assert!((total - 1.0).abs() < 1e-12);
        }
    }
    let gradient = &folder.json(&["marginals", "many.zhat", "--factors"])["gradient"];
    assert_eq!(gradient["left"]["shape"], json!([60, 3]));
    assert_eq!(gradient["right"]["values"].as_array().unwrap().len(), 180);
    let gradient = &folder.json(&["marginals", "semi.zhat", "--factors"])["gradient"];
    assert_eq!(gradient["segments"]["shape"], json!([3, 3]));
    assert_eq!(gradient["transitions"]["shape"], json!([4, 3, 3]));

    let best = folder.json(&["map", "two.zhat"]);
    assert_eq!(best["value"].as_array().unwrap().len(), 2);
    assert_eq!(best["sequences"][0]["states"].as_array().unwrap().len(), 4);
    let ranked = folder.json(&["map", "two.zhat", "-k", "3"]);
    assert_eq!(ranked["sequences"][0][0], best["sequences"][0]);
    assert_eq!(ranked["sequences"][0].as_array().unwrap().len(), 3);
    let best = folder.json(&["map", "semi.zhat"]);
    assert!(best["value"].is_number());
    let segments = best["sequences"][0]["segments"].as_array().unwrap();
    assert_eq!(segments.iter().map(|segment| segment[1].as_u64().unwrap()).sum::<u64>(), 5);

    let lines = folder.ok(&["sample", "two.zhat", "-n", "3", "--json"]);
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 6);
    assert_eq!((&lines[4]["sequence"], &lines[4]["sample"]), (&json!(1), &json!(1)));
    assert_eq!(lines[0]["states"].as_array().unwrap().len(), 4);
}

#[test]
fn a_single_chain_equals_its_factor_graph() {
    let folder = models("graph");
    folder.ok(&["convert", "one.zhat", "one.uai"]);
    let value = |args: &[&str]| folder.json(args)["value"].as_f64().unwrap();
    for query in ["logz", "entropy", "map"] {
        let difference = value(&[query, "one.zhat"]) - value(&[query, "one.uai"]);
        assert!(difference.abs() < 1e-12, "{query}: {difference}");
    }
    let given = value(&["logz", "one.zhat", "--given", "2=1"]);
    assert!((given - value(&["logz", "one.uai", "--given", "x2=1"])).abs() < 1e-12);
    let text = folder.ok(&["generate", "chain", "--states", "2", "--steps", "3"]);
    assert!(text.starts_with("MARKOV\n3\n"));
}

#[test]
fn estimates_have_a_guarantee_for_each_sequence() {
    let folder = Folder::new("estimates");
    let generate = "generate chain --states 300 --steps 4 --batch 2 -o b.zhat";
    folder.ok(&generate.split(' ').collect::<Vec<_>>());
    let how = ["--method", "randomized", "--set", "states=20", "--seed", "3"];
    fn ask<'a>(query: &[&'a str], how: &[&'a str]) -> Vec<&'a str> {
        [query, &["b.zhat"], how].concat()
    }
    let text = folder.ok(&ask(&["logz"], &how));
    assert_eq!(text.matches("unbiased, standard error").count(), 2, "{text}");
    let estimate = folder.json(&ask(&["logz"], &how));
    let (guarantee, exact) = (&estimate["guarantee"], folder.json(&["logz", "b.zhat"]));
    assert_eq!((&guarantee["kind"], guarantee["items"].as_array().unwrap().len()), (&json!("each"), 2));
    for b in 0..2 {
        assert_eq!(guarantee["items"][b]["kind"], "unbiased");
        assert!(guarantee["items"][b]["low"].as_f64().unwrap() < exact["value"][b].as_f64().unwrap());
    }
    let csv = folder.ok(&ask(&["sample", "-n", "3"], &how));
    assert!(csv.starts_with("sequence,sample,log_weight,t0,t1,t2,t3\n") && csv.lines().count() == 7, "{csv}");
    let line = folder.ok(&[&ask(&["sample"], &how)[..], &["--json"]].concat());
    assert!(serde_json::from_str::<Value>(line.lines().next().unwrap()).unwrap()["log_weight"].is_number());
    let ran = folder.run(&ask(&["map"], &how));
    assert!(ran.status() == 2 && ran.stderr().contains("these do: forward-backward"), "{}", ran.stderr());
    folder.ok(&[
        "generate",
        "rdp-chain",
        "--states",
        "80",
        "--rank",
        "4",
        "--precision",
        "f32",
        "-o",
        "r.zhat",
    ]);
    assert!(folder.json(&["logz", "r.zhat"])["value"].is_number());
}

#[test]
fn divergences_of_two_chains() {
    let folder = models("divergence");
    folder.ok(&"generate chain --states 3 --steps 4 --seed 7 -o p.zhat".split(' ').collect::<Vec<_>>());
    folder.ok(&"generate chain --states 3 --steps 4 --seed 8 -o q.zhat".split(' ').collect::<Vec<_>>());
    let value = |args: &[&str]| folder.json(args)["value"].as_f64().unwrap();
    let (kl, cross) = (value(&["kl", "p.zhat", "q.zhat"]), value(&["cross-entropy", "p.zhat", "q.zhat"]));
    assert!(kl > 0.0 && (cross - kl - value(&["entropy", "p.zhat"])).abs() < 1e-12);
    assert!(value(&["kl", "p.zhat", "p.zhat"]).abs() < 1e-12);
    assert!(folder.ok(&["kl", "p.zhat", "q.zhat"]).starts_with("KL       "));
    let both = folder.json(&["kl", "two.zhat", "two.zhat", "--set", "checkpoint=true"]);
    assert_eq!((&both["query"], both["value"].as_array().unwrap().len()), (&json!("kl"), 2));
    assert!(value(&["kl", "semi.zhat", "semi.zhat"]).abs() < 1e-12);
    assert!(folder.ok(&["cross-entropy", "two.zhat", "two.zhat"]).contains("cross-entropy (nats)"));
    // log Z of q minus the expected score is the cross-entropy.
    let score = value(&["expectation", "p.zhat", "q.zhat"]);
    assert!((value(&["logz", "q.zhat"]) - score - cross).abs() < 1e-12);
    assert!(folder.ok(&["expectation", "p.zhat", "q.zhat"]).starts_with("E[score]  "));
}

#[test]
fn invalid_requests_for_sequences_are_refused_with_a_reason() {
    let folder = models("cannot");
    for (args, status, words) in [
        ("logz two.zhat --evidence e.txt", 2, "evidence files are for factor graphs"),
        ("logz two.zhat --given 1=2", 2, "expected SEQUENCE:POSITION=STATE"),
        ("logz two.zhat --given x0=2", 2, "expected SEQUENCE:POSITION=STATE"),
        ("logz one.zhat --given x=2", 2, "expected POSITION=STATE"),
        ("logz two.zhat --given 2:0=0", 2, "no sequence 2"),
        ("logz two.zhat --given 0:4=0", 2, "has 4 positions"),
        ("logz two.zhat --given 0:0=3", 2, "has 3 states"),
        ("logz two.zhat --given 0:0=1,0:0=1", 2, "given twice"),
        ("logz two.zhat --format uai", 2, "for factor graphs, not for a chain"),
        ("logz two.zhat --method elimination", 2, "these do: forward-backward"),
        ("convert two.zhat two.uai", 2, "a factor graph holds one sequence, and the batch has 2"),
        ("convert semi.zhat semi.bif", 2, "a .zhat file takes any model"),
        ("generate chain --batch 2", 2, "a .zhat file takes any model"),
        ("generate chain --states 0 -o x.zhat", 2, "states: must be at least 1"),
        ("generate semi-markov --longest 0 -o x.zhat", 2, "longest: must be at least 1"),
        ("generate chain --states 999999999 -o x.zhat", 2, "model size"),
        ("logz one.zhat --given 1=2", 1, "impossible evidence"),
        ("logz two.zhat --memory 1", 1, "over budget"),
        ("kl two.zhat semi.zhat", 2, "found a chain f64 and a semi-markov f64"),
        ("kl two.zhat single.zhat", 2, "of the same kind and precision"),
        ("kl two.zhat many.zhat", 2, ""),
        ("kl two.zhat two.zhat --method importance", 2, "forward-backward does"),
    ] {
        let ran = folder.run(&args.split_whitespace().collect::<Vec<_>>());
        assert_eq!(ran.status(), status, "{args}: {}", ran.stderr());
        assert!(
            ran.stderr().contains(words) && !ran.stderr().contains("panicked"),
            "{args}: {}",
            ran.stderr()
        );
    }
}

#[test]
fn threads_do_not_change_results_for_sequences() {
    let folder = Folder::new("sequence-threads");
    for (kind, file) in [("chain", "a.zhat"), ("semi-markov", "b.zhat")] {
        let size = ["--states", "40", "--steps", "30", "--batch", "3", "--ragged", "--precision", "f32"];
        folder.ok(&[&["generate", kind, "-o", file], &size[..]].concat());
        for query in [&["logz"][..], &["marginals"], &["marginals", "--factors"], &["entropy"], &["map"]] {
            let with = |threads: &str| {
                let mut answer =
                    without_seconds(folder.json(&[query, &[file, "--threads", threads][..]].concat()));
                // More threads use more scratch memory.
                answer["plan"]["bytes"] = Value::Null;
                answer["diagnostics"]["forecast_bytes"] = Value::Null;
                answer
            };
            assert_eq!(with("1"), with("2"), "{kind} {query:?}");
        }
        let samples = |threads: &str| folder.ok(&["sample", file, "-n", "50", "--threads", threads]);
        assert_eq!(samples("1"), samples("2"), "{kind}");
    }
}

#[test]
fn pairwise_graphs_are_supported() {
    let folder = Folder::new("pairwise");
    folder.ok(&[
        "generate",
        "pairwise",
        "--rows",
        "2",
        "--columns",
        "3",
        "--tree",
        "--states",
        "4",
        "-o",
        "t.zhat",
    ]);
    let found = folder.json(&["logz", "t.zhat"]);
    assert_eq!((&found["method"], &found["guarantee"]["kind"]), (&json!("bp"), &json!("exact")));
    folder.ok(&["convert", "t.zhat", "t.uai"]);
    let same = folder.json(&["logz", "t.uai"]);
    let difference = found["value"].as_f64().unwrap() - same["value"].as_f64().unwrap();
    assert!(difference.abs() < 1e-9);
    let few = folder.json(&["logz", "t.zhat", "--method", "randomized-bp", "--set", "states=2"]);
    assert_eq!(few["guarantee"]["kind"], json!("unbiased"));
    assert!(folder.ok(&["marginals", "t.zhat"]).contains("variable"));
    assert!(folder.ok(&["marginals", "t.zhat", "--factors"]).contains("interactions"));
    assert!(folder.ok(&["info", "t.zhat"]).contains("6, 5 edges"));
    let given = folder.json(&["logz", "t.zhat", "--given", "0=1"]);
    assert!(given["value"].as_f64() < found["value"].as_f64());
    folder.ok(&["generate", "pairwise", "--interactions", "factored", "--states", "30", "-o", "g.zhat"]);
    let grid = folder.json(&["entropy", "g.zhat"]);
    assert_eq!(grid["guarantee"]["kind"], json!("heuristic"));
}

/// A chain in which a path has a positive weight only if all its states are equal.
#[allow(clippy::unwrap_used)]
fn loyal(folder: &Folder, name: &str, batch: usize) {
    let (states, steps) = (6, 3);
    let entry = |k: usize| if k / states == k % states { 0.0 } else { f64::NEG_INFINITY };
    let transitions: Vec<f64> = (0..states * states).map(entry).collect();
    let chain = zhat::Chain::crf(
        states,
        vec![0.0; batch * steps * states].into(),
        vec![steps; batch],
        zhat::model::Transitions::Shared(transitions.into()),
    );
    zhat::io::write_model(&chain.unwrap().into(), &folder.path().join(name)).unwrap();
}

#[test]
fn an_estimate_of_zero_has_a_warning() {
    let folder = Folder::new("misses");
    loyal(&folder, "one.zhat", 1);
    loyal(&folder, "many.zhat", 3);
    let few = "--method randomized --set states=1 --set proposal=uniform --set replicates=1";
    let (mut missed, mut found) = (0, 0);
    for seed in 0..12 {
        let seed = seed.to_string();
        for model in ["one.zhat", "many.zhat"] {
            let mut args = vec!["logz", model, "--json", "--seed", &seed];
            args.extend(few.split(' '));
            let ran = folder.run(&args);
            assert_eq!(ran.status(), 0, "{}", ran.stderr());
            let answer: Value = serde_json::from_str(&ran.stdout()).unwrap();
            let values = answer["value"].as_array().cloned().unwrap_or_else(|| vec![answer["value"].clone()]);
            let some = values.iter().any(|value| !value.is_number());
            assert_eq!(answer["diagnostics"]["warning"].is_string(), some, "{answer}");
            assert_eq!(
                ran.stderr().contains("zhat: warning: every replicate missed"),
                some,
                "{}",
                ran.stderr()
            );
            if some {
                missed += 1
            } else {
                found += 1
            };
        }
    }
    assert!(missed > 0, "{missed} and {found}");
    let plain =
        folder.run(&[&["logz", "one.zhat", "--seed", "0"][..], &few.split(' ').collect::<Vec<_>>()].concat());
    assert_eq!(plain.status(), 0);
    // Exact methods find all six paths, and `-k` may exceed their number.
    let ranked = folder.json(&["map", "one.zhat", "-k", "1000000000000"]);
    assert_eq!(ranked["sequences"][0].as_array().unwrap().len(), 6, "{ranked}");
}
