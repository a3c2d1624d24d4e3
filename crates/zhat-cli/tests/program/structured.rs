//! `zhat structured`: training, prediction, evaluation and cross-validation of structured predictors.

use crate::support::Folder;

/// Two labels that depend on the inputs, with a missing value and a category.
fn labels(rows: usize) -> String {
    let mut text = String::from("a,b,colour,x,y\n");
    for i in 0..rows {
        let (a, b) = ((i as f64 * 0.7).sin(), (i as f64 * 1.3).cos());
        let colour = ["red", "green", "blue"][i % 3];
        let shown = if i % 11 == 5 { String::new() } else { a.to_string() };
        text += &format!("{shown},{b},{colour},{},{}\n", u8::from(a > 0.0), u8::from(a + b > 0.3));
    }
    text
}

fn ranks(rows: usize) -> String {
    let mut text = String::from("A1,A2,L1,L2,L3\n");
    for i in 0..rows {
        let (a, b) = ((i as f64 * 0.7).sin(), (i as f64 * 1.3).cos());
        let scores = [a, b, 0.2];
        let rank = |k: usize| 1 + scores.iter().filter(|s| **s > scores[k]).count();
        text += &format!("{a},{b},{},{},{}\n", rank(0), rank(1), rank(2));
    }
    text
}

fn hierarchy(rows: usize) -> String {
    let mut text = String::from(
        "@relation t\n@attribute a numeric\n@attribute class hierarchical 1,1/1,1/2,2,2/1\n@data\n",
    );
    for i in 0..rows {
        let a = (i as f64 * 0.7).sin();
        let class = if a > 0.5 {
            "1/1@2/1"
        } else if a > 0.0 {
            "1/2"
        } else {
            "2"
        };
        text += &format!("{a},{class}\n");
    }
    text
}

#[test]
fn predictors_are_trained_evaluated_and_used() {
    let folder = Folder::new("structured");
    folder.write("l.csv", &labels(60));
    folder.write("r.csv", &ranks(60));
    folder.write("h.arff", &hierarchy(60));
    folder.write("p.csv", "f,p,q,r\n1,a,a,b\n-1,a,b,b\n2,u,u,v\n-2,k,l,l\n");
    let cases = [
        ("l.csv", "--space labels --labels x,y --pairs all", "most-probable,hamming,f1", "subset_accuracy"),
        ("l.csv", "--space labels --labels x,y --pairs chow-liu --pairs-by-input", "hamming", "micro_f1"),
        ("l.csv", "--space labels --labels x,y --fourier 20 --gamma 0.5", "hamming", "macro_f1"),
        ("r.csv", "--space ranking", "most-probable,kendall", "kendall_tau"),
        ("r.csv", "--space ranking --ranking precedence", "kendall", "spearman_rho"),
        (
            "r.csv",
            "--space ranking --ranking positions --lambda 0.1,0.01 --lambda-folds 3",
            "kendall",
            "order_accuracy",
        ),
        ("h.arff", "--space hierarchy", "most-probable,hamming,f1", "au_prc"),
        ("h.arff", "--space hierarchy --pairs all", "most-probable", "path_accuracy"),
        ("p.csv", "--space partition --labels p,q,r", "most-probable", "rand_index"),
    ];
    for (data, options, decisions, measure) in cases {
        let line = format!("structured train {data} {options} -o m.zhat");
        let learned = folder.json(&line.split_whitespace().collect::<Vec<_>>());
        assert_eq!(learned["converged"], true, "{line}: {learned}");
        assert!(learned["gap"].as_f64().unwrap() <= 1e-6);
        let found = folder.json(&["structured", "eval", data, "--model", "m.zhat", "--rows"]);
        assert_eq!(found["guarantee"]["kind"], "exact");
        assert_eq!(found["guarantees"]["log_loss"]["kind"], "exact");
        let value = found["measures"][measure].as_f64().unwrap();
        assert!(
            (-1.0..=1.0).contains(&value) && found["measures"]["log_loss"].as_f64().unwrap() > 0.0,
            "{found}"
        );
        assert_eq!(found["lines"].as_array().unwrap().len(), found["rows"].as_u64().unwrap() as usize);
        for decision in decisions.split(',') {
            let printed = folder.ok(&[
                "structured",
                "predict",
                data,
                "-m",
                "m.zhat",
                "--decision",
                decision,
                "--marginals",
            ]);
            let header = printed.lines().next().unwrap();
            assert!(header.starts_with("line,prediction,probability,"), "{header}");
            let probability: f64 =
                printed.lines().nth(1).unwrap().split(',').nth(2).unwrap().parse().unwrap();
            assert!(probability > 0.0 && probability <= 1.0, "{printed}");
        }
        let ranked = folder.json(&["structured", "predict", data, "-m", "m.zhat", "-k", "2"]);
        let first = &ranked["rows"][0]["predictions"];
        assert!(first[0]["log_probability"].as_f64() >= first[1]["log_probability"].as_f64(), "{first}");
    }
}

