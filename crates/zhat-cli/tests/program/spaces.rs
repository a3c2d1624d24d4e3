//! The program on combinatorial spaces.

use crate::support::{Folder, without_times};
use insta::assert_snapshot;

#[test]
fn every_space_is_generated_described_and_queried() {
    let folder = Folder::new("spaces");
    let words = |text: &str| folder.ok(&text.split_whitespace().collect::<Vec<_>>());
    for (kind, scores) in [
        ("hypercube", "unary"),
        ("hypercube", "pairwise"),
        ("permutation", "position"),
        ("permutation", "precedence"),
        ("permutation", "kendall"),
        ("subtree", "unary"),
        ("cycle", "links"),
        ("partition", "links"),
    ] {
        words(&format!("generate {kind} --size 6 --scores {scores} --strength 0.5 -o model.zhat"));
        let info = words("info model.zhat");
        assert!(info.contains("space") && info.contains("oracle") && info.contains("structures"), "{info}");
        let exact = folder.json(&["logz", "model.zhat"]);
        assert_eq!(exact["guarantee"]["kind"], "exact");
        let listed = folder.json(&["logz", "model.zhat", "--method", "enumeration"]);
        let (a, b) = (exact["value"].as_f64().unwrap(), listed["value"].as_f64().unwrap());
        assert!((a - b).abs() < 1e-9, "{kind} {scores}: {a} {b}");
        let drawn =
            folder.json(&["logz", "model.zhat", "--method", "importance", "--set", "confidence=0.999999"]);
        let end = |name: &str| drawn["guarantee"][name].as_f64().unwrap();
        assert!(end("low") <= a && a <= end("high"), "{kind} {scores}: {drawn}");
        let gradient = folder.json(&["marginals", "--factors", "model.zhat"]);
        assert!(!gradient["gradient"]["parameters"]["values"].as_array().unwrap().is_empty());
        let best = words("map model.zhat");
        assert!(best.starts_with("best ") && best.contains("score"), "{best}");
        assert_eq!(words("sample model.zhat -n 5").lines().count(), 6);
        assert_eq!(words("sample model.zhat -n 5 --method perfect --json").lines().count(), 5);
        assert!(words("entropy model.zhat").starts_with("entropy"));
    }
}

/// Plain output for one model of each space.
#[test]
fn plain_output_for_spaces() {
    let folder = Folder::new("space-words");
    let ask = |text: &str| without_times(&folder.ok(&text.split_whitespace().collect::<Vec<_>>()));
    for kind in ["hypercube", "permutation", "subtree", "cycle", "partition"] {
        ask(&format!("generate {kind} --size 4 --strength 0.5 --seed 3 -o {kind}.zhat"));
        let mut text = String::new();
        for query in ["logz", "marginals", "marginals --factors", "entropy", "map", "map -k 3"] {
            let (query, flags) = query.split_once(' ').unwrap_or((query, ""));
            text += &format!("$ zhat {query} {kind}.zhat {flags}\n");
            text += &ask(&format!("{query} {kind}.zhat {flags} --method oracle"));
            text += "\n";
        }
        assert_snapshot!(format!("answers_{kind}"), text);
    }
}

#[test]
fn conditions_are_evidence() {
    let folder = Folder::new("space-given");
    let words = |text: &str| folder.ok(&text.split_whitespace().collect::<Vec<_>>());
    words("generate permutation --size 5 --scores precedence -o order.zhat");
    let value = |given: &str| {
        let mut arguments = vec!["logz", "order.zhat"];
        if !given.is_empty() {
            arguments.extend(["--given", given]);
        }
        folder.json(&arguments)["value"].as_f64().unwrap()
    };
    // Either item 1 or item 3 comes first.
    let (forth, back) = (value("before 1 3"), value("not before 1 3"));
    assert!((forth.exp() + back.exp() - value("").exp()).abs() < 1e-9 * value("").exp());
    let both = value("before 1 3,not at 2 0");
    assert!(both < forth);
    for (method, error) in
        [("enumeration", None), ("importance", Some("error=0.5")), ("telescoped", Some("error=0.5"))]
    {
        let mut arguments = vec!["logz", "order.zhat", "--given", "before 1 3", "--method", method];
        arguments.extend(error.iter().flat_map(|error| ["--set", error]));
        let found = folder.json(&arguments)["value"].as_f64().unwrap();
        assert!((found - forth).abs() < 0.6, "{method}: {found} {forth}");
    }
    // Conditions stored in the model file.
    let mut arguments: Vec<&str> =
        "generate cycle --size 6 -o some.zhat --given".split_whitespace().collect();
    arguments.push("not linked 0 1,size 4 5");
    folder.ok(&arguments);
    let info = words("info some.zhat");
    assert!(info.contains("not linked 0 1, size 4 5") && info.contains("of unknown number"), "{info}");
    let listed = folder.json(&["logz", "some.zhat"]);
    assert_eq!(listed["method"], "oracle");
    let drawn = folder.json(&["marginals", "some.zhat", "--method", "perfect"]);
    assert_eq!(drawn["p"][1].as_f64(), Some(0.0));
    for (arguments, said) in [
        (vec!["logz", "order.zhat", "--given", "before 1 9"], "there is no 9"),
        (vec!["logz", "order.zhat", "--given", "x3=1"], "is none of"),
        (vec!["map", "order.zhat", "--given", "before 1 3,before 3 1"], "impossible"),
    ] {
        let ran = folder.run(&arguments);
        assert!(ran.status() != 0 && ran.stderr().contains(said), "{arguments:?}: {}", ran.stderr());
    }
}

#[test]
fn broken_files_are_refused_with_a_reason() {
    let folder = Folder::new("space-broken");
    let words = |text: &str| folder.run(&text.split_whitespace().collect::<Vec<_>>());
    assert_eq!(words("generate subtree --size 5 -o tree.zhat").status(), 0);
    let bytes = std::fs::read(folder.path().join("tree.zhat")).unwrap();
    let broken = |bytes: &[u8]| {
        std::fs::write(folder.path().join("broken.zhat"), bytes).unwrap();
        let ran = words("logz broken.zhat");
        assert_ne!(ran.status(), 0);
        assert!(ran.stderr().contains("broken.zhat") && ran.stdout().is_empty(), "{}", ran.stderr());
        ran.stderr()
    };
    for end in [9, bytes.len() / 2, bytes.len() - 1] {
        broken(&bytes[..end]);
    }
    // Changes the parents in the file so that they form a cycle.
    let start = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: serde_json::Value = serde_json::from_slice(&bytes[8..start]).unwrap();
    let place = |name: &str| start + header[name]["data_offsets"][0].as_u64().unwrap() as usize;
    let mut cycle = bytes.clone();
    cycle[place("parents") + 8..][..8].copy_from_slice(&2u64.to_le_bytes());
    cycle[place("parents") + 16..][..8].copy_from_slice(&1u64.to_le_bytes());
    assert!(broken(&cycle).contains("cycle"));
    let mut infinite = bytes.clone();
    infinite[place("unary")..][..8].copy_from_slice(&f64::INFINITY.to_le_bytes());
    assert!(broken(&infinite).contains("finite"));
    for (arguments, said) in [
        ("generate permutation --size 4 --scores magic", "scores"),
        ("generate cycle --size 2", "at least 3"),
        ("generate hypercube --size 4 --strength nan", "finite"),
    ] {
        let ran = words(arguments);
        assert!(ran.status() != 0 && ran.stderr().contains(said), "{arguments}: {}", ran.stderr());
    }
}
