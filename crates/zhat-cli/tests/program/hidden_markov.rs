//! `zhat fit --kind hmm`: checkpoints, comparison of numbers of states, forecasts, warnings and bad input.

use crate::support::{Folder, gz, zst};

/// Sequences of two columns that move between two levels.
fn table(sequences: usize, steps: usize) -> String {
    let mut state = 7_u64;
    let mut draw = |n: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % n
    };
    let mut text = String::from("sequence,a,b\n");
    for sequence in 0..sequences {
        let mut level = draw(2);
        for _ in 0..steps {
            text += &format!("{sequence},{},{}.5\n", 3 * level + draw(5), draw(7));
            level = if draw(6) == 0 { 1 - level } else { level };
        }
    }
    text
}

#[cfg(unix)]
#[test]
fn a_killed_run_resumes_to_the_same_bits() {
    let folder = Folder::new("hmm-kill");
    folder.write("train.csv", &table(40, 300));
    let line = "fit train.csv --kind hmm --states 6 --starts 2 --iterations 30 --tolerance 0";
    for (number, own) in
        ["--optimizer em", "--optimizer lbfgs", "--emissions poisson --ignore b"].iter().enumerate()
    {
        let line = format!("{line} {own}");
        let arguments: Vec<&str> = line.split(' ').collect();
        let whole = format!("whole{number}.zhat");
        folder.ok(&[&arguments[..], &["-o", &whole]].concat());
        let (model, checkpoint) = (format!("m{number}.zhat"), format!("c{number}.zhat"));
        let kept =
            [&arguments[..], &["--checkpoint", &checkpoint, "--keep-every", "0", "-o", &model]].concat();
        let mut child = folder.command(&kept).stderr(std::process::Stdio::null()).spawn().unwrap();
        while !folder.path().join(&checkpoint).exists() && child.try_wait().unwrap().is_none() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        child.kill().unwrap(); // SIGKILL
        child.wait().unwrap();
        assert!(!folder.path().join(&model).exists(), "{own}: it had ended before it was killed");
        folder.ok(&kept);
        let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
        assert!(read(&model) == read(&whole), "{own}");
    }
}

#[test]
fn tables_are_plain_compressed_or_stdin() {
    let folder = Folder::new("hmm-compressed");
    let text = table(3, 2000);
    let fit = ["--kind", "hmm", "--states", "2", "--iterations", "4", "--seed", "1", "-o", "m.zhat"];
    let mut found = Vec::new();
    for (name, bytes) in [
        ("t.csv", text.clone().into_bytes()),
        ("t.csv.gz", gz(text.as_bytes())),
        ("t.csv.zst", zst(text.as_bytes())),
    ] {
        std::fs::write(folder.path().join(name), &bytes).unwrap();
        for input in [name, "-"] {
            let run = |line: &[&str]| {
                let ran = match input {
                    "-" => folder.run_with_input(line, &bytes),
                    _ => folder.run(line),
                };
                assert_eq!(ran.status(), 0, "{name}, {input}: {}", ran.stderr());
                ran.stdout()
            };
            run(&[&["fit", input], &fit[..]].concat());
            let model = std::fs::read(folder.path().join("m.zhat")).unwrap();
            let scores = run(&["score", "m.zhat", "--input", input, "--json"]);
            let scores: serde_json::Value = serde_json::from_str(&scores).unwrap();
            found.push((model, number(&scores["log_likelihood"])));
        }
    }
    assert_eq!(found.len(), 6);
    assert!(found.iter().all(|one| *one == found[0]));
    // A file that is cut off is refused.
    std::fs::write(folder.path().join("cut.csv.zst"), &zst(text.as_bytes())[..20_000]).unwrap();
    let ran = folder.run(&["score", "m.zhat", "--input", "cut.csv.zst"]);
    assert!(ran.status() == 2 && ran.stderr().contains("cut.csv.zst"), "{} {}", ran.status(), ran.stderr());
}

#[test]
fn bad_input_is_refused_with_its_place() {
    let folder = Folder::new("hmm-bad");
    let refused = |text: &str, arguments: &str, message: &str| {
        folder.write("t.csv", text);
        let line = format!("fit t.csv --kind hmm -o m.zhat {arguments}");
        let ran = folder.run(&line.split_whitespace().collect::<Vec<_>>());
        assert_eq!(ran.status(), 2, "{arguments}: {}", ran.stderr());
        assert!(ran.stderr().contains(message), "{arguments}: {}", ran.stderr());
        assert!(!folder.path().join("m.zhat").exists(), "{arguments}");
    };
    let good = table(2, 20);
    refused(&good, "", "--states");
    refused(&good, "--states 0", "states");
    refused(&good, "--states 2 --keep-every 1", "--checkpoint");
    refused(&good, "--states 2 --emissions poisson", "line 2: column b");
    refused("a\n", "--states 2", "no rows");
    folder.write("other.zhat", "{}");
    refused(&good, "--states 2 --from other.zhat", "other.zhat");
}