/// The fit of Mallows in two stages has no certified minimum, only that of its centres has.
#[test]
fn mallows_certifies_its_centres() {
    let folder = Folder::new("structured-mallows");
    folder.write("r.csv", &ranks(60));
    let line = "structured train r.csv --space ranking -o p.zhat";
    let plain = folder.json(&line.split_whitespace().collect::<Vec<_>>());
    let line = "structured train r.csv --space ranking --ranking mallows -o m.zhat";
    let line: Vec<&str> = line.split_whitespace().collect();
    let learned = folder.json(&line);
    let centres = &learned["centres"];
    assert_eq!((&centres["objective"], &centres["gap"]), (&plain["objective"], &plain["gap"]));
    assert_eq!((&centres["converged"], &centres["confidence"]), (&true.into(), &1.0.into()));
    assert_eq!((&learned["gap"], &learned["converged"]), (&learned["objective"], &false.into()));
    assert!(plain["centres"].is_null());
    let told = folder.ok(&line);
    let row = |name: &str| told.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
    assert!(row("centres").ends_with("above its minimum, certified"), "{told}");
    assert!(row("objective").contains("no bound on the joint minimum"), "{told}");
    assert_eq!((&learned["left_out"], row("spread").as_str()), (&0.into(), ""));
    // Partial rankings are left out of the spread, with a warning.
    folder.write("p.csv", &ranks(60).replace("1,2,3", "1,2,2"));
    let partial: Vec<&str> =
        "structured train p.csv --space ranking --ranking mallows --partial -o q.zhat".split(' ').collect();
    let ran = folder.run(&partial);
    let count = ranks(60).matches("1,2,3").count();
    assert!(count > 0 && count < 60);
    let warning = format!("zhat: warning: {count} of 60 rankings are partial");
    assert!(ran.status() == 0 && ran.stderr().contains(&warning), "{}", ran.stderr());
    assert!(
        ran.stdout().contains(&format!("from {} complete rankings, without {count}", 60 - count)),
        "{}",
        ran.stdout()
    );
    assert_eq!(folder.json(&partial)["left_out"], count);
    let found = folder.json(&["structured", "eval", "r.csv", "-m", "m.zhat", "--rows"]);
    assert!(found["measures"]["kendall_tau"].as_f64().unwrap() > 0.5, "{found}");
    let printed = folder.ok(&["structured", "predict", "r.csv", "-m", "m.zhat", "--decision", "kendall"]);
    assert_eq!(printed.lines().count(), 61);
    let ranked = folder.json(&["structured", "predict", "r.csv", "-m", "m.zhat", "-k", "2", "--marginals"]);
    let first = &ranked["rows"][0]["predictions"];
    assert!(first[0]["log_probability"].as_f64() >= first[1]["log_probability"].as_f64(), "{first}");
}

