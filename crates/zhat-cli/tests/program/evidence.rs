//! Sets of states and likelihoods on the command line, and conversion between formats of Bayesian networks.

use crate::support::Folder;

/// Rain depends on the sky; P(sky) = (0.5, 0.3, 0.2) and P(yes | sky) = (0.1, 0.4, 0.7).
const WEATHER: &str = "net {}
node sky { states = (\"blue\" \"grey\" \"dark\"); }
node rain { states = (\"no\" \"yes\"); }
potential (sky) { data = (0.5 0.3 0.2); }
potential (rain | sky) { data = ((0.9 0.1) (0.6 0.4) (0.3 0.7)); }
";

fn log_z(folder: &Folder, given: &[&str]) -> f64 {
    let args: Vec<&str> =
        ["logz", "weather.net"].into_iter().chain(given.iter().flat_map(|item| ["--given", item])).collect();
    folder.json(&args)["value"].as_f64().unwrap()
}

#[test]
fn sets_and_likelihoods_are_weights_of_states() {
    let folder = Folder::new("uncertain");
    folder.write("weather.net", WEATHER);
    for (given, want) in [
        (&["sky=grey|dark"] as &[&str], 0.5),
        (&["sky=1|2"], 0.5),
        (&["rain=0.2:0.8"], 0.69 * 0.2 + 0.31 * 0.8),
        (&["rain=0.2:0.8", "sky=dark|grey"], (0.18 + 0.06) * 0.2 + (0.12 + 0.14) * 0.8),
        (&["rain=0.2:0.8,sky=blue"], 0.45 * 0.2 + 0.05 * 0.8),
        (&["sky=grey|grey"], 0.3),
        (&["sky=grey|dark|blue"], 1.0),
    ] {
        let found = log_z(&folder, given);
        assert!((found - f64::ln(want)).abs() < 1e-9, "{given:?}: {found}");
    }
    let text = folder.ok(&["marginals", "weather.net", "--given", "rain=0:2", "--given", "sky=grey|dark"]);
    assert!(text.contains("sky       blue: 0.000000  grey: 0.461538  dark: 0.538462"), "{text}");
    assert!(text.contains("rain      no: 0.000000  yes: 1.000000"), "{text}");
}

#[test]
fn uncertain_evidence_that_means_nothing_is_refused() {
    let folder = Folder::new("refused");
    folder.write("weather.net", WEATHER);
    for (given, status, message) in [
        ("rain=0.2:0.8:0.1", 2, "variable rain has 2 states, but 3 likelihoods are given"),
        ("rain=0:0", 2, "the likelihoods of variable rain are all 0; one must be positive"),
        ("rain=0.2:-1", 2, "likelihood 1 in `0.2:-1` is `-1`; expected a finite number that is 0 or more"),
        ("sky=grey|drak", 2, "--given: variable `sky` has no state `drak`; did you mean `dark`?"),
        ("sky=grey|dark,sky=dark", 2, "variable sky is given twice"),
    ] {
        let ran = folder.run(&["logz", "weather.net", "--given", given]);
        assert_eq!(ran.status(), status, "{given}: {}", ran.stderr());
        assert!(ran.stderr().contains(message), "{given}: {}", ran.stderr());
    }
    let certain = WEATHER.replace("((0.9 0.1)", "((1 0)");
    folder.write("certain.net", &certain);
    let ran = folder.run(&["logz", "certain.net", "--given", "sky=blue,rain=0:1"]);
    assert_eq!(ran.status(), 1);
    let message = "sky = blue and rain = yes exclude each other by the factor over (sky, rain)";
    assert!(ran.stderr().contains(message), "{}", ran.stderr());
}

#[test]
fn convert_writes_every_format_of_bayesian_networks() {
    let folder = Folder::new("formats");
    folder.write("weather.net", WEATHER);
    for (from, to) in [
        ("weather.net", "a.xmlbif"),
        ("a.xmlbif", "b.bif"),
        ("b.bif", "c.bifxml"),
        ("c.bifxml", "d.xml"),
        ("d.xml", "e.net"),
    ] {
        folder.ok(&["convert", from, to]);
    }
    let rain = |model: &str| folder.json(&["logz", model, "--given", "rain=yes"])["value"].as_f64().unwrap();
    for model in ["weather.net", "a.xmlbif", "b.bif", "c.bifxml", "d.xml", "e.net"] {
        assert!((rain(model) - f64::ln(0.31)).abs() < 1e-9, "{model}");
    }
    folder.write("broken.net", &WEATHER.replace("0.3 0.7", "0.3 x"));
    let message = folder.run(&["logz", "broken.net"]).stderr();
    assert!(
        message.contains("broken.net: line 5: expected a probability") && message.contains("found `x`"),
        "{message}"
    );
}
