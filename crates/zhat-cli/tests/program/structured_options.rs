//! `zhat structured`: options of pairs, progress, and files that do not fit.

use crate::support::Folder;

/// Three labels that depend on the input.
fn labels(rows: usize) -> String {
    let mut text = String::from("a,x,y,z\n");
    for i in 0..rows {
        let a = (i as f64 * 0.7).sin();
        let z = u8::from(a > 0.4) ^ u8::from(i % 5 == 0);
        text += &format!("{a},{},{},{z}\n", u8::from(a > 0.0), u8::from(i % 3 == 0 || a > 0.5));
    }
    text
}

const ARFF: &str = "@relation t\n@attribute a numeric\n@attribute colour {red,green}\n\
                    @attribute class hierarchical 1,1/1,1/2,2\n@data\n";

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[test]
fn pairs_come_from_a_file_or_extend_the_tree() {
    let folder = Folder::new("structured-pairs");
    folder.write("l.csv", &labels(40));
    folder.write("some.txt", "x, y # names\n\n1 2\n");
    folder.write("all.txt", "x z\ny,z\nx y\n");
    folder.write("wrong.txt", "x y\nx q\n");
    let train = |pairs: &str, model: &str| {
        let line = format!("structured train l.csv --labels x,y,z --pairs {pairs} -o {model}");
        folder.json(&words(&line))["pairs"].as_u64().unwrap()
    };
    let same = |a: &str, b: &str| {
        let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
        read(a) == read(b)
    };
    assert_eq!(train("all", "all.zhat"), 3);
    assert_eq!(train("all.txt", "file.zhat"), 3);
    assert!(same("all.zhat", "file.zhat"));
    assert_eq!(train("some.txt", "some.zhat"), 2);
    assert!(!same("some.zhat", "all.zhat"));
    // A tree of three labels has two edges, and there is only one more pair.
    assert_eq!(train("chow-liu", "tree.zhat"), 2);
    assert_eq!(train("chow-liu+0", "zero.zhat"), 2);
    assert_eq!(train("chow-liu+1", "more.zhat"), 3);
    assert_eq!(train("chow-liu+9", "most.zhat"), 3);
    assert!(same("tree.zhat", "zero.zhat") && same("more.zhat", "all.zhat") && same("most.zhat", "all.zhat"));
    for (pairs, want) in [
        ("wrong.txt", "wrong.txt: line 2: there is no column `q`"),
        ("chow-liu+", "--pairs: expected none, chow-liu"),
        ("chow-liu+-1", "--pairs: expected none, chow-liu"),
    ] {
        let line = format!("structured train l.csv --labels x,y,z --pairs {pairs} -o no.zhat");
        let ran = folder.run(&words(&line));
        assert_eq!(ran.status(), 2, "{pairs}: {}", ran.stderr());
        assert!(ran.stderr().contains(want), "{pairs}: {}", ran.stderr());
        assert!(!folder.path().join("no.zhat").exists());
    }
}

/// Pairs of siblings: those of a file are used as they are, a tree has one edge less than each family.
#[test]
fn pairs_of_siblings_are_chosen_by_family() {
    let folder = Folder::new("structured-siblings");
    let mut text = String::from("a,class\n");
    for i in 0..60 {
        let class = ["r/a@r/b", "r/b@r/c", "s/d@s/e", "r/a", "s@r/c", "s/d@s/e@s/f"][(7 * i + i / 6) % 6];
        text += &format!("{},{class}\n", (i as f64).sin());
    }
    folder.write("h.csv", &text);
    folder.write("pairs.txt", "r/a r/b\ns/d s/f\n");
    for (pairs, count) in [
        ("none", 0),
        ("chow-liu", 1 + 2 + 2),
        ("chow-liu+1", 1 + 3 + 3),
        ("all", 1 + 3 + 3),
        ("pairs.txt", 2),
    ] {
        let line = format!("structured train h.csv --space hierarchy --pairs {pairs} --lambda 0.1 -o m.zhat");
        let learned = folder.json(&words(&line));
        assert_eq!(learned["pairs"], count, "{pairs}");
        assert_eq!(learned["converged"], true, "{pairs}: {learned}");
    }
}