/// Events: a partial order, nodes that are contained, elements in one block.
#[test]
fn probabilities_of_events_are_printed() {
    let folder = Folder::new("structured-events");
    folder.write("r.csv", &ranks(40));
    folder.write("h.arff", &hierarchy(40));
    folder.write("p.csv", "f,p,q,r\n1,a,a,b\n-1,a,b,b\n2,u,u,v\n-2,k,l,l\n");
    let cases = [
        ("r.csv", "--space ranking", "L1>L2", "L1>L2,not L3>L2", "L1>L2>L3"),
        ("r.csv", "--space ranking --ranking precedence", "L1>L2", "L1>L2,L1>L3", "L1>L2>L3"),
        ("h.arff", "--space hierarchy", "1/1", "1/1,2", "1/1,2/1"),
        ("p.csv", "--space partition --labels p,q,r", "p=q", "p=q,not q=r", "p=q,not p=r,not q=r"),
    ];
    for (data, options, first, second, third) in cases {
        let line = format!("structured train {data} {options} -o m.zhat");
        folder.ok(&line.split_whitespace().collect::<Vec<_>>());
        let ask = |event: &str| -> Vec<f64> {
            let found = folder.json(&[
                "structured",
                "predict",
                data,
                "-m",
                "m.zhat",
                "--marginals",
                "--event",
                event,
            ]);
            let rows = found["rows"].as_array().unwrap();
            assert!(rows.iter().all(|row| row["event"]["guarantee"]["kind"] == "exact"));
            if let Some(marginal) = rows[0]["marginals"].get(event) {
                let p = rows[0]["event"]["log_probability"].as_f64().unwrap().exp();
                assert!((p - marginal.as_f64().unwrap()).abs() < 1e-9, "{}", rows[0]);
            }
            rows.iter().map(|row| row["event"]["log_probability"].as_f64().unwrap()).collect()
        };
        let (a, b, c) = (ask(first), ask(second), ask(third));
        for ((a, b), c) in a.iter().zip(&b).zip(&c) {
            assert!(*a < 0.0 && *b <= a + 1e-12 && *c <= b + 1e-12, "{data}: {a} {b} {c}");
        }
        let printed = folder.ok(&["structured", "predict", data, "-m", "m.zhat", "--event", second]);
        let mut lines = printed.lines();
        assert!(lines.next().unwrap().ends_with(",event"), "{printed}");
        let p: f64 = lines.next().unwrap().rsplit(',').next().unwrap().parse().unwrap();
        assert!((p - b[0].exp()).abs() < 1e-9, "{printed}");
        for wrong in ["L1>nobody", "", "a=b>c"] {
            let ran = folder.run(&["structured", "predict", data, "-m", "m.zhat", "--event", wrong]);
            assert_eq!(ran.status(), 2);
            assert!(ran.stderr().contains("does not know"), "{}", ran.stderr());
        }
    }
}

/// Online training of rankings with ties: the losses are not convex, and there is no bound on the regret.
#[test]
fn partial_rankings_have_no_certified_regret() {
    let folder = Folder::new("structured-partial");
    folder.write("r.csv", &ranks(30).replace(",2,1,3\n", ",1,1,3\n").replace(",1,2,3\n", ",1,1,3\n"));
    let line = "structured train r.csv --space ranking --partial --lambda 0.1 --method online --samples 0 \
                --iterations 3 -o m.zhat";
    let line: Vec<&str> = line.split_whitespace().collect();
    let learned = folder.json(&line);
    let regret = &learned["regret"];
    assert_eq!((&regret["confidence"], &regret["sample_bound"]), (&0.0.into(), &"inf".into()), "{learned}");
    assert_eq!((&learned["gap"], &learned["converged"]), (&learned["objective"], &false.into()));
    let told = folder.ok(&line);
    assert!(told.contains("no bound, since the losses are not convex"), "{told}");
    assert!(told.contains("not convex, so that no bound on its minimum except 0 is known"), "{told}");
}