/// Two columns, which are far from each other in the two states; the state changes every few rows.
fn levels(sequence: usize, rows: usize) -> Vec<[f64; 2]> {
    // Nearly normal: a sum of uniform numbers without a pattern in time, which a third state would model.
    let uniform = |t: usize, d: usize, k: u64| {
        let mixed = ((sequence as u64) << 40 | (t as u64) << 16 | (d as u64) << 8 | k) + 1;
        let mixed = (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed >> 40) as f64 / (1u64 << 24) as f64 - 0.5
    };
    let noise = |t: usize, d: usize| (0..4).map(|k| uniform(t, d, k)).sum::<f64>();
    let level = |t: usize| if ((t + 3 * sequence) / 5).is_multiple_of(2) { 0.0 } else { 8.0 };
    (0..rows).map(|t| [level(t) + noise(t, 0), 2.0 - level(t) + 3.0 * noise(t, 1)]).collect()
}

fn csv(sequences: &[(usize, Vec<[f64; 2]>)]) -> String {
    let lines = |(name, rows): &(usize, Vec<[f64; 2]>)| -> String {
        rows.iter().map(|row| format!("{name},{},{}\n", row[0], row[1])).collect()
    };
    format!("sequence,a,b\n{}", sequences.iter().map(lines).collect::<String>())
}

/// The log density of some rows under normal distributions with the means and variances of others.
fn of_one_state(rows: &[[f64; 2]], from: &[[f64; 2]]) -> f64 {
    let count = from.len() as f64;
    let column = |d: usize| {
        let mean = from.iter().map(|row| row[d]).sum::<f64>() / count;
        let variance = from.iter().map(|row| (row[d] - mean).powi(2)).sum::<f64>() / count;
        let normal = |x: f64| (std::f64::consts::TAU * variance).ln() + (x - mean).powi(2) / variance;
        -0.5 * rows.iter().map(|row| normal(row[d])).sum::<f64>()
    };
    column(0) + column(1)
}

fn number(value: &serde_json::Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value}"))
}

fn near(what: &str, got: f64, want: f64, relative: f64) {
    assert!((got - want).abs() <= relative * want.abs(), "{what}: {got}, expected {want}");
}

#[test]
fn numbers_of_states_are_compared_in_one_table() {
    let folder = Folder::new("hmm-table");
    let all: Vec<(usize, Vec<[f64; 2]>)> = (0..6).map(|k| (k, levels(k, 30 + 3 * k))).collect();
    folder.write("t.csv", &csv(&all));
    let rows: Vec<[f64; 2]> = all.iter().flat_map(|(_, rows)| rows.clone()).collect();
    let how = ["--starts", "4", "--tolerance", "1e-11", "--iterations", "500"];
    let fit = |data: &str, states: &str, more: &[&str]| {
        let line =
            [&["fit", data, "--kind", "hmm", "--states", states, "-o", "m.zhat"], &how[..], more].concat();
        folder.json(&line)
    };
    // With as many folds as sequences every fold is one sequence, in whatever order they are.
    let compared = fit("t.csv", "1,2,3", &["--folds", "6"]);
    let table = compared["candidates"].as_array().unwrap();
    assert_eq!(table.iter().map(|one| number(&one["states"])).collect::<Vec<_>>(), [1.0, 2.0, 3.0]);
    for (one, states) in table.iter().zip(["1", "2", "3"]) {
        let n: usize = states.parse().unwrap();
        // Starts, transitions, and a mean and a variance per column.
        let parameters = (n - 1) + n * (n - 1) + 4 * n;
        let alone = fit("t.csv", states, &[]);
        let likelihood = number(&alone["log_likelihood"]);
        let (count, size) = (parameters as f64, (rows.len() as f64).ln());
        if n < 3 {
            // Three states can have transitions of probability zero, which are not counted.
            assert_eq!(number(&one["parameters"]), count);
        }
        let count = number(&one["parameters"]);
        near("log-likelihood", number(&one["log_likelihood"]), likelihood, 1e-12);
        near("AIC", number(&one["aic"]), 2.0 * count - 2.0 * likelihood, 1e-12);
        near("BIC", number(&one["bic"]), count * size - 2.0 * likelihood, 1e-12);
    }
    let held: Vec<_> = (0..all.len())
        .map(|k| (all[k].1.clone(), all.iter().filter(|one| one.0 != k).cloned().collect::<Vec<_>>()))
        .collect();
    // One state in closed form.
    near("one state", number(&table[0]["log_likelihood"]), of_one_state(&rows, &rows), 1e-9);
    let rest = |others: &[(usize, Vec<[f64; 2]>)]| -> Vec<[f64; 2]> {
        others.iter().flat_map(|(_, rows)| rows.clone()).collect()
    };
    let wanted: f64 = held.iter().map(|(own, others)| of_one_state(own, &rest(others))).sum();
    near("one state held out", number(&table[0]["cross_validated"]), wanted / rows.len() as f64, 1e-9);
    // Two states by leaving out every sequence by hand.
    let mut total = 0.0;
    for (own, others) in &held {
        folder.write("rest.csv", &csv(others));
        folder.write("own.csv", &csv(&[(0, own.clone())]));
        fit("rest.csv", "2", &[]);
        total += number(&folder.json(&["score", "m.zhat", "--input", "own.csv"])["log_likelihood"]);
    }
    near("two states held out", number(&table[1]["cross_validated"]), total / rows.len() as f64, 1e-6);
    // The text has the same numbers, and a star beside the best of each column.
    let line =
        [&["fit", "t.csv", "--kind", "hmm", "--states", "1,2,3", "--folds", "6", "-o", "m.zhat"], &how[..]];
    let text = folder.ok(&line.concat());
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("states"), "{text}");
    let best = |name: &str, sign: f64| {
        let values: Vec<f64> = table.iter().map(|one| sign * number(&one[name])).collect();
        (0..3).min_by(|&a, &b| values[a].total_cmp(&values[b])).unwrap()
    };
    let chosen = [best("aic", 1.0), best("bic", 1.0), best("cross_validated", -1.0)];
    assert_eq!(chosen[1], 1, "{text}");
    for (k, (line, one)) in lines[1..4].iter().zip(table).enumerate() {
        let shown = |name: &str, digits: usize, place: usize| {
            let star = if chosen[place] == k { " *" } else { "" };
            format!("{:.digits$}{star}", number(&one[name]))
        };
        for cell in [shown("aic", 2, 0), shown("bic", 2, 1), shown("cross_validated", 6, 2)] {
            assert!(line.contains(&cell), "{cell}: {line}");
        }
        let stars = chosen.iter().filter(|&&place| place == k).count();
        assert_eq!(line.matches('*').count(), stars, "{line}");
    }
}