#[test]
fn progress_and_history_show_objective_and_gap_of_every_step() {
    let folder = Folder::new("structured-progress");
    folder.write("l.csv", &labels(40));
    let line = "structured train l.csv --labels x,y,z --pairs all --progress-every 0 -o m.zhat --json";
    let ran = folder.run(&words(line));
    assert_eq!(ran.status(), 0, "{}", ran.stderr());
    let learned: serde_json::Value = serde_json::from_str(&ran.stdout()).unwrap();
    let history = learned["history"].as_array().unwrap();
    assert_eq!(history.len() as u64, learned["steps"].as_u64().unwrap());
    let told = ran.stderr();
    let told: Vec<&str> = told.lines().filter(|line| line.starts_with("step ")).collect();
    assert_eq!(told.len(), history.len());
    let mut last = f64::INFINITY;
    for (at, (step, line)) in history.iter().zip(&told).enumerate() {
        let (objective, gap) = (step["objective"].as_f64().unwrap(), step["gap"].as_f64().unwrap());
        assert_eq!((step["step"].as_u64(), &step["certified"]), (Some(at as u64 + 1), &true.into()));
        assert!(objective <= last);
        last = objective;
        let want = format!("step {}: objective {objective:.6}, certified gap {gap:.1e}, about ", at + 1);
        assert!(line.starts_with(&want) && line.ends_with(" left"), "{line}\n{want}");
    }
    let end = history.last().unwrap();
    assert_eq!((&end["objective"], &end["gap"]), (&learned["objective"], &learned["gap"]));
    // Without the option, a short run is silent.
    let ran = folder.run(&words("structured train l.csv --labels x,y,z -o m.zhat"));
    assert!(!ran.stderr().contains("step "), "{}", ran.stderr());
    // The same for samples.
    let line = "structured train l.csv --labels x,y,z --method sampled --samples 4 --lambda 1 --iterations 3 \
                --progress-every 0 -o m.zhat --json";
    let ran = folder.run(&words(line));
    let learned: serde_json::Value = serde_json::from_str(&ran.stdout()).unwrap();
    assert_eq!(learned["history"].as_array().unwrap().len(), 3, "{learned}");
    assert_eq!(ran.stderr().lines().filter(|line| line.starts_with("step ")).count(), 3);
}

/// The confidence of the gap of sampled training is 1 − δ, and a larger δ gives a smaller gap at the first step.
#[test]
fn the_probability_that_a_sampled_gap_fails_is_an_option() {
    let folder = Folder::new("structured-failure");
    folder.write("l.csv", &labels(40));
    let line = |failure: &str| {
        format!(
            "structured train l.csv --labels x,y,z --method sampled --lambda 1 --iterations 1 {failure} -o m.zhat"
        )
    };
    let gap = |failure: &str, confidence: f64| {
        let learned = folder.json(&words(&line(failure)));
        assert!((learned["confidence"].as_f64().unwrap() - confidence).abs() < 1e-12, "{learned}");
        learned["gap"].as_f64().unwrap()
    };
    let (usual, rare) = (gap("", 0.95), gap("--failure 0.000001", 0.999999));
    assert!(usual < rare && gap("--failure 0.4", 0.6) < usual);
    for wrong in ["0", "1", "-0.5", "NaN"] {
        let ran = folder.run(&words(&line(&format!("--failure={wrong}"))));
        assert_eq!(ran.status(), 2, "{wrong}: {}", ran.stderr());
        assert!(
            ran.stderr().contains("failure") && ran.stderr().contains("above 0 and below 1"),
            "{}",
            ran.stderr()
        );
    }
}

#[test]
fn files_of_another_kind_are_refused() {
    let folder = Folder::new("structured-kinds");
    folder.write("l.csv", &labels(20));
    folder.ok(&words("generate ising --rows 3 --columns 3 -o grid.zhat"));
    folder.ok(&words("structured train l.csv --labels x,y,z -o m.zhat"));
    folder.ok(&words("structured train l.csv --labels x,y,z --iterations 2 --checkpoint c.ckpt -o n.zhat"));
    let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
    let (grid, model) = (read("grid.zhat"), read("m.zhat"));
    let cases = [
        ("structured predict l.csv -m grid.zhat -o out.csv", "grid.zhat: ", "expected `predictor`"),
        ("structured eval l.csv -m grid.zhat --reliability out.svg", "grid.zhat: ", "expected `predictor`"),
        ("structured predict l.csv -m c.ckpt -o out.csv", "`predictor-checkpoint`", "expected `predictor`"),
        (
            "structured train l.csv --labels x,y,z --checkpoint grid.zhat -o out.zhat",
            "grid.zhat: ",
            "expected `predictor-checkpoint`",
        ),
        (
            "structured train l.csv --labels x,y,z --checkpoint m.zhat -o out.zhat",
            "a file of kind `predictor`",
            "expected `predictor-checkpoint`",
        ),
    ];
    for (line, what, want) in cases {
        let ran = folder.run(&words(line));
        assert_eq!(ran.status(), 2, "{line}: {}", ran.stderr());
        assert!(ran.stderr().contains(what) && ran.stderr().contains(want), "{line}: {}", ran.stderr());
        for name in ["out.csv", "out.svg", "out.zhat"] {
            assert!(!folder.path().join(name).exists(), "{line}: {name}");
        }
    }
    assert!(read("grid.zhat") == grid && read("m.zhat") == model);
}