#[test]
fn runs_repeat_resume_and_cross_validate() {
    let folder = Folder::new("structured-runs");
    folder.write("h.arff", &hierarchy(50));
    let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
    let train = |more: &str| {
        let line = format!("structured train h.arff --space hierarchy {more}");
        folder.ok(&line.split_whitespace().collect::<Vec<_>>())
    };
    let told = train("-o a.zhat --threads 1");
    assert!(told.contains("above its minimum, certified") && told.contains("5 nodes"), "{told}");
    train("-o b.zhat --threads 2");
    assert!(read("a.zhat") == read("b.zhat"));
    train("-o c.zhat --iterations 3 --checkpoint c.ckpt");
    // A checkpoint does not replace the options of the command.
    for other in ["--lambda 0.1", "--lambda 0.1,0.01", "--seed 8"] {
        let line = format!("structured train h.arff --space hierarchy {other} --checkpoint c.ckpt -o d.zhat");
        let refused = folder.run(&line.split_whitespace().collect::<Vec<_>>());
        assert_eq!(refused.status(), 2, "{other}");
        assert!(refused.stderr().contains("checkpoint: belongs to other data"), "{}", refused.stderr());
        assert!(!folder.path().join("d.zhat").exists());
    }
    train("-o c.zhat --checkpoint c.ckpt");
    assert!(read("a.zhat") == read("c.zhat"));
    for method in [
        "--method sampled --samples 4 --iterations 20",
        "--method online --iterations 3",
        "--method online --samples 0 --batch 7 --iterations 3",
    ] {
        let line = format!("structured train h.arff --space hierarchy --lambda 0.1 {method} -o s.zhat");
        let learned = folder.json(&line.split_whitespace().collect::<Vec<_>>());
        assert!(learned["gap"].as_f64().unwrap() > 0.0, "{learned}");
        assert_eq!(learned["confidence"].as_f64().unwrap() < 1.0, method.contains("sampled"), "{learned}");
    }
    let line = "structured cv h.arff --space hierarchy --folds 4 --repeats 2 --write-folds f.csv";
    let found = folder.json(&line.split_whitespace().collect::<Vec<_>>());
    assert_eq!(found["measures"]["au_prc"]["folds"].as_array().unwrap().len(), 8);
    let folds = String::from_utf8(read("f.csv")).unwrap();
    assert_eq!((folds.lines().count(), folds.lines().next()), (101, Some("repeat,line,fold")));
    folder.ok(&["structured", "eval", "h.arff", "-m", "a.zhat", "--reliability", "r.svg"]);
    assert!(String::from_utf8(read("r.svg")).unwrap().contains("predicted probability"));
}

#[test]
fn killed_and_resumed_training_writes_the_same_bytes() {
    let folder = Folder::new("structured-killed");
    folder.write("h.arff", &hierarchy(3000));
    let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
    for (number, method) in [
        "--method batch --gap 0 --iterations 60",
        "--method sampled --gap 0 --iterations 25",
        "--method online --gap 0 --batch 100 --iterations 60",
    ]
    .iter()
    .enumerate()
    {
        let line = format!("structured train h.arff --space hierarchy --lambda 1e-5 --seed 3 {method}");
        let line: Vec<&str> = line.split_whitespace().collect();
        let (whole, model, kept) = (format!("w{number}"), format!("m{number}"), format!("c{number}"));
        folder.ok(&[line.as_slice(), &["-o", &whole]].concat());
        let again = [line.as_slice(), &["-o", &model, "--checkpoint", &kept, "--keep-every", "0"]].concat();
        let mut child = folder.command(&again).stdout(std::process::Stdio::null()).spawn().unwrap();
        let begun = std::time::Instant::now();
        while !folder.path().join(&kept).exists() && begun.elapsed().as_secs() < 60 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!folder.path().join(&model).exists(), "{method}: it had ended before it was killed");
        folder.ok(&again);
        assert!(read(&model) == read(&whole), "{method}");
    }
}

/// A column of weights is no input, and whole weights count as repeated rows.
#[test]
fn weights_count_as_repeated_rows() {
    let folder = Folder::new("structured-weights");
    let text = labels(40);
    let (mut weighted, mut repeated) = (String::new(), String::new());
    for (i, line) in text.lines().enumerate() {
        let weight = if i == 0 { "w".into() } else { (i % 4).to_string() };
        weighted += &format!("{weight},{line}\n");
        repeated += &format!("{line}\n").repeat(if i == 0 { 1 } else { i % 4 });
    }
    folder.write("w.csv", &weighted);
    folder.write("r.csv", &repeated);
    let train = |line: &str| {
        let line = format!("structured train {line} --labels x,y --pairs chow-liu --gap 1e-11");
        folder.json(&line.split_whitespace().collect::<Vec<_>>())
    };
    let (a, b) = (train("w.csv --weights w -o w.zhat"), train("r.csv -o r.zhat"));
    let objective = |told: &serde_json::Value| told["objective"].as_f64().unwrap();
    assert!((objective(&a) - objective(&b)).abs() < 1e-10, "{a} {b}");
    assert_eq!((&a["inputs"], &a["rows"]), (&b["inputs"], &serde_json::json!(40)));
    // The column may be absent from new data, and is ignored if it is there.
    let line = |data: &str| ["structured", "predict", data, "-m", "w.zhat"].map(String::from);
    let predict = |data: &str| folder.ok(&line(data).iter().map(String::as_str).collect::<Vec<_>>());
    folder.write("l.csv", &text);
    assert_eq!(predict("l.csv"), predict("w.csv"));
    let line = "structured cv w.csv --labels x,y --weights w --folds 3 --lambda 0.1,0.01";
    folder.ok(&line.split_whitespace().collect::<Vec<_>>());
}