#[test]
fn the_chosen_number_of_states_has_the_figures_of_its_fit() {
    let folder = Folder::new("hmm-chosen");
    folder.write("t.csv", &table(12, 40));
    let line = "fit t.csv --kind hmm --starts 2 --set transition_prior=2,start_prior=1.5 -o m.zhat";
    let with = |states: &str, limit: &str| {
        let own = [line, "--states", states, "--iterations", limit].join(" ");
        own.split(' ').map(str::to_owned).collect::<Vec<String>>()
    };
    for (limit, converged) in [("3", false), ("2000", true)] {
        let several = with("2,3", limit);
        let several: Vec<&str> = several.iter().map(String::as_str).collect();
        let compared = folder.json(&several);
        let states = compared["states"].to_string();
        let alone = with(&states, limit);
        let alone = folder.json(&alone.iter().map(String::as_str).collect::<Vec<_>>());
        for name in ["iterations", "converged", "objective", "log_likelihood", "aic", "bic", "parameters"] {
            assert_eq!(compared[name], alone[name], "{name}");
        }
        assert_eq!(compared["converged"], converged);
        assert!(number(&compared["iterations"]) >= 3.0);
        assert!(compared["objective"] != compared["log_likelihood"], "priors have a density");
        let text = folder.ok(&several);
        let shown = format!(
            "{} iterations, {}converged",
            compared["iterations"],
            if converged { "" } else { "not " }
        );
        assert!(text.contains(&shown), "{shown}: {text}");
    }
}

#[test]
fn memory_and_time_are_forecast() {
    let folder = Folder::new("hmm-forecast");
    folder.write("t.csv", &table(4, 50));
    let ran =
        folder.run(&["fit", "t.csv", "--kind", "hmm", "--states", "3", "-o", "m.zhat", "--threads", "1"]);
    assert_eq!(ran.status(), 0, "{}", ran.stderr());
    let line = ran.stderr().lines().next().unwrap().to_owned();
    assert!(line.starts_with("forecast for 3 states: up to ") && line.ends_with(" per step"), "{line}");
    let many = ["fit", "t.csv", "--kind", "hmm", "--states", "2,5,3", "-o", "m.zhat", "--threads", "1"];
    let several = folder.json(&many);
    let five =
        folder.json(&["fit", "t.csv", "--kind", "hmm", "--states", "5", "-o", "m.zhat", "--threads", "1"]);
    assert_eq!(several["forecast"], five["forecast"]);
    assert!(number(&five["forecast"]["bytes"]) > 1e4 && number(&five["forecast"]["seconds_per_step"]) > 0.0);
    let ran = folder.run(&[&many[..], &["--memory", "100KiB"]].concat());
    assert!(ran.status() != 0 && ran.stderr().contains("training needs"), "{}", ran.stderr());
    // Known states are counted, which has no steps.
    folder.write("known.csv", "a,s\n0.5,x\n0.7,y\n0.4,x\n");
    let ran = folder.run(&["fit", "known.csv", "--kind", "hmm", "--labels", "s", "-o", "m.zhat"]);
    assert!(ran.status() == 0 && !ran.stderr().contains("forecast"), "{}", ran.stderr());
}