#[test]
fn mistakes_in_files_are_located() {
    let folder = Folder::new("structured-files");
    let arff = |rows: &str| format!("{ARFF}{rows}");
    folder.write("empty.arff", &arff("% no rows\n\n"));
    folder.write("colour.arff", &arff("1,red,1\n2,blue,1/1\n"));
    folder.write("class.arff", &arff("1,red,1\n2,green,3/1\n"));
    folder.write("none.svm", "# no rows\n\n");
    folder.write("label.svm", "1,2 1:0.5\n1,x 2:1\n");
    folder.write("fine.arff", &arff("1,red,1\n2,green,1/1\n3,red,2@1/2\n"));
    folder.write("fine.svm", "1,2 1:0.5 3:1\n2 2:1\n1 1:2\n");
    let train = [
        ("empty.arff --space hierarchy", "empty.arff: the file has no rows"),
        (
            "colour.arff --space hierarchy",
            "colour.arff: line 7: column colour is `blue`, expected one of red, green",
        ),
        (
            "class.arff --space hierarchy",
            "class.arff: line 7: column class: the class `3/1` is not in the hierarchy",
        ),
        ("none.svm", "none.svm: "),
        ("label.svm", "label.svm: line 2: `x` is no label number"),
        ("fine.svm --space hierarchy", "fine.svm: line 1: a libsvm file has labels"),
    ];
    for (data, want) in train {
        let ran = folder.run(&words(&format!("structured train {data} -o m.zhat")));
        assert_eq!(ran.status(), 2, "{data}: {}", ran.stderr());
        assert!(ran.stderr().contains(want), "{data}: {}", ran.stderr());
        assert!(!folder.path().join("m.zhat").exists(), "{data}");
    }
    folder.ok(&words("structured train fine.arff --space hierarchy -o h.zhat"));
    folder.ok(&words("structured train fine.svm -o s.zhat"));
    folder.write("later.arff", &arff("1,blue,1\n").replace("{red,green}", "{red,blue}"));
    folder.write("other.arff", &arff("1,red,1\n2,red,2/1\n").replace("1/2,2\n", "1/2,2,2/1\n"));
    folder.write("other.csv", "a,colour,class\n1,red,1\n2,red,1/9\n");
    folder.write("label.svm", "1 1:1\n9 2:1\n");
    folder.write("input.svm", "1 1:1\n2 4:1\n");
    let used = [
        (
            "later.arff -m h.zhat",
            "later.arff: line 6: column colour: the model does not know the category `blue`",
        ),
        ("empty.arff -m h.zhat", "empty.arff: the file has no rows"),
        ("other.arff -m h.zhat", "other.arff: line 7: column class: the class `2/1` is not in the hierarchy"),
        ("other.csv -m h.zhat", "other.csv: line 3: column class: the class `1/9` is not in the hierarchy"),
        ("label.svm -m s.zhat", "label.svm: line 2: the model does not know the label `9`"),
        ("input.svm -m s.zhat", "input.svm: line 2: `4:1`: there are only 3 inputs"),
    ];
    for (data, want) in used {
        for command in ["predict", "eval"] {
            let output = if command == "predict" { "-o" } else { "--reliability" };
            let ran = folder.run(&words(&format!("structured {command} {data} {output} out")));
            assert_eq!(ran.status(), 2, "{command} {data}: {}", ran.stderr());
            assert!(ran.stderr().contains(want), "{command} {data}: {}", ran.stderr());
            assert!(!folder.path().join("out").exists(), "{command} {data}");
        }
    }
}