/// Eighteen labels with all pairs: training by samples, and predictions that state their guarantees.
#[test]
fn dense_label_graphs_are_trained_by_samples() {
    let folder = Folder::new("structured-dense");
    let names: Vec<String> = (0..18).map(|i| format!("l{i}")).collect();
    let mut text = format!("a,{}\n", names.join(","));
    for row in 0..8 {
        let labels = (0..18).map(|i| if (row * 5 + i * 3) % 7 < 2 { "1" } else { "0" });
        text += &format!("{},{}\n", (row as f64).sin(), labels.collect::<Vec<_>>().join(","));
    }
    folder.write("d.csv", &text);
    let line =
        format!("structured train d.csv --labels {} --pairs all --lambda 1 -o m.zhat", names.join(","));
    let line: Vec<&str> = line.split_whitespace().collect();
    let refused = folder.run(&line);
    assert!(refused.status() != 0 && refused.stderr().contains("sampled gradients would work"));
    let more = ["--method", "sampled", "--samples", "4", "--gap", "20", "--iterations", "40"];
    let learned = folder.json(&[line.as_slice(), &more].concat());
    assert!(learned["objective"].is_null() && learned["converged"] == true, "{learned}");
    assert_eq!(learned["confidence"], 0.95);
    let found = folder.json(&["structured", "predict", "d.csv", "-m", "m.zhat"]);
    let first = &found["rows"][0]["predictions"][0];
    assert!(first["guarantee"]["kind"].is_string() && first["choice"]["kind"].is_string(), "{first}");
    let printed = folder.ok(&["structured", "predict", "d.csv", "-m", "m.zhat"]);
    assert!(printed.starts_with("line,prediction,probability,guarantee,choice\n"), "{printed}");
}

/// Twenty items and twenty elements are beyond exact sums.
#[test]
fn long_rankings_and_large_partitions_are_trained_by_samples() {
    let folder = Folder::new("structured-long");
    let n = 20;
    let names: Vec<String> = (0..n).map(|i| format!("i{i}")).collect();
    let (mut ranks, mut blocks) = (format!("a,{}\n", names.join(",")), format!("a,{}\n", names.join(",")));
    for row in 0..6 {
        let place = |i: usize| {
            if i == row {
                row + 2
            } else if i == row + 1 {
                row + 1
            } else {
                i + 1
            }
        };
        let a = (row as f64).sin();
        ranks += &format!("{a},{}\n", (0..n).map(|i| place(i).to_string()).collect::<Vec<_>>().join(","));
        let block = |i: usize| if i == 3 * row { 9 } else { i % 4 };
        blocks += &format!("{a},{}\n", (0..n).map(|i| block(i).to_string()).collect::<Vec<_>>().join(","));
    }
    folder.write("r.csv", &ranks);
    folder.write("p.csv", &blocks);
    for (data, space) in [("r.csv", "ranking --ranking precedence"), ("p.csv", "partition")] {
        let line = format!(
            "structured train {data} --space {space} --labels {} --lambda 0.5 -o m.zhat",
            names.join(",")
        );
        let line: Vec<&str> = line.split_whitespace().collect();
        let refused = folder.run(&line);
        assert!(refused.status() != 0 && refused.stderr().contains("sampled gradients would work"));
        let more = ["--method", "sampled", "--samples", "4", "--gap", "0", "--iterations", "6"];
        let learned = folder.json(&[line.as_slice(), &more].concat());
        assert!(learned["objective"].is_null() && learned["certified"] == true, "{learned}");
        assert_eq!(learned["confidence"], 0.95);
        let several = folder.run(&[line.as_slice(), &more, &["--lambda", "0.5,1"]].concat());
        assert!(several.status() != 0, "{}", several.stderr());
        let found = folder.json(&["structured", "predict", data, "-m", "m.zhat", "--marginals"]);
        let first = &found["rows"][0];
        let one = &first["predictions"][0];
        assert!(one["guarantee"]["kind"].is_string() && one["choice"]["kind"].is_string(), "{one}");
        assert!(one["log_probability"].as_f64().unwrap() < 0.0, "{one}");
        assert_eq!(first["marginals"].as_object().unwrap().len(), n * (n - 1) / 2);
        assert!(first["marginals_error"]["kind"].is_string(), "{first}");
        let measures = folder.json(&["structured", "eval", data, "-m", "m.zhat", "--rows"]);
        let loss = measures["measures"]["log_loss"].as_f64().unwrap();
        assert!(loss > 0.0, "{measures}");
        assert_eq!(measures["guarantee"]["kind"], "heuristic");
        // All rows hold together; every row has its own guarantee.
        let whole = &measures["guarantees"]["log_loss"];
        assert!(whole["kind"] == "exact" || whole["confidence"] == 0.99, "{whole}");
        if whole["kind"] == "bounds" {
            let end = |name: &str, missing: f64| whole[name].as_f64().unwrap_or(missing);
            assert!(end("low", 0.0) <= loss && loss <= end("high", f64::INFINITY), "{whole} {loss}");
        }
        assert!(measures["guarantees"]["marginals_error"]["kind"].is_string());
        assert!(measures["lines"][0]["guarantee"]["kind"].is_string(), "{measures}");
        let text = folder.ok(&["structured", "eval", data, "-m", "m.zhat"]);
        assert!(text.contains("\nlog-loss ") && text.contains("error of the probabilities"), "{text}");
        let rows = folder.ok(&["structured", "eval", data, "-m", "m.zhat", "--rows"]);
        assert!(rows.starts_with("line,log_probability,guarantee\n"), "{rows}");
        let printed = folder.ok(&["structured", "predict", data, "-m", "m.zhat", "--marginals"]);
        assert!(printed.lines().next().unwrap().ends_with(",marginals_error"), "{printed}");
    }
}

