//! What the program answers about combinatorial spaces.

mod support;

use support::Folder;

#[test]
fn every_space_is_generated_described_and_answered_for() {
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
        assert!(!gradient["expectations"].as_array().unwrap().is_empty());
        let best = words("map model.zhat");
        assert!(best.starts_with("best ") && best.contains("score"), "{best}");
        assert_eq!(words("sample model.zhat -n 5").lines().count(), 6);
        assert_eq!(words("sample model.zhat -n 5 --method perfect --json").lines().count(), 5);
        assert!(words("entropy model.zhat").starts_with("entropy"));
    }
}
