//! `zhat part` and `zhat merge`.

use crate::support::{Folder, SPRINKLER};

/// The commands of a plan, without the name of the program.
fn commands(folder: &Folder, args: &[&str]) -> Vec<Vec<String>> {
    let text = folder.ok(args);
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<String>>();
    text.lines().map(|line| words(line.strip_prefix("zhat ").unwrap())).collect()
}

fn run_all(folder: &Folder, commands: &[Vec<String>]) -> Vec<String> {
    commands
        .iter()
        .rev()
        .map(|words| {
            folder.ok(&words.iter().map(String::as_str).collect::<Vec<_>>());
            words.last().unwrap().clone()
        })
        .collect()
}

#[test]
fn merged_parts_print_what_one_run_prints() {
    let folder = Folder::new("parts");
    folder.ok(&["generate", "ising", "--rows", "6", "--columns", "6", "-o", "grid.uai"]);
    let options = ["--method", "wmb-is", "--set", "i_bound=1,samples=4000", "--seed", "5"];
    let plan = [&["part", "logz", "grid.uai"][..], &options, &["--plan", "5"]].concat();
    let plan = commands(&folder, &plan);
    assert_eq!(plan.len(), 5);
    let files = run_all(&folder, &plan);
    let merge: Vec<&str> = ["merge"].into_iter().chain(files.iter().map(String::as_str)).collect();
    let merged = folder.json(&merge);
    let whole = folder.json(&[&["logz", "grid.uai", "--memory", "4GiB"][..], &options].concat());
    for member in ["value", "guarantee", "method", "seed", "query"] {
        assert_eq!(merged[member], whole[member], "{member}");
    }
    // Text, from another folder, with the model named.
    std::fs::rename(folder.path().join("grid.uai"), folder.path().join("moved.uai")).unwrap();
    let ran = folder.run(&merge);
    assert_eq!(ran.status(), 2);
    assert!(
        ran.stderr().contains("the parts were made from grid.uai, which is not here"),
        "{}",
        ran.stderr()
    );
    let text = folder.ok(&[&merge[..], &["--model", "moved.uai"]].concat());
    assert!(text.contains("wmb-is"), "{text}");
    // A missing part is named with its range, and a plan has no more parts than units.
    let ran = folder.run(&["merge", &files[0], "--model", "moved.uai"]);
    assert_eq!(ran.status(), 2);
    assert!(ran.stderr().contains("of 32 are missing; compute them with --range 0.."), "{}", ran.stderr());
    let plan = [&["part", "logz", "moved.uai"][..], &options, &["--plan", "100"]].concat();
    assert_eq!(commands(&folder, &plan).len(), 32);
    // Without a range, the number of units.
    let text = folder.ok(&[&["part", "logz", "moved.uai"][..], &options].concat());
    assert!(text.starts_with("units     32\n"), "{text}");
}

/// Uniform samples of a space end when the interval is narrow enough: the plan is an estimate.
#[test]
fn a_plan_of_a_method_that_ends_itself_covers_what_it_needs() {
    let folder = Folder::new("parts-space");
    folder.ok(&["generate", "permutation", "--size", "6", "--seed", "3", "-o", "space.zhat"]);
    let options = ["--method", "importance", "--set", "error=0.05"];
    let all = [&["part", "logz", "space.zhat"][..], &options].concat();
    assert!(folder.ok(&all).contains("(at most 67108864)"));
    let files = run_all(&folder, &commands(&folder, &[&all[..], &["--plan", "3"]].concat()));
    let merged = folder.json(&["merge", &files[0], &files[1], &files[2]]);
    let whole = folder.json(&[&["logz", "space.zhat"][..], &options].concat());
    assert_eq!(merged["value"], whole["value"]);
    assert_eq!(merged["guarantee"], whole["guarantee"]);
    // Files are in the order in which they were made, the last first.
    let ran = folder.run(&["merge", &files[0]]);
    assert_eq!(ran.status(), 2);
    assert!(ran.stderr().contains("are missing; compute them with --range 0.."), "{}", ran.stderr());
}

#[test]
fn evidence_is_a_part_of_the_task() {
    let folder = Folder::new("parts-evidence");
    folder.write("rain.uai", SPRINKLER);
    let plan = [
        "part",
        "logz",
        "rain.uai",
        "--given",
        "x3=1",
        "--method",
        "importance",
        "--set",
        "samples=640",
        "--plan",
        "2",
    ];
    let plan = commands(&folder, &plan);
    assert!(plan[0].contains(&"--given".to_owned()), "{plan:?}");
    let files = run_all(&folder, &plan);
    let merged = folder.json(&["merge", &files[0], &files[1]]);
    let options = ["--given", "x3=1", "--method", "importance", "--set", "samples=640"];
    let whole = folder.json(&[&["logz", "rain.uai"][..], &options].concat());
    assert_eq!(merged["value"], whole["value"]);
}

#[test]
fn mistakes_about_parts_are_named() {
    let folder = Folder::new("parts-mistakes");
    folder.write("rain.uai", SPRINKLER);
    folder.write("no.part", "text");
    for (args, status, message) in [
        (
            &["part", "logz", "rain.uai", "--method", "elimination"] as &[&str],
            2,
            "these methods can: conditioning, enumeration",
        ),
        (&["part", "logz", "rain.uai"], 2, "`auto` cannot divide the work"),
        (
            &["part", "logz", "rain.uai", "--method", "importance", "--range", "8..4"],
            2,
            "whose end is larger than its start",
        ),
        (
            &["part", "logz", "rain.uai", "--method", "importance", "--range", "30..40", "-o", "p.part"],
            2,
            "within 0..32",
        ),
        (
            &["part", "logz", "rain.uai", "--method", "importance", "--range", "0..4"],
            2,
            "-o: is needed with --range",
        ),
        (&["part", "entropy", "rain.uai", "--method", "wmb-is"], 2, "cannot divide the work of entropy"),
        (&["merge", "no.part"], 2, "no.part"),
        (&["merge", "absent.part"], 2, "absent.part"),
    ] {
        let ran = folder.run(args);
        assert_eq!(ran.status(), status, "{args:?}: {}", ran.stderr());
        assert!(ran.stderr().contains(message), "{args:?}: {}", ran.stderr());
    }
    assert!(!folder.path().join("p.part").exists());
}