/// Batch, sampled and online training of emotions: all gaps and regrets are within their bounds.
#[test]
fn learning_of_emotions_is_compared() {
    if std::env::var_os("ZHAT_DATA").is_none() {
        eprintln!("skipped: the comparison of training methods needs ZHAT_DATA");
        return;
    }
    let folder = Folder::new("structured-learning");
    // The command fails if a regret exceeds its bound.
    let told = folder.ok(&["repro", "structured-learning", "--quick"]);
    assert!(told.starts_with("Emotions: 391 rows, 72 inputs, 6 labels"), "{told}");
    let (gaps, regrets) = told.split_once("Regret of online learning").unwrap();
    // The numbers of the rows of a method.
    let rows = |table: &str, method: &str| -> Vec<Vec<f64>> {
        let own = table.lines().filter(|line| line.starts_with(&format!("| {method}")));
        let cells = |line: &str| line.split('|').filter_map(|cell| cell.trim().parse().ok()).collect();
        own.map(cells).collect()
    };
    for method in
        ["batch, L-BFGS", "sampled, first 1 per", "sampled, first 100", "online, 1", "online, exact"]
    {
        let found = rows(gaps, method);
        assert!(found.len() >= 2, "{method}: {told}");
        for row in &found {
            let &[.., above, gap] = row.as_slice() else { panic!("{told}") };
            // Both are printed with two digits.
            assert!(above <= 1.1 * gap, "{method}: {row:?}");
        }
        if method.starts_with("batch") {
            assert!(found.last().unwrap()[3] <= 1e-9, "{found:?}");
        }
    }
    for method in ["online, 1 sample |", "online, 1 sample, a = 1/2", "online, exact"] {
        for row in rows(regrets, method) {
            let &[_, measured, exact, samples, any] = row.as_slice() else { panic!("{told}") };
            assert!(measured <= samples && exact <= samples && exact <= any, "{method}: {row:?}");
        }
    }
    for name in ["structured-learning.svg", "structured-regret.svg"] {
        let svg = std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(svg.contains("emotions"), "{name}");
    }
}