#[test]
fn known_states_keep_zeros_and_given_parameters() {
    let folder = Folder::new("hmm-known");
    folder.write("t.csv", "a,s\n0.5,x\n0.7,x\n0.4,y\n0.9,y\n");
    let fit = |data: &str, more: &str| {
        let line = format!("fit {data} --kind hmm --labels s -o m.zhat {more}");
        folder.run(&line.split_whitespace().collect::<Vec<_>>())
    };
    let ran = fit("t.csv", "--topology left-to-right --set transition_prior=2");
    assert_eq!(ran.status(), 0, "{}", ran.stderr());
    assert!(ran.stdout().contains("4 rows in 1 sequence\n"), "{}", ran.stdout());
    assert!(ran.stdout().contains("counted from the column s, "), "{}", ran.stdout());
    // Components of a mixture are hidden, so there are iterations.
    let mixed = fit("t.csv", "--emissions mixture --components 2 --set least_variance=0.1");
    assert!(mixed.stdout().contains("iterations, converged"), "{}", mixed.stdout());
    fit("t.csv", "--topology left-to-right --set transition_prior=2");
    std::fs::copy(folder.path().join("m.zhat"), folder.path().join("from.zhat")).unwrap();
    folder.write("u.csv", "a,s\n0.5,x\n0.7,y\n0.4,x\n");
    for more in ["--topology left-to-right", "--from from.zhat --fixed transitions", "--from from.zhat"] {
        let ran = fit("u.csv", more);
        let message =
            "u.csv: line 4: state `x` follows state `y`, but the probability of this transition is 0";
        assert!(ran.status() == 2 && ran.stderr().contains(message), "{more}: {}", ran.stderr());
    }
    // States are those of the given model, whatever the table has.
    folder.write("v.csv", "a,s\n0.5,x\n0.7,z\n");
    let ran = fit("v.csv", "--from from.zhat");
    assert!(ran.stderr().contains("v.csv: line 3: the model has no state `z`"), "{}", ran.stderr());
    folder.write("w.csv", "a,s\n0.5,x\n0.7,x\n");
    assert_eq!(fit("w.csv", "--from from.zhat --fixed transitions").status(), 0);
}

#[test]
fn states_that_no_sequence_can_reach_are_named() {
    use zhat::learn::hmm::file::write_hmm;
    use zhat::learn::hmm::{Emissions, Hmm, Poisson};

    let folder = Folder::new("hmm-unreachable");
    folder.write("t.csv", "x0\n1\n0\n4\n6\n5\n1\n");
    let model = |start: [f64; 4], from_first: [f64; 4]| {
        let mut transitions = from_first.to_vec();
        transitions.extend([0.5, 0.5, 0.0, 0.0, 0.2, 0.2, 0.3, 0.3, 0.0, 0.4, 0.1, 0.5]);
        let rates = Poisson::new(4, vec![1.0, 5.0, 2.0, 3.0]).unwrap();
        let hmm = Hmm::new(start.to_vec(), transitions, Emissions::Poisson(rates)).unwrap();
        let mut bytes = Vec::new();
        write_hmm(&hmm, &mut bytes).unwrap();
        std::fs::write(folder.path().join("from.zhat"), bytes).unwrap();
    };
    let line = "fit t.csv --kind hmm --emissions poisson --from from.zhat --iterations 3 -o m.zhat";
    let line: Vec<&str> = line.split(' ').collect();
    model([1.0, 0.0, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0]);
    let ran = folder.run(&line);
    assert_eq!(ran.status(), 0, "{}", ran.stderr());
    assert!(
        ran.stderr().contains("zhat: warning: no sequence can reach 2 of the states: 2, 3\n"),
        "{}",
        ran.stderr()
    );
    assert_eq!(folder.json(&line)["unreachable"], serde_json::json!([2, 3]));
    assert!(folder.ok(&["info", "m.zhat"]).contains("2 states: 2, 3"));
    model([0.7, 0.0, 0.0, 0.3], [0.5, 0.5, 0.0, 0.0]);
    let ran = folder.run(&line);
    assert_eq!(ran.status(), 0, "{}", ran.stderr());
    assert!(!ran.stderr().contains("no sequence can reach"), "{}", ran.stderr());
    assert_eq!(folder.json(&line)["unreachable"], serde_json::json!([]));
}
