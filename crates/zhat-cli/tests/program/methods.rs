//! `zhat methods`, `zhat info`, `zhat man`, and names that are misspelt.

use crate::support::{Folder, SPRINKLER};

/// Expects that the program refuses the arguments with these words.
fn refuses(folder: &Folder, args: &[&str], words: &str) {
    let ran = folder.run(args);
    assert_eq!(ran.status(), 2, "{args:?}: {}", ran.stdout());
    assert!(ran.stderr().contains(words), "{args:?}: {}", ran.stderr());
}

#[test]
fn methods_lists_every_method_with_its_options() {
    let folder = Folder::new("methods");
    let all = folder.ok(&["methods"]);
    for row in zhat::catalogue::all() {
        assert!(all.contains(row.method) && all.contains(row.about), "{}", row.method);
        let page = folder.ok(&["methods", row.method]);
        let options = (row.options)();
        for name in options.as_object().into_iter().flatten().map(|(name, _)| name) {
            let line = page.lines().find(|line| line.split_whitespace().next() == Some(name.as_str()));
            // Every option has a default and the values that it takes.
            assert!(line.is_some_and(|line| line.split("  ").filter(|cell| !cell.is_empty()).count() == 3));
        }
    }
    let json: serde_json::Value = serde_json::from_str(&folder.ok(&["methods", "wmb", "--json"])).unwrap();
    assert_eq!(json["methods"][0]["options"][0]["name"], "i_bound");
    refuses(&folder, &["methods", "wnb"], "did you mean `wmb`");
}

#[test]
fn info_recommends_one_method_per_query() {
    let folder = Folder::new("info");
    let model = folder.write("sprinkler.bif", SPRINKLER);
    let short = folder.ok(&["info", &model]);
    let rows = short.lines().filter(|line| line.contains("elimination")).count();
    assert_eq!(rows, zhat::Query::ALL.len(), "{short}");
    let long = folder.ok(&["info", &model, "--all"]);
    assert!(long.contains("sccq-published") && long.lines().count() > 2 * short.lines().count());
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = Folder::new("man");
    assert!(folder.ok(&["man"]).contains("zhat\\-logz(1)"));
    assert!(folder.ok(&["man", "logz"]).contains("\\-\\-method"));
    refuses(&folder, &["man", "lgz"], "did you mean `logz`");
    folder.ok(&["man", "--folder", "."]);
    for name in ["zhat.1", "zhat-marginals.1", "zhat-generate.1"] {
        assert!(folder.path().join(name).exists(), "{name}");
    }
}

#[test]
fn chosen_variables_only() {
    let folder = Folder::new("of");
    let model = folder.write("sprinkler.bif", SPRINKLER);
    let graph = zhat::io::read_model(&folder.path().join(&model)).unwrap();
    let name = graph.get::<zhat::FactorGraph>().unwrap().variable_name(1);
    let json = folder.json(&["marginals", &model, "--of", &name]);
    assert_eq!(json["variables"].as_array().unwrap().len(), 1);
    assert_eq!(json["variables"][0]["name"], name.as_str());
    let all = folder.json(&["mar", &model]);
    assert_eq!(all["variables"][1], json["variables"][0]);
    let wrong: String = name.chars().rev().collect();
    refuses(&folder, &["marginals", &model, "--of", &format!("{name}x")], &format!("did you mean `{name}`"));
    refuses(&folder, &["marginals", &model, "--of", &wrong], "there is no variable");
}

#[test]
fn misspelt_options_and_values_are_refused_with_a_suggestion() {
    let folder = Folder::new("options");
    folder.ok(&["generate", "ising", "--rows", "2", "--columns", "2", "-o", "g.uai"]);
    let logz = |set: &str, words: &str| refuses(&folder, &["pr", "g.uai", "--set", set], words);
    logz(
        "sampels=10",
        "sampels: no method for log_partition of a factor-graph has this option; did you mean",
    );
    let named = |method: &str, set: &str, words: &str| {
        refuses(&folder, &["logz", "g.uai", "--method", method, "--set", set], words);
    };
    named("importance", "sampels=1", "the method `importance` has no such option; did you mean `samples`");
    named("importance", "samples=abc", "samples: expected a whole number from 1 to 10^15, found `abc`");
    named("importance", "samples=0", "samples: 0 is out of range");
    named("bp", "schedule=paralel", "did you mean `parallel`");
    named("wmb", "lower=maybe", "lower: expected true or false, found `maybe`");
}

#[test]
fn options_of_methods_that_are_given_as_flags_have_a_tip() {
    let folder = Folder::new("flags");
    folder.ok(&["generate", "ising", "--rows", "2", "--columns", "2", "-o", "g.uai"]);
    let tip = "tip: 'samples' is an option of a method: use '--set samples=10'";
    refuses(&folder, &["logz", "g.uai", "--method", "importance", "--samples", "10"], tip);
    refuses(&folder, &["pr", "g.uai", "--samples=10"], tip);
    refuses(&folder, &["logz", "g.uai", "--i-bound", "--json"], "use '--set i_bound=VALUE'");
    // Not for options that no method has, nor for commands without methods.
    for args in [["logz", "g.uai", "--smaples"], ["convert", "g.uai", "--samples"]] {
        let ran = folder.run(&args);
        assert_eq!(ran.status(), 2);
        assert!(!ran.stderr().contains("--set"), "{}", ran.stderr());
    }
}

#[test]
fn compressed_models_are_read() {
    use std::io::Write as _;
    let folder = Folder::new("compressed");
    folder.ok(&["generate", "ising", "--rows", "3", "--columns", "3", "-o", "g.uai"]);
    let text = std::fs::read(folder.path().join("g.uai")).unwrap();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(&text).unwrap();
    std::fs::write(folder.path().join("g.uai.gz"), packed.finish().unwrap()).unwrap();
    let value = |file: &str| folder.json(&["logz", file])["value"].clone();
    assert_eq!(value("g.uai.gz"), value("g.uai"));
}

#[test]
fn json_has_the_names_of_states() {
    let folder = Folder::new("names");
    folder.ok(&["generate", "bayes", "--variables", "3", "-o", "net.bif"]);
    let best = folder.json(&["map", "net.bif"]);
    let state = best["state"][1].as_u64().unwrap();
    assert_eq!(best["names"]["x1"], format!("s{state}"));
    let ranked = folder.json(&["map", "net.bif", "-k", "2"]);
    assert_eq!(ranked["states"][0]["names"], best["names"]);
    let lines = folder.ok(&["sample", "net.bif", "-n", "3", "--json"]);
    assert!(lines.lines().all(|line| line.contains("\"names\":{\"x0\":\"s")), "{lines}");
    folder.ok(&["generate", "ising", "--rows", "2", "--columns", "2", "-o", "g.uai"]);
    assert!(folder.json(&["map", "g.uai"]).get("names").is_none());
}