#[test]
fn mistakes_end_with_status_2_and_write_nothing() {
    let folder = Folder::new("structured-mistakes");
    folder.write("l.csv", &labels(20));
    folder.write("r.csv", &ranks(20).replace("\n0,", "\nzero,"));
    folder.write("empty.csv", "a,x,y\n");
    folder.write("inf.csv", "a,x,y\ninf,1,0\n");
    let arff = "@relation t\n@attribute a numeric\n@attribute l1 {0,1}\n@attribute l2 {0,1}\n@data\n1,0,1\n";
    folder.write("e.arff", arff);
    folder.write("e.xml", "<labels><label name=\"l1\"/><label name=\"l9\"/></labels>");
    folder.write("f.arff", arff);
    folder.write("f.xml", "<labels><label name=\"l1\"/></labels>");
    folder.write("bad.csv", "A1,L1,L2\n1,1,1\n");
    folder.write(
        "h.arff",
        &hierarchy(20).replace("hierarchical 1,", "hierarchical root/1,1/1,").replace("1/2,2,2/1", "2/1"),
    );
    let cases = [
        ("structured train bad.csv --space ranking -o m.zhat", "bad.csv: line 2: column L2 is `1`"),
        ("structured train empty.csv --labels x,y -o m.zhat", "empty.csv: the file has no rows"),
        ("structured train inf.csv --labels x,y -o m.zhat", "inf.csv: line 2: column a is `inf`"),
        ("structured train e.arff -o m.zhat", "e.xml: line 1: the label `l9` is no attribute of e.arff"),
        (
            "structured train f.arff -o m.zhat",
            "f.arff: line 4: the attribute `l2` comes after labels, but f.xml",
        ),
        ("structured train l.csv --labels x,z -o m.zhat", "l.csv: line 1: there is no column `z` of targets"),
        ("structured train l.csv -o m.zhat", "no target columns"),
        ("structured train l.csv --labels x,y --lambda 0 -o m.zhat", "--lambda: expected numbers above 0"),
        ("structured train l.csv --labels x,y --pairs some -o m.zhat", "--pairs: expected none, chow-liu"),
        ("structured train h.arff --space hierarchy -o m.zhat", "trees only"),
        (
            "structured train l.csv --labels x,y --weights b -o m.zhat",
            "l.csv: line 4: column b: the weight is -0.",
        ),
        ("structured train l.csv --labels x,y --weights a -o m.zhat", "column a: the weight is missing"),
        ("structured train l.csv --labels x,y --weights colour -o m.zhat", "column colour is categorical"),
        ("structured train l.csv --labels x,y --weights z -o m.zhat", "no input column `z` with weights"),
        ("structured train l.csv --labels x,y -o -", "-o: stdout has the summary"),
        ("structured predict l.csv -m l.csv", "not a whole .zhat file"),
        (
            "structured train l.csv --labels x,y --method sampled --samples 0 -o m.zhat",
            "samples: 0 is out of range",
        ),
    ];
    for (line, want) in cases {
        let ran = folder.run(&line.split_whitespace().collect::<Vec<_>>());
        assert_eq!(ran.status(), 2, "{line}: {}", ran.stderr());
        assert!(ran.stderr().contains(want), "{line}: {}", ran.stderr());
        assert!(!folder.path().join("m.zhat").exists(), "{line}");
    }
    folder.ok(&["structured", "train", "l.csv", "--labels", "x,y", "-o", "m.zhat"]);
    folder.write("new.csv", "a,b,colour\n1,2,pink\n");
    let ran = folder.run(&["structured", "predict", "new.csv", "-m", "m.zhat"]);
    assert_eq!(ran.status(), 2);
    assert!(
        ran.stderr().contains("new.csv: line 2: column colour: the model does not know the category `pink`"),
        "{}",
        ran.stderr()
    );
    folder.write("fine.csv", "colour,b,a\nred,2,1\n");
    assert_eq!(folder.ok(&["structured", "predict", "fine.csv", "-m", "m.zhat"]).lines().count(), 2);
    // A single class and a constant input are no mistakes.
    folder.write("same.csv", "a,x,y\n1,1,0\n1,1,0\n");
    folder.ok(&["structured", "train", "same.csv", "--labels", "x,y", "-o", "same.zhat"]);
    // Too few inputs.
    folder.write("few.csv", "a,b\n1,2\n");
    let few = folder.run(&["structured", "predict", "few.csv", "-m", "m.zhat"]);
    assert_eq!(few.status(), 2);
    assert!(few.stderr().contains("few.csv") && few.stderr().contains("colour"), "{}", few.stderr());
    let other = folder.run(&["structured", "predict", "fine.csv", "-m", "m.zhat", "--decision", "kendall"]);
    assert_eq!(other.status(), 2);
    let model = folder.run(&["logz", "m.zhat"]);
    assert_eq!(model.status(), 2, "{}", model.stderr());
}
