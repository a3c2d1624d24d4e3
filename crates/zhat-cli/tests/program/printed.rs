//! Printed numbers: ends of intervals are rounded outward, and the printed value lies inside the printed
//! interval.

use std::cmp::Ordering;

use crate::support::Folder;
use serde_json::Value;

/// Compares decimal text with a double exactly, digit by digit.
fn compare(text: &str, x: f64) -> Ordering {
    let digits = |text: &str| -> (bool, Vec<u8>) {
        let negative = text.starts_with('-');
        let text = text.trim_start_matches('-');
        let (digits, exponent) = text.split_once('e').unwrap_or((text, "0"));
        let exponent: i32 = exponent.parse().unwrap();
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let mut all: Vec<u8> = format!("{whole}{fraction}").bytes().map(|digit| digit - b'0').collect();
        all.extend(vec![0; usize::try_from(1500 + exponent - fraction.len() as i32).unwrap()]);
        let mut padded = vec![0; 2500 - all.len()];
        padded.extend(all);
        (negative && padded.iter().any(|&digit| digit != 0), padded)
    };
    let (a, b) = (digits(text), digits(&format!("{x:.1100}")));
    match (a.0, b.0) {
        (false, false) => a.1.cmp(&b.1),
        (true, true) => b.1.cmp(&a.1),
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
    }
}

/// The numbers in a text, in order.
fn numbers(text: &str) -> Vec<&str> {
    text.split_whitespace()
        .map(|word| word.trim_matches(|c: char| "();,%".contains(c)))
        .filter(|word| word.parse::<f64>().is_ok())
        .collect()
}

fn line<'a>(text: &'a str, label: &str) -> &'a str {
    text.lines().find_map(|line| line.strip_prefix(label)).unwrap_or_else(|| panic!("no {label} in {text}"))
}

/// Compares printed output with the JSON result; returns whether the guarantee has a bound.
fn check(name: &str, printed: &str, json: &Value) -> bool {
    let (value, promise) = (line(printed, "log Z"), line(printed, "guarantee"));
    assert!(!printed.contains("-0 ") && !printed.contains("-0.000000"), "{name}: {printed}");
    let guarantee = &json["guarantee"];
    let (low, high) = (guarantee["low"].as_f64(), guarantee["high"].as_f64());
    // A certified bound is printed in place of the value, any other one after it.
    let certified = guarantee["kind"] == "bounds" && guarantee["confidence"] == 1.0;
    let ends: Vec<&str> = match (low, high) {
        (None, None) => return false,
        (Some(_), Some(_)) if certified => {
            assert!(value.contains("between"), "{name}: {printed}");
            numbers(value)[..2].to_vec()
        }
        (Some(_), Some(_)) => numbers(promise)[..2].to_vec(),
        _ if certified => {
            assert!(value.contains(if low.is_some() { "≥" } else { "≤" }), "{name}: {printed}");
            vec![numbers(value)[0]]
        }
        _ => {
            // For an unbiased estimate the standard error is printed before the bound and the confidence
            // after it.
            let words = promise.split("at least").nth(1).or_else(|| promise.split("at most").nth(1)).unwrap();
            vec![numbers(words)[0]]
        }
    };
    let shown = numbers(value)[0];
    if let Some(low) = low {
        assert_ne!(compare(ends[0], low), Ordering::Greater, "{name}: {} > {low:?}", ends[0]);
        assert!(ends[0].parse::<f64>().unwrap() <= shown.parse::<f64>().unwrap(), "{name}: {printed}");
    }
    if let Some(high) = high {
        let end = ends.last().unwrap();
        assert_ne!(compare(end, high), Ordering::Less, "{name}: {end} < {high:?}");
        assert!(shown.parse::<f64>().unwrap() <= end.parse::<f64>().unwrap(), "{name}: {printed}");
    }
    if let (Some(low), Some(high)) = (low, high)
        && low < high
    {
        assert!(ends[0].parse::<f64>().unwrap() < ends[1].parse::<f64>().unwrap(), "{name}: {printed}");
    }
    true
}

#[test]
fn printed_intervals_contain_the_exact_ends_and_the_printed_value() {
    let folder = Folder::new("printed");
    let mut held = 0;
    for (kind, methods) in [
        (
            "ising --rows 4 --columns 4",
            &["mean-field", "trw", "wmb", "anytime-bounds", "wmb-is", "sccq", "importance"] as &[&str],
        ),
        (
            "potts --rows 3 --columns 3 --coupling 1.5",
            &["mean-field", "trw", "wmb", "anytime-bounds", "wmb-is", "sccq", "importance"],
        ),
        ("chain --states 30 --steps 6", &["randomized"]),
        ("sequence-mrf --length 50 --states 3 --context 2", &["spectral", "star"]),
        ("continuous", &["sccq"]),
        ("permutation --size 5", &["tpa", "telescoped", "annealed"]),
    ] {
        for seed in ["1", "2", "3"] {
            let mut make: Vec<&str> = vec!["generate"];
            make.extend(kind.split(' '));
            make.extend(["--seed", seed, "-o", "m.zhat"]);
            folder.ok(&make);
            for method in methods {
                let ask = ["logz", "m.zhat", "--method", method, "--seed", seed];
                let with_json: Vec<&str> = ask.iter().copied().chain(["--json"]).collect();
                let ran = folder.run(&with_json);
                if ran.status() != 0 {
                    // Not every kind of model supports every method.
                    assert!(
                        ran.stderr().contains("does not answer") || ran.stderr().contains("no answer"),
                        "{kind} {method}: {}",
                        ran.stderr()
                    );
                    continue;
                }
                let json: Value = serde_json::from_str(&ran.stdout()).unwrap();
                held += usize::from(check(&format!("{kind} {method} {seed}"), &folder.ok(&ask), &json));
            }
        }
    }
    assert!(held >= 40, "only {held} answers had ends");
}

#[test]
fn bounds_in_the_progress_output_are_rounded_outward() {
    let folder = Folder::new("progress");
    folder.ok(&["generate", "ising", "--rows", "6", "--columns", "6", "-o", "m.zhat"]);
    let exact = folder.json(&["logz", "m.zhat", "--method", "elimination"])["value"].as_f64().unwrap();
    let ran = folder.run(&["logz", "m.zhat", "--method", "anytime-bounds"]);
    let lines: Vec<String> =
        ran.stderr().lines().filter(|line| line.contains("log Z")).map(str::to_owned).collect();
    assert!(!lines.is_empty());
    for line in lines {
        let numbers = numbers(&line);
        if line.contains("≤ log Z ≤") {
            assert_ne!(compare(numbers[1], exact), Ordering::Greater, "{line}");
            assert_ne!(compare(numbers[2], exact), Ordering::Less, "{line}");
        }
    }
}

#[test]
fn a_value_of_minus_infinity_is_text_in_json() {
    let folder = Folder::new("infinite");
    // A row to which the model gives weight zero: its log-likelihood is −∞.
    folder.write("t.csv", "a,b\n0,0\n0,1\n1,1\n");
    folder.ok(&["fit", "t.csv", "--l2", "0", "-o", "m.zhat"]);
    folder.write("never.csv", "a,b\n1,0\n");
    let scored = folder.json(&["score", "m.zhat", "never.csv"]);
    assert_eq!(scored["log_likelihood"], "-inf");
    assert_eq!(folder.ok(&["score", "m.zhat", "never.csv", "--rows"]), "line,log_likelihood\n2,-inf\n");
}