/// A command that fails leaves no output, and an earlier one as it was.
#[test]
fn commands_that_fail_write_nothing() {
    let folder = Folder::new("structured-nothing");
    folder.write("l.csv", &labels(20));
    folder.write("inputs.csv", "a\n0.5\n");
    folder.ok(&words("structured train l.csv --labels x,y,z -o m.zhat"));
    // Training fails: tables of 2^20 entries per row.
    let names: Vec<String> = (0..20).map(|i| format!("l{i}")).collect();
    let row = |i: usize| (0..20).map(|j| ((i + j) % 3 / 2).to_string()).collect::<Vec<_>>().join(",");
    let rows: String = (0..6).map(|i| format!("{i},{}\n", row(i))).collect();
    folder.write("wide.csv", &format!("a,{}\n{rows}", names.join(",")));
    let wide = format!("wide.csv --labels {} --pairs all", names.join(","));
    let cases = [
        ("structured predict l.csv -m m.zhat --decision kendall -o out".into(), 2),
        ("structured predict l.csv -m m.zhat --event nobody -o out".into(), 2),
        ("structured eval inputs.csv -m m.zhat --reliability out".into(), 2),
        ("structured eval l.csv -m m.zhat --decision kendall --reliability out".into(), 2),
        ("structured cv l.csv --labels x,y,z --folds 3 --decision kendall --write-folds out".into(), 2),
        ("structured cv l.csv --labels x,y,z --folds 50 --write-folds out".into(), 2),
        (format!("structured cv {wide} --folds 2 --write-folds out"), 1),
        (format!("structured train {wide} -o out"), 1),
    ];
    for (line, status) in &cases {
        let ran = folder.run(&words(line));
        assert_eq!(ran.status(), *status, "{line}: {}", ran.stderr());
        assert!(!folder.path().join("out").exists(), "{line}");
        folder.write("out", "earlier");
        folder.run(&words(line));
        let kept = std::fs::read_to_string(folder.path().join("out")).unwrap();
        assert_eq!(kept, "earlier", "{line}");
        std::fs::remove_file(folder.path().join("out")).unwrap();
    }
    folder.ok(&words("structured cv l.csv --labels x,y,z --folds 3 --write-folds out"));
    assert!(folder.path().join("out").exists());
}

/// Partial rankings of 20 items: their probabilities under Mallows are shares of samples, and say so.
#[test]
fn probabilities_of_long_partial_rankings_have_intervals() {
    let folder = Folder::new("structured-long-partial");
    let n = 20;
    let names: Vec<String> = (0..n).map(|i| format!("L{i}")).collect();
    let header = format!("A1,{}\n", names.join(","));
    let row = |swap: usize, most: usize| {
        let place = |i: usize| {
            if i == swap {
                swap + 1
            } else if i == swap + 1 {
                swap
            } else {
                i
            }
        };
        let shown = |i: usize| if place(i) < most { (place(i) + 1).to_string() } else { String::new() };
        (0..n).map(shown).collect::<Vec<_>>().join(",")
    };
    let whole: String = (0..12).map(|i| format!("{},{}\n", i % 3, row(i, n))).collect();
    folder.write("whole.csv", &format!("{header}{whole}"));
    // The first two of two items, nothing, and a whole ranking.
    let part = format!("0,{}\n1,{}\n2,{}\n", row(9, 2), row(9, 0), row(3, n));
    folder.write("part.csv", &format!("{header}{part}"));
    folder.ok(&words("structured train whole.csv --space ranking --ranking mallows --lambda 0.1 -o m.zhat"));
    let found = folder.json(&words("structured eval part.csv --partial -m m.zhat --rows"));
    let lines = found["lines"].as_array().unwrap();
    let log = |at: usize| lines[at]["log_probability"].as_f64().unwrap();
    let interval = &lines[0]["guarantee"];
    assert_eq!((&interval["kind"], &interval["confidence"]), (&"bounds".into(), &0.99.into()), "{found}");
    assert!(interval["low"].as_f64().unwrap() <= log(0) && log(0) <= interval["high"].as_f64().unwrap());
    assert_eq!((log(1), &lines[1]["guarantee"]["kind"]), (0.0, &"exact".into()));
    assert_eq!(lines[2]["guarantee"]["kind"], "exact");
    assert_eq!(
        (&found["guarantee"]["kind"], &found["guarantees"]["log_loss"]["kind"]),
        (&"heuristic".into(), &"bounds".into())
    );
    // Training with such rows is refused.
    let line = "structured train part.csv --partial --space ranking --ranking precedence -o n.zhat";
    let ran = folder.run(&words(line));
    assert!(ran.status() != 0 && !folder.path().join("n.zhat").exists(), "{}", ran.stderr());
}
