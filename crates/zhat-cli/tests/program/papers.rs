//! `zhat repro`: tables of the papers.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::support::Folder;

/// The first table, of trees. The program is stopped before the chains, which take much longer.
#[test]
fn table_2_has_the_errors_on_trees_beside_those_of_the_paper() {
    let folder = Folder::new("repro-rdp-table2");
    let mut command = folder.command(&["repro", "rdp-table2", "--quick", "--runs", "2"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut table = Vec::new();
    for line in lines {
        // The last row.
        let last = line.starts_with("| threshold, K = 400, local");
        table.push(line);
        if last {
            break;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let cells = |name: &str| -> Vec<&str> {
        let row = table.iter().find(|line| line.starts_with(&format!("| {name}"))).unwrap();
        row.split('|').map(str::trim).skip(2).take(3).collect()
    };
    let ours = |cell: &str| -> f64 { cell.split(' ').next().unwrap().parse().unwrap() };
    assert!(table.iter().any(|line| line.starts_with("Trees, N = 2000, T = 15: log Z")), "{table:?}");
    // Top K is deterministic; the paper's value is in parentheses.
    let top = cells("top K = 500 (25%)");
    assert!(top[0].ends_with("(36.127)") && (30.0..90.0).contains(&ours(top[0])), "{top:?}");
    // Eq. 18 is biased, and its error does not fall with K; that of all products does.
    let [few, many] = ["10", "200"].map(|half| cells(&format!("paper, K₁ = K₂ = {half}, all products")));
    assert!(ours(many[0]) < 1.0 && ours(many[0]) < ours(few[0]), "{few:?} {many:?}");
    let printed = cells("paper, K₁ = K₂ = 200, Eq. 18");
    assert!(ours(printed[0]) > 50.0 && printed[0].ends_with("(0.445)"), "{printed:?}");
    for chosen in [20, 200, 400] {
        let threshold = cells(&format!("threshold, K = {chosen}, local"));
        assert!(threshold.iter().all(|cell| ours(cell) < 1e-20), "{threshold:?}");
    }
}

/// A program that prints its arguments stands for `zhat-vae`.
#[test]
#[cfg(unix)]
fn table_5_and_figure_2_are_run_by_zhat_vae() {
    use std::os::unix::fs::PermissionsExt;

    let folder = Folder::new("repro-zhat-vae");
    let told = |path: &std::path::Path, arguments: &[&str]| {
        let output = folder.command(arguments).env("PATH", path).output().unwrap();
        let [out, errors] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        (output.status.code().unwrap(), out, errors)
    };
    // Nothing in PATH.
    let programs = folder.path().join("programs");
    std::fs::create_dir(&programs).unwrap();
    let (status, _, errors) = told(&programs, &["repro", "rdp-table5", "--quick"]);
    assert_ne!(status, 0);
    assert!(errors.contains("cargo install --path neural/zhat-vae"), "{errors}");
    // A program first in PATH.
    let program = programs.join("zhat-vae");
    std::fs::write(&program, "#!/bin/sh\nfor x in \"$@\"; do echo \"$x\"; done\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let passed = |arguments: &[&str]| {
        let (status, out, errors) = told(&programs, arguments);
        assert_eq!(status, 0, "{arguments:?}: {errors}");
        out.lines().map(str::to_owned).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        passed(&["repro", "rdp-table5", "--seed", "3"]),
        "repro rdp-table5 --output . --seed 3 --results ./rdp-table5.jsonl"
    );
    let more = ["--device", "cuda", "--seconds", "60", "--only", "two-pass RDP-2000"];
    assert_eq!(
        passed(&[&["repro", "rdp-fig2", "--quick", "--threads", "2", "-o", "out", "--"][..], &more].concat()),
        "repro rdp-fig2 --output out --seed 0 --results out/rdp-fig2-quick.jsonl --quick --threads 2 --device cuda \
         --seconds 60 --only two-pass RDP-2000"
    );
    // What is given after -- is not passed twice, and nothing is passed that --print refuses.
    assert_eq!(
        passed(&["repro", "rdp-table5", "--", "--print", "--results=here.jsonl"]),
        "repro rdp-table5 --output . --print --results=here.jsonl"
    );
    // Its failure is a failure; other experiments take no further options.
    std::fs::write(&program, "#!/bin/sh\nexit 3\n").unwrap();
    let (status, _, errors) = told(&programs, &["repro", "rdp-fig2"]);
    assert!(status != 0 && errors.contains("zhat-vae repro rdp-fig2"), "{errors}");
    let (status, _, errors) = told(&programs, &["repro", "rdp-table4", "--", "--device", "cuda"]);
    assert!(status != 0 && errors.contains("rdp-table5"), "{errors}");
}
